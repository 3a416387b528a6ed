/* cli/export.c - mtprof export: converts a trace. */
#include "cli/cli.h"
#include <sys/stat.h>

#define VIEWER_LIMIT (500ll << 20)
#define EVENT_BYTES 250u /* of JSON, on average */

static int print_help(void)
{
    printf("usage: mtprof export TRACE -o OUT\n\n"
           "Converts a trace to the format given by OUT's suffix; a further .gz compresses:\n\n");
#define X(writer, suffix, what) printf("  %-22s %s\n", suffix, what);
    MTP_EXPORT_LIST(X)
#undef X
    return cli_help("\n"
                    "  -o, --output OUT       the file to write\n"
                    "      --whole-us         whole microseconds, for readers that round badly (HTA)\n"
                    "      --no-args          times and names only: smaller, for speedscope\n"
                    "  -z, --level N          compression of .gz: 1 (fast) to 9 (small)\n" CLI_COMMON_HELP
                    "\n"
                    "  mtprof export run.mtp -o run.pt.trace.json.gz\n"
                    "  mtprof export trace.json.gz -o trace.et.json\n");
}

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    if (total > 0 && cli_shows_progress(total * EVENT_BYTES))
        fprintf(stderr, "\rwriting %3.0f%%", 100.0 * (double)done / (double)total);
}

static void warn_large(const char *path)
{
    struct stat st;
    if (cli_ends(path, ".json") && stat(path, &st) == 0 && st.st_size > VIEWER_LIMIT)
        fprintf(stderr,
                "mtprof export: %s is %.0f MB; web-based viewers stop at 512. 'mtprof cut' makes a smaller "
                "one.\n",
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
            return print_help();
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
        return cli_fail(CLI_USAGE, "expected a trace and an output file: 'mtprof export TRACE -o OUT'");
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
