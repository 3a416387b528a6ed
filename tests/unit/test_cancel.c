/* Unit: pthread_cancel. None of our calls is a cancellation point: a cancelled thread completes its call, so
 * no lock stays locked, no record is half counted and no file half written. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

typedef struct victim {
    uint64_t asked; /* records */
    int kind;
    sem_t started;
} victim;

static void record_some(victim *v, int i)
{
    char name[32];
    int64_t dims[] = {i % 50, v->kind};
    mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    mtp_op op = MTP_OP_INIT(MTP_NAME("cancelled op"));
    op.inputs = &in;
    op.input_count = 1;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "cancelled %d", i % 300)));
    snprintf(name, sizeof name, "name %d.%d", v->kind, i % 20);
    mtp_scope_end(mtp_scope_begin(mtp_name(name)));
    v->asked += 6;
}

/* Cancelled while it records; on its way to its first record; or as it ends, in the destructors of its
 * keys. */
static void *is_cancelled(void *arg)
{
    victim *v = arg;
    if (v->kind % 3 == 0)
        sem_post(&v->started);
    if (v->kind % 3 != 2)
        for (int i = 0;; i++) {
            record_some(v, i);
            pthread_testcancel();
        }
    record_some(v, 0);
    sem_post(&v->started);
    return NULL;
}

static void cancel_many(void *arg)
{
    enum {
        AT_ONCE = 4
    };
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 64 * 4096;
    c.record_shapes = true;
    c.spool = arg != NULL ? test_path("cancel.mtp") : NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    uint64_t asked = 1;
    for (int round = 0; round < test_scaled(500); round++) {
        pthread_t t[AT_ONCE];
        victim v[AT_ONCE] = {0};
        for (int i = 0; i < AT_ONCE; i++) {
            v[i].kind = round + i;
            sem_init(&v[i].started, 0, 0);
            CHILD_CHECK(pthread_create(&t[i], NULL, is_cancelled, &v[i]) == 0);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            if (v[i].kind % 3 != 1)
                while (sem_wait(&v[i].started) != 0)
                    ;
            pthread_cancel(t[i]);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            CHILD_CHECK(pthread_join(t[i], NULL) == 0);
            asked += v[i].asked;
        }
    }
    CHILD_CHECK(mtp__registry_count() == 1);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK);
    CHILD_CHECK(l.emitted == asked && l.emitted == l.kept + l.dropped);
    seen s = {0};
    seen_profile(&s, prof);
    CHILD_CHECK(s.records == l.kept);
    seen_free(&s);
    mtp_profile_destroy(prof);
}

/* reliability: 10,000 with MTP_TEST_SCALE=5 */
static void cancelled_threads_are_counted_exactly(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(cancel_many, NULL, 100)));
    assert_true(test_left_well(test_child(cancel_many, (void *)"a file", 100)));
}

/* ------------------------------------------------------------------------------------------- cold calls */

static const char *folder, *json, *spool;
static volatile int stages;

/* The cancellation is pending from the start: the thread would not survive a cancellation point. */
static void *profiles_while_cancelled(void *arg)
{
    (void)arg;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    mtp_trace *t = NULL, *again = NULL;
    c.spool = spool;
    c.with_stack = true;
    pthread_cancel(pthread_self());
    stages += mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK;
    for (int i = 0; i < 2000; i++)
        MTP_SCOPE ("cancelled") {
        }
    stages += mtp_profile_add_metadata(prof, "key", "value") == MTP_OK;
    stages += mtp_profile_stop(prof) == MTP_OK;
    stages += mtp_profile_trace(prof, &t) == MTP_OK;
    stages += mtp_trace_export(t, json, NULL) == MTP_OK;
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
    stages += mtp_trace_open(spool, NULL, &again) == MTP_OK;
    mtp_trace_destroy(again);
    stages += mtp_trace_open(json, NULL, &again) == MTP_OK;
    mtp_trace_destroy(again);
    pthread_testcancel();
    stages = -1;
    return NULL;
}

static void a_cancelled_thread_finishes_what_it_has_begun(void **state)
{
    (void)state;
    char where[256];
    snprintf(where, sizeof where, "%s", test_path("cancelled"));
    *strrchr(where, '/') = 0;
    folder = where;
    spool = test_path("cancelled.mtp");
    json = test_path("cancelled.json.gz");
    long live = 0;
    for (int i = 0; i < 2; i++) {
        pthread_t t;
        void *result;
        stages = 0;
        pthread_create(&t, NULL, profiles_while_cancelled, NULL);
        pthread_join(t, &result);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_int_equal(stages, 7);
        if (i == 1) /* the first round created names, which stay */
            assert_int_equal(mtp__alloc_live(), live);
        live = mtp__alloc_live();
    }
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        assert_null(strstr(e->d_name, ".tmp"));
    closedir(d);
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c); /* recording still works */
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
}

/* ------------------------------------------------------------------------------------------------ errno */

static uint32_t capture(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    errno = ERANGE;
    frames[0] = 7;
    return room > 0;
}

static void describe(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user, (void)frame;
    errno = ERANGE;
    snprintf(out, room, "a:1:f");
}

static void *first_record(void *arg)
{
    static const int before = 4242;
    int kind = *(int *)arg;
    int64_t dims[] = {kind};
    mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 1, .dims = dims};
    mtp_op op = MTP_OP_INIT(0);
    op.inputs = &in;
    op.input_count = 1;
    op.args = "args";
    errno = before;
    switch (kind) {
    case 0:
        MTP_SCOPE ("first of a thread") {
        }
        break;
    case 1:
        mtp_scope_end(mtp_scope_begin_text("text", 4));
        break;
    case 2:
        mtp_op_begin(&op);
        mtp_op_end(&op);
        break;
    case 3:
        mtp_mark(MTP_NAME("first mark of a thread"));
        break;
    default:
        mtp_memory_event(MTP_DEVICE_CPU, &kind, 4, 4, 4);
    }
    *(int *)arg = errno == before ? 0 : errno + 1;
    return NULL;
}

static void the_first_record_of_a_thread_leaves_errno_alone(void **state)
{
    (void)state;
    const mtp_stack_provider provider = {sizeof provider, capture, describe, NULL};
    for (int way = 0; way < 4; way++) {
        mtp_profile_config c = test_config(NULL);
        c.record_shapes = c.profile_memory = true;
        c.with_stack = way >= 2;
        c.spool = way % 2 ? test_path("errno.mtp") : NULL;
        assert_ok(mtp_stack_provider_set(way == 3 ? &provider : NULL));
        mtp_profile *prof = test_start(&c);
        for (int kind = 0; kind < 5; kind++) {
            int is = kind;
            pthread_t t;
            pthread_create(&t, NULL, first_record, &is);
            pthread_join(t, NULL);
            assert_int_equal(is, 0);
        }
        atomic_store(&prof->recorder->pool.refusing, 1 + MTP_DROP_BUDGET); /* no more chunks */
        int is = 0;
        pthread_t t;
        pthread_create(&t, NULL, first_record, &is);
        pthread_join(t, NULL);
        assert_int_equal(is, 0);
        assert_ok(mtp_profile_stop(prof));
        mtp_profile_destroy(prof);
        assert_ok(mtp_stack_provider_set(NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cancelled_threads_are_counted_exactly),
        TEST(a_cancelled_thread_finishes_what_it_has_begun),
        TEST(the_first_record_of_a_thread_leaves_errno_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
