/* runtime/promotion.c - the dtype that an op computes in, by PyTorch's rules: tensors with dims decide
 * within their category; a 0-dim tensor, and then a number, counts only if its category (bool < integer <
 * floating) is higher.
 */
#include "runtime/runtime.h"

mt_dtype mt__default_dtype = MT_FLOAT32;
MT__FAST_TLS mt_device mt__default_device = MT_CPU;

mt_dtype mt__promote_types(mt_dtype a, mt_dtype b)
{
    if (a == b || mt_dtype_kind_of(a) != mt_dtype_kind_of(b))
        return mt_dtype_kind_of(a) >= mt_dtype_kind_of(b) ? a : b;
    size_t size_a = mt_dtype_bytes(a), size_b = mt_dtype_bytes(b);
    if (size_a == size_b) /* neither holds the other's numbers: uint8 and int8, float16 and bfloat16 */
        return mt_dtype_is_real(a) ? MT_FLOAT32 : MT_INT16;
    return size_a > size_b ? a : b;
}

mt_dtype mt_promote_types(mt_dtype a, mt_dtype b)
{
    return mt__promote_types(a, b);
}

mt_dtype mt__value_dtype(const mt_value *v)
{
    if (v->kind == MT_TENSOR)
        return (mt_dtype)v->as.tensor->dtype;
    return v->kind == MT_FLOAT ? mt__default_dtype : v->kind == MT_TRUTH ? MT_BOOL : MT_INT64;
}

static void raise_to(uint8_t *slot, mt_dtype dtype)
{
    if (*slot != dtype + 1u) /* as a rule, operands are alike */
        *slot = (uint8_t)(1 + (*slot != 0 ? mt__promote_types((mt_dtype)(*slot - 1), dtype) : dtype));
}

__attribute__((cold, noinline)) static void promote_number(mt__promotion *p, mt_dtype dtype)
{
    raise_to(&p->wrapped, mt__is_floating(dtype) ? mt__default_dtype : dtype);
}

void mt__promote(mt__promotion *p, const mt_value *v)
{
    if (v->kind == MT_NONE)
        return;
    mt_dtype dtype = mt__value_dtype(v);
    uint8_t *slot = v->kind != MT_TENSOR ? &p->wrapped : v->as.tensor->rank == 0 ? &p->zero : &p->dim;
    if (MT__UNLIKELY(slot == &p->zero && (v->as.tensor->flags & MT__IS_NUMBER)))
        promote_number(p, dtype);
    else
        raise_to(slot, dtype);
}

/* The lower-priority kind counts only if its category is higher. */
static unsigned combine(unsigned higher, unsigned lower)
{
    if (higher == 0 || lower == 0)
        return higher != 0 ? higher : lower;
    return mt_dtype_kind_of((mt_dtype)(lower - 1)) > mt_dtype_kind_of((mt_dtype)(higher - 1)) ? lower
                                                                                              : higher;
}

mt_dtype mt__promoted(const mt__promotion *p)
{
    unsigned all = combine(combine(p->dim, p->zero), p->wrapped);
    return all == 0 ? mt__default_dtype : (mt_dtype)(all - 1);
}
