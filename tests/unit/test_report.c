/* Unit: present/report: the HTML report. What its data holds is compared by tests/golden/report.py, how it looks by
 * tests/browser. */
#define _GNU_SOURCE
#include <unistd.h>
#include "tests/made_trace.h"

/* A thread with nested and overlapping spans, a stream with launched work, memory on two devices, a counter, stacks. */
static mtp_trace *make_trace(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 517), other = made_thread(t, 518), stream = made_stream(t, 0, 7);
    mtp__detail d = MTP__DETAIL_INIT;
    mtp__shape shape = {made_text(t, "[[4, 4]]"), 0, made_text(t, "[\"float\"]"), 0};
    d.shape = mtp__trace_add_shape(t, &shape);
    d.stack = mtp__trace_add_stack(t, mtp__trace_add_stack(t, 0, made_text(t, "main.py:1:main")),
                                   made_text(t, "net.py:2:f"));
    d.correlation = 9;
    made_scope(t, main, 0, 1000, "ProfilerStep#1");
    mtp__trace_add_span(t, main, 10, 500, made_text(t, "aten::mm"), MTP__CATEGORY_CPU_OP, 0,
                        mtp__trace_add_detail(t, &d));
    made_op(t, main, 20, 300, "aten::empty");
    made_scope(t, main, 400, 1500, "crosses"); /* what a row of its own is for */
    made_op(t, other, 5, 6, "aten::add");
    mtp__trace_add_span(t, stream, 600, 900, made_text(t, "gemm"), MTP__CATEGORY_KERNEL, 0,
                        mtp__trace_add_detail(t, &d));
    made_memory(t, main, 30, 0x1000, 4096);
    made_memory(t, main, 900, 0x1000, -4096);
    made_memory_of(t, main, 40, 0x2000, 64, 64, 1, 0);
    made_existing(t, 0, 0x3000, 100, MTP_MEMORY_PARAMETER);
    mtp__instant counter = {
        .ts = 50, .value = 2.5, .name = made_text(t, "queue"), .track = main, .is_counter = true};
    mtp__trace_add_instant(t, &counter);
    return made_end(t);
}

static void a_report_is_a_page_with_all_parts(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    collected out = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out));
    assert_int_equal(strncmp(out.bytes, "<!DOCTYPE html>", 15), 0);
    assert_non_null(strstr(out.bytes, "</html>"));
    static const char *const parts[] = {"head",  "findings", "operators",    "labels",   "levels",
                                        "spans", "details",  "links",        "counters", "memory",
                                        "flame", "stacks",   "device_stacks"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        char id[64];
        snprintf(id, sizeof id, "id=\"%s-0\">", parts[i]);
        assert_non_null(strstr(out.bytes, id));
    }
    assert_null(strstr(out.bytes, "aten::mm")); /* text of the trace is never part of the HTML */
    collected_free(&out);
    mtp_trace_destroy(t);
}

static void one_page_alone_has_its_own_data_only(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    collected out = {0};
    mtp_report_options options = MTP_REPORT_OPTIONS_INIT;
    options.only = "memory";
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, &options, collect, &out));
    assert_non_null(strstr(out.bytes, "id=\"memory-0\">"));
    assert_null(strstr(out.bytes, "id=\"spans-0\">"));
    options.only = "timeline";
    assert_int_equal(mtp_report_write((const mtp_trace *const *)&t, 1, &options, collect, &out), MTP_E_ARG);
    assert_says("memory");
    collected_free(&out);
    mtp_trace_destroy(t);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    const mtp_trace *three[] = {t, t, t}, *none[] = {NULL};
    collected out = {0};
    assert_int_equal(mtp_report_write(NULL, 1, NULL, collect, &out), MTP_E_ARG);
    assert_int_equal(mtp_report_write(three, 0, NULL, collect, &out), MTP_E_ARG);
    assert_int_equal(mtp_report_write(three, 3, NULL, collect, &out), MTP_E_ARG);
    assert_says("compares two");
    assert_int_equal(mtp_report_write(none, 1, NULL, collect, &out), MTP_E_ARG);
    assert_int_equal(mtp_report_write(three, 1, NULL, NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_export_report(three, 1, "/nowhere/at/all.html", NULL), MTP_E_IO);
    mtp_trace_destroy(t);
}

static void a_failing_sink_ends_it(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    collected whole = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &whole));
    for (size_t after = 1; after < whole.length; after += whole.length / 7) {
        collected out = {.refuse_after = after};
        assert_int_equal(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out), MTP_E_IO);
        collected_free(&out);
    }
    collected_free(&whole);
    mtp_trace_destroy(t);
}

static void the_same_trace_gives_the_same_bytes(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    collected first = {0}, second = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &first));
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &second));
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.bytes, second.bytes, first.length);
    collected_free(&first);
    collected_free(&second);
    mtp_trace_destroy(t);
}

static void an_empty_trace_has_a_report(void **state)
{
    (void)state;
    mtp_trace *t = made_end(made_begin());
    collected out = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out));
    assert_non_null(strstr(out.bytes, "id=\"flame-0\">"));
    collected_free(&out);
    mtp_trace_destroy(t);
}

/* Deeper than a row may be: rows beside it take the rest. */
static void very_deep_calls_are_shown(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 1);
    for (int i = 0; i < 1500; i++)
        made_op(t, main, i, 10000 - i, "deep");
    made_end(t);
    collected out = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out));
    collected_free(&out);
    mtp_trace_destroy(t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    const mtp_trace *two[] = {t, t};
    int nth = 1, fired;
    collected whole = {0};
    assert_ok(mtp_report_write(two, 2, NULL, collect, &whole));
    do {
        collected out = {0};
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, false);
        mtp_status status = mtp_report_write(two, 2, NULL, collect, &out);
        fired = mtp__fault_stop();
        if (status == MTP_OK) { /* the memory was for something that was not needed after all */
            assert_int_equal(out.length, whole.length);
            assert_memory_equal(out.bytes, whole.bytes, whole.length);
        } else {
            assert_int_equal(status, MTP_E_NOMEM);
        }
        collected_free(&out);
        nth++;
    } while (fired > 0);
    collected_free(&whole);
    assert_true(nth > 60);
    mtp_trace_destroy(t);
}

static void a_file_appears_whole_or_not_at_all(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("report.html"));
    mtp__fault_plan(1u << MTP__FAULT_WRITE, 1, true);
    assert_int_equal(mtp_export_report((const mtp_trace *const *)&t, 1, path, NULL), MTP_E_IO);
    mtp__fault_stop();
    assert_int_not_equal(access(path, F_OK), 0);
    assert_ok(mtp_export_report((const mtp_trace *const *)&t, 1, path, NULL));
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_a_page_with_all_parts),
        cmocka_unit_test(one_page_alone_has_its_own_data_only),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_failing_sink_ends_it),
        cmocka_unit_test(the_same_trace_gives_the_same_bytes),
        cmocka_unit_test(an_empty_trace_has_a_report),
        cmocka_unit_test(very_deep_calls_are_shown),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_file_appears_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
