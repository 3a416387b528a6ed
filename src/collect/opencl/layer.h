/* collect/opencl/layer.h - shared by the files of the layer.
 *
 * A command of the program is begun, passed to the driver and ended (commands.c). Its event is then in flight
 * (flights.c): it is kept until the device is done, and its times become device work in the profile. Lock
 * order: flights, devices, a table of handles. None is held while a command is passed on.
 */
#ifndef COLLECT_OPENCL_LAYER_H
#define COLLECT_OPENCL_LAYER_H
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#pragma GCC visibility push(default) /* the two functions that the loader looks up */
#include <CL/cl_layer.h>
#pragma GCC visibility pop
#include <mtprof.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define MTP__DEVICES_MAX 64

extern const cl_icd_dispatch *mtp__next; /* borrowed from the loader: the next layer or the driver */

/* -------------------------------------------------------------------------------------------- queues.c */

typedef struct mtp__queue {
    uint32_t device; /* its number in the trace */
    uint32_t stream; /* its row there */
} mtp__queue;

/* Devices are numbered in the order in which they are first seen. */
uint32_t mtp__device_number(cl_device_id id);
uint32_t mtp__device_count(void);
/* Reports the device to each recording at its first command, for deviceProperties. No lock is held. */
void mtp__device_describe_to(uint32_t number, uint16_t session);
extern uint16_t mtp__device_described[MTP__DEVICES_MAX]; /* relaxed: reporting twice does no harm */
static inline void mtp__device_met(uint32_t number, uint16_t session)
{
    if (__builtin_expect(__atomic_load_n(&mtp__device_described[number], __ATOMIC_RELAXED) != session, 0))
        mtp__device_describe_to(number, session);
}

/* A thread's last queue and kernel: most calls use the same ones again. `age` changes when handles are
 * released. */
typedef struct mtp__last {
    uint64_t age;
    const void *queue, *kernel;
    mtp__queue at;
    uint32_t name;
} mtp__last;

mtp__queue mtp__queue_find(mtp__last *last, cl_command_queue queue);
uint32_t mtp__kernel_name(mtp__last *last, cl_kernel kernel);

/* ------------------------------------------------------------------------------------------- flights.c */

typedef struct mtp__flight {
    cl_event event; /* owned; NULL: landed */
    uint64_t correlation;
    uint64_t before; /* ticks before it was enqueued, with `width` */
    uint32_t width;  /* ticks that enqueueing it took; 0: not measured */
    uint32_t name, stream;
    uint16_t session;     /* MTP_SESSION: the recording it belongs to */
    uint8_t device, kind; /* mtp_device_event_kind */
    union {
        uint64_t bytes;
        struct {
            uint32_t grid[3], block[3];
        } kernel;
    } of;
} mtp__flight;

typedef struct mtp__ring mtp__ring; /* of one thread */

/* The calling thread's ring; NULL: out of memory. */
mtp__ring *mtp__ring_mine(void);
mtp__last *mtp__ring_last(mtp__ring *ring);
bool mtp__ring_reads_clock(mtp__ring *ring); /* true now and then: time the enqueueing of this command */

/* Takes the flight's event. Never waits. */
void mtp__flight_add(mtp__ring *ring, const mtp__flight *flight);

/* Reports finished commands without waiting; does nothing if another thread is already doing so. */
void mtp__flights_harvest(void);

mtp_status mtp__flights_init(void);

/* Commands missing from the profile: unfinished at its end (or out of memory); on a queue without times. */
uint64_t mtp__flights_lost(void);
bool mtp__flights_recorded(void); /* a profile has run since the layer was loaded */
uint64_t mtp__flights_timeless(void);

/* ------------------------------------------------------- the layer's functions, each file's own, into its table */

void mtp__queues_hook(cl_icd_dispatch *ours);
void mtp__commands_hook(cl_icd_dispatch *ours);
void mtp__images_hook(cl_icd_dispatch *ours);
void mtp__memory_hook(cl_icd_dispatch *ours);

/* Hold or release their locks around a fork. */
static inline void mtp__hold_locks(pthread_mutex_t *const *locks, size_t count, bool hold)
{
    for (size_t i = 0; i < count; i++)
        if (hold)
            pthread_mutex_lock(locks[i]);
        else
            pthread_mutex_unlock(locks[i]);
}
void mtp__queues_fork_hold(bool hold);
void mtp__commands_fork_hold(bool hold);
void mtp__memory_fork_hold(bool hold);

/* ------------------------------------------------------------------------------------------ commands.c */

typedef struct mtp__command {
    mtp_op op;
    mtp__flight flight;
    mtp__ring *ring; /* NULL: nothing is recorded */
    cl_event own;    /* used when the program passed none */
    cl_event *event; /* passed to the driver */
} mtp__command;

void mtp__command_begin(mtp__command *c, cl_command_queue queue, uint32_t call, uint32_t name, uint32_t kind,
                        uint64_t bytes, cl_event *event);
cl_int mtp__command_end(mtp__command *c, cl_int code);

/* A call that enqueues nothing: a runtime event. */
void mtp__call_begin(mtp_op *op, uint32_t name);

#endif
