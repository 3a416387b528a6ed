/* record/control.c - the control stream: one at a time writes here, and only cold things. */
#define _GNU_SOURCE
#include "record/control.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/os.h"

#define PART_BYTES 2048u /* a blob longer than this comes in parts, so that it fits the smallest chunk */

/* Under the control lock: room for a record of `words`, or NULL. */
static uint64_t *reserve(mtp__recorder *r, uint32_t words)
{
    mtp__control *c = &r->control;
    if (atomic_load_explicit(&mtp__gate.ours, memory_order_relaxed) == 0)
        return NULL;
    if (c->chunk != NULL && mtp__chunk_capacity(r->pool.chunk_bytes) - c->used < words) {
        mtp__pool_seal(&r->pool, c->chunk, c->used, c->records);
        c->chunk = NULL;
    }
    if (c->chunk == NULL && c->sealed != NULL &&
        mtp__chunk_capacity(r->pool.chunk_bytes) - c->used >= words) {
        mtp__pool_unseal(&r->pool, c->sealed);
        c->chunk = c->sealed;
    }
    c->sealed = NULL;
    if (c->chunk == NULL) {
        mtp_drop why;
        c->chunk = mtp__pool_take(&r->pool, 0, r->cycle, c->written, mtp__clock_ticks_slow(), &why);
        c->used = c->records = 0;
    }
    return c->chunk != NULL ? mtp__chunk_words(c->chunk) + c->used : NULL;
}

static void commit(mtp__recorder *r, uint64_t *at, mtp__control_kind kind, uint32_t words)
{
    at[1] = (uint64_t)kind | (uint64_t)words << 32;
    __atomic_store_n(at, MTP__WORD0(mtp__clock_ticks_slow(), 0, MTP__KIND_CONTROL), __ATOMIC_RELEASE);
    r->control.used += words;
    r->control.records++;
    r->control.written++;
}

bool mtp__recorder_words(mtp__recorder *r, mtp__control_kind kind, const uint64_t *words, uint32_t count)
{
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&r->control.lock);
    uint64_t *at = reserve(r, count + 2);
    if (at != NULL) {
        memcpy(at + 2, words, count * sizeof *words);
        commit(r, at, kind, count + 2);
    }
    pthread_mutex_unlock(&r->control.lock);
    mtp__writer_release(before);
    if (at == NULL)
        atomic_fetch_add(&r->lost_definitions, 1);
    return at != NULL;
}

static bool blob(mtp__recorder *r, mtp__control_kind kind, uint32_t id, uint32_t tid, const void *bytes,
                 size_t length)
{
    size_t done = 0;
    bool fits = length <= UINT32_MAX;
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&r->control.lock);
    do {
        size_t part = length - done < PART_BYTES ? length - done : PART_BYTES;
        uint32_t words = 4 + (uint32_t)((part + 7) / 8);
        uint64_t *at = fits ? reserve(r, words) : NULL;
        fits = at != NULL;
        if (!fits)
            break;
        at[2] = id | (uint64_t)(kind == MTP__CONTROL_THREAD ? tid : done) << 32;
        at[3] = length | (uint64_t)part << 32;
        memcpy(at + 4, (const char *)bytes + done, part);
        commit(r, at, kind, words);
        done += part;
    } while (done < length);
    pthread_mutex_unlock(&r->control.lock);
    mtp__writer_release(before);
    return fits;
}

bool mtp__control_define(mtp__recorder *r, mtp__control_kind kind, uint32_t id, const void *bytes,
                         size_t length)
{
    return blob(r, kind, id, 0, bytes, length);
}

bool mtp__recorder_blob(mtp__recorder *r, mtp__control_kind kind, uint32_t id, const void *bytes,
                        size_t length)
{
    bool told = blob(r, kind, id, 0, bytes, length);
    if (!told)
        atomic_fetch_add(&r->lost_definitions, 1);
    return told;
}

void mtp__recorder_anchor(mtp__recorder *r)
{
    mtp__anchor a;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    atomic_store_explicit(&r->last_anchor, (uint64_t)now.tv_sec, memory_order_relaxed);
    mtp__clock_anchor(&a);
    uint64_t words[] = {a.ticks, a.monotonic_ns, a.realtime_ns, a.raw_ns, a.error_ns};
    mtp__recorder_words(r, MTP__CONTROL_ANCHOR, words, 5);
}

/* Names of the process that the stream does not have yet. New ones are told as they come, under the table's lock, so
 * none is missed and none is told twice. */
static void tell_names(mtp__recorder *r)
{
    mtp__intern *names = mtp__names();
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&names->lock);
    uint32_t count = mtp__intern_count(names);
    for (; r->names_told < count; r->names_told++) {
        const mtp__intern_entry *e = mtp__intern_get(names, names->first_id + r->names_told);
        mtp__recorder_blob(r, MTP__CONTROL_NAME, names->first_id + r->names_told, e->bytes, e->length);
    }
    pthread_mutex_unlock(&names->lock);
    mtp__writer_release(before);
}

void mtp__control_session(mtp__recorder *r)
{
    double rate = mtp__clock_ticks_per_ns(); /* for a reader who finds one anchor only */
    uint64_t words[] = {(uint64_t)getpid(), r->config.flags, r->cycle, mtp__clock_is_tsc(), 0};
    memcpy(&words[4], &rate, sizeof rate);
    mtp__recorder_words(r, MTP__CONTROL_SESSION, words, 5);
    uint64_t cycle = r->cycle | (uint64_t)1 << 32;
    mtp__recorder_words(r, MTP__CONTROL_CYCLE, &cycle, 1);
    tell_names(r);
}

/* The kernel's name of a thread of ours, empty if it cannot be had. */
static void thread_name(int32_t tid, char name[16])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, name, 15) : 0;
    mtp__close(fd);
    if (n > 0 && name[n - 1] == '\n')
        n--;
    name[n > 0 ? n : 0] = 0;
}

void mtp__control_thread(mtp__recorder *r, mtp__thread *t)
{
    char name[16];
    thread_name(t->tid, name);
    if (t->told == r->id && (name[0] == 0 || strcmp(name, t->name) == 0))
        return;
    memcpy(t->name, name, sizeof name);
    t->told = r->id;
    if (!blob(r, MTP__CONTROL_THREAD, t->stream, (uint32_t)t->tid, name, strlen(name)))
        atomic_fetch_add(&r->lost_definitions, 1);
}

void mtp__control_finish(mtp__recorder *r)
{
    tell_names(r);
    mtp_ledger ledger = MTP_LEDGER_INIT;
    mtp__recorder_ledger(r, &ledger);
    uint64_t words[4 + MTP_DROP_CAUSES] = {ledger.emitted, ledger.kept, ledger.dropped,
                                           ledger.lost_definitions};
    memcpy(words + 4, ledger.dropped_by, MTP_DROP_CAUSES * sizeof *words);
    mtp__recorder_words(r, MTP__CONTROL_LEDGER, words, 4 + MTP_DROP_CAUSES);
    uint64_t cycle = r->cycle;
    mtp__recorder_words(r, MTP__CONTROL_CYCLE, &cycle, 1);
    mtp__control *c = &r->control;
    pthread_mutex_lock(&c->lock);
    if (c->chunk != NULL)
        mtp__pool_seal(&r->pool, c->chunk, c->used, c->records);
    /* The next cycle goes on in it: a chunk for each would use up the budget, for these are never made room of. */
    c->sealed = r->pool.when_full != MTP_STREAM ? c->chunk : NULL;
    c->chunk = NULL;
    pthread_mutex_unlock(&c->lock);
}

void mtp__control_reset(mtp__recorder *r)
{
    r->control.chunk = r->control.sealed = NULL;
    r->control.used = r->control.records = 0;
    r->control.written = 0;
    r->names_told = 0;
}
