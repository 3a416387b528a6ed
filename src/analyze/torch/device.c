/* analyze/torch/device.c - device work and the CPU events that it is added to.
 *
 * By default that is the launcher column: the op around the call that launched the work or, outside any op,
 * the call.
 *
 * With options.as_torch, a trace that torch wrote uses torch's own join, with all its consequences: an
 * event's id is its "External id" (an op, an annotation), its CUDA correlation (a runtime call outside any
 * op) or, lacking both (overhead), the id of whatever encloses it on the thread that stopped the profiler;
 * and every event with the id of some device work gets that work's time. So work is counted twice where
 * overhead has its op's id, and occasionally a call outside any op gets the time of an op's kernels, as the
 * two kinds of ids are numbered independently.
 *
 * Either way such calls, and overhead, are nested on the thread that stopped the profiler, whichever thread
 * made them.
 */
#include <stdlib.h>
#include <string.h>
#include "analyze/torch/rules.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/os.h"

/* --------------------------------------------------------------------------------- device work by op id */

typedef struct work {
    uint64_t id;      /* 0: free */
    double high, low; /* its time in us, compensated like Python's sum() */
} work;

typedef struct work_map {
    work *slot; /* owned */
    size_t mask;
} work_map;

static work *map_at(const work_map *m, uint64_t id)
{
    size_t at = mtp__hash_mix(id, MTP__HASH_K1) & m->mask;
    while (m->slot[at].id != 0 && m->slot[at].id != id)
        at = (at + 1) & m->mask;
    return &m->slot[at];
}

typedef struct begun {
    int64_t start, end;
    uint32_t span;
} begun;

static int by_start(const void *a, const void *b)
{
    const begun *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->span < y->span ? -1 : x->span > y->span;
}

static bool is_work(const mtp_trace *t, uint32_t span)
{
    return mtp__category_on_device((mtp__category)t->category[span]) &&
           t->category[span] != MTP__CATEGORY_GPU_USER_ANNOTATION;
}

/* The key that joins events with the work; 0: none. By link it is the launcher's position. */
static uint64_t work_id(const mtp_trace *t, bool by_link, uint32_t span)
{
    if (!is_work(t, span))
        return 0;
    if (!by_link)
        return mtp__trace_detail(t, span)->external_id;
    return t->launcher[span] != MTP__NONE ? (uint64_t)t->launcher[span] + 1 : 0;
}

/* All linked device work, sorted by start; *out is owned. */
static mtp_status gather_work(const mtp_trace *t, bool by_link, begun **out, size_t *count)
{
    size_t n = 0;
    *out = NULL;
    for (uint32_t i = 0; i < t->span_count; i++)
        n += work_id(t, by_link, i) != 0;
    begun *list = mtp__calloc(n + 1, sizeof *list);
    if (list == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%zu pieces of device work", n);
    n = 0;
    for (uint32_t i = 0; i < t->span_count; i++)
        if (work_id(t, by_link, i) != 0)
            list[n++] = (begun){t->start[i], t->end[i], i};
    qsort(list, n, sizeof *list, by_start);
    *out = list;
    *count = n;
    return MTP_OK;
}

static mtp_status map_work(work_map *m, const mtp_trace *t, bool by_link, int64_t zero_ns)
{
    begun *list;
    size_t count = 0, slots = 16;
    mtp_status status = gather_work(t, by_link, &list, &count);
    if (status != MTP_OK)
        return status;
    while (slots < count * 2)
        slots *= 2;
    m->mask = slots - 1;
    m->slot = mtp__calloc(slots, sizeof *m->slot);
    if (m->slot == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "a map of %zu ids", count);
    for (size_t i = 0; i < count && m->slot != NULL; i++) {
        uint64_t id = work_id(t, by_link, list[i].span);
        work *w = map_at(m, id);
        w->id = id;
        double us = mtp__is_torchs(t)
                        ? mtp__microseconds(list[i].end, zero_ns) - mtp__microseconds(list[i].start, zero_ns)
                        : mtp__microseconds(list[i].end, list[i].start);
        mtp__add(&w->high, &w->low, us);
    }
    mtp__free(list);
    return status;
}

/* ------------------------------------------------------------------------------------------- ids of events */

/* The id by which torch joins an event with device work. */
static uint64_t id_of(const mtp_trace *t, const uint32_t *around, uint32_t span)
{
    for (;;) {
        const mtp__detail *d = mtp__trace_detail(t, span);
        if (mtp__is_call(t, span) || t->category[span] == MTP__CATEGORY_GPU_USER_ANNOTATION)
            return d->external_id;
        if (!mtp__is_collected(t, span) && !mtp__category_on_device((mtp__category)t->category[span]))
            return 0; /* Python's */
        if (d->correlation != 0 || around == NULL || around[span] == 0)
            return d->correlation;
        span = around[span] - 1; /* began before it */
    }
}

/* False for a foreign file: its links are then only as good as its correlations. */
static bool ops_have_ids(const mtp_trace *t)
{
    bool any = false;
    for (uint32_t i = 0; i < t->span_count; i++) {
        if (mtp__is_call(t, i) && mtp__trace_detail(t, i)->external_id != 0)
            return true;
        any |= mtp__is_call(t, i);
    }
    return !any;
}

/* ---------------------------------------------------------------------------------------------- launched */

/* Overhead has no id. */
static bool some_lack_ids(const mtp_trace *t)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        if (mtp__is_stray(t, i) && mtp__trace_detail(t, i)->correlation == 0)
            return true;
    return false;
}

/* The id that joins a CPU span with device work; 0: none. */
static uint64_t joined_by(const mtp_trace *t, bool by_link, const uint32_t *around, uint32_t span)
{
    if (by_link)
        return (uint64_t)span + 1;
    return mtp__is_call(t, span) || mtp__is_stray(t, span) ? id_of(t, around, span) : 0;
}

static bool joins_by_link(const mtp_trace *t, bool as_torch)
{
    return !(as_torch && mtp__is_torchs(t) && ops_have_ids(t));
}

static mtp_status fill_launched(mtp__launched *l, const mtp_trace *t, bool by_link, int64_t zero_ns)
{
    work_map map = {0};
    mtp__scratch around = {0};
    mtp_status status = map_work(&map, t, by_link, zero_ns);
    if (status == MTP_OK && !by_link && some_lack_ids(t))
        status = mtp__around(t, &around);
    double *us = l->us.p;
    for (uint32_t i = 0; i < t->span_count && status == MTP_OK; i++) {
        uint64_t id = joined_by(t, by_link, around.p, i);
        const work *w = id != 0 ? map_at(&map, id) : NULL;
        if (w != NULL && w->id == id)
            us[i] = mtp__added(w->high, w->low);
    }
    mtp__scratch_free(&around);
    mtp__free(map.slot);
    return status;
}

/* ------------------------------------------------------------------------------------------------ kernels */

struct mtp__kernel_slot {
    uint64_t id; /* 0: free */
    uint32_t first, count;
};

static struct mtp__kernel_slot *kernel_slot(const mtp__kernels *k, uint64_t id)
{
    size_t at = mtp__hash_mix(id, MTP__HASH_K1) & k->mask;
    while (k->slot[at].id != 0 && k->slot[at].id != id)
        at = (at + 1) & k->mask;
    return &k->slot[at];
}

static void list_work(mtp__kernels *k, const mtp_trace *t, begun *list, size_t count)
{
    uint32_t first = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t id = work_id(t, k->by_link, list[i].span);
        struct mtp__kernel_slot *s = kernel_slot(k, id);
        s->id = id;
        s->count++;
    }
    for (size_t i = 0; i <= k->mask; i++) {
        k->slot[i].first = first;
        first += k->slot[i].count;
        k->slot[i].count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct mtp__kernel_slot *s = kernel_slot(k, work_id(t, k->by_link, list[i].span));
        k->list[s->first + s->count++] = list[i].span;
    }
}

mtp_status mtp__kernels_init(mtp__kernels *k, const mtp_trace *t, bool as_torch)
{
    size_t count = 0, slots = 16;
    begun *list = NULL;
    memset(k, 0, sizeof *k);
    if (t->launcher == NULL)
        return MTP_OK;
    k->by_link = joins_by_link(t, as_torch);
    mtp_status status = gather_work(t, k->by_link, &list, &count);
    while (slots < count * 2)
        slots *= 2;
    k->mask = slots - 1;
    k->slot = mtp__calloc(slots, sizeof *k->slot);
    k->list = mtp__calloc(count + 1, sizeof *k->list);
    if (status == MTP_OK && (k->slot == NULL || k->list == NULL))
        status = MTP_FAIL(MTP_E_NOMEM, "%zu pieces of device work", count);
    if (status == MTP_OK && !k->by_link && some_lack_ids(t))
        status = mtp__around(t, &k->around);
    if (status == MTP_OK)
        list_work(k, t, list, count);
    else
        mtp__kernels_fini(k);
    mtp__free(list);
    return status;
}

void mtp__kernels_fini(mtp__kernels *k)
{
    mtp__free(k->slot);
    mtp__free(k->list);
    mtp__scratch_free(&k->around);
    memset(k, 0, sizeof *k);
}

uint32_t mtp__kernels_of(const mtp__kernels *k, const mtp_trace *t, uint32_t span, const uint32_t **first)
{
    *first = NULL;
    if (k->slot == NULL)
        return 0;
    uint64_t id = joined_by(t, k->by_link, k->around.p, span);
    const struct mtp__kernel_slot *s = id != 0 ? kernel_slot(k, id) : NULL;
    if (s == NULL || s->id != id)
        return 0;
    *first = k->list + s->first;
    return s->count;
}

/* ------------------------------------------------------------------------------------------------ threads */

static bool before(const mtp_trace *t, uint32_t a, uint32_t b)
{
    return t->start[a] != t->start[b] ? t->start[a] < t->start[b] : t->end[a] > t->end[b];
}

static int by_time(const void *a, const void *b)
{
    const begun *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return x->span < y->span ? -1 : x->span > y->span;
}

/* Merges the main thread's spans with those moved there. */
static uint32_t merge(const mtp_trace *t, const mtp__track *track, const begun *moved, size_t count,
                      uint32_t *to)
{
    uint32_t n = 0;
    size_t m = 0;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        while (m < count && before(t, moved[m].span, i))
            to[n++] = moved[m++].span;
        to[n++] = i;
    }
    while (m < count)
        to[n++] = moved[m++].span;
    return n;
}

/* As torch sees them: strays of other threads are moved to the main one. */
static mtp_status move_strays(mtp__launched *l, const mtp_trace *t, uint32_t main)
{
    size_t count = 0;
    for (uint32_t k = 0; k < t->track_count; k++)
        for (uint32_t i = t->tracks[k].first; k != main && i < t->tracks[k].first + t->tracks[k].count; i++)
            count += mtp__is_stray(t, i);
    if (count == 0 || main == MTP__NONE)
        return MTP_OK;
    begun *moved = mtp__calloc(count, sizeof *moved);
    if (moved == NULL || !mtp__scratch_make(&l->order, t->span_count, sizeof(uint32_t))) {
        mtp__free(moved);
        return MTP_FAIL(MTP_E_NOMEM, "the order of %u spans", t->span_count);
    }
    count = 0;
    for (uint32_t k = 0; k < t->track_count; k++)
        for (uint32_t i = t->tracks[k].first; k != main && i < t->tracks[k].first + t->tracks[k].count; i++)
            if (mtp__is_stray(t, i))
                moved[count++] = (begun){t->start[i], t->end[i], i};
    qsort(moved, count, sizeof *moved, by_time);
    uint32_t *order = l->order.p, at = 0;
    for (uint32_t k = 0, n = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        if (track->on_device || track->count == 0)
            continue;
        uint32_t first = at;
        if (k == main)
            at += merge(t, track, moved, count, order + at);
        else
            for (uint32_t i = track->first; i < track->first + track->count; i++)
                if (!mtp__is_stray(t, i))
                    order[at++] = i;
        l->thread[n++] = (struct mtp__torch_thread){first, at - first};
    }
    mtp__free(moved);
    return MTP_OK;
}

mtp_status mtp__launched_init(mtp__launched *l, const mtp_trace *t, bool as_torch, int64_t zero_ns)
{
    memset(l, 0, sizeof *l);
    l->thread = mtp__calloc((size_t)t->track_count + 1, sizeof *l->thread);
    if (l->thread == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u threads", t->track_count);
    for (uint32_t k = 0; k < t->track_count; k++)
        if (!t->tracks[k].on_device && t->tracks[k].count > 0)
            l->thread[l->threads++] = (struct mtp__torch_thread){t->tracks[k].first, t->tracks[k].count};
    mtp_status status = mtp__is_torchs(t) ? move_strays(l, t, mtp__main_track(t)) : MTP_OK;
    if (status == MTP_OK && t->launcher != NULL) {
        if (!mtp__scratch_make(&l->us, t->span_count, sizeof(double)))
            status = MTP_FAIL(MTP_E_NOMEM, "device times of %u spans", t->span_count);
        else
            status = fill_launched(l, t, joins_by_link(t, as_torch), zero_ns);
    }
    if (status != MTP_OK)
        mtp__launched_fini(l);
    return status;
}

void mtp__launched_fini(mtp__launched *l)
{
    mtp__scratch_free(&l->us);
    mtp__scratch_free(&l->order);
    mtp__free(l->thread);
    l->thread = NULL;
}
