/* python/mtprof/trace.c - Trace and Averages: a recording, and rows that summarize it. Both are immutable, so
 * all work on them runs without the GIL.
 */
#include "python/mtprof/trace.h"
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static PyTypeObject *trace_type, *averages_type;

typedef struct averages {
    PyObject_HEAD
    mtp_averages *rows; /* owned */
    PyObject *trace;    /* keeps alive what rows borrow from */
} averages;

/* -------------------------------------------------------------------------------------------------- Trace */

PyObject *mtpn_trace_object(mtp_trace *trace)
{
    mtpn_trace *t = PyObject_New(mtpn_trace, trace_type);
    if (t == NULL) {
        mtp_trace_destroy(trace);
        return NULL;
    }
    t->trace = trace;
    return (PyObject *)t;
}

static void trace_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mtp_trace *trace = ((mtpn_trace *)self)->trace;
    Py_BEGIN_ALLOW_THREADS
    mtp_trace_destroy(trace);
    Py_END_ALLOW_THREADS
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Losses are reported as warnings, not only in info(). */
static bool warn_of_losses_in(const char *path, mtp_trace_info i)
{
    if (i.missing_chunks > 0 &&
        PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                         "%s is truncated: %llu chunks are missing at its end, with their records", path,
                         (unsigned long long)i.missing_chunks) < 0)
        return false;
    if (i.damaged_header && PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                                             "%s: its header is damaged; the intact copy was used", path) < 0)
        return false;
    return i.damaged_chunks == 0 ||
           PyErr_WarnFormat(
               PyExc_RuntimeWarning, 1,
               "%s is damaged: %llu of %llu chunks could not be read completely; the rest is shown", path,
               (unsigned long long)i.damaged_chunks, (unsigned long long)i.chunks) == 0;
}

/* Of several recordings, each by its own name. */
static bool warn_of_losses(const mtp_trace *trace, const char *path)
{
    mtp_trace_info i = MTP_TRACE_INFO_INIT;
    mtp_trace_get_info(trace, &i);
    if (mtp_trace_recording_count(trace) < 2)
        return warn_of_losses_in(path, i);
    for (size_t k = 0; k < mtp_trace_recording_count(trace); k++) {
        mtp_recording_info r = MTP_RECORDING_INFO_INIT;
        mtp_trace_recording(trace, k, &r);
        if (r.problem[0] != 0 &&
            PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%s: not read: %s", r.file, r.problem) < 0)
            return false;
        if (r.by_wall_clock &&
            PyErr_WarnFormat(
                PyExc_RuntimeWarning, 1,
                "%s is of another boot or machine: it is placed by the time of day, which may be off",
                r.file) < 0)
            return false;
        if (!warn_of_losses_in(r.file, r.info))
            return false;
    }
    return true;
}

static PyObject *trace_open(PyObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"", "max_memory", "process", "alone", NULL};
    PyObject *path, *most = Py_None, *process = Py_None;
    int alone = 0;
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$OOp:open", names, PyUnicode_FSConverter, &path, &most,
                                     &process, &alone))
        return NULL;
    if (most != Py_None)
        options.max_memory = PyLong_AsUnsignedLongLong(most);
    if (process != Py_None && !PyErr_Occurred())
        options.process = PyLong_AsUnsignedLongLong(process);
    options.alone = alone != 0;
    if (PyErr_Occurred()) {
        Py_DECREF(path);
        return NULL;
    }
    const char *name = PyBytes_AS_STRING(path);
    mtp_trace *trace;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_trace_open(name, &options, &trace);
    Py_END_ALLOW_THREADS
    PyObject *result = NULL;
    if (status != MTP_OK)
        mtpn_raise(status);
    else if (!warn_of_losses(trace, name))
        mtp_trace_destroy(trace);
    else
        result = mtpn_trace_object(trace);
    Py_DECREF(path);
    return result;
}

static PyObject *trace_recordings(PyObject *self, PyObject *unused)
{
    (void)unused;
    const mtp_trace *trace = ((mtpn_trace *)self)->trace;
    PyObject *list = PyList_New(0);
    for (size_t k = 0; list != NULL && k < mtp_trace_recording_count(trace); k++) {
        mtp_recording_info r = MTP_RECORDING_INFO_INIT;
        typedef unsigned long long u;
        mtp_trace_recording(trace, k, &r);
        PyObject *one = Py_BuildValue(
            "{sN sN sN sK sK sO sK sK sK sK sK ss}", "file", PyUnicode_DecodeFSDefault(r.file), "command",
            PyUnicode_DecodeFSDefault(r.command), "problem", PyUnicode_DecodeFSDefault(r.problem), "pid",
            (u)r.pid, "parent", (u)r.parent, "by_wall_clock", r.by_wall_clock ? Py_True : Py_False, "spans",
            (u)r.info.spans, "memory_events", (u)r.info.memory_events, "tracks", (u)r.info.tracks, "emitted",
            (u)r.info.ledger.emitted, "dropped", (u)r.info.ledger.dropped, "outcome",
            mtp_outcome_text(r.info.outcome));
        if (one == NULL || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *trace_info(PyObject *self, PyObject *unused)
{
    (void)unused;
    mtp_trace_info i = MTP_TRACE_INFO_INIT;
    mtp_status status = mtp_trace_get_info(((mtpn_trace *)self)->trace, &i);
    if (status != MTP_OK)
        return mtpn_raise(status);
    typedef unsigned long long u;
    typedef long long s;
    return Py_BuildValue("{sK sK sK sK sK sK sK sL sL sL sK sK sK sK sK sK sK sK sK ss}", "spans", (u)i.spans,
                         "cpu_spans", (u)i.cpu_spans, "device_spans", (u)i.device_spans, "memory_events",
                         (u)i.memory_events, "flows", (u)i.flows, "tracks", (u)i.tracks, "steps", (u)i.steps,
                         "base_ns", (s)i.base_ns, "first_ns", (s)i.first_ns, "last_ns", (s)i.last_ns, "pid",
                         (u)i.pid, "model_bytes", (u)i.model_bytes, "unfinished", (u)i.unfinished, "emitted",
                         (u)i.ledger.emitted, "dropped", (u)i.ledger.dropped, "lost_definitions",
                         (u)i.ledger.lost_definitions, "damaged_chunks", (u)i.damaged_chunks,
                         "missing_chunks", (u)i.missing_chunks, "bad_durations", (u)i.bad_durations,
                         "outcome", mtp_outcome_text(i.outcome));
}

/* Writes to a file that appears complete or not at all. */
typedef mtp_status write_fn(const mtp_trace *trace, const char *word, mtp_sink *sink, void *user);

enum {
    WITHOUT_CONCRETE_INPUTS = 1,
    WITHOUT_FORWARD_BACKWARD = 2
};

/* Inserts members at the start of a JSON object: metadata added after the recording. */
typedef struct head {
    const char *more; /* members without braces; NULL: none, or already written */
    int without;      /* WITHOUT_* */
    mtp_file *file;
} head;

static bool head_sink(void *user, const void *bytes, size_t length)
{
    head *h = user;
    const char *more = h->more;
    if (more == NULL || length == 0)
        return mtp_file_sink(h->file, bytes, length);
    h->more = NULL;
    return mtp_file_sink(h->file, bytes, 1) && mtp_file_sink(h->file, more, strlen(more)) &&
           mtp_file_sink(h->file, ", ", 2) && mtp_file_sink(h->file, (const char *)bytes + 1, length - 1);
}

static PyObject *write_file(PyObject *self, PyObject *args, const char *format, write_fn *write)
{
    PyObject *path;
    const char *word = NULL;
    head h = {NULL, 0, NULL};
    const mtp_trace *trace = ((mtpn_trace *)self)->trace;
    if (!PyArg_ParseTuple(args, format, PyUnicode_FSConverter, &path, &word, &h.more, &h.without))
        return NULL;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_file_create(PyBytes_AS_STRING(path), 0, &h.file);
    if (status == MTP_OK) {
        status = write(trace, word, head_sink, &h);
        if (status == MTP_OK || status == MTP_E_IO) /* the file reports why a write failed */
            status = mtp_file_commit(h.file);
        else
            mtp_file_abandon(h.file);
    }
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return mtpn_none(status);
}

static mtp_status write_chrome(const mtp_trace *trace, const char *name, mtp_sink *sink, void *user)
{
    mtp_export_options options = MTP_EXPORT_OPTIONS_INIT;
    options.trace_name = name;
    options.without_concrete_inputs = (((const head *)user)->without & WITHOUT_CONCRETE_INPUTS) != 0;
    options.without_forward_backward = (((const head *)user)->without & WITHOUT_FORWARD_BACKWARD) != 0;
    return mtp_trace_chrome(trace, &options, sink, user);
}

static PyObject *trace_chrome(PyObject *self, PyObject *args)
{
    return write_file(self, args, "O&s|zi:chrome", write_chrome);
}

static mtp_status write_stacks(const mtp_trace *trace, const char *metric, mtp_sink *sink, void *user)
{
    return mtp_trace_stacks(trace, metric, sink, user);
}

static PyObject *trace_stacks(PyObject *self, PyObject *args)
{
    return write_file(self, args, "O&s:stacks", write_stacks);
}

static mtp_status write_execution(const mtp_trace *trace, const char *unused, mtp_sink *sink, void *user)
{
    (void)unused;
    return mtp_trace_execution_trace(trace, sink, user);
}

static PyObject *trace_execution(PyObject *self, PyObject *args)
{
    return write_file(self, args, "O&|s:execution_trace", write_execution);
}

static mtp_status write_report(const mtp_trace *trace, const char *name, mtp_sink *sink, void *user)
{
    mtp_report_options options = MTP_REPORT_OPTIONS_INIT;
    options.names = name != NULL ? &name : NULL;
    return mtp_report_write(&trace, 1, &options, sink, user);
}

static PyObject *trace_report(PyObject *self, PyObject *args)
{
    return write_file(self, args, "O&|s:report", write_report);
}

static PyObject *trace_memory_page(PyObject *self, PyObject *args)
{
    PyObject *path;
    const mtp_trace *trace = ((mtpn_trace *)self)->trace;
    mtp_report_options options = MTP_REPORT_OPTIONS_INIT;
    const char *name;
    if (!PyArg_ParseTuple(args, "O&sz:memory_page", PyUnicode_FSConverter, &path, &name, &options.device))
        return NULL;
    options.names = &name;
    options.only = "memory";
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_export_report(&trace, 1, PyBytes_AS_STRING(path), &options);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return mtpn_none(status);
}

static PyObject *trace_parquet(PyObject *self, PyObject *args)
{
    PyObject *path;
    const mtp_trace *trace = ((mtpn_trace *)self)->trace;
    mtp_parquet_options options = MTP_PARQUET_OPTIONS_INIT;
    long long rank = -1;
    if (!PyArg_ParseTuple(args, "O&|zL:parquet", PyUnicode_FSConverter, &path, &options.job, &rank))
        return NULL;
    options.rank = rank;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_export_parquet(trace, PyBytes_AS_STRING(path), &options);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return mtpn_none(status);
}

static PyObject *trace_explain(PyObject *self, PyObject *args)
{
    mtp_words_options words = MTP_WORDS_OPTIONS_INIT;
    unsigned long long budget = 0;
    int json = 0;
    if (!PyArg_ParseTuple(args, "|Kp:explain", &budget, &json))
        return NULL;
    words.budget = budget;
    mtpn_text text = {0};
    mtp_findings *findings;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_findings_create(((mtpn_trace *)self)->trace, NULL, &findings);
    if (status == MTP_OK) {
        status = json ? mtp_findings_json(findings, mtpn_text_sink, &text)
                      : mtp_findings_text(findings, &words, mtpn_text_sink, &text);
        mtp_findings_destroy(findings);
    }
    Py_END_ALLOW_THREADS
    if (status == MTP_OK)
        return mtpn_text_object(&text);
    PyMem_RawFree(text.bytes);
    return mtpn_raise(status);
}

/* points: bytes of mtp_memory_point, from the array module. */
static PyObject *points_page(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path;
    const char *name, *device;
    Py_buffer points;
    if (!PyArg_ParseTuple(args, "O&ssy*:points_page", PyUnicode_FSConverter, &path, &name, &device, &points))
        return NULL;
    mtp_file *file;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_file_create(PyBytes_AS_STRING(path), 0, &file);
    if (status == MTP_OK) {
        status = mtp_report_points(name, device, points.buf, (size_t)points.len / sizeof(mtp_memory_point),
                                   mtp_file_sink, file);
        if (status == MTP_OK || status == MTP_E_IO)
            status = mtp_file_commit(file);
        else
            mtp_file_abandon(file);
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&points);
    Py_DECREF(path);
    return mtpn_none(status);
}

static PyObject *trace_memory(PyObject *self, PyObject *args)
{
    PyObject *path;
    const char *device = NULL;
    if (!PyArg_ParseTuple(args, "O&z:memory_timeline", PyUnicode_FSConverter, &path, &device))
        return NULL;
    mtp_memory_timeline *timeline;
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_memory_timeline_create(((mtpn_trace *)self)->trace, device, &timeline);
    if (status == MTP_OK) {
        status = mtp_memory_timeline_export(timeline, PyBytes_AS_STRING(path));
        mtp_memory_timeline_destroy(timeline);
    }
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return mtpn_none(status);
}

/* ----------------------------------------------------------------------------------------------- Averages */

static PyObject *trace_averages(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"by_input_shape",           "by_stack", "by_overload_name",
                               "include_python_functions", "as_torch", NULL};
    int shapes = 0, overloads = 0, python = 0, torch = 0;
    unsigned stack = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|pIppp:averages", keywords, &shapes, &stack, &overloads,
                                     &python, &torch))
        return NULL;
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_input_shape = shapes;
    options.by_stack = stack;
    options.by_overload_name = overloads;
    options.include_python_functions = python;
    options.as_torch = torch;
    averages *a = PyObject_New(averages, averages_type);
    if (a == NULL)
        return NULL;
    a->rows = NULL;
    a->trace = Py_NewRef(self);
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_averages_create(((mtpn_trace *)self)->trace, &options, &a->rows);
    Py_END_ALLOW_THREADS
    if (status == MTP_OK)
        return (PyObject *)a;
    Py_DECREF(a);
    return mtpn_raise(status);
}

static void averages_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    mtp_averages_destroy(((averages *)self)->rows);
    Py_XDECREF(((averages *)self)->trace);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *row_stack(const mtp_row *r)
{
    PyObject *list = PyList_New((Py_ssize_t)r->stack_depth);
    for (uint32_t i = 0; list != NULL && i < r->stack_depth; i++) {
        PyObject *frame = PyUnicode_DecodeUTF8(r->stack[i], (Py_ssize_t)strlen(r->stack[i]), "replace");
        mtpy_put(&list, (Py_ssize_t)i, frame);
    }
    return list;
}

/* A row as a dict with torch's names. */
static PyObject *row_dict(const mtp_row *r)
{
    PyObject *key = PyUnicode_DecodeUTF8(r->key, (Py_ssize_t)r->key_length, "replace"), *stack = row_stack(r);
    PyObject *shapes = PyUnicode_DecodeUTF8(r->input_shapes, (Py_ssize_t)strlen(r->input_shapes), "replace");
    if (key == NULL || stack == NULL || shapes == NULL) {
        Py_XDECREF(key);
        Py_XDECREF(stack);
        Py_XDECREF(shapes);
        return NULL;
    }
    typedef unsigned long long u;
    typedef long long s;
    return Py_BuildValue(
        "{sN ss sN sN sO sO sO sK sd sd sd sd sL sL sL sL sK sd sd sd sd}", "key", key, "overload_name",
        r->overload_name, "input_shapes", shapes, "stack", stack, "is_device",
        r->is_device ? Py_True : Py_False, "is_user_annotation", r->is_user_annotation ? Py_True : Py_False,
        "is_async", r->is_async ? Py_True : Py_False, "count", (u)r->count, "cpu_time_total",
        r->cpu_time_total, "self_cpu_time_total", r->self_cpu_time_total, "device_time_total",
        r->device_time_total, "self_device_time_total", r->self_device_time_total, "cpu_memory_usage",
        (s)r->cpu_memory_usage, "self_cpu_memory_usage", (s)r->self_cpu_memory_usage, "device_memory_usage",
        (s)r->device_memory_usage, "self_device_memory_usage", (s)r->self_device_memory_usage, "flops",
        (u)r->flops, "min", r->min, "p50", r->p50, "p99", r->p99, "max", r->max);
}

static Py_ssize_t averages_length(PyObject *self)
{
    return (Py_ssize_t)mtp_averages_count(((averages *)self)->rows);
}

static PyObject *averages_item(PyObject *self, Py_ssize_t i)
{
    const mtp_row *row = i < 0 ? NULL : mtp_averages_row(((averages *)self)->rows, (size_t)i);
    if (row == NULL)
        return PyErr_Format(PyExc_IndexError, "averages: row %zd does not exist", i);
    return row_dict(row);
}

static PyObject *averages_total(PyObject *self, PyObject *unused)
{
    (void)unused;
    return row_dict(mtp_averages_total(((averages *)self)->rows));
}

static PyObject *averages_table(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"sort_by",
                               "row_limit",
                               "max_src_column_width",
                               "max_name_column_width",
                               "max_shapes_column_width",
                               "header",
                               "top_level_events_only",
                               "time_unit",
                               "profile_memory",
                               "with_flops",
                               "with_stack",
                               "device_name",
                               NULL};
    mtp_table_options o = MTP_TABLE_OPTIONS_INIT;
    int top = 0, memory = -1, flops = -1, stack = -1;
    long long limit = 100, src = 75, name = 55, shapes = 80;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|zLLLLzpziiiz:table", keywords, &o.sort_by, &limit, &src,
                                     &name, &shapes, &o.header, &top, &o.time_unit, &memory, &flops, &stack,
                                     &o.device_name))
        return NULL;
    o.row_limit = limit;
    o.max_src_column_width = src;
    o.max_name_column_width = name;
    o.max_shapes_column_width = shapes;
    o.top_level_events_only = top;
    o.automatic = memory < 0;
    o.profile_memory = memory > 0;
    o.with_flops = flops > 0;
    o.with_stack = stack > 0;
    mtpn_text text = {0};
    mtp_status status;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_averages_table(((averages *)self)->rows, &o, mtpn_text_sink, &text);
    Py_END_ALLOW_THREADS
    if (status == MTP_OK)
        return mtpn_text_object(&text);
    PyMem_RawFree(text.bytes);
    if (status == MTP_E_ARG) {
        PyErr_SetString(PyExc_AttributeError, mtp_last_error());
        return NULL;
    }
    return mtpn_raise(status);
}

static PyObject *averages_chrome(PyObject *self, PyObject *args)
{
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&:chrome", PyUnicode_FSConverter, &path))
        return NULL;
    mtp_status status;
    mtp_file *file;
    Py_BEGIN_ALLOW_THREADS
    status = mtp_file_create(PyBytes_AS_STRING(path), 0, &file);
    if (status == MTP_OK) {
        status = mtp_averages_chrome(((averages *)self)->rows, mtp_file_sink, file);
        if (status == MTP_OK || status == MTP_E_IO)
            status = mtp_file_commit(file);
        else
            mtp_file_abandon(file);
    }
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return mtpn_none(status);
}

MTPY_NOARGS(averages_coverage, PyFloat_FromDouble(mtp_averages_flops_coverage(((averages *)self)->rows)))

/* -------------------------------------------------------------------------------------------------- types */

static PyObject *trace_events(PyObject *self, PyObject *args)
{
    PyObject *item = NULL;
    return PyArg_ParseTuple(args, "|O:events", &item) ? mtpn_events_object(self, item) : NULL;
}

MTPY_NOARGS(trace_columns, mtpn_columns_object(self))

int mtpn_trace_init(PyObject *module)
{
    static PyMethodDef functions[] = {
        {"points_page", points_page, METH_VARARGS,
         PyDoc_STR("points_page(path, name, device, points): a page of memory; points: 9 64-bit integers "
                   "each, the time in "
                   "ns and the bytes by category.")},
        {NULL, NULL, 0, NULL},
    };
    static PyMethodDef trace_methods[] = {
        {"open", (PyCFunction)(void (*)(void))trace_open, METH_VARARGS | METH_KEYWORDS | METH_STATIC,
         PyDoc_STR("open(path, *, max_memory=None): a spool, or Kineto/Chrome JSON, plain or compressed. "
                   "max_memory: a\n"
                   "limit in bytes, beyond which MemoryError is raised; None: MTPROF_MAX_MEMORY, or three "
                   "quarters of\n"
                   "the machine's available memory.")},
        {"events", trace_events, METH_VARARGS,
         PyDoc_STR("events(item=Event): a lazy sequence of that class.")},
        {"columns", trace_columns, METH_NOARGS,
         PyDoc_STR("{table: {column: buffer}}: numpy.asarray(buffer) does not copy.")},
        {"tree", mtpn_tree_object, METH_NOARGS, PyDoc_STR("All events as one tree, with tensor ids.")},
        {"text", mtpn_trace_text, METH_O, PyDoc_STR("text(id): the text of an id in the columns.")},
        {"info", trace_info, METH_NOARGS, PyDoc_STR("Counts, times and losses, as a dict.")},
        {"recordings", trace_recordings, METH_NOARGS,
         PyDoc_STR(
             "The recordings in the trace, a dict for each, the main process's first; none if it is JSON.")},
        {"chrome", trace_chrome, METH_VARARGS,
         PyDoc_STR(
             "chrome(path, name, more=None, without=0): write Kineto/Chrome JSON; .gz by suffix. more: "
             "additional top-level members, as JSON without braces. without: 1 concrete inputs, 2 arrows to "
             "backward ops.")},
        {"stacks", trace_stacks, METH_VARARGS,
         PyDoc_STR(
             "stacks(path, metric): write folded stacks as torch's export_stacks does, a line per event; "
             "the command 'mtprof stacks' merges them.")},
        {"execution_trace", trace_execution, METH_VARARGS,
         PyDoc_STR("execution_trace(path): write Chakra JSON.")},
        {"explain", trace_explain, METH_VARARGS,
         PyDoc_STR("explain(budget=0, json=False): what stands out, in words, or as JSON.")},
        {"parquet", trace_parquet, METH_VARARGS,
         PyDoc_STR("parquet(folder, job, rank): write Parquet tables; job None, rank -1: of the trace.")},
        {"report", trace_report, METH_VARARGS, PyDoc_STR("report(path, name): write the HTML report.")},
        {"memory_page", trace_memory_page, METH_VARARGS,
         PyDoc_STR("memory_page(path, name, device): its page of memory alone.")},
        {"memory_timeline", trace_memory, METH_VARARGS,
         PyDoc_STR("memory_timeline(path, device): as torch's export_memory_timeline.")},
        {"averages", (PyCFunction)(void (*)(void))trace_averages, METH_VARARGS | METH_KEYWORDS,
         PyDoc_STR("averages(by_input_shape=False, by_stack=0, by_overload_name=False)")},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot trace_slots[] = {
        {Py_tp_doc, "A recording, or a trace read from a file. Immutable."},
        {Py_tp_dealloc, trace_dealloc},
        {Py_tp_methods, trace_methods},
        {0, NULL},
    };
    static PyMethodDef averages_methods[] = {
        {"total", averages_total, METH_NOARGS, PyDoc_STR("The sum of all rows.")},
        {"table", (PyCFunction)(void (*)(void))averages_table, METH_VARARGS | METH_KEYWORDS,
         PyDoc_STR("torch's table, as text.")},
        {"chrome", averages_chrome, METH_VARARGS, PyDoc_STR("chrome(path): one Chrome event per row.")},
        {"flops_coverage", averages_coverage, METH_NOARGS,
         PyDoc_STR("Fraction of self CPU time spent in ops whose FLOPs are known.")},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot averages_slots[] = {
        {Py_tp_doc, "Rows over a trace: len(), [i] as a dict, table()."},
        {Py_tp_dealloc, averages_dealloc},
        {Py_tp_methods, averages_methods},
        {Py_sq_length, averages_length},
        {Py_sq_item, averages_item},
        {0, NULL},
    };
    static PyType_Spec trace_spec = {"mtprof.Trace", sizeof(mtpn_trace), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, trace_slots};
    static PyType_Spec averages_spec = {"mtprof.Averages", sizeof(averages), 0,
                                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                        averages_slots};
    trace_type = mtpn_add_type(module, "Trace", &trace_spec);
    averages_type = mtpn_add_type(module, "Averages", &averages_spec);
    return trace_type != NULL && averages_type != NULL ? PyModule_AddFunctions(module, functions) : -1;
}
