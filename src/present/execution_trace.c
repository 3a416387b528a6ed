/* present/execution_trace.c - writes a trace as a PyTorch execution trace (Chakra).
 *
 * Nodes are in order of time over all threads, and are numbered in that order, as PyTorch does; a node is an
 * op or an annotation. This takes two words per span; nothing is allocated per node.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "analyze/by_time.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/os.h"
#include "present/execution_values.h"
#include "trace/facts.h"
#include "trace/trace.h"

#define ROOT 1u

enum { /* at::RecordScope */
    SCOPE_FUNCTION = 0,
    SCOPE_BACKWARD = 1,
    SCOPE_USER = 7
};

typedef struct node {
    uint64_t id, parent, rf_id, forward_parent, scope, thread, forward_thread;
    int64_t sequence;
    uint32_t span; /* MTP__NONE: the root or a thread */
} node;

typedef struct thread {     /* of a track with nodes */
    uint32_t number;        /* from 1, in order of start; 0: none yet */
    uint32_t last;          /* the last node started, or the innermost still open */
    uint64_t forward;       /* the thread named by its latest backward op */
    uint32_t forward_track; /* its track; MTP__NONE: unknown */
} thread;

typedef struct writer {
    const mtp_trace *t;
    mtp__out out;
    mtp__execution_values values;
    uint32_t *id, *up;  /* owned: per span, its node's id and the nearest enclosing node */
    thread *threads;    /* owned: per track */
    uint32_t *track_of; /* owned: per thread number - 1 */
    uint32_t thread_count, node_count;
    bool more; /* a node has been written */
} writer;

/* ------------------------------------------------------------------------------------------------ spans */

static bool is_node(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CPU_OP || t->category[span] == MTP__CATEGORY_USER_ANNOTATION;
}

/* Numbered as in the Chrome exporter. */
static uint64_t record_function_id(const mtp_trace *t, uint32_t span)
{
    uint64_t id = mtp__trace_detail(t, span)->external_id;
    return id != 0 || !mtp__is_recording(t) ? id : (uint64_t)span + 1;
}

static void number_threads(writer *w, mtp__by_time *order)
{
    uint32_t span, k;
    while ((span = mtp__by_time_next(order, &k)) != MTP__NONE) {
        if (!is_node(w->t, span))
            continue;
        w->node_count++;
        if (w->threads[k].number == 0) {
            w->track_of[w->thread_count] = k;
            w->threads[k] = (thread){++w->thread_count, MTP__NONE, 0, MTP__NONE};
        }
    }
}

/* Parents come before their children. */
static void find_nodes_around(writer *w)
{
    const mtp_trace *t = w->t;
    for (uint32_t i = 0; i < t->span_count; i++) {
        uint32_t parent = t->parent[i];
        w->up[i] = parent == MTP__NONE || is_node(t, parent) ? parent : w->up[parent];
    }
}

/* The track of a thread named by a backward op of a recording: by the OS's number, else by ours; MTP__NONE:
 * unknown. */
static uint32_t find_thread(const writer *w, uint64_t named, uint32_t part)
{
    for (uint32_t i = 0; i < w->thread_count; i++) {
        const mtp__track *track = &w->t->tracks[w->track_of[i]];
        if ((uint64_t)track->tid == named && track->part == part)
            return w->track_of[i];
    }
    return named >= 1 && named <= w->thread_count ? w->track_of[named - 1] : MTP__NONE;
}

static uint64_t node_or_thread(const writer *w, uint32_t span, uint32_t track)
{
    return span != MTP__NONE ? w->id[span] : (uint64_t)ROOT + w->threads[track].number;
}

/* What is open on the thread now; ended nodes are not visited again. */
static uint64_t open_on(writer *w, uint32_t track, int64_t now)
{
    thread *on = &w->threads[track];
    while (on->last != MTP__NONE && w->t->end[on->last] <= now)
        on->last = w->up[on->last];
    return node_or_thread(w, on->last, track);
}

static void fill_forward(writer *w, node *n, uint32_t track)
{
    const mtp__detail *d = mtp__trace_detail(w->t, n->span);
    thread *own = &w->threads[track];
    if (d->forward_thread != 0 &&
        d->forward_thread != own->forward) { /* AccumulateGrad does not name one: unchanged */
        own->forward = d->forward_thread;
        own->forward_track = find_thread(w, own->forward, w->t->tracks[track].part);
    }
    uint32_t forward = own->forward_track;
    n->forward_thread = forward != MTP__NONE ? w->threads[forward].number : own->forward;
    if (forward == track)
        n->forward_parent = n->parent;
    else if (forward != MTP__NONE)
        n->forward_parent = open_on(w, forward, w->t->start[n->span]);
}

/* ----------------------------------------------------------------------------------------------- nodes */

static void put_attribute(mtp__out *o, const char *head, uint64_t value)
{
    mtp__out_text(o, head);
    mtp__out_u64(o, value);
}

static void put_node(writer *w, const node *n, const char *name, size_t length)
{
    static const mtp__detail none = MTP__DETAIL_INIT;
    mtp__out *o = &w->out;
    const mtp__detail *d = n->span != MTP__NONE ? mtp__trace_detail(w->t, n->span) : &none;
    mtp__out_text(o, w->more ? ",\n      {\n        \"id\": " : "\n      {\n        \"id\": ");
    w->more = true;
    mtp__out_u64(o, n->id);
    MTP__OUT(o, ", \"name\": ");
    mtp__out_string(o, name, length);
    put_attribute(o, ", \"ctrl_deps\": ", n->parent);
    MTP__OUT(o, ",\n        \"inputs\": ");
    mtp__execution_values_put(&w->values, o, d->shape, d);
    MTP__OUT(o, ",\n        \"outputs\": ");
    mtp__execution_values_put(&w->values, o, d->outputs, d);
    put_attribute(o,
                  ",\n        \"attrs\": [{\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": ", n->rf_id);
    put_attribute(o, "},{\"name\": \"fw_parent\", \"type\": \"uint64\", \"value\": ", n->forward_parent);
    MTP__OUT(o, "},{\"name\": \"seq_id\", \"type\": \"int64\", \"value\": ");
    mtp__out_i64(o, n->sequence);
    put_attribute(o, "},{\"name\": \"scope\", \"type\": \"uint64\", \"value\": ", n->scope);
    put_attribute(o, "},{\"name\": \"tid\", \"type\": \"uint64\", \"value\": ", n->thread);
    put_attribute(o, "},{\"name\": \"fw_tid\", \"type\": \"uint64\", \"value\": ", n->forward_thread);
    MTP__OUT(o, "},{\"name\": \"op_schema\", \"type\": \"string\", \"value\": \"\"},"
                "{\"name\": \"kernel_backend\", \"type\": \"string\", \"value\": \"\"},"
                "{\"name\": \"kernel_file\", \"type\": \"string\", \"value\": \"\"},"
                "{\"name\": \"tensor_range\", \"type\": \"string\", \"value\": \"\"}]\n      }");
}

static void put_made(writer *w, uint64_t id, uint64_t number, const char *name)
{
    node n = {
        .id = id, .parent = ROOT, .scope = SCOPE_USER, .thread = number, .sequence = -1, .span = MTP__NONE};
    put_node(w, &n, name, strlen(name));
}

static void put_span(writer *w, uint32_t span, uint32_t track)
{
    const mtp_trace *t = w->t;
    const mtp__detail *d = mtp__trace_detail(t, span);
    bool engine = mtp__is_engine_scope(t, span), op = t->category[span] == MTP__CATEGORY_CPU_OP;
    bool backward = mtp__is_backward(t, span);
    node n = {.id = w->id[span],
              .parent = node_or_thread(w, w->up[span], track),
              .rf_id = record_function_id(t, span),
              .scope = !op        ? SCOPE_USER
                       : backward ? SCOPE_BACKWARD
                                  : SCOPE_FUNCTION,
              .thread = w->threads[track].number,
              .sequence = engine ? -1 : d->sequence, /* torch has none there */
              .span = span};
    if (backward)
        fill_forward(w, &n, track);
    w->threads[track].last = span;
    mtp_text name = mtp__trace_get_text(t, t->name[span]);
    put_node(w, &n, name.bytes, name.length);
}

/* ----------------------------------------------------------------------------------------------- whole */

static int64_t unix_ms(const mtp_trace *t, int64_t ts)
{
    return (int64_t)((uint64_t)t->base_ns + (uint64_t)ts) / 1000000;
}

static void put_head(writer *w)
{
    const mtp_trace *t = w->t;
    char when[32] = "1970-01-01 00:00:00";
    time_t seconds = (time_t)(unix_ms(t, t->first_ns) / 1000);
    struct tm tm;
    if (gmtime_r(&seconds, &tm) != NULL && tm.tm_year >= 0 && tm.tm_year < 8000)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
    MTP__OUT(&w->out, "{\n  \"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": ");
    mtp__out_u64(&w->out, t->pid);
    MTP__OUT(&w->out, ", \"time\": \"");
    mtp__out_text(&w->out, when);
    MTP__OUT(&w->out, "\", \"start_ts\": ");
    mtp__out_i64(&w->out, unix_ms(t, t->first_ns));
    MTP__OUT(&w->out, ",\n  \"nodes\": [");
}

static void put_nodes(writer *w, mtp__by_time *order)
{
    uint32_t span, k, at = ROOT + w->thread_count;
    put_made(w, ROOT, 0, "[pytorch|profiler|execution_trace|process]");
    for (uint32_t i = 1; i <= w->thread_count; i++)
        put_made(w, ROOT + i, i, "[pytorch|profiler|execution_trace|thread]");
    while ((span = mtp__by_time_next(order, &k)) != MTP__NONE) {
        if (!is_node(w->t, span))
            continue;
        w->id[span] = ++at;
        put_span(w, span, k);
    }
    MTP__OUT(&w->out, "\n  ],\n  \"finish_ts\": ");
    mtp__out_i64(&w->out, unix_ms(w->t, w->t->last_ns));
    MTP__OUT(&w->out, "\n}\n");
}

static mtp_status prepare(writer *w, const uint8_t *wanted)
{
    const mtp_trace *t = w->t;
    mtp__by_time order;
    w->id = mtp__calloc((size_t)t->span_count + 1, sizeof *w->id);
    w->up = mtp__calloc((size_t)t->span_count + 1, sizeof *w->up);
    w->threads = mtp__calloc((size_t)t->track_count + 1, sizeof *w->threads);
    w->track_of = mtp__calloc((size_t)t->track_count + 1, sizeof *w->track_of);
    if (w->id == NULL || w->up == NULL || w->threads == NULL || w->track_of == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "nodes of %u spans", t->span_count);
    mtp_status status = mtp__by_time_init(&order, t, wanted);
    if (status == MTP_OK)
        number_threads(w, &order);
    mtp__by_time_fini(&order);
    find_nodes_around(w);
    return status != MTP_OK ? status
                            : mtp__execution_values_init(
                                  &w->values, t, (uint64_t)ROOT + w->thread_count + w->node_count + 1);
}

mtp_status mtp_trace_execution_trace(const mtp_trace *t, mtp_sink *sink, void *user)
{
    writer w = {.t = t};
    if (t == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace is NULL");
    mtp_status status = mtp__out_init(&w.out, sink, user);
    if (status != MTP_OK)
        return status;
    mtp__by_time order = {0};
    uint8_t *wanted = mtp__calloc((size_t)t->track_count + 1, 1);
    for (uint32_t k = 0; wanted != NULL && k < t->track_count; k++)
        wanted[k] = !t->tracks[k].on_device;
    status = wanted != NULL ? prepare(&w, wanted) : MTP_FAIL(MTP_E_NOMEM, "%u tracks", t->track_count);
    if (status == MTP_OK)
        status = mtp__by_time_init(&order, t, wanted);
    if (status == MTP_OK) {
        put_head(&w);
        put_nodes(&w, &order);
        status = mtp__out_finish(&w.out);
    } else {
        w.out.failed = true; /* no output */
        mtp__free(w.out.buffer);
    }
    mtp__by_time_fini(&order);
    mtp__execution_values_fini(&w.values);
    mtp__free(w.track_of);
    mtp__free(w.threads);
    mtp__free(w.up);
    mtp__free(w.id);
    mtp__free(wanted);
    return status;
}
