/* runtime/storage.c - memory of tensors. CPU blocks come in size classes (16 in steps of 64 bytes up to
 * 1 KiB, then four per doubling). Freed blocks are cached by the thread if small, by the process if
 * large, and returned to the system if too many bytes would be idle. Every allocation and free is
 * reported to the profiler.
 *
 * Threads: any. The thread's lists need no lock; the process's lists have one (rank: leaf, nothing is
 * called under it).
 * Invariant: allocated counts the bytes asked for by live storages, reserved the bytes held from the system.
 */
#define _GNU_SOURCE
#include "runtime/runtime.h"
#include "runtime/device/device.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HEADER 64 /* bytes before the data of a block */
#define CLASSES 160
#define SMALL_MAX ((size_t)64 << 10)   /* largest block that threads cache */
#define THREAD_MAX ((size_t)256 << 10) /* bytes that a thread caches per class */
#define IDLE_MAX ((size_t)1 << 30)     /* bytes that the process caches */
#define HUGE_FROM ((size_t)4 << 20)

_Static_assert(sizeof(mt_storage) <= HEADER, "the header must fit before the data");

static struct {
    _Atomic uint64_t allocated, reserved, peak_allocated, peak_reserved, allocations, frees;
} counted;

typedef struct block {
    struct block *next;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *shared[CLASSES]; /* guarded by lock */
static size_t idle;            /* guarded by lock: bytes in shared */

typedef struct thread_blocks {
    block *list[CLASSES];
    uint32_t count[CLASSES];
} thread_blocks;
static MT__FAST_TLS thread_blocks *own; /* NULL until the thread frees a block, and again when it ends */
static pthread_key_t own_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ------------------------------------------------------------------------------------------ size classes */

static unsigned class_of(size_t bytes)
{
    if (bytes <= 1024)
        return (unsigned)((bytes + 63) / 64);
    unsigned e = 63u - (unsigned)__builtin_clzll(bytes - 1); /* 2^e < bytes <= 2^(e+1) */
    size_t quarter = (size_t)1 << (e - 2);
    unsigned k = (unsigned)((bytes - ((size_t)1 << e) + quarter - 1) / quarter); /* 1 to 4 */
    return 16 + (e - 10) * 4 + k;
}

static size_t class_bytes(unsigned c)
{
    if (c <= 16)
        return (size_t)c * 64;
    unsigned e = 10 + (c - 17) / 4, k = (c - 17) % 4 + 1;
    return ((size_t)1 << e) + k * ((size_t)1 << (e - 2));
}

/* -------------------------------------------------------------------------------------------- the system */

static void raise_peak(_Atomic uint64_t *peak, uint64_t now)
{
    uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (now > seen && !atomic_compare_exchange_weak_explicit(peak, &seen, now, memory_order_relaxed,
                                                                memory_order_relaxed))
        ;
}

static void *system_take(size_t bytes)
{
    void *p = aligned_alloc(bytes >= HUGE_FROM ? (size_t)2 << 20 : 64,
                            bytes >= HUGE_FROM ? (bytes + ((size_t)2 << 20) - 1) & ~(((size_t)2 << 20) - 1)
                                               : bytes);
    if (p == NULL)
        return NULL;
    if (bytes >= HUGE_FROM)
        madvise(p, bytes, MADV_HUGEPAGE);
    uint64_t now = atomic_fetch_add_explicit(&counted.reserved, bytes, memory_order_relaxed) + bytes;
    raise_peak(&counted.peak_reserved, now);
    return p;
}

static void system_give(void *p, size_t bytes)
{
    atomic_fetch_sub_explicit(&counted.reserved, bytes, memory_order_relaxed);
    free(p);
}

/* ------------------------------------------------------------------------------------- blocks of a class */

static void give_shared(block *b, unsigned c)
{
    size_t bytes = class_bytes(c);
    pthread_mutex_lock(&lock);
    bool keep = idle + bytes <= IDLE_MAX;
    if (keep) {
        b->next = shared[c];
        shared[c] = b;
        idle += bytes;
    }
    pthread_mutex_unlock(&lock);
    if (!keep)
        system_give(b, bytes);
}

static void give_all(thread_blocks *mine)
{
    for (unsigned c = 0; c < CLASSES; c++)
        while (mine->list[c] != NULL) {
            block *b = mine->list[c];
            mine->list[c] = b->next;
            give_shared(b, c);
        }
    memset(mine, 0, sizeof *mine);
}

static void end_thread(void *mine)
{
    own = NULL;
    give_all(mine);
    free(mine);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void begin_once(void)
{
    pthread_key_create(&own_key, end_thread);
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void *take(unsigned c)
{
    thread_blocks *mine = own;
    block *b = mine != NULL ? mine->list[c] : NULL;
    if (MT__LIKELY(b != NULL)) {
        mine->list[c] = b->next;
        mine->count[c]--;
        return b;
    }
    pthread_mutex_lock(&lock);
    b = shared[c];
    if (b != NULL) {
        shared[c] = b->next;
        idle -= class_bytes(c);
    }
    pthread_mutex_unlock(&lock);
    return b != NULL ? (void *)b : system_take(class_bytes(c));
}

static void begin_thread(void)
{
    pthread_once(&once, begin_once);
    own = calloc(1, sizeof *own);
    if (own != NULL && pthread_setspecific(own_key, own) != 0) {
        free(own);
        own = NULL;
    }
}

static void give(void *p, unsigned c)
{
    size_t bytes = class_bytes(c);
    block *b = p;
    if (MT__UNLIKELY(own == NULL))
        begin_thread();
    if (bytes <= SMALL_MAX && own != NULL && own->count[c] * bytes < THREAD_MAX) {
        b->next = own->list[c];
        own->list[c] = b;
        own->count[c]++;
    } else {
        give_shared(b, c);
    }
}

/* ----------------------------------------------------------------------------------------------- storages */

/* Does the recording include memory of the device? */
static bool is_recorded(mt_device device, uint32_t recording)
{
    return (recording & MTP_WITH_MEMORY) != 0 &&
           (recording & (MT_DEVICE_TYPE(device) == 0 ? MTP_CPU : MTP_NPU)) != 0;
}

void mt__storage_report_existing(mt_storage *s, uint32_t recording)
{
    if (s->drop != NULL || s->bytes == 0 || !is_recorded(s->device, recording))
        return;
    atomic_store_explicit(&s->session, MTP_SESSION(recording), memory_order_relaxed);
    mtp_memory_existing(s->device, s->data, s->bytes, (mtp_memory_category)s->category);
}

void mt__storage_report(mt_storage *s, int64_t change, uint64_t allocated, uint64_t reserved)
{
    uint32_t recording = mtp_recording();
    if (MT__LIKELY(!is_recorded(s->device, recording)))
        return;
    if (change > 0)
        atomic_store_explicit(&s->session, MTP_SESSION(recording), memory_order_relaxed);
    else if (atomic_load_explicit(&s->session, memory_order_relaxed) != MTP_SESSION(recording))
        mt__storage_report_existing(s, recording); /* even if nothing used it during the recording */
    mtp_memory_event(s->device, s->data, change, allocated, reserved);
}

mt_status mt__storage_create(mt_device device, size_t bytes, mt_storage **out)
{
    *out = NULL;
    if (MT__UNLIKELY(MT_DEVICE_TYPE(device) != 0))
        return mt__device_storage(device, bytes, out);
    if (MT__UNLIKELY(bytes > (size_t)1 << 44))
        return mt__fail(MT_E_NOMEM, "not enough memory: you tried to allocate %zu bytes", bytes);
    unsigned c = class_of(bytes + HEADER);
    mt_storage *s = take(c);
    if (s == NULL)
        return mt__fail(MT_E_NOMEM, "not enough memory: you tried to allocate %zu bytes", bytes);
    memset(s, 0, sizeof *s);
    atomic_init(&s->refs, 1);
    atomic_init(&s->category, MTP_MEMORY_TEMPORARY);
    s->size_class = (uint8_t)c;
    s->data = (char *)s + HEADER;
    s->bytes = bytes;
    uint64_t now = atomic_fetch_add_explicit(&counted.allocated, bytes, memory_order_relaxed) + bytes;
    atomic_fetch_add_explicit(&counted.allocations, 1, memory_order_relaxed);
    if (MT__UNLIKELY(now > atomic_load_explicit(&counted.peak_allocated, memory_order_relaxed)))
        raise_peak(&counted.peak_allocated, now);
    if (bytes > 0)
        mt__storage_report(s, (int64_t)bytes, now,
                           atomic_load_explicit(&counted.reserved, memory_order_relaxed));
    *out = s;
    return MT_OK;
}

void mt__storage_free(mt_storage *s)
{
    if (s->drop != NULL) {
        s->drop(s->user);
        free(s);
        return;
    }
    if (MT__UNLIKELY(MT_DEVICE_TYPE(s->device) != 0)) {
        mt__device_storage_free(s);
        return;
    }
    uint64_t now = atomic_fetch_sub_explicit(&counted.allocated, s->bytes, memory_order_relaxed) - s->bytes;
    atomic_fetch_add_explicit(&counted.frees, 1, memory_order_relaxed);
    if (s->bytes > 0)
        mt__storage_report(s, -(int64_t)s->bytes, now,
                           atomic_load_explicit(&counted.reserved, memory_order_relaxed));
    give(s, s->size_class);
}

/* ------------------------------------------------------------------------------------------ what users ask */

mt_status mt_memory(mt_device device, mt_memory_stats *out)
{
    if (out == NULL || out->size != sizeof *out)
        return mt__fail(MT_E_VALUE, "mt_memory: set out->size to sizeof(mt_memory_stats)");
    if (MT_DEVICE_TYPE(device) != 0)
        return mt__device_memory(device, out);
    out->allocated = atomic_load(&counted.allocated);
    out->reserved = atomic_load(&counted.reserved);
    out->peak_allocated = atomic_load(&counted.peak_allocated);
    out->peak_reserved = atomic_load(&counted.peak_reserved);
    out->allocations = atomic_load(&counted.allocations);
    out->frees = atomic_load(&counted.frees);
    return MT_OK;
}

void mt_memory_reset_peak(mt_device device)
{
    if (MT_DEVICE_TYPE(device) != 0) {
        mt__device_reset_peak(device);
        return;
    }
    atomic_store(&counted.peak_allocated, atomic_load(&counted.allocated));
    atomic_store(&counted.peak_reserved, atomic_load(&counted.reserved));
}

void mt_memory_empty_cache(mt_device device)
{
    if (MT_DEVICE_TYPE(device) != 0) {
        mt__device_empty_cache(device);
        return;
    }
    if (own != NULL)
        give_all(own);
    for (unsigned c = 0; c < CLASSES; c++) {
        pthread_mutex_lock(&lock);
        block *list = shared[c];
        shared[c] = NULL;
        for (block *b = list; b != NULL; b = b->next)
            idle -= class_bytes(c);
        pthread_mutex_unlock(&lock);
        while (list != NULL) {
            block *b = list;
            list = b->next;
            system_give(b, class_bytes(c));
        }
    }
}
