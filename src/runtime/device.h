/* runtime/device.h - what the runtime asks of an accelerator. The CPU is not one: storage.c and kernels/cpu serve it. */
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H
#include "runtime/runtime.h"

mt_status mt__device_storage(mt_device device, size_t bytes, mt_storage **out);
void mt__device_storage_free(mt_storage *s);
mt_status mt__device_memory(mt_device device, mt_memory_stats *out);
void mt__device_reset_peak(mt_device device);
void mt__device_empty_cache(mt_device device);

#endif
