#include "present/execution_values.h"
#include <stdio.h>
#include "base/error.h"
#include "base/json_check.h"
#include "base/os.h"

enum { /* of `sound` */
    DIMS = 1,
    STRIDES = 2,
    TYPES = 4,
    CONCRETE = 8
};

typedef struct slice {
    const char *at;
    size_t length;
} slice;

typedef struct argument {
    slice dims, strides;  /* JSON; empty: none */
    slice type, concrete; /* the part between the quotes */
} argument;

typedef enum argument_kind {
    A_NONE,
    A_TENSOR,
    A_TENSORS,
    A_SCALAR,
    A_SCALARS,
    A_TEXT
} argument_kind;

/* -------------------------------------------------------------------------------------------- looking */

/* Only lists and integers. */
static bool only_numbers(mtp_text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.bytes[i] == 0 || strchr("[]-0123456789, ", text.bytes[i]) == NULL)
            return false;
    return true;
}

static bool is_list(const mtp_trace *t, uint32_t id, bool of_numbers)
{
    size_t wrong;
    mtp_text text = mtp__trace_get_text(t, id);
    return text.length >= 2 && text.bytes[0] == '[' && mtp__json_check(text.bytes, text.length, &wrong) &&
           (!of_numbers || only_numbers(text));
}

mtp_status mtp__execution_values_init(mtp__execution_values *v, const mtp_trace *t, uint64_t first_tensor)
{
    *v = (mtp__execution_values){t, mtp__calloc((size_t)t->shape_count + 1, 1), first_tensor, "cpu"};
    if (v->sound == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u shapes", t->shape_count);
    for (uint32_t i = 1; i < t->shape_count; i++) {
        const mtp__shape *s = &t->shapes[i];
        v->sound[i] =
            (uint8_t)((is_list(t, s->dims, true) ? DIMS : 0) | (is_list(t, s->strides, true) ? STRIDES : 0) |
                      (is_list(t, s->types, false) ? TYPES : 0) |
                      (is_list(t, s->concrete, false) ? CONCRETE : 0));
    }
    for (uint32_t k = 0; k < t->track_count; k++)
        if (t->tracks[k].on_device && t->tracks[k].count > 0)
            v->no_device = ""; /* it may have been on any device */
    if (t->without_times)
        v->no_device = ""; /* recorded in the file, but not one that we know */
    return MTP_OK;
}

void mtp__execution_values_fini(mtp__execution_values *v)
{
    mtp__free(v->sound);
    v->sound = NULL;
}

/* -------------------------------------------------------------------------------------------- splitting */

/* The next item of a list, inside its brackets; the text is already validated. */
static bool next_item(slice *rest, slice *item)
{
    const char *p = rest->at, *end = rest->at + rest->length;
    while (p < end && (*p == ' ' || *p == ',' || *p == '\t' || *p == '\r' || *p == '\n'))
        p++;
    const char *from = p;
    int depth = 0;
    for (bool quoted = false; p < end && (quoted || depth > 0 || *p != ','); p++) {
        if (quoted && *p == '\\' && p + 1 < end)
            p++;
        else if (*p == '"')
            quoted = !quoted;
        else if (!quoted && (*p == '[' || *p == '{'))
            depth++;
        else if (!quoted && (*p == ']' || *p == '}'))
            depth--;
    }
    *item = (slice){from, (size_t)(p - from)};
    while (item->length > 0 && strchr(" \t\r\n", item->at[item->length - 1]) != NULL)
        item->length--;
    *rest = (slice){p, (size_t)(end - p)};
    return item->length > 0;
}

static slice inside(slice s, char open, char close) /* empty if not enclosed that way */
{
    return s.length >= 2 && s.at[0] == open && s.at[s.length - 1] == close ? (slice){s.at + 1, s.length - 2}
                                                                           : (slice){"", 0};
}

static bool is(slice s, const char *text)
{
    return s.length == strlen(text) && memcmp(s.at, text, s.length) == 0;
}

typedef struct arguments {
    slice dims, strides, types, concrete;
} arguments;

static slice list_of(const mtp__execution_values *v, uint32_t shape, uint32_t id, unsigned bit)
{
    mtp_text text = mtp__trace_get_text(v->t, id);
    while (text.length > 0 && strchr(" \t\r\n", text.bytes[text.length - 1]) != NULL)
        text.length--;
    return (v->sound[shape] & bit) != 0 ? inside((slice){text.bytes, text.length}, '[', ']') : (slice){"", 0};
}

static arguments arguments_of(const mtp__execution_values *v, uint32_t shape)
{
    const mtp__shape *s = &v->t->shapes[shape];
    return (arguments){list_of(v, shape, s->dims, DIMS), list_of(v, shape, s->strides, STRIDES),
                       list_of(v, shape, s->types, TYPES), list_of(v, shape, s->concrete, CONCRETE)};
}

static bool next_argument(arguments *rest, argument *out)
{
    slice type, concrete;
    bool any = next_item(&rest->dims, &out->dims);
    any |= next_item(&rest->strides, &out->strides);
    any |= next_item(&rest->types, &type);
    any |= next_item(&rest->concrete, &concrete);
    out->type = inside(type, '"', '"');
    out->concrete = inside(concrete, '"', '"');
    return any;
}

static argument_kind kind_of(const argument *a)
{
    if (is(a->type, "TensorList"))
        return A_TENSORS;
    if (is(a->type, "Scalar"))
        return a->concrete.length > 0 ? A_SCALAR : A_NONE;
    if (is(a->type, "ScalarList"))
        return A_SCALARS;
    if (a->type.length > 0)
        return A_TENSOR;
    if (a->concrete.length > 0)
        return A_TEXT;
    return a->dims.length > 2 ? A_TENSOR : A_NONE;
}

/* ---------------------------------------------------------------------------------------------- scalars */

typedef enum scalar_kind {
    S_TEXT,
    S_BOOL,
    S_INT,
    S_DOUBLE,
    S_DOUBLE_DOT, /* "1.": Python's, not JSON's */
    S_DOUBLE_TEXT /* inf and nan, which JSON lacks */
} scalar_kind;

static scalar_kind scalar_of(slice s)
{
    size_t wrong, digits = s.length > 0 && s.at[0] == '-' ? 1 : 0;
    if (is(s, "True") || is(s, "False"))
        return S_BOOL;
    if (is(s, "inf") || is(s, "-inf") || is(s, "nan"))
        return S_DOUBLE_TEXT;
    if (s.length == digits || s.at[digits] < '0' || s.at[digits] > '9')
        return S_TEXT;
    if (s.at[s.length - 1] == '.')
        return mtp__json_check(s.at, s.length - 1, &wrong) ? S_DOUBLE_DOT : S_TEXT;
    if (!mtp__json_check(s.at, s.length, &wrong))
        return S_TEXT;
    while (digits < s.length && s.at[digits] >= '0' && s.at[digits] <= '9')
        digits++;
    return digits == s.length ? S_INT : S_DOUBLE;
}

static void put_scalar(mtp__out *o, slice s)
{
    scalar_kind kind = scalar_of(s);
    bool quoted = kind == S_TEXT || kind == S_DOUBLE_TEXT;
    if (kind == S_BOOL) {
        mtp__out_text(o, s.at[0] == 'T' ? "true" : "false");
        return;
    }
    if (quoted)
        MTP__OUT(o, "\"");
    mtp__out_bytes(o, s.at, s.length); /* validated: what was in quotes may be quoted again */
    if (quoted)
        MTP__OUT(o, "\"");
    if (kind == S_DOUBLE_DOT)
        MTP__OUT(o, "0");
}

static const char *scalar_type(slice s)
{
    static const char *const types[] = {
        [S_TEXT] = "String",   [S_BOOL] = "Bool",         [S_INT] = "Int",
        [S_DOUBLE] = "Double", [S_DOUBLE_DOT] = "Double", [S_DOUBLE_TEXT] = "Double"};
    return types[scalar_of(s)];
}

/* ---------------------------------------------------------------------------------------------- tensors */

static uint64_t elements(slice dims)
{
    slice rest = inside(dims, '[', ']'), item;
    uint64_t count = 1;
    while (next_item(&rest, &item)) {
        uint64_t n = 0;
        for (size_t i = 0; i < item.length && item.at[i] >= '0' && item.at[i] <= '9'; i++)
            n = n * 10 + (uint64_t)(item.at[i] - '0');
        count *= n; /* negative: 0 */
    }
    return count;
}

static uint64_t bytes_of(slice type)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } dtypes[] = {
#define X(sym, value, text, bytes) {text, bytes},
        MTP_DTYPE_LIST(X)
#undef X
    };
    for (size_t i = 1; i < sizeof dtypes / sizeof *dtypes; i++)
        if (is(type, dtypes[i].text))
            return dtypes[i].bytes;
    return 0;
}

/* [tensor, storage, offset, elements, bytes of one, device] */
static void put_tensor(mtp__execution_values *v, mtp__out *o, slice dims, slice type, const mtp__detail *d)
{
    char device[24];
    const char *name = v->no_device;
    if (d->device != 0xffff && MTP_DEVICE_TYPE(d->device) == 0) {
        name = "cpu";
    } else if (d->device != 0xffff) {
        snprintf(device, sizeof device, "npu:%u", (unsigned)MTP_DEVICE_INDEX(d->device));
        name = device;
    }
    MTP__OUT(o, "[");
    mtp__out_u64(o, v->next_tensor++);
    MTP__OUT(o, ",");
    mtp__out_u64(o, v->next_tensor++);
    MTP__OUT(o, ",0,");
    mtp__out_u64(o, elements(dims));
    MTP__OUT(o, ",");
    mtp__out_u64(o, bytes_of(type));
    MTP__OUT(o, ",\"");
    mtp__out_text(o, name);
    MTP__OUT(o, "\"]");
}

static void put_type(mtp__out *o, slice type)
{
    MTP__OUT(o, "Tensor(");
    mtp__out_bytes(o, type.at, type.length);
    MTP__OUT(o, ")");
}

/* ---------------------------------------------------------------------------------------------- passes */

typedef void put_one(mtp__execution_values *v, mtp__out *o, const argument *a, const mtp__detail *d);

static void put_value(mtp__execution_values *v, mtp__out *o, const argument *a, const mtp__detail *d)
{
    argument_kind kind = kind_of(a);
    slice rest = inside(kind == A_TENSORS ? a->dims : a->concrete, '[', ']'), item, none = {"", 0};
    bool more = false;
    switch (kind) {
    case A_TENSOR:
        put_tensor(v, o, a->dims, a->type, d);
        return;
    case A_SCALAR:
        put_scalar(o, a->concrete);
        return;
    case A_TEXT:
        MTP__OUT(o, "\"");
        mtp__out_bytes(o, a->concrete.at, a->concrete.length);
        MTP__OUT(o, "\"");
        return;
    case A_TENSORS:
    case A_SCALARS:
        MTP__OUT(o, "[");
        for (; next_item(&rest, &item); more = true) {
            if (more)
                MTP__OUT(o, ",");
            if (kind == A_TENSORS)
                put_tensor(v, o, item, none, d); /* a list's element types are unknown */
            else
                put_scalar(o, item);
        }
        MTP__OUT(o, "]");
        return;
    default:
        MTP__OUT(o, "\"<None>\"");
    }
}

static void put_argument_type(mtp__execution_values *v, mtp__out *o, const argument *a, const mtp__detail *d)
{
    (void)v, (void)d;
    argument_kind kind = kind_of(a);
    slice rest = inside(kind == A_TENSORS ? a->dims : a->concrete, '[', ']'), item, none = {"", 0};
    bool more = false;
    MTP__OUT(o, "\"");
    switch (kind) {
    case A_TENSOR:
        put_type(o, a->type);
        break;
    case A_SCALAR:
        mtp__out_text(o, scalar_type(a->concrete));
        break;
    case A_TEXT:
        MTP__OUT(o, "String");
        break;
    case A_TENSORS:
    case A_SCALARS:
        MTP__OUT(o, "GenericList[");
        for (; next_item(&rest, &item); more = true) {
            if (more)
                MTP__OUT(o, ",");
            if (kind == A_TENSORS)
                put_type(o, none);
            else
                mtp__out_text(o, scalar_type(item));
        }
        MTP__OUT(o, "]");
        break;
    default:
        MTP__OUT(o, "None");
    }
    MTP__OUT(o, "\"");
}

/* Dims or strides; a list of scalars has an empty list for each. */
static void put_numbers(mtp__out *o, const argument *a, slice numbers)
{
    if (kind_of(a) == A_SCALARS) {
        slice rest = inside(a->concrete, '[', ']'), item;
        MTP__OUT(o, "[");
        for (bool more = false; next_item(&rest, &item); more = true)
            mtp__out_text(o, more ? ",[]" : "[]");
        MTP__OUT(o, "]");
    } else if (numbers.length >= 2 && numbers.at[0] == '[') {
        mtp__out_bytes(o, numbers.at, numbers.length);
    } else {
        MTP__OUT(o, "[]");
    }
}

static void put_shape(mtp__execution_values *v, mtp__out *o, const argument *a, const mtp__detail *d)
{
    (void)v, (void)d;
    put_numbers(o, a, a->dims);
}

static void put_strides(mtp__execution_values *v, mtp__out *o, const argument *a, const mtp__detail *d)
{
    (void)v, (void)d;
    put_numbers(o, a, a->strides);
}

void mtp__execution_values_put(mtp__execution_values *v, mtp__out *o, uint32_t shape, const mtp__detail *d)
{
    static const struct {
        const char *key;
        put_one *put;
    } lists[] = {{"{\"values\": [", put_value},
                 {"], \"shapes\": [", put_shape},
                 {"], \"types\": [", put_argument_type},
                 {"], \"strides\": [", put_strides}};
    if (shape == 0) {
        MTP__OUT(o, "{\"values\": [], \"shapes\": [], \"types\": [], \"strides\": []}");
        return;
    }
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        arguments rest = arguments_of(v, shape);
        argument a;
        mtp__out_text(o, lists[k].key);
        for (bool more = false; next_argument(&rest, &a); more = true) {
            if (more)
                MTP__OUT(o, ",");
            lists[k].put(v, o, &a, d);
        }
    }
    MTP__OUT(o, "]}");
}
