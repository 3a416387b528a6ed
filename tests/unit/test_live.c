/* Unit: traces of a recording in progress, read in its process and from outside: they are consistent. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/test.h"
#include "trace/trace.h"

/* An op that needs definitions of every kind, all new each time; a mark and a scope with unique names. */
static void record_new_things(unsigned number)
{
    char text[64];
    int64_t dims[1] = {number};
    mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 1, .dims = dims};
    mtp_op op = MTP_OP_INIT(MTP_NAME("op of a live trace"));
    snprintf(text, sizeof text, "args %u", number);
    op.inputs = op.outputs = &in;
    op.input_count = op.output_count = 1;
    op.args = text;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    snprintf(text, sizeof text, "scope %u", number);
    MTP_SCOPE_TEXT(text)
    {
    }
    if (number % 128 == 0 && number < 20000) { /* a few names of the process */
        snprintf(text, sizeof text, "mark %u", number);
        mtp_mark(mtp_name(text));
    }
}

/* Returns the number of ops. */
static int check_whole(const mtp_trace *t, bool stacks)
{
    int ops = 0;
    for (uint32_t i = 0; i < t->span_count; i++) {
        const char *name = mtp__trace_get_text(t, t->name[i]).bytes;
        if (name[0] == 0 || strcmp(name, "?") == 0)
            fail_msg("span %u of %u has no name", i, t->span_count);
        if (strcmp(name, "op of a live trace") != 0)
            continue;
        const mtp__detail *d = &t->details[t->detail[i]];
        if (d->shape == 0 || d->args == 0 || (stacks && d->stack == 0))
            fail_msg("op %u of %u: shape %u, args %u, stack %u", i, t->span_count, d->shape, d->args,
                     d->stack);
        ops++;
    }
    for (uint32_t i = 0; i < t->instant_count; i++)
        if (t->instants[i].name == 0)
            fail_msg("mark %u of %u has no name", i, t->instant_count);
    return ops;
}

static void *record_for_ever(void *arg)
{
    atomic_bool *stop = arg;
    for (unsigned i = 0; i < 40000 && !atomic_load(stop); i++) { /* reading takes longer the more there is */
        record_new_things(i);
        if (i % 8 == 0)
            usleep(20);
    }
    return NULL;
}

static void a_live_trace_is_of_the_moment_when_it_is_asked_for(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        mtp_profile_config c = test_config(NULL);
        c.buffer_bytes = k == 0 ? 256 << 20 : 4 << 20;
        c.chunk_bytes = 64 << 10;
        c.when_full = k == 0 ? MTP_STOP_WHEN_FULL : k < 3 ? MTP_KEEP_NEWEST : MTP_STREAM;
        c.spool = k >= 2 ? test_path("live.mtp") : NULL;
        c.record_shapes = c.with_stack = true;
        mtp_profile *prof = test_start(&c);
        atomic_bool stop = false;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, record_for_ever, &stop), 0);
        int ops = 0;
        for (int i = 0; i < test_scaled(20) || ops == 0; i++) {
            mtp_trace *t;
            usleep(2000);
            assert_ok(mtp_profile_trace(prof, &t));
            ops += check_whole(t, true);
            assert_int_equal(t->damaged_chunks, 0);
            assert_int_equal(t->ledger.lost_definitions, 0);
            mtp_trace_destroy(t);
        }
        atomic_store(&stop, true);
        pthread_join(thread, NULL);
        assert_ok(mtp_profile_stop(prof));
        mtp_profile_destroy(prof);
    }
}

/* The control chunk of the previous cycle is continued: new definitions in it must be seen. */
static void a_later_cycles_live_trace_has_its_names(void **state)
{
    (void)state;
    for (int acc = 0; acc < 2; acc++)
        for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_KEEP_NEWEST; policy++) {
            mtp_profile_config c = test_config(NULL);
            c.acc_events = acc == 1;
            c.when_full = (mtp_when_full)policy;
            c.record_shapes = true;
            mtp_profile *prof = test_create(&c);
            for (unsigned cycle = 0; cycle < 5; cycle++) {
                mtp_trace *t;
                assert_ok(mtp_profile_start(prof));
                record_new_things(100 * cycle + 100000 + (unsigned)policy * 1000 + (unsigned)acc * 10000);
                assert_ok(mtp_profile_trace(prof, &t));
                assert_int_equal(check_whole(t, false), acc == 1 ? cycle + 1 : 1);
                mtp_trace_destroy(t);
                assert_ok(mtp_profile_stop(prof));
            }
            mtp_profile_destroy(prof);
        }
}

static struct {
    atomic_int ready;
} * shared;

static void record_until_killed(void *arg)
{
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    c.spool = test_path("outside.mtp");
    c.when_full = *(const mtp_when_full *)arg;
    c.buffer_bytes = 64 * 4096;
    c.record_shapes = true;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (unsigned i = 20000;; i++) {
        record_new_things(i);
        if (i == 20500)
            atomic_store(&shared->ready, 1);
        if (i % 4 == 0)
            usleep(200);
        mtp_ledger l = MTP_LEDGER_INIT;
        CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.lost_definitions == 0);
    }
}

/* A piece that is reused while it is read is not damage, and the result is consistent. */
static void a_live_file_is_read_from_outside(void **state)
{
    (void)state;
    shared = test_shared(sizeof *shared);
    for (int k = MTP_KEEP_NEWEST; k <= MTP_STREAM; k++) {
        mtp_when_full policy = (mtp_when_full)k;
        atomic_store(&shared->ready, 0);
        const char *path = test_path("outside.mtp");
        pid_t pid = test_fork_child(record_until_killed, &policy, 60);
        while (atomic_load(&shared->ready) == 0 && kill(pid, 0) == 0 && waitpid(pid, NULL, WNOHANG) == 0)
            usleep(1000);
        assert_int_equal(atomic_load(&shared->ready), 1);
        int ops = 0;
        for (int i = 0; i < test_scaled(test_in_qemu() ? 4 : 40); i++) {
            mtp_trace *t;
            mtp_check *check;
            assert_ok(mtp_trace_open(path, NULL, &t));
            assert_int_equal(t->outcome, MTP_OUTCOME_LIVE);
            if (t->damaged_chunks != 0)
                fail_msg("reading %d: %llu damaged", i, (unsigned long long)t->damaged_chunks);
            ops += check_whole(t, false);
            mtp_trace_destroy(t);
            assert_ok(mtp_trace_check_file(path, NULL, &check));
            for (size_t f = 0; f < mtp_check_count(check); f++)
                if (mtp_check_finding(check, f)->severity == MTP_SEVERITY_ERROR)
                    fail_msg("check %d: %s", i, mtp_check_finding(check, f)->what);
            mtp_check_destroy(check);
        }
        kill(pid, SIGKILL);
        test_wait(pid);
        assert_true(ops > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_live_trace_is_of_the_moment_when_it_is_asked_for),
        TEST(a_later_cycles_live_trace_has_its_names),
        TEST(a_live_file_is_read_from_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
