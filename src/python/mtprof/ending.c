/* python/mtprof/ending.c - ends_in(method, end): wraps a method so that end(self) runs if it fails, even when
 * interrupted.
 *
 * A signal handler may raise (Ctrl-C: KeyboardInterrupt) at the first instruction of a Python function,
 * before any `try` in it, or in the middle of a `finally`. So cleanup written in Python may never run. Here
 * end() is called from C, and retried if it is interrupted as well.
 */
#include "python/mtprof/native.h"
#include <structmember.h>

enum {
    TRIES = 100
};

typedef struct ending {
    PyObject_HEAD
    PyObject *method, *end, *dict;
} ending;

static PyObject *ending_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *method = NULL, *end = NULL;
    if (kwargs != NULL || !PyArg_UnpackTuple(args, "ends_in", 2, 2, &method, &end) ||
        !PyCallable_Check(method) || !PyCallable_Check(end))
        return PyErr_Format(PyExc_TypeError, "ends_in() takes two functions: a method and its cleanup");
    PyObject *dict = Py_BuildValue("{sO}", "__wrapped__", method); /* for inspect.signature */
    ending *e = dict != NULL ? (ending *)type->tp_alloc(type, 0) : NULL;
    if (e == NULL) {
        Py_XDECREF(dict);
        return NULL;
    }
    e->method = Py_NewRef(method);
    e->end = Py_NewRef(end);
    e->dict = dict;
    return (PyObject *)e;
}

static int ending_traverse(PyObject *self, visitproc visit, void *arg)
{
    ending *e = (ending *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(e->method);
    Py_VISIT(e->end);
    Py_VISIT(e->dict);
    return 0;
}

static int ending_clear(PyObject *self)
{
    ending *e = (ending *)self;
    Py_CLEAR(e->method);
    Py_CLEAR(e->end);
    Py_CLEAR(e->dict);
    return 0;
}

static void ending_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    ending_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *ending_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    ending *e = (ending *)self;
    PyObject *result = PyObject_Call(e->method, args, kwargs);
    if (result != NULL || PyTuple_GET_SIZE(args) == 0)
        return result;
    PyObject *type, *value, *trace, *ended = NULL;
    PyErr_Fetch(&type, &value, &trace);
    for (int i = 0; ended == NULL && i < TRIES; i++) {
        ended = PyObject_CallOneArg(e->end, PyTuple_GET_ITEM(args, 0));
        if (ended == NULL)
            PyErr_Clear();
    }
    Py_XDECREF(ended);
    PyErr_Restore(type, value, trace);
    return NULL;
}

/* Name, docstring, qualified name and module are the method's. */
static PyObject *ending_attribute(PyObject *self, PyObject *name)
{
    static const char *const methods[] = {"__doc__", "__name__", "__qualname__", "__module__"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (PyUnicode_CompareWithASCIIString(name, methods[i]) == 0)
            return PyObject_GetAttr(((ending *)self)->method, name);
    return PyObject_GenericGetAttr(self, name);
}

int mtpn_ending_init(PyObject *module)
{
    static PyMemberDef members[] = {
        {"__dictoffset__", T_PYSSIZET, offsetof(ending, dict), READONLY, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_new, ending_new},
        {Py_tp_dealloc, ending_dealloc},
        {Py_tp_traverse, ending_traverse},
        {Py_tp_clear, ending_clear},
        {Py_tp_call, ending_call},
        {Py_tp_descr_get, mtpn_bind},
        {Py_tp_getattro, ending_attribute},
        {Py_tp_members, members},
        {0, NULL},
    };
    static PyType_Spec spec = {"mtprof.ends_in", sizeof(ending), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                               slots};
    return mtpn_add_type(module, "ends_in", &spec) == NULL ? -1 : 0;
}
