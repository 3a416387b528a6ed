/* python/mtprof/frames.c - Python's side of with_stack and with_modules: stacks of ops and scopes, and Python
 * functions and nn.Module calls as events.
 *
 * A frame's key packs its code object and instruction into one word. When a session first sees a key it asks
 * for its text; from then on the code object is held while the session keeps events with that key, so that its
 * address cannot be reused.
 * Threads: capture runs on any thread, inside a recording call, with or without the GIL: PyTorch's ops run
 * without it. The frames of a thread that is inside such a call do not change, and hold their code. Calls are
 * followed on all threads that Python knows, by sys.monitoring (monitor.c). Where there is none, before Python
 * 3.12, by its C profile hook: on threads that exist when a recording starts, and on new ones through
 * threading.setprofile. Each thread records its own calls, from its first event on.
 */
#include "python/mtprof/python_frames.h"
#include <frameobject.h>
#include <pthread.h>
#include <unistd.h>

#define INSTRUCTION_BITS 20
#define HIDDEN_FILES 32

static const void *taker; /* the session that owns this state, or NULL */
static pid_t taker_pid;
static PyObject *kept;                 /* dict: address of a code object -> itself; see mtpn_frames_begin */
static PyObject *hidden[HIDDEN_FILES]; /* str: names of the profiler's own files */
static unsigned hidden_count;
static uint64_t hidden_bits[16];     /* a bit for the address of each */
static PyCodeObject *module_call;    /* owned, or NULL: nn.Module.__call__ */
static PyCodeObject *optimizer_call; /* owned, or NULL: a method that every optimizer step calls */
static PyObject *module_names;       /* dict of this session: module -> name id */
static PyObject *module_counts;      /* dict of this session: class name -> count */
static PyObject *function_names;     /* dict of this session: address of code or method -> name id */
static PyObject *prefixes; /* list of str: prefixes to strip from file names; the first match wins */
static Py_ssize_t
    prefixes_of; /* the length of sys.path then: recordings of `mtprof run` begin before it is complete */
static PyObject
    *owners; /* dict of this session: address of a module or optimizer -> a weak reference to it */
static bool following, with_functions; /* with_functions: not only modules */
static bool monitored;                 /* following: by sys.monitoring, not by the profile hook */
static uint64_t follow_serial;         /* of the current or the last recording that followed calls */

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

static bool set_prefixes(void);

static Py_ssize_t path_length(void)
{
    PyObject *path = PySys_GetObject("path"); /* borrowed */
    return path != NULL && PyList_Check(path) ? PyList_GET_SIZE(path) : 0;
}

/* A code object's file, without the import directory. */
static void put_file(text *t, PyObject *file)
{
    Py_ssize_t n = 0, length, count = prefixes != NULL ? PyList_GET_SIZE(prefixes) : 0;
    const char *name = PyUnicode_Check(file) ? PyUnicode_AsUTF8AndSize(file, &n) : NULL;
    for (Py_ssize_t i = 0; name != NULL && i < count; i++) {
        const char *prefix = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(prefixes, i), &length);
        if (prefix != NULL && n > length && memcmp(name, prefix, (size_t)length) == 0) {
            put_bytes(t, name + length, (size_t)(n - length));
            return;
        }
    }
    PyErr_Clear();
    put_str(t, file);
}

static void put_number(text *t, long number)
{
    char digits[24];
    put_bytes(t, digits, (size_t)snprintf(digits, sizeof digits, "%ld", number));
}

/* -------------------------------------------------------------------------------------------------- stacks */

static uint64_t *hidden_word(const PyObject *file, uint64_t *bit)
{
    uintptr_t hash = (uintptr_t)file >> 4 ^ (uintptr_t)file >> 14;
    *bit = (uint64_t)1 << (hash & 63);
    return &hidden_bits[hash >> 6 & 15];
}

static bool is_hidden(const PyCodeObject *code)
{
    uint64_t bit;
    if (LIKELY((*hidden_word(code->co_filename, &bit) & bit) == 0))
        return false;
    for (unsigned i = 0; i < hidden_count; i++)
        if (code->co_filename == hidden[i])
            return true;
    return false;
}

static uint32_t capture(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    PyThreadState *thread = PyGILState_GetThisThreadState();
    if (thread == NULL || !mtpn_walk_is_safe())
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

#if PY_VERSION_HEX < 0x030d0000
#define Py_IsFinalizing _Py_IsFinalizing
#endif

static bool keep_code(PyCodeObject *code)
{
    PyObject *key = PyLong_FromVoidPtr(code);
    bool done = key != NULL && PyDict_SetItem(kept, key, (PyObject *)code) == 0;
    Py_XDECREF(key);
    return done;
}

static void describe(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user;
    if (Py_IsFinalizing() && !PyGILState_Check()) { /* a thread that asks for the GIL would never return */
        snprintf(out, room, "?:0:?");
        return;
    }
    PyCodeObject *code = (PyCodeObject *)(uintptr_t)(frame >> INSTRUCTION_BITS << 4);
    int at = (int)(frame & ((1u << INSTRUCTION_BITS) - 1));
    PyObject *type, *value, *trace;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyErr_Fetch(&type, &value, &trace);
    if (kept != NULL)
        keep_code(code);
    text t = {out, room};
    put_file(&t, code->co_filename);
    put_bytes(&t, ":", 1);
    put_number(&t, PyCode_Addr2Line(code, at * MTPN_CODE_UNIT));
    put_bytes(&t, ":", 1);
    put_str(&t, code->co_name);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

/* ------------------------------------------------------------------------------------- functions as events */

typedef struct open_calls { /* of this thread */
    struct open_call {
        mtp_token token;
        /* Its frame; for a C function its caller's, with bit 0 set; 0: it was already running. */
        uintptr_t of;
        bool hidden; /* a function of the profiler, or called by one */
    } * call;
    uint32_t count, room;
    uint64_t serial; /* of the recording in which they are open */
} open_calls;
static _Thread_local open_calls calls __attribute__((tls_model("initial-exec")));
static pthread_key_t calls_key; /* frees calls.call when its thread ends */
static bool has_calls_key;

static bool in_hidden(void)
{
    return calls.count > 0 && calls.call[calls.count - 1].hidden;
}

/* The module or optimizer that is called, if any. */
typedef struct owner {
    PyObject *object; /* borrowed, or NULL */
    void (*hold)(const mtp_op *op, PyObject *object, bool is_new);
    bool is_new;
} owner;
static const owner nobody;

static void open_call(uint32_t name, mtp_scope_kind kind, bool hide, uintptr_t of, owner who)
{
    mtp_op op = MTP_OP_INIT(name);
    op.kind = kind;
    if (name != 0 && !hide)
        mtp_op_begin(&op);
    if (who.object != NULL)
        who.hold(&op, who.object, who.is_new);
    if (calls.count == calls.room) {
        uint32_t room = calls.room > 0 ? calls.room * 2 : 64;
        struct open_call *grown = PyMem_RawRealloc(calls.call, room * sizeof *grown);
        if (grown == NULL) {
            mtp_scope_end(op.token);
            return;
        }
        calls.call = grown;
        calls.room = room;
        if (has_calls_key)
            pthread_setspecific(calls_key, grown);
    }
    calls.call[calls.count++] = (struct open_call){op.token, of, hide};
}

/* The innermost call, unless frames are switched (greenlets). */
static void close_call(uintptr_t of)
{
    uint32_t at = calls.count;
    bool is_c = of & 1; /* C functions that were already running are not open */
    while (at > 0 && calls.call[at - 1].of != of && (is_c || calls.call[at - 1].of != 0))
        at--;
    if (at == 0)
        return; /* it was already running when we began */
    mtp_scope_end(calls.call[at - 1].token);
    memmove(&calls.call[at - 1], &calls.call[at], (calls.count - at) * sizeof *calls.call);
    calls.count--;
}

static uintptr_t call_of(const void *frame, bool is_c)
{
    return (uintptr_t)frame | is_c;
}

/* The id stored for key; 0: none. */
static uint32_t known(PyObject *names, PyObject *key)
{
    PyObject *id = PyDict_GetItemWithError(names, key);
    if (id == NULL)
        PyErr_Clear();
    return id != NULL ? (uint32_t)PyLong_AsUnsignedLong(id) : 0;
}

/* Names by address, before the dicts. Code objects are kept while the session lasts, so that no other gets the address. */
#define RECENT 1024
static struct recent_name {
    const void *of; /* NULL: none */
    uint32_t id;
} recent[RECENT];

static struct recent_name *recent_of(const void *object)
{
    uintptr_t at = (uintptr_t)object;
    return &recent[(at >> 4 ^ at >> 14) % RECENT];
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
    struct recent_name *last = recent_of(code);
    if (LIKELY(last->of == code))
        return last->id;
    PyObject *key = PyLong_FromVoidPtr(code);
    uint32_t id = key != NULL ? known(function_names, key) : 0;
    if (id == 0 && key != NULL) {
        if (path_length() != prefixes_of && !set_prefixes())
            PyErr_Clear();
        char name[512];
        text t = {name, sizeof name};
        put_file(&t, code->co_filename);
        put_bytes(&t, "(", 1);
        put_number(&t, code->co_firstlineno);
        put_bytes(&t, "): ", 3);
        put_str(&t, code->co_name);
        if (keep_code(code))
            id = keep_id(function_names, key, name);
    }
    Py_XDECREF(key);
    PyErr_Clear();
    *last = (struct recent_name){id != 0 ? code : NULL, id};
    return id;
}

static void open_function(PyCodeObject *code, uintptr_t of, owner who)
{
    bool hide = in_hidden() || is_hidden(code);
    open_call(with_functions && !hide ? function_name(code) : 0, MTP_SCOPE_PYTHON, hide, of, who);
}

/* Was this module or optimizer met before in this session? Not if the one that was had its address, and is gone. */
static bool is_met(PyObject *address, PyObject *owner)
{
    PyObject *found = PyDict_GetItemWithError(owners, address), *met = found;
    if (found == NULL)
        return false;
#if PY_VERSION_HEX >= 0x030d0000
    if (PyWeakref_CheckRef(found) && PyWeakref_GetRef(found, &met) > 0)
        Py_DECREF(met);
#else
    if (PyWeakref_CheckRef(found))
        met = PyWeakref_GetObject(found);
#endif
    return met == owner;
}

/* Objects that cannot be referred to weakly live until the session ends. */
static void meet(PyObject *address, PyObject *owner)
{
    PyObject *reference = PyWeakref_NewRef(owner, NULL);
    if (reference == NULL)
        PyErr_Clear();
    PyDict_SetItem(owners, address, reference != NULL ? reference : owner);
    Py_XDECREF(reference);
}

/* "nn.Module: Linear_0": modules of a class are numbered in order of first use. */
static uint32_t module_name(PyObject *module, bool *is_new)
{
    PyObject *key = PyLong_FromVoidPtr(module);
    uint32_t id = key != NULL && is_met(key, module) ? known(module_names, key) : 0;
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
        meet(key, module);
        id = keep_id(module_names, key, name);
    }
    Py_XDECREF(key);
    PyErr_Clear();
    return id;
}

/* "<built-in function len>", "<built-in method add of Tensor>": without addresses, to keep the number of
 * names low. */
static uint32_t builtin_name(PyMethodDef *function, PyObject *object)
{
    struct recent_name *last = recent_of(function); /* a static table, which lives as long as its module */
    if (LIKELY(last->of == function))
        return last->id;
    /* calls within the profiler are not recorded */
    bool is_ours = object != NULL && strncmp(Py_TYPE(object)->tp_name, "mtprof.", 7) == 0;
    PyObject *key = PyLong_FromVoidPtr(function);
    uint32_t id = key != NULL && !is_ours ? known(function_names, key) : 0;
    if (id == 0 && key != NULL && !is_ours) {
        char name[256];
        if (object == NULL || PyModule_Check(object))
            snprintf(name, sizeof name, "<built-in function %s>", function->ml_name);
        else
            snprintf(name, sizeof name, "<built-in method %s of %s>", function->ml_name,
                     PyType_Check(object) ? "type" : Py_TYPE(object)->tp_name);
        id = keep_id(function_names, key, name);
    }
    Py_XDECREF(key);
    PyErr_Clear();
    *last = (struct recent_name){function, id};
    return id;
}

/* Is the optimizer new to this session? */
static bool meet_optimizer(PyObject *optimizer)
{
    PyObject *key = PyLong_FromVoidPtr(optimizer);
    bool is_new = key != NULL && !is_met(key, optimizer) && !PyErr_Occurred();
    if (is_new)
        meet(key, optimizer);
    Py_XDECREF(key);
    PyErr_Clear();
    return is_new;
}

static void enter_python(PyCodeObject *code, mtpn_frame *frame, uintptr_t of)
{
    PyObject *first = code == module_call || code == optimizer_call ? mtpn_first_argument(frame) : NULL;
    owner who = {first, code == module_call ? mtpn_hold_module : mtpn_hold_optimizer, false};
    if (first != NULL && code == module_call) {
        uint32_t name = module_name(first, &who.is_new);
        open_call(name, MTP_SCOPE_MODULE, false, of, who);
    } else {
        who.is_new = first != NULL && with_functions && meet_optimizer(first);
        open_function(code, of, who);
    }
}

static void enter_frame(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    enter_python(code, mtpn_frame_of(frame), call_of(frame, false));
    Py_DECREF(code);
}

static void enter_c(PyMethodDef *function, PyObject *object, uintptr_t of)
{
    bool hide = in_hidden();
    open_call(with_functions && !hide && function != NULL ? builtin_name(function, object) : 0,
              MTP_SCOPE_PYTHON, hide, of, nobody);
}

/* Opens functions that are already running, outermost first, without the innermost `skip`. */
static void open_running(unsigned skip)
{
    PyCodeObject *running[512];
    unsigned n = 0;
    int at;
    mtpn_walk walk = mtpn_walk_begin(PyThreadState_Get());
    for (PyCodeObject *code; n < 512 && (code = mtpn_walk_next(&walk, &at)) != NULL;)
        running[n++] = code;
    mtpn_walk_end(&walk);
    calls.count = 0;
    calls.serial = follow_serial;
    while (n > skip)
        open_function(running[--n], 0, nobody);
}

/* Is this thread's event to be recorded? Its first one opens what is running, without the innermost `skip` frames. */
static bool meet_thread(unsigned skip)
{
    if (following && UNLIKELY(calls.serial != follow_serial)) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        open_running(skip);
        PyErr_Restore(type, value, trace);
    }
    return following;
}

void mtpn_call_begins(PyCodeObject *code)
{
    if (LIKELY(meet_thread(1))) {
        mtpn_frame *frame = mtpn_frame_now();
        enter_python(code, frame, call_of(frame, false));
    }
}

void mtpn_call_ends(void)
{
    if (LIKELY(meet_thread(0)))
        close_call(call_of(mtpn_frame_now(), false));
}

void mtpn_c_call_begins(PyMethodDef *function, PyObject *object)
{
    if (LIKELY(meet_thread(0)))
        enter_c(function, object, call_of(mtpn_frame_now(), true));
}

void mtpn_c_call_ends(void)
{
    if (LIKELY(meet_thread(0)))
        close_call(call_of(mtpn_frame_now(), true));
}

static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg)
{
    (void)self;
    if (UNLIKELY(!following)) { /* the session ended, but this thread still has the hook */
        PyEval_SetProfile(NULL, NULL);
        return 0;
    }
    meet_thread(what == PyTrace_CALL);
    switch (what) {
    case PyTrace_CALL:
        enter_frame(frame);
        break;
    case PyTrace_C_CALL: {
        PyCFunctionObject *f = PyCFunction_Check(arg) ? (PyCFunctionObject *)arg : NULL;
        enter_c(f != NULL ? f->m_ml : NULL, f != NULL ? f->m_self : NULL, call_of(frame, true));
        break;
    }
    case PyTrace_RETURN:
        close_call(call_of(frame, false));
        break;
    case PyTrace_C_RETURN:
    case PyTrace_C_EXCEPTION:
        close_call(call_of(frame, true));
        break;
    default:
        break;
    }
    return 0;
}

/* Called at a new thread's first event (threading.setprofile): installs the C function above as its profiler.
 */
static PyObject *follow_thread(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *frame, *event, *arg;
    if (!PyArg_ParseTuple(args, "OOO", &frame, &event, &arg))
        return NULL;
    PyEval_SetProfile(following ? on_event : NULL, NULL);
    if (following && PyFrame_Check(frame) && PyUnicode_CompareWithASCIIString(event, "call") == 0) {
        calls.count = 0;
        calls.serial = follow_serial;
        enter_frame((PyFrameObject *)frame);
    }
    Py_RETURN_NONE;
}

static PyMethodDef follow_method = {"follow_thread", follow_thread, METH_VARARGS, NULL};

/* A function that the program passes to threading.setprofile, before or during the recording, is never
 * replaced. */
static void set_for_new_threads(bool on)
{
    static PyObject *ours;
    if (ours == NULL)
        ours = PyCFunction_New(&follow_method, NULL);
    /* set directly: threading.setprofile is Python code, which Ctrl-C could interrupt halfway */
    static const char hook[] = "_profile_hook";
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *there = threading != NULL ? PyObject_GetAttrString(threading, hook) : NULL;
    if (there != NULL && ours != NULL && there == (on ? Py_None : ours))
        PyObject_SetAttrString(threading, hook, on ? ours : Py_None);
    Py_XDECREF(there);
    Py_XDECREF(threading);
    PyErr_Clear();
}

static bool is_followed_by_others(const PyThreadState *thread)
{
    return thread->c_profilefunc != NULL && thread->c_profilefunc != on_event;
}

/* On all existing threads; a thread that has another Python profiler keeps it. */
static void set_for_all_threads(bool on)
{
    PyThreadState *first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
#if PY_VERSION_HEX >= 0x030c0000
    bool ours = true;
    for (PyThreadState *t = first; t != NULL; t = PyThreadState_Next(t))
        ours &= !is_followed_by_others(t);
    if (ours)
        PyEval_SetProfileAllThreads(on ? on_event : NULL, NULL);
    else
        PyEval_SetProfile(on ? on_event : NULL, NULL);
#else
    for (PyThreadState *t = first; t != NULL; t = PyThreadState_Next(t))
        if (t->c_profilefunc != (on ? on_event : NULL) && !is_followed_by_others(t) &&
            _PyEval_SetProfile(t, on ? on_event : NULL, NULL) != 0)
            PyErr_Clear();
#endif
}

/* ---------------------------------------------------------------------------------------- begin and end */

/* Exceptions are passed on, not swallowed: one may be Ctrl-C. */
static bool set_prefixes(void)
{
    PyObject *paths = PyImport_ImportModule("mtprof._paths");
    PyObject *found = paths != NULL ? PyObject_CallMethod(paths, "prefixes", NULL) : NULL;
    Py_XDECREF(paths);
    prefixes_of = path_length();
    if (found != NULL || prefixes == NULL)
        Py_XSETREF(prefixes, found);
    return found != NULL;
}

static void unfollow(void)
{
    if (!following)
        return;
    following = false;
    if (monitored) {
        mtpn_monitor_end();
    } else {
        set_for_all_threads(false);
        set_for_new_threads(false);
    }
    while (calls.serial == follow_serial && calls.count > 0)
        mtp_scope_end(calls.call[--calls.count].token);
}

static void end(void)
{
    unfollow();
    taker = NULL;
    Py_CLEAR(kept);
    Py_CLEAR(module_names);
    Py_CLEAR(module_counts);
    Py_CLEAR(function_names);
    memset(recent, 0, sizeof recent);
    Py_CLEAR(prefixes);
    Py_CLEAR(owners);
}

bool mtpn_frames_are_free(void)
{
    return taker == NULL ||
           taker_pid != getpid(); /* after fork: the parent's session, which no longer records here */
}

const mtp_stack_provider *mtpn_frames_provider(void)
{
    static const mtp_stack_provider provider = {sizeof provider, capture, describe, NULL};
    return &provider;
}

bool mtpn_frames_begin(const void *session, PyObject *code, bool functions, bool sets_provider)
{
    end();
    taker = session;
    taker_pid = getpid();
    kept = code != NULL ? Py_NewRef(code) : PyDict_New();
    module_names = PyDict_New();
    module_counts = PyDict_New();
    function_names = PyDict_New();
    owners = PyDict_New();
    with_functions = functions;
    if (kept == NULL || module_names == NULL || module_counts == NULL || function_names == NULL ||
        owners == NULL || !set_prefixes()) {
        mtpn_frames_end(session);
        return false;
    }
    mtp_status status = sets_provider ? mtp_stack_provider_set(mtpn_frames_provider()) : MTP_OK;
    if (status == MTP_OK)
        return true;
    mtpn_frames_end(session);
    mtpn_raise(status);
    return false;
}

bool mtpn_frames_may_follow(void)
{
    return mtpn_monitor_is_free() ||
           !is_followed_by_others(PyThreadState_Get()); /* another Python profiler has precedence */
}

void mtpn_frames_follow(void)
{
    monitored = mtpn_monitor_begin(with_functions);
    if (!monitored && is_followed_by_others(PyThreadState_Get()))
        return;
    if (!monitored)
        set_for_new_threads(true); /* before following: the import is ours, not the program's */
    following = true;
    follow_serial++;
    open_running(0);
    if (!monitored)
        set_for_all_threads(true);
}

bool mtpn_frames_were_displaced(const void *session)
{
    return taker == session && following && !monitored && PyThreadState_Get()->c_profilefunc != on_event;
}

void mtpn_frames_unfollow(const void *session)
{
    if (taker == session)
        unfollow();
}

void mtpn_frames_end(const void *session)
{
    if (taker == session)
        end();
}

/* --------------------------------------------------------------------------------------------- module's part */

static PyObject *hide_file(PyObject *self, PyObject *name)
{
    (void)self;
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "hide_file() takes a file name, as in co_filename");
    uint64_t bit, *word = hidden_word(name, &bit);
    if (hidden_count < HIDDEN_FILES) {
        hidden[hidden_count++] = Py_NewRef(name);
        *word |= bit;
    }
    Py_RETURN_NONE;
}

/* code: a code object, or None for no calls. */
static PyObject *set_call(PyCodeObject **call, PyObject *code, const char *wrong)
{
    if (code != Py_None && !PyCode_Check(code))
        return PyErr_Format(PyExc_TypeError, "%s", wrong);
    Py_XSETREF(*call, code != Py_None ? (PyCodeObject *)Py_NewRef(code) : NULL);
    Py_RETURN_NONE;
}

static PyObject *set_module_call(PyObject *self, PyObject *code)
{
    (void)self;
    return set_call(&module_call, code,
                    "set_module_call() takes the code object of nn.Module.__call__, or None");
}

static PyObject *set_optimizer_call(PyObject *self, PyObject *code)
{
    (void)self;
    return set_call(&optimizer_call, code,
                    "set_optimizer_call() takes the code object of a method that every step calls, or None");
}

static PyMethodDef functions[] = {
    {"set_optimizer_call", set_optimizer_call, METH_O,
     PyDoc_STR(
         "Calls of this code object report the tensors of the optimizer, their first argument; None: no "
         "calls.")},
    {"hide_file", hide_file, METH_O, PyDoc_STR("Omit the frames of this file (co_filename) from stacks.")},
    {"set_module_call", set_module_call, METH_O,
     PyDoc_STR("Show calls of this code object as nn.Module: CLASS_n; None: no calls.")},
    {NULL, NULL, 0, NULL},
};

int mtpn_frames_init(PyObject *module)
{
    if (!has_calls_key)
        has_calls_key = pthread_key_create(&calls_key, PyMem_RawFree) == 0;
    return PyModule_AddFunctions(module, functions);
}
