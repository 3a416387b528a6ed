/* base/error.c - the last-error story: fixed storage, so reporting OOM cannot itself fail. */
#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include "base/plain.h"

#define STORY_BYTES 1024

static _Thread_local char story[STORY_BYTES];
static _Thread_local size_t story_len;

static void append(const char *where, const char *fmt, va_list args)
{
    size_t left = STORY_BYTES - story_len;
    int n = snprintf(story + story_len, left, "%s%s: ", story_len ? "; " : "", where);
    if (n > 0 && (size_t)n < left) {
        int m = mtp__format_list(story + story_len + n, left - (size_t)n, fmt, args);
        n += m > 0 ? m : 0;
    }
    if (n > 0)
        story_len += (size_t)n < left ? (size_t)n : left - 1;
}

mtp_status mtp__fail(mtp_status status, const char *where, const char *fmt, ...)
{
    va_list args;
    story_len = 0;
    va_start(args, fmt);
    append(where, fmt, args);
    va_end(args);
    return status;
}

void mtp__note(const char *where, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    append(where, fmt, args);
    va_end(args);
}

const char *mtp_last_error(void)
{
    return story_len ? story : "";
}

const char *mtp_status_text(mtp_status status)
{
    switch (status) {
#define X(sym, value, text)                                                                                  \
    case MTP_##sym:                                                                                          \
        return text;
        MTP_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}
