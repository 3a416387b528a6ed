/* python/mtprof/session.c - one recording session, controlled explicitly: torch's state machine is in the
 * Python layer above.
 *
 * GIL: released where a call may wait for other threads (stop) or take long (trace).
 */
#include "python/mtprof/native.h"

typedef struct session {
    PyObject_HEAD
    mtp_profile *prof;
    bool keeps_events, with_stack, wants_frames, frames_on;
    PyObject *trace_id;              /* callable or NULL */
    PyObject *on_warning;            /* callable or NULL */
    PyObject *code;                  /* dict, or NULL: see mtpn_frames_begin */
    char next_id[MTP_TRACE_ID_ROOM]; /* returned by trace_id */
} session;

/* ------------------------------------------------------------------------------------------------ callbacks */

static void on_warning(void *user, mtp_warning code, const char *text)
{
    session *s = user;
    PyGILState_STATE gil = PyGILState_Ensure();
    if (s->on_warning != NULL) {
        PyObject *type, *value, *trace; /* a pending exception stays pending */
        PyErr_Fetch(&type, &value, &trace);
        PyObject *message = mtpn_message(text);
        PyObject *result =
            message != NULL ? PyObject_CallFunction(s->on_warning, "iN", (int)code, message) : NULL;
        if (result == NULL)
            PyErr_WriteUnraisable(s->on_warning);
        Py_XDECREF(result);
        PyErr_Restore(type, value, trace);
    }
    PyGILState_Release(gil);
}

/* Called before the session is claimed, so that an error in the callback is raised to the caller. */
static bool ask_trace_id(session *s)
{
    PyObject *made = PyObject_CallNoArgs(s->trace_id);
    if (made != NULL && !PyUnicode_Check(made))
        PyErr_Format(PyExc_TypeError, "the trace id must be str, not %s", Py_TYPE(made)->tp_name);
    Py_ssize_t length = 0;
    const char *text = made != NULL && PyUnicode_Check(made) ? PyUnicode_AsUTF8AndSize(made, &length) : NULL;
    bool fits = text != NULL && length < MTP_TRACE_ID_ROOM && strlen(text) == (size_t)length;
    if (fits)
        memcpy(s->next_id, text, (size_t)length + 1);
    else if (text != NULL)
        PyErr_Format(PyExc_ValueError, "the trace id must be at most %d bytes of UTF-8 without NUL, not %R",
                     MTP_TRACE_ID_ROOM - 1, made);
    Py_XDECREF(made);
    return fits;
}

static void copy_trace_id(void *user, char *out, size_t room)
{
    snprintf(out, room, "%s", ((session *)user)->next_id);
}

/* --------------------------------------------------------------------------------------------- life */

/* An optional argument (NULL: absent): a number from 0 to most, or an exception. */
static bool get_number(PyObject *given, const char *name, unsigned long long most, unsigned long long *number)
{
    if (given == NULL)
        return true;
    PyObject *whole = PyNumber_Index(given);
    if (whole == NULL) {
        PyErr_Format(PyExc_TypeError, "%s must be int, not %s", name, Py_TYPE(given)->tp_name);
        return false;
    }
    *number = PyLong_AsUnsignedLongLong(whole);
    bool fits = PyErr_Occurred() == NULL && *number <= most;
    if (!fits)
        PyErr_Format(PyExc_ValueError, "%s=%S is out of range", name, whole);
    Py_DECREF(whole);
    return fits;
}

/* An optional argument: absent, None or a callable. */
static bool is_callable(PyObject *given, const char *name)
{
    if (given == NULL || given == Py_None || PyCallable_Check(given))
        return true;
    PyErr_Format(PyExc_TypeError, "%s must be a function, not %s", name, Py_TYPE(given)->tp_name);
    return false;
}

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"activities",  "record_shapes",
                               "with_stack",  "profile_memory",
                               "with_flops",  "with_modules",
                               "acc_events",  "buffer_bytes",
                               "when_full",   "spool",
                               "follow_fork", "trace_id",
                               "on_warning",  NULL};
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    int shapes = 0, stack = 0, memory = 0, flops = 0, modules = 0, keep = 0, fork = 0, when_full = 0;
    unsigned long long bytes = 0, activities = 0;
    PyObject *trace_id = NULL, *warn = NULL, *given_bytes = NULL, *given_activities = NULL, *spool = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OppppppOiOpOO:Session", keywords, &given_activities,
                                     &shapes, &stack, &memory, &flops, &modules, &keep, &given_bytes,
                                     &when_full, &spool, &fork, &trace_id, &warn) ||
        !get_number(given_activities, "activities", UINT_MAX, &activities) ||
        !get_number(given_bytes, "buffer_bytes", ULLONG_MAX, &bytes) || !is_callable(trace_id, "trace_id") ||
        !is_callable(warn, "on_warning"))
        return NULL;
    PyObject *path = NULL; /* bytes */
    if (spool != NULL && spool != Py_None && !PyUnicode_FSConverter(spool, &path))
        return NULL;
    config.spool = path != NULL ? PyBytes_AS_STRING(path) : NULL;
    session *s = (session *)type->tp_alloc(type, 0);
    if (s == NULL) {
        Py_XDECREF(path);
        return NULL;
    }
    s->trace_id = trace_id == Py_None ? NULL : Py_XNewRef(trace_id);
    s->on_warning = warn == Py_None ? NULL : Py_XNewRef(warn);
    s->keeps_events = keep;
    s->with_stack = stack;
    s->wants_frames = stack || modules;
    config.activities = (unsigned int)activities;
    config.record_shapes = shapes;
    config.with_stack = stack;
    config.profile_memory = memory;
    config.with_flops = flops;
    config.with_modules = modules;
    config.acc_events = keep;
    config.follow_fork = fork;
    config.buffer_bytes = bytes;
    config.when_full = (mtp_when_full)when_full;
    config.user = s;
    config.on_warning = on_warning;
    if (s->trace_id != NULL)
        config.custom_trace_id = copy_trace_id;
    mtp_status status = mtp_profile_create(&config, &s->prof);
    Py_XDECREF(path);
    if (status == MTP_OK)
        return (PyObject *)s;
    Py_DECREF(s);
    return mtpn_raise(status);
}

static int session_traverse(PyObject *self, visitproc visit, void *arg)
{
    session *s = (session *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(s->trace_id);
    Py_VISIT(s->on_warning);
    Py_VISIT(s->code);
    return 0;
}

static int session_clear(PyObject *self)
{
    session *s = (session *)self;
    Py_CLEAR(s->trace_id);
    Py_CLEAR(s->on_warning);
    Py_CLEAR(s->code);
    return 0;
}

static void end_frames(session *s)
{
    if (s->frames_on)
        mtpn_frames_end(s);
    s->frames_on = false;
}

static void session_dealloc(PyObject *self)
{
    session *s = (session *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    mtp_profile *prof = s->prof;
    s->prof = NULL;
    Py_BEGIN_ALLOW_THREADS /* stops first, which may wait */
    mtp_profile_destroy(prof);
    Py_END_ALLOW_THREADS
    end_frames(s);
    session_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ----------------------------------------------------------------------------------------------- driving */

static PyObject *done(mtp_status status)
{
    return mtpn_none(status);
}

static PyObject *session_prepare(PyObject *self, PyObject *unused)
{
    session *s = (session *)self;
    (void)unused;
    if (s->trace_id != NULL && !ask_trace_id(s))
        return NULL;
    return done(mtp_profile_prepare_trace(s->prof));
}

static PyObject *session_start(PyObject *self, PyObject *unused)
{
    session *s = (session *)self;
    (void)unused;
    bool begins = s->wants_frames && !s->frames_on && mtpn_frames_are_free(); /* else start will fail */
    if (begins && !mtpn_frames_may_follow() &&
        PyErr_WarnEx(
            PyExc_UserWarning,
            "another profiler follows this thread's Python calls (sys.setprofile; for example cProfile): "
            "Python functions and modules are not recorded; stop it before the profile starts",
            1) < 0)
        return NULL;
    if (begins && s->keeps_events && s->code == NULL && (s->code = PyDict_New()) == NULL)
        return NULL;
    if (begins && !mtpn_frames_begin(s, s->code, s->with_stack, s->with_stack))
        return NULL;
    s->frames_on |= begins;
    mtp_status status = mtp_profile_start_trace(s->prof);
    if (status == MTP_OK && s->frames_on)
        mtpn_frames_follow();
    if (status != MTP_OK && begins) /* a session that was already recording keeps them */
        end_frames(s);
    return done(status);
}

static PyObject *session_stop(PyObject *self, PyObject *unused)
{
    session *s = (session *)self;
    (void)unused;
    mtp_status status;
    if (s->frames_on)
        mtpn_frames_unfollow(s);
    Py_BEGIN_ALLOW_THREADS /* a thread inside a recording call may need the GIL to walk its stack */
    status = mtp_profile_stop_trace(s->prof);
    Py_END_ALLOW_THREADS
    if (status == MTP_OK)
        end_frames(s);
    return done(status);
}

static PyObject *session_mark_step(PyObject *self, PyObject *number)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(number);
    if (n == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    return done(mtp_profile_mark_step(((session *)self)->prof, n));
}

static PyObject *session_toggle(PyObject *self, PyObject *args)
{
    int enable;
    unsigned activities;
    if (!PyArg_ParseTuple(args, "pI:toggle", &enable, &activities))
        return NULL;
    return done(mtp_profile_toggle(((session *)self)->prof, enable, activities));
}

typedef mtp_status metadata_fn(mtp_profile *prof, const char *key, const char *value);

static PyObject *metadata(PyObject *self, PyObject *args, metadata_fn *fn)
{
    const char *key, *value;
    if (!PyArg_ParseTuple(args, "ss", &key, &value))
        return NULL;
    return done(fn(((session *)self)->prof, key, value));
}

static PyObject *session_metadata(PyObject *self, PyObject *args)
{
    return metadata(self, args, mtp_profile_add_metadata);
}

static PyObject *session_metadata_json(PyObject *self, PyObject *args)
{
    return metadata(self, args, mtp_profile_add_metadata_json);
}

static PyObject *session_preset_json(PyObject *self, PyObject *args)
{
    return metadata(self, args, mtp_profile_preset_metadata_json);
}

static PyObject *session_trace(PyObject *self, PyObject *unused)
{
    session *s = (session *)self;
    (void)unused;
    mtp_trace *trace;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_profile_trace(s->prof, &trace);
    Py_END_ALLOW_THREADS
    return status == MTP_OK ? mtpn_trace_object(trace) : mtpn_raise(status);
}

/* ------------------------------------------------------------------------------------------------- state */

static PyObject *session_trace_id(PyObject *self, void *unused)
{
    (void)unused;
    const char *id = mtp_profile_trace_id(((session *)self)->prof);
    if (id == NULL)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(id, (Py_ssize_t)strlen(id), "replace");
}

MTPY_GETTER(session_recording, PyBool_FromLong(mtp_profile_is_recording(((session *)self)->prof)))

static PyObject *session_ledger(PyObject *self, void *unused)
{
    (void)unused;
    mtp_ledger ledger = MTP_LEDGER_INIT;
    mtp_status status = mtp_profile_ledger(((session *)self)->prof, &ledger);
    if (status != MTP_OK)
        return mtpn_raise(status);
    PyObject *causes = PyDict_New();
    for (int i = 0; causes != NULL && i < MTP_DROP_CAUSES; i++) {
        PyObject *n = PyLong_FromUnsignedLongLong(ledger.dropped_by[i]);
        if (n == NULL || PyDict_SetItemString(causes, mtp_drop_text((mtp_drop)i), n) < 0)
            Py_CLEAR(causes);
        Py_XDECREF(n);
    }
    return causes == NULL
               ? NULL
               : Py_BuildValue("{sK sK sK sN sK sK sK sK}", "emitted", (unsigned long long)ledger.emitted,
                               "kept", (unsigned long long)ledger.kept, "dropped",
                               (unsigned long long)ledger.dropped, "dropped_by", causes, "lost_definitions",
                               (unsigned long long)ledger.lost_definitions, "bytes",
                               (unsigned long long)ledger.bytes, "chunks", (unsigned long long)ledger.chunks,
                               "threads", (unsigned long long)ledger.threads);
}

static PyObject *path_object(const char *path)
{
    if (path == NULL)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(path);
}

MTPY_GETTER(session_spool, path_object(mtp_profile_spool(((session *)self)->prof)))

MTPY_GETTER(session_spool_kept, path_object(mtp_profile_spool_kept(((session *)self)->prof)))

int mtpn_session_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"prepare", session_prepare, METH_NOARGS,
         PyDoc_STR("Prepare to record: claim the session and reserve its memory.")},
        {"start", session_start, METH_NOARGS, PyDoc_STR("Start recording.")},
        {"stop", session_stop, METH_NOARGS, PyDoc_STR("Stop recording; the records are kept.")},
        {"mark_step", session_mark_step, METH_O, PyDoc_STR("Events from here on belong to this step.")},
        {"toggle", session_toggle, METH_VARARGS,
         PyDoc_STR("toggle(enable, activities): enable or disable activities while recording.")},
        {"add_metadata", session_metadata, METH_VARARGS, PyDoc_STR("add_metadata(key, text)")},
        {"add_metadata_json", session_metadata_json, METH_VARARGS,
         PyDoc_STR("add_metadata_json(key, json_text)")},
        {"preset_metadata_json", session_preset_json, METH_VARARGS,
         PyDoc_STR("preset_metadata_json(key, json_text)")},
        {"trace", session_trace, METH_NOARGS, PyDoc_STR("The recording so far, as a Trace.")},
        {NULL, NULL, 0, NULL},
    };
    static PyGetSetDef properties[] = {
        {"trace_id", session_trace_id, NULL, "None before prepare()", NULL},
        {"spool", session_spool, NULL, "the spool's path, without patterns; None before prepare()", NULL},
        {"spool_kept", session_spool_kept, NULL,
         "new path of an earlier recording of that name that was never stopped; None: there was none", NULL},
        {"recording", session_recording, NULL, "is it recording now?", NULL},
        {"ledger", session_ledger, NULL, "records emitted, kept and dropped, by cause", NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_doc,
         "Session(*, activities=0, record_shapes=False, with_stack=False, profile_memory=False, "
         "with_flops=False,\n"
         "        with_modules=False, acc_events=False, buffer_bytes=0, when_full=STOP_WHEN_FULL, "
         "spool=None,\n"
         "        follow_fork=False, trace_id=None, on_warning=None)\n--\n\n"
         "One recording session of this process: prepare(), start(), stop(), trace().\n\n"
         "activities: CPU | NPU, 0 is both. buffer_bytes: memory for records, 0 is 256 MiB. when_full: "
         "STOP_WHEN_FULL\n"
         "drops new records, KEEP_NEWEST the oldest, STREAM writes to the spool. spool: a file that receives "
         "the records as\n"
         "they are made, and survives kill -9; Trace.open() and the command mtprof read it. follow_fork: a "
         "forked child\n"
         "records into <spool>.<pid>. trace_id: () -> str, called by prepare(). on_warning: (code, text) -> "
         "None. ledger\n"
         "says what was dropped, and why. See docs/python.md."},
        {Py_tp_new, session_new},
        {Py_tp_dealloc, session_dealloc},
        {Py_tp_traverse, session_traverse},
        {Py_tp_clear, session_clear},
        {Py_tp_methods, methods},
        {Py_tp_getset, properties},
        {0, NULL},
    };
    static PyType_Spec spec = {"mtprof.Session", sizeof(session), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                               slots};
    PyObject *type = PyType_FromSpec(&spec);
    if (type == NULL)
        return -1;
    int bad = PyModule_AddObjectRef(module, "Session", type);
    Py_DECREF(type);
    return bad;
}
