/* base/nccl_abi.h - NCCL's profiler plug-in interface, versions 1 to 6, written from its published layout (RCCL's is the same).
 *
 * NCCL looks in the library that NCCL_PROFILER_PLUGIN names for the object ncclProfiler_v6, then _v5 and so on, and takes the
 * first that it knows. The functions return 0 (ncclSuccess). Only what we read is declared: NCCL allocates the descriptors.
 */
#ifndef MTP_BASE_NCCL_ABI_H
#define MTP_BASE_NCCL_ABI_H
#include <stddef.h>
#include <stdint.h>

/* Types of events: bits of the mask that a plug-in asks for. */
#define MTP__NCCL_GROUP 1u
#define MTP__NCCL_COLL 2u
#define MTP__NCCL_P2P 4u
#define MTP__NCCL_PROXY_OP 8u

typedef struct mtp__nccl_proxy {
    int pid; /* of the process whose operation this is */
    uint8_t channel;
    int peer, steps, chunk, is_send;
} mtp__nccl_proxy;

/* Version 1: functions and types are numbers. */
typedef struct mtp__nccl_event1 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t comm, sequence;
            uint8_t function;
            const void *sent;
            void *received;
            size_t count;
            int root;
            uint8_t datatype;
        } coll;
        struct {
            const char *name;
            uint64_t comm;
            uint8_t function;
            void *buffer;
            uint8_t datatype;
            size_t count;
            int peer;
        } p2p;
        mtp__nccl_proxy proxy;
        char room[128];
    } u;
} mtp__nccl_event1;

/* Versions 2 and 3: they are texts. */
typedef struct mtp__nccl_event2 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t comm, sequence;
            const char *function;
            const void *sent;
            void *received;
            size_t count;
            int root;
            const char *datatype;
        } coll;
        struct {
            const char *name;
            uint64_t comm;
            const char *function;
            void *buffer;
            const char *datatype;
            size_t count;
            int peer;
        } p2p;
        mtp__nccl_proxy proxy;
        char room[128];
    } u;
} mtp__nccl_event2;

/* The part that is the same in versions 4 to 6, where init() says what communicator it is. */
typedef union mtp__nccl_parts4 {
    struct {
        uint64_t sequence;
        const char *function;
        const void *sent;
        void *received;
        size_t count;
        int root;
        const char *datatype;
    } coll;
    struct {
        const char *function;
        void *buffer;
        const char *datatype;
        size_t count;
        int peer;
    } p2p;
    mtp__nccl_proxy proxy;
    char room[128];
} mtp__nccl_parts4;

typedef struct mtp__nccl_event4 {
    uint8_t type;
    void *parent;
    int rank;
    mtp__nccl_parts4 u;
} mtp__nccl_event4;

typedef struct mtp__nccl_event5 { /* and 6 */
    uint64_t type;
    void *parent;
    int rank;
    mtp__nccl_parts4 u;
} mtp__nccl_event5;

typedef struct mtp__nccl_profiler1 { /* to 3 */
    const char *name;
    int (*init)(void **context, int *mask);
    int (*start)(void *context, void **handle, const void *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, const void *args);
    int (*finalize)(void *context);
} mtp__nccl_profiler1;

typedef void mtp__nccl_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);

typedef struct mtp__nccl_profiler4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm, int nodes, int ranks,
                int rank, mtp__nccl_log *log);
    int (*start)(void *context, void **handle, const void *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, const void *args);
    int (*finalize)(void *context);
} mtp__nccl_profiler4;

typedef struct mtp__nccl_profiler5 { /* and 6 */
    const char *name;
    int (*init)(void **context, uint64_t comm, int *mask, const char *comm_name, int nodes, int ranks,
                int rank, mtp__nccl_log *log);
    int (*start)(void *context, void **handle, const void *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, const void *args);
    int (*finalize)(void *context);
} mtp__nccl_profiler5;
#endif
