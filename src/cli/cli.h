/* cli/cli.h - what the command's verbs share. The command prints and exits; the library never does.
 *
 * A verb is one file with one function. It parses its options with getopt_long and returns an exit code. It
 * uses public headers only.
 */
#ifndef MTP_CLI_CLI_H
#define MTP_CLI_CLI_H
#include <getopt.h>
#include <limits.h>
#include <mtprof.h>
#include <stdio.h>

/* Exit codes, as in the man page. */
enum {
    CLI_OK = 0,
    CLI_FOUND = 1,  /* diff: slower than allowed; check: rules are broken */
    CLI_USAGE = 2,  /* the command line is invalid */
    CLI_INPUT = 3,  /* a file could not be read, or is not a trace */
    CLI_OUTPUT = 4, /* a file could not be written */
    CLI_MEMORY = 5  /* not enough memory, or more than --max-memory allows */
};

typedef int cli_verb(int argc, char **argv); /* argv[0] is the verb's name */
/* X(name, summary), in the order shown. Each has cli_NAME() in src/cli/NAME.c */
#define CLI_VERB_LIST(X)                                                                                     \
    X(run, "run a program and record it, unchanged")                                                         \
    X(trigger, "record a process that runs, for some seconds")                                               \
    X(top, "watch a recording while its program runs")                                                       \
    X(ps, "the processes that can be recorded while they run")                                               \
    X(explain, "what stands out, in words, and what to do about it; of two traces: what changed")            \
    X(show, "the evidence of one finding, one span, or all calls of one name")                               \
    X(table, "averages, as torch prints them")                                                               \
    X(stats, "averages with min, p50, p99 and max; also as JSON or CSV")                                     \
    X(report, "an HTML page: timeline, operators, flame graph, memory")                                      \
    X(export, "convert a trace to the format that the suffix of the output names")                           \
    X(stacks, "folded stacks, for flame graphs")                                                             \
    X(memory, "memory over time by category, and the blocks alive at the peak")                              \
    X(steps, "time per step: CPU, device, idle")                                                             \
    X(digest, "4 KB for each step of each rank, which add up over ranks and jobs")                           \
    X(ranks, "many ranks: who is late, since when and why, and who waits")                                   \
    X(merge, "the traces of many ranks as one file, on one clock")                                           \
    X(cut, "extract part of a trace: steps, a time range, names, a thread")                                  \
    X(diff, "compare two traces, with a verdict that accounts for noise")                                    \
    X(recover, "rebuild a complete spool from one that is damaged or was left by a crash")                   \
    X(check, "check a trace against the rules that viewers depend on")                                       \
    X(mcp, "serve these to language models, by the Model Context Protocol")                                  \
    X(info, "what a trace contains; without one, what this build can do")
#define X(name, summary) cli_verb cli_##name;
CLI_VERB_LIST(X)
#undef X

/* Prints "mtprof VERB: ..." to stderr and returns the code. */
int cli_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* About a trace that is shown nevertheless: "mtprof VERB: warning: ..." and "note: ...". */
#define cli_warn(...) ((void)cli_fail(CLI_OK, "warning: " __VA_ARGS__))
#define cli_note(...) ((void)cli_fail(CLI_OK, "note: " __VA_ARGS__))
/* Prints the library's last error; returns the exit code for the status. */
int cli_fail_status(mtp_status status);
int cli_fail_output(void); /* the same for an output file */
/* After getopt's '?' or ':': points to --help. */
int cli_usage_error(void);
/* Finds one of our files: in a build tree at in_build, relative to this program; installed at `installed`, relative to
 * the folder of libraries. */
bool cli_find(const char *in_build, const char *installed, const char *name, char path[PATH_MAX]);
#ifdef CLI_WHEEL
#define CLI_COLLECTORS ""
#else
#define CLI_COLLECTORS "mtprof" /* where they are installed: in a folder of their own */
#endif
bool cli_find_python(char folder[PATH_MAX]); /* the folder of the Python packages, for PYTHONPATH */
/* Lines of `mtprof info`: accelerators, and how to profile programs that use them. */
void cli_about_devices(void);
/* The options of all verbs, at the end of their lists. */
#define CLI_COMMON_HELP                                                                                      \
    "      --process PID      only this process, if there are several; main: the main one\n"                 \
    "      --rank N           of a file of several ranks (mtprof merge): this one\n" CLI_MEMORY_HELP
#define CLI_MEMORY_HELP /* of verbs that read no trace that was there before */                              \
    "      --max-memory SIZE  the most memory to use: 2G, 500M, none (see 'mtprof --help')\n"                \
    "  -h, --help\n"
/* Prints a verb's help text (first line "usage: mtprof ...") to stdout; returns CLI_OK. */
int cli_help(const char *text);

/* Opens a trace, with progress on a terminal. NULL: the reason was printed; *code is set. */
mtp_trace *cli_open(const char *path, int *code);
mtp_trace *cli_open_counted(const char *path, int *code); /* without its events */
bool cli_choose_rank(const char *text); /* --rank: of several in a file; NULL: none. false: not a number */
bool cli_has_chosen_rank(void);
int64_t cli_chosen_rank(void); /* -1: none */
/* For verbs that take all ranks of a file, one after the other: its ranks, to be freed; count 0: it is not of several, or
 * --rank was given. cli_open() then opens the one that cli_use_rank() names; -1: none in particular. */
int64_t *cli_ranks_of(const char *path, size_t *count);
void cli_use_rank(int64_t number);
bool cli_choose_process(const char *text); /* --process: a pid, or "main"; NULL: all. false: neither */
uint64_t cli_chosen_process(void);         /* the pid; 0: all */

/* Reads the traces of a job's ranks; prints why not, and returns the exit code. */
int cli_ranks_open(char **paths, int count, uint32_t threads, mtp_ranks **out);
bool cli_parse_threads(const char *text, uint32_t *threads); /* false: the reason was printed */

/* The output: write to the sink, then cli_close. path NULL or "-": standard output. */
typedef struct cli_out {
    mtp_sink *sink;
    void *user;
    mtp_file *file; /* owned, or NULL */
} cli_out;
int cli_create(cli_out *out, const char *path);
int cli_close(cli_out *out,
              mtp_status status); /* commits if status is MTP_OK, else abandons; the exit code */

/* "run.pt.trace.json.gz" -> "run.html", in the same folder. */
void cli_report_name(const char *trace, char *to, size_t room);
bool cli_report_may_replace(const char *path); /* nothing is there, or a report */

/* "12" (milliseconds), "1.5ms", "3s", "250us", "40ns". false: not a time. */
bool cli_parse_time(const char *text, int64_t *ns);
/* "5%" or "0.05". false: neither. */
bool cli_parse_fraction(const char *text, double *fraction);
bool cli_parse_seconds(const char *text, int64_t *ns);    /* "1.5" seconds, or a time with its unit */
bool cli_parse_budget(const char *text, uint64_t *bytes); /* "256M", "1G"; false: the reason was printed */
bool cli_parse_count(const char *text, int64_t *count);
bool cli_parse_tokens(const char *text,
                      uint64_t *tokens); /* a number above 0; false: the reason was printed */
/* Columns for text: of the terminal, but at most 100; 100 without one. */
uint32_t cli_text_width(void);

/* Width of the terminal, or COLUMNS; 0: neither. */
int cli_columns(FILE *to);
/* Columns left for a name next to `beside` others; `usual` without a terminal. */
int cli_name_width(int beside, int usual);
/* Prints a name, truncated to the width, without control characters; returns how many columns are left. */
int cli_print_name(const char *name, size_t length, int width);
/* A file's name as a shell reads it, and no option of ours. */
void cli_print_argument(FILE *to, const char *path);
bool cli_ends(const char *text, const char *with);
const char *cli_time(double us, char text[24]); /* "1.500ms" */
const char *cli_time_spaced(double us, const char *space, char text[24]);
/* Whether to show progress: on a terminal, for work that takes a while. */
bool cli_shows_progress(uint64_t bytes);
void cli_progress_done(void); /* erases it */

/* Colours, only on a terminal and without NO_COLOR: the escape sequence, or "". */
const char *cli_bold(FILE *to);
const char *cli_red(FILE *to);
const char *cli_green(FILE *to);
const char *cli_dim(FILE *to);
const char *cli_plain(FILE *to);
#endif
