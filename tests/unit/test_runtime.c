/* Unit: runtime: tensors, memory, calls, scopes, interception, autograd, optimizers. */
#include "small_tensors.h"

/* -------------------------------------------------------------------------------------------- tensors,
 * memory */

static void a_tensor_knows_its_shape(void **state)
{
    (void)state;
    mt_tensor *t;
    assert_mt_ok(mt_tensor_create(MT_FLOAT64, MT_CPU, 3, (const int64_t[]){2, 3, 4}, &t));
    assert_int_equal(mt_rank(t), 3);
    assert_int_equal(mt_numel(t), 24);
    assert_int_equal(mt_strides(t)[0], 12);
    assert_true(mt_is_contiguous(t));
    assert_int_equal((uintptr_t)mt_data(t) % 64, 0);
    mt_release(t);
}

static void impossible_shapes_are_refused(void **state)
{
    (void)state;
    mt_tensor *t;
    assert_int_equal(mt_tensor_create(MT_FLOAT32, MT_CPU, 1, (const int64_t[]){-1}, &t), MT_E_RUNTIME);
    assert_null(t);
    assert_non_null(strstr(mt_last_error(), "negative dimension -1"));
    assert_int_equal(
        mt_tensor_create(MT_FLOAT32, MT_CPU, 9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, &t),
        MT_E_RUNTIME);
    assert_int_equal(mt_tensor_create(MT_FLOAT32, MT_CPU, 2, (const int64_t[]){INT64_MAX, 8}, &t),
                     MT_E_RUNTIME);
    assert_int_equal(mt_tensor_create(MT_FLOAT32, MT_CPU, 1, (const int64_t[]){(int64_t)1 << 50}, &t),
                     MT_E_NOMEM);
    assert_int_equal(mt_tensor_create((mt_dtype)77, MT_CPU, 1, (const int64_t[]){1}, &t), MT_E_VALUE);
    assert_int_equal(mt_tensor_create(MT_FLOAT32, MT_NPU(3), 1, (const int64_t[]){1}, &t), MT_E_RUNTIME);
}

static void memory_is_counted_and_comes_back(void **state)
{
    (void)state;
    uint64_t before = allocated();
    mt_tensor *small = vector(3, 0), *large;
    assert_mt_ok(mt_tensor_create(MT_FLOAT32, MT_CPU, 1, (const int64_t[]){1 << 20}, &large));
    assert_int_equal(allocated(), before + 12 + (4 << 20));
    mt_release(small);
    mt_release(large);
    assert_int_equal(allocated(), before);
    mt_memory_stats stats = {.size = sizeof stats};
    assert_mt_ok(mt_memory(MT_CPU, &stats));
    assert_true(stats.peak_allocated >= before + (4 << 20));
    mt_memory_empty_cache(MT_CPU);
    uint64_t held = stats.reserved;
    assert_mt_ok(mt_memory(MT_CPU, &stats));
    assert_true(stats.reserved + (4 << 20) <= held);
}

static void narrow_elements_are_read_and_written_as_numbers(void **state)
{
    (void)state;
    static const struct {
        mt_dtype dtype;
        double in, out;
        uint16_t bits;
    } cases[] = {{MT_FLOAT16, 65519, 65504, 0x7bff},
                 {MT_FLOAT16, 0x1p-24, 0x1p-24, 1},
                 {MT_BFLOAT16, 0.1, 0x1.9ap-4, 0x3dcd},
                 {MT_UINT8, 300, 44, 44},
                 {MT_INT8, 200, -56, 0xc8},
                 {MT_INT16, -3.9, -3, 0xfffd}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t bits = 0;
        mt_element_set(&bits, cases[i].dtype, mt_value_float(cases[i].in));
        assert_int_equal(bits, cases[i].bits);
        mt_value v = mt_element(&bits, cases[i].dtype);
        assert_true((v.kind == MT_FLOAT ? v.as.f : (double)v.as.i) == cases[i].out);
    }
    assert_int_equal(mt_promote_types(MT_UINT8, MT_INT8), MT_INT16);
    assert_int_equal(mt_promote_types(MT_FLOAT16, MT_BFLOAT16), MT_FLOAT32);
    assert_int_equal(mt_promote_types(MT_INT64, MT_FLOAT16), MT_FLOAT16);
    MT_SCOPE
    {
        mt_tensor *x = MT(full, MT_SHAPE(3), 1.5, (int64_t)MT_BFLOAT16);
        double sum;
        assert_mt_ok(mt_item(MT(sum, MT(mul, x, x)), &sum));
        assert_true(sum == 6.75);
    }
}

static void borrowed_memory_is_given_back_once(void **state)
{
    (void)state;
    float data[4] = {1, 2, 3, 4};
    int drops = 0;
    mt_tensor *t;
    assert_mt_ok(mt_tensor_borrow(data, MT_FLOAT32, 1, (const int64_t[]){4}, NULL, count_drop, &drops, &t));
    MT_SCOPE
    {
        mt_tensor *view = mt_retain(MT(view, t, MT_SHAPE(2, 2)));
        assert_ptr_equal(mt_data(view), data);
        mt_release(t);
        assert_int_equal(drops, 0);
        mt_release(view);
    }
    assert_int_equal(drops, 1);
}

/* ---------------------------------------------------------------------------------------------- calls,
 * scopes */

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    mt_tensor *x = vector(3, 0), *out;
    mt_value text[] = {mt_value_tensor(x), mt_value_text("y")}, none[] = {mt_value_none(NULL)};
    assert_int_equal(mt_call(MT_OP_add, text, 2, &out), MT_E_TYPE);
    assert_non_null(strstr(mt_last_error(), "'other' (position 2)"));
    assert_int_equal(mt_call(MT_OP_add, text, 1, &out), MT_E_TYPE);
    assert_non_null(strstr(mt_last_error(), "is missing its argument 'other'"));
    assert_int_equal(mt_call(MT_OP_relu, none, 1, &out), MT_E_TYPE);
    assert_int_equal(mt_call(MT_OP_relu, text, 2, &out), MT_E_TYPE);
    assert_int_equal(mt_call((mt_op_id)60000, text, 1, &out), MT_E_VALUE);
    mt_release(x);
}

static void shapes_that_do_not_fit_say_both(void **state)
{
    (void)state;
    mt_tensor *x = vector(3, 0), *y = vector(4, 0);
    MT_SCOPE
    {
        assert_null(MT(add, x, y));
        assert_int_equal(mt_scope_status(), MT_E_RUNTIME);
        assert_string_equal(
            mt_last_error(),
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0");
    }
    mt_release(x);
    mt_release(y);
}

static void after_a_failure_a_scope_does_nothing(void **state)
{
    (void)state;
    mt_tensor *x = vector(3, 0), *y = vector(4, 0);
    uint64_t before = allocated();
    MT_SCOPE
    {
        mt_tensor *sum = MT(sum, MT(mul, MT(add, x, y), x));
        assert_null(sum);
        assert_null(MT(relu, x));
        assert_int_equal(mt_backward(sum), MT_E_RUNTIME);
        assert_non_null(strstr(mt_last_error(), "must match"));
    }
    assert_int_equal(mt_scope_status(), MT_OK);
    assert_int_equal(allocated(), before);
    mt_release(x);
    mt_release(y);
}

static int leaves_early(mt_tensor *x)
{
    MT_SCOPE
    {
        MT(add, x, 1);
        MT_SCOPE
        {
            MT(add, x, 2);
            break;
        }
        MT(add, x, 3);
        return 1;
    }
    return 0;
}

static void a_scope_ends_however_it_is_left(void **state)
{
    (void)state;
    mt_tensor *x = vector(3, 0);
    uint64_t before = allocated();
    assert_int_equal(leaves_early(x), 1);
    assert_int_equal(allocated(), before);
    MT_SCOPE
    {
        for (int i = 0; i < 1000; i++) /* more than its own room */
            assert_non_null(MT(add, x, i));
    }
    assert_int_equal(allocated(), before);
    mt_release(x);
}

static void every_schema_is_found_by_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < mt_op_count(); i++) {
        mt_op_id op;
        assert_true(mt_op_find(mt_op_id_text((mt_op_id)i), &op));
        assert_int_equal(op, i);
        assert_true(mt_op_find(mt_op_name((mt_op_id)i), &op));
        assert_true(mt_op_has_kernel((mt_op_id)i, 0));
    }
    mt_op_id op;
    assert_false(mt_op_find("aten::no_such", &op));
}

static void recorded_schemas_have_pytorchs_arguments(void **state)
{
    (void)state;
    char text[256], few[12];
    const char *clone = "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor";
    assert_int_equal(mt_op_recorded_schema(MT_OP_clone, text, sizeof text), strlen(clone));
    assert_string_equal(text, clone);
    assert_int_equal(mt_op_recorded_schema(MT_OP_clone, few, sizeof few), strlen(clone));
    assert_string_equal(few, "clone(Tenso");
    mt_op_recorded_schema(MT_OP_empty, text, sizeof text);
    assert_string_equal(text,
                        "empty.memory_format(int[...] size, *, ScalarType? dtype=None, Layout? layout=None, "
                        "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> "
                        "Tensor");
    mt_op_recorded_schema(MT_OP_mm, text, sizeof text);
    assert_string_equal(text, mt_op_schema(MT_OP_mm));
    assert_int_equal(mt_op_recorded_schema((mt_op_id)mt_op_count(), text, sizeof text), 0);
}

/* ---------------------------------------------------------------------------------------------
 * interception */

typedef struct watcher {
    unsigned calls, wrong;
    bool fail;
    mt_op_id last;
} watcher;

/* Computes the op, doubles its result. */
static mt_status doubled(void *user, mt_op_id op, const mt_value *args, unsigned count, mt_tensor ***outs,
                         unsigned *out_count)
{
    watcher *w = user;
    w->calls++;
    w->last = op;
    if (w->fail)
        return MT_E_CALLBACK;
    *outs = calloc(2, sizeof **outs);
    *out_count = 1 + w->wrong;
    mt_tensor *once = NULL;
    mt_status status = mt_call(op, args, count, &once); /* which is not intercepted */
    mt_value two[] = {mt_value_tensor(once), mt_value_int(2)};
    if (status == MT_OK)
        status = mt_call(MT_OP_mul, two, 2, &(*outs)[0]);
    mt_release(once);
    return status;
}

static void an_interceptor_computes_and_autograd_follows_the_op(void **state)
{
    (void)state;
    watcher w = {0};
    MT_SCOPE
    {
        mt_tensor *x = MT(full, MT_SHAPE(2), 3.0), *before = MT(full, MT_SHAPE(2), 5.0), *y;
        mt_set_requires_grad(x, true);
        mt_interceptor none = mt_intercept((mt_interceptor){.fn = doubled, .user = &w});
        assert_null(none.fn);
        y = MT(mul, x, before);
        assert_int_equal(w.calls, 1);
        assert_int_equal(w.last, MT_OP_mul);
        mt_intercept(none);
        assert_int_equal(mt_scope_status(), MT_OK);
        assert_float_equal(((const float *)mt_data(y))[1], 30, 0);
        assert_string_equal(mt_node_name(mt_grad_fn(y)), "MulBackward0");
        assert_int_equal(mt_backward(MT(sum, y)), MT_OK);
        assert_float_equal(((const float *)mt_data(mt_grad(x)))[0], 5, 0);
    }
}

static void an_interceptor_that_fails_fails_the_op(void **state)
{
    (void)state;
    watcher w = {.fail = true};
    mt_tensor *x = NULL, *y = NULL;
    MT_SCOPE
    {
        x = mt_retain(MT(ones, MT_SHAPE(2)));
    }
    mt_value args[] = {mt_value_tensor(x)};
    mt_interceptor none = mt_intercept((mt_interceptor){.fn = doubled, .user = &w});
    assert_int_equal(mt_call(MT_OP_exp, args, 1, &y), MT_E_CALLBACK);
    assert_null(y);
    w = (watcher){.wrong = 1};
    assert_int_equal(mt_call(MT_OP_exp, args, 1, &y), MT_E_RUNTIME);
    assert_null(y);
    assert_non_null(strstr(mt_last_error(), "aten::exp has 1 results"));
    mt_intercept(none);
    mt_release(x);
}

/* -------------------------------------------------------------------------------------------------
 * autograd */

static void gradients_flow_to_leaves(void **state)
{
    (void)state;
    mt_tensor *x = vector(3, 1), *w = vector(3, 4);
    assert_mt_ok(mt_set_requires_grad(w, true));
    MT_SCOPE
    {
        mt_tensor *loss = MT(sum, MT(mul, MT(add, x, 1), w));
        assert_string_equal(mt_node_name(mt_grad_fn(loss)), "SumBackward0");
        assert_mt_ok(mt_backward(loss));
    }
    assert_non_null(mt_grad(w));
    assert_null(mt_grad(x));
    for (int i = 0; i < 3; i++)
        assert_true(((float *)mt_data(mt_grad(w)))[i] == (float)(i + 2));
    mt_release(x);
    mt_release(w);
}

static void a_graph_is_walked_once_unless_kept(void **state)
{
    (void)state;
    mt_tensor *w = vector(3, 1), *loss = NULL;
    mt_backward_options keep = {.size = sizeof keep, .retain_graph = true};
    assert_mt_ok(mt_set_requires_grad(w, true));
    MT_SCOPE loss = mt_retain(MT(sum, MT(mul, w, w)));
    assert_mt_ok(mt_backward_from(&loss, NULL, 1, &keep, NULL));
    assert_mt_ok(mt_backward(loss));
    assert_true(((float *)mt_data(mt_grad(w)))[2] == 12);
    assert_int_equal(mt_backward(loss), MT_E_RUNTIME);
    assert_non_null(strstr(mt_last_error(), "second time"));
    mt_release(loss);
    mt_release(w);
}

static void gradients_of_given_inputs_touch_no_leaf(void **state)
{
    (void)state;
    mt_tensor *w = vector(3, 1), *v = vector(3, 5), *out[2];
    assert_mt_ok(mt_set_requires_grad(w, true));
    assert_mt_ok(mt_set_requires_grad(v, true));
    MT_SCOPE
    {
        mt_tensor *middle = MT(mul, w, 3), *loss = MT(sum, MT(mul, middle, middle));
        mt_tensor *inputs[] = {middle, v};
        mt_backward_options options = {
            .size = sizeof options, .retain_graph = true, .inputs = inputs, .input_count = 2};
        assert_int_equal(mt_backward_from(&loss, NULL, 1, &options, out), MT_E_RUNTIME);
        assert_non_null(strstr(mt_last_error(), "allow_unused"));
        options.allow_unused = true;
        assert_mt_ok(mt_backward_from(&loss, NULL, 1, &options, out));
        assert_true(((float *)mt_data(out[0]))[1] == 12);
        assert_null(out[1]);
        mt_release(out[0]);
    }
    assert_null(mt_grad(w));
    mt_release(w);
    mt_release(v);
}

static void second_derivatives_are_there(void **state)
{
    (void)state;
    mt_tensor *x = vector(1, 3), *first, *second;
    assert_mt_ok(mt_set_requires_grad(x, true));
    MT_SCOPE
    {
        mt_tensor *y = MT(sum, MT(mul, MT(mul, x, x), x));
        mt_backward_options options = {.size = sizeof options,
                                       .create_graph = true,
                                       .retain_graph = true,
                                       .inputs = &x,
                                       .input_count = 1};
        assert_mt_ok(mt_backward_from(&y, NULL, 1, &options, &first));
        assert_true(item(first) == 27);
        assert_mt_ok(mt_backward_from(&first, NULL, 1, &options, &second));
        assert_true(item(second) == 18);
        mt_release(first);
        mt_release(second);
    }
    mt_release(x);
}

static void a_change_in_place_is_noticed(void **state)
{
    (void)state;
    mt_tensor *w = vector(3, 1);
    assert_mt_ok(mt_set_requires_grad(w, true));
    MT_SCOPE
    {
        mt_tensor *h = MT(exp, w), *loss = MT(sum, h);
        MT(add_, h, 1);
        assert_int_equal(mt_backward(loss), MT_E_RUNTIME);
        assert_non_null(strstr(mt_last_error(), "modified by an inplace operation"));
    }
    MT_SCOPE
    {
        assert_null(MT(add_, w, 1));
        assert_non_null(strstr(mt_last_error(), "a leaf Variable that requires grad"));
    }
    mt_release(w);
}

static mt_tensor *double_it(mt_tensor *grad, void *user, bool *failed)
{
    (void)failed;
    ++*(int *)user;
    mt_value args[] = {mt_value_tensor(grad), mt_value_float(2)};
    mt_tensor *out = NULL;
    mt_call(MT_OP_mul, args, 2, &out);
    return out;
}

static mt_tensor *refuse(mt_tensor *grad, void *user, bool *failed)
{
    (void)grad, (void)user;
    *failed = true;
    return NULL;
}

static void hooks_see_and_change_gradients(void **state)
{
    (void)state;
    mt_tensor *w = vector(2, 1);
    int calls = 0;
    uint64_t id, other;
    assert_mt_ok(mt_set_requires_grad(w, true));
    assert_mt_ok(mt_hook_add(w, double_it, NULL, &calls, &id));
    MT_SCOPE
    {
        mt_tensor *h = MT(mul, w, 5);
        mt_retain_grad(h);
        assert_mt_ok(mt_hook_add(h, double_it, NULL, &calls, &other));
        assert_mt_ok(mt_backward(MT(sum, h)));
        assert_true(((float *)mt_data(mt_grad(h)))[0] == 2);
    }
    assert_int_equal(calls, 2);
    assert_true(((float *)mt_data(mt_grad(w)))[0] == 20);
    mt_hook_remove(w, id);
    assert_mt_ok(mt_hook_add(w, refuse, NULL, NULL, &id));
    MT_SCOPE assert_int_equal(mt_backward(MT(sum, w)), MT_E_CALLBACK);
    mt_release(w);
}

static void long_chains_need_no_stack(void **state)
{
    (void)state;
    mt_tensor *w = vector(1, 1), *x = mt_retain(w);
    assert_mt_ok(mt_set_requires_grad(w, true));
    for (int i = 0; i < 200000; i++) {
        mt_value args[] = {mt_value_tensor(x), mt_value_int(1)};
        mt_tensor *next;
        assert_mt_ok(mt_call(MT_OP_add, args, 2, &next));
        mt_release(x);
        x = next;
    }
    assert_mt_ok(mt_backward(x));
    assert_true(item(mt_grad(w)) == 1);
    mt_release(x);
    mt_release(w);
}

static void graphs_leave_nothing_behind(void **state)
{
    (void)state;
    uint64_t before = allocated();
    mt_tensor *w = vector(8, 1);
    assert_mt_ok(mt_set_requires_grad(w, true));
    for (int i = 0; i < 100; i++)
        MT_SCOPE
        {
            mt_tensor *h = MT(exp, MT(mul, w, w)); /* saves its own output */
            if (i % 2 == 0)
                assert_mt_ok(mt_backward(MT(sum, h)));
        }
    mt_release(w);
    assert_int_equal(allocated(), before);
}

/* -------------------------------------------------------------------------------------------- optimizers */

static mt_status square_of(void *user, double *loss)
{
    mt_tensor *w = user;
    MT_SCOPE
    {
        mt_tensor *sum = MT(sum, MT(mul, w, w)); /* the closure runs with grad enabled */
        assert_mt_ok(mt_backward(sum));
        *loss = item(sum);
    }
    return MT_OK;
}

static mt_status no_loss(void *user, double *loss)
{
    (void)user, (void)loss;
    return MT_E_VALUE;
}

static void a_closures_loss_comes_back_and_its_failure_steps_nothing(void **state)
{
    (void)state;
    double loss = 0;
    mt_tensor *w = vector(2, 1);
    assert_mt_ok(mt_set_requires_grad(w, true));
    mt_sgd_options options = MT_SGD_OPTIONS;
    options.lr = 0.25;
    mt_optimizer *o = mt_sgd_create(&w, 1, &options);
    assert_non_null(o);
    bool enabled = mt_grad_enable(false);
    assert_mt_ok(mt_optimizer_step_with(o, square_of, w, &loss));
    assert_true(loss == 5);
    assert_int_equal(mt_optimizer_step_with(o, no_loss, w, NULL), MT_E_VALUE);
    assert_false(mt_grad_enable(enabled)); /* as it was */
    MT_SCOPE assert_true(item(MT(sum, w)) == 1.5);
    mt_optimizer_destroy(o);
    mt_release(w);
}

/* --------------------------------------------------------------------------------------- mixed precision */

static void autocast_casts_products_and_keeps_cast_weights(void **state)
{
    (void)state;
    int64_t depth;
    mt_tensor *m = from((float[]){1, 2, 3, 4}, 2, (int64_t[]){2, 2});
    assert_mt_ok(mt_set_requires_grad(m, true));
    mt_memory_stats before = {.size = sizeof before}, now = before;
    assert_mt_ok(mt_memory(MT_CPU, &before));
    assert_mt_ok(mt_autocast_enable(0, true));
    assert_mt_ok(mt_autocast_nest(1, &depth));
    assert_int_equal(depth, 1);
    MT_SCOPE
    {
        mt_tensor *y = MT(mm, m, m), *z = MT(add, m, m);
        assert_int_equal(mt_dtype_of(y), MT_BFLOAT16);
        assert_int_equal(mt_dtype_of(z), MT_FLOAT32);
        assert_true(mt_requires_grad(y));
        assert_true(item(MT(sum, y)) == 54);
    }
    assert_mt_ok(mt_memory(MT_CPU, &now));
    assert_true(now.allocated > before.allocated); /* the weight, as bfloat16 */
    assert_mt_ok(mt_autocast_nest(-1, &depth));
    assert_int_equal(depth, 0);
    mt_autocast_clear_cache();
    assert_mt_ok(mt_memory(MT_CPU, &now));
    assert_int_equal(now.allocated, before.allocated);
    assert_mt_ok(mt_autocast_enable(0, false));
    MT_SCOPE assert_int_equal(mt_dtype_of(MT(mm, m, m)), MT_FLOAT32);
    mt_release(m);
}

static void autocast_without_a_cache_keeps_nothing_and_a_failing_op_fails(void **state)
{
    (void)state;
    mt_tensor *w = vector(1, 2);
    assert_mt_ok(mt_set_requires_grad(w, true));
    assert_true(mt_autocast_caches());
    assert_mt_ok(mt_autocast_set_cache(false));
    assert_mt_ok(mt_autocast_set_dtype(0, MT_FLOAT16));
    assert_mt_ok(mt_autocast_enable(0, true));
    mt_memory_stats before = {.size = sizeof before}, now = before;
    assert_mt_ok(mt_memory(MT_CPU, &before));
    MT_SCOPE
    {
        mt_tensor *both[] = {w, w};
        mt_tensor *joined = MT(cat, mt_value_tensors(both, 2)); /* of float32: the widest */
        assert_int_equal(mt_dtype_of(joined), MT_FLOAT32);
        assert_null(MT(mm, w, w));
        assert_int_equal(mt_scope_status(), MT_E_RUNTIME);
    }
    assert_true(mt_autocast_enabled(0)); /* still, after the failure */
    assert_mt_ok(mt_memory(MT_CPU, &now));
    assert_int_equal(now.allocated, before.allocated);
    assert_mt_ok(mt_autocast_enable(0, false));
    assert_mt_ok(mt_autocast_set_dtype(0, MT_BFLOAT16));
    assert_mt_ok(mt_autocast_set_cache(true));
    assert_int_equal(mt_autocast_enable(7, true), MT_E_VALUE);
    assert_int_equal(mt_autocast_set_dtype(0, (mt_dtype)77), MT_E_VALUE);
    mt_release(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tensor_knows_its_shape),
        TEST(impossible_shapes_are_refused),
        TEST(memory_is_counted_and_comes_back),
        TEST(narrow_elements_are_read_and_written_as_numbers),
        TEST(borrowed_memory_is_given_back_once),
        TEST(wrong_arguments_are_named),
        TEST(shapes_that_do_not_fit_say_both),
        TEST(after_a_failure_a_scope_does_nothing),
        TEST(a_scope_ends_however_it_is_left),
        TEST(every_schema_is_found_by_name),
        TEST(recorded_schemas_have_pytorchs_arguments),
        TEST(an_interceptor_computes_and_autograd_follows_the_op),
        TEST(an_interceptor_that_fails_fails_the_op),
        TEST(gradients_flow_to_leaves),
        TEST(a_graph_is_walked_once_unless_kept),
        TEST(gradients_of_given_inputs_touch_no_leaf),
        TEST(second_derivatives_are_there),
        TEST(a_change_in_place_is_noticed),
        TEST(hooks_see_and_change_gradients),
        TEST(long_chains_need_no_stack),
        TEST(graphs_leave_nothing_behind),
        TEST(a_closures_loss_comes_back_and_its_failure_steps_nothing),
        TEST(autocast_casts_products_and_keeps_cast_weights),
        TEST(autocast_without_a_cache_keeps_nothing_and_a_failing_op_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
