/* trace/json/number.c - the slow, exact path for numbers. */
#include "trace/json/number.h"
#include <string.h>
#include "base/out.h"

#define EXPONENT_LIMIT 100000 /* beyond this: effectively infinite, or zero */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits into d while they fit; further ones only change the exponent (*full). Returns the end of the
 * digits. */
static const char *take_digits(const char *p, mtp__decimal *d, bool fraction, bool *full)
{
    for (; is_digit(*p); p++) {
        unsigned digit = (unsigned)(*p - '0');
        *full = *full || d->digits > (UINT64_MAX - digit) / 10;
        if (!*full)
            d->digits = d->digits * 10 + digit;
        else
            d->more |= digit != 0;
        if (*full != fraction && d->exponent > -EXPONENT_LIMIT && d->exponent < EXPONENT_LIMIT)
            d->exponent += fraction ? -1 : 1;
    }
    return p;
}

const char *mtp__json_decimal(const char *p, mtp__decimal *out)
{
    bool full = false;
    *out = (mtp__decimal){0};
    out->negative = *p == '-';
    p += out->negative;
    if (!is_digit(*p) || (*p == '0' && is_digit(p[1])))
        return NULL;
    p = take_digits(p, out, false, &full);
    if (*p == '.') {
        if (!is_digit(p[1]))
            return NULL;
        p = take_digits(p + 1, out, true, &full);
    }
    if ((*p | 0x20) != 'e')
        return p;
    p++;
    bool down = *p == '-';
    p += *p == '-' || *p == '+';
    if (!is_digit(*p))
        return NULL;
    int32_t e = 0;
    for (; is_digit(*p); p++)
        e = e < EXPONENT_LIMIT ? e * 10 + (*p - '0') : e;
    out->exponent += down ? -e : e;
    return p;
}

/* The magnitude times 10^shift; false: exceeds `most`. */
static bool magnitude(const mtp__decimal *d, int shift, uint64_t most, uint64_t *out, bool *exact)
{
    int64_t e = (int64_t)d->exponent + shift;
    uint64_t n = d->digits;
    *exact = !d->more;
    if (n == 0) {
        *out = 0;
        return true;
    }
    if (e >= 0) {
        *out = most;
        if (e > 19 || n > most / mtp__powers_of_ten[e])
            return false;
        *out = n * mtp__powers_of_ten[e];
        return true;
    }
    if (e < -19) {
        *out = 0;
        *exact = false;
        return true;
    }
    uint64_t unit = mtp__powers_of_ten[-e], rest = n % unit;
    n = n / unit + (rest >= unit - rest);
    *exact = *exact && rest == 0;
    *out = n <= most ? n : most;
    return n <= most;
}

bool mtp__decimal_round(const mtp__decimal *d, int shift, int64_t *out)
{
    uint64_t n;
    bool exact, fits = magnitude(d, shift, INT64_MAX, &n, &exact);
    *out = d->negative ? -(int64_t)n : (int64_t)n;
    return fits;
}

bool mtp__decimal_signed_slow(const mtp__decimal *d, int64_t *out)
{
    uint64_t n;
    bool exact, fits = magnitude(d, 0, (uint64_t)INT64_MAX + d->negative, &n, &exact);
    if (!fits || !exact)
        return false;
    *out = d->negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

bool mtp__decimal_unsigned_slow(const mtp__decimal *d, uint64_t *out)
{
    uint64_t n;
    bool exact, fits = magnitude(d, 0, UINT64_MAX, &n, &exact);
    if (!fits || !exact || (d->negative && n != 0))
        return false;
    *out = n;
    return true;
}

/* Exact for up to 15 digits and small powers, else accurate to about one unit in the last place. Not strtod,
 * which depends on the host's locale. */
double mtp__decimal_double(const mtp__decimal *d)
{
    long double v = (long double)d->digits, ten = 10, factor = 1;
    int e = d->exponent < 0 ? -d->exponent : d->exponent;
    for (int left = e < 5000 ? e : 5000; left != 0; left >>= 1, ten *= ten)
        factor *= left & 1 ? ten : 1;
    v = d->digits == 0 ? 0 : d->exponent < 0 ? v / factor : v * factor;
    return (double)(d->negative ? -v : v);
}

bool mtp__text_decimal(const char *bytes, size_t length, mtp__decimal *out)
{
    char copy[64];
    while (length > 0 && (*bytes == ' ' || *bytes == '\t')) {
        bytes++;
        length--;
    }
    while (length > 0 && (bytes[length - 1] == ' ' || bytes[length - 1] == '\t'))
        length--;
    if (length == 0 || length >= sizeof copy)
        return false;
    memcpy(copy, bytes, length);
    copy[length] = 0;
    return mtp__json_decimal(copy, out) == copy + length;
}

bool mtp__text_unsigned(const char *bytes, size_t length, uint64_t *out)
{
    mtp__decimal d;
    if (length < 3 || length > 18 || bytes[0] != '0' || (bytes[1] | 0x20) != 'x')
        return mtp__text_decimal(bytes, length, &d) && mtp__decimal_unsigned(&d, out);
    uint64_t n = 0;
    for (size_t i = 2; i < length; i++) {
        char c = bytes[i], low = (char)(c | 0x20);
        if (!is_digit(c) && !(low >= 'a' && low <= 'f'))
            return false;
        n = n << 4 | (unsigned)(is_digit(c) ? c - '0' : low - 'a' + 10);
    }
    *out = n;
    return true;
}
