/* opencl_calls.c - OpenCL programs for test_opencl_layer.py, one per CASE: correct and incorrect use.
 *
 * usage: opencl_calls CASE      exits with 0 if OpenCL behaved as specified, with or without the layer
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cl_int code_ = (call);                                                                               \
        if (code_ != CL_SUCCESS) {                                                                           \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, code_);                            \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static const char *source =
    "__kernel void grow(__global int *x) { x[get_global_id(0)] += 1; }\n"
    "__kernel void spin(__global int *x) { for (int i = 0; i < 200000; i++) x[0] += i ^ x[1]; }\n";
static cl_device_id ids[4];
static cl_uint devices;
static cl_context context;
static cl_program program;

static void set_up(void)
{
    cl_platform_id platform;
    cl_int code;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 4, ids, &devices) != CL_SUCCESS)
        exit(77);
    devices = devices < 4 ? devices : 4;
    context = clCreateContext(NULL, devices, ids, NULL, NULL, &code);
    CHECK(code);
    program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    CHECK(code);
    CHECK(clBuildProgram(program, devices, ids, "", NULL, NULL));
}

static cl_command_queue queue_of(cl_device_id id, cl_command_queue_properties properties)
{
    cl_int code;
    cl_command_queue q = clCreateCommandQueue(context, id, properties, &code);
    CHECK(code);
    return q;
}

static cl_mem buffer_of(size_t bytes)
{
    cl_int code;
    cl_mem m = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    CHECK(code);
    return m;
}

static cl_kernel kernel_of(const char *name, cl_mem x)
{
    cl_int code;
    cl_kernel k = clCreateKernel(program, name, &code);
    CHECK(code);
    CHECK(clSetKernelArg(k, 0, sizeof x, &x));
    return k;
}

static void launch(cl_command_queue q, cl_kernel k, cl_event after)
{
    size_t global = 64, local = 16;
    CHECK(clEnqueueNDRangeKernel(q, k, 1, NULL, &global, &local, after != NULL, after != NULL ? &after : NULL,
                                 NULL));
}

/* -------------------------------------------------------------------------------------------------- every
 * call */

static void use_buffers(cl_command_queue q)
{
    cl_int code;
    char host[4096] = {0};
    size_t origin[3] = {0, 0, 0}, region[3] = {16, 4, 2};
    cl_mem a = clCreateBufferWithProperties(context, NULL, CL_MEM_READ_WRITE, 4096, NULL, &code);
    CHECK(code);
    cl_mem b = buffer_of(4096);
    cl_buffer_region half = {0, 2048};
    cl_mem part = clCreateSubBuffer(a, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &half, &code);
    CHECK(code);
    CHECK(clEnqueueWriteBuffer(q, part, CL_FALSE, 0, 2000, host, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(q, a, CL_FALSE, 0, 3000, host, 0, NULL, NULL));
    CHECK(clEnqueueWriteBufferRect(q, a, CL_TRUE, origin, origin, region, 0, 0, 0, 0, host, 0, NULL, NULL));
    CHECK(clEnqueueReadBufferRect(q, a, CL_TRUE, origin, origin, region, 0, 0, 0, 0, host, 0, NULL, NULL));
    CHECK(clEnqueueCopyBuffer(q, a, b, 0, 0, 1000, 0, NULL, NULL));
    CHECK(clEnqueueCopyBufferRect(q, a, b, origin, origin, region, 0, 0, 0, 0, 0, NULL, NULL));
    CHECK(clEnqueueFillBuffer(q, a, host, 4, 0, 512, 0, NULL, NULL));
    CHECK(clEnqueueMigrateMemObjects(q, 1, &b, CL_MIGRATE_MEM_OBJECT_HOST, 0, NULL, NULL));
    void *p = clEnqueueMapBuffer(q, a, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, 256, 0, NULL, NULL, &code);
    CHECK(code);
    CHECK(clEnqueueUnmapMemObject(q, a, p, 0, NULL, NULL));
    CHECK(clFinish(q));
    CHECK(clReleaseMemObject(part));
    CHECK(clReleaseMemObject(a));
    CHECK(clReleaseMemObject(b));
}

static void use_images(cl_command_queue q)
{
    cl_int code;
    char host[8 * 4 * 4] = {0};
    size_t origin[3] = {0, 0, 0}, region[3] = {8, 4, 1}, row, slice;
    cl_uint color[4] = {1, 2, 3, 4};
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc about = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 4};
    cl_mem a = clCreateImage(context, CL_MEM_READ_WRITE, &format, &about, NULL, &code);
    CHECK(code);
    cl_mem b = clCreateImage2D(context, CL_MEM_READ_WRITE, &format, 8, 4, 0, NULL, &code);
    CHECK(code);
    cl_mem buffer = buffer_of(sizeof host);
    CHECK(clEnqueueWriteImage(q, a, CL_TRUE, origin, region, 0, 0, host, 0, NULL, NULL));
    CHECK(clEnqueueReadImage(q, a, CL_TRUE, origin, region, 0, 0, host, 0, NULL, NULL));
    CHECK(clEnqueueFillImage(q, a, color, origin, region, 0, NULL, NULL));
    CHECK(clEnqueueCopyImage(q, a, b, origin, origin, region, 0, NULL, NULL));
    CHECK(clEnqueueCopyImageToBuffer(q, a, buffer, origin, region, 0, 0, NULL, NULL));
    CHECK(clEnqueueCopyBufferToImage(q, buffer, a, 0, origin, region, 0, NULL, NULL));
    void *p =
        clEnqueueMapImage(q, a, CL_TRUE, CL_MAP_READ, origin, region, &row, &slice, 0, NULL, NULL, &code);
    CHECK(code);
    CHECK(clEnqueueUnmapMemObject(q, a, p, 0, NULL, NULL));
    CHECK(clFinish(q));
    CHECK(clReleaseMemObject(a));
    CHECK(clReleaseMemObject(b));
    CHECK(clReleaseMemObject(buffer));
}

static void use_shared(cl_command_queue q)
{
    void *a = clSVMAlloc(context, CL_MEM_READ_WRITE, 1024, 0),
         *b = clSVMAlloc(context, CL_MEM_READ_WRITE, 2048, 0);
    int one = 1;
    if (a == NULL || b == NULL)
        exit(1);
    CHECK(clEnqueueSVMMemFill(q, a, &one, sizeof one, 1024, 0, NULL, NULL));
    CHECK(clEnqueueSVMMemcpy(q, CL_TRUE, b, a, 768, 0, NULL, NULL));
    CHECK(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, b, 128, 0, NULL, NULL));
    CHECK(clEnqueueSVMUnmap(q, b, 0, NULL, NULL));
    CHECK(clEnqueueSVMFree(q, 1, &a, NULL, NULL, 0, NULL, NULL));
    CHECK(clFinish(q));
    clSVMFree(context, b);
}

static void CL_CALLBACK nothing(void *args)
{
    (void)args;
}

static void use_programs(cl_command_queue q)
{
    cl_int code;
    cl_program parts = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    CHECK(code);
    CHECK(clCompileProgram(parts, devices, ids, "", 0, NULL, NULL, NULL, NULL));
    cl_program whole = clLinkProgram(context, devices, ids, "", 1, &parts, NULL, NULL, &code);
    CHECK(code);
    cl_kernel both[2];
    cl_mem x = buffer_of(256);
    CHECK(clCreateKernelsInProgram(whole, 2, both, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK(clSetKernelArg(both[i], 0, sizeof x, &x));
        CHECK(clEnqueueTask(q, both[i], 0, NULL, NULL));
        CHECK(clReleaseKernel(both[i]));
    }
    CHECK(clEnqueueNativeKernel(q, nothing, NULL, 0, 0, NULL, NULL, 0, NULL, NULL));
    CHECK(clEnqueueMarkerWithWaitList(q, 0, NULL, NULL));
    CHECK(clFlush(q));
    CHECK(clFinish(q));
    CHECK(clReleaseMemObject(x));
    CHECK(clReleaseProgram(whole));
    CHECK(clReleaseProgram(parts));
}

static int all_calls(void)
{
    cl_command_queue q = queue_of(ids[0], 0);
    use_buffers(q);
    use_images(q);
    use_shared(q);
    use_programs(q);
    CHECK(clReleaseCommandQueue(q));
    usleep(20000); /* the driver may release resources a little later */
    return 0;
}

/* ----------------------------------------------------------------------- the answers that the program is
 * given */

static void tell_queue(const char *name, cl_command_queue q)
{
    cl_mem m = buffer_of(64);
    cl_command_queue_properties properties = 0;
    cl_queue_properties list[16] = {0};
    cl_ulong time = 0;
    cl_event e;
    char host[64];
    size_t bytes = 0, n = 0;
    CHECK(clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES, sizeof properties, &properties, &bytes));
    CHECK(clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES_ARRAY, sizeof list, list, &n));
    CHECK(clEnqueueReadBuffer(q, m, CL_TRUE, 0, 64, host, 0, NULL, &e));
    cl_int code = clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL);
    cl_uint refs = 0;
    CHECK(clGetEventInfo(e, CL_EVENT_REFERENCE_COUNT, sizeof refs, &refs, NULL));
    printf("%s: properties %lx in %zu bytes; a list of %zu bytes:", name, (unsigned long)properties, bytes,
           n);
    for (size_t i = 0; i < n / sizeof *list; i++)
        printf(" %lx", (unsigned long)list[i]);
    printf("; times %d %s\n", code, time != 0 ? "known" : "unknown");
    CHECK(clReleaseEvent(e));
    CHECK(clReleaseMemObject(m));
    CHECK(clReleaseCommandQueue(q));
}

static int answers(void)
{
    const cl_queue_properties lists[3][5] = {{0},
                                             {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0},
                                             {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0}};
    cl_int code;
    tell_queue("plain", queue_of(ids[0], 0));
    tell_queue("out of order", queue_of(ids[0], CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE));
    tell_queue("profiling", queue_of(ids[0], CL_QUEUE_PROFILING_ENABLE));
    tell_queue("no list", clCreateCommandQueueWithProperties(context, ids[0], NULL, &code));
    for (int i = 0; i < 3; i++)
        tell_queue("a list", clCreateCommandQueueWithProperties(context, ids[0], lists[i], &code));
    const cl_queue_properties wrong[] = {0x1234, 1, 0};
    cl_command_queue none = clCreateCommandQueueWithProperties(context, ids[0], wrong, &code);
    printf("a wrong list: %s, %d\n", none != NULL ? "made" : "refused", code);
    size_t global = 1;
    cl_mem x = buffer_of(256);
    printf("no queue: %d, %d\n", clFinish(NULL),
           clEnqueueNDRangeKernel(NULL, kernel_of("grow", x), 1, NULL, &global, NULL, 0, NULL, NULL));
    CHECK(clReleaseMemObject(x));
    return 0;
}

/* ------------------------------------------------------------------------------ threads, devices, many in
 * flight */

#define THREADS 4
#define EACH 700

static int alive; /* buffers of threads */

static void CL_CALLBACK is_gone(cl_mem m, void *user)
{
    (void)m, (void)user;
    __atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
}

static void *work(void *device)
{
    cl_command_queue q = queue_of(ids[*(cl_uint *)device], 0);
    cl_mem x = buffer_of(256);
    cl_kernel k = kernel_of("grow", x);
    CHECK(clSetMemObjectDestructorCallback(x, is_gone, NULL));
    __atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < EACH; i++) {
        launch(q, k, NULL);
        if (i % 100 == 0)
            CHECK(clFinish(q));
    }
    CHECK(clReleaseMemObject(x)); /* while kernels that use it may run */
    CHECK(clReleaseKernel(k));
    CHECK(clReleaseCommandQueue(q)); /* not finished: it submits, and does not wait */
    return NULL;
}

static int threads(void)
{
    pthread_t t[THREADS];
    cl_uint on[THREADS];
    for (cl_uint i = 0; i < THREADS; i++) {
        on[i] = i % devices;
        if (pthread_create(&t[i], NULL, work, &on[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    while (__atomic_load_n(&alive, __ATOMIC_RELAXED) > 0)
        usleep(1000);
    usleep(20000); /* callbacks set before ours run after it */
    return 0;
}

static void *one_kernel(void *kernel)
{
    cl_command_queue q = queue_of(ids[0], 0);
    launch(q, kernel, NULL);
    CHECK(clReleaseCommandQueue(q));
    return NULL;
}

static int short_threads(void)
{
    cl_mem x = buffer_of(256);
    cl_kernel k = kernel_of("grow", x);
    cl_command_queue q = queue_of(ids[0], 0);
    launch(q, k, NULL);
    CHECK(clFinish(q)); /* so that the driver has compiled the kernel */
    for (int i = 0; i < 200; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, one_kernel, k) != 0 || pthread_join(t, NULL) != 0)
            return 1;
    }
    return 0;
}

/* More in flight than any ring holds, all held back until the end. */
static int burst(void)
{
    cl_int code;
    cl_mem x = buffer_of(256);
    cl_kernel k = kernel_of("grow", x);
    cl_command_queue q = queue_of(ids[0], 0), other = queue_of(ids[0], 0);
    cl_event gate = clCreateUserEvent(context, &code);
    CHECK(code);
    launch(q, k, gate);
    for (int i = 0; i < 12000; i++) {
        launch(q, k, NULL);
        if (i % 100 == 0)
            launch(other, k, NULL);
    }
    CHECK(clFinish(other));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clFinish(q));
    return 0;
}

/* The driver's own thread enqueues, from inside the driver. */
typedef struct chain {
    cl_command_queue queue;
    cl_kernel kernel;
    int left;
    cl_event done; /* the user's: all were enqueued */
} chain;

static void CL_CALLBACK next_link(cl_event e, cl_int status, void *user)
{
    chain *c = user;
    size_t global = 64;
    cl_event more;
    clReleaseEvent(e);
    if (status != CL_COMPLETE || c->left-- == 0) {
        clSetUserEventStatus(c->done, CL_COMPLETE);
        return;
    }
    CHECK(clEnqueueNDRangeKernel(c->queue, c->kernel, 1, NULL, &global, NULL, 0, NULL, &more));
    CHECK(clSetEventCallback(more, CL_COMPLETE, next_link, c));
    CHECK(clFlush(c->queue));
}

static int callbacks(void)
{
    cl_int code;
    cl_mem x = buffer_of(256);
    chain c = {queue_of(ids[0], 0), kernel_of("grow", x), 300, clCreateUserEvent(context, &code)};
    cl_command_queue q = queue_of(ids[0], 0);
    cl_kernel k = kernel_of("spin", x);
    cl_event first;
    cl_int state = CL_SUBMITTED;
    CHECK(code);
    CHECK(clEnqueueMarkerWithWaitList(c.queue, 0, NULL, &first));
    CHECK(clSetEventCallback(first, CL_COMPLETE, next_link, &c));
    CHECK(clFlush(c.queue));
    for (int i = 0; i < 30 || state != CL_COMPLETE; i++) {
        launch(q, k, NULL);
        CHECK(clFinish(q));
        CHECK(clGetEventInfo(c.done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    }
    return clFinish(c.queue);
}

/* Twenty kernels, each created anew: handles are reused with other names. */
static int recycled(void)
{
    cl_mem x = buffer_of(256);
    for (int i = 0; i < 20; i++) {
        cl_command_queue q = queue_of(ids[0], 0);
        cl_kernel k = kernel_of(i % 2 == 0 ? "grow" : "spin", x);
        launch(q, k, NULL);
        CHECK(clReleaseKernel(k));
        CHECK(clFinish(q));
        CHECK(clReleaseCommandQueue(q));
    }
    CHECK(clReleaseMemObject(x));
    return 0;
}

static int moves(void)
{
    return chdir("/") == 0 ? recycled() : 1;
}

static int out_of_order(void)
{
    cl_command_queue q = queue_of(ids[0], CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    for (int i = 0; i < 40; i++) {
        cl_mem x = buffer_of(256);
        launch(q, kernel_of(i % 2 == 0 ? "grow" : "spin", x), NULL);
        CHECK(clReleaseMemObject(x));
    }
    CHECK(clFinish(q));
    return 0;
}

/* -------------------------------------------------------------------------------------------- what goes
 * wrong */

static int failing(void)
{
    cl_int code;
    cl_command_queue q = queue_of(ids[0], 0);
    cl_mem x = buffer_of(256);
    cl_kernel k = kernel_of("grow", x);
    cl_event gate = clCreateUserEvent(context, &code), e;
    size_t global = 64, bad = 63;
    CHECK(code);
    CHECK(clEnqueueNDRangeKernel(q, k, 1, NULL, &global, NULL, 1, &gate, &e));
    CHECK(clSetUserEventStatus(gate, -5));
    cl_int waited = clWaitForEvents(1, &e);
    printf("wait: %d; a bad size: %d\n", waited,
           clEnqueueNDRangeKernel(q, k, 1, NULL, &global, &bad, 0, NULL, NULL));
    launch(q, k, NULL);
    CHECK(clFinish(q));
    return 0;
}

/* A kernel that never starts, and one in another queue that does. */
static int stuck(void)
{
    cl_int code;
    cl_mem x = buffer_of(256);
    cl_kernel k = kernel_of("grow", x);
    cl_command_queue q = queue_of(ids[0], 0), other = queue_of(ids[0], 0);
    cl_event gate = clCreateUserEvent(context, &code);
    CHECK(code);
    launch(q, k, gate);
    launch(other, k, NULL);
    CHECK(clFinish(other));
    return 0;
}

static int in_flight(void)
{
    cl_mem x = buffer_of(256);
    cl_kernel k = kernel_of("spin", x);
    cl_command_queue q = queue_of(ids[0], 0);
    launch(q, k, NULL);
    CHECK(clFinish(q)); /* compiled */
    for (int i = 0; i < 20; i++)
        launch(q, k, NULL);
    exit(3);
}

static sem_t launched;

static void *launch_on(void *kernel)
{
    cl_command_queue q = queue_of(ids[0], 0);
    for (;;) {
        for (int i = 0; i < 50; i++)
            launch(q, kernel, NULL);
        CHECK(clFinish(q));
        sem_post(&launched);
    }
    return NULL;
}

static int exit_elsewhere(void)
{
    cl_mem x = buffer_of(256);
    cl_kernel k = kernel_of("grow", x);
    pthread_t t;
    if (sem_init(&launched, 0, 0) != 0 || pthread_create(&t, NULL, launch_on, k) != 0)
        return 1;
    while (sem_wait(&launched) != 0)
        ;
    usleep(20000);
    exit(4);
}

static int killed(void)
{
    cl_mem x = buffer_of(256);
    cl_kernel k = kernel_of("grow", x);
    cl_command_queue q = queue_of(ids[0], 0);
    for (int i = 0; i < 100; i++)
        launch(q, k, NULL);
    CHECK(clFinish(q));
    return raise(SIGKILL);
}

static int forks(void)
{
    cl_mem x = buffer_of(256);
    cl_kernel k = kernel_of("grow", x);
    cl_command_queue q = queue_of(ids[0], 0);
    int status = 0;
    launch(q, k, NULL);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            exit(0); /* runs the exit handlers, with its parent's driver */
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }
    launch(q, k, NULL);
    CHECK(clFinish(q));
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = {{"calls", all_calls},
                 {"answers", answers},
                 {"threads", threads},
                 {"burst", burst},
                 {"recycled", recycled},
                 {"failing", failing},
                 {"out_of_order", out_of_order},
                 {"stuck", stuck},
                 {"in_flight", in_flight},
                 {"killed", killed},
                 {"forks", forks},
                 {"moves", moves},
                 {"callbacks", callbacks},
                 {"short_threads", short_threads},
                 {"exit_elsewhere", exit_elsewhere}};
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            set_up();
            return cases[i].run();
        }
    fprintf(stderr, "usage: opencl_calls CASE\n");
    return 2;
}
