/* runtime/device/memory.c - device memory.
 *
 * A caching allocator with size classes (four per doubling, from 512 bytes) per stream: freed memory is
 * reused on the same stream, whose order puts the old use first, so nothing waits. Invariant: `allocated`
 * counts the bytes of live storages, `reserved` those held from the device.
 */
#define _GNU_SOURCE
#include "runtime/device/device.h"
#include <limits.h>
#include <stdlib.h>

typedef struct mt__block {
    struct mt__block *next;
    mtp_plugin_memory *memory; /* owned */
    mt_stream *stream;         /* borrowed: the stream that owns it */
    uint64_t stream_id;        /* the stream's id at allocation: streams are reused */
    mt_stream *other;          /* borrowed: also used there (mt_tensor_record_stream), or NULL */
    size_t bytes;
    unsigned size_class;
} block;

#define SMALLEST 512
#define NO_CLASS UINT_MAX /* the block returns to the device when freed */

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

/* The lock is held. Work may still be using idle memory: waits for it. */
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

/* Allocates from the device, if necessary after releasing idle memory. The lock is held. */
static mtp_status alloc(mt__npu *npu, size_t bytes, block *b)
{
    uint64_t all = npu->properties.memory_bytes; /* a driver may accept more and fail at first use */
    if (npu->reserved + bytes > all)
        drop_idle(npu);
    if (npu->reserved + bytes > all)
        return MTP_E_NOMEM;
    b->bytes = bytes;
    mtp_status status = npu->api->alloc(npu->handle, bytes, &b->memory);
    if (status != MTP_E_NOMEM)
        return status;
    drop_idle(npu);
    return npu->api->alloc(npu->handle, bytes, &b->memory);
}

/* The lock is held. */
static mt_status take_new(mt__npu *npu, unsigned c, size_t bytes, size_t rounded, mt_stream *stream,
                          block **out)
{
    block *b = calloc(1, sizeof *b);
    if (b == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: a block of device memory");
    size_t exact = (bytes + SMALLEST - 1) / SMALLEST * SMALLEST;
    mtp_status status = alloc(npu, rounded, b);
    b->size_class = c;
    if (status == MTP_E_NOMEM && exact < rounded) { /* the size class does not fit, but the exact size may */
        status = alloc(npu, exact, b);
        b->size_class = NO_CLASS;
    }
    if (status != MTP_OK) {
        free(b);
        return status == MTP_E_NOMEM ? no_memory(npu, bytes) : mt__npu_fail(npu, status, "memory");
    }
    b->stream = stream;
    npu->reserved += b->bytes;
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
        return mt__fail(MT_E_NOMEM, "out of memory: the header of a device memory block");
    size_t rounded = 0;
    unsigned c = bytes >> 46 == 0 ? class_of(bytes, &rounded) : 0;
    mt_stream *stream = mt__stream_now(npu);
    block *b = NULL;
    pthread_mutex_lock(&npu->lock);
    if (bytes >> 46 != 0)
        status = no_memory(npu, bytes);
    else if ((b = take_idle(npu, c, stream)) == NULL)
        status = take_new(npu, c, bytes, rounded, stream, &b);
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
        b->stream_id = stream->id;
        if (bytes > 0)
            mt__storage_report(s, (int64_t)bytes, npu->allocated, npu->reserved);
        *out = s;
    } else {
        free(s);
    }
    pthread_mutex_unlock(&npu->lock);
    return status;
}

/* Before its memory is reused, its stream waits for another stream's pending use of it. */
static void wait_for_other(mt__npu *npu, block *b)
{
    mtp_plugin_event *event = NULL;
    if (b->other == NULL || b->other->handle == NULL || b->other == b->stream)
        return;
    if (npu->api->event_record(b->other->handle, &event) == MTP_OK) {
        npu->api->stream_flush(b->other->handle);
        npu->api->stream_wait(b->stream->handle, event);
        npu->api->event_release(event);
    }
    b->other = NULL;
}

/* Handles a block that no storage uses any more. The lock is held. */
static void settle(mt__npu *npu, block *b)
{
    wait_for_other(npu, b);
    if (b->size_class != NO_CLASS) {
        b->next = npu->idle[b->size_class];
        npu->idle[b->size_class] = b;
        return;
    }
    npu->api->stream_synchronize(b->stream->handle);
    npu->reserved -= b->bytes;
    npu->api->free(b->memory);
    free(b);
}

mt_status mt_tensor_record_stream(const mt_tensor *t, mt_stream *stream)
{
    mt__npu *npu = stream->npu;
    if (t->device != npu->device)
        return mt__fail(MT_E_RUNTIME, "record_stream: the tensor is on %s, the stream on %s",
                        mt__device_text(t->device), mt__device_text(npu->device));
    block *b = t->storage->device_block;
    pthread_mutex_lock(&npu->lock);
    if (b->other != NULL && b->other != stream)
        wait_for_other(npu, b); /* only one other stream is remembered: wait for the previous one now */
    b->other = stream;
    pthread_mutex_unlock(&npu->lock);
    return MT_OK;
}

void mt__device_storage_free(mt_storage *s)
{
    mt__npu *npu = mt__npu_opened(MT_DEVICE_INDEX(s->device));
    block *b = s->device_block;
    if (npu == NULL) { /* in a forked child: the memory belongs to the parent */
        free(s);
        return;
    }
    pthread_mutex_lock(&npu->lock);
    npu->allocated -= s->bytes;
    npu->frees++;
    if (s->bytes > 0)
        mt__storage_report(s, -(int64_t)s->bytes, npu->allocated, npu->reserved);
    if (b->stream->handle == NULL || b->stream->id != b->stream_id) /* it has been destroyed */
        b->stream = &npu->own;
    settle(npu, b);
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
