/* analyze/ranks/why.c - what a late rank does differently: for each op, its own time per step on that rank, less the
 * median of the other ranks in the same steps. */
#include <math.h>
#include <stdlib.h>
#include "analyze/ranks/ranks.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/pair_map.h"

typedef struct part { /* of one rank */
    uint32_t name, rank;
    bool on_device;
    double own, calls;
} part;

typedef struct parts {
    part *at; /* owned */
    uint32_t count, room;
    bool failed;
} parts;

static void add(parts *p, const mtp_ranks *r, uint32_t rank, uint32_t from)
{
    const mtp__rank *k = &r->list[rank];
    mtp__pair_map known = {0};
    for (uint32_t i = 0; i < k->op_count && !p->failed; i++) {
        const mtp__op_sum *o = &k->ops[i];
        bool is_new = false;
        if (k->compared[o->step] == MTP__NO_STEP || k->compared[o->step] < from)
            continue;
        uint64_t *at = mtp__pair_put(&known, o->name, o->on_device, p->count, &is_new);
        p->failed = at == NULL || (is_new && !MTP__GROW(p->at, p->room, p->count, (size_t)p->count + 1, 256));
        if (p->failed)
            break;
        if (is_new)
            p->at[p->count++] = (part){.name = o->name, .rank = rank, .on_device = o->on_device};
        p->at[*at].own += (double)o->own;
        p->at[*at].calls += (double)o->calls;
    }
    mtp__pair_map_fini(&known);
}

static int by_name(const void *a, const void *b)
{
    const part *x = a, *y = b;
    if (x->on_device != y->on_device)
        return x->on_device ? 1 : -1;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return (x->own > y->own) - (x->own < y->own);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The median of `others` values, of which those that are not given are 0. */
static double median(double *value, uint32_t given, uint32_t others)
{
    qsort(value, given, sizeof *value, by_value);
    uint32_t zeros = others - given, at = others / 2;
    return others == 0 || at < zeros ? 0 : value[at - zeros];
}

/* One op on all ranks. */
static void weigh(const part *p, uint32_t count, uint32_t rank, uint32_t others, double steps, double *room,
                  mtp__why *out)
{
    mtp__why w = {.name = p->name, .on_device = p->on_device};
    uint32_t given = 0;
    for (uint32_t i = 0; i < count; i++)
        if (p[i].rank == rank) {
            w.own = p[i].own / steps;
            w.calls = p[i].calls / steps;
        } else {
            room[given++] = p[i].own / steps;
        }
    w.usual = median(room, given, others);
    given = 0;
    for (uint32_t i = 0; i < count; i++)
        if (p[i].rank != rank)
            room[given++] = p[i].calls / steps;
    w.usual_calls = median(room, given, others);
    if (w.own - w.usual > out->own - out->usual)
        *out = w;
}

mtp_status mtp__ranks_why(const mtp_ranks *r, uint32_t rank, uint32_t from, mtp__why *out)
{
    parts p = {0};
    mtp__why of[2] = {{0}, {0}}; /* threads, devices */
    double *room = mtp__calloc((size_t)r->used + 1, sizeof *room),
           steps = (double)r->compared_count - (double)from;
    *out = (mtp__why){0};
    uint32_t others = 0; /* with kernels, as this one has them, or without */
    for (uint32_t k = 0; k < r->used && room != NULL && !p.failed; k++) {
        if (r->list[k].row.has_device != r->list[rank].row.has_device)
            continue;
        others += k != rank && !r->list[k].stepless;
        add(&p, r, k, from);
    }
    if (room == NULL || p.failed) {
        mtp__free(room);
        mtp__free(p.at);
        return MTP_FAIL(MTP_E_NOMEM, "the ops of %u ranks", r->used);
    }
    if (p.count > 1)
        qsort(p.at, p.count, sizeof *p.at, by_name);
    for (uint32_t i = 0, to; i < p.count && steps > 0; i = to) {
        for (to = i;
             to < p.count && p.at[to].name == p.at[i].name && p.at[to].on_device == p.at[i].on_device;)
            to++;
        weigh(&p.at[i], to - i, rank, others, steps, room, &of[p.at[i].on_device]);
    }
    /* Threads run ahead of devices: what they do matters only if the device's own work does not explain it. */
    *out = of[1].own - of[1].usual > 0.3 * (of[0].own - of[0].usual) ? of[1] : of[0];
    mtp__free(room);
    mtp__free(p.at);
    return MTP_OK;
}
