/* Unit: present/stacks, present/folded: stacks as torch's export_stacks writes them, and for flame graphs. */
#define _GNU_SOURCE
#include "tests/test.h"
#include "tests/unit/chrome_traces.h"

typedef struct text {
    char *bytes;
    size_t length, room;
    size_t refuse_after; /* bytes, 0: never */
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

static void check(const mtp_trace *t, const char *metric, const char *want)
{
    text out = {0};
    assert_ok(mtp_trace_stacks(t, metric, text_sink, &out));
    assert_string_equal(out.bytes != NULL ? out.bytes : "", want);
    free(out.bytes);
}

static void check_folded(const mtp_trace *t, const char *metric, const char *want)
{
    text out = {0};
    assert_ok(mtp_trace_folded(t, metric, text_sink, &out));
    assert_string_equal(out.bytes != NULL ? out.bytes : "", want);
    free(out.bytes);
}

static uint32_t stack_of(mtp_trace *t, const char *const *root_first, size_t count)
{
    uint32_t node = 0;
    for (size_t i = 0; i < count; i++)
        node = mtp__trace_add_stack(t, node, text_of(t, root_first[i]));
    return node;
}

static mtp__detail with_stack(mtp_trace *t, const char *const *root_first, size_t count)
{
    mtp__detail d = MTP__DETAIL_INIT;
    d.stack = stack_of(t, root_first, count);
    return d;
}
#define STACK(t, ...)                                                                                        \
    with_stack(t, (const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})))

/* ----------------------------------------------------------------------------------------------- lines */

static void a_line_is_root_first_with_self_time(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main");
    mtp__detail outer = STACK(t, "main.py:1:main", "net.py:5:forward"),
                inner = STACK(t, "main.py:1:main", "net.py:5:forward", "net.py:9:mm");
    add_span(t, main, 0, 10000, "aten::linear", MTP__CATEGORY_CPU_OP, &outer);
    add_span(t, main, 1000, 5999, "aten::mm", MTP__CATEGORY_CPU_OP, &inner);
    add_span(t, main, 20000, 25000, "no stack", MTP__CATEGORY_CPU_OP, NULL);
    t = maker_finish(t);
    check(t, "self_cpu_time_total",
          "main.py:1:main;net.py:5:forward 5\nmain.py:1:main;net.py:5:forward;net.py:9:mm 4\n");
    check(t, "self_device_time_total", "");
    mtp_trace_destroy(t);
}

static void less_than_a_microsecond_counts_as_one_and_nothing_as_nothing(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main");
    mtp__detail d = STACK(t, "a", "b");
    add_span(t, main, 0, 1, "short", MTP__CATEGORY_CPU_OP, &d);
    add_span(t, main, 10, 10, "none", MTP__CATEGORY_CPU_OP, &d);
    add_span(t, main, 100, 2099, "long", MTP__CATEGORY_USER_ANNOTATION, &d);
    t = maker_finish(t);
    check(t, "self_cpu_time_total", "a;b 1\na;b 1\n");
    mtp_trace_destroy(t);
}

static void what_would_break_a_line_is_an_underscore(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main");
    mtp__detail d = STACK(t, "a b;c\td\ne", "\x1b[31m\r\x7f", "\xff|\xe4\xb8\xad|\xc2\x9b");
    add_span(t, main, 0, 3000, "op", MTP__CATEGORY_CPU_OP, &d);
    t = maker_finish(t);
    check(t, "self_cpu_time_total", "a_b_c_d_e;_[31m__;\xef\xbf\xbd|\xe4\xb8\xad|_ 3\n");
    mtp_trace_destroy(t);
}

static void one_frame_gets_the_op_below_it(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main");
    mtp__detail d = STACK(t, "main.c:3:main");
    add_span(t, main, 0, 3000, "my op", MTP__CATEGORY_CPU_OP, &d);
    t = maker_finish(t);
    check(t, "self_cpu_time_total", "main.c:3:main;my_op 3\n");
    mtp_trace_destroy(t);
}

/* ----------------------------------------------------------------------------------------- torch's rules */

static void without_a_stack_the_python_functions_around_are_it(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(true);
    uint32_t main = add_thread(t, 517, 517, "main");
    add_span(t, main, 0, 100000, "train.py(1): <module>", MTP__CATEGORY_PYTHON_FUNCTION, NULL);
    add_span(t, main, 1000, 90000, "nn.Module: Net_0", MTP__CATEGORY_PYTHON_FUNCTION, NULL);
    add_span(t, main, 2000, 30000, "aten::linear", MTP__CATEGORY_CPU_OP, NULL);
    add_span(t, main, 3000, 20000, "hook.py(7): hook", MTP__CATEGORY_PYTHON_FUNCTION,
             NULL); /* no event: not subtracted */
    add_span(t, main, 4000, 14000, "aten::mm", MTP__CATEGORY_CPU_OP, NULL);
    t = maker_finish(t);
    check(t, "self_cpu_time_total",
          "train.py(1):_<module>;nn.Module:_Net_0 18\n"
          "train.py(1):_<module>;nn.Module:_Net_0;hook.py(7):_hook 10\n");
    mtp_trace_destroy(t);
}

static void an_only_child_of_the_same_name_is_part_of_its_parent(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main");
    mtp__detail d = STACK(t, "a", "b"), deeper = STACK(t, "a", "b", "c");
    add_span(t, main, 0, 10000, "op", MTP__CATEGORY_CPU_OP, &d);
    add_span(t, main, 1000, 9000, "op", MTP__CATEGORY_CPU_OP, &deeper);
    add_span(t, main, 2000, 8000, "op", MTP__CATEGORY_CPU_OP, &deeper);
    add_span(t, main, 3000, 4000, "leaf", MTP__CATEGORY_CPU_OP, &deeper);
    t = maker_finish(t);
    check(t, "self_cpu_time_total", "a;b 9\na;b;c 1\n");
    mtp_trace_destroy(t);
}

static void backward_is_shown_where_forward_was_called(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main"), engine = add_thread(t, 517, 600, "engine");
    mtp__detail forward = STACK(t, "main", "forward"), back = STACK(t, "engine", "run"),
                inner = STACK(t, "engine", "mm");
    forward.sequence = back.sequence = 8;
    back.forward_thread = 517;
    add_span(t, main, 0, 5000, "aten::mm", MTP__CATEGORY_CPU_OP, &forward);
    uint32_t detail = mtp__trace_add_detail(t, &back);
    mtp__trace_add_span(t, engine, 10000, 20000, text_of(t, "MmBackward0"), MTP__CATEGORY_CPU_OP,
                        MTP__SPAN_BACKWARD, detail);
    add_span(t, engine, 11000, 14000, "aten::mm", MTP__CATEGORY_CPU_OP, &inner);
    back.sequence = 99; /* no forward op: torch shows no stack */
    detail = mtp__trace_add_detail(t, &back);
    mtp__trace_add_span(t, engine, 30000, 32000, text_of(t, "Other"), MTP__CATEGORY_CPU_OP,
                        MTP__SPAN_BACKWARD, detail);
    t = maker_finish(t);
    check(t, "self_cpu_time_total", "main;forward 5\nmain;forward 7\nmain;forward 3\n");
    check_folded(t, "self_cpu_time_total",
                 "main;forward;MmBackward0 7\n"
                 "main;forward;aten::mm 5\n"
                 "main;forward;MmBackward0;aten::mm 3\n"
                 "engine;run;Other 2\n"); /* where it ran is better than nowhere */
    mtp_trace_destroy(t);
}

/* Since 2.12. What an op calls in Python is not its own time; in older files, it is. */
static void functions_of_python_are_events_as_in_torch(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        mtp_trace *t = maker_start(old);
        uint32_t main = add_thread(t, 517, 517, "main");
        add_span(t, main, 0, 100000, "train.py(1): <module>", MTP__CATEGORY_PYTHON_FUNCTION, NULL);
        add_span(t, main, 1000, 90000, "net.py(3): forward", MTP__CATEGORY_PYTHON_FUNCTION, NULL);
        add_span(t, main, 2000, 30000, "scope", MTP__CATEGORY_USER_ANNOTATION, NULL);
        add_span(t, main, 3000, 23000, "<built-in function sleep>", MTP__CATEGORY_PYTHON_FUNCTION, NULL);
        t = maker_finish(t);
        check(t, "self_cpu_time_total",
              old ? "train.py(1):_<module>;net.py(3):_forward 28\n"
                  : "train.py(1):_<module>;net.py(3):_forward 61\n"
                    "train.py(1):_<module>;net.py(3):_forward 8\n"
                    "train.py(1):_<module>;net.py(3):_forward 20\n");
        check_folded(t, "self_cpu_time_total", "train.py(1):_<module>;net.py(3):_forward;scope 28\n");
        mtp_trace_destroy(t);
    }
}

static void lines_are_in_the_order_of_events_whichever_thread_they_are_on(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main"), other = add_thread(t, 517, 518, "other");
    mtp__detail a = STACK(t, "main", "a"), b = STACK(t, "run", "b"), c = STACK(t, "main", "c");
    add_span(t, main, 0, 1000, "op", MTP__CATEGORY_CPU_OP, &a);
    add_span(t, main, 4000, 7000, "op", MTP__CATEGORY_CPU_OP, &c);
    add_span(t, other, 2000, 4000, "op", MTP__CATEGORY_CPU_OP, &b);
    t = maker_finish(t);
    check(t, "self_cpu_time_total", "main;a 1\nrun;b 2\nmain;c 3\n");
    mtp_trace_destroy(t);
}

static void frames_and_events_that_torch_omits_are_omitted(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main");
    mtp__detail d = STACK(t, "main.py(1): main", "step.py(3): step",
                          "torch/autograd/__init__.py(246): backward", "<built-in method run_backward>");
    add_span(t, main, 0, 9000, "op", MTP__CATEGORY_CPU_OP, &d);
    add_span(t, main, 1000, 8000, "profiler::_record_function_enter", MTP__CATEGORY_CPU_OP, &d);
    t = maker_finish(t);
    check(t, "self_cpu_time_total", "main.py(1):_main;step.py(3):_step;<built-in_method_run_backward> 9\n");
    mtp_trace_destroy(t);
}

/* As in torch, whose list has kernels as well. */
static void device_time_is_that_of_kernels_and_of_the_ops_that_launched_them(void **state)
{
    (void)state;
    static const char *const spellings[] = {"self_device_time_total", "self_cuda_time_total",
                                            "self_npu_time_total", "self_xpu_time_total",
                                            "self_privateuse1_time_total"};
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main"), stream = add_stream(t, 0, 7);
    mtp__detail op = STACK(t, "a", "b"), work = MTP__DETAIL_INIT, launch = MTP__DETAIL_INIT;
    launch.correlation = work.correlation = 5;
    add_span(t, main, 0, 5000, "op", MTP__CATEGORY_CPU_OP, &op);
    add_span(t, main, 1000, 2000, "launch", MTP__CATEGORY_CUDA_RUNTIME, &launch);
    add_span(t, stream, 3000, 10500, "kernel", MTP__CATEGORY_KERNEL, &work);
    add_span(t, stream, 11000, 12000, "kernel", MTP__CATEGORY_KERNEL, &work);
    t = maker_finish(t);
    for (size_t i = 0; i < COUNT(spellings); i++)
        check(t, spellings[i], "a;b 8\na;b 7\na;b 1\n");
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------- folded */

static void a_stack_is_one_line_however_often_it_was_there(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main");
    mtp__detail outer = STACK(t, "main.py:1:main", "net.py:5:forward"), inner = outer, other = outer;
    inner.stack = mtp__trace_add_stack(
        t, mtp__trace_add_stack(t, t->stacks[outer.stack].parent, text_of(t, "net.py:6:forward")),
        text_of(t, "net.py:9:mm"));
    other.stack = mtp__trace_add_stack(t, t->stacks[outer.stack].parent, text_of(t, "net.py:7:loss"));
    for (int i = 0; i < 100; i++) {
        char step[32];
        int64_t at = i * 100000;
        snprintf(step, sizeof step, "ProfilerStep#%d", i);
        uint32_t d = mtp__trace_add_detail(t, &(mtp__detail)MTP__DETAIL_INIT);
        mtp__trace_add_span(t, main, at, at + 50000, text_of(t, step), MTP__CATEGORY_USER_ANNOTATION,
                            MTP__SPAN_STEP, d);
        add_span(t, main, at, at + 10000, "aten::linear", MTP__CATEGORY_CPU_OP, &outer);
        add_span(t, main, at + 1000, at + 5000, "aten::mm", MTP__CATEGORY_CPU_OP, &inner);
        add_span(t, main, at + 6000, at + 7000, "aten::t", MTP__CATEGORY_CPU_OP, NULL);
        add_span(t, main, at + 20000, at + 20500, "aten::sum", MTP__CATEGORY_CPU_OP, &other);
    }
    t = maker_finish(t);
    check_folded(t, "self_cpu_time_total",
                 "main.py:1:main;net.py:5:forward;aten::linear 500\n"
                 "main.py:1:main;net.py:5:forward;aten::linear;net.py:9:mm;aten::mm 400\n"
                 "main.py:1:main;net.py:5:forward;aten::linear;aten::t 100\n"
                 "main.py:1:main;net.py:7:loss;aten::sum 50\n");
    check_folded(t, "self_device_time_total", "");
    mtp_trace_destroy(t);
}

static void functions_ops_and_scopes_are_folded_as_they_nest(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(true);
    uint32_t main = add_thread(t, 517, 517, "main"), engine = add_thread(t, 517, 600, "engine");
    mtp__detail stack =
        STACK(t, "train.py(1): <module>", "nn.Module: Net_0"); /* said twice: once is enough */
    add_span(t, main, 0, 100000, "train.py(1): <module>", MTP__CATEGORY_PYTHON_FUNCTION, NULL);
    add_span(t, main, 1000, 90000, "nn.Module: Net_0", MTP__CATEGORY_PYTHON_FUNCTION, NULL);
    mtp__detail forward = stack, back = MTP__DETAIL_INIT;
    forward.sequence = back.sequence = 8;
    back.forward_thread = 1;
    add_span(t, main, 2000, 30000, "aten::linear", MTP__CATEGORY_CPU_OP, &forward);
    add_span(t, main, 3000, 20000, "hook.py(7): hook", MTP__CATEGORY_PYTHON_FUNCTION, NULL);
    add_span(t, main, 4000, 14000, "aten::mm", MTP__CATEGORY_CPU_OP, NULL);
    add_span(t, main, 40000, 50000, "loss", MTP__CATEGORY_USER_ANNOTATION, NULL);
    add_span(t, main, 41000, 44000, "aten::sum", MTP__CATEGORY_CPU_OP, NULL);
    mtp__trace_add_span(t, engine, 60000, 66000, text_of(t, "LinearBackward0"), MTP__CATEGORY_CPU_OP,
                        MTP__SPAN_BACKWARD, mtp__trace_add_detail(t, &back));
    add_span(t, engine, 61000, 63000, "aten::mm", MTP__CATEGORY_CPU_OP, NULL);
    t = maker_finish(t);
    check_folded(t, "self_cpu_time_total",
                 "train.py(1):_<module>;nn.Module:_Net_0;aten::linear 18\n"
                 "train.py(1):_<module>;nn.Module:_Net_0;aten::linear;hook.py(7):_hook;aten::mm 10\n"
                 "train.py(1):_<module>;nn.Module:_Net_0;loss 7\n"
                 "train.py(1):_<module>;nn.Module:_Net_0;LinearBackward0 4\n"
                 "train.py(1):_<module>;nn.Module:_Net_0;loss;aten::sum 3\n"
                 "train.py(1):_<module>;nn.Module:_Net_0;LinearBackward0;aten::mm 2\n");
    mtp_trace_destroy(t);
}

static void kernels_are_folded_below_the_op_that_launched_them(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main"), stream = add_stream(t, 0, 7);
    mtp__detail op = STACK(t, "a", "b"), work = MTP__DETAIL_INIT, launch = MTP__DETAIL_INIT;
    launch.correlation = work.correlation = 5;
    add_span(t, main, 0, 5000, "op", MTP__CATEGORY_CPU_OP, &op);
    add_span(t, main, 1000, 2000, "launch", MTP__CATEGORY_CUDA_RUNTIME, &launch);
    add_span(t, stream, 3000, 10500, "gemm", MTP__CATEGORY_KERNEL, &work);
    add_span(t, stream, 11000, 12000, "gemm", MTP__CATEGORY_KERNEL, &work);
    add_span(t, stream, 13000, 15000, "relu", MTP__CATEGORY_KERNEL, &work);
    t = maker_finish(t);
    check_folded(t, "self_npu_time_total", "a;b;op;gemm 8\na;b;op;relu 2\n");
    mtp_trace_destroy(t);
}

static void a_native_function_is_one_frame_wherever_it_calls(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    uint32_t main = add_thread(t, 517, 517, "main");
    mtp__detail a = STACK(t, "prog:+0x1f:main", "prog:+0x2a:run"),
                b = STACK(t, "prog:+0x3f:main", "prog:+0x2b:run"),
                c = STACK(t, "prog:+0x1f:main", "prog:+0x2a:?"),
                d = STACK(t, "prog:+0x3f:main", "lib:+0x2b:run");
    add_span(t, main, 0, 3000, "op", MTP__CATEGORY_CPU_OP, &a);
    add_span(t, main, 4000, 9000, "op", MTP__CATEGORY_CPU_OP, &b);
    add_span(t, main, 10000, 12000, "op", MTP__CATEGORY_CPU_OP, &c);
    add_span(t, main, 20000, 21000, "op", MTP__CATEGORY_CPU_OP, &d);
    t = maker_finish(t);
    check_folded(t, "self_cpu_time_total",
                 "prog:main;prog:run;op 8\nprog:main;prog:+0x2a:?;op 2\nprog:main;lib:run;op 1\n");
    mtp_trace_destroy(t);
}

static void ops_alone_are_no_stacks(void **state)
{
    (void)state;
    mtp_trace *t = maker_start(false);
    add_span(t, add_thread(t, 517, 517, "main"), 0, 5000, "op", MTP__CATEGORY_CPU_OP, NULL);
    t = maker_finish(t);
    check_folded(t, "self_cpu_time_total", "");
    mtp_trace_destroy(t);
}

/* ----------------------------------------------------------------------------------------------- the call */

static void an_unknown_metric_names_those_that_are(void **state)
{
    (void)state;
    mtp_trace *t = make_small(false);
    text out = {0};
    assert_int_equal(mtp_trace_stacks(t, "cpu_time", text_sink, &out), MTP_E_ARG);
    assert_says("metric should be one of: ['self_cpu_time_total', 'self_device_time_total'");
    assert_int_equal(mtp_trace_stacks(t, NULL, text_sink, &out), MTP_E_ARG);
    assert_int_equal(mtp_trace_stacks(NULL, "self_cpu_time_total", text_sink, &out), MTP_E_ARG);
    assert_int_equal(mtp_trace_stacks(t, "self_cpu_time_total", NULL, &out), MTP_E_ARG);
    mtp_trace_destroy(t);
}

static void no_failure_leaks(void **state)
{
    (void)state;
    mtp_trace *traces[] = {make_small(false), make_hostile(NULL), make_recorded()};
    for (size_t i = 0; i < COUNT(traces) * 2; i++) {
        mtp_status (*write)(const mtp_trace *, const char *, mtp_sink *, void *) =
            i % 2 != 0 ? mtp_trace_folded : mtp_trace_stacks;
        bool wrote = false;
        for (int nth = 1, fired = 1; fired > 0; nth++) {
            text out = {0};
            long live = mtp__alloc_live();
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, false);
            mtp_status status = write(traces[i / 2], "self_cpu_time_total", text_sink, &out);
            fired = mtp__fault_stop();
            assert_int_equal(status, fired > 0 ? MTP_E_NOMEM : MTP_OK);
            assert_int_equal(mtp__alloc_live(), live);
            wrote = out.length > 0;
            free(out.bytes);
        }
        text out = {.refuse_after = 1};
        assert_int_equal(write(traces[i / 2], "self_cpu_time_total", text_sink, &out),
                         wrote ? MTP_E_IO : MTP_OK);
    }
    for (size_t i = 0; i < COUNT(traces); i++)
        mtp_trace_destroy(traces[i]);
}

/* Every line of a recording has at least two frames, a space and a number. */
static void lines_of_a_recording_are_folded_stacks(void **state)
{
    (void)state;
    mtp_trace *t = make_recorded();
    text out = {0};
    size_t lines = 0;
    assert_ok(mtp_trace_stacks(t, "self_cpu_time_total", text_sink, &out));
    for (char *line = strtok(out.bytes, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++) {
        char *space = strrchr(line, ' '), *end;
        assert_non_null(space);
        assert_true(strchr(line, ' ') == space);
        assert_true(strtoull(space + 1, &end, 10) > 0 && *end == 0);
        assert_non_null(strchr(line, ';'));
    }
    assert_true(lines > 100);
    free(out.bytes);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_is_root_first_with_self_time),
        TEST(less_than_a_microsecond_counts_as_one_and_nothing_as_nothing),
        TEST(what_would_break_a_line_is_an_underscore),
        TEST(one_frame_gets_the_op_below_it),
        TEST(without_a_stack_the_python_functions_around_are_it),
        TEST(an_only_child_of_the_same_name_is_part_of_its_parent),
        TEST(backward_is_shown_where_forward_was_called),
        TEST(functions_of_python_are_events_as_in_torch),
        TEST(lines_are_in_the_order_of_events_whichever_thread_they_are_on),
        TEST(frames_and_events_that_torch_omits_are_omitted),
        TEST(device_time_is_that_of_kernels_and_of_the_ops_that_launched_them),
        TEST(a_stack_is_one_line_however_often_it_was_there),
        TEST(functions_ops_and_scopes_are_folded_as_they_nest),
        TEST(kernels_are_folded_below_the_op_that_launched_them),
        TEST(a_native_function_is_one_frame_wherever_it_calls),
        TEST(ops_alone_are_no_stacks),
        TEST(an_unknown_metric_names_those_that_are),
        TEST(no_failure_leaks),
        TEST(lines_of_a_recording_are_folded_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
