/* Unit: check/spool: spools, intact and damaged. */
#define _GNU_SOURCE
#include "tests/unit/checked_files.h"

/* --------------------------------------------------------------------------------------------------
 * spools */

#define RECORDS 1201 /* 300 times two begins and two ends, and the STEP */

/* The file in memory, to be damaged. */
typedef struct spoilt {
    char *bytes;
    size_t length;
    mtp__spool_header *header;
} spoilt;

static spoilt spoil(const char *path)
{
    spoilt s = {0};
    s.bytes = test_slurp(path, &s.length);
    s.header = (mtp__spool_header *)(void *)s.bytes;
    return s;
}

static mtp__chunk *chunk_of(const spoilt *s, bool control)
{
    mtp__chunk *c;
    for (size_t i = 0; (c = test_chunk(s->bytes, s->length, i)) != NULL; i++)
        if ((c->stream == 0) == control)
            return c;
    fail();
    return NULL;
}

/* The first control record of a kind; for definitions, the one of this text. */
static uint64_t *control_of(const spoilt *s, mtp__control_kind kind, const char *text)
{
    mtp__chunk *c = chunk_of(s, true);
    uint64_t *w = mtp__chunk_words(c);
    for (uint32_t at = 0; at < c->words;) {
        if (MTP__CONTROL_KIND(w[at + 1]) == (uint32_t)kind &&
            (text == NULL || memcmp(w + at + 4, text, strlen(text)) == 0))
            return w + at;
        at += MTP__WORD0_LENGTH(w[at]) != 0 ? MTP__WORD0_LENGTH(w[at]) : (uint32_t)(w[at + 1] >> 32);
    }
    fail();
    return NULL;
}

static mtp_check *check_spoilt(spoilt *s, mtp__chunk *reseal)
{
    test_seal_header(s->bytes);
    if (reseal != NULL && reseal->stream == 0)
        test_seal_control(reseal);
    if (reseal != NULL)
        reseal->checksum = mtp__chunk_checksum(reseal, mtp__chunk_words(reseal));
    const char *path = test_path("spoilt.mtp");
    test_spew(path, s->bytes, s->length);
    free(s->bytes);
    return check_file(path);
}

static void a_sound_spool_is_clean(void **state)
{
    (void)state;
    mtp_check *c = check_file(record("sound.mtp"));
    assert_int_equal(mtp_check_events(c), RECORDS);
    assert_clean(c);
}

/* Keeping the newest evicts the oldest, as configured; dropping records that did not fit is a loss. */
static void records_that_made_way_are_a_remark_and_lost_ones_a_note(void **state)
{
    (void)state;
    for (int newest = 0; newest < 2; newest++) {
        const char *path = test_path("full.mtp");
        mtp_profile_config config = test_config(NULL);
        config.spool = path;
        config.when_full = newest ? MTP_KEEP_NEWEST : MTP_STOP_WHEN_FULL;
        mtp_profile *prof = test_start(&config);
        for (int i = 0; i < 200000; i++)
            MTP_SCOPE ("scope") {
            }
        assert_ok(mtp_profile_stop(prof));
        mtp_profile_destroy(prof);
        mtp_check *c = check_file(path);
        assert_int_equal(mtp_check_breaches(c), newest ? 0 : 1);
        assert_only(c, 0, newest ? "older records were overwritten by newer ones" : "records were dropped");
    }
}

static void faults_of_a_spool_are_reported(void **state)
{
    (void)state;
    char path[512]; /* test_path()'s results are valid only for a while */
    snprintf(path, sizeof path, "%s", record("spool.mtp"));
    spoilt s = spoil(path);
    mtp__chunk *c = chunk_of(&s, false);
    mtp__chunk_words(c)[5] ^= 1u << 20;
    size_t at = (size_t)((char *)c - s.bytes);
    assert_int_equal(assert_only(check_spoilt(&s, NULL), 0, "its checksum is wrong").first_byte, at);

    s = spoil(path);
    chunk_of(&s, false)->magic ^= 1;
    assert_only(check_spoilt(&s, NULL), 0, "its magic number is wrong");

    s = spoil(path);
    s.header->complete = s.header->locked = 0; /* as on a file system without locks */
    mtp_check *not_stopped = check_spoilt(&s, NULL);
    assert_int_equal(mtp_check_breaches(not_stopped), 0);
    assert_false(mtp_check_recovered(not_stopped));
    assert_only(not_stopped, 0, "was not stopped, and may still be running");

    s = spoil(path);
    s.header->version = 99;
    assert_only(check_spoilt(&s, NULL), 0, "version 99");

    s = spoil(path);
    s.header->chunk_bytes = 5000;
    assert_only(check_spoilt(&s, NULL), 0, "5000 is not a valid chunk size");

    s = spoil(path);
    s.header->totals.ledger[0]++; /* emitted */
    assert_only(check_spoilt(&s, NULL), 0, "the ledger does not balance: 1202 emitted");

    s = spoil(path);
    s.header->totals.ledger[0]++;
    s.header->totals.ledger[1]++;
    assert_only(check_spoilt(&s, NULL), 0, "1202 records kept, 1201 found");

    s = spoil(path);
    uint64_t *name = control_of(&s, MTP__CONTROL_NAME, "outer"); /* a definition of something else */
    name[1] = (name[1] & ~(uint64_t)0xff) | MTP__CONTROL_FRAME;
    mtp_finding f = assert_only(check_spoilt(&s, chunk_of(&s, true)), 0, "an undefined id (name ");
    assert_int_equal(f.count, 300);

    s = spoil(path);
    c = chunk_of(&s, false);
    mtp__chunk_words(c)[0] = (mtp__chunk_words(c)[0] & ~(uint64_t)15) | 12; /* no such kind */
    assert_only(check_spoilt(&s, c), 0, "a record has an unknown format (kind 12)");

    s = spoil(path);
    c = chunk_of(&s, false);
    uint64_t *w = mtp__chunk_words(c);
    assert_int_equal(MTP__WORD0_LENGTH(w[0]), 2);
    w[0] = MTP__WORD0(MTP__WORD0_TICKS(w[0]), 2, MTP__KIND_TENSORS); /* of a shape that nobody defined */
    w[1] = 77;
    assert_only(check_spoilt(&s, c), 0, "an undefined id (shape 77)");

    s = spoil(path);
    c = chunk_of(&s, false);
    for (w = mtp__chunk_words(c); MTP__WORD0_KIND(w[0]) != MTP__KIND_BEGIN;)
        w += MTP__WORD0_LENGTH(w[0]);
    assert_int_equal(MTP__WORD0_LENGTH(w[0]), 2 + __builtin_popcount((unsigned)(w[1] >> 40) & 0xff));
    w[1] |= (uint64_t)MTP__HAS_FLOPS << 40; /* promises a word that is not there */
    assert_only(check_spoilt(&s, c), 0, "too short for its mask");
}

static void a_truncated_spool_is_reported(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", record("short.mtp"));
    spoilt s = spoil(path);
    s.length = 20;
    assert_only(check_spoilt(&s, NULL), 0, "header is truncated");
    s = spoil(path);
    size_t chunk = s.header->chunk_bytes, chunks = s.length / chunk - 1;
    assert_int_equal(s.header->chunks, chunks);
    assert_true(chunks > 2);
    free(s.bytes);
    for (size_t left = 0; left < chunks; left++)
        for (size_t part = 0; part < chunk; part += chunk / 2 - 3) { /* between chunks, and inside */
            s = spoil(path);
            s.length = (left + 1) * chunk + part;
            char what[128];
            snprintf(what, sizeof what,
                     "the file is truncated: %zu of its %zu chunks are missing or incomplete", chunks - left,
                     chunks);
            mtp_check *c = check_spoilt(&s, NULL);
            assert_int_equal(mtp_check_breaches(c), 1);
            assert_only(c, 0, what);
        }
}

static int hold_pipe[2];

static void describe_and_record(const char *path, int ready)
{
    warnings w = {0};
    mtp_profile_config config = test_config(&w);
    config.spool = path;
    config.activities = MTP_CPU | MTP_NPU;
    mtp_profile *prof = test_start(&config);
    mtp_device_info info = MTP_DEVICE_INFO_INIT;
    info.name = "an accelerator";
    mtp_device_describe(MTP_DEVICE_NPU(0), &info);
    for (int i = 0; i < 50; i++)
        MTP_SCOPE ("scope") {
        }
    if (ready >= 0) {
        if (fork() == 0) { /* a surviving child does not hold the lock */
            char end;
            close(hold_pipe[1]);
            _exit(read(hold_pipe[0], &end, 1) == 0 ? 0 : 1);
        }
        CHILD_CHECK(write(ready, "r", 1) == 1);
        for (;;)
            pause();
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
}

static void a_spool_that_describes_a_device_is_clean(void **state)
{
    (void)state;
    const char *path = test_path("device.mtp");
    describe_and_record(path, -1);
    mtp_check *c = check_file(path);
    assert_int_equal(mtp_check_count(c), 0);
    assert_clean(c);
}

static int ready_pipe[2];
static char live_path[512];

static void record_until_killed(void *arg)
{
    (void)arg;
    describe_and_record(live_path, ready_pipe[1]);
}

static mtp_outcome outcome_of(const char *path, uint64_t *pid)
{
    mtp_trace *t;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    assert_ok(mtp_trace_open(path, NULL, &t));
    assert_ok(mtp_trace_get_info(t, &info));
    assert_int_equal(info.damaged_chunks + info.missing_chunks, 0);
    *pid = info.pid;
    mtp_trace_destroy(t);
    return info.outcome;
}

/* Live, killed and stopped recordings are told apart, and none of these states is a breach. */
static void a_spool_says_whether_its_process_lives(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_INHERITS);
    char go, process[64];
    uint64_t pid = 0;
    snprintf(live_path, sizeof live_path, "%s", test_path("live.mtp"));
    assert_int_equal(pipe(ready_pipe), 0);
    assert_int_equal(pipe(hold_pipe), 0);
    pid_t child = test_fork_child(record_until_killed, NULL, 60);
    assert_int_equal(read(ready_pipe[0], &go, 1), 1);
    assert_int_equal(outcome_of(live_path, &pid), MTP_OUTCOME_LIVE);
    assert_int_equal(pid, child);
    mtp_check *c = check_file(live_path);
    assert_int_equal(mtp_check_breaches(c), 0);
    assert_false(mtp_check_recovered(c));
    snprintf(process, sizeof process, "process %d is still recording", (int)child);
    assert_only(c, 0, process);
    mtp_profile_config config = test_config(NULL); /* no other recording takes its file */
    config.spool = live_path;
    mtp_profile *prof;
    assert_ok(mtp_profile_create(&config, &prof));
    assert_int_equal(mtp_profile_start(prof), MTP_E_IO);
    snprintf(process, sizeof process, "process %d is recording into it", (int)child);
    assert_says(process);
    mtp_profile_destroy(prof);
    kill(child, SIGKILL);
    test_wait(child);
    /* A process that inspects the child, such as ps, keeps its mappings and so the lock a moment longer. */
    while (outcome_of(live_path, &pid) == MTP_OUTCOME_LIVE)
        usleep(10000);
    assert_int_equal(outcome_of(live_path, &pid), MTP_OUTCOME_RECOVERED);
    c = check_file(live_path);
    assert_int_equal(mtp_check_breaches(c), 0);
    assert_true(mtp_check_recovered(c));
    snprintf(process, sizeof process, "recovered: process %d ended without stopping", (int)child);
    assert_only(c, 0, process);
    describe_and_record(live_path, -1); /* the same file again, now that it is free */
    assert_int_equal(outcome_of(live_path, &pid), MTP_OUTCOME_STOPPED);
    assert_int_equal(pid, getpid());
    close(ready_pipe[0]);
    close(ready_pipe[1]);
    close(hold_pipe[0]);
    close(hold_pipe[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_sound_spool_is_clean),
        TEST(records_that_made_way_are_a_remark_and_lost_ones_a_note),
        TEST(faults_of_a_spool_are_reported),
        TEST(a_truncated_spool_is_reported),
        TEST(a_spool_that_describes_a_device_is_clean),
        TEST(a_spool_says_whether_its_process_lives),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
