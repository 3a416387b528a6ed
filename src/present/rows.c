/* present/rows.c - averages in machine-readable form: a JSON list, CSV, and one Chrome event per row. */
#include <string.h>
#include "analyze/averages.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/os.h"
#include "base/out.h"
#include "present/plain_text.h"

/* X(torch's name, type, expression over row): all numbers of a row, in column order. */
#define NUMBER_LIST(X)                                                                                       \
    X(count, u64, row->count)                                                                                \
    X(cpu_time_total, double, row->cpu_time_total)                                                           \
    X(self_cpu_time_total, double, row->self_cpu_time_total)                                                 \
    X(cpu_time, double, row->count != 0 ? row->cpu_time_total / (double)row->count : 0)                      \
    X(device_time_total, double, row->device_time_total)                                                     \
    X(self_device_time_total, double, row->self_device_time_total)                                           \
    X(device_time, double, row->count != 0 ? row->device_time_total / (double)row->count : 0)                \
    X(cpu_memory_usage, i64, row->cpu_memory_usage)                                                          \
    X(self_cpu_memory_usage, i64, row->self_cpu_memory_usage)                                                \
    X(device_memory_usage, i64, row->device_memory_usage)                                                    \
    X(self_device_memory_usage, i64, row->self_device_memory_usage)                                          \
    X(flops, u64, row->flops)                                                                                \
    X(min, double, row->min)                                                                                 \
    X(p50, double, row->p50)                                                                                 \
    X(p99, double, row->p99)                                                                                 \
    X(max, double, row->max)

static void put_device_type(mtp__out *o, const mtp_averages *a, const mtp_row *row)
{
    MTP__OUT(o, "DeviceType.");
    mtp__out_text(o, row->is_device ? a->device_name : "CPU");
}

void mtp_averages_limit(mtp_averages *averages, int64_t rows)
{
    if (averages != NULL)
        averages->written = rows >= 0 && (uint64_t)rows < averages->count ? (size_t)rows : averages->count;
}

/* --------------------------------------------------------------------------------------------------- JSON */

static void put_json(mtp__out *o, const mtp_averages *a, const mtp_row *row)
{
    MTP__OUT(o, "{\"key\": ");
    mtp__out_string(o, row->key, row->key_length);
    MTP__OUT(o, ", \"overload_name\": ");
    mtp__out_string(o, row->overload_name, strlen(row->overload_name));
    MTP__OUT(o, ", \"device_type\": \"");
    put_device_type(o, a, row);
    MTP__OUT(o, "\"");
#define X(name, type, expression)                                                                            \
    MTP__OUT(o, ", \"" #name "\": ");                                                                        \
    mtp__out_##type(o, (expression));
    NUMBER_LIST(X)
#undef X
    MTP__OUT(o, ", \"input_shapes\": ");
    mtp__out_string(o, row->input_shapes, strlen(row->input_shapes));
    MTP__OUT(o, ", \"stack\": [");
    for (uint32_t i = 0; i < row->stack_depth; i++) {
        mtp__out_text(o, i > 0 ? ", " : "");
        mtp__out_string(o, row->stack[i], strlen(row->stack[i]));
    }
    MTP__OUT(o, "], \"is_user_annotation\": ");
    mtp__out_text(o, row->is_user_annotation ? "true" : "false");
    MTP__OUT(o, ", \"is_async\": ");
    mtp__out_text(o, row->is_async ? "true}" : "false}");
}

mtp_status mtp_averages_json(const mtp_averages *averages, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, averages, "averages", sink, user);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "[");
    for (size_t i = 0; i < averages->written; i++) {
        mtp__out_text(&o, i > 0 ? ",\n " : "\n ");
        put_json(&o, averages, &averages->row[i].shown);
    }
    MTP__OUT(&o, "\n]\n");
    return mtp__out_finish(&o);
}

/* ---------------------------------------------------------------------------------------------------- CSV */

/* RFC 4180, and plain text as in a table: people open CSV files too. */
static void put_csv_text(mtp__out *o, char *scratch, const char *bytes, size_t length)
{
    mtp__plain text = mtp__plain_text(scratch, bytes, length);
    if (strpbrk(text.bytes, ",\"") == NULL) {
        mtp__out_bytes(o, text.bytes, text.length);
        return;
    }
    MTP__OUT(o, "\"");
    for (const char *p = text.bytes; *p != '\0';) {
        size_t plain = strcspn(p, "\"");
        mtp__out_bytes(o, p, plain);
        p += plain;
        if (*p == '"') {
            MTP__OUT(o, "\"\"");
            p++;
        }
    }
    MTP__OUT(o, "\"");
}

static void put_csv(mtp__out *o, char *scratch, const mtp_averages *a, const mtp_row *row)
{
    put_csv_text(o, scratch, row->key, row->key_length);
    MTP__OUT(o, ",");
    put_csv_text(o, scratch, row->overload_name, strlen(row->overload_name));
    MTP__OUT(o, ",");
    put_device_type(o, a, row);
#define X(name, type, expression)                                                                            \
    MTP__OUT(o, ",");                                                                                        \
    mtp__out_##type(o, (expression));
    NUMBER_LIST(X)
#undef X
    MTP__OUT(o, ",");
    put_csv_text(o, scratch, row->input_shapes, strlen(row->input_shapes));
    MTP__OUT(o, ",");
    size_t length = 0; /* frames joined by ';', as export_stacks does */
    for (uint32_t i = 0; i < row->stack_depth; i++)
        length += strlen(row->stack[i]) + 1;
    char *joined = length > 0 ? mtp__calloc(1, length + 1 + MTP__PLAIN_ROOM(length)) : NULL;
    if (joined != NULL) {
        char *to = joined;
        for (uint32_t i = 0; i < row->stack_depth; i++) {
            size_t n = strlen(row->stack[i]);
            memcpy(to, row->stack[i], n);
            to += n;
            *to++ = ';';
        }
        put_csv_text(o, joined + length + 1, joined, length - 1);
    }
    o->failed |= length > 0 && joined == NULL;
    mtp__free(joined);
    mtp__out_text(o, row->is_user_annotation ? ",true" : ",false");
    mtp__out_text(o, row->is_async ? ",true\r\n" : ",false\r\n");
}

static size_t longest_text(const mtp_averages *a)
{
    size_t most = 0;
    for (size_t i = 0; i < a->count; i++) {
        const mtp_row *row = &a->row[i].shown;
        size_t length[] = {row->key_length, strlen(row->overload_name), strlen(row->input_shapes)};
        for (size_t k = 0; k < sizeof length / sizeof *length; k++)
            most = length[k] > most ? length[k] : most;
    }
    return most;
}

mtp_status mtp_averages_csv(const mtp_averages *averages, mtp_sink *sink, void *user)
{
    mtp__out o;
    char *scratch = mtp__calloc(1, MTP__PLAIN_ROOM(averages != NULL ? longest_text(averages) : 0));
    if (scratch == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a line of CSV");
    mtp_status status = mtp__out_begin(&o, averages, "averages", sink, user);
    if (status == MTP_OK) {
        MTP__OUT(&o, "key,overload_name,device_type");
#define X(name, type, expression) MTP__OUT(&o, "," #name);
        NUMBER_LIST(X)
#undef X
        MTP__OUT(&o, ",input_shapes,stack,is_user_annotation,is_async\r\n");
        for (size_t i = 0; i < averages->written; i++)
            put_csv(&o, scratch, averages, &averages->row[i].shown);
        status = mtp__out_finish(&o);
    }
    mtp__free(scratch);
    return status;
}

/* -------------------------------------------------------------------------------------------------- Chrome */

/* CPU rows are laid end to end on one row of the viewer, device rows on another. */
static void put_chrome(mtp__out *o, const mtp_averages *a, const mtp_row *row, double ts, double dur)
{
    MTP__OUT(o, "{\"ph\": \"X\", \"cat\": \"");
    mtp__out_text(o, row->is_device ? (row->is_user_annotation ? "gpu_user_annotation" : "kernel")
                                    : (row->is_user_annotation ? "user_annotation" : "cpu_op"));
    MTP__OUT(o, "\", \"name\": ");
    mtp__out_string(o, row->key, row->key_length);
    MTP__OUT(o, ", \"pid\": ");
    mtp__out_u64(o, a->pid);
    mtp__out_text(o, row->is_device ? ", \"tid\": 1" : ", \"tid\": 0");
    MTP__OUT(o, ", \"ts\": ");
    mtp__out_double(o, ts);
    MTP__OUT(o, ", \"dur\": ");
    mtp__out_double(o, dur);
    MTP__OUT(o, ", \"args\": ");
    put_json(o, a, row);
    MTP__OUT(o, "}");
}

mtp_status mtp_averages_chrome(const mtp_averages *averages, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, averages, "averages", sink, user);
    if (status != MTP_OK)
        return status;
    double ts[2] = {0, 0};
    MTP__OUT(&o, "{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \"traceEvents\": [");
    for (size_t i = 0; i < averages->written; i++) {
        const mtp_row *row = &averages->row[i].shown;
        double dur = row->is_device ? row->device_time_total : row->cpu_time_total;
        mtp__out_text(&o, i > 0 ? ",\n" : "\n");
        put_chrome(&o, averages, row, ts[row->is_device], dur);
        ts[row->is_device] += dur;
    }
    MTP__OUT(&o, "\n]}\n");
    return mtp__out_finish(&o);
}
