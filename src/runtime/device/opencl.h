/* runtime/device/opencl.h - shared by the files of the OpenCL plug-in. */
#ifndef DEVICE_OPENCL_H
#define DEVICE_OPENCL_H
#include <CL/cl.h>
#include <mtprof_device.h>
#include <pthread.h>

struct mtp_plugin_device {
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue any; /* for commands that need a queue but no order */
    bool rounds;          /* supports -cl-fp32-correctly-rounded-divide-sqrt */
    char identity[512];   /* of device and driver: part of the key of cached programs */
    bool lazy;            /* PoCL: compiles kernels at their first launch, and caches them on disk itself */
    pthread_mutex_t lock; /* guards programs */
    struct clp_program *programs; /* owned: built programs, by hash */
    uint32_t program_count;
};

/* Sets the text of last_error() and returns status. */
__attribute__((format(printf, 2, 3))) mtp_status clp_fail(mtp_status status, const char *format, ...);
/* The same for an OpenCL code; CL_SUCCESS: MTP_OK. */
mtp_status clp_check(cl_int code, const char *what);

mtp_status clp_kernel_build(mtp_plugin_device *device, const char *source, const char *options,
                            const char *name, mtp_plugin_kernel **out);
void clp_programs_release(mtp_plugin_device *device);
mtp_status clp_gemm(mtp_plugin_stream *stream, const mtp_plugin_gemm *g, mtp_plugin_event **event);
const char *clp_gemm_name(mtp_plugin_device *device);

#endif
