/* Unit: several recordings as one trace (src/trace/join): one clock for all of them. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include "tests/unit/recordings.h"
#include "record/checks.h"
#include "trace/join/join.h"

enum {
    HANDS = 200
};

static int pipes[2][2];

/* Marks its turn, passes it on, and waits for the next: mark k of one is before mark k of the other, which is
 * before mark k + 1 of the one. */
static void take_turns(void *arg)
{
    int me = *(const int *)arg;
    char byte = 0;
    for (int i = 0; i < HANDS; i++) {
        if (me == 1 && read(pipes[0][0], &byte, 1) != 1)
            _exit(96);
        mtp_mark(me == 0 ? MTP_NAME("ping") : MTP_NAME("pong"));
        if (write(pipes[me][1], &byte, 1) != 1)
            _exit(96);
        if (me == 0 && read(pipes[1][0], &byte, 1) != 1)
            _exit(96);
    }
}

static _Atomic(int) *turn; /* shared: whose turn it is */

/* The same through memory, where a hand-over takes a fraction of a microsecond. */
static void take_turns_quickly(void *arg)
{
    int me = *(const int *)arg;
    for (int i = 0; i < HANDS + (me == 0); i++) {
        for (int tries = 0; atomic_load(turn) != me; tries++)
            if (tries > 1000)
                sched_yield();
        if (i == HANDS)
            break; /* the other's last is done */
#ifdef __x86_64__
        __builtin_ia32_lfence(); /* else the TSC may be read before the turn, on a guess that it has come */
#endif
        mtp_mark(me == 0 ? MTP_NAME("ping") : MTP_NAME("pong"));
        atomic_store(turn, 1 - me);
    }
}

static int by_name_and_ts(const void *a, const void *b)
{
    const mtp__instant *x = a, *y = b;
    return x->name != y->name ? (x->name > y->name) - (x->name < y->name) : (x->ts > y->ts) - (x->ts < y->ts);
}

/* killed: the child's recording has no anchor at its end. */
static void check_turns(record_fn *take, bool killed)
{
    const char *folder = new_folder("");
    int one = 1, zero = 0;
    assert_int_equal(pipe(pipes[0]) | pipe(pipes[1]), 0);
    turn = test_shared(sizeof *turn);
    recording_child c = {in_folder(folder, "child.mtp"), take, &one};
    pid_t pid = test_fork_child(record_in_child, &c, 20);
    record_here(in_folder(folder, "parent.mtp"), take, &zero);
    if (killed)
        kill(pid, SIGKILL);
    test_wait(pid);
    mtp_trace *t = open_all(folder);
    assert_int_equal(t->instant_count, 2 * HANDS);
    qsort(t->instants, t->instant_count, sizeof *t->instants, by_name_and_ts);
    bool ping_first = t->instants[0].name == mtp__trace_find_text(t, "ping");
    const mtp__instant *ping = t->instants + (ping_first ? 0 : HANDS),
                       *pong = t->instants + (ping_first ? HANDS : 0);
    for (uint32_t i = 0; i < HANDS; i++) /* a tick may be longer than a hand-over */
        if (ping[i].ts > pong[i].ts || (i + 1 < HANDS && pong[i].ts > ping[i + 1].ts))
            fail_msg("hand-over %u is out of order", i);
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
    mtp_trace_destroy(t);
}

static void what_one_process_hands_to_another_happens_later_there(void **state)
{
    (void)state;
    for (int i = 0; i < test_scaled(10); i++)
        check_turns(i % 4 < 2 ? take_turns : take_turns_quickly, i % 2 == 1);
}

static void record_moments(void *arg)
{
    const uint64_t *ticks = arg;
    for (int i = 0; i < 8; i++) {
        mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("moment"), MTP_DEVICE_NPU(0));
        work.start = ticks[i];
        work.end = ticks[i] + 1000;
        mtp_device_event(&work);
    }
    usleep(2000);
}

/* Not only nearly: effects may follow their causes at once. */
static void a_moment_is_the_same_in_all_recordings(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    uint64_t ticks[8], from = mtp_ticks();
    for (int i = 0; i < 8; i++)
        ticks[i] = from + (uint64_t)i * 12345678;
    record_there(in_folder(folder, "a.mtp"), record_moments, ticks);
    record_there(in_folder(folder, "b.mtp"), record_moments, ticks);
    mtp_trace *t = open_all(folder);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(t->start[find_named(t, "moment", i)], t->start[find_named(t, "moment", i + 8)]);
    mtp_trace_destroy(t);
}

/* A recording with two anchors, a second apart, that began `after` seconds after boot. */
static mtp__part a_part(uint64_t boot, double after, double ticks_per_ns, int64_t day_ns)
{
    mtp__part p = {
        .path = "x", .boot = {boot, boot}, .clock = MTP__CLOCK_IS_COUNTER, .ticks_per_ns = ticks_per_ns};
    for (int i = 0; i < 2; i++) {
        uint64_t ns = (uint64_t)((after + i) * 1e9);
        mtp__anchor a = {(uint64_t)((double)ns * ticks_per_ns), ns, ns + (uint64_t)day_ns, ns, 50};
        assert_true(mtp__ticks_add(&p.line, &a));
        if (i == 0)
            p.start = a;
    }
    return p;
}

static void recordings_of_one_boot_share_a_line(void **state)
{
    (void)state;
    const int64_t day = (int64_t)1700000000 * 1000000000;
    mtp__part part[] = {a_part(1, 100, 2.5, day), a_part(1, 99.5, 2.5, day + 3000), a_part(1, 400, 2.5, day)};
    mtp__tick_line line = {0};
    assert_true(mtp__join_clocks(part, 3, 0, &line));
    for (int i = 0; i < 3; i++) {
        assert_true(part[i].in_line && !part[i].by_wall_clock);
        mtp__ticks_fini(&part[i].line);
    }
    assert_int_equal(line.zero_ns, 99500000000);
    assert_true(llabs(mtp__ticks_to_ns(&line, (uint64_t)(100e9 * 2.5)) - 500000000) <= 1);
    assert_true(llabs(mtp__ticks_to_ns(&line, (uint64_t)(401e9 * 2.5)) - 301500000000) <= 1);
    mtp__ticks_fini(&line);
}

static void recordings_of_another_boot_are_placed_by_the_time_of_day(void **state)
{
    (void)state;
    const int64_t day = (int64_t)1700000000 * 1000000000, s = 1000000000;
    /* 10 s after its boot, which was 150 s after the first one's; and one whose boot is unknown, but the same */
    mtp__part part[] = {a_part(1, 100, 2.5, day), a_part(2, 10, 2.0, day + 150 * s),
                        a_part(0, 120, 2.5, day + 1000), a_part(0, 120, 2.5, day + 300 * s)};
    mtp__tick_line line = {0};
    assert_true(mtp__join_clocks(part, 4, 0, &line));
    assert_true(part[1].by_wall_clock && !part[1].in_line);
    assert_int_equal(10 * s - part[1].zero_ns, 60 * s);
    assert_true(!part[2].by_wall_clock && part[2].in_line);
    assert_true(part[3].by_wall_clock);
    assert_int_equal(120 * s - part[3].zero_ns, 320 * s);
    for (int i = 0; i < 4; i++)
        mtp__ticks_fini(&part[i].line);
    mtp__ticks_fini(&line);
}

/* Changes the boot id of a spool, as if it were of another machine. */
static void move_to_another_machine(const char *path)
{
    size_t bytes;
    char *file = test_slurp(path, &bytes);
    mtp__chunk *c;
    for (size_t i = 0; (c = test_chunk(file, bytes, i)) != NULL; i++) {
        uint64_t *w = mtp__chunk_words(c);
        for (uint32_t at = 0; c->stream == 0 && at < c->words; at += (uint32_t)(w[at + 1] >> 32))
            if (MTP__CONTROL_KIND(w[at + 1]) == MTP__CONTROL_SESSION) {
                assert_true(w[at + 1] >> 32 >= 10);
                w[at + 8] ^= 1;
            }
        if (c->stream != 0)
            continue;
        test_seal_control(c);
        c->checksum = mtp__chunk_checksum(c, w);
    }
    test_spew(path, file, bytes);
    free(file);
}

static void a_recording_of_another_machine_is_placed_and_said(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    record_here(in_folder(folder, "a.mtp"), record_scopes, "a");
    usleep(30000);
    record_there(in_folder(folder, "b.mtp"), record_scopes, "b");
    mtp_trace *t = open_all(folder);
    int64_t apart = t->start[find_named(t, "b", 0)] - t->start[find_named(t, "a", 0)];
    assert_false(recording_of(t, 1).by_wall_clock);
    mtp_trace_destroy(t);
    move_to_another_machine(in_folder(folder, "b.mtp"));
    t = open_all(folder);
    assert_true(recording_of(t, 1).by_wall_clock);
    assert_int_equal(recording_of(t, 1).info.damaged_chunks, 0);
    int64_t now_apart = t->start[find_named(t, "b", 0)] - t->start[find_named(t, "a", 0)];
    assert_true(apart >= 30000000 && llabs(now_apart - apart) < 10000000);
    mtp_trace_destroy(t);
}

static void a_clock_that_contradicts_keeps_its_own_line(void **state)
{
    (void)state;
    const int64_t day = (int64_t)1700000000 * 1000000000;
    /* the machine slept for a minute, which the counter counts and CLOCK_MONOTONIC does not; another clock; trouble */
    mtp__part part[] = {a_part(1, 100, 2.5, day), a_part(1, 200, 2.5, day), a_part(1, 200, 2.5, day),
                        a_part(1, 200, 2.5, day)};
    part[1].start.ticks += (uint64_t)(60e9 * 2.5);
    part[2].clock = 0;
    part[3].clock |= MTP__CLOCK_IN_TROUBLE;
    mtp__tick_line line = {0};
    assert_true(mtp__join_clocks(part, 4, 0, &line));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(part[i].in_line, i == 0);
        assert_false(part[i].by_wall_clock);
        assert_int_equal(part[i].zero_ns, 100000000000);
        mtp__ticks_fini(&part[i].line);
    }
    mtp__ticks_fini(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_one_process_hands_to_another_happens_later_there),
        TEST(a_moment_is_the_same_in_all_recordings),
        TEST(recordings_of_one_boot_share_a_line),
        TEST(recordings_of_another_boot_are_placed_by_the_time_of_day),
        TEST(a_recording_of_another_machine_is_placed_and_said),
        TEST(a_clock_that_contradicts_keeps_its_own_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
