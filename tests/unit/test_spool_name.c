/* Unit: record/spool/name: a spool and the file under its name: an earlier one, one that another process
 * records into, one left by a crash, one that is truncated while it is recorded. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sched.h>
#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RACERS = 6
};

typedef struct race {
    _Atomic int tried, won, go;
} race;
static race *shared;
static char path[512];

static mtp_profile_config config_of(warnings *w, const char *spool)
{
    mtp_profile_config c = test_config(w);
    c.spool = spool;
    c.when_full = MTP_STREAM;
    return c;
}

static char last_kept[1024]; /* by record() */

static void record(const char *spool, int scopes, warnings *w)
{
    mtp_profile_config c = config_of(w, spool);
    mtp_profile *prof = test_start(&c);
    const char *kept = mtp_profile_spool_kept(prof);
    snprintf(last_kept, sizeof last_kept, "%s", kept != NULL ? kept : "");
    for (int i = 0; i < scopes; i++)
        MTP_SCOPE ("scope") {
        }
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
}

static uint64_t spans_of(const char *file, mtp_outcome *outcome)
{
    mtp_trace *t;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    assert_ok(mtp_trace_open(file, NULL, &t));
    assert_ok(mtp_trace_get_info(t, &info));
    mtp_trace_destroy(t);
    *outcome = info.outcome;
    return info.spans;
}

static void crash(void *arg)
{
    mtp_profile_config c = config_of(NULL, path);
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < *(int *)arg; i++)
        MTP_SCOPE ("before the crash") {
        }
    kill(getpid(), SIGKILL);
}

/* Our temporary files. */
static int leftovers(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_path("."));
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        n += strncmp(e->d_name, ".mtprof-", 8) == 0;
    closedir(d);
    return n;
}

static void a_start_that_fails_leaves_the_old_file(void **state)
{
    (void)state;
    size_t bytes, now;
    snprintf(path, sizeof path, "%s", test_path("old.mtp"));
    record(path, 10, NULL);
    char *before = test_slurp(path, &bytes);
    for (int nth = 1;; nth++) {
        mtp_profile_config c = config_of(NULL, path);
        mtp_profile *prof = NULL;
        mtp__fault_plan(MTP__FAULTS_ALL, nth, true);
        mtp_status status = mtp_profile_create(&c, &prof);
        if (status == MTP_OK)
            status = mtp_profile_start(prof);
        int fired = mtp__fault_stop();
        bool started = status == MTP_OK;
        if (!started) {
            char *after = test_slurp(path, &now);
            if (now != bytes || memcmp(before, after, bytes) != 0)
                fail_msg("call %d failed, and the old file is another", nth);
            free(after);
        }
        mtp_profile_destroy(prof);
        assert_int_equal(leftovers(), 0);
        if (started && fired == 0)
            break;
        if (started) /* what failed was not needed */
            test_spew(path, before, bytes);
    }
    free(before);
}

/* Short or interrupted writes are not failures. */
static void a_header_that_is_written_in_parts_is_whole(void **state)
{
    (void)state;
    mtp_outcome outcome;
    snprintf(path, sizeof path, "%s", test_path("parts.mtp"));
    for (int kind = MTP__FAULT_SHORT; kind <= MTP__FAULT_INTERRUPT; kind++) {
        mtp__fault_plan(1u << kind, 1, true);
        record(path, 4, NULL);
        assert_true(mtp__fault_stop() >= 2); /* at start and at stop */
        assert_int_equal(spans_of(path, &outcome), 4);
        assert_int_equal(outcome, MTP_OUTCOME_STOPPED);
    }
    mtp_profile_config c = config_of(NULL, path);
    mtp_profile *prof = test_create(&c);
    mtp__fault_plan(1u << MTP__FAULT_WRITE, 1, true);
    assert_int_equal(mtp_profile_start(prof), MTP_E_IO);
    mtp__fault_stop();
    assert_says("cannot be written: No space left on device");
    mtp_profile_destroy(prof);
    assert_int_equal(spans_of(path, &outcome), 4);
}

static void what_a_crash_left_is_kept(void **state)
{
    (void)state;
    mtp_outcome outcome;
    warnings w;
    char kept[512];
    snprintf(path, sizeof path, "%s", test_path("crashed.mtp"));
    for (int round = 1; round <= 3; round++) {
        int scopes = 7 * round;
        test_child(crash, &scopes, 30);
        record(path, 2, &w);
        snprintf(kept, sizeof kept, "crashed.%d.mtp", round);
        assert_int_equal(w.count[MTP_WARNING_SPOOL_KEPT], 1);
        assert_contains(w.text, kept);
        assert_string_equal(last_kept, test_path(kept));
        assert_int_equal(spans_of(test_path(kept), &outcome), scopes);
        assert_int_equal(outcome, MTP_OUTCOME_RECOVERED);
        assert_int_equal(spans_of(path, &outcome), 2);
        assert_int_equal(outcome, MTP_OUTCOME_STOPPED);
        record(path, 3, &w); /* a stopped one is replaced */
        assert_int_equal(w.total, 0);
        assert_string_equal(last_kept, "");
        assert_int_equal(spans_of(path, &outcome), 3);
    }
    assert_int_not_equal(access(test_path("crashed.4.mtp"), F_OK), 0);
}

/* An error between prepare and start, or a schedule that ends before it: nothing was recorded, so nothing
 * is kept. */
static void one_that_never_started_is_not_kept(void **state)
{
    (void)state;
    mtp_outcome outcome;
    warnings w;
    snprintf(path, sizeof path, "%s", test_path("unstarted.mtp"));
    mtp_profile_config c = config_of(NULL, path);
    for (int round = 0; round < 2; round++) {
        mtp_profile *prof = test_create(&c);
        assert_ok(mtp_profile_prepare_trace(prof));
        mtp_profile_destroy(prof);
        assert_int_equal(spans_of(path, &outcome), 0);
        assert_int_equal(outcome, MTP_OUTCOME_STOPPED);
    }
    record(path, 2, &w);
    assert_int_equal(w.total, 0);
    assert_string_equal(last_kept, "");
    assert_int_not_equal(access(test_path("unstarted.1.mtp"), F_OK), 0);
}

static void race_for_it(void *arg)
{
    (void)arg;
    mtp_profile_config c = config_of(NULL, path);
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    while (!atomic_load(&shared->go))
        sched_yield();
    mtp_status status = mtp_profile_start(prof);
    bool won = status == MTP_OK;
    CHILD_CHECK(won || (status == MTP_E_IO && strstr(mtp_last_error(), "is recording into it") != NULL));
    atomic_fetch_add(&shared->won, won);
    atomic_fetch_add(&shared->tried, 1);
    while (atomic_load(&shared->tried) < RACERS)
        usleep(100);
    for (int i = 0; won && i < 20; i++)
        MTP_SCOPE ("winner") {
        }
    CHILD_CHECK(!won || mtp_profile_stop(prof) == MTP_OK);
}

/* Several processes on one path: one records completely, the others get an error, whatever file existed
 * before. */
static void of_several_processes_on_one_path_one_records(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", test_path("race.mtp"));
    for (int round = 0; round < test_scaled(12); round++) {
        mtp_outcome outcome;
        pid_t pid[RACERS];
        int scopes = 5;
        if (round % 3 == 0)
            unlink(path);
        else if (round % 3 == 1)
            test_child(crash, &scopes, 30);
        memset(shared, 0, sizeof *shared);
        for (int i = 0; i < RACERS; i++)
            pid[i] = test_fork_child(race_for_it, NULL, 30);
        atomic_store(&shared->go, 1);
        for (int i = 0; i < RACERS; i++)
            assert_true(test_left_well(test_wait(pid[i])));
        assert_int_equal(atomic_load(&shared->won), 1);
        assert_int_equal(spans_of(path, &outcome), 20);
        assert_int_equal(outcome, MTP_OUTCOME_STOPPED);
        assert_int_equal(leftovers(), 0);
    }
}

static void number_it(void *arg)
{
    (void)arg;
    mtp_profile_config c = config_of(NULL, path);
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    atomic_fetch_add(&shared->tried, 1);
    while (atomic_load(&shared->tried) < RACERS)
        usleep(100);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
}

static void with_a_number_in_the_name_each_process_has_its_file(void **state)
{
    (void)state;
    pid_t pid[RACERS];
    snprintf(path, sizeof path, "%s", test_path("number-%n.mtp"));
    memset(shared, 0, sizeof *shared);
    for (int i = 0; i < RACERS; i++)
        pid[i] = test_fork_child(number_it, NULL, 30);
    for (int i = 0; i < RACERS; i++)
        assert_true(test_left_well(test_wait(pid[i])));
    for (int i = 1; i <= RACERS; i++) {
        char name[64];
        mtp_outcome outcome;
        snprintf(name, sizeof name, "number-%d.mtp", i);
        spans_of(test_path(name), &outcome);
        assert_int_equal(outcome, MTP_OUTCOME_STOPPED);
    }
}

static void patterns_are_filled_in(void **state)
{
    (void)state;
    char host[64] = "", want[1024];
    mtp_profile *prof = NULL;
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s", test_path("%p-%h-100%%-%t.mtp"));
    mtp_profile_config c = config_of(NULL, path);
    assert_null(mtp_profile_spool(NULL));
    assert_null(mtp_profile_spool_kept(NULL));
    prof = test_create(&c);
    assert_null(mtp_profile_spool(prof));
    assert_ok(mtp_profile_start(prof));
    snprintf(want, sizeof want, "/%d-%s-100%%-20", (int)getpid(), host);
    assert_contains(mtp_profile_spool(prof), want);
    assert_int_equal(access(mtp_profile_spool(prof), F_OK), 0);
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    static const char *const bad[] = {"a%.mtp", "%", "%q", "%%%", "x%5d"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        c.spool = bad[i];
        assert_int_equal(mtp_profile_create(&c, &prof), MTP_E_ARG);
        assert_says(bad[i]);
        assert_says("a percent sign is %%");
    }
}

static void a_followed_child_is_called_after_its_parents_file(void **state)
{
    (void)state;
    char child[1024];
    mtp_outcome outcome;
    snprintf(path, sizeof path, "%s", test_path("family-50%%-%n.mtp"));
    mtp_profile_config c = config_of(NULL, path);
    c.follow_fork = true;
    mtp_profile *prof = test_start(&c);
    pid_t pid = fork();
    if (pid == 0) {
        MTP_SCOPE ("child") {
        }
        _exit(mtp_profile_stop(prof) == MTP_OK ? 0 : 1);
    }
    assert_true(test_left_well(test_wait(pid)));
    snprintf(child, sizeof child, "%s.%d", mtp_profile_spool(prof), (int)pid);
    assert_contains(child, "family-50%-1.mtp.");
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    assert_int_equal(spans_of(child, &outcome), 1);
    assert_int_equal(outcome, MTP_OUTCOME_STOPPED);
}

/* -----------------------------------------------------------------------------------------------
 * truncation */

typedef struct cutting {
    mtp_when_full policy;
    off_t to;
    int handler; /* 0: none; 1: the program's, before ours; 2: after ours */
} cutting;

static volatile sig_atomic_t program_saw;

static void program_handler(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    program_saw++;
    _exit(42);
}

static void set_program_handler(void)
{
    struct sigaction a = {.sa_sigaction = program_handler, .sa_flags = SA_SIGINFO};
    CHILD_CHECK(sigaction(SIGBUS, &a, NULL) == 0);
}

static bool program_handler_is_set(void)
{
    struct sigaction a;
    return sigaction(SIGBUS, NULL, &a) == 0 && a.sa_sigaction == program_handler;
}

static void record_while_it_is_cut(void *arg)
{
    const cutting *how = arg;
    warnings w;
    mtp_profile_config c = config_of(&w, path);
    c.when_full = how->policy;
    c.buffer_bytes = 64 * 4096;
    mtp_profile *prof = NULL;
    signal(SIGBUS, SIG_DFL); /* cmocka has one */
    if (how->handler == 1)
        set_program_handler();
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < 200000; i++) {
        MTP_SCOPE ("scope") {
        }
        if (i == 1000)
            CHILD_CHECK(truncate(path, how->to) == 0);
    }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    CHILD_CHECK(w.count[MTP_WARNING_SPOOL_FAILED] == 1);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.dropped_by[MTP_DROP_DISK] > 0);
    CHILD_CHECK(l.emitted == l.kept + l.dropped);
    mtp_profile_destroy(prof);
    struct sigaction after;
    CHILD_CHECK(sigaction(SIGBUS, NULL, &after) == 0);
    CHILD_CHECK(how->handler == 1 ? program_handler_is_set() : after.sa_handler == SIG_DFL);
}

static void a_file_that_is_cut_under_us_is_survived(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", test_path("cut.mtp"));
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++)
        for (int handler = 0; handler < 2; handler++)
            for (off_t to = 0; to <= 5 * 4096; to += 5 * 2048) {
                mtp_trace *t;
                mtp_trace_info info = MTP_TRACE_INFO_INIT;
                cutting how = {(mtp_when_full)policy, to, handler};
                unlink(path);
                assert_true(test_left_well(test_child(record_while_it_is_cut, &how, 60)));
                mtp_status status = mtp_trace_open(path, NULL, &t);
                if (to == 0) {
                    assert_int_equal(status, MTP_E_FORMAT);
                    continue;
                }
                assert_ok(status);
                assert_ok(mtp_trace_get_info(t, &info));
                assert_int_not_equal(info.outcome, MTP_OUTCOME_STOPPED); /* not reported as complete */
                mtp_trace_destroy(t);
            }
}

/* Any other SIGBUS belongs to the program. */
static void break_something_else(void *arg)
{
    const cutting *how = arg;
    mtp_profile_config c = config_of(NULL, path);
    mtp_profile *prof = NULL;
    signal(SIGBUS, SIG_DFL); /* cmocka has one */
    if (how->handler == 1)
        set_program_handler();
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    if (how->handler == 2)
        set_program_handler();
    int fd = open(test_path("own"), O_RDWR | O_CREAT, 0600);
    CHILD_CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    volatile char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHILD_CHECK(p != MAP_FAILED && ftruncate(fd, 0) == 0);
    if (how->to == 1)
        kill(getpid(), SIGBUS);
    else
        p[0] = 1;
    _exit(1);
}

static void another_sigbus_is_the_programs(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", test_path("other.mtp"));
    for (int handler = 0; handler < 3; handler++)
        for (off_t sent = 0; sent < 2; sent++) {
            cutting how = {MTP_STREAM, sent, handler};
            int status = test_child(break_something_else, &how, 30);
            if (handler == 0)
                assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
            else
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
        }
}

static void a_handler_that_the_program_sets_later_stays(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", test_path("later.mtp"));
    mtp_profile_config c = config_of(NULL, path);
    mtp_profile *prof = test_start(&c);
    set_program_handler();
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_start(prof));
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    assert_true(program_handler_is_set());
    signal(SIGBUS, SIG_DFL);
}

/* What a daemon does: it changes its folder and closes all descriptors that it did not open. Their numbers
 * are soon reused. */
enum {
    FILES = 8,
    FILE_BYTES = 1 << 20
};

static void close_all_and_open_others(int fd[FILES])
{
    char name[32];
    CHILD_CHECK(chdir("/") == 0);
    for (int i = 3; i < 256; i++)
        close(i);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "theirs %d", i);
        fd[i] = open(test_path(name), O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHILD_CHECK(fd[i] >= 3 && ftruncate(fd[i], FILE_BYTES) == 0);
    }
}

static void check_untouched(const int fd[FILES])
{
    static char bytes[FILE_BYTES], zero[FILE_BYTES];
    for (int i = 0; i < FILES; i++) {
        struct stat st;
        CHILD_CHECK(fstat(fd[i], &st) == 0 && st.st_size == FILE_BYTES);
        CHILD_CHECK(pread(fd[i], bytes, sizeof bytes, 0) == FILE_BYTES &&
                    memcmp(bytes, zero, sizeof bytes) == 0);
    }
}

static void become_a_daemon(void *arg)
{
    const cutting *how = arg; /* handler: the file is deleted too, so that it cannot be reopened */
    warnings w = {0};
    mtp_profile_config c = config_of(&w, "daemon.mtp");
    mtp_profile *prof = NULL;
    mtp_ledger l = MTP_LEDGER_INIT;
    mtp_trace *t = NULL;
    int fd[FILES];
    c.when_full = how->policy;
    CHILD_CHECK(chdir(test_path(".")) == 0);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    MTP_SCOPE ("before") {
    }
    if (how->handler)
        CHILD_CHECK(unlink("daemon.mtp") == 0);
    close_all_and_open_others(fd);
    for (int i = 0; i < 20000; i++)
        MTP_SCOPE ("after") {
        }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == l.kept + l.dropped && l.kept > 0);
    CHILD_CHECK(w.count[MTP_WARNING_SPOOL_FAILED] == how->handler);
    CHILD_CHECK((mtp_profile_trace(prof, &t) == MTP_OK) == !how->handler);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
    check_untouched(fd);
}

static void a_program_that_closes_all_descriptors_keeps_its_files(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", test_path("daemon.mtp"));
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++)
        for (int gone = 0; gone < 2; gone++) {
            cutting how = {(mtp_when_full)policy, 0, gone};
            mtp_outcome outcome;
            unlink(path);
            assert_true(test_left_well(test_child(become_a_daemon, &how, 60)));
            if (!gone)
                assert_true(spans_of(path, &outcome) > 1 && outcome == MTP_OUTCOME_STOPPED);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_start_that_fails_leaves_the_old_file),
        TEST(a_header_that_is_written_in_parts_is_whole),
        TEST(what_a_crash_left_is_kept),
        TEST(one_that_never_started_is_not_kept),
        TEST(of_several_processes_on_one_path_one_records),
        TEST(with_a_number_in_the_name_each_process_has_its_file),
        TEST(patterns_are_filled_in),
        TEST(a_followed_child_is_called_after_its_parents_file),
        TEST(a_file_that_is_cut_under_us_is_survived),
        TEST(another_sigbus_is_the_programs),
        TEST(a_handler_that_the_program_sets_later_stays),
        TEST(a_program_that_closes_all_descriptors_keeps_its_files),
    };
    shared = test_shared(sizeof *shared);
    test_random();
    test_path("folder");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
