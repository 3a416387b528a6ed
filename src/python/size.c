/* python/size.c - torch.Size: a tuple of ints with numel(). */
#include "python/binding.h"

PyObject *mtpy_size_object(const int64_t *dims, int rank)
{
    PyObject *o = mtpy.size->tp_alloc(mtpy.size, rank);
    for (int i = 0; o != NULL && i < rank; i++) {
        PyObject *n = PyLong_FromLongLong(dims[i]);
        if (n == NULL) {
            Py_CLEAR(o);
            break;
        }
        PyTuple_SET_ITEM(o, i, n);
    }
    return o;
}

static PyObject *size_new(PyTypeObject *cls, PyObject *args, PyObject *names)
{
    PyObject *o = PyTuple_Type.tp_new(cls, args, names);
    for (Py_ssize_t i = 0; o != NULL && i < PyTuple_GET_SIZE(o); i++) {
        PyObject *item = PyTuple_GET_ITEM(o, i), *n = NULL;
        if (PyLong_CheckExact(item))
            continue;
        if (PyIndex_Check(item))
            n = PyNumber_Index(item);
        else
            PyErr_Format(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i,
                         Py_TYPE(item)->tp_name);
        if (n == NULL) {
            Py_CLEAR(o);
            break;
        }
        PyTuple_SET_ITEM(o, i, n);
        Py_DECREF(item);
    }
    return o;
}

static PyObject *size_repr(PyObject *self)
{
    PyObject *list = PySequence_List(self);
    PyObject *text = list != NULL ? PyUnicode_FromFormat("torch.Size(%R)", list) : NULL;
    Py_XDECREF(list);
    return text;
}

static PyObject *numel(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *n = PyLong_FromLong(1);
    for (Py_ssize_t i = 0; n != NULL && i < PyTuple_GET_SIZE(self); i++)
        Py_SETREF(n, PyNumber_Multiply(n, PyTuple_GET_ITEM(self, i)));
    return n;
}

/* Converts a plain tuple to a Size. Takes it. */
static PyObject *as_size(PyObject *tuple)
{
    if (tuple == NULL || !PyTuple_CheckExact(tuple))
        return tuple;
    PyObject *o = PyObject_CallOneArg((PyObject *)mtpy.size, tuple);
    Py_DECREF(tuple);
    return o;
}

static PyObject *concat(PyObject *self, PyObject *other)
{
    return as_size(PyTuple_Type.tp_as_sequence->sq_concat(self, other));
}

static PyObject *repeat(PyObject *self, Py_ssize_t n)
{
    PyObject *made = PyTuple_Type.tp_as_sequence->sq_repeat(self, n);
    return as_size(made);
}

static PyObject *subscript(PyObject *self, PyObject *index)
{
    PyObject *item = PyTuple_Type.tp_as_mapping->mp_subscript(self, index);
    return PySlice_Check(index) ? as_size(item) : item;
}

MTPY_NOARGS(reduce, Py_BuildValue("O(N)", (PyObject *)mtpy.size, PySequence_Tuple(self)))

static PyMethodDef methods[] = {
    {"numel", numel, METH_NOARGS, "The number of elements of a tensor of this size."},
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, size_new},
    {Py_tp_repr, size_repr},
    {Py_tp_methods, methods},
    {Py_sq_concat, concat},
    {Py_sq_repeat, repeat},
    {Py_mp_subscript, subscript},
    {0, NULL},
};
static PyType_Spec spec = {"mindtorch_v2.Size", 0, 0, Py_TPFLAGS_DEFAULT, slots};

int mtpy_size_init(PyObject *module)
{
    PyObject *bases = PyTuple_Pack(1, &PyTuple_Type);
    mtpy.size = bases != NULL ? (PyTypeObject *)PyType_FromSpecWithBases(&spec, bases) : NULL;
    Py_XDECREF(bases);
    return mtpy.size == NULL ? -1 : PyModule_AddObjectRef(module, "Size", (PyObject *)mtpy.size);
}
