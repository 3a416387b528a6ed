/* Unit: record/recover: the readable part of a spool becomes a complete spool that passes check; recovering
 * twice is the same as once. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROUNDS = 300
};

static char path[512], once[512], twice[512];

typedef struct plan {
    mtp_when_full policy;
    mtp__testpoint point;
    uint32_t nth, hits;
} plan;
static plan the_plan;

static void kill_there(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == the_plan.point && ++the_plan.hits == the_plan.nth)
        kill(getpid(), SIGKILL);
}

static void record(void *arg)
{
    const plan *p = arg;
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = p->policy;
    c.buffer_bytes = 24 * 4096;
    c.record_shapes = true;
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    if (p->nth > 0)
        mtp__testpoint_set(kill_there, NULL);
    for (int cycle = 0; cycle < 2; cycle++) {
        CHILD_CHECK(mtp_profile_start(prof) == MTP_OK);
        for (int i = 0; i < ROUNDS; i++) {
            char name[32];
            MTP_SCOPE ("outer")
                mtp_scope_end(
                    mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "run-time %d", i % 20)));
            mtp_counter(MTP_NAME("counter"), i);
        }
        CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    }
}

static void assert_same(const char *a, const char *b, const char *what)
{
    size_t n, m;
    char *x = test_slurp(a, &n), *y = test_slurp(b, &m);
    if (n != m || memcmp(x, y, n) != 0)
        fail_msg("%s: recovered again it is another file", what);
    free(x);
    free(y);
}

/* The file recovered from `path` is clean and has every readable record. */
static mtp_recovered assert_recovers(const char *what)
{
    mtp_recovered found = MTP_RECOVERED_INIT, again = MTP_RECOVERED_INIT;
    seen before = {.holes = true}, after = {.holes = true};
    mtp_check *check;
    assert_ok(mtp_recover(path, once, &found));
    assert_ok(mtp_recover(once, twice, &again));
    assert_same(once, twice, what);
    assert_ok(seen_spool(&before, path));
    assert_ok(seen_spool(&after, once));
    if (after.records != before.records || (after.problem[0] != 0 && before.problem[0] == 0))
        fail_msg("%s: %zu of %zu records; %s", what, after.records, before.records, after.problem);
    for (size_t i = 0; i < after.records; i++)
        assert_memory_equal(&after.record[i], &before.record[i], sizeof after.record[i]);
    assert_true(after.report.complete);
    assert_int_equal(after.report.unsealed, 0);
    assert_int_equal(after.report.damaged, 0);
    assert_int_equal(found.records, after.records);
    assert_int_equal(again.damaged_chunks + again.missing_chunks + again.lost_records, 0);
    assert_ok(mtp_trace_check_file(once, NULL, &check));
    if (mtp_check_breaches(check) > 0)
        fail_msg("%s: %s", what, mtp_check_finding(check, 0)->what);
    assert_int_equal(mtp_check_events(check), after.records);
    mtp_check_destroy(check);
    seen_free(&before);
    seen_free(&after);
    return found;
}

static void a_stopped_spool_stays_as_it_is(void **state)
{
    (void)state;
    plan p = {.policy = MTP_STREAM};
    mtp_outcome outcomes[2];
    unlink(path);
    assert_true(test_left_well(test_child(record, &p, 30)));
    mtp_recovered found = assert_recovers("stopped");
    assert_true(found.was_stopped);
    assert_int_equal(found.lost_records + found.damaged_chunks + found.missing_chunks, 0);
    for (int i = 0; i < 2; i++) {
        mtp_trace *t;
        mtp_trace_info info = MTP_TRACE_INFO_INIT;
        assert_ok(mtp_trace_open(i == 0 ? path : once, NULL, &t));
        assert_ok(mtp_trace_get_info(t, &info));
        outcomes[i] = info.outcome;
        assert_int_equal(info.ledger.kept, found.records);
        mtp_trace_destroy(t);
    }
    assert_int_equal(outcomes[0], MTP_OUTCOME_STOPPED);
    assert_int_equal(outcomes[1], MTP_OUTCOME_STOPPED);
}

static void a_spool_recovers_from_a_kill_at_every_testpoint(void **state)
{
    (void)state;
    static const uint32_t nth[] = {1, 2, 5, 30, 400};
    int killed = 0;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++)
        for (int point = 0; point < MTP__POINT_FORK_CHILD; point++)
            for (size_t i = 0; i < COUNT(nth); i++) {
                char what[128];
                the_plan = (plan){(mtp_when_full)policy, (mtp__testpoint)point, nth[i], 0};
                unlink(path);
                int status = test_child(record, &the_plan, 30);
                bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
                assert_true(died || test_left_well(status));
                killed += died;
                if (died && access(path, F_OK) != 0)
                    continue; /* before there was a file */
                snprintf(what, sizeof what, "policy %d, %s for the %uth time", policy,
                         mtp__testpoint_text((mtp__testpoint)point), nth[i]);
                mtp_recovered found = assert_recovers(what);
                assert_int_equal(found.damaged_chunks + found.missing_chunks + found.lost_records, 0);
                if (!died)
                    break;
            }
    assert_true(killed > 50);
}

static void a_truncated_or_damaged_spool_is_recovered_and_the_loss_is_reported(void **state)
{
    (void)state;
    plan p = {.policy = MTP_STREAM};
    size_t bytes;
    unlink(path);
    assert_true(test_left_well(test_child(record, &p, 30)));
    char *whole = test_slurp(path, &bytes);
    for (size_t left = 4096; left < bytes; left += 1500) {
        test_spew(path, whole, left);
        mtp_recovered found = assert_recovers("cut");
        assert_int_equal(found.missing_chunks, bytes / 4096 - left / 4096);
    }
    mtp__chunk *c;
    for (size_t nth = 0; (c = test_chunk(whole, bytes, nth)) != NULL; nth++)
        for (size_t at = 20; at < c->span; at += 500) {
            char *byte = (char *)c + at;
            *byte ^= 4;
            test_spew(path, whole, bytes);
            *byte ^= 4;
            bool written = at < sizeof *c + c->words * sizeof(uint64_t);
            mtp_recovered found = assert_recovers("damaged");
            assert_int_equal(found.damaged_chunks,
                             written || c->stream == 0); /* nothing may follow the last there */
            assert_true(!written || c->stream == 0 || found.lost_records > 0);
        }
    free(whole);
}

static void unrecoverable_files_are_reported(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    char other[512];
    snprintf(other, sizeof other, "%s", test_path("link.mtp"));
    unlink(path);
    c.spool = path;
    mtp_profile *prof = test_start(&c);
    assert_int_equal(mtp_recover(path, once, NULL), MTP_E_STATE);
    assert_says("still recording into it");
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    assert_int_equal(mtp_recover(path, path, NULL), MTP_E_ARG);
    assert_says("name another");
    assert_int_equal(link(path, other), 0);
    assert_int_equal(mtp_recover(path, other, NULL), MTP_E_ARG);
    assert_int_equal(mtp_recover(path, test_path("x.mtp.gz"), NULL), MTP_E_ARG);
    assert_int_equal(mtp_recover(test_path("nothing.mtp"), once, NULL), MTP_E_IO);
    assert_says("nothing.mtp");
    unlink(other);
    test_spew(other, "{}", 2);
    assert_int_equal(mtp_recover(other, once, NULL), MTP_E_FORMAT);
    assert_int_equal(mtp_recover(path, "/dev/full", NULL), MTP_E_IO);
    assert_int_equal(mtp_recover(NULL, once, NULL), MTP_E_ARG);
    mtp_recovered old = {.size = 4};
    assert_int_equal(mtp_recover(path, once, &old), MTP_E_ABI);
}

/* Every call fails once: no file, or the same one. */
static void recovery_survives_every_failing_call(void **state)
{
    (void)state;
    plan p = {.policy = MTP_STREAM};
    unlink(path);
    assert_true(test_left_well(test_child(record, &p, 30)));
    assert_ok(mtp_recover(path, once, NULL));
    for (int nth = 1;; nth++) {
        long live = mtp__alloc_live();
        mtp_recovered found = MTP_RECOVERED_INIT;
        unlink(twice);
        mtp__fault_plan(MTP__FAULTS_ALL & ~(1u << MTP__FAULT_READ), nth, false);
        mtp_status status = mtp_recover(path, twice, &found);
        int fired = mtp__fault_stop();
        assert_int_equal(mtp__alloc_live(), live);
        if (status == MTP_OK)
            assert_same(once, twice, "after a failing call");
        else
            assert_int_not_equal(access(twice, F_OK), 0);
        if (fired == 0)
            break;
    }
}

/* Only its owner may read a spool, and a file recovered from it; an existing file keeps its mode. */
static void what_is_recovered_is_for_the_same_readers(void **state)
{
    (void)state;
    plan p = {.policy = MTP_STREAM};
    struct stat st;
    mode_t before = umask(0777);
    unlink(path);
    int status = test_child(record, &p, 30);
    umask(0);
    assert_true(test_left_well(status));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    unlink(once);
    assert_ok(mtp_recover(path, once, NULL));
    assert_int_equal(stat(once, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(chmod(path, 0640) + unlink(once), 0);
    assert_ok(mtp_recover(path, once, NULL));
    assert_int_equal(stat(once, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(chmod(once, 0604), 0);
    assert_ok(mtp_recover(path, once, NULL));
    assert_int_equal(stat(once, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0604);
    umask(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stopped_spool_stays_as_it_is),
        TEST(a_spool_recovers_from_a_kill_at_every_testpoint),
        TEST(a_truncated_or_damaged_spool_is_recovered_and_the_loss_is_reported),
        TEST(unrecoverable_files_are_reported),
        TEST(recovery_survives_every_failing_call),
        TEST(what_is_recovered_is_for_the_same_readers),
    };
    snprintf(path, sizeof path, "%s", test_path("broken.mtp"));
    snprintf(once, sizeof once, "%s", test_path("once.mtp"));
    snprintf(twice, sizeof twice, "%s", test_path("twice.mtp"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
