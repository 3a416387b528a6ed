/* runtime/device/device.c - accelerators: the plug-in and its devices.
 *
 * The plug-in is loaded at the first query about an npu, a device is opened at its first use, and both stay
 * until the process ends (a driver's threads may outlive main). memory.c, streams.c and work.c do the rest.
 *
 * Threads: any. Each device has one lock.
 */
#define _GNU_SOURCE
#include "runtime/device/device.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define PLUGIN_FILE "libmindtorch_opencl.so"
#define HOW_TO_GET_ONE                                                                                       \
    "install an OpenCL driver: that of your GPU, or one for the CPU (Debian: pocl-opencl-icd)"

static struct {
    mtp_plugin api; /* the plug-in's table; functions that an older one lacks are NULL */
    uint32_t count;
    char absence[1024];
} plugin;
static pthread_once_t plugin_once = PTHREAD_ONCE_INIT;
static mt__npu *_Atomic opened[MT__NPUS_MAX];
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* rank: before a device's lock */
static bool forked;                                         /* from a process that used a device */

/* ------------------------------------------------------------------------------------------------- the plug-in */

/* The folder of our own library, then the loader's search path. */
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

/* NULL: usable. Else what is wrong with it. */
static const char *fault_of(void *library)
{
    mtp_plugin_get_fn *get;
    *(void **)&get = dlsym(library, MTP_PLUGIN_ENTRY);
    if (get == NULL)
        return "does not export " MTP_PLUGIN_ENTRY;
    const mtp_plugin *api = get(MTP_PLUGIN_VERSION);
    if (api == NULL || api->version != MTP_PLUGIN_VERSION)
        return "was built for another version of mtprof_device.h";
    if (api->size < offsetof(mtp_plugin, gemm))
        return "has a truncated function table";
    memcpy(&plugin.api, api, api->size < sizeof plugin.api ? api->size : sizeof plugin.api);
    void *const *slot = (void *const *)(const void *)&plugin.api.name,
                *const *end = (void *const *)(const void *)&plugin.api.gemm;
    while (slot < end && *slot != NULL)
        slot++;
    return slot < end ? "lacks a required function" : NULL;
}

static void load(void)
{
    const char *path = getenv("MINDTORCH_DEVICE_PLUGIN"), *choice = getenv("MINDTORCH_DEVICE");
    char why[512] = "";
    if (choice != NULL && strcmp(choice, "none") == 0) {
        snprintf(plugin.absence, sizeof plugin.absence, "MINDTORCH_DEVICE=none hides all devices");
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
            "the device plug-in cannot be loaded (%s): it is built if OpenCL headers are installed (Debian: "
            "ocl-icd-opencl-dev)",
            why);
        return;
    }
    const char *fault = fault_of(h);
    if (fault != NULL) {
        snprintf(plugin.absence, sizeof plugin.absence,
                 "the device plug-in %s %s; this is version %u: rebuild it, or unset MINDTORCH_DEVICE_PLUGIN",
                 path != NULL && *path != 0 ? path : PLUGIN_FILE, fault, MTP_PLUGIN_VERSION);
        return;
    }
    uint32_t count = 0;
    mtp_status status = plugin.api.count(&count);
    if (status != MTP_OK)
        snprintf(plugin.absence, sizeof plugin.absence, "%s", plugin.api.last_error());
    else if (count == 0)
        snprintf(plugin.absence, sizeof plugin.absence, "%s found no device; " HOW_TO_GET_ONE,
                 plugin.api.name);
    else
        plugin.count = count < MT__NPUS_MAX ? count : MT__NPUS_MAX;
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
    for (unsigned i = 0; i < MT__NPUS_MAX; i++) {
        mt__npu *npu = mt__npu_opened(i);
        if (npu == NULL)
            continue;
        pthread_mutex_lock(&npu->lock);
        mt__npu_harvest(npu, true);
        npu->clocked = 0;
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
    if (status == MTP_OK) /* other streams read it, too */
        status = api->stream_synchronize(npu->own.handle);
    if (status != MTP_OK) { /* driver objects are leaked: they may be in any state */
        mt_status failed = mt__npu_fail(npu, status, what);
        free(npu);
        free(flights);
        free(drops);
        return failed;
    }
    *out = npu;
    return MT_OK;
}

/* A driver does not survive a fork: the child forgets its devices, and the one that another thread was about to open. Their
 * locks may be held. */
static void forget_in_child(void)
{
    for (unsigned i = 0; i < MT__NPUS_MAX; i++)
        forked |= atomic_exchange(&opened[i], NULL) != NULL;
    if (pthread_mutex_trylock(&opening) != 0)
        forked = true;
    pthread_mutex_init(&opening, NULL);
}

mt__npu *mt__npu_opened(unsigned index)
{
    return index < MT__NPUS_MAX ? atomic_load_explicit(&opened[index], memory_order_acquire) : NULL;
}

mt_status mt__npu_of(mt_device device, mt__npu **out)
{
    static bool registered;
    unsigned index = MT_DEVICE_INDEX(device);
    *out = mt__npu_opened(index);
    if (MT__LIKELY(*out != NULL))
        return MT_OK;
    if (mt_npu_count() == 0)
        return mt__fail(MT_E_RUNTIME, "device %s is not available: %s", mt__device_text(device),
                        plugin.absence);
    if (index >= plugin.count)
        return mt__fail(MT_E_RUNTIME, "device %s is not available: the number of devices is %u",
                        mt__device_text(device), plugin.count);
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
        if (status == MT_OK && !registered)
            registered = mtp_flush_add(flush_all, NULL) == MTP_OK;
    }
    pthread_mutex_unlock(&opening);
    return status;
}

bool mt_npu_is_open(void)
{
    for (unsigned i = 0; i < MT__NPUS_MAX; i++)
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
        return mt__fail(MT_E_RUNTIME, "invalid device ordinal: npu:%u; the number of devices is %u", index,
                        plugin.count);
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

__attribute__((constructor)) static void add_kernels(void)
{
    mt__npu_register();
    pthread_atfork(NULL, NULL, forget_in_child);
}
