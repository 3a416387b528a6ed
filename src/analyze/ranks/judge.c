/* analyze/ranks/judge.c - who waits, and who is late. On the reference's clock, a rank waits in a call until the last
 * rank has entered; it is late by as much as it enters after the median rank, unless it waited for others before that.
 * Both are summed by step. */
#include <math.h>
#include <stdlib.h>
#include "analyze/ranks/ranks.h"
#include "base/error.h"
#include "base/os.h"
#include "base/pair_map.h"

#define LISTED 8u

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* ------------------------------------------------------------------------------------------------- steps */

static uint32_t find_number(const mtp__rank *k, int64_t number)
{
    for (uint32_t i = 0; i < k->step_count; i++)
        if (k->steps[i].number == number)
            return i;
    return MTP__NO_STEP;
}

/* The first rank that has numbered steps. Others that have none must not keep all from being compared. */
static const mtp__rank *find_stepless(mtp_ranks *r)
{
    const mtp__rank *first = NULL;
    for (uint32_t k = 0; k < r->used; k++)
        if (first == NULL && r->list[k].steps[0].number >= 0)
            first = &r->list[k];
    for (uint32_t k = 0; k < r->used; k++) {
        r->list[k].stepless = first != NULL && r->list[k].steps[0].number < 0;
        r->stepped += !r->list[k].stepless;
    }
    return first != NULL ? first : &r->list[0];
}

/* Steps that all ranks have, by their numbers. */
static bool compare_steps(mtp_ranks *r)
{
    const mtp__rank *first = find_stepless(r);
    r->numbers = mtp__calloc((size_t)first->step_count + 1, sizeof *r->numbers);
    if (r->numbers == NULL)
        return false;
    for (uint32_t i = 0; i < first->step_count; i++) {
        bool all = true;
        for (uint32_t k = 0; k < r->used && all; k++)
            all = r->list[k].stepless ||
                  (i < r->list[k].step_count && r->list[k].steps[i].number == first->steps[i].number) ||
                  find_number(&r->list[k], first->steps[i].number) != MTP__NO_STEP;
        if (all && (r->compared_count == 0 || first->steps[i].number > r->numbers[r->compared_count - 1]))
            r->numbers[r->compared_count++] = first->steps[i].number;
    }
    for (uint32_t k = 0; k < r->used; k++) {
        mtp__rank *rank = &r->list[k];
        rank->compared = mtp__calloc((size_t)rank->step_count + 1, sizeof *rank->compared);
        if (rank->compared == NULL)
            return false;
        for (uint32_t i = 0; i < rank->step_count; i++) {
            const int64_t *at =
                bsearch(&rank->steps[i].number, r->numbers, r->compared_count, sizeof *r->numbers, by_number);
            rank->compared[i] = at != NULL ? (uint32_t)(at - r->numbers) : MTP__NO_STEP;
        }
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------- waiting */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

typedef struct enters {
    double *enter, *work, *sorted; /* owned; work: without what the rank was held up by others */
} enters;

/* Of the waiting, what no computation hides. */
static double open_part(const mtp__call *c)
{
    double length = (double)(c->leave - c->enter);
    return length > 0 ? (double)c->waited * (1 - (double)c->hidden / length) : 0;
}

/* A call that no other trace shows may have been waiting from its beginning to its end. */
static double open_at_most(const mtp__call *c)
{
    return c->meeting == MTP__NONE && !c->started ? (double)(c->leave - c->enter - c->hidden) : open_part(c);
}

static void add_late(mtp_ranks *r, const mtp__seen *s, mtp__call *c, double late, double lost)
{
    mtp__rank *k = &r->list[s->rank];
    c->late = late > 0 ? (int64_t)late : 0;
    if (c->step == MTP__NO_STEP)
        return;
    k->steps[c->step].times.late_ns += late > 0 ? (int64_t)late : 0;
    uint32_t step = k->compared[c->step];
    if (step == MTP__NO_STEP)
        return;
    size_t at = (size_t)s->rank * r->compared_count + step;
    r->late[at] += late > 0 ? late : 0;
    r->lost[at] += lost;
}

static void add_waiting(mtp_ranks *r, const mtp__seen *s, mtp__call *c, double waited)
{
    c->waited = (int64_t)fmin(fmax(waited, 0), (double)(c->leave - c->enter));
    if (c->step != MTP__NO_STEP)
        r->list[s->rank].steps[c->step].times.waiting_ns += (int64_t)open_part(c);
}

/* sorted is free for use. */
static double median_of(const double *value, double *sorted, uint32_t count)
{
    memcpy(sorted, value, count * sizeof *value);
    qsort(sorted, count, sizeof *sorted, by_value);
    return count % 2 != 0 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static uint8_t enters_of(const mtp_ranks *r, const mtp__meeting *m, enters *room)
{
    const mtp__seen *seen = &r->seen[m->first];
    int64_t base = mtp__rank_true(r, seen->rank, seen->enter);
    for (uint32_t i = 0; i < m->count; i++) {
        room->enter[i] = (double)(mtp__rank_true(r, seen[i].rank, seen[i].enter) - base);
        room->work[i] = room->enter[i] - (double)r->list[seen[i].rank].calls[seen[i].call].held_up;
    }
    return r->list[seen->rank].calls[seen->call].nominal;
}

static void find_waiting(mtp_ranks *r, const mtp__meeting *m, enters *room)
{
    const mtp__seen *seen = &r->seen[m->first];
    uint8_t nominal = enters_of(r, m, room);
    double last = room->enter[0];
    for (uint32_t i = 1; i < m->count; i++)
        last = fmax(last, room->enter[i]);
    double root = last;
    for (uint32_t i = 0; i < m->count; i++)
        root = seen[i].rank == m->root ? room->enter[i] : root;
    bool rooted = m->root != MTP__NONE;
    for (uint32_t i = 0; i < m->count; i++) {
        mtp__call *c = &r->list[seen[i].rank].calls[seen[i].call];
        if (nominal == MTP__MEET_ALL || (nominal == MTP__MEET_TO_ROOT && seen[i].rank == m->root))
            add_waiting(r, &seen[i], c, last - room->enter[i]);
        else if (rooted && (nominal == MTP__MEET_FROM_ROOT ||
                            (nominal != MTP__MEET_TO_ROOT && m->kind == MTP__MEET_FROM_ROOT))) /* a message */
            add_waiting(r, &seen[i], c, root - room->enter[i]);
    }
}

/* Whoever waited for another rank before is not late by its own work. */
static void find_lateness(mtp_ranks *r, const mtp__meeting *m, enters *room)
{
    const mtp__seen *seen = &r->seen[m->first];
    if (enters_of(r, m, room) != MTP__MEET_ALL)
        return;
    double work = median_of(room->work, room->sorted, m->count),
           median = median_of(room->enter, room->sorted, m->count), last = room->sorted[m->count - 1],
           second = room->sorted[m->count - 2];
    bool told = false;
    for (uint32_t i = 0; i < m->count; i++) {
        mtp__call *c = &r->list[seen[i].rank].calls[seen[i].call];
        bool is_last = !told && room->enter[i] == last;
        double own = fmax(room->work[i] - work, 0);
        add_late(r, &seen[i], c, fmin(room->enter[i] - median, own), is_last ? fmin(last - second, own) : 0);
        r->list[seen[i].rank].row.last += is_last;
        told |= is_last;
    }
}

/* For each call, what the rank waited in calls of other groups since the last one of the same group. */
static bool find_held_up(mtp__rank *k)
{
    mtp__pair_map last = {0}; /* group -> what had been waited until after its last call */
    double waited = 0;
    bool good = true;
    for (uint32_t i = 0; i < k->call_count && good; i++) {
        mtp__call *c = &k->calls[i];
        bool is_new;
        uint64_t *before = mtp__pair_put(&last, c->group, 1 + (uint64_t)c->nominal, 0, &is_new);
        good = before != NULL;
        if (!good)
            break;
        c->held_up = (int64_t)waited - (int64_t)*before;
        waited += open_at_most(c);
        *before = (uint64_t)(int64_t)waited;
    }
    mtp__pair_map_fini(&last);
    return good;
}

static bool judge_meetings(mtp_ranks *r)
{
    uint32_t most = 2;
    for (uint32_t m = 0; m < r->meeting_count; m++)
        most = r->meetings[m].count > most ? r->meetings[m].count : most;
    enters room = {.enter = mtp__calloc(most, sizeof(double)),
                   .work = mtp__calloc(most, sizeof(double)),
                   .sorted = mtp__calloc(most, sizeof(double))};
    bool good = room.enter != NULL && room.work != NULL && room.sorted != NULL;
    for (uint32_t m = 0; m < r->meeting_count && good; m++)
        find_waiting(r, &r->meetings[m], &room);
    for (uint32_t k = 0; k < r->used && good; k++)
        good = find_held_up(&r->list[k]);
    for (uint32_t m = 0; m < r->meeting_count && good; m++)
        find_lateness(r, &r->meetings[m], &room);
    mtp__free(room.enter);
    mtp__free(room.work);
    mtp__free(room.sorted);
    return good;
}

/* ----------------------------------------------------------------------------------------------- totals */

#define ADD(to, from, member) (to)->member += (from)->member

static void finish_steps(mtp_ranks *r, uint32_t rank)
{
    for (uint32_t i = 0; i < r->list[rank].step_count; i++) {
        mtp_rank_step *s = &r->list[rank].steps[i];
        mtp_rank_times *t = &s->times;
        s->start_ns = mtp__rank_true(r, rank, s->start_ns);
        s->end_ns = mtp__rank_true(r, rank, s->end_ns);
        t->waiting_ns = t->waiting_ns < t->exposed_ns ? t->waiting_ns : t->exposed_ns;
        t->transfer_ns = t->exposed_ns - t->waiting_ns;
    }
}

static void find_means(mtp_ranks *r, uint32_t rank)
{
    mtp__rank *k = &r->list[rank];
    mtp_rank_times *mean = &k->row.mean;
    uint32_t steps = 0;
    for (uint32_t i = 0; i < k->step_count; i++) {
        const mtp_rank_times *t = &k->steps[i].times;
        if (k->compared[i] == MTP__NO_STEP)
            continue;
        steps++;
        ADD(mean, t, wall_ns);
        ADD(mean, t, compute_ns);
        ADD(mean, t, comm_ns);
        ADD(mean, t, exposed_ns);
        ADD(mean, t, waiting_ns);
        ADD(mean, t, transfer_ns);
        ADD(mean, t, copies_ns);
        ADD(mean, t, idle_ns);
        ADD(mean, t, late_ns);
    }
    k->row.steps = steps;
    int64_t *const all[] = {&mean->wall_ns,    &mean->compute_ns, &mean->comm_ns,
                            &mean->exposed_ns, &mean->waiting_ns, &mean->transfer_ns,
                            &mean->copies_ns,  &mean->idle_ns,    &mean->late_ns};
    for (size_t i = 0; i < sizeof all / sizeof *all && steps > 0; i++)
        *all[i] /= steps;
}

/* Ranks whose communication runs beside their computation do not begin anew after each call: what makes the first of
 * them late is counted again in the others. Nobody is late by more than others wait. */
static bool limit_late(mtp_ranks *r)
{
    uint32_t n = r->compared_count;
    int64_t *most = mtp__calloc((size_t)n + 1, sizeof *most),
            *second = mtp__calloc((size_t)n + 1, sizeof *second);
    bool good = most != NULL && second != NULL; /* the longest waiting of a step, and the one after it */
    for (uint32_t k = 0; k < r->used && good; k++)
        for (uint32_t i = 0; i < r->list[k].step_count; i++) {
            uint32_t at = r->list[k].compared[i];
            int64_t waiting = r->list[k].steps[i].times.waiting_ns;
            if (at == MTP__NO_STEP)
                continue;
            second[at] = waiting > most[at] ? most[at] : waiting > second[at] ? waiting : second[at];
            most[at] = waiting > most[at] ? waiting : most[at];
        }
    for (uint32_t k = 0; k < r->used && good; k++)
        for (uint32_t i = 0; i < r->list[k].step_count; i++) {
            uint32_t at = r->list[k].compared[i];
            mtp_rank_times *t = &r->list[k].steps[i].times;
            if (at == MTP__NO_STEP)
                continue;
            int64_t limit = t->waiting_ns == most[at] ? second[at] : most[at];
            size_t cell = (size_t)k * n + at;
            t->late_ns = t->late_ns < limit ? t->late_ns : limit;
            r->late[cell] = fmin(r->late[cell], (double)limit);
            r->lost[cell] = fmin(r->lost[cell], (double)limit);
        }
    mtp__free(most);
    mtp__free(second);
    return good;
}

static bool find_step_time(mtp_ranks *r)
{
    double *all = mtp__calloc((size_t)r->used + 1, sizeof *all);
    if (all == NULL)
        return false;
    uint32_t count = 0;
    for (uint32_t k = 0; k < r->used; k++)
        if (!r->list[k].stepless)
            all[count++] = (double)r->list[k].row.mean.wall_ns;
    qsort(all, count, sizeof *all, by_value);
    r->step_ns = all[count / 2];
    mtp__free(all);
    return true;
}

static bool note_stepless(mtp_ranks *r)
{
    mtp__words w = {0};
    uint32_t told = 0;
    if (r->stepped == r->used)
        return true;
    mtp__say_count(&w, r->used - r->stepped, "rank has", "ranks have");
    mtp__say(&w, " no numbered steps and cannot be compared by step:");
    for (uint32_t k = 0; k < r->used; k++)
        if (r->list[k].stepless && told++ < LISTED)
            mtp__say(&w, "%s %lld", told > 1 ? "," : "", (long long)r->list[k].row.rank);
    mtp__say(&w, told > LISTED ? ", ..." : ".");
    return mtp__ranks_note(r, &w);
}

static bool note_steps(mtp_ranks *r)
{
    uint32_t most = 0;
    mtp__words w = {0};
    if (!note_stepless(r))
        return false;
    for (uint32_t k = 0; k < r->used; k++)
        most = r->list[k].step_count > most ? r->list[k].step_count : most;
    if (r->compared_count == 0)
        mtp__say(&w, "The ranks have no step in common: nothing is compared by step.");
    else if (r->numbers[0] < 0)
        mtp__say(&w, "The traces have no steps: each counts as one.");
    else if (most > r->compared_count)
        mtp__say(&w, "%u %s compared that all ranks have, of up to %u.", r->compared_count,
                 r->compared_count == 1 ? "step is" : "steps are", most);
    else
        return true;
    return mtp__ranks_note(r, &w);
}

mtp_status mtp__ranks_judge(mtp_ranks *r)
{
    bool good = compare_steps(r);
    size_t cells = (size_t)r->used * r->compared_count + 1;
    r->late = good ? mtp__calloc(cells, sizeof *r->late) : NULL;
    r->lost = good ? mtp__calloc(cells, sizeof *r->lost) : NULL;
    good = r->late != NULL && r->lost != NULL && judge_meetings(r);
    for (uint32_t k = 0; k < r->used && good; k++)
        finish_steps(r, k);
    good = good && limit_late(r);
    for (uint32_t k = 0; k < r->used && good; k++)
        find_means(r, k);
    good = good && find_step_time(r) && note_steps(r);
    return good ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the steps of %u ranks", r->used);
}
