/* trace/facts.c - what a span is, and what a trace says about itself. */
#include "trace/facts.h"

const char *const mtp__filtered_names[] = {"[memory]",
                                           "[OutOfMemory]",
                                           "profiler::_record_function_enter",
                                           "profiler::_record_function_enter_new",
                                           "profiler::_record_function_exit",
                                           "aten::is_leaf",
                                           "aten::output_nr",
                                           "aten::_version",
                                           NULL};

bool mtp__is_filtered(mtp_text name)
{
    for (const char *const *known = mtp__filtered_names; *known != NULL; known++)
        if (strlen(*known) == name.length && memcmp(*known, name.bytes, name.length) == 0)
            return true;
    return false;
}

static mtp_text name_of(const mtp_trace *t, uint32_t span)
{
    return mtp__trace_get_text(t, t->name[span]);
}

/* ---------------------------------------------------------------------------------------------- spans */

bool mtp__is_step(const mtp_trace *t, uint32_t span)
{
    return (t->flags[span] & MTP__SPAN_STEP) != 0 ||
           ((t->category[span] == MTP__CATEGORY_USER_ANNOTATION ||
             t->category[span] == MTP__CATEGORY_GPU_USER_ANNOTATION) &&
            MTP__BEGINS_WITH(name_of(t, span), MTP__STEP_PREFIX));
}

bool mtp__is_module(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_PYTHON_FUNCTION &&
           ((t->flags[span] & MTP__SPAN_MODULE) != 0 ||
            MTP__BEGINS_WITH(name_of(t, span), MTP__MODULE_PREFIX));
}

bool mtp__is_engine_scope(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CPU_OP &&
           MTP__BEGINS_WITH(name_of(t, span), MTP__ENGINE_PREFIX);
}

/* Python functions may lie in between. */
static bool is_run_by_engine(const mtp_trace *t, uint32_t span)
{
    const size_t prefix = sizeof MTP__ENGINE_PREFIX - 1;
    uint32_t up = t->parent[span];
    while (up != MTP__NONE && t->category[up] == MTP__CATEGORY_PYTHON_FUNCTION)
        up = t->parent[up];
    if (up == MTP__NONE || !mtp__is_engine_scope(t, up))
        return false;
    mtp_text scope = name_of(t, up), name = name_of(t, span);
    return scope.length == prefix + name.length && memcmp(scope.bytes + prefix, name.bytes, name.length) == 0;
}

bool mtp__is_backward(const mtp_trace *t, uint32_t span)
{
    if (t->category[span] != MTP__CATEGORY_CPU_OP)
        return false;
    const mtp__detail *d = mtp__trace_detail(t, span);
    bool marked = (t->flags[span] & MTP__SPAN_BACKWARD) != 0 || (d->forward_thread != 0 && d->sequence >= 0);
    return marked ? !mtp__is_engine_scope(t, span) : is_run_by_engine(t, span);
}

/* ---------------------------------------------------------------------------------------------- the trace */

bool mtp__was_recorded(const mtp_trace *t, uint32_t flag, const char *key)
{
    uint32_t id = mtp__trace_find_text(t, key);
    if (t->flags_recorded & flag)
        return true;
    for (uint32_t i = 0; id != 0 && i < t->metadata_count; i++)
        if (t->metadata[i].key == id) {
            const char *json = mtp__trace_get_text(t, t->metadata[i].json).bytes;
            return strcmp(json, "1") == 0 || strcmp(json, "true") == 0 || strcmp(json, "\"1\"") == 0;
        }
    return false;
}

int64_t mtp__zero_of(const mtp_trace *t)
{
    uint32_t category = mtp__trace_find_text(t, MTP__RECORDING_CATEGORY);
    for (uint32_t i = 0; i < t->span_count && category != 0; i++)
        if (t->category[i] == MTP__CATEGORY_OTHER && mtp__trace_detail(t, i)->category == category)
            return t->start[i];
    uint32_t name = mtp__trace_find_text(t, "Iteration Start: PyTorch Profiler");
    for (uint32_t i = 0; i < t->instant_count && name != 0; i++)
        if (t->instants[i].name == name)
            return t->instants[i].ts;
    return t->first_ns;
}

/* In a file we wrote, the device's process says so. */
static bool has_npu(const mtp_trace *t)
{
    for (uint32_t i = 0; i < t->process_count; i++)
        if (strncmp(mtp__trace_get_text(t, t->processes[i].labels).bytes, "NPU ", 4) == 0)
            return true;
    return false;
}

/* Kineto's category for its calls; device work uses CUDA's categories. */
static bool has_xpu(const mtp_trace *t)
{
    uint32_t calls = mtp__trace_find_text(t, "xpu_runtime");
    for (uint32_t i = 0; i < t->span_count && calls != 0; i++)
        if (t->category[i] == MTP__CATEGORY_CUDA_RUNTIME && mtp__trace_detail(t, i)->category == calls)
            return true;
    return false;
}

uint16_t mtp__device_type(const mtp_trace *t)
{
    if (has_xpu(t))
        return MTP__DEVICE_XPU;
    for (uint32_t i = 0; i < t->memory_count; i++)
        if (t->memory[i].device_type == MTP__DEVICE_XPU)
            return MTP__DEVICE_XPU;
    return mtp__is_recording(t) || has_npu(t) ? MTP__DEVICE_NPU : MTP__DEVICE_CUDA;
}
