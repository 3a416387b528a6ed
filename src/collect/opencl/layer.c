/* collect/opencl/layer.c - an OpenCL layer: profiles the kernels, copies and buffers of any OpenCL program.
 *
 *     OPENCL_LAYERS=/path/libmtprof_opencl.so MTPROF_OUT=trace.json program
 *
 * The ICD loader puts this table of functions between the program and its drivers (ocl-icd from 2.3, Khronos'
 * from 2021). With MTPROF_OUT the layer itself profiles the whole process and writes the profile at exit;
 * without, it records into whatever profile the program runs. See docs/opencl-layer.md.
 *
 * Threads: any. Errors of the layer never reach the program: they are printed to stderr, and the program
 * continues.
 */
#define _GNU_SOURCE
#include "collect/opencl/layer.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "collect/own.h"

const cl_icd_dispatch *mtp__next;

static void report_missing(uint64_t commands, const char *why)
{
    if (commands > 0)
        fprintf(stderr, "mtprof: commands missing from the trace as device work: %llu (%s)\n",
                (unsigned long long)commands, why);
}

static void report(void)
{
    report_missing(mtp__flights_lost(), "not finished at exit");
    report_missing(mtp__flights_timeless(), "on queues without times");
}

static const mtp__collector layer = {"the OpenCL layer", mtp__flights_recorded, report};

static void start(void)
{
    if (mtp__flights_init() == MTP_OK)
        mtp__own_start(&layer);
    else
        mtp__own_records_nothing(&layer, "out of memory");
}

/* Libraries that we call at exit must stay loaded, even if the program closes them. */
static void keep_loaded(const void *inside)
{
    Dl_info info;
    if (dladdr(inside, &info) != 0 && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
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
    static cl_icd_dispatch ours; /* the loader fills NULL slots */
    if (target == NULL || count_out == NULL || out == NULL)
        return CL_INVALID_VALUE;
    if (count < sizeof ours / sizeof ours.clGetPlatformIDs) {
        mtp__own_records_nothing(
            &layer,
            "the OpenCL loader (libOpenCL.so.1) is older than the headers that the layer was built with");
        return CL_INVALID_VALUE;
    }
    bool first = mtp__next == NULL;
    mtp__next = target;
    keep_loaded(target);
    keep_loaded((const void *)(uintptr_t)target->clFinish);
    mtp__queues_hook(&ours);
    mtp__commands_hook(&ours);
    mtp__images_hook(&ours);
    mtp__memory_hook(&ours);
    *count_out = sizeof ours / sizeof ours.clGetPlatformIDs;
    *out = &ours;
    if (first)
        start();
    return CL_SUCCESS;
}
