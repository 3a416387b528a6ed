/* runtime/device/opencl_program.c - kernels from source, compiled once per device and driver
 * and cached on disk.
 *
 * A source may contain many kernels: its program is built for the first one and kept for the others.
 *
 * A file's name is a hash of device, driver, options and source; it is in $MINDTORCH_CACHE, else in
 * $XDG_CACHE_HOME/mindtorch, else in ~/.cache/mindtorch. It is written under a temporary name and renamed,
 * so that processes never see a partial file. If the driver rejects a file, it is recompiled.
 * MINDTORCH_CACHE=0: no files. PoCL has its own cache, and would compile every kernel again to return a
 * binary: for PoCL there are no files.
 */
#define _GNU_SOURCE
#include "runtime/device/opencl.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t hash_text(uint64_t h, const char *text)
{
    for (; *text != 0; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return (h ^ 0xffu) * 0x100000001b3u;
}

typedef struct clp_program {
    uint64_t key[2];
    cl_program program; /* owned */
} clp_program;

static void hash_program(const mtp_plugin_device *device, const char *source, const char *options,
                         uint64_t key[2])
{
    const char *const parts[] = {device->identity, options, source};
    key[0] = 0xcbf29ce484222325u;
    key[1] = 0x9ae16a3b2f90404fu;
    for (int i = 0; i < 3; i++) {
        key[0] = hash_text(key[0], parts[i]);
        key[1] = hash_text(key[1] ^ key[0], parts[i]);
    }
}

/* False: no cache. */
static bool cache_path(const uint64_t key[2], char *out, size_t room)
{
    char folder[512];
    const char *set = getenv("MINDTORCH_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (set != NULL && strcmp(set, "0") == 0)
        return false;
    if (set != NULL && *set != 0) {
        snprintf(folder, sizeof folder, "%s", set);
    } else if (xdg != NULL && *xdg != 0) {
        mkdir(xdg, 0700);
        snprintf(folder, sizeof folder, "%s/mindtorch", xdg);
    } else if (home != NULL && *home != 0) {
        snprintf(folder, sizeof folder, "%s/.cache", home);
        mkdir(folder, 0700);
        snprintf(folder, sizeof folder, "%s/.cache/mindtorch", home);
    } else {
        return false;
    }
    mkdir(folder, 0700);
    return snprintf(out, room, "%s/%016llx%016llx.cl.bin", folder, (unsigned long long)key[0],
                    (unsigned long long)key[1]) < (int)room;
}

static cl_program load(mtp_plugin_device *device, const char *path, const char *options)
{
    FILE *f = fopen(path, "rbe");
    if (f == NULL)
        return NULL;
    cl_program program = NULL;
    struct stat st;
    unsigned char *bytes = NULL;
    if (fstat(fileno(f), &st) == 0 && st.st_size > 0)
        bytes = malloc((size_t)st.st_size);
    size_t size = bytes != NULL ? (size_t)st.st_size : 0;
    if (bytes != NULL && fread(bytes, 1, size, f) == size) {
        cl_int code, state;
        program = clCreateProgramWithBinary(device->context, 1, &device->id, &size,
                                            (const unsigned char **)&bytes, &state, &code);
        if (program != NULL && (state != CL_SUCCESS ||
                                clBuildProgram(program, 1, &device->id, options, NULL, NULL) != CL_SUCCESS)) {
            clReleaseProgram(program);
            program = NULL;
        }
    }
    free(bytes);
    fclose(f);
    return program;
}

static void keep(cl_program program, const char *path)
{
    size_t size = 0;
    char temporary[700];
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) != CL_SUCCESS ||
        size == 0)
        return;
    unsigned char *bytes = malloc(size);
    if (bytes == NULL)
        return;
    snprintf(temporary, sizeof temporary, "%s.%d.new", path, (int)getpid());
    if (clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, NULL) == CL_SUCCESS) {
        FILE *f = fopen(temporary, "wbe");
        bool whole = f != NULL && fwrite(bytes, 1, size, f) == size;
        if (f != NULL && fclose(f) != 0)
            whole = false;
        if (!whole || rename(temporary, path) != 0)
            unlink(temporary);
    }
    free(bytes);
}

static mtp_status compile(mtp_plugin_device *device, const char *source, const char *options,
                          const char *name, cl_program *out)
{
    cl_int code;
    cl_program program = clCreateProgramWithSource(device->context, 1, &source, NULL, &code);
    if (program == NULL)
        return clp_check(code, "clCreateProgramWithSource");
    code = clBuildProgram(program, 1, &device->id, options, NULL, NULL);
    if (code != CL_SUCCESS) {
        size_t size = 0;
        clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
        char *log = calloc(1, size + 1);
        if (log != NULL)
            clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, size, log, NULL);
        mtp_status failed = clp_fail(MTP_E_FORMAT, "kernel %s failed to build (%d): %.3000s", name, (int)code,
                                     log != NULL ? log : "");
        free(log);
        clReleaseProgram(program);
        return failed;
    }
    *out = program;
    return MTP_OK;
}

/* Finds the program in memory or on disk, or compiles it. The lock is held; the program is borrowed. */
static mtp_status program_of(mtp_plugin_device *device, const char *source, const char *options,
                             const char *name, cl_program *out)
{
    char path[640];
    clp_program made = {.program = NULL};
    hash_program(device, source, options, made.key);
    for (uint32_t i = 0; i < device->program_count; i++)
        if (memcmp(device->programs[i].key, made.key, sizeof made.key) == 0) {
            *out = device->programs[i].program;
            return MTP_OK;
        }
    clp_program *more = realloc(device->programs, (device->program_count + 1) * sizeof *more);
    if (more == NULL)
        return clp_fail(MTP_E_NOMEM, "out of memory: the program of kernel %s", name);
    device->programs = more;
    bool cached = !device->lazy && cache_path(made.key, path, sizeof path);
    made.program = cached ? load(device, path, options) : NULL;
    if (made.program == NULL) {
        mtp_status status = compile(device, source, options, name, &made.program);
        if (status != MTP_OK)
            return status;
        if (cached)
            keep(made.program, path);
    }
    more[device->program_count++] = made;
    *out = made.program;
    return MTP_OK;
}

mtp_status clp_kernel_build(mtp_plugin_device *device, const char *source, const char *options,
                            const char *name, mtp_plugin_kernel **out)
{
    char all[256];
    cl_int code = CL_SUCCESS;
    cl_program program = NULL;
    *out = NULL;
    snprintf(all, sizeof all, "-w %s%s", device->rounds ? "-cl-fp32-correctly-rounded-divide-sqrt " : "",
             options != NULL ? options : "");
    pthread_mutex_lock(&device->lock);
    mtp_status status = program_of(device, source, all, name, &program);
    if (status == MTP_OK)
        *out = (mtp_plugin_kernel *)clCreateKernel(program, name, &code);
    pthread_mutex_unlock(&device->lock);
    return status == MTP_OK ? clp_check(code, name) : status;
}

void clp_programs_release(mtp_plugin_device *device)
{
    for (uint32_t i = 0; i < device->program_count; i++)
        clReleaseProgram(device->programs[i].program);
    free(device->programs);
    pthread_mutex_destroy(&device->lock);
}
