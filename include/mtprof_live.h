/* mtprof_live.h - recordings that are watched while they are written. Included by mtprof.h.
 */
#ifndef MTPROF_LIVE_H
#define MTPROF_LIVE_H
#include <mtprof_analysis.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Watches recordings while their programs write them: `mtprof top`. A refresh reads only what is new since the last one,
 * so its cost depends on the rate of records and not on the length of the recording; so does the memory. Files are only
 * read, and no lock is taken: the programs do not notice.
 *
 *     mtp_live *live;  mtp_live_info info = MTP_LIVE_INFO_INIT;
 *     mtp_live_open("run.mtp", NULL, &live);           or a folder of spools
 *     for (;;) {
 *         mtp_live_refresh(live, 50000000, &info);     at most about 50 ms; info.unread: there is more
 *         for (size_t i = 0; i < mtp_live_row_count(live); i++)
 *             show(mtp_live_row_at(live, i));
 *     }
 *     mtp_live_close(live);
 *
 * Rows are those of mtp_averages, with the same names and rules, as far as they can be known before the end: scopes that
 * are open count until now. When a recording has ended, it is read once more, with all its clock anchors: then counts and
 * CPU times equal those of mtp_averages, to the nanosecond. A ring (MTP_KEEP_NEWEST) is not: the rows keep
 * what was seen before it was evicted. One thread at a time. */
typedef struct mtp_live mtp_live;

typedef struct mtp_live_options {
    size_t size;       /* sizeof(mtp_live_options) */
    int64_t window_ns; /* what `recent` means; default 5 s, at least 1 ms */
    uint64_t process;  /* only this pid, or MTP_PROCESS_MAIN; 0: all */
    uint32_t most;     /* rows for each process; names beyond that share one; default 65536 */
    bool alone;        /* a spool without the recordings beside it */
} mtp_live_options;
#define MTP_LIVE_OPTIONS_INIT                                                                                \
    {                                                                                                        \
        sizeof(mtp_live_options), 5000000000, 0, 65536, false                                                \
    }

typedef struct mtp_live_info {
    size_t size;            /* sizeof(mtp_live_info) */
    uint64_t processes;     /* recordings that are shown */
    uint64_t live;          /* of them: still being written */
    int64_t recorded_ns;    /* from the first clock anchor to the last record, or to now; the longest */
    uint64_t records;       /* read so far */
    double records_rate;    /* per second, in the window */
    int64_t window_ns;      /* what `recent` covers by now */
    uint64_t dropped;       /* records, as far as the files tell; all of them once a recording has stopped */
    uint64_t missed;        /* evicted from a ring before they were read here */
    uint64_t damaged;       /* chunks that could not be read */
    uint64_t file_bytes;    /* on disk */
    uint64_t unread;        /* bytes still to be read: repeat the refresh */
    uint64_t steps;         /* of the first process that has any */
    int64_t last_step;      /* its number */
    int64_t last_step_ns;   /* how long the last complete one took; 0: none yet */
    int64_t mean_step_ns;   /* of all complete ones but step 0, which has the start of the program */
    uint64_t rows_left_out; /* names that share a row, because there are more than `most` */
    uint64_t threads;
    bool is_ring; /* at least one file evicts its oldest records */
    bool settled; /* nothing changes any more: all have ended and were read to their end */
} mtp_live_info;
#define MTP_LIVE_INFO_INIT                                                                                   \
    {                                                                                                        \
        sizeof(mtp_live_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false               \
    }

/* MTP_E_IO, MTP_E_NOMEM; MTP_E_FORMAT: not a spool, such as JSON, or a folder without any. */
MTP_API mtp_status mtp_live_open(const char *path, const mtp_live_options *options, mtp_live **out);
MTP_API void mtp_live_close(mtp_live *live); /* NULL is fine */
/* Reads what is new, for at most about so many nanoseconds; 0: all of it. Finds files that have appeared; a file that was
 * replaced by a new recording is read from its beginning. MTP_E_NOMEM: what was read before stays, and the call may be
 * repeated. info may be NULL. */
MTP_API mtp_status mtp_live_refresh(mtp_live *live, int64_t most_ns, mtp_live_info *info);

/* Everything below is as of the last refresh, borrowed until the next one. */
typedef struct mtp_live_row {
    mtp_text name;        /* as mtp_averages shows it: "ProfilerStep*" */
    uint32_t kind;        /* mtp_event_kind */
    bool is_device;       /* device work: its times are device times */
    uint64_t count, open; /* open: of them, not ended */
    int64_t total_ns, self_ns, max_ns;
    uint64_t recent_count;                   /* ended in the window */
    int64_t recent_total_ns, recent_self_ns; /* self: spent in the window, by open ones too */
} mtp_live_row;
MTP_API size_t mtp_live_row_count(const mtp_live *live);
MTP_API const mtp_live_row *mtp_live_row_at(const mtp_live *live,
                                            size_t index); /* in no order; NULL: no such row */

typedef struct mtp_live_process {
    const char *file, *command; /* command: shortened; "": unknown */
    const char *problem;        /* "": none; else why it is not, or no longer, read */
    uint64_t pid, parent;       /* 0: unknown */
    mtp_outcome outcome;
    bool has_ledger; /* it has stopped, at least once */
    mtp_ledger ledger;
    uint64_t records, dropped, missed, file_bytes, threads;
    int64_t idle_ns; /* since its last record */
} mtp_live_process;
MTP_API size_t mtp_live_process_count(const mtp_live *live);
MTP_API const mtp_live_process *mtp_live_process_at(const mtp_live *live, size_t index);

/* A thread and what it is in: its open scopes, outermost first. */
typedef struct mtp_live_scope {
    mtp_text name;
    uint32_t kind;  /* mtp_event_kind */
    int64_t for_ns; /* since it began */
} mtp_live_scope;
typedef struct mtp_live_thread {
    uint64_t pid, tid;
    mtp_text name;    /* "": unknown */
    uint64_t depth;   /* open scopes */
    uint64_t unknown; /* of them: begun before what could be read; the others follow them */
    uint64_t records;
    int64_t idle_ns; /* since its last record */
    bool live;       /* its process is still recording */
} mtp_live_thread;
MTP_API size_t mtp_live_thread_count(const mtp_live *live);
MTP_API const mtp_live_thread *mtp_live_thread_at(const mtp_live *live, size_t index);
/* level 0: the innermost. NULL: no such scope. Borrowed until the next call. */
MTP_API const mtp_live_scope *mtp_live_scope_at(mtp_live *live, size_t thread, size_t level);

/* Memory that the program reports (mtp_memory_event, `mtprof run --memory`), by process and device. */
typedef struct mtp_live_memory {
    uint64_t pid;
    uint32_t device; /* mtp_device */
    int64_t allocated, peak, reserved;
} mtp_live_memory;
MTP_API size_t mtp_live_memory_count(const mtp_live *live);
MTP_API const mtp_live_memory *mtp_live_memory_at(const mtp_live *live, size_t index);

/* Calls `each` for every spool that a process is writing, until it returns false. Found by its open files, so only its
 * user, and root, can. MTP_E_ARG: no such process; MTP_E_STATE: it writes none; MTP_E_IO: permission denied. */
MTP_API mtp_status mtp_process_files(uint64_t pid, bool (*each)(void *user, const char *file), void *user);

#ifdef __cplusplus
}
#endif
#endif
