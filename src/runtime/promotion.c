/* runtime/promotion.c - the dtype that an op computes in, by PyTorch's rules: tensors with dims decide
 * within their category; a 0-dim tensor, and then a number, counts only if its category (bool < integer <
 * floating) is higher.
 */
#include "runtime/runtime.h"

mt_dtype mt__default_dtype = MT_FLOAT32;
MT__FAST_TLS mt_device mt__default_device = MT_CPU;

mt_dtype mt__promote_types(mt_dtype a, mt_dtype b)
{
    return a > b ? a : b;
}

mt_dtype mt__value_dtype(const mt_value *v)
{
    if (v->kind == MT_TENSOR)
        return (mt_dtype)v->as.tensor->dtype;
    return v->kind == MT_FLOAT ? mt__default_dtype : v->kind == MT_TRUTH ? MT_BOOL : MT_INT64;
}

static void raise_to(uint8_t *slot, mt_dtype dtype)
{
    uint8_t with = (uint8_t)(dtype + 1);
    if (with > *slot)
        *slot = with;
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
