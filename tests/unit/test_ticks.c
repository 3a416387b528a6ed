/* Unit: trace/ticks: the conversion of ticks, with clocks that misbehave. */
#include "tests/test.h"
#include <math.h>
#include "trace/records/ticks.h"

#define SECOND 1000000000ull
#define GHZ 2.5 /* ticks per ns in most tests: exact in binary, and far from 1 */
#define START 7000000000000000ull
#define REAL 1700000000000000000ull

typedef struct clocks { /* readings of a machine's clocks; ns since the first anchor */
    uint64_t ticks, ns, raw, real;
} clocks;

static void pass(clocks *c, uint64_t ns)
{
    c->ticks += ns / 2 * 5;
    c->ns += ns;
    c->raw += ns;
    c->real += ns;
}

static void add(mtp__tick_line *line, const clocks *c)
{
    mtp__anchor a = {START + c->ticks, 5000 * SECOND + c->ns, REAL + c->real, 4000 * SECOND + c->raw, 200};
    assert_true(mtp__ticks_add(line, &a));
}

static int64_t at(mtp__tick_line *line, uint64_t ticks)
{
    return mtp__ticks_to_ns(line, START + ticks);
}

/* ----------------------------------------------------------------------------- a few anchors that are
 * right */

static void one_anchor_goes_by_the_rate_of_the_session(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        static const double rates[] = {2.5, 1.0, 2.3999992};
        mtp__tick_line line = {0};
        add(&line, &(clocks){0});
        mtp__ticks_finish(&line, rates[k]);
        for (int i = 0; i < 20000; i++) {
            int64_t ticks = (int64_t)(test_random() >> (8 + test_below(50))); /* up to 200 days, either way */
            ticks = test_below(2) != 0 ? ticks : -ticks;
            long double exact = (long double)ticks * (long double)(1.0 / rates[k]);
            long double off = (long double)at(&line, (uint64_t)ticks) - exact;
            assert_true(off <= 0.5L && off >= -1.5L);
        }
        assert_int_equal(line.faults, 0);
        mtp__ticks_fini(&line);
    }
}

static void without_anchors_there_is_nothing_to_do(void **state)
{
    (void)state;
    mtp__tick_line line = {0};
    mtp__ticks_finish(&line, 2.5);
    assert_int_equal(line.count, 0);
    mtp__ticks_fini(&line);
}

static void a_rate_that_cannot_be_is_taken_for_one(void **state)
{
    (void)state;
    static const double odd[] = {0, -1, 1e9, 1e-9, (double)NAN, (double)INFINITY};
    for (size_t k = 0; k < COUNT(odd); k++) {
        mtp__tick_line line = {0};
        add(&line, &(clocks){0});
        mtp__ticks_finish(&line, odd[k]);
        assert_int_equal(at(&line, 1000), 1000);
        mtp__ticks_fini(&line);
    }
}

/* Compared with straight lines in long double between the surrounding anchors. */
static long double exact_ns(const clocks *c, size_t count, uint64_t ticks)
{
    size_t i = 0;
    while (i + 2 < count && ticks >= c[i + 1].ticks)
        i++;
    long double slope = (long double)(c[i + 1].ns - c[i].ns) / (long double)(c[i + 1].ticks - c[i].ticks);
    return (long double)c[i].ns + ((long double)ticks - (long double)c[i].ticks) * slope;
}

static void assert_exact(mtp__tick_line *line, const clocks *c, size_t count, int samples)
{
    uint64_t last = c[count - 1].ticks + 10 * SECOND;
    for (int i = 0; i < samples; i++) {
        uint64_t ticks = test_below(last);
        long double off = (long double)at(line, ticks) - exact_ns(c, count, ticks);
        assert_true(off <= 0.01L && off > -1.1L);
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(at(line, c[i].ticks), c[i].ns); /* and there it is exact */
        assert_in_range(at(line, c[i].ticks - 1) + 2, c[i].ns + (i > 0), c[i].ns + 2);
    }
}

/* A clock that is slewed, or whose quartz warms up: each second has its own rate. */
static void between_anchors_time_is_their_straight_line(void **state)
{
    (void)state;
    enum {
        N = 3000
    };
    static clocks c[N];
    static const uint64_t far[] = {SECOND, 3600 * SECOND, 2000000};
    for (size_t k = 0; k < COUNT(far); k++) {
        mtp__tick_line line = {0};
        for (int i = 0; i < N; i++) {
            c[i] = c[i > 0 ? i - 1 : 0];
            if (i > 0) {
                pass(&c[i], far[k] + test_below(far[k]));
                c[i].ns += far[k] / 2000 - test_below(far[k] / 1000);
            }
            add(&line, &c[i]);
        }
        mtp__ticks_finish(&line, GHZ);
        assert_int_equal(line.faults, 0);
        assert_int_equal(line.count, N);
        assert_exact(&line, c, N, 20000);
        mtp__ticks_fini(&line);
    }
}

static void anchors_may_come_in_any_order(void **state)
{
    (void)state;
    enum {
        N = 500
    };
    clocks c[N] = {{0}};
    size_t order[N];
    mtp__tick_line line = {0};
    for (size_t i = 0; i < N; i++) {
        order[i] = i;
        c[i] = c[i > 0 ? i - 1 : 0];
        if (i > 0)
            pass(&c[i], SECOND + test_below(1000) * 1000);
    }
    for (size_t i = N - 1; i > 0; i--) {
        size_t k = test_below(i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
    for (size_t i = 0; i < N; i++)
        add(&line, &c[order[i]]);
    mtp__ticks_finish(&line, GHZ);
    assert_int_equal(line.faults, 0);
    assert_exact(&line, c, N, 5000);
    mtp__ticks_fini(&line);
}

static void anchors_too_near_or_too_vague_to_tell_a_rate_are_passed_over(void **state)
{
    (void)state;
    mtp__tick_line line = {0};
    clocks c = {0};
    add(&line, &c);
    c.ns += 400; /* read 400 ns late: over 1 us that would be 40 % */
    pass(&c, 1000);
    add(&line, &c);
    c.ns -= 400;
    pass(&c, SECOND);
    mtp__anchor vague = {START + c.ticks, 5000 * SECOND + c.ns + SECOND / 20, REAL + c.real,
                         4000 * SECOND + c.raw, SECOND / 10}; /* the process was paused in the middle */
    assert_true(mtp__ticks_add(&line, &vague));
    mtp__ticks_finish(&line, GHZ);
    assert_int_equal(line.faults, 0);
    assert_int_equal(at(&line, 2500), 1000);
    assert_int_equal(at(&line, 5 * SECOND / 2), SECOND);
    mtp__ticks_fini(&line);
}

/* --------------------------------------------------------------------------------------- clocks gone
 * wrong */

/* For example, a virtual machine migrated to a faster host: by every system clock, ticks are shorter now. */
static void a_rate_that_all_clocks_vouch_for_is_followed(void **state)
{
    (void)state;
    clocks c[40] = {{0}};
    mtp__tick_line line = {0};
    for (size_t i = 0; i < COUNT(c); i++) {
        c[i] = c[i > 0 ? i - 1 : 0];
        if (i > 0) {
            pass(&c[i], SECOND);
            c[i].ticks += i >= 15 && i < 30 ? SECOND : 0;
        }
        add(&line, &c[i]);
    }
    mtp__ticks_finish(&line, GHZ);
    assert_int_equal(line.faults, 0);
    assert_exact(&line, c, COUNT(c), 5000);
    mtp__ticks_fini(&line);
}

typedef struct odd_clock {
    const char *what;
    int64_t ns, raw, real; /* added to their readings, from the 10th anchor on */
    uint32_t most_faults;
} odd_clock;

/* Ticks continue, and so does time: only a counter reports it. */
static void a_jump_of_the_systems_clock_is_counted_and_does_not_move_time(void **state)
{
    (void)state;
    static const odd_clock odd[] = {
        {"back", -(int64_t)SECOND / 2, 0, 0, 1},
        {"back a lot", -3000 * (int64_t)SECOND, 0, 0, 1},
        {"all clocks back", -3000 * (int64_t)SECOND, -3000 * (int64_t)SECOND, -3000 * (int64_t)SECOND, 1},
        {"ahead", 3600 * (int64_t)SECOND, 0, 0, 1},
        {"ahead a little", (int64_t)SECOND / 2, 0, 0, 1},
        {"suspended", -8 * 3600 * (int64_t)SECOND, -8 * 3600 * (int64_t)SECOND, 0, 1},
    };
    for (size_t k = 0; k < COUNT(odd); k++)
        for (int only = 0; only < 2; only++) { /* from there on, or one anchor that is off */
            clocks c = {.ns = 40000 * SECOND, .raw = 40000 * SECOND, .real = 40000 * SECOND};
            mtp__tick_line line = {0};
            for (int i = 0; i < 20; i++) {
                clocks told = c;
                bool is_odd = only != 0 ? i == 10 : i >= 10;
                told.ns += is_odd ? (uint64_t)odd[k].ns : 0;
                told.raw += is_odd ? (uint64_t)odd[k].raw : 0;
                told.real += is_odd ? (uint64_t)odd[k].real : 0;
                add(&line, &told);
                pass(&c, SECOND);
            }
            mtp__ticks_finish(&line, GHZ);
            assert_in_range(line.faults, 1, odd[k].most_faults);
            for (uint64_t ns = 0; ns < 25 * SECOND; ns += 12345678)
                assert_in_range(at(&line, ns / 2 * 5) + 1, ns, ns + 1);
            mtp__ticks_fini(&line);
        }
}

/* Devices whose driver speaks CLOCK_MONOTONIC. */
static void what_the_clock_said_after_a_jump_is_moved_with_it(void **state)
{
    (void)state;
    clocks c = {0};
    mtp__tick_line line = {0};
    for (int i = 0; i < 20; i++) {
        clocks told = c;
        told.ns += i >= 10 ? 3600 * SECOND : 0;
        add(&line, &told);
        pass(&c, SECOND);
    }
    mtp__ticks_finish(&line, GHZ);
    assert_int_equal(mtp__ticks_of_clock(&line, 5000 * SECOND), 0);
    assert_int_equal(mtp__ticks_of_clock(&line, 5005 * SECOND + 77), 5 * SECOND + 77);
    assert_int_equal(mtp__ticks_of_clock(&line, 8610 * SECOND), 10 * SECOND);
    assert_int_equal(mtp__ticks_of_clock(&line, 8625 * SECOND + 77), 25 * SECOND + 77);
    assert_int_equal(mtp__ticks_of_clock(&line, 0), -5000 * (int64_t)SECOND);
    mtp__ticks_fini(&line);
}

static void a_clock_that_stands_still_is_counted_and_the_session_tells_the_rate(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        clocks c = {0};
        mtp__tick_line line = {0};
        for (int i = 0; i < 10; i++) {
            clocks told = c;
            told.ns = 0;
            told.raw = all != 0 ? 0 : c.raw;
            told.real = all != 0 ? 0 : c.real;
            add(&line, &told);
            pass(&c, SECOND);
        }
        mtp__ticks_finish(&line, GHZ);
        assert_int_equal(line.faults, 9);
        assert_int_equal(at(&line, 25 * SECOND), 10 * SECOND);
        mtp__ticks_fini(&line);
    }
}

static void most_anchors_know_better_than_a_session_with_a_damaged_rate(void **state)
{
    (void)state;
    clocks c = {0};
    mtp__tick_line line = {0};
    for (int i = 0; i < 10; i++, pass(&c, SECOND))
        add(&line, &c);
    mtp__ticks_finish(&line, 1.0);
    assert_int_equal(line.faults, 1);
    assert_in_range(at(&line, 25 * SECOND), 10 * SECOND - 1, 10 * SECOND);
    mtp__ticks_fini(&line);
}

static void anchors_that_no_clock_gives_are_counted(void **state)
{
    (void)state;
    mtp__tick_line line = {0};
    const mtp__anchor sound = {START, 1, 1, 1, 1};
    for (int i = 0; i < 4; i++) {
        mtp__anchor bad = sound;
        (i == 0   ? &bad.monotonic_ns
         : i == 1 ? &bad.realtime_ns
         : i == 2 ? &bad.raw_ns
                  : &bad.error_ns)[0] = UINT64_MAX - 5;
        assert_true(mtp__ticks_add(&line, &bad));
    }
    assert_int_equal(line.count, 0);
    assert_int_equal(line.faults, 4);
    mtp__ticks_fini(&line);
}

static void no_time_is_beyond_the_bound(void **state)
{
    (void)state;
    mtp__tick_line line = {0};
    add(&line, &(clocks){0});
    mtp__ticks_finish(&line, 0.02);
    assert_true(mtp__ticks_to_ns(&line, START + ((uint64_t)1 << 62)) == MTP__NS_MAX);
    assert_true(mtp__ticks_to_ns(&line, START - ((uint64_t)1 << 62)) == -MTP__NS_MAX);
    assert_true(mtp__ticks_to_ns(&line, START + ((uint64_t)1 << 54)) == (int64_t)50 << 54);
    mtp__ticks_fini(&line);
    /* ahead by 18 years, back, and ahead by 36 */
    const uint64_t ns[] = {0, (uint64_t)1 << 59, 0, SECOND, ((uint64_t)1 << 60) - SECOND};
    const uint64_t passed[] = {0, (uint64_t)1 << 59, SECOND, SECOND, ((uint64_t)1 << 60) - 2 * SECOND};
    uint64_t ticks = 0;
    for (size_t i = 0; i < COUNT(ns); i++) {
        ticks += passed[i] / 2 * 5;
        assert_true(mtp__ticks_add(&line, &(mtp__anchor){ticks, ns[i], 0, 0, 0}));
    }
    mtp__ticks_finish(&line, GHZ);
    assert_int_equal(line.faults, 2);
    assert_true(mtp__ticks_to_ns(&line, ticks + ((uint64_t)1 << 62)) <= 2 * MTP__NS_MAX);
    mtp__ticks_fini(&line);
}

/* Each rate is close to the previous one, but together they drift to an impossible rate. */
static void rates_cannot_creep_beyond_what_a_clock_has(void **state)
{
    (void)state;
    mtp__tick_line line = {0};
    uint64_t ticks = START, ns = 0;
    double rate = 1 / GHZ;
    for (int i = 0; i < 100; i++, rate *= 1.1) {
        assert_true(mtp__ticks_add(&line, &(mtp__anchor){ticks, ns, 0, 0, 0}));
        ticks += 100000000;
        ns += (uint64_t)(1e8 * rate);
    }
    mtp__ticks_finish(&line, GHZ);
    assert_true(line.faults > 0);
    for (int64_t last = -1; ticks-- > START; ticks -= 999999) {
        int64_t now = mtp__ticks_to_ns(&line, ticks);
        assert_true(now >= 0 && (last < 0 || now <= last));
        last = now;
    }
    mtp__ticks_fini(&line);
}

/* ----------------------------------------------------------------------------------- whatever was
 * recorded */

static void odd_step(clocks *c)
{
    uint64_t far = test_random() >> test_below(64);
    switch (test_below(12)) {
    case 0:
        c->ns += far;
        break;
    case 1:
        c->ns -= far;
        break;
    case 2:
        c->ticks += far;
        break;
    case 3:
        c->ticks -= far;
        break;
    case 4:
        c->real -= far;
        break;
    case 5:
        c->raw = far;
        break;
    case 6:
        pass(c, far >> 4);
        break;
    default:
        pass(c, test_below(2 * SECOND));
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* No time goes backward, none is skipped, none is beyond the bound. */
static void time_is_monotone_and_continuous_whatever_the_anchors_say(void **state)
{
    (void)state;
    enum {
        N = 400
    };
    uint64_t sample[N];
    for (int round = 0; round < test_scaled(3000); round++) {
        mtp__tick_line line = {0};
        clocks c = {0};
        for (uint64_t n = 1 + test_below(30); n > 0; n--, odd_step(&c)) {
            mtp__anchor a = {c.ticks, c.ns, c.real, c.raw, test_below(1000)};
            assert_true(mtp__ticks_add(&line, &a));
        }
        mtp__ticks_finish(&line, test_below(4) != 0 ? GHZ : (double)test_below(200) / 2);
        if (line.count == 0)
            continue;
        for (int i = 0; i < N; i++) {
            uint64_t about = line.point[test_below(line.count)].ticks;
            sample[i] = test_below(2) != 0 ? about + test_below(5) - 2 : about + (test_random() >> 9);
        }
        qsort(sample, N, sizeof *sample, by_value);
        int64_t last = INT64_MIN;
        for (int i = 0; i < N; i++) {
            uint64_t ticks = sample[i];
            if (ticks - line.point[0].ticks > UINT64_MAX / 4 || ticks < line.point[0].ticks)
                continue;
            int64_t now = mtp__ticks_to_ns(&line, ticks), next = mtp__ticks_to_ns(&line, ticks + 1);
            assert_true(now >= last && next >= now &&
                        next - now <= 101 + 256); /* decades between anchors: a seam */
            assert_true(now >= -2 * MTP__NS_MAX && now <= 2 * MTP__NS_MAX);
            last = now;
        }
        mtp__ticks_fini(&line);
    }
}

/* ------------------------------------------------------------------------------------------------- months */

/* A year of anchors, with lookups anywhere, as when threads are read one after the other. */
static void a_year_of_anchors_takes_bounded_memory_and_stays_exact(void **state)
{
    (void)state;
    const uint64_t year = 365 * 24 * 3600;
    mtp__tick_line line = {0};
    clocks c = {0};
    for (uint64_t i = 0; i <= year; i++, pass(&c, SECOND)) {
        mtp__anchor a = {START + c.ticks, 5000 * SECOND + c.ns, REAL + c.real, 4000 * SECOND + c.raw, 200};
        if (!mtp__ticks_add(&line, &a))
            fail();
    }
    assert_true(line.room <= MTP__TICK_POINTS_MAX);
    assert_true(line.count > MTP__TICK_POINTS_MAX / 4);
    for (uint32_t i = 1; i + 1 < line.count;
         i++) /* no part of the year is kept less precisely than the rest */
        assert_int_equal(line.point[i].ticks - line.point[i - 1].ticks,
                         line.point[1].ticks - line.point[0].ticks);
    assert_int_equal(line.point[line.count - 1].ticks, START + year * SECOND / 2 * 5);
    mtp__ticks_finish(&line, 2.4); /* told a little wrong */
    assert_int_equal(line.faults, 0);
    for (int i = 0; i < 200000; i++) {
        uint64_t ns = test_below(year) * SECOND + test_below(SECOND / 2) * 2;
        assert_in_range(at(&line, ns / 2 * 5) + 1, ns, ns + 1);
    }
    mtp__ticks_fini(&line);
}

static void no_memory_for_an_anchor_is_reported(void **state)
{
    (void)state;
    mtp__tick_line line = {0};
    const mtp__anchor a = {START, 1, 1, 1, 1};
    int failed = 0;
    for (int i = 0; i < 9; i++) {
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, 1, true);
        failed += !mtp__ticks_add(&line, &a);
        mtp__fault_stop();
        assert_true(mtp__ticks_add(&line, &a));
    }
    assert_true(failed >= 3);
    assert_in_range(line.count, 9, 18);
    mtp__ticks_fini(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_anchor_goes_by_the_rate_of_the_session),
        TEST(without_anchors_there_is_nothing_to_do),
        TEST(a_rate_that_cannot_be_is_taken_for_one),
        TEST(between_anchors_time_is_their_straight_line),
        TEST(anchors_may_come_in_any_order),
        TEST(anchors_too_near_or_too_vague_to_tell_a_rate_are_passed_over),
        TEST(a_rate_that_all_clocks_vouch_for_is_followed),
        TEST(a_jump_of_the_systems_clock_is_counted_and_does_not_move_time),
        TEST(what_the_clock_said_after_a_jump_is_moved_with_it),
        TEST(a_clock_that_stands_still_is_counted_and_the_session_tells_the_rate),
        TEST(most_anchors_know_better_than_a_session_with_a_damaged_rate),
        TEST(anchors_that_no_clock_gives_are_counted),
        TEST(no_time_is_beyond_the_bound),
        TEST(rates_cannot_creep_beyond_what_a_clock_has),
        TEST(time_is_monotone_and_continuous_whatever_the_anchors_say),
        TEST(a_year_of_anchors_takes_bounded_memory_and_stays_exact),
        TEST(no_memory_for_an_anchor_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
