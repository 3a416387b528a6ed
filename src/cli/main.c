/* cli/main.c - the command: dispatches to the verb; helpers that verbs share. */
#include "cli/cli.h"
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/plain.h"

#define WORTH_SHOWING ((uint64_t)16 << 20) /* bytes: some tens of milliseconds */

static const char *verb_name = "";

static const struct {
    const char *name, *summary;
    cli_verb *run;
} verbs[] = {
#define X(name, summary) {#name, summary, cli_##name},
    CLI_VERB_LIST(X)
#undef X
};
#define VERBS (sizeof verbs / sizeof *verbs)

/* ------------------------------------------------------------------------------------------- saying */

/* File names, and texts in files, may have characters that a terminal obeys. */
static void put_plain(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p != 0; p++)
        if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) /* U+0080 to U+009F */
            fputc('?', stderr), p++;
        else
            fputc((*p < 0x20 && *p != '\n') || *p == 0x7f ? '?' : *p, stderr);
}

int cli_fail(int code, const char *fmt, ...)
{
    va_list args;
    char *text = NULL;
    fflush(stdout);
    fprintf(stderr, "mtprof%s%s: ", *verb_name ? " " : "", verb_name);
    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    va_end(args);
    put_plain(text != NULL ? text : "out of memory");
    fputc('\n', stderr);
    free(text);
    return code;
}

int cli_fail_status(mtp_status status)
{
    int code = status == MTP_E_ARG ? CLI_USAGE : status == MTP_E_NOMEM ? CLI_MEMORY : CLI_INPUT;
    return cli_fail(code, "%s", *mtp_last_error() != 0 ? mtp_last_error() : mtp_status_text(status));
}

int cli_usage_error(void)
{
    fprintf(stderr, "Try 'mtprof %s --help'.\n", verb_name);
    return CLI_USAGE;
}

int cli_help(const char *text)
{
    fputs(text, stdout);
    return CLI_OK;
}

static const char *colour(FILE *to, const char *sequence)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    bool wanted = (no == NULL || *no == 0) && term != NULL && strcmp(term, "dumb") != 0 && isatty(fileno(to));
    return wanted ? sequence : "";
}

const char *cli_bold(FILE *to)
{
    return colour(to, "\033[1m");
}

const char *cli_red(FILE *to)
{
    return colour(to, "\033[31m");
}

const char *cli_green(FILE *to)
{
    return colour(to, "\033[32m");
}

const char *cli_dim(FILE *to)
{
    return colour(to, "\033[2m");
}

const char *cli_plain(FILE *to)
{
    return colour(to, "\033[0m");
}

/* ------------------------------------------------------------------------------------------- output */

static bool progress_shown;

bool cli_shows_progress(uint64_t bytes)
{
    progress_shown = progress_shown || (bytes >= WORTH_SHOWING && isatty(STDERR_FILENO));
    return progress_shown;
}

void cli_progress_done(void)
{
    if (progress_shown)
        fprintf(stderr, "\r\033[K");
    progress_shown = false;
}

int cli_create(cli_out *out, const char *path)
{
    *out = (cli_out){mtp_sink_file, stdout, NULL};
    if (path == NULL || strcmp(path, "-") == 0)
        return CLI_OK;
    if (*path == 0)
        return cli_fail(CLI_USAGE, "-o needs a file name; '-' is standard output");
    if (mtp_file_create(path, 0, &out->file) != MTP_OK)
        return cli_fail_output();
    out->sink = mtp_file_sink;
    out->user = out->file;
    return CLI_OK;
}

int cli_fail_output(void)
{
    if (mtp_last_error_number() == EPIPE && strncmp(mtp_last_error(), "-:", 2) == 0)
        raise(SIGPIPE); /* as when printing: `mtprof export x -o - | head` ends quietly */
    return cli_fail(CLI_OUTPUT, "%s", mtp_last_error());
}

int cli_close(cli_out *out, mtp_status status)
{
    int code = CLI_OK;
    mtp_file *file = out->file;
    out->file = NULL;
    if (status != MTP_OK && (status != MTP_E_IO || (file == NULL && !ferror(stdout)))) {
        code = cli_fail_status(status);
        mtp_file_abandon(file);
    } else if (file != NULL && mtp_file_commit(file) != MTP_OK) { /* reports why writing failed */
        code = cli_fail_output();
    }
    return code; /* main() checks standard output */
}

/* ------------------------------------------------------------------------------------------- parsing */

bool cli_parse_time(const char *text, int64_t *ns)
{
    static const struct {
        const char *unit;
        double ns;
    } known[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"", 1e6}};
    char *end;
    double value = mtp__read_double(text, &end);
    if (end == text || value != value)
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(end, known[i].unit) == 0 && value * known[i].ns < 9e18 && value * known[i].ns > -9e18) {
            *ns = (int64_t)(value * known[i].ns);
            return true;
        }
    return false;
}

bool cli_parse_fraction(const char *text, double *fraction)
{
    char *end;
    *fraction = mtp__read_double(text, &end);
    if (end == text || *fraction != *fraction)
        return false;
    if (strcmp(end, "%") == 0)
        *fraction /= 100;
    else if (*end != 0)
        return false;
    return *fraction >= 0;
}

bool cli_parse_count(const char *text, int64_t *count)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    *count = value;
    return end != text && *end == 0 && value >= -1;
}

bool cli_parse_tokens(const char *text, uint64_t *tokens)
{
    int64_t count;
    bool is_count = cli_parse_count(text, &count) && count > 0;
    *tokens = is_count ? (uint64_t)count : 0;
    if (!is_count)
        cli_fail(CLI_USAGE, "--budget '%s': expected a number of tokens, such as 2000", text);
    return is_count;
}

/* "256M", "1G", "65536". */
static bool parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end != 0 ? strchr(units, *end) : NULL;
    int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    if (!mtp__is_digit(text[0]) || errno != 0 || n > UINT64_MAX >> shift || n == 0)
        return false;
    *bytes = (uint64_t)n << shift;
    return end[unit != NULL] == 0;
}

bool cli_parse_seconds(const char *text, int64_t *ns)
{
    char *end;
    double seconds = mtp__read_double(text, &end);
    if (end != text && *end == 0 && seconds >= 0 && seconds < 1e9) {
        *ns = (int64_t)(seconds * 1e9);
        return true;
    }
    return cli_parse_time(text, ns) && *ns >= 0;
}

bool cli_parse_budget(const char *text, uint64_t *bytes)
{
    if (parse_size(text, bytes) && *bytes >= 256u << 10 && *bytes <= (uint64_t)1 << 40)
        return true;
    cli_fail(CLI_USAGE, "--budget '%s': expected a size from 256K to 1T, like 256M or 1G", text);
    return false;
}

/* ---------------------------------------------------------------------------------------------- main */

static void print_help(FILE *to)
{
    fprintf(to,
            "usage: mtprof VERB [options] TRACE\n\n"
            "Reads " MTP_READABLE ".\n"
            "A folder of spools, and a spool with others in TRACE.workers/, are one trace with a process\n"
            "per row. '-' is standard input or output.\n\n");
    for (size_t i = 0; i < VERBS; i++)
        fprintf(to, "  %s%-8s%s %s\n", cli_bold(to), verbs[i].name, cli_plain(to), verbs[i].summary);
    fprintf(
        to,
        "\n'mtprof VERB --help' describes a verb; 'mtprof --version' prints the version.\n"
        "Exit codes: 0 success, 1 findings (diff, check), 2 wrong usage, 3 bad input, 4 output failed,\n"
        "5 not enough memory.\n\n"
        "Options of all verbs:\n\n"
        "  --process PID      only this process of a trace that has several; main: the main one\n"
        "  --rank N           of a file of several ranks ('mtprof merge' writes them): this one\n"
        "  --max-memory SIZE  the most memory to use (2G, 500M, none). Default: MTPROF_MAX_MEMORY, else\n"
        "                     three quarters of the available memory, but at most 64 times the file's size\n"
        "                     (256M for small files)\n");
}

/* The verb that shares the most first letters with what was typed, or NULL. */
static const char *guess(const char *typed)
{
    size_t best = 0;
    const char *found = NULL;
    for (size_t i = 0; i < VERBS; i++) {
        size_t same = 0;
        while (typed[same] != 0 && typed[same] == verbs[i].name[same])
            same++;
        if (same > best) {
            best = same;
            found = verbs[i].name;
        }
    }
    return found;
}

/* The exit code, after making sure that everything printed was written. */
static int ended(int code)
{
    errno = 0;
    bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (lost && errno == 0 && write(STDOUT_FILENO, "\n", 1) < 0)
        clearerr(stdout); /* it failed earlier: writing again tells the reason */
    if (lost && (code == CLI_OK || code == CLI_FOUND))
        return cli_fail(CLI_OUTPUT, "cannot write to standard output%s%s", errno != 0 ? ": " : "",
                        errno != 0 ? mtp__reason(errno) : "");
    return code;
}

/* Removes an option of all verbs from the command line, wherever it is. NULL: it is not there; "": it has no
 * value. */
static const char *take_option(const char *option, int *argc, char **argv)
{
    const char *value = NULL;
    const size_t n = strlen(option);
    int kept = 1;
    bool options = true;
    for (int i = 1; i < *argc; i++) {
        options = options && strcmp(argv[i], "--") != 0;
        if (!options || strncmp(argv[i], option, n) != 0 || (argv[i][n] != 0 && argv[i][n] != '='))
            argv[kept++] = argv[i];
        else
            value = argv[i][n] == '=' ? argv[i] + n + 1 : i + 1 < *argc ? argv[++i] : "";
    }
    argv[kept] = NULL;
    *argc = kept;
    return value;
}

/* false: one is wrong, which was reported. */
static bool take_options(int *argc, char **argv)
{
    const char *size = take_option("--max-memory", argc, argv),
               *process = take_option("--process", argc, argv), *rank = take_option("--rank", argc, argv);
    if (size != NULL && *size == 0) {
        cli_fail(CLI_USAGE, "--max-memory needs a size: 2G, 500M or none");
        return false;
    }
    if (mtp_memory_limit(size) != MTP_OK) {
        cli_fail(CLI_USAGE, "%s", mtp_last_error());
        return false;
    }
    if (!cli_choose_rank(rank)) {
        cli_fail(CLI_USAGE, "--rank '%s': expected the number of a rank ('mtprof info' lists them)", rank);
        return false;
    }
    if (cli_choose_process(process))
        return true;
    cli_fail(CLI_USAGE, "--process '%s': expected a process's number, or main ('mtprof info' lists them)",
             process);
    return false;
}

/* Verbs that read all of a file do not silently ignore that a part of it was asked for. */
static const char *refused_choice(const char *verb)
{
    static const char *const whole[] = {"ranks", "merge", "check", "recover", "ps"};
    bool all = false;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        all |= strcmp(verb, whole[i]) == 0;
    if (cli_has_chosen_rank() && (all || strcmp(verb, "top") == 0))
        return "--rank";
    return all && cli_chosen_process() != 0 ? "--process" : NULL;
}

static int run_verb(size_t i, int argc, char **argv)
{
    static char called[32]; /* the prefix of getopt's messages */
    const char *refused = refused_choice(verbs[i].name);
    snprintf(called, sizeof called, "mtprof %s", verbs[i].name);
    verb_name = verbs[i].name;
    if (refused != NULL)
        return cli_fail(CLI_USAGE, "%s is not for this verb, which reads all: 'mtprof %s --help'", refused,
                        verb_name);
    argv[1] = called;
    return verbs[i].run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "C");                              /* programs read this output, too */
    bool runs = argc > 1 && strcmp(argv[1], "run") == 0; /* options after the program are the program's */
    if (!runs && !take_options(&argc, argv))
        return CLI_USAGE;
    if (!runs)
        signal(SIGPIPE, SIG_DFL); /* `mtprof table x | head` ends quietly */
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return ended(CLI_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("mtprof %s\n", mtp_version());
        return ended(CLI_OK);
    }
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return ended(run_verb(i, argc, argv));
    const char *meant = guess(argv[1]);
    if (meant != NULL)
        return cli_fail(CLI_USAGE, "'%s' is not a verb; did you mean '%s'? 'mtprof --help' lists them",
                        argv[1], meant);
    return cli_fail(CLI_USAGE, "'%s' is not a verb; 'mtprof --help' lists them", argv[1]);
}
