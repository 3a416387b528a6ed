/* A device plug-in that fails on request. It forwards all calls to the plug-in at $FAULTY_BEHIND.
 *
 * faulty_set(what, after): fail from call number `after` of its kind on (0: the next), until faulty_clear().
 * $FAULTY_TABLE: "version", "short" or "hole": the defect of the table.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <mtprof_device.h>
#include "faulty_plugin.h"

static const mtp_plugin *behind;
static mtp_plugin table;
static _Atomic int left[FAULTY_KINDS]; /* -1: all is well */
static _Thread_local const char *said;

void faulty_set(faulty_kind kind, int after)
{
    left[kind] = after;
}

void faulty_clear(void)
{
    for (int i = 0; i < FAULTY_KINDS; i++)
        left[i] = -1;
}

static bool fails(faulty_kind kind)
{
    if (left[FAULTY_LOST] == 0) {
        said = "clEnqueueNDRangeKernel: CL_DEVICE_NOT_AVAILABLE";
        return true;
    }
    if (left[kind] < 0 || left[kind]-- > 0)
        return false;
    left[kind] = 0;
    return true;
}

static const char *last_error(void)
{
    return said != NULL ? said : behind->last_error();
}

static mtp_status alloc(mtp_plugin_device *device, uint64_t bytes, mtp_plugin_memory **out)
{
    *out = NULL;
    said = "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE";
    if (left[FAULTY_LARGE] >= 0 && bytes > (uint64_t)left[FAULTY_LARGE] << 20)
        return MTP_E_NOMEM;
    if (fails(FAULTY_MEMORY))
        return left[FAULTY_LOST] == 0 ? MTP_E_STATE : MTP_E_NOMEM;
    said = NULL;
    return behind->alloc(device, bytes, out);
}

static mtp_status kernel_build(mtp_plugin_device *device, const char *source, const char *options,
                               const char *name, mtp_plugin_kernel **out)
{
    *out = NULL;
    said = NULL;
    if (fails(FAULTY_BUILD)) /* really: the compiler has the word */
        return behind->kernel_build(device, "__kernel void broken(int x) { undeclared = x; }", options, name,
                                    out);
    return behind->kernel_build(device, source, options, name, out);
}

static mtp_status launch(mtp_plugin_stream *stream, mtp_plugin_kernel *kernel, uint32_t dims,
                         const uint64_t *global, const uint64_t *local, const mtp_plugin_arg *args,
                         uint32_t arg_count, mtp_plugin_event **event)
{
    if (event != NULL)
        *event = NULL;
    said = "clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES";
    if (fails(FAULTY_LAUNCH))
        return MTP_E_STATE;
    said = NULL;
    return behind->launch(stream, kernel, dims, global, local, args, arg_count, event);
}

static mtp_status stream_synchronize(mtp_plugin_stream *stream)
{
    said = NULL;
    return fails(FAULTY_NOTHING) ? MTP_E_STATE : behind->stream_synchronize(stream);
}

static mtp_status copy_out(mtp_plugin_stream *stream, void *to, mtp_plugin_memory *from, uint64_t at,
                           uint64_t bytes, bool blocking, mtp_plugin_event **event)
{
    if (event != NULL)
        *event = NULL;
    said = NULL;
    return fails(FAULTY_NOTHING) ? MTP_E_STATE
                                 : behind->copy_out(stream, to, from, at, bytes, blocking, event);
}

static mtp_status event_done(mtp_plugin_event *event, bool *out)
{
    *out = false;
    said = "clGetEventInfo: CL_DEVICE_NOT_AVAILABLE";
    return fails(FAULTY_EVENTS) ? MTP_E_STATE : behind->event_done(event, out);
}

static mtp_status event_wait(mtp_plugin_event *event)
{
    said = "clWaitForEvents: CL_DEVICE_NOT_AVAILABLE";
    return fails(FAULTY_EVENTS) ? MTP_E_STATE : behind->event_wait(event);
}

static mtp_status event_times(mtp_plugin_event *event, mtp_plugin_times *out)
{
    said = "clGetEventProfilingInfo: CL_PROFILING_INFO_NOT_AVAILABLE";
    return fails(FAULTY_EVENTS) ? MTP_E_UNSUPPORTED : behind->event_times(event, out);
}

MTP_API const mtp_plugin *mtp_plugin_get(uint32_t version);
const mtp_plugin *mtp_plugin_get(uint32_t version)
{
    const char *wrong = getenv("FAULTY_TABLE");
    void *h = dlopen(getenv("FAULTY_BEHIND"), RTLD_NOW | RTLD_LOCAL);
    mtp_plugin_get_fn *get;
    if (h == NULL)
        return NULL;
    *(void **)&get = dlsym(h, MTP_PLUGIN_ENTRY);
    behind = get(version);
    if (behind == NULL)
        return NULL;
    faulty_clear();
    table = *behind;
    table.last_error = last_error;
    table.alloc = alloc;
    table.kernel_build = kernel_build;
    table.launch = launch;
    table.stream_synchronize = stream_synchronize;
    table.copy_out = copy_out;
    table.event_done = event_done;
    table.event_wait = event_wait;
    table.event_times = event_times;
    if (wrong != NULL && strcmp(wrong, "version") == 0)
        table.version = version + 1;
    else if (wrong != NULL && strcmp(wrong, "short") == 0)
        table.size = offsetof(mtp_plugin, gemm) - 1;
    else if (wrong != NULL && strcmp(wrong, "hole") == 0)
        table.launch = NULL;
    else if (wrong != NULL && strcmp(wrong, "old") == 0)
        table.size = offsetof(mtp_plugin, gemm);
    return &table;
}
