/* present/parquet/export.c - mtp_export_parquet(): all tables of a trace, or none. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/file_out.h"
#include "base/guard.h"
#include "base/os.h"
#include "present/parquet/folder.h"
#include "present/parquet/tables.h"

#define X(table, rows) TABLE_##table,
enum {
    MTP__PARQUET_TABLE_LIST(X) TABLES
};
#undef X

static const mtp__parquet_table *const tables[] = {
#define X(table, rows) &mtp__parquet_##table,
    MTP__PARQUET_TABLE_LIST(X)
#undef X
};

static uint64_t rows_of(const mtp__parquet_source *s, unsigned table)
{
    switch (table) {
#define X(table, rows)                                                                                       \
    case TABLE_##table:                                                                                      \
        return rows;
        MTP__PARQUET_TABLE_LIST(X)
#undef X
    default:
        return 0;
    }
}

/* Written, but not yet in place. */
typedef struct output {
    mtp_file *file[TABLES]; /* owned */
    mtp__parquet_place place;
} output;

/* Two traces of the same job and rank would be counted as one. */
static mtp_status must_be_new(const char *folder, const output *o)
{
    char path[PATH_MAX];
    struct stat st;
    mtp_status status = mtp__parquet_path(folder, tables[TABLE_metadata]->name, &o->place, false, path);
    if (status != MTP_OK || mtp__look_at(path, &st) != 0)
        return status;
    return MTP_FAIL(
        MTP_E_STATE,
        "%s: rank %lld of job=%s is there already: choose another job or rank (--job, --as-rank), or remove "
        "%s/*/job=%s/rank=%lld",
        folder, (long long)o->place.rank, o->place.job, folder, o->place.job, (long long)o->place.rank);
}

static mtp_status write_table(const mtp__parquet_source *s, const char *folder, output *o, unsigned table)
{
    char path[PATH_MAX];
    mtp_status status = mtp__parquet_path(folder, tables[table]->name, &o->place, true, path);
    if (status == MTP_OK)
        status = mtp_file_create(path, MTP_FILE_PLAIN, &o->file[table]);
    if (status == MTP_OK)
        status = mtp__parquet_write(tables[table], s, rows_of(s, table), mtp_file_sink, o->file[table]);
    if (status == MTP_OK || o->file[table] == NULL || !mtp__file_failed(o->file[table]))
        return status;
    status = mtp_file_commit(o->file[table]); /* knows why a write failed */
    o->file[table] = NULL;
    return status;
}

/* One after the other; metadata last. What is in place when one fails is removed. */
static mtp_status put_in_place(const char *folder, output *o)
{
    char path[PATH_MAX];
    mtp_status status = MTP_OK;
    unsigned done = 0;
    for (; done < TABLES && status == MTP_OK; done++) {
        mtp_file *file = o->file[done];
        o->file[done] = NULL;
        status = mtp_file_commit(file);
    }
    for (unsigned i = 0; i + 1 < done && status != MTP_OK; i++)
        if (mtp__parquet_path(folder, tables[i]->name, &o->place, false, path) == MTP_OK)
            mtp__unlink_at(AT_FDCWD, path);
    return status;
}

static mtp_status write_all(const mtp_trace *trace, const char *folder, output *o)
{
    mtp__parquet_source source;
    mtp_status status = must_be_new(folder, o);
    if (status == MTP_OK)
        status = mtp__parquet_source_init(&source, trace);
    if (status != MTP_OK)
        return status;
    for (unsigned i = 0; i < TABLES && status == MTP_OK; i++)
        status = write_table(&source, folder, o, i);
    mtp__parquet_source_fini(&source);
    return status == MTP_OK ? put_in_place(folder, o) : status;
}

static mtp_status export(const mtp_trace *trace, const char *folder, const mtp_parquet_options *options,
                         output *o)
{
    int claim;
    mtp_status status = mtp__parquet_find_place(trace, options, &o->place);
    if (status == MTP_OK)
        status = must_be_new(folder, o); /* also where nothing can be written */
    if (status == MTP_OK)
        status = mtp__parquet_claim(folder, &o->place, &claim);
    if (status != MTP_OK)
        return status;
    status = write_all(trace, folder, o);
    mtp__parquet_release(folder, &o->place, claim);
    return status;
}

mtp_status mtp_export_parquet(const mtp_trace *trace, const char *folder, const mtp_parquet_options *options)
{
    MTP__UNCANCELLED;
    mtp_parquet_options known = MTP_PARQUET_OPTIONS_INIT;
    if (trace == NULL || folder == NULL || folder[0] == 0)
        return MTP_FAIL(MTP_E_ARG, "%s", trace == NULL ? "trace is NULL" : "the name of the folder is empty");
    mtp_status status = MTP__ABI_READ(&known, options, mtp_parquet_options, rank);
    if (status != MTP_OK)
        return status;
    output *o = mtp__calloc(1, sizeof *o);
    if (o == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "an export");
    status = export(trace, folder, &known, o);
    for (unsigned i = 0; i < TABLES; i++)
        mtp_file_abandon(o->file[i]);
    mtp__free(o);
    return status;
}
