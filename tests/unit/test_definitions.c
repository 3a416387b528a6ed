/* Unit: record/control, record/intern: a session's definitions. Any number of names, long names, ids that wrap,
 * budgets that are too small. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>
#include "rings.h"

/* More names than the session's table holds: a stream keeps all of them. */
static void a_stream_names_any_number(void **state)
{
    (void)state;
    const int count = test_scaled(300000);
    mtp_profile_config c = ring_config(true);
    c.when_full = MTP_STREAM;
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < count; i++)
        scope_text("streamed name %llu", (unsigned long long)i);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(ledger_of(prof).lost_definitions, 0);
    assert_balanced(prof);
    mtp_trace *t;
    assert_ok(mtp_trace_open(c.spool, NULL, &t));
    assert_int_equal(t->span_count, count);
    for (int i = 0; i < count; i++) {
        int n = -1;
        sscanf(mtp__trace_get_text(t, t->name[i]).bytes, "streamed name %d", &n);
        assert_int_equal(n, i);
    }
    mtp_trace_destroy(t);
    check_clean(c.spool);
    mtp_profile_destroy(prof);
}

static void *name_things(void *arg)
{
    const int count = test_scaled(40000);
    for (int i = 0; i < count; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "named by %d, number %d", *(int *)arg, i);
        mtp_scope_end(mtp_scope_begin_text(text, (size_t)n));
    }
    return NULL;
}

/* Threads that only define names are inside a record nearly all the time, and so prevent each other from
 * beginning an epoch: they wait for each other. (Waiting for one that is preempted there may fail: that
 * costs a few names.) */
static void threads_that_name_things_at_once_lose_hardly_any(void **state)
{
    (void)state;
    for (int policy = MTP_KEEP_NEWEST; policy <= MTP_STREAM; policy++) {
        mtp_profile_config c = config_of(policy);
        mtp_profile *prof = test_start(&c);
        pthread_t thread[2];
        int number[2] = {1, 2};
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, name_things, &number[i]), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(thread[i], NULL);
        uint64_t lost = ledger_of(prof).lost_definitions;
        assert_true(lost * 100 < (uint64_t)test_scaled(40000) * 2);
        name_things(&(int){3});
        newest_scopes();
        assert_int_equal(ledger_of(prof).lost_definitions, lost); /* the other threads are gone */
        assert_ok(mtp_profile_stop(prof));
        assert_balanced(prof);
        mtp_profile_destroy(prof);
    }
}

/* Definitions a hundred times the size of their records: the ring holds as much as both have room for, all
 * of it named. */
static void long_names_do_not_fill_a_ring(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {300, 1000, 4000, 30000};
    for (size_t k = 0; k < COUNT(lengths) * 2; k++) {
        mtp_profile_config c = ring_config(false);
        c.chunk_bytes = k % 2 == 0 ? 64 << 10 : 16 << 10;
        mtp_profile *prof = test_start(&c);
        const int length = (int)lengths[k / 2], count = 5 * (int)RING / length;
        char *text = malloc((size_t)length + 1);
        for (int i = 0; i < count; i++) {
            snprintf(text, (size_t)length + 1, "%0*d", length, i);
            mtp_scope_end(mtp_scope_begin_text(text, (size_t)length));
        }
        free(text);
        assert_ok(mtp_profile_stop(prof));
        check_evicted_only(prof);
        mtp_trace *t;
        assert_ok(mtp_profile_trace(prof, &t));
        assert_true((uint64_t)t->span_count * (uint64_t)length > RING / 8);
        for (uint32_t i = 0; i < t->span_count; i++)
            assert_int_equal(atoi(mtp__trace_get_text(t, t->name[i]).bytes),
                             count - (int)t->span_count + (int)i);
        mtp_trace_destroy(t);
        mtp_profile_destroy(prof);
    }
}

/* A server that names each request runs out of ids after some weeks: ids are then reused. */
static void ids_do_not_run_out_in_a_ring(void **state)
{
    (void)state;
    mtp_profile_config c = ring_config(false);
    c.chunk_bytes = 16 << 10;
    c.with_stack = true;
    mtp_profile *prof = test_start(&c);
    mtp__tables *set = atomic_load(&prof->recorder->tables);
    mtp__intern *all[] = {&set->names, &set->shapes, &set->frames, &set->stacks, &set->texts};
    for (size_t k = 0; k < COUNT(all); k++)
        mtp__intern_restart(all[k], UINT32_MAX - 1000);
    for (int i = 0; i < 20000; i++)
        record_details(0, i);
    uint64_t lost = ledger_of(prof).lost_definitions;
    assert_true(lost < 10); /* of an op with several */
    newest_scopes();
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(ledger_of(prof).lost_definitions, lost);
    assert_balanced(prof);
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    check_trace(t);
    for (uint32_t i = 0; i < t->span_count; i++) {
        const mtp__detail *d = &t->details[t->detail[i]];
        if (strcmp(mtp__trace_get_text(t, t->name[i]).bytes, "an idle op") == 0)
            assert_true(d->args != 0 && d->shape != 0 && d->outputs != 0 && d->stack != 0);
    }
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

/* Names given to ops at run time belong to the session, not to the process. */
static void ops_named_by_text_are_the_sessions(void **state)
{
    (void)state;
    mtp_profile_config c = ring_config(false);
    mtp_profile *prof = test_start(&c);
    uint32_t names = mtp__intern_count(mtp__names());
    for (int i = 0; i < 1000; i++) {
        char text[32];
        mtp_op op = MTP_OP_INIT(0);
        int n = snprintf(text, sizeof text, "an op, %d", i);
        mtp_op_begin_text(&op, text, (size_t)n);
        mtp_op_end(&op);
    }
    assert_int_equal(mtp__intern_count(mtp__names()), names);
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_int_equal(t->span_count, 1000);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(atoi(mtp__trace_get_text(t, t->name[i]).bytes + strlen("an op, ")), i);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static bool put_text(void *user, const void *bytes, size_t count)
{
    size_t had = strlen(user);
    if (had + count < 65536)
        memcpy((char *)user + had, bytes, count);
    return true;
}

/* A budget too small for the definitions: the loss is counted, and reported everywhere. */
static void lost_definitions_are_reported(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    c.buffer_bytes = 16 * 4096;
    c.spool = test_path("lost.mtp");
    mtp_profile *prof = test_start(&c);
    MTP_SCOPE ("around") { /* its chunk still has room when the budget is spent */
        for (int i = 0; i < 5000; i++)
            scope_text("a long name so that definitions need more than records do, %llu",
                       (unsigned long long)i);
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_ledger l = ledger_of(prof);
    assert_true(l.lost_definitions > 0);
    assert_int_equal(w.count[MTP_WARNING_DEFINITIONS_LOST], 1);
    mtp_profile_destroy(prof);
    mtp_trace *t;
    assert_ok(mtp_trace_open(c.spool, NULL, &t));
    assert_int_equal(t->ledger.lost_definitions, l.lost_definitions);
    mtp_averages *a;
    char *text = calloc(1, 65537);
    assert_ok(mtp_averages_create(t, NULL, &a));
    assert_ok(mtp_averages_table(a, NULL, put_text, text));
    assert_contains(text, "were lost while recording");
    mtp_averages_destroy(a);
    mtp_trace_destroy(t);
    free(text);
    mtp_check *check;
    bool said = false;
    assert_ok(mtp_trace_check_file(c.spool, NULL, &check));
    for (size_t i = 0; i < mtp_check_count(check); i++)
        said |= strstr(mtp_check_finding(check, i)->what, "were lost while recording") != NULL;
    assert_true(said);
    mtp_check_destroy(check);
}

typedef struct full_disk {
    uint64_t buffer_bytes;
    uint64_t *kept; /* shared with the child: records kept; definitions lost */
} full_disk;

/* The file is limited to 49 pieces, whatever the configured size. */
static void record_on_a_full_disk(void *arg)
{
    const full_disk *d = arg;
    struct rlimit limit = {50 * 4096, 50 * 4096};
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    mtp_profile_config c = ring_config(true);
    c.chunk_bytes = 4096;
    c.buffer_bytes = d->buffer_bytes;
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < 20000; i++) {
        char name[400];
        memset(name, 'x', sizeof name);
        snprintf(name, sizeof name, "%d", i);
        mtp_scope_end(mtp_scope_begin_text(name, sizeof name));
        for (int k = 0; k < 3; k++)
            mtp_mark(MTP_NAME("mark"));
    }
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger ledger = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &ledger) == MTP_OK);
    d->kept[0] = ledger.kept;
    d->kept[1] = ledger.lost_definitions;
    mtp_profile_destroy(prof);
}

/* Eight such names fill a chunk. When the disk turns out to be full, definitions may already have more
 * than their share; records get their share of the space that the disk has, not of the configured size. */
static void long_names_do_not_fill_a_ring_nor_one_on_a_full_disk(void **state)
{
    (void)state;
    full_disk fits = {49 * 4096, test_shared(4096)}, full = {RING, test_shared(4096)};
    assert_true(test_left_well(test_child(record_on_a_full_disk, &fits, 30)));
    assert_true(test_left_well(test_child(record_on_a_full_disk, &full, 30)));
    fprintf(stderr, "%llu records kept, on a full disk %llu\n", (unsigned long long)*fits.kept,
            (unsigned long long)*full.kept);
    assert_true(fits.kept[0] > 500 && fits.kept[1] == 0);
    assert_true(full.kept[0] * 2 >= fits.kept[0] && full.kept[1] < 200);
}

/* A new epoch would have no memory for names either: beginning one for each name would evict all records. */
static void a_ring_without_memory_for_names_keeps_its_records(void **state)
{
    (void)state;
    const int count = 5000;
    mtp_profile_config c = ring_config(false);
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < count; i++) {
        if (i == 10)
            mtp__fault_plan(1u << MTP__FAULT_ALLOC, 1, true);
        scope_text("name without memory %llu", (unsigned long long)i * 1000);
    }
    assert_true(mtp__fault_stop() > 0);
    scope_text("name with memory %llu", 1);
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    mtp_ledger l = ledger_of(prof);
    assert_in_range(l.kept, 2 * count, 2 * count + 3);
    assert_in_range(l.lost_definitions, 1, count);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(threads_that_name_things_at_once_lose_hardly_any),
        TEST(long_names_do_not_fill_a_ring),
        TEST(ids_do_not_run_out_in_a_ring),
        TEST(a_stream_names_any_number),
        TEST(ops_named_by_text_are_the_sessions),
        TEST(lost_definitions_are_reported),
        TEST(long_names_do_not_fill_a_ring_nor_one_on_a_full_disk),
        TEST(a_ring_without_memory_for_names_keeps_its_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
