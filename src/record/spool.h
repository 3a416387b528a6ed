/* record/spool.h - reading a spool file, whatever became of its writer. The file is read with pread, one chunk at a time: it may
 * be cut short under us, and no number in it is believed before it was checked. */
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
    uint64_t
        missing;    /* pieces that the header of a complete spool tells of and the file does not have whole */
    uint64_t magic; /* of its chunks */
    mtp__places places; /* in the order of mtp__pool_visit */
    mtp__chunk *chunk;  /* owned: the one that was read last */
    struct { /* what the chunks that were read say of those that are not there: mtp__spool_follow */
        uint32_t stream, cycle;
        uint64_t next,
            control_next; /* records before the stream's next chunk, without those that were dropped */
        uint64_t records, control; /* read so far, of the program and of the control stream */
        uint64_t holes, control_holes;
        bool lasting; /* the last control chunk is for all epochs */
    } follow;
} mtp__spool;

typedef enum mtp__chunk_state {
    MTP__CHUNK_WHOLE,
    MTP__CHUNK_PARTLY, /* of the control stream: some of its records are damaged, and are not among the words */
    MTP__CHUNK_DAMAGED, /* nothing of it can be used */
    MTP__CHUNK_GONE     /* its writer goes on, and has used the place for another */
} mtp__chunk_state;

/* close() is to be called after a failure, too. MTP_E_IO, MTP_E_FORMAT (not a spool, of another version, or its header and
 * the copy are damaged), MTP_E_NOMEM. */
mtp_status mtp__spool_open(mtp__spool *s, const char *path);
void mtp__spool_close(mtp__spool *s);
/* Reads chunk `i` of `count` into s->chunk; `words` of it are written. why: what is wrong with it, or NULL. Of the control
 * stream all words were checked. */
mtp__chunk_state mtp__spool_read(mtp__spool *s, uint64_t i, uint32_t *words, const char **why);
/* Of each chunk that was read, stream by stream as they are listed: is something lost before it, without a trace? */
bool mtp__spool_follow(mtp__spool *s, uint32_t words);
/* When all were: places where something is lost, as their numbers tell, or the totals of a spool that was stopped. */
uint64_t mtp__spool_holes(mtp__spool *s);
uint64_t mtp__spool_byte(const mtp__spool *s, uint64_t i); /* where chunk i begins in the file */
uint32_t mtp__spool_span(const mtp__spool *s, uint64_t i); /* bytes that it has; of a damaged one: at most */

typedef struct mtp__spool_report {
    uint64_t total;    /* chunks in the file, as far as that can be told */
    uint64_t chunks;   /* read */
    uint64_t unsealed; /* of them: still in a writer's hands when it died; read up to the last whole record */
    uint64_t
        damaged; /* passed over, or read in part: checksum, magic or size wrong; or lost without a trace */
    uint64_t missing; /* as above */
    uint64_t pid;
    mtp__spool_header header; /* known before the first chunk is visited */
    bool header_damaged;
    bool complete; /* the session was stopped */
    mtp_outcome outcome;
} mtp__spool_report;

/* Each chunk of the file, in the order of mtp__pool_visit. Damaged chunks are passed over and counted. Fails as open()
 * does, or with what the visitor returns. `report` may be NULL. */
mtp_status mtp__spool_visit(const char *path, mtp__chunk_visitor *visitor, void *user,
                            mtp__spool_report *report);
mtp_status mtp__spool_visit_control(const char *path, mtp__chunk_visitor *visitor, void *user,
                                    mtp__spool_report *report); /* that stream alone */

/* The header, or its copy if that is the right one (*damaged: one of them is not). For a file that is open. */
mtp_status mtp__spool_header_read(int fd, mtp__spool_header *header, bool *damaged);
mtp_outcome mtp__spool_outcome(int fd, const mtp__spool_header *header);
bool mtp__spool_recognise(const void *start, size_t bytes); /* by the file's first bytes */
#endif
