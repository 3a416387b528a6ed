/* trace/json/text.h - the text inside of JSON: strings without their escapes, values in strict and even spelling. */
#ifndef MTP_TRACE_JSON_TEXT_H
#define MTP_TRACE_JSON_TEXT_H
#include "trace/json/scan.h"

/* Bytes that grow; to be filled again and again. */
typedef struct mtp__buffer {
    char *bytes; /* owned */
    size_t length, room;
    bool failed; /* out of memory: something was not added */
} mtp__buffer;

bool mtp__buffer_reserve(mtp__buffer *b, size_t more);
void mtp__buffer_add(mtp__buffer *b, const void *bytes, size_t length);
void mtp__buffer_fini(mtp__buffer *b);

/* Adds what the string means. Half a surrogate pair becomes U+FFFD; bytes that are not UTF-8 stay. */
void mtp__json_unescape(mtp__buffer *b, const char *bytes, size_t length);

/* Adds a value that mtp__json_skip() took: one space after ',' and ':', none elsewhere; strict JSON in strict UTF-8. */
void mtp__json_tidy(mtp__buffer *b, const char *bytes, size_t length);
void mtp__json_tidy_string(mtp__buffer *b, const char *bytes, size_t length); /* what is between the quotes */

#endif
