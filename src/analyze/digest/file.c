/* analyze/digest/file.c - digests as files: blocks that can be concatenated, and shipped one by one.
 *
 *     file   = magic block*, any number of times; the magic forgets all names
 *     block  = kind:byte length:varint payload crc32:4 bytes (little-endian; of kind, length and payload)
 *     names  = (length:varint bytes)*                            names get the numbers 1, 2, ... in this order
 *     entry  = job host rank step steps start wall cpu device idle both shift ops op*
 *     op     = key [names] calls self total-self device min max-min buckets (bucket calls)*
 *
 * Numbers are varints (LEB128), signed ones in zigzag order. key is name * 2 + is_device, minus the key before; buckets,
 * too, are differences. Name 0 is "(others)", and only that one has `names`. One or two calls have no buckets: min and max
 * are all there is. Unknown kinds of blocks are skipped.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "analyze/digest/digest.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/out.h"
#include "base/plain.h"
#include "trace/json/source.h"

static const char magic[8] = "MTPDIG1\n";
enum {
    BLOCK_NAMES = 'N',
    BLOCK_ENTRY = 'E'
};
#define MAX_BYTES 4096u      /* of an entry's block, by default */
#define MAX_BLOCK (1u << 28) /* longer ones are damage */
#define FRAME 16u            /* at most: kind, length, checksum */

/* ---------------------------------------------------------------------------------------------- writing */

typedef struct bytes { /* of a block */
    unsigned char *p;  /* owned */
    size_t length, room;
    bool failed;
} bytes;

static void put(bytes *b, uint64_t v)
{
    if (!MTP__GROW(b->p, b->room, b->length, b->length + 10, 4096)) {
        b->failed = true;
        return;
    }
    for (; v >= 128; v >>= 7)
        b->p[b->length++] = (unsigned char)(v | 128);
    b->p[b->length++] = (unsigned char)v;
}

static void put_signed(bytes *b, int64_t v)
{
    put(b, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

static void put_text(bytes *b, const mtp__intern_entry *text)
{
    put(b, text->length);
    if (b->failed || !MTP__GROW(b->p, b->room, b->length, b->length + text->length, 4096)) {
        b->failed = true;
        return;
    }
    memcpy(b->p + b->length, text->bytes, text->length);
    b->length += text->length;
}

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static void put_op(bytes *b, const mtp_digest *d, const mtp__digest_row *r, uint64_t key, uint32_t coarser)
{
    const mtp_digest_op *o = &r->shown;
    put(b, key);
    if (r->name == 0)
        put(b, o->names);
    put(b, o->calls);
    put_signed(b, o->self_ns);
    put_signed(b, minus(o->total_ns, o->self_ns));
    put_signed(b, o->device_ns);
    put_signed(b, o->min_ns);
    put_signed(b, minus(o->max_ns, o->min_ns));
    uint32_t count = 0, last = 0;
    for (int pass = 0; pass < 2; pass++) { /* counts the buckets of this width, then writes them */
        if (pass == 1)
            put(b, count);
        for (uint32_t i = 0, next; o->calls > 2 && i < r->bucket_count; i = next) {
            uint32_t bucket = d->bucket[r->first_bucket + i].bucket >> coarser;
            uint64_t calls = 0;
            for (next = i;
                 next < r->bucket_count && d->bucket[r->first_bucket + next].bucket >> coarser == bucket;
                 next++)
                calls += d->bucket[r->first_bucket + next].calls;
            count++;
            if (pass == 0)
                continue;
            put(b, bucket - last);
            put(b, calls);
            last = bucket;
        }
    }
}

typedef struct keyed {
    uint64_t key;
    const mtp__digest_row *row;
} keyed;

static int by_key(const void *x, const void *y)
{
    const keyed *a = x, *b = y;
    return (a->key > b->key) - (a->key < b->key);
}

static uint64_t key_of(const mtp__digest_row *r)
{
    return (uint64_t)r->name << 1 | r->shown.is_device;
}

/* One entry, its histograms coarser by so much, with `kept` rows and the sums of the others. */
static void put_entry(bytes *b, const mtp_digest *d, const mtp__digest_part *p, uint32_t coarser, keyed *list,
                      size_t count)
{
    const mtp_digest_entry *e = &p->shown;
    b->length = 0;
    put(b, p->job);
    put(b, p->host);
    put_signed(b, e->rank);
    put_signed(b, e->step);
    put(b, e->steps);
    put_signed(b, e->start_ns);
    put_signed(b, e->wall_ns);
    put_signed(b, e->cpu_ns);
    put_signed(b, e->device_ns);
    put_signed(b, e->idle_ns);
    put_signed(b, e->both_ns);
    put(b, p->shift + coarser);
    put(b, count);
    uint64_t last = 0;
    qsort(list, count, sizeof *list, by_key);
    for (size_t i = 0; i < count; i++) {
        put_op(b, d, list[i].row, list[i].key - last, coarser);
        last = list[i].key;
    }
}

/* Sums the rows from `kept` on into up to two rows of others, in `others`; they have no histogram, but for "(others)" of
 * before. Returns how many rows to write. */
static size_t choose(const mtp_digest *d, const mtp__digest_part *p, size_t kept, keyed *list,
                     mtp__digest_row others[2])
{
    size_t count = 0;
    for (int k = 0; k < 2; k++)
        others[k] =
            (mtp__digest_row){.shown = {.is_device = k == 1, .min_ns = INT64_MAX, .max_ns = INT64_MIN}};
    for (size_t i = 0; i < p->shown.op_count; i++) {
        const mtp__digest_row *r = &d->row[p->first_row + i];
        if (i < kept && r->name != 0) {
            list[count++] = (keyed){key_of(r), r};
            continue;
        }
        mtp_digest_op *o = &others[r->shown.is_device].shown;
        o->names += r->shown.names;
        o->calls += r->shown.calls;
        o->total_ns += r->shown.total_ns;
        o->self_ns += r->shown.self_ns;
        o->device_ns += r->shown.device_ns;
        o->min_ns = r->shown.min_ns < o->min_ns ? r->shown.min_ns : o->min_ns;
        o->max_ns = r->shown.max_ns > o->max_ns ? r->shown.max_ns : o->max_ns;
    }
    for (uint64_t k = 0; k < 2; k++)
        if (others[k].shown.names > 0)
            list[count++] = (keyed){k, &others[k]};
    return count;
}

/* Makes an entry fit: coarser histograms first, then fewer ops, as many as fit. */
static bool fit_entry(bytes *b, const mtp_digest *d, const mtp__digest_part *p, uint64_t most)
{
    mtp__digest_row others[2];
    keyed *list = mtp__calloc(p->shown.op_count + 3, sizeof *list);
    if (list == NULL)
        return false;
    uint32_t coarser = 0;
    size_t low = 0, high = p->shown.op_count, count = choose(d, p, high, list, others);
    put_entry(b, d, p, coarser, list, count);
    while (b->length > most && p->shift + coarser < MTP__BUCKETS_FINE)
        put_entry(b, d, p, ++coarser, list, count);
    if (b->length > most) {
        while (low < high) { /* the most rows that fit: low ones do, or there are none */
            size_t middle = low + (high - low + 1) / 2;
            put_entry(b, d, p, coarser, list, choose(d, p, middle, list, others));
            if (b->length <= most)
                low = middle;
            else
                high = middle - 1;
        }
        put_entry(b, d, p, coarser, list, choose(d, p, low, list, others));
    }
    mtp__free(list);
    return !b->failed;
}

static void write_block(mtp__out *o, unsigned char kind, const bytes *b)
{
    unsigned char head[11] = {kind}, sum[4];
    size_t n = 1;
    for (uint64_t v = b->length;; v >>= 7) {
        head[n++] = (unsigned char)(v >= 128 ? v | 128 : v);
        if (v < 128)
            break;
    }
    uLong crc = crc32_z(crc32_z(0, head, n), b->p, b->length);
    for (int i = 0; i < 4; i++)
        sum[i] = (unsigned char)(crc >> 8 * i);
    mtp__out_bytes(o, head, n);
    mtp__out_bytes(o, b->p, b->length);
    mtp__out_bytes(o, sum, sizeof sum);
}

mtp_status mtp_digest_write(const mtp_digest *d, uint64_t max_bytes, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_begin(&o, d, "digest", sink, user);
    if (status != MTP_OK)
        return status;
    bytes b = {0};
    max_bytes = max_bytes == 0 ? MAX_BYTES : max_bytes;
    put(&b, 0); /* so that there is a buffer */
    b.length = 0;
    mtp__out_bytes(&o, magic, sizeof magic);
    for (uint32_t id = 1; id <= mtp__intern_count(&d->text) && !b.failed; id++)
        put_text(&b, mtp__intern_get(&d->text, id));
    if (b.length > 0 && !b.failed)
        write_block(&o, BLOCK_NAMES, &b);
    for (uint32_t i = 0; i < d->part_count && !b.failed; i++) {
        b.failed = !fit_entry(&b, d, &d->part[i], max_bytes > FRAME ? max_bytes - FRAME : 1);
        if (!b.failed)
            write_block(&o, BLOCK_ENTRY, &b);
    }
    mtp__free(b.p);
    status = mtp__out_finish(&o);
    return b.failed ? MTP_FAIL(MTP_E_NOMEM, "the digest's blocks") : status;
}

/* ---------------------------------------------------------------------------------------------- reading */

typedef struct reading {
    const unsigned char *p, *end; /* of the block, or the file */
    bool bad;
    mtp__digest_sum sum;
    uint32_t *name; /* owned: by number in the file, its text */
    uint32_t name_count, name_room;
    uint64_t damaged, files;
} reading;

static uint64_t get(reading *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; r->p < r->end && shift < 64; shift += 7) {
        unsigned char c = *r->p++;
        v |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return v;
    }
    r->bad = true;
    return 0;
}

static int64_t get_signed(reading *r)
{
    uint64_t v = get(r);
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

static uint32_t get_name(reading *r)
{
    uint64_t number = get(r);
    if (number > r->name_count)
        r->bad = true;
    return r->bad || number == 0 ? 0 : r->name[number - 1];
}

static void read_names(reading *r)
{
    while (r->p < r->end && !r->bad && !r->sum.failed) {
        uint64_t length = get(r);
        if (r->bad || length > (uint64_t)(r->end - r->p) || length == 0) {
            r->bad = true;
            return;
        }
        uint32_t id = mtp__digest_text(&r->sum, (const char *)r->p, (size_t)length);
        r->p += length;
        if (!MTP__GROW(r->name, r->name_room, r->name_count, r->name_count + 1, 256))
            r->sum.failed = true;
        else
            r->name[r->name_count++] = id;
    }
}

/* Twice: first whether the block is whole, then into the sums. */
static void read_ops(reading *r, uint64_t count, uint32_t part, uint32_t shift, bool add)
{
    uint64_t key = 0;
    for (uint64_t i = 0; i < count && !r->bad && !r->sum.failed; i++) {
        key += get(r);
        mtp_digest_op o = {.is_device = (key & 1) != 0};
        bool others = key >> 1 == 0;
        if (key >> 1 > r->name_count)
            r->bad = true;
        o.names = others ? get(r) : 1;
        o.calls = get(r);
        o.self_ns = get_signed(r);
        o.total_ns = (int64_t)((uint64_t)o.self_ns + (uint64_t)get_signed(r));
        o.device_ns = get_signed(r);
        o.min_ns = get_signed(r);
        o.max_ns = (int64_t)((uint64_t)o.min_ns + (uint64_t)get_signed(r));
        uint64_t buckets = get(r), bucket = 0, all = 0;
        uint32_t row = MTP__DIGEST_NONE;
        if (add && !r->bad)
            row = mtp__digest_sum_row(&r->sum, part, others ? 0 : r->name[(key >> 1) - 1], &o);
        for (uint64_t b = 0; b < buckets && !r->bad; b++) {
            bucket += get(r);
            uint64_t calls = get(r);
            all += calls;
            r->bad |= bucket >= (uint64_t)MTP__BUCKETS >> shift || calls > o.calls || all > o.calls;
            if (row != MTP__DIGEST_NONE && !r->bad)
                mtp__digest_sum_calls(&r->sum, row, (uint32_t)bucket << shift, calls);
        }
        /* One or two calls: those are min and max. */
        if (row != MTP__DIGEST_NONE && buckets == 0 && !others && o.calls > 0 && o.calls <= 2) {
            mtp__digest_sum_calls(&r->sum, row, mtp__bucket_of(o.min_ns > 0 ? (uint64_t)o.min_ns : 0), 1);
            if (o.calls == 2)
                mtp__digest_sum_calls(&r->sum, row, mtp__bucket_of(o.max_ns > 0 ? (uint64_t)o.max_ns : 0), 1);
        }
    }
}

static void read_entry(reading *r)
{
    const unsigned char *from = r->p;
    for (int pass = 0; pass < 2 && !r->bad; pass++) {
        r->p = from;
        uint32_t job = get_name(r), host = get_name(r), part = MTP__DIGEST_NONE;
        mtp_digest_entry e = {.rank = get_signed(r)};
        e.step = get_signed(r);
        e.steps = get(r);
        e.start_ns = get_signed(r);
        e.wall_ns = get_signed(r);
        e.cpu_ns = get_signed(r);
        e.device_ns = get_signed(r);
        e.idle_ns = get_signed(r);
        e.both_ns = get_signed(r);
        uint64_t shift = get(r), count = get(r);
        r->bad |= shift > MTP__BUCKETS_FINE;
        if (r->bad)
            return;
        if (pass == 1)
            part = mtp__digest_sum_part(&r->sum, job, host, &e, (uint32_t)shift);
        if (pass == 0 || part != MTP__DIGEST_NONE)
            read_ops(r, count, part, (uint32_t)shift, pass == 1);
        r->bad |= r->p != r->end;
    }
}

/* false: what follows cannot be a block. */
static bool read_block(reading *r)
{
    const unsigned char *start = r->p, *end = r->end;
    unsigned char kind = *r->p++;
    r->bad = false;
    uint64_t length = get(r);
    if (r->bad || length > MAX_BLOCK || length + 4 > (uint64_t)(end - r->p))
        return false;
    const unsigned char *payload = r->p, *sum = payload + length;
    uint32_t crc = (uint32_t)sum[0] | (uint32_t)sum[1] << 8 | (uint32_t)sum[2] << 16 | (uint32_t)sum[3] << 24;
    if (crc32_z(0, start, (size_t)(sum - start)) != crc)
        return false;
    r->end = sum;
    if (kind == BLOCK_NAMES)
        read_names(r);
    else if (kind == BLOCK_ENTRY)
        read_entry(r);
    r->damaged += r->bad;
    r->p = sum + 4;
    r->end = end;
    return true;
}

static bool is_magic(const reading *r, const unsigned char *p)
{
    return (size_t)(r->end - p) >= sizeof magic && memcmp(p, magic, sizeof magic) == 0;
}

/* After damage, reading goes on at the next magic: names may be lost, so the blocks until there mean nothing. */
static void read_all(reading *r)
{
    bool known = false; /* the names */
    while (r->p < r->end && !r->sum.failed) {
        if (is_magic(r, r->p)) {
            r->name_count = 0;
            r->p += sizeof magic;
            r->files++;
            known = true;
        } else if (!known || !read_block(r)) {
            r->damaged++;
            known = false;
            while (r->p < r->end && !is_magic(r, r->p))
                r->p++;
        }
    }
}

/* The whole file, decompressed. What comes before damaged compression is kept. */
static mtp_status read_file(const char *path, unsigned char **out, size_t *length, bool *cut)
{
    unsigned char *data = NULL;
    size_t room = 0;
    ssize_t got = 0;
    mtp__source *source;
    mtp_status status = mtp__source_open(path, &source);
    if (status != MTP_OK)
        return status;
    do {
        *length += (size_t)got;
        if (!MTP__GROW(data, room, *length, *length + 65536, 65536)) {
            status = MTP_FAIL(MTP_E_NOMEM, "%s: %zu bytes", path, *length);
            break;
        }
        got = mtp__source_read(source, data + *length, room - *length);
    } while (got > 0);
    if (got < 0)
        status = mtp__source_status(source);
    mtp__source_close(source);
    *cut = status == MTP_E_FORMAT && *length > 0;
    if (status != MTP_OK && !*cut) {
        mtp__free(data);
        return status;
    }
    *out = data;
    return MTP_OK;
}

mtp_status mtp_digest_read(const char *path, mtp_digest **out)
{
    unsigned char *data = NULL;
    size_t length = 0;
    bool cut = false;
    if (out == NULL || path == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", out == NULL ? "out" : "path");
    *out = NULL;
    mtp_status status = read_file(path, &data, &length, &cut);
    if (status != MTP_OK)
        return status;
    reading r = {.p = data, .end = data + length, .damaged = cut};
    if (!mtp__digest_sum_init(&r.sum)) {
        mtp__free(data);
        return MTP_FAIL(MTP_E_NOMEM, "%s: the digest", path);
    }
    read_all(&r);
    mtp__free(data);
    mtp__free(r.name);
    if (r.files == 0 && !r.sum.failed) {
        mtp__digest_sum_fini(&r.sum);
        return MTP_FAIL(MTP_E_FORMAT, "%s: not a digest; 'mtprof digest TRACE -o FILE' makes one", path);
    }
    status = mtp__digest_sum_finish(&r.sum, out);
    if (status == MTP_OK)
        (*out)->damaged = r.damaged;
    else
        MTP_NOTE("%s", path);
    return status;
}
