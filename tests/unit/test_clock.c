/* Unit: base/clock. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <dlfcn.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <time.h>
#include "base/clock.h"
#include "trace/trace.h"

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
    if (!mtp__clock_is_counter())
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
        assert_true(b.ticks >= a.ticks); /* a tick may be longer than that takes */
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
    assert_true(rate > 0.01 && rate < 20); /* arm64: from 0.019 */
    if (!mtp__clock_is_counter())
        assert_true(rate == 1.0);
    mtp__anchor a, b;
    mtp__clock_anchor(&a);
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    mtp__clock_anchor(&b);
    double ns = (double)(b.ticks - a.ticks) / rate, real = (double)(b.monotonic_ns - a.monotonic_ns);
    double error =
        (double)a.error_ns + (double)b.error_ns; /* this thread may be preempted between two readings */
    assert_true(ns > real * 0.9 - error && ns < real * 1.1 + error);
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

/* Nothing is computed from ticks while recording, so odd ticks cannot do harm. */
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

/* ------------------------------------------------------------------------------ the system's clocks gone
 * wrong */

static bool monotonic_stands, all_stand;
static int64_t step; /* an offset that was added to CLOCK_MONOTONIC */

static uint64_t odd_system(clockid_t id)
{
    if (all_stand || (monotonic_stands && id == CLOCK_MONOTONIC))
        return 5000000000u;
    return clock_ns(id) + (id == CLOCK_MONOTONIC ? (uint64_t)step : 0);
}

static int sound_again(void **state)
{
    (void)state;
    monotonic_stands = all_stand = false;
    step = 0;
    mtp__clock_system_hook_set(NULL);
    mtp__clock_probe();
    return 0;
}

static double true_rate(void)
{
    sound_again(NULL);
    return mtp__clock_ticks_per_ns();
}

/* Records `scopes` scopes that have some length; the trace is the caller's. */
static mtp_trace *record_scopes(warnings *w, int scopes, int64_t step_by)
{
    mtp_profile_config c = test_config(w);
    mtp_trace *trace;
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < scopes; i++) {
        uint64_t from = mtp_ticks();
        MTP_SCOPE ("scope") {
            while (mtp_ticks() - from < 20000000) /* some ms, whatever clocks say */
                ;
        }
    }
    step += step_by;
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_trace(prof, &trace));
    mtp_profile_destroy(prof);
    return trace;
}

static void a_clock_that_stands_still_does_not_hold_start_up_and_is_told(void **state)
{
    (void)state;
    double rate = true_rate();
    if (!mtp__clock_is_counter())
        skip();
    for (int all = 0; all < 2; all++) {
        warnings w = {0};
        all_stand = all != 0;
        monotonic_stands = true;
        mtp__clock_system_hook_set(odd_system);
        mtp__clock_probe();
        assert_null(mtp__clock_trouble()); /* not known yet */
        mtp_trace *t = record_scopes(&w, 3, 0);
        assert_int_equal(w.count[MTP_WARNING_CLOCK], 1);
        assert_contains(w.text, "CLOCK_MONOTONIC");
        assert_true(t->clock_uncertain);
        assert_true(t->clock_faults > 0);
        assert_int_equal(t->span_count, 3);
        for (uint32_t i = 0; i < 3; i++) {
            double ms = (double)(t->end[i] - t->start[i]) / 1e6;
            assert_true(all || ms * rate * 1e6 > 19e6); /* by the other clock, the true length */
            assert_true(ms > 0);
        }
        mtp_trace_info info = MTP_TRACE_INFO_INIT;
        assert_ok(mtp_trace_get_info(t, &info));
        assert_true(info.clock_uncertain);
        mtp_trace_destroy(t);
        sound_again(NULL);
        assert_null(mtp__clock_trouble());
    }
}

static void a_clock_that_stepped_before_the_start_does_not_spoil_the_rate(void **state)
{
    (void)state;
    static const int64_t steps[] = {-3600000000000, -1000000, 3600000000000};
    double rate = true_rate();
    for (size_t k = 0; k < COUNT(steps); k++) {
        sound_again(NULL);
        mtp__clock_system_hook_set(odd_system);
        step = steps[k];
        double now = mtp__clock_ticks_per_ns();
        assert_true(now > rate * 0.8 && now < rate * 1.2);
        assert_null(mtp__clock_trouble());
    }
}

/* Durations are as without the step, and the fault is counted. */
static void a_clock_that_steps_while_recording_is_counted_and_times_stay_right(void **state)
{
    (void)state;
    static const int64_t steps[] = {-3600000000000, -30000000000, 3600000000000};
    double rate = true_rate();
    if (!mtp__clock_is_counter())
        skip();
    for (size_t k = 0; k < COUNT(steps); k++) {
        warnings w = {0};
        sound_again(NULL);
        mtp__clock_system_hook_set(odd_system);
        mtp_trace *t = record_scopes(&w, 3, steps[k]);
        assert_int_equal(t->clock_faults, 1);
        assert_int_equal(t->span_count, 3);
        assert_true(t->end[2] < 3600000000000);
        for (uint32_t i = 0; i < 3; i++) {
            double ticks = (double)(t->end[i] - t->start[i]) * rate;
            assert_true(ticks > 19e6 && t->start[i] >= (i > 0 ? t->end[i - 1] : 0));
        }
        mtp_trace_destroy(t);
    }
}

/* ------------------------------------------------------------------------------------------ coarse counters */

static uint64_t coarse_reads;

static uint64_t coarse_clock(void)
{
    return 1000 + coarse_reads++ / 64; /* a tick as long as 64 records */
}

/* As on arm64, where a tick may take 50 ns: most scopes have no length, and begin when others do. */
static void scopes_shorter_than_a_tick_keep_their_parents(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_trace *t, *again;
    coarse_reads = 0;
    mtp__clock_hook_set(coarse_clock);
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < 1000; i++)
        MTP_SCOPE ("outer") {
            MTP_SCOPE ("first") {
            }
            MTP_SCOPE ("second") {
                MTP_SCOPE ("inner") {
                }
            }
        }
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    assert_ok(mtp_profile_trace(prof, &t));
    static const char *const names[] = {"outer", "first", "second", "inner"};
    static const uint32_t above[] = {0, 1, 2, 1}; /* how far before it its parent is; 0: it has none */
    assert_int_equal(t->span_count, 4000);
    uint32_t without_length = 0;
    for (uint32_t i = 0; i < t->span_count; i++) {
        assert_string_equal(mtp__trace_get_text(t, t->name[i]).bytes, names[i % 4]);
        assert_int_equal(t->parent[i], above[i % 4] != 0 ? i - above[i % 4] : MTP__NONE);
        assert_true(t->end[i] >= t->start[i]);
        assert_true(i % 4 == 0 ||
                    (t->start[i] >= t->start[t->parent[i]] && t->end[i] <= t->end[t->parent[i]]));
        without_length += t->end[i] == t->start[i];
    }
    assert_true(without_length > 3000);
    assert_int_equal(t->unmatched_ends + t->unfinished, 0);
    const char *path = test_path("coarse.json"); /* there, only times tell which scope is inside which */
    assert_ok(mtp_trace_export(t, path, NULL));
    assert_ok(mtp_trace_open(path, NULL, &again));
    assert_int_equal(again->span_count, 4000);
    mtp_trace_destroy(again);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

/* ------------------------------------------------------------------------------------ without the counter */

/* arm64: from Linux 6.12 on; not by qemu. */
static bool counter_can_be_forbidden(void)
{
    int mode;
    return prctl(PR_GET_TSC, &mode, 0, 0, 0) == 0;
}

static void record_without_counter(void *arg)
{
    (void)arg;
    mtp_trace *t;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof;
    CHILD_CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    mtp__clock_probe();
    CHILD_CHECK(!mtp__clock_is_counter());
    CHILD_CHECK(strstr(mtp_clock_name(), "PR_SET_TSC") != NULL);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < 1000; i++)
        MTP_SCOPE ("slow") {
        }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK && mtp_profile_trace(prof, &t) == MTP_OK);
    CHILD_CHECK(t->span_count == 1000 && t->clock_faults == 0);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static void a_program_that_may_not_read_the_counter_is_recorded_by_another_clock(void **state)
{
    (void)state;
#if defined(__x86_64__) || defined(__aarch64__)
    if (TEST_ASAN || TEST_TSAN ||
        !counter_can_be_forbidden()) /* the sanitizer's run time reads clocks in its own way */
        skip();
    assert_true(test_left_well(test_child(record_without_counter, NULL, 60)));
#else
    (void)record_without_counter, (void)counter_can_be_forbidden;
    skip();
#endif
}

static void load_without_counter(void *arg)
{
    (void)arg;
    CHILD_CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    void *lib = dlopen(MTP_SHARED_LIB, RTLD_NOW | RTLD_LOCAL);
    CHILD_CHECK(lib != NULL);
    uint64_t (*ticks)(void), (*now)(void);
    *(void **)&ticks = dlsym(lib, "mtp_ticks");
    *(void **)&now = dlsym(lib, "mtp_now_ns");
    CHILD_CHECK(ticks != NULL && now != NULL);
    uint64_t before = now(), between = ticks(), after = now();
    CHILD_CHECK(before <= between && between <= after);
}

static void a_program_that_may_not_read_the_counter_loads_the_library(void **state)
{
    (void)state;
#if defined(__x86_64__) || defined(__aarch64__)
    if (TEST_ASAN || TEST_TSAN || !counter_can_be_forbidden())
        skip();
    assert_true(test_left_well(test_child(load_without_counter, NULL, 60)));
#else
    (void)load_without_counter;
    skip();
#endif
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
        cmocka_unit_test_teardown(a_clock_that_stands_still_does_not_hold_start_up_and_is_told, sound_again),
        cmocka_unit_test_teardown(a_clock_that_stepped_before_the_start_does_not_spoil_the_rate, sound_again),
        cmocka_unit_test_teardown(a_clock_that_steps_while_recording_is_counted_and_times_stay_right,
                                  sound_again),
        TEST(scopes_shorter_than_a_tick_keep_their_parents),
        TEST(a_program_that_may_not_read_the_counter_is_recorded_by_another_clock),
        TEST(a_program_that_may_not_read_the_counter_loads_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
