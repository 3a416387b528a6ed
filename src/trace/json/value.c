/* trace/json/value.c - whole values: any depth, no recursion. */
#include <string.h>
#include "trace/json/scan.h"

void mtp__json_stop_at(mtp__json *j, const char *at, const char *expected)
{
    j->stop = at >= j->end ? MTP__JSON_MORE : MTP__JSON_WRONG;
    j->stop_at = at < j->end ? at : j->end;
    j->expected = expected;
}

/* The words that may stand for a value; from the fourth on, invalid ones that programs write nonetheless. */
const char *mtp__json_word(mtp__json *j, const char *p, unsigned *flags)
{
    static const char *const words[] = {"true", "false",    "null",      "NaN",      "nan",
                                        "-nan", "Infinity", "-Infinity", "infinity", "-infinity",
                                        "inf",  "-inf",     "Inf",       "-Inf"};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
        size_t length = strlen(words[k]), have = (size_t)(j->end - p);
        if (strncmp(p, words[k], have < length ? have : length) != 0)
            continue;
        if (have < length || (have == length && !j->complete))
            return mtp__json_wrong(j, j->end, "a value");
        char next = p[length]; /* "infinity" is not "inf" plus something */
        if ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z'))
            continue;
        *flags |= k >= 3 ? MTP__JSON_ODD : 0;
        return p + length;
    }
    return mtp__json_wrong(j, p, "a value");
}

static const char *scalar(mtp__json *j, const char *p, unsigned *flags)
{
    mtp__decimal number;
    mtp__json_string s;
    if (*p == '"') {
        p = mtp__json_string_end(j, p + 1, &s);
        *flags |= p != NULL ? s.flags : 0;
        return p;
    }
    const char *q = mtp__json_whole(p, &number);
    if (q == NULL)
        q = mtp__json_decimal(p, &number);
    if (q == NULL) {
        const char *digits = p + (*p == '-');
        while ((*digits >= '0' && *digits <= '9') || *digits == '.' || *digits == '-' || *digits == '+' ||
               (*digits | 0x20) == 'e')
            digits++;
        if (digits >= j->end) /* a truncated number */
            return mtp__json_wrong(j, j->end, "a number");
        return mtp__json_word(j, p, flags);
    }
    if (q >= j->end && !j->complete)
        return mtp__json_wrong(j, j->end, "',', ']' or '}'"); /* it may continue */
    return q;
}

/* "key": up to its value. */
static const char *key(mtp__json *j, const char *p, unsigned *flags)
{
    mtp__json_string s;
    if (*p != '"')
        return mtp__json_wrong(j, p, "'\"' at the start of a member's name");
    p = mtp__json_string_end(j, p + 1, &s);
    if (p == NULL)
        return NULL;
    *flags |= s.flags;
    const char *colon = mtp__json_space(p);
    if (*colon != ':')
        return mtp__json_wrong(j, colon, "':' after a member's name");
    const char *value = mtp__json_space(colon + 1);
    if (colon != p || value != colon + 2 || colon[1] != ' ')
        *flags |= MTP__JSON_LOOSE;
    return value;
}

/* After a nested value: advances to the next value or, when *depth reaches 0, past the end. */
static const char *go_on(mtp__json *j, const char *p, unsigned *depth, unsigned *flags)
{
    while (*depth > 0) {
        unsigned level = *depth - 1;
        bool object = j->objects[level / 64] >> level % 64 & 1;
        const char *q = mtp__json_space(p);
        *flags |= q != p ? MTP__JSON_LOOSE : 0;
        if (*q == ',') {
            p = mtp__json_space(q + 1);
            *flags |= p != q + 2 || q[1] != ' ' ? MTP__JSON_LOOSE : 0;
            return object ? key(j, p, flags) : p;
        }
        if (*q != (object ? '}' : ']'))
            return mtp__json_wrong(j, q, object ? "',' or '}' after a member" : "',' or ']' after an item");
        p = q + 1;
        *depth = level;
    }
    return p;
}

const char *mtp__json_skip(mtp__json *j, const char *p, unsigned *flags)
{
    unsigned depth = 0;
    do {
        if (*p == '[' || *p == '{') {
            bool object = *p == '{';
            if (depth == MTP__JSON_DEPTH) {
                mtp__json_wrong(j, p, "a less deeply nested value");
                j->stop = MTP__JSON_DEEP;
                return NULL;
            }
            const char *q = mtp__json_space(p + 1);
            *flags |= q != p + 1 ? MTP__JSON_LOOSE : 0;
            if (*q != (object ? '}' : ']')) {
                uint64_t bit = (uint64_t)1 << depth % 64;
                j->objects[depth / 64] = (j->objects[depth / 64] & ~bit) | (object ? bit : 0);
                depth++;
                p = object ? key(j, q, flags) : q;
                if (p == NULL)
                    return NULL;
                continue;
            }
            p = q + 1;
        } else if ((p = scalar(j, p, flags)) == NULL) {
            return NULL;
        }
        if (depth == 0)
            return p;
        p = go_on(j, p, &depth, flags);
    } while (p != NULL && depth > 0);
    return p;
}

const char *mtp__json_read_slow(mtp__json *j, const char *p, mtp__json_value *out)
{
    unsigned flags = 0;
    const char *q;
    out->kind = *p;
    if (*p == '[' || *p == '{') {
        q = mtp__json_skip(j, p, &flags);
    } else if ((q = scalar(j, p, &flags)) != NULL) {
        if (mtp__json_decimal(p, &out->number) == q)
            out->kind = 0;
        else if (flags & MTP__JSON_ODD)
            out->kind = 'N';
    }
    if (q == NULL)
        return NULL;
    out->bytes = p;
    out->length = (size_t)(q - p);
    out->flags = flags;
    return q;
}

bool mtp__json_member(mtp__json *j, const char **p, mtp__json_string *key, mtp__json_value *value)
{
    const char *at = mtp__json_space(*p);
    at = mtp__json_space(at + (*at == ','));
    if (*at != '"' || (at = mtp__json_string_end(j, at + 1, key)) == NULL)
        return false;
    at = mtp__json_space(at);
    if (*at != ':')
        return false;
    return (*p = mtp__json_read(j, mtp__json_space(at + 1), value)) != NULL;
}
