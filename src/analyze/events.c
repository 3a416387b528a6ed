/* analyze/events.c - see mtprof_analysis.h, "events", and events.h. */
#include "analyze/events.h"
#include <string.h>
#include "analyze/flops.h"
#include "base/abi.h"
#include "base/bisect.h"
#include "base/error.h"
#include "base/os.h"
#include "trace/facts.h"

/* ------------------------------------------------------------------------------------------------ life */

/* Recording started with the first step; a file says when. */
static int64_t zero_of(const mtp_trace *t)
{
    if (!mtp__is_recording(t))
        return mtp__zero_of(t);
    return t->step_count > 0 && t->steps[0].start < t->first_ns ? t->steps[0].start : t->first_ns;
}

mtp_status mtp_events_create(const mtp_trace *trace, mtp_events **out)
{
    if (out == NULL || trace == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", out == NULL ? "out" : "trace");
    *out = NULL;
    mtp_events *e = mtp__calloc(1, sizeof *e);
    if (e == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "events");
    e->t = trace;
    e->zero_ns = zero_of(trace);
    pthread_mutex_init(&e->lock, NULL);
    atomic_init(&e->ready, 0);
    mtp__intern_init(&e->text, 1, SIZE_MAX, NULL, NULL);
    *out = e;
    return MTP_OK;
}

void mtp_events_destroy(mtp_events *e)
{
    if (e == NULL)
        return;
    mtp__events_unlist(e);
    mtp__scratch_free(&e->child);
    mtp__scratch_free(&e->sibling);
    mtp__scratch_free(&e->stacks);
    mtp__intern_fini(&e->text);
    pthread_mutex_destroy(&e->lock);
    mtp__free(e);
}

static mtp_status make(mtp_events *e, unsigned part)
{
    if (part == MTP__EVENTS_LISTED)
        return mtp__events_list(e);
    if (part == MTP__EVENTS_NESTED)
        return mtp__events_nest(e);
    if (e->t->stack_count <= 1 && !e->python_stacks)
        return MTP_OK;
    mtp_status status = mtp__stacks_of(e->t, e->python_stacks, &e->stacks);
    if (status != MTP_OK)
        mtp__scratch_free(&e->stacks);
    return status;
}

mtp_status mtp__events_need(mtp_events *e, unsigned part)
{
    mtp_status status = MTP_OK;
    if (__builtin_expect(atomic_load_explicit(&e->ready, memory_order_acquire) & part, 1))
        return MTP_OK;
    pthread_mutex_lock(&e->lock);
    if ((atomic_load_explicit(&e->ready, memory_order_relaxed) & part) == 0) {
        status = make(e, part);
        if (status == MTP_OK)
            atomic_fetch_or_explicit(&e->ready, part, memory_order_release);
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

mtp_status mtp__events_item(mtp_events *e, size_t index, uint32_t *item)
{
    *item = 0;
    if (e == NULL)
        return MTP_FAIL(MTP_E_ARG, "events is NULL");
    mtp_status status = mtp__events_need(e, MTP__EVENTS_LISTED);
    if (status != MTP_OK)
        return status;
    if (index >= e->count)
        return MTP_FAIL(MTP_E_ARG, "there is no event %zu: there are %u", index, e->count);
    *item = ((const uint32_t *)e->order.p)[index];
    return MTP_OK;
}

mtp_status mtp_events_count(mtp_events *e, size_t *out)
{
    if (e == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "events or out is NULL");
    *out = 0;
    mtp_status status = mtp__events_need(e, MTP__EVENTS_LISTED);
    if (status == MTP_OK)
        *out = e->count;
    return status;
}

int64_t mtp_events_zero_ns(const mtp_events *e)
{
    return e != NULL ? e->zero_ns : 0;
}

/* ------------------------------------------------------------------------------------------- what it is */

mtp_event_kind mtp__event_kind_of(const mtp_trace *t, uint32_t span)
{
    static const uint8_t kind[MTP__CATEGORIES] = {
        [MTP__CATEGORY_CPU_OP] = MTP_EVENT_OP,
        [MTP__CATEGORY_USER_ANNOTATION] = MTP_EVENT_SCOPE,
        [MTP__CATEGORY_PYTHON_FUNCTION] = MTP_EVENT_PYTHON,
        [MTP__CATEGORY_CUDA_RUNTIME] = MTP_EVENT_RUNTIME,
        [MTP__CATEGORY_CUDA_DRIVER] = MTP_EVENT_RUNTIME,
        [MTP__CATEGORY_OVERHEAD] = MTP_EVENT_OVERHEAD,
        [MTP__CATEGORY_KERNEL] = MTP_EVENT_KERNEL,
        [MTP__CATEGORY_GPU_MEMCPY] = MTP_EVENT_MEMCPY,
        [MTP__CATEGORY_GPU_MEMSET] = MTP_EVENT_MEMSET,
        [MTP__CATEGORY_CUDA_SYNC] = MTP_EVENT_SYNC,
        [MTP__CATEGORY_GPU_USER_ANNOTATION] = MTP_EVENT_DEVICE_SCOPE,
        [MTP__CATEGORY_OTHER] = MTP_EVENT_OTHER,
    };
    switch (t->category[span]) {
    case MTP__CATEGORY_CPU_OP:
        return mtp__is_backward(t, span) ? MTP_EVENT_BACKWARD : MTP_EVENT_OP;
    case MTP__CATEGORY_USER_ANNOTATION:
        return mtp__is_step(t, span) ? MTP_EVENT_STEP : MTP_EVENT_SCOPE;
    case MTP__CATEGORY_PYTHON_FUNCTION:
        return mtp__is_module(t, span) ? MTP_EVENT_MODULE : MTP_EVENT_PYTHON;
    default:
        return (mtp_event_kind)kind[t->category[span]];
    }
}

static void fill_names(const mtp_events *e, mtp_text name, uint32_t id, mtp_event *out)
{
    size_t point = e->group.split ? mtp__overload_at(name) : 0;
    out->key = mtp__events_key(e, id);
    out->name = point != 0 ? out->key : (mtp_text){name.bytes, name.length};
    out->overload_name =
        point != 0 ? (mtp_text){name.bytes + point + 1, name.length - point - 1} : (mtp_text){"", 0};
}

/* ------------------------------------------------------------------------------------- when and where */

static int64_t step_at(const mtp_events *e, int64_t ts)
{
    uint32_t low = 0, high = e->step_count;
    if (e->step_count == 0)
        return !mtp__is_recording(e->t) ? -1 : 0;
    MTP__BISECT(low, high, mid, e->steps[mid].start <= ts) /* the first that starts later */
    if (mtp__is_recording(e->t))                           /* everything recorded is in a step */
        return e->steps[low > 0 ? low - 1 : 0].number;
    return low > 0 && ts < e->steps[low - 1].end ? e->steps[low - 1].number : -1;
}

/* Files name forward threads by torch's numbers, recordings by the system's. */
static uint64_t forward_thread(const mtp_events *e, const mtp__track *track, uint64_t thread)
{
    const struct mtp__numbered *n = e->numbered;
    uint32_t low = 0, high = e->threads, part = track->part;
    if (thread == 0 || !mtp__is_recording(e->t))
        return thread;
    MTP__BISECT(low, high, mid, n[mid].part < part || (n[mid].part == part && n[mid].tid < (int64_t)thread))
    return low < e->threads && n[low].part == part && n[low].tid == (int64_t)thread ? n[low].number : thread;
}

static uint64_t main_thread(const mtp_events *e)
{
    return e->main_track != MTP__NONE ? e->thread_of[e->main_track] : 1;
}

static uint64_t thread_of(const mtp_events *e, uint32_t span, uint32_t track, bool on_device)
{
    const mtp_trace *t = e->t;
    if (on_device || t->tracks[track].on_device) {
        uint32_t launcher = t->launcher != NULL ? t->launcher[span] : MTP__NONE;
        return launcher != MTP__NONE ? e->thread_of[mtp__trace_track_of(t, launcher)] : main_thread(e);
    }
    return mtp__is_torchs(t) && mtp__is_stray(t, span) ? main_thread(e) : e->thread_of[track];
}

static void fill_place(const mtp_events *e, uint32_t span, uint32_t k, const mtp__detail *d, mtp_event *out)
{
    const mtp__track *track = &e->t->tracks[k];
    int64_t trim = mtp__trim(e->t, span);
    out->start_ns = mtp__minus(mtp__plus(e->t->start[span], trim), e->zero_ns);
    out->end_ns = mtp__minus(mtp__minus(e->t->end[span], trim), e->zero_ns);
    out->step =
        !mtp__is_recording(e->t) && d->device != 0xffff ? (int64_t)d->number : step_at(e, e->t->start[span]);
    out->pid = track->pid;
    out->tid = out->resource = track->tid;
    out->thread = thread_of(e, span, k, out->is_device);
    out->forward_thread = forward_thread(e, track, d->forward_thread);
    out->device_type = out->is_device ? e->device_type : 0;
    out->device_index = out->is_device && track->on_device ? (int32_t)track->pid : 0;
    out->op_device_type = d->device == 0xffff               ? -1
                          : MTP_DEVICE_TYPE(d->device) != 0 ? MTP__DEVICE_NPU
                                                            : MTP__DEVICE_CPU;
    out->op_device_index = d->device == 0xffff ? -1 : (int32_t)MTP_DEVICE_INDEX(d->device);
}

/* -------------------------------------------------------------------------------------------- how much */

static double duration_us(const mtp_events *e, uint32_t span)
{
    const mtp_trace *t = e->t;
    int64_t trim = mtp__trim(t, span), start = mtp__plus(t->start[span], trim),
            end = mtp__minus(t->end[span], trim);
    return e->walk.exact ? mtp__microseconds(end, e->walk.zero_ns) - mtp__microseconds(start, e->walk.zero_ns)
                         : (double)mtp__minus(end, start) / 1000;
}

static uint64_t flops_of(const mtp_events *e, uint32_t span, const mtp__detail *d, const char *op)
{
    if (e->t->category[span] != MTP__CATEGORY_CPU_OP)
        return 0;
    return d->flops != 0 ? d->flops : e->has_flops ? mtp__flops_torch(e->t, op, d->shape) : 0;
}

static void fill_cpu(const mtp_events *e, uint32_t span, mtp_event *out)
{
    const mtp__walk *w = &e->walk;
    uint32_t up = ((const uint32_t *)w->parent.p)[span];
    out->parent = up != 0 ? ((const uint32_t *)w->row.p)[up - 1] - 1u : MTP_NO_EVENT;
    out->cpu_time_total = duration_us(e, span);
    out->self_cpu_time_total = ((const double *)w->self_us.p)[span];
    if (w->device_us.p != NULL) {
        const uint32_t *kernels;
        out->device_time_total = ((const double *)w->device_us.p)[2 * (size_t)span];
        out->self_device_time_total = ((const double *)w->device_us.p)[2 * (size_t)span + 1];
        out->kernel_count = mtp__kernels_of(&e->kernels, e->t, ((const uint32_t *)w->work.p)[span], &kernels);
    }
    if (w->self_memory.p != NULL) {
        const int64_t *self = (const int64_t *)w->self_memory.p + 2 * (size_t)span;
        mtp__bytes at = e->bytes; /* it caches the last position */
        int64_t total[2];
        mtp__bytes_within(&at, e->t->start[span], e->t->end[span], false, total);
        out->cpu_memory_usage = total[0];
        out->self_cpu_memory_usage = self[0];
        out->device_memory_usage = total[1];
        out->self_device_memory_usage = self[1];
    }
}

static void fill_details(const mtp_events *e, uint32_t span, const mtp__detail *d, mtp_event *out)
{
    const mtp_trace *t = e->t;
    const mtp__shape *in = &t->shapes[d->shape];
    mtp__category category = (mtp__category)t->category[span];
    out->sequence = d->sequence;
    out->correlation = d->correlation;
    out->external_id = mtp__trace_external_id(t, span);
    if (category == MTP__CATEGORY_CPU_OP || category == MTP__CATEGORY_USER_ANNOTATION)
        out->record_function_id = out->external_id;
    out->allocated_before = d->allocated_before;
    out->allocated_after = d->allocated_after;
    out->bytes = d->bytes;
    out->shape = d->shape;
    out->input_dims = mtp__events_text(e, in->dims);
    out->input_strides = mtp__events_text(e, in->strides);
    out->input_types = mtp__events_text(e, in->types);
    out->concrete_inputs = mtp__events_text(e, in->concrete);
    out->output_dims = mtp__events_text(e, t->shapes[d->outputs].dims);
    out->args = mtp__events_text(e, d->args);
}

static void fill_span(const mtp_events *e, uint32_t span, mtp_event *out)
{
    const mtp_trace *t = e->t;
    const mtp__detail *d = mtp__trace_detail(t, span);
    uint32_t track = mtp__trace_track_of(t, span);
    mtp_text name = mtp__trace_get_text(t, t->name[span]);
    unsigned class = mtp__group_class(&e->group, span);
    if (class < MTP__CLASS_DEVICE && t->tracks[track].on_device)
        class = class == MTP__CLASS_CPU_ANNOTATION ? MTP__CLASS_DEVICE_ANNOTATION : MTP__CLASS_DEVICE;
    fill_names(e, name, t->name[span], out);
    out->span = span;
    out->kind = mtp__event_kind_of(t, span);
    out->scope = out->kind == MTP_EVENT_BACKWARD                               ? 1
                 : out->kind == MTP_EVENT_SCOPE || out->kind == MTP_EVENT_STEP ? 7
                                                                               : 0;
    out->is_device = class >= MTP__CLASS_DEVICE;
    out->is_user_annotation = class == MTP__CLASS_CPU_ANNOTATION || class == MTP__CLASS_DEVICE_ANNOTATION;
    out->is_unfinished = (t->flags[span] & MTP__SPAN_UNFINISHED) != 0;
    fill_place(e, span, track, d, out);
    fill_details(e, span, d, out);
    out->flops = flops_of(e, span, d, out->key.bytes);
    if (out->is_device)
        out->device_time_total = out->self_device_time_total = duration_us(e, span);
    else
        fill_cpu(e, span, out);
}

/* "[memory]" and "[OutOfMemory]": an instant. */
static void fill_moment(const mtp_events *e, uint32_t item, mtp_event *out)
{
    const mtp_trace *t = e->t;
    bool memory = item < t->memory_count;
    const mtp__instant *failed = memory ? NULL : &t->instants[item - t->memory_count];
    uint32_t k = memory ? t->memory[item].track : failed->track;
    int64_t ts = memory ? t->memory[item].ts : failed->ts;
    out->name = memory ? (mtp_text){"[memory]", 8} : (mtp_text){"[OutOfMemory]", 13};
    out->key = out->name;
    out->kind = memory ? MTP_EVENT_MEMORY : MTP_EVENT_OUT_OF_MEMORY;
    out->start_ns = out->end_ns = mtp__minus(ts, e->zero_ns);
    out->step = step_at(e, ts);
    out->op_device_type = out->op_device_index = -1;
    if (k < t->track_count) {
        out->pid = t->tracks[k].pid;
        out->tid = t->tracks[k].tid;
        out->thread = e->thread_of[k];
        out->resource = (int64_t)out->thread;
    }
    if (!memory)
        return;
    const int64_t *sum[2] = {e->bytes.sum[0].p, e->bytes.sum[1].p};
    out->memory = item;
    out->bytes = t->memory[item].bytes;
    out->op_device_type = t->memory[item].device_type;
    out->op_device_index = t->memory[item].device_index;
    out->cpu_memory_usage = out->self_cpu_memory_usage = mtp__minus(sum[0][item + 1], sum[0][item]);
    out->device_memory_usage = out->self_device_memory_usage = mtp__minus(sum[1][item + 1], sum[1][item]);
}

mtp_status mtp_events_get(mtp_events *e, size_t index, mtp_event *to)
{
    uint32_t item;
    if (to == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    mtp_status status = MTP__ABI_CHECK(to, mtp_event, args);
    if (status == MTP_OK)
        status = mtp__events_item(e, index, &item);
    if (status != MTP_OK)
        return status;
    mtp_event made, *out = to->size == sizeof made ? to : &made; /* copying takes a while */
    static const mtp_text none = {"", 0};
    *out = (mtp_event){.size = sizeof *out,
                       .overload_name = none,
                       .sequence = -1,
                       .parent = MTP_NO_EVENT,
                       .allocated_before = -1,
                       .allocated_after = -1,
                       .span = UINT32_MAX,
                       .memory = UINT32_MAX,
                       .input_dims = none,
                       .input_strides = none,
                       .input_types = none,
                       .concrete_inputs = none,
                       .output_dims = none,
                       .args = none};
    if (item < e->t->span_count)
        fill_span(e, item, out);
    else
        fill_moment(e, item - e->t->span_count, out);
    if (out != to)
        mtp__abi_write(to, out, sizeof *out);
    return MTP_OK;
}
