/* opencl_profiled.c - a program with its own profile, into which the layer records: two recordings, one
 * exported.
 *
 * usage: opencl_profiled TRACE.json      prints the number of kernels in each recording
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>

static cl_command_queue queue;
static cl_kernel kernel;

static void must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "opencl_profiled: %s: %s\n", what, mtp_last_error());
        exit(1);
    }
}

static void set_up(void)
{
    const char *source = "__kernel void grow(__global int *x) { x[get_global_id(0)] += 1; }";
    cl_platform_id platform;
    cl_device_id id;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL) != CL_SUCCESS)
        exit(77);
    cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, NULL);
    queue = clCreateCommandQueue(context, id, 0, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    must(clBuildProgram(program, 1, &id, "", NULL, NULL) == CL_SUCCESS, "build");
    cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, 1 << 20, NULL, NULL);
    kernel = clCreateKernel(program, "grow", NULL);
    must(clSetKernelArg(kernel, 0, sizeof memory, &memory) == CL_SUCCESS, "argument");
}

static void launch(int n, bool wait)
{
    size_t items = 1 << 18;
    for (int i = 0; i < n; i++)
        must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL) == CL_SUCCESS,
             "launch");
    if (wait)
        must(clFinish(queue) == CL_SUCCESS, "finish");
}

/* Kernels of a recording; stop() waits for what is in flight. */
static int record(mtp_profile *prof, int n, bool wait, const char *out)
{
    mtp_trace *trace;
    int kernels = 0;
    must(mtp_profile_start(prof) == MTP_OK, "start");
    launch(n, wait);
    must(mtp_profile_stop(prof) == MTP_OK && mtp_profile_trace(prof, &trace) == MTP_OK, "stop");
    mtp_averages *averages;
    must(mtp_averages_create(trace, NULL, &averages) == MTP_OK, "averages");
    for (size_t i = 0; i < mtp_averages_count(averages); i++) {
        const mtp_row *row = mtp_averages_row(averages, i);
        kernels += row->is_device ? (int)row->count : 0;
    }
    if (out != NULL)
        must(mtp_trace_export(trace, out, NULL) == MTP_OK, "export");
    mtp_averages_destroy(averages);
    mtp_trace_destroy(trace);
    return kernels;
}

int main(int argc, char **argv)
{
    mtp_profile *prof;
    if (argc != 2)
        return 2;
    set_up();
    must(mtp_profile_create(NULL, &prof) == MTP_OK, "profile");
    launch(7, true); /* not recorded; the driver compiles the kernel */
    int first = record(prof, 20, false, NULL);
    launch(7, true);
    int second = record(prof, 5, true, argv[1]);
    printf("%d then %d\n", first, second);
    mtp_profile_destroy(prof);
    return 0;
}
