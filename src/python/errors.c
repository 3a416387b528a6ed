/* python/errors.c - a status becomes a Python exception, here and nowhere else. */
#include "python/binding.h"

/* What a callback raised, between its return and the end of the call that it ended. */
static _Thread_local struct {
    PyObject *type, *value, *trace; /* owned */
} kept;

void mtpy_keep_exception(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Py_XSETREF(kept.type, type);
    Py_XSETREF(kept.value, value);
    Py_XSETREF(kept.trace, trace);
}

PyObject *mtpy_raise(mt_status status)
{
    if (status == MT_E_CALLBACK && kept.type != NULL) {
        PyErr_Restore(kept.type, kept.value, kept.trace); /* takes all three */
        kept.type = kept.value = kept.trace = NULL;
        return NULL;
    }
    PyObject *kind = PyExc_RuntimeError; /* PyTorch's for want of memory, too */
    switch (status) {
    case MT_E_VALUE:
        kind = PyExc_ValueError;
        break;
    case MT_E_TYPE:
        kind = PyExc_TypeError;
        break;
    case MT_E_INDEX:
        kind = PyExc_IndexError;
        break;
    case MT_E_NOT_IMPLEMENTED:
        kind = PyExc_NotImplementedError;
        break;
    default:
        break;
    }
    if (status == MT_E_NOMEM)
        PyErr_Format(kind, "[enforce fail] DefaultCPUAllocator: %s", mt_last_error());
    else
        PyErr_SetString(kind, mt_last_error());
    return NULL;
}
