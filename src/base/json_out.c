#include "base/json_out.h"
#include "base/utf8.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define PIECE ((size_t)512) /* bytes of input whose output fits MTP__OUT_ROOM */
_Static_assert(MTP__JSON_PUT_ROOM(PIECE) <= MTP__OUT_ROOM, "a piece must fit what one reservation gives");

static char *put_escape(char *to, unsigned code)
{
    static const char hex[] = "0123456789abcdef";
    static const char *const from = "\b\f\n\r\t\"\\", *const letter = "bfnrt\"\\";
    const char *known = code != 0 && code < 0x80 ? strchr(from, (int)code) : NULL;
    *to++ = '\\';
    if (known != NULL) {
        *to++ = letter[known - from];
        return to;
    }
    *to++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4)
        *to++ = hex[code >> shift & 15];
    return to;
}

/* One character that is not plain ASCII. */
static char *put_special(char *to, const unsigned char **from, const unsigned char *end)
{
    const unsigned char *at = *from;
    unsigned skip;
    if (at[0] < 0x80) {
        *from = at + 1;
        return put_escape(to, at[0]);
    }
    unsigned length = mtp__utf8_character(at, end, &skip);
    if (length == 0) {
        *from = at + skip;
        return MTP__PUT(to, MTP__UTF8_REPLACEMENT);
    }
    *from = at + length;
    if (length == 2 && at[0] == 0xc2 && at[1] < 0xa0)
        return put_escape(to, at[1]);
    if (length == 3 && at[0] == 0xe2 && at[1] == 0x80 && (at[2] & 0xfe) == 0xa8)
        return put_escape(to, 0x2000u + (at[2] & 0x3fu));
    for (unsigned i = 0; i < length; i++)
        *to++ = (char)at[i];
    return to;
}

static inline bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Text from *from up to `limit`; a character that begins before it may extend to `end`. */
static char *put(char *to, const unsigned char **from, const unsigned char *limit, const unsigned char *end)
{
    const unsigned char *at = *from;
    while (at < limit) {
#if defined(__SSE2__)
        while (limit - at >= 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)at);
            __m128i bad = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)); /* signed compare: 0x80 and above too */
            bad = _mm_or_si128(bad, _mm_cmpeq_epi8(v, _mm_set1_epi8('"')));
            bad = _mm_or_si128(bad, _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
            bad = _mm_or_si128(bad, _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7f)));
            unsigned mask = (unsigned)_mm_movemask_epi8(bad);
            _mm_storeu_si128((__m128i *)(void *)to, v);
            unsigned clean = mask != 0 ? (unsigned)__builtin_ctz(mask) : 16;
            at += clean;
            to += clean;
            if (mask != 0)
                break;
        }
#endif
        while (at < limit && is_plain(*at))
            *to++ = (char)*at++;
        if (at < limit)
            to = put_special(to, &at, end);
    }
    *from = at;
    return to;
}

char *mtp__json_put(char *to, const char *text, size_t length)
{
    const unsigned char *from = (const unsigned char *)text, *end = from + length;
    return put(to, &from, end, end);
}

void mtp__out_string_inside(mtp__out *o, const char *text, size_t length)
{
    const unsigned char *from = (const unsigned char *)text, *end = from + length;
    while (from < end) {
        char *p = mtp__out_room(o);
        const unsigned char *limit = (size_t)(end - from) > PIECE ? from + PIECE : end;
        o->at = put(p, &from, limit, end);
    }
}

void mtp__out_string(mtp__out *o, const char *text, size_t length)
{
    MTP__OUT(o, "\"");
    mtp__out_string_inside(o, text, length);
    MTP__OUT(o, "\"");
}

/* Such characters are inside strings: elsewhere they are not valid. */
void mtp__out_json(mtp__out *o, const char *json, size_t length)
{
    const unsigned char *from = (const unsigned char *)json, *at = from, *end = from + length;
    while (at < end) {
        bool is_c1 = end - at >= 2 && at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0;
        bool is_line = end - at >= 3 && at[0] == 0xe2 && at[1] == 0x80 && (at[2] & 0xfe) == 0xa8;
        if (at[0] != 0x7f && !is_c1 && !is_line) {
            at++;
            continue;
        }
        char escaped[8];
        mtp__out_bytes(o, (const char *)from, (size_t)(at - from));
        unsigned code = is_c1 ? at[1] : is_line ? 0x2000u + (at[2] & 0x3fu) : 0x7fu;
        mtp__out_bytes(o, escaped, (size_t)(put_escape(escaped, code) - escaped));
        from = at += is_c1 ? 2 : is_line ? 3 : 1;
    }
    mtp__out_bytes(o, (const char *)from, (size_t)(end - from));
}
