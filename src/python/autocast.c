/* python/autocast.c - the state of mixed precision, as torch has it: torch.is_autocast_enabled() ... */
#include "python/binding.h"

/* The type of device that a name means: "cuda" is the accelerator. -1: an exception is set. */
static int device_type(PyObject *o)
{
    mt_device device = MT_CPU;
    const char *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
    if (text == NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "argument 'device_type' must be str, not %s", Py_TYPE(o)->tp_name);
        return -1;
    }
    if (strcmp(text, "cuda") == 0 || strcmp(text, "npu") == 0)
        return 1;
    int fits = mtpy_device(o, &device);
    if (fits == 0)
        PyErr_Format(PyExc_RuntimeError,
                     "Expected one of cpu, cuda, npu device type at start of device string: %s", text);
    return fits > 0 ? (int)MT_DEVICE_TYPE(device) : -1;
}

/* is_autocast_enabled(device_type="cuda") */
static PyObject *is_enabled(PyObject *module, PyObject *args)
{
    PyObject *given = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "|O:is_autocast_enabled", &given))
        return NULL;
    int type = given != NULL ? device_type(given) : 1;
    return type < 0 ? NULL : PyBool_FromLong(mt_autocast_enabled((unsigned)type));
}

/* set_autocast_enabled(device_type, enabled), or (enabled) for "cuda" */
static PyObject *set_enabled(PyObject *module, PyObject *args)
{
    PyObject *first, *second = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O|O:set_autocast_enabled", &first, &second))
        return NULL;
    int type = second != NULL ? device_type(first) : 1;
    PyObject *on = second != NULL ? second : first;
    if (type >= 0 && !PyBool_Check(on))
        return PyErr_Format(PyExc_TypeError,
                            "set_autocast_enabled(): argument 'enabled' must be bool, not %s",
                            Py_TYPE(on)->tp_name);
    return type < 0 ? NULL : mtpy_none(mt_autocast_enable((unsigned)type, on == Py_True));
}

static PyObject *get_dtype(PyObject *module, PyObject *given)
{
    (void)module;
    int type = device_type(given);
    return type < 0 ? NULL : mtpy_dtype_object(mt_autocast_dtype((unsigned)type));
}

static PyObject *set_dtype(PyObject *module, PyObject *args)
{
    PyObject *first, *second;
    mt_dtype dtype;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:set_autocast_dtype", &first, &second))
        return NULL;
    int type = device_type(first);
    if (type < 0)
        return NULL;
    if (!mtpy_dtype(second, &dtype))
        return PyErr_Format(PyExc_TypeError,
                            "set_autocast_dtype(): argument 'dtype' must be torch.dtype, not %s",
                            Py_TYPE(second)->tp_name);
    return mtpy_none(mt_autocast_set_dtype((unsigned)type, dtype));
}

static PyObject *set_cache(PyObject *module, PyObject *on)
{
    (void)module;
    if (!PyBool_Check(on))
        return PyErr_Format(PyExc_TypeError, "enabled must be a bool (got %s)", Py_TYPE(on)->tp_name);
    return mtpy_none(mt_autocast_set_cache(on == Py_True));
}

static PyObject *nest(int by)
{
    int64_t depth;
    mt_status status = mt_autocast_nest(by, &depth);
    return status == MT_OK ? PyLong_FromLongLong(depth) : mtpy_raise(status);
}

static PyObject *clear_cache(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    mt_autocast_clear_cache();
    Py_RETURN_NONE;
}

MTPY_NOARGS(increment_nesting, nest(1))
MTPY_NOARGS(decrement_nesting, nest(-1))
MTPY_NOARGS(caches, PyBool_FromLong(mt_autocast_caches()))
MTPY_NOARGS(any_enabled, PyBool_FromLong(mt_autocast_enabled(0) || mt_autocast_enabled(1)))

PyMethodDef mtpy_autocast_functions[] = {
    {"is_autocast_enabled", is_enabled, METH_VARARGS, NULL},
    {"set_autocast_enabled", set_enabled, METH_VARARGS, NULL},
    {"get_autocast_dtype", get_dtype, METH_O, NULL},
    {"set_autocast_dtype", set_dtype, METH_VARARGS, NULL},
    {"is_autocast_cache_enabled", caches, METH_NOARGS, NULL},
    {"set_autocast_cache_enabled", set_cache, METH_O, NULL},
    {"autocast_increment_nesting", increment_nesting, METH_NOARGS, NULL},
    {"autocast_decrement_nesting", decrement_nesting, METH_NOARGS, NULL},
    {"clear_autocast_cache", clear_cache, METH_NOARGS, NULL},
    {"_is_any_autocast_enabled", any_enabled, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
