/* record/spool/out.h - writes a spool file: creates and locks it, grows it by mapped pieces, and finishes it.
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
#include "record/spool/name.h"

typedef struct mtp__spool_out {
    int fd;        /* -1: none; else see mtp__spool_out_descriptor */
    dev_t device;  /* identify the file ... */
    ino_t inode;   /* ... */
    bool reopened; /* the first descriptor was closed by the program; our mappings still hold its lock */
    int error;     /* errno that ended the file's growth, or 0 */
    uint32_t piece_bytes;  /* of a piece */
    bool finished;         /* the header says that it is complete */
    uint64_t pieces;       /* in use, without the header's */
    uint64_t room;         /* pieces that have blocks on the disk */
    uint64_t step;         /* pieces to grow by: fewer when the disk is nearly full */
    uint64_t limit;        /* the most pieces that it may have */
    mtp__anchor made;      /* when the file was created */
    uint64_t magic;        /* of its chunks */
    mtp__totals totals;    /* for the header of the complete file */
    atomic_int cut;        /* 1: another process truncated it; no more is written (base/sigbus.h) */
    mtp__spool_name *name; /* owned; NULL: none */
} mtp__spool_out;

/* An empty spool with its header and blocks for `least` pieces. close() must be called after a failure,
 * too. */
mtp_status mtp__spool_out_open(mtp__spool_out *f, const char *path, uint32_t piece_bytes, uint64_t least,
                               uint64_t limit);
void mtp__spool_out_close(mtp__spool_out *f);
/* In a forked child, possibly in a signal handler: what needs malloc is left to close. */
void mtp__spool_out_forked(mtp__spool_out *f);
/* Programs close descriptors that they did not open (daemons: all above 2), and the number is soon reused for
 * another file. So checks that the descriptor still refers to our file; if not, leaves it alone and reopens
 * the spool by its name. -1: the file no longer has that name; errno is EBADF. */
int mtp__spool_out_descriptor(mtp__spool_out *f);
/* Maps the next piece, zeroed, at `at`. false: see errno. */
bool mtp__spool_out_next(mtp__spool_out *f, void *at);
bool mtp__spool_out_cut(mtp__spool_out *f);    /* has another process truncated it? */
void mtp__spool_out_finish(mtp__spool_out *f); /* truncates it, marks it complete; recording may resume */
void mtp__spool_out_go_on(mtp__spool_out *f);  /* no longer complete */
/* Copies `bytes` from byte `from` of a piece; returns like pread. */
ssize_t mtp__spool_out_read(const mtp__spool_out *f, uint64_t piece, uint32_t from, mtp__chunk *copy,
                            uint32_t bytes); /* mtp__chunk_read */
#endif
