/* collect/opencl/images.c - copies and fills of images. Regions are in pixels; the image's element size gives
 * the bytes. */
#define _GNU_SOURCE
#include "collect/opencl/copies.h"

uint64_t mtp__image_bytes(cl_mem image, const size_t *region)
{
    size_t pixel = 0;
    mtp__next->clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof pixel, &pixel, NULL);
    return volume(region, pixel);
}

static void begin(mtp__command *c, cl_command_queue q, uint32_t call, uint32_t name, uint32_t kind,
                  cl_mem image, const size_t *region, cl_event *e)
{
    mtp__command_begin(c, q, call, name, kind, 0, e);
    if (c->ring != NULL)
        c->flight.of.bytes = mtp__image_bytes(image, region);
}

static cl_int CL_API_CALL read_image(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *origin,
                                     const size_t *region, size_t row, size_t slice, void *p, cl_uint n,
                                     const cl_event *list, cl_event *e)
{
    mtp__command c;
    begin(&c, q, MTP_NAME("clEnqueueReadImage"), DTOH, MTP_DEVICE_MEMCPY, m, region, e);
    return mtp__command_end(
        &c, mtp__next->clEnqueueReadImage(q, m, blocking, origin, region, row, slice, p, n, list, c.event));
}

static cl_int CL_API_CALL write_image(cl_command_queue q, cl_mem m, cl_bool blocking, const size_t *origin,
                                      const size_t *region, size_t row, size_t slice, const void *p,
                                      cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    begin(&c, q, MTP_NAME("clEnqueueWriteImage"), HTOD, MTP_DEVICE_MEMCPY, m, region, e);
    return mtp__command_end(
        &c, mtp__next->clEnqueueWriteImage(q, m, blocking, origin, region, row, slice, p, n, list, c.event));
}

static cl_int CL_API_CALL fill_image(cl_command_queue q, cl_mem m, const void *color, const size_t *origin,
                                     const size_t *region, cl_uint n, const cl_event *list, cl_event *e)
{
    mtp__command c;
    begin(&c, q, MTP_NAME("clEnqueueFillImage"), FILL, MTP_DEVICE_MEMSET, m, region, e);
    return mtp__command_end(&c, mtp__next->clEnqueueFillImage(q, m, color, origin, region, n, list, c.event));
}

static cl_int CL_API_CALL copy_image(cl_command_queue q, cl_mem from, cl_mem to, const size_t *a,
                                     const size_t *b, const size_t *region, cl_uint n, const cl_event *list,
                                     cl_event *e)
{
    mtp__command c;
    begin(&c, q, MTP_NAME("clEnqueueCopyImage"), DTOD, MTP_DEVICE_MEMCPY, from, region, e);
    return mtp__command_end(&c, mtp__next->clEnqueueCopyImage(q, from, to, a, b, region, n, list, c.event));
}

static cl_int CL_API_CALL image_to_buffer(cl_command_queue q, cl_mem from, cl_mem to, const size_t *a,
                                          const size_t *region, size_t at, cl_uint n, const cl_event *list,
                                          cl_event *e)
{
    mtp__command c;
    begin(&c, q, MTP_NAME("clEnqueueCopyImageToBuffer"), DTOD, MTP_DEVICE_MEMCPY, from, region, e);
    return mtp__command_end(
        &c, mtp__next->clEnqueueCopyImageToBuffer(q, from, to, a, region, at, n, list, c.event));
}

static cl_int CL_API_CALL buffer_to_image(cl_command_queue q, cl_mem from, cl_mem to, size_t at,
                                          const size_t *b, const size_t *region, cl_uint n,
                                          const cl_event *list, cl_event *e)
{
    mtp__command c;
    begin(&c, q, MTP_NAME("clEnqueueCopyBufferToImage"), DTOD, MTP_DEVICE_MEMCPY, to, region, e);
    return mtp__command_end(
        &c, mtp__next->clEnqueueCopyBufferToImage(q, from, to, at, b, region, n, list, c.event));
}

void mtp__images_hook(cl_icd_dispatch *ours)
{
    ours->clEnqueueReadImage = read_image;
    ours->clEnqueueWriteImage = write_image;
    ours->clEnqueueFillImage = fill_image;
    ours->clEnqueueCopyImage = copy_image;
    ours->clEnqueueCopyImageToBuffer = image_to_buffer;
    ours->clEnqueueCopyBufferToImage = buffer_to_image;
}
