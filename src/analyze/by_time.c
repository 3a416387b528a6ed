#include "analyze/by_time.h"
#include "base/error.h"
#include "base/os.h"

static bool before(const mtp__time_cursor *a, const mtp__time_cursor *b)
{
    return a->start != b->start ? a->start < b->start : a->track < b->track;
}

static void sift(mtp__by_time *b, uint32_t i)
{
    for (;;) {
        uint32_t least = i, left = i * 2 + 1;
        for (uint32_t k = left; k < b->count && k <= left + 1; k++)
            if (before(&b->heap[k], &b->heap[least]))
                least = k;
        if (least == i)
            return;
        mtp__time_cursor moved = b->heap[i];
        b->heap[i] = b->heap[least];
        b->heap[least] = moved;
        i = least;
    }
}

mtp_status mtp__by_time_init(mtp__by_time *b, const mtp_trace *t, const uint8_t *wanted)
{
    *b = (mtp__by_time){.t = t, .heap = mtp__calloc((size_t)t->track_count + 1, sizeof *b->heap)};
    if (b->heap == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "cursors of %u tracks", t->track_count);
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        if (track->count > 0 && (wanted == NULL || wanted[k] != 0))
            b->heap[b->count++] =
                (mtp__time_cursor){t->start[track->first], k, track->first, track->first + track->count};
    }
    for (uint32_t i = b->count / 2; i-- > 0;)
        sift(b, i);
    return MTP_OK;
}

void mtp__by_time_fini(mtp__by_time *b)
{
    mtp__free(b->heap);
    b->heap = NULL;
}

uint32_t mtp__by_time_next(mtp__by_time *b, uint32_t *track)
{
    if (b->count == 0)
        return MTP__NONE;
    mtp__time_cursor *c = b->heap;
    uint32_t span = c->at++;
    *track = c->track;
    if (c->at < c->end)
        c->start = b->t->start[c->at];
    else
        *c = b->heap[--b->count];
    sift(b, 0);
    return span;
}
