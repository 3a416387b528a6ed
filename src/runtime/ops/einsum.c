/* runtime/ops/einsum.c - einsum: sums of products, with a letter for each dim.
 *
 * As in PyTorch, and in the order that its profiles show: each operand gets all dims of the equation, those of
 * the result first, of size 1 where it has none; operands are multiplied from left to right, by bmm where a
 * dim can be summed in the product.
 *
 * A label is the number of a letter (A-Z, a-z), or of a dim that "..." stands for: the last of them is the
 * highest.
 */
#include "runtime/runtime.h"

#define LETTERS 52
#define LABELS (LETTERS + MT_MAX_RANK)
#define DOTS LABELS /* in a term, until expand_dots() */
#define MOST_TERMS 64

typedef struct term {
    uint8_t labels[LABELS + MT_MAX_RANK];
    int count;
    int dots; /* position of the ellipsis; -1: none */
} term;

typedef struct equation {
    const char *text;
    term terms[MOST_TERMS], result;
    int count;
    int dots; /* the most dims that an ellipsis stands for */
} equation;

/* ------------------------------------------------------------------------------------------------- reading it */

static int label_of(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? 26 + c - 'a' : -1;
}

static char letter_of(int label)
{
    return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

static mt_status read_dots(const char *at, int operand, const term *t)
{
    if (t->dots < 0 && strncmp(at, "...", 3) == 0)
        return MT_OK;
    if (operand < 0)
        return mt__fail(MT_E_RUNTIME, "einsum(): found '.' for output %s",
                        t->dots >= 0 ? "but an ellipsis (...) was already found"
                                     : "that is not part of any ellipsis (...)");
    return mt__fail(MT_E_RUNTIME, "einsum(): found '.' for operand %d %s", operand,
                    t->dots >= 0 ? "for which an ellipsis was already found"
                                 : "that is not part of any ellipsis");
}

/* One term, up to one of `ends` or the end. operand: its number; -1: the result. */
static mt_status read_term(const equation *e, const char **at, const char *ends, int operand, term *t)
{
    t->count = 0;
    t->dots = -1;
    for (; **at != 0 && strchr(ends, **at) == NULL; (*at)++) {
        int label = **at == '.' ? DOTS : label_of(**at);
        if (**at == ' ')
            continue;
        if (label < 0 || t->count == LABELS)
            return mt__fail(MT_E_RUNTIME,
                            "einsum(): invalid subscript given at index %d in the equation string, "
                            "subscripts must be in [a-zA-Z]",
                            (int)(*at - e->text));
        if (label == DOTS) {
            mt_status status = read_dots(*at, operand, t);
            if (status != MT_OK)
                return status;
            t->dots = t->count;
            *at += 2;
        }
        t->labels[t->count++] = (uint8_t)label;
    }
    return MT_OK;
}

static mt_status check_rank(const term *t, const mt_tensor *x, int operand)
{
    int letters = t->count - (t->dots >= 0);
    if (t->dots < 0 && letters != x->rank)
        return mt__fail(
            MT_E_RUNTIME,
            "einsum(): the number of subscripts in the equation (%d) does not match the number of "
            "dimensions (%d) for operand %d and no ellipsis was given",
            letters, x->rank, operand);
    if (letters > x->rank)
        return mt__fail(MT_E_RUNTIME,
                        "einsum(): the number of subscripts in the equation (%d) is more than the number of "
                        "dimensions (%d) for operand %d",
                        letters, x->rank, operand);
    return MT_OK;
}

/* Replaces the ellipsis by n labels. */
static void expand_dots(term *t, int n)
{
    if (t->dots < 0)
        return;
    memmove(t->labels + t->dots + n, t->labels + t->dots + 1, (size_t)(t->count - t->dots - 1));
    for (int i = 0; i < n; i++)
        t->labels[t->dots + i] = (uint8_t)(LABELS - n + i);
    t->count += n - 1;
}

/* Without "->": the ellipsis, then the letters that occur once. */
static void imply_result(equation *e)
{
    int seen[LETTERS] = {0};
    e->result = (term){.dots = -1};
    for (int i = 0; i < e->count; i++)
        for (int k = 0; k < e->terms[i].count; k++)
            if (e->terms[i].labels[k] < LETTERS)
                seen[e->terms[i].labels[k]]++;
    for (int i = 0; i < e->dots; i++)
        e->result.labels[e->result.count++] = (uint8_t)(LABELS - e->dots + i);
    for (int label = 0; label < LETTERS; label++)
        if (seen[label] == 1)
            e->result.labels[e->result.count++] = (uint8_t)label;
}

static mt_status read_operands(equation *e, const char **at, mt_tensor *const *xs)
{
    mt_status status = MT_OK;
    int read = 0;
    for (bool more = true; more && status == MT_OK; read++) {
        if (read == e->count)
            return mt__fail(MT_E_RUNTIME,
                            "einsum(): fewer operands were provided than specified in the equation");
        term *t = &e->terms[read];
        status = read_term(e, at, ",-", read, t);
        if (status == MT_OK)
            status = check_rank(t, xs[read], read);
        if (status == MT_OK && t->dots >= 0 && xs[read]->rank - (t->count - 1) > e->dots)
            e->dots = xs[read]->rank - (t->count - 1);
        more = **at == ',';
        *at += more;
    }
    if (status == MT_OK && read < e->count)
        return mt__fail(MT_E_RUNTIME, "einsum(): more operands were provided than specified in the equation");
    for (int i = 0; i < e->count && status == MT_OK; i++)
        expand_dots(&e->terms[i], xs[i]->rank - (e->terms[i].count - 1));
    return status;
}

static mt_status read_equation(equation *e, const char *text, mt_tensor *const *xs)
{
    const char *at = text;
    e->text = text;
    e->dots = 0;
    mt_status status = read_operands(e, &at, xs);
    if (status != MT_OK)
        return status;
    if (*at == 0) {
        imply_result(e);
        return MT_OK;
    }
    if (at[1] != '>')
        return mt__fail(MT_E_RUNTIME, "einsum(): found '-' that is not part of an arrow (->) at index %d",
                        (int)(at - text));
    at += 2;
    status = read_term(e, &at, "", -1, &e->result);
    if (status == MT_OK)
        expand_dots(&e->result, e->dots);
    return status;
}

/* --------------------------------------------------------------------------------------------------- checking it */

static mt_status bad_size(int label, int operand, int64_t size, int64_t seen)
{
    if (label < LETTERS)
        return mt__fail(MT_E_RUNTIME,
                        "einsum(): subscript %c has size %lld for operand %d which does not broadcast with "
                        "previously seen size %lld",
                        letter_of(label), (long long)size, operand, (long long)seen);
    return mt__fail(MT_E_RUNTIME,
                    "einsum(): a dimension covered by the ellipsis has size %lld for operand %d which does "
                    "not broadcast with previously seen size %lld",
                    (long long)size, operand, (long long)seen);
}

static mt_status check_sizes(const equation *e, mt_tensor *const *xs)
{
    int64_t sizes[LABELS]; /* of labels; -1: not seen */
    memset(sizes, 0xff, sizeof sizes);
    for (int i = 0; i < e->count; i++) {
        int at[LABELS];
        memset(at, 0xff, sizeof at);
        for (int k = 0; k < e->terms[i].count; k++) {
            int label = e->terms[i].labels[k];
            int64_t size = xs[i]->dims[k];
            if (at[label] >= 0 && xs[i]->dims[at[label]] != size)
                return mt__fail(
                    MT_E_RUNTIME,
                    "einsum(): subscript %c is repeated for operand %d but the sizes don't match, "
                    "%lld != %lld",
                    letter_of(label), i, (long long)size, (long long)xs[i]->dims[at[label]]);
            at[label] = k;
            if (sizes[label] >= 0 && sizes[label] != size && sizes[label] != 1 && size != 1)
                return bad_size(label, i, size, sizes[label]);
            if (sizes[label] < 0 || sizes[label] == 1)
                sizes[label] = size;
        }
    }
    for (int k = 0; k < e->result.count; k++) {
        int label = e->result.labels[k];
        if (memchr(e->result.labels, label, (size_t)k) != NULL)
            return mt__fail(MT_E_RUNTIME,
                            "einsum(): output subscript %c appears more than once in the output",
                            letter_of(label));
        if (sizes[label] < 0)
            return mt__fail(MT_E_RUNTIME,
                            "einsum(): output subscript %c does not appear in the equation for any input "
                            "operand",
                            letter_of(label));
    }
    return MT_OK;
}

/* ----------------------------------------------------------------------------------------------------- computing */

static mt_value list(const int64_t *ints, int count)
{
    return mt_value_ints(ints, (uint32_t)count);
}

static bool has(const term *t, int label)
{
    return memchr(t->labels, label, (size_t)t->count) != NULL;
}

/* x with all dims of `order`, in that order; a label that x has twice becomes its diagonal. */
static mt_tensor *arrange(mt_tensor *x, const term *t, const term *order)
{
    int64_t places[LABELS];
    int at[LABELS], rank = 0;
    memset(at, 0xff, sizeof at);
    for (int k = 0; k < t->count; k++) {
        int label = t->labels[k];
        if (at[label] < 0) {
            at[label] = rank++;
        } else {
            x = MT(diagonal, x, 0, at[label], rank);
            x = MT(movedim, x, -1, at[label]);
        }
    }
    for (int k = 0; k < order->count; k++) {
        places[k] = at[order->labels[k]];
        if (places[k] < 0) {
            x = MT(unsqueeze, x, rank);
            places[k] = rank++;
        }
    }
    return MT(permute, x, list(places, order->count));
}

/* Dims of a group, appended to `to`; returns their product, by the sizes given. */
static int64_t append(int64_t *to, int *count, uint32_t group, const int64_t *sizes)
{
    int64_t product = 1;
    for (int d = 0; group >> d != 0; d++)
        if (group >> d & 1) {
            to[(*count)++] = d;
            product *= sizes[d];
        }
    return product;
}

/* a * b, summed over the dims `sums` (bits), which stay with size 1. */
static mt_tensor *product(mt_tensor *a, mt_tensor *b, uint32_t sums)
{
    uint32_t both = 0, left = 0, right = 0;
    int64_t order[MT_MAX_RANK], other[MT_MAX_RANK], dims[MT_MAX_RANK], back[MT_MAX_RANK];
    int n = 0, m = 0, rank = a->rank;
    if (sums == 0)
        return MT(mul, a, b);
    for (int d = 0; d < rank; d++)
        if (!(sums >> d & 1))
            *(a->dims[d] == 1 ? &right : b->dims[d] == 1 ? &left : &both) |= 1u << d;
    int64_t batch = append(order, &n, both, a->dims), rows = append(order, &n, left, a->dims);
    int64_t summed = append(order, &n, sums, a->dims);
    append(order, &n, right, a->dims);
    append(other, &m, both, b->dims);
    append(other, &m, sums, b->dims);
    int64_t columns = append(other, &m, right, b->dims);
    append(other, &m, left, b->dims);
    for (int i = 0; i < rank; i++) {
        uint32_t bit = 1u << order[i];
        dims[i] = bit & sums ? 1 : bit & right ? b->dims[order[i]] : a->dims[order[i]];
        back[order[i]] = i;
    }
    a = MT(reshape, MT(permute, a, list(order, rank)), list((int64_t[]){batch, rows, summed}, 3));
    b = MT(reshape, MT(permute, b, list(other, rank)), list((int64_t[]){batch, summed, columns}, 3));
    return MT(permute, MT(view, MT(bmm, a, b), list(dims, rank)), list(back, rank));
}

/* x summed over some dims (bits), if there are any. */
static mt_tensor *sum(mt_tensor *x, uint32_t dims, bool keep)
{
    int64_t items[MT_MAX_RANK];
    int n = 0;
    if (dims == 0)
        return x;
    append(items, &n, dims, x->dims);
    return MT(sum_dim, x, list(items, n), keep);
}

/* The product of the first two; dims from `kept` on are summed once no other operand has them: left[d] of them
 * have a size other than 1. */
static mt_tensor *multiply(mt_tensor *a, mt_tensor *b, int kept, int *left)
{
    uint32_t of_a = 0, of_b = 0, of_both = 0;
    for (int d = kept; d < a->rank; d++) {
        bool in_a = a->dims[d] != 1, in_b = b->dims[d] != 1;
        if (in_a && in_b) {
            if (--left[d] == 1)
                of_both |= 1u << d;
        } else if (left[d] == 1 && (in_a || in_b)) {
            *(in_a ? &of_a : &of_b) |= 1u << d;
        } else {
            continue;
        }
        left[d] -= ((of_a | of_b | of_both) >> d & 1) != 0;
    }
    a = sum(a, of_a, true);
    b = sum(b, of_b, true);
    return a != NULL && b != NULL ? product(a, b, of_both) : NULL;
}

/* The labels of the result, then all others. */
static void all_labels(const equation *e, term *out)
{
    *out = e->result;
    for (int label = 0; label < LABELS; label++)
        for (int i = 0; i < e->count; i++)
            if (has(&e->terms[i], label) && !has(out, label))
                out->labels[out->count++] = (uint8_t)label;
}

/* --------------------------------------------------------------------- two operands with more labels than a tensor has dims */

/* Has x a dim of that label, other than one of size 1, which broadcasts? */
static bool extends(const mt_tensor *x, const term *t, int label)
{
    const uint8_t *at = memchr(t->labels, label, (size_t)t->count);
    return at != NULL && x->dims[at - t->labels] != 1;
}

/* Operand i with its labels once each, without those of size 1, and summed over those that neither the other nor the
 * result has. */
static mt_tensor *reduced(const equation *e, mt_tensor *const *xs, int i, term *out)
{
    const term *t = &e->terms[i], *other = &e->terms[1 - i];
    term all = {.dots = -1};
    uint32_t gone = 0;
    *out = all;
    for (int k = 0; k < t->count; k++)
        if (!has(&all, t->labels[k]))
            all.labels[all.count++] = t->labels[k];
    mt_tensor *x = arrange(xs[i], t, &all);
    for (int k = 0; x != NULL && k < all.count; k++) {
        int label = all.labels[k];
        if (x->dims[k] == 1 || (!extends(xs[1 - i], other, label) && !has(&e->result, label)))
            gone |= 1u << k;
        else
            out->labels[out->count++] = (uint8_t)label;
    }
    return x != NULL ? sum(x, gone, false) : NULL;
}

/* The labels of `of` that are in `a`, and in `b` or not; appended to `out`. */
static void choose(const term *of, const term *a, const term *b, bool in_b, term *out)
{
    for (int k = 0; k < of->count; k++)
        if (has(a, of->labels[k]) && has(b, of->labels[k]) == in_b)
            out->labels[out->count++] = of->labels[k];
}

static int64_t size_of(const mt_tensor *x, int first, int count)
{
    int64_t size = 1;
    for (int k = first; k < first + count; k++)
        size *= x->dims[k];
    return size;
}

/* As matrices: what both have and the result keeps is the batch; what both have and the result has not is summed. */
static mt_tensor *multiply_matrices(const equation *e, mt_tensor **xs)
{
    const term *result = &e->result, none = {.dots = -1};
    term a, b, left = none, right = none, made = none;
    mt_tensor *x = reduced(e, xs, 0, &a), *y = x != NULL ? reduced(e, xs, 1, &b) : NULL;
    if (y == NULL)
        return NULL;
    choose(result, &a, &b, true, &left); /* batch */
    right = made = left;
    int batch = left.count;
    choose(result, &a, &b, false, &left);
    int rows = left.count - batch;
    choose(&a, &b, result, false, &left);
    int summed = left.count - batch - rows;
    choose(&a, &b, result, false, &right);
    choose(result, &b, &a, false, &right);
    int columns = right.count - batch - summed;
    int64_t dims[MT_MAX_RANK], n = 0;
    x = arrange(x, &a, &left);
    y = arrange(y, &b, &right);
    if (x == NULL || y == NULL)
        return NULL;
    choose(result, &a, &b, false, &made);
    choose(result, &b, &a, false, &made);
    for (int k = 0; k < batch + rows; k++)
        dims[n++] = x->dims[k];
    for (int k = 0; k < columns; k++)
        dims[n++] = y->dims[batch + summed + k];
    int64_t groups = size_of(x, 0, batch), inner = size_of(x, batch + rows, summed);
    x = MT(reshape, x, list((int64_t[]){groups, size_of(x, batch, rows), inner}, 3));
    y = MT(reshape, y, list((int64_t[]){groups, inner, size_of(y, batch + summed, columns)}, 3));
    return arrange(MT(view, MT(bmm, x, y), list(dims, (int)n)), &made, result);
}

static mt_tensor *evaluate(equation *e, mt_tensor **xs);

/* The same with the first two operands replaced by their product, which has fewer labels. */
static mt_tensor *evaluate_fewer(equation *e, mt_tensor **xs)
{
    equation pair = {.count = 2, .terms = {e->terms[0], e->terms[1]}, .result = {.dots = -1}};
    for (int label = 0; label < LABELS; label++) {
        bool needed = has(&e->result, label);
        for (int i = 2; i < e->count; i++)
            needed |= has(&e->terms[i], label);
        if (needed && (has(&e->terms[0], label) || has(&e->terms[1], label)))
            pair.result.labels[pair.result.count++] = (uint8_t)label;
    }
    xs[1] = evaluate(&pair, xs);
    e->count--;
    memmove(&e->terms[0], &e->terms[1], (size_t)e->count * sizeof *e->terms);
    e->terms[0] = pair.result;
    return xs[1] != NULL ? evaluate(e, xs + 1) : NULL;
}

static mt_tensor *evaluate(equation *e, mt_tensor **xs)
{
    term order;
    int kept = e->result.count, left[MT_MAX_RANK] = {0};
    all_labels(e, &order);
    if (order.count > MT_MAX_RANK && e->count > 2)
        return evaluate_fewer(e, xs);
    if (order.count > MT_MAX_RANK && e->count == 2 && kept <= MT_MAX_RANK)
        return multiply_matrices(e, xs);
    if (order.count > MT_MAX_RANK)
        return mt__fail_scope(mt__fail(MT_E_RUNTIME,
                                       "einsum(): tensors of more than %d dimensions are not supported (got "
                                       "%d subscripts)",
                                       MT_MAX_RANK, order.count));
    for (int i = 0; i < e->count; i++)
        xs[i] = arrange(xs[i], &e->terms[i], &order);
    if (mt_scope_status() != MT_OK)
        return NULL;
    for (int i = 0; i < e->count; i++)
        for (int d = 0; d < order.count; d++)
            left[d] += xs[i]->dims[d] != 1;
    mt_tensor *made = xs[0];
    for (int i = 1; i < e->count && made != NULL; i++)
        made = multiply(made, xs[i], kept, left);
    if (made == NULL || order.count == kept)
        return made;
    return e->count > 1 ? MT(view, made, list(made->dims, kept))
                        : sum(made, (1u << order.count) - (1u << kept), false);
}

/* An order of products is checked, but not followed: the result is the same in any. */
static mt_status check_path(const mt_value *path, uint32_t count)
{
    uint32_t steps = count == 1 ? 1 : 2 * (count - 1);
    if (path->count != steps)
        return mt__fail(
            MT_E_RUNTIME,
            "einsum(): expected contraction path given in path parameter to have size %u but got %u", steps,
            path->count);
    for (uint32_t i = 0; count > 1 && i < steps; i += 2) {
        int64_t a = path->as.ints[i], b = path->as.ints[i + 1], left = count - i / 2;
        if (a < 0 || b < 0 || a >= left || b >= left)
            return mt__fail(MT_E_RUNTIME,
                            "einsum(): invalid contraction (%lld, %lld) operand index is out of bounds",
                            (long long)a, (long long)b);
    }
    return MT_OK;
}

mt_status mt__composite_einsum(mt__call *call)
{
    mt_status status;
    const mt_value *operands = &call->args[1];
    mt_tensor *xs[MOST_TERMS];
    equation e;
    if (operands->count == 0)
        return mt__fail(MT_E_RUNTIME, "einsum(): must provide at least one operand");
    if (operands->count > MOST_TERMS)
        return mt__fail(MT_E_NOT_IMPLEMENTED, "einsum(): more than %d operands are not supported",
                        MOST_TERMS);
    if (mt__arg_given(call, 2) && (status = check_path(&call->args[2], operands->count)) != MT_OK)
        return status;
    for (uint32_t i = 0; i < operands->count; i++)
        if (operands->as.tensors[i] == NULL)
            return mt__fail(MT_E_TYPE, "einsum(): operand %u is None", i);
    e.count = (int)operands->count;
    memcpy(xs, operands->as.tensors, operands->count * sizeof *xs);
    status = read_equation(&e, call->args[0].as.text, xs);
    if (status == MT_OK)
        status = check_sizes(&e, xs);
    return status == MT_OK ? mt__return(call, evaluate(&e, xs)) : status;
}
