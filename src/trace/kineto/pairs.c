/* trace/kineto/pairs.c - turns begin and end events into spans.
 *
 * They are kept until the whole file is read, since Chrome allows any order; then they are sorted by time if necessary
 * and matched on a stack per track (linked through `under`). Not per row: the track of a row becomes a device's if a
 * later event says so. An end without a name ends the innermost begin; one with a name ends the innermost of that name,
 * and everything inside that ends with it, unfinished.
 */
#include <stdlib.h>
#include <string.h>
#include "base/os.h"
#include "trace/kineto/reader.h"

#define LOOK_DOWN 64 /* levels below the innermost that an end with another name searches */

void mtp__kineto_pair_add(mtp__kineto *k, uint32_t row, bool is_end, uint64_t taken)
{
    const mtp__kineto_event *e = &k->event;
    mtp__kineto_pair pair = {.ts = e->ts,
                             .track = k->rows[row].track,
                             .name = mtp__kineto_string(k, &e->name),
                             .under = MTP__NONE,
                             .order = (uint32_t)k->pair_count,
                             .is_end = is_end};
    mtp__kineto_row *r = &k->rows[row];
    k->pairs_disordered |= e->ts < r->last_pair_ns;
    r->last_pair_ns = e->ts;
    r->last_ns = e->ts > r->last_ns ? e->ts : r->last_ns;
    if (is_end) {
        pair.args = mtp__kineto_rest(k, 0);
    } else {
        mtp__category category = mtp__kineto_category(k);
        int64_t step = 0;
        pair.category = (uint8_t)category;
        pair.flags = mtp__kineto_flags(k, category, &step);
        pair.detail =
            mtp__kineto_detail(k, category, step <= UINT32_MAX ? (uint32_t)step : 0, taken, &pair.flags);
    }
    if (MTP__KINETO_ROOM(k, k->pairs, k->pair_room, k->pair_count))
        k->pairs[k->pair_count++] = pair;
}

static int by_time(const void *a, const void *b)
{
    const mtp__kineto_pair *x = a, *y = b;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

typedef struct open_track {
    uint32_t open;   /* 1 + the innermost begin without an end; 0: none */
    int64_t last_ns; /* its last event */
} open_track;

/* The begin that an end belongs to; MTP__NONE if none. */
static uint32_t begin_of(const mtp__kineto *k, uint32_t innermost, const mtp__kineto_pair *end)
{
    if (end->name == 0)
        return innermost;
    uint32_t at = innermost;
    for (int level = 0; at != MTP__NONE && level < LOOK_DOWN; level++, at = k->pairs[at].under)
        if (k->pairs[at].name == end->name)
            return at;
    return MTP__NONE;
}

static void match(mtp__kineto *k, open_track *tracks, uint32_t at)
{
    mtp__kineto_pair *pair = &k->pairs[at];
    open_track *track = &tracks[pair->track];
    uint32_t innermost = track->open - 1; /* MTP__NONE: none */
    if (!pair->is_end) {
        pair->under = innermost;
        track->open = at + 1;
        return;
    }
    uint32_t begin = begin_of(k, innermost, pair);
    if (begin == MTP__NONE) {
        k->trace->unmatched_ends++;
        return;
    }
    for (uint32_t i = innermost;; i = k->pairs[i].under) {
        mtp__kineto_pair *b = &k->pairs[i];
        b->end = pair->ts;
        b->ended = true;
        track->open = b->under + 1;
        if (i == begin) {
            b->args = pair->args;
            return;
        }
        b->flags |= MTP__SPAN_UNFINISHED;
        k->trace->unfinished++;
    }
}

/* Appends the end's args to the begin's. */
static uint32_t with_args(mtp__kineto *k, uint32_t detail, uint32_t args)
{
    if (args == 0)
        return detail;
    mtp__detail d = k->trace->details[detail];
    mtp_text first = mtp__trace_get_text(k->trace, d.args), second = mtp__trace_get_text(k->trace, args);
    mtp__buffer *b = &k->rest;
    b->length = 0;
    mtp__buffer_add(b, first.bytes, first.length);
    mtp__buffer_add(b, ", ", first.length != 0 ? 2 : 0);
    mtp__buffer_add(b, second.bytes, second.length);
    k->no_memory |= b->failed;
    d.args = b->failed ? 0 : mtp__kineto_text(k, b->bytes, b->length);
    return mtp__trace_add_detail(k->trace, &d);
}

static open_track *make_tracks(mtp__kineto *k)
{
    uint32_t count = k->trace->track_count;
    open_track *tracks = mtp__calloc((size_t)count + 1, sizeof *tracks);
    k->no_memory |= tracks == NULL;
    for (uint32_t i = 0; tracks != NULL && i < count; i++)
        tracks[i].last_ns = INT64_MIN;
    for (size_t i = 0; tracks != NULL && i < k->row_count; i++) {
        const mtp__kineto_row *r = &k->rows[i];
        if (r->track != MTP__NONE && r->last_ns > tracks[r->track].last_ns)
            tracks[r->track].last_ns = r->last_ns;
    }
    return tracks;
}

static void add_span(mtp__kineto *k, const open_track *tracks, mtp__kineto_pair *p)
{
    if (!p->ended) {
        int64_t last = tracks[p->track].last_ns;
        p->end = last > p->ts ? last : p->ts;
        p->flags |= MTP__SPAN_UNFINISHED;
        k->trace->unfinished++;
    }
    if (p->flags & MTP__SPAN_STEP) {
        mtp__step step = {p->ts, p->end, k->trace->details[p->detail].number};
        mtp__trace_add_step(k->trace, &step);
    }
    mtp__trace_add_span(k->trace, p->track, p->ts, p->end, p->name, (mtp__category)p->category, p->flags,
                        with_args(k, p->detail, p->args));
}

void mtp__kineto_pairs_finish(mtp__kineto *k)
{
    open_track *tracks = k->pair_count > 0 ? make_tracks(k) : NULL;
    if (k->pairs_disordered)
        qsort(k->pairs, k->pair_count, sizeof *k->pairs, by_time);
    for (size_t i = 0; tracks != NULL && i < k->pair_count; i++)
        match(k, tracks, (uint32_t)i);
    for (size_t i = 0; i < k->pair_count && !k->no_memory; i++)
        if (!k->pairs[i].is_end)
            add_span(k, tracks, &k->pairs[i]);
    mtp__free(tracks);
    for (size_t i = 0; i < k->unfinished_count; i++)
        mtp__trace_end_span(k->trace, k->unfinished[i].span, k->rows[k->unfinished[i].row].last_ns,
                            MTP__SPAN_UNFINISHED);
    k->trace->unfinished += k->unfinished_count;
}
