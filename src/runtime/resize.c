/* runtime/resize.c - replacing a tensor's memory: resize_ and set_. The tensor keeps its identity; views of
 * it keep the old memory. Recorded as ops, as in PyTorch, although they are not in the op table: its ops
 * never replace the memory of an argument. For the CPU and devices.
 */
#include "runtime/runtime.h"
#include "runtime/autograd/autograd.h"

typedef struct recorded {
    mtp_op op;
    mtp_input inputs[3];
    mtp_identity identity[2];
} recorded;

/* size: for resize_, whose third argument, the memory format, is None; else NULL. */
static void begin(recorded *r, uint32_t name, mt_tensor *t, mt_tensor *source, const mt_value *size)
{
    r->op = (mtp_op)MTP_OP_INIT(name);
    r->op.device = t->device;
    if (mtp_recording() & MTP_WITH_SHAPES) {
        memset(r->inputs, 0, sizeof r->inputs);
        mt__describe_tensor(&r->inputs[0], &r->identity[0], t);
        if (source != NULL)
            mt__describe_tensor(&r->inputs[1], &r->identity[1], source);
        r->op.inputs = r->inputs;
        r->op.flags = MTP_OP_IDENTIFIED;
        r->op.input_count = size != NULL ? 3 : source != NULL ? 2 : 1;
        if (size != NULL)
            r->inputs[1] =
                (mtp_input){.kind = MTP_INPUT_INT_LIST, .count = size->count, .dims = size->as.ints};
    }
    mtp_op_begin(&r->op);
}

/* The tensor goes on counting its own changes: what autograd saved on the old memory is stale. */
static mt_status take_storage(mt_tensor *t, mt_storage *storage, int64_t offset)
{
    mt_storage *old = t->storage;
    mt_status status = mt__leave_version(t, *mt__version(t) + 1);
    if (status != MT_OK)
        return status;
    t->storage = mt__storage_retain(storage);
    t->offset = offset;
    t->data = MT_DEVICE_TYPE(t->device) == 0 ? (char *)storage->data + offset * (int64_t)mt__size_of(t)
                                             : storage->data;
    mt__storage_release(old);
    return MT_OK;
}

static mt_status check(const mt_tensor *t, const char *what)
{
    if (mt__tracks(t) && mt__grad_mode)
        return mt__fail(MT_E_RUNTIME, "cannot %s variables that require grad", what);
    return MT_OK;
}

/* ------------------------------------------------------------------------------------------------- resize_ */

/* Allocates new memory, with the old elements at its front. */
static mt_status grow(mt_tensor *t, int64_t numel)
{
    mt_tensor *fresh = NULL, *to = NULL, *from = NULL, *done = NULL;
    int64_t had = (int64_t)(t->storage->bytes / mt__size_of(t)), all = numel + t->offset, step = 1;
    mt_status status = mt__empty((mt_dtype)t->dtype, t->device, 1, &all, &fresh);
    if (status == MT_OK && had > 0) {
        status = mt__alias(fresh, 1, &had, &step, 0, &to);
        if (status == MT_OK)
            status = mt__alias(t, 1, &had, &step, 0, &from);
        mt_value args[2] = {mt_value_tensor(to), mt_value_tensor(from)};
        if (status == MT_OK)
            status = mt__run_quietly(MT_OP_copy_, args, 2, &done);
        mt_release(to);
        mt_release(from);
        mt_release(done);
    }
    if (status == MT_OK)
        status = take_storage(t, fresh->storage, t->offset);
    mt_release(fresh);
    return status;
}

mt_status mt__resize(mt_tensor *t, int rank, const int64_t *dims)
{
    int64_t numel = 1;
    if (mt__has_dims(t, rank, dims))
        return MT_OK; /* keeps its strides, too */
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(numel, dims[i], &numel))
            return mt__fail(MT_E_RUNTIME, "resize_: %s is not a valid size", mt__shape_text(dims, rank));
    int64_t bytes = 0;
    if (__builtin_add_overflow(numel, t->offset, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)mt__size_of(t), &bytes))
        return mt__fail(MT_E_RUNTIME, "Storage size calculation overflowed with sizes=%s",
                        mt__shape_text(dims, rank));
    if (numel > 0 && (size_t)bytes > t->storage->bytes) {
        if (t->storage->drop != NULL) /* the memory of an array, which would no longer see the elements */
            return mt__fail(MT_E_RUNTIME, "Trying to resize storage that is not resizable");
        mt_status status = grow(t, numel);
        if (status != MT_OK)
            return status;
    } else {
        ++*mt__version(t);
    }
    t->rank = (uint8_t)rank;
    t->numel = numel;
    if (rank > 0)
        memcpy(t->dims, dims, (size_t)rank * sizeof *dims);
    mt__contiguous_strides(rank, dims, t->strides);
    mt__set_contiguous_flag(t);
    return MT_OK;
}

mt_status mt_resize(mt_tensor *t, int rank, const int64_t *dims)
{
    if (t == NULL || (rank > 0 && dims == NULL) || rank < 0 || rank > MT_MAX_RANK)
        return mt__fail(MT_E_VALUE, "mt_resize: a tensor and at most %d dims are needed", MT_MAX_RANK);
    mt_status status = check(t, "resize");
    if (status != MT_OK)
        return status;
    recorded r;
    mt_value size = mt_value_ints(dims, (uint32_t)rank);
    begin(&r, MTP_NAME("aten::resize_"), t, NULL, &size);
    status = mt__resize(t, rank, dims);
    mtp_op_end(&r.op);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- set_ */

static mt_status set_empty(mt_tensor *t)
{
    mt_storage *none;
    mt_status status = mt__storage_create(t->device, 0, &none);
    if (status != MT_OK)
        return status;
    status = take_storage(t, none, 0);
    mt__storage_release(none);
    if (status != MT_OK)
        return status;
    t->rank = 1;
    t->numel = t->dims[0] = 0;
    t->strides[0] = 1;
    mt__set_contiguous_flag(t);
    return MT_OK;
}

mt_status mt_set(mt_tensor *t, mt_tensor *source)
{
    if (t == NULL)
        return mt__fail(MT_E_VALUE, "mt_set: the tensor is NULL");
    if (source != NULL && (source->dtype != t->dtype || source->device != t->device))
        return mt__fail(MT_E_RUNTIME, "set_: both tensors must have the same dtype and device");
    mt_status status = check(t, "set the memory of");
    if (status != MT_OK)
        return status;
    recorded r;
    begin(&r, MTP_NAME("aten::set_"), t, source, NULL);
    if (source == NULL) {
        status = set_empty(t);
    } else if ((status = take_storage(t, source->storage, source->offset)) == MT_OK) {
        t->rank = source->rank;
        t->numel = source->numel;
        memcpy(t->dims, source->dims, sizeof t->dims);
        memcpy(t->strides, source->strides, sizeof t->strides);
        mt__set_contiguous_flag(t);
    }
    mtp_op_end(&r.op);
    return status;
}

mt_status mt_storage_view(const mt_tensor *t, mt_tensor **out)
{
    if (t == NULL || out == NULL)
        return mt__fail(MT_E_VALUE, "mt_storage_view: an argument is NULL");
    int64_t count = (int64_t)(t->storage->bytes / mt__size_of(t)), step = 1;
    return mt__alias(t, 1, &count, &step, 0, out);
}
