/* runtime/device_memory.c - memory of accelerators.
 *
 * It is kept in classes (four to each doubling, from 512 bytes) per stream: what a stream gave back is reused on that
 * stream, in whose order the old use comes first, so no one waits. Invariant: allocated counts what live storages asked
 * for, reserved what is held from the device.
 */
#define _GNU_SOURCE
#include "runtime/device.h"
#include <stdlib.h>

typedef struct mt__block {
    struct mt__block *next;
    mtp_plugin_memory *memory; /* owned */
    mt_stream *stream;         /* borrowed: where it was used last */
    size_t bytes;
    unsigned size_class;
} block;

#define SMALLEST 512

static unsigned class_of(size_t bytes, size_t *rounded)
{
    if (bytes <= SMALLEST) {
        *rounded = SMALLEST;
        return 0;
    }
    unsigned e = 63u - (unsigned)__builtin_clzll(bytes - 1); /* 2^e < bytes <= 2^(e+1) */
    size_t quarter = (size_t)1 << (e - 2);
    size_t k = (bytes - ((size_t)1 << e) + quarter - 1) / quarter; /* 1 to 4 */
    *rounded = ((size_t)1 << e) + k * quarter;
    return (e - 9) * 4 + (unsigned)k;
}

static block *take_idle(mt__npu *npu, unsigned c, const mt_stream *stream)
{
    for (block **at = &npu->idle[c]; *at != NULL; at = &(*at)->next)
        if ((*at)->stream == stream) {
            block *b = *at;
            *at = b->next;
            return b;
        }
    return NULL;
}

/* The lock is held. Work may be using what is idle: it ends first. */
static void drop_idle(mt__npu *npu)
{
    for (mt_stream *s = &npu->own; s != NULL; s = s->next)
        npu->api->stream_synchronize(s->handle);
    for (unsigned c = 0; c < MT__COUNT_OF(npu->idle); c++)
        while (npu->idle[c] != NULL) {
            block *b = npu->idle[c];
            npu->idle[c] = b->next;
            npu->reserved -= b->bytes;
            npu->api->free(b->memory);
            free(b);
        }
}

static mt_status no_memory(const mt__npu *npu, size_t bytes)
{
    return mt__fail(
        MT_E_NOMEM,
        "NPU out of memory. Tried to allocate %.2f MiB. %s has a total capacity of %.2f GiB of which "
        "%.2f MiB is allocated by tensors and %.2f MiB is reserved (%s)",
        (double)bytes / 0x1p20, mt__device_text(npu->device), (double)npu->properties.memory_bytes / 0x1p30,
        (double)npu->allocated / 0x1p20, (double)npu->reserved / 0x1p20, npu->api->last_error());
}

/* The lock is held. */
static mt_status take_new(mt__npu *npu, unsigned c, size_t rounded, mt_stream *stream, block **out)
{
    block *b = calloc(1, sizeof *b);
    if (b == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: a block of device memory");
    uint64_t all = npu->properties.memory_bytes; /* a driver may say yes to more, and fail at first use */
    if (npu->reserved + rounded > all)
        drop_idle(npu);
    mtp_status status =
        npu->reserved + rounded > all ? MTP_E_NOMEM : npu->api->alloc(npu->handle, rounded, &b->memory);
    if (status == MTP_E_NOMEM && npu->reserved + rounded <= all) {
        drop_idle(npu);
        status = npu->api->alloc(npu->handle, rounded, &b->memory);
    }
    if (status != MTP_OK) {
        free(b);
        return status == MTP_E_NOMEM ? no_memory(npu, rounded) : mt__npu_fail(npu, status, "memory");
    }
    b->bytes = rounded;
    b->size_class = c;
    b->stream = stream;
    npu->reserved += rounded;
    if (npu->reserved > npu->peak_reserved)
        npu->peak_reserved = npu->reserved;
    *out = b;
    return MT_OK;
}

mt_status mt__device_storage(mt_device device, size_t bytes, mt_storage **out)
{
    mt__npu *npu;
    *out = NULL;
    mt_status status = mt__npu_of(device, &npu);
    if (status != MT_OK)
        return status;
    mt_storage *s = calloc(1, sizeof *s);
    if (s == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: the header of device memory");
    size_t rounded = 0;
    unsigned c = bytes >> 46 == 0 ? class_of(bytes, &rounded) : 0;
    mt_stream *stream = mt__stream_now(npu);
    block *b = NULL;
    pthread_mutex_lock(&npu->lock);
    if (bytes >> 46 != 0)
        status = no_memory(npu, bytes);
    else if ((b = take_idle(npu, c, stream)) == NULL)
        status = take_new(npu, c, rounded, stream, &b);
    if (status == MT_OK) {
        npu->allocated += bytes;
        npu->allocations++;
        if (npu->allocated > npu->peak_allocated)
            npu->peak_allocated = npu->allocated;
        atomic_init(&s->refs, 1);
        s->device = device;
        s->category = MTP_MEMORY_TEMPORARY;
        s->data = b->memory;
        s->bytes = bytes;
        s->device_block = b;
        if (bytes > 0)
            mt__storage_tell(s, (int64_t)bytes, npu->allocated, npu->reserved);
        *out = s;
    } else {
        free(s);
    }
    pthread_mutex_unlock(&npu->lock);
    return status;
}

void mt__device_storage_free(mt_storage *s)
{
    mt__npu *npu = mt__npu_opened(MT_DEVICE_INDEX(s->device));
    block *b = s->device_block;
    if (npu == NULL) { /* in a forked child: the memory is its parent's */
        free(s);
        return;
    }
    pthread_mutex_lock(&npu->lock);
    npu->allocated -= s->bytes;
    npu->frees++;
    if (s->bytes > 0)
        mt__storage_tell(s, -(int64_t)s->bytes, npu->allocated, npu->reserved);
    if (b->stream->handle == NULL)
        b->stream = &npu->own;
    b->next = npu->idle[b->size_class];
    npu->idle[b->size_class] = b;
    pthread_mutex_unlock(&npu->lock);
    free(s);
}

void mt__device_memory_leaves(mt__npu *npu, const mt_stream *stream)
{
    for (unsigned c = 0; c < MT__COUNT_OF(npu->idle); c++)
        for (block *b = npu->idle[c]; b != NULL; b = b->next)
            if (b->stream == stream)
                b->stream = &npu->own;
}

mt_status mt__device_memory(mt_device device, mt_memory_stats *out)
{
    mt__npu *npu;
    mt_status status = mt__npu_of(device, &npu);
    if (status != MT_OK)
        return status;
    pthread_mutex_lock(&npu->lock);
    out->allocated = npu->allocated;
    out->reserved = npu->reserved;
    out->peak_allocated = npu->peak_allocated;
    out->peak_reserved = npu->peak_reserved;
    out->allocations = npu->allocations;
    out->frees = npu->frees;
    pthread_mutex_unlock(&npu->lock);
    return MT_OK;
}

void mt__device_reset_peak(mt_device device)
{
    mt__npu *npu = mt__npu_opened(MT_DEVICE_INDEX(device));
    if (npu == NULL)
        return;
    pthread_mutex_lock(&npu->lock);
    npu->peak_allocated = npu->allocated;
    npu->peak_reserved = npu->reserved;
    pthread_mutex_unlock(&npu->lock);
}

void mt__device_empty_cache(mt_device device)
{
    mt__npu *npu = mt__npu_opened(MT_DEVICE_INDEX(device));
    if (npu == NULL)
        return;
    pthread_mutex_lock(&npu->lock);
    drop_idle(npu);
    pthread_mutex_unlock(&npu->lock);
}
