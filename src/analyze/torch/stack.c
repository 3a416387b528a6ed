/* analyze/torch/stack.c - the stack shown for an event, and its frames.
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
    uint32_t span;
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

static bool find_forwards(forwards *f, const mtp_trace *t, const uint32_t *backward)
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
                *at = (forward){i, d->forward_thread == 0};
        }
    return true;
}

/* The tracks of one recording: several in a trace each have their own threads and sequence numbers. */
typedef struct stretch {
    uint32_t first, end;
} stretch;

/* The spans of these tracks, which are stored one after the other. */
static stretch spans_of(const mtp_trace *t, stretch in)
{
    return (stretch){t->tracks[in.first].first, t->tracks[in.end - 1].first + t->tracks[in.end - 1].count};
}

/* How well a track matches a forward thread: an op for each of its numbers. For a second derivative there are
 * only the engine's scopes. */
static uint32_t votes_for(const forwards *f, const mtp_trace *t, const uint32_t *backward, stretch in,
                          uint64_t thread, uint32_t track)
{
    const stretch spans = spans_of(t, in);
    uint32_t votes = 0;
    for (uint32_t i = spans.first; i < spans.end; i++)
        if (backward[i] == i && mtp__trace_detail(t, i)->forward_thread == thread) {
            const forward *there = find(f, mtp__trace_detail(t, i)->sequence, track);
            votes += there == NULL ? 0 : there->op ? 3 : 1;
        }
    return votes;
}

/* A recording names forward threads by the system's numbers, a file by torch's own, 1, 2, ... */
static uint32_t track_of_thread(const forwards *f, const mtp_trace *t, const uint32_t *backward, stretch in,
                                uint64_t thread)
{
    uint32_t most = 0, best = MTP__NONE;
    for (uint32_t k = in.first; k < in.end && mtp__is_recording(t); k++)
        if (!t->tracks[k].on_device && (uint64_t)t->tracks[k].tid == thread)
            return k;
    for (uint32_t k = in.first; k < in.end; k++) {
        uint32_t votes = t->tracks[k].on_device ? 0 : votes_for(f, t, backward, in, thread, k);
        if (votes > most) {
            most = votes;
            best = k;
        }
    }
    return best;
}

static void find_threads(forwards *f, const mtp_trace *t, const uint32_t *backward, stretch in)
{
    const stretch spans = spans_of(t, in);
    f->threads = 0;
    for (uint32_t i = spans.first; i < spans.end; i++) {
        uint64_t thread = backward[i] == i ? mtp__trace_detail(t, i)->forward_thread : 0;
        unsigned n = 0;
        while (n < f->threads && f->thread[n].thread != thread)
            n++;
        if (thread == 0 || n < f->threads || n == THREADS)
            continue;
        f->threads++;
        f->thread[n].thread = thread;
        f->thread[n].track = track_of_thread(f, t, backward, in, thread);
    }
}

static uint32_t forward_op(const forwards *f, const mtp__detail *d)
{
    for (unsigned n = 0; n < f->threads; n++)
        if (f->thread[n].thread == d->forward_thread && f->thread[n].track != MTP__NONE) {
            const forward *there = find(f, d->sequence, f->thread[n].track);
            return there != NULL ? there->span + 1 : MTP__NONE;
        }
    return MTP__NONE;
}

static void find_ops(forwards *f, const mtp_trace *t, const uint32_t *backward, uint32_t *op)
{
    for (stretch in = {0, 0}; in.first < t->track_count; in.first = in.end) {
        while (in.end < t->track_count && t->tracks[in.end].part == t->tracks[in.first].part)
            in.end++;
        find_threads(f, t, backward, in);
        const stretch spans = spans_of(t, in);
        for (uint32_t i = spans.first; i < spans.end; i++)
            op[i] = backward[i] != MTP__NONE ? forward_op(f, mtp__trace_detail(t, backward[i])) : 0;
    }
}

mtp_status mtp__forward_of(const mtp_trace *t, mtp__scratch *out)
{
    forwards f = {0};
    mtp__scratch backward = {0};
    bool ok = mtp__scratch_make(&backward, t->span_count, sizeof(uint32_t)) &&
              mtp__scratch_make(out, t->span_count, sizeof(uint32_t));
    uint32_t *in = backward.p, *op = out->p;
    if (ok) {
        find_backward(t, in);
        ok = find_forwards(&f, t, in);
    }
    if (ok)
        find_ops(&f, t, in, op);
    mtp__hash_map_fini(&f.map);
    mtp__scratch_free(&backward);
    return ok ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the forward ops of %u spans", t->span_count);
}

/* ------------------------------------------------------------------------------------------ which stack */

mtp_status mtp__python_of(const mtp_trace *t, mtp__scratch *out)
{
    if (!mtp__scratch_make(out, t->span_count, sizeof(uint32_t)))
        return MTP_FAIL(MTP_E_NOMEM, "the Python functions around %u spans", t->span_count);
    uint32_t *python = out->p;
    for (uint32_t i = 0; i < t->span_count; i++) {
        uint32_t up = t->parent[i];
        if (up != MTP__NONE)
            python[i] = t->category[up] == MTP__CATEGORY_PYTHON_FUNCTION ? up + 1 : python[up];
    }
    return MTP_OK;
}

typedef struct lookup {
    const mtp_trace *t;
    const uint32_t *python; /* by span, as mtp__python_of; NULL: recorded stacks only */
    const uint32_t *around; /* by span, as mtp__around; NULL: not in a recording */
} lookup;

static uint32_t own_stack(const lookup *k, uint32_t span)
{
    uint32_t stack = mtp__trace_detail(k->t, span)->stack;
    return stack == 0 && k->python != NULL && k->python[span] != 0 ? MTP__STACK_CALL | (k->python[span] - 1)
                                                                   : stack;
}

/* For spans without a stack in the file: a call in an op gets the op's; one outside, or a device annotation,
 * that of the enclosing event. As recorded, not as shown: the forward op's stack is only for spans in a
 * backward function. */
static uint32_t borrowed_stack(const lookup *k, uint32_t span)
{
    const mtp_trace *t = k->t;
    for (unsigned step = 0; step < t->span_count; step++) {
        const mtp__detail *d = mtp__trace_detail(t, span);
        mtp__category category = (mtp__category)t->category[span];
        uint32_t next = MTP__NONE;
        if (d->stack != 0 || category == MTP__CATEGORY_CPU_OP || category == MTP__CATEGORY_USER_ANNOTATION)
            return own_stack(k, span);
        if (k->around != NULL && k->around[span] != 0) {
            next = k->around[span] - 1;
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

static uint32_t shown_stack(const lookup *k, uint32_t op, uint32_t span)
{
    if (op != 0)
        return op != MTP__NONE ? own_stack(k, op - 1) : 0;
    return borrows(k->t, span) ? borrowed_stack(k, span) : own_stack(k, span);
}

mtp_status mtp__stacks_of(const mtp_trace *t, bool python, mtp__scratch *out)
{
    mtp__scratch ops = {0}, functions = {0}, around = {0};
    mtp_status status = mtp__forward_of(t, &ops);
    if (status == MTP_OK && python)
        status = mtp__python_of(t, &functions);
    if (status == MTP_OK && !mtp__is_recording(t))
        status = mtp__around(t, &around);
    if (status == MTP_OK && !mtp__scratch_make(out, t->span_count, sizeof(uint32_t)))
        status = MTP_FAIL(MTP_E_NOMEM, "the stacks of %u spans", t->span_count);
    if (status == MTP_OK) {
        lookup k = {t, functions.p, around.p};
        uint32_t *stack = out->p;
        for (uint32_t i = 0; i < t->span_count; i++)
            stack[i] = shown_stack(&k, ((const uint32_t *)ops.p)[i], i);
    }
    mtp__scratch_free(&ops);
    mtp__scratch_free(&functions);
    mtp__scratch_free(&around);
    return status;
}

/* ----------------------------------------------------------------------------------------------- frames */

/* Internal frames, which torch omits: both parts occur in them. */
static bool is_omitted(const char *frame)
{
    static const char *const both[][2] = {{"autograd/__init__", "_make_grads"},
                                          {"autograd/__init__", "backward"},
                                          {"torch/tensor", "backward"},
                                          {"_internal/common_utils", "prof_callable"},
                                          {"_internal/common_utils", "prof_func_call"},
                                          {"_internal/common_utils", "prof_meth_call"}};
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
        if (strstr(frame, both[i][0]) != NULL && strstr(frame, both[i][1]) != NULL)
            return true;
    return false;
}

/* The innermost Python function around a span; MTP__NONE: none. */
static uint32_t python_around(const mtp_trace *t, uint32_t span)
{
    do
        span = t->parent[span];
    while (span != MTP__NONE && t->category[span] != MTP__CATEGORY_PYTHON_FUNCTION);
    return span;
}

bool mtp__frames_next(mtp__frames *f, uint32_t *text)
{
    const mtp_trace *t = f->t;
    do {
        if (f->call != MTP__NONE) {
            *text = t->name[f->call];
            f->stack = mtp__trace_detail(t, f->call)->stack;
            f->call = f->python && f->stack == 0 ? python_around(t, f->call) : MTP__NONE;
        } else if (f->stack != 0) {
            *text = t->stacks[f->stack].frame;
            f->stack = t->stacks[f->stack].parent;
        } else {
            return false;
        }
    } while (is_omitted(mtp__trace_get_text(t, *text).bytes));
    return true;
}
