/* Unit: record/control: names of call sites live as long as the process. A ring defines them once, in chunks
 * that are never evicted, so that thousands of them do not take the space that epochs need. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/test.h"
#include "trace/trace.h"

#define RING ((uint64_t)1 << 20)
#define REQUESTS 60000

static uint32_t *site;
static uint32_t sites;

static void make_sites(uint32_t count)
{
    uint32_t *more = realloc(site, count * sizeof *site);
    assert_non_null(more);
    site = more;
    for (; sites < count; sites++) {
        char text[64];
        snprintf(text, sizeof text, "a call site of the program, its number is %u", sites);
        site[sites] = mtp_name(text);
        assert_int_not_equal(site[sites], 0);
    }
}

static mtp_profile *start(const char *spool, uint32_t chunk_bytes)
{
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = RING;
    c.chunk_bytes = chunk_bytes;
    c.when_full = MTP_KEEP_NEWEST;
    c.spool = spool;
    return test_start(&c);
}

static void serve(uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "request %u", i);
        mtp_token request = mtp_scope_begin_text(text, (size_t)n);
        mtp_scope_end(mtp_scope_begin(site[i % sites]));
        mtp_scope_end(request);
    }
}

/* Consecutive requests up to the last, each with its call site. */
static void check_names(const mtp_trace *t, uint32_t end)
{
    uint32_t request = UINT32_MAX, requests = 0, number;
    assert_int_equal(t->damaged_chunks, 0);
    for (uint32_t i = 0; i < t->span_count; i++) {
        const char *name = mtp__trace_get_text(t, t->name[i]).bytes;
        if (sscanf(name, "request %u", &number) == 1) {
            assert_true(requests == 0 || number == request + 1);
            request = number;
            requests++;
        } else {
            if (sscanf(name, "a call site of the program, its number is %u", &number) != 1)
                fail_msg("span %u of %u is called %s", i, t->span_count, name);
            assert_true(requests == 0 || number == request % sites);
        }
    }
    assert_int_equal(request + 1, end);
    assert_true(requests > 500);
}

static void check_ledger(const mtp_profile *prof)
{
    mtp_ledger l = MTP_LEDGER_INIT;
    assert_ok(mtp_profile_ledger(prof, &l));
    assert_int_equal(l.lost_definitions, 0);
    assert_int_equal(l.emitted, l.kept + l.dropped);
    assert_int_equal(l.dropped, l.dropped_by[MTP_DROP_OVERWRITTEN]);
}

static void check_file(const char *path, uint32_t end)
{
    mtp_trace *t;
    mtp_check *check;
    assert_ok(mtp_trace_open(path, NULL, &t));
    check_names(t, end);
    mtp_trace_destroy(t);
    assert_ok(mtp_trace_check_file(path, NULL, &check));
    const mtp_finding *f;
    for (size_t i = 0; (f = mtp_check_finding(check, i)) != NULL; i++)
        if (f->severity != MTP_SEVERITY_REMARK)
            fail_msg("%s", f->what);
    mtp_check_destroy(check);
}

static void thousands_of_call_sites_leave_a_ring_its_room(void **state)
{
    (void)state;
    static const uint32_t counts[] = {500, 1000, 1500, 3000}, chunks[] = {64 << 10, 16 << 10};
    for (int k = 0; k < 16; k++) {
        make_sites(counts[k / 4]);
        const char *path = k % 2 == 1 ? test_path("sites.mtp") : NULL;
        mtp_profile *prof = start(path, chunks[k / 2 % 2]);
        serve(0, REQUESTS);
        assert_ok(mtp_profile_stop(prof));
        check_ledger(prof);
        mtp_trace *t;
        assert_ok(mtp_profile_trace(prof, &t));
        check_names(t, REQUESTS);
        mtp_trace_destroy(t);
        mtp_profile_destroy(prof);
        if (path != NULL)
            check_file(path, REQUESTS);
    }
}

/* Sites first used while recording are defined for later epochs too, and later cycles use these
 * definitions. */
static void call_sites_that_come_later_stay_as_well(void **state)
{
    (void)state;
    uint32_t before = sites;
    const char *path = test_path("later.mtp");
    mtp_profile *prof = start(path, 16 << 10);
    serve(0, REQUESTS / 4);
    for (uint32_t step = 1; step <= 4; step++) {
        make_sites(before + step * 300);
        serve(step * REQUESTS / 4, REQUESTS / 4);
        if (step == 2) {
            assert_ok(mtp_profile_stop(prof));
            assert_ok(mtp_profile_start(prof));
        }
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    check_names(t, REQUESTS + REQUESTS / 4);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
    check_file(path, REQUESTS + REQUESTS / 4);
}

static _Atomic uint32_t *served; /* shared with the child */

static void serve_for_ever(void *arg)
{
    start(arg, 16 << 10);
    for (uint32_t i = 0;; i += 100) {
        serve(i, 100);
        atomic_store(served, i + 100);
    }
}

static void the_file_of_a_killed_program_has_its_call_sites(void **state)
{
    (void)state;
    const char *path = test_path("killed.mtp"), *whole = test_path("whole.mtp");
    served = test_shared(sizeof *served);
    for (int i = 0; i < test_scaled(20); i++) {
        unlink(path);
        atomic_store(served, 0);
        pid_t pid = test_fork_child(serve_for_ever, (void *)(uintptr_t)path, 30);
        while (atomic_load(served) == 0)
            usleep(1000);
        usleep((useconds_t)test_below(100000));
        kill(pid, SIGKILL);
        test_wait(pid);
        mtp_trace *t;
        assert_ok(mtp_trace_open(path, NULL, &t));
        for (uint32_t k = 0; k < t->span_count; k++)
            assert_string_not_equal(mtp__trace_get_text(t, t->name[k]).bytes, "?");
        assert_int_equal(t->damaged_chunks, 0);
        mtp_trace_destroy(t);
        mtp_recovered recovery = MTP_RECOVERED_INIT;
        assert_ok(mtp_recover(path, whole, &recovery));
        assert_ok(mtp_trace_open(whole, NULL, &t));
        for (uint32_t k = 0; k < t->span_count; k++)
            assert_string_not_equal(mtp__trace_get_text(t, t->name[k]).bytes, "?");
        mtp_trace_destroy(t);
    }
}

/* Definitions are then lost and counted; records are still kept. */
static void more_call_sites_than_a_ring_holds_are_counted_as_lost(void **state)
{
    (void)state;
    make_sites(40000);
    mtp_profile *prof = start(NULL, 16 << 10);
    serve(0, REQUESTS);
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger l = MTP_LEDGER_INIT;
    assert_ok(mtp_profile_ledger(prof, &l));
    assert_true(l.lost_definitions > 0 && l.kept > 1000);
    assert_int_equal(l.emitted, l.kept + l.dropped);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(thousands_of_call_sites_leave_a_ring_its_room),
        TEST(call_sites_that_come_later_stay_as_well),
        TEST(the_file_of_a_killed_program_has_its_call_sites),
        TEST(more_call_sites_than_a_ring_holds_are_counted_as_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
