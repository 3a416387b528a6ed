/* python/tensor_type.c - the Tensor type: lifetime and identity of its objects, operators.
 *
 * Dead objects of the exact type (not of subclasses) are reused, since every op creates one.
 */
#include "python/binding.h"
#include <structmember.h>

/* ------------------------------------------------------------------------------------- life and identity */

#define KEPT 128
static mtpy_tensor *kept[KEPT]; /* under the GIL */
static unsigned kept_count;

static mtpy_tensor *new_object(void)
{
    if (LIKELY(kept_count > 0)) {
        mtpy_tensor *o = kept[--kept_count];
        PyObject_Init((PyObject *)o, mtpy.tensor);
        return o;
    }
    return PyObject_GC_New(mtpy_tensor, mtpy.tensor);
}

PyObject *mtpy_wrap(mt_tensor *t)
{
    if (UNLIKELY(t == NULL))
        Py_RETURN_NONE;
    PyObject *known = mt_python(t);
    if (known != NULL) {
        Py_INCREF(known);
        mt_release(t); /* the object holds its own reference */
        return known;
    }
    mtpy_tensor *o = new_object();
    if (UNLIKELY(o == NULL)) {
        mt_release(t);
        return NULL;
    }
    o->t = t;
    o->dict = o->weak = NULL;
    mt_python_set(t, o);
    PyObject_GC_Track(o);
    return (PyObject *)o;
}

PyObject *mtpy_wrap_as(PyTypeObject *type, mt_tensor *t)
{
    mtpy_tensor *o = (mtpy_tensor *)type->tp_alloc(type, 0);
    if (o == NULL) {
        mt_release(t);
        return NULL;
    }
    o->t = t;
    mt_python_set(t, o);
    return (PyObject *)o;
}

static void dealloc(PyObject *self)
{
    mtpy_tensor *o = (mtpy_tensor *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (UNLIKELY(o->weak != NULL))
        PyObject_ClearWeakRefs(self);
    Py_CLEAR(o->dict);
    mt_tensor *t = o->t;
    o->t = NULL;
    if (LIKELY(t != NULL))
        mt_disown(t);
    if (type == mtpy.tensor && kept_count < KEPT)
        kept[kept_count++] = o;
    else
        type->tp_free(self);
    Py_DECREF(type);
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    mtpy_tensor *o = (mtpy_tensor *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(o->dict);
    return o->t != NULL ? mtpy_hooks_traverse(o->t, visit, arg) : 0;
}

/* The tensor stays: methods may still be called on the object. */
static int clear(PyObject *self)
{
    mtpy_tensor *o = (mtpy_tensor *)self;
    Py_CLEAR(o->dict);
    if (o->t != NULL)
        mt_hooks_clear(o->t);
    return 0;
}

/* Tensor(), Tensor(2, 3), Tensor([[1, 2]]), Tensor(other): of the default dtype. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    if (names != NULL && PyDict_GET_SIZE(names) > 0 && type == mtpy.tensor) {
        PyErr_SetString(PyExc_TypeError, "Tensor() takes no keyword arguments; use tensor()");
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *first = n == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    mt_tensor *t = NULL;
    if (first != NULL && mtpy_is_tensor(first)) {
        mt_value self = mt_value_tensor(mtpy_tensor_of(first));
        mt_status status = mt_call(MT_OP_detach, &self, 1, &t);
        if (status != MT_OK)
            return mtpy_raise(status);
    } else if (first != NULL && !PyLong_Check(first) && !Py_IS_TYPE(first, mtpy.size)) {
        t = mtpy_tensor_from(first, mt_default_dtype(), MT_CPU);
    } else {
        int64_t dims[MT_MAX_RANK];
        PyObject *sizes = first != NULL && PyTuple_Check(first) ? first : args;
        n = PyTuple_GET_SIZE(sizes);
        if (n > MT_MAX_RANK) {
            PyErr_Format(PyExc_RuntimeError, "a tensor has at most %d dims, got %zd", MT_MAX_RANK, n);
            return NULL;
        }
        for (Py_ssize_t i = 0; i < n; i++)
            if (mtpy_index(PyTuple_GET_ITEM(sizes, i), &dims[i]) <= 0) {
                if (!PyErr_Occurred())
                    PyErr_Format(PyExc_TypeError, "Tensor(): argument %zd must be int, not %s", i + 1,
                                 Py_TYPE(PyTuple_GET_ITEM(sizes, i))->tp_name);
                return NULL;
            }
        int64_t none = 0;
        bool empty = n == 0 && sizes == args;
        mt_status status =
            mt_tensor_create(mt_default_dtype(), MT_CPU, empty ? 1 : (int)n, empty ? &none : dims, &t);
        if (status != MT_OK)
            return mtpy_raise(status);
    }
    if (t == NULL)
        return NULL;
    return type == mtpy.tensor ? mtpy_wrap(t) : mtpy_wrap_as(type, t);
}

/* ------------------------------------------------------------------------------------------- operators */

/* 1: *out is o as an operand; 0: o cannot be one; -1: an exception is set. */
static inline int operand(PyObject *o, mt_value *out)
{
    if (LIKELY(mtpy_is_tensor(o))) {
        *out = mt_value_tensor(mtpy_tensor_of(o));
        return 1;
    }
    return mtpy_number(o, out);
}

/* a OP b where either may be the tensor; swapped: the op for a number on the left, operands swapped. */
static inline PyObject *binary(mt_op_id op, mt_op_id swapped, PyObject *a, PyObject *b, unsigned count)
{
    mt_value args[3];
    args[2] = mt_value_int(1); /* alpha, where the op has one */
    int fits = operand(a, &args[0]);
    if (fits > 0)
        fits = operand(b, &args[1]);
    if (UNLIKELY(fits <= 0)) {
        if (fits < 0)
            return NULL;
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (UNLIKELY(args[0].kind != MT_TENSOR)) {
        mt_value number = args[0];
        args[0] = args[1];
        args[1] = number;
        op = swapped;
    }
    return mtpy_call1(op, args, count);
}

#define BINARY(name, op, swapped, count)                                                                     \
    static PyObject *nb_##name(PyObject *a, PyObject *b)                                                     \
    {                                                                                                        \
        return binary(MT_OP_##op, MT_OP_##swapped, a, b, count);                                             \
    }
BINARY(add, add, add, 3)
BINARY(subtract, sub, rsub, 3)
BINARY(multiply, mul, mul, 2)
BINARY(and, __and__, bitwise_and, 2)
BINARY(or, __or__, bitwise_or, 2)
BINARY(xor, __xor__, bitwise_xor, 2)
#undef BINARY

/* If an op has no swapped form, a number on the left becomes a tensor with a dtype like the other's. */
static PyObject *number_left(mt_op_id op, PyObject *a, PyObject *b)
{
    mt_value args[2];
    if (!mtpy_is_number(a))
        Py_RETURN_NOTIMPLEMENTED;
    mt_tensor *left = mtpy_number_tensor(a, mtpy_tensor_of(b));
    if (left == NULL)
        return NULL;
    args[0] = mt_value_tensor(left);
    args[1] = mt_value_tensor(mtpy_tensor_of(b));
    PyObject *made = mtpy_call1(op, args, 2);
    mt_release(left);
    return made;
}

static PyObject *nb_true_divide(PyObject *a, PyObject *b)
{
    if (LIKELY(mtpy_is_tensor(a)))
        return binary(MT_OP_div, MT_OP_div, a, b, 2);
    mt_value number, self = mt_value_tensor(mtpy_tensor_of(b));
    int fits = mtpy_number(a, &number);
    if (fits <= 0) {
        if (fits < 0)
            return NULL;
        Py_RETURN_NOTIMPLEMENTED;
    }
    /* as PyTorch does: reciprocal() * number */
    mt_tensor *inverse = NULL;
    mt_status status = mt_call(MT_OP_reciprocal, &self, 1, &inverse);
    if (status != MT_OK)
        return mtpy_raise(status);
    mt_value args[] = {mt_value_tensor(inverse), number};
    PyObject *made = mtpy_call1(MT_OP_mul, args, 2);
    mt_release(inverse);
    return made;
}

static PyObject *nb_floor_divide(PyObject *a, PyObject *b)
{
    return mtpy_is_tensor(a) ? binary(MT_OP_floor_divide, MT_OP_floor_divide, a, b, 2)
                             : number_left(MT_OP_floor_divide, a, b);
}

static PyObject *nb_remainder(PyObject *a, PyObject *b)
{
    return mtpy_is_tensor(a) ? binary(MT_OP_remainder, MT_OP_remainder, a, b, 2)
                             : number_left(MT_OP_remainder, a, b);
}

static PyObject *nb_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    mt_value args[2];
    int fits = operand(a, &args[0]);
    if (fits > 0)
        fits = operand(b, &args[1]);
    if (fits <= 0) {
        if (fits < 0)
            return NULL;
        Py_RETURN_NOTIMPLEMENTED;
    }
    mt_op_id op = args[0].kind != MT_TENSOR   ? MT_OP_pow_from
                  : args[1].kind == MT_TENSOR ? MT_OP_pow_tensor
                                              : MT_OP_pow;
    return mtpy_call1(op, args, 2);
}

static PyObject *nb_matrix_multiply(PyObject *a, PyObject *b)
{
    if (!mtpy_is_tensor(a) || !mtpy_is_tensor(b))
        Py_RETURN_NOTIMPLEMENTED;
    mt_value args[] = {mt_value_tensor(mtpy_tensor_of(a)), mt_value_tensor(mtpy_tensor_of(b))};
    return mtpy_call1(MT_OP_matmul, args, 2);
}

#define IN_PLACE(name, op, count)                                                                            \
    static PyObject *name(PyObject *a, PyObject *b)                                                          \
    {                                                                                                        \
        return binary(op, op, a, b, count);                                                                  \
    }
IN_PLACE(nb_inplace_add, MT_OP_add_, 3)
IN_PLACE(nb_inplace_subtract, MT_OP_sub_, 3)
IN_PLACE(nb_inplace_multiply, MT_OP_mul_, 2)
IN_PLACE(nb_inplace_true_divide, MT_OP_div_, 2)
IN_PLACE(nb_inplace_floor_divide, MT_OP_floor_divide_, 2)
IN_PLACE(nb_inplace_remainder, MT_OP_remainder_, 2)
IN_PLACE(nb_inplace_and, MT_OP___iand__, 2)
IN_PLACE(nb_inplace_or, MT_OP___ior__, 2)
IN_PLACE(nb_inplace_xor, MT_OP___ixor__, 2)
#undef IN_PLACE

static PyObject *nb_inplace_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    mt_op_id op = mtpy_is_tensor(b) ? MT_OP_pow_tensor_ : MT_OP_pow_;
    return modulus == Py_None ? binary(op, op, a, b, 2) : Py_NewRef(Py_NotImplemented);
}

static PyObject *unary(mt_op_id op, PyObject *self)
{
    mt_value v = mt_value_tensor(mtpy_tensor_of(self));
    return mtpy_call1(op, &v, 1);
}
static PyObject *nb_negative(PyObject *self)
{
    return unary(MT_OP_neg, self);
}
static PyObject *nb_positive(PyObject *self)
{
    if (mt_dtype_of(mtpy_tensor_of(self)) == MT_BOOL) {
        PyErr_SetString(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
        return NULL;
    }
    return Py_NewRef(self);
}
static PyObject *nb_absolute(PyObject *self)
{
    return unary(MT_OP_abs, self);
}
static PyObject *nb_invert(PyObject *self)
{
    if (mt_dtype_is_real(mt_dtype_of(mtpy_tensor_of(self)))) {
        PyErr_SetString(PyExc_TypeError,
                        "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
        return NULL;
    }
    return unary(MT_OP_bitwise_not, self);
}

static PyObject *richcompare(PyObject *a, PyObject *b, int how)
{
    static const mt_op_id ops[] = {MT_OP_lt, MT_OP_le, MT_OP_eq, MT_OP_ne, MT_OP_gt, MT_OP_ge};
    mt_value args[] = {mt_value_tensor(mtpy_tensor_of(a)), mt_value_none(NULL)};
    mt_tensor *array = NULL;
    int fits = operand(b, &args[1]);
    if (UNLIKELY(fits == 0) && PyObject_HasAttrString(b, "__array_interface__")) { /* else == is False */
        array = mtpy_tensor_from(b, -1, mt_device_of(mtpy_tensor_of(a)));
        args[1] = mt_value_tensor(array);
        fits = array != NULL ? 1 : -1;
    }
    if (fits <= 0) {
        if (fits < 0)
            return NULL;
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *made = mtpy_call1(ops[how], args, 2);
    mt_release(array);
    return made;
}

/* --------------------------------------------------------------------------------- as Python's own types */

static int nb_bool(PyObject *self)
{
    mt_tensor *t = mtpy_tensor_of(self);
    double d;
    if (mt_numel(t) != 1) {
        PyErr_SetString(PyExc_RuntimeError,
                        mt_numel(t) > 1 ? "Boolean value of Tensor with more than one value is ambiguous"
                                        : "Boolean value of Tensor with no values is ambiguous");
        return -1;
    }
    mt_status status = mt_item(t, &d);
    if (status == MT_OK)
        return d != 0;
    mtpy_raise(status);
    return -1;
}

/* Takes the item. */
static PyObject *as_number(PyObject *item, PyObject *(*turn)(PyObject *))
{
    PyObject *number = item != NULL ? turn(item) : NULL;
    Py_XDECREF(item);
    return number;
}

static PyObject *nb_float(PyObject *self)
{
    return as_number(mtpy_item(mtpy_tensor_of(self)), PyNumber_Float);
}

static PyObject *nb_int(PyObject *self)
{
    return as_number(mtpy_item(mtpy_tensor_of(self)), PyNumber_Long);
}

static PyObject *nb_index(PyObject *self)
{
    mt_tensor *t = mtpy_tensor_of(self);
    if (mt_dtype_is_real(mt_dtype_of(t)) || mt_numel(t) != 1) {
        PyErr_SetString(PyExc_TypeError,
                        "only integer tensors of a single element can be converted to an index");
        return NULL;
    }
    return nb_int(self);
}

static Py_ssize_t length(PyObject *self)
{
    mt_tensor *t = mtpy_tensor_of(self);
    if (mt_rank(t) > 0)
        return (Py_ssize_t)mt_dims(t)[0];
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
}

static PyObject *iterate(PyObject *self)
{
    if (mt_rank(mtpy_tensor_of(self)) == 0) {
        PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
        return NULL;
    }
    PyObject *tuple = mtpy_call_set(MT_OP_unbind, self, NULL, 0, NULL);
    PyObject *it = tuple != NULL ? PyObject_GetIter(tuple) : NULL;
    Py_XDECREF(tuple);
    return it;
}

static int contains(PyObject *self, PyObject *item)
{
    if (!mtpy_is_tensor(item) && !mtpy_is_number(item)) {
        PyErr_Format(PyExc_RuntimeError,
                     "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.",
                     (PyObject *)Py_TYPE(item));
        return -1;
    }
    PyObject *same = richcompare(self, item, Py_EQ);
    PyObject *any = same != NULL ? unary(MT_OP_any, same) : NULL;
    Py_XDECREF(same);
    int found = any != NULL ? nb_bool(any) : -1;
    Py_XDECREF(any);
    return found;
}

static Py_hash_t hash(PyObject *self)
{
    return (Py_hash_t)((uintptr_t)self >> 4);
}

static PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(mtpy_tensor, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(mtpy_tensor, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, tensor_new},
    {Py_tp_dealloc, dealloc},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_members, members},
    {Py_tp_methods, mtpy_tensor_methods},
    {Py_tp_getset, mtpy_tensor_properties},
    {Py_tp_richcompare, richcompare},
    {Py_tp_hash, hash},
    {Py_tp_iter, iterate},
    {Py_nb_add, nb_add},
    {Py_nb_subtract, nb_subtract},
    {Py_nb_multiply, nb_multiply},
    {Py_nb_true_divide, nb_true_divide},
    {Py_nb_floor_divide, nb_floor_divide},
    {Py_nb_remainder, nb_remainder},
    {Py_nb_power, nb_power},
    {Py_nb_matrix_multiply, nb_matrix_multiply},
    {Py_nb_and, nb_and},
    {Py_nb_or, nb_or},
    {Py_nb_xor, nb_xor},
    {Py_nb_negative, nb_negative},
    {Py_nb_positive, nb_positive},
    {Py_nb_absolute, nb_absolute},
    {Py_nb_invert, nb_invert},
    {Py_nb_inplace_add, nb_inplace_add},
    {Py_nb_inplace_subtract, nb_inplace_subtract},
    {Py_nb_inplace_multiply, nb_inplace_multiply},
    {Py_nb_inplace_true_divide, nb_inplace_true_divide},
    {Py_nb_inplace_floor_divide, nb_inplace_floor_divide},
    {Py_nb_inplace_remainder, nb_inplace_remainder},
    {Py_nb_inplace_power, nb_inplace_power},
    {Py_nb_inplace_and, nb_inplace_and},
    {Py_nb_inplace_or, nb_inplace_or},
    {Py_nb_inplace_xor, nb_inplace_xor},
    {Py_nb_bool, nb_bool},
    {Py_nb_float, nb_float},
    {Py_nb_int, nb_int},
    {Py_nb_index, nb_index},
    {Py_mp_length, length},
    {Py_mp_subscript, mtpy_getitem},
    {Py_mp_ass_subscript, mtpy_setitem},
    {Py_sq_length, length},
    {Py_sq_item, mtpy_select},
    {Py_sq_contains, contains},
    {Py_bf_getbuffer, mtpy_getbuffer},
    {Py_bf_releasebuffer, mtpy_releasebuffer},
    {0, NULL},
};
static PyType_Spec spec = {"mindtorch_v2.Tensor", sizeof(mtpy_tensor), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

int mtpy_tensor_type_init(PyObject *module)
{
    mtpy.tensor = (PyTypeObject *)PyType_FromSpec(&spec);
    if (mtpy.tensor != NULL)
        mtpy.tensor->tp_name = "Tensor"; /* the name in the interpreter's messages, as for PyTorch's */
    return mtpy.tensor == NULL ? -1 : PyModule_AddObjectRef(module, "Tensor", (PyObject *)mtpy.tensor);
}
