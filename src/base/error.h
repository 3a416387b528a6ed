/* base/error.h - status codes, and a per-thread message saying what failed. Cold paths only.
 *
 * The message is for users. Its form, everywhere:
 *
 *     what they named: what is wrong with it; what to do
 *     run.json.gz: byte 4711 of the decompressed content: expected ',' or ']' after an event, not 'x'
 *     run.json.gz: out of memory: no room for 65603 events; ...
 *
 * With mtp__reason(errno) among the arguments, mtp_last_error_number() gives the number. The message names no
 * function of ours: which one failed, and its callers, are in the trail, for developers.
 */
#ifndef MTP_BASE_ERROR_H
#define MTP_BASE_ERROR_H
#include <mtprof.h>

mtp_status mtp__fail(mtp_status status, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));
void mtp__note(const char *where, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
void mtp__advise(const char *fmt, ...) __attribute__((format(printf, 1, 2), cold));

/* MTP_FAIL says what is wrong, at the point of failure; with MTP_E_NOMEM: what could not be allocated.
 * MTP_NOTE prepends what a caller was working on: the file, the step. mtp__advise adds what to do. */
#define MTP_FAIL(status, ...) mtp__fail((status), __func__, __VA_ARGS__)
#define MTP_NOTE(...) mtp__note(__func__, __VA_ARGS__)
#endif
