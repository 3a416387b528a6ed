/* Unit: record/spool: files that are intact, truncated, corrupted, or not spools at all. */
#define _GNU_SOURCE
#include "tests/test.h"
#include "record/checks.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file of a finished session, with all kinds of records. */
static char *whole;
static size_t whole_bytes;

static int make_whole(void **state)
{
    (void)state;
    const char *path = test_path("whole.mtp");
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = MTP_STREAM;
    c.record_shapes = c.profile_memory = true;
    mtp_profile *prof = test_start(&c);
    int64_t dims[2] = {3, 4};
    mtp_input input = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    for (int i = 0; i < 400; i++) {
        char name[32];
        mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
        dims[0] = i % 7;
        op.inputs = &input;
        op.input_count = 1;
        op.sequence = i;
        mtp_op_begin(&op);
        mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "run-time %d", i % 50)));
        mtp_memory_event(MTP_DEVICE_CPU, name, 100, 100, 200);
        mtp_counter(MTP_NAME("counter"), i);
        mtp_op_end(&op);
    }
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    mtp_profile_destroy(prof);
    whole = test_slurp(path, &whole_bytes);
    assert_true(whole_bytes > 10 * 4096);
    return 0;
}

static int free_whole(void **state)
{
    (void)state;
    free(whole);
    return 0;
}

static void a_finished_file_is_complete_and_balanced(void **state)
{
    (void)state;
    const char *path = test_path("a.mtp");
    test_spew(path, whole, whole_bytes);
    seen s = {0};
    assert_ok(seen_spool(&s, path));
    assert_string_equal(s.problem, "");
    assert_true(s.report.complete);
    assert_int_equal(s.report.unsealed, 0);
    assert_int_equal(s.report.damaged, 0);
    const seen_words *ledger = seen_control(&s, MTP__CONTROL_LEDGER, 0);
    assert_int_equal(ledger->word[0], ledger->word[1] + ledger->word[2]);
    assert_int_equal(ledger->word[1], s.records);
    assert_int_equal(s.records, 400 * 6 + 1);
    seen_free(&s);
}

static mtp_status count_control(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    (void)words, (void)count;
    ((int *)user)[chunk->stream != 0]++;
    return MTP_OK;
}

static void the_control_stream_can_be_read_alone(void **state)
{
    (void)state;
    const char *path = test_path("a.mtp");
    int chunks[2] = {0, 0};
    test_spew(path, whole, whole_bytes);
    assert_ok(mtp__spool_visit_control(path, count_control, chunks, NULL));
    assert_true(chunks[0] > 0);
    assert_int_equal(chunks[1], 0);
}

static mtp_status refuse(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    (void)chunk, (void)words, (void)count;
    return --*(int *)user == 0 ? MTP_E_UNSUPPORTED : MTP_OK;
}

static void a_visitors_status_ends_the_visit(void **state)
{
    (void)state;
    const char *path = test_path("a.mtp");
    int after = 3;
    test_spew(path, whole, whole_bytes);
    assert_int_equal(mtp__spool_visit(path, refuse, &after, NULL), MTP_E_UNSUPPORTED);
    assert_int_equal(after, 0);
}

/* ------------------------------------------------------------------------------------------ not spools */

static void files_that_are_no_spools_are_refused_in_words(void **state)
{
    (void)state;
    const char *path = test_path("not.mtp");
    seen s = {0};
    assert_int_equal(seen_spool(&s, test_path("missing.mtp")), MTP_E_IO);
    assert_says("No such file");
    assert_int_equal(seen_spool(&s, "/tmp"), MTP_E_FORMAT);
    assert_says("not a regular file");
    assert_int_equal(seen_spool(&s, "/dev/zero"), MTP_E_FORMAT);
    for (size_t bytes = 0; bytes < sizeof(mtp__spool_header); bytes++) {
        test_spew(path, whole, bytes);
        assert_int_equal(seen_spool(&s, path), MTP_E_FORMAT);
        assert_says(bytes < 8 ? "not an mtprof spool" : "header is truncated");
    }
    test_spew(path, "{\"traceEvents\": []}                                            ", 64);
    assert_int_equal(seen_spool(&s, path), MTP_E_FORMAT);
}

static void a_fifo_is_refused_and_not_waited_for(void **state)
{
    (void)state;
    const char *path = test_path("fifo");
    seen s = {0};
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(seen_spool(&s, path), MTP_E_FORMAT);
    assert_says("not a regular file");
}

static void a_newer_version_and_impossible_sizes_are_reported(void **state)
{
    (void)state;
    const char *path = test_path("header.mtp");
    seen s = {0};
    mtp__spool_header h;
    memcpy(&h, whole, sizeof h);
    static const uint32_t version[] = {0, MTP__FORMAT_VERSION + 1, UINT32_MAX};
    for (size_t i = 0; i < COUNT(version); i++) {
        h.version = version[i];
        h.check = mtp__spool_check(&h);
        test_spew(path, &h, sizeof h);
        assert_int_equal(seen_spool(&s, path), MTP_E_FORMAT);
        assert_says("this library reads version 4");
    }
    static const uint32_t size[] = {0, 1, 2048, 4095, 4097, 12288, 2u << 20, UINT32_MAX, 1u << 31};
    for (size_t i = 0; i < COUNT(size); i++) {
        h.version = MTP__FORMAT_VERSION;
        h.chunk_bytes = size[i];
        h.check = mtp__spool_check(&h);
        test_spew(path, &h, sizeof h);
        assert_int_equal(seen_spool(&s, path), MTP_E_FORMAT);
        assert_says("is not a valid chunk size");
    }
    h.chunk_bytes = 4096;
    h.check = mtp__spool_check(&h);
    test_spew(path, &h, sizeof h); /* only a header: an empty recording */
    assert_ok(seen_spool(&s, path));
    assert_int_equal(s.records, 0);
    seen_free(&s);
}

static void spools_are_known_by_their_first_bytes(void **state)
{
    (void)state;
    assert_true(mtp__spool_recognise(whole, 8));
    assert_true(mtp__spool_recognise(whole, whole_bytes));
    assert_false(mtp__spool_recognise(whole, 7));
    assert_false(mtp__spool_recognise("mtprof2\n", 8));
    assert_false(mtp__spool_recognise("", 0));
}

/* A header may contain anything: no number in it costs memory or time before it is checked. */
static void a_huge_hole_is_not_a_chunk(void **state)
{
    (void)state;
    const char *path = test_path("hole.mtp");
    seen s = {0};
    test_spew(path, whole, whole_bytes);
    assert_int_equal(truncate(path, (off_t)256 << 20), 0);
    size_t rss = test_rss();
    assert_ok(seen_spool(&s, path));
    assert_string_equal(s.problem, "");
    assert_int_equal(s.records, 400 * 6 + 1);
    assert_int_equal(s.report.damaged, 0);
    if (!TEST_TSAN && !TEST_ASAN)
        assert_true(test_rss() < rss + (16 << 20));
    seen_free(&s);
}

/* Holes in the file are not read. */
static void holes_of_terabytes_are_passed_over(void **state)
{
    (void)state;
    const char *path = test_path("holes.mtp");
    test_spew(path, whole, whole_bytes);
    if (truncate(path, (off_t)1 << 42) != 0)
        skip(); /* a file system without sparse files */
    mtp_check *check;
    mtp_trace *trace;
    mtp__fault_plan(1u << MTP__FAULT_READ, 5000, true);
    mtp_status opened = mtp_trace_open(path, NULL, &trace),
               checked = mtp_trace_check_file(path, NULL, &check);
    assert_int_equal(mtp__fault_stop(), 0);
    assert_int_equal(opened, MTP_OK);
    assert_int_equal(checked, MTP_OK);
    assert_int_equal(mtp_check_events(check), 400 * 6 + 1);
    mtp_check_destroy(check);
    mtp_trace_destroy(trace);
}

/* ------------------------------------------------------------------------------------- cut and flipped */

/* Every record of `part` is at the same place in its stream in the whole file. */
static void assert_prefix(const seen *all, const seen *part, const char *what, size_t where)
{
    static size_t next[64];
    assert_true(all->streams < COUNT(next));
    memset(next, 0, sizeof next);
    for (size_t i = 0; i < part->records; i++) {
        const seen_record *r = &part->record[i];
        size_t *at = &next[r->stream % COUNT(next)];
        while (*at < all->records && all->record[*at].stream != r->stream)
            ++*at;
        if (*at == all->records || memcmp(&all->record[*at], r, sizeof *r) != 0)
            fail_msg("%s at %zu: record %zu is not one that was written", what, where, i);
        ++*at;
    }
}

static void a_file_cut_anywhere_gives_a_prefix(void **state)
{
    (void)state;
    const char *path = test_path("cut.mtp");
    seen all = {0}, s = {0};
    test_spew(path, whole, whole_bytes);
    assert_ok(seen_spool(&all, path));
    size_t step = (size_t)(test_scaled(100) >= 1000 ? 1 : TEST_TSAN ? 97 : 13), last_records = SIZE_MAX;
    size_t from = whole_bytes > 65536 ? whole_bytes - 65536 : 0;
    for (size_t bytes = whole_bytes; bytes > from + step; bytes -= step) {
        assert_int_equal(truncate(path, (off_t)bytes), 0);
        mtp_status status = seen_spool(&s, path);
        if (bytes < sizeof(mtp__spool_header)) {
            assert_int_equal(status, MTP_E_FORMAT);
        } else {
            assert_int_equal(status, MTP_OK);
            assert_true(s.report.damaged <= 1);
            assert_prefix(&all, &s, "cut", bytes);
            assert_true(s.records <= last_records);
            last_records = s.records;
        }
        seen_free(&s);
    }
    test_row(3, (whole_bytes - from) / step, "cut at every %zuth byte", step);
    test_spew(path, whole, sizeof(mtp__spool_header));
    assert_ok(seen_spool(&s, path));
    assert_int_equal(s.records, 0);
    seen_free(&s);
    seen_free(&all);
}

static mtp_status compare_chunk(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    if (chunk->stream == 0) { /* the intact records of a damaged chunk are returned */
        for (uint32_t at = 0, length; at < count; at += length) {
            length = (uint32_t)(words[at + 1] >> 32);
            *(int *)user += memmem(whole, whole_bytes, words + at, length * sizeof *words) == NULL;
        }
        return MTP_OK;
    }
    *(int *)user += !test_chunk_is_in(whole, whole_bytes, chunk, words, count);
    return MTP_OK;
}

/* All chunks of a finished file are sealed: a flipped bit costs its chunk, and no wrong data is ever read. */
static void a_flipped_bit_never_makes_a_wrong_record(void **state)
{
    (void)state;
    const char *path = test_path("flip.mtp");
    int passed_over = 0;
    size_t chunks = 0;
    while (test_chunk(whole, whole_bytes, chunks) != NULL)
        chunks++;
    for (int round = 0; round < test_scaled(4000); round++) {
        size_t bit = test_below(whole_bytes * 8);
        int wrong = 0;
        mtp__spool_report report = {0};
        whole[bit / 8] ^= (char)(1 << bit % 8);
        test_spew(path, whole, whole_bytes);
        whole[bit / 8] ^= (char)(1 << bit % 8);
        mtp_status status = mtp__spool_visit(path, compare_chunk, &wrong, &report);
        if (wrong != 0)
            fail_msg("bit %zu flipped: a wrong chunk was given out", bit);
        if (bit / 8 >= 4096) {
            assert_int_equal(status, MTP_OK);
            assert_in_range(report.chunks, chunks - 1, chunks); /* control chunks may be read in part */
            passed_over += report.damaged == 1;
        } else {
            assert_true(status == MTP_OK || status == MTP_E_FORMAT);
        }
    }
    assert_true(passed_over > test_scaled(4000) / 2);
    test_row(3, (uint64_t)test_scaled(4000), "bits flipped, no wrong record");
}

static void many_flips_and_a_cut_end_in_a_status(void **state)
{
    (void)state;
    const char *path = test_path("noise.mtp");
    char *noise = malloc(whole_bytes);
    for (int round = 0; round < test_scaled(1500); round++) {
        memcpy(noise, whole, whole_bytes);
        for (uint64_t flips = 1 + test_below(200); flips > 0; flips--) {
            size_t at = test_below(4) == 0 ? test_below(whole_bytes / 4096) * 4096 + test_below(64)
                                           : test_below(whole_bytes);
            noise[at] = (char)test_random();
        }
        test_spew(path, noise, 1 + test_below(whole_bytes));
        int wrong = 0;
        mtp_status status = mtp__spool_visit(path, compare_chunk, &wrong, NULL);
        assert_true(status == MTP_OK || status == MTP_E_FORMAT);
    }
    free(noise);
}

/* --------------------------------------------------------------------------------------- failing calls */

static void reading_survives_every_failing_call(void **state)
{
    (void)state;
    const char *path = test_path("faults.mtp");
    test_spew(path, whole, whole_bytes);
    for (int forever = 0; forever < 2; forever++)
        for (int nth = 1;; nth++) {
            int wrong = 0;
            mtp__spool_report report;
            long live = mtp__alloc_live();
            mtp__fault_plan(MTP__FAULTS_ALL, nth, forever);
            mtp_status status = mtp__spool_visit(path, compare_chunk, &wrong, &report);
            int fired = mtp__fault_stop();
            assert_int_equal(wrong, 0);
            assert_int_equal(mtp__alloc_live(), live);
            if (fired == 0) {
                assert_int_equal(status, MTP_OK);
                assert_true(nth > (int)(whole_bytes / 4096));
                break;
            }
            /* either it fails, or it reports how much is missing */
            assert_true(status == MTP_E_NOMEM || status == MTP_E_IO ||
                        (status == MTP_OK && (report.damaged > 0 || report.header_damaged)));
        }
}

/* Threads define names as soon as there is a recorder: before the thread that starts it has written the session. */
static void a_name_that_comes_first_does_not_cost_the_processs_own_record(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.spool = test_path("early.mtp");
    mtp_profile *prof = test_create(&c);
    assert_ok(mtp_profile_prepare_trace(prof));
    assert_true(mtp__recorder_blob(prof->recorder, MTP__CONTROL_NAME, 1, "early", 5));
    assert_ok(mtp_profile_start_trace(prof));
    assert_ok(mtp_profile_stop_trace(prof));
    seen s = {0};
    assert_ok(seen_spool(&s, test_path("early.mtp")));
    assert_int_equal(seen_control(&s, MTP__CONTROL_SESSION, 0)->word[5], getppid());
    seen_free(&s);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_finished_file_is_complete_and_balanced),
        TEST(the_control_stream_can_be_read_alone),
        TEST(a_visitors_status_ends_the_visit),
        TEST(files_that_are_no_spools_are_refused_in_words),
        TEST(a_fifo_is_refused_and_not_waited_for),
        TEST(a_newer_version_and_impossible_sizes_are_reported),
        TEST(spools_are_known_by_their_first_bytes),
        TEST(a_huge_hole_is_not_a_chunk),
        TEST(holes_of_terabytes_are_passed_over),
        TEST(a_file_cut_anywhere_gives_a_prefix),
        TEST(a_flipped_bit_never_makes_a_wrong_record),
        TEST(many_flips_and_a_cut_end_in_a_status),
        TEST(reading_survives_every_failing_call),
        TEST(a_name_that_comes_first_does_not_cost_the_processs_own_record),
    };
    return cmocka_run_group_tests(tests, make_whole, free_whole);
}
