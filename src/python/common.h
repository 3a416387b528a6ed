/* python/common.h - helpers of both extension modules, mindtorch_v2._C and mtprof._native. */
#ifndef PYTHON_COMMON_H
#define PYTHON_COMMON_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#ifdef Py_GIL_DISABLED
#error "this Python is free-threaded, which mtprof does not support: its modules rely on the GIL"
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Functions without arguments (METH_NOARGS), and getters, that return an expression. */
#define MTPY_NOARGS(name, ...)                                                                               \
    static PyObject *name(PyObject *self, PyObject *unused)                                                  \
    {                                                                                                        \
        (void)self, (void)unused;                                                                            \
        return __VA_ARGS__;                                                                                  \
    }
#define MTPY_GETTER(name, ...)                                                                               \
    static PyObject *name(PyObject *self, void *unused)                                                      \
    {                                                                                                        \
        (void)unused;                                                                                        \
        return __VA_ARGS__;                                                                                  \
    }

/* Sets item i of a new list or tuple. Takes item; if that is NULL (an exception is set), clears *sequence. */
static inline void mtpy_put(PyObject **sequence, Py_ssize_t i, PyObject *item)
{
    if (item == NULL)
        Py_CLEAR(*sequence);
    else if (PyList_CheckExact(*sequence))
        PyList_SET_ITEM(*sequence, i, item);
    else
        PyTuple_SET_ITEM(*sequence, i, item);
}

#endif
