/* analyze/tree.h - internals of mtp_tree (mtprof_analysis.h). Private to tree*.c.
 *
 *   tree.c       the nodes, their order and nesting; the public calls
 *   tree_ids.c   identities of tensors and memory
 *
 * create() makes all of it; it never changes.
 */
#ifndef MTP_ANALYZE_TREE_H
#define MTP_ANALYZE_TREE_H
#include "trace/trace.h"

struct mtp_tree {
    const mtp_trace *t; /* borrowed */
    uint32_t count;
    uint32_t
        *item; /* owned, by node: a span, span_count + a memory event, or that + memory_count + an instant */
    uint32_t *parent;     /* owned, by node; `count` for a root */
    uint32_t *first;      /* owned, by node plus one for the roots: where its children begin */
    uint32_t *children;   /* owned: nodes grouped by parent, by time */
    uint32_t *thread_of;  /* owned, by track */
    uint32_t *allocation; /* owned, by slot; 0: none */
    uint32_t *id;         /* owned, by slot: 1 + the id; 0: none */
};

/* A slot is anything with ids: a tensor of the trace, or tensor_count + a memory event. */
mtp_status mtp__tree_ids(mtp_tree *tree);
#endif
