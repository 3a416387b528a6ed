#define _GNU_SOURCE
#include "present/parquet/folder.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/utf8.h"

/* --------------------------------------------------------------------------------------------- metadata */

/* The JSON text of a key; NULL: none. */
static const char *metadata(const mtp_trace *t, const char *key)
{
    uint32_t id = mtp__trace_find_text(t, key);
    for (uint32_t i = t->metadata_count; id != 0 && i-- > 0;) /* the last one counts, as in JSON */
        if (t->metadata[i].key == id)
            return mtp__trace_get_text(t, t->metadata[i].json).bytes;
    return NULL;
}

/* A number in an object: {"rank": 3}; -1: none, or below 0. */
static int64_t member(const char *json, const char *quoted)
{
    const char *at = json != NULL ? strstr(json, quoted) : NULL;
    if (at == NULL)
        return -1;
    at += strlen(quoted);
    at += strspn(at, " \t\r\n");
    if (*at++ != ':')
        return -1;
    at += strspn(at, " \t\r\n\"");
    int64_t value = 0;
    if (!mtp__is_digit(*at))
        return -1;
    for (; mtp__is_digit(*at) && value < INT32_MAX; at++)
        value = value * 10 + (*at - '0');
    return value;
}

/* --------------------------------------------------------------------------------------------------- job */

/* What Hive, Spark and the readers that follow them escape in the name of a folder. */
static bool is_escaped(unsigned char c)
{
    return c < 0x20 || c == 0x7f || strchr("\"#%'*/:=?\\{[]^", c) != NULL;
}

/* false: empty, or too long for the name of a folder. */
static bool put_job(mtp__parquet_place *out, const char *bytes, size_t length)
{
    const unsigned char *at = (const unsigned char *)bytes, *end = at + length;
    char *to = out->job;
    while (at < end && to < out->job + NAME_MAX) {
        unsigned skip, n = mtp__utf8_character(at, end, &skip);
        if (n == 0)
            to = stpcpy(to, MTP__UTF8_REPLACEMENT);
        else if (n == 1 && is_escaped(*at))
            to += snprintf(to, 4, "%%%02X", *at);
        else
            to = (char *)memcpy(to, at, n) + n;
        at += n != 0 ? n : skip;
    }
    *to = 0;
    return at == end && length > 0 && strlen(out->job) + strlen("job=") <= NAME_MAX;
}

/* The text of a JSON string without escapes; length 0: it is something else. */
static mtp_text plain_string(const char *json)
{
    size_t length = json != NULL ? strlen(json) : 0;
    if (length < 3 || json[0] != '"' || json[length - 1] != '"' || strchr(json, '\\') != NULL)
        return (mtp_text){"", 0};
    return (mtp_text){json + 1, length - 2};
}

/* "out/run.pt.trace.json.gz" is run. */
static mtp_text stem(const char *path)
{
    static const char *const suffixes[] = {".gz", ".zst", ".json", ".trace", ".pt", ".mtp"};
    size_t end = strlen(path), start;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/';)
        start--;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t n = strlen(suffixes[i]);
        if (end - start > n && memcmp(path + end - n, suffixes[i], n) == 0)
            end -= n;
    }
    return (mtp_text){path + start, end - start};
}

/* Ranks of one job are usually files of one folder. */
static mtp_text folder_of(const char *path, char full[PATH_MAX])
{
    char *slash = realpath(path, full) != NULL ? strrchr(full, '/') : NULL;
    if (slash == NULL || slash == full)
        return (mtp_text){"", 0};
    *slash = 0;
    const char *name = strrchr(full, '/') + 1;
    return (mtp_text){name, strlen(name)};
}

static mtp_text job_of(const mtp_trace *t, char full[PATH_MAX])
{
    mtp_text job = plain_string(metadata(t, "job"));
    if (job.length == 0 && member(metadata(t, "distributedInfo"), "\"world_size\"") > 1)
        job = folder_of(t->source, full);
    if (job.length == 0 && strcmp(t->source, "this process") != 0)
        job = stem(t->source);
    return job.length != 0 ? job : (mtp_text){"trace", 5};
}

mtp_status mtp__parquet_find_place(const mtp_trace *t, const mtp_parquet_options *options,
                                   mtp__parquet_place *out)
{
    char full[PATH_MAX];
    int64_t rank = member(metadata(t, "distributedInfo"), "\"rank\"");
    out->rank = options->rank >= 0 ? options->rank : rank >= 0 ? rank : 0;
    mtp_text job = options->job != NULL ? (mtp_text){options->job, strlen(options->job)} : job_of(t, full);
    if (!put_job(out, job.bytes, job.length))
        return MTP_FAIL(MTP_E_ARG,
                        job.length == 0
                            ? "the name of the job is empty"
                            : "the name of the job is too long for a folder: choose a shorter one");
    return MTP_OK;
}

/* -------------------------------------------------------------------------------------------------- path */

static mtp_status make_folder(const char *path)
{
    struct stat st;
    if (mtp__make_folder(path, 0777) == 0)
        return MTP_OK;
    int error = errno;
    if (error == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return MTP_OK;
    return MTP_FAIL(MTP_E_IO, "%s: the folder cannot be made: %s", path,
                    mtp__reason(error == EEXIST ? ENOTDIR : error));
}

mtp_status mtp__parquet_path(const char *folder, const char *table, const mtp__parquet_place *place,
                             bool make, char path[PATH_MAX])
{
    int length = snprintf(path, PATH_MAX, "%s/%s/job=%s/rank=%" PRId64 "/%s.parquet", folder, table,
                          place->job, place->rank, table);
    if (length < 0 || length >= PATH_MAX)
        return MTP_FAIL(MTP_E_ARG, "the path of the output folder is too long");
    if (!make)
        return MTP_OK;
    mtp_status status = make_folder(folder);
    for (char *slash = path + strlen(folder) + 1; status == MTP_OK && (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = 0;
        status = make_folder(path);
        *slash = '/';
    }
    return status;
}
