/* record/registry.c - see registry.h. Lock ranks: 1 profile, 2 registry, 3 intern, 4 control, 5 pool. */
#define _GNU_SOURCE
#include "record/registry.h"
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/rank.h"
#include "record/details.h"
#include "record/recorder.h"

#define REST_LIMIT_NS 1000000000u

_Thread_local mtp__writer mtp__self __attribute__((tls_model("initial-exec")));
mtp__gate_page mtp__gate;
MTP_API uint32_t mtp__recording;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* rank 2 */
static mtp__thread *threads;                             /* owned list; under lock */
static uint32_t thread_count, last_stream;               /* under lock */
static uint64_t last_retired;                            /* under lock */
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int init_error;
static bool have_membarrier;
static void *barrier_page; /* without membarrier: unmapping rights of a page interrupts every core */

static void thread_ended(void *arg);

static void init(void)
{
    init_error = pthread_key_create(&key, thread_ended);
    mtp__rank_set(&lock, MTP__RANK_REGISTRY, NULL);
    have_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    if (!have_membarrier) {
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        barrier_page = page != MAP_FAILED ? page : NULL;
    }
    madvise(&mtp__gate, sizeof mtp__gate, MADV_WIPEONFORK);
    atomic_store(&mtp__gate.ours, 1);
    mtp__recorder_fork_init();
}

mtp_status mtp__registry_init(void)
{
    pthread_once(&once, init);
    if (init_error != 0)
        return MTP_FAIL(MTP_E_NOMEM, "no thread key is left: %s", mtp__reason(init_error));
    return MTP_OK;
}

void mtp__registry_lock(void)
{
    pthread_mutex_lock(&lock);
}

void mtp__registry_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

uint32_t mtp__registry_count(void)
{
    uint32_t before = mtp__writer_hold();
    pthread_mutex_lock(&lock);
    uint32_t count = thread_count;
    pthread_mutex_unlock(&lock);
    mtp__writer_release(before);
    return count;
}

mtp_status mtp__registry_join(mtp__writer *w)
{
    MTP__TESTPOINT(THREAD_JOIN);
    mtp__thread *t = mtp__page_calloc(1, sizeof *t);
    if (t == NULL || pthread_setspecific(key, w) != 0) {
        mtp__page_free(t);
        return MTP_E_NOMEM;
    }
    t->writer = w;
    t->tid = (int32_t)syscall(SYS_gettid);
    pthread_mutex_lock(&lock);
    t->stream = ++last_stream;
    t->quiet = last_retired;
    t->next = threads;
    if (threads != NULL)
        threads->prev = t;
    threads = t;
    thread_count++;
    pthread_mutex_unlock(&lock);
    w->thread = t;
    return MTP_OK;
}

static void forget(mtp__thread *t)
{
    if (t->prev != NULL)
        t->prev->next = t->next;
    else
        threads = t->next;
    if (t->next != NULL)
        t->next->prev = t->prev;
    thread_count--;
}

/* Key destructor: what the thread wrote goes to the recorder. Later records of this thread (of destructors that run
 * after this one) are counted as dropped: its storage is about to go. */
static void thread_ended(void *arg)
{
    mtp__writer *w = arg;
    mtp__thread *t = w->thread;
    if (t == NULL)
        return;
    atomic_store_explicit(&w->busy, 1, MTP__BUSY_ORDER); /* handlers are refused from here on */
    atomic_signal_fence(memory_order_seq_cst);
    pthread_mutex_lock(&lock);
    mtp__recorder_thread_ends(t);
    forget(t);
    pthread_mutex_unlock(&lock);
    w->thread = NULL;
    w->gone = 1;
    mtp__writer_leave(w);
    mtp__details_cache_free(t->cache);
    mtp__page_free(t);
}

void mtp__registry_each(mtp__registry_visitor *fn, void *user)
{
    for (mtp__thread *t = threads; t != NULL; t = t->next)
        fn(user, t);
}

void mtp__registry_barrier(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (have_membarrier) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    } else if (barrier_page != NULL) {
        mprotect(barrier_page, 4096, PROT_READ | PROT_WRITE);
        *(volatile char *)barrier_page = 1; /* it must be there to be taken away */
        mprotect(barrier_page, 4096, PROT_READ);
    }
    atomic_thread_fence(memory_order_seq_cst);
}

uint64_t mtp__registry_retire(void)
{
    mtp__registry_barrier();
    return ++last_retired;
}

bool mtp__registry_rested_since(uint64_t retired, const mtp__thread *self)
{
    bool all = true;
    for (mtp__thread *t = threads; t != NULL; t = t->next) {
        if (t->quiet < last_retired &&
            (t == self ||
             atomic_load_explicit(&t->writer->busy, memory_order_acquire) == 0)) /* pairs: leave */
            t->quiet = last_retired;
        all &= t->quiet >= retired;
    }
    return all;
}

static uint64_t rest; /* under lock: counts the times that all were asked to come to rest */

/* A thread that was once seen out of a record is at rest: it may look in again, and finds the gate shut. */
static uint32_t busy_count(void)
{
    uint32_t busy = 0;
    for (mtp__thread *t = threads; t != NULL; t = t->next) {
        if (t->rested != rest &&
            atomic_load_explicit(&t->writer->busy, memory_order_acquire) == 0) /* pairs: leave, busy */
            t->rested = rest;
        t->stuck = t->rested != rest;
        busy += t->stuck;
    }
    return busy;
}

uint32_t mtp__registry_rest_and_lock(void)
{
    mtp__registry_barrier();
    uint64_t until = mtp_now_ns() + REST_LIMIT_NS;
    pthread_mutex_lock(&lock);
    rest++;
    pthread_mutex_unlock(&lock);
    for (;;) {
        pthread_mutex_lock(&lock);
        uint32_t busy = busy_count();
        if (busy == 0 || mtp_now_ns() > until)
            return busy;
        pthread_mutex_unlock(&lock); /* the busy one may be on its way to this very lock */
        sched_yield();
    }
}

void mtp__registry_forked(void)
{
    mtp__thread *self = mtp__self.thread, *t = threads;
    while (t != NULL) {
        mtp__thread *next = t->next;
        if (t != self) {
            mtp__details_cache_free(t->cache);
            mtp__page_free(t);
        }
        t = next;
    }
    threads = self;
    thread_count = self != NULL;
    if (self != NULL) {
        self->next = self->prev = NULL;
        self->tid = (int32_t)syscall(SYS_gettid);
        self->joined = self->seen = self->told = 0;
        self->stuck = false;
    }
    mtp__self.cur = mtp__self.end = NULL;
    mtp__self.chunk = NULL;
    mtp__self.token = 0;
    pthread_mutex_unlock(&lock); /* taken before the fork */
    atomic_store(&mtp__self.busy, 0);
}
