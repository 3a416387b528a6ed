/* python/mtprof/objects.c - records the tensors that modules and optimizers hold when one is called, for the
 * event tree.
 *
 * Each call names its object; the tensors are recorded once per session, when the object is first seen, as in
 * torch. The framework supplies the function that reads its tensors (set_tensor_reader); without one, nothing
 * is recorded. Nothing here raises, and no code of the program runs, except possibly the `.grad` of a tensor
 * class.
 */
#include "python/mtprof/native.h"

#define STATES_MAX 16

/* int reader(PyObject *object, mtp_input *in, mtp_identity *identity): 0 if it is not a tensor; borrows from
 * the object. */
typedef int tensor_reader(PyObject *object, mtp_input *in, mtp_identity *identity);
#define READER_NAME "mtprof.tensor_reader"

static PyObject *reader_capsule; /* keeps `reader` alive */
static tensor_reader *reader;

typedef struct part {
    mtp_input input[2 + 2 * STATES_MAX];
    mtp_identity identity[2 + 2 * STATES_MAX];
    uint32_t count;
} part;

static mtp_input *next(part *p)
{
    memset(&p->input[p->count], 0, sizeof *p->input);
    return &p->input[p->count++];
}

static void put_text(part *p, const char *text, Py_ssize_t length)
{
    mtp_input *in = next(p);
    in->kind = MTP_INPUT_TEXT;
    in->value.text = text != NULL ? text : "?";
    in->count = text != NULL ? (uint32_t)(length < 256 ? length : 256) : 1;
}

static void put_str(part *p, PyObject *str)
{
    Py_ssize_t length = 0;
    const char *text = PyUnicode_Check(str) ? PyUnicode_AsUTF8AndSize(str, &length) : NULL;
    put_text(p, text, length);
    PyErr_Clear();
}

static void put_pointer(part *p, const void *pointer)
{
    mtp_input *in = next(p);
    in->kind = MTP_INPUT_INT;
    in->value.i = (int64_t)(intptr_t)pointer;
}

/* Anything but a tensor becomes an input without a value. */
static bool put_tensor(part *p, PyObject *object)
{
    mtp_identity *identity = &p->identity[p->count];
    mtp_input *in = next(p);
    bool is = object != NULL && object != Py_None && reader(object, in, identity) > 0;
    if (!is)
        memset(in, 0, sizeof *in);
    PyErr_Clear();
    return is;
}

static bool put_gradient(part *p, PyObject *tensor)
{
    PyObject *grad = PyObject_GetAttrString(tensor, "grad");
    bool is = put_tensor(p, grad);
    PyErr_Clear();
    Py_XDECREF(grad); /* the tensor owns it; what was read is copied before other code runs */
    return is;
}

/* An attribute from the object's __dict__: no code of the program runs. Borrowed. */
static PyObject *own(PyObject *object, const char *name)
{
    PyObject *dict = PyObject_GenericGetDict(object, NULL);
    PyObject *found = dict != NULL && PyDict_Check(dict) ? PyDict_GetItemString(dict, name) : NULL;
    Py_XDECREF(dict);
    PyErr_Clear();
    return found;
}

static void record_part(const mtp_op *op, const part *p)
{
    mtp_op_hold(op, p->input, p->count);
}

static void record_owner(const mtp_op *op, const char *what, PyObject *object)
{
    part p = {.count = 0};
    const char *class_name = Py_TYPE(object)->tp_name, *dot = strrchr(class_name, '.');
    class_name = dot != NULL ? dot + 1 : class_name;
    put_text(&p, what, (Py_ssize_t)strlen(what));
    put_pointer(&p, object);
    put_pointer(&p, Py_TYPE(object));
    put_text(&p, class_name, (Py_ssize_t)strlen(class_name));
    record_part(op, &p);
}

void mtpn_hold_module(const mtp_op *op, PyObject *module, bool is_new)
{
    if (reader == NULL || op->token == 0)
        return;
    record_owner(op, "module", module);
    PyObject *parameters = is_new ? own(module, "_parameters") : NULL, *name, *tensor;
    Py_ssize_t at = 0;
    while (parameters != NULL && PyDict_Check(parameters) && PyDict_Next(parameters, &at, &name, &tensor)) {
        part p = {.count = 0};
        put_str(&p, name);
        if (put_tensor(&p, tensor)) {
            put_gradient(&p, tensor);
            record_part(op, &p);
        }
    }
}

static void record_parameter(const mtp_op *op, PyObject *tensor, PyObject *states)
{
    part p = {.count = 0};
    if (!put_tensor(&p, tensor))
        return;
    put_gradient(&p, tensor);
    PyObject *state = states != NULL && PyDict_Check(states) ? PyDict_GetItemWithError(states, tensor) : NULL,
             *name, *value;
    PyErr_Clear();
    Py_ssize_t at = 0;
    while (state != NULL && PyDict_Check(state) && p.count < 2 * STATES_MAX &&
           PyDict_Next(state, &at, &name, &value)) {
        put_str(&p, name);
        if (!put_tensor(&p, value))
            p.count -= 2;
    }
    record_part(op, &p);
}

void mtpn_hold_optimizer(const mtp_op *op, PyObject *optimizer, bool is_new)
{
    if (reader == NULL || op->token == 0)
        return;
    record_owner(op, "optimizer", optimizer);
    PyObject *groups = is_new ? own(optimizer, "param_groups") : NULL, *states = own(optimizer, "state");
    for (Py_ssize_t g = 0; groups != NULL && PyList_Check(groups) && g < PyList_GET_SIZE(groups); g++) {
        PyObject *group = PyList_GET_ITEM(groups, g);
        PyObject *params = PyDict_Check(group) ? PyDict_GetItemString(group, "params") : NULL;
        for (Py_ssize_t i = 0; params != NULL && PyList_Check(params) && i < PyList_GET_SIZE(params); i++)
            record_parameter(op, PyList_GET_ITEM(params, i), states);
    }
}

static PyObject *set_tensor_reader(PyObject *self, PyObject *capsule)
{
    (void)self;
    tensor_reader *given = NULL;
    void *pointer = capsule != Py_None ? PyCapsule_GetPointer(capsule, READER_NAME) : NULL;
    if (capsule != Py_None && pointer == NULL)
        return NULL;
    memcpy(&given, &pointer, sizeof given); /* ISO C does not convert object to function pointers */
    reader = given;
    Py_XSETREF(reader_capsule, Py_NewRef(capsule));
    Py_RETURN_NONE;
}

int mtpn_objects_init(PyObject *module)
{
    static PyMethodDef functions[] = {
        {"set_tensor_reader", set_tensor_reader, METH_O,
         PyDoc_STR(
             "set_tensor_reader(capsule or None)\n\nHow to read the tensors of modules and optimizers: a "
             "capsule \"" READER_NAME "\" of int (*)(PyObject *, mtp_input *, mtp_identity *), which returns "
             "0 if the object is not a tensor.")},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, functions);
}
