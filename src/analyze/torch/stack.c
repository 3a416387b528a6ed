/* analyze/torch/stack.c - the stack shown for an event.
 *
 * torch: an event inside a backward function has the stack of the first forward op with the same sequence
 * number, on the thread that the backward function names. Device work and runtime calls have no stack in a
 * file: they get their op's, or that of what was open when they were made.
 */
#include <string.h>
#include "analyze/torch/rules.h"
#include "base/error.h"

#define THREADS 64 /* most forward threads; a trace has one or two */

typedef struct forward { /* the first span with a sequence number on a track */
    uint32_t stack;
    bool op; /* a forward op, not the engine's scope around a backward one */
} forward;

typedef struct forwards {
    mtp__hash_map map; /* (sequence, track) -> forward */
    struct {
        uint64_t thread;
        uint32_t track; /* MTP__NONE: unknown */
    } thread[THREADS];
    unsigned threads;
} forwards;

static const forward *find(const forwards *f, int64_t sequence, uint32_t track) /* NULL: none */
{
    const uint64_t key[2] = {(uint64_t)sequence, track};
    return mtp__hash_map_find(&f->map, key, sizeof key, sizeof(forward));
}

/* out[i]: the backward function around span i, or MTP__NONE. */
static void find_backward(const mtp_trace *t, uint32_t *out)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        out[i] = mtp__is_backward(t, i) ? i : t->parent[i] != MTP__NONE ? out[t->parent[i]] : MTP__NONE;
}

uint32_t mtp__python_around(const mtp_trace *t, uint32_t span)
{
    do
        span = t->parent[span];
    while (span != MTP__NONE && t->category[span] != MTP__CATEGORY_PYTHON_FUNCTION);
    return span;
}

static uint32_t own_stack(const mtp_trace *t, bool python, uint32_t span)
{
    uint32_t stack = mtp__trace_detail(t, span)->stack,
             around = stack == 0 && python ? mtp__python_around(t, span) : MTP__NONE;
    return around != MTP__NONE ? MTP__STACK_CALL | around : stack;
}

static bool find_forwards(forwards *f, const mtp_trace *t, bool python, const uint32_t *backward)
{
    for (uint32_t k = 0; k < t->track_count; k++)
        for (uint32_t i = t->tracks[k].first;
             !t->tracks[k].on_device && i < t->tracks[k].first + t->tracks[k].count; i++) {
            const mtp__detail *d = mtp__trace_detail(t, i);
            if (backward[i] != MTP__NONE || d->sequence < 0)
                continue;
            const uint64_t key[2] = {(uint64_t)d->sequence, k};
            bool is_new;
            forward *at = mtp__hash_map_put(&f->map, key, sizeof key, sizeof *at, &is_new);
            if (at == NULL)
                return false;
            if (is_new)
                *at = (forward){own_stack(t, python, i), d->forward_thread == 0};
        }
    return true;
}

/* How well a track matches a forward thread: an op for each of its numbers. For a second derivative there are
 * only the engine's scopes. */
static uint32_t votes_for(const forwards *f, const mtp_trace *t, const uint32_t *backward, uint64_t thread,
                          uint32_t track)
{
    uint32_t votes = 0;
    if (t->tracks[track].on_device)
        return 0;
    if (!t->from_kineto && (uint64_t)t->tracks[track].tid == thread)
        return UINT32_MAX;
    for (uint32_t i = 0; i < t->span_count; i++)
        if (backward[i] == i && mtp__trace_detail(t, i)->forward_thread == thread) {
            const forward *there = find(f, mtp__trace_detail(t, i)->sequence, track);
            votes += there == NULL ? 0 : there->op ? 3 : 1;
        }
    return votes;
}

/* A file names forward threads by torch's own numbers, 1, 2, ... */
static void find_threads(forwards *f, const mtp_trace *t, const uint32_t *backward)
{
    for (uint32_t i = 0; i < t->span_count; i++) {
        uint64_t thread = backward[i] == i ? mtp__trace_detail(t, i)->forward_thread : 0;
        unsigned n = 0;
        while (n < f->threads && f->thread[n].thread != thread)
            n++;
        if (thread == 0 || n < f->threads || n == THREADS)
            continue;
        uint32_t most = 0;
        f->threads++;
        f->thread[n].thread = thread;
        f->thread[n].track = MTP__NONE;
        for (uint32_t k = 0; k < t->track_count; k++) {
            uint32_t votes = votes_for(f, t, backward, thread, k);
            if (votes > most) {
                most = votes;
                f->thread[n].track = k;
            }
        }
    }
}

static uint32_t forward_stack(const forwards *f, const mtp__detail *d)
{
    for (unsigned n = 0; n < f->threads; n++)
        if (f->thread[n].thread == d->forward_thread && f->thread[n].track != MTP__NONE) {
            const forward *there = find(f, d->sequence, f->thread[n].track);
            return there != NULL ? there->stack : 0;
        }
    return 0;
}

/* For spans without a stack in the file: a call in an op gets the op's; one outside, or a device annotation,
 * that of the enclosing event. As recorded, not as shown: the forward op's stack is only for spans in a
 * backward function. */
static uint32_t borrowed_stack(const mtp_trace *t, const uint32_t *around, bool python, uint32_t span)
{
    for (unsigned step = 0; step < t->span_count; step++) {
        const mtp__detail *d = mtp__trace_detail(t, span);
        mtp__category category = (mtp__category)t->category[span];
        uint32_t next = MTP__NONE;
        if (d->stack != 0 || category == MTP__CATEGORY_CPU_OP || category == MTP__CATEGORY_USER_ANNOTATION)
            return own_stack(t, python, span);
        if (around != NULL && around[span] != 0) {
            next = around[span] - 1;
            if (t->category[next] == MTP__CATEGORY_PYTHON_FUNCTION)
                return MTP__STACK_CALL | next;
        } else if (mtp__category_on_device(category) && t->launcher != NULL) {
            next = t->launcher[span];
        } else if (mtp__is_collected(t, span)) {
            next = t->parent[span];
        }
        if (next == MTP__NONE)
            return 0;
        span = next;
    }
    return 0;
}

static bool borrows(const mtp_trace *t, uint32_t span)
{
    return mtp__is_collected(t, span) || mtp__category_on_device((mtp__category)t->category[span]);
}

mtp_status mtp__stacks_of(const mtp_trace *t, bool python, mtp__scratch *out)
{
    forwards f = {0};
    mtp__scratch backward = {0}, around = {0};
    bool ok = mtp__scratch_make(&backward, t->span_count, sizeof(uint32_t)) &&
              mtp__scratch_make(out, t->span_count, sizeof(uint32_t)) &&
              (!t->from_kineto || mtp__around(t, &around) == MTP_OK);
    uint32_t *in = backward.p, *stack = out->p;
    if (ok) {
        find_backward(t, in);
        ok = find_forwards(&f, t, python, in);
    }
    if (ok) {
        find_threads(&f, t, in);
        for (uint32_t i = 0; i < t->span_count; i++)
            stack[i] = in[i] != MTP__NONE ? forward_stack(&f, mtp__trace_detail(t, in[i]))
                       : borrows(t, i)    ? borrowed_stack(t, around.p, python, i)
                                          : own_stack(t, python, i);
    }
    mtp__hash_map_fini(&f.map);
    mtp__scratch_free(&backward);
    mtp__scratch_free(&around);
    return ok ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the stacks of %u spans", t->span_count);
}
