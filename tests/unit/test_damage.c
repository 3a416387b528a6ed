/* Unit: spools damaged in ways that checksums do not catch: words are changed and the chunk is resealed,
 * headers have impossible values, files are truncated. Every reader must return a result or a status; run
 * under sanitizers. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <unistd.h>

static char *whole;
static size_t whole_bytes;
static char path[512]; /* of the damaged file */

static void record_work(uint64_t now)
{
    mtp_device_info info = MTP_DEVICE_INFO_INIT;
    info.name = "an accelerator";
    mtp_device_describe(MTP_DEVICE_NPU(0), &info);
    mtp_device_clock(MTP_DEVICE_NPU(0), 1000, now, 10);
    mtp_device_clock(MTP_DEVICE_NPU(0), 900000, now + 1000000, 10);
    for (uint64_t i = 0; i < 20; i++) {
        mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
        work.start = 2000 + 100 * i;
        work.end = work.start + 50;
        work.queued = work.start - 10;
        work.clock = i % 3 == 0 ? MTP_CLOCK_DEVICE : i % 3 == 1 ? MTP_CLOCK_MONOTONIC : MTP_CLOCK_TICKS;
        work.correlation = i + 1;
        mtp_device_event(&work);
    }
}

static int make_whole(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s", test_path("damage.mtp"));
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = MTP_STREAM;
    c.activities = MTP_CPU | MTP_NPU;
    c.record_shapes = c.profile_memory = c.with_flops = true;
    mtp_profile *prof = test_start(&c);
    assert_ok(mtp_profile_add_metadata_json(prof, "key", "{\"a\": 1}"));
    int64_t dims[2] = {3, 4};
    mtp_input input = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    for (int i = 0; i < 150; i++) {
        char name[32];
        mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
        dims[0] = i % 7;
        op.inputs = op.outputs = &input;
        op.input_count = op.output_count = 1;
        op.sequence = i;
        op.args = "\"x\": 1";
        mtp_op_begin(&op);
        mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "run-time %d", i % 50)));
        mtp_memory_event(MTP_DEVICE_CPU, &name[i % 8], i % 3 == 0 ? -100 : 100, 100, 200);
        mtp_counter(MTP_NAME("counter"), i);
        mtp_mark(MTP_NAME("mark"));
        mtp_op_end(&op);
    }
    record_work(mtp_ticks());
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    whole = test_slurp(path, &whole_bytes);
    assert_true(whole_bytes > 8 * 4096);
    return 0;
}

static int free_whole(void **state)
{
    (void)state;
    free(whole);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ reading */

static bool swallow(void *user, const void *bytes, size_t length)
{
    (void)bytes;
    *(size_t *)user += length;
    return true;
}

static void analyse(const mtp_trace *t)
{
    size_t n = 0;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    assert_ok(mtp_trace_get_info(t, &info));
    assert_true(info.first_ns <= info.last_ns);
    mtp_averages *rows;
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_input_shape = true;
    assert_ok(mtp_averages_create(t, &options, &rows));
    assert_ok(mtp_averages_table(rows, NULL, swallow, &n));
    assert_ok(mtp_averages_json(rows, swallow, &n));
    mtp_averages_destroy(rows);
    assert_ok(mtp_trace_chrome(t, NULL, swallow, &n));
    assert_ok(mtp_trace_execution_trace(t, swallow, &n));
    mtp_steps *steps;
    assert_ok(mtp_steps_create(t, &steps));
    assert_ok(mtp_steps_json(steps, swallow, &n));
    mtp_steps_destroy(steps);
    mtp_memory_timeline *memory;
    if (mtp_memory_timeline_create(t, NULL, &memory) == MTP_OK) {
        assert_ok(mtp_memory_timeline_json(memory, swallow, &n));
        assert_ok(mtp_memory_timeline_summary(memory, 10, swallow, &n));
        mtp_memory_timeline_destroy(memory);
    }
    mtp_events *events;
    size_t count = 0;
    assert_ok(mtp_events_create(t, &events));
    assert_ok(mtp_events_count(events, &count));
    for (size_t i = 0; i < count; i++) {
        mtp_event e = {.size = sizeof e};
        assert_ok(mtp_events_get(events, i, &e));
    }
    mtp_events_destroy(events);
}

/* Everything that opens a file; error messages begin with the file's name. */
static bool read_all(const void *bytes, size_t length)
{
    mtp_trace *t;
    mtp_check *c;
    test_spew(path, bytes, length);
    mtp_status status = mtp_trace_open(path, NULL, &t);
    if (status == MTP_OK)
        analyse(t);
    else
        assert_true(status == MTP_E_FORMAT && strncmp(mtp_last_error(), path, strlen(path)) == 0);
    mtp_trace_destroy(t);
    mtp_status checked = mtp_trace_check_file(path, NULL, &c);
    assert_true(checked == MTP_OK || checked == MTP_E_FORMAT);
    mtp_check_destroy(c);
    return status == MTP_OK;
}

static uint64_t odd_word(uint64_t was)
{
    static const uint64_t words[] = {0,
                                     1,
                                     UINT64_MAX,
                                     INT64_MAX,
                                     (uint64_t)1 << 63,
                                     (uint64_t)1 << 62,
                                     UINT32_MAX,
                                     (uint64_t)1 << 60,
                                     (uint64_t)1 << 56,
                                     0x7ff0000000000000u,
                                     0x7ff8000000000000u};
    switch (test_below(4)) {
    case 0:
        return was ^ (uint64_t)1 << test_below(64);
    case 1:
        return test_random();
    case 2:
        return was + test_below(5) - 2;
    default:
        return words[test_below(COUNT(words))];
    }
}

static size_t chunk_count(void)
{
    size_t count = 0;
    while (test_chunk(whole, whole_bytes, count) != NULL)
        count++;
    return count;
}

/* `span`: the original, to tell how many words there are. */
static void reseal(mtp__chunk *c, uint32_t span)
{
    c->words = mtp__chunk_written(mtp__chunk_words(c), mtp__span_words(span));
    if (c->stream == 0)
        test_seal_control(c);
    c->checksum = mtp__chunk_checksum(c, mtp__chunk_words(c));
    mtp__chunk_seal_head(c);
}

/* ------------------------------------------------------------------------------------------------- tests */

static void words_that_were_changed_and_sealed_are_survived(void **state)
{
    (void)state;
    size_t chunks = chunk_count();
    char *bytes = malloc(whole_bytes);
    for (int round = 0; round < test_scaled(600); round++) {
        memcpy(bytes, whole, whole_bytes);
        for (uint64_t n = 1 + test_below(6); n > 0; n--) {
            char *intact = (char *)test_chunk(whole, whole_bytes, test_below(chunks));
            mtp__chunk *c = (mtp__chunk *)(void *)(bytes + (intact - whole));
            uint32_t span = ((mtp__chunk *)(void *)intact)->span, room = mtp__span_words(span);
            uint64_t *w = test_below(8) == 0
                              ? (uint64_t *)(void *)c + test_below(MTP__CHUNK_HEADER_WORDS)
                              : mtp__chunk_words(c) + test_below(c->words < room ? c->words + 1 : room);
            *w = odd_word(*w);
            if (test_below(8) != 0)
                reseal(c, span);
            else
                c->checksum = 0; /* as if still open */
        }
        read_all(bytes, whole_bytes);
    }
    free(bytes);
}

/* All times depend on anchors: each of their words takes every odd value. */
static void anchors_that_no_clock_gives_are_survived(void **state)
{
    (void)state;
    char *bytes = malloc(whole_bytes);
    for (int round = 0; round < test_scaled(300); round++) {
        memcpy(bytes, whole, whole_bytes);
        mtp__chunk *c;
        for (size_t i = 0; (c = test_chunk(bytes, whole_bytes, i)) != NULL; i++) {
            uint64_t *w = mtp__chunk_words(c);
            for (uint32_t at = 0; c->stream == 0 && at < c->words;) {
                uint32_t length =
                    MTP__WORD0_LENGTH(w[at]) != 0 ? MTP__WORD0_LENGTH(w[at]) : (uint32_t)(w[at + 1] >> 32);
                if ((MTP__CONTROL_KIND(w[at + 1]) == MTP__CONTROL_ANCHOR ||
                     MTP__CONTROL_KIND(w[at + 1]) == MTP__CONTROL_SESSION) &&
                    test_below(2) == 0)
                    w[at + 2 + test_below(length - 2)] = odd_word(w[at + 2]);
                at += length;
            }
            reseal(c, c->span);
        }
        assert_true(read_all(bytes, whole_bytes));
    }
    free(bytes);
}

/* An anchor is written when it is read: one with ticks elsewhere is damaged, and does not affect times. */
static void an_anchor_whose_ticks_are_elsewhere_is_counted_and_changes_nothing(void **state)
{
    (void)state;
    mtp_trace *t;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    char *bytes = malloc(whole_bytes);
    memcpy(bytes, whole, whole_bytes);
    test_spew(path, whole, whole_bytes);
    assert_ok(mtp_trace_open(path, NULL, &t));
    assert_ok(mtp_trace_get_info(t, &info));
    mtp_trace_destroy(t);
    const int64_t end = info.last_ns;
    bool done = false;
    mtp__chunk *c;
    for (size_t i = 0; !done && (c = test_chunk(bytes, whole_bytes, i)) != NULL; i++) {
        uint64_t *w = mtp__chunk_words(c);
        for (uint32_t at = 0; c->stream == 0 && at < c->words && !done;) {
            done = MTP__CONTROL_KIND(w[at + 1]) == MTP__CONTROL_ANCHOR;
            if (done)
                w[at + 2] = w[at + 2] >> 42 != 0 ? w[at + 2] / 2 : w[at + 2] + ((uint64_t)1 << 45);
            at += MTP__WORD0_LENGTH(w[at]) != 0 ? MTP__WORD0_LENGTH(w[at]) : (uint32_t)(w[at + 1] >> 32);
        }
        reseal(c, c->span);
    }
    assert_true(done);
    test_spew(path, bytes, whole_bytes);
    assert_ok(mtp_trace_open(path, NULL, &t));
    assert_ok(mtp_trace_get_info(t, &info));
    assert_int_equal(info.clock_faults, 1);
    if (info.last_ns > end || info.last_ns < -end)
        fail_msg("it ends at %lld, not %lld", (long long)info.last_ns, (long long)end);
    mtp_trace_destroy(t);
    free(bytes);
}

static void headers_that_cannot_be_are_survived(void **state)
{
    (void)state;
    char *bytes = malloc(whole_bytes);
    for (int round = 0; round < test_scaled(200); round++) {
        memcpy(bytes, whole, whole_bytes);
        uint64_t *w = (uint64_t *)(void *)bytes + 1 + test_below(5);
        *w = odd_word(*w);
        if (test_below(2) == 0)
            test_seal_header(bytes);
        read_all(bytes, test_below(2) == 0 ? whole_bytes : 8 + test_below(whole_bytes - 8));
    }
    free(bytes);
}

/* A complete spool that lost its end opens, and reports how much is missing. */
static void a_cut_spool_says_what_is_missing(void **state)
{
    (void)state;
    size_t chunks = whole_bytes / 4096 - 1;
    for (size_t left = 0; left <= chunks; left++)
        for (size_t more = 0; more < 4096 && left + (more > 0) <= chunks; more += 1500) {
            mtp_trace *t;
            mtp_trace_info info = MTP_TRACE_INFO_INIT;
            test_spew(path, whole, (left + 1) * 4096 + more);
            assert_ok(mtp_trace_open(path, NULL, &t));
            assert_ok(mtp_trace_get_info(t, &info));
            assert_int_equal(info.missing_chunks, chunks - left);
            assert_int_equal(info.outcome, MTP_OUTCOME_STOPPED);
            mtp_trace_info old; /* a caller compiled before these fields existed */
            memset(&old, 0xee, sizeof old);
            old.size = offsetof(mtp_trace_info, bad_durations);
            assert_ok(mtp_trace_get_info(t, &old));
            assert_int_equal(old.spans, info.spans);
            assert_int_equal(old.missing_chunks, 0xeeeeeeeeeeeeeeee);
            assert_int_equal(old.size, offsetof(mtp_trace_info, bad_durations));
            mtp_trace_destroy(t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(words_that_were_changed_and_sealed_are_survived),
        TEST(anchors_that_no_clock_gives_are_survived),
        TEST(an_anchor_whose_ticks_are_elsewhere_is_counted_and_changes_nothing),
        TEST(headers_that_cannot_be_are_survived),
        TEST(a_cut_spool_says_what_is_missing),
    };
    return cmocka_run_group_tests_name("damage", tests, make_whole, free_whole);
}
