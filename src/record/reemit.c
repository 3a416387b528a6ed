/* record/reemit.c - re-emits the definitions that an idle thread's open chunk uses, so that it needs no older
 * epoch.
 *
 * They are found in the control chunks that are still held because of that chunk. Memory comes in pages from
 * the system, as always inside a record; if there is none, the chunk continues to need its old epoch.
 */
#include <string.h>
#include "base/os.h"
#include "base/pair_map.h"
#include "record/control.h"
#include "record/epoch.h"

#define COPY_LEAST ((size_t)2048) /* words */

typedef struct defined_stack {
    uint32_t id, pair[2];
} defined_stack;

typedef struct wanted {
    mtp__pair_map map;    /* (kind, id) -> it was copied */
    defined_stack *stack; /* owned, during the search */
    size_t stacks;
    uint64_t *copy; /* owned: the definitions, since writing one may evict the chunk it was read from */
    size_t words, room;
    bool failed; /* out of memory, or no room in the stream */
} wanted;

static void want(wanted *w, mtp__control_kind kind, uint32_t id)
{
    bool is_new;
    if (id != 0 && !w->failed)
        w->failed = mtp__pair_put(&w->map, (uint64_t)kind, id, false, &is_new) == NULL;
}

/* ------------------------------------------------------------------------------------ what a chunk uses */

static void want_payload(wanted *w, const uint64_t *record, uint32_t length)
{
    bool begin = MTP__WORD0_KIND(record[0]) == MTP__KIND_BEGIN;
    mtp__payload p = mtp__payload_of(record, length);
    uint64_t value;
    for (uint32_t bit; (bit = mtp__payload_next(&p, &value)) != 0;) {
        if (bit == MTP__HAS_DETAIL) {
            want(w, MTP__CONTROL_SHAPE, (uint32_t)value);
            want(w, MTP__CONTROL_STACK, begin ? (uint32_t)(value >> 32) : 0);
        } else if (bit == MTP__HAS_ARGS) {
            want(w, MTP__CONTROL_TEXT, (uint32_t)value);
        }
    }
}

/* The process's names are defined anyway. */
static bool is_lasting(uint32_t kind, uint32_t id)
{
    return kind == MTP__CONTROL_NAME && (id & 0x80000000u) == 0;
}

static void want_of_chunk(wanted *w, mtp__chunk *chunk)
{
    const uint64_t *words = mtp__chunk_words(chunk);
    uint32_t count = mtp__chunk_written(words, mtp__span_words(chunk->span));
    for (uint32_t at = 0; at < count;) {
        const uint64_t *record = words + at;
        uint32_t length = MTP__WORD0_LENGTH(record[0]);
        unsigned kind = MTP__WORD0_KIND(record[0]);
        if (length == 0)
            return; /* not a data record */
        uint32_t refers_to = mtp__kind_refers_to(kind);
        if (refers_to != MTP__CONTROL_NONE && length >= 2 && !is_lasting(refers_to, (uint32_t)record[1]))
            want(w, (mtp__control_kind)refers_to, (uint32_t)record[1]);
        if (kind == MTP__KIND_BEGIN || kind == MTP__KIND_END)
            want_payload(w, record, length);
        at += length;
    }
}

/* -------------------------------------------------------------------------------------- in the control stream */

typedef void definition_visitor(mtp__recorder *r, wanted *w, const uint64_t *record, uint32_t length);

/* In all epochs before `epoch`. */
static void each_definition(mtp__recorder *r, wanted *w, uint32_t epoch, definition_visitor *visit)
{
    for (uint32_t i = 0; i < r->control.held_count && !w->failed; i++) {
        mtp__chunk *chunk = r->control.held[i];
        if (chunk->epoch >= epoch)
            break;
        const uint64_t *words = mtp__chunk_words(chunk);
        for (uint32_t at = 0, length; at < chunk->words && !w->failed; at += length) {
            length = (uint32_t)(words[at + 1] >> 32);
            visit(r, w, words + at, length);
        }
    }
}

/* Stacks are listed in the order of definition. */
static void note_stack(mtp__recorder *r, wanted *w, const uint64_t *record, uint32_t length)
{
    (void)r;
    if (MTP__CONTROL_KIND(record[1]) != MTP__CONTROL_STACK || length != 5)
        return;
    if (w->stack != NULL) {
        defined_stack *s = &w->stack[w->stacks];
        s->id = (uint32_t)record[2];
        memcpy(s->pair, record + 4, sizeof s->pair);
    }
    w->stacks++;
}

/* A stack refers to its parent, defined before it, and to a frame: so the list is walked from its end. */
static void want_below(mtp__recorder *r, wanted *w, uint32_t epoch)
{
    each_definition(r, w, epoch, note_stack);
    if (w->stacks == 0)
        return;
    w->stack = mtp__page_calloc(w->stacks, sizeof *w->stack);
    w->failed |= w->stack == NULL;
    w->stacks = 0;
    each_definition(r, w, epoch, note_stack);
    for (size_t i = w->stacks; i-- > 0 && !w->failed;)
        if (mtp__pair_find(&w->map, MTP__CONTROL_STACK, w->stack[i].id) != NULL) {
            want(w, MTP__CONTROL_STACK, w->stack[i].pair[0]);
            want(w, MTP__CONTROL_FRAME, w->stack[i].pair[1]);
        }
    mtp__page_free(w->stack);
}

static bool copy(wanted *w, const uint64_t *record, uint32_t length)
{
    if (w->room - w->words < length) {
        size_t room = 2 * w->room + length > COPY_LEAST ? 2 * w->room + length : COPY_LEAST;
        uint64_t *grown = mtp__page_calloc(room, sizeof *grown);
        if (grown == NULL)
            return false;
        if (w->words > 0)
            memcpy(grown, w->copy, w->words * sizeof *grown);
        mtp__page_free(w->copy);
        w->copy = grown;
        w->room = room;
    }
    memcpy(w->copy + w->words, record, length * sizeof *record);
    w->words += length;
    return true;
}

static void copy_wanted(mtp__recorder *r, wanted *w, const uint64_t *record, uint32_t length)
{
    (void)r;
    mtp__control_kind kind = (mtp__control_kind)MTP__CONTROL_KIND(record[1]);
    if (kind > MTP__CONTROL_TEXT || length < 4)
        return;
    uint64_t *done = mtp__pair_find(&w->map, (uint64_t)kind, (uint32_t)record[2]);
    if (done == NULL || *done)
        return;
    w->failed |= !copy(w, record, length);
    uint64_t total = (uint32_t)record[3], part = record[3] >> 32, offset = record[2] >> 32;
    if (offset + part == total) /* its last part */
        *done = true;
}

static void reemit(mtp__recorder *r, wanted *w, uint32_t epoch)
{
    each_definition(r, w, epoch, copy_wanted);
    for (size_t at = 0; at < w->words && !w->failed; at += (size_t)(w->copy[at + 1] >> 32))
        w->failed = !mtp__control_copy(r, w->copy + at, (uint32_t)(w->copy[at + 1] >> 32));
    mtp__page_free(w->copy);
}

/* --------------------------------------------------------------------------------------------- threads */

typedef struct reemission {
    mtp__recorder *r;
    const mtp__thread *self;
    uint32_t epoch;
    wanted w;
    bool move; /* everything was re-emitted */
} reemission;

/* A thread that was seen at rest, or parked, after `held_still` was set does not change chunks; if it has
 * begun a record since, that uses definitions of this epoch or the one before. */
static void look_at(void *user, mtp__thread *t)
{
    reemission *x = user;
    mtp__writer *w = t->writer;
    if (!x->move)
        t->reemitted =
            t != x->self && t->joined == x->r->id && !t->stuck &&
            (atomic_load_explicit(&w->busy, memory_order_acquire) == 0 || atomic_load(&t->parked)) &&
            w->chunk != NULL && w->chunk->epoch + 1 < x->epoch;
    if (!t->reemitted)
        return;
    if (x->move)
        __atomic_store_n(&w->chunk->epoch, x->epoch, __ATOMIC_RELAXED);
    else
        want_of_chunk(&x->w, w->chunk);
}

void mtp__reemit_for_idle(mtp__recorder *r, const mtp__thread *self)
{
    reemission x = {.r = r,
                    .self = self,
                    .epoch = atomic_load_explicit(&r->pool.epoch, memory_order_relaxed),
                    .w.map.in_pages = true};
    mtp__registry_each(look_at, &x);
    if (x.w.map.count > 0) {
        want_below(r, &x.w, x.epoch);
        reemit(r, &x.w, x.epoch);
        r->control.beginning = r->control.epoch_words;
    }
    x.move = !x.w.failed;
    if (x.move)
        mtp__registry_each(look_at, &x);
    mtp__pair_map_fini(&x.w.map);
}
