/* base/error.c - the last error: fixed storage, so reporting OOM cannot itself fail. */
#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/budget.h"
#include "base/plain.h"

#define TEXT_BYTES ((size_t)832) /* includes the trail: Python loads us late, when TLS space is scarce */
#define TRAIL_BYTES ((size_t)128)

static _Thread_local char text[TEXT_BYTES], trail[TRAIL_BYTES];
static _Thread_local int number;

static void add(char *to, size_t room, const char *before, const char *what)
{
    size_t length = strlen(to);
    snprintf(to + length, room - length, "%s%s", length > 0 ? before : "", what);
}

/* Prepends; the end is truncated if it no longer fits. */
static void put_first(const char *what)
{
    size_t front = strlen(what), length = strlen(text);
    front = front < TEXT_BYTES ? front : TEXT_BYTES - 1;
    length = length < TEXT_BYTES - front ? length : TEXT_BYTES - front - 1;
    memmove(text + front, text, length);
    memcpy(text, what, front);
    text[front + length] = 0;
}

static const char *limit_text(char *to, size_t room)
{
    double bytes = (double)mtp__budget_limit();
    mtp__format(to, room, "over the memory limit of %.1f %s: no room for ",
                bytes < 1e6   ? bytes / 1e3
                : bytes < 1e9 ? bytes / 1e6
                              : bytes / 1e9,
                bytes < 1e6   ? "kB"
                : bytes < 1e9 ? "MB"
                              : "GB");
    return to;
}

mtp_status mtp__fail(mtp_status status, const char *where, const char *fmt, ...)
{
    char what[TEXT_BYTES]; /* the old text may be among the arguments */
    va_list args;
    va_start(args, fmt);
    mtp__format_list(what, sizeof what, fmt, args);
    va_end(args);
    number = mtp__reason_number();
    text[0] = 0;
    put_first(what);
    if (status == MTP_E_NOMEM)
        put_first(mtp__budget_exceeded() ? limit_text(what, sizeof what) : "out of memory: no room for ");
    if (status == MTP_E_NOMEM && mtp__budget_exceeded())
        mtp__advise("allow more with --max-memory, MTPROF_MAX_MEMORY or max_memory, or record less");
    snprintf(trail, sizeof trail, "%s", where);
    return status;
}

void mtp__note(const char *where, const char *fmt, ...)
{
    char what[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    mtp__format_list(what, sizeof what - 2, fmt, args);
    va_end(args);
    add(what, sizeof what, ": ", "");
    put_first(what);
    add(trail, sizeof trail, " < ", where);
}

void mtp__advise(const char *fmt, ...)
{
    char what[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    mtp__format_list(what, sizeof what, fmt, args);
    va_end(args);
    add(text, sizeof text, "; ", what);
}

const char *mtp_last_error(void)
{
    return text;
}

int mtp_last_error_number(void)
{
    return number;
}

const char *mtp_last_error_trail(void)
{
    return trail;
}

const char *mtp_status_text(mtp_status status)
{
    switch (status) {
#define X(sym, value, words)                                                                                 \
    case MTP_##sym:                                                                                          \
        return words;
        MTP_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}
