/* present/findings_json.c - findings as JSON. Times in microseconds with 3 decimals; starts relative to the trace's
 * first event. */
#include "analyze/findings/findings.h"
#include "base/error.h"
#include "base/json_out.h"

static void put_us(mtp__out *o, const char *key, int64_t ns)
{
    mtp__out_text(o, key);
    char *p = mtp__out_room(o);
    if (ns < 0)
        *p++ = '-';
    o->at = mtp__put_milli(p, ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns);
}

static void put_text(mtp__out *o, const char *key, mtp_text text)
{
    mtp__out_text(o, key);
    mtp__out_string(o, text.bytes, text.length);
}

static void put_word(mtp__out *o, const char *key, const char *word)
{
    mtp__out_text(o, key);
    MTP__OUT(o, "\"");
    mtp__out_text(o, word);
    MTP__OUT(o, "\"");
}

static void put_share(mtp__out *o, double share)
{
    MTP__OUT(o, ", \"share\": ");
    mtp__out_double(o, (double)(int64_t)(share * 1e6 + 0.5) / 1e6);
}

static int64_t since(const mtp_findings *f, int64_t ns)
{
    return (int64_t)((uint64_t)ns - (uint64_t)f->trace->first_ns);
}

static void put_evidence(mtp__out *o, const mtp_findings *f, const mtp_evidence *e)
{
    put_text(o, "{\"name\": ", e->name);
    put_text(o, ", \"source\": ", e->source);
    MTP__OUT(o, ", \"calls\": ");
    mtp__out_u64(o, e->calls);
    put_us(o, ", \"total_us\": ", e->total_ns);
    put_share(o, e->share);
    put_us(o, ", \"start_us\": ", since(f, e->start_ns));
    put_us(o, ", \"us\": ", (int64_t)((uint64_t)e->end_ns - (uint64_t)e->start_ns));
    if (e->bytes != 0) {
        MTP__OUT(o, ", \"bytes\": ");
        mtp__out_i64(o, e->bytes);
    }
    if (e->step >= 0) {
        MTP__OUT(o, ", \"step\": ");
        mtp__out_i64(o, e->step);
    }
    if (e->span != MTP_NO_SPAN) {
        MTP__OUT(o, ", \"span\": ");
        mtp__out_u64(o, e->span);
    }
    if (e->track != MTP_NO_SPAN) {
        MTP__OUT(o, ", \"track\": ");
        mtp__out_u64(o, e->track);
    }
    MTP__OUT(o, "}");
}

static void put_summary(mtp__out *o, const mtp_findings *f)
{
    const mtp_findings_summary *s = &f->summary;
    put_us(o, "{\"whole_us\": ", s->whole_ns);
    put_us(o, ", \"start_us\": ", since(f, s->start_ns));
    MTP__OUT(o, ", \"steps\": ");
    mtp__out_u64(o, s->steps);
    MTP__OUT(o, ", \"warm_up\": ");
    mtp__out_u64(o, s->warm_up);
    MTP__OUT(o, ", \"outliers\": ");
    mtp__out_u64(o, s->outliers);
    put_us(o, ", \"cpu_us\": ", s->cpu_ns);
    put_us(o, ", \"device_us\": ", s->device_ns);
    put_us(o, ", \"idle_us\": ", s->idle_ns);
    if (s->process != 0) {
        MTP__OUT(o, ", \"process\": ");
        mtp__out_i64(o, s->process);
    }
}

static void put_row(mtp__out *o, const mtp_findings *f, size_t i)
{
    const mtp_finding_row *r = mtp_findings_row(f, i);
    put_text(o, i > 0 ? ",\n  {\"id\": " : "\n  {\"id\": ", r->id);
    put_word(o, ", \"kind\": ", mtp_finding_kind_text((mtp_finding_kind)r->kind));
    put_word(o, ", \"confidence\": ", mtp_confidence_text((mtp_confidence)r->confidence));
    put_us(o, ", \"spent_us\": ", r->spent_ns);
    put_us(o, ", \"gain_us\": ", r->gain_ns);
    put_share(o, r->share);
    if (r->bytes != 0) {
        MTP__OUT(o, ", \"bytes\": ");
        mtp__out_i64(o, r->bytes);
    }
    put_text(o, ",\n   \"title\": ", r->title);
    put_text(o, ",\n   \"text\": ", r->text);
    put_text(o, ",\n   \"advice\": ", r->advice);
    MTP__OUT(o, ",\n   \"evidence\": [");
    const mtp_evidence *e;
    for (size_t k = 0; (e = mtp_findings_evidence(f, i, k)) != NULL; k++) {
        mtp__out_text(o, k > 0 ? ",\n    " : "\n    ");
        put_evidence(o, f, e);
    }
    MTP__OUT(o, "]}");
}

mtp_status mtp_findings_json(const mtp_findings *f, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, f, "findings", sink, user);
    if (status != MTP_OK)
        return status;
    put_summary(&o, f);
    MTP__OUT(&o, ",\n \"findings\": [");
    for (size_t i = 0; i < mtp_findings_count(f); i++)
        put_row(&o, f, i);
    MTP__OUT(&o, "]}\n");
    return mtp__out_finish(&o);
}
