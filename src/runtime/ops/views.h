/* runtime/ops/views.h - what views share with the ops that are made of them. */
#ifndef RUNTIME_OPS_VIEWS_H
#define RUNTIME_OPS_VIEWS_H
#include "runtime/runtime.h"

/* A list of sizes as dims; fails when they are more than tensors have. */
mt_status mt__size_arg(const mt_value *v, int *rank, int64_t *dims);
/* Strides with which t's memory shows as dims (of as many elements); false: it can not without a copy. */
bool mt__view_strides(const mt_tensor *t, int rank, const int64_t *dims, int64_t *strides);

#endif
