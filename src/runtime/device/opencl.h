/* runtime/device/opencl.h - what the files of the OpenCL plug-in share. */
#ifndef DEVICE_OPENCL_H
#define DEVICE_OPENCL_H
#include <CL/cl.h>
#include <mtprof_device.h>
#include <pthread.h>

struct mtp_plugin_device {
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue any; /* for what needs a queue but no order */
    bool rounds;          /* -cl-fp32-correctly-rounded-divide-sqrt is understood */
    char identity[512];   /* of device and driver: part of the key of cached programs */
    bool lazy;            /* PoCL: it compiles kernels at their first launch, and keeps them on disk itself */
    pthread_mutex_t lock; /* of programs */
    struct clp_program *programs; /* owned: those that were built, by hash */
    uint32_t program_count;
};

/* Leaves the text for last_error() and returns status. */
__attribute__((format(printf, 2, 3))) mtp_status clp_fail(mtp_status status, const char *format, ...);
/* The same for a code of OpenCL; CL_SUCCESS: MTP_OK. */
mtp_status clp_check(cl_int code, const char *what);

mtp_status clp_kernel_build(mtp_plugin_device *device, const char *source, const char *options,
                            const char *name, mtp_plugin_kernel **out);
void clp_programs_release(mtp_plugin_device *device);
mtp_status clp_gemm(mtp_plugin_stream *stream, const mtp_plugin_gemm *g, mtp_plugin_event **event);
const char *clp_gemm_name(mtp_plugin_device *device);

#endif
