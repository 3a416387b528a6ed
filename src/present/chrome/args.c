#include "present/chrome/args.h"
#include "base/json_check.h"
#include "base/json_out.h"
#include "trace/facts.h"

#define PYTHON_UP 4096 /* levels to search for the Python caller */

typedef struct args {
    mtp__chrome *w;
    mtp__out *o;
    const mtp__detail *d;
    uint32_t span;
    bool any; /* something has been written */
} args;

/* Reserves room for a number after it. */
static inline __attribute__((always_inline)) void key_bytes(args *a, const char *text, size_t length)
{
    char *p = mtp__out_room(a->o);
    if (a->any)
        p = MTP__PUT(p, ", ");
    memcpy(p, text, length);
    a->o->at = p + length;
    a->any = true;
}

#define KEY(a, name) key_bytes((a), "\"" name "\": ", sizeof("\"" name "\": ") - 1)

static inline void number(args *a, uint64_t value)
{
    a->o->at = mtp__put_u64(a->o->at, value); /* key_bytes() reserved the room */
}

static inline void signed_number(args *a, int64_t value)
{
    a->o->at = mtp__put_i64(a->o->at, value);
}

#define NUMBER(a, name, value) (KEY(a, name), number((a), (value)))

/* A JSON text of the trace, verbatim. */
static void raw(args *a, uint32_t text)
{
    mtp_text json = mtp__trace_get_text(a->w->t, text);
    mtp__out_bytes(a->o, json.bytes, json.length);
}

#define RAW(a, name, text) ((text) != 0 ? (KEY(a, name), raw((a), (text))) : (void)0)

/* ------------------------------------------------------------------------------------- what it belongs to */

static void python_args(args *a)
{
    const mtp_trace *t = a->w->t;
    uint32_t caller = t->parent[a->span];
    for (int up = 0; up < PYTHON_UP && caller != MTP__NONE; up++) {
        if (t->category[caller] == MTP__CATEGORY_PYTHON_FUNCTION)
            break;
        caller = t->parent[caller];
    }
    NUMBER(a, "Python id", (uint64_t)a->span + 1);
    KEY(a, "Python parent id");
    if (caller != MTP__NONE && t->category[caller] == MTP__CATEGORY_PYTHON_FUNCTION)
        number(a, (uint64_t)caller + 1);
    else
        MTP__OUT(a->o, "null");
    if ((t->flags[a->span] & MTP__SPAN_MODULE) == 0)
        return;
    mtp_text name = mtp__trace_get_text(t, t->name[a->span]); /* "nn.Module: Linear_3" */
    uint64_t module = 0;
    size_t digits = 0;
    for (; digits < name.length && digits < 9; digits++) {
        char c = name.bytes[name.length - 1 - digits];
        if (c < '0' || c > '9')
            break;
    }
    for (size_t i = name.length - digits; i < name.length; i++)
        module = module * 10 + (uint64_t)(name.bytes[i] - '0');
    NUMBER(a, "Python module id", module);
}

static void own_ids(args *a)
{
    const mtp_trace *t = a->w->t;
    uint64_t id = mtp__trace_external_id(t, a->span);
    if (t->category[a->span] == MTP__CATEGORY_PYTHON_FUNCTION && mtp__is_recording(t))
        python_args(a);
    else if (id != 0)
        NUMBER(a, "External id", id + a->w->ids);
    if (mtp__has_external_id(t, a->span) && mtp__is_recording(t))
        NUMBER(a, "Record function id", (uint64_t)a->span + 1);
    if (a->d->event_index != 0)
        NUMBER(a, "Ev Idx", a->d->event_index - 1u);
    else if (mtp__is_recording(t) && !mtp__category_on_device(t->category[a->span]))
        NUMBER(a, "Ev Idx", a->span);
}

/* ------------------------------------------------------------------------------------------- what it did */

static void shapes(args *a, bool mindtorch)
{
    const mtp_trace *t = a->w->t;
    const mtp__shape *in = &t->shapes[a->d->shape], *out = &t->shapes[a->d->outputs];
    if (a->d->sequence >= 0) {
        NUMBER(a, "Sequence number", (uint64_t)a->d->sequence);
        NUMBER(a, "Fwd thread id", a->d->forward_thread);
    }
    if (!a->w->options.without_concrete_inputs)
        RAW(a, "Concrete Inputs", in->concrete);
    RAW(a, "Input type", in->types);
    RAW(a, "Input Strides", in->strides);
    RAW(a, "Input Dims", in->dims);
    if (mindtorch)
        RAW(a, "input_shapes", in->dims);
    RAW(a, "Output Dims", out->dims);
    RAW(a, "Output type", out->types);
}

static void put_inside(args *a, const char *bytes, size_t length)
{
    while (length > 0) { /* a semicolon would end the frame */
        const char *end = memchr(bytes, ';', length);
        size_t part = end != NULL ? (size_t)(end - bytes) : length;
        mtp__out_string_inside(a->o, bytes, part);
        if (end != NULL)
            MTP__OUT(a->o, ",");
        part += end != NULL;
        bytes += part;
        length -= part;
    }
}

/* "file:line:function" (ours) in the form that TensorBoard's plug-in parses: "file(line): function". */
static void call_frame(args *a, mtp_text frame)
{
    size_t before = frame.length, digits = 0;
    while (before > 0 && frame.bytes[before] != ':')
        before--;
    while (digits < before && frame.bytes[before - 1 - digits] >= '0' &&
           frame.bytes[before - 1 - digits] <= '9')
        digits++;
    if (digits == 0 || digits + 1 >= before || frame.bytes[before - digits - 1] != ':') {
        put_inside(a, frame.bytes, frame.length);
        return;
    }
    put_inside(a, frame.bytes, before - digits - 1);
    MTP__OUT(a->o, "(");
    mtp__out_bytes(a->o, frame.bytes + before - digits, digits);
    MTP__OUT(a->o, "): ");
    put_inside(a, frame.bytes + before + 1, frame.length - before - 1);
}

/* For Kineto and TensorBoard. A file's frames are in its form already. */
static void call_stack(args *a, bool mindtorch)
{
    const mtp_trace *t = a->w->t;
    const char *before = "\"";
    KEY(a, "Call stack");
    for (uint32_t node = a->d->stack; node != 0; node = t->stacks[node].parent, before = ";") {
        mtp_text frame = mtp__trace_get_text(t, t->stacks[node].frame);
        mtp__out_text(a->o, before);
        if (mindtorch)
            call_frame(a, frame);
        else
            put_inside(a, frame.bytes, frame.length);
    }
    MTP__OUT(a->o, "\"");
}

/* Our traces have MindTorch's stack; ops also have TensorBoard's. */
static void stack(args *a, bool mindtorch)
{
    const mtp_trace *t = a->w->t;
    const char *before = "[";
    if (a->d->stack == 0)
        return;
    if (!mindtorch || t->category[a->span] == MTP__CATEGORY_CPU_OP)
        call_stack(a, mindtorch);
    if (!mindtorch)
        return;
    KEY(a, "stack");
    for (uint32_t node = a->d->stack; node != 0; node = t->stacks[node].parent, before = ", ") {
        mtp__out_text(a->o, before);
        mtp__chrome_text(a->w, t->stacks[node].frame);
    }
    MTP__OUT(a->o, "]");
}

static void triple(args *a, const uint32_t *xyz)
{
    MTP__OUT(a->o, "[");
    number(a, xyz[0]);
    MTP__OUT(a->o, ", ");
    number(a, xyz[1]);
    MTP__OUT(a->o, ", ");
    number(a, xyz[2]);
    MTP__OUT(a->o, "]");
}

static void queued(args *a)
{
    uint64_t at = (uint64_t)a->d->queued_ns - (uint64_t)a->w->shift;
    KEY(a, "queued");
    char *p = mtp__out_room(a->o);
    if ((int64_t)at < 0)
        *p++ = '-';
    a->o->at = mtp__put_milli(p, (int64_t)at < 0 ? 0 - at : at);
}

/* A stream has its number whatever row it is shown on, and so has its device. */
static void device_work(args *a, const mtp__track *track, bool is_annotation)
{
    const mtp_trace *t = a->w->t;
    const mtp__detail *d = a->d;
    double dur = (double)t->end[a->span] - (double)t->start[a->span];
    if (d->queued_ns != INT64_MIN) {
        queued(a);
    } else if (!mtp__is_recording(t) && d->device == 0xffff && t->category[a->span] == MTP__CATEGORY_KERNEL) {
        KEY(a, "queued"); /* as in Kineto's kernels if unknown */
        number(a, 0);
    }
    if (track->pid_text == 0 && !is_annotation) {
        KEY(a, "device");
        signed_number(a, track->pid);
    }
    if (track->tid_text == 0 && !is_annotation) {
        KEY(a, "stream");
        signed_number(a, track->tid);
    }
    if ((d->grid[0] | d->grid[1] | d->grid[2]) != 0) {
        KEY(a, "grid");
        triple(a, d->grid);
    }
    if ((d->block[0] | d->block[1] | d->block[2]) != 0) {
        KEY(a, "block");
        triple(a, d->block);
    }
    if (d->bytes != 0) {
        KEY(a, "bytes");
        signed_number(a, d->bytes);
    }
    double bandwidth = d->bytes > 0 && dur > 0 ? (double)d->bytes / dur : 0; /* bytes/ns are GB/s */
    if (bandwidth > 0 && bandwidth < 1e12 && mtp__is_recording(t)) {
        KEY(a, "memory bandwidth (GB/s)");
        a->o->at = mtp__put_milli(a->o->at, (uint64_t)(bandwidth * 1000 + 0.5));
    }
}

/* An annotation is not work, and HTA counts anything with a stream as work: like Kineto's, it has no device,
 * stream or correlation. If its row does not identify them, our own keys do. */
static void annotation_place(args *a, const mtp__lane *lane, const mtp__track *track)
{
    if (track->pid_text == 0 && track->pid != lane->pid) {
        KEY(a, "on_device");
        signed_number(a, track->pid);
    }
    if (track->tid_text == 0 && track->tid != lane->tid) {
        KEY(a, "on_stream");
        signed_number(a, track->tid);
    }
}

/* ----------------------------------------------------------------------------------------------- MindTorch */

#define ALLOCATED(a, npu, what, value)                                                                       \
    ((npu) ? KEY(a, "npu_memory_allocated_" what) : KEY(a, "cpu_memory_allocated_" what),                    \
     signed_number((a), (value)))

static void allocated(args *a, bool npu)
{
    const int64_t before = a->d->allocated_before, after = a->d->allocated_after;
    if (before >= 0)
        ALLOCATED(a, npu, "before", before);
    if (after >= 0)
        ALLOCATED(a, npu, "after", after);
    if (before >= 0 && after >= 0)
        ALLOCATED(a, npu, "delta", after - before);
}

static void mindtorch(args *a, bool on_device, int64_t step)
{
    const mtp__detail *d = a->d;
    bool npu = d->device != 0xffff ? MTP_DEVICE_TYPE(d->device) != 0 : on_device;
    if (!mtp__is_recording(a->w->t))
        step = d->number;
    KEY(a, "device_type");
    a->o->at = npu ? MTP__PUT(a->o->at, "\"NPU\"") : MTP__PUT(a->o->at, "\"CPU\"");
    KEY(a, "step");
    signed_number(a, step);
    if (d->correlation != 0)
        NUMBER(a, "correlation_id", d->correlation + a->w->ids);
    allocated(a, npu);
}

/* ------------------------------------------------------------------------------------------------- public */

/* Text of a recording is whatever a program passed; text of a JSON file was validated by the reader. */
static bool is_members(const mtp__chrome *w, mtp_text json)
{
    size_t at;
    if (json.length == 0 || !mtp__is_recording(w->t))
        return json.length != 0;
    if (json.bytes[0] != '"') /* whitespace alone would be valid between braces */
        return false;
    char small[512], *text = json.length + 2 <= sizeof small ? small : mtp__calloc(1, json.length + 2);
    if (text == NULL)
        return false;
    text[0] = '{';
    memcpy(text + 1, json.bytes, json.length);
    text[json.length + 1] = '}';
    bool is = mtp__json_check(text, json.length + 2, &at);
    if (text != small)
        mtp__free(text);
    return is;
}

void mtp__chrome_more_args(mtp__chrome *w, uint32_t text, bool any)
{
    mtp_text json = mtp__trace_get_text(w->t, text);
    if (!is_members(w, json))
        return;
    if (any)
        MTP__OUT(&w->out, ", ");
    mtp__out_json(&w->out, json.bytes, json.length);
}

void mtp__chrome_span_args(mtp__chrome *w, const mtp__lane *lane, uint32_t span, int64_t step, bool renamed)
{
    const mtp_trace *t = w->t;
    args a = {w, &w->out, mtp__trace_detail(t, span), span, false};
    bool on_device = mtp__category_on_device(t->category[span]);
    bool is_mindtorch = mtp__is_recording(t) || a.d->device != 0xffff;
    own_ids(&a);
    shapes(&a, is_mindtorch);
    bool is_annotation = t->category[span] == MTP__CATEGORY_GPU_USER_ANNOTATION;
    uint64_t correlation = mtp__chrome_call_correlation(w, span);
    if (on_device)
        device_work(&a, &t->tracks[lane->track], is_annotation);
    if (is_annotation)
        annotation_place(&a, lane, &t->tracks[lane->track]);
    else if (correlation != 0 || (on_device && is_mindtorch)) /* 0: no launch; HTA expects it */
        NUMBER(&a, "correlation", correlation != 0 ? correlation + w->ids : 0);
    if (a.d->flops != 0)
        NUMBER(&a, "flops", a.d->flops);
    stack(&a, is_mindtorch);
    if (is_mindtorch)
        mindtorch(&a, on_device, step);
    if ((t->flags[span] & MTP__SPAN_UNFINISHED) != 0 && mtp__is_recording(t)) {
        KEY(&a, "unfinished");
        MTP__OUT(&w->out, "true");
    }
    if (renamed) {
        mtp_text name = mtp__trace_get_text(t, t->name[span]);
        KEY(&a, "original name");
        mtp__out_string(&w->out, name.bytes, name.length);
    }
    mtp__chrome_more_args(w, a.d->args, a.any);
}
