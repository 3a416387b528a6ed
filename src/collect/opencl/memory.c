/* collect/opencl/memory.c - the program's allocations: buffers, images and shared memory, with totals per
 * device.
 *
 * A memory object lives as long as it is referenced, also by commands in the driver, so its end comes from
 * the driver (clSetMemObjectDestructorCallback), not from the program's releases. Memory belongs to a
 * context; it is attributed to the context's first device. Sub-buffers and images created from a buffer have
 * no memory of their own.
 */
#define _GNU_SOURCE
#include "collect/opencl/copies.h"
#include "collect/opencl/handles.h"

typedef struct block {
    uint64_t bytes;
    uint32_t device;
} block;

static struct {
    pthread_mutex_t lock; /* rank: leaf */
    uint64_t allocated[MTP__DEVICES_MAX];
} totals = {.lock = PTHREAD_MUTEX_INITIALIZER};

static handles shared = HANDLES_INIT; /* a: bytes, b: device */

void mtp__memory_fork_hold(bool hold)
{
    pthread_mutex_t *const locks[] = {&totals.lock, &shared.lock};
    mtp__hold_locks(locks, 2, hold);
}

uint64_t mtp__memory_bytes(cl_mem memory)
{
    size_t bytes = 0;
    mtp__next->clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    return bytes;
}

static void count(const void *p, int64_t bytes, uint32_t device)
{
    pthread_mutex_lock(&totals.lock);
    uint64_t now = totals.allocated[device] += (uint64_t)bytes;
    mtp_memory_event(MTP_DEVICE_NPU(device), p, bytes, now, now);
    pthread_mutex_unlock(&totals.lock);
}

static bool device_of(cl_context context, uint32_t *out)
{
    cl_device_id ids[256];
    if (mtp__next->clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof ids, ids, NULL) != CL_SUCCESS)
        return false;
    *out = mtp__device_number(ids[0]);
    return true;
}

/* ---------------------------------------------------------------------------------------------------- objects */

static void CL_CALLBACK gone(cl_mem m, void *user)
{
    block *b = user;
    count(m, -(int64_t)b->bytes, b->device);
    free(b);
}

static cl_mem made(cl_context context, cl_mem m)
{
    uint32_t device;
    if (m == NULL || !device_of(context, &device))
        return m;
    block *b = malloc(sizeof *b);
    if (b == NULL)
        return m;
    *b = (block){mtp__memory_bytes(m), device};
    int64_t bytes = (int64_t)b->bytes;
    if (mtp__next->clSetMemObjectDestructorCallback(m, gone, b) == CL_SUCCESS)
        count(m, bytes, device);
    else
        free(b); /* OpenCL 1.0: its end would not be reported */
    return m;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *p,
                                        cl_int *code)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clCreateBuffer"));
    cl_mem m = mtp__next->clCreateBuffer(context, flags, bytes, p, code);
    mtp_op_end(&op);
    return made(context, m);
}

static cl_mem CL_API_CALL create_buffer_with(cl_context context, const cl_mem_properties *properties,
                                             cl_mem_flags flags, size_t bytes, void *p, cl_int *code)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clCreateBufferWithProperties"));
    cl_mem m = mtp__next->clCreateBufferWithProperties(context, properties, flags, bytes, p, code);
    mtp_op_end(&op);
    return made(context, m);
}

static cl_mem made_image(cl_context context, const cl_image_desc *about, cl_mem m)
{
    return about != NULL && about->mem_object != NULL ? m : made(context, m);
}

static cl_mem CL_API_CALL create_image(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                                       const cl_image_desc *about, void *p, cl_int *code)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clCreateImage"));
    cl_mem m = mtp__next->clCreateImage(context, flags, format, about, p, code);
    mtp_op_end(&op);
    return made_image(context, about, m);
}

static cl_mem CL_API_CALL create_image_with(cl_context context, const cl_mem_properties *properties,
                                            cl_mem_flags flags, const cl_image_format *format,
                                            const cl_image_desc *about, void *p, cl_int *code)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clCreateImageWithProperties"));
    cl_mem m = mtp__next->clCreateImageWithProperties(context, properties, flags, format, about, p, code);
    mtp_op_end(&op);
    return made_image(context, about, m);
}

static cl_mem CL_API_CALL create_image_2d(cl_context context, cl_mem_flags flags,
                                          const cl_image_format *format, size_t width, size_t height,
                                          size_t row, void *p, cl_int *code)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clCreateImage2D"));
    cl_mem m = mtp__next->clCreateImage2D(context, flags, format, width, height, row, p, code);
    mtp_op_end(&op);
    return made(context, m);
}

static cl_mem CL_API_CALL create_image_3d(cl_context context, cl_mem_flags flags,
                                          const cl_image_format *format, size_t width, size_t height,
                                          size_t depth, size_t row, size_t slice, void *p, cl_int *code)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clCreateImage3D"));
    cl_mem m = mtp__next->clCreateImage3D(context, flags, format, width, height, depth, row, slice, p, code);
    mtp_op_end(&op);
    return made(context, m);
}

/* --------------------------------------------------------------------------------------------- shared memory */

static void *CL_API_CALL svm_alloc(cl_context context, cl_svm_mem_flags flags, size_t bytes,
                                   cl_uint alignment)
{
    mtp_op op;
    uint32_t device;
    mtp__call_begin(&op, MTP_NAME("clSVMAlloc"));
    void *p = mtp__next->clSVMAlloc(context, flags, bytes, alignment);
    mtp_op_end(&op);
    if (p != NULL && device_of(context, &device)) {
        handles_put(&shared, p, bytes, device);
        count(p, (int64_t)bytes, device);
    }
    return p;
}

static void forget(const void *p)
{
    handle h;
    if (p != NULL && handles_take(&shared, p, &h))
        count(p, -(int64_t)h.a, (uint32_t)h.b);
}

static void CL_API_CALL svm_free(cl_context context, void *p)
{
    forget(p); /* first: once freed, the address may be reused at once */
    mtp__next->clSVMFree(context, p);
}

typedef void CL_CALLBACK svm_freeing(cl_command_queue queue, cl_uint count, void *pointers[], void *user);

/* Counted when requested. If the program passes a callback, that frees the memory by clSVMFree. */
static cl_int CL_API_CALL svm_free_later(cl_command_queue q, cl_uint pointer_count, void *pointers[],
                                         svm_freeing *fn, void *user, cl_uint n, const cl_event *list,
                                         cl_event *e)
{
    mtp_op op;
    mtp__call_begin(&op, MTP_NAME("clEnqueueSVMFree"));
    cl_int code = mtp__next->clEnqueueSVMFree(q, pointer_count, pointers, fn, user, n, list, e);
    mtp_op_end(&op);
    for (cl_uint i = 0; code == CL_SUCCESS && fn == NULL && pointers != NULL && i < pointer_count; i++)
        forget(pointers[i]);
    return code;
}

void mtp__memory_hook(cl_icd_dispatch *ours)
{
    ours->clCreateBuffer = create_buffer;
    ours->clCreateBufferWithProperties = create_buffer_with;
    ours->clCreateImage = create_image;
    ours->clCreateImageWithProperties = create_image_with;
    ours->clCreateImage2D = create_image_2d;
    ours->clCreateImage3D = create_image_3d;
    ours->clSVMAlloc = svm_alloc;
    ours->clSVMFree = svm_free;
    ours->clEnqueueSVMFree = svm_free_later;
}
