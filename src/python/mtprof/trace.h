/* python/mtprof/trace.h - the Trace object, for the files that use its members. */
#ifndef PYTHON_MTPROF_TRACE_H
#define PYTHON_MTPROF_TRACE_H
#include "python/mtprof/native.h"

typedef struct mtpn_trace {
    PyObject_HEAD
    mtp_trace *trace; /* owned */
} mtpn_trace;

static inline PyObject *mtpn_str(mtp_text t)
{
    return PyUnicode_DecodeUTF8(t.bytes, (Py_ssize_t)t.length, "replace");
}

/* events.c */
int mtpn_events_init(PyObject *module);
PyObject *mtpn_events_object(PyObject *trace, PyObject *item); /* item: the class of events, or NULL */
PyObject *mtpn_columns_object(PyObject *trace);                /* {table: {column: buffer}} */
PyObject *mtpn_trace_text(PyObject *trace, PyObject *id);

/* tree.c */
int mtpn_tree_init(PyObject *module);
PyObject *mtpn_tree_object(PyObject *trace, PyObject *unused);

#endif
