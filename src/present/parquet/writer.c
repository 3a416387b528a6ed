/* present/parquet/writer.c - a table as a Parquet file: pages, row groups, the footer.
 *
 * Every data page is of version 1, with definition levels only for optional columns; every page is compressed by zstd and
 * has a CRC. Text is always in a dictionary: a row group ends early before one gets large.
 */
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include "base/error.h"
#include "base/os.h"
#include "present/parquet/parquet.h"
#include "present/parquet/thrift.h"

#define ROWS_MAX ((uint64_t)1 << 20)   /* of a row group */
#define GROUP_BYTES ((size_t)32 << 20) /* of pages and dictionaries: a row group ends */
#define PAGE_BYTES ((size_t)INT32_MAX) /* what a page header can say */
#define BOUND_BYTES 256                /* of a text in the statistics: none if it is longer */
#define ZSTD_LEVEL (-1) /* level 1: a percent smaller, but an export takes a tenth longer (bench_parquet) */
#define CODEC_ZSTD 6
static const char magic[] = "PAR1";

static const struct {
    int8_t physical, converted;
    uint8_t bits;
    bool is_signed;
} kinds[] = {
#define X(sym, physical, converted, bits, is_signed) {physical, converted, bits, is_signed},
    MTP__PARQUET_KIND_LIST(X)
#undef X
};

typedef struct chunk { /* a column of the open row group */
    mtp__octets pages;
    mtp__parquet_texts texts;
    int64_t least, most; /* a double: its bits */
    bool has_bounds, has_nan;
    bool plain, delta; /* encodings of its pages */
    uint64_t values, nulls;
    uint64_t uncompressed; /* bytes of pages, before compression, with headers */
} chunk;

typedef struct writer {
    const mtp__parquet_table *table;
    const void *source;
    mtp_sink *sink;
    void *user;
    uint64_t written; /* bytes */
    chunk *chunks;    /* owned: by column */
    uint64_t rows;    /* of the open row group */
    uint32_t groups;
    mtp__octets footer; /* the row groups' part */
    mtp__octets page, packed, head;
    ZSTD_CCtx *zstd;  /* owned */
    int64_t *value;   /* owned: a batch */
    uint8_t *present; /* owned */
    uint32_t *level;  /* owned: levels, or numbers in the dictionary */
    mtp_status status;
} writer;

static bool put(writer *w, const void *bytes, size_t length)
{
    if (w->status == MTP_OK && length > 0 && !w->sink(w->user, bytes, length))
        w->status = MTP_FAIL(MTP_E_IO, "the sink refused %zu bytes", length);
    w->written += length;
    return w->status == MTP_OK;
}

/* ------------------------------------------------------------------------------------------------ pages */

enum {
    DATA_PAGE = 0,
    DICTIONARY_PAGE = 2
};

static void put_page_head(writer *w, unsigned type, size_t size, size_t packed, uint32_t crc, uint64_t values,
                          unsigned encoding)
{
    w->head.count = 0;
    mtp__thrift head = {&w->head, 0};
    mtp__thrift_int(&head, 1, MTP__THRIFT_I32, type);
    mtp__thrift_int(&head, 2, MTP__THRIFT_I32, (int64_t)size);
    mtp__thrift_int(&head, 3, MTP__THRIFT_I32, (int64_t)packed);
    mtp__thrift_int(&head, 4, MTP__THRIFT_I32, (int32_t)crc);
    mtp__thrift part = mtp__thrift_struct(&head, type == DATA_PAGE ? 5 : 7);
    mtp__thrift_int(&part, 1, MTP__THRIFT_I32, (int64_t)values);
    mtp__thrift_int(&part, 2, MTP__THRIFT_I32, encoding);
    if (type == DATA_PAGE) {
        mtp__thrift_int(&part, 3, MTP__THRIFT_I32, MTP__PARQUET_RLE);
        mtp__thrift_int(&part, 4, MTP__THRIFT_I32, MTP__PARQUET_RLE);
    }
    mtp__thrift_end(&part);
    mtp__thrift_end(&head);
}

/* Adds a page with these bytes to the column's pages. */
static bool pack_page(writer *w, const mtp__octets *bytes, unsigned type, uint64_t values, unsigned encoding,
                      mtp__octets *to, uint64_t *uncompressed)
{
    if (bytes->count > PAGE_BYTES - (PAGE_BYTES >> 7))
        return w->status = MTP_FAIL(MTP_E_UNSUPPORTED,
                                    "%s: %zu bytes of text in %llu rows: Parquet has pages of at most 2 GB",
                                    w->table->name, bytes->count, (unsigned long long)values),
               false;
    size_t bound = ZSTD_compressBound(bytes->count);
    w->packed.count = 0;
    if (bytes->failed || !mtp__octets_room(&w->packed, bound))
        return false;
    size_t n = ZSTD_compressCCtx(w->zstd, w->packed.at, bound, bytes->at, bytes->count, ZSTD_LEVEL);
    if (ZSTD_isError(n)) {
        w->packed.failed = true; /* only memory can be missing */
        return false;
    }
    put_page_head(w, type, bytes->count, n, (uint32_t)crc32(0, w->packed.at, (uInt)n), values, encoding);
    mtp__octets_put(to, w->head.at, w->head.count);
    mtp__octets_put(to, w->packed.at, n);
    *uncompressed += w->head.count + bytes->count;
    return !w->head.failed && !to->failed;
}

/* ----------------------------------------------------------------------------------------------- values */

static bool less(mtp__parquet_kind kind, int64_t a, int64_t b)
{
    double x, y;
    if (kind == MTP__PARQUET_U64)
        return (uint64_t)a < (uint64_t)b;
    if (kind != MTP__PARQUET_F64)
        return a < b;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x < y;
}

/* true: all values are the same whole number. */
static bool note_bounds(chunk *c, mtp__parquet_kind kind, const int64_t *v, size_t count)
{
    int64_t least = v[0], most = v[0];
    if (kind == MTP__PARQUET_I64 || kind == MTP__PARQUET_I32)
        for (size_t i = 0; i < count; i++) {
            least = v[i] < least ? v[i] : least;
            most = v[i] > most ? v[i] : most;
        }
    else
        for (size_t i = 0; i < count; i++) {
            double x;
            memcpy(&x, &v[i], sizeof x);
            c->has_nan |= kind == MTP__PARQUET_F64 && x != x;
            least = less(kind, v[i], least) ? v[i] : least;
            most = less(kind, most, v[i]) ? v[i] : most;
        }
    c->least = c->has_bounds && !less(kind, least, c->least) ? c->least : least;
    c->most = c->has_bounds && !less(kind, c->most, most) ? c->most : most;
    c->has_bounds = true;
    return least == most && kind != MTP__PARQUET_F64;
}

static size_t keep_present(writer *w, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += w->present[i];
    if (n == 0 || n == count)
        return n;
    n = 0;
    for (size_t i = 0; i < count; i++) {
        w->value[n] = w->value[i];
        n += w->present[i];
    }
    return n;
}

/* The definition levels: their length, then runs of ones and zeroes. */
static void put_levels(writer *w, size_t count, size_t n)
{
    size_t start = w->page.count;
    mtp__octets_put(&w->page, "\0\0\0", 4);
    if (n == 0 || n == count) {
        mtp__parquet_run(&w->page, n != 0, count, 1);
    } else {
        for (size_t i = 0; i < count; i++)
            w->level[i] = w->present[i];
        mtp__parquet_hybrid(&w->page, w->level, count, 1);
    }
    if (w->page.failed)
        return;
    size_t length = w->page.count - start - 4;
    for (unsigned i = 0; i < 4; i++)
        w->page.at[start + i] = (uint8_t)(length >> 8 * i);
}

static void put_numbers(writer *w, const mtp__parquet_column *column, chunk *c, size_t count)
{
    for (size_t i = 0; i < count; i++)
        w->level[i] = mtp__parquet_text_number(&c->texts, column, w->source, w->value[i]);
    uint8_t width = (uint8_t)mtp__parquet_width(c->texts.count - 1);
    if (c->texts.plain.failed)
        return;
    mtp__octets_put(&w->page, &width, 1);
    mtp__parquet_hybrid(&w->page, w->level, count, width);
}

/* Returns the encoding. */
static unsigned put_values(writer *w, const mtp__parquet_column *column, chunk *c, size_t count)
{
    if (count == 0)
        return MTP__PARQUET_PLAIN; /* as any reader expects of nothing */
    if (column->kind == MTP__PARQUET_TEXT) {
        put_numbers(w, column, c, count);
        return MTP__PARQUET_DICTIONARY;
    }
    bool same = note_bounds(c, column->kind, w->value, count);
    if (column->kind == MTP__PARQUET_BOOL) {
        mtp__parquet_bools(&w->page, w->value, count);
        return MTP__PARQUET_PLAIN;
    }
    if (column->kind == MTP__PARQUET_F64) {
        mtp__octets_put(&w->page, w->value, count * sizeof *w->value);
        return MTP__PARQUET_PLAIN;
    }
    if (same)
        mtp__parquet_same(&w->page, w->value[0], count);
    else
        mtp__parquet_delta(&w->page, w->value, count, column->kind == MTP__PARQUET_I32);
    return MTP__PARQUET_DELTA;
}

static bool put_batch(writer *w, const mtp__parquet_column *column, chunk *c, uint64_t first, size_t count)
{
    w->page.count = 0;
    bool any = true;
    size_t n = count;
    if (column->optional) {
        memset(w->present, 1, count);
        any = column->fill(w->source, first, count, w->value, w->present);
        n = any ? keep_present(w, count) : 0;
        put_levels(w, count, n);
    } else {
        column->fill(w->source, first, count, w->value, NULL);
    }
    unsigned encoding = put_values(w, column, c, n);
    c->plain |= encoding == MTP__PARQUET_PLAIN;
    c->delta |= encoding == MTP__PARQUET_DELTA;
    c->values += count;
    c->nulls += count - n;
    return !c->texts.plain.failed &&
           pack_page(w, &w->page, DATA_PAGE, count, encoding, &c->pages, &c->uncompressed);
}

/* ------------------------------------------------------------------------------------------- row groups */

static void put_statistics(mtp__thrift *meta, const mtp__parquet_column *column, const chunk *c)
{
    mtp__thrift s = mtp__thrift_struct(meta, 12);
    const mtp__parquet_texts *d = &c->texts;
    bool text = column->kind == MTP__PARQUET_TEXT;
    mtp__thrift_int(&s, 3, MTP__THRIFT_I64, (int64_t)c->nulls);
    if (text ? d->count > 0 && d->least_length <= BOUND_BYTES && d->most_length <= BOUND_BYTES
             : c->has_bounds && !c->has_nan) {
        size_t bytes = column->kind == MTP__PARQUET_BOOL  ? 1
                       : column->kind == MTP__PARQUET_I32 ? 4
                                                          : 8; /* the first ones: little-endian */
        int64_t most = c->most, least = c->least;
        if (column->kind == MTP__PARQUET_F64) { /* of two zeroes either may be meant */
            static const double zero = 0, negative = -0.0;
            double x;
            memcpy(&x, &most, sizeof x);
            memcpy(&most, x == 0 ? &zero : &x, sizeof most);
            memcpy(&x, &least, sizeof x);
            memcpy(&least, x == 0 ? &negative : &x, sizeof least);
        }
        mtp__thrift_binary(&s, 5, text ? (const void *)(d->plain.at + d->most) : &most,
                           text ? d->most_length : bytes);
        mtp__thrift_binary(&s, 6, text ? (const void *)(d->plain.at + d->least) : &least,
                           text ? d->least_length : bytes);
    }
    mtp__thrift_end(&s);
}

static void put_encodings(mtp__thrift *meta, const chunk *c)
{
    uint8_t list[4];
    size_t n = 0;
    list[n++] = MTP__PARQUET_RLE;
    if (c->plain || c->texts.count > 0)
        list[n++] = MTP__PARQUET_PLAIN;
    if (c->delta)
        list[n++] = MTP__PARQUET_DELTA;
    if (c->texts.count > 0)
        list[n++] = MTP__PARQUET_DICTIONARY;
    mtp__thrift_list(meta, 2, MTP__THRIFT_I32, n);
    for (size_t i = 0; i < n; i++)
        mtp__octets_varint(meta->to, mtp__zigzag(list[i]));
}

/* Where the column's pages went: `start` is the first byte, `data` that of the first data page. */
static void put_chunk_meta(writer *w, const mtp__parquet_column *column, const chunk *c, uint64_t start,
                           uint64_t data)
{
    mtp__thrift part = {&w->footer, 0};
    mtp__thrift_int(&part, 2, MTP__THRIFT_I64, (int64_t)start);
    mtp__thrift meta = mtp__thrift_struct(&part, 3);
    mtp__thrift_int(&meta, 1, MTP__THRIFT_I32, kinds[column->kind].physical);
    put_encodings(&meta, c);
    mtp__thrift_list(&meta, 3, MTP__THRIFT_BINARY, 1);
    mtp__octets_varint(&w->footer, strlen(column->name));
    mtp__octets_put(&w->footer, column->name, strlen(column->name));
    mtp__thrift_int(&meta, 4, MTP__THRIFT_I32, CODEC_ZSTD);
    mtp__thrift_int(&meta, 5, MTP__THRIFT_I64, (int64_t)c->values);
    mtp__thrift_int(&meta, 6, MTP__THRIFT_I64, (int64_t)c->uncompressed);
    mtp__thrift_int(&meta, 7, MTP__THRIFT_I64, (int64_t)(w->written - start));
    mtp__thrift_int(&meta, 9, MTP__THRIFT_I64, (int64_t)data);
    if (data != start)
        mtp__thrift_int(&meta, 11, MTP__THRIFT_I64, (int64_t)start);
    put_statistics(&meta, column, c);
    mtp__thrift_end(&meta);
    mtp__thrift_end(&part);
}

static bool put_chunk(writer *w, const mtp__parquet_column *column, chunk *c)
{
    uint64_t start = w->written;
    if (c->texts.count > 0) {
        mtp__octets page = {0};
        bool ok = pack_page(w, &c->texts.plain, DICTIONARY_PAGE, c->texts.count, MTP__PARQUET_PLAIN, &page,
                            &c->uncompressed) &&
                  put(w, page.at, page.count);
        mtp__octets_fini(&page);
        if (!ok)
            return false;
    }
    uint64_t data = w->written;
    if (!put(w, c->pages.at, c->pages.count))
        return false;
    put_chunk_meta(w, column, c, start, data);
    return !w->footer.failed;
}

static void reset_chunk(chunk *c)
{
    mtp__parquet_texts_reset(&c->texts);
    mtp__octets pages = c->pages;
    mtp__parquet_texts texts = c->texts;
    pages.count = 0;
    *c = (chunk){.pages = pages, .texts = texts};
}

static bool put_group(writer *w)
{
    uint64_t start = w->written, bytes = 0;
    size_t columns = w->table->column_count;
    mtp__thrift group = {&w->footer, 0};
    mtp__thrift_list(&group, 1, MTP__THRIFT_STRUCT, columns);
    for (size_t i = 0; i < columns; i++) {
        if (!put_chunk(w, &w->table->columns[i], &w->chunks[i]))
            return false;
        bytes += w->chunks[i].uncompressed;
        reset_chunk(&w->chunks[i]);
    }
    mtp__thrift_int(&group, 2, MTP__THRIFT_I64, (int64_t)bytes);
    mtp__thrift_int(&group, 3, MTP__THRIFT_I64, (int64_t)w->rows);
    mtp__thrift_int(&group, 5, MTP__THRIFT_I64, (int64_t)start);
    mtp__thrift_int(&group, 6, MTP__THRIFT_I64, (int64_t)(w->written - start));
    if (w->groups <= INT16_MAX)
        mtp__thrift_int(&group, 7, MTP__THRIFT_I16, w->groups);
    mtp__thrift_end(&group);
    w->rows = 0;
    w->groups++;
    return !w->footer.failed;
}

static size_t held(const writer *w)
{
    size_t bytes = 0;
    for (size_t i = 0; i < w->table->column_count; i++)
        bytes += w->chunks[i].pages.count + w->chunks[i].texts.plain.count;
    return bytes;
}

/* ----------------------------------------------------------------------------------------------- footer */

static void put_logical_type(mtp__thrift *element, mtp__parquet_kind kind)
{
    mtp__thrift logical = mtp__thrift_struct(element, 10);
    if (kind == MTP__PARQUET_TEXT) {
        mtp__thrift_empty(&logical, 1);
    } else {
        mtp__thrift type = mtp__thrift_struct(&logical, 10);
        mtp__thrift_field(&type, 1, MTP__THRIFT_BYTE);
        mtp__octets_put(type.to, &kinds[kind].bits, 1);
        mtp__thrift_bool(&type, 2, kinds[kind].is_signed);
        mtp__thrift_end(&type);
    }
    mtp__thrift_end(&logical);
}

static void put_schema(mtp__thrift *file, const mtp__parquet_table *table)
{
    mtp__thrift_list(file, 2, MTP__THRIFT_STRUCT, table->column_count + 1);
    mtp__thrift root = {file->to, 0};
    mtp__thrift_text(&root, 4, table->name);
    mtp__thrift_int(&root, 5, MTP__THRIFT_I32, (int64_t)table->column_count);
    mtp__thrift_end(&root);
    for (size_t i = 0; i < table->column_count; i++) {
        const mtp__parquet_column *column = &table->columns[i];
        mtp__thrift element = {file->to, 0};
        mtp__thrift_int(&element, 1, MTP__THRIFT_I32, kinds[column->kind].physical);
        mtp__thrift_int(&element, 3, MTP__THRIFT_I32, column->optional);
        mtp__thrift_text(&element, 4, column->name);
        if (kinds[column->kind].converted >= 0) {
            mtp__thrift_int(&element, 6, MTP__THRIFT_I32, kinds[column->kind].converted);
            put_logical_type(&element, column->kind);
        }
        mtp__thrift_end(&element);
    }
}

static void put_footer(writer *w, uint64_t rows, mtp__octets *to)
{
    mtp__thrift file = {to, 0};
    char by[64];
    mtp__thrift_int(&file, 1, MTP__THRIFT_I32, 2);
    put_schema(&file, w->table);
    mtp__thrift_int(&file, 3, MTP__THRIFT_I64, (int64_t)rows);
    mtp__thrift_list(&file, 4, MTP__THRIFT_STRUCT, w->groups);
    mtp__octets_put(to, w->footer.at, w->footer.count);
    size_t length = strlen(mtp_version());
    memcpy(by, "mtprof version ", 15);
    memcpy(by + 15, mtp_version(), length < 40 ? length + 1 : 0);
    mtp__thrift_text(&file, 6, by);
    mtp__thrift_list(&file, 7, MTP__THRIFT_STRUCT, w->table->column_count);
    for (size_t i = 0; i < w->table->column_count; i++) { /* bounds are ordered as the type defines */
        mtp__thrift order = {to, 0};
        mtp__thrift_empty(&order, 1);
        mtp__thrift_end(&order);
    }
    mtp__thrift_end(&file);
}

static bool put_end(writer *w, uint64_t rows)
{
    mtp__octets end = {0};
    put_footer(w, rows, &end);
    size_t length = end.count;
    uint8_t bytes[4];
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(length >> 8 * i);
    mtp__octets_put(&end, bytes, sizeof bytes);
    mtp__octets_put(&end, magic, 4);
    bool ok = !end.failed && put(w, end.at, end.count);
    mtp__octets_fini(&end);
    return ok;
}

/* ------------------------------------------------------------------------------------------------- file */

static bool writer_init(writer *w)
{
    w->chunks = mtp__calloc(w->table->column_count + 1, sizeof *w->chunks);
    w->value = mtp__calloc(MTP__PARQUET_BATCH, sizeof *w->value);
    w->present = mtp__calloc(MTP__PARQUET_BATCH, sizeof *w->present);
    w->level = mtp__calloc(MTP__PARQUET_BATCH, sizeof *w->level);
    w->zstd = ZSTD_createCCtx();
    return w->chunks != NULL && w->value != NULL && w->present != NULL && w->level != NULL && w->zstd != NULL;
}

static void writer_fini(writer *w)
{
    for (size_t i = 0; w->chunks != NULL && i < w->table->column_count; i++) {
        mtp__octets_fini(&w->chunks[i].pages);
        mtp__parquet_texts_fini(&w->chunks[i].texts);
    }
    mtp__octets_fini(&w->footer);
    mtp__octets_fini(&w->page);
    mtp__octets_fini(&w->packed);
    mtp__octets_fini(&w->head);
    mtp__free(w->chunks);
    mtp__free(w->value);
    mtp__free(w->present);
    mtp__free(w->level);
    ZSTD_freeCCtx(w->zstd);
}

static bool put_rows(writer *w, uint64_t rows)
{
    for (uint64_t first = 0; first < rows;) {
        uint64_t left = rows - first;
        size_t count = left < MTP__PARQUET_BATCH ? (size_t)left : MTP__PARQUET_BATCH;
        for (size_t i = 0; i < w->table->column_count; i++)
            if (!put_batch(w, &w->table->columns[i], &w->chunks[i], first, count))
                return false;
        first += count;
        w->rows += count;
        if ((w->rows >= ROWS_MAX || first == rows || held(w) >= GROUP_BYTES) && !put_group(w))
            return false;
    }
    return true;
}

mtp_status mtp__parquet_write(const mtp__parquet_table *table, const void *source, uint64_t rows,
                              mtp_sink *sink, void *user)
{
    writer w = {.table = table, .source = source, .sink = sink, .user = user};
    bool ok = writer_init(&w) && put(&w, magic, 4) && put_rows(&w, rows) && put_end(&w, rows);
    mtp_status status = w.status;
    if (!ok && status == MTP_OK)
        status = MTP_FAIL(MTP_E_NOMEM, "the table %s of %llu rows", table->name, (unsigned long long)rows);
    writer_fini(&w);
    return status;
}
