/* Device "npu" against the CPU: every op with arguments by chance, a GPT that trains alike on both, memory, streams, errors, and
 * what the profiler shows. Skipped, with the reason, where there is no OpenCL device.
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

/* ------------------------------------------------------------------------------------------------ comparing */

static bool alike(double a, double b, double most)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b || (fabs(a) > 1e30 && fabs(b) > 1e30);
    return fabs(a - b) <= most * (1 + fabs(b));
}

static double element(const void *data, mt_dtype dtype, int64_t i)
{
    switch (dtype) {
    case MT_BOOL:
        return ((const bool *)data)[i];
    case MT_INT32:
        return ((const int32_t *)data)[i];
    case MT_INT64:
        return (double)((const int64_t *)data)[i];
    case MT_FLOAT32:
        return (double)((const float *)data)[i];
    default:
        return ((const double *)data)[i];
    }
}

/* "" when they are the same; else how they differ. */
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
    double most = mt_dtype_of(want) == MT_FLOAT64 ? 1e-9 : mt_dtype_of(want) == MT_FLOAT32 ? 2e-5 : 0;
    for (int64_t i = 0; i < mt_numel(want) && text[0] == 0; i++) {
        double a = element(mt_data(here), mt_dtype_of(want), i), b = element(mt_data(dense), mt_dtype_of(want), i);
        if (!alike(a, b, most))
            snprintf(text, sizeof text, "element %lld is %.9g, not %.9g", (long long)i, a, b);
    }
    mt_release(here);
    mt_release(dense);
    return text;
}

/* -------------------------------------------------------------------------------------------- ops by chance */

/* Their results are the generator's, or what lay in memory. */
static bool by_chance(const char *name)
{
    static const char *const names[] = {"empty",   "empty_like", "rand",       "rand_like", "randn",     "randn_like", "randint",
                                        "randint_low", "randperm",   "uniform_",   "normal_",   "random_",   "bernoulli_",
                                        "bernoulli",   "multinomial", "dropout", "scaled_dot_product_attention"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Where several elements go to one place, which of them stays is not said. */
static bool any_order(const char *name)
{
    static const char *const names[] = {"scatter", "scatter_", "index_put_", "_index_put_impl_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

typedef struct twins {
    mt_tensor *here[64], *there[64];
    unsigned count;
} twins;

/* The same tensor gives the same twin; strides are kept by viewing the twin of all of its storage. */
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

/* 1: compared; 0: the CPU refuses it; -1: no kernel. */
static int compare_once(mt_op_id op)
{
    made m;
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
        if (args[i].kind == MT_TENSOR)
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
                fail_msg("%s, seed %llu: %s", mt_op_id_text(op), (unsigned long long)seed, how);
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
    int times = getenv("MT_TEST_CALLS") != NULL ? atoi(getenv("MT_TEST_CALLS")) : 25, without = 0, with = 0;
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
}

int main(void)
{
    if (mt_npu_count() == 0) {
        printf("1..0 # SKIP no npu: %s\n", mt_npu_absence());
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_gives_what_the_cpu_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
