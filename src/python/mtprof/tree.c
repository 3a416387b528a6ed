/* python/mtprof/tree.c - the event tree of a trace, node by node, as numbers and tuples;
 * mindtorch_v2.profiler.tree turns them into torch's events. Built once, without the GIL; a node costs
 * nothing until it is accessed.
 */
#include "python/mtprof/trace.h"

typedef struct tree {
    PyObject_HEAD
    PyObject *trace; /* what the tree borrows from */
    mtp_tree *tree;  /* owned */
} tree;

static PyTypeObject *tree_type;

PyObject *mtpn_tree_object(PyObject *trace, PyObject *unused)
{
    (void)unused;
    tree *made = PyObject_New(tree, tree_type);
    if (made == NULL)
        return NULL;
    made->trace = Py_NewRef(trace);
    made->tree = NULL;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_tree_create(((mtpn_trace *)trace)->trace, &made->tree);
    Py_END_ALLOW_THREADS
    if (status == MTP_OK)
        return (PyObject *)made;
    Py_DECREF(made);
    return mtpn_raise(status);
}

static void tree_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mtp_tree_destroy(((tree *)self)->tree);
    Py_DECREF(((tree *)self)->trace);
    PyObject_Free(self);
    Py_DECREF(type);
}

static Py_ssize_t tree_length(PyObject *self)
{
    return (Py_ssize_t)mtp_tree_count(((tree *)self)->tree);
}

/* The node at `index`. false: an exception is set. */
static bool get(PyObject *self, PyObject *index, size_t *at, mtp_tree_node *out)
{
    *at = PyLong_AsSize_t(index);
    if (*at == (size_t)-1 && PyErr_Occurred())
        return false;
    out->size = sizeof *out;
    mtp_status status = mtp_tree_get(((tree *)self)->tree, *at, out);
    if (status != MTP_OK)
        mtpn_raise(status);
    return status == MTP_OK;
}

static PyObject *children_of(PyObject *self, size_t node)
{
    size_t count;
    const uint32_t *child = mtp_tree_children(((tree *)self)->tree, node, &count);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *number = PyLong_FromUnsignedLong(child[i]);
        mtpy_put(&list, (Py_ssize_t)i, number);
    }
    return list;
}

MTPY_NOARGS(tree_roots, children_of(self, MTP_NO_EVENT))

static PyObject *tree_children(PyObject *self, PyObject *index)
{
    mtp_tree_node n;
    size_t at;
    return get(self, index, &at, &n) ? children_of(self, at) : NULL;
}

static PyObject *tree_node(PyObject *self, PyObject *index)
{
    mtp_tree_node n;
    size_t at;
    if (!get(self, index, &at, &n))
        return NULL;
    PyObject *name = mtpn_str(n.name), *frame = mtpn_str(n.frame), *caller = mtpn_str(n.caller);
    if (name == NULL || frame == NULL || caller == NULL) {
        Py_XDECREF(name);
        Py_XDECREF(frame);
        Py_XDECREF(caller);
        return NULL;
    }
    return Py_BuildValue("(IINLLnKKLINNN)", n.kind, n.scope, name, (long long)n.start_ns, (long long)n.end_ns,
                         n.parent == MTP_NO_EVENT ? (Py_ssize_t)-1 : (Py_ssize_t)n.parent,
                         (unsigned long long)n.thread, (unsigned long long)n.correlation,
                         (long long)n.sequence, n.held, frame, caller, PyBool_FromLong(n.is_unfinished));
}

static PyObject *tree_allocation(PyObject *self, PyObject *index)
{
    mtp_tree_node n;
    size_t at;
    if (!get(self, index, &at, &n))
        return NULL;
    return Py_BuildValue("(KLLLLLii)", (unsigned long long)n.address, (long long)n.bytes,
                         (long long)n.total_allocated, (long long)n.total_reserved, (long long)n.id,
                         (long long)n.allocation_id, (int)n.device_type, (int)n.device_index);
}

static PyObject *tensors_of(PyObject *self, const mtp_tree_inputs *in)
{
    PyObject *list = PyList_New((Py_ssize_t)in->count);
    for (uint32_t i = 0; list != NULL && i < in->count; i++) {
        mtp_tree_tensor t = {.size = sizeof t};
        mtp_status status = mtp_tree_tensor_get(((tree *)self)->tree, in->first + i, &t);
        PyObject *item = status != MTP_OK ? mtpn_raise(status)
                                          : Py_BuildValue("(KKLLiiI)", (unsigned long long)t.number,
                                                          (unsigned long long)t.storage, (long long)t.id,
                                                          (long long)t.allocation_id, (int)t.device_type,
                                                          (int)t.device_index, t.dtype);
        mtpy_put(&list, (Py_ssize_t)i, item);
    }
    return list;
}

/* (shape, tensors): equal shapes have equal texts, so the texts need to be read only once. */
static PyObject *inputs_object(PyObject *self, const mtp_tree_inputs *in)
{
    PyObject *tensors = tensors_of(self, in);
    return tensors != NULL ? Py_BuildValue("(IN)", in->shape, tensors) : NULL;
}

static PyObject *tree_inputs(PyObject *self, PyObject *index)
{
    mtp_tree_node n;
    size_t at;
    return get(self, index, &at, &n) ? inputs_object(self, &n.inputs) : NULL;
}

static PyObject *tree_held(PyObject *self, PyObject *index)
{
    mtp_tree_node n;
    size_t at;
    PyObject *list = get(self, index, &at, &n) ? PyList_New((Py_ssize_t)n.held) : NULL;
    for (uint32_t i = 0; list != NULL && i < n.held; i++) {
        mtp_tree_inputs in;
        mtp_status status = mtp_tree_held(((tree *)self)->tree, at, i, &in);
        PyObject *part = status == MTP_OK ? inputs_object(self, &in) : mtpn_raise(status);
        mtpy_put(&list, (Py_ssize_t)i, part);
    }
    return list;
}

static PyObject *texts_of(const mtp_tree_inputs *in)
{
    PyObject *dims = mtpn_str(in->dims), *strides = mtpn_str(in->strides), *types = mtpn_str(in->types),
             *concrete = mtpn_str(in->concrete);
    if (dims != NULL && strides != NULL && types != NULL && concrete != NULL)
        return Py_BuildValue("(NNNN)", dims, strides, types, concrete);
    Py_XDECREF(dims);
    Py_XDECREF(strides);
    Py_XDECREF(types);
    Py_XDECREF(concrete);
    return NULL;
}

/* The texts of a shape: of the node's inputs, or of a part of its held tensors. */
static PyObject *tree_shape(PyObject *self, PyObject *args)
{
    PyObject *index;
    Py_ssize_t part = -1;
    mtp_tree_node n;
    size_t at;
    if (!PyArg_ParseTuple(args, "O|n:shape", &index, &part) || !get(self, index, &at, &n))
        return NULL;
    if (part < 0)
        return texts_of(&n.inputs);
    mtp_status status = mtp_tree_held(((tree *)self)->tree, at, (size_t)part, &n.inputs);
    return status == MTP_OK ? texts_of(&n.inputs) : mtpn_raise(status);
}

int mtpn_tree_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"roots", tree_roots, METH_NOARGS, PyDoc_STR("Nodes without a parent, by time.")},
        {"children", tree_children, METH_O, PyDoc_STR("children(node): nodes, by time.")},
        {"node", tree_node, METH_O,
         PyDoc_STR("node(node) -> (kind, scope, name, start_ns, end_ns, parent or -1, thread, correlation, "
                   "sequence, held, frame, caller, is_unfinished)")},
        {"allocation", tree_allocation, METH_O,
         PyDoc_STR("allocation(node) -> (address, bytes, total_allocated, total_reserved, id, allocation_id, "
                   "device_type, device_index)")},
        {"inputs", tree_inputs, METH_O,
         PyDoc_STR("inputs(node) -> (shape, tensors); a tensor is (number, storage, id, allocation_id, "
                   "device_type, device_index, dtype)")},
        {"held", tree_held, METH_O,
         PyDoc_STR("held(node) -> the tensors of its object, part by part, as inputs()")},
        {"shape", tree_shape, METH_VARARGS,
         PyDoc_STR(
             "shape(node, part=-1) -> (dims, strides, types, concrete): JSON, of the inputs or of a part")},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_doc, "All events of a trace as one tree of numbered nodes."},
        {Py_tp_dealloc, tree_dealloc},
        {Py_tp_methods, methods},
        {Py_sq_length, tree_length},
        {0, NULL},
    };
    static PyType_Spec spec = {"mtprof.Tree", sizeof(tree), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    tree_type = mtpn_add_type(module, "Tree", &spec);
    return tree_type != NULL ? 0 : -1;
}
