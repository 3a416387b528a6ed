/* collect/nccl/describe.c - what a call of NCCL's says in its span, by the keys of PyTorch's record_param_comms. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "collect/nccl/nccl.h"

/* ncclFunc_t and ncclDataType_t, in the order of their numbers */
static const char *const functions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                        "AllReduce", "SendRecv", "Send",      "Recv"};
static const char *const datatypes[] = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",
                                        "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                        "ncclFloat64", "ncclBfloat16"};

const char *mtp__nccl_function(uint8_t number)
{
    return number < sizeof functions / sizeof *functions ? functions[number] : NULL;
}

const char *mtp__nccl_datatype(uint8_t number)
{
    return number < sizeof datatypes / sizeof *datatypes ? datatypes[number] : NULL;
}

/* Letters and digits: what comes from the program's memory is not trusted to be a name. */
static size_t put_plain(char *at, size_t room, const char *text)
{
    size_t n = 0;
    for (; text != NULL && text[n] != 0 && n + 1 < room; n++)
        at[n] = (text[n] >= '0' && text[n] <= '9') || ((text[n] | 0x20) >= 'a' && (text[n] | 0x20) <= 'z') ||
                        text[n] == '_' || text[n] == '-' || text[n] == '.' || text[n] == ':'
                    ? text[n]
                    : '_';
    at[n] = 0;
    return n;
}

void mtp__nccl_name(const char *function, char name[MTP__NCCL_NAME])
{
    memcpy(name, "nccl", 4);
    put_plain(name + 4, MTP__NCCL_NAME - 4, function != NULL ? function : "?");
}

static const char *name_of(const char *function)
{
    static const char *const known[][2] = {{"AllReduce", "allreduce"},
                                           {"AllGather", "allgather"},
                                           {"Broadcast", "broadcast"},
                                           {"Reduce", "reduce"},
                                           {"ReduceScatter", "reduce_scatter"},
                                           {"Send", "send"},
                                           {"Recv", "recv"},
                                           {"SendRecv", "sendrecv"},
                                           {"AlltoAll", "all_to_all"},
                                           {"AllToAll", "all_to_all"},
                                           {"Gather", "gather"},
                                           {"Scatter", "scatter"}};
    for (size_t i = 0; function != NULL && i < sizeof known / sizeof *known; i++)
        if (strcmp(function, known[i][0]) == 0)
            return known[i][1];
    return "other";
}

typedef struct type_info {
    const char *nccl, *torch;
    int64_t bytes;
} type_info;

static const type_info *find_type(const char *datatype)
{
    static const type_info known[] = {{"ncclInt8", "Char", 1},
                                      {"ncclUint8", "Byte", 1},
                                      {"ncclInt32", "Int", 4},
                                      {"ncclUint32", "UInt32", 4},
                                      {"ncclInt64", "Long", 8},
                                      {"ncclUint64", "UInt64", 8},
                                      {"ncclFloat16", "Half", 2},
                                      {"ncclFloat32", "Float", 4},
                                      {"ncclFloat64", "Double", 8},
                                      {"ncclBfloat16", "BFloat16", 2},
                                      {"ncclFloat8e4m3", "Float8_e4m3fn", 1},
                                      {"ncclFloat8e5m2", "Float8_e5m2", 1}};
    for (size_t i = 0; datatype != NULL && i < sizeof known / sizeof *known; i++)
        if (strcmp(datatype, known[i].nccl) == 0)
            return &known[i];
    return NULL;
}

/* NCCL's count is of what each rank gives, or gets, whichever is less. -1: unknown. */
static void find_amounts(const mtp__nccl_call *call, const char *what, int64_t ranks, int64_t *in,
                         int64_t *out)
{
    int64_t count = (int64_t)call->count, all = ranks > 0 ? count * ranks : -1;
    *in = *out = count;
    if (strcmp(what, "allgather") == 0)
        *out = all;
    else if (strcmp(what, "reduce_scatter") == 0)
        *in = all;
    else if (strcmp(what, "all_to_all") == 0)
        *in = *out = all;
    else if (strcmp(what, "send") == 0)
        *out = 0;
    else if (strcmp(what, "recv") == 0)
        *in = 0;
}

static size_t put_side(char *at, size_t room, const char *side, int64_t elements, const type_info *type)
{
    if (elements < 0)
        return 0;
    size_t n = (size_t)snprintf(at, room, ", \"%s msg nelems\": %" PRId64, side, elements);
    if (type != NULL)
        n += (size_t)snprintf(at + n, room - n, ", \"%s msg bytes\": %" PRId64, side, elements * type->bytes);
    return n;
}

void mtp__nccl_describe(const mtp__nccl_comm *comm, const mtp__nccl_call *call, uint64_t sequence,
                        char args[MTP__NCCL_ARGS])
{
    size_t room = MTP__NCCL_ARGS, n;
    char name[MTP__NCCL_NAME];
    const char *what = name_of(call->function), *given = comm->name[0] != 0 ? comm->name : call->comm_name;
    uint64_t id = comm->id != 0 ? comm->id : call->comm;
    int64_t in, out;
    const type_info *type = find_type(call->datatype);
    find_amounts(call, what, comm->ranks, &in, &out);
    n = (size_t)snprintf(
        args, room, MTP_ARGS_MEMBERS "\"Collective name\": \"%s\", \"Process Group Name\": \"0x%" PRIx64 "\"",
        what, id);
    if (put_plain(name, sizeof name, given) > 0)
        n += (size_t)snprintf(args + n, room - n, ", \"Process Group Description\": \"%s\"", name);
    if (comm->ranks > 0)
        n += (size_t)snprintf(args + n, room - n, ", \"Group size\": %d", comm->ranks);
    if (sequence > 0)
        n += (size_t)snprintf(args + n, room - n, ", \"Seq\": %" PRIu64, sequence);
    n += (size_t)snprintf(args + n, room - n, ", \"Group rank\": %d",
                          comm->rank >= 0 ? comm->rank : call->rank);
    if (call->peer >= 0) /* ranks in the group: NCCL knows no others */
        n += (size_t)snprintf(args + n, room - n, ", \"Peer in group\": %d", call->peer);
    else if (call->root >= 0)
        n += (size_t)snprintf(args + n, room - n, ", \"Root in group\": %d", call->root);
    n += put_side(args + n, room - n, "In", in, type);
    n += put_side(args + n, room - n, "Out", out, type);
    put_plain(name, sizeof name, type != NULL ? type->torch : call->datatype);
    snprintf(args + n, room - n, ", \"dtype\": \"%s\", \"Is asynchronized op\": true", name);
}
