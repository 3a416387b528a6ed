/* present/parquet/spans.c - the table of spans: calls of the host and work of devices, one row each.
 *
 * Each function fills in one column of a batch; see mtprof__parquet_fill. Spans of a track follow each other, and their
 * starts ascend, so that most columns are found by going on from the row before.
 */
#include <string.h>
#include "analyze/events.h"
#include "analyze/flops.h"
#include "base/bisect.h"
#include "present/parquet/tables.h"

#define SOURCE                                                                                               \
    const mtp__parquet_source *s = source;                                                                   \
    const mtp_trace *t = s->t;                                                                               \
    (void)t
/* A column whose value of `span` is one expression; NULL where `is` is false. */
#define COLUMN(column, is, expression)                                                                       \
    static bool fill_##column(const void *source, size_t first, size_t count, int64_t *value,                \
                              uint8_t *present)                                                              \
    {                                                                                                        \
        SOURCE;                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                                 \
            uint32_t span = (uint32_t)(first + i);                                                           \
            bool there = (is);                                                                               \
            value[i] = there ? (int64_t)(expression) : 0;                                                    \
            if (present != NULL)                                                                             \
                present[i] = there;                                                                          \
        }                                                                                                    \
        return true;                                                                                         \
    }

/* ----------------------------------------------------------------------------------------- what and when */

COLUMN(span, true, span)
COLUMN(parent, t->parent[span] != MTP__NONE, t->parent[span])
COLUMN(depth, true, ((const uint32_t *)s->depth.p)[span])
COLUMN(name, true, t->name[span])
COLUMN(kind, true, mtp__event_kind_of(t, span))
COLUMN(start, true, mtp__parquet_time(t, mtp__plus(t->start[span], mtp__trim(t, span))))
COLUMN(duration, true, mtp__parquet_duration(t, span))
COLUMN(unfinished, true, (t->flags[span] & MTP__SPAN_UNFINISHED) != 0)

/* Its name as averages have it, if that is another. */
static uint32_t key_of(const mtp__parquet_source *s, uint32_t span)
{
    uint32_t key = ((const uint32_t *)s->group.key_of.p)[s->t->name[span]];
    return key != 0 && key - 1 != MTP__KEY_NONE ? key - 1 : 0;
}

static bool differs(const mtp__parquet_source *s, uint32_t span)
{
    uint32_t key = key_of(s, span);
    if (key == 0)
        return false;
    const mtp__intern_entry *entry = mtp__intern_get(&s->keys, key);
    mtp_text name = mtp__trace_get_text(s->t, s->t->name[span]);
    return entry->length != name.length || memcmp(entry->bytes, name.bytes, name.length) != 0;
}

/* Names repeat: whether the last few differ from their keys is remembered. */
static bool fill_key(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    enum {
        KNOWN = 256
    };
    SOURCE;
    uint32_t known[KNOWN] = {0}; /* (name + 1) << 1 | differs */
    for (size_t i = 0; i < count; i++) {
        uint32_t span = (uint32_t)(first + i), name = t->name[span] + 1, *at = &known[name % KNOWN];
        if (*at >> 1 != (name & UINT32_MAX >> 1))
            *at = name << 1 | differs(s, span);
        present[i] = *at & 1;
        value[i] = present[i] ? key_of(s, span) : 0;
    }
    return true;
}

static mtp_text key_text(const void *source, int64_t id)
{
    const mtp__parquet_source *s = source;
    const mtp__intern_entry *entry = mtp__intern_get(&s->keys, (uint32_t)id);
    return (mtp_text){(const char *)entry->bytes, entry->length};
}

static mtp_text kind_text(const void *source, int64_t id)
{
    (void)source;
    const char *text = mtp_event_kind_text((mtp_event_kind)id);
    return (mtp_text){text, strlen(text)};
}

/* ------------------------------------------------------------------------------------------------- where */

/* As COLUMN, with the span's track. */
#define PLACE(column, expression)                                                                            \
    static bool fill_##column(const void *source, size_t first, size_t count, int64_t *value,                \
                              uint8_t *present)                                                              \
    {                                                                                                        \
        SOURCE;                                                                                              \
        (void)present;                                                                                       \
        uint32_t track = mtp__trace_track_of(t, (uint32_t)first);                                            \
        for (size_t i = 0; i < count; i++) {                                                                 \
            uint32_t span = (uint32_t)(first + i);                                                           \
            while (span - t->tracks[track].first >= t->tracks[track].count)                                  \
                track++;                                                                                     \
            value[i] = (int64_t)(expression);                                                                \
        }                                                                                                    \
        return true;                                                                                         \
    }
PLACE(thread, track)
PLACE(pid, t->tracks[track].pid)
PLACE(tid, t->tracks[track].tid)
PLACE(on_device, t->tracks[track].on_device || mtp__group_class(&s->group, span) == MTP__CLASS_DEVICE ||
                     mtp__group_class(&s->group, span) == MTP__CLASS_DEVICE_ANNOTATION)

static bool fill_step(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    SOURCE;
    if (!s->has_steps)
        return false;
    uint32_t steps = (uint32_t)mtp_steps_count(s->steps);
    const mtp_step_row *row = NULL;
    for (size_t i = 0; i < count; i++) {
        int64_t ts = t->start[first + i];
        if (row == NULL || ts < row->start_ns || ts >= row->end_ns) {
            uint32_t low = 0, high = steps;
            MTP__BISECT(low, high, mid, mtp_steps_row(s->steps, mid)->start_ns <= ts)
            row = low > 0 ? mtp_steps_row(s->steps, low - 1) : NULL;
        }
        present[i] = row != NULL && ts < row->end_ns;
        value[i] = row != NULL ? row->number : 0;
    }
    return true;
}

/* ---------------------------------------------------------------------------------- as averages sum it up */

static inline bool is_counted(const mtp__parquet_source *s, uint32_t span)
{
    uint32_t row = mtp__parquet_row(s, span);
    return row != 0 && s->group.sum[row - 1].class != MTP__CLASS_PYTHON;
}

static inline bool has_self(const mtp__parquet_source *s, uint32_t span) /* an event of the host */
{
    uint32_t row = mtp__parquet_row(s, span);
    return row != 0 && s->group.sum[row - 1].class < MTP__CLASS_DEVICE;
}
COLUMN(counted, true, is_counted(s, span))
COLUMN(self, has_self(s, span), mtp__parquet_self(s, span))

static bool fill_device_part(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present,
                             unsigned part)
{
    SOURCE;
    const double *us = s->walk.device_us.p;
    if (us == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t span = (uint32_t)(first + i);
        double ns = us[2 * (size_t)span + part] * 1000;
        present[i] = has_self(s, span) && ns != 0;
        value[i] = present[i] ? ns >= 0x1p62   ? INT64_MAX
                                : ns < -0x1p62 ? INT64_MIN
                                               : (int64_t)(ns + (ns < 0 ? -0.5 : 0.5))
                              : 0;
    }
    return true;
}

static bool fill_device(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    return fill_device_part(source, first, count, value, present, 0);
}

static bool fill_self_device(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    return fill_device_part(source, first, count, value, present, 1);
}

static bool fill_bytes_part(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present,
                            unsigned part)
{
    SOURCE;
    if (s->walk.self_memory.p == NULL || (part == 1 && !s->has_device_memory))
        return false;
    mtp__bytes at = s->bytes; /* it caches the last position */
    for (size_t i = 0; i < count; i++) {
        uint32_t span = (uint32_t)(first + i);
        int64_t sum[2] = {0, 0};
        if (has_self(s, span))
            mtp__bytes_within(&at, t->start[span], t->end[span], false, sum);
        value[i] = sum[part];
        present[i] = sum[part] != 0;
    }
    return true;
}

static bool fill_cpu_bytes(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    return fill_bytes_part(source, first, count, value, present, 0);
}

static bool fill_device_bytes(const void *source, size_t first, size_t count, int64_t *value,
                              uint8_t *present)
{
    return fill_bytes_part(source, first, count, value, present, 1);
}

static bool fill_self_bytes(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present,
                            unsigned part)
{
    SOURCE;
    const int64_t *self = s->walk.self_memory.p;
    if (self == NULL || (part == 1 && !s->has_device_memory))
        return false;
    for (size_t i = 0; i < count; i++) {
        value[i] = self[2 * (first + i) + part];
        present[i] = value[i] != 0 && has_self(s, (uint32_t)(first + i));
    }
    return true;
}

static bool fill_self_cpu_bytes(const void *source, size_t first, size_t count, int64_t *value,
                                uint8_t *present)
{
    return fill_self_bytes(source, first, count, value, present, 0);
}

static bool fill_self_device_bytes(const void *source, size_t first, size_t count, int64_t *value,
                                   uint8_t *present)
{
    return fill_self_bytes(source, first, count, value, present, 1);
}

/* A formula's result: a shape nearly always belongs to one op. */
typedef struct flops_of_shape {
    uint64_t flops;
    uint64_t key; /* 0: none yet */
} flops_of_shape;

static uint64_t flops_of(const mtp__parquet_source *s, uint32_t span, const mtp__detail *d)
{
    uint32_t key = key_of(s, span);
    if (d->flops != 0 || !s->has_flops || d->shape == 0 || key == 0)
        return d->flops;
    flops_of_shape *known = (flops_of_shape *)s->flops.p + d->shape;
    if (known->key != key) {
        known->key = key;
        known->flops = mtp__flops_torch(s->t, (const char *)mtp__intern_get(&s->keys, key)->bytes, d->shape);
    }
    return known->flops;
}

static bool fill_flops(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    SOURCE;
    bool any = false;
    for (size_t i = 0; i < count && t->detail != NULL; i++) {
        uint32_t span = (uint32_t)(first + i);
        value[i] = t->category[span] == MTP__CATEGORY_CPU_OP
                       ? (int64_t)flops_of(s, span, mtp__trace_detail(t, span))
                       : 0;
        present[i] = value[i] != 0;
        any |= present[i];
    }
    return any;
}

/* ----------------------------------------------------------------------------------------------- details */

/* X(column, is it there, value) of a detail d; most traces have few of them, which one look at all details shows. */
#define DETAILS(X)                                                                                           \
    X(category, d->category != 0, d->category)                                                               \
    X(correlation, d->correlation != 0, d->correlation)                                                      \
    X(external_id, d->external_id != 0, d->external_id)                                                      \
    X(sequence, d->sequence >= 0, d->sequence)                                                               \
    X(forward_thread, d->forward_thread != 0, d->forward_thread)                                             \
    X(bytes, d->bytes != 0, d->bytes)                                                                        \
    X(queued, d->queued_ns != INT64_MIN, d->queued_ns)                                                       \
    X(allocated_before, d->allocated_before >= 0, d->allocated_before)                                       \
    X(allocated_after, d->allocated_after >= 0, d->allocated_after)                                          \
    X(op_device, d->device != 0xffff, d->device)                                                             \
    X(dims, t->shapes[d->shape].dims != 0, t->shapes[d->shape].dims)                                         \
    X(shape, d->shape != 0, d->shape)                                                                        \
    X(outputs, d->outputs != 0, d->outputs)                                                                  \
    X(stack, d->stack != 0, d->stack)                                                                        \
    X(grid_x, d->grid[0] != 0, d->grid[0])                                                                   \
    X(grid_y, d->grid[1] != 0, d->grid[1])                                                                   \
    X(grid_z, d->grid[2] != 0, d->grid[2])                                                                   \
    X(block_x, d->block[0] != 0, d->block[0])                                                                \
    X(block_y, d->block[1] != 0, d->block[1])                                                                \
    X(block_z, d->block[2] != 0, d->block[2])                                                                \
    X(args, d->args != 0, d->args)

enum {
#define X(column, is, expression) BIT_##column,
    DETAILS(X)
#undef X
};

uint64_t mtp__parquet_details(const mtp_trace *t)
{
    uint64_t has = 0;
    for (uint32_t i = 1; i < t->detail_count; i++) {
        const mtp__detail *d = &t->details[i];
#define X(column, is, expression) has |= (uint64_t)(is) << BIT_##column;
        DETAILS(X)
#undef X
    }
    return has;
}

#define X(column, is, expression)                                                                            \
    static bool fill_##column(const void *source, size_t first, size_t count, int64_t *value,                \
                              uint8_t *present)                                                              \
    {                                                                                                        \
        SOURCE;                                                                                              \
        if (t->detail == NULL || (s->has >> BIT_##column & 1) == 0)                                          \
            return false;                                                                                    \
        for (size_t i = 0; i < count; i++) {                                                                 \
            const mtp__detail *d = &t->details[t->detail[first + i]];                                        \
            present[i] = (is);                                                                               \
            value[i] = (int64_t)(expression);                                                                \
        }                                                                                                    \
        return true;                                                                                         \
    }
DETAILS(X)
#undef X

static bool fill_launcher(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    SOURCE;
    for (size_t i = 0; i < count && t->launcher != NULL; i++) {
        value[i] = t->launcher[first + i];
        present[i] = t->launcher[first + i] != MTP__NONE;
    }
    return t->launcher != NULL;
}

/* ----------------------------------------------------------------------------------------------- columns */

#define REQUIRED(name, kind, fill)                                                                           \
    {                                                                                                        \
        name, MTP__PARQUET_##kind, false, fill_##fill, NULL, false                                           \
    }
#define OPTIONAL(name, kind, fill)                                                                           \
    {                                                                                                        \
        name, MTP__PARQUET_##kind, true, fill_##fill, NULL, false                                            \
    }
#define TEXT(name, fill)                                                                                     \
    {                                                                                                        \
        name, MTP__PARQUET_TEXT, true, fill_##fill, mtp__parquet_trace_text, false                           \
    }

static const mtp__parquet_column columns[] = {
    REQUIRED("span", I64, span),
    OPTIONAL("parent", I64, parent),
    REQUIRED("depth", I32, depth),
    REQUIRED("thread", I32, thread),
    REQUIRED("pid", I64, pid),
    REQUIRED("tid", I64, tid),
    REQUIRED("on_device", BOOL, on_device),
    {"kind", MTP__PARQUET_TEXT, false, fill_kind, kind_text, false},
    {"name", MTP__PARQUET_TEXT, false, fill_name, mtp__parquet_trace_text, false},
    {"key", MTP__PARQUET_TEXT, true, fill_key, key_text, false},
    TEXT("category", category),
    REQUIRED("start_ns", I64, start),
    REQUIRED("dur_ns", I64, duration),
    OPTIONAL("self_ns", I64, self),
    OPTIONAL("step", I64, step),
    REQUIRED("counted", BOOL, counted),
    REQUIRED("unfinished", BOOL, unfinished),
    OPTIONAL("device_ns", I64, device),
    OPTIONAL("self_device_ns", I64, self_device),
    OPTIONAL("cpu_bytes", I64, cpu_bytes),
    OPTIONAL("self_cpu_bytes", I64, self_cpu_bytes),
    OPTIONAL("device_bytes", I64, device_bytes),
    OPTIONAL("self_device_bytes", I64, self_device_bytes),
    OPTIONAL("launcher", I64, launcher),
    OPTIONAL("correlation", I64, correlation),
    OPTIONAL("external_id", I64, external_id),
    OPTIONAL("sequence", I64, sequence),
    OPTIONAL("forward_thread", I64, forward_thread),
    OPTIONAL("flops", I64, flops),
    OPTIONAL("bytes", I64, bytes),
    OPTIONAL("queued_ns", I64, queued),
    OPTIONAL("allocated_before", I64, allocated_before),
    OPTIONAL("allocated_after", I64, allocated_after),
    OPTIONAL("op_device", I32, op_device),
    TEXT("input_dims", dims),
    OPTIONAL("shape", I64, shape),
    OPTIONAL("outputs", I64, outputs),
    OPTIONAL("stack", I64, stack),
    OPTIONAL("grid_x", I64, grid_x),
    OPTIONAL("grid_y", I64, grid_y),
    OPTIONAL("grid_z", I64, grid_z),
    OPTIONAL("block_x", I64, block_x),
    OPTIONAL("block_y", I64, block_y),
    OPTIONAL("block_z", I64, block_z),
    {"args", MTP__PARQUET_TEXT, true, fill_args, mtp__parquet_trace_text, true},
};

const mtp__parquet_table mtp__parquet_spans = {"spans", columns, sizeof columns / sizeof *columns};
