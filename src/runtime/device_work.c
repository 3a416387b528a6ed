/* runtime/device_work.c - work for accelerators: launches, copies and fills on a stream, each told to the profiler.
 *
 * While a profile runs, every call is a runtime event on the host's thread with a correlation id, and its plug-in event
 * goes into the ring of flights. The ring is read, oldest first and without waiting, when a quarter of it is filled
 * again; only when it is full does anyone wait, for its oldest. What is in flight when a cycle ends is waited for then.
 *
 * The device's clock is told at the first work of a cycle, then about every second, and at the end.
 */
#define _GNU_SOURCE
#include "runtime/device.h"
#include <stdlib.h>

enum call {
    LAUNCH,
    COPY_IN,
    COPY_OUT,
    COPY,
    FILL,
    SYNCHRONIZE,
    GEMM,
    CALLS
};

static uint32_t call_name(const mt__npu *npu, enum call which)
{
    static uint32_t names[CALLS]; /* relaxed: the same text gives the same id */
    uint32_t id = __atomic_load_n(&names[which], __ATOMIC_RELAXED);
    if (MT__UNLIKELY(id == 0))
        __atomic_store_n(&names[which], id = mtp_name(npu->api->calls[which]), __ATOMIC_RELAXED);
    return id;
}

/* ------------------------------------------------------------------------------------------------ the clock */

/* The narrowest of a few readings. Half its width is the error. */
static void tell_clock(mt__npu *npu)
{
    uint64_t best = UINT64_MAX, device_best = 0, middle = 0, first_ns = mtp_now_ns(), first = mtp_ticks();
    for (int i = 0; i < 4; i++) {
        uint64_t device, before, after;
        if (npu->api->clock(npu->own.handle, mtp_ticks, &device, &before, &after) != MTP_OK)
            return;
        if (after - before < best) {
            best = after - before;
            device_best = device;
            middle = before + best / 2;
        }
    }
    uint64_t ns = mtp_now_ns() - first_ns, ticks = mtp_ticks() - first;
    double half = ticks > 0 ? (double)best / 2 * (double)ns / (double)ticks : 0;
    mtp_device_clock(npu->device, device_best, middle,
                     (uint64_t)half + npu->properties.clock_resolution_ns + 1);
    npu->clocked = true;
    npu->clocked_ns = mtp_now_ns();
}

/* ------------------------------------------------------------------------------------------------- harvesting */

static void tell(const mt__npu *npu, mt__flight *f)
{
    mtp_plugin_times t;
    if (f->work.name != 0 && npu->api->event_times(f->event, &t) == MTP_OK) {
        f->work.start = t.start;
        f->work.end = t.end > t.start ? t.end : t.start;
        f->work.queued = t.queued;
        f->work.clock = MTP_CLOCK_DEVICE;
        mtp_device_event(&f->work);
    }
    npu->api->event_release(f->event);
    mt__storage_release(f->held);
    f->held = NULL;
}

/* On a single stream one question about a late flight answers for all before it. */
static uint32_t done_at_least(const mt__npu *npu)
{
    uint32_t most = npu->flight_count - npu->flight_count / 4;
    bool done = false;
    if (npu->own.next == NULL && most > 16)
        npu->api->event_done(npu->flights[(npu->flight_first + most - 1) % MT__FLIGHTS].event, &done);
    return done ? most : 0;
}

void mt__npu_harvest(mt__npu *npu, bool wait)
{
    if (wait && npu->flight_count > 0) {
        for (mt_stream *s = &npu->own; s != NULL; s = s->next)
            npu->api->stream_synchronize(s->handle);
    }
    uint32_t sure = wait ? npu->flight_count : done_at_least(npu);
    while (npu->flight_count > 0) {
        mt__flight *f = &npu->flights[npu->flight_first];
        bool done = sure > 0;
        if (!done)
            npu->api->event_done(f->event, &done);
        if (!done)
            break;
        sure -= sure > 0;
        tell(npu, f);
        npu->flight_first = (npu->flight_first + 1) % MT__FLIGHTS;
        npu->flight_count--;
    }
    if (wait && npu->clocked && (mtp_recording() & MTP_NPU))
        tell_clock(npu);
}

static void fly(mt__npu *npu, mtp_plugin_event *event, const mtp_device_work *work, mt_storage *held)
{
    if (npu->flight_count == MT__FLIGHTS) {
        npu->api->event_wait(npu->flights[npu->flight_first].event);
        mt__npu_harvest(npu, false);
    } else if (npu->flight_count > 0 && npu->flight_count % (MT__FLIGHTS / 4) == 0) {
        mt__npu_harvest(npu, false);
    }
    mt__flight *f = &npu->flights[(npu->flight_first + npu->flight_count++) % MT__FLIGHTS];
    f->event = event;
    f->held = held != NULL ? mt__storage_retain(held) : NULL;
    if (work != NULL)
        f->work = *work;
    else
        f->work.name = 0;
}

/* ----------------------------------------------------------------------------------------- around each call */

typedef struct told {
    mtp_op op;
    mtp_device_work work;
    mtp_plugin_event *event;
    bool on;
} told;

/* The lock is held. */
static void before(mt__npu *npu, told *t, enum call which, uint32_t name, uint32_t kind, uint64_t bytes,
                   const mt_stream *stream)
{
    t->event = NULL;
    t->on = (mtp_recording() & MTP_NPU) != 0;
    if (MT__LIKELY(!t->on))
        return;
    if (MT__UNLIKELY(!npu->clocked || mtp_now_ns() - npu->clocked_ns > 1000000000u))
        tell_clock(npu);
    t->op = (mtp_op)MTP_OP_INIT(call_name(npu, which));
    t->op.kind = MTP_SCOPE_RUNTIME;
    t->op.correlation = mtp_correlation_next();
    t->work = (mtp_device_work)MTP_DEVICE_WORK_INIT(name, npu->device);
    t->work.kind = kind;
    t->work.stream = stream->id;
    t->work.correlation = t->op.correlation;
    t->work.bytes = bytes;
    mtp_op_begin(&t->op);
}

static mt_status after(mt__npu *npu, told *t, mt_stream *stream, mtp_status status, const char *what,
                       mt_storage *held)
{
    if (MT__UNLIKELY(t->on))
        mtp_op_end(&t->op);
    if (t->event != NULL)
        fly(npu, t->event, t->on ? &t->work : NULL, held);
    if (++npu->launches % 16 == 0)
        npu->api->stream_flush(stream->handle);
    pthread_mutex_unlock(&npu->lock);
    return status == MTP_OK ? MT_OK : mt__npu_fail(npu, status, what);
}

/* ---------------------------------------------------------------------------------------------------- launches */

mt_status mt__launch_begin(mt__launch *l, mt_device device)
{
    l->count = l->used = 0;
    l->may_fault = false;
    return mt__npu_of(device, &l->npu);
}

void mt__launch_memory(mt__launch *l, mtp_plugin_memory *memory)
{
    mtp_plugin_arg *a = &l->args[l->count++];
    a->kind = 0;
    a->bytes = 0;
    a->as.memory = memory;
}

void mt__launch_value(mt__launch *l, const void *value, uint32_t bytes)
{
    mtp_plugin_arg *a = &l->args[l->count++];
    memcpy(&l->bytes[l->used], value, bytes);
    a->kind = 1;
    a->bytes = bytes;
    a->as.value = &l->bytes[l->used];
    l->used += (bytes + 7) / 8;
}

void mt__launch_fault(mt__launch *l)
{
    mt__launch_memory(l, l->npu->fault);
    l->may_fault = true;
}

mt_status mt__launch_run(mt__launch *l, const mt__kernel *k, uint32_t dims, const uint64_t *global,
                         const uint64_t *local)
{
    mt__npu *npu = l->npu;
    mt_stream *stream = mt__stream_now(npu);
    told t;
    for (uint32_t i = 0; i < dims; i++)
        if (global[i] == 0)
            return MT_OK;
    pthread_mutex_lock(&npu->lock);
    before(npu, &t, LAUNCH, k->name, MTP_DEVICE_KERNEL, 0, stream);
    if (MT__UNLIKELY(t.on)) {
        for (uint32_t i = 0; i < 3; i++) {
            uint64_t block = i < dims && local != NULL ? local[i] : 1;
            t.work.block[i] = (uint32_t)block;
            t.work.grid[i] = i < dims ? (uint32_t)(global[i] / block) : 1;
        }
    }
    npu->may_fault |= l->may_fault;
    mtp_status status = npu->api->launch(stream->handle, k->handle, dims, global, local, l->args, l->count,
                                         t.on ? &t.event : NULL);
    return after(npu, &t, stream, status, "launch", NULL);
}

/* --------------------------------------------------------------------------------------------- kernels by key */

static mt__kernel *slot_of(mt__kernel *table, uint32_t room, uint64_t key)
{
    uint32_t i = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 40) & (room - 1);
    while (table[i].key != 0 && table[i].key != key)
        i = (i + 1) & (room - 1);
    return &table[i];
}

static mt_status make_room(mt__npu *npu)
{
    if (npu->kernel_count * 2 < npu->kernel_room)
        return MT_OK;
    uint32_t room = npu->kernel_room > 0 ? npu->kernel_room * 2 : 256;
    mt__kernel *table = calloc(room, sizeof *table);
    if (table == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: a table of kernels");
    for (uint32_t i = 0; i < npu->kernel_room; i++)
        if (npu->kernels[i].key != 0)
            *slot_of(table, room, npu->kernels[i].key) = npu->kernels[i];
    free(npu->kernels);
    npu->kernels = table;
    npu->kernel_room = room;
    return MT_OK;
}

/* The lock is held, so that a kernel is built once. */
static mt_status build(mt__npu *npu, uint64_t key, mt__source_fn *write, const void *user, mt__kernel *out)
{
    char name[96] = "";
    mt_status status = make_room(npu);
    if (status != MT_OK)
        return status;
    char *source = write(user, npu, name, sizeof name);
    if (source == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: the source of a kernel");
    mtp_status built = npu->api->kernel_build(npu->handle, source, "", name, &out->handle);
    free(source);
    if (built != MTP_OK)
        return mt__npu_fail(npu, built, name);
    out->key = key;
    out->name = mtp_name(name);
    *slot_of(npu->kernels, npu->kernel_room, key) = *out;
    npu->kernel_count++;
    return MT_OK;
}

mt_status mt__npu_kernel(mt__npu *npu, uint64_t key, mt__source_fn *write, const void *user, mt__kernel *out)
{
    mt_status status = MT_OK;
    pthread_mutex_lock(&npu->lock);
    const mt__kernel *k = npu->kernel_room > 0 ? slot_of(npu->kernels, npu->kernel_room, key) : NULL;
    if (MT__LIKELY(k != NULL && k->key == key))
        *out = *k;
    else
        status = build(npu, key, write, user, out);
    pthread_mutex_unlock(&npu->lock);
    return status;
}

/* ------------------------------------------------------------------------------------------------------ copies */

#define NAMED(text)                                                                                          \
    (__extension__({                                                                                         \
        static uint32_t id;                                                                                  \
        uint32_t seen = __atomic_load_n(&id, __ATOMIC_RELAXED);                                              \
        if (seen == 0)                                                                                       \
            __atomic_store_n(&id, seen = mtp_name(text), __ATOMIC_RELAXED);                                  \
        seen;                                                                                                \
    }))

mt_status mt__npu_copy_in(mt__npu *npu, mtp_plugin_memory *to, uint64_t at, const void *from, uint64_t bytes,
                          mt_storage *hold)
{
    mt_stream *stream = mt__stream_now(npu);
    told t;
    pthread_mutex_lock(&npu->lock);
    before(npu, &t, COPY_IN, NAMED("Memcpy HtoD (Pageable -> Device)"), MTP_DEVICE_MEMCPY, bytes, stream);
    mtp_status status = npu->api->copy_in(stream->handle, to, at, from, bytes, hold == NULL,
                                          t.on || hold != NULL ? &t.event : NULL);
    return after(npu, &t, stream, status, "copy to the device", hold);
}

mt_status mt__npu_copy_out(mt__npu *npu, void *to, mtp_plugin_memory *from, uint64_t at, uint64_t bytes)
{
    mt_stream *stream = mt__stream_now(npu);
    told t;
    pthread_mutex_lock(&npu->lock);
    before(npu, &t, COPY_OUT, NAMED("Memcpy DtoH (Device -> Pageable)"), MTP_DEVICE_MEMCPY, bytes, stream);
    mtp_status status = npu->api->copy_out(stream->handle, to, from, at, bytes, true, t.on ? &t.event : NULL);
    mt_status copied = after(npu, &t, stream, status, "copy from the device", NULL);
    return copied == MT_OK ? mt__npu_check_fault(npu) : copied;
}

mt_status mt__npu_copy(mt__npu *npu, mtp_plugin_memory *to, uint64_t to_at, mtp_plugin_memory *from,
                       uint64_t from_at, uint64_t bytes)
{
    mt_stream *stream = mt__stream_now(npu);
    told t;
    pthread_mutex_lock(&npu->lock);
    before(npu, &t, COPY, NAMED("Memcpy DtoD (Device -> Device)"), MTP_DEVICE_MEMCPY, bytes, stream);
    mtp_status status =
        npu->api->copy(stream->handle, to, to_at, from, from_at, bytes, t.on ? &t.event : NULL);
    return after(npu, &t, stream, status, "copy on the device", NULL);
}

mt_status mt__npu_fill(mt__npu *npu, mtp_plugin_memory *to, uint64_t at, uint64_t bytes, const void *pattern,
                       uint32_t pattern_bytes)
{
    mt_stream *stream = mt__stream_now(npu);
    told t;
    pthread_mutex_lock(&npu->lock);
    before(npu, &t, FILL, NAMED("Memset (Device)"), MTP_DEVICE_MEMSET, bytes, stream);
    mtp_status status =
        npu->api->fill(stream->handle, to, at, bytes, pattern, pattern_bytes, t.on ? &t.event : NULL);
    return after(npu, &t, stream, status, "fill", NULL);
}

mt_status mt__npu_gemm(mt__npu *npu, const mtp_plugin_gemm *gemm)
{
    if (npu->api->gemm_name == NULL || npu->api->gemm_name(npu->handle) == NULL)
        return MT_E_NOT_IMPLEMENTED;
    mt_stream *stream = mt__stream_now(npu);
    told t;
    pthread_mutex_lock(&npu->lock);
    before(npu, &t, GEMM, gemm->dtype == MTP_FLOAT32 ? NAMED("clblast_sgemm") : NAMED("clblast_dgemm"),
           MTP_DEVICE_KERNEL, 0, stream);
    mtp_status status = npu->api->gemm(stream->handle, gemm, t.on ? &t.event : NULL);
    if (status == MTP_E_UNSUPPORTED) {
        after(npu, &t, stream, MTP_OK, "gemm", NULL);
        return MT_E_NOT_IMPLEMENTED;
    }
    return after(npu, &t, stream, status, "gemm", NULL);
}

/* ---------------------------------------------------------------------------------------------------- waiting */

/* What kernels/opencl/prelude.cl calls FAULT_*, in the words of the CPU's kernels. */
static mt_status fail_as(const int64_t fault[4])
{
#define EARLIER " (found by an earlier op on the device)"
    long long value = fault[1], dim = fault[2], size = fault[3];
    switch ((int32_t)fault[0]) {
    case 0:
        return MT_OK;
    case 1:
        return mt__fail(MT_E_INDEX, "index out of range in self" EARLIER);
    case 2:
        return mt__fail(MT_E_RUNTIME, "ZeroDivisionError" EARLIER);
    case 3:
        return mt__fail(MT_E_INDEX, "Target %lld is out of bounds." EARLIER, value);
    case 4:
        return mt__fail(MT_E_RUNTIME, "all elements of input should be between 0 and 1" EARLIER);
    case 5:
        return mt__fail(MT_E_RUNTIME, "all elements of target should be between 0 and 1" EARLIER);
    case 6:
    case 7:
        return mt__fail((int32_t)fault[0] == 6 ? MT_E_INDEX : MT_E_RUNTIME,
                        "index %lld is out of bounds for dimension %lld with size %lld" EARLIER, value, dim,
                        size);
    case 8:
        return mt__fail(MT_E_RUNTIME, "Expected p_in >= 0 && p_in <= 1 to be true, but got false." EARLIER);
    default:
        return mt__fail(MT_E_RUNTIME, "the device's fault word is %d, which means nothing",
                        (int32_t)fault[0]);
    }
#undef EARLIER
}

mt_status mt__npu_check_fault(mt__npu *npu)
{
    int64_t fault[4] = {0}, none[4] = {0};
    mtp_status status = MTP_OK;
    pthread_mutex_lock(&npu->lock);
    if (npu->may_fault) {
        mtp_plugin_stream *stream = mt__stream_now(npu)->handle;
        status = npu->api->copy_out(stream, fault, npu->fault, 0, sizeof fault, true, NULL);
        if (status == MTP_OK && fault[0] != 0)
            status = npu->api->copy_in(stream, npu->fault, 0, none, sizeof none, true, NULL);
        npu->may_fault = false;
    }
    pthread_mutex_unlock(&npu->lock);
    if (status != MTP_OK)
        return mt__npu_fail(npu, status, "reading faults");
    return fail_as(fault);
}

mt_status mt__npu_synchronize(mt__npu *npu, mt_stream *stream)
{
    mtp_status status = MTP_OK;
    mtp_op op = MTP_OP_INIT(call_name(npu, SYNCHRONIZE));
    op.kind = MTP_SCOPE_RUNTIME;
    mtp_op_begin(&op);
    for (mt_stream *s = stream != NULL ? stream : &npu->own; s != NULL && status == MTP_OK;
         s = stream != NULL ? NULL : s->next)
        status = npu->api->stream_synchronize(s->handle);
    mtp_op_end(&op);
    if (status != MTP_OK)
        return mt__npu_fail(npu, status, "synchronize");
    pthread_mutex_lock(&npu->lock);
    mt__npu_harvest(npu, false);
    pthread_mutex_unlock(&npu->lock);
    return mt__npu_check_fault(npu);
}

mt_status mt__device_read(const mt_tensor *t, void *out)
{
    mt__npu *npu;
    mt_status status = mt__npu_of(t->device, &npu);
    uint64_t size = mt__size_of(t);
    return status == MT_OK ? mt__npu_copy_out(npu, out, t->storage->data, (uint64_t)t->offset * size, size)
                           : status;
}
