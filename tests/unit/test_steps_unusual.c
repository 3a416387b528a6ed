/* Unit: analyze/steps_outliers and analyze/steps_gaps. */
#define _GNU_SOURCE
#include "tests/made_trace.h"

static mtp_steps *steps_of(const mtp_trace *t)
{
    mtp_steps *s;
    assert_ok(mtp_steps_create(t, &s));
    return s;
}

/* Ten steps of 100 us, one of which has a longer op, an extra call and a wait. */
static mtp_trace *one_odd_step(int64_t wait, int64_t longer)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), stream = made_stream(t, 0, 7);
    int64_t at = 0;
    for (int i = 0; i < 10; i++) {
        char name[32];
        int64_t began = at;
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        int64_t op = i == 6 ? 40000 + longer : 40000, end = began + op + 60000 + (i == 6 ? wait : 0) + i * 10;
        made_scope(t, main, began, end, name);
        made_scope(t, main, began + 10, end - 10, "train");
        made_op(t, main, began + 1000, began + 1000 + op, "aten::linear");
        made_op(t, main, began + 2000, began + 12000, "aten::t");
        made_span(t, stream, began + 2000, began + 4000, "gemm", MTP__CATEGORY_KERNEL);
        if (i == 6 && wait > 0) {
            made_op(t, main, end - 5000, end - 3000, "aten::svd");
            made_span(t, stream, end - 5000, end - 4000, "svd", MTP__CATEGORY_KERNEL);
        }
        at = end + 100;
    }
    return made_end(t);
}

static void an_unusual_step_is_reported_with_its_differences(void **state)
{
    (void)state;
    mtp_trace *t = one_odd_step(90000, 30000);
    mtp_steps *s = steps_of(t);
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(mtp_steps_row(s, i)->is_outlier, i == 6);
    const mtp_step_row *r = mtp_steps_row(s, 6);
    assert_true(r->more_ns > 119000 && r->more_ns < 121000);
    assert_int_equal(r->reason_count, 2);
    assert_string_equal(r->reasons[0].what.bytes, "(idle)");
    assert_true(r->reasons[0].ns > 87000 && r->reasons[0].ns < 89000);
    assert_string_equal(r->reasons[1].what.bytes, "aten::linear"); /* not aten::t, which is inside it */
    assert_int_equal(r->reasons[1].ns, 30000);
    assert_int_equal(r->reasons[1].calls, 0);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);

    t = one_odd_step(0, -39000); /* shorter, by far */
    s = steps_of(t);
    r = mtp_steps_row(s, 6);
    assert_true(r->is_outlier && r->more_ns < -38000);
    assert_string_equal(r->reasons[0].what.bytes, "aten::linear");
    assert_true(r->reasons[0].ns < 0);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);

    t = one_odd_step(0, 0);
    s = steps_of(t);
    for (size_t i = 0; i < 10; i++)
        assert_false(mtp_steps_row(s, i)->is_outlier);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

/* What follows the last step() is empty: the usual step has as many calls as the others. */
static void an_empty_rest_is_not_a_usual_step(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    int64_t at = 0;
    for (int i = 0; i <= 8; i++) {
        char name[32];
        int calls = i == 8 ? 0 : i == 4 ? 15 : 11;
        int64_t length = i == 4 ? 900000 : i == 8 ? 20000 : 100000 + (i % 2) * 40000;
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        made_scope(t, main, at, at + length, name);
        for (int k = 0; k < calls; k++)
            made_op(t, main, at + k * length / 16, at + (k + 1) * length / 16, "aten::mm");
        at += length;
    }
    mtp_steps *s = steps_of(made_end(t));
    const mtp_step_row *r = mtp_steps_row(s, 4);
    assert_false(mtp_steps_row(s, 8)->is_outlier);
    assert_true(r->is_outlier);
    assert_string_equal(r->reasons[0].what.bytes, "aten::mm");
    assert_int_equal(r->reasons[0].calls, 4);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

/* Found by the fuzzer: the difference, a double, is rounded up to 2^63, which is no int64_t. */
static void a_step_of_all_time_is_longer_than_usual(void **state)
{
    (void)state;
    static const char *const names[] = {"ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2",
                                        "ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5",
                                        "ProfilerStep#6"};
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    for (int i = 0; i < 6; i++)
        made_scope(t, main, i * 10, i * 10 + 8, names[i]);
    made_scope(t, main, 60, INT64_MAX, names[6]);
    for (int i = 0; i < 3; i++)
        made_op(t, made_thread(t, 8 + i), 60, INT64_MAX, "aten::add");
    made_end(t);
    mtp_steps *s = steps_of(t);
    const mtp_step_row *r = mtp_steps_row(s, 6);
    assert_true(r->is_outlier && r->more_ns > INT64_MAX / 2);
    assert_true(r->reason_count > 0 && r->reasons[0].ns > INT64_MAX / 2);
    assert_string_equal(r->reasons[0].what.bytes, "aten::add");
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

static void gaps_are_listed_longest_first_with_their_surroundings(void **state)
{
    (void)state;
    mtp_trace *t = one_odd_step(90000, 0);
    mtp_steps *s = steps_of(t);
    const mtp_step_gap *g = mtp_steps_gap(s, false, 0);
    assert_int_equal(g->step, 6);
    assert_int_equal(g->offset_ns, 41000);
    assert_string_equal(g->after.bytes, "aten::linear");
    assert_string_equal(g->before.bytes, "aten::svd");
    assert_string_equal(g->inside.bytes, "train");
    assert_true(g->end_ns - g->start_ns > 100000);
    assert_true(mtp_steps_gap(s, false, 1)->end_ns - mtp_steps_gap(s, false, 1)->start_ns < 60000);
    g = mtp_steps_gap(s, true, 0);
    assert_true(g->of_device);
    assert_string_equal(g->after.bytes, "gemm");
    assert_string_equal(g->before.bytes, "svd");
    for (size_t k = 0; k < 2; k++) {
        size_t count = mtp_steps_gap_count(s, k);
        int64_t idle = 0, last = INT64_MAX;
        for (size_t i = 0; i < count; i++) {
            g = mtp_steps_gap(s, k, i);
            assert_true(g->end_ns - g->start_ns <= last);
            last = g->end_ns - g->start_ns;
            idle += last;
        }
        for (size_t i = 0; i < 10; i++) /* together they are the idle time */
            idle -= k == 0 ? mtp_steps_row(s, i)->times.idle_ns
                           : mtp_steps_row(s, i)->times.wall_ns - mtp_steps_row(s, i)->times.device_ns;
        assert_int_equal(idle, 0);
        assert_null(mtp_steps_gap(s, k, count));
    }
    assert_int_equal(mtp_steps_gap_count(NULL, false), 0);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

static void the_longest_of_many_gaps_are_kept(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    int64_t at = 0;
    for (int i = 0; i < 1000; i++) {
        made_op(t, main, at, at + 10, "op");
        at += 10 + 1 + (i * 7919) % 1000;
    }
    made_end(t);
    mtp_steps *s = steps_of(t);
    assert_int_equal(mtp_steps_gap_count(s, false), 64);
    for (size_t i = 0; i < 64; i++)
        assert_true(mtp_steps_gap(s, false, i)->end_ns - mtp_steps_gap(s, false, i)->start_ns >= 1000 - 64);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_trace *t = one_odd_step(90000, 30000);
    long live = mtp__alloc_live();
    for (int nth = 1, fired = 1; fired != 0; nth++) {
        mtp_steps *s;
        collected c = {0};
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, nth % 2 == 0);
        mtp_status status = mtp_steps_create(t, &s);
        mtp_status written = status == MTP_OK ? mtp_steps_json(s, collect, &c) : status;
        fired = mtp__fault_stop();
        assert_int_equal(written, fired != 0 ? MTP_E_NOMEM : MTP_OK);
        mtp_steps_destroy(s);
        collected_free(&c);
        assert_int_equal(mtp__alloc_live(), live);
        assert_true(fired != 0 || nth > 6);
    }
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_unusual_step_is_reported_with_its_differences),
        TEST(an_empty_rest_is_not_a_usual_step),
        TEST(a_step_of_all_time_is_longer_than_usual),
        TEST(gaps_are_listed_longest_first_with_their_surroundings),
        TEST(the_longest_of_many_gaps_are_kept),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
