/* kernels/opencl/map.c - one elementwise kernel for every expression: operands a, b, c, d of any dtype and
 * strides, numbers k0 ... of the compute dtype.
 *
 * The layout is part of the kernel. Dense: every tensor has the output's layout and is read at i. Strided:
 * dims are merged as far as all tensors allow, and iterated. Numbers are passed by value. An operand whose
 * dtype differs from the expression's is first cast by a separate kernel, which all expressions share, unless
 * it is large: then the cast is part of the kernel.
 */
#define _GNU_SOURCE
#include "runtime/kernels/opencl/npu.h"
#include "runtime/narrow.h"
#include <stdlib.h>

#define FUSED_LEAST 65536 /* elements from which a cast in the kernel is worth an extra kernel */
#define OUTERMOST 7       /* index of its steps */

typedef struct layout {                              /* as in put_layout() */
    int64_t inner;                                   /* dims except the outermost; innermost first */
    int64_t dims[8], steps[MT__MAP_OPERANDS + 1][8]; /* [0]: the output */
} layout;

/* Selects a kernel. */
typedef struct plan {
    uint32_t id;
    mt_dtype compute, out;
    mt_dtype from[MT__MAP_OPERANDS], wants[MT__MAP_OPERANDS];
    int count, number_count;
    uint8_t numbers;    /* bits of the operands that are numbers */
    bool strided, wide; /* wide: 64-bit indices */
} plan;

/* For each expression: the first one of its name, whose kernels it uses; and whether an
 * element may be invalid. */
static uint16_t first_of[MT__EXPRESSIONS];
static bool may_fault[MT__EXPRESSIONS][3];

static unsigned kind_of(mt_dtype dtype)
{
    return mt__is_floating(dtype) ? 0 : dtype == MT_BOOL ? 2 : 1;
}

static const char *text_of(uint32_t id, mt_dtype compute)
{
    const mt__expression *e = &mt__expressions[id];
    const char *const texts[] = {e->real, e->whole, e->truth};
    return texts[kind_of(compute)];
}

void mt__map_prepare(void)
{
    static const mt_dtype one_of[] = {MT_FLOAT32, MT_INT64, MT_BOOL};
    for (uint32_t i = 0; i < MT__EXPRESSIONS; i++) {
        uint16_t first = 0;
        if (mt__expressions[i].name == NULL)
            continue;
        while (mt__expressions[first].name == NULL ||
               strcmp(mt__expressions[first].name, mt__expressions[i].name) != 0)
            first++;
        first_of[i] = first;
        for (int k = 0; k < 3; k++) {
            const char *text = text_of(i, one_of[k]);
            may_fault[i][k] =
                text != NULL && (strstr(text, "FAULT") != NULL || strstr(text, "DIVISOR") != NULL);
        }
    }
}

static mt_dtype gives(uint32_t id, mt_dtype compute)
{
    return mt__expressions[id].gives_truth ? MT_BOOL : compute;
}

/* -------------------------------------------------------------------------------------------------- operands */

void mt__map_add(mt__map *m, const mt_value *v, mt_dtype wants)
{
    if (v->kind == MT_TENSOR) {
        mt__map_add_tensor(m, v->as.tensor, wants);
        return;
    }
    m->in[m->count].tensor = NULL;
    m->in[m->count].number = mt__scalar_of(wants, v);
    m->in[m->count++].wants = wants;
}

/* A 0-dim tensor may be on the CPU. */
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
    m->numbers[m->number_count++] = mt__scalar_of(m->compute, v);
}

/* --------------------------------------------------------------------------------------------------- planning */

static bool lies_like(const mt_tensor *t, const mt_tensor *out)
{
    if (!(t->flags & out->flags & MT__CONTIGUOUS))
        return false;
    if (t->numel == 1 && out->numel == 1)
        return true;
    return t->rank == out->rank && memcmp(t->dims, out->dims, t->rank * sizeof *t->dims) == 0;
}

/* Merges dims that are contiguous in all tensors; drops those of size 1. */
static void lay_out(layout *w, const mt__map *m)
{
    const mt_tensor *out = m->out;
    int64_t strides[MT__MAP_OPERANDS + 1][MT_MAX_RANK] = {{0}}, dims[MT_MAX_RANK];
    int at[MT_MAX_RANK], rank = 0;
    memcpy(strides[0], out->strides, sizeof strides[0]);
    for (int i = 0; i < m->count; i++)
        if (m->in[i].tensor != NULL)
            mt__broadcast_strides(m->in[i].tensor, out->rank, out->dims, strides[i + 1]);
    for (int d = 0; d < out->rank; d++) {
        if (out->dims[d] == 1)
            continue;
        bool joins = rank > 0;
        for (int k = 0; k <= m->count && joins; k++)
            joins = strides[k][at[rank - 1]] == strides[k][d] * out->dims[d];
        if (!joins)
            dims[rank++] = 1;
        dims[rank - 1] *= out->dims[d];
        at[rank - 1] = d;
    }
    memset(w, 0, sizeof *w);
    w->inner = rank > 0 ? rank - 1 : 0;
    for (int r = 0; r < rank; r++) {
        int slot = r == 0 ? OUTERMOST : rank - 1 - r;
        w->dims[slot] = dims[r];
        for (int k = 0; k <= m->count; k++)
            w->steps[k][slot] = strides[k][at[r]];
    }
}

static void make_plan(plan *p, const mt__map *m)
{
    *p = (plan){.id = first_of[m->id],
                .compute = m->compute,
                .out = (mt_dtype)m->out->dtype,
                .count = m->count,
                .number_count = m->number_count,
                .strided = !(m->out->flags & MT__CONTIGUOUS),
                .wide = m->out->numel > INT32_MAX - MT__FLAT};
    for (int i = 0; i < m->count; i++) {
        const mt_tensor *t = m->in[i].tensor;
        p->wants[i] = m->in[i].wants;
        p->from[i] = t != NULL ? (mt_dtype)t->dtype : m->in[i].wants;
        p->numbers |= (uint8_t)((t == NULL) << i);
        p->strided |= t != NULL && !lies_like(t, m->out);
    }
}

static uint64_t key_of(const plan *p)
{
    uint64_t v = (uint64_t)p->id << 4 | p->out;
    for (int i = 0; i < MT__MAP_OPERANDS; i++)
        v = v << 4 | (i < p->count ? p->from[i] : 0);
    v = v << MT__MAP_OPERANDS | p->numbers;
    return MT__KEY(MT__MAP, p->compute, v << 2 | (uint64_t)p->strided << 1 | p->wide);
}

static bool has_casts(const plan *p)
{
    bool casts = p->out != gives(p->id, p->compute);
    for (int i = 0; i < p->count; i++)
        casts |= p->from[i] != p->wants[i];
    return casts && p->id != MT__COPY;
}

/* The usual combinations of number operands: for two operands one or the other; for more, those that ops use
 * (where(x, 1, 0), masked_fill, losses without weights). */
static bool is_usual(uint32_t id, int count, uint8_t numbers)
{
    static const uint16_t usual[] = {0, 1u << 0, 1u << 0 | 1u << 1 | 1u << 2,
                                     1u << 0 | 1u << 2 | 1u << 4 | 1u << 6, 1u << 0 | 1u << 4 | 1u << 12};
    return (usual[count] >> numbers & 1) != 0 || id == MT__COPY;
}

static bool has_narrow(const plan *p)
{
    bool narrow = mt__is_narrow(p->out);
    for (int i = 0; i < p->count; i++)
        narrow |= mt__is_narrow(p->from[i]);
    return narrow;
}

/* Does put_program() include it? */
static bool in_program(const plan *p)
{
    return !p->wide && !has_casts(p) && !has_narrow(p) && is_usual(p->id, p->count, p->numbers);
}

/* ---------------------------------------------------------------------------------------------------- the source */

/* add_f32, add_f32_strided; with numbers, a letter for each operand: add_f32_tn */
static void name_of(const plan *p, char *name, size_t room)
{
    char kinds[MT__MAP_OPERANDS + 2] = "_";
    for (int i = 0; i < p->count; i++)
        kinds[i + 1] = p->numbers >> i & 1 ? 'n' : 't';
    kinds[p->count + 1] = 0;
    bool cast = p->id == MT__COPY && p->from[0] != p->out;
    snprintf(name, room, "%s_%s%s%s%s%s", cast ? "cast" : mt__expressions[p->id].name,
             mt__cl_suffix(p->id == MT__COPY ? p->out : p->compute), cast ? "_from_" : "",
             cast ? mt__cl_suffix(p->from[0]) : "", p->strided ? "_strided" : "",
             p->numbers != 0 ? kinds : "");
}

/* The value `text`, of `from`, as `to`. */
static void put_cast(FILE *f, mt_dtype to, mt_dtype from, const char *text)
{
    static const char *const reads[MT_DTYPES] = {
        [MT_FLOAT16] = "float_of_f16", [MT_BFLOAT16] = "float_of_bf16"};
    static const char *const writes[MT_DTYPES] = {[MT_UINT8] = "(uchar)(int)",
                                                  [MT_INT8] = "(char)(int)",
                                                  [MT_INT16] = "(short)(int)",
                                                  [MT_FLOAT16] = "f16_of_float((float)",
                                                  [MT_BFLOAT16] = "bf16_of_float((float)"};
    const char *read = reads[from] != NULL ? reads[from] : "";
    if (to == from)
        fprintf(f, "%s", text);
    else if (to == MT_BOOL)
        fprintf(f, "(uchar)(%s(%s) != 0)", read, text);
    else if (writes[to] != NULL)
        fprintf(f, "%s(%s(%s))%s", writes[to], read, text, mt_dtype_is_real(to) ? ")" : "");
    else
        fprintf(f, "(%s)%s(%s)", mt__cl_type(to), read, text);
}

static void put_arguments(FILE *f, const plan *p)
{
    char name[96];
    const char *size = p->wide ? "ulong" : "uint";
    name_of(p, name, sizeof name);
    fprintf(f, "__kernel void %s(const %s n%s, __global %s *o, const long o_at", name, size,
            p->strided ? ", const layout w" : "", mt__cl_type(p->out));
    for (int i = 0; i < p->count; i++) {
        const char *type = mt__cl_type(p->from[i]);
        if (p->numbers >> i & 1)
            fprintf(f, ", const %s %c", type, 'a' + i);
        else
            fprintf(f, ", __global const %s *p%c, const long %c_at", type, 'a' + i, 'a' + i);
    }
    for (int i = 0; i < p->number_count; i++)
        fprintf(f, ", const T k%d", i);
    if (may_fault[p->id][kind_of(p->compute)])
        fprintf(f, ", __global int *fault");
    fprintf(f, ")\n{\n    const %s i = get_global_id(0);\n    if (i >= n)\n        return;\n", size);
}

static void put_steps(FILE *f, const plan *p, const char *by, const char *slot)
{
    fprintf(f, "io += %s * w.steps[0][%s];", by, slot);
    for (int i = 0; i < p->count; i++)
        if (!(p->numbers >> i & 1))
            fprintf(f, " i%c += %s * w.steps[%d][%s];", 'a' + i, by, i + 1, slot);
    fprintf(f, "\n");
}

static void put_dim(FILE *f, const plan *p, const char *slot)
{
    const char *size = p->wide ? "ulong" : "uint";
    fprintf(
        f, "        const %s q = rest / (%s)w.dims[%s];\n        const long r = rest - q * (%s)w.dims[%s];\n",
        size, size, slot, size, slot);
    fprintf(f, "        rest = q;\n        ");
    put_steps(f, p, "r", slot);
}

/* Two dims are the most common case, and three times as fast without the loop. On a GPU the loop must be
 * unrolled, since arguments cannot be indexed like an array. */
static void put_walk(FILE *f, const plan *p, bool unroll)
{
    fprintf(f, "    %s rest = i;\n    long io = o_at", p->wide ? "ulong" : "uint");
    for (int i = 0; i < p->count; i++)
        if (!(p->numbers >> i & 1))
            fprintf(f, ", i%c = %c_at", 'a' + i, 'a' + i);
    fprintf(f, ";\n    if (w.inner == 1) {\n");
    put_dim(f, p, "0");
    fprintf(
        f,
        "    } else {\n%s    for (int d = 0; d < %d; d++) {\n        if (d == w.inner)\n            break;\n",
        unroll ? "#pragma unroll\n" : "", OUTERMOST);
    put_dim(f, p, "d");
    fprintf(f, "    }\n    }\n    const long last = rest;\n    ");
    put_steps(f, p, "last", "7");
}

static void put_body(FILE *f, const plan *p)
{
    mt_dtype result = gives(p->id, p->compute);
    for (int i = 0; i < p->count; i++) {
        char from[48];
        int c = 'a' + i;
        if (p->numbers >> i & 1)
            continue;
        snprintf(from, sizeof from, p->strided ? "p%c[i%c]" : "p%c[%c_at + i]", c, c);
        fprintf(f, "    const %s %c = ", mt__cl_type(p->wants[i]), c);
        put_cast(f, p->wants[i], p->from[i], from);
        fprintf(f, ";\n");
    }
    fprintf(f, "    const %s y = (%s)%s;\n    o[%s] = ", mt__cl_type(result), text_of(p->id, p->compute),
            result == MT_BOOL ? " != 0" : "", p->strided ? "io" : "o_at + i");
    put_cast(f, p->out, result, "y");
    fprintf(f, ";\n}\n");
}

static void put_kernel(FILE *f, const plan *p, bool unroll)
{
    put_arguments(f, p);
    if (p->strided)
        put_walk(f, p, unroll);
    put_body(f, p);
}

/* The kernels of one expression, dense and strided. */
static void put_all(FILE *f, plan *p)
{
    for (unsigned numbers = 0; numbers < 1u << p->count; numbers++)
        for (int form = 0; form < 2 && is_usual(p->id, p->count, (uint8_t)numbers); form++) {
            p->numbers = (uint8_t)numbers;
            p->strided = form == 1;
            put_kernel(f, p, false);
        }
}

static void put_program(FILE *f, mt_dtype compute, bool doubles)
{
    for (uint32_t id = 0; id < MT__EXPRESSIONS; id++) {
        const mt__expression *e = &mt__expressions[id];
        if (e->name == NULL || first_of[id] != id || text_of(id, compute) == NULL)
            continue;
        plan p = {.id = id, .compute = compute, .out = gives(id, compute)};
        p.number_count = (int)strlen(e->numbers);
        for (const char *o = e->operands; *o != 0; o++) {
            bool truth = *o == '?';
            o += truth;
            p.from[p.count] = p.wants[p.count] = truth ? MT_BOOL : compute;
            p.count++;
        }
        put_all(f, &p);
        for (unsigned from = 0; id == MT__COPY && from <= (doubles ? MT_FLOAT64 : MT_FLOAT32); from++) {
            p.from[0] = (mt_dtype)from;
            p.numbers = 0;
            for (int form = 0; form < 2 && from != compute; form++) {
                p.strided = form == 1;
                put_kernel(f, &p, false);
            }
        }
    }
}

static char *write_map(const void *user, const mt__npu *npu, char *name, size_t room)
{
    const plan *p = user;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return NULL;
    name_of(p, name, room);
    mt__cl_begin(f, npu, p->compute);
    fprintf(f, "typedef struct layout { long inner, dims[8], steps[%d][8]; } layout;\n",
            MT__MAP_OPERANDS + 1);
    if (npu->properties.lazy_kernels && in_program(p))
        put_program(f, p->compute, npu->properties.has_float64);
    else
        put_kernel(f, p, !npu->properties.is_cpu);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* --------------------------------------------------------------------------------------------------- running */

static mt_status launch(const mt__map *m, const plan *p)
{
    mt__launch l;
    mt__kernel k;
    layout where;
    mt_status status = mt__launch_begin(&l, m->out->device);
    if (status == MT_OK)
        status = mt__npu_kernel(l.npu, key_of(p), write_map, p, &k);
    if (status != MT_OK)
        return status;
    if (p->wide)
        mt__launch_long(&l, m->out->numel);
    else
        mt__launch_value(&l, &(uint32_t){(uint32_t)m->out->numel}, 4);
    if (p->strided) {
        lay_out(&where, m);
        mt__launch_value(&l, &where, sizeof where);
    }
    mt__launch_tensor(&l, m->out);
    for (int i = 0; i < m->count; i++) {
        if (m->in[i].tensor == NULL)
            mt__launch_value(&l, &m->in[i].number, (uint32_t)mt_dtype_bytes(m->in[i].wants));
        else
            mt__launch_tensor(&l, m->in[i].tensor);
    }
    for (int i = 0; i < m->number_count; i++)
        mt__launch_value(&l, &m->numbers[i], (uint32_t)mt_dtype_bytes(m->compute));
    if (may_fault[p->id][kind_of(p->compute)])
        mt__launch_fault(&l);
    return mt__launch_flat(&l, &k, m->out->numel);
}

/* With separate casts: operands before, the result after. */
static mt_status run_apart(const mt__map *m)
{
    mt__map same = *m;
    mt_dtype result = gives(m->id, m->compute);
    mt_tensor *made[MT__MAP_OPERANDS + 1] = {NULL};
    mt_status status = MT_OK;
    for (int i = 0; i < m->count && status == MT_OK; i++) {
        const mt_tensor *t = m->in[i].tensor;
        if (t == NULL || t->dtype == m->in[i].wants)
            continue;
        status = mt__empty(m->in[i].wants, t->device, t->rank, t->dims, &made[i]);
        if (status == MT_OK)
            status = mt__npu_assign(made[i], t);
        same.in[i].tensor = made[i];
    }
    if (status == MT_OK && m->out->dtype != result) {
        status = mt__empty(result, m->out->device, m->out->rank, m->out->dims, &made[MT__MAP_OPERANDS]);
        same.out = made[MT__MAP_OPERANDS];
    }
    if (status == MT_OK)
        status = mt__map_run(&same);
    if (status == MT_OK && same.out != m->out)
        status = mt__npu_assign(m->out, same.out);
    for (unsigned i = 0; i < MT__COUNT_OF(made); i++)
        mt_release(made[i]);
    return status;
}

mt_status mt__map_run(const mt__map *m)
{
    plan p;
    if (m->out->numel == 0)
        return MT_OK;
    make_plan(&p, m);
    if (has_casts(&p) && m->out->numel < FUSED_LEAST)
        return run_apart(m);
    return launch(m, &p);
}
