/* cli/merge.c - mtprof merge: the traces of a job's ranks as one file, on one clock. */
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

static const char help[] =
    "usage: mtprof merge [options] FOLDER | FILES | JOB.mtp -o OUTPUT\n\n"
    "Writes the traces of a job's ranks as one file. Clocks of different machines are tied by the\n"
    "communication calls themselves, with a proved error ('mtprof info' shows it).\n\n"
    "  -o, --output FILE      .mtp: an archive of the files as they are, with a table of clocks; every\n"
    "                         verb reads a rank of it with --rank N, and 'mtprof ranks' all of them\n"
    "                         .json, .json.gz: one timeline for Perfetto and the like\n"
    "                         .tar: a timeline for each rank, and a manifest, for Perfetto 58\n"
    "      --threads N        read N files at the same time (default: one per processor, at most "
    "8)\n" CLI_MEMORY_HELP "\n"
    "A file that cannot be read, or is of another job, is reported; the others are merged.\n\n"
    "  mtprof merge traces/ -o job.mtp\n"
    "  mtprof merge job.mtp -o job.json.gz\n";

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rwriting %llu of %llu ranks", (unsigned long long)done, (unsigned long long)total);
}

static int merge(const mtp_ranks *ranks, const char *output)
{
    mtp_export_options options = MTP_EXPORT_OPTIONS_INIT;
    const char *note;
    for (size_t i = 0; (note = mtp_ranks_note(ranks, i)) != NULL; i++)
        cli_note("%s", note);
    options.progress = show_progress;
    mtp_status status = mtp_merge(ranks, output, &options);
    cli_progress_done();
    return status == MTP_OK ? CLI_OK : cli_fail_status(status);
}

int cli_merge(int argc, char **argv)
{
    enum {
        THREADS = 256
    };
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"threads", required_argument, NULL, THREADS},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    const char *output = NULL;
    uint32_t threads = 0;
    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'o')
            output = optarg;
        else if (c != THREADS)
            return cli_usage_error();
        else if (!cli_parse_threads(optarg, &threads))
            return CLI_USAGE;
    }
    if (optind == argc || output == NULL)
        return cli_fail(CLI_USAGE, "expected files and an output: 'mtprof merge FOLDER -o JOB.mtp'");
    mtp_ranks *ranks = NULL;
    int code = cli_ranks_open(argv + optind, argc - optind, threads, &ranks);
    if (code == CLI_OK)
        code = merge(ranks, output);
    mtp_ranks_destroy(ranks);
    return code;
}
