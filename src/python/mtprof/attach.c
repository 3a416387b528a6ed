/* python/mtprof/attach.c - Python's part of recordings that Python did not start: those of `mtprof run` and of
 * `mtprof trigger`. Functions are followed, and stacks are Python's, whenever such a recording runs.
 *
 * Threads: recordings begin and end on any thread, with or without the GIL.
 */
#define _GNU_SOURCE
#include "python/mtprof/native.h"
#include <dlfcn.h>
#include <sys/prctl.h>

static const char recording_of_others; /* its address is the session that owns the frames */
static bool attached, with_functions;  /* under the GIL */

static bool python_is_alive(void)
{
#if PY_VERSION_HEX >= 0x030d0000
    return Py_IsInitialized() && !Py_IsFinalizing();
#else
    return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

/* A line that `mtprof run` prints. */
static void note(const char *text)
{
    void (*say)(const char *line) = NULL;
    *(void **)&say =
        dlsym(RTLD_DEFAULT, "mtp_run_note"); /* collect/run/run.h; NULL: not under `mtprof run` */
    if (say != NULL)
        say(text);
}

/* With the GIL; a pending exception stays pending. */
static void begin_frames(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (with_functions && !mtpn_frames_may_follow())
        note("its Python functions are not recorded: another profiler follows them (sys.setprofile; for "
             "example cProfile)");
    if (mtpn_frames_are_free() && mtpn_frames_begin(&recording_of_others, NULL, true, false) &&
        with_functions)
        mtpn_frames_follow();
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

static void on_begin(void *user, mtp_profile *prof)
{
    (void)user;
    if (!mtp_profile_gives_way(prof) || !python_is_alive())
        return; /* a profile of the program's own takes care of itself */
    PyGILState_STATE gil = PyGILState_Ensure();
    if (attached)
        begin_frames();
    PyGILState_Release(gil);
}

static void on_end(void *user, mtp_profile *prof)
{
    (void)user;
    (void)prof;
    if (!python_is_alive())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    mtpn_frames_end(&recording_of_others);
    PyGILState_Release(gil);
}

typedef void python_fn(const mtp_stack_provider *provider);

static PyObject *attach(PyObject *self, PyObject *functions)
{
    static bool watching;
    python_fn *told = NULL;
    (void)self;
    with_functions = PyObject_IsTrue(functions) == 1;
    attached = true;
    if (!watching && mtp_watch_add(on_begin, on_end, NULL) != MTP_OK)
        return mtpn_raise(MTP_E_STATE);
    watching = true;
    *(void **)&told =
        dlsym(RTLD_DEFAULT, "mtp_run_python"); /* collect/run/run.h; NULL: not under `mtprof run` */
    if (told != NULL)
        told(mtpn_frames_provider());
    if (mtp_recording() != 0)
        begin_frames();
    Py_RETURN_NONE;
}

static PyObject *detach(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    bool displaced = mtpn_frames_were_displaced(&recording_of_others);
    with_functions = false;
    mtpn_frames_unfollow(&recording_of_others);
    return PyBool_FromLong(!displaced);
}

/* The system's name, for everybody, and the whole one for recordings; Python sets the first since 3.14. */
static PyObject *name_thread(PyObject *self, PyObject *name)
{
    (void)self;
    char text[16] = "";
    const char *utf8 = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    if (utf8 == NULL) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    size_t n = strnlen(utf8, sizeof text - 1);
    while (n > 0 && ((unsigned char)utf8[n] & 0xc0) == 0x80)
        n--; /* whole characters */
    memcpy(text, utf8, n);
    prctl(PR_SET_NAME, text);
    if (utf8[n] != 0)
        mtp_thread_name(0, utf8);
    Py_RETURN_NONE;
}

PyMethodDef mtpn_attach[] = {
    {"attach", attach, METH_O,
     PyDoc_STR("attach(functions)\n\nTake part in recordings that Python does not start (`mtprof run`): with "
               "Python's stacks "
               "and, if `functions`, its functions.")},
    {"detach", detach, METH_NOARGS,
     PyDoc_STR("detach()\n\nAfter attach(True): functions are not recorded from now on. False: nor were "
               "they before, since the program set a profiler of its own.")},
    {"name_thread", name_thread, METH_O, PyDoc_STR("name_thread(name)\n\nThe system's name of this thread.")},
    {NULL, NULL, 0, NULL},
};
