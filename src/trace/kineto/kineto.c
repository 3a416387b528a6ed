/* trace/kineto/kineto.c - the whole file: an object with traceEvents somewhere in it, an array of events, or
 * an execution trace: an object with a schema and nodes. */
#include "trace/kineto/kineto.h"
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "record/spool/spool.h"
#include "trace/build.h"
#include "trace/kineto/reader.h"

#define PROGRESS_EVERY ((uint64_t)16 << 20) /* bytes of the file between calls of progress */
#define SPANS_FIRST 4096u

enum { /* what peek() returns instead of a character */
    AT_END = -1,
    FAILED = -2
};

static unsigned long long offset(const mtp__kineto *k, const char *at)
{
    return k->window.offset + (uint64_t)(at - k->window.bytes);
}

/* Reads more bytes; those not yet parsed are kept, from k->at. */
static mtp_status more(mtp__kineto *k)
{
    mtp_status status = mtp__window_slide(&k->window, k->at);
    k->at = k->window.bytes;
    k->json.end = k->window.bytes + k->window.held;
    k->json.complete = k->window.complete;
    uint64_t done = mtp__source_done(k->window.source);
    if (k->options != NULL && k->options->progress != NULL && done - k->reported >= PROGRESS_EVERY) {
        k->reported = done;
        k->options->progress(k->options->user, done, mtp__source_total(k->window.source));
    }
    return status;
}

static mtp_status wrong(const mtp__kineto *k, const char *at, const char *expected)
{
    if (at >= k->json.end)
        return MTP_FAIL(MTP_E_FORMAT, "byte %llu: the file ends where %s was expected: it is truncated",
                        offset(k, k->json.end), expected);
    unsigned char c = (unsigned char)*at;
    if (c > ' ' && c < 0x7f)
        return MTP_FAIL(MTP_E_FORMAT, "byte %llu: expected %s, not '%c'", offset(k, at), expected, c);
    return MTP_FAIL(MTP_E_FORMAT, "byte %llu: expected %s, not the byte 0x%02x", offset(k, at), expected, c);
}

/* The next character after whitespace; moves k->at to it. Whitespace is not kept in the window, but not read
 * without bound either: gzip expands a megabyte to a gigabyte of it. */
static int peek(mtp__kineto *k, mtp_status *status)
{
    for (unsigned long long from = offset(k, k->at);;) {
        k->at = mtp__json_space(k->at);
        if (k->at < k->json.end)
            return (unsigned char)*k->at;
        if (k->json.complete)
            return AT_END;
        *status = more(k);
        if (*status == MTP_OK && offset(k, k->at) - from > MTP__KINETO_LARGEST)
            *status =
                MTP_FAIL(MTP_E_FORMAT, "byte %llu: more than %zu spaces in a row", from, MTP__KINETO_LARGEST);
        if (*status != MTP_OK)
            return FAILED;
    }
}

/* Consumes exactly that character. */
static mtp_status expect(mtp__kineto *k, char wanted, const char *expected)
{
    mtp_status status = MTP_OK;
    int c = peek(k, &status);
    if (c == FAILED)
        return status;
    if (c != wanted)
        return wrong(k, k->at, expected);
    k->at++;
    return MTP_OK;
}

/* The scanner stopped at k->at: MTP_OK if there are more bytes now and it may retry. */
static mtp_status stopped(mtp__kineto *k)
{
    if (k->no_memory)
        return MTP_FAIL(MTP_E_NOMEM, "more than %llu events", (unsigned long long)k->events);
    if (k->json.stop == MTP__JSON_DEEP)
        return MTP_FAIL(MTP_E_FORMAT, "byte %llu: nested more than %d deep", offset(k, k->json.stop_at),
                        MTP__JSON_DEPTH);
    if (k->json.stop == MTP__JSON_WRONG || k->json.complete)
        return wrong(k, k->json.stop_at, k->json.expected);
    return more(k);
}

/* ------------------------------------------------------------------------------------------- events */

static mtp_status read_one(mtp__kineto *k, void (*add)(mtp__kineto *k))
{
    for (;;) {
        mtp__json_value other;
        bool is_object = *k->at == '{';
        const char *p =
            is_object ? mtp__kineto_event_parse(k, k->at) : mtp__json_read(&k->json, k->at, &other);
        if (p == NULL) {
            mtp_status status = stopped(k);
            if (status != MTP_OK)
                return status;
            continue;
        }
        if (is_object)
            add(k);
        else
            k->trace->skipped_events++;
        k->events++;
        k->at = p;
        if (k->no_memory || k->trace->builder->out_of_memory)
            return MTP_FAIL(MTP_E_NOMEM, "more than %llu events", (unsigned long long)k->events);
        return MTP_OK;
    }
}

static mtp_status read_event(mtp__kineto *k)
{
    return read_one(k, mtp__kineto_add);
}

/* Of an execution trace. */
static mtp_status read_node(mtp__kineto *k)
{
    return read_one(k, mtp__kineto_node_add);
}

/* A row of numbers of our own, not an event. */
static mtp_status read_row(mtp__kineto *k, void (*take)(mtp__kineto *k, const mtp__json_value *row))
{
    mtp__json_value row;
    const char *p;
    mtp_status status;
    while ((p = mtp__json_read(&k->json, k->at, &row)) == NULL)
        if ((status = stopped(k)) != MTP_OK)
            return status;
    take(k, &row);
    k->at = p;
    return k->trace->builder->out_of_memory ? MTP_FAIL(MTP_E_NOMEM, "memory tags and steps") : MTP_OK;
}

static mtp_status read_memory_row(mtp__kineto *k)
{
    return read_row(k, mtp__kineto_memory_row);
}

static mtp_status read_step_row(mtp__kineto *k)
{
    return read_row(k, mtp__kineto_step_row);
}

/* From after the opening bracket to the closing one. A bare array may lack it: its writer may have been
 * interrupted. */
static mtp_status read_events(mtp__kineto *k, bool bare, mtp_status (*read_next)(mtp__kineto *k))
{
    mtp_status status = MTP_OK;
    bool between = true; /* an event may follow */
    for (;;) {
        int c = peek(k, &status);
        if (c == FAILED)
            return status;
        if (c == ']') {
            k->at++;
            return MTP_OK;
        }
        if (c == AT_END && bare)
            return MTP_OK;
        if (!between) {
            if (c != ',')
                return wrong(k, k->at, "',' or ']' after an event");
            k->at++;
        } else if (c == AT_END) {
            return wrong(k, k->at, "an event or ']'");
        } else if ((status = read_next(k)) != MTP_OK) {
            return status;
        }
        between = !between;
    }
}

/* ----------------------------------------------------------------------------------------- metadata */

/* The names of the recording's flags. */
static const struct {
    const char *key;
    uint32_t flag;
} flags[] = {{"record_shapes", MTP_WITH_SHAPES},
             {"with_stack", MTP_WITH_STACK},
             {"profile_memory", MTP_WITH_MEMORY},
             {"with_flops", MTP_WITH_FLOPS},
             {"with_modules", MTP_WITH_MODULES}};

static bool key_is(const char *key, size_t length, const char *name)
{
    return length == strlen(name) && memcmp(key, name, length) == 0;
}

static void add_value(mtp__kineto *k, const char *key, size_t length, mtp__json_value *v)
{
    if (key_is(key, length, "baseTimeNanoseconds")) {
        if (v->kind == 0 || (v->kind == '"' && mtp__text_decimal(v->bytes + 1, v->length - 2, &v->number)))
            mtp__decimal_round(&v->number, 0, &k->trace->base_ns);
        return;
    }
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (key_is(key, length, flags[i].key) && ((v->kind == 0 && v->number.digits != 0) || v->kind == 't'))
            k->trace->flags_recorded |= flags[i].flag;
    if (key_is(key, length, "pid") && v->kind == 0)
        mtp__decimal_unsigned(&v->number, &k->document_pid);
    if (key_is(key, length, "start_ts") && v->kind == 0)
        mtp__decimal_unsigned(&v->number, &k->document_start_ms);
    if (key_is(key, length, "mtprof"))
        mtp__kineto_about(k, v);
    mtp__kineto_meta(k, key, length, v);
}

/* A string that the window may drop while the rest is read: unescaped into `key`. */
static mtp_status read_key(mtp__kineto *k, mtp__buffer *key)
{
    mtp__json_string s;
    const char *p;
    mtp_status status = MTP_OK;
    int c = peek(k, &status);
    if (c == FAILED)
        return status;
    if (c != '"')
        return wrong(k, k->at, "'\"' at the start of a member's name");
    while ((p = mtp__json_string_end(&k->json, k->at + 1, &s)) == NULL)
        if ((status = stopped(k)) != MTP_OK)
            return status;
    key->length = 0;
    mtp__json_unescape(key, s.bytes, s.length);
    k->at = p;
    return key->failed ? MTP_FAIL(MTP_E_NOMEM, "a name") : expect(k, ':', "':' after a member's name");
}

static mtp_status read_value(mtp__kineto *k, const mtp__buffer *key)
{
    mtp__json_value v;
    const char *p;
    mtp_status status = MTP_OK;
    int c = peek(k, &status);
    if (c == FAILED)
        return status;
    if (c == AT_END)
        return wrong(k, k->at, "a value");
    while ((p = mtp__json_read(&k->json, k->at, &v)) == NULL)
        if ((status = stopped(k)) != MTP_OK)
            return status;
    add_value(k, key->length != 0 ? key->bytes : "", key->length, &v);
    k->at = p;
    return k->no_memory || k->trace->builder->out_of_memory ? MTP_FAIL(MTP_E_NOMEM, "metadata") : MTP_OK;
}

/* From after the opening brace. */
static mtp_status read_object(mtp__kineto *k, mtp__buffer *key)
{
    bool has_events = false, is_execution = false;
    mtp_status status = MTP_OK;
    int c = peek(k, &status);
    while (status == MTP_OK && c != '}') {
        status = read_key(k, key);
        if (status != MTP_OK)
            return status;
        if (key_is(key->bytes, key->length, "traceEvents")) {
            has_events = true;
            status = expect(k, '[', "'[' after \"traceEvents\":");
            status = status == MTP_OK ? read_events(k, false, read_event) : status;
        } else if (is_execution && key_is(key->bytes, key->length, "nodes") && peek(k, &status) == '[') {
            has_events = true;
            k->at++;
            status = read_events(k, false, read_node);
        } else if (key_is(key->bytes, key->length, "mtprofMemory") && peek(k, &status) == '[') {
            k->at++;
            status = read_events(k, false, read_memory_row);
        } else if (key_is(key->bytes, key->length, "mtprofSteps") && peek(k, &status) == '[') {
            k->at++;
            k->has_step_scopes = k->trace->step_count > 0;
            status = read_events(k, false, read_step_row);
        } else if (status == MTP_OK) {
            is_execution |= key_is(key->bytes, key->length, "schema"); /* it comes first in such a file */
            status = read_value(k, key);
        }
        c = status == MTP_OK ? peek(k, &status) : FAILED;
        if (status != MTP_OK)
            return status;
        if (c != ',' && c != '}')
            return wrong(k, k->at, "',' or '}' after a member");
        k->at += c == ',';
    }
    if (status != MTP_OK)
        return status;
    k->at++;
    return has_events ? MTP_OK : MTP_FAIL(MTP_E_FORMAT, "no \"traceEvents\" in it: not a trace");
}

/* -------------------------------------------------------------------------------------------- whole */

static mtp_status no_trace(const mtp__kineto *k)
{
    if (mtp__spool_recognise(k->at, k->window.held))
        return MTP_FAIL(MTP_E_FORMAT, "a compressed spool: decompress it first");
    mtp_status status = wrong(k, k->at, "'{' or '[' at the start of a JSON trace");
    mtp__advise("what can be read: " MTP_READABLE);
    return status;
}

static mtp_status read_file(mtp__kineto *k)
{
    mtp_status status = more(k);
    if (status != MTP_OK)
        return status;
    if (k->window.held >= 3 && memcmp(k->at, "\xef\xbb\xbf", 3) == 0)
        k->at += 3;
    int c = peek(k, &status);
    if (c == FAILED)
        return status;
    if (c != '{' && c != '[')
        return no_trace(k);
    k->at++;
    mtp__buffer key = {0};
    status = c == '{' ? read_object(k, &key) : read_events(k, true, read_event);
    mtp__buffer_fini(&key);
    if (status != MTP_OK)
        return status;
    c = peek(k, &status);
    if (c == FAILED)
        return status;
    return c == AT_END ? MTP_OK : wrong(k, k->at, "the end of the file");
}

static mtp_status complete(mtp__kineto *k)
{
    mtp_trace *t = k->trace;
    mtp__kineto_pairs_finish(k);
    mtp__kineto_nodes_finish(k);
    mtp__kineto_rows_finish(k);
    if (k->no_memory)
        return MTP_FAIL(MTP_E_NOMEM, "a trace of %llu events", (unsigned long long)k->events);
    t->format = t->without_times ? MTP_FORMAT_EXECUTION : MTP_FORMAT_KINETO;
    t->flags_recorded |= (t->memory_count > 0 ? MTP_WITH_MEMORY : 0) |
                         (t->shape_count > 1 ? MTP_WITH_SHAPES : 0) |
                         (t->stack_count > 1 ? MTP_WITH_STACK : 0);
    return MTP_OK;
}

static void reader_fini(mtp__kineto *k)
{
    mtp__window_fini(&k->window);
    mtp__buffer_fini(&k->scratch);
    mtp__buffer_fini(&k->rest);
    mtp__free(k->event.members);
    mtp__buffer_fini(&k->event.overflow);
    mtp__hash_map_fini(&k->shapes);
    mtp__hash_map_fini(&k->stacks);
    mtp__hash_map_fini(&k->rows_by_key);
    mtp__pair_map_fini(&k->processes_by_pid);
    mtp__hash_map_fini(&k->metas);
    mtp__free(k->rows);
    mtp__free(k->processes);
    mtp__pair_map_fini(&k->devices);
    mtp__free(k->pairs);
    mtp__free(k->unfinished);
    mtp__free(k->frames);
    mtp__free(k->nodes);
    mtp__free(k);
}

mtp_status mtp__kineto_read(mtp__source *source, const mtp_open_options *options, size_t window,
                            mtp_trace **out)
{
    *out = NULL;
    mtp__kineto *k = mtp__calloc(1, sizeof *k);
    if (k == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a reader");
    k->options = options;
    k->last_row = MTP__NONE;
    k->last_category.category = MTP__CATEGORY_OTHER;
    mtp__kineto_event_init(k);
    mtp_status status =
        mtp__window_init(&k->window, source, window != 0 ? window : MTP__KINETO_WINDOW, MTP__KINETO_LARGEST);
    k->at = k->window.bytes;
    k->json.end = k->window.bytes;
    if (status == MTP_OK)
        status = mtp__trace_create(&k->trace);
    if (status == MTP_OK && !mtp__trace_reserve_spans(k->trace, SPANS_FIRST))
        status = MTP_FAIL(MTP_E_NOMEM, "spans");
    if (status == MTP_OK)
        status = read_file(k);
    if (status == MTP_OK)
        status = complete(k);
    mtp_trace *trace = k->trace;
    reader_fini(k); /* before finish(), which needs the memory */
    if (status != MTP_OK) {
        mtp_trace_destroy(trace);
        return status;
    }
    status = mtp__trace_finish(trace);
    if (status != MTP_OK)
        return status;
    for (uint32_t i = 0; i < trace->track_count; i++)
        if (trace->tracks[i].count != 0)
            trace->flags_recorded |= trace->tracks[i].on_device ? MTP_NPU : MTP_CPU;
    *out = trace;
    return MTP_OK;
}
