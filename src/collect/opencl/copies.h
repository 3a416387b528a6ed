/* collect/opencl/copies.h - names of copies in a trace (Kineto's) and their sizes. */
#ifndef COLLECT_OPENCL_COPIES_H
#define COLLECT_OPENCL_COPIES_H
#include "collect/opencl/layer.h"

#define HTOD MTP_NAME("Memcpy HtoD (Pageable -> Device)")
#define DTOH MTP_NAME("Memcpy DtoH (Device -> Pageable)")
#define DTOD MTP_NAME("Memcpy DtoD (Device -> Device)")
#define FILL MTP_NAME("Memset (Device)")
#define MAP MTP_NAME("Memcpy DtoH (Map)")
#define UNMAP MTP_NAME("Memcpy HtoD (Unmap)")

static inline uint64_t volume(const size_t *region, size_t unit)
{
    return region != NULL ? (uint64_t)region[0] * region[1] * region[2] * unit : 0;
}

uint64_t mtp__image_bytes(cl_mem image, const size_t *region); /* images.c */
uint64_t mtp__memory_bytes(cl_mem memory);                     /* memory.c */

#endif
