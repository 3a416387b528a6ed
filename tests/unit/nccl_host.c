/* Plays NCCL: loads the profiler plug-in that NCCL_PROFILER_PLUGIN names, and drives it through one version, as NCCL of that
 * version would, with the layouts of its published headers. Prints what the plug-in answered. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum {
    GROUP = 1,
    COLL = 2,
    P2P = 4,
    PROXY_OP = 8,
    GROUP_API = 256,
    ROUNDS = 3
};

struct proxy {
    pid_t pid;
    uint8_t channel;
    int peer, steps, chunk, is_send;
};

struct event1 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t comm, sequence;
            uint8_t func;
            void const *sent;
            void *received;
            size_t count;
            int root;
            uint8_t type;
            uint32_t op;
            size_t traffic;
        } coll;
        struct {
            const char *name;
            uint64_t comm;
            uint8_t func;
            void *buffer;
            uint8_t type;
            size_t count;
            int peer;
        } p2p;
        struct proxy proxy;
    };
};

struct event2 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t comm, sequence;
            const char *func;
            void const *sent;
            void *received;
            size_t count;
            int root;
            const char *type;
        } coll;
        struct {
            const char *name;
            uint64_t comm;
            const char *func;
            void *buffer;
            const char *type;
            size_t count;
            int peer;
        } p2p;
        struct proxy proxy;
    };
};

union parts4 {
    struct {
        uint64_t sequence;
        const char *func;
        void const *sent;
        void *received;
        size_t count;
        int root;
        const char *type;
    } coll;
    struct {
        const char *func;
        void *buffer;
        const char *type;
        size_t count;
        int peer;
    } p2p;
    struct proxy proxy;
};

struct event4 {
    uint8_t type;
    void *parent;
    int rank;
    union parts4 u;
};

struct event5 {
    uint64_t type;
    void *parent;
    int rank;
    union parts4 u;
};

struct profiler {
    const char *name;
    void *init;
    int (*start)(void *context, void **handle, void *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *args);
    int (*finalize)(void *context);
};

static const struct profiler *plugin;
static int version;
static void *context;

typedef int init1_fn(void **, int *);
typedef int init4_fn(void **, int *, const char *, uint64_t, int, int, int, void *);
typedef int init5_fn(void **, uint64_t, int *, const char *, int, int, int, void *);

static int init(int *mask)
{
    if (version <= 3)
        return ((init1_fn *)plugin->init)(&context, mask);
    if (version == 4)
        return ((init4_fn *)plugin->init)(&context, mask, "world", 0xabcdef, 1, 4, 2, NULL);
    return ((init5_fn *)plugin->init)(&context, 0xabcdef, mask, "world", 1, 4, 2, NULL);
}

static void fill(uint64_t type, const char *func, uint8_t func1, size_t count, int where, void *event)
{
    if (version == 1) {
        struct event1 *e = event;
        e->type = (uint8_t)type, e->rank = 2;
        if (type == COLL)
            e->coll.name = "world", e->coll.comm = 0xabcdef, e->coll.func = func1, e->coll.count = count,
            e->coll.root = where, e->coll.type = 7;
        else if (type == P2P)
            e->p2p.name = "world", e->p2p.comm = 0xabcdef, e->p2p.func = func1, e->p2p.count = count,
            e->p2p.peer = where, e->p2p.type = 7;
        else if (type == PROXY_OP)
            e->proxy = (struct proxy){77, 3, where, 4, 4096, 1};
    } else if (version <= 3) {
        struct event2 *e = event;
        e->type = (uint8_t)type, e->rank = 2;
        if (type == COLL)
            e->coll.name = "world", e->coll.comm = 0xabcdef, e->coll.func = func, e->coll.count = count,
            e->coll.root = where, e->coll.type = "ncclFloat32";
        else if (type == P2P)
            e->p2p.name = "world", e->p2p.comm = 0xabcdef, e->p2p.func = func, e->p2p.count = count,
            e->p2p.peer = where, e->p2p.type = "ncclFloat32";
        else if (type == PROXY_OP)
            e->proxy = (struct proxy){77, 3, where, 4, 4096, 1};
    } else {
        union parts4 *u = version == 4 ? &((struct event4 *)event)->u : &((struct event5 *)event)->u;
        if (version == 4)
            ((struct event4 *)event)->type = (uint8_t)type, ((struct event4 *)event)->rank = 2;
        else
            ((struct event5 *)event)->type = type, ((struct event5 *)event)->rank = 2;
        if (type == COLL)
            u->coll.func = func, u->coll.count = count, u->coll.root = where, u->coll.type = "ncclFloat32";
        else if (type == P2P)
            u->p2p.func = func, u->p2p.count = count, u->p2p.peer = where, u->p2p.type = "ncclFloat32";
        else if (type == PROXY_OP)
            u->proxy = (struct proxy){77, 3, where, 4, 4096, 1};
    }
}

static void *begin(uint64_t type, const char *func, uint8_t func1, size_t count, int where)
{
    uint64_t event[32] = {0};
    void *handle = (void *)(uintptr_t)0xdead;
    fill(type, func, func1, count, where, event);
    if (plugin->start(context, &handle, event) != 0)
        printf("start failed\n");
    if (handle == (void *)(uintptr_t)0xdead)
        printf("no handle was set\n");
    return handle;
}

static void end(void *handle)
{
    if (plugin->state(handle, 19, NULL) != 0 || plugin->stop(handle) != 0)
        printf("stop failed\n");
}

/* As NCCL's proxy thread: two operations that overlap; and the end of one that another thread began. */
static void *proxy(void *of_other_thread)
{
    void *first = begin(PROXY_OP, NULL, 0, 0, 1), *second = begin(PROXY_OP, NULL, 0, 0, 3);
    end(first);
    end(second);
    end(of_other_thread);
    return NULL;
}

int main(int argc, char **argv)
{
    char symbol[32];
    int mask = 0;
    pthread_t thread;
    version = argc > 1 ? atoi(argv[1]) : 4;
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
    const char *path = getenv("NCCL_PROFILER_PLUGIN");
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    plugin = library != NULL ? dlsym(library, symbol) : NULL;
    if (plugin == NULL) {
        printf("no plug-in: %s\n", dlerror());
        return 1;
    }
    if (init(&mask) != 0 || context == NULL)
        printf("init failed\n");
    printf("%s mask %d\n", plugin->name, mask);
    for (int i = 0; i < ROUNDS; i++) {
        void *group = begin(GROUP, NULL, 0, 0, 0);
        end(begin(COLL, "AllReduce", 4, 1000, -1));
        end(begin(COLL, "AllGather", 2, 10, -1));
        end(begin(P2P, "Send", 6, 7, 3));
        end(group);
    }
    void *late = begin(COLL, "ReduceScatter", 3, 5, -1);
    if (pthread_create(&thread, NULL, proxy, late) == 0)
        pthread_join(thread, NULL);
    end(begin(COLL, "Broadcast", 0, 5, 1)); /* closes the one that ended elsewhere */
    if (begin(GROUP_API, NULL, 0, 0, 0) != NULL && version >= 5)
        printf("an event that was not asked for has a handle\n");
    plugin->finalize(context);
    printf("done\n");
    return 0;
}
