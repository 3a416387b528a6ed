/* present/execution_values.h - the inputs and outputs of an execution trace's node, from the shapes of a trace.
 *
 * A shape's four texts are JSON lists of one item per argument (trace/trace.h). They are looked at once, in init; then
 * nodes are written from them without looking or allocating.
 */
#ifndef MTP_PRESENT_EXECUTION_VALUES_H
#define MTP_PRESENT_EXECUTION_VALUES_H
#include "base/json_out.h"
#include "trace/trace.h"

typedef struct mtp__execution_values {
    const mtp_trace *t;    /* borrowed */
    uint8_t *sound;        /* owned: by shape; which texts are as they should be */
    uint64_t next_tensor;  /* tensors have no identity in a trace: each gets the next id */
    const char *no_device; /* what a tensor's device is called if nothing is known */
} mtp__execution_values;

mtp_status mtp__execution_values_init(mtp__execution_values *v, const mtp_trace *t, uint64_t first_tensor);
void mtp__execution_values_fini(mtp__execution_values *v);

/* {"values": [...], "shapes": [...], "types": [...], "strides": [...]} */
void mtp__execution_values_put(mtp__execution_values *v, mtp__out *o, uint32_t shape,
                               const mtp__detail *detail);
#endif
