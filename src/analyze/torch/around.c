/* analyze/torch/around.c - which event was open on the thread that stopped the profiler when another event
 * began.
 *
 * Before the tree in which times are nested, torch builds another one, from which it takes the ids and stacks
 * of what Kineto collected outside any op: runtime calls, overhead, and also the device's annotations and
 * orphans, which it puts on that thread like calls. There an event's parent is whatever is open when it
 * begins; when an event ends, everything that began inside it is closed too, whatever its end. Events linked
 * to an op are not in this tree.
 */
#include <stdlib.h>
#include <string.h>
#include "analyze/torch/rules.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"

bool mtp__is_collected(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CUDA_RUNTIME ||
           t->category[span] == MTP__CATEGORY_CUDA_DRIVER || t->category[span] == MTP__CATEGORY_OVERHEAD;
}

bool mtp__is_stray(const mtp_trace *t, uint32_t span)
{
    return mtp__is_collected(t, span) && mtp__trace_detail(t, span)->external_id == 0;
}

uint32_t mtp__main_track(const mtp_trace *t)
{
    uint32_t best = MTP__NONE;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        if (track->on_device || track->count == 0 || track->pid_text != 0)
            continue;
        if (track->pid == track->tid)
            return k;
        if (track->pid >= 0 && (best == MTP__NONE || track->count > t->tracks[best].count))
            best = k;
    }
    return best;
}

/* Put on the main thread, wherever it is in the file. */
static bool is_guest(const mtp_trace *t, uint32_t main, uint32_t span)
{
    const mtp__track *track = &t->tracks[main];
    if (t->category[span] == MTP__CATEGORY_GPU_USER_ANNOTATION)
        return true;
    if (mtp__category_on_device((mtp__category)t->category[span]))
        return mtp__trace_detail(t, span)->external_id == 0 &&
               (t->launcher == NULL || t->launcher[span] == MTP__NONE);
    return mtp__is_stray(t, span) && (span < track->first || span >= track->first + track->count);
}

typedef struct guest {
    int64_t start;
    uint32_t span;
} guest;

static int by_start(const void *a, const void *b)
{
    const guest *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->span < y->span ? -1 : x->span > y->span;
}

typedef struct open_event {
    int64_t over; /* the earliest end of it and all below */
    uint32_t span;
} open_event;

typedef struct opened {
    open_event *at; /* owned */
    size_t depth, room;
} opened;

/* Makes the innermost open span the parent of `span`, then opens it. */
static bool open_span(opened *o, const mtp_trace *t, uint32_t *around, uint32_t span)
{
    int64_t trim = mtp__trim(t, span), start = mtp__plus(t->start[span], trim),
            end = mtp__minus(t->end[span], trim);
    while (o->depth > 0 && o->at[o->depth - 1].over < start)
        o->depth--;
    around[span] = o->depth > 0 ? o->at[o->depth - 1].span + 1 : 0;
    if (end == start)
        return true;
    if (!MTP__GROW(o->at, o->room, o->depth, o->depth + 1, 64))
        return false;
    int64_t below = o->depth > 0 ? o->at[o->depth - 1].over : INT64_MAX;
    o->at[o->depth++] = (open_event){end < below ? end : below, span};
    return true;
}

static bool walk(const mtp_trace *t, uint32_t main, const guest *guests, size_t count, uint32_t *around)
{
    const mtp__track *track = &t->tracks[main];
    opened o = {0};
    bool ok = true;
    size_t g = 0;
    for (uint32_t i = track->first; i < track->first + track->count && ok; i++) {
        if (mtp__is_collected(t, i) && !mtp__is_stray(t, i))
            continue;
        while (g < count && guests[g].start < t->start[i] && ok)
            ok = open_span(&o, t, around, guests[g++].span);
        ok = ok && open_span(&o, t, around, i);
    }
    while (g < count && ok)
        ok = open_span(&o, t, around, guests[g++].span);
    mtp__free(o.at);
    return ok;
}

mtp_status mtp__around(const mtp_trace *t, mtp__scratch *out)
{
    uint32_t main = mtp__main_track(t);
    size_t count = 0;
    if (!mtp__scratch_make(out, t->span_count, sizeof(uint32_t)))
        return MTP_FAIL(MTP_E_NOMEM, "the parents of %u spans", t->span_count);
    if (main == MTP__NONE)
        return MTP_OK;
    for (uint32_t i = 0; i < t->span_count; i++)
        count += is_guest(t, main, i);
    guest *guests = mtp__calloc(count + 1, sizeof *guests);
    bool ok = guests != NULL;
    for (uint32_t i = 0, n = 0; i < t->span_count && ok; i++)
        if (is_guest(t, main, i))
            guests[n++] = (guest){mtp__plus(t->start[i], mtp__trim(t, i)), i};
    if (ok) {
        qsort(guests, count, sizeof *guests, by_start);
        ok = walk(t, main, guests, count, out->p);
    }
    mtp__free(guests);
    if (ok)
        return MTP_OK;
    mtp__scratch_free(out);
    return MTP_FAIL(MTP_E_NOMEM, "the parents of %u spans", t->span_count);
}
