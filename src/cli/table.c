/* cli/table.c - mtprof table: what torch's key_averages().table() prints. */
#include "cli/rows.h"

static const char help[] =
    "usage: mtprof table [options] TRACE\n\n"
    "Averages, as torch's key_averages().table() prints them.\n\n" CLI_ROWS_HELP
    "      --top-level        only events without a parent\n"
    "      --time-unit U      us, ms or s\n"
    "      --header TEXT      a line above the table\n"
    "      --device NAME      name of the device columns: CUDA, NPU; default: as in the trace\n"
    "      --name-width N, --shapes-width N, --src-width N\n"
    "                         maximum widths of these columns; -1: no limit\n" CLI_COMMON_HELP "\n"
    "  mtprof table --sort self_cpu_time_total --limit 20 run.json.gz\n"
    "  mtprof table --by-shape --sort flops run.mtp\n";

int cli_table(int argc, char **argv)
{
    cli_rows rows;
    bool done;
    int code = cli_rows_options(&rows, argc, argv, help, &done);
    if (done)
        return code;
    mtp_trace *trace;
    mtp_averages *averages;
    cli_out out;
    code = cli_rows_load(&rows, &trace, &averages);
    if (code == CLI_OK)
        code = cli_create(&out, rows.output);
    if (code == CLI_OK)
        code = cli_close(&out, rows.json  ? mtp_averages_json(averages, out.sink, out.user)
                               : rows.csv ? mtp_averages_csv(averages, out.sink, out.user)
                                          : mtp_averages_table(averages, &rows.table, out.sink, out.user));
    if (code == CLI_OK && mtp_averages_count(averages) == 0)
        fprintf(stderr, "mtprof table: the trace has nothing to average\n");
    if (code == CLI_OK && mtp_averages_left_out(averages) > 0 && !rows.json && !rows.csv)
        fprintf(
            stderr,
            "mtprof table: %zu Python functions are not shown, as in PyTorch 2.15; see --python-functions\n",
            mtp_averages_left_out(averages));
    mtp_averages_destroy(averages);
    mtp_trace_destroy(trace);
    return code;
}
