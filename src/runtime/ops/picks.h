/* runtime/ops/picks.h - the parsed indices of index() and index_put_(), passed from infer to the kernels. */
#ifndef RUNTIME_OPS_PICKS_H
#define RUNTIME_OPS_PICKS_H
#include "runtime/runtime.h"

/* Indices broadcast to (index_rank, index_dims). The result has the dims of self before them (`before` of
 * rest_dims), then index_dims, then the other rest_dims; if the indices are not adjacent, before is 0
 * (NumPy's rule). A mask is converted to the positions where it is true, one index per dim. */
typedef struct mt__picks {
    int count;
    mt_tensor *index[MT_MAX_RANK]; /* owned; int32 or int64 */
    int dim[MT_MAX_RANK];          /* the dim of self that index[i] indexes */
    int index_rank, rest_rank, before;
    int64_t index_dims[MT_MAX_RANK];
    int64_t rest_dims[MT_MAX_RANK], rest_strides[MT_MAX_RANK]; /* of self, not indexed */
    int rank;
    int64_t dims[MT_MAX_RANK]; /* of the result */
} mt__picks;

/* For kernels of index_add_: its source times alpha, contiguous and owned. */
mt_status mt__scaled_source(const mt__call *call, mt_tensor **out);

#endif
