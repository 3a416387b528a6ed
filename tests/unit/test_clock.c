/* Unit: base/clock. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <time.h>
#include "base/clock.h"

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void ticks_never_go_back(void **state)
{
    (void)state;
    uint64_t last = mtp_ticks();
    for (int i = 0; i < 100000; i++) {
        uint64_t now = mtp_ticks();
        assert_true(now >= last);
        last = now;
    }
}

static void fast_and_slow_reads_are_of_one_clock(void **state)
{
    (void)state;
    if (!mtp__clock_is_tsc())
        skip();
    for (int i = 0; i < 1000; i++) {
        uint64_t a = mtp__clock_ticks_slow(), b = mtp__clock_ticks_fast(), c = mtp__clock_ticks_slow();
        assert_true(a <= b && b <= c);
    }
}

static void anchors_are_monotone_in_every_clock(void **state)
{
    (void)state;
    mtp__anchor a, b;
    mtp__clock_anchor(&a);
    for (int i = 0; i < 1000; i++) {
        mtp__clock_anchor(&b);
        assert_true(b.ticks > a.ticks);
        assert_true(b.monotonic_ns > a.monotonic_ns);
        assert_true(b.raw_ns > a.raw_ns);
        a = b;
    }
}

static void an_anchor_lies_between_readings_around_it(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        mtp__anchor a;
        uint64_t mono = clock_ns(CLOCK_MONOTONIC), real = clock_ns(CLOCK_REALTIME), ticks = mtp_ticks();
        mtp__clock_anchor(&a);
        assert_true(a.monotonic_ns >= mono && a.monotonic_ns <= clock_ns(CLOCK_MONOTONIC));
        assert_true(a.ticks >= ticks && a.ticks <= mtp_ticks());
        assert_true(a.realtime_ns + 1000000000u >= real);
        assert_true(a.error_ns < 1000000000u);
    }
}

static void ticks_per_ns_turns_ticks_into_time(void **state)
{
    (void)state;
    double rate = mtp__clock_ticks_per_ns();
    assert_true(rate > 0.1 && rate < 20);
    if (!mtp__clock_is_tsc())
        assert_true(rate == 1.0);
    mtp__anchor a, b;
    mtp__clock_anchor(&a);
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    mtp__clock_anchor(&b);
    double ns = (double)(b.ticks - a.ticks) / rate, real = (double)(b.monotonic_ns - a.monotonic_ns);
    assert_true(ns > real * 0.9 && ns < real * 1.1);
}

static void now_ns_is_clock_monotonic(void **state)
{
    (void)state;
    uint64_t before = clock_ns(CLOCK_MONOTONIC), now = mtp_now_ns(), after = clock_ns(CLOCK_MONOTONIC);
    assert_true(before <= now && now <= after);
}

static uint64_t fake = 1000;

static uint64_t fake_clock(void)
{
    return fake++;
}

static void a_hook_replaces_the_slow_read_until_it_is_taken_away(void **state)
{
    (void)state;
    mtp__anchor a;
    mtp__clock_hook_set(fake_clock);
    assert_true(mtp__clock_hooked());
    assert_int_equal(mtp__clock_ticks_slow(), 1000);
    assert_int_equal(mtp_ticks(), 1001);
    mtp__clock_anchor(&a);
    assert_true(a.ticks >= 1002 && a.ticks < 1100);
    mtp__clock_hook_set(NULL);
    assert_false(mtp__clock_hooked());
    assert_true(mtp_ticks() != fake);
}

/* A session started under a hook takes its ticks from it, on the fast path too. */
static void records_of_a_hooked_session_carry_the_hooks_ticks(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    fake = 5000;
    mtp__clock_hook_set(fake_clock);
    mtp_profile *prof = test_start(&c);
    uint64_t from = fake;
    for (int i = 0; i < 50; i++)
        MTP_SCOPE ("hooked") {
        }
    uint64_t to = fake;
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    seen s = {0};
    seen_profile(&s, prof);
    assert_string_equal(s.problem, "");
    assert_int_equal(seen_count(&s, MTP__KIND_BEGIN, -1), 50);
    for (size_t i = 0; i < 50; i++) {
        const seen_record *r = seen_nth(&s, MTP__KIND_BEGIN, i);
        assert_true(r->ticks >= from && r->ticks < to);
    }
    seen_free(&s);
    mtp_profile_destroy(prof);
}

static uint64_t backwards(void)
{
    return fake -= 100;
}

static uint64_t frozen(void)
{
    return 4242;
}

/* Nothing is derived from ticks while recording, so nothing can go wrong with them. */
static void a_clock_that_runs_backwards_or_stands_still_is_recorded_as_it_is(void **state)
{
    (void)state;
    mtp__clock_hook *const odd[] = {backwards, frozen};
    for (size_t k = 0; k < COUNT(odd); k++) {
        mtp_profile_config c = test_config(NULL);
        fake = 1u << 30;
        mtp__clock_hook_set(odd[k]);
        mtp_profile *prof = test_start(&c);
        for (int i = 0; i < 1000; i++)
            MTP_SCOPE ("odd") {
            }
        assert_ok(mtp_profile_stop(prof));
        mtp__clock_hook_set(NULL);
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.emitted, 2001);
        assert_int_equal(l.kept, 2001);
        mtp_profile_destroy(prof);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ticks_never_go_back),
        TEST(fast_and_slow_reads_are_of_one_clock),
        TEST(anchors_are_monotone_in_every_clock),
        TEST(an_anchor_lies_between_readings_around_it),
        TEST(ticks_per_ns_turns_ticks_into_time),
        TEST(now_ns_is_clock_monotonic),
        TEST(a_hook_replaces_the_slow_read_until_it_is_taken_away),
        TEST(records_of_a_hooked_session_carry_the_hooks_ticks),
        TEST(a_clock_that_runs_backwards_or_stands_still_is_recorded_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
