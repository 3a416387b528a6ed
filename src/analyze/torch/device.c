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
#include "base/os.h"

/* --------------------------------------------------------------------------------- device work by op id */

typedef struct work {
    double high, low; /* its time in us, compensated like Python's sum() */
} work;

typedef struct works {
    mtp__scratch by_span; /* work; by link, where ids are positions */
    mtp__hash_map by_id;  /* else */
} works;

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

static mtp_status map_work(works *m, const mtp_trace *t, bool by_link, int64_t zero_ns)
{
    begun *list;
    size_t count = 0;
    bool is_new;
    mtp_status status = gather_work(t, by_link, &list, &count);
    if (status == MTP_OK && by_link && !mtp__scratch_make(&m->by_span, t->span_count, sizeof(work)))
        status = MTP_FAIL(MTP_E_NOMEM, "the device work of %u spans", t->span_count);
    for (size_t i = 0; i < count && status == MTP_OK; i++) {
        uint64_t id = work_id(t, by_link, list[i].span);
        work *w = by_link ? (work *)m->by_span.p + (id - 1)
                          : mtp__hash_map_put(&m->by_id, &id, sizeof id, sizeof *w, &is_new);
        if (w == NULL) {
            status = MTP_FAIL(MTP_E_NOMEM, "a map of %zu ids", count);
            break;
        }
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
        if (mtp__has_external_id(t, span) || t->category[span] == MTP__CATEGORY_GPU_USER_ANNOTATION)
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
        if (mtp__has_external_id(t, i) && mtp__trace_detail(t, i)->external_id != 0)
            return true;
        any |= mtp__has_external_id(t, i);
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
    return mtp__has_external_id(t, span) || mtp__is_stray(t, span) ? id_of(t, around, span) : 0;
}

static bool joins_by_link(const mtp_trace *t, bool as_torch)
{
    return !(as_torch && mtp__is_torchs(t) && ops_have_ids(t));
}

static mtp_status fill_launched(mtp__launched *l, const mtp_trace *t, bool by_link, int64_t zero_ns)
{
    works map = {0};
    mtp__scratch around = {0};
    mtp_status status = map_work(&map, t, by_link, zero_ns);
    if (status == MTP_OK && !by_link && some_lack_ids(t))
        status = mtp__around(t, &around);
    double *us = l->us.p;
    for (uint32_t i = 0; i < t->span_count && status == MTP_OK; i++) {
        uint64_t id = joined_by(t, by_link, around.p, i);
        const work *w = by_link   ? (const work *)map.by_span.p + i
                        : id != 0 ? mtp__hash_map_find(&map.by_id, &id, sizeof id, sizeof *w)
                                  : NULL;
        if (w != NULL)
            us[i] = mtp__added(w->high, w->low);
    }
    mtp__scratch_free(&around);
    mtp__scratch_free(&map.by_span);
    mtp__hash_map_fini(&map.by_id);
    return status;
}

/* ------------------------------------------------------------------------------------------------ kernels */

typedef struct part { /* of the list */
    uint32_t first, count, listed;
} part;

static part *part_of(const mtp__kernels *k, uint64_t id) /* NULL: none */
{
    return k->by_link ? (part *)k->by_span.p + (id - 1)
                      : mtp__hash_map_find(&k->by_id, &id, sizeof id, sizeof(part));
}

static bool list_work(mtp__kernels *k, const mtp_trace *t, const begun *list, size_t count)
{
    uint32_t next = 0;
    bool is_new;
    if (k->by_link && !mtp__scratch_make(&k->by_span, t->span_count, sizeof(part)))
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t id = work_id(t, k->by_link, list[i].span);
        part *p =
            k->by_link ? part_of(k, id) : mtp__hash_map_put(&k->by_id, &id, sizeof id, sizeof *p, &is_new);
        if (p == NULL)
            return false;
        p->count++;
    }
    for (size_t i = 0; i < count; i++) {
        part *p = part_of(k, work_id(t, k->by_link, list[i].span));
        if (p->listed == 0) {
            p->first = next;
            next += p->count;
        }
        k->list[p->first + p->listed++] = list[i].span;
    }
    return true;
}

mtp_status mtp__kernels_init(mtp__kernels *k, const mtp_trace *t, bool as_torch)
{
    size_t count = 0;
    begun *list = NULL;
    memset(k, 0, sizeof *k);
    if (t->launcher == NULL)
        return MTP_OK;
    k->by_link = joins_by_link(t, as_torch);
    mtp_status status = gather_work(t, k->by_link, &list, &count);
    k->list = mtp__calloc(count + 1, sizeof *k->list);
    if (status == MTP_OK && (k->list == NULL || !list_work(k, t, list, count)))
        status = MTP_FAIL(MTP_E_NOMEM, "%zu pieces of device work", count);
    if (status == MTP_OK && !k->by_link && some_lack_ids(t))
        status = mtp__around(t, &k->around);
    if (status != MTP_OK)
        mtp__kernels_fini(k);
    mtp__free(list);
    return status;
}

void mtp__kernels_fini(mtp__kernels *k)
{
    mtp__scratch_free(&k->by_span);
    mtp__hash_map_fini(&k->by_id);
    mtp__free(k->list);
    mtp__scratch_free(&k->around);
    memset(k, 0, sizeof *k);
}

uint32_t mtp__kernels_of(const mtp__kernels *k, const mtp_trace *t, uint32_t span, const uint32_t **first)
{
    *first = NULL;
    if (k->list == NULL)
        return 0;
    uint64_t id = joined_by(t, k->by_link, k->around.p, span);
    const part *p = id != 0 ? part_of(k, id) : NULL;
    if (p == NULL || p->count == 0)
        return 0;
    *first = k->list + p->first;
    return p->count;
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
