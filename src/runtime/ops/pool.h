/* runtime/ops/pool.h - the geometry of 2-d pooling, for its checks (pool.c) and kernels. */
#ifndef RUNTIME_OPS_POOL_H
#define RUNTIME_OPS_POOL_H
#include "runtime/runtime.h"

typedef struct mt__pool {
    int64_t planes; /* images x channels */
    int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
} mt__pool;

/* Checks with PyTorch's messages. kernel_size, stride and padding start at argument `first`; dilation follows
 * for max pooling; ceil_mode is last. `op` is the name in messages. */
mt_status mt__pool_read(const mt__call *call, const char *op, const mt_tensor *input, unsigned first,
                        bool has_dilation, mt__pool *out);

#endif
