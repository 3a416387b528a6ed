/* cli/check.c - mtprof check: does a trace follow the rules that its readers depend on? */
#include <string.h>
#include "cli/cli.h"

static const char help[] =
    "usage: mtprof check [--json] TRACE\n\n"
    "Checks the file itself and reports each rule that it breaks: how often, where first, and what that\n"
    "does to which viewer. The rules are those of docs/trace-format.md. PyTorch's own files break some;\n"
    "'mtprof export' writes the same trace without the faults. In a spool (.mtp) it checks checksums,\n"
    "definitions and the ledger. Remarks are good to know, but break no rule. Of a folder, or a spool\n"
    "with others in TRACE.workers/, each file is checked.\n\n"
    "      --json             the findings as JSON; of several files, a list with their names\n"
    "  -o, --output FILE      write --json to FILE\n" CLI_MEMORY_HELP "\n"
    "Exit code: 0 clean (a recovered spool is, too), 1 rules are broken, 2 wrong usage, 3 bad input,\n"
    "5 not enough memory.\n\n"
    "  mtprof check trace.json.gz\n";

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    if (total > 0 && cli_shows_progress(total))
        fprintf(stderr, "\rchecking %3.0f%%", 100.0 * (double)done / (double)total);
}

static void print_finding(const mtp_finding *f)
{
    static const char *const called[] = {
        [MTP_SEVERITY_NOTE] = "note", [MTP_SEVERITY_ERROR] = "error", [MTP_SEVERITY_REMARK] = "remark"};
    const char *colour = f->severity == MTP_SEVERITY_ERROR  ? cli_red(stdout)
                         : f->severity == MTP_SEVERITY_NOTE ? cli_bold(stdout)
                                                            : cli_dim(stdout);
    printf("%s%s%s: ", colour, called[f->severity], cli_plain(stdout));
    if (f->rule != 0)
        printf("rule %u: ", f->rule);
    fputs(f->what, stdout);
    if (f->count > 1)
        printf(", %llu times, first", (unsigned long long)f->count);
    else
        putchar(',');
    printf(" at byte %llu", (unsigned long long)f->first_byte);
    if (f->first_event != UINT64_MAX)
        printf(" (event %llu)", (unsigned long long)f->first_event);
    printf("\n    %s%s%s\n", cli_dim(stdout), f->effect, cli_plain(stdout));
}

static int print_check(const mtp_check *check, const char *path)
{
    size_t count = mtp_check_count(check), breaches = mtp_check_breaches(check), errors = 0;
    for (size_t i = 0; i < count; i++) {
        const mtp_finding *f = mtp_check_finding(check, i);
        errors += f->severity == MTP_SEVERITY_ERROR;
        print_finding(f);
    }
    if (breaches == 0)
        printf("%sclean%s%s: %llu events\n", cli_green(stdout), cli_plain(stdout),
               mtp_check_recovered(check) ? ", recovered" : "", (unsigned long long)mtp_check_events(check));
    else
        printf("%s: %zu error%s, %zu note%s in %llu events\n", path, errors, errors == 1 ? "" : "s",
               breaches - errors, breaches - errors == 1 ? "" : "s",
               (unsigned long long)mtp_check_events(check));
    return breaches == 0 ? CLI_OK : CLI_FOUND;
}

typedef struct checking {
    bool json;
    const char *output;
    size_t files, at; /* all, and how many were checked */
    cli_out out;      /* once one was */
    mtp_status written;
    int code; /* the worst */
} checking;

static void worsen(checking *all, int code)
{
    all->code = code > all->code ? code : all->code;
}

static void put(checking *all, const char *text)
{
    if (all->written == MTP_OK && !all->out.sink(all->out.user, text, strlen(text)))
        all->written = MTP_E_IO;
}

static bool count_one(void *user, const char *file)
{
    (void)file;
    ((checking *)user)->files++;
    return true;
}

/* false: the output cannot be created. */
static bool put_json(checking *all, const mtp_check *check)
{
    int code = all->at == 0 ? cli_create(&all->out, all->output) : CLI_OK;
    worsen(all, code);
    if (code != CLI_OK)
        return false;
    if (all->files > 1)
        put(all, all->at == 0 ? "[" : ", ");
    if (all->written == MTP_OK)
        all->written = mtp_check_json(check, all->out.sink, all->out.user);
    worsen(all, mtp_check_breaches(check) > 0 ? CLI_FOUND : CLI_OK);
    return true;
}

static bool check_one(void *user, const char *file)
{
    checking *all = user;
    mtp_open_options open = MTP_OPEN_OPTIONS_INIT;
    open.progress = show_progress;
    mtp_check *check;
    mtp_status status = mtp_trace_check_file(file, &open, &check);
    cli_progress_done();
    if (status != MTP_OK) {
        worsen(all, cli_fail_status(status));
        return true;
    }
    bool goes_on = true;
    if (all->files > 1 && !all->json)
        printf("%s%s%s\n", cli_bold(stdout), file, cli_plain(stdout));
    if (all->json)
        goes_on = put_json(all, check);
    else
        worsen(all, print_check(check, file));
    all->at += goes_on;
    mtp_check_destroy(check);
    return goes_on;
}

int cli_check(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    bool json = false;
    const char *output = NULL;
    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == '?')
            return cli_usage_error();
        json |= c == 'j';
        output = c == 'o' ? optarg : output;
    }
    if (argc - optind != 1)
        return cli_fail(CLI_USAGE, "expected one trace: 'mtprof check TRACE'");
    if (output != NULL && !json)
        return cli_fail(CLI_USAGE, "-o needs --json");
    checking all = {.json = json, .output = output};
    mtp_status status = mtp_trace_files(argv[optind], count_one, &all);
    if (status == MTP_OK)
        status = mtp_trace_files(argv[optind], check_one, &all);
    if (status != MTP_OK)
        return cli_fail_status(status);
    if (all.at > 0 && json && all.files > 1)
        put(&all, "]\n");
    if (all.at > 0 && json)
        worsen(&all, cli_close(&all.out, all.written));
    return all.code;
}
