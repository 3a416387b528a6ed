/* mtprof_device.h - what an accelerator must provide: the ABI of device plug-ins.
 *
 * A plug-in is a shared library that exports one function:
 *
 *     const mtp_plugin *mtp_plugin_get(uint32_t version);   // NULL: version not supported
 *
 * mindtorch loads it (MINDTORCH_DEVICE_PLUGIN=/path/lib.so, else libmindtorch_opencl.so in its own directory)
 * and runs every op on device "npu" through it. tests/unit/test_device_plugin.c is a conformance test for any
 * plug-in; src/runtime/device/opencl.c is the first implementation.
 *
 * Rules
 *   - Functions that can fail return mtp_status, set *out to NULL first, and leave a message for last_error()
 *     on the calling thread:
 *     MTP_E_NOMEM  out of device memory;   MTP_E_UNSUPPORTED  not on this device;
 *     MTP_E_ARG    the caller's mistake;   MTP_E_FORMAT       a kernel does not build (compiler output);
 *     MTP_E_STATE  the device failed or was lost.
 *   - Work is asynchronous and runs in stream order. An `event` out parameter may be NULL: no event.
 *     The caller owns a returned event (event_release).
 *   - Any thread may call. The caller does not use one stream, or one kernel, from two threads at a time.
 *   - Times are nanoseconds of the device's own clock; clock() relates it to the host's.
 *   - The plug-in knows nothing about the profiler, and prints nothing.
 * C99 and C++11. The table opens with its size and grows at the tail; slots marked optional may be NULL.
 */
#ifndef MTPROF_DEVICE_H
#define MTPROF_DEVICE_H
#include <mtprof.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MTP_PLUGIN_VERSION 1u

typedef struct mtp_plugin_device mtp_plugin_device; /* all of these are defined by the plug-in */
typedef struct mtp_plugin_stream mtp_plugin_stream;
typedef struct mtp_plugin_memory mtp_plugin_memory;
typedef struct mtp_plugin_kernel mtp_plugin_kernel;
typedef struct mtp_plugin_event mtp_plugin_event;

typedef struct mtp_plugin_properties {
    size_t size; /* sizeof(mtp_plugin_properties), set by the caller */
    char name[128], vendor[128], driver[128];
    uint64_t memory_bytes, largest_alloc;                              /* the device's; one block's maximum */
    uint64_t local_bytes;                                              /* shared by a work-group */
    uint32_t compute_units, clock_mhz, work_group_most, address_align; /* bytes */
    uint32_t clock_resolution_ns;
    bool is_cpu; /* the "device" is the host's own processor */
    bool has_float64, has_int64_atomics;
    bool lazy_kernels; /* kernels are compiled at their first launch: many in one source cost little */
} mtp_plugin_properties;

/* One argument of a kernel: memory, a value, or space in the work-group's local memory. */
typedef struct mtp_plugin_arg {
    uint32_t kind; /* 0: memory, 1: value of `bytes`, 2: local memory of `bytes` */
    uint32_t bytes;
    union {
        mtp_plugin_memory *memory; /* borrowed */
        const void *value;         /* copied by launch */
    } as;
} mtp_plugin_arg;

typedef struct mtp_plugin_times {
    uint64_t queued, submitted, start, end;
} mtp_plugin_times;

/* c = alpha * op(a) @ op(b) + beta * c, row-major, `batch` times. Offsets, leading dimensions, strides: in
 * elements. */
typedef struct mtp_plugin_gemm {
    size_t size;    /* sizeof(mtp_plugin_gemm) */
    uint32_t dtype; /* MTP_FLOAT32 or MTP_FLOAT64 */
    bool transpose_a, transpose_b;
    uint64_t m, n, k, batch;
    double alpha, beta;
    mtp_plugin_memory *a, *b, *c;
    uint64_t a_at, b_at, c_at, lda, ldb, ldc, a_step, b_step, c_step;
} mtp_plugin_gemm;

typedef struct mtp_plugin {
    size_t size;      /* sizeof(mtp_plugin) of the plug-in */
    uint32_t version; /* MTP_PLUGIN_VERSION */
    uint32_t reserved;
    const char *name;     /* "opencl" */
    const char *language; /* of kernel sources: "opencl-c" */
    /* names in profiles of launch, copy_in, copy_out, copy, fill, stream_synchronize, gemm, kernel_build */
    const char *const *calls;

    const char *(*last_error)(void); /* of this thread; borrowed, never NULL */

    /* devices, best first; without any, count sets 0 and returns MTP_OK */
    mtp_status (*count)(uint32_t *out);
    mtp_status (*open)(uint32_t index, mtp_plugin_device **out);
    void (*close)(mtp_plugin_device *device); /* after everything that belongs to it was released */
    mtp_status (*properties)(mtp_plugin_device *device, mtp_plugin_properties *out);

    /* memory: uninitialised; at least one byte. free does not wait: the caller has made sure that
     * no work uses it */
    mtp_status (*alloc)(mtp_plugin_device *device, uint64_t bytes, mtp_plugin_memory **out);
    void (*free)(mtp_plugin_memory *memory);

    /* streams */
    mtp_status (*stream_create)(mtp_plugin_device *device, mtp_plugin_stream **out);
    void (*stream_destroy)(mtp_plugin_stream *stream);     /* when its work is done */
    mtp_status (*stream_flush)(mtp_plugin_stream *stream); /* submits enqueued work to the device */
    mtp_status (*stream_synchronize)(mtp_plugin_stream *stream);
    mtp_status (*stream_wait)(mtp_plugin_stream *stream,
                              mtp_plugin_event *event); /* later work waits for it */

    /* copies and fills; if not `blocking`, the host memory must stay valid until the event is done */
    mtp_status (*copy_in)(mtp_plugin_stream *stream, mtp_plugin_memory *to, uint64_t at, const void *from,
                          uint64_t bytes, bool blocking, mtp_plugin_event **event);
    mtp_status (*copy_out)(mtp_plugin_stream *stream, void *to, mtp_plugin_memory *from, uint64_t at,
                           uint64_t bytes, bool blocking, mtp_plugin_event **event);
    mtp_status (*copy)(mtp_plugin_stream *stream, mtp_plugin_memory *to, uint64_t to_at,
                       mtp_plugin_memory *from, uint64_t from_at, uint64_t bytes, mtp_plugin_event **event);
    /* pattern_bytes is 1, 2, 4 or 8; at and bytes are multiples of it */
    mtp_status (*fill)(mtp_plugin_stream *stream, mtp_plugin_memory *to, uint64_t at, uint64_t bytes,
                       const void *pattern, uint32_t pattern_bytes, mtp_plugin_event **event);

    /* kernels: built once, and cached on disk where the plug-in can */
    mtp_status (*kernel_build)(mtp_plugin_device *device, const char *source, const char *options,
                               const char *name, mtp_plugin_kernel **out);
    void (*kernel_release)(mtp_plugin_kernel *kernel);
    /* global: work-items, a multiple of local; local NULL: the plug-in chooses */
    mtp_status (*launch)(mtp_plugin_stream *stream, mtp_plugin_kernel *kernel, uint32_t dims,
                         const uint64_t *global, const uint64_t *local, const mtp_plugin_arg *args,
                         uint32_t arg_count, mtp_plugin_event **event);

    /* events */
    mtp_status (*event_record)(mtp_plugin_stream *stream,
                               mtp_plugin_event **out);           /* done when all earlier work is */
    mtp_status (*event_done)(mtp_plugin_event *event, bool *out); /* does not wait */
    mtp_status (*event_wait)(mtp_plugin_event *event);
    mtp_status (*event_times)(mtp_plugin_event *event, mtp_plugin_times *out); /* only of a done event */
    void (*event_release)(mtp_plugin_event *event);

    /* The device's clock read *device_ns at some moment between two readings of the host's clock, *before and
     * *after. Does not wait for work on streams. */
    mtp_status (*clock)(mtp_plugin_device *device, uint64_t (*host)(void), uint64_t *device_ns,
                        uint64_t *before, uint64_t *after);

    /* optional: matrix products by a library; MTP_E_UNSUPPORTED: use kernels */
    mtp_status (*gemm)(mtp_plugin_stream *stream, const mtp_plugin_gemm *gemm, mtp_plugin_event **event);
    const char *(*gemm_name)(mtp_plugin_device *device); /* optional: "CLBlast", or NULL */
    /* end of version 1 */
} mtp_plugin;

typedef const mtp_plugin *mtp_plugin_get_fn(uint32_t version);
#define MTP_PLUGIN_ENTRY "mtp_plugin_get"

#ifdef __cplusplus
}
#endif
#endif
