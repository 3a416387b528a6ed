/* record/active.c - the one active profile of a process. When the process exits, a spool that it is still
 * writing is finished.
 */
#include <stdlib.h>
#include "record/profile.h"

static _Atomic(mtp_profile *) active; /* borrowed */

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
