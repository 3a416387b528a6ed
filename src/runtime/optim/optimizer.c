/* runtime/optim/optimizer.c - optimizers for C: a table of kinds, each with an op, its options and the
 * initial values of its states.
 *
 * Ownership: an optimizer owns references to its parameters, and the states. A parameter's states are created
 * with its first gradient. Threads: one at a time per optimizer.
 */
#define _GNU_SOURCE
#include "runtime/autograd/autograd.h"
#include "runtime/runtime.h"
#include <mindtorch_optim.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_LISTS 4
#define MOST_NUMBERS 8

/* The initial value of a list of states. */
typedef enum start {
    NOTHING,
    ZEROS,
    STEP,
    ONE,
    LR,
    LR_EACH,
    INITIAL_EACH
} start;

typedef struct kind {
    const char *name; /* "AdamW" */
    mt_op_id op;
    uint8_t lists, numbers; /* lists of states; options */
    uint8_t lr_at;          /* index of option lr; 255: none */
    uint8_t first_at;       /* 1 + index of the option that is true at a parameter's first step; 0: none */
    start starts[MOST_LISTS];
} kind;

struct mt_optimizer {
    const kind *kind;
    mt_tensor **params; /* owned, with a reference to each */
    uint32_t count;
    mt_tensor **states[MOST_LISTS]; /* owned: per list and parameter; NULL until its first gradient */
    double numbers[MOST_NUMBERS];   /* the op's options, in the order of its schema */
    double lr, initial;             /* initial: initial value of states that start at neither 0 nor lr */
};

#define NO_LR 255
static const kind kinds[] = {
    {"SGD", MT_OP__fused_sgd_, 1, 7, 2, 7, {ZEROS}},
    {"Adam", MT_OP__fused_adam_, 4, 7, 0, 0, {ZEROS, ZEROS, ZEROS, STEP}},
    {"AdamW", MT_OP__fused_adamw_, 4, 7, 0, 0, {ZEROS, ZEROS, ZEROS, STEP}},
    {"Adagrad", MT_OP__fused_adagrad_, 2, 5, 0, 0, {INITIAL_EACH, STEP}},
    {"RMSprop", MT_OP__fused_rmsprop_, 4, 7, 0, 0, {ZEROS, ZEROS, ZEROS, STEP}},
    {"Adadelta", MT_OP__fused_adadelta_, 3, 5, 0, 0, {ZEROS, ZEROS, STEP}},
    {"Adamax", MT_OP__fused_adamax_, 3, 6, 0, 0, {ZEROS, ZEROS, STEP}},
    {"NAdam", MT_OP__fused_nadam_, 4, 8, 0, 0, {ZEROS, ZEROS, ONE, STEP}},
    {"RAdam", MT_OP__fused_radam_, 3, 7, 0, 0, {ZEROS, ZEROS, STEP}},
    {"ASGD", MT_OP__fused_asgd_, 4, 6, 1, 0, {ZEROS, ONE, LR, STEP}},
    {"Rprop", MT_OP__fused_rprop_, 3, 5, NO_LR, 0, {ZEROS, LR_EACH, STEP}},
    {"SparseAdam", MT_OP__fused_sparse_adam_, 3, 5, 0, 0, {ZEROS, ZEROS, STEP}},
};
enum {
    SGD,
    ADAM,
    ADAMW,
    ADAGRAD,
    RMSPROP,
    ADADELTA,
    ADAMAX,
    NADAM,
    RADAM,
    ASGD,
    RPROP,
    SPARSE_ADAM
};

/* ---------------------------------------------------------------------------------------------- life */

static mt_optimizer *create(unsigned k, mt_tensor *const *params, uint32_t count, double lr,
                            const double *numbers)
{
    mt_optimizer *o = calloc(1, sizeof *o);
    if (o == NULL || (o->params = calloc(count + 1, sizeof *o->params)) == NULL)
        goto out_of_memory;
    o->kind = &kinds[k];
    o->lr = lr;
    memcpy(o->numbers, numbers, o->kind->numbers * sizeof *numbers);
    for (unsigned l = 0; l < o->kind->lists; l++)
        if ((o->states[l] = calloc(count + 1, sizeof **o->states)) == NULL)
            goto out_of_memory;
    if (lr < 0) {
        mt__fail(MT_E_VALUE, "Invalid learning rate: %g", lr);
        goto failed;
    }
    for (; o->count < count; o->count++) {
        if (params[o->count] == NULL) {
            mt__fail(MT_E_TYPE, "mt_optimizer: parameter %u is NULL", o->count);
            goto failed;
        }
        o->params[o->count] = mt_retain(params[o->count]);
    }
    return o;
out_of_memory:
    mt__fail(MT_E_NOMEM, "out of memory: an optimizer");
failed:
    mt_optimizer_destroy(o);
    return NULL;
}

void mt_optimizer_destroy(mt_optimizer *o)
{
    if (o == NULL)
        return;
    for (uint32_t i = 0; i < o->count; i++) {
        mt_release(o->params[i]);
        for (unsigned l = 0; l < MOST_LISTS; l++)
            if (o->states[l] != NULL)
                mt_release(o->states[l][i]);
    }
    for (unsigned l = 0; l < MOST_LISTS; l++)
        free(o->states[l]);
    free(o->params);
    free(o);
}

/* Each create arranges the options in the order of the op's schema. */
#define CREATE(name, k, OPTIONS, ...)                                                                        \
    mt_optimizer *mt_##name##_create(mt_tensor *const *params, uint32_t count,                               \
                                     const mt_##name##_options *options)                                     \
    {                                                                                                        \
        static const mt_##name##_options defaults = OPTIONS;                                                 \
        const mt_##name##_options *o = options != NULL ? options : &defaults;                                \
        return create(k, params, count, o->lr, (const double[]){__VA_ARGS__});                               \
    }
CREATE(sgd, SGD, MT_SGD_OPTIONS, o->weight_decay, o->momentum, o->lr, o->dampening, o->nesterov, o->maximize,
       0)
CREATE(adam, ADAM, MT_ADAM_OPTIONS, o->lr, o->beta1, o->beta2, o->weight_decay, o->eps, o->amsgrad,
       o->maximize)
CREATE(adamw, ADAMW, MT_ADAMW_OPTIONS, o->lr, o->beta1, o->beta2, o->weight_decay, o->eps, o->amsgrad,
       o->maximize)
CREATE(rmsprop, RMSPROP, MT_RMSPROP_OPTIONS, o->lr, o->alpha, o->eps, o->weight_decay, o->momentum,
       o->centered, o->maximize)
CREATE(adadelta, ADADELTA, MT_ADADELTA_OPTIONS, o->lr, o->rho, o->eps, o->weight_decay, o->maximize)
CREATE(adamax, ADAMAX, MT_ADAMAX_OPTIONS, o->lr, o->beta1, o->beta2, o->weight_decay, o->eps, o->maximize)
CREATE(nadam, NADAM, MT_NADAM_OPTIONS, o->lr, o->beta1, o->beta2, o->weight_decay, o->momentum_decay, o->eps,
       o->decoupled_weight_decay, o->maximize)
CREATE(radam, RADAM, MT_RADAM_OPTIONS, o->lr, o->beta1, o->beta2, o->weight_decay, o->eps,
       o->decoupled_weight_decay, o->maximize)
CREATE(asgd, ASGD, MT_ASGD_OPTIONS, o->lambd, o->lr, o->t0, o->alpha, o->weight_decay, o->maximize)
CREATE(rprop, RPROP, MT_RPROP_OPTIONS, o->etaminus, o->etaplus, o->step_size_min, o->step_size_max,
       o->maximize)
CREATE(sparse_adam, SPARSE_ADAM, MT_SPARSE_ADAM_OPTIONS, o->lr, o->beta1, o->beta2, o->eps, o->maximize)

mt_optimizer *mt_adagrad_create(mt_tensor *const *params, uint32_t count, const mt_adagrad_options *options)
{
    static const mt_adagrad_options defaults = MT_ADAGRAD_OPTIONS;
    const mt_adagrad_options *a = options != NULL ? options : &defaults;
    mt_optimizer *o = create(ADAGRAD, params, count, a->lr,
                             (const double[]){a->lr, a->lr_decay, a->weight_decay, a->eps, a->maximize});
    if (o != NULL)
        o->initial = a->initial_accumulator_value;
    return o;
}

/* ------------------------------------------------------------------------------------------------ states */

static mt_status make_state(const mt_optimizer *o, start how, mt_tensor *param, mt_tensor **out)
{
    double value = how == ONE                    ? 1
                   : how == LR || how == LR_EACH ? o->lr
                   : how == INITIAL_EACH         ? o->initial
                                                 : 0;
    mt_status status = MT_OK;
    if (how == STEP || how == ONE || how == LR) {
        status = mt_tensor_create(MT_FLOAT32, MT_CPU, 0, NULL, out);
        if (status == MT_OK)
            *(float *)mt_data(*out) = (float)value;
    } else {
        mt_value args[] = {mt_value_tensor(param), mt_value_float(value)};
        status =
            value == 0 ? mt_call(MT_OP_zeros_like, args, 1, out) : mt_call(MT_OP_full_like, args, 2, out);
    }
    if (status == MT_OK)
        mt_tensor_tag(*out, MTP_MEMORY_OPTIMIZER_STATE);
    return status;
}

/* Is list l of the states needed with these options? The op's arguments are parameters, gradients, states,
 * numbers. */
static bool needed(const mt_optimizer *o, unsigned l)
{
    int option = mt__option_of(&mt__ops[o->kind->op], 2 + l);
    return option < 0 || o->numbers[(unsigned)option - 2 - o->kind->lists] != 0;
}

/* ------------------------------------------------------------------------------------------------- steps */

/* One call of the op, for the parameters with the indices in `which`. */
static mt_status call_op(const mt_optimizer *o, const uint32_t *which, uint32_t n, bool first,
                         mt_tensor **room)
{
    const kind *k = o->kind;
    mt_value args[MT__MAX_ARGS];
    unsigned count = 0, length = 0;
    mt_tensor **none = NULL;
    for (unsigned l = 0; l < 2u + k->lists; l++) {
        mt_tensor **list = room + (size_t)l * n;
        bool used = l < 2 || needed(o, l - 2);
        for (uint32_t i = 0; i < n && used; i++)
            list[i] = l == 0   ? o->params[which[i]]
                      : l == 1 ? o->params[which[i]]->grad
                               : o->states[l - 2][which[i]];
        args[count++] = mt_value_tensors(list, used ? n : 0);
    }
    for (unsigned i = 0; i < k->numbers; i++, count++) {
        double x = k->first_at == i + 1 ? (double)first : k->lr_at == i ? o->lr : o->numbers[i];
        args[count] =
            mt__ops[k->op].params[count].type == MT_TYPE_BOOL ? mt_value_truth(x != 0) : mt_value_float(x);
    }
    mt_status status = mt_call_list(k->op, args, count, &none, &length);
    mt_list_free(none, length);
    return status;
}

static mt_status step(mt_optimizer *o)
{
    uint32_t *old = malloc((o->count + 1) * 2 * sizeof *old), *fresh = old + o->count, olds = 0, news = 0;
    mt_tensor **room = malloc((o->count + 1) * (2 + MOST_LISTS) * sizeof *room);
    mt_status status = old == NULL || room == NULL
                           ? mt__fail(MT_E_NOMEM, "out of memory: a step of %s", o->kind->name)
                           : MT_OK;
    for (uint32_t i = 0; i < o->count && status == MT_OK; i++) {
        bool is_new = false;
        if (o->params[i]->grad == NULL)
            continue;
        for (unsigned l = 0; l < o->kind->lists && status == MT_OK; l++)
            if (o->states[l][i] == NULL && needed(o, l)) {
                is_new = true;
                status = make_state(o, o->kind->starts[l], o->params[i], &o->states[l][i]);
            }
        if (is_new && o->kind->first_at != 0)
            fresh[news++] = i;
        else
            old[olds++] = i;
    }
    if (status == MT_OK && olds > 0)
        status = call_op(o, old, olds, false, room);
    if (status == MT_OK && news > 0)
        status = call_op(o, fresh, news, true, room);
    free(old);
    free(room);
    return status;
}

static mtp_token begin_scope(const mt_optimizer *o, const char *what)
{
    char text[96];
    int n = snprintf(text, sizeof text, "Optimizer.%s#%s.%s", what, o->kind->name, what);
    return mtp_scope_begin_text(text, (size_t)n);
}

mt_status mt_optimizer_step_with(mt_optimizer *o, mt_closure_fn *closure, void *user, double *loss)
{
    double unused = 0;
    mtp_token scope = begin_scope(o, "step");
    bool grad_mode = mt_grad_enable(true);
    mt_status status = MT_OK;
    loss = loss != NULL ? loss : &unused;
    if (closure != NULL)
        status = closure(user, loss);
    mt_grad_enable(false);
    if (status == MT_OK)
        status = step(o);
    mt_grad_enable(grad_mode);
    mtp_scope_end(scope);
    return status;
}

mt_status mt_optimizer_step(mt_optimizer *o)
{
    return mt_optimizer_step_with(o, NULL, NULL, NULL);
}

void mt_optimizer_zero_grad(mt_optimizer *o)
{
    mtp_token scope = begin_scope(o, "zero_grad");
    for (uint32_t i = 0; i < o->count; i++)
        mt_set_grad(o->params[i], NULL);
    mtp_scope_end(scope);
}

double mt_optimizer_lr(const mt_optimizer *o)
{
    return o->lr;
}

void mt_optimizer_set_lr(mt_optimizer *o, double lr)
{
    o->lr = lr;
}
