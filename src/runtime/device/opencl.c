/* runtime/device/opencl.c - the OpenCL plug-in: devices, memory, streams, copies, launches, events.
 *
 * Handles are OpenCL's own where possible: memory is a cl_mem, a stream a cl_command_queue (in order, with
 * profiling), a kernel a cl_kernel, an event a cl_event. Only OpenCL 1.2 is used.
 *
 * MINDTORCH_OPENCL_PLATFORM and MINDTORCH_OPENCL_DEVICE select by number or by part of the name, ignoring
 * case. Without them all devices are used: GPUs first, then accelerators, then CPUs.
 */
#define _GNU_SOURCE
#include "runtime/device/opencl.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/plain.h"

#define DEVICES_MAX 16

/* ------------------------------------------------------------------------------------------------- errors */

static _Thread_local char error_text[4096];

mtp_status clp_fail(mtp_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    mtp__format_list(error_text, sizeof error_text, format, args);
    va_end(args);
    return status;
}

/* X(OpenCL code, status) */
#define CODES(X)                                                                                             \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE, MTP_E_NOMEM)                                                         \
    X(CL_OUT_OF_RESOURCES, MTP_E_STATE)                                                                      \
    X(CL_OUT_OF_HOST_MEMORY, MTP_E_NOMEM)                                                                    \
    X(CL_DEVICE_NOT_AVAILABLE, MTP_E_STATE)                                                                  \
    X(CL_INVALID_BUFFER_SIZE, MTP_E_NOMEM)                                                                   \
    X(CL_INVALID_WORK_GROUP_SIZE, MTP_E_ARG)                                                                 \
    X(CL_INVALID_WORK_ITEM_SIZE, MTP_E_ARG)                                                                  \
    X(CL_INVALID_KERNEL_ARGS, MTP_E_ARG)                                                                     \
    X(CL_INVALID_ARG_SIZE, MTP_E_ARG)                                                                        \
    X(CL_INVALID_ARG_VALUE, MTP_E_ARG)                                                                       \
    X(CL_INVALID_KERNEL_NAME, MTP_E_ARG)                                                                     \
    X(CL_INVALID_VALUE, MTP_E_ARG)                                                                           \
    X(CL_INVALID_MEM_OBJECT, MTP_E_ARG)                                                                      \
    X(CL_INVALID_COMMAND_QUEUE, MTP_E_STATE)                                                                 \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, MTP_E_STATE)                                             \
    X(CL_PROFILING_INFO_NOT_AVAILABLE, MTP_E_UNSUPPORTED)

mtp_status clp_check(cl_int code, const char *what)
{
    if (code == CL_SUCCESS)
        return MTP_OK;
    switch (code) {
#define X(sym, status)                                                                                       \
    case sym:                                                                                                \
        return clp_fail(status, "%s: " #sym, what);
        CODES(X)
#undef X
    default:
        return clp_fail(MTP_E_STATE, "%s: OpenCL error %d", what, (int)code);
    }
}

static const char *last_error(void)
{
    return error_text;
}

/* ------------------------------------------------------------------------------------------------- devices */

static struct {
    cl_platform_id platform;
    cl_device_id id;
    int rank;
} found[DEVICES_MAX];
static uint32_t found_count;
static char seen[512]; /* "name, name": all usable devices */
static pthread_once_t looked = PTHREAD_ONCE_INIT;

/* Does the variable select this one, by number or name? If unset: yes. */
static bool wanted(const char *variable, cl_uint number, const char *name)
{
    const char *value = getenv(variable);
    if (value == NULL || *value == 0)
        return true;
    char *end;
    unsigned long n = strtoul(value, &end, 10);
    if (*end == 0 && mtp__is_digit(*value))
        return n == number;
    return mtp__has_letters(name, value);
}

/* asked_for: the platform is selected. */
static void look_at(cl_platform_id platform, bool asked_for)
{
    cl_device_id ids[DEVICES_MAX];
    cl_uint n = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES_MAX, ids, &n) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < n && i < DEVICES_MAX && found_count < DEVICES_MAX; i++) {
        cl_device_type type = 0;
        cl_bool usable = CL_FALSE, compiles = CL_FALSE;
        char name[256] = "";
        clGetDeviceInfo(ids[i], CL_DEVICE_TYPE, sizeof type, &type, NULL);
        clGetDeviceInfo(ids[i], CL_DEVICE_AVAILABLE, sizeof usable, &usable, NULL);
        clGetDeviceInfo(ids[i], CL_DEVICE_COMPILER_AVAILABLE, sizeof compiles, &compiles, NULL);
        clGetDeviceInfo(ids[i], CL_DEVICE_NAME, sizeof name - 1, name, NULL);
        if (!usable || !compiles)
            continue;
        size_t n_seen = strlen(seen);
        snprintf(seen + n_seen, sizeof seen - n_seen, "%s%s", n_seen > 0 ? ", " : "", name);
        if (!asked_for || !wanted("MINDTORCH_OPENCL_DEVICE", i, name))
            continue;
        int rank = type & CL_DEVICE_TYPE_GPU ? 0 : type & CL_DEVICE_TYPE_ACCELERATOR ? 1 : 2;
        uint32_t at = found_count++;
        for (; at > 0 && found[at - 1].rank > rank; at--)
            found[at] = found[at - 1];
        found[at].platform = platform;
        found[at].id = ids[i];
        found[at].rank = rank;
    }
}

static void look(void)
{
    cl_platform_id platforms[DEVICES_MAX];
    cl_uint n = 0;
    if (clGetPlatformIDs(DEVICES_MAX, platforms, &n) != CL_SUCCESS)
        return;
    for (cl_uint i = 0; i < n && i < DEVICES_MAX; i++) {
        char name[256] = "";
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        look_at(platforms[i], wanted("MINDTORCH_OPENCL_PLATFORM", i, name));
    }
}

/* The variables exclude all devices. */
static mtp_status excluded(void)
{
    const char *platform = getenv("MINDTORCH_OPENCL_PLATFORM"), *device = getenv("MINDTORCH_OPENCL_DEVICE");
    return clp_fail(
        MTP_E_ARG,
        "MINDTORCH_OPENCL_PLATFORM=%s and MINDTORCH_OPENCL_DEVICE=%s exclude all OpenCL devices; available: "
        "%s",
        platform != NULL ? platform : "", device != NULL ? device : "", seen);
}

static mtp_status count(uint32_t *out)
{
    pthread_once(&looked, look);
    *out = found_count;
    return found_count == 0 && seen[0] != 0 ? excluded() : MTP_OK;
}

static mtp_status stream_create(mtp_plugin_device *device, mtp_plugin_stream **out)
{
    cl_int code;
    *out = (mtp_plugin_stream *)clCreateCommandQueue(device->context, device->id, CL_QUEUE_PROFILING_ENABLE,
                                                     &code);
    return clp_check(code, "clCreateCommandQueue");
}

static void text_of(cl_device_id id, cl_device_info what, char *out, size_t room)
{
    out[0] = 0;
    clGetDeviceInfo(id, what, room - 1, out, NULL);
    out[room - 1] = 0;
}

static mtp_status open_device(uint32_t index, mtp_plugin_device **out)
{
    cl_int code;
    *out = NULL;
    pthread_once(&looked, look);
    if (index >= found_count)
        return clp_fail(MTP_E_ARG, "no OpenCL device %u: the number of devices is %u", index, found_count);
    mtp_plugin_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return clp_fail(MTP_E_NOMEM, "out of memory: an OpenCL device");
    device->platform = found[index].platform;
    device->id = found[index].id;
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)device->platform, 0};
    device->context = clCreateContext(properties, 1, &device->id, NULL, NULL, &code);
    if (device->context == NULL) {
        free(device);
        return clp_check(code, "clCreateContext");
    }
    mtp_status status = stream_create(device, (mtp_plugin_stream **)&device->any);
    if (status != MTP_OK) {
        clReleaseContext(device->context);
        free(device);
        return status;
    }
    cl_device_fp_config floats = 0;
    clGetDeviceInfo(device->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL);
    device->rounds = (floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    char name[128], version[128], driver[128];
    text_of(device->id, CL_DEVICE_NAME, name, sizeof name);
    text_of(device->id, CL_DEVICE_VERSION, version, sizeof version);
    text_of(device->id, CL_DRIVER_VERSION, driver, sizeof driver);
    snprintf(device->identity, sizeof device->identity, "%s|%s|%s", name, version, driver);
    clGetPlatformInfo(device->platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
    device->lazy = strcmp(name, "Portable Computing Language") == 0;
    pthread_mutex_init(&device->lock, NULL);
    *out = device;
    return MTP_OK;
}

static void close_device(mtp_plugin_device *device)
{
    clp_programs_release(device);
    clReleaseCommandQueue(device->any);
    clReleaseContext(device->context);
    free(device);
}

static mtp_status properties(mtp_plugin_device *device, mtp_plugin_properties *out)
{
    if (out->size != sizeof *out)
        return clp_fail(MTP_E_ABI, "mtp_plugin_properties: size %zu, not %zu", out->size, sizeof *out);
    cl_device_id id = device->id;
    cl_ulong memory = 0, largest = 0, local = 0;
    cl_uint units = 0, clock = 0, align = 0;
    size_t group = 0, resolution = 0;
    cl_device_type type = 0;
    cl_device_fp_config doubles = 0;
    char extensions[8192];
    clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    clGetDeviceInfo(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL);
    clGetDeviceInfo(id, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    clGetDeviceInfo(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
    clGetDeviceInfo(id, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof clock, &clock, NULL);
    clGetDeviceInfo(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof align, &align, NULL);
    clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
    clGetDeviceInfo(id, CL_DEVICE_PROFILING_TIMER_RESOLUTION, sizeof resolution, &resolution, NULL);
    clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    clGetDeviceInfo(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL);
    text_of(id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    text_of(id, CL_DEVICE_NAME, out->name, sizeof out->name);
    text_of(id, CL_DEVICE_VENDOR, out->vendor, sizeof out->vendor);
    text_of(id, CL_DRIVER_VERSION, out->driver, sizeof out->driver);
    out->memory_bytes = memory;
    out->largest_alloc = largest;
    out->local_bytes = local;
    out->compute_units = units;
    out->clock_mhz = clock;
    out->work_group_most = (uint32_t)group;
    out->address_align = align / 8;
    out->clock_resolution_ns = (uint32_t)resolution;
    out->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    out->has_float64 = doubles != 0;
    out->has_int64_atomics = strstr(extensions, "cl_khr_int64_base_atomics") != NULL;
    out->lazy_kernels = device->lazy;
    return MTP_OK;
}

/* -------------------------------------------------------------------------------------- memory and streams */

static mtp_status alloc(mtp_plugin_device *device, uint64_t bytes, mtp_plugin_memory **out)
{
    cl_int code;
    cl_ulong all = 0;
    *out = NULL;
    clGetDeviceInfo(device->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof all, &all, NULL);
    if (bytes > all) /* a driver that allocates at first use would accept it */
        return clp_fail(MTP_E_NOMEM, "clCreateBuffer: %llu bytes, but the device has %llu",
                        (unsigned long long)bytes, (unsigned long long)all);
    *out = (mtp_plugin_memory *)clCreateBuffer(device->context, CL_MEM_READ_WRITE, bytes > 0 ? bytes : 1,
                                               NULL, &code);
    return clp_check(code, "clCreateBuffer");
}

static void free_memory(mtp_plugin_memory *memory)
{
    clReleaseMemObject((cl_mem)memory);
}

static void stream_destroy(mtp_plugin_stream *stream)
{
    clReleaseCommandQueue((cl_command_queue)stream);
}

static mtp_status stream_flush(mtp_plugin_stream *stream)
{
    return clp_check(clFlush((cl_command_queue)stream), "clFlush");
}

static mtp_status stream_synchronize(mtp_plugin_stream *stream)
{
    return clp_check(clFinish((cl_command_queue)stream), "clFinish");
}

static mtp_status stream_wait(mtp_plugin_stream *stream, mtp_plugin_event *event)
{
    return clp_check(
        clEnqueueBarrierWithWaitList((cl_command_queue)stream, 1, (const cl_event *)&event, NULL),
        "clEnqueueBarrierWithWaitList");
}

static mtp_status copy_in(mtp_plugin_stream *stream, mtp_plugin_memory *to, uint64_t at, const void *from,
                          uint64_t bytes, bool blocking, mtp_plugin_event **event)
{
    if (event != NULL)
        *event = NULL;
    return clp_check(clEnqueueWriteBuffer((cl_command_queue)stream, (cl_mem)to, blocking, at, bytes, from, 0,
                                          NULL, (cl_event *)event),
                     "clEnqueueWriteBuffer");
}

static mtp_status copy_out(mtp_plugin_stream *stream, void *to, mtp_plugin_memory *from, uint64_t at,
                           uint64_t bytes, bool blocking, mtp_plugin_event **event)
{
    if (event != NULL)
        *event = NULL;
    return clp_check(clEnqueueReadBuffer((cl_command_queue)stream, (cl_mem)from, blocking, at, bytes, to, 0,
                                         NULL, (cl_event *)event),
                     "clEnqueueReadBuffer");
}

static mtp_status copy(mtp_plugin_stream *stream, mtp_plugin_memory *to, uint64_t to_at,
                       mtp_plugin_memory *from, uint64_t from_at, uint64_t bytes, mtp_plugin_event **event)
{
    if (event != NULL)
        *event = NULL;
    return clp_check(clEnqueueCopyBuffer((cl_command_queue)stream, (cl_mem)from, (cl_mem)to, from_at, to_at,
                                         bytes, 0, NULL, (cl_event *)event),
                     "clEnqueueCopyBuffer");
}

static mtp_status fill(mtp_plugin_stream *stream, mtp_plugin_memory *to, uint64_t at, uint64_t bytes,
                       const void *pattern, uint32_t pattern_bytes, mtp_plugin_event **event)
{
    if (event != NULL)
        *event = NULL;
    return clp_check(clEnqueueFillBuffer((cl_command_queue)stream, (cl_mem)to, pattern, pattern_bytes, at,
                                         bytes, 0, NULL, (cl_event *)event),
                     "clEnqueueFillBuffer");
}

/* -------------------------------------------------------------------------------------------------- kernels */

static void kernel_release(mtp_plugin_kernel *kernel)
{
    clReleaseKernel((cl_kernel)kernel);
}

static mtp_status launch(mtp_plugin_stream *stream, mtp_plugin_kernel *kernel, uint32_t dims,
                         const uint64_t *global, const uint64_t *local, const mtp_plugin_arg *args,
                         uint32_t arg_count, mtp_plugin_event **event)
{
    _Static_assert(sizeof(size_t) == sizeof(uint64_t), "sizes are passed unconverted");
    cl_kernel k = (cl_kernel)kernel;
    if (event != NULL)
        *event = NULL;
    for (uint32_t i = 0; i < arg_count; i++) {
        const mtp_plugin_arg *a = &args[i];
        cl_int code = a->kind == 0   ? clSetKernelArg(k, i, sizeof(cl_mem), &a->as.memory)
                      : a->kind == 1 ? clSetKernelArg(k, i, a->bytes, a->as.value)
                                     : clSetKernelArg(k, i, a->bytes, NULL);
        if (code != CL_SUCCESS) {
            char what[64];
            snprintf(what, sizeof what, "clSetKernelArg %u", i);
            return clp_check(code, what);
        }
    }
    return clp_check(clEnqueueNDRangeKernel((cl_command_queue)stream, k, dims, NULL, (const size_t *)global,
                                            (const size_t *)local, 0, NULL, (cl_event *)event),
                     "clEnqueueNDRangeKernel");
}

/* --------------------------------------------------------------------------------------------------- events */

static mtp_status event_record(mtp_plugin_stream *stream, mtp_plugin_event **out)
{
    *out = NULL;
    return clp_check(clEnqueueMarkerWithWaitList((cl_command_queue)stream, 0, NULL, (cl_event *)out),
                     "clEnqueueMarkerWithWaitList");
}

static mtp_status event_done(mtp_plugin_event *event, bool *out)
{
    cl_int state = CL_QUEUED;
    cl_int code =
        clGetEventInfo((cl_event)event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    *out = state <= CL_COMPLETE;
    if (code == CL_SUCCESS && state < 0)
        return clp_check(state, "a command on the device");
    return clp_check(code, "clGetEventInfo");
}

static mtp_status event_wait(mtp_plugin_event *event)
{
    return clp_check(clWaitForEvents(1, (const cl_event *)&event), "clWaitForEvents");
}

static mtp_status event_times(mtp_plugin_event *event, mtp_plugin_times *out)
{
    cl_event e = (cl_event)event;
    cl_ulong t[4] = {0};
    static const cl_profiling_info which[] = {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT,
                                              CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < 4 && code == CL_SUCCESS; i++)
        code = clGetEventProfilingInfo(e, which[i], sizeof t[i], &t[i], NULL);
    *out = (mtp_plugin_times){t[0], t[1], t[2], t[3]};
    return clp_check(code, "clGetEventProfilingInfo");
}

static void event_release(mtp_plugin_event *event)
{
    clReleaseEvent((cl_event)event);
}

/* A marker is queued between two readings of the host clock: every driver timestamps it by
 * the device's clock. */
static mtp_status device_clock(mtp_plugin_device *device, uint64_t (*host)(void), uint64_t *device_ns,
                               uint64_t *before, uint64_t *after)
{
    cl_command_queue queue = device->any; /* it is empty: the marker is done at once */
    cl_event e = NULL;
    cl_ulong queued = 0;
    *before = host();
    cl_int code = clEnqueueMarkerWithWaitList(queue, 0, NULL, &e);
    *after = host();
    if (code == CL_SUCCESS) {
        code = clWaitForEvents(1, &e);
        if (code == CL_SUCCESS)
            code = clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_QUEUED, sizeof queued, &queued, NULL);
        clReleaseEvent(e);
    }
    *device_ns = queued;
    return clp_check(code, "the device's clock");
}

static const char *const calls[] = {"clEnqueueNDRangeKernel",
                                    "clEnqueueWriteBuffer",
                                    "clEnqueueReadBuffer",
                                    "clEnqueueCopyBuffer",
                                    "clEnqueueFillBuffer",
                                    "clFinish",
                                    "CLBlastGemm",
                                    "clBuildProgram"};

static const mtp_plugin plugin = {
    .size = sizeof(mtp_plugin),
    .version = MTP_PLUGIN_VERSION,
    .name = "opencl",
    .language = "opencl-c",
    .calls = calls,
    .last_error = last_error,
    .count = count,
    .open = open_device,
    .close = close_device,
    .properties = properties,
    .alloc = alloc,
    .free = free_memory,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_flush = stream_flush,
    .stream_synchronize = stream_synchronize,
    .stream_wait = stream_wait,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy,
    .fill = fill,
    .kernel_build = clp_kernel_build,
    .kernel_release = kernel_release,
    .launch = launch,
    .event_record = event_record,
    .event_done = event_done,
    .event_wait = event_wait,
    .event_times = event_times,
    .event_release = event_release,
    .clock = device_clock,
    .gemm = clp_gemm,
    .gemm_name = clp_gemm_name,
};

MTP_API const mtp_plugin *mtp_plugin_get(uint32_t version);
const mtp_plugin *mtp_plugin_get(uint32_t version)
{
    return version == MTP_PLUGIN_VERSION ? &plugin : NULL;
}
