/* cli/export.c - mtprof export: converts a trace, or several to Parquet. */
#include "cli/cli.h"
#include <stdlib.h>
#include <sys/stat.h>

#define VIEWER_LIMIT (500ll << 20)
#define EVENT_BYTES 250u /* of JSON, on average */

static int print_help(void)
{
    printf("usage: mtprof export TRACE -o OUT\n"
           "       mtprof export --parquet DIR TRACE...\n\n"
           "Converts a trace to the format given by OUT's suffix; a further .gz compresses:\n\n");
#define X(writer, suffix, what) printf("  %-22s %s\n", suffix, what);
    MTP_EXPORT_LIST(X)
#undef X
    return cli_help("\n"
                    "  -o, --output OUT       the file to write\n"
                    "      --whole-us         whole microseconds, for readers that round badly (HTA)\n"
                    "      --no-args          times and names only: smaller, for speedscope\n"
                    "  -z, --level N          compression of .gz: 1 (fast) to 9 (small)\n"
                    "      --parquet DIR      tables of all traces, for DuckDB, Spark and the like, as\n"
                    "                         DIR/TABLE/job=JOB/rank=RANK/TABLE.parquet\n"
                    "      --job JOB          the job of these traces; default: their metadata's, else the\n"
                    "                         folder of several ranks' files, else the file's name\n"
                    "      --as-rank RANK     the rank of the trace; default: its metadata's,\n"
                    "                         else the file name's (rank12), else 0\n" CLI_COMMON_HELP "\n"
                    "  mtprof export run.mtp -o run.pt.trace.json.gz\n"
                    "  mtprof export trace.json.gz -o trace.et.json\n"
                    "  mtprof export --parquet lake --job train-17 rank*.json.gz\n");
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

static int export_one(const char *path, const char *output, mtp_export_options *export)
{
    int code = CLI_OK;
    mtp_trace *trace = cli_open(path, &code);
    if (trace == NULL)
        return code;
    export->progress = show_progress;
    mtp_status status = mtp_trace_export(trace, output, export);
    cli_progress_done();
    if (status != MTP_OK)
        code = status == MTP_E_ARG ? cli_fail_status(status) : cli_fail_output();
    else
        warn_large(output);
    mtp_trace_destroy(trace);
    return code;
}

static int export_rank(const char *path, const char *folder, const mtp_parquet_options *options)
{
    int code = CLI_OK;
    mtp_trace *trace = cli_open(path, &code);
    mtp_status status = trace != NULL ? mtp_export_parquet(trace, folder, options) : MTP_OK;
    if (status != MTP_OK)
        code = cli_fail(status == MTP_E_ARG                           ? CLI_USAGE
                        : status == MTP_E_NOMEM                       ? CLI_MEMORY
                        : status == MTP_E_IO || status == MTP_E_STATE ? CLI_OUTPUT
                                                                      : CLI_INPUT,
                        "%s: %s", path, mtp_last_error());
    mtp_trace_destroy(trace);
    return code;
}

/* A trace that fails is told of, and the others are exported; of a file of several ranks, all. */
static int export_tables(char **paths, int count, const char *folder, const mtp_parquet_options *options)
{
    int failed = CLI_OK;
    for (int i = 0; i < count; i++) {
        size_t ranks = 0;
        int64_t *rank = options->rank < 0 ? cli_ranks_of(paths[i], &ranks) : NULL;
        for (size_t k = 0; k < ranks || k == 0; k++) {
            if (ranks > 0)
                cli_use_rank(rank[k]);
            int code = export_rank(paths[i], folder, options);
            failed = failed != CLI_OK ? failed : code;
        }
        if (ranks > 0)
            cli_use_rank(-1);
        free(rank);
    }
    return failed;
}

typedef struct wanted {
    const char *output, *folder;
    mtp_export_options export;
    mtp_parquet_options parquet;
    bool of_file, of_tables; /* an option that only one of both has */
} wanted;

static int run(const wanted *w, char **paths, int count)
{
    mtp_export_options export = w->export;
    if (w->folder != NULL && (w->output != NULL || w->of_file))
        return cli_fail(CLI_USAGE,
                        "--parquet writes a folder: -o, --whole-us, --no-args and --level are for files");
    if (w->folder == NULL && w->of_tables)
        return cli_fail(CLI_USAGE, "--job and --as-rank are for --parquet DIR");
    if (w->folder != NULL && count == 0)
        return cli_fail(CLI_USAGE, "expected traces: 'mtprof export --parquet DIR TRACE...'");
    if (w->folder != NULL && count > 1 && w->parquet.rank >= 0)
        return cli_fail(CLI_USAGE, "--as-rank is for one trace, not for %d", count);
    if (w->folder != NULL)
        return export_tables(paths, count, w->folder, &w->parquet);
    if (count != 1 || w->output == NULL)
        return cli_fail(CLI_USAGE, "expected a trace and an output file: 'mtprof export TRACE -o OUT'");
    return export_one(paths[0], w->output, &export);
}

/* CLI_OK, or the error was printed. */
static int take_option(wanted *w, int c, const char *text)
{
    int64_t number;
    switch (c) {
    case 'o':
        w->output = text;
        return CLI_OK;
    case 'P':
        w->folder = text;
        return CLI_OK;
    case 'J':
        w->parquet.job = text;
        w->of_tables = true;
        return CLI_OK;
    case 'R':
        if (!cli_parse_count(text, &w->parquet.rank) || w->parquet.rank < 0 || w->parquet.rank == INT64_MAX)
            return cli_fail(CLI_USAGE, "'%s' is not a rank: 0, 1, ...", text);
        w->of_tables = true;
        return CLI_OK;
    case 'w':
        w->export.whole_microseconds = w->of_file = true;
        return CLI_OK;
    case 'n':
        w->export.without_args = w->of_file = true;
        return CLI_OK;
    case 'z':
        if (!cli_parse_count(text, &number) || number < 1 || number > 9)
            return cli_fail(CLI_USAGE, "level '%s' is not a number from 1 to 9", text);
        w->export.compression = (int)number;
        w->of_file = true;
        return CLI_OK;
    default:
        return cli_usage_error();
    }
}

int cli_export(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"whole-us", no_argument, NULL, 'w'},
                                            {"no-args", no_argument, NULL, 'n'},
                                            {"level", required_argument, NULL, 'z'},
                                            {"parquet", required_argument, NULL, 'P'},
                                            {"job", required_argument, NULL, 'J'},
                                            {"as-rank", required_argument, NULL, 'R'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    wanted w = {.export = MTP_EXPORT_OPTIONS_INIT, .parquet = MTP_PARQUET_OPTIONS_INIT};
    for (int c; (c = getopt_long(argc, argv, "o:z:h", options, NULL)) != -1;) {
        int code = c == 'h' ? CLI_OK : take_option(&w, c, optarg);
        if (c == 'h')
            return print_help();
        if (code != CLI_OK)
            return code;
    }
    return run(&w, argv + optind, argc - optind);
}
