/* python/npu.c - the C part of mindtorch_v2/npu.py. Streams and events are capsules that npu.py wraps. */
#include "python/binding.h"
#include <limits.h>

MTPY_NOARGS(count, PyLong_FromUnsignedLong(mt_npu_count()))

MTPY_NOARGS(absence, PyUnicode_FromString(mt_npu_count() > 0 ? "" : mt_npu_absence()))

MTPY_NOARGS(is_open, PyBool_FromLong(mt_npu_is_open()))

MTPY_NOARGS(current, PyLong_FromUnsignedLong(mt_npu_current()))

static PyObject *set_current(PyObject *module, PyObject *index)
{
    (void)module;
    unsigned long i = PyLong_AsUnsignedLong(index);
    if (i == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    return mtpy_none(mt_npu_set_current(i > UINT_MAX ? UINT_MAX : (unsigned)i));
}

static PyObject *describe(PyObject *module, PyObject *index)
{
    mt_npu_properties p = {.size = sizeof p};
    (void)module;
    long i = PyLong_AsLong(index);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    mt_status status = mt_npu_describe(MT_NPU(i), &p);
    if (status != MT_OK)
        return mtpy_raise(status);
    return Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:K,s:I,s:I,s:I,s:O,s:O}", "name", p.name, "vendor", p.vendor,
                         "driver", p.driver, "plugin", p.plugin, "blas", p.blas, "total_memory",
                         p.total_memory, "multi_processor_count", p.compute_units, "clock_mhz", p.clock_mhz,
                         "max_threads_per_block", p.work_group_most, "is_cpu", p.is_cpu ? Py_True : Py_False,
                         "has_float64", p.has_float64 ? Py_True : Py_False);
}

static PyObject *synchronize(PyObject *module, PyObject *index)
{
    mt_status status;
    (void)module;
    long i = PyLong_AsLong(index);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = mt_synchronize(MT_NPU(i));
    Py_END_ALLOW_THREADS
    return mtpy_none(status);
}

/* -------------------------------------------------------------------------------------- streams and events */

#define STREAM "mindtorch.stream"
#define EVENT "mindtorch.event"

static void drop_stream(PyObject *capsule)
{
    mt_stream_destroy(PyCapsule_GetPointer(capsule, STREAM));
}

static void drop_event(PyObject *capsule)
{
    mt_event_destroy(PyCapsule_GetPointer(capsule, EVENT));
}

/* What streams and events have in common: waiting for them, and asking whether they are done. */
#define WAITING(kind, NAME)                                                                                  \
    static PyObject *kind##_synchronize(PyObject *module, PyObject *capsule)                                 \
    {                                                                                                        \
        mt_##kind *awaited = PyCapsule_GetPointer(capsule, NAME);                                            \
        mt_status status;                                                                                    \
        (void)module;                                                                                        \
        if (awaited == NULL)                                                                                 \
            return NULL;                                                                                     \
        Py_BEGIN_ALLOW_THREADS                                                                               \
        status = mt_##kind##_synchronize(awaited);                                                           \
        Py_END_ALLOW_THREADS                                                                                 \
        return mtpy_none(status);                                                                            \
    }                                                                                                        \
    static PyObject *kind##_done(PyObject *module, PyObject *capsule)                                        \
    {                                                                                                        \
        mt_##kind *awaited = PyCapsule_GetPointer(capsule, NAME);                                            \
        bool done = false;                                                                                   \
        (void)module;                                                                                        \
        if (awaited == NULL)                                                                                 \
            return NULL;                                                                                     \
        mt_status status = mt_##kind##_done(awaited, &done);                                                 \
        return status == MT_OK ? PyBool_FromLong(done) : mtpy_raise(status);                                 \
    }
WAITING(stream, STREAM)
WAITING(event, EVENT)

/* stream(index, which): a new stream, this thread's current one, or the default */
static PyObject *stream(PyObject *module, PyObject *args)
{
    unsigned index;
    const char *which;
    mt_stream *s;
    (void)module;
    if (!PyArg_ParseTuple(args, "Is:_npu_stream", &index, &which))
        return NULL;
    if (which[0] == 'n') {
        mt_status status = mt_stream_create(MT_NPU(index), &s);
        return status == MT_OK ? PyCapsule_New(s, STREAM, drop_stream) : mtpy_raise(status);
    }
    s = which[0] == 'd' ? mt_stream_default(MT_NPU(index)) : mt_stream_current(MT_NPU(index));
    return s != NULL ? PyCapsule_New(s, STREAM, NULL) : mtpy_raise(MT_E_RUNTIME);
}

static PyObject *stream_use(PyObject *module, PyObject *capsule)
{
    mt_stream *s = PyCapsule_GetPointer(capsule, STREAM);
    (void)module;
    if (s == NULL)
        return NULL;
    mt_stream_use(s);
    Py_RETURN_NONE;
}

static PyObject *record_stream(PyObject *module, PyObject *args)
{
    PyObject *tensor, *capsule;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:_npu_record_stream", &tensor, &capsule))
        return NULL;
    mt_stream *s = PyCapsule_GetPointer(capsule, STREAM);
    if (s == NULL || !mtpy_is_tensor(tensor)) {
        if (s != NULL)
            PyErr_SetString(PyExc_TypeError, "record_stream(): expected a Tensor");
        return NULL;
    }
    return mtpy_none(mt_tensor_record_stream(mtpy_tensor_of(tensor), s));
}

static PyObject *stream_id(PyObject *module, PyObject *capsule)
{
    mt_stream *s = PyCapsule_GetPointer(capsule, STREAM);
    (void)module;
    return s != NULL ? PyLong_FromUnsignedLongLong(mt_stream_id(s)) : NULL;
}

static PyObject *stream_wait(PyObject *module, PyObject *args)
{
    PyObject *a, *b;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:_npu_stream_wait", &a, &b))
        return NULL;
    mt_stream *s = PyCapsule_GetPointer(a, STREAM);
    mt_event *e = s != NULL ? PyCapsule_GetPointer(b, EVENT) : NULL;
    if (e == NULL)
        return NULL;
    return mtpy_none(mt_stream_wait(s, e));
}

static PyObject *event_record(PyObject *module, PyObject *capsule)
{
    mt_stream *s = PyCapsule_GetPointer(capsule, STREAM);
    mt_event *e;
    (void)module;
    if (s == NULL)
        return NULL;
    mt_status status = mt_event_record(s, &e);
    return status == MT_OK ? PyCapsule_New(e, EVENT, drop_event) : mtpy_raise(status);
}

static PyObject *event_elapsed(PyObject *module, PyObject *args)
{
    PyObject *a, *b;
    double ms = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:_npu_event_elapsed", &a, &b))
        return NULL;
    mt_event *from = PyCapsule_GetPointer(a, EVENT),
             *to = from != NULL ? PyCapsule_GetPointer(b, EVENT) : NULL;
    if (to == NULL)
        return NULL;
    mt_status status = mt_event_elapsed(from, to, &ms);
    return status == MT_OK ? PyFloat_FromDouble(ms) : mtpy_raise(status);
}

PyMethodDef mtpy_npu_functions[] = {
    {"_npu_count", count, METH_NOARGS, NULL},
    {"_npu_absence", absence, METH_NOARGS, NULL},
    {"_npu_is_open", is_open, METH_NOARGS, NULL},
    {"_npu_current", current, METH_NOARGS, NULL},
    {"_npu_set_current", set_current, METH_O, NULL},
    {"_npu_describe", describe, METH_O, NULL},
    {"_npu_synchronize", synchronize, METH_O, NULL},
    {"_npu_stream", stream, METH_VARARGS, NULL},
    {"_npu_stream_use", stream_use, METH_O, NULL},
    {"_npu_stream_synchronize", stream_synchronize, METH_O, NULL},
    {"_npu_stream_done", stream_done, METH_O, NULL},
    {"_npu_stream_id", stream_id, METH_O, NULL},
    {"_npu_record_stream", record_stream, METH_VARARGS, NULL},
    {"_npu_stream_wait", stream_wait, METH_VARARGS, NULL},
    {"_npu_event_record", event_record, METH_O, NULL},
    {"_npu_event_done", event_done, METH_O, NULL},
    {"_npu_event_synchronize", event_synchronize, METH_O, NULL},
    {"_npu_event_elapsed", event_elapsed, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
