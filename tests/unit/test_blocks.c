/* Unit: whole blocks of a spool are lost (they read as zeroes), misplaced, or from another recording. Each is
 * valid by itself, so checksums do not catch it: every reader shows what was recorded, or reports damage. */
#define _GNU_SOURCE
#include "tests/test.h"
#include "tests/unit/kept_text.h"
#include <signal.h>
#include <unistd.h>

enum {
    BLOCK = 4096
};

static char path[512], mended[512];

typedef struct plan {
    mtp_when_full policy;
    uint64_t buffer_bytes;
    bool killed;
} plan;

static void work(int round)
{
    char name[32];
    int64_t dims[2] = {3, round % 40};
    mtp_input input = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
    op.inputs = &input;
    op.input_count = 1;
    mtp_op_begin(&op);
    mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "run-time %d", round % 90)));
    mtp_counter(MTP_NAME("counter"), round);
    mtp_op_end(&op);
}

static void *thread(void *rounds)
{
    for (int i = 0; i < *(int *)rounds; i++)
        work(i);
    return NULL;
}

static void record(void *arg)
{
    const plan *p = arg;
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = p->policy;
    c.buffer_bytes = p->buffer_bytes;
    c.chunk_bytes = BLOCK;
    c.record_shapes = true;
    mtp_profile *prof = NULL;
    int rounds = 400;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < 2; i++) {
        pthread_t t;
        CHILD_CHECK(pthread_create(&t, NULL, thread, &rounds) == 0);
        pthread_join(t, NULL);
    }
    thread(&rounds);
    if (p->killed)
        kill(getpid(), SIGKILL);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_profile_destroy(prof);
}

/* The trace as text; *said: damage was reported. */
static void show(text *json, bool *said)
{
    mtp_trace *t;
    mtp_trace_info info = MTP_TRACE_INFO_INIT, counted = MTP_TRACE_INFO_INIT;
    json->length = 0;
    assert_ok(mtp_trace_open(path, NULL, &t));
    assert_ok(mtp_trace_get_info(t, &info));
    assert_ok(mtp_trace_file_info(path, NULL, &counted));
    assert_int_equal(info.damaged_chunks, counted.damaged_chunks);
    assert_int_equal(info.missing_chunks, counted.missing_chunks);
    *said = info.damaged_chunks > 0 || info.missing_chunks > 0;
    assert_ok(mtp_trace_chrome(t, NULL, keep, json));
    mtp_trace_destroy(t);
}

static size_t breaches(const char *file)
{
    mtp_check *c;
    assert_ok(mtp_trace_check_file(file, NULL, &c));
    size_t count = mtp_check_breaches(c);
    mtp_check_destroy(c);
    return count;
}

/* The recovered file reports the loss once, is clean, and does not change if recovered again. */
static void recovers(const char *what, size_t block, bool lost)
{
    mtp_recovered found = MTP_RECOVERED_INIT, again = MTP_RECOVERED_INIT;
    assert_ok(mtp_recover(path, mended, &found));
    if (found.damaged_chunks + found.missing_chunks == 0)
        fail_msg("%s %zu: recover does not report the damage", what, block);
    if (breaches(mended) != 0)
        fail_msg("%s %zu: check finds something in what was recovered", what, block);
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    assert_ok(mtp_trace_file_info(mended, NULL, &info));
    if (info.ledger.kept != found.records || info.ledger.emitted != info.ledger.kept + info.ledger.dropped ||
        (lost && info.ledger.dropped_by[MTP_DROP_DAMAGED] + info.ledger.lost_definitions == 0))
        fail_msg("%s %zu: the ledger does not tell what is lost", what, block);
    assert_ok(mtp_recover(mended, path, &again));
    assert_int_equal(again.damaged_chunks + again.missing_chunks + again.lost_records, 0);
    size_t n, m;
    char *x = test_slurp(mended, &n), *y = test_slurp(path, &m);
    assert_true(n == m && memcmp(x, y, n) == 0);
    free(x);
    free(y);
}

/* Without the text before them, which reports the damage. */
static const char *events_of(const text *json)
{
    const char *at = strstr(json->bytes, "\"traceEvents\"");
    assert_non_null(at);
    return at;
}

static void judge(const char *bytes, size_t length, const text *before, const char *what, size_t block)
{
    static text after;
    bool said;
    test_spew(path, bytes, length);
    show(&after, &said);
    bool same = after.length == before->length && memcmp(after.bytes, before->bytes, after.length) == 0;
    if (!said && !same)
        fail_msg("%s %zu: another trace is shown, and nothing is said", what, block);
    if (said && breaches(path) == 0)
        fail_msg("%s %zu: the trace says damage, check does not", what, block);
    if (said)
        recovers(what, block, strcmp(events_of(&after), events_of(before)) != 0);
}

static char *recorded(plan p, size_t *length, text *shown)
{
    bool said;
    unlink(path);
    test_child(record, &p, 30);
    show(shown, &said);
    assert_false(said);
    if (p.policy != MTP_KEEP_NEWEST)
        assert_int_equal(breaches(path), 0);
    return test_slurp(path, length);
}

static void spoil_blocks(plan p)
{
    static text before, other_text;
    size_t length, other_length;
    char *other = recorded(p, &other_length, &other_text), *whole = recorded(p, &length, &before);
    char *bytes = malloc(length + BLOCK);
    size_t blocks = length / BLOCK, others = other_length / BLOCK;
    assert_true(blocks > 12 && others > 12);
    for (size_t i = 1; i < blocks; i++) {
        memcpy(bytes, whole, length);
        memset(bytes + i * BLOCK, 0, BLOCK);
        judge(bytes, length, &before, "block lost:", i);
        memcpy(bytes, whole, length);
        memcpy(bytes + i * BLOCK, whole + (1 + i * 7 % (blocks - 1)) * BLOCK, BLOCK);
        judge(bytes, length, &before, "block of another place:", i);
        memcpy(bytes, whole, length);
        memcpy(bytes + i * BLOCK, other + (1 + i % (others - 1)) * BLOCK, BLOCK);
        judge(bytes, length, &before, "block of another recording:", i);
        memcpy(bytes + i * BLOCK, other + i * BLOCK, i < others ? BLOCK : 0);
        judge(bytes, length, &before, "the same block of another recording:", i);
        memcpy(bytes, whole, length);
        memcpy(bytes + length, whole + i * BLOCK, BLOCK);
        judge(bytes, length + BLOCK, &before, "block again at the end:", i);
    }
    memset(bytes + BLOCK, 0, length - BLOCK);
    memcpy(bytes, whole, BLOCK);
    judge(bytes, length, &before, "all blocks lost:", 0);
    free(bytes);
    free(whole);
    free(other);
}

static void blocks_of_a_stopped_spool(void **state)
{
    (void)state;
    spoil_blocks((plan){.policy = MTP_STOP_WHEN_FULL, .buffer_bytes = 1 << 20});
    spoil_blocks((plan){.policy = MTP_STREAM, .buffer_bytes = 16 * BLOCK});
}

static void blocks_of_a_stopped_ring(void **state)
{
    (void)state;
    spoil_blocks((plan){.policy = MTP_KEEP_NEWEST, .buffer_bytes = 16 * BLOCK});
}

/* Its end is unknown, so only gaps between chunks and foreign blocks are reported as losses. */
static void blocks_of_a_killed_programs_spool(void **state)
{
    (void)state;
    static text before, other_text;
    size_t length, other_length;
    plan p = {.policy = MTP_STREAM, .buffer_bytes = 16 * BLOCK, .killed = true};
    char *other = recorded(p, &other_length, &other_text), *whole = recorded(p, &length, &before);
    char *bytes = malloc(length);
    uint32_t met[64] = {0};
    for (size_t i = 1; i < length / BLOCK; i++) {
        const mtp__chunk *c = (const mtp__chunk *)(const void *)(whole + i * BLOCK);
        bool inside = false;
        for (size_t k = i + 1; k < length / BLOCK; k++) {
            const mtp__chunk *later = (const mtp__chunk *)(const void *)(whole + k * BLOCK);
            inside = inside || (c->order != 0 && later->order != 0 && later->stream == c->stream);
        }
        memcpy(bytes, whole, length);
        memset(bytes + i * BLOCK, 0, BLOCK);
        if (c->stream == 0 ? inside : inside && met[c->stream % 64]++ > 0)
            judge(bytes, length, &before, "block lost:", i);
        memcpy(bytes + i * BLOCK, other + (1 + i % (other_length / BLOCK - 1)) * BLOCK, BLOCK);
        if (c->order != 0 && ((mtp__chunk *)(void *)(bytes + i * BLOCK))->order != 0)
            judge(bytes, length, &before, "block of another recording:", i);
    }
    free(bytes);
    free(whole);
    free(other);
}

/* How much is missing is unknown, but names that are used without being defined show that something is. */
static void names_that_were_cut_off_a_killed_programs_spool_are_missed(void **state)
{
    (void)state;
    static text before, after;
    size_t length, nameless = 0;
    bool said;
    plan p = {.policy = MTP_STREAM, .buffer_bytes = 16 * BLOCK, .killed = true};
    char *whole = recorded(p, &length, &before);
    assert_null(strstr(before.bytes, "\"?\""));
    for (size_t bytes = 2 * BLOCK; bytes < length; bytes += BLOCK) {
        test_spew(path, whole, bytes);
        show(&after, &said);
        bool unknown = strstr(after.bytes, "\"name\": \"?\"") != NULL;
        nameless += unknown;
        if (unknown && (!said || breaches(path) == 0))
            fail_msg("cut at %zu: names are missing, and nothing is said", bytes);
    }
    assert_true(nameless > 0);
    free(whole);
}

/* A stream that may not grow any more has no room for its ledger: it is in the header. */
static void what_was_dropped_is_told_by_a_file_without_room(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = MTP_STREAM;
    c.chunk_bytes = BLOCK;
    c.spool_bytes = 12 * BLOCK;
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < 20000; i++)
        work(i);
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger ledger = ledger_of(prof);
    mtp_profile_destroy(prof);
    assert_true(ledger.kept > 0 && ledger.dropped_by[MTP_DROP_DISK] > ledger.kept);
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    assert_ok(mtp_trace_file_info(path, NULL, &info));
    assert_true(info.has_ledger);
    assert_int_equal(info.ledger.emitted, ledger.emitted);
    assert_int_equal(info.ledger.kept, ledger.kept);
    assert_int_equal(info.ledger.dropped_by[MTP_DROP_DISK], ledger.dropped_by[MTP_DROP_DISK]);
    assert_int_equal(info.ledger.lost_definitions, ledger.lost_definitions);
    assert_int_equal(info.damaged_chunks, 0);
    mtp_check *check;
    assert_ok(mtp_trace_check_file(path, NULL, &check));
    assert_true(mtp_check_breaches(check) > 0);
    mtp_check_destroy(check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(blocks_of_a_stopped_spool),
        TEST(blocks_of_a_stopped_ring),
        TEST(blocks_of_a_killed_programs_spool),
        TEST(names_that_were_cut_off_a_killed_programs_spool_are_missed),
        TEST(what_was_dropped_is_told_by_a_file_without_room),
    };
    snprintf(path, sizeof path, "%s", test_path("blocks.mtp"));
    snprintf(mended, sizeof mended, "%s", test_path("mended.mtp"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
