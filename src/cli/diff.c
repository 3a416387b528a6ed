/* cli/diff.c - mtprof diff: compares two traces, with an exit code for CI gates. */
#include "cli/cli.h"
#include <math.h>
#include <string.h>

#define BESIDE 82 /* columns of all but the name, up to the verdict */
#define ALLOWED 0.05

static const char help[] =
    "usage: mtprof diff [options] BEFORE AFTER\n\n"
    "Compares two runs, row by row. Columns: calls per step (without steps: in total); the typical time\n"
    "of one call before and after, without outliers, and its change; own: the change without its callees;\n"
    "per step: the change of its own time over all calls in a step.\n\n"
    "Verdicts account for noise. A change that all rows share is drift of the machine and is not held\n"
    "against them. A row is slower or faster if its change is unlikely to be chance among so many rows,\n"
    "also shows in the fastest calls, and is large enough. It has more or fewer calls if every step shows\n"
    "that. With few calls or much noise it is 'uncertain'. Steps are compared by their means or, if there\n"
    "are few, by rank. Two runs of the same program fail in at most about 1 of 100 cases.\n\n"
    "  -f, --fail-over PCT    fail (exit code 1) if something is slower by more than this; default 5%\n"
    "      --by-shape         one row per input shape\n"
    "      --normalize        remove drift, whatever its size\n"
    "      --max-drift PCT    attribute drift up to this to the machine, more to the program; default 10%\n"
    "  -l, --limit N          number of rows; -1: all. Default 20; with --json all\n"
    "      --json             all numbers as JSON\n"
    "  -o, --output FILE      write --json to FILE\n" CLI_COMMON_HELP "\n"
    "Exit code: 0 nothing is slower than allowed, 1 something is, 2 wrong usage, 3 bad input.\n\n"
    "  mtprof diff main.json.gz branch.json.gz\n"
    "  mtprof diff main.mtp branch.mtp --fail-over 10% || exit 1\n"
    "  mtprof diff a.mtp b.mtp --json | jq '.rows[] | select(.verdict == \"slower\") | .key'\n";

typedef struct arguments {
    mtp_diff_options diff;
    double allowed;
    int64_t limit;
    bool json, limited;
    const char *output, *before, *after;
} arguments;

/* ------------------------------------------------------------------------------------------- printing */

static const char *change_text(double change, char text[24])
{
    if (change >= 9.995)
        snprintf(text, 24, "x%.0f", change + 1);
    else
        snprintf(text, 24, "%+.1f%%", 100 * change);
    return text;
}

static const char *verdict_colour(mtp_verdict verdict)
{
    return verdict == MTP_VERDICT_SLOWER   ? cli_red(stdout)
           : verdict == MTP_VERDICT_FASTER ? cli_green(stdout)
           : verdict == MTP_VERDICT_SAME   ? cli_dim(stdout)
                                           : "";
}

static void print_row(const mtp_diff_row *r, bool has_steps, bool by_shape, int width)
{
    char before[24], after[24], change[24], own[24], calls[48], step[24], more[48] = "";
    bool both = r->verdict != MTP_VERDICT_NEW && r->verdict != MTP_VERDICT_GONE;
    bool changed = r->verdict == MTP_VERDICT_SLOWER || r->verdict == MTP_VERDICT_FASTER;
    bool of_calls = r->verdict == MTP_VERDICT_MORE_CALLS || r->verdict == MTP_VERDICT_FEWER_CALLS;
    if (r->calls_before == r->calls_after)
        snprintf(calls, sizeof calls, "%.5g", r->calls_after);
    else
        snprintf(calls, sizeof calls, "%.5g -> %.5g", r->calls_before, r->calls_after);
    double more_us = r->step_time_after - r->step_time_before;
    if (of_calls)
        snprintf(more, sizeof more, ", %c%s%s", more_us < 0 ? '-' : '+', cli_time(fabs(more_us), own),
                 has_steps ? " a step" : "");
    fputs(verdict_colour(r->verdict), stdout);
    printf("%*s %-6s %14s %10s %10s %8s %8s %8s  %s%s%s%s\n", cli_print_name(r->key, r->key_length, width),
           "", r->is_device ? "device" : "cpu", calls,
           r->verdict == MTP_VERDICT_NEW ? "-" : cli_time(r->time_before, before),
           r->verdict == MTP_VERDICT_GONE ? "-" : cli_time(r->time_after, after),
           both ? change_text(r->change, change) : "-", both ? change_text(r->own_change, own) : "-",
           both && r->step_time_before > 0 ? change_text(r->step_time_after / r->step_time_before - 1, step)
                                           : "-",
           mtp_verdict_text(r->verdict), more,
           changed && r->own_verdict == MTP_VERDICT_SAME ? ", in its callees" : "", cli_plain(stdout));
    if (by_shape && r->input_shapes_length > 2) {
        fputs("    ", stdout);
        cli_print_name(r->input_shapes, r->input_shapes_length, (int)r->input_shapes_length + 3);
        putchar('\n');
    }
}

static void print_steps(const mtp_diff_summary *s, const arguments *a)
{
    char before[24], after[24], change[24], low[2][24], high[2][24];
    bool aside = s->step_verdict == MTP_VERDICT_SAME && fabs(s->step_change) > a->diff.threshold;
    printf("steps: %llu -> %llu, typically %s -> %s (%s): %s%s\n", (unsigned long long)s->steps_before,
           (unsigned long long)s->steps_after, cli_time(s->step_before, before),
           cli_time(s->step_after, after), change_text(s->step_change, change),
           mtp_verdict_text(s->step_verdict), aside ? ", apart from drift" : "");
    printf("       before %s to %s, after %s to %s\n", cli_time(s->step_before_min, low[0]),
           cli_time(s->step_before_max, high[0]), cli_time(s->step_after_min, low[1]),
           cli_time(s->step_after_max, high[1]));
}

static void print_summary(const mtp_diff_summary *s, const arguments *a)
{
    char change[24];
    if (s->has_drift && s->drift_verdict != MTP_VERDICT_SAME)
        printf("drift: all rows changed by %s, more than the %g%% attributed to the machine; noise %.1f%%\n",
               change_text(s->drift, change), 100 * a->diff.max_drift, 100 * s->spread);
    else if (s->has_drift)
        printf("drift: rows share a change of %s, %s; noise %.1f%%\n", change_text(s->drift, change),
               a->diff.normalize                    ? "removed here"
               : fabs(s->drift) > a->diff.max_drift ? "which may be the machine's and is ignored"
                                                    : "attributed to the machine and ignored",
               100 * s->spread);
    else
        printf("drift: unknown; there are too few rows, or they do not change together\n");
    if (s->steps_before > 0 && s->steps_after > 0)
        print_steps(s, a);
}

static int print_verdict(const mtp_diff *diff, const mtp_diff_summary *s, double allowed)
{
    bool slower = mtp_diff_slower(diff, allowed);
    const struct {
        uint64_t count;
        const char *what;
    } parts[] = {{s->slower, "slower"},
                 {s->faster, "faster"},
                 {s->more_calls, "more calls"},
                 {s->fewer_calls, "fewer calls"},
                 {s->same, "same"},
                 {s->uncertain, "uncertain"},
                 {s->appeared, "new"},
                 {s->gone, "gone"}};
    bool changed =
        s->slower + s->faster + s->more_calls + s->fewer_calls > 0 || s->step_verdict != MTP_VERDICT_SAME;
    printf("%s%s%s; of %llu rows", slower ? cli_red(stdout) : cli_green(stdout),
           slower    ? "slower than allowed"
           : changed ? "nothing is slower than allowed"
                     : "no change beyond noise",
           cli_plain(stdout), (unsigned long long)s->rows);
    const char *separator = ": ";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].count > 0) {
            printf("%s%llu %s", separator, (unsigned long long)parts[i].count, parts[i].what);
            separator = ", ";
        }
    putchar('\n');
    return slower ? CLI_FOUND : CLI_OK;
}

static int print_diff(const mtp_diff *diff, const arguments *a)
{
    mtp_diff_summary summary = MTP_DIFF_SUMMARY_INIT;
    mtp_diff_get_summary(diff, &summary);
    size_t count = mtp_diff_count(diff);
    int width = cli_name_width(BESIDE, 46);
    bool has_steps = summary.steps_before > 0 && summary.steps_after > 0;
    printf("%s%-*s %-6s %14s %10s %10s %8s %8s %8s  %s%s\n", cli_bold(stdout), width, "name", "where",
           has_steps ? "calls/step" : "calls", "before", "after", "change", "own",
           has_steps ? "per step" : "total", "verdict", cli_plain(stdout));
    for (size_t i = 0; i < count && (a->limit < 0 || (int64_t)i < a->limit); i++)
        print_row(mtp_diff_row_at(diff, i), has_steps, a->diff.by_input_shape, width);
    if (a->limit >= 0 && count > (size_t)a->limit)
        printf("%s... and %zu more%s\n", cli_dim(stdout), count - (size_t)a->limit, cli_plain(stdout));
    print_summary(&summary, a);
    return print_verdict(diff, &summary, a->allowed);
}

/* ------------------------------------------------------------------------------------------ arguments */

enum {
    BY_SHAPE = 256,
    NORMALIZE,
    MAX_DRIFT,
    JSON
};

static bool set(arguments *a, int option, const char *value)
{
    switch (option) {
    case 'f':
        return cli_parse_fraction(value, &a->allowed) && a->allowed > 0 && isfinite(a->allowed);
    case 'l':
        a->limited = true;
        return cli_parse_count(value, &a->limit);
    case 'o':
        a->output = value;
        return true;
    case BY_SHAPE:
        a->diff.by_input_shape = true;
        return true;
    case NORMALIZE:
        a->diff.normalize = true;
        return true;
    case MAX_DRIFT:
        return cli_parse_fraction(value, &a->diff.max_drift) && isfinite(a->diff.max_drift);
    default:
        a->json = true;
        return true;
    }
}

static int parse(arguments *a, int argc, char **argv, bool *done)
{
    static const struct option options[] = {{"fail-over", required_argument, NULL, 'f'},
                                            {"by-shape", no_argument, NULL, BY_SHAPE},
                                            {"normalize", no_argument, NULL, NORMALIZE},
                                            {"max-drift", required_argument, NULL, MAX_DRIFT},
                                            {"limit", required_argument, NULL, 'l'},
                                            {"json", no_argument, NULL, JSON},
                                            {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    *a = (arguments){.diff = MTP_DIFF_OPTIONS_INIT, .allowed = ALLOWED, .limit = 20};
    *done = true;
    for (int c; (c = getopt_long(argc, argv, "f:l:o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == '?')
            return cli_usage_error();
        if (!set(a, c, optarg))
            return cli_fail(CLI_USAGE, "'%s' is not %s", optarg,
                            c == 'l' ? "a number of rows"
                                     : "a percentage or fraction above 0, such as 5% or 0.05");
    }
    if (argc - optind != 2)
        return cli_fail(CLI_USAGE, "expected two traces: 'mtprof diff BEFORE AFTER'");
    a->before = argv[optind];
    a->after = argv[optind + 1];
    if (strcmp(a->before, "-") == 0 && strcmp(a->after, "-") == 0)
        return cli_fail(CLI_USAGE, "only one of the two can be standard input");
    if (a->output != NULL && !a->json)
        return cli_fail(CLI_USAGE, "-o needs --json");
    if (a->allowed < a->diff.threshold)
        a->diff.threshold = a->allowed; /* what fails must be shown */
    *done = false;
    return CLI_OK;
}

static int show(mtp_diff *diff, const arguments *a)
{
    cli_out out;
    if (!a->json)
        return print_diff(diff, a);
    mtp_diff_limit(diff, a->limited ? a->limit : -1);
    int code = cli_create(&out, a->output);
    if (code == CLI_OK)
        code = cli_close(&out, mtp_diff_json(diff, out.sink, out.user));
    return code != CLI_OK ? code : mtp_diff_slower(diff, a->allowed) ? CLI_FOUND : CLI_OK;
}

int cli_diff(int argc, char **argv)
{
    arguments a;
    bool done;
    int code = parse(&a, argc, argv, &done);
    if (done)
        return code;
    mtp_trace *after = NULL, *before = cli_open(a.before, &code);
    if (before != NULL)
        after = cli_open(a.after, &code);
    mtp_diff *diff = NULL;
    if (after != NULL) {
        mtp_status status = mtp_diff_create(before, after, &a.diff, &diff);
        code = status == MTP_OK ? show(diff, &a) : cli_fail_status(status);
    }
    mtp_diff_destroy(diff);
    mtp_trace_destroy(before);
    mtp_trace_destroy(after);
    return code;
}
