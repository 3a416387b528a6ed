/* present/report/blob.c - data in a page: deflated, as base64. */
#include <string.h>
#include "base/error.h"
#include "present/report/report.h"

#define LEVEL 6 /* bench: report_write_s; 9 takes twice as long for 2 % */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Everything in the buffer; the last bytes of a blob may be fewer than three. */
static void put_base64(mtp__blob *b)
{
    const unsigned char *at = b->buffer, *end = at + b->used;
    while (at < end) {
        char *p = mtp__out_room(b->o);
        const unsigned char *stop = end - at > 1536 ? at + 1536 : end;
        for (; stop - at >= 3; at += 3, p += 4) {
            uint32_t v = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
            p[0] = digits[v >> 18], p[1] = digits[v >> 12 & 63];
            p[2] = digits[v >> 6 & 63], p[3] = digits[v & 63];
        }
        if (stop == end && at < end) {
            uint32_t v = (uint32_t)at[0] << 16 | (end - at > 1 ? (uint32_t)at[1] << 8 : 0);
            p[0] = digits[v >> 18], p[1] = digits[v >> 12 & 63];
            p[2] = end - at > 1 ? digits[v >> 6 & 63] : '=', p[3] = '=';
            p += 4;
            at = end;
        }
        b->o->at = p;
    }
    b->used = 0;
}

mtp_status mtp__blob_begin(mtp__blob *b, mtp__out *o, const char *id, unsigned trace)
{
    memset(&b->z, 0, sizeof b->z);
    b->o = o;
    b->used = 0;
    b->failed = false;
    b->z.zalloc = mtp__zlib_alloc;
    b->z.zfree = mtp__zlib_free;
    if (deflateInit(&b->z, LEVEL) != Z_OK)
        return MTP_FAIL(MTP_E_NOMEM, "a compressor");
    MTP__OUT(o, "<script type=\"application/octet-stream\" id=\"");
    mtp__out_text(o, id);
    MTP__OUT(o, "-");
    mtp__out_u64(o, trace);
    MTP__OUT(o, "\">");
    return MTP_OK;
}

static void squeeze(mtp__blob *b, const void *bytes, size_t length, int how)
{
    const unsigned char *at = bytes;
    int rc;
    do {
        unsigned n = length < 1u << 30 ? (unsigned)length : 1u << 30;
        b->z.next_in = (unsigned char *)(uintptr_t)at; /* zlib does not write there */
        b->z.avail_in = n;
        at += n;
        length -= n;
        do {
            b->z.next_out = b->buffer + b->used;
            b->z.avail_out = MTP__BLOB_BYTES - b->used;
            rc = deflate(&b->z, length == 0 ? how : Z_NO_FLUSH);
            b->used = MTP__BLOB_BYTES - b->z.avail_out;
            if (b->used == MTP__BLOB_BYTES)
                put_base64(b);
        } while (b->z.avail_in > 0 || (how == Z_FINISH && length == 0 && rc == Z_OK));
    } while (length > 0);
    b->failed |= rc == Z_STREAM_ERROR;
}

bool mtp__blob_sink(void *blob, const void *bytes, size_t length)
{
    mtp__blob *b = blob;
    if (length > 0)
        squeeze(b, bytes, length, Z_NO_FLUSH);
    return !b->failed && !b->o->failed;
}

mtp_status mtp__blob_end(mtp__blob *b, mtp_status status)
{
    if (status == MTP_OK)
        squeeze(b, "", 0, Z_FINISH);
    deflateEnd(&b->z);
    put_base64(b);
    MTP__OUT(b->o, "</script>\n");
    if (status == MTP_OK && b->failed)
        return MTP_FAIL(MTP_E_STATE, "zlib could not compress the report");
    return status;
}

/* ------------------------------------------------------------------------------------------------ columns */

static void put_heading(mtp__blob *b, const char *name, uint32_t count, unsigned planes)
{
    unsigned char head[16] = {0};
    memcpy(head, name, strlen(name) < 8 ? strlen(name) : 8);
    for (unsigned i = 0; i < 4; i++)
        head[8 + i] = (unsigned char)(count >> 8 * i);
    head[12] = (unsigned char)planes;
    mtp__blob_sink(b, head, sizeof head);
}

void mtp__blob_column(mtp__blob *b, const char *name, const uint64_t *values, uint32_t count)
{
    uint64_t any = 0;
    unsigned planes = 0;
    unsigned char part[4096];
    for (uint32_t i = 0; i < count; i++)
        any |= values[i];
    for (; any != 0; any >>= 8)
        planes++;
    put_heading(b, name, count, planes);
    for (unsigned plane = 0; plane < planes; plane++)
        for (uint32_t i = 0; i < count;) {
            uint32_t n = count - i < sizeof part ? count - i : (uint32_t)sizeof part;
            for (uint32_t k = 0; k < n; k++)
                part[k] = (unsigned char)(values[i + k] >> 8 * plane);
            mtp__blob_sink(b, part, n);
            i += n;
        }
}

void mtp__blob_bytes_column(mtp__blob *b, const char *name, const uint8_t *values, uint32_t count)
{
    put_heading(b, name, count, 1);
    mtp__blob_sink(b, values, count);
}
