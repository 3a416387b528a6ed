/* cli/mcp/json.h - the JSON of one message: read as a flat list of values, written with escapes.
 *
 * Strict (RFC 8259): what is not JSON is refused. A value's text is part of the message; strings keep their escapes until
 * json_text() decodes them.
 */
#ifndef MTP_CLI_MCP_JSON_H
#define MTP_CLI_MCP_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_VALUES 2048 /* in one message */
#define JSON_DEPTH 64
#define JSON_NONE (-1)

typedef struct json_value {
    char kind;    /* { [ " 0 (a number) t f n */
    int next;     /* the value after it and all that it contains */
    int from, to; /* bytes of the message; of a string without its quotes */
} json_value;

typedef struct json {
    const char *text; /* borrowed */
    json_value value[JSON_VALUES];
    int count;
} json;

bool json_read(json *j, const char *text, size_t length);    /* false: not JSON, or too large */
int json_member(const json *j, int object, const char *key); /* JSON_NONE: none, or not an object */
bool json_is(const json *j, int value, const char *text);    /* a string of this (short) text */
/* Decodes a string. false: not a string, does not fit, or has a NUL or half a surrogate pair. */
bool json_text(const json *j, int value, char *to, size_t room);
bool json_whole(const json *j, int value, int64_t *out); /* a whole number; false: anything else */

/* With its quotes; what is not UTF-8 becomes U+FFFD. */
void json_put(FILE *to, const char *bytes, size_t length);
#endif
