/* runtime/autocast.c - mixed precision: casts of operands, and the cache of cast weights.
 *
 * As in PyTorch, the op is recorded around the casts, and once more inside with what they return; the ops that it is
 * composed of are not cast again. All state is the thread's.
 */
#include "runtime/autocast.h"
#include "runtime/autograd/autograd.h"
#include <stdlib.h>

MT__FAST_TLS uint8_t mt__autocast;

typedef struct weight {
    mt_tensor *of, *cast; /* owned */
} weight;

/* What is rarely needed; NULL: never changed on this thread. */
typedef struct state {
    uint8_t dtype[MT_DEVICE_TYPES];
    bool no_cache;
    int64_t nesting;
    weight *weights;
    uint32_t count, room;
} state;
static MT__FAST_TLS state *mine;

static const uint8_t usual[MT_DEVICE_TYPES] = {MT_BFLOAT16, MT_FLOAT16};

static state *state_of_thread(void)
{
    if (mine == NULL) {
        mine = calloc(1, sizeof *mine);
        if (mine != NULL)
            memcpy(mine->dtype, usual, sizeof usual);
    }
    return mine;
}

/* Nothing of it differs from a thread's that never used it. */
static void forget_state(void)
{
    bool plain = mine != NULL && mine->nesting == 0 && mine->count == 0 && !mine->no_cache &&
                 memcmp(mine->dtype, usual, sizeof usual) == 0;
    if (!plain)
        return;
    free(mine->weights);
    free(mine);
    mine = NULL;
}

/* ------------------------------------------------------------------------------------------------- settings */

bool mt_autocast_enabled(unsigned device_type)
{
    return device_type < MT_DEVICE_TYPES && (mt__autocast >> device_type & 1) != 0;
}

mt_status mt_autocast_enable(unsigned device_type, bool on)
{
    if (device_type >= MT_DEVICE_TYPES)
        return mt__fail(MT_E_VALUE, "mt_autocast_enable: no such device type");
    mt__autocast = (uint8_t)((mt__autocast & ~(1u << device_type)) | (unsigned)on << device_type);
    return MT_OK;
}

mt_dtype mt_autocast_dtype(unsigned device_type)
{
    if (device_type >= MT_DEVICE_TYPES)
        return mt__default_dtype;
    return (mt_dtype)(mine != NULL ? mine->dtype : usual)[device_type];
}

static mt_status no_memory(void)
{
    return mt__fail(MT_E_NOMEM, "out of memory: autocast");
}

mt_status mt_autocast_set_dtype(unsigned device_type, mt_dtype dtype)
{
    if (device_type >= MT_DEVICE_TYPES || dtype >= MT_DTYPES)
        return mt__fail(MT_E_VALUE, "mt_autocast_set_dtype: no such device type or dtype");
    if (mt_autocast_dtype(device_type) == dtype)
        return MT_OK;
    if (state_of_thread() == NULL)
        return no_memory();
    mine->dtype[device_type] = (uint8_t)dtype;
    forget_state();
    return MT_OK;
}

bool mt_autocast_caches(void)
{
    return mine == NULL || !mine->no_cache;
}

mt_status mt_autocast_set_cache(bool on)
{
    if (mt_autocast_caches() == on)
        return MT_OK;
    if (state_of_thread() == NULL)
        return no_memory();
    mine->no_cache = !on;
    forget_state();
    return MT_OK;
}

mt_status mt_autocast_nest(int by, int64_t *depth)
{
    if (state_of_thread() == NULL)
        return no_memory();
    *depth = mine->nesting += by;
    forget_state();
    return MT_OK;
}

void mt_autocast_clear_cache(void)
{
    state *s = mine;
    if (s == NULL)
        return;
    while (s->count > 0) {
        weight w = s->weights[--s->count];
        mt_release(w.of);
        mt_release(w.cast);
    }
    forget_state();
}

/* -------------------------------------------------------------------------------------------------- one cast */

/* Weights are cast once per region, if the copy is tracked as they are. */
static bool is_weight(const mt_tensor *t, mt_dtype to, unsigned type)
{
    return t->dtype == MT_FLOAT32 && to == mt_autocast_dtype(type) && mt__grad_mode && mt_autocast_caches() &&
           (t->flags & (MT__REQUIRES_GRAD | MT__IS_VIEW)) == MT__REQUIRES_GRAD && t->grad_fn == NULL;
}

static void remember(mt_tensor *of, mt_tensor *cast)
{
    state *s = state_of_thread();
    if (s == NULL)
        return; /* it is only a cache */
    if (s->count == s->room) {
        uint32_t room = s->room > 0 ? 2 * s->room : 16;
        weight *more = realloc(s->weights, room * sizeof *more);
        if (more == NULL)
            return;
        s->weights = more;
        s->room = room;
    }
    s->weights[s->count++] = (weight){mt_retain(of), mt_retain(cast)};
}

static bool is_eligible(const mt_tensor *t, unsigned type)
{
    return t != NULL && MT_DEVICE_TYPE(t->device) == type && mt_dtype_is_real((mt_dtype)t->dtype) &&
           t->dtype != MT_FLOAT64;
}

/* t, or its cast, which the scope owns. */
static mt_tensor *cast(mt_tensor *t, mt_dtype to, unsigned type)
{
    if (!is_eligible(t, type) || t->dtype == to)
        return t;
    bool keeps = is_weight(t, to, type);
    for (uint32_t i = 0; keeps && mine != NULL && i < mine->count; i++)
        if (mine->weights[i].of == t)
            return mine->weights[i].cast;
    mt_tensor *made = MT(to_dtype, t, (int64_t)to);
    if (keeps && made != NULL)
        remember(t, made);
    return made;
}

/* ------------------------------------------------------------------------------------------- all of a call's */

/* float32 wins; then the narrow dtype of the region. */
static mt_status widest(const mt__call *call, unsigned type, mt_dtype *out)
{
    mt_dtype low = mt_autocast_dtype(type), found = low;
    for (unsigned i = 0; i < call->op->param_count; i++) {
        const mt_value *v = &call->args[i];
        uint32_t n = v->kind == MT_TENSOR ? 1 : v->kind == MT_TENSORS ? v->count : 0;
        mt_tensor *const *list = v->kind == MT_TENSOR ? &v->as.tensor : v->as.tensors;
        for (uint32_t k = 0; k < n; k++) {
            if (!is_eligible(list[k], type))
                continue;
            if (list[k]->dtype == MT_FLOAT32)
                found = MT_FLOAT32;
            else if (list[k]->dtype != low && found != MT_FLOAT32)
                return mt__fail(MT_E_RUNTIME, "Unexpected floating ScalarType in at::autocast::prioritize");
        }
    }
    *out = found;
    return MT_OK;
}

/* Casts all tensors among the arguments, the last first, as PyTorch's compiler does. */
static mt_status cast_all(const mt__call *call, mt_value *args, mt_dtype to, unsigned type)
{
    for (unsigned i = call->op->param_count; i > 0; i--) {
        mt_value *v = &args[i - 1];
        if (v->kind == MT_TENSOR) {
            v->as.tensor = cast(v->as.tensor, to, type);
        } else if (v->kind == MT_TENSORS) {
            mt_tensor **list = malloc((v->count > 0 ? v->count : 1) * sizeof *list);
            if (list == NULL)
                return no_memory();
            for (uint32_t k = 0; k < v->count; k++)
                list[k] = cast(v->as.tensors[k], to, type);
            v->as.tensors = list; /* freed by release_lists() */
        }
        if (mt_scope_status() != MT_OK)
            return mt_scope_status();
    }
    return MT_OK;
}

static void release_lists(const mt__call *call, mt_value *args)
{
    for (unsigned i = 0; i < call->op->param_count; i++)
        if (args[i].kind == MT_TENSORS && args[i].as.tensors != call->args[i].as.tensors)
            free((void *)(uintptr_t)args[i].as.tensors);
}

/* The argument dtype of a sum or a softmax, unless it is given. */
static void ask_for_float(const mt__call *call, mt_value *args, unsigned type)
{
    if (args[0].kind != MT_TENSOR || !is_eligible(args[0].as.tensor, type))
        return;
    for (unsigned i = 0; i < call->op->param_count; i++)
        if (call->op->params[i].type == MT_TYPE_DTYPE && args[i].kind == MT_NONE)
            args[i] = mt_value_int(MT_FLOAT32);
}

static mt_status refuse(void)
{
    return mt__fail(
        MT_E_RUNTIME,
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
        "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
        "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
        "safe to autocast.");
}

static mt_status cast_arguments(const mt__call *call, mt_value *args)
{
    unsigned type = MT_DEVICE_TYPE(call->device);
    mt_dtype to = MT_FLOAT32;
    mt_status status = MT_OK;
    switch ((mt__autocast_rule)call->op->autocast[type]) {
    case MT__CAST_LOWER:
        to = mt_autocast_dtype(type);
        break;
    case MT__CAST_WIDEST:
        status = widest(call, type, &to);
        break;
    case MT__CAST_ASKED:
        ask_for_float(call, args, type);
        return MT_OK;
    case MT__CAST_REFUSED:
        return refuse();
    case MT__CAST_FLOAT:
    case MT__CAST_NONE:
        break;
    }
    return status == MT_OK ? cast_all(call, args, to, type) : status;
}

mt_status mt__call_autocast(mt__call *call)
{
    const mt_value *args = call->args;
    mt_value with[MT__MAX_ARGS];
    uint8_t on = mt__autocast;
    mt_scope scope;
    memcpy(with, args, call->op->param_count * sizeof *args);
    mt__autocast = 0;
    mt_scope_enter(&scope);
    mt_status status = cast_arguments(call, with);
    if (status == MT_OK) {
        call->args = with;
        status = mt__call_op(call);
        call->args = args;
    }
    release_lists(call, with);
    scope.status = MT_OK; /* our return value reports it */
    mt_scope_leave(&scope);
    mt__autocast = on;
    return status;
}
