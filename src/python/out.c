/* python/out.c - ops that write their results to tensors of the caller: torch.sin(x, out=y). */
#include "python/parse.h"
#include <string.h>

#define MOST_OUTS 8

/* The state of a tensor before the call. */
typedef struct before {
    int rank;
    int64_t numel, dims[MT_MAX_RANK];
} before;

static before note(const mt_tensor *t)
{
    before b = {.rank = mt_rank(t), .numel = mt_numel(t)};
    memcpy(b.dims, mt_dims(t), (size_t)b.rank * sizeof *b.dims);
    return b;
}

static PyObject *shape_text(int rank, const int64_t *dims)
{
    PyObject *list = PyList_New(rank), *text;
    for (int i = 0; list != NULL && i < rank; i++) {
        PyObject *o = PyLong_FromLongLong(dims[i]);
        mtpy_put(&list, (Py_ssize_t)i, o);
    }
    text = list != NULL ? PyObject_Str(list) : NULL;
    Py_XDECREF(list);
    return text;
}

/* With PyTorch's message. */
static int warn_of_resizing(const before *b, const mt_tensor *t)
{
    int rank = mt_rank(t);
    if (b->numel == 0 ||
        (b->rank == rank && memcmp(b->dims, mt_dims(t), (size_t)rank * sizeof *b->dims) == 0))
        return 0;
    PyObject *had = shape_text(b->rank, b->dims), *has = shape_text(rank, mt_dims(t));
    int status = -1;
    if (had != NULL && has != NULL)
        status = PyErr_WarnFormat(
            PyExc_UserWarning, 1,
            "An output with one or more elements was resized since it had shape %U, which does not match the "
            "required output shape %U. This behavior is deprecated, and in a future PyTorch release outputs "
            "will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by "
            "resizing it, inplace, to zero elements with t.resize_(0).",
            had, has);
    Py_XDECREF(had);
    Py_XDECREF(has);
    return status;
}

static mt_status call(mt_op_id op, const mtpy_parse *p, mt_tensor *const *into)
{
    mt_status status;
    if (!mtpy_is_heavy(op, p->values, p->count))
        return mt_call_out(op, p->values, p->count, into);
    Py_BEGIN_ALLOW_THREADS
    status = mt_call_out(op, p->values, p->count, into);
    Py_END_ALLOW_THREADS
    return status;
}

/* The caller's objects, under the names of the results. */
static PyObject *pack(PyTypeObject *result, PyObject *items)
{
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    PyObject *made = result != NULL ? PyStructSequence_New(result) : Py_NewRef(items);
    for (Py_ssize_t i = 0; made != NULL && result != NULL && i < n; i++)
        PyStructSequence_SetItem(made, i, Py_NewRef(PyTuple_GET_ITEM(items, i)));
    return made;
}

PyObject *mtpy_call_out(mt_op_id op, const mtpy_parse *p, PyTypeObject *result)
{
    unsigned n = mt_op_outputs(op);
    mt_tensor *into[MOST_OUTS];
    before had[MOST_OUTS];
    PyObject *items = n == 1 ? PyTuple_Pack(1, p->out) : PySequence_Tuple(p->out); /* held during the call */
    if (items == NULL)
        return NULL;
    for (unsigned i = 0; i < n; i++) {
        into[i] = mtpy_tensor_of(PyTuple_GET_ITEM(items, i));
        had[i] = note(into[i]);
    }
    mt_status status = call(op, p, into);
    if (status == MT_OK && p->requires_grad)
        status = mt_set_requires_grad(into[0], true);
    PyObject *made = NULL;
    bool warned = false;
    for (unsigned i = 0; status == MT_OK && !warned && i < n; i++)
        warned = warn_of_resizing(&had[i], into[i]) < 0;
    if (status != MT_OK)
        mtpy_raise(status);
    else if (!warned)
        made = n == 1 ? Py_NewRef(p->out) : pack(result, items);
    Py_DECREF(items);
    return made;
}
