/* check/file.c - a whole JSON file: read once, through a window, one event at a time. It is checked as it is,
 * without the Kineto reader's repairs.
 */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "check/scan.h"
#include "trace/json/text.h"
#include "trace/json/window.h"
#include "trace/kineto/kineto.h"

#define PROGRESS_EVERY ((uint64_t)16 << 20)
#define LARGE_BYTES ((uint64_t)500000000)
#define TOO_LARGE_BYTES ((uint64_t)512 << 20)

/* What must be present besides the events. X(symbol, key, first character of its value; 0: a number, '*':
 * any) */
#define KEY_LIST(X)                                                                                          \
    X(NO_SCHEMA, "schemaVersion", '*')                                                                       \
    X(NO_DEVICES, "deviceProperties", '[')                                                                   \
    X(NO_DISTRIBUTED, "distributedInfo", '{')                                                                \
    X(NO_UNIT, "displayTimeUnit", '*')                                                                       \
    X(NO_BASE, "baseTimeNanoseconds", 0)
static const struct {
    const char *key;
    mtp__found missing;
    char kind;
} keys[] = {
#define X(sym, key, kind) {key, MTP__FOUND_##sym, kind},
    KEY_LIST(X)
#undef X
};
#define KEYS (sizeof keys / sizeof *keys)

typedef struct reader {
    mtp__checker c;
    mtp__window window;
    const char *at; /* the next byte to read */
    const mtp_open_options *options;
    uint64_t reported;
    bool ended; /* nothing more can be read, and the reason has been reported */
    bool has_events;
    bool has[KEYS];
} reader;

enum { /* what peek() returns instead of a character */
    AT_END = -1,
    STOPPED = -2 /* failed, or ended */
};

static uint64_t offset(const reader *r, const char *at)
{
    return r->window.offset + (uint64_t)(at - r->window.bytes);
}

/* --------------------------------------------------------------------------------------------- bytes */

/* Reads more bytes after r->at. Content that cannot be decompressed ends the check: a finding, not a
 * failure. */
static mtp_status more(reader *r)
{
    mtp_status status = mtp__window_slide(&r->window, r->at);
    r->at = r->window.bytes;
    r->c.json.end = r->window.bytes + r->window.held;
    r->c.json.complete = r->window.complete;
    if (status == MTP_E_FORMAT && mtp__source_status(r->window.source) == MTP_E_FORMAT) {
        const char *message = mtp_last_error(); /* the remedy is in the finding's effect */
        mtp__check_say(r->c.check, MTP__FOUND_DAMAGED, r->window.offset + r->window.held, MTP__NO_EVENT,
                       "%.*s", (int)strcspn(message, ";"), message);
        r->ended = true;
        return MTP_OK;
    }
    uint64_t done = mtp__source_done(r->window.source);
    if (r->options != NULL && r->options->progress != NULL && done - r->reported >= PROGRESS_EVERY) {
        r->reported = done;
        r->options->progress(r->options->user, done, mtp__source_total(r->window.source));
    }
    return status;
}

static void wrong(reader *r, const char *at, const char *expected, uint64_t event)
{
    r->ended = true;
    if (at >= r->c.json.end)
        mtp__check_say(r->c.check, MTP__FOUND_CUT_OFF, offset(r, r->c.json.end), event, "%s (%s is missing)",
                       event == MTP__NO_EVENT ? "the file's object" : "an event", expected);
    else if ((unsigned char)*at > ' ' && (unsigned char)*at < 0x7f)
        mtp__check_say(r->c.check, MTP__FOUND_NOT_JSON, offset(r, at), event, "'%c' where %s is expected",
                       *at, expected);
    else
        mtp__check_say(r->c.check, MTP__FOUND_NOT_JSON, offset(r, at), event,
                       "the byte 0x%02x where %s is expected", (unsigned)(unsigned char)*at, expected);
}

/* The next character after whitespace; moves r->at to it. */
static int peek(reader *r, mtp_status *status)
{
    for (;;) {
        r->at = mtp__json_space(r->at);
        if (r->at < r->c.json.end)
            return (unsigned char)*r->at;
        if (r->c.json.complete)
            return AT_END;
        *status = more(r);
        if (*status != MTP_OK || r->ended)
            return STOPPED;
    }
}

/* A whole value at r->at, within the window; NULL: failed or ended. */
static const char *whole(reader *r, uint64_t event, unsigned *flags, mtp_status *status)
{
    for (;;) {
        mtp__json *j = &r->c.json;
        *flags = 0;
        const char *end = mtp__json_skip(j, r->at, flags);
        if (end != NULL)
            return end;
        if (j->stop == MTP__JSON_DEEP) {
            mtp__check_say(r->c.check, MTP__FOUND_TOO_NESTED, offset(r, j->stop_at), event, "%d",
                           MTP__JSON_DEPTH);
            r->ended = true;
            return NULL;
        }
        if (j->stop == MTP__JSON_WRONG || j->complete) {
            wrong(r, j->stop_at, j->expected, event);
            return NULL;
        }
        *status = more(r);
        if (*status != MTP_OK || r->ended)
            return NULL;
    }
}

static bool is_odd(unsigned flags)
{
    return (flags & (MTP__JSON_ODD | MTP__JSON_ESCAPED)) != 0;
}

/* -------------------------------------------------------------------------------------------- events */

static mtp_status read_event(reader *r)
{
    unsigned flags;
    mtp_status status = MTP_OK;
    r->c.event = r->c.check->events;
    const char *end = whole(r, r->c.event, &flags, &status);
    if (end == NULL)
        return status;
    r->c.byte = offset(r, r->at);
    if (is_odd(flags))
        mtp__check_strict(&r->c, r->at, (size_t)(end - r->at), r->c.byte, r->c.event);
    mtp__check_event(&r->c, r->at, (size_t)(end - r->at));
    r->c.check->events++;
    r->at = end;
    return r->c.no_memory ? MTP_FAIL(MTP_E_NOMEM, "the checks of %llu events", (unsigned long long)r->c.event)
                          : MTP_OK;
}

/* From after the opening bracket to the closing one. */
static mtp_status read_events(reader *r)
{
    mtp_status status = MTP_OK;
    bool first = true;
    while (status == MTP_OK && !r->ended) {
        int c = peek(r, &status);
        if (c == STOPPED)
            return status;
        uint64_t comma = offset(r, r->at);
        if (c == ',' && !first) {
            r->at++;
            c = peek(r, &status);
            if (c == STOPPED)
                return status;
            if (c == ']')
                mtp__check_found(r->c.check, MTP__FOUND_COMMA, comma, MTP__NO_EVENT, NULL, 0);
        } else if (c != ']' && !first) {
            wrong(r, r->at, "',' or ']' after an event", MTP__NO_EVENT);
            return MTP_OK;
        }
        if (c == ']') {
            r->at++;
            return MTP_OK;
        }
        if (c == AT_END)
            wrong(r, r->at, "an event or ']'", MTP__NO_EVENT);
        else
            status = read_event(r);
        first = false;
    }
    return status;
}

/* ------------------------------------------------------------------------------------------ metadata */

/* "rank": 0, with the space; and the other keys. */
static void check_distributed(reader *r, const char *text)
{
    uint64_t byte = offset(r, text);
    const char *p = text + 1;
    mtp__json_string key;
    mtp__json_value value;
    bool rank = false, world = false, backend = false;
    while (mtp__json_member(&r->c.json, &p, &key, &value)) {
        world |= key.length == 10 && memcmp(key.bytes, "world_size", 10) == 0;
        backend |= key.length == 7 && memcmp(key.bytes, "backend", 7) == 0;
        if (key.length != 4 || memcmp(key.bytes, "rank", 4) != 0 || value.kind != 0)
            continue;
        rank = true;
        if (value.bytes != key.bytes + 7 || memcmp(key.bytes + 4, "\": ", 3) != 0)
            mtp__check_found(r->c.check, MTP__FOUND_NO_SPACE, byte, MTP__NO_EVENT, NULL, 0);
    }
    if (!rank)
        mtp__check_found(r->c.check, MTP__FOUND_NO_RANK, byte, MTP__NO_EVENT, NULL, 0);
    if (!world)
        mtp__check_say(r->c.check, MTP__FOUND_NO_WORLD, byte, MTP__NO_EVENT, "world_size");
    if (!backend)
        mtp__check_say(r->c.check, MTP__FOUND_NO_WORLD, byte, MTP__NO_EVENT, "backend");
}

static void check_key(reader *r, const char *key, size_t length, const char *value, uint64_t byte)
{
    for (size_t i = 0; i < KEYS; i++) {
        bool number = *value == '-' || (*value >= '0' && *value <= '9');
        if (length != strlen(keys[i].key) || memcmp(key, keys[i].key, length) != 0 ||
            !(keys[i].kind == '*' || (keys[i].kind == 0 ? number : *value == keys[i].kind)))
            continue;
        r->has[i] = true;
        if (r->has_events)
            mtp__check_found(r->c.check, MTP__FOUND_LATE_KEY, byte, MTP__NO_EVENT, key, length);
        if (keys[i].missing == MTP__FOUND_NO_DISTRIBUTED)
            check_distributed(r, value);
    }
}

/* A member other than traceEvents. Its key is short, and is held in the window with its value. */
/* The end of what begins at r->at and is not an event, after it has been checked; NULL: see whole(). */
static const char *checked(reader *r, mtp_status *status)
{
    unsigned flags;
    const char *end = whole(r, MTP__NO_EVENT, &flags, status);
    if (end != NULL && is_odd(flags))
        mtp__check_strict(&r->c, r->at, (size_t)(end - r->at), offset(r, r->at), MTP__NO_EVENT);
    return end;
}

static mtp_status read_member(reader *r, const char *key, size_t length, uint64_t byte)
{
    mtp_status status = MTP_OK;
    int c = peek(r, &status);
    if (c == STOPPED)
        return status;
    if (c == AT_END) {
        wrong(r, r->at, "a value", MTP__NO_EVENT);
        return MTP_OK;
    }
    const char *end = checked(r, &status);
    if (end == NULL)
        return status;
    check_key(r, key, length, r->at, byte);
    r->at = end;
    return MTP_OK;
}

/* The name of a member, truncated beyond the length of any that matters. *length: SIZE_MAX if none. */
static mtp_status read_key(reader *r, char name[64], size_t *length, uint64_t *byte)
{
    mtp_status status = MTP_OK;
    *length = SIZE_MAX;
    *byte = offset(r, r->at);
    if (*r->at != '"') {
        wrong(r, r->at, "'\"' at the start of a member's name", MTP__NO_EVENT);
        return MTP_OK;
    }
    const char *end = checked(r, &status);
    if (end == NULL)
        return status;
    size_t n = (size_t)(end - r->at) - 2;
    *length = n < 63 ? n : 63;
    memcpy(name, r->at + 1, *length);
    name[*length] = 0;
    r->at = end;
    int c = peek(r, &status);
    if (c == ':')
        r->at++;
    else if (c != STOPPED)
        wrong(r, r->at, "':' after a member's name", MTP__NO_EVENT);
    return status;
}

/* From after the opening brace. */
static mtp_status read_object(reader *r)
{
    mtp_status status = MTP_OK;
    char name[64];
    size_t length;
    uint64_t byte;
    int c = peek(r, &status);
    while (status == MTP_OK && !r->ended && c != '}') {
        status = read_key(r, name, &length, &byte);
        if (status != MTP_OK || r->ended)
            return status;
        bool named = strcmp(name, "traceEvents") == 0, events = named && peek(r, &status) == '[';
        if (named && r->has_events)
            mtp__check_found(r->c.check, MTP__FOUND_TWO_EVENTS, byte, MTP__NO_EVENT, NULL, 0);
        r->has_events |= events;
        r->at += events;
        if (status == MTP_OK && !r->ended)
            status = events ? read_events(r) : read_member(r, name, length, byte);
        if (status != MTP_OK || r->ended || (c = peek(r, &status)) == STOPPED)
            return status;
        byte = offset(r, r->at);
        if (c == ',') {
            r->at++;
            c = peek(r, &status);
            if (c == '}')
                mtp__check_found(r->c.check, MTP__FOUND_COMMA, byte, MTP__NO_EVENT, NULL, 0);
        } else if (c != '}') {
            wrong(r, r->at, "',' or '}' after a member", MTP__NO_EVENT);
        }
    }
    r->at += status == MTP_OK && !r->ended;
    return status;
}

/* ---------------------------------------------------------------------------------------------- whole */

static void check_missing(reader *r)
{
    if (!r->has_events)
        mtp__check_found(r->c.check, MTP__FOUND_NO_EVENTS, 0, MTP__NO_EVENT, NULL, 0);
    for (size_t i = 0; i < KEYS; i++)
        if (!r->has[i])
            mtp__check_found(r->c.check, keys[i].missing, 0, MTP__NO_EVENT, NULL, 0);
}

static void check_size(reader *r)
{
    uint64_t bytes = offset(r, r->c.json.end), members = mtp__source_members(r->window.source);
    if (bytes > LARGE_BYTES)
        mtp__check_say(r->c.check, bytes > TOO_LARGE_BYTES ? MTP__FOUND_TOO_LARGE : MTP__FOUND_LARGE, bytes,
                       MTP__NO_EVENT, "%.0f MB", (double)bytes / 1e6);
    if (members > 1)
        mtp__check_say(r->c.check, MTP__FOUND_MEMBERS, 0, MTP__NO_EVENT, "%llu members",
                       (unsigned long long)members);
}

static mtp_status read_file(reader *r)
{
    mtp_status status = MTP_OK;
    int c = peek(r, &status);
    if (c == STOPPED)
        return status;
    if (c == '[') {
        mtp__check_found(r->c.check, MTP__FOUND_NOT_OBJECT, offset(r, r->at), MTP__NO_EVENT, NULL, 0);
        r->at++;
        status = read_events(r);
    } else if (c == '{') {
        r->at++;
        status = read_object(r);
        if (status == MTP_OK && !r->ended)
            check_missing(r);
    } else {
        wrong(r, r->at, "'{'", MTP__NO_EVENT);
    }
    if (status == MTP_OK && !r->ended) {
        c = peek(r, &status);
        if (c != AT_END && c != STOPPED)
            wrong(r, r->at, "the end of the file", MTP__NO_EVENT);
    }
    if (status == MTP_OK)
        check_size(r);
    return status;
}

mtp_status mtp__check_json_file(mtp_check *check, mtp__source *source, const mtp_open_options *options)
{
    reader *r = mtp__calloc(1, sizeof *r);
    if (r == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a reader");
    r->options = options;
    r->c.check = check;
    r->c.last_ts = INT64_MIN;
    mtp_status status = mtp__window_init(&r->window, source, MTP__KINETO_WINDOW, MTP__KINETO_LARGEST);
    r->at = r->window.bytes;
    r->c.json.end = r->window.bytes;
    if (status == MTP_OK)
        status = read_file(r);
    mtp__window_fini(&r->window);
    if (status == MTP_OK)
        status = mtp__check_order(&r->c);
    mtp__pair_map_fini(&r->c.rows);
    mtp__pair_map_fini(&r->c.correlations);
    mtp__free(r->c.spans);
    mtp__free(r->c.flows);
    mtp__free(r);
    return status;
}
