/* A program with a profile of its own, for the malloc collector: what libmtprof allocates is not the program's.
 *
 *     malloc_profiled OUT.json     two recordings; the second is exported
 */
#include <malloc.h>
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void record(mtp_profile *prof)
{
    char name[64];
    if (mtp_profile_start(prof) != MTP_OK)
        exit(2);
    void *first = malloc(1111); /* the thread's first record */
    for (int i = 0; i < 20000; i++) {
        int length = snprintf(name, sizeof name, "a scope with a name of its own %d", i);
        mtp_token token = mtp_scope_begin_text(name, (size_t)length);
        mtp_name(name);
        mtp_scope_end(token);
    }
    void *second = malloc(2222);
    free(first);
    free(second);
    if (mtp_profile_stop(prof) != MTP_OK)
        exit(3);
    free(malloc(3333)); /* of no recording */
}

int main(int argc, char **argv)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    mtp_trace *trace;
    mtp_ledger ledger = MTP_LEDGER_INIT;
    config.profile_memory = true;
    if (argc < 2 || mtp_profile_create(&config, &prof) != MTP_OK)
        return 1;
    record(prof);
    record(prof);
    if (mtp_profile_trace(prof, &trace) != MTP_OK || mtp_trace_export(trace, argv[1], NULL) != MTP_OK ||
        mtp_profile_ledger(prof, &ledger) != MTP_OK)
        return 4;
    printf("%llu dropped\n", (unsigned long long)ledger.dropped);
    mtp_trace_destroy(trace);
    mtp_profile_destroy(prof);
    return 0;
}
