/* cli/cut.c - mtprof cut: extracts part of a trace. */
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: mtprof cut TRACE -o OUT [--step N[-M]] [--time FROM-TO] [--name PATTERN] [--thread THREAD]\n\n"
    "Writes the part of a trace that meets all the given conditions. Device work stays with the op that\n"
    "launched it. Spans that extend beyond the range are cut off there; the full duration is in their\n"
    "args. OUT's suffix selects the format, as in 'mtprof export'; '-' is JSON on standard output.\n\n"
    "  -o, --output OUT       the file to write\n"
    "      --step N[-M]       these steps, by number\n"
    "      --time FROM-TO     since the start: 10ms-20ms, 1.5s-2s; either side may be omitted\n"
    "      --name PATTERN     spans of this name and everything nested in them: part of the name, or a\n"
    "                         pattern for the whole name, with * and ?\n"
    "      --thread THREAD    a thread's number, or its name as above\n" CLI_COMMON_HELP "\n"
    "  mtprof cut run.json.gz -o steps.json.gz --step 3-5\n"
    "  mtprof cut run.mtp -o forward.json --name 'forward*' --time 10ms-20ms\n";

enum {
    STEP = 256,
    TIME,
    NAME,
    THREAD
};

/* "3" or "3-5". */
static bool parse_steps(const char *text, mtp_cut_options *cut)
{
    char *end;
    cut->first_step = cut->last_step = strtoll(text, &end, 10);
    if (end == text)
        return false;
    if (*end == '-') {
        const char *from = end + 1;
        cut->last_step = strtoll(from, &end, 10);
        if (end == from)
            return false;
    }
    cut->by_step = true;
    return *end == 0 && cut->first_step >= 0 && cut->first_step <= cut->last_step;
}

/* "10ms-20ms", "-20ms", "10ms-"; without a unit the first takes the second's: 10-20ms. */
static bool parse_times(const char *text, mtp_cut_options *cut)
{
    char from[64], with_unit[96];
    const char *dash = strchr(text, '-'), *to = dash != NULL ? dash + 1 : NULL;
    if (dash == NULL || (size_t)(dash - text) >= sizeof from || (*to == 0 && dash == text))
        return false;
    memcpy(from, text, (size_t)(dash - text));
    from[dash - text] = 0;
    const char *unit = to + strspn(to, "0123456789.");
    bool bare = from[0] != 0 && from[strspn(from, "0123456789.")] == 0;
    snprintf(with_unit, sizeof with_unit, "%s%.8s", from, bare ? unit : "");
    cut->from_ns = 0;
    cut->to_ns = INT64_MAX;
    cut->by_time = true;
    return (*from == 0 || cli_parse_time(with_unit, &cut->from_ns)) &&
           (*to == 0 || cli_parse_time(to, &cut->to_ns)) && cut->from_ns >= 0 && cut->from_ns < cut->to_ns;
}

static int parse(mtp_cut_options *cut, const char **output, int argc, char **argv, bool *done)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                            {"step", required_argument, NULL, STEP},
                                            {"time", required_argument, NULL, TIME},
                                            {"name", required_argument, NULL, NAME},
                                            {"thread", required_argument, NULL, THREAD},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    *done = true;
    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == '?')
            return cli_usage_error();
        if (c == 'o')
            *output = optarg;
        else if (c == NAME)
            cut->name = optarg;
        else if (c == THREAD)
            cut->thread = optarg;
        else if (c == STEP && !parse_steps(optarg, cut))
            return cli_fail(CLI_USAGE, "'%s' is not a step or a range of steps, like 3 or 3-5", optarg);
        else if (c == TIME && !parse_times(optarg, cut))
            return cli_fail(CLI_USAGE, "'%s' is not a time range, like 10ms-20ms", optarg);
    }
    if (argc - optind != 1 || *output == NULL)
        return cli_fail(CLI_USAGE, "expected a trace and an output file: 'mtprof cut TRACE -o OUT --step 3'");
    if (!cut->by_step && !cut->by_time && cut->name == NULL && cut->thread == NULL)
        return cli_fail(CLI_USAGE,
                        "which part? Use --step, --time, --name or --thread; 'mtprof export' writes it all");
    *done = false;
    return CLI_OK;
}

static void say(const mtp_trace *part, const mtp_trace *all, const char *output)
{
    mtp_trace_info kept = MTP_TRACE_INFO_INIT, had = MTP_TRACE_INFO_INIT;
    if (strcmp(output, "-") == 0 || mtp_trace_get_info(part, &kept) != MTP_OK ||
        mtp_trace_get_info(all, &had) != MTP_OK)
        return;
    fprintf(stderr, "%s: %llu of %llu spans, %.3f of %.3f ms\n", output, (unsigned long long)kept.spans,
            (unsigned long long)had.spans, (double)(kept.last_ns - kept.first_ns) / 1e6,
            (double)(had.last_ns - had.first_ns) / 1e6);
}

int cli_cut(int argc, char **argv)
{
    mtp_cut_options cut = MTP_CUT_OPTIONS_INIT;
    const char *output = NULL;
    bool done;
    int code = parse(&cut, &output, argc, argv, &done);
    if (done)
        return code;
    mtp_trace *part = NULL, *trace = cli_open(argv[optind], &code);
    if (trace == NULL)
        return code;
    mtp_status status = mtp_trace_cut(trace, &cut, &part);
    if (status != MTP_OK) {
        code = cli_fail_status(status);
    } else if ((status = mtp_trace_export(part, output, NULL)) != MTP_OK) {
        code = status == MTP_E_ARG ? cli_fail_status(status) : cli_fail_output();
    } else {
        say(part, trace, output);
    }
    mtp_trace_destroy(part);
    mtp_trace_destroy(trace);
    return code;
}
