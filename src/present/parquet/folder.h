/* present/parquet/folder.h - where the tables of a trace go: OUT/TABLE/job=JOB/rank=RANK/TABLE.parquet. */
#ifndef MTP_PRESENT_PARQUET_FOLDER_H
#define MTP_PRESENT_PARQUET_FOLDER_H
#include <limits.h>
#include "trace/trace.h"

typedef struct mtp__parquet_place {
    char job[3 * NAME_MAX + 16]; /* as a part of a path: escaped as Hive does */
    int64_t rank;
} mtp__parquet_place;

/* What the options leave open is taken from the trace. MTP_E_ARG: the job is empty, or too long for a name. */
mtp_status mtp__parquet_find_place(const mtp_trace *t, const mtp_parquet_options *options,
                                   mtp__parquet_place *out);
/* The path of a table. MTP_E_ARG: too long. `make`: also makes its folders, MTP_E_IO. */
mtp_status mtp__parquet_path(const char *folder, const char *table, const mtp__parquet_place *place,
                             bool make, char path[PATH_MAX]);
/* While a rank is claimed, nobody else writes it: MTP_E_STATE if somebody does. Makes the folder of its metadata. Where the
 * file system has no locks, nothing is protected. */
mtp_status mtp__parquet_claim(const char *folder, const mtp__parquet_place *place, int *fd);
void mtp__parquet_release(const char *folder, const mtp__parquet_place *place, int fd);
#endif
