/* record/active.c - the one active profile of a process. When the process exits, a spool that it is still
 * writing is finished.
 *
 * A profile that gives way (`mtprof run` records the process) pauses while the program runs one of its own. Several may
 * be paused: the last one resumes first. The program's threads pause and resume it; its owner may do so and destroy it
 * on another, at any time.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "base/guard.h"
#include "record/profile.h"

enum {
    TRIES = 100,
    PATIENCE_MS = 5000 /* for the thread that pauses or resumes a profile */
};

static _Atomic(mtp_profile *) active; /* borrowed */

/* No lock is taken under it, and nothing is called but the guard. */
static pthread_mutex_t ways = PTHREAD_MUTEX_INITIALIZER;
static mtp_profile *paused; /* borrowed, under ways: gave way, the last one first */

MTP_API uint32_t mtp__collecting;

bool mtp__profile_claim(mtp_profile *prof)
{
    mtp_profile *none = NULL;
    if (!atomic_compare_exchange_strong(&active, &none, prof))
        return false;
    prof->active = true;
    return true;
}

void mtp__profile_release(mtp_profile *prof)
{
    mtp_profile *mine = prof;
    atomic_compare_exchange_strong(&active, &mine, NULL);
    prof->active = false;
}

/* ---------------------------------------------------------------------------------------------- giving way */

static void lock_ways(void)
{
    mtp__guard_enter();
    pthread_mutex_lock(&ways);
}

static void unlock_ways(void)
{
    pthread_mutex_unlock(&ways);
    mtp__guard_leave();
}

/* Its owner, on another thread, may be about to destroy it: that waits. */
static void let_go(mtp_profile *prof)
{
    lock_ways();
    prof->held--;
    unlock_ways();
}

static mtp_profile *hold_active(const mtp_profile *but)
{
    lock_ways();
    mtp_profile *other = atomic_load(&active);
    if (other != NULL && (other == but || !other->config.gives_way || other->retired || !other->by_hand ||
                          atomic_load(&other->driver) == (uintptr_t)pthread_self()))
        other = NULL;
    if (other != NULL)
        other->held++;
    unlock_ways();
    return other;
}

static mtp_profile *hold_paused(void)
{
    lock_ways();
    mtp_profile *other = atomic_load(&active) == NULL ? paused : NULL;
    if (other != NULL)
        other->held++;
    unlock_ways();
    return other;
}

bool mtp__profile_take(mtp_profile *prof)
{
    for (int i = 0; i < TRIES;
         i++) { /* another tool, or none, may be in the place of the one that gave way */
        if (mtp__profile_claim(prof))
            return true;
        mtp_profile *other = hold_active(prof);
        if (other == NULL && atomic_load(&active) != NULL)
            return false;
        if (other == NULL)
            continue;
        mtp_status status = mtp__profile_pause(other);
        let_go(other);
        if (status != MTP_OK)
            return false;
    }
    return false;
}

void mtp__profile_resume(void)
{
    mtp_profile *other = hold_paused();
    if (other == NULL)
        return;
    mtp__profile_unpause(other); /* on failure it stays off: its spool has what it recorded */
    let_go(other);
}

void mtp__profile_remember(mtp_profile *prof)
{
    lock_ways();
    prof->paused_before = paused;
    paused = prof;
    unlock_ways();
}

bool mtp__profile_forget(mtp_profile *prof)
{
    bool found = false;
    lock_ways();
    for (mtp_profile **at = &paused; *at != NULL && !found; at = found ? at : &(*at)->paused_before)
        if (*at == prof) {
            *at = prof->paused_before;
            found = true;
        }
    unlock_ways();
    return found;
}

void mtp__profile_retire(mtp_profile *prof)
{
    const struct timespec moment = {0, 1000000};
    mtp__profile_forget(prof);
    lock_ways();
    prof->retired = true;
    for (int i = 0; i < PATIENCE_MS && prof->held > 0; i++) {
        unlock_ways();
        nanosleep(&moment, NULL);
        mtp__profile_forget(prof);
        lock_ways();
    }
    unlock_ways();
}

/* Those that were paused are the parent's. */
void mtp__profile_ways_forked(void)
{
    mtp_profile *prof = atomic_load(&active);
    pthread_mutex_init(&ways, NULL); /* its holder does not exist here */
    paused = NULL;
    if (prof != NULL)
        prof->held = 0;
}

mtp_profile *mtp__profile_active(void)
{
    return atomic_load(&active);
}

/* A spool that is still recording is finished; memory is discarded with the process. */
static void at_exit(void)
{
    mtp_profile *prof = mtp__profile_active();
    if (prof != NULL && prof->recording && prof->config.spool != NULL &&
        mtp__recorder_stop(prof->recorder, NULL) == MTP_OK)
        prof->recording = false;
}

void mtp__profile_exit_init(void)
{
    atexit(at_exit);
}
