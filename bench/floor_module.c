/* bench/floor_module.c - the floor for record_function: a context manager in C that ignores its name. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct empty {
    PyObject_HEAD
    PyObject *name;
} empty;

static PyObject *empty_vectorcall(PyObject *type, PyObject *const *args, size_t flags, PyObject *names)
{
    if (names != NULL || PyVectorcall_NARGS(flags) != 1)
        return PyErr_Format(PyExc_TypeError, "empty(name)");
    empty *e = (empty *)((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
    if (e != NULL)
        e->name = Py_NewRef(args[0]);
    return (PyObject *)e;
}

static void empty_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((empty *)self)->name);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *empty_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *empty_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self, (void)args, (void)count;
    Py_RETURN_NONE;
}

PyMODINIT_FUNC PyInit_mtprof_floor(void);
PyMODINIT_FUNC PyInit_mtprof_floor(void)
{
    static PyMethodDef methods[] = {
        {"__enter__", empty_enter, METH_NOARGS, NULL},
        {"__exit__", (PyCFunction)(void (*)(void))empty_exit, METH_FASTCALL, NULL},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {{Py_tp_dealloc, empty_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
    static PyType_Spec spec = {"mtprof_floor.empty", sizeof(empty), 0, Py_TPFLAGS_DEFAULT, slots};
    static struct PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT, .m_name = "mtprof_floor", .m_size = -1};
    PyObject *module = PyModule_Create(&definition), *type = PyType_FromSpec(&spec);
    if (module == NULL || type == NULL)
        return NULL;
    ((PyTypeObject *)type)->tp_vectorcall = empty_vectorcall;
    return PyModule_AddObjectRef(module, "empty", type) == 0 ? module : NULL;
}
