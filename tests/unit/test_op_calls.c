/* Every row of the op table is called with random arguments, valid and invalid: it succeeds or fails with a
 * message; nothing is read or written out of bounds (the sanitizer builds run this too), nothing leaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "op_arguments.h"

static uint64_t allocated(void)
{
    mt_memory_stats stats = {.size = sizeof stats};
    mt_memory(MT_CPU, &stats);
    return stats.allocated;
}

/* -------------------------------------------------------------------------------------------------- one
 * call */

/* Runs backward through an output that has a graph. */
static void go_back(mt_tensor *out)
{
    if (out == NULL || !mt_requires_grad(out) || mt_is_leaf(out))
        return;
    mt_value self = mt_value_tensor(out);
    mt_tensor *ones = NULL;
    if (mt_call(MT_OP_ones_like, &self, 1, &ones) == MT_OK)
        mt_backward_from(&out, &ones, 1, NULL, NULL);
    mt_release(ones);
}

static bool call_once(mt_op_id op)
{
    made m;
    memset(&m, 0, sizeof m);
    unsigned count;
    const mt_param *params = mt_op_params(op, &count);
    mt_value args[16];
    for (unsigned i = 0; i < count; i++)
        args[i] = an_argument(&m, &params[i]);
    mt_status status;
    if (mt_op_outputs(op) == 0) {
        mt_tensor **list;
        unsigned length;
        status = mt_call_list(op, args, count, &list, &length);
        if (status == MT_OK) {
            if (length > 0)
                go_back(list[0]);
            mt_list_free(list, length);
        }
    } else {
        mt_tensor *outs[8];
        status = mt_call(op, args, count, outs);
        if (status == MT_OK)
            go_back(outs[0]);
        for (unsigned i = 0; i < mt_op_outputs(op); i++)
            mt_release(outs[i]);
    }
    if (status != MT_OK && mt_last_error()[0] == 0)
        fail_msg("%s failed without a word", mt_op_name(op));
    drop_made(&m);
    return status == MT_OK;
}

/* ------------------------------------------------------------------------------------------------------
 * out= */

static bool draws(mt_op_id op)
{
    static const char *const names[] = {"rand",     "randn",     "randint",     "randint_low",
                                        "randperm", "bernoulli", "multinomial", "empty"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(mt_op_id_text(op), names[i]) == 0)
            return true;
    return false;
}

/* The contiguous bytes of both are equal, where they can be compared. */
static bool same_bytes(mt_tensor *a, mt_tensor *b)
{
    if (mt_dtype_of(a) != mt_dtype_of(b))
        return true; /* out= chose, or it was cast */
    if (mt_rank(a) != mt_rank(b) || memcmp(mt_dims(a), mt_dims(b), (size_t)mt_rank(a) * sizeof(int64_t)) != 0)
        return false;
    mt_value x = mt_value_tensor(a), y = mt_value_tensor(b);
    mt_tensor *p = NULL, *q = NULL;
    bool same = mt_call(MT_OP_contiguous, &x, 1, &p) == MT_OK &&
                mt_call(MT_OP_contiguous, &y, 1, &q) == MT_OK &&
                (mt_numel(p) == 0 ||
                 memcmp(mt_data(p), mt_data(q), (size_t)mt_numel(p) * mt_dtype_bytes(mt_dtype_of(p))) == 0);
    mt_release(p);
    mt_release(q);
    return same;
}

/* Random tensors for the results: some fit, some are arguments. */
static void some_places(made *m, mt_op_id op, mt_tensor **fit, mt_tensor **into)
{
    for (unsigned i = 0; i < mt_op_outputs(op); i++) {
        bool again = i == 0 && m->count > 0 && chance(3) == 0; /* no two results share memory */
        into[i] = again ? m->tensors[chance(m->count)] : a_tensor(m);
        mt_value like = mt_value_tensor(fit[i]);
        mt_tensor *t = NULL;
        if (fit[i] != NULL && chance(2) && mt_call(MT_OP_empty_like, &like, 1, &t) == MT_OK)
            into[i] = keep(m, t);
    }
}

static bool call_into(mt_op_id op)
{
    made m;
    memset(&m, 0, sizeof m);
    unsigned count, n = mt_op_outputs(op);
    const mt_param *params = mt_op_params(op, &count);
    mt_value args[16];
    mt_tensor *plain[8] = {NULL}, *into[8] = {NULL};
    for (unsigned i = 0; i < count; i++)
        args[i] = an_argument(&m, &params[i]);
    bool followed = mt_grad_enable(chance(4) == 0);
    bool worked = mt_call(op, args, count, plain) == MT_OK;
    some_places(&m, op, plain, into);
    mt_status status = mt_call_out(op, args, count, into);
    for (unsigned i = 0; i < n && status == MT_OK && worked; i++)
        if (plain[i] != NULL && !draws(op) && (n == 1 || into[0] != into[1]) &&
            !same_bytes(plain[i], into[i]))
            fail_msg("%s: result %u with out= is another one", mt_op_id_text(op), i);
    if (status != MT_OK && mt_last_error()[0] == 0)
        fail_msg("%s failed without a word", mt_op_name(op));
    mt_grad_enable(followed);
    for (unsigned i = 0; i < n; i++)
        mt_release(plain[i]);
    drop_made(&m);
    return status == MT_OK;
}

static void any_tensors_for_results_are_filled_or_refused(void **state)
{
    (void)state;
    const char *asked = getenv("MT_TEST_OP");
    int times = getenv("MT_TEST_CALLS") != NULL ? atoi(getenv("MT_TEST_CALLS")) : 400;
    mt_set_num_threads(1);
    for (unsigned op = 0; op < mt_op_count(); op++) {
        const char *name = mt_op_id_text((mt_op_id)op);
        mt_tensor *none[8] = {NULL};
        if (asked != NULL && strcmp(asked, name) != 0)
            continue;
        if (mt_op_out((mt_op_id)op) == NULL) {
            assert_int_equal(mt_call_out((mt_op_id)op, NULL, 0, none), MT_E_VALUE);
            continue;
        }
        uint64_t before = allocated();
        int good = 0;
        for (int i = 0; i < times; i++) {
            seed = (uint64_t)op * 1000003u + (uint64_t)i * 7919u + 54321u;
            good += call_into((mt_op_id)op);
        }
        assert_int_equal(mt_call_out((mt_op_id)op, NULL, 0, none), MT_E_VALUE);
        if (allocated() != before)
            fail_msg("%s: %lld bytes are left behind", name, (long long)(allocated() - before));
        if (good == 0 || asked != NULL)
            fprintf(stderr, "# %s: %d of %d calls with out= went well\n", name, good, times);
    }
}

static void any_arguments_are_answered_or_refused(void **state)
{
    (void)state;
    const char *asked = getenv("MT_TEST_OP");
    int times = getenv("MT_TEST_CALLS") != NULL ? atoi(getenv("MT_TEST_CALLS")) : 400;
    mt_set_num_threads(1);
    for (unsigned op = 0; op < mt_op_count(); op++) {
        const char *name = mt_op_id_text((mt_op_id)op);
        if (asked != NULL && strcmp(asked, name) != 0)
            continue;
        uint64_t before = allocated();
        int good = 0;
        for (int i = 0; i < times; i++) {
            seed = (uint64_t)op * 1000003u + (uint64_t)i * 7919u + 12345u;
            good += call_once((mt_op_id)op);
        }
        if (allocated() != before)
            fail_msg("%s: %lld bytes are left behind", name, (long long)(allocated() - before));
        if (asked != NULL)
            fprintf(stderr, "# %s: %d of %d calls went well\n", name, good, times);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_arguments_are_answered_or_refused),
                                       cmocka_unit_test(any_tensors_for_results_are_filled_or_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
