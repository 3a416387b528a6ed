/* Unit: analyze/steps, analyze/by_time and present/steps_text. */
#define _GNU_SOURCE
#include "tests/made_trace.h"
#include <unistd.h>
#include "analyze/by_time.h"
#include "analyze/steps.h"

/* ------------------------------------------------------------------------------------------- helpers */

static mtp_steps *steps_of(const mtp_trace *t)
{
    mtp_steps *s;
    assert_ok(mtp_steps_create(t, &s));
    return s;
}

static void assert_times(const mtp_steps *s, size_t index, int64_t wall, int64_t cpu, int64_t device,
                         int64_t both, int64_t idle)
{
    const mtp_step_times *t = &mtp_steps_row(s, index)->times;
    int64_t is[] = {t->wall_ns, t->cpu_ns, t->device_ns, t->both_ns, t->idle_ns},
            should[] = {wall, cpu, device, both, idle};
    for (size_t i = 0; i < COUNT(is); i++)
        if (is[i] != should[i])
            fail_msg("step %zu: figure %zu is %lld, should be %lld", index, i, (long long)is[i],
                     (long long)should[i]);
}

static void assert_counts(const mtp_steps *s, size_t index, uint64_t ops, uint64_t kernels)
{
    assert_int_equal(mtp_steps_row(s, index)->ops, ops);
    assert_int_equal(mtp_steps_row(s, index)->kernels, kernels);
}

/* A trace read from Kineto's JSON; events: without the enclosing brackets. */
static mtp_trace *made_from_json(const char *events)
{
    char path[] = "/tmp/mtp-made-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fprintf(file, "{\"schemaVersion\": 1, \"traceEvents\": [%s]}", events);
    assert_int_equal(fclose(file), 0);
    mtp_trace *t;
    mtp_status status = mtp_trace_open(path, NULL, &t);
    unlink(path);
    assert_ok(status);
    return t;
}

/* Two steps; ops on two threads, kernels on two streams, and events that must not count. */
static mtp_trace *two_steps(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), other = made_thread(t, 8), a = made_stream(t, 0, 7),
             b = made_stream(t, 0, 20);
    made_scope(t, main, 1000, 2000, "ProfilerStep#4");
    made_scope(t, main, 1000, 1990, "train_step"); /* a label, not work */
    made_op(t, main, 1100, 1300, "aten::linear");
    made_op(t, main, 1150, 1250, "aten::addmm"); /* inside: not twice */
    made_span(t, main, 1200, 1210, "cudaLaunchKernel", MTP__CATEGORY_CUDA_RUNTIME);
    made_span(t, main, 1000, 2000, "main.py(1): <module>", MTP__CATEGORY_PYTHON_FUNCTION);
    made_op(t, other, 1250, 1400, "MmBackward0"); /* overlaps the main thread's */
    made_span(t, main, 1600, 1700, "cudaDeviceSynchronize", MTP__CATEGORY_CUDA_RUNTIME);
    made_span(t, a, 1350, 1500, "gemm", MTP__CATEGORY_KERNEL);
    made_span(t, b, 1450, 1550, "Memcpy DtoH", MTP__CATEGORY_GPU_MEMCPY);
    made_span(t, b, 1000, 2000, "ProfilerStep#4", MTP__CATEGORY_GPU_USER_ANNOTATION);
    made_span(t, b, 1800, 1900, "Stream Sync", MTP__CATEGORY_CUDA_SYNC);
    made_scope(t, main, 2000, 2500, "ProfilerStep#5");
    made_op(t, main, 2400, 2700, "aten::add");                 /* reaches out of the step */
    made_span(t, a, 1900, 2100, "relu", MTP__CATEGORY_KERNEL); /* lies in both */
    made_span(t, a, 2450, 2460, "add", MTP__CATEGORY_KERNEL);
    made_op(t, main, 2800, 2900, "aten::outside");
    return made_end(t);
}

/* ------------------------------------------------------------------------------------------------ steps */

static void each_steps_time_is_split_into_cpu_device_and_idle(void **state)
{
    (void)state;
    mtp_trace *t = two_steps();
    mtp_steps *s = steps_of(t);
    assert_int_equal(mtp_steps_count(s), 2);
    assert_false(mtp_steps_is_whole_trace(s));
    assert_int_equal(mtp_steps_row(s, 0)->number, 4);
    assert_int_equal(mtp_steps_row(s, 1)->number, 5);
    assert_int_equal(mtp_steps_row(s, 1)->start_ns, 2000);
    assert_int_equal(mtp_steps_row(s, 1)->end_ns, 2500);
    /* cpu 1100-1400, 1600-1700; device 1350-1550, 1900-2000; both 1350-1400 */
    assert_times(s, 0, 1000, 400, 300, 50, 350);
    /* cpu 2400-2500; device 2000-2100, 2450-2460 */
    assert_times(s, 1, 500, 100, 110, 10, 300);
    assert_counts(s, 0, 3, 2);
    assert_counts(s, 1, 1, 1);
    assert_null(mtp_steps_row(s, 2));
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

static void figures_over_the_steps_are_mean_median_and_most(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    static const int64_t wall[] = {100, 400, 200, 800};
    for (int64_t i = 0, at = 0; i < 4; at += wall[i++]) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", (int)i);
        made_scope(t, main, at, at + wall[i], name);
        made_op(t, main, at, at + 50, "aten::add");
    }
    made_end(t);
    mtp_steps *s = steps_of(t);
    const mtp_step_times *mean = mtp_steps_summary(s, MTP_STEP_MEAN),
                         *max = mtp_steps_summary(s, MTP_STEP_MAX);
    assert_int_equal(mean->wall_ns, 375);
    assert_int_equal(mtp_steps_summary(s, MTP_STEP_P50)->wall_ns, 200);
    assert_int_equal(max->wall_ns, 800);
    assert_int_equal(mean->cpu_ns, 50);
    assert_int_equal(max->idle_ns, 750);
    assert_null(mtp_steps_summary(s, (mtp_step_figure)3));
    assert_null(mtp_steps_summary(NULL, MTP_STEP_MEAN));
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

static void a_trace_without_steps_is_one(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_op(t, main, 500, 600, "aten::add");
    made_op(t, main, 900, 1000, "aten::add");
    made_op(t, main, 1000, 1000, "aten::last");    /* at the very end: inside */
    made_scope(t, main, 700, 710, "ProfilerStep"); /* no number: not a step */
    made_scope(t, main, 720, 730, "ProfilerStep#");
    made_end(t);
    mtp_steps *s = steps_of(t);
    assert_true(mtp_steps_is_whole_trace(s));
    assert_int_equal(mtp_steps_count(s), 1);
    assert_int_equal(mtp_steps_row(s, 0)->number, -1);
    assert_times(s, 0, 500, 200, 0, 0, 300);
    assert_counts(s, 0, 3, 0);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

/* Kineto's "Record Window End": on a GPU, the profiler takes long to collect its results after the last op. */
static void what_the_profiler_does_after_the_last_span_is_no_time_of_the_program(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_op(t, main, 500, 600, "aten::add");
    made_op(t, main, 900, 1000, "aten::add");
    mtp__instant end = {.ts = 9000, .name = made_text(t, "Record Window End"), .track = main, .scope = 'g'};
    mtp__trace_add_instant(t, &end);
    made_end(t);
    mtp_steps *s = steps_of(t);
    assert_times(s, 0, 500, 200, 0, 0, 300);
    mtp_steps_destroy(s);
    mtp_trace_info about = MTP_TRACE_INFO_INIT; /* nor of the report, whose timeline would end in nothing */
    mtp_trace_get_info(t, &about);
    assert_int_equal(about.last_ns - about.first_ns, 500);
    mtp_trace_destroy(t);
}

static void an_empty_trace_is_one_step_of_no_time(void **state)
{
    (void)state;
    mtp_trace *t = made_end(made_begin());
    mtp_steps *s = steps_of(t);
    assert_true(mtp_steps_is_whole_trace(s));
    assert_times(s, 0, 0, 0, 0, 0, 0);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

static void marks_are_steps_where_there_are_no_scopes(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_op(t, main, 0, 150, "aten::add");
    mtp__trace_add_step(t, &(mtp__step){100, 200, 1});
    mtp__trace_add_step(t, &(mtp__step){0, 100, 0});
    made_end(t);
    mtp_steps *s = steps_of(t);
    assert_int_equal(mtp_steps_count(s), 2);
    assert_int_equal(mtp_steps_row(s, 0)->number, 0);
    assert_times(s, 0, 100, 100, 0, 0, 0);
    assert_times(s, 1, 100, 50, 0, 0, 50);
    assert_counts(s, 0, 1, 0);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

/* -------------------------------------------------------------------------------------------- what counts */

static void scopes_count_where_there_are_no_ops_and_python_where_there_are_no_scopes(void **state)
{
    (void)state;
    for (int level = 0; level < 3; level++) {
        mtp_trace *t = made_begin();
        uint32_t main = made_thread(t, 7), spans = made_thread(t, 9);
        made_scope(t, main, 0, 1000, "ProfilerStep#0");
        made_span(t, main, 0, 900, "f.py(1): f", MTP__CATEGORY_PYTHON_FUNCTION);
        if (level >= 1)
            made_scope(t, main, 100, 400, "forward");
        if (level >= 2)
            made_op(t, main, 200, 300, "aten::add");
        mtp__detail d = MTP__DETAIL_INIT; /* as in Kineto's files: the recording itself */
        d.category = made_text(t, "Trace");
        mtp__trace_add_span(t, spans, 0, 5000, made_text(t, "PyTorch Profiler (0)"), MTP__CATEGORY_OTHER, 0,
                            mtp__trace_add_detail(t, &d));
        made_end(t);
        mtp_steps *s = steps_of(t);
        static const int64_t cpu[] = {900, 300, 100};
        assert_times(s, 0, 1000, cpu[level], 0, 0, 1000 - cpu[level]);
        mtp_steps_destroy(s);
        mtp_trace_destroy(t);
    }
}

static void steps_alone_are_not_work(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_scope(t, main, 0, 1000, "ProfilerStep#0");
    mtp__trace_add_span(t, main, 1000, 1500, made_text(t, "my step 1"), MTP__CATEGORY_USER_ANNOTATION,
                        MTP__SPAN_STEP, 0);
    made_span(t, main, 10, 20, "CUPTI", MTP__CATEGORY_OVERHEAD);
    made_end(t);
    mtp_steps *s = steps_of(t);
    assert_int_equal(mtp_steps_count(s), 2);
    assert_times(s, 0, 1000, 0, 0, 0, 1000);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

#define EVENT(cat, name, pid, tid, ts, dur, args)                                                            \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":" #pid ",\"tid\":" #tid ",\"ts\":" #ts  \
    ",\"dur\":" #dur ",\"args\":{" args "}}"

/* PyTorch 1.8 and 1.9 wrote steps, and all annotations, as operators. */
static void the_steps_of_old_traces_are_not_cpu_work(void **state)
{
    (void)state;
    mtp_trace *t = made_from_json(EVENT("Operator", "ProfilerStep#0", 1, 1, 0, 900, "") "," EVENT(
        "Operator", "aten::mm", 1, 1, 100, 200,
        "\"External id\":2") "," EVENT("Runtime", "cudaLaunchKernel", 1, 1, 150, 20,
                                       "\"correlation\":5") "," EVENT("Kernel", "sgemm", 0, 7, 250, 300,
                                                                      "\"device\":0,\"stream\":7,"
                                                                      "\"correlation\":5") "," EVENT("Operato"
                                                                                                     "r",
                                                                                                     "Profile"
                                                                                                     "rStep#"
                                                                                                     "1",
                                                                                                     1, 1,
                                                                                                     1000,
                                                                                                     500,
                                                                                                     ""));
    mtp_steps *s = steps_of(t);
    assert_int_equal(mtp_steps_count(s), 2);
    assert_times(s, 0, 900000, 200000, 300000, 50000, 450000);
    assert_counts(s, 0, 1, 1);
    assert_times(s, 1, 500000, 0, 0, 0, 500000);
    assert_counts(s, 1, 0, 0);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

#define ON_DEVICE(cat, label)                                                                                \
    EVENT("user_annotation", "ProfilerStep#0", 1, 1, 0, 900, "")                                             \
    "," EVENT("cpu_op", "aten::mm", 1, 1, 100, 200, "\"External id\":2") "," EVENT(                          \
        cat, "fc", 0, 7, 250, 300,                                                                           \
        "\"External id\":2") ",{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"tid\":0,\"args\":{"     \
                             "\"labels\":\"" label "\"}}"

static void work_of_every_accelerator_is_device_time(void **state)
{
    (void)state;
    static const char *const of[] = {ON_DEVICE("mtia_ccp_events", "anything"), ON_DEVICE("hpu_op", "HPU 0"),
                                     ON_DEVICE("kernel", "XPU 0"), ON_DEVICE("gpu_op", "")};
    for (size_t i = 0; i < COUNT(of); i++) {
        mtp_trace *t = made_from_json(of[i]);
        mtp_steps *s = steps_of(t);
        assert_int_equal(mtp_steps_count(s), 1);
        assert_times(s, 0, 900000, 200000, 300000, 50000, 450000);
        assert_counts(s, 0, 1, 1);
        mtp_steps_destroy(s);
        mtp_trace_destroy(t);
    }
}

/* Calls of any accelerator's runtime are CPU work, and keep their category when exported. */
static void calls_of_every_accelerators_runtime_are_cpu_time(void **state)
{
    (void)state;
    static const char *const cats[] = {"mtia_runtime", "xpu_runtime", "xpu_driver", "privateuse1_runtime",
                                       "glow_runtime"};
    for (size_t i = 0; i < COUNT(cats); i++) {
        char events[512], quoted[64];
        snprintf(events, sizeof events,
                 EVENT("user_annotation", "ProfilerStep#0", 1, 1, 0, 900,
                       "") "," EVENT("%s", "launch", 1, 1, 100, 200, "\"correlation\":5"),
                 cats[i]);
        mtp_trace *t = made_from_json(events);
        mtp_steps *s = steps_of(t);
        assert_times(s, 0, 900000, 200000, 0, 0, 700000);
        mtp_steps_destroy(s);
        collected c = {0};
        assert_ok(mtp_trace_chrome(t, NULL, collect, &c));
        snprintf(quoted, sizeof quoted, "\"cat\": \"%s\"", cats[i]);
        assert_non_null(strstr(c.bytes, quoted));
        collected_free(&c);
        mtp_trace_destroy(t);
    }
}

static void steps_may_overlap(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t a = made_thread(t, 1), b = made_thread(t, 2);
    made_scope(t, a, 0, 1000, "ProfilerStep#1");
    made_scope(t, b, 500, 1500, "ProfilerStep#1");
    made_op(t, a, 400, 600, "aten::add");
    made_end(t);
    mtp_steps *s = steps_of(t);
    assert_times(s, 0, 1000, 200, 0, 0, 800);
    assert_times(s, 1, 1000, 100, 0, 0, 900);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

/* Ranks of a distributed program, and a DataLoader's worker, which is busy while its trainer waits. */
static void steps_are_those_of_one_process_and_so_is_their_work(void **state)
{
    (void)state;
#define EVENT(category, name, pid, ts, dur)                                                                  \
    "{\"ph\": \"X\", \"cat\": \"" category "\", \"name\": \"" name "\", \"pid\": " pid ", \"tid\": " pid     \
    ", \"ts\": " ts ", \"dur\": " dur "}"
    mtp_trace *t = made_from_json(EVENT("user_annotation", "ProfilerStep#1", "12", "5", "20") ", " EVENT(
        "cpu_op", "aten::mm", "12", "6",
        "9") ", " EVENT("user_annotation", "ProfilerStep#1", "10", "10",
                        "10") ", " EVENT("cpu_op", "aten::mm", "10", "11",
                                         "2") ", " EVENT("cpu_op", "aten::stack", "11", "12", "7"));
#undef EVENT
    mtp_steps *s = steps_of(t);
    assert_int_equal(mtp_steps_count(s), 1);
    assert_int_equal(mtp_steps_process(s), 10);
    assert_times(s, 0, 10000, 2000, 0, 0, 8000);
    assert_counts(s, 0, 1, 0);
    assert_int_equal(mtp_steps_gap_count(s, false), 2);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
    t = two_steps();
    s = steps_of(t);
    assert_int_equal(mtp_steps_process(s), 0);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

/* Against a count of every nanosecond. */
static void busy_times_are_those_of_a_plain_count(void **state)
{
    (void)state;
    enum {
        END = 4000
    };
    for (int round = 0; round < 40; round++) {
        static bool busy[2][END];
        memset(busy, 0, sizeof busy);
        mtp_trace *t = made_begin();
        uint32_t tracks[5];
        for (int64_t k = 0; k < 5; k++)
            tracks[k] = k < 3 ? made_thread(t, 10 + k) : made_stream(t, 0, k);
        for (int i = 0; i < 60; i++) {
            uint32_t k = (uint32_t)test_below(5);
            int64_t start = (int64_t)test_below(END - 200), end = start + (int64_t)test_below(200);
            made_span(t, tracks[k], start, end, "work", k < 3 ? MTP__CATEGORY_CPU_OP : MTP__CATEGORY_KERNEL);
            memset(&busy[k >= 3][start], 1, (size_t)(end - start));
        }
        for (int64_t i = 0; i < 8; i++)
            mtp__trace_add_step(t, &(mtp__step){i * 500, i * 500 + 500, i});
        made_end(t);
        mtp_steps *s = steps_of(t);
        for (size_t i = 0; i < 8; i++) {
            int64_t cpu = 0, device = 0, both = 0, idle = 0;
            for (size_t at = i * 500; at < i * 500 + 500; at++) {
                cpu += busy[0][at];
                device += busy[1][at];
                both += busy[0][at] && busy[1][at];
                idle += !busy[0][at] && !busy[1][at];
            }
            assert_times(s, i, 500, cpu, device, both, idle);
        }
        mtp_steps_destroy(s);
        mtp_trace_destroy(t);
    }
}

static void spans_of_many_tracks_come_in_one_order(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t tracks[50], total = 2000;
    for (int64_t k = 0; k < 50; k++)
        tracks[k] = made_thread(t, k + 1);
    for (uint32_t i = 0; i < total; i++) {
        int64_t start = (int64_t)test_below(300);
        made_op(t, tracks[test_below(40)], start, start + (int64_t)test_below(50), "x"); /* ten stay empty */
    }
    made_end(t);
    mtp__by_time order;
    assert_ok(mtp__by_time_init(&order, t, NULL));
    uint32_t count = 0, track, before_track = 0;
    int64_t before = INT64_MIN;
    for (uint32_t span; (span = mtp__by_time_next(&order, &track)) != MTP__NONE; count++) {
        assert_int_equal(mtp__trace_track_of(t, span), track);
        assert_true(t->start[span] > before || (t->start[span] == before && track >= before_track));
        before = t->start[span];
        before_track = track;
    }
    assert_int_equal(count, total);
    mtp__by_time_fini(&order);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------ forms */

typedef mtp_status writer(const mtp_steps *s, mtp_sink *sink, void *user);

static void assert_writes(const mtp_steps *s, writer *write, const char *expected)
{
    collected c = {0};
    assert_ok(write(s, collect, &c));
    assert_string_equal(c.bytes, expected);
    collected_free(&c);
}

static void steps_are_written_as_json_and_csv(void **state)
{
    (void)state;
    mtp_trace *t = two_steps();
    mtp_steps *s = steps_of(t);
    assert_writes(s, mtp_steps_csv,
                  "step,start_us,wall_us,cpu_us,device_us,both_us,idle_us,ops,kernels,is_outlier\n"
                  "4,0.000,1.000,0.400,0.300,0.050,0.350,3,2,false\n"
                  "5,1.000,0.500,0.100,0.110,0.010,0.300,1,1,false\n");
    assert_writes(
        s, mtp_steps_json,
        "{\"whole_trace\": false, \"steps\": [\n"
        "  {\"step\": 4, \"start_us\": 0.000, \"wall_us\": 1.000, \"cpu_us\": 0.400, \"device_us\": 0.300, "
        "\"both_us\": 0.050, \"idle_us\": 0.350, \"ops\": 3, \"kernels\": 2, \"is_outlier\": false},\n"
        "  {\"step\": 5, \"start_us\": 1.000, \"wall_us\": 0.500, \"cpu_us\": 0.100, \"device_us\": 0.110, "
        "\"both_us\": 0.010, \"idle_us\": 0.300, \"ops\": 1, \"kernels\": 1, \"is_outlier\": false}],\n"
        " \"summary\": [\n"
        "  {\"of\": \"mean\", \"wall_us\": 0.750, \"cpu_us\": 0.250, \"device_us\": 0.205, \"both_us\": "
        "0.030, "
        "\"idle_us\": 0.325},\n"
        "  {\"of\": \"p50\", \"wall_us\": 0.500, \"cpu_us\": 0.100, \"device_us\": 0.110, \"both_us\": "
        "0.010, "
        "\"idle_us\": 0.300},\n"
        "  {\"of\": \"max\", \"wall_us\": 1.000, \"cpu_us\": 0.400, \"device_us\": 0.300, \"both_us\": "
        "0.050, "
        "\"idle_us\": 0.350}],\n"
        " \"idle_gaps\": [\n"
        "  {\"step\": 5, \"at_us\": 0.100, \"us\": 0.300, \"after\": \"relu\", \"before\": \"aten::add\", "
        "\"inside\": \"\"},\n"
        "  {\"step\": 4, \"at_us\": 0.700, \"us\": 0.200, \"after\": \"cudaDeviceSynchronize\", "
        "\"before\": \"relu\", \"inside\": \"train_step\"},\n"
        "  {\"step\": 4, \"at_us\": 0.000, \"us\": 0.100, \"after\": \"\", \"before\": \"aten::linear\", "
        "\"inside\": \"train_step\"},\n"
        "  {\"step\": 4, \"at_us\": 0.550, \"us\": 0.050, \"after\": \"Memcpy DtoH\", \"before\": "
        "\"cudaDeviceSynchronize\", \"inside\": \"train_step\"}],\n"
        " \"device_gaps\": [\n"
        "  {\"step\": 4, \"at_us\": 0.000, \"us\": 0.350, \"after\": \"\", \"before\": \"gemm\", "
        "\"inside\": \"\"},\n"
        "  {\"step\": 4, \"at_us\": 0.550, \"us\": 0.350, \"after\": \"Memcpy DtoH\", \"before\": \"relu\", "
        "\"inside\": \"\"},\n"
        "  {\"step\": 5, \"at_us\": 0.100, \"us\": 0.350, \"after\": \"relu\", \"before\": \"add\", "
        "\"inside\": \"\"},\n"
        "  {\"step\": 5, \"at_us\": 0.460, \"us\": 0.040, \"after\": \"add\", \"before\": \"\", "
        "\"inside\": \"\"}]}\n");
    mtp_steps_limit(s, 1);
    assert_writes(s, mtp_steps_csv,
                  "step,start_us,wall_us,cpu_us,device_us,both_us,idle_us,ops,kernels,is_outlier\n"
                  "4,0.000,1.000,0.400,0.300,0.050,0.350,3,2,false\n");
    mtp_steps_limit(s, -1);
    mtp_steps_limit(NULL, 1);
    assert_int_equal(mtp_steps_count(s), 2);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
    t = made_begin();
    made_op(t, made_thread(t, 1), 0, 1000, "x");
    made_end(t);
    s = steps_of(t);
    assert_writes(s, mtp_steps_csv,
                  "step,start_us,wall_us,cpu_us,device_us,both_us,idle_us,ops,kernels,is_outlier\n"
                  ",0.000,1.000,1.000,0.000,0.000,0.000,1,0,false\n");
    collected c = {0};
    assert_ok(mtp_steps_json(s, collect, &c));
    assert_contains(c.bytes, "{\"whole_trace\": true, \"steps\": [\n  {\"step\": null, ");
    test_spew(test_path("steps.json"), c.bytes, c.length);
    collected_free(&c);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
    char command[512];
    snprintf(command, sizeof command, "check_memory.py json %s", test_path("steps.json"));
    if (!made_judge(command))
        skip();
}

/* ------------------------------------------------------------------------------------------------ limits */

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    mtp_trace *t = two_steps();
    mtp_steps *s = steps_of(t), *none = s;
    assert_int_equal(mtp_steps_create(NULL, &none), MTP_E_ARG);
    assert_int_equal(mtp_steps_create(t, NULL), MTP_E_ARG);
    assert_int_equal(mtp_steps_json(NULL, collect, NULL), MTP_E_ARG);
    assert_int_equal(mtp_steps_csv(NULL, collect, NULL), MTP_E_ARG);
    assert_int_equal(mtp_steps_csv(s, NULL, NULL), MTP_E_ARG);
    collected c = {.refuse_after = 1};
    assert_int_equal(mtp_steps_json(s, collect, &c), MTP_E_IO);
    assert_int_equal(mtp_steps_csv(s, collect, &c), MTP_E_IO);
    assert_int_equal(mtp_steps_count(NULL), 0);
    assert_null(mtp_steps_row(NULL, 0));
    assert_false(mtp_steps_is_whole_trace(NULL));
    mtp_steps_destroy(NULL);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

static void absurd_times_do_no_harm(void **state)
{
    (void)state;
    static const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), stream = made_stream(t, 0, 1);
    for (size_t i = 0; i < COUNT(times); i++)
        for (size_t k = 0; k < COUNT(times); k++) {
            made_op(t, main, times[i], times[k], "aten::add");
            made_span(t, stream, times[i], times[k], "gemm", MTP__CATEGORY_KERNEL);
            made_scope(t, main, times[i], times[k], "ProfilerStep#99999999999999999999999");
        }
    made_end(t);
    mtp_steps *s = steps_of(t);
    collected c = {0};
    assert_ok(mtp_steps_json(s, collect, &c));
    assert_ok(mtp_steps_csv(s, collect, &c));
    collected_free(&c);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------- live */

static void a_recorded_program_has_its_steps(void **state)
{
    (void)state;
    warnings w = {0};
    mtp_profile_config config = test_config(&w);
    config.schedule = (mtp_schedule){.wait = 1, .active = 3, .repeat = 1};
    mtp_profile *prof = test_start(&config);
    for (int i = 0; i < 4; i++) {
        mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
        uint64_t began = mtp_ticks();
        while (mtp_ticks() == began) /* a tick may be longer than such a step */
            ;
        mtp_op_begin(&op);
        mtp_op_end(&op);
        for (began = mtp_ticks(); mtp_ticks() == began;)
            ;
        assert_ok(mtp_profile_step(prof));
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_steps *s = steps_of(t);
    assert_int_equal(mtp_steps_count(s), 3);
    for (size_t i = 0; i < 3; i++) {
        const mtp_step_row *r = mtp_steps_row(s, i);
        assert_int_equal(r->number, i + 1);
        assert_int_equal(r->ops, 1);
        assert_true(r->times.wall_ns > 0 && r->times.cpu_ns <= r->times.wall_ns);
        assert_int_equal(r->times.cpu_ns + r->times.idle_ns, r->times.wall_ns);
    }
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static mtp_profile *profile_of_three_marks(void)
{
    static warnings w;
    mtp_profile_config config = test_config(&w);
    mtp_profile *prof = test_start(&config);
    for (int i = 0; i < 3; i++) {
        MTP_SCOPE ("work")
            usleep(1000);
        assert_ok(mtp_profile_step(prof));
    }
    assert_ok(mtp_profile_stop(prof));
    return prof;
}

/* A mean or a median would include one step too many. */
static void what_the_last_call_of_step_began_is_not_a_step(void **state)
{
    (void)state;
    mtp_profile *prof = profile_of_three_marks();
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_steps *s = steps_of(t);
    assert_int_equal(mtp_steps_count(s), 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(mtp_steps_row(s, i)->number == (int64_t)i && mtp_steps_row(s, i)->times.wall_ns > 0);
    mtp_steps_destroy(s);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

/* Without a schedule, steps are marks, which no event in the file shows. */
static void marks_are_still_steps_when_read_back(void **state)
{
    (void)state;
    mtp_profile *prof = profile_of_three_marks();
    mtp_trace *recorded, *read, *again;
    assert_ok(mtp_profile_trace(prof, &recorded));
    assert_ok(mtp_trace_export(recorded, test_path("marks.json"), NULL));
    assert_ok(mtp_trace_open(test_path("marks.json"), NULL, &read));
    assert_ok(mtp_trace_export(read, test_path("again.json.gz"), NULL));
    assert_ok(mtp_trace_open(test_path("again.json.gz"), NULL, &again));
    mtp_trace *const back[] = {read, again};
    mtp_steps *should = steps_of(recorded);
    for (size_t k = 0; k < COUNT(back); k++) {
        mtp_steps *s = steps_of(back[k]);
        assert_int_equal(mtp_steps_count(s), 3);
        assert_false(mtp_steps_is_whole_trace(s));
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(mtp_steps_row(s, i)->number, i);
            assert_int_equal(mtp_steps_row(s, i)->times.wall_ns, mtp_steps_row(should, i)->times.wall_ns);
        }
        mtp_steps_destroy(s);
        mtp_trace_destroy(back[k]);
    }
    mtp_steps_destroy(should);
    mtp_trace_destroy(recorded);
    mtp_profile_destroy(prof);
}

/* Invalid rows are skipped; if scopes show the steps, these are used. */
static void rows_of_steps_that_are_none_are_left_out(void **state)
{
    (void)state;
    static const char scope[] = "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#4\", "
                                "\"pid\": 1, \"tid\": 1, \"ts\": 10, \"dur\": 5}";
    static const char *const rows[] = {
        "[]", "[1, 2]", "[1, 5, 2]", "[1.5, 2, 3]", "[\"1\", 2, 3]", "[1, 1e400, 2e400]", "null"};
    for (size_t i = 0; i < COUNT(rows) * 2; i++) {
        char text[512]; /* the list of events ends in it */
        snprintf(text, sizeof text, "%s], \"mtprofSteps\": [%s, [ 9 ,2.5, 4 ]", i % 2 ? scope : "",
                 rows[i / 2]);
        mtp_trace *t = made_from_json(text);
        mtp_steps *s = steps_of(t);
        assert_int_equal(mtp_steps_count(s), 1);
        assert_int_equal(mtp_steps_row(s, 0)->number, i % 2 ? 4 : 9);
        assert_int_equal(mtp_steps_row(s, 0)->times.wall_ns, i % 2 ? 5000 : 1500);
        mtp_steps_destroy(s);
        mtp_trace_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_steps_time_is_split_into_cpu_device_and_idle),
        TEST(figures_over_the_steps_are_mean_median_and_most),
        TEST(a_trace_without_steps_is_one),
        TEST(what_the_profiler_does_after_the_last_span_is_no_time_of_the_program),
        TEST(an_empty_trace_is_one_step_of_no_time),
        TEST(marks_are_steps_where_there_are_no_scopes),
        TEST(scopes_count_where_there_are_no_ops_and_python_where_there_are_no_scopes),
        TEST(steps_alone_are_not_work),
        TEST(the_steps_of_old_traces_are_not_cpu_work),
        TEST(work_of_every_accelerator_is_device_time),
        TEST(calls_of_every_accelerators_runtime_are_cpu_time),
        TEST(steps_may_overlap),
        TEST(steps_are_those_of_one_process_and_so_is_their_work),
        TEST(busy_times_are_those_of_a_plain_count),
        TEST(spans_of_many_tracks_come_in_one_order),
        TEST(steps_are_written_as_json_and_csv),
        TEST(wrong_calls_are_refused),
        TEST(absurd_times_do_no_harm),
        TEST(a_recorded_program_has_its_steps),
        TEST(what_the_last_call_of_step_began_is_not_a_step),
        TEST(marks_are_still_steps_when_read_back),
        TEST(rows_of_steps_that_are_none_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
