/* analyze/ranks/ranks.c - reads the ranks' traces, a few at a time, and compares what was kept of them. */
#include "analyze/ranks/ranks.h"
#include <stdatomic.h>
#include <unistd.h>
#include "base/abi.h"
#include "base/budget.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"

#define THREADS_MAX 8u

/* ------------------------------------------------------------------------------------------------- texts */

uint32_t mtp__ranks_name(mtp_ranks *r, const char *bytes, size_t length)
{
    return length == 0 ? 0 : mtp__intern_add(&r->names, mtp__hash_bytes(bytes, length), bytes, length);
}

const char *mtp__ranks_text(const mtp_ranks *r, uint32_t name)
{
    const mtp__intern_entry *e = name != 0 ? mtp__intern_get(&r->names, name) : NULL;
    return e != NULL ? (const char *)e->bytes : "";
}

const char *mtp__ranks_keep(mtp_ranks *r, const char *text)
{
    return mtp__ranks_text(r, mtp__ranks_name(r, text, strlen(text)));
}

bool mtp__ranks_note(mtp_ranks *r, mtp__words *w)
{
    bool good = !w->failed && MTP__GROW(r->notes, r->note_room, r->note_count, (size_t)r->note_count + 1, 8);
    if (good)
        r->notes[r->note_count++] = w->bytes;
    else
        mtp__free(w->bytes);
    return good;
}

/* ------------------------------------------------------------------------------------------------ reading */

typedef struct reading {
    mtp_ranks *r;
    const mtp_ranks_options *options;
    uint64_t max_memory; /* for each file */
    atomic_uint next, done;
    atomic_int status;
} reading;

/* A thread: takes files until there are no more. Only the caller's reports progress. */
static void read_some(void *arg, bool is_caller)
{
    reading *of = arg;
    for (uint32_t i;
         (i = atomic_fetch_add(&of->next, 1)) < of->r->count && atomic_load(&of->status) == MTP_OK;) {
        mtp_status status = mtp__rank_read(of->r, &of->r->list[i], of->max_memory);
        if (status != MTP_OK)
            atomic_store(&of->status, (int)status);
        unsigned done = atomic_fetch_add(&of->done, 1) + 1;
        if (is_caller && of->options->progress != NULL)
            of->options->progress(of->options->user, done, of->r->count);
    }
}

static unsigned threads_for(uint32_t files, const mtp_ranks_options *options)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned threads = options->threads != 0 ? options->threads : cores > 1 ? (unsigned)cores : 1;
    threads = threads > THREADS_MAX ? THREADS_MAX : threads;
    return threads > files ? files : threads;
}

static mtp_status read_all(mtp_ranks *r, const mtp_ranks_options *options)
{
    reading of = {.r = r, .options = options, .max_memory = options->max_memory, .status = MTP_OK};
    unsigned threads = threads_for(r->count, options);
    uint64_t limit = mtp__budget_limit();
    if (of.max_memory == 0 && limit != MTP__BUDGET_NONE)
        of.max_memory = limit / threads; /* a thread of ours does not know the caller's limit */
    mtp__run_threads(threads, read_some, &of);
    mtp_status status = (mtp_status)atomic_load(&of.status);
    /* The message of another thread is lost with it. */
    return status == MTP_OK ? MTP_OK
                            : MTP_FAIL(status, "%u traces at a time (fewer threads need less)", threads);
}

static mtp_status create(mtp_ranks *r, const char *const *paths, size_t count,
                         const mtp_ranks_options *options)
{
    mtp_status status = MTP_OK;
    for (size_t i = 0; i < count && status == MTP_OK; i++)
        status = mtp__ranks_files(r, paths[i]);
    if (status == MTP_OK)
        status = read_all(r, options);
    if (status == MTP_OK)
        status = mtp__ranks_select(r);
    if (status == MTP_OK)
        status = mtp__ranks_match(r);
    if (status == MTP_OK)
        status = mtp__ranks_judge(r);
    return status == MTP_OK ? mtp__ranks_say(r) : status;
}

mtp_status mtp_ranks_create(const char *const *paths, size_t count, const mtp_ranks_options *options,
                            mtp_ranks **out)
{
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    *out = NULL;
    if (paths == NULL || count == 0)
        return MTP_FAIL(MTP_E_ARG, "no files");
    mtp_ranks_options known = MTP_RANKS_OPTIONS_INIT;
    mtp_status status = MTP__ABI_READ(&known, options, mtp_ranks_options, user);
    if (status != MTP_OK)
        return status;
    mtp_ranks *r = mtp__calloc(1, sizeof *r);
    if (r == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "ranks");
    mtp__intern_init(&r->names, 1, SIZE_MAX, NULL, NULL);
    status = create(r, paths, count, &known);
    if (status != MTP_OK) {
        mtp_ranks_destroy(r);
        return status;
    }
    *out = r;
    return MTP_OK;
}

void mtp_ranks_destroy(mtp_ranks *r)
{
    if (r == NULL)
        return;
    for (uint32_t i = 0; i < r->count; i++)
        mtp__rank_fini(&r->list[i]);
    for (uint32_t i = 0; i < r->note_count; i++)
        mtp__free(r->notes[i]);
    mtp__clocks_fini(&r->clocks);
    mtp__intern_fini(&r->names);
    mtp__free(r->list);
    mtp__free(r->notes);
    mtp__free(r->found);
    mtp__free(r->meetings);
    mtp__free(r->seen);
    mtp__free(r->numbers);
    mtp__free(r->late);
    mtp__free(r->lost);
    mtp__free(r);
}

/* ------------------------------------------------------------------------------------------------ queries */

size_t mtp_ranks_count(const mtp_ranks *r)
{
    return r != NULL ? r->count : 0;
}

const mtp_rank_row *mtp_ranks_row(const mtp_ranks *r, size_t index)
{
    return index < mtp_ranks_count(r) ? &r->list[index].row : NULL;
}

const mtp_rank_step *mtp_ranks_step(const mtp_ranks *r, size_t index, size_t step)
{
    return r != NULL && index < r->used && step < r->list[index].step_count ? &r->list[index].steps[step]
                                                                            : NULL;
}

const char *mtp_ranks_note(const mtp_ranks *r, size_t index)
{
    return r != NULL && index < r->note_count ? r->notes[index] : NULL;
}

size_t mtp_ranks_finding_count(const mtp_ranks *r)
{
    return r != NULL ? r->found_count : 0;
}

const mtp_rank_finding *mtp_ranks_finding(const mtp_ranks *r, size_t index)
{
    return index < mtp_ranks_finding_count(r) ? &r->found[index] : NULL;
}

const char *mtp_clock_by_text(mtp_clock_by by)
{
    static const char *const text[] = {
#define X(sym, value, words) [value] = words,
        MTP_CLOCK_BY_LIST(X)
#undef X
    };
    return (size_t)by < sizeof text / sizeof *text ? text[by] : "";
}
