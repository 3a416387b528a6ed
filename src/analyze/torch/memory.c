/* analyze/torch/memory.c - bytes by time.
 *
 * torch attributes to an op everything allocated and freed between its start and its end, inclusive, by any
 * thread. Memory events outside any CPU event become separate events, "[memory]".
 */
#include <string.h>
#include "analyze/torch/rules.h"
#include "base/bisect.h"
#include "base/error.h"

/* c10::DeviceType to the column: 0 CPU, 1 device, 2 neither. */
static unsigned column_of(uint16_t device_type)
{
    switch (device_type) {
    case MTP__DEVICE_CPU:
    case MTP__DEVICE_MKLDNN:
    case MTP__DEVICE_IDEEP:
        return 0;
    case MTP__DEVICE_CUDA:
    case MTP__DEVICE_HIP:
    case MTP__DEVICE_XPU:
    case MTP__DEVICE_NPU:
        return 1;
    default:
        return 2;
    }
}

mtp_status mtp__bytes_init(mtp__bytes *b, const mtp_trace *t)
{
    memset(b, 0, sizeof *b);
    size_t n = b->count = t->memory_count;
    if (!mtp__scratch_make(&b->ts, n, sizeof(int64_t)) ||
        !mtp__scratch_make(&b->sum[0], n + 1, sizeof(int64_t)) ||
        !mtp__scratch_make(&b->sum[1], n + 1, sizeof(int64_t)) ||
        !mtp__scratch_make(&b->cover, n + 1, sizeof(int32_t))) {
        mtp__bytes_fini(b);
        return MTP_FAIL(MTP_E_NOMEM, "sums over %zu memory events", n);
    }
    int64_t *ts = b->ts.p, *sum[2] = {b->sum[0].p, b->sum[1].p};
    for (size_t i = 0; i < n; i++) {
        const mtp__memory *m = &t->memory[i];
        unsigned column = column_of(m->device_type);
        ts[i] = m->ts;
        for (unsigned k = 0; k < 2; k++)
            sum[k][i + 1] = mtp__plus(sum[k][i], column == k ? m->bytes : 0);
    }
    return MTP_OK;
}

void mtp__bytes_fini(mtp__bytes *b)
{
    mtp__scratch_free(&b->ts);
    mtp__scratch_free(&b->sum[0]);
    mtp__scratch_free(&b->sum[1]);
    mtp__scratch_free(&b->cover);
}

/* The first event in [low, high) that is not before `when`. */
static uint32_t bisect(const int64_t *ts, uint32_t low, uint32_t high, int64_t when)
{
    MTP__BISECT(low, high, mid, ts[mid] < when)
    return low;
}

/* The first event not before `when`, galloping from `from`, so that near positions are cheap: the walk asks
 * in order, and most spans hold few events. */
static uint32_t seek(const mtp__bytes *b, uint32_t from, int64_t when)
{
    const int64_t *ts = b->ts.p;
    uint32_t step = 1;
    if (from < b->count && ts[from] < when) {
        uint32_t low = from;
        while (step < b->count - low && ts[low + step] < when) {
            low += step;
            step *= 2;
        }
        return bisect(ts, low + 1, step < b->count - low ? low + step : b->count, when);
    }
    uint32_t high = from;
    while (step <= high && ts[high - step] >= when) {
        high -= step;
        step *= 2;
    }
    return bisect(ts, step <= high ? high - step : 0, high, when);
}

void mtp__bytes_within(mtp__bytes *b, int64_t start, int64_t end, bool cover, int64_t out[2])
{
    uint32_t low = seek(b, b->at, start);
    uint32_t high = seek(b, low, end < INT64_MAX ? end + 1 : end);
    b->at = low;
    for (unsigned k = 0; k < 2; k++)
        out[k] = mtp__minus(((const int64_t *)b->sum[k].p)[high], ((const int64_t *)b->sum[k].p)[low]);
    if (cover && low < high) {
        ((int32_t *)b->cover.p)[low]++;
        ((int32_t *)b->cover.p)[high]--;
    }
}

void mtp__bytes_uncovered(mtp__bytes *b, mtp__group *g)
{
    const int64_t *ts = b->ts.p, *sum[2] = {b->sum[0].p, b->sum[1].p};
    const int32_t *cover = b->cover.p;
    int32_t open = 0;
    uint32_t row = MTP__NONE;
    for (uint32_t i = 0; i < b->count; i++) {
        open += cover[i];
        if (open > 0)
            continue;
        if (row == MTP__NONE)
            row = mtp__group_row(g, mtp__group_text(g, "[memory]", 8), MTP__CLASS_CPU, MTP__NONE);
        if (row == MTP__NONE)
            return; /* latched */
        mtp__sum *s = &g->sum[row];
        if (s->count++ == 0) {
            s->first_start = s->first_end = ts[i];
            s->first_span = MTP__NONE;
        }
        s->min_ns = s->max_ns = 0;
        for (unsigned k = 0; k < 2; k++) {
            mtp__count(&s->memory[k], mtp__minus(sum[k][i + 1], sum[k][i]));
            mtp__count(&s->self_memory[k], mtp__minus(sum[k][i + 1], sum[k][i]));
        }
    }
}
