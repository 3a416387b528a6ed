/* analyze/findings/find_ops.c - ops that need not be there, or could be faster: casts, layout copies, matrix
 * products without tensor cores; backward passes; and what dominates.
 *
 * Where the device takes the time, that of kernels counts, else that of the host.
 */
#include <stdlib.h>
#include <string.h>
#include "analyze/findings/findings.h"
#include "analyze/torch/rules.h"
#include "base/error.h"

#define COPY_SHARE 0.1 /* of the time, in casts, or in layout copies */
#define COPIES_LEAST 10u
#define NUMBER_NS 5000     /* the cast of one number takes no longer */
#define PRODUCT_SHARE 0.1  /* of the time, in products that tensor cores would speed up */
#define PRODUCT_NS 10000   /* a shorter kernel gains little */
#define BACKWARD_RATIO 4.0 /* backward : forward; 2 is usual, 3 with recomputed activations */
#define BACKWARD_USUAL 3.0
#define DOMINANT_SHARE 0.5
#define OPTIMIZER_SHARE 0.5

/* ----------------------------------------------------------------------------------------------- copies */

/* The nth string of a JSON list of strings: its first byte, and length; false: there is none. */
static bool nth_string(const char *json, int nth, const char **text, size_t *length)
{
    for (const char *p = json; (p = strchr(p, '"')) != NULL; nth--) {
        const char *from = ++p;
        while (*p != '"' && *p != 0)
            p += *p == '\\' && p[1] != 0 ? 2 : 1;
        if (*p == 0)
            return false;
        *text = from;
        *length = (size_t)(p++ - from);
        if (nth == 0)
            return true;
    }
    return false;
}

/* Does torch's number of a dtype name the type of the input? Numbers are c10's. */
static bool is_same_type(const char *number, const char *type, size_t length)
{
    static const char *const types[] = {
        [0] = "unsigned char", [1] = "signed char", [2] = "short int", [3] = "int",   [4] = "long int",
        [5] = "c10::Half",     [6] = "float",       [7] = "double",    [11] = "bool", [15] = "c10::BFloat16"};
    unsigned long n = strtoul(number, NULL, 10);
    const char *named = n < sizeof types / sizeof *types ? types[n] : NULL;
    return named == NULL || (strlen(named) == length && memcmp(named, type, length) == 0);
}

/* A number of Python's, as in x * 1.5, is a tensor without dimensions, which the op casts: no tensor has the wrong dtype.
 * Where inputs were not recorded: a short cast that another op asks for. */
static bool is_of_number(const mtp__case *c, uint32_t span)
{
    const mtp_trace *t = c->t;
    uint32_t shape = mtp__trace_detail(t, span)->shape, up = t->parent[span];
    if (shape != 0 && shape < t->shape_count && t->shapes[shape].dims != 0)
        return MTP__BEGINS_WITH(mtp__trace_get_text(t, t->shapes[shape].dims), "[[]");
    while (up != MTP__NONE && (c->owner[up] != up || (mtp__case_name(c, up) & MTP__NAME_TO) != 0))
        up = t->parent[up];
    return up != MTP__NONE && mtp__duration(t, span) <= NUMBER_NS && !mtp__is_engine_scope(t, up);
}

/* aten::_to_copy with another dtype; else it moves between devices, or copies. Where inputs were not recorded: unknown. */
static bool is_cast(const mtp__case *c, uint32_t span)
{
    const mtp_trace *t = c->t;
    uint32_t shape = mtp__trace_detail(t, span)->shape;
    const char *to, *type;
    size_t length, type_length;
    if (shape == 0 || shape >= t->shape_count || t->shapes[shape].concrete == 0 ||
        t->shapes[shape].types == 0)
        return !c->has_device; /* may be a move */
    return nth_string(mtp__trace_get_text(t, t->shapes[shape].concrete).bytes, 1, &to, &length) &&
           length > 0 &&
           nth_string(mtp__trace_get_text(t, t->shapes[shape].types).bytes, 0, &type, &type_length) &&
           !is_same_type(to, type, type_length);
}

/* A cast that no other is around; a copy made by an op that only needed another layout. */
static bool is_copy(const mtp__case *c, uint32_t span, bool casts)
{
    uint16_t bits = mtp__case_name(c, span);
    if (c->owner[span] != span)
        return false;
    if (casts)
        return (bits & MTP__NAME_CAST) != 0 && is_cast(c, span) && !is_of_number(c, span);
    uint32_t up = (bits & MTP__NAME_CLONE) != 0 ? c->t->parent[span] : MTP__NONE;
    while (up != MTP__NONE && c->owner[up] != up)
        up = c->t->parent[up];
    return up != MTP__NONE && (mtp__case_name(c, up) & MTP__NAME_LAYOUT) != 0;
}

/* The copy that an op belongs to, itself included; MTP__NONE: none. */
static uint32_t copy_around(const mtp__case *c, uint32_t span, bool casts)
{
    for (; span != MTP__NONE; span = c->t->parent[span])
        if (is_copy(c, span, casts))
            return span;
    return MTP__NONE;
}

typedef struct copies {
    double sum;
    uint32_t count;
    mtp__evidence tally;
} copies;

static void add_copy(copies *g, const mtp__case *c, uint32_t copy, double ns)
{
    g->sum += ns;
    g->count++;
    mtp__evidence_span(&g->tally, c, copy, ns, true);
}

static void gather_copies(const mtp__case *c, bool casts, copies *g)
{
    const mtp_trace *t = c->t;
    if (mtp__case_is_device_bound(c)) {
        for (uint32_t i = 0; i < c->works && t->launcher != NULL; i++) {
            const mtp__work *w = &c->work[i];
            uint32_t copy =
                w->kind == MTP__WORK_KERNEL ? copy_around(c, t->launcher[w->span], casts) : MTP__NONE;
            if (copy != MTP__NONE)
                add_copy(g, c, copy, (double)(w->end - w->start));
        }
        return;
    }
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; c->wanted[k] && !track->on_device && i < track->first + track->count;
             i++)
            if (is_copy(c, i, casts) && mtp__case_time(c, i) > 0 &&
                mtp__case_around(c, i, MTP__NAME_LOADER) == MTP__NONE)
                add_copy(g, c, i, mtp__case_time(c, i));
    }
}

static mtp_status find_copies(mtp__case *c, bool casts)
{
    copies g = {0};
    gather_copies(c, casts, &g);
    const mtp__alike *first = mtp__evidence_first(&g.tally);
    mtp_status status = g.tally.failed ? MTP_FAIL(MTP_E_NOMEM, "copies") : MTP_OK;
    if (status == MTP_OK && first != NULL && g.count >= COPIES_LEAST && g.sum >= COPY_SHARE * c->whole) {
        mtp__draft d = {.id = casts ? "casts" : "layout-copies",
                        .kind = MTP_FINDING_TIME,
                        .confidence = MTP_CONFIDENCE_MEDIUM,
                        .spent = g.sum,
                        .gain = g.sum / 2};
        mtp__say(&d.title,
                 casts ? "Casts between dtypes take " : "Copies that only change the memory layout take ");
        mtp__say_share(&d.title, g.sum / c->whole);
        mtp__say(&d.title, " of the time");
        mtp__say(&d.text,
                 casts ? "%u casts (aten::_to_copy) took " : "%u tensors were made contiguous, which took ",
                 g.count);
        mtp__say_of_whole(&d.text, c, g.sum);
        mtp__say(&d.text, ", %s. ", mtp__case_is_device_bound(c) ? "on the device" : "on the host");
        if (first->source.length > 0) {
            mtp__say(&d.text, "Most of it comes from one line");
            mtp__say_source(&d.text, first->source);
            mtp__say(&d.text, ": ");
            mtp__say_count(&d.text, first->calls, "call", "calls");
            mtp__say(&d.text, ", ");
            mtp__say_time(&d.text, first->total);
            mtp__say(&d.text, ".");
        } else {
            mtp__say(&d.text, "Nothing is computed in them.");
        }
        mtp__say(&d.advice, "%s%s",
                 casts ? "Keep tensors in one dtype from the start: create and load them in it, convert "
                         "constants and "
                         "weights once, outside the loop."
                       : "Keep one layout: order dimensions so that transposes cancel, use channels_last "
                         "throughout, and "
                         "view or einsum instead of reshape after transpose.",
                 first->source.length == 0 ? " Record with stacks (with_stack=True) to see the lines." : "");
        status = mtp__find(c, &d, &g.tally);
    }
    mtp__evidence_fini(&g.tally);
    return status;
}

mtp_status mtp__find_casts(mtp__case *c)
{
    return find_copies(c, true);
}

mtp_status mtp__find_layouts(mtp__case *c)
{
    return find_copies(c, false);
}

/* --------------------------------------------------------------------------------------------- products */

static mtp_status tell_products(mtp__case *c, mtp__draft *d, double sum, mtp__evidence *tally)
{
    const mtp__alike *first = mtp__evidence_first(tally);
    if (tally->failed)
        return MTP_FAIL(MTP_E_NOMEM, "matrix products");
    if (first == NULL || sum < PRODUCT_SHARE * c->whole)
        return MTP_OK;
    d->spent = sum;
    mtp__say_of_whole(&d->text, c, sum);
    mtp__say(&d->text, ", most of it in ");
    mtp__say_name(&d->text, first->what);
    mtp__say(&d->text, ", ");
    mtp__say_count(&d->text, first->calls, "time", "times");
    mtp__say(&d->text, ".");
    return mtp__find(c, d, tally);
}

mtp_status mtp__find_plain_products(mtp__case *c)
{
    mtp__evidence tally = {0};
    double sum = 0;
    if (!mtp__case_is_device_bound(c) || mtp__device_type(c->t) != MTP__DEVICE_CUDA)
        return MTP_OK;
    for (uint32_t i = 0; i < c->works; i++) {
        const mtp__work *w = &c->work[i];
        double ns = (double)(w->end - w->start);
        if (w->kind == MTP__WORK_KERNEL && ns >= PRODUCT_NS &&
            (mtp__case_name(c, w->span) & MTP__NAME_PLAIN_FLOAT) != 0) {
            sum += ns;
            mtp__evidence_span(&tally, c, w->span, ns, false);
        }
    }
    mtp__draft d = {.id = "float32-products",
                    .kind = MTP_FINDING_TIME,
                    .confidence = MTP_CONFIDENCE_MEDIUM,
                    .gain = sum / 2};
    mtp__say(&d.title, "Matrix products in float32 do not use the tensor cores");
    mtp__say(&d.text, "By their names, kernels that multiply matrices in plain float32 took ");
    mtp__say(&d.advice,
             "If the model allows it: torch.set_float32_matmul_precision(\"high\") (TF32), or bfloat16 by "
             "autocast. Check the accuracy.");
    mtp_status status = tell_products(c, &d, sum, &tally);
    mtp__draft_free(&d);
    mtp__evidence_fini(&tally);
    return status;
}

/* One of the two last dims of a matrix is not a multiple of 8. */
static bool has_odd_dim(const char *dims)
{
    int depth = 0, rank = 0;
    uint64_t last[2] = {0, 0};
    for (const char *p = dims; *p != 0; p++) {
        if (*p == '[') {
            depth++;
            rank = 0;
        } else if (*p == ']') {
            if (depth-- == 2 && rank >= 2 && (last[0] % 8 != 0 || last[1] % 8 != 0))
                return true;
        } else if (*p >= '0' && *p <= '9' && depth == 2) {
            char *end;
            last[0] = last[1];
            last[1] = strtoull(p, &end, 10);
            rank++;
            p = end - 1;
        }
    }
    return false;
}

static bool is_odd_product(const mtp__case *c, uint32_t op)
{
    const mtp_trace *t = c->t;
    uint32_t shape = mtp__trace_detail(t, op)->shape;
    if ((mtp__case_name(c, op) & MTP__NAME_PRODUCT) == 0 || shape == 0 || shape >= t->shape_count)
        return false;
    const char *types = mtp__trace_get_text(t, t->shapes[shape].types).bytes;
    return (strstr(types, "Half") != NULL || strstr(types, "BFloat16") != NULL) &&
           has_odd_dim(mtp__trace_get_text(t, t->shapes[shape].dims).bytes);
}

mtp_status mtp__find_odd_products(mtp__case *c)
{
    mtp__evidence tally = {0};
    double sum = 0;
    if (!mtp__case_is_device_bound(c) || mtp__device_type(c->t) != MTP__DEVICE_CUDA || c->t->launcher == NULL)
        return MTP_OK;
    for (uint32_t i = 0; i < c->works; i++) {
        const mtp__work *w = &c->work[i];
        uint32_t op = c->t->launcher[w->span];
        double ns = (double)(w->end - w->start);
        if (w->kind == MTP__WORK_KERNEL && op != MTP__NONE && ns >= PRODUCT_NS && is_odd_product(c, op)) {
            sum += ns;
            mtp__evidence_span(&tally, c, op, ns, true);
        }
    }
    mtp__draft d = {
        .id = "odd-sizes", .kind = MTP_FINDING_TIME, .confidence = MTP_CONFIDENCE_LOW, .gain = sum / 4};
    mtp__say(&d.title, "Half-precision products have sizes that are not multiples of 8");
    mtp__say(&d.text,
             "Tensor cores work best on sizes that are multiples of 8. Products of other sizes took ");
    mtp__say(
        &d.advice,
        "Pad the vocabulary, the hidden sizes or the batch to a multiple of 8 (better 64), and measure.");
    mtp_status status = tell_products(c, &d, sum, &tally);
    mtp__draft_free(&d);
    mtp__evidence_fini(&tally);
    return status;
}

/* --------------------------------------------------------------------------------------------- backward */

typedef struct passes {
    double forward, backward;
    double longest;      /* op or kernel of backward */
    mtp__evidence tally; /* of backward */
} passes;

/* What an outermost op belongs to: the backward pass, or the forward pass if autograd numbered it. */
static void add_outermost(passes *p, const mtp__case *c, uint32_t span)
{
    const mtp_trace *t = c->t;
    double ns = mtp__case_time(c, span);
    if (ns <= 0 || t->category[span] != MTP__CATEGORY_CPU_OP ||
        mtp__case_around(c, span, MTP__NAME_OPTIMIZER | MTP__NAME_LOADER) != MTP__NONE)
        return;
    if (mtp__is_of_backward(t, span) || mtp__is_engine_scope(t, span)) {
        p->backward += ns;
        p->longest = ns > p->longest ? ns : p->longest;
        mtp__evidence_span(&p->tally, c, span, ns, false);
    } else {
        p->forward += ns;
    }
}

/* The same for the device, by the ops that launched its work. */
static void add_kernels(passes *p, const mtp__case *c)
{
    const mtp_trace *t = c->t;
    for (uint32_t i = 0; i < c->works && t->launcher != NULL; i++) {
        const mtp__work *w = &c->work[i];
        uint32_t op = t->launcher[w->span], back = MTP__NONE;
        if (op == MTP__NONE || w->kind != MTP__WORK_KERNEL ||
            mtp__case_around(c, op, MTP__NAME_OPTIMIZER | MTP__NAME_LOADER) != MTP__NONE)
            continue;
        for (uint32_t up = op; up != MTP__NONE; up = t->parent[up])
            back = mtp__is_of_backward(t, up) || mtp__is_engine_scope(t, up) ? up : back;
        double ns = (double)(w->end - w->start);
        if (back != MTP__NONE)
            p->longest = ns > p->longest ? ns : p->longest;
        if (back != MTP__NONE)
            mtp__evidence_span(&p->tally, c, back, ns, false);
        *(back != MTP__NONE ? &p->backward : &p->forward) += ns;
    }
}

mtp_status mtp__find_backward(mtp__case *c)
{
    const mtp_trace *t = c->t;
    passes p = {0};
    if (mtp__case_is_device_bound(c))
        add_kernels(&p, c);
    for (uint32_t k = 0; !mtp__case_is_device_bound(c) && !c->has_device && k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; c->wanted[k] && !track->on_device && i < track->first + track->count;
             i++)
            if (c->owner[i] == i && (t->parent[i] == MTP__NONE || c->owner[t->parent[i]] == MTP__NONE))
                add_outermost(&p, c, i);
    }
    const mtp__alike *first = mtp__evidence_first(&p.tally);
    mtp_status status = p.tally.failed ? MTP_FAIL(MTP_E_NOMEM, "backward passes") : MTP_OK;
    if (status == MTP_OK && first != NULL && p.forward > 0 &&
        p.backward - p.longest > BACKWARD_RATIO * p.forward) { /* one call alone may be noise */
        mtp__draft d = {.id = "backward-imbalance",
                        .kind = MTP_FINDING_TIME,
                        .confidence = MTP_CONFIDENCE_LOW,
                        .spent = p.backward,
                        .gain = p.backward - BACKWARD_USUAL * p.forward};
        mtp_text name = first->what;
        if (MTP__BEGINS_WITH(name, MTP__ENGINE_PREFIX))
            name = (mtp_text){name.bytes + sizeof MTP__ENGINE_PREFIX - 1,
                              name.length - (sizeof MTP__ENGINE_PREFIX - 1)};
        mtp__say(&d.title, "The backward pass takes %.1f times as long as the forward pass",
                 p.backward / p.forward);
        mtp__say(&d.text, "Backward ");
        mtp__say_time(&d.text, p.backward);
        mtp__say(&d.text, ", forward ");
        mtp__say_time(&d.text, p.forward);
        mtp__say(&d.text, "; twice is usual. ");
        mtp__say_share(&d.text, first->total / p.backward);
        mtp__say(&d.text, " of the backward pass is ");
        mtp__say_name(&d.text, name);
        mtp__say(&d.text, ", ");
        mtp__say_count(&d.text, first->calls, "time", "times");
        mtp__say(&d.text, ".");
        mtp__say(&d.advice,
                 "See whether that gradient is needed (requires_grad_(False), detach()), and whether the "
                 "forward "
                 "op has a cheaper relative: scattering gradients of index, gather and repeat is slow.");
        status = mtp__find(c, &d, &p.tally);
    }
    mtp__evidence_fini(&p.tally);
    return status;
}

/* ----------------------------------------------------------------------------------------- what dominates */

mtp_status mtp__find_dominant(mtp__case *c)
{
    const mtp_trace *t = c->t;
    mtp__evidence tally = {0};
    double sum = 0;
    bool device = mtp__case_is_device_bound(c);
    for (uint32_t i = 0; device && i < c->works; i++) {
        sum += (double)(c->work[i].end - c->work[i].start);
        if (c->work[i].kind !=
            MTP__WORK_COLLECTIVE) /* it waits for other ranks: find_overlap.c tells of it */
            mtp__evidence_span(&tally, c, c->work[i].span, (double)(c->work[i].end - c->work[i].start),
                               false);
    }
    for (uint32_t k = 0; !c->has_device && k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; c->wanted[k] && !track->on_device && i < track->first + track->count;
             i++)
            if (c->owner[i] == i && c->own[i] > 0 && mtp__case_time(c, i) > 0) {
                sum += (double)c->own[i];
                mtp__evidence_span(&tally, c, i, (double)c->own[i], false);
            }
    }
    const mtp__alike *first = mtp__evidence_first(&tally);
    mtp_status status = tally.failed ? MTP_FAIL(MTP_E_NOMEM, "ops by name") : MTP_OK;
    if (status == MTP_OK && first != NULL && first->total >= DOMINANT_SHARE * sum &&
        first->total >= 0.25 * c->whole) {
        mtp__draft d = {.id = device ? "dominant-kernel" : "dominant-op",
                        .kind = MTP_FINDING_NOTE,
                        .confidence = MTP_CONFIDENCE_HIGH,
                        .spent = first->total};
        mtp__say_share(&d.title, first->total / sum);
        mtp__say(&d.title, " of the %s time is ", device ? "device's" : "operators'");
        mtp__say_name(&d.title, first->what);
        mtp__say_count(&d.text, first->calls, "call", "calls");
        mtp__say(&d.text, " took ");
        mtp__say_time(&d.text, first->total);
        mtp__say(&d.text, device ? ", " : " without what they call, ");
        mtp__say_time(&d.text, first->total / (double)first->calls);
        mtp__say(&d.text, " each on average; the longest took ");
        mtp__say_time(&d.text, (double)first->end - (double)first->start);
        mtp__say(&d.text, ". Whatever makes this faster makes the program faster.");
        mtp__say(
            &d.advice,
            "See which sizes it is called with ('mtprof table --by-shape'), from where (--by-stack 5), and "
            "how far from the hardware's limit that is.");
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    return status;
}

mtp_status mtp__find_optimizer(mtp__case *c)
{
    const mtp_trace *t = c->t;
    mtp__evidence tally = {0};
    double sum = 0;
    for (uint32_t k = 0; !c->has_device && k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; c->wanted[k] && !track->on_device && i < track->first + track->count;
             i++)
            if ((mtp__case_name(c, i) & MTP__NAME_OPTIMIZER) != 0 && mtp__case_time(c, i) > 0 &&
                mtp__case_around(c, i, MTP__NAME_OPTIMIZER) == MTP__NONE) {
                sum += mtp__case_time(c, i);
                mtp__evidence_span(&tally, c, i, mtp__case_time(c, i), false);
            }
    }
    const mtp__alike *first = mtp__evidence_first(&tally);
    mtp_status status = tally.failed ? MTP_FAIL(MTP_E_NOMEM, "optimizers by name") : MTP_OK;
    if (status == MTP_OK && first != NULL && sum >= OPTIMIZER_SHARE * c->whole && sum <= c->whole) {
        mtp__draft d = {
            .id = "optimizer", .kind = MTP_FINDING_NOTE, .confidence = MTP_CONFIDENCE_HIGH, .spent = sum};
        mtp__say(&d.title, "The optimizer takes ");
        mtp__say_share(&d.title, sum / c->whole);
        mtp__say(&d.title, " of the time");
        mtp__say_count(&d.text, first->calls, "call", "calls");
        mtp__say(&d.text, " of ");
        mtp__say_name(&d.text, first->what);
        mtp__say(&d.text, " took ");
        mtp__say_of_whole(&d.text, c, first->total);
        mtp__say(&d.text, ", ");
        mtp__say_time(&d.text, first->total / (double)first->calls);
        mtp__say(&d.text, " each.");
        mtp__say(&d.advice,
                 "It goes through all parameters, however small the batch is: use fused=True or "
                 "foreach=True, a larger batch, or add up the gradients of several. Of a large embedding, "
                 "sparse=True (with SGD or SparseAdam) updates only the rows that were used.");
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    return status;
}
