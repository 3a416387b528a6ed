/* python/mtprof/frames.c - Python's side of with_stack and with_modules: stacks of ops and scopes, Python functions and
 * nn.Module calls as events of their own.
 *
 * A frame's key is its code object and instruction in one word. The first time that a session meets a key it asks for
 * its text; from then on the code object is held until the session ends, so no other can take its address.
 * Threads: capture runs on any thread, inside a recording call; it needs the GIL, and gives no frames without it.
 */
#include "python/mtprof/python_frames.h"
#include <frameobject.h>

#define INSTRUCTION_BITS 20
#define HIDDEN_FILES 8

static PyObject *kept;                 /* list: code objects and modules of this session */
static PyObject *hidden[HIDDEN_FILES]; /* str: file names that are the profiler's own */
static unsigned hidden_count;
static PyCodeObject *module_call,
    *optimizer_call; /* of nn.Module.__call__; of what each optimizer's step calls; owned, or NULL */
static PyObject *module_names,
    *module_counts;              /* dicts of this session: module -> name id; class name -> how many */
static PyObject *function_names; /* dict of this session: code or method -> name id */
static PyObject *optimizers;     /* dict of this session: address of an optimizer -> itself */
static bool following, functions_too;

/* --------------------------------------------------------------------------------------------------- texts */

typedef struct text {
    char *at;
    size_t room; /* NUL included */
} text;

static void put_bytes(text *t, const char *bytes, size_t n)
{
    if (n >= t->room)
        n = t->room > 0 ? t->room - 1 : 0;
    memcpy(t->at, bytes, n);
    t->at += n;
    t->room -= n;
    if (t->room > 0)
        *t->at = 0;
}

static void put_str(text *t, PyObject *str)
{
    Py_ssize_t n = 0;
    const char *utf8 = str != NULL && PyUnicode_Check(str) ? PyUnicode_AsUTF8AndSize(str, &n) : NULL;
    if (utf8 == NULL) {
        PyErr_Clear();
        utf8 = "?";
        n = 1;
    }
    put_bytes(t, utf8, (size_t)n);
}

static void put_number(text *t, long number)
{
    char digits[24];
    put_bytes(t, digits, (size_t)snprintf(digits, sizeof digits, "%ld", number));
}

/* -------------------------------------------------------------------------------------------------- stacks */

static bool is_hidden(const PyCodeObject *code)
{
    for (unsigned i = 0; i < hidden_count; i++)
        if (code->co_filename == hidden[i])
            return true;
    return false;
}

static uint32_t capture(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    PyThreadState *thread = PyGILState_GetThisThreadState();
    if (thread == NULL || !PyGILState_Check())
        return 0;
    uint32_t n = 0;
    int at;
    mtpn_walk walk = mtpn_walk_begin(thread);
    for (PyCodeObject *code; n < room && (code = mtpn_walk_next(&walk, &at)) != NULL;)
        if (n > 0 || !is_hidden(code)) /* the profiler's own frames are innermost */
            frames[n++] = ((uint64_t)(uintptr_t)code >> 4) << INSTRUCTION_BITS |
                          ((uint64_t)at & ((1u << INSTRUCTION_BITS) - 1));
    mtpn_walk_end(&walk);
    return n;
}

static void describe(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user;
    PyCodeObject *code = (PyCodeObject *)(uintptr_t)(frame >> INSTRUCTION_BITS << 4);
    int at = (int)(frame & ((1u << INSTRUCTION_BITS) - 1));
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (kept != NULL)
        PyList_Append(kept, (PyObject *)code);
    text t = {out, room};
    put_str(&t, code->co_filename);
    put_bytes(&t, ":", 1);
    put_number(&t, PyCode_Addr2Line(code, at * (int)sizeof(_Py_CODEUNIT)));
    put_bytes(&t, ":", 1);
    put_str(&t, code->co_name);
    PyErr_Restore(type, value, trace);
}

/* ------------------------------------------------------------------------------------- functions as events */

typedef struct open_calls { /* of this thread */
    struct open_call {
        mtp_token token;
        bool hidden; /* the profiler's own, and all that it calls */
    } * call;
    uint32_t count, room;
} open_calls;
static _Thread_local open_calls calls;

static bool in_hidden(void)
{
    return calls.count > 0 && calls.call[calls.count - 1].hidden;
}

static void end_call(mtp_token token)
{
    mtp_op op = MTP_OP_INIT(0);
    op.kind = MTP_SCOPE_PYTHON;
    op.token = token;
    mtp_op_end(&op);
}

/* Whose call it is, if it is a module's or an optimizer's. */
typedef struct owner {
    PyObject *object; /* borrowed, or NULL */
    void (*hold)(const mtp_op *op, PyObject *object, bool is_new);
    bool is_new;
} owner;
static const owner nobody;

static void open_call(uint32_t name, mtp_scope_kind kind, bool hide, owner of)
{
    mtp_op op = MTP_OP_INIT(name);
    op.kind = kind;
    if (name != 0 && !hide)
        mtp_op_begin(&op);
    if (of.object != NULL)
        of.hold(&op, of.object, of.is_new);
    if (calls.count == calls.room) {
        uint32_t room = calls.room > 0 ? calls.room * 2 : 64;
        struct open_call *grown = PyMem_RawRealloc(calls.call, room * sizeof *grown);
        if (grown == NULL) {
            end_call(op.token);
            return;
        }
        calls.call = grown;
        calls.room = room;
    }
    calls.call[calls.count++] = (struct open_call){op.token, hide};
}

static void close_call(void)
{
    if (calls.count > 0) /* else it was running when we began */
        end_call(calls.call[--calls.count].token);
}

/* The id kept for key, 0 if there is none. */
static uint32_t known(PyObject *names, PyObject *key)
{
    PyObject *id = PyDict_GetItemWithError(names, key);
    if (id == NULL)
        PyErr_Clear();
    return id != NULL ? (uint32_t)PyLong_AsUnsignedLong(id) : 0;
}

static uint32_t keep_id(PyObject *names, PyObject *key, const char *name)
{
    uint32_t id = mtp_name(name);
    PyObject *number = PyLong_FromUnsignedLong(id);
    if (number != NULL)
        PyDict_SetItem(names, key, number);
    Py_XDECREF(number);
    PyErr_Clear();
    return id;
}

/* "file(12): function", as Kineto writes it. */
static uint32_t function_name(PyCodeObject *code)
{
    uint32_t id = known(function_names, (PyObject *)code);
    if (LIKELY(id != 0))
        return id;
    char name[512];
    text t = {name, sizeof name};
    put_str(&t, code->co_filename);
    put_bytes(&t, "(", 1);
    put_number(&t, code->co_firstlineno);
    put_bytes(&t, "): ", 3);
    put_str(&t, code->co_name);
    return keep_id(function_names, (PyObject *)code, name);
}

static void open_function(PyCodeObject *code, owner of)
{
    bool hide = in_hidden() || is_hidden(code);
    open_call(functions_too && !hide ? function_name(code) : 0, MTP_SCOPE_PYTHON, hide, of);
}

/* "nn.Module: Linear_0": modules of a class are numbered as they are met. */
static uint32_t module_name(PyObject *module, bool *is_new)
{
    PyObject *key = PyLong_FromVoidPtr(module);
    uint32_t id = key != NULL ? known(module_names, key) : 0;
    *is_new = id == 0;
    if (id == 0 && key != NULL) {
        const char *class_name = Py_TYPE(module)->tp_name, *dot = strrchr(class_name, '.');
        PyObject *seen = PyDict_GetItemString(module_counts, class_name);
        long n = seen != NULL ? PyLong_AsLong(seen) : 0;
        PyObject *more = PyLong_FromLong(n + 1);
        char name[256];
        snprintf(name, sizeof name, "nn.Module: %s_%ld", dot != NULL ? dot + 1 : class_name, n);
        if (more != NULL)
            PyDict_SetItemString(module_counts, class_name, more);
        Py_XDECREF(more);
        PyList_Append(kept, module);
        id = keep_id(module_names, key, name);
    }
    Py_XDECREF(key);
    PyErr_Clear();
    return id;
}

/* "<built-in function len>", "<built-in method add of Tensor>": without an address, so that names are few. */
static uint32_t builtin_name(PyObject *callable)
{
    if (!PyCFunction_Check(callable))
        return 0;
    PyCFunctionObject *f = (PyCFunctionObject *)callable;
    if (f->m_self != NULL && strncmp(Py_TYPE(f->m_self)->tp_name, "mtprof.", 7) == 0)
        return 0; /* the profiler's own calls are not the program's */
    PyObject *key = PyLong_FromVoidPtr(f->m_ml);
    uint32_t id = key != NULL ? known(function_names, key) : 0;
    if (id == 0 && key != NULL) {
        char name[256];
        if (f->m_self == NULL || PyModule_Check(f->m_self))
            snprintf(name, sizeof name, "<built-in function %s>", f->m_ml->ml_name);
        else
            snprintf(name, sizeof name, "<built-in method %s of %s>", f->m_ml->ml_name,
                     PyType_Check(f->m_self) ? "type" : Py_TYPE(f->m_self)->tp_name);
        id = keep_id(function_names, key, name);
    }
    Py_XDECREF(key);
    PyErr_Clear();
    return id;
}

/* Was the optimizer not met before? It is held from then on, so that no other can take its address. */
static bool meet_optimizer(PyObject *optimizer)
{
    PyObject *key = PyLong_FromVoidPtr(optimizer);
    bool is_new = key != NULL && PyDict_GetItemWithError(optimizers, key) == NULL;
    if (is_new && !PyErr_Occurred())
        PyDict_SetItem(optimizers, key, optimizer);
    Py_XDECREF(key);
    PyErr_Clear();
    return is_new;
}

static void enter_python(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *first = code == module_call || code == optimizer_call ? mtpn_first_argument(frame) : NULL;
    owner of = {first, code == module_call ? mtpn_hold_module : mtpn_hold_optimizer, false};
    if (first != NULL && code == module_call) {
        uint32_t name = module_name(first, &of.is_new);
        open_call(name, MTP_SCOPE_MODULE, false, of);
    } else {
        of.is_new = first != NULL && functions_too && meet_optimizer(first);
        open_function(code, of);
    }
    Py_DECREF(code);
}

static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)self;
    if (UNLIKELY(!following)) { /* the session ended: this thread has not been told */
        PyEval_SetProfile(NULL, NULL);
        calls.count = 0;
        return 0;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    switch (what) {
    case PyTrace_CALL:
        enter_python(frame);
        break;
    case PyTrace_C_CALL:
        open_call(functions_too && !in_hidden() ? builtin_name(arg) : 0, MTP_SCOPE_PYTHON, in_hidden(),
                  nobody);
        break;
    case PyTrace_RETURN:
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
        close_call();
        break;
    default:
        break;
    }
    PyErr_Restore(type, value, trace);
    return 0;
}

/* What a new thread's first event calls (threading.setprofile): from then on the C function above is its profiler. */
static PyObject *follow_thread(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *frame, *event, *arg;
    if (!PyArg_ParseTuple(args, "OOO", &frame, &event, &arg))
        return NULL;
    PyEval_SetProfile(following ? on_event : NULL, NULL);
    if (following && PyFrame_Check(frame) && PyUnicode_CompareWithASCIIString(event, "call") == 0)
        enter_python((PyFrameObject *)frame);
    Py_RETURN_NONE;
}

static PyMethodDef follow_method = {"follow_thread", follow_thread, METH_VARARGS, NULL};

static void set_for_new_threads(bool on)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *function = on ? PyCFunction_New(&follow_method, NULL) : Py_NewRef(Py_None);
    PyObject *done = threading != NULL && function != NULL
                         ? PyObject_CallMethod(threading, "setprofile", "O", function)
                         : NULL;
    Py_XDECREF(done);
    Py_XDECREF(function);
    Py_XDECREF(threading);
    PyErr_Clear();
}

/* Functions that run already are shown from the session's start on, outermost first. */
static void open_running(void)
{
    PyCodeObject *running[512];
    unsigned n = 0;
    int at;
    mtpn_walk walk = mtpn_walk_begin(PyThreadState_Get());
    for (PyCodeObject *code; n < 512 && (code = mtpn_walk_next(&walk, &at)) != NULL;)
        running[n++] = code;
    mtpn_walk_end(&walk);
    calls.count = 0;
    while (n > 0)
        open_function(running[--n], nobody);
}

/* ---------------------------------------------------------------------------------------- begin and end */

mtp_status mtpn_frames_begin(bool with_stack)
{
    static const mtp_stack_provider provider = {sizeof provider, capture, describe, NULL};
    kept = PyList_New(0);
    module_names = PyDict_New();
    module_counts = PyDict_New();
    function_names = PyDict_New();
    optimizers = PyDict_New();
    functions_too = with_stack;
    if (kept == NULL || module_names == NULL || module_counts == NULL || function_names == NULL ||
        optimizers == NULL) {
        mtpn_frames_end();
        return MTP_E_NOMEM;
    }
    return with_stack ? mtp_stack_provider_set(&provider) : MTP_OK;
}

void mtpn_frames_follow(void)
{
    PyThreadState *thread = PyThreadState_Get();
    if (thread->c_profilefunc != NULL)
        return;                /* another profiler of Python code is at work: it goes first */
    set_for_new_threads(true); /* before events are taken: it is ours, not the program's */
    following = true;
    open_running();
    PyEval_SetProfile(on_event, NULL);
}

void mtpn_frames_unfollow(void)
{
    if (!following)
        return;
    following = false;
    if (PyThreadState_Get()->c_profilefunc == on_event)
        PyEval_SetProfile(NULL, NULL);
    set_for_new_threads(false);
    while (calls.count > 0)
        close_call();
}

void mtpn_frames_end(void)
{
    mtpn_frames_unfollow();
    Py_CLEAR(kept);
    Py_CLEAR(module_names);
    Py_CLEAR(module_counts);
    Py_CLEAR(function_names);
    Py_CLEAR(optimizers);
}

/* --------------------------------------------------------------------------------------------- module's part */

static PyObject *hide_file(PyObject *self, PyObject *name)
{
    (void)self;
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "hide_file(): a file name, as code objects have it");
    if (hidden_count < HIDDEN_FILES)
        hidden[hidden_count++] = Py_NewRef(name);
    Py_RETURN_NONE;
}

static PyObject *set_module_call(PyObject *self, PyObject *code)
{
    (void)self;
    if (!PyCode_Check(code))
        return PyErr_Format(PyExc_TypeError, "set_module_call(): the code object of nn.Module.__call__");
    Py_XSETREF(module_call, (PyCodeObject *)Py_NewRef(code));
    Py_RETURN_NONE;
}

static PyObject *set_optimizer_call(PyObject *self, PyObject *code)
{
    (void)self;
    if (!PyCode_Check(code))
        return PyErr_Format(PyExc_TypeError,
                            "set_optimizer_call(): the code object of a method that each step calls");
    Py_XSETREF(optimizer_call, (PyCodeObject *)Py_NewRef(code));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_optimizer_call", set_optimizer_call, METH_O,
     PyDoc_STR("Calls of this code object tell what the optimizer, their first argument, holds.")},
    {"hide_file", hide_file, METH_O, PyDoc_STR("Leave the frames of this file (co_filename) out of stacks.")},
    {"set_module_call", set_module_call, METH_O,
     PyDoc_STR("Calls of this code object are shown as nn.Module: CLASS_n.")},
    {NULL, NULL, 0, NULL},
};

int mtpn_frames_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
