/* analyze/flops.c - reads shapes from the trace's JSON texts; arithmetic wraps like torch (uint64_t). */
#include "analyze/flops.h"
#include <stdlib.h>
#include <string.h>

#define ARGS 16
#define RANK 8

typedef struct arg {
    uint64_t dim[RANK];
    uint64_t numel;
    int rank;    /* may exceed RANK: then only numel is right */
    bool tensor; /* or an undefined one */
} arg;

typedef struct call {
    arg arg[ARGS];
    int args;
    const char *concrete; /* borrowed: JSON list of strings, or NULL */
} call;

/* ------------------------------------------------------------------------------------------- reading */

/* [[2, 3], [], [[4], [5]]]: a list of tensors (the third) is only noted as such. */
static void read_dims(call *c, const char *p)
{
    int depth = 0;
    bool list = false;
    for (; *p != '\0'; p++) {
        arg *a = c->args > 0 ? &c->arg[c->args - 1] : NULL;
        if (*p == '[') {
            if (++depth == 2) {
                if (c->args == ARGS)
                    return;
                list = false;
                c->arg[c->args++].numel = 1;
            } else if (depth == 3) {
                list = true;
            }
        } else if (*p == ']') {
            if (depth-- == 2 && list)
                a->rank = 0, a->numel = 1;
        } else if (*p >= '0' && *p <= '9' && depth == 2 && a != NULL) {
            char *end;
            uint64_t value = strtoull(p, &end, 10);
            if (a->rank < RANK)
                a->dim[a->rank] = value;
            a->rank++;
            a->numel *= value;
            p = end - 1;
        }
    }
}

/* The nth string of a JSON list of strings; false: absent. Escapes are not decoded. */
static bool nth_string(const char *p, int nth, const char **text, size_t *length)
{
    for (; p != NULL && (p = strchr(p, '"')) != NULL; nth--) {
        const char *from = ++p;
        while (*p != '"' && *p != '\0')
            p += *p == '\\' && p[1] != '\0' ? 2 : 1;
        if (*p == '\0')
            return false;
        if (nth == 0) {
            *text = from;
            *length = (size_t)(p - from);
            return true;
        }
        p++;
    }
    return false;
}

static bool is_tensor_type(const char *text, size_t length)
{
    static const char *const other[] = {"Scalar", "ScalarList", "TensorList", "GenericList", ""};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strlen(other[i]) == length && memcmp(other[i], text, length) == 0)
            return false;
    return true;
}

static bool read_call(call *c, const mtp_trace *t, uint32_t shape)
{
    memset(c, 0, sizeof *c);
    if (shape == 0 || shape >= t->shape_count || t->shapes[shape].dims == 0)
        return false;
    const mtp__shape *s = &t->shapes[shape];
    read_dims(c, mtp__trace_get_text(t, s->dims).bytes);
    const char *types = s->types != 0 ? mtp__trace_get_text(t, s->types).bytes : NULL;
    for (int i = 0; i < c->args; i++) {
        const char *text;
        size_t length;
        c->arg[i].tensor = types == NULL
                               ? c->arg[i].rank > 0
                               : nth_string(types, i, &text, &length) && is_tensor_type(text, length);
    }
    c->concrete = s->concrete != 0 ? mtp__trace_get_text(t, s->concrete).bytes : NULL;
    return true;
}

/* The nth concrete input as integers: "[1, 2]" or "3". -1: something else. */
static int read_ints(const call *c, int nth, int64_t *out, int room)
{
    const char *p;
    size_t length;
    if (c->concrete == NULL || !nth_string(c->concrete, nth, &p, &length) || length == 0)
        return -1;
    const char *end = p + length;
    int count = 0;
    while (p < end) {
        if (*p == '[' || *p == ']' || *p == ',' || *p == ' ') {
            p++;
            continue;
        }
        char *after;
        long long value = strtoll(p, &after, 10);
        if (after == p || after > end)
            return -1;
        if (count < room)
            out[count] = value;
        count++;
        p = after;
    }
    return count;
}

static uint64_t largest(const call *c)
{
    uint64_t most = 0;
    for (int i = 0; i < c->args; i++)
        if (c->arg[i].tensor && c->arg[i].numel > most)
            most = c->arg[i].numel;
    return most;
}

static bool tensors(const call *c, int first, int last)
{
    for (int i = first; i <= last; i++)
        if (i >= c->args || !c->arg[i].tensor || c->arg[i].rank > RANK)
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------ torch's formulas */

/* Each returns false if the shapes do not suit the op. n: a number from the table. */
typedef bool formula(const call *c, unsigned n, uint64_t *flops);

/* 2 M K N of arguments n and n + 1. */
static bool gemm(const call *c, unsigned n, uint64_t *flops)
{
    const arg *a = &c->arg[n], *b = &c->arg[n + 1];
    if (!tensors(c, 0, (int)n + 1) || a->rank == 0)
        return false;
    uint64_t k = a->dim[a->rank - 1];
    *flops = k == 0 ? 0 : a->numel / k * b->numel * 2;
    return true;
}

/* 2 B M K N. */
static bool batch_gemm(const call *c, unsigned n, uint64_t *flops)
{
    const arg *a = &c->arg[n], *b = &c->arg[n + 1];
    if (!tensors(c, 0, (int)n + 1) || a->rank == 0)
        return false;
    uint64_t batch = a->dim[0], k = a->dim[a->rank - 1];
    *flops = batch == 0 || k == 0 ? 0 : a->numel / k / batch * b->numel * 2;
    return true;
}

/* The elements of the first argument. */
static bool first_numel(const call *c, unsigned n, uint64_t *flops)
{
    *flops = n * c->arg[0].numel;
    return c->args > 0 && c->arg[0].tensor;
}

/* input, weight, bias, stride, padding, dilation, groups: two dimensions, all numbers. */
static bool conv2d(const call *c, unsigned n, uint64_t *flops)
{
    (void)n;
    int64_t stride[2], padding[2], dilation[2], groups[1];
    const uint64_t *in = c->arg[0].dim, *weight = c->arg[1].dim;
    if (c->args < 7 || !tensors(c, 0, 1) || c->arg[0].rank != 4 || c->arg[1].rank != 4 ||
        read_ints(c, 3, stride, 2) != 2 || read_ints(c, 4, padding, 2) != 2 ||
        read_ints(c, 5, dilation, 2) != 2 || read_ints(c, 6, groups, 1) != 1 || groups[0] == 0 ||
        stride[0] == 0 || stride[1] == 0)
        return false;
    uint64_t out[2];
    for (int i = 0; i < 2; i++)
        out[i] = (in[2 + i] + 2 * (uint64_t)padding[i] - (uint64_t)dilation[i] * (weight[2 + i] - 1) - 1) /
                     (uint64_t)stride[i] +
                 1;
    *flops = 2 * in[0] * out[0] * out[1] * weight[2] * weight[3] * in[1] * weight[0] / (uint64_t)groups[0];
    return true;
}

/* ---------------------------------------------------------------------------------------- our own more */

/* Known to compute nothing: it moves, creates or describes data, or its parts are ops themselves. */
static bool nothing(const call *c, unsigned n, uint64_t *flops)
{
    (void)c, (void)n;
    *flops = 0;
    return true;
}

/* n operations for each element of the largest input. */
static bool per_element(const call *c, unsigned n, uint64_t *flops)
{
    *flops = n * largest(c);
    return *flops != 0 || c->args > 0;
}

/* 2 M K of a matrix (argument n) and a vector. */
static bool matvec(const call *c, unsigned n, uint64_t *flops)
{
    *flops = 2 * c->arg[n].numel;
    return tensors(c, 0, (int)n + 1);
}

/* Any number of dimensions; output sizes are not in the trace and are derived from stride and padding. n:
 * times the forward's cost. Arguments: input, weight, bias, stride, padding, dilation. */
static bool convolution(const call *c, unsigned n, uint64_t *flops)
{
    const arg *in = &c->arg[0], *weight = &c->arg[1];
    int dims = weight->rank - 2;
    int64_t stride[RANK], padding[RANK], dilation[RANK];
    if (!tensors(c, 0, 1) || dims < 1 || in->rank != weight->rank || read_ints(c, 3, stride, RANK) < dims ||
        read_ints(c, 4, padding, RANK) < dims || read_ints(c, 5, dilation, RANK) < dims)
        return false;
    uint64_t cost = 2 * n * in->dim[0] * weight->numel;
    for (int i = 0; i < dims; i++) {
        if (stride[i] == 0)
            return false;
        cost *= (in->dim[2 + i] + 2 * (uint64_t)padding[i] -
                 (uint64_t)dilation[i] * (weight->dim[2 + i] - 1) - 1) /
                    (uint64_t)stride[i] +
                1;
    }
    *flops = cost;
    return true;
}

/* grad_output, input, weight: the gradients of input and weight each cost as much as the forward. */
static bool convolution_backward(const call *c, unsigned n, uint64_t *flops)
{
    const arg *out = &c->arg[0], *weight = &c->arg[2];
    if (!tensors(c, 0, 2) || weight->rank < 3 || out->rank != weight->rank || weight->dim[0] == 0)
        return false;
    *flops = n * out->numel * (weight->numel / weight->dim[0]);
    return true;
}

/* query [..., L, E], key [..., S, E], value: two products of 2 L S E each; n of them in a backward. */
static bool attention(const call *c, unsigned n, uint64_t *flops)
{
    const arg *q = &c->arg[0], *k = &c->arg[1];
    if (!tensors(c, 0, 2) || q->rank < 3 || k->rank < 3 || k->dim[k->rank - 1] == 0)
        return false;
    *flops = 2 * n * q->numel * k->dim[k->rank - 2];
    return true;
}

static bool attention_backward(const call *c, unsigned n, uint64_t *flops)
{
    call inner = *c; /* grad_out comes first */
    memmove(inner.arg, inner.arg + 1, (ARGS - 1) * sizeof *inner.arg);
    inner.args--;
    return c->args > 3 && attention(&inner, n, flops);
}

/* ------------------------------------------------------------------------------------------- the table */

/* clang-format off */
/* T: torch has it, with exactly this formula. E: ours. Sorted by name. */
#define OP_LIST(T, E)                                                                                        \
    E(_adaptive_avg_pool2d, per_element, 1) E(_adaptive_avg_pool2d_backward, per_element, 1)                 \
    E(_convolution, nothing, 0) E(_efficient_attention_backward, attention_backward, 5)                      \
    E(_efficient_attention_forward, attention, 2) E(_flash_attention_backward, attention_backward, 5)        \
    E(_flash_attention_forward, attention, 2) E(_local_scalar_dense, nothing, 0)                             \
    E(_log_softmax, per_element, 5) E(_log_softmax_backward_data, per_element, 4)                            \
    E(_reshape_alias, nothing, 0)                                                                            \
    E(_scaled_dot_product_attention_math, nothing, 0)                                                        \
    E(_scaled_dot_product_efficient_attention, nothing, 0)                                                   \
    E(_scaled_dot_product_flash_attention, nothing, 0)                                                       \
    E(_scaled_dot_product_flash_attention_for_cpu, attention, 2)                                             \
    E(_scaled_dot_product_flash_attention_for_cpu_backward, attention_backward, 5)                           \
    E(_softmax, per_element, 5) E(_softmax_backward_data, per_element, 4) E(_to_copy, nothing, 0)            \
    E(_unsafe_view, nothing, 0) E(abs, per_element, 1) T(add, first_numel, 1) E(add_, per_element, 1)        \
    E(addcdiv, per_element, 3) E(addcdiv_, per_element, 3) E(addcmul, per_element, 3)                        \
    E(addcmul_, per_element, 3) T(addmm, gemm, 1) E(addmv, matvec, 1) E(alias, nothing, 0)                   \
    E(arange, nothing, 0) E(argmax, per_element, 1) E(as_strided, nothing, 0) E(avg_pool2d, per_element, 1)  \
    T(baddbmm, batch_gemm, 1) E(batch_norm, nothing, 0) E(bernoulli_, nothing, 0) T(bmm, batch_gemm, 0)      \
    E(cat, nothing, 0) E(chunk, nothing, 0) E(clamp, per_element, 2) E(clamp_min, per_element, 1)            \
    E(clone, nothing, 0) E(contiguous, nothing, 0) E(conv1d, nothing, 0) T(conv2d, conv2d, 0)                \
    E(conv3d, nothing, 0) E(convolution, convolution, 1)                                                     \
    E(convolution_backward, convolution_backward, 4) E(copy_, nothing, 0) E(cos, per_element, 1)             \
    E(cross_entropy_loss, nothing, 0) E(cudnn_batch_norm, per_element, 5)                                    \
    E(cudnn_batch_norm_backward, per_element, 8) E(cudnn_convolution, convolution, 1)                        \
    E(detach, nothing, 0) E(div, per_element, 1) E(div_, per_element, 1) E(dot, per_element, 2)              \
    E(dropout, nothing, 0) E(embedding, nothing, 0) E(embedding_dense_backward, per_element, 1)              \
    E(empty, nothing, 0) E(empty_like, nothing, 0) E(empty_strided, nothing, 0) E(eq, per_element, 1)        \
    E(exp, per_element, 1) E(expand, nothing, 0) E(expand_as, nothing, 0) E(fill_, nothing, 0)               \
    E(flatten, nothing, 0) E(gather, nothing, 0) E(gelu, per_element, 8) E(gelu_backward, per_element, 12)   \
    E(index, nothing, 0) E(index_select, nothing, 0) E(item, nothing, 0) E(layer_norm, nothing, 0)           \
    E(lerp_, per_element, 3) E(linear, nothing, 0) E(log, per_element, 1) E(log_softmax, nothing, 0)         \
    E(masked_fill, nothing, 0) E(masked_fill_, nothing, 0) E(matmul, nothing, 0) E(max, per_element, 1)      \
    E(max_pool2d, nothing, 0) E(max_pool2d_with_indices, per_element, 1)                                     \
    E(max_pool2d_with_indices_backward, per_element, 1) E(mean, per_element, 1)                              \
    E(mkldnn_convolution, convolution, 1) T(mm, gemm, 0) E(mse_loss, per_element, 3)                         \
    E(mse_loss_backward, per_element, 3) T(mul, first_numel, 1) E(mul_, per_element, 1) E(mv, matvec, 0)     \
    E(narrow, nothing, 0) E(native_batch_norm, per_element, 5)                                               \
    E(native_batch_norm_backward, per_element, 8) E(native_dropout, per_element, 2)                          \
    E(native_dropout_backward, per_element, 1) E(native_group_norm, per_element, 5)                          \
    E(native_group_norm_backward, per_element, 8) E(native_layer_norm, per_element, 5)                       \
    E(native_layer_norm_backward, per_element, 8) E(neg, per_element, 1) E(new_empty, nothing, 0)            \
    E(nll_loss_backward, per_element, 1) E(nll_loss_forward, per_element, 1) E(normal_, nothing, 0)          \
    E(ones, nothing, 0) E(ones_like, nothing, 0) E(permute, nothing, 0) E(pow, per_element, 1)               \
    E(random_, nothing, 0) E(reciprocal, per_element, 1) E(relu, per_element, 1) E(relu_, per_element, 1)    \
    E(repeat, nothing, 0) E(reshape, nothing, 0) E(resize_, nothing, 0) E(rsqrt, per_element, 1)             \
    E(scaled_dot_product_attention, nothing, 0) E(select, nothing, 0) E(sigmoid, per_element, 4)             \
    E(sigmoid_backward, per_element, 3) E(silu, per_element, 5) E(silu_backward, per_element, 7)             \
    E(sin, per_element, 1) E(slice, nothing, 0) E(softmax, nothing, 0) E(split, nothing, 0)                  \
    E(sqrt, per_element, 1) E(squeeze, nothing, 0) E(stack, nothing, 0) E(sub, per_element, 1)               \
    E(sub_, per_element, 1) E(sum, per_element, 1) E(t, nothing, 0) E(tanh, per_element, 4)                  \
    E(tanh_backward, per_element, 3) E(threshold_backward, per_element, 1) E(to, nothing, 0)                 \
    E(transpose, nothing, 0) E(triu, nothing, 0) E(unbind, nothing, 0) E(unfold, nothing, 0)                 \
    E(uniform_, nothing, 0) E(unsqueeze, nothing, 0) E(view, nothing, 0) E(where, nothing, 0)                \
    E(zero_, nothing, 0) E(zeros, nothing, 0) E(zeros_like, nothing, 0)
/* clang-format on */

typedef struct op {
    const char *name; /* without aten:: */
    formula *formula;
    unsigned n;
    bool torch;
} op;

static const op ops[] = {
#define TORCH(name, formula, n) {#name, formula, n, true},
#define EXTRA(name, formula, n) {#name, formula, n, false},
    OP_LIST(TORCH, EXTRA)
#undef TORCH
#undef EXTRA
};

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, ((const op *)entry)->name);
}

static const op *find(const char *name)
{
    static const char prefix[] = "aten::";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return NULL;
    return bsearch(name + sizeof prefix - 1, ops, sizeof ops / sizeof *ops, sizeof *ops, by_name);
}

bool mtp__flops_in_torch(const char *name)
{
    const op *found = find(name);
    return found != NULL && found->torch;
}

uint64_t mtp__flops_torch(const mtp_trace *t, const char *name, uint32_t shape)
{
    const op *found = find(name);
    call c;
    uint64_t flops = 0;
    if (found == NULL || !found->torch || !read_call(&c, t, shape) || !found->formula(&c, found->n, &flops))
        return 0;
    return flops;
}

bool mtp__flops_known(const mtp_trace *t, const char *name, uint32_t shape, uint64_t *flops)
{
    const op *found = find(name);
    call c;
    *flops = 0;
    if (found == NULL)
        return false;
    if (found->formula == nothing)
        return true;
    return read_call(&c, t, shape) && found->formula(&c, found->n, flops);
}
