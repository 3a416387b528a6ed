/* runtime/ops/pool.h - the geometry of a 2-d pool, as its checks (pool.c) and its kernels see it. */
#ifndef RUNTIME_OPS_POOL_H
#define RUNTIME_OPS_POOL_H
#include "runtime/runtime.h"

typedef struct mt__pool {
    int64_t planes; /* images x channels */
    int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
} mt__pool;

/* Checks with PyTorch's messages. kernel_size, stride, padding are arguments `first` and on; dilation follows them in
 * max pools; ceil_mode comes last. `op` is the name in messages. */
mt_status mt__pool_read(const mt__call *call, const char *op, const mt_tensor *input, unsigned first,
                        bool has_dilation, mt__pool *out);

#endif
