/* cli/report.c - mtprof report: an HTML page of a trace, of two that are compared, or of the ranks of a job. */
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: mtprof report TRACE [TRACE2] [-o OUT.html]\n"
    "       mtprof report JOB.mtp [-o OUT.html]\n"
    "       mtprof report --ranks FOLDER | FILES [-o OUT.html]\n\n"
    "Writes a page that any browser opens, offline: where the time goes, a timeline of all threads and\n"
    "devices, operators, flame graph, modules, memory. With two traces it also shows what changed from\n"
    "the first to the second. The page holds all data in one file, and loads nothing.\n\n"
    "Of a job of several ranks, as 'mtprof merge' and 'mtprof run -- torchrun ...' write it, the page\n"
    "compares all ranks: who is late, since which step, and why. Its other pages are of a typical rank\n"
    "and of the straggler; if there is none, of the first rank; with --rank N, of that one.\n\n"
    "  -o, --output OUT       the file to write; default: TRACE's name with .html, here\n"
    "      --ranks            the traces are of the ranks of one job: folders, and any number of files\n"
    "      --max-spans N      of a trace with more, the shortest are left out, and the page says so;\n"
    "                         default 6000000\n" CLI_COMMON_HELP "\n"
    "  mtprof report run.mtp\n"
    "  mtprof report before.json.gz after.json.gz -o what-changed.html\n"
    "  mtprof report --ranks traces/ -o job.html\n"
    "  mtprof cut --step 5-9 run.mtp -o part.json.gz && mtprof report part.json.gz\n";

void cli_report_name(const char *trace, char *to, size_t room)
{
    static const char *const suffixes[] = {".gz", ".zst", ".json", ".trace", ".pt", ".mtp"};
    snprintf(to, room - 6, "%s", strcmp(trace, "-") == 0 ? "report" : trace);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (cli_ends(to, suffixes[i]) && strlen(to) > strlen(suffixes[i]) &&
            to[strlen(to) - strlen(suffixes[i]) - 1] != '/')
            to[strlen(to) - strlen(suffixes[i])] = 0;
    while (strlen(to) > 1 && cli_ends(to, "/"))
        to[strlen(to) - 1] = 0;
    strcat(to, ".html");
}

/* A page of somebody else may have the name that ours would get. */
bool cli_report_may_replace(const char *path)
{
    char head[2048];
    struct stat st;
    FILE *file = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    if (file == NULL)
        return stat(path, &st) != 0;
    size_t length = fread(head, 1, sizeof head - 1, file);
    fclose(file);
    head[length] = 0;
    return length == 0 || strstr(head, "<title>mtprof report</title>") != NULL;
}

static void print_done(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        printf("wrote %s (%.1f MB)\n", path, (double)st.st_size / 1e6);
}

static int write_traces(mtp_trace *const *traces, size_t count, const char *output,
                        const mtp_report_options *options)
{
    mtp_status status = mtp_export_report((const mtp_trace *const *)traces, count, output, options);
    if (status != MTP_OK)
        return status == MTP_E_IO ? cli_fail_output() : cli_fail_status(status);
    if (strcmp(output, "-") != 0)
        print_done(output);
    return CLI_OK;
}

static int write_report(char **paths, size_t count, const char *output, mtp_report_options *options)
{
    mtp_trace *traces[2] = {NULL, NULL};
    int code = CLI_OK;
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        traces[i] = cli_open(paths[i], &code);
    options->names = (const char *const *)paths;
    if (code == CLI_OK)
        code = write_traces(traces, count, output, options);
    for (size_t i = 0; i < count; i++)
        mtp_trace_destroy(traces[i]);
    return code;
}

/* --------------------------------------------------------------------------------------------------- ranks */

/* What mtprof merge wrote, or mtprof run of a program that started several ranks. */
static bool is_of_ranks(const char *path)
{
    size_t count = 0;
    int64_t chosen = cli_chosen_rank();
    if (cli_chosen_process() != 0)
        return false;
    cli_use_rank(-1); /* one that is chosen is shown beside all of them */
    free(cli_ranks_of(path, &count));
    cli_use_rank(chosen);
    return count > 1;
}

/* Those that are compared come first. */
static size_t count_compared(const mtp_ranks *ranks)
{
    const mtp_rank_row *row;
    size_t count = 0;
    while ((row = mtp_ranks_row(ranks, count)) != NULL && *row->problem == 0)
        count++;
    return count;
}

static const mtp_rank_row *find_rank(const mtp_ranks *ranks, int64_t rank)
{
    for (size_t i = 0, count = count_compared(ranks); i < count; i++)
        if (mtp_ranks_row(ranks, i)->rank == rank)
            return mtp_ranks_row(ranks, i);
    return NULL;
}

static const mtp_rank_row *find_straggler(const mtp_ranks *ranks)
{
    for (size_t i = 0; i < mtp_ranks_finding_count(ranks); i++)
        if (strcmp(mtp_ranks_finding(ranks, i)->id, "straggler") == 0)
            return find_rank(ranks, mtp_ranks_finding(ranks, i)->rank);
    return NULL;
}

static bool is_less_late(const mtp_rank_row *a, const mtp_rank_row *b)
{
    return a->mean.late_ns != b->mean.late_ns ? a->mean.late_ns < b->mean.late_ns : a->rank < b->rank;
}

/* Of the others, the one with the median lateness. */
static const mtp_rank_row *find_typical(const mtp_ranks *ranks, const mtp_rank_row *but)
{
    size_t count = count_compared(ranks);
    for (size_t i = 0; i < count; i++) {
        const mtp_rank_row *row = mtp_ranks_row(ranks, i);
        size_t before = 0;
        for (size_t k = 0; k < count; k++) {
            const mtp_rank_row *other = mtp_ranks_row(ranks, k);
            before += other != but && is_less_late(other, row);
        }
        if (row != but && before == (count - 2) / 2)
            return row;
    }
    return NULL;
}

typedef struct shown { /* ranks whose traces the page has */
    const mtp_rank_row *row[2];
    mtp_trace *trace[2];
    char name[2][PATH_MAX + 32];
    size_t count;
} shown;

/* false: the reason was printed. */
static bool choose_shown(const mtp_ranks *ranks, shown *s)
{
    const mtp_rank_row *straggler = find_straggler(ranks);
    s->row[0] = mtp_ranks_row(ranks, 0);
    s->count = 1;
    if (cli_has_chosen_rank()) {
        s->row[0] = find_rank(ranks, cli_chosen_rank());
        if (s->row[0] == NULL)
            cli_fail(CLI_USAGE,
                     "--rank %lld: there is no such rank that can be compared ('mtprof ranks' lists them)",
                     (long long)cli_chosen_rank());
    } else if (straggler != NULL && count_compared(ranks) > 1) {
        s->row[0] = find_typical(ranks, straggler);
        s->row[1] = straggler;
        s->count = 2;
    }
    return s->row[0] != NULL;
}

static bool shares_its_file(const mtp_ranks *ranks, const mtp_rank_row *row)
{
    for (size_t i = 0; i < mtp_ranks_count(ranks); i++)
        if (mtp_ranks_row(ranks, i) != row && strcmp(mtp_ranks_row(ranks, i)->file, row->file) == 0)
            return true;
    return false;
}

static void say_shown(const mtp_ranks *ranks, const shown *s)
{
    printf("  %zu ranks are compared; the other pages are of rank %lld", count_compared(ranks),
           (long long)s->row[0]->rank);
    if (s->count > 1)
        printf(", a typical one, and of rank %lld, the straggler", (long long)s->row[1]->rank);
    putchar('\n');
}

static int write_shown(const mtp_ranks *ranks, const char *output, mtp_report_options *options)
{
    shown *s = calloc(1, sizeof *s);
    const char *names[2];
    int code = s == NULL                ? cli_fail(CLI_MEMORY, "not enough memory")
               : choose_shown(ranks, s) ? CLI_OK
                                        : CLI_USAGE;
    for (size_t i = 0; code == CLI_OK && i < s->count; i++) {
        const mtp_rank_row *row = s->row[i];
        const char *slash = strrchr(row->file, '/');
        snprintf(s->name[i], sizeof s->name[i], "rank %lld (%s)", (long long)row->rank,
                 slash != NULL && slash[1] != 0 ? slash + 1 : row->file);
        names[i] = s->name[i];
        cli_use_rank(shares_its_file(ranks, row) ? row->rank : -1);
        s->trace[i] = cli_open(row->file, &code);
    }
    options->names = names;
    if (code == CLI_OK)
        code = write_traces(s->trace, s->count, output, options);
    if (code == CLI_OK && options->ranks != NULL && strcmp(output, "-") != 0)
        say_shown(ranks, s);
    for (size_t i = 0; s != NULL && i < s->count; i++)
        mtp_trace_destroy(s->trace[i]);
    free(s);
    return code;
}

/* The ranks' own words for why there is nothing to compare. insists: that is an error. */
static int say_why_not(const mtp_ranks *ranks, bool insists)
{
    const char *note;
    for (size_t i = 0; (note = mtp_ranks_note(ranks, i)) != NULL; i++)
        cli_warn("%s", note);
    return insists ? cli_fail(CLI_INPUT, "fewer than two ranks can be compared") : CLI_OK;
}

static int write_ranks(char **paths, int count, const char *output, bool insists, mtp_report_options *options)
{
    mtp_ranks *ranks = NULL;
    int code = cli_ranks_open(paths, count, 0, &ranks);
    if (code == CLI_OK && count_compared(ranks) < 2)
        code = say_why_not(ranks, insists);
    else
        options->ranks = ranks;
    if (code == CLI_OK)
        code = write_shown(ranks, output, options);
    mtp_ranks_destroy(ranks);
    return code;
}

/* --------------------------------------------------------------------------------------------------- verb */

static bool ends_in_html(const char *path)
{
    return strcmp(path, "-") == 0 || cli_ends(path, ".html") || cli_ends(path, ".htm") ||
           cli_ends(path, ".html.gz");
}

/* The name that the page gets where none is given. */
static void default_name(const char *path, bool several, char *to, size_t room)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL && slash[1] != 0 ? slash + 1 : path;
    bool is_nameless = strspn(name, "./") == strlen(name);
    cli_report_name(several || is_nameless ? "ranks" : name, to, room);
}

int cli_report(int argc, char **argv)
{
    enum {
        MAX_SPANS = 256,
        RANKS
    };
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"max-spans", required_argument, NULL, MAX_SPANS},
                                            {"ranks", no_argument, NULL, RANKS},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    mtp_report_options report = MTP_REPORT_OPTIONS_INIT;
    const char *output = NULL;
    char name[4096];
    bool ranks = false;
    int64_t most;
    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'o')
            output = optarg;
        else if (c == RANKS)
            ranks = true;
        else if (c == MAX_SPANS && cli_parse_count(optarg, &most) && most > 0)
            report.max_spans = (uint64_t)most;
        else if (c == MAX_SPANS)
            return cli_fail(CLI_USAGE, "'%s' is not a number of spans", optarg);
        else
            return cli_usage_error();
    }
    int count = argc - optind;
    if (count < 1 || (count > 2 && !ranks))
        return cli_fail(CLI_USAGE, "expected one trace, or two to compare: 'mtprof report TRACE [TRACE2]'%s",
                        count > 2 ? "; of the ranks of a job any number, with --ranks" : "");
    if (output != NULL && !ends_in_html(output))
        return cli_fail(CLI_USAGE, "'%s' must end in .html", output);
    if (output == NULL) {
        default_name(argv[optind], count > 1 && ranks, name, sizeof name);
        output = name;
        if (!cli_report_may_replace(name))
            return cli_fail(CLI_OUTPUT, "%s is there, and is no report: name the output with -o", name);
    }
    if (ranks || (count == 1 && is_of_ranks(argv[optind])))
        return write_ranks(argv + optind, count, output, ranks, &report);
    return write_report(argv + optind, (size_t)count, output, &report);
}
