/* Unit: recording from a signal handler, at any moment, whatever the thread was doing: no deadlock, and every
 * record is either kept or counted as dropped. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static volatile uint64_t handler_asked, handler_runs, handler_tokens;

/* The handler runs on the thread that drives the profile, so it sees the switch as its records do. */
static void tick(int sig)
{
    (void)sig;
    handler_runs++;
    if ((mtp_recording() & MTP_CPU) == 0)
        return;
    mtp_mark(MTP_NAME("tick"));
    mtp_token token = mtp_scope_begin(MTP_NAME("tick scope"));
    handler_asked += 2 + (token != 0);
    handler_tokens += token != 0;
    mtp_scope_end(token);
    MTP_SCOPE ("tick macro") {
        handler_asked++; /* its begin; the end only counts if that was kept, which the ledger knows */
    }
}

static timer_t timer;

static void ticking(long nanoseconds)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
    struct itimerspec every = {{0, nanoseconds}, {0, nanoseconds}};
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
    sigaction(SIGPROF, &action, NULL);
    CHILD_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHILD_CHECK(timer_settime(timer, 0, &every, NULL) == 0);
}

static void ticked(void)
{
    timer_delete(timer);
    signal(SIGPROF, SIG_IGN);
}

typedef struct work_case {
    const char *name;
    void (*work)(mtp_profile *prof, uint64_t *asked);
    mtp_when_full when_full;
    bool spool, restart;
} work_case;

static void record_scopes(mtp_profile *prof, uint64_t *asked)
{
    (void)prof;
    for (int i = 0; i < 1000; i++) {
        mtp_token token = mtp_scope_begin(MTP_NAME("work"));
        *asked += 1 + (token != 0);
        mtp_scope_end(token);
    }
}

static void record_texts(mtp_profile *prof, uint64_t *asked)
{
    static int n;
    (void)prof;
    for (int i = 0; i < 200; i++) {
        char name[32];
        mtp_token token =
            mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "text %d", n++ % 3000));
        *asked += 1 + (token != 0);
        mtp_scope_end(token);
    }
}

static void make_names(mtp_profile *prof, uint64_t *asked)
{
    static int n;
    (void)prof, (void)asked;
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "signal name %d", n++ % 5000);
        mtp_name(name);
    }
}

static void ask_ledger(mtp_profile *prof, uint64_t *asked)
{
    (void)asked;
    mtp_ledger l = MTP_LEDGER_INIT;
    for (int i = 0; i < 100; i++)
        CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK);
}

static void add_metadata(mtp_profile *prof, uint64_t *asked)
{
    (void)asked;
    for (int i = 0; i < 20; i++)
        mtp_profile_add_metadata(prof, "key", "value");
}

static mtp_status nothing(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    (void)user, (void)chunk, (void)words, (void)count;
    return MTP_OK;
}

static void read_all(mtp_profile *prof, uint64_t *asked)
{
    (void)asked;
    CHILD_CHECK(mtp__recorder_visit(prof->recorder, nothing, NULL) == MTP_OK);
}

static void use_malloc(mtp_profile *prof, uint64_t *asked)
{
    (void)prof, (void)asked;
    void *volatile p[64];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 64; i++)
            p[i] = malloc((size_t)(1 + (i * 977 + round * 131) % 5000));
        for (int i = 0; i < 64; i++)
            free(p[i]);
    }
}

static void use_fork(mtp_profile *prof, uint64_t *asked)
{
    (void)prof, (void)asked;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    CHILD_CHECK(test_wait(pid) == 0);
}

static void other_profiles(mtp_profile *prof, uint64_t *asked)
{
    (void)prof, (void)asked;
    mtp_profile *other;
    CHILD_CHECK(mtp_profile_create(NULL, &other) == MTP_OK);
    CHILD_CHECK(mtp_profile_start(other) == MTP_E_BUSY);
    mtp_profile_destroy(other);
}

static void *short_thread(void *arg)
{
    MTP_SCOPE ("short") {
    }
    *(uint64_t *)arg += 2;
    return NULL;
}

static void make_threads(mtp_profile *prof, uint64_t *asked)
{
    (void)prof;
    pthread_t t;
    CHILD_CHECK(pthread_create(&t, NULL, short_thread, asked) == 0);
    pthread_join(t, NULL);
}

/* Succeeds only if no record is missing from the ledger. */
static void work_under_ticks(void *arg)
{
    const work_case *w = arg;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    uint64_t asked = 0, macros = 0;
    c.buffer_bytes = 64 * 4096;
    c.when_full = w->when_full;
    c.spool = w->spool ? test_path("signals.mtp") : NULL;
    c.acc_events = true;
    double until = test_now() + (TEST_TSAN || TEST_ASAN ? 0.5 : 0.25) * test_scaled(10) / test_scaled(10);
    const char *scale = getenv("MTP_TEST_SCALE");
    if (scale != NULL)
        until += atof(scale) * 0.25;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    if (w->spool && w->when_full == MTP_STREAM)
        prof->config.spool_bytes = 64u << 20;
    ticking(100000); /* 10 kHz, before the thread has recorded anything */
    uint64_t starts = 0;
    do {
        if (w->restart || starts == 0) {
            CHILD_CHECK(mtp_profile_start(prof) == MTP_OK);
            starts++;
        }
        w->work(prof, &asked);
        if (w->restart)
            CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    } while (test_now() < until);
    if (!w->restart)
        CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    ticked();
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK);
    seen s = {0};
    seen_profile(&s, prof);
    CHILD_CHECK(l.emitted == l.kept + l.dropped);
    CHILD_CHECK(l.kept == s.records);
    CHILD_CHECK(l.lost_definitions > 0 || s.problem[0] == 0);
    CHILD_CHECK(handler_runs > 0);
    /* ends of MTP_SCOPE in the handler count only if their begin was kept; the ledger must be in between */
    macros = l.emitted - (handler_asked + asked + starts);
    if (l.emitted < handler_asked + asked + starts || macros > handler_runs) {
        fprintf(stderr, "%s: emitted %llu, asked %llu + %llu, %llu starts, %llu runs\n", w->name,
                (unsigned long long)l.emitted, (unsigned long long)handler_asked, (unsigned long long)asked,
                (unsigned long long)starts, (unsigned long long)handler_runs);
        _exit(98);
    }
    if (l.dropped == l.dropped_by[MTP_DROP_REENTRANT]) { /* nothing else was dropped: the count is exact */
        size_t begun = 0;
        for (size_t i = 0; i < s.records; i++)
            begun += s.record[i].kind == MTP__KIND_BEGIN &&
                     strcmp(seen_name(&s, (uint32_t)s.record[i].word[0]), "tick macro") == 0;
        CHILD_CHECK(macros == begun);
    }
    seen_free(&s);
    mtp_profile_destroy(prof);
}

static const work_case cases[] = {
    {"record_scopes", record_scopes, MTP_KEEP_NEWEST, false, false},
    {"record_scopes into a file", record_scopes, MTP_STREAM, true, false},
    {"record_scopes into a full buffer", record_scopes, MTP_STOP_WHEN_FULL, false, false},
    {"record_texts", record_texts, MTP_KEEP_NEWEST, false, false},
    {"make_names", make_names, MTP_KEEP_NEWEST, false, false},
    {"ask_ledger", ask_ledger, MTP_KEEP_NEWEST, false, false},
    {"add_metadata", add_metadata, MTP_KEEP_NEWEST, false, false},
    {"read_all", read_all, MTP_KEEP_NEWEST, false, false},
    {"read_all of a file", read_all, MTP_KEEP_NEWEST, true, false},
    {"use_malloc", use_malloc, MTP_KEEP_NEWEST, false, false},
    {"use_fork", use_fork, MTP_KEEP_NEWEST, false, false},
    {"other_profiles", other_profiles, MTP_KEEP_NEWEST, false, false},
    {"make_threads", make_threads, MTP_KEEP_NEWEST, false, false},
    {"starts and stops", record_scopes, MTP_KEEP_NEWEST, false, true},
    {"starts and stops with texts", record_texts, MTP_KEEP_NEWEST, false, true},
};

static void run_cases(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (!test_left_well(test_child(work_under_ticks, (void *)&cases[i], 20)))
            fail_msg("%s", cases[i].name);
    test_row(10, to - from, "programs under a recording handler at 10 kHz, no hang, ledgers exact");
}

static void recording_beside_a_recording_handler_is_exact(void **state)
{
    (void)state;
    run_cases(0, 5);
}

static void cold_calls_beside_a_recording_handler_do_not_hang(void **state)
{
    (void)state;
    run_cases(5, 13);
}

static void starts_and_stops_beside_a_recording_handler_are_exact(void **state)
{
    (void)state;
    run_cases(13, COUNT(cases));
}

/* The first record of a thread, in a handler that interrupted malloc: the handler must not need malloc itself. Each
 * round is a new thread, which is struck while it allocates and frees. */
static void *allocate(void *arg)
{
    volatile sig_atomic_t *done = arg;
    while (!*done) {
        void *volatile p = malloc(24);
        void *volatile q = malloc(70000);
        free(p);
        free(q);
    }
    return NULL;
}

static volatile sig_atomic_t *struck;

static void first_record(int sig)
{
    (void)sig;
    MTP_SCOPE ("first") {
    }
    mtp_scope_end(mtp_scope_begin_text("first text", 10));
    *struck = 1;
}

static void strike_allocating_threads(void *arg)
{
    (void)arg;
    struct sigaction action = {.sa_handler = first_record};
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    c.buffer_bytes = 32u << 20;
    sigaction(SIGUSR1, &action, NULL);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    int rounds = test_scaled(600);
    for (int i = 0; i < rounds; i++) {
        volatile sig_atomic_t done = 0;
        pthread_t t;
        struck = &done;
        CHILD_CHECK(pthread_create(&t, NULL, allocate, (void *)&done) == 0);
        for (uint64_t spin = test_below(20000); spin > 0; spin--)
            __asm__ volatile("");
        pthread_kill(t, SIGUSR1);
        pthread_join(t, NULL);
    }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK);
    CHILD_CHECK(l.emitted == 4 * (uint64_t)rounds + 1 && l.kept == l.emitted);
    mtp_profile_destroy(prof);
}

static void a_first_record_inside_malloc_does_not_need_malloc(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(strike_allocating_threads, NULL, 60)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(recording_beside_a_recording_handler_is_exact),
        TEST(cold_calls_beside_a_recording_handler_do_not_hang),
        TEST(starts_and_stops_beside_a_recording_handler_are_exact),
        TEST(a_first_record_inside_malloc_does_not_need_malloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
