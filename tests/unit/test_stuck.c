/* Unit: threads that are inside a record while the profile is stopped, and resume later; and a process that
 * is paused. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0 && errno == EINTR)
        ;
}

static _Thread_local bool i_get_stuck;
static sem_t stuck_now, stuck_go;
static int stuck_at; /* an mtp__testpoint, or one of these */
enum {
    IN_CAPTURE = 1000,
    IN_DESCRIBE
};

static void get_stuck(int where)
{
    if (where == stuck_at && i_get_stuck) {
        i_get_stuck = false;
        sem_post(&stuck_now);
        wait_for(&stuck_go);
    }
}

/* Chunks of the control stream are taken and sealed under its lock: a thread that waits there is waited
 * for, not stuck. */
static bool in_control_stream(void)
{
    mtp__recorder *r = mtp__recorder_current();
    if (r == NULL || pthread_mutex_trylock(&r->control.lock) != 0)
        return true;
    pthread_mutex_unlock(&r->control.lock);
    return false;
}

static void hook(mtp__testpoint point, void *user)
{
    (void)user;
    if ((point == MTP__POINT_CHUNK_TAKEN || point == MTP__POINT_CHUNK_SEALED) &&
        (!i_get_stuck || in_control_stream()))
        return;
    get_stuck((int)point);
}

static uint32_t capture(void *user, uint64_t *frames, uint32_t room)
{
    static atomic_uint_fast64_t frame;
    (void)user;
    get_stuck(IN_CAPTURE);
    frames[0] = 1 + atomic_fetch_add(&frame, 1) % 5000;
    return room > 0;
}

static void describe(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user;
    get_stuck(IN_DESCRIBE);
    snprintf(out, room, "file:%llu:f", (unsigned long long)frame);
}

/* Everything that needs the recorder, with new definitions each time. */
static void record_all(int i)
{
    char name[32];
    int64_t dims[] = {i, 3};
    mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    op.inputs = op.outputs = &in;
    op.input_count = op.output_count = 1;
    op.args = name;
    snprintf(name, sizeof name, "text %d", i);
    mtp_op_begin(&op);
    mtp_op_hold(&op, &in, 1);
    mtp_op_end(&op);
    mtp_scope_end(mtp_scope_begin_text(name, strlen(name)));
    MTP_SCOPE ("scope") {
        mtp_mark(MTP_NAME("mark"));
    }
}

static void *sticky(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++)
        record_all(i);
    i_get_stuck = true;
    for (int i = 20; i < 600; i++)
        record_all(i);
    return NULL;
}

typedef struct stuck_case {
    int at,
        after; /* after: 0 no more recording, 1 another cycle, 2 another profile (the first is destroyed) */
    bool spool, acc;
    char file[32];
} stuck_case;

static void one_gets_stuck(void *arg)
{
    const stuck_case *k = arg;
    const mtp_stack_provider provider = {sizeof provider, capture, describe, NULL};
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL, *next;
    pthread_t t;
    c.record_shapes = c.with_stack = true;
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 32 * 4096;
    c.acc_events = k->acc;
    c.spool = k->spool ? test_path(k->file) : NULL;
    sem_init(&stuck_now, 0, 0);
    sem_init(&stuck_go, 0, 0);
    stuck_at = k->at;
    CHILD_CHECK(mtp_stack_provider_set(&provider) == MTP_OK);
    mtp__testpoint_set(hook, NULL);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    CHILD_CHECK(pthread_create(&t, NULL, sticky, NULL) == 0);
    wait_for(&stuck_now);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT, later = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == l.kept + l.dropped);
    seen s = {0};
    seen_profile(&s, prof);
    CHILD_CHECK(s.records == l.kept); /* its open chunk is not read: it may change */
    seen_free(&s);
    next = prof;
    if (k->after == 2) {
        mtp_profile_destroy(prof);
        c.spool = NULL;
        CHILD_CHECK(mtp_profile_create(&c, &next) == MTP_OK);
    }
    if (k->after != 0)
        CHILD_CHECK(mtp_profile_start(next) == MTP_OK);
    sem_post(&stuck_go);
    CHILD_CHECK(pthread_join(t, NULL) == 0);
    if (k->after != 0) { /* all its records but the interrupted one belong to the new recording */
        CHILD_CHECK(mtp_profile_stop(next) == MTP_OK);
        CHILD_CHECK(mtp_profile_ledger(next, &l) == MTP_OK && l.emitted == l.kept + l.dropped);
        CHILD_CHECK(l.emitted > (k->acc ? 7 * 560 : 7 * 570));
        CHILD_CHECK(l.dropped_by[MTP_DROP_STUCK] == 0 || k->acc || k->spool);
    } else {
        CHILD_CHECK(mtp_profile_ledger(prof, &later) == MTP_OK);
        CHILD_CHECK(l.emitted == later.emitted && l.kept == later.kept);
    }
    seen_profile(&s, next);
    CHILD_CHECK(s.records == l.kept);
    seen_free(&s);
    if (c.spool != NULL) {
        CHILD_CHECK(seen_spool(&s, c.spool) == MTP_OK);
        CHILD_CHECK(s.report.complete && s.records == l.kept);
    }
}

static void a_thread_that_was_stuck_continues_wherever_it_was(void **state)
{
    (void)state;
    static const int at[] = {MTP__POINT_RECORD_RESERVED,
                             MTP__POINT_RECORD_COMMITTED,
                             MTP__POINT_CHUNK_TAKEN,
                             MTP__POINT_CHUNK_SEALED,
                             MTP__POINT_DEFINITION,
                             IN_CAPTURE,
                             IN_DESCRIBE};
    enum {
        WAYS = 4
    };
    pid_t program[COUNT(at) * WAYS]; /* side by side: each waits a second in stop() */
    stuck_case cases[COUNT(at) * WAYS];
    test_path("folder");
    for (size_t i = 0; i < COUNT(cases); i++) {
        int way = (int)(i % WAYS);
        cases[i] = (stuck_case){at[i / WAYS], way < 3 ? way : 1, (i / WAYS + i) % 2 == 0, way == 3, ""};
        snprintf(cases[i].file, sizeof cases[i].file, "stuck %zu.mtp", i);
        program[i] = test_fork_child(one_gets_stuck, &cases[i], 60);
    }
    const stuck_case *bad = NULL;
    for (size_t i = 0; i < COUNT(cases); i++)
        if (!test_left_well(test_wait(program[i])))
            bad = &cases[i];
    if (bad != NULL)
        fail_msg("at %d, then %d, spool %d, acc %d", bad->at, bad->after, bad->spool, bad->acc);
}

/* ------------------------------------------------------------------------------------------------ pauses */

static atomic_bool stopping;

static void note_stopping(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == MTP__POINT_STOP_GATE)
        atomic_store(&stopping, true);
    get_stuck((int)point);
}

static void nap(int ms)
{
    for (int i = 0; i < ms; i++) {
        struct timespec t = {0, 1000000};
        nanosleep(&t, NULL);
    }
}

/* While stop() waits, the whole process is paused for longer than stop() would wait; then the thread
 * leaves its record. */
static void *pauses_all(void *arg)
{
    (void)arg;
    while (!atomic_load(&stopping))
        nap(1);
    nap(20);
    kill(getpid(), SIGSTOP);
    nap(20);
    sem_post(&stuck_go);
    return NULL;
}

static void paused_in_stop(void *arg)
{
    (void)arg;
    warnings w;
    mtp_profile_config c = test_config(&w);
    mtp_profile *prof = NULL;
    pthread_t t, other;
    sem_init(&stuck_now, 0, 0);
    sem_init(&stuck_go, 0, 0);
    stuck_at = MTP__POINT_RECORD_RESERVED;
    mtp__testpoint_set(note_stopping, NULL);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    CHILD_CHECK(pthread_create(&t, NULL, sticky, NULL) == 0);
    wait_for(&stuck_now);
    CHILD_CHECK(pthread_create(&other, NULL, pauses_all, NULL) == 0);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    CHILD_CHECK(w.count[MTP_WARNING_THREAD_STUCK] == 0);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.dropped == 0);
    pthread_join(t, NULL);
    pthread_join(other, NULL);
}

static void a_pause_of_the_process_makes_no_thread_stuck(void **state)
{
    (void)state;
    pid_t pid = test_fork_child(paused_in_stop, NULL, 30);
    int status;
    while (waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR)
        ;
    assert_true(WIFSTOPPED(status));
    struct timespec pause = {1, 300000000};
    nanosleep(&pause, NULL);
    kill(pid, SIGCONT);
    assert_true(test_left_well(test_wait(pid)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_thread_that_was_stuck_continues_wherever_it_was),
        TEST(a_pause_of_the_process_makes_no_thread_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
