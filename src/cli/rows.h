/* cli/rows.h - what `table` and `stats` share: which rows, in which order. */
#ifndef MTP_CLI_ROWS_H
#define MTP_CLI_ROWS_H
#include "cli/cli.h"

typedef struct cli_rows {
    mtp_averages_options group;
    mtp_table_options table;
    const char *output; /* -o, or NULL */
    bool json, csv;
    bool limited; /* --limit was given */
    const char *path;
} cli_rows;

/* Parses the command line. *done: help was printed or it was invalid; exit with the value returned. */
int cli_rows_options(cli_rows *rows, int argc, char **argv, const char *help, bool *done);
/* Opens the trace, groups and sorts; the caller owns *averages and *trace. */
int cli_rows_load(const cli_rows *rows, mtp_trace **trace, mtp_averages **averages);
#define CLI_ROWS_HELP                                                                                        \
    "  -s, --sort ATTRIBUTE   largest first: self_cpu_time_total, cpu_time_total, cpu_time, count,\n"        \
    "                         device_time_total, self_device_time_total, cpu_memory_usage, flops, ...\n"     \
    "  -l, --limit N          number of rows; -1: all. Default 100; with --json and --csv all\n"             \
    "      --by-shape         one row per input shape\n"                                                     \
    "      --by-stack N       one row per stack, by its N innermost frames; without stacks (PyTorch\n"       \
    "                         writes them only if verbose) by the Python functions around\n"                 \
    "      --by-overload      one row per overload of an op\n"                                               \
    "      --python-functions   rows for Python functions, too; PyTorch omits them since 2.15\n"             \
    "      --as-torch         device time as PyTorch adds it up, including work that it counts twice\n"      \
    "      --json, --csv      rows with torch's attribute names\n"                                           \
    "  -o, --output FILE      instead of standard output; .gz compresses\n"
#endif
