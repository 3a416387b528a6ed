/* Unit: analyze/torch: which events share a row; FLOPs. */
#include "tests/unit/averages_rows.h"

/* ------------------------------------------------------------------------------------------------
 * grouping */

static void by_shape_a_list_of_tensors_is_empty(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    op_with(t, k, 0, "aten::cat", shape(t, "[[[2, 3], [4, 3]], []]", NULL, NULL), 0);
    op_with(t, k, 2000, "aten::cat", shape(t, "[[[5, 3]], []]", NULL, NULL), 0);
    op_with(t, k, 4000, "aten::cat", shape(t, "[[2, 3], []]", NULL, NULL), 0);
    op_with(t, k, 6000, "aten::cat", 0, 0);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_input_shape = true;
    mtp_averages *a = rows_by(made_end(t), options);
    assert_int_equal(mtp_averages_count(a), 3);
    assert_string_equal(mtp_averages_row(a, 0)->input_shapes, "[[], []]");
    assert_int_equal(mtp_averages_row(a, 0)->count, 2);
    assert_string_equal(mtp_averages_row(a, 1)->input_shapes, "[[2, 3], []]");
    assert_string_equal(mtp_averages_row(a, 2)->input_shapes, "[]");
    mtp_averages_destroy(a);
    a = rows_of(t);
    assert_int_equal(mtp_averages_count(a), 1);
    assert_string_equal(mtp_averages_row(a, 0)->input_shapes, "");
    finish(a, t);
}

static void overloads_are_part_of_names_in_torchs_files(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    static const char *const name[] = {"aten::add.Tensor", "aten::add.out",    "aten::add",
                                       "Optimizer.step",   "a::b::c.d",        "aten::add.",
                                       "aten::.Tensor",    "aten::add.Ten sor"};
    for (unsigned i = 0; i < COUNT(name); i++)
        made_op(t, k, 1000 * i, 1000 * i + 500, name[i]);
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(mtp_averages_count(a), 6);
    assert_int_equal(op_row(a, "aten::add")->count, 3);
    assert_string_equal(op_row(a, "aten::add")->overload_name, "");
    mtp_averages_destroy(a);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_overload_name = true;
    a = rows_by(t, options);
    assert_int_equal(mtp_averages_count(a), 8);
    assert_string_equal(mtp_averages_row(a, 0)->key, "aten::add");
    assert_string_equal(mtp_averages_row(a, 0)->overload_name, "Tensor");
    assert_string_equal(mtp_averages_row(a, 3)->overload_name, "");
    finish(a, t);
}

static void by_stack_the_innermost_frames_tell_rows_apart(void **state)
{
    (void)state;
    static const char *const one[] = {"main.py(1): main", "torch/autograd/__init__.py(5): backward",
                                      "m.py(2): f"},
                             *const two[] = {"other.py(1): main", "m.py(2): f"};
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    op_with(t, k, 0, "op", 0, stack_of(t, one, 3));
    op_with(t, k, 2000, "op", 0, stack_of(t, two, 2));
    made_end(t);
    for (uint32_t n = 1; n < 4; n++) {
        mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
        options.by_stack = n;
        mtp_averages *a = rows_by(t, options);
        assert_int_equal(mtp_averages_count(a), n == 1 ? 1 : 2);
        const mtp_row *row = mtp_averages_row(a, 0);
        assert_int_equal(row->stack_depth, n == 1 ? 1 : 2); /* the machinery's frame is omitted */
        assert_string_equal(row->stack[0], "m.py(2): f");
        if (n > 1)
            assert_string_equal(row->stack[1], "main.py(1): main");
        mtp_averages_destroy(a);
    }
    mtp_trace_destroy(t);
}

static void backward_ops_have_the_stack_of_their_forward_op(void **state)
{
    (void)state;
    static const char *const forward[] = {"model.py(3): forward"}, *const engine[] = {"train.py(9): step"};
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), other = made_thread(t, 2);
    mtp__detail d = MTP__DETAIL_INIT;
    d.sequence = 5;
    d.stack = stack_of(t, forward, 1);
    span_with(t, k, 0, 1000, "aten::mm", MTP__CATEGORY_CPU_OP, d);
    d.stack = stack_of(t, engine, 1);
    d.forward_thread = 1;
    span_with(t, other, 2000, 6000, "autograd::engine::evaluate_function: MmBackward0", MTP__CATEGORY_CPU_OP,
              d);
    span_with(t, other, 3000, 5000, "MmBackward0", MTP__CATEGORY_CPU_OP, d);
    op_with(t, other, 3500, "aten::t", 0, d.stack);
    op_with(t, other, 7000, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 0,
            d.stack);
    mtp__detail none = MTP__DETAIL_INIT;
    none.stack = d.stack;
    span_with(t, other, 7100, 7200, "torch::autograd::AccumulateGrad", MTP__CATEGORY_CPU_OP, none);
    as_kineto(t, true);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_stack = 5;
    mtp_averages *a = rows_by(made_end(t), options);
    assert_string_equal(op_row(a, "aten::t")->stack[0], forward[0]);
    assert_string_equal(op_row(a, "MmBackward0")->stack[0], forward[0]);
    assert_string_equal(op_row(a, "autograd::engine::evaluate_function: MmBackward0")->stack[0], engine[0]);
    assert_int_equal(op_row(a, "torch::autograd::AccumulateGrad")->stack_depth, 0);
    finish(a, t);
}

/* PyTorch's traces have stacks only if verbose, but always Python functions. */
static void without_stacks_the_python_functions_around_may_be_them(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), other = made_thread(t, 2);
    made_span(t, k, 0, 9000, "main.py(1): <module>", MTP__CATEGORY_PYTHON_FUNCTION);
    made_span(t, k, 100, 4000, "torch/autograd/__init__.py(5): backward", MTP__CATEGORY_PYTHON_FUNCTION);
    made_span(t, k, 200, 3000, "m.py(2): f", MTP__CATEGORY_PYTHON_FUNCTION);
    made_autograd(t, k, 300, 2000, "aten::mm", 5, 0);
    made_op(t, k, 400, 500, "aten::t");
    made_op(t, k, 5000, 6000, "aten::t");
    made_autograd(t, other, 10000, 20000, "MmBackward0", 5, 1);
    made_op(t, other, 11000, 12000, "aten::mul");
    as_kineto(t, true);
    made_end(t);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_stack = 5;
    mtp_averages *a = rows_by(t, options);
    assert_int_equal(op_row(a, "aten::mm")->stack_depth, 0); /* as torch does */
    mtp_averages_destroy(a);
    options.python_stacks = true;
    a = rows_by(t, options);
    static const char *const ops[] = {"aten::mm", "MmBackward0", "aten::mul", "aten::t"};
    for (size_t i = 0; i < COUNT(ops); i++) {
        assert_int_equal(op_row(a, ops[i])->stack_depth, 2); /* the machinery's is omitted */
        assert_string_equal(op_row(a, ops[i])->stack[0], "m.py(2): f");
        assert_string_equal(op_row(a, ops[i])->stack[1], "main.py(1): <module>");
    }
    size_t rows = mtp_averages_count(a);
    assert_int_equal(mtp_averages_row(a, rows - 1)->stack_depth, 2);
    int told_apart = 0;
    for (size_t i = 0; i < rows; i++)
        told_apart += strcmp(mtp_averages_row(a, i)->key, "aten::t") == 0;
    assert_int_equal(told_apart, 2);
    mtp_averages_destroy(a);
    options.by_stack = 1;
    a = rows_by(t, options);
    assert_int_equal(op_row(a, "aten::mm")->stack_depth, 1);
    finish(a, t);
}

static void top_level_only_leaves_out_what_has_a_parent(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    made_op(t, k, 0, 9000, "a");
    made_op(t, k, 1000, 2000, "b");
    made_op(t, k, 10000, 12000, "b");
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.top_level_only = true;
    mtp_averages *a = rows_by(made_end(t), options);
    assert_int_equal(op_row(a, "b")->count, 1);
    assert_us(op_row(a, "b")->cpu_time_total, 2);
    assert_us(op_row(a, "a")->self_cpu_time_total, 8);
    finish(a, t);
}

/* ---------------------------------------------------------------------------------------------------
 * FLOPs */

static void coverage_is_the_share_of_op_time_with_known_flops(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), mm = shape(t, "[[4, 5], [5, 6]]", "[\"float\", \"float\"]", NULL);
    made_scope(t, k, 0, 9000, "not an op");
    op_with(t, k, 1000, "aten::mm", mm, 0);
    op_with(t, k, 3000, "aten::view", 0, 0);
    op_with(t, k, 5000, "my::op", mm, 0);
    op_with(t, k, 7000, "aten::mm", 0, 0);
    t->flags_recorded = MTP_WITH_FLOPS;
    mtp_averages *a = rows_of(made_end(t));
    assert_us(mtp_averages_flops_coverage(a), 0.5);
    assert_int_equal(op_row(a, "aten::mm")->flops, 240);
    mtp_averages_destroy(a);
    t->flags_recorded = 0; /* not requested: 0 in torch */
    a = rows_of(t);
    assert_int_equal(op_row(a, "aten::mm")->flops, 0);
    finish(a, t);
    t = made_begin();
    k = made_thread(t, 1);
    made_op(t, k, 0, 3000, "aten::view");
    made_op(t, k, 5000, 6000, "aten::mm");
    a = rows_of(made_end(t));
    assert_us(mtp_averages_flops_coverage(a), 0.75);
    finish(a, t);
}

static void flops_that_were_given_count_as_they_are(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    mtp__detail d = MTP__DETAIL_INIT;
    d.flops = 77;
    d.shape = shape(t, "[[1]]", NULL, NULL);
    span_with(t, k, 0, 10, "my::op", MTP__CATEGORY_CPU_OP, d);
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(op_row(a, "my::op")->flops, 77);
    assert_us(mtp_averages_flops_coverage(a), 1);
    finish(a, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(by_shape_a_list_of_tensors_is_empty),
        TEST(overloads_are_part_of_names_in_torchs_files),
        TEST(by_stack_the_innermost_frames_tell_rows_apart),
        TEST(backward_ops_have_the_stack_of_their_forward_op),
        TEST(without_stacks_the_python_functions_around_may_be_them),
        TEST(top_level_only_leaves_out_what_has_a_parent),
        TEST(coverage_is_the_share_of_op_time_with_known_flops),
        TEST(flops_that_were_given_count_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
