/* trace/records/from_device.c - see from_device.h. */
#include "trace/records/from_device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bisect.h"
#include "base/pair_map.h"
#include "trace/build.h"

#define DEFAULT_STREAM 7

typedef struct mtp__pending_work {
    uint64_t word[11];
    uint32_t words;
    uint32_t annotation; /* the CPU span that this mirrors; MTP__NONE: real work */
    int64_t start, end;  /* once the clock is known */
} pending_work;

typedef struct mtp__clock_point {
    uint64_t device_ns, ticks, error_ns;
    uint32_t device;
} clock_point;

static uint32_t device_of(const pending_work *p)
{
    return (uint32_t)(p->word[1] >> 48);
}
static uint64_t stream_of(const pending_work *p)
{
    return p->word[4];
}
static uint32_t kind_of(const pending_work *p)
{
    return (uint32_t)(p->word[1] >> 32) & 0xff;
}

static void keep(mtp__device_works *d, mtp_trace *t, const pending_work *item)
{
    void *list = d->work;
    mtp__list_add(t, &list, &d->work_count, sizeof *item, item);
    d->work = list;
}

void mtp__device_keep_work(mtp__device_works *d, mtp_trace *t, const uint64_t *words, uint32_t count)
{
    pending_work item = {.words = count < 11 ? 8 : 11, .annotation = MTP__NONE};
    memcpy(item.word, words, item.words * sizeof *words);
    keep(d, t, &item);
}

void mtp__device_keep_clock(mtp__device_works *d, mtp_trace *t, const uint64_t *w)
{
    clock_point item = {w[2], w[3], w[4], (uint32_t)(w[1] >> 48)};
    void *list = d->point;
    mtp__list_add(t, &list, &d->point_count, sizeof item, &item);
    d->point = list;
}

void mtp__device_works_fini(mtp__device_works *d)
{
    mtp__free(d->work);
    mtp__free(d->point);
}

/* --------------------------------------------------------------------------------------------- clocks */

static int by_device_time(const void *a, const void *b)
{
    const clock_point *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->device_ns > y->device_ns) - (x->device_ns < y->device_ns);
}

/* The first point of a later device, or of this one at a later time. */
static uint32_t point_after(const mtp__device_works *d, uint32_t device, uint64_t at)
{
    uint32_t low = 0, high = d->point_count;
    const clock_point *p = d->point;
    MTP__BISECT(low, high, mid, p[mid].device < device || (p[mid].device == device && p[mid].device_ns <= at))
    return low;
}

/* A device's time, interpolated between the two points around it, or from the nearest one. */
static int64_t device_ns(const mtp__device_works *d, mtp__tick_line *line, uint32_t device, uint64_t at)
{
    uint32_t after = point_after(d, device, at);
    const clock_point *low = after > 0 ? &d->point[after - 1] : NULL,
                      *high = after < d->point_count ? &d->point[after] : NULL;
    low = low != NULL && low->device == device ? low : NULL;
    high = high != NULL && high->device == device ? high : NULL;
    const clock_point *one = low != NULL ? low : high;
    if (one == NULL)
        return mtp__ticks_of_clock(line, at); /* unknown: treat it as the host's clock */
    int64_t base = mtp__ticks_to_ns(line, one->ticks);
    double rate = 1.0;
    if (low != NULL && high != NULL)
        rate =
            (double)(mtp__ticks_to_ns(line, high->ticks) - base) / (double)(high->device_ns - low->device_ns);
    return base + mtp__ns_bound((double)(int64_t)(at - one->device_ns) * rate);
}

static int64_t work_ns(const mtp__device_works *d, mtp__tick_line *line, const pending_work *p, uint64_t at)
{
    switch (p->word[1] >> 40 & 0xff) {
    case MTP_CLOCK_TICKS:
        return mtp__ticks_to_ns(line, at);
    case MTP_CLOCK_MONOTONIC:
        return mtp__ticks_of_clock(line, at);
    default:
        return device_ns(d, line, device_of(p), at);
    }
}

/* How well each device's clock is known: by its worst sample. */
static void add_clocks(const mtp__device_works *d, mtp_trace *t)
{
    mtp__clock_info info = {0};
    for (uint32_t i = 0; i < d->point_count; i++) {
        const clock_point *p = &d->point[i];
        info.device = (uint16_t)p->device;
        info.points++;
        info.error_ns = p->error_ns > info.error_ns ? p->error_ns : info.error_ns;
        if (i + 1 == d->point_count || p[1].device != p->device) {
            mtp__list_add(t, LIST(t, clocks), &info);
            info = (mtp__clock_info){0};
        }
    }
}

/* ---------------------------------------------------------------------------------------- annotations */

/* The innermost annotation around each CPU span of the recording, which begins at `from`, itself included:
 * parents come before their children. */
static uint32_t *annotations_around(const mtp__span_memory *c, uint32_t from)
{
    const uint32_t *parent = COLUMN(c, TRACK, uint32_t);
    const uint8_t *category = COLUMN(c, CATEGORY, uint8_t);
    uint32_t *around = mtp__calloc((size_t)(c->count - from) + 1, sizeof *around);
    for (uint32_t i = from; around != NULL && i < c->count; i++)
        around[i - from] = category[i] == MTP__CATEGORY_USER_ANNOTATION ? i
                           : parent[i] != MTP__NONE                     ? around[parent[i] - from]
                                                                        : MTP__NONE;
    return around;
}

static bool map_launches(const mtp_trace *t, mtp__pair_map *by_correlation)
{
    const mtp__span_memory *c = &t->builder->spans;
    bool is_new;
    for (uint32_t i = t->builder->from.spans; i < c->count; i++) {
        uint64_t id = t->details[COLUMN(c, DETAIL, uint32_t)[i]].correlation;
        if (id != 0 && mtp__pair_put(by_correlation, id, 0, i, &is_new) == NULL)
            return false;
    }
    return true;
}

/* Starts the mirror of `annotation` on the stream of work p, or extends it to the work's end. */
static bool extend(mtp__device_works *d, mtp_trace *t, mtp__pair_map *shadows, uint32_t annotation,
                   uint32_t at)
{
    bool is_new;
    const pending_work p = d->work[at];
    uint64_t *shadow = mtp__pair_put(shadows, annotation | (uint64_t)device_of(&p) << 32, stream_of(&p),
                                     d->work_count, &is_new);
    if (shadow == NULL)
        return false;
    if (!is_new) {
        pending_work *s = &d->work[*shadow];
        s->start = p.start < s->start ? p.start : s->start;
        s->end = p.end > s->end ? p.end : s->end;
        return true;
    }
    pending_work s = {.words = 8, .annotation = annotation, .start = p.start, .end = p.end};
    s.word[1] = (uint64_t)MTP_DEVICE_ANNOTATION << 32 | (uint64_t)device_of(&p) << 48;
    s.word[4] = stream_of(&p);
    keep(d, t, &s);
    return !t->builder->out_of_memory;
}

/* On each stream an annotation lasts from the first to the last work launched inside it. Not if the program
 * reports such spans itself. */
static bool add_annotations(mtp__device_works *d, mtp_trace *t)
{
    uint32_t works = d->work_count;
    for (uint32_t i = 0; i < works; i++)
        if (kind_of(&d->work[i]) == MTP_DEVICE_ANNOTATION)
            return true;
    const mtp__span_memory *c = &t->builder->spans;
    mtp__pair_map launches = {0}, shadows = {0};
    const uint32_t from = t->builder->from.spans;
    uint32_t *around = annotations_around(c, from);
    bool good = around != NULL && map_launches(t, &launches);
    for (uint32_t i = 0; i < works && good; i++) {
        const uint64_t *launch = mtp__pair_find(&launches, d->work[i].word[5], 0);
        uint32_t a = launch != NULL && d->work[i].word[5] != 0 ? around[*launch - from] : MTP__NONE;
        while (a != MTP__NONE && good) {
            uint32_t above = COLUMN(c, TRACK, uint32_t)[a];
            good = extend(d, t, &shadows, a, i);
            a = above != MTP__NONE ? around[above - from] : MTP__NONE;
        }
    }
    mtp__pair_map_fini(&launches);
    mtp__pair_map_fini(&shadows);
    mtp__free(around);
    return good;
}

/* --------------------------------------------------------------------------------------------- spans */

/* By device, stream and start, so that work too is added track by track; enclosing spans come first. */
static int by_place(const void *a, const void *b)
{
    const pending_work *x = a, *y = b;
    if (device_of(x) != device_of(y))
        return device_of(x) < device_of(y) ? -1 : 1;
    if (stream_of(x) != stream_of(y))
        return stream_of(x) < stream_of(y) ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    if (kind_of(x) != kind_of(y))
        return kind_of(x) > kind_of(y) ? -1 : 1;
    return (x->annotation > y->annotation) - (x->annotation < y->annotation);
}

/* A device's default stream is 0 for whoever reports work, and 7 in Kineto's traces: readers want streams
 * above 0. If the program uses stream 7, the next free number. */
static int64_t default_stream(const mtp__device_works *d, uint32_t device)
{
    uint64_t number = DEFAULT_STREAM;
    for (uint32_t i = 0; i < d->work_count; i++) /* in ascending order of stream */
        number += device_of(&d->work[i]) == device && stream_of(&d->work[i]) == number;
    return (int64_t)number;
}

/* Processes that share a device have streams of their own, which may have the same numbers. */
static uint32_t stream_name(mtp_trace *t, const mtp__dictionary *dict, int64_t stream)
{
    char text[64];
    if (dict->placing == NULL || dict->placing->part == 0)
        return 0;
    int n = snprintf(text, sizeof text, "stream %lld (process %llu)", (long long)stream,
                     (unsigned long long)t->pid);
    return mtp__trace_text(t, text, (size_t)n);
}

static void add_track(const mtp__device_works *d, mtp_trace *t, const mtp__dictionary *dict,
                      const pending_work *p)
{
    int64_t stream = stream_of(p) != 0 ? (int64_t)stream_of(p) : default_stream(d, device_of(p));
    mtp__track track = {.pid = (int64_t)MTP_DEVICE_INDEX(device_of(p)),
                        .tid = stream,
                        .name = stream_name(t, dict, stream),
                        .sort_index = INT64_MIN,
                        .part = dict->placing != NULL ? dict->placing->part : 0,
                        .on_device = true,
                        .first = t->builder->spans.count};
    mtp__trace_add_track(t, &track);
}

static void add_span(const mtp__device_works *d, mtp_trace *t, mtp__dictionary *dict, const pending_work *p)
{
    static const mtp__category category[] = {MTP__CATEGORY_KERNEL, MTP__CATEGORY_GPU_MEMCPY,
                                             MTP__CATEGORY_GPU_MEMSET, MTP__CATEGORY_CUDA_SYNC,
                                             MTP__CATEGORY_GPU_USER_ANNOTATION};
    const uint64_t *w = p->word;
    uint32_t kind = kind_of(p), name = mtp__dictionary_name(dict, (uint32_t)w[1]);
    mtp__detail detail = MTP__DETAIL_INIT;
    detail.device = (uint16_t)device_of(p);
    detail.correlation = w[5];
    detail.bytes = (int64_t)w[6];
    detail.queued_ns = w[7] != 0 ? work_ns(d, &dict->line, p, w[7]) : INT64_MIN;
    if (p->words == 11) {
        detail.grid[0] = (uint32_t)w[8], detail.grid[1] = (uint32_t)(w[8] >> 32);
        detail.grid[2] = (uint32_t)w[9], detail.block[0] = (uint32_t)(w[9] >> 32);
        detail.block[1] = (uint32_t)w[10], detail.block[2] = (uint32_t)(w[10] >> 32);
    }
    if (p->annotation != MTP__NONE) { /* spans of a recording keep their positions: the id of link.c */
        name = COLUMN(&t->builder->spans, NAME, uint32_t)[p->annotation];
        detail.external_id = (uint64_t)p->annotation + 1;
    }
    mtp__trace_add_span(t, MTP__NONE, p->start, p->end, name, category[kind < 5 ? kind : 0], 0,
                        mtp__trace_add_detail(t, &detail));
}

void mtp__device_add(mtp__device_works *d, mtp_trace *t, mtp__dictionary *dict)
{
    if (d->point_count > 0)
        qsort(d->point, d->point_count, sizeof *d->point, by_device_time);
    add_clocks(d, t);
    if (d->work_count == 0)
        return;
    for (uint32_t i = 0; i < d->work_count; i++) {
        pending_work *p = &d->work[i];
        p->start = work_ns(d, &dict->line, p, p->word[2]);
        p->end = work_ns(d, &dict->line, p, p->word[3]);
        if (p->end < p->start) {
            p->end = p->start;
            t->clock_faults++;
        }
    }
    if (!add_annotations(d, t))
        t->builder->out_of_memory = true;
    qsort(d->work, d->work_count, sizeof *d->work, by_place);
    for (uint32_t i = 0; i < d->work_count && !t->builder->out_of_memory; i++) {
        const pending_work *p = &d->work[i];
        if (i == 0 || device_of(p - 1) != device_of(p) || stream_of(p - 1) != stream_of(p))
            add_track(d, t, dict, p);
        if (t->builder->out_of_memory)
            break;
        add_span(d, t, dict, p);
        t->tracks[t->track_count - 1].count++;
        t->first_ns = p->start < t->first_ns ? p->start : t->first_ns;
        t->last_ns = p->end > t->last_ns ? p->end : t->last_ns;
    }
}

/* ----------------------------------------------------------------------------------------- what they are */

void mtp__device_describe_all(mtp_trace *t, const mtp__dictionary *dict)
{
    size_t room = 2, n = 0;
    for (uint32_t i = 0; i < dict->device_count; i++)
        room += mtp__trace_get_text(t, dict->devices[i].json).length + 2;
    char *list = dict->device_count > 0 ? mtp__calloc(1, room) : NULL;
    if (list == NULL) {
        t->builder->out_of_memory |= dict->device_count > 0;
        return;
    }
    for (uint32_t i = 0; i < dict->device_count; i++) {
        const mtp__device_text *info = &dict->devices[i];
        mtp_text json = mtp__trace_get_text(t, info->json);
        memcpy(list + n, i == 0 ? "[" : ", ", i == 0 ? 1 : 2);
        n += i == 0 ? 1 : 2;
        memcpy(list + n, json.bytes, json.length);
        n += json.length;
        mtp__process row = {.pid = (int64_t)MTP_DEVICE_INDEX(info->device),
                            .name = info->name,
                            .sort_index = INT64_MIN,
                            .on_device = true};
        mtp__trace_add_process(t, &row);
    }
    list[n++] = ']';
    mtp__trace_add_meta(t, "deviceProperties", strlen("deviceProperties"), list, n);
    mtp__free(list);
}
