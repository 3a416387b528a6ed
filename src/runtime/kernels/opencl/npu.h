/* kernels/opencl/npu.h - what the ops of accelerators share: sources of kernels, elementwise maps, reductions.
 *
 * A kernel is made for each combination of dtypes and layouts that a program uses, from a template (*.cl) or an expression,
 * at its first use. Every function here leaves its message with mt__fail().
 */
#ifndef KERNELS_OPENCL_NPU_H
#define KERNELS_OPENCL_NPU_H
#include "runtime/device.h"

#define MT__GROUP 64 /* work-items of a group that makes a row */
#define MT__FLAT 128 /* work-items of a group of elementwise kernels */

extern const char mt__cl_prelude[], mt__cl_rows[], mt__cl_reduce[], mt__cl_matrix[], mt__cl_index[],
    mt__cl_create[], mt__cl_windows[];

/* Part of a key: which template. */
enum mt__family {
    MT__MAP = 1,
    MT__SOFTMAX,
    MT__LAYER_NORM,
    MT__REDUCE,
    MT__PICK,
    MT__VAR,
    MT__MATRIX,
    MT__INDEX,
    MT__CREATE,
    MT__OPTIM,
    MT__CUMSUM,
    MT__WINDOWS
};
#define MT__KEY(family, dtype, variant)                                                                      \
    ((uint64_t)(family) << 56 | (uint64_t)(dtype) << 52 | (uint64_t)(variant))

typedef struct mt__template {
    const char *name; /* the kernel's, without the dtype */
    const char *body;
    mt_dtype dtype; /* T */
    const char *defines;
} mt__template;

const char *mt__cl_type(mt_dtype dtype);   /* "float" */
const char *mt__cl_suffix(mt_dtype dtype); /* "f32" */
char *mt__cl_source(const mt__npu *npu, const char *name, mt_dtype dtype, const char *defines,
                    const char *body);
mt_status mt__npu_template(mt__npu *npu, uint64_t key, const mt__template *t, mt__kernel *out);

static inline uint64_t mt__round_up(int64_t n, uint64_t to)
{
    return ((uint64_t)n + to - 1) / to * to;
}
/* One work-item for each of n. */
static inline mt_status mt__launch_flat(mt__launch *l, const mt__kernel *k, int64_t n)
{
    uint64_t global = mt__round_up(n, MT__FLAT), local = MT__FLAT;
    return mt__launch_run(l, k, 1, &global, &local);
}
/* One work-group for each of rows. */
static inline mt_status mt__launch_rows(mt__launch *l, const mt__kernel *k, int64_t rows)
{
    uint64_t global = (uint64_t)rows * MT__GROUP, local = MT__GROUP;
    return mt__launch_run(l, k, 1, &global, &local);
}

/* A number as one element of dtype: its bytes. */
typedef union mt__element {
    bool b;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
} mt__element;
mt__element mt__element_of(mt_dtype dtype, const mt_value *v);
static inline void mt__launch_number(mt__launch *l, mt_dtype dtype, double x)
{
    mt_value v = mt_value_float(x);
    mt__element e = mt__element_of(dtype, &v);
    mt__launch_value(l, &e, (uint32_t)mt_dtype_bytes(dtype));
}

/* --------------------------------------------------------------------------------------------- elementwise */

#define MT__MAP_OPERANDS 4
typedef struct mt__map {
    const char *name;
    uint32_t id; /* of the expression: unique among all maps, below 1024 */
    const char *expression;
    mt_dtype compute, gives;
    mt_tensor *out; /* borrowed; may be an alias that lives as long as the call */
    int count;
    struct {
        const mt_tensor *tensor; /* borrowed; NULL: number */
        mt__element number;
        mt_dtype wants;
    } in[MT__MAP_OPERANDS];
    int number_count;
    mt__element numbers[4]; /* k0 ... of the compute dtype */
} mt__map;

void mt__map_add(mt__map *m, const mt_value *v, mt_dtype wants);
void mt__map_add_tensor(mt__map *m, const mt_tensor *t, mt_dtype wants);
void mt__map_number(mt__map *m, const mt_value *v);
mt_status mt__map_run(const mt__map *m);

/* to = from, cast and broadcast; both on the device. */
mt_status mt__npu_assign(mt_tensor *to, const mt_tensor *from);
mt_status mt__npu_zero_tensor(mt_tensor *t); /* contiguous */

/* ---------------------------------------------------------------------------------------------- reductions */

typedef struct mt__fold {
    uint32_t id; /* below 64 */
    const char *name, *first, *map, *fold, *end;
} mt__fold;
/* y [outer, inner] = fold of x [outer, n, inner], both contiguous; k0 is a number for map and end. */
mt_status mt__npu_reduce(const mt__fold *f, mt_dtype compute, const mt_tensor *x, int64_t outer, int64_t n,
                         int64_t inner, const mt_tensor *y, double k0);
extern const mt__fold mt__fold_sum;

/* Contiguous tensors for the time of a call. */
typedef struct mt__held {
    mt_tensor *items[10];
    int count;
    mt_status status;
} mt__held;
const mt_tensor *mt__hold(mt__held *h, const mt_tensor *t); /* NULL stays NULL */
const mt_tensor *mt__hold_as(mt__held *h, const mt_tensor *t, mt_dtype dtype);
mt_status mt__let_go(mt__held *h);

/* ------------------------------------------------------------------------------------------------- the ops */

/* clang-format off */
/* X(kernel): mt__npu_KERNEL serves the ops that table.c names */
#define MT__NPU_KERNELS(X)                                                                                   \
    X(elementwise)                                                                                           \
    X(gelu)                                                                                                  \
    X(pow)                                                                                                   \
    X(elu)                                                                                                   \
    X(clamp) X(copy_kernel) X(clone) X(to_copy) X(fill_kernel) X(zero) X(nothing) X(cat) X(stack) X(repeat)  \
        X(flip) X(roll) X(triangle) X(arange) X(linspace) X(eye) X(chance) X(sum) X(fold) X(pick) X(var)     \
            X(vector_norm) X(logsumexp) X(cumsum) X(mm) X(addmm) X(bmm) X(baddbmm) X(mv) X(dot) X(softmax)   \
                X(softmax_backward) X(layer_norm) X(layer_norm_backward) X(embedding)                        \
                    X(embedding_dense_backward) X(index_select) X(index_add) X(gather) X(scatter) X(index)   \
                        X(index_put) X(nonzero) X(loss) X(loss_backward) X(nll_loss) X(nll_loss_backward)    \
                            X(batch_norm) X(batch_norm_backward) X(max_pool2d) X(avg_pool2d)                 \
                                X(adaptive_avg_pool2d) X(convolution) X(convolution_backward) X(sort)        \
                                    X(randperm) X(multinomial)
/* clang-format on */
#define X(kernel) mt__fn mt__npu_##kernel;
MT__NPU_KERNELS(X)
#undef X

bool mt__npu_is_elementwise(mt_op_id op);

#endif
