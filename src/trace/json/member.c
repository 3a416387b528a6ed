/* trace/json/member.c - see member.h. */
#include "trace/json/member.h"
#include <string.h>
#include "base/plain.h"

/* The end of the value at p. */
static const char *value_end(const char *p, const char *end)
{
    int depth = 0;
    for (; p < end; p++) {
        if (*p == '"') {
            for (p++; p < end && *p != '"'; p++)
                p += *p == '\\';
        } else if (*p == '[' || *p == '{') {
            depth++;
        } else if (*p == ']' || *p == '}') {
            if (depth-- == 0)
                return p;
        } else if (*p == ',' && depth == 0) {
            return p;
        }
    }
    return end;
}

static const char *skip(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == ',' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

static bool find(mtp_text json, const char *key, mtp_text *out)
{
    const char *p = json.bytes, *end = p + json.length;
    size_t length = strlen(key);
    p = skip(p, end);
    p += p < end && *p == '{';
    while ((p = skip(p, end)) < end && *p == '"') {
        const char *name = p + 1;
        for (p = name; p < end && *p != '"'; p++)
            p += *p == '\\';
        if (p >= end)
            return false;
        bool is = (size_t)(p - name) == length && memcmp(name, key, length) == 0;
        for (p++; p < end && (*p == ' ' || *p == ':'); p++)
            ;
        const char *value = p;
        p = value_end(p, end);
        if (is) {
            *out = (mtp_text){value, (size_t)(p - value)};
            return out->length > 0;
        }
    }
    return false;
}

static bool whole(mtp_text text, int64_t *out)
{
    size_t i = text.length > 0 && text.bytes[0] == '-';
    int64_t value = 0;
    bool good = i < text.length;
    for (; good && i < text.length; i++)
        good =
            mtp__is_digit(text.bytes[i]) && !__builtin_mul_overflow(value, 10, &value) &&
            !__builtin_sub_overflow(value, text.bytes[i] - '0', &value); /* negative numbers reach farther */
    bool minus = good && text.bytes[0] == '-';
    if (!good || (!minus && value == INT64_MIN))
        return false;
    *out = minus ? value : -value;
    return true;
}

bool mtp__member_text(mtp_text json, const char *key, mtp_text *out)
{
    if (!find(json, key, out))
        return false;
    if (out->length >= 2 && out->bytes[0] == '"') {
        out->bytes++;
        out->length -= 2;
    }
    return true;
}

/* Numbers may be written as strings. */
bool mtp__member_whole(mtp_text json, const char *key, int64_t *out)
{
    mtp_text text;
    return mtp__member_text(json, key, &text) && whole(text, out);
}

bool mtp__member_real(mtp_text json, const char *key, double *out)
{
    mtp_text text;
    char number[64], *end;
    if (!mtp__member_text(json, key, &text) || text.length == 0 || text.length >= sizeof number)
        return false;
    memcpy(number, text.bytes, text.length);
    number[text.length] = 0;
    *out = mtp__read_double(number, &end);
    return *end == 0;
}

mtp_text mtp__member_next(mtp_text *array)
{
    const char *p = array->bytes, *end = p + array->length;
    p = skip(p, end);
    p += p < end && *p == '[';
    p = skip(p, end);
    const char *to = value_end(p, end);
    mtp_text value = {p, (size_t)(to - p)};
    *array = (mtp_text){to, (size_t)(end - to)};
    return value;
}
