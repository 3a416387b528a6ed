/* python/convert.c - conversion between tensors and Python numbers, nested lists, and memory of other
 * libraries (through the buffer protocol, which shares NumPy arrays without NumPy's headers).
 */
#include "python/binding.h"
#include <mtprof.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ numbers */

/* NumPy scalars are numbers; arrays are not, although one-element arrays convert to float. */
static bool is_other_number(PyObject *o)
{
    const PyTypeObject *type = Py_TYPE(o);
    const PyNumberMethods *nb = type->tp_as_number;
    if (nb == NULL || (nb->nb_index == NULL && nb->nb_float == NULL) || PyComplex_Check(o))
        return false;
    return !(type->tp_as_sequence != NULL && type->tp_as_sequence->sq_length != NULL) &&
           !(type->tp_as_mapping != NULL && type->tp_as_mapping->mp_length != NULL) && !mtpy_is_tensor(o);
}

bool mtpy_is_number(PyObject *o)
{
    return PyFloat_Check(o) || PyLong_Check(o) || is_other_number(o);
}

static int long_value(PyObject *o, int64_t *out)
{
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow != 0) {
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return -1;
    }
    return *out == -1 && PyErr_Occurred() ? -1 : 1;
}

/* NumPy's bool has no __index__. */
static bool is_numpy_bool(PyObject *o)
{
    const char *name = Py_TYPE(o)->tp_name;
    return strcmp(name, "numpy.bool") == 0 || strcmp(name, "numpy.bool_") == 0;
}

int mtpy_number(PyObject *o, mt_value *out)
{
    if (PyFloat_Check(o)) {
        *out = mt_value_float(PyFloat_AS_DOUBLE(o));
        return 1;
    }
    if (PyBool_Check(o)) {
        *out = mt_value_truth(o == Py_True);
        return 1;
    }
    if (!PyLong_Check(o) && !is_other_number(o))
        return 0;
    if (is_numpy_bool(o)) {
        int truth = PyObject_IsTrue(o);
        *out = mt_value_truth(truth > 0);
        return truth < 0 ? -1 : 1;
    }
    if (PyIndex_Check(o)) {
        PyObject *exact = PyNumber_Index(o);
        int64_t i = 0;
        int overflow = 0;
        if (exact != NULL)
            i = PyLong_AsLongLongAndOverflow(exact, &overflow);
        Py_XDECREF(exact);
        if (overflow != 0)
            PyErr_SetString(PyExc_OverflowError, "int too big to convert");
        *out = mt_value_int(i);
        return exact == NULL || overflow != 0 ? -1 : 1;
    }
    double d = PyFloat_AsDouble(o);
    *out = mt_value_float(d);
    return d == -1.0 && PyErr_Occurred() ? -1 : 1;
}

int mtpy_index(PyObject *o, int64_t *out)
{
    if (LIKELY(PyLong_CheckExact(o)))
        return long_value(o, out);
    if (PyBool_Check(o) || !PyIndex_Check(o))
        return 0;
    if (mtpy_is_tensor(o)) {
        mt_tensor *t = mtpy_tensor_of(o);
        if (mt_numel(t) != 1 || mt_dtype_is_real(mt_dtype_of(t)) || mt_dtype_of(t) == MT_BOOL)
            return 0;
    }
    PyObject *exact = PyNumber_Index(o);
    if (exact == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) { /* an array that is not an index */
        PyErr_Clear();
        return 0;
    }
    int fits = exact != NULL ? long_value(exact, out) : -1;
    Py_XDECREF(exact);
    return fits;
}

int mtpy_item_value(mt_tensor *t, mt_value *out)
{
    double d = 0;
    int64_t i = 0;
    mt_dtype dtype = mt_dtype_of(t);
    mt_status status = mt_dtype_is_real(dtype) ? mt_item(t, &d) : mt_item_int(t, &i);
    if (status != MT_OK) {
        mtpy_raise(status);
        return -1;
    }
    *out = mt_dtype_is_real(dtype) ? mt_value_float(d)
           : dtype == MT_BOOL      ? mt_value_truth(i != 0)
                                   : mt_value_int(i);
    return 1;
}

static PyObject *number_object(const mt_value *v)
{
    return v->kind == MT_FLOAT   ? PyFloat_FromDouble(v->as.f)
           : v->kind == MT_TRUTH ? PyBool_FromLong(v->as.i != 0)
                                 : PyLong_FromLongLong(v->as.i);
}

PyObject *mtpy_item(mt_tensor *t)
{
    mt_value v;
    return mtpy_item_value(t, &v) < 0 ? NULL : number_object(&v);
}

/* -------------------------------------------------------------------------------------------- from lists */

typedef struct plan {
    int rank;
    int64_t dims[MT_MAX_RANK];
    int dtype; /* the highest seen; -1: none yet */
} plan;

static int bad_item(PyObject *o)
{
    if (PyUnicode_Check(o) || PyBytes_Check(o))
        PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", Py_TYPE(o)->tp_name);
    else
        PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", Py_TYPE(o)->tp_name);
    return -1;
}

/* Is o a level of nesting: a list, a tuple, a tensor unless of one element, or another sequence except text? */
static bool is_nest(PyObject *o)
{
    if (PyList_Check(o) || PyTuple_Check(o))
        return true;
    if (mtpy_is_tensor(o))
        return mt_numel(mtpy_tensor_of(o)) != 1;
    if (PyFloat_Check(o) || PyLong_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o) || PyDict_Check(o))
        return false;
    if (!PySequence_Check(o))
        return false;
    if (PySequence_Size(o) >= 0)
        return true;
    PyErr_Clear(); /* an array without dims */
    return false;
}

static int dtype_of_item(PyObject *o)
{
    if (PyFloat_Check(o))
        return mt_default_dtype();
    if (PyBool_Check(o) || is_numpy_bool(o))
        return MT_BOOL;
    if (PyLong_Check(o))
        return MT_INT64;
    if (mtpy_is_tensor(o))
        return mt_dtype_of(mtpy_tensor_of(o));
    const PyNumberMethods *nb = Py_TYPE(o)->tp_as_number;
    if (nb == NULL || PyComplex_Check(o))
        return -1;
    return nb->nb_index != NULL ? MT_INT64 : nb->nb_float != NULL ? (int)mt_default_dtype() : -1;
}

/* Finds dims from the first items of each level, dtypes from all items. */
static int survey(PyObject *o, int depth, plan *p)
{
    if (!is_nest(o)) {
        int dtype = dtype_of_item(o);
        if (dtype < 0)
            return bad_item(o);
        if (depth < p->rank) {
            PyErr_Format(PyExc_TypeError, "expected a sequence at dim %d, got %s", depth,
                         Py_TYPE(o)->tp_name);
            return -1;
        }
        p->dtype = p->dtype >= 0 ? (int)mt_promote_types((mt_dtype)p->dtype, (mt_dtype)dtype) : dtype;
        return 0;
    }
    if (depth == MT_MAX_RANK || Py_EnterRecursiveCall(" while creating a tensor from a list")) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", Py_TYPE(o)->tp_name);
        return -1;
    }
    int status = -1;
    PyObject *items = PySequence_Fast(o, "not a sequence");
    Py_ssize_t n = items != NULL ? PySequence_Fast_GET_SIZE(items) : 0;
    if (items == NULL)
        goto end;
    if (depth == p->rank && p->dtype < 0) {
        p->dims[p->rank++] = n;
    } else if (depth >= p->rank || p->dims[depth] != n) {
        PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)",
                     depth < p->rank ? (long long)p->dims[depth] : 0LL, depth, n);
        goto end;
    }
    status = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items) && status == 0; i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
        status = survey(item, depth + 1, p);
        Py_DECREF(item);
    }
end:
    Py_XDECREF(items);
    Py_LeaveRecursiveCall();
    return status;
}

static int does_not_fit(mt_dtype dtype)
{
    PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow",
                 mt_dtype_describe(dtype)->name);
    return -1;
}

/* A negative number wraps around in a dtype without sign, as in PyTorch. */
static bool holds(mt_dtype dtype, int64_t i)
{
    size_t bits = 8 * mt_dtype_bytes(dtype);
    int64_t most = dtype == MT_UINT8 ? UINT8_MAX : INT64_MAX >> (64 - bits);
    return i <= most && i >= -most - (dtype != MT_UINT8);
}

static int store(PyObject *o, mt_dtype dtype, void *to)
{
    mt_value v = mt_value_none(NULL);
    int fits = mtpy_is_tensor(o) ? mtpy_item_value(mtpy_tensor_of(o), &v) : mtpy_number(o, &v);
    if (fits == 0) {
        /* an array without dims */
        PyObject *number = PyNumber_Float(o);
        fits = number != NULL ? mtpy_number(number, &v) : -1;
        Py_XDECREF(number);
    }
    if (fits <= 0) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        return -1;
    }
    double f = v.kind == MT_FLOAT ? v.as.f : (double)v.as.i;
    bool fits_long = v.kind != MT_FLOAT || (f >= -0x1p63 && f < 0x1p63);
    int64_t i = v.kind != MT_FLOAT ? v.as.i : fits_long ? (int64_t)f : 0;
    if (mt_dtype_kind_of(dtype) == MT_KIND_WHOLE && (!fits_long || !holds(dtype, i)))
        return does_not_fit(dtype);
    mt_element_set(to, dtype, mt_dtype_kind_of(dtype) == MT_KIND_WHOLE ? mt_value_int(i) : v);
    return 0;
}

typedef struct writer {
    char *at, *end;
    mt_dtype dtype;
    size_t item;
} writer;

static int fill(PyObject *o, int depth, const plan *p, writer *w)
{
    if (depth == p->rank) {
        if (w->at == w->end)
            goto changed;
        int status = store(o, w->dtype, w->at);
        w->at += w->item;
        return status;
    }
    PyObject *items = PySequence_Fast(o, "not a sequence");
    if (items == NULL)
        return -1;
    int status = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items) && status == 0; i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
        status = fill(item, depth + 1, p, w);
        Py_DECREF(item);
    }
    Py_DECREF(items);
    return status;
changed: /* by the code of an item */
    PyErr_SetString(PyExc_RuntimeError, "a list changed while a tensor was being created from it");
    return -1;
}

static mt_tensor *from_lists(PyObject *o, int dtype)
{
    plan p = {.dtype = -1};
    mt_tensor *t;
    if (survey(o, 0, &p) < 0)
        return NULL;
    if (dtype < 0)
        dtype = p.dtype >= 0 ? p.dtype : (int)mt_default_dtype();
    mt_status status = mt_tensor_create((mt_dtype)dtype, MT_CPU, p.rank, p.dims, &t);
    if (status != MT_OK) {
        mtpy_raise(status);
        return NULL;
    }
    size_t item = mt_dtype_bytes((mt_dtype)dtype);
    writer w = {mt_data(t), (char *)mt_data(t) + (size_t)mt_numel(t) * item, (mt_dtype)dtype, item};
    if (fill(o, 0, &p, &w) == 0 && w.at == w.end) {
        mt_tensor_tag(t, MTP_MEMORY_INPUT);
        return t;
    }
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "a list changed while a tensor was being created from it");
    mt_release(t);
    return NULL;
}

/* ------------------------------------------------------------------------------------- memory of others */

static bool dtype_of_format(const Py_buffer *b, mt_dtype *out)
{
    const char *f = b->format != NULL ? b->format : "B";
    if (*f == '@' || *f == '=' || *f == '<')
        f++;
    if (f[0] == 0 || f[1] != 0)
        return false;
    bool whole = strchr("bhilq", *f) != NULL; /* which of the last depends on the platform */
    for (unsigned i = 0; i < MT_DTYPES; i++) {
        const mt_dtype_info *info = mt_dtype_describe((mt_dtype)i);
        if (info->bytes == b->itemsize &&
            (whole ? info->kind == MT_KIND_WHOLE && *info->format != 'B' : *f == *info->format)) {
            *out = (mt_dtype)i;
            return true;
        }
    }
    return false;
}

/* Called on any thread, with or without the GIL. */
static void drop_buffer(void *user)
{
    if (!Py_IsInitialized())
        return; /* the process is exiting, which frees the memory */
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(user);
    PyMem_Free(user);
    PyGILState_Release(state);
}

static int check_buffer(const Py_buffer *b, mt_dtype *dtype, int64_t *strides)
{
    if (!dtype_of_format(b, dtype)) {
        PyErr_Format(PyExc_TypeError,
                     "can't convert an array of format '%s' (%zd bytes each). The only supported types are: "
                     "float64, float32, float16, "
                     "int64, int32, int16, int8, uint8, and bool.",
                     b->format != NULL ? b->format : "B", b->itemsize);
        return -1;
    }
    if (b->ndim > MT_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "a tensor has at most %d dims, got %d", MT_MAX_RANK, b->ndim);
        return -1;
    }
    for (int i = 0; i < b->ndim; i++) {
        if (b->strides[i] < 0) {
            PyErr_SetString(
                PyExc_ValueError,
                "At least one stride in the given numpy array is negative, and tensors with negative strides "
                "are not "
                "currently supported. (You can probably work around this by making a copy of your array with "
                "array.copy().)");
            return -1;
        }
        if (b->strides[i] % b->itemsize != 0 || (uintptr_t)b->buf % (size_t)b->itemsize != 0) {
            PyErr_SetString(
                PyExc_ValueError,
                "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
                "reallocate the memory.");
            return -1;
        }
        strides[i] = b->strides[i] / b->itemsize;
    }
    return 0;
}

/* A tensor on the memory of o. */
static mt_tensor *share(PyObject *o, bool *readonly)
{
    Py_buffer *b = PyMem_Calloc(1, sizeof *b);
    if (b == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyObject_GetBuffer(o, b, PyBUF_RECORDS) < 0) {
        PyErr_Clear();
        if (PyObject_GetBuffer(o, b, PyBUF_RECORDS_RO) < 0) {
            PyMem_Free(b);
            return NULL;
        }
    }
    mt_dtype dtype;
    int64_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
    mt_tensor *t = NULL;
    if (check_buffer(b, &dtype, strides) < 0)
        goto failed;
    for (int i = 0; i < b->ndim; i++)
        dims[i] = b->shape[i];
    *readonly = b->readonly != 0;
    mt_status status = mt_tensor_borrow(b->buf, dtype, b->ndim, dims, strides, drop_buffer, b, &t);
    if (status == MT_OK)
        return t;
    mtpy_raise(status);
failed:
    PyBuffer_Release(b);
    PyMem_Free(b);
    return NULL;
}

static PyObject *from_numpy(PyObject *module, PyObject *o)
{
    (void)module;
    if (!PyObject_CheckBuffer(o) || mtpy_is_tensor(o) || PyBytes_Check(o) || PyByteArray_Check(o) ||
        mtpy_is_number(o)) {
        PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", Py_TYPE(o)->tp_name);
        return NULL;
    }
    bool readonly = false;
    mt_tensor *t = share(o, &readonly);
    if (t != NULL && readonly &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "The array is not writable, but writing to the tensor would write to it. Copy the array "
                     "first, or make it writable.",
                     1) < 0) {
        mt_release(t);
        return NULL;
    }
    return t != NULL ? mtpy_wrap(t) : NULL;
}

/* Replaces *t (owned) by the result of an op on it; NULL with an exception set on failure. */
static void replace(mt_tensor **t, mt_op_id op, const mt_value *rest, unsigned count)
{
    mt_value args[8] = {mt_value_tensor(*t)};
    mt_tensor *made = NULL;
    for (unsigned i = 0; i < count; i++)
        args[i + 1] = rest[i];
    bool was = mt_grad_enable(false);
    mt_status status = mt_call(op, args, count + 1, &made);
    mt_grad_enable(was);
    mt_release(*t);
    *t = made;
    if (status != MT_OK)
        mtpy_raise(status);
}

mt_tensor *mtpy_tensor_from(PyObject *o, int dtype, mt_device device)
{
    mt_tensor *t;
    bool shared = true, readonly;
    if (mtpy_is_tensor(o)) {
        t = mt_retain(mtpy_tensor_of(o));
        replace(&t, MT_OP_detach, NULL, 0);
    } else if (!PyFloat_CheckExact(o) && !PyLong_Check(o) && !PyBytes_Check(o) && !PyByteArray_Check(o) &&
               PyObject_CheckBuffer(o)) {
        t = share(o, &readonly);
    } else {
        t = from_lists(o, dtype);
        shared = false;
    }
    if (t != NULL && dtype >= 0 && (mt_dtype)dtype != mt_dtype_of(t)) {
        mt_value to = mt_value_int(dtype);
        replace(&t, MT_OP__to_copy, &to, 1);
        shared = false;
    }
    if (t != NULL && shared)
        replace(&t, MT_OP_clone, NULL, 0);
    if (t != NULL && device != mt_device_of(t)) {
        mt_value to = mt_value_int(device);
        replace(&t, MT_OP_to_device, &to, 1);
    }
    return t;
}

mt_tensor *mtpy_number_tensor(PyObject *o, const mt_tensor *beside)
{
    mt_value number = mt_value_none(NULL);
    if (mtpy_number(o, &number) < 0)
        return NULL;
    mt_dtype dtype = number.kind == MT_FLOAT ? mt_default_dtype()
                     : number.kind == MT_INT ? MT_INT64
                                             : MT_BOOL;
    bool alike = beside != NULL && dtype != MT_BOOL &&
                 mt_dtype_kind_of(mt_dtype_of(beside)) >= mt_dtype_kind_of(dtype);
    if (alike && mt_dtype_is_real(mt_dtype_of(beside)))
        dtype = mt_dtype_of(beside);
    mt_tensor *t =
        mtpy_tensor_from(o, (int)dtype, beside != NULL ? mt_device_of(beside) : mt_default_device());
    if (t != NULL && alike && mt_dtype_of(t) != mt_dtype_of(beside) && mt_rank(beside) == 0) {
        mt_value to = mt_value_int(mt_dtype_of(beside)); /* what is too large wraps around, as in PyTorch */
        replace(&t, MT_OP__to_copy, &to, 1);
    }
    return t;
}

static PyObject *make_tensor(PyObject *module, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"data", "dtype", "device", "requires_grad", "pin_memory", NULL};
    PyObject *data, *dtype_given = Py_None, *device_given = Py_None;
    int requires_grad = 0, pin_memory = 0, dtype = -1;
    mt_device device = mt_default_device();
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|$OOpp:tensor", keywords, &data, &dtype_given,
                                     &device_given, &requires_grad, &pin_memory))
        return NULL;
    if (dtype_given != Py_None) {
        mt_dtype d;
        if (!mtpy_dtype(dtype_given, &d)) {
            PyErr_Format(PyExc_TypeError, "tensor(): argument 'dtype' must be torch.dtype, not %s",
                         Py_TYPE(dtype_given)->tp_name);
            return NULL;
        }
        dtype = (int)d;
    }
    if (device_given != Py_None) {
        int fits = mtpy_device(device_given, &device);
        if (fits == 0)
            PyErr_Format(PyExc_TypeError, "tensor(): argument 'device' must be torch.device, not %s",
                         Py_TYPE(device_given)->tp_name);
        if (fits <= 0)
            return NULL;
    } else if (mtpy_is_tensor(data)) {
        device = mt_device_of(mtpy_tensor_of(data));
    }
    mt_tensor *t = mtpy_tensor_from(data, dtype, device);
    if (t == NULL)
        return NULL;
    mt_status status = requires_grad ? mt_set_requires_grad(t, true) : MT_OK;
    if (status != MT_OK) {
        mt_release(t);
        return mtpy_raise(status);
    }
    return mtpy_wrap(t);
}

/* _from_bytes(bytes, shape, dtype): for pickles */
static PyObject *from_bytes(PyObject *module, PyObject *args)
{
    Py_buffer data;
    PyObject *shape, *dtype_given;
    mt_dtype dtype;
    mt_tensor *t = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*O!O:_from_bytes", &data, &PyTuple_Type, &shape, &dtype_given))
        return NULL;
    int64_t dims[MT_MAX_RANK], numel = 1;
    Py_ssize_t n = PyTuple_GET_SIZE(shape);
    bool right = n <= MT_MAX_RANK && mtpy_dtype(dtype_given, &dtype);
    for (Py_ssize_t i = 0; i < n && right; i++)
        right = mtpy_index(PyTuple_GET_ITEM(shape, i), &dims[i]) > 0 && dims[i] >= 0 &&
                !__builtin_mul_overflow(numel, dims[i], &numel);
    size_t bytes = 0;
    right = right && !__builtin_mul_overflow((size_t)numel, mt_dtype_bytes(dtype), &bytes) &&
            bytes == (size_t)data.len;
    mt_status status = right ? mt_tensor_from(data.buf, dtype, (int)n, dims, &t) : MT_OK;
    PyBuffer_Release(&data);
    if (!right) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "_from_bytes: the data does not match the shape and dtype");
        return NULL;
    }
    return status == MT_OK ? mtpy_wrap(t) : mtpy_raise(status);
}

PyMethodDef mtpy_convert_functions[] = {
    {"tensor", (PyCFunction)(void (*)(void))make_tensor, METH_VARARGS | METH_KEYWORDS,
     "tensor(data, *, dtype=None, device=None, requires_grad=False): a copy of data as a tensor"},
    {"_from_bytes", from_bytes, METH_VARARGS, NULL},
    {"from_numpy", from_numpy, METH_O, "from_numpy(array): a tensor on the array's memory"},
    {NULL, NULL, 0, NULL},
};

/* ------------------------------------------------------------------------------------------- to the outside */

static PyObject *element(const char *at, mt_dtype dtype)
{
    mt_value v = mt_element(at, dtype);
    return number_object(&v);
}

static PyObject *list_of(const mt_tensor *t, int dim, const char *at)
{
    if (dim == mt_rank(t))
        return element(at, mt_dtype_of(t));
    int64_t n = mt_dims(t)[dim], step = mt_strides(t)[dim] * (int64_t)mt_dtype_bytes(mt_dtype_of(t));
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list != NULL && i < n; i++) {
        PyObject *item = list_of(t, dim + 1, at + i * step);
        mtpy_put(&list, (Py_ssize_t)i, item);
    }
    return list;
}

PyObject *mtpy_tolist(mt_tensor *t)
{
    mt_tensor *here = mt_retain(t);
    if (MT_DEVICE_TYPE(mt_device_of(t)) != 0) {
        mt_value cpu = mt_value_int(MT_CPU);
        replace(&here, MT_OP_to_device, &cpu, 1);
    }
    PyObject *list = here != NULL ? list_of(here, 0, mt_data(here)) : NULL;
    mt_release(here);
    return list;
}

/* What a buffer keeps: the tensor's memory, which the object may leave (x.data = y), and its shape. */
typedef struct lent {
    mt_tensor *memory;
    Py_ssize_t dims[MT_MAX_RANK], strides[MT_MAX_RANK];
} lent;

int mtpy_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    mt_tensor *t = mtpy_tensor_of(self);
    view->obj = NULL;
    if (MT_DEVICE_TYPE(mt_device_of(t)) != 0) {
        PyErr_SetString(PyExc_BufferError, "a tensor on another device has no buffer: use Tensor.cpu()");
        return -1;
    }
    if (mt_requires_grad(t)) { /* NumPy's functions would take its numbers and lose its gradient */
        PyErr_SetString(PyExc_BufferError, "a Tensor that requires grad has no buffer: use Tensor.detach()");
        return -1;
    }
    if (*mt_dtype_describe(mt_dtype_of(t))->format == 0) {
        PyErr_Format(PyExc_BufferError, "a tensor of %s has no buffer: no format stands for it",
                     mt_dtype_name(mt_dtype_of(t)));
        return -1;
    }
    if (!(flags & PyBUF_STRIDES) && !mt_is_contiguous(t)) {
        PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
        return -1;
    }
    int rank = mt_rank(t);
    Py_ssize_t item = (Py_ssize_t)mt_dtype_bytes(mt_dtype_of(t));
    lent *l = PyMem_Malloc(sizeof *l);
    if (l == NULL || mt_alias(t, &l->memory) != MT_OK) {
        PyMem_Free(l);
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < rank; i++) {
        l->dims[i] = (Py_ssize_t)mt_dims(t)[i];
        l->strides[i] = (Py_ssize_t)mt_strides(t)[i] * item;
    }
    view->buf = mt_data(t);
    view->len = (Py_ssize_t)mt_numel(t) * item;
    view->readonly = 0;
    view->itemsize = item;
    view->format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)mt_dtype_describe(mt_dtype_of(t))->format : NULL;
    view->ndim = rank;
    view->shape = flags & PyBUF_ND && rank > 0 ? l->dims : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES && rank > 0 ? l->strides : NULL;
    view->suboffsets = NULL;
    view->internal = l;
    view->obj = Py_NewRef(self);
    return 0;
}

void mtpy_releasebuffer(PyObject *self, Py_buffer *view)
{
    lent *l = view->internal;
    (void)self;
    mt_release(l->memory);
    PyMem_Free(l);
}

PyObject *mtpy_numpy(PyObject *self)
{
    mt_tensor *t = mtpy_tensor_of(self);
    if (MT_DEVICE_TYPE(mt_device_of(t)) != 0) {
        PyErr_SetString(
            PyExc_TypeError,
            "can't convert npu device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
            "host memory first.");
        return NULL;
    }
    if (mt_requires_grad(t)) {
        PyErr_SetString(
            PyExc_RuntimeError,
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
        return NULL;
    }
    if (*mt_dtype_describe(mt_dtype_of(t))->format == 0) {
        PyErr_Format(PyExc_TypeError, "Got unsupported ScalarType %s",
                     mt_dtype_describe(mt_dtype_of(t))->scalar_type);
        return NULL;
    }
    PyObject *numpy = PyImport_ImportModule("numpy"), *view = PyMemoryView_FromObject(self), *array = NULL;
    if (numpy != NULL && view != NULL)
        array = PyObject_CallMethod(numpy, "asarray", "O", view);
    Py_XDECREF(numpy);
    Py_XDECREF(view);
    return array;
}
