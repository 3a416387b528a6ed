/* runtime/autocast.h - mixed precision: while it is on for a device type, the ops of its lists get operands of another
 * dtype. The lists are PyTorch's, those of CUDA for accelerators: H() in mindtorch_ops.h.
 */
#ifndef RUNTIME_AUTOCAST_H
#define RUNTIME_AUTOCAST_H
#include "runtime/runtime.h"

extern MT__FAST_TLS uint8_t mt__autocast; /* bits: the device types for which it is on, on this thread */

/* Does autocast change how this call runs? The op must not write to a tensor of the caller. */
static inline bool mt__autocasts(const mt__call *call)
{
    unsigned type = MT_DEVICE_TYPE(call->device);
    return (mt__autocast >> type & 1) != 0 && call->op->autocast[type] != MT__CAST_NONE && call->into == NULL;
}

/* The same call, with cast operands, by the dispatcher. */
mt_status mt__call_autocast(mt__call *call);

#endif
