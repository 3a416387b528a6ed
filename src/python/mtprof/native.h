/* python/mtprof/native.h - shared declarations of the extension module mtprof._native: the profiler for
 * Python, independent of the framework. It uses libmtprof through mtprof.h only.
 *
 * Invariants: as in python/binding.h. O(events) work is done in C with the GIL released; no Python object is
 * created for an event until it is accessed.
 */
#ifndef PYTHON_MTPROF_NATIVE_H
#define PYTHON_MTPROF_NATIVE_H
#include "python/common.h"
#include <mtprof.h>

/* errors: the only place that turns a status into an exception. Always returns NULL. */
PyObject *mtpn_raise(mtp_status status);
static inline PyObject *mtpn_none(mtp_status status) /* None, or the exception */
{
    return status == MTP_OK ? Py_NewRef(Py_None) : mtpn_raise(status);
}
PyObject *mtpn_message(const char *text); /* a str, even if it contains a file name that is not Unicode */

/* Creates a type from its spec and adds it to the module; it lives as long as the process. NULL: an exception
 * is set. */
PyTypeObject *mtpn_add_type(PyObject *module, const char *name, PyType_Spec *spec);

/* Py_tp_descr_get of callables that become methods, as functions do. */
PyObject *mtpn_bind(PyObject *self, PyObject *object, PyObject *type);

/* record.c */
int mtpn_record_init(PyObject *module);

/* attach.c: recordings that Python did not start */
extern PyMethodDef mtpn_attach[];

/* session.c, trace.c */
int mtpn_session_init(PyObject *module);
int mtpn_trace_init(PyObject *module);
PyObject *mtpn_trace_object(mtp_trace *trace); /* takes ownership */

/* frames.c: Python's stacks for with_stack, Python's calls as events */
int mtpn_frames_init(PyObject *module);
bool mtpn_frames_are_free(void); /* does no session of this process own them? */
/* Before a session that wants them starts, GIL held. The session owns them until it ends. false: an exception
 * is set. code: a dict that holds the code objects whose addresses are keys, of a session that goes on with its
 * events when it begins again; NULL: they are held until it ends. sets_provider: stacks are Python's; else the caller
 * has seen to that. */
bool mtpn_frames_begin(const void *session, PyObject *code, bool with_functions, bool sets_provider);
const mtp_stack_provider *mtpn_frames_provider(void);
bool mtpn_frames_may_follow(void);                    /* or is another profiler in the way? */
bool mtpn_frames_were_displaced(const void *session); /* has one taken over this thread meanwhile? */
void mtpn_frames_follow(void);                        /* after it started */
void mtpn_frames_unfollow(const void *session);       /* before it stops */
void mtpn_frames_end(const void *session);            /* no-op for a session that does not own them */

/* Calls of this thread, as monitor.c sees them: the innermost Python function; a C function that it calls, bound to object (NULL: to
 * nothing) */
void mtpn_call_begins(PyCodeObject *code);
void mtpn_call_ends(void);
void mtpn_c_call_begins(PyMethodDef *function, PyObject *object);
void mtpn_c_call_ends(void);

/* monitor.c: calls by sys.monitoring. with_c: of C functions, too. false: this Python has none, or no tool id is free; then nothing
 * has changed */
bool mtpn_monitor_is_free(void);
bool mtpn_monitor_begin(bool with_c);
void mtpn_monitor_end(void);

/* objects.c: the object of a call, right after the call begins; is_new: first seen in this session */
int mtpn_objects_init(PyObject *module);
void mtpn_hold_module(const mtp_op *op, PyObject *module, bool is_new);
void mtpn_hold_optimizer(const mtp_op *op, PyObject *optimizer, bool is_new);
/* collections.c: runs of the garbage collector */
extern PyMethodDef mtpn_collections[];

/* emit.c: ranges of other tools */
int mtpn_emit_init(PyObject *module);

/* ending.c: methods whose cleanup runs even when interrupted */
int mtpn_ending_init(PyObject *module);

/* files.c: files that appear complete or not at all */
int mtpn_files_init(PyObject *module);

/* hooks.c: for the dispatchers of other frameworks */
extern PyMethodDef mtpn_hooks[];
int mtpn_hooks_init(PyObject *module);

/* A sink that collects bytes. */
typedef struct mtpn_text {
    char *bytes;
    size_t length, room;
    bool failed; /* out of memory */
} mtpn_text;
bool mtpn_text_sink(void *text, const void *bytes, size_t length);
PyObject *mtpn_text_object(mtpn_text *text); /* a str; frees it */

#endif
