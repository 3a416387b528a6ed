/* Unit: handlers that jump out of a record at any instruction, or while it waits: what the record remembered, or set for
 * its duration, does no harm to those that follow. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include "base/hash.h"
#include "tests/unit/read_back.h"

static sigjmp_buf out;

/* ------------------------------------------------------------------------------------------ single steps */

#if defined(__x86_64__) && !TEST_TSAN && !TEST_ASAN
#define CAN_STEP 1
#define TRAP_FLAG 0x100
#else
#define CAN_STEP 0
#endif

static volatile long steps_left;

#if CAN_STEP
/* One step further each time. Where signals are blocked, no other handler could run. */
static void on_step(int sig, siginfo_t *info, void *user)
{
    (void)sig, (void)info;
    ucontext_t *context = user;
    if (sigismember(&context->uc_sigmask, SIGUSR1) == 0 && --steps_left <= 0)
        siglongjmp(out, 1);
}

static inline __attribute__((always_inline)) void step_from_here(void)
{
    __asm__ volatile("pushfq; orq %0, (%%rsp); popfq" ::"i"(TRAP_FLAG) : "memory", "cc");
}

static inline __attribute__((always_inline)) void step_no_more(void)
{
    __asm__ volatile("pushfq; andq %0, (%%rsp); popfq" ::"i"(~TRAP_FLAG) : "memory", "cc");
}
#else
static void on_step(int sig, siginfo_t *info, void *user)
{
    (void)sig, (void)info, (void)user;
}
static void step_from_here(void)
{
}
static void step_no_more(void)
{
}
#endif

/* Two frames whose stacks share a slot of the thread's cache, below the same parent; two dims whose shapes do. */
enum {
    PARENT = 1, /* id of the first stack */
    FRAME_SLOTS = 1024,
    SHAPE_SLOTS = 256
};
static uint64_t frame_of[2];
static int64_t dim_of[2];

static uint64_t shape_slot(int64_t dim)
{
    uint64_t word[] = {MTP_INPUT_TENSOR | (uint64_t)MTP_FLOAT32 << 8 | (uint64_t)1 << 32, (uint64_t)dim};
    return mtp__hash_words(word, 2) % SHAPE_SLOTS;
}

static void find_neighbours(void)
{
    frame_of[0] = 100, dim_of[0] = 100;
    for (frame_of[1] = 101; mtp__hash_mix(frame_of[0], PARENT) % FRAME_SLOTS !=
                            mtp__hash_mix(frame_of[1], PARENT) % FRAME_SLOTS;)
        frame_of[1]++;
    for (dim_of[1] = 101; shape_slot(dim_of[0]) != shape_slot(dim_of[1]);)
        dim_of[1]++;
}

static int which; /* of the two, is the stack now */

static uint32_t one_of_two(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    frames[0] = frame_of[which];
    frames[1] = 7;
    return room < 2 ? room : 2;
}

static void describe(void *user, uint64_t frame, char *text, size_t room)
{
    (void)user;
    snprintf(text, room, "file.py:%llu:f", (unsigned long long)frame);
}

static mtp_pack pack;

/* The first has a word more than the second, and the same before it. */
static void fill_packed(mtp_op *op)
{
    mtp_pack_begin(&pack);
    mtp_pack_int(&pack, 1);
    if (which == 0)
        mtp_pack_int(&pack, 2);
    op->inputs = MTP_PACKED(&pack);
    op->flags = MTP_OP_PACKED;
}

static mtp_input tensor;

static void fill_tensor(mtp_op *op)
{
    tensor = (mtp_input){.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 1, .dims = &dim_of[which]};
    op->inputs = &tensor;
    op->input_count = 1;
}

typedef void fill_inputs(mtp_op *op);

static void record(fill_inputs *fill, int one)
{
    mtp_op op = MTP_OP_INIT(MTP_NAME("whole"));
    which = one;
    fill(&op);
    mtp_op_begin(&op);
    mtp_op_end(&op);
}

/* false: it came to its end before the jump. */
static bool leave_a_record(fill_inputs *fill, int one, long after)
{
    mtp_op op = MTP_OP_INIT(MTP_NAME("left"));
    which = one;
    fill(&op);
    steps_left = after;
    if (sigsetjmp(out, 1) != 0)
        return true;
    step_from_here();
    mtp_op_begin(&op);
    step_no_more();
    return false;
}

/* Records the first, leaves the second, records both: each has the details that it had before. */
static void leave_at_every_instruction(fill_inputs *fill)
{
    mtp_stack_provider p = {sizeof p, one_of_two, describe, NULL};
    mtp_profile_config c = test_config(NULL);
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, before;
    static uint64_t words[16];
    mtp_pack_init(&pack, words, COUNT(words));
    find_neighbours();
    c.with_stack = c.record_shapes = true;
    c.buffer_bytes = 64u << 20;
    assert_ok(mtp_stack_provider_set(&p));
    assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
    prof = test_start(&c);
    record(fill, 0);
    record(fill, 1);
    long after = 1;
    for (record(fill, 0); leave_a_record(fill, 1, after); after++) {
        record(fill, after % 2 == 0); /* either may be wrong now */
        record(fill, 1);
        record(fill, 0);
    }
    assert_in_range(after, 100, 20000);
    sigaction(SIGTRAP, &before, NULL);
    read_back();
    uint64_t one = seen_nth(&s, MTP__KIND_BEGIN, 0)->word[1],
             other = seen_nth(&s, MTP__KIND_BEGIN, 1)->word[1];
    assert_true((uint32_t)one != (uint32_t)other && one >> 32 != other >> 32);
    size_t mixed = 0; /* the shape of the one, the stack of the other */
    for (size_t i = 0; i < s.records; i++)
        mixed +=
            s.record[i].kind == MTP__KIND_BEGIN && s.record[i].word[1] != one && s.record[i].word[1] != other;
    close_it();
    assert_ok(mtp_stack_provider_set(NULL));
    assert_int_equal(mixed, 0);
}

static void packed_inputs_survive_a_jump_at_any_instruction(void **state)
{
    (void)state;
    if (!CAN_STEP)
        skip();
    leave_at_every_instruction(fill_packed);
}

static void shapes_and_stacks_survive_a_jump_at_any_instruction(void **state)
{
    (void)state;
    if (!CAN_STEP)
        skip();
    leave_at_every_instruction(fill_tensor);
}

/* ------------------------------------------------------------------------------------------------ waits */

static sem_t inside, may_leave;
static _Thread_local bool blocks;

static uint32_t capture_blocked(void *user, uint64_t *frames, uint32_t room)
{
    (void)user, (void)room;
    if (blocks) {
        blocks = false;
        sem_post(&inside);
        while (sem_wait(&may_leave) != 0) {
        }
    }
    frames[0] = 7;
    return 1;
}

static void *stays_inside_a_record(void *arg)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    MTP_SCOPE ("first") {
    }
    blocks = true;
    MTP_SCOPE ("long") {
    }
    return arg;
}

static volatile sig_atomic_t jumping;

static void jump_if_parked(int sig)
{
    (void)sig;
    if (jumping && mtp__self.thread != NULL && atomic_load(&mtp__self.thread->parked)) {
        jumping = 0;
        siglongjmp(out, 1);
    }
}

static void handle_ticks(void (*handler)(int), struct sigaction *before)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    const struct itimerval often = {{0, 200}, {0, 200}};
    assert_int_equal(sigaction(SIGALRM, &action, before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static void no_more_ticks(const struct sigaction *before)
{
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, before, NULL);
}

static void name_until_jumped(void)
{
    char name[64];
    for (volatile int i = 0; i < 2000000; i++) {
        int length = snprintf(name, sizeof name, "a name that fills the session's tables soon %d", i);
        jumping = 1;
        mtp_scope_end(mtp_scope_begin_text(name, (size_t)length));
        jumping = 0;
    }
}

/* The tables are freed once no thread reads them: a thread that is taken to be waiting, but records, would. */
static void a_jump_out_of_a_wait_for_other_threads_ends_it(void **state)
{
    (void)state;
    mtp_stack_provider p = {sizeof p, capture_blocked, describe, NULL};
    mtp_profile_config c = test_config(NULL);
    struct sigaction before;
    pthread_t other;
    c.with_stack = true;
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 1u << 20;
    assert_int_equal(sem_init(&inside, 0, 0) + sem_init(&may_leave, 0, 0), 0);
    assert_ok(mtp_stack_provider_set(&p));
    prof = test_start(&c);
    assert_int_equal(pthread_create(&other, NULL, stays_inside_a_record, NULL), 0);
    while (sem_wait(&inside) != 0) {
    }
    handle_ticks(jump_if_parked, &before);
    volatile bool jumped = true;
    if (sigsetjmp(out, 1) == 0) {
        name_until_jumped();
        jumped = false;
    }
    no_more_ticks(&before);
    assert_true(jumped);
    mtp_mark(MTP_NAME("after"));
    assert_false(atomic_load(&mtp__self.thread->parked));
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
    assert_int_equal(cancel, PTHREAD_CANCEL_ENABLE);
    sem_post(&may_leave);
    pthread_join(other, NULL);
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    mtp_profile_destroy(prof);
    assert_ok(mtp_stack_provider_set(NULL));
}

/* ----------------------------------------------------------------------------------------- cancellation */

static void jump_if_uncancellable(int sig)
{
    (void)sig;
    int now;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &now);
    pthread_setcancelstate(now, NULL);
    if (jumping && now == PTHREAD_CANCEL_DISABLE) {
        jumping = 0;
        siglongjmp(out, 1);
    }
}

static void walk_until_jumped(void)
{
    for (double from = test_now(); test_now() < from + 5;) {
        jumping = 1;
        MTP_SCOPE ("walk") {
        }
        jumping = 0;
    }
}

/* While libunwind walks the stack, the thread cannot be cancelled. */
static void a_thread_that_jumped_out_of_a_walk_can_be_cancelled_after_its_next_record(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    struct sigaction before;
    if (strcmp(mtp_stack_provider_name(), "libunwind") != 0)
        skip();
    c.with_stack = true;
    c.when_full = MTP_KEEP_NEWEST;
    prof = test_start(&c);
    handle_ticks(jump_if_uncancellable, &before);
    volatile bool jumped = true;
    if (sigsetjmp(out, 1) == 0) {
        walk_until_jumped();
        jumped = false;
    }
    no_more_ticks(&before);
    assert_true(jumped);
    mtp_mark(MTP_NAME("after"));
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
    assert_int_equal(cancel, PTHREAD_CANCEL_ENABLE);
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(packed_inputs_survive_a_jump_at_any_instruction),
        TEST(shapes_and_stacks_survive_a_jump_at_any_instruction),
        TEST(a_thread_that_jumped_out_of_a_walk_can_be_cancelled_after_its_next_record),
        TEST(a_jump_out_of_a_wait_for_other_threads_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
