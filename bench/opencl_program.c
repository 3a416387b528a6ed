/* opencl_program.c - a program that knows nothing of us: n small OpenCL kernels, some copies; prints what a kernel cost it.
 *
 * For the layer of src/collect/opencl: tests run it under OPENCL_LAYERS, and its time with and without is the layer's cost.
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other load on the machine does not count */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 10000;
    const char *source = "__kernel void grow(__global int *x) { x[get_global_id(0)] += 1; }";
    cl_platform_id platform;
    cl_device_id id;
    int out[64] = {0};
    size_t global = 64;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL) != CL_SUCCESS) {
        printf("no OpenCL device\n");
        return 77;
    }
    cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, id, 0, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    clBuildProgram(program, 1, &id, "", NULL, NULL);
    cl_kernel kernel = clCreateKernel(program, "grow", NULL);
    cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof out, NULL, NULL);
    clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
    double best = 1e18;
    for (int round = 0; round < 5; round++) {
        double start = now();
        for (int i = 0; i < n; i++)
            clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &global, 0, NULL, NULL);
        clFinish(queue);
        double each = (now() - start) / n;
        best = each < best ? each : best;
    }
    cl_event event;
    clEnqueueReadBuffer(queue, memory, CL_FALSE, 0, sizeof out, out, 0, NULL, &event);
    clWaitForEvents(1, &event);
    clReleaseEvent(event);
    clReleaseMemObject(memory);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    printf("%d kernels, %.0f ns of the thread each; the sum is %s\n", n, best,
           out[63] == 5 * n ? "right" : "wrong");
    return out[63] == 5 * n ? 0 : 1;
}
