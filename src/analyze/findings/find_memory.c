/* analyze/findings/find_memory.c - memory that grows, that is fragmented, and what it holds at its peak. */
#include <stdlib.h>
#include <string.h>
#include "analyze/findings/findings.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/plain.h"

#define GROWTH_STEPS 5u   /* so many steps must grow, after ... */
#define GROWTH_SETTLED 2u /* ... the first ones, in which optimizers allocate their state */
#define GROWTH_EVEN 0.25  /* the least growth of a step, relative to the mean */
#define GROWTH_ENDS 0.5   /* of the memory in use, that is left in the last step: the program ends */
#define GROWTH_KEPT 0.5   /* of all growth, that steps before the last have allocated */
#define GROWTH_SHARE 0.01 /* all growth, relative to the memory in use */
#define GROWTH_BYTES (64 << 10)
#define FRAGMENT_REQUEST (10 << 20) /* smaller ones are cut from segments of 20 MB */
#define FRAGMENT_LEAST 3u           /* such requests */
#define FRAGMENT_SHARE 0.1          /* of all memory that was reserved */
#define FRAGMENT_BYTES (64 << 20)
#define PEAK_BYTES (16 << 20) /* a smaller peak is not worth a word */

/* ----------------------------------------------------------------------------------------------- growth */

typedef struct levels { /* bytes in use at the end of each step */
    const mtp_steps *s;
    uint32_t at;
    double now;
    double *level;
} levels;

static bool on_point(void *user, const mtp_memory_point *p)
{
    levels *l = user;
    for (; l->at < l->s->count && l->s->rows[l->at].end_ns < p->ns; l->at++)
        l->level[l->at] = l->now;
    l->now = 0;
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
        l->now += (double)p->bytes[k];
    return true;
}

/* Does every step leave more behind than the one before? Returns the growth from step `first` on; 0: no. */
static double growth(const levels *l, uint32_t first, uint32_t last)
{
    double all = l->level[last] - l->level[first], mean = all / (last - first);
    for (uint32_t i = first + 1; i <= last; i++)
        if (l->level[i] - l->level[i - 1] < GROWTH_EVEN * mean)
            return 0;
    return all;
}

static bool measure_levels(const mtp_memory_timeline *timeline, levels *l)
{
    l->level = mtp__calloc((size_t)l->s->count + 1, sizeof *l->level);
    if (l->level == NULL)
        return false;
    mtp_memory_timeline_points(timeline, on_point, l);
    for (; l->at < l->s->count; l->at++)
        l->level[l->at] = l->now;
    return true;
}

/* What was allocated in these steps, is alive at the peak, and at their end: the program may free it later. */
static void add_kept(mtp__evidence *tally, const mtp_memory_timeline *timeline, int64_t from, int64_t to)
{
    const mtp_memory_block *b;
    for (size_t i = 0; (b = mtp_memory_timeline_block(timeline, i)) != NULL; i++)
        if (b->created_ns >= from && b->created_ns < to && b->freed_ns >= to) {
            mtp__evidence_add(tally, (mtp__alike){.what = b->maker,
                                                  .source = b->source,
                                                  .calls = 1,
                                                  .start = b->created_ns,
                                                  .end = b->created_ns,
                                                  .span = MTP__NONE,
                                                  .bytes = b->bytes});
        }
}

/* Bytes that steps before the last have allocated, from `from` on, and that are in use at its end: of what leaks, nearly all. Memory
 * grows without a leak, too, if inputs do: then what a step leaves behind is freed in the next. */
static double kept_from(const mtp_memory_timeline *timeline, int64_t from, const mtp_step_row *last)
{
    double kept = 0;
    for (uint32_t i = 0; i < timeline->block_count; i++) {
        const mtp__block *b = &timeline->blocks[i];
        kept += b->created >= from && b->created < last->start_ns && b->freed >= last->end_ns
                    ? (double)b->bytes
                    : 0;
    }
    return kept;
}

static const mtp_text before_trace = {"(before the trace)", 18};

static void say_owner(mtp__words *w, const mtp__alike *a)
{
    mtp__say_bytes(w, (double)a->bytes);
    if (a->what.bytes == before_trace.bytes) {
        mtp__say(w, " that were allocated before the trace");
        return;
    }
    mtp__say(w, " in ");
    mtp__say_count(w, a->calls, "block", "blocks");
    if (a->what.length > 0) {
        mtp__say(w, " of ");
        mtp__say_name(w, a->what);
    }
    mtp__say_source(w, a->source);
}

static mtp_status tell_growth(mtp__case *c, const mtp_memory_timeline *timeline, const levels *l)
{
    uint32_t first = c->first_step + GROWTH_SETTLED, last = l->s->count - 1;
    while (last > 0 && l->s->rows[last].ops == 0 && (c->has_ops || l->s->rows[last].kernels == 0))
        last--; /* after the last step() */
    if (last < first + GROWTH_STEPS)
        return MTP_OK;
    double all = growth(l, first, last);
    if (all <= 0 && last > first + GROWTH_STEPS && l->level[last] < GROWTH_ENDS * l->level[first])
        all = growth(l, first, --last);
    if (all < GROWTH_BYTES || all < GROWTH_SHARE * l->level[first])
        return MTP_OK;
    if (kept_from(timeline, l->s->rows[first].end_ns, &l->s->rows[last]) < GROWTH_KEPT * all)
        return MTP_OK;
    mtp__evidence tally = {0};
    add_kept(&tally, timeline, l->s->rows[first].end_ns, l->s->rows[last].end_ns);
    mtp__draft d = {.id = "memory-growth",
                    .kind = MTP_FINDING_MEMORY,
                    .confidence = MTP_CONFIDENCE_HIGH,
                    .bytes = (int64_t)(all / (last - first)),
                    .urgent = true};
    mtp__say(&d.title, "Memory grows by ");
    mtp__say_bytes(&d.title, all / (last - first));
    mtp__say(&d.title, " in every step: this looks like a leak");
    mtp__say(&d.text, "At the end of each of %u steps in a row more memory of %s was in use than before: ",
             last - first, timeline->device.name);
    mtp__say_bytes(&d.text, l->level[first]);
    mtp__say(&d.text, " after step %lld, ", (long long)l->s->rows[first].number);
    mtp__say_bytes(&d.text, l->level[last]);
    mtp__say(&d.text, " after step %lld.", (long long)l->s->rows[last].number);
    const mtp__alike *owner = mtp__evidence_first(&tally);
    if (owner != NULL) {
        mtp__say(&d.text, " What was allocated meanwhile and not freed: ");
        say_owner(&d.text, owner);
        mtp__say(&d.text, ".");
    }
    mtp__say(&d.advice,
             "Look for tensors that are kept: a list that results are appended to, a loss summed without "
             ".item() or .detach() (which keeps the graph of every step), caches, hooks.");
    mtp_status status = mtp__find(c, &d, &tally);
    mtp__evidence_fini(&tally);
    return status;
}

mtp_status mtp__find_growth(mtp__case *c)
{
    mtp_memory_timeline *timeline;
    const char *name;
    if (c->t->memory_count == 0 || c->steps->whole_trace)
        return MTP_OK;
    mtp_status status = mtp_memory_timeline_create(c->t, NULL, &timeline);
    char devices[4][MTP__DEVICE_NAME];
    size_t count = 0;
    for (; status == MTP_OK && count < 4 && (name = mtp_memory_timeline_device(timeline, count)) != NULL;
         count++)
        mtp__format(devices[count], sizeof devices[count], "%s", name);
    mtp_memory_timeline_destroy(timeline);
    for (size_t i = 0; i < count && status == MTP_OK; i++) {
        levels l = {.s = c->steps};
        status = mtp_memory_timeline_create(c->t, devices[i], &timeline);
        if (status == MTP_OK && !measure_levels(timeline, &l))
            status = MTP_FAIL(MTP_E_NOMEM, "memory after each step");
        if (status == MTP_OK)
            status = tell_growth(c, timeline, &l);
        mtp__free(l.level);
        mtp_memory_timeline_destroy(timeline);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------- fragments */

/* The allocator asked for more although enough was free: no free piece was large enough. */
mtp_status mtp__find_fragments(mtp__case *c)
{
    typedef struct total {
        int64_t allocated, reserved;
    } total;
    double grown = 0, most = 0, request = 0, unused = 0;
    int64_t when = 0;
    uint32_t count = 0;
    mtp__hash_map totals = {0};
    bool fine = true, is_new;
    for (uint32_t i = 0; i < c->t->memory_count && fine; i++) {
        const mtp__memory *m = &c->t->memory[i];
        if (m->device_type == MTP__DEVICE_CPU || m->total_reserved < 0 || m->total_allocated < 0)
            continue;
        uint64_t key = (uint64_t)m->device_type << 32 | (uint16_t)m->device_index << 1 | 1;
        total *last = mtp__hash_map_put(&totals, &key, sizeof key, sizeof *last, &is_new);
        fine = last != NULL;
        if (!fine)
            break;
        double more = is_new ? 0 : (double)m->total_reserved - (double)last->reserved;
        double unused_now = (double)last->reserved - (double)last->allocated;
        if (m->bytes >= FRAGMENT_REQUEST && more > 0 && more <= 2 * (double)m->bytes &&
            unused_now >= 2 * (double)m->bytes) {
            grown += more;
            count++;
            if ((double)m->bytes > request)
                request = (double)m->bytes, unused = unused_now, when = m->ts;
        }
        most = (double)m->total_reserved > most ? (double)m->total_reserved : most;
        *last = (total){m->total_allocated, m->total_reserved};
    }
    mtp__hash_map_fini(&totals);
    if (!fine)
        return MTP_FAIL(MTP_E_NOMEM, "memory of devices");
    if (count < FRAGMENT_LEAST || grown < FRAGMENT_BYTES || grown < FRAGMENT_SHARE * most)
        return MTP_OK;
    mtp__evidence tally = {0};
    mtp__evidence_add(&tally, (mtp__alike){.what = {"", 0},
                                           .source = {"", 0},
                                           .calls = count,
                                           .start = when,
                                           .end = when,
                                           .span = MTP__NONE,
                                           .bytes = mtp__whole_ns(grown)});
    mtp__draft d = {.id = "memory-fragmentation",
                    .kind = MTP_FINDING_MEMORY,
                    .confidence = MTP_CONFIDENCE_MEDIUM,
                    .bytes = mtp__whole_ns(grown)};
    mtp__say(&d.title, "The device's memory is fragmented: ");
    mtp__say_bytes(&d.title, grown);
    mtp__say(&d.title, " were reserved although enough was free");
    mtp__say(&d.text, "%u times the allocator asked the device for more, ", count);
    mtp__say_bytes(&d.text, grown);
    mtp__say(&d.text, " in all, although at least twice what was needed was free: in pieces too small, or "
                      "kept for another stream. The largest such "
                      "request was ");
    mtp__say_bytes(&d.text, request);
    mtp__say(&d.text, ", when ");
    mtp__say_bytes(&d.text, unused);
    mtp__say(&d.text, " of what was reserved were unused.");
    mtp__say(
        &d.advice,
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and avoid sizes that vary from step to step "
        "(pad sequences, drop_last=True).");
    mtp_status status = mtp__find(c, &d, &tally);
    mtp__evidence_fini(&tally);
    return status;
}

/* ------------------------------------------------------------------------------------------------- peak */

mtp_status mtp__find_peak(mtp__case *c)
{
    mtp_memory_timeline *timeline = NULL;
    mtp_memory_info info = MTP_MEMORY_INFO_INIT;
    if (c->t->memory_count == 0)
        return MTP_OK;
    mtp_status status = mtp_memory_timeline_create(c->t, NULL, &timeline);
    if (status == MTP_OK)
        status = mtp_memory_timeline_info(timeline, &info);
    mtp__evidence tally = {0};
    const mtp_memory_block *b;
    for (size_t i = 0; status == MTP_OK && info.peak_bytes >= PEAK_BYTES &&
                       (b = mtp_memory_timeline_block(timeline, i)) != NULL;
         i++)
        mtp__evidence_add(
            &tally,
            (mtp__alike){.what = b->address == 0 && b->created_ns == INT64_MIN ? before_trace : b->maker,
                         .source = b->source,
                         .calls = 1,
                         .start = b->created_ns == INT64_MIN ? c->t->first_ns : b->created_ns,
                         .end = b->created_ns == INT64_MIN ? c->t->first_ns : b->created_ns,
                         .span = MTP__NONE,
                         .bytes = b->bytes});
    const mtp__alike *owner = mtp__evidence_first(&tally);
    if (status == MTP_OK && owner != NULL) {
        mtp__draft d = {.id = "memory-peak",
                        .kind = MTP_FINDING_MEMORY,
                        .confidence = MTP_CONFIDENCE_HIGH,
                        .bytes = info.peak_bytes};
        int most = 0;
        for (int k = 1; k < MTP_MEMORY_CATEGORIES; k++)
            most = info.peak_by_category[k] > info.peak_by_category[most] ? k : most;
        mtp__say(&d.title, "Memory of %s peaks at ", timeline->device.name);
        mtp__say_bytes(&d.title, (double)info.peak_bytes);
        mtp__say(&d.text, "That is ");
        mtp__say_time(&d.text, (double)info.peak_ns - (double)c->t->first_ns);
        mtp__say(&d.text, " after the start, in %llu blocks; ", (unsigned long long)info.peak_blocks);
        mtp__say_share(&d.text, (double)info.peak_by_category[most] / (double)info.peak_bytes);
        const char *category = mtp_memory_category_text((mtp_memory_category)most);
        mtp__say(&d.text, " of it is %s%s. The largest owner: ",
                 strcmp(category, "Unknown") == 0 ? "of unknown purpose" : "",
                 strcmp(category, "Unknown") == 0 ? "" : category);
        say_owner(&d.text, owner);
        mtp__say(&d.text, ".");
        mtp__say(&d.advice,
                 "'mtprof memory' shows it over time, with all that was alive at the peak. If it must fit: "
                 "checkpoint activations, accumulate smaller batches, free what is not needed before.");
        status = mtp__find(c, &d, &tally);
    }
    mtp__evidence_fini(&tally);
    mtp_memory_timeline_destroy(timeline);
    return status;
}
