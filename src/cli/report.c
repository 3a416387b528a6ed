/* cli/report.c - mtprof report: an HTML page of a trace, or of two that are compared. */
#include "cli/cli.h"
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: mtprof report TRACE [TRACE2] [-o OUT.html]\n\n"
    "Writes a page that any browser opens, offline: where the time goes, a timeline of all threads and\n"
    "devices, operators, flame graph, modules, memory. With two traces it also shows what changed from\n"
    "the first to the second. The page holds all data in one file, and loads nothing.\n\n"
    "  -o, --output OUT       the file to write; default: TRACE's name with .html, here\n"
    "      --max-spans N      of a trace with more, the shortest are left out, and the page says so;\n"
    "                         default 6000000\n" CLI_COMMON_HELP "\n"
    "  mtprof report run.mtp\n"
    "  mtprof report before.json.gz after.json.gz -o what-changed.html\n"
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

static int write_report(char **paths, size_t count, const char *output, mtp_report_options *options)
{
    mtp_trace *traces[2] = {NULL, NULL};
    int code = CLI_OK;
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        traces[i] = cli_open(paths[i], &code);
    if (code == CLI_OK) {
        options->names = (const char *const *)paths;
        mtp_status status = mtp_export_report((const mtp_trace *const *)traces, count, output, options);
        if (status != MTP_OK)
            code = status == MTP_E_IO ? cli_fail_output() : cli_fail_status(status);
        else if (strcmp(output, "-") != 0)
            print_done(output);
    }
    for (size_t i = 0; i < count; i++)
        mtp_trace_destroy(traces[i]);
    return code;
}

int cli_report(int argc, char **argv)
{
    enum {
        MAX_SPANS = 256
    };
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"max-spans", required_argument, NULL, MAX_SPANS},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    mtp_report_options report = MTP_REPORT_OPTIONS_INIT;
    const char *output = NULL;
    char name[4096];
    int64_t most;
    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'o')
            output = optarg;
        else if (c == MAX_SPANS && cli_parse_count(optarg, &most) && most > 0)
            report.max_spans = (uint64_t)most;
        else if (c == MAX_SPANS)
            return cli_fail(CLI_USAGE, "'%s' is not a number of spans", optarg);
        else
            return cli_usage_error();
    }
    int count = argc - optind;
    if (count < 1 || count > 2)
        return cli_fail(CLI_USAGE, "expected one trace, or two to compare: 'mtprof report TRACE [TRACE2]'");
    if (output != NULL && strcmp(output, "-") != 0 && !cli_ends(output, ".html") &&
        !cli_ends(output, ".htm") && !cli_ends(output, ".html.gz"))
        return cli_fail(CLI_USAGE, "'%s' must end in .html", output);
    if (output == NULL) {
        const char *slash = strrchr(argv[optind], '/');
        cli_report_name(slash != NULL && slash[1] != 0 ? slash + 1 : argv[optind], name, sizeof name);
        output = name;
        if (!cli_report_may_replace(name))
            return cli_fail(CLI_OUTPUT, "%s is there, and is no report: name the output with -o", name);
    }
    return write_report(argv + optind, (size_t)count, output, &report);
}
