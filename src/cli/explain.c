/* cli/explain.c - mtprof explain: what stands out in a trace, or what changed between two, in words. */
#include <string.h>
#include "cli/cli.h"

static const char help[] =
    "usage: mtprof explain [options] TRACE [TRACE2]\n\n"
    "What stands out in a trace, in words: idle devices and why, synchronisation, data loading, steps\n"
    "that take longer, casts and copies, memory that grows, what is missing from the trace ... Ranked by\n"
    "the time that could be saved, each with evidence and the next step. Silence is possible: what is not\n"
    "clear is not reported. With two traces: what changed from the first to the second ('mtprof diff' has\n"
    "the table).\n\n"
    "      --budget N         at most N tokens (four bytes each): what matters most, in whole sentences\n"
    "      --json             everything as one JSON object; times in microseconds\n"
    "  -o, --output FILE      write --json to FILE; .gz compresses\n" CLI_COMMON_HELP "\n"
    "The word in brackets after a title is the id of the finding: 'mtprof show TRACE ID' has all of its\n"
    "evidence.\n\n"
    "  mtprof explain trace.json.gz\n"
    "  mtprof explain --budget 2000 trace.json.gz        for a language model\n"
    "  mtprof explain before.json.gz after.json.gz\n";

typedef struct wishes {
    const char *output;
    uint64_t budget;
    bool json;
} wishes;

static int explain_one(const mtp_trace *trace, const wishes *w, cli_out *out)
{
    mtp_findings *findings = NULL;
    mtp_words_options options = MTP_WORDS_OPTIONS_INIT;
    options.width = w->budget > 0 ? 0 : cli_text_width();
    options.budget = w->budget;
    mtp_status status = mtp_findings_create(trace, NULL, &findings);
    if (status == MTP_OK)
        status = w->json ? mtp_findings_json(findings, out->sink, out->user)
                         : mtp_findings_text(findings, &options, out->sink, out->user);
    mtp_findings_destroy(findings);
    return cli_close(out, status);
}

static int explain_two(const mtp_trace *before, const mtp_trace *after, const wishes *w, cli_out *out)
{
    mtp_diff *diff = NULL;
    mtp_words_options options = MTP_WORDS_OPTIONS_INIT;
    options.width = w->budget > 0 ? 0 : cli_text_width();
    options.budget = w->budget;
    mtp_status status = mtp_diff_create(before, after, NULL, &diff);
    if (status == MTP_OK)
        status = w->json ? mtp_diff_json(diff, out->sink, out->user)
                         : mtp_diff_text(diff, &options, out->sink, out->user);
    mtp_diff_destroy(diff);
    return cli_close(out, status);
}

static int run(const char *first, const char *second, const wishes *w)
{
    int code = CLI_OK;
    cli_out out;
    mtp_trace *after = NULL, *before = cli_open(first, &code);
    if (before != NULL && second != NULL)
        after = cli_open(second, &code);
    if (code == CLI_OK)
        code = cli_create(&out, w->output);
    if (code == CLI_OK)
        code = second != NULL ? explain_two(before, after, w, &out) : explain_one(before, w, &out);
    mtp_trace_destroy(before);
    mtp_trace_destroy(after);
    return code;
}

int cli_explain(int argc, char **argv)
{
    enum {
        JSON = 256,
        BUDGET
    };
    static const struct option options[] = {{"budget", required_argument, NULL, BUDGET},
                                            {"json", no_argument, NULL, JSON},
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
        else if (c != BUDGET)
            return cli_usage_error();
        else if (!cli_parse_tokens(optarg, &w.budget))
            return CLI_USAGE;
    }
    int traces = argc - optind;
    if (traces != 1 && traces != 2)
        return cli_fail(CLI_USAGE, "expected one trace, or two to compare: 'mtprof explain TRACE [TRACE2]'");
    if (w.json && w.budget > 0)
        return cli_fail(CLI_USAGE, "--json or --budget, not both");
    if (w.output != NULL && !w.json)
        return cli_fail(CLI_USAGE, "-o needs --json");
    if (traces == 2 && strcmp(argv[optind], "-") == 0 && strcmp(argv[optind + 1], "-") == 0)
        return cli_fail(CLI_USAGE, "only one of the two can be standard input");
    return run(argv[optind], traces == 2 ? argv[optind + 1] : NULL, &w);
}
