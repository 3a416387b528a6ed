/* kernels/cpu/fill.c - one value into every element. */
#include "runtime/kernels/cpu/iterate.h"

/* Fills a row with one value: the copy loop would reload it each time. */
#define SPREAD(sym, T, ...)                                                                                  \
    static void spread_##sym(char *const *p, const int64_t *step, int64_t n, const void *user)               \
    {                                                                                                        \
        (void)user;                                                                                          \
        const T x = *(const T *)(const void *)p[1];                                                          \
        if (step[0] == sizeof(T)) {                                                                          \
            T *o = (T *)(void *)p[0];                                                                        \
            for (int64_t i = 0; i < n; i++)                                                                  \
                o[i] = x;                                                                                    \
        } else {                                                                                             \
            for (int64_t i = 0; i < n; i++)                                                                  \
                *(T *)(void *)(p[0] + i * step[0]) = x;                                                      \
        }                                                                                                    \
    }
MT_DTYPE_LIST(SPREAD)

static void fill(mt_tensor *t, const mt_value *v)
{
#define ENTRY(sym, T, ...) [MT_##sym] = spread_##sym,
    static mt__loop *const loops[] = {MT_DTYPE_LIST(ENTRY)};
    mt_dtype dtype = (mt_dtype)t->dtype;
    if (t->numel <= MT__GRAIN && (t->flags & MT__CONTIGUOUS) && v->kind != MT_TENSOR) {
        mt__scalar s = mt__scalar_of(dtype, v);
        loops[dtype]((char *const[]){t->data, (char *)&s}, (const int64_t[]){(int64_t)mt__size_of(t), 0},
                     t->numel, NULL);
        return;
    }
    mt__plan p;
    mt__plan_begin(&p, t, dtype);
    mt__plan_add(&p, v, dtype);
    mt__plan_run(&p, loops[dtype], NULL);
}

mt_status mt__cpu_fill(mt__call *call)
{
    fill(call->outs[0], &call->args[1]);
    return MT_OK;
}

mt_status mt__cpu_zero(mt__call *call)
{
    mt_value zero = mt_value_int(0);
    fill(call->outs[0], &zero);
    return MT_OK;
}

/* For empty(): leaves the memory uninitialised. */
mt_status mt__cpu_nothing(mt__call *call)
{
    (void)call;
    return MT_OK;
}
