/* record/warnings.c - what a profile has to tell its owner. */
#include <stdarg.h>
#include <stdatomic.h>
#include "base/plain.h"
#include "record/profile.h"

void mtp__profile_warn(mtp_profile *prof, mtp_warning code, const char *fmt, ...)
{
    char text[512];
    va_list args;
    if (prof->config.on_warning == NULL || prof->leaving)
        return;
    va_start(args, fmt);
    mtp__format_list(text, sizeof text, fmt, args);
    va_end(args);
    prof->config.on_warning(prof->config.user, code, text);
}

/* What would have kept more, by the main cause of the loss. */
static const char *advice(const mtp_profile *prof, mtp_drop worst)
{
    switch (worst) {
    case MTP_DROP_BUDGET:
        return prof->config.when_full == MTP_STOP_WHEN_FULL
                   ? ": a larger buffer_bytes keeps more; when_full can keep the newest instead, or stream "
                     "to a spool"
                   : ": a larger buffer_bytes, or a smaller chunk_bytes, leaves more room for each thread";
    case MTP_DROP_DISK:
        if (atomic_load(&prof->recorder->pool.file.cut) != 0)
            return "";
        return prof->recorder->pool.file.error != 0 ? ": make room on its disk, or put the spool on another"
                                                    : ": use a larger spool_bytes, or 0 for no limit";
    case MTP_DROP_NOMEM:
        return ": a smaller buffer_bytes leaves more for the program";
    default:
        return "";
    }
}

/* Warnings after a cycle. */
void mtp__profile_warn_after(mtp_profile *prof, uint32_t stuck)
{
    mtp_ledger l = MTP_LEDGER_INIT;
    mtp__recorder_ledger(prof->recorder, &l);
    int worst = 0;
    for (int k = 1; k < MTP_DROP_CAUSES; k++)
        if (l.dropped_by[k] > l.dropped_by[worst])
            worst = k;
    if (l.dropped > 0 && !(worst == MTP_DROP_OVERWRITTEN && prof->config.when_full == MTP_KEEP_NEWEST))
        mtp__profile_warn(prof, MTP_WARNING_RECORDS_DROPPED, "%llu of %llu records were not kept (%s)%s",
                          (unsigned long long)l.dropped, (unsigned long long)l.emitted,
                          mtp_drop_text((mtp_drop)worst), advice(prof, (mtp_drop)worst));
    if (l.lost_definitions > 0)
        mtp__profile_warn(prof, MTP_WARNING_DEFINITIONS_LOST,
                          "%llu names, shapes or stacks could not be kept and are shown as \"?\"%s",
                          (unsigned long long)l.lost_definitions,
                          prof->config.when_full == MTP_STREAM
                              ? ": use fewer distinct ones"
                              : ": a larger buffer_bytes keeps more; streaming to a spool keeps all");
    if (prof->recorder->pool.file.error != 0)
        mtp__profile_warn(prof, MTP_WARNING_SPOOL_FAILED,
                          "spool '%s' could not grow: %s; its contents are intact", mtp_profile_spool(prof),
                          mtp__reason(prof->recorder->pool.file.error));
    if (atomic_load(&prof->recorder->pool.file.cut) != 0)
        mtp__profile_warn(prof, MTP_WARNING_SPOOL_FAILED,
                          "spool '%s' was truncated by another program while recording: it may still hold "
                          "some of the records, but all are counted as lost",
                          mtp_profile_spool(prof));
    if (stuck > 0)
        mtp__profile_warn(
            prof, MTP_WARNING_THREAD_STUCK,
            "%u threads did not leave a recording call within a second; their last records are lost", stuck);
    if (prof->forks > 0)
        mtp__profile_warn(
            prof, MTP_WARNING_FORK_NOT_FOLLOWED,
            "%llu processes were forked while recording and are not in this trace: set follow_fork",
            (unsigned long long)prof->forks);
    if (l.emitted != l.kept + l.dropped)
        mtp__profile_warn(prof, MTP_WARNING_LEDGER_MISMATCH,
                          "the ledger does not balance: %llu emitted, %llu kept, %llu dropped",
                          (unsigned long long)l.emitted, (unsigned long long)l.kept,
                          (unsigned long long)l.dropped);
}
