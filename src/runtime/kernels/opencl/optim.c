/* kernels/opencl/optim.c - one optimizer step for one parameter, from the formula that the
 * CPU kernels use. */
#define _GNU_SOURCE
#include "runtime/kernels/optim.h"
#include "runtime/kernels/opencl/npu.h"
#include <stdlib.h>

#define NUMBERS 8

static const char head[] =
    "#define R T\n#define bool int\n"
    "#define ROOT(x) sqrt(x)\n"
    "#define LERP(a, b, w) ((w) < (R)0.5 ? (a) + (w) * ((b) - (a)) : (b) - ((b) - (a)) * (1 - (w)))\n"
    "#define LARGER(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))\n";
static const char frame[] =
    "__kernel void %s_step_%s(long n, long row, __global T *P, long p_at, __global const T *G, long g_at, "
    "__global T *S0, "
    "long s0_at,\n"
    "    __global T *S1, long s1_at, __global T *S2, long s2_at, T sign, T decay, T k0, T k1, T k2, T k3, T "
    "k4, T k5, T k6,\n"
    "    T k7, int flag)\n"
    "{\n    const long i = get_global_id(0);\n    if (i >= n)\n        return;\n"
    "    P += p_at; G += g_at; S0 += s0_at; S1 += s1_at; S2 += s2_at;\n"
    "    R p = P[i], g = sign * G[i] + decay * p;\n    %s\n    P[i] = p;\n}\n";

static char *write_step(const void *user, const mt__npu *npu, char *name, size_t room)
{
    const mt__device_step *s = user;
    const char *suffix = mt__cl_suffix((mt_dtype)s->param->dtype);
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return NULL;
    snprintf(name, room, "%s_step_%s", s->source.name, suffix);
    mt__cl_begin(f, npu, (mt_dtype)s->param->dtype);
    fprintf(f, "%s%s", head, s->macros);
    for (int i = 0; mt__formulas[i] != NULL; i++)
        if (npu->properties.lazy_kernels || mt__formulas[i]->text == s->source.text)
            fprintf(f, frame, mt__formulas[i]->name, suffix, mt__formulas[i]->text);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

static uint64_t number_of(const char *text)
{
    uint64_t i = 0;
    while (mt__formulas[i] != NULL && mt__formulas[i]->text != text)
        i++;
    return i;
}

mt_status mt__npu_optimizer_step(const mt__device_step *s)
{
    mt__held h = {.status = MT_OK};
    mt__launch l;
    mt__kernel k;
    mt_dtype dtype = (mt_dtype)s->param->dtype;
    mt_tensor *const written[] = {s->param, s->state[0], s->state[1], s->state[2]};
    const mt_tensor *dense[4] = {NULL};
    if (s->param->numel == 0)
        return MT_OK;
    for (int i = 0; i < 4; i++)
        dense[i] = mt__hold(&h, written[i]);
    const mt_tensor *grad = mt__hold(&h, s->grad);
    if (h.status == MT_OK)
        h.status = mt__launch_begin(&l, s->param->device);
    if (h.status == MT_OK)
        h.status =
            mt__npu_kernel(l.npu, MT__KEY(MT__OPTIM, dtype, number_of(s->source.text)), write_step, s, &k);
    if (h.status == MT_OK) {
        mt__launch_long(&l, s->param->numel);
        mt__launch_long(&l, s->row);
        mt__launch_tensor(&l, dense[0]);
        mt__launch_tensor(&l, grad);
        for (int i = 1; i < 4; i++)
            mt__launch_tensor(&l, dense[i] != NULL ? dense[i] : dense[0]);
        mt__launch_number(&l, dtype, s->sign);
        mt__launch_number(&l, dtype, s->decay);
        for (int i = 0; i < NUMBERS; i++)
            mt__launch_number(&l, dtype, s->k[i]);
        mt__launch_flag(&l, s->flag);
        h.status = mt__launch_flat(&l, &k, s->param->numel);
    }
    for (int i = 0; i < 4 && h.status == MT_OK; i++)
        if (dense[i] != NULL && dense[i] != written[i])
            h.status = mt__npu_assign(written[i], dense[i]);
    return mt__let_go(&h);
}
