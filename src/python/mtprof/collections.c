/* python/mtprof/collections.c - runs of Python's garbage collector as events, for record_python_gc_info.
 *
 * gc.callbacks calls gc_event on the collecting thread, with the GIL held. Collections do not nest.
 */
#include "python/mtprof/native.h"
#include <string.h>

static _Thread_local mtp_token running;

static void begin(PyObject *info)
{
    static uint32_t name; /* under the GIL */
    char args[64] = "";
    PyObject *generation = PyDict_Check(info) ? PyDict_GetItemString(info, "generation") : NULL;
    if (generation != NULL && PyLong_Check(generation))
        PyOS_snprintf(args, sizeof args, "generation %ld", PyLong_AsLong(generation));
    if (name == 0)
        name = mtp_name("Python GC");
    mtp_op op = MTP_OP_INIT(name);
    op.kind = MTP_SCOPE_PYTHON;
    op.args = args[0] != 0 ? args : NULL;
    mtp_op_begin(&op);
    running = op.token;
}

static void end(void)
{
    mtp_op op = MTP_OP_INIT(0);
    op.kind = MTP_SCOPE_PYTHON;
    op.token = running;
    running = 0;
    mtp_op_end(&op);
}

static PyObject *gc_event(PyObject *self, PyObject *args)
{
    const char *phase;
    PyObject *info;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO:gc_event", &phase, &info))
        return NULL;
    if (strcmp(phase, "start") == 0) {
        if (mtp_recording() & MTP_CPU)
            begin(info);
    } else if (running != 0) {
        end();
    }
    Py_RETURN_NONE;
}

PyMethodDef mtpn_collections[] = {
    {"gc_event", gc_event, METH_VARARGS,
     PyDoc_STR("For gc.callbacks: records collections as \"Python GC\" events.")},
    {NULL, NULL, 0, NULL},
};
