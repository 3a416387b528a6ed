/* runtime/ops/reduce.h - which dims an op reduces, for its infer, its kernels and its derivative. */
#ifndef RUNTIME_OPS_REDUCE_H
#define RUNTIME_OPS_REDUCE_H
#include "runtime/runtime.h"

typedef struct mt__reduction {
    uint32_t mask; /* bit i: dim i is reduced */
    bool keepdim;
    int64_t count; /* elements per output */
} mt__reduction;

/* For call->args[0], from the op's arguments `dim` and `keepdim`; fails as in PyTorch. A missing or empty
 * list of dims means all. */
mt_status mt__reduction_of(const mt__call *call, mt__reduction *out);
/* The same for a list of dims. */
mt_status mt__dims_mask(const int64_t *list, uint32_t count, int rank, uint32_t *mask);

/* t cast to `dtype`; retained if it already has it. */
mt_status mt__cast(const mt_tensor *t, mt_dtype dtype, mt_tensor **out);

/* A contiguous copy of t (or t, retained) with the masked dims last, as rows of `count` elements. */
mt_status mt__rows_of(const mt_tensor *t, uint32_t mask, mt_tensor **out);

#endif
