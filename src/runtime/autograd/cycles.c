/* runtime/autograd/cycles.c - circles of references: after backward(create_graph) the gradient of a leaf has a
 * graph, which leads back to the leaf.
 *
 *     leaf ─► grad ─► grad_fn ─► ... ─► accumulator ─► leaf
 *
 * A leaf whose owner (its Python object) lets go of it while it has such a gradient becomes a suspect. A
 * collection starts at the suspects and counts the references that it finds. An object is entered once as many
 * references to it were found as it has: then nothing outside refers to it. Suspects with references that were not found are alive, and so
 * is everything that they lead to. The others lose their gradients, and with these the circle falls apart.
 *
 * Threads: one at a time may call (in Python: with the GIL). No collection while the engine runs on any
 * thread: it changes what is counted here.
 * Invariant: the list owns one reference to each suspect.
 */
#include "runtime/autograd/autograd.h"
#include <sched.h>
#include <stdlib.h>

typedef struct thing {
    const void *at; /* a tensor or a node, borrowed */
    uint32_t found; /* references to it */
    bool is_node, entered, alive;
} thing;

typedef struct survey {
    thing *things;        /* in the order in which they were found */
    uint32_t *ready;      /* a stack of indices: to be entered; as long as things */
    uint32_t *table;      /* open addressing: 1 + an index of things; 0: free */
    uint32_t count, room; /* room: of the table, a power of two; things has half of it */
    uint32_t ready_count;
    bool failed; /* out of memory */
} survey;

static mt_tensor **suspects;
static uint32_t suspect_count, suspect_room;
static size_t last_cost, gone_since; /* a survey per last_cost released tensors keeps the total cost linear */

/* ------------------------------------------------------------------------------------------ the engine's runs */

static _Atomic uint32_t running; /* runs of the engine. seq_cst: with collecting, each sees the other */
static _Atomic bool collecting;

void mt__cycles_hold(void)
{
    for (;;) {
        atomic_fetch_add(&running, 1);
        if (MT__LIKELY(!atomic_load(&collecting)))
            return;
        atomic_fetch_sub(&running, 1);
        while (atomic_load(&collecting))
            sched_yield();
    }
}

void mt__cycles_release(void)
{
    atomic_fetch_sub(&running, 1);
}

static bool begin_collecting(void)
{
    atomic_store(&collecting, true);
    if (atomic_load(&running) == 0)
        return true;
    atomic_store(&collecting, false);
    return false;
}

/* -------------------------------------------------------------------------------------------------- the survey */

static uint32_t *place_of(const survey *s, const void *at)
{
    uint32_t i = (uint32_t)(((uintptr_t)at >> 4) * 0x9E3779B97F4A7C15u >> 32) & (s->room - 1);
    while (s->table[i] != 0 && s->things[s->table[i] - 1].at != at)
        i = (i + 1) & (s->room - 1);
    return &s->table[i];
}

static void grow(survey *s)
{
    uint32_t room = s->room > 0 ? s->room * 2 : 256;
    thing *things = realloc(s->things, room / 2 * sizeof *things);
    uint32_t *ready = realloc(s->ready, room / 2 * sizeof *ready), *table = calloc(room, sizeof *table);
    if (things != NULL)
        s->things = things;
    if (ready != NULL)
        s->ready = ready;
    s->failed = things == NULL || ready == NULL || table == NULL;
    if (s->failed) {
        free(table);
        return;
    }
    free(s->table);
    s->table = table;
    s->room = room;
    for (uint32_t i = 0; i < s->count; i++)
        *place_of(s, s->things[i].at) = i + 1;
}

static thing *thing_of(survey *s, const void *at, bool is_node)
{
    if (2 * (s->count + 1) > s->room)
        grow(s);
    if (s->failed)
        return NULL;
    uint32_t *place = place_of(s, at);
    if (*place == 0) {
        s->things[s->count++] = (thing){.at = at, .is_node = is_node};
        *place = s->count;
    }
    return &s->things[*place - 1];
}

typedef void each_fn(survey *s, const void *at, bool is_node);

static void each_of_node(survey *s, const mt_node *node, each_fn *each)
{
    for (uint32_t i = 0; i < node->edge_count; i++)
        each(s, node->edges[i].node, true);
    for (uint32_t i = 0; i < node->edge_count + node->out_count; i++) /* those of the outputs follow */
        each(s, node->saved[i].tensor, false);
    each(s, node->leaf, false);
    if (node->kind == MT__NODE_COPY_SLICES)
        each(s, mt__copy_slices_inner(node), true);
}

/* What the thing owns. Functions of the user are opaque: what they hold stays alive. */
static void each_reference(survey *s, const thing *of, each_fn *each)
{
    if (of->is_node) {
        each_of_node(s, of->at, each);
        return;
    }
    const mt_tensor *t = of->at;
    each(s, t->grad, false);
    each(s, t->grad_fn, true);
    each(s, t->extra != NULL ? t->extra->base : NULL, false);
    each(s, t->extra != NULL ? t->extra->retained : NULL, true);
}

static bool is_found(const thing *x)
{
    const _Atomic uint32_t *refs =
        x->is_node ? &((const mt_node *)x->at)->refs : &((const mt_tensor *)x->at)->refs;
    return atomic_load_explicit(refs, memory_order_acquire) ==
           x->found; /* what other owners did comes first */
}

static void enter(survey *s, uint32_t i, each_fn *each)
{
    thing of = s->things[i]; /* they may move */
    s->things[i].entered = true;
    each_reference(s, &of, each);
}

static void enter_all(survey *s, each_fn *each)
{
    while (s->ready_count > 0 && !s->failed)
        enter(s, s->ready[--s->ready_count], each);
}

static void count_reference(survey *s, const void *at, bool is_node)
{
    thing *x = at != NULL ? thing_of(s, at, is_node) : NULL;
    if (x == NULL)
        return;
    x->found++;
    if (is_found(x) && !x->entered)
        s->ready[s->ready_count++] = (uint32_t)(x - s->things);
}

/* What a living object owns is alive. Objects that were not entered lead nowhere that was counted. */
static void mark_alive(survey *s, const void *at, bool is_node)
{
    thing *x = at != NULL ? thing_of(s, at, is_node) : NULL;
    if (x == NULL || x->alive)
        return;
    x->alive = true;
    if (x->entered)
        s->ready[s->ready_count++] = (uint32_t)(x - s->things);
}

static void take_survey(survey *s)
{
    for (uint32_t i = 0; i < suspect_count; i++)
        count_reference(s, suspects[i], false); /* the list's */
    s->ready_count = 0;
    for (uint32_t i = 0; i < suspect_count && !s->failed; i++)
        s->things[i].entered = true; /* by the next loop, not when another suspect leads there */
    for (uint32_t i = 0; i < suspect_count && !s->failed; i++)
        enter(s, i, count_reference);
    enter_all(s, count_reference);
    for (uint32_t i = 0; i < s->count && !s->failed; i++)
        if (!is_found(&s->things[i]))
            mark_alive(s, s->things[i].at, s->things[i].is_node);
    enter_all(s, mark_alive);
}

/* ---------------------------------------------------------------------------------------------------- suspects */

static bool is_suspicious(const mt_tensor *t)
{
    return t->grad != NULL && t->grad->grad_fn != NULL && t->grad_fn == NULL && t->python == NULL;
}

static void suspect(mt_tensor *t)
{
    for (uint32_t i = 0; i < suspect_count; i++)
        if (suspects[i] == t)
            return;
    if (suspect_count == suspect_room) {
        uint32_t room = suspect_room > 0 ? suspect_room * 2 : 64;
        mt_tensor **grown = realloc(suspects, room * sizeof *grown);
        if (grown == NULL)
            return; /* it leaks */
        suspects = grown;
        suspect_room = room;
    }
    suspects[suspect_count++] = mt_retain(t);
}

void mt_collect_cycles(void)
{
    survey s = {0};
    if (suspect_count == 0 || !begin_collecting())
        return;
    take_survey(&s);
    uint32_t gone_count = 0, count = suspect_count;
    mt_tensor **gone = s.failed ? NULL : malloc(2 * count * sizeof *gone);
    for (uint32_t i = suspect_count; i-- > 0 && gone != NULL;) {
        mt_tensor *t = suspects[i];
        if (s.things[i].alive && is_suspicious(t))
            continue;
        if (!s.things[i].alive) {
            gone[gone_count++] = t->grad;
            t->grad = NULL;
        }
        gone[gone_count++] = t;
        suspects[i] = suspects[--suspect_count];
    }
    atomic_store(&collecting, false);
    last_cost = s.count;
    gone_since = 0;
    free(s.things);
    free(s.ready);
    free(s.table);
    for (uint32_t i = 0; i < gone_count; i++)
        mt_release(gone[i]); /* can run any code: the list is consistent again */
    free(gone);
}

void mt_disown(mt_tensor *t)
{
    t->python = NULL;
    if (MT__UNLIKELY(t->grad != NULL) && is_suspicious(t) &&
        atomic_load_explicit(&t->refs, memory_order_relaxed) > 1) {
        suspect(t);
        gone_since += last_cost; /* it may be the last one that held the circle */
    }
    mt_release(t);
    if (MT__UNLIKELY(suspect_count > 0) && ++gone_since > last_cost)
        mt_collect_cycles();
}
