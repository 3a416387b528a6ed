/* opencl_closed.c - a program that opens OpenCL, uses it and closes it before it exits: its trace is still
 * written. */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>

#define CALL(name) __typeof__(&name) name##_ = (__typeof__(&name))(uintptr_t)dlsym(lib, #name)

static int use(void *lib)
{
    CALL(clGetPlatformIDs);
    CALL(clGetDeviceIDs);
    CALL(clCreateContext);
    CALL(clCreateCommandQueue);
    CALL(clCreateBuffer);
    CALL(clEnqueueWriteBuffer);
    cl_platform_id platform;
    cl_device_id id;
    static char host[64];
    if (clGetPlatformIDs_(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs_(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL) != CL_SUCCESS)
        return 77;
    cl_context context = clCreateContext_(NULL, 1, &id, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue_(context, id, 0, NULL);
    cl_mem memory = clCreateBuffer_(context, CL_MEM_READ_WRITE, sizeof host, NULL, NULL);
    cl_int code = clEnqueueWriteBuffer_(queue, memory, CL_TRUE, 0, sizeof host, host, 0, NULL, NULL);
    for (int i = 0; i < 10 && code == CL_SUCCESS; i++) /* these may be in flight when it is closed */
        code = clEnqueueWriteBuffer_(queue, memory, CL_FALSE, 0, sizeof host, host, 0, NULL, NULL);
    return code == CL_SUCCESS ? 0 : 1;
}

int main(void)
{
    void *lib = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL)
        return 77;
    int code = use(lib);
    return dlclose(lib) != 0 ? 1 : code;
}
