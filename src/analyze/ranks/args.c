/* analyze/ranks/args.c - members of JSON that our reader has validated and put into its canonical spelling: a span's
 * args, or a value of the metadata. */
#include "analyze/ranks/ranks.h"
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
    if (i == text.length || text.length > 18 + i)
        return false;
    for (; i < text.length && mtp__is_digit(text.bytes[i]); i++)
        value = value * 10 + (text.bytes[i] - '0');
    *out = text.bytes[0] == '-' ? -value : value;
    return i == text.length;
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
