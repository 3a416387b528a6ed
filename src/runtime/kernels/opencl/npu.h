/* kernels/opencl/npu.h - shared by the ops of accelerators: kernel sources, elementwise maps, reductions.
 *
 * A kernel is generated on first use for each combination of dtypes and layouts: from a template (*.cl) or an
 * expression. If the driver compiles kernels only at their first launch (lazy_kernels), all kernels of a
 * family and dtype share one program, since there programs are the expensive part. Every function here
 * reports errors with mt__fail().
 */
#ifndef KERNELS_OPENCL_NPU_H
#define KERNELS_OPENCL_NPU_H
#include "runtime/device/device.h"
#include <stdio.h>

#define MT__GROUP 64 /* work-items per group of row kernels */
#define MT__FLAT 128 /* work-items per group of elementwise kernels */

extern const char mt__cl_prelude[], mt__cl_rows[], mt__cl_reduce[], mt__cl_matrix[], mt__cl_index[],
    mt__cl_create[], mt__cl_windows[], mt__cl_sort[];

/* The part of a key that says which family a kernel belongs to. */
enum mt__family_id {
    MT__MAP = 1,
    MT__ROWS,
    MT__REDUCE,
    MT__MATRIX,
    MT__INDEX,
    MT__CREATE,
    MT__OPTIM,
    MT__WINDOWS,
    MT__SORT
};
#define MT__KEY(family, dtype, variant)                                                                      \
    ((uint64_t)(family) << 56 | (uint64_t)(dtype) << 52 | (uint64_t)(variant))

/* Dtypes as bits: those that kernels compute in. */
#define MT__OF_REAL ((unsigned)MT_REAL_DTYPES & ~(unsigned)MT_NARROW_DTYPES)
#define MT__OF_WHOLE ((unsigned)MT_WHOLE_DTYPES & ~(unsigned)MT_NARROW_DTYPES)
#define MT__OF_TRUTH (1u << MT_BOOL)
#define MT__OF_NUMBER (MT__OF_REAL | MT__OF_WHOLE)
#define MT__OF_ANY (MT__OF_NUMBER | MT__OF_TRUTH)

typedef struct mt__variant {
    const char *name;    /* of the kernel, without the dtype */
    const char *defines; /* for the template: "KEY value;KEY(x) value" */
    uint8_t of;          /* the possible dtypes of T */
} mt__variant;

/* For lists of variants, X(id, name, defines, of): their ids and their table. */
#define MT__VARIANT_ID(id, ...) id,
#define MT__VARIANT(id, ...) [id] = {__VA_ARGS__},

typedef struct mt__family {
    enum mt__family_id id;
    const char *body; /* the template */
    const mt__variant *variants;
    unsigned count;
} mt__family;

const char *mt__cl_type(mt_dtype dtype);   /* "float" */
const char *mt__cl_suffix(mt_dtype dtype); /* "f32" */
/* Writes the start of a program. */
void mt__cl_begin(FILE *f, const mt__npu *npu, mt_dtype dtype);
mt_status mt__npu_template(mt__npu *npu, const mt__family *family, unsigned variant, mt_dtype dtype,
                           mt__kernel *out);
/* Begins the launch of a variant on t's device, for its dtype. */
mt_status mt__launch_variant(mt__launch *l, mt__kernel *k, const mt__family *family, unsigned variant,
                             const mt_tensor *t);

static inline uint64_t mt__round_up(int64_t n, uint64_t to)
{
    return ((uint64_t)n + to - 1) / to * to;
}
/* One work-item per element of n. */
static inline mt_status mt__launch_flat(mt__launch *l, const mt__kernel *k, int64_t n)
{
    uint64_t global = mt__round_up(n, MT__FLAT), local = MT__FLAT;
    return mt__launch_run(l, k, 1, &global, &local);
}
/* One work-group per row. */
static inline mt_status mt__launch_rows(mt__launch *l, const mt__kernel *k, int64_t rows)
{
    uint64_t global = (uint64_t)rows * MT__GROUP, local = MT__GROUP;
    return mt__launch_run(l, k, 1, &global, &local);
}

static inline void mt__launch_flag(mt__launch *l, bool flag)
{
    mt__launch_value(l, &(int32_t){flag}, 4);
}
static inline void mt__launch_number(mt__launch *l, mt_dtype dtype, double x)
{
    mt_value v = mt_value_float(x);
    mt__scalar e = mt__scalar_of(dtype, &v);
    mt__launch_value(l, &e, (uint32_t)mt_dtype_bytes(dtype));
}

/* --------------------------------------------------------------------------------------------- elementwise */

#define MT__MAP_OPERANDS 4
#define MT__MAP_NUMBERS 4

/* A function of elements in OpenCL C, with operands a, b, c, d and numbers k0 ... */
typedef struct mt__expression {
    const char *name;                 /* of the kernel; expressions with the same name share it */
    const char *operands;             /* positions of arguments, with ? before one that is read as bool */
    const char *numbers;              /* positions, as above */
    const char *real, *whole, *truth; /* for floats, integers, bools; NULL: the dtype is refused */
    bool gives_truth;
} mt__expression;

/* Expressions that belong to no op: ids after those of ops. */
enum {
    MT__TANH_GELU = MT_OP_COUNT,
    MT__TANH_GELU_BACKWARD,
    MT__ELU_OF_RESULT,
    MT__POW,
    MT__SQUARE,
    MT__CUBE,
    MT__CLAMP_BOTH,
    MT__CLAMP_LOW,
    MT__CLAMP_HIGH,
    MT__COPY,
    MT__OFFSETS_FIRST,
    MT__OFFSETS_MORE,
    MT__LOSSES,
    MT__EXPRESSIONS = MT__LOSSES + 7
};
_Static_assert(MT__EXPRESSIONS < 1024, "ids of expressions have ten bits");
extern const mt__expression mt__expressions[MT__EXPRESSIONS]; /* entries without a name are unused */

typedef struct mt__map {
    uint32_t id; /* of the expression */
    mt_dtype compute;
    mt_tensor *out; /* borrowed; may be an alias that lives only during the call */
    int count;
    struct {
        const mt_tensor *tensor; /* borrowed; NULL: number */
        mt__scalar number;
        mt_dtype wants;
    } in[MT__MAP_OPERANDS];
    int number_count;
    mt__scalar numbers[MT__MAP_NUMBERS]; /* k0 ... of the compute dtype */
} mt__map;

void mt__map_prepare(void); /* called once, first */
void mt__map_add(mt__map *m, const mt_value *v, mt_dtype wants);
void mt__map_add_tensor(mt__map *m, const mt_tensor *t, mt_dtype wants);
void mt__map_number(mt__map *m, const mt_value *v);
mt_status mt__map_run(const mt__map *m);

/* to = from, cast and broadcast; both on the device. */
mt_status mt__npu_assign(mt_tensor *to, const mt_tensor *from);
mt_status mt__npu_zero_tensor(mt_tensor *t); /* contiguous */

/* ---------------------------------------------------------------------------------------------- reductions */

enum mt__fold {
    MT__SUM,
    MT__MEAN,
    MT__PROD,
    MT__MOST,
    MT__LEAST,
    MT__ANY,
    MT__ALL,
    MT__NORM_2,
    MT__NORM_1,
    MT__NORM_INF,
    MT__NORM_MINUS_INF,
    MT__NORM_0,
    MT__NORM_P,
    MT__FOLDS
};
/* y [outer, inner] = fold of x [outer, n, inner], both contiguous and of one dtype; k0 is a
 * number for the fold. */
mt_status mt__npu_reduce(enum mt__fold fold, const mt_tensor *x, int64_t outer, int64_t n, int64_t inner,
                         const mt_tensor *y, double k0);

/* ------------------------------------------------------------------------------------------------- products */

typedef struct mt__matrix {
    const mt_tensor *t;                       /* borrowed */
    int64_t at;                               /* offset of the first element from the tensor's */
    int64_t rows, columns, row, column, step; /* step: to the next matrix of the batch */
} mt__matrix;
/* c = alpha * a @ b + beta * c, `batch` times; c's matrices are dense and consecutive, starting
 * at element c_at. */
mt_status mt__npu_product(const mt__matrix *a, const mt__matrix *b, const mt_tensor *c, int64_t c_at,
                          int64_t batch, double alpha, double beta);

/* ------------------------------------------------------------------------------------------------- the ops */

/* clang-format off */
/* X(kernel): mt__npu_KERNEL implements the ops listed in table.c */
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

#endif
