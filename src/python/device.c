/* python/device.c - torch.device. The accelerator is "npu"; "cuda" and "gpu" are aliases. */
#include "python/binding.h"
#include <string.h>

typedef struct device_object {
    PyObject_HEAD
    uint8_t type;
    int16_t index; /* -1: not given */
} device_object;

static const char *const type_names[] = {"cpu", "npu"};

static PyObject *make(unsigned type, int index)
{
    device_object *o = PyObject_New(device_object, mtpy.device);
    if (o != NULL) {
        o->type = (uint8_t)type;
        o->index = (int16_t)index;
    }
    return (PyObject *)o;
}

PyObject *mtpy_device_object(mt_device device)
{
    /* "cpu" has no index in PyTorch either */
    unsigned type = MT_DEVICE_TYPE(device);
    return make(type, type == 0 ? -1 : (int)MT_DEVICE_INDEX(device));
}

/* -1: an exception is set. */
static int parse(const char *text, unsigned *type, int *index)
{
    static const struct {
        const char *word;
        unsigned type;
    } words[] = {{"cpu", 0}, {"npu", 1}, {"cuda", 1}, {"gpu", 1}, {"privateuseone", 1}};
    size_t n = strcspn(text, ":");
    for (unsigned i = 0; i < COUNT_OF(words); i++) {
        if (strlen(words[i].word) != n || strncmp(text, words[i].word, n) != 0)
            continue;
        *type = words[i].type;
        *index = -1;
        if (text[n] == 0)
            return 0;
        char *end;
        long at = strtol(text + n + 1, &end, 10);
        if (end == text + n + 1 || *end != 0 || at < 0 || at > 255) {
            PyErr_Format(PyExc_RuntimeError, "Invalid device string: '%s'", text);
            return -1;
        }
        *index = (int)at;
        return 0;
    }
    PyErr_Format(PyExc_RuntimeError,
                 "Expected one of cpu, npu, cuda, gpu device type at start of device string: %s", text);
    return -1;
}

int mtpy_device(PyObject *o, mt_device *out)
{
    unsigned type;
    int index;
    if (Py_IS_TYPE(o, mtpy.device)) {
        type = ((device_object *)o)->type;
        index = ((device_object *)o)->index;
    } else if (PyUnicode_Check(o)) {
        const char *text = PyUnicode_AsUTF8(o);
        if (text == NULL || parse(text, &type, &index) < 0)
            return -1;
    } else if (PyLong_Check(o) && !PyBool_Check(o)) {
        int overflow;
        long at = PyLong_AsLongAndOverflow(o, &overflow);
        if (overflow != 0 || at < 0 || at > 255) {
            PyErr_SetString(PyExc_RuntimeError, "Device index must be between 0 and 255");
            return -1;
        }
        type = 1;
        index = (int)at;
    } else {
        return 0;
    }
    *out = type == 0 ? MT_CPU : MT_NPU(index < 0 ? mt_npu_current() : (unsigned)index);
    return 1;
}

static PyObject *device_new(PyTypeObject *cls, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"type", "index", NULL};
    PyObject *first, *second = Py_None;
    (void)cls;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|O:device", keywords, &first, &second))
        return NULL;
    unsigned type = 1;
    int index = -1;
    if (Py_IS_TYPE(first, mtpy.device) && second == Py_None)
        return Py_NewRef(first);
    if (PyUnicode_Check(first)) {
        const char *text = PyUnicode_AsUTF8(first);
        if (text == NULL || parse(text, &type, &index) < 0)
            return NULL;
    } else {
        mt_device device;
        int found = mtpy_device(first, &device);
        if (found == 0)
            PyErr_Format(PyExc_TypeError, "device(): argument 'type' (position 1) must be str, not %s",
                         Py_TYPE(first)->tp_name);
        if (found <= 0)
            return NULL;
        index = (int)MT_DEVICE_INDEX(device);
    }
    if (second != Py_None) {
        if (index >= 0) {
            PyErr_Format(PyExc_RuntimeError,
                         "type (string) must not include an index because index was passed explicitly: %S",
                         first);
            return NULL;
        }
        long at = PyLong_AsLong(second);
        if (at < -1 || at > 255 || (at == -1 && PyErr_Occurred())) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_RuntimeError, "Device index must be between 0 and 255");
            return NULL;
        }
        index = (int)at;
    }
    return make(type, index);
}

static PyObject *device_repr(PyObject *self)
{
    const device_object *o = (device_object *)self;
    if (o->index < 0)
        return PyUnicode_FromFormat("device(type='%s')", type_names[o->type]);
    return PyUnicode_FromFormat("device(type='%s', index=%d)", type_names[o->type], o->index);
}

static PyObject *device_str(PyObject *self)
{
    const device_object *o = (device_object *)self;
    if (o->index < 0)
        return PyUnicode_FromString(type_names[o->type]);
    return PyUnicode_FromFormat("%s:%d", type_names[o->type], o->index);
}

static Py_hash_t device_hash(PyObject *self)
{
    const device_object *o = (device_object *)self;
    return (Py_hash_t)o->type * 1000 + o->index + 2;
}

static PyObject *compare(PyObject *a, PyObject *b, int op)
{
    if ((op != Py_EQ && op != Py_NE) || !Py_IS_TYPE(b, mtpy.device))
        Py_RETURN_NOTIMPLEMENTED;
    const device_object *x = (device_object *)a, *y = (device_object *)b;
    bool same = x->type == y->type && x->index == y->index;
    return PyBool_FromLong(same == (op == Py_EQ));
}

MTPY_GETTER(get_type, PyUnicode_InternFromString(type_names[((device_object *)self)->type]))

static PyObject *get_index(PyObject *self, void *unused)
{
    (void)unused;
    int index = ((device_object *)self)->index;
    if (index < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(index);
}

MTPY_NOARGS(reduce, Py_BuildValue("O(N)", (PyObject *)mtpy.device, device_str(self)))

static PyGetSetDef properties[] = {
    {"type", get_type, NULL, NULL, NULL},
    {"index", get_index, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
/* with device("npu"): sets this thread's default device for new tensors. Previous ones are kept in a
 * per-thread list. */
static PyObject *entered(void)
{
    PyObject *state = PyThreadState_GetDict(), *list = NULL;
    if (state != NULL)
        list = PyDict_GetItemString(state, "mindtorch_v2.devices");
    if (state == NULL || list != NULL)
        return list;
    list = PyList_New(0);
    if (list != NULL && PyDict_SetItemString(state, "mindtorch_v2.devices", list) < 0)
        Py_CLEAR(list);
    Py_XDECREF(list); /* the dict owns it */
    return list;
}

static PyObject *enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    mt_device device = MT_CPU;
    PyObject *list = entered(), *before = PyLong_FromUnsignedLong(mt_default_device());
    if (list == NULL || before == NULL || mtpy_device(self, &device) < 0) {
        Py_XDECREF(before);
        return NULL;
    }
    mt_status status = mt_set_default_device(device);
    int kept = status == MT_OK ? PyList_Append(list, before) : 0;
    Py_DECREF(before);
    if (status != MT_OK)
        return mtpy_raise(status);
    return kept == 0 ? Py_NewRef(self) : NULL;
}

static PyObject *leave(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *list = entered();
    Py_ssize_t n = list != NULL ? PyList_GET_SIZE(list) : 0;
    if (n > 0) {
        mt_set_default_device((mt_device)PyLong_AsUnsignedLong(PyList_GET_ITEM(list, n - 1)));
        PyList_SetSlice(list, n - 1, n, NULL);
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, NULL},
                                {"__enter__", enter, METH_NOARGS, NULL},
                                {"__exit__", leave, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_new, device_new},      {Py_tp_repr, device_repr},
    {Py_tp_str, device_str},      {Py_tp_hash, device_hash},
    {Py_tp_richcompare, compare}, {Py_tp_getset, properties},
    {Py_tp_methods, methods},     {0, NULL},
};
static PyType_Spec spec = {"mindtorch_v2.device", sizeof(device_object), 0, Py_TPFLAGS_DEFAULT, slots};

int mtpy_device_init(PyObject *module)
{
    mtpy.device = (PyTypeObject *)PyType_FromSpec(&spec);
    return mtpy.device == NULL ? -1 : PyModule_AddObjectRef(module, "device", (PyObject *)mtpy.device);
}
