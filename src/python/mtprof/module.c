/* python/mtprof/module.c - the extension module mtprof._native: initialization, errors, texts. */
#include "python/mtprof/trace.h"

PyObject *mtpn_raise(mtp_status status)
{
    PyObject *type = PyExc_RuntimeError;
    switch (status) {
    case MTP_E_ARG:
    case MTP_E_FORMAT:
        type = PyExc_ValueError;
        break;
    case MTP_E_NOMEM:
        type = PyExc_MemoryError;
        break;
    case MTP_E_IO:
        type = PyExc_OSError;
        break;
    default:
        break;
    }
    if (PyErr_Occurred())
        return NULL;
    int number = mtp_last_error_number();
    PyObject *error = mtpn_message(mtp_last_error());
    if (error != NULL && type == PyExc_OSError && number != 0)
        error =
            Py_BuildValue("(iN)", number, error); /* lets Python choose the subclass: FileNotFoundError ... */
    if (error != NULL)
        PyErr_SetObject(type, error);
    Py_XDECREF(error);
    return NULL;
}

PyObject *mtpn_message(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "backslashreplace");
}

PyTypeObject *mtpn_add_type(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(spec);
    return type != NULL && PyModule_AddObjectRef(module, name, (PyObject *)type) == 0 ? type : NULL;
}

bool mtpn_text_sink(void *user, const void *bytes, size_t length)
{
    mtpn_text *t = user;
    if (t->length + length > t->room) {
        size_t room = (t->length + length) * 2 + 256;
        char *grown = PyMem_RawRealloc(t->bytes, room);
        if (grown == NULL) {
            t->failed = true;
            return false;
        }
        t->bytes = grown;
        t->room = room;
    }
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    return true;
}

PyObject *mtpn_text_object(mtpn_text *t)
{
    PyObject *text = PyUnicode_DecodeUTF8(t->bytes != NULL ? t->bytes : "", (Py_ssize_t)t->length, "replace");
    PyMem_RawFree(t->bytes);
    *t = (mtpn_text){0};
    return text;
}

PyObject *mtpn_bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

MTPY_NOARGS(version, PyUnicode_FromString(mtp_version()))

MTPY_NOARGS(now_ns, PyLong_FromUnsignedLongLong(mtp_now_ns()))

static PyObject *activity_parse(PyObject *self, PyObject *text)
{
    (void)self;
    uint32_t bits;
    const char *utf8 = PyUnicode_AsUTF8(text);
    if (utf8 == NULL)
        return NULL;
    mtp_status status = mtp_activity_parse(utf8, &bits);
    return status == MTP_OK ? PyLong_FromUnsignedLong(bits) : mtpn_raise(status);
}

static PyMethodDef functions[] = {
    {"version", version, METH_NOARGS, PyDoc_STR("libmtprof's version.")},
    {"now_ns", now_ns, METH_NOARGS, PyDoc_STR("The clock of the records, in nanoseconds.")},
    {"activity_parse", activity_parse, METH_O, PyDoc_STR("The bits of a named activity.")},
    {NULL, NULL, 0, NULL},
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void)
{
    static struct PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT, .m_name = "mtprof._native", .m_size = -1, .m_methods = functions};
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    if (mtpn_record_init(module) < 0 || mtpn_session_init(module) < 0 || mtpn_trace_init(module) < 0 ||
        mtpn_events_init(module) < 0 || mtpn_frames_init(module) < 0 || mtpn_tree_init(module) < 0 ||
        mtpn_objects_init(module) < 0 || mtpn_hooks_init(module) < 0 || mtpn_ending_init(module) < 0 ||
        mtpn_files_init(module) < 0 || mtpn_emit_init(module) < 0 ||
        PyModule_AddFunctions(module, mtpn_collections) < 0 ||
        PyModule_AddFunctions(module, mtpn_attach) < 0 ||
        PyModule_AddIntConstant(module, "CPU", MTP_CPU) < 0 ||
        PyModule_AddIntConstant(module, "NPU", MTP_NPU) < 0 ||
        PyModule_AddIntConstant(module, "STOP_WHEN_FULL", MTP_STOP_WHEN_FULL) < 0 ||
        PyModule_AddIntConstant(module, "KEEP_NEWEST", MTP_KEEP_NEWEST) < 0 ||
        PyModule_AddIntConstant(module, "STREAM", MTP_STREAM) < 0)
        Py_CLEAR(module);
    return module;
}
