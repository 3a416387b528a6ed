/* base/json_check.h - is this text one JSON value (RFC 8259, UTF-8)? Iterative: depth costs no stack. */
#ifndef MTP_BASE_JSON_CHECK_H
#define MTP_BASE_JSON_CHECK_H
#include <stdbool.h>
#include <stddef.h>

/* false: *wrong_at is the offset of the first byte that cannot be there (or the length, if it ends too early). */
bool mtp__json_check(const char *text, size_t length, size_t *wrong_at);
#endif
