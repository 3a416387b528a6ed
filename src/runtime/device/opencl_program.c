/* runtime/device/opencl_program.c - kernels from source, compiled once per device and driver and kept on disk.
 *
 * The file's name is a hash of device, driver, options and source; it lies in $MINDTORCH_CACHE, else in
 * $XDG_CACHE_HOME/mindtorch, else in ~/.cache/mindtorch. It is written beside its place and renamed, so that processes do
 * not see halves of it. A file that the driver refuses is compiled anew. MINDTORCH_CACHE=0: no files.
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

/* False: no cache. */
static bool cache_path(const mtp_plugin_device *device, const char *source, const char *options, char *out,
                       size_t room)
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
    uint64_t a = 0xcbf29ce484222325u, b = 0x9ae16a3b2f90404fu;
    const char *const parts[] = {device->identity, options, source};
    for (int i = 0; i < 3; i++) {
        a = hash_text(a, parts[i]);
        b = hash_text(b ^ a, parts[i]);
    }
    return snprintf(out, room, "%s/%016llx%016llx.cl.bin", folder, (unsigned long long)a,
                    (unsigned long long)b) < (int)room;
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
        char log[3000] = "";
        clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        clReleaseProgram(program);
        return clp_fail(MTP_E_FORMAT, "kernel %s does not build (%d): %s", name, (int)code, log);
    }
    *out = program;
    return MTP_OK;
}

mtp_status clp_kernel_build(mtp_plugin_device *device, const char *source, const char *options,
                            const char *name, mtp_plugin_kernel **out)
{
    char path[640], all[256];
    cl_int code;
    *out = NULL;
    snprintf(all, sizeof all, "-w %s%s", device->rounds ? "-cl-fp32-correctly-rounded-divide-sqrt " : "",
             options != NULL ? options : "");
    bool cached = cache_path(device, source, all, path, sizeof path);
    cl_program program = cached ? load(device, path, all) : NULL;
    if (program == NULL) {
        mtp_status status = compile(device, source, all, name, &program);
        if (status != MTP_OK)
            return status;
        if (cached)
            keep(program, path);
    }
    *out = (mtp_plugin_kernel *)clCreateKernel(program, name, &code);
    clReleaseProgram(program); /* the kernel holds it */
    return clp_check(code, name);
}
