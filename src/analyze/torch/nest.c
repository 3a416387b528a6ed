/* analyze/torch/nest.c - the walk over all events: one pass, one stack.
 *
 * torch's rules. A span is the child of the innermost earlier span on its thread that contains it; one that
 * it begins in but outlasts is closed. A parent and an only child of the same name are one event: the
 * parent's, with the child's children, and with the child's device work instead of its own; but in our own recordings a Python
 * function that calls itself is called as often as it is. Self is the total
 * minus the direct children. An event is added to its row when it has ended; one that may yet be absorbed is
 * held until its parent has a second child, or ends.
 */
#include <string.h>
#include "analyze/torch/rules.h"
#include "analyze/flops.h"
#include "base/error.h"
#include "base/os.h"

/* For an open span. Recursion may be ten million deep, so frames are small; what only some walks need is in
 * extra. */
typedef struct frame {
    int64_t end, child_ns;
    uint32_t span, key;
    uint8_t class;
    uint8_t children; /* 0, 1, 2: more */
    bool holds;       /* its only child so far has the same name, and waits in stack.held */
} frame;

/* Not used by the plain walk. */
typedef struct extra {
    double total_us, child_us[2], own_device, child_device[2]; /* arrays: high and low */
    int64_t memory[2], child_memory[2];                        /* CPU, device */
    uint32_t work; /* the span whose device work it has: itself, or an absorbed child */
} extra;

/* The held event is a child of the innermost open span: when another child begins, it is no longer an only
 * child. */
typedef struct stack {
    mtp__scratch frames, extras;
    frame *at;   /* into frames, with `room` entries */
    extra *more; /* into extras; NULL in the plain walk */
    size_t depth, room;
    frame held;
    extra held_more;
} stack;

/* -------------------------------------------------------------------------------------------------- sums */

typedef struct cost {
    uint64_t flops;
    uint32_t key; /* + 1; 0: not yet computed */
    bool known;
} cost;

/* A call's FLOPs; a shape nearly always belongs to one op. */
static cost cost_of(const mtp__walk *w, uint32_t key, uint32_t span)
{
    const mtp__detail *d = mtp__trace_detail(w->g->t, span);
    cost *c = (cost *)w->cost.p + d->shape;
    if (c->key != key + 1) {
        const char *op = (const char *)mtp__intern_get(w->g->text, key)->bytes;
        uint64_t other;
        c->key = key + 1;
        c->flops = w->flops ? mtp__flops_torch(w->g->t, op, d->shape) : 0;
        c->known = mtp__flops_known(w->g->t, op, d->shape, &other);
    }
    cost out = *c;
    if (d->flops != 0)
        out = (cost){d->flops, c->key, true};
    return out;
}

static inline void note_first(mtp__sum *s, int64_t start, int64_t end, uint32_t span, bool nested)
{
    if (__builtin_expect(start > s->first_start, 1))
        return;
    if (start == s->first_start && (end < s->first_end || (end == s->first_end && span > s->first_span)))
        return;
    s->first_start = start;
    s->first_end = end;
    s->first_span = span;
    s->nested = nested;
}

/* Sums that only some traces have. */
static void sum_more(mtp__walk *w, mtp__sum *s, const frame *f, const extra *x)
{
    double children = mtp__added(x->child_device[0], x->child_device[1]);
    double device = x->own_device + children;
    if (w->exact)
        ((double *)w->self_us.p)[f->span] = x->total_us - mtp__added(x->child_us[0], x->child_us[1]);
    if (w->device_us.p != NULL) {
        ((double *)w->device_us.p)[2 * (size_t)f->span] = device;
        ((double *)w->device_us.p)[2 * (size_t)f->span + 1] = device - children;
    }
    if (!w->exact) {
        s->device_us += device;
        s->self_device_us += device - children;
    }
    for (unsigned k = 0; k < 2; k++) {
        int64_t self = mtp__minus(x->memory[k], x->child_memory[k]);
        mtp__count(&s->memory[k], x->memory[k]);
        mtp__count(&s->self_memory[k], self);
        if (w->self_memory.p != NULL)
            ((int64_t *)w->self_memory.p)[2 * (size_t)f->span + k] = self;
    }
    if (w->work.p != NULL)
        ((uint32_t *)w->work.p)[f->span] = x->work;
    if (!w->only_sums && w->g->t->category[f->span] == MTP__CATEGORY_CPU_OP) {
        cost c = cost_of(w, f->key, f->span);
        int64_t self = mtp__minus(mtp__duration(w->g->t, f->span), f->child_ns);
        s->flops += c.flops;
        mtp__count(&s->op_ns, self);
        mtp__count(&s->known_ns, c.known ? self : 0);
    }
}

/* Spans without an end all last to the end of the recording. Nested ones of the same row (a loop that
 * leaves its scopes by longjmp makes thousands) cover the same time, which counts once. Inner ones are
 * summed first. */
static int64_t unfinished_part(const mtp_trace *t, mtp__sum *s, const frame *f, int64_t ns)
{
    uint32_t track = mtp__trace_track_of(t, f->span);
    int64_t start = t->start[f->span];
    bool here = s->open_ns > 0 && s->open_track == track, around = here && start <= s->open_start;
    int64_t inner = around ? s->open_ns : 0;
    s->open_ns = here && !around ? mtp__plus(s->open_ns, ns) : ns;
    s->open_start = here && !around ? s->open_start : start;
    s->open_track = track;
    return mtp__minus(ns, inner);
}

static inline __attribute__((always_inline)) void sum_up(mtp__walk *w, const frame *f, const extra *x,
                                                         bool nested, const bool full)
{
    if (nested && w->g->options->top_level_only)
        return;
    uint32_t row = mtp__group_row(w->g, f->key, f->class, f->span);
    if (__builtin_expect(row == MTP__NONE, 0))
        return; /* latched */
    mtp__sum *s = &w->g->sum[row];
    int64_t start = w->g->t->start[f->span], ns = mtp__minus(f->end, start);
    s->count++;
    bool unfinished = (w->g->t->flags[f->span] & MTP__SPAN_UNFINISHED) != 0;
    mtp__count(&s->total_ns, __builtin_expect(unfinished, 0) ? unfinished_part(w->g->t, s, f, ns) : ns);
    mtp__count(&s->self_ns, mtp__minus(ns, f->child_ns));
    s->min_ns = ns < s->min_ns ? ns : s->min_ns;
    s->max_ns = ns > s->max_ns ? ns : s->max_ns;
    note_first(s, start, f->end, f->span, nested);
    ((uint32_t *)w->row.p)[f->span] = row + 1;
    if (__builtin_expect(w->each, 0) && !w->exact)
        ((double *)w->self_us.p)[f->span] = (double)mtp__minus(ns, f->child_ns) / 1000;
    if (full)
        sum_more(w, s, f, x);
}

/* ------------------------------------------------------------------------------------------------ nesting */

static bool grow(mtp__scratch *s, size_t bytes)
{
    void *p = s->p != NULL ? mtp__map_grow(s->p, s->bytes, bytes) : mtp__map_memory(bytes, false);
    if (p != NULL)
        *s = (mtp__scratch){p, bytes};
    return p != NULL;
}

static bool stack_grow(stack *k, bool full)
{
    size_t room = k->room != 0 ? k->room * 2 : 512;
    if (!grow(&k->frames, room * sizeof *k->at))
        return false;
    k->at = k->frames.p;
    if (full && !grow(&k->extras, room * sizeof *k->more))
        return false;
    k->more = k->extras.p;
    k->room = room;
    return true;
}

/* The parent takes over its only child's children and device work. */
static void absorb(frame *f, extra *x, const stack *k, bool full)
{
    const extra *child = &k->held_more;
    f->child_ns = k->held.child_ns;
    if (!full)
        return;
    memcpy(x->child_us, child->child_us, sizeof x->child_us);
    x->own_device = child->own_device;
    memcpy(x->child_device, child->child_device, sizeof x->child_device);
    memcpy(x->child_memory, child->child_memory, sizeof x->child_memory);
    x->work = child->work;
}

/* torch's rule is for ops; it applies it to Python functions, too. */
static bool is_recursion(const mtp_trace *t, uint32_t caller, uint32_t called)
{
    return t->category[caller] == MTP__CATEGORY_PYTHON_FUNCTION &&
           t->category[called] == MTP__CATEGORY_PYTHON_FUNCTION && mtp__is_ours(t);
}

static inline __attribute__((always_inline)) void end_top(mtp__walk *w, stack *k, const bool full)
{
    frame *f = &k->at[--k->depth];
    extra *x = full ? &k->more[k->depth] : NULL;
    if (f->holds)
        absorb(f, x, k, full);
    if (k->depth == 0) {
        sum_up(w, f, x, false, full);
        return;
    }
    frame *parent = f - 1;
    mtp__count(&parent->child_ns, mtp__duration(w->g->t, f->span));
    if (full) {
        extra *above = x - 1;
        mtp__add(&above->child_us[0], &above->child_us[1], x->total_us);
        mtp__add(&above->child_device[0], &above->child_device[1],
                 x->own_device + mtp__added(x->child_device[0], x->child_device[1]));
        mtp__count(&above->child_memory[0], x->memory[0]);
        mtp__count(&above->child_memory[1], x->memory[1]);
    }
    if (__builtin_expect(parent->children == 1 && parent->key == f->key, 0) &&
        !is_recursion(w->g->t, parent->span, f->span)) {
        k->held = *f;
        if (full)
            k->held_more = *x;
        parent->holds = true;
        return;
    }
    sum_up(w, f, x, true, full);
}

static inline __attribute__((always_inline)) bool begin(mtp__walk *w, stack *k, uint32_t span, uint32_t key,
                                                        const bool full)
{
    const mtp_trace *t = w->g->t;
    int64_t start = t->start[span], end = t->end[span];
    while (k->depth > 0 && (start >= k->at[k->depth - 1].end || end > k->at[k->depth - 1].end))
        end_top(w, k, full);
    if (k->depth > 0) {
        frame *parent = &k->at[k->depth - 1];
        parent->children = parent->children == 0 ? 1 : 2;
        if (__builtin_expect(parent->holds, 0)) {
            sum_up(w, &k->held, &k->held_more, true, full);
            parent->holds = false;
        }
    }
    if (__builtin_expect(k->depth == k->room, 0) && !stack_grow(k, full))
        return false;
    if (__builtin_expect(w->parent.p != NULL, 0))
        ((uint32_t *)w->parent.p)[span] = k->depth > 0 ? k->at[k->depth - 1].span + 1 : 0;
    frame *f = &k->at[k->depth];
    f->end = end;
    f->child_ns = 0;
    f->span = span;
    f->key = key;
    f->children = 0;
    f->class = (uint8_t)mtp__group_class(w->g, span);
    f->holds = false;
    if (full) {
        extra *x = &k->more[k->depth];
        *x = (extra){.total_us = mtp__microseconds(end, w->zero_ns) - mtp__microseconds(start, w->zero_ns),
                     .work = span};
        if (w->launched->us.p != NULL)
            x->own_device = ((const double *)w->launched->us.p)[span];
        if (w->bytes != NULL)
            mtp__bytes_within(w->bytes, start, end, k->depth == 0, x->memory);
    }
    k->depth++;
    return true;
}

static inline __attribute__((always_inline)) bool
walk_thread(mtp__walk *w, stack *k, const uint32_t *order, struct mtp__torch_thread thread, const bool full)
{
    mtp__group *g = w->g;
    const mtp_trace *t = g->t;
    for (uint32_t n = 0; n < thread.count; n++) {
        uint32_t i = order != NULL ? order[thread.first + n] : thread.first + n;
        if (__builtin_expect(mtp__group_class(g, i) >= MTP__CLASS_DEVICE, 0))
            continue;
        if (__builtin_expect(t->category[i] == MTP__CATEGORY_OTHER, 0) && g->trace_category != 0 &&
            mtp__trace_detail(t, i)->category == g->trace_category)
            continue;
        uint32_t key = mtp__group_key(g, t->name[i]);
        if (__builtin_expect(key == MTP__KEY_NONE, 0))
            continue;
        if (!begin(w, k, i, key, full))
            return false;
    }
    while (k->depth > 0)
        end_top(w, k, full);
    return true;
}

static bool walk_plain(mtp__walk *w, stack *k)
{
    bool ok = true;
    for (uint32_t n = 0; n < w->launched->threads && ok; n++)
        ok = walk_thread(w, k, NULL, w->launched->thread[n], false);
    return ok;
}

static bool walk_full(mtp__walk *w, stack *k)
{
    bool ok = true;
    for (uint32_t n = 0; n < w->launched->threads && ok; n++)
        ok = walk_thread(w, k, w->launched->order.p, w->launched->thread[n], true);
    return ok;
}

/* --------------------------------------------------------------------------------------------- device work */

static void walk_device(mtp__walk *w, const mtp__track *track)
{
    mtp__group *g = w->g;
    const mtp_trace *t = g->t;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        unsigned class = mtp__group_class(g, i);
        if (class < MTP__CLASS_DEVICE && track->on_device)
            class = class == MTP__CLASS_CPU_ANNOTATION ? MTP__CLASS_DEVICE_ANNOTATION
                                                       : MTP__CLASS_DEVICE; /* an unknown category */
        uint32_t key = class == MTP__CLASS_DEVICE || class == MTP__CLASS_DEVICE_ANNOTATION
                           ? mtp__group_key(g, t->name[i])
                           : MTP__KEY_NONE;
        uint32_t row = key != MTP__KEY_NONE ? mtp__group_row(g, key, class, i) : MTP__NONE;
        if (row == MTP__NONE)
            continue;
        mtp__sum *s = &g->sum[row];
        int64_t trim = mtp__trim(t, i), ns = mtp__minus(mtp__duration(t, i), 2 * trim);
        s->count++;
        mtp__count(&s->total_ns, ns);
        s->min_ns = ns < s->min_ns ? ns : s->min_ns;
        s->max_ns = ns > s->max_ns ? ns : s->max_ns;
        note_first(s, mtp__plus(t->start[i], trim), mtp__minus(t->end[i], trim), i, false);
        ((uint32_t *)w->row.p)[i] = row + 1;
    }
}

/* ---------------------------------------------------------------------------------------------------- all */

static bool make_scratch(mtp__walk *w)
{
    const mtp_trace *t = w->g->t;
    return mtp__scratch_make(&w->row, t->span_count, sizeof(uint32_t)) &&
           mtp__scratch_make(&w->cost, t->shape_count, sizeof(cost)) &&
           (!(w->exact || w->each) || mtp__scratch_make(&w->self_us, t->span_count, sizeof(double))) &&
           (!(w->exact || w->each) || w->launched->us.p == NULL ||
            mtp__scratch_make(&w->device_us, t->span_count, 2 * sizeof(double))) &&
           (!w->each || w->only_sums || mtp__scratch_make(&w->parent, t->span_count, sizeof(uint32_t))) &&
           (!w->each || w->bytes == NULL ||
            mtp__scratch_make(&w->self_memory, t->span_count, 2 * sizeof(int64_t))) &&
           (!w->each || w->only_sums || w->launched->us.p == NULL ||
            mtp__scratch_make(&w->work, t->span_count, sizeof(uint32_t)));
}

mtp_status mtp__walk_run(mtp__walk *w)
{
    const mtp_trace *t = w->g->t;
    stack k = {0};
    bool full = w->exact || w->bytes != NULL || w->launched->us.p != NULL || t->shape_count > 1 || w->flops;
    bool ok = make_scratch(w) && (full ? walk_full(w, &k) : walk_plain(w, &k));
    mtp__scratch_free(&k.frames);
    mtp__scratch_free(&k.extras);
    for (uint32_t n = 0; n < t->track_count && ok; n++)
        walk_device(w, &t->tracks[n]);
    if (ok && w->bytes != NULL)
        mtp__bytes_uncovered(w->bytes, w->g);
    if (!ok || w->g->failed)
        return MTP_FAIL(MTP_E_NOMEM, "averages of %u spans", t->span_count);
    return MTP_OK;
}

void mtp__walk_fini(mtp__walk *w)
{
    mtp__scratch_free(&w->row);
    mtp__scratch_free(&w->self_us);
    mtp__scratch_free(&w->device_us);
    mtp__scratch_free(&w->parent);
    mtp__scratch_free(&w->self_memory);
    mtp__scratch_free(&w->work);
    mtp__scratch_free(&w->cost);
}
