/* python/mtprof/record.c - record_function: a scope as a context manager and as a decorator.
 *
 * Off, entering and leaving cost one load and one branch each. On, the name is passed to the recorder as
 * UTF-8, which Python caches in the string. An object may be reused, even while entered: recursively, in
 * which case the last entry is left first, or by interleaved tasks and threads, in which case each leaves its
 * own entry.
 */
#include "python/mtprof/native.h"
#include <stddef.h>
#include <structmember.h>

typedef struct entry {
    mtp_token token;
    const void *thread, *context; /* the owner: compared, never dereferenced */
} entry;

typedef struct record {
    PyObject_HEAD
    PyObject *name, *args; /* str; str or NULL */
    entry last;            /* the last entry */
    uint32_t depth, room;
    entry *earlier; /* owned: the entries before it */
} record;

static PyTypeObject *record_type, *scoped_type;

/* ------------------------------------------------------------------------------------------- begin and end */

static mtp_token begin(PyObject *name, PyObject *args)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (UNLIKELY(text == NULL)) { /* lone surrogates: escaped as in Python */
        PyErr_Clear();
        PyObject *bytes = PyUnicode_AsEncodedString(name, "utf-8", "backslashreplace");
        if (bytes == NULL) {
            PyErr_Clear();
            return 0;
        }
        mtp_token token = mtp_scope_begin_text(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
        Py_DECREF(bytes);
        return token;
    }
    if (LIKELY(args == NULL))
        return mtp_scope_begin_text(text, (size_t)length);
    mtp_op op = MTP_OP_INIT(0);
    size_t name_length = (size_t)length;
    mtp_input input = {.kind = MTP_INPUT_TEXT}; /* with shapes: the scope's only input, as in PyTorch */
    op.kind = MTP_SCOPE_USER;
    op.args = PyUnicode_AsUTF8AndSize(args, &length);
    if (op.args == NULL) {
        PyErr_Clear();
    } else {
        input.value.text = op.args;
        input.count = (uint32_t)length;
        op.inputs = &input;
        op.input_count = 1;
    }
    mtp_op_begin_text(&op, text, name_length);
    return op.token;
}

static int push(record *r)
{
    if (r->depth > r->room) {
        uint32_t room = r->room > 0 ? r->room * 2 : 4;
        entry *grown = PyMem_Realloc(r->earlier, room * sizeof *grown);
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        r->earlier = grown;
        r->room = room;
    }
    r->earlier[r->depth - 1] = r->last;
    return 0;
}

/* Each asyncio task runs in its own context. */
static entry entry_of(mtp_token token)
{
    const PyThreadState *thread = PyThreadState_Get();
#ifdef MTPN_LIKE_STABLE_ABI /* nor a way to see the context */
    return (entry){token, thread, NULL};
#else
    return (entry){token, thread, thread->context};
#endif
}

static PyObject *record_enter(PyObject *self, PyObject *unused)
{
    record *r = (record *)self;
    (void)unused;
    if (UNLIKELY(r->depth > 0) && push(r) < 0)
        return NULL;
    r->depth++;
    r->last = entry_of(UNLIKELY(mtp_recording() & MTP_CPU) ? begin(r->name, r->args) : 0);
    return Py_NewRef(self);
}

/* Entered more than once: moves the caller's own entry to the end. That is one of this context, else one that
 * this thread made before it had a context, else the last entry. */
static void find_own(record *r)
{
    entry me = entry_of(0);
    uint32_t best = r->depth - 1, score = 0;
    for (uint32_t i = r->depth; i-- > 0 && score < 2;) {
        const entry *e = i == r->depth - 1 ? &r->last : &r->earlier[i];
        uint32_t fits = e->thread != me.thread ? 0 : e->context == me.context ? 2 : e->context == NULL;
        if (fits > score) {
            best = i;
            score = fits;
        }
    }
    if (best == r->depth - 1)
        return;
    entry own = r->earlier[best];
    memmove(&r->earlier[best], &r->earlier[best + 1], (r->depth - 2 - best) * sizeof *r->earlier);
    r->earlier[r->depth - 2] = r->last;
    r->last = own;
}

static void leave(record *r)
{
    if (UNLIKELY(r->depth == 0))
        return;
    if (UNLIKELY(r->depth > 1))
        find_own(r);
    mtp_scope_end(r->last.token);
    r->depth--;
    r->last = UNLIKELY(r->depth > 0) ? r->earlier[r->depth - 1] : (entry){0, NULL, NULL};
}

static PyObject *record_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)args, (void)count;
    leave((record *)self);
    Py_RETURN_NONE;
}

/* --------------------------------------------------------------------------------------- the object's life */

/* args: may be NULL or None */
static bool are_texts(PyObject *name, PyObject *args)
{
    if (!PyUnicode_Check(name))
        PyErr_Format(PyExc_TypeError, "record_function(): name must be str, not %.200s",
                     Py_TYPE(name)->tp_name);
    else if (args != NULL && args != Py_None && !PyUnicode_Check(args))
        PyErr_Format(PyExc_TypeError, "record_function(): args must be str or None, not %.200s",
                     Py_TYPE(args)->tp_name);
    else
        return true;
    return false;
}

static PyObject *make(PyTypeObject *type, PyObject *name, PyObject *args)
{
    record *r = are_texts(name, args) ? (record *)type->tp_alloc(type, 0) : NULL;
    if (r == NULL)
        return NULL;
    r->name = Py_NewRef(name);
    r->args = args == Py_None ? NULL : Py_XNewRef(args);
    return (PyObject *)r;
}

static PyObject *record_vectorcall(PyObject *type, PyObject *const *args, size_t flags, PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(flags);
    if (LIKELY(names == NULL && n == 1))
        return make((PyTypeObject *)type, args[0], NULL);
    PyObject *name = n > 0 ? args[0] : NULL, *more = n > 1 ? args[1] : NULL;
    Py_ssize_t named = names != NULL ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *key = PyTuple_GET_ITEM(names, i), **slot = NULL;
        if (PyUnicode_CompareWithASCIIString(key, "name") == 0)
            slot = &name;
        else if (PyUnicode_CompareWithASCIIString(key, "args") == 0)
            slot = &more;
        if (slot == NULL || *slot != NULL)
            return PyErr_Format(PyExc_TypeError, "record_function() got an unexpected argument '%U'", key);
        *slot = args[n + i];
    }
    if (n > 2 || name == NULL)
        return PyErr_Format(
            PyExc_TypeError,
            "record_function() takes a name and optionally args, but %zd arguments were given", n + named);
    return make((PyTypeObject *)type, name, more);
}

/* Subclasses only: their arguments are their own, and __init__ gets the name. */
static PyObject *record_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    PyObject *name = PyUnicode_FromStringAndSize("", 0), *made = name != NULL ? make(type, name, NULL) : NULL;
    Py_XDECREF(name);
    return made;
}

static int record_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"name", "args", NULL};
    record *r = (record *)self;
    PyObject *name, *more = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:record_function", keywords, &name, &more) ||
        !are_texts(name, more))
        return -1;
    Py_XSETREF(r->name, Py_NewRef(name));
    Py_XSETREF(r->args, more == Py_None ? NULL : Py_XNewRef(more));
    return 0;
}

static void record_dealloc(PyObject *self)
{
    record *r = (record *)self;
    PyTypeObject *type = Py_TYPE(self);
    while (r->depth > 0) /* entered without `with` and never exited */
        leave(r);
    Py_XDECREF(r->name);
    Py_XDECREF(r->args);
    PyMem_Free(r->earlier);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *record_repr(PyObject *self)
{
    return PyUnicode_FromFormat("record_function(%R)", ((record *)self)->name);
}

/* For pickle and copy: the copy is not entered. */
static PyObject *record_reduce(PyObject *self, PyObject *unused)
{
    record *r = (record *)self;
    (void)unused;
    PyObject *more = PyObject_GetAttrString(self, "__dict__"); /* of a subclass */
    if (more == NULL) {
        PyErr_Clear();
        more = Py_NewRef(Py_None);
    }
    return Py_BuildValue("O(OO)N", Py_TYPE(self), r->name, r->args != NULL ? r->args : Py_None, more);
}

/* ------------------------------------------------------------------------------------------- as a decorator */

/* A plain function in a scope. Generators and coroutines are wrapped by mtprof._resume. */
typedef struct scoped {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *function, *name, *args, *dict, *weak;
} scoped;

static PyObject *scoped_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    scoped *s = (scoped *)self;
    if (LIKELY(!(mtp_recording() & MTP_CPU)))
        return PyObject_Vectorcall(s->function, args, flags, names);
    mtp_token token = begin(s->name, s->args);
    PyObject *result = PyObject_Vectorcall(s->function, args, flags, names);
    mtp_scope_end(token);
    return result;
}

static int scoped_traverse(PyObject *self, visitproc visit, void *arg)
{
    scoped *s = (scoped *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(s->function);
    Py_VISIT(s->dict);
    return 0;
}

static int scoped_clear(PyObject *self)
{
    scoped *s = (scoped *)self;
    Py_CLEAR(s->function);
    Py_CLEAR(s->dict);
    Py_CLEAR(s->name);
    Py_CLEAR(s->args);
    return 0;
}

static void scoped_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((scoped *)self)->weak != NULL)
        PyObject_ClearWeakRefs(self);
    scoped_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *scoped_repr(PyObject *self)
{
    scoped *s = (scoped *)self;
    return PyUnicode_FromFormat("<%R in the scope %R>", s->function, s->name);
}

/* Pickled by name, as functions are. */
MTPY_NOARGS(scoped_reduce, PyObject_GetAttrString(self, "__qualname__"))

static PyObject *wrap_plain(record *r, PyObject *function)
{
    scoped *s = (scoped *)scoped_type->tp_alloc(scoped_type, 0);
    if (s == NULL)
        return NULL;
    s->call = scoped_call;
    s->function = Py_NewRef(function);
    s->name = Py_NewRef(r->name);
    s->args = Py_XNewRef(r->args);
    PyObject *functools = PyImport_ImportModule("functools");
    PyObject *same = functools ? PyObject_CallMethod(functools, "update_wrapper", "OO", s, function) : NULL;
    Py_XDECREF(functools);
    Py_DECREF(s);
    return same; /* update_wrapper returns s */
}

static PyObject *record_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    record *r = (record *)self;
    PyObject *function;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) > 0)
        return PyErr_Format(PyExc_TypeError, "record_function as a decorator takes a function only");
    if (!PyArg_ParseTuple(args, "O:record_function", &function))
        return NULL;
    if (!PyCallable_Check(function))
        return PyErr_Format(PyExc_TypeError, "record_function as a decorator needs a callable, not %.200s",
                            Py_TYPE(function)->tp_name);
    PyObject *resume = PyImport_ImportModule("mtprof._resume");
    if (resume == NULL)
        return NULL;
    PyObject *wrapped =
        PyObject_CallMethod(resume, "wrap", "OOO", function, r->name, r->args ? r->args : Py_None);
    Py_DECREF(resume);
    if (wrapped != Py_None)
        return wrapped;
    Py_DECREF(wrapped);
    return wrap_plain(r, function);
}

/* --------------------------------------------------------------------------------------------------- types */

MTPY_GETTER(recorded_name, Py_NewRef(((record *)self)->name))

MTPY_GETTER(recorded_args, Py_NewRef(((record *)self)->args ? ((record *)self)->args : Py_None))

int mtpn_record_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"__enter__", record_enter, METH_NOARGS, PyDoc_STR("Begin the scope.")},
        {"__exit__", (PyCFunction)(void (*)(void))record_exit, METH_FASTCALL, PyDoc_STR("End the scope.")},
        {"__reduce__", record_reduce, METH_NOARGS, NULL},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef properties[] = {
        {"name", recorded_name, NULL, "the name of the scope", NULL},
        {"args", recorded_args, NULL, "text shown with the event, or None", NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    static PyType_Slot record_slots[] = {
        {Py_tp_doc, "record_function(name, args=None)\n--\n\nA custom scope in the profile: `with "
                    "record_function(\"forward\"): "
                    "...`, or as a decorator of\na function, method, generator or coroutine function. "
                    "Without a running profiler it "
                    "does nothing."},
        {Py_tp_new, record_new},
        {Py_tp_init, record_init},
        {Py_tp_dealloc, record_dealloc},
        {Py_tp_call, record_call},
        {Py_tp_repr, record_repr},
        {Py_tp_methods, methods},
        {Py_tp_getset, properties},
        {0, NULL},
    };
    static PyType_Spec record_spec = {"mtprof.record_function", sizeof(record), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, record_slots};
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(scoped, call), READONLY, NULL},
        {"__dictoffset__", T_PYSSIZET, offsetof(scoped, dict), READONLY, NULL},
        {"__weaklistoffset__", T_PYSSIZET, offsetof(scoped, weak), READONLY, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    static PyMethodDef scoped_methods[] = {
        {"__reduce__", scoped_reduce, METH_NOARGS, NULL},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef scoped_properties[] = {
        {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    static PyType_Slot scoped_slots[] = {
        {Py_tp_dealloc, scoped_dealloc}, {Py_tp_call, PyVectorcall_Call},
        {Py_tp_descr_get, mtpn_bind},    {Py_tp_traverse, scoped_traverse},
        {Py_tp_clear, scoped_clear},     {Py_tp_repr, scoped_repr},
        {Py_tp_members, members},        {Py_tp_getset, scoped_properties},
        {Py_tp_methods, scoped_methods}, {0, NULL},
    };
    static PyType_Spec scoped_spec = {"mtprof.scoped_function", sizeof(scoped), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                          Py_TPFLAGS_METHOD_DESCRIPTOR,
                                      scoped_slots};
    record_type = (PyTypeObject *)PyType_FromSpec(&record_spec);
    scoped_type = (PyTypeObject *)PyType_FromSpec(&scoped_spec);
    if (record_type == NULL || scoped_type == NULL)
        return -1;
#ifdef MTPN_LIKE_STABLE_ABI /* bench/bench_stable_abi.py: it has no tp_vectorcall */
    (void)record_vectorcall;
#else
    record_type->tp_vectorcall = record_vectorcall;
#endif
    return PyModule_AddObjectRef(module, "record_function", (PyObject *)record_type);
}
