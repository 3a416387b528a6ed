/* Unit: one bit of a spool is flipped, in each byte of its header, the header's copy, all control chunks and
 * every chunk's header: readers show what was recorded, or report damage. For a recording that was stopped,
 * and for one whose process was killed. */
#define _GNU_SOURCE
#include "tests/test.h"
#include "tests/unit/kept_text.h"
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static char path[512]; /* of the damaged file */

/* Definitions of every kind, a long one in parts, chunks of two threads. */
static void record(void *arg)
{
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = MTP_STREAM;
    c.record_shapes = c.profile_memory = true;
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    CHILD_CHECK(mtp_profile_add_metadata_json(prof, "key", "{\"a\": 1}") == MTP_OK);
    mtp_device_info info = MTP_DEVICE_INFO_INIT;
    info.name = "an accelerator";
    mtp_device_describe(MTP_DEVICE_NPU(0), &info);
    int64_t dims[2] = {3, 4};
    mtp_input input = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    static char longest[2600];
    memset(longest, 'x', sizeof longest - 1);
    mtp_scope_end(mtp_scope_begin_text(longest, sizeof longest - 1));
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    for (int i = 0; i < 60; i++) {
        char name[32];
        mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
        dims[0] = i % 7;
        op.inputs = &input;
        op.input_count = 1;
        op.args = "\"x\": 1";
        mtp_op_begin(&op);
        mtp_scope_end(mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "run-time %d", i % 5)));
        mtp_memory_event(MTP_DEVICE_CPU, &name[i % 8], 100, 100, 200);
        mtp_counter(MTP_NAME("counter"), i);
        mtp_mark(MTP_NAME("mark"));
        mtp_op_end(&op);
    }
    if (arg != NULL)
        kill(getpid(), SIGKILL);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_profile_destroy(prof);
}

/* The whole trace as text, and its duration; false: it does not open. */
static bool shown(text *json, int64_t *extent, bool *said)
{
    mtp_trace *t;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    json->length = 0;
    if (mtp_trace_open(path, NULL, &t) != MTP_OK)
        return false;
    assert_ok(mtp_trace_get_info(t, &info));
    *said = info.damaged_chunks > 0 || info.damaged_header || info.missing_chunks > 0;
    *extent = info.last_ns - info.first_ns;
    assert_ok(mtp_trace_chrome(t, NULL, keep, json));
    mtp_trace_destroy(t);
    return true;
}

static bool check_is_clean(void)
{
    mtp_check *c;
    mtp_status status = mtp_trace_check_file(path, NULL, &c);
    bool clean = status == MTP_OK && mtp_check_breaches(c) == 0;
    mtp_check_destroy(c);
    return clean;
}

static bool judged(const char *bytes, size_t at)
{
    if (at < 4096)
        return at < sizeof(mtp__spool_header) ||
               (at >= MTP__SPOOL_COPY_AT && at < MTP__SPOOL_COPY_AT + sizeof(mtp__spool_header));
    const mtp__chunk *c = (const mtp__chunk *)(const void *)(bytes + at / 4096 * 4096);
    return c->order != 0 && (c->stream == 0 || at % 4096 < sizeof *c);
}

static void flip_all(bool killed)
{
    static text before, after;
    size_t bytes, flips = 0, told = 0, refused = 0;
    int64_t extent = 0, now = 0;
    bool said = false;
    snprintf(path, sizeof path, "%s", test_path("flips.mtp"));
    unlink(path);
    test_child(record, killed ? path : NULL, 30);
    char *whole = test_slurp(path, &bytes);
    assert_true(shown(&before, &extent, &said) && !said && check_is_clean());
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_non_null(strstr(before.bytes, "run-time 4"));
    unsigned passes = (unsigned)test_scaled(1), start = (unsigned)test_below(8);
    for (size_t at = 0; at < bytes; at++)
        for (unsigned pass = 0; pass < passes && pass < 8 && judged(whole, at); pass++) {
            unsigned bit = (start + pass + (unsigned)at * 5) % 8;
            char flipped = (char)(whole[at] ^ 1 << bit);
            assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
            flips++;
            bool opens = shown(&after, &now, &said);
            bool clean = opens && said && check_is_clean();
            assert_int_equal(pwrite(fd, &whole[at], 1, (off_t)at), 1);
            if (!opens) {
                refused++;
                continue;
            }
            told += said;
            if (!said &&
                (after.length != before.length || memcmp(after.bytes, before.bytes, after.length) != 0))
                fail_msg("byte %zu, bit %u: another trace is shown, and nothing is said", at, bit);
            if (clean)
                fail_msg("byte %zu, bit %u: the trace says damage, check does not", at, bit);
            if (now < 0 || (double)now > 1.2 * (double)extent + 5e7) /* it may begin with the file instead */
                fail_msg("byte %zu, bit %u: %lld ns have become %lld", at, bit, (long long)extent,
                         (long long)now);
        }
    fprintf(stderr, "%zu flips: damage was said of %zu, %zu were refused\n", flips, told, refused);
    assert_true(flips > 4096 && refused == 0 && told > flips / 8);
    close(fd);
    free(whole);
}

static void a_flipped_bit_of_a_stopped_spool_shows_nothing_wrong(void **state)
{
    (void)state;
    flip_all(false);
}

static void a_flipped_bit_of_a_killed_programs_spool_shows_nothing_wrong(void **state)
{
    (void)state;
    flip_all(true);
}

/* Times also depend on the header. */
static void without_its_control_stream_times_are_as_they_were(void **state)
{
    (void)state;
    static text before, after;
    size_t bytes;
    int64_t extent = 0, now = 0;
    bool said = false;
    snprintf(path, sizeof path, "%s", test_path("control.mtp"));
    test_child(record, NULL, 30);
    char *whole = test_slurp(path, &bytes);
    assert_true(shown(&before, &extent, &said));
    for (size_t at = 4096; at < bytes; at += 4096)
        if (((mtp__chunk *)(void *)(whole + at))->stream == 0)
            memset(whole + at + sizeof(mtp__chunk), 0x55, 4096 - sizeof(mtp__chunk));
    test_spew(path, whole, bytes);
    assert_true(shown(&after, &now, &said) && said);
    assert_true((double)now > 0.95 * (double)extent && (double)now < 1.05 * (double)extent);
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_flipped_bit_of_a_stopped_spool_shows_nothing_wrong),
        TEST(a_flipped_bit_of_a_killed_programs_spool_shows_nothing_wrong),
        TEST(without_its_control_stream_times_are_as_they_were),
    };
    test_path("folder");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
