/* collect/opencl/layer.c - an OpenCL layer: the kernels, copies and buffers of any OpenCL program, in a profile.
 *
 *     OPENCL_LAYERS=/path/libmtprof_opencl.so MTPROF_OUT=trace.json program
 *
 * The ICD loader puts this table of functions between the program and its drivers (ocl-icd from 2.3, Khronos' from 2021).
 * Queues are made with profiling on; while a profile runs, each command is a runtime event on its thread, and its event,
 * the program's or one of ours, waits in a ring until it is done. With MTPROF_OUT the layer makes the profile itself, for
 * the whole process, and writes it at exit; without, it records into whatever profile the program runs.
 *
 * Threads: any. The ring has a lock (rank: before the handles' locks). Errors of the layer never reach the program.
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>
#include <mtprof.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "collect/opencl/handles.h"

#define FLIGHTS 8192
#define DEVICES_MOST 64
#define GIVE_UP_NS 2000000000u /* for what is still in flight when a cycle ends */

static const cl_icd_dispatch *next;    /* borrowed: the loader's */
static handles kernels = HANDLES_INIT; /* a: name id */
static handles queues = HANDLES_INIT;  /* a: device, b: stream */
static handles buffers = HANDLES_INIT; /* a: bytes, b: device */

/* ------------------------------------------------------------------------------------------------- devices */

static struct {
    pthread_mutex_t lock; /* rank: leaf */
    cl_device_id ids[DEVICES_MOST];
    uint64_t allocated[DEVICES_MOST];
    uint32_t count;
    uint64_t streams;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t index_of(cl_device_id id)
{
    uint32_t i = 0;
    pthread_mutex_lock(&seen.lock);
    while (i < seen.count && seen.ids[i] != id)
        i++;
    if (i == seen.count && seen.count < DEVICES_MOST)
        seen.ids[seen.count++] = id;
    pthread_mutex_unlock(&seen.lock);
    return i < DEVICES_MOST ? i : 0;
}

/* ------------------------------------------------------------------------------------------------- flights */

typedef struct flight {
    cl_event event;         /* owned */
    uint64_t before, after; /* ticks around its enqueueing */
    mtp_device_work work;
} flight;

static struct {
    pthread_mutex_t lock;
    flight ring[FLIGHTS];
    uint32_t first, count;
    struct { /* the narrowest reading of a device's clock since the last that was told */
        uint64_t device_ns, middle, width, told_ns;
    } clock[DEVICES_MOST];
    uint64_t start_ns, start_ticks;
} air = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void tell_clock(uint32_t device, uint64_t now)
{
    uint64_t ns = now - air.start_ns, ticks = mtp_ticks() - air.start_ticks;
    if (air.clock[device].width == 0 || ticks == 0)
        return;
    double error = (double)air.clock[device].width / 2 * (double)ns / (double)ticks;
    mtp_device_clock(MTP_DEVICE_NPU(device), air.clock[device].device_ns, air.clock[device].middle,
                     (uint64_t)error + 1);
    air.clock[device].width = 0;
    air.clock[device].told_ns = now;
}

/* queued lies between before and after: a reading of the device's clock for nothing. */
static void read_clock(const flight *f, uint64_t queued)
{
    uint32_t d = MTP_DEVICE_INDEX(f->work.device);
    uint64_t width = f->after - f->before + 1;
    if (queued == 0 || (air.clock[d].width != 0 && air.clock[d].width <= width))
        return;
    air.clock[d].width = width;
    air.clock[d].device_ns = queued;
    air.clock[d].middle = f->before + width / 2;
}

static bool read_time(const flight *f, cl_profiling_info which, uint64_t *out)
{
    cl_ulong t = 0;
    bool good = next->clGetEventProfilingInfo(f->event, which, sizeof t, &t, NULL) == CL_SUCCESS;
    *out = t;
    return good;
}

/* Its end is known only when it is done: one question tells both. False: it is not done. */
static bool land(flight *f)
{
    static uint32_t turn;
    cl_int state = CL_COMPLETE;
    if (read_time(f, CL_PROFILING_COMMAND_END, &f->work.end) && f->work.end != 0) {
        if (turn++ % 16 == 0 && read_time(f, CL_PROFILING_COMMAND_QUEUED, &f->work.queued))
            read_clock(f, f->work.queued);
        if (read_time(f, CL_PROFILING_COMMAND_START, &f->work.start)) {
            f->work.end = f->work.end > f->work.start ? f->work.end : f->work.start;
            f->work.clock = MTP_CLOCK_DEVICE;
            mtp_device_event(&f->work);
        }
    } else if (next->clGetEventInfo(f->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                                    NULL) == CL_SUCCESS &&
               state > CL_COMPLETE) {
        return false;
    } /* else: it failed, and has no times */
    next->clReleaseEvent(f->event);
    return true;
}

/* The lock is held. Oldest first, without waiting: one that is not done keeps those behind it. */
static void harvest(void)
{
    while (air.count > 0 && land(&air.ring[air.first])) {
        air.first = (air.first + 1) % FLIGHTS;
        air.count--;
    }
    uint64_t now = mtp_now_ns();
    for (uint32_t d = 0; d < seen.count; d++)
        if (air.clock[d].width != 0 && now - air.clock[d].told_ns > 500000000u)
            tell_clock(d, now);
}

static void harvest_now(void)
{
    if (!(mtp_recording() & MTP_NPU) && air.count == 0)
        return;
    pthread_mutex_lock(&air.lock);
    harvest();
    pthread_mutex_unlock(&air.lock);
}

/* At the end of a cycle: what is in flight gets some time, then it is left out. */
static void flush(void *unused)
{
    uint64_t start = mtp_now_ns();
    (void)unused;
    pthread_mutex_lock(&air.lock);
    for (harvest(); air.count > 0 && mtp_now_ns() - start < GIVE_UP_NS; harvest())
        nanosleep(&(struct timespec){0, 100000}, NULL);
    for (; air.count > 0; air.count--, air.first = (air.first + 1) % FLIGHTS)
        next->clReleaseEvent(air.ring[air.first].event);
    for (uint32_t d = 0; d < seen.count; d++) {
        tell_clock(d, mtp_now_ns());
        air.clock[d].told_ns = 0; /* the next cycle tells at once */
    }
    pthread_mutex_unlock(&air.lock);
}

/* ------------------------------------------------------------------------------------------- around a command */

typedef struct command {
    mtp_op op;
    flight f;
    cl_event own; /* when the program asked for none */
    cl_event *event;
    bool on;
} command;

static uint64_t stream_of(cl_command_queue queue, mtp_device *device)
{
    handle h;
    if (!handles_get(&queues, queue, &h)) {
        cl_device_id id = NULL;
        next->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
        h.a = index_of(id);
        h.b = __atomic_fetch_add(&seen.streams, 1, __ATOMIC_RELAXED);
        handles_put(&queues, queue, h.a, h.b);
    }
    *device = MTP_DEVICE_NPU(h.a);
    return h.b;
}

static void begin(command *c, cl_command_queue queue, uint32_t call, uint32_t name, uint32_t kind,
                  uint64_t bytes, cl_event *event)
{
    c->on = (mtp_recording() & MTP_NPU) != 0;
    c->event = event;
    if (!c->on)
        return;
    c->own = NULL;
    if (event == NULL)
        c->event = &c->own;
    mtp_device device;
    uint64_t stream = stream_of(queue, &device);
    c->op = (mtp_op)MTP_OP_INIT(call);
    c->op.kind = MTP_SCOPE_RUNTIME;
    c->op.correlation = mtp_correlation_next();
    c->f.work = (mtp_device_work)MTP_DEVICE_WORK_INIT(name, device);
    c->f.work.kind = kind;
    c->f.work.stream = stream;
    c->f.work.bytes = bytes;
    c->f.work.correlation = c->op.correlation;
    mtp_op_begin(&c->op);
    c->f.before = mtp_ticks();
}

static cl_int end(command *c, cl_int code)
{
    if (!c->on)
        return code;
    c->f.after = mtp_ticks();
    mtp_op_end(&c->op);
    if (code != CL_SUCCESS || *c->event == NULL)
        return code;
    c->f.event = *c->event;
    if (c->event != &c->own)
        next->clRetainEvent(c->f.event);
    pthread_mutex_lock(&air.lock);
    if (air.count > 0 && air.count % (FLIGHTS / 8) == 0)
        harvest();
    if (air.count == FLIGHTS) { /* the oldest does not end: it is left out, not waited for */
        next->clReleaseEvent(air.ring[air.first].event);
        air.first = (air.first + 1) % FLIGHTS;
        air.count--;
    }
    air.ring[(air.first + air.count++) % FLIGHTS] = c->f;
    pthread_mutex_unlock(&air.lock);
    return code;
}

/* --------------------------------------------------------------------------------------------------- kernels */

static uint32_t kernel_name(cl_kernel kernel)
{
    handle h;
    if (handles_get(&kernels, kernel, &h))
        return (uint32_t)h.a;
    char text[512] = "?";
    next->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof text - 1, text, NULL);
    uint32_t id = mtp_name(text);
    handles_put(&kernels, kernel, id, 0);
    return id;
}

/* Handles are used again: a kernel's name goes with its last reference. */
static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    cl_uint refs = 0;
    handle h;
    if (next->clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof refs, &refs, NULL) == CL_SUCCESS &&
        refs <= 1)
        handles_take(&kernels, kernel, &h);
    return next->clReleaseKernel(kernel);
}

static cl_int CL_API_CALL nd_range(cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset,
                                   const size_t *global, const size_t *local, cl_uint n, const cl_event *list,
                                   cl_event *e)
{
    command c;
    begin(&c, q, MTP_NAME("clEnqueueNDRangeKernel"), 0, MTP_DEVICE_KERNEL, 0, e);
    if (c.on) {
        c.f.work.name = kernel_name(k);
        for (cl_uint i = 0; i < 3; i++) {
            size_t block = i < dims && local != NULL && local[i] > 0 ? local[i] : 1;
            c.f.work.block[i] = (uint32_t)block;
            c.f.work.grid[i] = i < dims && global != NULL ? (uint32_t)((global[i] + block - 1) / block) : 1;
        }
    }
    return end(&c, next->clEnqueueNDRangeKernel(q, k, dims, offset, global, local, n, list, c.event));
}

static cl_int CL_API_CALL task(cl_command_queue q, cl_kernel k, cl_uint n, const cl_event *list, cl_event *e)
{
    command c;
    begin(&c, q, MTP_NAME("clEnqueueTask"), 0, MTP_DEVICE_KERNEL, 0, e);
    if (c.on)
        c.f.work.name = kernel_name(k);
    return end(&c, next->clEnqueueTask(q, k, n, list, c.event));
}

/* ---------------------------------------------------------------------------------------------------- copies */

#define HTOD MTP_NAME("Memcpy HtoD (Pageable -> Device)")
#define DTOH MTP_NAME("Memcpy DtoH (Device -> Pageable)")
#define DTOD MTP_NAME("Memcpy DtoD (Device -> Device)")

static cl_int CL_API_CALL read_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t at, size_t bytes,
                                      void *p, cl_uint n, const cl_event *list, cl_event *e)
{
    command c;
    begin(&c, q, MTP_NAME("clEnqueueReadBuffer"), DTOH, MTP_DEVICE_MEMCPY, bytes, e);
    return end(&c, next->clEnqueueReadBuffer(q, m, blocking, at, bytes, p, n, list, c.event));
}

static cl_int CL_API_CALL write_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t at,
                                       size_t bytes, const void *p, cl_uint n, const cl_event *list,
                                       cl_event *e)
{
    command c;
    begin(&c, q, MTP_NAME("clEnqueueWriteBuffer"), HTOD, MTP_DEVICE_MEMCPY, bytes, e);
    return end(&c, next->clEnqueueWriteBuffer(q, m, blocking, at, bytes, p, n, list, c.event));
}

static uint64_t volume(const size_t *region)
{
    return region != NULL ? (uint64_t)region[0] * region[1] * region[2] : 0;
}

static cl_int CL_API_CALL read_rect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *a,
                                    const size_t *b, const size_t *region, size_t r1, size_t s1, size_t r2,
                                    size_t s2, void *p, cl_uint n, const cl_event *list, cl_event *e)
{
    command c;
    begin(&c, q, MTP_NAME("clEnqueueReadBufferRect"), DTOH, MTP_DEVICE_MEMCPY, volume(region), e);
    return end(
        &c, next->clEnqueueReadBufferRect(q, m, blocking, a, b, region, r1, s1, r2, s2, p, n, list, c.event));
}

static cl_int CL_API_CALL write_rect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *a,
                                     const size_t *b, const size_t *region, size_t r1, size_t s1, size_t r2,
                                     size_t s2, const void *p, cl_uint n, const cl_event *list, cl_event *e)
{
    command c;
    begin(&c, q, MTP_NAME("clEnqueueWriteBufferRect"), HTOD, MTP_DEVICE_MEMCPY, volume(region), e);
    return end(&c, next->clEnqueueWriteBufferRect(q, m, blocking, a, b, region, r1, s1, r2, s2, p, n, list,
                                                  c.event));
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue q, cl_mem from, cl_mem to, size_t a, size_t b,
                                      size_t bytes, cl_uint n, const cl_event *list, cl_event *e)
{
    command c;
    begin(&c, q, MTP_NAME("clEnqueueCopyBuffer"), DTOD, MTP_DEVICE_MEMCPY, bytes, e);
    return end(&c, next->clEnqueueCopyBuffer(q, from, to, a, b, bytes, n, list, c.event));
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue q, cl_mem m, const void *pattern, size_t size,
                                      size_t at, size_t bytes, cl_uint n, const cl_event *list, cl_event *e)
{
    command c;
    begin(&c, q, MTP_NAME("clEnqueueFillBuffer"), MTP_NAME("Memset (Device)"), MTP_DEVICE_MEMSET, bytes, e);
    return end(&c, next->clEnqueueFillBuffer(q, m, pattern, size, at, bytes, n, list, c.event));
}

/* --------------------------------------------------------------------------------------------------- buffers */

static void count_buffer(cl_mem m, int64_t bytes, uint64_t device)
{
    pthread_mutex_lock(&seen.lock);
    uint64_t now = seen.allocated[device] += (uint64_t)bytes;
    mtp_memory_event(MTP_DEVICE_NPU(device), m, bytes, now, now);
    pthread_mutex_unlock(&seen.lock);
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *p,
                                        cl_int *code)
{
    cl_mem m = next->clCreateBuffer(context, flags, bytes, p, code);
    cl_device_id ids[16] = {NULL}; /* a buffer belongs to a context: its first device stands for it */
    if (m != NULL &&
        next->clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof ids, ids, NULL) == CL_SUCCESS) {
        uint64_t device = index_of(ids[0]);
        handles_put(&buffers, m, bytes, device);
        count_buffer(m, (int64_t)bytes, device);
    }
    return m;
}

static cl_int CL_API_CALL release_memory(cl_mem m)
{
    cl_uint refs = 0;
    handle h;
    if (next->clGetMemObjectInfo(m, CL_MEM_REFERENCE_COUNT, sizeof refs, &refs, NULL) == CL_SUCCESS &&
        refs <= 1 && handles_take(&buffers, m, &h))
        count_buffer(m, -(int64_t)h.a, h.b);
    return next->clReleaseMemObject(m);
}

/* ---------------------------------------------------------------------------------------------------- queues */

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id id,
                                                 cl_command_queue_properties properties, cl_int *code)
{
    return next->clCreateCommandQueue(context, id, properties | CL_QUEUE_PROFILING_ENABLE, code);
}

static cl_command_queue CL_API_CALL create_queue_with(cl_context context, cl_device_id id,
                                                      const cl_queue_properties *given, cl_int *code)
{
    cl_queue_properties list[32];
    unsigned n = 0;
    bool has = false;
    for (; given != NULL && given[n] != 0 && n < 28; n += 2) {
        list[n] = given[n];
        list[n + 1] = given[n + 1];
        if (given[n] == CL_QUEUE_PROPERTIES) {
            list[n + 1] |= CL_QUEUE_PROFILING_ENABLE;
            has = true;
        }
    }
    if (!has) {
        list[n++] = CL_QUEUE_PROPERTIES;
        list[n++] = CL_QUEUE_PROFILING_ENABLE;
    }
    list[n] = 0;
    return next->clCreateCommandQueueWithProperties(context, id, list, code);
}

static cl_int CL_API_CALL release_queue(cl_command_queue q)
{
    cl_uint refs = 0;
    handle h;
    harvest_now();
    if (next->clGetCommandQueueInfo(q, CL_QUEUE_REFERENCE_COUNT, sizeof refs, &refs, NULL) == CL_SUCCESS &&
        refs <= 1)
        handles_take(&queues, q, &h);
    return next->clReleaseCommandQueue(q);
}

static cl_int CL_API_CALL finish(cl_command_queue q)
{
    mtp_op op = MTP_OP_INIT(0);
    if (mtp_recording() & MTP_NPU) {
        op.name = MTP_NAME("clFinish");
        op.kind = MTP_SCOPE_RUNTIME;
        mtp_op_begin(&op);
    }
    cl_int code = next->clFinish(q);
    mtp_op_end(&op);
    harvest_now();
    return code;
}

/* ------------------------------------------------------------------------------------------------- the layer */

static mtp_profile *own;

static void write_own(void)
{
    mtp_trace *trace = NULL;
    mtp_profile_stop(own);
    if (mtp_profile_trace(own, &trace) != MTP_OK ||
        mtp_trace_export(trace, getenv("MTPROF_OUT"), NULL) != MTP_OK)
        fprintf(stderr, "mtprof: %s: %s\n", getenv("MTPROF_OUT"), mtp_last_error());
    mtp_trace_destroy(trace);
    mtp_profile_destroy(own);
}

static void start_own(void)
{
    const char *out = getenv("MTPROF_OUT");
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.profile_memory = true;
    if (out == NULL || *out == 0)
        return;
    if (mtp_profile_create(&config, &own) != MTP_OK || mtp_profile_start(own) != MTP_OK) {
        fprintf(stderr, "mtprof: the OpenCL layer records nothing: %s\n", mtp_last_error());
        return;
    }
    atexit(write_own);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *out, size_t *size)
{
    static const char name[] = "mtprof";
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const void *value = what == CL_LAYER_API_VERSION ? (const void *)&version : name;
    size_t bytes = what == CL_LAYER_API_VERSION ? sizeof version : sizeof name;
    if (what != CL_LAYER_API_VERSION && what != CL_LAYER_NAME)
        return CL_INVALID_VALUE;
    if (out != NULL && room < bytes)
        return CL_INVALID_VALUE;
    if (out != NULL)
        memcpy(out, value, bytes);
    if (size != NULL)
        *size = bytes;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *target, cl_uint *count_out,
                                            const cl_icd_dispatch **out)
{
    static cl_icd_dispatch ours; /* NULL slots are the loader's to fill */
    if (target == NULL || count_out == NULL || out == NULL)
        return CL_INVALID_VALUE;
    if (count < sizeof ours / sizeof ours.clGetPlatformIDs)
        return CL_INVALID_VALUE;
    next = target;
    air.start_ns = mtp_now_ns();
    air.start_ticks = mtp_ticks();
    ours.clEnqueueNDRangeKernel = nd_range;
    ours.clEnqueueTask = task;
    ours.clReleaseKernel = release_kernel;
    ours.clEnqueueReadBuffer = read_buffer;
    ours.clEnqueueWriteBuffer = write_buffer;
    ours.clEnqueueReadBufferRect = read_rect;
    ours.clEnqueueWriteBufferRect = write_rect;
    ours.clEnqueueCopyBuffer = copy_buffer;
    ours.clEnqueueFillBuffer = fill_buffer;
    ours.clCreateBuffer = create_buffer;
    ours.clReleaseMemObject = release_memory;
    ours.clCreateCommandQueue = create_queue;
    ours.clCreateCommandQueueWithProperties = create_queue_with;
    ours.clReleaseCommandQueue = release_queue;
    ours.clFinish = finish;
    *count_out = sizeof ours / sizeof ours.clGetPlatformIDs;
    *out = &ours;
    if (mtp_flush_add(flush, NULL) == MTP_OK)
        start_own();
    return CL_SUCCESS;
}
