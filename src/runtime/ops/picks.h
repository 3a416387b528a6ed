/* runtime/ops/picks.h - what index() and index_put_() were asked for, from their infer to the kernels of devices. */
#ifndef RUNTIME_OPS_PICKS_H
#define RUNTIME_OPS_PICKS_H
#include "runtime/runtime.h"

/* Indices broadcast to (index_rank, index_dims). The result has the dims of self before them (`before` of rest_dims), then
 * index_dims, then the other rest_dims; when indices are not adjacent, before is 0: NumPy's rule. A mask has become
 * the places where it is true, one index per dim of it. */
typedef struct mt__picks {
    int count;
    mt_tensor *index[MT_MAX_RANK]; /* owned; int32 or int64 */
    int dim[MT_MAX_RANK];          /* of self, that index[i] picks from */
    int index_rank, rest_rank, before;
    int64_t index_dims[MT_MAX_RANK];
    int64_t rest_dims[MT_MAX_RANK], rest_strides[MT_MAX_RANK]; /* of self, not picked from */
    int rank;
    int64_t dims[MT_MAX_RANK]; /* of the result */
} mt__picks;

#endif
