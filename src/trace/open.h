/* trace/open.h - what opening a file begins with, whether it is read or checked. */
#ifndef MTP_TRACE_OPEN_H
#define MTP_TRACE_OPEN_H
#include "base/budget.h"
#include "trace/json/source.h"
#include "trace/records/tally.h"

/* Converts a caller's options to the current struct; older callers have a shorter one, NULL means the
 * defaults. MTP_E_ABI. */
mtp_status mtp__open_read_options(const mtp_open_options *from, mtp_open_options *to);
/* The same for a path, with its memory bound in force: the caller ends that with mtp__budget_end(outer). */
mtp_status mtp__open_begin(const char *path, const mtp_open_options *from, mtp_open_options *to,
                           mtp__budget *outer);

typedef struct mtp__input {
    mtp_format format;   /* MTP_FORMAT_RECORDING; or _KINETO: JSON, perhaps an execution trace */
    mtp__source *source; /* JSON: owned by the caller; else NULL */
    const char *file;    /* a spool, or a job: its path, borrowed */
    bool is_job;         /* several ranks (trace/job/job.h) */
} mtp__input;
/* Recognises a file's format by its first bytes; "-": standard input. MTP_E_UNSUPPORTED: a spool in a pipe. */
mtp_status mtp__open_input(const char *path, mtp__input *out);
const char *mtp__open_name(const char *path); /* for messages */
/* tally: events are counted there if possible; NULL, or with device work: they are added to the trace. */
mtp_status mtp__open_spool(const char *file, mtp__tally *tally, mtp_trace **out);
#endif
