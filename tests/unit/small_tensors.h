/* tests/unit/small_tensors.h - tensors for the tests of the runtime. */
#ifndef TESTS_UNIT_SMALL_TENSORS_H
#define TESTS_UNIT_SMALL_TENSORS_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "../left_out.h"
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

static inline mt_tensor *from(const float *data, int rank, const int64_t *dims)
{
    mt_tensor *t;
    assert_mt_ok(mt_tensor_from(data, MT_FLOAT32, rank, dims, &t));
    return t;
}

static inline mt_tensor *vector(int64_t n, float first)
{
    float data[64];
    for (int64_t i = 0; i < n; i++)
        data[i] = first + (float)i;
    return from(data, 1, &n);
}

static inline double item(const mt_tensor *t)
{
    double value = NAN;
    assert_non_null(t);
    assert_mt_ok(mt_item(t, &value));
    return value;
}

static inline uint64_t allocated(void)
{
    mt_memory_stats stats = {.size = sizeof stats};
    assert_mt_ok(mt_memory(MT_CPU, &stats));
    return stats.allocated;
}

static inline void count_drop(void *user)
{
    ++*(int *)user;
}
#endif
