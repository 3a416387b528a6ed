/* runtime/ops/views.h - shared by views and the ops composed of them. */
#ifndef RUNTIME_OPS_VIEWS_H
#define RUNTIME_OPS_VIEWS_H
#include "runtime/runtime.h"

/* Converts a list of sizes to dims; fails if there are more than MT_MAX_RANK. */
mt_status mt__size_arg(const mt_value *v, int *rank, int64_t *dims);
/* The dims of a view of t: `size`, with one -1 filled in. */
mt_status mt__view_size(const mt_tensor *t, const mt_value *size, int *rank, int64_t *dims);
/* mt__wrap_dim() for two adjacent arguments. */
mt_status mt__wrap_two_dims(const mt__call *call, unsigned first, int rank, int *a, int *b);
/* The strides of a view of t with these dims (same number of elements); false: needs a copy. */
bool mt__view_strides(const mt_tensor *t, int rank, const int64_t *dims, int64_t *strides);

#endif
