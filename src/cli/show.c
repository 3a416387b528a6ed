/* cli/show.c - mtprof show: everything about one finding, one span, or all calls of one name. */
#include <string.h>
#include "cli/cli.h"

static const char help[] =
    "usage: mtprof show [options] TRACE ID\n\n"
    "ID is the id of a finding of 'mtprof explain', with all of its evidence; the number of a span, as\n"
    "evidence names it (12, or 'span 12'): where it ran, in what, called from where, with which inputs;\n"
    "or a name, such as aten::mm: how often, with which inputs and from where it is called, and its\n"
    "longest calls.\n\n"
    "      --budget N         at most N tokens (four bytes each), in whole sentences\n" CLI_COMMON_HELP "\n"
    "  mtprof show trace.json.gz synchronisation\n"
    "  mtprof show trace.json.gz 'span 1234'\n"
    "  mtprof show trace.json.gz aten::copy_\n";

/* A finding, else a span or a name. */
static mtp_status show(const mtp_trace *trace, const char *id, const mtp_words_options *options,
                       const cli_out *out)
{
    mtp_findings *findings = NULL;
    mtp_words_options o = *options;
    const mtp_finding_row *row;
    mtp_status status = mtp_findings_create(trace, NULL, &findings);
    bool found = false;
    for (size_t i = 0; !found && (row = mtp_findings_row(findings, i)) != NULL; i++)
        found = strcmp(row->id.bytes, id) == 0;
    o.only = id;
    if (status == MTP_OK)
        status = found ? mtp_findings_text(findings, &o, out->sink, out->user)
                       : mtp_trace_show(trace, id, options, out->sink, out->user);
    mtp_findings_destroy(findings);
    return status;
}

int cli_show(int argc, char **argv)
{
    enum {
        BUDGET = 256
    };
    static const struct option options[] = {
        {"budget", required_argument, NULL, BUDGET}, {"help", no_argument, NULL, 'h'}, {0, 0, NULL, 0}};
    mtp_words_options words = MTP_WORDS_OPTIONS_INIT;
    words.width = cli_text_width();
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c != BUDGET)
            return cli_usage_error();
        if (!cli_parse_tokens(optarg, &words.budget))
            return CLI_USAGE;
        words.width = 0;
    }
    if (argc - optind != 2)
        return cli_fail(CLI_USAGE, "expected a trace and an id: 'mtprof show TRACE ID'");
    int code = CLI_OK;
    cli_out out;
    mtp_trace *trace = cli_open(argv[optind], &code);
    if (trace == NULL)
        return code;
    code = cli_create(&out, NULL);
    if (code == CLI_OK)
        code = cli_close(&out, show(trace, argv[optind + 1], &words, &out));
    mtp_trace_destroy(trace);
    return code;
}
