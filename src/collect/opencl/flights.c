/* collect/opencl/flights.c - events of commands that may still be in flight.
 *
 * Each thread keeps its own in a list of pieces: only that thread adds, without a lock, and the holder of
 * `air.lock` removes. Only memory bounds the list: a driver keeps far more per command. Commands of a queue
 * usually end in order, so the first unfinished one blocks the rest of its queue; at the end of a cycle each
 * is checked.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "collect/opencl/layer.h"

#define PIECE 512
#define CLOCK_EVERY 16 /* commands per thread */
#define TELL_CLOCK_NS 500000000u
#define GIVE_UP_NS 2000000000u /* on commands still in flight when a cycle ends */
#define BLOCKED_MAX 16
#define AHEAD 4

typedef struct piece {
    mtp__flight at[PIECE];
    uint32_t added;      /* release by the owner thread, acquire by the harvest */
    uint32_t first;      /* not landed; harvest only */
    struct piece *after; /* release and acquire, like `added` */
} piece;

struct mtp__ring {
    mtp__last last;
    uint32_t turn;
    bool taken;             /* by a live thread; threads.lock */
    piece *tail;            /* owner thread only */
    piece *head;            /* owned, with its successors; harvest only */
    uint64_t added;         /* owner thread only */
    uint64_t sweep_at;      /* owner thread only: value of `added` at which all queues are checked */
    uint64_t landed;        /* written by the harvest; atomic */
    struct mtp__ring *next; /* set once */
};

static struct {
    pthread_mutex_t lock; /* rank: first; only the end of a cycle and a fork wait for it */
    uint64_t lost, timeless, start_ns, start_ticks;
    bool recorded; /* a cycle has ended */
    struct {       /* the most precise reading of a device's clock since the last one reported */
        uint64_t device_ns, middle, width, told_ns;
    } clock[MTP__DEVICES_MAX];
    bool clock_read;
} air = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A driver may call the program with the driver's locks held, and the program may call us: nothing may wait
 * for a driver while holding this lock. */
static struct {
    pthread_mutex_t lock; /* rank: before spares.lock */
    mtp__ring *rings; /* owned, never freed; release, acquire. When a thread ends, another reuses its ring */
    pthread_key_t key;
} threads = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct {
    pthread_mutex_t lock; /* rank: leaf */
    piece *first;         /* owned, with its successors */
} spares = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread __attribute__((tls_model("initial-exec"))) mtp__ring *mine;
static __thread __attribute__((tls_model("initial-exec"))) bool harvesting;

/* ----------------------------------------------------------------------------------------------- the threads' */

/* Pieces are reused: a large malloc or free makes the allocator consolidate, at the program's expense. */
static piece *piece_create(void)
{
    pthread_mutex_lock(&spares.lock);
    piece *p = spares.first;
    if (p != NULL)
        spares.first = p->after;
    pthread_mutex_unlock(&spares.lock);
    if (p == NULL)
        p = malloc(sizeof *p);
    if (p != NULL) {
        p->added = p->first = 0;
        p->after = NULL;
    }
    return p;
}

static void piece_destroy(piece *p)
{
    pthread_mutex_lock(&spares.lock);
    p->after = spares.first;
    spares.first = p;
    pthread_mutex_unlock(&spares.lock);
}

static void leave(void *ring)
{
    mine = NULL;
    pthread_mutex_lock(&threads.lock);
    ((mtp__ring *)ring)->taken = false;
    pthread_mutex_unlock(&threads.lock);
}

static mtp__ring *ring_create(void)
{
    mtp__ring *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->head = r->tail = piece_create();
    if (r->head == NULL) {
        free(r);
        return NULL;
    }
    r->next = threads.rings;
    __atomic_store_n(&threads.rings, r, __ATOMIC_RELEASE);
    return r;
}

static mtp__ring *ring_take(void)
{
    pthread_mutex_lock(&threads.lock);
    mtp__ring *r = threads.rings;
    while (r != NULL && r->taken)
        r = r->next;
    if (r == NULL)
        r = ring_create();
    if (r != NULL) {
        r->taken = true;
        r->last = (mtp__last){0};
    }
    pthread_mutex_unlock(&threads.lock);
    return r;
}

mtp__ring *mtp__ring_mine(void)
{
    if (mine == NULL) {
        mine = ring_take();
        if (mine != NULL)
            pthread_setspecific(threads.key, mine);
    }
    return mine;
}

static mtp__ring *first_ring(void)
{
    return __atomic_load_n(&threads.rings, __ATOMIC_ACQUIRE);
}

mtp__last *mtp__ring_last(mtp__ring *ring)
{
    return &ring->last;
}

bool mtp__ring_reads_clock(mtp__ring *ring)
{
    return ring->turn++ % CLOCK_EVERY == 0;
}

/* ----------------------------------------------------------------------------------------- the device's clock */

static void report_clock(uint32_t device, uint64_t now)
{
    uint64_t ns = now - air.start_ns, ticks = mtp_ticks() - air.start_ticks;
    if (air.clock[device].width == 0 || ticks == 0)
        return;
    double error = (double)air.clock[device].width / 2 * (double)ns / (double)ticks;
    mtp_device_clock(MTP_DEVICE_NPU(device), air.clock[device].device_ns, air.clock[device].middle,
                     (uint64_t)error + 1);
    air.clock[device].width = 0;
    air.clock[device].told_ns = now;
}

static void report_clocks(bool all)
{
    uint64_t now = mtp_now_ns();
    for (uint32_t d = 0, n = mtp__device_count(); d < n; d++)
        if (air.clock[d].width != 0 && (all || now - air.clock[d].told_ns > TELL_CLOCK_NS))
            report_clock(d, now);
    air.clock_read = false;
}

static bool read_time(const mtp__flight *f, cl_profiling_info which, uint64_t *out)
{
    cl_ulong t = 0;
    bool good = mtp__next->clGetEventProfilingInfo(f->event, which, sizeof t, &t, NULL) == CL_SUCCESS;
    *out = t;
    return good;
}

/* The command was queued between two known host times: a free reading of the device's clock. */
static void read_clock(const mtp__flight *f)
{
    uint64_t queued, known = air.clock[f->device].width;
    if ((known != 0 && known <= f->width) || !read_time(f, CL_PROFILING_COMMAND_QUEUED, &queued) ||
        queued == 0)
        return;
    air.clock[f->device].width = f->width;
    air.clock[f->device].device_ns = queued;
    air.clock[f->device].middle = f->before + f->width / 2;
    air.clock_read = true;
}

/* ------------------------------------------------------------------------------------------------ the harvest */

static void report(const mtp__flight *f, uint64_t start, uint64_t end)
{
    if (f->session != MTP_SESSION(mtp_recording()))
        return; /* enqueued as its recording ended */
    mtp_device_work work = MTP_DEVICE_WORK_INIT(f->name, MTP_DEVICE_NPU(f->device));
    work.kind = f->kind;
    work.stream = f->stream;
    work.correlation = f->correlation;
    work.start = start;
    work.end = end > start ? end : start;
    work.clock = MTP_CLOCK_DEVICE;
    if (f->kind == MTP_DEVICE_KERNEL)
        for (int i = 0; i < 3; i++) {
            work.grid[i] = f->of.kernel.grid[i];
            work.block[i] = f->of.kernel.block[i];
        }
    else
        work.bytes = f->of.bytes;
    mtp_device_event(&work);
}

static bool has_ended(const mtp__flight *f, uint64_t *end)
{
    return read_time(f, CL_PROFILING_COMMAND_END, end) && *end != 0;
}

/* A command has an end time only when it is done, so one query usually answers both. If it finished between
 * that query and the status query, the end is read again. False: not done. */
static bool land(mtp__flight *f)
{
    uint64_t start, end;
    cl_int state = CL_COMPLETE;
    bool ended = has_ended(f, &end);
    if (!ended) {
        if (mtp__next->clGetEventInfo(f->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                                      NULL) == CL_SUCCESS &&
            state > CL_COMPLETE)
            return false;
        ended = state == CL_COMPLETE && has_ended(f, &end); /* else it failed and has no times */
    }
    if (ended && read_time(f, CL_PROFILING_COMMAND_START, &start))
        report(f, start, end);
    else if (state == CL_COMPLETE)
        __atomic_add_fetch(&air.timeless, 1, __ATOMIC_RELAXED);
    if (ended && f->width != 0)
        read_clock(f);
    cl_event event = f->event;
    f->event = NULL;
    mtp__next->clReleaseEvent(event);
    return true;
}

/* How far to search: up to the first unfinished flight, the first of each queue, or all flights. */
typedef enum reach {
    FIRST,
    QUEUES,
    ALL
} reach;

typedef struct look {
    reach reach;
    uint32_t blocked[BLOCKED_MAX], count; /* streams */
    uint64_t landed;
} look;

/* False: stop searching. */
static bool look_at(look *l, mtp__flight *f)
{
    if (f->event == NULL)
        return true;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->blocked[i] == f->stream)
            return true;
    if (land(f)) {
        l->landed++;
        return true;
    }
    if (l->reach == FIRST || l->count == BLOCKED_MAX)
        return false;
    if (l->reach == QUEUES)
        l->blocked[l->count++] = f->stream;
    return true;
}

/* Another thread wrote the driver's event object long ago: prefetch it while earlier events are processed. */
static void fetch(const piece *p, uint32_t i)
{
    for (uintptr_t line = 0; line < 4; line++)
        __builtin_prefetch((const void *)((uintptr_t)p->at[i].event + line * 64), 1);
}

/* Searches one piece. *end: it is full and all of its flights have landed. */
static bool look_through(look *l, piece *p, bool *end)
{
    uint32_t added = __atomic_load_n(&p->added, __ATOMIC_ACQUIRE);
    bool go_on = true;
    for (uint32_t i = p->first; i < added && go_on; i++) {
        if (i + AHEAD < added)
            fetch(p, i + AHEAD);
        go_on = look_at(l, &p->at[i]);
    }
    while (p->first < added && p->at[p->first].event == NULL)
        p->first++;
    *end = p->first == PIECE;
    return go_on;
}

static uint64_t harvest_ring(mtp__ring *r, reach how_far)
{
    look l = {.reach = how_far};
    bool end, go_on = true;
    piece **from = &r->head, *after;
    for (piece *p = r->head; go_on && p != NULL; p = after) {
        go_on = look_through(&l, p, &end);
        after = __atomic_load_n(&p->after, __ATOMIC_ACQUIRE);
        if (end && after != NULL) {
            *from = after;
            piece_destroy(p);
        } else
            from = &p->after;
    }
    return __atomic_add_fetch(&r->landed, l.landed, __ATOMIC_RELAXED);
}

void mtp__flights_harvest(void)
{
    if (mine == NULL && (mtp_recording() & MTP_NPU) == 0)
        return;
    if (harvesting || pthread_mutex_trylock(&air.lock) != 0)
        return;
    harvesting = true;
    for (mtp__ring *r = first_ring(); r != NULL; r = r->next)
        harvest_ring(r, FIRST);
    if (air.clock_read)
        report_clocks(false);
    harvesting = false;
    pthread_mutex_unlock(&air.lock);
}

/* Called by the owner thread every so often. Checks all queues once the number in flight has doubled since
 * the last such check. */
static void harvest_mine(mtp__ring *r)
{
    if (harvesting || pthread_mutex_trylock(&air.lock) != 0)
        return;
    harvesting = true;
    bool sweep = r->added >= r->sweep_at;
    uint64_t flying = r->added - harvest_ring(r, sweep ? QUEUES : FIRST);
    if (sweep)
        r->sweep_at = r->added + flying + PIECE;
    if (air.clock_read)
        report_clocks(false);
    harvesting = false;
    pthread_mutex_unlock(&air.lock);
}

void mtp__flight_add(mtp__ring *r, const mtp__flight *flight)
{
    piece *p = r->tail;
    if (p->added == PIECE) {
        piece *more = piece_create();
        if (more == NULL) {
            __atomic_add_fetch(&air.lost, 1, __ATOMIC_RELAXED);
            mtp__next->clReleaseEvent(flight->event);
            return;
        }
        r->tail = more;
        __atomic_store_n(&p->after, more, __ATOMIC_RELEASE); /* p now belongs to the harvest */
        p = more;
    }
    p->at[p->added] = *flight;
    __atomic_store_n(&p->added, p->added + 1, __ATOMIC_RELEASE);
    if (++r->added % (PIECE / 4) == 0)
        harvest_mine(r);
}

/* --------------------------------------------------------------------------------------- the end of a cycle */

static uint64_t each_flying(void visit(mtp__ring *r, mtp__flight *f))
{
    uint64_t count = 0;
    for (mtp__ring *r = first_ring(); r != NULL; r = r->next)
        for (piece *p = r->head; p != NULL; p = __atomic_load_n(&p->after, __ATOMIC_ACQUIRE))
            for (uint32_t i = p->first, n = __atomic_load_n(&p->added, __ATOMIC_ACQUIRE); i < n; i++)
                if (p->at[i].event != NULL) {
                    count++;
                    if (visit != NULL)
                        visit(r, &p->at[i]);
                }
    return count;
}

/* Drivers may hold back commands until the queue is flushed: those would never end. */
static void submit(mtp__ring *r, mtp__flight *f)
{
    (void)r;
    cl_command_queue queue = NULL;
    cl_int state = CL_COMPLETE;
    if (mtp__next->clGetEventInfo(f->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL) ==
            CL_SUCCESS &&
        state == CL_QUEUED &&
        mtp__next->clGetEventInfo(f->event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL) ==
            CL_SUCCESS &&
        queue != NULL)
        mtp__next->clFlush(queue);
}

/* It counts as landed, too: otherwise it would count as in flight for ever. */
static void leave_out(mtp__ring *r, mtp__flight *f)
{
    mtp__next->clReleaseEvent(f->event);
    f->event = NULL;
    __atomic_add_fetch(&r->landed, 1, __ATOMIC_RELAXED);
}

static uint64_t harvest_all(void)
{
    for (mtp__ring *r = first_ring(); r != NULL; r = r->next)
        harvest_ring(r, ALL);
    return each_flying(NULL);
}

/* Other threads may need the lock to make progress. */
static void rest(void)
{
    harvesting = false;
    pthread_mutex_unlock(&air.lock);
    nanosleep(&(struct timespec){0, 100000}, NULL);
    pthread_mutex_lock(&air.lock);
    harvesting = true;
}

/* Waits a while for commands in flight, then drops them. */
static void flush(void *unused)
{
    uint64_t start = mtp_now_ns();
    (void)unused;
    __atomic_store_n(&air.recorded, true, __ATOMIC_RELAXED);
    if (harvesting)
        return;
    pthread_mutex_lock(&air.lock);
    harvesting = true;
    if (harvest_all() > 0) {
        each_flying(submit);
        while (harvest_all() > 0 && mtp_now_ns() - start < GIVE_UP_NS)
            rest();
    }
    __atomic_add_fetch(&air.lost, each_flying(leave_out),
                       __ATOMIC_RELAXED); /* threads add to it without the lock */
    report_clocks(true);
    for (uint32_t d = 0; d < MTP__DEVICES_MAX; d++)
        air.clock[d].told_ns = 0; /* the next cycle reports the clock at once */
    harvesting = false;
    pthread_mutex_unlock(&air.lock);
}

uint64_t mtp__flights_lost(void)
{
    return __atomic_load_n(&air.lost, __ATOMIC_RELAXED);
}

bool mtp__flights_recorded(void)
{
    return __atomic_load_n(&air.recorded, __ATOMIC_RELAXED) || mtp_recording() != 0;
}

uint64_t mtp__flights_timeless(void)
{
    return __atomic_load_n(&air.timeless, __ATOMIC_RELAXED);
}

/* ---------------------------------------------------------------------------------------------- fork, start */

static void before_fork(void)
{
    pthread_mutex_lock(&air.lock);
    pthread_mutex_lock(&threads.lock);
    pthread_mutex_lock(&spares.lock);
    mtp__queues_fork_hold(true);
    mtp__commands_fork_hold(true);
    mtp__memory_fork_hold(true);
}

static void after_fork(void)
{
    mtp__memory_fork_hold(false);
    mtp__commands_fork_hold(false);
    mtp__queues_fork_hold(false);
    pthread_mutex_unlock(&spares.lock);
    pthread_mutex_unlock(&threads.lock);
    pthread_mutex_unlock(&air.lock);
}

/* The driver's threads do not exist in the child: flights never land there and are abandoned. */
static void after_fork_child(void)
{
    threads.rings = NULL;
    mine = NULL;
    after_fork();
}

mtp_status mtp__flights_init(void)
{
    air.start_ns = mtp_now_ns();
    air.start_ticks = mtp_ticks();
    if (pthread_key_create(&threads.key, leave) != 0)
        return MTP_E_NOMEM;
    pthread_atfork(before_fork, after_fork,
                   after_fork_child); /* registered after libmtprof's, so our locks are taken first */
    return mtp_flush_add(flush, NULL);
}
