/* opencl_program.c - an ordinary OpenCL program that does not know mtprof: n small kernels and some copies;
 * prints the time per kernel.
 *
 * usage: opencl_program [kernels] [rounds] [items] [profiling]
 *
 * Exercises the layer in src/collect/opencl: tests run it under OPENCL_LAYERS, and bench_opencl_layer.py
 * measures the layer's cost as its time with and without. With "profiling" it creates its queue with
 * profiling enabled, as the layer does.
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GROUP 64

/* Wall clock, CPU time of the process, CPU time of this thread. */
static const clockid_t clocks[3] = {CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};

static double now(int which)
{
    struct timespec t;
    clock_gettime(clocks[which], &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void run(cl_command_queue queue, cl_kernel kernel, int n, size_t items, double each[3])
{
    double start[3];
    size_t group = GROUP;
    for (int i = 0; i < 3; i++)
        start[i] = now(i);
    for (int i = 0; i < n; i++)
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL);
    clFinish(queue);
    for (int i = 0; i < 3; i++)
        each[i] = (now(i) - start[i]) / n;
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void tell(int n, int rounds, double (*each)[3])
{
    double *one = malloc((size_t)rounds * sizeof *one);
    static const char *const of[3] = {"by the clock", "of the process", "of the thread"};
    printf("%d kernels, ns each, minimum and median of %d rounds:", n, rounds);
    for (int i = 0; i < 3 && one != NULL; i++) {
        for (int r = 0; r < rounds; r++)
            one[r] = each[r][i];
        qsort(one, (size_t)rounds, sizeof *one, rising);
        printf("%s %.0f %.0f %s", i > 0 ? "," : "", one[0], one[rounds / 2], of[i]);
    }
    free(one);
}

/* Returns 0 if each item was incremented as often as it should be. */
static int work(cl_context context, cl_device_id id, int n, int rounds, size_t items, bool profiling)
{
    const char *source = "__kernel void grow(__global int *x) { x[get_global_id(0)] += 1; }";
    int *host = calloc(items, sizeof *host);
    double(*each)[3] = calloc((size_t)rounds, sizeof *each);
    cl_command_queue queue =
        clCreateCommandQueue(context, id, profiling ? CL_QUEUE_PROFILING_ENABLE : 0, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    clBuildProgram(program, 1, &id, "", NULL, NULL);
    cl_kernel kernel = clCreateKernel(program, "grow", NULL);
    cl_mem memory = clCreateBuffer(context, CL_MEM_READ_WRITE, items * sizeof *host, NULL, NULL);
    clEnqueueWriteBuffer(queue, memory, CL_TRUE, 0, items * sizeof *host, host, 0, NULL, NULL);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
    for (int round = 0; round < rounds; round++)
        run(queue, kernel, n, items, each[round]);
    cl_event event;
    clEnqueueReadBuffer(queue, memory, CL_FALSE, 0, items * sizeof *host, host, 0, NULL, &event);
    clWaitForEvents(1, &event);
    clReleaseEvent(event);
    clReleaseMemObject(memory);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    bool right = host[items - 1] == rounds * n;
    tell(n, rounds, each);
    printf("; the sum is %s\n", right ? "right" : "wrong");
    free(host);
    free(each);
    return right ? 0 : 1;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 10000, rounds = argc > 2 ? atoi(argv[2]) : 5;
    size_t items = argc > 3 ? (size_t)atoll(argv[3]) : GROUP;
    cl_platform_id platform;
    cl_device_id id;
    if (n < 1 || rounds < 1 || items < GROUP || items % GROUP != 0) {
        fprintf(stderr, "usage: opencl_program [kernels] [rounds] [items, a multiple of %d] [profiling]\n",
                GROUP);
        return 2;
    }
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL) != CL_SUCCESS) {
        printf("no OpenCL device\n");
        return 77;
    }
    cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, NULL);
    int code = work(context, id, n, rounds, items, argc > 4 && strcmp(argv[4], "profiling") == 0);
    clReleaseContext(context);
    return code;
}
