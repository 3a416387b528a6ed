/* kernels/cpu/iterate.h - iteration over up to four operands, for all elementwise kernels.
 *
 *     mt__plan p;
 *     mt__plan_begin(&p, out, result_dtype);    // the loop's result; cast if out has another dtype
 *     mt__plan_add(&p, &call->args[0], compute); // a tensor, broadcast to out, or a number
 *     mt__plan_run(&p, loop, user);
 *
 * A loop gets operands of the requested dtypes: [0] is the output, then the inputs in the order they were
 * added; a tensor of another dtype is cast block by block on the stack, a single element only once. Dims are
 * merged where the strides of all operands allow, so contiguous work of any rank is one row. Large work runs
 * through mt__parallel: a loop must not modify what `user` points to, except by atomics.
 */
#ifndef KERNELS_CPU_ITERATE_H
#define KERNELS_CPU_ITERATE_H
#include "runtime/kernels/cpu/clones.h"
#include "runtime/runtime.h"

#define MT__OPERANDS 4
#define MT__GRAIN 32768 /* elements: fewer are not worth a thread */
/* Likewise, in items of n > 0 elements. */
#define MT__GRAIN_OF(n) ((MT__GRAIN + (n)-1) / (n))

/* n elements; p and step (in bytes, 0: the same element) per operand. Operands may alias element by element,
 * but not shifted. */
typedef void mt__loop(char *const *p, const int64_t *step, int64_t n, const void *user);

typedef struct mt__plan {
    int count, rank;
    int64_t numel;
    int64_t dims[MT_MAX_RANK];
    int64_t steps[MT__OPERANDS][MT_MAX_RANK]; /* bytes */
    char *data[MT__OPERANDS];
    uint8_t has[MT__OPERANDS], wants[MT__OPERANDS]; /* dtypes */
    bool casts;
    const mt_tensor *out;
    mt__loop *loop;
    const void *user;
    mt__scalar scalars[MT__OPERANDS];
} mt__plan;

void mt__plan_begin(mt__plan *p, const mt_tensor *out, mt_dtype gives);
void mt__plan_add(mt__plan *p, const mt_value *v, mt_dtype wants);
void mt__plan_add_tensor(mt__plan *p, const mt_tensor *t, mt_dtype wants);
void mt__plan_run(mt__plan *p, mt__loop *loop, const void *user);

/* The loop that copies [1] to [0]. */
mt__loop *mt__cast_loop(mt_dtype to, mt_dtype from);
/* Copies, and casts, a tensor that broadcasts to `to`. */
void mt__plan_copy(const mt_tensor *to, const mt_tensor *from);

/* Transposes `columns` dense columns of up to MT__TURN_ROWS elements, of 4 or 8 bytes, into dense rows: tile by tile,
 * so that each cache line is fetched once. Steps in bytes. */
#define MT__TURN_ROWS 16
void mt__turn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows, int64_t columns,
              size_t size);

/* Dtypes but bool: see MT_DTYPE_LIST. */
#define MT__NUMBER_TYPES(X) MT_DTYPES_WHOLE(X) MT_DTYPES_REAL(X)

/* Loop bodies. `setup` declares what `expr` needs besides its operands: x, or a and b, or a, b and c.
 * Iterations are independent, hence ivdep (the output may be an input). First come the paths that vectorise,
 * then arbitrary strides. In expr, `type` is the type of the operands. */
#define MT__LOOP_BEGIN(attributes, name, T, setup)                                                           \
    attributes static void name(char *const *p, const int64_t *step, int64_t n, const void *user)            \
    {                                                                                                        \
        typedef T type __attribute__((unused));                                                              \
        (void)user;                                                                                          \
        setup;
/* o[i] = expr for all i, where the last argument declares the operands that vary with i. */
#define MT__LOOP_DENSE(R, expr, ...)                                                                         \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)                                                     \
    {                                                                                                        \
        __VA_ARGS__;                                                                                         \
        o[i] = (R)(expr);                                                                                    \
    }
#define MT__LOOP_STRIDED(R, expr, ...)                                                                       \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        __VA_ARGS__;                                                                                         \
        *(R *)(void *)(p[0] + i * step[0]) = (R)(expr);                                                      \
    }
#define MT__LOOP_AT(T, k) (*(const T *)(const void *)(p[k] + i * step[k])) /* element i of operand k */

#define MT__LOOP1(attributes, name, T, R, setup, expr)                                                       \
    MT__LOOP_BEGIN(attributes, name, T, setup)                                                               \
    if (step[0] == sizeof(R) && step[1] == sizeof(T)) {                                                      \
        R *o = (R *)(void *)p[0];                                                                            \
        const T *in = (const T *)(const void *)p[1];                                                         \
        MT__LOOP_DENSE(R, expr, const T x = in[i])                                                           \
    } else {                                                                                                 \
        MT__LOOP_STRIDED(R, expr, const T x = MT__LOOP_AT(T, 1))                                             \
    }                                                                                                        \
    }
#define MT__LOOP2(attributes, name, T, R, setup, expr)                                                       \
    MT__LOOP_BEGIN(attributes, name, T, setup)                                                               \
    R *o = (R *)(void *)p[0];                                                                                \
    const T *pa = (const T *)(const void *)p[1], *pb = (const T *)(const void *)p[2];                        \
    if (step[0] == sizeof(R) && step[1] == sizeof(T) && step[2] == sizeof(T)) {                              \
        MT__LOOP_DENSE(R, expr, const T a = pa[i], b = pb[i])                                                \
    } else if (step[0] == sizeof(R) && step[1] == sizeof(T) && step[2] == 0) {                               \
        const T b = *pb;                                                                                     \
        MT__LOOP_DENSE(R, expr, const T a = pa[i])                                                           \
    } else if (step[0] == sizeof(R) && step[1] == 0 && step[2] == sizeof(T)) {                               \
        const T a = *pa;                                                                                     \
        MT__LOOP_DENSE(R, expr, const T b = pb[i])                                                           \
    } else if (step[0] == sizeof(R) && step[1] == 0 && step[2] == 0) { /* of broadcast gradients */          \
        const T a = *pa, b = *pb;                                                                            \
        const R same = (R)(expr);                                                                            \
        for (int64_t i = 0; i < n; i++)                                                                      \
            o[i] = same;                                                                                     \
    } else {                                                                                                 \
        _Pragma("GCC unroll 4")                                                                              \
            MT__LOOP_STRIDED(R, expr, const T a = MT__LOOP_AT(T, 1), b = MT__LOOP_AT(T, 2))                  \
    }                                                                                                        \
    }
/* The first input may have its own type, for conditions. */
#define MT__LOOP3(attributes, name, A, T, R, setup, expr)                                                    \
    MT__LOOP_BEGIN(attributes, name, T, setup)                                                               \
    R *o = (R *)(void *)p[0];                                                                                \
    const A *pa = (const A *)(const void *)p[1];                                                             \
    const T *pb = (const T *)(const void *)p[2], *pc = (const T *)(const void *)p[3];                        \
    bool rows = step[0] == sizeof(R) && step[1] == sizeof(A);                                                \
    if (rows && step[2] == sizeof(T) && step[3] == sizeof(T)) {                                              \
        MT__LOOP_DENSE(R, expr, const A a = pa[i]; const T b = pb[i], c = pc[i])                             \
    } else if (rows && step[2] == sizeof(T) && step[3] == 0) {                                               \
        const T c = *pc;                                                                                     \
        MT__LOOP_DENSE(R, expr, const A a = pa[i]; const T b = pb[i])                                        \
    } else if (rows && step[2] == 0 && step[3] == sizeof(T)) {                                               \
        const T b = *pb;                                                                                     \
        MT__LOOP_DENSE(R, expr, const A a = pa[i]; const T c = pc[i])                                        \
    } else {                                                                                                 \
        MT__LOOP_STRIDED(R, expr, const A a = MT__LOOP_AT(A, 1);                                             \
                         const T b = MT__LOOP_AT(T, 2), c = MT__LOOP_AT(T, 3))                               \
    }                                                                                                        \
    }

#define MT__NO_SETUP (void)0

/* "\"erf\" not implemented for 'Long'" */
mt_status mt__refuse_dtype(const mt__call *call);

#endif
