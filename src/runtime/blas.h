/* runtime/blas.h - matrix products on the CPU, by OpenBLAS if available, else by our own code. */
#ifndef RUNTIME_BLAS_H
#define RUNTIME_BLAS_H
#include "runtime/runtime.h"

/* A matrix anywhere in memory: element (i, j) is data[i * row + j * column]. */
typedef struct mt__matrix {
    void *data;
    int64_t rows, columns;
    int64_t row, column; /* strides in elements */
} mt__matrix;

/* c = alpha * a @ b + beta * c; with beta 0, c is not read. All have `dtype`, which may be any but bool;
 * c->column must be 1. a and b are used in place if one of their strides is 1, else copied. Large products
 * are split over the pool. */
mt_status mt__gemm(mt_dtype dtype, double alpha, const mt__matrix *a, const mt__matrix *b, double beta,
                   const mt__matrix *c);

static inline mt__matrix mt__transposed(mt__matrix m)
{
    return (mt__matrix){m.data, m.columns, m.rows, m.column, m.row};
}

#endif
