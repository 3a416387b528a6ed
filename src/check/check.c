/* check/check.c - the list of findings, and the public calls. A finished check is immutable. */
#include "check/check.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/json_out.h"
#include "base/os.h"
#include "base/plain.h"
#include "present/plain_text.h"
#include "trace/open.h"

#define EXAMPLE_MOST ((size_t)40) /* of an example */

typedef struct kind {
    const char *what, *effect;
    uint32_t rule;
    mtp_severity severity;
} kind;

static const kind kinds[] = {
#define X(sym, rule, severity, what, effect) {what, effect, rule, MTP_SEVERITY_##severity},
    MTP__FINDING_LIST(X)
#undef X
};

static const char *const severities[] = {
    [MTP_SEVERITY_NOTE] = "note", [MTP_SEVERITY_ERROR] = "error", [MTP_SEVERITY_REMARK] = "remark"};

/* ----------------------------------------------------------------------------------------- sightings */

static mtp__sighting *sight(mtp_check *c, mtp__found what, uint64_t byte, uint64_t event)
{
    mtp__sighting *s = &c->seen[what];
    bool first = s->count++ == 0 || byte < s->byte;
    if (!first)
        return NULL;
    s->byte = byte;
    s->event = event;
    s->example[0] = 0;
    return s;
}

void mtp__check_found(mtp_check *c, mtp__found what, uint64_t byte, uint64_t event, const char *example,
                      size_t length)
{
    char text[MTP__PLAIN_ROOM(EXAMPLE_MOST)];
    mtp__sighting *s = sight(c, what, byte, event);
    if (s == NULL || example == NULL)
        return;
    size_t shown = length < EXAMPLE_MOST ? length : EXAMPLE_MOST;
    while (shown < length && shown > 0 && ((unsigned char)example[shown] & 0xc0) == 0x80)
        shown--; /* not inside a character */
    mtp__plain plain = mtp__plain_text(text, example, shown);
    snprintf(s->example, sizeof s->example, "%s%s", plain.bytes, shown < length ? "..." : "");
}

void mtp__check_say(mtp_check *c, mtp__found what, uint64_t byte, uint64_t event, const char *fmt, ...)
{
    mtp__sighting *s = sight(c, what, byte, event);
    if (s == NULL)
        return;
    va_list args;
    va_start(args, fmt);
    /* started above, which the analyzer misses: NOLINTNEXTLINE */
    mtp__format_list(s->example, sizeof s->example, fmt, args);
    va_end(args);
}

/* ------------------------------------------------------------------------------------------ findings */

/* Formats the text with its example. */
static size_t describe(char *to, size_t room, const kind *k, const char *example)
{
    const char *gap = strstr(k->what, "%s");
    int n = gap == NULL ? snprintf(to, room, "%s", k->what)
                        : snprintf(to, room, "%.*s%s%s", (int)(gap - k->what), k->what, example, gap + 2);
    return n > 0 && (size_t)n < room ? (size_t)n + 1 : room;
}

static mtp_status conclude(mtp_check *c)
{
    const size_t each = 256 + MTP__EXAMPLE_BYTES;
    for (int i = 0; i < MTP__FOUNDS; i++)
        c->count += c->seen[i].count > 0;
    c->finding = mtp__calloc(c->count + 1, sizeof *c->finding);
    c->text = mtp__calloc(c->count + 1, each);
    if (c->finding == NULL || c->text == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%zu findings", c->count);
    mtp_finding *f = c->finding;
    char *text = c->text;
    for (int i = 0; i < MTP__FOUNDS; i++) {
        const mtp__sighting *s = &c->seen[i];
        if (s->count == 0)
            continue;
        *f++ = (mtp_finding){.rule = kinds[i].rule,
                             .severity = kinds[i].severity,
                             .count = s->count,
                             .first_byte = s->byte,
                             .first_event = s->event,
                             .what = text,
                             .effect = kinds[i].effect};
        text += describe(text, each, &kinds[i], s->example);
    }
    return MTP_OK;
}

/* --------------------------------------------------------------------------------------------- calls */

static mtp_status check_any(mtp_check *c, const char *path, const mtp_open_options *options)
{
    mtp__input in;
    mtp_status status = mtp__open_input(path, &in);
    if (status == MTP_OK && in.is_job)
        return MTP_FAIL(MTP_E_UNSUPPORTED,
                        "it holds the files of several ranks; check those, or what 'mtprof merge -o "
                        "FILE.json.gz' makes of it");
    if (status != MTP_OK)
        return status;
    if (in.format == MTP_FORMAT_RECORDING)
        return mtp__check_spool(c, in.file);
    status = mtp__check_json_file(c, in.source, options);
    mtp__source_close(in.source);
    return status;
}

mtp_status mtp_trace_check_file(const char *path, const mtp_open_options *options, mtp_check **out)
{
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    *out = NULL;
    mtp_open_options known;
    mtp__budget outer;
    mtp_status status = mtp__open_begin(path, options, &known, &outer);
    if (status != MTP_OK)
        return status;
    mtp_check *c = mtp__calloc(1, sizeof *c);
    status = c != NULL ? check_any(c, path, &known) : MTP_FAIL(MTP_E_NOMEM, "a check");
    if (c != NULL)
        snprintf(c->file, sizeof c->file, "%s", mtp__open_name(path));
    if (status == MTP_OK)
        status = conclude(c);
    mtp__budget_end(&outer);
    if (status != MTP_OK) {
        MTP_NOTE("%s", mtp__open_name(path));
        mtp_check_destroy(c);
        return status;
    }
    *out = c;
    return MTP_OK;
}

void mtp_check_destroy(mtp_check *c)
{
    if (c == NULL)
        return;
    mtp__free(c->finding);
    mtp__free(c->text);
    mtp__free(c);
}

size_t mtp_check_count(const mtp_check *c)
{
    return c != NULL ? c->count : 0;
}

const mtp_finding *mtp_check_finding(const mtp_check *c, size_t index)
{
    return c != NULL && index < c->count ? &c->finding[index] : NULL;
}

size_t mtp_check_breaches(const mtp_check *c)
{
    size_t breaches = 0;
    for (size_t i = 0; i < mtp_check_count(c); i++)
        breaches += c->finding[i].severity != MTP_SEVERITY_REMARK;
    return breaches;
}

bool mtp_check_recovered(const mtp_check *c)
{
    return c != NULL && c->recovered;
}

uint64_t mtp_check_events(const mtp_check *c)
{
    return c != NULL ? c->events : 0;
}

mtp_status mtp_check_json(const mtp_check *c, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, c, "check", sink, user);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "{\"file\": ");
    mtp__out_string(&o, c->file, strlen(c->file));
    MTP__OUT(&o, ", \"events\": ");
    mtp__out_u64(&o, c->events);
    mtp__out_text(&o, mtp_check_breaches(c) == 0 ? ", \"clean\": true" : ", \"clean\": false");
    if (c->recovered)
        MTP__OUT(&o, ", \"recovered\": true");
    MTP__OUT(&o, ", \"findings\": [");
    for (size_t i = 0; i < c->count; i++) {
        const mtp_finding *f = &c->finding[i];
        mtp__out_text(&o, i > 0 ? ",\n{\"rule\": " : "\n{\"rule\": ");
        mtp__out_u64(&o, f->rule);
        MTP__OUT(&o, ", \"severity\": \"");
        mtp__out_text(&o, severities[f->severity]);
        MTP__OUT(&o, "\", \"count\": ");
        mtp__out_u64(&o, f->count);
        MTP__OUT(&o, ", \"first_byte\": ");
        mtp__out_u64(&o, f->first_byte);
        MTP__OUT(&o, ", \"first_event\": ");
        if (f->first_event == MTP__NO_EVENT)
            MTP__OUT(&o, "null");
        else
            mtp__out_u64(&o, f->first_event);
        MTP__OUT(&o, ", \"what\": ");
        mtp__out_string(&o, f->what, strlen(f->what));
        MTP__OUT(&o, ", \"effect\": ");
        mtp__out_string(&o, f->effect, strlen(f->effect));
        MTP__OUT(&o, "}");
    }
    MTP__OUT(&o, "]}\n");
    return mtp__out_finish(&o);
}
