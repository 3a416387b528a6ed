/* Unit: analyze/events: sums, trees, the list, device work, the fields of an event. */
#define _GNU_SOURCE
#include "tests/unit/event_lists.h"

/* ------------------------------------------------------------------------------------------ the list */

static void events_come_by_start_and_outer_before_inner_over_all_threads(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t one = made_thread(t, 7), two = made_thread(t, 100);
    made_op(t, one, 50, 60, "d");
    made_op(t, one, 10, 40, "a");
    made_op(t, one, 10, 40, "aa");
    made_op(t, one, 10, 20, "b");
    made_scope(t, two, 30, 90, "c");
    mtp_events *e = events_of(made_end(t));
    assert_names(e, "a aa b c d");
    assert_int_equal(at(e, 0).parent, MTP_NO_EVENT);
    assert_int_equal(at(e, 1).parent, 0);
    assert_int_equal(at(e, 2).parent, 1);
    assert_int_equal(child_of(e, 0), 1);
    assert_int_equal(sibling_of(e, 1), MTP_NO_EVENT);
    mtp_event a = at(e, 0), c = at(e, 3);
    assert_int_equal(mtp_events_zero_ns(e), 10);
    assert_int_equal(a.start_ns, 0);
    assert_int_equal(a.end_ns, 30);
    assert_int_equal(a.kind, MTP_EVENT_OP);
    assert_false(a.is_user_annotation);
    assert_int_equal(a.thread, 2); /* the other one is the main thread: its tid is the pid */
    assert_int_equal(a.tid, 7);
    assert_int_equal(c.thread, 1);
    assert_int_equal(c.pid, 100);
    assert_int_equal(c.kind, MTP_EVENT_SCOPE);
    assert_int_equal(c.scope, 7);
    assert_true(c.is_user_annotation);
    assert_tree(e);
    assert_agrees(t, e, false);
    finish(e, t);
}

static void an_absorbed_child_is_no_event_and_its_children_are_its_parents(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    for (int i = 0; i < 2000; i++) /* each the only child of the one before */
        made_op(t, k, i, 100000 - i, "a");
    made_op(t, k, 3000, 4000, "b");
    made_op(t, k, 5000, 6000, "c");
    mtp_events *e = events_of(made_end(t));
    assert_names(e, "a b c");
    assert_int_equal(at(e, 1).parent, 0);
    assert_int_equal(at(e, 2).parent, 0);
    assert_int_equal(child_of(e, 0), 1);
    assert_int_equal(sibling_of(e, 1), 2);
    assert_true(at(e, 0).self_cpu_time_total == 98);
    assert_agrees(t, e, false);
    assert_tree(e);
    finish(e, t);
}

static void steps_keep_their_names_and_share_a_key(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    t->format = MTP_FORMAT_KINETO;
    uint32_t k = made_thread(t, 1);
    made_scope(t, k, 0, 100, "ProfilerStep#3");
    made_op(t, k, 10, 20, "aten::add.Tensor");
    made_op(t, k, 110, 120, "aten::is_leaf"); /* torch leaves it out */
    made_op(t, k, 130, 140, "between");
    made_scope(t, k, 200, 300, "ProfilerStep#12");
    mtp_events *e = events_of(made_end(t));
    assert_names(e, "ProfilerStep#3 aten::add between ProfilerStep#12");
    mtp_event step = at(e, 0), add = at(e, 1);
    assert_text(step.key, "ProfilerStep*");
    assert_int_equal(step.kind, MTP_EVENT_STEP);
    assert_int_equal(step.step, 3);
    assert_text(add.key, "aten::add");
    assert_text(add.overload_name, "Tensor");
    assert_int_equal(add.step, 3);
    assert_int_equal(add.parent, 0);
    assert_int_equal(at(e, 2).step, -1);
    assert_int_equal(at(e, 3).step, 12);
    assert_agrees(t, e, true);
    finish(e, t);
}

static void memory_that_nothing_covers_and_failed_allocations_are_events(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 100);
    made_op(t, k, 100, 200, "outer");
    made_op(t, k, 120, 150, "inner");
    made_memory(t, k, 50, 1, 64);
    made_memory(t, k, 130, 2, 100);
    made_memory_of(t, k, 160, 3, 1000, -1, 20, 0);
    made_memory(t, k, 200, 2, -100);
    made_memory_of(t, k, 300, 3, -1000, -1, 20, 0);
    made_memory(t, k, 300, 1, -64);
    mtp__instant failed = {.ts = 300, .name = made_text(t, "[OutOfMemory]"), .track = k, .scope = 't'};
    mtp__trace_add_instant(t, &failed);
    failed.ts = 20;
    mtp__trace_add_instant(t, &failed);
    mtp_events *e = events_of(made_end(t));
    assert_names(e, "[OutOfMemory] [memory] outer inner [memory] [memory] [OutOfMemory]");
    mtp_event first = at(e, 1), outer = at(e, 2), inner = at(e, 3), freed = at(e, 4);
    assert_int_equal(at(e, 0).kind, MTP_EVENT_OUT_OF_MEMORY);
    assert_int_equal(first.kind, MTP_EVENT_MEMORY);
    assert_int_equal(first.cpu_memory_usage, 64);
    assert_int_equal(first.start_ns, 30);
    assert_int_equal(first.memory, 0);
    assert_int_equal(first.span, UINT32_MAX);
    assert_int_equal(first.thread, 1);
    assert_text(first.args, "");
    assert_int_equal(child_of(e, 1), MTP_NO_EVENT);
    assert_int_equal(outer.cpu_memory_usage, 0);
    assert_int_equal(outer.self_cpu_memory_usage, -100);
    assert_int_equal(outer.device_memory_usage, 1000);
    assert_int_equal(inner.self_cpu_memory_usage, 100);
    assert_int_equal(freed.device_memory_usage, -1000);
    assert_int_equal(freed.op_device_type, 20);
    assert_int_equal(freed.device_type, 0);
    assert_agrees(t, e, false);
    finish(e, t);
}

static void an_instant_that_many_begin_in_has_the_longest_first(void **state)
{
    (void)state;
    mtp_trace *t = held_trace(3);
    mtp_events *e = events_of(t);
    assert_names(e, "outer long short long short long short");
    for (size_t i = 1; i < 7; i++)
        assert_int_equal(at(e, i).parent, 0);
    assert_agrees(t, e, false);
    assert_tree(e);
    finish(e, t);
}

/* --------------------------------------------------------------------------------------- device work */

static void kernels_are_of_the_op_that_launched_them(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 100), stream = made_stream(t, 1, 7);
    mtp__detail d = MTP__DETAIL_INIT;
    made_op(t, k, 0, 1000, "outer");
    made_op(t, k, 100, 900, "aten::mm");
    made_op(t, k, 150, 800, "aten::mm"); /* absorbed: its kernels stay */
    d.correlation = 5;
    span_with(t, k, 200, 300, "launch", MTP__CATEGORY_CUDA_RUNTIME, d);
    d.bytes = 64;
    span_with(t, stream, 5000, 9000, "second", MTP__CATEGORY_GPU_MEMCPY, d);
    span_with(t, stream, 2000, 4000, "first", MTP__CATEGORY_KERNEL, d);
    d.correlation = 99;
    span_with(t, stream, 10000, 10500, "orphan", MTP__CATEGORY_KERNEL, d);
    mtp_events *e = events_of(made_end(t));
    assert_names(e, "outer aten::mm launch first second orphan");
    mtp_event mm = at(e, 1), outer = at(e, 0), first = at(e, 3), second = at(e, 4);
    assert_int_equal(mm.kernel_count, 2);
    assert_int_equal(outer.kernel_count, 0);
    assert_true(outer.device_time_total == 6 && outer.self_device_time_total == 0);
    assert_true(mm.self_device_time_total == 6);
    mtp_event_kernel kernel = {.size = sizeof kernel};
    assert_ok(mtp_events_kernel(e, 1, 0, &kernel));
    assert_text(kernel.name, "first");
    assert_true(kernel.duration == 2);
    assert_int_equal(kernel.device, 1);
    assert_int_equal(kernel.stream, 7);
    assert_int_equal(kernel.event, 3);
    assert_int_equal(mtp_events_kernel(e, 1, 2, &kernel), MTP_E_ARG);
    assert_int_equal(mtp_events_kernel(e, 3, 0, &kernel), MTP_E_ARG);
    assert_true(first.is_device);
    assert_int_equal(first.device_type, 20);
    assert_int_equal(first.device_index, 1);
    assert_int_equal(first.resource, 7);
    assert_int_equal(first.thread, 1); /* its op's */
    assert_int_equal(first.correlation, 5);
    assert_int_equal(first.external_id, at(e, 2).external_id);
    assert_int_equal(second.kind, MTP_EVENT_MEMCPY);
    assert_int_equal(second.bytes, 64);
    assert_int_equal(at(e, 2).kind, MTP_EVENT_RUNTIME);
    assert_int_equal(at(e, 5).thread, 1);
    assert_agrees(t, e, false);
    assert_tree(e);
    finish(e, t);
}

static void a_call_outside_of_any_op_is_on_the_main_thread_in_torchs_files(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    t->format = MTP_FORMAT_KINETO;
    uint32_t other = made_thread(t, 9), main = made_thread(t, 100);
    mtp__detail d = MTP__DETAIL_INIT;
    made_op(t, other, 0, 50, "worker");
    made_op(t, main, 0, 1000, "op");
    d.correlation = 77;
    span_with(t, other, 100, 200, "cudaFree", MTP__CATEGORY_CUDA_RUNTIME, d);
    mtp_events *e = events_of(made_end(t));
    mtp_event call = named(e, "cudaFree");
    assert_int_equal(call.thread, 1);
    assert_int_equal(call.tid, 9);
    assert_string_equal(at(e, call.parent).name.bytes, "op");
    assert_int_equal(named(e, "worker").thread, 2);
    assert_agrees(t, e, true);
    assert_tree(e);
    finish(e, t);
}

/* -------------------------------------------------------------------------------------- what it has */

static void an_event_has_all_that_was_recorded_with_it(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 4321), fwd = made_thread(t, 1234);
    made_op(t, fwd, 0, 5, "forward");
    mtp__shape shape = {made_text(t, "[[4, 6], []]"), made_text(t, "[[6, 1], []]"),
                        made_text(t, "[\"float\", \"Scalar\"]"), made_text(t, "[\"\", \"1\"]")};
    mtp__shape result = {made_text(t, "[[4, 6]]"), 0, 0, 0};
    mtp__detail d = {.sequence = 17,
                     .forward_thread = 1234,
                     .correlation = 3,
                     .flops = 99,
                     .allocated_before = 10,
                     .allocated_after = 30,
                     .queued_ns = INT64_MIN,
                     .shape = mtp__trace_add_shape(t, &shape),
                     .outputs = mtp__trace_add_shape(t, &result),
                     .args = made_text(t, "\"x\": 1"),
                     .device = (uint16_t)MTP_DEVICE_NPU(2)};
    mtp__trace_add_span(t, k, 10, 20, made_text(t, "AddBackward0"), MTP__CATEGORY_CPU_OP,
                        MTP__SPAN_BACKWARD | MTP__SPAN_UNFINISHED, mtp__trace_add_detail(t, &d));
    mtp__step steps[] = {{-5, 8, 0}, {8, 99, 1}};
    mtp__trace_add_step(t, &steps[0]);
    mtp__trace_add_step(t, &steps[1]);
    made_span(t, k, 30, 40, "x.py(1): f", MTP__CATEGORY_PYTHON_FUNCTION);
    mtp__trace_add_span(t, k, 31, 39, made_text(t, "nn.Module: Linear_0"), MTP__CATEGORY_PYTHON_FUNCTION,
                        MTP__SPAN_MODULE, 0);
    mtp_events *e = events_of(made_end(t));
    mtp_event v = named(e, "AddBackward0"), plain = named(e, "forward");
    assert_int_equal(mtp_events_zero_ns(e), -5);
    assert_int_equal(v.kind, MTP_EVENT_BACKWARD);
    assert_int_equal(v.scope, 1);
    assert_true(v.is_unfinished);
    assert_int_equal(v.sequence, 17);
    assert_int_equal(v.forward_thread, plain.thread);
    assert_int_equal(v.correlation, 3);
    assert_int_equal(v.flops, 99);
    assert_int_equal(v.allocated_before, 10);
    assert_int_equal(v.allocated_after, 30);
    assert_int_equal(v.op_device_type, 20);
    assert_int_equal(v.op_device_index, 2);
    assert_int_equal(v.device_type, 0);
    assert_int_equal(v.step, 1);
    assert_int_equal(plain.step, 0);
    assert_int_equal(v.record_function_id, v.external_id);
    assert_true(v.external_id != plain.external_id && plain.external_id != 0);
    assert_text(v.input_dims, "[[4, 6], []]");
    assert_text(v.input_strides, "[[6, 1], []]");
    assert_text(v.input_types, "[\"float\", \"Scalar\"]");
    assert_text(v.concrete_inputs, "[\"\", \"1\"]");
    assert_text(v.output_dims, "[[4, 6]]");
    assert_text(v.args, "\"x\": 1");
    assert_int_equal(plain.sequence, -1);
    assert_int_equal(plain.allocated_before, -1);
    assert_int_equal(plain.op_device_type, -1);
    assert_int_equal(plain.shape, 0);
    assert_text(plain.input_dims, "");
    assert_int_equal(named(e, "x.py(1): f").kind, MTP_EVENT_PYTHON);
    assert_int_equal(named(e, "nn.Module: Linear_0").kind, MTP_EVENT_MODULE);
    assert_string_equal(mtp_event_kind_text(MTP_EVENT_MODULE), "module");
    assert_string_equal(mtp_event_kind_text((mtp_event_kind)77), "");
    finish(e, t);
}

static void inputs_need_no_parsing(void **state)
{
    (void)state;
    static const struct {
        const char *text, *items, *numbers; /* as below: T and L with their counts */
    } cases[] = {
        {"[[4, 6], []]", "T2 T0 ", "4 6 "},
        {"[]", "", ""},
        {"", "", ""},
        {"[[2, 3], [[4], [5, 6], []], [7]]", "T2 L3 T1 T2 T0 T1 ", "2 3 4 5 6 7 "},
        {"[[-1, 9223372036854775806, 99999999999999999999], [1.5, \"s0\", \"a]\\\"b\", null]]", "T3 T4 ",
         "-1 -1 -1 -1 -1 -1 -1 "},
        {"[1, [2], \"x\"]", "T0 T1 T0 ", "2 "},
        {"[[1,2],[3]]", "T2 T1 ", "1 2 3 "},
        {"[[[[1]]]]", "L1 T1 ", "1 "},
        {"]]][[1", "T1 ", "1 "},
        {"[[922337203685477579]]", "T1 ", "922337203685477579 "},
        {"[[\"", "T1 ", "-1 "},
        {"[[-]]", "T1 ", "-1 "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        mtp_trace *t = made_begin();
        uint32_t k = made_thread(t, 1);
        mtp__shape shape = {made_text(t, cases[i].text), made_text(t, "[[6, 1]]"), 0, 0};
        mtp__detail d = MTP__DETAIL_INIT;
        d.shape = mtp__trace_add_shape(t, &shape);
        span_with(t, k, 0, 1, "op", MTP__CATEGORY_CPU_OP, d);
        mtp_events *e = events_of(made_end(t));
        for (size_t room = 0; room <= 16; room++) {
            mtp_event_input item[16];
            int64_t number[16];
            size_t items, numbers;
            char said[2][512] = {"", ""};
            assert_ok(mtp_events_inputs(e, 0, MTP_INPUT_DIMS, item, room, &items, number, room, &numbers));
            for (size_t n = 0; n < items && n < room; n++)
                snprintf(said[0] + strlen(said[0]), 64, "%c%u ", item[n].is_list ? 'L' : 'T', item[n].count);
            for (size_t n = 0; n < numbers && n < room; n++)
                snprintf(said[1] + strlen(said[1]), 64, "%lld ", (long long)number[n]);
            if (items > room || numbers > room)
                continue;
            assert_string_equal(said[0], cases[i].items);
            assert_string_equal(said[1], cases[i].numbers);
        }
        size_t items, numbers;
        int64_t number[2];
        assert_ok(mtp_events_inputs(e, 0, MTP_INPUT_STRIDES, NULL, 0, &items, number, 2, &numbers));
        assert_int_equal(items, 1);
        assert_int_equal(number[0], 6);
        assert_ok(mtp_events_inputs(e, 0, MTP_OUTPUT_DIMS, NULL, 0, &items, NULL, 0, &numbers));
        assert_int_equal(items + numbers, 0);
        finish(e, t);
    }
}

static void stacks_are_as_torch_shows_them(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 7);
    uint32_t root = mtp__trace_add_stack(t, 0, made_text(t, "main.py:1:main"));
    uint32_t hidden = mtp__trace_add_stack(t, root, made_text(t, "torch/tensor.py:9:backward"));
    uint32_t leaf = mtp__trace_add_stack(t, hidden, made_text(t, "model.py:5:forward"));
    mtp__detail d = MTP__DETAIL_INIT;
    d.stack = leaf;
    d.sequence = 4;
    span_with(t, k, 0, 10, "aten::mul", MTP__CATEGORY_CPU_OP, d);
    made_autograd(t, k, 20, 30, "MulBackward0", 4, 7);
    made_op(t, k, 22, 28, "aten::mul");
    made_op(t, k, 40, 50, "bare");
    mtp_events *e = events_of(made_end(t));
    mtp_text frame[4];
    size_t depth;
    for (size_t i = 0; i < 3; i++) { /* the op, its backward function, and what that calls */
        assert_ok(mtp_events_stack(e, i, frame, 4, &depth));
        assert_int_equal(depth, 2);
        assert_text(frame[0], "model.py:5:forward");
        assert_text(frame[1], "main.py:1:main");
    }
    frame[1] = (mtp_text){"untouched", 9};
    assert_ok(mtp_events_stack(e, 0, frame, 1, &depth));
    assert_int_equal(depth, 2);
    assert_text(frame[1], "untouched");
    assert_ok(mtp_events_stack(e, 0, NULL, 0, &depth));
    assert_int_equal(depth, 2);
    assert_ok(mtp_events_stack(e, 3, frame, 4, &depth));
    assert_int_equal(depth, 0);
    finish(e, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_come_by_start_and_outer_before_inner_over_all_threads),
        TEST(an_absorbed_child_is_no_event_and_its_children_are_its_parents),
        TEST(steps_keep_their_names_and_share_a_key),
        TEST(memory_that_nothing_covers_and_failed_allocations_are_events),
        TEST(an_instant_that_many_begin_in_has_the_longest_first),
        TEST(kernels_are_of_the_op_that_launched_them),
        TEST(a_call_outside_of_any_op_is_on_the_main_thread_in_torchs_files),
        TEST(an_event_has_all_that_was_recorded_with_it),
        TEST(inputs_need_no_parsing),
        TEST(stacks_are_as_torch_shows_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
