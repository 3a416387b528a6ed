/* Unit: programs that longjmp: a signal handler out of a record, a function out of its scopes. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "trace/trace.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static sigjmp_buf out;
static mtp__testpoint jump_at;

static void jump_out(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == jump_at) {
        mtp__testpoint_set(NULL, NULL);
        siglongjmp(out, 1);
    }
}

typedef void one_record(void);

static void by_mark(void)
{
    mtp_mark(MTP_NAME("mark"));
}

static void by_scope(void)
{
    mtp_scope_begin(MTP_NAME("begun"));
}

static void by_end(void)
{
    mtp_scope_end(mtp_scope_begin(MTP_NAME("ended")));
}

static void by_memory(void)
{
    mtp_memory_event(MTP_DEVICE_CPU, &out, 64, 64, 64);
}

/* The thread records again at once, every complete record is kept, and later records nest as before. */
static void leave_a_record_by_a_jump(void *arg)
{
    one_record *one = *(one_record **)arg;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    c.profile_memory = true;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    mtp_token outer = mtp_scope_begin(MTP_NAME("outer"));
    mtp__testpoint_set(jump_out, NULL);
    if (sigsetjmp(out, 1) == 0)
        one();
    for (int i = 0; i < 10; i++)
        MTP_SCOPE ("after") {
        }
    mtp_scope_end(outer);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK);
    CHILD_CHECK(l.emitted == l.kept + l.dropped && l.dropped <= 1 && l.kept >= 23);
    seen s = {0};
    seen_profile(&s, prof);
    CHILD_CHECK(s.problem[0] == 0 && s.records == l.kept);
    seen_free(&s);
    mtp_trace *t;
    CHILD_CHECK(mtp_profile_trace(prof, &t) == MTP_OK);
    uint32_t after = 0, the_outer = MTP__NONE;
    for (uint32_t i = 0; i < t->span_count; i++)
        if (strcmp(mtp__trace_get_text(t, t->name[i]).bytes, "outer") == 0)
            the_outer = i;
    for (uint32_t i = 0; i < t->span_count; i++)
        after += strcmp(mtp__trace_get_text(t, t->name[i]).bytes, "after") == 0 &&
                 t->parent[i] == the_outer && (t->flags[i] & MTP__SPAN_UNFINISHED) == 0;
    CHILD_CHECK(after == 10 && (t->flags[the_outer] & MTP__SPAN_UNFINISHED) == 0);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static void a_record_that_is_left_by_a_jump_is_over(void **state)
{
    (void)state;
    one_record *const way[] = {by_mark, by_scope, by_end, by_memory};
    for (size_t i = 0; i < 2 * COUNT(way); i++) {
        jump_at = i < COUNT(way) ? MTP__POINT_RECORD_COMMITTED : MTP__POINT_RECORD_RESERVED;
        if (!test_left_well(test_child(leave_a_record_by_a_jump, (void *)&way[i % COUNT(way)], 20)))
            fail_msg("way %zu", i);
    }
}

/* -------------------------------------------------------------------------- a handler that always jumps */

static _Thread_local sigjmp_buf back;
static _Thread_local volatile sig_atomic_t jumping;

static void jump_back(int sig)
{
    (void)sig;
    if (jumping)
        siglongjmp(back, 1);
}

static atomic_bool done;
static atomic_uint jumps, whole; /* rounds left by a jump; rounds recorded to their end */

static void *jumps_all_the_time(void *arg)
{
    (void)arg;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    volatile long apart = 100000; /* ns; more if no round ends within that time */
    volatile bool ended = true;   /* a round, since the last jump */
    timer_t timer;
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
    CHILD_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    if (sigsetjmp(back, 1) != 0) {
        jumping = 0;
        atomic_fetch_add(&jumps, 1);
        if (!ended && apart < 100000000)
            apart *= 2;
        ended = false;
    }
    const struct itimerspec every = {{0, apart}, {0, apart}};
    timer_settime(timer, 0, &every, NULL);
    for (volatile unsigned i = 0; !atomic_load(&done); i++) {
        bool recorded = mtp_recording() != 0;
        if (!recorded)
            sched_yield(); /* others record now */
        int64_t dims[] = {i % 3000, 3};
        mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
        mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
        op.inputs = &in;
        op.input_count = 1;
        jumping = 1;
        mtp_op_begin(&op);
        mtp_mark(MTP_NAME("mark"));
        mtp_op_end(&op);
        mtp_scope_end(mtp_scope_begin_text((const char *)dims, 8));
        MTP_SCOPE ("scope") {
        }
        jumping = 0;
        ended = true;
        atomic_fetch_add(&whole, recorded);
    }
    timer_delete(timer);
    return NULL;
}

/* A stop waits a second for a thread that jumped and does not return: the programs run side by side. */
enum {
    JUMP_ROUNDS = 4,
    JUMPS_LEAST = 8, /* in each of them */
    JUMP_PROGRAMS = 10
};

static void stop_beside_jumps(void *arg)
{
    int number = *(int *)arg;
    char file[32];
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    pthread_t t[2];
    struct sigaction action = {.sa_handler = jump_back};
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 64 * 4096;
    c.record_shapes = true;
    snprintf(file, sizeof file, "jumps %d.mtp", number);
    c.spool = number % 2 != 0 ? test_path(file) : NULL;
    sigaction(SIGUSR1, &action, NULL);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    for (int i = 0; i < 2; i++)
        CHILD_CHECK(pthread_create(&t[i], NULL, jumps_all_the_time, NULL) == 0);
    uint64_t emitted = 0;
    unsigned rounds = (unsigned)test_scaled(JUMP_ROUNDS);
    for (unsigned round = 0; round < rounds; round++) {
        const struct timespec pause = {0, 20000000};
        unsigned before = atomic_load(&jumps), whole_before = atomic_load(&whole);
        CHILD_CHECK(mtp_profile_start(prof) == MTP_OK);
        do
            nanosleep(&pause, NULL);
        while (atomic_load(&jumps) - before < JUMPS_LEAST || atomic_load(&whole) - whole_before < 2);
        CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
        mtp_ledger l = MTP_LEDGER_INIT;
        CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == l.kept + l.dropped);
        emitted += l.emitted;
        seen s = {0};
        seen_profile(&s, prof);
        CHILD_CHECK(s.records == l.kept);
        seen_free(&s);
    }
    atomic_store(&done, true);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    CHILD_CHECK(emitted > rounds);
    mtp_profile_destroy(prof);
}

static void stop_returns_beside_threads_that_jump_out_of_records(void **state)
{
    (void)state;
    pid_t program[JUMP_PROGRAMS];
    test_path("folder");
    for (int i = 0; i < JUMP_PROGRAMS; i++)
        program[i] = test_fork_child(stop_beside_jumps, &i, 60);
    int bad = 0;
    for (int i = 0; i < JUMP_PROGRAMS; i++)
        bad += !test_left_well(test_wait(program[i]));
    assert_int_equal(bad, 0);
}

/* --------------------------------------------------------------------- handlers that do not jump,
 * elsewhere */

/* A handler inside a record is recognized wherever its stack is: also above the record's, and also if the
 * system does not report it while in use (SS_AUTODISARM). */
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif
enum {
    STACK = 4 << 20, /* TSan needs much */
    STRUCK = 50
};
static char *stacks;        /* two, the upper one for signals */
static bool told_late;      /* the signal stack is set after the thread's first record */
static atomic_bool strikes; /* the next record */
static ucontext_t fiber, home;

static void record_in_handler(int sig)
{
    (void)sig;
    MTP_SCOPE ("handler") {
    }
}

static void strike(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == MTP__POINT_RECORD_RESERVED && atomic_exchange(&strikes, false))
        raise(SIGUSR1);
}

static void set_signal_stack(void)
{
    stack_t high = {.ss_sp = stacks + STACK, .ss_size = STACK, .ss_flags = (int)SS_AUTODISARM};
    CHILD_CHECK(sigaltstack(&high, NULL) == 0);
}

static void *is_struck(void *arg)
{
    if (!told_late)
        set_signal_stack();
    MTP_SCOPE ("first") {
    }
    if (told_late)
        set_signal_stack();
    for (int i = 0; i < STRUCK; i++) {
        atomic_store(&strikes, true);
        MTP_SCOPE ("struck") {
        }
    }
    return arg;
}

static void fiber_is_struck(void)
{
    is_struck(NULL);
    swapcontext(&fiber, &home);
}

static void strike_records(void *arg)
{
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    struct sigaction action = {.sa_handler = record_in_handler, .sa_flags = SA_ONSTACK};
    stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHILD_CHECK(stacks != MAP_FAILED);
    sigaction(SIGUSR1, &action, NULL);
    mtp__testpoint_set(strike, NULL);
    if (arg != NULL)
        set_signal_stack(); /* the start is a record, too */
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    if (arg == NULL) {
        pthread_t t;
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        CHILD_CHECK(pthread_attr_setstack(&attr, stacks, STACK) == 0);
        CHILD_CHECK(pthread_create(&t, &attr, is_struck, NULL) == 0 && pthread_join(t, NULL) == 0);
    } else {
        getcontext(&fiber);
        fiber.uc_stack = (stack_t){.ss_sp = stacks, .ss_size = STACK};
        makecontext(&fiber, fiber_is_struck, 0);
        CHILD_CHECK(swapcontext(&home, &fiber) == 0);
    }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == l.kept + l.dropped);
    CHILD_CHECK(l.kept == 2 * STRUCK + 2 + 1 && l.dropped_by[MTP_DROP_REENTRANT] == STRUCK);
    mtp_profile_destroy(prof);
}

/* Linux has it since 4.7; valgrind refuses it. */
static bool has_autodisarm(void)
{
    static char room[1 << 16];
    stack_t one = {.ss_sp = room, .ss_size = sizeof room, .ss_flags = (int)SS_AUTODISARM}, before;
    if (sigaltstack(&one, &before) != 0)
        return false;
    sigaltstack(&before, NULL);
    return true;
}

static void a_handler_on_a_stack_that_is_not_told_is_inside_the_record(void **state)
{
    (void)state;
    if (!has_autodisarm())
        skip();
    for (int late = 0; late < 2; late++) {
        told_late = late;
        assert_true(test_left_well(test_child(strike_records, NULL, 20)));
    }
    told_late = false;
    assert_true(test_left_well(test_child(strike_records, (void *)"a fiber", 20)));
}

/* ---------------------------------------------------------------------------------------- out of scopes */

static jmp_buf retry;

static void fails(void)
{
    MTP_SCOPE ("left") {
        MTP_SCOPE ("left inside") {
            longjmp(retry, 1);
        }
    }
}

/* They were never ended, so each lasts until the stop: the total is that time once, not a thousand times. */
static void scopes_that_are_left_by_longjmp_are_not_added_up(void **state)
{
    (void)state;
    enum {
        TIMES = 1000
    };
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    for (volatile int i = 0; i < TIMES; i++)
        if (setjmp(retry) == 0)
            fails();
    MTP_SCOPE ("whole") {
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    mtp_averages *a;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_int_equal(t->unfinished, 2 * TIMES);
    double all = (double)(t->last_ns - t->first_ns) / 1000;
    for (int again = 0; again < 2; again++) { /* and the same from a file of ours */
        assert_ok(mtp_averages_create(t, NULL, &a));
        for (size_t i = 0; i < mtp_averages_count(a); i++) {
            const mtp_row *row = mtp_averages_row(a, i);
            if (strncmp(row->key, "left", 4) != 0)
                continue;
            assert_int_equal(row->count, TIMES);
            assert_true(row->cpu_time_total <= all * 1.001 + 1);
            assert_true(row->cpu_time_total >= row->self_cpu_time_total);
        }
        mtp_averages_destroy(a);
        if (again)
            break;
        const char *path = test_path("left.json");
        assert_ok(mtp_trace_export(t, path, NULL));
        mtp_trace_destroy(t);
        assert_ok(mtp_trace_open(path, NULL, &t));
    }
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_record_that_is_left_by_a_jump_is_over),
        TEST(stop_returns_beside_threads_that_jump_out_of_records),
        TEST(a_handler_on_a_stack_that_is_not_told_is_inside_the_record),
        TEST(scopes_that_are_left_by_longjmp_are_not_added_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
