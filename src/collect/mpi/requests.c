/* collect/mpi/requests.c - what is under way: requests and the calls that made them, so that waits can say what they waited
 * for. See mpi.h.
 *
 * Threads: `lock` guards the table. Sends that complete at once may share a handle: the last one counts.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "collect/mpi/mpi.h"

enum {
    BUCKETS = 1024
};

static struct {
    pthread_mutex_t lock;
    mtp__mpi_pending *bucket[BUCKETS], *spare;
    uint64_t last;
    size_t count; /* relaxed outside the lock */
} requests = {.lock = PTHREAD_MUTEX_INITIALIZER};

static mtp__mpi_pending **bucket_of(mtp__word handle)
{
    return &requests.bucket[(handle ^ handle >> 5 ^ handle >> 12 ^ handle >> 20) % BUCKETS];
}

static mtp__mpi_pending **find(mtp__word handle)
{
    mtp__mpi_pending **at = bucket_of(handle);
    while (*at != NULL && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

bool mtp__mpi_requests_any(void)
{
    return __atomic_load_n(&requests.count, __ATOMIC_RELAXED) > 0;
}

mtp__mpi_pending *mtp__mpi_request_new(void)
{
    pthread_mutex_lock(&requests.lock);
    mtp__mpi_pending *p = requests.spare;
    if (p != NULL)
        requests.spare = p->next;
    else if ((p = malloc(sizeof *p)) != NULL)
        p->id = ++requests.last;
    pthread_mutex_unlock(&requests.lock);
    return p;
}

static void give_back(mtp__mpi_pending *p)
{
    p->next = requests.spare;
    requests.spare = p;
}

/* A request of before that has the same handle has ended in a way that we did not see. */
void mtp__mpi_request_add(mtp__mpi_pending *p, mtp__word handle, const mtp__mpi_text *args)
{
    p->handle = handle;
    p->sequence = args->sequence;
    p->n = args->n < sizeof p->args ? args->n : 0;
    memcpy(p->args, args->at, p->n);
    pthread_mutex_lock(&requests.lock);
    if (handle == mtp__mpi.request_null) {
        give_back(p);
    } else {
        mtp__mpi_pending **at = find(handle), *before = *at;
        p->next = before != NULL ? before->next : NULL;
        *at = p;
        if (before != NULL)
            give_back(before);
        else
            __atomic_fetch_add(&requests.count, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&requests.lock);
}

bool mtp__mpi_request_get(mtp__word handle, mtp__mpi_pending *copy)
{
    pthread_mutex_lock(&requests.lock);
    const mtp__mpi_pending *p = *find(handle);
    if (p != NULL)
        memcpy(copy, p, offsetof(mtp__mpi_pending, args) + p->n);
    pthread_mutex_unlock(&requests.lock);
    return p != NULL;
}

static void drop(mtp__word handle, bool always)
{
    pthread_mutex_lock(&requests.lock);
    mtp__mpi_pending **at = find(handle), *p = *at;
    if (p != NULL && (always || !p->is_persistent)) {
        *at = p->next;
        give_back(p);
        __atomic_fetch_sub(&requests.count, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&requests.lock);
}

void mtp__mpi_request_done(mtp__word handle)
{
    drop(handle, false);
}

void mtp__mpi_request_gone(mtp__word handle)
{
    drop(handle, true);
}
