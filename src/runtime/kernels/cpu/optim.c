/* runtime/kernels/cpu/optim.c - optimizer steps: each parameter, its gradient and its state in a single pass.
 *
 * A formula is written once and compiled for float and double, each with and without AVX2 (no FMA: the
 * results are the same). Numbers that are the same for all elements are computed in double, per parameter, by
 * the op's kernel. The formulas are PyTorch's, in its order of operations. The elements of all parameters are
 * distributed over the thread pool.
 *
 * state_steps, and other one-element tensors (mus, etas, mu_products), are updated here, not by the caller.
 */
#include "runtime/kernels/optim.h"
#include <math.h>
#include <stdlib.h>

#define MOST_STATES 3
#define NUMBERS 10
#define UNIT 16384 /* elements that a thread claims at a time */

/* One parameter. */
typedef struct item {
    void *param;
    const void *grad;
    void *state[MOST_STATES];
    int64_t numel, row; /* row: elements per index of the first dim */
    double sign, decay; /* grad = sign * grad + decay * param */
    double k[NUMBERS];
    bool flag;
} item;

typedef void formula_fn(const item *it, int64_t begin, int64_t end);
typedef struct formula {
    formula_fn *plain[2], *avx2[2]; /* float, double */
    mt__formula_text source;        /* for other devices */
} formula;

/* ---------------------------------------------------------------------------------------------- formulas */

static inline float root_f(float x)
{
    return __builtin_sqrtf(x);
}
static inline double root_d(double x)
{
    return __builtin_sqrt(x);
}
#define ROOT(x) _Generic((x), float : root_f, default : root_d)(x)
/* As PyTorch's lerp: exact at both ends. */
#define LERP(a, b, w) ((w) < (R)0.5 ? (a) + (w) * ((b) - (a)) : (b) - ((b) - (a)) * (1 - (w)))
#define LARGER(a, b) ((a) > (b) || (a) != (a) ? (a) : (b)) /* NaN wins */

#define N(i) const R k##i = (R)it->k[i];
#define BODY(real, ...)                                                                                      \
    {                                                                                                        \
        typedef real R;                                                                                      \
        R *restrict P = it->param, *restrict S0 = it->state[0], *restrict S1 = it->state[1],                 \
                    *restrict S2 = it->state[2];                                                             \
        const R *restrict G = it->grad;                                                                      \
        const R sign = (R)it->sign, decay = (R)it->decay;                                                    \
        const bool flag = it->flag;                                                                          \
        (void)S0, (void)S1, (void)S2, (void)flag;                                                            \
        N(0)                                                                                                 \
        N(1)                                                                                                 \
        N(2)                                                                                                 \
        N(3)                                                                                                 \
        N(4) N(5) N(6) N(7)(void) k0, (void)k1, (void)k2, (void)k3, (void)k4, (void)k5, (void)k6, (void)k7;  \
        if (decay != 0)                                                                                      \
            for (int64_t i = begin; i < end; i++) {                                                          \
                R p = P[i], g = sign * G[i] + decay * p;                                                     \
                __VA_ARGS__                                                                                  \
                P[i] = p;                                                                                    \
            }                                                                                                \
        else                                                                                                 \
            for (int64_t i = begin; i < end; i++) {                                                          \
                R p = P[i], g = sign * G[i];                                                                 \
                __VA_ARGS__                                                                                  \
                P[i] = p;                                                                                    \
            }                                                                                                \
    }
#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2")))
#define FORMULA(name, ...)                                                                                   \
    static void name##_f32(const item *it, int64_t begin, int64_t end)                                       \
        BODY(float, __VA_ARGS__) static void name##_f64(const item *it, int64_t begin, int64_t end)          \
            BODY(double, __VA_ARGS__) AVX2 static void name##_f32_avx2(const item *it, int64_t begin,        \
                                                                       int64_t end) BODY(float, __VA_ARGS__) \
                AVX2 static void name##_f64_avx2(const item *it, int64_t begin, int64_t end) BODY(           \
                    double, __VA_ARGS__) static const formula name = {                                       \
                    {name##_f32, name##_f64}, {name##_f32_avx2, name##_f64_avx2}, {#name, #__VA_ARGS__}};
#else
#define FORMULA(name, ...)                                                                                   \
    static void name##_f32(const item *it, int64_t begin, int64_t end)                                       \
        BODY(float, __VA_ARGS__) static void name##_f64(const item *it, int64_t begin, int64_t end)          \
            BODY(double, __VA_ARGS__) static const formula name = {                                          \
                {name##_f32, name##_f64}, {NULL, NULL}, {#name, #__VA_ARGS__}};
#endif

/* sgd: k0 -lr, k1 momentum, k2 1 - dampening; flag: nesterov; S0 buffer */
FORMULA(sgd, p += k0 * g;)
FORMULA(sgd_first, R b = S0[i] = g; p += k0 * (flag ? g + k1 * b : b);)
FORMULA(sgd_momentum, R b = S0[i] = S0[i] * k1 + k2 * g; p += k0 * (flag ? g + k1 * b : b);)

/* adam: k0 -step size, k1 1 - beta1, k2 beta2, k3 1 - beta2, k4 root of bias correction 2, k5 eps, k6 the
 * factor of param (1, or decoupled decay); S0 exp_avg, S1 exp_avg_sq, S2 max_exp_avg_sq */
#define ADAM_AVERAGES                                                                                        \
    p *= k6;                                                                                                 \
    R m = S0[i] = LERP(S0[i], g, k1);                                                                        \
    R v = S1[i] = S1[i] * k2 + k3 * g * g;
FORMULA(adam, ADAM_AVERAGES p += k0 * m / (ROOT(v) / k4 + k5);)
FORMULA(adam_max, ADAM_AVERAGES R w = S2[i] = LARGER(S2[i], v); p += k0 * m / (ROOT(w) / k4 + k5);)

/* k0 -lr, k5 eps; S0 sum */
FORMULA(adagrad, R s = S0[i] = S0[i] + g * g; p += k0 * g / (ROOT(s) + k5);)

/* rmsprop: k0 -lr, k1 1 - alpha, k2 alpha, k3 momentum, k5 eps; flag: with momentum; S0 square_avg, S1
 * momentum, S2 grad_avg */
#define RMSPROP_MOVE                                                                                         \
    if (flag) {                                                                                              \
        R b = S1[i] = S1[i] * k3 + g / a;                                                                    \
        p += k0 * b;                                                                                         \
    } else {                                                                                                 \
        p += k0 * g / a;                                                                                     \
    }
FORMULA(rmsprop, R v = S0[i] = S0[i] * k2 + k1 * g * g; R a = ROOT(v) + k5; RMSPROP_MOVE)
FORMULA(rmsprop_centered, R v = S0[i] = S0[i] * k2 + k1 * g * g; R m = S2[i] = LERP(S2[i], g, k1);
        R a = ROOT(v - m * m) + k5; RMSPROP_MOVE)

/* k0 -lr, k1 1 - rho, k2 rho, k5 eps; S0 square_avg, S1 acc_delta */
FORMULA(adadelta, R v = S0[i] = S0[i] * k2 + k1 * g * g; R d = ROOT(S1[i] + k5) / ROOT(v + k5) * g;
        S1[i] = S1[i] * k2 + k1 * d * d; p += k0 * d;)

/* k0 -lr / bias correction, k1 1 - beta1, k2 beta2, k5 eps; S0 exp_avg, S1 exp_inf */
FORMULA(adamax, R m = S0[i] = LERP(S0[i], g, k1); R a = S1[i] * k2, b = (g < 0 ? -g : g) + k5;
        R u = S1[i] = LARGER(a, b); p += k0 * m / u;)

/* nadam: as adam; k0 for the gradient, k7 for exp_avg, k4 bias correction 2 */
FORMULA(nadam, ADAM_AVERAGES R d = ROOT(v / k4) + k5; p += k0 * g / d; p += k7 * m / d;)

/* radam: as adam; k0 lr, k7 bias correction 1, k4 root of bias correction 2 times the
 * rectification; flag: rectified */
FORMULA(radam, ADAM_AVERAGES R u = m / k7 * k0; p -= flag ? u * (k4 / (ROOT(v) + k5)) : u;)

/* k0 -eta, k1 1 - lambd * eta, k2 mu; flag: mu is 1; S0 ax */
FORMULA(asgd, p = p * k1; p += k0 * g; S0[i] = flag ? p : S0[i] + (p - S0[i]) * k2;)

/* k0 etaminus, k1 etaplus, k2 and k3 the bounds of step sizes; S0 prev, S1 step size */
FORMULA(rprop, R x = g * S0[i]; R f = x > 0   ? k1
                                      : x < 0 ? k0
                                              : 1;
        R s = S1[i] * f; s = s < k2   ? k2
                             : s > k3 ? k3
                                      : s;
        S1[i] = s; g = f == k0 ? 0 : g; p -= (R)((g > 0) - (g < 0)) * s; S0[i] = g;)

/* ------------------------------------------------------------------------------------------------- driving */

typedef struct batch {
    item *items;
    formula_fn **fns; /* of each item */
    struct unit {
        uint32_t item;
        int64_t begin, end;
    } * units;
} batch;

static void run_units(int64_t begin, int64_t end, void *user)
{
    const batch *b = user;
    for (int64_t u = begin; u < end; u++)
        b->fns[b->units[u].item](&b->items[b->units[u].item], b->units[u].begin, b->units[u].end);
}

static formula_fn *pick(const formula *f, mt_dtype dtype)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2"))
        return f->avx2[dtype == MT_FLOAT64];
#endif
    return f->plain[dtype == MT_FLOAT64];
}

static double number_of(const mt_tensor *t) /* of one element, on any device */
{
    double x = 0;
    if (MT__UNLIKELY(MT_DEVICE_TYPE(t->device) != 0))
        return mt_item(t, &x) == MT_OK ? x : 0;
    return t->dtype == MT_FLOAT32 ? (double)*(const float *)t->data : *(const double *)t->data;
}
static void set_number(mt_tensor *t, double x)
{
    if (MT__UNLIKELY(MT_DEVICE_TYPE(t->device) != 0)) {
        mt_value args[] = {mt_value_tensor(t), mt_value_float(x)};
        mt_tensor *same = NULL;
        (void)mt__run_quietly(MT_OP_fill_, args, 2, &same);
        mt_release(same);
        return;
    }
    if (t->dtype == MT_FLOAT32)
        *(float *)t->data = (float)x;
    else
        *(double *)t->data = x;
}
static double count_step(mt_tensor *t)
{
    set_number(t, number_of(t) + 1);
    return number_of(t);
}

/* The roles of an op's arguments, and how they become numbers. */
typedef struct rule {
    int8_t states[MOST_STATES]; /* arguments that are S0 ..., 0: none */
    int8_t maximize, decay;     /* arguments, 0: none */
    const formula *(*prepare)(const mt__call *call, uint32_t i,
                              item *it); /* sets k and flag; may change decay */
} rule;

static mt_tensor *item_of(const mt__call *call, unsigned arg, uint32_t i)
{
    return call->args[arg].as.tensors[i];
}

/* Contiguous copies of tensors that are not; written ones are copied back. */
typedef struct stand_in {
    mt_tensor *real, *copy; /* real: borrowed; copy: owned */
} stand_in;
typedef struct stand_ins {
    stand_in *list; /* owned */
    uint32_t count;
} stand_ins;

static mt_status straight(mt_tensor *t, bool written, stand_ins *s, void **data)
{
    if (t->flags & MT__CONTIGUOUS) {
        *data = t->data;
        return MT_OK;
    }
    stand_in *more = realloc(s->list, (s->count + 1) * sizeof *more);
    if (more == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: a step of an optimizer");
    s->list = more;
    mt_status status = mt__contiguous(t, &more[s->count].copy);
    if (status != MT_OK)
        return status;
    *data = more[s->count].copy->data;
    more[s->count++].real = written ? t : NULL;
    return MT_OK;
}

static mt_status end_stand_ins(stand_ins *s, mt_status status)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->list[i].real != NULL && status == MT_OK) {
            mt_tensor *out = NULL;
            mt_value args[] = {mt_value_tensor(s->list[i].real), mt_value_tensor(s->list[i].copy)};
            status = mt__run_quietly(MT_OP_copy_, args, 2, &out);
            mt_release(out);
        }
        mt_release(s->list[i].copy);
    }
    free(s->list);
    return status;
}

/* Sets the numbers that all formulas use. */
static void set_common(const mt__call *call, const rule *r, uint32_t i, item *it)
{
    const mt_tensor *p = item_of(call, 0, i);
    it->numel = p->numel;
    it->row = p->rank > 0 && p->dims[0] > 0 ? p->numel / p->dims[0] : 1;
    it->sign = r->maximize != 0 && mt__arg_int(call, (unsigned)r->maximize) ? -1 : 1;
    it->decay = r->decay != 0 ? mt__arg_number(call, (unsigned)r->decay) : 0;
}

static mt_status prepare_item(const mt__call *call, const rule *r, uint32_t i, item *it, stand_ins *s)
{
    void *grad = NULL;
    mt_status status = straight(item_of(call, 0, i), true, s, &it->param);
    if (status == MT_OK)
        status = straight(item_of(call, 1, i), false, s, &grad);
    it->grad = grad;
    for (unsigned k = 0; k < MOST_STATES && status == MT_OK; k++)
        if (r->states[k] != 0 && call->args[r->states[k]].count > 0)
            status = straight(item_of(call, (unsigned)r->states[k], i), true, s, &it->state[k]);
    set_common(call, r, i, it);
    return status;
}

/* Bumps the version of every tensor that the op writes. */
static void bump_versions(const mt__call *call)
{
    for (unsigned a = 0; a < call->op->param_count; a++)
        if (call->op->params[a].written)
            for (uint32_t i = 0; i < call->args[a].count; i++)
                ++*mt__version(call->args[a].as.tensors[i]);
}

#define TEXT2(...) #__VA_ARGS__
#define TEXT(...) TEXT2(__VA_ARGS__)

/* On an accelerator: the same formulas as text, one kernel launch per parameter. */
static mt_status step_elsewhere(mt__call *call, const rule *r)
{
    static const char macros[] =
        "#define ADAM_AVERAGES " TEXT(ADAM_AVERAGES) "\n"
                                                     "#define RMSPROP_MOVE " TEXT(RMSPROP_MOVE) "\n";
    mt_status status = MT_OK;
    for (uint32_t i = 0; i < call->args[0].count && status == MT_OK; i++) {
        item it = {0};
        set_common(call, r, i, &it);
        const formula *f = r->prepare(call, i, &it);
        mt__device_step s = {.source = f->source,
                             .macros = macros,
                             .param = item_of(call, 0, i),
                             .grad = item_of(call, 1, i),
                             .sign = it.sign,
                             .decay = it.decay,
                             .row = it.row,
                             .flag = it.flag};
        memcpy(s.k, it.k, sizeof s.k);
        for (unsigned k = 0; k < MOST_STATES; k++)
            if (r->states[k] != 0 && call->args[r->states[k]].count > 0)
                s.state[k] = item_of(call, (unsigned)r->states[k], i);
        status = mt__npu_optimizer_step(&s);
    }
    if (status == MT_OK)
        bump_versions(call);
    return status;
}

static mt_status step(mt__call *call, const rule *r)
{
    if (MT__UNLIKELY(MT_DEVICE_TYPE(call->device) != 0))
        return step_elsewhere(call, r);
    uint32_t n = call->args[0].count;
    int64_t units = 0, u = 0;
    for (uint32_t i = 0; i < n; i++)
        units += (item_of(call, 0, i)->numel + UNIT - 1) / UNIT;
    batch b = {calloc(n + 1, sizeof *b.items), calloc(n + 1, sizeof *b.fns),
               malloc((size_t)(units + 1) * sizeof *b.units)};
    stand_ins s = {NULL, 0};
    mt_status status = b.items == NULL || b.fns == NULL || b.units == NULL
                           ? mt__fail(MT_E_NOMEM, "out of memory: a step of an optimizer")
                           : MT_OK;
    for (uint32_t i = 0; i < n && status == MT_OK; i++) {
        item *it = &b.items[i];
        status = prepare_item(call, r, i, it, &s);
        if (status != MT_OK)
            break;
        b.fns[i] = pick(r->prepare(call, i, it), (mt_dtype)item_of(call, 0, i)->dtype);
        for (int64_t at = 0; at < it->numel; at += UNIT, u++) {
            b.units[u].item = i;
            b.units[u].begin = at;
            b.units[u].end = it->numel - at < UNIT ? it->numel : at + UNIT;
        }
    }
    if (status == MT_OK) {
        mt__parallel(u, 1, run_units, &b);
        bump_versions(call);
    }
    status = end_stand_ins(&s, status);
    free(b.items);
    free(b.fns);
    free(b.units);
    return status;
}

/* ----------------------------------------------------------------------------------------- numbers of each op */

/* The kernel of _fused_<name>_, whose numbers prepare_<name> computes; ...: the arguments that are S0 ... */
#define OPTIMIZER(name, maximize, decay, ...)                                                                \
    mt_status mt__cpu_fused_##name(mt__call *call)                                                           \
    {                                                                                                        \
        static const rule r = {{__VA_ARGS__}, maximize, decay, prepare_##name};                              \
        return step(call, &r);                                                                               \
    }

static const formula *prepare_sgd(const mt__call *call, uint32_t i, item *it)
{
    (void)i;
    double momentum = mt__arg_number(call, 4);
    it->k[0] = -mt__arg_number(call, 5);
    it->k[1] = momentum;
    it->k[2] = 1 - mt__arg_number(call, 6);
    it->flag = mt__arg_int(call, 7) != 0;
    return momentum == 0 ? &sgd : mt__arg_int(call, 9) ? &sgd_first : &sgd_momentum;
}
OPTIMIZER(sgd, 8, 3, 2)

/* The numbers of Adam's averages. */
static void averages(item *it, double beta1, double beta2, double eps, double factor)
{
    it->k[1] = 1 - beta1;
    it->k[2] = beta2;
    it->k[3] = 1 - beta2;
    it->k[5] = eps;
    it->k[6] = factor;
}

static const formula *prepare_adam_like(const mt__call *call, uint32_t i, item *it, bool decoupled)
{
    double t = count_step(item_of(call, 5, i));
    double lr = mt__arg_number(call, 6), beta1 = mt__arg_number(call, 7), beta2 = mt__arg_number(call, 8);
    double decay = mt__arg_number(call, 9);
    averages(it, beta1, beta2, mt__arg_number(call, 10), decoupled ? 1 - lr * decay : 1);
    it->decay = decoupled ? 0 : decay;
    it->k[0] = -lr / (1 - pow(beta1, t));
    it->k[4] = sqrt(1 - pow(beta2, t));
    return mt__arg_int(call, 11) ? &adam_max : &adam;
}
static const formula *prepare_adam(const mt__call *call, uint32_t i, item *it)
{
    return prepare_adam_like(call, i, it, false);
}
static const formula *prepare_adamw(const mt__call *call, uint32_t i, item *it)
{
    return prepare_adam_like(call, i, it, true);
}
OPTIMIZER(adam, 12, 9, 2, 3, 4)
OPTIMIZER(adamw, 12, 0, 2, 3, 4)

static const formula *prepare_adagrad(const mt__call *call, uint32_t i, item *it)
{
    double t = count_step(item_of(call, 3, i));
    it->k[0] = -mt__arg_number(call, 4) / (1 + (t - 1) * mt__arg_number(call, 5));
    it->k[5] = mt__arg_number(call, 7);
    return &adagrad;
}
OPTIMIZER(adagrad, 8, 6, 2)

static const formula *prepare_rmsprop(const mt__call *call, uint32_t i, item *it)
{
    double alpha = mt__arg_number(call, 7);
    count_step(item_of(call, 5, i));
    it->k[0] = -mt__arg_number(call, 6);
    it->k[1] = 1 - alpha;
    it->k[2] = alpha;
    it->k[3] = mt__arg_number(call, 10);
    it->k[5] = mt__arg_number(call, 8);
    it->flag = it->k[3] > 0;
    return mt__arg_int(call, 11) ? &rmsprop_centered : &rmsprop;
}
OPTIMIZER(rmsprop, 12, 9, 2, 4, 3)

static const formula *prepare_adadelta(const mt__call *call, uint32_t i, item *it)
{
    double rho = mt__arg_number(call, 6);
    count_step(item_of(call, 4, i));
    it->k[0] = -mt__arg_number(call, 5);
    it->k[1] = 1 - rho;
    it->k[2] = rho;
    it->k[5] = mt__arg_number(call, 7);
    return &adadelta;
}
OPTIMIZER(adadelta, 9, 8, 2, 3)

static const formula *prepare_adamax(const mt__call *call, uint32_t i, item *it)
{
    double t = count_step(item_of(call, 4, i)), beta1 = mt__arg_number(call, 6);
    averages(it, beta1, mt__arg_number(call, 7), mt__arg_number(call, 9), 1);
    it->k[0] = -mt__arg_number(call, 5) / (1 - pow(beta1, t));
    return &adamax;
}
OPTIMIZER(adamax, 10, 8, 2, 3)

static const formula *prepare_nadam(const mt__call *call, uint32_t i, item *it)
{
    double t = count_step(item_of(call, 5, i)), lr = mt__arg_number(call, 6), beta1 = mt__arg_number(call, 7);
    double beta2 = mt__arg_number(call, 8), decay = mt__arg_number(call, 9),
           slowing = mt__arg_number(call, 10);
    bool decoupled = mt__arg_int(call, 12) != 0;
    double mu = beta1 * (1 - 0.5 * pow(0.96, t * slowing)),
           next = beta1 * (1 - 0.5 * pow(0.96, (t + 1) * slowing));
    mt_tensor *product = item_of(call, 4, i);
    set_number(product, number_of(product) * mu);
    averages(it, beta1, beta2, mt__arg_number(call, 11), decoupled ? 1 - lr * decay : 1);
    it->decay = decoupled ? 0 : decay;
    it->k[0] = -lr * (1 - mu) / (1 - number_of(product));
    it->k[4] = 1 - pow(beta2, t);
    it->k[7] = -lr * next / (1 - number_of(product) * next);
    return &nadam;
}
OPTIMIZER(nadam, 13, 0, 2, 3)

static const formula *prepare_radam(const mt__call *call, uint32_t i, item *it)
{
    double t = count_step(item_of(call, 4, i)), lr = mt__arg_number(call, 5), beta1 = mt__arg_number(call, 6);
    double beta2 = mt__arg_number(call, 7), decay = mt__arg_number(call, 8);
    bool decoupled = mt__arg_int(call, 10) != 0;
    double correction = 1 - pow(beta2, t), most = 2 / (1 - beta2) - 1;
    double rho = most - 2 * t * pow(beta2, t) / correction;
    averages(it, beta1, beta2, mt__arg_number(call, 9), decoupled ? 1 - lr * decay : 1);
    it->decay = decoupled ? 0 : decay;
    it->k[0] = lr;
    it->k[7] = 1 - pow(beta1, t);
    it->flag = rho > 5;
    it->k[4] = it->flag
                   ? sqrt(correction) * sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
                   : 1;
    return &radam;
}
OPTIMIZER(radam, 11, 0, 2, 3)

static const formula *prepare_asgd(const mt__call *call, uint32_t i, item *it)
{
    mt_tensor *mu = item_of(call, 3, i), *eta = item_of(call, 4, i);
    double t = count_step(item_of(call, 5, i)), lambd = mt__arg_number(call, 6), lr = mt__arg_number(call, 7);
    double since = t - mt__arg_number(call, 8);
    it->k[0] = -number_of(eta);
    it->k[1] = 1 - lambd * number_of(eta);
    it->k[2] = number_of(mu);
    it->flag = number_of(mu) == 1;
    set_number(eta, lr / pow(1 + lambd * lr * t, mt__arg_number(call, 9)));
    set_number(mu, 1 / (since > 1 ? since : 1));
    return &asgd;
}
OPTIMIZER(asgd, 11, 10, 2)

static const formula *prepare_rprop(const mt__call *call, uint32_t i, item *it)
{
    count_step(item_of(call, 4, i));
    for (unsigned k = 0; k < 4; k++)
        it->k[k] = mt__arg_number(call, 5 + k);
    return &rprop;
}
OPTIMIZER(rprop, 9, 0, 2, 3)

/* Adam for rows with a gradient; the others stay unchanged. */
#define SPARSE_ADAM(real, suffix)                                                                            \
    static void sparse_adam_##suffix(const item *it, int64_t begin, int64_t end)                             \
    {                                                                                                        \
        real *P = it->param, *S0 = it->state[0], *S1 = it->state[1];                                         \
        const real *G = it->grad;                                                                            \
        const real lr = (real)it->k[0], b1 = (real)it->k[1], b2 = (real)it->k[3], eps = (real)it->k[5];      \
        const int64_t row = it->row > 0 ? it->row : 1;                                                       \
        for (int64_t i = begin; i < end; i++) {                                                              \
            const int64_t first = i / row * row;                                                             \
            bool any = G[i] != 0;                                                                            \
            for (int64_t x = first; x < first + row && !any; x++)                                            \
                any = G[x] != 0;                                                                             \
            if (!any)                                                                                        \
                continue;                                                                                    \
            real g = (real)it->sign * G[i];                                                                  \
            S0[i] += (g - S0[i]) * b1;                                                                       \
            S1[i] += (g * g - S1[i]) * b2;                                                                   \
            P[i] += lr * (S0[i] / (ROOT(S1[i]) + eps));                                                      \
        }                                                                                                    \
    }
SPARSE_ADAM(float, f32)
SPARSE_ADAM(double, f64)
static const formula sparse_adam = {
    {sparse_adam_f32, sparse_adam_f64},
    {sparse_adam_f32, sparse_adam_f64},
    {"sparse_adam", "int any = g != 0;"
                    " for (long x = i / row * row; x < i / row * row + row && !any; x++) any = G[x] != 0;"
                    " if (any) { S0[i] += (g - S0[i]) * k1; S1[i] += (g * g - S1[i]) * k3;"
                    " p += k0 * (S0[i] / (ROOT(S1[i]) + k5)); }"}};

static const formula *prepare_sparse_adam(const mt__call *call, uint32_t i, item *it)
{
    double t = count_step(item_of(call, 4, i)), beta1 = mt__arg_number(call, 6),
           beta2 = mt__arg_number(call, 7);
    averages(it, beta1, beta2, mt__arg_number(call, 8), 1);
    it->k[0] = -mt__arg_number(call, 5) * sqrt(1 - pow(beta2, t)) / (1 - pow(beta1, t));
    return &sparse_adam;
}
OPTIMIZER(sparse_adam, 9, 0, 2, 3)

const mt__formula_text *const mt__formulas[] = {
    &sgd.source,      &sgd_first.source, &sgd_momentum.source, &adam.source,
    &adam_max.source, &adagrad.source,   &rmsprop.source,      &rmsprop_centered.source,
    &adadelta.source, &adamax.source,    &nadam.source,        &radam.source,
    &asgd.source,     &rprop.source,     &sparse_adam.source,  NULL};
