/* python/index.c - x[...] and x[...] = v.
 *
 * Ints, slices, None and Ellipsis build a view step by step (select, slice, unsqueeze); tensors, lists and
 * masks are collected for one index() or index_put_().
 */
#include "python/binding.h"
#include <math.h>
#include <string.h>

typedef struct walk {
    mt_tensor *t; /* owned: the view so far */
    int dim;      /* the next dim of it */
    int shift;    /* dims that masks cover beyond their first: a mask is one entry of indices */
    mt_tensor *indices[MT_MAX_RANK + 1]; /* owned, by dim; NULL: whole */
    int count;                           /* of indices in use: 0, or 1 + the last */
} walk;

static void end(walk *w)
{
    mt_release(w->t);
    for (int i = 0; i < w->count; i++)
        mt_release(w->indices[i]);
}

/* Replaces the view by the result of an op on it. */
static int step(walk *w, mt_op_id op, const mt_value *rest, unsigned count)
{
    mt_value args[5] = {mt_value_tensor(w->t)};
    mt_tensor *made = NULL;
    for (unsigned i = 0; i < count; i++)
        args[i + 1] = rest[i];
    mt_status status = mt_call(op, args, count + 1, &made);
    if (status != MT_OK) {
        mtpy_raise(status);
        return -1;
    }
    mt_release(w->t);
    w->t = made;
    return 0;
}

static int too_many(int rank)
{
    PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", rank);
    return -1;
}

static int by_int(walk *w, int64_t i, int rank)
{
    if (w->dim >= mt_rank(w->t)) {
        if (rank > 0)
            return too_many(rank);
        PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                                          "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
        return -1;
    }
    int64_t n = mt_dims(w->t)[w->dim];
    if (i < -n || i >= n) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %d with size %lld",
                     (long long)i, w->dim, (long long)n);
        return -1;
    }
    mt_value args[] = {mt_value_int(w->dim), mt_value_int(i)};
    return step(w, MT_OP_select, args, 2);
}

static int by_slice(walk *w, PyObject *slice, int rank)
{
    if (w->dim >= mt_rank(w->t))
        return too_many(rank);
    Py_ssize_t from, to, by;
    const PySliceObject *s = (PySliceObject *)slice;
    if (s->start == Py_None && s->stop == Py_None && s->step == Py_None) {
        w->dim++;
        return 0;
    }
    if (PySlice_Unpack(slice, &from, &to, &by) < 0)
        return -1;
    if (by <= 0) {
        PyErr_SetString(PyExc_ValueError, "step must be greater than zero");
        return -1;
    }
    Py_ssize_t n = PySlice_AdjustIndices((Py_ssize_t)mt_dims(w->t)[w->dim], &from, &to, by);
    if (n == mt_dims(w->t)[w->dim] && by == 1) { /* x[0:]: no slice, as in PyTorch */
        w->dim++;
        return 0;
    }
    mt_value args[] = {mt_value_int(w->dim), mt_value_int(from), mt_value_int(to < from ? from : to),
                       mt_value_int(by)};
    if (step(w, MT_OP_slice, args, 4) < 0)
        return -1;
    w->dim++;
    return 0;
}

static int by_none(walk *w)
{
    mt_value dim = mt_value_int(w->dim);
    if (step(w, MT_OP_unsqueeze, &dim, 1) < 0)
        return -1;
    w->dim++;
    return 0;
}

/* uint8 was PyTorch's bool once. */
static bool is_mask(const mt_tensor *t)
{
    return mt_dtype_of(t) == MT_BOOL || mt_dtype_of(t) == MT_UINT8;
}

/* Takes index. */
static int by_tensor(walk *w, mt_tensor *index, int rank)
{
    if (mt_dtype_of(index) == MT_UINT8 &&
        PyErr_WarnEx(
            PyExc_UserWarning,
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
            1) < 0) {
        mt_release(index);
        return -1;
    }
    int covers = is_mask(index) ? mt_rank(index) : 1;
    if (mt_dtype_is_real(mt_dtype_of(index))) {
        mt_release(index);
        PyErr_SetString(PyExc_IndexError, "tensors used as indices must be long, int, byte or bool tensors");
        return -1;
    }
    if (w->dim + covers > mt_rank(w->t)) {
        mt_release(index);
        return too_many(rank);
    }
    while (w->count < w->dim - w->shift)
        w->indices[w->count++] = NULL;
    w->indices[w->count++] = index;
    w->dim += covers;
    w->shift += covers - 1;
    return 0;
}

/* x[True]: a new dim, of size 1 or 0. */
static int by_bool(walk *w, bool truth, int rank)
{
    mt_tensor *mask;
    int64_t one = 1;
    bool byte = truth;
    mt_value dim = mt_value_int(w->dim);
    if (step(w, MT_OP_unsqueeze, &dim, 1) < 0)
        return -1;
    mt_status status = mt_tensor_from(&byte, MT_BOOL, 1, &one, &mask);
    if (status != MT_OK) {
        mtpy_raise(status);
        return -1;
    }
    return by_tensor(w, mask, rank + 1);
}

static int bad_index(PyObject *o)
{
    PyErr_Format(PyExc_IndexError,
                 "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
                 "indices (got %s)",
                 Py_TYPE(o)->tp_name);
    return -1;
}

static int by_list(walk *w, PyObject *o, int rank)
{
    mt_tensor *index = mtpy_tensor_from(o, -1, MT_CPU);
    if (index == NULL)
        return -1;
    if (mt_numel(index) == 0 && mt_dtype_is_real(mt_dtype_of(index))) { /* x[[]] */
        mt_release(index);
        index = mtpy_tensor_from(o, MT_INT64, MT_CPU);
        if (index == NULL)
            return -1;
    }
    return by_tensor(w, index, rank);
}

/* How many dims of the tensor an item consumes. */
static int uses(PyObject *o)
{
    if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o))
        return 0;
    if (mtpy_is_tensor(o) && is_mask(mtpy_tensor_of(o)))
        return mt_rank(mtpy_tensor_of(o));
    return 1;
}

static int by_item(walk *w, PyObject *o, int used, int rank)
{
    int64_t i;
    if (o == Py_None)
        return by_none(w);
    if (PyBool_Check(o))
        return by_bool(w, o == Py_True, rank);
    if (PySlice_Check(o))
        return by_slice(w, o, rank);
    if (o == Py_Ellipsis) {
        int skip = rank - used;
        w->dim += skip > 0 ? skip : 0;
        return 0;
    }
    if (mtpy_is_tensor(o)) {
        mt_tensor *t = mtpy_tensor_of(o);
        if (mt_rank(t) == 0 && is_mask(t)) {
            int64_t truth;
            mt_status status = mt_item_int(t, &truth);
            if (status != MT_OK) {
                mtpy_raise(status);
                return -1;
            }
            return by_bool(w, truth != 0, rank);
        }
        if (mt_rank(t) > 0 || mt_dtype_is_real(mt_dtype_of(t)))
            return by_tensor(w, mt_retain(t), rank);
    }
    if (PyList_Check(o) || PyTuple_Check(o) || PyRange_Check(o) ||
        (PyObject_CheckBuffer(o) && PySequence_Check(o) && !PyBytes_Check(o) && !mtpy_is_tensor(o) &&
         !mtpy_is_number(o)))
        return by_list(w, o, rank);
    int fits = mtpy_index(o, &i);
    return fits < 0 ? -1 : fits > 0 ? by_int(w, i, rank) : bad_index(o);
}

static int go_along(walk *w, PyObject *tuple)
{
    int rank = mt_rank(w->t), used = 0;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    for (Py_ssize_t i = 0; i < n; i++)
        used += uses(PyTuple_GET_ITEM(tuple, i));
    if (used > rank)
        return too_many(rank);
    for (Py_ssize_t i = 0; i < n; i++)
        if (by_item(w, PyTuple_GET_ITEM(tuple, i), used, rank) < 0)
            return -1;
    return 0;
}

/* Does PyTorch read this list as a tuple: does it hold what cannot be an item of one tensor of indices? */
static bool is_tuple_in_disguise(PyObject *list)
{
    Py_ssize_t n = PyList_Check(list) ? PyList_GET_SIZE(list) : 32;
    for (Py_ssize_t i = 0; i < n && n < 32; i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        if (mtpy_is_tensor(o) || PySequence_Check(o) || PySlice_Check(o) || o == Py_Ellipsis || o == Py_None)
            return true;
    }
    return false;
}

/* Walks through the index; the caller must end w even on failure. */
static int go(walk *w, PyObject *self, PyObject *index)
{
    w->t = mt_retain(mtpy_tensor_of(self));
    w->dim = w->count = w->shift = 0;
    if (is_tuple_in_disguise(index)) {
        if (PyErr_WarnEx(
                PyExc_UserWarning,
                "Using a list of lists, slices or tensors as an index is deprecated: x[[a, b]] means x[a, b] "
                "here, as in PyTorch 2.13; use x[tuple(list)], or x[torch.tensor(list)] for one index.",
                1) < 0)
            return -1;
        PyObject *tuple = PyList_AsTuple(index);
        int status = tuple != NULL ? go_along(w, tuple) : -1;
        Py_XDECREF(tuple);
        return status;
    }
    return PyTuple_Check(index) ? go_along(w, index) : by_item(w, index, uses(index), mt_rank(w->t));
}

PyObject *mtpy_select(PyObject *self, Py_ssize_t i)
{
    walk w = {.t = mt_retain(mtpy_tensor_of(self))};
    int status = by_int(&w, i, mt_rank(w.t));
    PyObject *made = status == 0 ? mtpy_wrap(mt_retain(w.t)) : NULL;
    end(&w);
    return made;
}

PyObject *mtpy_getitem(PyObject *self, PyObject *index)
{
    walk w;
    PyObject *made = NULL;
    if (go(&w, self, index) == 0) {
        if (w.count > 0) {
            mt_value args[] = {mt_value_tensor(w.t), mt_value_tensors(w.indices, (uint32_t)w.count)};
            made = mtpy_call1(MT_OP_index, args, 2);
        } else if (w.t == mtpy_tensor_of(self)) { /* x[...]: a new tensor */
            mt_value args[] = {mt_value_tensor(w.t)};
            made = mtpy_call1(MT_OP_alias, args, 1);
        } else {
            made = mtpy_wrap(mt_retain(w.t));
        }
    }
    end(&w);
    return made;
}

/* ------------------------------------------------------------------------------------------------ setting */

/* The value as a tensor with the dtype and device of t; owned. NULL with an exception set. */
static mt_tensor *value_tensor(PyObject *value, const mt_tensor *t)
{
    if (!mtpy_is_tensor(value))
        return mtpy_tensor_from(value, (int)mt_dtype_of(t), mt_device_of(t));
    return mt_retain(mtpy_tensor_of(value));
}

/* Replaces *v by op(*v, dims). */
static mt_status reshaped(mt_tensor **v, mt_op_id op, const int64_t *dims, int rank)
{
    mt_value args[] = {mt_value_tensor(*v), mt_value_ints(dims, (uint32_t)rank)};
    mt_tensor *made = NULL;
    mt_status status = mt_call(op, args, 2, &made);
    if (status == MT_OK) {
        mt_release(*v);
        *v = made;
    }
    return status;
}

/* PyTorch drops a value's leading dims of size 1. */
static mt_status strip_ones(mt_tensor **v)
{
    int ones = 0;
    while (ones < mt_rank(*v) && mt_dims(*v)[ones] == 1)
        ones++;
    return reshaped(v, MT_OP_view, mt_dims(*v) + ones, mt_rank(*v) - ones);
}

static bool same_dims(const mt_tensor *a, const mt_tensor *b)
{
    return mt_rank(a) == mt_rank(b) &&
           memcmp(mt_dims(a), mt_dims(b), (size_t)mt_rank(a) * sizeof *mt_dims(a)) == 0;
}

/* Expanded before it is copied, as in PyTorch: x[:] = x[0] is not refused as an overlap. */
static mt_status put_all(const walk *w, mt_tensor **v)
{
    mt_status status = MT_OK;
    mt_tensor *out = NULL;
    bool same = same_dims(*v, w->t);
    if (!same && mt_rank(*v) == 0 && mt_device_of(*v) == MT_CPU && mt_device_of(w->t) == MT_CPU) {
        mt_value args[] = {mt_value_tensor(w->t), mt_value_tensor(*v)};
        status = mt_call(MT_OP_fill_, args, 2, &out);
        mt_release(out);
        return status;
    }
    if (!same) {
        status = strip_ones(v);
        if (status == MT_OK && !same_dims(*v, w->t))
            status = reshaped(v, MT_OP_expand, mt_dims(w->t), mt_rank(w->t));
    }
    mt_value args[] = {mt_value_tensor(w->t), mt_value_tensor(*v), mt_value_truth(false)};
    if (status == MT_OK)
        status = mt_call(MT_OP_copy_, args, 3, &out);
    mt_release(out);
    return status;
}

static mt_status put_indexed(const walk *w, mt_tensor **v)
{
    mt_tensor *out = NULL;
    mt_status status = mt_rank(*v) > 0 && mt_dims(*v)[0] == 1 ? strip_ones(v) : MT_OK;
    if (status != MT_OK)
        return status;
    mt_value args[] = {mt_value_tensor(w->t), mt_value_tensors(w->indices, (uint32_t)w->count),
                       mt_value_tensor(*v)};
    status = mt_call(MT_OP_index_put_, args, 3, &out);
    mt_release(out);
    return status;
}

/* As in PyTorch, fill_ refuses these, but x[0] = number gives infinity. */
static bool exceeds_half(const mt_value *number, mt_dtype dtype)
{
    double size = fabs(number->kind == MT_FLOAT ? number->as.f : (double)number->as.i);
    return (dtype == MT_FLOAT16 && size > 65504) || (dtype == MT_BFLOAT16 && size > 0x1.fep127);
}

static mt_status put(walk *w, PyObject *value, bool *raised)
{
    mt_tensor *out = NULL;
    mt_value number;
    int fits = w->count == 0 ? mtpy_number(value, &number) : 0;
    *raised = fits < 0;
    if (fits < 0)
        return MT_OK;
    if (fits > 0 && !exceeds_half(&number, mt_dtype_of(w->t))) {
        mt_value args[] = {mt_value_tensor(w->t), number};
        mt_status status = mt_call(MT_OP_fill_, args, 2, &out);
        mt_release(out);
        return status;
    }
    mt_tensor *v = value_tensor(value, w->t);
    *raised = v == NULL;
    if (v == NULL)
        return MT_OK;
    mt_status status = w->count > 0 ? put_indexed(w, &v) : put_all(w, &v);
    mt_release(v);
    return status;
}

int mtpy_setitem(PyObject *self, PyObject *index, PyObject *value)
{
    if (value == NULL) {
        PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
        return -1;
    }
    walk w;
    bool raised = false;
    int result = go(&w, self, index);
    if (result == 0) {
        mt_status status = put(&w, value, &raised);
        if (status != MT_OK)
            mtpy_raise(status);
        result = status == MT_OK && !raised ? 0 : -1;
    }
    end(&w);
    return result;
}
