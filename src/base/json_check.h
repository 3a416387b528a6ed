/* base/json_check.h - checks that a text is one JSON value (RFC 8259, UTF-8). Iterative: depth costs no
 * stack. */
#ifndef MTP_BASE_JSON_CHECK_H
#define MTP_BASE_JSON_CHECK_H
#include <stdbool.h>
#include <stddef.h>

/* false: *wrong_at is the offset of the first invalid byte (or the length, if the text ends too early). */
bool mtp__json_check(const char *text, size_t length, size_t *wrong_at);
#endif
