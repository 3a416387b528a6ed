/* trace/json/scan.h - the tokens of JSON in contiguous bytes, read by pointer.
 *
 * The bytes end at `end`, followed by MTP__JSON_PAD zeros, so that a token can be read without bounds checks:
 * outside a string a zero stops every loop. A call returns the end of what it read, or NULL with the reason
 * in the scanner: more bytes are needed (the caller gets them and retries from a position it chose), or the
 * text is malformed at stop_at.
 *
 * Accepted although RFC 8259 forbids it: raw control characters and invalid UTF-8 in strings, unknown escapes
 * (the backslash is then literal), nan and infinity as C, Python and JavaScript write them. Such text is
 * flagged ODD, and mtp__json_tidy() makes it strict.
 */
#ifndef MTP_TRACE_JSON_SCAN_H
#define MTP_TRACE_JSON_SCAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "trace/json/number.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define MTP__JSON_PAD 64
#define MTP__JSON_DEPTH 10000

typedef enum mtp__json_stop {
    MTP__JSON_MORE = 1, /* the bytes end inside a value */
    MTP__JSON_WRONG,    /* expected something else */
    MTP__JSON_DEEP      /* nested deeper than MTP__JSON_DEPTH */
} mtp__json_stop;

typedef struct mtp__json {
    const char *end; /* of the bytes; zeros follow */
    bool complete;   /* no more bytes will come */
    mtp__json_stop stop;
    const char *stop_at;                           /* borrowed */
    const char *expected;                          /* borrowed: static text */
    uint64_t objects[(MTP__JSON_DEPTH + 63) / 64]; /* a bit per level: an object, else an array */
} mtp__json;

enum {
    MTP__JSON_ESCAPED = 1, /* has a backslash */
    MTP__JSON_ODD = 2,     /* not ASCII, or not strict */
    MTP__JSON_LOOSE = 4    /* whitespace differs from Kineto's: one space after ',' and ':', none elsewhere */
};

/* The text between the quotes, as in the file. */
typedef struct mtp__json_string {
    const char *bytes; /* borrowed */
    size_t length;
    unsigned flags;
} mtp__json_string;

/* A value: its text, and its number if it is one. */
typedef struct mtp__json_value {
    const char *bytes; /* borrowed */
    size_t length;
    unsigned flags;
    char kind; /* 0 for a number, else its first character: " [ { t f n; N for nan and infinity */
    mtp__decimal number;
} mtp__json_value;

/* Records that the text is malformed at `at`, or merely ends there. */
void mtp__json_stop_at(mtp__json *j, const char *at, const char *expected) __attribute__((cold));
static inline const char *mtp__json_wrong(mtp__json *j, const char *at, const char *expected)
{
    mtp__json_stop_at(j, at, expected);
    return NULL;
}

/* One value of any type and depth, validated. Adds to *flags. */
const char *mtp__json_skip(mtp__json *j, const char *p, unsigned *flags);
const char *mtp__json_word(mtp__json *j, const char *p, unsigned *flags); /* true, null, nan, ... */
const char *mtp__json_read_slow(mtp__json *j, const char *p, mtp__json_value *out);
/* Iterates over the members of an already validated object: initially *p is after its brace. false: no
 * more. */
bool mtp__json_member(mtp__json *j, const char **p, mtp__json_string *key, mtp__json_value *value);

/* Skips whitespace: usually none, one space, or a newline and indentation. */
static inline const char *mtp__json_space(const char *p)
{
    if ((unsigned char)*p > ' ')
        return p;
    if (*p == ' ' && (unsigned char)p[1] > ' ')
        return p + 1;
#if defined(__SSE2__)
    for (;; p += 16) { /* the pad is zero, so the loop ends there */
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i blank =
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(' ')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\n')));
        __m128i other =
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\r')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\t')));
        unsigned rest = ~(unsigned)_mm_movemask_epi8(_mm_or_si128(blank, other)) & 0xffff;
        if (rest != 0)
            return p + __builtin_ctz(rest);
    }
#else
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
#endif
}

/* p: after the opening quote. */
static inline const char *mtp__json_string_end(mtp__json *j, const char *p, mtp__json_string *out)
{
    unsigned flags = 0;
    out->bytes = p;
    for (;;) {
#if defined(__SSE2__)
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i ends =
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
        unsigned hit = (unsigned)_mm_movemask_epi8(ends);
        unsigned odd = (unsigned)_mm_movemask_epi8(_mm_cmplt_epi8(v, _mm_set1_epi8(0x20)));
        if (hit == 0) { /* signed compare: bytes from 0x80 on are below 0x20 too */
            flags |= odd != 0 ? MTP__JSON_ODD : 0;
            p += 16;
            if (p >= j->end)
                break;
            continue;
        }
        unsigned n = (unsigned)__builtin_ctz(hit);
        flags |= (odd & ((1u << n) - 1)) != 0 ? MTP__JSON_ODD : 0;
        p += n;
#else
        while (*p != '"' && *p != '\\' && p < j->end)
            flags |= (signed char)*p++ < 0x20 ? MTP__JSON_ODD : 0;
#endif
        if (p >= j->end)
            break;
        if (*p == '"') {
            out->length = (size_t)(p - out->bytes);
            out->flags = flags;
            return p + 1;
        }
        flags |= MTP__JSON_ESCAPED;
        p += 2;
        if (p > j->end)
            break;
    }
    return mtp__json_wrong(j, j->end, "'\"' at the end of a string");
}

/* p: at the first character of a value. */
static inline const char *mtp__json_read(mtp__json *j, const char *p, mtp__json_value *out)
{
    if (*p == '"') {
        mtp__json_string s;
        const char *q = mtp__json_string_end(j, p + 1, &s);
        if (q != NULL) {
            out->bytes = p;
            out->length = s.length + 2;
            out->flags = s.flags;
            out->kind = '"';
        }
        return q;
    }
    const char *q = mtp__json_whole(p, &out->number);
    if (q == NULL)
        return mtp__json_read_slow(j, p, out);
    out->bytes = p;
    out->length = (size_t)(q - p);
    out->flags = 0;
    out->kind = 0;
    return q;
}
#endif
