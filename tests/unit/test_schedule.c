/* Unit: record/schedule. */
#include "tests/test.h"

#define N MTP_ACTION_NONE
#define W MTP_ACTION_WARMUP
#define R MTP_ACTION_RECORD
#define S MTP_ACTION_RECORD_AND_SAVE

static void actions_follow_the_table(void **state)
{
    (void)state;
    static const struct {
        mtp_schedule schedule; /* wait, warmup, active, repeat, skip_first, skip_first_wait */
        mtp_action action[14];
    } row[] = {
        {{1, 1, 2, 0, 0, 0}, {N, W, R, S, N, W, R, S, N, W, R, S, N, W}},
        {{1, 1, 2, 1, 0, 0}, {N, W, R, S, N, N, N, N, N, N, N, N, N, N}},
        {{1, 1, 2, 2, 0, 0}, {N, W, R, S, N, W, R, S, N, N, N, N, N, N}},
        {{0, 0, 1, 0, 0, 0}, {S, S, S, S, S, S, S, S, S, S, S, S, S, S}},
        {{0, 0, 3, 0, 0, 0}, {R, R, S, R, R, S, R, R, S, R, R, S, R, R}},
        {{0, 2, 1, 0, 0, 0}, {W, W, S, W, W, S, W, W, S, W, W, S, W, W}},
        {{2, 0, 1, 0, 0, 0}, {N, N, S, N, N, S, N, N, S, N, N, S, N, N}},
        {{0, 1, 1, 1, 3, 0}, {N, N, N, W, S, N, N, N, N, N, N, N, N, N}},
        {{2, 1, 1, 2, 1, 0}, {N, N, N, W, S, N, N, W, S, N, N, N, N, N}},
        {{2, 1, 1, 2, 1, 1}, {N, W, S, N, N, W, S, N, N, N, N, N, N, N}}, /* the first cycle does not wait */
        {{2, 1, 1, 0, 0, 7}, {W, S, N, N, W, S, N, N, W, S, N, N, W, S}},
        {{0, 1, 1, 0, 0, 1}, {W, S, W, S, W, S, W, S, W, S, W, S, W, S}},
        {{3, 0, 1, 1, 2, 1}, {N, N, S, N, N, N, N, N, N, N, N, N, N, N}},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        assert_ok(mtp_schedule_check(&row[i].schedule));
        for (uint64_t step = 0; step < COUNT(row[i].action); step++)
            if (mtp_schedule_action(&row[i].schedule, step) != row[i].action[step])
                fail_msg("row %zu, step %llu: %s, not %s", i, (unsigned long long)step,
                         mtp_action_text(mtp_schedule_action(&row[i].schedule, step)),
                         mtp_action_text(row[i].action[step]));
    }
}

/* The slow way: one phase after the other, without arithmetic. */
typedef struct walker {
    const mtp_schedule *s;
    int64_t skip, wait, warmup, active, cycles;
} walker;

static void walker_cycle(walker *w)
{
    w->wait = w->s->wait;
    w->warmup = w->s->warmup;
    w->active = w->s->active;
}

static mtp_action walker_next(walker *w)
{
    if (w->skip > 0) {
        w->skip--;
        return N;
    }
    if (w->s->repeat > 0 && w->cycles == w->s->repeat)
        return N;
    if (w->wait > 0) {
        w->wait--;
        return N;
    }
    if (w->warmup > 0) {
        w->warmup--;
        return W;
    }
    if (w->active-- > 1)
        return R;
    w->cycles++;
    walker_cycle(w);
    return S;
}

static void random_schedules_agree_with_walking_through_them(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        mtp_schedule s = {(int64_t)test_below(5), (int64_t)test_below(5), 1 + (int64_t)test_below(5),
                          (int64_t)test_below(4), (int64_t)test_below(6), (int64_t)test_below(2)};
        walker w = {.s = &s, .skip = s.skip_first};
        walker_cycle(&w);
        if (s.skip_first_wait != 0)
            w.wait = 0;
        assert_ok(mtp_schedule_check(&s));
        for (uint64_t step = 0; step < 60; step++)
            if (walker_next(&w) != mtp_schedule_action(&s, step))
                fail_msg("{%lld, %lld, %lld, %lld, %lld, %lld} differs at step %llu", (long long)s.wait,
                         (long long)s.warmup, (long long)s.active, (long long)s.repeat,
                         (long long)s.skip_first, (long long)s.skip_first_wait, (unsigned long long)step);
    }
}

static void bad_numbers_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        mtp_schedule schedule;
        const char *says;
    } bad[] = {
        {{-1, 0, 1, 0, 0, 0}, "wait=-1 must not be negative"},
        {{0, -2, 1, 0, 0, 0}, "warmup=-2 must not be negative"},
        {{0, 0, -3, 0, 0, 0}, "active=-3 must not be negative"},
        {{0, 0, 1, -4, 0, 0}, "repeat=-4 must not be negative"},
        {{0, 0, 1, 0, -5, 0}, "skip_first=-5 must not be negative"},
        {{0, 0, 1, 0, 0, -6}, "skip_first_wait=-6 must not be negative"},
        {{1, 1, 0, 0, 0, 0}, "active=0 records nothing"},
        {{INT64_MAX, 0, 1, 0, 0, 0}, "too long"},
        {{0, INT64_MAX, 1, 0, 0, 0}, "too long"},
        {{0, 0, INT64_MAX, 0, 0, 0}, "too long"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(mtp_schedule_check(&bad[i].schedule), MTP_E_ARG);
        assert_says(bad[i].says);
    }
}

static void steps_far_out_do_not_overflow(void **state)
{
    (void)state;
    mtp_schedule s = {INT64_MAX / 4, INT64_MAX / 4, INT64_MAX / 4, INT64_MAX, INT64_MAX, 1};
    assert_ok(mtp_schedule_check(&s));
    assert_int_equal(mtp_schedule_action(&s, 0), N);
    assert_int_equal(mtp_schedule_action(&s, (uint64_t)INT64_MAX - 1), N);
    assert_int_equal(mtp_schedule_action(&s, (uint64_t)INT64_MAX), W);
    mtp_schedule every = {0, 0, 1, 0, 0, 0};
    assert_int_equal(mtp_schedule_action(&every, UINT64_MAX), S);
}

static void no_schedule_records_every_step(void **state)
{
    (void)state;
    mtp_schedule none = {0, 0, 0, 0, 0, 0}, inactive = {1, 1, 0, 2, 0, 0}, nothing = {0, 0, 0, 0, 1, 0};
    for (uint64_t step = 0; step < 3; step++) {
        assert_int_equal(mtp_schedule_action(&none, step), R);
        assert_int_equal(mtp_schedule_action(NULL, step), R);
        assert_int_equal(mtp_schedule_action(&inactive, step), N);
        assert_int_equal(mtp_schedule_action(&nothing, step), N);
    }
    assert_int_equal(mtp_schedule_check(NULL), MTP_E_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(actions_follow_the_table),        TEST(random_schedules_agree_with_walking_through_them),
        TEST(bad_numbers_are_refused_by_name), TEST(steps_far_out_do_not_overflow),
        TEST(no_schedule_records_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
