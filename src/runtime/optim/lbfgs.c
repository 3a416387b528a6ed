/* runtime/optim/lbfgs.c - L-BFGS: uses a history of gradients; calls the closure many times per step.
 *
 * All vectors are flat: the gradients of all parameters, concatenated. They are tensors and every operation
 * on them is an op, which runs on the parameters' device and shows up in profiles. Invariant: dirs, steps and
 * ro have `used` items each, the oldest first.
 */
#include "runtime/optim/optim.h"
#include <math.h>
#include <stdlib.h>

struct mt__lbfgs {
    mt_lbfgs_options options;
    uint64_t iterations;
    int used;
    mt_tensor **dirs, **steps; /* owned; history_size of each */
    double *ro, *al;           /* owned */
    mt_tensor *d, *previous;   /* owned: the direction, the last gradient; initially NULL */
    double t, h, loss;
};
typedef struct mt__lbfgs lbfgs;

/* The state of a step. */
typedef struct run {
    mt_optimizer *o;
    lbfgs *l;
    mt_closure_fn *closure;
    void *user;
    mt_tensor *grad; /* owned */
    double f;
} run;

mt_status mt__lbfgs_create(const mt_lbfgs_options *options, lbfgs **out)
{
    lbfgs *l = calloc(1, sizeof *l);
    size_t n = options->history_size > 0 ? (size_t)options->history_size : 1;
    *out = l;
    if (l == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: LBFGS");
    l->options = *options;
    if (l->options.max_eval <= 0)
        l->options.max_eval = l->options.max_iter * 5 / 4;
    l->options.history_size = (int)n;
    l->dirs = calloc(n, sizeof(mt_tensor *));
    l->steps = calloc(n, sizeof(mt_tensor *));
    l->ro = calloc(n, sizeof *l->ro);
    l->al = calloc(n, sizeof *l->al);
    if (l->dirs == NULL || l->steps == NULL || l->ro == NULL || l->al == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: LBFGS");
    return MT_OK;
}

void mt__lbfgs_destroy(lbfgs *l)
{
    if (l == NULL)
        return;
    for (int i = 0; i < l->used; i++) {
        mt_release(l->dirs[i]);
        mt_release(l->steps[i]);
    }
    mt_release(l->d);
    mt_release(l->previous);
    free(l->dirs);
    free(l->steps);
    free(l->ro);
    free(l->al);
    free(l);
}

/* ----------------------------------------------------------------------------------------------- vectors */

static double number(mt_tensor *t) /* NaN if an earlier op failed */
{
    double x = NAN;
    if (t != NULL)
        mt_item(t, &x);
    return x;
}
static double dot(mt_tensor *a, mt_tensor *b)
{
    return number(MT(dot, a, b));
}
static double largest(mt_tensor *t)
{
    return number(MT(max, MT(abs, t)));
}
static void keep(mt_tensor **slot, mt_tensor *t)
{
    mt_retain(t);
    mt_release(*slot);
    *slot = t;
}

static mt_status flat_gradient(run *r)
{
    const mt_optimizer *o = r->o;
    mt_tensor **parts = calloc(o->count + 1, sizeof *parts);
    if (parts == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: LBFGS");
    for (uint32_t i = 0; i < o->count; i++) {
        mt_tensor *p = o->params[i];
        parts[i] = p->grad != NULL ? MT(reshape, p->grad, MT_SHAPE(-1))
                                   : MT(reshape, MT(zeros_like, p), MT_SHAPE(-1));
    }
    mt_tensor *all = mt_scope_status() == MT_OK ? MT(cat, mt_value_tensors(parts, o->count), 0) : NULL;
    free(parts);
    keep(&r->grad, all);
    return mt_scope_status();
}

static void move(const mt_optimizer *o, double t, mt_tensor *d)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        mt_tensor *p = o->params[i];
        MT(add_, p, MT(view_as, MT(narrow, d, 0, at, p->numel), p), t);
        at += p->numel;
    }
}

/* The loss and its gradient at the current parameters. */
static mt_status evaluate(run *r)
{
    mt_grad_enable(true);
    mt_status status = r->closure(r->user, &r->f);
    mt_grad_enable(false);
    return status == MT_OK ? flat_gradient(r) : status;
}

/* The same at x + t * d; restores the parameters to x. */
static mt_status evaluate_at(run *r, mt_tensor *const *x, double t, mt_tensor *d)
{
    move(r->o, t, d);
    mt_status status = mt_scope_status() == MT_OK ? evaluate(r) : mt_scope_status();
    for (uint32_t i = 0; i < r->o->count && status == MT_OK; i++)
        MT(copy_, r->o->params[i], x[i]);
    return status == MT_OK ? mt_scope_status() : status;
}

/* -------------------------------------------------------------------------------------------- line search */

static double least(double a, double b)
{
    return a < b ? a : b;
}
static double most(double a, double b)
{
    return a > b ? a : b;
}

/* The minimum of the cubic through two points with slopes, within [low, high]. */
static double cubic(double x1, double f1, double g1, double x2, double f2, double g2, double low, double high)
{
    double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2), square = d1 * d1 - g1 * g2;
    if (!(square >= 0))
        return (low + high) / 2;
    double d2 = sqrt(square);
    double at = x1 <= x2 ? x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
                         : x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2));
    return least(most(at, low), high);
}

typedef struct point {
    double t, f, slope;
    mt_tensor *g; /* owned */
} point;

static void set_point(point *p, double t, double f, double slope, mt_tensor *g)
{
    p->t = t;
    p->f = f;
    p->slope = slope;
    keep(&p->g, g);
}

#define C1 1e-4
#define C2 0.9

typedef struct search {
    run *r;
    mt_tensor *const *x;
    mt_tensor *d;
    double f, slope;  /* at the start */
    point bracket[2]; /* when done, only bracket[0] counts */
    bool done;
    int tries, most_tries, evaluations;
} search;

static mt_status try_at(search *s, double t, point *out)
{
    mt_status status = evaluate_at(s->r, s->x, t, s->d);
    s->evaluations++;
    if (status == MT_OK)
        set_point(out, t, s->r->f, dot(s->r->grad, s->d), s->r->grad);
    return status;
}

/* Continues until two points enclose an acceptable one. */
static mt_status enclose(search *s, double t)
{
    point before = {0}, now = {0}, *b = s->bracket;
    mt_tensor *start = s->r->grad;
    set_point(&before, 0, s->f, s->slope, start);
    set_point(&b[0], 0, s->f, s->slope, start); /* if tries run out: from the start ... */
    mt_status status = try_at(s, t, &now);
    while (status == MT_OK && s->tries < s->most_tries) {
        if (now.f > s->f + C1 * now.t * s->slope || (s->tries > 1 && now.f >= before.f) || now.slope >= 0 ||
            fabs(now.slope) <= -C2 * s->slope) {
            bool armijo = !(now.f > s->f + C1 * now.t * s->slope || (s->tries > 1 && now.f >= before.f));
            s->done = armijo && fabs(now.slope) <= -C2 * s->slope;
            set_point(&b[0], before.t, before.f, before.slope, before.g);
            break;
        }
        double next = cubic(before.t, before.f, before.slope, now.t, now.f, now.slope,
                            now.t + 0.01 * (now.t - before.t), now.t * 10);
        set_point(&before, now.t, now.f, now.slope, now.g);
        status = try_at(s, next, &now);
        s->tries++;
    }
    if (status == MT_OK)
        set_point(&b[s->done ? 0 : 1], now.t, now.f, now.slope, now.g); /* ... to the current point */
    mt_release(before.g);
    mt_release(now.g);
    return status;
}

/* A new t between the two, not too close to either if that has failed before. */
static double between(const point *b, bool *stuck)
{
    double low = least(b[0].t, b[1].t), high = most(b[0].t, b[1].t);
    double t = cubic(b[0].t, b[0].f, b[0].slope, b[1].t, b[1].f, b[1].slope, low, high);
    double margin = 0.1 * (high - low);
    if (least(high - t, t - low) >= margin) {
        *stuck = false;
    } else if (*stuck || t >= high || t <= low) {
        t = fabs(t - high) < fabs(t - low) ? high - margin : low + margin;
        *stuck = false;
    } else {
        *stuck = true;
    }
    return t;
}

/* Narrows the bracket; leaves the best point in bracket[0]. */
static mt_status narrow_down(search *s)
{
    point *b = s->bracket, now = {0};
    double reach = largest(s->d);
    bool stuck = false;
    int low = s->done || b[0].f <= b[1].f ? 0 : 1;
    mt_status status = mt_scope_status();
    while (status == MT_OK && !s->done && s->tries < s->most_tries) {
        if (fabs(b[1].t - b[0].t) * reach < s->r->l->options.tolerance_change)
            break;
        double t = between(b, &stuck);
        status = try_at(s, t, &now);
        s->tries++;
        if (status != MT_OK)
            break;
        if (now.f > s->f + C1 * t * s->slope || now.f >= b[low].f) {
            set_point(&b[1 - low], now.t, now.f, now.slope, now.g);
            low = b[0].f <= b[1].f ? 0 : 1;
            continue;
        }
        if (fabs(now.slope) <= -C2 * s->slope)
            s->done = true;
        else if (now.slope * (b[1 - low].t - b[low].t) >= 0)
            set_point(&b[1 - low], b[low].t, b[low].f, b[low].slope, b[low].g);
        set_point(&b[low], now.t, now.f, now.slope, now.g);
    }
    if (low == 1 && status == MT_OK)
        set_point(&b[0], b[1].t, b[1].f, b[1].slope, b[1].g);
    mt_release(now.g);
    return status;
}

static mt_status strong_wolfe(run *r, double *t, double slope, int most_tries, int *evaluations)
{
    mt_tensor **x = calloc(r->o->count + 1, sizeof *x);
    search s = {.r = r, .x = x, .d = r->l->d, .f = r->f, .slope = slope, .most_tries = most_tries};
    if (x == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: LBFGS");
    for (uint32_t i = 0; i < r->o->count; i++)
        x[i] = MT(clone, r->o->params[i]);
    mt_status status = mt_scope_status() == MT_OK ? enclose(&s, *t) : mt_scope_status();
    if (status == MT_OK)
        status = narrow_down(&s);
    if (status == MT_OK) {
        *t = s.bracket[0].t;
        r->f = s.bracket[0].f;
        keep(&r->grad, s.bracket[0].g);
        move(r->o, *t, r->l->d);
    }
    *evaluations = s.evaluations;
    mt_release(s.bracket[0].g);
    mt_release(s.bracket[1].g);
    free(x);
    return status == MT_OK ? mt_scope_status() : status;
}

/* ---------------------------------------------------------------------------------------------- directions */

static void remember(lbfgs *l, mt_tensor *y, mt_tensor *s, double ys)
{
    int last = l->options.history_size - 1;
    if (l->used > last) {
        mt_release(l->dirs[0]);
        mt_release(l->steps[0]);
        memmove(l->dirs, l->dirs + 1, (size_t)last * sizeof(mt_tensor *));
        memmove(l->steps, l->steps + 1, (size_t)last * sizeof(mt_tensor *));
        memmove(l->ro, l->ro + 1, (size_t)last * sizeof *l->ro);
        l->used = last;
    }
    l->dirs[l->used] = mt_retain(y);
    l->steps[l->used] = mt_retain(s);
    l->ro[l->used++] = 1 / ys;
    l->h = ys / dot(y, y);
}

static void next_direction(run *r)
{
    lbfgs *l = r->l;
    if (l->iterations == 1) {
        l->h = 1;
        keep(&l->d, MT(neg, r->grad));
        return;
    }
    mt_tensor *y = MT(sub, r->grad, l->previous), *s = MT(mul, l->d, l->t);
    double ys = dot(y, s);
    if (ys > 1e-10)
        remember(l, y, s, ys);
    mt_tensor *q = MT(neg, r->grad);
    for (int i = l->used - 1; i >= 0; i--) {
        l->al[i] = dot(l->steps[i], q) * l->ro[i];
        q = MT(add_, q, l->dirs[i], -l->al[i]);
    }
    mt_tensor *d = MT(mul, q, l->h);
    for (int i = 0; i < l->used; i++)
        d = MT(add_, d, l->steps[i], l->al[i] - dot(l->dirs[i], d) * l->ro[i]);
    keep(&l->d, d);
}

/* ---------------------------------------------------------------------------------------------------- a step */

/* One iteration; sets *stop if it was the last. */
static mt_status iterate(run *r, int n, int *evaluations, bool *stop)
{
    lbfgs *l = r->l;
    const mt_lbfgs_options *c = &l->options;
    int here = 0;
    bool optimal = false;
    mt_status status = MT_OK;
    l->iterations++;
    next_direction(r);
    keep(&l->previous, r->grad); /* gradients are never changed in place */
    l->loss = r->f;
    l->t = l->iterations == 1 ? least(1, 1 / number(MT(sum, MT(abs, r->grad)))) * r->o->lr : r->o->lr;
    double slope = dot(r->grad, l->d);
    *stop = true;
    if (mt_scope_status() != MT_OK || slope > -c->tolerance_change)
        return mt_scope_status();
    if (c->strong_wolfe) {
        status = strong_wolfe(r, &l->t, slope, c->max_eval - *evaluations, &here);
        optimal = status == MT_OK && largest(r->grad) <= c->tolerance_grad;
    } else {
        move(r->o, l->t, l->d);
        if (n != c->max_iter) {
            status = mt_scope_status() == MT_OK ? evaluate(r) : mt_scope_status();
            optimal = status == MT_OK && largest(r->grad) <= c->tolerance_grad;
            here = 1;
        }
    }
    *evaluations += here;
    if (status == MT_OK)
        status = mt_scope_status();
    *stop = status != MT_OK || n == c->max_iter || *evaluations >= c->max_eval || optimal ||
            largest(MT(mul, l->d, l->t)) <= c->tolerance_change || fabs(r->f - l->loss) < c->tolerance_change;
    return status;
}

mt_status mt__lbfgs_step(mt_optimizer *o, mt_closure_fn *closure, void *user, double *loss)
{
    run r = {.o = o, .l = o->lbfgs, .closure = closure, .user = user};
    mt_status status = closure == NULL ? mt__fail(MT_E_VALUE, "LBFGS needs a closure") : MT_OK;
    int evaluations = 1;
    bool stop = false;
    if (status != MT_OK || o->count == 0)
        return status;
    MT_SCOPE
    {
        status = evaluate(&r);
        *loss = r.f;
        stop = status == MT_OK && largest(r.grad) <= r.l->options.tolerance_grad;
    }
    for (int n = 1; n <= r.l->options.max_iter && !stop && status == MT_OK; n++)
        MT_SCOPE status = iterate(&r, n, &evaluations, &stop);
    mt_release(r.grad);
    return status;
}
