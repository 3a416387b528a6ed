/* runtime/autograd/node.c - nodes of the graph: created after an op ran, freed with the last tensor or node
 * that refers to them.
 *
 * Ownership: a tensor owns its grad_fn, a node owns the nodes of its edges and what it saves; an accumulator
 * owns its leaf, which refers to the accumulator weakly (under `lock`, rank: leaf). Long chains are freed
 * without recursion.
 */
#define _GNU_SOURCE
#include "runtime/autograd/autograd.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

MT__FAST_TLS bool mt__grad_mode = true;
MT__FAST_TLS bool mt__deriving;
MT__FAST_TLS uint64_t mt__sequence;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static MT__FAST_TLS uint64_t thread_id;

#define FOUR(x) x, x, x, x
#define GRAPH_LOCKS 64
static pthread_mutex_t graph_locks[GRAPH_LOCKS] = {FOUR(FOUR(FOUR(PTHREAD_MUTEX_INITIALIZER)))};

static _Atomic bool saved_locks[GRAPH_LOCKS];

static unsigned lock_of(const void *thing)
{
    return (unsigned)(((uintptr_t)thing >> 6) * 0x9E3779B97F4A7C15u >> 58);
}

void mt__leaf_lock(const mt_tensor *leaf)
{
    pthread_mutex_lock(&graph_locks[lock_of(leaf)]);
}

void mt__leaf_unlock(const mt_tensor *leaf)
{
    pthread_mutex_unlock(&graph_locks[lock_of(leaf)]);
}

/* A spinlock: it is taken twice per node and held only for a few loads and stores. */
void mt__saved_lock(const mt_node *node)
{
    while (MT__UNLIKELY(atomic_exchange_explicit(&saved_locks[lock_of(node)], true, memory_order_acquire)))
        sched_yield();
}

void mt__saved_unlock(const mt_node *node)
{
    atomic_store_explicit(&saved_locks[lock_of(node)], false, memory_order_release);
}

/* The child's thread has a new id, and the threads that held locks no longer exist to release them. */
static void after_fork(void)
{
    thread_id = 0;
    pthread_mutex_init(&lock, NULL);
    for (unsigned i = 0; i < GRAPH_LOCKS; i++)
        pthread_mutex_init(&graph_locks[i], NULL), atomic_init(&saved_locks[i], false);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

uint64_t mt__thread_number(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (MT__UNLIKELY(thread_id == 0)) {
        pthread_once(&once, watch_forks);
        thread_id = (uint64_t)syscall(SYS_gettid);
    }
    return thread_id;
}

bool mt_grad_enabled(void)
{
    return mt__grad_mode;
}

bool mt_grad_enable(bool enable)
{
    bool was = mt__grad_mode;
    mt__grad_mode = enable;
    return was;
}

/* ---------------------------------------------------------------------------------------- making and freeing */

mt_node *mt__node_alloc(mt__node_kind kind, const char *name, uint32_t edges, uint32_t outs, uint32_t args)
{
    size_t bytes = sizeof(mt_node) + edges * (sizeof(mt__edge) + sizeof(mt__meta) + sizeof(mt__saved)) +
                   outs * (sizeof(mt__meta) + sizeof(mt__saved) + sizeof(mt_tensor *)) +
                   args * sizeof(mt_value);
    mt_node *node = calloc(1, bytes);
    if (node == NULL) {
        mt__fail(MT_E_NOMEM, "out of memory: a node of the autograd graph");
        return NULL;
    }
    atomic_init(&node->refs, 1);
    node->kind = (uint8_t)kind;
    node->name = name;
    node->edge_count = edges;
    node->out_count = outs;
    node->arg_count = (uint8_t)args;
    node->edges = (mt__edge *)(node + 1);
    node->metas = (mt__meta *)(node->edges + edges);
    node->outs = node->metas + edges;
    node->saved = (mt__saved *)(node->outs + outs);
    node->saved_out = node->saved + edges;
    node->args = (mt_value *)(node->saved_out + outs);
    node->visit.incoming = (mt_tensor **)(node->args + args);
    node->sequence = mt__sequence++;
    node->thread = mt__thread_number();
    memset(node->slot, -1, sizeof node->slot);
    return node;
}

static void free_copied_args(mt_node *node)
{
    for (unsigned i = 0; i < node->arg_count; i++)
        if (node->args[i].kind == MT_INTS || node->args[i].kind == MT_TEXT)
            free((void *)(uintptr_t)node->args[i].as.ints);
}

/* Takes up to `room` saved tensors; returns how many. (Those of the outputs follow those of the edges.) */
static uint32_t take_saved(mt_node *node, mt_tensor **taken, uint32_t room)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->edge_count + node->out_count && n < room; i++)
        if (node->saved[i].tensor != NULL) {
            taken[n++] = node->saved[i].tensor;
            node->saved[i].tensor = NULL;
        }
    return n;
}

/* Tensors are released outside the lock: releasing one can run arbitrary code. */
static void release_saved(mt_node *node, bool shared)
{
    mt_tensor *taken[8];
    uint32_t n;
    do {
        if (shared)
            mt__saved_lock(node);
        node->released = true;
        n = take_saved(node, taken, MT__COUNT_OF(taken));
        if (shared)
            mt__saved_unlock(node);
        for (uint32_t i = 0; i < n; i++)
            mt_release(taken[i]);
    } while (n == MT__COUNT_OF(taken));
}

void mt__node_let_go(mt_node *node)
{
    if (node->has_saved) /* set when the node is created */
        release_saved(node, true);
    if (node->kind == MT__NODE_COPY_SLICES)
        mt__copy_slices_let_go(node);
    if (node->let_go != NULL)
        node->let_go(node->user);
}

mt_node *mt_node_retain(mt_node *node)
{
    if (node != NULL)
        atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
    return node;
}

/* Nodes whose last reference is dropped while others are being freed wait here, linked through
 * their user pointer. */
static _Thread_local mt_node *dying;
static _Thread_local bool freeing;

static void free_node(mt_node *node)
{
    release_saved(node, false);
    free_copied_args(node);
    mt__hooks_free(&node->hooks);
    for (uint32_t i = 0; i < node->edge_count; i++)
        mt_node_release(node->edges[i].node);
    if (node->drop != NULL)
        node->drop(node->user);
    mt_release(node->leaf);
    free(node);
}

void mt_node_release(mt_node *node)
{
    if (node == NULL)
        return;
    if (node->kind == MT__NODE_ACCUMULATE) {
        /* The leaf may be handing out a reference right now. */
        pthread_mutex_lock(&lock);
        bool last = atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) == 1;
        if (last && node->leaf->extra != NULL && node->leaf->extra->accumulator == node)
            node->leaf->extra->accumulator = NULL;
        pthread_mutex_unlock(&lock);
        if (!last)
            return;
    } else if (atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    node->visit.incoming = (mt_tensor **)dying;
    dying = node;
    if (freeing)
        return;
    freeing = true;
    while (dying != NULL) {
        mt_node *next = dying;
        dying = (mt_node *)next->visit.incoming;
        free_node(next);
    }
    freeing = false;
}

/* ------------------------------------------------------------------------------------------------- leaves */

mt__extra *mt__extra_of(mt_tensor *t)
{
    mt__extra *extra = __atomic_load_n(&t->extra, __ATOMIC_ACQUIRE), *made = NULL;
    if (extra != NULL)
        return extra;
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        mt__fail(MT_E_NOMEM, "out of memory: autograd's part of a tensor");
        return NULL;
    }
    /* Two threads may use a leaf for the first time at once. Pairs with the load above. */
    if (__atomic_compare_exchange_n(&t->extra, &extra, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    free(made);
    return extra;
}

static void release_versions(mt__versions *versions)
{
    if (versions != NULL && atomic_fetch_sub_explicit(&versions->refs, 1, memory_order_acq_rel) == 1)
        free(versions);
}

uint32_t *mt__own_version(const mt_tensor *t)
{
    return &t->extra->versions->value;
}

static mt_status take_versions(mt_tensor *t, mt__versions *versions) /* takes the reference */
{
    mt__extra *extra = versions != NULL ? mt__extra_of(t) : NULL;
    if (extra == NULL) {
        release_versions(versions);
        return mt__fail(MT_E_NOMEM, "out of memory: the version of a tensor");
    }
    release_versions(extra->versions);
    extra->versions = versions;
    t->flags |= MT__OWN_VERSION;
    return MT_OK;
}

mt_status mt__share_version(mt_tensor *t, const mt_tensor *with)
{
    mt__versions *versions = with->extra->versions;
    atomic_fetch_add_explicit(&versions->refs, 1, memory_order_relaxed);
    return take_versions(t, versions);
}

mt_status mt__leave_version(mt_tensor *t, uint32_t version)
{
    mt__versions *versions = calloc(1, sizeof *versions);
    if (versions != NULL) {
        atomic_init(&versions->refs, 1);
        versions->value = version;
    }
    return take_versions(t, versions);
}

static void forget_retained(mt_node *node, const mt_tensor *t)
{
    for (uint32_t i = 0; i < node->hooks.count; i++)
        if (node->hooks.items[i]->tensor == t)
            node->hooks.items[i]->tensor = NULL;
}

void mt__autograd_forget(mt_tensor *t)
{
    if (t->grad_fn != NULL && (t->flags & MT__RETAINS_GRAD))
        forget_retained(t->grad_fn, t);
    mt_release(t->grad);
    mt__extra *extra = t->extra;
    mt_node *node = t->grad_fn;
    t->grad = NULL;
    t->grad_fn = NULL;
    t->extra = NULL;
    if (extra != NULL) {
        if (extra->retained != NULL)
            forget_retained(extra->retained, t);
        mt_node_release(extra->retained);
        mt__hooks_free(&extra->hooks);
        mt__hooks_free(&extra->post);
        mt_release(extra->base);
        release_versions(extra->versions);
        free(extra);
    }
    mt_node_release(node);
}

static mt_status accumulator_of(mt_tensor *leaf, mt_node **out)
{
    mt__extra *extra = mt__extra_of(leaf);
    *out = NULL;
    if (extra == NULL)
        return MT_E_NOMEM;
    pthread_mutex_lock(&lock);
    *out = mt_node_retain(extra->accumulator);
    pthread_mutex_unlock(&lock);
    if (*out != NULL)
        return MT_OK;
    mt_node *node = mt__node_alloc(MT__NODE_ACCUMULATE, "torch::autograd::AccumulateGrad", 0, 1, 0);
    if (node == NULL)
        return MT_E_NOMEM;
    mt__sequence--; /* takes no sequence number: it runs before all others */
    node->sequence = UINT64_MAX;
    node->leaf = mt_retain(leaf);
    mt__meta_set(&node->outs[0], leaf);
    pthread_mutex_lock(&lock);
    if (extra->accumulator == NULL)
        extra->accumulator = node;
    *out = extra->accumulator == node ? node : mt_node_retain(extra->accumulator);
    pthread_mutex_unlock(&lock);
    if (*out != node)
        mt_node_release(node); /* another thread was first */
    return MT_OK;
}

mt_status mt__edge_of(mt_tensor *t, mt__edge *out)
{
    out->output = 0;
    out->node = NULL;
    mt_status status = mt__fresh(t);
    if (status != MT_OK)
        return status;
    if (t->grad_fn != NULL) {
        out->node = mt_node_retain(t->grad_fn);
        out->output = t->output;
        return MT_OK;
    }
    return t->flags & MT__REQUIRES_GRAD ? accumulator_of(t, &out->node) : MT_OK;
}

void mt__meta_set(mt__meta *meta, const mt_tensor *t)
{
    meta->dtype = t->dtype;
    meta->rank = t->rank;
    meta->device = t->device;
    meta->in_columns = t->rank == 2 && t->strides[0] == 1 && t->strides[1] == t->dims[0];
    memcpy(meta->dims, t->dims, t->rank * sizeof *t->dims);
}

bool mt_requires_grad(const mt_tensor *t)
{
    return mt__tracks(t);
}

bool mt_is_leaf(const mt_tensor *t)
{
    return mt_grad_fn((mt_tensor *)(uintptr_t)t) == NULL;
}

mt_status mt_set_requires_grad(mt_tensor *t, bool on)
{
    if (mt_grad_fn(t) != NULL)
        return on ? MT_OK
                  : mt__fail(
                        MT_E_RUNTIME,
                        "you can only change requires_grad flags of leaf variables. If you want to use a "
                        "computed variable in a subgraph that doesn't require differentiation use "
                        "var_no_grad = "
                        "var.detach().");
    if (on && !mt__is_floating((mt_dtype)t->dtype))
        return mt__fail(MT_E_RUNTIME, "only Tensors of floating point dtype can require gradients");
    if (on && (t->storage->category == MTP_MEMORY_TEMPORARY || t->storage->category == MTP_MEMORY_INPUT))
        mt_tensor_tag(t, MTP_MEMORY_PARAMETER); /* it is being trained */
    if (on)
        t->flags |= MT__REQUIRES_GRAD;
    else
        t->flags &= (uint16_t)~MT__REQUIRES_GRAD;
    return MT_OK;
}

mt_tensor *mt_grad(const mt_tensor *t)
{
    return t->grad;
}

mt_status mt_set_grad(mt_tensor *t, mt_tensor *grad)
{
    if (grad != NULL) {
        if (grad == t)
            return mt__fail(MT_E_RUNTIME, "can't assign Variable as its own grad");
        if (grad->rank != t->rank || memcmp(grad->dims, t->dims, t->rank * sizeof *t->dims) != 0)
            return mt__fail(MT_E_RUNTIME,
                            "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please "
                            "ensure that the "
                            "gradient and the tensor are the same size",
                            mt__shape_text(grad->dims, grad->rank), mt__shape_text(t->dims, t->rank));
        if (grad->dtype != t->dtype)
            return mt__fail(MT_E_RUNTIME,
                            "attempting to assign a gradient with dtype '%s' to a tensor with dtype '%s'",
                            mt_dtype_name((mt_dtype)grad->dtype), mt_dtype_name((mt_dtype)t->dtype));
        if (grad->device != t->device)
            return mt__fail(MT_E_RUNTIME, "assigned grad has data located on a different device");
    }
    if (grad != NULL && grad->storage->category == MTP_MEMORY_TEMPORARY)
        mt_tensor_tag(grad, MTP_MEMORY_GRADIENT);
    mt_tensor *old = t->grad;
    t->grad = mt_retain(grad);
    mt_release(old);
    return MT_OK;
}

/* ------------------------------------------------------------------------------------------------- saving */

/* A tensor on the same memory that autograd does not track. */
static mt_tensor *detached(const mt_tensor *t)
{
    mt_tensor *d;
    return mt__alias(t, t->rank, t->dims, t->strides, t->offset, &d) == MT_OK ? d : NULL;
}

/* PyTorch's rule for inputs, as far as it can be decided locally: part of a gradient computation, but
 * depends on no gradient. Tensors that an op made for its own use (dropout noise) do not count, which is
 * known while recording. */
bool mt__is_input(const mt_tensor *t)
{
    return !t->storage->of_graph && mt__recorded_depth <= 1 && !mt__tracks(t) && !(t->flags & MT__IS_NUMBER);
}

/* Like detached(), for a node. Interceptors see it as an op, as PyTorch's modes do. */
static mt_status detach_for_node(mt_tensor *t, mt_tensor **out)
{
    *out = NULL;
    if (MT__LIKELY(mt__interceptor.fn == NULL)) {
        *out = detached(t);
        return *out != NULL ? MT_OK : MT_E_NOMEM;
    }
    mt_value self = mt_value_tensor(t);
    mt_interceptor mine = mt__interceptor;
    mt__interceptor.below_autograd = true;
    bool followed = mt_grad_enable(false);
    mt_status status = mt_call(MT_OP_detach, &self, 1, out);
    mt_grad_enable(followed);
    mt__interceptor = mine;
    return status;
}

static mt_status save(mt__saved *slot, mt_tensor *t, bool is_output)
{
    mt_status status = MT_OK;
    if (is_output)
        status = detach_for_node(t, &slot->tensor);
    else
        slot->tensor = mt_retain(t);
    if (status != MT_OK)
        return status;
    slot->version = *mt__version(t);
    slot->is_output = is_output;
    slot->had_history = !is_output && t->grad_fn != NULL;
    if (t->storage->category == MTP_MEMORY_TEMPORARY)
        mt_tensor_tag(t, !is_output && mt__is_input(t) ? MTP_MEMORY_INPUT : MTP_MEMORY_ACTIVATION);
    return MT_OK;
}

static mt_status changed_since(const mt_node *node, const mt__saved *saved)
{
    const mt_tensor *t = saved->tensor;
    char origin[96] = "";
    const char *maker = saved->is_output     ? node->name
                        : t->grad_fn != NULL ? t->grad_fn->name
                                             : ""; /* shown without "Backward0" */
    if (saved->is_output || t->grad_fn != NULL)
        snprintf(origin, sizeof origin, ", which is output %u of %.*s,", t->output, (int)strcspn(maker, "B"),
                 maker);
    return mt__fail(MT_E_RUNTIME,
                    "one of the variables needed for gradient computation has been modified by an inplace "
                    "operation: [torch.%sTensor "
                    "%s]%s is at version %u; expected version %u instead. Hint: enable anomaly detection to "
                    "find the operation "
                    "that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True).",
                    mt__scalar_type(t->dtype), mt__shape_text(t->dims, t->rank), origin, *mt__version(t),
                    saved->version);
}

mt_status mt__unpack(mt_node *node, const mt__saved *saved, uint32_t output, mt_tensor **out)
{
    *out = NULL;
    if (saved->tensor == NULL)
        return MT_OK;
    if (*mt__version(saved->tensor) != saved->version)
        return changed_since(node, saved);
    if (saved->had_history && saved->tensor->grad_fn == NULL)
        return mt__fail(
            MT_E_RUNTIME,
            "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not "
            "supported, please use out-of-place `.detach()` instead");
    if (!saved->is_output || !mt__grad_mode) {
        *out = mt_retain(saved->tensor);
        return MT_OK;
    }
    /* For the graph of the derivative: an output is a function of the node's inputs. */
    mt_tensor *t = detached(saved->tensor);
    if (t == NULL)
        return MT_E_NOMEM;
    *out = t;
    return mt__as_output(node, output, t);
}

mt_status mt__as_output(mt_node *node, uint32_t output, mt_tensor *t)
{
    if (MT__UNLIKELY(node->outer != NULL))
        return mt__copy_slices_result(node->outer, t, &t->grad_fn);
    t->grad_fn = mt_node_retain(node);
    t->output = output;
    return MT_OK;
}

/* -------------------------------------------------------------------------------------- a node for a call */

static uint32_t count_edges(const mt__call *call)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < call->op->param_count; i++)
        n += call->args[i].kind == MT_TENSOR ? 1 : call->args[i].kind == MT_TENSORS ? call->args[i].count : 0;
    return n;
}

static void *copy_bytes(const void *from, size_t bytes)
{
    void *to = malloc(bytes > 0 ? bytes : 1);
    if (to != NULL && bytes > 0)
        memcpy(to, from, bytes);
    return to;
}

static mt_status copy_arg(mt_value *to, const mt_value *from)
{
    *to = *from;
    if (from->kind == MT_TENSOR || from->kind == MT_TENSORS) {
        to->kind = MT_NONE;
        to->as.tensor = NULL;
    } else if (from->kind == MT_INTS || from->kind == MT_TEXT) {
        size_t bytes = from->kind == MT_INTS ? from->count * sizeof(int64_t) : (size_t)from->count + 1;
        to->as.ints = copy_bytes(from->as.ints, bytes);
        if (to->as.ints == NULL) {
            to->kind = MT_NONE;
            return mt__fail(MT_E_NOMEM, "out of memory: a node of the autograd graph");
        }
    }
    return MT_OK;
}

static mt_status connect(mt_node *node, uint32_t edge, mt_tensor *t, bool keep)
{
    if (t == NULL)
        return MT_OK;
    mt__meta_set(&node->metas[edge], t);
    mt_status status = mt__is_floating((mt_dtype)t->dtype) ? mt__edge_of(t, &node->edges[edge]) : MT_OK;
    if (status == MT_OK && keep) {
        node->has_saved = true;
        status = save(&node->saved[edge], t, false);
    }
    return status;
}

uint32_t mt__tracked_args(const mt__call *call)
{
    uint32_t tracked = 0;
    for (unsigned i = 0; i < call->op->param_count; i++) {
        const mt_value *v = &call->args[i];
        uint32_t n = v->kind == MT_TENSOR ? 1 : v->kind == MT_TENSORS ? v->count : 0;
        mt_tensor *const *list = v->kind == MT_TENSOR ? &v->as.tensor : v->as.tensors;
        for (uint32_t k = 0; k < n; k++)
            if (list[k] != NULL && mt__is_floating((mt_dtype)list[k]->dtype) && mt__tracks(list[k]))
                tracked |= 1u << i;
    }
    return tracked;
}

mt_status mt__check_constants(const mt__call *call)
{
    uint32_t bad = call->op->constants & mt__tracked_args(call);
    if (bad == 0)
        return MT_OK;
    const mt_param *p = &call->op->params[__builtin_ctz(bad)];
    return mt__fail(MT_E_RUNTIME,
                    "The function '%s' is not differentiable with respect to argument '%.*s'. This input "
                    "cannot have requires_grad True.",
                    mt__op_short_name(call->op), (int)p->name_length, p->name);
}

static mt_status connect_args(mt_node *node, const mt__call *call, mt_tensor *original, uint32_t tracked)
{
    uint32_t edge = 0;
    mt_status status = MT_OK;
    node->grad = call->op->grad;
    node->op = call->op;
    for (unsigned i = 0; i < call->op->param_count && status == MT_OK; i++) {
        const mt_value *v = &call->args[i];
        bool keep = (call->op->save_for[i] & tracked) != 0;
        status = copy_arg(&node->args[i], v);
        if (v->kind != MT_TENSOR && v->kind != MT_TENSORS)
            continue;
        node->slot[i] = (int16_t)edge;
        mt_tensor *const *list = v->kind == MT_TENSOR ? &v->as.tensor : v->as.tensors;
        uint32_t n = v->kind == MT_TENSOR ? 1 : v->count;
        for (uint32_t k = 0; k < n && status == MT_OK; k++, edge++) {
            bool was_self = i == 0 && original != NULL;
            status = connect(node, edge, list[k], keep && !was_self);
            if (status == MT_OK && was_self && keep) {
                node->has_saved = true;
                status = save(&node->saved[edge], original, false);
            }
        }
    }
    return status;
}

static mt_status own_outputs(mt_node *node, mt__call *call, uint32_t tracked)
{
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < call->out_count && status == MT_OK; i++) {
        mt_tensor *t = call->outs[i];
        if (t == NULL)
            continue;
        mt__meta_set(&node->outs[i], t);
        if (!call->op->view)
            t->storage->of_graph = true;
        if (i < MT__MAX_OUTS && (call->op->save_out_for[i] & tracked) != 0) {
            node->has_saved = true;
            status = save(&node->saved_out[i], t, true);
            if (status == MT_OK)
                node->saved_out[i].tensor->output = i;
        }
        bool constant = !mt__is_floating((mt_dtype)t->dtype) || (call->op->grad->only_first && i > 0);
        if (status == MT_OK && !constant && !call->op->in_place) {
            t->grad_fn = mt_node_retain(node);
            t->output = i;
        }
    }
    return status;
}

static const char *name_for(const mt__call *call)
{
    const mt__op *op = call->op;
    if (MT__LIKELY(op->grad->of_number == NULL))
        return op->grad->name;
    for (unsigned i = 0; i < op->param_count; i++)
        if (op->params[i].type == MT_TYPE_OPERAND && call->args[i].kind == MT_TENSOR)
            return op->grad->name;
    return op->grad->of_number;
}

/* For ops whose derivative nobody has written: silence would look like a gradient of zero. */
static mt_status refuse(mt__backward *b)
{
    return mt__fail(MT_E_RUNTIME, "derivative for %s is not implemented", b->node->op->name);
}
const mt__grad mt__grad_not_implemented = {"NotImplemented", "", refuse};

mt_status mt__record_node(mt__call *call, mt_tensor *original)
{
    const mt__op *op = call->op;
    mt_node *node = NULL;
    mt_status status = MT_OK;
    uint32_t tracked = mt__tracked_args(call);
    if (op->grad != NULL) {
        node =
            mt__node_alloc(MT__NODE_OP, name_for(call), count_edges(call), call->out_count, op->param_count);
        status = node != NULL ? connect_args(node, call, original, tracked) : MT_E_NOMEM;
    } else if (op->in_place) {
        status = mt__fail(MT_E_RUNTIME, "derivative for %s is not implemented", op->name);
    }
    /* Only now: the arguments were connected and saved as they were before the change. Views of the changed
     * memory among them led to its old history, and will be refreshed. */
    if (op->in_place)
        ++*mt__version(call->outs[0]);
    if (status != MT_OK || node == NULL) {
        mt_node_release(node);
        return status;
    }
    status = own_outputs(node, call, tracked);
    if (status == MT_OK && op->id == MT_OP_as_strided)
        status = mt__node_keep_geometry(node, call->args[0].as.tensor);
    if (status == MT_OK && op->view)
        status = mt__note_view(call);
    if (status == MT_OK && op->in_place)
        status = mt__rebase(call->outs[0], node, 0);
    mt_node_release(node);
    return status;
}

const char *mt__keep_name(const char *name)
{
    typedef struct kept {
        struct kept *next;
        char text[];
    } kept;
    static kept *names; /* guarded by lock; a program has few */
    pthread_mutex_lock(&lock);
    kept *k = names;
    while (k != NULL && strcmp(k->text, name) != 0)
        k = k->next;
    if (k == NULL && (k = malloc(sizeof *k + strlen(name) + 1)) != NULL) {
        strcpy(k->text, name);
        k->next = names;
        names = k;
    }
    pthread_mutex_unlock(&lock);
    return k != NULL ? k->text : "?";
}
