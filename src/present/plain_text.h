/* present/plain_text.h - names that are safe for a terminal: valid UTF-8, without control characters.
 *
 * Control characters (C0, DEL, C1 and the two line separators) become '?', invalid UTF-8 becomes U+FFFD; one
 * character each, so that alignment is kept.
 */
#ifndef MTP_PRESENT_PLAIN_TEXT_H
#define MTP_PRESENT_PLAIN_TEXT_H
#include <stddef.h>

typedef struct mtp__plain {
    const char *bytes; /* borrowed */
    size_t length;     /* in bytes */
    size_t characters;
} mtp__plain;

#define MTP__PLAIN_ROOM(length) ((size_t)(length)*3 + 1)
mtp__plain mtp__plain_text(char *to, const char *bytes,
                           size_t length); /* to: MTP__PLAIN_ROOM bytes; NUL-terminated */
mtp__plain mtp__plain_first(mtp__plain text, size_t characters); /* at most this many */
mtp__plain mtp__plain_last(mtp__plain text, size_t characters);
#endif
