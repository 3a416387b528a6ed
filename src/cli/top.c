/* cli/top.c - mtprof top: watches a recording while its program writes it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/top/top.h"

static const char help[] =
    "usage: mtprof top [options] FILE.mtp|FOLDER|PID\n\n"
    "Shows what a program is doing while it is recorded: ops by their own time, rates, memory, steps,\n"
    "losses, and what each thread is in now. Only reads the spool; the program does not notice. A PID is\n"
    "that of a recorded process, or of 'mtprof run'.\n\n"
    "  -d, --delay S          seconds between two refreshes; default 1\n"
    "  -n, --count N          print so many blocks of plain text, and end\n"
    "  -b, --batch            plain text, also on a terminal; ends with the recording\n"
    "  -w, --window S         show the last S seconds, not all since the start; rates: default 5\n"
    "  -s, --sort KEY         self, recent, total, calls, rate, mean or name; default self\n"
    "  -r, --reverse          the smallest first\n"
    "  -l, --limit N          rows; -1: all. Default: as many as fit, 20 in plain text\n"
    "  -t, --threads          show threads and the scopes that they are in\n"
    "      --python-functions also rows for Python functions\n"
    "      --process PID      only this process, if there are several; main: the main one\n" CLI_MEMORY_HELP
    "\n"
    "On a terminal: q quits, s sorts, r reverses, w changes between the start and the last seconds, t\n"
    "shows threads, p pauses, ? shows all keys.\n\n"
    "  mtprof top run.mtp\n"
    "  mtprof top 4711\n"
    "  mtprof top -n 1 --threads 4711      # what does it hang in?\n";

enum {
    PYTHON = 256,
    ROWS_PLAIN = 20
};
#define READ_MOST_NS 100000000 /* in a refresh: keys are answered in between */

static bool parse_sort(const char *text, int *sort)
{
    static const char *const names[] = {
#define X(name, title) #name,
        TOP_SORT_LIST(X)
#undef X
    };
    for (int i = 0; i < TOP_SORTS; i++)
        if (strcmp(text, names[i]) == 0) {
            *sort = i;
            return true;
        }
    return false;
}

/* Exit code. */
static int take(top_options *o, int option, const char *value)
{
    switch (option) {
    case 'd':
        if (!cli_parse_seconds(value, &o->delay_ns) || o->delay_ns < 10000000)
            return cli_fail(CLI_USAGE, "--delay '%s': expected seconds, at least 0.01", value);
        break;
    case 'w':
        o->recent = true;
        if (!cli_parse_seconds(value, &o->window_ns) || o->window_ns < 1000000 ||
            o->window_ns > 1000000000000000)
            return cli_fail(CLI_USAGE, "--window '%s': expected seconds, at least 0.001", value);
        break;
    case 'n':
        o->batch = true;
        if (!cli_parse_count(value, &o->count) || o->count < 1)
            return cli_fail(CLI_USAGE, "--count '%s': expected a number, 1 or more", value);
        break;
    case 'l':
        if (!cli_parse_count(value, &o->limit))
            return cli_fail(CLI_USAGE, "--limit '%s': expected a number (-1: no limit)", value);
        break;
    case 's':
        if (!parse_sort(value, &o->sort))
            return cli_fail(CLI_USAGE, "--sort '%s': expected self, recent, total, calls, rate, mean or name",
                            value);
        break;
    case 'b':
        o->batch = true;
        break;
    case 'r':
        o->reverse = true;
        break;
    case 't':
        o->threads = true;
        break;
    default:
        o->python = true;
    }
    return CLI_OK;
}

/* -------------------------------------------------------------------------------------------------- plain text */

static void sleep_ns(int64_t ns)
{
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    nanosleep(&left, NULL);
}

static bool print_text(const top_text *t)
{
    return fwrite(t->bytes, 1, t->length, stdout) == t->length && fflush(stdout) == 0;
}

static int run_plain(mtp_live *live, top_options *o)
{
    top_text t = {.columns = cli_columns(stdout)};
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    mtp_status status = MTP_OK;
    bool more = true;
    o->limit = o->limit == INT64_MIN ? ROWS_PLAIN : o->limit;
    for (int64_t n = 1; more; n++) {
        status = mtp_live_refresh(live, 0, &info);
        if (status != MTP_OK)
            break;
        if (n > 1)
            fputc('\n', stdout);
        top_show(&t, o, live, &info, 0);
        more = print_text(&t) && !info.settled && (o->count == 0 || n < o->count);
        if (more)
            sleep_ns(o->delay_ns);
    }
    free(t.bytes);
    return status == MTP_OK ? CLI_OK : cli_fail_status(status);
}

/* ---------------------------------------------------------------------------------------------- on a terminal */

static void scroll_by(top_options *o, int64_t lines)
{
    o->scroll = o->scroll + lines > 0 ? o->scroll + lines : 0;
}

/* false: quit. */
static bool on_key(top_options *o, int key, int lines)
{
    if (o->help && key != TOP_KEY_REDRAW && key != TOP_KEY_NONE) {
        o->help = false;
        return key != 'q';
    }
    switch (key) {
    case 'q':
        return false;
    case 's':
        o->sort = (o->sort + 1) % TOP_SORTS;
        o->scroll = 0;
        break;
    case 'r':
        o->reverse = !o->reverse;
        o->scroll = 0;
        break;
    case 'w':
        o->recent = !o->recent;
        break;
    case 't':
        o->threads = !o->threads;
        o->scroll = 0;
        break;
    case 'p':
        o->paused = !o->paused;
        break;
    case '?':
    case 'h':
        o->help = true;
        break;
    case TOP_KEY_UP:
        scroll_by(o, -1);
        break;
    case TOP_KEY_DOWN:
        scroll_by(o, 1);
        break;
    case TOP_KEY_PAGE_UP:
        scroll_by(o, -(lines > 10 ? lines - 8 : 2));
        break;
    case TOP_KEY_PAGE_DOWN:
        scroll_by(o, lines > 10 ? lines - 8 : 2);
        break;
    case TOP_KEY_HOME:
        o->scroll = 0;
        break;
    case TOP_KEY_END:
        o->scroll = INT64_MAX / 2;
        break;
    default:
        break;
    }
    return true;
}

static int run_screen(mtp_live *live, top_options *o)
{
    const char *no = getenv("NO_COLOR");
    top_text t = {.styled = no == NULL || *no == 0};
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    mtp_status status = MTP_OK;
    uint64_t next = 0;
    bool more = true;
    o->limit = o->limit == INT64_MIN ? -1 : o->limit;
    while (more && status == MTP_OK) {
        int columns, lines;
        uint64_t now = mtp_now_ns();
        if (now >= next && !o->paused) {
            status = mtp_live_refresh(live, READ_MOST_NS, &info);
            now = mtp_now_ns();
            next = info.unread > 0 ? now : now + (uint64_t)o->delay_ns; /* first everything that is there */
        }
        top_screen_size(&columns, &lines);
        t.columns = columns;
        top_show(&t, o, live, &info, lines);
        top_screen_draw(&t);
        int64_t wait = o->paused ? 3600000000000 : next > now ? (int64_t)(next - now) : 1000000;
        int key = top_screen_key(wait);
        if (key == ' ' || key == '\n')
            next = 0;
        more = on_key(o, key, lines);
    }
    free(t.bytes);
    top_screen_end();
    return status == MTP_OK ? CLI_OK : cli_fail_status(status);
}

/* -------------------------------------------------------------------------------------------------------- verb */

static int watch(const char *given, top_options *o)
{
    top_target target;
    mtp_live_options options = MTP_LIVE_OPTIONS_INIT;
    mtp_live *live;
    int code = top_find(given, &target);
    if (code != CLI_OK)
        return code;
    options.window_ns = o->window_ns;
    options.alone = target.alone;
    options.process = cli_chosen_process();
    mtp_status status = mtp_live_open(target.path, &options, &live);
    if (status == MTP_E_FORMAT)
        return cli_fail(
            CLI_INPUT,
            "%s; only recordings that mtprof writes change while one looks: use 'mtprof table' for others",
            mtp_last_error());
    if (status != MTP_OK)
        return cli_fail_status(status);
    if (nice(10) == -1) /* the program comes first */
        (void)0;
    code = o->batch || !top_screen_begin() ? run_plain(live, o) : run_screen(live, o);
    mtp_live_close(live);
    return code;
}

int cli_top(int argc, char **argv)
{
    static const struct option options[] = {{"delay", required_argument, NULL, 'd'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"batch", no_argument, NULL, 'b'},
                                            {"window", required_argument, NULL, 'w'},
                                            {"sort", required_argument, NULL, 's'},
                                            {"reverse", no_argument, NULL, 'r'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {"threads", no_argument, NULL, 't'},
                                            {"python-functions", no_argument, NULL, PYTHON},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    top_options o = {.delay_ns = 1000000000, .window_ns = 5000000000, .limit = INT64_MIN};
    for (int c; (c = getopt_long(argc, argv, "d:n:bw:s:rl:th", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == '?')
            return cli_usage_error();
        int code = take(&o, c, optarg);
        if (code != CLI_OK)
            return code;
    }
    if (argc - optind != 1)
        return cli_fail(CLI_USAGE, argc == optind
                                       ? "which recording? 'mtprof top FILE.mtp' or 'mtprof top PID'"
                                       : "expected one recording: 'mtprof top FILE.mtp' or 'mtprof top PID'");
    return watch(argv[optind], &o);
}
