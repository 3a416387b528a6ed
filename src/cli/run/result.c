/* cli/run/result.c - after the program: what its processes recorded becomes one trace, and is shown.
 *
 * Everything goes to stderr: the program's output may be read by another program.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/run/run.h"

enum {
    ROWS = 15,
    COMMAND_ROOM = 44, /* of the command line as it is shown */
    WAITS = 100,       /* of WAIT_NS, for what ends with the program */
    WAIT_NS = 5000000
};

typedef struct spool {
    char path[PATH_MAX];
    mtp_trace_info info;
    bool readable, live;
} spool;

typedef struct found {
    spool *spool; /* owned */
    size_t count, room;
    uint64_t bytes, live;
    mtp_ledger lost; /* sums */
    bool is_gone;    /* the folder: somebody removed it */
    int waits;       /* so far */
} found;

static bool is_empty(const spool *s)
{
    const mtp_trace_info *i = &s->info;
    return s->readable && i->spans == 0 && i->memory_events == 0 && i->instants == 0 && i->flows == 0;
}

/* What ends because the program has ended, such as the resource tracker of multiprocessing, does so a moment later. All
 * together are given half a second; a daemon does not end. */
static bool stays_live(found *f, const char *path)
{
    const struct timespec moment = {.tv_nsec = WAIT_NS};
    bool live;
    while ((live = run_is_live(path)) && f->waits < WAITS) {
        nanosleep(&moment, NULL);
        f->waits++;
    }
    return live;
}

static void add(found *f, const char *folder, const char *name)
{
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    if (f->count == f->room) {
        size_t room = f->room > 0 ? 2 * f->room : 16;
        spool *grown = realloc(f->spool, room * sizeof *grown);
        if (grown == NULL)
            return;
        f->spool = grown;
        f->room = room;
    }
    spool *s = &f->spool[f->count];
    *s = (spool){.info = MTP_TRACE_INFO_INIT};
    if (snprintf(s->path, sizeof s->path, "%s/%s", folder, name) >= (int)sizeof s->path)
        return;
    s->live = stays_live(f, s->path);
    s->readable = mtp_trace_file_info(s->path, &options, &s->info) == MTP_OK;
    if (is_empty(s) && !s->live)
        unlink(s->path);
    else
        f->count++;
}

static int by_start(const void *a, const void *b)
{
    const mtp_trace_info *x = &((const spool *)a)->info, *y = &((const spool *)b)->info;
    int64_t first = x->base_ns + x->first_ns, second = y->base_ns + y->first_ns;
    return (first > second) - (first < second);
}

static void look(found *f, const char *path)
{
    struct dirent *entry;
    DIR *folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (cli_ends(entry->d_name, ".mtp"))
            add(f, path, entry->d_name);
    f->is_gone = folder == NULL && errno == ENOENT;
    if (folder != NULL)
        closedir(folder);
    if (f->count > 0)
        qsort(f->spool, f->count, sizeof *f->spool, by_start);
    for (size_t i = 0; i < f->count; i++) {
        struct stat st;
        const mtp_ledger *l = &f->spool[i].info.ledger;
        f->bytes += stat(f->spool[i].path, &st) == 0 ? (uint64_t)st.st_size : 0;
        f->live += f->spool[i].live;
        f->lost.emitted += l->emitted;
        f->lost.lost_definitions += l->lost_definitions;
        for (int k = 0; k < MTP_DROP_CAUSES; k++)
            f->lost.dropped_by[k] += l->dropped_by[k];
    }
}

/* The first process that recorded something, unless it still does: the program itself, if it did. Of the programs that
 * it was one after another (env, a wrapper that ends in exec), the last. */
static spool *first_of(const found *f, pid_t pid)
{
    spool *first = NULL;
    for (size_t i = 0; i < f->count; i++) {
        spool *s = &f->spool[i];
        if (s->live || !s->readable)
            continue;
        if (first == NULL || s->info.pid == (uint64_t)pid)
            first = s;
    }
    return first;
}

/* ------------------------------------------------------------------------------------------------------ telling */

/* "python3 train.py --lr 0.1", shortened: the program without its folder, and the beginning of its arguments. */
static void name_command(char **argv, char text[COMMAND_ROOM])
{
    const char *slash = strrchr(argv[0], '/');
    size_t n = (size_t)snprintf(text, COMMAND_ROOM, "%s", slash != NULL ? slash + 1 : argv[0]);
    for (int i = 1; argv[i] != NULL && n < COMMAND_ROOM; i++)
        n += (size_t)snprintf(text + n, COMMAND_ROOM - n, " %s", argv[i]);
    size_t shown = strcspn(text, "\n\r");
    if (n >= COMMAND_ROOM || text[shown] != 0) {
        shown = shown < COMMAND_ROOM - 4 ? shown : COMMAND_ROOM - 4;
        while (shown > 0 && ((unsigned char)text[shown] & 0xc0) == 0x80) /* inside a character */
            shown--;
        memcpy(text + shown, "...", 4);
    }
    run_hide_controls(text);
}

static void tell_end(const run_options *o, const run_ended *ended, const found *f)
{
    char how[64] = "", about[96] = "nothing was recorded", command[COMMAND_ROOM];
    if (WIFSIGNALED(ended->status))
        snprintf(how, sizeof how, ", ended by %s", strsignal(WTERMSIG(ended->status)));
    else if (WEXITSTATUS(ended->status) != 0)
        snprintf(how, sizeof how, ", exit status %d", WEXITSTATUS(ended->status));
    uint64_t events = 0;
    for (size_t i = 0; i < f->count; i++)
        events += f->spool[i].info.spans + f->spool[i].info.memory_events + f->spool[i].info.instants;
    if (f->count > 0)
        snprintf(about, sizeof about, "%llu event%s of %zu process%s", (unsigned long long)events,
                 events == 1 ? "" : "s", f->count, f->count == 1 ? "" : "es");
    else if (f->is_gone)
        snprintf(about, sizeof about, "nothing is left: the folder was removed meanwhile");
    else if (ended->seconds * 1e9 < (double)o->delay_ns)
        snprintf(about, sizeof about, "nothing was recorded: it ended before --delay was over");
    name_command(o->program, command);
    fprintf(stderr, "%smtprof run: %s%s: %.3f s%s, %s\n", cli_bold(stderr), command, cli_plain(stderr),
            ended->seconds, how, about);
}

static void tell_losses(const found *f)
{
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        if (f->lost.dropped_by[k] > 0)
            cli_note("%llu of %llu records are missing: %s", (unsigned long long)f->lost.dropped_by[k],
                     (unsigned long long)f->lost.emitted,
                     k == MTP_DROP_BUDGET ? "the memory was too small for them; see --budget"
                                          : mtp_drop_text((mtp_drop)k));
    if (f->lost.lost_definitions > 0)
        cli_note("%llu names, shapes or stacks are missing: shown as \"?\"",
                 (unsigned long long)f->lost.lost_definitions);
    for (size_t i = 0; i < f->count; i++)
        if (f->spool[i].live)
            cli_note("process %llu is still running, and recording into %s",
                     (unsigned long long)f->spool[i].info.pid, f->spool[i].path);
        else if (!f->spool[i].readable)
            cli_note("%s cannot be read: 'mtprof check' says why", f->spool[i].path);
}

/* By self CPU time. Python functions are rows where nothing else is. */
bool run_table(const mtp_trace *trace, FILE *to)
{
    mtp_averages_options group = MTP_AVERAGES_OPTIONS_INIT;
    mtp_table_options table = MTP_TABLE_OPTIONS_INIT;
    mtp_averages *averages = NULL;
    table.sort_by = "self_cpu_time_total";
    table.row_limit = ROWS;
    table.max_line_width = cli_columns(to) > 0 ? cli_columns(to) : -1;
    mtp_status status = mtp_averages_create(trace, &group, &averages);
    bool of_python =
        status == MTP_OK && mtp_averages_count(averages) == 0 && mtp_averages_left_out(averages) > 0;
    if (of_python) {
        mtp_averages_destroy(averages);
        averages = NULL;
        group.include_python_functions = true;
        status = mtp_averages_create(trace, &group, &averages);
    }
    if (status == MTP_OK && mtp_averages_count(averages) > 0)
        status = mtp_averages_table(averages, &table, mtp_sink_file, to);
    if (status != MTP_OK)
        cli_fail_status(status);
    mtp_averages_destroy(averages);
    return of_python;
}

/* Do other verbs read it? Of the formats with other suffixes, only the numbers in them are left. */
static bool is_trace(const char *path)
{
    static const char *const results[] = {".et.json", ".memory.json", ".memory.raw.json", ".averages.json"};
    char plain[PATH_MAX];
    snprintf(plain, sizeof plain, "%.*s", (int)(strlen(path) - (cli_ends(path, ".gz") ? 3 : 0)), path);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (cli_ends(plain, results[i]))
            return false;
    return cli_ends(plain, ".mtp") || cli_ends(plain, ".json");
}

static bool count_rank(void *user, int64_t rank)
{
    (void)rank;
    ++*(size_t *)user;
    return true;
}

/* That it is of; 0: of fewer than two. */
static size_t count_ranks(const char *out)
{
    size_t count = 0;
    mtp_recording_ranks(out, count_rank, &count);
    return count;
}

/* A command to be pasted. */
static void tell_command(const char *before, const char *out, const char *after)
{
    fprintf(stderr, "mtprof %s ", before);
    cli_print_argument(stderr, out);
    fprintf(stderr, "%s\n", after);
}

static void tell_report(const char *report)
{
    struct stat st;
    if (report[0] != 0 && stat(report, &st) == 0)
        fprintf(stderr, "report   %s (%.1f MB; opens in a browser)\n", report, (double)st.st_size / 1e6);
}

static void tell_files(const run_options *o, const run_place *place, const found *f, bool of_python,
                       const char *report)
{
    struct stat st;
    char json[PATH_MAX];
    const char *out = place->shown;
    double size = stat(out, &st) == 0 ? (double)st.st_size / 1e6 : 0;
    bool is_spool = cli_ends(out, ".mtp"), steps = false, memory = false;
    size_t others = is_spool ? f->count - 1 : 0, ranks = 0;
    fprintf(stderr, "written  %s (%.1f MB)", out, size);
    if (others > 0)
        fprintf(stderr, " and %s.workers/ (%zu more process%s, %.1f MB)", out, others,
                others == 1 ? "" : "es", (double)f->bytes / 1e6 - size);
    if (o->facts.rank == 0)
        fprintf(stderr, "; the other %d ranks write beside it", o->facts.world - 1);
    fputc('\n', stderr);
    if (!is_trace(out))
        return;
    tell_report(report);
    for (size_t i = 0; i < f->count; i++) {
        steps |= f->spool[i].info.steps > 2; /* every recording has one */
        memory |= f->spool[i].info.memory_events > 0;
    }
    fputs("more     ", stderr);
    tell_command(of_python ? "table --sort self_cpu_time_total --python-functions"
                           : "table --sort self_cpu_time_total",
                 out, "");
    if (steps) {
        fputs("         ", stderr);
        tell_command("steps", out, "   # time per training step, and idle time");
    }
    if (memory) {
        fputs("         ", stderr);
        tell_command("memory", out, "   # over time, and what was alive at the peak");
    }
    if (others > 0)
        ranks = count_ranks(out);
    if (ranks > 0) {
        fputs("         ", stderr);
        tell_command("ranks", out, "   # which rank is late, and why");
    }
    if (!is_spool)
        return;
    snprintf(json, sizeof json, "%.*s.json.gz", (int)(strlen(out) - 4), out);
    fputs("         mtprof export ", stderr);
    cli_print_argument(stderr, out);
    fputs(" -o ", stderr);
    cli_print_argument(stderr, json);
    fputs("   # for ui.perfetto.dev\n", stderr);
}

/* ----------------------------------------------------------------------------------------------------- the files */

/* The program's own recording gets the name OUT; false: the reason was printed. */
static bool name_it(const run_place *place, const spool *first)
{
    if (rename(first->path, place->out) == 0)
        return true;
    cli_fail(CLI_OUTPUT, "%s: cannot be created: %s; the recording is in %s", place->out, mtp__reason(errno),
             first->path);
    return false;
}

/* As the format of its suffix; the recordings are deleted then. */
static bool convert(const run_place *place, const mtp_trace *trace, const char *from)
{
    if (mtp_trace_export(trace, place->out, NULL) == MTP_OK)
        return true;
    cli_fail(CLI_OUTPUT, "%s; the recording is in %s", mtp_last_error(), from);
    return false;
}

/* Beside the output; "": none was written. A page of somebody else is not replaced, and failing is no error: the recording
 * is there. */
static void write_report(const run_options *o, const run_place *place, const mtp_trace *trace,
                         char report[PATH_MAX])
{
    mtp_report_options options = MTP_REPORT_OPTIONS_INIT;
    report[0] = 0;
    if (o->no_report || trace == NULL || !is_trace(place->shown))
        return;
    cli_report_name(place->shown, report, PATH_MAX);
    options.names = &place->shown;
    mtp_ranks *ranks = NULL;
    if (count_ranks(place->shown) > 0 && mtp_ranks_create(&place->shown, 1, NULL, &ranks) == MTP_OK)
        options.ranks = ranks;
    if (!cli_report_may_replace(report)) {
        cli_note("%s is there, and is no report: 'mtprof report' can write another", report);
        report[0] = 0;
    } else if (mtp_export_report(&trace, 1, report, &options) != MTP_OK) {
        cli_note("no report: %s", mtp_last_error());
        report[0] = 0;
    }
    mtp_ranks_destroy(ranks);
}

static void delete_spools(const found *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (!f->spool[i].live && f->spool[i].readable)
            unlink(f->spool[i].path);
}

void run_result(const run_options *o, run_place *place, const run_ended *ended)
{
    found f = {.spool = NULL};
    char report[PATH_MAX];
    int code;
    look(&f, place->folder);
    spool *first = first_of(&f, ended->pid);
    bool is_spool = cli_ends(place->out, ".mtp"), of_python = false;
    bool quiet = o->facts.rank > 0;                             /* one of many ranks: rank 0 prints */
    const char *from = is_spool ? place->shown : place->folder; /* all of its processes */
    if (!quiet)
        fputc('\n', stderr);
    if (first != NULL && (!is_spool || name_it(place, first))) {
        mtp_trace *trace = quiet && is_spool ? NULL : cli_open(from, &code);
        if (trace != NULL && !quiet)
            of_python = run_table(trace, stderr);
        bool good = is_spool || (trace != NULL && convert(place, trace, place->folder));
        write_report(o, place, good && !quiet ? trace : NULL, report);
        mtp_trace_destroy(trace);
        if (good)
            run_place_forget(place);
        if (good && !is_spool)
            delete_spools(&f);
        if (!quiet || ended->status != 0)
            tell_end(o, ended, &f);
        if (good && !quiet)
            tell_files(o, place, &f, of_python, report);
    } else {
        tell_end(o, ended, &f);
        if (first == NULL && f.live == 0)
            run_place_restore(place);
    }
    tell_losses(&f);
    free(f.spool);
}
