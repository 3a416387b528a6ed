/* runtime/device.c - accelerators: the plug-in, its devices, their memory and streams.
 *
 * The plug-in is loaded at the first question about an npu, a device is opened at its first use, and both stay until the
 * process ends (a driver's own threads may outlive main).
 *
 * Memory is kept in classes (four to each doubling, from 512 bytes) per stream: what a stream gave back is reused on that
 * stream, in whose order the old use comes first, so no one waits. Invariant: allocated counts what live storages asked
 * for, reserved what is held from the device.
 *
 * Threads: any. Each device has one lock.
 */
#define _GNU_SOURCE
#include "runtime/device.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define DEVICES_MOST 16
#define PLUGIN_FILE "libmindtorch_opencl.so"
#define HOW_TO_GET_ONE                                                                                       \
    "an OpenCL driver makes one (a GPU's own; on Debian pocl-opencl-icd makes one of the CPU)"

static struct {
    mtp_plugin api; /* the plug-in's table; what an older one does not have is NULL */
    uint32_t count;
    char absence[1024];
} plugin;
static pthread_once_t plugin_once = PTHREAD_ONCE_INIT;
static mt__npu *_Atomic opened[DEVICES_MOST];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* rank: before a device's lock */
static bool forked;                                         /* this is the child of a process that used one */

/* ------------------------------------------------------------------------------------------------- the plug-in */

/* Our own file's folder, then the loader's places. */
static void *open_standard(char *tried, size_t room)
{
    Dl_info info;
    char path[PATH_MAX];
    if (dladdr((void *)(uintptr_t)&opening, &info) != 0 && info.dli_fname != NULL) {
        const char *slash = strrchr(info.dli_fname, '/');
        if (slash != NULL && snprintf(path, sizeof path, "%.*s/%s", (int)(slash - info.dli_fname),
                                      info.dli_fname, PLUGIN_FILE) < (int)sizeof path) {
            void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (h != NULL)
                return h;
        }
    }
    void *h = dlopen(PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
    if (h == NULL)
        snprintf(tried, room, "%s", dlerror());
    return h;
}

/* NULL: it may be used. Else what is wrong with it. */
static const char *fault_of(void *library)
{
    mtp_plugin_get_fn *get;
    *(void **)&get = dlsym(library, MTP_PLUGIN_ENTRY);
    if (get == NULL)
        return "does not export " MTP_PLUGIN_ENTRY;
    const mtp_plugin *api = get(MTP_PLUGIN_VERSION);
    if (api == NULL || api->version != MTP_PLUGIN_VERSION)
        return "is made for another version of mtprof_device.h";
    if (api->size < offsetof(mtp_plugin, gemm))
        return "has too short a table";
    memcpy(&plugin.api, api, api->size < sizeof plugin.api ? api->size : sizeof plugin.api);
    void *const *slot = (void *const *)(const void *)&plugin.api.name,
                *const *end = (void *const *)(const void *)&plugin.api.gemm;
    while (slot < end && *slot != NULL)
        slot++;
    return slot < end ? "lacks a function that is not optional" : NULL;
}

static void load(void)
{
    const char *path = getenv("MINDTORCH_DEVICE_PLUGIN"), *choice = getenv("MINDTORCH_DEVICE");
    char why[512] = "";
    if (choice != NULL && strcmp(choice, "none") == 0) {
        snprintf(plugin.absence, sizeof plugin.absence, "MINDTORCH_DEVICE=none hides them");
        return;
    }
    void *h;
    if (path != NULL && *path != 0) {
        h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (h == NULL)
            snprintf(why, sizeof why, "%s", dlerror());
    } else {
        h = open_standard(why, sizeof why);
    }
    if (h == NULL) {
        snprintf(
            plugin.absence, sizeof plugin.absence,
            "the device plug-in is not there (%s): the build makes it where OpenCL's headers are (Debian: "
            "ocl-icd-opencl-dev)",
            why);
        return;
    }
    const char *fault = fault_of(h);
    if (fault != NULL) {
        snprintf(
            plugin.absence, sizeof plugin.absence,
            "the device plug-in %s %s; this is version %u: build it again, or unset MINDTORCH_DEVICE_PLUGIN",
            path != NULL && *path != 0 ? path : PLUGIN_FILE, fault, MTP_PLUGIN_VERSION);
        return;
    }
    uint32_t count = 0;
    mtp_status status = plugin.api.count(&count);
    if (status != MTP_OK)
        snprintf(plugin.absence, sizeof plugin.absence, "%s", plugin.api.last_error());
    else if (count == 0)
        snprintf(plugin.absence, sizeof plugin.absence, "%s finds no device; " HOW_TO_GET_ONE,
                 plugin.api.name);
    else
        plugin.count = count < DEVICES_MOST ? count : DEVICES_MOST;
}

unsigned mt_npu_count(void)
{
    pthread_once(&plugin_once, load);
    return plugin.count;
}

const char *mt_npu_absence(void)
{
    pthread_once(&plugin_once, load);
    return plugin.absence;
}

mt_status mt__npu_fail(const mt__npu *npu, mtp_status status, const char *what)
{
    mt_status as = status == MTP_E_NOMEM ? MT_E_NOMEM : MT_E_RUNTIME;
    return mt__fail(as, "device npu:%u: %s: %s", MT_DEVICE_INDEX(npu->device), what, npu->api->last_error());
}

/* -------------------------------------------------------------------------------------------------- opening */

static void flush_all(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < DEVICES_MOST; i++) {
        mt__npu *npu = mt__npu_opened(i);
        if (npu == NULL)
            continue;
        pthread_mutex_lock(&npu->lock);
        mt__npu_harvest(npu, true);
        npu->clocked = false;
        mt__npu_unlock(npu);
    }
}

static mt_status open_npu(unsigned index, mt__npu **out)
{
    const mtp_plugin *api = &plugin.api;
    mt__npu *npu = calloc(1, sizeof *npu);
    mt__flight *flights = calloc(MT__FLIGHTS, sizeof *flights);
    mt_storage **drops = calloc(MT__FLIGHTS, sizeof *drops);
    if (npu == NULL || flights == NULL || drops == NULL) {
        free(npu);
        free(flights);
        free(drops);
        return mt__fail(MT_E_NOMEM, "out of memory: device npu:%u", index);
    }
    npu->api = api;
    npu->device = MT_NPU(index);
    npu->flights = flights;
    npu->drops = drops;
    npu->next_stream = 1;
    npu->own.npu = npu;
    npu->properties.size = sizeof npu->properties;
    pthread_mutex_init(&npu->lock, NULL);
    const char *what = "open";
    mtp_status status = api->open(index, &npu->handle);
    if (status == MTP_OK)
        status = api->properties(npu->handle, &npu->properties);
    if (status == MTP_OK) {
        what = "a stream";
        status = api->stream_create(npu->handle, &npu->own.handle);
    }
    if (status == MTP_OK)
        status = api->alloc(npu->handle, 64, &npu->fault);
    if (status == MTP_OK)
        status = api->fill(npu->own.handle, npu->fault, 0, 64, &(int32_t){0}, 4, NULL);
    if (status != MTP_OK) { /* what the driver gave stays with it: it may be in any state */
        mt_status failed = mt__npu_fail(npu, status, what);
        free(npu);
        free(flights);
        free(drops);
        return failed;
    }
    *out = npu;
    return MT_OK;
}

/* A driver does not come along through a fork: the child forgets its devices, without a lock (one may be held). */
static void forget_in_child(void)
{
    for (unsigned i = 0; i < DEVICES_MOST; i++)
        forked |= atomic_exchange(&opened[i], NULL) != NULL;
}

mt__npu *mt__npu_opened(unsigned index)
{
    return index < DEVICES_MOST ? atomic_load_explicit(&opened[index], memory_order_acquire) : NULL;
}

mt_status mt__npu_of(mt_device device, mt__npu **out)
{
    static bool told;
    unsigned index = MT_DEVICE_INDEX(device);
    *out = mt__npu_opened(index);
    if (MT__LIKELY(*out != NULL))
        return MT_OK;
    if (mt_npu_count() == 0)
        return mt__fail(MT_E_RUNTIME, "device %s is not available: %s", mt__device_text(device),
                        plugin.absence);
    if (index >= plugin.count)
        return mt__fail(MT_E_RUNTIME, "device %s is not available: there are %u", mt__device_text(device),
                        plugin.count);
    if (forked)
        return mt__fail(MT_E_RUNTIME,
                        "Cannot use %s in a forked subprocess of a process that used an npu: start it with "
                        "the 'spawn' method, or use the npu in the children only",
                        mt__device_text(device));
    mt_status status = MT_OK;
    pthread_mutex_lock(&opening);
    *out = mt__npu_opened(index);
    if (*out == NULL) {
        status = open_npu(index, out);
        if (status == MT_OK)
            atomic_store_explicit(&opened[index], *out, memory_order_release); /* pairs with mt__npu_opened */
        if (status == MT_OK && !told)
            told =
                mtp_flush_add(flush_all, NULL) == MTP_OK && pthread_atfork(NULL, NULL, forget_in_child) == 0;
    }
    pthread_mutex_unlock(&opening);
    return status;
}

bool mt_npu_is_open(void)
{
    for (unsigned i = 0; i < DEVICES_MOST; i++)
        if (mt__npu_opened(i) != NULL)
            return true;
    return false;
}

static MT__FAST_TLS unsigned current;

unsigned mt_npu_current(void)
{
    return current;
}

mt_status mt_npu_set_current(unsigned index)
{
    if (mt_npu_count() == 0)
        return mt__fail(MT_E_RUNTIME, "no NPU is available: %s", plugin.absence);
    if (index >= plugin.count)
        return mt__fail(MT_E_RUNTIME, "invalid device ordinal: npu:%u; there are %u", index, plugin.count);
    current = index;
    return MT_OK;
}

mt_status mt_npu_describe(mt_device device, mt_npu_properties *out)
{
    mt__npu *npu;
    if (out == NULL || out->size != sizeof *out)
        return mt__fail(MT_E_VALUE, "mt_npu_describe: set out->size to sizeof(mt_npu_properties)");
    mt_status status = mt__npu_of(device, &npu);
    if (status != MT_OK)
        return status;
    const mtp_plugin_properties *p = &npu->properties;
    memcpy(out->name, p->name, sizeof out->name);
    memcpy(out->vendor, p->vendor, sizeof out->vendor);
    memcpy(out->driver, p->driver, sizeof out->driver);
    const char *blas = npu->api->gemm_name != NULL ? npu->api->gemm_name(npu->handle) : NULL;
    snprintf(out->plugin, sizeof out->plugin, "%s", npu->api->name);
    snprintf(out->blas, sizeof out->blas, "%s", blas != NULL ? blas : "built in");
    out->total_memory = p->memory_bytes;
    out->compute_units = p->compute_units;
    out->clock_mhz = p->clock_mhz;
    out->work_group_most = p->work_group_most;
    out->is_cpu = p->is_cpu;
    out->has_float64 = p->has_float64;
    return MT_OK;
}

/* --------------------------------------------------------------------------------------------------- memory */

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

/* -------------------------------------------------------------------------------------------------- streams */

static MT__FAST_TLS mt_stream
    *chosen; /* of the device that it belongs to; others: their own. One that was destroyed
                                          meanwhile has no handle */

mt_stream *mt__stream_now(mt__npu *npu)
{
    return chosen != NULL && chosen->npu == npu && chosen->handle != NULL ? chosen : &npu->own;
}

mt_status mt_stream_create(mt_device device, mt_stream **out)
{
    mt__npu *npu;
    *out = NULL;
    mt_status status = mt__npu_of(device, &npu);
    if (status != MT_OK)
        return status;
    mtp_plugin_stream *handle = NULL;
    mtp_status made = npu->api->stream_create(npu->handle, &handle);
    if (made != MTP_OK)
        return mt__npu_fail(npu, made, "a stream");
    pthread_mutex_lock(&npu->lock);
    mt_stream *s = npu->spent != NULL ? npu->spent : calloc(1, sizeof *s);
    if (s != NULL) {
        npu->spent = s->next;
        *s = (mt_stream){.npu = npu, .handle = handle, .id = npu->next_stream++, .next = npu->own.next};
        npu->own.next = s;
    } else {
        npu->api->stream_destroy(handle);
    }
    pthread_mutex_unlock(&npu->lock);
    *out = s;
    return s != NULL ? MT_OK : mt__fail(MT_E_NOMEM, "out of memory: a stream");
}

/* Its memory goes to the default stream: all of its work is done. */
void mt_stream_destroy(mt_stream *s)
{
    if (s == NULL || s == &s->npu->own)
        return;
    mt__npu *npu = s->npu;
    npu->api->stream_synchronize(s->handle);
    if (chosen == s)
        chosen = NULL;
    pthread_mutex_lock(&npu->lock);
    mt__npu_harvest(npu, true);
    for (mt_stream **at = &npu->own.next; *at != NULL; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    for (unsigned c = 0; c < MT__COUNT_OF(npu->idle); c++)
        for (block *b = npu->idle[c]; b != NULL; b = b->next)
            if (b->stream == s)
                b->stream = &npu->own;
    if (s->probe != NULL)
        npu->api->event_release(s->probe);
    npu->api->stream_destroy(s->handle);
    s->handle = NULL;
    s->next = npu->spent;
    npu->spent = s;
    mt__npu_unlock(npu);
}

mt_stream *mt_stream_default(mt_device device)
{
    mt__npu *npu;
    return mt__npu_of(device, &npu) == MT_OK ? &npu->own : NULL;
}

mt_stream *mt_stream_current(mt_device device)
{
    mt__npu *npu;
    return mt__npu_of(device, &npu) == MT_OK ? mt__stream_now(npu) : NULL;
}

void mt_stream_use(mt_stream *stream)
{
    chosen = stream;
}

uint64_t mt_stream_id(const mt_stream *stream)
{
    return stream->id;
}

mt_device mt_stream_device(const mt_stream *stream)
{
    return stream->npu->device;
}

mt_status mt_stream_synchronize(mt_stream *stream)
{
    return mt__npu_synchronize(stream->npu, stream);
}

/* A question puts an event at the end of the work, and the next one looks whether that is done: nobody waits, and what
 * is done is known to be done by the second question at the latest. */
mt_status mt_stream_done(mt_stream *stream, bool *out)
{
    mt__npu *npu = stream->npu;
    const mtp_plugin *api = npu->api;
    mtp_status status = MTP_OK;
    bool done = false;
    pthread_mutex_lock(&npu->lock);
    if (stream->done < stream->work && (stream->probe == NULL || stream->probed < stream->work)) {
        if (stream->probe != NULL)
            api->event_release(stream->probe);
        stream->probed = stream->work;
        status = api->event_record(stream->handle, &stream->probe);
        if (status == MTP_OK)
            status = api->stream_flush(stream->handle);
    }
    if (status == MTP_OK && stream->done < stream->work)
        status = api->event_done(stream->probe, &done);
    if (done)
        stream->done = stream->probed;
    *out = stream->done == stream->work;
    pthread_mutex_unlock(&npu->lock);
    return status == MTP_OK ? MT_OK : mt__npu_fail(npu, status, "a stream");
}

mt_status mt_synchronize(mt_device device)
{
    mt__npu *npu;
    mt_status status = MT_DEVICE_TYPE(device) != 0 ? mt__npu_of(device, &npu) : MT_OK;
    return status == MT_OK && MT_DEVICE_TYPE(device) != 0 ? mt__npu_synchronize(npu, NULL) : status;
}

/* --------------------------------------------------------------------------------------------------- events */

struct mt_event {
    mt__npu *npu;
    mtp_plugin_event *handle; /* owned */
};

mt_status mt_event_record(mt_stream *stream, mt_event **out)
{
    mt_event *e = calloc(1, sizeof *e);
    *out = NULL;
    if (e == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: an event");
    e->npu = stream->npu;
    pthread_mutex_lock(&e->npu->lock);
    mtp_status status = e->npu->api->event_record(stream->handle, &e->handle);
    if (status == MTP_OK)
        status = e->npu->api->stream_flush(stream->handle);
    pthread_mutex_unlock(&e->npu->lock);
    if (status != MTP_OK) {
        mt_status failed = mt__npu_fail(e->npu, status, "an event");
        free(e);
        return failed;
    }
    *out = e;
    return MT_OK;
}

void mt_event_destroy(mt_event *e)
{
    if (e == NULL)
        return;
    e->npu->api->event_release(e->handle);
    free(e);
}

static mt_status of_event(const mt_event *e, mtp_status status)
{
    return status == MTP_OK ? MT_OK : mt__npu_fail(e->npu, status, "an event");
}

mt_status mt_event_done(mt_event *e, bool *out)
{
    return of_event(e, e->npu->api->event_done(e->handle, out));
}

mt_status mt_event_synchronize(mt_event *e)
{
    return of_event(e, e->npu->api->event_wait(e->handle));
}

mt_status mt_event_elapsed(mt_event *from, mt_event *to, double *milliseconds)
{
    mtp_plugin_times a, b;
    const mtp_plugin *api = from->npu->api;
    mtp_status status = api->event_wait(to->handle);
    if (status == MTP_OK)
        status = api->event_wait(from->handle);
    if (status == MTP_OK)
        status = api->event_times(from->handle, &a);
    if (status == MTP_OK)
        status = api->event_times(to->handle, &b);
    if (status == MTP_OK)
        *milliseconds = ((double)b.end - (double)a.end) / 1e6;
    return of_event(from, status);
}

mt_status mt_stream_wait(mt_stream *stream, mt_event *event)
{
    mt__npu *npu = stream->npu;
    pthread_mutex_lock(&npu->lock);
    mtp_status status = npu->api->stream_wait(stream->handle, event->handle);
    pthread_mutex_unlock(&npu->lock);
    return of_event(event, status);
}

__attribute__((constructor)) static void add_kernels(void)
{
    mt__npu_register();
}
