/* runtime/ops/rnn.c - recurrent layers and cells (RNN, LSTM, GRU), composed of other ops as PyTorch's are on CPU:
 * the input's part of all gates is one product, then there is a product and a few elementwise ops for each step.
 */
#include "runtime/runtime.h"
#include <stdlib.h>

enum kind {
    LSTM,
    GRU,
    TANH,
    RELU
};

typedef struct weights {
    mt_tensor *ih, *hh, *bias_ih, *bias_hh; /* biases: or NULL */
    mt_tensor *hr;                          /* projects the hidden state (LSTM); or NULL */
} weights;

typedef struct state {
    mt_tensor *h, *c; /* c: of LSTM, else NULL */
} state;

/* A call of a layer op. */
typedef struct rnn {
    enum kind kind;
    int64_t steps;
    int64_t *batch_sizes; /* owned; of a packed sequence, one for each step; else NULL */
    const mt_value *hx, *params;
    int64_t layers, directions;
    bool biases, projects;
    double dropout; /* 0 in evaluation */
} rnn;

/* ------------------------------------------------------------------------------------------------- one step */

/* Parts of equal size along dim 1, each with a version of its own, so that they can be changed in place. */
static mt_status cut(mt_tensor *t, unsigned parts, mt_tensor **out)
{
    mt_tensor **list;
    unsigned made = 0;
    if (mt_scope_status() != MT_OK)
        return mt_scope_status();
    mt_status status =
        mt_call_list(MT_OP_unsafe_chunk,
                     (mt_value[]){mt_value_tensor(t), mt_value_int(parts), mt_value_int(1)}, 3, &list, &made);
    if (status == MT_OK && made != parts) {
        status = mt__fail(MT_E_RUNTIME, "the gates of size %lld cannot be divided by %u",
                          (long long)t->dims[1], parts);
        mt_list_free(list, made);
    } else if (status == MT_OK) {
        for (unsigned i = 0; i < parts; i++)
            out[i] = mt_scope_keep(list[i]);
        free(list);
    }
    if (status != MT_OK)
        mt__fail_scope(status);
    return mt_scope_status();
}

static mt_tensor *of_input(const weights *w, mt_tensor *input)
{
    return MT(linear, input, w->ih, w->bias_ih);
}

static mt_tensor *of_hidden(const weights *w, const state *s)
{
    return MT(linear, s->h, w->hh, w->bias_hh);
}

static state lstm_step(const weights *w, mt_tensor *input, bool gates_given, state s)
{
    mt_tensor *g[4], *hidden = of_hidden(w, &s);
    mt_tensor *gates = MT(add_, hidden, gates_given ? input : of_input(w, input));
    if (cut(gates, 4, g) != MT_OK)
        return (state){NULL, NULL};
    mt_tensor *in = MT(sigmoid_, g[0]), *forget = MT(sigmoid_, g[1]), *cell = MT(tanh_, g[2]),
              *out = MT(sigmoid_, g[3]);
    mt_tensor *c = MT(mul, forget, s.c);
    c = MT(add_, c, MT(mul, in, cell));
    mt_tensor *h = MT(mul, out, MT(tanh, c));
    return (state){w->hr != NULL ? MT(matmul, h, MT(t, w->hr)) : h, c};
}

static state gru_step(const weights *w, mt_tensor *input, bool gates_given, state s)
{
    mt_tensor *i[3], *h[3];
    if (cut(gates_given ? input : of_input(w, input), 3, i) != MT_OK || cut(of_hidden(w, &s), 3, h) != MT_OK)
        return (state){NULL, NULL};
    mt_tensor *reset = MT(sigmoid_, MT(add_, h[0], i[0]));
    mt_tensor *keep = MT(sigmoid_, MT(add_, h[1], i[1]));
    mt_tensor *new = MT(tanh_, MT(add, i[2], MT(mul_, h[2], reset)));
    return (state){MT(add_, MT(mul_, MT(sub, s.h, new), keep), new), NULL};
}

static state simple_step(enum kind kind, const weights *w, mt_tensor *input, bool gates_given, state s)
{
    mt_tensor *hidden = of_hidden(w, &s);
    mt_tensor *sum = MT(add_, hidden, gates_given ? input : of_input(w, input));
    return (state){kind == TANH ? MT(tanh, sum) : MT(relu, sum), NULL};
}

/* In a scope of its own: a long sequence need not hold the gates of all steps if there is no graph. */
static state step(enum kind kind, const weights *w, mt_tensor *input, bool gates_given, state s)
{
    state next = {NULL, NULL};
    if (mt_scope_status() != MT_OK)
        return next;
    MT_SCOPE
    {
        next = kind == LSTM  ? lstm_step(w, input, gates_given, s)
               : kind == GRU ? gru_step(w, input, gates_given, s)
                             : simple_step(kind, w, input, gates_given, s);
        next.h = mt_retain(next.h);
        next.c = mt_retain(next.c);
    }
    mt_scope_keep(next.h);
    mt_scope_keep(next.c);
    return next;
}

/* ------------------------------------------------------------------------------------------------ one layer */

static state state_rows(state s, int64_t from, int64_t rows)
{
    mt_tensor *h = MT(narrow, s.h, 0, from, rows);
    return (state){h, s.c != NULL ? MT(narrow, s.c, 0, from, rows) : NULL};
}

/* `count` states below each other, given as count values of h and count of c. */
static state join(mt_tensor *const *h, mt_tensor *const *c, int64_t count)
{
    mt_tensor *joined = MT(cat, mt_value_tensors(h, (uint32_t)count), 0);
    return (state){joined, c[0] != NULL ? MT(cat, mt_value_tensors(c, (uint32_t)count), 0) : NULL};
}

/* t[0], t[1] ..., borrowed from the scope; out: room for t's rows. */
static mt_status unbind(mt_tensor *t, mt_tensor **out)
{
    mt_tensor **list;
    unsigned made;
    if (mt_scope_status() != MT_OK)
        return mt_scope_status();
    mt_status status =
        mt_call_list(MT_OP_unbind, (mt_value[]){mt_value_tensor(t), mt_value_int(0)}, 2, &list, &made);
    if (status != MT_OK) {
        mt__fail_scope(status);
        return status;
    }
    for (unsigned i = 0; i < made; i++)
        out[i] = mt_scope_keep(list[i]);
    free(list);
    return mt_scope_status();
}

/* The gates' parts of the input at each step. */
static mt_status step_inputs(const rnn *r, mt_tensor *gates, mt_tensor **inputs)
{
    if (r->batch_sizes == NULL)
        return unbind(gates, inputs);
    for (int64_t i = 0, at = 0; i < r->steps; at += r->batch_sizes[i++])
        inputs[i] = MT(narrow, gates, 0, at, r->batch_sizes[i]);
    return mt_scope_status();
}

/* Forward through a packed sequence, rows end: their last states are set aside, in the order of the batch. */
typedef struct ended {
    mt_tensor **h, **c; /* [steps], filled from the end */
    int64_t count;
} ended;

static state set_aside(ended *e, int64_t steps, state s, int64_t from, int64_t rows)
{
    state done = state_rows(s, from, rows);
    int64_t at = steps - ++e->count;
    e->h[at] = done.h;
    e->c[at] = done.c;
    return state_rows(s, 0, from);
}

/* Runs all steps in order or backwards; s: the first state, then the last. items: room for 4 * steps. */
static mt_tensor *direction(const rnn *r, const weights *w, mt_tensor *data, bool backwards, state *s,
                            mt_tensor **items)
{
    mt_tensor **inputs = items, **outputs = items + r->steps;
    const int64_t *sizes = r->batch_sizes;
    ended e = {items + 2 * r->steps, items + 3 * r->steps, 0};
    state now = *s;
    int64_t last = sizes == NULL ? 0 : backwards ? sizes[r->steps - 1] : sizes[0];
    if (step_inputs(r, of_input(w, data), inputs) != MT_OK)
        return NULL;
    if (sizes != NULL && backwards)
        now = state_rows(*s, 0, last);
    for (int64_t k = 0; k < r->steps; k++) {
        int64_t i = backwards ? r->steps - 1 - k : k, rows = sizes != NULL ? sizes[i] : 0;
        if (sizes != NULL && rows < last && !backwards) {
            now = set_aside(&e, r->steps, now, rows, last - rows);
        } else if (sizes != NULL && rows > last) {
            state more = state_rows(*s, last, rows - last);
            now = join((mt_tensor *[]){now.h, more.h}, (mt_tensor *[]){now.c, more.c}, 2);
        }
        last = rows;
        now = step(r->kind, w, inputs[i], true, now);
        outputs[i] = now.h;
        if (mt_scope_status() != MT_OK)
            return NULL;
    }
    if (sizes != NULL && !backwards) {
        int64_t first = r->steps - ++e.count;
        e.h[first] = now.h;
        e.c[first] = now.c;
        now = join(e.h + first, e.c + first, e.count);
    }
    *s = now;
    mt_value all = mt_value_tensors(outputs, (uint32_t)r->steps);
    return sizes != NULL ? MT(cat, all, 0) : MT(stack, all, 0);
}

static weights weights_at(const rnn *r, int64_t at)
{
    mt_tensor *const *p = r->params->as.tensors + at * (2 + 2 * (int64_t)r->biases + (int64_t)r->projects);
    weights w = {p[0], p[1], NULL, NULL, NULL};
    if (r->biases) {
        w.bias_ih = p[2];
        w.bias_hh = p[3];
    }
    if (r->projects)
        w.hr = p[r->biases ? 4 : 2];
    return w;
}

/* --------------------------------------------------------------------------------------------- all layers */

/* Writes output, h and c to outs. */
static mt_status run_layers(mt__call *call, const rnn *r, mt_tensor *data, mt_tensor **h, mt_tensor **c,
                            mt_tensor **items)
{
    uint32_t count = (uint32_t)(r->layers * r->directions);
    for (int64_t layer = 0; layer < r->layers; layer++) {
        mt_tensor *parts[2] = {NULL, NULL};
        for (int64_t d = 0; d < r->directions; d++) {
            int64_t at = layer * r->directions + d;
            weights w = weights_at(r, at);
            state s = {h[at], c != NULL ? c[at] : NULL};
            parts[d] = direction(r, &w, data, d == 1, &s, items);
            h[at] = s.h;
            if (c != NULL)
                c[at] = s.c;
            if (mt_scope_status() != MT_OK)
                return mt_scope_status();
        }
        data = r->directions == 2 ? MT(cat, MT_LIST(parts[0], parts[1]), parts[0]->rank - 1) : parts[0];
        if (r->dropout != 0 && layer + 1 < r->layers)
            data = MT(dropout, data, r->dropout, true);
    }
    call->outs[0] = mt_retain(data);
    call->outs[1] = mt_retain(MT(stack, mt_value_tensors(h, count), 0));
    if (c != NULL)
        call->outs[2] = mt_retain(MT(stack, mt_value_tensors(c, count), 0));
    return mt_scope_status();
}

/* Are there as many states and parameters as layers? */
static mt_status check_counts(const rnn *r, mt_tensor *const *hx)
{
    int64_t count = r->layers * r->directions;
    int64_t each = 2 + 2 * (int64_t)r->biases + (int64_t)r->projects;
    if (r->layers < 1 || r->params->count % each != 0)
        return mt__fail(MT_E_RUNTIME, "got an incorrect number of RNN parameters");
    for (int i = 0; i < (r->kind == LSTM ? 2 : 1); i++)
        if (hx[i]->rank != 3 || hx[i]->dims[0] != count)
            return mt__fail(MT_E_RUNTIME, "Expected %s hidden states in stacked_rnn",
                            hx[i]->rank == 3 && hx[i]->dims[0] > count ? "less" : "more");
    if (r->params->count != (uint64_t)(count * each))
        return mt__fail(MT_E_RUNTIME, "Expected %s weights in stacked_rnn",
                        r->params->count > (uint64_t)(count * each) ? "less" : "more");
    return MT_OK;
}

static mt_status run(mt__call *call, rnn *r, mt_tensor *data)
{
    mt_tensor *const *hx =
        r->hx->kind == MT_TENSORS ? r->hx->as.tensors : (mt_tensor *const *)&r->hx->as.tensor;
    if (r->kind == LSTM && r->hx->count != 2)
        return mt__fail(MT_E_RUNTIME, "lstm expects two hidden states");
    if (r->kind == LSTM && hx[0]->rank == 3 && hx[1]->rank == 3)
        r->projects = hx[0]->dims[2] != hx[1]->dims[2];
    mt_status status = check_counts(r, hx);
    if (status != MT_OK)
        return status;
    if (r->steps == 0)
        return mt__fail(MT_E_RUNTIME, "Expected sequence length to be larger than 0 in RNN");
    int64_t count = r->layers * r->directions;
    mt_tensor **room = calloc((size_t)(2 * count + 4 * r->steps), sizeof *room);
    if (room == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: an RNN of %lld steps", (long long)r->steps);
    mt_tensor **c = r->kind == LSTM ? room + count : NULL;
    status = unbind(hx[0], room);
    if (status == MT_OK && c != NULL)
        status = unbind(hx[1], c);
    if (status == MT_OK)
        status = run_layers(call, r, data, room, c, room + 2 * count);
    free(room);
    return status;
}

/* op(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
static mt_status padded(mt__call *call, enum kind kind)
{
    mt_tensor *input = mt__arg_tensor(call, 0);
    bool batch_first = mt__arg_int(call, 8) != 0;
    if (input->rank != 3)
        return mt__fail(MT_E_RUNTIME, "input must have 3 dimensions, got %d", input->rank);
    rnn r = {kind,
             input->dims[batch_first],
             NULL,
             &call->args[1],
             &call->args[2],
             mt__arg_int(call, 4),
             mt__arg_int(call, 7) ? 2 : 1,
             mt__arg_int(call, 3) != 0,
             false,
             mt__arg_int(call, 6) ? mt__arg_number(call, 5) : 0};
    mt_status status = run(call, &r, batch_first ? MT(transpose, input, 0, 1) : input);
    if (status == MT_OK && batch_first) {
        mt_tensor *out = mt_scope_keep(call->outs[0]);
        call->outs[0] = mt_retain(MT(transpose, out, 0, 1));
    }
    return status == MT_OK ? mt_scope_status() : status;
}

/* The sizes of the batch at each step; *out: owned. They never grow, and sum to the rows of data. */
static mt_status read_sizes(const mt_tensor *t, const mt_tensor *data, int64_t **out)
{
    if (t->rank != 1 || t->dtype != MT_INT64 || t->device != 0)
        return mt__fail(MT_E_RUNTIME,
                        "'lengths' argument should be a 1D CPU int64 tensor, but got %dD %s %s tensor",
                        t->rank, mt__device_text(t->device), mt__scalar_type(t->dtype));
    int64_t n = t->dims[0], total = 0, *sizes = malloc((size_t)(n > 0 ? n : 1) * sizeof *sizes);
    if (sizes == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: %lld batch sizes", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        sizes[i] = ((const int64_t *)t->data)[i * t->strides[0]];
        if (sizes[i] < 1 || (i > 0 && sizes[i] > sizes[i - 1]) || sizes[i] > data->dims[0] - total) {
            free(sizes);
            return mt__fail(
                MT_E_RUNTIME,
                "batch_sizes must be positive, in decreasing order, and as many rows as data has");
        }
        total += sizes[i];
    }
    *out = sizes;
    return MT_OK;
}

/* op(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional) */
static mt_status packed(mt__call *call, enum kind kind)
{
    mt_tensor *data = mt__arg_tensor(call, 0);
    const mt_tensor *sizes = mt__arg_tensor(call, 1);
    if (data->rank != 2)
        return mt__fail(MT_E_RUNTIME, "input must have 2 dimensions, got %d", data->rank);
    rnn r = {kind,
             sizes->rank == 1 ? sizes->dims[0] : 0,
             NULL,
             &call->args[2],
             &call->args[3],
             mt__arg_int(call, 5),
             mt__arg_int(call, 8) ? 2 : 1,
             mt__arg_int(call, 4) != 0,
             false,
             mt__arg_int(call, 7) ? mt__arg_number(call, 6) : 0};
    mt_status status = read_sizes(sizes, data, &r.batch_sizes);
    if (status == MT_OK)
        status = run(call, &r, data);
    free(r.batch_sizes);
    return status;
}

#define LAYER(name, kind)                                                                                    \
    mt_status mt__composite_##name(mt__call *call)                                                           \
    {                                                                                                        \
        return padded(call, kind);                                                                           \
    }                                                                                                        \
    mt_status mt__composite_##name##_data(mt__call *call)                                                    \
    {                                                                                                        \
        return packed(call, kind);                                                                           \
    }
LAYER(lstm, LSTM)
LAYER(gru, GRU)
LAYER(rnn_tanh, TANH)
LAYER(rnn_relu, RELU)

/* --------------------------------------------------------------------------------------------------- cells */

static mt_status check_cell_weights(const weights *w, int64_t gates)
{
    const mt_tensor *both[] = {w->ih, w->hh};
    int64_t rows = gates * w->hh->dims[1];
    for (int i = 0; i < 2; i++)
        if (both[i]->dims[0] != rows)
            return mt__fail(
                MT_E_RUNTIME, "weight_%s first dim must be %lld * hidden_size = %lld, but got %lld",
                i == 0 ? "ih" : "hh", (long long)gates, (long long)rows, (long long)both[i]->dims[0]);
    return MT_OK;
}

static mt_status check_cell(const mt_tensor *input, mt_tensor *const *hx, unsigned states, const weights *w,
                            int64_t gates)
{
    const mt_tensor *matrices[] = {input, w->ih, w->hh, hx[0], hx[states - 1]};
    int dim;
    for (size_t i = 0; i < MT__COUNT_OF(matrices); i++) {
        mt_status status = mt__wrap_dim(1, matrices[i]->rank, &dim);
        if (status != MT_OK)
            return status;
    }
    if (input->dims[1] != w->ih->dims[1])
        return mt__fail(MT_E_RUNTIME, "input has inconsistent input_size: got %lld expected %lld",
                        (long long)input->dims[1], (long long)w->ih->dims[1]);
    mt_status status = check_cell_weights(w, gates);
    for (unsigned i = 0; i < states && status == MT_OK; i++) {
        if (input->dims[0] != hx[i]->dims[0])
            return mt__fail(MT_E_RUNTIME, "Input batch size %lld doesn't match hidden%u batch size %lld",
                            (long long)input->dims[0], i, (long long)hx[i]->dims[0]);
        if (hx[i]->dims[1] != w->hh->dims[1])
            return mt__fail(MT_E_RUNTIME, "hidden%u has inconsistent hidden_size: got %lld, expected %lld", i,
                            (long long)hx[i]->dims[1], (long long)w->hh->dims[1]);
    }
    for (size_t i = 0; i < MT__COUNT_OF(matrices) && status == MT_OK; i++)
        if (matrices[i]->rank != 2)
            status =
                mt__fail(MT_E_RUNTIME, "input, hidden state and weights of a cell must have 2 dimensions");
    return status;
}

static mt_status cell(mt__call *call, enum kind kind)
{
    mt_tensor *input = mt__arg_tensor(call, 0);
    const mt_value *hx = &call->args[1];
    mt_tensor *const *states = hx->kind == MT_TENSORS ? hx->as.tensors : (mt_tensor *const *)&hx->as.tensor;
    weights w = {mt__arg_tensor(call, 2), mt__arg_tensor(call, 3), mt__arg_tensor(call, 4),
                 mt__arg_tensor(call, 5), NULL};
    if (kind == LSTM && hx->count != 2)
        return mt__fail(MT_E_RUNTIME, "lstm_cell expects two hidden states");
    mt_status status = check_cell(input, states, kind == LSTM ? 2 : 1, &w,
                                  kind == LSTM  ? 4
                                  : kind == GRU ? 3
                                                : 1);
    if (status != MT_OK)
        return status;
    state next = step(kind, &w, input, false, (state){states[0], kind == LSTM ? states[1] : NULL});
    call->outs[0] = mt_retain(next.h);
    if (kind == LSTM)
        call->outs[1] = mt_retain(next.c);
    return mt_scope_status();
}

mt_status mt__composite_lstm_cell(mt__call *call)
{
    return cell(call, LSTM);
}

mt_status mt__composite_gru_cell(mt__call *call)
{
    return cell(call, GRU);
}

mt_status mt__composite_rnn_tanh_cell(mt__call *call)
{
    return cell(call, TANH);
}

mt_status mt__composite_rnn_relu_cell(mt__call *call)
{
    return cell(call, RELU);
}
