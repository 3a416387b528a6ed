/* python/dispatch_mode.c - TorchDispatchMode: passes the ops of a thread to Python instead of computing them.
 *
 * A thread's modes are a chain of tuples (mode, functions, outer level or None), innermost first; functions
 * has one callable per row of the op table, then one per row for calls with out=. While a mode handles an op,
 * the outer modes are active, as in PyTorch.
 */
#include "python/binding.h"
#include <stdlib.h>
#include <string.h>

static _Thread_local __attribute__((tls_model("initial-exec"))) PyObject *innermost; /* owned, or NULL */

/* ---------------------------------------------------------------------------------------------- arguments */

static PyObject *list_object(const mt_value *v)
{
    PyObject *list = PyList_New(v->count);
    for (uint32_t i = 0; list != NULL && i < v->count; i++) {
        PyObject *o = v->kind == MT_TENSORS ? mtpy_wrap(mt_retain(v->as.tensors[i]))
                                            : PyLong_FromLongLong(v->as.ints[i]);
        mtpy_put(&list, (Py_ssize_t)i, o);
    }
    return list;
}

static PyObject *value_object(const mt_value *v, const mt_param *p)
{
    switch ((mt_kind)v->kind) {
    case MT_TENSOR:
        return mtpy_wrap(mt_retain(v->as.tensor));
    case MT_TENSORS:
    case MT_INTS:
        return list_object(v);
    case MT_INT:
        if (p->type == MT_TYPE_DTYPE)
            return mtpy_dtype_object((mt_dtype)v->as.i);
        if (p->type == MT_TYPE_DEVICE)
            return mtpy_device_object((mt_device)v->as.i);
        if (p->type == MT_TYPE_BOOL)
            return PyBool_FromLong(v->as.i != 0);
        return PyLong_FromLongLong(v->as.i);
    case MT_FLOAT:
        return PyFloat_FromDouble(v->as.f);
    case MT_TRUTH:
        return PyBool_FromLong(v->as.i != 0);
    case MT_TEXT:
        return PyUnicode_FromStringAndSize(v->as.text, v->count);
    case MT_NONE:
        break;
    }
    Py_RETURN_NONE;
}

static bool is_default(const mt_value *v, const mt_param *p)
{
    const mt_value *by_default = &p->default_value;
    if (p->has_default && p->type == MT_TYPE_BOOL && v->kind != MT_NONE) /* 0 and 1 in C */
        return (v->as.i != 0) == (by_default->as.i != 0);
    if (!p->has_default || v->kind != by_default->kind)
        return false;
    switch ((mt_kind)v->kind) {
    case MT_NONE:
        return true;
    case MT_INT:
    case MT_TRUTH:
        return v->as.i == by_default->as.i;
    case MT_FLOAT:
        return v->as.f == by_default->as.f;
    case MT_INTS:
        return v->count == by_default->count &&
               memcmp(v->as.ints, by_default->as.ints, v->count * sizeof *v->as.ints) == 0;
    case MT_TEXT:
        return v->count == by_default->count && memcmp(v->as.text, by_default->as.text, v->count) == 0;
    case MT_TENSOR:
    case MT_TENSORS:
        break;
    }
    return false;
}

/* As PyTorch passes them: positional ones up to the last non-default one, and only non-default keyword
 * ones. */
static int make_arguments(mt_op_id op, const mt_value *values, unsigned count, PyObject **args,
                          PyObject **kwargs)
{
    unsigned positional = 0, n;
    const mt_param *params = mt_op_params(op, &n);
    for (unsigned i = 0; i < count; i++)
        if (!params[i].keyword_only && !is_default(&values[i], &params[i]))
            positional = i + 1;
    *args = PyTuple_New(positional);
    *kwargs = PyDict_New();
    bool bad = *args == NULL || *kwargs == NULL;
    for (unsigned i = 0; i < count && !bad; i++) {
        if (i >= positional && (!params[i].keyword_only || is_default(&values[i], &params[i])))
            continue;
        PyObject *o = value_object(&values[i], &params[i]);
        if (o != NULL && i < positional) {
            PyTuple_SET_ITEM(*args, i, o);
            continue;
        }
        PyObject *name = PyUnicode_FromStringAndSize(params[i].name, params[i].name_length);
        bad = o == NULL || name == NULL || PyDict_SetItem(*kwargs, name, o) < 0;
        Py_XDECREF(name);
        Py_XDECREF(o);
    }
    return bad ? -1 : 0;
}

/* out=: the tensor, or a tuple of them. */
static int add_out(mt_op_id op, mt_tensor *const *into, PyObject *kwargs)
{
    unsigned n = mt_op_outputs(op);
    PyObject *outs = n == 1 ? mtpy_wrap(mt_retain(into[0])) : PyTuple_New(n);
    for (unsigned i = 0; n > 1 && outs != NULL && i < n; i++) {
        PyObject *o = mtpy_wrap(mt_retain(into[i]));
        mtpy_put(&outs, (Py_ssize_t)i, o);
    }
    int bad = outs == NULL ? -1 : PyDict_SetItemString(kwargs, "out", outs);
    Py_XDECREF(outs);
    return bad;
}

/* ------------------------------------------------------------------------------------------------- results */

static int not_a_tensor(mt_op_id op, PyObject *o)
{
    PyErr_Format(PyExc_TypeError, "__torch_dispatch__ returned %s for %s; expected a Tensor",
                 Py_TYPE(o)->tp_name, mt_op_name(op));
    return -1;
}

/* A tensor, several, or None: owned tensors in *outs. */
static int read_result(mt_op_id op, PyObject *result, mt_tensor ***outs, unsigned *count)
{
    bool one = mtpy_is_tensor(result) || (result == Py_None && mt_op_outputs(op) == 1);
    if (result == Py_None && !one)
        return 0; /* an op that returns nothing */
    PyObject *items = one ? PyTuple_Pack(1, result) : PySequence_Tuple(result);
    if (items == NULL)
        return -1;
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    int bad = 0;
    *outs = calloc(n > 0 ? (size_t)n : 1, sizeof **outs);
    for (Py_ssize_t i = 0; i < n && *outs != NULL && bad == 0; i++) {
        PyObject *o = PyTuple_GET_ITEM(items, i);
        bool is_tensor = mtpy_is_tensor(o);
        if (!is_tensor && (o != Py_None || one || mt_op_outputs(op) == 0))
            bad = not_a_tensor(op, o);
        else
            (*outs)[(*count)++] = is_tensor ? mt_retain(mtpy_tensor_of(o)) : NULL;
    }
    if (*outs == NULL) {
        PyErr_NoMemory();
        bad = -1;
    }
    Py_DECREF(items);
    if (bad != 0) {
        mt_list_free(*outs, *outs != NULL ? *count : 0);
        *outs = NULL;
        *count = 0;
    }
    return bad;
}

/* ------------------------------------------------------------------------------------------------- the call */

static PyObject *ask_mode(PyObject *level, mt_op_id op, const mt_value *values, unsigned count)
{
    mt_tensor *const *into = mt_intercepted_into();
    PyObject *args = NULL, *kwargs = NULL, *result = NULL, *types = PyTuple_New(0);
    PyObject *function =
        PyList_GetItem(PyTuple_GET_ITEM(level, 1), op + (into != NULL ? mt_op_count() : 0)); /* borrowed */
    if (function != NULL && types != NULL && make_arguments(op, values, count, &args, &kwargs) == 0 &&
        (into == NULL || add_out(op, into, kwargs) == 0))
        result = PyObject_CallMethod(PyTuple_GET_ITEM(level, 0), "__torch_dispatch__", "OOOO", function,
                                     types, args, kwargs);
    Py_XDECREF(types);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return result;
}

static void put_in_force(PyObject *level, bool below_autograd);

static mt_status handle(void *user, mt_op_id op, const mt_value *values, unsigned count, mt_tensor ***outs,
                        unsigned *out_count)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *level = Py_NewRef((PyObject *)user), *before = innermost, *outer = PyTuple_GET_ITEM(level, 2);
    innermost = outer != Py_None ? Py_NewRef(outer) : NULL;
    put_in_force(innermost, true);
    PyObject *result = ask_mode(level, op, values, count);
    Py_XDECREF(innermost);
    innermost = before;
    bool good = result != NULL && read_result(op, result, outs, out_count) == 0;
    Py_XDECREF(result);
    Py_DECREF(level);
    if (!good)
        mtpy_keep_exception();
    PyGILState_Release(gil);
    return good ? MT_OK : MT_E_CALLBACK;
}

static void put_in_force(PyObject *level, bool below_autograd)
{
    mt_intercept((mt_interceptor){level != NULL ? handle : NULL, level, below_autograd});
}

static bool is_below(void)
{
    mt_interceptor now = mt_intercept((mt_interceptor){0});
    mt_intercept(now);
    return now.below_autograd;
}

static PyObject *push(PyObject *module, PyObject *args)
{
    PyObject *mode, *functions;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!", &mode, &PyList_Type, &functions))
        return NULL;
    PyObject *level = PyTuple_Pack(3, mode, functions, innermost != NULL ? innermost : Py_None);
    if (level == NULL)
        return NULL;
    Py_XSETREF(innermost, level);
    put_in_force(innermost, is_below());
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *module, PyObject *mode)
{
    (void)module;
    if (innermost == NULL || PyTuple_GET_ITEM(innermost, 0) != mode)
        return PyErr_Format(PyExc_RuntimeError,
                            "this is not the innermost mode of this thread: leave modes in the reverse "
                            "order of entering them");
    PyObject *outer = PyTuple_GET_ITEM(innermost, 2), *old = innermost;
    innermost = outer != Py_None ? Py_NewRef(outer) : NULL;
    put_in_force(innermost, is_below());
    Py_DECREF(old);
    Py_RETURN_NONE;
}

PyMethodDef mtpy_dispatch_mode_functions[] = {
    {"_push_dispatch_mode", push, METH_VARARGS,
     "_push_dispatch_mode(mode, functions): one function per row of the op table, then one per row for out="},
    {"_pop_dispatch_mode", pop, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
