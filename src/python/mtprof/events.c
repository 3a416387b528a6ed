/* python/mtprof/events.c - the events of a trace as a lazy sequence, and its columns as buffers.
 *
 * Events creates an object only when it is indexed; the work behind it is done in C, on first use. Only what
 * is accessed is copied into Python objects.
 */
#include "python/mtprof/trace.h"
#include <structmember.h>

typedef struct events {
    PyObject_HEAD
    PyObject *trace;    /* the Trace that the other members borrow from */
    mtp_events *events; /* owned */
    PyObject *item;     /* the class of its items: Event or a subclass */
} events;

typedef struct event {
    PyObject_HEAD
    PyObject *owner; /* Events; NULL: created directly, without a trace */
    size_t index;
    mtp_event e; /* texts are borrowed from the owner */
    PyObject *dict;
} event;

typedef struct column {
    PyObject_HEAD
    PyObject *trace;
    mtp_column c;
    Py_ssize_t shape, stride;
    char format[2];
} column;

static PyTypeObject *events_type, *event_type, *column_type;

static mtp_events *events_of(PyObject *self) /* NULL, with an exception set: not of a trace */
{
    PyObject *owner = ((event *)self)->owner;
    if (owner == NULL)
        PyErr_SetString(PyExc_RuntimeError, "this event does not belong to a trace");
    return owner != NULL ? ((events *)owner)->events : NULL;
}

/* ------------------------------------------------------------------------------------------------- Events */

PyObject *mtpn_events_object(PyObject *trace, PyObject *item)
{
    if (item == NULL || item == Py_None)
        item = (PyObject *)event_type;
    if (!PyType_Check(item) || !PyType_IsSubtype((PyTypeObject *)item, event_type))
        return PyErr_Format(PyExc_TypeError,
                            "events(): the item class must be mtprof.Event or a subclass of it");
    events *s = PyObject_New(events, events_type);
    if (s == NULL)
        return NULL;
    s->trace = Py_NewRef(trace);
    s->item = Py_NewRef(item);
    s->events = NULL;
    mtp_status status = mtp_events_create(((mtpn_trace *)trace)->trace, &s->events);
    if (status == MTP_OK)
        return (PyObject *)s;
    Py_DECREF(s);
    return mtpn_raise(status);
}

static void events_dealloc(PyObject *self)
{
    events *s = (events *)self;
    PyTypeObject *type = Py_TYPE(self);
    mtp_events_destroy(s->events);
    Py_XDECREF(s->item);
    Py_XDECREF(s->trace);
    PyObject_Free(self);
    Py_DECREF(type);
}

static Py_ssize_t events_length(PyObject *self)
{
    size_t count;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS /* the first call scans all spans */
    status = mtp_events_count(((events *)self)->events, &count);
    Py_END_ALLOW_THREADS
    if (status == MTP_OK)
        return (Py_ssize_t)count;
    mtpn_raise(status);
    return -1;
}

static PyObject *events_item(PyObject *self, Py_ssize_t i)
{
    events *s = (events *)self;
    PyTypeObject *type = (PyTypeObject *)s->item;
    Py_ssize_t count = events_length(self);
    if (count < 0)
        return NULL;
    if (i < 0 || i >= count)
        return PyErr_Format(PyExc_IndexError, "event %zd of %zd", i, count);
    event *e = (event *)type->tp_alloc(type, 0);
    if (e == NULL)
        return NULL;
    e->owner = Py_NewRef(self);
    e->index = (size_t)i;
    e->e.size = sizeof e->e;
    mtp_status status = mtp_events_get(s->events, e->index, &e->e);
    if (status == MTP_OK)
        return (PyObject *)e;
    Py_DECREF(e);
    return mtpn_raise(status);
}

MTPY_GETTER(events_zero, PyLong_FromLongLong(mtp_events_zero_ns(((events *)self)->events)))

/* -------------------------------------------------------------------------------------------------- Event */

static int event_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((event *)self)->dict);
    return 0; /* Events is not tracked: it does not refer to events */
}

static int event_clear(PyObject *self)
{
    Py_CLEAR(((event *)self)->dict);
    return 0;
}

static void event_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    event_clear(self);
    Py_CLEAR(((event *)self)->owner);
    type->tp_free(self);
    Py_DECREF(type);
}

enum text_field {
    NAME,
    KEY,
    OVERLOAD,
    DIMS,
    STRIDES,
    TYPES,
    CONCRETE,
    OUTPUTS,
    ARGS
};

static PyObject *get_text(PyObject *self, void *which)
{
    const mtp_event *e = &((event *)self)->e;
    const mtp_text texts[] = {e->name,          e->key,         e->overload_name,   e->input_dims,
                              e->input_strides, e->input_types, e->concrete_inputs, e->output_dims,
                              e->args};
    mtp_text t = texts[(intptr_t)which];
    return t.bytes != NULL ? mtpn_str(t) : PyUnicode_FromStringAndSize("", 0);
}

MTPY_GETTER(get_kind, PyUnicode_FromString(mtp_event_kind_text((mtp_event_kind)((event *)self)->e.kind)))

MTPY_GETTER(get_index, PyLong_FromSize_t(((event *)self)->index))

static PyObject *index_or_minus_one(size_t index)
{
    return index == MTP_NO_EVENT ? PyLong_FromLong(-1) : PyLong_FromSize_t(index);
}

MTPY_GETTER(get_parent, index_or_minus_one(((event *)self)->e.parent))

static PyObject *get_children(PyObject *self, void *unused)
{
    (void)unused;
    mtp_events *all = events_of(self);
    PyObject *list = all != NULL ? PyList_New(0) : NULL;
    size_t child = MTP_NO_EVENT;
    mtp_status status = list != NULL ? mtp_events_child(all, ((event *)self)->index, &child) : MTP_OK;
    while (list != NULL && status == MTP_OK && child != MTP_NO_EVENT) {
        PyObject *index = PyLong_FromSize_t(child);
        if (index == NULL || PyList_Append(list, index) < 0)
            Py_CLEAR(list);
        Py_XDECREF(index);
        status = mtp_events_sibling(all, child, &child);
    }
    if (status != MTP_OK) {
        Py_XDECREF(list);
        return mtpn_raise(status);
    }
    PyObject *children = list != NULL ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return children;
}

static PyObject *get_kernels(PyObject *self, void *unused)
{
    (void)unused;
    mtp_events *all = events_of(self);
    uint32_t count = ((event *)self)->e.kernel_count;
    PyObject *list = all != NULL ? PyTuple_New((Py_ssize_t)count) : NULL;
    for (uint32_t k = 0; list != NULL && k < count; k++) {
        mtp_event_kernel kernel = {.size = sizeof kernel};
        mtp_status status = mtp_events_kernel(all, ((event *)self)->index, k, &kernel);
        if (status != MTP_OK) {
            Py_DECREF(list);
            return mtpn_raise(status);
        }
        PyObject *item =
            Py_BuildValue("(NLd)", mtpn_str(kernel.name), (long long)kernel.device, kernel.duration);
        mtpy_put(&list, (Py_ssize_t)k, item);
    }
    return list;
}

static PyObject *get_stack(PyObject *self, void *unused)
{
    (void)unused;
    mtp_events *all = events_of(self);
    mtp_text frames[256];
    size_t depth = 0;
    if (all == NULL)
        return NULL;
    mtp_status status = mtp_events_stack(all, ((event *)self)->index, frames, 256, &depth);
    if (status != MTP_OK)
        return mtpn_raise(status);
    depth = depth < 256 ? depth : 256;
    PyObject *list = PyList_New((Py_ssize_t)depth);
    for (size_t i = 0; list != NULL && i < depth; i++) {
        PyObject *frame = mtpn_str(frames[i]);
        mtpy_put(&list, (Py_ssize_t)i, frame);
    }
    return list;
}

/* One tensor's dims as a list; *at moves past them. */
static PyObject *dims_list(uint32_t rank, const int64_t *numbers, size_t *at, size_t count)
{
    PyObject *dims = PyList_New((Py_ssize_t)rank);
    for (uint32_t i = 0; dims != NULL && i < rank; i++) {
        PyObject *n = PyLong_FromLongLong(*at < count ? numbers[*at] : -1);
        ++*at;
        mtpy_put(&dims, (Py_ssize_t)i, n);
    }
    return dims;
}

static PyObject *lists_of(const mtp_event_input *items, size_t item_count, const int64_t *numbers,
                          size_t number_count)
{
    PyObject *list = PyList_New(0);
    size_t at = 0;
    for (size_t i = 0; list != NULL && i < item_count; i++) {
        PyObject *one;
        if (items[i].is_list) {
            one = PyList_New(0);
            for (uint32_t k = items[i].count; one != NULL && k > 0 && i + 1 < item_count; k--) {
                PyObject *dims = dims_list(items[++i].count, numbers, &at, number_count);
                if (dims == NULL || PyList_Append(one, dims) < 0)
                    Py_CLEAR(one);
                Py_XDECREF(dims);
            }
        } else {
            one = dims_list(items[i].count, numbers, &at, number_count);
        }
        if (one == NULL || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* [[4, 6], []], or None where no shapes were recorded. */
static PyObject *get_inputs(PyObject *self, void *which)
{
    mtp_events *all = events_of(self);
    event *e = (event *)self;
    if (all == NULL)
        return NULL;
    if (e->e.shape == 0)
        Py_RETURN_NONE;
    size_t inputs = 0, numbers = 0;
    mtp_input_lists list = (mtp_input_lists)(intptr_t)which;
    mtp_status status = mtp_events_inputs(all, e->index, list, NULL, 0, &inputs, NULL, 0, &numbers);
    mtp_event_input *items = status == MTP_OK ? PyMem_Calloc(inputs + 1, sizeof *items) : NULL;
    int64_t *dims = status == MTP_OK ? PyMem_Calloc(numbers + 1, sizeof *dims) : NULL;
    PyObject *made = NULL;
    if (status != MTP_OK)
        mtpn_raise(status);
    else if (items == NULL || dims == NULL)
        PyErr_NoMemory();
    else if ((status = mtp_events_inputs(all, e->index, list, items, inputs, &inputs, dims, numbers,
                                         &numbers)) != MTP_OK)
        mtpn_raise(status);
    else
        made = lists_of(items, inputs, dims, numbers);
    PyMem_Free(items);
    PyMem_Free(dims);
    return made;
}

static PyObject *event_repr(PyObject *self)
{
    const mtp_event *e = &((event *)self)->e;
    PyObject *name = mtpn_str(e->name);
    PyObject *text =
        name != NULL ? PyUnicode_FromFormat("<Event %R, %lld ns>", name, (long long)(e->end_ns - e->start_ns))
                     : NULL;
    Py_XDECREF(name);
    return text;
}

/* ------------------------------------------------------------------------------------------------- columns */

PyObject *mtpn_columns_object(PyObject *trace)
{
    mtp_columns *all = PyMem_Calloc(1, sizeof *all);
    if (all == NULL)
        return PyErr_NoMemory();
    all->size = sizeof *all;
    mtp_status status = mtp_trace_columns(((mtpn_trace *)trace)->trace, all);
    PyObject *tables = status == MTP_OK ? PyDict_New() : mtpn_raise(status);
    for (size_t i = 0; tables != NULL && i < all->count; i++) {
        const mtp_column *c = &all->column[i];
        PyObject *table = PyDict_GetItemString(tables, c->table);
        if (table == NULL) {
            PyObject *made = PyDict_New();
            if (made == NULL || PyDict_SetItemString(tables, c->table, made) < 0) {
                Py_XDECREF(made);
                Py_CLEAR(tables);
                break;
            }
            Py_DECREF(made);
            table = made;
        }
        column *o = PyObject_New(column, column_type);
        if (o != NULL) {
            o->trace = Py_NewRef(trace);
            o->c = *c;
            o->shape = (Py_ssize_t)c->count;
            o->stride = (Py_ssize_t)c->stride;
            int log = c->bytes == 1 ? 0 : c->bytes == 2 ? 1 : c->bytes == 4 ? 2 : 3;
            o->format[0] = c->type == 'i' ? "bhiq"[log] : c->type == 'u' ? "BHIQ"[log] : "??fd"[log];
            o->format[1] = 0;
        }
        if (o == NULL || PyDict_SetItemString(table, c->name, (PyObject *)o) < 0)
            Py_CLEAR(tables);
        Py_XDECREF(o);
    }
    PyMem_Free(all);
    return tables;
}

static void column_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((column *)self)->trace);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int column_buffer(PyObject *self, Py_buffer *view, int flags)
{
    column *o = (column *)self;
    static char nothing[8];
    if (flags & PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "a trace is immutable: its columns are read-only");
        return -1;
    }
    bool tight = o->stride == (Py_ssize_t)o->c.bytes;
    if (!tight && !(flags & PyBUF_STRIDES)) {
        PyErr_SetString(PyExc_BufferError, "this column is not contiguous");
        return -1;
    }
    memset(view, 0, sizeof *view);
    view->obj = Py_NewRef(self);
    view->buf = o->c.data != NULL ? (void *)(uintptr_t)o->c.data : nothing;
    view->len = o->shape * (Py_ssize_t)o->c.bytes;
    view->itemsize = o->c.bytes;
    view->readonly = 1;
    view->ndim = 1;
    view->format = flags & PyBUF_FORMAT ? o->format : NULL;
    view->shape = flags & PyBUF_ND ? &o->shape : NULL;
    view->strides = flags & PyBUF_STRIDES ? &o->stride : NULL;
    return 0;
}

static Py_ssize_t column_length(PyObject *self)
{
    return ((column *)self)->shape;
}

PyObject *mtpn_trace_text(PyObject *trace, PyObject *id)
{
    unsigned long n = PyLong_AsUnsignedLong(id);
    size_t length;
    if (n == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    const char *text =
        mtp_trace_name(((mtpn_trace *)trace)->trace, n > UINT32_MAX ? 0 : (uint32_t)n, &length);
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace");
}

/* --------------------------------------------------------------------------------------------------- types */

#define FIELD(name, type, field, doc)                                                                        \
    {                                                                                                        \
        name, type, offsetof(event, e.field), READONLY, doc                                                  \
    }

static PyMemberDef event_members[] = {
    FIELD("start_ns", T_LONGLONG, start_ns, "since recording started"),
    FIELD("end_ns", T_LONGLONG, end_ns, NULL),
    FIELD("step", T_LONGLONG, step, "calls of step() before it"),
    FIELD("pid", T_LONGLONG, pid, NULL),
    FIELD("tid", T_LONGLONG, tid, "the system's thread id; for device work, the stream"),
    FIELD("stream", T_LONGLONG, resource, "torch's device_resource_id"),
    FIELD("thread", T_ULONGLONG, thread, "numbered as in torch, from 1"),
    FIELD("fwd_thread", T_ULONGLONG, forward_thread, "of a backward op; 0: none"),
    FIELD("sequence_nr", T_LONGLONG, sequence, "autograd's; -1: none"),
    FIELD("correlation_id", T_ULONGLONG, correlation, "of a launch and its device work; 0: none"),
    FIELD("id", T_ULONGLONG, external_id, "External id"),
    FIELD("record_function_id", T_ULONGLONG, record_function_id, NULL),
    FIELD("scope", T_UINT, scope, "torch's RecordScope"),
    FIELD("is_device", T_BOOL, is_device, NULL),
    FIELD("is_async", T_BOOL, is_async, NULL),
    FIELD("is_user_annotation", T_BOOL, is_user_annotation, NULL),
    FIELD("is_unfinished", T_BOOL, is_unfinished, "its end was not recorded"),
    FIELD("device_type", T_INT, device_type, "c10's: 0 CPU, 1 CUDA, 20 NPU"),
    FIELD("device_index", T_INT, device_index, NULL),
    FIELD("op_device_type", T_INT, op_device_type, "where an op computes; -1: not recorded"),
    FIELD("op_device_index", T_INT, op_device_index, NULL),
    FIELD("cpu_time_total", T_DOUBLE, cpu_time_total, "microseconds"),
    FIELD("self_cpu_time_total", T_DOUBLE, self_cpu_time_total, NULL),
    FIELD("device_time_total", T_DOUBLE, device_time_total, NULL),
    FIELD("self_device_time_total", T_DOUBLE, self_device_time_total, NULL),
    FIELD("cpu_memory_usage", T_LONGLONG, cpu_memory_usage, "bytes"),
    FIELD("self_cpu_memory_usage", T_LONGLONG, self_cpu_memory_usage, NULL),
    FIELD("device_memory_usage", T_LONGLONG, device_memory_usage, NULL),
    FIELD("self_device_memory_usage", T_LONGLONG, self_device_memory_usage, NULL),
    FIELD("flops", T_ULONGLONG, flops, NULL),
    FIELD("memory_before", T_LONGLONG, allocated_before, "bytes on the op's device; -1: not recorded"),
    FIELD("memory_after", T_LONGLONG, allocated_after, NULL),
    FIELD("bytes", T_LONGLONG, bytes, "moved by a copy; for a [memory] event, allocated or freed"),
    FIELD("span", T_UINT, span, "its row in the columns"),
    {"__dictoffset__", T_PYSSIZET, offsetof(event, dict), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef event_properties[] = {
    {"name", get_text, NULL, "torch's trace_name", (void *)NAME},
    {"key", get_text, NULL, "torch's key: ProfilerStep* for steps", (void *)KEY},
    {"overload_name", get_text, NULL, NULL, (void *)OVERLOAD},
    {"input_types", get_text, NULL, "JSON", (void *)TYPES},
    {"concrete_inputs", get_text, NULL, "JSON", (void *)CONCRETE},
    {"args", get_text, NULL, "JSON without its braces", (void *)ARGS},
    {"input_shapes", get_inputs, NULL, "[[4, 6], []]; None: not recorded", (void *)MTP_INPUT_DIMS},
    {"input_strides", get_inputs, NULL, NULL, (void *)MTP_INPUT_STRIDES},
    {"kind", get_kind, NULL, "op, scope, backward, step, kernel ...", NULL},
    {"index", get_index, NULL, "its index in the events", NULL},
    {"parent", get_parent, NULL, "index of torch's cpu_parent; -1: none", NULL},
    {"children", get_children, NULL, "indices of torch's cpu_children", NULL},
    {"kernels", get_kernels, NULL, "(name, device, microseconds) of each kernel it launched", NULL},
    {"stack", get_stack, NULL, "innermost first", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

int mtpn_events_init(PyObject *module)
{
    static PyGetSetDef events_properties[] = {
        {"zero_ns", events_zero, NULL, "start of the recording, relative to the trace's base_ns", NULL},
        {NULL, NULL, NULL, NULL, NULL},
    };
    static PyType_Slot events_slots[] = {
        {Py_tp_doc, "The events of a trace, in torch's order. Objects are created on access."},
        {Py_tp_dealloc, events_dealloc},
        {Py_sq_length, events_length},
        {Py_sq_item, events_item},
        {Py_tp_getset, events_properties},
        {0, NULL},
    };
    static PyType_Slot event_slots[] = {
        {Py_tp_doc, "One event of a trace."},
        {Py_tp_dealloc, event_dealloc},
        {Py_tp_traverse, event_traverse},
        {Py_tp_clear, event_clear},
        {Py_tp_repr, event_repr},
        {Py_tp_members, event_members},
        {Py_tp_getset, event_properties},
        {0, NULL},
    };
    static PyType_Slot column_slots[] = {
        {Py_tp_doc, "A column of a trace: numpy.asarray(column) does not copy."},
        {Py_tp_dealloc, column_dealloc},
        {Py_bf_getbuffer, column_buffer},
        {Py_sq_length, column_length},
        {0, NULL},
    };
    static PyType_Spec events_spec = {"mtprof.Events", sizeof(events), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, events_slots};
    static PyType_Spec event_spec = {"mtprof.Event", sizeof(event), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
                                     event_slots};
    static PyType_Spec column_spec = {"mtprof.Column", sizeof(column), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, column_slots};
    events_type = mtpn_add_type(module, "Events", &events_spec);
    event_type = mtpn_add_type(module, "Event", &event_spec);
    column_type = mtpn_add_type(module, "Column", &column_spec);
    return events_type != NULL && event_type != NULL && column_type != NULL ? 0 : -1;
}
