/* Unit: analyze/events*, trace/columns. The rules are torch's, by way of averages: what is summed up must agree. */
#define _GNU_SOURCE
#include "tests/made_trace.h"
#include "base/clock.h"
#include <dirent.h>
#include <pthread.h>
#include <zlib.h>
#include "trace/build.h"

static mtp_events *events_of(const mtp_trace *t)
{
    mtp_events *e;
    assert_ok(mtp_events_create(t, &e));
    return e;
}

static size_t count_of(mtp_events *e)
{
    size_t count;
    assert_ok(mtp_events_count(e, &count));
    return count;
}

static mtp_event at(mtp_events *e, size_t index)
{
    mtp_event out;
    out.size = sizeof out;
    assert_ok(mtp_events_get(e, index, &out));
    return out;
}

/* The first event of a name, from `from` on. */
static size_t find(mtp_events *e, const char *name, size_t from)
{
    for (size_t i = from; i < count_of(e); i++)
        if (strcmp(at(e, i).name.bytes, name) == 0)
            return i;
    fail_msg("no event %s", name);
    return 0;
}

static mtp_event named(mtp_events *e, const char *name)
{
    return at(e, find(e, name, 0));
}

static size_t child_of(mtp_events *e, size_t index)
{
    size_t out;
    assert_ok(mtp_events_child(e, index, &out));
    return out;
}

static size_t sibling_of(mtp_events *e, size_t index)
{
    size_t out;
    assert_ok(mtp_events_sibling(e, index, &out));
    return out;
}

static void assert_text(mtp_text text, const char *want)
{
    assert_int_equal(text.length, strlen(want));
    assert_string_equal(text.bytes, want);
}

static void assert_names(mtp_events *e, const char *want)
{
    char names[4096] = "";
    for (size_t i = 0; i < count_of(e); i++) {
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? " " : "", at(e, i).name.bytes);
    }
    assert_string_equal(names, want);
}

static void finish(mtp_events *e, mtp_trace *t)
{
    mtp_events_destroy(e);
    mtp_trace_destroy(t);
}

static uint32_t span_with(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name,
                          mtp__category category, mtp__detail d)
{
    return mtp__trace_add_span(t, track, start, end, made_text(t, name), category, 0,
                               mtp__trace_add_detail(t, &d));
}

/* -------------------------------------------------------------------------------------- sums and trees */

typedef struct sums {
    uint64_t count;
    double cpu, self_cpu, device, self_device;
    int64_t memory[4];
    uint64_t flops;
} sums;

static bool close_to(double a, double b, bool exact)
{
    double apart = a > b ? a - b : b - a, size = a < 0 ? -a : a;
    return exact ? a == b : apart <= 1e-9 * size + 1e-6;
}

/* What averages say, and what the events add up to, row by row; exact: to the last bit. */
static void assert_agrees(const mtp_trace *t, mtp_events *e, bool exact)
{
    mtp_averages *a;
    uint64_t total = 0;
    size_t count = count_of(e);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    for (size_t i = 0; i < count && !options.include_python_functions; i++) /* none of old files */
        options.include_python_functions =
            at(e, i).kind == MTP_EVENT_PYTHON || at(e, i).kind == MTP_EVENT_MODULE;
    assert_ok(mtp_averages_create(t, &options, &a));
    size_t rows = mtp_averages_count(a);
    sums *sum = calloc(rows + 1, sizeof *sum);
    for (size_t i = 0, row = 0; i < count; i++) {
        mtp_event v = at(e, i);
        size_t looked = 0;
        for (; looked < rows; looked++, row = (row + 1) % rows) {
            const mtp_row *r = mtp_averages_row(a, row);
            if (r->is_device == v.is_device && r->is_user_annotation == v.is_user_annotation &&
                r->key_length == v.key.length && memcmp(r->key, v.key.bytes, v.key.length) == 0)
                break;
        }
        if (looked == rows)
            fail_msg("event %zu, %s, has no row", i, v.key.bytes);
        sums *s = &sum[row];
        s->count++;
        s->cpu += v.cpu_time_total;
        s->self_cpu += v.self_cpu_time_total;
        s->device += v.device_time_total;
        s->self_device += v.self_device_time_total;
        s->memory[0] += v.cpu_memory_usage;
        s->memory[1] += v.self_cpu_memory_usage;
        s->memory[2] += v.device_memory_usage;
        s->memory[3] += v.self_device_memory_usage;
        s->flops += v.flops;
    }
    for (size_t i = 0; i < rows; i++) {
        const mtp_row *r = mtp_averages_row(a, i);
        const sums *s = &sum[i];
        total += r->count;
        if (s->count != r->count || !close_to(s->cpu, r->cpu_time_total, exact) ||
            !close_to(s->self_cpu, r->self_cpu_time_total, exact) ||
            !close_to(s->device, r->device_time_total, exact) ||
            !close_to(s->self_device, r->self_device_time_total, exact))
            fail_msg("%s: %llu %.6f %.6f %.6f %.6f, averages have %llu %.6f %.6f %.6f %.6f", r->key,
                     (unsigned long long)s->count, s->cpu, s->self_cpu, s->device, s->self_device,
                     (unsigned long long)r->count, r->cpu_time_total, r->self_cpu_time_total,
                     r->device_time_total, r->self_device_time_total);
        assert_true(s->memory[0] == r->cpu_memory_usage && s->memory[1] == r->self_cpu_memory_usage);
        assert_true(s->memory[2] == r->device_memory_usage && s->memory[3] == r->self_device_memory_usage);
        assert_true(s->flops == r->flops);
    }
    assert_int_equal(total, count);
    free(sum);
    mtp_averages_destroy(a);
}

/* In order; parents are around their children, on their thread; children are listed once each; self is what they leave;
 * kernels add up. */
static void assert_tree(mtp_events *e)
{
    size_t count = count_of(e), listed = 0, nested = 0;
    int64_t start = INT64_MIN, end = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        mtp_event v = at(e, i);
        assert_true(v.start_ns > start || (v.start_ns == start && v.end_ns <= end));
        start = v.start_ns;
        end = v.end_ns;
        double self = v.cpu_time_total, own = 0;
        size_t before = i, children = 0;
        for (size_t c = child_of(e, i); c != MTP_NO_EVENT; c = sibling_of(e, c), children++) {
            mtp_event w = at(e, c);
            assert_true(c > before);
            assert_int_equal(w.parent, i);
            assert_true(w.start_ns >= v.start_ns && w.end_ns <= v.end_ns && !w.is_device);
            assert_int_equal(w.thread, v.thread);
            self -= w.cpu_time_total;
            before = c;
        }
        if (children == 1)
            assert_string_not_equal(at(e, child_of(e, i)).key.bytes, v.key.bytes);
        listed += children;
        nested += v.parent != MTP_NO_EVENT;
        assert_true(close_to(self, v.self_cpu_time_total, false));
        for (uint32_t k = 0; k < v.kernel_count; k++) {
            mtp_event_kernel kernel;
            assert_ok(mtp_events_kernel(e, i, k, &kernel));
            own += kernel.duration;
            if (kernel.event == MTP_NO_EVENT) /* its name is filtered out */
                continue;
            mtp_event w = at(e, kernel.event);
            assert_true(w.is_device && w.device_time_total == kernel.duration);
            assert_string_equal(w.key.bytes, kernel.name.bytes);
        }
        if (!v.is_device)
            assert_true(close_to(own, v.self_device_time_total, false));
    }
    assert_int_equal(listed, nested);
}

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
    assert_int_equal(a.thread, 2); /* the other is main: its tid is the pid */
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
    t->from_kineto = true;
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

/* As our own recordings come: in the order of beginning, parents given. The clock stood still. */
static mtp_trace *held_trace(uint32_t pairs)
{
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    int64_t end = 10 * ((int64_t)pairs + 1);
    mtp__trace_add_span(t, MTP__NONE, 0, end, made_text(t, "outer"), MTP__CATEGORY_CPU_OP, 0, 0);
    for (int64_t i = 10; i < end; i += 10) {
        mtp__trace_add_span(t, 0, i, i, made_text(t, "short"), MTP__CATEGORY_CPU_OP, 0, 0);
        mtp__trace_add_span(t, 0, i, i + 10, made_text(t, "long"), MTP__CATEGORY_CPU_OP, 0, 0);
    }
    t->tracks[k].count = 1 + 2 * pairs;
    t->builder->vouched = true;
    t->last_ns = end;
    return made_end(t);
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
    mtp_event_kernel kernel;
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
    t->from_kineto = true;
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

/* ------------------------------------------------------------------------------------------- agreement */

/* The number behind `"events": ` of a gold file, or the sum of its rows' counts; -1: none. */
static int64_t gold_events(const char *path)
{
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return -1;
    size_t room = (size_t)64 << 20;
    char *text = calloc(1, room);
    int got = gzread(file, text, (unsigned)room - 1);
    gzclose(file);
    int64_t events = -1;
    char *told = got > 0 ? strstr(text, "\"events\":") : NULL;
    if (told != NULL) {
        events = strtoll(told + 9, NULL, 10);
    } else if (got > 0) {
        char *rows = strstr(text, "\"rows\":"), *end = rows != NULL ? strstr(rows, "\"rows_by_") : NULL;
        if (end != NULL)
            *end = 0;
        events = 0;
        for (char *p = rows; p != NULL && (p = strstr(p, "\"count\":")) != NULL; p += 8)
            events += strtoll(p + 8, NULL, 10);
    }
    free(text);
    return events;
}

static int golds;

static void check_gold(const char *folder, const char *name)
{
    char path[1024], gold[1024];
    mtp_trace *t;
    size_t length = strlen(name);
    if (length < 8 || strcmp(name + length - 8, ".json.gz") != 0 || strstr(name, ".gold.") != NULL)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(gold, sizeof gold, "%s/%.*s.gold.json.gz", folder, (int)(length - 8), name);
    int64_t want = gold_events(gold);
    assert_ok(mtp_trace_open(path, NULL, &t));
    mtp_events *e = events_of(t);
    print_message("# %s: %zu events, torch %lld\n", name, count_of(e), (long long)want);
    if (want >= 0)
        assert_int_equal(count_of(e), want);
    assert_agrees(t, e, true);
    assert_tree(e);
    golds += want >= 0;
    finish(e, t);
}

static void torchs_own_traces_have_torchs_events_and_sums(void **state)
{
    (void)state;
    static const char *const folder[] = {TEST_ROOT "/tests/golden/torch", TEST_ROOT "/../shared/data"};
    for (size_t i = 0; i < COUNT(folder); i++) {
        DIR *dir = opendir(folder[i]);
        for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;)
            check_gold(folder[i], d->d_name);
        if (dir != NULL)
            closedir(dir);
    }
    assert_true(golds >= 15);
}

/* Nested, overlapping and equal spans of few names, with memory, device work and failed allocations. */
static mtp_trace *random_trace(bool kineto)
{
    static const char *const name[] = {"a", "b", "ProfilerStep#1", "aten::add.out", "aten::is_leaf", "c"};
    static const mtp__category category[] = {MTP__CATEGORY_CPU_OP,          MTP__CATEGORY_CPU_OP,
                                             MTP__CATEGORY_USER_ANNOTATION, MTP__CATEGORY_CUDA_RUNTIME,
                                             MTP__CATEGORY_PYTHON_FUNCTION, MTP__CATEGORY_OVERHEAD};
    mtp_trace *t = made_begin();
    t->from_kineto = kineto;
    if (test_below(2) != 0)
        mtp__trace_add_meta(t, "host_name", 9, "\"x\"", 3);
    uint32_t track[4] = {made_thread(t, 100), made_thread(t, 7), made_stream(t, 0, 7), made_stream(t, 1, 8)};
    for (uint64_t i = test_below(60); i > 0; i--) {
        mtp__detail d = MTP__DETAIL_INIT;
        int64_t start = (int64_t)test_below(80), end = start + (int64_t)test_below(60);
        d.correlation = test_below(6);
        d.external_id = kineto ? test_below(6) : 0;
        if (test_below(4) > 0)
            span_with(t, track[test_below(2)], start, end, name[test_below(COUNT(name))],
                      category[test_below(COUNT(category))], d);
        else
            span_with(t, track[2 + test_below(2)], start, end, name[test_below(COUNT(name))],
                      (mtp__category)(MTP__CATEGORY_KERNEL + test_below(5)), d);
    }
    for (uint64_t i = test_below(10); i > 0; i--)
        made_memory_of(t, track[test_below(2)], (int64_t)test_below(150), 1, (int64_t)test_below(200) - 100,
                       -1, test_below(2) != 0 ? 1 : 0, 0);
    mtp__instant failed = {.ts = 40, .name = made_text(t, "[OutOfMemory]"), .scope = 't'};
    if (test_below(3) == 0)
        mtp__trace_add_instant(t, &failed);
    return made_end(t);
}

static void random_traces_agree_with_their_averages(void **state)
{
    (void)state;
    for (int i = 0; i < test_scaled(3000); i++) {
        bool kineto = i % 2 != 0;
        mtp_trace *t = random_trace(kineto);
        mtp_events *e = events_of(t);
        assert_agrees(t, e, kineto);
        assert_tree(e);
        finish(e, t);
    }
}

static void live_sessions_spools_and_files_have_the_same_events(void **state)
{
    (void)state;
    mtp_profile_config config = test_config(NULL);
    config.record_shapes = config.profile_memory = true;
    config.spool = test_path("events.mtp");
    mtp_profile *prof = test_start(&config);
    int64_t dims[] = {4, 6};
    mtp_input inputs[2] = {{.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims},
                           {.kind = MTP_INPUT_INT}};
    for (int i = 0; i < 3; i++) {
        MTP_SCOPE ("forward") {
            mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
            op.inputs = inputs;
            op.input_count = 2;
            op.allocated = 100;
            mtp_op_begin(&op);
            mtp_memory_event(MTP_DEVICE_CPU, &op, 64, 64, 64);
            op.allocated = 164;
            mtp_op_end(&op);
        }
        mtp_memory_event(MTP_DEVICE_CPU, &config, -64, 0, 64);
        if (i == 1) { /* while it records */
            mtp_trace *t;
            assert_ok(mtp_profile_trace(prof, &t));
            mtp_events *e = events_of(t);
            assert_int_equal(count_of(e), 6);
            assert_agrees(t, e, false);
            finish(e, t);
        }
        assert_ok(mtp_profile_step(prof));
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t[3];
    assert_ok(mtp_profile_trace(prof, &t[0]));
    assert_ok(mtp_trace_open(config.spool, NULL, &t[1]));
    assert_ok(mtp_trace_export(t[0], test_path("events.json"), NULL));
    assert_ok(mtp_trace_open(test_path("events.json"), NULL, &t[2]));
    for (int k = 0; k < 3; k++) {
        mtp_events *e = events_of(t[k]);
        assert_names(e, "forward aten::mm [memory] forward aten::mm [memory] forward aten::mm [memory]");
        for (size_t i = 0; i < 9; i++) {
            mtp_event v = at(e, i);
            if (v.kind != MTP_EVENT_MEMORY || k < 2) /* a file's own steps are told by its spans */
                assert_int_equal(v.step, i / 3);
            assert_int_equal(v.thread, 1);
            assert_true(v.start_ns >= 0);
            assert_int_equal(v.parent, i % 3 == 1 ? i - 1 : MTP_NO_EVENT);
        }
        mtp_event mm = at(e, 4);
        assert_text(mm.input_dims, "[[4, 6], []]");
        assert_int_equal(mm.allocated_before, 100);
        assert_int_equal(mm.allocated_after, 164);
        assert_int_equal(mm.cpu_memory_usage, 64);
        assert_int_equal(at(e, 5).cpu_memory_usage, -64);
        assert_agrees(t[k], e, false);
        assert_tree(e);
        finish(e, t[k]);
    }
    mtp_profile_destroy(prof);
}

static uint64_t coarse_now;
static uint64_t coarse_clock(void)
{
    return coarse_now;
}

static void memory_freed_in_the_tick_of_an_end_is_not_inside(void **state)
{
    (void)state;
    mtp_profile_config config = test_config(NULL);
    config.profile_memory = true;
    coarse_now = 1000;
    mtp__clock_hook_set(coarse_clock);
    mtp_profile *prof = test_start(&config);
    for (int i = 0; i < 2; i++) { /* with an op, and with a scope that the reader takes in a run */
        mtp_op op = MTP_OP_INIT(mtp_name("aten::mm"));
        mtp_token token = 0;
        coarse_now += 1000;
        if (i == 0)
            mtp_op_begin(&op);
        else
            token = mtp_scope_begin(mtp_name("scope"));
        mtp_memory_event(MTP_DEVICE_CPU, &op, 64, 64, 64); /* in the tick of a begin: inside */
        coarse_now += 1000;
        if (i == 0)
            mtp_op_end(&op);
        mtp_scope_end(token);
        mtp_memory_event(MTP_DEVICE_CPU, &op, -64, 0, 64);
    }
    coarse_now += 1000;
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_events *e = events_of(t);
    assert_names(e, "aten::mm [memory] scope [memory]");
    assert_int_equal(at(e, 0).cpu_memory_usage, 64);
    assert_int_equal(at(e, 2).cpu_memory_usage, 64);
    finish(e, t);
    mtp_profile_destroy(prof);
}

/* ------------------------------------------------------------------------------------------- columns */

static const mtp_column *column(const mtp_columns *c, const char *table, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->column[i].table, table) == 0 && strcmp(c->column[i].name, name) == 0)
            return &c->column[i];
    fail_msg("no column %s.%s", table, name);
    return NULL;
}

static int64_t value(const mtp_column *c, size_t row)
{
    const char *p = (const char *)c->data + row * c->stride;
    bool is_signed = c->type == 'i';
    assert_true(row < c->count);
    switch (c->bytes) {
    case 1:
        return *(const uint8_t *)p;
    case 2:
        return is_signed ? *(const int16_t *)p : *(const uint16_t *)p;
    case 4:
        return is_signed ? (int64_t) * (const int32_t *)p : (int64_t) * (const uint32_t *)p;
    default:
        return *(const int64_t *)p;
    }
}

static void columns_are_the_models_own_arrays(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 7), stream = made_stream(t, 0, 8);
    made_autograd(t, k, 5, 25, "b", 42, 0);
    made_op(t, k, 0, 30, "a");
    made_span(t, stream, 3, 4, "k", MTP__CATEGORY_KERNEL);
    made_memory_of(t, k, 11, 0xabc, -64, 128, 20, 3);
    made_end(t);
    mtp_columns c = {.size = sizeof c};
    assert_ok(mtp_trace_columns(t, &c));
    assert_true(c.count < MTP_COLUMNS_MOST);
    assert_ptr_equal(column(&c, "spans", "start")->data, t->start);
    assert_ptr_equal(column(&c, "spans", "parent")->data, t->parent);
    assert_int_equal(column(&c, "spans", "start")->count, 3);
    assert_int_equal(column(&c, "spans", "start")->type, 'i');
    assert_int_equal(column(&c, "spans", "category")->bytes, 1);
    assert_int_equal(value(column(&c, "spans", "end"), 1), 25);
    assert_int_equal(value(column(&c, "spans", "parent"), 1), 0);
    assert_int_equal(
        value(column(&c, "details", "sequence"), (size_t)value(column(&c, "spans", "detail"), 1)), 42);
    assert_int_equal(value(column(&c, "tracks", "first"), 1), 2);
    assert_int_equal(value(column(&c, "tracks", "on_device"), 1), 1);
    assert_int_equal(value(column(&c, "tracks", "tid"), 1), 8);
    assert_int_equal(value(column(&c, "memory", "address"), 0), 0xabc);
    assert_int_equal(value(column(&c, "memory", "bytes"), 0), -64);
    assert_int_equal(value(column(&c, "memory", "total_allocated"), 0), 128);
    assert_int_equal(value(column(&c, "memory", "device_type"), 0), 20);
    assert_int_equal(value(column(&c, "memory", "device_index"), 0), 3);
    assert_int_equal(column(&c, "steps", "start")->count, 0);
    assert_null(column(&c, "steps", "start")->data);
    assert_int_equal(column(&c, "instants", "value")->type, 'f');
    for (size_t i = 0; i < c.count; i++)
        assert_true((c.column[i].data != NULL) == (c.column[i].count > 0) &&
                    c.column[i].stride >= c.column[i].bytes);
    size_t length;
    assert_string_equal(mtp_trace_name(t, (uint32_t)value(column(&c, "spans", "name"), 1), &length), "b");
    assert_int_equal(length, 1);
    assert_string_equal(mtp_trace_name(t, 0, NULL), "");
    assert_string_equal(mtp_trace_name(t, UINT32_MAX, &length), "");
    assert_string_equal(mtp_trace_name(t, (uint32_t)mtp_trace_name_count(t), &length), "");
    assert_string_equal(mtp_trace_name(NULL, 1, &length), "");
    assert_string_equal(mtp_category_text((uint32_t)value(column(&c, "spans", "category"), 2)), "kernel");
    assert_string_equal(mtp_category_text(200), "");
    mtp_trace_destroy(t);
    t = made_end(made_begin());
    assert_ok(mtp_trace_columns(t, &c));
    assert_int_equal(column(&c, "spans", "start")->count, 0);
    assert_int_equal(column(&c, "spans", "detail")->count, 0);
    mtp_trace_destroy(t);
}

/* -------------------------------------------------------------------------------- what is wrong or large */

static void what_is_not_right_is_refused(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    made_op(t, made_thread(t, 1), 0, 1, "a");
    made_end(t);
    mtp_events *e = (mtp_events *)(uintptr_t)8;
    assert_int_equal(mtp_events_create(NULL, &e), MTP_E_ARG);
    assert_int_equal(mtp_events_create(t, NULL), MTP_E_ARG);
    mtp_events_destroy(NULL);
    e = events_of(t);
    mtp_event v = {.size = sizeof v};
    size_t n, m;
    mtp_event_kernel kernel;
    assert_int_equal(mtp_events_get(e, 1, &v), MTP_E_ARG);
    assert_says("there is no event 1");
    assert_int_equal(mtp_events_get(e, SIZE_MAX, &v), MTP_E_ARG);
    assert_int_equal(mtp_events_get(e, (size_t)1 << 32, &v), MTP_E_ARG);
    assert_int_equal(mtp_events_get(e, 0, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_get(NULL, 0, &v), MTP_E_ARG);
    v.size = 8;
    assert_int_equal(mtp_events_get(e, 0, &v), MTP_E_ABI);
    v.size = sizeof v + 64; /* a later caller */
    assert_ok(mtp_events_get(e, 0, &v));
    assert_int_equal(v.size, sizeof v + 64);
    assert_int_equal(mtp_events_count(e, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_count(NULL, &n), MTP_E_ARG);
    assert_int_equal(mtp_events_child(e, 1, &n), MTP_E_ARG);
    assert_int_equal(mtp_events_sibling(e, 0, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_kernel(e, 0, 0, &kernel), MTP_E_ARG);
    assert_int_equal(mtp_events_kernel(e, 0, 0, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_stack(e, 0, NULL, 1, &n), MTP_E_ARG);
    assert_int_equal(mtp_events_stack(e, 0, NULL, 0, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_stack(e, 9, NULL, 0, &n), MTP_E_ARG);
    assert_int_equal(mtp_events_inputs(e, 0, (mtp_input_lists)9, NULL, 0, &n, NULL, 0, &m), MTP_E_ARG);
    assert_int_equal(mtp_events_inputs(e, 0, MTP_INPUT_DIMS, NULL, 1, &n, NULL, 0, &m), MTP_E_ARG);
    assert_int_equal(mtp_events_zero_ns(NULL), 0);
    mtp_columns c = {.size = 8};
    assert_int_equal(mtp_trace_columns(t, &c), MTP_E_ABI);
    assert_int_equal(mtp_trace_columns(NULL, &c), MTP_E_ARG);
    assert_int_equal(mtp_trace_columns(t, NULL), MTP_E_ARG);
    finish(e, t);
}

static void times_of_any_size_and_empty_traces_do_no_harm(void **state)
{
    (void)state;
    for (int kineto = 0; kineto < 2; kineto++) {
        mtp_trace *t = made_begin();
        t->from_kineto = kineto != 0;
        uint32_t k = made_thread(t, INT64_MIN), device = made_stream(t, INT64_MAX, INT64_MIN);
        made_thread(t, INT64_MAX); /* empty */
        made_op(t, k, INT64_MIN, INT64_MAX, "all");
        made_op(t, k, INT64_MIN + 1, -5, "a");
        made_op(t, k, -4, INT64_MAX, "b");
        made_span(t, device, INT64_MIN, INT64_MAX, "k", MTP__CATEGORY_GPU_USER_ANNOTATION);
        made_memory(t, MTP__NONE, INT64_MAX, 1, INT64_MIN);
        made_memory(t, 77, INT64_MIN, 1, INT64_MAX);
        mtp__detail d = MTP__DETAIL_INIT;
        d.forward_thread = UINT64_MAX;
        d.sequence = INT64_MAX;
        span_with(t, k, INT64_MAX, INT64_MAX, "end", MTP__CATEGORY_CPU_OP, d);
        mtp_events *e = events_of(made_end(t));
        assert_int_equal(count_of(e), 6); /* the last instant of all is covered by nothing */
        for (size_t i = 0; i < 6; i++) {
            at(e, i);
            child_of(e, i);
        }
        finish(e, t);
        t = made_begin();
        t->from_kineto = kineto != 0;
        made_thread(t, 1);
        e = events_of(made_end(t));
        assert_int_equal(count_of(e), 0);
        finish(e, t);
        t = made_begin(); /* nothing but memory */
        made_memory(t, made_thread(t, 5), 7, 1, 8);
        e = events_of(made_end(t));
        assert_names(e, "[memory]");
        assert_int_equal(at(e, 0).thread, 1);
        finish(e, t);
    }
}

static void deep_nesting_and_many_threads_stay_linear(void **state)
{
    (void)state;
    const int64_t many = 200000;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    for (int64_t i = 0; i < many; i++)
        made_op(t, k, i, 2 * many - i, i % 2 != 0 ? "a" : "b");
    for (int64_t i = 0; i < 5000; i++)
        made_op(t, made_thread(t, 2 + i), i, i + 10, "c");
    mtp_events *e = events_of(made_end(t));
    double began = test_now();
    assert_int_equal(count_of(e), many + 5000);
    size_t deepest = find(e, "a", 0), depth = 0;
    for (size_t next; (next = child_of(e, deepest)) != MTP_NO_EVENT; depth++)
        deepest = next;
    assert_int_equal(depth, many - 2);
    assert_true(test_now() - began < 20);
    finish(e, t);
}

/* -------------------------------------------------------------------------------------- at the same time */

typedef struct reader {
    mtp_events *e;
    pthread_barrier_t *start;
    double sum;
    int wrong;
} reader;

static void *read_all(void *arg)
{
    reader *r = arg;
    size_t count, child, depth;
    pthread_barrier_wait(r->start);
    r->wrong += mtp_events_count(r->e, &count) != MTP_OK;
    for (size_t i = 0; i < count && r->wrong == 0; i++) {
        mtp_event v;
        v.size = sizeof v;
        r->wrong += mtp_events_get(r->e, i, &v) != MTP_OK;
        r->wrong += mtp_events_child(r->e, i, &child) != MTP_OK;
        r->wrong += mtp_events_stack(r->e, i, NULL, 0, &depth) != MTP_OK;
        r->sum += v.self_cpu_time_total + (double)v.key.length + (child != MTP_NO_EVENT ? 1 : 0);
    }
    return NULL;
}

static void many_threads_may_ask_first(void **state)
{
    (void)state;
    for (int round = 0; round < test_scaled(20); round++) {
        mtp_trace *t = random_trace(round % 2 != 0);
        pthread_barrier_t start;
        pthread_t thread[4];
        reader r[4];
        mtp_events *e = events_of(t);
        pthread_barrier_init(&start, NULL, COUNT(r));
        for (size_t i = 0; i < COUNT(r); i++) {
            r[i] = (reader){.e = e, .start = &start};
            assert_int_equal(pthread_create(&thread[i], NULL, read_all, &r[i]), 0);
        }
        for (size_t i = 0; i < COUNT(r); i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(r[i].wrong, 0);
            assert_true(r[i].sum == r[0].sum);
        }
        pthread_barrier_destroy(&start);
        finish(e, t);
    }
}

/* ------------------------------------------------------------------------------------ nothing is left */

static mtp_trace *rich_trace(bool kineto)
{
    mtp_trace *t = made_begin();
    t->from_kineto = kineto;
    uint32_t k = made_thread(t, 100), other = made_thread(t, 7), stream = made_stream(t, 0, 7);
    uint32_t stack = mtp__trace_add_stack(t, 0, made_text(t, "main.py:1:main"));
    mtp__detail d = MTP__DETAIL_INIT;
    d.correlation = 5;
    d.external_id = 9;
    d.stack = stack;
    made_scope(t, k, 0, 500, "ProfilerStep#1");
    span_with(t, k, 10, 400, "op", MTP__CATEGORY_CPU_OP, d);
    span_with(t, stream, 50, 90, "kernel", MTP__CATEGORY_KERNEL, d);
    d = (mtp__detail)MTP__DETAIL_INIT;
    span_with(t, other, 600, 700, "overhead", MTP__CATEGORY_OVERHEAD, d);
    made_memory(t, k, 800, 1, 10);
    mtp__instant failed = {.ts = 40, .name = made_text(t, "[OutOfMemory]"), .scope = 't'};
    mtp__trace_add_instant(t, &failed);
    return made_end(t);
}

/* Everything that is made on demand. */
static mtp_status ask(mtp_events *e)
{
    size_t count, child, depth;
    mtp_event v;
    v.size = sizeof v;
    mtp_status status = mtp_events_count(e, &count);
    if (status == MTP_OK)
        status = mtp_events_get(e, 0, &v);
    if (status == MTP_OK)
        status = mtp_events_child(e, 0, &child);
    return status == MTP_OK ? mtp_events_stack(e, 0, NULL, 0, &depth) : status;
}

static void no_allocation_that_fails_is_forgotten(void **state)
{
    (void)state;
    for (int kineto = 0; kineto < 3; kineto++) {
        mtp_trace *t = kineto < 2 ? rich_trace(kineto != 0) : held_trace(100);
        long before = mtp__alloc_live();
        bool done = false;
        int nth = 1;
        for (; !done; nth++) {
            mtp_events *e;
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, nth % 2 != 0);
            mtp_status status = mtp_events_create(t, &e);
            if (status == MTP_OK)
                status = ask(e);
            done = mtp__fault_stop() == 0;
            assert_int_equal(status, done ? MTP_OK : MTP_E_NOMEM);
            if (e != NULL && !done) { /* there is memory again */
                assert_ok(ask(e));
                assert_agrees(t, e, kineto == 1);
                assert_tree(e);
            }
            mtp_events_destroy(e);
            assert_int_equal(mtp__alloc_live(), before);
        }
        assert_true(nth > 12);
        mtp_trace_destroy(t);
    }
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
        TEST(torchs_own_traces_have_torchs_events_and_sums),
        TEST(random_traces_agree_with_their_averages),
        TEST(live_sessions_spools_and_files_have_the_same_events),
        TEST(memory_freed_in_the_tick_of_an_end_is_not_inside),
        TEST(columns_are_the_models_own_arrays),
        TEST(what_is_not_right_is_refused),
        TEST(times_of_any_size_and_empty_traces_do_no_harm),
        TEST(deep_nesting_and_many_threads_stay_linear),
        TEST(many_threads_may_ask_first),
        TEST(no_allocation_that_fails_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
