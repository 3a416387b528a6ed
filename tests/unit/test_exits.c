/* Unit: programs that exit while recording: the exit status is theirs, nothing crashes or hangs, and the
 * spool is readable. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static mtp_profile *prof;

static void *record_for_ever(void *arg)
{
    for (uint64_t i = 0; arg == NULL || i < (uintptr_t)arg; i++) {
        char name[24];
        MTP_SCOPE ("daemon") {
        }
        mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "d %d", (int)(i % 30))));
    }
    return NULL;
}

typedef enum way_out {
    BY_EXIT,
    BY_EXIT_CODE,
    BY__EXIT,
    BY_ABORT,
    BY_SIGTERM,
    BY_QUICK_EXIT,
    BY_PTHREAD_EXIT,
    BY_EXIT_ELSEWHERE,
    BY_EXIT_IN_SCOPE,
    BY_EXIT_AFTER_DESTROY,
    WAYS
} way_out;

typedef struct ending {
    way_out way;
    bool spool;
    int daemons;
} ending;

static void *exit_elsewhere(void *arg)
{
    (void)arg;
    MTP_SCOPE ("elsewhere") {
        exit(0);
    }
    return NULL;
}

static void *linger(void *arg)
{
    (void)arg;
    usleep(3000);
    for (int i = 0; i < 100; i++)
        MTP_SCOPE ("after main") {
        }
    return NULL;
}

static void end(void *arg)
{
    const ending *e = arg;
    mtp_profile_config c = test_config(NULL);
    pthread_t t;
    c.when_full = e->spool ? MTP_STREAM : MTP_KEEP_NEWEST;
    c.buffer_bytes = 64 * 4096;
    c.spool_bytes = 4u << 20;
    c.spool = e->spool ? test_path("exit.mtp") : NULL;
    if (!e->spool)
        c.spool_bytes = 0;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < e->daemons; i++)
        CHILD_CHECK(pthread_create(&t, NULL, record_for_ever, NULL) == 0);
    for (int i = 0; i < 500; i++)
        MTP_SCOPE ("main") {
        }
    switch (e->way) {
    case BY_EXIT:
        exit(0);
    case BY_EXIT_CODE:
        exit(7);
    case BY__EXIT:
        _exit(0);
    case BY_ABORT:
        signal(SIGABRT, SIG_DFL);
        abort();
    case BY_SIGTERM:
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
        break;
    case BY_QUICK_EXIT:
        quick_exit(0);
    case BY_PTHREAD_EXIT:
        CHILD_CHECK(pthread_create(&t, NULL, linger, NULL) == 0);
        pthread_exit(NULL);
    case BY_EXIT_ELSEWHERE:
        CHILD_CHECK(pthread_create(&t, NULL, exit_elsewhere, NULL) == 0);
        pause();
        break;
    case BY_EXIT_IN_SCOPE:
        MTP_SCOPE ("left open") {
            exit(0);
        }
        break;
    default:
        mtp_profile_destroy(prof);
        exit(0);
    }
}

static bool ended_as_it_should(way_out way, int status)
{
    if (way == BY_ABORT || way == BY_SIGTERM)
        return WIFSIGNALED(status) && WTERMSIG(status) == (way == BY_ABORT ? SIGABRT : SIGTERM);
    if (way == BY_EXIT_CODE)
        return WIFEXITED(status) && WEXITSTATUS(status) == 7;
    return test_left_well(status);
}

/* reliability.md 9. The children leave through exit(): no buffered output may be printed twice. */
static void a_program_may_end_in_any_way_while_it_records(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS; way++)
        for (int spool = 0; spool < 2; spool++)
            for (int round = 0; round < test_scaled(10); round++) {
                if (way == BY_PTHREAD_EXIT && TEST_TSAN)
                    continue; /* its thread never ends, so the process would not either */
                ending e = {(way_out)way, spool, way == BY_PTHREAD_EXIT ? 0 : round % 3};
                if (!ended_as_it_should((way_out)way, test_child(end, &e, 20)))
                    fail_msg("way %d, spool %d", way, spool);
                if (!spool)
                    continue;
                bool complete =
                    way != BY__EXIT && way != BY_ABORT && way != BY_SIGTERM && way != BY_QUICK_EXIT;
                seen s = {0};
                assert_ok(seen_spool(&s, test_path("exit.mtp")));
                assert_string_equal(s.problem, "");
                assert_int_equal(s.report.damaged, 0);
                if (s.report.complete != complete)
                    fail_msg("way %d: complete is %d", way, s.report.complete);
                size_t mains = 0;
                for (size_t i = 0; i < s.records; i++)
                    mains += s.record[i].kind == MTP__KIND_BEGIN &&
                             strcmp(seen_name(&s, (uint32_t)s.record[i].word[0]), "main") == 0;
                if (e.daemons == 0)
                    assert_int_equal(mains, 500);
                const seen_words *ledger = seen_control(&s, MTP__CONTROL_LEDGER, 0);
                assert_int_equal(ledger != NULL, complete);
                if (complete)
                    assert_int_equal(ledger->word[1], s.records);
                seen_free(&s);
            }
    test_row(9, 2 * WAYS * (uint64_t)test_scaled(10), "ends, in %d ways", (int)WAYS);
}

/* --------------------------------------------------------------------------- handlers around ours at exit */

static void destroy_late(void)
{
    mtp_profile_destroy(prof);
}

static void stop_late(void)
{
    mtp_ledger l = MTP_LEDGER_INIT;
    if (mtp_profile_stop(prof) != MTP_OK || mtp_profile_ledger(prof, &l) != MTP_OK || l.emitted != l.kept)
        _exit(55);
    mtp_profile_destroy(prof);
}

static void handlers_around(void *arg)
{
    int how = *(int *)arg;
    mtp_profile_config c = test_config(NULL);
    c.spool = test_path("atexit.mtp");
    if (how % 2 == 0)
        atexit(how < 2 ? destroy_late : stop_late); /* runs after the library's */
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    if (how % 2 == 1)
        atexit(how < 2 ? destroy_late : stop_late); /* and before */
    for (int i = 0; i < 100; i++)
        MTP_SCOPE ("x") {
        }
    exit(0);
}

/* In a fresh process image: the library's handler is registered at its first profile. */
static void exit_handlers_may_stop_and_destroy_the_profile(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        assert_true(test_left_well(test_child(handlers_around, &how, 20)));
        seen s = {0};
        assert_ok(seen_spool(&s, test_path("atexit.mtp")));
        assert_string_equal(s.problem, "");
        assert_true(s.report.complete);
        assert_int_equal(s.records, 201);
        seen_free(&s);
    }
}

/* ---------------------------------------------------------------------------------- loaded and unloaded */

#ifdef MTP_SHARED_LIB
typedef struct api {
    void *lib;
    mtp_status (*create)(const mtp_profile_config *, mtp_profile **);
    mtp_status (*start)(mtp_profile *);
    mtp_status (*stop)(mtp_profile *);
    void (*destroy)(mtp_profile *);
    mtp_status (*ledger)(const mtp_profile *, mtp_ledger *);
    void (*mark)(uint32_t);
    uint32_t (*name)(const char *);
    pthread_barrier_t barrier;
} api;

static void *symbol(void *lib, const char *name)
{
    void *p = dlsym(lib, name);
    CHILD_CHECK(p != NULL);
    return p;
}

static void load(api *a)
{
    a->lib = dlopen(MTP_SHARED_LIB, RTLD_NOW | RTLD_LOCAL);
    if (a->lib == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(96);
    }
    *(void **)&a->create = symbol(a->lib, "mtp_profile_create");
    *(void **)&a->start = symbol(a->lib, "mtp_profile_start");
    *(void **)&a->stop = symbol(a->lib, "mtp_profile_stop");
    *(void **)&a->destroy = symbol(a->lib, "mtp_profile_destroy");
    *(void **)&a->ledger = symbol(a->lib, "mtp_profile_ledger");
    *(void **)&a->mark = symbol(a->lib, "mtp__mark");
    *(void **)&a->name = symbol(a->lib, "mtp_name");
}

static void *marks_then_waits(void *arg)
{
    api *a = arg;
    uint32_t name = a->name("loaded");
    for (int i = 0; i < 100; i++)
        a->mark(name);
    pthread_barrier_wait(&a->barrier); /* recorded */
    pthread_barrier_wait(&a->barrier); /* unloaded; now the thread ends, and its destructor runs */
    return NULL;
}

static void load_record_unload(void *arg)
{
    int how = *(int *)arg;
    for (int round = 0; round < 3; round++) {
        api a;
        mtp_profile *p = NULL;
        pthread_t t;
        load(&a);
        pthread_barrier_init(&a.barrier, NULL, 2);
        CHILD_CHECK(a.create(NULL, &p) == MTP_OK && a.start(p) == MTP_OK);
        CHILD_CHECK(pthread_create(&t, NULL, marks_then_waits, &a) == 0);
        pthread_barrier_wait(&a.barrier);
        if (how == 0) {
            mtp_ledger l = MTP_LEDGER_INIT;
            CHILD_CHECK(a.stop(p) == MTP_OK && a.ledger(p, &l) == MTP_OK && l.kept == 101);
            a.destroy(p);
        }
        dlclose(a.lib);
        pthread_barrier_wait(&a.barrier);
        pthread_join(t, NULL);
        if (how == 1) { /* it was left recording: still so when loaded again */
            load(&a);
            CHILD_CHECK(a.stop(p) == MTP_OK);
            a.destroy(p);
            dlclose(a.lib);
        }
    }
    if (how == 2)
        exit(0);
}
#endif

static void a_library_that_is_unloaded_while_threads_know_it_does_no_harm(void **state)
{
    (void)state;
#ifdef MTP_SHARED_LIB
    for (int how = 0; how < 2; how++)
        for (int round = 0; round < test_scaled(5); round++)
            assert_true(test_left_well(test_child(load_record_unload, &how, 30)));
    test_row(9, 2 * (uint64_t)test_scaled(5), "libraries unloaded");
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(
            exit_handlers_may_stop_and_destroy_the_profile), /* first: before this process has had a profile */
        TEST(a_program_may_end_in_any_way_while_it_records),
        TEST(a_library_that_is_unloaded_while_threads_know_it_does_no_harm),
    };
    test_path("folder");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
