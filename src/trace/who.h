/* trace/who.h - whose trace it is: the job, rank and machine that its metadata tell. Ranks, digests and tables ask here. */
#ifndef MTP_TRACE_WHO_H
#define MTP_TRACE_WHO_H
#include "trace/json/text.h"
#include "trace/trace.h"

typedef struct mtp__who {
    int64_t rank, world_size, local_rank; /* -1: unknown. rank: distributedInfo's, else the file name's */
    mtp_text job, host, backend;          /* without escapes, NUL-terminated; length 0: unknown */
    mtp__buffer texts;                    /* owned */
} mtp__who;

/* `path`: of the file, NULL: t->source. false: out of memory; there is nothing to free then. */
bool mtp__who_read(mtp__who *who, const mtp_trace *t, const char *path);
void mtp__who_fini(mtp__who *who);
#endif
