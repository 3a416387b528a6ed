/* collect/nvtx/json.c - see nvtx.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/plain.h"
#include "base/utf8.h"
#include "collect/nvtx/nvtx.h"

size_t mtp__nvtx_quote(char *at, const char *text)
{
    size_t n = 0;
    at[n++] = '"';
    const unsigned char *p = (const unsigned char *)text, *last = p + strlen(text);
    while (p < last) {
        unsigned skip, bytes = mtp__utf8_character(p, last, &skip);
        if (bytes == 0)
            n += (size_t)sprintf(at + n, "%s", MTP__UTF8_REPLACEMENT);
        else if (*p == '"' || *p == '\\' || mtp__utf8_is_control(p, bytes))
            n += (size_t)sprintf(at + n, "\\u%04x", bytes == 1 ? *p : 0x20u);
        else
            n += (size_t)sprintf(at + n, "%.*s", (int)bytes, (const char *)p);
        p += bytes != 0 ? bytes : skip;
    }
    at[n++] = '"';
    at[n] = 0;
    return n;
}

size_t mtp__nvtx_real(char *at, size_t room, double value)
{
    if (!isfinite(value))
        return (size_t)snprintf(at, room, "\"%s\"", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    char number[MTP__DOUBLE_BYTES];
    mtp__shortest(number, value, 6);
    return (size_t)snprintf(at, room, "%s", number);
}
