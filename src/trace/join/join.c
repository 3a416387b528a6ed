/* trace/join/join.c - see join.h. */
#include "trace/join/join.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/budget.h"
#include "base/error.h"
#include "base/os.h"
#include "base/pair_map.h"
#include "trace/build.h"
#include "trace/facts.h"
#include "trace/open.h"
#include "trace/records/from_records.h"

#define LABEL_ROOM 256

typedef struct join {
    mtp_trace *t;    /* owned: under construction */
    mtp__part *part; /* owned; [0] is the main process */
    uint32_t count;
    mtp__tick_line line;  /* owned: of all that share the main process's clock */
    mtp__symbols symbols; /* owned */
    mtp__pair_map pids;   /* (pid, 0) -> parts with it so far */
    mtp__meta *metadata;  /* owned: of the main process */
    uint32_t metadata_count;
    uint64_t correlations, tensors; /* the highest numbers used so far */
    mtp_trace_info sum;
    bool of_several_ranks;
} join;

/* ---------------------------------------------------------------------------------------------- a glance */

static uint32_t message(mtp_trace *t)
{
    const char *text = mtp_last_error();
    return mtp__trace_text(t, text, strlen(text));
}

/* A file that cannot be read does not spoil the others. */
static mtp_status glance(join *j, mtp__part *p)
{
    mtp_trace *t = j->t;
    mtp__dictionary d;
    mtp__spool_report report;
    struct stat st;
    p->bytes = stat(p->path, &st) == 0 ? (uint64_t)st.st_size : 0;
    p->rank = -1;
    t->pid = t->parent_pid = 0;
    t->command = 0;
    mtp_status status = mtp__trace_glance(t, p->path, &d, &report);
    if (status == MTP_OK) {
        p->pid = t->pid != 0 ? t->pid : report.pid;
        p->parent = t->parent_pid;
        p->command = t->command;
        memcpy(p->boot, d.boot, sizeof p->boot);
        p->clock = d.clock;
        p->rank = d.rank;
        p->ticks_per_ns = d.ticks_per_ns;
        mtp__ticks_sort(&d.line);
        p->line = d.line;
        d.line = (mtp__tick_line){0};
        if (p->line.count > 0)
            p->start = (mtp__anchor){p->line.point[0].ticks, (uint64_t)p->line.point[0].ns,
                                     (uint64_t)p->line.point[0].realtime, 0, 0};
    } else if (status != MTP_E_NOMEM) {
        p->problem = message(t);
        status = p->problem != 0 ? MTP_OK : MTP_E_NOMEM;
    }
    mtp__dictionary_fini(&d);
    return status;
}

/* By wall clock, which all have; those that cannot be read come last. */
static int by_start(const void *a, const void *b)
{
    const mtp__part *x = a, *y = b;
    if ((x->problem != 0) != (y->problem != 0))
        return x->problem != 0 ? 1 : -1;
    if (x->start.realtime_ns != y->start.realtime_ns)
        return x->start.realtime_ns < y->start.realtime_ns ? -1 : 1;
    return strcmp(x->path, y->path);
}

static bool has_pid(const join *j, uint64_t pid)
{
    for (uint32_t i = 0; i < j->count; i++)
        if (j->part[i].problem == 0 && j->part[i].pid == pid)
            return true;
    return false;
}

/* A copy (`mtprof recover` makes one) would count everything twice. */
static mtp_status find_copies(join *j)
{
    mtp__pair_map found = {0};
    mtp_status status = MTP_OK;
    for (uint32_t i = 0; i < j->count && status == MTP_OK; i++) {
        mtp__part *p = &j->part[i];
        bool is_new;
        char text[LABEL_ROOM + 64];
        if (p->problem != 0 || p->line.count == 0)
            continue;
        const uint64_t *first = mtp__pair_put(&found, p->pid, p->start.ticks, i, &is_new);
        if (first != NULL && !is_new) {
            int n = snprintf(text, sizeof text, "it is a copy of %.*s", LABEL_ROOM, j->part[*first].path);
            p->problem = mtp__trace_text(j->t, text, (size_t)n);
        }
        if (first == NULL || (!is_new && p->problem == 0))
            status = MTP_FAIL(MTP_E_NOMEM, "%u recordings", j->count);
    }
    mtp__pair_map_fini(&found);
    return status;
}

/* The main process comes first: the file that was named, or the first process that no other one started. */
static void put_in_order(join *j, bool named)
{
    uint32_t from = named ? 1 : 0, main_at = 0;
    if (j->count - from > 1)
        qsort(j->part + from, j->count - from, sizeof *j->part, by_start);
    while (!named && main_at < j->count && j->part[main_at].problem == 0 && j->part[main_at].parent != 0 &&
           has_pid(j, j->part[main_at].parent))
        main_at++;
    if (named || main_at == j->count || j->part[main_at].problem != 0)
        return;
    mtp__part chosen = j->part[main_at];
    memmove(j->part + 1, j->part, main_at * sizeof *j->part);
    j->part[0] = chosen;
}

/* The first recording that can be read; j->count: none. */
static uint32_t first_readable(const join *j)
{
    uint32_t i = 0;
    while (i < j->count && j->part[i].problem != 0)
        i++;
    return i;
}

/* Closes up; kept ones are at the beginning, in their order. */
static void keep_first(join *j, uint32_t kept)
{
    for (uint32_t i = kept; i < j->count; i++)
        mtp__ticks_fini(&j->part[i].line);
    j->count = kept;
}

static int by_number(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Ascending, each once; owned by the caller. */
static int64_t *ranks_of(const join *j, uint32_t *count)
{
    uint32_t found = 0;
    int64_t *rank = mtp__calloc((size_t)j->count + 1, sizeof *rank);
    *count = 0;
    if (rank == NULL)
        return NULL;
    for (uint32_t i = 0; i < j->count; i++)
        if (j->part[i].problem == 0 && j->part[i].rank >= 0)
            rank[found++] = j->part[i].rank;
    qsort(rank, found, sizeof *rank, by_number);
    for (uint32_t i = 0; i < found; i++)
        if (*count == 0 || rank[*count - 1] != rank[i])
            rank[(*count)++] = rank[i];
    return rank;
}

static mtp_status no_such_rank(const join *j, int64_t rank)
{
    char list[LABEL_ROOM] = "";
    uint32_t count;
    int64_t *known = ranks_of(j, &count);
    for (uint32_t i = 0; i < count; i++) {
        size_t n = strlen(list);
        if (n + 24 < sizeof list)
            snprintf(list + n, sizeof list - n, "%s%lld", i > 0 ? ", " : "", (long long)known[i]);
    }
    mtp__free(known);
    return count == 0 ? MTP_FAIL(MTP_E_ARG, "these recordings are not of ranks of a job")
                      : MTP_FAIL(MTP_E_ARG, "there is no rank %lld in it, but %s", (long long)rank, list);
}

/* Only the recordings of one rank: its processes inherit its number. *first: the first one is among them. */
static mtp_status choose_rank(join *j, int64_t rank, bool *first)
{
    uint32_t kept = 0;
    *first = j->count > 0 && j->part[0].problem == 0 && j->part[0].rank == rank;
    for (uint32_t i = 0; i < j->count; i++) {
        mtp__part *p = &j->part[i];
        if (p->problem != 0 || p->rank != rank)
            continue;
        mtp__part moved = *p;
        *p = j->part[kept];
        j->part[kept++] = moved;
    }
    if (kept == 0)
        return no_such_rank(j, rank);
    keep_first(j, kept);
    return MTP_OK;
}

/* Only the recordings of one process. */
static mtp_status choose(join *j, uint64_t process)
{
    uint32_t first = first_readable(j);
    if (process == MTP_PROCESS_MAIN && first < j->count)
        process = j->part[first].pid;
    uint32_t kept = 0;
    char pids[LABEL_ROOM] = "";
    for (uint32_t i = 0; i < j->count && process != 0; i++) {
        mtp__part *p = &j->part[i];
        size_t n = strlen(pids);
        if (p->problem == 0 && p->pid != process && n + 24 < sizeof pids)
            snprintf(pids + n, sizeof pids - n, "%s%llu", n > 0 ? ", " : "", (unsigned long long)p->pid);
        if (p->problem == 0 && p->pid == process) {
            mtp__part moved = *p;
            *p = j->part[kept];
            j->part[kept++] = moved;
        }
    }
    if (process != 0 && kept == 0)
        return MTP_FAIL(MTP_E_ARG, "no recording of process %llu; there are those of %s",
                        (unsigned long long)process, pids);
    if (process != 0)
        keep_first(j, kept);
    return MTP_OK;
}

static mtp_status glance_at_all(join *j, const mtp__files *files, const mtp_open_options *options)
{
    uint64_t bytes = 0;
    mtp_status status = MTP_OK;
    j->part = mtp__calloc(files->count, sizeof *j->part);
    if (j->part == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u recordings", files->count);
    for (uint32_t i = 0; status == MTP_OK && i < files->count; i++) {
        j->part[j->count].path = files->path[i];
        status = glance(j, &j->part[j->count++]);
        bytes += j->part[i].bytes;
        mtp__budget_fit(bytes);
    }
    bool named = !files->in_folder;
    if (status == MTP_OK)
        status = find_copies(j);
    if (status == MTP_OK && options->by_rank)
        status = choose_rank(j, options->rank, &named);
    if (status == MTP_OK) {
        put_in_order(j, named && !files->in_folder);
        status = choose(j, options->process);
    }
    if (status == MTP_OK) {
        uint32_t ranks;
        int64_t *rank = ranks_of(j, &ranks);
        j->of_several_ranks = ranks > 1;
        status = rank != NULL ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%u recordings", j->count);
        mtp__free(rank);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------- the sum of all */

/* The worst of two: what a reader has to know first. */
static mtp_outcome worse(mtp_outcome a, mtp_outcome b)
{
    static const uint8_t rank[] = {[MTP_OUTCOME_STOPPED] = 0,
                                   [MTP_OUTCOME_RECOVERED] = 1,
                                   [MTP_OUTCOME_NOT_STOPPED] = 2,
                                   [MTP_OUTCOME_LIVE] = 3};
    return rank[b] > rank[a] ? b : a;
}

static void add_ledger(mtp_ledger *to, const mtp_ledger *l)
{
    to->emitted += l->emitted;
    to->kept += l->kept;
    to->dropped += l->dropped;
    to->lost_definitions += l->lost_definitions;
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        to->dropped_by[k] += l->dropped_by[k];
}

static bool is_empty(const mtp_trace_info *i)
{
    return i->spans + i->memory_events + i->instants == 0;
}

static void add_info(mtp_trace_info *sum, const mtp_trace_info *i)
{
    bool extends = !is_empty(i), first = is_empty(sum);
    if (extends || first) {
        sum->first_ns = (first && extends) || i->first_ns < sum->first_ns ? i->first_ns : sum->first_ns;
        sum->last_ns = (first && extends) || i->last_ns > sum->last_ns ? i->last_ns : sum->last_ns;
    }
    sum->spans += i->spans;
    sum->cpu_spans += i->cpu_spans;
    sum->device_spans += i->device_spans;
    sum->memory_events += i->memory_events;
    sum->instants += i->instants;
    sum->tracks += i->tracks;
    sum->steps += i->steps;
    sum->model_bytes += i->model_bytes;
    sum->unmatched_ends += i->unmatched_ends;
    sum->unfinished += i->unfinished;
    sum->clock_faults += i->clock_faults;
    sum->damaged_chunks += i->damaged_chunks;
    sum->missing_chunks += i->missing_chunks;
    sum->chunks += i->chunks;
    sum->outcome = worse(sum->outcome, i->outcome);
    sum->clock_uncertain |= i->clock_uncertain;
    sum->damaged_header |= i->damaged_header;
    sum->has_ledger |= i->has_ledger;
    add_ledger(&sum->ledger, &i->ledger);
}

/* What the trace itself says is of the recording that was read last. */
static void clear_whole(mtp_trace *t)
{
    t->pid = t->parent_pid = 0;
    t->command = 0;
    t->has_ledger = t->clock_uncertain = t->damaged_header = false;
    t->ledger = (mtp_ledger)MTP_LEDGER_INIT;
    t->unmatched_ends = t->unfinished = t->clock_faults = t->damaged_chunks = t->missing_chunks = t->chunks =
        0;
    t->outcome = MTP_OUTCOME_STOPPED;
    t->first_ns = t->last_ns = 0;
}

static void set_whole(mtp_trace *t, const mtp_trace_info *sum)
{
    t->has_ledger = sum->has_ledger;
    t->ledger = sum->ledger;
    t->clock_uncertain = sum->clock_uncertain;
    t->damaged_header = sum->damaged_header;
    t->unmatched_ends = sum->unmatched_ends;
    t->unfinished = sum->unfinished;
    t->clock_faults = sum->clock_faults;
    t->damaged_chunks = sum->damaged_chunks;
    t->missing_chunks = sum->missing_chunks;
    t->chunks = sum->chunks;
    t->outcome = sum->outcome;
    t->first_ns = sum->first_ns;
    t->last_ns = sum->last_ns;
}

/* Of the recording that was just read. */
static mtp_trace_info info_of(const mtp_trace *t, uint32_t steps)
{
    mtp_trace_info i = MTP_TRACE_INFO_INIT;
    i.spans = t->builder->spans.count - t->builder->from.spans;
    for (uint32_t k = t->builder->from.tracks; k < t->track_count; k++)
        i.device_spans += t->tracks[k].on_device ? t->tracks[k].count : 0;
    i.cpu_spans = i.spans - i.device_spans;
    i.memory_events = t->memory_count - t->builder->from.memory;
    i.instants = t->instant_count - t->builder->from.instants;
    i.tracks = t->track_count - t->builder->from.tracks;
    i.steps = steps;
    i.pid = t->pid;
    i.base_ns = t->base_ns;
    i.first_ns = t->first_ns;
    i.last_ns = t->last_ns;
    i.unmatched_ends = t->unmatched_ends;
    i.unfinished = t->unfinished;
    i.clock_faults = t->clock_faults;
    i.damaged_chunks = t->damaged_chunks;
    i.missing_chunks = t->missing_chunks;
    i.chunks = t->chunks;
    i.outcome = t->outcome;
    i.clock_uncertain = t->clock_uncertain;
    i.damaged_header = t->damaged_header;
    i.has_ledger = t->has_ledger;
    i.ledger = t->ledger;
    return i;
}

static mtp_status list(join *j, const mtp__part *p, const mtp_trace_info *info)
{
    mtp_trace *t = j->t;
    mtp__joined r = {.file = mtp__trace_text(t, p->path, strlen(p->path)),
                     .command = p->command,
                     .problem = p->problem,
                     .pid = p->pid,
                     .parent = p->parent,
                     .by_wall_clock = p->by_wall_clock,
                     .info = *info};
    if (r.file == 0 || mtp__list_add(t, LIST(t, recordings), &r) == MTP__NONE)
        return MTP_FAIL(MTP_E_NOMEM, "%u recordings", j->count);
    return MTP_OK;
}

/* ----------------------------------------------------------------------------------------------- reading */

/* "python3 train.py (child of 120)" */
static uint32_t label_of(const join *j, const mtp__part *p)
{
    char text[LABEL_ROOM];
    mtp_text command = mtp__trace_get_text(j->t, p->command);
    int length = command.length < LABEL_ROOM / 2 ? (int)command.length : LABEL_ROOM / 2;
    int n = p->command != 0 ? snprintf(text, sizeof text, "%.*s", length, command.bytes)
                            : snprintf(text, sizeof text, "process %llu", (unsigned long long)p->pid);
    if (p->parent != 0 && p->parent != p->pid && has_pid(j, p->parent))
        n += snprintf(text + n, sizeof text - (size_t)n, " (child of %llu)", (unsigned long long)p->parent);
    return mtp__trace_text(j->t, text, (size_t)n);
}

/* A pid is used again by exec, in another container, or after the process has ended. */
static mtp_status set_apart(join *j, const mtp__part *p, mtp__placing *placing)
{
    char text[64];
    bool is_new;
    uint64_t *times = mtp__pair_put(&j->pids, p->pid, 0, 0, &is_new);
    if (times == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u processes", j->count);
    if (++*times > 1) {
        int n = snprintf(text, sizeof text, "%llu (%llu)", (unsigned long long)p->pid,
                         (unsigned long long)*times);
        placing->pid_text = mtp__trace_text(j->t, text, (size_t)n);
    }
    return MTP_OK;
}

/* Ids that every process counts for itself are shifted by those of the processes before it. */
static void shift_ids(join *j, uint32_t part)
{
    mtp_trace *t = j->t;
    uint64_t most = 0;
    for (uint32_t i = t->builder->from.details; i < t->detail_count; i++) {
        uint64_t *id = &t->details[i].correlation;
        *id += *id != 0 ? j->correlations : 0;
        most = *id > most ? *id : most;
    }
    j->correlations = most > j->correlations ? most : j->correlations;
    most = 0;
    for (uint32_t i = t->builder->from.tensors; i < t->tensor_count; i++) {
        uint64_t *id = &t->tensors[i].number;
        *id += *id != 0 ? j->tensors : 0;
        most = *id > most ? *id : most;
        t->tensors[i].part = part;
    }
    j->tensors = most > j->tensors ? most : j->tensors;
}

/* The main process's metadata hold; others only add keys that it has not. Several ranks are none as a whole. */
static void merge_metadata(join *j)
{
    mtp_trace *t = j->t;
    mtp__meta *own = t->metadata;
    uint32_t own_count = t->metadata_count;
    t->metadata = j->metadata;
    t->metadata_count = j->metadata_count;
    for (uint32_t i = 0; i < own_count; i++) {
        uint32_t k = 0;
        if (j->of_several_ranks && MTP__EQUALS(mtp__trace_get_text(t, own[i].key), "distributedInfo"))
            continue;
        while (k < t->metadata_count && t->metadata[k].key != own[i].key)
            k++;
        if (k == t->metadata_count)
            mtp__list_add(t, LIST(t, metadata), &own[i]);
        else if (k >= j->metadata_count) /* set twice: the last one holds */
            t->metadata[k] = own[i];
    }
    mtp__free(own);
    j->metadata = NULL;
    j->metadata_count = 0;
}

static void begin_part(join *j)
{
    mtp_trace *t = j->t;
    clear_whole(t);
    j->metadata = t->metadata;
    j->metadata_count = t->metadata_count;
    t->metadata = NULL;
    t->metadata_count = 0;
    t->builder->from.spans = t->builder->spans.count;
    t->builder->from.tracks = t->track_count;
    t->builder->from.memory = t->memory_count;
    t->builder->from.instants = t->instant_count;
    t->builder->from.details = t->detail_count;
    t->builder->from.tensors = t->tensor_count;
}

/* The same without events: the file is read by itself, and its times are shifted. */
static mtp_status count_part(join *j, uint32_t number, mtp__part *p)
{
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    mtp__tally tally = {0};
    mtp_trace *t = NULL;
    mtp_status status = mtp__open_spool(p->path, &tally, &t);
    if (status == MTP_OK) {
        mtp_trace_get_info(t, &info);
        mtp__tally_add(&tally, &info);
        info.steps = number == 0 ? info.steps : 0;
        info.first_ns += t->zero_ns - p->zero_ns;
        info.last_ns += t->zero_ns - p->zero_ns;
        info.base_ns = j->line.point[0].realtime;
        add_info(&j->sum, &info);
    } else if (status != MTP_E_NOMEM) {
        p->problem = message(j->t);
        status = p->problem != 0 ? MTP_OK : MTP_E_NOMEM;
    }
    mtp_trace_destroy(t);
    return status == MTP_OK ? list(j, p, &info) : status;
}

static mtp_status read_part(join *j, uint32_t number, mtp__part *p)
{
    mtp_trace *t = j->t;
    uint32_t steps = t->step_count;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    mtp__placing placing = {.part = number,
                            .label = label_of(j, p),
                            .line = p->in_line ? &j->line : NULL,
                            .zero_ns = p->zero_ns,
                            .symbols = &j->symbols};
    mtp_status status = set_apart(j, p, &placing);
    if (status != MTP_OK)
        return status;
    begin_part(j);
    status = mtp__trace_add_spool(t, p->path, &placing);
    if (status == MTP_OK) {
        shift_ids(j, number);
        info = info_of(t, t->step_count - steps);
        add_info(&j->sum, &info);
    } else if (status != MTP_E_NOMEM) { /* it was readable a moment ago */
        p->problem = message(t);
        status = p->problem != 0 ? MTP_OK : MTP_E_NOMEM;
    }
    merge_metadata(j);
    return status == MTP_OK ? list(j, p, &info) : status;
}

static void finish_whole(join *j, const mtp__part *head, bool counted)
{
    mtp_trace *t = j->t;
    set_whole(t, &j->sum);
    t->base_ns = j->line.count > 0 ? j->line.point[0].realtime : 0;
    t->zero_ns = j->line.zero_ns;
    t->pid = head->pid;
    t->parent_pid = head->parent;
    t->command = head->command;
    t->counted = counted;
    t->counts = j->sum;
    t->counts.base_ns = t->base_ns;
    t->counts.pid = t->pid;
}

static mtp_status read_all(join *j, const mtp_open_options *options, uint32_t first)
{
    static const mtp_trace_info none = MTP_TRACE_INFO_INIT;
    uint64_t done = 0, all = 0;
    mtp_status status = MTP_OK;
    for (uint32_t i = 0; i < j->count; i++)
        all += j->part[i].bytes;
    for (uint32_t i = 0; status == MTP_OK && i < j->count; i++) {
        mtp__part *p = &j->part[i];
        status = p->problem != 0       ? list(j, p, &none)
                 : options->count_only ? count_part(j, i - first, p)
                                       : read_part(j, i - first, p);
        done += p->bytes;
        if (options->progress != NULL)
            options->progress(options->user, done, all);
    }
    if (status == MTP_OK)
        finish_whole(j, &j->part[first], options->count_only);
    return status;
}

static void fini(join *j)
{
    for (uint32_t i = 0; i < j->count; i++)
        mtp__ticks_fini(&j->part[i].line);
    mtp__ticks_fini(&j->line);
    mtp__symbols_fini(&j->symbols);
    mtp__pair_map_fini(&j->pids);
    mtp__free(j->metadata);
    mtp__free(j->part);
}

static mtp_status open_all(join *j, const mtp__files *files, const mtp_open_options *options)
{
    mtp_status status = glance_at_all(j, files, options);
    if (status != MTP_OK)
        return status;
    uint32_t first = first_readable(j);
    if (first == j->count) {
        mtp_text why = mtp__trace_get_text(j->t, j->part[0].problem);
        return MTP_FAIL(MTP_E_FORMAT, "%s: %.*s", j->part[0].path, (int)why.length, why.bytes);
    }
    if (!mtp__join_clocks(j->part, j->count, first, &j->line))
        return MTP_FAIL(MTP_E_NOMEM, "the clocks of %u recordings", j->count);
    return read_all(j, options, first);
}

mtp_status mtp__join_open(const mtp__files *files, const mtp_open_options *options, mtp_trace **out)
{
    join j = {.sum = MTP_TRACE_INFO_INIT};
    mtp_status status = mtp__trace_create(&j.t);
    if (status == MTP_OK)
        status = open_all(&j, files, options);
    fini(&j);
    if (status != MTP_OK) {
        mtp_trace_destroy(j.t);
        return status;
    }
    j.t->builder->in_order = true;
    status = mtp__trace_finish(j.t);
    *out = status == MTP_OK ? j.t : NULL;
    return status;
}

/* ------------------------------------------------------------------------------------------------- ranks */

typedef mtp_status glancer(const join *j, void *out);

static mtp_status with_glances(const mtp__files *files, const mtp_open_options *options, glancer *use,
                               void *out)
{
    join j = {.sum = MTP_TRACE_INFO_INIT};
    mtp_status status = mtp__trace_create(&j.t);
    if (status == MTP_OK)
        status = glance_at_all(&j, files, options);
    if (status == MTP_OK)
        status = use(&j, out);
    fini(&j);
    mtp_trace_destroy(j.t);
    return status;
}

typedef struct rank_list {
    int64_t *rank;
    uint32_t count;
} rank_list;

static mtp_status take_ranks(const join *j, void *out)
{
    rank_list *list = out;
    list->rank = ranks_of(j, &list->count);
    return list->rank != NULL ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%u recordings", j->count);
}

mtp_status mtp__join_ranks(const mtp__files *files, int64_t **ranks, uint32_t *count)
{
    const mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    rank_list list = {0};
    mtp_status status = with_glances(files, &options, take_ranks, &list);
    if (list.count < 2) {
        mtp__free(list.rank);
        list = (rank_list){0};
    }
    *ranks = list.rank;
    *count = list.count;
    return status;
}

static mtp_status take_files(const join *j, void *out)
{
    mtp__files *files = out;
    mtp_status status = MTP_OK;
    for (uint32_t i = 0; i < j->count && status == MTP_OK; i++)
        status = mtp__files_add(files, j->part[i].path);
    return status;
}

mtp_status mtp__join_files_of_rank(const mtp__files *files, int64_t rank, mtp__files *out)
{
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    options.by_rank = true;
    options.rank = rank;
    *out = (mtp__files){.is_spool = true};
    return with_glances(files, &options, take_files, out);
}
