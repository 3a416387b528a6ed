/* base/error.h - status codes with a per-thread story. Cold paths only. */
#ifndef MTP_BASE_ERROR_H
#define MTP_BASE_ERROR_H
#include <mtprof.h>

mtp_status mtp__fail(mtp_status status, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));
void mtp__note(const char *where, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

/* MTP_FAIL starts a story at the point of failure; MTP_NOTE adds what a caller was doing. */
#define MTP_FAIL(status, ...) mtp__fail((status), __func__, __VA_ARGS__)
#define MTP_NOTE(...) mtp__note(__func__, __VA_ARGS__)
#endif
