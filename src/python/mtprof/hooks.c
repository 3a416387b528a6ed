/* python/mtprof/hooks.c - for the dispatchers of other frameworks: is_profiler_enabled, dispatch_op_enter,
 * dispatch_op_exit.
 *
 *     token = mtprof.dispatch_op_enter("aten::add", x.device, (x, y), {})
 *     try: ...
 *     finally: mtprof.dispatch_op_exit(token)
 *
 * Neither raises: whatever cannot be read from an argument is omitted. Any object with .shape and .device is
 * a tensor; nothing is kept alive.
 */
#include "python/mtprof/native.h"
#include "base/plain.h"

#define MOST_INPUTS 16
#define MOST_DIMS 128

MTPY_NOARGS(is_profiler_enabled, PyBool_FromLong(mtp_recording() & (MTP_CPU | MTP_NPU)))

typedef struct reader {
    mtp_input inputs[MOST_INPUTS], items[MOST_INPUTS * 2];
    int64_t dims[MOST_DIMS];
    unsigned input_count, item_count, dim_count;
} reader;

/* "npu", "npu:1", an object with .type and .index, or None. */
static mtp_device device_of(PyObject *device)
{
    PyObject *type = NULL, *index = NULL;
    mtp_device found = MTP_DEVICE_CPU;
    const char *text = NULL;
    long number = 0;
    if (device == Py_None)
        return found;
    if (PyUnicode_Check(device)) {
        text = PyUnicode_AsUTF8(device);
    } else {
        type = PyObject_GetAttrString(device, "type");
        text = type != NULL && PyUnicode_Check(type) ? PyUnicode_AsUTF8(type) : NULL;
        PyErr_Clear();
        index = PyObject_GetAttrString(device, "index");
        number = index != NULL && PyLong_Check(index) ? PyLong_AsLong(index) : 0;
    }
    PyErr_Clear();
    if (text != NULL && !mtp__same_letters(text, "cpu", 3)) {
        const char *colon = strchr(text, ':');
        found = MTP_DEVICE_NPU((uint32_t)(colon != NULL ? strtol(colon + 1, NULL, 10) : number));
    }
    Py_XDECREF(type);
    Py_XDECREF(index);
    return found;
}

static uint8_t dtype_of(PyObject *tensor)
{
    static const struct {
        const char *name;
        uint8_t dtype;
    } names[] = {{"float32", MTP_FLOAT32},   {"float64", MTP_FLOAT64}, {"float16", MTP_FLOAT16},
                 {"bfloat16", MTP_BFLOAT16}, {"int64", MTP_INT64},     {"int32", MTP_INT32},
                 {"int16", MTP_INT16},       {"int8", MTP_INT8},       {"uint8", MTP_UINT8},
                 {"bool", MTP_BOOL}};
    uint8_t found = MTP_UNKNOWN;
    PyObject *dtype = PyObject_GetAttrString(tensor, "dtype"),
             *text = dtype != NULL ? PyObject_Str(dtype) : NULL;
    const char *utf8 = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    if (utf8 != NULL) {
        const char *dot = strrchr(utf8, '.');
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strcmp(dot != NULL ? dot + 1 : utf8, names[i].name) == 0)
                found = names[i].dtype;
    }
    Py_XDECREF(text);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return found;
}

/* Reads an object that looks like a tensor; false: not a tensor. */
static bool read_tensor(reader *r, PyObject *o, mtp_input *in)
{
    PyObject *shape = PyObject_GetAttrString(o, "shape"),
             *device = shape != NULL ? PyObject_GetAttrString(o, "device") : NULL;
    PyObject *dims = device != NULL ? PySequence_Fast(shape, "") : NULL;
    bool is = dims != NULL && r->dim_count + (size_t)PySequence_Fast_GET_SIZE(dims) <= MOST_DIMS;
    if (is) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(dims);
        in->kind = MTP_INPUT_TENSOR;
        in->dtype = dtype_of(o);
        in->count = (uint32_t)n;
        in->dims = r->dims + r->dim_count;
        for (Py_ssize_t i = 0; i < n; i++)
            r->dims[r->dim_count++] = PyLong_AsLongLong(PySequence_Fast_GET_ITEM(dims, i));
    }
    Py_XDECREF(dims);
    Py_XDECREF(device);
    Py_XDECREF(shape);
    PyErr_Clear();
    return is;
}

static bool read_tensor_list(reader *r, PyObject *o, mtp_input *in)
{
    Py_ssize_t n = PyList_Check(o) || PyTuple_Check(o) ? PySequence_Fast_GET_SIZE(o) : 0;
    if (n == 0 || r->item_count + (size_t)n > MOST_INPUTS * 2)
        return false;
    mtp_input *items = r->items + r->item_count;
    memset(items, 0, (size_t)n * sizeof *items);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!read_tensor(r, PySequence_Fast_GET_ITEM(o, i), &items[i]))
            return false;
    r->item_count += (unsigned)n;
    in->kind = MTP_INPUT_TENSOR_LIST;
    in->count = (uint32_t)n;
    in->value.items = items;
    return true;
}

static bool read_int_list(reader *r, PyObject *o, mtp_input *in)
{
    Py_ssize_t n = PyList_Check(o) || PyTuple_Check(o) ? PySequence_Fast_GET_SIZE(o) : -1;
    if (n < 0 || r->dim_count + (size_t)n > MOST_DIMS)
        return false;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(o, i);
        if (!PyLong_Check(item) || PyBool_Check(item))
            return false;
        r->dims[r->dim_count + (size_t)i] = PyLong_AsLongLong(item);
    }
    in->kind = MTP_INPUT_INT_LIST;
    in->count = (uint32_t)n;
    in->dims = r->dims + r->dim_count;
    r->dim_count += (unsigned)n;
    return true;
}

static void read_one(reader *r, PyObject *o)
{
    if (r->input_count == MOST_INPUTS)
        return;
    mtp_input *in = &r->inputs[r->input_count++];
    memset(in, 0, sizeof *in);
    if (PyBool_Check(o)) {
        in->kind = MTP_INPUT_BOOL;
        in->value.i = o == Py_True;
    } else if (PyLong_Check(o)) {
        in->kind = MTP_INPUT_INT;
        in->value.i = PyLong_AsLongLong(o);
    } else if (PyFloat_Check(o)) {
        in->kind = MTP_INPUT_FLOAT;
        in->value.f = PyFloat_AS_DOUBLE(o);
    } else if (o != Py_None && !PyUnicode_Check(o) && !read_tensor(r, o, in)) {
        memset(in, 0, sizeof *in);
        if (!read_tensor_list(r, o, in)) {
            memset(in, 0, sizeof *in);
            read_int_list(r, o, in);
        }
    }
    PyErr_Clear();
}

static void read_inputs(reader *r, PyObject *args, PyObject *kwargs)
{
    r->input_count = r->item_count = r->dim_count = 0;
    PyObject *list = args != Py_None ? PySequence_Fast(args, "") : NULL;
    for (Py_ssize_t i = 0; list != NULL && i < PySequence_Fast_GET_SIZE(list); i++)
        read_one(r, PySequence_Fast_GET_ITEM(list, i));
    Py_XDECREF(list);
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Check(kwargs) && PyDict_Next(kwargs, &at, &key, &value))
        read_one(r, value);
    PyErr_Clear();
}

/* Begins an op or a scope; name is a str. 0: not recorded. Never raises. */
static mtp_token begin(PyObject *name, mtp_scope_kind kind, mtp_device device, PyObject *args,
                       PyObject *kwargs, const char *members)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL) {
        PyErr_Clear();
        return 0;
    }
    mtp_op op = MTP_OP_INIT(0);
    op.kind = kind;
    op.device = device;
    op.args = members;
    reader r;
    if (mtp_recording() & MTP_WITH_SHAPES) {
        read_inputs(&r, args, kwargs);
        op.inputs = r.inputs;
        op.input_count = r.input_count;
    }
    mtp_op_begin_text(&op, text, (size_t)length);
    return op.token;
}

static PyObject *dispatch_op_enter(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (LIKELY(!(mtp_recording() & MTP_CPU)) || count < 1 || !PyUnicode_Check(args[0]))
        Py_RETURN_NONE;
    mtp_token token = begin(args[0], MTP_SCOPE_OP, count > 1 ? device_of(args[1]) : MTP_DEVICE_CPU,
                            count > 2 ? args[2] : Py_None, count > 3 ? args[3] : Py_None, NULL);
    if (token == 0)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(token);
}

static PyObject *dispatch_op_exit(PyObject *self, PyObject *token)
{
    (void)self;
    mtp_token t = PyLong_Check(token) ? PyLong_AsUnsignedLongLong(token) : 0;
    if (PyErr_Occurred())
        PyErr_Clear();
    else
        mtp_scope_end(t);
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------- torch's: scopes with arguments */

static PyObject *scope_with_args_enter(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *name = PyTuple_GET_SIZE(args) > 0 ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (name == NULL || !PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError,
                            "_record_function_with_args_enter(): the first argument must be a name (str)");
    mtp_token token = 0;
    if (mtp_recording() & MTP_CPU) {
        PyObject *rest = PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args));
        if (rest == NULL)
            return NULL;
        token = begin(name, MTP_SCOPE_USER, MTP_DEVICE_CPU, rest, Py_None, NULL);
        Py_DECREF(rest);
    }
    return PyLong_FromUnsignedLongLong(token);
}

typedef struct fast {
    PyObject_HEAD
    PyObject *name, *inputs, *keywords; /* str; list, tuple or NULL; dict or NULL */
    mtp_token token;
    bool entered;
} fast;

static int fast_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"name", "input_values", "keyword_values", NULL};
    PyObject *name, *inputs = Py_None, *keywords = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U|OO:_RecordFunctionFast", words, &name, &inputs,
                                     &keywords))
        return -1;
    if (inputs != Py_None && !PyList_Check(inputs) && !PyTuple_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "input_values must be a list or tuple");
        return -1;
    }
    if (keywords != Py_None && !PyDict_Check(keywords)) {
        PyErr_SetString(PyExc_TypeError, "keyword_values must be dict");
        return -1;
    }
    fast *f = (fast *)self;
    Py_XSETREF(f->name, Py_NewRef(name));
    Py_XSETREF(f->inputs, inputs == Py_None ? NULL : Py_NewRef(inputs));
    Py_XSETREF(f->keywords, keywords == Py_None ? NULL : Py_NewRef(keywords));
    return 0;
}

/* keywords as members of a JSON object, a new str; NULL: none. Never raises. */
static PyObject *members_of(PyObject *keywords)
{
    PyObject *module = PyImport_ImportModule("mtprof._members");
    PyObject *text = module != NULL ? PyObject_CallMethod(module, "members", "O", keywords) : NULL;
    Py_XDECREF(module);
    if (text == NULL)
        PyErr_Clear();
    return text;
}

static PyObject *fast_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    fast *f = (fast *)self;
    uint32_t recording = mtp_recording();
    if (LIKELY(!(recording & MTP_CPU)))
        Py_RETURN_NONE;
    if (f->name == NULL || f->entered)
        return PyErr_Format(PyExc_RuntimeError,
                            "_RecordFunctionFast: this scope is already open; create another one");
    PyObject *text = f->keywords != NULL && PyDict_GET_SIZE(f->keywords) > 0 && (recording & MTP_WITH_SHAPES)
                         ? members_of(f->keywords)
                         : NULL;
    const char *members = text != NULL ? PyUnicode_AsUTF8(text) : NULL;
    f->token = begin(f->name, MTP_SCOPE_OP, MTP_DEVICE_CPU, f->inputs != NULL ? f->inputs : Py_None, Py_None,
                     members);
    f->entered = true;
    Py_XDECREF(text);
    PyErr_Clear();
    Py_RETURN_NONE;
}

static PyObject *fast_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)args, (void)count;
    fast *f = (fast *)self;
    mtp_scope_end(f->token);
    f->token = 0;
    f->entered = false;
    Py_RETURN_NONE;
}

static void fast_dealloc(PyObject *self)
{
    fast *f = (fast *)self;
    PyTypeObject *type = Py_TYPE(self);
    mtp_scope_end(f->token); /* entered without `with` and never exited */
    Py_XDECREF(f->name);
    Py_XDECREF(f->inputs);
    Py_XDECREF(f->keywords);
    type->tp_free(self);
    Py_DECREF(type);
}

int mtpn_hooks_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"__enter__", fast_enter, METH_NOARGS, NULL},
        {"__exit__", (PyCFunction)(void (*)(void))fast_exit, METH_FASTCALL, NULL},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_doc,
         "_RecordFunctionFast(name, input_values=None, keyword_values=None)\n--\n\nA custom op in the "
         "profile, with inputs and keywords if shapes are recorded. Does nothing without a profiler."},
        {Py_tp_new, PyType_GenericNew},
        {Py_tp_init, fast_init},
        {Py_tp_dealloc, fast_dealloc},
        {Py_tp_methods, methods},
        {0, NULL},
    };
    static PyType_Spec spec = {"mtprof.RecordFunctionFast", sizeof(fast), 0, Py_TPFLAGS_DEFAULT, slots};
    return mtpn_add_type(module, "RecordFunctionFast", &spec) != NULL
               ? PyModule_AddFunctions(module, mtpn_hooks)
               : -1;
}

PyMethodDef mtpn_hooks[] = {
    {"scope_with_args_enter", scope_with_args_enter, METH_VARARGS,
     PyDoc_STR(
         "scope_with_args_enter(name, *args) -> token\n\nBegin a scope with inputs; dispatch_op_exit(token) "
         "ends it.")},
    {"is_profiler_enabled", is_profiler_enabled, METH_NOARGS, PyDoc_STR("Is anything being recorded?")},
    {"dispatch_op_enter", (PyCFunction)(void (*)(void))dispatch_op_enter, METH_FASTCALL,
     PyDoc_STR(
         "dispatch_op_enter(name, device, args, kwargs) -> token or None\n\nBegin an op. Never raises.")},
    {"dispatch_op_exit", dispatch_op_exit, METH_O,
     PyDoc_STR("dispatch_op_exit(token)\n\nEnd the op; safe after the profiler stopped. Never raises.")},
    {NULL, NULL, 0, NULL},
};
