/* kernels/opencl/source.c - the source of programs: dtypes, the prelude, then instances of a template. An
 * instance is the template with its variant's defines, which are undefined afterwards.
 */
#define _GNU_SOURCE
#include "runtime/kernels/opencl/npu.h"
#include <stdlib.h>

static const struct {
    const char *name, *type, *without_sign, *lowest, *highest;
} dtypes[MT_DTYPES] = {
    [MT_BOOL] = {"bool", "uchar", "uchar", "0", "1"},
    [MT_INT32] = {"i32", "int", "uint", "INT_MIN", "INT_MAX"},
    [MT_INT64] = {"i64", "long", "ulong", "LONG_MIN", "LONG_MAX"},
    [MT_FLOAT32] = {"f32", "float", "float", "-INFINITY", "INFINITY"},
    [MT_FLOAT64] = {"f64", "double", "double", "-INFINITY", "INFINITY"},
    /* in memory only; the halves as their bits */
    [MT_UINT8] = {"u8", "uchar", "uchar", NULL, NULL},
    [MT_INT8] = {"i8", "char", "uchar", NULL, NULL},
    [MT_INT16] = {"i16", "short", "ushort", NULL, NULL},
    [MT_FLOAT16] = {"f16", "ushort", "ushort", NULL, NULL},
    [MT_BFLOAT16] = {"bf16", "ushort", "ushort", NULL, NULL},
};

const char *mt__cl_type(mt_dtype dtype)
{
    return dtypes[dtype].type;
}

const char *mt__cl_suffix(mt_dtype dtype)
{
    return dtypes[dtype].name;
}

void mt__cl_begin(FILE *f, const mt__npu *npu, mt_dtype dtype)
{
    mt_dtype_kind kind = mt_dtype_kind_of(dtype);
    fprintf(f, "#define T %s\n#define UT %s\n#define LOWEST %s\n#define HIGHEST %s\n", dtypes[dtype].type,
            dtypes[dtype].without_sign, dtypes[dtype].lowest, dtypes[dtype].highest);
    fprintf(f, "#define TRUTH %d\n#define WHOLE %d\n#define REAL %d\n#define BYTES %d\n",
            kind == MT_KIND_TRUTH, kind == MT_KIND_WHOLE, kind == MT_KIND_REAL, (int)mt_dtype_bytes(dtype));
    fprintf(f, "#define HAS_F64 %d\n#define HAS_I64_ATOMICS %d\n#define GROUP %d\n#define FLAT %d\n%s",
            npu->properties.has_float64, npu->properties.has_int64_atomics, MT__GROUP, MT__FLAT,
            mt__cl_prelude);
}

/* "KEY value;KEY(x) value": writes a #define for each, or with `end` an #undef. */
static void put_defines(FILE *f, const char *list, bool end)
{
    while (*list != 0) {
        int whole = (int)strcspn(list, ";"), key = (int)strcspn(list, " (;");
        if (end)
            fprintf(f, "#undef %.*s\n", key, list);
        else
            fprintf(f, "#define %.*s\n", whole, list);
        list += whole;
        list += *list == ';';
    }
}

static void put_instance(FILE *f, const mt__family *family, const mt__variant *v, mt_dtype dtype)
{
    fprintf(f, "#define NAME %s_%s\n", v->name, dtypes[dtype].name);
    put_defines(f, v->defines, false);
    fprintf(f, "%s\n#undef NAME\n", family->body);
    put_defines(f, v->defines, true);
}

typedef struct instance {
    const mt__family *family;
    unsigned variant;
    mt_dtype dtype;
} instance;

static char *write_template(const void *user, const mt__npu *npu, char *name, size_t room)
{
    const instance *i = user;
    const mt__family *family = i->family;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        return NULL;
    snprintf(name, room, "%s_%s", family->variants[i->variant].name, dtypes[i->dtype].name);
    mt__cl_begin(f, npu, i->dtype);
    for (unsigned v = 0; v < family->count; v++)
        if (v == i->variant || (npu->properties.lazy_kernels && family->variants[v].of >> i->dtype & 1u))
            put_instance(f, family, &family->variants[v], i->dtype);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

mt_status mt__npu_template(mt__npu *npu, const mt__family *family, unsigned variant, mt_dtype dtype,
                           mt__kernel *out)
{
    const instance i = {family, variant, dtype};
    return mt__npu_kernel(npu, MT__KEY(family->id, dtype, variant), write_template, &i, out);
}

mt_status mt__launch_variant(mt__launch *l, mt__kernel *k, const mt__family *family, unsigned variant,
                             const mt_tensor *t)
{
    mt_status status = mt__launch_begin(l, t->device);
    return status == MT_OK ? mt__npu_template(l->npu, family, variant, (mt_dtype)t->dtype, k) : status;
}
