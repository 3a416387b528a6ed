/* record/spool/spool.h - reads a spool file, whatever happened to its writer. The file is read with pread, one
 * chunk at a time: it may be truncated meanwhile, and no number in it is trusted before it was checked. */
#ifndef MTP_RECORD_SPOOL_H
#define MTP_RECORD_SPOOL_H
#include <mtprof.h>
#include "record/piece.h"
#include "record/pool.h"

/* A file that is open for reading. */
typedef struct mtp__spool {
    int fd;
    mtp__spool_header header;
    bool header_damaged; /* one of its two copies is; the other one was used */
    mtp_outcome outcome;
    uint64_t file_bytes;
    uint64_t missing;   /* of a complete spool: pieces that the file does not have in full */
    uint64_t magic;     /* of its chunks */
    mtp__places places; /* in the order of mtp__pool_visit */
    mtp__chunk *chunk;  /* owned: the one that was read last */
    struct {            /* reveals missing chunks: mtp__spool_follow */
        uint32_t stream, cycle;
        uint64_t next,
            control_next;          /* records expected before the stream's next chunk, without dropped ones */
        uint64_t records, control; /* read so far: data, control */
        uint64_t holes, control_holes;
        bool permanent; /* the last control chunk belongs to all epochs */
    } follow;
} mtp__spool;

typedef enum mtp__chunk_state {
    MTP__CHUNK_WHOLE,
    MTP__CHUNK_PARTLY,  /* control: some of its records are damaged, and not among the words */
    MTP__CHUNK_DAMAGED, /* unusable */
    MTP__CHUNK_GONE     /* its writer is alive and has reused its place */
} mtp__chunk_state;

/* close() must be called after a failure, too. MTP_E_IO, MTP_E_FORMAT (not a spool, another version, or both
 * header and copy are damaged), MTP_E_NOMEM. */
mtp_status mtp__spool_open(mtp__spool *s, const char *path);
void mtp__spool_close(mtp__spool *s);
/* Reads chunk `i` of `count` into s->chunk; `words` of it are written. why: what is wrong with it, or NULL.
 * All words of a control chunk have been checked. */
mtp__chunk_state mtp__spool_read(mtp__spool *s, uint64_t i, uint32_t *words, const char **why);
/* After each chunk that was read, stream by stream as listed: is something missing before it that left no
 * other trace? */
bool mtp__spool_follow(mtp__spool *s, uint32_t words);
/* After all chunks: the number of gaps, according to the chunks' counts or the totals of a stopped spool. */
uint64_t mtp__spool_holes(mtp__spool *s);
uint64_t mtp__spool_byte(const mtp__spool *s, uint64_t i); /* where chunk i begins in the file */
uint32_t mtp__spool_span(const mtp__spool *s, uint64_t i); /* in bytes; a damaged one: at most */

typedef struct mtp__spool_report {
    uint64_t total;    /* chunks in the file, as far as known */
    uint64_t chunks;   /* read */
    uint64_t unsealed; /* of them: open when the writer died; read up to the last complete record */
    uint64_t damaged;  /* skipped or read in part (wrong checksum, magic or size), or missing */
    uint64_t missing;  /* as above */
    uint64_t pid;
    mtp__spool_header header; /* known before the first chunk is visited */
    bool header_damaged;
    bool complete; /* the session was stopped */
    mtp_outcome outcome;
} mtp__spool_report;

/* Visits each chunk of the file, in the order of mtp__pool_visit. Damaged chunks are skipped and counted.
 * Fails like open(), or with what the visitor returns. `report` may be NULL. */
mtp_status mtp__spool_visit(const char *path, mtp__chunk_visitor *visitor, void *user,
                            mtp__spool_report *report);
mtp_status mtp__spool_visit_control(const char *path, mtp__chunk_visitor *visitor, void *user,
                                    mtp__spool_report *report); /* only that stream */

/* The header, or its copy if only that is valid (*damaged: one of them is not). For a file that is open. */
mtp_status mtp__spool_header_read(int fd, mtp__spool_header *header, bool *damaged);
mtp_outcome mtp__spool_outcome(int fd, const mtp__spool_header *header);
bool mtp__spool_recognise(const void *start, size_t bytes); /* by the file's first bytes */
#endif
