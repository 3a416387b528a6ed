/* runtime/ops/sequence.c - batches of sequences of different lengths, padded to the longest or packed: composed of
 * slices and joins.
 */
#include "runtime/runtime.h"
#include <stdlib.h>

/* ---------------------------------------------------------------------------------------------- pad_sequence */

static mt_status check_sequences(const mt_value *list, int64_t *longest)
{
    *longest = 0;
    if (list->count == 0)
        return mt__fail(MT_E_RUNTIME, "received an empty list of sequences");
    for (uint32_t i = 0; i < list->count; i++) {
        const mt_tensor *t = list->as.tensors[i], *first = list->as.tensors[0];
        if (t->rank == 0 || t->rank >= MT_MAX_RANK)
            return mt__fail(MT_E_RUNTIME, "pad_sequence: a sequence needs 1 to %d dimensions, got %d",
                            MT_MAX_RANK - 1, t->rank);
        if (t->rank != first->rank ||
            memcmp(t->dims + 1, first->dims + 1, (size_t)(t->rank - 1) * sizeof *t->dims) != 0)
            return mt__fail(
                MT_E_RUNTIME,
                "The size of the trailing dimensions of all sequences must be equal, but sequence %u "
                "is of size %s and the first of size %s",
                i, mt__shape_text(t->dims, t->rank), mt__shape_text(first->dims, first->rank));
        *longest = t->dims[0] > *longest ? t->dims[0] : *longest;
    }
    return MT_OK;
}

/* pad_sequence(sequences, batch_first, padding_value, padding_side) */
mt_status mt__composite_pad_sequence(mt__call *call)
{
    const mt_value *list = &call->args[0];
    const char *side = call->args[3].as.text;
    bool batch_first = mt__arg_int(call, 1) != 0, left = strcmp(side, "left") == 0;
    int64_t longest, dims[MT_MAX_RANK];
    if (!left && strcmp(side, "right") != 0)
        return mt__fail(MT_E_RUNTIME, "Expected padding_side to be one of left or right, but got %s.", side);
    mt_status status = check_sequences(list, &longest);
    if (status != MT_OK)
        return status;
    const mt_tensor *first = list->as.tensors[0];
    memcpy(dims + 1, first->dims, (size_t)first->rank * sizeof *dims);
    dims[batch_first ? 0 : 1] = list->count;
    dims[batch_first ? 1 : 0] = longest;
    mt_tensor *out = MT(full, mt_value_ints(dims, (uint32_t)first->rank + 1), call->args[2],
                        (int64_t)first->dtype, (int64_t)first->device);
    for (uint32_t i = 0; i < list->count && mt_scope_status() == MT_OK; i++) {
        mt_tensor *t = list->as.tensors[i];
        mt_tensor *row = MT(select, out, batch_first ? 0 : 1, (int64_t)i);
        MT(copy_, MT(narrow, row, 0, left ? longest - t->dims[0] : 0, t->dims[0]), t);
    }
    return mt__return(call, out);
}

/* --------------------------------------------------------------------------------------------------- packing */

/* lengths or batch sizes: a 1-dim int64 tensor in the host's memory. */
static mt_status check_lengths(const mt_tensor *t)
{
    if (t->rank == 1 && t->dtype == MT_INT64 && t->device == MT_CPU)
        return MT_OK;
    return mt__fail(MT_E_RUNTIME,
                    "'lengths' argument should be a 1D CPU int64 tensor, but got %dD %s %s tensor", t->rank,
                    mt__device_text(t->device), mt__scalar_type(t->dtype));
}

static int64_t length_at(const mt_tensor *t, int64_t i)
{
    return ((const int64_t *)t->data)[i * t->strides[0]];
}

static mt_status check_packable(const mt_tensor *input, const mt_tensor *lengths)
{
    mt_status status = check_lengths(lengths);
    if (status != MT_OK)
        return status;
    if (input->rank < 2 || input->numel == 0)
        return mt__fail(MT_E_RUNTIME, "Cannot pack empty tensors.");
    int64_t batch = input->dims[1];
    if (lengths->dims[0] != batch)
        return mt__fail(MT_E_RUNTIME,
                        "Expected `len(lengths)` to be equal to batch_size, but got %lld (batch_size=%lld)",
                        (long long)lengths->dims[0], (long long)batch);
    for (int64_t i = batch - 1; i >= 0; i--) {
        if (length_at(lengths, i) <= 0)
            return mt__fail(MT_E_RUNTIME,
                            "Length of all samples has to be greater than 0, but found an element in "
                            "'lengths' that is <= 0");
        if (i > 0 && length_at(lengths, i) > length_at(lengths, i - 1))
            return mt__fail(
                MT_E_RUNTIME,
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
                "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
                "sidestep this requirement if you do not need ONNX exportability.");
    }
    if (length_at(lengths, 0) > input->dims[0])
        return mt__fail(MT_E_RUNTIME, "Expected lengths of at most %lld, the input's, but got %lld",
                        (long long)input->dims[0], (long long)length_at(lengths, 0));
    return MT_OK;
}

/* Steps begin <= i < end of the first `rows` sequences, below each other. */
static mt_tensor *block(mt_tensor *input, int64_t begin, int64_t end, int64_t rows)
{
    int64_t dims[MT_MAX_RANK];
    mt_tensor *cut = MT(slice, MT(slice, input, 0, begin, end), 1, 0, rows);
    dims[0] = (end - begin) * rows;
    memcpy(dims + 1, input->dims + 2, (size_t)(input->rank - 2) * sizeof *dims);
    return MT(view, MT(contiguous, cut), mt_value_ints(dims, (uint32_t)input->rank - 1));
}

/* _pack_padded_sequence(input, lengths, batch_first): steps at which sequences end divide it into blocks. */
mt_status mt__composite_pack_padded_sequence(mt__call *call)
{
    mt_tensor *input = mt__arg_tensor(call, 0);
    const mt_tensor *lengths = mt__arg_tensor(call, 1);
    if (mt__arg_int(call, 2))
        input = MT(transpose, input, 0, 1);
    if (input == NULL)
        return mt_scope_status();
    mt_status status = check_packable(input, lengths);
    if (status != MT_OK)
        return status;
    int64_t batch = input->dims[1], longest = length_at(lengths, 0), begin = 0;
    uint32_t count = 0;
    status = mt__empty(MT_INT64, MT_CPU, 1, &longest, &call->outs[1]);
    mt_tensor **blocks = malloc((size_t)batch * sizeof *blocks);
    if (blocks == NULL && status == MT_OK)
        status = mt__fail(MT_E_NOMEM, "out of memory: a batch of %lld sequences", (long long)batch);
    for (int64_t rows = batch; rows > 0 && status == MT_OK; rows--) {
        int64_t end = length_at(lengths, rows - 1);
        if (end == begin)
            continue;
        for (int64_t i = begin; i < end; i++)
            ((int64_t *)call->outs[1]->data)[i] = rows;
        blocks[count++] = block(input, begin, end, rows);
        begin = end;
        status = mt_scope_status();
    }
    if (status == MT_OK)
        status = mt__return(call, MT(cat, mt_value_tensors(blocks, count), 0));
    free(blocks);
    return status;
}

static mt_status check_sizes(const mt_tensor *data, const mt_tensor *sizes, int64_t total)
{
    mt_status status = check_lengths(sizes);
    int64_t rows = 0;
    if (status != MT_OK)
        return status;
    for (int64_t i = 0; i < sizes->dims[0]; i++) {
        int64_t now = length_at(sizes, i), left = data->rank > 0 ? data->dims[0] - rows : 0;
        if (now < 1 || now > left || (i > 0 && now > length_at(sizes, i - 1)))
            return mt__fail(MT_E_RUNTIME,
                            "batch_sizes must be positive, never grow, and sum to the rows of data");
        rows += now;
    }
    if (rows == 0)
        return mt__fail(MT_E_RUNTIME, "Cannot pad a packed sequence without steps.");
    if (total > 0 && total < sizes->dims[0])
        return mt__fail(
            MT_E_RUNTIME,
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            "total_length=%lld and max sequence length being %lld",
            (long long)total, (long long)sizes->dims[0]);
    return MT_OK;
}

/* The lengths of the sequences: how many batch sizes exceed their position. */
static mt_status lengths_of(const mt_tensor *sizes, mt_tensor **out)
{
    int64_t batch = length_at(sizes, 0), steps = sizes->dims[0];
    mt_status status = mt__empty(MT_INT64, MT_CPU, 1, &batch, out);
    for (int64_t k = 0; k < batch && status == MT_OK; k++) {
        while (length_at(sizes, steps - 1) <= k)
            steps--;
        ((int64_t *)(*out)->data)[k] = steps;
    }
    return status;
}

/* _pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length) */
mt_status mt__composite_pad_packed_sequence(mt__call *call)
{
    mt_tensor *data = mt__arg_tensor(call, 0);
    const mt_tensor *sizes = mt__arg_tensor(call, 1);
    int64_t total = mt__arg_int(call, 4), dims[MT_MAX_RANK + 1], row = 0;
    mt_status status = check_sizes(data, sizes, total);
    if (status == MT_OK && data->rank == MT_MAX_RANK)
        status = mt__fail(MT_E_RUNTIME, "a packed sequence has at most %d dimensions", MT_MAX_RANK - 1);
    if (status == MT_OK)
        status = lengths_of(sizes, &call->outs[1]);
    if (status != MT_OK)
        return status;
    int64_t steps = sizes->dims[0];
    uint32_t rank = (uint32_t)data->rank + 1;
    memcpy(dims + 1, data->dims, (size_t)data->rank * sizeof *dims);
    dims[0] = total > 0 ? total : steps;
    dims[1] = length_at(sizes, 0);
    mt_tensor *out =
        MT(full, mt_value_ints(dims, rank), call->args[3], (int64_t)data->dtype, (int64_t)data->device);
    for (int64_t begin = 0, end; begin < steps && mt_scope_status() == MT_OK; begin = end) {
        int64_t rows = length_at(sizes, begin);
        for (end = begin + 1; end < steps && length_at(sizes, end) == rows;)
            end++;
        dims[0] = end - begin;
        dims[1] = rows;
        mt_tensor *from = MT(slice, data, 0, row, row + (end - begin) * rows);
        mt_tensor *to = MT(slice, MT(slice, out, 0, begin, end), 1, 0, rows);
        MT(copy_, to, MT(view, from, mt_value_ints(dims, rank)));
        row += (end - begin) * rows;
    }
    return mt__return(call, mt__arg_int(call, 2) ? MT(transpose, out, 0, 1) : out);
}
