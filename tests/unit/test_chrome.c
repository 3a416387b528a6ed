/* Unit: present/chrome and present/export. The files are checked by tests/golden/check_exports.py, which runs
 * this program to write them:
 *
 *     test_chrome --write FOLDER            one file per kind of trace
 *     test_chrome --round-trip TRACE OUT    read, written to OUT, read again: 0 if the averages are the same
 *     test_chrome --flows TRACE OUT         flows of a torch trace discarded and recreated
 */
#define _GNU_SOURCE
#include "tests/test.h"
#include "tests/unit/chrome_traces.h"
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "trace/build.h"

typedef struct text {
    char *bytes;
    size_t length, room;
    uint64_t refuse_after; /* bytes, 0: never */
} text;

static bool text_sink(void *user, const void *bytes, size_t length)
{
    text *t = user;
    if (t->refuse_after != 0 && t->length + length > t->refuse_after)
        return false;
    if (t->length + length + 1 > t->room) {
        t->room = (t->length + length + 1) * 2;
        t->bytes = realloc(t->bytes, t->room);
    }
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->bytes[t->length] = 0;
    return true;
}

static char *written(const mtp_trace *trace, const mtp_export_options *options)
{
    text t = {0};
    assert_ok(mtp_trace_chrome(trace, options, text_sink, &t));
    return t.bytes;
}

/* Not strstr or memmem: a sanitizer's scan all the remaining text each time. */
static size_t times(const char *in, const char *needle)
{
    size_t n = 0, matched = 0; /* no needle here overlaps itself */
    for (const char *at = in; *at != 0; at++) {
        matched = *at == needle[matched] ? matched + 1 : *at == needle[0];
        if (needle[matched] == 0)
            n++, matched = 0;
    }
    return n;
}

/* --------------------------------------------------------------------------------------------- the calls */

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    mtp_trace *t = make_small(false);
    mtp_export_options old = {.size = 4};
    struct {
        mtp_export_options options;
        char more[8];
    } newer = {.options = MTP_EXPORT_OPTIONS_INIT};
    text out = {0};
    assert_int_equal(mtp_trace_chrome(NULL, NULL, text_sink, &out), MTP_E_ARG);
    assert_int_equal(mtp_trace_chrome(t, NULL, NULL, &out), MTP_E_ARG);
    assert_int_equal(mtp_trace_chrome(t, &old, text_sink, &out), MTP_E_ABI);
    newer.options.size = sizeof newer;
    assert_ok(mtp_trace_chrome(t, &newer.options, text_sink, &out));
    newer.more[3] = 1;
    assert_int_equal(mtp_trace_chrome(t, &newer.options, text_sink, &out), MTP_E_ABI);
    assert_int_equal(mtp_trace_export(t, NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_trace_export(NULL, test_path("a.json"), NULL), MTP_E_ARG);
    assert_int_equal(mtp_trace_export(t, test_path("a.xyz"), NULL), MTP_E_ARG);
    assert_says(".json.gz");
    assert_int_equal(access(test_path("a.xyz"), F_OK), -1);
    free(out.bytes);
    mtp_trace_destroy(t);
}

static void a_sink_that_stops_is_an_io_error(void **state)
{
    (void)state;
    mtp_trace *t = make_many(20000);
    text out = {.refuse_after = 500000};
    assert_int_equal(mtp_trace_chrome(t, NULL, text_sink, &out), MTP_E_IO);
    free(out.bytes);
    mtp_trace_destroy(t);
}

static void told(void *user, uint64_t done, uint64_t total)
{
    uint64_t *last = user;
    assert_true(done >= last[0] && done <= total);
    last[0] = done;
    last[1] = total;
    last[2]++;
}

static void progress_goes_from_little_to_all(void **state)
{
    (void)state;
    mtp_trace *t = make_many(300000);
    uint64_t last[3] = {0};
    mtp_export_options options = MTP_EXPORT_OPTIONS_INIT;
    options.progress = told;
    options.user = last;
    char *got = written(t, &options);
    assert_int_equal(last[0], 300000);
    assert_int_equal(last[1], 300000);
    assert_true(last[2] >= 4);
    free(got);
    mtp_trace_destroy(t);
}

static bool nowhere(void *user, const void *bytes, size_t length)
{
    (void)user, (void)bytes, (void)length;
    return true;
}

/* Every allocation fails once: an error, and no leak. */
static void no_allocation_failure_costs_anything(void **state)
{
    (void)state;
    mtp_trace *traces[] = {make_small(false),  make_small(true), make_overlaps(300, 7),
                           make_hostile(NULL), make_times(true), make_ids()};
    for (size_t i = 0; i < COUNT(traces); i++)
        for (int whole = 0; whole < 2; whole++)
            for (int nth = 1, fired = 1; fired > 0; nth++) {
                long live = mtp__alloc_live();
                mtp_export_options options = MTP_EXPORT_OPTIONS_INIT;
                options.whole_microseconds = whole;
                mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, false);
                mtp_status status = mtp_trace_chrome(traces[i], &options, nowhere, NULL);
                fired = mtp__fault_stop();
                assert_true(status == MTP_OK ||
                            (status == MTP_E_NOMEM && fired > 0)); /* some can be done without */
                assert_int_equal(mtp__alloc_live(), live);
            }
    for (size_t i = 0; i < COUNT(traces); i++)
        mtp_trace_destroy(traces[i]);
}

static void every_call_that_fails_keeps_the_old_trace(void **state)
{
    (void)state;
    static const mtp__fault kinds[] = {MTP__FAULT_ALLOC, MTP__FAULT_OPEN, MTP__FAULT_WRITE, MTP__FAULT_SYNC,
                                       MTP__FAULT_RENAME};
    mtp_trace *t = make_many(2000);
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (int forever = 0; forever < 2; forever++)
            for (int nth = 1, fired = 1; fired > 0; nth++) {
                const char *path = test_path("kept.json");
                test_spew(path, "old", 3);
                mtp__fault_plan(1u << kinds[k], nth, forever);
                mtp_status status = mtp_trace_export(t, path, NULL);
                fired = mtp__fault_stop();
                size_t n;
                char *now = test_slurp(path, &n);
                assert_int_equal(n == 3, status != MTP_OK);
                assert_true(status == MTP_OK ||
                            status == (kinds[k] == MTP__FAULT_ALLOC ? MTP_E_NOMEM : MTP_E_IO));
                if (status == MTP_E_IO)
                    assert_says("kept.json");
                free(now);
            }
    mtp_trace_destroy(t);
}

static void the_name_says_the_form(void **state)
{
    (void)state;
    mtp_trace *t = make_small(false);
    static const char *const json[] = {"a.json", "a.pt.trace.json"}, *const folded[] = {"a.txt", "a.stacks",
                                                                                        "a.folded"};
    size_t n;
    for (size_t i = 0; i < COUNT(json); i++) {
        assert_ok(mtp_trace_export(t, test_path(json[i]), NULL));
        char *got = test_slurp(test_path(json[i]), &n);
        assert_int_equal(got[0], '{');
        assert_int_equal(got[n - 1], '\n');
        free(got);
    }
    for (size_t i = 0; i < COUNT(folded); i++) {
        assert_ok(mtp_trace_export(t, test_path(folded[i]), NULL));
        char *got = test_slurp(test_path(folded[i]), &n);
        assert_true(n > 0 && got[0] != '{');
        free(got);
    }
    static const struct {
        const char *path, *has;
    } other[] = {{"a.et.json", "\"schema\": \"1.1.1-chakra"},
                 {"a.csv", "key,overload_name,device_type,count"},
                 {"a.memory.json", "[["},
                 {"a.memory.raw.json", "["},
                 {"a.averages.json", "\"args\": {\"key\": "}};
    for (size_t i = 0; i < COUNT(other); i++) {
        assert_ok(mtp_trace_export(t, test_path(other[i].path), NULL));
        char *got = test_slurp(test_path(other[i].path), &n);
        assert_contains(got, other[i].has);
        free(got);
    }
    assert_ok(mtp_trace_export(t, test_path("a.json.gz"), NULL));
    char *got = test_slurp(test_path("a.json.gz"), &n);
    assert_memory_equal(got, "\x1f\x8b", 2);
    free(got);
    assert_ok(mtp_trace_export(t, "/dev/null", NULL));
    assert_int_equal(mtp_trace_export(t, "/dev/full", NULL), MTP_E_IO);
    assert_says("/dev/full");
    mtp_trace_destroy(t);
}

static void the_ledger_is_read_back(void **state)
{
    (void)state;
    mtp_trace *t = make_small(false), *again;
    mtp_trace_info had = MTP_TRACE_INFO_INIT, has = MTP_TRACE_INFO_INIT;
    t->unmatched_ends = 4;
    t->damaged_chunks = 1;
    t->skipped_events = 7;
    assert_ok(mtp_trace_export(t, test_path("ledger.json"), NULL));
    assert_ok(mtp_trace_open(test_path("ledger.json"), NULL, &again));
    assert_ok(mtp_trace_get_info(t, &had));
    assert_ok(mtp_trace_get_info(again, &has));
    assert_true(has.has_ledger);
    assert_int_equal(has.ledger.emitted, 20);
    assert_int_equal(has.ledger.kept, 17);
    assert_int_equal(has.ledger.dropped, 3);
    assert_int_equal(has.ledger.dropped_by[MTP_DROP_BUDGET], 3);
    assert_int_equal(has.unmatched_ends, 4);
    assert_int_equal(has.unfinished, had.unfinished);
    assert_int_equal(has.clock_faults, had.clock_faults);
    assert_int_equal(has.damaged_chunks, 1);
    assert_int_equal(has.skipped_events, 7);
    mtp_trace_destroy(again);
    mtp_trace_destroy(t);
}

/* ---------------------------------------------------------------------------------------------- the text */

static const char *const bad_names[] = {"Profile", "CpuProfile", "ProfileChunk", "ProfileX", ""};

static void names_that_viewers_take_for_profiles_are_marked(void **state)
{
    (void)state;
    mtp_trace *t = make_named(bad_names, COUNT(bad_names));
    char *got = written(t, NULL);
    assert_int_equal(times(got, "\"name\": \"[Profile]\""), 1);
    assert_int_equal(times(got, "\"name\": \"[CpuProfile]\""), 1);
    assert_int_equal(times(got, "\"name\": \"[ProfileChunk]\""), 1);
    assert_int_equal(times(got, "\"name\": \"ProfileX\""), 1);
    assert_int_equal(times(got, "\"name\": \"?\""), 1);
    assert_int_equal(times(got, "\"original name\": "), 4);
    assert_contains(got, "\"original name\": \"ProfileChunk\"");
    free(got);
    mtp_trace_destroy(t);
}

static void ts_is_relative_to_the_day_that_it_begins_in(void **state)
{
    (void)state;
    mtp_trace *t = make_times(false);
    char *got = written(t, NULL);
    assert_contains(got, "\"baseTimeNanoseconds\": 1794700800000000000");
    assert_contains(got, "\"ts\": 28288006489.769, \"dur\": 0.001");
    free(got);
    mtp_trace_destroy(t);
}

static void flags_that_were_off_leave_no_keys(void **state)
{
    (void)state;
    static const char *const names[] = {"one", "two"};
    static const char *const keys[] = {"input_shapes", "stack", "memory_allocated", "Input Dims",
                                       "correlation"};
    mtp_trace *t = make_named(names, COUNT(names));
    char *got = written(t, NULL);
    for (size_t i = 0; i < COUNT(keys); i++)
        assert_int_equal(times(got, keys[i]), 0);
    free(got);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------- as readers know it */

static mtp_trace *read_back(const mtp_trace *t)
{
    mtp_trace *again;
    assert_ok(mtp_trace_export(t, test_path("back.json"), NULL));
    assert_ok(mtp_trace_open(test_path("back.json"), NULL, &again));
    return again;
}

/* Device work, and calls of a runtime other than CUDA's: each caused the work named by `work`, or none. */
static const struct {
    const char *call, *known;
    mtp__category work;
} calls[] = {{"clEnqueueNDRangeKernel", "cudaLaunchKernel", MTP__CATEGORY_KERNEL},
             {"aclrtMemcpy", "cudaMemcpyAsync", MTP__CATEGORY_GPU_MEMCPY},
             {"fill", "cudaMemsetAsync", MTP__CATEGORY_GPU_MEMSET},
             {"clFinish", "cudaStreamSynchronize", MTP__CATEGORIES},
             {"clWaitForEvents", "cudaEventSynchronize", MTP__CATEGORIES},
             {"clBuildProgram", "clBuildProgram", MTP__CATEGORIES},
             {"cuLaunchKernel", "cuLaunchKernel", MTP__CATEGORY_KERNEL},
             {"hipMemcpyAsync", "hipMemcpyAsync", MTP__CATEGORY_GPU_MEMCPY},
             {"cudaGraphLaunch", "cudaGraphLaunch", MTP__CATEGORY_KERNEL},
             {"cl", "cudaLaunchKernel", MTP__CATEGORY_KERNEL}};
#define CALLS (sizeof calls / sizeof *calls)

static mtp_trace *make_calls(void)
{
    mtp_trace *t = maker_start(false);
    uint32_t host = add_thread(t, 517, 517, ""), stream = add_stream(t, 0, 7);
    for (uint32_t i = 0; i < CALLS; i++) {
        mtp__detail d = MTP__DETAIL_INIT;
        d.correlation = calls[i].work != MTP__CATEGORIES ? 41 + i : 0;
        add_span(t, host, 1000 + 100 * i, 1050 + 100 * i, calls[i].call, MTP__CATEGORY_CUDA_RUNTIME, &d);
        if (d.correlation != 0)
            add_span(t, stream, 5000 + 100 * i, 5050 + 100 * i, "work", calls[i].work, &d);
    }
    mtp__detail shadow = MTP__DETAIL_INIT;
    shadow.external_id = 1;
    add_span(t, stream, 4000, 9000, "forward", MTP__CATEGORY_GPU_USER_ANNOTATION, &shadow);
    return maker_finish(t);
}

static void runtime_calls_have_cudas_names_and_keep_their_own(void **state)
{
    (void)state;
    mtp_trace *t = make_calls(), *again = read_back(t);
    char *got = written(t, NULL), *twice = written(again, NULL);
    for (size_t i = 0; i < CALLS; i++) {
        char known[128], own[128];
        bool renamed = strcmp(calls[i].call, calls[i].known) != 0;
        snprintf(known, sizeof known, "\"name\": \"%s\"", calls[i].known);
        snprintf(own, sizeof own, "\"original name\": \"%s\"", calls[i].call);
        assert_true(times(got, known) >= 1);
        assert_int_equal(times(got, own), renamed);
        assert_int_equal(times(twice, own), renamed);
        assert_int_equal(times(twice, known), times(got, known));
    }
    assert_int_equal(times(got, "\"correlation\": 51"), 1); /* calls that launch nothing have numbers too */
    assert_int_equal(times(got, "\"correlation\": 53"), 1);
    for (uint32_t i = 0; i < CALLS; i++)
        assert_string_equal(mtp__trace_get_text(again, again->name[i]).bytes, calls[i].call);
    free(got);
    free(twice);
    mtp_trace_destroy(t);
    mtp_trace_destroy(again);
}

static void an_annotation_on_a_device_is_not_work(void **state)
{
    (void)state;
    mtp_trace *t = make_calls(), *again = read_back(t);
    for (int pass = 0; pass < 2; pass++) {
        char *got = written(pass == 0 ? t : again, NULL), *line = strstr(got, "\"gpu_user_annotation\"");
        *strchr(line, '\n') = 0;
        assert_null(strstr(line, "\"stream\""));
        assert_null(strstr(line, "\"device\""));
        assert_null(strstr(line, "\"correlation\""));
        assert_non_null(strstr(line, "\"External id\": 1"));
        free(got);
    }
    assert_int_equal(again->track_count, t->track_count); /* it is on the stream of its work */
    assert_int_equal(again->span_count, t->span_count);
    mtp_trace_destroy(t);
    mtp_trace_destroy(again);
}

static void the_window_and_counters_are_written_and_not_read(void **state)
{
    (void)state;
    mtp_trace *t = make_small(false), *again = read_back(t);
    for (int pass = 0; pass < 2; pass++) {
        char *got = written(pass == 0 ? t : again, NULL);
        assert_int_equal(times(got, "\"name\": \"PyTorch Profiler (0)\""), 1);
        assert_int_equal(times(got, "\"name\": \"Iteration Start: PyTorch Profiler\""), 1);
        assert_int_equal(times(got, "\"name\": \"Record Window End\""), 1);
        assert_int_equal(times(got, "\"ts\": 28288000000.500, \"dur\": 19.500"),
                         1); /* from the mark to the last end */
        assert_int_equal(times(got, "\"name\": \"Memory NPU:0\""), 1);
        assert_int_equal(times(got, "\"args\": {\"Allocated\": 600, \"Reserved\": 2048}"), 1);
        free(got);
    }
    assert_int_equal(again->span_count, t->span_count);
    assert_int_equal(again->instant_count, t->instant_count);
    assert_int_equal(again->track_count, t->track_count);
    mtp_trace_destroy(t);
    mtp_trace_destroy(again);
    t = make_small(true); /* in another program's file: unchanged */
    char *got = written(t, NULL);
    assert_int_equal(times(got, "PyTorch Profiler"), 0);
    free(got);
    mtp_trace_destroy(t);
}

static void ops_have_the_call_stack_that_tensorboard_shows(void **state)
{
    (void)state;
    static const struct {
        const char *frame, *shown;
    } frames[] = {{"net.py:20:forward step", "net.py(20): forward step"},
                  {"C:/a;b.py:7:f;g", "C:/a,b.py(7): f,g"},
                  {"net.py(20): forward", "net.py(20): forward"},
                  {"a:b:c", "a:b:c"},
                  {":5:f", ":5:f"},
                  {"f", "f"},
                  {"x.py:1:", "x.py(1): "},
                  {"\"q\".py:3:<lambda>", "\\\"q\\\".py(3): <lambda>"}};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        mtp_trace *t = maker_start(false);
        mtp__detail d = MTP__DETAIL_INIT;
        d.stack = mtp__trace_add_stack(t, mtp__trace_add_stack(t, 0, text_of(t, "m.py:1:main")),
                                       text_of(t, frames[i].frame));
        uint32_t host = add_thread(t, 517, 517, "");
        add_span(t, host, 1000, 2000, "aten::add", MTP__CATEGORY_CPU_OP, &d);
        t = maker_finish(t);
        mtp_trace *again = read_back(t);
        char *got = written(t, NULL), *twice = written(again, NULL), want[128];
        snprintf(want, sizeof want, "\"Call stack\": \"%s;m.py(1): main\"", frames[i].shown);
        assert_int_equal(times(got, want), 1);
        assert_int_equal(times(twice, want), 1);
        assert_string_equal(
            mtp__trace_get_text(again, again->stacks[again->details[again->detail[0]].stack].frame).bytes,
            frames[i].frame);
        free(got);
        free(twice);
        mtp_trace_destroy(t);
        mtp_trace_destroy(again);
    }
}

static void the_device_of_our_own_traces_keeps_its_name(void **state)
{
    (void)state;
    mtp_trace *t = make_calls(), *again = read_back(t);
    text table = {0};
    mtp_averages *rows;
    assert_ok(mtp_averages_create(again, NULL, &rows));
    assert_ok(mtp_averages_table(rows, NULL, text_sink, &table));
    assert_non_null(strstr(table.bytes, "Self NPU"));
    assert_null(strstr(table.bytes, "CUDA"));
    free(table.bytes);
    mtp_averages_destroy(rows);
    mtp_trace_destroy(t);
    mtp_trace_destroy(again);
}

/* ------------------------------------------------------------------------------------------------- large */

/* 100,000 nested spans: rows of 512 levels each, nothing lost, in linear time. */
static void nesting_of_any_depth_is_written(void **state)
{
    (void)state;
    const uint32_t depth = 100000;
    mtp_trace *t = make_deep(depth);
    char *got = written(t, NULL);
    assert_int_equal(times(got, "\"ph\": \"X\""), depth + 1); /* and the window around them */
    assert_int_equal(times(got, "\"name\": \"thread_name\""), (depth + 511) / 512 + 1);
    free(got);
    mtp_trace_destroy(t);
}

/* Under `mtprof run` a step ends where the optimizer has stepped, inside the program's own annotation of an iteration. */
static void a_step_that_crosses_an_annotation_is_beside_it(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t start, end;
        mtp__category category;
    } spans[] = {{"ProfilerStep#1", 0, 180, MTP__CATEGORY_USER_ANNOTATION},
                 {"iteration", 100, 200, MTP__CATEGORY_USER_ANNOTATION},
                 {"aten::mm", 110, 120, MTP__CATEGORY_CPU_OP},
                 {"ProfilerStep#2", 180, 280, MTP__CATEGORY_USER_ANNOTATION},
                 {"iteration", 210, 300, MTP__CATEGORY_USER_ANNOTATION},
                 {"aten::mm", 220, 230, MTP__CATEGORY_CPU_OP}};
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    mtp__track track = {.pid = 1, .tid = 77, .sort_index = INT64_MIN};
    uint32_t k = mtp__trace_add_track(t, &track);
    for (size_t i = 0; i < COUNT(spans); i++)
        mtp__trace_add_span(t, k, spans[i].start, spans[i].end,
                            mtp__trace_text(t, spans[i].name, strlen(spans[i].name)), spans[i].category, 0,
                            0);
    assert_ok(mtp__trace_finish(t));
    char *got = written(t, NULL), *rest = got;
    size_t on_thread = 0, steps = 0;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        bool here = strstr(line, "\"ph\": \"X\"") != NULL && strstr(line, "\"tid\": 77,") != NULL;
        on_thread += here;
        steps += here && strstr(line, "ProfilerStep#") != NULL;
    }
    assert_int_equal(on_thread, 4);
    assert_int_equal(steps, 0);
    free(got);
    mtp_trace_destroy(t);
}

static void spans_that_all_overlap_cost_no_square(void **state)
{
    (void)state;
    const uint32_t count = 100000;
    mtp_trace *t = make_staircase(count);
    char *got = written(t, NULL);
    assert_int_equal(times(got, "\"ph\": \"X\""), count + 1);
    free(got);
    mtp_trace_destroy(t);
}

/* Valid JSON may contain them raw; a terminal that shows the file must not obey them. */
static void control_characters_in_given_members_are_escaped(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    static const char members[] = MTP_ARGS_MEMBERS "\"a\x7f\": \"\xc2\x85 \xe2\x80\xa8 \xc2\xa0\"";
    mtp__track track = {.pid = 1, .tid = 2, .sort_index = INT64_MIN};
    mtp__detail d = MTP__DETAIL_INIT;
    d.args = mtp__trace_args_text(t, mtp__trace_text(t, members, sizeof members - 1), &d.sequence);
    mtp__trace_add_span(t, mtp__trace_add_track(t, &track), 1, 9, mtp__trace_text(t, "op", 2),
                        MTP__CATEGORY_CPU_OP, 0, mtp__trace_add_detail(t, &d));
    assert_ok(mtp__trace_finish(t));
    char *got = written(t, NULL);
    assert_int_equal(times(got, "\"a\\u007f\": \"\\u0085 \\u2028 \xc2\xa0\""), 1);
    free(got);
    mtp_trace_destroy(t);
}

/* Calls that are counted: the text is recorded once, the number with each. */
static void a_number_among_the_members_is_not_the_ops(void **state)
{
    (void)state;
    mtp_trace *t;
    char longer[1200] = MTP_ARGS_NUMBERED "\"name\": \"";
    size_t n = strlen(longer);
    memset(longer + n, 'x', 1000);
    memcpy(longer + n + 1000, "\"", 2);
    const char *const texts[] = {MTP_ARGS_NUMBERED "\"a\": 1", longer, MTP_ARGS_NUMBERED "\"b\": 2"};
    const int64_t numbers[] = {7, INT64_MAX, -1};
    assert_ok(mtp__trace_create(&t));
    mtp__track track = {.pid = 1, .tid = 2, .sort_index = INT64_MIN};
    uint32_t row = mtp__trace_add_track(t, &track);
    for (int i = 0; i < 3; i++) {
        mtp__detail d = MTP__DETAIL_INIT;
        d.sequence = numbers[i];
        d.args = mtp__trace_args_text(t, mtp__trace_text(t, texts[i], strlen(texts[i])), &d.sequence);
        assert_int_equal(d.sequence, -1);
        mtp__trace_add_span(t, row, 10 * i + 1, 10 * i + 9, mtp__trace_text(t, "op", 2), MTP__CATEGORY_CPU_OP,
                            0, mtp__trace_add_detail(t, &d));
    }
    assert_ok(mtp__trace_finish(t));
    char *got = written(t, NULL);
    assert_int_equal(times(got, "\"a\": 1, \"Seq\": 7"), 1);
    assert_int_equal(times(got, "x\", \"Seq\": 9223372036854775807"), 1);
    assert_int_equal(times(got, "\"b\": 2"), 1);
    assert_int_equal(times(got, "\"Seq\""), 2);
    assert_int_equal(times(got, "Sequence number"), 0);
    free(got);
    mtp_trace_destroy(t);
}

static void a_million_args_and_names_are_written(void **state)
{
    (void)state;
    uint32_t count = (uint32_t)test_scaled(200000);
    mtp_trace *t = make_distinct(count);
    char *got = written(t, NULL);
    assert_int_equal(times(got, "\"ph\": \"X\""), count + 1);
    free(got);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------- modes for the checker */

static int fail_io(const char *what)
{
    fprintf(stderr, "test_chrome: %s: %s\n", what, mtp_last_error());
    return 1;
}

static int write_one(const char *folder, const char *name, mtp_trace *t, const mtp_export_options *options)
{
    char path[4096];
    mtp_export_options own = MTP_EXPORT_OPTIONS_INIT;
    if (options != NULL)
        own = *options;
    own.trace_name = name;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int rc = mtp_trace_export(t, path, &own) == MTP_OK ? 0 : fail_io(path);
    mtp_trace_destroy(t);
    return rc;
}

static int write_all(const char *folder)
{
    mtp_export_options whole = MTP_EXPORT_OPTIONS_INIT, bare = MTP_EXPORT_OPTIONS_INIT;
    whole.whole_microseconds = true;
    bare.without_args = true;
    int rc = write_one(folder, "small.json", make_small(false), NULL);
    rc |= write_one(folder, "small_kineto.json", make_small(true), NULL);
    rc |= write_one(folder, "small_bare.json", make_small(false), &bare);
    rc |= write_one(folder, "small_whole.json", make_small(false), &whole);
    rc |= write_one(folder, "small.json.gz", make_small(false), NULL);
    rc |= write_one(folder, "empty.json", make_named(NULL, 0), NULL);
    rc |= write_one(folder, "instants.json", make_instants(), NULL);
    rc |= write_one(folder, "ids.json", make_ids(), NULL);
    rc |= write_one(folder, "overlaps.json", make_overlaps(4000, 1), NULL);
    rc |= write_one(folder, "overlaps_whole.json", make_overlaps(4000, 2), &whole);
    rc |= write_one(folder, "deep.json", make_deep(2000), NULL);
    rc |= write_one(folder, "times.json", make_times(true), NULL);
    rc |= write_one(folder, "times_whole.json", make_times(true), &whole);
    rc |= write_one(folder, "hostile.json", make_hostile(folder), NULL);
    rc |= write_one(folder, "damaged_texts.json", make_damaged_texts(), NULL);
    rc |= write_one(folder, "names.json", make_named(bad_names, COUNT(bad_names)), NULL);
    rc |= write_one(folder, "flows.json", make_flows(), NULL);
    rc |= write_one(folder, "recorded.json", make_recorded(), NULL);
    rc |= write_one(folder, "recorded_whole.json", make_recorded(), &whole);
    rc |= write_one(folder, "recorded.json.gz", make_recorded(), NULL);
    return rc;
}

static bool same_row(const mtp_row *a, const mtp_row *b)
{
    return strcmp(a->key, b->key) == 0 && a->count == b->count && a->is_device == b->is_device &&
           a->cpu_time_total == b->cpu_time_total && a->self_cpu_time_total == b->self_cpu_time_total &&
           a->device_time_total == b->device_time_total &&
           a->self_device_time_total == b->self_device_time_total &&
           a->cpu_memory_usage == b->cpu_memory_usage &&
           a->self_cpu_memory_usage == b->self_cpu_memory_usage &&
           a->device_memory_usage == b->device_memory_usage && a->flops == b->flops &&
           strcmp(a->input_shapes, b->input_shapes) == 0;
}

static int compare(const mtp_trace *x, const mtp_trace *y)
{
    mtp_averages *a, *b;
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_input_shape = true;
    if (mtp_averages_create(x, &options, &a) != MTP_OK || mtp_averages_create(y, &options, &b) != MTP_OK)
        return fail_io("averages");
    int rc = mtp_averages_count(a) != mtp_averages_count(b);
    for (size_t i = 0; rc == 0 && i < mtp_averages_count(a); i++)
        if (!same_row(mtp_averages_row(a, i), mtp_averages_row(b, i))) {
            fprintf(stderr, "row %zu differs: %s\n", i, mtp_averages_row(a, i)->key);
            rc = 1;
        }
    mtp_averages_destroy(a);
    mtp_averages_destroy(b);
    return rc;
}

static int round_trip(const char *from, const char *to)
{
    mtp_trace *a, *b;
    if (mtp_trace_open(from, NULL, &a) != MTP_OK || mtp_trace_export(a, to, NULL) != MTP_OK ||
        mtp_trace_open(to, NULL, &b) != MTP_OK)
        return fail_io(from);
    int rc = compare(a, b);
    mtp_trace_destroy(a);
    mtp_trace_destroy(b);
    return rc;
}

static bool has_ops(const mtp_trace *t, const mtp__track *track)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++)
        if (t->category[i] == MTP__CATEGORY_CPU_OP)
            return true;
    return false;
}

/* torch numbers the threads that run ops 1, 2, ... in order of appearance; forward threads use these
 * numbers. */
static int make_flows_anew(const char *from, const char *to)
{
    mtp_trace *t;
    if (mtp_trace_open(from, NULL, &t) != MTP_OK)
        return fail_io(from);
    t->flow_count = 0;
    t->format = MTP_FORMAT_RECORDING;
    for (uint32_t k = 0; k < t->track_count; k++) {
        mtp__track *track = &t->tracks[k];
        if (track->on_device || !has_ops(t, track))
            continue;
        track->tid = 1;
        for (uint32_t n = 0; n < t->track_count; n++) {
            const mtp__track *other = &t->tracks[n];
            track->tid += n != k && !other->on_device && has_ops(t, other) &&
                          t->start[other->first] < t->start[track->first];
        }
    }
    int rc = mtp_trace_export(t, to, NULL) == MTP_OK ? 0 : fail_io(to);
    mtp_trace_destroy(t);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_all(argv[2]);
    if (argc == 4 && strcmp(argv[1], "--round-trip") == 0)
        return round_trip(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "--flows") == 0)
        return make_flows_anew(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        TEST(wrong_calls_are_refused),
        TEST(a_sink_that_stops_is_an_io_error),
        TEST(progress_goes_from_little_to_all),
        TEST(no_allocation_failure_costs_anything),
        TEST(every_call_that_fails_keeps_the_old_trace),
        TEST(the_name_says_the_form),
        TEST(the_ledger_is_read_back),
        TEST(names_that_viewers_take_for_profiles_are_marked),
        TEST(ts_is_relative_to_the_day_that_it_begins_in),
        TEST(flags_that_were_off_leave_no_keys),
        TEST(runtime_calls_have_cudas_names_and_keep_their_own),
        TEST(an_annotation_on_a_device_is_not_work),
        TEST(the_window_and_counters_are_written_and_not_read),
        TEST(ops_have_the_call_stack_that_tensorboard_shows),
        TEST(the_device_of_our_own_traces_keeps_its_name),
        TEST(nesting_of_any_depth_is_written),
        TEST(a_step_that_crosses_an_annotation_is_beside_it),
        TEST(spans_that_all_overlap_cost_no_square),
        TEST(control_characters_in_given_members_are_escaped),
        TEST(a_number_among_the_members_is_not_the_ops),
        TEST(a_million_args_and_names_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
