/* Traces made by hand, for the tests of exporters. Each maker returns a finished trace that the caller
 * destroys. */
#ifndef TESTS_UNIT_CHROME_TRACES_H
#define TESTS_UNIT_CHROME_TRACES_H
#include "tests/test.h"
#include <pthread.h>
#include <unistd.h>
#include "trace/trace.h"

#define MAKER __attribute__((unused)) static

MAKER mtp_trace *maker_start(bool kineto)
{
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    t->format = kineto ? MTP_FORMAT_KINETO : MTP_FORMAT_RECORDING;
    t->pid = 517;
    t->base_ns = 1794729088000000000; /* 28288 s into a day */
    snprintf(t->source, sizeof t->source, "a test");
    return t;
}

MAKER mtp_trace *maker_finish(mtp_trace *t)
{
    assert_ok(mtp__trace_finish(t));
    return t;
}

MAKER uint32_t text_of(mtp_trace *t, const char *text)
{
    return mtp__trace_text(t, text, strlen(text));
}

MAKER uint32_t add_thread(mtp_trace *t, int64_t pid, int64_t tid, const char *name)
{
    mtp__track track = {.pid = pid, .tid = tid, .name = text_of(t, name), .sort_index = INT64_MIN};
    return mtp__trace_add_track(t, &track);
}

MAKER uint32_t add_stream(mtp_trace *t, int64_t device, int64_t stream)
{
    mtp__track track = {.pid = device, .tid = stream, .sort_index = INT64_MIN, .on_device = true};
    return mtp__trace_add_track(t, &track);
}

MAKER uint32_t add_span(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name,
                        mtp__category category, const mtp__detail *d)
{
    return mtp__trace_add_span(t, track, start, end, text_of(t, name), category, 0,
                               d != NULL ? mtp__trace_add_detail(t, d) : 0);
}

/* Some of everything: two threads, a stream, an allocation, a mark, a counter, steps, metadata. */
MAKER mtp_trace *make_small(bool kineto)
{
    static const char dims[] = "[[4, 32], []]", strides[] = "[[32, 1], []]",
                      types[] = "[\"float\", \"Scalar\"]", concrete[] = "[\"\", \"1\"]";
    mtp_trace *t = maker_start(kineto);
    uint32_t main = add_thread(t, 517, 517, kineto ? "thread 517 (python3)" : "python3"),
             other = add_thread(t, 517, 518, ""), stream = add_stream(t, 0, 7);
    mtp__process process = {.pid = 517, .name = text_of(t, "python3"), .sort_index = INT64_MIN};
    mtp__trace_add_process(t, &process);
    mtp__shape shape = {text_of(t, dims), text_of(t, strides), text_of(t, types), text_of(t, concrete)};
    mtp__detail op = MTP__DETAIL_INIT, launch = MTP__DETAIL_INIT, work = MTP__DETAIL_INIT,
                back = MTP__DETAIL_INIT;
    op.sequence = 3;
    op.shape = mtp__trace_add_shape(t, &shape);
    op.stack = mtp__trace_add_stack(t, mtp__trace_add_stack(t, 0, text_of(t, "main.py:1:main")),
                                    text_of(t, "net.py:20:forward step"));
    op.allocated_before = 1000;
    op.allocated_after = 600;
    op.device = MTP_DEVICE_NPU(0);
    op.flops = 4096;
    launch.correlation = 99;
    work.correlation = 99;
    work.queued_ns = 4000;
    work.grid[0] = 2, work.grid[1] = work.grid[2] = 1;
    work.block[0] = 128, work.block[1] = work.block[2] = 1;
    work.args = text_of(t, "\"registers per thread\": 32");
    back.sequence = 3;
    back.forward_thread = 517;
    if (kineto) {
        op.external_id = 2, op.event_index = 2, op.device = 0xffff,
        op.allocated_before = op.allocated_after = -1;
        launch.external_id = work.external_id = 2;
        back.external_id = 3;
    }
    add_span(t, main, 1000, 20000, "ProfilerStep#5", MTP__CATEGORY_USER_ANNOTATION, NULL);
    add_span(t, main, 2000, 9000, "aten::add", MTP__CATEGORY_CPU_OP, &op);
    add_span(t, main, 3000, 5001, "launch", MTP__CATEGORY_CUDA_RUNTIME, &launch);
    add_span(t, other, 11000, 15000, "AddBackward0", MTP__CATEGORY_CPU_OP, &back);
    add_span(t, main, 16000, 17000, "net.py(20): forward", MTP__CATEGORY_PYTHON_FUNCTION, NULL);
    add_span(t, stream, 6000, 12345, "add_kernel<float>", MTP__CATEGORY_KERNEL, &work);
    mtp__detail copy = MTP__DETAIL_INIT;
    copy.bytes = 1 << 20;
    add_span(t, stream, 13000, 14024, "Memcpy HtoD", MTP__CATEGORY_GPU_MEMCPY, &copy);
    mtp__memory memory = {.ts = 4000,
                          .address = 0x7f00,
                          .bytes = -400,
                          .total_allocated = 600,
                          .total_reserved = 2048,
                          .track = main,
                          .device_type = 20};
    mtp__trace_add_memory(t, &memory);
    mtp__instant mark = {.ts = 500, .name = text_of(t, "loaded"), .track = main, .scope = 't'},
                 counter = {.ts = 4500,
                            .value = 0.25,
                            .name = text_of(t, "loss"),
                            .track = main,
                            .is_counter = true};
    mtp__trace_add_instant(t, &counter);
    mtp__trace_add_instant(t, &mark); /* out of order */
    mtp__step step = {0, 30000, 5};
    mtp__trace_add_step(t, &step);
    mtp__trace_add_meta(t, "trace_id", 8, "\"AB12\"", 6);
    mtp__trace_add_meta(t, "user", 4, "{\"a\":[1,2,{\"b\":null}]}", 22);
    mtp__trace_add_meta(t, "user", 4, "{\"later\":true}", 14);
    mtp__trace_add_meta(t, "distributedInfo", 15, "{\"backend\":\"gloo\",\"rank\":3,\"world_size\":4}", 42);
    if (!kineto)
        mtp__trace_add_meta(t, "traceEvents", 11, "[]", 2);
    t->has_ledger = !kineto;
    t->ledger = (mtp_ledger)MTP_LEDGER_INIT;
    t->ledger.emitted = 20;
    t->ledger.kept = 17;
    t->ledger.dropped = t->ledger.dropped_by[MTP_DROP_BUDGET] = 3;
    t->unmatched_ends = 1;
    return maker_finish(t);
}

MAKER mtp_trace *make_many(uint32_t count)
{
    mtp_trace *t = maker_start(false);
    uint32_t track = add_thread(t, 517, 517, "main"), name = text_of(t, "aten::mm");
    for (uint32_t i = 0; i < count; i++)
        mtp__trace_add_span(t, track, 1000 + i * 100, 1050 + i * 100, name, MTP__CATEGORY_CPU_OP, 0, 0);
    return maker_finish(t);
}

MAKER mtp_trace *make_named(const char *const *names, size_t count)
{
    mtp_trace *t = maker_start(false);
    uint32_t track = add_thread(t, 517, 517, "main");
    for (size_t i = 0; i < count; i++)
        add_span(t, track, (int64_t)i * 100, (int64_t)i * 100 + 50, names[i], MTP__CATEGORY_USER_ANNOTATION,
                 NULL);
    return maker_finish(t);
}

MAKER mtp_trace *make_instants(void)
{
    mtp_trace *t = maker_start(false);
    uint32_t track = add_thread(t, 517, 517, "main");
    const double values[] = {1, 1.5, 1e300, 0.0 / 1.0, -7};
    for (int i = 0; i < 5; i++) {
        mtp__instant e = {.ts = 1000 - i * 10,
                          .value = values[i],
                          .name = text_of(t, "value"),
                          .track = track,
                          .is_counter = true};
        mtp__trace_add_instant(t, &e);
    }
    mtp__instant nan = {
        .ts = 5, .value = __builtin_nan(""), .name = text_of(t, "nan"), .track = track, .is_counter = true};
    mtp__trace_add_instant(t, &nan);
    return maker_finish(t);
}

/* Ids that readers reject, and rows that would collide. */
MAKER mtp_trace *make_ids(void)
{
    mtp_trace *t = maker_start(false);
    static const int64_t ids[][2] = {{0, 0},   {-1, 517},        {517, -5},  {517, 0},   {517, 4294967296},
                                     {1, 517}, {4294967296, 17}, {517, 517}, {517, 517}, {5000000, 1}};
    int64_t at = 1000;
    uint32_t rows[32], count = 0;
    for (size_t i = 0; i < COUNT(ids); i++)
        rows[count++] = add_thread(t, ids[i][0], ids[i][1], "row");
    mtp__track named = {
        .pid_text = text_of(t, "Spans"), .tid_text = text_of(t, "PyTorch Profiler"), .sort_index = INT64_MIN};
    rows[count++] = mtp__trace_add_track(t, &named);
    for (int64_t device = 0; device < 3; device++)
        for (int64_t stream = 0; stream < 2; stream++)
            rows[count++] = add_stream(t, device, stream);
    rows[count++] = add_stream(t, 517, 140000000000007); /* a handle for a stream */
    for (uint32_t i = 0; i < count; i++, at += 100)
        add_span(t, rows[i], at, at + 1000, "work",
                 t->tracks[rows[i]].on_device ? MTP__CATEGORY_KERNEL : MTP__CATEGORY_CPU_OP, NULL);
    return maker_finish(t);
}

/* Spans that overlap at random on a thread and on a stream. */
MAKER mtp_trace *make_overlaps(uint32_t count, uint64_t seed)
{
    mtp_trace *t = maker_start(false);
    uint32_t thread = add_thread(t, 517, 517, "main"), stream = add_stream(t, 1, 7);
    for (uint32_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t start = (int64_t)(seed >> 33) % 1000000, dur = (int64_t)(seed >> 20 & 0xfff);
        mtp__detail d = MTP__DETAIL_INIT;
        d.correlation = i + 1;
        add_span(t, i % 3 != 0 ? stream : thread, start, start + dur, i % 3 != 0 ? "kernel" : "op",
                 i % 3 != 0 ? MTP__CATEGORY_KERNEL : MTP__CATEGORY_CPU_OP, i % 3 != 0 ? &d : NULL);
    }
    return maker_finish(t);
}

MAKER mtp_trace *make_staircase(uint32_t count)
{
    mtp_trace *t = maker_start(false);
    uint32_t stream = add_stream(t, 1, 7), name = text_of(t, "kernel");
    for (uint32_t i = 0; i < count; i++)
        mtp__trace_add_span(t, stream, i * 10, i * 10 + 10000000, name, MTP__CATEGORY_KERNEL, 0, 0);
    return maker_finish(t);
}

MAKER mtp_trace *make_deep(uint32_t depth)
{
    mtp_trace *t = maker_start(false);
    uint32_t track = add_thread(t, 517, 517, "main"), name = text_of(t, "deeper");
    for (uint32_t i = 0; i < depth; i++)
        mtp__trace_add_span(t, track, i * 10, (int64_t)depth * 30 - i * 10, name, MTP__CATEGORY_CPU_OP, 0, 0);
    return maker_finish(t);
}

MAKER mtp_trace *make_distinct(uint32_t count)
{
    mtp_trace *t = maker_start(false);
    uint32_t track = add_thread(t, 517, 517, "main");
    for (uint32_t i = 0; i < count; i++) {
        char name[64], args[64];
        mtp__detail d = MTP__DETAIL_INIT;
        snprintf(name, sizeof name, "name %u", i);
        snprintf(args, sizeof args, "\"args\": \"text %u\"", i);
        d.args = text_of(t, args);
        add_span(t, track, i * 10, i * 10 + 5, name, MTP__CATEGORY_CPU_OP, &d);
    }
    return maker_finish(t);
}

/* small: nanoseconds around whole microseconds; else one span at a known instant. */
MAKER mtp_trace *make_times(bool small)
{
    mtp_trace *t = maker_start(small);
    t->format = MTP_FORMAT_RECORDING;
    uint32_t track = add_thread(t, 517, 517, "main");
    if (!small) {
        t->base_ns = 1790857026000000000;
        add_span(t, track, 3872062006489769, 3872062006489770, "one", MTP__CATEGORY_CPU_OP, NULL);
        return maker_finish(t);
    }
    for (int64_t i = 0; i < 300; i++) { /* each holds three, side by side, less than a microsecond long */
        int64_t at = -100000 + i * 777;
        add_span(t, track, at, at + 770, "around", MTP__CATEGORY_CPU_OP, NULL);
        for (int64_t k = 0; k < 3; k++)
            add_span(t, track, at + 10 + k * 250, at + 10 + k * 250 + 200 + i % 50, "within",
                     MTP__CATEGORY_CPU_OP, NULL);
        add_span(t, track, at + 770, at + 770, "nothing", MTP__CATEGORY_CPU_OP, NULL);
    }
    return maker_finish(t);
}

/* Reliability #15: text from every possible source. If a folder is given, the raw names are written there. */
MAKER mtp_trace *make_hostile(const char *folder)
{
    static const struct {
        const char *bytes;
        size_t length;
    } names[] = {
#define N(text) {text, sizeof(text) - 1}
        N("plain"),
        N("\xff\xfe\x80"),
        N("\xed\xa0\x80 lone \xed\xb0\x80"),
        N("nul \0 nul"),
        N("\x01\x02\x1f\x7f"),
        N("quote \" and \\ and \\\""),
        N("</script><script>alert(1)</script>"),
        N("line\xe2\x80\xa8sep\xe2\x80\xa9"),
        N("../../etc/passwd"),
        N("%s%n%d"),
        N("\x1b[31mred\x1b[0m"),
        N("\xc2\x9b"
          "31m"),
        N("\xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x94\xa5"),
        N("\xf0\x9f\x94"),
        N("\xc0\xaf\xe0\x80\xaf"),
        N("tab\tline\nreturn\r"),
        N("{\"ph\": \"X\"}"),
        N("\xef\xbb\xbf"
          "bom"),
        N("\xef\xbf\xbf"),
        N("'; DROP TABLE"),
        N("\\u0041"),
        N("a;b c"),
#undef N
    };
    mtp_trace *t = maker_start(false);
    char path[4096];
    snprintf(path, sizeof path, "%s/hostile.names", folder != NULL ? folder : "/dev/null");
    FILE *list = folder != NULL ? fopen(path, "wb") : NULL;
    static char huge[1 << 20];
    for (size_t i = 0; i < sizeof huge; i++)
        huge[i] = (char)(i * 7 + i / 251);
    uint32_t track = add_thread(t, 517, 517, "main");
    for (size_t i = 0; i <= COUNT(names); i++) {
        const char *bytes = i < COUNT(names) ? names[i].bytes : huge;
        size_t length = i < COUNT(names) ? names[i].length : sizeof huge;
        uint32_t text = mtp__trace_text(t, bytes, length);
        int64_t at = 1000 + (int64_t)i * 1000;
        mtp__detail d = MTP__DETAIL_INIT;
        d.stack = mtp__trace_add_stack(t, 0, text);
        mtp__track row = {.pid = 517, .tid = 1000 + (int64_t)i, .name = text, .sort_index = INT64_MIN};
        uint32_t on = mtp__trace_add_track(t, &row);
        mtp__trace_add_span(t, track, at, at + 500, text, MTP__CATEGORY_USER_ANNOTATION, 0,
                            mtp__trace_add_detail(t, &d));
        mtp__instant mark = {.ts = at + 10, .name = text, .track = on, .scope = 't'};
        mtp__trace_add_instant(t, &mark);
        if (i < COUNT(names)) {
            mtp__process process = {
                .pid = 9000 + (int64_t)i, .name = text, .labels = text, .sort_index = INT64_MIN};
            mtp__trace_add_process(t, &process);
            mtp__track of_process = {.pid = 9000 + (int64_t)i, .tid = 1, .sort_index = INT64_MIN};
            mtp__trace_add_track(t, &of_process);
            mtp__trace_add_meta(t, bytes, length, "1", 1);
        }
        if (list != NULL) {
            uint32_t n = (uint32_t)length;
            fwrite(&n, sizeof n, 1, list);
            fwrite(bytes, 1, length, list);
        }
    }
    if (list != NULL)
        fclose(list);
    return maker_finish(t);
}

/* Invalid JSON texts, as a damaged recording may contain. */
MAKER mtp_trace *make_damaged_texts(void)
{
    static const char *const bad[] = {"\"a\": ",    "\"a\": 1}, {\"b\": 2", "nonsense",
                                      "\"x\": NaN", "\"a\": \"\x01\"",      "\"a\": 1,"};
    mtp_trace *t = maker_start(false);
    uint32_t track = add_thread(t, 517, 517, "main");
    for (size_t i = 0; i < COUNT(bad); i++) {
        mtp__detail d = MTP__DETAIL_INIT;
        char key[16];
        d.args = text_of(t, bad[i]);
        add_span(t, track, (int64_t)i * 100, (int64_t)i * 100 + 50, "op", MTP__CATEGORY_CPU_OP, &d);
        snprintf(key, sizeof key, "bad%zu", i);
        mtp__trace_add_meta(t, key, strlen(key), bad[i], strlen(bad[i]));
    }
    mtp__trace_add_meta(t, "half", 4, "\"\\ud800 \\udc00 \\ud83d\\ude00 \\\\ud800\"", 36);
    mtp__trace_add_meta(t, "empty", 5, "", 0);
    char deep[3000];
    memset(deep, '[', 1500);
    memset(deep + 1500, ']', 1500);
    mtp__trace_add_meta(t, "deep", 4, deep, sizeof deep);
    return maker_finish(t);
}

/* Flows as a file has them: good ones, twins, ends without a start, starts on nothing, in a slice's
 * middle. */
MAKER mtp_trace *make_flows(void)
{
    mtp_trace *t = maker_start(true);
    uint32_t a = add_thread(t, 517, 517, "main"), b = add_thread(t, 517, 518, "other");
    uint32_t name = text_of(t, "custom");
    for (int64_t i = 0; i < 10; i++) {
        add_span(t, a, i * 1000, i * 1000 + 900, "from", MTP__CATEGORY_CPU_OP, NULL);
        add_span(t, a, i * 1000 + 100, i * 1000 + 500, "inner", MTP__CATEGORY_CPU_OP, NULL);
        add_span(t, b, i * 1000 + 200, i * 1000 + 800, "to", MTP__CATEGORY_CPU_OP, NULL);
    }
    const mtp__flow flows[] = {{1000, 1, a, name, 's'},
                               {1200, 1, b, name, 'f'},
                               {2100, 2, a, name, 's'},
                               {2300, 2, b, name, 't'},
                               {3200, 2, b, name, 'f'},
                               {3000, 1, a, name, 's'} /* twin */,
                               {4200, 7, b, name, 'f'} /* no start */,
                               {950, 3, a, name, 's'} /* on nothing */,
                               {1200, 3, b, name, 'f'} /* so this has none */};
    for (size_t i = 0; i < COUNT(flows); i++)
        mtp__trace_add_flow(t, &flows[i]);
    return maker_finish(t);
}

/* --------------------------------------------------------------------------------------- a real recording */

MAKER void *record_thread(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        mtp_op op = MTP_OP_INIT(MTP_NAME("MulBackward0"));
        op.kind = MTP_SCOPE_BACKWARD;
        op.sequence = i;
        op.forward_thread = (uint64_t)getpid();
        mtp_op_begin(&op);
        MTP_SCOPE ("inside")
            mtp_mark(MTP_NAME("here"));
        mtp_op_end(&op);
    }
    return NULL;
}

MAKER void record_ops(void)
{
    const int64_t dims[] = {8, 16}, strides[] = {16, 1};
    mtp_input inputs[] = {
        {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims, .strides = strides},
        {.kind = MTP_INPUT_INT, .value.i = 3}};
    for (int i = 0; i < 50; i++) {
        mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mul"));
        op.inputs = inputs;
        op.input_count = COUNT(inputs);
        op.sequence = i;
        op.device = MTP_DEVICE_NPU(0);
        op.allocated = 1000;
        op.args = "free \"text\"";
        mtp_op_begin(&op);
        mtp_op launch = MTP_OP_INIT(MTP_NAME("clEnqueueNDRangeKernel"));
        launch.kind = MTP_SCOPE_RUNTIME;
        launch.correlation = mtp_correlation_next();
        mtp_op_begin(&launch);
        mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("mul_kernel"), MTP_DEVICE_NPU(0));
        work.stream = (uint64_t)(i % 2);
        work.correlation = launch.correlation;
        work.start = mtp_ticks();
        mtp_op_end(&launch);
        mtp_memory_event(MTP_DEVICE_NPU(0), &op, 512, 1512, 4096);
        op.allocated = 1512;
        mtp_op_end(&op);
        work.end = mtp_ticks() + (uint64_t)(i % 5) * 20000; /* some overlap the next */
        mtp_device_event(&work);
        mtp_counter(MTP_NAME("loss"), 1.0 / (i + 1));
    }
}

MAKER mtp_trace *make_recorded(void)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.record_shapes = config.with_stack = config.profile_memory = true;
    config.schedule = (mtp_schedule){.wait = 1, .active = 2, .repeat = 1};
    mtp_profile *prof = test_start(&config);
    mtp_trace *t;
    for (int step = 0; step < 4; step++) {
        pthread_t thread;
        record_ops();
        if (pthread_create(&thread, NULL, record_thread, NULL) == 0)
            pthread_join(thread, NULL);
        if (step == 1)
            mtp_profile_add_metadata(prof, "note", "he said \"hi\"\n");
        assert_ok(mtp_profile_step(prof));
    }
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_profile_destroy(prof);
    return t;
}
#endif
