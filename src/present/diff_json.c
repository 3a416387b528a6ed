/* present/diff_json.c - a diff as JSON: the summary, then the rows. Times in microseconds, changes as
 * fractions. */
#include "analyze/diff/diff.h"
#include "base/error.h"
#include "base/json_out.h"

static void put_text(mtp__out *o, const char *name, const char *text, size_t length)
{
    mtp__out_text(o, name);
    mtp__out_string(o, text, length);
}

static void put_number(mtp__out *o, const char *name, double value)
{
    mtp__out_text(o, name);
    mtp__out_double(o, value);
}

static void put_count(mtp__out *o, const char *name, uint64_t value)
{
    mtp__out_text(o, name);
    mtp__out_u64(o, value);
}

static void put_verdict(mtp__out *o, const char *name, mtp_verdict verdict)
{
    const char *text = mtp_verdict_text(verdict);
    put_text(o, name, text, strlen(text));
}

static void put_bool(mtp__out *o, const char *name, bool value)
{
    mtp__out_text(o, name);
    mtp__out_text(o, value ? "true" : "false");
}

static void put_summary(mtp__out *o, const mtp_diff_summary *s)
{
    put_bool(o, "{\"has_drift\": ", s->has_drift);
    put_number(o, ", \"drift\": ", s->drift);
    put_number(o, ", \"spread\": ", s->spread);
    put_verdict(o, ", \"drift_verdict\": ", s->drift_verdict);
    put_count(o, ",\n\"steps_before\": ", s->steps_before);
    put_count(o, ", \"steps_after\": ", s->steps_after);
    put_number(o, ", \"step_before\": ", s->step_before);
    put_number(o, ", \"step_after\": ", s->step_after);
    put_number(o, ", \"step_change\": ", s->step_change);
    put_verdict(o, ", \"step_verdict\": ", s->step_verdict);
    put_number(o, ", \"step_before_min\": ", s->step_before_min);
    put_number(o, ", \"step_before_max\": ", s->step_before_max);
    put_number(o, ", \"step_after_min\": ", s->step_after_min);
    put_number(o, ", \"step_after_max\": ", s->step_after_max);
    put_count(o, ",\n\"same\": ", s->same);
    put_count(o, ", \"faster\": ", s->faster);
    put_count(o, ", \"slower\": ", s->slower);
    put_count(o, ", \"new\": ", s->appeared);
    put_count(o, ", \"gone\": ", s->gone);
    put_count(o, ", \"uncertain\": ", s->uncertain);
    put_count(o, ", \"more_calls\": ", s->more_calls);
    put_count(o, ", \"fewer_calls\": ", s->fewer_calls);
}

static void put_row(mtp__out *o, const mtp_diff_row *r)
{
    put_text(o, "{\"key\": ", r->key, r->key_length);
    put_text(o, ", \"input_shapes\": ", r->input_shapes, r->input_shapes_length);
    put_bool(o, ", \"is_device\": ", r->is_device);
    put_bool(o, ", \"is_user_annotation\": ", r->is_user_annotation);
    put_verdict(o, ", \"verdict\": ", r->verdict);
    put_verdict(o, ", \"own_verdict\": ", r->own_verdict);
    put_count(o, ", \"count_before\": ", r->count_before);
    put_count(o, ", \"count_after\": ", r->count_after);
    put_number(o, ", \"time_before\": ", r->time_before);
    put_number(o, ", \"time_after\": ", r->time_after);
    put_number(o, ", \"change\": ", r->change);
    put_number(o, ", \"excess\": ", r->excess);
    put_number(o, ", \"low\": ", r->low);
    put_number(o, ", \"high\": ", r->high);
    put_number(o, ", \"own_before\": ", r->own_before);
    put_number(o, ", \"own_after\": ", r->own_after);
    put_number(o, ", \"own_change\": ", r->own_change);
    put_number(o, ", \"total_before\": ", r->total_before);
    put_number(o, ", \"total_after\": ", r->total_after);
    put_number(o, ", \"self_before\": ", r->self_before);
    put_number(o, ", \"self_after\": ", r->self_after);
    put_number(o, ", \"calls_before\": ", r->calls_before);
    put_number(o, ", \"calls_after\": ", r->calls_after);
    put_number(o, ", \"calls_change\": ", r->calls_change);
    put_number(o, ", \"step_time_before\": ", r->step_time_before);
    put_number(o, ", \"step_time_after\": ", r->step_time_after);
    MTP__OUT(o, "}");
}

void mtp_diff_limit(mtp_diff *diff, int64_t rows)
{
    size_t count = mtp_diff_count(diff);
    if (diff != NULL)
        diff->written = rows >= 0 && (uint64_t)rows < count ? (size_t)rows : count;
}

mtp_status mtp_diff_json(const mtp_diff *diff, mtp_sink *sink, void *user)
{
    mtp_diff_summary summary = MTP_DIFF_SUMMARY_INIT;
    mtp_status status = mtp_diff_get_summary(diff, &summary);
    if (status != MTP_OK)
        return status;
    mtp__out o;
    status = mtp__out_init(&o, sink, user);
    if (status != MTP_OK)
        return status;
    put_summary(&o, &summary);
    MTP__OUT(&o, ",\n\"rows\": [");
    for (size_t i = 0; i < diff->written; i++) {
        mtp__out_text(&o, i > 0 ? ",\n" : "\n");
        put_row(&o, mtp_diff_row_at(diff, i));
    }
    MTP__OUT(&o, "]}\n");
    return mtp__out_finish(&o);
}
