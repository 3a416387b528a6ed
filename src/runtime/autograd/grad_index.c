/* runtime/autograd/grad_index.c - derivatives of indexing by tensors: gradients are added at the elements
 * that were read; overwritten elements get zero. */
#include "runtime/autograd/autograd.h"

#define GRAD(name, node, saves) const mt__grad mt__grad_##name = {node, saves, name##_backward};

static mt_status index_backward(mt__backward *b)
{
    mt_tensor *into = MT(new_zeros, b->grads[0], mt__meta_shape(mt__meta_of(b, 0)));
    mt__give(b, 0, MT(_index_put_impl_, into, b->args[1], b->grads[0], true, true));
    return mt_scope_status();
}
GRAD(index, "IndexBackward0", "indices")

static mt_status index_put_backward(mt__backward *b)
{
    bool adds = b->args[3].as.i != 0;
    if (mt__wants(b, 0)) {
        mt_tensor *grad = b->grads[0];
        if (!adds) {
            mt_tensor *zero = MT(zeros, MT_SHAPE0, (int64_t)grad->dtype, (int64_t)grad->device);
            grad = MT(index_put_, MT(clone, grad), b->args[1], zero, false);
        }
        mt__give(b, 0, grad);
    }
    if (mt__wants(b, 2))
        mt__give(b, 2, MT(index, b->grads[0], b->args[1]));
    return mt_scope_status();
}
GRAD(index_put, "IndexPutBackward0", "indices")
const mt__grad mt__grad_index_put_impl = {"IndexPutImplBackward0", "indices", index_put_backward};

static mt_status index_select_backward(mt__backward *b)
{
    mt__give(
        b, 0,
        MT(index_select_backward, b->grads[0], mt__meta_shape(mt__meta_of(b, 0)), b->args[1], b->args[2]));
    return mt_scope_status();
}
GRAD(index_select, "IndexSelectBackward0", "index")

static mt_status index_add_backward(mt__backward *b)
{
    mt__give(b, 0, b->grads[0]);
    if (mt__wants(b, 3)) {
        const mt__meta *source = mt__meta_of(b, 3);
        mt_tensor *part = MT(index_select, b->grads[0], b->args[1], b->args[2]);
        if (part != NULL && part->rank != source->rank)
            part = MT(view, part, mt__meta_shape(source));
        mt__give(b, 3, mt__value_number(&b->args[4]) != 1 ? MT(mul, part, b->args[4]) : part);
    }
    return mt_scope_status();
}
GRAD(index_add, "IndexAddBackward0", "index")

static mt_status gather_backward(mt__backward *b)
{
    if (b->args[3].as.i != 0)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "gather(): gradients are never sparse: use sparse_grad=False");
    mt__give(b, 0, MT(gather_backward, b->grads[0], b->args[0], b->args[1], b->args[2]));
    return mt_scope_status();
}
GRAD(gather, "GatherBackward0", "self index")

/* src may be larger than index: then only its corner was read. */
static mt_tensor *grad_of_src(mt__backward *b)
{
    const mt__meta *src = mt__meta_of(b, 3);
    mt_tensor *read = MT(gather, b->grads[0], b->args[1], b->args[2]);
    if (read == NULL ||
        (read->rank == src->rank && memcmp(read->dims, src->dims, src->rank * sizeof *src->dims) == 0))
        return read;
    mt_tensor *all = MT(new_zeros, b->grads[0], mt__meta_shape(src)), *corner = all;
    for (int i = 0; i < read->rank; i++)
        corner = MT(slice, corner, i, 0, read->dims[i]);
    MT(copy_, corner, read);
    return all;
}

static mt_status scatter_backward(mt__backward *b)
{
    if (mt__wants(b, 0))
        mt__give(b, 0, MT(scatter, b->grads[0], b->args[1], b->args[2], 0));
    if (mt__wants(b, 3))
        mt__give(b, 3, grad_of_src(b));
    return mt_scope_status();
}
const mt__grad mt__grad_scatter = {"ScatterBackward0", "index", scatter_backward,
                                   .of_number = "ScatterBackward1"};

static mt_status scatter_add_backward(mt__backward *b)
{
    mt__give(b, 0, b->grads[0]);
    if (mt__wants(b, 3))
        mt__give(b, 3, grad_of_src(b));
    return mt_scope_status();
}
GRAD(scatter_add, "ScatterAddBackward0", "index")

static mt_status embedding_backward(mt__backward *b)
{
    const mt__meta *weight = mt__meta_of(b, 0);
    mt__give(
        b, 0,
        MT(embedding_backward, b->grads[0], b->args[1], weight->dims[0], b->args[2], b->args[3], b->args[4]));
    return mt_scope_status();
}
GRAD(embedding, "EmbeddingBackward0", "indices")

/* The rows that were read, with zeros for the padding. (PyTorch ignores scale_grad_by_freq here, too.) */
static mt_status embedding_dense_backward_backward(mt__backward *b)
{
    mt_tensor *indices = b->args[1].as.tensor;
    int64_t padding = b->args[3].as.i;
    mt_tensor *flat = MT(reshape, indices, MT_SHAPE(-1));
    mt_tensor *rows = MT(index_select, b->grads[0], 0, flat);
    if (padding >= 0)
        rows = MT(masked_fill, rows, MT(unsqueeze, MT(eq, flat, padding), 1), 0);
    mt__give(b, 0, MT(view, rows, mt__meta_shape(mt__meta_of(b, 0))));
    return mt_scope_status();
}
GRAD(embedding_dense_backward, "EmbeddingDenseBackwardBackward0", "indices")
