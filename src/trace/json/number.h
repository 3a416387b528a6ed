/* trace/json/number.h - JSON numbers as decimals: nothing is rounded before its use is known. */
#ifndef MTP_TRACE_JSON_NUMBER_H
#define MTP_TRACE_JSON_NUMBER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* (-1)^negative * digits * 10^exponent. `more`: further digits follow, not all zero. */
typedef struct mtp__decimal {
    uint64_t digits;
    int32_t exponent;
    bool negative, more;
} mtp__decimal;

/* One number as in RFC 8259; NULL: not a number. The bytes must end with one that cannot be part of a
 * number. */
const char *mtp__json_decimal(const char *p, mtp__decimal *out);

/* The number times 10^shift, to the nearest integer (halves away from zero). false: out of range; *out is
 * then the nearest value. */
bool mtp__decimal_round(const mtp__decimal *d, int shift, int64_t *out);
/* false unless exact. */
bool mtp__decimal_signed_slow(const mtp__decimal *d, int64_t *out);
bool mtp__decimal_unsigned_slow(const mtp__decimal *d, uint64_t *out);
static inline bool mtp__decimal_signed(const mtp__decimal *d, int64_t *out)
{
    if (d->exponent != 0 || d->more || d->digits > INT64_MAX)
        return mtp__decimal_signed_slow(d, out);
    *out = d->negative ? -(int64_t)d->digits : (int64_t)d->digits;
    return true;
}
static inline bool mtp__decimal_unsigned(const mtp__decimal *d, uint64_t *out)
{
    if (d->exponent != 0 || d->more || d->negative)
        return mtp__decimal_unsigned_slow(d, out);
    *out = d->digits;
    return true;
}
double mtp__decimal_double(const mtp__decimal *d);

/* A number as text from any origin: decimal, or 0x and hexadecimal digits; the whole text must match. */
bool mtp__text_unsigned(const char *bytes, size_t length, uint64_t *out);
bool mtp__text_decimal(const char *bytes, size_t length, mtp__decimal *out);

/* The fast path: an integer of at most 18 digits. NULL: anything else, perhaps another number. */
static inline const char *mtp__json_whole(const char *p, mtp__decimal *out)
{
    out->negative = *p == '-';
    p += out->negative;
    const char *from = p;
    uint64_t n = 0;
    unsigned digit;
    while ((digit = (unsigned char)*p - (unsigned)'0') <= 9 && p - from < 19) {
        n = n * 10 + digit;
        p++;
    }
    size_t length = (size_t)(p - from);
    if (length == 0 || length > 18 || *p == '.' || (*p | 0x20) == 'e' || (*from == '0' && length > 1) ||
        *p == 0)
        return NULL;
    out->digits = n;
    out->exponent = 0;
    out->more = false;
    return p;
}

/* The fast path for times: microseconds with three decimals, or none, to nanoseconds. NULL: anything else. */
static inline const char *mtp__json_micros(const char *p, int64_t *ns)
{
    const char *from = p;
    uint64_t n = 0;
    unsigned digit, tenth, hundredth, thousandth;
    while ((digit = (unsigned char)*p - (unsigned)'0') <= 9 && p - from < 15) {
        n = n * 10 + digit;
        p++;
    }
    if (p == from || (*from == '0' && p - from > 1))
        return NULL;
    if (*p != '.') {
        *ns = (int64_t)(n * 1000);
        return digit <= 9 || (*p | 0x20) == 'e' || *p == 0 ? NULL : p;
    }
    if ((tenth = (unsigned char)p[1] - (unsigned)'0') > 9 ||
        (hundredth = (unsigned char)p[2] - (unsigned)'0') > 9 ||
        (thousandth = (unsigned char)p[3] - (unsigned)'0') > 9 || (unsigned char)p[4] - (unsigned)'0' <= 9 ||
        (p[4] | 0x20) == 'e' || p[4] == 0)
        return NULL;
    *ns = (int64_t)(n * 1000 + tenth * 100 + hundredth * 10 + thousandth);
    return p + 4;
}
#endif
