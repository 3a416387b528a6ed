/* collect/opencl/queues.c - devices, queues and kernels: their numbers and names; the calls that wait or
 * compile.
 *
 * Queues are created with profiling on. The program does not see this: queries about its queues and events
 * are answered as if they had been created as requested. Handles are reused after their last release, so the
 * data about a handle is set when it is created.
 */
#define _GNU_SOURCE
#include <string.h>
#include "collect/opencl/handles.h"
#include "collect/opencl/layer.h"

#define PROPERTIES_MAX 32
enum {
    ASKED = 1,
    LISTED = 2,
    GIVEN = 4
}; /* the program asked for profiling; passed CL_QUEUE_PROPERTIES; passed a list at all */

static handles kernels = HANDLES_INIT; /* a: name id */
static handles queues = HANDLES_INIT;  /* a: device, b: stream | flags << 32 */
static uint64_t age = 1;               /* of the handles: changes when one may have a new meaning */

static struct {
    pthread_mutex_t lock; /* rank: after flights */
    cl_device_id ids[MTP__DEVICES_MAX];
    uint32_t count; /* release: pairs with mtp__device_count */
    uint32_t streams;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mtp__queues_fork_hold(bool hold)
{
    pthread_mutex_t *const locks[] = {&seen.lock, &kernels.lock, &queues.lock};
    mtp__hold_locks(locks, 3, hold);
}

uint32_t mtp__device_number(cl_device_id id)
{
    uint32_t i = 0;
    pthread_mutex_lock(&seen.lock);
    while (i < seen.count && seen.ids[i] != id)
        i++;
    if (i == seen.count && i < MTP__DEVICES_MAX) {
        seen.ids[i] = id;
        __atomic_store_n(&seen.count, i + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&seen.lock);
    return i < MTP__DEVICES_MAX ? i : MTP__DEVICES_MAX - 1;
}

static const char *text_of(cl_device_id id, cl_device_info what, char text[128])
{
    text[0] = 0;
    mtp__next->clGetDeviceInfo(id, what, 127, text, NULL);
    text[127] = 0;
    return text[0] != 0 ? text : NULL;
}

uint16_t mtp__device_described[MTP__DEVICES_MAX];

void mtp__device_describe_to(uint32_t number, uint16_t session)
{
    char name[128], vendor[128], driver[128];
    cl_device_id id = seen.ids[number];
    cl_ulong memory = 0, local = 0;
    cl_uint units = 0, clock = 0;
    size_t group = 0;
    mtp_device_info info = MTP_DEVICE_INFO_INIT;
    mtp__next->clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    mtp__next->clGetDeviceInfo(id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    mtp__next->clGetDeviceInfo(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    mtp__next->clGetDeviceInfo(id, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof clock, &clock, NULL);
    mtp__next->clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
    info.name = text_of(id, CL_DEVICE_NAME, name);
    info.vendor = text_of(id, CL_DEVICE_VENDOR, vendor);
    info.driver = text_of(id, CL_DRIVER_VERSION, driver);
    info.memory_bytes = memory;
    info.shared_bytes = local;
    info.compute_units = units;
    info.clock_mhz = clock;
    info.group_most = (uint32_t)group;
    mtp_device_describe(MTP_DEVICE_NPU(number), &info);
    __atomic_store_n(&mtp__device_described[number], session, __ATOMIC_RELAXED);
}

uint32_t mtp__device_count(void)
{
    return __atomic_load_n(&seen.count, __ATOMIC_ACQUIRE);
}

static void grow_old(void)
{
    __atomic_add_fetch(&age, 1, __ATOMIC_RELEASE);
}

static bool is_last(mtp__last *last)
{
    uint64_t now = __atomic_load_n(&age, __ATOMIC_ACQUIRE);
    if (last->age == now)
        return true;
    *last = (mtp__last){.age = now};
    return false;
}

/* ---------------------------------------------------------------------------------------------------- queues */

static handle queue_add(cl_command_queue queue, uint64_t flags)
{
    handle h = {queue, 0, 0};
    cl_device_id id = NULL;
    mtp__next->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
    if (id == NULL)
        return h; /* not a queue: the driver will report it */
    h.a = mtp__device_number(id);
    h.b = __atomic_fetch_add(&seen.streams, 1, __ATOMIC_RELAXED) | flags << 32;
    handles_put(&queues, queue, h.a, h.b);
    grow_old();
    return h;
}

mtp__queue mtp__queue_find(mtp__last *last, cl_command_queue queue)
{
    if (!is_last(last) || last->queue != queue) {
        handle h;
        if (!handles_get(&queues, queue, &h))
            h = queue_add(queue, ASKED); /* created by an unknown call: not modified by us */
        last->queue = queue;
        last->at = (mtp__queue){(uint32_t)h.a, (uint32_t)h.b};
    }
    return last->at;
}

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id id,
                                                 cl_command_queue_properties properties, cl_int *code)
{
    uint64_t flags = LISTED | ((properties & CL_QUEUE_PROFILING_ENABLE) != 0 ? ASKED : 0);
    cl_command_queue q =
        mtp__next->clCreateCommandQueue(context, id, properties | CL_QUEUE_PROFILING_ENABLE, code);
    if (q == NULL && (flags & ASKED) == 0) {
        q = mtp__next->clCreateCommandQueue(context, id, properties, code);
        flags |= ASKED;
    }
    if (q != NULL)
        queue_add(q, flags);
    return q;
}

/* The program's list with profiling on. False: leave it alone. */
static bool with_profiling(const cl_queue_properties *given, cl_queue_properties *list, uint64_t *flags)
{
    unsigned n = 0;
    *flags = given != NULL ? GIVEN : 0;
    for (; given != NULL && given[n] != 0; n += 2) {
        if (n + 4 >= PROPERTIES_MAX)
            return false;
        list[n] = given[n];
        list[n + 1] = given[n + 1];
        if (given[n] == CL_QUEUE_PROPERTIES) {
            if ((given[n + 1] & (CL_QUEUE_ON_DEVICE | CL_QUEUE_PROFILING_ENABLE)) != 0)
                return false;
            list[n + 1] |= CL_QUEUE_PROFILING_ENABLE;
            *flags |= LISTED;
        }
    }
    if ((*flags & LISTED) == 0) {
        list[n++] = CL_QUEUE_PROPERTIES;
        list[n++] = CL_QUEUE_PROFILING_ENABLE;
    }
    list[n] = 0;
    return true;
}

static cl_command_queue CL_API_CALL create_queue_with(cl_context context, cl_device_id id,
                                                      const cl_queue_properties *given, cl_int *code)
{
    cl_queue_properties list[PROPERTIES_MAX];
    cl_command_queue q = NULL;
    uint64_t flags;
    if (with_profiling(given, list, &flags))
        q = mtp__next->clCreateCommandQueueWithProperties(context, id, list, code);
    if (q == NULL) {
        q = mtp__next->clCreateCommandQueueWithProperties(context, id, given, code);
        flags = ASKED;
    }
    if (q != NULL)
        queue_add(q, flags);
    return q;
}

/* The list that the queue was created with, as the program passed it. */
static void undo_list(uint64_t flags, cl_queue_properties *list, size_t *bytes)
{
    if ((flags & GIVEN) == 0) {
        *bytes = 0;
        return;
    }
    for (size_t i = 0; i + 1 < *bytes / sizeof *list; i += 2)
        if (list[i] == CL_QUEUE_PROPERTIES) {
            list[i + 1] &= ~(cl_queue_properties)CL_QUEUE_PROFILING_ENABLE;
            if ((flags & LISTED) == 0) { /* our entry is the last */
                list[i] = 0;
                *bytes = (i + 1) * sizeof *list;
            }
            return;
        }
}

static cl_int CL_API_CALL queue_info(cl_command_queue q, cl_command_queue_info what, size_t room, void *out,
                                     size_t *size)
{
    handle h;
    cl_queue_properties list[PROPERTIES_MAX + 1];
    size_t bytes = 0;
    if ((what != CL_QUEUE_PROPERTIES && what != CL_QUEUE_PROPERTIES_ARRAY) || !handles_get(&queues, q, &h) ||
        (h.b >> 32 & ASKED) != 0 ||
        mtp__next->clGetCommandQueueInfo(q, what, sizeof list, list, &bytes) != CL_SUCCESS)
        return mtp__next->clGetCommandQueueInfo(q, what, room, out, size);
    if (what == CL_QUEUE_PROPERTIES)
        list[0] &= ~(cl_queue_properties)CL_QUEUE_PROFILING_ENABLE;
    else
        undo_list(h.b >> 32, list, &bytes);
    if (out != NULL && room < bytes)
        return CL_INVALID_VALUE;
    if (out != NULL)
        memcpy(out, list, bytes);
    if (size != NULL)
        *size = bytes;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL event_times(cl_event event, cl_profiling_info what, size_t room, void *out,
                                      size_t *size)
{
    cl_command_queue q = NULL;
    handle h;
    if (mtp__next->clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof q, &q, NULL) == CL_SUCCESS &&
        q != NULL && handles_get(&queues, q, &h) && (h.b >> 32 & ASKED) == 0)
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    return mtp__next->clGetEventProfilingInfo(event, what, room, out, size);
}

static cl_int CL_API_CALL release_queue(cl_command_queue q)
{
    cl_uint refs = 0;
    handle h;
    mtp__flights_harvest();
    if (mtp__next->clGetCommandQueueInfo(q, CL_QUEUE_REFERENCE_COUNT, sizeof refs, &refs, NULL) ==
            CL_SUCCESS &&
        refs <= 1 && handles_take(&queues, q, &h))
        grow_old();
    return mtp__next->clReleaseCommandQueue(q);
}

/* --------------------------------------------------------------------------------------------------- kernels */

static uint32_t kernel_add(cl_kernel kernel)
{
    char text[512] = "?";
    cl_int code = mtp__next->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof text - 1, text, NULL);
    uint32_t id = mtp_name(text);
    if (code != CL_SUCCESS)
        return id;
    handles_put(&kernels, kernel, id, 0);
    grow_old();
    return id;
}

uint32_t mtp__kernel_name(mtp__last *last, cl_kernel kernel)
{
    if (!is_last(last) || last->kernel != kernel) {
        handle h;
        last->name = handles_get(&kernels, kernel, &h) ? (uint32_t)h.a : kernel_add(kernel);
        last->kernel = kernel;
    }
    return last->name;
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *code)
{
    cl_kernel k = mtp__next->clCreateKernel(program, name, code);
    if (k != NULL)
        kernel_add(k);
    return k;
}

static cl_int CL_API_CALL create_kernels(cl_program program, cl_uint room, cl_kernel *out, cl_uint *count)
{
    cl_uint made = 0;
    cl_int code = mtp__next->clCreateKernelsInProgram(program, room, out, &made);
    for (cl_uint i = 0; code == CL_SUCCESS && out != NULL && i < made && i < room; i++)
        kernel_add(out[i]);
    if (count != NULL)
        *count = made;
    return code;
}

static cl_kernel CL_API_CALL clone_kernel(cl_kernel from, cl_int *code)
{
    cl_kernel k = mtp__next->clCloneKernel(from, code);
    if (k != NULL)
        kernel_add(k);
    return k;
}

static cl_int CL_API_CALL release_kernel(cl_kernel kernel)
{
    cl_uint refs = 0;
    handle h;
    if (mtp__next->clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof refs, &refs, NULL) ==
            CL_SUCCESS &&
        refs <= 1 && handles_take(&kernels, kernel, &h))
        grow_old();
    return mtp__next->clReleaseKernel(kernel);
}

/* ------------------------------------------------------------------------------------ what waits or compiles */

void mtp__call_begin(mtp_op *op, uint32_t name)
{
    *op = (mtp_op)MTP_OP_INIT(name);
    op->kind = MTP_SCOPE_RUNTIME;
    if ((mtp_recording() & MTP_NPU) != 0)
        mtp_op_begin(op);
}

static cl_int CL_API_CALL finish(cl_command_queue q)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clFinish"));
    cl_int code = mtp__next->clFinish(q);
    mtp_op_end(&op);
    mtp__flights_harvest();
    return code;
}

static cl_int CL_API_CALL flush(cl_command_queue q)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clFlush"));
    cl_int code = mtp__next->clFlush(q);
    mtp_op_end(&op);
    return code;
}

static cl_int CL_API_CALL wait_for(cl_uint n, const cl_event *list)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clWaitForEvents"));
    cl_int code = mtp__next->clWaitForEvents(n, list);
    mtp_op_end(&op);
    mtp__flights_harvest();
    return code;
}

typedef void CL_CALLBACK program_notify(cl_program program, void *user);

static cl_int CL_API_CALL build(cl_program p, cl_uint n, const cl_device_id *ids, const char *options,
                                program_notify *notify, void *user)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clBuildProgram"));
    cl_int code = mtp__next->clBuildProgram(p, n, ids, options, notify, user);
    mtp_op_end(&op);
    return code;
}

static cl_int CL_API_CALL compile(cl_program p, cl_uint n, const cl_device_id *ids, const char *options,
                                  cl_uint header_count, const cl_program *headers, const char **names,
                                  program_notify *notify, void *user)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clCompileProgram"));
    cl_int code = mtp__next->clCompileProgram(p, n, ids, options, header_count, headers, names, notify, user);
    mtp_op_end(&op);
    return code;
}

static cl_program CL_API_CALL link_programs(cl_context context, cl_uint n, const cl_device_id *ids,
                                            const char *options, cl_uint count, const cl_program *programs,
                                            program_notify *notify, void *user, cl_int *code)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clLinkProgram"));
    cl_program p = mtp__next->clLinkProgram(context, n, ids, options, count, programs, notify, user, code);
    mtp_op_end(&op);
    return p;
}

void mtp__queues_hook(cl_icd_dispatch *ours)
{
    ours->clCreateCommandQueue = create_queue;
    ours->clCreateCommandQueueWithProperties = create_queue_with;
    ours->clGetCommandQueueInfo = queue_info;
    ours->clReleaseCommandQueue = release_queue;
    ours->clGetEventProfilingInfo = event_times;
    ours->clCreateKernel = create_kernel;
    ours->clCreateKernelsInProgram = create_kernels;
    ours->clCloneKernel = clone_kernel;
    ours->clReleaseKernel = release_kernel;
    ours->clFinish = finish;
    ours->clFlush = flush;
    ours->clWaitForEvents = wait_for;
    ours->clBuildProgram = build;
    ours->clCompileProgram = compile;
    ours->clLinkProgram = link_programs;
}
