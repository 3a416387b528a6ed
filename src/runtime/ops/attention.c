/* runtime/ops/attention.c - scaled_dot_product_attention, composed of matrix products and a softmax. */
#include "runtime/runtime.h"
#include <math.h>

static mt_status check(const mt__call *call)
{
    const mt_tensor *q = mt__arg_tensor(call, 0), *k = mt__arg_tensor(call, 1), *v = mt__arg_tensor(call, 2),
                    *mask = mt__arg_tensor(call, 3);
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return mt__fail(MT_E_RUNTIME,
                        "Expected query, key, and value to have the same dtype, but got query.dtype: %s "
                        "key.dtype: %s and "
                        "value.dtype: %s instead.",
                        mt__c_type(q->dtype), mt__c_type(k->dtype), mt__c_type(v->dtype));
    if (q->rank < 2 || k->rank < 2 || v->rank < 2)
        return mt__fail(MT_E_RUNTIME,
                        "Expected query, key, and value to all be  at least 2 dimensional, but got "
                        "query.dim: %d key.dim: %d and "
                        "value.dim: %d instead.",
                        q->rank, k->rank, v->rank);
    if (mask != NULL && mask->dtype != MT_BOOL && mask->dtype != q->dtype && mask->dtype != MT_FLOAT32)
        return mt__fail(MT_E_RUNTIME,
                        "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                        "attn_mask.dtype: %s and  "
                        "query.dtype: %s instead.",
                        mt__c_type(mask->dtype), mt__c_type(q->dtype));
    if (mask != NULL && mt__arg_int(call, 5))
        return mt__fail(
            MT_E_RUNTIME,
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
    return MT_OK;
}

/* The mask to add to the scores: 0 where a query may attend, -inf elsewhere; NULL: no mask. */
static mt_tensor *bias_of(const mt__call *call, const mt_tensor *q, const mt_tensor *k)
{
    mt_tensor *mask = mt__arg_tensor(call, 3);
    mt_value dtype = mt_value_int(q->dtype), device = mt_value_int(q->device);
    if (mt__arg_int(call, 5))
        return MT(triu,
                  MT(full, MT_SHAPE(q->dims[q->rank - 2], k->dims[k->rank - 2]), -INFINITY, dtype, device),
                  1);
    if (mask == NULL || mask->dtype != MT_BOOL)
        return mask;
    return MT(masked_fill, MT(zeros_like, mask, dtype), MT(logical_not, mask), -INFINITY);
}

#define CAUSAL_BLOCK 256 /* queries */
#define CAUSAL_BLOCKS 64 /* at most; larger blocks beyond */

/* Causal attention by blocks of queries: a block needs no scores of the keys after its last query, which are half
 * of all. */
static mt_tensor *causal_blocks(mt_tensor *q, mt_tensor *k, mt_tensor *v)
{
    mt_tensor *parts[CAUSAL_BLOCKS], *turned = MT(transpose, k, -2, -1);
    int64_t queries = q->dims[q->rank - 2], keys = k->dims[k->rank - 2];
    int64_t block = (queries + CAUSAL_BLOCKS - 1) / CAUSAL_BLOCKS;
    uint32_t count = 0;
    mt_value dtype = mt_value_int(q->dtype), device = mt_value_int(q->device);
    block = block > CAUSAL_BLOCK ? block : CAUSAL_BLOCK;
    for (int64_t at = 0; at < queries; at += block) {
        int64_t n = queries - at < block ? queries - at : block, seen = at + n < keys ? at + n : keys;
        mt_tensor *bias = MT(triu, MT(full, MT_SHAPE(n, seen), -INFINITY, dtype, device), at + 1);
        mt_tensor *scores = MT(matmul, MT(narrow, q, -2, at, n), MT(narrow, turned, -1, 0, seen));
        mt_tensor *weights = MT(softmax, MT(add_, scores, bias), -1);
        parts[count++] = MT(matmul, weights, MT(narrow, v, -2, 0, seen));
        if (mt_scope_status() != MT_OK)
            return NULL;
    }
    return MT(cat, mt_value_tensors(parts, count), -2);
}

/* Each head of keys or values for as many heads of queries as share it (enable_gqa). */
static mt_tensor *shared_heads(mt_tensor *t, int64_t heads)
{
    int64_t have = t->dims[t->rank - 3], wide[MT_MAX_RANK + 1], dims[MT_MAX_RANK];
    int at = t->rank - 2;
    if (have == heads)
        return t;
    for (int i = 0; i < t->rank; i++)
        wide[i < at ? i : i + 1] = dims[i] = t->dims[i];
    wide[at] = heads / have;
    dims[at - 1] = heads;
    mt_tensor *expanded = MT(expand, MT(unsqueeze, t, at), mt_value_ints(wide, (uint32_t)t->rank + 1));
    return MT(reshape, expanded, mt_value_ints(dims, t->rank));
}

static mt_status check_heads(const mt__call *call)
{
    const mt_tensor *q = mt__arg_tensor(call, 0);
    for (unsigned i = 1; i < 3; i++) {
        const mt_tensor *t = mt__arg_tensor(call, i);
        if (q->rank < 3 || t->rank < 3 || t->rank == MT_MAX_RANK || t->dims[t->rank - 3] == 0 ||
            q->dims[q->rank - 3] % t->dims[t->rank - 3] != 0)
            return mt__fail(MT_E_RUNTIME,
                            "Number of heads in key and value must divide the number of heads in "
                            "query (enable_gqa=True).");
    }
    return MT_OK;
}

mt_status mt__composite_scaled_dot_product_attention(mt__call *call)
{
    mt_tensor *q = mt__arg_tensor(call, 0), *k = mt__arg_tensor(call, 1), *v = mt__arg_tensor(call, 2);
    bool groups = mt__arg_int(call, 7) != 0;
    mt_status status = check(call);
    if (status == MT_OK && groups)
        status = check_heads(call);
    if (status != MT_OK)
        return status;
    if (groups) {
        k = shared_heads(k, q->dims[q->rank - 3]);
        v = shared_heads(v, q->dims[q->rank - 3]);
        if (k == NULL || v == NULL)
            return mt_scope_status();
    }
    double p = mt__arg_number(call, 4);
    double scale = mt__arg_given(call, 6) ? mt__arg_number(call, 6) : 1 / sqrt((double)q->dims[q->rank - 1]);
    if (mt__arg_int(call, 5) && p == 0 && MT_DEVICE_TYPE(q->device) == 0 &&
        q->dims[q->rank - 2] >= 2 * CAUSAL_BLOCK && k->dims[k->rank - 2] >= 2 * CAUSAL_BLOCK &&
        v->dims[v->rank - 2] == k->dims[k->rank - 2])
        return mt__return(call, causal_blocks(MT(mul, q, scale), k, v));
    mt_tensor *bias = bias_of(call, q, k);
    mt_tensor *scores = MT(matmul, MT(mul, q, scale), MT(transpose, k, -2, -1));
    if (bias != NULL)
        scores = bias->rank <= 2 ? MT(add_, scores, bias) : MT(add, scores, bias);
    mt_tensor *lost = NULL; /* queries that may attend to nothing get zeros, and propagate no NaN backward */
    if (mt__arg_given(call, 3)) {
        lost = MT(all_dim, MT(eq, scores, -INFINITY), -1, true);
        scores = MT(masked_fill, scores, lost, 0.0);
    }
    mt_tensor *weights = MT(softmax, scores, -1);
    if (lost != NULL)
        weights = MT(masked_fill, weights, lost, 0.0);
    if (p > 0)
        weights = MT(dropout, weights, p, true);
    return mt__return(call, MT(matmul, weights, v));
}
