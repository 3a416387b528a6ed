/* collect/opencl/layer.c - an OpenCL layer: the kernels, copies and buffers of any OpenCL program, in a profile.
 *
 *     OPENCL_LAYERS=/path/libmtprof_opencl.so MTPROF_OUT=trace.json program
 *
 * The ICD loader puts this table of functions between the program and its drivers (ocl-icd from 2.3, Khronos' from 2021).
 * With MTPROF_OUT the layer makes the profile itself, for the whole process, and writes it at exit; without, it records into
 * whatever profile the program runs. See docs/opencl-layer.md.
 *
 * Threads: any. Errors of the layer never reach the program: it says them on stderr, and the program goes on.
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
    if (code != MTP_WARNING_FORK_NOT_FOLLOWED) /* what a child then runs has a layer and a trace of its own */
        fprintf(stderr, "mtprof: %s\n", text);
}

/* Said once: there is one reason, the first. */
static void records_nothing(const char *why)
{
    static bool said;
    if (!said)
        fprintf(stderr, "mtprof: the OpenCL layer records nothing: %s\n", why);
    said = true;
}

/* %p in the name is the process: programs that start others leave a file for each. A name without a folder is one of where
 * we are now: the program may go elsewhere. */
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

/* A name that says no form: the run may not come again. */
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

static void tell_missing(uint64_t commands, const char *why)
{
    if (commands > 0)
        fprintf(stderr, "mtprof: of the commands %llu %s not in the trace as device work\n",
                (unsigned long long)commands, why);
}

static void write_own(void)
{
    mtp_trace *trace = NULL;
    if (getpid() != own.pid)
        return; /* a child: the trace is its parent's */
    mtp_status status = mtp_profile_stop(own.profile);
    if (status == MTP_OK && !own.is_spool) {
        status = mtp_profile_trace(own.profile, &trace);
        if (status == MTP_OK)
            status = mtp_trace_export(trace, own.out, NULL);
        if (status == MTP_E_ARG)
            status = write_json(trace);
    }
    if (status != MTP_OK)
        fprintf(stderr, "mtprof: there is no trace of this run in %s: %s\n", own.out, mtp_last_error());
    tell_missing(mtp__flights_lost(), "had not ended and are");
    tell_missing(mtp__flights_timeless(), "ran on queues that give no times and are");
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

/* Without MTPROF_OUT the program was to run a profile. */
static void tell_unused(void)
{
    if (getpid() == own.pid && !mtp__flights_recorded())
        records_nothing("MTPROF_OUT names no file, and the program ran no profile of its own");
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
        atexit(tell_unused);
    }
}

/* What we call at exit must be there then, also when the program has closed it. */
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
    static cl_icd_dispatch ours; /* NULL slots are the loader's to fill */
    if (target == NULL || count_out == NULL || out == NULL)
        return CL_INVALID_VALUE;
    if (count < sizeof ours / sizeof ours.clGetPlatformIDs) {
        records_nothing(
            "OpenCL's loader (libOpenCL.so.1) is older than the headers that the layer was built with");
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
