/* Unit: what must stay small however long it runs, and what must be readable however large or odd it is.
 * Loops are short here; `make reliability` runs them at the scale of docs/reliability.md. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/test.h"
#include "trace/trace.h"

#define MIB ((size_t)1 << 20)
#define MEASURED (!TEST_ASAN && !TEST_TSAN) /* the sanitizer's memory is not ours */

static bool swallow(void *user, const void *bytes, size_t length)
{
    (void)bytes;
    *(uint64_t *)user += length;
    return true;
}

/* The peak memory of this process, in bytes. */
static size_t peak_rss(void)
{
    char line[256];
    size_t kib = 0;
    FILE *f = getenv("MTP_TEST_VALGRIND") == NULL ? fopen("/proc/self/status", "r") : NULL;
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmHWM: %zu kB", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib << 10;
}

/* From now on. */
static void forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "5", 1) != 1)
        fprintf(stderr, "the peak of memory cannot be reset\n");
    if (fd >= 0)
        close(fd);
}

/* ------------------------------------------------------------------------------- recording without an end */

/* reliability.md 11 */
static void a_flight_recorder_stays_within_its_budget(void **state)
{
    (void)state;
    uint64_t each = (uint64_t)test_scaled(1000000);
    for (int filed = 0; filed < 2; filed++) {
        char path[512];
        snprintf(path, sizeof path, "%s", test_path("ring.mtp"));
        mtp_profile_config c = test_config(NULL);
        c.when_full = MTP_KEEP_NEWEST;
        c.buffer_bytes = 4u << 20;
        c.spool = filed ? path : NULL;
        mtp_profile *prof = test_start(&c);
        for (int i = 0; i < 400000; i++) /* once round */
            MTP_SCOPE ("step") {
            }
        size_t rss = test_rss(), worst = 0;
        for (uint64_t i = 0; i < each; i++) {
            MTP_SCOPE ("step") {
            }
            if (i % (each / 10) == 0 && test_rss() > rss + worst)
                worst = test_rss() - rss;
        }
        struct stat st = {0};
        assert_ok(mtp_profile_stop(prof));
        if (filed)
            assert_int_equal(stat(path, &st), 0);
        assert_true((size_t)st.st_size <= c.buffer_bytes + c.chunk_bytes);
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.emitted, l.kept + l.dropped);
        assert_true(l.emitted >= 2 * each && l.kept > c.buffer_bytes / 32);
        if (MEASURED)
            assert_true(worst <= MIB);
        test_row(11, 2 * each, "%s: memory grew by %zu KiB, the file has %zu KiB", filed ? "spool" : "memory",
                 worst >> 10, (size_t)st.st_size >> 10);
        mtp_profile_destroy(prof);
    }
}

/* reliability.md 12 */
static void starting_stopping_and_exporting_does_not_grow(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_GROWS);
    int cycles = test_scaled(400), first = 100;
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = c.profile_memory = true;
    long live = 0;
    size_t rss = 0;
    int64_t dims[] = {2, 3};
    mtp_input input = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    for (int i = 0; i < first + cycles; i++) {
        uint64_t bytes = 0;
        mtp_profile *prof = test_start(&c);
        for (int k = 0; k < 20; k++) {
            mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
            dims[0] = k;
            op.inputs = &input;
            op.input_count = 1;
            mtp_op_begin(&op);
            mtp_scope_end(mtp_scope_begin_text("a scope of run time", 19));
            mtp_op_end(&op);
        }
        assert_ok(mtp_profile_stop(prof));
        mtp_trace *t;
        mtp_averages *rows;
        assert_ok(mtp_profile_trace(prof, &t));
        assert_ok(mtp_averages_create(t, NULL, &rows));
        assert_ok(mtp_averages_table(rows, NULL, swallow, &bytes));
        assert_ok(mtp_trace_export(t, test_path("churn.json.gz"), NULL));
        mtp_averages_destroy(rows);
        mtp_trace_destroy(t);
        mtp_profile_destroy(prof);
        if (i == first) {
            rss = test_rss();
            live = mtp__alloc_live();
        }
    }
    size_t now = test_rss(), grown = now > rss ? now - rss : 0;
    assert_int_equal(mtp__alloc_live(), live);
    if (MEASURED)
        assert_true(grown <= MIB);
    test_row(12, (uint64_t)cycles, "memory grew by %zu KiB", grown >> 10);
}

static void *short_thread(void *arg)
{
    for (int i = 0; i < 5; i++)
        MTP_SCOPE ("short") {
        }
    return arg;
}

/* reliability.md 8 */
static void threads_that_come_and_go_are_counted_and_leave_nothing(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_LEAKS_THREADS);
    uint64_t rounds = (uint64_t)test_scaled(500), made = 0;
    size_t rss = 0;
    mtp_profile_config c = test_config(NULL);
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 512u << 10; /* all of it is in use soon */
    mtp_profile *prof = test_start(&c);
    for (uint64_t i = 0; i < rounds + 300; i++) { /* first round: until all memory has been touched */
        pthread_t thread[8];
        for (size_t k = 0; k < COUNT(thread); k++)
            assert_int_equal(pthread_create(&thread[k], NULL, short_thread, NULL), 0);
        for (size_t k = 0; k < COUNT(thread); k++)
            pthread_join(thread[k], NULL);
        made += COUNT(thread);
        if (i == 300)
            rss = test_rss();
    }
    size_t now = test_rss(), grown = now > rss ? now - rss : 0;
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.threads, made + 1);
    assert_int_equal(l.emitted, 10 * made + 1);
    assert_int_equal(l.emitted, l.kept + l.dropped);
    if (MEASURED)
        assert_true(grown <= MIB);
    test_row(8, made, "counted exactly, memory grew by %zu KiB", grown >> 10);
    mtp_profile_destroy(prof);
}

/* -------------------------------------------------------------------------------------- long recordings */

typedef struct long_run {
    char path[512], json[512];
    uint64_t scopes, events;
    size_t writer, reader; /* bytes */
} long_run;

static long_run *the_run; /* shared with children */

static void write_long(void *arg)
{
    (void)arg;
    mtp_profile_config c = test_config(NULL);
    c.when_full = MTP_STREAM;
    c.buffer_bytes = 8u << 20;
    c.chunk_bytes = 64u << 10;
    c.spool = the_run->path;
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    forget_peak();
    for (uint64_t i = 0; i < the_run->scopes; i++)
        MTP_SCOPE ("step") {
        }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.dropped == 0);
    mtp_profile_destroy(prof);
    the_run->writer = peak_rss();
}

static void read_long(void *arg)
{
    (void)arg;
    uint64_t bytes = 0;
    mtp_trace *t;
    mtp_averages *rows;
    forget_peak();
    CHILD_CHECK(mtp_trace_open(the_run->path, NULL, &t) == MTP_OK);
    CHILD_CHECK(mtp_averages_create(t, NULL, &rows) == MTP_OK);
    CHILD_CHECK(mtp_averages_table(rows, NULL, swallow, &bytes) == MTP_OK);
    the_run->events = mtp_averages_total(rows)->count;
    mtp_averages_destroy(rows);
    CHILD_CHECK(mtp_trace_export(t, the_run->json, NULL) == MTP_OK);
    mtp_trace_destroy(t);
    the_run->reader = peak_rss();
}

/* reliability.md 13. Writers use bounded memory, however much they write. Readers hold the columns of all
 * spans, 26 bytes each, and report their size. */
static void a_long_recording_is_written_in_bounded_memory_and_read(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_GROWS);
    the_run = test_shared(sizeof *the_run);
    the_run->scopes = (uint64_t)test_scaled(500000);
    snprintf(the_run->path, sizeof the_run->path, "%s", test_path("long.mtp"));
    snprintf(the_run->json, sizeof the_run->json, "%s", test_path("long.json.gz"));
    assert_true(test_left_well(test_child(write_long, NULL, 600)));
    assert_true(test_left_well(test_child(read_long, NULL, 600)));
    assert_int_equal(the_run->events, the_run->scopes);
    if (MEASURED) {
        assert_true(the_run->writer <= 64 * MIB);
        assert_true(the_run->reader <= 64 * MIB + the_run->scopes * 64);
    }
    test_row(13, 2 * the_run->scopes, "writer %zu MiB, reader %zu MiB", the_run->writer / MIB,
             the_run->reader / MIB);
    unlink(the_run->path);
    unlink(the_run->json);
}

/* reliability.md 17 */
static void nesting_of_any_depth_and_ends_without_begins_are_read(void **state)
{
    (void)state;
    uint32_t depth = (uint32_t)test_scaled(20000);
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 64u << 20;
    mtp_token *open = calloc(depth, sizeof *open);
    assert_non_null(open);
    mtp_profile *prof = test_start(&c);
    for (uint32_t i = 0; i < depth; i++)
        open[i] = mtp_scope_begin(MTP_NAME("deep"));
    for (uint32_t i = depth; i-- > depth / 2;) { /* half of them, each twice */
        mtp_scope_end(open[i]);
        mtp_scope_end(open[i]);
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    mtp_averages *rows;
    uint64_t bytes = 0;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_int_equal(t->span_count, depth);
    assert_int_equal(t->unfinished, depth / 2);
    for (uint32_t i = 1; i < depth; i++)
        assert_true(t->end[i] >= t->start[i] && t->end[i] <= t->end[i - 1]);
    assert_ok(mtp_averages_create(t, NULL, &rows));
    assert_ok(mtp_averages_table(rows, NULL, swallow, &bytes));
    mtp_averages_destroy(rows);
    assert_ok(mtp_trace_chrome(t, NULL, swallow, &bytes));
    assert_ok(mtp_trace_folded(t, "self_cpu_time_total", swallow, &bytes));
    test_row(17, depth, "deepest %u", depth);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
    free(open);
}

/* --------------------------------------------------------------------------------- files that are not
 * kept still */

typedef struct shaking {
    const char *path;
    size_t length;
    const char *bytes;
    atomic_bool done;
} shaking;

/* Truncates the file and restores it while it is read. */
static void *shake(void *arg)
{
    shaking *s = arg;
    while (!atomic_load(&s->done)) {
        int fd = open(s->path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (ftruncate(fd, (off_t)test_below(s->length)) != 0 ||
            pwrite(fd, s->bytes, s->length, 0) != (ssize_t)s->length)
            fprintf(stderr, "the file cannot be shaken: %s\n", strerror(errno));
        close(fd);
    }
    return NULL;
}

static uint64_t read_shaken(const char *path, const char *bytes, size_t length)
{
    shaking s = {.path = path, .length = length, .bytes = bytes};
    int rounds = test_scaled(300);
    uint64_t whole = 0;
    pthread_t thread;
    test_spew(path, bytes, length);
    test_random();
    assert_int_equal(pthread_create(&thread, NULL, shake, &s), 0);
    for (int i = 0; i < rounds; i++) {
        mtp_trace *t;
        mtp_check *check;
        mtp_status status = mtp_trace_open(path, NULL, &t);
        assert_true(status == MTP_OK || status == MTP_E_FORMAT || status == MTP_E_IO);
        whole += status == MTP_OK;
        mtp_trace_destroy(t);
        status = mtp_trace_check_file(path, NULL, &check);
        assert_true(status == MTP_OK || status == MTP_E_FORMAT || status == MTP_E_IO);
        mtp_check_destroy(check);
    }
    atomic_store(&s.done, true);
    pthread_join(thread, NULL);
    return whole;
}

/* reliability.md 19 */
static void a_file_that_is_cut_while_it_is_read_ends_in_a_status(void **state)
{
    (void)state;
    char spool[512], json[512];
    size_t length;
    snprintf(spool, sizeof spool, "%s", test_path("shaken.mtp"));
    snprintf(json, sizeof json, "%s", test_path("shaken.json"));
    mtp_profile_config c = test_config(NULL);
    c.spool = spool;
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < 2000; i++)
        MTP_SCOPE ("step") {
        }
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_ok(mtp_trace_export(t, json, NULL));
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
    const char *const paths[] = {spool, json};
    for (int i = 0; i < 2; i++) {
        char *bytes = test_slurp(paths[i], &length);
        uint64_t whole = read_shaken(paths[i], bytes, length);
        test_row(19, (uint64_t)test_scaled(300), "%s: %llu opened", i == 0 ? "spool" : "JSON",
                 (unsigned long long)whole);
        free(bytes);
    }
    assert_int_equal(mkdir(test_path("empty"), 0700), 0);
    assert_int_equal(mtp_trace_open(test_path("empty"), NULL, &t),
                     MTP_E_FORMAT); /* a folder without recordings */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_flight_recorder_stays_within_its_budget),
        TEST(starting_stopping_and_exporting_does_not_grow),
        TEST(threads_that_come_and_go_are_counted_and_leave_nothing),
        TEST(a_long_recording_is_written_in_bounded_memory_and_read),
        TEST(nesting_of_any_depth_and_ends_without_begins_are_read),
        TEST(a_file_that_is_cut_while_it_is_read_ends_in_a_status),
    };
    return cmocka_run_group_tests_name("endurance", tests, NULL, NULL);
}
