/* present/ranks_text.c - ranks for people: the verdict, then what was noticed, then a line per rank. */
#include "analyze/ranks/ranks.h"
#include "base/error.h"
#include "base/os.h"
#include "present/budget.h"
#include "present/plain_text.h"

#define HOST 16u /* columns */

static void say_head(mtp__pieces *p, const mtp_ranks *r)
{
    mtp__words w = {0};
    const mtp_rank_row *first = mtp_ranks_row(r, 0);
    int64_t worst = 0;
    uint32_t unknown = 0, by[MTP_CLOCK_BY_DAY + 1] = {0};
    for (uint32_t k = 0; k < r->used; k++) {
        const mtp_rank_row *row = mtp_ranks_row(r, k);
        worst = row->clock_error_ns > worst ? row->clock_error_ns : worst;
        unknown += row->clock_error_ns < 0;
        by[row->clock_by]++;
    }
    mtp__say_count(&w, r->used, "rank", "ranks");
    if (*first->backend != 0)
        mtp__say(&w, " (%s)", first->backend);
    if (r->compared_count > 0 && r->numbers[0] >= 0) {
        mtp__say(&w, ", ");
        mtp__say_count(&w, r->compared_count, "step", "steps");
        mtp__say(&w, " of ");
    } else if (r->compared_count > 0) {
        mtp__say(&w, ", ");
    }
    if (r->compared_count > 0)
        mtp__say_time(&w, r->step_ns);
    if (r->used > 1) {
        mtp__say(&w, "; clocks tied by ");
        mtp__say(&w, "%s",
                 by[MTP_CLOCK_BY_CALLS] > 0  ? "communication calls"
                 : by[MTP_CLOCK_BY_TIES] > 0 ? "measurements while recording"
                 : by[MTP_CLOCK_BY_SAME] > 0 ? "being one machine's"
                                             : "the time of day");
        if (unknown < r->used - 1 && worst > 0) {
            mtp__say(&w, ", proved to ");
            mtp__say_time(&w, (double)worst);
        }
        if (unknown > 0)
            mtp__say(&w, ", %s",
                     unknown == r->used - 1 ? "with an unknown error" : "some with an unknown error");
    }
    mtp__say(&w, ".");
    mtp__pieces_add(p, 0, 0, 0, &w);
}

static void say_findings(mtp__pieces *p, const mtp_ranks *r)
{
    for (uint32_t i = 0; i < r->found_count; i++) {
        mtp__words w = {0};
        mtp__pieces_line(p, i, "");
        mtp__say(&w, "%u. %s", i + 1, r->found[i].title);
        mtp__pieces_add(p, i, 0, 3, &w);
        mtp__say(&w, "[%s] %s", r->found[i].id, r->found[i].text);
        mtp__pieces_add(p, i, 3, 3, &w);
    }
    bool started = false;
    for (uint32_t k = 0; k < r->used; k++)
        started |= r->list[k].row.only_started;
    if (r->found_count == 0 && r->stepped > 1 && r->compared_count > 0) {
        mtp__pieces_line(p, 0, "");
        mtp__pieces_line(p, 0,
                         started
                             ? "Who waits for whom cannot be said from these traces (see below)."
                             : "Nothing stands out: no rank is late, and communication takes little time.");
    }
    for (uint32_t i = 0; i < r->note_count; i++) {
        mtp__words w = {0};
        if (i == 0)
            mtp__pieces_line(p, r->found_count + 1, "");
        mtp__say(&w, "- %s", r->notes[i]);
        mtp__pieces_add(p, r->found_count + 1, 0, 2, &w);
    }
}

/* ------------------------------------------------------------------------------------------------- table */

static void cell(mtp__out *o, const char *text, size_t width)
{
    size_t length = strlen(text);
    for (size_t i = length; i < width; i++)
        MTP__OUT(o, " ");
    mtp__out_bytes(o, text, length);
}

static void time_cell(mtp__out *o, double ns, size_t width)
{
    mtp__words w = {0};
    mtp__say_time(&w, ns);
    cell(o, w.failed ? "" : w.bytes, width);
    o->failed |= w.failed;
    mtp__free(w.bytes);
}

static void share_cell(mtp__out *o, double share, size_t width)
{
    mtp__words w = {0};
    if (share >= 0)
        mtp__say_share(&w, share);
    else
        mtp__say(&w, "-");
    cell(o, w.failed ? "" : w.bytes, width);
    o->failed |= w.failed;
    mtp__free(w.bytes);
}

static void host_cell(mtp__out *o, const char *host)
{
    size_t length = strlen(host);
    char room[MTP__PLAIN_ROOM(256)];
    mtp__plain text = mtp__plain_first(mtp__plain_text(room, host, length > 256 ? 256 : length), HOST);
    mtp__out_bytes(o, text.bytes, text.length);
    for (size_t i = text.characters; i < HOST; i++)
        MTP__OUT(o, " ");
}

static void row_of(mtp__out *o, const mtp_ranks *r, uint32_t index, bool hosts)
{
    const mtp_rank_row *row = &r->list[index].row;
    const mtp_rank_times *t = &row->mean;
    mtp__words w = {0};
    bool marked = false;
    for (uint32_t i = 0; i < r->found_count; i++)
        marked |= strcmp(r->found[i].id, "straggler") == 0 && r->found[i].rank == row->rank;
    mtp__say(&w, "%s%lld", marked ? "* " : "", (long long)row->rank);
    cell(o, w.failed ? "" : w.bytes, 6);
    o->failed |= w.failed;
    mtp__free(w.bytes);
    MTP__OUT(o, "  ");
    if (hosts)
        host_cell(o, row->host);
    const int64_t times[] = {t->wall_ns,     t->compute_ns, t->exposed_ns, t->waiting_ns,
                             t->transfer_ns, t->idle_ns,    t->late_ns};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        time_cell(o, (double)times[i], 10);
    share_cell(o, row->overlap, 9);
    time_cell(o, (double)row->clock_offset_ns, 11);
    if (row->clock_error_ns >= 0)
        time_cell(o, (double)row->clock_error_ns, 10);
    else
        cell(o, "unknown", 10);
    MTP__OUT(o, "\n");
}

static mtp_status write_table(const mtp_ranks *r, mtp_sink *sink, void *user)
{
    mtp__out o;
    bool hosts = false, assumed = false;
    mtp_status status = mtp__out_begin(&o, r, "ranks", sink, user);
    if (status != MTP_OK)
        return status;
    for (uint32_t k = 0; k < r->used; k++) {
        hosts |= *r->list[k].row.host != 0;
        assumed |= r->list[k].row.compute_assumed;
    }
    MTP__OUT(&o, "\n  rank  ");
    mtp__out_text(&o, hosts ? "host            " : "");
    static const char *const heads[] = {"step", "compute", "exposed", "waiting", "transfer", "idle", "late"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cell(&o, heads[i], 10);
    cell(&o, "overlap", 9);
    cell(&o, "clock", 11);
    cell(&o, "error", 10);
    MTP__OUT(&o, "\n");
    for (uint32_t k = 0; k < r->used; k++)
        row_of(&o, r, k, hosts);
    MTP__OUT(&o, "\nPer step, on average. exposed: communication while nothing is computed = waiting (for "
                 "ranks that come\n"
                 "later) + transfer. late: enters calls so much after the median rank. overlap: of all "
                 "communication,\n"
                 "computed meanwhile. clock: add this to the rank's times; error: proved limit.\n");
    if (assumed)
        MTP__OUT(&o, "No operators were recorded: compute is the time outside of communication.\n");
    return mtp__out_finish(&o);
}

mtp_status mtp_ranks_text(const mtp_ranks *r, const mtp_words_options *options, mtp_sink *sink, void *user)
{
    mtp_words_options o;
    if (r == NULL || sink == NULL)
        return MTP_FAIL(MTP_E_ARG, "ranks or sink is NULL");
    mtp_status status = mtp__words_options_read(&o, options);
    if (status != MTP_OK)
        return status;
    mtp__pieces p = {.width = o.width};
    say_head(&p, r);
    say_findings(&p, r);
    status = mtp__pieces_write(&p, o.budget, "More: a larger budget, or --json.", sink, user);
    return status == MTP_OK && o.budget == 0 ? write_table(r, sink, user) : status;
}
