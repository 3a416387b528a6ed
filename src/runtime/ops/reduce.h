/* runtime/ops/reduce.h - which dims an op reduces, for its infer, its kernels and its derivative. */
#ifndef RUNTIME_OPS_REDUCE_H
#define RUNTIME_OPS_REDUCE_H
#include "runtime/runtime.h"

typedef struct mt__reduction {
    uint32_t mask; /* bit i: dim i is reduced */
    bool keepdim;
    int64_t count; /* elements that make one */
} mt__reduction;

/* Of call->args[0], by the op's arguments `dim` and `keepdim`; fails as PyTorch does. No list of dims, or an empty one,
 * means all. */
mt_status mt__reduction_of(const mt__call *call, mt__reduction *out);
/* The same of a list of dims. */
mt_status mt__dims_mask(const int64_t *list, uint32_t count, int rank, uint32_t *mask);

/* self in `dtype`, retained when it is that already. */
mt_status mt__cast(const mt_tensor *t, mt_dtype dtype, mt_tensor **out);

/* A contiguous copy of t (or t, retained) with the masked dims last: what is left of them are rows of `count`. */
mt_status mt__rows_of(const mt_tensor *t, uint32_t mask, mt_tensor **out);

const char *mt__scalar_type(mt_dtype dtype); /* "Long": as messages name it */

#endif
