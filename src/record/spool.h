/* record/spool.h - reading a spool file, whatever became of its writer. */
#ifndef MTP_RECORD_SPOOL_H
#define MTP_RECORD_SPOOL_H
#include <mtprof.h>
#include "record/pool.h"

typedef struct mtp__spool_report {
    uint64_t chunks;   /* read */
    uint64_t unsealed; /* of them: still in a writer's hands when it died; read up to the last whole record */
    uint64_t damaged;  /* passed over: checksum, magic or size wrong */
    uint64_t missing;  /* mtp__spool_missing() */
    uint64_t pid;
    uint32_t version; /* of the format; known before the first chunk is visited */
    bool complete;    /* the session was stopped */
    mtp_outcome outcome;
} mtp__spool_report;

/* Each chunk of the file, in the order of mtp__pool_visit. Damaged chunks are passed over and counted. Fails with MTP_E_IO, MTP_E_FORMAT
 * (not a spool, or of a newer version), MTP_E_NOMEM, or what the visitor returns. `report` may be NULL. */
mtp_status mtp__spool_visit(const char *path, mtp__chunk_visitor *visitor, void *user,
                            mtp__spool_report *report);
mtp_status mtp__spool_visit_control(const char *path, mtp__chunk_visitor *visitor,
                                    void *user); /* that stream alone */
/* Of the file behind fd. missing: whole chunks that the header of a complete spool tells of and the file does not have. */
mtp_outcome mtp__spool_outcome(int fd, const mtp__spool_header *header);
uint64_t mtp__spool_missing(const mtp__spool_header *header, uint64_t file_bytes);
/* Which piece, from the ith on, the file has bytes for: a spool's unused end may be terabytes of nothing. Pieces before
 * *known are known to have some; 0 at first. At most `pieces`. */
uint64_t mtp__spool_next_piece(int fd, uint32_t chunk_bytes, uint64_t i, uint64_t pieces, uint64_t *known);
/* Grows the list, which is the caller's to free. false: out of memory. */
bool mtp__chunk_place_add(mtp__chunk_place **list, uint64_t *count, const mtp__chunk_place *place);
bool mtp__spool_recognise(const void *start, size_t bytes); /* by the file's first bytes */
#endif
