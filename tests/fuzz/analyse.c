/* See fuzz.h: every analysis and every output format, for any trace. */
#include "fuzz.h"
#include "present/parquet/tables.h"

static void averages(const mtp_trace *t, bool by_shape, bool by_stack)
{
    fuzz_text out = {0};
    mtp_averages *rows;
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_input_shape = by_shape;
    options.by_stack = by_stack ? 5 : 0;
    MUST(mtp_averages_create(t, &options, &rows) == MTP_OK);
    MUST(mtp_averages_table(rows, NULL, fuzz_sink, &out) == MTP_OK);
    fuzz_text_free(&out);
    MUST(mtp_averages_csv(rows, fuzz_sink, &out) == MTP_OK);
    fuzz_text_free(&out);
    MUST(mtp_averages_json(rows, fuzz_sink, &out) == MTP_OK);
    fuzz_must_be_json(&out);
    mtp_averages_destroy(rows);
}

static void memory(const mtp_trace *t)
{
    fuzz_text out = {0};
    mtp_memory_timeline *timeline;
    if (mtp_memory_timeline_create(t, NULL, &timeline) != MTP_OK)
        return;
    MUST(mtp_memory_timeline_json(timeline, fuzz_sink, &out) == MTP_OK);
    fuzz_must_be_json(&out);
    MUST(mtp_memory_timeline_summary(timeline, 10, fuzz_sink, &out) == MTP_OK);
    fuzz_text_free(&out);
    mtp_memory_timeline_destroy(timeline);
}

static void events(const mtp_trace *t)
{
    mtp_events *list;
    size_t count = 0;
    MUST(mtp_events_create(t, &list) == MTP_OK);
    MUST(mtp_events_count(list, &count) == MTP_OK);
    for (size_t i = 0; i < count; i++) {
        mtp_event e = {.size = sizeof e};
        MUST(mtp_events_get(list, i, &e) == MTP_OK);
    }
    mtp_events_destroy(list);
}

/* Texts for terminals: no control characters but newlines, and within the budget. */
static void must_be_plain(const fuzz_text *out, size_t most)
{
    MUST(out->length <= most);
    for (size_t i = 0; i < out->length; i++)
        MUST((unsigned char)out->bytes[i] >= 32 || out->bytes[i] == '\n');
}

static void findings(const mtp_trace *t)
{
    fuzz_text out = {0};
    mtp_findings *list;
    mtp_words_options o = MTP_WORDS_OPTIONS_INIT;
    MUST(mtp_findings_create(t, NULL, &list) == MTP_OK);
    MUST(mtp_findings_json(list, fuzz_sink, &out) == MTP_OK);
    fuzz_must_be_json(&out);
    MUST(mtp_findings_text(list, &o, fuzz_sink, &out) == MTP_OK);
    must_be_plain(&out, SIZE_MAX);
    fuzz_text_free(&out);
    o.budget = 150;
    mtp_status status = mtp_findings_text(list, &o, fuzz_sink, &out);
    MUST(status == MTP_OK || status == MTP_E_ARG);
    must_be_plain(&out, o.budget * 4);
    fuzz_text_free(&out);
    o.budget = 0;
    status = mtp_trace_show(t, "0", &o, fuzz_sink, &out);
    MUST(status == MTP_OK || status == MTP_E_ARG);
    must_be_plain(&out, SIZE_MAX);
    fuzz_text_free(&out);
    mtp_findings_destroy(list);
}

static void digest(const mtp_trace *t)
{
    mtp_digest *d, *all;
    fuzz_text out = {0};
    MUST(mtp_digest_create(t, NULL, &d) == MTP_OK);
    MUST(mtp_digest_sum((const mtp_digest *const *)&d, 1, 0, &all) == MTP_OK);
    MUST(mtp_digest_text(d, -1, fuzz_sink, &out) == MTP_OK);
    must_be_plain(&out, SIZE_MAX);
    fuzz_text_free(&out);
    MUST(mtp_digest_json(all, -1, fuzz_sink, &out) == MTP_OK);
    fuzz_must_be_json(&out);
    MUST(mtp_digest_write(d, 0, fuzz_sink, &out) == MTP_OK);
    fuzz_text_free(&out);
    mtp_digest_destroy(d);
    mtp_digest_destroy(all);
}

/* Every table of Parquet. */
static void tables(const mtp_trace *t)
{
    mtp__parquet_source source, *s = &source;
    fuzz_text out = {0};
    MUST(mtp__parquet_source_init(s, t) == MTP_OK);
#define X(table, rows)                                                                                       \
    MUST(mtp__parquet_write(&mtp__parquet_##table, s, (rows), fuzz_sink, &out) == MTP_OK);                   \
    MUST(out.length > 12 && memcmp(out.bytes, "PAR1", 4) == 0 &&                                             \
         memcmp(out.bytes + out.length - 4, "PAR1", 4) == 0);                                                \
    fuzz_text_free(&out);
    MTP__PARQUET_TABLE_LIST(X)
#undef X
    mtp__parquet_source_fini(s);
}

void fuzz_analyse(const mtp_trace *t)
{
    fuzz_text out = {0};
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    MUST(mtp_trace_get_info(t, &info) == MTP_OK);
    MUST(info.first_ns <= info.last_ns);
    averages(t, false, false);
    averages(t, true, true);
    MUST(mtp_trace_chrome(t, NULL, fuzz_sink, &out) == MTP_OK);
    fuzz_must_be_json(&out);
    MUST(mtp_trace_execution_trace(t, fuzz_sink, &out) == MTP_OK);
    fuzz_must_be_json(&out);
    MUST(mtp_trace_folded(t, "self_cpu_time_total", fuzz_sink, &out) == MTP_OK);
    fuzz_text_free(&out);
    mtp_steps *steps;
    MUST(mtp_steps_create(t, &steps) == MTP_OK);
    MUST(mtp_steps_json(steps, fuzz_sink, &out) == MTP_OK);
    fuzz_must_be_json(&out);
    mtp_steps_destroy(steps);
    memory(t);
    events(t);
    findings(t);
    digest(t);
    tables(t);
    MUST(mtp_report_write(&t, 1, NULL, fuzz_sink, &out) == MTP_OK);
    fuzz_text_free(&out);
}
