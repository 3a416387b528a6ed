/* analyze/ranks/runs.c - a rank that was started again (torchrun --max-restarts): which of its runs is compared.
 *
 * Each run counts its calls and steps from the beginning, so those of different runs must not be matched. Processes of a
 * rank that were not alive at the same time are different runs. The one with the most calls and steps is compared: ranks of
 * a job end and begin together, so that is the same run of each. */
#include <stdint.h>
#include "analyze/ranks/ranks.h"
#include "base/os.h"

typedef struct process {
    int64_t first, last;
    uint64_t calls; /* and steps */
} process;

static bool counts(const mtp__rank_view *v, const mtp__track *track, uint32_t span)
{
    if (track->on_device)
        return mtp__rank_kernel_is_comm(mtp__trace_get_text(v->t, v->t->name[span]));
    mtp__name_is is = mtp__rank_name(v, span);
    return is == MTP__NAME_CALL || is == MTP__NAME_RECORD || is == MTP__NAME_STEP;
}

static void add_track(const mtp__rank_view *v, const mtp__track *track, process *p)
{
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        p->first = v->t->start[i] < p->first ? v->t->start[i] : p->first;
        p->last = v->t->end[i] > p->last ? v->t->end[i] : p->last;
        p->calls += counts(v, track, i);
    }
}

/* Empties the tracks of other runs. false: out of memory. */
bool mtp__rank_choose_run(const mtp__rank_view *v, mtp_trace *t)
{
    uint32_t parts = 1, best = 0, skipped = 0;
    for (uint32_t i = 0; i < t->track_count; i++)
        parts = t->tracks[i].part >= parts ? t->tracks[i].part + 1 : parts;
    if (parts == 1)
        return true;
    process *all = mtp__calloc(parts, sizeof *all);
    if (all == NULL)
        return false;
    for (uint32_t i = 0; i < parts; i++)
        all[i] = (process){INT64_MAX, INT64_MIN, 0};
    for (uint32_t i = 0; i < t->track_count; i++)
        add_track(v, &t->tracks[i], &all[t->tracks[i].part]);
    for (uint32_t i = 1; i < parts; i++) /* of equals, the later one, which got further */
        if (all[i].calls > all[best].calls ||
            (all[i].calls == all[best].calls && all[i].first > all[best].first))
            best = i;
    const process *one = &all[best];
    for (uint32_t i = 0; i < parts; i++)
        skipped += all[i].calls > 0 && (all[i].first > one->last || all[i].last < one->first);
    for (uint32_t i = 0; i < t->track_count && skipped > 0; i++) {
        const process *p = &all[t->tracks[i].part];
        if (p->first > one->last || p->last < one->first)
            t->tracks[i].count = 0;
    }
    v->k->runs = 1 + skipped;
    mtp__free(all);
    return true;
}

bool mtp__ranks_note_runs(mtp_ranks *r)
{
    uint32_t ranks = 0, most = 0;
    mtp__words w = {0};
    for (uint32_t i = 0; i < r->used; i++) {
        ranks += r->list[i].runs > 1;
        most = r->list[i].runs > most ? r->list[i].runs : most;
    }
    if (ranks == 0)
        return true;
    mtp__say_count(&w, ranks, "rank was", "ranks were");
    mtp__say(&w,
             " started again (up to %u runs, one after the other): only the run with the most calls and "
             "steps is compared.",
             most);
    return mtp__ranks_note(r, &w);
}
