/* tests/unit/checked_files.h - files for the tests of check. */
#ifndef TESTS_UNIT_CHECKED_FILES_H
#define TESTS_UNIT_CHECKED_FILES_H
#include "tests/test.h"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include "base/json_check.h"
#include "record/pool.h"

#define HEAD                                                                                                 \
    "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{\"id\": 0}],\n"                                   \
    "  \"distributedInfo\": {\"backend\": \"\", \"rank\": 0, \"world_size\": 1},\n"                          \
    "  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 1700000000000000000,\n  \"traceEvents\": "   \
    "[\n"
#define TAIL "\n], \"traceName\": \"x.json\"}\n"

static const char clean[] = HEAD "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 42, \"tid\": 0, "
                                 "\"ts\": 0.000, \"args\": {\"name\": "
                                 "\"python\"}},\n"
                                 "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": "
                                 "\"ProfilerStep#1\", \"pid\": 42, \"tid\": 42, \"ts\": "
                                 "0.000, \"dur\": 1000.000, \"args\": {\"External id\": 1}},\n"
                                 "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 42, "
                                 "\"tid\": 42, \"ts\": 10.000, \"dur\": "
                                 "100.000, \"args\": {\"External id\": 2, \"Input Dims\": [[2, 3]]}},\n"
                                 "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"launch\", \"pid\": "
                                 "42, \"tid\": 42, \"ts\": 20.000, "
                                 "\"dur\": 10.000, \"args\": {\"correlation\": 7}},\n"
                                 "{\"ph\": \"s\", \"id\": 7, \"pid\": 42, \"tid\": 42, \"ts\": 20.000, "
                                 "\"cat\": \"ac2g\", \"name\": \"ac2g\"},\n"
                                 "{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"name\": \"[memory]\", "
                                 "\"s\": \"t\", \"pid\": 42, \"tid\": 42, "
                                 "\"ts\": 25.000, \"args\": {\"Bytes\": 64}},\n"
                                 "{\"ph\": \"C\", \"name\": \"loss\", \"pid\": 42, \"tid\": 42, \"ts\": "
                                 "30.000, \"args\": {\"value\": 1.5}},\n"
                                 "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm\", \"pid\": 100, "
                                 "\"tid\": 7, \"ts\": 50.000, \"dur\": "
                                 "30.000, \"args\": {\"device\": 0, \"stream\": 7, \"correlation\": 7}},\n"
                                 "{\"ph\": \"f\", \"id\": 7, \"pid\": 100, \"tid\": 7, \"ts\": 50.000, "
                                 "\"cat\": \"ac2g\", \"name\": \"ac2g\", "
                                 "\"bp\": \"e\"}" TAIL;

/* ------------------------------------------------------------------------------------------------ helpers */

static inline mtp_check *check_file(const char *path)
{
    mtp_check *c;
    assert_ok(mtp_trace_check_file(path, NULL, &c));
    return c;
}

static inline mtp_check *check_text(const char *text, size_t length)
{
    const char *path = test_path("check.json");
    test_spew(path, text, length);
    return check_file(path);
}

static inline void tell(const mtp_check *c)
{
    for (size_t i = 0; i < mtp_check_count(c); i++) {
        const mtp_finding *f = mtp_check_finding(c, i);
        print_error("rule %u: %s, %llu times at byte %llu\n", f->rule, f->what, (unsigned long long)f->count,
                    (unsigned long long)f->first_byte);
    }
}

static inline void assert_clean(mtp_check *c)
{
    if (mtp_check_breaches(c) != 0)
        tell(c);
    assert_int_equal(mtp_check_breaches(c), 0);
    mtp_check_destroy(c);
}

/* This finding and no other. Destroys the check. */
static inline mtp_finding assert_only(mtp_check *c, uint32_t rule, const char *what)
{
    if (mtp_check_count(c) != 1 || mtp_check_finding(c, 0)->rule != rule ||
        strstr(mtp_check_finding(c, 0)->what, what) == NULL) {
        tell(c);
        fail_msg("not rule %u, '%s', alone", rule, what);
    }
    mtp_finding f = *mtp_check_finding(c, 0);
    assert_true(strlen(f.effect) > 10);
    mtp_check_destroy(c);
    f.what = f.effect = NULL;
    return f;
}

/* The clean trace with the first `from` replaced. */
static inline char *changed(const char *from, const char *to, size_t *length)
{
    const char *at = strstr(clean, from);
    if (at == NULL)
        fail_msg("the clean trace has no '%s'", from);
    char *text = malloc(sizeof clean + strlen(to) + 1);
    size_t before = (size_t)(at - clean);
    memcpy(text, clean, before);
    strcpy(text + before, to);
    strcat(text + before, at + strlen(from));
    *length = before + strlen(text + before);
    return text;
}

#define AND(event) ",\n" event TAIL
#define LATE_X                                                                                               \
    "\"cat\": \"cpu_op\", \"name\": \"late\", \"pid\": 42, \"tid\": 42, \"ts\": 60.000, \"dur\": 5.000, "    \
    "\"args\": {\"External id\": 9}"

static inline const char *record(const char *name)
{
    const char *path = test_path(name);
    warnings w = {0};
    mtp_profile_config config = test_config(&w);
    config.spool = path;
    config.with_stack = false;
    config.record_shapes = true;
    mtp_profile *prof = test_start(&config);
    for (int i = 0; i < 300; i++) {
        MTP_SCOPE ("outer") {
            int64_t dims[2] = {i % 3, 4};
            mtp_input input = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
            mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
            op.inputs = &input;
            op.input_count = 1;
            mtp_op_begin(&op);
            mtp_op_end(&op);
        }
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    return path;
}
#endif
