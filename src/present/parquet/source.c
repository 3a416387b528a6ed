/* present/parquet/source.c - what the tables of a trace are computed from: the walk of averages, keeping its results for each
 * span, so that sums over the tables are the averages. */
#include <string.h>
#include "analyze/flops.h"
#include "base/error.h"
#include "base/os.h"
#include "present/parquet/tables.h"

mtp_text mtp__parquet_trace_text(const void *source, int64_t id)
{
    const mtp__parquet_source *s = source;
    return mtp__trace_get_text(s->t, (uint32_t)id);
}

int64_t mtp__parquet_duration(const mtp_trace *t, uint32_t span)
{
    return mtp__minus(mtp__duration(t, span), 2 * mtp__trim(t, span));
}

int64_t mtp__parquet_self(const mtp__parquet_source *s, uint32_t span)
{
    double ns = ((const double *)s->walk.self_us.p)[span] * 1000;
    double half = ns < 0 ? -0.5 : 0.5;
    return ns + half >= 0x1p63 ? INT64_MAX : ns + half < -0x1p63 ? INT64_MIN : (int64_t)(ns + half);
}

static mtp_status walk(mtp__parquet_source *s)
{
    static const mtp_averages_options plain = MTP_AVERAGES_OPTIONS_INIT;
    const mtp_trace *t = s->t;
    mtp_status status = mtp__group_init(&s->group, t, &plain, &s->keys);
    if (status == MTP_OK)
        status = mtp__launched_init(&s->launched, t, false, mtp__walk_zero(t));
    if (status == MTP_OK && t->memory_count > 0)
        status = mtp__bytes_init(&s->bytes, t);
    if (status != MTP_OK)
        return status;
    s->walk = mtp__walk_of(&s->group, &s->launched, t->memory_count > 0 ? &s->bytes : NULL);
    s->walk.each = s->walk.only_sums = true;
    s->walk.flops = s->has_flops;
    return mtp__walk_run(&s->walk);
}

/* Parents come first. */
static bool find_depths(mtp__parquet_source *s)
{
    const mtp_trace *t = s->t;
    if (!mtp__scratch_make(&s->depth, t->span_count, sizeof(uint32_t)))
        return false;
    uint32_t *depth = s->depth.p;
    for (uint32_t i = 0; i < t->span_count; i++)
        depth[i] = t->parent[i] != MTP__NONE ? depth[t->parent[i]] + 1 : 0;
    return true;
}

static mtp_status find_contexts(mtp__parquet_source *s)
{
    uint32_t count = s->t->memory_count;
    uint32_t *all = mtp__calloc((size_t)count + 1, sizeof *all);
    s->contexts = mtp__calloc((size_t)count + 1, sizeof *s->contexts);
    s->covered = mtp__calloc((size_t)count + 1, 1);
    if (all == NULL || s->contexts == NULL || s->covered == NULL) {
        mtp__free(all);
        return MTP_FAIL(MTP_E_NOMEM, "the ops of %u memory events", count);
    }
    const int32_t *cover = s->bytes.cover.p;
    int32_t open = 0;
    for (uint32_t i = 0; i < count; i++) {
        all[i] = i;
        open += cover[i];
        s->covered[i] = open > 0;
        s->has_device_memory |= s->t->memory[i].device_type != MTP__DEVICE_CPU;
    }
    mtp_status status = mtp__memory_contexts(s->t, all, count, s->contexts);
    mtp__free(all);
    return status;
}

static bool find_names(mtp__parquet_source *s)
{
    const mtp_trace *t = s->t;
    uint32_t texts = mtp__intern_count(&t->text) + 1, count = 0;
    uint32_t *row_of = mtp__calloc((size_t)texts + 1, sizeof *row_of);
    for (uint32_t i = 0; i < t->span_count && row_of != NULL; i++)
        if (row_of[t->name[i]] == 0)
            row_of[t->name[i]] = ++count;
    s->names = mtp__calloc((size_t)count + 1, sizeof *s->names);
    for (uint32_t i = 0; i < t->span_count && row_of != NULL && s->names != NULL; i++) {
        mtp__parquet_name *n = &s->names[row_of[t->name[i]] - 1];
        int64_t ns = mtp__parquet_duration(t, i);
        bool is_first = n->spans++ == 0;
        n->name = t->name[i];
        mtp__count(&n->total_ns, ns);
        if (mtp__parquet_row(s, i) != 0 && s->group.sum[mtp__parquet_row(s, i) - 1].class < MTP__CLASS_DEVICE)
            mtp__count(&n->self_ns, mtp__parquet_self(s, i));
        n->min_ns = is_first || ns < n->min_ns ? ns : n->min_ns;
        n->max_ns = is_first || ns > n->max_ns ? ns : n->max_ns;
    }
    s->name_count = count;
    mtp__free(row_of);
    return row_of != NULL && s->names != NULL;
}

static mtp_status compute(mtp__parquet_source *s)
{
    const mtp_trace *t = s->t;
    s->has_flops = mtp__was_recorded(t, MTP_WITH_FLOPS, "with_flops");
    s->has = mtp__parquet_details(t);
    mtp_status status = walk(s);
    if (status == MTP_OK)
        status = mtp_steps_create(t, &s->steps);
    if (status == MTP_OK && t->memory_count > 0)
        status = find_contexts(s);
    s->has_steps = status == MTP_OK && !mtp_steps_is_whole_trace(s->steps);
    if (status == MTP_OK &&
        (!find_depths(s) || !find_names(s) || !mtp__parquet_facts(s) ||
         (s->has_flops && !mtp__scratch_make(&s->flops, t->shape_count, 2 * sizeof(uint64_t)))))
        status = MTP_FAIL(MTP_E_NOMEM, "the tables of %u spans", t->span_count);
    return status;
}

mtp_status mtp__parquet_source_init(mtp__parquet_source *s, const mtp_trace *t)
{
    *s = (mtp__parquet_source){.t = t};
    mtp__intern_init(&s->keys, 1, SIZE_MAX, NULL, NULL);
    mtp_status status = compute(s);
    if (status != MTP_OK)
        mtp__parquet_source_fini(s);
    return status;
}

void mtp__parquet_source_fini(mtp__parquet_source *s)
{
    mtp__walk_fini(&s->walk);
    mtp__bytes_fini(&s->bytes);
    mtp__launched_fini(&s->launched);
    if (s->group.t != NULL)
        mtp__group_fini(&s->group);
    mtp__intern_fini(&s->keys);
    mtp_steps_destroy(s->steps);
    mtp__scratch_free(&s->depth);
    mtp__scratch_free(&s->flops);
    mtp__free(s->contexts);
    mtp__free(s->covered);
    mtp__free(s->homes);
    mtp__free(s->names);
    mtp__free(s->metadata);
    mtp__free(s->losses);
}
