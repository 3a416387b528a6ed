/* collect/nccl/nccl.h - NCCL's profiler plug-in. Private to this folder. */
#ifndef MTP_COLLECT_NCCL_NCCL_H
#define MTP_COLLECT_NCCL_NCCL_H
#include <mtprof.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MTP__NCCL_NAME = 48,
    MTP__NCCL_ARGS = 640
};

/* A communicator of this process; kept for its life, as NCCL's threads may still report work. */
typedef struct mtp__nccl_comm {
    uint64_t id;               /* 0: unknown, as in versions 1 to 3, whose events tell it */
    int ranks, rank;           /* 0, -1: unknown */
    uint64_t sequence;         /* of collectives; atomic */
    char name[MTP__NCCL_NAME]; /* "": it has none */
} mtp__nccl_comm;

/* A collective, or one message. NULL texts and zeros are what a version does not tell. */
typedef struct mtp__nccl_call {
    const char *function, *datatype, *comm_name;
    uint64_t comm, sequence; /* sequence: NCCL's own, which counts each function by itself */
    size_t count;
    int root, peer, rank; /* -1: none */
    bool is_p2p;
} mtp__nccl_call;

const char *mtp__nccl_function(uint8_t number); /* of version 1 */
const char *mtp__nccl_datatype(uint8_t number);
/* The name of a span: ncclAllReduce; and its args. */
void mtp__nccl_name(const char *function, char name[MTP__NCCL_NAME]);
void mtp__nccl_describe(const mtp__nccl_comm *comm, const mtp__nccl_call *call, uint64_t sequence,
                        char args[MTP__NCCL_ARGS]);
#endif
