/* python/mtprof/native.h - what the files of the extension module mtprof._native share: the profiler for Python, whatever
 * framework runs below it. It sees libmtprof through mtprof.h alone.
 *
 * Invariants: as in python/binding.h. What is O(events) happens in C with the GIL released; no Python object is made for
 * an event until one is looked at.
 */
#ifndef PYTHON_MTPROF_NATIVE_H
#define PYTHON_MTPROF_NATIVE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <mtprof.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* errors: the one place where a status becomes an exception. Always NULL. */
PyObject *mtpn_raise(mtp_status status);
PyObject *
mtpn_message(const char *text); /* a str, also if there is the name of a file in it that is no Unicode */

/* A type made from its spec and added to the module; it lives as long as the process. NULL: an exception is set. */
PyTypeObject *mtpn_add_type(PyObject *module, const char *name, PyType_Spec *spec);

/* record.c */
int mtpn_record_init(PyObject *module);

/* session.c, trace.c */
int mtpn_session_init(PyObject *module);
int mtpn_trace_init(PyObject *module);
PyObject *mtpn_trace_object(mtp_trace *trace); /* takes it */

/* frames.c: Python's stacks for with_stack, Python's calls as events */
int mtpn_frames_init(PyObject *module);
bool mtpn_frames_are_free(void); /* does no session of this process have them? */
/* Before a session that wants them starts, GIL held. They are its own until it ends. false: an exception is set. */
bool mtpn_frames_begin(const void *session, bool with_stack);
bool mtpn_frames_may_follow(void);              /* is nobody else following this thread? */
void mtpn_frames_follow(void);                  /* after it started */
void mtpn_frames_unfollow(const void *session); /* before it stops */
void mtpn_frames_end(const void *session);      /* of a session that does not have them: nothing */

/* objects.c: whose call it is, right after its begin; is_new: not met in this session before */
int mtpn_objects_init(PyObject *module);
void mtpn_hold_module(const mtp_op *op, PyObject *module, bool is_new);
void mtpn_hold_optimizer(const mtp_op *op, PyObject *optimizer, bool is_new);
/* collections.c: runs of the garbage collector */
extern PyMethodDef mtpn_collections[];

/* ending.c: methods that end in another, whatever interrupts them */
int mtpn_ending_init(PyObject *module);

/* files.c: files that appear whole or not at all */
int mtpn_files_init(PyObject *module);

/* hooks.c: for the dispatchers of other frameworks */
extern PyMethodDef mtpn_hooks[];
int mtpn_hooks_init(PyObject *module);

/* A sink that gathers bytes. */
typedef struct mtpn_text {
    char *bytes;
    size_t length, room;
    bool failed; /* out of memory */
} mtpn_text;
bool mtpn_text_sink(void *text, const void *bytes, size_t length);
PyObject *mtpn_text_object(mtpn_text *text); /* a str; frees it */

#endif
