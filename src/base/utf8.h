/* base/utf8.h - characters in bytes that may not be valid UTF-8. Unicode's table 3-7: no overlong forms, no
 * surrogates, at most U+10FFFF. Header only, so any program can use it. */
#ifndef MTP_BASE_UTF8_H
#define MTP_BASE_UTF8_H
#include <stdbool.h>

#define MTP__UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The length (1 to 4) of the character at `at`, before `end`; 0: invalid, and U+FFFD replaces *skip bytes. */
static inline unsigned mtp__utf8_character(const unsigned char *at, const unsigned char *end, unsigned *skip)
{
    unsigned lead = at[0], extra = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    *skip = 1;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80; /* range of the second byte */
    unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (unsigned i = 1; i <= extra; i++, low = 0x80, high = 0xbf) {
        if (at + i >= end || at[i] < low || at[i] > high)
            return 0;
        *skip = i + 1;
    }
    return extra + 1;
}

/* Would a terminal or a pager interpret this character of n bytes? U+0000 to U+001F, U+007F to U+009F,
 * U+2028, U+2029. */
static inline bool mtp__utf8_is_control(const unsigned char *at, unsigned n)
{
    return (n == 1 && (at[0] < 0x20 || at[0] == 0x7f)) || (n == 2 && at[0] == 0xc2 && at[1] < 0xa0) ||
           (n == 3 && at[0] == 0xe2 && at[1] == 0x80 && (at[2] & 0xfe) == 0xa8);
}
#endif
