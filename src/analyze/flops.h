/* analyze/flops.h - floating-point operations of one call, from its shapes.
 *
 * mtp__flops_torch() gives what torch's with_flops gives, formula by formula, and 0 where torch has none: the
 * `flops` of rows. mtp__flops_known() covers many more ops (backward passes, softmax, norms, attention, and
 * those that only move data: 0), and says whether it knows this one, which tells how much of a run the
 * figures cover.
 */
#ifndef MTP_ANALYZE_FLOPS_H
#define MTP_ANALYZE_FLOPS_H
#include "trace/trace.h"

/* shape: an index into t->shapes; 0: none. */
uint64_t mtp__flops_torch(const mtp_trace *t, const char *op, uint32_t shape);
bool mtp__flops_known(const mtp_trace *t, const char *op, uint32_t shape, uint64_t *flops);
bool mtp__flops_in_torch(const char *op); /* torch has a formula for it */
#endif
