/* cli/stacks.c - mtprof stacks: folded stacks. */
#include "cli/cli.h"

static const char help[] =
    "usage: mtprof stacks [options] TRACE\n\n"
    "Folded stacks, the input of flame graph tools. One line per stack, the longest time first:\n"
    "functions, ops and annotations from the root, joined by ';', then the self time of the last of them\n"
    "in microseconds (with the device metric: a kernel's). Backward ops are shown where their forward op\n"
    "was called. The trace must have been recorded with stacks. Python time outside ops and annotations\n"
    "is not included. (torch's export_stacks() writes a line per call instead, without the ops.)\n\n"
    "  -m, --metric M         self_cpu_time_total (default) or self_device_time_total\n"
    "  -o, --output FILE      instead of standard output; .gz compresses\n" CLI_COMMON_HELP "\n"
    "  mtprof stacks trace.json.gz -o trace.folded    # then flamegraph.pl trace.folded, or speedscope\n"
    "  mtprof stacks trace.json.gz | head -5\n";

typedef struct counted {
    cli_out *to;
    size_t bytes;
} counted;

static bool count(void *user, const void *bytes, size_t length)
{
    counted *c = user;
    c->bytes += length;
    return c->to->sink(c->to->user, bytes, length);
}

int cli_stacks(int argc, char **argv)
{
    static const struct option options[] = {{"metric", required_argument, NULL, 'm'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    const char *output = NULL, *metric = "self_cpu_time_total";
    for (int c; (c = getopt_long(argc, argv, "m:o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'o')
            output = optarg;
        else if (c == 'm')
            metric = optarg;
        else
            return cli_usage_error();
    }
    if (argc - optind != 1)
        return cli_fail(CLI_USAGE, "expected one trace: 'mtprof stacks TRACE'");
    int code = CLI_OK;
    mtp_trace *trace = cli_open(argv[optind], &code);
    if (trace == NULL)
        return code;
    cli_out out;
    code = cli_create(&out, output);
    if (code == CLI_OK) {
        counted lines = {&out, 0};
        mtp_status status = mtp_trace_folded(trace, metric, count, &lines);
        if (status == MTP_OK && lines.bytes == 0) {
            mtp_file_abandon(out.file);
            code = cli_fail(
                CLI_INPUT,
                "the trace has no stacks with %s; record it using with_stack, or 'mtprof run --stacks'",
                metric);
        } else {
            code = cli_close(&out, status);
        }
    }
    mtp_trace_destroy(trace);
    return code;
}
