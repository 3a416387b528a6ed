/* runtime/autograd/engine.c - backward: starting at the roots, runs each node once all its gradients have
 * arrived, youngest first.
 *
 * Two passes. The first counts for each node how many edges lead to it (and, if gradients of specific inputs
 * are requested, whether it lies on a path to one). The second takes ready nodes from a heap, by sequence
 * number as in PyTorch, turns the gradients of their outputs into those of their inputs, and passes them on.
 *
 * Threads: backward runs on the calling thread. Runs may share nodes: runs on several threads, or a run that
 * a hook or a custom function starts within another. A run's state of a node is a visit. The first run to
 * reach a node keeps its visit in the node itself; others keep theirs in a table of their own. Lasting
 * changes are locked: the gradient of a leaf, a node's saved tensors.
 * Invariant: node->run is the number of the run whose visit is in the node; if 0, its incoming[] is empty.
 */
#include "runtime/autograd/autograd.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct capture {
    mt_node *node; /* borrowed from the graph */
    uint32_t output;
    mt_tensor **to; /* where to store the gradient, owned there */
} capture;

/* A visit that is not in its node. */
typedef struct elsewhere {
    mt_node *node; /* borrowed from engine.all */
    mt__visit visit;
    mt_tensor *incoming[];
} elsewhere;

typedef struct engine {
    uint64_t run;
    const mt_backward_options *options;
    mt_node **heap, **all; /* borrowed; all: every node of this run, for cleanup */
    uint32_t heap_count, heap_room, all_count, all_room;
    capture *captures;
    uint32_t capture_count;
    mt_tensor **held; /* owned: implicit gradients of roots, held until the end as in PyTorch */
    uint32_t held_count;
    elsewhere **others; /* open addressing: visits of nodes that another run has claimed; owned */
    uint32_t other_count, other_room; /* room: a power of two, at least twice the count */
} engine;

static _Atomic uint64_t runs;
static MT__FAST_TLS const engine *current; /* the innermost run of this thread */

/* -------------------------------------------------------------------------------------------------- lists */

static mt_status push(mt_node ***items, uint32_t *count, uint32_t *room, mt_node *node)
{
    if (*count == *room) {
        uint32_t more = *room > 0 ? *room * 2 : 64;
        mt_node **grown = realloc(*items, more * sizeof *grown);
        if (grown == NULL)
            return mt__fail(MT_E_NOMEM, "out of memory: the backward engine's lists");
        *items = grown;
        *room = more;
    }
    (*items)[(*count)++] = node;
    return MT_OK;
}

static mt_status heap_push(engine *e, mt_node *node)
{
    mt_status status = push(&e->heap, &e->heap_count, &e->heap_room, node);
    if (status != MT_OK)
        return status;
    uint32_t i = e->heap_count - 1;
    while (i > 0 && e->heap[(i - 1) / 2]->sequence < node->sequence) {
        e->heap[i] = e->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    e->heap[i] = node;
    return MT_OK;
}

static mt_node *heap_pop(engine *e)
{
    mt_node *top = e->heap[0], *last = e->heap[--e->heap_count];
    uint32_t i = 0;
    for (uint32_t child; (child = 2 * i + 1) < e->heap_count; i = child) {
        if (child + 1 < e->heap_count && e->heap[child + 1]->sequence > e->heap[child]->sequence)
            child++;
        if (e->heap[child]->sequence <= last->sequence)
            break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = last;
    return top;
}

/* ------------------------------------------------------------------------------------------------- visits */

static uint32_t place_of(elsewhere *const *table, uint32_t room, const mt_node *node)
{
    uint32_t i = (uint32_t)(((uintptr_t)node >> 4) * 0x9E3779B97F4A7C15u >> 32) & (room - 1);
    while (table[i] != NULL && table[i]->node != node)
        i = (i + 1) & (room - 1);
    return i;
}

/* This run's visit of the node; NULL: not reached yet. */
static inline mt__visit *visit_of(const engine *e, mt_node *node)
{
    /* Only this thread stores this run's number, so relaxed is enough. */
    if (MT__LIKELY(atomic_load_explicit(&node->run, memory_order_relaxed) == e->run))
        return &node->visit;
    elsewhere *other = e->other_room > 0 ? e->others[place_of(e->others, e->other_room, node)] : NULL;
    return other != NULL ? &other->visit : NULL;
}

static mt_status visit_elsewhere(engine *e, mt_node *node)
{
    if (2 * (e->other_count + 1) > e->other_room) {
        uint32_t room = e->other_room > 0 ? e->other_room * 2 : 16;
        elsewhere **grown = calloc(room, sizeof *grown);
        if (grown == NULL)
            return mt__fail(MT_E_NOMEM, "out of memory: the backward engine's lists");
        for (uint32_t i = 0; i < e->other_room; i++)
            if (e->others[i] != NULL)
                grown[place_of(grown, room, e->others[i]->node)] = e->others[i];
        free(e->others);
        e->others = grown;
        e->other_room = room;
    }
    elsewhere *made = calloc(1, sizeof *made + node->out_count * sizeof *made->incoming);
    if (made == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: the backward engine's lists");
    made->node = node;
    made->visit.incoming = made->incoming;
    e->others[place_of(e->others, e->other_room, node)] = made;
    e->other_count++;
    return MT_OK;
}

/* --------------------------------------------------------------------------------------------- first walk */

static mt_status meet(engine *e, mt_node *node)
{
    if (visit_of(e, node) != NULL)
        return MT_OK;
    mt_status status = push(&e->all, &e->all_count, &e->all_room, node);
    if (status != MT_OK)
        return status;
    mt_node_retain(node);
    uint64_t nobody = 0; /* acquire: pairs with the release in clean() of the previous run */
    if (!atomic_compare_exchange_strong_explicit(&node->run, &nobody, e->run, memory_order_acquire,
                                                 memory_order_relaxed))
        status = visit_elsewhere(e, node);
    if (status != MT_OK)
        return status;
    mt__visit *visit = visit_of(e, node);
    visit->waiting = 0;
    visit->needed = e->capture_count == 0;
    visit->walked = false;
    return MT_OK;
}

/* Counts edges breadth first: e->all grows during the loop. */
static mt_status count_dependencies(engine *e)
{
    for (uint32_t i = 0; i < e->all_count; i++) {
        mt_node *node = e->all[i];
        for (uint32_t k = 0; k < node->edge_count; k++) {
            mt_node *next = node->edges[k].node;
            if (next == NULL)
                continue;
            mt_status status = meet(e, next);
            if (status != MT_OK)
                return status;
            visit_of(e, next)->waiting++;
        }
    }
    return MT_OK;
}

/* A node is needed if it or a node behind it has a capture. Depth first, without recursion; must not
 * change `waiting`. */
static mt_status mark_needed(engine *e)
{
    for (uint32_t i = 0; i < e->capture_count; i++) {
        mt__visit *visit = e->captures[i].node != NULL ? visit_of(e, e->captures[i].node) : NULL;
        if (visit != NULL)
            visit->needed = true;
    }
    mt_node **stack = NULL;
    uint32_t count = 0, room = 0;
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < e->all_count && status == MT_OK; i++)
        status = visit_of(e, e->all[i])->walked ? MT_OK : push(&stack, &count, &room, e->all[i]);
    while (count > 0 && status == MT_OK) {
        mt_node *node = stack[count - 1];
        mt__visit *visit = visit_of(e, node);
        bool done = true;
        if (!visit->walked) {
            for (uint32_t k = 0; k < node->edge_count && status == MT_OK; k++) {
                mt_node *next = node->edges[k].node;
                if (next != NULL && !visit_of(e, next)->walked) {
                    done = false;
                    status = push(&stack, &count, &room, next);
                }
            }
            if (!done)
                continue;
            for (uint32_t k = 0; k < node->edge_count; k++)
                visit->needed |= node->edges[k].node != NULL && visit_of(e, node->edges[k].node)->needed;
            visit->walked = true;
        }
        count--;
    }
    free(stack);
    return status;
}

/* -------------------------------------------------------------------------------------------- second walk */

/* Adds grad (taken) to the pending gradient at (node, output). */
static mt_status deliver(const engine *e, mt_node *node, uint32_t output, mt_tensor *grad)
{
    mt_tensor **slot = &visit_of(e, node)->incoming[output];
    if (*slot == NULL) {
        *slot = grad;
        return MT_OK;
    }
    mt_value args[] = {mt_value_tensor(*slot), mt_value_tensor(grad)};
    mt_tensor *sum = NULL;
    /* In place if there is no other reference. */
    bool alone = !mt__grad_mode && atomic_load(&(*slot)->refs) == 1 &&
                 atomic_load(&(*slot)->storage->refs) == 1 && (*slot)->storage->drop == NULL &&
                 ((*slot)->flags & MT__CONTIGUOUS) != 0 && (*slot)->dtype == grad->dtype &&
                 (*slot)->rank == grad->rank &&
                 memcmp((*slot)->dims, grad->dims, grad->rank * sizeof *grad->dims) == 0;
    mt_status status = mt_call(alone ? MT_OP_add_ : MT_OP_add, args, 2, &sum);
    mt_release(grad);
    if (status == MT_OK) {
        mt_release(*slot);
        *slot = sum;
    }
    return status;
}

static bool same_shape(const mt_tensor *t, const mt__meta *meta)
{
    return t->rank == meta->rank && memcmp(t->dims, meta->dims, t->rank * sizeof *t->dims) == 0;
}

/* Sums *grad (owned) over broadcast dims, and casts it. */
static mt_status fit(const mt_node *node, uint32_t edge, mt_tensor **grad)
{
    const mt__meta *meta = &node->metas[edge];
    if (MT__LIKELY(same_shape(*grad, meta) && (*grad)->dtype == meta->dtype))
        return MT_OK;
    mt_status status = MT_OK;
    MT_SCOPE
    {
        mt_tensor *g = *grad;
        int lead = g->rank - meta->rank, n = 0;
        int64_t over[MT_MAX_RANK];
        for (int i = 0; i < g->rank; i++)
            if (i < lead || (meta->dims[i - lead] == 1 && g->dims[i] != 1))
                over[n++] = i;
        if (n > 0)
            g = MT(sum_dim, g, mt_value_ints(over, (uint32_t)n), true);
        if (g != NULL && g->rank != meta->rank)
            g = MT(view, g, mt__meta_shape(meta));
        if (g != NULL && g->dtype != meta->dtype)
            g = MT(to_dtype, g, (int64_t)meta->dtype);
        status = mt_scope_status();
        if (status == MT_OK && !same_shape(g, meta))
            status =
                mt__fail(MT_E_RUNTIME,
                         "Function %s returned an invalid gradient at index %u - got %s but expected shape "
                         "compatible with %s",
                         node->name, edge, mt__shape_text((*grad)->dims, (*grad)->rank),
                         mt__shape_text(meta->dims, meta->rank));
        if (status == MT_OK) {
            mt_retain(g);
            mt_release(*grad);
            *grad = g;
        }
    }
    return status;
}

/* The node's saved arguments, owned by the caller's scope. The caller frees lists[i]. The node is locked. */
static mt_status unpack_saved(mt_node *node, mt_value *args, mt_tensor ***lists, mt_tensor **results)
{
    mt_status status = MT_OK;
    if (node->released && node->has_saved)
        return mt__fail(MT_E_RUNTIME, "Trying to backward through the graph a second time (or directly "
                                      "access saved tensors after they have "
                                      "already been freed). Saved intermediate values of the graph are freed "
                                      "when you call .backward() or "
                                      "autograd.grad(). Specify retain_graph=True if you need to backward "
                                      "through the graph a second time or "
                                      "if you need to access saved tensors after calling backward.");
    for (unsigned i = 0; i < node->arg_count && status == MT_OK; i++) {
        args[i] = node->args[i];
        if (node->slot[i] < 0 || node->op->save_for[i] == 0)
            continue;
        uint32_t n = args[i].count;
        mt_tensor *one, **list = n == 0 ? &one : calloc(n, sizeof *list);
        if (list == NULL)
            return mt__fail(MT_E_NOMEM, "out of memory: backward of %s", node->name);
        if (n > 0)
            lists[i] = list;
        for (uint32_t k = 0; k < (n == 0 ? 1 : n) && status == MT_OK; k++) {
            status = mt__unpack(node, &node->saved[(uint32_t)node->slot[i] + k], 0, &list[k]);
            mt_scope_keep(list[k]);
        }
        args[i] = n == 0 ? mt_value_tensor(one) : mt_value_tensors(list, n);
    }
    for (uint32_t i = 0; i < node->out_count && i < MT__MAX_OUTS && status == MT_OK; i++) {
        status = mt__unpack(node, &node->saved_out[i], i, &results[i]);
        mt_scope_keep(results[i]);
    }
    return status;
}

/* The edges that lead to no requested gradient. */
static uint64_t spared_by(const mt_node *node)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; current->capture_count > 0 && i < node->edge_count && i < 64; i++) {
        mt__visit *visit = node->edges[i].node != NULL ? visit_of(current, node->edges[i].node) : NULL;
        bits |= visit != NULL && !visit->needed ? (uint64_t)1 << i : 0;
    }
    return bits;
}

/* Runs the derivative of an op's node; outs receives owned references. */
static mt_status run_op_node(mt_node *node, mt_tensor *const *grads, mt_tensor **outs)
{
    mt_value args[MT__MAX_ARGS];
    mt_tensor *results[MT__MAX_OUTS] = {NULL};
    mt_tensor **lists[MT__MAX_ARGS] = {NULL};
    mt_status status = MT_OK;
    MT_SCOPE
    {
        mt__saved_lock(node);
        status = unpack_saved(node, args, lists, results);
        mt__saved_unlock(node);
        mt__backward b = {node, grads, args, results, outs, spared_by(node)};
        bool was_within = mt__within_op, was_deriving = mt__deriving;
        mt__within_op = mt__deriving = true;
        if (status == MT_OK)
            status = node->grad->run(&b);
        mt__within_op = was_within;
        mt__deriving = was_deriving;
        for (uint32_t i = 0; i < node->edge_count; i++)
            outs[i] = status == MT_OK && node->edges[i].node != NULL ? mt_retain(outs[i]) : NULL;
    }
    for (unsigned i = 0; i < node->arg_count; i++)
        free(lists[i]);
    return status;
}

static mt_status run_node(mt_node *node, mt_tensor **grads, mt_tensor **outs)
{
    switch ((mt__node_kind)node->kind) {
    case MT__NODE_ACCUMULATE:
        return grads[0] != NULL ? mt__accumulate(node, &grads[0]) : MT_OK;
    case MT__NODE_CUSTOM:
        return mt__custom_run(node, grads, outs);
    case MT__NODE_COPY_SLICES:
        return mt__copy_slices_run(node, grads, outs);
    case MT__NODE_OP:
        break;
    }
    return run_op_node(node, grads, outs);
}

/* Recorded as in PyTorch: the function within its evaluation. */
static mt_status run_recorded(mt_node *node, mt_tensor **grads, mt_tensor **outs)
{
    mtp_op record = MTP_OP_INIT(0);
    mtp_input inputs[MT__MAX_OUTS];
    mtp_identity identity[MT__MAX_OUTS];
    bool is_leaf = node->kind == MT__NODE_ACCUMULATE;
    record.kind = MTP_SCOPE_BACKWARD;
    record.sequence = is_leaf ? -1 : (int64_t)node->sequence;
    record.forward_thread = is_leaf ? 0 : node->thread;
    memset(inputs, 0, sizeof inputs);
    for (uint32_t i = 0; i < node->out_count && i < MT__MAX_OUTS; i++)
        if (grads[i] != NULL)
            mt__describe_tensor(&inputs[i], &identity[i], grads[i]);
    record.inputs = inputs;
    record.flags = MTP_OP_IDENTIFIED;
    record.input_count = node->out_count < MT__MAX_OUTS ? node->out_count : MT__MAX_OUTS;
    mtp_op_begin_text(&record, node->name, strlen(node->name));
    mt_status status = run_node(node, grads, outs);
    mtp_op_end(&record);
    return status;
}

mt_status mt__node_run(mt_node *node, mt_tensor **grads, mt_tensor **outs)
{
    return mtp_recording() & MTP_CPU ? run_recorded(node, grads, outs) : run_node(node, grads, outs);
}

static mt_status before_run(engine *e, mt_node *node, mt_tensor **grads)
{
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < node->out_count && status == MT_OK && node->hooks.count > 0; i++)
        if (grads[i] != NULL)
            status = mt__hooks_run(&node->hooks, i, &grads[i]);
    if (node->kind == MT__NODE_ACCUMULATE && node->leaf->extra != NULL && status == MT_OK)
        status = mt__hooks_run(&node->leaf->extra->hooks, 0, &grads[0]);
    for (uint32_t i = 0; i < e->capture_count && status == MT_OK; i++) {
        capture *c = &e->captures[i];
        if (c->node != node || grads[c->output] == NULL)
            continue;
        if (c->to != NULL) {
            mt_release(*c->to);
            *c->to = mt_retain(grads[c->output]);
        }
    }
    return status;
}

/* Is there a requested gradient behind the node? */
static bool goes_on(const engine *e, mt_node *node)
{
    if (e->capture_count == 0)
        return true;
    if (node->kind == MT__NODE_ACCUMULATE)
        return e->options->accumulate && visit_of(e, node)->needed;
    for (uint32_t i = 0; i < node->edge_count; i++)
        if (node->edges[i].node != NULL && visit_of(e, node->edges[i].node)->needed)
            return true;
    return false;
}

static mt_status fit_all(const engine *e, const mt_node *node, mt_tensor **outs)
{
    mt_status status = MT_OK;
    bool was = mt__deriving;
    mt__deriving = true;
    for (uint32_t i = 0; i < node->edge_count && status == MT_OK; i++)
        if (outs[i] != NULL && node->edges[i].node != NULL && visit_of(e, node->edges[i].node)->needed)
            status = fit(node, i, &outs[i]);
    mt__deriving = was;
    return status;
}

/* Takes all of outs. status: of the preceding steps; after a failure nothing is passed on. */
static mt_status hand_on(engine *e, const mt_node *node, mt_tensor **outs, mt_status status)
{
    for (uint32_t i = 0; i < node->edge_count; i++) {
        mt_node *next = node->edges[i].node;
        mt__visit *visit = next != NULL && status == MT_OK ? visit_of(e, next) : NULL;
        if (visit != NULL && outs[i] != NULL && visit->needed)
            status = deliver(e, next, node->edges[i].output, outs[i]);
        else
            mt_release(outs[i]);
        if (visit != NULL && --visit->waiting == 0 && status == MT_OK)
            status = heap_push(e, next);
    }
    return status;
}

/* Memory is released in PyTorch's order: the node's incoming gradients, its saved tensors, and then, as the
 * new gradients are added up, the summands. */
static mt_status evaluate(engine *e, mt_node *node)
{
    mt_tensor **grads = visit_of(e, node)->incoming;
    mt_tensor *few[8] = {NULL};
    mt_tensor **outs = node->edge_count <= 8 ? few : calloc(node->edge_count, sizeof *outs);
    if (outs == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: backward of %s", node->name);
    bool any = false;
    for (uint32_t i = 0; i < node->out_count; i++)
        any |= grads[i] != NULL;
    mt_status status = any ? before_run(e, node, grads) : MT_OK;
    bool wanted = status == MT_OK && any && goes_on(e, node);
    if (wanted)
        status = mt__node_run(node, grads, outs);
    if (wanted && status == MT_OK)
        status = fit_all(e, node, outs);
    for (uint32_t i = 0; i < node->out_count; i++) {
        mt_release(grads[i]);
        grads[i] = NULL;
    }
    if (wanted && status == MT_OK && !e->options->retain_graph)
        mt__node_let_go(node);
    status = hand_on(e, node, outs, status);
    if (outs != few)
        free(outs);
    return status;
}

static mt_status evaluate_recorded(engine *e, mt_node *node)
{
    char name[160];
    int length = snprintf(name, sizeof name, "autograd::engine::evaluate_function: %s", node->name);
    mtp_op record = MTP_OP_INIT(0);
    if (node->kind != MT__NODE_ACCUMULATE) {
        record.sequence = (int64_t)node->sequence;
        record.forward_thread = node->thread;
    }
    mtp_op_begin_text(&record, name, length < (int)sizeof name ? (size_t)length : sizeof name - 1);
    mt__recorded_depth++;
    mt_status status = evaluate(e, node);
    mt__recorded_depth--;
    mtp_op_end(&record);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the way in */

static mt_status default_grad(const mt_tensor *root, mt_tensor **out)
{
    if (root->numel != 1)
        return mt__fail(MT_E_RUNTIME, "grad can be implicitly created only for scalar outputs");
    mt_value self = mt_value_tensor(root);
    mt_status status = mt_call(MT_OP_ones_like, &self, 1, out);
    if (status == MT_OK)
        mt_tensor_tag(*out, MTP_MEMORY_AUTOGRAD_DETAIL);
    return status;
}

static mt_status check_grad(const mt_tensor *root, const mt_tensor *grad, uint32_t i)
{
    if (grad->rank != root->rank || memcmp(grad->dims, root->dims, root->rank * sizeof *root->dims) != 0)
        return mt__fail(
            MT_E_RUNTIME,
            "Mismatch in shape: grad_output[%u] has a shape of torch.Size(%s) and output[%u] has a shape of "
            "torch.Size(%s).",
            i, mt__shape_text(grad->dims, grad->rank), i, mt__shape_text(root->dims, root->rank));
    return MT_OK;
}

static mt_status add_root(engine *e, mt_tensor *root, mt_tensor *grad, uint32_t i)
{
    mt__edge edge; /* none, also of a view that was made under no_grad, although its base is tracked */
    mt_status status = mt__edge_of(root, &edge);
    if (status != MT_OK)
        return status;
    if (edge.node == NULL)
        return mt__fail(MT_E_RUNTIME,
                        "element %u of tensors does not require grad and does not have a grad_fn", i);
    mt_tensor *g = NULL;
    status = grad == NULL ? default_grad(root, &g) : check_grad(root, grad, i);
    if (status == MT_OK && grad != NULL)
        g = mt_retain(grad);
    else if (status == MT_OK)
        e->held[e->held_count++] = mt_retain(g);
    if (status == MT_OK)
        status = meet(e, edge.node);
    if (status == MT_OK)
        status = deliver(e, edge.node, edge.output, g);
    else
        mt_release(g);
    mt_node_release(edge.node);
    return status;
}

static mt_status add_captures(engine *e, mt_tensor **out)
{
    const mt_backward_options *o = e->options;
    e->captures = calloc(o->input_count, sizeof *e->captures);
    if (e->captures == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: the inputs of backward");
    for (uint32_t i = 0; i < o->input_count; i++) {
        mt__edge edge;
        if (!mt__tracks(o->inputs[i]))
            return mt__fail(MT_E_RUNTIME, "One of the differentiated Tensors does not require grad");
        mt_status status = mt__edge_of(o->inputs[i], &edge);
        if (status != MT_OK)
            return status;
        e->captures[i] = (capture){edge.node, edge.output, out != NULL ? &out[i] : NULL};
        e->capture_count = i + 1;
        if (o->accumulate)
            mt_retain_grad(o->inputs[i]); /* if it is no leaf */
    }
    return MT_OK;
}

static mt_status check_captured(const engine *e, mt_tensor **out)
{
    for (uint32_t i = 0; i < e->options->input_count && out != NULL; i++)
        if (out[i] == NULL && !e->options->allow_unused && !e->options->accumulate)
            return mt__fail(
                MT_E_RUNTIME,
                "The differentiated Tensor at index %u appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior.",
                i);
    return MT_OK;
}

static void clean(engine *e)
{
    for (uint32_t i = 0; i < e->all_count; i++) {
        mt_node *node = e->all[i];
        mt__visit *visit = visit_of(e, node);
        for (uint32_t k = 0; visit != NULL && k < node->out_count; k++) {
            mt_release(visit->incoming[k]);
            visit->incoming[k] = NULL;
        }
        if (visit == &node->visit) /* release: pairs with the acquire in meet() */
            atomic_store_explicit(&node->run, 0, memory_order_release);
    }
    for (uint32_t i = 0; i < e->other_room; i++)
        free(e->others[i]);
    free(e->others);
    for (uint32_t i = 0; i < e->capture_count; i++)
        mt_node_release(e->captures[i].node);
    for (uint32_t i = 0; i < e->all_count; i++)
        mt_node_release(e->all[i]);
    for (uint32_t i = 0; i < e->held_count; i++)
        mt_release(e->held[i]);
    free(e->held);
    free(e->captures);
    free(e->all);
    free(e->heap);
}

/* PyTorch's engine joins several roots in an extra node, which takes a sequence number and does nothing. */
static void note_graph_root(void)
{
    int64_t sequence = (int64_t)mt__sequence++;
    if (!(mtp_recording() & MTP_CPU))
        return;
    mtp_op outer = MTP_OP_INIT(MTP_NAME("autograd::engine::evaluate_function: torch::autograd::GraphRoot"));
    mtp_op inner = MTP_OP_INIT(MTP_NAME("torch::autograd::GraphRoot"));
    inner.kind = MTP_SCOPE_BACKWARD;
    outer.sequence = inner.sequence = sequence;
    outer.forward_thread = inner.forward_thread = mt__thread_number();
    mtp_op_begin(&outer);
    mtp_op_begin(&inner);
    mtp_op_end(&inner);
    mtp_op_end(&outer);
}

/* As in PyTorch, those of a root run even if it leads to no requested gradient. */
static mt_status run_hooks_of_root(engine *e, mt_node *node)
{
    mt_tensor **grads = visit_of(e, node)->incoming;
    bool any = false;
    for (uint32_t i = 0; i < node->out_count; i++)
        any |= grads[i] != NULL;
    return any ? before_run(e, node, grads) : MT_OK;
}

static mt_status walk(engine *e, mt_tensor *const *roots, mt_tensor *const *grads, uint32_t count,
                      mt_tensor **out)
{
    mt_status status = MT_OK;
    e->held = calloc(count > 0 ? count : 1, sizeof *e->held);
    if (e->held == NULL)
        status = mt__fail(MT_E_NOMEM, "out of memory: the gradients of %u roots", count);
    for (uint32_t i = 0; i < count && status == MT_OK; i++)
        status = add_root(e, roots[i], grads != NULL ? grads[i] : NULL, i);
    uint32_t root_count = e->all_count;
    if (e->options->input_count > 0 && status == MT_OK)
        status = add_captures(e, out);
    for (uint32_t i = 0; i < root_count; i++)
        visit_of(e, e->all[i])->needed = e->capture_count == 0;
    if (count > 1 && status == MT_OK)
        note_graph_root();
    if (status == MT_OK)
        status = count_dependencies(e);
    if (status == MT_OK && e->capture_count > 0)
        status = mark_needed(e);
    for (uint32_t i = 0; i < root_count && status == MT_OK; i++)
        if (visit_of(e, e->all[i])->waiting == 0)
            status = heap_push(e, e->all[i]);
    while (e->heap_count > 0 && status == MT_OK) {
        mt_node *node = heap_pop(e);
        if (!visit_of(e, node)->needed) { /* then nothing behind it is needed, either */
            status = run_hooks_of_root(e, node);
            continue;
        }
        status = mtp_recording() & MTP_CPU ? evaluate_recorded(e, node) : evaluate(e, node);
    }
    return status == MT_OK ? check_captured(e, out) : status;
}

mt_status mt_backward_from(mt_tensor *const *roots, mt_tensor *const *grads, uint32_t count,
                           const mt_backward_options *options, mt_tensor **out)
{
    static const mt_backward_options defaults = {.size = sizeof defaults};
    engine e = {.run = atomic_fetch_add(&runs, 1) + 1, .options = options != NULL ? options : &defaults};
    if (e.options->size != sizeof *e.options)
        return mt__fail(MT_E_VALUE, "mt_backward_from: set options->size to sizeof(mt_backward_options)");
    for (uint32_t i = 0; out != NULL && i < e.options->input_count; i++)
        out[i] = NULL;
    bool was = mt_grad_enable(e.options->create_graph);
    const engine *outer = current;
    mt__cycles_hold();
    current = &e;
    mt_status status = walk(&e, roots, grads, count, out);
    current = outer;
    mt_grad_enable(was);
    clean(&e);
    mt__cycles_release();
    for (uint32_t i = 0; status != MT_OK && out != NULL && i < e.options->input_count; i++) {
        mt_release(out[i]);
        out[i] = NULL;
    }
    return status;
}

mt_status mt_backward(mt_tensor *loss)
{
    if (loss == NULL) /* an earlier op failed: keep its message */
        return mt_scope_status() != MT_OK ? mt_scope_status()
                                          : mt__fail(MT_E_VALUE, "mt_backward: the tensor is NULL");
    return mt_backward_from(&loss, NULL, 1, NULL, NULL);
}
