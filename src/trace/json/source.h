/* trace/json/source.h - bytes in order from a file, a pipe, standard input or memory, decompressed as they
 * are read.
 *
 * gzip and zstd are recognised by their first bytes; consecutive members or frames are read as one. Only a
 * small buffer of compressed bytes is held. One thread at a time.
 */
#ifndef MTP_TRACE_JSON_SOURCE_H
#define MTP_TRACE_JSON_SOURCE_H
#include <mtprof.h>
#include <sys/types.h>

typedef struct mtp__source mtp__source;

/* Fails with MTP_E_IO, MTP_E_FORMAT (empty), MTP_E_NOMEM; *out is then NULL. "-": standard input. */
mtp_status mtp__source_open(const char *path, mtp__source **out);
/* The same for `bytes` of a file, from an offset; 0: to its end. */
mtp_status mtp__source_open_part(const char *path, uint64_t from, uint64_t bytes, mtp__source **out);
/* Memory: borrowed until close. For tests: returns at most `piece` bytes per read (0: no limit). */
mtp_status mtp__source_memory(const void *bytes, size_t length, size_t piece, mtp__source **out);
void mtp__source_close(mtp__source *s); /* NULL is fine */

/* The first raw bytes of the file; at least 512 unless it is shorter. Borrowed until the first read. */
const void *mtp__source_head(const mtp__source *s, size_t *bytes);
bool mtp__source_seekable(const mtp__source *s);

/* At most `room` bytes, 0: the end. -1: failed and the error is set; mtp__source_status() returns the
 * status. */
ssize_t mtp__source_read(mtp__source *s, void *to, size_t room);
mtp_status mtp__source_status(const mtp__source *s);

uint64_t mtp__source_done(const mtp__source *s);    /* bytes of the file consumed */
uint64_t mtp__source_total(const mtp__source *s);   /* its size; 0: unknown */
uint64_t mtp__source_members(const mtp__source *s); /* gzip members started so far */
const char *mtp__source_form(const mtp__source *s); /* "", "gzip" or "zstd" */
#endif
