/* Unit: check: the rules for JSON files; compressed files; PyTorch's own files. */
#define _GNU_SOURCE
#include "tests/unit/checked_files.h"

/* --------------------------------------------------------------------------------------------- the rules */

static const struct fault {
    uint32_t rule;
    mtp_severity severity;
    const char *what, *from, *to;
} faults[] = {
#define NOTE MTP_SEVERITY_NOTE
#define ERROR MTP_SEVERITY_ERROR
#define REMARK MTP_SEVERITY_REMARK
    {1, ERROR, "not JSON", "\"ph\": \"C\"", "\"ph\" \"C\""},
    {1, ERROR, "not JSON", "\"ts\": 30.000", "\"ts\": 030.000"},
    {1, ERROR, "not JSON", TAIL, TAIL "more"},
    {1, ERROR, "not JSON: 'h' where '{' is expected", HEAD, "hello"},
    {1, ERROR, "no traceEvents list", "\"traceEvents\"", "\"traceEvent\""},
    {1, ERROR, "a second traceEvents", TAIL, "\n], \"traceEvents\": null}"},
    {1, ERROR, "a second traceEvents", TAIL, "\n], \"traceEvents\": [], \"traceName\": \"x.json\"}"},
    {1, ERROR, "a comma with nothing after it", "\n]", ",\n]"},
    {1, ERROR, "a comma with nothing after it", "\"x.json\"}", "\"x.json\",}"},
    {1, ERROR, "a raw control character in a string (0x0a)", "aten::mm", "aten\n::mm"},
    {1, ERROR, "a raw control character in a string (0x09)", "x.json", "x\t.json"},
    {1, ERROR, "an invalid escape (\\x)", "aten::mm", "aten\\x::mm"},
    {1, ERROR, "an invalid escape (\\u)", "aten::mm", "aten\\u12g4::mm"},
    {1, ERROR, "NaN, which is not a JSON number", "{\"External id\": 2",
     "{\"loss\": NaN, \"External id\": 2"},
    {1, ERROR, "Infinity, which is not a JSON number", "\"id\": 0}", "\"id\": -Infinity}"},
    {1, ERROR, "bytes that are not UTF-8 (0xff)", "aten::mm", "aten::\xffmm"},
    {1, ERROR, "bytes that are not UTF-8 (0xc0)", "\"Bytes\": 64", "\"Bytes\": 64, \"x\": \"\xc0\""},
    {2, NOTE, "no schemaVersion", "\"schemaVersion\": 1,", ""},
    {2, NOTE, "no deviceProperties list", "\"deviceProperties\": [{\"id\": 0}]", "\"deviceProperties\": 1"},
    {2, ERROR, "no distributedInfo object",
     "\"distributedInfo\": {\"backend\": \"\", \"rank\": 0, \"world_size\": 1},", ""},
    {2, ERROR, "no numeric rank", "\"rank\": 0", "\"rank\": \"0\""},
    {2, NOTE, "no world_size", "\"world_size\"", "\"worldsize\""},
    {2, NOTE, "no backend", "\"backend\": \"\", ", ""},
    {2, ERROR, "no space between", "\"rank\": 0", "\"rank\":0"},
    {2, NOTE, "no displayTimeUnit", "\"displayTimeUnit\": \"ms\",", ""},
    {2, NOTE, "no numeric baseTimeNanoseconds", "1700000000000000000", "\"1700000000000000000\""},
    {3, ERROR, "is not an object (17)", "\n{\"ph\": \"C\"", "\n17, {\"ph\": \"C\""},
    {3, ERROR, "no phase", "\"ph\": \"C\"", "\"phase\": \"C\""},
    {3, ERROR, "no name", "\"name\": \"aten::mm\"", "\"name\": \"\""},
    {3, ERROR, "no name", "\"name\": \"aten::mm\"", "\"name\": 5"},
    {3, ERROR, "no numeric ts (\"loss\")", "\"ts\": 30.000, ", ""},
    {3, ERROR, "no numeric ts (\"30\")", "\"ts\": 30.000", "\"ts\": \"30\""},
    {3, ERROR, "no pid", "\"loss\", \"pid\": 42, ", "\"loss\", "},
    {3, ERROR, "no tid", "\"pid\": 42, \"tid\": 42, \"ts\": 25", "\"pid\": 42, \"ts\": 25"},
    {3, ERROR, "no category", "\"cat\": \"cpu_op\", ", ""},
    {3, ERROR, "no numeric dur", "\"dur\": 100.000, ", ""},
    {3, ERROR, "dur of a complete event is not a number (\"soon\")", "\"dur\": 100.000", "\"dur\": \"soon\""},
    {3, ERROR, "negative dur (-1.5)", "\"dur\": 100.000", "\"dur\": -1.5"},
    {3, NOTE, "no args object", "\"args\": {\"External id\": 1}", "\"arg\": {}"},
    {4, ERROR, "complete event is not a number (\"Spans\")", TAIL,
     AND("{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"s\", \"pid\": \"Spans\", \"tid\": \"x\", \"ts\": "
         "60.000, "
         "\"dur\": 1, \"args\": {}}")},
    {4, NOTE, "other than a span is not a number (\"Traces\")", "\"loss\", \"pid\": 42",
     "\"loss\", \"pid\": \"Traces\""},
    {4, ERROR, "from 0 to 4294967295 (-1)", "\"loss\", \"pid\": 42", "\"loss\", \"pid\": -1"},
    {4, ERROR, "from 0 to 4294967295 (4294967296)", "\"loss\", \"pid\": 42", "\"loss\", \"pid\": 4294967296"},
    {4, ERROR, "from 0 to 4294967295 (4.5)", "\"loss\", \"pid\": 42", "\"loss\", \"pid\": 4.5"},
    {4, NOTE, "pid is 0", "\"loss\", \"pid\": 42", "\"loss\", \"pid\": 0"},
    {4, ERROR, "tid is 0", "\"pid\": 42, \"tid\": 42, \"ts\": 30", "\"pid\": 42, \"tid\": 0, \"ts\": 30"},
    {5, NOTE, "more than three decimals (30.0001)", "\"ts\": 30.000", "\"ts\": 30.0001"},
    {5, NOTE, "more than three decimals (1e-7)", "\"dur\": 100.000", "\"dur\": 1e-7"},
    {5, NOTE, "4.5e12 or more (4500000000000.000)", TAIL,
     AND("{\"ph\": \"C\", \"name\": \"n\", \"pid\": 42, \"tid\": 42, \"ts\": 4500000000000.000, \"args\": "
         "{\"v\": 1}}")},
    {7, ERROR, "begins inside another on its row and ends outside (ts 20.000 us)", "\"dur\": 10.000",
     "\"dur\": 90.001"},
    {8, NOTE, "earlier than the one before it", "\"ts\": 30.000", "\"ts\": 24.000"},
    {8, ERROR, "the shorter comes first (ts 60.000 us)", TAIL,
     AND("{\"ph\": \"X\", " LATE_X
         "},\n{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"p\", \"pid\": 42, \"tid\": 42, "
         "\"ts\": 60.000, \"dur\": 9.000, \"args\": {}}")},
    {8, ERROR, "a flow comes before its span in the file (id 8)", TAIL,
     AND("{\"ph\": \"s\", \"id\": 8, \"pid\": 42, \"tid\": 42, \"ts\": 60.000, \"cat\": \"ac2g\", \"name\": "
         "\"ac2g\"},\n{\"ph\": \"X\", " LATE_X "}")},
    {9, ERROR, "begin and end events", "\"ph\": \"C\"", "\"ph\": \"B\""},
    {9, NOTE, "scope (s) is not t, p or g", "\"s\": \"t\", ", ""},
    {9, NOTE, "scope (s) is not t, p or g", "\"s\": \"t\"", "\"s\": \"x\""},
    {9, ERROR, "a counter has no number in its args (\"loss\")", "{\"value\": 1.5}", "{\"value\": \"1.5\"}"},
    {9, ERROR, "a counter has no number in its args (\"loss\")", "{\"value\": 1.5}", "{}"},
    {10, NOTE, "not one of Kineto's (\"Operator\")", "\"cat\": \"cpu_op\"", "\"cat\": \"Operator\""},
    {11, NOTE, "name is not its category (\"flow\")", TAIL,
     AND("{\"ph\": \"X\", " LATE_X
         "},\n{\"ph\": \"s\", \"id\": 8, \"pid\": 42, \"tid\": 42, \"ts\": 60.000, \"cat\": "
         "\"ac2g\", \"name\": \"flow\"}")},
    {11, ERROR, "id is not an integer (\"7\")", TAIL,
     AND("{\"ph\": \"s\", \"id\": \"7\", \"pid\": 100, \"tid\": 7, \"ts\": 50.000, \"cat\": \"ac2g\", "
         "\"name\": "
         "\"ac2g\"}")},
    {11, ERROR, "start with the same id (id 7)", "\"ts\": 20.000, \"cat\": \"ac2g\", \"name\": \"ac2g\"}",
     "\"ts\": 20.000, \"cat\": \"ac2g\", \"name\": \"ac2g\"},\n{\"ph\": \"s\", \"id\": 7, \"pid\": 42, "
     "\"tid\": 42, "
     "\"ts\": 20.000, \"cat\": \"ac2g\", \"name\": \"ac2g\"}"},
    {11, REMARK, "a flow ends that did not start in the trace (id 8)", "\"ph\": \"f\", \"id\": 7",
     "\"ph\": \"f\", \"id\": 8"},
    {11, ERROR, "without \"bp\": \"e\"", ", \"bp\": \"e\"", ""},
    {11, ERROR, "a flow has no span at its time (id 7)",
     "\"pid\": 100, \"tid\": 7, \"ts\": 50.000, \"cat\": \"ac2g\"",
     "\"pid\": 100, \"tid\": 8, \"ts\": 50.000, \"cat\": \"ac2g\""},
    {11, NOTE, "not at its start (id 7)", "\"pid\": 100, \"tid\": 7, \"ts\": 50.000, \"cat\": \"ac2g\"",
     "\"pid\": 100, \"tid\": 7, \"ts\": 51.000, \"cat\": \"ac2g\""},
    {12, ERROR, "the same correlation (7)", TAIL,
     AND("{\"ph\": \"X\", \"cat\": \"cuda_driver\", \"name\": \"l2\", \"pid\": 42, \"tid\": 42, \"ts\": "
         "60.000, \"dur\": "
         "5, \"args\": {\"correlation\": 7}}")},
    {13, NOTE, "not spelled as Kineto does (Input dims)", "\"Input Dims\"", "\"Input dims\""},
    {13, NOTE, "not spelled as Kineto does (external id)", "{\"External id\": 2", "{\"external id\": 2"},
    {13, ERROR, "no numeric stream", "\"stream\": 7, ", ""},
    {13, ERROR, "no numeric correlation", "\"stream\": 7, \"correlation\": 7",
     "\"stream\": 7, \"correlation\": \"7\""},
    {14, ERROR, "an unknown name (\"my_metadata\")", "process_name", "my_metadata"},
    {15, NOTE, "not named ProfilerStep# and a number (\"ProfilerStep 1\")", "ProfilerStep#1",
     "ProfilerStep 1"},
    {15, NOTE, "not named ProfilerStep# and a number (\"ProfilerStep#\")", "ProfilerStep#1", "ProfilerStep#"},
    {16, ERROR, "named \"Profile\"", "\"name\": \"aten::mm\"", "\"name\": \"Profile\""},
    {16, ERROR, "named \"ProfileChunk\"", "\"name\": \"loss\"", "\"name\": \"ProfileChunk\""},
};

static void a_trace_that_keeps_the_rules_is_clean(void **state)
{
    (void)state;
    mtp_check *c = check_text(clean, sizeof clean - 1);
    assert_int_equal(mtp_check_events(c), 9);
    assert_null(mtp_check_finding(c, 0));
    assert_clean(c);
}

static void each_fault_is_found_by_its_rule_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(faults); i++) {
        size_t length;
        char *text = changed(faults[i].from, faults[i].to, &length);
        if (strcmp(faults[i].from, HEAD) == 0)
            length = 5; /* nothing but that */
        mtp_check *c = check_text(text, length);
        assert_int_equal(mtp_check_breaches(c), faults[i].severity != REMARK);
        mtp_finding f = assert_only(c, faults[i].rule, faults[i].what);
        assert_int_equal(f.severity, faults[i].severity);
        assert_int_equal(f.count, 1);
        assert_true(f.first_byte <= length);
        if (f.first_event != UINT64_MAX && f.rule != 1) /* reported where an event begins */
            assert_true(text[f.first_byte] == '{' || text[f.first_byte] == '1');
        free(text);
    }
}

static void every_rule_that_a_file_shows_is_tried(void **state)
{
    (void)state;
    bool tried[18] = {false};
    for (size_t i = 0; i < COUNT(faults); i++)
        tried[faults[i].rule] = true;
    for (uint32_t rule = 1; rule <= 16; rule++)
        if (rule != 6) /* an option of the writer */
            assert_true(tried[rule]);
}

static void a_list_of_events_is_not_an_object(void **state)
{
    (void)state;
    char *text = strdup(strstr(clean, "[\n{"));
    *(strrchr(text, ']') + 1) = 0;
    assert_only(check_text(text, strlen(text)), 1, "not an object with traceEvents");
    free(text);
}

static void counters_need_no_thread(void **state)
{
    (void)state;
    size_t length;
    char *text = changed("\"pid\": 42, \"tid\": 42, \"ts\": 30", "\"pid\": 42, \"ts\": 30", &length);
    mtp_check *c = check_text(text, length);
    assert_int_equal(mtp_check_count(c), 0);
    mtp_check_destroy(c);
    free(text);
}

#define START                                                                                                \
    "{\"ph\": \"s\", \"id\": 7, \"pid\": 42, \"tid\": 42, \"ts\": 20.000, \"cat\": \"ac2g\", \"name\": "     \
    "\"ac2g\"},\n"
#define FINISH                                                                                               \
    ",\n{\"ph\": \"f\", \"id\": 7, \"pid\": 100, \"tid\": 7, \"ts\": 50.000, \"cat\": \"ac2g\", \"name\": "  \
    "\"ac2g\", \"bp\": \"e\"}"

static void kernels_without_flows_are_worth_a_remark(void **state)
{
    (void)state;
    size_t length;
    char *text = changed(START, "", &length), *end = strstr(text, FINISH);
    assert_non_null(end);
    memmove(end, end + strlen(FINISH), strlen(end + strlen(FINISH)) + 1);
    mtp_check *c = check_text(text, strlen(text));
    assert_int_equal(mtp_check_breaches(c), 0);
    mtp_finding f = assert_only(c, 11, "device work has no flows from its launches (1 events)");
    assert_int_equal(f.severity, REMARK);
    assert_memory_equal(text + f.first_byte, "{\"ph\": \"X\", \"cat\": \"kernel\"", 27);
    free(text);
}

static void values_nested_too_deep_are_reported(void **state)
{
    (void)state;
    size_t deep = 10002, length;
    char *value = malloc(2 * deep + 32), *text;
    strcpy(value, "\"x\": ");
    memset(value + 5, '[', deep);
    memset(value + 5 + deep, ']', deep);
    strcpy(value + 5 + 2 * deep, ", \"value\"");
    text = changed("\"value\"", value, &length);
    assert_only(check_text(text, length), 1, "values are nested more than 10000 deep");
    free(value);
    free(text);
}

static void keys_behind_the_events_are_told(void **state)
{
    (void)state;
    size_t length;
    char *text = changed("\"displayTimeUnit\": \"ms\",", "", &length);
    char *end = strstr(text, "\"traceName\"");
    strcpy(end, "\"displayTimeUnit\": \"ms\"}\n");
    assert_only(check_text(text, strlen(text)), 2, "displayTimeUnit comes after traceEvents");
    free(text);
}

static void a_file_truncated_anywhere_is_reported_once(void **state)
{
    (void)state;
    for (size_t length = 1; length < sizeof clean - 3; length += 7) {
        mtp_check *c = check_text(clean, length);
        size_t cut = 0;
        for (size_t i = 0; i < mtp_check_count(c);
             i++) { /* the part that was read may lack the other end of a flow */
            const mtp_finding *f = mtp_check_finding(c, i);
            cut += f->rule == 1;
            assert_true(f->rule == 1 || f->rule == 11);
            assert_true(f->first_byte <= length);
        }
        assert_int_equal(cut, 1);
        mtp_check_destroy(c);
    }
}

static void spans_deeper_than_512_are_reported(void **state)
{
    (void)state;
    char *text = malloc(200000), *at = text + sprintf(text, "%s", HEAD);
    for (int i = 0; i < 514; i++)
        at += sprintf(
            at,
            "%s{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"d\", \"pid\": 1, \"tid\": 1, \"ts\": %d, "
            "\"dur\": %d, \"args\": {}}",
            i > 0 ? ",\n" : "", i, 2000 - 2 * i);
    at += sprintf(at, TAIL);
    mtp_finding f =
        assert_only(check_text(text, (size_t)(at - text)), 8, "more than 512 deep (ts 512.000 us)");
    assert_int_equal(f.count, 2);
    assert_int_equal(f.first_event, 512);
    free(text);
}

static void the_first_place_and_the_number_are_right(void **state)
{
    (void)state;
    char *text = malloc(100000), *at = text + sprintf(text, "%s", HEAD);
    size_t first = 0;
    for (int i = 0; i < 100; i++) {
        at += sprintf(at, "%s", i > 0 ? ",\n" : "");
        if (i == 3)
            first = (size_t)(at - text);
        at += sprintf(
            at,
            "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"n\", \"pid\": %d, \"tid\": 1, \"ts\": %d, "
            "\"dur\": 1, \"args\": {}}",
            i % 10 == 3 ? -5 : 1, i * 10);
    }
    at += sprintf(at, TAIL);
    mtp_finding f = assert_only(check_text(text, (size_t)(at - text)), 4, "(-5)");
    assert_int_equal(f.count, 10);
    assert_int_equal(f.first_event, 3);
    assert_int_equal(f.first_byte, first);
    free(text);
}

/* -------------------------------------------------------------------------------------------- compressed */

static void gzip_of(const char *path, const char *text, size_t length)
{
    mtp_file *file;
    assert_ok(mtp_file_create(path, 1, &file));
    assert_true(mtp_file_sink(file, text, length));
    assert_ok(mtp_file_commit(file));
}

static void compressed_files_are_one_whole_member(void **state)
{
    (void)state;
    const char *path = test_path("a.json.gz"), *other = test_path("b.json.gz");
    gzip_of(path, clean, sizeof clean - 1);
    assert_clean(check_file(path));
    size_t bytes, more;
    char *whole = test_slurp(path, &bytes);
    test_spew(path, whole, bytes - 30); /* cut off */
    assert_only(check_file(path), 1, "the compressed content is damaged: ");
    free(whole);
    gzip_of(path, clean, 500);
    gzip_of(other, clean + 500, sizeof clean - 1 - 500);
    char *one = test_slurp(path, &bytes), *two = test_slurp(other, &more);
    char *both = malloc(bytes + more);
    memcpy(both, one, bytes);
    memcpy(both + bytes, two, more);
    test_spew(path, both, bytes + more);
    assert_only(check_file(path), 1, "the gzip file has 2 members");
    free(one);
    free(two);
    free(both);
}

static void files_that_web_pages_cannot_hold_are_reported(void **state)
{
    (void)state;
    if (TEST_ASAN || TEST_TSAN) {
        print_message("# skipped: half a gigabyte is slow under a sanitizer\n");
        return;
    }
    const struct {
        size_t bytes;
        const char *what;
        mtp_severity severity;
    } sizes[] = {{(size_t)505000000, "the content is 505 MB", MTP_SEVERITY_NOTE},
                 {(size_t)513 << 20, "the content is 538 MB", MTP_SEVERITY_ERROR}};
    char *blank = malloc(1 << 20);
    memset(blank, ' ', 1 << 20);
    setenv("MTPROF_MAX_MEMORY", "1G", 1); /* without it, spaces that compress this well look like a bomb */
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const char *path = test_path("large.json.gz");
        mtp_file *file;
        assert_ok(mtp_file_create(path, 1, &file));
        assert_true(mtp_file_sink(file, clean, sizeof clean - 1));
        for (size_t left = sizes[i].bytes; left > 0;) {
            size_t n = left < 1 << 20 ? left : 1 << 20;
            assert_true(mtp_file_sink(file, blank, n));
            left -= n;
        }
        assert_ok(mtp_file_commit(file));
        assert_int_equal(assert_only(check_file(path), 17, sizes[i].what).severity, sizes[i].severity);
    }
    unsetenv("MTPROF_MAX_MEMORY");
    free(blank);
}

/* ------------------------------------------------------------------------------------------ PyTorch's own */

/* Rules that PyTorch 2.11's own files break, counted by an independent reader in Python. */
static void torchs_own_files_break_just_these(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        uint64_t no_args, wild, zero_pid, zero_tid, overlap, unsorted, lost_flows;
    } files[] = {
        {"cpu_of_cuda", 0, 0, 0, 0, 0, 5, 14},    {"cuda_gpt", 0, 0, 960, 0, 0, 490, 42},
        {"cuda_graph", 1, 1, 18, 1, 0, 4, 3},     {"cuda_only", 1, 1, 316, 1, 0, 159, 14},
        {"cuda_plain", 1, 1, 638, 1, 0, 325, 28}, {"cuda_stack", 1, 1, 417, 1, 4, 216, 60},
        {"cuda_streams", 4, 4, 91, 4, 0, 53, 35},
    };
    for (size_t k = 0; k < COUNT(files); k++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/golden/torch/%s.json.gz", TEST_ROOT, files[k].file);
        if (access(path, R_OK) != 0) {
            print_message("# skipped: %s is not there\n", path);
            continue;
        }
        const struct {
            uint32_t rule;
            const char *what;
            uint64_t count;
        } expected[] = {{2, "distributedInfo", 1},
                        {3, "no args object", files[k].no_args},
                        {4, "complete event is not a number (\"Spans\")", 1},
                        {4, "other than a span is not a number", 3},
                        {4, "4294967295", files[k].wild},
                        {4, "pid is 0", files[k].zero_pid},
                        {4, "tid is 0", files[k].zero_tid},
                        {7, "", files[k].overlap},
                        {8, "earlier", files[k].unsorted},
                        {11, "did not start in the trace", files[k].lost_flows}};
        mtp_check *c = check_file(path);
        size_t at = 0;
        for (size_t i = 0; i < COUNT(expected); i++) {
            if (expected[i].count == 0)
                continue;
            const mtp_finding *f = mtp_check_finding(c, at++);
            if (f == NULL || f->rule != expected[i].rule || strstr(f->what, expected[i].what) == NULL ||
                f->count != expected[i].count) {
                tell(c);
                fail_msg("%s: not %llu of rule %u, '%s'", files[k].file,
                         (unsigned long long)expected[i].count, expected[i].rule, expected[i].what);
            }
        }
        if (mtp_check_count(c) != at)
            tell(c);
        assert_int_equal(mtp_check_count(c), at);
        mtp_check_destroy(c);
        mtp_trace *t; /* none of them when we write the file */
        assert_ok(mtp_trace_open(path, NULL, &t));
        assert_ok(mtp_trace_export(t, test_path("torch.json"), NULL));
        assert_clean(check_file(test_path("torch.json")));
        mtp_trace_destroy(t);
    }
}

/* --------------------------------------------------------------------------------------------
 * surroundings */

static bool keep(void *user, const void *bytes, size_t length)
{
    strncat(user, bytes, length);
    return true;
}

static void findings_come_out_as_strict_json(void **state)
{
    (void)state;
    static const char *const names[] = {
        "my\\\"\\\\meta",
        "\x01\x1b[31m",
        "\xff\xfe",
        "\xe2\x80\xa8",
        "",
        "a name that is far too long to be shown in full in a line of text \xf0\x9f\x94\xa5"};
    for (size_t i = 0; i < COUNT(names); i++) {
        size_t length, wrong = 0;
        char *text = changed("process_name", names[i], &length);
        mtp_check *c = check_text(text, length);
        assert_true(mtp_check_count(c) >= 1);
        char json[8192] = "";
        assert_ok(mtp_check_json(c, keep, json));
        if (!mtp__json_check(json, strlen(json), &wrong))
            fail_msg("not JSON at %zu: %s", wrong, json);
        assert_contains(json, "\"rule\": 14, \"severity\": \"error\"");
        for (size_t k = 0; k < mtp_check_count(c); k++) /* safe to print on a terminal */
            for (const char *p = mtp_check_finding(c, k)->what; *p != 0; p++)
                assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
        mtp_check_destroy(c);
        free(text);
    }
}

static void told_progress(void *user, uint64_t done, uint64_t total)
{
    (void)total;
    *(uint64_t *)user = done;
}

static void arguments_are_checked(void **state)
{
    (void)state;
    mtp_check *c = (mtp_check *)&state;
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    assert_int_equal(mtp_trace_check_file(NULL, NULL, &c), MTP_E_ARG);
    assert_null(c);
    assert_int_equal(mtp_trace_check_file("x", NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_trace_check_file(test_path("none.json"), NULL, &c), MTP_E_IO);
    assert_says("none.json");
    options.size = 3;
    assert_int_equal(mtp_trace_check_file("x", &options, &c), MTP_E_ABI);
    const char *path = test_path("empty.json");
    test_spew(path, "", 0);
    assert_int_equal(mtp_trace_check_file(path, NULL, &c), MTP_E_FORMAT);
    assert_int_equal(mtp_check_count(NULL), 0);
    assert_int_equal(mtp_check_breaches(NULL), 0);
    assert_int_equal(mtp_check_events(NULL), 0);
    assert_null(mtp_check_finding(NULL, 0));
    assert_int_equal(mtp_check_json(NULL, keep, NULL), MTP_E_ARG);
    mtp_check_destroy(NULL);
    uint64_t done = 0;
    options = (mtp_open_options)MTP_OPEN_OPTIONS_INIT;
    options.progress = told_progress;
    options.user = &done;
    test_spew(path, clean, sizeof clean - 1);
    assert_ok(mtp_trace_check_file(path, &options, &c));
    mtp_check_destroy(c);
}

static void running_out_of_memory_anywhere_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    const char *json = test_path("sweep.json");
    test_spew(json, clean, sizeof clean - 1);
    const char *paths[] = {json, record("sweep.mtp")};
    long live = mtp__alloc_live();
    for (size_t k = 0; k < COUNT(paths); k++)
        for (int nth = 1;; nth++) {
            mtp_check *c = NULL;
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, false);
            mtp_status status = mtp_trace_check_file(paths[k], NULL, &c);
            int failed = mtp__fault_stop();
            mtp_check_destroy(c);
            assert_int_equal(mtp__alloc_live(), live);
            if (failed == 0) {
                assert_int_equal(status, MTP_OK);
                assert_true(nth > 5);
                break;
            }
            assert_int_equal(status, MTP_E_NOMEM);
            assert_null(c);
        }
    for (int nth = 1; nth < 6; nth++) { /* a failing disk is not a finding */
        mtp_check *c = NULL;
        mtp__fault_plan(1u << MTP__FAULT_READ, nth, true);
        mtp_status status = mtp_trace_check_file(json, NULL, &c);
        bool failed = mtp__fault_stop() > 0;
        assert_int_equal(status, failed ? MTP_E_IO : MTP_OK);
        mtp_check_destroy(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_trace_that_keeps_the_rules_is_clean),
        TEST(each_fault_is_found_by_its_rule_and_nothing_else),
        TEST(every_rule_that_a_file_shows_is_tried),
        TEST(a_list_of_events_is_not_an_object),
        TEST(counters_need_no_thread),
        TEST(kernels_without_flows_are_worth_a_remark),
        TEST(values_nested_too_deep_are_reported),
        TEST(keys_behind_the_events_are_told),
        TEST(a_file_truncated_anywhere_is_reported_once),
        TEST(spans_deeper_than_512_are_reported),
        TEST(the_first_place_and_the_number_are_right),
        TEST(compressed_files_are_one_whole_member),
        TEST(files_that_web_pages_cannot_hold_are_reported),
        TEST(torchs_own_files_break_just_these),
        TEST(findings_come_out_as_strict_json),
        TEST(arguments_are_checked),
        TEST(running_out_of_memory_anywhere_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
