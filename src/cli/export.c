/* cli/export.c - mtprof export: a trace in another form. */
#include "cli/cli.h"
#include <sys/stat.h>

#define VIEWER_LIMIT (500ll << 20)
#define EVENT_BYTES 250u /* of JSON, about */

static const char help[] =
    "usage: mtprof export TRACE -o OUT\n\n"
    "The form is the end of OUT's name, and .gz behind it compresses:\n\n"
    "  .json                  for Perfetto, chrome://tracing, HTA, TensorBoard; also '-', standard output\n"
    "  .et.json               PyTorch's execution trace, for Chakra's tools\n"
    "  .folded .stacks .txt   folded stacks by self CPU time, for flame graphs (see 'mtprof stacks')\n"
    "  .memory.json           torch's memory timeline (see 'mtprof memory'); .memory.raw.json: its events\n"
    "  .csv                   averages, a line each (see 'mtprof stats'); .averages.json: as Chrome "
    "events\n\n"
    "  -o, --output FILE\n"
    "      --whole-us         whole microseconds, for readers that round badly (HTA)\n"
    "      --no-args          times and names only: smaller, for speedscope\n"
    "  -z, --level N          of .gz: 1 (fast) to 9 (small)\n"
    "  -h, --help\n\n"
    "  mtprof export run.mtp -o run.pt.trace.json.gz\n"
    "  mtprof export trace.json.gz -o trace.et.json\n";

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    if (total > 0 && cli_tells_progress(total * EVENT_BYTES))
        fprintf(stderr, "\rwriting %3.0f%%", 100.0 * (double)done / (double)total);
}

static void warn_large(const char *path)
{
    struct stat st;
    if (cli_ends(path, ".json") && stat(path, &st) == 0 && st.st_size > VIEWER_LIMIT)
        fprintf(stderr,
                "mtprof export: %s has %.0f MB; viewers that are web pages stop at 512. 'mtprof cut' makes a "
                "smaller one.\n",
                path, (double)st.st_size / 1048576.0);
}

int cli_export(int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'}, {"whole-us", no_argument, NULL, 'w'},
        {"no-args", no_argument, NULL, 'n'},      {"level", required_argument, NULL, 'z'},
        {"help", no_argument, NULL, 'h'},         {0, 0, NULL, 0}};
    mtp_export_options export = MTP_EXPORT_OPTIONS_INIT;
    const char *output = NULL;
    int64_t level;
    for (int c; (c = getopt_long(argc, argv, "o:z:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'o')
            output = optarg;
        else if (c == 'w')
            export.whole_microseconds = true;
        else if (c == 'n')
            export.without_args = true;
        else if (c == 'z' && cli_parse_count(optarg, &level) && level >= 1 && level <= 9)
            export.compression = (int)level;
        else if (c == 'z')
            return cli_fail(CLI_USAGE, "level '%s' is not a number from 1 to 9", optarg);
        else
            return cli_usage_error();
    }
    if (argc - optind != 1 || output == NULL)
        return cli_fail(CLI_USAGE, "a trace and a place to write it: 'mtprof export TRACE -o OUT'");
    int code = CLI_OK;
    mtp_trace *trace = cli_open(argv[optind], &code);
    if (trace == NULL)
        return code;
    export.progress = show_progress;
    mtp_status status = mtp_trace_export(trace, output, &export);
    cli_progress_done();
    if (status != MTP_OK)
        code = status == MTP_E_ARG ? cli_fail_status(status) : cli_fail_output();
    else
        warn_large(output);
    mtp_trace_destroy(trace);
    return code;
}
