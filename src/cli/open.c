/* cli/open.c - opens the traces that verbs are given, and says what is missing from them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

#define TOLD_MAX 8 /* recordings with something missing that are told of one by one */

static uint64_t wanted;   /* --process */
static int64_t rank = -1; /* --rank */

bool cli_choose_rank(const char *text)
{
    return text == NULL || (cli_parse_count(text, &rank) && rank >= 0);
}

bool cli_has_chosen_rank(void)
{
    return rank >= 0;
}

int64_t cli_chosen_rank(void)
{
    return rank;
}

void cli_use_rank(int64_t number)
{
    rank = number;
}

typedef struct rank_list {
    int64_t *rank; /* owned */
    size_t count, room;
} rank_list;

static bool add_rank(void *user, int64_t number)
{
    rank_list *l = user;
    if (l->count == l->room) {
        size_t room = l->room == 0 ? 16 : 2 * l->room;
        int64_t *more = realloc(l->rank, room * sizeof *more);
        if (more == NULL)
            return false;
        l->rank = more;
        l->room = room;
    }
    l->rank[l->count++] = number;
    return true;
}

static bool add_row(void *user, const mtp_rank_row *row)
{
    return add_rank(user, row->rank);
}

int64_t *cli_ranks_of(const char *path, size_t *count)
{
    rank_list l = {0};
    *count = 0;
    if (rank >= 0 || strcmp(path, "-") == 0)
        return NULL;
    if (!cli_ends(path, ".mtp") || mtp_job_ranks(path, add_row, &l) != MTP_OK)
        mtp_recording_ranks(path, add_rank, &l);
    *count = l.count;
    return l.rank;
}

bool cli_choose_process(const char *text)
{
    char *end;
    wanted = 0;
    if (text == NULL)
        return true;
    if (strcmp(text, "main") == 0) {
        wanted = MTP_PROCESS_MAIN;
        return true;
    }
    long long pid = strtoll(text, &end, 10);
    wanted = (uint64_t)pid;
    return end != text && *end == 0 && pid > 0;
}

uint64_t cli_chosen_process(void)
{
    return wanted;
}

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    if (!cli_shows_progress(total > done ? total : done))
        return;
    if (total > 0)
        fprintf(stderr, "\rreading %3.0f%% of %.0f MB", 100.0 * (double)done / (double)total,
                (double)total / 1e6);
    else
        fprintf(stderr, "\rreading %.0f MB", (double)done / 1e6);
}

/* Overwritten records were evicted on request; any other loss makes counts and times too small. */
static void report_drops(const char *name, const mtp_ledger *l)
{
    uint64_t dropped = 0;
    mtp_drop most = MTP_DROP_BUDGET;
    for (int k = 0; k < MTP_DROP_CAUSES; k++) {
        if (k == MTP_DROP_OVERWRITTEN)
            continue;
        dropped += l->dropped_by[k];
        most = l->dropped_by[k] > l->dropped_by[most] ? (mtp_drop)k : most;
    }
    if (dropped > 0)
        cli_warn("%s: %llu of %llu records were dropped (%s); the rest is shown", name,
                 (unsigned long long)dropped, (unsigned long long)l->emitted, mtp_drop_text(most));
}

/* Every verb reports what is missing from a trace. */
static void report_state(const char *name, const mtp_trace_info *info)
{
    const mtp_trace_info i = *info;
    if (i.missing_chunks > 0)
        cli_warn("%s is truncated: %llu chunk%s missing at its end, with their records", name,
                 (unsigned long long)i.missing_chunks, i.missing_chunks == 1 ? " is" : "s are");
    if (i.damaged_chunks > 0)
        cli_warn("%s: damaged: %llu of %llu chunks could not be read completely; the rest is shown "
                 "('mtprof check' says where)",
                 name, (unsigned long long)i.damaged_chunks, (unsigned long long)i.chunks);
    if (i.damaged_header)
        cli_warn("%s: its header is damaged; the intact copy was used", name);
    if (i.has_ledger)
        report_drops(name, &i.ledger);
    if (i.has_ledger && i.ledger.lost_definitions > 0)
        cli_warn("%s: %llu names, shapes or stacks are lost: they are shown as \"?\", or not at all", name,
                 (unsigned long long)i.ledger.lost_definitions);
    if (i.clock_faults > 0)
        cli_warn("%s: its clock went backwards or contradicted itself, %llu times; times stand still "
                 "there",
                 name, (unsigned long long)i.clock_faults);
    if (i.clock_uncertain)
        cli_warn("%s: the machine's clock stopped or jumped: times may be off by a percent", name);
    if (i.outcome == MTP_OUTCOME_LIVE)
        cli_note("%s is still being recorded by process %llu: only the part so far is shown", name,
                 (unsigned long long)i.pid);
    if (i.without_times)
        cli_note("%s is an execution trace: it has the order and number of ops, but no times", name);
}

static bool is_worth_telling(const mtp_recording_info *r)
{
    const mtp_trace_info *i = &r->info;
    const mtp_ledger *l = &i->ledger;
    return r->problem[0] != 0 || r->by_wall_clock || i->outcome == MTP_OUTCOME_LIVE || i->damaged_header ||
           i->missing_chunks + i->damaged_chunks + i->clock_faults + i->clock_uncertain > 0 ||
           (i->has_ledger && l->dropped - l->dropped_by[MTP_DROP_OVERWRITTEN] + l->lost_definitions > 0);
}

/* Of several recordings each is told of by its own name. */
static void report_recordings(const mtp_trace *trace)
{
    size_t count = mtp_trace_recording_count(trace), told = 0;
    for (size_t i = 0; i < count; i++) {
        mtp_recording_info r = MTP_RECORDING_INFO_INIT;
        if (mtp_trace_recording(trace, i, &r) != MTP_OK || !is_worth_telling(&r) || ++told > TOLD_MAX)
            continue;
        if (r.problem[0] != 0)
            cli_warn("%s: not read: %s", r.file, r.problem);
        else
            report_state(r.file, &r.info);
        if (r.by_wall_clock)
            cli_note("%s is of another boot or machine: it is placed by the time of day, which may be off",
                     r.file);
    }
    if (told > TOLD_MAX)
        cli_warn("and %zu more recordings are incomplete: see 'mtprof info'", told - TOLD_MAX);
}

static void report(const mtp_trace *trace, const char *path)
{
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    size_t recordings = mtp_trace_recording_count(trace);
    if (recordings > 1 || (recordings == 1 && wanted != 0)) /* the chosen one may be any of a folder's */
        report_recordings(trace);
    else if (mtp_trace_get_info(trace, &info) == MTP_OK)
        report_state(strcmp(path, "-") == 0 ? "standard input" : path, &info);
}

/* In a JSON file, a process is a part of it. */
static mtp_status choose_part(mtp_trace **trace)
{
    mtp_cut_options cut = MTP_CUT_OPTIONS_INIT;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    mtp_trace *all = *trace;
    mtp_status status = mtp_trace_get_info(all, &info);
    if (status != MTP_OK || wanted == 0 || info.format == MTP_FORMAT_RECORDING)
        return status;
    cut.process = wanted == MTP_PROCESS_MAIN ? info.pid : wanted;
    status = mtp_trace_cut(all, &cut, trace);
    mtp_trace_destroy(all);
    return status;
}

static mtp_trace *open_trace(const char *path, bool count_only, int *code)
{
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    mtp_trace *trace = NULL;
    options.progress = show_progress;
    options.count_only = count_only;
    options.process = wanted;
    options.by_rank = rank >= 0;
    options.rank = rank;
    if (strcmp(path, "-") == 0 && isatty(STDIN_FILENO))
        fprintf(stderr, "reading a trace from the terminal; end it with Ctrl-D\n");
    mtp_status status = mtp_trace_open(path, &options, &trace);
    cli_progress_done();
    if (status == MTP_OK)
        report(trace, path);
    if (status == MTP_OK)
        status = choose_part(&trace);
    if (status == MTP_OK)
        return trace;
    *code = cli_fail_status(status);
    return NULL;
}

mtp_trace *cli_open(const char *path, int *code)
{
    return open_trace(path, false, code);
}

mtp_trace *cli_open_counted(const char *path, int *code)
{
    return open_trace(path, true, code);
}
