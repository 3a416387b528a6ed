/* trace/json/text.c - see text.h. All of it is off the hot path: most names have no escapes, and Kineto's
 * spelling is canonical. */
#include "trace/json/text.h"
#include <stdio.h>
#include <string.h>
#include "base/grow.h"
#include "base/os.h"
#include "base/utf8.h"

#define FIRST_ROOM 256u

bool mtp__buffer_reserve(mtp__buffer *b, size_t more)
{
    bool has =
        more <= SIZE_MAX - b->length && MTP__GROW(b->bytes, b->room, b->length, b->length + more, FIRST_ROOM);
    b->failed |= !has;
    return has;
}

void mtp__buffer_add(mtp__buffer *b, const void *bytes, size_t length)
{
    if (length != 0 && mtp__buffer_reserve(b, length)) {
        memcpy(b->bytes + b->length, bytes, length);
        b->length += length;
    }
}

void mtp__buffer_fini(mtp__buffer *b)
{
    mtp__free(b->bytes);
    *b = (mtp__buffer){0};
}

/* ------------------------------------------------------------------------------------------- escapes */

/* The four hexadecimal digits of \uXXXX, p at the backslash; -1: not such an escape. */
static int hex4(const char *p, const char *end)
{
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    int n = 0;
    for (int i = 2; i < 6; i++) {
        char c = p[i], low = (char)(c | 0x20);
        int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        n = n << 4 | digit;
    }
    return n;
}

/* The code point of the \u escape at p and the bytes it takes (6, or 12 for a pair); 0 bytes: not one. */
static uint32_t code_point(const char *p, const char *end, size_t *taken)
{
    int first = hex4(p, end);
    *taken = first >= 0 ? 6 : 0;
    if (first < 0xd800 || first > 0xdfff)
        return (uint32_t)first;
    int second = first <= 0xdbff ? hex4(p + 6, end) : -1;
    if (second < 0xdc00 || second > 0xdfff)
        return 0xfffd;
    *taken = 12;
    return 0x10000u + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00);
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(lead[n] | c);
    return n;
}

static char simple_escape(char c)
{
    switch (c) {
    case '"':
    case '\\':
    case '/':
        return c;
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return 0;
    }
}

void mtp__json_unescape(mtp__buffer *b, const char *bytes, size_t length)
{
    if (!mtp__buffer_reserve(b, length + 1)) /* unescaping never lengthens: there is always room */
        return;
    const char *p = bytes, *end = bytes + length;
    char *to = b->bytes + b->length;
    while (p < end) {
        const char *next = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((next != NULL ? next : end) - p);
        memcpy(to, p, plain);
        to += plain;
        p += plain;
        if (next == NULL)
            break;
        size_t taken;
        uint32_t c = code_point(p, end, &taken);
        if (taken != 0) {
            to += put_utf8(to, c);
            p += taken;
        } else if (p + 1 < end && simple_escape(p[1]) != 0) {
            *to++ = simple_escape(p[1]);
            p += 2;
        } else {
            *to++ = *p++; /* a backslash that escapes nothing */
        }
    }
    b->length = (size_t)(to - b->bytes);
}

/* -------------------------------------------------------------------------------------------- tidying */

void mtp__json_tidy_string(mtp__buffer *b, const char *bytes, size_t length)
{
    const char *p = bytes, *end = bytes + length, *from = p;
    while (p < end) {
        char text[8];
        const char *instead = text;
        size_t taken = 1;
        if (*p == '\\') {
            uint32_t c = code_point(p, end, &taken);
            bool whole = taken != 0 && c != 0xfffd;
            if (whole || (taken == 0 && p + 1 < end && simple_escape(p[1]) != 0)) {
                p += whole ? taken : 2;
                continue;
            }
            instead = taken != 0 ? "\\ufffd" : "\\\\";
            taken = taken != 0 ? taken : 1;
        } else if ((unsigned char)*p < 0x20) {
            snprintf(text, sizeof text, "\\u%04x", (unsigned)(unsigned char)*p);
        } else {
            unsigned skip,
                n = mtp__utf8_character((const unsigned char *)p, (const unsigned char *)end, &skip);
            if (n != 0) {
                p += n;
                continue;
            }
            instead = MTP__UTF8_REPLACEMENT;
            taken = skip;
        }
        mtp__buffer_add(b, from, (size_t)(p - from));
        mtp__buffer_add(b, instead, strlen(instead));
        p += taken;
        from = p;
    }
    mtp__buffer_add(b, from, (size_t)(p - from));
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The closing quote of the string opening at p. */
static const char *closing(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\';
    return p < end ? p : end;
}

/* A number or a word; words that are not JSON are quoted. */
static const char *tidy_word(mtp__buffer *b, const char *p, const char *end)
{
    const char *from = p;
    while (p < end && *p != ',' && *p != ']' && *p != '}' && !is_space(*p))
        p++;
    size_t length = (size_t)(p - from);
    char first = from[*from == '-' && length > 1], second = length > 1 ? from[1] : 0;
    bool odd =
        first == 'N' || first == 'I' || first == 'i' || (first == 'n' && (*from == '-' || second == 'a'));
    mtp__buffer_add(b, "\"", odd);
    mtp__buffer_add(b, from, length);
    mtp__buffer_add(b, "\"", odd);
    return p;
}

void mtp__json_tidy(mtp__buffer *b, const char *bytes, size_t length)
{
    const char *p = bytes, *end = bytes + length;
    while (p < end) {
        if (is_space(*p)) {
            p++;
        } else if (*p == '"') {
            const char *quote = closing(p, end);
            mtp__buffer_add(b, "\"", 1);
            mtp__json_tidy_string(b, p + 1, (size_t)(quote - p) - 1);
            mtp__buffer_add(b, "\"", 1);
            p = quote + 1;
        } else if (*p == ',' || *p == ':') {
            mtp__buffer_add(b, *p == ',' ? ", " : ": ", 2);
            p++;
        } else if (*p == '[' || *p == ']' || *p == '{' || *p == '}') {
            mtp__buffer_add(b, p++, 1);
        } else {
            p = tidy_word(b, p, end);
        }
    }
}
