/* present/report/points.c - the page of memory for a timeline that somebody else computed. */
#include <string.h>
#include "base/error.h"
#include "present/report/report.h"

typedef struct peak {
    int64_t bytes, ns;
    const mtp_memory_point *at; /* NULL: there are no points */
} peak;

static int64_t total_of(const mtp_memory_point *point)
{
    uint64_t total = 0;
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
        total += (uint64_t)point->bytes[k];
    return (int64_t)total;
}

static peak find_peak(const mtp_memory_point *points, size_t count)
{
    peak p = {0};
    for (size_t i = 0; i < count; i++)
        if (p.at == NULL || total_of(&points[i]) > p.bytes)
            p = (peak){total_of(&points[i]), (int64_t)((uint64_t)points[i].ns - (uint64_t)points[0].ns),
                       &points[i]};
    return p;
}

static void put_name(mtp__out *o, const char *key, const char *name)
{
    mtp__out_text(o, key);
    mtp__out_string(o, name, strlen(name));
}

static void put_number(mtp__out *o, const char *key, int64_t value)
{
    mtp__out_text(o, key);
    mtp__out_i64(o, value);
}

static mtp_status put_head(mtp__blob *b, const char *name, const mtp_memory_point *points, size_t count)
{
    mtp__out o;
    mtp_status status = mtp__out_init(&o, mtp__blob_sink, b);
    if (status != MTP_OK)
        return status;
    put_name(&o, "{\"mtprof\": ", mtp_version());
    put_name(&o, ", \"name\": ", name);
    put_number(&o, ", \"only\": \"memory\", \"duration\": ",
               count > 0 ? (int64_t)((uint64_t)points[count - 1].ns - (uint64_t)points[0].ns) : 0);
    MTP__OUT(&o, "}\n");
    return mtp__out_finish(&o);
}

static void put_summary(mtp__out *o, const char *device, const mtp_memory_point *points, size_t count)
{
    peak p = find_peak(points, count);
    put_name(o, "{\"summary\": {\"device\": ", device);
    put_number(o, ", \"end_bytes\": ", count > 0 ? total_of(&points[count - 1]) : 0);
    put_number(o, ", \"peak\": {\"bytes\": ", p.bytes);
    MTP__OUT(o, ", \"time_us\": ");
    mtp__out_double(o, (double)p.ns / 1e3);
    MTP__OUT(o, ", \"by_category\": {");
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++) {
        put_name(o, k > 0 ? ", " : "", mtp_memory_category_text((mtp_memory_category)k));
        put_number(o, ": ", p.at != NULL ? p.at->bytes[k] : 0);
    }
    MTP__OUT(o, "}, \"block_count\": 0, \"blocks\": []}}, \"start\": 0, \"by\": [], \"before\": [");
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
        put_number(o, k > 0 ? ", " : "", count > 0 ? points[0].bytes[k] : 0);
    MTP__OUT(o, "]}");
}

/* What changed from each point to the next, by category. */
static mtp_status put_changes(mtp__blob *b, const mtp_memory_point *points, size_t count)
{
    uint32_t changes = 0, at = 0;
    for (size_t i = 1; i < count; i++)
        for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
            changes += points[i].bytes[k] != points[i - 1].bytes[k];
    uint64_t *gap = mtp__calloc((size_t)changes + 1, sizeof *gap),
             *bytes = mtp__calloc((size_t)changes + 1, sizeof *bytes);
    uint8_t *category = mtp__calloc((size_t)changes + 1, 1);
    bool well = gap != NULL && bytes != NULL && category != NULL;
    int64_t last = count > 0 ? points[0].ns : 0;
    for (size_t i = 1; i < count && well; i++)
        for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
            if (points[i].bytes[k] != points[i - 1].bytes[k]) {
                gap[at] = mtp__zigzag((int64_t)((uint64_t)points[i].ns - (uint64_t)last));
                bytes[at] =
                    mtp__zigzag((int64_t)((uint64_t)points[i].bytes[k] - (uint64_t)points[i - 1].bytes[k]));
                category[at++] = (uint8_t)k;
                last = points[i].ns;
            }
    if (well) {
        mtp__blob_column(b, "gap", gap, changes);
        mtp__blob_column(b, "bytes", bytes, changes);
        mtp__blob_bytes_column(b, "category", category, changes);
    }
    mtp__free(gap);
    mtp__free(bytes);
    mtp__free(category);
    return well ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%zu points", count);
}

static mtp_status put_memory(mtp__blob *b, const char *device, const mtp_memory_point *points, size_t count)
{
    mtp__out o;
    mtp_status status = mtp__out_init(&o, mtp__blob_sink, b);
    if (status != MTP_OK)
        return status;
    mtp__report_categories(&o);
    put_summary(&o, device, points, count);
    MTP__OUT(&o, "]}\0");
    status = mtp__out_finish(&o);
    return status == MTP_OK ? put_changes(b, points, count) : status;
}

mtp_status mtp_report_points(const char *name, const char *device, const mtp_memory_point *points,
                             size_t count, mtp_sink *sink, void *user)
{
    if (name == NULL || device == NULL || (points == NULL && count > 0))
        return MTP_FAIL(MTP_E_ARG, "name, device or points is NULL");
    mtp__out o;
    mtp__blob *b = mtp__calloc(1, sizeof *b);
    mtp_status status = b != NULL ? mtp__out_init(&o, sink, user) : MTP_FAIL(MTP_E_NOMEM, "a page");
    if (status == MTP_OK) {
        mtp__out_text(&o, mtp__page_top);
        status = mtp__blob_begin(b, &o, "head", 0);
        if (status == MTP_OK)
            status = mtp__blob_end(b, put_head(b, name, points, count));
        mtp__out_text(&o, mtp__page_script);
        if (status == MTP_OK)
            status = mtp__blob_begin(b, &o, "memory", 0);
        if (status == MTP_OK)
            status = mtp__blob_end(b, put_memory(b, device, points, count));
        mtp__out_text(&o, mtp__page_end);
        mtp_status written = mtp__out_finish(&o);
        status = status != MTP_OK ? status : written;
    }
    mtp__free(b);
    return status;
}
