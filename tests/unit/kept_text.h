/* tests/unit/kept_text.h - a sink that keeps what is written, NUL-terminated. Set length to 0 to begin
 * again. */
#ifndef TESTS_UNIT_KEPT_TEXT_H
#define TESTS_UNIT_KEPT_TEXT_H
#include "tests/test.h"

typedef struct text {
    char *bytes; /* owned */
    size_t length, room;
} text;

static inline bool keep(void *user, const void *bytes, size_t length)
{
    text *t = user;
    if (t->length + length + 1 > t->room)
        t->bytes = realloc(t->bytes, t->room = (t->length + length + 1) * 2);
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->bytes[t->length] = 0;
    return true;
}
#endif
