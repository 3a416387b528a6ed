/* present/steps_text.c - steps as JSON and CSV. Times in microseconds with 3 decimals; starts since the trace's first event. */
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

void mtp_steps_limit(mtp_steps *s, int64_t rows)
{
    if (s != NULL)
        s->written = rows >= 0 && rows < s->count ? (uint32_t)rows : s->count;
}

mtp_status mtp_steps_json(const mtp_steps *s, mtp_sink *sink, void *user)
{
    mtp__out o;
    if (s == NULL)
        return MTP_FAIL(MTP_E_ARG, "steps is NULL");
    mtp_status status = mtp__out_init(&o, sink, user);
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
        o.at = MTP__PUT(p, "}");
    }
    MTP__OUT(&o, "],\n \"summary\": [\n  ");
    put_figure(&o, "mean", &s->mean);
    MTP__OUT(&o, ",\n  ");
    put_figure(&o, "p50", &s->p50);
    MTP__OUT(&o, ",\n  ");
    put_figure(&o, "max", &s->max);
    MTP__OUT(&o, "]}\n");
    return mtp__out_finish(&o);
}

mtp_status mtp_steps_csv(const mtp_steps *s, mtp_sink *sink, void *user)
{
    mtp__out o;
    if (s == NULL)
        return MTP_FAIL(MTP_E_ARG, "steps is NULL");
    mtp_status status = mtp__out_init(&o, sink, user);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "step,start_us");
#define X(key, field) MTP__OUT(&o, "," key);
    TIMES(X)
#undef X
    MTP__OUT(&o, ",ops,kernels\n");
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
        o.at = MTP__PUT(p, "\n");
    }
    return mtp__out_finish(&o);
}
