/* python/tensor_methods.c - methods of Tensor other than operators and table ops: shape and memory, autograd,
 * conversions.
 */
#include "python/binding.h"
#include <mtprof.h>

#define SELF mtpy_tensor_of(self)
#define AS_METHOD(f) ((PyCFunction)(void (*)(void))(f))

/* ------------------------------------------------------------------------------------------ shape and memory */

MTPY_GETTER(get_shape, mtpy_size_object(mt_dims(SELF), mt_rank(SELF)))

/* One of n numbers, selected by an int or the keyword dim. */
static PyObject *one_of(const char *name, PyObject *self, const int64_t *numbers, PyObject *const *args,
                        Py_ssize_t n, PyObject *names, bool *asked)
{
    Py_ssize_t total = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    int rank = mt_rank(SELF);
    int64_t dim;
    *asked = total > 0 && !(total == 1 && args[0] == Py_None);
    if (!*asked)
        return NULL;
    if (total > 1 || (names != NULL && PyTuple_GET_SIZE(names) == 1 &&
                      PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "dim") != 0 &&
                      PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "axis") != 0)) {
        PyErr_Format(PyExc_TypeError, "%s() takes one argument, dim", name);
        return NULL;
    }
    int fits = mtpy_index(args[0], &dim);
    if (fits == 0)
        PyErr_Format(PyExc_TypeError, "%s(): argument 'dim' (position 1) must be int, not %s", name,
                     Py_TYPE(args[0])->tp_name);
    if (fits <= 0)
        return NULL;
    if (dim < -rank || dim >= rank) {
        PyErr_Format(PyExc_IndexError,
                     "Dimension out of range (expected to be in range of [%d, %d], but got %lld)",
                     rank > 0 ? -rank : -1, rank > 0 ? rank - 1 : 0, (long long)dim);
        return NULL;
    }
    return PyLong_FromLongLong(numbers[dim < 0 ? dim + rank : dim]);
}

static PyObject *size(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    bool asked;
    PyObject *one = one_of("size", self, mt_dims(SELF), args, n, names, &asked);
    return asked ? one : get_shape(self, NULL);
}

static PyObject *stride(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    bool asked;
    PyObject *one = one_of("stride", self, mt_strides(SELF), args, n, names, &asked);
    if (asked)
        return one;
    PyObject *tuple = PyTuple_New(mt_rank(SELF));
    for (int i = 0; tuple != NULL && i < mt_rank(SELF); i++) {
        PyObject *item = PyLong_FromLongLong(mt_strides(SELF)[i]);
        mtpy_put(&tuple, (Py_ssize_t)i, item);
    }
    return tuple;
}

MTPY_NOARGS(dim, PyLong_FromLong(mt_rank(SELF)))
MTPY_NOARGS(numel, PyLong_FromLongLong(mt_numel(SELF)))

/* Do the channels of images lie together? PyTorch's memory format channels_last. */
static bool channels_are_last(const mt_tensor *t)
{
    static const int order[] = {1, 3, 2, 0};
    const int64_t *dims = mt_dims(t), *strides = mt_strides(t);
    int64_t step = 1;
    for (int i = 0; i < 4; i++) {
        if (mt_rank(t) != 4 || (dims[order[i]] != 1 && strides[order[i]] != step))
            return false;
        step *= dims[order[i]];
    }
    return true;
}

/* The argument memory_format, as PyTorch numbers it; -1: another argument. */
static int format_argument(const char *name, PyObject *args, PyObject *names, int64_t *format)
{
    static char *keywords[] = {"memory_format", NULL};
    char text[64];
    PyObject *given = Py_None;
    PyOS_snprintf(text, sizeof text, "|O:%s", name);
    if (!PyArg_ParseTupleAndKeywords(args, names, text, keywords, &given))
        return -1;
    if (given == Py_None || mtpy_index(given, format) > 0)
        return 0;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s(): argument 'memory_format' must be torch.memory_format, not %s",
                     name, Py_TYPE(given)->tp_name);
    return -1;
}

static PyObject *is_contiguous(PyObject *self, PyObject *args, PyObject *names)
{
    int64_t format = 0;
    if (format_argument("is_contiguous", args, names, &format) < 0)
        return NULL;
    return PyBool_FromLong(format == 2 ? channels_are_last(SELF) : mt_is_contiguous(SELF));
}
MTPY_NOARGS(is_floating_point, PyBool_FromLong(mt_dtype_is_real(mt_dtype_of(SELF))))
MTPY_NOARGS(element_size, PyLong_FromSize_t(mt_dtype_bytes(mt_dtype_of(SELF))))
MTPY_NOARGS(data_ptr, PyLong_FromUnsignedLongLong(mt_numel(SELF) > 0 ? mt_address(SELF) : 0))
static PyObject *resize(PyObject *self, PyObject *size)
{
    int64_t dims[MT_MAX_RANK];
    PyObject *items = PySequence_Fast(size, "resize_(): a size is a sequence of ints");
    Py_ssize_t n = items != NULL ? PySequence_Fast_GET_SIZE(items) : 0;
    if (n > MT_MAX_RANK)
        PyErr_Format(PyExc_RuntimeError, "resize_(): at most %d dims", MT_MAX_RANK);
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++)
        if (mtpy_index(PySequence_Fast_GET_ITEM(items, i), &dims[i]) == 0)
            PyErr_SetString(PyExc_TypeError, "resize_(): a size is a sequence of ints");
    Py_XDECREF(items);
    if (PyErr_Occurred())
        return NULL;
    mt_status status = mt_resize(SELF, (int)n, dims);
    return status == MT_OK ? Py_NewRef(self) : mtpy_raise(status);
}
static PyObject *set_memory(PyObject *self, PyObject *source)
{
    if (source != Py_None && !mtpy_is_tensor(source))
        return PyErr_Format(PyExc_TypeError, "set_(): expected a Tensor or a storage");
    mt_status status = mt_set(SELF, source != Py_None ? mtpy_tensor_of(source) : NULL);
    return status == MT_OK ? Py_NewRef(self) : mtpy_raise(status);
}
static PyObject *storage_view(PyObject *self, PyObject *unused)
{
    (void)unused;
    mt_tensor *view;
    mt_status status = mt_storage_view(SELF, &view);
    return status == MT_OK ? mtpy_wrap(view) : mtpy_raise(status);
}
static void drop_tensor(void *user)
{
    mt_release(user);
}

/* bfloat16 has neither a NumPy dtype nor a buffer: its bits have. */
static PyObject *reinterpreted(PyObject *self, PyObject *given)
{
    mt_dtype dtype;
    mt_tensor *as;
    if (!mtpy_dtype(given, &dtype) || mt_dtype_bytes(dtype) != mt_dtype_bytes(mt_dtype_of(SELF)) ||
        MT_DEVICE_TYPE(mt_device_of(SELF)) != 0) {
        PyErr_SetString(PyExc_TypeError, "_as(): a dtype of the same size, and a tensor on the CPU");
        return NULL;
    }
    if (mt_numel(SELF) == 0) { /* no memory to share */
        mt_status made = mt_tensor_create(dtype, MT_CPU, mt_rank(SELF), mt_dims(SELF), &as);
        return made == MT_OK ? mtpy_wrap(as) : mtpy_raise(made);
    }
    mt_status status = mt_tensor_borrow(mt_data(SELF), dtype, mt_rank(SELF), mt_dims(SELF), mt_strides(SELF),
                                        drop_tensor, mt_retain(SELF), &as);
    if (status == MT_OK)
        return mtpy_wrap(as);
    mt_release(SELF);
    return mtpy_raise(status);
}
MTPY_NOARGS(storage_offset, PyLong_FromLongLong(mt_offset(SELF)))
MTPY_NOARGS(item, mtpy_item(SELF))
MTPY_NOARGS(tolist, mtpy_tolist(SELF))

MTPY_GETTER(get_dtype, mtpy_dtype_object(mt_dtype_of(SELF)))
MTPY_GETTER(get_device, mtpy_device_object(mt_device_of(SELF)))
MTPY_GETTER(get_ndim, PyLong_FromLong(mt_rank(SELF)))
MTPY_GETTER(get_itemsize, element_size(self, NULL))
MTPY_GETTER(get_nbytes, PyLong_FromLongLong(mt_numel(SELF) * (int64_t)mt_dtype_bytes(mt_dtype_of(SELF))))
MTPY_GETTER(get_version, PyLong_FromUnsignedLong(mt_version(SELF)))
MTPY_GETTER(get_on_npu, PyBool_FromLong(MT_DEVICE_TYPE(mt_device_of(SELF)) == 1))
MTPY_GETTER(get_on_cpu, PyBool_FromLong(MT_DEVICE_TYPE(mt_device_of(SELF)) == 0))

/* x.T: all dims reversed; x.mT: the last two swapped. */
static PyObject *get_turned(PyObject *self, void *unused)
{
    (void)unused;
    int64_t dims[MT_MAX_RANK];
    int rank = mt_rank(SELF);
    for (int i = 0; i < rank; i++)
        dims[i] = rank - 1 - i;
    mt_value args[] = {mt_value_tensor(SELF), mt_value_ints(dims, (uint32_t)rank)};
    return mtpy_call1(rank == 2 ? MT_OP_t : MT_OP_permute, args, rank == 2 ? 1 : 2);
}

static PyObject *get_matrix_turned(PyObject *self, void *unused)
{
    (void)unused;
    if (mt_rank(SELF) < 2) {
        PyErr_Format(PyExc_RuntimeError,
                     "tensor.mT is only supported on matrices or batches of matrices. Got %d-D tensor.",
                     mt_rank(SELF));
        return NULL;
    }
    mt_value args[] = {mt_value_tensor(SELF), mt_value_int(-2), mt_value_int(-1)};
    return mtpy_call1(MT_OP_transpose, args, 3);
}

/* ------------------------------------------------------------------------------------------------ autograd */

MTPY_GETTER(get_grad, mtpy_wrap(mt_retain(mt_grad(SELF))))

static int set_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (value != NULL && value != Py_None && !mtpy_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %s",
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    return mtpy_set(mt_set_grad(SELF, value == NULL || value == Py_None ? NULL : mtpy_tensor_of(value)));
}

static PyObject *get_grad_fn(PyObject *self, void *unused)
{
    (void)unused;
    mt_status status = mt_view_refresh(SELF);
    return status == MT_OK ? mtpy_node_object(mt_grad_fn(SELF)) : mtpy_raise(status);
}

static PyObject *get_is_leaf(PyObject *self, void *unused)
{
    (void)unused;
    mt_status status = mt_view_refresh(SELF);
    return status == MT_OK ? PyBool_FromLong(mt_is_leaf(SELF)) : mtpy_raise(status);
}

static PyObject *get_base(PyObject *self, void *unused)
{
    (void)unused;
    mt_tensor *base = mt_view_base(SELF);
    return base != NULL ? mtpy_wrap(mt_retain(base)) : Py_NewRef(Py_None);
}

MTPY_GETTER(get_retains_grad, PyBool_FromLong(mt_retains_grad(SELF)))
MTPY_GETTER(get_requires_grad, PyBool_FromLong(mt_requires_grad(SELF)))

static int change_requires_grad(PyObject *self, bool on)
{
    return mtpy_set(mt_set_requires_grad(SELF, on));
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (value == NULL || !PyBool_Check(value)) {
        PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
        return -1;
    }
    return change_requires_grad(self, value == Py_True);
}

static PyObject *requires_grad_(PyObject *self, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"requires_grad", NULL};
    int on = 1;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|p:requires_grad_", keywords, &on))
        return NULL;
    return change_requires_grad(self, on != 0) < 0 ? NULL : Py_NewRef(self);
}

static PyObject *detach_(PyObject *self, PyObject *unused)
{
    (void)unused;
    mt_status status = mt_forget_history(SELF);
    return status != MT_OK ? mtpy_raise(status) : Py_NewRef(self);
}

static PyObject *retain_grad(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!mt_requires_grad(SELF)) {
        PyErr_SetString(PyExc_RuntimeError, "can't retain_grad on Tensor that has requires_grad=False");
        return NULL;
    }
    mt_status status = mt_grad_fn(SELF) != NULL ? mt_view_refresh(SELF) : MT_OK;
    if (status != MT_OK)
        return mtpy_raise(status);
    mt_retain_grad(SELF);
    Py_RETURN_NONE;
}

static PyObject *get_data(PyObject *self, void *unused)
{
    (void)unused;
    mt_tensor *alias;
    mt_status status = mt_alias(SELF, &alias);
    return status == MT_OK ? mtpy_wrap(alias) : mtpy_raise(status);
}

static int set_data(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (value == NULL || !mtpy_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %s",
                     value != NULL ? Py_TYPE(value)->tp_name : "nothing");
        return -1;
    }
    return mtpy_set(mt_set_data(SELF, mtpy_tensor_of(value)));
}

/* --------------------------------------------------------------------------------------------- conversion */

static PyObject *to_dtype(PyObject *self, mt_dtype dtype)
{
    if (mt_dtype_of(SELF) == dtype)
        return Py_NewRef(self);
    mt_value args[] = {mt_value_tensor(SELF), mt_value_int(dtype)};
    return mtpy_call1(MT_OP_to_dtype, args, 2);
}

#define TO_DTYPE(name, dtype)                                                                                \
    static PyObject *name(PyObject *self, PyObject *unused)                                                  \
    {                                                                                                        \
        (void)unused;                                                                                        \
        return to_dtype(self, dtype);                                                                        \
    }
TO_DTYPE(to_float, MT_FLOAT32)
TO_DTYPE(to_double, MT_FLOAT64)
TO_DTYPE(to_int, MT_INT32)
TO_DTYPE(to_long, MT_INT64)
TO_DTYPE(to_bool, MT_BOOL)
TO_DTYPE(to_half, MT_FLOAT16)
TO_DTYPE(to_bfloat16, MT_BFLOAT16)
TO_DTYPE(to_byte, MT_UINT8)
TO_DTYPE(to_char, MT_INT8)
TO_DTYPE(to_short, MT_INT16)
#undef TO_DTYPE

static PyObject *to_device(PyObject *self, mt_device device)
{
    if (mt_device_of(SELF) == device)
        return Py_NewRef(self);
    mt_value args[] = {mt_value_tensor(SELF), mt_value_int(device)};
    return mtpy_call1(MT_OP_to_device, args, 2);
}

static PyObject *cpu(PyObject *self, PyObject *args, PyObject *names)
{
    int64_t format = 1;
    if (args != NULL && format_argument("cpu", args, names, &format) < 0)
        return NULL;
    if (format == 1 || MT_DEVICE_TYPE(mt_device_of(SELF)) == 0)
        return to_device(self, MT_CPU);
    mt_value made[] = {mt_value_tensor(SELF), mt_value_int(MT_CPU),  mt_value_none(NULL),
                       mt_value_truth(false), mt_value_truth(false), mt_value_int(format)};
    return mtpy_call1(MT_OP_to_device, made, 6);
}

static PyObject *npu(PyObject *self, PyObject *args)
{
    PyObject *given = Py_None;
    mt_device device = MT_NPU(mt_npu_current());
    if (!PyArg_ParseTuple(args, "|O:npu", &given))
        return NULL;
    int fits = given != Py_None ? mtpy_device(given, &device) : 1;
    if (fits == 0)
        PyErr_Format(PyExc_TypeError, "npu(): argument 'device' (position 1) must be torch.device, not %s",
                     Py_TYPE(given)->tp_name);
    return fits > 0 ? to_device(self, device) : NULL;
}

/* Does a keyword name a device, a dtype or a tensor? */
static bool says_where(PyObject *names)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "device") == 0 ||
            PyUnicode_CompareWithASCIIString(name, "dtype") == 0 ||
            PyUnicode_CompareWithASCIIString(name, "other") == 0)
            return true;
    }
    return false;
}

/* to(dtype), to(device, dtype), to(other): only the last form is not in the table. */
static PyObject *to(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    if (n == 0 && names == NULL)
        return Py_NewRef(self);
    if (n == 0 && !says_where(names)) { /* to(copy=True) */
        PyObject *given[6] = {mtpy_device_object(mt_device_of(SELF))}, *made = NULL;
        Py_ssize_t more = PyTuple_GET_SIZE(names);
        for (Py_ssize_t i = 0; i < more && more <= 5; i++)
            given[i + 1] = args[i];
        if (given[0] != NULL)
            made = mtpy_call_set(MT_OP_to_dtype, self, more <= 5 ? given : args, more <= 5, names);
        Py_XDECREF(given[0]);
        return made;
    }
    if (n == 0 || !mtpy_is_tensor(args[0])) {
        if (n == 1 && names == NULL && Py_IS_TYPE(args[0], mtpy.dtype)) {
            mt_dtype dtype;
            mtpy_dtype(args[0], &dtype);
            return to_dtype(self, dtype);
        }
        return mtpy_call_set(MT_OP_to_dtype, self, args, n, names);
    }
    mt_tensor *other = mtpy_tensor_of(args[0]);
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    if (n + named > 3) {
        PyErr_SetString(PyExc_TypeError,
                        "to() takes (Tensor other, bool non_blocking=False, bool copy=False)");
        return NULL;
    }
    PyObject *given[5] = {mtpy_device_object(mt_device_of(other)), mtpy_dtype_object(mt_dtype_of(other))};
    PyObject *made = NULL;
    for (Py_ssize_t i = 1; i < n + named; i++)
        given[i + 1] = args[i]; /* borrowed */
    if (given[0] != NULL)
        made = mtpy_call_set(MT_OP_to_dtype, self, given, n + 1, names);
    Py_XDECREF(given[0]);
    Py_DECREF(given[1]);
    return made;
}

static PyObject *numpy(PyObject *self, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"force", NULL};
    int force = 0;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|$p:numpy", keywords, &force))
        return NULL;
    if (!force)
        return mtpy_numpy(self);
    PyObject *free = get_data(self, NULL), *here = free != NULL ? cpu(free, NULL, NULL) : NULL;
    PyObject *array = here != NULL ? mtpy_numpy(here) : NULL;
    Py_XDECREF(free);
    Py_XDECREF(here);
    return array;
}

/* A new object of a subclass on the data of another tensor: for nn.Parameter. */
static PyObject *make_subclass(PyObject *cls, PyObject *args)
{
    PyObject *type, *data;
    int requires_grad = 0;
    (void)cls;
    if (!PyArg_ParseTuple(args, "O!O!|p:_make_subclass", &PyType_Type, &type, mtpy.tensor, &data,
                          &requires_grad))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)type, mtpy.tensor)) {
        PyErr_SetString(PyExc_TypeError, "_make_subclass: the class is not a subclass of Tensor");
        return NULL;
    }
    mt_value from = mt_value_tensor(mtpy_tensor_of(data));
    mt_tensor *t;
    mt_status status = mt_call(MT_OP_detach, &from, 1, &t);
    if (status == MT_OK && requires_grad) {
        status = mt_set_requires_grad(t, true);
        if (status != MT_OK)
            mt_release(t);
    }
    return status != MT_OK ? mtpy_raise(status) : mtpy_wrap_as((PyTypeObject *)type, t);
}

PyMethodDef mtpy_tensor_methods[] = {
    {"size", AS_METHOD(size), METH_FASTCALL | METH_KEYWORDS,
     "size(dim=None): the shape, or the size of one dim"},
    {"stride", AS_METHOD(stride), METH_FASTCALL | METH_KEYWORDS, "stride(dim=None): in elements"},
    {"dim", dim, METH_NOARGS, "The number of dims."},
    {"ndimension", dim, METH_NOARGS, "The number of dims."},
    {"numel", numel, METH_NOARGS, "The number of elements."},
    {"nelement", numel, METH_NOARGS, "The number of elements."},
    {"is_contiguous", AS_METHOD(is_contiguous), METH_VARARGS | METH_KEYWORDS, NULL},
    {"is_floating_point", is_floating_point, METH_NOARGS, NULL},
    {"element_size", element_size, METH_NOARGS, "Bytes per element."},
    {"_resize", resize, METH_O, "resize_ to a tuple of ints."},
    {"_set", set_memory, METH_O, "set_ to another tensor's memory, or to an empty one."},
    {"_storage_view", storage_view, METH_NOARGS, "All of its memory as a one-dimensional tensor."},
    {"_as", reinterpreted, METH_O,
     "Its bits as another dtype of the same size, on the same memory, without autograd."},
    {"data_ptr", data_ptr, METH_NOARGS, "The address of the first element."},
    {"storage_offset", storage_offset, METH_NOARGS, NULL},
    {"item", item, METH_NOARGS, "The only element, as a Python number."},
    {"tolist", tolist, METH_NOARGS, "Nested lists of Python numbers."},
    {"requires_grad_", AS_METHOD(requires_grad_), METH_VARARGS | METH_KEYWORDS, NULL},
    {"detach_", detach_, METH_NOARGS, "Detaches it from the graph, in place."},
    {"retain_grad", retain_grad, METH_NOARGS, "Keeps the gradient of a non-leaf tensor."},
    {"float", to_float, METH_NOARGS, NULL},
    {"double", to_double, METH_NOARGS, NULL},
    {"int", to_int, METH_NOARGS, NULL},
    {"long", to_long, METH_NOARGS, NULL},
    {"bool", to_bool, METH_NOARGS, NULL},
    {"half", to_half, METH_NOARGS, NULL},
    {"bfloat16", to_bfloat16, METH_NOARGS, NULL},
    {"byte", to_byte, METH_NOARGS, NULL},
    {"char", to_char, METH_NOARGS, NULL},
    {"short", to_short, METH_NOARGS, NULL},
    {"cpu", AS_METHOD(cpu), METH_VARARGS | METH_KEYWORDS, NULL},
    {"npu", npu, METH_VARARGS, "npu(device=None): the tensor on the accelerator"},
    {"cuda", npu, METH_VARARGS, "Alias of npu()."},
    {"to", AS_METHOD(to), METH_FASTCALL | METH_KEYWORDS, "to(dtype), to(device, dtype=None) or to(other)"},
    {"numpy", AS_METHOD(numpy), METH_VARARGS | METH_KEYWORDS,
     "numpy(*, force=False): an array on the same memory"},
    {"_make_subclass", make_subclass, METH_VARARGS | METH_STATIC, NULL},
    {NULL, NULL, 0, NULL},
};

/* The tensor's id in profiles, never reused. */
static PyObject *get_number(PyObject *self, void *unused)
{
    mtp_input in;
    mtp_identity identity;
    (void)unused;
    mt_status status = mt_tensor_describe(mtpy_tensor_of(self), &in, &identity);
    return status == MT_OK ? PyLong_FromUnsignedLongLong(identity.tensor) : mtpy_raise(status);
}

PyGetSetDef mtpy_tensor_properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"shape", get_shape, NULL, NULL, NULL},
    {"dtype", get_dtype, NULL, NULL, NULL},
    {"device", get_device, NULL, NULL, NULL},
    {"ndim", get_ndim, NULL, NULL, NULL},
    {"itemsize", get_itemsize, NULL, NULL, NULL},
    {"_cdata", get_number, NULL, NULL, NULL},
    {"nbytes", get_nbytes, NULL, NULL, NULL},
    {"T", get_turned, NULL, NULL, NULL},
    {"mT", get_matrix_turned, NULL, NULL, NULL},
    {"grad", get_grad, set_grad, NULL, NULL},
    {"grad_fn", get_grad_fn, NULL, NULL, NULL},
    {"is_leaf", get_is_leaf, NULL, NULL, NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, NULL, NULL},
    {"retains_grad", get_retains_grad, NULL, NULL, NULL},
    {"data", get_data, set_data, NULL, NULL},
    {"_version", get_version, NULL, NULL, NULL},
    {"_base", get_base, NULL, NULL, NULL},
    {"is_npu", get_on_npu, NULL, NULL, NULL},
    {"is_cuda", get_on_npu, NULL, NULL, NULL},
    {"is_cpu", get_on_cpu, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
