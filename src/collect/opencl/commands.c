/* collect/opencl/commands.c - the commands that the program enqueues: kernels, copies and fills of buffers
 * and shared memory.
 *
 * Each becomes a runtime event on the enqueueing thread and, when the device is done, device work on its
 * queue's row, linked by a correlation id. Markers and barriers pass through unchanged.
 */
#define _GNU_SOURCE
#include "collect/opencl/copies.h"
#include "collect/opencl/handles.h"

void mtp__command_begin(mtp__command *c, cl_command_queue queue, uint32_t call, uint32_t name, uint32_t kind,
                        uint64_t bytes, cl_event *event)
{
    c->event = event;
    uint32_t recording = mtp_recording();
    c->ring = (recording & MTP_NPU) != 0 ? mtp__ring_mine() : NULL;
    if (c->ring == NULL)
        return;
    c->own = NULL;
    if (event == NULL)
        c->event = &c->own;
    mtp__queue at = mtp__queue_find(mtp__ring_last(c->ring), queue);
    mtp__device_met(at.device, MTP_SESSION(recording));
    c->op = (mtp_op)MTP_OP_INIT(call);
    c->op.kind = MTP_SCOPE_RUNTIME;
    c->op.correlation = mtp_correlation_next();
    c->flight.correlation = c->op.correlation;
    c->flight.name = name;
    c->flight.stream = at.stream;
    c->flight.session = MTP_SESSION(recording);
    c->flight.device = (uint8_t)at.device;
    c->flight.kind = (uint8_t)kind;
    c->flight.of.bytes = bytes;
    c->flight.width = mtp__ring_reads_clock(c->ring);
    mtp_op_begin(&c->op);
    if (c->flight.width != 0)
        c->flight.before = mtp_ticks();
}

cl_int mtp__command_end(mtp__command *c, cl_int code)
{
    if (c->ring == NULL)
        return code;
    if (c->flight.width != 0) {
        uint64_t width = mtp_ticks() - c->flight.before;
        c->flight.width = width < UINT32_MAX ? (uint32_t)width + 1 : 0;
    }
    mtp_op_end(&c->op);
    if (code != CL_SUCCESS || *c->event == NULL)
        return code;
    c->flight.event = *c->event;
    if (c->event != &c->own)
        mtp__next->clRetainEvent(c->flight.event);
    mtp__flight_add(c->ring, &c->flight);
    return code;
}

/* A blocking command is done on return, and so is everything enqueued before it. */
static cl_int end_waited(mtp__command *c, cl_int code, cl_bool blocking)
{
    mtp__command_end(c, code);
    if (blocking && c->ring != NULL)
        mtp__flights_harvest();
    return code;
}

/* --------------------------------------------------------------------------------------------------- kernels */

static void measure(mtp__flight *f, cl_uint dims, const size_t *global, const size_t *local)
{
    for (cl_uint i = 0; i < 3; i++) {
        size_t block = i < dims && local != NULL && local[i] > 0 ? local[i] : 1;
        size_t all = i < dims && global != NULL ? global[i] : 1;
        f->of.kernel.block[i] = (uint32_t)block;
        f->of.kernel.grid[i] = (uint32_t)(block == 1 ? all : (all + block - 1) / block);
    }
}

static cl_int CL_API_CALL nd_range(cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *offset,
                                   const size_t *global, const size_t *local, cl_uint n, const cl_event *list,
                                   cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueNDRangeKernel"), 0, MTP_DEVICE_KERNEL, 0, e);
    if (c.ring != NULL) {
        c.flight.name = mtp__kernel_name(mtp__ring_last(c.ring), k);
        measure(&c.flight, dims, global, local);
    }
    return mtp__command_end(
        &c, mtp__next->clEnqueueNDRangeKernel(q, k, dims, offset, global, local, n, list, c.event));
}

static cl_int CL_API_CALL task(cl_command_queue q, cl_kernel k, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueTask"), 0, MTP_DEVICE_KERNEL, 0, e);
    if (c.ring != NULL) {
        c.flight.name = mtp__kernel_name(mtp__ring_last(c.ring), k);
        measure(&c.flight, 0, NULL, NULL);
    }
    return mtp__command_end(&c, mtp__next->clEnqueueTask(q, k, n, list, c.event));
}

static cl_int CL_API_CALL native(cl_command_queue q, void(CL_CALLBACK *fn)(void *), void *args, size_t bytes,
                                 cl_uint count, const cl_mem *memory, const void **places, cl_uint n,
                                 const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueNativeKernel"), MTP_NAME("native kernel"), MTP_DEVICE_KERNEL,
                       0, e);
    measure(&c.flight, 0, NULL, NULL);
    return mtp__command_end(
        &c, mtp__next->clEnqueueNativeKernel(q, fn, args, bytes, count, memory, places, n, list, c.event));
}

/* --------------------------------------------------------------------------------------------------- buffers */

static cl_int CL_API_CALL read_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t at, size_t bytes,
                                      void *p, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueReadBuffer"), DTOH, MTP_DEVICE_MEMCPY, bytes, e);
    return end_waited(&c, mtp__next->clEnqueueReadBuffer(q, m, blocking, at, bytes, p, n, list, c.event),
                      blocking);
}

static cl_int CL_API_CALL write_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, size_t at,
                                       size_t bytes, const void *p, cl_uint n, const cl_event *list,
                                       cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueWriteBuffer"), HTOD, MTP_DEVICE_MEMCPY, bytes, e);
    return end_waited(&c, mtp__next->clEnqueueWriteBuffer(q, m, blocking, at, bytes, p, n, list, c.event),
                      blocking);
}

static cl_int CL_API_CALL read_rect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *a,
                                    const size_t *b, const size_t *region, size_t r1, size_t s1, size_t r2,
                                    size_t s2, void *p, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueReadBufferRect"), DTOH, MTP_DEVICE_MEMCPY, volume(region, 1),
                       e);
    return end_waited(
        &c,
        mtp__next->clEnqueueReadBufferRect(q, m, blocking, a, b, region, r1, s1, r2, s2, p, n, list, c.event),
        blocking);
}

static cl_int CL_API_CALL write_rect(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *a,
                                     const size_t *b, const size_t *region, size_t r1, size_t s1, size_t r2,
                                     size_t s2, const void *p, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueWriteBufferRect"), HTOD, MTP_DEVICE_MEMCPY,
                       volume(region, 1), e);
    return end_waited(&c,
                      mtp__next->clEnqueueWriteBufferRect(q, m, blocking, a, b, region, r1, s1, r2, s2, p, n,
                                                          list, c.event),
                      blocking);
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue q, cl_mem from, cl_mem to, size_t a, size_t b,
                                      size_t bytes, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueCopyBuffer"), DTOD, MTP_DEVICE_MEMCPY, bytes, e);
    return mtp__command_end(&c, mtp__next->clEnqueueCopyBuffer(q, from, to, a, b, bytes, n, list, c.event));
}

static cl_int CL_API_CALL copy_rect(cl_command_queue q, cl_mem from, cl_mem to, const size_t *a,
                                    const size_t *b, const size_t *region, size_t r1, size_t s1, size_t r2,
                                    size_t s2, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueCopyBufferRect"), DTOD, MTP_DEVICE_MEMCPY, volume(region, 1),
                       e);
    return mtp__command_end(
        &c, mtp__next->clEnqueueCopyBufferRect(q, from, to, a, b, region, r1, s1, r2, s2, n, list, c.event));
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue q, cl_mem m, const void *pattern, size_t size,
                                      size_t at, size_t bytes, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueFillBuffer"), FILL, MTP_DEVICE_MEMSET, bytes, e);
    return mtp__command_end(&c,
                            mtp__next->clEnqueueFillBuffer(q, m, pattern, size, at, bytes, n, list, c.event));
}

/* ------------------------------------------------------------------------------------------ mapped and moved */

static handles mappings = HANDLES_INIT; /* a: bytes that the program may have written */

static bool maps_old(cl_map_flags flags) /* the old contents are visible */
{
    return (flags & CL_MAP_WRITE_INVALIDATE_REGION) == 0;
}

static void keep_mapping(const void *p, cl_map_flags flags, uint64_t bytes)
{
    if (p != NULL)
        handles_put(&mappings, p, (flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) != 0 ? bytes : 0,
                    0);
}

static uint64_t drop_mapping(const void *p)
{
    handle h;
    return p != NULL && handles_take(&mappings, p, &h) ? h.a : 0;
}

static void *CL_API_CALL map_buffer(cl_command_queue q, cl_mem m, cl_bool blocking, cl_map_flags flags,
                                    size_t at, size_t bytes, cl_uint n, const cl_event *list, cl_event *e,
                                    cl_int *code)
{
    mtp__command c;
    cl_int error = CL_SUCCESS;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueMapBuffer"), MAP, MTP_DEVICE_MEMCPY,
                       maps_old(flags) ? bytes : 0, e);
    void *p = mtp__next->clEnqueueMapBuffer(q, m, blocking, flags, at, bytes, n, list, c.event, &error);
    if (c.ring != NULL)
        keep_mapping(p, flags, bytes);
    end_waited(&c, error, blocking);
    if (code != NULL)
        *code = error;
    return p;
}

static void *CL_API_CALL map_image(cl_command_queue q, cl_mem m, cl_bool blocking, cl_map_flags flags,
                                   const size_t *origin, const size_t *region, size_t *row, size_t *slice,
                                   cl_uint n, const cl_event *list, cl_event *e, cl_int *code)
{
    mtp__command c;
    cl_int error = CL_SUCCESS;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueMapImage"), MAP, MTP_DEVICE_MEMCPY, 0, e);
    uint64_t bytes = c.ring != NULL ? mtp__image_bytes(m, region) : 0;
    c.flight.of.bytes = maps_old(flags) ? bytes : 0;
    void *p = mtp__next->clEnqueueMapImage(q, m, blocking, flags, origin, region, row, slice, n, list,
                                           c.event, &error);
    if (c.ring != NULL)
        keep_mapping(p, flags, bytes);
    end_waited(&c, error, blocking);
    if (code != NULL)
        *code = error;
    return p;
}

static cl_int CL_API_CALL unmap(cl_command_queue q, cl_mem m, void *p, cl_uint n, const cl_event *list,
                                cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueUnmapMemObject"), UNMAP, MTP_DEVICE_MEMCPY, drop_mapping(p),
                       e);
    return mtp__command_end(&c, mtp__next->clEnqueueUnmapMemObject(q, m, p, n, list, c.event));
}

static uint32_t migration(cl_mem_migration_flags flags)
{
    return (flags & CL_MIGRATE_MEM_OBJECT_HOST) != 0 ? MTP_NAME("Memcpy DtoH (Migrate)")
                                                     : MTP_NAME("Memcpy HtoD (Migrate)");
}

static cl_int CL_API_CALL migrate(cl_command_queue q, cl_uint count, const cl_mem *objects,
                                  cl_mem_migration_flags flags, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueMigrateMemObjects"), migration(flags), MTP_DEVICE_MEMCPY, 0,
                       e);
    bool moves = c.ring != NULL && objects != NULL && (flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED) == 0;
    for (cl_uint i = 0; moves && i < count; i++)
        c.flight.of.bytes += mtp__memory_bytes(objects[i]);
    return mtp__command_end(
        &c, mtp__next->clEnqueueMigrateMemObjects(q, count, objects, flags, n, list, c.event));
}

/* --------------------------------------------------------------------------------------------- shared memory */

/* Either side may be host memory: the direction of the copy is unknown. */
static cl_int CL_API_CALL svm_copy(cl_command_queue q, cl_bool blocking, void *to, const void *from,
                                   size_t bytes, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueSVMMemcpy"), MTP_NAME("Memcpy (SVM)"), MTP_DEVICE_MEMCPY,
                       bytes, e);
    return end_waited(&c, mtp__next->clEnqueueSVMMemcpy(q, blocking, to, from, bytes, n, list, c.event),
                      blocking);
}

static cl_int CL_API_CALL svm_fill(cl_command_queue q, void *p, const void *pattern, size_t size,
                                   size_t bytes, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueSVMMemFill"), MTP_NAME("Memset (SVM)"), MTP_DEVICE_MEMSET,
                       bytes, e);
    return mtp__command_end(&c, mtp__next->clEnqueueSVMMemFill(q, p, pattern, size, bytes, n, list, c.event));
}

static cl_int CL_API_CALL svm_map(cl_command_queue q, cl_bool blocking, cl_map_flags flags, void *p,
                                  size_t bytes, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueSVMMap"), MAP, MTP_DEVICE_MEMCPY,
                       maps_old(flags) ? bytes : 0, e);
    if (c.ring != NULL)
        keep_mapping(p, flags, bytes);
    return end_waited(&c, mtp__next->clEnqueueSVMMap(q, blocking, flags, p, bytes, n, list, c.event),
                      blocking);
}

static cl_int CL_API_CALL svm_unmap(cl_command_queue q, void *p, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueSVMUnmap"), UNMAP, MTP_DEVICE_MEMCPY, drop_mapping(p), e);
    return mtp__command_end(&c, mtp__next->clEnqueueSVMUnmap(q, p, n, list, c.event));
}

static cl_int CL_API_CALL svm_migrate(cl_command_queue q, cl_uint count, const void **pointers,
                                      const size_t *sizes, cl_mem_migration_flags flags, cl_uint n,
                                      const cl_event *list, cl_event *e)
{
    mtp__command c;
    mtp__command_begin(&c, q, MTP_NAME("clEnqueueSVMMigrateMem"), migration(flags), MTP_DEVICE_MEMCPY, 0, e);
    bool moves = c.ring != NULL && sizes != NULL && (flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED) == 0;
    for (cl_uint i = 0; moves && i < count; i++)
        c.flight.of.bytes += sizes[i];
    return mtp__command_end(
        &c, mtp__next->clEnqueueSVMMigrateMem(q, count, pointers, sizes, flags, n, list, c.event));
}

void mtp__commands_fork_hold(bool hold)
{
    mtp__hold_locks((pthread_mutex_t *const[]){&mappings.lock}, 1, hold);
}

void mtp__commands_hook(cl_icd_dispatch *ours)
{
    ours->clEnqueueNDRangeKernel = nd_range;
    ours->clEnqueueTask = task;
    ours->clEnqueueNativeKernel = native;
    ours->clEnqueueReadBuffer = read_buffer;
    ours->clEnqueueWriteBuffer = write_buffer;
    ours->clEnqueueReadBufferRect = read_rect;
    ours->clEnqueueWriteBufferRect = write_rect;
    ours->clEnqueueCopyBuffer = copy_buffer;
    ours->clEnqueueCopyBufferRect = copy_rect;
    ours->clEnqueueFillBuffer = fill_buffer;
    ours->clEnqueueMapBuffer = map_buffer;
    ours->clEnqueueMapImage = map_image;
    ours->clEnqueueUnmapMemObject = unmap;
    ours->clEnqueueMigrateMemObjects = migrate;
    ours->clEnqueueSVMMemcpy = svm_copy;
    ours->clEnqueueSVMMemFill = svm_fill;
    ours->clEnqueueSVMMap = svm_map;
    ours->clEnqueueSVMUnmap = svm_unmap;
    ours->clEnqueueSVMMigrateMem = svm_migrate;
}
