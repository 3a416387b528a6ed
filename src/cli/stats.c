/* cli/stats.c - mtprof stats: how the times of each op are spread. */
#include "cli/rows.h"
#include <string.h>

static const char help[] =
    "usage: mtprof stats [options] TRACE\n\n"
    "For each op: calls, total and self time, and the time of one call: least, median, 99th\n"
    "percentile, most.\n\n" CLI_ROWS_HELP "\n"
    "  mtprof stats --limit 15 run.mtp\n"
    "  mtprof stats --json run.json.gz | jq '.[] | select(.p99 > 10 * .p50) | .key'\n";

static const char *time_text(double us, char text[24])
{
    if (us >= 1e6)
        snprintf(text, 24, "%.3fs", us / 1e6);
    else if (us >= 1e3)
        snprintf(text, 24, "%.3fms", us / 1e3);
    else
        snprintf(text, 24, "%.3fus", us);
    return text;
}

/* Names are bytes of the program's choosing: what a terminal would obey is not sent to it. */
static void print_name(const mtp_row *row, int width)
{
    char name[64];
    size_t n = 0, most = (size_t)width < sizeof name - 4 ? (size_t)width : sizeof name - 4;
    for (; n < row->key_length && n < most; n++) {
        unsigned char c = (unsigned char)row->key[n];
        name[n] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    if (row->key_length > most)
        memcpy(name + n - 3, "...", 3);
    name[n] = 0;
    printf("%-*s", width, name);
}

static int print_rows(const mtp_averages *averages, int64_t limit)
{
    size_t count = mtp_averages_count(averages);
    printf("%s%-48s %-6s %9s %12s %12s %12s %12s %12s %12s%s\n", cli_bold(stdout), "name", "where", "calls",
           "total", "self", "min", "p50", "p99", "max", cli_plain(stdout));
    for (size_t i = 0; i < count && (limit < 0 || (int64_t)i < limit); i++) {
        const mtp_row *r = mtp_averages_row(averages, i);
        char text[6][24];
        print_name(r, 48);
        printf(" %-6s %9llu %12s %12s %12s %12s %12s %12s\n", r->is_device ? "device" : "cpu",
               (unsigned long long)r->count,
               time_text(r->is_device ? r->device_time_total : r->cpu_time_total, text[0]),
               time_text(r->is_device ? r->self_device_time_total : r->self_cpu_time_total, text[1]),
               time_text(r->min, text[2]), time_text(r->p50, text[3]), time_text(r->p99, text[4]),
               time_text(r->max, text[5]));
    }
    return CLI_OK;
}

int cli_stats(int argc, char **argv)
{
    cli_rows rows;
    bool done;
    int code = cli_rows_options(&rows, argc, argv, help, &done);
    if (done)
        return code;
    if (rows.table.sort_by == NULL && !rows.json && !rows.csv)
        rows.table.sort_by = "self_cpu_time_total";
    mtp_trace *trace;
    mtp_averages *averages;
    cli_out out;
    code = cli_rows_load(&rows, &trace, &averages);
    if (code == CLI_OK && !rows.json && !rows.csv && rows.output == NULL) {
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
