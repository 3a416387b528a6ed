/* record/active.c - the one active profile of a process. When the process exits, a spool that it is still
 * writing is finished.
 *
 * A profile that gives way (`mtprof run` records the process) pauses while the program runs one of its own.
 */
#include <stdlib.h>
#include "record/profile.h"

static _Atomic(mtp_profile *) active;    /* borrowed */
static _Atomic(mtp_profile *) displaced; /* borrowed: gave way to the active one */

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

bool mtp__profile_take(mtp_profile *prof)
{
    if (mtp__profile_claim(prof))
        return true;
    mtp_profile *other = mtp__profile_active();
    if (other == NULL || other == prof || !other->config.gives_way || !other->by_hand)
        return false;
    if (mtp_profile_stop_trace(other) != MTP_OK)
        return false;
    atomic_store(&displaced, other);
    mtp__profile_warn(other, MTP_WARNING_GAVE_WAY,
                      "the program started a profile of its own: until it stops, this one pauses");
    return mtp__profile_claim(prof);
}

void mtp__profile_resume(void)
{
    mtp_profile *other = atomic_load(&displaced);
    if (other == NULL || mtp__profile_active() != NULL ||
        !atomic_compare_exchange_strong(&displaced, &other, NULL))
        return;
    mtp_profile_start_trace(other); /* on failure it stays off: its spool has what it recorded */
}

void mtp__profile_forget(mtp_profile *prof)
{
    mtp_profile *other = prof;
    if (prof == NULL)
        atomic_store(&displaced, NULL);
    else
        atomic_compare_exchange_strong(&displaced, &other, NULL);
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
