/* opencl_program.c - a program that knows nothing of us: n small OpenCL kernels, some copies; prints what a kernel cost it.
 *
 * usage: opencl_program [kernels] [rounds] [profiling]
 *
 * For the layer of src/collect/opencl: tests run it under OPENCL_LAYERS, and its time with and without is the layer's cost
 * (bench_opencl_layer.py). With "profiling" its queue is made for profiling, as the layer makes it.
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The clock, the processors' time of the process, and that of this thread. */
static const clockid_t clocks[3] = {CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};

static double now(int which)
{
    struct timespec t;
    clock_gettime(clocks[which], &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void run(cl_command_queue queue, cl_kernel kernel, int n, double least[3])
{
    double start[3];
    size_t global = 64;
    for (int i = 0; i < 3; i++)
        start[i] = now(i);
    for (int i = 0; i < n; i++)
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &global, 0, NULL, NULL);
    clFinish(queue);
    for (int i = 0; i < 3; i++) {
        double each = (now(i) - start[i]) / n;
        least[i] = each < least[i] ? each : least[i];
    }
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 10000, rounds = argc > 2 ? atoi(argv[2]) : 5;
    bool profiling = argc > 3 && strcmp(argv[3], "profiling") == 0;
    const char *source = "__kernel void grow(__global int *x) { x[get_global_id(0)] += 1; }";
    cl_platform_id platform;
    cl_device_id id;
    int out[64] = {0};
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL) != CL_SUCCESS) {
        printf("no OpenCL device\n");
        return 77;
    }
    cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, NULL);
    cl_command_queue queue =
        clCreateCommandQueue(context, id, profiling ? CL_QUEUE_PROFILING_ENABLE : 0, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    clBuildProgram(program, 1, &id, "", NULL, NULL);
    cl_kernel kernel = clCreateKernel(program, "grow", NULL);
    cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof out, NULL, NULL);
    clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
    double least[3] = {1e18, 1e18, 1e18};
    for (int round = 0; round < rounds; round++)
        run(queue, kernel, n, least);
    cl_event event;
    clEnqueueReadBuffer(queue, memory, CL_FALSE, 0, sizeof out, out, 0, NULL, &event);
    clWaitForEvents(1, &event);
    clReleaseEvent(event);
    clReleaseMemObject(memory);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    bool right = out[63] == rounds * n;
    printf("%d kernels, each %.0f ns by the clock, %.0f of the process, %.0f of the thread; the sum is %s\n",
           n, least[0], least[1], least[2], right ? "right" : "wrong");
    return right ? 0 : 1;
}
