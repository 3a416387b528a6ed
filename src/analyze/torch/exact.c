/* analyze/torch/exact.c - torch's own sums, to the last bit.
 *
 * torch adds doubles, event by event in order of (start, -end) over all threads, so the three digits it shows
 * depend on that order: an average over an even number of calls often lies exactly between two of them. For a
 * trace that torch wrote, the same additions are made here in the same order, and a table is identical to the
 * character. Our own traces are summed in integer nanoseconds instead.
 */
#include <string.h>
#include "analyze/torch/rules.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/os.h"

static bool comes_first(const void *x, const void *y, const void *user)
{
    (void)user;
    const mtp__head *a = x, *b = y;
    if (a->start != b->start)
        return a->start < b->start;
    if (a->stop != b->stop)
        return a->stop > b->stop;
    return a->last != b->last ? b->last : a->at < b->at;
}

/* What a head takes from its track: everything, or spans trimmed alike, and so in order. */
enum {
    ALL,
    WORK,
    TRIMMED,
    SHORT, /* annotations too short to be trimmed */
};

static uint8_t kind_of(const mtp_trace *t, uint32_t span)
{
    return t->category[span] != MTP__CATEGORY_GPU_USER_ANNOTATION ? WORK
           : mtp__trim(t, span)                                   ? TRIMMED
                                                                  : SHORT;
}

/* Moves to the span at `at`, or the next that is an event; false: end of the track. */
static bool look(mtp__head *h, const mtp__walk *w)
{
    const mtp_trace *t = w->g->t;
    const uint32_t *row = w->row.p;
    while (h->at < h->end && (row[h->at] == 0 || (h->only != ALL && kind_of(t, h->at) != h->only)))
        h->at++;
    if (h->at == h->end)
        return false;
    int64_t trim = mtp__trim(t, h->at);
    h->start = mtp__plus(t->start[h->at], trim);
    h->stop = mtp__minus(t->end[h->at], trim);
    h->last = t->category[h->at] == MTP__CATEGORY_GPU_USER_ANNOTATION;
    return true;
}

static bool has_annotations(const mtp_trace *t, const mtp__track *track)
{
    return track->count > 0 &&
           memchr(t->category + track->first, MTP__CATEGORY_GPU_USER_ANNOTATION, track->count) != NULL;
}

mtp_status mtp__in_order_init(mtp__in_order *o, const mtp__walk *w)
{
    const mtp_trace *t = w->g->t;
    *o = (mtp__in_order){.w = w, .heap = mtp__calloc((size_t)t->track_count * SHORT + 1, sizeof *o->heap)};
    if (o->heap == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u tracks", t->track_count);
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        bool apart = mtp__is_torchs(t) && has_annotations(t, track);
        for (int only = apart ? WORK : ALL; only <= (apart ? SHORT : ALL); only++) {
            o->heap[o->count] =
                (mtp__head){.at = track->first, .end = track->first + track->count, .only = (uint8_t)only};
            o->count += look(&o->heap[o->count], w);
        }
    }
    mtp__heap_order(o->heap, sizeof *o->heap, o->count, comes_first, NULL);
    return MTP_OK;
}

void mtp__in_order_next(mtp__in_order *o)
{
    o->heap[0].at++;
    if (!look(&o->heap[0], o->w))
        o->heap[0] = o->heap[--o->count];
    mtp__heap_down(o->heap, sizeof *o->heap, o->count, 0, comes_first, NULL);
}

void mtp__in_order_fini(mtp__in_order *o)
{
    mtp__free(o->heap);
    o->heap = NULL;
}

static void add(mtp__walk *w, const mtp__head *h)
{
    mtp__sum *s = &w->g->sum[((const uint32_t *)w->row.p)[h->at] - 1];
    double us = mtp__microseconds(h->stop, w->zero_ns) - mtp__microseconds(h->start, w->zero_ns);
    if (s->class >= MTP__CLASS_DEVICE) {
        s->device_us += us;
        s->self_device_us += us;
        return;
    }
    s->total_us += us;
    s->self_us += ((const double *)w->self_us.p)[h->at];
    if (w->device_us.p != NULL) {
        s->device_us += ((const double *)w->device_us.p)[2 * (size_t)h->at];
        s->self_device_us += ((const double *)w->device_us.p)[2 * (size_t)h->at + 1];
    }
}

mtp_status mtp__exact_sums(mtp__walk *w)
{
    mtp__in_order o;
    mtp_status status = mtp__in_order_init(&o, w);
    for (; status == MTP_OK && o.count > 0; mtp__in_order_next(&o))
        add(w, &o.heap[0]);
    mtp__in_order_fini(&o);
    return status;
}
