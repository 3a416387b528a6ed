/* runtime/autograd/autograd.h - the graph: nodes, saved tensors, and how to write derivatives.
 *
 * A derivative is an mt__grad constant next to its function. The function reads the gradients of the op's
 * outputs and its saved arguments, and computes the gradient of each wanted argument with MT(), in the scope
 * that the engine opened:
 *
 *     static mt_status mul_backward(mt__backward *b)
 *     {
 *         if (mt__wants(b, 0))
 *             mt__give(b, 0, MT(mul, b->grads[0], b->args[1]));
 *         if (mt__wants(b, 1))
 *             mt__give(b, 1, MT(mul, b->grads[0], b->args[0]));
 *         return mt_scope_status();
 *     }
 *     const mt__grad mt__grad_mul = {"MulBackward0", "self:other other:self", mul_backward};
 *
 * The engine sums a gradient over broadcast dims and casts it to the argument's dtype, so a derivative need
 * not. b->args are the op's arguments; a tensor that `saves` does not name is MT_NONE (its shape is in
 * mt__meta_of). Numbers, lists of ints and texts are always present. Results are saved as result, result1 ...
 */
#ifndef RUNTIME_AUTOGRAD_AUTOGRAD_H
#define RUNTIME_AUTOGRAD_AUTOGRAD_H
#include "runtime/runtime.h"

typedef struct mt__meta { /* shape and type of a tensor that was not saved */
    uint8_t dtype, rank;
    bool in_columns; /* a column-major matrix */
    mt_device device;
    int64_t dims[MT_MAX_RANK];
} mt__meta;

/* Layout of elements in a storage. Nodes of as_strided keep that of self in `user`. */
typedef struct mt__geometry {
    int rank;
    int64_t offset;
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
} mt__geometry;

typedef struct mt__backward {
    mt_node *node;
    mt_tensor *const *grads;   /* gradients of the op's outputs, borrowed; NULL: zero */
    const mt_value *args;      /* borrowed */
    mt_tensor *const *results; /* borrowed: the saved outputs, NULL where not saved */
    mt_tensor **out;           /* per edge: set by mt__give */
    uint64_t spared;           /* bits of the first 64 edges: no requested gradient lies behind them */
} mt__backward;

struct mt__grad {
    const char *name; /* "AddBackward0" */
    const char *
        saves; /* names of parameters, result, result1 ...; separated by spaces. "self:other": self, if the gradient
                        * of other is wanted */
    mt_status (*run)(mt__backward *b);
    const char
        *constants;  /* names of parameters without a derivative, which must not be tracked; NULL: none */
    bool only_first; /* results but the first are constants to autograd */
    const char *of_number;    /* the node's name if the Operand is a number; NULL: the same */
    const mt__grad *in_place; /* the derivative of the op in place, if that is another one; else NULL */
};

typedef struct mt__edge {
    mt_node *node; /* owned; NULL: not wanted */
    uint32_t output;
} mt__edge;

typedef struct mt__saved {
    mt_tensor *tensor; /* owned; an output is detached from this node, which it would keep alive */
    uint32_t version;
    bool is_output;
    bool had_history; /* an input that was no leaf */
} mt__saved;

typedef enum mt__node_kind {
    MT__NODE_OP,
    MT__NODE_ACCUMULATE,
    MT__NODE_CUSTOM,
    MT__NODE_COPY_SLICES
} mt__node_kind;

typedef struct mt__hook {
    _Atomic uint32_t refs;
    uint64_t id;
    uint32_t output; /* of the node; 0 for a leaf */
    bool retains;    /* stores the gradient in `tensor`; runs after all others */
    mt_hook_fn *fn;
    void (*drop)(void *user);
    void *user;
    mt_tensor *tensor; /* borrowed; for retains */
} mt__hook;

typedef struct mt__hooks {
    mt__hook **items; /* owned */
    uint32_t count, room;
} mt__hooks;

/* The state of a node in one run of the engine. */
typedef struct mt__visit {
    uint32_t waiting; /* number of gradients still to come */
    bool needed, walked;
    mt_tensor **incoming; /* per output: owned */
} mt__visit;

struct mt_node {
    _Atomic uint32_t refs;
    uint8_t kind;  /* mt__node_kind */
    bool released; /* saved tensors were released after a backward pass */
    bool has_saved;
    uint8_t arg_count;
    const mt__grad *grad;
    const mt__op *op;
    const char *name;
    uint64_t sequence, thread;
    uint32_t edge_count, out_count;
    mt__edge *edges; /* from here on: in the node's own block */
    mt__meta *metas; /* of the tensors at the edges */
    mt__meta *outs;  /* of the outputs */
    mt_value *args;
    mt__saved *saved;           /* per edge, of the arguments; tensor NULL: not saved */
    mt__saved *saved_out;       /* per output */
    int16_t slot[MT__MAX_ARGS]; /* the first edge of an argument; -1: none */
    mt_tensor *leaf;            /* owned; for ACCUMULATE */
    mt_node *outer;             /* borrowed: the CopySlices that runs it, or NULL */
    mt_custom_fn *custom;
    void (*let_go)(void *user); /* of a custom function: releases what it saved; or NULL */
    void (*drop)(void *user);
    void *user;
    mt__hooks hooks;      /* on its outputs */
    _Atomic uint64_t run; /* the engine run that owns `visit`; 0: none */
    mt__visit visit;
};

/* A count of changes that is not the storage's. */
typedef struct mt__versions {
    _Atomic uint32_t refs;
    uint32_t value;
} mt__versions;

/* Rarely needed parts of a tensor. */
typedef struct mt__extra {
    mt_node *accumulator;          /* of a leaf: weak, guarded by the accumulators' lock */
    mt__hooks hooks;               /* of a leaf: before accumulation */
    mt__hooks post;                /* of a leaf: after it */
    mt_tensor *base;               /* of a view created under autograd: owned */
    mt_node *retained;             /* after detach_(): owned, the node whose gradient it retains; or NULL */
    uint32_t base_version;         /* for views: version of the memory when grad_fn was made */
    struct mt__versions *versions; /* owned; NULL: the storage's */
} mt__extra;

extern MT__FAST_TLS bool mt__grad_mode;
extern MT__FAST_TLS bool mt__deriving;     /* within a derivative: the tensors are the engine's own */
extern MT__FAST_TLS uint64_t mt__sequence; /* of the next node on this thread */
uint64_t mt__thread_number(void);          /* the system's id of this thread */

mt__extra *mt__extra_of(mt_tensor *t);  /* created if missing; NULL: out of memory */
void mt__autograd_forget(mt_tensor *t); /* the tensor is being freed */

/* The arguments that autograd tracks: bits. */
uint32_t mt__tracked_args(const mt__call *call);
/* Fails if autograd tracks an argument that the op has no derivative for. */
mt_status mt__check_constants(const mt__call *call);
/* Before an op changes an argument in place: is it allowed? */
mt_status mt__in_place_check(const mt__call *call);
mt_status mt__may_change(mt_tensor *t); /* the same, of a tensor */
/* For an argument of an op that autograd tracks: is it an input for the memory timeline? */
bool mt__is_input(const mt_tensor *t);
/* After an op ran: gives its outputs a node, and the memory that an in-place op changed a new version. original: self
 * before an in-place op that saves it; or NULL. */
mt_status mt__record_node(mt__call *call, mt_tensor *original);
mt_status mt__unpack(mt_node *node, const mt__saved *saved, uint32_t output, mt_tensor **out); /* owned */
/* Makes t, an untracked alias of an output, a function of the node's inputs. */
mt_status mt__as_output(mt_node *node, uint32_t output, mt_tensor *t);

void mt__geometry_set(mt__geometry *geometry, const mt_tensor *t);
mt_status mt__node_keep_geometry(mt_node *node, const mt_tensor *self); /* for as_strided's derivative */

/* After a view op, tracked or not: links the view to its base, so that changing one updates the
 * history of the other. */
mt_status mt__note_view(const mt__call *call);
mt_status mt__refresh_view(mt_tensor *t);
/* Regenerates the grad_fn of a view if its memory has changed since. */
static inline mt_status mt__fresh(mt_tensor *t)
{
    bool stale = (t->flags & MT__IS_VIEW) && t->extra != NULL && t->extra->base != NULL &&
                 t->extra->base_version != *mt__version(t);
    return stale ? mt__refresh_view(t) : MT_OK;
}

/* After an in-place op: sets the history of t, and of its base, to the node's output (0, if t has a base). */
mt_status mt__rebase(mt_tensor *t, mt_node *node, uint32_t output);

/* Guard the state that runs of the engine share: a leaf's gradient, a node's saved tensors. Each is one of a few locks,
 * chosen by address; none is taken while another is held, and no callback runs under one. Rank: before the
 * accumulators' lock. */
void mt__leaf_lock(const mt_tensor *leaf);
void mt__leaf_unlock(const mt_tensor *leaf);
void mt__saved_lock(const mt_node *node);
void mt__saved_unlock(const mt_node *node);

/* Around a run of the engine: while one is held, no circles are collected. */
void mt__cycles_hold(void);
void mt__cycles_release(void);

/* After a backward pass that does not keep the graph: releases what the node saved. */
void mt__node_let_go(mt_node *node);
/* Runs and records the node's function; outs, one per edge and initially NULL, receive owned references. */
mt_status mt__node_run(mt_node *node, mt_tensor **grads, mt_tensor **outs);
mt_status mt__accumulate(mt_node *node, mt_tensor **grad); /* takes it, into the leaf of the node */
mt_status mt__custom_run(mt_node *node, mt_tensor *const *grads, mt_tensor **outs);
void mt__copy_slices_let_go(mt_node *node);
mt_node *mt__copy_slices_inner(const mt_node *node); /* borrowed */
/* A new node: t, on the memory of the slice, as a function of the whole tensor that `outer` changed. */
mt_status mt__copy_slices_result(mt_node *outer, const mt_tensor *t, mt_node **out);
mt_status mt__copy_slices_run(mt_node *node, mt_tensor *const *grads, mt_tensor **outs);
const char *mt__keep_name(const char *name); /* an interned copy, never freed */
void mt__describe_tensor(mtp_input *in, mtp_identity *identity, mt_tensor *t);

/* The edge that receives the gradients of t; *out owns its node. */
mt_status mt__edge_of(mt_tensor *t, mt__edge *out);
mt_node *mt__node_alloc(mt__node_kind kind, const char *name, uint32_t edges, uint32_t outs, uint32_t args);
void mt__meta_set(mt__meta *meta, const mt_tensor *t);

mt_status mt__hooks_add(mt__hooks *hooks, const mt__hook *hook);
void mt__hooks_free(mt__hooks *hooks);
/* Runs the hooks for `output` on *grad (owned), which they may replace. Those that are there when it begins: hooks may add
 * and remove hooks. */
mt_status mt__hooks_run(const mt__hooks *hooks, uint32_t output, mt_tensor **grad);

/* For derivatives. */
static inline bool mt__wants_edge(const mt__backward *b, unsigned edge)
{
    return b->node->edges[edge].node != NULL && (edge >= 64 || !(b->spared >> edge & 1u));
}
static inline bool mt__wants(const mt__backward *b, unsigned arg)
{
    int slot = b->node->slot[arg];
    return slot >= 0 && mt__wants_edge(b, (unsigned)slot);
}
static inline void mt__give(mt__backward *b, unsigned arg, mt_tensor *grad) /* borrowed from the scope */
{
    if (b->node->slot[arg] >= 0)
        b->out[b->node->slot[arg]] = grad;
}
static inline const mt__meta *mt__meta_of(const mt__backward *b, unsigned arg)
{
    return &b->node->metas[b->node->slot[arg]];
}
static inline mt_value mt__meta_shape(const mt__meta *meta)
{
    return mt_value_ints(meta->dims, meta->rank);
}

/* A derivative that is one expression: the gradient of the first argument. */
#define MT__GRAD_OF_FIRST(id, node_name, saves, gradient)                                                    \
    static mt_status id##_backward(mt__backward *b)                                                          \
    {                                                                                                        \
        mt__give(b, 0, gradient);                                                                            \
        return mt_scope_status();                                                                            \
    }                                                                                                        \
    const mt__grad mt__grad_##id = {node_name, saves, id##_backward};

#endif
