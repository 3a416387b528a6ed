/* Unit: analyze/findings: devices, overlap, trust, the ranking. Each rule has a trace in which it must speak, and near
 * misses in which it must not. */
#include "made_findings.h"
#include "base/testpoint.h"

/* -------------------------------------------------------------------------------------------- launches */

/* Kernels of `kernel` us, launched every `interval` us; the device runs them as they come. */
static mtp_trace *launched(int count, int64_t interval, int64_t kernel, int64_t called_before)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    made_scope(t, g.thread, 0, (called_before + count * interval) * US, "loop");
    for (int64_t i = 0, free = 0; i < count; i++) {
        int64_t called = i * interval, start = called + called_before > free ? called + called_before : free;
        made_op(t, g.thread, called * US, (called + 8) * US, "aten::add");
        made_kernel(&g, called, start, start + kernel, "void add<float>(float*)");
        free = start + kernel;
    }
    return made_end(t);
}

static void late_launches_of_short_kernels_are_the_bottleneck(void **state)
{
    (void)state;
    assert_first(launched(200, 50, 5, 10), "device-idle-launch-bound", 199 * 45 / 2.0);
}

static bool says(mtp_trace *t, const char *id, const char *words)
{
    mtp_findings *f = findings_of(t);
    int place = place_of(f, id);
    assert_true(place >= 0);
    bool found = strstr(mtp_findings_row(f, (size_t)place)->text.bytes, words) != NULL;
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
    return found;
}

static void faster_kernels_would_help_a_device_that_is_busy_half_of_the_time(void **state)
{
    (void)state;
    assert_true(says(launched(200, 50, 5, 10), "device-idle-launch-bound", "would not help"));
    assert_false(says(launched(200, 50, 35, 10), "device-idle-launch-bound", "would not help"));
}

static void a_device_that_keeps_busy_does_not_wait_for_launches(void **state)
{
    (void)state;
    assert_silent(launched(200, 10, 50, 10), "device-idle-launch-bound"); /* queued */
    assert_silent(launched(200, 50, 45, 10), "device-idle-launch-bound"); /* idle a tenth of the time */
    assert_silent(launched(40, 50, 5, 10), "device-idle-launch-bound");   /* too few to judge */
}

/* -------------------------------------------------------------------------------------------------- waiting */

/* Ten steps of 1 ms of kernels; then the host waits, and needs `after` us to launch again. */
static mtp_trace *waiting(int64_t after, const char *call, bool waits_until_done)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    int64_t at = 0;
    for (int i = 0; i < 10; i++) {
        made_step(t, g.thread, i, at, at + 1000 + after);
        for (int k = 0; k < 10; k++)
            made_kernel(&g, at + k * 6, at + 10 + k * 100, at + 110 + k * 100, "gemm");
        made_wait(&g, at + 70, waits_until_done ? at + 1012 : at + 80, call);
        at += 1000 + after;
    }
    return made_end(t);
}

static void a_wait_for_the_device_leaves_it_idle(void **state)
{
    (void)state;
    assert_first(waiting(300, "cudaStreamSynchronize", true), "synchronisation", 9 * 300 / 2.0);
    assert_first(waiting(300, "hipDeviceSynchronize", true), "synchronisation", -1);
}

/* Ten requests: 1 ms of kernels, whose result is waited for; then nothing for `pause` us. */
static mtp_trace *serving(int64_t pause, bool trains, bool busy)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    for (int64_t i = 0, at = 0; i < 10; i++, at += 1020 + pause) {
        made_op(t, g.thread, at * US, (at + 60) * US, "aten::linear");
        if (trains)
            made_scope(t, g.thread, (at + 61) * US, (at + 62) * US, "Optimizer.step#SGD.step");
        for (int k = 0; k < 10; k++)
            made_kernel(&g, at + k * 6, at + 10 + k * 100, at + 110 + k * 100, "gemm");
        made_wait(&g, at + 70, at + 1012, "cudaStreamSynchronize");
        if (busy)
            made_op(t, g.thread, (at + 1013) * US, (at + 1019 + pause) * US, "aten::topk");
    }
    return made_end(t);
}

static void a_server_that_waits_for_requests_after_a_result_is_not_blamed(void **state)
{
    (void)state;
    assert_silent(serving(9000, false, false), "synchronisation");
    assert_found(serving(9000, false, false), "device-idle-host"); /* a note */
    assert_found(serving(9000, false, true), "synchronisation");   /* it was at work */
    assert_found(serving(900, false, false), "synchronisation");
    /* half of 9 times 9 ms is more than the device takes in all: only that can be hidden */
    assert_first(serving(9000, true, false), "synchronisation", 10000);
}

static void a_wait_without_an_idle_device_costs_nothing(void **state)
{
    (void)state;
    assert_silent(waiting(10, "cudaStreamSynchronize", true), "synchronisation");
    assert_silent(waiting(300, "cudaStreamSynchronize", false),
                  "synchronisation");                                        /* it returned long before */
    assert_silent(waiting(300, "cudaEventRecord", true), "synchronisation"); /* not a wait */
}

/* A copy to pageable memory: the call returns when it is done, whatever its name. */
static mtp_trace *reading(bool blocks)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    for (int64_t i = 0, at = 0; i < 10; i++, at += 1400) {
        made_step(t, g.thread, (int)i, at, at + 1400);
        made_kernel(&g, at, at + 10, at + 1000, "gemm");
        made_op(t, g.thread, (at + 6) * US, (blocks ? at + 1012 : at + 20) * US, "aten::item");
        made_launch(&g, at + 8, blocks ? at + 1011 : at + 18, at + 1000, at + 1005,
                    "Memcpy DtoH (Device -> Pageable)", MTP__CATEGORY_GPU_MEMCPY);
    }
    return made_end(t);
}

static void a_copy_that_blocks_is_a_wait(void **state)
{
    (void)state;
    mtp_trace *t = reading(true);
    mtp_findings *f = findings_of(t);
    assert_int_equal(place_of(f, "synchronisation"), 0);
    const mtp_evidence *e = mtp_findings_evidence(f, 0, 0);
    assert_string_equal(e->name.bytes, "aten::item");
    assert_int_equal(e->calls, 9);
    assert_int_equal(e->total_ns, 9 * 405 * US);
    assert_true(e->span != MTP_NO_SPAN && e->track == 0);
    assert_true(e->step >= 0);
    assert_null(mtp_findings_evidence(f, 0, 1));
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
    assert_silent(reading(false), "synchronisation");
}

/* -------------------------------------------------------------------------------------------------- the host */

/* 20 kernels of 500 us, each launched when the last has ended; before every fifth the host pauses. */
static mtp_trace *pausing(int64_t pause)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    int64_t at = 0;
    for (int i = 0; i < 20; i++) {
        if (i % 5 == 4) {
            made_scope(t, g.thread, at * US, (at + pause) * US, "augment");
            at += pause;
        }
        made_kernel(&g, at, at + 10, at + 510, "gemm");
        at += 510;
    }
    return made_end(t);
}

static void long_pauses_of_the_host_are_reported_with_what_it_did(void **state)
{
    (void)state;
    mtp_trace *t = pausing(2000);
    mtp_findings *f = findings_of(t);
    assert_int_equal(place_of(f, "device-idle-host"), 0);
    assert_string_equal(mtp_findings_evidence(f, 0, 0)->name.bytes, "augment");
    assert_int_equal(mtp_findings_evidence(f, 0, 0)->calls, 4);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
    assert_silent(pausing(190), "device-idle-host");
}

static mtp_trace *queued(int count, int64_t kernel, int64_t gap)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    for (int64_t i = 0; i < count; i++)
        made_launch(&g, i, i + 1, 1000 + i * (kernel + gap), 1000 + i * (kernel + gap) + kernel, "add",
                    MTP__CATEGORY_KERNEL);
    return made_end(t);
}

static void many_tiny_kernels_in_a_queue_lose_time_between_them(void **state)
{
    (void)state;
    assert_found(queued(500, 5, 2), "tiny-kernels");
    assert_silent(queued(500, 50, 2), "tiny-kernels");
    assert_silent(queued(60, 5, 2), "tiny-kernels");
    assert_silent(queued(500, 8, 0), "tiny-kernels"); /* no gaps */
}

/* The host has launched everything in 1 ms, and waits: the device works on, for `ms` of the 10 after the last step(), in
 * which `ops` run. */
static mtp_trace *running_ahead(int64_t ms, int ops)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    int64_t free = 20;
    for (int i = 0; i < 10; i++) {
        made_step(t, g.thread, i, i * 100, i * 100 + 100);
        made_op(t, g.thread, i * 100 * US, (i * 100 + 90) * US, "aten::mm");
        made_kernel(&g, i * 100 + 10, free, free + 100 * ms, "gemm");
        free += 100 * ms;
    }
    made_step(t, g.thread, 10, 1000, 11000);
    for (int64_t i = 0; i < ops; i++)
        made_op(t, g.thread, (1000 + i) * US, (1001 + i) * US, "aten::to");
    made_wait(&g, 1100, 10900, "cudaDeviceSynchronize");
    return made_end(t);
}

static void what_the_device_has_yet_to_do_after_the_last_step_counts(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        const int ops[] = {0, 0, 4, 40}; /* a result is read at the end; something else begins */
        bool counts = kind == 1 || kind == 2;
        mtp_trace *t = running_ahead(kind == 0 ? 2 : 10, ops[kind]);
        mtp_findings *f = findings_of(t);
        mtp_findings_summary s = MTP_FINDINGS_SUMMARY_INIT;
        assert_ok(mtp_findings_get_summary(f, &s));
        assert_int_equal(s.whole_ns, counts ? 11000 * US : 1000 * US);
        assert_int_equal(s.steps, 10);
        assert_int_equal(s.device_ns, counts ? 10000 * US : 980 * US);
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

static void idle_devices_without_the_calls_are_not_explained(void **state)
{
    (void)state;
    for (int idle = 0; idle < 2; idle++) {
        mtp_trace *t = made_begin();
        uint32_t stream = made_stream(t, 0, 7);
        for (int64_t i = 0; i < 100; i++)
            made_span(t, stream, i * 100 * US, (i * 100 + (idle ? 20 : 90)) * US, "gemm",
                      MTP__CATEGORY_KERNEL);
        made_end(t);
        if (idle)
            assert_first(t, "device-idle-unexplained", 0);
        else
            assert_silent(t, "device-idle-unexplained");
    }
}

/* --------------------------------------------------------------------------------------------------- overlap */

/* Copies of 200 us before kernels of 800 us, or beside the kernel before. */
static mtp_trace *copying(bool beside, int64_t copy, const char *name, mtp__category category)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    uint32_t compute = g.stream, other = made_stream(t, 0, 20);
    made_launch(&g, 0, 1, 5, 805, "gemm", MTP__CATEGORY_KERNEL);
    for (int64_t i = 1, at = 805; i < 10; i++) {
        int64_t from = beside ? at - copy : at;
        g.stream = other;
        made_launch(&g, i * 4, i * 4 + 1, from, from + copy, name, category);
        g.stream = compute;
        made_launch(&g, i * 4 + 2, i * 4 + 3, from + copy, from + copy + 800, "gemm", MTP__CATEGORY_KERNEL);
        at = from + copy + 800;
    }
    return made_end(t);
}

static void copies_that_nothing_overlaps_are_exposed(void **state)
{
    (void)state;
    assert_first(copying(false, 200, "Memcpy HtoD (Pageable -> Device)", MTP__CATEGORY_GPU_MEMCPY),
                 "exposed-copies", 900);
    assert_silent(copying(true, 200, "Memcpy HtoD (Pinned -> Device)", MTP__CATEGORY_GPU_MEMCPY),
                  "exposed-copies");
    assert_silent(copying(false, 30, "Memcpy HtoD (Pageable -> Device)", MTP__CATEGORY_GPU_MEMCPY),
                  "exposed-copies");
    assert_silent(copying(false, 200, "Memcpy DtoD (Device -> Device)", MTP__CATEGORY_GPU_MEMCPY),
                  "exposed-copies");
}

static void collectives_that_nothing_overlaps_are_exposed(void **state)
{
    (void)state;
    static const char name[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)";
    assert_first(copying(false, 200, name, MTP__CATEGORY_KERNEL), "exposed-communication", 900);
    assert_silent(copying(true, 200, name, MTP__CATEGORY_KERNEL), "exposed-communication");
    assert_silent(copying(false, 200, "reduce_kernel", MTP__CATEGORY_KERNEL), "exposed-communication");
}

/* --------------------------------------------------------------------------------------------------- products */

/* Kernels of matrix products, launched by an op with these inputs. */
static mtp_trace *products(const char *kernel, const char *dims, const char *types, int64_t pause)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    t->format = MTP_FORMAT_KINETO; /* of CUDA: our recordings have NPUs */
    for (int64_t i = 0; i < 20; i++) {
        made_shaped(t, g.thread, i * 20, i * 20 + 10, "aten::mm", dims, types, "[\"\", \"\"]");
        made_kernel(&g, i * 20 + 1, 1000 + i * (500 + pause), 1500 + i * (500 + pause), kernel);
    }
    return made_end(t);
}

static void float32_products_are_told_by_their_kernels(void **state)
{
    (void)state;
    static const char dims[] = "[[512, 512], [512, 512]]", types[] = "[\"float\", \"float\"]";
    static const char plain[] =
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x64x8_stage3_warpsize2x2x1_ffma_aligna4";
    assert_first(products(plain, dims, types, 0), "float32-products", 20 * 250);
    assert_found(products("ampere_sgemm_128x64_nn", dims, types, 0), "float32-products");
    assert_silent(products("ampere_fp16_s16816gemm_fp16_128x64_nn", dims, types, 0), "float32-products");
    assert_silent(products("cutlass_80_tensorop_s1688gemm_128x128_nn_align4_sgemm_tf32", dims, types, 0),
                  "float32-products");
    assert_silent(products(plain, dims, types, 600), "float32-products"); /* the device is idle anyway */
}

static void odd_sizes_matter_only_for_half_precision(void **state)
{
    (void)state;
    static const char half[] = "[\"c10::Half\", \"c10::Half\"]", wide[] = "[\"float\", \"float\"]";
    assert_first(products("gemm", "[[512, 50257], [50257, 512]]", half, 0), "odd-sizes", 20 * 125);
    assert_silent(products("gemm", "[[512, 50304], [50304, 512]]", half, 0), "odd-sizes");
    assert_silent(products("gemm", "[[512, 50257], [50257, 512]]", wide, 0), "odd-sizes");
    assert_silent(products("gemm", "", half, 0), "odd-sizes");
}

/* ----------------------------------------------------------------------------------------------------- trust */

static void losses_are_told_and_come_first_if_they_are_large(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        mtp_trace *t = launched(200, 50, 5, 10);
        t->has_ledger = true;
        t->ledger = (mtp_ledger)MTP_LEDGER_INIT;
        t->ledger.emitted = 1000;
        t->ledger.dropped_by[k == 2 ? MTP_DROP_OVERWRITTEN : MTP_DROP_BUDGET] = k == 0 ? 1 : 500;
        mtp_findings *f = findings_of(t);
        assert_int_equal(place_of(f, "dropped-records") == 0, k == 1);
        assert_int_equal(place_of(f, "dropped-records") >= 0, k < 2);
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

static void damage_is_told_first(void **state)
{
    (void)state;
    mtp_trace *t = launched(200, 50, 5, 10);
    t->damaged_chunks = 1;
    assert_first(t, "damaged-recording", 0);
}

static void unfinished_spans_are_told_if_they_are_many(void **state)
{
    (void)state;
    for (int many = 0; many < 2; many++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0; i < 1000; i++)
            mtp__trace_add_span(t, thread, i * US, (i + 1) * US, made_text(t, "op"), MTP__CATEGORY_CPU_OP,
                                i < (many ? 200 : 50) ? MTP__SPAN_UNFINISHED : 0, 0);
        made_end(t);
        if (many)
            assert_found(t, "unfinished-spans");
        else
            assert_silent(t, "unfinished-spans");
    }
}

static void launches_without_kernels_are_told(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        mtp_trace *t = made_begin();
        gpu g = made_gpu(t);
        made_op(t, g.thread, 0, 500 * US, "aten::mm");
        made_wait(&g, 10, 20, "cudaLaunchKernel");
        if (with)
            made_span(t, g.stream, 30 * US, 90 * US, "gemm", MTP__CATEGORY_KERNEL);
        made_end(t);
        if (with)
            assert_silent(t, "device-not-recorded");
        else
            assert_first(t, "device-not-recorded", 0);
    }
}

static void overhead_of_the_profiler_is_told(void **state)
{
    (void)state;
    for (int large = 0; large < 2; large++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        made_op(t, thread, 0, 10000 * US, "aten::mm");
        made_span(t, thread, 0, (large ? 500 : 50) * US, "Activity Buffer Request", MTP__CATEGORY_OVERHEAD);
        made_end(t);
        if (large)
            assert_found(t, "profiler-overhead");
        else
            assert_silent(t, "profiler-overhead");
    }
}

static void nothing_is_said_of_nothing(void **state)
{
    (void)state;
    assert_first(made_end(made_begin()), "empty-trace", 0);
    mtp_trace *t = made_begin();
    made_op(t, made_thread(t, 1), 5, 5, "instant");
    assert_first(made_end(t), "empty-trace", 0);
    t = made_begin();
    made_op(t, made_thread(t, 1), 5, 500000, "aten::mm");
    made_end(t);
    t->without_times = true;
    mtp_findings *f = findings_of(t);
    assert_int_equal(mtp_findings_count(f), 1);
    assert_string_equal(mtp_findings_row(f, 0)->id.bytes, "no-times");
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

/* -------------------------------------------------------------------------------------------------- the rest */

static void times_may_be_anything(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    made_op(t, g.thread, INT64_MIN, INT64_MAX, "all");
    made_op(t, g.thread, INT64_MAX - 1, INT64_MAX, "late");
    made_span(t, g.stream, INT64_MIN, INT64_MIN + 1, "early", MTP__CATEGORY_KERNEL);
    made_span(t, g.stream, 0, -5, "backwards", MTP__CATEGORY_KERNEL);
    made_memory(t, g.thread, INT64_MIN, 1, INT64_MAX);
    made_memory(t, g.thread, INT64_MAX, 2, INT64_MAX);
    made_end(t);
    mtp_findings_destroy(findings_of(t));
    mtp_trace_destroy(t);
}

static void nothing_is_said_of_a_few_microseconds(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    made_op(t, thread, 0, 100 * US, "aten::mm");
    made_op(t, thread, 400 * US, 990 * US, "aten::mm");
    made_end(t);
    mtp_findings *f = findings_of(t);
    assert_int_equal(mtp_findings_count(f), 0);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    mtp_trace *t = launched(200, 50, 5, 10);
    mtp_findings *f;
    mtp_findings_options o = MTP_FINDINGS_OPTIONS_INIT;
    assert_int_equal(mtp_findings_create(NULL, NULL, &f), MTP_E_ARG);
    assert_int_equal(mtp_findings_create(t, NULL, NULL), MTP_E_ARG);
    o.least = 2;
    assert_int_equal(mtp_findings_create(t, &o, &f), MTP_E_ARG);
    o.least = 1;
    assert_ok(mtp_findings_create(t, &o, &f));
    assert_int_equal(place_of(f, "device-idle-launch-bound"), -1);
    assert_null(mtp_findings_row(f, mtp_findings_count(f)));
    assert_null(mtp_findings_evidence(f, 99, 0));
    assert_int_equal(mtp_findings_get_summary(NULL, NULL), MTP_E_ARG);
    mtp_findings_destroy(f);
    mtp_findings_destroy(NULL);
    assert_int_equal(mtp_findings_count(NULL), 0);
    mtp_trace_destroy(t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_trace *list[] = {launched(200, 50, 5, 10), waiting(300, "cudaStreamSynchronize", true), pausing(2000),
                         products("ampere_sgemm_128x64_nn", "[[8, 8], [8, 8]]", "[\"float\", \"float\"]", 0)};
    for (size_t i = 0; i < COUNT(list); i++) {
        int fired = 1;
        for (int nth = 1; fired > 0; nth++) {
            mtp_findings *f = NULL;
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, nth % 2 == 0);
            mtp_status status = mtp_findings_create(list[i], NULL, &f);
            fired = mtp__fault_stop();
            assert_true(status == MTP_E_NOMEM || (status == MTP_OK && f != NULL));
            assert_true(fired == 0 || status == MTP_E_NOMEM || nth > 1);
            mtp_findings_destroy(f);
        }
        mtp_trace_destroy(list[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(late_launches_of_short_kernels_are_the_bottleneck),
        TEST(faster_kernels_would_help_a_device_that_is_busy_half_of_the_time),
        TEST(a_device_that_keeps_busy_does_not_wait_for_launches),
        TEST(a_wait_for_the_device_leaves_it_idle),
        TEST(a_server_that_waits_for_requests_after_a_result_is_not_blamed),
        TEST(a_wait_without_an_idle_device_costs_nothing),
        TEST(a_copy_that_blocks_is_a_wait),
        TEST(long_pauses_of_the_host_are_reported_with_what_it_did),
        TEST(many_tiny_kernels_in_a_queue_lose_time_between_them),
        TEST(what_the_device_has_yet_to_do_after_the_last_step_counts),
        TEST(idle_devices_without_the_calls_are_not_explained),
        TEST(copies_that_nothing_overlaps_are_exposed),
        TEST(collectives_that_nothing_overlaps_are_exposed),
        TEST(float32_products_are_told_by_their_kernels),
        TEST(odd_sizes_matter_only_for_half_precision),
        TEST(losses_are_told_and_come_first_if_they_are_large),
        TEST(damage_is_told_first),
        TEST(unfinished_spans_are_told_if_they_are_many),
        TEST(launches_without_kernels_are_told),
        TEST(overhead_of_the_profiler_is_told),
        TEST(nothing_is_said_of_nothing),
        TEST(times_may_be_anything),
        TEST(nothing_is_said_of_a_few_microseconds),
        TEST(arguments_are_checked),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
