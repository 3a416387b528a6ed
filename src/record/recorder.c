/* record/recorder.c - see recorder.h. The order of stop(): close the gate, wait until every writer is at
 * rest, seal their chunks, write the ledger. None of this looks at records. */
#define _GNU_SOURCE
#include "record/emit/emit.h"
#include "record/recorder.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/os.h"
#include "base/rank.h"
#include "record/control.h"
#include "record/details.h"
#include "record/epoch.h"
#include "record/reclaim.h"

#define PUBLIC_FLAGS                                                                                         \
    (MTP_CPU | MTP_NPU | MTP_WITH_SHAPES | MTP_WITH_STACK | MTP_WITH_MEMORY | MTP_WITH_FLOPS |               \
     MTP_WITH_MODULES)

#define CHUNK_GROWTH 64u /* bytes of the next chunk for each record so far */

static _Atomic(mtp__recorder *) current; /* pairs: gate open */
static atomic_uint_fast64_t last_id;
static atomic_uint_fast32_t last_session;
static mtp__recorder *all, *left_behind; /* registry lock */
static uint32_t last_serial;             /* registry lock */

/* Records of handlers and callbacks that were refused inside a record. Counted per process, not per thread: a
 * handler cannot know whether its thread is just joining or leaving. */
static atomic_uint_fast64_t refused[MTP_DROP_CAUSES];

mtp__recorder *mtp__recorder_current(void)
{
    if (__builtin_expect(atomic_load_explicit(&mtp__gate.ours, memory_order_relaxed) == 0, 0))
        return NULL;
    return atomic_load_explicit(&current, memory_order_acquire);
}

uint64_t mtp__recorder_new_id(void)
{
    return atomic_fetch_add(&last_id, 1) + 1;
}

mtp_status mtp__recorder_create(const mtp__recorder_config *config, mtp__recorder **out)
{
    *out = NULL;
    mtp_status status = mtp__registry_init();
    if (status != MTP_OK)
        return status;
    mtp__recorder *r = mtp__calloc(1, sizeof *r);
    if (r == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a recorder");
    r->config = *config;
    r->config.pool.path = NULL;
    if (config->pool.path != NULL && (r->config.pool.path = mtp__strdup(config->pool.path)) == NULL) {
        status = MTP_FAIL(MTP_E_NOMEM, "the spool's path");
        goto free_recorder;
    }
    status = mtp__pool_init(&r->pool, &config->pool); /* the last step that can fail: it may replace a file */
    if (status != MTP_OK)
        goto free_path;
    pthread_mutex_init(&r->control.lock, NULL);
    mtp__rank_set(&r->control.lock, MTP__RANK_CONTROL, r);
    mtp__rank_set(&r->pool.lock, MTP__RANK_POOL, r);
    mtp__details_init(r);
    mtp__control_reset(r);
    r->id = mtp__recorder_new_id();
    mtp__hold before = mtp__writer_hold();
    mtp__registry_lock();
    if ((r->next = all) != NULL)
        all->prev = r;
    all = r;
    mtp__registry_unlock();
    mtp__writer_release(before);
    *out = r;
    return MTP_OK;

free_path:
    mtp__free((char *)r->config.pool.path);
free_recorder:
    mtp__free(r);
    return status;
}

void mtp__recorder_destroy(mtp__recorder *r)
{
    if (r == NULL)
        return;
    mtp__hold before = mtp__writer_hold();
    mtp__registry_lock();
    *(r->prev != NULL ? &r->prev->next : &all) = r->next;
    if (r->next != NULL)
        r->next->prev = r->prev;
    if (r->leaked) { /* a stuck thread may still write to it */
        r->next = left_behind;
        left_behind = r;
    }
    mtp__registry_unlock();
    mtp__writer_release(before);
    if (r->leaked)
        return;
    if (r->cycle == 0)
        mtp__pool_finish(&r->pool); /* it was never started: its file is not that of a crash */
    mtp__details_fini(r);
    mtp__control_fini(r);
    mtp__pool_fini(&r->pool);
    mtp__free((char *)r->config.pool.path);
    mtp__free(r);
}

/* --------------------------------------------------------------------------------- start and stop */

/* At rest, under the registry's lock: detaches the thread from any recorder. */
static void thread_reset(mtp__thread *t)
{
    mtp__writer *w = t->writer;
    w->cur = w->end = NULL;
    w->chunk = NULL;
    w->recorder = NULL;
    w->token = 0;
    atomic_store_explicit(&w->sealed, atomic_load_explicit(&w->written, memory_order_relaxed),
                          memory_order_relaxed);
    t->joined = 0;
}

/* Under the registry's lock, with the gate closed: a stuck thread may have come to rest since. For those that
 * have not, the gate says that there are strays (writer_fresh). */
static void thread_unstick(void *user, mtp__thread *t)
{
    bool *strays = user;
    if (!t->stuck)
        return;
    if (atomic_load_explicit(&t->writer->busy, memory_order_acquire) != 0) {
        *strays = true;
        return;
    }
    t->stuck = false;
    thread_reset(t);
}

void mtp__recorder_clear(mtp__recorder *r)
{
    mtp__pool_reset(&r->pool);
    mtp__details_reset(r);
    mtp__control_reset(r);
    r->id = mtp__recorder_new_id();
    r->retired = 0;
    r->written = r->threads = 0;
    memset(r->dropped, 0, sizeof r->dropped);
    atomic_store(&r->lost_definitions, 0);
}

/* Everything that a new name needs of the recorder (names.c: define) is in place before it becomes current. */
static mtp_status become_current(mtp__recorder *r, bool *strays)
{
    mtp__registry_lock();
    bool none = atomic_load(&current) == NULL;
    if (none) {
        r->cycle++;
        r->serial = ++last_serial;
        for (int k = 0; k < MTP_DROP_CAUSES; k++)
            r->refused_before[k] = atomic_load(&refused[k]);
        mtp__registry_each(thread_unstick, strays);
        atomic_store(&current, r);
    }
    mtp__registry_unlock();
    return none ? MTP_OK : MTP_FAIL(MTP_E_BUSY, "another profiler session is already active");
}

static uint32_t next_session(void) /* 16 bits, not 0 */
{
    uint32_t session;
    do
        session = (uint32_t)(atomic_fetch_add(&last_session, 1) + 1) & 0xffffu;
    while (session == 0);
    return session;
}

/* The part of the gate that programs see. */
static void publish(const mtp__recorder *r, uint32_t flags)
{
    __atomic_store_n(&mtp__recording, (flags & PUBLIC_FLAGS) | r->session << 16 | mtp__emit_public(),
                     __ATOMIC_RELEASE);
}

/* Also while a recording starts or stops on another thread: the last one to look sees both. */
void mtp__recorder_emit(uint32_t emitted)
{
    uint32_t gate;
    __atomic_store_n(&mtp__emit_flags, emitted, __ATOMIC_SEQ_CST);
    mtp__registry_lock();
    do {
        const mtp__recorder *r = mtp__recorder_current();
        gate = atomic_load(&mtp__gate.flags);
        if (r != NULL && (gate & MTP__GATE_OPEN) != 0)
            publish(r, gate);
        else
            __atomic_store_n(&mtp__recording, emitted, __ATOMIC_SEQ_CST);
    } while (gate != atomic_load(&mtp__gate.flags));
    mtp__registry_unlock();
}

/* While recording, the chunks are private to this process; at rest, a forked child may read them. A spool's
 * file stays with its process. */
static void set_inherited(mtp__recorder *r, bool on)
{
    if (on == r->inherited || r->leaked || r->pool.file.fd >= 0)
        return;
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&r->pool.lock);
    size_t bytes = (size_t)r->pool.slots * r->pool.piece_bytes;
    (on ? mtp__map_inherited : mtp__map_not_inherited)(r->pool.base, bytes);
    r->inherited = on;
    pthread_mutex_unlock(&r->pool.lock);
    mtp__writer_release(before);
}

mtp_status mtp__recorder_start(mtp__recorder *r)
{
    if (r->pool.base == NULL)
        return MTP_FAIL(MTP_E_STATE, "its buffers stayed with the parent process: create a new profile");
    bool strays = false, at_rest = r->inherited;
    set_inherited(r, false);
    mtp_status status = become_current(r, &strays);
    if (status != MTP_OK) {
        set_inherited(r, at_rest);
        return status;
    }
    bool slow = !mtp__clock_is_counter() || mtp__clock_hooked();
    mtp__control_session(r);
    mtp__recorder_anchor(r);
    uint32_t flags = r->config.flags;
    mtp__registry_lock();
    r->open = true;
    mtp__registry_unlock();
    uint32_t gate = flags | MTP__GATE_OPEN | (slow ? MTP__GATE_SLOW : 0) | (strays ? MTP__GATE_STRAYS : 0) |
                    (mtp__registry_is_fenced() ? MTP__GATE_FENCE : 0);
    r->session = next_session();
    atomic_store(&mtp__gate.flags, gate); /* pairs: gate_read */
    publish(r, flags);
    return MTP_OK;
}

/* Adds the thread's counts in this recording to the totals. */
static void thread_count(mtp__recorder *r, mtp__thread *t)
{
    mtp__writer *w = t->writer;
    if (t->joined != r->id)
        return;
    t->joined = 0;
    r->written += atomic_load_explicit(&w->written, memory_order_relaxed) - t->written_before;
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        r->dropped[k] += atomic_load_explicit(&w->dropped[k], memory_order_relaxed) - t->dropped_before[k];
}

/* The ticks of its last record. */
static uint64_t last_ticks(const mtp__chunk *chunk, const uint64_t *words, uint32_t used)
{
    uint64_t last = chunk->base_ticks;
    for (uint32_t at = 0; at < used; at += MTP__WORD0_LENGTH(words[at]))
        last = mtp__word0_full_ticks(words[at], chunk->base_ticks);
    return last;
}

static void seal_chunk(mtp__recorder *r, mtp__writer *w, bool late)
{
    uint64_t *words = mtp__chunk_words(w->chunk);
    uint64_t written = atomic_load_explicit(&w->written, memory_order_relaxed);
    uint32_t records = (uint32_t)(written - atomic_load_explicit(&w->sealed, memory_order_relaxed));
    uint32_t used = (uint32_t)(w->cur - words);
    if (late)
        mtp__pool_seal_late(&r->pool, w->chunk, used, records, last_ticks(w->chunk, words, used));
    else
        mtp__pool_seal(&r->pool, w->chunk, used, records);
    atomic_store_explicit(&w->sealed, written, memory_order_relaxed);
    __atomic_store_n(&w->chunk, NULL, __ATOMIC_RELAXED);
    w->cur = w->end = NULL;
}

static void chunk_back(mtp__recorder *r, mtp__writer *w)
{
    if (w->chunk != NULL)
        seal_chunk(r, w, false);
}

void mtp__recorder_reclaim_chunk(mtp__recorder *r, mtp__writer *w)
{
    seal_chunk(r, w, true);
}

/* The thread that holds the registry's lock may be reading our chunk: waits for it. Else it has read it: acquire pairs with
 * the release that ends its reading (epoch.c). */
static void hold_still(mtp__thread *t)
{
    if (atomic_load_explicit(&t->held_still, MTP__HELD_ORDER)) {
        mtp__registry_lock();
        mtp__registry_unlock();
    }
}

void mtp__recorder_retire_chunk(mtp__recorder *r, mtp__writer *w)
{
    if (w->chunk == NULL)
        return;
    mtp__guard_enter();
    hold_still(w->thread);
    chunk_back(r, w);
    mtp__guard_leave();
}

/* Under the registry's lock, with the writer at rest or on its own thread: detaches it from the recorder. */
static void thread_settle(mtp__recorder *r, mtp__thread *t)
{
    if (t->joined != r->id)
        return;
    mtp__control_thread(r, t);
    chunk_back(r, t->writer);
    thread_count(r, t);
    thread_reset(t);
}

void mtp__recorder_thread_ends(mtp__thread *t)
{
    mtp__recorder *r = mtp__recorder_current();
    if (r != NULL)
        thread_settle(r, t);
}

typedef struct settling {
    mtp__recorder *r;
    uint32_t stuck;
} settling;

static void settle_one(void *user, mtp__thread *t)
{
    settling *s = user;
    mtp__writer *w = t->writer;
    if (!t->stuck) {
        thread_settle(s->r, t);
        return;
    }
    s->stuck++;
    mtp__chunk *chunk = __atomic_load_n(&w->chunk, __ATOMIC_RELAXED);
    uint64_t sealed = atomic_load_explicit(&w->sealed, memory_order_relaxed);
    if (t->joined == s->r->id && chunk != NULL && mtp__pool_abandon(&s->r->pool, chunk, t->stream))
        s->r->dropped[MTP_DROP_STUCK] += atomic_load_explicit(&w->written, memory_order_relaxed) - sealed;
    thread_count(s->r, t); /* from now on hand_over() gives it no chunk */
}

mtp_status mtp__recorder_stop(mtp__recorder *r, uint32_t *stuck)
{
    if (stuck != NULL)
        *stuck = 0;
    if (!r->open)
        return MTP_FAIL(MTP_E_STATE, "nothing is being recorded");
    if (mtp__writer_inside(__builtin_dwarf_cfa()))
        return MTP_FAIL(MTP_E_STATE,
                        "called from inside a recording call (a stack provider or signal handler)");
    if (atomic_load(&mtp__gate.ours) == 0)
        return MTP_FAIL(MTP_E_STATE, "this process is a forked copy of the one that is recording");
    __atomic_store_n(&mtp__recording, mtp__emit_public(), __ATOMIC_RELAXED);
    atomic_store(&mtp__gate.flags, 0);
    MTP__TESTPOINT(STOP_GATE);
    settling s = {r, 0};
    mtp__registry_rest_and_lock();
    MTP__TESTPOINT(STOP_REST);
    mtp__registry_each(settle_one, &s);
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        r->dropped[k] += atomic_load(&refused[k]) - r->refused_before[k];
    r->open = false;
    mtp__registry_unlock();
    r->leaked |= s.stuck != 0;
    atomic_store(&current, NULL);
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&mtp__names()->lock); /* a thread that was defining a new name has finished */
    pthread_mutex_unlock(&mtp__names()->lock);
    mtp__writer_release(before);
    mtp__recorder_anchor(r);
    mtp__guard_enter();
    mtp__control_finish(r);
    mtp__pool_finish(&r->pool);
    mtp__guard_leave();
    set_inherited(r, true);
    MTP__TESTPOINT(STOP_DONE);
    if (stuck != NULL)
        *stuck = s.stuck;
    return MTP_OK;
}

void mtp__recorder_toggle(mtp__recorder *r, bool enable, uint32_t activities)
{
    activities &= (MTP_CPU | MTP_NPU) & r->config.flags; /* only what was requested at creation */
    if (!r->open)
        return;
    uint32_t flags = enable ? atomic_fetch_or(&mtp__gate.flags, activities) | activities
                            : atomic_fetch_and(&mtp__gate.flags, ~activities) & ~activities;
    publish(r, flags);
}

/* ------------------------------------------------------------------------------------------ writers */

/* A signal stack with SS_AUTODISARM is not reported while a handler runs on it: remember it from before. */
static void note_signal_stack(mtp__thread *t)
{
    stack_t now;
    if (sigaltstack(NULL, &now) != 0 || (now.ss_flags & (SS_DISABLE | SS_ONSTACK)) != 0)
        return;
    t->signal_stack = (uintptr_t)now.ss_sp;
    t->signal_stack_bytes = now.ss_size;
}

/* A handler's frame is below the frame that it interrupted, or on the signal stack. A wrong "yes" would let
 * two writers use one chunk, so the answer is "no" between stacks that are not known: a thread's own ends at
 * its control block (the first thread's is above all others). */
bool mtp__frame_is_gone(uintptr_t frame, uintptr_t from)
{
    const mtp__thread *t = mtp__self.thread;
    stack_t other;
    bool there = sigaltstack(NULL, &other) == 0 && (other.ss_flags & SS_DISABLE) == 0;
    uintptr_t stack = there ? (uintptr_t)other.ss_sp : t != NULL ? t->signal_stack : 0;
    size_t bytes = there ? other.ss_size : t != NULL ? t->signal_stack_bytes : 0;
    bool frame_there = frame - stack < bytes, from_there = bytes != 0 && from - stack <= bytes;
    if (frame_there != from_there)
        return frame_there;
    uintptr_t top = (uintptr_t)pthread_self();
    bool known = t == NULL || t->first || frame >= top || from < top;
    return from >= frame && (known || from == (uintptr_t)MTP__FRAME_NONE);
}

/* After a record was left in the middle: keeps the complete records and drops the rest. The next record
 * starts a new chunk, which has the thread's real depth. Under the registry's lock: stop() may have seen the
 * thread at rest before that record, and then owns all of it. */
static void mend(mtp__writer *w)
{
    if (w->chunk == NULL)
        return;
    uint64_t *words = mtp__chunk_words(w->chunk);
    uint32_t room = (uint32_t)(w->end - words), used = mtp__chunk_written(words, room), at = 0, whole = 0;
    for (; at < used; whole++)
        at += MTP__WORD0_LENGTH(words[at]);
    for (uint32_t i = used; i < room && i < used + 16; i++) /* a record has at most 15 words */
        words[i] = 0;
    uint64_t sealed = atomic_load_explicit(&w->sealed, memory_order_relaxed);
    if (atomic_load_explicit(&w->written, memory_order_relaxed) - sealed != whole)
        mtp__writer_drop(w, MTP_DROP_REENTRANT);
    atomic_store_explicit(&w->written, sealed + whole, memory_order_relaxed);
    w->cur = words + used;
    chunk_back(w->recorder, w);
}

/* Takes back what a record sets for its duration. */
static void resume(mtp__thread *t)
{
    t->no_turn = t->in_stack = false;
    atomic_store(&t->parked, false); /* else its next records would read tables that are being freed */
    if (t->walking)
        mtp__cancel_restore(&t->cancel);
    t->walking = false;
}

bool mtp__writer_left(mtp__writer *w, const void *from)
{
    uint64_t frame = atomic_load_explicit(&w->busy, memory_order_relaxed);
    if (frame <= MTP__BUSY_ANYWHERE || !mtp__frame_is_gone(frame, (uintptr_t)from))
        return false;
    int its_errno = errno;
    if (w->thread != NULL)
        resume(w->thread);
    mtp__guard_enter();
    mtp__registry_lock();
    mend(w);
    mtp__registry_unlock();
    mtp__writer_leave(w);
    mtp__guard_leave();
    errno = its_errno;
    return true;
}

bool mtp__writer_again(mtp__writer *w, const void *from)
{
    if (mtp__writer_left(w, from))
        return true;
    if ((mtp__gate_read() & MTP__GATE_OPEN) != 0)
        atomic_fetch_add(&refused[w->gone ? MTP_DROP_EXITING : MTP_DROP_REENTRANT], 1);
    return false;
}

static uint32_t tie_of(const mtp__recorder *r, const mtp__thread *t)
{
    return (r->serial * 0x9e3779b1u ^ t->stream * 0x85ebca6bu) | 1u;
}

/* Under the registry's lock, at the thread's first record in this recording: its counts belong to this
 * recording from now on. */
static void thread_starts(mtp__recorder *r, mtp__thread *t)
{
    mtp__writer *w = t->writer;
    t->joined = r->id;
    t->written_before = atomic_load_explicit(&w->written, memory_order_relaxed);
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        t->dropped_before[k] = atomic_load_explicit(&w->dropped[k], memory_order_relaxed);
    r->threads += t->counted != r->id;
    t->counted = r->id;
    w->recorder = r;
}

/* A record of a thread that is not yet, or no longer, in the registry. stop() does not wait for it, so the
 * recorder is accessed under the lock that stop() needs. */
static void count_homeless(mtp_drop cause)
{
    mtp__registry_lock();
    mtp__recorder *r = mtp__recorder_current();
    if (r != NULL && r->open)
        r->dropped[cause]++;
    mtp__registry_unlock();
}

static void anchor_when_due(mtp__recorder *r)
{
    if (mtp__clock_seconds() > atomic_load_explicit(&r->last_anchor, memory_order_relaxed))
        mtp__recorder_anchor(r);
}

/* Since the gate was read, stop() may have ended the recording and start() begun another. A record begun in
 * the former is not written to the latter, whose names and shapes differ. */
static bool join(mtp__writer *w)
{
    mtp__recorder *r = mtp__recorder_current();
    if (w->token != 0 && r != NULL && mtp__token_tie(w->token) == tie_of(r, w->thread))
        return true;
    if (w->gone) {
        count_homeless(MTP_DROP_EXITING);
        return false;
    }
    if (w->thread == NULL && mtp__registry_join(w) != MTP_OK) {
        count_homeless(MTP_DROP_NOMEM);
        return false;
    }
    mtp__thread *t = w->thread;
    mtp__registry_lock();
    r = mtp__recorder_current();
    bool starts = r != NULL && r->open && w->token == 0;
    t->stuck = false;
    thread_reset(t); /* a stuck thread still has a chunk of another cycle */
    if (starts)
        thread_starts(r, t);
    mtp__registry_unlock();
    if (starts) {
        note_signal_stack(t);
        mtp__control_thread(r, t);
        w->token = tie_of(r, t);
    }
    return starts;
}

bool mtp__writer_join(mtp__writer *w)
{
    int its_errno = errno; /* programs do not expect a scope to change it */
    mtp__guard_enter();
    bool joined = join(w);
    mtp__guard_leave();
    errno = its_errno;
    return joined;
}

void mtp__writer_fresh(mtp__writer *w)
{
    mtp__recorder *r = mtp__recorder_current();
    bool is_stray = w->token != 0 && (r == NULL || mtp__token_tie(w->token) != tie_of(r, w->thread));
    if (!is_stray && (mtp__gate_read() & MTP__GATE_TAKING) == 0)
        return;
    mtp__registry_lock();
    if (is_stray) {
        w->thread->stuck = false;
        thread_reset(w->thread);
    }
    mtp__registry_unlock();
}

/* From now on stop() knows that the writer has the chunk. false: stop() has already given up on this
 * thread. */
static bool hand_over(mtp__writer *w, mtp__chunk *chunk)
{
    mtp__registry_lock();
    bool joined = w->thread->joined == w->recorder->id;
    if (joined)
        __atomic_store_n(&w->chunk, chunk, __ATOMIC_RELAXED);
    mtp__registry_unlock();
    return joined;
}

/* A thread's first chunk in a recording is short, and later ones grow with the amount written: many threads
 * with a few records each need little, and busy ones come here once per piece. */
static uint32_t chunk_wish(const mtp__pool *pool, uint64_t written)
{
    uint64_t bytes = written < pool->piece_bytes ? written * CHUNK_GROWTH : pool->piece_bytes;
    return bytes < MTP__CHUNK_ASK_LEAST ? MTP__CHUNK_ASK_LEAST
           : bytes < pool->piece_bytes  ? (uint32_t)bytes
                                        : pool->piece_bytes;
}

/* Reclaims open chunks of idle threads first if necessary. */
static mtp__chunk *take(mtp__recorder *r, const mtp__writer *w, const mtp__chunk_ask *ask, mtp_drop *why)
{
    if (atomic_load_explicit(&r->pool.held_up, memory_order_relaxed))
        mtp__reclaim(r, w->thread);
    mtp__chunk *chunk = mtp__pool_take_part(&r->pool, ask, why);
    if (chunk == NULL && atomic_load_explicit(&r->pool.held_up, memory_order_relaxed) &&
        mtp__reclaim(r, w->thread))
        chunk = mtp__pool_take_part(&r->pool, ask, why);
    return chunk;
}

static uint64_t *refill(mtp__writer *w)
{
    if (!join(w))
        return NULL;
    mtp__recorder *r = w->recorder;
    mtp__recorder_retire_chunk(r, w);
    if (r->open)
        anchor_when_due(r);
    uint64_t dropped = 0, written = atomic_load_explicit(&w->written, memory_order_relaxed);
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        dropped += atomic_load_explicit(&w->dropped[k], memory_order_relaxed);
    mtp_drop why;
    mtp__chunk_ask ask = {.stream = w->thread->stream,
                          .cycle = r->cycle,
                          .depth = (uint32_t)(w->token >> 32),
                          .bytes = chunk_wish(&r->pool, written - w->thread->written_before),
                          .first = written + dropped,
                          .dropped = dropped,
                          .ticks = mtp__clock_ticks_slow()};
    mtp__chunk *chunk = take(r, w, &ask, &why);
    if (chunk == NULL) {
        mtp__writer_drop(w, why);
        w->why = why;
        return NULL;
    }
    note_signal_stack(w->thread);
    uint32_t room = mtp__span_words(chunk->span);
    if (!hand_over(w, chunk)) {
        mtp__pool_seal(&r->pool, chunk, 0, 0);
        return NULL;
    }
    w->cur = mtp__chunk_words(chunk);
    w->end = w->cur + room;
    mtp__epoch_new_chunk(r, w->thread, chunk);
    return w->cur;
}

uint64_t *mtp__writer_refill(mtp__writer *w, size_t words)
{
    (void)words; /* an empty chunk holds any record */
    int its_errno = errno;
    mtp__guard_enter();
    uint64_t *at = refill(w);
    mtp__guard_leave();
    errno = its_errno;
    return at;
}

/* ------------------------------------------------------------------------------------------- ledger */

typedef struct tally {
    mtp__recorder *r;
    mtp_ledger *out;
} tally;

/* A thread that is still recording. */
static void tally_one(void *user, mtp__thread *t)
{
    tally *s = user;
    mtp__writer *w = t->writer;
    if (t->joined != s->r->id)
        return;
    uint64_t written = atomic_load_explicit(&w->written, memory_order_relaxed);
    s->out->emitted += written - t->written_before;
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        s->out->dropped_by[k] +=
            atomic_load_explicit(&w->dropped[k], memory_order_relaxed) - t->dropped_before[k];
    s->out->kept += written - atomic_load_explicit(&w->sealed, memory_order_relaxed);
}

void mtp__recorder_ledger(mtp__recorder *r, mtp_ledger *out)
{
    mtp__hold before = mtp__writer_hold();
    mtp__registry_lock();
    out->emitted = r->written;
    out->kept = 0;
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        out->dropped_by[k] = r->dropped[k] + (r->open ? atomic_load(&refused[k]) - r->refused_before[k] : 0);
    out->threads = r->threads;
    tally s = {r, out};
    mtp__registry_each(tally_one, &s);
    pthread_mutex_lock(&r->pool.lock);
    out->kept += r->pool.kept;
    uint64_t overwritten = r->pool.overwritten;
    out->chunks = r->pool.file.fd >= 0 ? r->pool.file.pieces : r->pool.fresh;
    pthread_mutex_unlock(&r->pool.lock);
    mtp__registry_unlock();
    mtp__writer_release(before);
    out->dropped = overwritten;
    for (int k = 0; k < MTP_DROP_CAUSES; k++) {
        out->emitted += out->dropped_by[k]; /* these were never written ... */
        out->dropped += out->dropped_by[k];
    }
    out->emitted -= out->dropped_by[MTP_DROP_STUCK]; /* ... but these were */
    out->dropped_by[MTP_DROP_OVERWRITTEN] += overwritten;
    if (atomic_load(&r->pool.file.cut) != 0) { /* which of them are still in the file is unknown */
        out->dropped_by[MTP_DROP_DISK] += out->emitted - out->dropped;
        out->dropped = out->emitted;
        out->kept = 0;
    }
    out->bytes = out->chunks * r->pool.piece_bytes;
    out->lost_definitions = atomic_load(&r->lost_definitions);
}

mtp_status mtp__recorder_visit(mtp__recorder *r, mtp__chunk_visitor *visitor, void *user)
{
    return mtp__pool_visit(&r->pool, visitor, user);
}

mtp_status mtp__recorder_visit_control(mtp__recorder *r, mtp__chunk_visitor *visitor, void *user)
{
    return mtp__pool_visit_control(&r->pool, visitor, user);
}

/* -------------------------------------------------------------------------------------------- forks */

void mtp__recorder_fork_locks(bool take)
{
    int (*call)(pthread_mutex_t *) = take ? pthread_mutex_lock : pthread_mutex_unlock;
    call(&mtp__names()->lock);
    for (mtp__recorder *r = all; r != NULL; r = r->next) {
        mtp__details_locks(r, call);
        call(&r->control.lock);
        call(&r->pool.lock);
    }
}

/* The chunks of an open recorder were not inherited, and the parent's file must not be touched. */
mtp__recorder *mtp__recorder_forked(bool inside)
{
    mtp__recorder *was = atomic_exchange(&current, NULL);
    __atomic_store_n(&mtp__recording, mtp__emit_public(), __ATOMIC_RELAXED);
    atomic_store(&mtp__gate.flags, 0);
    atomic_store(&mtp__gate.ours, 1);
    mtp__recorder_fork_locks(false); /* this thread took them before the fork */
    for (mtp__recorder *r = all; r != NULL; r = r->next) {
        if (r->inherited && r != was)
            continue;
        mtp__pool_forked(&r->pool);
        mtp__recorder_clear(r);
        r->open = false;
        r->leaked = inside && r == mtp__self.recorder; /* the interrupted record may use it */
    }
    return was;
}

mtp_status mtp__recorder_revive(mtp__recorder *r, const char *path)
{
    mtp__pool_config config = r->config.pool;
    config.path = path;
    mtp__pool_fini(&r->pool);
    mtp_status status = mtp__pool_init(&r->pool, &config);
    if (status == MTP_OK)
        mtp__rank_set(&r->pool.lock, MTP__RANK_POOL, r);
    return status == MTP_OK ? mtp__recorder_start(r) : status;
}
