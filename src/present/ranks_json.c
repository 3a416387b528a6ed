/* present/ranks_json.c - ranks as JSON. Times in microseconds with 3 decimals; Unix times in nanoseconds, as text, since
 * a double cannot hold them. */
#include "analyze/ranks/ranks.h"
#include "base/error.h"
#include "base/json_out.h"
#include "present/ranks_json.h"

static void put_us(mtp__out *o, const char *key, int64_t ns)
{
    mtp__out_text(o, key);
    char *p = mtp__out_room(o);
    if (ns < 0)
        *p++ = '-';
    o->at = mtp__put_milli(p, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns);
}

static void put_number(mtp__out *o, const char *key, int64_t value)
{
    mtp__out_text(o, key);
    mtp__out_i64(o, value);
}

static void put_text(mtp__out *o, const char *key, const char *text)
{
    mtp__out_text(o, key);
    mtp__out_string(o, text, strlen(text));
}

/* A Unix time in nanoseconds. */
static void put_time(mtp__out *o, const char *key, int64_t ns)
{
    mtp__out_text(o, key);
    MTP__OUT(o, "\"");
    mtp__out_i64(o, ns);
    MTP__OUT(o, "\"");
}

static void put_share(mtp__out *o, const char *key, double share)
{
    mtp__out_text(o, key);
    if (share < 0)
        MTP__OUT(o, "null");
    else
        mtp__out_double(o, (double)(int64_t)(share * 1e9 + 0.5) / 1e9);
}

static void put_times(mtp__out *o, const mtp_rank_times *t)
{
    put_us(o, "\"wall_us\": ", t->wall_ns);
    put_us(o, ", \"compute_us\": ", t->compute_ns);
    put_us(o, ", \"communication_us\": ", t->comm_ns);
    put_us(o, ", \"exposed_us\": ", t->exposed_ns);
    put_us(o, ", \"waiting_us\": ", t->waiting_ns);
    put_us(o, ", \"transfer_us\": ", t->transfer_ns);
    put_us(o, ", \"copies_us\": ", t->copies_ns);
    put_us(o, ", \"idle_us\": ", t->idle_ns);
    put_us(o, ", \"late_us\": ", t->late_ns);
}

static void put_clock(mtp__out *o, const mtp_rank_row *row)
{
    put_text(o, ", \"clock\": {\"by\": ", mtp_clock_by_text(row->clock_by));
    put_time(o, ", \"at_ns\": ", row->clock_at_ns);
    put_number(o, ", \"offset_ns\": ", row->clock_offset_ns);
    MTP__OUT(o, ", \"drift_ppm\": ");
    mtp__out_double(o, row->clock_drift * 1e6);
    if (row->clock_error_ns >= 0)
        put_number(o, ", \"error_ns\": ", row->clock_error_ns);
    else
        MTP__OUT(o, ", \"error_ns\": null");
    MTP__OUT(o, "}");
}

static void put_device(mtp__out *o, const mtp_rank_row *row)
{
    put_us(o, ", \"device\": {\"kernel_us\": ", row->kernel_ns);
    put_us(o, ", \"compute_us\": ", row->kernel_compute_ns);
    put_us(o, ", \"non_compute_us\": ", row->kernel_other_ns);
    put_us(o, ", \"idle_us\": ", row->kernel_idle_ns);
    MTP__OUT(o, "}");
}

static void put_steps(mtp__out *o, const mtp_ranks *r, size_t index)
{
    const mtp_rank_step *s;
    MTP__OUT(o, ", \"steps\": [");
    for (size_t i = 0; (s = mtp_ranks_step(r, index, i)) != NULL; i++) {
        put_number(o, i > 0 ? ",\n  {\"step\": " : "\n  {\"step\": ", s->number);
        put_time(o, ", \"start_ns\": ", s->start_ns);
        MTP__OUT(o, ", ");
        put_times(o, &s->times);
        MTP__OUT(o, "}");
    }
    MTP__OUT(o, "]");
}

static void put_rank(mtp__out *o, const mtp_ranks *r, size_t index, bool steps)
{
    const mtp_rank_row *row = mtp_ranks_row(r, index);
    put_number(o, "{\"rank\": ", row->rank);
    put_text(o, ", \"file\": ", row->file);
    put_text(o, ", \"host\": ", row->host);
    put_text(o, ", \"job\": ", row->job);
    put_text(o, ", \"backend\": ", row->backend);
    put_number(o, ", \"world_size\": ", row->world_size);
    put_number(o, ", \"pid\": ", (int64_t)row->pid);
    put_number(o, ", \"spans\": ", (int64_t)row->spans);
    put_clock(o, row);
    put_number(o, ", \"calls\": ", (int64_t)row->calls);
    put_number(o, ", \"matched\": ", (int64_t)row->matched);
    put_number(o, ", \"last\": ", (int64_t)row->last);
    mtp__out_text(o, row->compute_assumed ? ", \"compute_assumed\": true" : "");
    mtp__out_text(o, row->only_started ? ", \"only_started\": true" : "");
    put_share(o, ", \"overlap\": ", row->overlap);
    if (row->has_device)
        put_device(o, row);
    MTP__OUT(o, ", \"per_step\": {");
    put_times(o, &row->mean);
    MTP__OUT(o, "}");
    if (steps)
        put_steps(o, r, index);
    MTP__OUT(o, "}");
}

static void put_finding(mtp__out *o, const mtp_rank_finding *f)
{
    put_text(o, "{\"id\": ", f->id);
    put_text(o, ", \"title\": ", f->title);
    put_text(o, ", \"text\": ", f->text);
    put_number(o, ", \"rank\": ", f->rank);
    put_number(o, ", \"since_step\": ", f->since_step);
    put_us(o, ", \"per_step_us\": ", f->per_step_ns);
    put_share(o, ", \"share\": ", f->share);
    put_text(o, ", \"op\": ", f->op);
    put_us(o, ", \"op_us\": ", f->op_ns);
    MTP__OUT(o, "}");
}

void mtp__ranks_put(mtp__out *o, const mtp_ranks *r, bool steps)
{
    const mtp_rank_row *row;
    const char *note;
    MTP__OUT(o, "{\"findings\": [");
    for (size_t i = 0; i < mtp_ranks_finding_count(r); i++) {
        mtp__out_text(o, i > 0 ? ",\n " : "\n ");
        put_finding(o, mtp_ranks_finding(r, i));
    }
    MTP__OUT(o, "],\n\"notes\": [");
    for (size_t i = 0; (note = mtp_ranks_note(r, i)) != NULL; i++)
        put_text(o, i > 0 ? ",\n " : "\n ", note);
    MTP__OUT(o, "],\n\"ranks\": [");
    for (size_t i = 0; (row = mtp_ranks_row(r, i)) != NULL && *row->problem == 0; i++) {
        mtp__out_text(o, i > 0 ? ",\n " : "\n ");
        put_rank(o, r, i, steps);
    }
    MTP__OUT(o, "],\n\"left_out\": [");
    bool any = false;
    for (size_t i = 0; (row = mtp_ranks_row(r, i)) != NULL; i++) {
        if (*row->problem == 0)
            continue;
        put_text(o, any ? ",\n {\"file\": " : "\n {\"file\": ", row->file);
        put_text(o, ", \"problem\": ", row->problem);
        MTP__OUT(o, "}");
        any = true;
    }
    MTP__OUT(o, "]}\n");
}

mtp_status mtp_ranks_json(const mtp_ranks *ranks, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, ranks, "ranks", sink, user);
    if (status != MTP_OK)
        return status;
    mtp__ranks_put(&o, ranks, true);
    return mtp__out_finish(&o);
}
