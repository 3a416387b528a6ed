/* runtime/autograd/custom.c - functions with custom derivatives, and queries about nodes. */
#include "runtime/autograd/autograd.h"

static MT__FAST_TLS mt_node *running; /* the innermost custom node that runs on this thread */

static bool is_among(const mt_tensor *t, mt_tensor *const *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == t)
            return true;
    return false;
}

/* t, an input, was changed in place: is that allowed? */
static mt_status check_changed(const mt_node *node, mt_tensor *t, const mt_tensor *first_input)
{
    bool is_view = t->extra != NULL && t->extra->base != NULL;
    if (is_view && node->out_count > 1)
        return mt__fail(MT_E_RUNTIME,
                        "%s: a function that changes a view in place cannot return more than one Tensor",
                        node->name);
    if (is_view && t != first_input)
        return mt__fail(MT_E_RUNTIME,
                        "%s: a view that a function changes in place must be the first of its tensors",
                        node->name);
    return mt__may_change(t);
}

/* Checks first: an output with a node that failed to be attached would lead nowhere. */
static mt_status attach_outputs(mt_node *node, mt_tensor *const *inputs, uint32_t input_count,
                                mt_tensor *const *outputs)
{
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < node->out_count && status == MT_OK; i++)
        if (is_among(outputs[i], inputs, input_count))
            status = check_changed(node, outputs[i], inputs[0]);
    for (uint32_t i = 0; i < node->out_count && status == MT_OK; i++) {
        mt_tensor *t = outputs[i];
        mt__meta_set(&node->outs[i], t);
        if (is_among(t, inputs, input_count)) {
            ++*mt__version(t);
            status = mt__rebase(t, node, i);
        } else {
            mt_node_release(t->grad_fn);
            t->grad_fn = mt_node_retain(node);
            t->output = i;
        }
    }
    return status;
}

mt_status mt_custom_attach(const char *name, mt_tensor *const *inputs, uint32_t input_count,
                           mt_tensor *const *outputs, uint32_t output_count, mt_custom_fn *run,
                           void (*drop)(void *user), void *user)
{
    return mt_custom_attach_to(NULL, name, inputs, input_count, outputs, output_count, run, drop, user);
}

mt_status mt_custom_attach_to(const mt_custom *forward, const char *name, mt_tensor *const *inputs,
                              uint32_t input_count, mt_tensor *const *outputs, uint32_t output_count,
                              mt_custom_fn *run, void (*drop)(void *user), void *user)
{
    mt_node *node = mt__node_alloc(MT__NODE_CUSTOM, mt__keep_name(name), input_count, output_count, 0);
    if (node == NULL)
        return MT_E_NOMEM;
    if (forward != NULL) {
        node->sequence = forward->sequence;
        mt__sequence--; /* the forward pass already took one */
    }
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < input_count && status == MT_OK; i++) {
        mt__meta_set(&node->metas[i], inputs[i]);
        status = mt__edge_of(inputs[i], &node->edges[i]);
    }
    node->custom = run;
    if (status == MT_OK)
        status = attach_outputs(node, inputs, input_count, outputs);
    if (status == MT_OK) {
        node->let_go = forward != NULL ? forward->let_go : NULL;
        node->drop = drop;
        node->user = user;
    }
    mt_node_release(node);
    return status;
}

/* As in PyTorch, the function takes its sequence number before it runs, whether or not it gets a node. */
void mt_custom_begin(const char *name, mt_tensor *const *inputs, uint32_t count, mt_custom *forward)
{
    *forward = (mt_custom){.sequence = mt__sequence++};
    if (!(mtp_recording() & MTP_CPU))
        return;
    mtp_op record = MTP_OP_INIT(0);
    mtp_input shown[MT__MAX_ARGS];
    mtp_identity identity[MT__MAX_ARGS];
    memset(shown, 0, sizeof shown);
    for (; record.input_count < count && record.input_count < MT__COUNT_OF(shown); record.input_count++)
        mt__describe_tensor(&shown[record.input_count], &identity[record.input_count],
                            inputs[record.input_count]);
    record.inputs = shown;
    record.sequence = (int64_t)forward->sequence;
    mtp_op_begin_text(&record, name, strlen(name));
    forward->token = record.token;
}

void mt_custom_end(const mt_custom *forward)
{
    mtp_scope_end(forward->token);
}

/* The user's function makes tensors of its own, also where CopySlices runs it. */
mt_status mt__custom_run(mt_node *node, mt_tensor *const *grads, mt_tensor **outs)
{
    mt_node *outer = running;
    bool was_deriving = mt__deriving;
    running = node;
    mt__deriving = false;
    mt_status status = node->custom(node->user, grads, outs);
    mt__deriving = was_deriving;
    running = outer;
    return status;
}

mt_node *mt_custom_node(void)
{
    return running;
}

mt_status mt_custom_output(mt_node *node, unsigned output, const mt_tensor *saved, mt_tensor **out)
{
    mt_status status = mt__alias(saved, saved->rank, saved->dims, saved->strides, saved->offset, out);
    return status == MT_OK ? mt__as_output(node, output, *out) : status;
}

const char *mt_node_name(const mt_node *node)
{
    return node->name;
}

unsigned mt_node_edges(const mt_node *node)
{
    return node->edge_count;
}

mt_node *mt_node_next(const mt_node *node, unsigned edge, unsigned *output)
{
    *output = edge < node->edge_count ? node->edges[edge].output : 0;
    return edge < node->edge_count ? node->edges[edge].node : NULL;
}
