/* base/plain.c - see plain.h. A thread formats and parses under the "C" locale, and restores its own
 * afterwards: this does not affect other threads, and costs a few nanoseconds. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* locale_t */
#endif
#include "base/plain.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* The C library's own, which is never freed: getting it allocates nothing. */
static locale_t plain_begin(void)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain != (locale_t)0 ? uselocale(plain) : (locale_t)0;
}

static void plain_end(locale_t before)
{
    if (before != (locale_t)0)
        uselocale(before);
}

int mtp__format_list(char *to, size_t room, const char *fmt, va_list args)
{
    locale_t before = plain_begin();
    int length = vsnprintf(to, room, fmt, args);
    plain_end(before);
    return length;
}

int mtp__format(char *to, size_t room, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = mtp__format_list(to, room, fmt, args);
    va_end(args);
    return length;
}

double mtp__read_double(const char *text, char **end)
{
    locale_t before = plain_begin();
    double value = strtod(text, end);
    plain_end(before);
    return value;
}

static _Thread_local int reason_number;

const char *mtp__reason(int error)
{
    reason_number = error;
    locale_t before = plain_begin();
    const char *text = strerror(error);
    plain_end(before);
    return text;
}

int mtp__reason_number(void)
{
    int number = reason_number;
    reason_number = 0;
    return number;
}

size_t mtp__shortest(char to[MTP__DOUBLE_BYTES], double value, int fewest)
{
    locale_t before = plain_begin();
    int length = 0;
    for (int digits = fewest; digits <= 17; digits++) {
        length = snprintf(to, MTP__DOUBLE_BYTES, "%.*g", digits, value);
        if (strtod(to, NULL) == value)
            break;
    }
    plain_end(before);
    return (size_t)length;
}
