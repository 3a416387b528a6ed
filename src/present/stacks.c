/* present/stacks.c - folded stacks: frames from the root, then integer microseconds, at least one.
 * mtp_trace_stacks like torch's export_stacks: a line per event with a stack and self time. mtp_trace_folded
 * for flame graphs: a line per stack, including its ops.
 *
 * An event's stack is the one it was recorded with, else the Python functions around it. A backward op is
 * shown where its forward op was called. As in torch, an only child with its parent's name is part of the
 * parent.
 */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/grow.h"
#include "base/json_out.h"
#include "base/pair_map.h"
#include "base/utf8.h"
#include "trace/facts.h"
#include "trace/trace.h"

#define CHILDREN_MANY 2u

typedef struct node { /* of the tree of all stacks; [0] is the root */
    uint32_t parent, text;
    int64_t ns;
} node;

typedef struct stacks {
    const mtp_trace *t;
    mtp__out out;
    int64_t *ns;           /* owned: by span, the metric */
    uint32_t *owner;       /* owned: by span, the enclosing event */
    uint32_t *python;      /* owned: by span, the enclosing Python function */
    uint32_t *backward;    /* owned: by span, the backward node that it is or is in */
    uint8_t *children;     /* owned: by span: 0, 1, CHILDREN_MANY events */
    bool device;           /* metric */
    mtp__pair_map forward; /* (thread, sequence) -> the span whose stack a backward op shows */
    uint32_t *frames;      /* owned: texts, innermost first */
    uint32_t frame_count, frame_room;
    bool no_memory;
    /* folded */
    node *nodes;               /* owned */
    uint32_t *at;              /* owned: by span, its node */
    uint32_t *recorded;        /* owned: by span, the recorded stack whose frames its node has */
    mtp__pair_map children_of; /* (node, text) -> node */
    mtp__pair_map functions;   /* (hash of a module, of a symbol) -> text */
    uint32_t node_count, node_room;
    bool framed; /* some stack has frames, not just ops */
} stacks;

/* ------------------------------------------------------------------------------------------------ time */

/* Whether torch has it as a CPU event. */
static bool is_event(const mtp_trace *t, uint32_t span)
{
    mtp__category c = (mtp__category)t->category[span];
    return c <= MTP__CATEGORY_OVERHEAD && c != MTP__CATEGORY_PYTHON_FUNCTION;
}

static void find_owners(stacks *s)
{
    const mtp_trace *t = s->t;
    for (uint32_t i = 0; i < t->span_count; i++) {
        uint32_t up = t->parent[i];
        s->owner[i] = up == MTP__NONE || is_event(t, up) ? up : s->owner[up];
        s->python[i] =
            up == MTP__NONE || t->category[up] == MTP__CATEGORY_PYTHON_FUNCTION ? up : s->python[up];
        s->backward[i] = mtp__is_backward(t, i) ? i : up != MTP__NONE ? s->backward[up] : up;
        if (is_event(t, i) && s->owner[i] != MTP__NONE && s->children[s->owner[i]] < CHILDREN_MANY)
            s->children[s->owner[i]]++;
    }
}

/* A foreign file may have any times: sums wrap rather than being undefined. */
static void add_time(int64_t *to, const mtp_trace *t, uint32_t span, bool less)
{
    uint64_t ns = (uint64_t)t->end[span] - (uint64_t)t->start[span];
    *to = (int64_t)((uint64_t)*to + (less ? 0 - ns : ns));
}

static void measure(stacks *s)
{
    const mtp_trace *t = s->t;
    for (uint32_t i = 0; i < t->span_count; i++) {
        if (s->device && mtp__category_on_device((mtp__category)t->category[i])) {
            uint32_t launcher = t->launcher != NULL ? t->launcher[i] : MTP__NONE;
            if (launcher != MTP__NONE && t->category[i] != MTP__CATEGORY_GPU_USER_ANNOTATION)
                add_time(&s->ns[launcher], t, i, false);
        } else if (!s->device && is_event(t, i)) {
            add_time(&s->ns[i], t, i, false);
            if (s->owner[i] != MTP__NONE)
                add_time(&s->ns[s->owner[i]], t, i, true);
        }
    }
    for (uint32_t i = t->span_count; i-- > 0;) { /* children before their parents */
        uint32_t up = s->owner[i];
        if (!is_event(t, i) || up == MTP__NONE || s->children[up] != 1 || t->name[i] != t->name[up])
            continue;
        s->ns[up] = (int64_t)((uint64_t)s->ns[up] + (uint64_t)s->ns[i]);
        s->ns[i] = 0;
    }
}

/* ---------------------------------------------------------------------------------------------- stacks */

static void add_frame(stacks *s, uint32_t text)
{
    if (!MTP__GROW(s->frames, s->frame_room, s->frame_count, s->frame_count + 1, 256)) {
        s->no_memory = true;
        return;
    }
    s->frames[s->frame_count++] = text;
}

static void gather(stacks *s, uint32_t span)
{
    const mtp_trace *t = s->t;
    s->frame_count = 0;
    for (uint32_t n = mtp__trace_detail(t, span)->stack; n != 0; n = t->stacks[n].parent)
        add_frame(s, t->stacks[n].frame);
    if (s->frame_count > 0)
        return;
    for (uint32_t i = s->python[span]; i != MTP__NONE; i = s->python[i])
        add_frame(s, t->name[i]);
}

/* A recording's threads are identified by their ids; torch's files number forward threads differently: there
 * the sequence number must do. */
static uint64_t thread_key(const mtp_trace *t, const mtp__track *track, uint64_t forward_thread)
{
    return t->from_kineto ? 0 : forward_thread != 0 ? forward_thread : (uint64_t)track->tid;
}

static void note_forward(stacks *s, const mtp__track *track)
{
    const mtp_trace *t = s->t;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        const mtp__detail *d = mtp__trace_detail(t, i);
        bool is_new;
        if (d->sequence < 0 || s->backward[i] != MTP__NONE || (d->stack == 0 && s->python[i] == MTP__NONE))
            continue;
        if (mtp__pair_put(&s->forward, thread_key(t, track, 0), (uint64_t)d->sequence, i, &is_new) == NULL)
            s->no_memory = true;
    }
}

static void note_forwards(stacks *s)
{
    const mtp_trace *t = s->t;
    for (uint32_t k = 0; k < t->track_count && t->detail != NULL; k++)
        if (!t->tracks[k].on_device)
            note_forward(s, &t->tracks[k]);
}

/* The span whose stack is shown for this one. */
static uint32_t shown_as(const stacks *s, const mtp__track *track, uint32_t span)
{
    uint32_t backward = s->forward.count > 0 ? s->backward[span] : MTP__NONE;
    if (backward == MTP__NONE)
        return span;
    const mtp__detail *d = mtp__trace_detail(s->t, backward);
    uint64_t *at = d->sequence >= 0 ? mtp__pair_find(&s->forward, thread_key(s->t, track, d->forward_thread),
                                                     (uint64_t)d->sequence)
                                    : NULL;
    return at != NULL ? (uint32_t)*at : span;
}

/* ----------------------------------------------------------------------------------------------- lines */

/* Characters that would end the frame or the line, or move a terminal's cursor, become '_'. */
static void put_frame(mtp__out *o, mtp_text frame)
{
    const unsigned char *at = (const unsigned char *)frame.bytes, *end = at + frame.length;
    while (at < end) {
        unsigned skip, n = mtp__utf8_character(at, end, &skip);
        bool control = *at == ' ' || *at == ';' || mtp__utf8_is_control(at, n);
        char *p = mtp__out_room(o);
        if (n == 0) {
            p = MTP__PUT(p, MTP__UTF8_REPLACEMENT);
        } else if (control) {
            *p++ = '_';
        } else {
            memcpy(p, at, n);
            p += n;
        }
        o->at = p;
        at += n != 0 ? n : skip;
    }
}

static void put_line(stacks *s, uint32_t span)
{
    const mtp_trace *t = s->t;
    if (s->frame_count == 0)
        return;
    bool alone = s->frame_count == 1; /* a single frame says little: the op is added below it */
    for (uint32_t i = s->frame_count; i-- > 0;) {
        put_frame(&s->out, mtp__trace_get_text(t, s->frames[i]));
        if (i > 0 || alone)
            MTP__OUT(&s->out, ";");
    }
    if (alone)
        put_frame(&s->out, mtp__trace_get_text(t, t->name[span]));
    MTP__OUT(&s->out, " ");
    mtp__out_u64(&s->out, s->ns[span] >= 1000 ? (uint64_t)s->ns[span] / 1000 : 1);
    MTP__OUT(&s->out, "\n");
}

static void put_all(stacks *s)
{
    const mtp_trace *t = s->t;
    for (uint32_t k = 0; k < t->track_count && !s->no_memory && !s->out.failed; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; !track->on_device && i < track->first + track->count; i++) {
            if (s->ns[i] <= 0 || !is_event(t, i))
                continue;
            gather(s, shown_as(s, track, i));
            put_line(s, i);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ folded */

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

/* Appends the frames that gather() found below a node. */
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

/* The node for a span with a recorded stack: below its parent's, with the additional frames, if the parent's
 * stack is a prefix of it; else below its own frames. */
static uint32_t recorded_base(stacks *s, uint32_t up, uint32_t stack)
{
    const mtp_trace *t = s->t;
    uint32_t of_parent = up != MTP__NONE ? s->recorded[up] : 0, n = stack;
    s->frame_count = 0;
    for (; n != 0 && (of_parent == 0 || !same_call(t, n, of_parent)); n = t->stacks[n].parent)
        add_frame(s, t->stacks[n].frame);
    return below(s, n != 0 && up != MTP__NONE ? s->at[up] : 0);
}

/* Python functions recorded as spans say more than a stack: modules, and how they nest. */
static uint32_t forward_base(stacks *s, uint32_t span)
{
    s->frame_count = 0;
    for (uint32_t i = s->python[span]; i != MTP__NONE; i = s->python[i])
        add_frame(s, s->t->name[i]);
    if (s->frame_count == 0)
        gather(s, span);
    return below(s, 0);
}

static uint32_t base_of(stacks *s, const mtp__track *track, uint32_t span)
{
    uint32_t up = s->t->parent[span], stack = mtp__trace_detail(s->t, span)->stack;
    uint32_t shown = s->backward[span] != MTP__NONE ? shown_as(s, track, span) : span;
    s->recorded[span] = up != MTP__NONE ? s->recorded[up] : 0;
    if (shown != span && s->backward[span] == span)
        return forward_base(s, shown);
    bool in_python = s->python[span] != MTP__NONE || s->t->category[span] == MTP__CATEGORY_PYTHON_FUNCTION;
    if (shown == span && !in_python && stack != 0 && stack != s->recorded[span]) {
        uint32_t base = recorded_base(s, up, stack);
        s->recorded[span] = stack;
        return base;
    }
    return up != MTP__NONE ? s->at[up] : 0;
}

/* Steps would make every stack different; anything but events and functions is not part of the program. */
static bool is_shown(const mtp_trace *t, uint32_t span)
{
    return (t->flags[span] & MTP__SPAN_STEP) == 0 &&
           (is_event(t, span) || t->category[span] == MTP__CATEGORY_PYTHON_FUNCTION);
}

static void place_spans(stacks *s, const mtp__track *track)
{
    const mtp_trace *t = s->t;
    for (uint32_t i = track->first; i < track->first + track->count && !s->no_memory; i++) {
        uint32_t base = base_of(s, track, i), owner = s->owner[i];
        bool part = is_event(t, i) && owner != MTP__NONE && s->children[owner] == 1 &&
                    t->name[i] == t->name[owner] && t->parent[i] == owner;
        s->framed |= t->category[i] == MTP__CATEGORY_PYTHON_FUNCTION;
        s->at[i] = is_shown(t, i) && !part ? child(s, base, t->name[i]) : base;
        if (!s->device && is_event(t, i) && s->ns[i] > 0)
            s->nodes[s->at[i]].ns += s->ns[i];
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
        uint32_t at = child(s, s->at[launcher], t->name[i]);
        s->nodes[at].ns += s->no_memory ? 0 : t->end[i] - t->start[i];
    }
}

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
            put_frame(&s->out, (mtp_text){frame.bytes, offset != 0 ? offset : frame.length});
            if (offset != 0)
                put_frame(&s->out, (mtp_text){frame.bytes + symbol, frame.length - symbol});
            mtp__out_text(&s->out, k > 0 ? ";" : " ");
        }
        mtp__out_u64(&s->out, lines[i].ns >= 1000 ? (uint64_t)lines[i].ns / 1000 : 1);
        MTP__OUT(&s->out, "\n");
    }
}

/* Writes nothing if no stack has a frame: ops alone are not stacks. */
static void fold_all(stacks *s)
{
    const mtp_trace *t = s->t;
    s->at = mtp__calloc((size_t)t->span_count + 1, sizeof *s->at);
    s->recorded = mtp__calloc((size_t)t->span_count + 1, sizeof *s->recorded);
    s->no_memory |= s->at == NULL || s->recorded == NULL;
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

#define METRICS(X)                                                                                           \
    X("self_cpu_time_total", false)                                                                          \
    X("self_device_time_total", true)                                                                        \
    X("self_cuda_time_total", true)                                                                          \
    X("self_npu_time_total", true)                                                                           \
    X("self_xpu_time_total", true)                                                                           \
    X("self_privateuse1_time_total", true)

static mtp_status read_metric(const char *metric, bool *device)
{
    static const struct {
        const char *name;
        bool device;
    } known[] = {
#define X(name, device) {name, device},
        METRICS(X)
#undef X
    };
    for (size_t i = 0; metric != NULL && i < sizeof known / sizeof *known; i++)
        if (strcmp(metric, known[i].name) == 0) {
            *device = known[i].device;
            return MTP_OK;
        }
#define X(name, device) ", '" name "'"
    static const char list[] = METRICS(X);
#undef X
    return MTP_FAIL(MTP_E_ARG, "metric should be one of: [%s]", list + 2);
}

static mtp_status write_stacks(const mtp_trace *trace, const char *metric, mtp_sink *sink, void *user,
                               void put(stacks *s))
{
    stacks s = {.t = trace};
    if (trace == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace is NULL");
    mtp_status status = read_metric(metric, &s.device);
    if (status == MTP_OK)
        status = mtp__out_init(&s.out, sink, user);
    if (status != MTP_OK)
        return status;
    size_t spans = (size_t)trace->span_count + 1;
    s.ns = mtp__calloc(spans, sizeof *s.ns);
    s.owner = mtp__calloc(spans, sizeof *s.owner);
    s.python = mtp__calloc(spans, sizeof *s.python);
    s.backward = mtp__calloc(spans, sizeof *s.backward);
    s.children = mtp__calloc(spans, sizeof *s.children);
    s.no_memory =
        s.ns == NULL || s.owner == NULL || s.python == NULL || s.backward == NULL || s.children == NULL;
    if (!s.no_memory) {
        find_owners(&s);
        measure(&s);
        note_forwards(&s);
        put(&s);
    }
    mtp__free(s.ns);
    mtp__free(s.owner);
    mtp__free(s.python);
    mtp__free(s.backward);
    mtp__free(s.children);
    mtp__free(s.frames);
    mtp__free(s.nodes);
    mtp__free(s.at);
    mtp__free(s.recorded);
    mtp__pair_map_fini(&s.forward);
    mtp__pair_map_fini(&s.children_of);
    mtp__pair_map_fini(&s.functions);
    status = mtp__out_finish(&s.out);
    return s.no_memory ? MTP_FAIL(MTP_E_NOMEM, "stacks of %u spans", trace->span_count) : status;
}

mtp_status mtp_trace_stacks(const mtp_trace *trace, const char *metric, mtp_sink *sink, void *user)
{
    return write_stacks(trace, metric, sink, user, put_all);
}

mtp_status mtp_trace_folded(const mtp_trace *trace, const char *metric, mtp_sink *sink, void *user)
{
    return write_stacks(trace, metric, sink, user, fold_all);
}
