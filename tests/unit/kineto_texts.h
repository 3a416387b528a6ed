/* tests/unit/kineto_texts.h - traces read from JSON texts, and their contents. */
#ifndef TESTS_UNIT_KINETO_TEXTS_H
#define TESTS_UNIT_KINETO_TEXTS_H
#include "tests/test.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include "base/json_check.h"
#include "base/plain.h"
#include "trace/json/number.h"
#include "trace/json/source.h"
#include "trace/json/text.h"
#include "trace/kineto/kineto.h"
#include "trace/trace.h"

#ifndef TEST_ROOT
#define TEST_ROOT "."
#endif
#define SMALL TEST_ROOT "/tests/golden/kineto_small.json"
#define REAL TEST_ROOT "/../shared/data/gpt_cpu.json.gz"

/* ------------------------------------------------------------------------------------------- helpers */

static inline mtp_status read_bytes(const void *bytes, size_t length, size_t window, size_t piece,
                                    mtp_trace **out)
{
    mtp__source *source;
    *out = NULL;
    mtp_status status = mtp__source_memory(bytes, length, piece, &source);
    if (status != MTP_OK)
        return status;
    status = mtp__kineto_read(source, NULL, window, out);
    mtp__source_close(source);
    return status;
}

/* A text that must be accepted. */
static inline mtp_trace *read_text(const char *json)
{
    mtp_trace *t;
    mtp_status status = read_bytes(json, strlen(json), 0, 0, &t);
    if (status != MTP_OK)
        fail_msg("%s\n%s", mtp_last_error(), json);
    return t;
}

/* Events, without the enclosing brackets. */
static inline mtp_trace *read_list(const char *events)
{
    size_t room = strlen(events) + 64;
    char *json = malloc(room);
    snprintf(json, room, "{\"traceEvents\": [%s]}", events);
    mtp_trace *t = read_text(json);
    free(json);
    return t;
}

static inline const char *text(const mtp_trace *t, uint32_t id)
{
    return mtp__trace_get_text(t, id).bytes;
}

static inline const mtp__track *track_of(const mtp_trace *t, uint32_t span)
{
    return &t->tracks[mtp__trace_track_of(t, span)];
}

/* The only span with that name. */
static inline uint32_t span_named(const mtp_trace *t, const char *name)
{
    uint32_t found = MTP__NONE;
    for (uint32_t i = 0; i < t->span_count; i++)
        if (strcmp(text(t, t->name[i]), name) == 0) {
            assert_int_equal(found, MTP__NONE);
            found = i;
        }
    if (found == MTP__NONE)
        fail_msg("no span is named '%s'", name);
    return found;
}

static inline const char *args_of(const mtp_trace *t, const char *name)
{
    return text(t, mtp__trace_detail(t, span_named(t, name))->args);
}

/* The whole contents of a trace as text. */
static inline char *describe(const mtp_trace *t)
{
    char *out;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *r = &t->tracks[k];
        fprintf(f, "track %lld %lld '%s' '%s' '%s' %lld %d\n", (long long)r->pid, (long long)r->tid,
                text(t, r->pid_text), text(t, r->tid_text), text(t, r->name), (long long)r->sort_index,
                r->on_device);
        for (uint32_t i = r->first; i < r->first + r->count; i++) {
            const mtp__detail *d = mtp__trace_detail(t, i);
            const mtp__shape *s = &t->shapes[d->shape];
            fprintf(f, " span %lld %lld '%s' %d %d %d", (long long)t->start[i], (long long)t->end[i],
                    text(t, t->name[i]), t->category[i], t->flags[i], t->parent[i] == MTP__NONE);
            fprintf(f, " %lld %llu %llu %llu %lld %u [%u %u %u] '%s'", (long long)d->sequence,
                    (unsigned long long)d->forward_thread, (unsigned long long)d->correlation,
                    (unsigned long long)d->external_id, (long long)d->bytes, d->event_index, d->grid[0],
                    d->grid[1], d->block[0], text(t, d->category));
            fprintf(f, " %s %s %s %s {%s}\n", text(t, s->dims), text(t, s->strides), text(t, s->types),
                    text(t, s->concrete), text(t, d->args));
        }
    }
    for (uint32_t i = 0; i < t->memory_count; i++)
        fprintf(f, "memory %lld %llu %lld %lld {%s}\n", (long long)t->memory[i].ts,
                (unsigned long long)t->memory[i].address, (long long)t->memory[i].bytes,
                (long long)t->memory[i].total_allocated, text(t, t->memory[i].args));
    for (uint32_t i = 0; i < t->instant_count; i++)
        fprintf(f, "instant %lld '%s' %c %.17g {%s}\n", (long long)t->instants[i].ts,
                text(t, t->instants[i].name), t->instants[i].scope, t->instants[i].value,
                text(t, t->instants[i].args));
    for (uint32_t i = 0; i < t->flow_count; i++)
        fprintf(f, "flow %lld %llu %c '%s'\n", (long long)t->flows[i].ts, (unsigned long long)t->flows[i].id,
                t->flows[i].phase, text(t, t->flows[i].name));
    for (uint32_t i = 0; i < t->process_count; i++)
        fprintf(f, "process %lld '%s' '%s'\n", (long long)t->processes[i].pid, text(t, t->processes[i].name),
                text(t, t->processes[i].labels));
    for (uint32_t i = 0; i < t->metadata_count; i++)
        fprintf(f, "meta '%s' %s\n", text(t, t->metadata[i].key), text(t, t->metadata[i].json));
    fprintf(f, "base %lld pid %llu steps %u skipped %llu\n", (long long)t->base_ns,
            (unsigned long long)t->pid, t->step_count, (unsigned long long)t->skipped_events);
    fclose(f);
    return out;
}

static inline void assert_same_trace(const mtp_trace *a, const mtp_trace *b)
{
    char *x = describe(a), *y = describe(b);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

static inline char *slurp_small(size_t *bytes)
{
    char *json = test_slurp(SMALL, bytes);
    assert_non_null(json);
    return json;
}

#define X1(name, ts, dur)                                                                                    \
    "{\"ph\":\"X\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" #ts ",\"dur\":" #dur "}"
#endif
