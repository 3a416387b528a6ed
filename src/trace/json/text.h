/* trace/json/text.h - text in JSON: strings without escapes, values in strict, canonical spelling. */
#ifndef MTP_TRACE_JSON_TEXT_H
#define MTP_TRACE_JSON_TEXT_H
#include "trace/json/scan.h"

/* A growing buffer, reused. */
typedef struct mtp__buffer {
    char *bytes; /* owned */
    size_t length, room;
    bool failed; /* out of memory: something is missing */
} mtp__buffer;

bool mtp__buffer_reserve(mtp__buffer *b, size_t more);
void mtp__buffer_add(mtp__buffer *b, const void *bytes, size_t length);
void mtp__buffer_fini(mtp__buffer *b);

/* Appends the unescaped string. Lone surrogates become U+FFFD; invalid UTF-8 is kept. */
void mtp__json_unescape(mtp__buffer *b, const char *bytes, size_t length);

/* Appends a value that mtp__json_skip() accepted: one space after ',' and ':', none elsewhere; strict JSON in
 * valid UTF-8. */
void mtp__json_tidy(mtp__buffer *b, const char *bytes, size_t length);
void mtp__json_tidy_string(mtp__buffer *b, const char *bytes,
                           size_t length); /* the part between the quotes */

#endif
