/* cli/rows.h - what `table` and `stats` have in common: which rows, in which order. */
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

/* Reads the command line. CLI_OK: go on; *done: help was shown, or it went wrong, and the value is the exit code. */
int cli_rows_options(cli_rows *rows, int argc, char **argv, const char *help, bool *done);
/* Opens, groups and sorts; *averages and *trace are the caller's. */
int cli_rows_load(const cli_rows *rows, mtp_trace **trace, mtp_averages **averages);
#define CLI_ROWS_HELP                                                                                        \
    "  -s, --sort ATTRIBUTE   largest first: self_cpu_time_total, cpu_time_total, cpu_time, count,\n"        \
    "                         device_time_total, self_device_time_total, cpu_memory_usage, flops, ...\n"     \
    "  -l, --limit N          rows; -1: all. If not said, 100, and all of them for --json and --csv\n"       \
    "      --by-shape         a row for each shape of the inputs\n"                                          \
    "      --by-stack N       a row for each N innermost frames of the stack: of the Python functions\n"     \
    "                         around it, if the trace has no stacks (PyTorch's has them only if verbose)\n"  \
    "      --by-overload      a row for each overload of an op\n"                                            \
    "      --python-functions   rows of Python functions too, which PyTorch leaves out from 2.15 on\n"       \
    "      --as-torch         device time as PyTorch adds it up, work that it counts twice included\n"       \
    "      --json, --csv      rows with torch's attribute names\n"                                           \
    "  -o, --output FILE      instead of standard output; .gz is compressed\n"                               \
    "  -h, --help\n"
#endif
