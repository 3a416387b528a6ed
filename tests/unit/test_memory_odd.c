/* Unit: analyze/memory: missing data, devices, output formats, limits. */
#define _GNU_SOURCE
#include "tests/unit/memory_lists.h"

/* ------------------------------------------------------------------------------------------- missing */

static void what_was_there_before_is_known_from_frees_and_totals(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1700000000000000000;
    made_tag(t, 500, 0x90, MTP_MEMORY_PARAMETER);
    made_memory_of(t, main, 1000, 0x10, 100, 1100, 0, -1); /* 1000 before */
    made_memory_of(t, main, 2000, 0x90, -300, 800, 0, -1);
    made_memory_of(t, main, 3000, 0x10, -100, 700, 0, -1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_int_equal(info.preexisting_bytes, 1000);
    assert_int_equal(info.peak_bytes, 1100);
    assert_int_equal(info.end_bytes, 700);
    assert_int_equal(info.unaccounted_bytes, 0);
    assert_int_equal(info.peak_blocks, 3);
    const mtp_memory_block *b = mtp_memory_timeline_block(m, 0);
    assert_int_equal(b->bytes, 700);
    assert_int_equal(b->address, 0);
    assert_int_equal(b->created_ns, INT64_MIN);
    assert_int_equal(b->thread, -1);
    assert_writes(m, mtp_memory_timeline_raw,
                  "[[-1, 1, 300, 0], [-1, 1, 700, 7], [1700000000000001000, 2, 100, 7], "
                  "[1700000000000002000, 4, -300, 0], [1700000000000003000, 4, -100, 7]]");
    /* as in torch: a row for the memory in use, at the first time */
    assert_writes(m, mtp_memory_timeline_json,
                  "[[1700000000000001, 1700000000000001, 1700000000000002, 1700000000000003], "
                  "[[0, 300, 0, 0, 0, 0, 0, 0, 700], [0, 300, 0, 0, 0, 0, 0, 0, 800], "
                  "[0, 0, 0, 0, 0, 0, 0, 0, 800], [0, 0, 0, 0, 0, 0, 0, 0, 700]]]");
    collected c = {0};
    mtp_memory_timeline_points(m, add_point, &c);
    assert_contains(c.bytes, "1000: 300 0 0 0 0 0 0 700\n1000: 300 0 0 0 0 0 0 800\n");
    collected_free(&c);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static mtp_trace *with_existing(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1700000000000000000;
    made_op(t, main, 0, 9000, "aten::mm");
    made_memory_of(t, main, 1000, 0x10, 100, 1100, 0, -1); /* 1000 before */
    made_existing(t, 1500, 0x90, 300, MTP_MEMORY_PARAMETER);
    made_existing(t, 1600, 0x90, 300, MTP_MEMORY_PARAMETER); /* another thread met it too */
    made_existing(t, 2000, 0x80, 50, MTP_MEMORY_INPUT);
    made_memory_of(t, main, 2000, 0x80, -50, 1050, 0, -1); /* at the same time */
    made_existing(t, 2500, 0x70, 600, MTP_MEMORY_TEMPORARY);
    made_tag(t, 3000, 0x70, MTP_MEMORY_GRADIENT);
    made_memory_of(t, main, 4000, 0x10, -100, 950, 0, -1);
    return made_end(t);
}

static void what_was_there_before_has_the_category_that_was_told(void **state)
{
    (void)state;
    mtp_trace *t = with_existing();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_int_equal(info.preexisting_bytes, 1000); /* 50 of them were not reported */
    assert_int_equal(info.allocations, 1);
    assert_int_equal(info.allocated_bytes, 100);
    assert_int_equal(info.frees, 2);
    assert_int_equal(info.lost_events, 0);
    assert_int_equal(info.peak_bytes, 1100);
    assert_int_equal(info.end_bytes, 950);
    assert_int_equal(info.unaccounted_bytes, 0);
    assert_writes(m, mtp_memory_timeline_raw,
                  "[[-1, 1, 300, 0], [-1, 1, 50, 2], [-1, 1, 600, 3], [-1, 1, 50, 7], "
                  "[1700000000000001000, 2, 100, 3], [1700000000000002000, 4, -50, 2], "
                  "[1700000000000003000, 3, -600, 3], [1700000000000003000, 3, 600, 5], "
                  "[1700000000000004000, 4, -100, 3]]");
    collected c = {0};
    mtp_memory_timeline_points(m, add_point, &c);
    assert_contains(c.bytes, "1000: 300 0 50 600 0 0 0 50\n1000: 300 0 50 700 0 0 0 50\n");
    collected_free(&c);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void what_is_told_of_blocks_is_kept_in_a_file(void **state)
{
    (void)state;
    mtp_trace *t = with_existing(), *again;
    assert_ok(mtp_trace_export(t, test_path("existing.json"), NULL));
    assert_ok(mtp_trace_open(test_path("existing.json"), NULL, &again));
    assert_int_equal(again->tag_count, t->tag_count);
    assert_int_equal(again->memory_count, t->memory_count);
    mtp_memory_timeline *a = timeline_of(t, NULL), *b = timeline_of(again, NULL);
    collected c = {0};
    assert_ok(mtp_memory_timeline_raw(a, collect, &c));
    assert_writes(b, mtp_memory_timeline_raw, c.bytes);
    collected_free(&c);
    mtp_memory_timeline_destroy(a);
    mtp_memory_timeline_destroy(b);
    mtp_trace_destroy(again);
    mtp_trace_destroy(t);
}

static void rows_of_a_file_that_are_none_are_left_out(void **state)
{
    (void)state;
    static const char *const rows[] = {"[]",
                                       "7",
                                       "[1]",
                                       "[1, 2, 0, -1, 99, 4]",
                                       "[1, 2, 0, -1, 0, -4]",
                                       "[1, -2, 0, -1, 0, 4]",
                                       "[1, 2, 70000, -1, 0, 4]",
                                       "[1, 2, 0, -2, 0, 4]",
                                       "[\"1\", 2, 0, -1, 0, 4]",
                                       "{\"a\": [1]}",
                                       "[1, 2, 0, -1, 0]"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FILE *f = fopen(test_path("rows.json"), "w");
        fprintf(f, "{\"traceEvents\": [], \"mtprofMemory\": [%s, [ 1.5 ,2,0, -1, 0, 4]]}", rows[i]);
        fclose(f);
        mtp_trace *t;
        assert_ok(mtp_trace_open(test_path("rows.json"), NULL, &t));
        assert_int_equal(t->tag_count, 1);
        assert_int_equal(t->tags[0].ts, 1500);
        assert_int_equal(t->tags[0].bytes, 4);
        mtp_trace_destroy(t);
    }
}

static void a_trace_may_have_nothing_but_what_was_there_before(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    made_op(t, made_thread(t, 7), 5000, 9000, "aten::add_");
    made_existing(t, 6000, 0x10, 40, MTP_MEMORY_PARAMETER);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_string_equal(mtp_memory_timeline_device(m, 0), "cpu");
    assert_int_equal(info_of(m).peak_bytes, 40);
    assert_int_equal(info_of(m).peak_ns, 5000);
    assert_writes(m, mtp_memory_timeline_raw, "[[-1, 1, 40, 0]]");
    assert_writes(m, mtp_memory_timeline_json, "[[5], [[0, 40, 0, 0, 0, 0, 0, 0, 0]]]");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void a_block_in_the_place_of_another_is_known_from_when_it_was_told(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_memory(t, main, 1000, 0x10, 100);
    made_existing(t, 2000, 0x10, 100, MTP_MEMORY_INPUT); /* the same block, seen in another cycle */
    made_existing(t, 3000, 0x10, 8,
                  MTP_MEMORY_PARAMETER); /* its free and this one's allocation were not recorded */
    made_memory(t, main, 4000, 0x10, -8);
    made_existing(t, 5000, 0x10, 9, MTP_MEMORY_PARAMETER);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_int_equal(info.preexisting_bytes, 0);
    assert_int_equal(info.lost_events, 2);
    assert_int_equal(info.end_bytes, 9);
    assert_writes(
        m, mtp_memory_timeline_raw,
        "[[1000, 2, 100, 2], [3000, 4, -100, 2], [3000, 2, 8, 0], [4000, 4, -8, 0], [5000, 2, 9, 0]]");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void the_peak_may_be_before_the_first_event(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    made_memory(t, made_thread(t, 1), 1000, 0x10, -64);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_int_equal(info_of(m).peak_bytes, 64);
    assert_int_equal(info_of(m).peak_ns, 1000);
    assert_int_equal(info_of(m).peak_blocks, 1);
    assert_int_equal(mtp_memory_timeline_block(m, 0)->freed_ns, 1000);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void events_that_were_lost_are_counted_and_bytes_stay_right(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_memory(t, main, 10, 0x10, 100);
    made_memory(t, main, 20, 0x10, 30); /* no free was seen */
    made_memory(t, main, 30, 0x10, -30);
    made_memory_of(t, main, 40, 0x10, -55, 7, 0, -1); /* no allocation was seen */
    made_memory_of(t, main, 50, 0x20, 1, 8, 0, -1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_int_equal(info.lost_events, 2);
    assert_int_equal(info.peak_bytes, 100);
    assert_int_equal(info.end_bytes, 1);
    assert_int_equal(info.unaccounted_bytes, 7);
    assert_int_equal(info.preexisting_bytes, 0);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* A free releases what was allocated, whatever size it states; zero bytes are ignored. */
static void odd_sizes_do_no_harm(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX - 1};
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = INT64_MAX - 5;
    for (size_t i = 0; i < 400; i++)
        made_memory_of(t, main, (int64_t)(i % 50 == 0 ? (uint64_t)INT64_MAX - i : i), i % 13,
                       sizes[test_below(COUNT(sizes))], sizes[test_below(COUNT(sizes))], 0, -1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    writer *all[] = {mtp_memory_timeline_json, mtp_memory_timeline_raw, summary};
    for (size_t i = 0; i < COUNT(all); i++) {
        collected c = {0};
        assert_ok(all[i](m, collect, &c));
        collected_free(&c);
    }
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------- devices */

static void devices_are_chosen_by_name_or_by_traffic(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_memory_of(t, main, 1, 0x10, 10, -1, 0, -1);
    made_memory_of(t, main, 2, 0x10, 1000, -1, 20, 0); /* the same address elsewhere */
    made_memory_of(t, main, 3, 0x10, 20, -1, 20, 1);
    made_memory_of(t, main, 4, 0x10, -10, -1, 0, 0);
    made_memory_of(t, main, 5, 0x10, 3, -1, 77, 2);
    made_end(t);
    static const struct {
        const char *asked, *name;
        int64_t peak;
    } cases[] = {{NULL, "npu:0", 1000},  {"cpu", "cpu", 10},
                 {"CPU:0", "cpu", 10},   {"npu", "npu:0", 1000},
                 {"npu:1", "npu:1", 20}, {"cuda:1", "npu:1", 20},
                 {"GPU", "npu:0", 1000}, {"privateuseone:0", "npu:0", 1000},
                 {"npu:9", "npu:9", 0},  {"xpu:0", "xpu:0", 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        mtp_memory_timeline *m = timeline_of(t, cases[i].asked);
        assert_string_equal(info_of(m).device, cases[i].name);
        assert_int_equal(info_of(m).peak_bytes, cases[i].peak);
        mtp_memory_timeline_destroy(m);
    }
    mtp_memory_timeline *m = timeline_of(t, NULL);
    static const char *const names[] = {"cpu", "npu:0", "npu:1", "device77:2"};
    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(mtp_memory_timeline_device(m, i), names[i]);
    assert_null(mtp_memory_timeline_device(m, COUNT(names)));
    mtp_memory_timeline_destroy(m);
    static const char *const wrong[] = {"",       "tpu:0",     "npu:", "npu:x", "npu:0x",
                                        "npu:-1", "npu:99999", "cp",   "cpu0"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(mtp_memory_timeline_create(t, wrong[i], &m), MTP_E_ARG);
        assert_null(m);
        assert_says("use cpu, npu:0, cuda:0");
    }
    mtp_trace_destroy(t);
}

static void more_devices_than_can_be_named_are_still_read(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    for (int16_t i = 0; i < 200; i++)
        made_memory_of(t, main, i, 0x10, 1 + i, -1, 20, i);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, "npu:150");
    assert_int_equal(info_of(m).peak_bytes, 151);
    assert_non_null(mtp_memory_timeline_device(m, MTP__DEVICES_MAX - 1));
    assert_null(mtp_memory_timeline_device(m, MTP__DEVICES_MAX));
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------------------- forms */

/* torch divides in doubles and then truncates: with today's timestamps, 875 ns or more become the next
 * microsecond. */
static void times_become_microseconds_as_torch_does_it(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1794738710868278000;
    static const int64_t ns[] = {0, 500, 874, 875, 1100, 1999, 2000};
    for (size_t i = 0; i < COUNT(ns); i++)
        made_memory(t, main, ns[i], 0x10 + i, 1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_writes(m, mtp_memory_timeline_json,
                  "[[1794738710868278, 1794738710868279, 1794738710868280], [[0, 0, 0, 0, 0, 0, 0, 0, 3], "
                  "[0, 0, 0, 0, 0, 0, 0, 0, 5], [0, 0, 0, 0, 0, 0, 0, 0, 7]]]");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void a_real_training_is_told_as_torch_tells_it(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp_trace_open(GOLDEN "train.json.gz", NULL, &t));
    mtp_memory_timeline *m = timeline_of(t, "cpu");
    char ours[256], raw[256], command[1024];
    snprintf(ours, sizeof ours, "%s", test_path("ours.json.gz"));
    snprintf(raw, sizeof raw, "%s", test_path("ours.raw.json.gz"));
    assert_ok(mtp_memory_timeline_export(m, ours));
    assert_ok(mtp_memory_timeline_export(m, raw));
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
    snprintf(command, sizeof command,
             "check_memory.py timeline %s %s " GOLDEN "train.timeline.json.gz " GOLDEN "train.raw.json.gz",
             ours, raw);
    if (!made_judge(command))
        skip();
}

static void hostile_names_stay_json(void **state)
{
    (void)state;
    static const char *const names[] = {"\"]}, {\"x\": \"",           "back\\slash\\",
                                        "new\nline\ttab\x01\x1f\x7f", "\xff\xfe\xc0\x80",
                                        "\xed\xa0\x80 half",          "\xe2\x80\xa8\xe2\x80\xa9",
                                        "\xf0\x9f\x98\x80 fine",      "</script>"};
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_op(t, main, (int64_t)i * 10, (int64_t)i * 10 + 9, names[i]);
        made_memory(t, main, (int64_t)i * 10 + 5, 0x10 + i, 1000 - (int64_t)i);
    }
    mtp__trace_add_span(t, main, 1000, 1009, mtp__trace_text(t, "a\0b", 3), MTP__CATEGORY_CPU_OP, 0, 0);
    made_memory(t, main, 1005, 0x90, 1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    collected c = {0};
    assert_ok(summary(m, collect, &c));
    assert_contains(c.bytes, "\"a\\u0000b\"");
    char path[256], command[512];
    snprintf(path, sizeof path, "%s", test_path("summary.json"));
    test_spew(path, c.bytes, c.length);
    collected_free(&c);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
    snprintf(command, sizeof command, "check_memory.py json %s", path);
    if (!made_judge(command))
        skip();
}

static void a_summary_has_no_more_blocks_than_asked_for(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    collected c = {0};
    assert_ok(mtp_memory_timeline_summary(m, 1, collect, &c));
    assert_contains(c.bytes, "\"block_count\": 2, \"blocks\": [\n   {\"address\": 16");
    assert_null(strstr(c.bytes, "\"address\": 32"));
    collected_free(&c);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void the_format_of_a_file_follows_from_its_name(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    size_t n;
    assert_ok(mtp_memory_timeline_export(m, test_path("a.json")));
    char *text = test_slurp(test_path("a.json"), &n);
    assert_memory_equal(text, "[[1700000000000003, ", 20);
    free(text);
    assert_ok(mtp_memory_timeline_export(m, test_path("a.raw.json.gz")));
    text = test_slurp(test_path("a.raw.json.gz"), &n);
    assert_memory_equal(text, "\x1f\x8b", 2);
    free(text);
    assert_int_equal(mtp_memory_timeline_export(m, test_path("a.html")), MTP_E_ARG);
    assert_says("must end in .json");
    assert_int_equal(mtp_memory_timeline_export(m, "/nowhere/at/all.json"), MTP_E_IO);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------------------- limits */

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_timeline *none = m;
    assert_int_equal(mtp_memory_timeline_create(NULL, NULL, &none), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_create(t, NULL, NULL), MTP_E_ARG);
    mtp_memory_info info = MTP_MEMORY_INFO_INIT;
    assert_int_equal(mtp_memory_timeline_info(NULL, &info), MTP_E_ARG);
    info.size = 8;
    assert_int_equal(mtp_memory_timeline_info(m, &info), MTP_E_ABI);
    assert_int_equal(mtp_memory_timeline_json(NULL, collect, NULL), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_raw(NULL, collect, NULL), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_summary(NULL, 0, collect, NULL), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_json(m, NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_export(m, NULL), MTP_E_ARG);
    mtp_memory_timeline_points(NULL, add_point, NULL);
    mtp_memory_timeline_points(m, NULL, NULL);
    mtp_memory_timeline_destroy(NULL);
    assert_string_equal(mtp_memory_category_text((mtp_memory_category)99), "Unknown");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void a_sink_that_says_no_ends_it(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    writer *all[] = {mtp_memory_timeline_json, mtp_memory_timeline_raw, summary};
    for (size_t i = 0; i < COUNT(all); i++) {
        collected c = {.refuse_after = 1};
        assert_int_equal(all[i](m, collect, &c), MTP_E_IO);
        assert_null(c.bytes);
    }
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_trace *t = training();
    long live = mtp__alloc_live();
    int failures = 0;
    for (int nth = 1;; nth++) {
        mtp_memory_timeline *m;
        collected c = {0};
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, nth % 2 == 0);
        mtp_status status = mtp_memory_timeline_create(t, NULL, &m);
        mtp_status written = status == MTP_OK ? summary(m, collect, &c) : status;
        if (mtp__fault_stop() == 0)
            nth = -1;
        assert_true(nth == -1 ? written == MTP_OK : written == MTP_E_NOMEM);
        assert_true(status == MTP_OK || m == NULL);
        failures += written != MTP_OK;
        mtp_memory_timeline_destroy(m);
        collected_free(&c);
        assert_int_equal(mtp__alloc_live(), live);
        if (nth == -1)
            break;
    }
    assert_true(failures >= 10);
    mtp_trace_destroy(t);
}

/* Depth costs nothing: each event is placed in the walk. */
static void deep_programs_are_as_cheap_as_flat_ones(void **state)
{
    (void)state;
    int64_t depth = test_scaled(100000);
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    for (int64_t i = 0; i < depth; i++)
        made_op(t, main, i, 10 * depth - i, "aten::deep");
    for (int64_t i = 0; i < depth; i++)
        made_memory(t, main, 2 * depth + i, 0x1000 + (uint64_t)i, 16);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_int_equal(info_of(m).peak_blocks, depth);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static bool stop_at_two(void *user, const mtp_memory_point *point)
{
    (void)point;
    return ++*(int *)user < 2;
}

static void a_visit_ends_when_told(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    int visits = 0;
    mtp_memory_timeline_points(m, stop_at_two, &visits);
    assert_int_equal(visits, 2);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_there_before_is_known_from_frees_and_totals),
        TEST(what_was_there_before_has_the_category_that_was_told),
        TEST(what_is_told_of_blocks_is_kept_in_a_file),
        TEST(rows_of_a_file_that_are_none_are_left_out),
        TEST(a_trace_may_have_nothing_but_what_was_there_before),
        TEST(a_block_in_the_place_of_another_is_known_from_when_it_was_told),
        TEST(the_peak_may_be_before_the_first_event),
        TEST(events_that_were_lost_are_counted_and_bytes_stay_right),
        TEST(odd_sizes_do_no_harm),
        TEST(devices_are_chosen_by_name_or_by_traffic),
        TEST(more_devices_than_can_be_named_are_still_read),
        TEST(times_become_microseconds_as_torch_does_it),
        TEST(a_real_training_is_told_as_torch_tells_it),
        TEST(hostile_names_stay_json),
        TEST(a_summary_has_no_more_blocks_than_asked_for),
        TEST(the_format_of_a_file_follows_from_its_name),
        TEST(wrong_calls_are_refused),
        TEST(a_sink_that_says_no_ends_it),
        TEST(every_allocation_may_fail),
        TEST(deep_programs_are_as_cheap_as_flat_ones),
        TEST(a_visit_ends_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
