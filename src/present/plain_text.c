#include "present/plain_text.h"
#include <string.h>
#include "base/utf8.h"

static char *put_character(char *to, const unsigned char *at, unsigned length)
{
    if (mtp__utf8_is_control(at, length)) {
        *to = '?';
        return to + 1;
    }
    memcpy(to, at, length);
    return to + length;
}

mtp__plain mtp__plain_text(char *to, const char *bytes, size_t length)
{
    mtp__plain out = {to, 0, 0};
    const unsigned char *at = (const unsigned char *)bytes, *end = at + length;
    while (at < end) {
        unsigned skip, n = mtp__utf8_character(at, end, &skip);
        if (n == 0) {
            memcpy(to, MTP__UTF8_REPLACEMENT, 3);
            to += 3;
            at += skip;
        } else {
            to = put_character(to, at, n);
            at += n;
        }
        out.characters++;
    }
    *to = '\0';
    out.length = (size_t)(to - out.bytes);
    return out;
}

/* The byte at which a character begins. */
static size_t offset_of(mtp__plain text, size_t character)
{
    size_t at = 0;
    for (; at < text.length; at++)
        if (((unsigned char)text.bytes[at] & 0xc0) != 0x80 && character-- == 0)
            break;
    return at;
}

mtp__plain mtp__plain_first(mtp__plain text, size_t characters)
{
    if (characters < text.characters) {
        text.length = offset_of(text, characters);
        text.characters = characters;
    }
    return text;
}

mtp__plain mtp__plain_last(mtp__plain text, size_t characters)
{
    if (characters < text.characters) {
        size_t from = offset_of(text, text.characters - characters);
        text.bytes += from;
        text.length -= from;
        text.characters = characters;
    }
    return text;
}
