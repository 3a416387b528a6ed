/* cli/recover.c - mtprof recover: rebuilds a complete spool from what is left of one. */
#include <string.h>
#include "cli/cli.h"

static const char help[] =
    "usage: mtprof recover FILE -o OUT\n\n"
    "Writes a complete spool with everything readable in the spool FILE, which may be truncated, damaged,\n"
    "or left by a killed program. All verbs read such a FILE, too; the recovered one is closed, sealed\n"
    "with checksums, and has a correct ledger. FILE is not changed. Recovering OUT again gives the same\n"
    "bytes. Losses are reported on standard error. Of a folder, or a spool with others in FILE.workers/,\n"
    "each file is recovered by itself.\n\n"
    "  -o, --output OUT       the file to write\n" CLI_MEMORY_HELP "\n"
    "Exit code: 0 success, 2 wrong usage, 3 FILE cannot be read or is still being recorded, 4 OUT cannot\n"
    "be written, 5 not enough memory.\n\n"
    "  mtprof recover run.mtp -o run.recovered.mtp\n";

static void report(const char *path, const mtp_recovered *r)
{
    if (r->damaged_chunks > 0)
        cli_warn("%s: damaged: %llu of %llu chunks could not be read completely", path,
                 (unsigned long long)r->damaged_chunks, (unsigned long long)r->chunks);
    if (r->missing_chunks > 0)
        cli_warn("%s: truncated: %llu chunks are missing at its end", path,
                 (unsigned long long)r->missing_chunks);
    if (r->lost_records > 0)
        cli_warn("%s: %llu records are lost", path, (unsigned long long)r->lost_records);
}

typedef struct found_files {
    const char *named;
    bool is_named; /* the file itself is among them */
    size_t others;
    char first[512]; /* of the others */
} found_files;

static bool list_one(void *user, const char *file)
{
    found_files *all = user;
    if (strcmp(file, all->named) == 0) {
        all->is_named = true;
        return true;
    }
    if (all->others++ == 0)
        snprintf(all->first, sizeof all->first, "%s", file);
    return true;
}

int cli_recover(int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {0, 0, NULL, 0}};
    const char *output = NULL;
    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == '?')
            return cli_usage_error();
        output = optarg;
    }
    if (argc - optind != 1)
        return cli_fail(CLI_USAGE, "expected one spool: 'mtprof recover FILE -o OUT'");
    if (output == NULL || *output == 0)
        return cli_fail(CLI_USAGE, "expected an output file: 'mtprof recover FILE -o OUT'");
    found_files all = {.named = argv[optind]};
    mtp_status status = mtp_trace_files(argv[optind], list_one, &all);
    if (status != MTP_OK)
        return cli_fail_status(status);
    if (all.others > 0 && !all.is_named)
        return cli_fail(CLI_USAGE,
                        "%s is a folder: recover each of its %zu files, into another folder; for "
                        "example: mtprof recover %s -o OUT",
                        argv[optind], all.others, all.first);
    mtp_recovered found = MTP_RECOVERED_INIT;
    status = mtp_recover(argv[optind], output, &found);
    if (status != MTP_OK)
        return found.chunks > 0 && status == MTP_E_IO ? cli_fail_output() : cli_fail_status(status);
    report(argv[optind], &found);
    fprintf(stderr, "%s: %llu records; the recording %s\n", output, (unsigned long long)found.records,
            found.was_stopped ? "had been stopped" : "had not been stopped");
    if (all.others > 0)
        cli_note(
            "%s only: the %zu recordings in %s.workers/ are files of their own, to be recovered one by one "
            "into %s.workers/",
            argv[optind], all.others, argv[optind], output);
    return CLI_OK;
}
