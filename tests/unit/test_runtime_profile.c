/* Unit: runtime: what a profile sees, threads, fork. */
#include "small_tensors.h"

/* ------------------------------------------------------------------------------------- the profiler,
 * threads, fork */

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

/* A linear layer from 8 to 16, a relu, a linear layer from 16 to 4; 32 rows. */
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
        t->x = mt_retain(MT(randn, MT_SHAPE(32, 8))); /* it is not declared as an input */
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

/* The peak bytes of each category over time. */
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
    for (int i = 0; i < 3; i++) { /* now including gradients and the optimizer's state */
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
    TEST_NOT_IN_QEMU(QEMU_CLOCK);
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

/* The table's formulas agree with those that the profiler derives from shapes. */
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
    TEST_NOT_IN_QEMU(QEMU_FORKS_ALONE);
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
