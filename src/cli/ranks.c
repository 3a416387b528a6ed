/* cli/ranks.c - mtprof ranks: which rank is late, and what waiting costs. */
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

static const char help[] =
    "usage: mtprof ranks [options] FOLDER | FILES | JOB.mtp\n\n"
    "Compares the traces of a job's ranks: who is the straggler, since which step, and in which operator;\n"
    "per rank and step, what was computed, what communication nothing hides, how much of that is waiting\n"
    "for others, and what is idle. Kineto's traces and ours, in any mix; which rank a trace is of is read\n"
    "from its distributedInfo. Clocks of different machines are tied by the communication calls\n"
    "themselves, with a proved error.\n\n"
    "      --json             everything, with each step, as one JSON object; times in microseconds\n"
    "  -o, --output FILE      write --json to FILE; .gz compresses\n"
    "      --budget N         at most N tokens (four bytes each), without the table\n"
    "      --threads N        read N files at the same time (default: one per processor, at most "
    "8)\n" CLI_MEMORY_HELP "\n"
    "  mtprof ranks traces/\n"
    "  mtprof ranks --json job.mtp | jq '.findings[0].title'\n";

typedef struct wishes {
    const char *output;
    uint64_t budget;
    uint32_t threads;
    bool json;
} wishes;

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    if (isatty(STDERR_FILENO) && total > 1)
        fprintf(stderr, "\rreading %llu of %llu files", (unsigned long long)done, (unsigned long long)total);
}

int cli_ranks_open(char **paths, int count, uint32_t threads, mtp_ranks **out)
{
    mtp_ranks_options options = MTP_RANKS_OPTIONS_INIT;
    options.threads = threads;
    options.progress = show_progress;
    mtp_status status = mtp_ranks_create((const char *const *)paths, (size_t)count, &options, out);
    cli_progress_done();
    return status == MTP_OK ? CLI_OK : cli_fail_status(status);
}

bool cli_parse_threads(const char *text, uint32_t *threads)
{
    int64_t count;
    if (!cli_parse_count(text, &count) || count < 1 || count > 64)
        return cli_fail(CLI_USAGE, "--threads '%s': expected a number from 1 to 64", text) == CLI_OK;
    *threads = (uint32_t)count;
    return true;
}

static int show(const mtp_ranks *ranks, const wishes *w)
{
    cli_out out;
    mtp_words_options options = MTP_WORDS_OPTIONS_INIT;
    int code = cli_create(&out, w->output);
    if (code != CLI_OK)
        return code;
    options.width = w->budget > 0 ? 0 : cli_text_width();
    options.budget = w->budget;
    return cli_close(&out, w->json ? mtp_ranks_json(ranks, out.sink, out.user)
                                   : mtp_ranks_text(ranks, &options, out.sink, out.user));
}

int cli_ranks(int argc, char **argv)
{
    enum {
        JSON = 256,
        BUDGET,
        THREADS
    };
    static const struct option options[] = {{"json", no_argument, NULL, JSON},
                                            {"budget", required_argument, NULL, BUDGET},
                                            {"threads", required_argument, NULL, THREADS},
                                            {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    wishes w = {0};
    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'o')
            w.output = optarg;
        else if (c == JSON)
            w.json = true;
        else if (c != BUDGET && c != THREADS)
            return cli_usage_error();
        else if (c == BUDGET ? !cli_parse_tokens(optarg, &w.budget) : !cli_parse_threads(optarg, &w.threads))
            return CLI_USAGE;
    }
    if (optind == argc)
        return cli_fail(CLI_USAGE, "expected a folder or files: 'mtprof ranks FOLDER'");
    if (w.json && w.budget > 0)
        return cli_fail(CLI_USAGE, "--json or --budget, not both");
    if (w.output != NULL && !w.json)
        return cli_fail(CLI_USAGE, "-o needs --json");
    mtp_ranks *ranks = NULL;
    int code = cli_ranks_open(argv + optind, argc - optind, w.threads, &ranks);
    if (code == CLI_OK)
        code = show(ranks, &w);
    mtp_ranks_destroy(ranks);
    return code;
}
