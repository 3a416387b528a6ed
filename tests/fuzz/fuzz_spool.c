/* Fuzz: spools. The input is either a spool file itself (first byte even), or describes the records of one
 * (odd): these are written by the library's own pool, so that checksums match, and may be damaged afterwards.
 *
 * Besides not crashing, also as a live recording: an undamaged spool from the pool opens with all its chunks; what opens can be
 * analysed; what does not fails with MTP_E_FORMAT; check agrees with open; nothing leaks.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>
#include "fuzz.h"
#include "trace/trace.h"

static void watch(const char *path)
{
    mtp_live *live;
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    int writer = open(path, O_RDWR | O_CLOEXEC);
    MUST(writer >= 0);
    mtp__lock_file(writer); /* as if it were being recorded */
    mtp_status status = mtp_live_open(path, NULL, &live);
    MUST(status == MTP_OK || status == MTP_E_FORMAT);
    for (int i = 0; i < 3 && status == MTP_OK; i++)
        MUST(mtp_live_refresh(live, 0, &info) == MTP_OK);
    close(writer);
    for (int i = 0; i < 2 && status == MTP_OK; i++)
        MUST(mtp_live_refresh(live, 0, &info) == MTP_OK);
    for (size_t i = 0; i < mtp_live_thread_count(live); i++)
        for (size_t level = 0; level < 4; level++)
            mtp_live_scope_at(live, i, level);
    mtp_live_close(live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = mtp__alloc_live();
    const char *path;
    bool whole = fuzz_make_spool(data, size, &path);
    mtp_trace *t;
    mtp_check *check;
    mtp_status status = mtp_trace_open(path, NULL, &t);
    MUST(status == MTP_OK || status == MTP_E_FORMAT);
    if (whole)
        MUST(status == MTP_OK && fuzz_spool_is_whole(path));
    if (status == MTP_OK)
        fuzz_analyse(t);
    mtp_trace_destroy(t);
    mtp_status checked = mtp_trace_check_file(path, NULL, &check);
    MUST(checked == MTP_OK || checked == MTP_E_FORMAT);
    mtp_check_destroy(check);
    watch(path);
    unlink(path);
    MUST(mtp__alloc_live() == live);
    return 0;
}
