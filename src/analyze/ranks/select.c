/* analyze/ranks/select.c - which of the files are ranks of one job: those that most files agree with. */
#include <stdlib.h>
#include "analyze/ranks/ranks.h"
#include "base/error.h"
#include "base/os.h"

#define LISTED 12u /* ranks named in a note */

static bool same_job(const mtp__rank *a, const mtp__rank *b)
{
    const mtp_rank_row *x = &a->row, *y = &b->row;
    bool jobs = *x->job == 0 || *y->job == 0 || strcmp(x->job, y->job) == 0;
    return jobs && (x->world_size <= 1 || y->world_size <= 1 || x->world_size == y->world_size);
}

/* The first of the files that agrees with the most. */
static uint32_t find_job(const mtp_ranks *r)
{
    uint32_t best = MTP__NONE, most = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t agree = 0;
        for (uint32_t k = 0; k < r->count && *r->list[i].row.problem == 0; k++)
            agree += *r->list[k].row.problem == 0 && same_job(&r->list[i], &r->list[k]);
        if (agree > most) {
            most = agree;
            best = i;
        }
    }
    return best;
}

static bool set_problem(mtp_ranks *r, mtp__rank *k, mtp__words *w)
{
    k->row.problem = w->failed ? "" : mtp__ranks_keep(r, w->bytes);
    mtp__free(w->bytes);
    *w = (mtp__words){0};
    return *k->row.problem != 0;
}

static bool leave_out_other_jobs(mtp_ranks *r, uint32_t of)
{
    const mtp_rank_row *job = &r->list[of].row;
    bool good = true;
    for (uint32_t i = 0; i < r->count && good; i++) {
        mtp__rank *k = &r->list[i];
        mtp__words w = {0};
        if (*k->row.problem != 0 || same_job(&r->list[of], k))
            continue;
        if (*k->row.job != 0 && *job->job != 0 && strcmp(k->row.job, job->job) != 0)
            mtp__say(&w, "it is of another job (%s, most files are of %s)", k->row.job, job->job);
        else
            mtp__say(&w, "it is of another job (of %lld ranks, most files are of one of %lld)",
                     (long long)k->row.world_size, (long long)job->world_size);
        good = set_problem(r, k, &w);
    }
    return good;
}

static const mtp__rank *with_rank(const mtp_ranks *r, int64_t rank, uint32_t until)
{
    for (uint32_t i = 0; i < until; i++)
        if (*r->list[i].row.problem == 0 && r->list[i].row.rank == rank)
            return &r->list[i];
    return NULL;
}

/* A program that is not distributed is rank 0 of 1: several of those have no ranks yet. */
static bool number(mtp_ranks *r)
{
    uint32_t given = 0, files = 0;
    int64_t next = 0;
    for (uint32_t i = 0; i < r->count; i++)
        files += *r->list[i].row.problem == 0;
    for (uint32_t i = 0; i < r->count; i++) {
        mtp__rank *k = &r->list[i];
        if (*k->row.problem == 0 && k->row.world_size == 1 && files > 1 && k->row.rank == 0)
            k->row.rank = k->row.world_size = -1;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        mtp__rank *k = &r->list[i];
        if (*k->row.problem != 0 || k->row.rank >= 0)
            continue;
        while (with_rank(r, next, r->count) != NULL)
            next++;
        k->row.rank = next;
        given++;
    }
    mtp__words w = {0};
    if (given == 0 || files < 2)
        return true;
    mtp__say_count(&w, given, "trace does", "traces do");
    mtp__say(&w,
             " not say which rank it is (distributedInfo): they are numbered in the order of their names.");
    return mtp__ranks_note(r, &w);
}

/* A process that a rank started, as for data loading, knows its parent's rank. */
static bool is_worker_of(const mtp__rank *k, const mtp__rank *of)
{
    return k->parent != 0 && k->parent == of->row.pid && strcmp(k->row.host, of->row.host) == 0;
}

static bool leave_out_workers(mtp_ranks *r)
{
    bool good = true;
    for (uint32_t i = 0; i < r->count && good; i++) {
        mtp__rank *k = &r->list[i];
        for (uint32_t p = 0; p < r->count && *k->row.problem == 0 && good; p++) {
            const mtp__rank *of = &r->list[p];
            mtp__words w = {0};
            if (p == i || of->unreadable || of->row.rank != k->row.rank || !is_worker_of(k, of))
                continue;
            mtp__say(&w, "it is of a process that rank %lld started", (long long)k->row.rank);
            good = set_problem(r, k, &w);
            k->is_worker = true;
        }
    }
    return good;
}

static bool leave_out_copies(mtp_ranks *r)
{
    bool good = leave_out_workers(r);
    for (uint32_t i = 0; i < r->count && good; i++) {
        mtp__rank *k = &r->list[i];
        const mtp__rank *other = *k->row.problem == 0 ? with_rank(r, k->row.rank, i) : NULL;
        mtp__words w = {0};
        if (other == NULL)
            continue;
        mtp__say(&w, "rank %lld is already in %s", (long long)k->row.rank, other->row.file);
        good = set_problem(r, k, &w);
    }
    return good;
}

static int by_rank(const void *a, const void *b)
{
    const mtp_rank_row *x = &((const mtp__rank *)a)->row, *y = &((const mtp__rank *)b)->row;
    if ((*x->problem != 0) != (*y->problem != 0))
        return *x->problem != 0 ? 1 : -1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return strcmp(x->file, y->file);
}

static bool note_missing(mtp_ranks *r)
{
    int64_t world = 0, next = 0;
    uint64_t missing = 0;
    mtp__words w = {0}, list = {0};
    for (uint32_t i = 0; i < r->used; i++)
        world = r->list[i].row.world_size > world ? r->list[i].row.world_size : world;
    world = world > 1000000 ? 0 : world;
    for (uint32_t i = 0; next < world; next++) {
        if (i < r->used && r->list[i].row.rank == next) {
            i++;
            continue;
        }
        if (missing++ < LISTED)
            mtp__say(&list, "%s%lld", missing > 1 ? ", " : "", (long long)next);
    }
    if (missing == 0)
        return true;
    mtp__say(&w, "Of %lld ranks, %llu %s missing: %s%s. Who waited for %s cannot be seen.", (long long)world,
             (unsigned long long)missing, missing == 1 ? "is" : "are", list.failed ? "" : list.bytes,
             missing > LISTED ? ", ..." : "", missing == 1 ? "it" : "them");
    w.failed |= list.failed;
    mtp__free(list.bytes);
    return mtp__ranks_note(r, &w);
}

static bool note_left_out(mtp_ranks *r)
{
    bool good = true;
    uint32_t workers = 0;
    for (uint32_t i = r->used; i < r->count && good; i++) {
        mtp__words w = {0};
        workers += r->list[i].is_worker;
        if (r->list[i].is_worker)
            continue;
        mtp__say(&w, "Left out: %s: %s.", r->list[i].row.file, r->list[i].row.problem);
        good = mtp__ranks_note(r, &w);
    }
    mtp__words w = {0};
    if (!good || workers == 0)
        return good;
    mtp__say_count(&w, workers, "file is", "files are");
    mtp__say(&w, " of processes that ranks started, as for data loading, and left out.");
    return mtp__ranks_note(r, &w);
}

mtp_status mtp__ranks_select(mtp_ranks *r)
{
    uint32_t of = find_job(r);
    if (of == MTP__NONE) {
        const mtp_rank_row *row = &r->list[0].row;
        return MTP_FAIL(MTP_E_FORMAT, "%s: %s", row->file, row->problem);
    }
    bool good = leave_out_other_jobs(r, of) && number(r) && leave_out_copies(r);
    if (good) {
        qsort(r->list, r->count, sizeof *r->list, by_rank);
        while (r->used < r->count && *r->list[r->used].row.problem == 0)
            r->used++;
        good = note_left_out(r) && note_missing(r) && mtp__ranks_note_runs(r);
    }
    mtp__words one = {0};
    if (good && r->used == 1) {
        mtp__say(&one, "There is only one rank: who waits for whom is seen by comparing several.");
        good = mtp__ranks_note(r, &one);
    }
    return good ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%u files", r->count);
}
