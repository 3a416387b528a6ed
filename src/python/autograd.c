/* python/autograd.c - the graph in Python: nodes, backward and grad, hooks, custom derivatives.
 *
 * Backward runs without the GIL; callbacks take it. An exception in a callback ends the backward pass;
 * errors.c keeps it and raises it afterwards.
 */
#include "python/binding.h"
#include <string.h>

/* --------------------------------------------------------------------------------------------------- nodes */

typedef struct node_object {
    PyObject_HEAD
    mt_node *node; /* owned */
} node_object;

PyObject *mtpy_node_object(mt_node *node)
{
    if (node == NULL)
        Py_RETURN_NONE;
    node_object *o = PyObject_New(node_object, mtpy.node);
    if (o != NULL)
        o->node = mt_node_retain(node);
    return (PyObject *)o;
}

static void node_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mt_node_release(((node_object *)self)->node);
    type->tp_free(self);
    Py_DECREF(type);
}

MTPY_NOARGS(node_name, PyUnicode_FromString(mt_node_name(((node_object *)self)->node)))

static PyObject *node_repr(PyObject *self)
{
    const char *name = mt_node_name(((node_object *)self)->node), *colons; /* shown without its namespace */
    while ((colons = strstr(name, "::")) != NULL)
        name = colons + strlen("::");
    return PyUnicode_FromFormat("<%s object at %p>", name, self);
}

static PyObject *node_variable(PyObject *self, void *unused)
{
    (void)unused;
    mt_tensor *leaf = mt_node_leaf(((node_object *)self)->node);
    if (leaf != NULL)
        return mtpy_wrap(mt_retain(leaf));
    return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'variable'",
                        mt_node_name(((node_object *)self)->node));
}

static PyObject *next_functions(PyObject *self, void *unused)
{
    (void)unused;
    const mt_node *node = ((node_object *)self)->node;
    unsigned n = mt_node_edges(node);
    PyObject *tuple = PyTuple_New(n);
    for (unsigned i = 0; tuple != NULL && i < n; i++) {
        unsigned output = 0;
        mt_node *next = mt_node_next(node, i, &output);
        PyObject *pair = Py_BuildValue("NI", mtpy_node_object(next), output);
        mtpy_put(&tuple, (Py_ssize_t)i, pair);
    }
    return tuple;
}

static PyObject *node_compare(PyObject *a, PyObject *b, int op)
{
    if ((op != Py_EQ && op != Py_NE) || !Py_IS_TYPE(b, mtpy.node))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((node_object *)a)->node == ((node_object *)b)->node) == (op == Py_EQ));
}

static Py_hash_t node_hash(PyObject *self)
{
    return (Py_hash_t)((uintptr_t)((node_object *)self)->node >> 4);
}

static PyMethodDef node_methods[] = {{"name", node_name, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyGetSetDef node_properties[] = {
    {"next_functions", next_functions, NULL, "Pairs of a node and an output number.", NULL},
    {"variable", node_variable, NULL, "Of an AccumulateGrad: the leaf whose gradient it adds to.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot node_slots[] = {
    {Py_tp_dealloc, node_dealloc},
    {Py_tp_repr, node_repr},
    {Py_tp_methods, node_methods},
    {Py_tp_getset, node_properties},
    {Py_tp_richcompare, node_compare},
    {Py_tp_hash, node_hash},
    {0, NULL},
};
static PyType_Spec node_spec = {"mindtorch_v2.autograd.graph.Node", sizeof(node_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};

int mtpy_autograd_init(PyObject *module)
{
    mtpy.node = (PyTypeObject *)PyType_FromSpec(&node_spec);
    return mtpy.node == NULL ? -1 : PyModule_AddObjectRef(module, "Node", (PyObject *)mtpy.node);
}

/* ------------------------------------------------------------------------------------------------ backward */

/* The tensors of a tuple, retained for the duration of the call; with `none_ok`, NULL stands for None. */
typedef struct tensors {
    mt_tensor **items;
    uint32_t count;
} tensors;

static void drop_tensors(tensors *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        mt_release(list->items[i]);
    PyMem_Free(list->items);
    *list = (tensors){NULL, 0};
}

static int take_tensors(PyObject *o, bool none_ok, const char *what, tensors *out)
{
    *out = (tensors){NULL, 0};
    PyObject *fast = PySequence_Fast(o, "expected a tuple of tensors");
    if (fast == NULL)
        return -1;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
    out->items = PyMem_Calloc((size_t)n + 1, sizeof *out->items);
    int status = out->items != NULL ? 0 : -1;
    if (status < 0)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && status == 0; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(fast, i);
        if (mtpy_is_tensor(item)) {
            out->items[out->count++] = mt_retain(mtpy_tensor_of(item));
        } else if (none_ok && item == Py_None) {
            out->items[out->count++] = NULL;
        } else {
            PyErr_Format(PyExc_TypeError, "element %zd of %s must be a Tensor%s, not %s", i, what,
                         none_ok ? " or None" : "", Py_TYPE(item)->tp_name);
            status = -1;
        }
    }
    Py_DECREF(fast);
    if (status < 0)
        drop_tensors(out);
    return status;
}

/* Takes the gradients. */
static PyObject *tuple_of(mt_tensor **items, uint32_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (uint32_t i = 0; i < count; i++) {
        PyObject *o = tuple != NULL ? mtpy_wrap(items[i]) : NULL;
        if (tuple == NULL)
            mt_release(items[i]);
        else if (o == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, o);
    }
    return tuple;
}

/* _backward(tensors, grads, retain_graph, create_graph, inputs or None, accumulate, allow_unused) */
static PyObject *backward(PyObject *module, PyObject *args)
{
    PyObject *roots_given, *grads_given, *inputs_given;
    int retain, create, accumulate, allow_unused;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOppOpp:_backward", &roots_given, &grads_given, &retain, &create,
                          &inputs_given, &accumulate, &allow_unused))
        return NULL;
    tensors roots = {NULL, 0}, grads = {NULL, 0}, inputs = {NULL, 0};
    PyObject *result = NULL;
    mt_tensor **out = NULL;
    if (take_tensors(roots_given, false, "tensors", &roots) < 0 ||
        take_tensors(grads_given, true, "gradients", &grads) < 0 ||
        (inputs_given != Py_None && take_tensors(inputs_given, false, "inputs", &inputs) < 0))
        goto end;
    if (roots.count != grads.count) {
        PyErr_Format(PyExc_RuntimeError, "got %u tensors and %u gradients", roots.count, grads.count);
        goto end;
    }
    out = PyMem_Calloc((size_t)inputs.count + 1, sizeof *out);
    if (out == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    mt_backward_options options = {.size = sizeof options,
                                   .retain_graph = retain,
                                   .create_graph = create,
                                   .allow_unused = allow_unused,
                                   .accumulate = accumulate,
                                   .inputs = inputs_given != Py_None ? inputs.items : NULL,
                                   .input_count = inputs.count};
    mt_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mt_backward_from(roots.items, grads.items, roots.count, &options, accumulate ? NULL : out);
    Py_END_ALLOW_THREADS
    if (status != MT_OK)
        mtpy_raise(status);
    else
        result = accumulate ? Py_NewRef(Py_None) : tuple_of(out, inputs.count);
end:
    PyMem_Free(out);
    drop_tensors(&roots);
    drop_tensors(&grads);
    drop_tensors(&inputs);
    return result;
}

/* --------------------------------------------------------------------------------------------------- hooks */

/* A new reference to the hook's result. A hook is a list of one: the function, or None once it was removed. */
static PyObject *call_hook(PyObject *hook, PyObject *self)
{
    PyObject *function = Py_NewRef(PyList_GET_ITEM(hook, 0)); /* it may remove itself */
    PyObject *result = Py_IsNone(function) ? Py_NewRef(Py_None) : PyObject_CallOneArg(function, self);
    Py_DECREF(function);
    return result;
}

static mt_tensor *run_hook(mt_tensor *grad, void *user, bool *failed)
{
    PyGILState_STATE state = PyGILState_Ensure();
    mt_tensor *other = NULL;
    PyObject *self = mtpy_wrap(mt_retain(grad)), *result = self != NULL ? call_hook(user, self) : NULL;
    if (result != NULL && result != Py_None && !mtpy_is_tensor(result)) {
        PyErr_Format(PyExc_TypeError, "hook's return value should be Tensor or None, got %s",
                     Py_TYPE(result)->tp_name);
        Py_CLEAR(result);
    }
    if (result == NULL) {
        mtpy_keep_exception();
        *failed = true;
    } else if (result != Py_None) {
        other = mt_retain(mtpy_tensor_of(result));
    }
    Py_XDECREF(result);
    Py_XDECREF(self);
    PyGILState_Release(state);
    return other;
}

/* A tensor that the hook returns is ignored: the gradient has been added. */
static mt_tensor *run_post_hook(mt_tensor *leaf, void *user, bool *failed)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *self = mtpy_wrap(mt_retain(leaf)), *result = self != NULL ? call_hook(user, self) : NULL;
    if (result != NULL && result != Py_None && !mtpy_is_tensor(result)) {
        PyErr_Format(PyExc_TypeError, "a post accumulate grad hook must return None, not %s",
                     Py_TYPE(result)->tp_name);
        Py_CLEAR(result);
    }
    if (result == NULL) {
        mtpy_keep_exception();
        *failed = true;
    }
    Py_XDECREF(result);
    Py_XDECREF(self);
    PyGILState_Release(state);
    return NULL;
}

/* Called on any thread, with or without the GIL. */
static void drop_object(void *user)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)user);
    PyGILState_Release(state);
}

/* (id, the hook as above) */
static PyObject *add_hook(PyObject *args, mt_hook_fn *fn,
                          mt_status (*add)(mt_tensor *, mt_hook_fn *, void (*)(void *), void *, uint64_t *))
{
    PyObject *tensor, *callable;
    uint64_t id;
    if (!PyArg_ParseTuple(args, "O!O", mtpy.tensor, &tensor, &callable))
        return NULL;
    if (!PyCallable_Check(callable)) {
        PyErr_Format(PyExc_TypeError, "a hook must be callable, not %s", Py_TYPE(callable)->tp_name);
        return NULL;
    }
    PyObject *hook = Py_BuildValue("[O]", callable);
    if (hook == NULL)
        return NULL;
    Py_INCREF(hook);
    mt_status status = add(mtpy_tensor_of(tensor), fn, drop_object, hook, &id);
    if (status == MT_OK)
        return Py_BuildValue("(KN)", (unsigned long long)id, hook);
    Py_DECREF(hook);
    Py_DECREF(hook);
    return mtpy_raise(status);
}

static PyObject *hook_add(PyObject *module, PyObject *args)
{
    (void)module;
    return add_hook(args, run_hook, mt_hook_add);
}

static PyObject *post_hook_add(PyObject *module, PyObject *args)
{
    (void)module;
    return add_hook(args, run_post_hook, mt_post_hook_add);
}

static PyObject *hook_remove(PyObject *module, PyObject *args)
{
    PyObject *tensor;
    unsigned long long id;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!K:_hook_remove", mtpy.tensor, &tensor, &id))
        return NULL;
    return PyBool_FromLong(mt_hook_remove(mtpy_tensor_of(tensor), id));
}

/* ------------------------------------------------------------------------------- derivatives of one's own */

typedef struct custom {
    PyObject *callable; /* owned: gradients -> tuple of gradients; let_go() releases what it saved */
    uint32_t inputs, outputs;
} custom;

/* Called on any thread, without the GIL. */
static void let_go_custom(void *user)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *callable = ((custom *)user)->callable, *result = PyObject_CallMethod(callable, "let_go", NULL);
    if (result == NULL)
        PyErr_WriteUnraisable(callable);
    Py_XDECREF(result);
    PyGILState_Release(state);
}

static void drop_custom(void *user)
{
    custom *c = user;
    drop_object(c->callable);
    free(c);
}

/* Needs the GIL. Returns 0, or -1 with an exception set. */
static int call_custom(const custom *c, mt_tensor *const *grads, mt_tensor **input_grads)
{
    mt_tensor **held = PyMem_Malloc(sizeof *held * (c->outputs + 1));
    if (held == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < c->outputs; i++)
        held[i] = mt_retain(grads[i]);
    PyObject *args = tuple_of(held, c->outputs); /* takes them */
    PyMem_Free(held);
    PyObject *result = args != NULL ? PyObject_CallObject(c->callable, args) : NULL;
    Py_XDECREF(args);
    if (result == NULL)
        return -1;
    tensors made;
    int status = take_tensors(result, true, "the gradients that a Function returned", &made);
    Py_DECREF(result);
    if (status < 0)
        return -1;
    if (made.count != c->inputs) {
        PyErr_Format(PyExc_RuntimeError,
                     "a Function returned an incorrect number of gradients (expected %u, got %u)", c->inputs,
                     made.count);
        drop_tensors(&made);
        return -1;
    }
    for (uint32_t i = 0; i < c->inputs; i++)
        input_grads[i] = mt_retain(made.items[i]);
    drop_tensors(&made);
    return 0;
}

static mt_status run_custom(void *user, mt_tensor *const *grads, mt_tensor **input_grads)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int status = call_custom(user, grads, input_grads);
    if (status < 0)
        mtpy_keep_exception();
    PyGILState_Release(state);
    return status == 0 ? MT_OK : MT_E_CALLBACK;
}

typedef struct visitor {
    visitproc visit;
    void *arg;
} visitor;

static int visit_function(mt_hook_fn *hook, mt_custom_fn *fn, void *user, void *arg)
{
    const visitor *v = arg;
    if (fn == run_custom)
        return v->visit(((const custom *)user)->callable, v->arg);
    return hook == run_hook || hook == run_post_hook ? v->visit(user, v->arg) : 0;
}

int mtpy_hooks_traverse(mt_tensor *t, visitproc visit, void *arg)
{
    visitor v = {visit, arg};
    return mt_hooks_visit(t, visit_function, &v);
}

/* _custom_begin(name, inputs) -> what _custom_end and _custom_attach take */
static PyObject *custom_begin(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *inputs_given;
    tensors inputs = {NULL, 0};
    mt_custom forward;
    (void)module;
    if (!PyArg_ParseTuple(args, "sO:_custom_begin", &name, &inputs_given) ||
        take_tensors(inputs_given, false, "inputs", &inputs) < 0)
        return NULL;
    mt_status status =
        MT_OK; /* views that cannot be part of a graph are refused before the function changes them */
    for (uint32_t i = 0; i < inputs.count && status == MT_OK && mt_grad_enabled(); i++)
        status = mt_view_refresh(inputs.items[i]);
    if (status == MT_OK)
        mt_custom_begin(name, inputs.items, inputs.count, &forward);
    drop_tensors(&inputs);
    if (status != MT_OK)
        return mtpy_raise(status);
    PyObject *made =
        Py_BuildValue("KK", (unsigned long long)forward.sequence, (unsigned long long)forward.token);
    if (made == NULL)
        mt_custom_end(&forward);
    return made;
}

static int forward_of(PyObject *o, mt_custom *out)
{
    unsigned long long sequence, token;
    if (!PyTuple_Check(o)) {
        PyErr_SetString(PyExc_TypeError, "expected what _custom_begin returned");
        return -1;
    }
    if (!PyArg_ParseTuple(o, "KK", &sequence, &token))
        return -1;
    *out = (mt_custom){sequence, token, let_go_custom};
    return 0;
}

static PyObject *custom_end(PyObject *module, PyObject *begun)
{
    mt_custom forward;
    (void)module;
    if (forward_of(begun, &forward) < 0)
        return NULL;
    mt_custom_end(&forward);
    Py_RETURN_NONE;
}

/* _custom_node() -> the node of the function whose derivative is being computed */
static PyObject *custom_node(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return mtpy_node_object(mt_custom_node());
}

/* _custom_output(node, output, saved) -> the saved output with its history */
static PyObject *custom_output(PyObject *module, PyObject *args)
{
    PyObject *node, *saved;
    unsigned output;
    mt_tensor *made = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!IO!:_custom_output", mtpy.node, &node, &output, mtpy.tensor, &saved))
        return NULL;
    mt_status status = mt_custom_output(((node_object *)node)->node, output, mtpy_tensor_of(saved), &made);
    if (status == MT_OK)
        return mtpy_wrap(made);
    mt_release(made);
    return mtpy_raise(status);
}

/* _custom_attach(forward, name, inputs, outputs, callable) */
static PyObject *custom_attach(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *begun, *inputs_given, *outputs_given, *callable;
    mt_custom forward;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsOOO:_custom_attach", &begun, &name, &inputs_given, &outputs_given,
                          &callable) ||
        forward_of(begun, &forward) < 0)
        return NULL;
    tensors inputs = {NULL, 0}, outputs = {NULL, 0};
    PyObject *result = NULL;
    custom *c = NULL;
    if (take_tensors(inputs_given, false, "inputs", &inputs) < 0 ||
        take_tensors(outputs_given, false, "outputs", &outputs) < 0)
        goto end;
    c = malloc(sizeof *c);
    if (c == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    *c = (custom){Py_NewRef(callable), inputs.count, outputs.count};
    mt_status status = mt_custom_attach_to(&forward, name, inputs.items, inputs.count, outputs.items,
                                           outputs.count, run_custom, drop_custom, c);
    if (status == MT_OK) {
        result = Py_NewRef(Py_None);
    } else {
        drop_custom(c);
        mtpy_raise(status);
    }
end:
    drop_tensors(&inputs);
    drop_tensors(&outputs);
    return result;
}

/* -------------------------------------------------------------------------------------------------- modes */

MTPY_NOARGS(is_grad_enabled, PyBool_FromLong(mt_grad_enabled()))

static PyObject *grad_enable(PyObject *module, PyObject *on)
{
    (void)module;
    int truth = PyObject_IsTrue(on);
    return truth < 0 ? NULL : PyBool_FromLong(mt_grad_enable(truth != 0));
}

/* A callback of the gc module: collect_cycles(phase, info) */
static PyObject *collect_cycles(PyObject *module, PyObject *args)
{
    PyObject *phase, *info;
    (void)module;
    if (!PyArg_ParseTuple(args, "UO!:_collect_cycles", &phase, &PyDict_Type, &info))
        return NULL;
    PyObject *generation = PyDict_GetItemString(info, "generation");
    if (PyUnicode_CompareWithASCIIString(phase, "stop") == 0 && generation != NULL &&
        PyLong_AsLong(generation) == 2)
        mt_collect_cycles();
    Py_RETURN_NONE;
}

PyMethodDef mtpy_autograd_functions[] = {
    {"_collect_cycles", collect_cycles, METH_VARARGS, NULL},
    {"_backward", backward, METH_VARARGS, NULL},
    {"_hook_add", hook_add, METH_VARARGS, NULL},
    {"_post_hook_add", post_hook_add, METH_VARARGS, NULL},
    {"_hook_remove", hook_remove, METH_VARARGS, NULL},
    {"_custom_begin", custom_begin, METH_VARARGS, NULL},
    {"_custom_end", custom_end, METH_O, NULL},
    {"_custom_attach", custom_attach, METH_VARARGS, NULL},
    {"_custom_node", custom_node, METH_NOARGS, NULL},
    {"_custom_output", custom_output, METH_VARARGS, NULL},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, NULL},
    {"_set_grad_enabled", grad_enable, METH_O, "Sets the thread's mode; returns the previous one."},
    {NULL, NULL, 0, NULL},
};
