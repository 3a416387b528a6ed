#include "base/json_check.h"
#include <string.h>
#include "base/utf8.h"

#define DEPTH_MAX 512

typedef struct cursor {
    const unsigned char *at, *end;
} cursor;

static void space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static bool digits(cursor *c)
{
    const unsigned char *from = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return c->at > from;
}

static bool number(cursor *c)
{
    if (*c->at == '-')
        c->at++;
    if (c->at < c->end && *c->at == '0')
        c->at++;
    else if (!digits(c))
        return false;
    if (c->at < c->end && *c->at == '.' && (c->at++, !digits(c)))
        return false;
    if (c->at < c->end && (*c->at | 0x20) == 'e') {
        c->at++;
        if (c->at < c->end && (*c->at == '+' || *c->at == '-'))
            c->at++;
        return digits(c);
    }
    return true;
}

static bool utf8(cursor *c)
{
    unsigned lead = *c->at, skip, length = mtp__utf8_character(c->at, c->end, &skip);
    c->at += length != 0 ? length : lead >= 0xc2 && lead <= 0xf4 ? skip : 0; /* the first invalid byte */
    return length != 0;
}

static bool escape(cursor *c)
{
    c->at++;
    if (c->at >= c->end || *c->at == 0 || strchr("\"\\/bfnrtu", *c->at) == NULL)
        return false;
    if (*c->at++ != 'u')
        return true;
    for (int i = 0; i < 4; i++, c->at++) {
        unsigned char x = c->at < c->end ? *c->at : 0;
        if (!((x >= '0' && x <= '9') || ((x | 0x20) >= 'a' && (x | 0x20) <= 'f')))
            return false;
    }
    return true;
}

static bool string(cursor *c)
{
    if (c->at >= c->end || *c->at != '"')
        return false;
    for (c->at++; c->at < c->end;) {
        if (*c->at == '"') {
            c->at++;
            return true;
        }
        if (*c->at < 0x20)
            return false;
        if (*c->at >= 0x80 ? !utf8(c) : *c->at == '\\' ? !escape(c) : (c->at++, false))
            return false;
    }
    return false;
}

static bool word(cursor *c, const char *text)
{
    for (; *text != 0; text++, c->at++)
        if (c->at >= c->end || *c->at != (unsigned char)*text)
            return false;
    return true;
}

static bool scalar(cursor *c)
{
    switch (*c->at) {
    case '"':
        return string(c);
    case 't':
        return word(c, "true");
    case 'f':
        return word(c, "false");
    case 'n':
        return word(c, "null");
    default:
        return (*c->at == '-' || (*c->at >= '0' && *c->at <= '9')) && number(c);
    }
}

static bool key(cursor *c)
{
    space(c);
    if (!string(c))
        return false;
    space(c);
    if (c->at >= c->end || *c->at != ':')
        return false;
    c->at++;
    return true;
}

/* One value with everything in it; closer[] holds the closing brackets due. */
static bool value(cursor *c)
{
    char closer[DEPTH_MAX];
    int depth = 0;
    for (;;) {
        space(c);
        if (c->at >= c->end)
            return false;
        if (*c->at == '{' || *c->at == '[') {
            char close = *c->at == '{' ? '}' : ']';
            c->at++;
            space(c);
            if (c->at < c->end && *c->at == (unsigned char)close) {
                c->at++;
            } else {
                if (depth == DEPTH_MAX || (close == '}' && !key(c)))
                    return false;
                closer[depth++] = close;
                continue;
            }
        } else if (!scalar(c)) {
            return false;
        }
        for (;; c->at++, depth--) { /* after a value: close brackets, or continue after a comma */
            space(c);
            if (depth == 0)
                return true;
            if (c->at >= c->end)
                return false;
            if (*c->at != (unsigned char)closer[depth - 1])
                break;
        }
        if (*c->at != ',')
            return false;
        c->at++;
        if (closer[depth - 1] == '}' && !key(c))
            return false;
    }
}

bool mtp__json_check(const char *text, size_t length, size_t *wrong_at)
{
    cursor c = {(const unsigned char *)text, (const unsigned char *)text + length};
    bool ok = value(&c);
    if (ok)
        space(&c);
    *wrong_at = (size_t)(c.at - (const unsigned char *)text);
    return ok && c.at == c.end;
}
