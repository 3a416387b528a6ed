/* trace/columns.c - see mtprof_trace.h, "columns": exposes the model's arrays. */
#include <string.h>
#include "base/abi.h"
#include "base/error.h"
#include "trace/trace.h"

/* NumPy's type letter of a number. */
#define TYPE_OF(x) _Generic((x), int64_t : 'i', int32_t : 'i', int16_t : 'i', double : 'f', default : 'u')

static void add(mtp_columns *out, const char *table, const char *name, char type, size_t bytes,
                const void *data, size_t count, size_t stride)
{
    if (out->count < MTP_COLUMNS_MAX)
        out->column[out->count++] = (mtp_column){table,
                                                 name,
                                                 type,
                                                 (uint8_t)bytes,
                                                 data != NULL && count > 0 ? data : NULL,
                                                 data != NULL ? count : 0,
                                                 stride};
}

/* An array of numbers, and one member of an array of structs. */
#define ARRAY(table, name, array, n)                                                                         \
    add(out, table, name, TYPE_OF(*(array)), sizeof *(array), (array), (n), sizeof *(array))
#define MEMBER(table, name, array, member, n)                                                                \
    add(out, table, name, TYPE_OF((array)->member), sizeof(array)->member,                                   \
        (array) != NULL ? (const void *)&(array)->member : NULL, (n), sizeof *(array))

static void add_spans(mtp_columns *out, const mtp_trace *t)
{
    uint32_t n = t->span_count;
    ARRAY("spans", "start", t->start, n);
    ARRAY("spans", "end", t->end, n);
    ARRAY("spans", "name", t->name, n);
    ARRAY("spans", "parent", t->parent, n);
    ARRAY("spans", "category", t->category, n);
    ARRAY("spans", "flags", t->flags, n);
    ARRAY("spans", "detail", t->detail, n);
    ARRAY("spans", "launcher", t->launcher, n);
}

static void add_details(mtp_columns *out, const mtp_trace *t)
{
#define DETAIL(name, member) MEMBER("details", name, t->details, member, t->detail_count)
    DETAIL("sequence", sequence);
    DETAIL("forward_thread", forward_thread);
    DETAIL("correlation", correlation);
    DETAIL("external_id", external_id);
    DETAIL("flops", flops);
    DETAIL("allocated_before", allocated_before);
    DETAIL("allocated_after", allocated_after);
    DETAIL("bytes", bytes);
    DETAIL("queued", queued_ns);
    DETAIL("shape", shape);
    DETAIL("outputs", outputs);
    DETAIL("stack", stack);
    DETAIL("args", args);
    DETAIL("number", number);
    DETAIL("device", device);
#undef DETAIL
}

static void add_tracks(mtp_columns *out, const mtp_trace *t)
{
#define TRACK(member) MEMBER("tracks", #member, t->tracks, member, t->track_count)
    TRACK(pid);
    TRACK(tid);
    TRACK(name);
    TRACK(on_device);
    TRACK(first);
    TRACK(count);
#undef TRACK
}

static void add_memory(mtp_columns *out, const mtp_trace *t)
{
#define MEMORY(name, member) MEMBER("memory", name, t->memory, member, t->memory_count)
    MEMORY("time", ts);
    MEMORY("address", address);
    MEMORY("bytes", bytes);
    MEMORY("total_allocated", total_allocated);
    MEMORY("total_reserved", total_reserved);
    MEMORY("track", track);
    MEMORY("device_type", device_type);
    MEMORY("device_index", device_index);
#undef MEMORY
}

static void add_others(mtp_columns *out, const mtp_trace *t)
{
    MEMBER("steps", "start", t->steps, start, t->step_count);
    MEMBER("steps", "end", t->steps, end, t->step_count);
    MEMBER("steps", "number", t->steps, number, t->step_count);
    MEMBER("instants", "time", t->instants, ts, t->instant_count);
    MEMBER("instants", "value", t->instants, value, t->instant_count);
    MEMBER("instants", "name", t->instants, name, t->instant_count);
    MEMBER("instants", "track", t->instants, track, t->instant_count);
    MEMBER("instants", "is_counter", t->instants, is_counter, t->instant_count);
    MEMBER("shapes", "dims", t->shapes, dims, t->shape_count);
    MEMBER("shapes", "strides", t->shapes, strides, t->shape_count);
    MEMBER("shapes", "types", t->shapes, types, t->shape_count);
    MEMBER("shapes", "concrete", t->shapes, concrete, t->shape_count);
    MEMBER("stacks", "parent", t->stacks, parent, t->stack_count);
    MEMBER("stacks", "frame", t->stacks, frame, t->stack_count);
}

mtp_status mtp_trace_columns(const mtp_trace *trace, mtp_columns *out)
{
    if (trace == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace or out is NULL");
    mtp_status status = MTP__ABI_CHECK(out, mtp_columns, column);
    if (status != MTP_OK)
        return status;
    out->count = 0;
    add_spans(out, trace);
    add_details(out, trace);
    add_tracks(out, trace);
    add_memory(out, trace);
    add_others(out, trace);
    return MTP_OK;
}

const char *mtp_trace_name(const mtp_trace *trace, uint32_t id, size_t *length)
{
    mtp_text text = {"", 0};
    if (trace != NULL && id <= mtp__intern_count(&trace->text))
        text = mtp__trace_get_text(trace, id);
    if (length != NULL)
        *length = text.length;
    return text.bytes;
}

size_t mtp_trace_name_count(const mtp_trace *trace)
{
    return trace != NULL ? (size_t)mtp__intern_count(&trace->text) + 1 : 0;
}

const char *mtp_category_text(uint32_t category)
{
    static const char *const text[] = {
#define X(sym, spelling) spelling,
        MTP__CATEGORY_LIST(X)
#undef X
    };
    return category < MTP__CATEGORIES ? text[category] : "";
}
