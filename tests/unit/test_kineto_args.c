/* Unit: trace/kineto: args, and names and texts of any bytes. */
#define _GNU_SOURCE
#include "tests/unit/kineto_texts.h"

/* ----------------------------------------------------------------------------------------------- args */

static void args_without_a_place_in_the_model_are_kept_as_text(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"tts\":5,\"args\":{"
                  "\"x\":1.50,\"External id\":3,\"y\" : {\"z\" : [ 1,2 , {} ]},\"Python id\":4,\"bytes\":9,"
                  "\"grid\":[1,2],\"Sequence number\":-7,\"correlation\":\"12\",\"Input Dims\":\"text\"},"
                  "\"cname\":\"good\"}");
    assert_string_equal(
        args_of(t, "a"),
        "\"tts\": 5, \"x\": 1.50, \"y\": {\"z\": [1, 2, {}]}, \"Python id\": 4, \"bytes\": 9, "
        "\"grid\": [1, 2], \"Sequence number\": -7, \"Input Dims\": \"text\", \"cname\": \"good\"");
    const mtp__detail *d = mtp__trace_detail(t, 0);
    assert_true(d->external_id == 3 && d->correlation == 12 && d->sequence == -1 && d->shape == 0);
    mtp_trace_destroy(t);
}

static void args_may_come_before_everything_else(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"args\":{\"Bytes\":-64,\"Addr\":\"0x40\",\"Device Type\":1,\"Device Id\":2,\"Total Reserved\":3},"
        "\"ts\":1,\"s\":\"t\",\"name\":\"[memory]\",\"ph\":\"i\"},"
        "{\"args\":{\"Bytes\":1},\"ts\":1,\"name\":\"[memory]\",\"ph\":\"i\"},"
        "{\"args\":{\"device\":2,\"stream\":3,\"bytes\":4096,\"queued\":1.5},\"ts\":1,\"dur\":2,"
        "\"name\":\"copy\",\"cat\":\"gpu_memcpy\",\"ph\":\"X\",\"pid\":2,\"tid\":3}");
    assert_int_equal(t->memory_count, 1);
    const mtp__memory *m = &t->memory[0];
    assert_true(m->bytes == -64 && m->address == 64 && m->device_type == 1 && m->device_index == 2);
    assert_true(m->total_reserved == 3 && m->total_allocated == -1 && m->args == 0);
    assert_int_equal(t->instant_count, 1);
    const mtp__detail *d = mtp__trace_detail(t, 0);
    assert_true(d->bytes == 4096 && d->queued_ns == 1500 && d->args == 0);
    mtp_trace_destroy(t);
}

/* "correlation": -1 is Kineto's for none. It was read as 1, and tied a launch to another's kernel. */
static void ids_that_are_not_ids_are_none(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{"
        "\"correlation\":-1,\"External id\":1.5,\"stream\":\"x\"}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":3,\"dur\":1,\"args\":{"
        "\"correlation\":1,\"stream\":7}}");
    assert_string_equal(args_of(t, "a"), "\"correlation\": -1, \"External id\": 1.5, \"stream\": \"x\"");
    for (uint32_t i = 0; i < t->span_count; i++) {
        const mtp__detail *d = mtp__trace_detail(t, i);
        bool is_kernel = t->category[i] == MTP__CATEGORY_KERNEL;
        assert_true(d->correlation == (is_kernel ? 1 : 0) && (is_kernel || d->external_id == 0));
        assert_true(t->launcher == NULL || t->launcher[i] == MTP__NONE);
    }
    mtp_trace_destroy(t);
}

static void of_an_arg_that_is_there_twice_the_later_counts(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{"
                  "\"External id\":3,\"Input Dims\":[[1]],\"External id\":4,\"Input Dims\":[[2]]}}");
    assert_true(mtp__trace_detail(t, 0)->external_id == 4);
    assert_string_equal(text(t, t->shapes[mtp__trace_detail(t, 0)->shape].dims), "[[2]]");
    assert_string_equal(args_of(t, "a"), "");
    mtp_trace_destroy(t);
}

static void shapes_are_spelled_as_kineto_spells_them_and_kept_once(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{"
                  "\"Input dims\":[[4,32],[],[ 7 ]],\"Input type\":[\"float\",\"\",\"a,b\"]}},"
                  "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"b\",\"ts\":2,\"dur\":1,\"args\":{"
                  "\"Input Dims\": [[4, 32], [], [7]], \"Input type\": [\"float\", \"\", \"a,b\"]}}");
    assert_int_equal(t->shape_count, 2);
    assert_int_equal(mtp__trace_detail(t, 0)->shape, mtp__trace_detail(t, 1)->shape);
    assert_string_equal(text(t, t->shapes[1].dims), "[[4, 32], [], [7]]");
    assert_string_equal(text(t, t->shapes[1].types), "[\"float\", \"\", \"a,b\"]");
    mtp_trace_destroy(t);
}

static void stacks_are_kept_frame_by_frame_innermost_first_in_the_file(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{"
        "\"stack\":[\"m.py:3:f\",\"m.py:9:g\", \"m.py:1:<module>\"]}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"b\",\"ts\":2,\"dur\":1,\"args\":{"
        "\"Call stack\":\"m.py:4:f;m.py:9:g;m.py:1:<module>\"}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"c\",\"ts\":3,\"dur\":1,\"args\":{"
        "\"stack\":[\"x\",5]}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"d\",\"ts\":4,\"dur\":1,\"args\":{\"stack\":[]}}");
    const mtp__detail *a = mtp__trace_detail(t, 0), *b = mtp__trace_detail(t, 1);
    assert_int_equal(t->stack_count, 1 + 4);
    assert_string_equal(text(t, t->stacks[a->stack].frame), "m.py:3:f");
    assert_string_equal(text(t, t->stacks[b->stack].frame), "m.py:4:f");
    uint32_t g = t->stacks[a->stack].parent;
    assert_int_equal(g, t->stacks[b->stack].parent);
    assert_string_equal(text(t, t->stacks[g].frame), "m.py:9:g");
    assert_int_equal(t->stacks[t->stacks[g].parent].parent, 0);
    assert_string_equal(args_of(t, "c"), "\"stack\": [\"x\", 5]");
    mtp_trace_destroy(t);
}

static void mindtorch_args_are_known(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{"
                  "\"device_type\":\"NPU\",\"step\":3,\"input_shapes\":[[2,3]],\"correlation_id\":9,"
                  "\"npu_memory_allocated_before\":100,\"npu_memory_allocated_after\":164,"
                  "\"npu_memory_allocated_delta\":64,\"runtime_name\":\"r\",\"unfinished\":true,"
                  "\"Output Dims\":[[2, 2]],\"Output type\":[\"float\"]}}");
    const mtp__detail *d = mtp__trace_detail(t, 0);
    assert_true(d->device == MTP_DEVICE_NPU(0) && d->correlation == 9 && d->number == 3);
    assert_true(d->allocated_before == 100 && d->allocated_after == 164);
    assert_string_equal(text(t, t->shapes[d->shape].dims), "[[2, 3]]");
    assert_string_equal(text(t, t->shapes[d->outputs].dims), "[[2, 2]]");
    assert_string_equal(text(t, d->args), "\"runtime_name\": \"r\", \"unfinished\": true");
    assert_int_equal(t->flags[0], MTP__SPAN_UNFINISHED);
    assert_int_equal(t->unfinished, 1);
    mtp_trace_destroy(t);
}

static void steps_modules_and_backward_are_flagged(void **state)
{
    (void)state;
#define NAMED(cat, name, args)                                                                               \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name                                                     \
    "\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1,\"args\":{" args "}}"
    mtp_trace *t = read_list(NAMED("user_annotation", "ProfilerStep#12", "") "," NAMED(
        "gpu_user_annotation", "ProfilerStep#13",
        "") "," NAMED("user_annotation", "ProfilerStep#x",
                      "") "," NAMED("python_function", "nn.Module: Linear_0",
                                    "") "," NAMED("cpu_op", "MmBackward0",
                                                  "\"Sequence number\":4,\"Fwd thread "
                                                  "id\":1") "," NAMED("cpu_op",
                                                                      "autograd::engine::"
                                                                      "evaluate_function: "
                                                                      "MmBackward0",
                                                                      ""));
    assert_int_equal(t->flags[span_named(t, "ProfilerStep#12")] & ~MTP__SPAN_OVERLAP, MTP__SPAN_STEP);
    assert_int_equal(mtp__trace_detail(t, span_named(t, "ProfilerStep#12"))->number, 12);
    assert_int_equal(t->flags[span_named(t, "ProfilerStep#13")] & MTP__SPAN_STEP, 0);
    assert_int_equal(t->flags[span_named(t, "ProfilerStep#x")] & MTP__SPAN_STEP, 0);
    assert_int_equal(t->flags[span_named(t, "nn.Module: Linear_0")] & MTP__SPAN_MODULE, MTP__SPAN_MODULE);
    assert_int_equal(t->flags[span_named(t, "MmBackward0")] & MTP__SPAN_BACKWARD, MTP__SPAN_BACKWARD);
    assert_int_equal(t->flags[span_named(t, "autograd::engine::evaluate_function: MmBackward0")] &
                         MTP__SPAN_BACKWARD,
                     MTP__SPAN_BACKWARD);
    assert_int_equal(t->step_count, 1);
    mtp_trace_destroy(t);
}

static void a_million_args_are_kept(void **state)
{
    (void)state;
    int many = test_scaled(1000000);
    char *json;
    size_t size;
    FILE *f = open_memstream(&json, &size);
    fputs("[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{\"x\":0", f);
    for (int i = 0; i < many; i++)
        fprintf(f, ",\"k%d\":%d", i, i);
    fputs(",\"External id\":5}}]", f);
    fclose(f);
    mtp_trace *t;
    assert_ok(read_bytes(json, size, 0, 0, &t));
    mtp_text args = mtp__trace_get_text(t, mtp__trace_detail(t, 0)->args);
    int commas = 0;
    for (size_t i = 0; i < args.length; i++)
        commas += args.bytes[i] == ',';
    assert_int_equal(commas, many);
    assert_true(mtp__trace_detail(t, 0)->external_id == 5);
    mtp_trace_destroy(t);
    free(json);
}

/* --------------------------------------------------------------------------------------- hostile text */

static void names_are_read_to_the_byte(void **state)
{
    (void)state;
    static const struct {
        const char *json, *name;
        size_t length;
    } cases[] = {{"", "", 0},
                 {"plain", "plain", 5},
                 {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 8},
                 {"\\u0041\\u00e9\\u20AC", "A\xc3\xa9\xe2\x82\xac", 6},
                 {"\\ud83d\\ude00", "\xf0\x9f\x98\x80", 4},
                 {"a\\ud800b",
                  "a\xef\xbf\xbd"
                  "b",
                  5},
                 {"\\ud800\\u0041",
                  "\xef\xbf\xbd"
                  "A",
                  4},
                 {"\\udc00", "\xef\xbf\xbd", 3},
                 {"\\ud800\\ud800\\udc00", "\xef\xbf\xbd\xf0\x90\x80\x80", 7},
                 {"x\\u0000y", "x\0y", 3},
                 {"\xff\xfe\x80", "\xff\xfe\x80", 3},
                 {"\xed\xa0\x80", "\xed\xa0\x80", 3},
                 {"C:\\Users\\x", "C:\\Users\\x", 10},
                 {"\\u12g4", "\\u12g4", 6},
                 {"\\", "\\", 0}, /* see below: the quote is escaped */
                 {"raw\ttab\x1b[31m", "raw\ttab\x1b[31m", 12},
                 {"</script>\xe2\x80\xa8%s../", "</script>\xe2\x80\xa8%s../", 17}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256];
        if (cases[i].json[0] == '\\' && cases[i].json[1] == 0)
            continue;
        snprintf(json, sizeof json, "[{\"ph\":\"X\",\"name\":\"%s\",\"ts\":1,\"dur\":1}]", cases[i].json);
        mtp_trace *t = read_text(json);
        mtp_text name = mtp__trace_get_text(t, t->name[0]);
        if (name.length != cases[i].length || memcmp(name.bytes, cases[i].name, name.length) != 0)
            fail_msg("'%s' became '%s', %zu bytes", cases[i].json, name.bytes, name.length);
        mtp_trace_destroy(t);
    }
}

static void raw_zero_bytes_in_a_name_are_kept(void **state)
{
    (void)state;
    static const char json[] = "[{\"ph\":\"X\",\"name\":\"a\0b\",\"ts\":1,\"dur\":1}]";
    mtp_trace *t;
    assert_ok(read_bytes(json, sizeof json - 1, 0, 0, &t));
    assert_int_equal(mtp__trace_get_text(t, t->name[0]).length, 3);
    mtp_trace_destroy(t);
}

/* Text that is copied to the output must be acceptable to a strict parser. */
static void kept_json_is_strict_whatever_came_in(void **state)
{
    (void)state;
    mtp_trace *t = read_text(
        "{\"m\": [NaN, -Infinity, inf, nan, -nan, \"\x01\xff\\x\\ud800\"], \"traceEvents\":[{\"ph\":\"X\","
        "\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{\"k\x02\xc3\":NaN,\"v\":\"\t\xe2\x82\",\"u\":[\"\\q\","
        "inf]}}]}");
    size_t at;
    mtp_text meta = mtp__trace_get_text(t, t->metadata[0].json);
    assert_string_equal(
        meta.bytes,
        "[\"NaN\", \"-Infinity\", \"inf\", \"nan\", \"-nan\", \"\\u0001\xef\xbf\xbd\\\\x\\ufffd\"]");
    assert_true(mtp__json_check(meta.bytes, meta.length, &at));
    assert_string_equal(args_of(t, "a"), "\"k\\u0002\xef\xbf\xbd\": \"NaN\", \"v\": \"\\u0009\xef\xbf\xbd\", "
                                         "\"u\": [\"\\\\q\", \"inf\"]");
    mtp_trace_destroy(t);
}

static void random_bytes_in_strings_always_leave_strict_json(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "\\",   "\\u", "\\ud8", "\\ud83d", "\\ude00", "\"",   "\x80",         "\xe2\x82\xac", "\xf0\x9f",
        "\x1f", "a",   "0041",  "\\n",     "\\\\",    "\xc0", "\xed\xa0\x80", "</script>",    "\x7f"};
    for (int round = 0; round < test_scaled(20000); round++) {
        char raw[128] = "", json[512];
        size_t length = 0;
        for (int i = 0; i < 8; i++) {
            const char *piece = pieces[test_below(COUNT(pieces))];
            memcpy(raw + length, piece, strlen(piece) + 1);
            length += strlen(piece);
        }
        snprintf(json, sizeof json,
                 "[{\"ph\":\"X\",\"name\":\"n\",\"ts\":1,\"dur\":1,\"args\":{\"k%s\":[\"%s\"]}}]", raw, raw);
        mtp_trace *t;
        if (read_bytes(json, strlen(json), 0, 0, &t) != MTP_OK)
            continue; /* the quotes make it invalid JSON */
        mtp_text args = mtp__trace_get_text(t, mtp__trace_detail(t, 0)->args);
        char whole[1024];
        int n = snprintf(whole, sizeof whole, "{%s}", args.bytes);
        size_t at;
        if (!mtp__json_check(whole, (size_t)n, &at))
            fail_msg("%s\nbecame, wrong at %zu,\n%s", json, at, whole);
        mtp_trace_destroy(t);
    }
}

static char *with_long_name(size_t length, size_t *size)
{
    char *json;
    FILE *f = open_memstream(&json, size);
    fputs("[" X1("a", 1, 1) ",{\"ph\":\"X\",\"ts\":2,\"dur\":1,\"name\":\"", f);
    for (size_t i = 0; i < length; i++)
        fputc('x', f);
    fputs("\"}," X1("b", 3, 1) "]", f);
    fclose(f);
    return json;
}

static void a_string_longer_than_the_window_is_read(void **state)
{
    (void)state;
    size_t size;
    char *json = with_long_name(1 << 20, &size);
    mtp_trace *t;
    assert_ok(read_bytes(json, size, 64, 0, &t));
    assert_int_equal(t->span_count, 3);
    assert_int_equal(mtp__trace_get_text(t, t->name[mtp__trace_track_of(t, 0) == 0 ? 2 : 0]).length, 1 << 20);
    mtp_trace_destroy(t);
    free(json);
}

static void an_event_beyond_the_limit_is_an_error_and_no_flood(void **state)
{
    (void)state;
    size_t size, limit = MTP__KINETO_LARGEST;
    char *json = with_long_name(limit + 1000, &size);
    mtp_trace *t;
    assert_int_equal(read_bytes(json, size, 0, 0, &t), MTP_E_FORMAT);
    assert_says("one event or value of more than");
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(args_without_a_place_in_the_model_are_kept_as_text),
        TEST(args_may_come_before_everything_else),
        TEST(ids_that_are_not_ids_are_none),
        TEST(of_an_arg_that_is_there_twice_the_later_counts),
        TEST(shapes_are_spelled_as_kineto_spells_them_and_kept_once),
        TEST(stacks_are_kept_frame_by_frame_innermost_first_in_the_file),
        TEST(mindtorch_args_are_known),
        TEST(steps_modules_and_backward_are_flagged),
        TEST(a_million_args_are_kept),
        TEST(names_are_read_to_the_byte),
        TEST(raw_zero_bytes_in_a_name_are_kept),
        TEST(kept_json_is_strict_whatever_came_in),
        TEST(random_bytes_in_strings_always_leave_strict_json),
        TEST(a_string_longer_than_the_window_is_read),
        TEST(an_event_beyond_the_limit_is_an_error_and_no_flood),
    };
    return cmocka_run_group_tests_name("kineto", tests, NULL, NULL);
}
