/* present/chrome/links.c - flows: from launches to device work (ac2g), from ops to their backward (fwdbwd).
 *
 * Each is attached to a span, and written right after it with the span's ts and row, where every viewer looks
 * for it. A trace read from JSON has its own flows, which are attached again; for a recording they are made
 * here.
 */
#include <stdlib.h>
#include "base/bisect.h"
#include "base/error.h"
#include "base/grow.h"
#include "present/chrome/chrome.h"
#include "trace/facts.h"

static bool add(mtp__chrome *w, mtp__link link)
{
    if (!MTP__GROW(w->links, w->link_room, w->link_count, w->link_count + 1, 256))
        return false;
    link.order = w->link_count;
    w->links[w->link_count++] = link;
    return true;
}

static int by_span(const void *a, const void *b)
{
    const mtp__link *x = a, *y = b;
    if (x->span != y->span)
        return x->span < y->span ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

uint32_t mtp__chrome_first_link(const mtp__chrome *w, uint32_t span)
{
    uint32_t low = 0, high = w->link_count;
    MTP__BISECT(low, high, mid, w->links[mid].span < span)
    return low;
}

/* ------------------------------------------------------------------------------- of a JSON file's flows */

/* Starts first: a flow has one. Ends without a start in the file, as PyTorch writes them, are kept: viewers
 * just draw no arrow for them. */
static mtp_status tie_flows(mtp__chrome *w)
{
    const mtp_trace *t = w->t;
    mtp__pair_map started = {0};
    mtp_status status = MTP_OK;
    for (int pass = 0; pass < 2 && status == MTP_OK; pass++) {
        for (uint32_t i = 0; i < t->flow_count && status == MTP_OK; i++) {
            const mtp__flow *f = &t->flows[i];
            bool is_new = true;
            if ((f->phase == 's') != (pass == 0))
                continue;
            uint32_t span = f->track < t->track_count ? mtp__trace_span_at(t, f->track, f->ts) : MTP__NONE;
            bool again = pass == 0 && mtp__pair_find(&started, f->name, f->id) != NULL;
            if (span == MTP__NONE || again) {
                w->flows_dropped++;
                continue;
            }
            if ((pass == 0 && mtp__pair_put(&started, f->name, f->id, 0, &is_new) == NULL) ||
                !add(w, (mtp__link){.span = span, .id = f->id, .name = f->name, .phase = f->phase}))
                status = MTP_FAIL(MTP_E_NOMEM, "%u flows", t->flow_count);
        }
    }
    mtp__pair_map_fini(&started);
    return status;
}

/* --------------------------------------------------------------------------------------- of a recording */

typedef bool span_visit(mtp__chrome *w, void *user, const mtp__track *track, uint32_t span,
                        const mtp__detail *d);

/* Visits spans with a detail, on devices or on hosts. */
static bool visit(mtp__chrome *w, bool on_device, span_visit *fn, void *user)
{
    const mtp_trace *t = w->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        if (track->on_device != on_device)
            continue;
        for (uint32_t i = track->first; i < track->first + track->count; i++)
            if (t->detail[i] != 0 && !fn(w, user, track, i, &t->details[t->detail[i]]))
                return false;
    }
    return true;
}

#define TOLD ((uint64_t)1 << 32) /* its start has been added to the links */

static bool is_runtime(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CUDA_RUNTIME || t->category[span] == MTP__CATEGORY_CUDA_DRIVER;
}

/* Ends are recorded first, and starts only looked up: most ops launch nothing and have no backward. */
static bool note_work(mtp__chrome *w, void *user, const mtp__track *track, uint32_t span,
                      const mtp__detail *d)
{
    (void)w, (void)track, (void)span;
    bool is_new;
    return d->correlation == 0 || mtp__pair_put(user, d->correlation, 0, MTP__NONE, &is_new) != NULL;
}

/* The launcher: a runtime call rather than the op around it, else the first. */
static bool note_launch(mtp__chrome *w, void *user, const mtp__track *track, uint32_t span,
                        const mtp__detail *d)
{
    (void)track;
    uint64_t *launch = d->correlation != 0 ? mtp__pair_find(user, d->correlation, 0) : NULL;
    if (launch != NULL &&
        (*launch == MTP__NONE || (is_runtime(w->t, span) && !is_runtime(w->t, (uint32_t)*launch))))
        *launch = span;
    return true;
}

static bool link_work(mtp__chrome *w, void *user, const mtp__track *track, uint32_t span,
                      const mtp__detail *d)
{
    (void)track;
    uint64_t *launch = d->correlation != 0 ? mtp__pair_find(user, d->correlation, 0) : NULL;
    if (launch == NULL || *launch == MTP__NONE)
        return true;
    mtp__link link = {.span = (uint32_t)*launch, .id = d->correlation, .kind = MTP__LINK_AC2G, .phase = 's'};
    if ((*launch & TOLD) == 0 && !add(w, link))
        return false;
    *launch |= TOLD;
    link.span = span;
    link.phase = 'f';
    return add(w, link);
}

/* Threads of different recordings in one trace may have the same number. */
static uint64_t thread_of(const mtp__track *track, uint64_t number)
{
    return number ^ (uint64_t)track->part << 32;
}

/* Like torch: of the ops with the same sequence number, the one that starts last made the node; the node's
 * own span is inside the engine's, and its first run counts. Value: forward | backward << 32. */
static bool note_backward(mtp__chrome *w, void *user, const mtp__track *track, uint32_t span,
                          const mtp__detail *d)
{
    const mtp_trace *t = w->t;
    bool is_new;
    if (d->sequence < 0 || !mtp__is_of_backward(t, span))
        return true;
    uint64_t thread = thread_of(track, d->forward_thread != 0 ? d->forward_thread : (uint64_t)track->tid);
    uint64_t *pair =
        mtp__pair_put(user, thread, (uint64_t)d->sequence, (uint64_t)span << 32 | MTP__NONE, &is_new);
    if (pair == NULL)
        return false;
    uint32_t had = (uint32_t)(*pair >> 32);
    if (t->start[span] < t->start[had] || (t->start[span] < t->end[had] && t->end[span] <= t->end[had]))
        *pair = (uint64_t)span << 32 | MTP__NONE;
    return true;
}

static bool note_forward(mtp__chrome *w, void *user, const mtp__track *track, uint32_t span,
                         const mtp__detail *d)
{
    const mtp_trace *t = w->t;
    if (d->sequence < 0 || mtp__is_of_backward(t, span))
        return true;
    uint64_t *pair = mtp__pair_find(user, thread_of(track, (uint64_t)track->tid), (uint64_t)d->sequence);
    if (pair == NULL || t->start[span] > t->start[*pair >> 32])
        return true;
    uint32_t forward = (uint32_t)*pair;
    if (forward == MTP__NONE || t->start[span] >= t->start[forward])
        *pair = *pair >> 32 << 32 | span;
    return true;
}

static bool link_backward(mtp__chrome *w, void *user, const mtp__track *track, uint32_t span,
                          const mtp__detail *d)
{
    if (d->sequence < 0 || !mtp__is_of_backward(w->t, span))
        return true;
    uint64_t thread = thread_of(track, d->forward_thread != 0 ? d->forward_thread : (uint64_t)track->tid);
    uint64_t *pair = mtp__pair_find(user, thread, (uint64_t)d->sequence);
    if (pair == NULL || *pair >> 32 != span || (uint32_t)*pair == MTP__NONE)
        return true;
    mtp__link link = {.span = (uint32_t)*pair, .id = ++w->fwdbwd, .kind = MTP__LINK_FWDBWD, .phase = 's'};
    if (!add(w, link))
        return false;
    link.span = span;
    link.phase = 'f';
    return add(w, link);
}

static mtp_status make_links(mtp__chrome *w)
{
    if (w->t->detail == NULL)
        return MTP_OK;
    mtp__pair_map launches = {0}, sequences = {0};
    bool well = visit(w, true, note_work, &launches);
    if (well && launches.count > 0)
        well = visit(w, false, note_launch, &launches) && visit(w, true, link_work, &launches);
    if (!w->options.without_forward_backward)
        well = well && visit(w, false, note_backward, &sequences);
    if (well && sequences.count > 0)
        well = visit(w, false, note_forward, &sequences) && visit(w, false, link_backward, &sequences);
    mtp__pair_map_fini(&launches);
    mtp__pair_map_fini(&sequences);
    return well ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "flows of %u spans", w->t->span_count);
}

mtp_status mtp__chrome_links(mtp__chrome *w)
{
    mtp_status status = !mtp__is_recording(w->t) || w->t->flow_count > 0 ? tie_flows(w) : make_links(w);
    if (status == MTP_OK && w->link_count > 1)
        qsort(w->links, w->link_count, sizeof *w->links, by_span);
    return status;
}
