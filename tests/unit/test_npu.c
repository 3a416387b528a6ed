/* Device "npu" against the CPU: every op with random arguments, a GPT that trains alike on both, memory,
 * streams, errors, and what the profiler shows. Skipped, with the reason, if there is no OpenCL device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#include <mindtorch_nn.h>
#include <mtprof.h>
#include "op_arguments.h"

#define NPU MT_NPU(0)

static mt_tensor *moved(const mt_tensor *t, mt_device device)
{
    mt_value args[] = {mt_value_tensor(t), mt_value_none(NULL), mt_value_int(device)};
    mt_tensor *out = NULL;
    if (mt_call(MT_OP__to_copy, args, 3, &out) != MT_OK)
        fail_msg("to %s: %s", device == MT_CPU ? "cpu" : "npu", mt_last_error());
    return out;
}

/* ------------------------------------------------------------------------------------------------
 * comparing */

static bool alike(double a, double b, double most)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b || (fabs(a) > 1e30 && fabs(b) > 1e30);
    return fabs(a - b) <= most * (1 + fabs(b));
}

static double element(const mt_tensor *t, int64_t i)
{
    const mt_dtype dtype = mt_dtype_of(t);
    mt_value v = mt_element((const char *)mt_data(t) + (size_t)i * mt_dtype_bytes(dtype), dtype);
    return v.kind == MT_FLOAT ? v.as.f : (double)v.as.i;
}

/* By how much results may differ, relative to them: of halves by two roundings. */
static double tolerance(mt_dtype dtype)
{
    static const double of[MT_DTYPES] = {
        [MT_FLOAT64] = 1e-9, [MT_FLOAT32] = 2e-5, [MT_FLOAT16] = 0x1p-9, [MT_BFLOAT16] = 0x1p-6};
    return of[dtype];
}

/* "" if they are equal; else how they differ. */
static const char *difference(const mt_tensor *want, const mt_tensor *got)
{
    static char text[256];
    text[0] = 0;
    if ((want == NULL) != (got == NULL))
        return "one is NULL";
    if (want == NULL)
        return "";
    if (mt_dtype_of(want) != mt_dtype_of(got) || mt_rank(want) != mt_rank(got) ||
        memcmp(mt_dims(want), mt_dims(got), (size_t)mt_rank(want) * 8) != 0)
        return "dtype or shape";
    mt_tensor *here = moved(got, MT_CPU), *dense = NULL;
    mt_value self = mt_value_tensor(want);
    assert_int_equal(mt_call(MT_OP_clone, &self, 1, &dense), MT_OK);
    double most = tolerance(mt_dtype_of(want));
    for (int64_t i = 0; i < mt_numel(want) && text[0] == 0; i++) {
        double a = element(here, i), b = element(dense, i);
        if (!alike(a, b, most))
            snprintf(text, sizeof text, "element %lld is %.9g, not %.9g", (long long)i, a, b);
    }
    mt_release(here);
    mt_release(dense);
    return text;
}

/* -------------------------------------------------------------------------------------------- ops by
 * chance */

/* Their results are random, or uninitialized memory. */
static bool by_chance(const char *name)
{
    static const char *const names[] = {"empty",
                                        "empty_like",
                                        "empty_strided",
                                        "new_empty_strided",
                                        "rand",
                                        "rand_like",
                                        "randn",
                                        "randn_like",
                                        "randint",
                                        "randint_low",
                                        "randperm",
                                        "uniform_",
                                        "normal_",
                                        "random_",
                                        "random_to_",
                                        "random_all_",
                                        "bernoulli_",
                                        "bernoulli_tensor_",
                                        "bernoulli",
                                        "bernoulli_p",
                                        "multinomial",
                                        "dropout",
                                        "scaled_dot_product_attention"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* If several elements are written to one place, any of them may stay. */
static bool any_order(const char *name)
{
    static const char *const names[] = {"scatter", "scatter_", "index_put_", "_index_put_impl_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Lengths of sequences are read by the host. */
static bool stays_on_host(const mt_param *p)
{
    static const char *const names[] = {"lengths", "batch_sizes"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (p->name_length == strlen(names[i]) && memcmp(p->name, names[i], p->name_length) == 0)
            return true;
    return false;
}

typedef struct twins {
    mt_tensor *here[64], *there[64];
    unsigned count;
} twins;

/* A tensor always has the same twin; strides are kept by viewing the twin of its whole storage. */
static mt_tensor *twin_of(twins *w, mt_tensor *t)
{
    for (unsigned i = 0; i < w->count; i++)
        if (w->here[i] == t)
            return w->there[i];
    mt_tensor *there = moved(t, NPU);
    if (!mt_is_contiguous(t) && mt_rank(t) >= 2 && mt_numel(t) > 0) { /* its own layout: the transposed's */
        mt_value args[] = {mt_value_tensor(there), mt_value_int(0), mt_value_int(1)};
        mt_tensor *turned = NULL, *dense = NULL, *back = NULL;
        mt_call(MT_OP_transpose, args, 3, &turned);
        mt_value one = mt_value_tensor(turned);
        mt_call(MT_OP_clone, &one, 1, &dense);
        args[0] = mt_value_tensor(dense);
        mt_call(MT_OP_transpose, args, 3, &back);
        mt_release(turned);
        mt_release(dense);
        mt_release(there);
        there = back;
    }
    w->here[w->count] = mt_retain(t);
    w->there[w->count++] = there;
    return there;
}

static bool same_storage_twice(const made *m)
{
    for (unsigned i = 0; i < m->count; i++)
        for (unsigned k = 0; k < i; k++)
            if (mt_data(m->tensors[i]) == mt_data(m->tensors[k]) && mt_numel(m->tensors[i]) > 0)
                return true;
    return false;
}

static const char *error_of(mt_status status)
{
    return status == MT_OK ? "" : mt_last_error();
}

static int differences;

/* 1: compared; 0: the CPU refuses it; -1: no kernel. */
static int compare_once(mt_op_id op)
{
    made m;
    uint64_t started = seed;
    twins w = {.count = 0};
    memset(&m, 0, sizeof m);
    unsigned count, outputs = mt_op_outputs(op);
    const mt_param *params = mt_op_params(op, &count);
    mt_value args[16], there[16];
    mt_tensor *lists[16][64], *want[8] = {NULL}, *got[8] = {NULL};
    for (unsigned i = 0; i < count; i++)
        args[i] = an_argument(&m, &params[i]);
    mt_grad_enable(false);
    for (unsigned i = 0; i < count; i++) {
        there[i] = args[i];
        if (args[i].kind == MT_TENSOR && !stays_on_host(&params[i]))
            there[i] = mt_value_tensor(twin_of(&w, args[i].as.tensor));
        if (args[i].kind == MT_TENSORS) {
            for (unsigned k = 0; k < args[i].count; k++)
                lists[i][k] = args[i].as.tensors[k] != NULL ? twin_of(&w, args[i].as.tensors[k]) : NULL;
            there[i] = mt_value_tensors(lists[i], args[i].count);
        }
        if (params[i].type == MT_TYPE_DEVICE && args[i].kind == MT_INT)
            there[i] = mt_value_int(NPU);
    }
    int result = 0;
    bool shared = same_storage_twice(&m);
    if (outputs > 0 && !shared && mt_call(op, args, count, want) == MT_OK) {
        mt_status status = mt_call(op, there, count, got);
        if (status == MT_E_NOT_IMPLEMENTED && strstr(mt_last_error(), "has no kernel for device") != NULL) {
            result = -1;
        } else {
            const char *how = error_of(status);
            for (unsigned i = 0; i < outputs && how[0] == 0; i++)
                how = difference(want[i], got[i]);
            for (unsigned i = 0; i < w.count && how[0] == 0; i++)
                how = difference(w.here[i], w.there[i]); /* what it wrote */
            if (how[0] != 0 && !any_order(mt_op_id_text(op)))
                fprintf(stderr, "# %s, seed %llu: %.600s\n", mt_op_id_text(op), (unsigned long long)started,
                        how),
                    differences++;
            result = 1;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        mt_release(want[i]);
        mt_release(got[i]);
    }
    for (unsigned i = 0; i < w.count; i++) {
        mt_release(w.here[i]);
        mt_release(w.there[i]);
    }
    mt_grad_enable(true);
    drop_made(&m);
    return result;
}

static void every_op_gives_what_the_cpu_gives(void **state)
{
    (void)state;
    const char *asked = getenv("MT_TEST_OP");
    int times = getenv("MT_TEST_CALLS") != NULL ? atoi(getenv("MT_TEST_CALLS")) : 6, without = 0, with = 0;
    char missing[4096] = "";
    for (unsigned op = 0; op < mt_op_count(); op++) {
        const char *name = mt_op_id_text((mt_op_id)op);
        if ((asked != NULL && strcmp(asked, name) != 0) || by_chance(name))
            continue;
        int good = 0, none = 0;
        for (int i = 0; i < times; i++) {
            seed = (uint64_t)op * 1000003u + (uint64_t)i * 7919u + 12345u;
            int result = compare_once((mt_op_id)op);
            good += result > 0;
            none += result < 0;
        }
        with += good > 0;
        if (none > 0 || !mt_op_has_kernel((mt_op_id)op, 1)) {
            without++;
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), " %s", name);
        }
        if (asked != NULL)
            fprintf(stderr, "# %s: %d of %d compared\n", name, good, times);
    }
    fprintf(stderr, "# %d ops compared, %d have no kernel:%s\n", with, without, missing);
    assert_int_equal(without, 0);
    assert_int_equal(differences, 0);
}

/* ------------------------------------------------------------------------------------------------ a GPT */

typedef struct gpt {
    mt_module *tokens, *body, *head;
    mt_tensor *places; /* owned */
    mt_tensor *params[64];
    uint32_t count;
    mt_optimizer *optimizer;
} gpt;

#define VOCABULARY 65
#define TIME 16
#define WIDTH 32

static void add_params(gpt *g, mt_module *m)
{
    g->count += mt_module_parameters(m, g->params + g->count, 64 - g->count);
}

static void gpt_create(gpt *g, mt_device device)
{
    memset(g, 0, sizeof *g);
    mt_manual_seed(7);
    g->tokens = mt_embedding_create(VOCABULARY, WIDTH);
    g->body = mt_sequential_create(3, mt_block_create(WIDTH, 4, true), mt_block_create(WIDTH, 4, true),
                                   mt_layer_norm_create(WIDTH, 1e-5));
    g->head = mt_linear_create(WIDTH, VOCABULARY, false);
    assert_non_null(g->tokens);
    assert_non_null(g->body);
    assert_non_null(g->head);
    mt_value args[] = {MT_SHAPE(TIME, WIDTH)};
    assert_int_equal(mt_call(MT_OP_randn, args, 1, &g->places), MT_OK);
    assert_int_equal(mt_set_requires_grad(g->places, true), MT_OK);
    g->params[g->count++] = g->places;
    add_params(g, g->tokens);
    add_params(g, g->body);
    add_params(g, g->head);
    for (uint32_t i = 0; i < g->count; i++) {
        mt_tensor *there = moved(g->params[i], device);
        assert_int_equal(mt_set_data(g->params[i], there), MT_OK);
        mt_release(there);
    }
    mt_adamw_options options = MT_ADAMW_OPTIONS;
    options.lr = 1e-2;
    g->optimizer = mt_adamw_create(g->params, g->count, &options);
    if (g->optimizer == NULL)
        fail_msg("%s", mt_last_error());
}

static void gpt_destroy(gpt *g)
{
    mt_optimizer_destroy(g->optimizer);
    mt_module_destroy(g->tokens);
    mt_module_destroy(g->body);
    mt_module_destroy(g->head);
    mt_release(g->places);
}

static double gpt_step(gpt *g, int number, mt_device device)
{
    int64_t data[4 * (TIME + 1)], dims[] = {4, TIME + 1};
    double loss = 0;
    seed = 100 + (uint64_t)(number % 3);
    for (int i = 0; i < 4 * (TIME + 1); i++)
        data[i] = chance(VOCABULARY);
    mt_tensor *here, *x;
    assert_int_equal(mt_tensor_from(data, MT_INT64, 2, dims, &here), MT_OK);
    x = moved(here, device);
    mt_release(here);
    MT_SCOPE
    {
        mt_tensor *in = MT(narrow, x, 1, 0, TIME), *next = MT(narrow, x, 1, 1, TIME);
        mt_tensor *h = MT(add, mt_module_forward(g->tokens, in), g->places);
        mt_tensor *logits = mt_module_forward(g->head, mt_module_forward(g->body, h));
        mt_tensor *l = MT(cross_entropy_loss, MT(reshape, logits, MT_SHAPE(-1, VOCABULARY)),
                          MT(reshape, next, MT_SHAPE(-1)));
        if (l == NULL || mt_backward(l) != MT_OK || mt_optimizer_step(g->optimizer) != MT_OK ||
            mt_item(l, &loss) != MT_OK)
            fail_msg("step %d: %s", number, mt_last_error());
        mt_optimizer_zero_grad(g->optimizer);
    }
    mt_release(x);
    return loss;
}

static void a_gpt_trains_with_the_losses_of_the_cpu(void **state)
{
    (void)state;
    gpt here, there;
    gpt_create(&here, MT_CPU);
    gpt_create(&there, NPU);
    double first = 0, last = 0;
    for (int i = 0; i < 12; i++) {
        double a = gpt_step(&here, i, MT_CPU), b = gpt_step(&there, i, NPU);
        if (fabs(a - b) > 1e-3)
            fail_msg("step %d: %.6f on the npu, %.6f on the CPU", i, b, a);
        first = i == 0 ? a : first;
        last = b;
    }
    assert_true(last < first - 1);
    gpt_destroy(&here);
    gpt_destroy(&there);
}

/* ------------------------------------------------------------------------------------------- memory and
 * order */

static mt_memory_stats memory(void)
{
    mt_memory_stats stats = {.size = sizeof stats};
    assert_int_equal(mt_memory(NPU, &stats), MT_OK);
    return stats;
}

static mt_tensor *made_there(int64_t n)
{
    mt_tensor *t;
    if (mt_tensor_create(MT_FLOAT32, NPU, 1, &n, &t) != MT_OK)
        fail_msg("%s", mt_last_error());
    return t;
}

static void memory_is_counted_kept_and_given_back(void **state)
{
    (void)state;
    mt_memory_empty_cache(NPU);
    mt_memory_reset_peak(NPU);
    mt_memory_stats before = memory();
    mt_tensor *t = made_there(1 << 20);
    mt_memory_stats with = memory();
    assert_int_equal(with.allocated - before.allocated, 4 << 20);
    assert_true(with.reserved >= with.allocated);
    mt_release(t);
    mt_memory_stats after = memory();
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.reserved, with.reserved);
    assert_int_equal(after.peak_allocated, with.allocated);
    t = made_there(1 << 20);
    assert_int_equal(memory().reserved, with.reserved); /* the same block */
    mt_release(t);
    mt_memory_empty_cache(NPU);
    assert_int_equal(memory().reserved, before.reserved);
}

static void too_much_memory_is_refused_and_the_process_goes_on(void **state)
{
    (void)state;
    int64_t n = (int64_t)1 << 42;
    mt_tensor *t = NULL;
    assert_int_equal(mt_tensor_create(MT_FLOAT32, NPU, 1, &n, &t), MT_E_NOMEM);
    assert_non_null(strstr(mt_last_error(), "NPU out of memory. Tried to allocate"));
    t = made_there(16);
    mt_release(t);
}

static void an_index_out_of_range_fails_at_the_next_wait(void **state)
{
    (void)state;
    MT_SCOPE
    {
        mt_tensor *w = MT(zeros, MT_SHAPE(3, 2), (int64_t)MT_FLOAT32, (int64_t)NPU);
        mt_tensor *i = MT(full, MT_SHAPE(1), 9, (int64_t)MT_INT64, (int64_t)NPU);
        assert_non_null(MT(embedding, w, i));
        assert_int_equal(mt_synchronize(NPU), MT_E_INDEX);
        assert_non_null(strstr(mt_last_error(), "index out of range"));
        assert_int_equal(mt_synchronize(NPU), MT_OK);
    }
}

static void a_device_that_is_not_there_is_named(void **state)
{
    (void)state;
    int64_t n = 1;
    mt_tensor *t;
    assert_int_equal(mt_tensor_create(MT_FLOAT32, MT_NPU(15), 1, &n, &t), MT_E_RUNTIME);
    assert_non_null(strstr(mt_last_error(), "npu:15 is not available"));
}

static void streams_order_their_work_and_events_measure_it(void **state)
{
    (void)state;
    mt_stream *side;
    mt_event *begin, *end;
    double ms = -1, value = 0;
    assert_int_equal(mt_stream_create(NPU, &side), MT_OK);
    assert_true(mt_stream_id(side) != mt_stream_id(mt_stream_default(NPU)));
    mt_stream_use(side);
    assert_ptr_equal(mt_stream_current(NPU), side);
    MT_SCOPE
    {
        assert_int_equal(mt_event_record(side, &begin), MT_OK);
        mt_tensor *x = MT(ones, MT_SHAPE(1000), (int64_t)MT_FLOAT32, (int64_t)NPU);
        for (int i = 0; i < 10; i++)
            x = MT(mul, x, 2);
        assert_int_equal(mt_event_record(side, &end), MT_OK);
        mt_stream_use(mt_stream_default(NPU));
        assert_int_equal(mt_stream_wait(mt_stream_default(NPU), end), MT_OK);
        assert_int_equal(mt_item(MT(max, x), &value), MT_OK);
        assert_true(value == 1024);
        assert_int_equal(mt_event_elapsed(begin, end, &ms), MT_OK);
        assert_true(ms >= 0 && ms < 60000);
    }
    bool done = false;
    assert_int_equal(mt_event_done(end, &done), MT_OK);
    assert_true(done);
    mt_event_destroy(begin);
    mt_event_destroy(end);
    mt_stream_destroy(side);
}

static void copies_cross_devices_in_any_layout_and_dtype(void **state)
{
    (void)state;
    float data[12];
    for (int i = 0; i < 12; i++)
        data[i] = (float)i;
    mt_tensor *here;
    assert_int_equal(mt_tensor_from(data, MT_FLOAT32, 2, (int64_t[]){3, 4}, &here), MT_OK);
    MT_SCOPE
    {
        mt_tensor *there = MT(to_device, MT(t, here), (int64_t)NPU, (int64_t)MT_FLOAT64, true);
        mt_tensor *wide = MT(zeros, MT_SHAPE(4, 3), (int64_t)MT_INT32, (int64_t)NPU);
        MT(copy_, wide, MT(t, here));
        mt_tensor *back = MT(zeros, MT_SHAPE(3, 4), (int64_t)MT_FLOAT32);
        MT(copy_, MT(t, back), there);
        assert_int_equal(mt_scope_status(), MT_OK);
        assert_memory_equal(mt_data(back), data, sizeof data);
        double d = 0;
        assert_int_equal(mt_item(MT(select, MT(select, wide, 0, 3), 0, 2), &d), MT_OK);
        assert_true(d == 11);
        assert_null(mt_data(there));
    }
    mt_release(here);
}

/* ------------------------------------------------------------------------------------------------- the
 * profiler */

static void a_profile_shows_launches_kernels_and_copies(void **state)
{
    (void)state;
    gpt g;
    gpt_create(&g, NPU);
    gpt_step(&g, 0, NPU); /* kernels are built */
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.profile_memory = true;
    mtp_profile *prof;
    assert_int_equal(mtp_profile_create(&config, &prof), MTP_OK);
    assert_int_equal(mtp_profile_start(prof), MTP_OK);
    gpt_step(&g, 1, NPU);
    assert_int_equal(mtp_profile_stop(prof), MTP_OK);
    const char *path = getenv("MT_TEST_TRACE") != NULL ? getenv("MT_TEST_TRACE") : "/tmp/test_npu.trace.json";
    mtp_trace *trace = NULL;
    assert_int_equal(mtp_profile_trace(prof, &trace), MTP_OK);
    assert_int_equal(mtp_trace_export(trace, path, NULL), MTP_OK);
    mtp_trace_destroy(trace);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    static char text[32 << 20];
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    static const char *const shown[] = {"clEnqueueNDRangeKernel",
                                        "\"kernel\"",
                                        "Memcpy HtoD",
                                        "Memcpy DtoH",
                                        "ac2g",
                                        "gpu_memcpy",
                                        "Memset",
                                        "gemm"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (strstr(text, shown[i]) == NULL)
            fail_msg("%s is not in %s", shown[i], path);
    mtp_profile_destroy(prof);
    gpt_destroy(&g);
}

int main(void)
{
    if (mt_npu_count() == 0) {
        printf("1..0 # SKIP no npu: %s\n", mt_npu_absence());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_cross_devices_in_any_layout_and_dtype),
        cmocka_unit_test(memory_is_counted_kept_and_given_back),
        cmocka_unit_test(too_much_memory_is_refused_and_the_process_goes_on),
        cmocka_unit_test(an_index_out_of_range_fails_at_the_next_wait),
        cmocka_unit_test(a_device_that_is_not_there_is_named),
        cmocka_unit_test(streams_order_their_work_and_events_measure_it),
        cmocka_unit_test(a_gpt_trains_with_the_losses_of_the_cpu),
        cmocka_unit_test(a_profile_shows_launches_kernels_and_copies),
        cmocka_unit_test(every_op_gives_what_the_cpu_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
