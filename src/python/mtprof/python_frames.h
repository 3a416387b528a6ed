/* python/mtprof/python_frames.h - the frames of this thread, innermost first. CPython 3.11 to 3.13 are walked
 * through their internal frames, which costs a few nanoseconds each; others through the public API, which from
 * 3.14 on creates an object for each.
 */
#ifndef PYTHON_MTPROF_PYTHON_FRAMES_H
#define PYTHON_MTPROF_PYTHON_FRAMES_H
#include "python/mtprof/native.h"

enum {
    MTPN_CODE_UNIT = 2 /* bytes of an instruction: sizeof(_Py_CODEUNIT), which is no longer public */
};

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030e0000 && !defined(MTPN_LIKE_STABLE_ABI)
#define MTPN_INTERNAL_FRAMES 1
#define Py_BUILD_CORE 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <internal/pycore_frame.h>
#pragma GCC diagnostic pop
#undef Py_BUILD_CORE

typedef struct mtpn_walk {
    struct _PyInterpreterFrame *frame;
} mtpn_walk;

static inline bool mtpn_walk_is_safe(void)
{
    return true; /* with or without the GIL: nothing is allocated or counted */
}

static inline mtpn_walk mtpn_walk_begin(PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030d0000
    mtpn_walk w = {thread->current_frame};
#else
    mtpn_walk w = {thread->cframe->current_frame};
#endif
    return w;
}

/* The next frame's code (borrowed) and instruction; NULL: no more. */
static inline PyCodeObject *mtpn_walk_next(mtpn_walk *w, int *instruction)
{
    for (struct _PyInterpreterFrame *f = w->frame; f != NULL; f = f->previous) {
#if PY_VERSION_HEX >= 0x030c0000
        if (f->owner == FRAME_OWNED_BY_CSTACK)
            continue;
#endif
#if PY_VERSION_HEX >= 0x030d0000
        PyCodeObject *code = (PyCodeObject *)f->f_executable;
#else
        PyCodeObject *code = f->f_code;
#endif
        *instruction = _PyInterpreterFrame_LASTI(f);
        w->frame = f->previous;
        return code;
    }
    w->frame = NULL;
    return NULL;
}

static inline void mtpn_walk_end(mtpn_walk *w)
{
    (void)w;
}

typedef struct _PyInterpreterFrame mtpn_frame;

static inline mtpn_frame *mtpn_frame_of(PyFrameObject *frame)
{
    return frame->f_frame;
}

/* The innermost frame of this thread, which runs Python code (borrowed). */
static inline mtpn_frame *mtpn_frame_now(void)
{
    return mtpn_walk_begin(PyThreadState_Get()).frame;
}

/* The first argument of a frame that has just begun (borrowed), or NULL. */
static inline PyObject *mtpn_first_argument(mtpn_frame *frame)
{
    return frame->localsplus[0];
}

#else
#include <frameobject.h>

#if PY_VERSION_HEX < 0x030b0000
static inline int PyFrame_GetLasti(PyFrameObject *frame) /* in bytes, as Python 3.11's */
{
    return frame->f_lasti * MTPN_CODE_UNIT;
}
#endif

typedef struct mtpn_walk {
    PyFrameObject *frame; /* owned */
} mtpn_walk;

static inline bool mtpn_walk_is_safe(void)
{
    return PyGILState_Check();
}

static inline mtpn_walk mtpn_walk_begin(PyThreadState *thread)
{
    mtpn_walk w = {PyThreadState_GetFrame(thread)};
    return w;
}

static inline PyCodeObject *mtpn_walk_next(mtpn_walk *w, int *instruction)
{
    if (w->frame == NULL)
        return NULL;
    PyCodeObject *code = PyFrame_GetCode(w->frame);
    PyFrameObject *back = PyFrame_GetBack(w->frame);
    *instruction = PyFrame_GetLasti(w->frame) / MTPN_CODE_UNIT;
    Py_DECREF(w->frame);
    w->frame = back;
    Py_DECREF(code); /* the frame is still running and holds it */
    return code;
}

static inline void mtpn_walk_end(mtpn_walk *w)
{
    Py_CLEAR(w->frame);
}

typedef PyFrameObject mtpn_frame;

static inline mtpn_frame *mtpn_frame_of(PyFrameObject *frame)
{
    return frame;
}

static inline mtpn_frame *mtpn_frame_now(void)
{
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    Py_XDECREF(frame); /* it is running: Python holds it */
    return frame;
}

static inline PyObject *mtpn_first_argument(mtpn_frame *frame)
{
#if PY_VERSION_HEX < 0x030b0000
    return frame->f_localsplus[0];
#else
    PyObject *locals = PyFrame_GetLocals(frame), *first = NULL;
    if (locals != NULL)
        first = PyMapping_GetItemString(locals, "self");
    Py_XDECREF(locals);
    PyErr_Clear();
    Py_XDECREF(first); /* the frame holds it */
    return first;
#endif
}
#endif
#endif
