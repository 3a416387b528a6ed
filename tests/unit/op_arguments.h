/* Random arguments for any row of the op table: mostly valid, some invalid. Set `seed`; drop the tensors
 * made. */
#ifndef OP_ARGUMENTS_H
#define OP_ARGUMENTS_H
#include <mindtorch.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 1;

static uint32_t chance(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 11) % below);
}

/* ------------------------------------------------------------------------------------------------
 * arguments */

typedef struct made {
    mt_tensor *tensors[64]; /* owned */
    unsigned count;
    int64_t ints[64];
    unsigned int_count;
    mt_tensor *lists[64]; /* borrowed from tensors */
    unsigned list_count;
} made;

static void fill(mt_tensor *t)
{
    mt_dtype dtype = mt_dtype_of(t);
    char *data = mt_data(t);
    for (int64_t i = 0; i < mt_numel(t); i++) {
        int value = (int)chance(8) - 2; /* small: many are valid as indices and classes */
        mt_value number = dtype == MT_BOOL          ? mt_value_truth(value > 0)
                          : mt_dtype_is_real(dtype) ? mt_value_float(value * 0.37)
                                                    : mt_value_int(value);
        mt_element_set(data + (size_t)i * mt_dtype_bytes(dtype), dtype, number);
    }
}

static mt_tensor *keep(made *m, mt_tensor *t)
{
    if (t != NULL)
        m->tensors[m->count++] = t;
    return t;
}

/* Another layout of the same numbers. */
static mt_tensor *relaid(made *m, mt_tensor *t)
{
    mt_value args[4] = {mt_value_tensor(t)};
    mt_tensor *out = NULL;
    int rank = mt_rank(t);
    if (rank == 0 || m->count > 40)
        return t;
    if (chance(2)) {
        args[1] = mt_value_int(chance((uint32_t)rank));
        args[2] = mt_value_int(chance((uint32_t)rank));
        mt_call(MT_OP_transpose, args, 3, &out);
    } else {
        mt_value slice[] = {args[0], mt_value_int(0), mt_value_int(0), mt_value_int(100), mt_value_int(2)};
        mt_call(MT_OP_slice, slice, 5, &out);
    }
    return out != NULL ? keep(m, out) : t;
}

static mt_tensor *a_tensor(made *m)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 4, 4, 0, 5};
    static const mt_dtype dtypes[] = {MT_FLOAT32, MT_FLOAT32, MT_FLOAT32, MT_FLOAT64,
                                      MT_INT64,   MT_INT64,   MT_INT32,   MT_BOOL};
    static const mt_dtype narrow[] = {MT_FLOAT16, MT_BFLOAT16, MT_UINT8, MT_INT8, MT_INT16};
    mt_dtype dtype = chance(12) == 0 ? narrow[chance(5)] : dtypes[chance(8)];
    int64_t dims[4];
    int rank = (int)chance(5);
    bool square = chance(2);
    for (int i = 0; i < rank; i++)
        dims[i] = square ? 4 : sizes[chance(8)];
    mt_tensor *t;
    if (m->count > 40 || mt_tensor_create(dtype, MT_CPU, rank, dims, &t) != MT_OK)
        return m->count > 0 ? m->tensors[0] : NULL;
    fill(t);
    keep(m, t);
    if (chance(3) == 0)
        mt_set_requires_grad(t, true);
    return chance(4) == 0 ? relaid(m, t) : t;
}

static mt_value some_ints(made *m)
{
    unsigned n = chance(5), from = m->int_count;
    for (unsigned i = 0; i < n && m->int_count < 64; i++)
        m->ints[m->int_count++] = (int64_t)chance(7) - 1;
    return mt_value_ints(m->ints + from, m->int_count - from);
}

static mt_value some_tensors(made *m)
{
    unsigned n = chance(4), from = m->list_count;
    mt_tensor *first = a_tensor(m);
    for (unsigned i = 0; i < n && m->list_count < 64; i++)
        m->lists[m->list_count++] = chance(2) ? first : chance(8) == 0 ? NULL : a_tensor(m);
    return mt_value_tensors(m->lists + from, m->list_count - from);
}

static mt_value an_argument(made *m, const mt_param *p)
{
    static const char *const texts[] = {"none", "tanh", "what"};
    if (chance(40) == 0) /* of the wrong kind */
        return chance(2) ? mt_value_text("x") : mt_value_none(NULL);
    if (p->has_default && chance(2))
        return p->default_value;
    switch ((mt_type)p->type) {
    case MT_TYPE_TENSOR:
        return p->optional && chance(2) ? mt_value_none(NULL) : mt_value_tensor(a_tensor(m));
    case MT_TYPE_TENSORS:
        return some_tensors(m);
    case MT_TYPE_OPERAND:
        return chance(2)   ? mt_value_tensor(a_tensor(m))
               : chance(2) ? mt_value_int((int64_t)chance(5) - 2)
                           : mt_value_float(1.5);
    case MT_TYPE_SCALAR:
        return chance(2) ? mt_value_int((int64_t)chance(6) - 2) : mt_value_float((double)chance(8) - 3.5);
    case MT_TYPE_INT:
        return mt_value_int(chance(12) == 0 ? INT64_MIN + chance(3) : (int64_t)chance(8) - 2);
    case MT_TYPE_FLOAT:
        return mt_value_float((double)chance(5) * 0.25);
    case MT_TYPE_BOOL:
        return mt_value_truth(chance(2));
    case MT_TYPE_INTS:
        return some_ints(m);
    case MT_TYPE_TEXT:
        return mt_value_text(texts[chance(3)]);
    case MT_TYPE_DTYPE:
        return mt_value_int(chance(6));
    case MT_TYPE_DEVICE:
        break;
    }
    return mt_value_int(MT_CPU);
}

static void drop_made(made *m)
{
    while (m->count > 0)
        mt_release(m->tensors[--m->count]);
}

#endif
