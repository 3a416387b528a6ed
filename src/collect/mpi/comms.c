/* collect/mpi/comms.c - communicators: their names, members and counts of collectives: see mpi.h.
 *
 * A name must be the same on all ranks of a communicator, and no message is sent for it. Communicators are made by calls that
 * all ranks of another one make in the same order, so it is the name of that one and the number of the call:
 * MPI_COMM_WORLD/2.split:1 is what the second such call made of the ranks of colour 1.
 *
 * Threads: `lock` guards the table. A communicator is used by calls only while it exists, so what is found stays valid;
 * records of those that are gone are used again.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "collect/mpi/mpi.h"

enum {
    BUCKETS = 256
};

static struct {
    pthread_mutex_t lock;
    mtp__comm *bucket[BUCKETS];
    mtp__comm *spare;
    mtp__word world_group; /* of MPI_COMM_WORLD; 0: not asked for yet */
} comms = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread struct {
    mtp__word handle;
    mtp__comm *comm;
    uint64_t generation;
} last __attribute__((tls_model("initial-exec")));
static uint64_t generation = 1; /* relaxed: changes when a communicator goes */

void mtp__comms_hold(void)
{
    pthread_mutex_lock(&comms.lock);
}

void mtp__comms_release(void)
{
    pthread_mutex_unlock(&comms.lock);
}

static mtp__comm **bucket_of(mtp__word handle)
{
    return &comms.bucket[(handle ^ handle >> 8 ^ handle >> 16) % BUCKETS];
}

/* The global ranks of a group. NULL: they are what they are, or cannot be known. */
static int *global_ranks(mtp__word group, int count, bool *good)
{
    int *both = malloc(2 * (size_t)(count > 0 ? count : 1) * sizeof *both);
    *good = both != NULL;
    if (both == NULL)
        return NULL;
    int *own = both + count;
    for (int i = 0; i < count; i++)
        own[i] = i;
    if (mtp__pmpi.Group_translate_ranks(group, count, own, comms.world_group, both) != 0)
        for (int i = 0; i < count; i++)
            both[i] = -1;
    for (int i = 0; i < count; i++)
        both[i] = both[i] >= 0 ? both[i] : -1; /* of another world */
    return both;
}

static int *ranks_of(mtp__word handle, bool remote, int count)
{
    mtp__word group = 0;
    bool good;
    int failed = remote ? mtp__pmpi.Comm_remote_group(handle, &group) : mtp__pmpi.Comm_group(handle, &group);
    if (failed != 0)
        return NULL;
    int *ranks = global_ranks(group, count, &good);
    mtp__pmpi.Group_free(&group);
    return ranks;
}

static int lowest(const int *ranks, int count)
{
    int least = count > 0 ? ranks[0] : -1;
    for (int i = 1; i < count; i++)
        least = ranks[i] < least ? ranks[i] : least;
    return least;
}

/* "[0, 1, 2, ...]" */
static size_t put_ranks(char *at, size_t room, const int *ranks, int count)
{
    size_t n = (size_t)snprintf(at, room, "[");
    for (int i = 0; i < count && n + 24 < room; i++) {
        if (i == MTP__COMM_RANKS) {
            n += (size_t)snprintf(at + n, room - n, ", ...");
            break;
        }
        n += (size_t)snprintf(at + n, room - n, "%s%d", i > 0 ? ", " : "", ranks != NULL ? ranks[i] : i);
    }
    return n + (size_t)snprintf(at + n, room - n, "]");
}

static void write_prefix(mtp__comm *c, const int *members, int count)
{
    char *at = c->prefix;
    size_t room = sizeof c->prefix;
    size_t n =
        (size_t)snprintf(at, room, "\"Process Group Name\": \"%s\", \"Process Group Ranks\": \"", c->name);
    n += put_ranks(at + n, room - n - 80, members, count);
    n += (size_t)snprintf(at + n, room - n, "\", \"Group size\": %d, %s", count,
                          c->remote >= 0 ? "\"Intercommunicator\": true, " : "");
    c->prefix_length = n;
}

/* Both groups of an intercommunicator, the one with the lowest rank first: in the same order on all ranks. */
static int *join(const mtp__comm *c, int *own)
{
    size_t mine = (size_t)c->size, theirs = (size_t)c->remote;
    int *all = own != NULL && c->ranks != NULL ? malloc((mine + theirs + 1) * sizeof *all) : NULL;
    if (all == NULL)
        return NULL;
    bool first = lowest(own, c->size) < lowest(c->ranks, c->remote);
    memcpy(all + (first ? 0 : theirs), own, mine * sizeof *all);
    memcpy(all + (first ? mine : 0), c->ranks, theirs * sizeof *all);
    return all;
}

static bool describe(mtp__comm *c, mtp__word handle)
{
    int is_inter = 0;
    *c = (mtp__comm){.handle = handle, .remote = -1};
    if (mtp__pmpi.Comm_test_inter(handle, &is_inter) != 0 || mtp__pmpi.Comm_rank(handle, &c->rank) != 0 ||
        mtp__pmpi.Comm_size(handle, &c->size) != 0)
        return false;
    if (is_inter && mtp__pmpi.Comm_remote_size(handle, &c->remote) != 0)
        return false;
    if (comms.world_group == 0)
        mtp__pmpi.Comm_group(mtp__mpi.world, &comms.world_group);
    if (handle != mtp__mpi.world)
        c->ranks = ranks_of(handle, is_inter, is_inter ? c->remote : c->size);
    return true;
}

static void name_it(mtp__comm *c, const char *name)
{
    snprintf(c->name, sizeof c->name, "%s", name);
    if (c->remote < 0) {
        write_prefix(c, c->ranks, c->size);
        return;
    }
    int *own = ranks_of(c->handle, false, c->size), *all = join(c, own);
    write_prefix(c, all, c->size + c->remote);
    free(all);
    free(own);
}

/* With the lock. */
static mtp__comm *find(mtp__word handle)
{
    mtp__comm *c = *bucket_of(handle);
    while (c != NULL && c->handle != handle)
        c = c->next;
    return c;
}

static mtp__comm *add(mtp__word handle, const char *name)
{
    mtp__comm *c = comms.spare;
    if (c != NULL)
        comms.spare = c->next;
    else if ((c = malloc(sizeof *c)) == NULL)
        return NULL;
    if (!describe(c, handle)) {
        c->next = comms.spare;
        comms.spare = c;
        return NULL;
    }
    name_it(c, name);
    c->next = *bucket_of(handle);
    *bucket_of(handle) = c;
    return c;
}

static void remove_it(mtp__word handle)
{
    for (mtp__comm **at = bucket_of(handle); *at != NULL; at = &(*at)->next) {
        mtp__comm *c = *at;
        if (c->handle != handle)
            continue;
        *at = c->next;
        free(c->ranks);
        c->ranks = NULL;
        c->size = c->remote = 0;
        c->next = comms.spare;
        comms.spare = c;
        __atomic_fetch_add(&generation, 1, __ATOMIC_RELAXED);
        return;
    }
}

/* One that was made in a way we do not see: what the program calls it, if it does. */
static void name_of_stranger(mtp__word handle, char *name, size_t room)
{
    char given[512] = "";
    int length = 0, rank = 0;
    if (handle == mtp__mpi.world) {
        snprintf(name, room, "MPI_COMM_WORLD");
    } else if (mtp__pmpi.Comm_get_name(handle, given, &length) == 0 && strcmp(given, "MPI_COMM_SELF") == 0) {
        mtp__pmpi.Comm_rank(mtp__mpi.world, &rank);
        snprintf(name, room, "MPI_COMM_SELF:%d", rank);
    } else {
        snprintf(name, room, "unknown");
    }
}

mtp__comm *mtp__comm_find(mtp__word handle)
{
    char name[MTP__COMM_NAME];
    uint64_t now = __atomic_load_n(&generation, __ATOMIC_RELAXED);
    if (last.comm != NULL && last.handle == handle && last.generation == now)
        return last.comm;
    if (handle == mtp__mpi.comm_null)
        return NULL;
    pthread_mutex_lock(&comms.lock);
    mtp__comm *c = find(handle);
    if (c == NULL) {
        name_of_stranger(handle, name, sizeof name);
        c = add(handle, name);
    }
    pthread_mutex_unlock(&comms.lock);
    last.handle = handle, last.comm = c, last.generation = now;
    return c;
}

uint64_t mtp__comm_next(mtp__comm *c)
{
    return c != NULL ? __atomic_add_fetch(&c->sequence, 1, __ATOMIC_RELAXED) : 0;
}

uint64_t mtp__comm_making(mtp__comm *parent)
{
    return parent != NULL ? __atomic_add_fetch(&parent->made, 1, __ATOMIC_RELAXED) : 0;
}

int mtp__comm_global(const mtp__comm *c, int peer)
{
    int count = c->remote >= 0 ? c->remote : c->size;
    if (peer < 0 || peer >= count)
        return -1;
    return c->ranks != NULL ? c->ranks[peer] : peer;
}

/* Of disjoint groups, which one this is: the one of that rank. */
static void put_lowest(const mtp__comm *c, char *name, size_t room)
{
    size_t n = strlen(name);
    if (c->remote >= 0) {
        int *own = ranks_of(c->handle, false, c->size);
        int mine = own != NULL ? lowest(own, c->size) : -1,
            theirs = c->ranks != NULL ? lowest(c->ranks, c->remote) : -1;
        snprintf(name + n, room - n, "@%d-%d", mine < theirs ? mine : theirs, mine < theirs ? theirs : mine);
        free(own);
        return;
    }
    int least = c->ranks != NULL ? lowest(c->ranks, c->size) : 0;
    snprintf(name + n, room - n, "@%d", least);
}

/* Calls that only the members make (MPI_Comm_create_group) are told apart by those of their name that came before. */
static void make_unique(char *name, size_t room)
{
    size_t n = strlen(name);
    for (int k = 2;; k++) {
        bool taken = false;
        for (size_t i = 0; i < BUCKETS && !taken; i++)
            for (const mtp__comm *c = comms.bucket[i]; c != NULL && !taken; c = c->next)
                taken = strcmp(c->name, name) == 0;
        if (!taken || k == 1000)
            return;
        snprintf(name + n, room - n, "#%d", k);
    }
}

void mtp__comm_made(mtp__comm *parent, uint64_t number, const char *how, bool disjoint, mtp__word handle)
{
    char name[MTP__COMM_NAME], at[24] = "";
    if (handle == mtp__mpi.comm_null)
        return;
    if (number > 0)
        snprintf(at, sizeof at, "%llu.", (unsigned long long)number);
    pthread_mutex_lock(&comms.lock);
    remove_it(handle); /* one of before, which went in a way that we did not see */
    mtp__comm *c = add(handle, "");
    if (c != NULL && c->remote >= 0) /* the two groups have different parents */
        snprintf(name, sizeof name, "%.40s", how);
    else
        snprintf(name, sizeof name, "%.50s/%s%.28s", parent != NULL ? parent->name : "?", at, how);
    if (c != NULL && disjoint)
        put_lowest(c, name, sizeof name);
    if (c != NULL && number == 0)
        make_unique(name, sizeof name - 4);
    if (c != NULL)
        name_it(c, name);
    pthread_mutex_unlock(&comms.lock);
}

void mtp__comm_gone(mtp__word handle)
{
    pthread_mutex_lock(&comms.lock);
    if (handle != mtp__mpi.world)
        remove_it(handle);
    pthread_mutex_unlock(&comms.lock);
}
