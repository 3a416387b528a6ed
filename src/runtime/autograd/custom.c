/* runtime/autograd/custom.c - functions with custom derivatives, and queries about nodes. */
#include "runtime/autograd/autograd.h"

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
    for (uint32_t i = 0; i < output_count && status == MT_OK; i++) {
        mt__meta_set(&node->outs[i], outputs[i]);
        outputs[i]->grad_fn = mt_node_retain(node);
        outputs[i]->output = i;
    }
    if (status == MT_OK) {
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
