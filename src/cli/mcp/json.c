#include "cli/mcp/json.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/plain.h"
#include "base/utf8.h"

/* ---------------------------------------------------------------------------------------------- reading */

typedef struct reading {
    json *j;
    const char *text;
    int at, length, depth;
} reading;

static void skip_space(reading *r)
{
    while (r->at < r->length && strchr(" \t\r\n", r->text[r->at]) != NULL && r->text[r->at] != 0)
        r->at++;
}

static char peek(const reading *r)
{
    return r->at < r->length ? r->text[r->at] : 0;
}

static bool take(reading *r, char c)
{
    bool is = peek(r) == c && r->at < r->length;
    r->at += is;
    return is;
}

static int add(reading *r, char kind, int from)
{
    if (r->j->count == JSON_VALUES)
        return JSON_NONE;
    r->j->value[r->j->count] = (json_value){.kind = kind, .from = from, .to = from};
    return r->j->count++;
}

static bool read_word(reading *r, const char *word)
{
    int length = (int)strlen(word);
    if (r->length - r->at < length || memcmp(r->text + r->at, word, (size_t)length) != 0)
        return false;
    r->at += length;
    return true;
}

static bool read_digits(reading *r)
{
    int from = r->at;
    while (mtp__is_digit(peek(r)))
        r->at++;
    return r->at > from;
}

static bool read_number(reading *r)
{
    take(r, '-');
    if (!take(r, '0') && !read_digits(r))
        return false;
    if (take(r, '.') && !read_digits(r))
        return false;
    if (take(r, 'e') || take(r, 'E')) {
        if (!take(r, '+'))
            take(r, '-');
        return read_digits(r);
    }
    return true;
}

static int hex_of(char c)
{
    c = mtp__lower(c);
    return mtp__is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* After the opening quote, to after the closing one. */
static bool read_string(reading *r)
{
    const unsigned char *end = (const unsigned char *)r->text + r->length;
    while (r->at < r->length) {
        const unsigned char *p = (const unsigned char *)r->text + r->at;
        unsigned skip, n = mtp__utf8_character(p, end, &skip);
        if (n == 0 || *p < 0x20)
            return false;
        r->at += (int)n;
        if (*p == '"')
            return true;
        if (*p != '\\')
            continue;
        char c = peek(r);
        r->at++;
        if (c == 'u') {
            for (int i = 0; i < 4; i++, r->at++)
                if (hex_of(peek(r)) < 0)
                    return false;
        } else if (c == 0 || strchr("\"\\/bfnrt", c) == NULL) {
            return false;
        }
    }
    return false;
}

static bool read_value(reading *r);

static bool read_items(reading *r, char close)
{
    skip_space(r);
    if (take(r, close))
        return true;
    do {
        if (close == '}') {
            skip_space(r);
            if (peek(r) != '"' || !read_value(r))
                return false;
            skip_space(r);
            if (!take(r, ':'))
                return false;
        }
        if (!read_value(r))
            return false;
        skip_space(r);
    } while (take(r, ','));
    return take(r, close);
}

static bool read_value(reading *r) /* recursive: at most JSON_DEPTH deep */
{
    skip_space(r);
    char c = peek(r);
    int me = add(r, c == '-' || mtp__is_digit(c) ? '0' : c, r->at);
    if (me == JSON_NONE)
        return false;
    bool fine;
    if (c == '{' || c == '[') {
        r->at++;
        fine = ++r->depth <= JSON_DEPTH && read_items(r, c == '{' ? '}' : ']');
        r->depth--;
    } else if (c == '"') {
        r->at++;
        fine = read_string(r);
    } else {
        fine = c == 't'   ? read_word(r, "true")
               : c == 'f' ? read_word(r, "false")
               : c == 'n' ? read_word(r, "null")
                          : read_number(r);
    }
    json_value *v = &r->j->value[me];
    v->to = r->at;
    v->next = r->j->count;
    if (c == '"' && fine)
        v->from++, v->to--;
    return fine;
}

bool json_read(json *j, const char *text, size_t length)
{
    reading r = {.j = j, .text = text, .length = (int)length};
    j->text = text;
    j->count = 0;
    if (length > INT32_MAX || !read_value(&r))
        return false;
    skip_space(&r);
    return r.at == r.length;
}

int json_member(const json *j, int object, const char *key)
{
    if (object == JSON_NONE || j->value[object].kind != '{')
        return JSON_NONE;
    for (int i = object + 1; i < j->value[object].next; i = j->value[i + 1].next)
        if (json_is(j, i, key))
            return i + 1;
    return JSON_NONE;
}

/* Some clients escape every slash: "tools\/call". */
bool json_is(const json *j, int value, const char *text)
{
    char decoded[64];
    const json_value *v = value != JSON_NONE ? &j->value[value] : NULL;
    size_t length = strlen(text);
    if (v == NULL || v->kind != '"')
        return false;
    if ((size_t)(v->to - v->from) == length)
        return memcmp(j->text + v->from, text, length) == 0;
    return (size_t)(v->to - v->from) > length && json_text(j, value, decoded, sizeof decoded) &&
           strcmp(decoded, text) == 0;
}

static uint32_t unit_at(const char *p)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++)
        unit = unit << 4 | (uint32_t)hex_of(p[i]);
    return unit;
}

/* The character of "\uXXXX" or a pair of them, at p after the backslash; 0: none. */
static uint32_t character_at(const char **p, const char *end)
{
    uint32_t c = unit_at(*p + 1);
    *p += 5;
    if (c >= 0xdc00 && c <= 0xdfff)
        return 0;
    if (c < 0xd800 || c > 0xdbff)
        return c;
    if (end - *p < 6 || (*p)[0] != '\\' || (*p)[1] != 'u')
        return 0;
    uint32_t low = unit_at(*p + 2);
    *p += 6;
    return low >= 0xdc00 && low <= 0xdfff ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00) : 0;
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)((n == 2 ? 0xc0u : n == 3 ? 0xe0u : 0xf0u) | c);
    return n;
}

bool json_text(const json *j, int value, char *to, size_t room)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (value == JSON_NONE || j->value[value].kind != '"')
        return false;
    const char *p = j->text + j->value[value].from, *end = j->text + j->value[value].to;
    size_t length = 0;
    while (p < end) {
        if (length + 5 > room)
            return false;
        if (*p != '\\') {
            to[length++] = *p++;
            continue;
        }
        p++;
        if (*p == 'u') {
            uint32_t c = character_at(&p, end);
            if (c == 0)
                return false;
            length += put_utf8(to + length, c);
        } else {
            to[length++] = meanings[strchr(escapes, *p++) - escapes];
        }
    }
    if (length >= room)
        return false;
    to[length] = 0;
    return true;
}

bool json_whole(const json *j, int value, int64_t *out)
{
    char digits[24], *end;
    const json_value *v = value != JSON_NONE ? &j->value[value] : NULL;
    if (v == NULL || v->kind != '0' || v->to - v->from >= (int)sizeof digits)
        return false;
    memcpy(digits, j->text + v->from, (size_t)(v->to - v->from));
    digits[v->to - v->from] = 0;
    errno = 0;
    *out = strtoll(digits, &end, 10);
    return *end == 0 && errno == 0;
}

/* ---------------------------------------------------------------------------------------------- writing */

void json_put(FILE *to, const char *bytes, size_t length)
{
    const unsigned char *p = (const unsigned char *)bytes, *end = p + length;
    fputc('"', to);
    while (p < end) {
        unsigned skip, n = mtp__utf8_character(p, end, &skip);
        if (n == 0)
            fputs(MTP__UTF8_REPLACEMENT, to);
        else if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (*p == '\n')
            fputs("\\n", to);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(to, "\\u%04x", *p);
        else
            fwrite(p, 1, n, to);
        p += n != 0 ? n : skip;
    }
    fputc('"', to);
}
