/* analyze/ranks/rank.c - one trace becomes an mtp__rank: who it is, by its metadata. */
#define _GNU_SOURCE
#include <stdio.h>
#include "base/error.h"
#include "analyze/ranks/ranks.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/plain.h"
#include "trace/who.h"

/* ------------------------------------------------------------------------------------------------ names */

#define IS(text, word) MTP__EQUALS(text, word)
#define BEGINS(text, word) MTP__BEGINS_WITH(text, word)

bool mtp__rank_kernel_is_comm(mtp_text name)
{
    return (BEGINS(name, "nccl") || BEGINS(name, "rccl")) &&
           memmem(name.bytes, name.length, "Kernel", 6) != NULL;
}

bool mtp__rank_kernel_is_copy(mtp_text name)
{
    return BEGINS(name, "Memcpy") || BEGINS(name, "Memset") || BEGINS(name, "dma");
}

bool mtp__rank_kernel_is_compute(mtp_text name)
{
    return !mtp__rank_kernel_is_comm(name) && !mtp__rank_kernel_is_copy(name) &&
           memmem(name.bytes, name.length, "Memcpy", 6) == NULL &&
           memmem(name.bytes, name.length, "Sync", 4) == NULL;
}

/* "MPI_Ireduce" begins a reduction, and does not wait for it. "MPI_Init" is no such call, and no communication. */
bool mtp__rank_is_started_only(mtp_text name)
{
    return BEGINS(name, "MPI_I") && name.length > 5 && mtp__is_lower(name.bytes[5]);
}

/* "MPI_Send_init" and "MPI_Reduce_local" reach no other rank. */
static bool is_local(mtp_text name)
{
    return BEGINS(name, "MPI_") && (memmem(name.bytes, name.length, "_init", 5) != NULL ||
                                    memmem(name.bytes, name.length, "_local", 6) != NULL);
}

mtp__comm mtp__rank_comm(mtp_text name)
{
    static const char *const spelling[] = {
#define X(sym, text, kind) text,
        MTP__COMM_LIST(X)
#undef X
    };
    char letters[64];
    size_t n = 0;
    if (is_local(name))
        return MTP__COMM_OTHER;
    for (size_t i = 0; i < name.length && n + 1 < sizeof letters; i++)
        if (mtp__is_word(name.bytes[i]) && name.bytes[i] != '_')
            letters[n++] = mtp__lower(name.bytes[i]);
    letters[n] = 0;
    for (int k = 0; k < MTP__COMM_OTHER; k++)
        if (strstr(letters, spelling[k]) != NULL) /* of what is only started, messages count */
            return k < MTP__COMM_SENDRECV && mtp__rank_is_started_only(name) ? MTP__COMM_OTHER : (mtp__comm)k;
    return MTP__COMM_OTHER;
}

/* "ncclAllReduce": the host's call, which its profiler plug-in shows, only enqueues. */
static bool is_call_of_nccl(mtp_text name)
{
    return (BEGINS(name, "nccl") || BEGINS(name, "rccl")) && name.length > 4 && name.bytes[4] >= 'A' &&
           name.bytes[4] <= 'Z';
}

static mtp__name_is examine(const mtp__rank_view *v, uint32_t span)
{
    mtp_text name = mtp__trace_get_text(v->t, v->t->name[span]), of;
    if (IS(name, "record_param_comms"))
        return MTP__NAME_RECORD;
    if (BEGINS(name, "gloo:") || BEGINS(name, "mpi:") || BEGINS(name, "ucc:") || BEGINS(name, "MPI_"))
        return MTP__NAME_CALL;
    if (BEGINS(name, "c10d::") || BEGINS(name, "nccl:"))
        return MTP__NAME_COMM;
    if (mtp__is_numbered_step_name(name))
        return MTP__NAME_STEP;
    mtp_text args = mtp__trace_get_text(v->t, mtp__trace_detail(v->t, span)->args);
    if (!mtp__member_text(args, "Collective name", &of))
        return MTP__NAME_PLAIN;
    return is_call_of_nccl(name) ? MTP__NAME_RECORD : MTP__NAME_CALL;
}

mtp__name_is mtp__rank_name(const mtp__rank_view *v, uint32_t span)
{
    uint8_t *known = &v->name_is[v->t->name[span]];
    if (*known == MTP__NAME_UNKNOWN)
        *known = (uint8_t)examine(v, span);
    if (*known == MTP__NAME_STEP && v->t->category[span] != MTP__CATEGORY_USER_ANNOTATION &&
        (v->t->flags[span] & MTP__SPAN_STEP) == 0)
        return MTP__NAME_PLAIN;
    return (mtp__name_is)*known;
}

/* ------------------------------------------------------------------------------------------------ identity */

static const char *keep_text(mtp_ranks *r, mtp_text text)
{
    return mtp__ranks_text(r, mtp__ranks_name(r, text.bytes, text.length));
}

/* false: out of memory. */
static bool identify(mtp_ranks *r, mtp__rank *k, const mtp_trace *t)
{
    mtp_rank_row *row = &k->row;
    mtp__who who;
    if (!mtp__who_read(&who, t, row->file))
        return false;
    row->rank = who.rank;
    row->world_size = who.world_size;
    row->local_rank = who.local_rank;
    row->backend = keep_text(r, who.backend);
    row->job = keep_text(r, who.job);
    row->host = keep_text(r, who.host);
    mtp__who_fini(&who);
    row->pid = t->pid;
    k->parent = t->parent_pid;
    row->spans = t->span_count;
    k->base = t->base_ns;
    k->zero = t->zero_ns;
    k->is_recording = mtp__is_recording(t);
    memcpy(k->boot, t->boot, sizeof k->boot);
    int64_t first = INT64_MAX, last = INT64_MIN;
    k->coarse = t->span_count > 0;
    for (uint32_t n = 0; n < t->track_count; n++) /* not the marks, which may come long after the program */
        for (uint32_t i = t->tracks[n].first; i < t->tracks[n].first + t->tracks[n].count; i++) {
            first = t->start[i] < first ? t->start[i] : first;
            last = t->end[i] > last ? t->end[i] : last;
            k->coarse = k->coarse && t->start[i] % 1000 == 0 && t->end[i] % 1000 == 0;
        }
    if (first > last) {
        first = t->first_ns;
        last = t->last_ns;
    }
    row->first_ns = (int64_t)((uint64_t)first + (uint64_t)k->base);
    row->last_ns = (int64_t)((uint64_t)last + (uint64_t)k->base);
    return true;
}

/* Which clock a time was read from: the one by which it is inside of the trace. -1: none. */
static int clock_of(const mtp__rank *k, int64_t at)
{
    const int64_t slack = 60000000000;
    for (int clock = 0; clock < 3; clock++) {
        int64_t t = (int64_t)((uint64_t)at + (uint64_t)mtp__rank_shift(k, clock));
        if (t >= k->row.first_ns - slack && t <= k->row.last_ns + slack)
            return clock;
    }
    return -1;
}

static bool read_ties(mtp__rank *k, const mtp_trace *t)
{
    mtp_text list = mtp__trace_metadata(t, "mtprof.clock_ties"), one;
    while (list.length > 0 && (one = mtp__member_next(&list)).length > 0) {
        mtp__clock_sample s = {.peer = -1};
        if (one.bytes[0] != '{' || !mtp__member_whole(one, "peer_rank", &s.peer) ||
            !mtp__member_whole(one, "at_ns", &s.at) || !mtp__member_whole(one, "offset_ns", &s.offset) ||
            !mtp__member_whole(one, "error_ns", &s.error) || s.error < 0 || (s.clock = clock_of(k, s.at)) < 0)
            continue;
        s.at = (int64_t)((uint64_t)s.at + (uint64_t)mtp__rank_shift(k, s.clock));
        if (!MTP__GROW(k->ties, k->tie_room, k->tie_count, (size_t)k->tie_count + 1, 8))
            return false;
        k->ties[k->tie_count++] = s;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ reading */

static mtp_status take(mtp_ranks *r, mtp__rank *k, mtp_trace *t)
{
    mtp__rank_view v = {.r = r, .k = k, .t = t, .main_track = MTP__NONE};
    v.name_is = mtp__calloc((size_t)mtp__intern_count(&t->text) + 1, 1);
    bool good = v.name_is != NULL && mtp__rank_choose_run(&v, t) && identify(r, k, t) && read_ties(k, t) &&
                mtp__rank_steps(&v) && mtp__rank_calls(&v) && mtp__rank_times(&v) && mtp__rank_ops(&v);
    mtp__free(v.name_is);
    return good ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%s: what ranks are compared by", k->row.file);
}

mtp_status mtp__rank_open(const mtp__rank *k, const mtp_open_options *options, bool placed, mtp_trace **out)
{
    mtp__job job;
    *out = NULL;
    if (k->section == MTP__NONE) {
        mtp_open_options one = *options;
        one.by_rank = k->part >= 0;
        one.rank = k->part;
        mtp_status status = mtp_trace_open(k->row.file, &one, out);
        if (status == MTP_OK && placed)
            mtp__trace_place(*out, k->row.clock_at_ns, k->row.clock_offset_ns, k->row.clock_drift);
        return status;
    }
    mtp_status status = mtp__job_open(k->row.file, &job);
    if (status == MTP_OK)
        status = k->section < job.rank_count ? mtp__job_trace(&job, k->section, options, false, out)
                                             : MTP_FAIL(MTP_E_STATE, "the file was changed meanwhile");
    if (status == MTP_OK && placed)
        mtp__trace_place(*out, k->row.clock_at_ns, k->row.clock_offset_ns, k->row.clock_drift);
    mtp__job_close(&job);
    if (status != MTP_OK)
        MTP_NOTE("%s", k->row.file);
    return status;
}

mtp_status mtp__rank_read(mtp_ranks *r, mtp__rank *k, uint64_t max_memory)
{
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    mtp_trace *t = NULL;
    options.max_memory = max_memory;
    mtp_status status = mtp__rank_open(k, &options, false, &t);
    if (status == MTP_OK && t->without_times) {
        k->row.problem = "it is an execution trace, which has no times";
        k->unreadable = true;
    } else if (status == MTP_OK && t->span_count == 0) {
        k->row.problem = "it has no events";
        k->unreadable = true;
    } else if (status == MTP_OK && mtp__trace_metadata(t, "mtprof.clocks").length > 0) {
        k->row.problem =
            "it is a timeline of several ranks, which 'mtprof merge' wrote: name their traces instead";
        k->unreadable = true;
    } else if (status == MTP_OK) {
        status = take(r, k, t);
    } else if (status != MTP_E_NOMEM) {
        const char *why = mtp_last_error();
        size_t prefix = strlen(k->row.file);
        if (strncmp(why, k->row.file, prefix) == 0 && strncmp(why + prefix, ": ", 2) == 0)
            why += prefix + 2;
        k->row.problem = mtp__ranks_keep(r, why);
        k->unreadable = true;
        status = MTP_OK;
    }
    mtp_trace_destroy(t);
    return status;
}

void mtp__rank_fini(mtp__rank *k)
{
    mtp__free(k->calls);
    mtp__free(k->steps);
    mtp__free(k->ops);
    mtp__free(k->ties);
    mtp__free(k->compared);
}
