/* Unit: trace/facts: what a span is, whichever program wrote the trace. */
#include "trace/facts.h"
#include "tests/made_trace.h"

#define ENGINE MTP__ENGINE_PREFIX

/* The span with a name, and with a category if there are several. */
static uint32_t span_of(const mtp_trace *t, const char *name)
{
    uint32_t id = mtp__trace_find_text(t, name);
    for (uint32_t i = 0; i < t->span_count; i++)
        if (t->name[i] == id)
            return i;
    fail_msg("no span %s", name);
    return MTP__NONE;
}

static void a_backward_function_is_one_by_any_of_its_marks(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    uint32_t track = made_thread(t, 1);
    made_autograd(t, track, 0, 90, "aten::mm", 4, 0);
    /* Kineto: both the scope and the function refer to their forward op */
    made_autograd(t, track, 100, 190, ENGINE "MmBackward0", 4, 1);
    made_autograd(t, track, 110, 180, "MmBackward0", 4, 1);
    made_op(t, track, 120, 170, "aten::mul");
    /* without a forward op, only the enclosing scope tells, with or without Python functions in between */
    made_op(t, track, 200, 290, ENGINE "torch::autograd::AccumulateGrad");
    made_op(t, track, 210, 280, "torch::autograd::AccumulateGrad");
    made_op(t, track, 220, 230, "aten::add_");
    made_op(t, track, 300, 390, ENGINE "OwnBackward");
    made_span(t, track, 305, 385, "own.py(3): apply", MTP__CATEGORY_PYTHON_FUNCTION);
    made_op(t, track, 310, 380, "OwnBackward");
    /* our recording: by its kind */
    mtp__trace_add_span(t, track, 400, 490, made_text(t, "ReluBackward0"), MTP__CATEGORY_CPU_OP,
                        MTP__SPAN_BACKWARD, 0);
    /* names alone are nothing */
    made_op(t, track, 500, 590, "AddBackward0");
    made_scope(t, track, 600, 690, ENGINE "TanhBackward0");
    made_op(t, track, 610, 680, "TanhBackward0");
    assert_ok(mtp__trace_finish(t));
    static const char *const backward[] = {"MmBackward0", "torch::autograd::AccumulateGrad", "OwnBackward",
                                           "ReluBackward0"};
    static const char *const others[] = {"aten::mm",           "aten::mul",          "aten::add_",
                                         "AddBackward0",       "TanhBackward0",      "own.py(3): apply",
                                         ENGINE "MmBackward0", ENGINE "OwnBackward", ENGINE "TanhBackward0"};
    for (size_t i = 0; i < sizeof backward / sizeof *backward; i++)
        assert_true(mtp__is_backward(t, span_of(t, backward[i])));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(mtp__is_backward(t, span_of(t, others[i])));
    assert_true(mtp__is_engine_scope(t, span_of(t, ENGINE "MmBackward0")));
    assert_false(mtp__is_engine_scope(t, span_of(t, ENGINE "TanhBackward0")));
    assert_true(mtp__is_of_backward(t, span_of(t, ENGINE "MmBackward0")));
    assert_false(mtp__is_of_backward(t, span_of(t, "aten::mm")));
    mtp_trace_destroy(t);
}

/* All views of a trace agree on what ran backward. */
static void events_say_backward_of_functions_without_a_forward_op(void **state)
{
    (void)state;
    mtp_trace *t;
    mtp_events *events;
    assert_ok(mtp__trace_create(&t));
    uint32_t track = made_thread(t, 1);
    t->format = MTP_FORMAT_KINETO;
    made_op(t, track, 200, 290, ENGINE "torch::autograd::AccumulateGrad");
    made_op(t, track, 210, 280, "torch::autograd::AccumulateGrad");
    assert_ok(mtp__trace_finish(t));
    assert_ok(mtp_events_create(t, &events));
    mtp_event e = {.size = sizeof e};
    assert_ok(mtp_events_get(events, 0, &e));
    assert_int_equal(e.kind, MTP_EVENT_OP);
    assert_ok(mtp_events_get(events, 1, &e));
    assert_int_equal(e.kind, MTP_EVENT_BACKWARD);
    mtp_events_destroy(events);
    mtp_trace_destroy(t);
}

static void steps_and_modules_are_known_by_name_where_no_flag_says_so(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    uint32_t track = made_thread(t, 1), stream = made_stream(t, 0, 7);
    made_scope(t, track, 0, 90, "ProfilerStep#3");
    made_op(t, track, 100, 190, "ProfilerStep#op");
    made_span(t, stream, 0, 90, "ProfilerStep#4", MTP__CATEGORY_GPU_USER_ANNOTATION);
    made_span(t, track, 200, 290, "nn.Module: Linear_0", MTP__CATEGORY_PYTHON_FUNCTION);
    made_scope(t, track, 300, 390, "nn.Module: scope");
    assert_ok(mtp__trace_finish(t));
    assert_true(mtp__is_step(t, span_of(t, "ProfilerStep#3")) &&
                mtp__is_step(t, span_of(t, "ProfilerStep#4")));
    assert_false(mtp__is_step(t, span_of(t, "ProfilerStep#op")));
    assert_true(mtp__is_numbered_step_name((mtp_text){"ProfilerStep#3", 14}));
    assert_false(mtp__is_numbered_step_name((mtp_text){"ProfilerStep#op", 15}) ||
                 mtp__is_numbered_step_name((mtp_text){"ProfilerStep#", 13}));
    assert_true(mtp__is_module(t, span_of(t, "nn.Module: Linear_0")));
    assert_false(mtp__is_module(t, span_of(t, "nn.Module: scope")));
    assert_true(mtp__has_external_id(t, span_of(t, "ProfilerStep#3")) &&
                mtp__has_external_id(t, span_of(t, "ProfilerStep#op")));
    assert_false(mtp__has_external_id(t, span_of(t, "nn.Module: Linear_0")));
    mtp_trace_destroy(t);
}

static void what_was_recorded_is_told_by_flags_or_by_metadata(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool recorded;
    } row[] = {{"1", true}, {"true", true}, {"\"1\"", true}, {"0", false}, {"false", false}, {"null", false}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        mtp_trace *t;
        assert_ok(mtp__trace_create(&t));
        mtp__trace_add_meta(t, "with_flops", 10, row[i].json, strlen(row[i].json));
        assert_ok(mtp__trace_finish(t));
        assert_int_equal(mtp__was_recorded(t, MTP_WITH_FLOPS, "with_flops"), row[i].recorded);
        assert_false(mtp__was_recorded(t, MTP_WITH_STACK, "with_stack"));
        t->flags_recorded = MTP_WITH_STACK;
        assert_true(mtp__was_recorded(t, MTP_WITH_STACK, "with_stack"));
        mtp_trace_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_backward_function_is_one_by_any_of_its_marks),
        TEST(events_say_backward_of_functions_without_a_forward_op),
        TEST(steps_and_modules_are_known_by_name_where_no_flag_says_so),
        TEST(what_was_recorded_is_told_by_flags_or_by_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
