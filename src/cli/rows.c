#include "cli/rows.h"
#include <string.h>

enum {
    BY_SHAPE = 256,
    BY_STACK,
    BY_OVERLOAD,
    JSON,
    CSV,
    TOP,
    UNIT,
    HEADER,
    NAME_WIDTH,
    SHAPES_WIDTH,
    SRC_WIDTH,
    DEVICE,
    PYTHON,
    AS_TORCH
};

static const struct option options[] = {
    {"sort", required_argument, NULL, 's'},
    {"limit", required_argument, NULL, 'l'},
    {"by-shape", no_argument, NULL, BY_SHAPE},
    {"by-stack", required_argument, NULL, BY_STACK},
    {"by-overload", no_argument, NULL, BY_OVERLOAD},
    {"python-functions", no_argument, NULL, PYTHON},
    {"as-torch", no_argument, NULL, AS_TORCH},
    {"json", no_argument, NULL, JSON},
    {"csv", no_argument, NULL, CSV},
    {"output", required_argument, NULL, 'o'},
    {"top-level", no_argument, NULL, TOP},
    {"time-unit", required_argument, NULL, UNIT},
    {"header", required_argument, NULL, HEADER},
    {"name-width", required_argument, NULL, NAME_WIDTH},
    {"shapes-width", required_argument, NULL, SHAPES_WIDTH},
    {"src-width", required_argument, NULL, SRC_WIDTH},
    {"device", required_argument, NULL, DEVICE},
    {"help", no_argument, NULL, 'h'},
    {0, 0, NULL, 0},
};

static bool set(cli_rows *r, int option, const char *value)
{
    int64_t n = 0;
    switch (option) {
    case 's':
        r->table.sort_by = value;
        return true;
    case 'l':
        r->limited = true;
        return cli_parse_count(value, &r->table.row_limit);
    case BY_SHAPE:
        r->group.by_input_shape = true;
        return true;
    case BY_STACK:
        r->group.by_stack = cli_parse_count(value, &n) && n > 0 && n < 100000 ? (uint32_t)n : 0;
        r->group.python_stacks = true;
        return r->group.by_stack != 0;
    case BY_OVERLOAD:
        r->group.by_overload_name = true;
        return true;
    case PYTHON:
        r->group.include_python_functions = true;
        return true;
    case AS_TORCH:
        r->group.as_torch = true;
        return true;
    case JSON:
        r->json = true;
        return true;
    case CSV:
        r->csv = true;
        return true;
    case 'o':
        r->output = value;
        return true;
    case TOP:
        r->table.top_level_events_only = true;
        return true;
    case UNIT:
        r->table.time_unit = value;
        return strcmp(value, "us") == 0 || strcmp(value, "ms") == 0 || strcmp(value, "s") == 0;
    case HEADER:
        r->table.header = value;
        return true;
    case NAME_WIDTH:
        return cli_parse_count(value, &r->table.max_name_column_width);
    case SHAPES_WIDTH:
        return cli_parse_count(value, &r->table.max_shapes_column_width);
    case SRC_WIDTH:
        return cli_parse_count(value, &r->table.max_src_column_width);
    default:
        r->table.device_name = value;
        return true;
    }
}

static const char *name_of(int option)
{
    for (size_t i = 0; options[i].name != NULL; i++)
        if (options[i].val == option)
            return options[i].name;
    return "?";
}

static const char *wanted(int option)
{
    return option == UNIT       ? "us, ms or s"
           : option == BY_STACK ? "a number of frames (1 or more)"
                                : "a number (-1: no limit)";
}

int cli_rows_options(cli_rows *r, int argc, char **argv, const char *help, bool *done)
{
    *r = (cli_rows){MTP_AVERAGES_OPTIONS_INIT, MTP_TABLE_OPTIONS_INIT, NULL, false, false, false, NULL};
    *done = true;
    for (int c; (c = getopt_long(argc, argv, "s:l:o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == '?')
            return cli_usage_error();
        if (!set(r, c, optarg))
            return cli_fail(CLI_USAGE, "--%s '%s': expected %s", name_of(c), optarg, wanted(c));
    }
    if (argc - optind != 1)
        return cli_fail(CLI_USAGE,
                        argc == optind ? "which trace? '%s TRACE'" : "expected one trace: '%s TRACE'",
                        argv[0]);
    if (r->json && r->csv)
        return cli_fail(CLI_USAGE, "--json or --csv, not both");
    r->path = argv[optind];
    *done = false;
    return CLI_OK;
}

static bool has_stacks(const mtp_averages *averages)
{
    for (size_t i = 0; i < mtp_averages_count(averages); i++)
        if (mtp_averages_row(averages, i)->stack_depth > 0)
            return true;
    return false;
}

int cli_rows_load(const cli_rows *r, mtp_trace **trace, mtp_averages **averages)
{
    int code = CLI_OK;
    *averages = NULL;
    *trace = cli_open(r->path, &code);
    if (*trace == NULL)
        return code;
    mtp_status status = mtp_averages_create(*trace, &r->group, averages);
    if (status == MTP_OK && r->table.sort_by != NULL)
        status = mtp_averages_sort(*averages, r->table.sort_by);
    if (status == MTP_OK && r->limited)
        mtp_averages_limit(*averages, r->table.row_limit);
    if (status == MTP_OK && r->group.by_stack != 0 && !has_stacks(*averages))
        cli_fail(CLI_OK,
                 "the trace has no stacks, so --by-stack has no effect; record it with with_stack=True");
    return status == MTP_OK ? CLI_OK : cli_fail_status(status);
}
