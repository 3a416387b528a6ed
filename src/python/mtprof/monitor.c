/* python/mtprof/monitor.c - calls by sys.monitoring, where Python has it (3.12 and later): of all threads at once, without frame
 * objects, and beside the program's own profilers (sys.setprofile, cProfile), which keep their tool ids.
 *
 * Threads: everything here runs with the GIL. The functions that Python calls never raise and never run Python code.
 */
#include "python/mtprof/native.h"

#if PY_VERSION_HEX >= 0x030c0000
#include <structmember.h>

static const int tools[] = {4, 3}; /* ids that no kind of tool owns; 2 is cProfile's, 1 is for coverage */
static int tool = -1;              /* the one that we hold; -1: none */

/* ------------------------------------------------------------------------------------- what Python calls */

typedef PyObject *on_event(PyObject *self, PyObject *const *args, size_t count, PyObject *names);

static PyObject *on_begin(PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    (void)self, (void)names;
    if (LIKELY(PyVectorcall_NARGS(count) > 0 && PyCode_Check(args[0]))) /* a program can call this, too */
        mtpn_call_begins((PyCodeObject *)args[0]);
    Py_RETURN_NONE;
}

static PyObject *on_end(PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    (void)self, (void)args, (void)count, (void)names;
    mtpn_call_ends();
    Py_RETURN_NONE;
}

/* The C function of a call, as sys.setprofile would report it: NULL for all else, such as classes and Python functions. */
static PyMethodDef *c_function(PyObject *const *args, size_t count, PyObject **object)
{
    if (UNLIKELY(PyVectorcall_NARGS(count) < 4))
        return NULL;
    *object = args[3];
    if (PyCFunction_Check(args[2])) {
        *object = ((PyCFunctionObject *)args[2])->m_self;
        return ((PyCFunctionObject *)args[2])->m_ml;
    }
    if (!Py_IS_TYPE(args[2], &PyMethodDescr_Type) ||
        !PyObject_TypeCheck(args[3], PyDescr_TYPE(args[2]))) /* not without arguments, or with wrong ones */
        return NULL;
    return ((PyMethodDescrObject *)args[2])->d_method;
}

static PyObject *on_c_begin(PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    (void)self, (void)names;
    PyObject *object;
    PyMethodDef *function = c_function(args, count, &object);
    if (function != NULL)
        mtpn_c_call_begins(function, object);
    Py_RETURN_NONE;
}

static PyObject *on_c_end(PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    (void)self, (void)names;
    PyObject *object;
    if (c_function(args, count, &object) != NULL)
        mtpn_c_call_ends();
    Py_RETURN_NONE;
}

static const struct event {
    const char *name;
    on_event *call;
    bool of_c, is_set; /* is_set: C_RETURN and C_RAISE come with CALL */
} events[] = {
    {"PY_START", on_begin, false, true}, {"PY_RESUME", on_begin, false, true},
    {"PY_THROW", on_begin, false, true}, {"PY_RETURN", on_end, false, true},
    {"PY_YIELD", on_end, false, true},   {"PY_UNWIND", on_end, false, true},
    {"CALL", on_c_begin, true, true},    {"C_RETURN", on_c_end, true, false},
    {"C_RAISE", on_c_end, true, false},
};
enum {
    EVENTS = sizeof events / sizeof *events
};

/* Its objects are what Python calls, directly: a function would cost another check of the stack's depth. */
typedef struct receiver {
    PyObject_HEAD
    vectorcallfunc call;
} receiver;
static PyTypeObject *receiver_type;
static PyObject *receivers[EVENTS]; /* live as long as the process */

static bool make_receivers(void)
{
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(receiver, call), READONLY, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_members, members},
        {Py_tp_call, PyVectorcall_Call},
        {0, NULL},
    };
    static PyType_Spec spec = {
        "mtprof._receiver", sizeof(receiver), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    if (receiver_type == NULL)
        receiver_type = (PyTypeObject *)PyType_FromSpec(&spec);
    for (int i = 0; i < EVENTS && receiver_type != NULL; i++)
        if (receivers[i] == NULL) {
            receiver *made = PyObject_New(receiver, receiver_type);
            if (made == NULL)
                return false;
            made->call = events[i].call;
            receivers[i] = (PyObject *)made;
        }
    return receiver_type != NULL;
}

/* ------------------------------------------------------------------------------------------- begin and end */

static bool did(PyObject *result) /* takes it */
{
    bool good = result != NULL;
    Py_XDECREF(result);
    if (!good)
        PyErr_Clear();
    return good;
}

static PyObject *monitoring(void) /* borrowed; NULL: a Python without it */
{
    return PySys_GetObject("monitoring");
}

static bool is_free(int id)
{
    PyObject *name = PyObject_CallMethod(monitoring(), "get_tool", "i", id);
    bool free = name == Py_None;
    return did(name) && free;
}

bool mtpn_monitor_is_free(void)
{
    return monitoring() != NULL && (is_free(tools[0]) || is_free(tools[1]));
}

/* The number of an event; -1: this Python has none of that name. */
static long number_of(const char *name)
{
    PyObject *all = PyObject_GetAttrString(monitoring(), "events");
    PyObject *number = all != NULL ? PyObject_GetAttrString(all, name) : NULL;
    long n = number != NULL ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    Py_XDECREF(all);
    PyErr_Clear();
    return n;
}

void mtpn_monitor_end(void)
{
    if (tool < 0 || monitoring() == NULL)
        return;
    did(PyObject_CallMethod(monitoring(), "set_events", "ii", tool, 0));
    for (int i = 0; i < EVENTS; i++)
        did(PyObject_CallMethod(monitoring(), "register_callback", "ilO", tool, number_of(events[i].name),
                                Py_None));
    did(PyObject_CallMethod(monitoring(), "free_tool_id", "i", tool));
    tool = -1;
}

bool mtpn_monitor_begin(bool with_c)
{
    long set = 0;
    if (monitoring() == NULL || !make_receivers()) {
        PyErr_Clear();
        return false;
    }
    for (size_t i = 0; i < sizeof tools / sizeof *tools && tool < 0; i++)
        if (did(PyObject_CallMethod(monitoring(), "use_tool_id", "is", tools[i], "mtprof")))
            tool = tools[i];
    bool good = tool >= 0;
    for (int i = 0; i < EVENTS && good; i++) {
        if (events[i].of_c && !with_c)
            continue;
        long number = number_of(events[i].name);
        set |= events[i].is_set && number > 0 ? number : 0;
        good = number > 0 &&
               did(PyObject_CallMethod(monitoring(), "register_callback", "ilO", tool, number, receivers[i]));
    }
    good = good && did(PyObject_CallMethod(monitoring(), "set_events", "il", tool, set));
    if (!good)
        mtpn_monitor_end();
    return good;
}

#else

bool mtpn_monitor_is_free(void)
{
    return false;
}

bool mtpn_monitor_begin(bool with_c)
{
    (void)with_c;
    return false;
}

void mtpn_monitor_end(void)
{
}
#endif
