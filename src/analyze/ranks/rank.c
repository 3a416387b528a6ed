/* analyze/ranks/rank.c - one trace becomes an mtp__rank: who it is, by its metadata. */
#define _GNU_SOURCE
#include <stdio.h>
#include "base/error.h"
#include "analyze/ranks/ranks.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/plain.h"
#include "trace/json/text.h"

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
    return mtp__member_text(args, "Collective name", &of) ? MTP__NAME_CALL : MTP__NAME_PLAIN;
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

static mtp_text meta(const mtp_trace *t, const char *key)
{
    uint32_t id = mtp__trace_find_text(t, key);
    for (uint32_t i = t->metadata_count; id != 0 && i-- > 0;)
        if (t->metadata[i].key == id)
            return mtp__trace_get_text(t, t->metadata[i].json);
    return (mtp_text){"", 0};
}

static const char *keep_text(mtp_ranks *r, mtp_text escaped)
{
    mtp__buffer b = {0};
    mtp__json_unescape(&b, escaped.bytes, escaped.length);
    const char *kept = mtp__ranks_text(r, mtp__ranks_name(r, b.bytes, b.length));
    mtp__buffer_fini(&b);
    return kept;
}

static const char *keep_member(mtp_ranks *r, mtp_text json, const char *key)
{
    mtp_text text;
    return mtp__member_text(json, key, &text) ? keep_text(r, text) : "";
}

static const char *keep_value(mtp_ranks *r, mtp_text json)
{
    if (json.length >= 2 && json.bytes[0] == '"')
        json = (mtp_text){json.bytes + 1, json.length - 2};
    return keep_text(r, json);
}

/* "rank12", "rank_12", "rank-12" in the file's name. */
static int64_t rank_in_name(const char *path)
{
    const char *name = strrchr(path, '/');
    int64_t rank = -1;
    for (const char *p = name != NULL ? name : path; (p = strstr(p, "rank")) != NULL; p += 4) {
        const char *digit = p + 4 + (p[4] == '_' || p[4] == '-');
        if (!mtp__is_digit(*digit))
            continue;
        for (rank = 0; mtp__is_digit(*digit) && rank < 100000000; digit++)
            rank = rank * 10 + (*digit - '0');
    }
    return rank;
}

static void identify(mtp_ranks *r, mtp__rank *k, const mtp_trace *t)
{
    mtp_rank_row *row = &k->row;
    mtp_text info = meta(t, "distributedInfo"), host = meta(t, "hostname");
    row->rank = row->world_size = row->local_rank = -1;
    mtp__member_whole(info, "rank", &row->rank);
    mtp__member_whole(info, "world_size", &row->world_size);
    mtp__member_whole(info, "local_rank", &row->local_rank);
    if (row->rank < 0)
        row->rank = rank_in_name(row->file);
    row->backend = keep_member(r, info, "backend");
    row->job = keep_member(r, info, "job");
    row->host = keep_value(r, host.length > 0 ? host : meta(t, "host_name"));
    row->pid = t->pid;
    k->parent = t->parent_pid;
    row->spans = t->span_count;
    k->base = t->base_ns;
    k->zero = t->zero_ns;
    k->is_recording = mtp__is_recording(t);
    memcpy(k->boot, t->boot, sizeof k->boot);
    int64_t first = t->first_ns, last = t->last_ns;
    k->coarse = t->span_count > 0;
    for (uint32_t i = 0; i < t->span_count; i++) { /* not the marks, which may come long after the program */
        first = i == 0 || t->start[i] < first ? t->start[i] : first;
        last = i == 0 || t->end[i] > last ? t->end[i] : last;
        k->coarse = k->coarse && t->start[i] % 1000 == 0 && t->end[i] % 1000 == 0;
    }
    row->first_ns = (int64_t)((uint64_t)first + (uint64_t)k->base);
    row->last_ns = (int64_t)((uint64_t)last + (uint64_t)k->base);
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
    mtp_text list = meta(t, "mtprof.clock_ties"), one;
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

static mtp_status take(mtp_ranks *r, mtp__rank *k, const mtp_trace *t)
{
    mtp__rank_view v = {.r = r, .k = k, .t = t, .main_track = MTP__NONE};
    v.name_is = mtp__calloc((size_t)mtp__intern_count(&t->text) + 1, 1);
    identify(r, k, t);
    bool good = v.name_is != NULL && read_ties(k, t) && mtp__rank_steps(&v) && mtp__rank_calls(&v) &&
                mtp__rank_times(&v) && mtp__rank_ops(&v);
    mtp__free(v.name_is);
    return good ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%s: what ranks are compared by", k->row.file);
}

mtp_status mtp__rank_open(const mtp__rank *k, const mtp_open_options *options, bool placed, mtp_trace **out)
{
    mtp__job job;
    *out = NULL;
    if (k->section == MTP__NONE) {
        mtp_open_options own = *options;
        own.alone = k->has_ranks;
        mtp_status status = mtp_trace_open(k->row.file, &own, out);
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
    if (status == MTP_OK && t->several_ranks) {
        k->has_ranks = true;
        mtp_trace_destroy(t);
        status = mtp__rank_open(k, &options, false, &t);
    }
    if (status == MTP_OK && t->without_times) {
        k->row.problem = "it is an execution trace, which has no times";
        k->unreadable = true;
    } else if (status == MTP_OK && t->span_count == 0) {
        k->row.problem = "it has no events";
        k->unreadable = true;
    } else if (status == MTP_OK && meta(t, "mtprof.clocks").length > 0) {
        k->row.problem =
            "it is a timeline of several ranks, which 'mtprof merge' wrote: name their traces instead";
        k->unreadable = true;
    } else if (status == MTP_OK && k->has_ranks && meta(t, "distributedInfo").length == 0) {
        k->row.problem = "its processes are the ranks, which are compared instead";
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
