/* runtime/device.c - accelerators. None is built in yet: every use says so. */
#include "runtime/device.h"

static mt_status none(mt_device device)
{
    return mt__fail(MT_E_RUNTIME, "device %s is not available: this build has no accelerator",
                    mt__device_text(device));
}

mt_status mt__device_storage(mt_device device, size_t bytes, mt_storage **out)
{
    (void)bytes;
    *out = NULL;
    return none(device);
}

void mt__device_storage_free(mt_storage *s)
{
    (void)s;
}

mt_status mt__device_memory(mt_device device, mt_memory_stats *out)
{
    (void)out;
    return none(device);
}

void mt__device_reset_peak(mt_device device)
{
    (void)device;
}

void mt__device_empty_cache(mt_device device)
{
    (void)device;
}
