/* tests/tools/rows.c - prints the rows or tables of a trace, for tests/golden/torch_diff.py.
 *
 *   rows TRACE json|csv|chrome|table|stacks [option...]
 *
 * Options: shapes, overloads, stack=N, top, python, torch (of create); sort=ATTRIBUTE, limit=N, name=N,
 * shape=N, source=N, unit=U, header=TEXT, toplevel (of table).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <mtprof.h>

static const char *value_of(const char *arg, const char *key)
{
    size_t length = strlen(key);
    return strncmp(arg, key, length) == 0 && arg[length] == '=' ? arg + length + 1 : NULL;
}

static int die(const char *what)
{
    fprintf(stderr, "rows: %s: %s\n", what, mtp_last_error());
    return 1;
}

static mtp_status print(const mtp_averages *rows, const char *form, const mtp_table_options *table)
{
    return strcmp(form, "json") == 0     ? mtp_averages_json(rows, mtp_sink_file, stdout)
           : strcmp(form, "csv") == 0    ? mtp_averages_csv(rows, mtp_sink_file, stdout)
           : strcmp(form, "chrome") == 0 ? mtp_averages_chrome(rows, mtp_sink_file, stdout)
                                         : mtp_averages_table(rows, table, mtp_sink_file, stdout);
}

int main(int argc, char **argv)
{
    mtp_averages_options by = MTP_AVERAGES_OPTIONS_INIT;
    mtp_table_options table = MTP_TABLE_OPTIONS_INIT;
    mtp_trace *trace;
    mtp_averages *rows;
    if (argc < 3)
        return 2;
    for (int i = 3; i < argc; i++) {
        const char *arg = argv[i], *value;
        by.by_input_shape |= strcmp(arg, "shapes") == 0;
        by.by_overload_name |= strcmp(arg, "overloads") == 0;
        by.include_python_functions |= strcmp(arg, "python") == 0;
        by.as_torch |= strcmp(arg, "torch") == 0;
        by.top_level_only |= strcmp(arg, "top") == 0;
        table.top_level_events_only |= strcmp(arg, "toplevel") == 0;
        if ((value = value_of(arg, "stack")) != NULL)
            by.by_stack = (uint32_t)atoi(value);
        if ((value = value_of(arg, "sort")) != NULL)
            table.sort_by = value;
        if ((value = value_of(arg, "limit")) != NULL)
            table.row_limit = atoi(value);
        if ((value = value_of(arg, "name")) != NULL)
            table.max_name_column_width = atoi(value);
        if ((value = value_of(arg, "shape")) != NULL)
            table.max_shapes_column_width = atoi(value);
        if ((value = value_of(arg, "source")) != NULL)
            table.max_src_column_width = atoi(value);
        if ((value = value_of(arg, "unit")) != NULL)
            table.time_unit = value;
        if ((value = value_of(arg, "header")) != NULL)
            table.header = value;
    }
    if (mtp_trace_open(argv[1], NULL, &trace) != MTP_OK)
        return die("open");
    if (strcmp(argv[2], "stacks") == 0) {
        if (mtp_trace_stacks(trace, "self_cpu_time_total", mtp_sink_file, stdout) != MTP_OK)
            return die("stacks");
        mtp_trace_destroy(trace);
        return 0;
    }
    if (mtp_averages_create(trace, &by, &rows) != MTP_OK)
        return die("averages");
    if (print(rows, argv[2], &table) != MTP_OK)
        return die(argv[2]);
    mtp_averages_destroy(rows);
    mtp_trace_destroy(trace);
    return 0;
}
