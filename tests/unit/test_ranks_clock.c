/* Unit: analyze/ranks/clock: clocks from meetings. Polygons are compared with an exhaustive search; clocks that were
 * planted must be found, within the error that is stated. */
#include <math.h>
#include "analyze/ranks/clock.h"
#include "tests/test.h"

static double share(void) /* 0 to 1 */
{
    return (double)(test_random() >> 11) / 9007199254740992.0;
}

/* ---------------------------------------------------------------------------------------------- polygons */

#define BOUNDS_MOST 14u

static bool fits(const mtp__bound *b, uint32_t count, double a, double slope, double give)
{
    for (uint32_t i = 0; i < count; i++) {
        double y = a + slope * b[i].x;
        if (b[i].upper ? y > b[i].y + give : y < b[i].y - give)
            return false;
    }
    return slope >= -MTP__DRIFT_MAX - 1e-12 && slope <= MTP__DRIFT_MAX + 1e-12;
}

/* The greatest y at x of all lines that fit: at a corner, where two bounds hold with equality, or one and a limit. */
static bool search(const mtp__bound *b, uint32_t count, double x, double *least, double *most)
{
    bool any = false;
    *least = INFINITY;
    *most = -INFINITY;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count + 2; k++) {
            if (k < count && b[k].x == b[i].x)
                continue;
            double slope = k < count    ? (b[k].y - b[i].y) / (b[k].x - b[i].x)
                           : k == count ? MTP__DRIFT_MAX
                                        : -MTP__DRIFT_MAX;
            double a = b[i].y - slope * b[i].x;
            if (!fits(b, count, a, slope, 1e-6))
                continue;
            any = true;
            *least = fmin(*least, a + slope * x);
            *most = fmax(*most, a + slope * x);
        }
    return any;
}

static uint32_t make_bounds(mtp__bound *b, double breadth)
{
    uint32_t count = 2 + (uint32_t)(test_random() % (BOUNDS_MOST - 2));
    double a = (share() - 0.5) * 1e6, slope = (share() - 0.5) * 1e-3;
    for (uint32_t i = 0; i < count; i++) {
        b[i] = (mtp__bound){.x = floor(share() * 1e9), .upper = i == 0 || (i > 1 && test_random() % 2 != 0)};
        b[i].y = a + slope * b[i].x + (b[i].upper ? 1 : -1) * share() * breadth;
    }
    return count;
}

static void a_polygon_has_the_bounds_that_an_exhaustive_search_finds(void **state)
{
    (void)state;
    mtp__polygon p = {0};
    for (int turn = 0; turn < test_scaled(3000); turn++) {
        mtp__bound b[BOUNDS_MOST] = {0};
        uint32_t count = make_bounds(b, turn % 3 == 0 ? 1e5 : turn % 3 == 1 ? 100 : 0);
        assert_true(mtp__polygon_make(&p, b, count));
        if (p.gap < 0) /* by rounding, where all points are on a line */
            assert_true(turn % 3 == 2 && p.gap > -1e-6);
        for (double x = -5e8; x <= 2e9 && p.count > 0; x += 5e8) {
            double least, most;
            assert_true(search(b, count, x, &least, &most));
            assert_true(fabs(mtp__polygon_most(&p, x) - most) < 1e-3);
            assert_true(fabs(mtp__polygon_least(&p, x) - least) < 1e-3);
        }
    }
    mtp__polygon_fini(&p);
}

static void a_polygon_is_empty_where_no_line_fits(void **state)
{
    (void)state;
    mtp__polygon p = {0};
    int empty = 0, turns = (int)test_scaled(2000);
    for (int turn = 0; turn < turns; turn++) {
        mtp__bound b[BOUNDS_MOST] = {0};
        uint32_t count = make_bounds(b, 1000);
        b[count - 1].y += (b[count - 1].upper ? -1 : 1) * share() * 3000;
        assert_true(mtp__polygon_make(&p, b, count));
        double least, most;
        bool found = search(b, count, 0, &least, &most);
        if (fabs(p.gap) > 1e-3)
            assert_int_equal(found, p.gap > 0);
        if (p.gap < 0) { /* the best line breaks bounds by half the gap, and no more */
            assert_true(fits(b, count, p.least.a, p.least.b, -p.gap / 2 + 1e-3));
            assert_false(fits(b, count, p.least.a, p.least.b, -p.gap / 2 * 0.99 - 1e-3));
            empty++;
        }
    }
    assert_true(empty > turns / 20); /* of any number: sanitizers make fewer; usually nearly half */
    mtp__polygon_fini(&p);
}

static void bounds_on_one_side_leave_the_other_open(void **state)
{
    (void)state;
    mtp__polygon p = {0};
    const mtp__bound b[] = {{.x = 10, .y = 5}, {.x = 1e9, .y = 100}};
    assert_true(mtp__polygon_make(&p, b, 2));
    assert_true(p.gap > 0 && mtp__polygon_most(&p, 0) > 1e299 && mtp__polygon_least(&p, 0) < 5);
    assert_true(fits(b, 2, p.least.a, p.least.b, 1e-6));
    mtp__polygon_fini(&p);
}

static void a_line_goes_through_most_points_whatever_the_others_are(void **state)
{
    (void)state;
    static mtp__point p[2000];
    for (int turn = 0; turn < test_scaled(30); turn++) {
        double a = (share() - 0.5) * 1e8, b = (share() - 0.5) * 1e-4;
        for (uint32_t i = 0; i < COUNT(p); i++) {
            p[i].x = i * 1e7;
            p[i].y = a + b * p[i].x + (share() - 0.5) * 4000;
            if (test_random() % 5 == 0)
                p[i].y += share() * 1e7;
        }
        mtp__line line;
        assert_true(mtp__line_fit(p, COUNT(p), &line));
        assert_true(fabs(line.a - a) < 400 && fabs(line.a + line.b * 2e10 - a - b * 2e10) < 400);
    }
}

/* ------------------------------------------------------------------------------------------------ clocks */

#define RANKS 64u
#define MEETINGS 1500u

typedef struct world { /* true times, and how each rank's clock shows them */
    mtp__clocks_in in;
    mtp__meeting meeting[MEETINGS];
    mtp__seen seen[MEETINGS * RANKS];
    mtp__tie tie[RANKS * 2];
    int64_t first[RANKS], last[RANKS];
    double offset[RANKS], drift[RANKS];
    uint32_t seen_count;
} world;
static world w;

#define LENGTH 60e9

/* What rank r's clock shows. */
static int64_t shown(uint32_t r, double t)
{
    return (int64_t)llround(1.7e18) + (int64_t)llround(t + w.offset[r] + w.drift[r] * t);
}

static void begin_world(uint32_t ranks, double offset, double drift)
{
    memset(&w, 0, sizeof w);
    for (uint32_t r = 0; r < ranks; r++) {
        w.offset[r] = r == 0 ? 0 : (share() - 0.5) * 2 * offset;
        w.drift[r] = r == 0 ? 0 : (share() - 0.5) * 2 * drift;
        w.first[r] = shown(r, 0);
        w.last[r] = shown(r, LENGTH);
    }
    w.in = (mtp__clocks_in){
        .ranks = ranks, .first = w.first, .last = w.last, .meeting = w.meeting, .seen = w.seen, .tie = w.tie};
}

/* Members: first, first + stride, ... The slow one enters late; all leave a moment after the last has entered. */
static mtp__meeting *meet(double t, uint32_t first, uint32_t stride, uint32_t count, uint32_t slow)
{
    mtp__meeting *m = &w.meeting[w.in.meetings++];
    double enter[RANKS], last = 0;
    *m = (mtp__meeting){.first = w.seen_count, .count = count, .root = UINT32_MAX, .kind = MTP__MEET_ALL};
    for (uint32_t k = 0; k < count; k++) {
        enter[k] = t + share() * 200e3 + (first + k * stride == slow ? 3e6 : 0);
        last = fmax(last, enter[k]);
    }
    double end = last + 20e3 + share() * 30e3;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t r = first + k * stride;
        w.seen[w.seen_count++] = (mtp__seen){
            .rank = r, .enter = shown(r, enter[k]), .leave = shown(r, end + share() * share() * 4e3)};
    }
    return m;
}

/* The greatest difference between a clock that was found and the truth, in nanoseconds of the reference. */
static double off_by(const mtp__clocks *c, uint32_t r)
{
    double worst = 0;
    for (int k = 0; k <= 10; k++) {
        double t = LENGTH * k / 10;
        double found = (double)(mtp__clock_at(&c->line[r], shown(r, t)) - shown(0, t));
        worst = fmax(worst, fabs(found));
    }
    return worst;
}

static void planted_clocks_are_found_within_5_us_and_inside_the_stated_error(void **state)
{
    (void)state;
    begin_world(RANKS, 50e6, 20e-6);
    for (uint32_t i = 0; i < MEETINGS; i++)
        meet(LENGTH * (i + 0.5) / MEETINGS, 0, 1, RANKS, i > MEETINGS / 2 ? 17 : UINT32_MAX);
    mtp__clocks c;
    assert_int_equal(mtp__clocks_solve(&w.in, &c), MTP_OK);
    assert_int_equal(c.conflicts, 0);
    double worst = 0, stated = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        double off = off_by(&c, r);
        assert_int_equal(c.line[r].component, 0);
        assert_true(c.line[r].error >= 0);
        assert_true(off <= (double)c.line[r].error + 1);
        worst = fmax(worst, off);
        stated = fmax(stated, (double)c.line[r].error);
    }
    fprintf(stderr, "# off by at most %.0f ns, stated: at most %.0f ns\n", worst, stated);
    assert_true(worst < 5000);
    assert_true(stated < 500e3);
    mtp__clocks_fini(&c);
}

/* Rows and columns of 8 x 8: no meeting has all ranks. */
static void clocks_of_ranks_that_never_met_are_found_through_others(void **state)
{
    (void)state;
    begin_world(RANKS, 50e6, 20e-6);
    for (uint32_t i = 0; i < MEETINGS; i++)
        if (i % 2 == 0)
            meet(LENGTH * (i + 0.5) / MEETINGS, i / 2 % 8 * 8, 1, 8, UINT32_MAX);
        else
            meet(LENGTH * (i + 0.5) / MEETINGS, i / 2 % 8, 8, 8, UINT32_MAX);
    mtp__clocks c;
    assert_int_equal(mtp__clocks_solve(&w.in, &c), MTP_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(c.line[r].component, 0);
        assert_true(c.line[r].error >= 0);
        assert_true(off_by(&c, r) <= (double)c.line[r].error + 1);
        assert_true(off_by(&c, r) < 5000);
    }
    mtp__clocks_fini(&c);
}

static void random_worlds_lie_inside_the_stated_error(void **state)
{
    (void)state;
    for (int turn = 0; turn < test_scaled(60); turn++) {
        uint32_t ranks = 2 + (uint32_t)(test_random() % 7), count = 1 + (uint32_t)(test_random() % 40);
        begin_world(ranks, 50e6, 300e-6);
        for (uint32_t i = 0; i < count; i++) {
            mtp__meeting *m = meet(LENGTH * share(), 0, 1, ranks, (uint32_t)(test_random() % ranks));
            m->kind = (uint32_t)(test_random() % 4);
            if (m->kind == MTP__MEET_FROM_ROOT || m->kind == MTP__MEET_TO_ROOT)
                m->root = (uint32_t)(test_random() % ranks);
        }
        mtp__clocks c;
        assert_int_equal(mtp__clocks_solve(&w.in, &c), MTP_OK);
        for (uint32_t r = 0; r < ranks; r++)
            if (c.line[r].error >= 0 && c.line[r].component == 0)
                assert_true(off_by(&c, r) <= (double)c.line[r].error + 1);
        assert_int_equal(c.conflicts, 0);
        mtp__clocks_fini(&c);
    }
}

static void ties_bound_what_meetings_do_not(void **state)
{
    (void)state;
    begin_world(4, 50e6, 20e-6);
    for (uint32_t r = 1; r < 4; r++)
        for (int k = 0; k < 2; k++) {
            double t = k == 0 ? 1e6 : LENGTH - 1e6, noise = (share() - 0.5) * 2000;
            w.tie[w.in.ties++] = (mtp__tie){.own = r,
                                            .peer = 0,
                                            .at = shown(r, t),
                                            .offset = shown(0, t) - shown(r, t) + (int64_t)noise,
                                            .error = 1500};
        }
    w.tie[0] = (mtp__tie){.own = 0, /* from the other side */
                          .peer = 1,
                          .at = shown(0, 1e6),
                          .offset = shown(1, 1e6) - shown(0, 1e6),
                          .error = 1500};
    mtp__clocks c;
    assert_int_equal(mtp__clocks_solve(&w.in, &c), MTP_OK);
    for (uint32_t r = 0; r < 4; r++) {
        assert_true(c.line[r].error >= 0 && c.line[r].error < 3200);
        assert_true(off_by(&c, r) <= (double)c.line[r].error + 1);
    }
    mtp__clocks_fini(&c);
}

/* Calls that only enqueue were taken for calls that wait: all that they say about clocks is wrong by milliseconds. */
static void what_was_measured_counts_more_than_what_calls_suggest(void **state)
{
    (void)state;
    begin_world(4, 50e6, 20e-6);
    for (uint32_t i = 0; i < 100; i++) {
        mtp__meeting *m = meet(LENGTH * (i + 0.5) / 100, 0, 1, 4, UINT32_MAX);
        for (uint32_t k = 1; k < 4; k++) {
            int64_t wrong = 11000000 + (int64_t)(share() * 3e6);
            w.seen[m->first + k].enter += wrong;
            w.seen[m->first + k].leave = w.seen[m->first + k].enter + 2000;
        }
    }
    for (uint32_t r = 1; r < 4; r++)
        for (int k = 0; k < 2; k++) {
            double at = k == 0 ? 1e6 : LENGTH - 1e6;
            w.tie[w.in.ties++] = (mtp__tie){.own = r,
                                            .peer = 0,
                                            .at = shown(r, at),
                                            .offset = shown(0, at) - shown(r, at),
                                            .error = 1500};
        }
    mtp__clocks c;
    assert_int_equal(mtp__clocks_solve(&w.in, &c), MTP_OK);
    assert_true(c.conflicts > 0);
    for (uint32_t r = 0; r < 4; r++) {
        assert_true(c.line[r].error >= 0 && c.line[r].error < 6000);
        assert_true(off_by(&c, r) <= (double)c.line[r].error + 1);
    }
    mtp__clocks_fini(&c);
}

/* A call was matched with the wrong one: rank 3 seems to leave 2 ms before the others enter. */
static void a_contradiction_is_named_and_left_out(void **state)
{
    (void)state;
    begin_world(8, 50e6, 20e-6);
    for (uint32_t i = 0; i < 200; i++)
        meet(LENGTH * (i + 0.5) / 200, 0, 1, 8, UINT32_MAX);
    mtp__seen *wrong = &w.seen[w.meeting[77].first + 3];
    wrong->enter -= 2000000;
    wrong->leave -= 2000000;
    mtp__clocks c;
    assert_int_equal(mtp__clocks_solve(&w.in, &c), MTP_OK);
    assert_true(c.conflicts > 0);
    for (uint32_t i = 0; i < c.conflicts; i++) {
        assert_int_equal(c.conflict[i].meeting, 77);
        assert_int_equal(c.conflict[i].leaver, 3);
        assert_true(c.conflict[i].by > 1500000 && c.conflict[i].by < 2500000);
    }
    for (uint32_t r = 0; r < 8; r++)
        assert_true(off_by(&c, r) <= (double)c.line[r].error + 1 && c.line[r].error < 500000);
    mtp__clocks_fini(&c);
}

/* Each pair is possible, the three together are not. */
static void a_chain_that_contradicts_itself_is_named(void **state)
{
    (void)state;
    begin_world(3, 0, 0);
    for (uint32_t i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            double t = k == 0 ? 1e6 : LENGTH;
            w.tie[w.in.ties++] =
                (mtp__tie){.own = i, .peer = (i + 1) % 3, .at = shown(i, t), .offset = 10000, .error = 1000};
        }
    mtp__clocks c;
    assert_int_equal(mtp__clocks_solve(&w.in, &c), MTP_OK);
    assert_int_equal(c.conflicts, 1);
    assert_int_equal(c.conflict[0].meeting, UINT32_MAX);
    assert_true(c.conflict[0].by > 20000);
    mtp__clocks_fini(&c);
}

static void ranks_without_meetings_are_on_their_own(void **state)
{
    (void)state;
    begin_world(4, 50e6, 20e-6);
    for (uint32_t i = 0; i < 20; i++)
        meet(LENGTH * (i + 0.5) / 20, 2, 1, 2, UINT32_MAX);
    mtp__clocks c;
    assert_int_equal(mtp__clocks_solve(&w.in, &c), MTP_OK);
    assert_int_equal(c.line[0].component, 0);
    assert_int_equal(c.line[1].component, 1);
    assert_int_equal(c.line[2].component, 2);
    assert_int_equal(c.line[3].component, 2);
    assert_int_equal(c.line[1].offset, 0);
    assert_true(c.line[3].error > 0);
    mtp__clocks_fini(&c);
    begin_world(1, 0, 0);
    assert_int_equal(mtp__clocks_solve(&w.in, &c), MTP_OK);
    assert_int_equal(c.line[0].error, 0);
    mtp__clocks_fini(&c);
}

static void of_many_ranks_some_pairs_are_enough(void **state)
{
    (void)state;
    enum {
        MANY = 200
    };
    static mtp__seen calls[MANY * 50];
    static mtp__meeting meeting[50];
    static int64_t first[MANY], last[MANY];
    for (uint32_t r = 0; r < MANY; r++) {
        first[r] = r * 1000000;
        last[r] = first[r] + 50000000;
    }
    for (uint32_t m = 0; m < 50; m++) {
        meeting[m] =
            (mtp__meeting){.first = m * MANY, .count = MANY, .root = UINT32_MAX, .kind = MTP__MEET_ALL};
        for (uint32_t r = 0; r < MANY; r++)
            calls[m * MANY + r] = (mtp__seen){.rank = r,
                                              .enter = first[r] + m * 1000000 + r,
                                              .leave = first[r] + m * 1000000 + 10000 + r % 7};
    }
    mtp__clocks_in in = {
        .ranks = MANY, .meetings = 50, .first = first, .last = last, .meeting = meeting, .seen = calls};
    mtp__clocks c;
    assert_int_equal(mtp__clocks_solve(&in, &c), MTP_OK);
    for (uint32_t r = 0; r < MANY; r++) {
        int64_t off = mtp__clock_at(&c.line[r], first[r]) - first[0];
        assert_true(c.line[r].error >= 0 && c.line[r].error < 25000);
        assert_true(off > -100 && off < 100);
    }
    mtp__clocks_fini(&c);
}

static void out_of_memory_anywhere_leaves_nothing_behind(void **state)
{
    (void)state;
    begin_world(5, 50e6, 20e-6);
    for (uint32_t i = 0; i < 30; i++)
        meet(LENGTH * (i + 0.5) / 30, 0, 1, 5, UINT32_MAX);
    w.seen[w.meeting[7].first + 3].leave -= 5000000;
    long live = mtp__alloc_live();
    mtp_status status = MTP_E_NOMEM;
    for (int nth = 1; status != MTP_OK; nth++) {
        mtp__clocks c;
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, false);
        status = mtp__clocks_solve(&w.in, &c);
        mtp__fault_stop();
        assert_true(status == MTP_OK || status == MTP_E_NOMEM);
        mtp__clocks_fini(&c);
        assert_int_equal(mtp__alloc_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_polygon_has_the_bounds_that_an_exhaustive_search_finds),
        TEST(a_polygon_is_empty_where_no_line_fits),
        TEST(bounds_on_one_side_leave_the_other_open),
        TEST(a_line_goes_through_most_points_whatever_the_others_are),
        TEST(planted_clocks_are_found_within_5_us_and_inside_the_stated_error),
        TEST(clocks_of_ranks_that_never_met_are_found_through_others),
        TEST(random_worlds_lie_inside_the_stated_error),
        TEST(ties_bound_what_meetings_do_not),
        TEST(what_was_measured_counts_more_than_what_calls_suggest),
        TEST(a_contradiction_is_named_and_left_out),
        TEST(a_chain_that_contradicts_itself_is_named),
        TEST(ranks_without_meetings_are_on_their_own),
        TEST(of_many_ranks_some_pairs_are_enough),
        TEST(out_of_memory_anywhere_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("ranks_clock", tests, NULL, NULL);
}
