/* python/parse.c - converts Python arguments to those of one op, by the parameters of its row, with PyTorch's
 * error messages.
 *
 * Lists of tensors hold references until mtpy_parse_end, since another thread may change the Python list
 * meanwhile; the caller's frame keeps everything else alive.
 */
#include "python/parse.h"
#include <string.h>

/* -------------------------------------------------------------------------------------------------- room */

typedef struct block {
    struct block *next;
    mt_tensor **tensors; /* the references held in this list, or NULL */
    unsigned count;
    int64_t bytes[];
} block;

/* Room for n eight-byte items; tensors: they will be references to release. */
static void *take_room(mtpy_parse *p, Py_ssize_t n, bool tensors)
{
    if (!tensors && n <= PARSE_ROOM - (Py_ssize_t)p->used) {
        void *at = p->room + p->used;
        p->used += (unsigned)n;
        return at;
    }
    block *b = n < (Py_ssize_t)1 << 28 ? PyMem_Malloc(sizeof *b + (size_t)n * 8) : NULL;
    if (b == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    b->next = p->blocks;
    b->tensors = tensors ? (mt_tensor **)b->bytes : NULL;
    b->count = 0;
    p->blocks = b;
    return b->bytes;
}

void mtpy_parse_end(mtpy_parse *p)
{
    while (p->blocks != NULL) {
        block *b = p->blocks;
        p->blocks = b->next;
        for (unsigned i = 0; b->tensors != NULL && i < b->count; i++)
            mt_release(b->tensors[i]);
        PyMem_Free(b);
    }
}

/* ---------------------------------------------------------------------------------------- one argument */

static int convert_int(PyObject *o, mt_value *v)
{
    int64_t i = 0;
    int fits = mtpy_index(o, &i);
    *v = mt_value_int(i);
    return fits;
}

/* A bool is not an int here, except as an item of a list: output_mask=[True, False]. */
static int convert_item(PyObject *o, int64_t *out)
{
    if (PyBool_Check(o)) {
        *out = o == Py_True;
        return 1;
    }
    return mtpy_index(o, out);
}

/* From a tuple or list. *bad: the item that is not an int. */
static int convert_ints(mtpy_parse *p, PyObject *o, mt_value *v, Py_ssize_t *bad)
{
    if (!PyTuple_Check(o) && !PyList_Check(o))
        return 0;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    int64_t *ints = take_room(p, n, false);
    if (ints == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        /* __index__ of an item may shorten the list */
        if (i >= PySequence_Fast_GET_SIZE(o)) {
            PyErr_SetString(PyExc_RuntimeError, "a list changed while it was being read");
            return -1;
        }
        int fits = convert_item(PySequence_Fast_GET_ITEM(o, i), &ints[i]);
        if (fits <= 0) {
            *bad = i;
            return fits;
        }
    }
    *v = mt_value_ints(ints, (uint32_t)n);
    return 1;
}

static int repeat_int(mtpy_parse *p, PyObject *o, unsigned times, mt_value *v)
{
    int64_t one;
    int fits = mtpy_index(o, &one);
    if (fits <= 0)
        return fits;
    int64_t *ints = take_room(p, times, false);
    if (ints == NULL)
        return -1;
    for (unsigned i = 0; i < times; i++)
        ints[i] = one;
    *v = mt_value_ints(ints, times);
    return 1;
}

static int convert_tensors(mtpy_parse *p, PyObject *o, bool gaps, mt_value *v, Py_ssize_t *bad)
{
    if (!PyTuple_Check(o) && !PyList_Check(o))
        return 0;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    mt_tensor **tensors = take_room(p, n, true);
    if (tensors == NULL)
        return -1;
    block *b = p->blocks;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(o, i);
        if (!mtpy_is_tensor(item) && !(gaps && item == Py_None)) {
            *bad = i;
            return 0;
        }
        tensors[i] = item == Py_None ? NULL : mt_retain(mtpy_tensor_of(item));
        b->count++;
    }
    *v = mt_value_tensors(tensors, (uint32_t)n);
    return 1;
}

/* A number from a 0-dim tensor: only when no overload takes the tensor itself. */
static int convert_scalar(PyObject *o, bool lenient, mt_value *v)
{
    int fits = mtpy_number(o, v);
    if (fits != 0 || !lenient || !mtpy_is_tensor(o))
        return fits;
    mt_tensor *t = mtpy_tensor_of(o);
    return mt_rank(t) == 0 && !mt_requires_grad(t) ? mtpy_item_value(t, v) : 0;
}

static int convert_text(PyObject *o, mt_value *v)
{
    Py_ssize_t n;
    const char *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, &n) : NULL;
    if (text == NULL)
        return PyErr_Occurred() ? -1 : 0;
    *v = mt_value_text(text);
    return strlen(text) == (size_t)n;
}

static int convert_named(const mt_param *q, PyObject *o, mt_value *v)
{
    if (q->type == MT_TYPE_DTYPE) {
        mt_dtype dtype = MT_FLOAT32;
        bool fits = mtpy_dtype(o, &dtype);
        *v = mt_value_int(dtype);
        return fits;
    }
    mt_device device = MT_CPU;
    int fits = mtpy_device(o, &device);
    *v = mt_value_int(device);
    return fits;
}

static int convert(const mt_param *q, PyObject *o, bool lenient, mtpy_parse *p, mt_value *v, Py_ssize_t *bad)
{
    if (o == Py_None && q->optional) {
        *v = mt_value_none(NULL);
        return 1;
    }
    switch ((mt_type)q->type) {
    case MT_TYPE_OPERAND:
    case MT_TYPE_TENSOR:
        if (LIKELY(mtpy_is_tensor(o))) {
            *v = mt_value_tensor(mtpy_tensor_of(o));
            return 1;
        }
        return q->type == MT_TYPE_OPERAND ? mtpy_number(o, v) : 0;
    case MT_TYPE_TENSORS:
        return convert_tensors(p, o, q->gaps, v, bad);
    case MT_TYPE_SCALAR:
        return convert_scalar(o, lenient, v);
    case MT_TYPE_INT:
        return lenient || !mtpy_is_tensor(o) ? convert_int(o, v) : 0;
    case MT_TYPE_FLOAT:
        return convert_scalar(o, lenient, v);
    case MT_TYPE_BOOL:
        *v = mt_value_truth(o == Py_True);
        return PyBool_Check(o);
    case MT_TYPE_INTS:
        if (q->ints > 0 && !PyTuple_Check(o) && !PyList_Check(o))
            return repeat_int(p, o, q->ints == MT_INTS_SPREAD ? 1 : q->ints, v);
        return convert_ints(p, o, v, bad);
    case MT_TYPE_TEXT:
        return convert_text(o, v);
    case MT_TYPE_DTYPE:
    case MT_TYPE_DEVICE:
        return convert_named(q, o, v);
    }
    return 0;
}

/* ---------------------------------------------------------------------------------------- all of them */

int mtpy_self_param(mt_op_id op)
{
    unsigned n;
    const mt_param *params = mt_op_params(op, &n);
    for (unsigned i = 0; i < n; i++)
        if (params[i].name_length == 4 && memcmp(params[i].name, "self", 4) == 0 &&
            (params[i].type == MT_TYPE_TENSOR || params[i].type == MT_TYPE_OPERAND))
            return (int)i;
    return -1;
}

static int find_exactly(const mt_param *params, unsigned count, const char *name)
{
    size_t n = strlen(name);
    for (unsigned i = 0; i < count; i++)
        if (params[i].name_length == n && memcmp(params[i].name, name, n) == 0)
            return (int)i;
    return -1;
}

/* The parameter of a keyword; -1: none. Accepts PyTorch's `input` for self, and the names that it takes from NumPy. */
static int find_param(mt_op_id op, const mt_param *params, unsigned count, const char *name)
{
    static const struct {
        const char *said, *meant;
    } others[] = {{"input", "self"}, {"axis", "dim"}, {"keepdims", "keepdim"}, {"x", "self"},
                  {"x", "input"},    {"x1", "self"},  {"a", "self"},           {"x2", "other"}};
    static const struct {
        mt_op_id op;
        const char *said, *meant;
    } own[] = {{MT_OP_copy_, "other", "src"},      {MT_OP_copy_, "x2", "src"},
               {MT_OP_scatter, "value", "src"},    {MT_OP_scatter_reduce, "value", "src"},
               {MT_OP_transpose, "axis0", "dim0"}, {MT_OP_transpose, "axis1", "dim1"}};
    int found = find_exactly(params, count, name);
    for (unsigned i = 0; i < COUNT_OF(own) && found < 0; i++)
        if ((own[i].op == op || (mt_op_id)(own[i].op + 1) == op) && strcmp(name, own[i].said) == 0)
            found = find_exactly(params, count, own[i].meant);
    for (unsigned i = 0; i < COUNT_OF(others) && found < 0; i++)
        if (strcmp(name, others[i].said) == 0)
            found = find_exactly(params, count, others[i].meant);
    return found;
}

/* Keywords of factory functions that are not parameters of the op. */
static int creation_keyword(const mt_param *params, unsigned count, const char *name, PyObject *o,
                            mtpy_parse *p)
{
    unsigned at = 0;
    while (at < count && !(params[at].type == MT_TYPE_DEVICE && params[at].keyword_only))
        at++;
    if (at == count)
        return 0;
    if (strcmp(name, "requires_grad") == 0 && PyBool_Check(o)) {
        p->requires_grad = o == Py_True;
        return 1;
    }
    return (strcmp(name, "pin_memory") == 0 && o == Py_False) ||
           (strcmp(name, "generator") == 0 && o == Py_None) || (strcmp(name, "layout") == 0 && o == Py_None);
}

/* out=: a tensor, or one per result of the op. 1: accepted; 0: the op has no out=; -1: it does not fit. */
static int out_keyword(mt_op_id op, const mtpy_args *a, const char *name, PyObject *o, mtpy_parse *p)
{
    unsigned n = mt_op_outputs(op);
    if (a->self != NULL || strcmp(name, "out") != 0 || mt_op_out(op) == NULL)
        return 0;
    if (o == Py_None)
        return 1;
    p->out = o;
    if (n == 1)
        return mtpy_is_tensor(o) ? 1 : -1;
    if ((!PyTuple_Check(o) && !PyList_Check(o)) || PySequence_Fast_GET_SIZE(o) != (Py_ssize_t)n)
        return -1;
    for (unsigned i = 0; i < n; i++)
        if (!mtpy_is_tensor(PySequence_Fast_GET_ITEM(o, i)))
            return -1;
    return 1;
}

static int misfit(mtpy_mismatch *m, int why, unsigned param, Py_ssize_t position, PyObject *object)
{
    m->why = (unsigned)why;
    m->param = param;
    m->position = position;
    m->object = object;
    return 0;
}

static int parse_keywords(mt_op_id op, const mt_param *params, unsigned count, const mtpy_args *a,
                          bool lenient, mtpy_parse *p, uint32_t *given, mtpy_mismatch *m)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a->names); k++) {
        PyObject *key = PyTuple_GET_ITEM(a->names, k), *o = a->args[a->count + k];
        const char *name = PyUnicode_AsUTF8(key);
        if (name == NULL)
            return -1;
        int i = find_param(op, params, count, name);
        if (i < 0) {
            int taken = out_keyword(op, a, name, o, p);
            if (taken > 0 || (taken == 0 && creation_keyword(params, count, name, o, p)))
                continue;
            return taken < 0 ? misfit(m, FIT_OUT, 0, 0, o) : misfit(m, FIT_UNEXPECTED, 0, 0, key);
        }
        if (*given >> i & 1u)
            return misfit(m, FIT_TWICE, (unsigned)i, 0, key);
        int fits = convert(&params[i], o, lenient, p, &p->values[i], &m->item);
        if (fits <= 0)
            return fits < 0 ? -1 : misfit(m, FIT_TYPE, (unsigned)i, 0, o);
        *given |= 1u << i;
    }
    return 1;
}

/* view(2, 3): the positional arguments from the k-th on are one list. */
static int parse_spread(const mtpy_args *a, Py_ssize_t k, unsigned param, mtpy_parse *p, mtpy_mismatch *m)
{
    Py_ssize_t n = a->count - k;
    int64_t *ints = take_room(p, n, false);
    if (ints == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        int fits = mtpy_index(a->args[k + i], &ints[i]);
        if (fits <= 0)
            return fits < 0 ? -1 : misfit(m, FIT_TYPE, param, k + i + 1, a->args[k + i]);
    }
    p->values[param] = mt_value_ints(ints, (uint32_t)n);
    return 1;
}

static int parse_positional(const mt_param *params, unsigned count, const mtpy_args *a, bool lenient,
                            mtpy_parse *p, uint32_t *given, mtpy_mismatch *m)
{
    unsigned i = 0;
    for (Py_ssize_t k = 0; k < a->count; k++, i++) {
        while (i < count && (*given >> i & 1u))
            i++;
        if (i == count || params[i].keyword_only)
            return misfit(m, FIT_MANY, i, a->count, NULL);
        PyObject *o = a->args[k];
        *given |= 1u << i;
        if (params[i].type == MT_TYPE_INTS && params[i].ints == MT_INTS_SPREAD && !PyTuple_Check(o) &&
            !PyList_Check(o))
            return parse_spread(a, k, i, p, m);
        int fits = convert(&params[i], o, lenient, p, &p->values[i], &m->item);
        if (fits <= 0)
            return fits < 0 ? -1 : misfit(m, FIT_TYPE, i, k + 1, o);
    }
    return 1;
}

int mtpy_parse_row(mt_op_id op, const mtpy_args *a, bool lenient, mtpy_parse *p, mtpy_mismatch *m)
{
    unsigned count;
    const mt_param *params = mt_op_params(op, &count);
    uint32_t given = 0;
    p->count = count;
    p->used = 0;
    p->requires_grad = false;
    p->out = NULL;
    p->blocks = NULL;
    m->why = FIT_NONE;
    m->item = -1;
    if (a->self != NULL) {
        int at = mtpy_self_param(op);
        if (at < 0)
            return misfit(m, FIT_MANY, 0, a->count, NULL);
        p->values[at] = mt_value_tensor(mtpy_tensor_of(a->self));
        given = 1u << at;
    }
    int fits = parse_positional(params, count, a, lenient, p, &given, m);
    if (fits > 0 && a->names != NULL)
        fits = parse_keywords(op, params, count, a, lenient, p, &given, m);
    for (unsigned i = 0; fits > 0 && i < count; i++) {
        if (given >> i & 1u)
            continue;
        if (!params[i].has_default)
            return misfit(m, FIT_MISSING, i, 0, NULL);
        p->values[i] = params[i].default_value;
    }
    return fits;
}

/* ------------------------------------------------------------------------------------------------ words */

static const char *type_text(const mt_param *q)
{
    static const char *const texts[] = {[MT_TYPE_TENSOR] = "Tensor",
                                        [MT_TYPE_TENSORS] = "tuple of Tensors",
                                        [MT_TYPE_OPERAND] = "Tensor",
                                        [MT_TYPE_SCALAR] = "Number",
                                        [MT_TYPE_INT] = "int",
                                        [MT_TYPE_FLOAT] = "float",
                                        [MT_TYPE_BOOL] = "bool",
                                        [MT_TYPE_INTS] = "tuple of ints",
                                        [MT_TYPE_TEXT] = "str",
                                        [MT_TYPE_DTYPE] = "torch.dtype",
                                        [MT_TYPE_DEVICE] = "torch.device"};
    return texts[q->type];
}

/* The type of o as PyTorch's messages name it. */
static const char *word_for(PyObject *o)
{
    const char *name = Py_TYPE(o)->tp_name, *dot = strrchr(name, '.');
    return dot != NULL ? dot + 1 : name;
}

/* A parameter's name, which is not NUL-terminated in the schema. */
static const char *param_name(const mt_param *q, char text[64])
{
    PyOS_snprintf(text, 64, "%.*s", (int)q->name_length, q->name);
    return text;
}

static void raise_type(const char *name, const mt_param *q, const mtpy_mismatch *m)
{
    char where[32] = "", word[64];
    if (m->position > 0)
        PyOS_snprintf(where, sizeof where, " (position %zd)", m->position);
    PyObject *item = m->item >= 0 && (PyTuple_Check(m->object) || PyList_Check(m->object)) &&
                             m->item < PySequence_Fast_GET_SIZE(m->object)
                         ? PySequence_Fast_GET_ITEM(m->object, m->item)
                         : NULL;
    if (item != NULL && q->type == MT_TYPE_TENSORS)
        PyErr_Format(PyExc_TypeError, "expected Tensor as element %zd in argument %zd, but got %s", m->item,
                     m->position > 0 ? m->position - 1 : (Py_ssize_t)m->param, word_for(item));
    else if (item != NULL)
        PyErr_Format(PyExc_TypeError,
                     "%s(): argument '%s'%s must be %s, but found element of type %s at pos %zd", name,
                     param_name(q, word), where, type_text(q), word_for(item), m->item);
    else
        PyErr_Format(PyExc_TypeError, "%s(): argument '%s'%s must be %s, not %s", name, param_name(q, word),
                     where, type_text(q), word_for(m->object));
}

void mtpy_raise_mismatch(mt_op_id op, const mtpy_args *a, const mtpy_mismatch *m)
{
    unsigned count;
    const mt_param *params = mt_op_params(op, &count), *q = &params[m->param];
    const char *name = mt_op_name(op) + 6;
    char word[64];
    unsigned positional = 0;
    for (unsigned i = 0; i < count; i++)
        positional += !params[i].keyword_only;
    if (a->self != NULL)
        positional--;
    switch (m->why) {
    case FIT_TYPE:
        raise_type(name, q, m);
        break;
    case FIT_MISSING:
        PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional arguments: \"%s\"", name,
                     param_name(q, word));
        break;
    case FIT_UNEXPECTED:
        PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", name, m->object);
        break;
    case FIT_OUT:
        PyErr_Format(PyExc_TypeError, "%s(): argument 'out' must be %s, not %s", name,
                     mt_op_outputs(op) == 1 ? "Tensor" : "tuple of Tensors", word_for(m->object));
        break;
    case FIT_TWICE:
        PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", name, m->object);
        break;
    default:
        PyErr_Format(PyExc_TypeError, "%s() takes %u positional argument%s but %zd %s given", name,
                     positional, positional == 1 ? "" : "s", a->count, a->count == 1 ? "was" : "were");
    }
}

/* "(Tensor, int, dim=str)": the types of the arguments. */
static PyObject *given_text(const mtpy_args *a)
{
    Py_ssize_t named = a->names != NULL ? PyTuple_GET_SIZE(a->names) : 0;
    PyObject *parts = PyList_New(0), *comma = PyUnicode_FromString(", "), *text = NULL;
    for (Py_ssize_t i = 0; parts != NULL && i < a->count + named; i++) {
        PyObject *part = i < a->count
                             ? PyUnicode_FromString(word_for(a->args[i]))
                             : PyUnicode_FromFormat("%U=%s", PyTuple_GET_ITEM(a->names, i - a->count),
                                                    word_for(a->args[i]));
        if (part == NULL || PyList_Append(parts, part) < 0)
            Py_CLEAR(parts);
        Py_XDECREF(part);
    }
    if (parts != NULL && comma != NULL)
        text = PyUnicode_Join(comma, parts);
    Py_XDECREF(parts);
    Py_XDECREF(comma);
    return text;
}

void mtpy_raise_no_overload(const mt_op_id *ops, unsigned count, const mtpy_args *a)
{
    PyObject *given = given_text(a), *rows = PyUnicode_FromString("");
    for (unsigned i = 0; i < count && rows != NULL; i++) {
        const char *from = strchr(mt_op_schema(ops[i]), '('), *to = strstr(mt_op_schema(ops[i]), " -> ");
        PyObject *line = PyUnicode_FromStringAndSize(from, to - from);
        Py_SETREF(rows, line != NULL ? PyUnicode_FromFormat("%U\n * %U", rows, line) : NULL);
        Py_XDECREF(line);
    }
    if (given != NULL && rows != NULL)
        PyErr_Format(PyExc_TypeError,
                     "%s() received an invalid combination of arguments - got (%U), but expected one of:%U\n",
                     mt_op_name(ops[0]) + 6, given, rows);
    Py_XDECREF(given);
    Py_XDECREF(rows);
}
