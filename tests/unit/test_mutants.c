/* Unit: faults that tools/mutate put into the code and no other test detected. Each test names what would go
 * wrong; its fault is in tools/mutate.faults. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include "base/clock.h"
#include "tests/made_trace.h"

#define PATIENCE_US 200000 /* how long to wait for something that must not happen */

/* ------------------------------------------------------------------------------------------------ stop() */

#if defined(__x86_64__)
static volatile sig_atomic_t barriers;

/* Replaces the system call, and reports success. */
static void on_barrier(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)info;
    barriers++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 0;
}

/* membarrier(PRIVATE_EXPEDITED) raises SIGSYS from now on. */
static bool watch_barriers(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {COUNT(code), code};
    struct sigaction action = {.sa_sigaction = on_barrier, .sa_flags = SA_SIGINFO | SA_NODEFER};
    return sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

static void stop_and_count_barriers(void *arg)
{
    (void)arg;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    MTP_SCOPE ("a scope") {
    }
    if (!watch_barriers())
        _exit(77);
    CHILD_CHECK(barriers == 0);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    CHILD_CHECK(barriers > 0);
    mtp_profile_destroy(prof);
}
#endif

/* A writer that is about to begin is visible only after a barrier on all cores (ARCHITECTURE, "Threads").
 * Without it, a record is lost once in many millions of stops: too rare for a test. */
static void stop_passes_a_barrier_on_every_core(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) < 0)
        skip();
    int status = test_child(stop_and_count_barriers, NULL, 20);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* no seccomp here */
    assert_true(test_left_well(status));
#else
    skip();
#endif
}

/* A thread that waits inside a definition, holding the table's lock. */
static struct {
    pthread_t thread;
    atomic_int inside, go_on, stopped, rested;
} naming;

static void wait_in_definition(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == MTP__POINT_STOP_REST)
        atomic_store(&naming.rested, 1);
    if (point != MTP__POINT_DEFINITION || !pthread_equal(pthread_self(), naming.thread) ||
        atomic_load(&naming.inside))
        return;
    atomic_store(&naming.inside, 1);
    while (atomic_load(&naming.go_on) == 0)
        usleep(1000);
}

static void *name_something(void *text)
{
    naming.thread = pthread_self();
    mtp_name(text); /* it has not recorded, so stop() does not wait for it as a writer */
    return NULL;
}

static void *stop_it(void *prof)
{
    if (mtp_profile_stop(prof) == MTP_OK)
        atomic_store(&naming.stopped, 1);
    return NULL;
}

/* While a thread defines a new name in a recording, the recording stays. */
static void stop_waits_for_a_thread_that_defines_a_name(void **state)
{
    (void)state;
    memset(&naming, 0, sizeof naming);
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_create(&c);
    assert_ok(mtp_profile_start(prof));
    mtp__testpoint_set(wait_in_definition, NULL);
    pthread_t namer, stopper;
    assert_int_equal(pthread_create(&namer, NULL, name_something, "a name that nobody has used before"), 0);
    while (!atomic_load(&naming.inside))
        usleep(1000);
    assert_int_equal(pthread_create(&stopper, NULL, stop_it, prof), 0);
    while (!atomic_load(&naming.rested))
        usleep(1000);
    usleep(PATIENCE_US);
    int early = atomic_load(&naming.stopped);
    atomic_store(&naming.go_on, 1);
    pthread_join(namer, NULL);
    pthread_join(stopper, NULL);
    mtp__testpoint_set(NULL, NULL);
    assert_int_equal(early, 0);
    assert_int_equal(atomic_load(&naming.stopped), 1);
    mtp_profile_destroy(prof);
}

/* ---------------------------------------------------------------------------------------------- handlers */

static uint32_t named_by_handler;

static void name_in_handler(int sig)
{
    (void)sig;
    named_by_handler = mtp_name("a name that only the handler has");
}

static void strike_in_definition(mtp__testpoint point, void *user)
{
    int *left = user;
    if (point == MTP__POINT_DEFINITION && *left > 0 && (*left)-- > 0)
        raise(SIGTRAP); /* others wait until the name is defined (base/guard.h) */
}

static void name_while_naming(void *arg)
{
    (void)arg;
    int left = 1;
    signal(SIGTRAP, name_in_handler);
    mtp__testpoint_set(strike_in_definition, &left);
    CHILD_CHECK(mtp_name("a name that is interrupted") != 0);
    mtp__testpoint_set(NULL, NULL);
    CHILD_CHECK(left == 0 && named_by_handler == 0);
    CHILD_CHECK(mtp_name("a name that only the handler has") != 0); /* later it can have one */
}

static void a_handler_that_names_inside_naming_gets_none(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(name_while_naming, NULL, 10)));
}

/* A stack provider runs inside a record: none of its calls may dismantle the profile. */
static struct {
    mtp_profile *prof, *other;
    mtp_status stop, step, start;
    int calls;
} provided;

static uint32_t drive_from_inside(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    if (provided.calls++ == 0) {
        provided.start = mtp_profile_start(provided.other);
        provided.step = mtp_profile_step(provided.prof);
        provided.stop = mtp_profile_stop(provided.prof);
    }
    frames[0] = 1;
    return room > 0;
}

static void describe_frame(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user;
    snprintf(out, room, "file.c:1:f%llu", (unsigned long long)frame);
}

static void a_profile_is_not_driven_from_inside_a_record(void **state)
{
    (void)state;
    memset(&provided, 0, sizeof provided);
    mtp_stack_provider provider = {sizeof provider, drive_from_inside, describe_frame, NULL};
    assert_ok(mtp_stack_provider_set(&provider));
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    provided.other = test_create(&c);
    provided.prof = test_start(&c);
    MTP_SCOPE ("with a stack") {
    }
    assert_true(provided.calls > 0);
    assert_int_equal(provided.start, MTP_E_STATE); /* not MTP_E_BUSY, which a later lock would give */
    assert_int_equal(provided.step, MTP_E_STATE);
    assert_int_equal(provided.stop, MTP_E_STATE);
    assert_true(mtp_profile_is_recording(provided.prof));
    assert_ok(mtp_profile_stop(provided.prof));
    assert_balanced(provided.prof);
    mtp_profile_destroy(provided.prof);
    mtp_profile_destroy(provided.other);
    assert_ok(mtp_stack_provider_set(NULL));
}

/* -------------------------------------------------------------------------------------- threads and forks */

static void a_thread_of_two_cycles_counts_once(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.acc_events = true;
    mtp_profile *prof = test_create(&c);
    for (int cycle = 0; cycle < 3; cycle++) {
        assert_ok(mtp_profile_start(prof));
        MTP_SCOPE ("a scope") {
        }
        assert_ok(mtp_profile_stop(prof));
    }
    assert_int_equal(ledger_of(prof).threads, 1);
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

static void name_in_child(void *arg)
{
    (void)arg;
    mtp__testpoint_set(NULL, NULL);
    CHILD_CHECK(mtp_name("a name of the child") != 0);
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    MTP_SCOPE ("of the child") {
    }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_profile_destroy(prof);
}

static void *let_go_soon(void *arg)
{
    (void)arg;
    usleep(PATIENCE_US);
    atomic_store(&naming.go_on, 1);
    return NULL;
}

/* A lock that a thread of the parent holds during the fork would never be released in the child. */
static void a_child_does_not_inherit_a_held_lock(void **state)
{
    (void)state;
    if (TEST_TSAN) /* in the child, TSan misses the parent's threads */
        skip();
    memset(&naming, 0, sizeof naming);
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    mtp__testpoint_set(wait_in_definition, NULL);
    pthread_t namer, timer;
    assert_int_equal(pthread_create(&namer, NULL, name_something, "a name that is told during a fork"), 0);
    while (!atomic_load(&naming.inside))
        usleep(1000);
    assert_int_equal(pthread_create(&timer, NULL, let_go_soon, NULL), 0);
    int status = test_child(name_in_child, NULL, 20); /* forks while the name is being defined */
    pthread_join(namer, NULL);
    pthread_join(timer, NULL);
    mtp__testpoint_set(NULL, NULL);
    assert_true(test_left_well(status));
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
}

static void *record_and_rename(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "first");
    MTP_SCOPE ("a scope") {
    }
    pthread_setname_np(pthread_self(), "second");
    return NULL;
}

static void a_thread_has_the_name_that_it_had_last(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, record_and_rename, NULL), 0);
    pthread_join(thread, NULL);
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    bool found = false;
    assert_ok(mtp_profile_trace(prof, &t));
    for (uint32_t k = 0; k < t->track_count; k++) {
        const char *name = mtp__trace_get_text(t, t->tracks[k].name).bytes;
        assert_string_not_equal(name, "first");
        found |= strcmp(name, "second") == 0;
    }
    assert_true(found);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

/* ------------------------------------------------------------------------------------- what is recorded */

static void toggling_does_not_add_what_was_not_asked_for(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.activities = MTP_CPU;
    mtp_profile *prof = test_start(&c);
    assert_ok(mtp_profile_toggle(prof, true, MTP_CPU | MTP_NPU));
    mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
    work.start = 1, work.end = 2;
    mtp_device_event(&work);
    assert_ok(mtp_profile_stop(prof));
    seen s = {0};
    seen_profile(&s, prof);
    assert_int_equal(seen_count(&s, MTP__KIND_DEVICE, -1), 0);
    seen_free(&s);
    mtp_profile_destroy(prof);
}

#define PARENTS 3000
static uint64_t parent_now;

static uint32_t one_frame_of_many(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    if (room < 2)
        return 0;
    frames[0] = 1; /* the same, called from... */
    frames[1] = 2 + parent_now;
    return 2;
}

static void one_frame_of_many_callers_has_many_stacks(void **state)
{
    (void)state;
    mtp_stack_provider provider = {sizeof provider, one_frame_of_many, describe_frame, NULL};
    assert_ok(mtp_stack_provider_set(&provider));
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    c.buffer_bytes = 16u << 20;
    mtp_profile *prof = test_start(&c);
    for (int round = 0; round < 2; round++)
        for (parent_now = 0; parent_now < PARENTS; parent_now++)
            MTP_SCOPE ("with a stack") {
            }
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_stack_provider_set(NULL));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_int_equal(t->span_count, 2 * PARENTS);
    for (uint32_t i = 0; i < t->span_count; i++) {
        char right[64];
        const mtp__stack_node *node = &t->stacks[mtp__trace_detail(t, i)->stack];
        describe_frame(NULL, 2 + i % PARENTS, right, sizeof right);
        assert_string_equal(mtp__trace_get_text(t, node->frame).bytes, "file.c:1:f1");
        assert_string_equal(mtp__trace_get_text(t, t->stacks[node->parent].frame).bytes, right);
    }
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

/* ---------------------------------------------------------------------------------------------- the clock */

static uint64_t clock_at, clock_step;

static uint64_t stepping_clock(void)
{
    return clock_at += clock_step;
}

static void what_comes_at_an_ends_own_tick_comes_after_it(void **state)
{
    (void)state;
    clock_at = (uint64_t)1 << 40;
    clock_step = 0;
    mtp__clock_hook_set(stepping_clock);
    mtp_profile_config c = test_config(NULL);
    c.profile_memory = true;
    mtp_profile *prof = test_start(&c);
    mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
    clock_at += 1000;
    mtp_op_begin(&op);
    clock_at += 1000;
    mtp_op_end(&op);
    mtp_memory_event(MTP_DEVICE_CPU, &op, 64, 64, 64); /* in the same tick */
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_int_equal(t->span_count, 1);
    assert_int_equal(t->memory_count, 1);
    assert_true(t->memory[0].ts > t->end[0]);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static void a_clock_that_goes_back_is_held_and_counted(void **state)
{
    (void)state;
    clock_at = (uint64_t)1 << 40;
    clock_step = 10;
    mtp__clock_hook_set(stepping_clock);
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    mtp_token outer = mtp_scope_begin(MTP_NAME("outer")), inner = mtp_scope_begin(MTP_NAME("inner"));
    clock_at -= 5000000;
    mtp_scope_end(inner);
    mtp_scope_end(outer);
    clock_at += 10000000;
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_int_equal(t->span_count, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(t->end[i] >= t->start[i]);
    assert_true(t->start[1] >= t->start[0] && t->end[1] <= t->end[0]);
    assert_true(t->clock_faults >= 2); /* both ends, and the anchor that they contradict */
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

/* A live trace reads the clock after the definitions, and before the records. */
static bool record_at_next_tick;

static uint64_t recording_clock(void)
{
    clock_at += 10;
    if (record_at_next_tick) {
        record_at_next_tick = false;
        mtp_scope_end(mtp_scope_begin(mtp_name("a name of the last moment")));
        mtp_scope_end(mtp_scope_begin_text("a text of the last moment", 25));
    }
    return clock_at;
}

static void names_that_come_while_a_live_trace_is_made_are_known(void **state)
{
    (void)state;
    clock_at = (uint64_t)1 << 40;
    mtp__clock_hook_set(recording_clock);
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    MTP_SCOPE ("before") {
    }
    record_at_next_tick = true;
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_false(record_at_next_tick);
    int found = 0;
    for (uint32_t i = 0; i < t->span_count; i++) {
        const char *name = mtp__trace_get_text(t, t->name[i]).bytes;
        assert_string_not_equal(name, "?");
        found += strstr(name, "of the last moment") != NULL;
    }
    assert_int_equal(found, 2);
    mtp_trace_destroy(t);
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    mtp_profile_destroy(prof);
}

/* ------------------------------------------------------------------------------------- chunks that are
 * lost */

static int chunks_taken;

static void count_chunks(mtp__testpoint point, void *user)
{
    (void)user;
    chunks_taken += point == MTP__POINT_CHUNK_TAKEN;
}

static void fill_the_chunk(void)
{
    for (int taken = chunks_taken; chunks_taken == taken;)
        mtp_mark(MTP_NAME("filler"));
}

/* Damages the chunk that has a begin of this name. */
static void damage_chunk_with(char *bytes, size_t length, uint32_t name)
{
    uint64_t begin = MTP__WORD0(0, 2, MTP__KIND_BEGIN), *words = (uint64_t *)(void *)bytes;
    for (size_t i = 1; i < length / 8; i++)
        if ((words[i - 1] & 0xff) == begin &&
            words[i] == MTP__BEGIN_WORD1(name, MTP_SCOPE_USER, 0, MTP_DEVICE_CPU)) {
            words[i] ^= 1;
            return;
        }
    fail_msg("there is no begin of name %u", name);
}

/* The chunk that is lost ends two scopes and begins two others, so the depth is the same on both sides of
 * the gap. */
static void scopes_do_not_end_across_a_lost_chunk(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("gap.mtp"));
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    mtp_profile *prof = test_start(&c);
    mtp__testpoint_set(count_chunks, NULL);
    mtp_token a = mtp_scope_begin(MTP_NAME("a")), b = mtp_scope_begin(MTP_NAME("b"));
    fill_the_chunk();
    mtp_scope_end(b);
    mtp_scope_end(a);
    mtp_token x = mtp_scope_begin(MTP_NAME("x")), y = mtp_scope_begin(MTP_NAME("y"));
    fill_the_chunk();
    mtp_scope_end(y);
    mtp_scope_end(x);
    mtp__testpoint_set(NULL, NULL);
    uint32_t name = mtp_name("x");
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    size_t length;
    char *bytes = test_slurp(path, &length);
    damage_chunk_with(bytes, length, name);
    test_spew(path, bytes, length);
    free(bytes);
    mtp_trace *t;
    assert_ok(mtp_trace_open(path, NULL, &t));
    assert_int_equal(t->damaged_chunks, 1);
    assert_int_equal(t->span_count, 2);
    assert_int_equal(t->unfinished, 2);
    assert_int_equal(t->unmatched_ends, 2);
    mtp_trace_destroy(t);
}

/* -------------------------------------------------------------------------------------- links and
 * averages */

static uint32_t add_call(mtp_trace *t, uint32_t track, int64_t start, uint64_t correlation)
{
    mtp__detail d = MTP__DETAIL_INIT;
    d.correlation = correlation;
    return mtp__trace_add_span(t, track, start, start + 2, made_text(t, "cudaLaunchKernel"),
                               MTP__CATEGORY_CUDA_RUNTIME, 0, mtp__trace_add_detail(t, &d));
}

static uint32_t add_kernel(mtp_trace *t, uint32_t track, int64_t start, int64_t end, uint64_t correlation)
{
    mtp__detail d = MTP__DETAIL_INIT;
    d.correlation = correlation;
    return mtp__trace_add_span(t, track, start, end, made_text(t, "kernel"), MTP__CATEGORY_KERNEL, 0,
                               mtp__trace_add_detail(t, &d));
}

static const char *launcher_name(const mtp_trace *t, uint32_t track)
{
    uint32_t work = t->tracks[track].first;
    assert_true(t->launcher != NULL && t->launcher[work] != MTP__NONE);
    return mtp__trace_get_text(t, t->name[t->launcher[work]]).bytes;
}

static void work_belongs_to_the_innermost_op_around_its_launch(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 1), stream = made_stream(t, 0, 7);
    made_op(t, thread, 0, 100, "aten::linear");
    made_op(t, thread, 10, 90, "aten::addmm");
    add_call(t, thread, 20, 5);
    add_kernel(t, stream, 30, 80, 5);
    made_end(t);
    assert_string_equal(launcher_name(t, stream), "aten::addmm");
    mtp_averages *rows;
    assert_ok(mtp_averages_create(t, NULL, &rows));
    assert_true(mtp_averages_total(rows)->self_device_time_total ==
                0.05 * 2); /* us: the kernel's row, and addmm's */
    mtp_averages_destroy(rows);
    mtp_trace_destroy(t);
}

static void ranks_in_one_file_keep_their_own_kernels(void **state)
{
    (void)state;
    static const char *const op[] = {"rank 0", "rank 1"};
    mtp_trace *t = made_begin();
    t->format = MTP_FORMAT_KINETO; /* recordings of several processes have numbers of their own */
    uint32_t stream[2];
    for (int64_t k = 0; k < 2; k++) {
        mtp__track thread = {.pid = 100 + k, .tid = 1, .sort_index = INT64_MIN};
        uint32_t track = mtp__trace_add_track(t, &thread);
        stream[k] = made_stream(t, k, 7);
        made_op(t, track, 1000 * k, 1000 * k + 100, op[k]);
        add_call(t, track, 1000 * k + 20, 5); /* the same number in both */
        add_kernel(t, stream[k], 1000 * k + 30, 1000 * k + 80, 5);
    }
    made_end(t);
    assert_string_equal(launcher_name(t, stream[0]), op[0]);
    assert_string_equal(launcher_name(t, stream[1]), op[1]);
    mtp_trace_destroy(t);
}

/* 51 longer ones: the median of 101 is one of them, and all shorter ones come before it. */
static void the_median_is_right_where_two_times_meet(void **state)
{
    (void)state;
    const int64_t shorter = 1000000, longer = 1010000; /* in one bucket */
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 1);
    for (int64_t i = 0; i < 101; i++)
        made_op(t, thread, i * 2000000, i * 2000000 + (i < 50 ? shorter : longer), "op");
    made_end(t);
    mtp_averages *rows;
    assert_ok(mtp_averages_create(t, NULL, &rows));
    assert_int_equal(mtp_averages_count(rows), 1);
    assert_true(mtp_averages_row(rows, 0)->p50 == (double)longer / 1000);
    mtp_averages_destroy(rows);
    mtp_trace_destroy(t);
}

/* Arrays with the same beginning, at the same place in events of the same name. */
static void shapes_that_begin_alike_are_told_apart(void **state)
{
    (void)state;
    static const char json[] = "{\"traceEvents\": ["
                               "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::convolution\", "
                               "\"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 2, "
                               "\"args\": {\"Input Dims\": [[128, 3, 224, 224], [64, 3, 7, 7]]}},"
                               "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::convolution\", "
                               "\"pid\": 1, \"tid\": 1, \"ts\": 5, \"dur\": 2, "
                               "\"args\": {\"Input Dims\": [[128, 3, 224, 224], [64, 3, 5, 5]]}}]}";
    const char *path = test_path("alike.json");
    test_spew(path, json, sizeof json - 1);
    mtp_trace *t;
    assert_ok(mtp_trace_open(path, NULL, &t));
    assert_int_equal(t->span_count, 2);
    static const char *const dims[] = {"[[128, 3, 224, 224], [64, 3, 7, 7]]",
                                       "[[128, 3, 224, 224], [64, 3, 5, 5]]"};
    for (uint32_t i = 0; i < 2; i++)
        assert_string_equal(mtp__trace_get_text(t, t->shapes[mtp__trace_detail(t, i)->shape].dims).bytes,
                            dims[i]);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stop_passes_a_barrier_on_every_core),
        TEST(stop_waits_for_a_thread_that_defines_a_name),
        TEST(a_handler_that_names_inside_naming_gets_none),
        TEST(a_profile_is_not_driven_from_inside_a_record),
        TEST(a_thread_of_two_cycles_counts_once),
        TEST(a_child_does_not_inherit_a_held_lock),
        TEST(a_thread_has_the_name_that_it_had_last),
        TEST(toggling_does_not_add_what_was_not_asked_for),
        TEST(one_frame_of_many_callers_has_many_stacks),
        TEST(what_comes_at_an_ends_own_tick_comes_after_it),
        TEST(a_clock_that_goes_back_is_held_and_counted),
        TEST(names_that_come_while_a_live_trace_is_made_are_known),
        TEST(scopes_do_not_end_across_a_lost_chunk),
        TEST(work_belongs_to_the_innermost_op_around_its_launch),
        TEST(ranks_in_one_file_keep_their_own_kernels),
        TEST(the_median_is_right_where_two_times_meet),
        TEST(shapes_that_begin_alike_are_told_apart),
    };
    return cmocka_run_group_tests_name("mutants", tests, NULL, NULL);
}
