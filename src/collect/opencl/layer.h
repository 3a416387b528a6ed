/* collect/opencl/layer.h - what the files of the layer share.
 *
 * A command of the program is begun, handed to the driver and ended (commands.c). Its event then flies (flights.c): it is
 * kept until the device is done with it, and its times become device work of the profile. Locks, in the order in which they
 * may be taken: flights, devices, a table of handles. None is held while a command is handed on.
 */
#ifndef COLLECT_OPENCL_LAYER_H
#define COLLECT_OPENCL_LAYER_H
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#pragma GCC visibility push(default) /* the two calls that the loader looks for */
#include <CL/cl_layer.h>
#pragma GCC visibility pop
#include <mtprof.h>
#include <stdbool.h>
#include <stdint.h>

#define MTP__DEVICES_MOST 64

extern const cl_icd_dispatch *mtp__next; /* borrowed: the loader's, what comes after us */

/* -------------------------------------------------------------------------------------------- queues.c */

typedef struct mtp__queue {
    uint32_t device; /* its number in the trace */
    uint32_t stream; /* its row there */
} mtp__queue;

/* Of a device, in the order in which they are met. */
uint32_t mtp__device_number(cl_device_id id);
uint32_t mtp__device_count(void);
/* Tells each recording what the device is, for deviceProperties, at its first command. No lock is held. */
void mtp__device_describe_to(uint32_t number, uint16_t session);
extern uint16_t mtp__device_told[MTP__DEVICES_MOST]; /* relaxed: told twice is told */
static inline void mtp__device_met(uint32_t number, uint16_t session)
{
    if (__builtin_expect(__atomic_load_n(&mtp__device_told[number], __ATOMIC_RELAXED) != session, 0))
        mtp__device_describe_to(number, session);
}

/* What a thread met last: most calls name the same queue and kernel again. `age` tells whether handles were given back. */
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
    uint64_t before; /* ticks before its enqueueing, with `width` */
    uint32_t width;  /* ticks that its enqueueing took; 0: not read */
    uint32_t name, stream;
    uint16_t session;     /* MTP_SESSION: it is no other recording's */
    uint8_t device, kind; /* mtp_device_event_kind */
    union {
        uint64_t bytes;
        struct {
            uint32_t grid[3], block[3];
        } kernel;
    } of;
} mtp__flight;

typedef struct mtp__ring mtp__ring; /* of one thread */

/* The calling thread's; NULL: out of memory. */
mtp__ring *mtp__ring_mine(void);
mtp__last *mtp__ring_last(mtp__ring *ring);
bool mtp__ring_reads_clock(mtp__ring *ring); /* now and then: this command's enqueueing is to be timed */

/* Takes the flight's event. Never waits. */
void mtp__flight_add(mtp__ring *ring, const mtp__flight *flight);

/* Reports what is done, without waiting; nothing if another thread is at it. */
void mtp__flights_harvest(void);

mtp_status mtp__flights_init(void);

/* Commands that are not in the profile: not done at its end (or no memory); on a queue not made for profiling. */
uint64_t mtp__flights_lost(void);
bool mtp__flights_recorded(void); /* a profile has run since the layer was loaded */
uint64_t mtp__flights_timeless(void);

/* ------------------------------------------------------- the layer's functions, each file's own, into its table */

void mtp__queues_hook(cl_icd_dispatch *ours);
void mtp__commands_hook(cl_icd_dispatch *ours);
void mtp__images_hook(cl_icd_dispatch *ours);
void mtp__memory_hook(cl_icd_dispatch *ours);

/* Their locks, around a fork. */
void mtp__queues_fork_hold(bool hold);
void mtp__commands_fork_hold(bool hold);
void mtp__memory_fork_hold(bool hold);

/* ------------------------------------------------------------------------------------------ commands.c */

typedef struct mtp__command {
    mtp_op op;
    mtp__flight flight;
    mtp__ring *ring; /* NULL: nothing is recorded */
    cl_event own;    /* when the program asked for none */
    cl_event *event; /* for the driver */
} mtp__command;

void mtp__command_begin(mtp__command *c, cl_command_queue queue, uint32_t call, uint32_t name, uint32_t kind,
                        uint64_t bytes, cl_event *event);
cl_int mtp__command_end(mtp__command *c, cl_int code);

/* A call that enqueues nothing: a runtime event. */
void mtp__call_begin(mtp_op *op, uint32_t name);

#endif
