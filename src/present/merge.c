/* present/merge.c - the traces of a job's ranks as one file: an archive (trace/job/job.h), Kineto/Chrome JSON, or an
 * archive for Perfetto. Ours is a copy of bytes; JSON needs one trace in memory at a time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "analyze/ranks/ranks.h"
#include "base/abi.h"
#include "base/error.h"
#include "base/file_out.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/json_out.h"
#include "base/os.h"
#include "base/plain.h"
#include "present/chrome/chrome.h"
#include "trace/json/text.h"
#include "trace/join/join.h"

#define DAY_NS 86400000000000LL
#define PIECE ((size_t)1 << 20)

/* ------------------------------------------------------------------------------------------------ archive */

typedef struct part { /* of the new file */
    const char *file; /* borrowed: where it is now */
    const char *name; /* borrowed: what it is called in the new one */
    uint64_t from, bytes, offset;
    uint32_t rank; /* index */
} part;

typedef struct archive {
    const mtp_ranks *r;
    mtp__job old; /* owned: if the ranks were read from such a file */
    part *parts;  /* owned */
    char **paths; /* owned, each */
    uint32_t count, room, path_count, path_room;
    uint64_t at; /* where the next part begins */
    uint32_t rank;
    bool failed; /* out of memory, latched */
} archive;

static uint64_t align(uint64_t at)
{
    return (at + MTP__JOB_ALIGN - 1) / MTP__JOB_ALIGN * MTP__JOB_ALIGN;
}

static void add_part(archive *a, const char *file, const char *name, uint64_t from, uint64_t bytes)
{
    if (a->failed || !MTP__GROW(a->parts, a->room, a->count, (size_t)a->count + 1, 64)) {
        a->failed = true;
        return;
    }
    a->parts[a->count++] = (part){file, name, from, bytes, a->at, a->rank};
    a->at = align(a->at + bytes);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static const char *keep(archive *a, const char *path)
{
    if (!MTP__GROW(a->paths, a->path_room, a->path_count, (size_t)a->path_count + 1, 64) ||
        (a->paths[a->path_count] = mtp__strdup(path)) == NULL) {
        a->failed = true;
        return NULL;
    }
    return a->paths[a->path_count++];
}

static bool add_file(void *user, const char *file)
{
    archive *a = user;
    struct stat st;
    if (stat(file, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return true;
    const char *kept = keep(a, file);
    if (kept != NULL)
        add_part(a, kept, base_name(kept), 0, (uint64_t)st.st_size);
    return !a->failed;
}

static void add_old_part(archive *a, const char *file, const mtp__job_part *p)
{
    mtp__buffer name = {0};
    mtp__json_unescape(&name, p->name.bytes, p->name.length);
    mtp__buffer_add(&name, "", 1);
    const char *kept = name.failed ? NULL : keep(a, name.bytes);
    a->failed |= name.failed;
    mtp__buffer_fini(&name);
    if (kept != NULL)
        add_part(a, file, kept, p->offset, p->bytes);
}

/* Of a recording that has several ranks beside it. */
static mtp_status add_files_of_rank(archive *a, const mtp__rank *k)
{
    mtp__files all, own = {0};
    mtp_status status = mtp__files_of(k->row.file, &all);
    if (status == MTP_OK)
        status = mtp__join_files_of_rank(&all, k->part, &own);
    for (uint32_t i = 0; i < own.count && !a->failed; i++)
        add_file(a, own.path[i]);
    mtp__files_fini(&own);
    mtp__files_fini(&all);
    return status;
}

static mtp_status list_parts(archive *a)
{
    const char *opened = NULL;
    mtp_status status = MTP_OK;
    for (a->rank = 0; a->rank < a->r->used && status == MTP_OK && !a->failed; a->rank++) {
        const mtp__rank *k = &a->r->list[a->rank];
        if (k->section == MTP__NONE) {
            uint32_t before = a->count;
            status = k->part >= 0 ? add_files_of_rank(a, k) : mtp_trace_files(k->row.file, add_file, a);
            if (status == MTP_OK && !a->failed && a->count == before)
                status =
                    MTP_FAIL(MTP_E_UNSUPPORTED, "%s: only files can be put into an archive", k->row.file);
            continue;
        }
        if (opened == NULL || strcmp(opened, k->row.file) != 0) {
            mtp__job_close(&a->old);
            status = mtp__job_open(k->row.file, &a->old);
            opened = k->row.file;
        }
        if (status == MTP_OK && k->section >= a->old.rank_count)
            status = MTP_FAIL(MTP_E_STATE, "%s: the file was changed meanwhile", k->row.file);
        for (uint32_t i = 0; status == MTP_OK && i < a->old.ranks[k->section].parts; i++)
            add_old_part(a, k->row.file, &a->old.parts[a->old.ranks[k->section].first + i]);
    }
    return a->failed ? MTP_FAIL(MTP_E_NOMEM, "%u files", a->count) : status;
}

static void put_text(mtp__out *o, const char *key, const char *text)
{
    mtp__out_text(o, key);
    mtp__out_string(o, text, strlen(text));
}

static void put_number(mtp__out *o, const char *key, int64_t value)
{
    mtp__out_text(o, key);
    mtp__out_i64(o, value);
}

/* {"by": 3, "at_ns": ..., "offset_ns": ..., "drift": ..., "error_ns": ...} */
static void put_clock(mtp__out *o, const mtp_rank_row *row)
{
    put_number(o, "{\"by\": ", (int64_t)row->clock_by);
    put_number(o, ", \"at_ns\": ", row->clock_at_ns);
    put_number(o, ", \"offset_ns\": ", row->clock_offset_ns);
    MTP__OUT(o, ", \"drift\": ");
    mtp__out_double(o, row->clock_drift);
    put_number(o, ", \"error_ns\": ", row->clock_error_ns);
    MTP__OUT(o, "}");
}

static void put_rank(mtp__out *o, const archive *a, uint32_t rank, uint32_t *at)
{
    const mtp_rank_row *row = &a->r->list[rank].row;
    put_number(o, rank > 0 ? ",\n {\"rank\": " : "\n {\"rank\": ", row->rank);
    put_number(o, ", \"world_size\": ", row->world_size);
    put_text(o, ", \"host\": ", row->host);
    put_text(o, ", \"job\": ", row->job);
    put_text(o, ", \"backend\": ", row->backend);
    put_number(o, ", \"pid\": ", (int64_t)row->pid);
    MTP__OUT(o, ", \"clock\": ");
    put_clock(o, row);
    MTP__OUT(o, ", \"parts\": [");
    for (bool any = false; *at < a->count && a->parts[*at].rank == rank; ++*at, any = true) {
        put_text(o, any ? ", {\"name\": " : "{\"name\": ", a->parts[*at].name);
        put_number(o, ", \"offset\": ", (int64_t)a->parts[*at].offset);
        put_number(o, ", \"bytes\": ", (int64_t)a->parts[*at].bytes);
        MTP__OUT(o, "}");
    }
    MTP__OUT(o, "]}");
}

typedef struct text { /* {0} is empty */
    char *bytes;      /* owned */
    size_t length, room;
} text;

static bool append(void *user, const void *bytes, size_t length)
{
    text *t = user;
    if (!MTP__GROW(t->bytes, t->room, t->length, t->length + length, 4096))
        return false;
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    return true;
}

static mtp_status make_head(const archive *a, text *head)
{
    mtp__out o;
    const mtp_ranks *r = a->r;
    uint32_t at = 0;
    mtp_status status = mtp__out_init(&o, append, head);
    if (status != MTP_OK)
        return status;
    put_text(&o, "{\"version\": 1, \"made by\": ", mtp_version());
    MTP__OUT(&o, ",\n\"ranks\": [");
    for (uint32_t k = 0; k < r->used; k++)
        put_rank(&o, a, k, &at);
    MTP__OUT(&o, "],\n\"notes\": [");
    for (uint32_t i = 0; i < r->note_count; i++)
        put_text(&o, i > 0 ? ",\n " : "\n ", r->notes[i]);
    MTP__OUT(&o, "]}\n");
    status = mtp__out_finish(&o);
    return status == MTP_E_IO ? MTP_FAIL(MTP_E_NOMEM, "a table of %u ranks", r->used) : status;
}

static bool pad(mtp_file *to, uint64_t from, uint64_t until)
{
    static const char zero[MTP__JOB_ALIGN];
    return until == from || mtp_file_sink(to, zero, (size_t)(until - from));
}

static mtp_status copy(const part *p, mtp_file *to)
{
    int fd = mtp__open(p->file, O_RDONLY | O_NONBLOCK, 0);
    char *piece = mtp__calloc(1, PIECE);
    mtp_status status = fd < 0          ? MTP_FAIL(MTP_E_IO, "%s: %s", p->file, mtp__reason(errno))
                        : piece == NULL ? MTP_FAIL(MTP_E_NOMEM, "a buffer")
                                        : MTP_OK;
    for (uint64_t at = 0; at < p->bytes && status == MTP_OK && !mtp__file_failed(to);) {
        size_t want = p->bytes - at < PIECE ? (size_t)(p->bytes - at) : PIECE;
        ssize_t n = mtp__pread(fd, piece, want, p->from + at);
        if (n <= 0)
            status = MTP_FAIL(MTP_E_IO, "%s: %s", p->file, n == 0 ? "it became shorter" : mtp__reason(errno));
        else
            mtp_file_sink(to, piece, (size_t)n);
        at += n > 0 ? (uint64_t)n : 0;
    }
    mtp__free(piece);
    mtp__close(fd);
    return status;
}

static void put_little(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static mtp_status write_archive(const archive *a, mtp_file *to)
{
    text head = {0};
    unsigned char start[32] = MTP__JOB_MAGIC;
    mtp_status status = make_head(a, &head);
    if (status == MTP_OK) {
        put_little(start + 16, head.length);
        put_little(start + 24, mtp__hash_bytes(head.bytes, head.length));
        mtp_file_sink(to, start, sizeof start);
        mtp_file_sink(to, head.bytes, head.length);
        pad(to, sizeof start + head.length, align(sizeof start + head.length));
    }
    mtp__free(head.bytes);
    for (uint32_t i = 0; i < a->count && status == MTP_OK && !mtp__file_failed(to); i++) {
        status = copy(&a->parts[i], to);
        pad(to, a->parts[i].bytes, align(a->parts[i].bytes));
    }
    return status;
}

static mtp_status merge_archive(const mtp_ranks *r, mtp_file *to)
{
    archive a = {.r = r};
    mtp_status status = list_parts(&a);
    if (status == MTP_OK)
        status = write_archive(&a, to);
    for (uint32_t i = 0; i < a.path_count; i++)
        mtp__free(a.paths[i]);
    mtp__free(a.paths);
    mtp__free(a.parts);
    mtp__job_close(&a.old);
    return status;
}

/* --------------------------------------------------------------------------------------------------- JSON */

/* The day in which the job begins, as in other files of ours. */
static int64_t base_of(const mtp_ranks *r)
{
    int64_t first = INT64_MAX;
    for (uint32_t k = 0; k < r->used; k++) {
        int64_t at = mtp__rank_true(r, k, r->list[k].row.first_ns);
        first = at < first ? at : first;
    }
    first -= first > INT64_MIN + DAY_NS + 1000000 ? 1000000 : 0; /* marks may come before the first span */
    return first / DAY_NS * DAY_NS - (first % DAY_NS < 0 ? DAY_NS : 0);
}

/* Of the ranks from one index up to another. */
static mtp_status json_head(const mtp_ranks *r, uint32_t from, uint32_t until, int64_t base, mtp_sink *sink,
                            void *user)
{
    mtp__out o;
    const mtp_rank_row *first = &r->list[from].row;
    int64_t world = first->world_size > 0 ? first->world_size : (int64_t)r->used;
    mtp_status status = mtp__out_init(&o, sink, user);
    if (status != MTP_OK)
        return status;
    put_text(&o,
             "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [],\n  \"distributedInfo\": {\"backend\": ",
             first->backend);
    put_number(&o, ", \"rank\": ", first->rank);
    put_number(&o, ", \"world_size\": ", world);
    if (*first->job != 0)
        put_text(&o, ", \"job\": ", first->job);
    MTP__OUT(&o, ", \"ranks\": [");
    for (uint32_t k = from; k < until; k++)
        put_number(&o, k > from ? ", " : "", r->list[k].row.rank);
    MTP__OUT(&o, "]},\n  \"displayTimeUnit\": \"ms\",\n  \"mtprof.clocks\": [");
    for (uint32_t k = from; k < until; k++) {
        put_number(&o, k > from ? ",\n    {\"rank\": " : "\n    {\"rank\": ", r->list[k].row.rank);
        put_text(&o, ", \"host\": ", r->list[k].row.host);
        MTP__OUT(&o, ", \"clock\": ");
        put_clock(&o, &r->list[k].row);
        MTP__OUT(&o, "}");
    }
    put_text(&o, "],\n  \"mtprof\": {\"version\": ", mtp_version());
    put_number(&o, "},\n  \"baseTimeNanoseconds\": ", base);
    MTP__OUT(&o, ",\n  \"traceEvents\": [");
    return mtp__out_finish(&o);
}

static mtp_status json_tail(const mtp_export_options *options, const char *path, mtp_sink *sink, void *user)
{
    mtp__out o;
    mtp_status status = mtp__out_init(&o, sink, user);
    if (status != MTP_OK)
        return status;
    put_text(&o, "\n  ],\n  \"traceName\": ", options->trace_name != NULL ? options->trace_name : path);
    MTP__OUT(&o, "\n}\n");
    return mtp__out_finish(&o);
}

static mtp_status merge_json(const mtp_ranks *r, const mtp_export_options *options, const char *path,
                             mtp_file *to)
{
    mtp__chrome_job job = {.base_ns = base_of(r)};
    mtp_export_options each = *options;
    each.progress = NULL;
    mtp_status status = json_head(r, 0, r->used, job.base_ns, mtp_file_sink, to);
    for (uint32_t k = 0; k < r->used && status == MTP_OK; k++) {
        mtp_trace *t;
        mtp_open_options open = MTP_OPEN_OPTIONS_INIT;
        job.rank = r->list[k].row.rank;
        status = mtp__rank_open(&r->list[k], &open, true, &t);
        if (status == MTP_OK)
            status = mtp__chrome_part(t, &each, &job, mtp_file_sink, to);
        mtp_trace_destroy(t);
        if (options->progress != NULL)
            options->progress(options->user, k + 1, r->used);
    }
    mtp__pair_map_fini(&job.pids);
    return status == MTP_OK ? json_tail(options, path, mtp_file_sink, to) : status;
}

/* ------------------------------------------------------------------------------------------ Perfetto's archive */

/* A tar file with a manifest (perfetto_manifest, version 1) before the ranks' timelines, each of a machine of its own, so
 * that equal pids stay apart. All are on the reference's clock already, drift included, which a manifest cannot say. */

#define TAR_BLOCK 512u
#define TAR_OCTAL 11u

static void put_octal(char *to, uint64_t value)
{
    for (unsigned i = TAR_OCTAL; i-- > 0; value >>= 3)
        to[i] = (char)('0' + (value & 7));
}

/* ustar's; a size beyond 8 GiB is binary, as GNU tar and others read it. */
static bool tar_head(mtp_file *to, const char *name, uint64_t bytes, int64_t seconds)
{
    char head[TAR_BLOCK] = "";
    unsigned sum = 0;
    snprintf(head, 100, "%s", name);
    memcpy(head + 100, "0000644", 7);
    memcpy(head + 108, "0000000", 7);
    memcpy(head + 116, "0000000", 7);
    put_octal(head + 124, bytes);
    if (bytes >> 3 * TAR_OCTAL != 0) {
        memset(head + 124, 0, TAR_OCTAL + 1);
        head[124] = (char)0x80;
        for (int i = 0; i < 8; i++)
            head[135 - i] = (char)(unsigned char)(bytes >> 8 * i);
    }
    put_octal(head + 136, seconds > 0 ? (uint64_t)seconds : 0);
    head[156] = '0';
    memcpy(head + 257, "ustar\00000", 8);
    memset(head + 148, ' ', 8);
    for (size_t i = 0; i < sizeof head; i++)
        sum += (unsigned char)head[i];
    for (int i = 5; i >= 0; i--, sum >>= 3)
        head[148 + i] = (char)('0' + (sum & 7));
    head[154] = 0;
    return mtp_file_sink(to, head, sizeof head);
}

static bool tar_pad(mtp_file *to, uint64_t bytes)
{
    return pad(to, bytes, (bytes + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK);
}

static bool count_bytes(void *user, const void *bytes, size_t length)
{
    (void)bytes;
    *(uint64_t *)user += length;
    return true;
}

static void name_member(const mtp_rank_row *row, char name[40])
{
    snprintf(name, 40, "rank%lld.json", (long long)row->rank);
}

static mtp_status make_manifest(const mtp_ranks *r, text *manifest)
{
    mtp__out o;
    char name[40];
    mtp_status status = mtp__out_init(&o, append, manifest);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "{\"perfetto_manifest\": {\"version\": 1, \"files\": [");
    for (uint32_t k = 0; k < r->used; k++) {
        const mtp_rank_row *row = &r->list[k].row;
        mtp__words machine = {0};
        mtp__say(&machine, *row->host != 0 ? "rank %lld (%s)" : "rank %lld", (long long)row->rank, row->host);
        name_member(row, name);
        put_text(&o, k > 0 ? ",\n {\"path\": " : "\n {\"path\": ", name);
        put_text(&o, ", \"machine\": {\"name\": ", machine.failed ? "" : machine.bytes);
        name_member(&r->list[0].row, name);
        if (k > 0) /* as the first: a file without a clock of its own must name one */
            put_text(&o, "}, \"clocks\": {\"sync_to\": {\"file\": ", name);
        mtp__out_text(&o, k > 0 ? "}, \"offset_ns\": 0}}" : "}}");
        o.failed |= machine.failed;
        mtp__free(machine.bytes);
    }
    MTP__OUT(&o, "]}}\n");
    status = mtp__out_finish(&o);
    return status == MTP_E_IO ? MTP_FAIL(MTP_E_NOMEM, "a table of %u ranks", r->used) : status;
}

static mtp_status write_member(const mtp_ranks *r, uint32_t k, const mtp_trace *t,
                               const mtp_export_options *options, int64_t base, mtp_sink *sink, void *user)
{
    char name[40];
    mtp__chrome_job job = {.base_ns = base, .rank = r->list[k].row.rank};
    name_member(&r->list[k].row, name);
    mtp_status status = json_head(r, k, k + 1, base, sink, user);
    if (status == MTP_OK)
        status = mtp__chrome_part(t, options, &job, sink, user);
    mtp__pair_map_fini(&job.pids);
    return status == MTP_OK ? json_tail(options, name, sink, user) : status;
}

/* Written twice: a member's length comes before it. */
static mtp_status add_member(const mtp_ranks *r, uint32_t k, const mtp_export_options *options, int64_t base,
                             mtp_file *to)
{
    mtp_trace *t;
    char name[40];
    uint64_t bytes = 0;
    mtp_open_options open = MTP_OPEN_OPTIONS_INIT;
    mtp_status status = mtp__rank_open(&r->list[k], &open, true, &t);
    if (status == MTP_OK)
        status = write_member(r, k, t, options, base, count_bytes, &bytes);
    name_member(&r->list[k].row, name);
    if (status == MTP_OK && tar_head(to, name, bytes, base / 1000000000))
        status = write_member(r, k, t, options, base, mtp_file_sink, to);
    if (status == MTP_OK)
        tar_pad(to, bytes);
    mtp_trace_destroy(t);
    return status;
}

static mtp_status merge_tar(const mtp_ranks *r, const mtp_export_options *options, mtp_file *to)
{
    text manifest = {0};
    int64_t base = base_of(r);
    mtp_export_options each = *options;
    each.progress = NULL;
    mtp_status status = make_manifest(r, &manifest);
    if (status == MTP_OK && tar_head(to, "perfetto_manifest.json", manifest.length, base / 1000000000) &&
        mtp_file_sink(to, manifest.bytes, manifest.length))
        tar_pad(to, manifest.length);
    mtp__free(manifest.bytes);
    for (uint32_t k = 0; k < r->used && status == MTP_OK && !mtp__file_failed(to); k++) {
        status = add_member(r, k, &each, base, to);
        if (options->progress != NULL)
            options->progress(options->user, k + 1, r->used);
    }
    if (status == MTP_OK)
        pad(to, 0, 2 * TAR_BLOCK); /* the end */
    return status;
}

mtp_status mtp_merge(const mtp_ranks *r, const char *path, const mtp_export_options *options)
{
    if (r == NULL || path == NULL)
        return MTP_FAIL(MTP_E_ARG, "ranks or path is NULL");
    mtp_export_options known = MTP_EXPORT_OPTIONS_INIT;
    mtp_status status = MTP__ABI_READ(&known, options, mtp_export_options, user);
    if (status != MTP_OK)
        return status;
    bool packs = mtp__path_ends(path, ".mtp"), tars = mtp__path_ends(path, ".tar");
    if (!packs && !tars && !mtp__path_ends(path, ".json") && !mtp__path_ends(path, ".json.gz"))
        return MTP_FAIL(MTP_E_ARG, "%s: the suffix must be .mtp, .json, .json.gz or .tar", path);
    struct stat out, in;
    bool exists = stat(path, &out) == 0;
    for (uint32_t k = 0; k < r->count && exists; k++)
        if (stat(r->list[k].row.file, &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return MTP_FAIL(MTP_E_ARG, "%s is one of the files that are merged", path);
    mtp_file *to;
    status = mtp_file_create(path, packs || tars ? MTP_FILE_PLAIN : known.compression, &to);
    if (status != MTP_OK)
        return status;
    status = packs ? merge_archive(r, to) : tars ? merge_tar(r, &known, to) : merge_json(r, &known, path, to);
    if (mtp__file_failed(to) || status == MTP_OK)
        return mtp_file_commit(to);
    mtp_file_abandon(to);
    return status;
}
