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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const cl_icd_dispatch *mtp__next;

static struct {
    mtp_profile *profile; /* owned */
    char out[4096];
    bool is_spool;
    pid_t pid;
} own;

static void warn(void *unused, mtp_warning code, const char *text)
{
    (void)unused;
    if (code != MTP_WARNING_FORK_NOT_FOLLOWED) /* a program that the child runs has its own layer and trace */
        fprintf(stderr, "mtprof: %s\n", text);
}

/* Printed once, with the first reason. */
static void records_nothing(const char *why)
{
    static bool reported;
    if (!reported)
        fprintf(stderr, "mtprof: the OpenCL layer records nothing: %s\n", why);
    reported = true;
}

/* %p in the name is the process id, so that programs which start others leave a file for each. A relative
 * name is resolved now: the program may change its working directory. */
static bool name_file(const char *pattern)
{
    size_t at = 0;
    if (pattern[0] != '/' && strcmp(pattern, "-") != 0 && getcwd(own.out, sizeof own.out - 1) != NULL) {
        at = strlen(own.out);
        own.out[at++] = '/';
    }
    for (const char *p = pattern; *p != 0; p++) {
        bool is_process = p[0] == '%' && p[1] == 'p';
        int n = is_process ? snprintf(own.out + at, sizeof own.out - at, "%ld", (long)getpid())
                           : snprintf(own.out + at, sizeof own.out - at, "%c", *p);
        p += is_process;
        at += (size_t)n;
        if (at >= sizeof own.out)
            return false;
    }
    own.is_spool = at > 4 && strcmp(own.out + at - 4, ".mtp") == 0;
    return true;
}

/* The extension names no format. Write JSON anyway: the run may not be repeatable. */
static mtp_status write_json(const mtp_trace *trace)
{
    char path[sizeof own.out + 8];
    fprintf(stderr, "mtprof: %s\n", mtp_last_error());
    snprintf(path, sizeof path, "%s.json", own.out);
    mtp_status status = mtp_trace_export(trace, path, NULL);
    if (status == MTP_OK)
        fprintf(stderr, "mtprof: the trace is in %s\n", path);
    return status;
}

static void report_missing(uint64_t commands, const char *why)
{
    if (commands > 0)
        fprintf(stderr, "mtprof: commands missing from the trace as device work: %llu (%s)\n",
                (unsigned long long)commands, why);
}

static void write_own(void)
{
    mtp_trace *trace = NULL;
    if (getpid() != own.pid)
        return; /* a child: the trace belongs to the parent */
    mtp_status status = mtp_profile_stop(own.profile);
    if (status == MTP_OK && !own.is_spool) {
        status = mtp_profile_trace(own.profile, &trace);
        if (status == MTP_OK)
            status = mtp_trace_export(trace, own.out, NULL);
        if (status == MTP_E_ARG)
            status = write_json(trace);
    }
    if (status != MTP_OK)
        fprintf(stderr, "mtprof: no trace was written to %s: %s\n", own.out, mtp_last_error());
    report_missing(mtp__flights_lost(), "not finished at exit");
    report_missing(mtp__flights_timeless(), "on queues without times");
    mtp_trace_destroy(trace);
    mtp_profile_destroy(own.profile);
}

static void start_own(const char *out)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.profile_memory = true;
    config.on_warning = warn;
    if (!name_file(out)) {
        records_nothing("MTPROF_OUT is too long");
        return;
    }
    if (own.is_spool) {
        config.spool = own.out;
        config.when_full = MTP_STREAM;
    }
    if (mtp_profile_create(&config, &own.profile) != MTP_OK || mtp_profile_start(own.profile) != MTP_OK) {
        records_nothing(mtp_last_error());
        return;
    }
    own.pid = getpid();
    atexit(write_own);
}

/* Without MTPROF_OUT the program was expected to run a profile. */
static void report_unused(void)
{
    if (getpid() == own.pid && !mtp__flights_recorded())
        records_nothing("MTPROF_OUT is not set, and the program ran no profile");
}

static void start(void)
{
    const char *file = getenv("MTPROF_OUT");
    if (mtp__flights_init() != MTP_OK) {
        records_nothing("out of memory");
    } else if (file != NULL && *file != 0) {
        start_own(file);
    } else {
        own.pid = getpid();
        atexit(report_unused);
    }
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
        records_nothing(
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
