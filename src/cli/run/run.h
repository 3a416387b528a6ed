/* cli/run/run.h - the parts of `mtprof run`: the program, its environment, its life, and what was recorded of it. */
#ifndef MTP_CLI_RUN_RUN_H
#define MTP_CLI_RUN_RUN_H
#include <limits.h>
#include <sys/types.h>
#include "base/facts.h"
#include "cli/cli.h"

/* What can be recorded. X(name, library in a build tree, library, default); "": no library */
#define RUN_COLLECTOR_LIST(X)                                                                                \
    X(itt, "src/collect/itt", "libmtprof_itt.so", true)                                                      \
    X(nvtx, "src/collect/nvtx", "libmtprof_nvtx.so", true)                                                   \
    X(opencl, "src/collect/opencl", "libmtprof_opencl.so", true)                                             \
    X(malloc, "src/collect/malloc", "libmtprof_malloc.so", false)                                            \
    X(mpi, "src/collect/mpi", "libmtprof_mpi.so", false)                                                     \
    X(nccl, "src/collect/nccl", "libmtprof_nccl.so", true)                                                   \
    X(python, "", "", true)                                                                                  \
    X(torch, "", "", true)
enum {
#define X(name, in_build, library, standard) RUN_##name,
    RUN_COLLECTOR_LIST(X)
#undef X
    RUN_COLLECTORS
};

/* In the folder of the Python packages: what Python programs run when they start */
#define RUN_CUSTOMIZE "/mtprof/_run"

typedef struct run_options {
    const char *output; /* -o */
    bool use[RUN_COLLECTORS], asked[RUN_COLLECTORS];
    bool shapes, memory, stacks, newest, wait, no_report;
    uint64_t budget;               /* bytes; 0: the default */
    int64_t delay_ns, duration_ns; /* duration 0: to the end */
    const char *steps;             /* "A:B", checked; NULL: all */
    char **program;                /* its arguments, ending with NULL */
    mtp__facts facts;              /* which rank this is; -1: it is not one of several */
} run_options;

/* program.c */
typedef struct run_program {
    char path[PATH_MAX]; /* the file that will be executed */
    char **argv;         /* with the interpreter that we add; owned */
    bool unseen;         /* nothing of it can be recorded; what it starts may be */
} run_program;
/* Finds the program. Exit code: CLI_OK, or 126 and 127 as a shell's; the reason was printed. */
int run_find(char **given, bool is_module, run_program *program);
void run_program_free(run_program *program);

/* environment.c */
typedef struct run_place {
    char out[PATH_MAX];    /* absolute; "": nothing will be recorded */
    char folder[PATH_MAX]; /* out + ".workers" */
    const char *shown;     /* the output as the user wrote it */
    int marker;            /* descriptor: locked while we run */
    int notes;             /* descriptor: datagrams of the agents */
    char notes_name[64];
} run_place;
/* The environment of the program: a list that ends with NULL. NULL: the reason was printed. */
char **run_environment(const run_options *options, const run_place *place);
void run_environment_free(char **environment);

/* ranks.c */
void run_ranks_read(run_options *options);
/* The output as this rank names it. false: too long. */
bool run_ranks_name(const run_options *options, const char *output, char name[PATH_MAX]);
bool run_ranks_use_mpi(const char *program); /* will the program, or what it launches, use MPI? */

/* link.c: another name for it, if the variables of the program could not hold its own. false: none can be made. */
bool run_plain_folder(char folder[PATH_MAX]);
bool run_plain_file(char path[PATH_MAX]); /* absolute */

/* place.c */
/* Before the program starts. What has the output's name is set aside, unless it must be kept. Exit code. */
int run_place_take(run_place *place, const char *output); /* NULL: nothing will be recorded */
void run_place_restore(run_place *place);      /* nothing was recorded: what was set aside is back */
void run_place_forget(const run_place *place); /* what was set aside is deleted */
void run_place_leave(run_place *place);        /* our own files are removed, and the folder if it is empty */
bool run_is_live(const char *path);            /* is a process recording into this file? */
bool run_check_output(
    const char *path); /* has it a suffix that we can write? false: the reason was printed */

/* life.c */
typedef struct run_ended {
    int status; /* of waitpid */
    double seconds;
    pid_t pid;
} run_ended;
/* Runs it to its end. Exit code: CLI_OK, or 126 and 127 if it could not be started, which was printed. */
int run_life(const run_program *program, char **environment, const run_options *options, run_place *place,
             run_ended *ended);
void run_notes_print(void);
void run_hide_controls(char *text); /* nothing for the terminal to obey */

/* result.c: collects what was recorded and prints it */
bool run_table(const mtp_trace *trace,
               FILE *to); /* true: of Python functions, because there is nothing else */
void run_result(const run_options *options, run_place *place, const run_ended *ended);
#endif
