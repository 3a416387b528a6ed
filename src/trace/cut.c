/* trace/cut.c - a part of a trace as a new trace.
 *
 * First decides which spans stay (`keep`), then adds them, with everything they refer to, to a new trace. A
 * time range is a list of windows; steps become windows too. The source trace is only read.
 */
#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/abi.h"
#include "base/bisect.h"
#include "base/error.h"
#include "base/os.h"
#include "trace/build.h"
#include "trace/trace.h"

typedef struct window {
    int64_t from, to; /* to: exclusive */
} window;

enum { /* per span */
    DROPPED = 0,
    WHOLE = 1,
    CLIPPED = 2 /* to the windows it overlaps */
};

typedef struct cutter {
    const mtp_trace *t;
    const mtp_cut_options *options;
    mtp_trace *out;  /* owned until returned */
    window *windows; /* owned: disjoint, in order; all of time if no range was given */
    uint32_t window_count;
    uint8_t *keep;     /* owned: per span */
    uint8_t *named;    /* owned: per span, it or an ancestor has the name; NULL: no name was given */
    uint8_t *on_track; /* owned: per track, whether its thread was selected */
    uint32_t *text_of, *shape_of, *stack_of,
        *track_of;      /* owned: ids in `out`; 0 (tracks: MTP__NONE): not copied yet */
    uint8_t *flow_kept; /* owned: per flow */
    bool several;       /* processes */
} cutter;

/* ----------------------------------------------------------------------------------------- patterns */

/* '*' matches any bytes, '?' one byte; the whole text must match. Backtracks to the last star only, so the
 * cost is at most the product of the lengths. */
static bool glob(const char *pattern, const char *text, size_t length)
{
    const char *star = NULL;
    size_t at = 0, again = 0;
    while (at < length) {
        if (*pattern == '*') {
            star = ++pattern;
            again = at;
        } else if (*pattern != 0 && (*pattern == '?' || *pattern == text[at])) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star;
            at = ++again;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

static bool matches(const char *pattern, mtp_text text)
{
    if (strpbrk(pattern, "*?") != NULL)
        return glob(pattern, text.bytes, text.length);
    return memmem(text.bytes, text.length, pattern, strlen(pattern)) != NULL;
}

/* ------------------------------------------------------------------------------------------ windows */

static mtp_status windows_of_steps(cutter *c)
{
    const mtp_trace *t = c->t;
    const mtp_cut_options *o = c->options;
    int64_t least = INT64_MAX, most = INT64_MIN;
    bool joined = false; /* the previous step is included too: what lies between belongs to both */
    for (uint32_t i = 0; i < t->step_count; i++) {
        const mtp__step *s = &t->steps[i];
        least = s->number < least ? s->number : least;
        most = s->number > most ? s->number : most;
        bool in = s->number >= o->first_step && s->number <= o->last_step;
        if (in && joined && c->windows[c->window_count - 1].to < s->end)
            c->windows[c->window_count - 1].to = s->end;
        else if (in && !joined)
            c->windows[c->window_count++] = (window){s->start, s->end};
        joined = in;
    }
    if (t->step_count == 0)
        return MTP_FAIL(MTP_E_ARG, "the trace has no steps");
    if (c->window_count == 0)
        return MTP_FAIL(MTP_E_ARG, "no step from %lld to %lld: the trace has steps %lld to %lld",
                        (long long)o->first_step, (long long)o->last_step, (long long)least, (long long)most);
    return MTP_OK;
}

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static mtp_status windows_make(cutter *c)
{
    const mtp_cut_options *o = c->options;
    c->windows = mtp__calloc((size_t)c->t->step_count + 1, sizeof *c->windows);
    if (c->windows == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "windows for %u steps", c->t->step_count);
    if (o->by_step) {
        mtp_status status = windows_of_steps(c);
        if (status != MTP_OK)
            return status;
    } else {
        c->windows[c->window_count++] = (window){INT64_MIN, INT64_MAX};
    }
    if (!o->by_time)
        return MTP_OK;
    int64_t from = plus(c->t->first_ns, o->from_ns), to = plus(c->t->first_ns, o->to_ns);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->window_count; i++) {
        window w = c->windows[i];
        w.from = w.from > from ? w.from : from;
        w.to = w.to < to ? w.to : to;
        if (w.from < w.to)
            c->windows[kept++] = w;
    }
    c->window_count = kept;
    return MTP_OK;
}

/* The first window that ends after `at`; window_count if none does. */
static uint32_t window_at(const cutter *c, int64_t at)
{
    uint32_t low = 0, high = c->window_count;
    MTP__BISECT(low, high, mid, c->windows[mid].to <= at)
    return low;
}

static bool in_windows(const cutter *c, int64_t at)
{
    uint32_t w = window_at(c, at);
    return w < c->window_count && c->windows[w].from <= at;
}

/* DROPPED, WHOLE or CLIPPED, by time alone. */
static uint8_t in_time(const cutter *c, int64_t start, int64_t end)
{
    uint32_t w = window_at(c, start);
    if (c->windows == NULL || w == c->window_count || c->windows[w].from > (end > start ? end - 1 : start))
        return DROPPED;
    if (start < c->windows[w].from)
        return CLIPPED;
    while (w + 1 < c->window_count && c->windows[w + 1].from < end)
        w++;
    return end > c->windows[w].to ? CLIPPED : WHOLE;
}

static void clip(const cutter *c, int64_t *start, int64_t *end)
{
    uint32_t w = window_at(c, *start);
    if (w == c->window_count)
        return;
    *start = *start > c->windows[w].from ? *start : c->windows[w].from;
    while (w + 1 < c->window_count && c->windows[w + 1].from < *end)
        w++;
    *end = *end < c->windows[w].to ? *end : c->windows[w].to;
}

/* -------------------------------------------------------------------------------------- which spans */

static bool is_wanted_thread(const cutter *c, const mtp__track *track)
{
    const char *thread = c->options->thread;
    if (c->options->process != 0 && (track->on_device || (uint64_t)track->pid != c->options->process))
        return false;
    if (thread == NULL)
        return true;
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)track->tid);
    mtp_text text = mtp__trace_get_text(c->t, track->tid_text);
    if (track->tid_text != 0 ? strcmp(text.bytes, thread) == 0 : strcmp(number, thread) == 0)
        return true;
    char *end;
    strtoll(thread, &end, 10); /* a number is a tid, not a part of a name */
    return *end != 0 && track->name != 0 && matches(thread, mtp__trace_get_text(c->t, track->name));
}

static mtp_status find_threads(cutter *c)
{
    bool any = false;
    for (uint32_t k = 0; k < c->t->track_count; k++) {
        const mtp__track *track = &c->t->tracks[k];
        c->on_track[k] = is_wanted_thread(c, track);
        any |= c->on_track[k];
    }
    if (!any && c->options->process != 0 && c->options->thread == NULL)
        return MTP_FAIL(MTP_E_ARG, "there is no process %llu", (unsigned long long)c->options->process);
    if (!any && c->options->thread != NULL)
        return MTP_FAIL(MTP_E_ARG, "no thread has the number or the name '%s'", c->options->thread);
    return MTP_OK;
}

/* Marks spans with the name and those inside them: a parent comes before its children. */
static mtp_status find_named(cutter *c)
{
    const mtp_trace *t = c->t;
    if (c->options->name == NULL)
        return MTP_OK;
    uint32_t texts = mtp__intern_count(&t->text);
    uint8_t *is_match = mtp__calloc((size_t)texts + 1, 1);
    c->named = mtp__calloc((size_t)t->span_count + 1, 1);
    if (is_match == NULL || c->named == NULL) {
        mtp__free(is_match);
        return MTP_FAIL(MTP_E_NOMEM, "the names of %u spans", t->span_count);
    }
    for (uint32_t id = 1; id <= texts; id++)
        is_match[id] = matches(c->options->name, mtp__trace_get_text(t, id));
    bool any = false;
    for (uint32_t i = 0; i < t->span_count; i++) {
        c->named[i] = is_match[t->name[i]] || (t->parent[i] != MTP__NONE && c->named[t->parent[i]]);
        any |= c->named[i];
    }
    mtp__free(is_match);
    return any ? MTP_OK : MTP_FAIL(MTP_E_ARG, "no span has a name like '%s'", c->options->name);
}

static uint8_t keep_cpu(const cutter *c, uint32_t span, bool on_track)
{
    if (!on_track || (c->named != NULL && !c->named[span]))
        return DROPPED;
    uint8_t keep = in_time(c, c->t->start[span], c->t->end[span]);
    bool part_of_step = keep == CLIPPED && (c->t->flags[span] & MTP__SPAN_STEP) != 0;
    return part_of_step ? DROPPED : keep; /* a partial step is not a step */
}

/* Device work follows its launcher. Work with an unknown launcher, or that runs within a requested time
 * range, is kept in its own right. */
static uint8_t keep_device(const cutter *c, uint32_t span, bool on_track)
{
    const mtp_trace *t = c->t;
    uint32_t launcher = t->launcher != NULL ? t->launcher[span] : MTP__NONE;
    uint8_t own = in_time(c, t->start[span], t->end[span]);
    if (launcher != MTP__NONE && (c->keep[launcher] == WHOLE || (c->keep[launcher] == CLIPPED && own)))
        return WHOLE;
    if (c->named != NULL)
        return c->named[span] && on_track ? own : DROPPED;
    if (c->options->thread != NULL || c->options->process != 0)
        return on_track ? own : DROPPED;
    return launcher == MTP__NONE || c->options->by_time ? own : DROPPED;
}

static void find_spans(cutter *c)
{
    for (int device = 0; device < 2; device++)
        for (uint32_t k = 0; k < c->t->track_count; k++) {
            const mtp__track *track = &c->t->tracks[k];
            for (uint32_t i = track->first; track->on_device == device && i < track->first + track->count;
                 i++)
                c->keep[i] = device ? keep_device(c, i, c->on_track[k]) : keep_cpu(c, i, c->on_track[k]);
        }
}

/* Things with a track and a timestamp: memory events, instants, counters. */
static bool keep_moment(const cutter *c, uint32_t track, int64_t ts)
{
    if (!in_windows(c, ts) || track >= c->t->track_count || !c->on_track[track])
        return false;
    if (c->named == NULL)
        return true;
    uint32_t i = mtp__trace_span_at(c->t, track, ts);
    return i != MTP__NONE && c->keep[i] != DROPPED;
}

/* --------------------------------------------------------------------------------------------- copy */

static uint32_t copy_text(cutter *c, uint32_t id)
{
    if (id != 0 && c->text_of[id] == 0) {
        mtp_text text = mtp__trace_get_text(c->t, id);
        c->text_of[id] = mtp__trace_text(c->out, text.bytes, text.length);
    }
    return c->text_of[id];
}

static uint32_t copy_shape(cutter *c, uint32_t id)
{
    if (id != 0 && c->shape_of[id] == 0) {
        const mtp__shape *s = &c->t->shapes[id];
        mtp__shape copy = {copy_text(c, s->dims), copy_text(c, s->strides), copy_text(c, s->types),
                           copy_text(c, s->concrete)};
        c->shape_of[id] = mtp__trace_add_shape(c->out, &copy);
    }
    return c->shape_of[id];
}

/* Copies frames from the root: climbs to the topmost one not copied yet, adds it, and repeats. */
static uint32_t copy_stack(cutter *c, uint32_t id)
{
    while (id != 0 && c->stack_of[id] == 0) {
        uint32_t next = id;
        for (uint32_t up = c->t->stacks[next].parent; up != 0 && up < next && c->stack_of[up] == 0;
             up = c->t->stacks[next].parent)
            next = up;
        const mtp__stack_node *node = &c->t->stacks[next];
        uint32_t parent = node->parent < next ? c->stack_of[node->parent] : 0;
        c->stack_of[next] = mtp__trace_add_stack(c->out, parent, copy_text(c, node->frame));
        if (c->stack_of[next] == 0)
            return 0; /* out of memory: latched */
    }
    return c->stack_of[id];
}

static bool same_process(const mtp_trace *t, uint32_t a, uint32_t b)
{
    if (a >= t->track_count || b >= t->track_count)
        return true; /* unknown: there is only one */
    return t->tracks[a].pid == t->tracks[b].pid && t->tracks[a].pid_text == t->tracks[b].pid_text;
}

static uint32_t copy_track(cutter *c, uint32_t id)
{
    if (id < c->t->track_count && c->track_of[id] == MTP__NONE) {
        mtp__track copy = c->t->tracks[id];
        copy.pid_text = copy_text(c, copy.pid_text);
        copy.tid_text = copy_text(c, copy.tid_text);
        copy.name = copy_text(c, copy.name);
        copy.first = copy.count = 0;
        c->track_of[id] = mtp__trace_add_track(c->out, &copy);
    }
    return id < c->t->track_count ? c->track_of[id] : MTP__NONE;
}

/* The args of a clipped span: its full duration. */
static uint32_t clipped_args(cutter *c, uint32_t args, int64_t whole)
{
    mtp_text had = mtp__trace_get_text(c->t, args);
    size_t room = had.length + 64;
    char *text = mtp__calloc(1, room);
    if (text == NULL) {
        c->out->builder->out_of_memory = true;
        return 0;
    }
    memcpy(text, had.bytes, had.length);
    int n = snprintf(text + had.length, 64, "%s\"whole dur\": %lld.%03d", had.length > 0 ? ", " : "",
                     (long long)(whole / 1000), (int)(whole % 1000));
    uint32_t id = mtp__trace_text(c->out, text, had.length + (size_t)n);
    mtp__free(text);
    return id;
}

/* The first of `count` copies; 0 if there are none. */
static uint32_t copy_tensors(cutter *c, uint32_t first, uint32_t count)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = mtp__trace_add_tensor(c->out, &c->t->tensors[first + i]);
        made = made != 0 ? made : at;
    }
    return made;
}

static uint32_t copy_held(cutter *c, uint32_t first, uint32_t count)
{
    uint32_t made = 0;
    for (uint32_t i = 0; i < count; i++) {
        mtp__held copy = c->t->held[first + i];
        copy.shape = copy_shape(c, copy.shape);
        copy.tensors = copy_tensors(c, copy.tensors, copy.count);
        uint32_t at = mtp__trace_add_held(c->out, &copy);
        made = made != 0 ? made : at;
    }
    return made;
}

static uint32_t copy_detail(cutter *c, uint32_t span)
{
    const mtp__detail *d = mtp__trace_detail(c->t, span);
    bool clipped = c->keep[span] == CLIPPED;
    if (d == c->t->details && !clipped)
        return 0;
    mtp__detail copy = *d;
    copy.shape = copy_shape(c, d->shape);
    copy.outputs = copy_shape(c, d->outputs);
    copy.stack = copy_stack(c, d->stack);
    copy.tensors = copy_tensors(c, d->tensors, d->tensor_count);
    copy.held = copy_held(c, d->held, d->held_count);
    copy.category = copy_text(c, d->category);
    copy.args =
        clipped ? clipped_args(c, d->args, c->t->end[span] - c->t->start[span]) : copy_text(c, d->args);
    if (mtp__is_recording(c->t) && c->t->category[span] == MTP__CATEGORY_GPU_USER_ANNOTATION)
        copy.external_id = 0; /* in a recording it is a position, and positions change */
    return mtp__trace_add_detail(c->out, &copy);
}

static void copy_spans(cutter *c)
{
    const mtp_trace *t = c->t;
    for (uint32_t k = 0; k < t->track_count; k++)
        for (uint32_t i = t->tracks[k].first; i < t->tracks[k].first + t->tracks[k].count; i++) {
            if (c->keep[i] == DROPPED)
                continue;
            int64_t start = t->start[i], end = t->end[i];
            if (c->keep[i] == CLIPPED)
                clip(c, &start, &end);
            uint8_t flags = t->flags[i] & (uint8_t)~MTP__SPAN_OVERLAP;
            uint32_t track = copy_track(c, k);
            if (track == MTP__NONE)
                return;
            mtp__trace_add_span(c->out, track, start, end, copy_text(c, t->name[i]),
                                (mtp__category)t->category[i], flags, copy_detail(c, i));
            c->out->unfinished += (flags & MTP__SPAN_UNFINISHED) != 0;
        }
}

/* Of another process that has nothing in the part, a tag says nothing. */
static void add_tag(cutter *c, const mtp__tag *tag)
{
    mtp__tag copy = *tag;
    for (uint32_t k = 0;
         k < c->t->track_count && copy.track != MTP__NONE && c->track_of[copy.track] == MTP__NONE; k++)
        if (c->track_of[k] != MTP__NONE && same_process(c->t, k, copy.track))
            copy.track = k;
    if (copy.track != MTP__NONE && c->several && c->track_of[copy.track] == MTP__NONE)
        return;
    copy.track = copy.track != MTP__NONE ? c->track_of[copy.track] : MTP__NONE;
    mtp__trace_add_tag(c->out, &copy);
}

static void copy_moments(cutter *c)
{
    const mtp_trace *t = c->t;
    for (uint32_t i = 0; i < t->memory_count; i++) {
        mtp__memory copy = t->memory[i];
        if (!keep_moment(c, copy.track, copy.ts))
            continue;
        copy.track = copy_track(c, copy.track);
        copy.args = copy_text(c, copy.args);
        mtp__trace_add_memory(c->out, &copy);
    }
    for (uint32_t i = 0; i < t->instant_count; i++) {
        mtp__instant copy = t->instants[i];
        if (!keep_moment(c, copy.track, copy.ts))
            continue;
        copy.track = copy_track(c, copy.track);
        copy.name = copy_text(c, copy.name);
        copy.category = copy_text(c, copy.category);
        copy.args = copy_text(c, copy.args);
        mtp__trace_add_instant(c->out, &copy);
    }
    for (uint32_t i = 0; i < t->tag_count; i++)
        if (t->tags[i].bytes == 0 && in_windows(c, t->tags[i].ts))
            add_tag(c, &t->tags[i]);
}

static int by_address(const void *a, const void *b)
{
    const mtp__tag *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return (x->device_type > y->device_type) - (x->device_type < y->device_type);
}

/* Drops the blocks (sorted by address) that the event frees. */
static void drop_freed(const mtp_trace *t, mtp__tag *blocks, size_t count, const mtp__memory *e)
{
    mtp__tag wanted = {.address = e->address, .device_type = e->device_type};
    mtp__tag *at = bsearch(&wanted, blocks, count, sizeof wanted, by_address);
    while (at != NULL && at > blocks && by_address(at - 1, &wanted) == 0)
        at--;
    for (; at != NULL && at < blocks + count && by_address(at, &wanted) == 0; at++)
        if (at->device_index == e->device_index && at->ts <= e->ts && same_process(t, at->track, e->track))
            at->bytes = 0;
}

/* Blocks allocated before the recording exist in the part too, whenever they were reported, unless they were
 * freed before it begins. */
static void copy_existing(cutter *c)
{
    const mtp_trace *t = c->t;
    size_t count = 0;
    if (t->tag_count == 0 || c->window_count == 0)
        return;
    mtp__tag *blocks = mtp__calloc(t->tag_count, sizeof *blocks);
    if (blocks == NULL) {
        c->out->builder->out_of_memory = true;
        return;
    }
    for (uint32_t i = 0; i < t->tag_count; i++)
        if (t->tags[i].bytes > 0)
            blocks[count++] = t->tags[i];
    if (count > 1)
        qsort(blocks, count, sizeof *blocks, by_address);
    for (uint32_t i = 0; count > 0 && i < t->memory_count; i++)
        if (t->memory[i].bytes < 0 && t->memory[i].ts < c->windows[0].from)
            drop_freed(t, blocks, count, &t->memory[i]);
    for (size_t i = 0; i < count; i++)
        if (blocks[i].bytes > 0)
            add_tag(c, &blocks[i]);
    mtp__free(blocks);
}

/* -------------------------------------------------------------------------------------------- flows */

typedef struct flow_key {
    uint64_t id;
    uint32_t name, index;
} flow_key;

static int by_key(const void *a, const void *b)
{
    const flow_key *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->name > y->name) - (x->name < y->name);
}

/* A flow stays if the spans at both ends do, or the only one it had. */
static mtp_status copy_flows(cutter *c)
{
    const mtp_trace *t = c->t;
    uint32_t count = t->flow_count;
    flow_key *keys = mtp__calloc((size_t)t->flow_count + 1, sizeof *keys);
    if (keys == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u flows", t->flow_count);
    for (uint32_t i = 0; i < t->flow_count; i++) {
        const mtp__flow *f = &t->flows[i];
        uint32_t span = f->track < t->track_count ? mtp__trace_span_at(t, f->track, f->ts) : MTP__NONE;
        c->flow_kept[i] = span != MTP__NONE &&
                          (c->keep[span] == WHOLE || (c->keep[span] == CLIPPED && in_windows(c, f->ts)));
        keys[i] = (flow_key){f->id, f->name, i};
    }
    qsort(keys, count, sizeof *keys, by_key);
    for (uint32_t from = 0, to; from < count; from = to) {
        unsigned had = 0, has = 0;
        for (to = from; to < count && by_key(&keys[from], &keys[to]) == 0; to++) {
            char phase = t->flows[keys[to].index].phase;
            unsigned end = phase == 's' ? 1 : phase == 'f' ? 2 : 0;
            had |= end;
            has |= c->flow_kept[keys[to].index] ? end : 0;
        }
        for (uint32_t i = from; i < to && has != had; i++)
            c->flow_kept[keys[i].index] = false;
    }
    mtp__free(keys);
    for (uint32_t i = 0; i < t->flow_count; i++) {
        mtp__flow copy = t->flows[i];
        if (!c->flow_kept[i])
            continue;
        copy.track = copy_track(c, copy.track);
        copy.name = copy_text(c, copy.name);
        mtp__trace_add_flow(c->out, &copy);
    }
    return MTP_OK;
}

/* --------------------------------------------------------------------------------------------- rest */

/* Steps that are kept whole. By name: those whose spans are kept. */
static void copy_steps(cutter *c)
{
    const mtp_trace *t = c->t;
    for (uint32_t i = 0; i < t->step_count; i++) {
        const mtp__step *s = &t->steps[i];
        bool kept = in_time(c, s->start, s->end) == WHOLE;
        if (c->named != NULL && kept) {
            kept = false;
            for (uint32_t k = 0; k < t->track_count && !kept; k++) {
                uint32_t span = mtp__trace_span_at(t, k, s->start);
                while (span != MTP__NONE && (t->flags[span] & MTP__SPAN_STEP) == 0)
                    span = t->parent[span];
                kept = span != MTP__NONE && t->start[span] == s->start && c->keep[span] == WHOLE;
            }
        }
        if (kept)
            mtp__trace_add_step(c->out, s);
    }
}

static void copy_processes(cutter *c)
{
    const mtp_trace *t = c->t;
    for (uint32_t i = 0; i < t->process_count; i++) {
        mtp__process copy = t->processes[i];
        bool used = false;
        for (uint32_t k = 0; k < t->track_count && !used; k++)
            used = c->track_of[k] != MTP__NONE && t->tracks[k].pid == copy.pid &&
                   t->tracks[k].pid_text == copy.pid_text &&
                   (!mtp__is_recording(t) || t->tracks[k].on_device == copy.on_device);
        if (!used)
            continue;
        copy.pid_text = copy_text(c, copy.pid_text);
        copy.name = copy_text(c, copy.name);
        copy.labels = copy_text(c, copy.labels);
        mtp__trace_add_process(c->out, &copy);
    }
}

static void copy_head(cutter *c)
{
    const mtp_trace *t = c->t;
    mtp_trace *out = c->out;
    for (uint32_t i = 0; i < t->clock_count; i++)
        mtp__list_add(out, LIST(out, clocks), &t->clocks[i]);
    for (uint32_t i = 0; i < t->metadata_count; i++) {
        mtp_text key = mtp__trace_get_text(t, t->metadata[i].key);
        mtp_text json = mtp__trace_get_text(t, t->metadata[i].json);
        mtp__trace_add_meta(out, key.bytes, key.length, json.bytes, json.length);
    }
    out->base_ns = t->base_ns;
    out->pid = c->options->process != 0 ? c->options->process : t->pid;
    out->parent_pid = t->parent_pid;
    out->command = copy_text(c, t->command);
    out->zero_ns = t->zero_ns;
    out->format = t->format;
    out->made_window = t->made_window;
    out->without_times = t->without_times;
    out->has_ledger = t->has_ledger;
    out->ledger = t->ledger;
    out->unmatched_ends = t->unmatched_ends;
    out->clock_faults = t->clock_faults;
    out->clock_uncertain = t->clock_uncertain;
    out->damaged_chunks = t->damaged_chunks;
    out->missing_chunks = t->missing_chunks;
    out->chunks = t->chunks;
    out->damaged_header = t->damaged_header;
    out->bad_durations = t->bad_durations;
    out->outcome = t->outcome;
    out->skipped_events = t->skipped_events;
    out->flags_recorded = t->flags_recorded;
    memcpy(out->source, t->source, sizeof out->source);
}

/* --------------------------------------------------------------------------------------------- calls */

static mtp_status prepare(cutter *c)
{
    const mtp_trace *t = c->t;
    c->keep = mtp__calloc((size_t)t->span_count + 1, 1);
    c->on_track = mtp__calloc((size_t)t->track_count + 1, 1);
    c->text_of = mtp__calloc((size_t)mtp__intern_count(&t->text) + 1, sizeof *c->text_of);
    c->shape_of = mtp__calloc((size_t)t->shape_count + 1, sizeof *c->shape_of);
    c->stack_of = mtp__calloc((size_t)t->stack_count + 1, sizeof *c->stack_of);
    c->track_of = mtp__calloc((size_t)t->track_count + 1, sizeof *c->track_of);
    c->flow_kept = mtp__calloc((size_t)t->flow_count + 1, 1);
    if (c->keep == NULL || c->on_track == NULL || c->text_of == NULL || c->shape_of == NULL ||
        c->stack_of == NULL || c->track_of == NULL || c->flow_kept == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a cut of %u spans", t->span_count);
    memset(c->track_of, 0xff, ((size_t)t->track_count + 1) * sizeof *c->track_of);
    for (uint32_t k = 1; k < t->track_count && !c->several; k++)
        c->several = !t->tracks[k].on_device && !same_process(t, 0, k);
    mtp_status status = windows_make(c);
    if (status == MTP_OK)
        status = find_threads(c);
    if (status == MTP_OK)
        status = find_named(c);
    return status;
}

static mtp_status cut(cutter *c)
{
    mtp_status status = prepare(c);
    if (status != MTP_OK)
        return status;
    find_spans(c);
    status = mtp__trace_create(&c->out);
    if (status != MTP_OK)
        return status;
    copy_head(c);
    copy_spans(c);
    copy_moments(c);
    copy_existing(c);
    status = copy_flows(c);
    if (status != MTP_OK)
        return status;
    copy_steps(c);
    copy_processes(c);
    mtp_trace *out = c->out;
    if (!out->builder->out_of_memory && out->builder->spans.count == 0 && out->memory_count == 0 &&
        out->instant_count == 0)
        return MTP_FAIL(MTP_E_ARG, "nothing is left: no event matches the selection");
    c->out = NULL; /* finish() destroys it on failure */
    status = mtp__trace_finish(out);
    if (status == MTP_OK)
        c->out = out;
    return status;
}

static void cutter_fini(cutter *c)
{
    mtp__free(c->windows);
    mtp__free(c->keep);
    mtp__free(c->named);
    mtp__free(c->on_track);
    mtp__free(c->text_of);
    mtp__free(c->shape_of);
    mtp__free(c->stack_of);
    mtp__free(c->track_of);
    mtp__free(c->flow_kept);
}

mtp_status mtp_trace_cut(const mtp_trace *trace, const mtp_cut_options *options, mtp_trace **out)
{
    mtp_cut_options known = MTP_CUT_OPTIONS_INIT;
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    *out = NULL;
    if (trace == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace is NULL");
    mtp_status status =
        mtp__abi_read(&known, sizeof known, options, offsetof(mtp_cut_options, process), "mtp_cut_options");
    if (status != MTP_OK)
        return status;
    options = &known;
    if (options->by_step && options->first_step > options->last_step)
        return MTP_FAIL(MTP_E_ARG, "the range of steps %lld to %lld is empty", (long long)options->first_step,
                        (long long)options->last_step);
    if (options->by_time && options->from_ns >= options->to_ns)
        return MTP_FAIL(MTP_E_ARG, "the time range from %lld ns to %lld ns is empty",
                        (long long)options->from_ns, (long long)options->to_ns);
    cutter c = {.t = trace, .options = options};
    status = cut(&c);
    if (status == MTP_OK)
        *out = c.out;
    else
        mtp_trace_destroy(c.out);
    cutter_fini(&c);
    return status;
}
