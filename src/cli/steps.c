/* cli/steps.c - mtprof steps: how the time of each step was spent. */
#include "cli/cli.h"
#include <string.h>

#define GAPS 5            /* shown */
#define GAP_LEAST_NS 1000 /* shorter ones occur between any two ops */

static const char help[] =
    "usage: mtprof steps [options] TRACE\n\n"
    "For each step (ProfilerStep#N, or prof.step()): its time, and how much of it the CPU was in ops or\n"
    "runtime calls, a device ran kernels or copies, and neither was busy (idle). CPU and device overlap,\n"
    "so these may add up to more than the step. A trace without steps counts as one step. Of several\n"
    "processes that have steps, those of the first are shown; what other processes do does not count.\n\n"
    "A step that took far longer or shorter than most is marked with *, and what took more or less time\n"
    "than usual is listed: own time of ops and kernels, or idle time. Then the longest gaps of all steps:\n"
    "how long nothing ran, when, after what, before what, and in which function or annotation.\n\n"
    "  -l, --limit N          only the first N steps; -1: all (default). The summary covers all steps\n"
    "      --json, --csv      times in microseconds\n"
    "  -o, --output FILE      write --json or --csv to FILE; .gz compresses\n" CLI_COMMON_HELP "\n"
    "  mtprof steps trace.json.gz\n"
    "  mtprof steps --csv trace.json.gz | sort -t, -k7 -n\n";

static const char *time_text(int64_t ns, char text[24])
{
    return cli_time((double)ns / 1e3, text);
}

static void print_times(const char *label, const mtp_step_times *t)
{
    char text[4][24];
    printf("%-8s %12s %12s %12s %12s", label, time_text(t->wall_ns, text[0]), time_text(t->cpu_ns, text[1]),
           time_text(t->device_ns, text[2]), time_text(t->idle_ns, text[3]));
}

/* The engine's scope around a backward op has the op's name at its end, where it would be truncated. */
static void print_cell(mtp_text text, int width)
{
    static const char engine[] = "autograd::engine::evaluate_function: ";
    if (text.length > sizeof engine && memcmp(text.bytes, engine, sizeof engine - 1) == 0)
        text = (mtp_text){text.bytes + sizeof engine - 1, text.length - (sizeof engine - 1)};
    printf("%*s  ", cli_print_name(text.bytes, text.length, width), "");
}

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

static void print_outliers(const mtp_steps *steps)
{
    const mtp_step_row *r;
    char text[24];
    for (size_t i = 0; (r = mtp_steps_row(steps, i)) != NULL; i++) {
        if (!r->is_outlier)
            continue;
        printf("\n* step %lld took %s %s than usual:", (long long)r->number,
               time_text(r->more_ns < 0 ? -r->more_ns : r->more_ns, text), r->more_ns < 0 ? "less" : "more");
        for (uint32_t k = 0; k < r->reason_count; k++) {
            const mtp_step_reason *reason = &r->reasons[k];
            printf("\n    %c%-11s ", reason->ns < 0 ? '-' : '+',
                   time_text(reason->ns < 0 ? -reason->ns : reason->ns, text));
            cli_print_name(reason->what.bytes, reason->what.length, 60);
            if (reason->calls != 0)
                printf(", %lld call%s %s", (long long)(reason->calls < 0 ? -reason->calls : reason->calls),
                       reason->calls == 1 || reason->calls == -1 ? "" : "s",
                       reason->calls < 0 ? "fewer" : "more");
        }
        printf("%s\n", r->reason_count == 0 ? " many small differences" : "");
    }
}

static void print_gaps(const mtp_steps *steps, bool of_device)
{
    const mtp_step_gap *g;
    size_t shown = 0;
    int width = (cli_name_width(36, 112) - 4) / 3; /* three names */
    for (; shown < GAPS && (g = mtp_steps_gap(steps, of_device, shown)) != NULL; shown++) {
        char length[24], at[24], step[24] = "all";
        if (g->end_ns - g->start_ns < GAP_LEAST_NS)
            break;
        if (shown == 0)
            printf("\n%s%-12s %-6s %12s  %-*s  %-*s  %s%s\n", cli_bold(stdout),
                   of_device ? "device idle" : "idle", "step", "at", width, "after", width, "before", "in",
                   cli_plain(stdout));
        if (g->step >= 0)
            snprintf(step, sizeof step, "%lld", (long long)g->step);
        printf("%-12s %-6s %12s  ", time_text(g->end_ns - g->start_ns, length), step,
               time_text(g->offset_ns, at));
        print_cell(g->after.length > 0 ? g->after : (mtp_text){"(the step's start)", 18}, width);
        print_cell(g->before.length > 0 ? g->before : (mtp_text){"(the step's end)", 16}, width);
        cli_print_name(g->inside.bytes, g->inside.length, width);
        putchar('\n');
    }
    size_t more = mtp_steps_gap_count(steps, of_device) - shown;
    if (shown == GAPS && more > 0)
        printf("%s... and shorter ones; --json has more%s\n", cli_dim(stdout), cli_plain(stdout));
}

static int print_steps(const mtp_steps *steps, int64_t limit)
{
    size_t count = mtp_steps_count(steps);
    if (mtp_steps_is_whole_trace(steps))
        printf("The trace has no steps: use a schedule, or call step(). The trace as a whole:\n\n");
    printf("%s%-8s %12s %12s %12s %12s %7s %9s %9s%s\n", cli_bold(stdout), "step", "time", "cpu", "device",
           "idle", "idle %", "ops", "kernels", cli_plain(stdout));
    for (size_t i = 0; i < count && (limit < 0 || (int64_t)i < limit); i++) {
        const mtp_step_row *r = mtp_steps_row(steps, i);
        char label[24] = "all";
        if (r->number >= 0)
            snprintf(label, sizeof label, "%lld%s", (long long)r->number, r->is_outlier ? "*" : "");
        print_times(label, &r->times);
        printf(" %6.1f%% %9llu %9llu\n", percent(r->times.idle_ns, r->times.wall_ns),
               (unsigned long long)r->ops, (unsigned long long)r->kernels);
    }
    if (limit >= 0 && (uint64_t)limit < count)
        printf("%s... and %zu more%s\n", cli_dim(stdout), count - (size_t)limit, cli_plain(stdout));
    if (count > 1) {
        const mtp_step_times *mean = mtp_steps_summary(steps, MTP_STEP_MEAN);
        print_times("mean", mean);
        printf(" %6.1f%%\n", percent(mean->idle_ns, mean->wall_ns));
        print_times("p50", mtp_steps_summary(steps, MTP_STEP_P50));
        printf("\n");
        print_times("max", mtp_steps_summary(steps, MTP_STEP_MAX));
        printf("\n");
    }
    print_outliers(steps);
    print_gaps(steps, false);
    print_gaps(steps, true);
    return CLI_OK;
}

static int run(const char *path, const char *output, bool json, bool csv, int64_t limit)
{
    int code = CLI_OK;
    mtp_trace *trace = cli_open(path, &code);
    mtp_steps *steps = NULL;
    if (trace == NULL)
        return code;
    mtp_status status = mtp_steps_create(trace, &steps);
    cli_out out;
    if (mtp_steps_process(steps) != 0)
        cli_note("several processes have steps; these are those of process %lld: --process selects another",
                 (long long)mtp_steps_process(steps));
    if (status != MTP_OK) {
        code = cli_fail_status(status);
    } else if (!json && !csv) {
        code = print_steps(steps, limit);
    } else {
        mtp_steps_limit(steps, limit);
        code = cli_create(&out, output);
        if (code == CLI_OK)
            code = cli_close(&out, csv ? mtp_steps_csv(steps, out.sink, out.user)
                                       : mtp_steps_json(steps, out.sink, out.user));
    }
    mtp_steps_destroy(steps);
    mtp_trace_destroy(trace);
    return code;
}

int cli_steps(int argc, char **argv)
{
    enum {
        JSON = 256,
        CSV
    };
    static const struct option options[] = {
        {"limit", required_argument, NULL, 'l'}, {"output", required_argument, NULL, 'o'},
        {"json", no_argument, NULL, JSON},       {"csv", no_argument, NULL, CSV},
        {"help", no_argument, NULL, 'h'},        {0, 0, NULL, 0}};
    const char *output = NULL;
    bool json = false, csv = false;
    int64_t limit = -1;
    for (int c; (c = getopt_long(argc, argv, "l:o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'o')
            output = optarg;
        else if (c == JSON)
            json = true;
        else if (c == CSV)
            csv = true;
        else if (c != 'l')
            return cli_usage_error();
        else if (!cli_parse_count(optarg, &limit))
            return cli_fail(CLI_USAGE, "'%s' is not a number of steps", optarg);
    }
    if (argc - optind != 1)
        return cli_fail(CLI_USAGE, "expected one trace: 'mtprof steps TRACE'");
    if (json && csv)
        return cli_fail(CLI_USAGE, "--json or --csv, not both");
    if (output != NULL && !json && !csv)
        return cli_fail(CLI_USAGE, "-o needs --json or --csv");
    return run(argv[optind], output, json, csv, limit);
}
