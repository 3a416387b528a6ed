/* runtime/dispatch.c - one call of an op: check, record for the profiler, run, record for autograd.
 *
 *     mt_call ─► complete_and_call ─► mt__call_op: checks the arguments, then
 *         record, if a profile runs: run_recorded begins the profiler's op, runs, ends it
 *         run: run_new, then settles out=
 *           run_new: a composite calls other ops; anything else goes on by
 *             run_tracked, if autograd follows it: saves, goes on, adds the node
 *             run_or_hand_over: to an interceptor (a dispatch mode), if there is one, or
 *               run_kernel: computes, frees scratch memory
 *                 infer_and_compute: makes the outputs, runs the device's kernel
 *                 compute_with_numbers, if recorded: as PyTorch does, which converts numbers by ops
 *                   mt__compute_recorded (numbers.c)
 *
 * Without a running profile the profiler costs one predicted branch. An op is recorded once, whether or not
 * autograd tracks it; the ops that it is composed of are recorded inside it.
 */
#include "runtime/runtime.h"
#include "runtime/autocast.h"
#include "runtime/autograd/autograd.h"
#include "runtime/device/device.h"
#include "runtime/narrow.h"
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------- arguments */

#define BIT(kind) (1u << (kind))
#define NUMBERS (BIT(MT_INT) | BIT(MT_FLOAT) | BIT(MT_TRUTH))
static const uint16_t allowed[] = {
    [MT_TYPE_TENSOR] = BIT(MT_TENSOR),
    [MT_TYPE_TENSORS] = BIT(MT_TENSORS),
    [MT_TYPE_OPERAND] = BIT(MT_TENSOR) | NUMBERS,
    [MT_TYPE_SCALAR] = NUMBERS,
    [MT_TYPE_INT] = BIT(MT_INT) | BIT(MT_TRUTH),
    [MT_TYPE_FLOAT] = NUMBERS,
    [MT_TYPE_BOOL] = BIT(MT_TRUTH) | BIT(MT_INT),
    [MT_TYPE_INTS] = BIT(MT_INTS),
    [MT_TYPE_TEXT] = BIT(MT_TEXT),
    [MT_TYPE_DTYPE] = BIT(MT_INT),
    [MT_TYPE_DEVICE] = BIT(MT_INT),
};

static const char *kind_text(unsigned kind)
{
    static const char *const texts[] = {"None",  "Tensor", "list of Tensors", "int",
                                        "float", "bool",   "list of ints",    "str"};
    return kind < MT__COUNT_OF(texts) ? texts[kind] : "?";
}

static mt_status bad_argument(const mt__op *op, unsigned i, const mt_value *v)
{
    const mt_param *p = &op->params[i];
    return mt__fail(MT_E_TYPE, "%s(): argument '%.*s' (position %u) cannot be %s; the op is %s",
                    mt__op_short_name(op), (int)p->name_length, p->name, i + 1, kind_text(v->kind),
                    op->schema);
}

/* Properties of the call derived from its arguments. */
typedef struct facts {
    mt_device device;
    bool has_device, tracked;
    bool host_number; /* there is a 0-dim tensor on the CPU */
} facts;

mt_status mt__mixed_devices(const mt__op *op, mt_device a, mt_device b)
{
    return mt__fail(MT_E_RUNTIME,
                    "Expected all tensors to be on the same device, but found at least two devices, %s and "
                    "%s! (when calling %s)",
                    mt__device_text(a), mt__device_text(b), op->name);
}

/* Indices may be on the CPU, wherever the indexed tensor is: ops/index.c copies them. So may the lengths of sequences,
 * which must be. */
static bool is_index(const mt__op *op, const mt_value *list, const mt_tensor *t)
{
    if (MT_DEVICE_TYPE(t->device) != 0)
        return false;
    if (list != NULL)
        return strstr(op->schema, "Tensor?[] indices") != NULL;
    return t->dtype == MT_INT64 && t->rank == 1 &&
           (strstr(op->schema, "Tensor batch_sizes") != NULL || strstr(op->schema, "Tensor lengths") != NULL);
}

/* A 0-dim tensor may stay on the CPU while the others are elsewhere, if the op accepts it as a number.
 * list: that t is in, or NULL. */
static inline mt_status look_at(const mt__op *op, const mt_value *list, const mt_tensor *t, facts *f)
{
    f->tracked |= mt__tracks(t);
    if (MT__LIKELY(f->has_device && f->device == t->device))
        return MT_OK;
    if (!f->has_device) {
        f->device = t->device;
        f->has_device = t->rank > 0 || MT_DEVICE_TYPE(t->device) != 0;
        f->host_number |= !f->has_device;
        return MT_OK;
    }
    if ((t->rank == 0 && MT_DEVICE_TYPE(t->device) == 0) || op->id == MT_OP_copy_) {
        f->host_number = true;
        return MT_OK;
    }
    if (is_index(op, list, t))
        return MT_OK;
    return mt__mixed_devices(op, f->device, t->device);
}

/* Kernels of accelerators read such a number only if they declare it, and never write one. */
static mt_status check_host_number(const mt__op *op, const mt_value *args, const facts *f)
{
    bool writes = op->in_place && op->id != MT_OP_copy_ && args[0].kind == MT_TENSOR &&
                  args[0].as.tensor->device != f->device;
    bool takes = op->host_numbers || op->composite != NULL || op->view;
    for (unsigned i = 0; i < op->param_count; i++)
        takes |= op->params[i].type == MT_TYPE_DEVICE;
    if (writes || !takes)
        return mt__mixed_devices(op, f->device, MT_CPU);
    return MT_OK;
}

static mt_status examine(const mt__op *op, const mt_value *args, facts *f)
{
    mt_status status = MT_OK;
    for (unsigned i = 0; i < op->param_count && status == MT_OK; i++) {
        const mt_param *p = &op->params[i];
        const mt_value *v = &args[i];
        if (MT__UNLIKELY(!(allowed[p->type] & BIT(v->kind)))) {
            if (v->kind != MT_NONE || !p->optional)
                return bad_argument(op, i, v);
        } else if (v->kind == MT_TENSOR) {
            status = look_at(op, NULL, v->as.tensor, f);
        } else if (v->kind == MT_TENSORS) {
            for (uint32_t k = 0; k < v->count && status == MT_OK; k++)
                if (v->as.tensors[k] != NULL)
                    status = look_at(op, v, v->as.tensors[k], f);
                else if (!p->gaps)
                    status = mt__fail(MT_E_TYPE,
                                      "expected Tensor as element %u in argument %u, but got NoneType", k, i);
        } else if (MT__UNLIKELY(p->type == MT_TYPE_DEVICE)) {
            f->device = (mt_device)v->as.i;
            f->has_device = true;
        } else if (MT__UNLIKELY(p->type == MT_TYPE_DTYPE && (uint64_t)v->as.i >= MT_DTYPES)) {
            return mt__fail(MT_E_TYPE, "%s(): %lld is not a dtype", mt__op_short_name(op),
                            (long long)v->as.i);
        }
    }
    if (MT__UNLIKELY(f->host_number && MT_DEVICE_TYPE(f->device) != 0) && status == MT_OK)
        status = check_host_number(op, args, f);
    return status;
}

mt_status mt__complete(const mt__op *op, const mt_value *args, unsigned count, mt_value *full,
                       int64_t (*lists)[4])
{
    if (count > op->param_count)
        return mt__fail(MT_E_TYPE, "%s() takes %u arguments, %u were given: %s", mt__op_short_name(op),
                        op->param_count, count, op->schema);
    for (unsigned i = 0; i < op->param_count; i++) {
        const mt_param *p = &op->params[i];
        if (i < count) {
            full[i] = args[i];
        } else if (p->has_default) {
            full[i] = p->default_value;
        } else {
            return mt__fail(MT_E_TYPE, "%s() is missing its argument '%.*s': %s", mt__op_short_name(op),
                            (int)p->name_length, p->name, op->schema);
        }
        if (p->type == MT_TYPE_INTS && full[i].kind == MT_INT && p->ints > 0) {
            unsigned n = p->ints == MT_INTS_SPREAD ? 1 : p->ints > 4 ? 4 : p->ints;
            for (unsigned k = 0; k < n; k++)
                lists[i][k] = full[i].as.i;
            full[i] = mt_value_ints(lists[i], n);
        }
    }
    return MT_OK;
}

/* Is `args` usable as it is? */
static inline bool is_complete(const mt__op *op, const mt_value *args, unsigned count)
{
    if (count != op->param_count)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (MT__UNLIKELY(op->params[i].type == MT_TYPE_INTS && args[i].kind == MT_INT))
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------ running */

mt_status mt__call_outs(mt__call *call, uint32_t count)
{
    call->outs = calloc(count > 0 ? count : 1, sizeof *call->outs);
    if (call->outs == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: %u outputs of %s", count, call->op->name);
    call->out_count = count;
    return MT_OK;
}

static void drop_outs(mt__call *call)
{
    for (uint32_t i = 0; i < call->out_count; i++) {
        mt_release(call->outs[i]);
        call->outs[i] = NULL;
    }
}

/* Has an elementwise op an operand that does not lie in memory in the order of its dims? */
static inline bool lies_otherwise(const mt__call *call)
{
    for (unsigned i = 0; i < call->op->param_count; i++)
        if (call->args[i].kind == MT_TENSOR && !(call->args[i].as.tensor->flags & MT__CONTIGUOUS))
            return call->into == NULL && !call->op->in_place;
    return false;
}

static mt_status compute_as_is(mt__call *call);

/* The tensor that an in-place op changes: its first argument. */
static inline mt_tensor *written(const mt__call *call)
{
    return call->args[0].as.tensor;
}

/* For an op in place whose infer made a new tensor. */
static mt_status write_back(mt__call *call)
{
    mt_tensor *made = call->outs[0];
    mt_value args[] = {mt_value_tensor(written(call)), mt_value_tensor(made), mt_value_truth(false)};
    mt__call copy = {.op = &mt__ops[MT_OP_copy_],
                     .args = args,
                     .outs = call->outs,
                     .out_count = 1,
                     .device = call->device};
    call->outs[0] = NULL;
    mt_status status = compute_as_is(&copy);
    mt_release(made);
    return status;
}

static mt_status compute_as_is(mt__call *call)
{
    const mt__op *op = call->op;
    mt_status status = MT__UNLIKELY(call->into != NULL) ? mt__infer_into(call) : op->infer(call);
    if (status != MT_OK || op->view)
        return status;
    mt__fn *kernel = op->kernels[MT_DEVICE_TYPE(call->device)];
    if (MT__UNLIKELY(kernel == NULL))
        return mt__fail(MT_E_NOT_IMPLEMENTED, "%s has no kernel for device %s", op->name,
                        mt__device_text(call->device));
    if (MT__UNLIKELY(call->recorded && op->copies)) {
        mt_value no = mt_value_truth(false);
        mt_value args[] = {mt_value_tensor(call->outs[0]), call->args[0],
                           op->id == MT_OP__to_copy ? call->args[3] : no};
        return mt__record_part(call, MT_OP_copy_, NULL, args, kernel);
    }
    status = MT__UNLIKELY(mt__has_narrow(call)) ? mt__compute_narrow(call, kernel) : kernel(call);
    return MT__UNLIKELY(op->in_place) && call->outs[0] != written(call) && status == MT_OK ? write_back(call)
                                                                                           : status;
}

static mt_status infer_and_compute(mt__call *call)
{
    return call->op->elementwise && !call->op->packed && MT__UNLIKELY(lies_otherwise(call))
               ? mt__compute_in_order(call, compute_as_is)
               : compute_as_is(call);
}

mt_status mt__compute(mt__call *call)
{
    return infer_and_compute(call);
}

/* Two tensors of the compute dtype need none of the conversions in numbers.c. */
static bool is_plain(const mt__call *call)
{
    const mt_value *a = &call->args[0], *b = &call->args[1];
    return a->kind == MT_TENSOR && b->kind == MT_TENSOR && a->as.tensor->dtype == b->as.tensor->dtype &&
           (!call->op->floats || mt__is_floating((mt_dtype)a->as.tensor->dtype));
}

__attribute__((noinline)) static mt_status compute_with_numbers(mt__call *call)
{
    return is_plain(call) ? infer_and_compute(call) : mt__compute_recorded(call);
}

static mt_status run_kernel(mt__call *call)
{
    mt_status status = MT__UNLIKELY(call->recorded && call->op->numbers != MT__NUMBERS_STAY)
                           ? compute_with_numbers(call)
                           : infer_and_compute(call);
    if (MT__UNLIKELY(call->drop_scratch != NULL))
        call->drop_scratch(call->scratch);
    return status;
}

static inline mt_status run_or_hand_over(mt__call *call)
{
    return MT__UNLIKELY(mt__interceptor.fn != NULL) ? mt__hand_over(call) : run_kernel(call);
}

/* Views whose base has changed get their new history, or are refused, before the op computes. */
static mt_status refresh_args(const mt__call *call)
{
    mt_status status = MT_OK;
    for (unsigned i = 0; i < call->op->param_count && status == MT_OK; i++) {
        const mt_value *v = &call->args[i];
        uint32_t n = v->kind == MT_TENSOR ? 1 : v->kind == MT_TENSORS ? v->count : 0;
        mt_tensor *const *list = v->kind == MT_TENSOR ? &v->as.tensor : v->as.tensors;
        for (uint32_t k = 0; k < n && status == MT_OK; k++)
            status = list[k] != NULL ? mt__fresh(list[k]) : MT_OK;
    }
    return status;
}

static mt_status run_tracked(mt__call *call)
{
    const mt__op *op = call->op;
    mt_tensor *original = NULL;
    mt_status status = refresh_args(call);
    if (MT__UNLIKELY(op->constants != 0) && status == MT_OK)
        status = mt__check_constants(call);
    if (status == MT_OK && op->in_place) {
        status = mt__in_place_check(call);
        if (status == MT_OK && (op->save_for[0] & mt__tracked_args(call))) {
            mt_value self = mt_value_tensor(written(call));
            status = call->recorded && mt__interceptor.fn == NULL
                         ? mt__call_below(MT_OP_clone, &self, 1, &original)
                         : mt__run_quietly(MT_OP_clone, &self, 1, &original);
            if (status == MT_OK && written(call)->grad_fn != NULL) { /* for second derivatives */
                original->grad_fn = mt_node_retain(written(call)->grad_fn);
                original->output = written(call)->output;
            }
        }
    }
    if (status == MT_OK)
        status = run_or_hand_over(call);
    if (status == MT_OK)
        status = mt__record_node(call, original);
    mt_release(original);
    return status;
}

static inline mt_status run_new(mt__call *call, bool tracked)
{
    const mt__op *op = call->op;
    if (op->composite != NULL) {
        if (MT__UNLIKELY(mt__interceptor.fn != NULL && op->factory))
            return mt__hand_over(call);
        mt_scope scope;
        mt_scope_enter(&scope);
        mt_status status = op->composite(call);
        if (status == MT_OK)
            status = scope.status;
        if (status == MT_OK && op->factory && call->into == NULL)
            call->outs[0]->storage->version = 0; /* filling it was not a change */
        scope.status = MT_OK;                    /* our return value reports it */
        mt_scope_leave(&scope);
        return status;
    }
    if (MT__UNLIKELY(tracked && mt__grad_mode && (op->grad != NULL || op->in_place)))
        return run_tracked(call);
    mt_status status = run_or_hand_over(call);
    if ((op->in_place || op->view) && status == MT_OK && !mt__interceptor.below_autograd) {
        if (op->in_place)
            ++*mt__version(written(call));
        if (op->view)
            status = mt__note_view(call);
    }
    return status;
}

static inline mt_status run(mt__call *call, bool tracked)
{
    mt_status status = run_new(call, tracked);
    return MT__UNLIKELY(call->into != NULL) && status == MT_OK ? mt__settle(call) : status;
}

/* ---------------------------------------------------------------------------------------------- recording */

#define LIST_ITEMS 64
#define MORE_INPUTS (4 + MT__MAX_OUTS) /* layout, pin_memory, two missing ones; out= */

/* Assigned on first use; two threads that race agree on one number. */
static uint64_t number_of(mt_tensor *t)
{
    static _Atomic uint64_t last;
    uint64_t number = atomic_load_explicit(&t->number, memory_order_relaxed);
    if (MT__LIKELY(number != 0))
        return number;
    uint64_t mine = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return atomic_compare_exchange_strong_explicit(&t->number, &number, mine, memory_order_relaxed,
                                                   memory_order_relaxed)
               ? mine
               : number;
}

void mt__describe_tensor(mtp_input *in, mtp_identity *identity, mt_tensor *t)
{
#define X(sym, ...) [MT_##sym] = MTP_##sym,
    static const uint8_t dtypes[MT_DTYPES] = {MT_DTYPE_LIST(X)};
#undef X
    in->kind = MTP_INPUT_TENSOR;
    in->dtype = dtypes[t->dtype];
    in->count = t->rank;
    in->dims = t->dims;
    in->strides = t->strides;
    *identity = (mtp_identity){.tensor = number_of(t), .device = t->device};
    if (t->storage != NULL && t->storage->bytes > 0)
        identity->storage = (uint64_t)(uintptr_t)t->storage->data;
    in->value.identity = identity;
}

mt_status mt_tensor_describe(mt_tensor *t, mtp_input *in, mtp_identity *identity)
{
    if (t == NULL || in == NULL || identity == NULL)
        return mt__fail(MT_E_VALUE, "mt_tensor_describe: an argument is NULL");
    memset(in, 0, sizeof *in);
    mt__describe_tensor(in, identity, t);
    return MT_OK;
}

/* Describes the arguments of one call. */
typedef struct description {
    mtp_input inputs[MT__MAX_ARGS + MORE_INPUTS], items[LIST_ITEMS];
    mtp_identity identity[MT__MAX_ARGS + MORE_INPUTS + LIST_ITEMS]; /* of inputs, then items */
    unsigned used;                                                  /* items */
} description;

/* Inlined into its callers: it runs for each argument of each op with shapes. */
__attribute__((always_inline)) static inline void describe(description *d, unsigned i, const mt_value *v)
{
    mtp_input *in = &d->inputs[i], *items = d->items;
    unsigned *used = &d->used;
    memset(in, 0, sizeof *in);
    switch ((mt_kind)v->kind) {
    case MT_NONE:
        break;
    case MT_TENSOR:
        mt__describe_tensor(in, &d->identity[i], v->as.tensor);
        break;
    case MT_TENSORS:
        in->kind = MTP_INPUT_TENSOR_LIST;
        in->value.items = items + *used;
        for (uint32_t k = 0; k < v->count && *used < LIST_ITEMS; k++, in->count++, (*used)++) {
            memset(&items[*used], 0, sizeof *items);
            if (v->as.tensors[k] != NULL)
                mt__describe_tensor(&items[*used], &d->identity[MT__MAX_ARGS + MORE_INPUTS + *used],
                                    v->as.tensors[k]);
        }
        break;
    case MT_INT:
        in->kind = MTP_INPUT_INT;
        in->value.i = v->as.i;
        break;
    case MT_FLOAT:
        in->kind = MTP_INPUT_FLOAT;
        in->value.f = v->as.f;
        break;
    case MT_TRUTH:
        in->kind = MTP_INPUT_BOOL;
        in->value.i = v->as.i;
        break;
    case MT_INTS:
        in->kind = MTP_INPUT_INT_LIST;
        in->count = v->count;
        in->dims = v->as.ints;
        break;
    case MT_TEXT:
        in->kind = MTP_INPUT_TEXT;
        in->count = v->count;
        in->value.text = v->as.text;
        break;
    }
}

/* A value in the form of the schema, by which profiles identify ops: the meaning of an integer depends on its
 * position. PyTorch records nothing for a device, and its own number for a dtype. */
static mt_value as_declared(const mt_value *v, const mt_param *p)
{
    mt_value declared = *v;
    if (p->type == MT_TYPE_DEVICE)
        return (mt_value){.kind = MT_NONE};
    if (v->kind != MT_INT)
        return declared;
    if (p->type == MT_TYPE_DTYPE) {
        declared.as.i = mt_dtype_describe((mt_dtype)v->as.i)->number;
    } else if (p->type == MT_TYPE_BOOL) {
        declared.kind = MT_TRUTH;
    } else if (p->type == MT_TYPE_FLOAT) {
        declared.kind = MT_FLOAT;
        declared.as.f = (double)v->as.i;
    }
    return declared;
}

static unsigned describe_as_is(const mt__call *call, description *d)
{
    unsigned n = call->op->param_count;
    d->used = 0;
    for (unsigned i = 0; i < n; i++)
        describe(d, i, &call->args[i]);
    return n;
}

/* The arguments of PyTorch's op. Between a dtype and a device it has a layout, and after them pin_memory, as
 * in mt_op_recorded_schema(). */
static unsigned describe_all(const mt__call *call, description *d)
{
    static const mt_value none = {.kind = MT_NONE}, no = {.kind = MT_TRUTH};
    const mt__op *op = call->op;
    unsigned n = 0;
    d->used = 0;
    for (unsigned i = 0; i < op->param_count; i++) {
        if (call->into != NULL && op->options >= 0 && (int)i >= op->options && (int)i <= op->options + 1)
            continue; /* out= determines dtype and device */
        mt_value v = as_declared(&call->args[i], &op->params[i]);
        describe(d, n++, &v);
        if ((int)i == op->options)
            describe(d, n++, &none);
        if ((int)i == op->options + 1 && op->options >= 0)
            describe(d, n++, op->id == MT_OP__to_copy ? &none : &no);
    }
    for (unsigned i = 0; i < op->missing_count; i++)
        describe(d, n++, &op->missing_value);
    return n;
}

/* All inputs that a profile shows: the arguments, then the tensors of out=. */
static unsigned describe_inputs(const mt__call *call, description *d)
{
    unsigned n = call->op->as_is ? describe_as_is(call, d) : describe_all(call, d);
    for (uint32_t i = 0; MT__UNLIKELY(call->into != NULL) && i < call->out_count; i++) {
        mt_value v = mt_value_tensor(call->into[i]);
        describe(d, n++, &v);
    }
    return n;
}

/* Would PyTorch's dispatcher send this call through autograd? */
static bool has_tensor(const mt__call *call)
{
    for (unsigned i = 0; i < call->op->param_count; i++)
        if (call->args[i].kind == MT_TENSOR || call->args[i].kind == MT_TENSORS)
            return true;
    return false;
}

static MT__FAST_TLS bool below_autograd; /* within a factory */

static int64_t allocated_now(mt_device device, uint32_t recording)
{
    mt_memory_stats stats = {.size = sizeof stats};
    return (recording & MTP_WITH_MEMORY) && mt_memory(device, &stats) == MT_OK ? (int64_t)stats.allocated
                                                                               : -1;
}

MT__FAST_TLS uint32_t mt__recorded_depth;
MT__FAST_TLS bool mt__within_op;

/* A tensor that the user passes to an op is an input if autograd tracks the op or it is older than the
 * recording, provided it has no other category and depends on no gradient. */
static void meet(mt_tensor *t, uint32_t recording, bool tracked)
{
    mt_storage *s = t->storage;
    bool older = atomic_load_explicit(&s->session, memory_order_relaxed) != MTP_SESSION(recording);
    if (s->category == MTP_MEMORY_TEMPORARY && mt__recorded_depth == 0 && (tracked || older) &&
        mt__is_input(t))
        mt_tensor_tag(t, MTP_MEMORY_INPUT);
    else if (older)
        mt__storage_report_existing(s, recording);
}

static void meet_arguments(const mt__call *call, uint32_t recording, bool tracked)
{
    for (unsigned i = 0; i < call->op->param_count; i++) {
        const mt_value *v = &call->args[i];
        if (v->kind == MT_TENSOR)
            meet(v->as.tensor, recording, tracked);
        for (uint32_t k = 0; v->kind == MT_TENSORS && k < v->count; k++)
            if (v->as.tensors[k] != NULL)
                meet(v->as.tensors[k], recording, tracked);
    }
    for (uint32_t i = 0; MT__UNLIKELY(call->into != NULL) && i < call->out_count; i++)
        meet(call->into[i], recording, false);
}

static uint32_t name_of(mt__op *op)
{
    uint32_t name = __atomic_load_n(&op->name_id, __ATOMIC_RELAXED);
    if (MT__UNLIKELY(name == 0))
        __atomic_store_n(&op->name_id, name = mtp_name(op->name), __ATOMIC_RELAXED);
    return name;
}

/* A part of an op's work: the name it is recorded under, and its function. */
typedef struct part {
    const char *as; /* NULL: the op's name */
    mt__fn *work;
    mt__call *of;
} part;

/* Runs the call or, if given, a part of another call that is recorded as this one; or all of it, around casts. */
__attribute__((noinline)) static mt_status run_recorded(mt__call *call, bool tracked, const part *p)
{
    mt__op *op = &mt__ops[call->op->id];
    mtp_op record = MTP_OP_INIT(p == NULL || p->as == NULL ? name_of(op) : mtp_name(p->as));
    description given;
    uint32_t recording = mtp_recording();
    record.device = call->device;
    bool was_below = below_autograd;
    bool around = p != NULL && p->of == call;
    below_autograd |= op->factory || (p != NULL && !around);
    if (mt__grad_mode && !below_autograd && has_tensor(call))
        record.sequence = (int64_t)mt__sequence;
    if (recording & MTP_WITH_SHAPES) {
        record.input_count = describe_inputs(call, &given);
        record.inputs = given.inputs;
        record.flags = MTP_OP_IDENTIFIED;
    }
    if ((recording & MTP_WITH_FLOPS) != 0 && op->flops != NULL && !around)
        record.flops = op->flops(call);
    record.allocated = allocated_now(call->device, recording);
    if (recording & MTP_WITH_MEMORY)
        meet_arguments(call, recording, tracked && mt__grad_mode);
    mtp_op_begin(&record);
    bool was_within = mt__within_op;
    mt__recorded_depth++;
    mt__within_op = call->recorded = true;
    mt_status status = p == NULL ? run(call, tracked) : p->work(p->of);
    mt__within_op = was_within;
    mt__recorded_depth--;
    below_autograd = was_below;
    record.allocated = allocated_now(call->device, recording);
    mtp_op_end(&record);
    return status;
}

mt_status mt__record_part(mt__call *call, mt_op_id op, const char *as, const mt_value *args, mt__fn *work)
{
    part p = {as, work, call};
    mt__call as_op = {.op = &mt__ops[op], .args = args, .device = call->device};
    return mtp_recording() & MTP_CPU ? run_recorded(&as_op, false, &p) : work(call);
}

mt_status mt__call_below(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs)
{
    bool was_below = below_autograd, followed = mt_grad_enable(false);
    below_autograd = true;
    mt_status status = mt_call(op, args, count, outs);
    below_autograd = was_below;
    mt_grad_enable(followed);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the way in */

static mt_status record_as_it_is(mt__call *call, bool tracked)
{
    return run_recorded(call, tracked, NULL);
}

static mt_status record(mt__call *call, bool tracked)
{
    if (MT__UNLIKELY(call->op->numbers == MT__NUMBERS_OUTSIDE && call->args[1].kind != MT_TENSOR) &&
        !mt__within_op && mt__wraps_outside(call))
        return mt__with_number(call, record_as_it_is, tracked);
    return run_recorded(call, tracked, NULL);
}

/* Autocast is recorded as the op, around the casts and the op itself. */
static mt_status run_around(mt__call *call, bool tracked)
{
    part p = {NULL, mt__call_autocast, call};
    return run_recorded(call, tracked, &p);
}

mt_status mt__call_op(mt__call *call)
{
    facts f = {mt__default_device, false, false};
    mt_status status = examine(call->op, call->args, &f);
    call->device = f.device;
    if (MT__UNLIKELY(call->into != NULL) && status == MT_OK)
        status = mt__check_into(call, f.tracked);
    if (MT__UNLIKELY(status != MT_OK))
        return status;
    if (MT__UNLIKELY(mt__autocast != 0) && mt__autocasts(call))
        return MT__UNLIKELY(mtp_recording() & MTP_CPU) ? run_around(call, f.tracked)
                                                       : mt__call_autocast(call);
    status = MT__UNLIKELY(mtp_recording() & MTP_CPU) ? record(call, f.tracked) : run(call, f.tracked);
    if (MT__UNLIKELY(status != MT_OK))
        drop_outs(call);
    return status;
}

/* Completes the arguments if necessary, then calls. */
static mt_status complete_and_call(mt__call *call, const mt_value *args, unsigned count)
{
    if (MT__LIKELY(is_complete(call->op, args, count))) {
        call->args = args;
        return mt__call_op(call);
    }
    mt_value full[MT__MAX_ARGS];
    int64_t lists[MT__MAX_ARGS][4];
    mt_status status = mt__complete(call->op, args, count, full, lists);
    call->args = full;
    if (status == MT_OK)
        status = mt__call_op(call);
    call->args = NULL; /* local to this function */
    return status;
}

mt_status mt_call(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs)
{
    if (MT__UNLIKELY(op >= MT_OP_COUNT || mt__ops[op].out_count == 0))
        return mt__fail(MT_E_VALUE, "mt_call: %s",
                        op >= MT_OP_COUNT ? "no such op" : "the op returns a list: use mt_call_list");
    mt__call call = {.op = &mt__ops[op], .outs = outs, .out_count = mt__ops[op].out_count};
    for (uint32_t i = 0; i < call.out_count; i++)
        outs[i] = NULL;
    return complete_and_call(&call, args, count);
}

mt_status mt_call_list(mt_op_id op, const mt_value *args, unsigned count, mt_tensor ***list, unsigned *length)
{
    *list = NULL;
    *length = 0;
    if (op >= MT_OP_COUNT || mt__ops[op].out_count != 0)
        return mt__fail(MT_E_VALUE, "mt_call_list: %s",
                        op >= MT_OP_COUNT ? "no such op" : "the op does not return a list");
    mt__call call = {.op = &mt__ops[op]};
    mt_status status = complete_and_call(&call, args, count);
    if (status != MT_OK) {
        free(call.outs);
        return status;
    }
    *list = call.outs;
    *length = call.out_count;
    return MT_OK;
}

void mt_list_free(mt_tensor **list, unsigned length)
{
    for (unsigned i = 0; i < length; i++)
        mt_release(list[i]);
    free(list);
}

mt_status mt__run_quietly(mt_op_id id, const mt_value *args, unsigned count, mt_tensor **outs)
{
    const mt__op *op = &mt__ops[id];
    mt_value full[MT__MAX_ARGS];
    int64_t lists[MT__MAX_ARGS][4];
    mt__call call = {.op = op, .args = full, .outs = outs, .out_count = op->out_count};
    for (uint32_t i = 0; i < call.out_count; i++)
        outs[i] = NULL;
    facts f = {mt__default_device, false, false};
    mt_status status = mt__complete(op, args, count, full, lists);
    if (status == MT_OK)
        status = examine(op, full, &f);
    call.device = f.device;
    if (status == MT_OK)
        status = run_kernel(&call);
    if (status == MT_OK && op->in_place)
        ++*mt__version(written(&call));
    if (status != MT_OK)
        drop_outs(&call);
    return status;
}
