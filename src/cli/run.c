/* cli/run.c - mtprof run: runs a program and records it, unchanged. */
#include "cli/run/run.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/plain.h"

static const char help[] =
    "usage: mtprof run [options] [--] PROGRAM [ARGUMENTS]\n"
    "       mtprof run [options] -m MODULE [ARGUMENTS]\n\n"
    "Runs a program and records it and the processes that it starts. Its input, output, exit status and\n"
    "signals are its own. A .py file, or a Python module, is run by python3.\n\n"
    "  -o, --output OUT       default run.mtp; the records of its other processes are in OUT.workers/.\n"
    "                         OUT may have any suffix of 'mtprof export': run.json.gz. Under mpirun, srun\n"
    "                         or torchrun each rank has its own: run.r0.mtp; %r in OUT is the rank\n"
    "      --shapes           record the inputs of ops: shapes, types\n"
    "      --memory           record what the program's frameworks allocate and free\n"
    "      --stacks           record the call stack of each op and scope\n"
    "      --itt, --nvtx, --opencl, --python, --torch, --malloc, --mpi, --nccl, and --no-itt ...\n"
    "                         what to record: ranges of ITT and NVTX, OpenCL, Python functions, PyTorch's\n"
    "                         ops, all allocations, calls of MPI, NCCL. By default all but malloc, MPI\n"
    "                         if it is used, and Python functions only until the program imports torch\n"
    "      --stream           the default: everything is kept, on disk\n"
    "      --keep-newest      keep the newest records, as many as --budget holds\n"
    "      --budget SIZE      of each process: 256M, 1G. Memory, or the file's size with --keep-newest\n"
    "      --delay S          begin after so many seconds\n"
    "      --duration S       record so many seconds\n"
    "      --steps A:B        record training steps A to B-1: a step ends when an optimizer has stepped\n"
    "      --wait             record nothing until 'mtprof trigger PID' asks for it\n"
    "      --no-report        do not write OUT's report, an HTML page beside it\n"
    "  -m MODULE              run a Python module, as python3 -m does\n" CLI_MEMORY_HELP "\n"
    "  mtprof run -- python3 train.py 10\n"
    "  mtprof run --shapes --memory -o train.json.gz train.py\n"
    "  mtprof run --keep-newest --budget 64M ./server\n\n"
    "The exit status is the program's; 126 or 127 if it cannot be run, 2 for wrong usage, 4 if OUT cannot\n"
    "be written.\n";

enum {
    SHAPES = 256,
    MEMORY,
    STACKS,
    BUDGET,
    STREAM,
    NEWEST,
    DELAY,
    DURATION,
    STEPS,
    WAIT,
    NO_REPORT,
    LIMIT,
    USE,
    WITHOUT = USE + RUN_COLLECTORS
};

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"shapes", no_argument, NULL, SHAPES},
    {"memory", no_argument, NULL, MEMORY},
    {"stacks", no_argument, NULL, STACKS},
    {"budget", required_argument, NULL, BUDGET},
    {"stream", no_argument, NULL, STREAM},
    {"keep-newest", no_argument, NULL, NEWEST},
    {"delay", required_argument, NULL, DELAY},
    {"duration", required_argument, NULL, DURATION},
    {"steps", required_argument, NULL, STEPS},
    {"wait", no_argument, NULL, WAIT},
    {"no-report", no_argument, NULL, NO_REPORT},
    {"max-memory", required_argument, NULL, LIMIT},
#define X(name, in_build, library, standard)                                                                 \
    {#name, no_argument, NULL, USE + RUN_##name}, {"no-" #name, no_argument, NULL, WITHOUT + RUN_##name},
    RUN_COLLECTOR_LIST(X)
#undef X
        {"help", no_argument, NULL, 'h'},
    {0, 0, NULL, 0},
};

static bool parse_steps(const char *text)
{
    char *end;
    unsigned long long first = strtoull(text, &end, 10);
    if (!mtp__is_digit(text[0]) || *end != ':')
        return false;
    const char *second = end + 1;
    if (*second == 0)
        return true;
    return mtp__is_digit(*second) && strtoull(second, &end, 10) > first && *end == 0;
}

/* Exit code. */
static int take(run_options *o, int option, const char *value)
{
    if (option >= USE && option < WITHOUT + RUN_COLLECTORS) {
        int which = option < WITHOUT ? option - USE : option - WITHOUT;
        o->use[which] = option < WITHOUT;
        o->asked[which] = true;
        return CLI_OK;
    }
    switch (option) {
    case 'o':
        o->output = value;
        break;
    case SHAPES:
        o->shapes = true;
        break;
    case MEMORY:
        o->memory = true;
        break;
    case STACKS:
        o->stacks = true;
        break;
    case NEWEST:
    case STREAM:
        o->newest = option == NEWEST;
        break;
    case WAIT:
        o->wait = true;
        break;
    case NO_REPORT:
        o->no_report = true;
        break;
    case BUDGET:
        if (!cli_parse_budget(value, &o->budget))
            return CLI_USAGE;
        break;
    case DELAY:
    case DURATION:
        if (!cli_parse_seconds(value, option == DELAY ? &o->delay_ns : &o->duration_ns) ||
            (option == DURATION && o->duration_ns == 0))
            return cli_fail(CLI_USAGE, "--%s '%s': expected seconds, like 10 or 0.5",
                            option == DELAY ? "delay" : "duration", value);
        break;
    case STEPS:
        if (!parse_steps(value))
            return cli_fail(CLI_USAGE, "--steps '%s': expected A:B with A < B, like 10:13", value);
        o->steps = value;
        break;
    default:
        if (mtp_memory_limit(value) != MTP_OK)
            return cli_fail(CLI_USAGE, "%s", mtp_last_error());
    }
    return CLI_OK;
}

static int check(const run_options *o)
{
    if (o->program[0] == NULL || o->program[0][0] == 0)
        return cli_fail(CLI_USAGE, "which program? 'mtprof run [options] -- PROGRAM [ARGUMENTS]'");
    if (o->wait && (o->output != NULL || o->delay_ns != 0 || o->duration_ns != 0 || o->steps != NULL ||
                    o->shapes || o->memory || o->stacks || o->newest || o->budget != 0))
        return cli_fail(CLI_USAGE,
                        "--wait records nothing by itself: give 'mtprof trigger' what to record: -o, "
                        "--seconds, --shapes, --memory, --stacks, --budget");
    if (o->steps != NULL && (o->delay_ns != 0 || o->duration_ns != 0))
        return cli_fail(CLI_USAGE, "--steps, or --delay and --duration, not both");
    if (o->output != NULL && !run_check_output(o->output))
        return CLI_USAGE;
    return CLI_OK;
}

/* The program's exit status; if a signal ended it, the same ends us. */
static int end_like(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    struct rlimit no_core = {0, 0}; /* the program's core file, if any, is the one that matters */
    int number = WTERMSIG(status);
    sigset_t only;
    fflush(NULL);
    setrlimit(RLIMIT_CORE, &no_core);
    signal(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
    return 128 + number;
}

static int run(run_options *o, bool is_module)
{
    run_program program;
    char output[PATH_MAX];
    run_place place = {.marker = -1, .notes = -1};
    run_ended ended;
    char **environment = NULL;
    int code = run_find(o->program, is_module, &program);
    if (code == CLI_OK && !o->asked[RUN_mpi])
        o->use[RUN_mpi] = run_ranks_use_mpi(program.path);
    if (code == CLI_OK && !run_ranks_name(o, o->output != NULL ? o->output : "run.mtp", output))
        code = cli_fail(CLI_OUTPUT, "%s: the name is too long", o->output);
    if (code == CLI_OK)
        code = run_place_take(&place, o->wait ? NULL : output);
    if (code == CLI_OK && (environment = run_environment(o, &place)) == NULL)
        code = CLI_INPUT;
    if (code == CLI_OK)
        code = run_life(&program, environment, o, &place, &ended);
    bool ran = code == CLI_OK;
    signal(SIGPIPE, SIG_IGN); /* whoever reads our messages: the exit status is the program's */
    if (ran && !o->wait)
        run_result(o, &place, &ended);
    else if (!ran)
        run_place_restore(&place);
    if (ran)
        run_notes_print();
    run_place_leave(&place);
    run_environment_free(environment);
    run_program_free(&program);
    return ran ? end_like(ended.status) : code;
}

int cli_run(int argc, char **argv)
{
    run_options o = {.use = {
#define X(name, in_build, library, standard) standard,
                         RUN_COLLECTOR_LIST(X)
#undef X
                     }};
    bool is_module = false;
    for (int c; !is_module && (c = getopt_long(argc, argv, "+o:m:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == '?')
            return cli_usage_error();
        is_module = c == 'm';
        int code = is_module ? CLI_OK : take(&o, c, optarg);
        if (code != CLI_OK)
            return code;
    }
    run_ranks_read(&o);
    o.program = argv + optind - is_module;
    if (is_module)
        o.program[0] = optarg;
    int code = check(&o);
    return code == CLI_OK ? run(&o, is_module) : code;
}
