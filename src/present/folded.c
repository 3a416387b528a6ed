/* present/folded.c - folded stacks for flame graphs: a line per stack, with its ops, and with its self time.
 *
 * Events and their self times are torch's (analyze/torch), but Python functions are frames here, whatever
 * torch's version: their time is that of the op or annotation around them. A backward op is shown where its
 * forward op was called; if that is unknown, where it ran.
 */
#include <stdlib.h>
#include <string.h>
#include "analyze/torch/rules.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/json_out.h"
#include "base/pair_map.h"
#include "present/stacks.h"

typedef struct node { /* of the tree of all stacks; [0] is the root */
    uint32_t parent, text;
    int64_t ns;
} node;

typedef struct stacks {
    const mtp_trace *t;
    mtp__out out;
    bool device; /* metric */
    mtp__intern text;
    mtp__group group;
    mtp__launched launched;
    mtp__walk walk;
    mtp__scratch forward;  /* by span, as mtp__forward_of */
    mtp__scratch python;   /* by span, as mtp__python_of */
    mtp__scratch at;       /* uint32_t by span: its node */
    mtp__scratch recorded; /* uint32_t by span: the recorded stack whose frames its node has */
    uint32_t *frames;      /* owned: texts, innermost first */
    uint32_t frame_count, frame_room;
    node *nodes;               /* owned */
    mtp__pair_map children_of; /* (node, text) -> node */
    mtp__pair_map functions;   /* (hash of a module, of a symbol) -> text */
    uint32_t node_count, node_room;
    bool framed; /* some stack has frames, not just ops */
    bool no_memory;
} stacks;

/* ---------------------------------------------------------------------------------------------- events */

static uint32_t by_span(const mtp__scratch *s, uint32_t span)
{
    return ((const uint32_t *)s->p)[span];
}

/* A CPU event of torch's, unless it was absorbed by its parent. */
static bool is_event(const stacks *s, uint32_t span)
{
    return by_span(&s->walk.row, span) != 0 && mtp__group_class(&s->group, span) < MTP__CLASS_DEVICE;
}

static bool is_python(const stacks *s, uint32_t span)
{
    return s->t->category[span] == MTP__CATEGORY_PYTHON_FUNCTION;
}

/* A foreign file may have any times. */
static int64_t self_ns(const stacks *s, uint32_t span)
{
    double ns = ((const double *)s->walk.self_us.p)[span] * 1000;
    return ns < 0.5 ? 0 : ns < (double)(INT64_MAX / 2) ? (int64_t)(ns + 0.5) : INT64_MAX / 2;
}

static void add_time(node *to, int64_t ns)
{
    if (ns > 0)
        to->ns = ns < INT64_MAX - to->ns ? to->ns + ns : INT64_MAX;
}

static mtp_status find_events(stacks *s)
{
    static const mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    const mtp_trace *t = s->t;
    mtp_status status = mtp__group_init(&s->group, t, &options, &s->text);
    s->group.class_of[MTP__CATEGORY_PYTHON_FUNCTION] = MTP__CLASS_NONE;
    if (status == MTP_OK)
        status = mtp__launched_init(&s->launched, t, false, mtp__walk_zero(t));
    s->walk = mtp__walk_of(&s->group, &s->launched, NULL);
    s->walk.each = true;
    if (status == MTP_OK)
        status = mtp__walk_run(&s->walk);
    if (status == MTP_OK)
        status = mtp__forward_of(t, &s->forward);
    if (status == MTP_OK)
        status = mtp__python_of(t, &s->python);
    return status;
}

/* ----------------------------------------------------------------------------------------------- frames */

static void add_frame(stacks *s, uint32_t text)
{
    if (!MTP__GROW(s->frames, s->frame_room, s->frame_count, s->frame_count + 1, 256)) {
        s->no_memory = true;
        return;
    }
    s->frames[s->frame_count++] = text;
}

static void add_functions(stacks *s, uint32_t span)
{
    for (uint32_t i = by_span(&s->python, span); i != 0; i = by_span(&s->python, i - 1))
        add_frame(s, s->t->name[i - 1]);
}

static uint32_t child(stacks *s, uint32_t parent, uint32_t text)
{
    bool is_new = false;
    uint64_t *at = mtp__pair_put(&s->children_of, parent, text, s->node_count, &is_new);
    if (at == NULL) {
        s->no_memory = true;
        return 0;
    }
    if (!is_new)
        return (uint32_t)*at;
    uint32_t id = (uint32_t)*at;
    if (!MTP__GROW(s->nodes, s->node_room, s->node_count, s->node_count + 1, 256)) {
        s->no_memory = true;
        return 0;
    }
    s->nodes[s->node_count++] = (node){parent, text, 0};
    return id;
}

/* "module:+0x12f:symbol": the position of the offset, and of the symbol if known; 0: not such a frame. */
static size_t offset_in(mtp_text frame, size_t *symbol)
{
    const char *last = strrchr(frame.bytes, ':'), *offset = strstr(frame.bytes, ":+0x");
    if (last == NULL || offset == NULL || offset >= last || strcmp(last, ":?") == 0 ||
        strspn(offset + 4, "0123456789abcdef") != (size_t)(last - offset) - 4)
        return 0;
    *symbol = (size_t)(last - frame.bytes);
    return (size_t)(offset - frame.bytes);
}

/* A native function is one frame, whatever the offset of the call: the first seen stands for all. */
static uint32_t function_of(stacks *s, uint32_t text)
{
    mtp_text frame = mtp__trace_get_text(s->t, text);
    size_t symbol, offset = offset_in(frame, &symbol);
    bool is_new;
    if (offset == 0)
        return text;
    uint64_t *first =
        mtp__pair_put(&s->functions, mtp__hash_bytes(frame.bytes, offset),
                      mtp__hash_bytes(frame.bytes + symbol, frame.length - symbol), text, &is_new);
    s->no_memory |= first == NULL;
    return first != NULL ? (uint32_t)*first : text;
}

/* Appends the collected frames below a node. */
static uint32_t below(stacks *s, uint32_t at)
{
    s->framed |= s->frame_count > 0;
    for (uint32_t i = s->frame_count; i-- > 0;)
        at = child(s, at, function_of(s, s->frames[i]));
    return at;
}

/* "file:line:function", "module:+offset:symbol": equal up to the position in the function. */
static bool same_function(mtp_text a, mtp_text b)
{
    const char *x = strrchr(a.bytes, ':'), *y = strrchr(b.bytes, ':');
    size_t file = strcspn(a.bytes, ":");
    return x != NULL && y != NULL && strcmp(x, y) == 0 && strcspn(b.bytes, ":") == file &&
           memcmp(a.bytes, b.bytes, file) == 0;
}

/* Whether both are the same call, up to the position in its innermost function. */
static bool same_call(const mtp_trace *t, uint32_t a, uint32_t b)
{
    return a == b || (t->stacks[a].parent == t->stacks[b].parent &&
                      same_function(mtp__trace_get_text(t, t->stacks[a].frame),
                                    mtp__trace_get_text(t, t->stacks[b].frame)));
}

/* ---------------------------------------------------------------------------------------------- places */

/* The node for a span with a recorded stack: below its parent's, with the additional frames, if the parent's
 * stack is a prefix of it; else below its own frames. */
static uint32_t recorded_base(stacks *s, uint32_t up, uint32_t stack)
{
    const mtp_trace *t = s->t;
    uint32_t of_parent = up != MTP__NONE ? by_span(&s->recorded, up) : 0, n = stack;
    s->frame_count = 0;
    for (; n != 0 && (of_parent == 0 || !same_call(t, n, of_parent)); n = t->stacks[n].parent)
        add_frame(s, t->stacks[n].frame);
    return below(s, n != 0 && up != MTP__NONE ? by_span(&s->at, up) : 0);
}

/* Python functions recorded as spans say more than a stack: modules, and how they nest. */
static uint32_t forward_base(stacks *s, uint32_t span)
{
    s->frame_count = 0;
    add_functions(s, span);
    uint32_t stack = s->frame_count == 0 ? mtp__trace_detail(s->t, span)->stack : 0;
    for (; stack != 0; stack = s->t->stacks[stack].parent)
        add_frame(s, s->t->stacks[stack].frame);
    return below(s, 0);
}

/* The node below which a span is placed. */
static uint32_t base_of(stacks *s, uint32_t span)
{
    uint32_t up = s->t->parent[span], stack = mtp__trace_detail(s->t, span)->stack;
    uint32_t forward = by_span(&s->forward, span), *recorded = (uint32_t *)s->recorded.p + span;
    bool elsewhere = forward != 0 && forward != MTP__NONE;
    *recorded = up != MTP__NONE ? by_span(&s->recorded, up) : 0;
    if (elsewhere && mtp__is_backward(s->t, span))
        return forward_base(s, forward - 1);
    bool in_python = by_span(&s->python, span) != 0 || is_python(s, span);
    if (!elsewhere && !in_python && stack != 0 && stack != *recorded) {
        uint32_t base = recorded_base(s, up, stack);
        *recorded = stack;
        return base;
    }
    return up != MTP__NONE ? by_span(&s->at, up) : 0;
}

/* Steps would make every stack different; anything but events and functions is not part of the program. */
static bool is_shown(const stacks *s, uint32_t span)
{
    return (s->t->flags[span] & MTP__SPAN_STEP) == 0 && (is_event(s, span) || is_python(s, span));
}

static void place_spans(stacks *s, const mtp__track *track)
{
    const mtp_trace *t = s->t;
    uint32_t *at = s->at.p;
    for (uint32_t i = track->first; i < track->first + track->count && !s->no_memory; i++) {
        uint32_t base = base_of(s, i);
        s->framed |= is_python(s, i);
        at[i] = is_shown(s, i) ? child(s, base, t->name[i]) : base;
        if (!s->device && is_event(s, i) && !s->no_memory)
            add_time(&s->nodes[at[i]], self_ns(s, i));
    }
}

/* Device work is placed below the op that launched it. */
static void place_work(stacks *s)
{
    const mtp_trace *t = s->t;
    for (uint32_t i = 0; i < t->span_count && !s->no_memory; i++) {
        uint32_t launcher = t->launcher != NULL ? t->launcher[i] : MTP__NONE;
        if (launcher == MTP__NONE || t->category[i] == MTP__CATEGORY_GPU_USER_ANNOTATION ||
            t->end[i] <= t->start[i])
            continue;
        uint32_t at = child(s, by_span(&s->at, launcher), t->name[i]);
        if (!s->no_memory)
            add_time(&s->nodes[at], mtp__minus(t->end[i], t->start[i]));
    }
}

/* ----------------------------------------------------------------------------------------------- lines */

typedef struct line {
    int64_t ns;
    uint32_t node;
} line;

static int longest_first(const void *a, const void *b)
{
    const line *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static void put_folded(stacks *s, line *lines)
{
    size_t count = 0;
    for (uint32_t i = 1; i < s->node_count; i++)
        if (s->nodes[i].ns > 0)
            lines[count++] = (line){s->nodes[i].ns, i};
    qsort(lines, count, sizeof *lines, longest_first);
    for (size_t i = 0; i < count && !s->no_memory; i++) {
        s->frame_count = 0;
        for (uint32_t n = lines[i].node; n != 0; n = s->nodes[n].parent)
            add_frame(s, s->nodes[n].text);
        for (uint32_t k = s->frame_count; k-- > 0;) {
            mtp_text frame = mtp__trace_get_text(s->t, s->frames[k]);
            size_t symbol, offset = offset_in(frame, &symbol);
            mtp__stacks_frame(&s->out, (mtp_text){frame.bytes, offset != 0 ? offset : frame.length});
            if (offset != 0)
                mtp__stacks_frame(&s->out, (mtp_text){frame.bytes + symbol, frame.length - symbol});
            if (k > 0)
                MTP__OUT(&s->out, ";");
        }
        uint64_t us = lines[i].ns / 1000; /* whole ones, as torch */
        mtp__stacks_time(&s->out, (double)us);
    }
}

/* Writes nothing if no stack has a frame: ops alone are not stacks. */
static void fold_all(stacks *s)
{
    const mtp_trace *t = s->t;
    s->no_memory = !mtp__scratch_make(&s->at, t->span_count, sizeof(uint32_t)) ||
                   !mtp__scratch_make(&s->recorded, t->span_count, sizeof(uint32_t));
    if (!s->no_memory)
        child(s, MTP__NONE, 0); /* the root */
    for (uint32_t k = 0; k < t->track_count && !s->no_memory; k++)
        if (!t->tracks[k].on_device)
            place_spans(s, &t->tracks[k]);
    if (s->device)
        place_work(s);
    line *lines = s->no_memory || !s->framed ? NULL : mtp__calloc(s->node_count, sizeof *lines);
    if (lines != NULL)
        put_folded(s, lines);
    s->no_memory |= lines == NULL && s->framed;
    mtp__free(lines);
}

/* ---------------------------------------------------------------------------------------------- public */

static void stacks_fini(stacks *s)
{
    mtp__walk_fini(&s->walk);
    mtp__launched_fini(&s->launched);
    mtp__group_fini(&s->group);
    mtp__intern_fini(&s->text);
    mtp__scratch_free(&s->forward);
    mtp__scratch_free(&s->python);
    mtp__scratch_free(&s->at);
    mtp__scratch_free(&s->recorded);
    mtp__free(s->frames);
    mtp__free(s->nodes);
    mtp__pair_map_fini(&s->children_of);
    mtp__pair_map_fini(&s->functions);
}

mtp_status mtp_trace_folded(const mtp_trace *trace, const char *metric, mtp_sink *sink, void *user)
{
    stacks s = {.t = trace};
    if (trace == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace is NULL");
    mtp_status status = mtp__stacks_metric(metric, &s.device);
    if (status == MTP_OK)
        status = mtp__out_init(&s.out, sink, user);
    if (status != MTP_OK)
        return status;
    mtp__intern_init(&s.text, 1, SIZE_MAX, NULL, NULL);
    status = find_events(&s);
    if (status == MTP_OK)
        fold_all(&s);
    stacks_fini(&s);
    mtp_status written = mtp__out_finish(&s.out);
    if (s.no_memory)
        return MTP_FAIL(MTP_E_NOMEM, "stacks of %u spans", trace->span_count);
    return status == MTP_OK ? written : status;
}
