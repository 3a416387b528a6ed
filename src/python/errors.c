/* python/errors.c - turns a status into a Python exception; nothing else does. */
#include "python/binding.h"
#include <string.h>

/* The exception of a callback, kept until the call that it ended returns. */
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

int mtpy_errors_init(PyObject *module)
{
    mtpy.out_of_memory = PyErr_NewExceptionWithDoc(
        "mindtorch_v2.OutOfMemoryError", "An accelerator is out of memory.", PyExc_RuntimeError, NULL);
    return mtpy.out_of_memory == NULL ? -1
                                      : PyModule_AddObjectRef(module, "OutOfMemoryError", mtpy.out_of_memory);
}

PyObject *mtpy_raise(mt_status status)
{
    if (status == MT_E_CALLBACK && kept.type != NULL) {
        PyErr_Restore(kept.type, kept.value, kept.trace); /* takes all three */
        kept.type = kept.value = kept.trace = NULL;
        return NULL;
    }
    PyObject *kind = PyExc_RuntimeError; /* PyTorch's choice, also when the CPU is out of memory */
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
    if (status == MT_E_NOMEM && strncmp(mt_last_error(), "NPU", 3) == 0)
        PyErr_SetString(mtpy.out_of_memory, mt_last_error());
    else if (status == MT_E_NOMEM)
        PyErr_Format(kind, "[enforce fail] DefaultCPUAllocator: %s", mt_last_error());
    else
        PyErr_SetString(kind, mt_last_error());
    return NULL;
}
