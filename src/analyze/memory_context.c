/* analyze/memory_context.c - where in the program a memory event happened.
 *
 * Each track's spans and memory events are walked together in order of time, with the open spans on a stack:
 * an event's context is that of the innermost span, and a span's context follows from its parent's. So the
 * cost is linear at any depth.
 */
#include "analyze/memory.h"
#include <string.h>
#include "base/error.h"
#include "base/grow.h"
#include "base/hash_map.h"
#include "base/os.h"
#include "trace/facts.h"

enum { /* what a name implies */
    NAME_UNSEEN,
    NAME_PLAIN,
    NAME_ENGINE,
    NAME_OPTIMIZER,
    NAME_LOADER
};

typedef struct frame {
    uint32_t span;
    mtp__context context;
} frame;

typedef struct maker { /* the op that made an autograd node: the last op with its sequence number */
    uint32_t track, top;
} maker;

typedef struct walk {
    const mtp_trace *t;
    uint8_t *names; /* owned: by text */
    frame *stack;   /* owned */
    uint32_t depth, room;
    mtp__hash_map makers; /* by the sequence numbers of backward ops, in their process */
    uint8_t *forward;     /* owned: a bit per span: it has a backward op */
} walk;

static uint8_t name_of(walk *w, uint32_t span)
{
    uint32_t id = w->t->name[span];
    if (w->names[id] == NAME_UNSEEN) {
        mtp_text text = mtp__trace_get_text(w->t, id);
        w->names[id] = MTP__BEGINS_WITH(text, MTP__ENGINE_PREFIX)         ? NAME_ENGINE
                       : MTP__BEGINS_WITH(text, "Optimizer.step#")        ? NAME_OPTIMIZER
                       : MTP__BEGINS_WITH(text, "enumerate(DataLoader)#") ? NAME_LOADER
                                                                          : NAME_PLAIN;
    }
    return w->names[id];
}

/* ------------------------------------------------------------------------------------------ sequences */

static mtp_status gather_sequences(walk *w)
{
    const mtp_trace *t = w->t;
    w->forward = mtp__calloc(t->span_count / 8 + 1, 1);
    bool ok = w->forward != NULL, is_new;
    for (uint32_t k = 0; t->detail != NULL && k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; ok && i < track->first + track->count; i++) {
            const int64_t key[2] = {mtp__trace_detail(t, i)->sequence, track->part};
            if (key[0] < 0 || !mtp__is_of_backward(t, i))
                continue;
            maker *m = mtp__hash_map_put(&w->makers, key, sizeof key, sizeof *m, &is_new);
            ok = m != NULL;
            if (ok)
                *m = (maker){MTP__NONE, MTP__NONE};
        }
    }
    return ok ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the forward ops of %zu backward ops", w->makers.count);
}

static void mark_forward(walk *w, const maker *m)
{
    if (m->top != MTP__NONE)
        w->forward[m->top / 8] |= (uint8_t)(1u << m->top % 8);
}

/* An op outside the backward pass has the number that the next node will get: of several ops, the last made
 * it. */
static void note_sequence(walk *w, uint32_t track, uint32_t span, uint32_t top)
{
    const int64_t key[2] = {mtp__trace_detail(w->t, span)->sequence, w->t->tracks[track].part};
    maker *m = mtp__hash_map_find(&w->makers, key, sizeof key, sizeof *m);
    if (m == NULL)
        return;
    if (m->track != track) /* numbers are per thread */
        mark_forward(w, m);
    *m = (maker){track, top};
}

/* ----------------------------------------------------------------------------------------------- walk */

static bool push(walk *w, uint32_t span, const mtp__context *context)
{
    if (!MTP__GROW(w->stack, w->room, w->depth, w->depth + 1, 64))
        return false;
    w->stack[w->depth++] = (frame){span, *context};
    return true;
}

static const mtp__context nowhere = {MTP__NONE, MTP__NONE, MTP__NONE, 0};

static bool enter(walk *w, uint32_t track, uint32_t span)
{
    const mtp_trace *t = w->t;
    uint32_t parent = t->parent[span];
    while (w->depth > 0 && (parent == MTP__NONE || w->stack[w->depth - 1].span > parent))
        w->depth--;
    mtp__context c = w->depth > 0 ? w->stack[w->depth - 1].context : nowhere;
    bool is_op = t->category[span] == MTP__CATEGORY_CPU_OP;
    bool was_op = c.op != MTP__NONE && t->category[c.op] == MTP__CATEGORY_CPU_OP;
    uint8_t name = name_of(w, span);
    if (is_op || !was_op)
        c.op = span;
    if (is_op && c.top == MTP__NONE && name != NAME_ENGINE)
        c.top = span;
    if ((is_op && name == NAME_ENGINE) || mtp__is_of_backward(t, span))
        c.flags |= MTP__IN_BACKWARD;
    if (name == NAME_OPTIMIZER || name == NAME_LOADER) {
        c.flags |= name == NAME_OPTIMIZER ? MTP__IN_OPTIMIZER : MTP__IN_LOADER;
        c.scope = span;
    }
    if (c.top != MTP__NONE && (c.flags & MTP__IN_BACKWARD) == 0 && mtp__trace_detail(t, span)->sequence >= 0)
        note_sequence(w, track, span, c.top);
    return push(w, span, &c);
}

/* The context at the time; a span includes its end. */
static const mtp__context *at_time(walk *w, int64_t ts)
{
    while (w->depth > 0 && w->t->end[w->stack[w->depth - 1].span] < ts)
        w->depth--;
    return w->depth > 0 ? &w->stack[w->depth - 1].context : &nowhere;
}

/* order: this track's events. */
static bool walk_track(walk *w, uint32_t k, const uint32_t *events, const uint32_t *order, uint32_t count,
                       mtp__context *out)
{
    const mtp_trace *t = w->t;
    const mtp__track *track = &t->tracks[k];
    uint32_t at = 0;
    w->depth = 0;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        for (; at < count && t->memory[events[order[at]]].ts < t->start[i]; at++)
            out[order[at]] = *at_time(w, t->memory[events[order[at]]].ts);
        if (!enter(w, k, i))
            return false;
    }
    for (; at < count; at++)
        out[order[at]] = *at_time(w, t->memory[events[order[at]]].ts);
    return true;
}

static uint32_t track_of(const mtp_trace *t, uint32_t event)
{
    uint32_t k = t->memory[event].track;
    return k < t->track_count && !t->tracks[k].on_device ? k : t->track_count; /* the last: on no track */
}

/* Events by track: those of track k are order[first[k]] to order[first[k + 1] - 1]. */
static void by_track(const mtp_trace *t, const uint32_t *events, uint32_t count, uint32_t *first,
                     uint32_t *order)
{
    for (uint32_t i = 0; i < count; i++)
        first[track_of(t, events[i]) + 1]++;
    for (uint32_t k = 0; k <= t->track_count; k++)
        first[k + 1] += first[k];
    for (uint32_t i = 0; i < count; i++)
        order[first[track_of(t, events[i])]++] = i;
    for (uint32_t k = t->track_count + 1; k > 0; k--)
        first[k] = first[k - 1];
    first[0] = 0;
}

mtp_status mtp__memory_contexts(const mtp_trace *t, const uint32_t *events, uint32_t count, mtp__context *out)
{
    walk w = {.t = t};
    uint32_t *first = mtp__calloc((size_t)t->track_count + 2, sizeof *first);
    uint32_t *order = mtp__calloc((size_t)count + 1, sizeof *order);
    w.names = mtp__calloc((size_t)mtp__intern_count(&t->text) + 2, 1);
    bool ok = first != NULL && order != NULL && w.names != NULL;
    mtp_status status = ok ? gather_sequences(&w) : MTP_FAIL(MTP_E_NOMEM, "contexts of %u events", count);
    ok = status == MTP_OK;
    for (uint32_t i = 0; ok && i < count; i++)
        out[i] = nowhere;
    if (ok)
        by_track(t, events, count, first, order);
    for (uint32_t k = 0; ok && k < t->track_count; k++)
        if (!t->tracks[k].on_device)
            ok = walk_track(&w, k, events, order + first[k], first[k + 1] - first[k], out);
    if (status == MTP_OK && !ok)
        status = MTP_FAIL(MTP_E_NOMEM, "the open spans of a track");
    const maker *m;
    for (size_t at = 0;
         ok && (m = mtp__hash_map_next(&w.makers, &at, 2 * sizeof(int64_t), sizeof *m)) != NULL;)
        mark_forward(&w, m);
    for (uint32_t i = 0; ok && i < count; i++)
        if (out[i].top != MTP__NONE && (w.forward[out[i].top / 8] >> out[i].top % 8 & 1) != 0)
            out[i].flags |= MTP__IN_FORWARD;
    mtp__free(w.forward);
    mtp__hash_map_fini(&w.makers);
    mtp__free(w.stack);
    mtp__free(w.names);
    mtp__free(order);
    mtp__free(first);
    return status;
}
