/* present/parquet/tables.c - the tables beside the spans: memory, steps, instants, names, shapes, stacks, threads, losses,
 * metadata. */
#include <stdio.h>
#include <string.h>
#include "base/grow.h"
#include "present/parquet/tables.h"

/* A column of the row at `r`: one expression; NULL where `is` is false. */
#define COLUMN(column, row_type, rows, is, expression)                                                       \
    static bool column(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)     \
    {                                                                                                        \
        const mtp__parquet_source *s = source;                                                               \
        const mtp_trace *t = s->t;                                                                           \
        (void)t;                                                                                             \
        for (size_t i = 0; i < count; i++) {                                                                 \
            size_t at = first + i;                                                                           \
            const row_type *r = &(rows)[at];                                                                 \
            bool there = (is);                                                                               \
            (void)r;                                                                                         \
            value[i] = there ? (int64_t)(expression) : 0;                                                    \
            if (present != NULL)                                                                             \
                present[i] = there;                                                                          \
        }                                                                                                    \
        return true;                                                                                         \
    }
#define REQUIRED(name, kind, fill)                                                                           \
    {                                                                                                        \
        name, MTP__PARQUET_##kind, false, fill, NULL, false                                                  \
    }
#define OPTIONAL(name, kind, fill)                                                                           \
    {                                                                                                        \
        name, MTP__PARQUET_##kind, true, fill, NULL, false                                                   \
    }
#define TEXT(name, fill)                                                                                     \
    {                                                                                                        \
        name, MTP__PARQUET_TEXT, true, fill, mtp__parquet_trace_text, false                                  \
    }
#define NAME(name, fill)                                                                                     \
    {                                                                                                        \
        name, MTP__PARQUET_TEXT, false, fill, mtp__parquet_trace_text, false                                 \
    }
#define TABLE(table)                                                                                         \
    const mtp__parquet_table mtp__parquet_##table = {#table, table, sizeof table / sizeof *table}

/* Where an instant or a memory event happened. */
#define ON_TRACK (r->track < t->track_count)

/* ------------------------------------------------------------------------------------------------ memory */

#define MEMORY(column, is, expression) COLUMN(memory_##column, mtp__memory, t->memory, is, expression)
MEMORY(time, true, mtp__parquet_time(t, r->ts))
MEMORY(thread, ON_TRACK, r->track)
MEMORY(pid, ON_TRACK, t->tracks[r->track].pid)
MEMORY(tid, ON_TRACK, t->tracks[r->track].tid)
MEMORY(device_type, true, r->device_type)
MEMORY(device_index, r->device_index >= 0, r->device_index)
MEMORY(address, true, r->address)
MEMORY(bytes, true, r->bytes)
MEMORY(allocated, r->total_allocated >= 0, r->total_allocated)
MEMORY(reserved, r->total_reserved >= 0, r->total_reserved)
MEMORY(in_span, true, s->covered[at])
MEMORY(span, s->contexts[at].op != MTP__NONE, s->contexts[at].op)
MEMORY(op, s->contexts[at].op != MTP__NONE, t->name[s->contexts[at].op])

static const mtp__parquet_column memory[] = {
    REQUIRED("time_ns", I64, memory_time),
    OPTIONAL("thread", I32, memory_thread),
    OPTIONAL("pid", I64, memory_pid),
    OPTIONAL("tid", I64, memory_tid),
    REQUIRED("device_type", I32, memory_device_type),
    OPTIONAL("device_index", I32, memory_device_index),
    REQUIRED("address", U64, memory_address),
    REQUIRED("bytes", I64, memory_bytes),
    OPTIONAL("total_allocated", I64, memory_allocated),
    OPTIONAL("total_reserved", I64, memory_reserved),
    REQUIRED("in_span", BOOL, memory_in_span),
    OPTIONAL("span", I64, memory_span),
    TEXT("op", memory_op),
};
TABLE(memory);

/* ------------------------------------------------------------------------------------------------- steps */

#define STEP(column, is, expression)                                                                         \
    COLUMN(step_##column, mtp_step_row, mtp_steps_row(s->steps, 0), is, expression)
STEP(number, s->has_steps, r->number)
STEP(pid, t->pid != 0 || mtp_steps_process(s->steps) != 0,
     mtp_steps_process(s->steps) != 0 ? mtp_steps_process(s->steps) : (int64_t)t->pid)
STEP(start, true, mtp__parquet_time(t, r->start_ns))
STEP(duration, true, mtp__minus(r->end_ns, r->start_ns))
STEP(cpu, true, r->times.cpu_ns)
STEP(device, true, r->times.device_ns)
STEP(both, true, r->times.both_ns)
STEP(idle, true, r->times.idle_ns)
STEP(ops, true, r->ops)
STEP(kernels, true, r->kernels)
STEP(outlier, true, r->is_outlier)

static const mtp__parquet_column steps[] = {
    OPTIONAL("step", I64, step_number),      OPTIONAL("pid", I64, step_pid),
    REQUIRED("start_ns", I64, step_start),   REQUIRED("dur_ns", I64, step_duration),
    REQUIRED("cpu_ns", I64, step_cpu),       REQUIRED("device_ns", I64, step_device),
    REQUIRED("both_ns", I64, step_both),     REQUIRED("idle_ns", I64, step_idle),
    REQUIRED("ops", I64, step_ops),          REQUIRED("kernels", I64, step_kernels),
    REQUIRED("outlier", BOOL, step_outlier),
};
TABLE(steps);

/* ---------------------------------------------------------------------------------------------- instants */

static int64_t bits_of(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#define INSTANT(column, is, expression) COLUMN(instant_##column, mtp__instant, t->instants, is, expression)
INSTANT(time, true, mtp__parquet_time(t, r->ts))
INSTANT(thread, ON_TRACK, r->track)
INSTANT(pid, ON_TRACK, t->tracks[r->track].pid)
INSTANT(tid, ON_TRACK, t->tracks[r->track].tid)
INSTANT(name, true, r->name)
INSTANT(category, r->category != 0, r->category)
INSTANT(value, r->is_counter, bits_of(r->value))
INSTANT(args, r->args != 0, r->args)

static const mtp__parquet_column instants[] = {
    REQUIRED("time_ns", I64, instant_time),
    OPTIONAL("thread", I32, instant_thread),
    OPTIONAL("pid", I64, instant_pid),
    OPTIONAL("tid", I64, instant_tid),
    NAME("name", instant_name),
    TEXT("category", instant_category),
    OPTIONAL("value", F64, instant_value),
    {"args", MTP__PARQUET_TEXT, true, instant_args, mtp__parquet_trace_text, true},
};
TABLE(instants);

/* ------------------------------------------------------------------------------- names, shapes and stacks */

#define OF_NAME(column, expression) COLUMN(name_##column, mtp__parquet_name, s->names, true, expression)
OF_NAME(name, r->name)
OF_NAME(spans, r->spans)
OF_NAME(total, r->total_ns)
OF_NAME(self, r->self_ns)
OF_NAME(min, r->min_ns)
OF_NAME(max, r->max_ns)

static const mtp__parquet_column names[] = {
    NAME("name", name_name),
    REQUIRED("spans", I64, name_spans),
    REQUIRED("total_ns", I64, name_total),
    REQUIRED("self_ns", I64, name_self),
    REQUIRED("min_ns", I64, name_min),
    REQUIRED("max_ns", I64, name_max),
};
TABLE(names);

/* Row 0 of shapes and of stacks is the empty one: it is not written. */
#define SHAPE(column) COLUMN(shape_##column, mtp__shape, t->shapes + 1, r->column != 0, r->column)
COLUMN(shape_number, mtp__shape, t->shapes + 1, true, at + 1)
SHAPE(dims)
SHAPE(strides)
SHAPE(types)
SHAPE(concrete)

static const mtp__parquet_column shapes[] = {
    REQUIRED("shape", I64, shape_number), TEXT("dims", shape_dims),         TEXT("strides", shape_strides),
    TEXT("types", shape_types),           TEXT("concrete", shape_concrete),
};
TABLE(shapes);

#define STACK(column, is, expression) COLUMN(stack_##column, mtp__stack_node, t->stacks + 1, is, expression)
STACK(number, true, at + 1)
STACK(parent, r->parent != 0, r->parent)
STACK(frame, true, r->frame)

static const mtp__parquet_column stacks[] = {
    REQUIRED("stack", I64, stack_number),
    OPTIONAL("parent", I64, stack_parent),
    NAME("frame", stack_frame),
};
TABLE(stacks);

/* ---------------------------------------------------------------------------------------------- threads */

/* The process of a track; processes are few. */
static const mtp__process *process_of(const mtp_trace *t, const mtp__track *track)
{
    for (uint32_t i = 0; i < t->process_count; i++) {
        const mtp__process *p = &t->processes[i];
        if (p->pid == track->pid && p->pid_text == track->pid_text &&
            (p->on_device == track->on_device || !mtp__is_recording(t)))
            return p;
    }
    static const mtp__process none;
    return &none;
}

#define THREAD(column, is, expression) COLUMN(thread_##column, mtp__track, t->tracks, is, expression)
THREAD(thread, true, at)
THREAD(pid, true, r->pid)
THREAD(tid, true, r->tid)
THREAD(pid_text, r->pid_text != 0, r->pid_text)
THREAD(tid_text, r->tid_text != 0, r->tid_text)
THREAD(name, r->name != 0, r->name)
THREAD(process, process_of(t, r)->name != 0, process_of(t, r)->name)
THREAD(labels, process_of(t, r)->labels != 0, process_of(t, r)->labels)
THREAD(on_device, true, r->on_device)
THREAD(spans, true, r->count)

static const mtp__parquet_column threads[] = {
    REQUIRED("thread", I32, thread_thread),
    REQUIRED("pid", I64, thread_pid),
    REQUIRED("tid", I64, thread_tid),
    TEXT("pid_text", thread_pid_text),
    TEXT("tid_text", thread_tid_text),
    TEXT("name", thread_name),
    TEXT("process", thread_process),
    TEXT("labels", thread_labels),
    REQUIRED("on_device", BOOL, thread_on_device),
    REQUIRED("spans", I64, thread_spans),
};
TABLE(threads);

/* ------------------------------------------------------------------------------------ losses and metadata */

/* A fact's own texts have numbers beyond those of the trace: two for each fact. */
static int64_t own_text(const mtp__parquet_source *s, size_t fact, bool value)
{
    return (int64_t)mtp__intern_count(&s->t->text) + 1 + 2 * (int64_t)fact + value;
}

static mtp_text fact_text(const mtp__parquet_source *s, const mtp__parquet_fact *facts, int64_t id)
{
    int64_t own = id - (int64_t)mtp__intern_count(&s->t->text) - 1;
    if (own < 0)
        return mtp__trace_get_text(s->t, (uint32_t)id);
    const mtp__parquet_fact *f = &facts[own / 2];
    const char *text = own % 2 != 0 ? f->value : f->key;
    return (mtp_text){text, strlen(text)};
}

static mtp_text metadata_text(const void *source, int64_t id)
{
    const mtp__parquet_source *s = source;
    return fact_text(s, s->metadata, id);
}

static mtp_text loss_text(const void *source, int64_t id)
{
    const mtp__parquet_source *s = source;
    return fact_text(s, s->losses, id);
}

#define FACT(column, rows, is, expression) COLUMN(column, mtp__parquet_fact, s->rows, is, expression)
FACT(metadata_key, metadata, true, r->key != NULL ? own_text(s, at, false) : r->id)
FACT(metadata_value, metadata, true, r->json != 0 ? r->json : own_text(s, at, true))
FACT(loss_file, losses, r->file != 0, r->file)
FACT(loss_pid, losses, r->pid != 0, r->pid)
FACT(loss_cause, losses, true, own_text(s, at, false))
FACT(loss_records, losses, true, r->records)

static const mtp__parquet_column metadata[] = {
    {"key", MTP__PARQUET_TEXT, false, metadata_key, metadata_text, false},
    {"value", MTP__PARQUET_TEXT, false, metadata_value, metadata_text, false},
};
TABLE(metadata);

static const mtp__parquet_column losses[] = {
    {"file", MTP__PARQUET_TEXT, true, loss_file, loss_text, false},
    OPTIONAL("pid", I64, loss_pid),
    {"cause", MTP__PARQUET_TEXT, false, loss_cause, loss_text, false},
    REQUIRED("records", I64, loss_records),
};
TABLE(losses);

static bool add_metadata(mtp__parquet_source *s, const mtp__parquet_fact *fact)
{
    if (!MTP__GROW(s->metadata, s->metadata_room, s->metadata_count, s->metadata_count + 1, 32))
        return false;
    s->metadata[s->metadata_count++] = *fact;
    return true;
}

static bool add_number(mtp__parquet_source *s, const char *key, long long number)
{
    mtp__parquet_fact fact = {.key = key};
    snprintf(fact.value, sizeof fact.value, "%lld", number);
    return add_metadata(s, &fact);
}

static bool add_loss(mtp__parquet_source *s, uint32_t file, uint64_t pid, const char *cause, uint64_t records)
{
    if (!MTP__GROW(s->losses, s->loss_room, s->loss_count, s->loss_count + 1, 32))
        return false;
    s->losses[s->loss_count++] =
        (mtp__parquet_fact){.key = cause, .file = file, .pid = (int64_t)pid, .records = (int64_t)records};
    return true;
}

/* Of a recording: what was emitted and kept, always; else only what was lost. */
static bool add_losses(mtp__parquet_source *s, uint32_t file, uint64_t pid, const mtp_trace_info *info)
{
    const mtp_ledger *l = &info->ledger;
    const struct {
        const char *cause;
        uint64_t records;
    } faults[] = {
        {"definitions", l->lost_definitions},     {"damaged chunks", info->damaged_chunks},
        {"missing chunks", info->missing_chunks}, {"unfinished scopes", info->unfinished},
        {"unmatched ends", info->unmatched_ends}, {"clock faults", info->clock_faults},
        {"skipped events", info->skipped_events}, {"bad durations", info->bad_durations},
    };
    bool fine = !info->has_ledger ||
                (add_loss(s, file, pid, "emitted", l->emitted) && add_loss(s, file, pid, "kept", l->kept));
    for (int k = 0; k < MTP_DROP_CAUSES && fine && info->has_ledger; k++)
        if (l->dropped_by[k] > 0)
            fine = add_loss(s, file, pid, mtp_drop_text((mtp_drop)k), l->dropped_by[k]);
    for (size_t i = 0; i < sizeof faults / sizeof *faults && fine; i++)
        if (faults[i].records > 0)
            fine = add_loss(s, file, pid, faults[i].cause, faults[i].records);
    return fine;
}

bool mtp__parquet_facts(mtp__parquet_source *s)
{
    const mtp_trace *t = s->t;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    bool fine = add_number(s, "mtprof.schema", 1) && add_number(s, "mtprof.base_ns", t->base_ns) &&
                add_number(s, "mtprof.first_ns", mtp__parquet_time(t, t->first_ns)) &&
                add_number(s, "mtprof.last_ns", mtp__parquet_time(t, t->last_ns)) &&
                add_number(s, "mtprof.pid", (long long)t->pid);
    for (uint32_t i = 0; i < t->metadata_count && fine; i++)
        fine = add_metadata(s, &(mtp__parquet_fact){.id = t->metadata[i].key, .json = t->metadata[i].json});
    for (uint32_t i = 0; i < t->recording_count && fine; i++) {
        const mtp__joined *r = &t->recordings[i];
        fine = r->problem != 0 ? add_loss(s, r->file, r->pid, "unreadable file", 1)
                               : add_losses(s, r->file, r->pid, &r->info);
    }
    if (fine && t->recording_count == 0)
        fine = mtp_trace_get_info(t, &info) != MTP_OK || add_losses(s, 0, t->pid, &info);
    return fine;
}
