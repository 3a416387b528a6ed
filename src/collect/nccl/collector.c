/* collect/nccl/collector.c - NCCL's profiler plug-in, and RCCL's.
 *
 *     NCCL_PROFILER_PLUGIN=/path/libmtprof_nccl.so MTPROF_OUT=trace.json program
 *
 * Collectives and messages are spans on the thread that enqueued them, for as long as that took: what runs on the GPU is
 * not seen here. What NCCL's proxy threads send and receive over the network are spans on those threads.
 *
 * Nothing here fails: NCCL would fail with it. Handles that NCCL keeps for us are numbers. Threads: any.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/nccl_abi.h"
#include "collect/nccl/nccl.h"
#include "collect/own.h"
#include "collect/ranges.h"

#define WANTED (MTP__NCCL_GROUP | MTP__NCCL_COLL | MTP__NCCL_P2P | MTP__NCCL_PROXY_OP)

static mtp__nccl_comm unknown = {.rank = -1}; /* where there is no memory for one */
static bool recorded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool has_recorded(void)
{
    return __atomic_load_n(&recorded, __ATOMIC_RELAXED);
}

static void report(void)
{
}

static void start_once(void)
{
    static const mtp__collector nccl = {"the NCCL plug-in", has_recorded, report};
    mtp__ranges_init();
    mtp__own_start(&nccl);
}

/* ------------------------------------------------------------------------------------------------------ events */

/* The handle by which the end is known; NULL: nothing is recorded. */
static void *open_range(mtp_op *op, const char *name)
{
    static uint64_t last;
    mtp__ranges_settle();
    mtp_op_begin_text(op, name, strlen(name));
    if (op->token == 0)
        return NULL;
    __atomic_store_n(&recorded, true, __ATOMIC_RELAXED);
    uint64_t id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    const mtp__range_key key = {{id, 0x4e43434c}};
    mtp__range_start(&key, op->token, MTP_NAME("end of a call of NCCL"));
    return (void *)(uintptr_t)id;
}

static void *begin_call(mtp__nccl_comm *comm, const mtp__nccl_call *call)
{
    char name[MTP__NCCL_NAME], args[MTP__NCCL_ARGS];
    mtp_op op = MTP_OP_INIT(0);
    uint64_t sequence = call->is_p2p ? 0 : __atomic_add_fetch(&comm->sequence, 1, __ATOMIC_RELAXED);
    if (!(mtp_recording() & MTP_CPU))
        return NULL;
    mtp__nccl_name(call->function, name);
    mtp__nccl_describe(comm, call, sequence, args);
    op.args = args;
    return open_range(&op, name);
}

static void *begin_proxy(const mtp__nccl_proxy *proxy)
{
    char args[256];
    mtp_op op = MTP_OP_INIT(0);
    if (!(mtp_recording() & MTP_CPU))
        return NULL;
    snprintf(args, sizeof args,
             MTP_ARGS_MEMBERS
             "\"Channel\": %u, \"Peer in group\": %d, \"Steps\": %d, \"Chunk bytes\": %d, \"Process\": %d",
             proxy->channel, proxy->peer, proxy->steps, proxy->chunk, proxy->pid);
    op.kind = MTP_SCOPE_USER;
    op.args = args;
    return open_range(&op, proxy->is_send ? "nccl proxy send" : "nccl proxy recv");
}

static void *begin_group(void)
{
    mtp_op op = MTP_OP_INIT(0);
    op.kind = MTP_SCOPE_USER;
    return mtp_recording() & MTP_CPU ? open_range(&op, "nccl group") : NULL;
}

static int stop(void *handle)
{
    const mtp__range_key key = {{(uint64_t)(uintptr_t)handle, 0x4e43434c}};
    if (handle != NULL)
        mtp__range_end(&key);
    return 0;
}

static int ignore_state(void *handle, int state, const void *args)
{
    (void)handle, (void)state, (void)args;
    return 0;
}

static int finalize(void *context)
{
    (void)context; /* kept: see mtp__nccl_comm */
    return 0;
}

/* ---------------------------------------------------------------------------------------------------- versions */

static mtp__nccl_comm *make_comm(int *mask)
{
    pthread_once(&once, start_once);
    mtp__nccl_comm *comm = calloc(1, sizeof *comm);
    if (mask != NULL)
        *mask = WANTED;
    if (comm == NULL)
        return &unknown;
    comm->rank = -1;
    return comm;
}

static mtp__nccl_comm *comm_of(void *context)
{
    return context != NULL ? context : &unknown;
}

static int start1(void *context, void **handle, const void *given)
{
    const mtp__nccl_event1 *e = given;
    mtp__nccl_comm *comm = comm_of(context);
    *handle = NULL;
    if (e->type == MTP__NCCL_COLL) {
        const mtp__nccl_call call = {.function = mtp__nccl_function(e->u.coll.function),
                                     .comm_name = e->u.coll.name,
                                     .datatype = mtp__nccl_datatype(e->u.coll.datatype),
                                     .comm = e->u.coll.comm,
                                     .count = e->u.coll.count,
                                     .root = e->u.coll.root,
                                     .peer = -1,
                                     .rank = e->rank};
        *handle = begin_call(comm, &call);
    } else if (e->type == MTP__NCCL_P2P) {
        const mtp__nccl_call call = {.function = mtp__nccl_function(e->u.p2p.function),
                                     .comm_name = e->u.p2p.name,
                                     .datatype = mtp__nccl_datatype(e->u.p2p.datatype),
                                     .comm = e->u.p2p.comm,
                                     .count = e->u.p2p.count,
                                     .root = -1,
                                     .peer = e->u.p2p.peer,
                                     .rank = e->rank,
                                     .is_p2p = true};
        *handle = begin_call(comm, &call);
    } else if (e->type == MTP__NCCL_PROXY_OP) {
        *handle = begin_proxy(&e->u.proxy);
    } else if (e->type == MTP__NCCL_GROUP) {
        *handle = begin_group();
    }
    return 0;
}

static int start2(void *context, void **handle, const void *given)
{
    const mtp__nccl_event2 *e = given;
    mtp__nccl_comm *comm = comm_of(context);
    *handle = NULL;
    if (e->type == MTP__NCCL_COLL) {
        const mtp__nccl_call call = {.function = e->u.coll.function,
                                     .comm_name = e->u.coll.name,
                                     .datatype = e->u.coll.datatype,
                                     .comm = e->u.coll.comm,
                                     .count = e->u.coll.count,
                                     .root = e->u.coll.root,
                                     .peer = -1,
                                     .rank = e->rank};
        *handle = begin_call(comm, &call);
    } else if (e->type == MTP__NCCL_P2P) {
        const mtp__nccl_call call = {.function = e->u.p2p.function,
                                     .comm_name = e->u.p2p.name,
                                     .datatype = e->u.p2p.datatype,
                                     .comm = e->u.p2p.comm,
                                     .count = e->u.p2p.count,
                                     .root = -1,
                                     .peer = e->u.p2p.peer,
                                     .rank = e->rank,
                                     .is_p2p = true};
        *handle = begin_call(comm, &call);
    } else if (e->type == MTP__NCCL_PROXY_OP) {
        *handle = begin_proxy(&e->u.proxy);
    } else if (e->type == MTP__NCCL_GROUP) {
        *handle = begin_group();
    }
    return 0;
}

static void *begin_of4(void *context, uint64_t type, int rank, const mtp__nccl_parts4 *u)
{
    mtp__nccl_comm *comm = comm_of(context);
    if (type == MTP__NCCL_COLL) {
        const mtp__nccl_call call = {.function = u->coll.function,
                                     .datatype = u->coll.datatype,
                                     .count = u->coll.count,
                                     .root = u->coll.root,
                                     .peer = -1,
                                     .rank = rank};
        return begin_call(comm, &call);
    }
    if (type == MTP__NCCL_P2P) {
        const mtp__nccl_call call = {.function = u->p2p.function,
                                     .datatype = u->p2p.datatype,
                                     .count = u->p2p.count,
                                     .root = -1,
                                     .peer = u->p2p.peer,
                                     .rank = rank,
                                     .is_p2p = true};
        return begin_call(comm, &call);
    }
    return type == MTP__NCCL_PROXY_OP ? begin_proxy(&u->proxy)
           : type == MTP__NCCL_GROUP  ? begin_group()
                                      : NULL;
}

static int start4(void *context, void **handle, const void *given)
{
    const mtp__nccl_event4 *e = given;
    *handle = begin_of4(context, e->type, e->rank, &e->u);
    return 0;
}

static int start5(void *context, void **handle, const void *given)
{
    const mtp__nccl_event5 *e = given;
    *handle = begin_of4(context, e->type, e->rank, &e->u);
    return 0;
}

static int init1(void **context, int *mask)
{
    *context = make_comm(mask);
    return 0;
}

static void name_comm(mtp__nccl_comm *comm, const char *name, uint64_t id, int ranks, int rank)
{
    if (comm == &unknown)
        return;
    comm->id = id;
    comm->ranks = ranks;
    comm->rank = rank;
    snprintf(comm->name, sizeof comm->name, "%.47s", name != NULL ? name : "");
}

static int init4(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks, int rank,
                 mtp__nccl_log *log)
{
    mtp__nccl_comm *comm = make_comm(mask);
    (void)nodes, (void)log;
    name_comm(comm, name, id, ranks, rank);
    *context = comm;
    return 0;
}

static int init5(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                 mtp__nccl_log *log)
{
    return init4(context, mask, name, id, nodes, ranks, rank, log);
}

#define NAME "mtprof"
MTP_API extern const mtp__nccl_profiler1 ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3;
MTP_API extern const mtp__nccl_profiler4 ncclProfiler_v4;
MTP_API extern const mtp__nccl_profiler5 ncclProfiler_v5, ncclProfiler_v6;
const mtp__nccl_profiler1 ncclProfiler_v1 = {NAME, init1, start1, stop, ignore_state, finalize};
const mtp__nccl_profiler1 ncclProfiler_v2 = {NAME, init1, start2, stop, ignore_state, finalize};
const mtp__nccl_profiler1 ncclProfiler_v3 = {NAME, init1, start2, stop, ignore_state, finalize};
const mtp__nccl_profiler4 ncclProfiler_v4 = {NAME, init4, start4, stop, ignore_state, finalize};
const mtp__nccl_profiler5 ncclProfiler_v5 = {NAME, init5, start5, stop, ignore_state, finalize};
const mtp__nccl_profiler5 ncclProfiler_v6 = {NAME, init5, start5, stop, ignore_state, finalize};
