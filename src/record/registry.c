/* record/registry.c - see registry.h. Lock ranks: 1 profile, 2 registry, 3 intern, 4 control, 5 pool. */
#define _GNU_SOURCE
#include "record/registry.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "base/error.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/rank.h"
#include "record/details.h"
#include "record/recorder.h"

#define MS ((uint64_t)1000000)
#define REST_LIMIT_NS (1000 * MS)        /* for threads that could leave their record but do not */
#define REST_STARVED_NS (20 * 1000 * MS) /* for those that are runnable but not scheduled */
#define REST_LOOK_NS (10 * MS) /* the most that counts between two checks: we were not running either */
#define REST_NAP_NS (MS / 5)
#define RAN_ENOUGH_NS (20 * MS) /* a record takes less than a thousandth of that */

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
#if defined(__x86_64__)
#define MTP__TLB_IS_BARRIER 1
#else /* arm64 tells the other cores' TLBs without an interrupt */
#define MTP__TLB_IS_BARRIER 0
#endif

static void thread_ended(void *arg);

static void init(void)
{
    init_error = pthread_key_create(&key, thread_ended);
    mtp__rank_set(&lock, MTP__RANK_REGISTRY, NULL);
    have_membarrier = mtp__barrier_register();
    madvise(&mtp__gate, sizeof mtp__gate, MADV_WIPEONFORK);
    atomic_store(&mtp__gate.ours, 1);
    mtp__recorder_fork_init();
    mtp__profile_exit_init();
}

mtp_status mtp__registry_init(void)
{
    pthread_once(&once, init);
    if (init_error != 0)
        return MTP_FAIL(MTP_E_NOMEM, "no thread key is left: %s", mtp__reason(init_error));
    return MTP_OK;
}

void mtp__install_handlers(void)
{
    mtp__registry_init();
}

void mtp__registry_lock(void)
{
    mtp__guard_enter();
    pthread_mutex_lock(&lock);
}

void mtp__registry_unlock(void)
{
    pthread_mutex_unlock(&lock);
    mtp__guard_leave();
}

uint32_t mtp__registry_count(void)
{
    mtp__hold before = mtp__writer_hold();
    mtp__registry_lock();
    uint32_t count = thread_count;
    mtp__registry_unlock();
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
    t->first = t->tid == (int32_t)getpid();
    mtp__registry_lock();
    t->stream = ++last_stream;
    t->quiet = last_retired;
    t->next = threads;
    if (threads != NULL)
        threads->prev = t;
    threads = t;
    thread_count++;
    mtp__registry_unlock();
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

/* Key destructor: settles the thread with the recorder, in the last round of destructors but one, so that what
 * others record in theirs is kept. Not in the last: there the runtimes of sanitizers end. Later records of this
 * thread are counted as dropped: its storage is about to be freed. */
static void thread_ended(void *arg)
{
    mtp__writer *w = arg;
    mtp__thread *t = w->thread;
    if (t == NULL)
        return;
    if (++t->rounds < PTHREAD_DESTRUCTOR_ITERATIONS - 1 && pthread_setspecific(key, w) == 0)
        return;
    if (atomic_load_explicit(&w->busy, memory_order_relaxed) != 0)
        mtp__writer_left(w, MTP__FRAME_NONE); /* its frames are gone */
    /* Handlers and callbacks are refused from here on. */
    atomic_store_explicit(&w->busy, MTP__BUSY_ANYWHERE, MTP__BUSY_ORDER);
    atomic_signal_fence(memory_order_seq_cst);
    mtp__registry_lock();
    mtp__recorder_thread_ends(t);
    forget(t);
    w->thread = NULL;
    w->gone = 1;
    mtp__registry_unlock();
    mtp__writer_leave(w);
    mtp__thread_name_forget(t->tid);
    mtp__details_cache_free(t->cache);
    mtp__page_free(t);
}

void mtp__registry_each(mtp__registry_visitor *fn, void *user)
{
    for (mtp__thread *t = threads; t != NULL; t = t->next)
        fn(user, t);
}

/* Without membarrier, on x86-64: write-protecting a page interrupts every core. A page of its own for each call, since
 * several threads may be here at once. */
static void barrier_by_page(void)
{
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    *(volatile char *)page = 1; /* only a present page causes the interrupt */
    mprotect(page, 4096, PROT_READ);
    munmap(page, 4096);
}

void mtp__registry_barrier(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (have_membarrier)
        mtp__barrier_all();
    else if (MTP__TLB_IS_BARRIER)
        barrier_by_page();
    atomic_thread_fence(memory_order_seq_cst);
}

bool mtp__registry_is_fenced(void)
{
    return !have_membarrier && !MTP__TLB_IS_BARRIER;
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
            (t == self || atomic_load(&t->parked) ||                             /* pairs: epoch.c, parked */
             atomic_load_explicit(&t->writer->busy, memory_order_acquire) == 0)) /* pairs: leave */
            t->quiet = last_retired;
        all &= t->quiet >= retired;
    }
    return all;
}

static uint64_t rest; /* under lock: number of calls of rest_and_lock() */

/* The CPU time of another of our threads; 0: unknown. */
static uint64_t cpu_ns(const mtp__thread *t)
{
    struct timespec now;
    clockid_t id = (clockid_t)((~(uint32_t)t->tid << 3) | 6u); /* as pthread_getcpuclockid does */
    return clock_gettime(id, &now) == 0 ? (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec : 0;
}

/* A thread that was seen outside a record is at rest: if it enters again, it finds the gate closed. */
static uint32_t busy_count(bool first)
{
    uint32_t busy = 0;
    for (mtp__thread *t = threads; t != NULL; t = t->next) {
        if (t->rested != rest &&
            atomic_load_explicit(&t->writer->busy, memory_order_acquire) == 0) /* pairs: leave, busy */
            t->rested = rest;
        t->stuck = t->rested != rest;
        if (t->stuck && first)
            t->rest_cpu = cpu_ns(t);
        busy += t->stuck;
    }
    return busy;
}

/* Ready to run, or waiting for a disk. */
static bool wants_to_run(const mtp__thread *t)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)t->tid);
    int fd = mtp__open(path, O_RDONLY, 0);
    ssize_t n = fd >= 0 ? mtp__pread(fd, text, sizeof text - 1, 0) : 0;
    mtp__close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *name_end = strrchr(text, ')'); /* "tid (name) state ..."; a name has at most 15 bytes */
    return name_end != NULL && name_end[1] == ' ' && (name_end[2] == 'R' || name_end[2] == 'D');
}

/* Has any busy thread had no chance to leave? */
static bool any_starved(void)
{
    for (mtp__thread *t = threads; t != NULL; t = t->next)
        if (t->stuck && cpu_ns(t) - t->rest_cpu < RAN_ENOUGH_NS && wants_to_run(t))
            return true;
    return false;
}

/* Waits between two checks; returns for how long. */
static uint64_t doze(uint32_t looks)
{
    MTP__UNCANCELLED;
    const struct timespec nap = {0, REST_NAP_NS};
    if (looks < 100)
        sched_yield();
    else
        nanosleep(&nap, NULL);
    return looks < 100 ? 0 : REST_NAP_NS;
}

/* A pause of the whole process (a debugger, SIGSTOP, a virtual machine) does not count: each check counts at
 * most REST_LOOK_NS, and at least the nap in case the clock does not advance. */
uint32_t mtp__registry_rest_and_lock(void)
{
    mtp__registry_barrier();
    mtp__registry_lock();
    rest++;
    mtp__registry_unlock();
    uint64_t waited = 0, last = mtp_now_ns();
    for (uint32_t looks = 0;; looks++) {
        mtp__registry_lock();
        uint32_t busy = busy_count(looks == 0);
        if (busy == 0 || waited > REST_STARVED_NS || (waited > REST_LIMIT_NS && !any_starved()))
            return busy;
        mtp__registry_unlock(); /* the busy thread may be waiting for this very lock */
        uint64_t nap = doze(looks), now = mtp_now_ns(), passed = now - last;
        passed = passed > REST_LOOK_NS ? REST_LOOK_NS : passed;
        waited += passed > nap ? passed : nap;
        last = now;
    }
}

/* The record that was being written at the fork continues in the child. Its chunk was not inherited, so it
 * gets scratch memory to finish in. */
static void lend_chunk(const mtp__writer *w)
{
    const uintptr_t page = 4096;
    uintptr_t from = (uintptr_t)w->chunk & ~(page - 1), to = ((uintptr_t)w->end + page - 1) & ~(page - 1);
    if (w->chunk != NULL && to > from)
        (void)mmap((char *)NULL + from, to - from, PROT_READ | PROT_WRITE, /* if this fails, nothing helps */
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

void mtp__registry_forked(bool inside)
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
        self->joined = self->counted = self->named = 0;
        self->stuck = inside;
    }
    if (inside) {
        lend_chunk(&mtp__self);
    } else {
        mtp__self.cur = mtp__self.end = NULL;
        mtp__self.chunk = NULL;
        mtp__self.recorder = NULL;
        mtp__self.token = 0;
    }
    mtp__registry_unlock(); /* taken before the fork */
}
