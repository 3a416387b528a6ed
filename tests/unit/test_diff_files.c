/* Unit: analyze/diff: numbers, JSON, invalid arguments. */
#include "tests/unit/made_runs.h"

/* ------------------------------------------------------------------------------------------------ numbers */

static void chance_is_students(void **state)
{
    (void)state;
    const struct {
        double t, freedom, chance;
    } known[] = {{1.96, 1e6, 0.05}, {2.228, 10, 0.05}, {4.587, 10, 0.001}, {2.776, 4, 0.05}, {0, 5, 1}};
    for (size_t i = 0; i < COUNT(known); i++)
        assert_true(fabs(mtp__chance(known[i].t, known[i].freedom) - known[i].chance) < 0.003);
}

static void a_comparison_measures_a_shift_and_its_error(void **state)
{
    (void)state;
    mtp__comparer *c = mtp__comparer_create();
    assert_non_null(c);
    double off = 0, claimed = 0, squares = 0;
    const int rounds = 200;
    for (int k = 0; k < rounds; k++) {
        chance r = {(unsigned)k * 1000003u + 17};
        for (int i = 0; i < 200; i++) {
            mtp__comparer_times(c, false)[i] = (mtp__time){10 + 0.1 * normal(&r), 0};
            mtp__comparer_times(c, true)[i] = (mtp__time){10.05 + 0.1 * normal(&r), 0};
        }
        mtp__compared got;
        assert_true(mtp__compare(c, 200, 200, &got));
        off += got.change - 0.05;
        squares += (got.change - 0.05) * (got.change - 0.05);
        claimed += got.error * got.error;
        assert_true(mtp__compare_ranks(c, 0) > 1);
        assert_true(fabs(mtp__compare_ranks(c, 0.05)) < 4.5);
    }
    assert_true(fabs(off / rounds) < 0.003);
    assert_true(claimed > 0.8 * squares && claimed < 1.6 * squares);
    mtp__comparer_destroy(c);
}

static void a_comparison_without_common_strata_knows_nothing(void **state)
{
    (void)state;
    mtp__comparer *c = mtp__comparer_create();
    mtp__compared got;
    mtp__comparer_times(c, false)[0] = (mtp__time){5, 1};
    mtp__comparer_times(c, true)[0] = (mtp__time){5, 2};
    assert_false(mtp__compare(c, 1, 1, &got));
    assert_false(mtp__compare(c, 0, 1, &got));
    assert_false(mtp__compare(c, 0, 0, &got));
    mtp__comparer_destroy(c);
}

/* ----------------------------------------------------------------------------------------- surroundings */

typedef struct kept {
    char *bytes;
    size_t length;
} kept;

static bool keep(void *user, const void *bytes, size_t length)
{
    kept *k = user;
    k->bytes = realloc(k->bytes, k->length + length + 1);
    memcpy(k->bytes + k->length, bytes, length);
    k->length += length;
    k->bytes[k->length] = 0;
    return true;
}

static bool refuse(void *user, const void *bytes, size_t length)
{
    (void)user;
    (void)bytes;
    (void)length;
    return false;
}

static void the_same_traces_give_the_same_answer(void **state)
{
    (void)state;
    model m = usual;
    m.slow_count = 3;
    m.slow = 0.1;
    kept json[2] = {{0}};
    for (int k = 0; k < 2; k++) {
        mtp_trace *x = simulate(&m, 9, false), *y = simulate(&m, 9, true);
        mtp_diff *d = diff_of(x, y, NULL);
        assert_ok(mtp_diff_json(d, keep, &json[k]));
        mtp_diff_destroy(d);
        mtp_trace_destroy(x);
        mtp_trace_destroy(y);
    }
    size_t wrong;
    assert_true(mtp__json_check(json[0].bytes, json[0].length, &wrong));
    assert_string_equal(json[0].bytes, json[1].bytes);
    assert_contains(json[0].bytes, "\"verdict\": \"slower\"");
    free(json[0].bytes);
    free(json[1].bytes);
}

static void a_trace_does_not_differ_from_itself(void **state)
{
    (void)state;
    mtp_trace *x = simulate(&usual, 4, false);
    mtp_diff *d = diff_of(x, x, NULL);
    mtp_diff_summary s = summary_of(d);
    assert_int_equal(s.same, s.rows);
    assert_true(s.drift == 0);
    assert_int_equal(s.step_verdict, MTP_VERDICT_SAME);
    mtp_diff_destroy(d);
    mtp_trace_destroy(x);
}

static void hostile_names_come_out_as_strict_json(void **state)
{
    (void)state;
    static const char *const names[] = {"\"quo\\te\"",
                                        "\n\t\x01\x7f",
                                        "\xff\xfe not utf-8",
                                        "\xe2\x80\xa8line",
                                        "[[1, 2]]\"}",
                                        "\xf0\x9f\x94\xa5",
                                        " ",
                                        "a\x1b[31mred"};
    mtp_trace *t[2];
    for (int k = 0; k < 2; k++) {
        run r = run_begin();
        for (size_t i = 0; i < COUNT(names); i++)
            for (int n = 0; n < 10; n++)
                add(&r, names[i], 5000 + 10 * n);
        uint32_t nul = mtp__trace_text(r.t, "a\0b", 3);
        mtp__trace_add_span(r.t, r.track, r.now, r.now + 10, nul, MTP__CATEGORY_CPU_OP, 0, 0);
        t[k] = run_end(&r);
    }
    mtp_diff *d = diff_of(t[0], t[1], NULL);
    assert_int_equal(mtp_diff_count(d), COUNT(names) + 1);
    kept json = {0};
    size_t wrong = 0;
    assert_ok(mtp_diff_json(d, keep, &json));
    if (!mtp__json_check(json.bytes, json.length, &wrong))
        fail_msg("not JSON at %zu: %.60s", wrong, json.bytes + (wrong > 20 ? wrong - 20 : 0));
    assert_contains(json.bytes, "a\\u0000b");
    assert_int_equal(mtp_diff_json(d, refuse, NULL), MTP_E_IO);
    free(json.bytes);
    json = (kept){0};
    mtp_diff_limit(d, 0);
    assert_ok(mtp_diff_json(d, keep, &json));
    assert_contains(json.bytes, "\"rows\": []");
    free(json.bytes);
    mtp_diff_destroy(d);
    mtp_trace_destroy(t[0]);
    mtp_trace_destroy(t[1]);
}

static void empty_traces_and_odd_times_are_fine(void **state)
{
    (void)state;
    run e = run_begin();
    mtp_trace *empty = run_end(&e), *some = simulate(&usual, 2, false);
    mtp_diff *d = diff_of(empty, empty, NULL);
    assert_int_equal(mtp_diff_count(d), 0);
    assert_false(mtp_diff_slower(d, 0.05));
    assert_null(mtp_diff_row_at(d, 0));
    mtp_diff_destroy(d);
    d = diff_of(empty, some, NULL);
    assert_int_equal(summary_of(d).appeared, mtp_diff_count(d));
    mtp_diff_destroy(d);
    mtp_trace *t[2];
    for (int k = 0; k < 2; k++) { /* no time at all; the whole time */
        run r = run_begin();
        for (int i = 0; i < 20; i++) {
            mtp__trace_add_span(r.t, r.track, 0, 0, text(r.t, "nothing"), MTP__CATEGORY_CPU_OP, 0, 0);
            mtp__trace_add_span(r.t, r.track, INT64_MIN / 4, INT64_MAX / 4, text(r.t, "all"),
                                MTP__CATEGORY_CPU_OP, 0, 0);
        }
        t[k] = run_end(&r);
    }
    d = diff_of(t[0], t[1], NULL);
    assert_int_equal(row_of(d, "nothing")->verdict, MTP_VERDICT_SAME);
    mtp_diff_destroy(d);
    mtp_trace_destroy(t[0]);
    mtp_trace_destroy(t[1]);
    mtp_trace_destroy(empty);
    mtp_trace_destroy(some);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    run e = run_begin();
    mtp_trace *t = run_end(&e);
    mtp_diff *d = (mtp_diff *)t;
    mtp_diff_options o = MTP_DIFF_OPTIONS_INIT;
    mtp_diff_summary s = MTP_DIFF_SUMMARY_INIT;
    assert_int_equal(mtp_diff_create(NULL, t, NULL, &d), MTP_E_ARG);
    assert_null(d);
    assert_int_equal(mtp_diff_create(t, NULL, NULL, &d), MTP_E_ARG);
    assert_int_equal(mtp_diff_create(t, t, NULL, NULL), MTP_E_ARG);
    o.threshold = 0;
    assert_int_equal(mtp_diff_create(t, t, &o, &d), MTP_E_ARG);
    o = (mtp_diff_options)MTP_DIFF_OPTIONS_INIT;
    o.max_drift = -1;
    assert_int_equal(mtp_diff_create(t, t, &o, &d), MTP_E_ARG);
    o.size = 8;
    assert_int_equal(mtp_diff_create(t, t, &o, &d), MTP_E_ABI);
    assert_int_equal(mtp_diff_get_summary(NULL, &s), MTP_E_ARG);
    assert_int_equal(mtp_diff_json(NULL, keep, NULL), MTP_E_ARG);
    assert_int_equal(mtp_diff_count(NULL), 0);
    assert_null(mtp_diff_row_at(NULL, 0));
    assert_false(mtp_diff_slower(NULL, 0.05));
    mtp_diff_destroy(NULL);
    assert_ok(mtp_diff_create(t, t, NULL, &d));
    s.size = 8;
    assert_int_equal(mtp_diff_get_summary(d, &s), MTP_E_ABI);
    mtp_diff_destroy(d);
    assert_string_equal(mtp_verdict_text(MTP_VERDICT_UNCERTAIN), "uncertain");
    assert_string_equal(mtp_verdict_text((mtp_verdict)99), "?");
    mtp_trace_destroy(t);
}

static void running_out_of_memory_anywhere_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    mtp_trace *x = run_shapes(200000, 5, 1), *y = run_shapes(240000, 3, 2);
    mtp_diff_options o = MTP_DIFF_OPTIONS_INIT;
    o.by_input_shape = true;
    long live = mtp__alloc_live();
    for (int nth = 1;; nth++) {
        mtp_diff *d = NULL;
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, false);
        mtp_status status = mtp_diff_create(x, y, &o, &d);
        int failed = mtp__fault_stop();
        mtp_diff_destroy(d);
        assert_int_equal(mtp__alloc_live(), live);
        if (failed == 0) {
            assert_int_equal(status, MTP_OK);
            assert_true(nth > 20);
            break;
        }
        assert_int_equal(status, MTP_E_NOMEM);
        assert_null(d);
    }
    mtp_trace_destroy(x);
    mtp_trace_destroy(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(chance_is_students),
        TEST(a_comparison_measures_a_shift_and_its_error),
        TEST(a_comparison_without_common_strata_knows_nothing),
        TEST(the_same_traces_give_the_same_answer),
        TEST(a_trace_does_not_differ_from_itself),
        TEST(hostile_names_come_out_as_strict_json),
        TEST(empty_traces_and_odd_times_are_fine),
        TEST(arguments_are_checked),
        TEST(running_out_of_memory_anywhere_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
