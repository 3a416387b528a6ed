/* python/call.c - ops as Python functions and methods, generated from the op table.
 *
 * Rows with the same name are overloads, tried in order: first without, then with 0-dim tensors accepted as
 * numbers. A few names include rows of another name as overloads (max of two tensors is maximum), and a few
 * functions have aliases; both are in tables here.
 */
#include "python/parse.h"
#include <string.h>

#define MOST_OVERLOADS 4
#define HEAVY_NUMEL 65536
#define HEAVY_PRODUCT 8192 /* input elements of a matrix product, which does more per element */

static struct overloads {
    mt_op_id ops[MOST_OVERLOADS];
    uint8_t count;
    bool method;
    PyTypeObject *result; /* named tuple of an op with named outputs */
} sets[MT_OP_COUNT];

/* ---------------------------------------------------------------------------------------------- the GIL */

bool mtpy_is_heavy(mt_op_id op, const mt_value *args, unsigned count)
{
    int64_t most = 0;
    for (unsigned i = 0; i < count; i++) {
        int64_t n = 0;
        if (args[i].kind == MT_TENSOR) {
            n = mt_numel(args[i].as.tensor);
        } else if (args[i].kind == MT_TENSORS) {
            for (uint32_t k = 0; k < args[i].count; k++)
                n += args[i].as.tensors[k] != NULL ? mt_numel(args[i].as.tensors[k]) : 0;
        } else if (args[i].kind == MT_INTS && most == 0) { /* the size of a new tensor */
            n = 1;
            for (uint32_t k = 0; k < args[i].count && n < HEAVY_NUMEL && args[i].as.ints[k] >= 0; k++)
                n *= args[i].as.ints[k] < HEAVY_NUMEL ? args[i].as.ints[k] : HEAVY_NUMEL;
        }
        most = n > most ? n : most;
    }
    return most >= HEAVY_NUMEL || (most >= HEAVY_PRODUCT && mt_op_is_product(op));
}

static mt_status call(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs)
{
    if (LIKELY(!mtpy_is_heavy(op, args, count)))
        return mt_call(op, args, count, outs);
    mt_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mt_call(op, args, count, outs);
    Py_END_ALLOW_THREADS
    return status;
}

PyObject *mtpy_call1(mt_op_id op, const mt_value *args, unsigned count)
{
    mt_tensor *outs[4] = {NULL};
    mt_status status = call(op, args, count, outs);
    return LIKELY(status == MT_OK) ? mtpy_wrap(outs[0]) : mtpy_raise(status);
}

/* ------------------------------------------------------------------------------------------- one overload */

/* Takes the tensors. */
static PyObject *pack(PyTypeObject *result, mt_tensor **outs, unsigned count)
{
    PyObject *tuple = result != NULL ? PyStructSequence_New(result) : PyTuple_New(count);
    for (unsigned i = 0; i < count; i++) {
        PyObject *o = tuple != NULL ? mtpy_wrap(outs[i]) : NULL;
        if (tuple == NULL) {
            mt_release(outs[i]);
        } else if (o == NULL) {
            Py_CLEAR(tuple);
        } else if (result != NULL) {
            PyStructSequence_SetItem(tuple, (Py_ssize_t)i, o);
        } else {
            PyTuple_SET_ITEM(tuple, i, o);
        }
    }
    return tuple;
}

static PyObject *call_list(mt_op_id op, const mtpy_parse *p)
{
    mt_tensor **list;
    unsigned n;
    mt_status status = mt_call_list(op, p->values, p->count, &list, &n);
    if (status != MT_OK)
        return mtpy_raise(status);
    PyObject *tuple = pack(NULL, list, n);
    mt_list_free(list, 0); /* the items were taken */
    return tuple;
}

static PyObject *call_parsed(mt_op_id op, const mtpy_parse *p)
{
    unsigned n = mt_op_outputs(op);
    if (UNLIKELY(p->out != NULL))
        return mtpy_call_out(op, p, sets[op].result);
    if (n == 0)
        return call_list(op, p);
    mt_tensor *outs[8] = {NULL};
    mt_status status = call(op, p->values, p->count, outs);
    if (UNLIKELY(status != MT_OK))
        return mtpy_raise(status);
    if (UNLIKELY(p->requires_grad)) {
        status = mt_set_requires_grad(outs[0], true);
        if (status != MT_OK) {
            mt_release(outs[0]);
            return mtpy_raise(status);
        }
    }
    return n == 1 ? mtpy_wrap(outs[0]) : pack(sets[op].result, outs, n);
}

/* 1 or -1: an overload accepted the arguments, and *made is its result or NULL; 0: none did. */
static int try_overloads(const struct overloads *set, const mtpy_args *a, mtpy_mismatch *m, PyObject **made)
{
    mtpy_parse p;
    for (unsigned lenient = 0; lenient < 2; lenient++)
        for (unsigned i = 0; i < set->count; i++) {
            int fits = mtpy_parse_row(set->ops[i], a, lenient != 0, &p, m);
            *made = fits > 0 ? call_parsed(set->ops[i], &p) : NULL;
            mtpy_parse_end(&p);
            if (fits != 0)
                return fits;
        }
    return 0;
}

/* Functions that accept a number as their first tensor, as PyTorch's do: with a tensor as the other operand,
 * or also with a number; some accept it as the second. */
static const struct {
    mt_op_id op;
    bool alone, second;
} of_numbers[] = {
    {MT_OP_add, true, false},          {MT_OP_sub, true, false},          {MT_OP_mul, true, false},
    {MT_OP_div, true, false},          {MT_OP_floor_divide, true, false}, {MT_OP_remainder, false, false},
    {MT_OP_bitwise_and, false, false}, {MT_OP_bitwise_or, false, false},  {MT_OP_bitwise_xor, false, false},
    {MT_OP_xlogy, false, true},
};

/* Which operand the argument is: 0 or 1; -1: neither. A method's self is the first one. */
static int operand_at(const mtpy_args *a, Py_ssize_t i)
{
    int first = a->self != NULL;
    if (i < a->count)
        return i + first < 2 ? (int)i + first : -1;
    PyObject *name = PyTuple_GET_ITEM(a->names, i - a->count);
    if (PyUnicode_CompareWithASCIIString(name, "input") == 0 ||
        PyUnicode_CompareWithASCIIString(name, "self") == 0 ||
        PyUnicode_CompareWithASCIIString(name, "x") == 0)
        return 0;
    return PyUnicode_CompareWithASCIIString(name, "other") == 0 ||
                   PyUnicode_CompareWithASCIIString(name, "x2") == 0
               ? 1
               : -1;
}

/* Retries with numbers converted to tensors, if this op allows it. Returns like try_overloads. */
static int try_numbers(mt_op_id first, const mtpy_args *a, mtpy_mismatch *m, PyObject **made)
{
    PyObject *args[PARSE_ARGS], *own[2] = {NULL, NULL};
    Py_ssize_t total = a->count + (a->names != NULL ? PyTuple_GET_SIZE(a->names) : 0), at[2] = {-1, -1};
    size_t row = 0;
    while (row < COUNT_OF(of_numbers) && of_numbers[row].op != first)
        row++;
    if (row == COUNT_OF(of_numbers) || (a->self != NULL && !of_numbers[row].second) || total > PARSE_ARGS)
        return 0;
    const mt_tensor *beside = a->self != NULL ? mtpy_tensor_of(a->self) : NULL;
    for (Py_ssize_t i = 0; i < total; i++) {
        int k = operand_at(a, i);
        args[i] = a->args[i];
        if (k >= 0 && mtpy_is_tensor(args[i]))
            beside = mtpy_tensor_of(args[i]);
        else if (k >= 0 && mtpy_is_number(args[i]))
            at[k] = i;
    }
    int tried = 0;
    bool wanted[2] = {at[0] >= 0, at[1] >= 0 && of_numbers[row].second};
    if ((wanted[0] || wanted[1]) && (beside != NULL || of_numbers[row].alone)) {
        for (int k = 0; k < 2 && tried == 0; k++) {
            mt_tensor *t = wanted[k] ? mtpy_number_tensor(args[at[k]], beside) : NULL;
            own[k] = t != NULL ? mtpy_wrap(t) : NULL;
            if (own[k] != NULL)
                args[at[k]] = own[k];
            else if (wanted[k])
                tried = -1;
        }
        mtpy_args with = {a->self, args, a->count, a->names};
        if (tried == 0)
            tried = try_overloads(&sets[first], &with, m, made);
    }
    Py_XDECREF(own[0]);
    Py_XDECREF(own[1]);
    return tried;
}

PyObject *mtpy_call_set(mt_op_id first, PyObject *self, PyObject *const *args, Py_ssize_t count,
                        PyObject *names)
{
    const struct overloads *set = &sets[first];
    mtpy_args a = {self, args, count, names};
    mtpy_mismatch m = {0}, other = {0};
    PyObject *made = NULL;
    if (LIKELY(try_overloads(set, &a, &m, &made) != 0) || try_numbers(first, &a, &other, &made) != 0)
        return made;
    if (set->count == 1)
        mtpy_raise_mismatch(first, &a, &m);
    else
        mtpy_raise_no_overload(set->ops, set->count, &a);
    return NULL;
}

/* ------------------------------------------------------------------------------------ one pair per row */

#define PAIR(id)                                                                                             \
    static PyObject *function_##id(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)   \
    {                                                                                                        \
        (void)module;                                                                                        \
        return mtpy_call_set(MT_OP_##id, NULL, args, n, names);                                              \
    }                                                                                                        \
    static PyObject *method_##id(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)       \
    {                                                                                                        \
        return mtpy_call_set(MT_OP_##id, self, args, n, names);                                              \
    }
#define X(id, schema, form, derivative) PAIR(id)
#define Y(id) PAIR(id##_)
MT_OPS(X, Y)
#undef X
#undef Y

/* Casts a vectorcall function for PyMethodDef. */
#define AS_METHOD(f) ((PyCFunction)(void (*)(void))(f))
/* The texts are set by gather(). */
#define X(id, schema, form, derivative) {#id, AS_METHOD(KIND(id)), METH_FASTCALL | METH_KEYWORDS, NULL},
#define Y(id) {(#id "_"), AS_METHOD(KIND(id##_)), METH_FASTCALL | METH_KEYWORDS, NULL},
#define KIND(id) function_##id
static PyMethodDef functions[] = {MT_OPS(X, Y)};
#undef KIND
#define KIND(id) method_##id
static PyMethodDef methods[] = {MT_OPS(X, Y)};
#undef KIND
#undef X
#undef Y

/* ------------------------------------------------------------------------------------------------- names */

/* Rows of another name that are overloads of a name. */
static const struct {
    mt_op_id of, also;
} more_overloads[] = {
    {MT_OP_max, MT_OP_maximum},
    {MT_OP_min, MT_OP_minimum},
    {MT_OP_split, MT_OP_split_with_sizes},
};

/* Aliases. */
static struct {
    mt_op_id of;
    const char *name;
    PyMethodDef function, method;
} second_names[] = {
    {MT_OP_sub, "subtract", {0}, {0}},       {MT_OP_mul, "multiply", {0}, {0}},
    {MT_OP_div, "divide", {0}, {0}},         {MT_OP_div, "true_divide", {0}, {0}},
    {MT_OP_neg, "negative", {0}, {0}},       {MT_OP_abs, "absolute", {0}, {0}},
    {MT_OP_trunc, "fix", {0}, {0}},          {MT_OP_clamp, "clip", {0}, {0}},
    {MT_OP_cat, "concat", {0}, {0}},         {MT_OP_cat, "concatenate", {0}, {0}},
    {MT_OP_transpose, "swapaxes", {0}, {0}}, {MT_OP_transpose, "swapdims", {0}, {0}},
    {MT_OP_ne, "not_equal", {0}, {0}},       {MT_OP_lt, "less", {0}, {0}},
    {MT_OP_le, "less_equal", {0}, {0}},      {MT_OP_gt, "greater", {0}, {0}},
    {MT_OP_ge, "greater_equal", {0}, {0}},   {MT_OP_atan2, "arctan2", {0}, {0}},
    {MT_OP_sub_, "subtract_", {0}, {0}},     {MT_OP_mul_, "multiply_", {0}, {0}},
    {MT_OP_div_, "divide_", {0}, {0}},       {MT_OP_div_, "true_divide_", {0}, {0}},
    {MT_OP_neg_, "negative_", {0}, {0}},     {MT_OP_clamp_, "clip_", {0}, {0}},
};

static const char *base_name(mt_op_id op)
{
    return mt_op_name(op) + 6;
}

static void gather(void)
{
    for (unsigned i = 0; i < MT_OP_COUNT; i++) {
        struct overloads *set = &sets[i];
        bool first = true;
        functions[i].ml_doc = methods[i].ml_doc = mt_op_schema((mt_op_id)i);
        for (unsigned k = 0; k < i && first; k++)
            first = strcmp(base_name((mt_op_id)k), base_name((mt_op_id)i)) != 0;
        for (unsigned k = i; k < MT_OP_COUNT && set->count < MOST_OVERLOADS; k++)
            if (k == i || (first && strcmp(base_name((mt_op_id)k), base_name((mt_op_id)i)) == 0))
                set->ops[set->count++] = (mt_op_id)k;
        for (unsigned k = 0; k < COUNT_OF(more_overloads) && set->count < MOST_OVERLOADS; k++)
            if (more_overloads[k].of == i)
                set->ops[set->count++] = more_overloads[k].also;
        for (unsigned k = 0; k < set->count; k++)
            set->method |= mtpy_self_param(set->ops[k]) >= 0;
    }
}

/* "-> (Tensor values, Tensor indices)": a named tuple, as in torch.return_types. */
static int make_result_type(mt_op_id op)
{
    static PyStructSequence_Field fields[MT_OP_COUNT][5];
    static char texts[MT_OP_COUNT][4][24], names[MT_OP_COUNT][64];
    const char *at = strstr(mt_op_schema(op), " -> (Tensor ");
    unsigned n = 0;
    if (at == NULL)
        return 0;
    for (at += 5; (at = strstr(at, "Tensor ")) != NULL && n < 4; n++) {
        at += 7;
        PyOS_snprintf(texts[op][n], sizeof texts[op][n], "%.*s", (int)strcspn(at, ",)"), at);
        fields[op][n].name = texts[op][n];
    }
    PyOS_snprintf(names[op], sizeof names[op], "torch.return_types.%s", base_name(op));
    PyStructSequence_Desc desc = {names[op], NULL, fields[op], (int)n};
    sets[op].result = PyStructSequence_NewType(&desc);
    return sets[op].result == NULL ? -1 : 0;
}

static int add_function(PyObject *module, PyMethodDef *def)
{
    PyObject *f = PyCFunction_NewEx(def, NULL, NULL);
    int status = f != NULL ? PyModule_AddObjectRef(module, def->ml_name, f) : -1;
    Py_XDECREF(f);
    return status;
}

static int add_method(PyMethodDef *def)
{
    PyObject *dict = mtpy.tensor->tp_dict;
    if (PyDict_GetItemString(dict, def->ml_name) != NULL) /* written by hand */
        return 0;
    PyObject *m = PyDescr_NewMethod(mtpy.tensor, def);
    int status = m != NULL ? PyDict_SetItemString(dict, def->ml_name, m) : -1;
    Py_XDECREF(m);
    return status;
}

static int add_second_names(void)
{
    for (unsigned i = 0; i < COUNT_OF(second_names); i++) {
        mt_op_id of = second_names[i].of;
        second_names[i].function = functions[of];
        second_names[i].method = methods[of];
        second_names[i].function.ml_name = second_names[i].method.ml_name = second_names[i].name;
        if (add_function(mtpy.ops, &second_names[i].function) < 0 ||
            (sets[of].method && add_method(&second_names[i].method) < 0))
            return -1;
    }
    return 0;
}

int mtpy_call_init(PyObject *module)
{
    mtpy.ops = PyModule_New("mindtorch_v2._C.ops");
    if (mtpy.ops == NULL || PyModule_AddObjectRef(module, "ops", mtpy.ops) < 0)
        return -1;
    gather();
    /* Last to first: a name that is both a row's id and a base name ends up as the base name's. */
    for (unsigned i = MT_OP_COUNT; i > 0; i--) {
        mt_op_id op = (mt_op_id)(i - 1);
        if (make_result_type(op) < 0 || add_function(mtpy.ops, &functions[op]) < 0)
            return -1;
        if (strcmp(functions[op].ml_name, base_name(op)) != 0 && sets[op].count > 1) {
            /* to_dtype is the first row of to() */
            functions[op].ml_name = methods[op].ml_name = base_name(op);
            if (add_function(mtpy.ops, &functions[op]) < 0)
                return -1;
        }
        bool base = strcmp(methods[op].ml_name, base_name(op)) == 0;
        if (base && sets[op].method && add_method(&methods[op]) < 0)
            return -1;
    }
    int status = add_second_names();
    PyType_Modified(mtpy.tensor);
    return status;
}
