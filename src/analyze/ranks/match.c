/* analyze/ranks/match.c - the same call on several ranks, and what that says about their clocks.
 *
 * Calls are the same if they have the same group, kind and sequence number. Where there are no numbers (gloo, older
 * PyTorch), the nth call of a kind in a step, or after it, is the nth of every rank that has as many of them there: others
 * are members of other groups. The nth send belongs to the nth receive with the same
 * sender, receiver and tag, if there are as many of both in traces of the same steps, or else in a step: the receiver
 * does not leave before the sender has entered. */
#include <stdlib.h>
#include "analyze/ranks/ranks.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/pair_map.h"

#define SAME_BOOT_NS 1000 /* two recordings' anchors may differ by this */
#define TOLD 3u           /* contradictions that are named */
#define ROUNDED_NS 2000   /* an end, if starts and durations are whole microseconds */
#define EXACT_NS 2        /* else: nanoseconds are rounded, too */

typedef struct entry {
    uint64_t key[2];
    uint32_t rank, call;
} entry;

static int by_key(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x->key[i] != y->key[i])
            return x->key[i] < y->key[i] ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->call > y->call) - (x->call < y->call);
}

static bool is_message(const mtp__call *c)
{
    return (c->comm == MTP__COMM_SEND || c->comm == MTP__COMM_RECV) && c->peer >= 0;
}

/* Where a call without a number is counted: in its step, or from that step's end or the first one's begin. Recordings
 * begin and end in the middle of others, so what is outside of steps is not the same by itself. */
static uint64_t place_of(const mtp__rank *k, const mtp__call *c, uint32_t step)
{
    if (k->steps[0].number < 0)
        return 0;
    if (step != MTP__NO_STEP)
        return (uint64_t)k->steps[step].number + 1;
    if (c->after == MTP__NO_STEP)
        return mtp__hash_mix((uint64_t)k->steps[0].number, 1);
    return mtp__hash_mix((uint64_t)k->steps[c->after].number, 2);
}

/* What makes the call the same on all ranks; its number among the same ones of its rank comes on top, and without a
 * sequence number how many those are. */
static void key_of(const mtp__rank *k, const mtp__call *c, bool by_step, uint64_t key[2])
{
    uint64_t word[6] = {c->group, c->comm, (uint64_t)c->sequence, 1};
    uint32_t step = c->begun != MTP__NO_STEP ? c->begun : c->step;
    if (is_message(c)) {
        bool out = c->comm == MTP__COMM_SEND;
        word[1] = MTP__COMM_SEND;
        word[2] = (uint64_t)(out ? k->row.rank : c->peer);
        word[3] = 2 + (uint64_t)(out ? c->peer : k->row.rank);
        word[4] = (uint64_t)c->tag;
        word[5] = by_step ? (uint64_t)k->steps[step].number
                          : mtp__hash_mix((uint64_t)k->steps[0].number,
                                          (uint64_t)k->steps[k->step_count - 1].number);
    } else if (c->sequence < 0) {
        word[2] = place_of(k, c, step);
        word[3] = 0;
    }
    key[0] = mtp__hash_words(word, 6);
    key[1] = mtp__hash_mix(key[0] ^ word[0], word[2] + word[1]);
}

static bool is_matched(const mtp__rank *k, const mtp__call *c, bool by_step)
{
    if (by_step)
        return is_message(c) && c->meeting == MTP__NONE && c->begun != MTP__NO_STEP &&
               k->steps[c->begun].number >= 0;
    return c->comm != MTP__COMM_OTHER && (c->comm < MTP__COMM_SENDRECV || is_message(c));
}

static bool count_same(const mtp__rank *k, bool by_step, mtp__pair_map *counts)
{
    for (uint32_t i = 0; i < k->call_count; i++) {
        uint64_t key[2];
        bool is_new;
        if (!is_matched(k, &k->calls[i], by_step))
            continue;
        key_of(k, &k->calls[i], by_step, key);
        uint64_t *n = mtp__pair_put(counts, key[0], key[1], 0, &is_new);
        if (n == NULL)
            return false;
        ++*n;
    }
    return true;
}

/* In the counts, how many are the same is in the lower half, and how many of them came before in the upper one. */
static bool add_rank(mtp_ranks *r, uint32_t rank, bool by_step, entry *list, uint32_t *count)
{
    const mtp__rank *k = &r->list[rank];
    mtp__pair_map counts = {0};
    bool good = count_same(k, by_step, &counts);
    for (uint32_t i = 0; i < k->call_count && good; i++) {
        const mtp__call *c = &k->calls[i];
        if (!is_matched(k, c, by_step))
            continue;
        entry *e = &list[(*count)++];
        *e = (entry){.rank = rank, .call = i};
        key_of(k, c, by_step, e->key);
        uint64_t *n = mtp__pair_find(&counts, e->key[0], e->key[1]);
        bool ordered = c->sequence < 0 || is_message(c);
        e->key[1] = mtp__hash_mix(e->key[1], *n >> 32);
        e->key[0] = ordered ? mtp__hash_mix(e->key[0], *n & UINT32_MAX) : e->key[0];
        *n += (uint64_t)1 << 32;
        r->by_order |= c->sequence < 0 && !is_message(c);
    }
    mtp__pair_map_fini(&counts);
    return good;
}

static bool add_meeting(mtp_ranks *r, const entry *e, uint32_t count)
{
    if (!MTP__GROW(r->meetings, r->meeting_room, r->meeting_count, (size_t)r->meeting_count + 1, 256) ||
        !MTP__GROW(r->seen, r->seen_room, r->seen_count, (size_t)r->seen_count + count, 1024))
        return false;
    const mtp__call *first = &r->list[e->rank].calls[e->call];
    bool started = false; /* the receiver left before the message had come */
    mtp__meeting m = {
        .first = r->seen_count, .count = count, .root = MTP__NONE, .kind = first->kind, .when = first->enter};
    for (uint32_t i = 0; i < count; i++) {
        mtp__call *c = &r->list[e[i].rank].calls[e[i].call];
        c->meeting = r->meeting_count;
        r->seen[r->seen_count++] =
            (mtp__seen){.rank = e[i].rank, .call = e[i].call, .enter = c->enter, .leave = c->leave};
        m.kind = c->kind != first->kind ? MTP__MEET_LOOSE : m.kind;
        if (c->root >= 0 && c->root == (int64_t)r->list[e[i].rank].row.rank)
            m.root = e[i].rank;
        if (is_message(c) && c->comm == MTP__COMM_SEND) {
            m.root = e[i].rank;
            first = c;
        }
        started |= is_message(c) && c->comm == MTP__COMM_RECV && c->started;
        r->list[e[i].rank].row.matched++;
    }
    if (is_message(first))
        m.kind = count == 2 && m.root != MTP__NONE && !started ? MTP__MEET_FROM_ROOT : MTP__MEET_LOOSE;
    r->meetings[r->meeting_count++] = m;
    return true;
}

static int by_time(const void *a, const void *b)
{
    const mtp__meeting *x = a, *y = b;
    if (x->when != y->when)
        return x->when < y->when ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* What a host enqueued (only_started) says nothing of the kernels of other ranks. Moves it behind them; how many those are. */
static uint32_t keep_ended(const mtp_ranks *r, entry *e, uint32_t count)
{
    uint32_t ended = 0;
    for (uint32_t i = 0; i < count; i++) {
        entry one = e[i];
        if (r->list[one.rank].row.only_started)
            continue;
        memmove(&e[ended + 1], &e[ended], (i - ended) * sizeof *e);
        e[ended++] = one;
    }
    return ended > 0 ? ended : count;
}

/* Meetings in the order of the first rank's clock, so that pairs are nearly sorted. */
static bool gather(mtp_ranks *r, entry *list, uint32_t count)
{
    if (count > 1)
        qsort(list, count, sizeof *list, by_key);
    for (uint32_t from = 0, to; from < count; from = to) {
        for (to = from;
             to < count && list[to].key[0] == list[from].key[0] && list[to].key[1] == list[from].key[1];)
            to++;
        uint32_t ended = to - from > 1 ? keep_ended(r, &list[from], to - from) : 0;
        if (ended > 1 && !add_meeting(r, &list[from], ended))
            return false;
    }
    if (r->meeting_count > 1)
        qsort(r->meetings, r->meeting_count, sizeof *r->meetings, by_time);
    return true;
}

static mtp_status find_meetings(mtp_ranks *r)
{
    size_t most = 1;
    for (uint32_t k = 0; k < r->used; k++)
        most += r->list[k].call_count;
    entry *list = mtp__calloc(most, sizeof *list);
    bool good = list != NULL;
    for (int by_step = 0; by_step < 2; by_step++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < r->used && good; k++)
            good = add_rank(r, k, by_step != 0, list, &count);
        good = good && gather(r, list, count);
    }
    mtp__free(list);
    return good ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the communication calls of %u ranks", r->used);
}

/* ------------------------------------------------------------------------------------------------ clocks */

typedef struct ties {
    mtp__tie *at; /* owned */
    uint32_t count, room;
} ties;

static uint32_t index_of(const mtp_ranks *r, int64_t rank)
{
    for (uint32_t k = 0; k < r->used; k++)
        if (r->list[k].row.rank == rank)
            return k;
    return MTP__NONE;
}

static bool add_tie(ties *t, mtp__tie tie)
{
    if (!MTP__GROW(t->at, t->room, t->count, (size_t)t->count + 1, 16))
        return false;
    t->at[t->count++] = tie;
    return true;
}

static bool add_samples(const mtp_ranks *r, uint32_t own, ties *t)
{
    const mtp__rank *k = &r->list[own];
    for (uint32_t i = 0; i < k->tie_count; i++) {
        const mtp__clock_sample *s = &k->ties[i];
        uint32_t peer = index_of(r, s->peer);
        if (peer == MTP__NONE || peer == own)
            continue;
        int64_t shift = (int64_t)((uint64_t)mtp__rank_shift(&r->list[peer], s->clock) -
                                  (uint64_t)mtp__rank_shift(k, s->clock));
        mtp__tie tie = {.own = own,
                        .peer = peer,
                        .at = s->at,
                        .offset = (int64_t)((uint64_t)s->offset + (uint64_t)shift),
                        .error = s->error};
        if (!add_tie(t, tie))
            return false;
    }
    return true;
}

/* Recordings of one boot read the same CLOCK_MONOTONIC. */
static bool same_boot(const mtp__rank *a, const mtp__rank *b)
{
    return (a->boot[0] | a->boot[1]) != 0 && a->boot[0] == b->boot[0] && a->boot[1] == b->boot[1];
}

static bool add_same_boot(const mtp_ranks *r, uint32_t own, ties *t)
{
    uint32_t peer = 0;
    while (peer < own && !same_boot(&r->list[own], &r->list[peer]))
        peer++;
    if (peer == own)
        return true;
    const mtp__rank *a = &r->list[own], *b = &r->list[peer];
    mtp__tie tie = {.own = own,
                    .peer = peer,
                    .at = a->row.first_ns,
                    .offset = (int64_t)((uint64_t)mtp__rank_shift(b, 2) - (uint64_t)mtp__rank_shift(a, 2)),
                    .error = SAME_BOOT_NS};
    if (!add_tie(t, tie))
        return false;
    tie.at = a->row.last_ns;
    return add_tie(t, tie);
}

static mtp_clock_by by_what(const mtp_ranks *r, uint32_t own)
{
    const mtp__rank *k = &r->list[own];
    uint32_t of = r->clocks.line[own].component;
    if (of == own)
        return own == 0 ? MTP_CLOCK_BY_REFERENCE : MTP_CLOCK_BY_DAY;
    for (uint32_t peer = 0; peer < own; peer++)
        if (same_boot(k, &r->list[peer]))
            return MTP_CLOCK_BY_SAME;
    bool tied = k->tie_count > 0;
    for (uint32_t i = 0; i < r->used && !tied; i++)
        for (uint32_t n = 0; n < r->list[i].tie_count && !tied; n++)
            tied = r->list[i].ties[n].peer == k->row.rank;
    return tied ? MTP_CLOCK_BY_TIES : MTP_CLOCK_BY_CALLS;
}

static mtp_status solve(mtp_ranks *r)
{
    ties t = {0};
    int64_t *first = mtp__calloc((size_t)r->used + 1, sizeof *first),
            *last = mtp__calloc((size_t)r->used + 1, sizeof *last),
            *rounded = mtp__calloc((size_t)r->used + 1, sizeof *rounded);
    bool good = first != NULL && last != NULL && rounded != NULL;
    for (uint32_t k = 0; k < r->used && good; k++) {
        first[k] = r->list[k].row.first_ns;
        last[k] = r->list[k].row.last_ns;
        rounded[k] = r->list[k].coarse ? ROUNDED_NS : EXACT_NS;
        good = add_samples(r, k, &t) && add_same_boot(r, k, &t);
    }
    mtp_status status = good ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the clocks of %u ranks", r->used);
    mtp__clocks_in in = {.ranks = r->used,
                         .meetings = r->meeting_count,
                         .ties = t.count,
                         .first = first,
                         .last = last,
                         .rounded = rounded,
                         .meeting = r->meetings,
                         .seen = r->seen,
                         .tie = t.at};
    if (status == MTP_OK)
        status = mtp__clocks_solve(&in, &r->clocks);
    for (uint32_t k = 0; k < r->used && status == MTP_OK; k++) {
        mtp_rank_row *row = &r->list[k].row;
        const mtp__clock_line *l = &r->clocks.line[k];
        row->clock_at_ns = l->at;
        row->clock_offset_ns = l->offset;
        row->clock_drift = l->drift;
        row->clock_by = by_what(r, k);
        row->clock_error_ns =
            row->clock_by == MTP_CLOCK_BY_DAY || r->clocks.line[k].component != 0 ? -1 : l->error;
    }
    mtp__free(first);
    mtp__free(last);
    mtp__free(rounded);
    mtp__free(t.at);
    return status;
}

/* ------------------------------------------------------------------------------------------------- notes */

/* The call that the leaver left. */
static const mtp__call *call_of(const mtp_ranks *r, const mtp__clock_conflict *x)
{
    const mtp__seen *s = &r->seen[r->meetings[x->meeting].first];
    while (s->rank != x->leaver)
        s++;
    return &r->list[s->rank].calls[s->call];
}

static bool note_contradictions(mtp_ranks *r)
{
    const mtp__clocks *c = &r->clocks;
    mtp__words w = {0};
    if (c->conflicts == 0)
        return true;
    mtp__say_count(&w, c->conflicts, "bound on the clocks contradicts", "bounds on the clocks contradict");
    mtp__say(&w, " the others and %s left out:", c->conflicts == 1 ? "is" : "are");
    for (uint32_t told = 0, at = 0; told < TOLD && at < c->conflicts; told++) {
        const mtp__clock_conflict *x = &c->conflict[at];
        uint32_t same = 0;
        int64_t most = 0;
        for (; at < c->conflicts && c->conflict[at].meeting == x->meeting &&
               c->conflict[at].leaver == x->leaver;
             at++) {
            most = c->conflict[at].by > most ? c->conflict[at].by : most;
            same++;
        }
        mtp__say(&w, "%s rank %lld", told > 0 ? ";" : "", (long long)r->list[x->leaver].row.rank);
        if (x->meeting == MTP__NONE) {
            mtp__say(&w, " and rank %lld are ", (long long)r->list[x->enterer].row.rank);
            mtp__say_time(&w, (double)most);
            mtp__say(&w, " off what other ranks imply");
            continue;
        }
        const mtp__call *left = call_of(r, x);
        mtp__say(&w, " left %s", mtp__ranks_text(r, left->name));
        if (left->sequence >= 0)
            mtp__say(&w, " %lld", (long long)left->sequence);
        mtp__say(&w, " up to ");
        mtp__say_time(&w, (double)most);
        mtp__say(&w, " before rank %lld%s entered", (long long)r->list[x->enterer].row.rank,
                 same > 1 ? " and others" : "");
    }
    mtp__say(&w, ". Either calls were matched wrongly, or a clock was set.");
    for (uint32_t k = 0, told = 0; k < r->used && told < TOLD; k++) {
        if (r->clocks.line[k].component != 0 || r->list[k].row.clock_error_ns >= 0)
            continue;
        mtp__say(&w, "%s %lld", told++ > 0 ? "," : " Nothing is proved about the clock of rank",
                 (long long)r->list[k].row.rank);
    }
    mtp__say(&w, w.length > 0 && w.bytes[w.length - 1] != '.' ? "." : "");
    return mtp__ranks_note(r, &w);
}

static bool note_untied(mtp_ranks *r)
{
    uint32_t untied = 0, first = MTP__NONE, matched = 0;
    mtp__words w = {0};
    for (uint32_t k = 0; k < r->used; k++) {
        untied += r->clocks.line[k].component != 0;
        first = first == MTP__NONE && r->clocks.line[k].component != 0 ? k : first;
        matched += r->list[k].row.matched > 0;
    }
    if (untied == 0)
        return true;
    if (matched == 0)
        mtp__say(&w, "No communication call was found on two ranks: ");
    else
        mtp__say(
            &w,
            "%u of the ranks (the first is rank %lld) share no call that ties their clocks to rank %lld: ",
            untied, (long long)r->list[first].row.rank, (long long)r->list[0].row.rank);
    mtp__say(
        &w,
        "they are placed by the time of day of their machines, whose error is not known (with NTP usually "
        "milliseconds).");
    return mtp__ranks_note(r, &w);
}

/* MPI_Waitall, MPI_Init: no other rank has the same call. */
static bool is_own(const mtp_ranks *r, const mtp__call *c)
{
    return c->comm == MTP__COMM_OTHER && strncmp(mtp__ranks_text(r, c->name), "MPI_", 4) == 0;
}

static bool note_unmatched(mtp_ranks *r)
{
    uint64_t calls = 0, matched = 0;
    mtp__words w = {0};
    for (uint32_t k = 0; k < r->used; k++) {
        if (r->list[k].row.only_started && r->list[k].row.matched == 0)
            continue; /* which is said */
        calls += r->list[k].call_count;
        for (uint32_t i = 0; i < r->list[k].call_count; i++)
            calls -= is_own(r, &r->list[k].calls[i]);
        matched += r->list[k].row.matched;
    }
    if (r->used < 2 || calls == 0 || matched == calls)
        return true;
    mtp__say(&w, "%llu of %llu communication calls were found on one rank only.",
             (unsigned long long)(calls - matched), (unsigned long long)calls);
    return mtp__ranks_note(r, &w);
}

static bool note_order(mtp_ranks *r)
{
    mtp__words w = {0};
    if (!r->by_order || r->used < 2)
        return true;
    mtp__say(&w, "Calls have no sequence numbers: they are matched by their order, by kind and step.");
    if (r->list[0].steps[0].number < 0)
        mtp__say(&w, " Without steps, that is wrong where recordings began with different calls.");
    return mtp__ranks_note(r, &w);
}

static bool note_started(mtp_ranks *r)
{
    mtp__words w = {0};
    uint32_t ranks = 0;
    for (uint32_t k = 0; k < r->used; k++)
        ranks += r->list[k].row.only_started;
    if (ranks == 0 || r->used < 2)
        return true;
    mtp__say(&w, "Of communication, ");
    mtp__say_count(&w, ranks, "trace has", "traces have");
    mtp__say(
        &w,
        " only the host's calls, which enqueue it (NCCL): when it ran, who waited, and how far the clocks "
        "are apart is not known. Traces of torch.profiler with CUDA have its kernels.");
    return mtp__ranks_note(r, &w);
}

static bool note_mixed(mtp_ranks *r)
{
    mtp__words w = {0};
    uint32_t on_devices = 0;
    for (uint32_t k = 0; k < r->used; k++)
        on_devices += r->list[k].row.has_device;
    if (on_devices == 0 || on_devices == r->used)
        return true;
    mtp__say(&w,
             "%u of %u ranks %s device work: what they compute is their kernels, and of the others it is "
             "their operators.",
             on_devices, r->used, on_devices == 1 ? "has" : "have");
    return mtp__ranks_note(r, &w);
}

static bool note_apart(mtp_ranks *r)
{
    bool good = true;
    for (uint32_t k = 0; k < r->used && good; k++) {
        bool overlaps = r->used == 1;
        mtp__words w = {0};
        int64_t from = mtp__rank_true(r, k, r->list[k].row.first_ns),
                to = mtp__rank_true(r, k, r->list[k].row.last_ns);
        for (uint32_t i = 0; i < r->used && !overlaps; i++)
            overlaps = i != k && mtp__rank_true(r, i, r->list[i].row.first_ns) <= to &&
                       mtp__rank_true(r, i, r->list[i].row.last_ns) >= from;
        if (overlaps)
            continue;
        mtp__say(&w,
                 "Rank %lld (%s) was recorded at another time than all others: perhaps it is of another run.",
                 (long long)r->list[k].row.rank, r->list[k].row.file);
        good = mtp__ranks_note(r, &w);
    }
    return good;
}

mtp_status mtp__ranks_match(mtp_ranks *r)
{
    mtp_status status = find_meetings(r);
    if (status == MTP_OK)
        status = solve(r);
    if (status != MTP_OK)
        return status;
    return note_mixed(r) && note_started(r) && note_order(r) && note_unmatched(r) && note_contradictions(r) &&
                   note_untied(r) && note_apart(r)
               ? MTP_OK
               : MTP_FAIL(MTP_E_NOMEM, "notes");
}
