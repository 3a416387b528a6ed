/* Unit: analyze/diff: how often a verdict is wrong, and verdicts one by one. */
#include "tests/unit/made_runs.h"

/* ------------------------------------------------------------------------------------- how often it is
 * wrong */

static void the_same_program_with_spikes_is_quiet(void **state)
{
    (void)state;
    assert_quiet("the same, 5 % scatter, 3 % spikes", usual);
}

static void the_same_program_on_a_drifting_machine_is_quiet(void **state)
{
    (void)state;
    model m = usual;
    m.drift = 0.03;
    m.spike = 0.1;
    m.sigma = 0.08;
    assert_quiet("the same, drift 3 %, 8 % scatter, 10 % spikes", m);
}

static void the_same_program_beside_a_busy_neighbour_is_quiet(void **state)
{
    (void)state;
    model m = usual;
    m.busy = 0.4;
    m.drift = 0.02;
    assert_quiet("the same, busy 40 % of the time", m);
}

static void the_same_program_with_few_calls_is_quiet(void **state)
{
    (void)state;
    model m = usual;
    m.calls = 1;
    m.steps = 9;
    m.sigma = 0.12;
    assert_quiet("the same, 9 calls", m);
    m.steps = 4;
    assert_quiet("the same, 4 calls", m);
}

static void five_percent_of_one_op_are_found(void **state)
{
    (void)state;
    model m = usual;
    m.slow_op = 7;
    m.slow_count = 1;
    m.slow = 0.05;
    m.drift = 0.02;
    assert_found("+5 % of one op, 200 calls", m, 0.95);
    m.flat = true;
    assert_found("+5 % of one op, 200 calls, no steps", m, 0.95);
}

static void five_percent_are_found_where_there_is_little_else(void **state)
{
    (void)state;
    model m = usual;
    m.ops = 1;
    m.slow_count = 1;
    m.slow = 0.05;
    m.flat = true;
    assert_found("+5 % of the only op", m, 0.95);
}

static void twenty_percent_are_found_in_few_calls(void **state)
{
    (void)state;
    model m = usual;
    m.calls = 1;
    m.steps = 12;
    m.slow_op = 3;
    m.slow_count = 1;
    m.slow = 0.2;
    assert_found("+20 % of one op, 12 calls", m, 0.9);
}

static void a_tenth_that_became_faster_is_told(void **state)
{
    (void)state;
    model m = usual;
    m.slow_op = 5;
    m.slow_count = 1;
    m.slow = -0.1;
    mtp_trace *before = simulate(&m, 1, false), *after = simulate(&m, 1, true);
    mtp_diff *d = diff_of(before, after, NULL);
    assert_int_equal(row_of(d, "op5")->verdict, MTP_VERDICT_FASTER);
    assert_false(mtp_diff_slower(d, 0.05));
    assert_true(fabs(row_of(d, "op5")->change + 0.1) < 0.02);
    assert_ptr_equal(mtp_diff_row_at(d, 0), row_of(d, "op5"));
    mtp_diff_destroy(d);
    mtp_trace_destroy(before);
    mtp_trace_destroy(after);
}

/* ---------------------------------------------------------------------------------------------- one by
 * one */

/* `calls` calls of each name with its time, and a little scatter. */
typedef struct timed {
    const char *name;
    int64_t ns;
} timed;

static mtp_trace *run_of(const timed *ops, size_t count, int calls, unsigned seed)
{
    chance c = {seed * UINT64_C(0x9e3779b97f4a7c15) + 7};
    run r = run_begin();
    for (int k = 0; k < calls; k++)
        for (size_t i = 0; i < count; i++)
            add(&r, ops[i].name, (int64_t)((double)ops[i].ns * exp(0.02 * normal(&c))));
    return run_end(&r);
}

static void few_calls_are_uncertain_unless_the_change_is_huge(void **state)
{
    (void)state;
    const timed before[] = {{"a", 10000}, {"b", 10000}, {"c", 10000}},
                after[] = {{"a", 10000}, {"b", 13000}, {"c", 40000}};
    mtp_trace *x = run_of(before, 3, 5, 1), *y = run_of(after, 3, 5, 2);
    mtp_diff *d = diff_of(x, y, NULL);
    assert_int_equal(row_of(d, "a")->verdict, MTP_VERDICT_SAME);
    assert_int_equal(row_of(d, "b")->verdict, MTP_VERDICT_UNCERTAIN);
    assert_int_equal(row_of(d, "c")->verdict, MTP_VERDICT_SLOWER);
    assert_int_equal(row_of(d, "c")->own_verdict, MTP_VERDICT_SLOWER);
    assert_true(mtp_diff_slower(d, 0.05));
    assert_true(mtp_diff_slower(d, 2.5));
    assert_false(mtp_diff_slower(d, 5.0));
    mtp_diff_destroy(d);
    mtp_trace_destroy(x);
    mtp_trace_destroy(y);
}

static void one_call_says_nothing(void **state)
{
    (void)state;
    const timed before[] = {{"a", 10000}}, after[] = {{"a", 90000}};
    mtp_trace *x = run_of(before, 1, 1, 1), *y = run_of(after, 1, 1, 2);
    mtp_diff *d = diff_of(x, y, NULL);
    assert_int_equal(row_of(d, "a")->verdict, MTP_VERDICT_UNCERTAIN);
    assert_false(mtp_diff_slower(d, 0.05));
    mtp_diff_destroy(d);
    mtp_trace_destroy(x);
    mtp_trace_destroy(y);
}

static void added_and_removed_rows_are_reported(void **state)
{
    (void)state;
    const timed before[] = {{"a", 10000}, {"old", 20000}}, after[] = {{"a", 10000}, {"young", 30000}};
    mtp_trace *x = run_of(before, 2, 20, 1), *y = run_of(after, 2, 20, 2);
    mtp_diff *d = diff_of(x, y, NULL);
    mtp_diff_summary s = summary_of(d);
    assert_int_equal(s.rows, 3);
    assert_int_equal(s.appeared, 1);
    assert_int_equal(s.gone, 1);
    assert_int_equal(s.same, 1);
    assert_int_equal(row_of(d, "old")->verdict, MTP_VERDICT_GONE);
    assert_int_equal(row_of(d, "old")->count_after, 0);
    assert_int_equal(row_of(d, "young")->verdict, MTP_VERDICT_NEW);
    assert_true(row_of(d, "young")->change == 0);
    assert_false(mtp_diff_slower(d, 0.05));
    mtp_diff_destroy(d);
    mtp_trace_destroy(x);
    mtp_trace_destroy(y);
}

static mtp_trace *run_at_speed(double factor, unsigned seed)
{
    timed ops[12];
    static char names[12][8];
    for (int i = 0; i < 12; i++) {
        snprintf(names[i], sizeof names[i], "op%d", i);
        ops[i] = (timed){names[i], (int64_t)((5000 + 3000 * i) * factor)};
    }
    return run_of(ops, 12, 60, seed);
}

/* Steps in which "mul" is called `calls` times, and occasionally, at random, "extra". */
static mtp_trace *run_with_calls(int calls, int steps, bool marked, unsigned seed)
{
    chance c = {seed * UINT64_C(0x9e3779b97f4a7c15) + 5};
    run r = run_begin();
    for (int s = 0; s < steps; s++) {
        int64_t began = r.now;
        for (int k = 0; k < 4; k++)
            add(&r, "mm", (int64_t)(50000 * exp(0.02 * normal(&c))));
        add(&r, "add", (int64_t)(9000 * exp(0.02 * normal(&c))));
        add(&r, "sum", (int64_t)(9000 * exp(0.02 * normal(&c))));
        for (int k = 0; k < calls; k++)
            add(&r, "mul", (int64_t)(9000 * exp(0.02 * normal(&c))));
        for (int k = 0; k < 1 + (uniform(&c) < 0.5); k++)
            add(&r, "extra", (int64_t)(9000 * exp(0.02 * normal(&c))));
        if (marked)
            mtp__trace_add_step(r.t, &(mtp__step){began, r.now, s});
    }
    return run_end(&r);
}

static void an_op_that_is_called_twice_as_often_is_found(void **state)
{
    (void)state;
    for (int marked = 0; marked <= 1; marked++) {
        mtp_trace *a = run_with_calls(2, 6, marked, 1), *b = run_with_calls(4, 6, marked, 2),
                  *longer = run_with_calls(2, 12, marked, 3), *both = run_with_calls(4, 12, marked, 4);
        mtp_diff *d = diff_of(a, b, NULL);
        const mtp_diff_row *r = row_of(d, "mul");
        assert_int_equal(r->verdict, MTP_VERDICT_MORE_CALLS);
        assert_true(fabs(r->calls_change - 1) < 1e-9);
        assert_true(fabs(r->calls_before - (marked ? 2 : 12)) < 1e-9);
        assert_true(fabs(r->step_time_after / r->step_time_before - 2) < 0.1);
        assert_ptr_equal(r, mtp_diff_row_at(d, 0));
        assert_int_equal(row_of(d, "mm")->verdict, MTP_VERDICT_SAME);
        assert_int_equal(row_of(d, "extra")->verdict, MTP_VERDICT_SAME);
        assert_int_equal(summary_of(d).more_calls, 1);
        assert_true(mtp_diff_slower(d, 0.05));
        assert_true(mtp_diff_slower(d, 0.99));
        assert_false(mtp_diff_slower(d, 1.5));
        mtp_diff_destroy(d);
        d = diff_of(b, a, NULL);
        assert_int_equal(row_of(d, "mul")->verdict, MTP_VERDICT_FEWER_CALLS);
        assert_true(fabs(row_of(d, "mul")->calls_change + 0.5) < 1e-9);
        mtp_diff_destroy(d);
        d = diff_of(a, longer, NULL); /* a longer run does not count as more calls */
        assert_int_equal(row_of(d, "mul")->verdict, MTP_VERDICT_SAME);
        assert_int_equal(row_of(d, "mm")->verdict, MTP_VERDICT_SAME);
        mtp_diff_destroy(d);
        d = diff_of(a, both, NULL);
        assert_int_equal(row_of(d, "mul")->verdict, MTP_VERDICT_MORE_CALLS);
        assert_int_equal(row_of(d, "mm")->verdict, MTP_VERDICT_SAME);
        mtp_diff_destroy(d);
        mtp_trace_destroy(a);
        mtp_trace_destroy(b);
        mtp_trace_destroy(longer);
        mtp_trace_destroy(both);
    }
}

static void drift_is_the_machines_up_to_a_limit(void **state)
{
    (void)state;
    mtp_trace *x = run_at_speed(1, 1), *y = run_at_speed(1.06, 2), *z = run_at_speed(1.3, 3);
    mtp_diff_options o = MTP_DIFF_OPTIONS_INIT;
    mtp_diff *d = diff_of(x, y, &o);
    mtp_diff_summary s = summary_of(d);
    assert_true(s.has_drift && fabs(s.drift - 0.06) < 0.01);
    assert_int_equal(s.drift_verdict, MTP_VERDICT_SAME);
    assert_int_equal(s.same, 12);
    assert_false(mtp_diff_slower(d, 0.05));
    assert_true(fabs(row_of(d, "op5")->change - 0.06) < 0.015);
    assert_true(fabs(row_of(d, "op5")->excess) < 0.015);
    mtp_diff_destroy(d);

    d = diff_of(x, z, &o);
    s = summary_of(d);
    assert_true(fabs(s.drift - 0.3) < 0.02);
    assert_int_equal(s.drift_verdict, MTP_VERDICT_SLOWER);
    assert_int_equal(s.slower, 12);
    assert_true(mtp_diff_slower(d, 0.05));
    mtp_diff_destroy(d);

    o.normalize = true;
    d = diff_of(x, z, &o);
    s = summary_of(d);
    assert_true(fabs(s.drift - 0.3) < 0.02);
    assert_int_equal(s.same, 12);
    assert_false(mtp_diff_slower(d, 0.05));
    assert_true(fabs(row_of(d, "op5")->change) < 0.015); /* told without it */
    mtp_diff_destroy(d);

    o.normalize = false;
    o.max_drift = 0.01;
    d = diff_of(x, y, &o);
    assert_true(mtp_diff_slower(d, 0.05));
    mtp_diff_destroy(d);
    mtp_trace_destroy(x);
    mtp_trace_destroy(y);
    mtp_trace_destroy(z);
}

/* The child is slower; its parent's own part is not. */
static mtp_trace *run_nested(int64_t child, unsigned seed)
{
    chance c = {seed * UINT64_C(0x9e3779b97f4a7c15) + 3};
    run r = run_begin();
    for (int k = 0; k < 60; k++) {
        uint32_t parent =
            mtp__trace_add_span(r.t, r.track, r.now, r.now, text(r.t, "outer"), MTP__CATEGORY_CPU_OP, 0, 0);
        r.now += (int64_t)(20000 * exp(0.02 * normal(&c)));
        add(&r, "inner", (int64_t)((double)child * exp(0.02 * normal(&c))));
        mtp__trace_end_span(r.t, parent, r.now, 0);
        r.now += 1000;
    }
    return run_end(&r);
}

static void a_parent_is_slower_by_what_it_calls(void **state)
{
    (void)state;
    mtp_trace *x = run_nested(30000, 1), *y = run_nested(39000, 2);
    mtp_diff *d = diff_of(x, y, NULL);
    assert_int_equal(row_of(d, "inner")->verdict, MTP_VERDICT_SLOWER);
    assert_int_equal(row_of(d, "inner")->own_verdict, MTP_VERDICT_SLOWER);
    assert_int_equal(row_of(d, "outer")->verdict, MTP_VERDICT_SLOWER);
    assert_int_equal(row_of(d, "outer")->own_verdict, MTP_VERDICT_SAME);
    assert_true(fabs(row_of(d, "outer")->own_before - 20) < 1);
    assert_true(fabs(row_of(d, "outer")->change - 9.0 / 50) < 0.02);
    mtp_diff_destroy(d);
    mtp_trace_destroy(x);
    mtp_trace_destroy(y);
}

static void calls_are_compared_with_their_like(void **state)
{
    (void)state;
    mtp_trace *x = run_shapes(200000, 5, 1), *y = run_shapes(200000, 3, 2), *z = run_shapes(240000, 3, 3);
    mtp_diff *d = diff_of(x, y, NULL); /* fewer large ones: the mean falls, though no call changed */
    assert_int_equal(row_of(d, "aten::mm")->verdict, MTP_VERDICT_SAME);
    assert_true(fabs(row_of(d, "aten::mm")->change) < 0.02);
    mtp_diff_destroy(d);
    d = diff_of(x, z, NULL); /* and the large ones got slower: most of the time is theirs */
    assert_int_equal(row_of(d, "aten::mm")->verdict, MTP_VERDICT_SLOWER);
    assert_true(fabs(row_of(d, "aten::mm")->change - 0.2) < 0.03);
    mtp_diff_destroy(d);
    mtp_diff_options o = MTP_DIFF_OPTIONS_INIT;
    o.by_input_shape = true;
    d = diff_of(x, z, &o);
    assert_int_equal(mtp_diff_count(d), 2);
    for (size_t i = 0; i < 2; i++) {
        const mtp_diff_row *r = mtp_diff_row_at(d, i);
        bool large = strcmp(r->input_shapes, "[[64, 64]]") == 0;
        assert_int_equal(r->verdict, large ? MTP_VERDICT_SLOWER : MTP_VERDICT_SAME);
    }
    mtp_diff_destroy(d);
    mtp_trace_destroy(x);
    mtp_trace_destroy(y);
    mtp_trace_destroy(z);
}

static void slower_steps_are_reported(void **state)
{
    (void)state;
    mtp_trace *t[2];
    for (int k = 0; k < 2; k++) {
        chance c = {(unsigned)k * 77 + 11};
        run r = run_begin();
        for (int s = 0; s < 30; s++) {
            int64_t began = r.now;
            add(&r, "work", (int64_t)(100000 * exp(0.01 * normal(&c))));
            r.now += k == 0 ? 100000 : 140000; /* waiting, which no row sees */
            mtp__trace_add_step(r.t, &(mtp__step){began, r.now, s});
        }
        t[k] = run_end(&r);
    }
    mtp_diff *d = diff_of(t[0], t[1], NULL);
    mtp_diff_summary s = summary_of(d);
    assert_int_equal(s.steps_before, 30);
    assert_int_equal(s.slower, 0);
    assert_int_equal(s.step_verdict, MTP_VERDICT_SLOWER);
    assert_true(fabs(s.step_change - 0.2) < 0.02);
    assert_true(mtp_diff_slower(d, 0.05));
    assert_false(mtp_diff_slower(d, 0.4));
    mtp_diff_destroy(d);
    mtp_trace_destroy(t[0]);
    mtp_trace_destroy(t[1]);
}

/* Steps that take these times, in milliseconds, of `rows` ops each that share the time; 0: no ops. */
static mtp_trace *run_of_steps(const double *ms, size_t count, int rows)
{
    run r = run_begin();
    for (size_t s = 0; s < count; s++) {
        int64_t began = r.now;
        for (int k = 0; k < rows; k++) {
            char name[16];
            snprintf(name, sizeof name, "op%d", k);
            add(&r, name, (int64_t)(ms[s] * 1e6 / rows) - 100);
        }
        r.now = began + (int64_t)(ms[s] * 1e6);
        mtp__trace_add_step(r.t, &(mtp__step){began, r.now, (int64_t)s});
        r.now += 1000;
    }
    return run_end(&r);
}

static void six_steps_that_all_took_longer_are_slower(void **state)
{
    (void)state;
    static const double before[] = {75, 78, 81, 76, 80, 77}, after[] = {82, 166, 90, 85, 120, 101};
    static const double close[] = {75.5, 79, 80.5, 83, 76.5, 78}, mixed[] = {82, 76, 90, 77, 120, 75.5};
    for (int rows = 0; rows <= 6; rows += 2) {
        mtp_trace *a = run_of_steps(before, 6, rows), *b = run_of_steps(after, 6, rows),
                  *c = run_of_steps(close, 6, rows), *m = run_of_steps(mixed, 6, rows);
        mtp_diff *d = diff_of(a, b, NULL);
        mtp_diff_summary s = summary_of(d);
        assert_int_equal(s.step_verdict, MTP_VERDICT_SLOWER);
        assert_true(mtp_diff_slower(d, 0.05));
        assert_true(fabs(s.step_after_min - 82000) < 1 && fabs(s.step_after_max - 166000) < 1);
        assert_true(fabs(s.step_before_min - 75000) < 1 && fabs(s.step_before_max - 81000) < 1);
        mtp_diff_destroy(d);
        d = diff_of(b, a, NULL);
        assert_int_equal(summary_of(d).step_verdict, MTP_VERDICT_FASTER);
        assert_false(mtp_diff_slower(d, 0.05));
        mtp_diff_destroy(d);
        d = diff_of(a, c, NULL);
        assert_int_equal(summary_of(d).step_verdict, MTP_VERDICT_SAME);
        mtp_diff_destroy(d);
        d = diff_of(a, m, NULL);
        assert_int_not_equal(summary_of(d).step_verdict, MTP_VERDICT_SLOWER);
        assert_false(mtp_diff_slower(d, 0.05));
        mtp_diff_destroy(d);
        mtp_trace_destroy(a);
        mtp_trace_destroy(b);
        mtp_trace_destroy(c);
        mtp_trace_destroy(m);
    }
}

/* Six steps with any noise: a gate that fails without cause is soon switched off. */
static void six_steps_of_the_same_program_are_quiet(void **state)
{
    (void)state;
    model m = usual;
    m.calls = 2;
    m.steps = 6;
    assert_quiet("the same, 6 steps", m);
    m.spike = 0.2;
    m.spike_size = 20;
    assert_quiet("the same, 6 steps, a fifth of the calls far out", m);
    m = usual;
    m.calls = 1;
    m.ops = 1;
    m.sigma = 0.3;
    for (m.steps = 3; m.steps <= 15; m.steps += 3)
        assert_quiet("the same, 3 to 15 steps of one op that scatters by 30 %", m);
    m = usual;
    m.steps = 6;
    m.drift = 0.05;
    m.busy = 0.3;
    assert_quiet_within("the same, 6 steps, drift 5 %, busy 30 % of the time, for steps on end", m, 0.02);
}

static void ranks_are_exact_for_few(void **state)
{
    (void)state;
    static const struct {
        size_t before, after, wins; /* of the later side's pairs */
        double chance;
    } cases[] = {{6, 6, 36, 2 / 924.0}, {6, 6, 35, 4 / 924.0},         {6, 6, 0, 2 / 924.0},
                 {5, 5, 25, 2 / 252.0}, {3, 10, 30, 2 / 286.0},        {1, 1, 1, 1},
                 {4, 4, 15, 4 / 70.0},  {15, 15, 225, 2 / 155117520.0}};
    mtp__comparer *c = mtp__comparer_create();
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t lost = cases[i].before * cases[i].after - cases[i].wins;
        for (size_t k = 0; k < cases[i].before; k++)
            mtp__comparer_times(c, false)[k] = (mtp__time){10 + (double)k, 0};
        for (size_t k = 0; k < cases[i].after; k++) {
            double v = lost == 0 ? 100 + (double)k : cases[i].wins == 0 ? (double)k / 100 : 100 + (double)k;
            if (lost == 1 && k == 0)
                v = 10 + (double)cases[i].before - 1.5; /* before the last of the earlier */
            mtp__comparer_times(c, true)[k] = (mtp__time){v, 0};
        }
        mtp__compared compared;
        assert_true(mtp__compare(c, cases[i].before, cases[i].after, &compared));
        assert_true(fabs(mtp__compare_rank_chance(c, 0) / cases[i].chance - 1) < 1e-9);
    }
    mtp__comparer_destroy(c);
}

static void rows_are_those_of_the_averages(void **state)
{
    (void)state;
    mtp_trace *x = run_nested(30000, 1), *y = simulate(&usual, 3, true);
    mtp_averages *rows[2];
    assert_ok(mtp_averages_create(x, NULL, &rows[0]));
    assert_ok(mtp_averages_create(y, NULL, &rows[1]));
    mtp_diff *d = diff_of(x, y, NULL);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < mtp_averages_count(rows[k]); i++) {
            const mtp_row *a = mtp_averages_row(rows[k], i);
            const mtp_diff_row *b = row_of(d, a->key);
            assert_int_equal(a->count, k == 0 ? b->count_before : b->count_after);
            assert_true(fabs(a->cpu_time_total - (k == 0 ? b->total_before : b->total_after)) < 1e-6);
            assert_true(fabs(a->self_cpu_time_total - (k == 0 ? b->self_before : b->self_after)) < 1e-6);
        }
    assert_int_equal(mtp_diff_count(d), mtp_averages_count(rows[0]) + mtp_averages_count(rows[1]));
    mtp_diff_destroy(d);
    mtp_averages_destroy(rows[0]);
    mtp_averages_destroy(rows[1]);
    mtp_trace_destroy(x);
    mtp_trace_destroy(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_same_program_with_spikes_is_quiet),
        TEST(the_same_program_on_a_drifting_machine_is_quiet),
        TEST(the_same_program_beside_a_busy_neighbour_is_quiet),
        TEST(the_same_program_with_few_calls_is_quiet),
        TEST(five_percent_of_one_op_are_found),
        TEST(five_percent_are_found_where_there_is_little_else),
        TEST(twenty_percent_are_found_in_few_calls),
        TEST(a_tenth_that_became_faster_is_told),
        TEST(few_calls_are_uncertain_unless_the_change_is_huge),
        TEST(one_call_says_nothing),
        TEST(added_and_removed_rows_are_reported),
        TEST(an_op_that_is_called_twice_as_often_is_found),
        TEST(drift_is_the_machines_up_to_a_limit),
        TEST(a_parent_is_slower_by_what_it_calls),
        TEST(calls_are_compared_with_their_like),
        TEST(slower_steps_are_reported),
        TEST(six_steps_that_all_took_longer_are_slower),
        TEST(six_steps_of_the_same_program_are_quiet),
        TEST(ranks_are_exact_for_few),
        TEST(rows_are_those_of_the_averages),
    };
    return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
