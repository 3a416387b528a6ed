/* present/digest_json.c - digests as JSON. Times in microseconds with 3 decimals, as in `mtprof stats --json`. */
#include <string.h>
#include "analyze/digest/digest.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/os.h"

static void put_us(mtp__out *o, const char *key, int64_t ns)
{
    mtp__out_text(o, key);
    char *p = mtp__out_room(o);
    if (ns < 0)
        *p++ = '-';
    o->at = mtp__put_milli(p, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns);
}

static void put_number(mtp__out *o, const char *key, int64_t number)
{
    mtp__out_text(o, key);
    if (number == MTP_DIGEST_ALL)
        MTP__OUT(o, "null");
    else
        mtp__out_i64(o, number);
}

static void put_who(mtp__out *o, const mtp_digest_entry *e)
{
    MTP__OUT(o, "{\"job\": ");
    mtp__out_string(o, e->job, strlen(e->job));
    MTP__OUT(o, ", \"host\": ");
    mtp__out_string(o, e->host, strlen(e->host));
    put_number(o, ", \"rank\": ", e->rank);
    put_number(o, ", \"step\": ", e->step);
}

static void put_op(mtp__out *o, const mtp_digest *d, size_t entry, size_t i, const mtp_digest_op *op)
{
    double error;
    MTP__OUT(o, "{\"name\": ");
    mtp__out_string(o, op->name.bytes, op->name.length);
    mtp__out_text(o, op->is_device ? ", \"is_device\": true, \"calls\": "
                                   : ", \"is_device\": false, \"calls\": ");
    mtp__out_u64(o, op->calls);
    put_us(o, ", \"self_us\": ", op->self_ns);
    put_us(o, ", \"total_us\": ", op->total_ns);
    put_us(o, ", \"device_us\": ", op->device_ns);
    put_us(o, ", \"min_us\": ", op->min_ns);
    int64_t p50 = mtp_digest_quantile(d, entry, i, 0.5, NULL),
            p99 = mtp_digest_quantile(d, entry, i, 0.99, &error);
    if (p50 != -1) {
        put_us(o, ", \"p50_us\": ", p50);
        put_us(o, ", \"p99_us\": ", p99);
    } else {
        MTP__OUT(o, ", \"p50_us\": null, \"p99_us\": null");
    }
    put_us(o, ", \"max_us\": ", op->max_ns);
    MTP__OUT(o, ", \"p99_error\": ");
    if (p50 != -1)
        mtp__out_double(o, (double)(int64_t)(error * 1e4 + 0.5) / 1e4);
    else
        MTP__OUT(o, "null");
    if (op->names > 1) {
        MTP__OUT(o, ", \"names\": ");
        mtp__out_u64(o, op->names);
    }
    MTP__OUT(o, "}");
}

static void put_entry(mtp__out *o, const mtp_digest *d, size_t i, int64_t limit)
{
    const mtp_digest_entry *e = mtp_digest_entry_at(d, i);
    const mtp_digest_op *op;
    put_who(o, e);
    MTP__OUT(o, ", \"steps\": ");
    mtp__out_u64(o, e->steps);
    MTP__OUT(o, ", \"start_ns\": ");
    mtp__out_i64(o, e->start_ns);
    put_us(o, ", \"wall_us\": ", e->wall_ns);
    put_us(o, ", \"cpu_us\": ", e->cpu_ns);
    put_us(o, ", \"device_us\": ", e->device_ns);
    put_us(o, ", \"both_us\": ", e->both_ns);
    put_us(o, ", \"idle_us\": ", e->idle_ns);
    MTP__OUT(o, ", \"calls\": ");
    mtp__out_u64(o, e->calls);
    put_us(o, ", \"self_us\": ", e->self_ns);
    put_us(o, ", \"self_device_us\": ", e->self_device_ns);
    MTP__OUT(o, ", \"ops\": [");
    for (size_t k = 0; (op = mtp_digest_op_at(d, i, k)) != NULL && (limit < 0 || k < (uint64_t)limit); k++) {
        mtp__out_text(o, k > 0 ? ",\n    " : "\n    ");
        put_op(o, d, i, k, op);
    }
    MTP__OUT(o, "]}");
}

static void put_odd(mtp__out *o, const mtp_digest *d, const mtp__digest_odd *odd)
{
    put_who(o, &d->part[odd->entry].shown);
    const mtp_digest_entry *e = &d->part[odd->entry].shown;
    put_us(o, ", \"wall_us\": ", mtp__digest_per_step(e, e->wall_ns));
    put_us(o, ", \"more_us\": ", odd->more_ns);
    MTP__OUT(o, ", \"because_of\": [");
    for (uint32_t i = 0; i < odd->reason_count; i++) {
        const mtp__digest_reason *r = &odd->reasons[i];
        mtp__out_text(o, i > 0 ? ", {\"what\": " : "{\"what\": ");
        if (r->is_idle)
            MTP__OUT(o, "\"(idle)\"");
        else
            mtp__out_string(o, r->name.bytes, r->name.length);
        mtp__out_text(o, r->is_device ? ", \"is_device\": true" : ", \"is_device\": false");
        put_us(o, ", \"us\": ", r->more_ns);
        MTP__OUT(o, ", \"calls\": ");
        mtp__out_i64(o, r->more_calls);
        MTP__OUT(o, "}");
    }
    MTP__OUT(o, "]}");
}

mtp_status mtp_digest_json(const mtp_digest *d, int64_t limit, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp__digest_odd *odd = NULL;
    size_t count = 0;
    mtp_status status = mtp__out_begin(&o, d, "digest", sink, user);
    if (status != MTP_OK)
        return status;
    status = mtp__digest_odd_steps(d, &odd, &count);
    MTP__OUT(&o, "{\"damaged\": ");
    mtp__out_u64(&o, d->damaged);
    MTP__OUT(&o, ",\n \"odd\": [");
    for (size_t i = 0; i < count; i++) {
        mtp__out_text(&o, i > 0 ? ",\n  " : "\n  ");
        put_odd(&o, d, &odd[i]);
    }
    MTP__OUT(&o, "],\n \"entries\": [");
    for (size_t i = 0; i < d->part_count && status == MTP_OK; i++) {
        mtp__out_text(&o, i > 0 ? ",\n  " : "\n  ");
        put_entry(&o, d, i, limit);
    }
    MTP__OUT(&o, "]}\n");
    mtp__free(odd);
    mtp_status written = mtp__out_finish(&o);
    return status != MTP_OK ? status : written;
}
