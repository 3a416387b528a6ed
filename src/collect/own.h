/* collect/own.h - a collector's own profile of the program that it was loaded into.
 *
 * MTPROF_OUT=FILE: the whole process is profiled, and FILE is written at exit, in the format of its suffix; .mtp
 * is a spool, %p the process id. A child that was forked leaves the file to its parent. Without MTPROF_OUT, the
 * collector records into whatever profile the program runs.
 *
 * The first collector that a process loads starts the profile; the others record into it. Under `mtprof run`
 * (MTPROF_RUN) none does: there is a profile already.
 */
#ifndef MTP_COLLECT_OWN_H
#define MTP_COLLECT_OWN_H
#include <stdbool.h>

typedef struct mtp__collector {
    const char *name;           /* for messages: "the OpenCL layer" */
    bool (*has_recorded)(void); /* has a profile run since it was loaded? */
    void (*report)(void);       /* at exit, after the file was written: prints what is missing from it */
} mtp__collector;

void mtp__own_start(const mtp__collector *collector); /* once per process; borrowed for its life */
void mtp__own_records_nothing(const mtp__collector *collector, const char *why); /* printed once: the first */
#endif
