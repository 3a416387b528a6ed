/* Unit: present/report: the HTML report. What its data holds is compared by tests/golden/report.py, how it looks by
 * tests/browser. */
#define _GNU_SOURCE
#include <unistd.h>
#include <zlib.h>
#include "tests/made_trace.h"
#include "trace/build.h"

/* A thread with nested and overlapping spans, a stream with launched work, memory on two devices, a counter, stacks. */
static mtp_trace *make_trace(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 517), other = made_thread(t, 518), stream = made_stream(t, 0, 7);
    mtp__detail d = MTP__DETAIL_INIT;
    mtp__shape shape = {made_text(t, "[[4, 4]]"), 0, made_text(t, "[\"float\"]"), 0};
    d.shape = mtp__trace_add_shape(t, &shape);
    d.stack = mtp__trace_add_stack(t, mtp__trace_add_stack(t, 0, made_text(t, "main.py:1:main")),
                                   made_text(t, "net.py:2:f"));
    d.correlation = 9;
    made_scope(t, main, 0, 1000, "ProfilerStep#1");
    mtp__trace_add_span(t, main, 10, 500, made_text(t, "aten::mm"), MTP__CATEGORY_CPU_OP, 0,
                        mtp__trace_add_detail(t, &d));
    made_op(t, main, 20, 300, "aten::empty");
    made_scope(t, main, 400, 1500, "crosses"); /* what a row of its own is for */
    made_op(t, other, 5, 6, "aten::add");
    mtp__trace_add_span(t, stream, 600, 900, made_text(t, "gemm"), MTP__CATEGORY_KERNEL, 0,
                        mtp__trace_add_detail(t, &d));
    made_memory(t, main, 30, 0x1000, 4096);
    made_memory(t, main, 900, 0x1000, -4096);
    made_memory_of(t, main, 40, 0x2000, 64, 64, 1, 0);
    made_existing(t, 0, 0x3000, 100, MTP_MEMORY_PARAMETER);
    mtp__instant counter = {
        .ts = 50, .value = 2.5, .name = made_text(t, "queue"), .track = main, .is_counter = true};
    mtp__trace_add_instant(t, &counter);
    return made_end(t);
}

/* The bytes of one part: JSON and, after a zero byte, perhaps columns. To be freed. */
static char *part_of(const collected *page, const char *id, size_t *size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char tag[64];
    snprintf(tag, sizeof tag, "id=\"%s\">", id);
    const char *at = strstr(page->bytes, tag);
    assert_non_null(at);
    at += strlen(tag);
    size_t length = strcspn(at, "<="), packed = 0;
    unsigned char *bytes = malloc(length + 1);
    uint32_t bits = 0;
    for (size_t i = 0; i < length; i++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, at[i]) - digits);
        if (i % 4 > 0)
            bytes[packed++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    uLongf room = 1 << 20;
    char *text = malloc(room + 1);
    assert_int_equal(uncompress((unsigned char *)text, &room, bytes, packed), Z_OK);
    text[room] = 0;
    *size = room;
    free(bytes);
    return text;
}

static void assert_part_says(const collected *page, const char *id, const char *expected)
{
    size_t size;
    char *text = part_of(page, id, &size);
    if (strstr(text, expected) == NULL)
        fail_msg("%s does not say %s, but %s", id, expected, text);
    free(text);
}

static void clocks_and_losses_are_told(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    mtp__clock_info clock = {.error_ns = 11167, .points = 3, .device = 2};
    mtp__list_add(t, LIST(t, clocks), &clock);
    t->unfinished = 4;
    t->clock_faults = 5;
    collected out = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out));
    assert_part_says(&out, "head-0", "\"clocks\": [{\"device\": 2, \"error_ns\": 11167, \"points\": 3}]");
    assert_part_says(&out, "head-0", "\"unfinished\": 4, ");
    assert_part_says(&out, "head-0", "\"clock_faults\": 5, ");
    collected_free(&out);
    mtp_trace_destroy(t);
}

typedef struct sizes {
    int64_t of[MTP_MEMORY_CATEGORIES];
    bool seen[MTP_MEMORY_CATEGORIES];
} sizes;

static bool see(void *user, const mtp_memory_point *point)
{
    sizes *s = user;
    memcpy(s->of, point->bytes, sizeof s->of);
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
        s->seen[k] |= point->bytes[k] > 0;
    return true;
}

/* Number i of a column, whose bytes lie plane by plane after 16 bytes of heading. */
static int64_t number_at(const unsigned char *column, uint32_t i, bool is_signed)
{
    uint32_t count;
    uint64_t v = 0;
    memcpy(&count, column + 8, sizeof count);
    for (unsigned plane = 0; plane < column[12]; plane++)
        v |= (uint64_t)column[16 + plane * count + i] << 8 * plane;
    return is_signed ? (int64_t)(v >> 1) ^ -(int64_t)(v & 1) : (int64_t)v;
}

static const unsigned char *next_column(const unsigned char *column)
{
    uint32_t count;
    memcpy(&count, column + 8, sizeof count);
    return column + 16 + (size_t)count * column[12];
}

/* A block's bytes leave the category that they had, and enter the one that they get. */
static void memory_that_changes_its_category_is_counted_once(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 1), count;
    made_op(t, main, 0, 1000, "a");
    made_memory(t, main, 20, 0x10, 300);
    made_memory(t, main, 25, 0x20, 50);
    made_tag(t, 40, 0x10, MTP_MEMORY_ACTIVATION);
    made_tag(t, 60, 0x10, MTP_MEMORY_GRADIENT);
    made_memory(t, main, 80, 0x20, -50);
    made_end(t);
    mtp_memory_timeline *timeline;
    sizes expected = {0};
    assert_ok(mtp_memory_timeline_create(t, NULL, &timeline));
    mtp_memory_timeline_points(timeline, see, &expected);
    mtp_memory_timeline_destroy(timeline);
    assert_true(expected.seen[MTP_MEMORY_ACTIVATION] && expected.of[MTP_MEMORY_GRADIENT] == 300);
    collected out = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out));
    size_t size;
    char *part = part_of(&out, "memory-0", &size);
    const unsigned char *gap = (unsigned char *)part + strlen(part) + 1, *bytes = next_column(gap),
                        *category = next_column(bytes);
    assert_ptr_equal(next_column(category), part + size);
    memcpy(&count, gap + 8, sizeof count);
    int64_t got[MTP_MEMORY_CATEGORIES] = {0};
    for (uint32_t i = 0; i < count; i++)
        got[number_at(category, i, false)] += number_at(bytes, i, true);
    assert_memory_equal(got, expected.of, sizeof got);
    free(part);
    collected_free(&out);
    mtp_trace_destroy(t);
}

static void points_have_their_peak(void **state)
{
    (void)state;
    mtp_memory_point points[] = {{.ns = 5000}, {.ns = 7500}, {.ns = 9000}};
    points[0].bytes[MTP_MEMORY_PARAMETER] = 100;
    points[1].bytes[MTP_MEMORY_PARAMETER] = 100;
    points[1].bytes[MTP_MEMORY_GRADIENT] = 50;
    points[2].bytes[MTP_MEMORY_PARAMETER] = 90;
    collected out = {0};
    assert_ok(mtp_report_points("run.json", "cpu", points, COUNT(points), collect, &out));
    assert_part_says(&out, "head-0", "\"only\": \"memory\", \"duration\": 4000}");
    assert_part_says(
        &out, "memory-0",
        "{\"device\": \"cpu\", \"end_bytes\": 90, \"peak\": {\"bytes\": 150, \"time_us\": 2.5, ");
    assert_part_says(&out, "memory-0", "\"GRADIENT\": 50");
    assert_int_equal(mtp_report_points(NULL, "cpu", points, COUNT(points), collect, &out), MTP_E_ARG);
    collected_free(&out);
}

static void a_report_is_a_page_with_all_parts(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    collected out = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out));
    assert_int_equal(strncmp(out.bytes, "<!DOCTYPE html>", 15), 0);
    assert_non_null(strstr(out.bytes, "</html>"));
    static const char *const parts[] = {"head",  "findings", "operators",    "labels",   "levels",
                                        "spans", "details",  "links",        "counters", "memory",
                                        "flame", "stacks",   "device_stacks"};
    for (size_t i = 0; i < COUNT(parts); i++) {
        char id[64];
        snprintf(id, sizeof id, "id=\"%s-0\">", parts[i]);
        assert_non_null(strstr(out.bytes, id));
    }
    assert_null(strstr(out.bytes, "aten::mm")); /* text of the trace is never part of the HTML */
    collected_free(&out);
    mtp_trace_destroy(t);
}

static void one_page_alone_has_its_own_data_only(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    collected out = {0};
    mtp_report_options options = MTP_REPORT_OPTIONS_INIT;
    options.only = "memory";
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, &options, collect, &out));
    assert_non_null(strstr(out.bytes, "id=\"memory-0\">"));
    assert_null(strstr(out.bytes, "id=\"spans-0\">"));
    options.only = "timeline";
    assert_int_equal(mtp_report_write((const mtp_trace *const *)&t, 1, &options, collect, &out), MTP_E_ARG);
    assert_says("memory");
    collected_free(&out);
    mtp_trace_destroy(t);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    const mtp_trace *three[] = {t, t, t}, *none[] = {NULL};
    collected out = {0};
    assert_int_equal(mtp_report_write(NULL, 1, NULL, collect, &out), MTP_E_ARG);
    assert_int_equal(mtp_report_write(three, 0, NULL, collect, &out), MTP_E_ARG);
    assert_int_equal(mtp_report_write(three, 3, NULL, collect, &out), MTP_E_ARG);
    assert_says("compares two");
    assert_int_equal(mtp_report_write(none, 1, NULL, collect, &out), MTP_E_ARG);
    assert_int_equal(mtp_report_write(three, 1, NULL, NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_export_report(three, 1, "/nowhere/at/all.html", NULL), MTP_E_IO);
    mtp_trace_destroy(t);
}

static void a_failing_sink_ends_it(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    collected whole = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &whole));
    for (size_t after = 1; after < whole.length; after += whole.length / 7) {
        collected out = {.refuse_after = after};
        assert_int_equal(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out), MTP_E_IO);
        collected_free(&out);
    }
    collected_free(&whole);
    mtp_trace_destroy(t);
}

static void the_same_trace_gives_the_same_bytes(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    collected first = {0}, second = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &first));
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &second));
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.bytes, second.bytes, first.length);
    collected_free(&first);
    collected_free(&second);
    mtp_trace_destroy(t);
}

static void an_empty_trace_has_a_report(void **state)
{
    (void)state;
    mtp_trace *t = made_end(made_begin());
    collected out = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out));
    assert_non_null(strstr(out.bytes, "id=\"flame-0\">"));
    collected_free(&out);
    mtp_trace_destroy(t);
}

/* Deeper than a row may be: rows beside it take the rest. */
static void very_deep_calls_are_shown(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 1);
    for (int i = 0; i < 1500; i++)
        made_op(t, main, i, 10000 - i, "deep");
    made_end(t);
    collected out = {0};
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, NULL, collect, &out));
    collected_free(&out);
    mtp_trace_destroy(t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    const mtp_trace *two[] = {t, t};
    int nth = 1, fired;
    collected whole = {0};
    assert_ok(mtp_report_write(two, 2, NULL, collect, &whole));
    do {
        collected out = {0};
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, false);
        mtp_status status = mtp_report_write(two, 2, NULL, collect, &out);
        fired = mtp__fault_stop();
        if (status == MTP_OK) { /* the memory was for something that was not needed after all */
            assert_int_equal(out.length, whole.length);
            assert_memory_equal(out.bytes, whole.bytes, whole.length);
        } else {
            assert_int_equal(status, MTP_E_NOMEM);
        }
        collected_free(&out);
        nth++;
    } while (fired > 0);
    collected_free(&whole);
    assert_true(nth > 60);
    mtp_trace_destroy(t);
}

static void a_file_appears_whole_or_not_at_all(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("report.html"));
    mtp__fault_plan(1u << MTP__FAULT_WRITE, 1, true);
    assert_int_equal(mtp_export_report((const mtp_trace *const *)&t, 1, path, NULL), MTP_E_IO);
    mtp__fault_stop();
    assert_int_not_equal(access(path, F_OK), 0);
    assert_ok(mtp_export_report((const mtp_trace *const *)&t, 1, path, NULL));
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_a_page_with_all_parts),
        cmocka_unit_test(clocks_and_losses_are_told),
        cmocka_unit_test(points_have_their_peak),
        cmocka_unit_test(memory_that_changes_its_category_is_counted_once),
        cmocka_unit_test(one_page_alone_has_its_own_data_only),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_failing_sink_ends_it),
        cmocka_unit_test(the_same_trace_gives_the_same_bytes),
        cmocka_unit_test(an_empty_trace_has_a_report),
        cmocka_unit_test(very_deep_calls_are_shown),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_file_appears_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
