/* Unit: live: whatever happens to the files that are watched, their processes, their clocks and our memory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "tests/unit/live_views.h"

/* -------------------------------------------------------------------------------------- what happens to files */

typedef struct child {
    const char *path;
    atomic_int *ready;
} child;

static void record_for_ever(void *arg)
{
    const child *c = arg;
    mtp_profile *prof = start_into(c->path, MTP_STREAM);
    (void)prof;
    for (unsigned i = 0;; i++) {
        MTP_SCOPE ("for ever") {
            record_some(20);
        }
        atomic_store(c->ready, 1);
        usleep(i % 16 == 0 ? 1000 : 0);
    }
}

static void a_process_that_is_killed_is_shown_as_recovered(void **state)
{
    (void)state;
    for (int k = 0; k < test_scaled(8); k++) {
        const char *path = test_path("killed.mtp");
        unlink(path);
        child c = {path, test_shared(sizeof *c.ready)};
        pid_t pid = test_fork_child(record_for_ever, &c, 60);
        while (!atomic_load(c.ready))
            usleep(1000);
        mtp_live *live = watch(path);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(refresh(live).live, 1);
            usleep((useconds_t)test_below(3000));
        }
        kill(pid, SIGKILL);
        test_wait(pid);
        mtp_live_info info = refresh(live);
        assert_true(info.settled);
        assert_int_equal(mtp_live_process_at(live, 0)->outcome, MTP_OUTCOME_RECOVERED);
        assert_int_equal(mtp_live_process_at(live, 0)->pid, pid);
        assert_like_averages(live, path);
        mtp_live_close(live);
    }
}

static void a_new_recording_of_the_same_name_is_followed(void **state)
{
    (void)state;
    const char *path = test_path("again.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    MTP_SCOPE ("first") {
    }
    refresh(live);
    stop(prof);
    refresh(live);
    assert_int_equal(count_of(live, "first"), 1);
    prof = start_into(path, MTP_STREAM);
    MTP_SCOPE ("second") {
    }
    mtp_live_info info = refresh(live);
    assert_int_equal(info.live, 1);
    assert_int_equal(info.processes, 1);
    assert_int_equal(count_of(live, "first"), 0);
    assert_int_equal(count_of(live, "second"), 1);
    stop(prof);
    mtp_live_close(live);
}

static void a_file_that_is_deleted_or_moved_is_still_followed(void **state)
{
    (void)state;
    const char *path = test_path("deleted.mtp"), *elsewhere = test_path("elsewhere.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    MTP_SCOPE ("one") {
    }
    refresh(live);
    assert_int_equal(rename(path, elsewhere), 0);
    MTP_SCOPE ("one") {
    }
    refresh(live);
    assert_int_equal(count_of(live, "one"), 2);
    unlink(elsewhere);
    MTP_SCOPE ("one") {
    }
    refresh(live);
    assert_int_equal(count_of(live, "one"), 3);
    stop(prof);
    assert_true(refresh(live).settled);
    assert_int_equal(count_of(live, "one"), 3);
    mtp_live_close(live);
}

static void a_file_that_is_overwritten_or_cut_says_so(void **state)
{
    (void)state;
    const char *path = test_path("cut.mtp"), *other = test_path("other.mtp");
    mtp_profile *prof = start_into(other, MTP_STREAM);
    MTP_SCOPE ("other") {
    }
    stop(prof);
    prof = start_into(path, MTP_STREAM);
    MTP_SCOPE ("this") {
    }
    stop(prof);
    mtp_live *live = watch(path);
    refresh(live);
    size_t bytes;
    char *file = test_slurp(other, &bytes);
    int fd = open(path, O_WRONLY); /* in place: the same inode */
    assert_int_equal(pwrite(fd, file, bytes, 0), (ssize_t)bytes);
    refresh(live);
    assert_int_equal(count_of(live, "this"), 0);
    assert_int_equal(count_of(live, "other"), 1);
    assert_int_equal(ftruncate(fd, 100), 0);
    refresh(live);
    assert_contains(mtp_live_process_at(live, 0)->problem, "truncated");
    assert_int_equal(count_of(live, "other"), 1);
    close(fd);
    free(file);
    mtp_live_close(live);
}

static void every_cut_of_a_file_is_read_without_harm(void **state)
{
    (void)state;
    const char *path = test_path("cuts.mtp"), *cut = test_path("shorter.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    for (int i = 0; i < 10; i++)
        record_some(100);
    stop(prof);
    size_t bytes;
    char *file = test_slurp(path, &bytes);
    for (int k = 0; k < test_scaled(200); k++) {
        mtp_live *live = NULL;
        test_spew(cut, file, test_below(bytes));
        if (mtp_live_open(cut, NULL, &live) != MTP_OK)
            continue;
        refresh(live);
        assert_like_averages(live, cut);
        mtp_live_close(live);
    }
    free(file);
}

static void processes_that_appear_are_added(void **state)
{
    (void)state;
    char folder[512], path[3][600];
    snprintf(folder, sizeof folder, "%s", test_path("many.workers"));
    assert_int_equal(mkdir(folder, 0700), 0);
    mtp_live *live = NULL;
    assert_int_equal(mtp_live_open(folder, NULL, &live), MTP_E_FORMAT);
    for (int i = 0; i < 3; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d.mtp", folder, i);
        child c = {path[i], test_shared(sizeof *c.ready)};
        pid_t pid = test_fork_child(record_for_ever, &c, 60);
        while (!atomic_load(c.ready))
            usleep(1000);
        live = live != NULL ? live : watch(folder);
        mtp_live_info info = refresh(live);
        assert_int_equal(info.processes, i + 1);
        assert_int_equal(info.live, 1);
        kill(pid, SIGKILL);
        test_wait(pid);
    }
    mtp_live_info info = refresh(live);
    assert_int_equal(info.processes, 3);
    assert_int_equal(info.live, 0);
    /* a trace puts all on one clock, whose rates differ: what is compared is each alone */
    uint64_t counted = 0;
    for (int i = 0; i < 3; i++) {
        mtp_live *one = watch(path[i]);
        assert_true(refresh(one).settled);
        assert_like_averages(one, path[i]);
        counted += count_of(one, "for ever");
        mtp_live_close(one);
    }
    assert_int_equal(count_of(live, "for ever"), counted);
    mtp_live_close(live);
    /* by the name of the output that `mtprof run` will write */
    char output[512];
    snprintf(output, sizeof output, "%.*s", (int)(strlen(folder) - strlen(".workers")), folder);
    live = watch(output);
    assert_int_equal(refresh(live).processes, 3);
    mtp_live_close(live);
}

/* What a process did last, long ago perhaps, is not recent beside one that is still at work. */
static void what_has_ended_is_recent_only_if_nothing_is_live(void **state)
{
    (void)state;
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", test_path("two.workers"));
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/1.mtp", folder);
    mtp_profile *prof = start_into(path, MTP_STREAM);
    MTP_SCOPE ("of the first") {
    }
    stop(prof);
    snprintf(path, sizeof path, "%s/2.mtp", folder);
    prof = start_into(path, MTP_STREAM);
    MTP_SCOPE ("of the second") {
    }
    mtp_live *live = watch(folder);
    assert_int_equal(refresh(live).live, 1);
    assert_int_equal(row_of(live, "of the first", -1)->count, 1);
    assert_int_equal(row_of(live, "of the first", -1)->recent_count, 0);
    stop(prof);
    assert_int_equal(refresh(live).live, 0);
    assert_int_equal(row_of(live, "of the first", -1)->recent_count, 1);
    assert_int_equal(row_of(live, "of the second", -1)->recent_count, 1);
    mtp_live_close(live);
}

static void a_recording_that_stops_and_resumes_is_followed(void **state)
{
    (void)state;
    const char *path = test_path("cycles.mtp");
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.acc_events = true;
    mtp_profile *prof = test_start(&c);
    mtp_live *live = watch(path);
    for (int i = 1; i < 20; i++) {
        record_some(50);
        MTP_SCOPE ("cycle") {
        }
        refresh(live);
        assert_int_equal(count_of(live, "cycle"), i);
        assert_ok(mtp_profile_stop(prof));
        if (i % 3 == 0) {
            assert_true(refresh(live).settled);
            assert_int_equal(count_of(live, "cycle"), i);
            assert_like_averages(live, path);
        }
        assert_ok(mtp_profile_start(prof));
    }
    stop(prof);
    refresh(live);
    assert_like_averages(live, path);
    mtp_live_close(live);
}

/* ----------------------------------------------------------------------------------------------------- clocks */

static int64_t clock_shift;
static uint64_t shifted(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)((int64_t)t.tv_sec * 1000000000 + t.tv_nsec + clock_shift);
}

static void clocks_that_step_do_not_make_times_negative(void **state)
{
    (void)state;
    const char *path = test_path("clocks.mtp");
    mtp__clock_system_hook_set(shifted);
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    for (int i = 0; i < 30; i++) {
        clock_shift = (i % 3 - 1) * (int64_t)3600000000000;
        record_some(200);
        refresh(live);
        for (size_t k = 0; k < mtp_live_row_count(live); k++)
            assert_true(mtp_live_row_at(live, k)->self_ns >= 0);
    }
    clock_shift = 0;
    stop(prof);
    mtp__clock_system_hook_set(NULL);
    refresh(live);
    assert_like_averages(live, path);
    mtp_live_close(live);
}

/* ----------------------------------------------------------------------------------------------------- limits */

static void names_beyond_the_limit_share_a_row(void **state)
{
    (void)state;
    const char *path = test_path("names.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live_options options = MTP_LIVE_OPTIONS_INIT;
    options.most = 100;
    mtp_live *live = watch_with(path, &options);
    static char text[10240];
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 1000; i++) {
        snprintf(text, 24, "%019d", i);
        text[19] = 'x';
        MTP_SCOPE_TEXT(text)
        {
        }
    }
    mtp_live_info info = refresh(live);
    assert_true(info.rows_left_out > 0);
    assert_true(mtp_live_row_count(live) <= 102);
    uint64_t all = 0;
    for (size_t i = 0; i < mtp_live_row_count(live); i++)
        all += mtp_live_row_at(live, i)->count;
    assert_int_equal(all, 1000);
    assert_true(count_of(live, "(other names)") > 800);
    mtp_live_close(live);
    stop(prof);
}

static void *record_one(void *arg)
{
    (void)arg;
    MTP_SCOPE ("one thread") {
    }
    return NULL;
}

static void threads_that_have_ended_are_forgotten(void **state)
{
    (void)state;
    const char *path = test_path("threads.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    int threads = TEST_TSAN ? 500 : 9000;
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    for (int i = 1; i <= threads; i++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, record_one, NULL), 0);
        pthread_join(t, NULL);
        if (i % 100 == 0) {
            info = refresh(live);
            assert_int_equal(count_of(live, "one thread"), i);
        }
    }
    if (info.threads > 4200)
        fail_msg("%llu threads", (unsigned long long)info.threads);
    stop(prof);
    refresh(live);
    assert_like_averages(live, path);
    mtp_live_close(live);
}

static void deep_recursion_is_bounded(void **state)
{
    (void)state;
    const char *path = test_path("deep.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    enum {
        DEEP = 100000
    };
    mtp_token *open = calloc(DEEP, sizeof *open);
    for (int i = 0; i < DEEP; i++)
        open[i] = begin("deep", MTP_SCOPE_PYTHON);
    refresh(live);
    assert_int_equal(mtp_live_thread_at(live, 0)->depth, 65536);
    for (int i = DEEP; i > 0; i--)
        mtp_scope_end(open[i - 1]);
    MTP_SCOPE ("after") {
    }
    refresh(live);
    assert_int_equal(mtp_live_thread_at(live, 0)->depth, 0);
    assert_int_equal(count_of(live, "deep"), 65536);
    assert_int_equal(count_of(live, "after"), 1);
    free(open);
    mtp_live_close(live);
    stop(prof);
}

/* A long recording is caught up with a little at a time. */
static void a_refresh_keeps_to_its_time(void **state)
{
    (void)state;
    const char *path = test_path("long.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    int scopes = test_scaled(1000000);
    for (int i = 0; i < scopes; i++)
        MTP_SCOPE ("of many") {
        }
    mtp_live *live = watch(path);
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    unsigned refreshes = 0;
    do {
        assert_ok(mtp_live_refresh(live, 1000000, &info));
        refreshes++;
    } while (info.unread > 0 && refreshes < 100000);
    assert_int_equal(count_of(live, "of many"), scopes);
    assert_true(refreshes > 2);
    stop(prof);
    refreshes = 0;
    do {
        assert_ok(mtp_live_refresh(live, 1000000, &info));
        assert_int_equal(count_of(live, "of many"), scopes);
    } while (!info.settled && refreshes++ < 100000);
    assert_int_equal(info.unread, 0);
    assert_like_averages(live, path);
    mtp_live_close(live);
}

static void *record_five(void *arg)
{
    for (int i = 0; i < 5; i++)
        MTP_SCOPE ("of five") {
        }
    return arg;
}

/* On a busy machine a refresh may have time for next to nothing: it goes on with another thread, and says so to the end. */
static void what_there_was_no_time_for_is_unread(void **state)
{
    (void)state;
    const char *path = test_path("slow.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, record_five, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    mtp_live *live = watch(path);
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    unsigned refreshes = 0;
    do
        assert_ok(mtp_live_refresh(live, 1, &info));
    while (info.unread > 0 && refreshes++ < 10000);
    assert_int_equal(info.unread, 0);
    assert_int_equal(count_of(live, "of five"), 8 * 5);
    assert_true(refreshes > 1);
    stop(prof);
    mtp_live_close(live);
}

/* ----------------------------------------------------------------------------------------------------- errors */

static void what_is_no_recording_is_refused_in_words(void **state)
{
    (void)state;
    mtp_live *live = (mtp_live *)&live;
    const char *path = test_path("trace.json");
    assert_int_equal(mtp_live_open(test_path("missing.mtp"), NULL, &live), MTP_E_IO);
    assert_null(live);
    assert_says("No such file");
    test_spew(path, "{\"traceEvents\": []}", 19);
    assert_int_equal(mtp_live_open(path, NULL, &live), MTP_E_FORMAT);
    assert_says("not an mtprof spool");
    assert_int_equal(mtp_live_open("/dev/null", NULL, &live), MTP_E_FORMAT);
    assert_int_equal(mtp_live_open(NULL, NULL, &live), MTP_E_ARG);
    assert_int_equal(mtp_live_open(path, NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_live_refresh(NULL, 0, NULL), MTP_E_ARG);
    mtp_live_options options = MTP_LIVE_OPTIONS_INIT;
    options.window_ns = 5;
    assert_int_equal(mtp_live_open(path, &options, &live), MTP_E_ARG);
    mtp_live_close(NULL);
    assert_int_equal(mtp_live_row_count(NULL), 0);
    assert_null(mtp_live_row_at(NULL, 0));
    assert_null(mtp_live_process_at(NULL, 0));
    assert_null(mtp_live_thread_at(NULL, 0));
    assert_null(mtp_live_memory_at(NULL, 0));
}

/* As test_abi.c does for the others: a caller of other headers. */
static void what_a_caller_receives_may_be_longer(void **state)
{
    (void)state;
    const char *path = test_path("abi.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    mtp_live *live = watch(path);
    struct {
        mtp_live_info info;
        unsigned char more[32];
    } later;
    memset(&later, 0xa5, sizeof later);
    later.info.size = sizeof later;
    assert_ok(mtp_live_refresh(live, 0, &later.info));
    assert_int_equal(later.info.size, sizeof later);
    assert_int_equal(later.info.processes, 1);
    for (size_t i = 0; i < sizeof later.more; i++)
        assert_int_equal(later.more[i], 0xa5);
    later.info.size = 0;
    assert_int_equal(mtp_live_refresh(live, 0, &later.info), MTP_E_ABI);
    mtp_live_close(live);
    stop(prof);
}

static char found[600];
static bool keep_name(void *user, const char *file)
{
    snprintf(found, sizeof found, "%s", file);
    return user == NULL;
}

static void the_spool_of_a_process_is_found(void **state)
{
    (void)state;
    const char *path = test_path("mine.mtp");
    assert_int_equal(mtp_process_files((uint64_t)getpid(), keep_name, NULL), MTP_E_STATE);
    mtp_profile *prof = start_into(path, MTP_STREAM);
    assert_ok(mtp_process_files((uint64_t)getpid(), keep_name, NULL));
    assert_string_equal(found, path);
    unlink(path); /* by its descriptor */
    assert_ok(mtp_process_files((uint64_t)getpid(), keep_name, &found));
    mtp_live *live = watch(found);
    refresh(live);
    mtp_live_close(live);
    stop(prof);
    assert_int_equal(mtp_process_files(0, keep_name, NULL), MTP_E_ARG);
    assert_int_equal(mtp_process_files(UINT64_MAX, keep_name, NULL), MTP_E_ARG);
    assert_int_equal(mtp_process_files(0x7ffffff0, keep_name, NULL), MTP_E_ARG);
    assert_says("no process");
}

/* ------------------------------------------------------------------------------------------------------ faults */

static void any_failing_call_is_survived(void **state)
{
    (void)state;
    const char *path = test_path("faults.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    record_some(500);
    int failed = 1;
    for (int nth = 1; failed > 0; nth++) {
        long before = mtp__alloc_live();
        mtp_live *live = NULL;
        mtp_live_info info = MTP_LIVE_INFO_INIT;
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP | 1u << MTP__FAULT_READ |
                            1u << MTP__FAULT_OPEN,
                        nth, nth % 2 == 0);
        if (mtp_live_open(path, NULL, &live) == MTP_OK) {
            mtp_live_refresh(live, 0, &info);
            record_some(20);
            mtp_live_refresh(live, 0, &info);
        }
        failed = mtp__fault_stop();
        if (live != NULL)
            assert_ok(mtp_live_refresh(live, 0, &info));
        mtp_live_close(live);
        assert_int_equal(mtp__alloc_live(), before);
    }
    stop(prof);
}

static void any_failing_call_on_an_ended_file_is_survived(void **state)
{
    (void)state;
    const char *path = test_path("ended.mtp");
    mtp_profile *prof = start_into(path, MTP_STREAM);
    record_some(500);
    stop(prof);
    int failed = 1;
    for (int nth = 1; failed > 0; nth++) {
        long before = mtp__alloc_live();
        mtp_live *live = NULL;
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP | 1u << MTP__FAULT_OPEN, nth,
                        nth % 2 == 0);
        mtp_status status = mtp_live_open(path, NULL, &live);
        for (int i = 0; i < 2 && status == MTP_OK; i++)
            mtp_live_refresh(live, 0, NULL);
        failed = mtp__fault_stop();
        if (live != NULL) {
            assert_true(refresh(live).settled);
            assert_like_averages(live, path);
        }
        mtp_live_close(live);
        assert_int_equal(mtp__alloc_live(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_that_is_killed_is_shown_as_recovered),
        TEST(a_new_recording_of_the_same_name_is_followed),
        TEST(a_file_that_is_deleted_or_moved_is_still_followed),
        TEST(a_file_that_is_overwritten_or_cut_says_so),
        TEST(every_cut_of_a_file_is_read_without_harm),
        TEST(processes_that_appear_are_added),
        TEST(what_has_ended_is_recent_only_if_nothing_is_live),
        TEST(a_recording_that_stops_and_resumes_is_followed),
        TEST(clocks_that_step_do_not_make_times_negative),
        TEST(names_beyond_the_limit_share_a_row),
        TEST(threads_that_have_ended_are_forgotten),
        TEST(deep_recursion_is_bounded),
        TEST(a_refresh_keeps_to_its_time),
        TEST(what_there_was_no_time_for_is_unread),
        TEST(what_is_no_recording_is_refused_in_words),
        TEST(what_a_caller_receives_may_be_longer),
        TEST(the_spool_of_a_process_is_found),
        TEST(any_failing_call_is_survived),
        TEST(any_failing_call_on_an_ended_file_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
