/* python/mtprof/emit.c - ranges of other tools: emit_start, emit_stop, tool_push, tool_pop, tool_mark. */
#include "python/mtprof/native.h"

static PyObject *emit_start(PyObject *self, PyObject *args)
{
    (void)self;
    int tool, shapes;
    if (!PyArg_ParseTuple(args, "ip:emit_start", &tool, &shapes))
        return NULL;
    return mtpn_none(mtp_emit_start((mtp_tool)tool, shapes != 0));
}

static PyObject *emit_stop(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    mtp_emit_stop();
    return Py_NewRef(Py_None);
}

static PyObject *tool_attached(PyObject *self, PyObject *tool)
{
    (void)self;
    int which = (int)PyLong_AsLong(tool);
    return which == -1 && PyErr_Occurred() ? NULL : PyBool_FromLong(mtp_tool_attached((mtp_tool)which));
}

static PyObject *tool_push(PyObject *self, PyObject *args)
{
    (void)self;
    int tool;
    const char *text;
    if (!PyArg_ParseTuple(args, "is:tool_push", &tool, &text))
        return NULL;
    return PyLong_FromLong(mtp_tool_push((mtp_tool)tool, text));
}

static PyObject *tool_pop(PyObject *self, PyObject *tool)
{
    (void)self;
    int which = (int)PyLong_AsLong(tool);
    return which == -1 && PyErr_Occurred() ? NULL : PyLong_FromLong(mtp_tool_pop((mtp_tool)which));
}

static PyObject *tool_mark(PyObject *self, PyObject *args)
{
    (void)self;
    int tool;
    const char *text;
    if (!PyArg_ParseTuple(args, "is:tool_mark", &tool, &text))
        return NULL;
    mtp_tool_mark((mtp_tool)tool, text);
    return Py_NewRef(Py_None);
}

static PyObject *thread_name(PyObject *self, PyObject *args)
{
    (void)self;
    const char *text;
    long long thread = 0;
    if (!PyArg_ParseTuple(args, "s|L:thread_name", &text, &thread))
        return NULL;
    mtp_thread_name(thread, text);
    return Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"emit_start", emit_start, METH_VARARGS,
     PyDoc_STR("Ops become ranges of the tool: (tool, record_shapes).")},
    {"emit_stop", emit_stop, METH_NOARGS, PyDoc_STR("Ends emit_start().")},
    {"tool_attached", tool_attached, METH_O, PyDoc_STR("Does the tool listen?")},
    {"tool_push", tool_push, METH_VARARGS, PyDoc_STR("Begins a range of the tool: (tool, text).")},
    {"tool_pop", tool_pop, METH_O, PyDoc_STR("Ends the innermost range.")},
    {"tool_mark", tool_mark, METH_VARARGS, PyDoc_STR("A point in time: (tool, text).")},
    {"thread_name", thread_name, METH_VARARGS,
     PyDoc_STR("Names a thread in recordings: (text, thread=the calling one).")},
    {NULL, NULL, 0, NULL},
};

int mtpn_emit_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) < 0 ||
                   PyModule_AddIntConstant(module, "ITT", MTP_TOOL_ITT) < 0 ||
                   PyModule_AddIntConstant(module, "NVTX", MTP_TOOL_NVTX) < 0
               ? -1
               : 0;
}
