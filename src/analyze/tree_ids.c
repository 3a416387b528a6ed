/* analyze/tree_ids.c - torch's ids of tensors and memory. Everything that refers to memory is visited in
 * order of time: tensors passed to ops, tensors held by objects, allocations, frees.
 *
 *   1. memory: an address on a device, in a process, is one piece until it is freed, then a new one;
 *   2. allocations on which no tensor was ever seen are not tensor memory and get no id. What an op allocated
 *      and never freed is a live result, or saved for the backward pass: tensor memory, seen or not;
 *   3. tensors: all memory that a tensor had is one id, and so are tensors that share memory.
 */
#include "analyze/tree.h"
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "base/pair_map.h"

typedef struct sighting {
    uint64_t number; /* the tensor; 0: an allocation or a free */
    uint32_t slot;
    uint32_t op; /* 1 + the span of the op that made the allocation; 0: none */
} sighting;

typedef struct pair {
    uint32_t low, high;
} pair;

typedef struct finder {
    mtp_tree *tree;
    const mtp_trace *t;
    sighting *seen;              /* owned */
    uint32_t seen_count, pieces; /* pieces of memory: 1 to this */
    uint8_t *is_tensors; /* owned, by piece: had a tensor, or an op allocated it and it was never freed */
    pair *pairs;         /* owned: pieces that one tensor had */
    uint32_t pair_count;
    uint32_t *group; /* owned, by piece: 1 + the id */
    uint32_t *maker; /* owned, by piece: 1 + the op that allocated it, if never freed; 0: none */
} finder;

/* ------------------------------------------------------------------------------------------- what was seen */

/* An object's tensors may be reported by two spans, if a call is shown in two parts: once is enough. */
static void see_tensors(finder *f, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (f->t->tensors[i].number != 0 && f->tree->allocation[i] == 0) {
            f->tree->allocation[i] = 1;
            f->seen[f->seen_count++] = (sighting){f->t->tensors[i].number, i, 0};
        }
}

static void see_span(finder *f, uint32_t span)
{
    const mtp__detail *d = mtp__trace_detail(f->t, span);
    see_tensors(f, d->tensors, d->tensor_count);
    for (uint32_t i = 0; i < d->held_count; i++)
        see_tensors(f, f->t->held[d->held + i].tensors, f->t->held[d->held + i].count);
}

/* 1 + the span of the op directly around a node; 0: none. */
static uint32_t op_around(const mtp_tree *tree, uint32_t node)
{
    uint32_t parent = tree->parent[node];
    uint32_t item = parent < tree->count ? tree->item[parent] : tree->t->span_count;
    return item < tree->t->span_count && tree->t->category[item] == MTP__CATEGORY_CPU_OP ? 1 + item : 0;
}

static void see_all(finder *f)
{
    const mtp_trace *t = f->t;
    for (uint32_t n = 0; n < f->tree->count; n++) {
        uint32_t item = f->tree->item[n];
        if (item < t->span_count)
            see_span(f, item);
        else if (item - t->span_count < t->memory_count)
            f->seen[f->seen_count++] =
                (sighting){0, t->tensor_count + (item - t->span_count), op_around(f->tree, n)};
    }
}

/* ------------------------------------------------------------------------------------------------- memory */

/* Where a slot's memory is. */
static void place_of(const finder *f, uint32_t slot, uint64_t *address, uint64_t *device, bool *is_free)
{
    const mtp_trace *t = f->t;
    if (slot < t->tensor_count) {
        uint16_t where = t->tensors[slot].device;
        *address = t->tensors[slot].storage;
        *device = MTP_DEVICE_TYPE(where) == 0 ? 0 : 1 + MTP_DEVICE_INDEX(where);
        *device |= (uint64_t)t->tensors[slot].part << 32;
        *is_free = false;
    } else {
        const mtp__memory *m = &t->memory[slot - t->tensor_count];
        *address = m->address;
        *device = m->device_type == 0 ? 0 : 1 + (uint64_t)(m->device_index < 0 ? 0 : m->device_index);
        *device |= (uint64_t)(m->track < t->track_count ? t->tracks[m->track].part : 0) << 32;
        *is_free = m->bytes < 0;
    }
}

static bool number_memory(finder *f)
{
    mtp__pair_map now = {0}; /* (address, device) -> piece; 0: freed */
    bool done = true;
    for (uint32_t i = 0; i < f->seen_count && done; i++) {
        uint64_t address, device;
        bool is_free, is_new;
        place_of(f, f->seen[i].slot, &address, &device, &is_free);
        uint64_t *piece = mtp__pair_put(&now, address, device, 0, &is_new);
        done = piece != NULL;
        if (!done)
            break;
        if (*piece == 0)
            *piece = ++f->pieces;
        f->tree->allocation[f->seen[i].slot] = (uint32_t)*piece;
        if (!is_free && f->seen[i].op != 0)
            f->maker[*piece] = f->seen[i].op;
        if (is_free) {
            f->maker[*piece] = 0;
            *piece = 0;
        }
    }
    mtp__pair_map_fini(&now);
    return done;
}

/* ------------------------------------------------------------------------------------------------ tensors */

static int by_pair(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->low != y->low)
        return x->low < y->low ? -1 : 1;
    return x->high < y->high ? -1 : x->high > y->high;
}

/* Pairs each piece that a tensor had with the tensor's first piece. */
static bool pair_up(finder *f)
{
    mtp__pair_map first_of = {0};
    bool done = true;
    for (uint32_t i = 0; i < f->seen_count && done; i++) {
        bool is_new;
        uint32_t piece = f->tree->allocation[f->seen[i].slot];
        if (f->seen[i].number == 0)
            continue;
        f->is_tensors[piece] = 1;
        uint64_t *first = mtp__pair_put(&first_of, f->seen[i].number, 0, piece, &is_new);
        done = first != NULL;
        if (done)
            f->pairs[f->pair_count++] =
                *first < piece ? (pair){(uint32_t)*first, piece} : (pair){piece, (uint32_t)*first};
    }
    mtp__pair_map_fini(&first_of);
    for (uint32_t piece = 1; piece <= f->pieces && done; piece++)
        if (f->maker[piece] != 0 && !f->is_tensors[piece]) {
            f->is_tensors[piece] = 1;
            f->pairs[f->pair_count++] = (pair){piece, piece};
        }
    if (f->pair_count > 1)
        qsort(f->pairs, f->pair_count, sizeof *f->pairs, by_pair);
    return done;
}

static void number_tensors(finder *f)
{
    uint32_t next = 1;
    for (uint32_t i = 0; i < f->pair_count; i++) {
        const pair *p = &f->pairs[i];
        if (f->group[p->low] == 0)
            f->group[p->low] = next++;
        if (f->group[p->high] == 0)
            f->group[p->high] = f->group[p->low];
    }
    for (uint32_t i = 0; i < f->seen_count; i++) {
        uint32_t slot = f->seen[i].slot, piece = f->tree->allocation[slot];
        if (f->is_tensors[piece])
            f->tree->id[slot] = f->group[piece];
    }
}

mtp_status mtp__tree_ids(mtp_tree *tree)
{
    const mtp_trace *t = tree->t;
    size_t slots = (size_t)t->tensor_count + t->memory_count + 1;
    finder f = {.tree = tree, .t = t};
    f.seen = mtp__calloc(slots, sizeof *f.seen);
    f.is_tensors = mtp__calloc(slots, sizeof *f.is_tensors);
    f.pairs = mtp__calloc(slots, sizeof *f.pairs);
    f.group = mtp__calloc(slots, sizeof *f.group);
    f.maker = mtp__calloc(slots, sizeof *f.maker);
    bool done =
        f.seen != NULL && f.is_tensors != NULL && f.pairs != NULL && f.group != NULL && f.maker != NULL;
    if (done) {
        see_all(&f);
        done = number_memory(&f) && pair_up(&f);
    }
    if (done)
        number_tensors(&f);
    mtp__free(f.seen);
    mtp__free(f.is_tensors);
    mtp__free(f.pairs);
    mtp__free(f.group);
    mtp__free(f.maker);
    return done ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "ids of %zu tensors and allocations", slots - 1);
}
