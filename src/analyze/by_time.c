#include "analyze/by_time.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/os.h"

static bool before(const void *x, const void *y, const void *user)
{
    (void)user;
    const mtp__time_cursor *a = x, *b = y;
    return a->start != b->start ? a->start < b->start : a->track < b->track;
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
    mtp__heap_order(b->heap, sizeof *b->heap, b->count, before, NULL);
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
    mtp__heap_down(b->heap, sizeof *b->heap, b->count, 0, before, NULL);
    return span;
}
