/* cli/memory.c - mtprof memory: memory over time, and the blocks alive at the peak. */
#include "cli/cli.h"
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: mtprof memory [options] TRACE\n\n"
    "Bytes in use over time by category, and the largest blocks alive at the peak. The trace must have\n"
    "been recorded with profile_memory. Each block is shown with the op it was allocated for and, if\n"
    "stacks were recorded, the line of the program that led to it.\n\n"
    "  -d, --device D         cpu, npu:0, cuda:0 ...; default: the one with the most traffic\n"
    "  -l, --limit N          number of blocks; -1: all. Default 15; with --json all\n"
    "      --json             everything as one JSON object\n"
    "  -o, --output FILE      with --json the object; else what torch's export_memory_timeline writes:\n"
    "                         .json or .json.gz  [times_us, sizes by category]\n"
    "                         raw.json.gz        rows [time_ns, action, bytes, category]\n" CLI_COMMON_HELP
    "\n"
    "Categories come from the recorded program (mindtorch_v2 reports them). PyTorch's traces have none:\n"
    "there they are inferred from where a block was allocated and freed, and the rest is Unknown, such as\n"
    "parameters and most inputs.\n\n"
    "  mtprof memory run.mtp\n"
    "  mtprof memory --device cuda:0 --limit 40 trace.json.gz\n"
    "  mtprof memory --json trace.json.gz | jq .peak.by_category\n";

enum {
    ROWS = MTP_MEMORY_CATEGORIES + 1, /* the categories, then the total */
    TOTAL = MTP_MEMORY_CATEGORIES,
    WIDTH_MAX = 160
};

typedef struct chart {
    int64_t from, to; /* ns */
    int width;
    int64_t top[ROWS][WIDTH_MAX]; /* the maximum in each column */
    int64_t now[ROWS];
    int at;      /* column of `now` */
    bool before; /* the first point is what was in use before the trace */
} chart;

/* ------------------------------------------------------------------------------------------------ texts */

static const char *bytes_text(int64_t bytes, char text[24])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; (value >= 1024 || value <= -1024) && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    snprintf(text, 24, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return text;
}

static const char *time_text(int64_t ns, char text[24])
{
    return cli_time_spaced((double)ns / 1e3, " ", text);
}

/* ------------------------------------------------------------------------------------------------ chart */

static int chart_width(void)
{
    int n = cli_columns(stdout);
    n = (n > 0 ? n : 100) - 34; /* the label and the largest value */
    return n < 20 ? 20 : n > WIDTH_MAX ? WIDTH_MAX : n;
}

static void fill(chart *c, int to)
{
    for (; c->at < to; c->at++)
        for (int r = 0; r < ROWS; r++)
            if (c->now[r] > c->top[r][c->at + 1])
                c->top[r][c->at + 1] = c->now[r];
}

static bool on_point(void *user, const mtp_memory_point *point)
{
    chart *c = user;
    double fraction =
        c->to > c->from ? ((double)point->ns - (double)c->from) / ((double)c->to - (double)c->from) : 0;
    int column = fraction <= 0 ? 0 : fraction >= 1 ? c->width - 1 : (int)(fraction * c->width);
    if (c->before)
        column = 0;
    c->before = false;
    fill(c, column < c->width ? column : c->width - 1);
    c->now[TOTAL] = 0;
    for (int r = 0; r < MTP_MEMORY_CATEGORIES; r++) {
        c->now[r] = point->bytes[r];
        c->now[TOTAL] = (int64_t)((uint64_t)c->now[TOTAL] + (uint64_t)point->bytes[r]);
    }
    for (int r = 0; r < ROWS; r++)
        if (c->now[r] > c->top[r][c->at])
            c->top[r][c->at] = c->now[r];
    return true;
}

/* One line of the chart, on the scale of the peak. */
static void print_row(const chart *c, int row, int64_t peak, bool unicode)
{
    static const char *const blocks[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const ascii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
    char text[24];
    int64_t most = 0;
    for (int x = 0; x < c->width; x++)
        most = c->top[row][x] > most ? c->top[row][x] : most;
    if (most == 0 && row != TOTAL)
        return;
    printf("  %s%-16s%s|", row == TOTAL ? cli_bold(stdout) : "",
           row == TOTAL ? "total" : mtp_memory_category_text((mtp_memory_category)row),
           row == TOTAL ? cli_plain(stdout) : "");
    for (int x = 0; x < c->width; x++) {
        double fraction = peak > 0 ? (double)c->top[row][x] / (double)peak : 0;
        int level = c->top[row][x] <= 0 ? 0 : 1 + (int)(fraction * 7.999);
        fputs((unicode ? blocks : ascii)[level > 8 ? 8 : level], stdout);
    }
    printf("| %s\n", bytes_text(most, text));
}

/* Can the terminal show characters beyond ASCII? */
static bool terminal_has_unicode(void)
{
    locale_t user = isatty(STDOUT_FILENO) ? newlocale(LC_CTYPE_MASK, "", (locale_t)0) : (locale_t)0;
    bool unicode = user != (locale_t)0 && strcmp(nl_langinfo_l(CODESET, user), "UTF-8") == 0;
    if (user != (locale_t)0)
        freelocale(user);
    return unicode;
}

static void print_chart(const mtp_trace *trace, const mtp_memory_timeline *timeline,
                        const mtp_memory_info *info)
{
    static chart c;
    mtp_trace_info about = MTP_TRACE_INFO_INIT;
    char text[24], bytes[24];
    mtp_trace_get_info(trace, &about);
    c = (chart){.from = about.first_ns,
                .to = about.last_ns,
                .width = chart_width(),
                .before = info->preexisting_bytes != 0};
    mtp_memory_timeline_points(timeline, on_point, &c);
    fill(&c, c.width - 1);
    bool unicode = terminal_has_unicode();
    printf("%s%s%s over %s: %llu allocations of %s, %llu frees\n\n", cli_bold(stdout), info->device,
           cli_plain(stdout), time_text(about.last_ns - about.first_ns, text),
           (unsigned long long)info->allocations, bytes_text(info->allocated_bytes, bytes),
           (unsigned long long)info->frees);
    for (int row = TOTAL; row >= 0; row--)
        print_row(&c, row == TOTAL ? TOTAL : TOTAL - 1 - row, info->peak_bytes, unicode);
}

/* ----------------------------------------------------------------------------------------------- blocks */

static void print_peak(const mtp_trace *trace, const mtp_memory_info *info)
{
    mtp_trace_info about = MTP_TRACE_INFO_INIT;
    char bytes[24], text[24];
    mtp_trace_get_info(trace, &about);
    printf("\n%speak %s%s at %s", cli_bold(stdout), bytes_text(info->peak_bytes, bytes), cli_plain(stdout),
           time_text(info->peak_ns - about.first_ns, text));
    const char *separator = ": ";
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
        if (info->peak_by_category[k] > 0) {
            printf("%s%s %s", separator, mtp_memory_category_text((mtp_memory_category)k),
                   bytes_text(info->peak_by_category[k], bytes));
            separator = ", ";
        }
    printf("\n");
    if (info->preexisting_bytes > 0)
        printf("%s were in use before the first event\n", bytes_text(info->preexisting_bytes, bytes));
    if (info->lost_events > 0 || info->unaccounted_bytes != 0)
        printf("note: %llu events are missing, and the allocator's own total differs by %s at the end\n",
               (unsigned long long)info->lost_events, bytes_text(info->unaccounted_bytes, bytes));
}

/* A long location loses its start: the file's name and line are at its end. */
static void print_end(mtp_text text, int width)
{
    size_t room = width > 3 ? (size_t)width - 3 : 0;
    if (text.length > (size_t)width && room > 0) {
        fputs("...", stdout);
        text = (mtp_text){text.bytes + text.length - room, room};
    }
    cli_print_name(text.bytes, text.length, (int)text.length + 3);
}

static void print_blocks(const mtp_trace *trace, const mtp_memory_timeline *timeline,
                         const mtp_memory_info *info, int64_t limit)
{
    mtp_trace_info about = MTP_TRACE_INFO_INIT;
    mtp_trace_get_info(trace, &about);
    if (info->peak_blocks == 0 || limit == 0)
        return;
    const mtp_memory_block *b;
    int width = cli_name_width(58, 92), by = width * 2 / 5;
    size_t shown = 0;
    bool sources = false;
    for (size_t i = 0; !sources && (b = mtp_memory_timeline_block(timeline, i)) != NULL; i++)
        sources = b->source.length > 0;
    by = sources ? by : width;
    printf("\n%s%12s  %-16s %12s %12s  %-*s%s%s\n", cli_bold(stdout), "bytes", "category", "made", "freed",
           sources ? by + 2 : 0, "by", sources ? "at" : "", cli_plain(stdout));
    for (; (limit < 0 || (int64_t)shown < limit) && (b = mtp_memory_timeline_block(timeline, shown)) != NULL;
         shown++) {
        char made[24] = "before", freed[24] = "-";
        mtp_text what = b->maker;
        if (b->created_ns != INT64_MIN)
            time_text(b->created_ns - about.first_ns, made);
        if (b->freed_ns != INT64_MAX)
            time_text(b->freed_ns - about.first_ns, freed);
        if (b->address == 0 && b->created_ns == INT64_MIN)
            what = (mtp_text){"(before the trace)", 18};
        printf("%12lld  %-16s %12s %12s  ", (long long)b->bytes, mtp_memory_category_text(b->category), made,
               freed);
        int left = cli_print_name(what.bytes, what.length, by);
        if (b->source.length > 0) {
            printf("%*s  ", left, "");
            print_end(b->source, width - by - 2);
        }
        printf("\n");
    }
    if (shown < info->peak_blocks)
        printf("%s... and %llu more; --limit -1 shows all%s\n", cli_dim(stdout),
               (unsigned long long)(info->peak_blocks - shown), cli_plain(stdout));
}

/* An empty timeline is an error in every output format. */
static int check_events(const mtp_memory_timeline *timeline, const mtp_memory_info *info)
{
    if (mtp_memory_timeline_device(timeline, 0) == NULL)
        return cli_fail(
            CLI_INPUT,
            "the trace has no memory events; record it with profile_memory, or 'mtprof run --memory'");
    if (info->allocations + info->frees == 0 && info->preexisting_bytes == 0) {
        char names[256] = "";
        const char *name;
        for (size_t i = 0; (name = mtp_memory_timeline_device(timeline, i)) != NULL; i++)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? ", " : "", name);
        return cli_fail(CLI_USAGE, "no memory events for %s; the trace has some for %s", info->device, names);
    }
    return CLI_OK;
}

static int show(const mtp_trace *trace, const mtp_memory_timeline *timeline, const mtp_memory_info *info,
                int64_t limit)
{
    print_chart(trace, timeline, info);
    print_peak(trace, info);
    print_blocks(trace, timeline, info, limit);
    return CLI_OK;
}

/* ------------------------------------------------------------------------------------------------- verb */

typedef struct wishes {
    const char *device, *output;
    int64_t limit;
    bool json;
} wishes;

static int run(const char *path, const wishes *w)
{
    int code = CLI_OK;
    mtp_trace *trace = cli_open(path, &code);
    mtp_memory_timeline *timeline = NULL;
    if (trace == NULL)
        return code;
    mtp_memory_info info = MTP_MEMORY_INFO_INIT;
    mtp_status status = mtp_memory_timeline_create(trace, w->device, &timeline);
    if (status == MTP_OK)
        status = mtp_memory_timeline_info(timeline, &info);
    cli_out out;
    if (status != MTP_OK) {
        code = cli_fail_status(status);
    } else if ((code = check_events(timeline, &info)) != CLI_OK) {
        ; /* already reported */
    } else if (!w->json && w->output == NULL) {
        code = show(trace, timeline, &info, w->limit);
    } else {
        code = cli_create(&out, w->output);
        if (code == CLI_OK && w->json)
            code = cli_close(&out, mtp_memory_timeline_summary(timeline, w->limit, out.sink, out.user));
        else if (code == CLI_OK && cli_ends(w->output, "raw.json.gz"))
            code = cli_close(&out, mtp_memory_timeline_raw(timeline, out.sink, out.user));
        else if (code == CLI_OK)
            code = cli_close(&out, mtp_memory_timeline_json(timeline, out.sink, out.user));
    }
    mtp_memory_timeline_destroy(timeline);
    mtp_trace_destroy(trace);
    return code;
}

int cli_memory(int argc, char **argv)
{
    enum {
        JSON = 256
    };
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'}, {"limit", required_argument, NULL, 'l'},
        {"output", required_argument, NULL, 'o'}, {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, 'h'},         {0, 0, NULL, 0}};
    wishes w = {.limit = 15};
    bool limited = false;
    for (int c; (c = getopt_long(argc, argv, "d:l:o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'd')
            w.device = optarg;
        else if (c == 'o')
            w.output = optarg;
        else if (c == JSON)
            w.json = true;
        else if (c == 'l' && cli_parse_count(optarg, &w.limit))
            limited = true;
        else if (c == 'l')
            return cli_fail(CLI_USAGE, "'%s' is not a number of blocks", optarg);
        else
            return cli_usage_error();
    }
    if (argc - optind != 1)
        return cli_fail(CLI_USAGE, "expected one trace: 'mtprof memory TRACE'");
    if (w.output != NULL && !w.json && strcmp(w.output, "-") != 0 && !cli_ends(w.output, ".json") &&
        !cli_ends(w.output, ".json.gz"))
        return cli_fail(CLI_USAGE, "'%s' must end in .json, .json.gz or raw.json.gz", w.output);
    if (w.json && !limited)
        w.limit = -1;
    return run(argv[optind], &w);
}
