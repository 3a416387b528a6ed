/* cli/trigger.c - mtprof trigger: has a process that runs record itself for some seconds. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/run/run.h"

static const char help[] =
    "usage: mtprof trigger PID [options]\n\n"
    "Records a process that runs, for some seconds, and leaves it as it was. The process must listen:\n"
    "'mtprof ps' lists those that do. Only its user, and root, may record it.\n\n"
    "      --seconds S        how long; default 5\n"
    "      --shapes           record the inputs of ops: shapes, types\n"
    "      --memory           record what the program's frameworks allocate and free\n"
    "      --stacks           record the call stack of each op and scope\n"
    "      --budget SIZE      memory for records: 256M, 1G\n"
    "  -o, --output OUT       default trigger.PID.mtp; any suffix of 'mtprof export': "
    "run.json.gz\n" CLI_MEMORY_HELP "\n"
    "  mtprof trigger 4711 --seconds 2 --shapes -o step.mtp\n";

enum {
    SECONDS = 256,
    SHAPES,
    MEMORY,
    STACKS,
    BUDGET
};

static volatile sig_atomic_t interrupted;

/* Once; another one ends us. */
static void on_signal(int number)
{
    interrupted = number;
}

static bool is_enough(void *user)
{
    (void)user;
    return interrupted != 0;
}

static void started(void *user)
{
    const mtp_trigger *t = user;
    const struct sigaction once = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND | SA_RESTART};
    sigaction(SIGINT, &once, NULL);
    sigaction(SIGTERM, &once, NULL);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "mtprof trigger: recording for %.3g s; Ctrl-C ends it\n", (double)t->ns / 1e9);
}

/* The process writes a spool; other formats are made of it. */
static int record(uint64_t pid, mtp_trigger *t, const char *output)
{
    char path[PATH_MAX + 8], folder[PATH_MAX];
    bool is_spool = cli_ends(output, ".mtp");
    int code = CLI_OK;
    if (output[0] != '/' && getcwd(folder, sizeof folder) == NULL)
        return cli_fail(CLI_OUTPUT, "the current folder is not there: %s", mtp__reason(errno));
    if (snprintf(path, sizeof path, "%s%s%s%s", output[0] == '/' ? "" : folder, output[0] == '/' ? "" : "/",
                 output, is_spool ? "" : ".mtp") >= (int)sizeof path)
        return cli_fail(CLI_USAGE, "-o: %s", mtp__reason(ENAMETOOLONG));
    t->spool = path;
    t->started = started;
    t->is_enough = is_enough;
    t->user = t;
    mtp_status status = mtp_trigger_process(pid, t);
    if (status != MTP_OK)
        return cli_fail(status == MTP_E_ARG ? CLI_USAGE : CLI_INPUT, "%s", mtp_last_error());
    mtp_trace *trace = cli_open(path, &code);
    if (trace == NULL)
        return code;
    run_table(trace, stdout);
    if (!is_spool && mtp_trace_export(trace, output, NULL) != MTP_OK)
        code = cli_fail_output();
    else if (!is_spool)
        unlink(path);
    mtp_trace_destroy(trace);
    if (code == CLI_OK)
        fprintf(stderr, "written  %s\n", output);
    return code;
}

int cli_trigger(int argc, char **argv)
{
    static const struct option options[] = {{"seconds", required_argument, NULL, SECONDS},
                                            {"shapes", no_argument, NULL, SHAPES},
                                            {"memory", no_argument, NULL, MEMORY},
                                            {"stacks", no_argument, NULL, STACKS},
                                            {"budget", required_argument, NULL, BUDGET},
                                            {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0, 0, NULL, 0}};
    mtp_trigger t = MTP_TRIGGER_INIT;
    const char *output = NULL;
    char own[64];
    int64_t ns, pid;
    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == '?')
            return cli_usage_error();
        if (c == 'o')
            output = optarg;
        else if (c == SECONDS && cli_parse_seconds(optarg, &ns) && ns > 0)
            t.ns = (uint64_t)ns;
        else if (c == SECONDS)
            return cli_fail(CLI_USAGE, "--seconds '%s': expected seconds, like 5 or 0.5", optarg);
        else if (c == BUDGET && !cli_parse_budget(optarg, &t.budget))
            return CLI_USAGE;
        t.shapes |= c == SHAPES;
        t.memory |= c == MEMORY;
        t.stacks |= c == STACKS;
    }
    if (argc - optind != 1)
        return cli_fail(CLI_USAGE,
                        "which process? 'mtprof trigger PID'; 'mtprof ps' lists those that listen");
    if (!cli_parse_count(argv[optind], &pid) || pid <= 0)
        return cli_fail(CLI_USAGE, "'%s' is not a process's number; 'mtprof ps' lists those that listen",
                        argv[optind]);
    if (output != NULL && !run_check_output(output))
        return CLI_USAGE;
    snprintf(own, sizeof own, "trigger.%lld.mtp", (long long)pid);
    return record((uint64_t)pid, &t, output != NULL ? output : own);
}
