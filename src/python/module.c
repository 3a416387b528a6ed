/* python/module.c - mindtorch_v2._C: its types, its functions, and process-wide settings and queries. */
#include "python/binding.h"
#include <mtprof.h>

struct mtpy_state mtpy;

static PyObject *manual_seed(PyObject *module, PyObject *seed)
{
    (void)module;
    PyObject *whole = PyNumber_Index(seed);
    if (whole == NULL)
        return NULL;
    unsigned long long value = PyLong_AsUnsignedLongLongMask(whole); /* negative seeds wrap, as in PyTorch */
    Py_DECREF(whole);
    if (PyErr_Occurred())
        return NULL;
    mt_manual_seed(value);
    Py_RETURN_NONE;
}

MTPY_NOARGS(initial_seed, PyLong_FromUnsignedLongLong(mt_initial_seed()))

static PyObject *random_swap(PyObject *module, PyObject *state)
{
    (void)module;
    if (!PyByteArray_Check(state) || (size_t)PyByteArray_GET_SIZE(state) != mt_random_bytes()) {
        PyErr_Format(PyExc_TypeError, "a generator state must be a bytearray of %zu bytes",
                     mt_random_bytes());
        return NULL;
    }
    mt_random_swap(PyByteArray_AS_STRING(state));
    Py_RETURN_NONE;
}

MTPY_NOARGS(random_bytes, PyLong_FromSize_t(mt_random_bytes()))

MTPY_NOARGS(get_num_threads, PyLong_FromLong(mt_num_threads()))

static PyObject *set_num_threads(PyObject *module, PyObject *count)
{
    (void)module;
    long n = PyLong_AsLong(count);
    if (n == -1 && PyErr_Occurred())
        return NULL;
    if (n < 1 || n > 4096) {
        PyErr_SetString(PyExc_RuntimeError, "set_num_threads expects a positive integer");
        return NULL;
    }
    mt_set_num_threads((int)n);
    Py_RETURN_NONE;
}

MTPY_NOARGS(blas_name, PyUnicode_FromString(mt_blas_name()))

MTPY_NOARGS(get_default_dtype, mtpy_dtype_object(mt_default_dtype()))

MTPY_NOARGS(get_default_device, mtpy_device_object(mt_default_device()))

static PyObject *set_default_device(PyObject *module, PyObject *given)
{
    mt_device device = MT_CPU;
    (void)module;
    int fits = given == Py_None ? 1 : mtpy_device(given, &device);
    if (fits == 0)
        PyErr_Format(PyExc_TypeError, "set_default_device() expects a torch.device, not %s",
                     Py_TYPE(given)->tp_name);
    if (fits <= 0)
        return NULL;
    mt_status status = mt_set_default_device(device);
    return mtpy_none(status);
}

static PyObject *set_default_dtype(PyObject *module, PyObject *given)
{
    mt_dtype dtype;
    (void)module;
    if (!mtpy_dtype(given, &dtype)) {
        PyErr_Format(PyExc_TypeError, "set_default_dtype() expects a torch.dtype, not %s",
                     Py_TYPE(given)->tp_name);
        return NULL;
    }
    mt_status status = mt_set_default_dtype(dtype);
    return mtpy_none(status);
}

static int parse_device(PyObject *given, mt_device *device)
{
    int fits = mtpy_device(given, device);
    if (fits == 0)
        PyErr_Format(PyExc_TypeError, "expected a torch.device, not %s", Py_TYPE(given)->tp_name);
    return fits > 0 ? 0 : -1;
}

static PyObject *memory_stats(PyObject *module, PyObject *given)
{
    mt_device device;
    mt_memory_stats s = {.size = sizeof s};
    (void)module;
    if (parse_device(given, &device) < 0)
        return NULL;
    mt_status status = mt_memory(device, &s);
    if (status != MT_OK)
        return mtpy_raise(status);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "allocated", s.allocated, "reserved", s.reserved,
                         "peak_allocated", s.peak_allocated, "peak_reserved", s.peak_reserved, "allocations",
                         s.allocations, "frees", s.frees);
}

static PyObject *do_on_device(PyObject *given, void (*function)(mt_device device))
{
    mt_device device;
    if (parse_device(given, &device) < 0)
        return NULL;
    function(device);
    Py_RETURN_NONE;
}

static PyObject *memory_reset_peak(PyObject *module, PyObject *given)
{
    (void)module;
    return do_on_device(given, mt_memory_reset_peak);
}

static PyObject *memory_empty_cache(PyObject *module, PyObject *given)
{
    (void)module;
    return do_on_device(given, mt_memory_empty_cache);
}

static PyObject *memory_tag(PyObject *module, PyObject *args)
{
    PyObject *tensor;
    int category;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!i:_memory_tag", mtpy.tensor, &tensor, &category))
        return NULL;
    if (category < 0 || category > 255) {
        PyErr_SetString(PyExc_ValueError, "_memory_tag: no such category");
        return NULL;
    }
    mt_tensor_tag(mtpy_tensor_of(tensor), category);
    Py_RETURN_NONE;
}

static PyObject *tag_parameter(PyObject *module, PyObject *tensor)
{
    (void)module;
    if (!mtpy_is_tensor(tensor)) {
        PyErr_Format(PyExc_TypeError, "tag_parameter() expects a Tensor, not %s", Py_TYPE(tensor)->tp_name);
        return NULL;
    }
    mt_tensor_tag(mtpy_tensor_of(tensor), MTP_MEMORY_PARAMETER);
    Py_RETURN_NONE;
}

static PyObject *scope_begin(PyObject *module, PyObject *name)
{
    (void)module;
    Py_ssize_t n;
    const char *text = PyUnicode_AsUTF8AndSize(name, &n);
    return text == NULL ? NULL : PyLong_FromUnsignedLongLong(mtp_scope_begin_text(text, (size_t)n));
}

static PyObject *scope_end(PyObject *module, PyObject *token)
{
    (void)module;
    mtp_token number = PyLong_AsUnsignedLongLong(token);
    if (number == (mtp_token)-1 && PyErr_Occurred())
        return NULL;
    mtp_scope_end(number);
    Py_RETURN_NONE;
}

/* A list with one item per row of the op table. */
static PyObject *for_each_op(PyObject *(*item)(mt_op_id op))
{
    PyObject *list = PyList_New((Py_ssize_t)mt_op_count());
    for (unsigned i = 0; list != NULL && i < mt_op_count(); i++)
        mtpy_put(&list, (Py_ssize_t)i, item((mt_op_id)i));
    return list;
}

/* (id, name, schema, backward's name or None, has a CPU kernel, has an NPU kernel) */
static PyObject *op_row(mt_op_id op)
{
    return Py_BuildValue("(ssszNN)", mt_op_id_text(op), mt_op_name(op) + 6, mt_op_schema(op),
                         mt_op_backward(op), PyBool_FromLong(mt_op_has_kernel(op, 0)),
                         PyBool_FromLong(mt_op_has_kernel(op, 1)));
}

static PyObject *recorded_schema(mt_op_id op)
{
    char schema[1024];
    size_t length = mt_op_recorded_schema(op, schema, sizeof schema);
    return length < sizeof schema
               ? PyUnicode_FromStringAndSize(schema, (Py_ssize_t)length)
               : PyErr_Format(PyExc_ValueError, "%s: its schema is too long", mt_op_name(op));
}

static PyObject *out_overload(mt_op_id op)
{
    return Py_BuildValue("z", mt_op_out(op));
}

MTPY_NOARGS(op_table, for_each_op(op_row))
MTPY_NOARGS(recorded_schemas, for_each_op(recorded_schema))
MTPY_NOARGS(out_overloads, for_each_op(out_overload))

static PyMethodDef functions[] = {
    {"manual_seed", manual_seed, METH_O, NULL},
    {"initial_seed", initial_seed, METH_NOARGS, NULL},
    {"_random_swap", random_swap, METH_O,
     "_random_swap(bytearray): swaps the generator's state with the bytearray's"},
    {"_random_bytes", random_bytes, METH_NOARGS, NULL},
    {"get_num_threads", get_num_threads, METH_NOARGS, NULL},
    {"set_num_threads", set_num_threads, METH_O, NULL},
    {"blas_name", blas_name, METH_NOARGS, NULL},
    {"get_default_dtype", get_default_dtype, METH_NOARGS, NULL},
    {"get_default_device", get_default_device, METH_NOARGS, NULL},
    {"set_default_device", set_default_device, METH_O, NULL},
    {"set_default_dtype", set_default_dtype, METH_O, NULL},
    {"_memory_stats", memory_stats, METH_O, NULL},
    {"_memory_reset_peak", memory_reset_peak, METH_O, NULL},
    {"_memory_empty_cache", memory_empty_cache, METH_O, NULL},
    {"_memory_tag", memory_tag, METH_VARARGS, "_memory_tag(tensor, category): see mtp_memory_category"},
    {"tag_parameter", tag_parameter, METH_O, NULL},
    {"scope_begin", scope_begin, METH_O,
     "scope_begin(name): begins a scope in profiles; pass the result to scope_end"},
    {"scope_end", scope_end, METH_O, NULL},
    {"_op_table", op_table, METH_NOARGS, NULL},
    {"_recorded_schemas", recorded_schemas, METH_NOARGS,
     "the recorded schema of each row of the table: see mt_op_recorded_schema"},
    {"_out_overloads", out_overloads, METH_NOARGS,
     "the out= overload of each row of the table: see mt_op_out"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "mindtorch_v2._C",
    .m_doc = "The tensor runtime; see include/mindtorch.h.",
    .m_size = -1, /* one per process, like tensors */
    .m_methods = functions,
};

/* Lets the profiler read tensors that modules and optimizers hold: see mtprof.set_tensor_reader. */
static int read_tensor(PyObject *object, mtp_input *in, mtp_identity *identity)
{
    return mtpy_is_tensor(object) && mt_tensor_describe(mtpy_tensor_of(object), in, identity) == MT_OK;
}

static int add_tensor_reader(PyObject *module)
{
    int (*function)(PyObject *, mtp_input *, mtp_identity *) = read_tensor;
    void *pointer;
    memcpy(&pointer, &function, sizeof pointer); /* ISO C has no such conversion */
    PyObject *capsule = PyCapsule_New(pointer, "mtprof.tensor_reader", NULL);
    int bad = capsule == NULL ? -1 : PyModule_AddObjectRef(module, "_tensor_reader", capsule);
    Py_XDECREF(capsule);
    return bad;
}

PyMODINIT_FUNC PyInit__C(void);
PyMODINIT_FUNC PyInit__C(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    if (PyModule_AddStringConstant(module, "__version__", mtp_version()) < 0 ||
        PyModule_AddFunctions(module, mtpy_convert_functions) < 0 || mtpy_errors_init(module) < 0 ||
        PyModule_AddFunctions(module, mtpy_npu_functions) < 0 ||
        PyModule_AddFunctions(module, mtpy_dispatch_mode_functions) < 0 ||
        PyModule_AddFunctions(module, mtpy_autocast_functions) < 0 ||
        PyModule_AddFunctions(module, mtpy_autograd_functions) < 0 || mtpy_dtype_init(module) < 0 ||
        mtpy_device_init(module) < 0 || mtpy_size_init(module) < 0 || mtpy_tensor_type_init(module) < 0 ||
        mtpy_autograd_init(module) < 0 || mtpy_call_init(module) < 0 || add_tensor_reader(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
