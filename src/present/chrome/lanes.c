/* present/chrome/lanes.c - rows on which spans are nested or disjoint, and at most 512 deep.
 *
 * Most tracks are already like that, and cost one check per span. On others a span is put on its parent's row
 * if it nests there, else on the first row where it does, else on a new one. A tree over the rows finds it,
 * so n overlapping spans cost n log n.
 *
 * If an annotation crosses a call (a step that ends inside a function, a scope that a coroutine keeps open
 * while it waits), only the annotation is moved: what a thread runs stays on the thread's row, in one piece. So does an
 * annotation that a step crosses: the step is moved.
 */
#include "present/chrome/chrome.h"
#include "trace/facts.h"
#include "base/error.h"
#include "base/heap.h"

/* A leaf is a lane. fits: the latest end that a span may have there now. over: when its innermost span
 * ends. */
typedef struct node {
    int64_t fits, over;
} node;

typedef struct lane_tree {
    node *node;      /* owned: 1 is the root, leaves from `leaves` on */
    uint32_t *top;   /* owned: innermost open span of a lane */
    uint32_t *depth; /* owned */
    uint32_t leaves, count;
    uint32_t *below; /* owned: per span of the track: the enclosing one in its lane */
    uint8_t *alone;  /* owned: per span of the track: an annotation that crosses a call */
    uint32_t *home;  /* owned: per span of the track: the lane of its children */
    const mtp_trace *t;
    uint32_t first; /* span of the track */
} lane_tree;

static bool does_nest(const mtp_trace *t, const mtp__track *track)
{
    uint32_t top = MTP__NONE, depth = 0;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        if ((t->flags[i] & MTP__SPAN_OVERLAP) != 0)
            return false;
        uint32_t parent = t->parent[i];
        while (top != parent && top != MTP__NONE) {
            top = t->parent[top];
            depth--;
        }
        if (++depth > MTP__LEVELS_MAX)
            return false;
        top = i;
    }
    return true;
}

/* -------------------------------------------------------------------------------- annotations and calls */

typedef struct crossing { /* the spans currently open */
    const mtp_trace *t;
    uint32_t *call, *annotation; /* owned: a stack; a heap with the earliest end on top */
    uint32_t calls, annotations;
    bool of_steps; /* the second look: steps are the annotations, everything else is a call */
} crossing;

static bool ends_before(const void *a, const void *b, const void *user)
{
    const int64_t *end = ((const mtp_trace *)user)->end;
    return end[*(const uint32_t *)a] < end[*(const uint32_t *)b];
}

static void heap_add(crossing *c, uint32_t span)
{
    c->annotation[c->annotations] = span;
    mtp__heap_up(c->annotation, sizeof span, c->annotations++, ends_before, c->t);
}

static void heap_drop(crossing *c)
{
    c->annotation[0] = c->annotation[--c->annotations];
    mtp__heap_down(c->annotation, sizeof *c->annotation, c->annotations, 0, ends_before, c->t);
}

static bool is_call(const crossing *c, uint32_t span)
{
    const mtp_trace *t = c->t;
    if (t->category[span] != MTP__CATEGORY_USER_ANNOTATION)
        return true;
    return c->of_steps && (t->flags[span] & MTP__SPAN_STEP) == 0 &&
           !mtp__is_numbered_step_name(mtp__trace_get_text(t, t->name[span]));
}

static void look_at(crossing *c, uint32_t first, uint32_t span, uint8_t *alone)
{
    const mtp_trace *t = c->t;
    int64_t start = t->start[span], end = t->end[span];
    bool call = is_call(c, span);
    while (c->calls > 0 &&
           (t->end[c->call[c->calls - 1]] <= start || (call && t->end[c->call[c->calls - 1]] < end)))
        c->calls--;
    if (!call) {
        alone[span - first] = c->calls > 0 && t->end[c->call[c->calls - 1]] < end;
        if (!alone[span - first])
            heap_add(c, span);
        return;
    }
    for (; c->annotations > 0 && t->end[c->annotation[0]] < end; heap_drop(c))
        alone[c->annotation[0] - first] = t->end[c->annotation[0]] > start;
    c->call[c->calls++] = span;
}

static bool find_alone(const mtp_trace *t, const mtp__track *track, uint8_t *alone)
{
    crossing c = {.t = t};
    c.call = mtp__calloc(track->count, sizeof *c.call);
    c.annotation = mtp__calloc(track->count, sizeof *c.annotation);
    bool good = c.call != NULL && c.annotation != NULL;
    for (uint32_t look = 0; look < 2 && good && !track->on_device; look++) {
        c.calls = c.annotations = 0;
        c.of_steps = look == 1;
        for (uint32_t i = 0; i < track->count; i++)
            if (alone[i] == 0)
                look_at(&c, track->first, track->first + i, alone);
    }
    mtp__free(c.call);
    mtp__free(c.annotation);
    return good;
}

/* ------------------------------------------------------------------------------------------------ rows */

static void set_fits(lane_tree *l, uint32_t lane, int64_t fits)
{
    uint32_t at = l->leaves + lane;
    l->node[at].fits = fits;
    while ((at /= 2) > 0) {
        const node *left = &l->node[2 * at], *right = left + 1;
        l->node[at].fits = left->fits > right->fits ? left->fits : right->fits;
        l->node[at].over = left->over < right->over ? left->over : right->over;
    }
}

static void set_leaf(lane_tree *l, uint32_t lane)
{
    uint32_t top = l->top[lane];
    node *n = &l->node[l->leaves + lane];
    n->over = top != MTP__NONE ? l->t->end[top] : INT64_MAX;
    set_fits(l, lane, top == MTP__NONE ? INT64_MAX : l->depth[lane] < MTP__LEVELS_MAX ? n->over : INT64_MIN);
}

static bool tree_grow(lane_tree *l)
{
    uint32_t leaves = l->leaves != 0 ? l->leaves * 2 : 4;
    lane_tree bigger = *l;
    bigger.leaves = leaves;
    bigger.node = mtp__calloc((size_t)leaves * 2, sizeof *bigger.node);
    bigger.top = mtp__calloc(leaves, sizeof *bigger.top);
    bigger.depth = mtp__calloc(leaves, sizeof *bigger.depth);
    if (bigger.node == NULL || bigger.top == NULL || bigger.depth == NULL) {
        mtp__free(bigger.node);
        mtp__free(bigger.top);
        mtp__free(bigger.depth);
        return false;
    }
    for (size_t i = 0; i < (size_t)leaves * 2; i++)
        bigger.node[i] = (node){INT64_MIN, INT64_MAX}; /* no lane there yet */
    for (uint32_t i = 0; i < l->count; i++) {
        bigger.top[i] = l->top[i];
        bigger.depth[i] = l->depth[i];
    }
    mtp__free(l->node);
    mtp__free(l->top);
    mtp__free(l->depth);
    *l = bigger;
    for (uint32_t i = 0; i < l->count; i++)
        set_leaf(l, i);
    return true;
}

/* Removes spans that have ended by `start` from their lanes. */
static void close_until(lane_tree *l, int64_t start)
{
    start = start < INT64_MAX ? start : INT64_MAX - 1; /* which means: nothing is open */
    while (l->node[1].over <= start) {
        uint32_t at = 1;
        while (at < l->leaves)
            at = l->node[2 * at].over <= start ? 2 * at : 2 * at + 1;
        uint32_t lane = at - l->leaves, top = l->top[lane];
        while (top != MTP__NONE && l->t->end[top] <= start) {
            top = l->below[top - l->first];
            l->depth[lane]--;
        }
        l->top[lane] = top;
        set_leaf(l, lane);
    }
}

/* The first lane where a span with this end nests, or a new one. MTP__NONE: out of memory. */
static uint32_t first_fit(lane_tree *l, int64_t end)
{
    if (l->node[1].fits >= end && l->node[1].fits != INT64_MIN) {
        uint32_t at = 1;
        while (at < l->leaves)
            at = l->node[2 * at].fits >= end && l->node[2 * at].fits != INT64_MIN ? 2 * at : 2 * at + 1;
        return at - l->leaves;
    }
    if (l->count == l->leaves && !tree_grow(l))
        return MTP__NONE;
    l->top[l->count] = MTP__NONE;
    l->depth[l->count] = 0;
    return l->count++;
}

/* The same, excluding the thread's own row. */
static uint32_t first_beside(lane_tree *l, int64_t end)
{
    if (l->count == 0) {
        l->top[0] = MTP__NONE;
        l->count = 1;
    }
    set_fits(l, 0, INT64_MIN);
    uint32_t lane = first_fit(l, end);
    set_leaf(l, 0);
    return lane;
}

static mtp_status place_all(lane_tree *l, const mtp__track *track, uint32_t *lane_of)
{
    const mtp_trace *t = l->t;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        uint32_t home = t->parent[i] != MTP__NONE ? l->home[t->parent[i] - track->first] : 0, lane = home;
        close_until(l, t->start[i]);
        const node *n = &l->node[l->leaves + lane];
        if (l->alone[i - track->first])
            lane = first_beside(l, t->end[i]);
        else if (l->count <= lane || n->fits == INT64_MIN || n->fits < t->end[i])
            lane = first_fit(l, t->end[i]);
        if (lane == MTP__NONE)
            return MTP_FAIL(MTP_E_NOMEM, "rows for spans that overlap");
        l->home[i - track->first] = l->alone[i - track->first] ? home : lane;
        l->below[i - track->first] = l->top[lane];
        l->top[lane] = i;
        l->depth[lane]++;
        lane_of[i] = lane;
        set_leaf(l, lane);
    }
    return MTP_OK;
}

static mtp_status place(const mtp_trace *t, const mtp__track *track, uint32_t *lane_of, uint32_t *lanes)
{
    lane_tree l = {.t = t, .first = track->first};
    l.below = mtp__calloc(track->count, sizeof *l.below);
    l.home = mtp__calloc(track->count, sizeof *l.home);
    l.alone = mtp__calloc(track->count, 1);
    mtp_status status = MTP_E_NOMEM;
    if (l.below != NULL && l.home != NULL && l.alone != NULL && find_alone(t, track, l.alone) &&
        tree_grow(&l))
        status = place_all(&l, track, lane_of);
    else
        MTP_FAIL(status, "rows for %u spans", track->count);
    *lanes = l.count;
    mtp__free(l.node);
    mtp__free(l.top);
    mtp__free(l.depth);
    mtp__free(l.below);
    mtp__free(l.home);
    mtp__free(l.alone);
    return status;
}

mtp_status mtp__chrome_lanes(const mtp_trace *t, uint32_t *lanes, uint32_t **lane_of)
{
    *lane_of = NULL;
    for (uint32_t k = 0; k < t->track_count; k++) {
        lanes[k] = 1;
        if (does_nest(t, &t->tracks[k]))
            continue;
        if (*lane_of == NULL && (*lane_of = mtp__calloc(t->span_count, sizeof **lane_of)) == NULL)
            return MTP_FAIL(MTP_E_NOMEM, "the rows of %u spans", t->span_count);
        mtp_status status = place(t, &t->tracks[k], *lane_of, &lanes[k]);
        if (status != MTP_OK)
            return status;
    }
    return MTP_OK;
}
