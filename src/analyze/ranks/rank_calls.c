/* analyze/ranks/rank_calls.c - the communication calls of a rank.
 *
 * With device work: NCCL's kernels, which run until the communication has ended. What they are is in their own args,
 * or in those of the record_param_comms that launched them. Without: spans of threads that end when the communication
 * has ended: gloo:..., MPI_..., and others that have a "Collective name". record_param_comms, and NCCL's calls on the
 * host, only say what was started; they stand for a call if there is nothing better, and then say nothing about clocks,
 * nor about who waits. */
#include <stdlib.h>
#include "analyze/ranks/ranks.h"
#include "base/grow.h"
#include "base/os.h"

#define UP 8 /* spans around a launch in which record_param_comms is looked for */

static const uint8_t kinds[] = {
#define X(sym, text, kind) MTP__MEET_##kind,
    MTP__COMM_LIST(X)
#undef X
};

static mtp_text args_of(const mtp_trace *t, uint32_t span)
{
    return mtp__trace_get_text(t, mtp__trace_detail(t, span)->args);
}

static uint64_t group_of(mtp_text args)
{
    mtp_text name = {"", 0}, ranks = {"", 0};
    int64_t size = 0;
    bool any = mtp__member_text(args, "Process Group Name", &name);
    any = mtp__member_text(args, "Process Group Ranks", &ranks) || any;
    any = mtp__member_whole(args, "Group size", &size) || any;
    uint64_t hash =
        mtp__hash_mix(mtp__hash_bytes(name.bytes, name.length), mtp__hash_bytes(ranks.bytes, ranks.length));
    return any ? mtp__hash_mix(hash, (uint64_t)size) | 1 : 0;
}

/* A rank, or a tag. */
static int32_t rank_in(mtp_text args, const char *key)
{
    int64_t rank = -1;
    return mtp__member_whole(args, key, &rank) && rank >= 0 && rank < INT32_MAX ? (int32_t)rank : -1;
}

/* Sizes may differ by rank, down to nothing: "alltoallv", "MPI_Allgatherv", "MPI_Alltoallw". */
static bool varies(mtp_text name)
{
    char last = name.length > 0 ? name.bytes[name.length - 1] : 0;
    return last == 'v' || last == 'w';
}

static bool is_true(mtp_text args, const char *key)
{
    mtp_text is;
    return mtp__member_text(args, key, &is) && MTP__EQUALS(is, "true");
}

static void describe(mtp__call *c, mtp_text name, mtp_text args)
{
    mtp_text collective;
    int64_t in = -1, out = -1;
    c->sequence = c->elements = -1;
    c->group = group_of(args);
    mtp__member_whole(args, "Seq", &c->sequence);
    bool sized = mtp__member_whole(args, "In msg nelems", &in);
    sized = mtp__member_whole(args, "Out msg nelems", &out) || sized;
    c->elements = in > out ? in : out;
    if (mtp__member_text(args, "Collective name", &collective) &&
        mtp__rank_comm(collective) != MTP__COMM_OTHER && mtp__rank_comm(name) != MTP__COMM_OTHER)
        name = collective;
    c->comm = (uint8_t)mtp__rank_comm(name);
    c->kind = c->nominal = kinds[c->comm];
    c->root = rank_in(args, "Root");
    c->peer = rank_in(args, c->comm == MTP__COMM_RECV ? "Src Rank" : "Dst Rank");
    c->tag = rank_in(args, "Tag");
    if (varies(name) || (sized && in <= 0 && out <= 0 && c->comm != MTP__COMM_BARRIER))
        c->kind = MTP__MEET_LOOSE;
    /* MPI_Reduce_scatter has a size for each rank. Who gets nothing waits for nobody. */
    if (c->comm == MTP__COMM_REDUCE_SCATTER && sized && out == 0)
        c->kind = MTP__MEET_LOOSE;
    if (is_true(args, "Intercommunicator") && c->comm < MTP__COMM_SENDRECV)
        c->kind = c->nominal = MTP__MEET_LOOSE; /* each side waits for the other one only */
}

static bool add(mtp__rank_view *v, uint32_t span, mtp_text name, mtp_text args, bool loose)
{
    mtp__rank *k = v->k;
    if (!MTP__GROW(k->calls, k->call_room, k->call_count, (size_t)k->call_count + 1, 64))
        return false;
    mtp__call *c = &k->calls[k->call_count++];
    *c = (mtp__call){.enter = (int64_t)((uint64_t)v->t->start[span] + (uint64_t)k->base),
                     .leave = (int64_t)((uint64_t)v->t->end[span] + (uint64_t)k->base),
                     .meeting = MTP__NONE,
                     .late = -1};
    c->leave = c->leave < c->enter ? c->enter : c->leave;
    c->step = c->begun = mtp__rank_step_at(k, c->enter);
    c->after = mtp__rank_step_before(k, c->enter);
    describe(c, name, args);
    loose = loose || (v->t->flags[span] & MTP__SPAN_UNFINISHED) != 0; /* its rank died in it */
    c->started = loose;
    if (loose)
        c->kind = c->nominal = MTP__MEET_LOOSE;
    c->name = mtp__ranks_name(v->r, name.bytes, name.length);
    return c->name != 0 || name.length == 0;
}

/* ---------------------------------------------------------------------------------------------- devices */

static mtp_text args_of_kernel(const mtp__rank_view *v, uint32_t span)
{
    mtp_text args = args_of(v->t, span), name;
    if (mtp__member_text(args, "Collective name", &name) || v->t->launcher == NULL)
        return args;
    uint32_t up = v->t->launcher[span];
    for (int i = 0; i < UP && up != MTP__NONE; i++, up = v->t->parent[up])
        if (mtp__rank_name(v, up) == MTP__NAME_RECORD)
            return args_of(v->t, up);
    return args;
}

/* Hosts run ahead of devices: a kernel may run while the host is in a later step. */
static void begin_at_launch(const mtp__rank_view *v, uint32_t span, mtp__call *c)
{
    uint32_t by = v->t->launcher != NULL ? v->t->launcher[span] : MTP__NONE;
    c->begun = MTP__NO_STEP;
    if (by == MTP__NONE)
        return;
    int64_t when = (int64_t)((uint64_t)v->t->start[by] + (uint64_t)v->k->base);
    c->begun = mtp__rank_step_at(v->k, when);
    c->after = mtp__rank_step_before(v->k, when);
}

static bool add_kernels(mtp__rank_view *v)
{
    const mtp_trace *t = v->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; track->on_device && i < track->first + track->count; i++) {
            mtp_text name = mtp__trace_get_text(t, t->name[i]);
            if (t->category[i] != MTP__CATEGORY_KERNEL || !mtp__rank_kernel_is_comm(name))
                continue;
            if (!add(v, i, name, args_of_kernel(v, i), false))
                return false;
            begin_at_launch(v, i, &v->k->calls[v->k->call_count - 1]);
        }
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------- threads */

/* Whose end is not that of the communication: NCCL's calls on the host, MPI_Isend. Gloo's threads see the end. */
static bool is_started(mtp_text name, mtp_text args)
{
    return mtp__rank_is_started_only(name) ||
           (!MTP__BEGINS_WITH(name, "gloo:") && is_true(args, "Is asynchronized op"));
}

/* MPI's receives may be from anybody, with any tag: what came is in a span of its own. */
static void find_source(const mtp__rank_view *v, uint32_t span, mtp__call *c)
{
    const mtp_trace *t = v->t;
    for (uint32_t i = span + 1; i < t->span_count && t->parent[i] == span; i++)
        if (MTP__EQUALS(mtp__trace_get_text(t, t->name[i]), "message")) {
            c->peer = rank_in(args_of(t, i), "Src Rank");
            c->tag = rank_in(args_of(t, i), "Tag");
            return;
        }
}

/* MPI_Sendrecv is a send, and a receive. */
static bool split(mtp__rank *k, mtp_text args)
{
    mtp__call *c = &k->calls[k->call_count - 1];
    int64_t from;
    if (!mtp__member_whole(args, "Src Rank", &from))
        return true;
    if (c->peer >= 0) {
        if (!MTP__GROW(k->calls, k->call_room, k->call_count, (size_t)k->call_count + 1, 64))
            return false;
        k->calls[k->call_count] = k->calls[k->call_count - 1];
        k->calls[k->call_count - 1].comm = MTP__COMM_SEND;
        c = &k->calls[k->call_count++];
    }
    c->comm = MTP__COMM_RECV;
    c->peer = rank_in(args, "Src Rank");
    c->tag = rank_in(args, "Src Tag");
    return true;
}

static bool complete_message(mtp__rank_view *v, uint32_t span, mtp_text args)
{
    mtp__rank *k = v->k;
    mtp__call *c = &k->calls[k->call_count - 1];
    if (!MTP__BEGINS_WITH(mtp__trace_get_text(v->t, v->t->name[span]), "MPI_"))
        return true;
    if (c->comm == MTP__COMM_SENDRECV) {
        if (!split(k, args))
            return false;
        c = &k->calls[k->call_count - 1];
        c->comm = c->comm == MTP__COMM_SENDRECV && c->peer >= 0 ? MTP__COMM_SEND : c->comm;
    }
    if (c->comm == MTP__COMM_RECV)
        find_source(v, span, c);
    return true;
}

/* Gloo's message begins when the call that sends it has already handed it over. */
static void begin_with_caller(mtp__rank_view *v, uint32_t span, uint32_t caller)
{
    const mtp_trace *t = v->t;
    if (caller != MTP__NONE && t->start[span] <= t->end[caller] &&
        MTP__BEGINS_WITH(mtp__trace_get_text(t, t->name[span]), "gloo:send"))
        v->k->calls[v->k->call_count - 1].enter =
            (int64_t)((uint64_t)t->start[caller] + (uint64_t)v->k->base);
}

/* Calls within a call are part of it; but Gloo's messages on a thread overlap. */
static bool add_spans(mtp__rank_view *v, mtp__name_is wanted)
{
    const mtp_trace *t = v->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        int64_t end = INT64_MIN;
        uint32_t caller = MTP__NONE;
        for (uint32_t i = track->first; !track->on_device && i < track->first + track->count; i++) {
            mtp__name_is is = mtp__rank_name(v, i);
            caller = is == MTP__NAME_COMM ? i : caller;
            if (is != wanted)
                continue;
            mtp_text name = mtp__trace_get_text(t, t->name[i]), args = args_of(t, i), collective;
            if (t->start[i] < end && !MTP__BEGINS_WITH(name, "gloo:send") &&
                !MTP__BEGINS_WITH(name, "gloo:recv"))
                continue;
            if (wanted == MTP__NAME_RECORD && mtp__member_text(args, "Collective name", &collective))
                name = collective;
            end = t->end[i] > end ? t->end[i] : end;
            if (!add(v, i, name, args, wanted == MTP__NAME_RECORD || is_started(name, args)) ||
                !complete_message(v, i, args))
                return false;
            begin_with_caller(v, i, caller);
        }
    }
    return true;
}

static int by_enter(const void *a, const void *b)
{
    const mtp__call *x = a, *y = b;
    if (x->enter != y->enter)
        return x->enter < y->enter ? -1 : 1;
    return (x->leave > y->leave) - (x->leave < y->leave);
}

static void sort(mtp__rank *k)
{
    if (k->call_count > 1)
        qsort(k->calls, k->call_count, sizeof *k->calls, by_enter);
}

/* Of one kind, the nth gloo:... is what the nth record_param_comms started, if there are as many of both. */
static void borrow_args(mtp__rank *k, const mtp__call *records, uint32_t count)
{
    for (int comm = 0; comm < MTP__COMMS; comm++) {
        uint32_t calls = 0, described = 0, at = 0;
        for (uint32_t i = 0; i < k->call_count; i++)
            calls += k->calls[i].comm == comm && k->calls[i].group == 0;
        for (uint32_t i = 0; i < count; i++)
            described += records[i].comm == comm;
        if (calls != described)
            continue;
        for (uint32_t i = 0; i < k->call_count && calls > 0; i++) {
            mtp__call *c = &k->calls[i];
            if (c->comm != comm || c->group != 0)
                continue;
            while (records[at].comm != comm)
                at++;
            const mtp__call *from = &records[at++];
            c->group = from->group;
            c->sequence = from->sequence;
            c->elements = from->elements;
            c->root = from->root;
            c->peer = from->peer;
        }
    }
}

static bool describe_by_records(mtp__rank_view *v)
{
    mtp__rank *k = v->k;
    mtp__call *calls = k->calls;
    uint32_t count = k->call_count, room = k->call_room;
    k->calls = NULL;
    k->call_count = k->call_room = 0;
    bool good = add_spans(v, MTP__NAME_RECORD);
    mtp__call *records = k->calls;
    uint32_t found = k->call_count;
    sort(k);
    if (count == 0) {
        mtp__free(calls);
        k->row.only_started = found > 0;
        return good;
    }
    k->calls = calls;
    k->call_count = count;
    k->call_room = room;
    sort(k);
    if (found > 0)
        borrow_args(k, records, found);
    mtp__free(records);
    return good;
}

bool mtp__rank_calls(mtp__rank_view *v)
{
    bool good = add_kernels(v);
    if (good && v->k->call_count == 0)
        good = add_spans(v, MTP__NAME_CALL) && describe_by_records(v);
    sort(v->k);
    v->k->row.calls = v->k->call_count;
    return good;
}
