/* The runtime's core through its public header: tensors, memory, calls, scopes, the graph and what the profiler sees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <math.h>
#include <mindtorch.h>
#include <mindtorch_nn.h>
#include <mindtorch_optim.h>
#include <mtprof.h>
#include <pthread.h>
#include <sys/wait.h>
#include <stdlib.h>
#include <unistd.h>

#define TEST(fn) cmocka_unit_test(fn)
#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        if ((call) != MTP_OK)                                                                                \
            fail_msg("%s: %s", #call, mtp_last_error());                                                     \
    } while (0)

#define assert_mt_ok(call)                                                                                   \
    do {                                                                                                     \
        if ((call) != MT_OK)                                                                                 \
            fail_msg("%s: %s", #call, mt_last_error());                                                      \
    } while (0)

static mt_tensor *from(const float *data, int rank, const int64_t *dims)
{
    mt_tensor *t;
    assert_mt_ok(mt_tensor_from(data, MT_FLOAT32, rank, dims, &t));
    return t;
}

static mt_tensor *vector(int64_t n, float first)
{
    float data[64];
    for (int64_t i = 0; i < n; i++)
        data[i] = first + (float)i;
    return from(data, 1, &n);
}

static double item(const mt_tensor *t)
{
    double value = NAN;
    assert_non_null(t);
    assert_mt_ok(mt_item(t, &value));
    return value;
}

static uint64_t allocated(void)
{
    mt_memory_stats stats = {.size = sizeof stats};
    assert_mt_ok(mt_memory(MT_CPU, &stats));
    return stats.allocated;
}

/* -------------------------------------------------------------------------------------------- tensors, memory */

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

static void count_drop(void *user)
{
    ++*(int *)user;
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

/* ---------------------------------------------------------------------------------------------- calls, scopes */

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

/* --------------------------------------------------------------------------------------------- interception */

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

/* ------------------------------------------------------------------------------------------------- autograd */

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

/* ------------------------------------------------------------------------------------- the profiler, threads, fork */

static void the_profiler_sees_each_op_once(void **state)
{
    (void)state;
    mtp_profile *prof;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.record_shapes = config.profile_memory = true;
    assert_ok(mtp_profile_create(&config, &prof));
    assert_ok(mtp_profile_start(prof));
    mt_tensor *w = vector(3, 1);
    assert_mt_ok(mt_set_requires_grad(w, true));
    MT_SCOPE assert_mt_ok(mt_backward(MT(sum, MT(mul, w, w))));
    mt_release(w);
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *trace;
    mtp_averages *rows;
    assert_ok(mtp_profile_trace(prof, &trace));
    assert_ok(mtp_averages_create(trace, NULL, &rows));
    const struct {
        const char *key;
        uint64_t count;
    } expected[] = {{"aten::sum", 1},
                    {"aten::mul", 3}, /* forward, and two in MulBackward0 */
                    {"autograd::engine::evaluate_function: SumBackward0", 1},
                    {"SumBackward0", 1},
                    {"autograd::engine::evaluate_function: MulBackward0", 1},
                    {"MulBackward0", 1},
                    {"torch::autograd::AccumulateGrad", 1}};
    for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
        uint64_t count = 0;
        for (size_t i = 0; i < mtp_averages_count(rows); i++)
            if (strcmp(mtp_averages_row(rows, i)->key, expected[k].key) == 0)
                count += mtp_averages_row(rows, i)->count;
        if (count != expected[k].count)
            fail_msg("%s: %d times, not %d", expected[k].key, (int)count, (int)expected[k].count);
    }
    mtp_averages_destroy(rows);
    mtp_trace_destroy(trace);
    mtp_profile_destroy(prof);
}

/* A linear layer of 8 to 16, its relu, one of 16 to 4; 32 rows. */
enum {
    WEIGHTS = (8 * 16 + 16 + 16 * 4 + 4) * 4,
    INPUTS = (32 * 8 + 32 * 4) * 4,
    ACTIVATIONS = 32 * (2 * 16 + 3 * 4) * 4 + 4, /* of the layers, the error, its square and their sum */
};

typedef struct training {
    mt_module *net;
    mt_optimizer *optimizer;
    mt_tensor *x, *target, *params[4];
} training;

static void training_begin(training *t)
{
    t->net = mt_sequential_create(3, mt_linear_create(8, 16, true), mt_activation_create("relu"),
                                  mt_linear_create(16, 4, true));
    assert_int_equal(mt_module_parameters(t->net, t->params, 4), 4);
    mt_adam_options options = MT_ADAM_OPTIONS;
    t->optimizer = mt_adam_create(t->params, 4, &options);
    assert_non_null(t->optimizer);
    MT_SCOPE
    {
        t->x = mt_retain(MT(randn, MT_SHAPE(32, 8))); /* nobody says that it is an input */
        float zeros[32 * 4] = {0};
        t->target = from(zeros, 2, (const int64_t[]){32, 4});
    }
}

static void training_step(const training *t)
{
    MT_SCOPE
    {
        mt_optimizer_zero_grad(t->optimizer);
        mt_tensor *error = MT(sub, mt_module_forward(t->net, t->x), t->target);
        assert_mt_ok(mt_backward(MT(sum, MT(mul, error, error))));
        assert_mt_ok(mt_optimizer_step(t->optimizer));
    }
}

static void training_end(training *t)
{
    mt_optimizer_destroy(t->optimizer);
    mt_module_destroy(t->net);
    mt_release(t->x);
    mt_release(t->target);
}

static mtp_profile *memory_profile(void)
{
    mtp_profile *prof;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.profile_memory = true;
    assert_ok(mtp_profile_create(&config, &prof));
    assert_ok(mtp_profile_start(prof));
    return prof;
}

/* The most bytes of each category, over time. */
static bool most_of_each(void *user, const mtp_memory_point *point)
{
    int64_t *most = user;
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
        most[k] = point->bytes[k] > most[k] ? point->bytes[k] : most[k];
    return true;
}

static mtp_memory_info stop_and_look(mtp_profile *prof, int64_t *most)
{
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *trace;
    mtp_memory_timeline *timeline;
    mtp_memory_info info = MTP_MEMORY_INFO_INIT;
    assert_ok(mtp_profile_trace(prof, &trace));
    assert_ok(mtp_memory_timeline_create(trace, "cpu", &timeline));
    assert_ok(mtp_memory_timeline_info(timeline, &info));
    memset(most, 0, MTP_MEMORY_CATEGORIES * sizeof *most);
    mtp_memory_timeline_points(timeline, most_of_each, most);
    mtp_memory_timeline_destroy(timeline);
    mtp_trace_destroy(trace);
    mtp_profile_destroy(prof);
    info.device = NULL; /* was the timeline's */
    return info;
}

static void memory_from_before_the_profile_has_its_category(void **state)
{
    (void)state;
    uint64_t others = allocated();
    training t;
    training_begin(&t);
    int64_t before = (int64_t)allocated(), most[MTP_MEMORY_CATEGORIES];
    assert_int_equal(before, others + WEIGHTS + INPUTS);
    mtp_profile *prof = memory_profile();
    for (int i = 0; i < 2; i++)
        training_step(&t);
    mtp_memory_info info = stop_and_look(prof, most);
    assert_int_equal(info.preexisting_bytes, before);
    assert_int_equal(info.unaccounted_bytes, 0);
    assert_int_equal(info.lost_events, 0);
    assert_int_equal(most[MTP_MEMORY_PARAMETER], WEIGHTS);
    assert_int_equal(most[MTP_MEMORY_INPUT], INPUTS);
    assert_int_equal(most[MTP_MEMORY_GRADIENT], WEIGHTS);
    assert_int_equal(most[MTP_MEMORY_OPTIMIZER_STATE], 2 * WEIGHTS + 4 * 4); /* moments, step counts */
    assert_int_equal(info.peak_by_category[MTP_MEMORY_PARAMETER], WEIGHTS);
    assert_int_equal(info.peak_by_category[MTP_MEMORY_INPUT], INPUTS);
    assert_int_equal(info.peak_by_category[MTP_MEMORY_ACTIVATION], ACTIVATIONS);
    assert_int_equal(most[MTP_MEMORY_ACTIVATION], ACTIVATIONS);
    assert_int_equal(most[MTP_MEMORY_UNKNOWN], others); /* those that no op met */
    assert_int_equal(info.end_bytes, (int64_t)allocated());
    training_end(&t);
    assert_int_equal(allocated(), others);
}

static void each_profile_hears_of_all_that_is_there(void **state)
{
    (void)state;
    training t;
    uint64_t others = allocated();
    training_begin(&t);
    training_step(&t);
    for (int i = 0; i < 3; i++) { /* now gradients and the optimizer's state are there too */
        int64_t most[MTP_MEMORY_CATEGORIES], before = (int64_t)allocated();
        mtp_profile *prof = memory_profile();
        training_step(&t);
        mtp_memory_info info = stop_and_look(prof, most);
        assert_int_equal(info.preexisting_bytes, before);
        assert_int_equal(info.unaccounted_bytes, 0);
        assert_int_equal(info.lost_events, 0);
        assert_int_equal(info.end_bytes, before);
        assert_int_equal(most[MTP_MEMORY_PARAMETER], WEIGHTS);
        assert_int_equal(most[MTP_MEMORY_INPUT], INPUTS);
        assert_int_equal(most[MTP_MEMORY_OPTIMIZER_STATE], 2 * WEIGHTS + 4 * 4);
        assert_int_equal(most[MTP_MEMORY_ACTIVATION], ACTIVATIONS);
        assert_int_equal(most[MTP_MEMORY_UNKNOWN], others);
    }
    training_end(&t);
}

static void a_leaf_that_is_trained_is_a_parameter_and_borrowed_memory_is_not_counted(void **state)
{
    (void)state;
    float data[4] = {1, 2, 3, 4};
    int drops = 0;
    uint64_t others = allocated();
    mt_tensor *w = vector(4, 1), *x;
    assert_mt_ok(mt_set_requires_grad(w, true));
    assert_mt_ok(mt_tensor_borrow(data, MT_FLOAT32, 1, (const int64_t[]){4}, NULL, count_drop, &drops, &x));
    int64_t most[MTP_MEMORY_CATEGORIES];
    mtp_profile *prof = memory_profile();
    MT_SCOPE assert_mt_ok(mt_backward(MT(sum, MT(mul, w, x))));
    mtp_memory_info info = stop_and_look(prof, most);
    assert_int_equal(info.preexisting_bytes, others + 16);
    assert_int_equal(info.unaccounted_bytes, 0);
    assert_int_equal(most[MTP_MEMORY_PARAMETER], 16);
    assert_int_equal(most[MTP_MEMORY_GRADIENT], 16);
    assert_int_equal(most[MTP_MEMORY_INPUT], 0);
    mt_release(w);
    mt_release(x);
}

static void noise_that_an_op_makes_is_no_input(void **state)
{
    (void)state;
    mt_tensor *w = vector(16, 1);
    assert_mt_ok(mt_set_requires_grad(w, true));
    int64_t most[MTP_MEMORY_CATEGORIES];
    mtp_profile *prof = memory_profile();
    MT_SCOPE
    {
        mt_tensor *h = MT(mul, w, w);
        mt_tensor *fixed = MT(detach, h); /* depends on what is trained */
        assert_mt_ok(mt_backward(MT(sum, MT(mul, MT(dropout, h, 0.5, true), fixed))));
    }
    stop_and_look(prof, most);
    assert_int_equal(most[MTP_MEMORY_INPUT], 0);
    assert_true(most[MTP_MEMORY_ACTIVATION] >= 64);
    mt_release(w);
}

static void a_number_that_is_recorded_is_no_input_and_is_given_back(void **state)
{
    (void)state;
    mt_tensor *w = vector(16, 1);
    assert_mt_ok(mt_set_requires_grad(w, true));
    int64_t most[MTP_MEMORY_CATEGORIES];
    mtp_profile *prof = memory_profile();
    MT_SCOPE assert_mt_ok(mt_backward(MT(sum, MT(mul, MT(pow, w, 2), 3))));
    mtp_memory_info info = stop_and_look(prof, most);
    assert_int_equal(most[MTP_MEMORY_INPUT], 0);
    assert_int_equal(info.unaccounted_bytes, 0);
    assert_int_equal(info.end_bytes, info.preexisting_bytes + most[MTP_MEMORY_GRADIENT]);
    const float *grad = mt_data(mt_grad(w));
    assert_true(grad[0] == 6.0f && grad[15] == 96.0f);
    mt_release(w);
}

/* The table's formulas are those that the profiler derives from shapes. */
static uint64_t flops_of(const char *key, bool record_shapes)
{
    mtp_profile *prof;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.record_shapes = record_shapes;
    config.with_flops = true;
    assert_ok(mtp_profile_create(&config, &prof));
    assert_ok(mtp_profile_start(prof));
    MT_SCOPE
    {
        mt_tensor *a = MT(ones, MT_SHAPE(3, 4)), *b = MT(ones, MT_SHAPE(4, 5)),
                  *c = MT(ones, MT_SHAPE(2, 3, 4));
        MT(mm, a, b);
        MT(addmm, MT(ones, MT_SHAPE(5)), a, b);
        MT(bmm, c, MT(ones, MT_SHAPE(2, 4, 6)));
        MT(mul, a, a);
        MT(conv2d, MT(ones, MT_SHAPE(2, 3, 8, 9)), MT(ones, MT_SHAPE(4, 3, 3, 2)), NULL, MT_SHAPE(2, 1),
           MT_SHAPE(1, 0));
        assert_int_equal(mt_scope_status(), MT_OK);
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *trace;
    mtp_averages *rows;
    uint64_t flops = 0;
    assert_ok(mtp_profile_trace(prof, &trace));
    assert_ok(mtp_averages_create(trace, NULL, &rows));
    for (size_t i = 0; i < mtp_averages_count(rows); i++)
        if (strcmp(mtp_averages_row(rows, i)->key, key) == 0)
            flops += mtp_averages_row(rows, i)->flops;
    mtp_averages_destroy(rows);
    mtp_trace_destroy(trace);
    mtp_profile_destroy(prof);
    return flops;
}

static void flops_are_counted_without_shapes(void **state)
{
    (void)state;
    assert_int_equal(flops_of("aten::mm", false), 2 * 3 * 4 * 5);
    assert_int_equal(flops_of("aten::addmm", false), 2 * 3 * 4 * 5);
    assert_int_equal(flops_of("aten::bmm", false), 2 * 2 * 3 * 4 * 6);
    assert_int_equal(flops_of("aten::mul", false), 12);
    assert_int_equal(flops_of("aten::conv2d", false), 2 * 2 * 4 * 8 * 6 * 3 * 4);
    assert_int_equal(flops_of("aten::conv2d", true), 2 * 2 * 4 * 8 * 6 * 3 * 4);
}

static void *train_alone(void *user)
{
    mt_tensor *w = vector(16, 1);
    mt_set_requires_grad(w, true);
    for (int i = 0; i < 200; i++)
        MT_SCOPE
        {
            if (mt_backward(MT(sum, MT(mul, w, w))) != MT_OK)
                *(bool *)user = true;
        }
    mt_release(w);
    return NULL;
}

static void threads_train_beside_each_other(void **state)
{
    (void)state;
    pthread_t threads[4];
    bool failed[4] = {false};
    uint64_t before = allocated();
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_alone, &failed[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_false(failed[i]);
    }
    assert_int_equal(allocated(), before);
}

static void a_forked_child_can_compute(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* TSan allows no threads after a fork */
#endif
    mt_tensor *big;
    assert_mt_ok(mt_tensor_create(MT_FLOAT32, MT_CPU, 2, (const int64_t[]){400, 400}, &big));
    MT_SCOPE MT(mm, MT(add, MT(zero_, big), 1), big); /* starts the pool */
    pid_t child = fork();
    if (child == 0) {
        int bad = 1;
        MT_SCOPE
        {
            double value = 0;
            mt_tensor *sum = MT(sum, MT(mm, MT(add, big, 1), MT(add, big, 1)));
            bad = sum == NULL || mt_item(sum, &value) != MT_OK || value != 400.0 * 400 * 400;
        }
        _exit(bad);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    mt_release(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tensor_knows_its_shape),
        TEST(impossible_shapes_are_refused),
        TEST(memory_is_counted_and_comes_back),
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
        TEST(the_profiler_sees_each_op_once),
        TEST(memory_from_before_the_profile_has_its_category),
        TEST(each_profile_hears_of_all_that_is_there),
        TEST(a_leaf_that_is_trained_is_a_parameter_and_borrowed_memory_is_not_counted),
        TEST(noise_that_an_op_makes_is_no_input),
        TEST(a_number_that_is_recorded_is_no_input_and_is_given_back),
        TEST(flops_are_counted_without_shapes),
        TEST(threads_train_beside_each_other),
        TEST(a_forked_child_can_compute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
