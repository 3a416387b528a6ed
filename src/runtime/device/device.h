/* runtime/device/device.h - the runtime's interface to accelerators. The CPU is not one: see storage.c
 * and kernels/cpu.
 *
 * device.c opens devices, memory.c and streams.c do what their names say, work.c submits work to streams and
 * reports it to the profiler; the ops are in kernels/opencl.
 */
#ifndef RUNTIME_DEVICE_DEVICE_H
#define RUNTIME_DEVICE_DEVICE_H
#include "runtime/runtime.h"
#include <mtprof_device.h>
#include <pthread.h>

mt_status mt__device_storage(mt_device device, size_t bytes, mt_storage **out);
void mt__device_storage_free(mt_storage *s);
mt_status mt__device_memory(mt_device device, mt_memory_stats *out);
void mt__device_reset_peak(mt_device device);
void mt__device_empty_cache(mt_device device);
/* Copies the first element of t, which must have one, to host memory; waits. */
mt_status mt__device_read(const mt_tensor *t, void *out);

/* to = from, cast and broadcast; at least one is not on the CPU. lazily: host memory may be read later. */
mt_status mt__device_copy(mt_tensor *to, const mt_tensor *from, bool lazily);

/* ------------------------------------------------------------------------------------------------ devices */

typedef struct mt__kernel {
    uint64_t key; /* 0: free */
    mtp_plugin_kernel *handle;
    uint32_t name; /* the profiler's id */
} mt__kernel;

/* Work in flight: its event has not been read yet. */
typedef struct mt__flight {
    mtp_plugin_event *event; /* owned */
    mt_storage *held;        /* owned: host memory that a copy reads; or NULL */
    mtp_device_work work;    /* all but the times; name 0: not reported */
    uint32_t session;        /* MTP_SESSION of its recording */
} mt__flight;

#define MT__FLIGHTS 4096
#define MT__NPUS_MAX 8 /* further devices are ignored */

struct mt_stream {
    struct mt__npu *npu;
    mtp_plugin_stream *handle;
    uint64_t id; /* in profiles: 0 is the default stream */
    struct mt_stream *next;
    uint64_t work, done;     /* commands so far; commands known to be done */
    mtp_plugin_event *probe; /* owned: event after the first `probed` commands; or NULL */
    uint64_t probed;
};

typedef struct mt__npu {
    const mtp_plugin *api;
    mtp_plugin_device *handle;
    mt_device device;
    mtp_plugin_properties properties;
    pthread_mutex_t lock; /* guards all below; rank: leaf, except for the plug-in and recording calls */
    mt_stream own;        /* the default stream; others are linked to it */
    mt_stream
        *spent; /* destroyed: blocks and threads may still refer to them, so they are reused, not freed */
    uint64_t next_stream;
    mt__kernel *kernels; /* hash table by key, of kernel_room slots */
    uint32_t kernel_count, kernel_room;
    mt__flight *flights; /* a ring of MT__FLIGHTS */
    uint32_t flight_first, flight_count;
    uint64_t held_bytes; /* host memory held by flights */
    mt_storage **drops;  /* owned: to be released without the lock; room for MT__FLIGHTS */
    uint32_t drop_count;
    uint32_t launches;        /* since the last flush of the stream */
    uint32_t clocked;         /* MTP_SESSION of the recording that the clock was reported to; 0: none */
    uint64_t clocked_ns;      /* when it was last reported */
    mtp_plugin_memory *fault; /* an int that kernels set on an invalid element */
    bool may_fault;           /* such a kernel was launched since the last check */
    struct mt__block *idle[48 * 4];
    uint64_t allocated, reserved, peak_allocated, peak_reserved, allocations, frees;
} mt__npu;

/* Borrowed; opened on first use. */
mt_status mt__npu_of(mt_device device, mt__npu **out);
/* The device if it is open, or NULL. */
mt__npu *mt__npu_opened(unsigned index);
mt_stream *mt__stream_now(mt__npu *npu); /* this thread's current stream */
/* Moves the memory of a stream that is about to be destroyed, and whose work is done, to the default stream.
 * The lock is held. */
void mt__device_memory_leaves(mt__npu *npu, const mt_stream *stream);
/* Turns an error of the plug-in into ours. */
mt_status mt__npu_fail(const mt__npu *npu, mtp_status status, const char *what);

/* --------------------------------------------------------------------------------------------------- work */

typedef struct mt__launch {
    mt__npu *npu;
    uint32_t count;
    uint32_t used; /* of bytes */
    bool may_fault;
    mtp_plugin_arg args[40];
    uint64_t bytes[160]; /* the values */
} mt__launch;

mt_status mt__launch_begin(mt__launch *l, mt_device device);
void mt__launch_memory(mt__launch *l, mtp_plugin_memory *memory);
void mt__launch_value(mt__launch *l, const void *value, uint32_t bytes);
void mt__launch_fault(mt__launch *l); /* passes the device's fault word */
static inline void mt__launch_long(mt__launch *l, int64_t x)
{
    mt__launch_value(l, &x, sizeof x);
}
/* Passes the memory of t and the offset of its first element. */
static inline void mt__launch_tensor(mt__launch *l, const mt_tensor *t)
{
    mt__launch_memory(l, t->storage->data);
    mt__launch_long(l, t->offset);
}
mt_status mt__launch_run(mt__launch *l, const mt__kernel *k, uint32_t dims, const uint64_t *global,
                         const uint64_t *local);

/* The kernel of `key` (nonzero); if it is new, `write` returns its source (malloc'ed; NULL: out of
 * memory) and name. */
typedef char *mt__source_fn(const void *user, const mt__npu *npu, char *name, size_t room);
mt_status mt__npu_kernel(mt__npu *npu, uint64_t key, mt__source_fn *write, const void *user, mt__kernel *out);

/* Sizes and offsets are in bytes. */
mt_status mt__npu_copy_in(mt__npu *npu, mtp_plugin_memory *to, uint64_t at, const void *from, uint64_t bytes,
                          mt_storage *hold);
mt_status mt__npu_copy_out(mt__npu *npu, void *to, mtp_plugin_memory *from, uint64_t at, uint64_t bytes);
mt_status mt__npu_copy(mt__npu *npu, mtp_plugin_memory *to, uint64_t to_at, mtp_plugin_memory *from,
                       uint64_t from_at, uint64_t bytes);
mt_status mt__npu_fill(mt__npu *npu, mtp_plugin_memory *to, uint64_t at, uint64_t bytes, const void *pattern,
                       uint32_t pattern_bytes);
mt_status mt__npu_gemm(mt__npu *npu, const mtp_plugin_gemm *gemm); /* MT_E_NOT_IMPLEMENTED: use a kernel */
mt_status mt__npu_synchronize(mt__npu *npu, mt_stream *stream);    /* NULL: all of them */
/* Reports finished work to the profiler; with wait, all work. The lock is held, and must be released by
 * mt__npu_unlock: freeing host memory may call into Python, which has its own lock. */
void mt__npu_harvest(mt__npu *npu, bool wait);
void mt__npu_unlock(mt__npu *npu);
mt_status mt__npu_check_fault(mt__npu *npu, bool all_done); /* call after a synchronisation */

void mt__npu_register(void); /* kernels/opencl/table.c: fills mt__ops[].kernels[1] */

#endif
