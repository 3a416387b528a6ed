/* trace/records/blob.h - the definitions of a control stream that are bytes: names, threads, metadata. Long ones come in
 * parts, which are concatenated. For trace/ and live/. */
#ifndef MTP_TRACE_RECORDS_BLOB_H
#define MTP_TRACE_RECORDS_BLOB_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mtp__blob_parts { /* {0}: none */
    unsigned char *bytes;        /* owned */
    size_t total, have;
    uint32_t id;
    unsigned kind;
} mtp__blob_parts;

typedef struct mtp__blob {
    uint32_t id, tid;  /* tid: of a thread */
    const char *bytes; /* borrowed until the next take; aligned to 8 */
    size_t length;
} mtp__blob;

/* The words after word 1 of a blob's record. true: it is complete. */
bool mtp__blob_take(mtp__blob_parts *parts, unsigned kind, const uint64_t *words, uint32_t count,
                    mtp__blob *out);
void mtp__blob_parts_fini(mtp__blob_parts *parts);
#endif
