/* cli/stats.c - mtprof stats: how the times of each op are distributed. */
#include "cli/rows.h"

#define BESIDE 76 /* columns of all but the name */

static const char help[] =
    "usage: mtprof stats [options] TRACE\n\n"
    "For each op: calls, total and self time, and the minimum, median, 99th percentile and maximum time\n"
    "of one call. An output file (-o) is JSON, or CSV if its name ends in .csv or .csv.gz.\n\n" CLI_ROWS_HELP
        CLI_COMMON_HELP "\n"
    "  mtprof stats --limit 15 run.mtp\n"
    "  mtprof stats --json run.json.gz | jq '.[] | select(.p99 > 10 * .p50) | .key'\n";

static int print_rows(const mtp_averages *averages, int64_t limit)
{
    size_t count = mtp_averages_count(averages);
    int width = cli_name_width(BESIDE, 48);
    printf("%s%-*s %-6s %7s %9s %9s %9s %9s %9s %9s%s\n", cli_bold(stdout), width, "name", "where", "calls",
           "total", "self", "min", "p50", "p99", "max", cli_plain(stdout));
    for (size_t i = 0; i < count && (limit < 0 || (int64_t)i < limit); i++) {
        const mtp_row *r = mtp_averages_row(averages, i);
        char text[6][24];
        printf("%*s %-6s %7llu %9s %9s %9s %9s %9s %9s\n", cli_print_name(r->key, r->key_length, width), "",
               r->is_device ? "device" : "cpu", (unsigned long long)r->count,
               cli_time(r->is_device ? r->device_time_total : r->cpu_time_total, text[0]),
               cli_time(r->is_device ? r->self_device_time_total : r->self_cpu_time_total, text[1]),
               cli_time(r->min, text[2]), cli_time(r->p50, text[3]), cli_time(r->p99, text[4]),
               cli_time(r->max, text[5]));
    }
    if (limit >= 0 && (uint64_t)limit < count)
        printf("%s... and %zu more; --limit -1 shows all%s\n", cli_dim(stdout), count - (size_t)limit,
               cli_plain(stdout));
    return CLI_OK;
}

int cli_stats(int argc, char **argv)
{
    cli_rows rows;
    bool done;
    int code = cli_rows_options(&rows, argc, argv, help, &done);
    if (done)
        return code;
    if (rows.output != NULL && !rows.json && !rows.csv) {
        rows.csv = cli_ends(rows.output, ".csv") || cli_ends(rows.output, ".csv.gz");
        rows.json = !rows.csv;
    }
    if (rows.table.sort_by == NULL && !rows.json && !rows.csv)
        rows.table.sort_by = "self_cpu_time_total";
    mtp_trace *trace;
    mtp_averages *averages;
    cli_out out;
    code = cli_rows_load(&rows, &trace, &averages);
    if (code == CLI_OK && !rows.json && !rows.csv) {
        code = print_rows(averages, rows.table.row_limit);
    } else if (code == CLI_OK) {
        code = cli_create(&out, rows.output);
        if (code == CLI_OK)
            code = cli_close(&out, rows.csv ? mtp_averages_csv(averages, out.sink, out.user)
                                            : mtp_averages_json(averages, out.sink, out.user));
    }
    mtp_averages_destroy(averages);
    mtp_trace_destroy(trace);
    return code;
}
