/* python/dtype.c - torch.dtype: one immortal object per dtype of the runtime. */
#include "python/binding.h"

typedef struct dtype_object {
    PyObject_HEAD
    mt_dtype dtype;
} dtype_object;

bool mtpy_dtype(PyObject *o, mt_dtype *out)
{
    if (Py_IS_TYPE(o, mtpy.dtype))
        *out = ((dtype_object *)o)->dtype;
    else if (o == (PyObject *)&PyFloat_Type)
        *out = MT_FLOAT64;
    else if (o == (PyObject *)&PyLong_Type)
        *out = MT_INT64;
    else if (o == (PyObject *)&PyBool_Type)
        *out = MT_BOOL;
    else
        return false;
    return true;
}

PyObject *mtpy_dtype_object(mt_dtype dtype)
{
    return Py_NewRef(mtpy.dtypes[dtype]);
}

static PyObject *repr(PyObject *self)
{
    return PyUnicode_FromFormat("torch.%s", mt_dtype_name(((dtype_object *)self)->dtype));
}

static PyObject *reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(mt_dtype_name(((dtype_object *)self)->dtype)); /* a global */
}

MTPY_GETTER(is_floating_point, PyBool_FromLong(mt_dtype_is_real(((dtype_object *)self)->dtype)))

static PyObject *is_complex(PyObject *self, void *unused)
{
    (void)self, (void)unused;
    Py_RETURN_FALSE;
}

MTPY_GETTER(is_signed, PyBool_FromLong(((dtype_object *)self)->dtype != MT_BOOL &&
                                       ((dtype_object *)self)->dtype != MT_UINT8))

/* "Float", as in torch.FloatTensor */
MTPY_GETTER(scalar_type, PyUnicode_FromString(mt_dtype_describe(((dtype_object *)self)->dtype)->scalar_type))

/* The character of the struct module */
MTPY_GETTER(format, PyUnicode_FromString(mt_dtype_describe(((dtype_object *)self)->dtype)->format))

MTPY_GETTER(itemsize, PyLong_FromSize_t(mt_dtype_bytes(((dtype_object *)self)->dtype)))

static PyObject *refuse_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    (void)type, (void)args, (void)names;
    PyErr_SetString(PyExc_TypeError, "cannot create 'torch.dtype' instances");
    return NULL;
}

static PyGetSetDef properties[] = {
    {"is_floating_point", is_floating_point, NULL, NULL, NULL},
    {"is_complex", is_complex, NULL, NULL, NULL},
    {"is_signed", is_signed, NULL, NULL, NULL},
    {"itemsize", itemsize, NULL, NULL, NULL},
    {"_scalar_type", scalar_type, NULL, NULL, NULL},
    {"_format", format, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_repr, repr}, {Py_tp_methods, methods}, {Py_tp_getset, properties}, {Py_tp_new, refuse_new},
    {0, NULL},
};
static PyType_Spec spec = {"mindtorch_v2.dtype", sizeof(dtype_object), 0, Py_TPFLAGS_DEFAULT, slots};

int mtpy_dtype_init(PyObject *module)
{
    mtpy.dtype = (PyTypeObject *)PyType_FromSpec(&spec);
    if (mtpy.dtype == NULL || PyModule_AddObjectRef(module, "dtype", (PyObject *)mtpy.dtype) < 0)
        return -1;
    for (unsigned i = 0; i < MT_DTYPES; i++) {
        dtype_object *o = PyObject_New(dtype_object, mtpy.dtype);
        if (o == NULL)
            return -1;
        o->dtype = (mt_dtype)i;
        mtpy.dtypes[i] = (PyObject *)o;
    }
    for (unsigned i = 0; i < MT_DTYPES; i++) {
        const mt_dtype_info *info = mt_dtype_describe((mt_dtype)i);
        if (PyModule_AddObjectRef(module, info->name, mtpy.dtypes[i]) < 0 ||
            PyModule_AddObjectRef(module, info->other_name, mtpy.dtypes[i]) < 0)
            return -1;
    }
    return 0;
}
