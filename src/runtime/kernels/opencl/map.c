/* kernels/opencl/map.c - one elementwise kernel for every expression: operands a, b, c, d of any dtype and strides, numbers
 * k0 ... of the compute dtype.
 *
 * The layout is part of the kernel: an operand that lies like the output is read at i, one of a single element at its
 * place, a number comes by value; when any has other strides, dims are merged as far as they allow and walked.
 */
#define _GNU_SOURCE
#include "runtime/kernels/opencl/npu.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    DENSE,
    SINGLE,
    NUMBER,
    STRIDED
};

typedef struct layout {
    int64_t dims[MT_MAX_RANK], steps[MT__MAP_OPERANDS + 1][MT_MAX_RANK]; /* [0]: the output */
} layout;

typedef struct plan {
    const mt__map *map;
    uint8_t kind[MT__MAP_OPERANDS];
    bool strided, wide; /* wide: 64-bit indices */
    int rank;
    layout where;
} plan;

void mt__map_add(mt__map *m, const mt_value *v, mt_dtype wants)
{
    if (v->kind == MT_TENSOR) {
        mt__map_add_tensor(m, v->as.tensor, wants);
        return;
    }
    m->in[m->count].tensor = NULL;
    m->in[m->count].number = mt__element_of(wants, v);
    m->in[m->count++].wants = wants;
}

/* A tensor without dims may be on the CPU. */
void mt__map_add_tensor(mt__map *m, const mt_tensor *t, mt_dtype wants)
{
    if (MT_DEVICE_TYPE(t->device) == 0) {
        mt_value v;
        double f = 0;
        int64_t i = 0;
        if (mt__is_floating((mt_dtype)t->dtype)) {
            (void)mt_item(t, &f);
            v = mt_value_float(f);
        } else {
            (void)mt_item_int(t, &i);
            v = mt_value_int(i);
        }
        mt__map_add(m, &v, wants);
        return;
    }
    m->in[m->count].tensor = t;
    m->in[m->count++].wants = wants;
}

void mt__map_number(mt__map *m, const mt_value *v)
{
    m->numbers[m->number_count++] = mt__element_of(m->compute, v);
}

/* --------------------------------------------------------------------------------------------------- planning */

static bool lies_like(const mt_tensor *t, const mt_tensor *out)
{
    if (t->rank != out->rank || memcmp(t->dims, out->dims, t->rank * sizeof *t->dims) != 0)
        return false;
    return (t->flags & out->flags & MT__CONTIGUOUS) != 0;
}

/* Dims that lie one within the other for all operands become one; those of size 1 go. */
static void merge(plan *p, const mt_tensor *out)
{
    int count = p->map->count + 1, rank = 0;
    layout w;
    for (int d = 0; d < out->rank; d++) {
        if (out->dims[d] == 1)
            continue;
        bool joins = rank > 0;
        for (int k = 0; k < count && joins; k++)
            joins = w.steps[k][rank - 1] == p->where.steps[k][d] * out->dims[d];
        if (!joins)
            w.dims[rank++] = 1;
        w.dims[rank - 1] *= out->dims[d];
        for (int k = 0; k < count; k++)
            w.steps[k][rank - 1] = p->where.steps[k][d];
    }
    p->rank = rank;
    p->where = w;
}

static void make_plan(plan *p, const mt__map *m)
{
    const mt_tensor *out = m->out;
    p->map = m;
    p->strided = !(out->flags & MT__CONTIGUOUS);
    p->wide = out->numel > INT32_MAX - MT__FLAT;
    p->rank = 0;
    for (int i = 0; i < m->count; i++) {
        const mt_tensor *t = m->in[i].tensor;
        p->kind[i] = t == NULL ? NUMBER : t->numel == 1 ? SINGLE : lies_like(t, out) ? DENSE : STRIDED;
        p->strided |= p->kind[i] == STRIDED;
    }
    if (!p->strided)
        return;
    memset(&p->where, 0, sizeof p->where);
    memcpy(p->where.steps[0], out->strides, sizeof p->where.steps[0]);
    for (int i = 0; i < m->count; i++) {
        if (p->kind[i] == DENSE)
            p->kind[i] = STRIDED;
        if (p->kind[i] == STRIDED)
            mt__broadcast_strides(m->in[i].tensor, out->rank, out->dims, p->where.steps[i + 1]);
    }
    merge(p, out);
}

static mt_dtype dtype_of(const mt__map *m, int i)
{
    return m->in[i].tensor != NULL ? (mt_dtype)m->in[i].tensor->dtype : m->in[i].wants;
}

static uint64_t key_of(const plan *p)
{
    const mt__map *m = p->map;
    uint64_t v = m->id;
    v = v << 3 | m->out->dtype;
    v = v << 3 | m->gives;
    for (int i = 0; i < MT__MAP_OPERANDS; i++)
        v = v << 5 | (i < m->count ? (uint64_t)p->kind[i] << 3 | dtype_of(m, i) : 0);
    v = v << 4 | (uint64_t)(p->strided ? p->rank + 1 : 0);
    return MT__KEY(MT__MAP, m->compute, v << 1 | p->wide);
}

/* ---------------------------------------------------------------------------------------------------- the source */

/* The value `text`, of `from`, as `to`. */
static void put_cast(FILE *f, mt_dtype to, mt_dtype from, const char *text)
{
    if (to == from)
        fprintf(f, "%s", text);
    else if (to == MT_BOOL)
        fprintf(f, "(uchar)((%s) != 0)", text);
    else
        fprintf(f, "(%s)(%s)", mt__cl_type(to), text);
}

static void put_arguments(FILE *f, const plan *p)
{
    const mt__map *m = p->map;
    if (p->strided)
        fprintf(f,
                "typedef struct layout { long dims[8], steps[%d][8]; } layout;\n__kernel void NAME(const "
                "size n, const "
                "layout w",
                MT__MAP_OPERANDS + 1);
    else
        fprintf(f, "__kernel void NAME(const size n");
    fprintf(f, ", __global %s *o, const long o_at", mt__cl_type((mt_dtype)m->out->dtype));
    for (int i = 0; i < m->count; i++) {
        const char *type = mt__cl_type(dtype_of(m, i));
        if (p->kind[i] == NUMBER)
            fprintf(f, ", const %s %c", type, 'a' + i);
        else
            fprintf(f, ", __global const %s *p%c, const long %c_at", type, 'a' + i, 'a' + i);
    }
    for (int i = 0; i < m->number_count; i++)
        fprintf(f, ", const T k%d", i);
    if (strstr(m->expression, "FAULT") != NULL || strstr(m->expression, "DIVISOR") != NULL ||
        strstr(m->expression, "INSIDE") != NULL)
        fprintf(f, ", __global int *fault");
    fprintf(f, ")\n{\n    const size i = get_global_id(0);\n    if (i >= n)\n        return;\n");
}

static void put_walk(FILE *f, const plan *p)
{
    const mt__map *m = p->map;
    fprintf(f, "    size rest = i;\n    long io = o_at");
    for (int i = 0; i < m->count; i++)
        if (p->kind[i] == STRIDED)
            fprintf(f, ", i%c = %c_at", 'a' + i, 'a' + i);
    fprintf(f, ";\n");
    for (int d = p->rank - 1; d >= 0; d--) {
        if (d > 0)
            fprintf(f,
                    "    { const size q = rest / (size)w.dims[%d]; const long r = rest - q * "
                    "(size)w.dims[%d]; rest = q;",
                    d, d);
        else
            fprintf(f, "    { const long r = rest;");
        fprintf(f, " io += r * w.steps[0][%d];", d);
        for (int i = 0; i < m->count; i++)
            if (p->kind[i] == STRIDED)
                fprintf(f, " i%c += r * w.steps[%d][%d];", 'a' + i, i + 1, d);
        fprintf(f, " }\n");
    }
}

static void put_body(FILE *f, const plan *p)
{
    const mt__map *m = p->map;
    for (int i = 0; i < m->count; i++) {
        char from[48];
        int c = 'a' + i;
        if (p->kind[i] == NUMBER)
            continue;
        snprintf(from, sizeof from,
                 p->kind[i] == SINGLE    ? "p%c[%c_at]"
                 : p->kind[i] == STRIDED ? "p%c[i%c]"
                                         : "p%c[%c_at + i]",
                 c, c);
        fprintf(f, "    const %s %c = ", mt__cl_type(m->in[i].wants), c);
        put_cast(f, m->in[i].wants, dtype_of(m, i), from);
        fprintf(f, ";\n");
    }
    fprintf(f, "    const %s y = ", mt__cl_type(m->gives));
    if (m->gives == MT_BOOL)
        fprintf(f, "(%s) != 0", m->expression);
    else
        fprintf(f, "(%s)", m->expression);
    fprintf(f, ";\n    o[%s] = ", p->strided ? "io" : "o_at + i");
    put_cast(f, (mt_dtype)m->out->dtype, m->gives, "y");
    fprintf(f, ";\n}\n");
}

static char *write_map(const void *user, const mt__npu *npu, char *name, size_t room)
{
    const plan *p = user;
    char *body = NULL;
    size_t size;
    FILE *f = open_memstream(&body, &size);
    if (f == NULL)
        return NULL;
    snprintf(name, room, "%s_%s", p->map->name, mt__cl_suffix(p->map->compute));
    fprintf(f, "typedef %s size;\n", p->wide ? "ulong" : "uint");
    put_arguments(f, p);
    if (p->strided)
        put_walk(f, p);
    put_body(f, p);
    char *source = fclose(f) == 0 ? mt__cl_source(npu, name, p->map->compute, "", body) : NULL;
    free(body);
    return source;
}

/* --------------------------------------------------------------------------------------------------- running */

mt_status mt__map_run(const mt__map *m)
{
    plan p;
    mt__launch l;
    mt__kernel k;
    if (m->out->numel == 0)
        return MT_OK;
    mt_status status = mt__launch_begin(&l, m->out->device);
    if (status != MT_OK)
        return status;
    make_plan(&p, m);
    status = mt__npu_kernel(l.npu, key_of(&p), write_map, &p, &k);
    if (status != MT_OK)
        return status;
    if (p.wide)
        mt__launch_long(&l, m->out->numel);
    else
        mt__launch_value(&l, &(uint32_t){(uint32_t)m->out->numel}, 4);
    if (p.strided)
        mt__launch_value(&l, &p.where, sizeof p.where);
    mt__launch_tensor(&l, m->out);
    for (int i = 0; i < m->count; i++) {
        if (p.kind[i] == NUMBER)
            mt__launch_value(&l, &m->in[i].number, (uint32_t)mt_dtype_bytes(m->in[i].wants));
        else
            mt__launch_tensor(&l, m->in[i].tensor);
    }
    for (int i = 0; i < m->number_count; i++)
        mt__launch_value(&l, &m->numbers[i], (uint32_t)mt_dtype_bytes(m->compute));
    if (strstr(m->expression, "FAULT") != NULL || strstr(m->expression, "DIVISOR") != NULL ||
        strstr(m->expression, "INSIDE") != NULL)
        mt__launch_fault(&l);
    return mt__launch_flat(&l, &k, m->out->numel);
}
