/* analyze/averages_exact.c - the sums that torch itself gets, to the last bit.
 *
 * torch adds doubles, event by event in the order of (start, -end) over all threads, so what it shows with three digits
 * depends on that order: an average over an even number of calls often lies just between two of them. For a trace that
 * torch wrote, the same additions are done here in the same order, and a table is the same to the character. Our own
 * traces are summed in whole nanoseconds instead.
 */
#include <string.h>
#include "analyze/averages_pass.h"
#include "base/error.h"
#include "base/os.h"

/* One track's next span. */
typedef struct head {
    uint32_t at, end;
    int64_t start, stop; /* of the span at `at`, as measured */
    bool last;           /* annotations come after the work they begin and end with */
} head;

static bool comes_first(const head *a, const head *b)
{
    if (a->start != b->start)
        return a->start < b->start;
    if (a->stop != b->stop)
        return a->stop > b->stop;
    return a->last != b->last ? b->last : a->at < b->at;
}

static void sink(head *heap, size_t count, size_t at)
{
    head moving = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_first(&heap[child + 1], &heap[child]))
            child++;
        if (!comes_first(&heap[child], &moving))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

/* Set up for the span at `at`, or the next that is an event; false: the track is done. */
static bool look(head *h, const mtp__walk *w)
{
    const mtp_trace *t = w->g->t;
    const uint32_t *row = w->row.p;
    while (h->at < h->end && row[h->at] == 0)
        h->at++;
    if (h->at == h->end)
        return false;
    int64_t trim = mtp__trim(t, h->at);
    h->start = mtp__plus(t->start[h->at], trim);
    h->stop = mtp__minus(t->end[h->at], trim);
    h->last = t->category[h->at] == MTP__CATEGORY_GPU_USER_ANNOTATION;
    return true;
}

static void add(mtp__walk *w, const head *h)
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
    const mtp_trace *t = w->g->t;
    head *heap = mtp__calloc((size_t)t->track_count + 1, sizeof *heap);
    if (heap == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u tracks", t->track_count);
    size_t count = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        heap[count] = (head){.at = t->tracks[k].first, .end = t->tracks[k].first + t->tracks[k].count};
        count += look(&heap[count], w);
    }
    for (size_t i = count / 2; i-- > 0;)
        sink(heap, count, i);
    while (count > 0) {
        add(w, &heap[0]);
        heap[0].at++;
        if (!look(&heap[0], w))
            heap[0] = heap[--count];
        if (count > 0)
            sink(heap, count, 0);
    }
    mtp__free(heap);
    return MTP_OK;
}
