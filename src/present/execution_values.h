/* present/execution_values.h - inputs and outputs of an execution trace's nodes, from a trace's shapes.
 *
 * A shape's four texts are JSON lists with one item per argument (trace/trace.h). They are validated once, in
 * init; nodes are then written from them without checks or allocations.
 */
#ifndef MTP_PRESENT_EXECUTION_VALUES_H
#define MTP_PRESENT_EXECUTION_VALUES_H
#include "base/json_out.h"
#include "trace/trace.h"

typedef struct mtp__execution_values {
    const mtp_trace *t;    /* borrowed */
    uint8_t *sound;        /* owned: by shape; which texts are valid */
    uint64_t next_tensor;  /* without tensor identities in the trace, each tensor gets the next id */
    const char *no_device; /* name of an unknown device */
} mtp__execution_values;

mtp_status mtp__execution_values_init(mtp__execution_values *v, const mtp_trace *t, uint64_t first_tensor);
void mtp__execution_values_fini(mtp__execution_values *v);

/* {"values": [...], "shapes": [...], "types": [...], "strides": [...]} */
void mtp__execution_values_put(mtp__execution_values *v, mtp__out *o, uint32_t shape,
                               const mtp__detail *detail);
#endif
