/* cli/cli.h - what the verbs of the command share. The command prints and exits; the library never does.
 *
 * A verb is one file with one function. It reads its options with getopt_long (reset by the frame), and returns an
 * exit code. It sees public headers only.
 */
#ifndef MTP_CLI_CLI_H
#define MTP_CLI_CLI_H
#include <getopt.h>
#include <mtprof.h>
#include <stdio.h>

/* Exit codes, as in the man page. */
enum {
    CLI_OK = 0,
    CLI_FOUND = 1,  /* diff: slower than allowed; check: rules are broken */
    CLI_USAGE = 2,  /* the command line is wrong */
    CLI_INPUT = 3,  /* a file could not be read, or is not a trace */
    CLI_OUTPUT = 4, /* a file could not be written */
    CLI_MEMORY = 5  /* not enough memory, or more than --max-memory allows */
};

typedef int cli_verb(int argc, char **argv); /* argv[0] is the verb's name */
/* X(name, summary): in the order in which they are shown. Each has cli_NAME() in src/cli/NAME.c */
#define CLI_VERB_LIST(X)                                                                                     \
    X(table, "averages as torch prints them")                                                                \
    X(stats, "averages as JSON or CSV, with min, p50, p99, max")                                             \
    X(export, "write a trace in another form: .json, .et.json, .folded, .csv, ...")                          \
    X(stacks, "folded stacks, for flame graphs")                                                             \
    X(memory, "memory over time, by category, and what was alive at the peak")                               \
    X(steps, "time per step: CPU, device, idle")                                                             \
    X(cut, "a part of a trace: some steps, a stretch of time, some names")                                   \
    X(diff, "two traces compared, with a verdict that accounts for noise")                                   \
    X(recover, "a whole spool out of one that a crash left, or that is damaged")                             \
    X(check, "does a trace keep the rules that viewers need?")                                               \
    X(info, "what is in a trace; without one, what this build can do")
#define X(name, summary) cli_verb cli_##name;
CLI_VERB_LIST(X)
#undef X

/* Prints "mtprof VERB: ..." to stderr and returns the code. */
int cli_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The library's last error, with the code that belongs to the status. */
int cli_fail_status(mtp_status status);
int cli_fail_output(void); /* the same of a file that was to be written */
/* After getopt's '?' or ':' : says where help is. */
int cli_usage_error(void);
/* Lines of `mtprof info`: accelerators, and how to profile what uses them. */
void cli_about_devices(void);
/* Prints a verb's help text (first line "usage: mtprof ...") to stdout; returns CLI_OK. */
int cli_help(const char *text);

/* Opens the trace named on the command line, with progress on a terminal. NULL: it has been said why; *code is set. */
mtp_trace *cli_open(const char *path, int *code);
int cli_file_info(const char *path, mtp_trace_info *info); /* without holding its events; exit code */

/* Where -o says, or standard output: a sink to write to, then cli_close. path NULL or "-": standard output. */
typedef struct cli_out {
    mtp_sink *sink;
    void *user;
    mtp_file *file; /* owned, or NULL */
} cli_out;
int cli_create(cli_out *out, const char *path);
int cli_close(cli_out *out,
              mtp_status status); /* commits if status is MTP_OK, else abandons; the exit code */

/* "12", "1.5ms", "3s", "250us", "40ns": nanoseconds. false: not a time. */
bool cli_parse_time(const char *text, int64_t *ns);
/* "5%" or "0.05": a share. false: not one. */
bool cli_parse_share(const char *text, double *share);
bool cli_parse_count(const char *text, int64_t *count);

/* Columns of the terminal, or as COLUMNS says; 0: there is none. */
int cli_columns(void);
/* Columns for a name with so many beside it; `usual` without a terminal. */
int cli_name_width(int beside, int usual);
/* Prints a name, cut to the width, nothing in it that a terminal obeys; how many columns are left. */
int cli_print_name(const char *name, size_t length, int width);
bool cli_ends(const char *text, const char *with);
const char *cli_time(double us, char text[24]); /* "1.500ms" */
/* Is so much work worth telling how far it is? On a terminal, and if it takes a while. */
bool cli_tells_progress(uint64_t bytes);
void cli_progress_done(void); /* wipes it away */

/* Colours, only on a terminal and without NO_COLOR: the escape sequence, or "". */
const char *cli_bold(FILE *to);
const char *cli_red(FILE *to);
const char *cli_green(FILE *to);
const char *cli_dim(FILE *to);
const char *cli_plain(FILE *to);
#endif
