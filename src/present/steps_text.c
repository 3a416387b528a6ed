/* present/steps_text.c - steps as JSON and CSV. Times in microseconds with 3 decimals; starts relative to the
 * trace's first event. */
#include "analyze/steps.h"
#include "base/error.h"
#include "base/json_out.h"

/* X(key, field) */
#define TIMES(X)                                                                                             \
    X("wall_us", wall_ns)                                                                                    \
    X("cpu_us", cpu_ns) X("device_us", device_ns) X("both_us", both_ns) X("idle_us", idle_ns)

static char *put_us(char *p, int64_t ns)
{
    if (ns < 0)
        *p++ = '-';
    return mtp__put_milli(p, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns);
}

static int64_t since_first(const mtp_steps *s, const mtp_step_row *r)
{
    return (int64_t)((uint64_t)r->start_ns - (uint64_t)s->first_ns);
}

static void put_times(mtp__out *o, const mtp_step_times *times)
{
    char *p = mtp__out_room(o);
#define X(key, field) p = put_us(MTP__PUT(p, ", \"" key "\": "), times->field);
    TIMES(X)
#undef X
    o->at = p;
}

static void put_figure(mtp__out *o, const char *name, const mtp_step_times *times)
{
    MTP__OUT(o, "{\"of\": \"");
    mtp__out_text(o, name);
    MTP__OUT(o, "\"");
    put_times(o, times);
    MTP__OUT(o, "}");
}

static void put_text(mtp__out *o, const char *name, mtp_text text)
{
    mtp__out_text(o, name);
    mtp__out_string(o, text.bytes, text.length);
}

static void put_reasons(mtp__out *o, const mtp_step_row *r)
{
    if (!r->is_outlier)
        return;
    char *p = mtp__out_room(o);
    o->at = put_us(MTP__PUT(p, ", \"more_us\": "), r->more_ns);
    MTP__OUT(o, ", \"differs\": [");
    for (uint32_t i = 0; i < r->reason_count; i++) {
        const mtp_step_reason *reason = &r->reasons[i];
        put_text(o, i > 0 ? ", {\"what\": " : "{\"what\": ", reason->what);
        p = mtp__out_room(o);
        p = put_us(MTP__PUT(p, ", \"us\": "), reason->ns);
        o->at = mtp__put_i64(MTP__PUT(p, ", \"calls\": "), reason->calls);
        mtp__out_text(o, reason->is_device ? ", \"is_device\": true}" : ", \"is_device\": false}");
    }
    MTP__OUT(o, "]");
}

static void put_gaps(mtp__out *o, const mtp_steps *s, bool of_device)
{
    const mtp__gap_list *list = &s->gaps[of_device];
    for (uint32_t i = 0; i < list->count; i++) {
        const mtp_step_gap *g = &list->gap[i];
        char *p = mtp__out_room(o);
        p = i > 0 ? MTP__PUT(p, ",\n  {\"step\": ") : MTP__PUT(p, "\n  {\"step\": ");
        p = s->whole_trace ? MTP__PUT(p, "null") : mtp__put_i64(p, g->step);
        p = put_us(MTP__PUT(p, ", \"at_us\": "), g->offset_ns);
        o->at = put_us(MTP__PUT(p, ", \"us\": "), g->end_ns - g->start_ns);
        put_text(o, ", \"after\": ", g->after);
        put_text(o, ", \"before\": ", g->before);
        put_text(o, ", \"inside\": ", g->inside);
        MTP__OUT(o, "}");
    }
}

void mtp_steps_limit(mtp_steps *s, int64_t rows)
{
    if (s != NULL)
        s->written = rows >= 0 && rows < s->count ? (uint32_t)rows : s->count;
}

mtp_status mtp_steps_json(const mtp_steps *s, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, s, "steps", sink, user);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "{\"whole_trace\": ");
    mtp__out_text(&o, s->whole_trace ? "true" : "false");
    MTP__OUT(&o, ", \"steps\": [");
    for (uint32_t i = 0; i < s->written; i++) {
        const mtp_step_row *r = &s->rows[i];
        char *p = mtp__out_room(&o);
        p = i > 0 ? MTP__PUT(p, ",\n  {\"step\": ") : MTP__PUT(p, "\n  {\"step\": ");
        p = s->whole_trace ? MTP__PUT(p, "null") : mtp__put_i64(p, r->number);
        p = put_us(MTP__PUT(p, ", \"start_us\": "), since_first(s, r));
        o.at = p;
        put_times(&o, &r->times);
        p = mtp__out_room(&o);
        p = mtp__put_u64(MTP__PUT(p, ", \"ops\": "), r->ops);
        p = mtp__put_u64(MTP__PUT(p, ", \"kernels\": "), r->kernels);
        o.at = r->is_outlier ? MTP__PUT(p, ", \"is_outlier\": true") : MTP__PUT(p, ", \"is_outlier\": false");
        put_reasons(&o, r);
        MTP__OUT(&o, "}");
    }
    MTP__OUT(&o, "],\n \"summary\": [\n  ");
    put_figure(&o, "mean", &s->summary[MTP_STEP_MEAN]);
    MTP__OUT(&o, ",\n  ");
    put_figure(&o, "p50", &s->summary[MTP_STEP_P50]);
    MTP__OUT(&o, ",\n  ");
    put_figure(&o, "max", &s->summary[MTP_STEP_MAX]);
    MTP__OUT(&o, "],\n \"idle_gaps\": [");
    put_gaps(&o, s, false);
    MTP__OUT(&o, "],\n \"device_gaps\": [");
    put_gaps(&o, s, true);
    MTP__OUT(&o, "]}\n");
    return mtp__out_finish(&o);
}

mtp_status mtp_steps_csv(const mtp_steps *s, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, s, "steps", sink, user);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "step,start_us");
#define X(key, field) MTP__OUT(&o, "," key);
    TIMES(X)
#undef X
    MTP__OUT(&o, ",ops,kernels,is_outlier\n");
    for (uint32_t i = 0; i < s->written; i++) {
        const mtp_step_row *r = &s->rows[i];
        char *p = mtp__out_room(&o);
        if (!s->whole_trace)
            p = mtp__put_i64(p, r->number);
        p = put_us(MTP__PUT(p, ","), since_first(s, r));
#define X(key, field) p = put_us(MTP__PUT(p, ","), r->times.field);
        TIMES(X)
#undef X
        p = mtp__put_u64(MTP__PUT(p, ","), r->ops);
        p = mtp__put_u64(MTP__PUT(p, ","), r->kernels);
        o.at = r->is_outlier ? MTP__PUT(p, ",true\n") : MTP__PUT(p, ",false\n");
    }
    return mtp__out_finish(&o);
}
