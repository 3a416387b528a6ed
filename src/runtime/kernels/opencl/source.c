/* kernels/opencl/source.c - the text of kernels: dtypes, the prelude, then a template or a made body. */
#define _GNU_SOURCE
#include "runtime/kernels/opencl/npu.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const types[] = {"uchar", "int", "long", "float", "double"};
static const char *const unsigned_types[] = {"uchar", "uint", "ulong", "float", "double"};
static const char *const suffixes[] = {"bool", "i32", "i64", "f32", "f64"};

const char *mt__cl_type(mt_dtype dtype)
{
    return types[dtype];
}

const char *mt__cl_suffix(mt_dtype dtype)
{
    return suffixes[dtype];
}

char *mt__cl_source(const mt__npu *npu, const char *name, mt_dtype dtype, const char *defines,
                    const char *body)
{
    char *text = NULL;
    int n =
        asprintf(&text,
                 "#define NAME %s\n#define T %s\n#define UT %s\n#define TRUTH %d\n#define WHOLE %d\n"
                 "#define REAL %d\n#define HAS_F64 %d\n#define HAS_I64_ATOMICS %d\n#define GROUP %d\n%s%s%s",
                 name, types[dtype], unsigned_types[dtype], dtype == MT_BOOL,
                 dtype == MT_INT32 || dtype == MT_INT64, dtype >= MT_FLOAT32, npu->properties.has_float64,
                 npu->properties.has_int64_atomics, MT__GROUP, mt__cl_prelude, defines, body);
    return n < 0 ? NULL : text;
}

static char *write_template(const void *user, const mt__npu *npu, char *name, size_t room)
{
    const mt__template *t = user;
    snprintf(name, room, "%s_%s", t->name, suffixes[t->dtype]);
    return mt__cl_source(npu, name, t->dtype, t->defines, t->body);
}

mt_status mt__npu_template(mt__npu *npu, uint64_t key, const mt__template *t, mt__kernel *out)
{
    return mt__npu_kernel(npu, key, write_template, t, out);
}

mt__element mt__element_of(mt_dtype dtype, const mt_value *v)
{
    mt__element e = {.i64 = 0};
    bool real = v->kind == MT_FLOAT;
    switch (dtype) {
    case MT_BOOL:
        e.b = real ? v->as.f != 0 : v->as.i != 0;
        break;
    case MT_INT32:
        e.i32 = real ? (int32_t)v->as.f : (int32_t)v->as.i;
        break;
    case MT_INT64:
        e.i64 = real ? (int64_t)v->as.f : v->as.i;
        break;
    case MT_FLOAT32:
        e.f32 = real ? (float)v->as.f : (float)v->as.i;
        break;
    default:
        e.f64 = real ? v->as.f : (double)v->as.i;
    }
    return e;
}

const mt_tensor *mt__hold(mt__held *h, const mt_tensor *t)
{
    if (t == NULL || h->status != MT_OK)
        return NULL;
    h->status = mt__contiguous(t, &h->items[h->count]);
    return h->status == MT_OK ? h->items[h->count++] : NULL;
}

const mt_tensor *mt__hold_as(mt__held *h, const mt_tensor *t, mt_dtype dtype)
{
    if (t == NULL || h->status != MT_OK || t->dtype == dtype)
        return mt__hold(h, t);
    mt_value args[] = {mt_value_tensor(t), mt_value_int(dtype)};
    h->status = mt__run_quietly(MT_OP__to_copy, args, 2, &h->items[h->count]);
    return h->status == MT_OK ? h->items[h->count++] : NULL;
}

mt_status mt__let_go(mt__held *h)
{
    for (int i = 0; i < h->count; i++)
        mt_release(h->items[i]);
    return h->status;
}
