/* Unit: analyze/torch: memory and device time. */
#include "tests/unit/averages_rows.h"

/* --------------------------------------------------------------------------------------------------
 * memory */

static void memory_is_of_all_spans_that_are_open_whichever_thread_allocates(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t one = made_thread(t, 1), two = made_thread(t, 2);
    made_op(t, one, 1000, 9000, "outer");
    made_op(t, one, 2000, 5000, "inner");
    made_memory(t, two, 500, 1, 7);                     /* before everything */
    made_memory(t, two, 1000, 2, 100);                  /* at the very start counts */
    made_memory(t, one, 5000, 3, 50);                   /* as does the very end */
    made_memory(t, one, 3000, 2, -100);                 /* freed inside */
    made_memory_of(t, one, 4000, 4, 4096, -1, 1, 0);    /* CUDA */
    made_memory_of(t, one, 4000, 5, 1 << 20, -1, 9, 0); /* XLA: neither CPU nor device */
    made_memory_of(t, two, 20000, 6, 9, -1, 9, 0); /* outside everything, and of a kind that does not count */
    mtp_averages *a = rows_of(made_end(t));
    const mtp_row *outer = op_row(a, "outer"), *inner = op_row(a, "inner"), *rest = op_row(a, "[memory]");
    assert_int_equal(outer->cpu_memory_usage, 50);
    assert_int_equal(outer->self_cpu_memory_usage, 100);
    assert_int_equal(inner->cpu_memory_usage, -50);
    assert_int_equal(inner->device_memory_usage, 4096);
    assert_int_equal(outer->self_device_memory_usage, 0);
    assert_int_equal(rest->count, 2);
    assert_int_equal(rest->cpu_memory_usage, 7);
    assert_int_equal(rest->self_cpu_memory_usage, 7);
    assert_us(rest->cpu_time_total, 0);
    assert_string_equal(mtp_averages_row(a, 0)->key, "[memory]");
    finish(a, t);
}

static void allocations_that_failed_are_a_row(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    mtp__instant oom = {
        .ts = 5, .name = made_text(t, "[OutOfMemory]"), .track = made_thread(t, 1), .scope = 't'};
    mtp__trace_add_instant(t, &oom);
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(op_row(a, "[OutOfMemory]")->count, 1);
    finish(a, t);
}

/* --------------------------------------------------------------------------------------------------
 * device */

static void device_time_is_of_the_op_and_of_all_around_it(void **state)
{
    (void)state;
    for (int kineto = 0; kineto < 2; kineto++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
        made_scope(t, thread, 0, 9000, "step");
        launch(t, thread, stream, 1000, 3000, 11);
        launch(t, thread, stream, 3000, 500, 12);
        if (kineto)
            as_kineto(t, true);
        mtp_averages *a = rows_of(made_end(t));
        assert_us(scope_row(a, "step")->device_time_total, 3.5);
        assert_us(scope_row(a, "step")->self_device_time_total, 0);
        assert_us(op_row(a, "aten::mm")->device_time_total, 3.5);
        assert_us(op_row(a, "aten::mm")->self_device_time_total, 3.5);
        assert_us(op_row(a, "cudaLaunchKernel")->device_time_total, 0);
        const mtp_row *gemm = device_row(a, "gemm");
        assert_int_equal(gemm->count, 2);
        assert_us(gemm->self_device_time_total, 3.5);
        assert_us(gemm->cpu_time_total, 0);
        assert_us(gemm->max, 3);
        finish(a, t);
    }
}

static void an_absorbed_childs_device_work_replaces_its_parents(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
    mtp__detail d = MTP__DETAIL_INIT;
    for (unsigned i = 1; i <= 2; i++) {
        d.external_id = i;
        span_with(t, thread, 100 * i, 10000 - 100 * i, "aten::x", MTP__CATEGORY_CPU_OP, d);
        span_with(t, stream, 20000 * i, 20000 * i + 1000 * i, "kernel", MTP__CATEGORY_KERNEL, d);
    }
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(op_row(a, "aten::x")->count, 1);
    assert_us(op_row(a, "aten::x")->device_time_total, 2); /* the inner one's */
    finish(a, t);
}

/* A thread's call with the same number as another thread's op, and overhead inside that op. */
static mtp_trace *ids_that_meet(void)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), other = made_thread(t, 101), stream = made_stream(t, 0, 7);
    launch(t, thread, stream, 1000, 3000, 11);
    mtp__detail stray = MTP__DETAIL_INIT;
    stray.correlation = 11; /* numbered separately, and equal by chance */
    span_with(t, other, 30000, 31000, "cudaDeviceSynchronize", MTP__CATEGORY_CUDA_RUNTIME, stray);
    stray.correlation = 0; /* no id: that of the enclosing op */
    span_with(t, other, 1300, 1400, "Lazy Function Loading", MTP__CATEGORY_OVERHEAD, stray);
    as_kineto(t, true);
    return made_end(t);
}

static void work_is_counted_once_and_for_the_op_that_launched_it(void **state)
{
    (void)state;
    mtp_trace *t = ids_that_meet();
    mtp_averages *a = rows_of(t);
    assert_us(op_row(a, "cudaDeviceSynchronize")->device_time_total, 0);
    assert_us(op_row(a, "Lazy Function Loading")->device_time_total, 0);
    assert_us(op_row(a, "aten::mm")->device_time_total, 3);
    assert_us(op_row(a, "aten::mm")->self_device_time_total, 3);
    finish(a, t);
}

static void kernels_whose_ids_are_correlations_go_to_the_op_around_their_launch(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
    for (unsigned i = 1; i <= 3; i++) { /* each number is also that of an op: the next one */
        mtp__detail op = MTP__DETAIL_INIT, call = MTP__DETAIL_INIT, work = MTP__DETAIL_INIT;
        static const char *const names[] = {"", "aten::mm", "aten::add", "aten::relu"};
        op.external_id = 100 + i;
        call.external_id = call.correlation = work.external_id = work.correlation = 101 + i;
        span_with(t, thread, 10000 * i, 10000 * i + 1000, names[i], MTP__CATEGORY_CPU_OP, op);
        span_with(t, thread, 10000 * i + 100, 10000 * i + 200, "hipLaunchKernel", MTP__CATEGORY_CUDA_RUNTIME,
                  call);
        span_with(t, stream, 10000 * i + 5000, 10000 * i + 5000 + 1000 * i, "kernel", MTP__CATEGORY_KERNEL,
                  work);
    }
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_us(op_row(a, "aten::mm")->self_device_time_total, 1);
    assert_us(op_row(a, "aten::add")->self_device_time_total, 2);
    assert_us(op_row(a, "aten::relu")->self_device_time_total, 3);
    finish(a, t);
}

static void a_launch_outside_of_any_op_has_the_time_of_its_work(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
    mtp__detail call = MTP__DETAIL_INIT;
    made_op(t, thread, 0, 500, "aten::mm");
    call.correlation = 7;
    span_with(t, thread, 1000, 1100, "cudaGraphLaunch", MTP__CATEGORY_CUDA_RUNTIME, call);
    for (int i = 0; i < 5; i++)
        span_with(t, stream, 5000 + 1000 * i, 5800 + 1000 * i, "node", MTP__CATEGORY_KERNEL, call);
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_us(op_row(a, "cudaGraphLaunch")->device_time_total, 4);
    assert_us(op_row(a, "aten::mm")->device_time_total, 0);
    finish(a, t);
}

static void a_call_whose_id_is_its_correlation_has_no_op_by_it(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), other = made_thread(t, 101), stream = made_stream(t, 0, 7);
    mtp__detail op = MTP__DETAIL_INIT, call = MTP__DETAIL_INIT;
    op.external_id = call.external_id = call.correlation =
        11; /* by chance the number of an op that is running */
    span_with(t, other, 0, 9000, "aten::mm", MTP__CATEGORY_CPU_OP, op);
    span_with(t, thread, 1000, 1100, "hipLaunchKernel", MTP__CATEGORY_CUDA_RUNTIME, call);
    span_with(t, stream, 5000, 8000, "kernel", MTP__CATEGORY_KERNEL, call);
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_us(op_row(a, "aten::mm")->device_time_total, 0);
    assert_us(op_row(a, "hipLaunchKernel")->device_time_total, 3);
    finish(a, t);
}

static void torchs_ids_meet_by_number_alone(void **state)
{
    (void)state;
    mtp_trace *t = ids_that_meet();
    mtp_averages *a = rows_as_torch(t);
    assert_us(op_row(a, "cudaDeviceSynchronize")->device_time_total, 3);
    assert_us(op_row(a, "Lazy Function Loading")->self_device_time_total, 3);
    /* strays are nested on the main thread: here in aten::mm */
    assert_us(op_row(a, "aten::mm")->self_cpu_time_total, 1 - 0.1 - 0.1);
    assert_us(op_row(a, "aten::mm")->device_time_total, 6);
    assert_us(op_row(a, "aten::mm")->self_device_time_total, 3);
    finish(a, t);
}

static void overhead_takes_the_id_of_what_is_open_on_the_main_thread_even_if_it_is_the_devices(void **state)
{
    (void)state;
    for (int covered = 0; covered < 2; covered++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 100), other = made_thread(t, 101), stream = made_stream(t, 0, 7);
        mtp__detail scope = MTP__DETAIL_INIT, none = MTP__DETAIL_INIT;
        scope.external_id = 5;
        launch(t, thread, stream, 1000, 3000, 11);
        if (covered) /* on the device, and yet torch treats it as open on the thread */
            span_with(t, stream, 1199, 7001, "forward", MTP__CATEGORY_GPU_USER_ANNOTATION, scope);
        span_with(t, other, 1300, 1400, "Lazy Function Loading", MTP__CATEGORY_OVERHEAD, none);
        as_kineto(t, true);
        mtp_averages *a = rows_as_torch(made_end(t));
        assert_us(op_row(a, "Lazy Function Loading")->device_time_total, covered ? 0 : 3);
        finish(a, t);
    }
}

static void annotations_on_the_device_are_rows_that_launch_nothing(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
    mtp__detail d = MTP__DETAIL_INIT;
    d.external_id = 5;
    span_with(t, thread, 0, 1000, "forward", MTP__CATEGORY_USER_ANNOTATION, d);
    span_with(t, stream, 4999, 8001, "forward", MTP__CATEGORY_GPU_USER_ANNOTATION, d);
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_us(scope_row(a, "forward")->device_time_total, 0);
    const mtp_row *row = find_row(a, "forward", true, true);
    assert_us(row->device_time_total, 3); /* Kineto wrote it one ns wider on both sides */
    assert_us(row->p50, 3);
    finish(a, t);
}

static void
python_functions_have_rows_if_asked_for_and_count_from_the_release_that_writes_host_name(void **state)
{
    (void)state;
    mtp_averages_options with = MTP_AVERAGES_OPTIONS_INIT;
    with.include_python_functions = true;
    for (int file = 0; file < 4; file++) {
        bool newer = file > 0;
        mtp_trace *t = made_begin();
        uint32_t k = made_thread(t, 100);
        made_scope(t, k, 0, 12000, "step");
        made_span(t, k, 0, 10000, "x.py(1): f", MTP__CATEGORY_PYTHON_FUNCTION);
        made_op(t, k, 1000, 2000, "aten::mm");
        made_memory(t, k, 15000, 1, 10);
        as_kineto(t, file == 1);
        t->has_ledger = file == 2; /* exported by us, a recording that was stopped or not */
        t->made_window = file >= 2;
        mtp_averages *a = rows_of(made_end(t));
        assert_int_equal(mtp_averages_count(a), 3);
        assert_int_equal(op_row(a, "[memory]")->count, 1);
        assert_us(scope_row(a, "step")->self_cpu_time_total,
                  newer ? 2 : 11); /* row or not, it is nested there */
        assert_int_equal(mtp_averages_left_out(a), newer);
        mtp_averages_destroy(a);
        a = rows_by(t, with);
        assert_int_equal(mtp_averages_count(a), 4);
        assert_us(op_row(a, "x.py(1): f")->self_cpu_time_total, 9);
        assert_us(scope_row(a, "step")->self_cpu_time_total, 2);
        assert_int_equal(mtp_averages_left_out(a), 0);
        finish(a, t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_is_of_all_spans_that_are_open_whichever_thread_allocates),
        TEST(allocations_that_failed_are_a_row),
        TEST(device_time_is_of_the_op_and_of_all_around_it),
        TEST(an_absorbed_childs_device_work_replaces_its_parents),
        TEST(work_is_counted_once_and_for_the_op_that_launched_it),
        TEST(kernels_whose_ids_are_correlations_go_to_the_op_around_their_launch),
        TEST(a_launch_outside_of_any_op_has_the_time_of_its_work),
        TEST(torchs_ids_meet_by_number_alone),
        TEST(a_call_whose_id_is_its_correlation_has_no_op_by_it),
        TEST(overhead_takes_the_id_of_what_is_open_on_the_main_thread_even_if_it_is_the_devices),
        TEST(annotations_on_the_device_are_rows_that_launch_nothing),
        TEST(python_functions_have_rows_if_asked_for_and_count_from_the_release_that_writes_host_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
