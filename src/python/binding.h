/* python/binding.h - shared by the files of the CPython binding. It uses the runtime only through
 * mindtorch.h: parse, release the GIL where it pays, one call, translate.
 *
 * Invariants: an mt_tensor has at most one object (mt_python), which owns one reference to it; destroying the
 * object clears the pointer. All functions need the GIL unless they say otherwise. Returned references are
 * new, arguments are borrowed, unless a comment says `takes`. Only one interpreter: types, like tensors, are
 * per process.
 */
#ifndef PYTHON_BINDING_H
#define PYTHON_BINDING_H
#include "python/common.h"
#include <mindtorch.h>

#define COUNT_OF(a) (sizeof(a) / sizeof(*(a)))

typedef struct mtpy_tensor {
    PyObject_HEAD
    mt_tensor *t; /* owned */
    PyObject *dict, *weak;
} mtpy_tensor;

/* The types and other objects that live as long as the process. */
extern struct mtpy_state {
    PyTypeObject *tensor, *dtype, *device, *size, *node;
    PyObject *dtypes[MT_DTYPES]; /* torch.float32 ... */
    PyObject *ops;               /* the module of op functions */
    PyObject *out_of_memory;     /* torch.OutOfMemoryError */
} mtpy;

/* ---------------------------------------------------------------------------------------------- errors.c */

/* The only place that turns a status into an exception. Returns NULL. */
PyObject *mtpy_raise(mt_status status);
static inline PyObject *mtpy_none(mt_status status) /* None, or the exception */
{
    return status == MT_OK ? Py_NewRef(Py_None) : mtpy_raise(status);
}
static inline int mtpy_set(mt_status status) /* for setters: 0, or -1 with the exception set */
{
    return status == MT_OK ? 0 : (mtpy_raise(status), -1);
}
/* In a callback with an exception set: keeps it until mtpy_raise(MT_E_CALLBACK) on this thread. */
void mtpy_keep_exception(void);
int mtpy_errors_init(PyObject *module);

/* ----------------------------------------------------------------------------------------- tensor_type.c */

static inline bool mtpy_is_tensor(PyObject *o)
{
    return Py_IS_TYPE(o, mtpy.tensor) || PyType_IsSubtype(Py_TYPE(o), mtpy.tensor);
}
static inline mt_tensor *mtpy_tensor_of(PyObject *o) /* borrowed; o is known to be one */
{
    return ((mtpy_tensor *)o)->t;
}
/* The object of t, created if needed. Takes t; NULL becomes None. */
PyObject *mtpy_wrap(mt_tensor *t);
/* A new object of a subclass for t, which has no object. Takes t. */
PyObject *mtpy_wrap_as(PyTypeObject *type, mt_tensor *t);
int mtpy_tensor_type_init(PyObject *module);
extern PyMethodDef mtpy_tensor_methods[];
extern PyGetSetDef mtpy_tensor_properties[];

/* ------------------------------------------------------------------------------------------------ call.c */

/* Is the op large enough to release the GIL? */
bool mtpy_is_heavy(mt_op_id op, const mt_value *args, unsigned count);
/* mt_call for one output, as an object; args borrowed. */
PyObject *mtpy_call1(mt_op_id op, const mt_value *args, unsigned count);
/* Calls the overloads of `first`: self (or NULL) and the arguments of a vectorcall. */
PyObject *mtpy_call_set(mt_op_id first, PyObject *self, PyObject *const *args, Py_ssize_t count,
                        PyObject *names);
int mtpy_call_init(PyObject *module); /* adds the ops module, and methods to the Tensor type */

/* --------------------------------------------------------------------------------------------- convert.c */

/* Is o a number, Python's or NumPy's (not a tensor)? */
bool mtpy_is_number(PyObject *o);
/* 1: *out is the number; 0: o is not a number; -1: an exception is set. */
int mtpy_number(PyObject *o, mt_value *out);
/* A number as a tensor (new, owned, 0-dim) for an op that needs one: it affects the result's dtype no more
 * than a number does. beside: the other operand, or NULL. Returns NULL with an exception set. */
mt_tensor *mtpy_number_tensor(PyObject *o, const mt_tensor *beside);
int mtpy_index(PyObject *o, int64_t *out); /* the same for ints; a bool is not one */
/* The element of a one-element tensor. */
PyObject *mtpy_item(mt_tensor *t);
int mtpy_item_value(mt_tensor *t, mt_value *out); /* 1 or -1 */
/* A tensor (new, owned) with the data of o; dtype -1: inferred. Returns NULL with an exception set. */
mt_tensor *mtpy_tensor_from(PyObject *o, int dtype, mt_device device);
PyObject *mtpy_tolist(mt_tensor *t);
PyObject *mtpy_numpy(PyObject *self);
int mtpy_getbuffer(PyObject *self, Py_buffer *view, int flags);
void mtpy_releasebuffer(PyObject *self, Py_buffer *view);
extern PyMethodDef mtpy_convert_functions[];

/* ----------------------------------------------------------------------------------------------- index.c */

PyObject *mtpy_getitem(PyObject *self, PyObject *index);
int mtpy_setitem(PyObject *self, PyObject *index, PyObject *value);
PyObject *mtpy_select(PyObject *self, Py_ssize_t i);

/* ------------------------------------------------------------------------------- dtype.c, device.c, size.c */

int mtpy_dtype_init(PyObject *module);
bool mtpy_dtype(PyObject *o, mt_dtype *out); /* torch.float32, or the types float, int and bool */
PyObject *mtpy_dtype_object(mt_dtype dtype);
int mtpy_device_init(PyObject *module);
/* 1: torch.device, "cpu", "npu:0" or an index; 0: something else; -1: an exception is set (invalid
 * string). */
int mtpy_device(PyObject *o, mt_device *out);
PyObject *mtpy_device_object(mt_device device);
int mtpy_size_init(PyObject *module);
PyObject *mtpy_size_object(const int64_t *dims, int rank);

/* -------------------------------------------------------------------------------------------- autograd.c */

int mtpy_autograd_init(PyObject *module);
PyObject *mtpy_node_object(mt_node *node); /* NULL becomes None */
extern PyMethodDef mtpy_autograd_functions[];
extern PyMethodDef mtpy_npu_functions[];           /* npu.c */
extern PyMethodDef mtpy_dispatch_mode_functions[]; /* dispatch_mode.c */
extern PyMethodDef mtpy_autocast_functions[];      /* autocast.c */
/* For the garbage collector. */
int mtpy_hooks_traverse(mt_tensor *t, visitproc visit, void *arg);

#endif
