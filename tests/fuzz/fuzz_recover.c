/* Fuzz: mtp_recover, with the inputs of fuzz_spool.
 *
 * Besides not crashing: the recovered spool opens, and nothing in it is damaged or missing; recovering it
 * again gives the same bytes; nothing leaks.
 */
#define _GNU_SOURCE
#include <unistd.h>
#include "fuzz.h"
#include "trace/trace.h"

static void slurp(const char *path, fuzz_text *out)
{
    char buffer[4096];
    FILE *f = fopen(path, "rb");
    MUST(f != NULL);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
        fuzz_sink(out, buffer, n);
    fclose(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = mtp__alloc_live();
    const char *path;
    char once[128], twice[128];
    bool whole = fuzz_make_spool(data, size, &path);
    snprintf(once, sizeof once, "%s.once", path);
    snprintf(twice, sizeof twice, "%s.twice", path);
    mtp_status status = mtp_recover(path, once, NULL);
    MUST(status == MTP_OK || (status == MTP_E_FORMAT && !whole));
    if (status == MTP_OK) {
        fuzz_text a = {0}, b = {0};
        mtp_trace *t;
        MUST(mtp_trace_open(once, NULL, &t) == MTP_OK);
        MUST(fuzz_spool_is_whole(once));
        mtp_trace_destroy(t);
        MUST(mtp_recover(once, twice, NULL) == MTP_OK);
        slurp(once, &a);
        slurp(twice, &b);
        MUST(a.length == b.length && (a.length == 0 || memcmp(a.bytes, b.bytes, a.length) == 0));
        fuzz_text_free(&a);
        fuzz_text_free(&b);
        unlink(twice);
        unlink(once);
    }
    unlink(path);
    MUST(mtp__alloc_live() == live);
    return 0;
}
