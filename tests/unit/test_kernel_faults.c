/* Unit: every allocation of CPU kernels with buffers of their own is made to fail. The op fails with a message or
 * takes another way to the same result; nothing crashes, no tensor leaks.
 *
 * The program's malloc replaces the C library's, for the runtime, too.
 */
#define _GNU_SOURCE
#include "small_tensors.h"
#include <errno.h>
#include <stdatomic.h>

/* glibc's own names for what is replaced. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static _Atomic long until_fault; /* the allocation that fails, counted from now; 0 and less: none */

#define EXPORTED __attribute__((visibility("default")))

static bool fails(void)
{
    if (atomic_load(&until_fault) <= 0 || atomic_fetch_sub(&until_fault, 1) != 1)
        return false;
    errno = ENOMEM;
    return true;
}

EXPORTED void *malloc(size_t bytes)
{
    return fails() ? NULL : __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

EXPORTED void *realloc(void *p, size_t bytes)
{
    return fails() ? NULL : __libc_realloc(p, bytes);
}

EXPORTED void *aligned_alloc(size_t align, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(align, bytes);
}

EXPORTED int posix_memalign(void **out, size_t align, size_t bytes)
{
    void *p = fails() ? NULL : __libc_memalign(align, bytes);
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

/* ------------------------------------------------------------------------------------------------- the calls */

static mt_tensor *some(mt_dtype dtype, int rank, const int64_t *dims)
{
    mt_tensor *t = NULL;
    mt_value args[] = {mt_value_ints(dims, (uint32_t)rank), mt_value_int(dtype)};
    assert_mt_ok(mt_call(MT_OP_empty, args, 2, &t));
    for (int64_t i = 0; i < mt_numel(t); i++) {
        int64_t value = i * 37 % 101;
        mt_element_set((char *)mt_data(t) + (size_t)i * mt_dtype_bytes(dtype), dtype,
                       mt_dtype_is_real(dtype) ? mt_value_float((double)value / 50 - 1)
                                               : mt_value_int(value));
    }
    return t;
}

typedef struct a_call {
    const char *name;
    mt_op_id op;
    mt_dtype dtype;
    int64_t first[4], second[4]; /* dims of tensors */
    int64_t stride, groups;
} a_call;

static const a_call calls[] = {
    {"channels side by side", MT_OP_convolution, MT_FLOAT32, {2, 32, 9, 9}, {32, 32, 3, 3}, 1, 1},
    {"neighbours side by side", MT_OP_convolution, MT_FLOAT32, {2, 3, 8, 32}, {5, 3, 3, 3}, 1, 1},
    {"strided", MT_OP_convolution, MT_FLOAT32, {2, 3, 33, 33}, {16, 3, 7, 7}, 2, 1},
    {"depthwise", MT_OP_convolution, MT_FLOAT32, {2, 4, 15, 15}, {4, 1, 3, 3}, 1, 4},
    {"depthwise, 7 x 7", MT_OP_convolution, MT_FLOAT32, {2, 4, 60, 60}, {4, 1, 7, 7}, 1, 4},
    {"columns", MT_OP_convolution, MT_FLOAT64, {2, 4, 64, 64}, {4, 4, 3, 3}, 1, 1},
    {"point", MT_OP_convolution, MT_FLOAT32, {2, 8, 9, 9}, {8, 8, 1, 1}, 1, 1},
    {"sort", MT_OP_sort, MT_FLOAT32, {2, 3, 4, 5000}, {0}, 0, 0},
    {"sort of few", MT_OP_sort, MT_FLOAT64, {2, 3, 4, 100}, {0}, 0, 0},
    {"topk", MT_OP_topk, MT_FLOAT32, {2, 3, 4, 300}, {0}, 0, 0},
    {"halves, which are widened", MT_OP_convolution, MT_FLOAT16, {2, 3, 9, 9}, {4, 3, 3, 3}, 1, 1},
    {"sort of halves", MT_OP_sort, MT_BFLOAT16, {2, 3, 4, 300}, {0}, 0, 0},
    {"topk of bytes", MT_OP_topk, MT_UINT8, {2, 3, 4, 300}, {0}, 0, 0},
};

static mt_tensor *arguments[3];

static void make_arguments(const a_call *c, bool backward)
{
    arguments[0] = some(c->dtype, 4, c->first);
    arguments[1] = c->op == MT_OP_convolution ? some(c->dtype, 4, c->second) : NULL;
    arguments[2] = NULL;
    if (backward) {
        int64_t dims[4] = {c->first[0], c->second[0], 0, 0};
        for (int d = 2; d < 4; d++)
            dims[d] = (c->first[d] + 2 * (c->second[d] / 2) - c->second[d]) / c->stride + 1;
        arguments[2] = some(c->dtype, 4, dims);
    }
}

static mt_status run(const a_call *c, bool backward, mt_tensor **outs)
{
    const int64_t stride[] = {c->stride, c->stride}, padding[] = {c->second[2] / 2, c->second[3] / 2},
                  ones[] = {1, 1}, zeros[] = {0, 0}, mask[] = {1, 1, 1}, bias[] = {c->second[0]};
    mt_value lists[] = {mt_value_ints(stride, 2), mt_value_ints(padding, 2), mt_value_ints(ones, 2),
                        mt_value_truth(false),    mt_value_ints(zeros, 2),   mt_value_int(c->groups)};
    mt_value args[11] = {mt_value_tensor(arguments[0]), mt_value_tensor(arguments[1]), mt_value_none(NULL)};
    memset(outs, 0, 3 * sizeof *outs);
    if (backward) {
        mt_value first[] = {mt_value_tensor(arguments[2]), mt_value_tensor(arguments[0]),
                            mt_value_tensor(arguments[1]), mt_value_ints(bias, 1)};
        memcpy(args, first, sizeof first);
        memcpy(args + 4, lists, sizeof lists);
        args[10] = mt_value_ints(mask, 3);
        return mt_call(MT_OP_convolution_backward, args, 11, outs);
    }
    if (c->op == MT_OP_convolution) {
        memcpy(args + 3, lists, sizeof lists);
        return mt_call(c->op, args, 9, outs);
    }
    unsigned count = 0;
    if (c->op == MT_OP_topk)
        args[++count] = mt_value_int(50);
    args[++count] = mt_value_int(-1);
    args[++count] = mt_value_truth(true);
    return mt_call(c->op, args, count + 1, outs);
}

static double element(const mt_tensor *t, int64_t i)
{
    const mt_dtype dtype = mt_dtype_of(t);
    mt_value v = mt_element((const char *)mt_data(t) + (size_t)i * mt_dtype_bytes(dtype), dtype);
    return v.kind == MT_FLOAT ? v.as.f : (double)v.as.i;
}

static bool near(const mt_tensor *got, const mt_tensor *want)
{
    for (int64_t i = 0; want != NULL && i < mt_numel(want); i++)
        if (!(fabs(element(got, i) - element(want, i)) <= 1e-4 * (1 + fabs(element(want, i)))))
            return false;
    return true;
}

/* Each call runs in a thread of its own, which keeps no buffers of earlier ones. */
typedef struct one_run {
    const a_call *call;
    bool backward;
    long nth; /* allocation that fails; 0: none */
    mt_tensor *outs[3];
    mt_status status;
    bool hit;
    char error[256];
} one_run;

static void *run_once(void *user)
{
    one_run *r = user;
    atomic_store(&until_fault, r->nth);
    r->status = run(r->call, r->backward, r->outs);
    r->hit = atomic_exchange(&until_fault, 0) <= 0;
    snprintf(r->error, sizeof r->error, "%s", mt_last_error());
    return NULL;
}

static one_run in_a_thread(const a_call *c, bool backward, long nth)
{
    one_run r = {.call = c, .backward = backward, .nth = nth};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_once, &r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return r;
}

/* The allocations of a call fail in turn, until it makes fewer. Returns how many failed. */
static long check(const a_call *c, bool backward)
{
    uint64_t before = allocated();
    make_arguments(c, backward);
    one_run whole = in_a_thread(c, backward, 0), r;
    if (whole.status != MT_OK)
        fail_msg("%s: %s", c->name, whole.error);
    uint64_t with_whole = allocated();
    long nth = 0;
    do {
        r = in_a_thread(c, backward, ++nth);
        if (r.status != MT_OK && (!r.hit || r.error[0] == 0))
            fail_msg("%s: allocation %ld: status %d, \"%s\"", c->name, nth, (int)r.status, r.error);
        for (int i = 0; i < 3; i++) {
            if (r.status == MT_OK && !near(r.outs[i], whole.outs[i]))
                fail_msg("%s: allocation %ld: result %d is wrong", c->name, nth, i);
            mt_release(r.outs[i]);
        }
        assert_int_equal(allocated(), with_whole);
    } while (r.hit);
    for (int i = 0; i < 3; i++) {
        mt_release(whole.outs[i]);
        mt_release(arguments[i]);
    }
    assert_int_equal(allocated(), before);
    return nth - 1;
}

static void a_kernel_without_memory_fails_or_finds_another_way(void **state)
{
    (void)state;
    long faults = 0;
    for (int threads = 1; threads <= 2; threads++) {
        mt_set_num_threads(threads);
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            faults += check(&calls[i], false);
            if (calls[i].op == MT_OP_convolution)
                faults += check(&calls[i], true);
        }
    }
    assert_in_range(faults, 50, 10000); /* the program's malloc is in use */
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_kernel_without_memory_fails_or_finds_another_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
