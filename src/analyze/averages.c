/* analyze/averages.c - key averages: runs all parts in order, then fills the public rows. */
#include "analyze/averages.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analyze/torch/rules.h"
#include "analyze/flops.h"
#include "base/abi.h"
#include "base/error.h"
#include "base/os.h"

/* ------------------------------------------------------------------------------------- about the trace */

static void describe(mtp_averages *a, const mtp_trace *t)
{
    uint16_t type = mtp__device_type(t);
    const char *device = type == MTP__DEVICE_XPU ? "XPU" : type == MTP__DEVICE_NPU ? "NPU" : "CUDA";
    snprintf(a->device_name, sizeof a->device_name, "%s", device);
    for (uint32_t k = 0; k < t->track_count; k++)
        a->has_device |= t->tracks[k].on_device && t->tracks[k].count > 0;
    a->pid = t->pid;
    a->lost_definitions = t->has_ledger ? t->ledger.lost_definitions : 0;
    a->has_memory = mtp__was_recorded(t, MTP_WITH_MEMORY, "profile_memory");
    a->has_flops = mtp__was_recorded(t, MTP_WITH_FLOPS, "with_flops");
    a->has_stack = mtp__was_recorded(t, MTP_WITH_STACK, "with_stack");
}

/* ------------------------------------------------------------------------------------------------ rows */

static const char *text_of(const mtp_averages *a, uint32_t id)
{
    return id != 0 ? (const char *)mtp__intern_get(&a->text, id)->bytes : "";
}

typedef struct ordered {
    const mtp__sum *sum;
} ordered;

/* In the order of torch's list: by first event. */
static int by_first(const void *x, const void *y)
{
    const mtp__sum *a = ((const ordered *)x)->sum, *b = ((const ordered *)y)->sum;
    if (a->first_start != b->first_start)
        return a->first_start < b->first_start ? -1 : 1;
    if (a->first_end != b->first_end)
        return a->first_end > b->first_end ? -1 : 1;
    if ((a->class == MTP__CLASS_DEVICE_ANNOTATION) != (b->class == MTP__CLASS_DEVICE_ANNOTATION))
        return a->class == MTP__CLASS_DEVICE_ANNOTATION ? 1 : -1;
    return a->first_span < b->first_span ? -1 : a->first_span > b->first_span;
}

static void fill_times(mtp_row *row, const mtp__sum *s, bool exact)
{
    row->min = (double)(s->count > 0 ? s->min_ns : 0) / 1000;
    row->max = (double)(s->count > 0 ? s->max_ns : 0) / 1000;
    row->p50 = (double)s->p50_ns / 1000;
    row->p99 = (double)s->p99_ns / 1000;
    row->cpu_time_total = s->total_us;
    row->self_cpu_time_total = s->self_us;
    row->device_time_total = s->device_us;
    row->self_device_time_total = s->self_device_us;
    if (exact)
        return;
    if (row->is_device) {
        row->device_time_total = row->self_device_time_total = (double)s->total_ns / 1000;
    } else {
        row->cpu_time_total = (double)s->total_ns / 1000;
        row->self_cpu_time_total = (double)s->self_ns / 1000;
    }
}

static void fill_row(mtp_averages *a, mtp__averages_row *out, const mtp__sum *s, bool exact,
                     const char ***frame)
{
    mtp_row *row = &out->shown;
    const mtp__intern_entry *key = mtp__intern_get(&a->text, s->key);
    out->nested = s->nested;
    row->key = (const char *)key->bytes;
    row->key_length = key->length;
    row->overload_name = text_of(a, s->overload);
    row->input_shapes = text_of(a, s->shape);
    if (s->stack != 0) {
        const mtp__intern_entry *stack = mtp__intern_get(&a->text, s->stack);
        row->stack = *frame;
        row->stack_depth = (uint32_t)(stack->length / sizeof(uint32_t));
        for (uint32_t i = 0; i < row->stack_depth; i++) {
            uint32_t id;
            memcpy(&id, stack->bytes + i * sizeof id, sizeof id);
            *(*frame)++ = text_of(a, id);
        }
    }
    row->is_device = s->class >= MTP__CLASS_DEVICE;
    row->is_user_annotation =
        s->class == MTP__CLASS_CPU_ANNOTATION || s->class == MTP__CLASS_DEVICE_ANNOTATION;
    row->count = (uint64_t)s->count;
    fill_times(row, s, exact);
    row->cpu_memory_usage = s->memory[0];
    row->self_cpu_memory_usage = s->self_memory[0];
    row->device_memory_usage = s->memory[1];
    row->self_device_memory_usage = s->self_memory[1];
    row->flops = s->flops;
}

/* Like torch's total_average(): the sum over all classes of rows. The quantiles stay 0. */
static void fill_total(mtp_averages *a)
{
    mtp_row *sum = &a->total;
    sum->key = "Total";
    sum->key_length = 5;
    sum->overload_name = sum->input_shapes = "";
    for (size_t i = 0; i < a->count; i++) {
        const mtp_row *row = &a->row[i].shown;
        sum->count += row->count;
        sum->cpu_time_total += row->cpu_time_total;
        sum->self_cpu_time_total += row->self_cpu_time_total;
        sum->device_time_total += row->device_time_total;
        sum->self_device_time_total += row->self_device_time_total;
        mtp__count(&sum->cpu_memory_usage, row->cpu_memory_usage);
        mtp__count(&sum->self_cpu_memory_usage, row->self_cpu_memory_usage);
        mtp__count(&sum->device_memory_usage, row->device_memory_usage);
        mtp__count(&sum->self_device_memory_usage, row->self_device_memory_usage);
        sum->flops += row->flops;
        sum->min = i == 0 || row->min < sum->min ? row->min : sum->min;
        sum->max = i == 0 || row->max > sum->max ? row->max : sum->max;
    }
}

/* Without shapes an op is known only if it never computes anything. */
static void fill_coverage(mtp_averages *a, const mtp__group *g)
{
    double all = 0, known = 0;
    for (uint32_t i = 0; i < g->sums; i++) {
        const mtp__sum *s = &g->sum[i];
        bool op = s->op_ns == 0 && s->first_span != MTP__NONE &&
                  g->t->category[s->first_span] == MTP__CATEGORY_CPU_OP;
        uint64_t flops;
        all += (double)(op ? s->self_ns : s->op_ns);
        known +=
            (double)(op && mtp__flops_known(g->t, text_of(a, s->key), 0, &flops) ? s->self_ns : s->known_ns);
    }
    a->flops_coverage = all > 0 ? known / all : 0;
}

static mtp_status fill(mtp_averages *a, mtp__group *g, bool exact)
{
    size_t frames = 0;
    ordered *order = mtp__calloc((size_t)g->sums + 1, sizeof *order);
    for (uint32_t i = 0; i < g->sums && order != NULL; i++) {
        order[i].sum = &g->sum[i];
        frames +=
            g->sum[i].stack != 0 ? mtp__intern_get(&a->text, g->sum[i].stack)->length / sizeof(uint32_t) : 0;
    }
    a->row = mtp__calloc((size_t)g->sums + 1, sizeof *a->row);
    a->frames = mtp__calloc(frames + 1, sizeof *a->frames);
    if (order == NULL || a->row == NULL || a->frames == NULL) {
        mtp__free(order);
        return MTP_FAIL(MTP_E_NOMEM, "%u rows", g->sums);
    }
    qsort(order, g->sums, sizeof *order, by_first);
    const char **frame = a->frames;
    for (uint32_t i = 0; i < g->sums; i++)
        if (order[i].sum->count > 0 && order[i].sum->class == MTP__CLASS_PYTHON)
            a->left_out++;
        else if (order[i].sum->count > 0)
            fill_row(a, &a->row[a->count++], order[i].sum, exact, &frame);
    mtp__free(order);
    fill_total(a);
    fill_coverage(a, g);
    return MTP_OK;
}

/* --------------------------------------------------------------------------------------------- creation */

/* A failed allocation is a separate event, with no time and no bytes. */
static void out_of_memory_events(mtp__group *g)
{
    static const char name[] = "[OutOfMemory]";
    uint32_t id = mtp__trace_find_text(g->t, name);
    for (uint32_t i = 0; i < g->t->instant_count && id != 0 && !g->failed; i++) {
        if (g->t->instants[i].name != id)
            continue;
        uint32_t row =
            mtp__group_row(g, mtp__group_text(g, name, sizeof name - 1), MTP__CLASS_CPU, MTP__NONE);
        if (row == MTP__NONE)
            return;
        mtp__sum *s = &g->sum[row];
        s->count++;
        s->min_ns = s->max_ns = 0;
        if (g->t->instants[i].ts < s->first_start) {
            s->first_start = s->first_end = g->t->instants[i].ts;
            s->first_span = MTP__NONE;
        }
    }
}

static mtp_status walk(mtp_averages *a, mtp__group *g, mtp__launched *launched, mtp__bytes *bytes)
{
    mtp__walk w = mtp__walk_of(g, launched, bytes);
    w.flops = a->has_flops;
    bool done;
    mtp_status status = mtp__fast_sums(&w, &done);
    if (status == MTP_OK && !done)
        status = mtp__walk_run(&w);
    if (status == MTP_OK && w.exact)
        status = mtp__exact_sums(&w);
    if (status == MTP_OK && !done)
        status = mtp__spread(&w);
    if (status == MTP_OK)
        out_of_memory_events(g);
    if (status == MTP_OK && g->failed)
        status = MTP_FAIL(MTP_E_NOMEM, "averages");
    if (status == MTP_OK)
        status = fill(a, g, w.exact);
    mtp__walk_fini(&w);
    return status;
}

static mtp_status make(mtp_averages *a, const mtp_trace *t, const mtp_averages_options *options)
{
    mtp__group group;
    mtp__launched launched = {0};
    mtp__bytes bytes = {0};
    mtp__scratch stacks = {0};
    mtp_status status = mtp__group_init(&group, t, options, &a->text);
    if (status != MTP_OK)
        return status;
    if (options->by_stack != 0 && (t->stack_count > 1 || options->python_stacks)) {
        status = mtp__stacks_of(t, options->python_stacks, &stacks);
        group.stack = stacks.p;
    }
    if (status == MTP_OK)
        status = mtp__launched_init(&launched, t, options->as_torch, mtp__walk_zero(t));
    if (status == MTP_OK && t->memory_count > 0)
        status = mtp__bytes_init(&bytes, t);
    if (status == MTP_OK)
        status = walk(a, &group, &launched, t->memory_count > 0 ? &bytes : NULL);
    mtp__bytes_fini(&bytes);
    mtp__launched_fini(&launched);
    mtp__scratch_free(&stacks);
    mtp__group_fini(&group);
    return status;
}

mtp_status mtp_averages_create(const mtp_trace *trace, const mtp_averages_options *options,
                               mtp_averages **out)
{
    mtp_averages_options known = MTP_AVERAGES_OPTIONS_INIT;
    if (out == NULL || trace == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", out == NULL ? "out" : "trace");
    *out = NULL;
    mtp_status status = MTP__ABI_READ(&known, options, mtp_averages_options, python_stacks);
    if (status != MTP_OK)
        return status;
    mtp_averages *a = mtp__calloc(1, sizeof *a);
    if (a == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "averages");
    mtp__intern_init(&a->text, 1, SIZE_MAX, NULL, NULL);
    describe(a, trace);
    status = make(a, trace, &known);
    if (status != MTP_OK) {
        mtp_averages_destroy(a);
        return status;
    }
    a->written = a->count;
    *out = a;
    return MTP_OK;
}

void mtp_averages_destroy(mtp_averages *a)
{
    if (a == NULL)
        return;
    mtp__free(a->row);
    mtp__free(a->frames);
    mtp__intern_fini(&a->text);
    mtp__free(a);
}

/* ------------------------------------------------------------------------------------------------ asking */

size_t mtp_averages_count(const mtp_averages *a)
{
    return a != NULL ? a->count : 0;
}

size_t mtp_averages_left_out(const mtp_averages *a)
{
    return a != NULL ? a->left_out : 0;
}

const mtp_row *mtp_averages_row(const mtp_averages *a, size_t index)
{
    return a != NULL && index < a->count ? &a->row[index].shown : NULL;
}

const mtp_row *mtp_averages_total(const mtp_averages *a)
{
    return a != NULL ? &a->total : NULL;
}

double mtp_averages_flops_coverage(const mtp_averages *a)
{
    return a != NULL ? a->flops_coverage : 0;
}
