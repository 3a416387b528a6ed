/* record/spool_out.h - writing a spool file: it is created and locked, grows by pieces that are mapped, and is finished.
 *
 * Threads: under the pool's lock, or while no writer is inside the recorder.
 */
#ifndef MTP_RECORD_SPOOL_OUT_H
#define MTP_RECORD_SPOOL_OUT_H
#include <mtprof.h>
#include <stdatomic.h>
#include <sys/types.h>
#include "base/clock.h"
#include "record/format.h"
#include "record/spool_name.h"

typedef struct mtp__spool_out {
    int fd;        /* -1: there is none; else see mtp__spool_out_descriptor */
    dev_t device;  /* the file that it is open for ... */
    ino_t inode;   /* ... */
    bool reopened; /* the first descriptor was closed by the program; our mappings still hold its lock */
    int error;     /* errno that ended the file's growth, or 0 */
    uint32_t chunk_bytes; /* of a piece */
    bool finished;        /* the file says that it is complete */
    uint64_t pieces;      /* in use, without the header's */
    uint64_t room;        /* pieces that have blocks on the disk */
    uint64_t step;        /* pieces that it grows by: fewer when the disk is nearly full */
    uint64_t limit;       /* the most there may be */
    mtp__anchor made;     /* when the file was */
    uint64_t magic;       /* of its chunks */
    mtp__totals totals;   /* for the header of the complete file */
    atomic_int
        cut; /* 1: somebody else made the file shorter, and nothing more goes into it (base/sigbus.h) */
    mtp__spool_name *name; /* owned: what it is called; NULL: there is none */
} mtp__spool_out;

/* An empty spool with its header and blocks for `least` pieces. After a failure, too, close() is to be called. */
mtp_status mtp__spool_out_open(mtp__spool_out *f, const char *path, uint32_t chunk_bytes, uint64_t least,
                               uint64_t limit);
void mtp__spool_out_close(mtp__spool_out *f);
/* In a forked child, maybe in a signal handler: what needs malloc waits for close. */
void mtp__spool_out_forked(mtp__spool_out *f);
/* Programs close what they did not open (daemons: all above 2), and the number is soon that of a file of theirs. So before a
 * descriptor is used its file is looked at, and if it is not ours it is let be, and the spool opened again by its name. -1: it
 * has that name no more; errno is EBADF. */
int mtp__spool_out_descriptor(mtp__spool_out *f);
/* Makes the memory at `at` show the next piece, zeroed. false: errno says why not. */
bool mtp__spool_out_next(mtp__spool_out *f, void *at);
bool mtp__spool_out_cut(mtp__spool_out *f);    /* has somebody else made it shorter? */
void mtp__spool_out_finish(mtp__spool_out *f); /* cut to size and marked complete; may be gone on with */
void mtp__spool_out_go_on(mtp__spool_out *f);  /* it is not complete, if it was */
/* A copy of `bytes` from byte `from` of a piece: what pread returns. */
ssize_t mtp__spool_out_read(const mtp__spool_out *f, uint64_t piece, uint32_t from, void *copy, size_t bytes);
#endif
