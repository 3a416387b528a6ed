/* Fuzz: spools. The input is either a spool file itself (first byte even), or describes the records of one
 * (odd): these are written by the library's own pool, so that checksums match, and may be damaged afterwards.
 *
 * Besides not crashing: an undamaged spool from the pool opens with all its chunks; what opens can be
 * analysed; what does not fails with MTP_E_FORMAT; check agrees with open; nothing leaks.
 */
#define _GNU_SOURCE
#include <unistd.h>
#include "fuzz.h"
#include "trace/trace.h"

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
    unlink(path);
    MUST(mtp__alloc_live() == live);
    return 0;
}
