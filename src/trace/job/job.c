/* trace/job/job.c - reads a job's file (job.h). JSON is read where it is; a spool, which is read in several passes by its
 * path, is first copied to a file in memory. */
#define _GNU_SOURCE
#include "trace/job/job.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/budget.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/json_check.h"
#include "base/os.h"
#include "base/plain.h"
#include "record/spool/spool.h"
#include "trace/join/join.h"
#include "trace/json/member.h"
#include "trace/json/source.h"
#include "trace/kineto/kineto.h"

#define START 32u /* magic, length, hash */
#define PIECE ((size_t)1 << 20)
#define LISTED 8u

bool mtp__job_recognise(const void *start, size_t bytes)
{
    return bytes >= 16 && memcmp(start, MTP__JOB_MAGIC, 16) == 0;
}

/* -------------------------------------------------------------------------------------------------- head */

static bool size_in(mtp_text object, const char *key, uint64_t *out)
{
    int64_t value;
    if (!mtp__member_whole(object, key, &value) || value < 0)
        return false;
    *out = (uint64_t)value;
    return true;
}

static mtp_status read_part(mtp__job *j, mtp_text object, uint64_t from, uint64_t file_bytes)
{
    mtp__job_part part = {0};
    bool known = size_in(object, "offset", &part.offset) && size_in(object, "bytes", &part.bytes) &&
                 mtp__member_text(object, "name", &part.name);
    if (!known || part.bytes == 0)
        return MTP_FAIL(MTP_E_FORMAT, "the table of ranks is damaged");
    part.cut =
        from > file_bytes || part.offset > file_bytes - from || part.bytes > file_bytes - from - part.offset;
    part.offset += from;
    if (!MTP__GROW(j->parts, j->part_room, j->part_count, (size_t)j->part_count + 1, 16))
        return MTP_FAIL(MTP_E_NOMEM, "%u parts", j->part_count);
    j->parts[j->part_count++] = part;
    return MTP_OK;
}

static mtp_status read_rank(mtp__job *j, mtp_text object, uint64_t from, uint64_t file_bytes)
{
    mtp__job_rank r = {.text = object, .world_size = -1, .error = -1, .first = j->part_count};
    mtp_text clock, parts, part;
    int64_t by = 0;
    if (!mtp__member_whole(object, "rank", &r.rank) || !mtp__member_text(object, "clock", &clock) ||
        !mtp__member_text(object, "parts", &parts) || !mtp__member_whole(clock, "at_ns", &r.at) ||
        !mtp__member_whole(clock, "offset_ns", &r.offset) || !mtp__member_real(clock, "drift", &r.drift) ||
        !(r.drift > -0.5 && r.drift < 0.5) || !mtp__member_whole(clock, "by", &by) || by < 0 ||
        by > MTP_CLOCK_BY_DAY)
        return MTP_FAIL(MTP_E_FORMAT, "the table of ranks is damaged");
    r.by = (uint32_t)by;
    mtp__member_whole(clock, "error_ns", &r.error);
    mtp__member_whole(object, "world_size", &r.world_size);
    mtp_status status = MTP_OK;
    while (status == MTP_OK && (part = mtp__member_next(&parts)).length > 0)
        status = read_part(j, part, from, file_bytes);
    r.parts = j->part_count - r.first;
    if (status == MTP_OK && r.parts == 0)
        status =
            MTP_FAIL(MTP_E_FORMAT, "the table of ranks is damaged: rank %lld has no file", (long long)r.rank);
    if (status == MTP_OK && !MTP__GROW(j->ranks, j->rank_room, j->rank_count, (size_t)j->rank_count + 1, 16))
        status = MTP_FAIL(MTP_E_NOMEM, "%u ranks", j->rank_count);
    if (status == MTP_OK)
        j->ranks[j->rank_count++] = r;
    return status;
}

static uint64_t little(const unsigned char *p)
{
    uint64_t v = 0;
    for (int i = 8; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static mtp_status read_head(mtp__job *j, int fd)
{
    unsigned char start[START];
    struct stat st;
    size_t wrong;
    if (fstat(fd, &st) != 0 || mtp__pread(fd, start, sizeof start, 0) != (ssize_t)sizeof start ||
        !mtp__job_recognise(start, sizeof start))
        return MTP_FAIL(MTP_E_FORMAT, "this is no file of several ranks, or it is truncated");
    uint64_t length = little(start + 16), file_bytes = (uint64_t)st.st_size;
    if (length > MTP__JOB_HEAD_MAX || length > file_bytes - START)
        return MTP_FAIL(MTP_E_FORMAT, "the table of ranks is damaged or truncated");
    j->head = mtp__calloc(1, (size_t)length + 1);
    if (j->head == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a table of %llu bytes", (unsigned long long)length);
    if (mtp__pread(fd, j->head, (size_t)length, START) != (ssize_t)length ||
        mtp__hash_bytes(j->head, (size_t)length) != little(start + 24) ||
        !mtp__json_check(j->head, (size_t)length, &wrong))
        return MTP_FAIL(MTP_E_FORMAT, "the table of ranks is damaged: its checksum does not match");
    uint64_t from = (START + length + MTP__JOB_ALIGN - 1) / MTP__JOB_ALIGN * MTP__JOB_ALIGN;
    mtp_text head = {j->head, (size_t)length}, ranks, rank;
    mtp_status status = mtp__member_text(head, "ranks", &ranks)
                            ? MTP_OK
                            : MTP_FAIL(MTP_E_FORMAT, "the table of ranks is damaged");
    while (status == MTP_OK && (rank = mtp__member_next(&ranks)).length > 0)
        status = read_rank(j, rank, from, file_bytes);
    if (status == MTP_OK && j->rank_count == 0)
        status = MTP_FAIL(MTP_E_FORMAT, "it has no ranks");
    return status;
}

mtp_status mtp__job_open(const char *path, mtp__job *out)
{
    *out = (mtp__job){.path = mtp__strdup(path)};
    if (out->path == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a path");
    int fd = mtp__open(path, O_RDONLY | O_NONBLOCK, 0);
    mtp_status status = fd >= 0 ? read_head(out, fd) : MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    mtp__close(fd);
    if (status != MTP_OK)
        mtp__job_close(out);
    return status;
}

void mtp__job_close(mtp__job *j)
{
    mtp__free(j->path);
    mtp__free(j->head);
    mtp__free(j->ranks);
    mtp__free(j->parts);
    *j = (mtp__job){0};
}

const mtp__job_part *mtp__job_cut(const mtp__job *j, const mtp__job_rank *r)
{
    for (uint32_t i = 0; i < r->parts; i++)
        if (j->parts[r->first + i].cut)
            return &j->parts[r->first + i];
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- parts */

static mtp_status copy_part(int from, const mtp__job_part *part, int to)
{
    char *piece = mtp__calloc(1, PIECE);
    mtp_status status = piece != NULL ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "a buffer");
    for (uint64_t at = 0; at < part->bytes && status == MTP_OK;) {
        size_t want = part->bytes - at < PIECE ? (size_t)(part->bytes - at) : PIECE;
        ssize_t n = mtp__pread(from, piece, want, part->offset + at);
        if (n <= 0 || mtp__write(to, piece, (size_t)n) != 0)
            status = MTP_FAIL(MTP_E_IO, "a recording in it: %s",
                              n == 0 ? "the file became shorter" : mtp__reason(errno));
        at += n > 0 ? (uint64_t)n : 0;
    }
    mtp__free(piece);
    return status;
}

/* The recordings of a rank as files in memory, by paths that lead to them. */
typedef struct copies {
    int *fd; /* owned, each */
    mtp__files files;
} copies;

static void copies_fini(copies *c, uint32_t count)
{
    for (uint32_t i = 0; i < count && c->fd != NULL; i++)
        mtp__close(c->fd[i] - 1);
    mtp__free(c->fd);
    mtp__files_fini(&c->files);
}

static mtp_status make_copies(const mtp__job *j, const mtp__job_rank *r, int fd, copies *c)
{
    mtp_status status = MTP_OK;
    c->fd = mtp__calloc(r->parts, sizeof *c->fd);
    c->files.path = mtp__calloc(r->parts, sizeof *c->files.path);
    if (c->fd == NULL || c->files.path == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u recordings", r->parts);
    for (uint32_t i = 0; i < r->parts && status == MTP_OK; i++) {
        char path[64];
        int made = memfd_create("mtprof", MFD_CLOEXEC);
        c->fd[i] = made + 1; /* 0: none */
        if (made < 0)
            return MTP_FAIL(MTP_E_IO, "a file in memory: %s", mtp__reason(errno));
        snprintf(path, sizeof path, "/proc/self/fd/%d", made);
        c->files.path[i] = mtp__strdup(path);
        if (c->files.path[i] == NULL)
            return MTP_FAIL(MTP_E_NOMEM, "a path");
        c->files.count = i + 1;
        status = copy_part(fd, &j->parts[r->first + i], made);
    }
    return status;
}

static mtp_status open_spools(const mtp__job *j, const mtp__job_rank *r, int fd,
                              const mtp_open_options *options, mtp_trace **out)
{
    copies c = {0};
    mtp_status status = make_copies(j, r, fd, &c);
    if (status == MTP_OK && r->parts > 1)
        status = mtp__join_open(&c.files, options, out);
    else if (status == MTP_OK)
        status = mtp_trace_open(c.files.path[0], options, out);
    copies_fini(&c, r->parts);
    return status;
}

static mtp_status open_json(const mtp__job *j, const mtp__job_part *part, const mtp_open_options *options,
                            mtp_trace **out)
{
    mtp__source *source;
    mtp_status status = mtp__source_open_part(j->path, part->offset, part->bytes, &source);
    if (status != MTP_OK)
        return status;
    mtp__budget_fit(part->bytes);
    status = mtp__kineto_read(source, options, 0, out);
    mtp__source_close(source);
    return status;
}

static mtp_status open_rank(const mtp__job *j, const mtp__job_rank *r, const mtp_open_options *options,
                            mtp_trace **out)
{
    char head[512];
    const mtp__job_part *part = &j->parts[r->first], *cut = mtp__job_cut(j, r);
    if (cut != NULL)
        return MTP_FAIL(MTP_E_FORMAT, "the file is truncated: the part %.*s is not complete",
                        (int)cut->name.length, cut->name.bytes);
    int fd = mtp__open(j->path, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    ssize_t n =
        mtp__pread(fd, head, part->bytes < sizeof head ? (size_t)part->bytes : sizeof head, part->offset);
    mtp_status status = n > 0 && mtp__spool_recognise(head, (size_t)n) ? open_spools(j, r, fd, options, out)
                                                                       : open_json(j, part, options, out);
    mtp__close(fd);
    return status;
}

mtp_status mtp__job_trace(const mtp__job *j, uint32_t index, const mtp_open_options *options, bool placed,
                          mtp_trace **out)
{
    const mtp__job_rank *r = &j->ranks[index];
    mtp_open_options one = *options;
    mtp__budget outer;
    one.by_rank = one.alone = false;
    one.progress = NULL;
    *out = NULL;
    mtp_status status = mtp__budget_begin(options->max_memory, &outer);
    if (status != MTP_OK)
        return status;
    status = open_rank(j, r, &one, out);
    mtp__budget_end(&outer);
    if (status != MTP_OK) {
        mtp_text name = j->parts[r->first].name;
        MTP_NOTE("rank %lld (%.*s)", (long long)r->rank, (int)name.length, name.bytes);
        return status;
    }
    if (placed)
        mtp__trace_place(*out, r->at, r->offset, r->drift);
    (*out)->in_job = true;
    (*out)->job_rank = r->rank;
    snprintf((*out)->source, sizeof(*out)->source, "%s", j->path);
    return MTP_OK;
}

mtp_status mtp__job_choose(const mtp__job *j, const mtp_open_options *options, uint32_t *index)
{
    char list[LISTED * 24] = "";
    *index = 0;
    if (!options->by_rank && j->rank_count == 1)
        return MTP_OK;
    for (*index = 0; options->by_rank && *index < j->rank_count; ++*index)
        if (j->ranks[*index].rank == options->rank)
            return MTP_OK;
    for (uint32_t i = 0; i < j->rank_count && i < LISTED; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%lld", i > 0 ? ", " : "", (long long)j->ranks[i].rank);
    }
    if (options->by_rank)
        return MTP_FAIL(MTP_E_ARG, "there is no rank %lld in it, but %s%s", (long long)options->rank, list,
                        j->rank_count > LISTED ? ", ..." : "");
    return MTP_FAIL(MTP_E_ARG,
                    "it has %u ranks; choose one (--rank %lld), compare them (mtprof ranks), or make one "
                    "timeline of them (mtprof merge -o FILE.json.gz)",
                    j->rank_count, (long long)j->ranks[0].rank);
}
