/* collect/run/run.h - the agent that `mtprof run` preloads into programs, and what other parts may ask of it.
 *
 * MTPROF_RUN           the folder that each process records into; without it the agent does nothing at all
 * MTPROF_RUN_OPTIONS   words: shapes memory stacks python torch newest wait budget=BYTES
 *                      from=NS until=NS (CLOCK_MONOTONIC) steps=A:B notes=NAME (of a datagram socket)
 *                      parent=PID (of `mtprof run`)
 *
 * The functions are found by name (dlsym, ctypes): they exist only under `mtprof run`.
 */
#ifndef MTP_COLLECT_RUN_H
#define MTP_COLLECT_RUN_H
#include <mtprof.h>
#include <sys/types.h>

/* A training step ended, and the next one begins, on this thread; another = 0: it was the last one. */
MTP_API void mtp_run_step(int another);
/* A line for the user, which `mtprof run` prints once, at its end. */
MTP_API void mtp_run_note(const char *text);
/* A collector is here: the process begins to record, if it has not. Programs that hold nothing of ours do not. */
MTP_API void mtp_run_needed(void);
/* Metadata of this process's recording, now and when it begins again. json: valid JSON; key: for the life of the process.
 * The same key again replaces its value. */
MTP_API void mtp_run_metadata(const char *key, const char *json);
/* The program's own word on its rank, which counts more than the launcher's. */
MTP_API void mtp_run_rank(const char *backend, int rank, int world);
/* Python is here: from now on its stacks are recorded (with --stacks). provider: NULL, or valid for the life of the
 * process. */
MTP_API void mtp_run_python(const mtp_stack_provider *provider);

/* From now on begin(mtp_recording()) is called when a recording that `mtprof run` or `mtprof trigger` asked for begins,
 * and end() right before it ends; not if Python has ended. Returns mtp_recording() of one that runs now, else 0. Once. */
MTP_API uint32_t mtp_run_hook(void (*begin)(uint32_t recording), void (*end)(void));

/* agent.c, for the rest of this folder */
typedef struct mtp__run_options {
    bool shapes, memory, stacks, python, torch, newest, wait, by_steps;
    uint64_t budget;              /* bytes; 0: the default */
    uint64_t from_ns, until_ns;   /* CLOCK_MONOTONIC; 0: none */
    uint64_t first_step, no_step; /* by_steps: from the first up to, not including, the second */
    char notes[64];               /* name of an abstract socket; "": none */
    pid_t parent;                 /* `mtprof run` itself; 0: unknown */
} mtp__run_options;

/* needed.c */
bool mtp__run_can_record(void); /* does the program, or a library in it, use libmtprof? */

/* options.c */
void mtp__run_options_read(mtp__run_options *o, const char *words);
/* A line for the user: "PROGRAM (process N): TEXT". */
void mtp__run_note(const mtp__run_options *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#endif
