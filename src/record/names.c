/* record/names.c - the process's names: call sites keep their ids, so names are never freed. */
#include <errno.h>
#include <string.h>
#include "base/hash.h"
#include "base/rank.h"
#include "record/recorder.h"

#define NAMES_BYTES_MAX ((size_t)64 << 20)

static mtp__intern names;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The name is defined in the current recording before any thread can use it (the others: control.c). */
static int define(void *user, const mtp__intern *t, uint32_t id, const void *bytes, size_t length)
{
    (void)user;
    mtp__recorder *r = mtp__recorder_current(); /* valid while we hold the table's lock: see stop */
    if (r != NULL && r->names_defined == id - t->first_id) {
        mtp__recorder_blob(r, MTP__CONTROL_NAME, id, bytes, length);
        r->names_defined++;
    }
    MTP__TESTPOINT(DEFINITION);
    return 1;
}

static void init(void)
{
    mtp__intern_init(&names, 1, NAMES_BYTES_MAX, define, NULL);
    mtp__rank_set(&names.lock, MTP__RANK_NAMES, NULL);
}

mtp__intern *mtp__names(void)
{
    pthread_once(&once, init);
    return &names;
}

/* The table is permanently full: each use is counted in the current recording. */
static void count_lost(mtp__intern *t)
{
    pthread_mutex_lock(&t->lock);
    mtp__recorder *r = mtp__recorder_current();
    if (r != NULL)
        atomic_fetch_add(&r->lost_definitions, 1);
    pthread_mutex_unlock(&t->lock);
}

/* Marks the writer busy, like a record: a signal handler that interrupts us while the table is locked must
 * not wait for the lock, and gets no new name. */
uint32_t mtp_name_n(const char *text, size_t length)
{
    if (text == NULL)
        return 0;
    mtp__intern *t = mtp__names();
    uint64_t hash = mtp__hash_bytes(text, length);
    uint32_t id = mtp__intern_find(t, hash, text, length);
    if (id != 0)
        return id;
    if (mtp__writer_inside(__builtin_dwarf_cfa()))
        return 0;
    int its_errno = errno; /* the program's: this may be its first scope */
    mtp__hold before = mtp__writer_hold();
    id = mtp__intern_add(t, hash, text, length);
    if (id == 0)
        count_lost(t);
    atomic_thread_fence(
        memory_order_release); /* call sites hand the id on by relaxed stores: after its definition */
    mtp__writer_release(before);
    errno = its_errno;
    return id;
}

uint32_t mtp_name(const char *text)
{
    return mtp_name_n(text, text != NULL ? strlen(text) : 0);
}

uint32_t mtp__site_resolve(uint32_t *site, const char *text)
{
    if (mtp__writer_inside(__builtin_dwarf_cfa()))
        return 0; /* inside another record: the record would be refused anyway */
    uint32_t id = mtp_name(text);
    __atomic_store_n(site, id, __ATOMIC_RELAXED);
    return id;
}
