/* analyze/tree.c - see mtprof_analysis.h, "tree", and tree.h. */
#include "analyze/tree.h"
#include <stdlib.h>
#include <string.h>
#include "analyze/by_time.h"
#include "analyze/events.h"
#include "base/abi.h"
#include "base/error.h"
#include "base/os.h"
#include "base/pair_map.h"
#include "trace/facts.h"

/* --------------------------------------------------------------------------------------------- the order */

/* Instants: memory events, failed allocations. */
typedef struct moment {
    int64_t ts;
    uint32_t item;
} moment;

typedef struct maker {
    mtp_tree *tree;
    const mtp_trace *t;
    moment *moments; /* owned: by time */
    uint32_t moment_count;
    uint32_t *node_of;  /* owned, by span */
    uint32_t *inside;   /* owned, by track: the innermost span that may be open; MTP__NONE: none */
    mtp__pair_map call; /* correlation -> 1 + the runtime call's span */
    int64_t *until;     /* owned, by span: when it is closed; NULL: each at its end */
} maker;

static int by_moment(const void *a, const void *b)
{
    const moment *x = a, *y = b;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static bool find_moments(maker *m)
{
    const mtp_trace *t = m->t;
    uint32_t failed = mtp__trace_find_text(t, "[OutOfMemory]"), n = 0;
    bool sorted = true;
    m->moments = mtp__calloc((size_t)t->memory_count + t->instant_count + 1, sizeof *m->moments);
    if (m->moments == NULL)
        return false;
    for (uint32_t i = 0; i < t->memory_count; i++)
        m->moments[n++] = (moment){t->memory[i].ts, t->span_count + i};
    for (uint32_t i = 0; i < t->instant_count; i++)
        if (failed != 0 && t->instants[i].name == failed) {
            m->moments[n++] = (moment){t->instants[i].ts, t->span_count + t->memory_count + i};
            sorted = false;
        }
    if (!sorted)
        qsort(m->moments, n, sizeof *m->moments, by_moment);
    m->moment_count = n;
    return true;
}

static uint32_t track_of_moment(const mtp_trace *t, uint32_t item)
{
    uint32_t k = item - t->span_count;
    return k < t->memory_count ? t->memory[k].track : t->instants[k - t->memory_count].track;
}

/* On its track. Until nodes are numbered, a span's parent in the tree is a span. */
static uint32_t above_span(const maker *m, uint32_t span)
{
    return m->until == NULL || mtp__category_on_device((mtp__category)m->t->category[span])
               ? m->t->parent[span]
               : m->tree->parent[m->node_of[span]];
}

static int64_t left_at(const maker *m, uint32_t span)
{
    return m->until != NULL ? m->until[span] : m->t->end[span];
}

/* The innermost span on the track that is open at ts. Ended spans are skipped for good. */
static uint32_t open_at(maker *m, uint32_t track, int64_t ts)
{
    if (track >= m->t->track_count)
        return MTP__NONE;
    uint32_t span = m->inside[track];
    while (span != MTP__NONE && left_at(m, span) < ts)
        span = above_span(m, span);
    return m->inside[track] = span;
}

static bool is_unfinished(const mtp_trace *t, uint32_t span)
{
    return (t->flags[span] & MTP__SPAN_UNFINISHED) != 0;
}

/* torch's rule for spans without an end: such a span is inside whatever was open when it began, and is closed
 * with it. By time it lasts to the end of the recording, and would enclose it. */
static uint32_t above_host(maker *m, uint32_t track, uint32_t span)
{
    const mtp_trace *t = m->t;
    if (m->until == NULL)
        return t->parent[span];
    bool open = is_unfinished(t, span), leaves = open;
    uint32_t above = open ? m->inside[track] : t->parent[span];
    while (above != MTP__NONE && m->until[above] <= t->start[span] && (leaves || is_unfinished(t, above))) {
        above = above_span(m, above);
        leaves = true;
    }
    m->until[span] =
        open && above != MTP__NONE && m->until[above] < t->end[span] ? m->until[above] : t->end[span];
    return above;
}

/* Device work belongs to the call that launched it, else to the op. */
static uint32_t above_device(maker *m, uint32_t span)
{
    uint64_t correlation = mtp__trace_detail(m->t, span)->correlation;
    uint64_t *call = correlation != 0 ? mtp__pair_find(&m->call, correlation, 0) : NULL;
    if (call != NULL)
        return (uint32_t)*call - 1;
    return m->t->launcher != NULL ? m->t->launcher[span] : MTP__NONE;
}

static bool find_calls(maker *m)
{
    const mtp_trace *t = m->t;
    bool is_new;
    for (uint32_t i = 0; i < t->span_count; i++) {
        uint64_t correlation = mtp__is_runtime_call(t, i) ? mtp__trace_detail(t, i)->correlation : 0;
        if (correlation != 0 && mtp__pair_put(&m->call, correlation, 0, (uint64_t)i + 1, &is_new) == NULL)
            return false;
    }
    return true;
}

/* Stores the parent span of each item in `parent`; nodes are not numbered yet. */
static void add(maker *m, uint32_t item, uint32_t above)
{
    mtp_tree *tree = m->tree;
    if (item < m->t->span_count)
        m->node_of[item] = tree->count;
    tree->item[tree->count] = item;
    tree->parent[tree->count++] = above;
}

static void add_moments(maker *m, uint32_t *next, int64_t before)
{
    for (; *next < m->moment_count && m->moments[*next].ts < before; ++*next) {
        uint32_t item = m->moments[*next].item;
        add(m, item, open_at(m, track_of_moment(m->t, item), m->moments[*next].ts));
    }
}

static mtp_status put_in_order(maker *m)
{
    const mtp_trace *t = m->t;
    mtp__by_time spans;
    uint32_t track, span, next = 0;
    mtp_status status = mtp__by_time_init(&spans, t, NULL);
    if (status != MTP_OK)
        return status;
    while ((span = mtp__by_time_next(&spans, &track)) != MTP__NONE) {
        bool on_device = mtp__category_on_device((mtp__category)t->category[span]);
        add_moments(m, &next, t->start[span]);
        if (on_device && m->until != NULL)
            m->until[span] = t->end[span];
        add(m, span, on_device ? above_device(m, span) : above_host(m, track, span));
        m->inside[track] = span;
    }
    add_moments(m, &next, INT64_MAX);
    mtp__by_time_fini(&spans);
    return MTP_OK;
}

/* Converts parents to nodes, and groups each node's children in `children`. */
static void nest(maker *m)
{
    mtp_tree *tree = m->tree;
    uint32_t n = tree->count;
    for (uint32_t i = 0; i < n; i++) {
        tree->parent[i] = tree->parent[i] == MTP__NONE ? n : m->node_of[tree->parent[i]];
        tree->first[tree->parent[i] + 1]++;
    }
    for (uint32_t i = 0; i <= n; i++)
        tree->first[i + 1] += tree->first[i];
    for (uint32_t i = 0; i < n; i++) /* first[] is advanced here and restored below */
        tree->children[tree->first[tree->parent[i]]++] = i;
    for (uint32_t i = n + 1; i > 0; i--)
        tree->first[i] = tree->first[i - 1];
    tree->first[0] = 0;
}

/* -------------------------------------------------------------------------------------------------- life */

static mtp_status number_threads(mtp_tree *tree)
{
    mtp_events e = {.t = tree->t};
    mtp_status status = mtp__events_number_threads(&e);
    tree->thread_of = e.thread_of;
    mtp__free(e.numbered);
    return status;
}

static bool make_room(maker *m)
{
    const mtp_trace *t = m->t;
    mtp_tree *tree = m->tree;
    size_t most = (size_t)t->span_count + m->moment_count + 1,
           slots = (size_t)t->tensor_count + t->memory_count + 1;
    tree->item = mtp__calloc(most, sizeof *tree->item);
    tree->parent = mtp__calloc(most, sizeof *tree->parent);
    tree->first = mtp__calloc(most + 2, sizeof *tree->first);
    tree->children = mtp__calloc(most, sizeof *tree->children);
    tree->allocation = mtp__calloc(slots, sizeof *tree->allocation);
    tree->id = mtp__calloc(slots, sizeof *tree->id);
    m->node_of = mtp__calloc((size_t)t->span_count + 1, sizeof *m->node_of);
    m->inside = mtp__calloc((size_t)t->track_count + 1, sizeof *m->inside);
    for (uint32_t k = 0; m->inside != NULL && k < t->track_count; k++)
        m->inside[k] = MTP__NONE;
    if (t->unfinished > 0 && (m->until = mtp__calloc((size_t)t->span_count + 1, sizeof *m->until)) == NULL)
        return false;
    return tree->item != NULL && tree->parent != NULL && tree->first != NULL && tree->children != NULL &&
           tree->allocation != NULL && tree->id != NULL && m->node_of != NULL && m->inside != NULL;
}

static mtp_status make(mtp_tree *tree)
{
    maker m = {.tree = tree, .t = tree->t};
    mtp_status status = MTP_OK;
    if (!find_moments(&m) || !make_room(&m) || !find_calls(&m))
        status = MTP_FAIL(MTP_E_NOMEM, "the tree of %u spans", tree->t->span_count);
    if (status == MTP_OK)
        status = put_in_order(&m);
    if (status == MTP_OK) {
        nest(&m);
        status = number_threads(tree);
    }
    if (status == MTP_OK)
        status = mtp__tree_ids(tree);
    mtp__free(m.moments);
    mtp__free(m.node_of);
    mtp__free(m.inside);
    mtp__free(m.until);
    mtp__pair_map_fini(&m.call);
    return status;
}

mtp_status mtp_tree_create(const mtp_trace *trace, mtp_tree **out)
{
    if (out == NULL || trace == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", out == NULL ? "out" : "trace");
    *out = NULL;
    mtp_tree *tree = mtp__calloc(1, sizeof *tree);
    if (tree == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "tree");
    tree->t = trace;
    mtp_status status = make(tree);
    if (status == MTP_OK)
        *out = tree;
    else
        mtp_tree_destroy(tree);
    return status;
}

void mtp_tree_destroy(mtp_tree *tree)
{
    if (tree == NULL)
        return;
    mtp__free(tree->item);
    mtp__free(tree->parent);
    mtp__free(tree->first);
    mtp__free(tree->children);
    mtp__free(tree->thread_of);
    mtp__free(tree->allocation);
    mtp__free(tree->id);
    mtp__free(tree);
}

/* ------------------------------------------------------------------------------------------------ reading */

size_t mtp_tree_count(const mtp_tree *tree)
{
    return tree != NULL ? tree->count : 0;
}

const uint32_t *mtp_tree_children(const mtp_tree *tree, size_t node, size_t *count)
{
    size_t unwanted;
    count = count != NULL ? count : &unwanted;
    *count = 0;
    if (tree == NULL || (node >= tree->count && node != MTP_NO_EVENT))
        return NULL;
    size_t at = node == MTP_NO_EVENT ? tree->count : node;
    *count = tree->first[at + 1] - tree->first[at];
    return tree->children + tree->first[at];
}

static mtp_text text_of(const mtp_trace *t, uint32_t id)
{
    mtp_text text = mtp__trace_get_text(t, id);
    return (mtp_text){text.bytes, text.length};
}

static void fill_inputs(const mtp_trace *t, uint32_t shape, uint32_t first, uint32_t count,
                        mtp_tree_inputs *out)
{
    const mtp__shape *s = &t->shapes[shape];
    *out = (mtp_tree_inputs){shape,
                             text_of(t, s->dims),
                             text_of(t, s->strides),
                             text_of(t, s->types),
                             text_of(t, s->concrete),
                             first,
                             count};
}

static mtp_tree_kind kind_of(mtp_event_kind kind, mtp_text name)
{
    static const char builtin[] = "<built-in ";
    switch (kind) {
    case MTP_EVENT_OP:
    case MTP_EVENT_SCOPE:
    case MTP_EVENT_STEP:
    case MTP_EVENT_BACKWARD:
        return MTP_TREE_TORCH_OP;
    case MTP_EVENT_MODULE:
        return MTP_TREE_PY_CALL;
    case MTP_EVENT_PYTHON: /* a Python function's name begins with its file */
        return name.length >= sizeof builtin && memcmp(name.bytes, builtin, sizeof builtin - 1) == 0
                   ? MTP_TREE_PY_C_CALL
                   : MTP_TREE_PY_CALL;
    default:
        return MTP_TREE_KINETO;
    }
}

static void fill_frames(const mtp_trace *t, uint32_t stack, mtp_tree_node *out)
{
    if (stack == 0)
        return;
    out->frame = text_of(t, t->stacks[stack].frame);
    if (t->stacks[stack].parent != 0)
        out->caller = text_of(t, t->stacks[t->stacks[stack].parent].frame);
}

static void fill_span(const mtp_tree *tree, uint32_t span, mtp_tree_node *out)
{
    const mtp_trace *t = tree->t;
    const mtp__detail *d = mtp__trace_detail(t, span);
    mtp_event_kind kind = mtp__event_kind_of(t, span);
    out->name = text_of(t, t->name[span]);
    out->kind = kind_of(kind, out->name);
    out->start_ns = mtp__plus(t->base_ns, t->start[span]);
    out->end_ns = mtp__plus(t->base_ns, t->end[span]);
    out->is_unfinished = (t->flags[span] & MTP__SPAN_UNFINISHED) != 0;
    out->sequence = d->sequence;
    out->held = d->held_count;
    if (out->kind == MTP_TREE_TORCH_OP) {
        out->scope = kind == MTP_EVENT_BACKWARD                          ? 1
                     : kind == MTP_EVENT_SCOPE || kind == MTP_EVENT_STEP ? 7
                                                                         : 0;
        out->correlation = mtp__trace_external_id(t, span);
        fill_inputs(t, d->shape, d->tensors, d->tensor_count, &out->inputs);
    } else if (out->kind == MTP_TREE_KINETO) {
        out->correlation = d->correlation;
    } else {
        fill_frames(t, d->stack, out);
    }
    uint32_t track = mtp__trace_track_of(t, span);
    if (t->tracks[track].on_device && t->launcher != NULL && t->launcher[span] != MTP__NONE)
        track = mtp__trace_track_of(t, t->launcher[span]);
    out->thread = tree->thread_of[track];
}

static void fill_moment(const mtp_tree *tree, uint32_t item, mtp_tree_node *out)
{
    const mtp_trace *t = tree->t;
    uint32_t k = item - t->span_count, track = track_of_moment(t, item);
    bool is_memory = k < t->memory_count;
    out->kind = is_memory ? MTP_TREE_ALLOCATION : MTP_TREE_OUT_OF_MEMORY;
    out->name = is_memory ? (mtp_text){"[memory]", 8} : (mtp_text){"[OutOfMemory]", 13};
    out->start_ns = out->end_ns =
        mtp__plus(t->base_ns, is_memory ? t->memory[k].ts : t->instants[k - t->memory_count].ts);
    out->thread = track < t->track_count ? tree->thread_of[track] : 0;
    if (!is_memory)
        return;
    const mtp__memory *m = &t->memory[k];
    out->address = m->address;
    out->bytes = m->bytes;
    out->total_allocated = m->total_allocated;
    out->total_reserved = m->total_reserved;
    out->device_type = m->device_type;
    out->device_index = m->device_index;
    out->allocation_id = (int64_t)tree->allocation[t->tensor_count + k];
    out->id = (int64_t)tree->id[t->tensor_count + k] - 1;
}

mtp_status mtp_tree_get(const mtp_tree *tree, size_t node, mtp_tree_node *to)
{
    if (tree == NULL || to == NULL)
        return MTP_FAIL(MTP_E_ARG, "tree or out is NULL");
    mtp_status status = MTP__ABI_CHECK(to, mtp_tree_node, device_index);
    if (status != MTP_OK)
        return status;
    if (node >= tree->count)
        return MTP_FAIL(MTP_E_ARG, "there is no node %zu: there are %u", node, tree->count);
    static const mtp_text none = {"", 0};
    mtp_tree_node made = {.size = sizeof made,
                          .sequence = -1,
                          .frame = none,
                          .caller = none,
                          .inputs = {.dims = none, .strides = none, .types = none, .concrete = none},
                          .total_allocated = -1,
                          .total_reserved = -1,
                          .id = -1,
                          .allocation_id = -1,
                          .device_index = -1},
                  *out = &made;
    if (tree->item[node] < tree->t->span_count)
        fill_span(tree, tree->item[node], out);
    else
        fill_moment(tree, tree->item[node], out);
    out->parent = tree->parent[node] == tree->count ? MTP_NO_EVENT : tree->parent[node];
    mtp_tree_children(tree, node, &out->children);
    mtp__abi_write(to, out, sizeof *out);
    return MTP_OK;
}

mtp_status mtp_tree_tensor_get(const mtp_tree *tree, size_t tensor, mtp_tree_tensor *out)
{
    if (tree == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "tree or out is NULL");
    mtp_status status = MTP__ABI_CHECK(out, mtp_tree_tensor, dtype);
    if (status != MTP_OK)
        return status;
    if (tensor == 0 || tensor >= tree->t->tensor_count)
        return MTP_FAIL(MTP_E_ARG, "there is no tensor %zu", tensor);
    const mtp__tensor *is = &tree->t->tensors[tensor];
    bool on_device = MTP_DEVICE_TYPE(is->device) != 0;
    mtp_tree_tensor made = {.number = is->number,
                            .storage = is->storage,
                            .id = (int64_t)tree->id[tensor] - 1,
                            .allocation_id = is->number != 0 ? (int64_t)tree->allocation[tensor] : -1,
                            .device_type = on_device ? MTP__DEVICE_NPU : MTP__DEVICE_CPU,
                            .device_index = on_device ? (int32_t)MTP_DEVICE_INDEX(is->device) : -1,
                            .dtype = is->dtype};
    mtp__abi_write(out, &made, sizeof made);
    return MTP_OK;
}

mtp_status mtp_tree_held(const mtp_tree *tree, size_t node, size_t part, mtp_tree_inputs *out)
{
    if (tree == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "tree or out is NULL");
    uint32_t item = node < tree->count ? tree->item[node] : MTP__NONE;
    const mtp__detail *d = item < tree->t->span_count ? mtp__trace_detail(tree->t, item) : NULL;
    if (d == NULL || part >= d->held_count)
        return MTP_FAIL(MTP_E_ARG, "node %zu holds no part %zu", node, part);
    const mtp__held *held = &tree->t->held[d->held + part];
    fill_inputs(tree->t, held->shape, held->tensors, held->count, out);
    return MTP_OK;
}
