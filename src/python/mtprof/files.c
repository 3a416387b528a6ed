/* python/mtprof/files.c - files written by Python that appear complete or not at all. */
#include "python/mtprof/native.h"

typedef struct new_file {
    PyObject_HEAD
    mtp_file *file; /* NULL: committed or abandoned */
} new_file;

static PyObject *file_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *path;
    if (kwargs != NULL || !PyArg_ParseTuple(args, "O&:NewFile", PyUnicode_FSConverter, &path))
        return kwargs != NULL ? PyErr_Format(PyExc_TypeError, "NewFile() takes a path") : NULL;
    new_file *f = (new_file *)type->tp_alloc(type, 0);
    mtp_status status = MTP_OK;
    if (f != NULL)
        status = mtp_file_create(PyBytes_AS_STRING(path), MTP_FILE_PLAIN, &f->file);
    Py_DECREF(path);
    if (f == NULL || status == MTP_OK)
        return (PyObject *)f;
    f->file = NULL;
    Py_DECREF(f);
    return mtpn_raise(status);
}

static mtp_file *take(PyObject *self)
{
    mtp_file *file = ((new_file *)self)->file;
    ((new_file *)self)->file = NULL;
    return file;
}

static void file_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mtp_file_abandon(take(self));
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *commit(mtp_file *file)
{
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_file_commit(file);
    Py_END_ALLOW_THREADS
    return mtpn_none(status);
}

static PyObject *file_write(PyObject *self, PyObject *args)
{
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "s*:write", &data))
        return NULL;
    mtp_file *file = take(self); /* no other thread can use it while the GIL is released */
    bool took = false;
    if (file != NULL) {
        Py_BEGIN_ALLOW_THREADS
        took = mtp_file_sink(file, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS
    }
    Py_ssize_t length = data.len;
    PyBuffer_Release(&data);
    if (file == NULL)
        return PyErr_Format(PyExc_ValueError, "write to a file that is closed, or in use by another thread");
    if (!took)
        return commit(file); /* reports why the write failed */
    ((new_file *)self)->file = file;
    return PyLong_FromSsize_t(length);
}

MTPY_NOARGS(file_enter, Py_NewRef(self))

static PyObject *file_exit(PyObject *self, PyObject *args)
{
    PyObject *type, *value, *trace;
    if (!PyArg_UnpackTuple(args, "__exit__", 3, 3, &type, &value, &trace))
        return NULL;
    mtp_file *file = take(self);
    if (file != NULL && type == Py_None)
        return commit(file);
    mtp_file_abandon(file);
    Py_RETURN_NONE;
}

static PyObject *write_file(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path;
    Py_buffer data;
    mtp_file *file;
    if (!PyArg_ParseTuple(args, "O&s*:write_file", PyUnicode_FSConverter, &path, &data))
        return NULL;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_file_create(PyBytes_AS_STRING(path), MTP_FILE_PLAIN, &file);
    if (status == MTP_OK) {
        mtp_file_sink(file, data.buf, (size_t)data.len);
        status = mtp_file_commit(file); /* reports why a write failed */
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    Py_DECREF(path);
    return mtpn_none(status);
}

int mtpn_files_init(PyObject *module)
{
    static PyMethodDef functions[] = {
        {"write_file", write_file, METH_VARARGS,
         PyDoc_STR("write_file(path, data): write a file that appears complete or not at all; other users' "
                   "links are "
                   "refused.")},
        {NULL, NULL, 0, NULL},
    };
    static PyMethodDef methods[] = {
        {"write", file_write, METH_VARARGS,
         PyDoc_STR("write(data): write str or bytes; returns the number of bytes.")},
        {"__enter__", file_enter, METH_NOARGS, NULL},
        {"__exit__", file_exit, METH_VARARGS, NULL},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_doc,
         "NewFile(path)\n--\n\nLike write_file, piece by piece: the file appears at the end of the `with` "
         "block, unless that raises."},
        {Py_tp_new, file_new},
        {Py_tp_dealloc, file_dealloc},
        {Py_tp_methods, methods},
        {0, NULL},
    };
    static PyType_Spec spec = {"mtprof.NewFile", sizeof(new_file), 0, Py_TPFLAGS_DEFAULT, slots};
    return mtpn_add_type(module, "NewFile", &spec) == NULL ? -1 : PyModule_AddFunctions(module, functions);
}
