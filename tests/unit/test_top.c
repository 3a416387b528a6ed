/* Unit: live: recordings that are watched while they are written: what is shown is what a trace of the same file has. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include "tests/unit/live_views.h"

static void an_ended_recording_has_the_rows_of_its_averages(void **state)
{
    (void)state;
    static const mtp_when_full policies[] = {MTP_STREAM, MTP_STOP_WHEN_FULL};
    for (int k = 0; k < test_scaled(20); k++) {
        const char *path = test_path("like.mtp");
        mtp_profile *prof = start_into(path, policies[k % 2]);
        mtp_live *live = watch(path);
        for (unsigned i = 0; i < 20; i++) {
            record_some((unsigned)test_below(400));
            mtp_live_info info = refresh(live);
            assert_int_equal(info.live, 1);
            assert_false(info.settled);
            assert_int_equal(info.damaged, 0);
            assert_int_equal(info.missed, 0);
        }
        begin("left open", MTP_SCOPE_USER);
        begin("and this", MTP_SCOPE_OP);
        stop(prof);
        mtp_live_info info = refresh(live);
        assert_true(info.settled);
        assert_int_equal(info.live, 0);
        assert_like_averages(live, path);
        assert_int_equal(mtp_live_process_at(live, 0)->outcome, MTP_OUTCOME_STOPPED);
        mtp_live_close(live);
    }
}

/* Before it has ended, times may differ by what the clock's rate will turn out to be; counts may not. */
static void a_running_recording_has_the_same_counts(void **state)
{
    (void)state;
    const char *path = test_path("running.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    for (int k = 1; k < 50; k++) {
        for (int i = 0; i < 100; i++)
            MTP_SCOPE ("outer") {
                MTP_SCOPE ("inner") {
                }
            }
        refresh(live);
        assert_int_equal(count_of(live, "outer"), 100 * k);
        assert_int_equal(count_of(live, "inner"), 100 * k);
        const mtp_live_row *outer = row_of(live, "outer", -1), *inner = row_of(live, "inner", -1);
        assert_true(outer->self_ns >= 0 && outer->self_ns + inner->total_ns <= outer->total_ns + 100);
        assert_true(outer->recent_count <= outer->count);
    }
    mtp_live_close(live);
    stop(prof);
}

static void recent_is_what_happened_in_the_window(void **state)
{
    (void)state;
    const char *path = test_path("window.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live_options options = MTP_LIVE_OPTIONS_INIT;
    options.window_ns = 200000000;
    mtp_live *live = watch_with(path, &options);
    for (int i = 0; i < 10; i++)
        MTP_SCOPE ("long ago") {
        }
    mtp_live_info info;
    double before;
    int attempts = 0;
    do { /* until the machine runs all of it within the window */
        usleep(300000);
        before = test_now();
        for (int i = 0; i < 5; i++)
            MTP_SCOPE ("now") {
                usleep(1000);
            }
        info = refresh(live);
        attempts++;
    } while (test_now() - before > 0.15);
    const mtp_live_row *old = row_of(live, "long ago", -1), *now = row_of(live, "now", -1);
    assert_int_equal(old->count, 10);
    assert_int_equal(old->recent_count, 0);
    assert_int_equal(now->count, 5 * attempts);
    assert_int_equal(now->recent_count, 5);
    assert_true(now->recent_self_ns >= 5000000);
    assert_true(now->recent_self_ns <= now->self_ns + 1000);
    assert_true(info.window_ns <= 200000000 && info.window_ns >= 175000000);
    assert_true(info.records_rate > 0);
    mtp_live_close(live);
    stop(prof);
}

/* ------------------------------------------------------------------------------------------------ it hangs */

static void what_a_thread_is_in_is_shown_while_it_hangs(void **state)
{
    (void)state;
    const char *path = test_path("hangs.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    mtp_token a = begin("main", MTP_SCOPE_USER), b = begin("aten::_version", MTP_SCOPE_OP),
              c = begin("wait", MTP_SCOPE_OP);
    usleep(20000);
    refresh(live);
    assert_int_equal(mtp_live_thread_count(live), 1);
    const mtp_live_thread *t = mtp_live_thread_at(live, 0);
    assert_int_equal(t->pid, getpid());
    assert_int_equal(t->depth, 2); /* torch omits the one in between */
    assert_int_equal(t->unknown, 0);
    assert_true(t->idle_ns >= 20000000);
    const mtp_live_scope *in = mtp_live_scope_at(live, 0, 0);
    assert_string_equal(in->name.bytes, "wait");
    assert_true(in->for_ns >= 20000000);
    assert_string_equal(mtp_live_scope_at(live, 0, 1)->name.bytes, "main");
    assert_null(mtp_live_scope_at(live, 0, 2));
    assert_null(mtp_live_scope_at(live, 1, 0));
    const mtp_live_row *wait = row_of(live, "wait", -1);
    assert_int_equal(wait->open, 1);
    assert_true(wait->self_ns >= 20000000 && wait->recent_self_ns >= 20000000);
    const mtp_live_row *around = row_of(live, "main", -1);
    assert_int_equal(around->self_ns, around->total_ns - wait->total_ns);
    mtp_scope_end(c);
    mtp_scope_end(b);
    mtp_scope_end(a);
    refresh(live);
    assert_int_equal(mtp_live_thread_at(live, 0)->depth, 0);
    wait = row_of(live, "wait", -1);
    assert_int_equal(wait->open, 0);
    assert_int_equal(wait->max_ns, wait->total_ns);
    mtp_live_close(live);
    stop(prof);
}

static void memory_and_steps_are_shown(void **state)
{
    (void)state;
    const char *path = test_path("memory.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    char block[2];
    mtp_memory_event(MTP_DEVICE_CPU, &block[0], 1000, 1000, 4096);
    mtp_memory_event(MTP_DEVICE_CPU, &block[1], 500, 1500, 4096);
    mtp_memory_event(MTP_DEVICE_CPU, &block[0], -1000, 500, 4096);
    mtp_memory_event(MTP_DEVICE_NPU(1), &block[0], 64, 64, 0);
    mtp_live *live = watch(path);
    mtp_live_info info = refresh(live);
    for (int i = 0; i < 4; i++) {
        usleep(2000);
        mtp_profile_step(prof);
        info = refresh(live);
        assert_int_equal(info.last_step_ns > 0, i > 0); /* what came before the first one is no step */
        assert_int_equal(info.mean_step_ns > 0, i > 0);
    }
    assert_int_equal(mtp_live_memory_count(live), 2);
    assert_int_equal(mtp_live_memory_at(live, 0)->allocated, 500);
    assert_int_equal(mtp_live_memory_at(live, 0)->peak, 1500);
    assert_int_equal(mtp_live_memory_at(live, 0)->reserved, 4096);
    assert_int_equal(mtp_live_memory_at(live, 1)->device, MTP_DEVICE_NPU(1));
    assert_null(mtp_live_memory_at(live, 2));
    assert_true(info.steps >= 4);
    assert_true(info.last_step_ns >= 2000000 && info.mean_step_ns >= 2000000);
    mtp_live_close(live);
    stop(prof);
}

static void device_work_has_rows_of_its_own(void **state)
{
    (void)state;
    const char *path = test_path("device.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    for (int i = 0; i < 10; i++) {
        mtp_device_work w = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
        w.start = mtp_ticks();
        w.end = w.start + 100000;
        mtp_device_event(&w);
    }
    refresh(live);
    const mtp_live_row *row = row_of(live, "kernel", MTP_EVENT_KERNEL);
    assert_non_null(row);
    assert_true(row->is_device);
    assert_int_equal(row->count, 10);
    stop(prof);
    refresh(live);
    assert_like_averages(live, path);
    mtp_live_close(live);
}

/* ------------------------------------------------------------------------------------------- at any moment */

static mtp_live *watched;
static uint64_t looks;

/* A writer that is stopped at every point at which a reader may find it. */
static void look(mtp__testpoint point, void *user)
{
    static bool inside;
    if (inside || (point != MTP__POINT_RECORD_RESERVED && user == NULL))
        return;
    inside = true;
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    mtp_status status = mtp_live_refresh(watched, 0, &info);
    looks++;
    if (status != MTP_OK || info.damaged != 0 || count_of(watched, "?") != 0)
        abort();
    inside = false;
}

static void nothing_half_written_is_shown_at_any_point(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        const char *path = test_path("points.mtp");
        mtp_profile *prof = start_into(path, MTP_STREAM);
        watched = watch(path);
        mtp__testpoint_set(look, k == 0 ? NULL : &looks);
        for (int i = 0; i < test_scaled(300); i++) {
            char text[32];
            MTP_SCOPE_TEXT((snprintf(text, sizeof text, "made %d", i), text))
            {
                mtp_counter(MTP_NAME("counter"), i);
            }
        }
        mtp__testpoint_set(NULL, NULL);
        assert_true(looks > 0);
        stop(prof);
        refresh(watched);
        assert_like_averages(watched, path);
        mtp_live_close(watched);
    }
}

/* A thread that the system has put aside while it creates a chunk: whatever follows is waited for, and not skipped. */
static void look_often(mtp__testpoint point, void *user)
{
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    unsigned *looked = user;
    if (point != MTP__POINT_CHUNK_RESERVED)
        return;
    mtp__testpoint_set(NULL, NULL);
    for (int i = 0; i < 10; i++)
        if (mtp_live_refresh(watched, 0, &info) != MTP_OK || info.missed != 0)
            abort();
    ++*looked;
    mtp__testpoint_set(look_often, user);
}

static void *record_one(void *arg)
{
    MTP_SCOPE ("scope") {
    }
    return arg;
}

static void a_chunk_that_takes_long_to_be_created_is_waited_for(void **state)
{
    (void)state;
    const char *path = test_path("reserved.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    unsigned looked = 0;
    watched = watch(path);
    mtp__testpoint_set(look_often, &looked);
    for (int i = 0; i < 40; i++) { /* each takes the rest of a piece */
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, record_one, NULL), 0);
        pthread_join(thread, NULL);
    }
    mtp__testpoint_set(NULL, NULL);
    assert_true(looked > 3);
    assert_int_equal(refresh(watched).missed, 0);
    assert_int_equal(count_of(watched, "scope"), 40);
    stop(prof);
    mtp_live_close(watched);
}

/* After a reader has listed the chunks: records whose names are in chunks that it has not seen, in a file that has grown. */
static void record_names(mtp__testpoint point, void *user)
{
    static unsigned number;
    bool *once = user;
    if (point != MTP__POINT_LIVE_LISTED || *once)
        return;
    *once = true;
    for (int i = 0; i < 60; i++) {
        char text[160];
        MTP_SCOPE_TEXT((snprintf(text, sizeof text, "%0128u", number++), text))
        {
        }
    }
}

static void a_name_is_found_in_a_file_that_has_grown_meanwhile(void **state)
{
    (void)state;
    const char *path = test_path("grows.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    bool once;
    for (int k = 1; k <= 100; k++) {
        once = false;
        mtp__testpoint_set(record_names, &once);
        refresh(live);
        mtp__testpoint_set(NULL, NULL);
        assert_true(once);
        assert_int_equal(count_of(live, "?"), 0);
    }
    stop(prof);
    refresh(live);
    assert_like_averages(live, path);
    mtp_live_close(live);
}

typedef struct writer {
    atomic_bool *end;
    unsigned number;
    atomic_ullong scopes;
} writer;

static void *write_on(void *arg)
{
    writer *w = arg;
    char text[48];
    for (unsigned i = 0; !atomic_load_explicit(w->end, memory_order_relaxed); i++) {
        MTP_SCOPE ("outer") {
            MTP_SCOPE ("inner") {
            }
        }
        for (int k = 0; i % 64 == 0 && k < 8 && i < 200000; k++) { /* names that are new */
            snprintf(text, sizeof text, "thread %u, %u, %d", w->number, i, k);
            MTP_SCOPE_TEXT(text)
            {
            }
        }
        atomic_fetch_add_explicit(&w->scopes, 1, memory_order_relaxed);
    }
    return NULL;
}

/* Two threads at full speed. Returns how many times the view was refreshed. */
static unsigned race(mtp_live *live, double seconds, uint64_t *scopes, mtp_live_info *info)
{
    atomic_bool end = false;
    writer w[2] = {{&end, 0, 0}, {&end, 1, 0}};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, write_on, &w[i]), 0);
    unsigned refreshes = 0;
    uint64_t before = 0, nameless = 0;
    bool good = true; /* no assertion while the threads run */
    for (double until = test_now() + seconds; test_now() < until || refreshes < 5; refreshes++) {
        good = good && mtp_live_refresh(live, 5000000, info) == MTP_OK && count_of(live, "outer") >= before;
        before = count_of(live, "outer");
        nameless += info->is_ring ? 0 : count_of(live, "?"); /* a ring may have evicted the name */
    }
    atomic_store(&end, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_true(good);
    assert_int_equal(nameless, 0);
    *scopes = w[0].scopes + w[1].scopes;
    return refreshes;
}

static void a_stream_that_two_threads_fill_is_followed_to_the_last_record(void **state)
{
    (void)state;
    const char *path = test_path("race.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    uint64_t scopes;
    assert_true(race(live, 0.5, &scopes, &info) > 3);
    assert_int_equal(info.missed, 0);
    assert_int_equal(info.damaged, 0);
    stop(prof);
    info = refresh(live);
    assert_int_equal(count_of(live, "outer"), scopes);
    assert_like_averages(live, path);
    mtp_live_close(live);
}

static void a_ring_is_followed_and_what_was_missed_is_counted(void **state)
{
    (void)state;
    const char *path = test_path("ring.mtp");
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 1 << 20;
    c.chunk_bytes = 64 << 10;
    mtp_profile *prof = test_start(&c);
    mtp_live *live = watch(path);
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    uint64_t scopes;
    assert_true(race(live, 1, &scopes, &info) > 3);
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger ledger = ledger_of(prof);
    mtp_profile_destroy(prof);
    for (int i = 0; i < 5 && !info.settled; i++)
        info = refresh(live);
    assert_true(info.settled);
    assert_int_equal(info.damaged, 0);
    if (info.is_ring && /* else it never was full while it was watched: on a slow machine */
        info.records + info.missed !=
            ledger.emitted - (ledger.dropped - ledger.dropped_by[MTP_DROP_OVERWRITTEN]))
        fail_msg("%llu read, %llu missed, %llu recorded", (unsigned long long)info.records,
                 (unsigned long long)info.missed, (unsigned long long)ledger.emitted);
    assert_true(count_of(live, "outer") <= scopes);
    mtp_live_close(live);
}

/* A slow one: everything is seen before it is evicted. */
static void a_slow_ring_is_seen_in_full(void **state)
{
    (void)state;
    const char *path = test_path("slow.mtp");
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 64 << 10;
    mtp_profile *prof = test_start(&c);
    mtp_live *live = watch(path);
    mtp_live_info info;
    for (int k = 1; k < 200; k++) {
        for (int i = 0; i < 200; i++)
            MTP_SCOPE ("once more") {
            }
        info = refresh(live);
        assert_int_equal(info.missed, 0);
        assert_int_equal(count_of(live, "once more"), 200 * k);
    }
    assert_true(info.is_ring);
    stop(prof);
    refresh(live);
    assert_int_equal(count_of(live, "once more"), 200 * 199);
    mtp_live_close(live);
    live = watch(path); /* now only what the file has */
    refresh(live);
    assert_like_averages(live, path);
    mtp_live_close(live);
}

static uint64_t read_ns;

static void read_slowly(mtp__testpoint point, void *user)
{
    (void)user;
    if (point != MTP__POINT_LIVE_READ)
        return;
    read_ns = mtp_now_ns();
    while (mtp_now_ns() < read_ns + 50000000)
        continue;
}

/* Reading takes its time, in which the program goes on: what was open when it was looked at may have ended since. */
static void what_is_open_lasts_until_it_was_looked_at(void **state)
{
    (void)state;
    const char *path = test_path("lags.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    uint64_t before_ns = mtp_now_ns();
    mtp_token outer = begin("outer", MTP_SCOPE_USER);
    mtp__testpoint_set(read_slowly, NULL);
    refresh(live);
    mtp__testpoint_set(NULL, NULL);
    int64_t most = (int64_t)(read_ns - before_ns) + 1000000; /* ticks are converted */
    const mtp_live_row *row = row_of(live, "outer", -1);
    assert_true(row->total_ns <= most && row->self_ns <= most && row->recent_self_ns <= most);
    assert_true(mtp_live_thread_at(live, 0)->idle_ns <= most);
    assert_true(mtp_live_scope_at(live, 0, 0)->for_ns <= most);
    mtp_scope_end(outer);
    mtp_live_close(live);
    stop(prof);
}

static mtp_token to_end;

/* Goes on in chunks that the reader has not listed, and ends the scope there. */
static void write_beyond(mtp__testpoint point, void *user)
{
    bool *once = user;
    if (point != MTP__POINT_LIVE_LISTED || *once)
        return;
    *once = true;
    for (int i = 0; i < 200000; i++)
        MTP_SCOPE ("inner") {
        }
    read_ns = mtp_now_ns();
    while (mtp_now_ns() < read_ns + 50000000)
        continue;
    mtp_scope_end(to_end);
}

static void what_has_ended_in_a_chunk_that_is_not_listed_yet_is_not_open_until_now(void **state)
{
    (void)state;
    const char *path = test_path("beyond.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    bool once = false;
    uint64_t before_ns = mtp_now_ns();
    to_end = begin("outer", MTP_SCOPE_USER);
    MTP_SCOPE ("inner") { /* its name is known: nothing has to wait */
    }
    refresh(live);
    mtp__testpoint_set(write_beyond, &once);
    assert_ok(mtp_live_refresh(live, 0, &info));
    mtp__testpoint_set(NULL, NULL);
    const mtp_live_row *row = row_of(live, "outer", -1);
    assert_true(row->open == 0 || row->total_ns <= (int64_t)(read_ns - before_ns) + 1000000);
    mtp_live_close(live);
    stop(prof);
}

/* Records were evicted before they were read: what was open then may have ended at any time. */
static void time_that_was_not_seen_is_not_shown(void **state)
{
    (void)state;
    const char *path = test_path("gap.mtp");
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 64 << 10;
    mtp_profile *prof = test_start(&c);
    mtp_live *live = watch(path);
    mtp_token outer = begin("outer", MTP_SCOPE_USER);
    refresh(live);
    int64_t seen_ns = row_of(live, "outer", -1)->total_ns;
    usleep(50000);
    for (int i = 0; i < 20000; i++)
        MTP_SCOPE ("inner") {
        }
    mtp_live_info info = refresh(live);
    assert_true(info.missed > 0 && info.is_ring);
    assert_int_equal(mtp_live_thread_at(live, 0)->unknown,
                     1); /* it is still open, but that is all that is known */
    assert_true(row_of(live, "outer", -1)->total_ns <= seen_ns);
    mtp_scope_end(outer);
    refresh(live);
    assert_int_equal(mtp_live_thread_at(live, 0)->depth, 0);
    mtp_live_close(live);
    stop(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_ended_recording_has_the_rows_of_its_averages),
        TEST(a_running_recording_has_the_same_counts),
        TEST(recent_is_what_happened_in_the_window),
        TEST(what_a_thread_is_in_is_shown_while_it_hangs),
        TEST(memory_and_steps_are_shown),
        TEST(device_work_has_rows_of_its_own),
        TEST(nothing_half_written_is_shown_at_any_point),
        TEST(a_chunk_that_takes_long_to_be_created_is_waited_for),
        TEST(a_name_is_found_in_a_file_that_has_grown_meanwhile),
        TEST(a_stream_that_two_threads_fill_is_followed_to_the_last_record),
        TEST(a_ring_is_followed_and_what_was_missed_is_counted),
        TEST(a_slow_ring_is_seen_in_full),
        TEST(what_is_open_lasts_until_it_was_looked_at),
        TEST(what_has_ended_in_a_chunk_that_is_not_listed_yet_is_not_open_until_now),
        TEST(time_that_was_not_seen_is_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
