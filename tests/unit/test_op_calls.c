/* Every row of the op table called with arguments by chance, right and wrong: it answers or refuses with words; nothing is
 * read or written out of bounds (the sanitizer builds run this too), nothing is left behind.
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

/* -------------------------------------------------------------------------------------------------- one call */

/* Goes backward through an output that has a graph. */
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_arguments_are_answered_or_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
