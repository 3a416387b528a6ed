/* runtime/device/work.c - work for accelerators: launches, copies and fills on a stream, each reported
 * to the profiler.
 *
 * While a profile runs, every call is a runtime event on the host thread with a correlation id, and its
 * plug-in event is put into the ring of flights. Each time a quarter of the ring has been filled, it is read,
 * oldest first and without waiting; only when it is full do callers wait, for the oldest. The end of a cycle
 * waits for everything in flight.
 *
 * The device's clock is reported with the first work of a cycle, then about every second, and at the end.
 */
#define _GNU_SOURCE
#include "runtime/device/device.h"
#include <stdlib.h>

enum call {
    LAUNCH,
    COPY_IN,
    COPY_OUT,
    COPY,
    FILL,
    SYNCHRONIZE,
    GEMM,
    BUILD,
    CALLS
};

static uint32_t call_name(const mt__npu *npu, enum call which)
{
    static uint32_t names[CALLS]; /* relaxed: the same text always yields the same id */
    uint32_t id = __atomic_load_n(&names[which], __ATOMIC_RELAXED);
    if (MT__UNLIKELY(id == 0))
        __atomic_store_n(&names[which], id = mtp_name(npu->api->calls[which]), __ATOMIC_RELAXED);
    return id;
}

/* Driver calls are recorded with the device's activity. */
static void begin_call(mtp_op *op)
{
    if (mtp_recording() & MTP_NPU)
        mtp_op_begin(op);
}

/* ------------------------------------------------------------------------------------------------ the clock */

static void describe(const mt__npu *npu)
{
    const mtp_plugin_properties *p = &npu->properties;
    mtp_device_info info = MTP_DEVICE_INFO_INIT;
    info.name = p->name;
    info.vendor = p->vendor;
    info.driver = p->driver;
    info.memory_bytes = p->memory_bytes;
    info.shared_bytes = p->local_bytes;
    info.compute_units = p->compute_units;
    info.clock_mhz = p->clock_mhz;
    info.group_most = p->work_group_most;
    mtp_device_describe(npu->device, &info);
}

/* The most precise of a few readings. Half its width is the error. */
static void report_clock(mt__npu *npu)
{
    uint64_t best = UINT64_MAX, device_best = 0, middle = 0, first_ns = mtp_now_ns(), first = mtp_ticks();
    for (int i = 0; i < 4; i++) {
        uint64_t device, before, after;
        if (npu->api->clock(npu->handle, mtp_ticks, &device, &before, &after) != MTP_OK)
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
    if (npu->clocked != MTP_SESSION(mtp_recording()))
        describe(npu);
    npu->clocked = MTP_SESSION(mtp_recording());
    npu->clocked_ns = mtp_now_ns();
}

/* ------------------------------------------------------------------------------------------------- harvesting */

static void report_flight(mt__npu *npu, mt__flight *f)
{
    mtp_plugin_times t;
    bool ours =
        f->work.name != 0 && f->session == MTP_SESSION(mtp_recording()); /* its recording has not ended */
    if (ours && npu->api->event_times(f->event, &t) == MTP_OK) {
        f->work.start = t.start;
        f->work.end = t.end > t.start ? t.end : t.start;
        f->work.queued = t.queued;
        f->work.clock = MTP_CLOCK_DEVICE;
        mtp_device_event(&f->work);
    }
    npu->api->event_release(f->event);
    if (f->held != NULL) {
        npu->held_bytes -= f->held->bytes;
        npu->drops[npu->drop_count++] = f->held;
        f->held = NULL;
    }
}

void mt__npu_unlock(mt__npu *npu)
{
    mt_storage *drops[64];
    uint32_t n = MT__COUNT_OF(drops);
    for (; n == MT__COUNT_OF(drops); pthread_mutex_lock(&npu->lock)) {
        n = npu->drop_count < MT__COUNT_OF(drops) ? npu->drop_count : (uint32_t)MT__COUNT_OF(drops);
        npu->drop_count -= n;
        if (n > 0)
            memcpy(drops, npu->drops + npu->drop_count, n * sizeof *drops);
        pthread_mutex_unlock(&npu->lock);
        for (uint32_t i = 0; i < n; i++)
            mt__storage_release(drops[i]);
        if (n < MT__COUNT_OF(drops))
            return;
    }
}

/* Removes the oldest from the ring. */
static void land(mt__npu *npu)
{
    report_flight(npu, &npu->flights[npu->flight_first]);
    npu->flight_first = (npu->flight_first + 1) % MT__FLIGHTS;
    npu->flight_count--;
}

/* On a single stream, one query about a late flight covers all before it. */
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
        land(npu);
    }
    if (wait && npu->clocked != 0 && (mtp_recording() & MTP_NPU))
        report_clock(npu);
}

#define HELD_MAX ((uint64_t)32 << 20) /* bytes of held host memory before checking for finished copies */

static void fly(mt__npu *npu, mtp_plugin_event *event, const mtp_device_work *work, mt_storage *held)
{
    if (npu->flight_count == MT__FLIGHTS) {
        npu->api->event_wait(npu->flights[npu->flight_first].event);
        mt__npu_harvest(npu, false);
        if (npu->flight_count == MT__FLIGHTS) /* the device does not respond: give up the oldest */
            land(npu);
    } else if (npu->flight_count > 0 &&
               (npu->flight_count % (MT__FLIGHTS / 4) == 0 || npu->held_bytes > HELD_MAX)) {
        mt__npu_harvest(npu, false);
    }
    mt__flight *f = &npu->flights[(npu->flight_first + npu->flight_count++) % MT__FLIGHTS];
    f->event = event;
    f->held = held != NULL ? mt__storage_retain(held) : NULL;
    npu->held_bytes += held != NULL ? held->bytes : 0;
    f->session = MTP_SESSION(mtp_recording());
    if (work != NULL)
        f->work = *work;
    else
        f->work.name = 0;
}

/* ----------------------------------------------------------------------------------------- around each call */

typedef struct recorded_call {
    mtp_op op;
    mtp_device_work work;
    mtp_plugin_event *event;
    bool on;
} recorded_call;

/* The lock is held. */
static void before(mt__npu *npu, recorded_call *t, enum call which, uint32_t name, uint32_t kind,
                   uint64_t bytes, const mt_stream *stream)
{
    t->event = NULL;
    t->on = (mtp_recording() & MTP_NPU) != 0;
    if (MT__LIKELY(!t->on))
        return;
    if (MT__UNLIKELY(npu->clocked != MTP_SESSION(mtp_recording()) ||
                     mtp_now_ns() - npu->clocked_ns > 1000000000u))
        report_clock(npu);
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

static mt_status after(mt__npu *npu, recorded_call *t, mt_stream *stream, mtp_status status, const char *what,
                       mt_storage *held)
{
    if (MT__UNLIKELY(t->on))
        mtp_op_end(&t->op);
    if (t->event != NULL && (t->on || held != NULL))
        fly(npu, t->event, t->on ? &t->work : NULL, held);
    else if (t->event != NULL)
        npu->api->event_release(t->event);
    stream->work++;
    if (++npu->launches % 16 == 0)
        npu->api->stream_flush(stream->handle);
    mt__npu_unlock(npu);
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
    recorded_call t;
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
    mtp_op op =
        MTP_OP_INIT(call_name(npu, BUILD)); /* may take a second: a profile must not hide it in the op */
    op.kind = MTP_SCOPE_RUNTIME;
    op.args = name;
    begin_call(&op);
    mtp_status built = npu->api->kernel_build(npu->handle, source, "", name, &out->handle);
    mtp_op_end(&op);
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
    mt__npu_unlock(npu);
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

#define STAGED_MAX ((uint64_t)64 << 10) /* bytes: below this, copying twice beats waiting */

static void drop_nothing(void *user)
{
    (void)user;
}

/* A copy of host memory, held until the device has read it; NULL: out of memory. */
static mt_storage *staged(const void *from, uint64_t bytes)
{
    mt_storage *s = calloc(1, sizeof *s + bytes);
    if (s == NULL)
        return NULL;
    atomic_init(&s->refs, 1);
    s->data = s + 1;
    s->bytes = bytes;
    s->drop = drop_nothing; /* not from the allocator: not reported to profiles */
    memcpy(s->data, from, bytes);
    return s;
}

/* Waits for the work just submitted. Releases the lock meanwhile, so that others can launch. */
static mtp_status wait_here(mt__npu *npu, mt_stream *stream, recorded_call *t, mtp_status status)
{
    if (t->event == NULL)
        return status;
    if (status == MTP_OK)
        status = npu->api->stream_flush(stream->handle);
    mt__npu_unlock(npu);
    mtp_status waited = npu->api->event_wait(t->event);
    pthread_mutex_lock(&npu->lock);
    return status == MTP_OK ? waited : status;
}

mt_status mt__npu_copy_in(mt__npu *npu, mtp_plugin_memory *to, uint64_t at, const void *from, uint64_t bytes,
                          mt_storage *hold)
{
    mt_stream *stream = mt__stream_now(npu);
    recorded_call t;
    mt_storage *copy = hold == NULL && bytes <= STAGED_MAX ? staged(from, bytes) : NULL;
    if (copy != NULL)
        hold = copy;
    pthread_mutex_lock(&npu->lock);
    before(npu, &t, COPY_IN, NAMED("Memcpy HtoD (Pageable -> Device)"), MTP_DEVICE_MEMCPY, bytes, stream);
    mtp_status status =
        npu->api->copy_in(stream->handle, to, at, copy != NULL ? copy->data : from, bytes, false, &t.event);
    if (hold == NULL)
        status = wait_here(npu, stream, &t, status);
    mt_status copied = after(npu, &t, stream, status, "copy to the device", hold);
    mt__storage_release(copy);
    return copied;
}

mt_status mt__npu_copy_out(mt__npu *npu, void *to, mtp_plugin_memory *from, uint64_t at, uint64_t bytes)
{
    mt_stream *stream = mt__stream_now(npu);
    recorded_call t;
    pthread_mutex_lock(&npu->lock);
    before(npu, &t, COPY_OUT, NAMED("Memcpy DtoH (Device -> Pageable)"), MTP_DEVICE_MEMCPY, bytes, stream);
    mtp_status status = npu->api->copy_out(stream->handle, to, from, at, bytes, false, &t.event);
    status = wait_here(npu, stream, &t, status);
    mt_status copied = after(npu, &t, stream, status, "copy from the device", NULL);
    return copied == MT_OK ? mt__npu_check_fault(npu, false) : copied;
}

mt_status mt__npu_copy(mt__npu *npu, mtp_plugin_memory *to, uint64_t to_at, mtp_plugin_memory *from,
                       uint64_t from_at, uint64_t bytes)
{
    mt_stream *stream = mt__stream_now(npu);
    recorded_call t;
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
    recorded_call t;
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
    recorded_call t;
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

/* The FAULT_* codes of kernels/opencl/prelude.cl, with the messages of the CPU kernels. */
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
        return mt__fail(MT_E_RUNTIME, "the device's fault word is %d, which is not a known fault",
                        (int32_t)fault[0]);
    }
#undef EARLIER
}

/* Other streams may not have reached their faults yet: only a wait for all of them settles it. */
mt_status mt__npu_check_fault(mt__npu *npu, bool all_done)
{
    int64_t fault[4] = {0}, none[4] = {0};
    mtp_status status = MTP_OK;
    pthread_mutex_lock(&npu->lock);
    if (npu->may_fault) {
        mtp_plugin_stream *stream = mt__stream_now(npu)->handle;
        status = npu->api->copy_out(stream, fault, npu->fault, 0, sizeof fault, true, NULL);
        if (status == MTP_OK && fault[0] != 0)
            status = npu->api->copy_in(stream, npu->fault, 0, none, sizeof none, true, NULL);
        npu->may_fault = !all_done && npu->own.next != NULL;
    }
    mt__npu_unlock(npu);
    if (status != MTP_OK)
        return mt__npu_fail(npu, status, "reading faults");
    return fail_as(fault);
}

/* Other threads may create and destroy streams meanwhile, so this waits for an event at the end of each. */
static mtp_status wait_for_others(mt__npu *npu)
{
    mtp_plugin_event *events[64];
    uint32_t count = 0;
    mtp_status status = MTP_OK;
    pthread_mutex_lock(&npu->lock);
    for (mt_stream *s = npu->own.next; s != NULL && status == MTP_OK; s = s->next) {
        if (count == MT__COUNT_OF(events)) {
            status = npu->api->stream_synchronize(s->handle);
            continue;
        }
        status = npu->api->event_record(s->handle, &events[count]);
        count += status == MTP_OK;
        if (status == MTP_OK)
            status = npu->api->stream_flush(s->handle);
    }
    mt__npu_unlock(npu);
    for (uint32_t i = 0; i < count; i++) {
        mtp_status waited = npu->api->event_wait(events[i]);
        status = status == MTP_OK ? waited : status;
        npu->api->event_release(events[i]);
    }
    return status;
}

mt_status mt__npu_synchronize(mt__npu *npu, mt_stream *stream)
{
    mtp_op op = MTP_OP_INIT(call_name(npu, SYNCHRONIZE));
    op.kind = MTP_SCOPE_RUNTIME;
    begin_call(&op);
    mt_stream *first = stream != NULL ? stream : &npu->own;
    pthread_mutex_lock(&npu->lock);
    uint64_t work = first->work;
    mt__npu_unlock(npu);
    mtp_status status = npu->api->stream_synchronize(first->handle);
    if (status == MTP_OK && stream == NULL && npu->own.next != NULL)
        status = wait_for_others(npu);
    mtp_op_end(&op);
    if (status != MTP_OK)
        return mt__npu_fail(npu, status, "synchronize");
    pthread_mutex_lock(&npu->lock);
    first->done = work > first->done ? work : first->done;
    mt__npu_harvest(npu, false);
    mt__npu_unlock(npu);
    return mt__npu_check_fault(npu, stream == NULL);
}

mt_status mt__device_read(const mt_tensor *t, void *out)
{
    mt__npu *npu;
    mt_status status = mt__npu_of(t->device, &npu);
    uint64_t size = mt__size_of(t);
    return status == MT_OK ? mt__npu_copy_out(npu, out, t->storage->data, (uint64_t)t->offset * size, size)
                           : status;
}
