/* collect/own.c - see own.h. Errors never reach the program: they are printed to stderr, and it continues. */
#define _GNU_SOURCE
#include "collect/own.h"
#include "base/facts.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    const mtp__collector *collector;
    mtp_profile *profile; /* owned */
    char out[4096];
    bool is_spool;
    pid_t pid;
} own;

static void warn(void *unused, mtp_warning code, const char *text)
{
    (void)unused;
    if (code !=
        MTP_WARNING_FORK_NOT_FOLLOWED) /* a program that the child runs has its own collector and trace */
        fprintf(stderr, "mtprof: %s\n", text);
}

/* Printed once, with the first reason. */
void mtp__own_records_nothing(const mtp__collector *collector, const char *why)
{
    static bool reported;
    if (!reported)
        fprintf(stderr, "mtprof: %s records nothing: %s\n", collector->name, why);
    reported = true;
}

static int rank(void)
{
    mtp__facts facts;
    return mtp__facts_read(&facts) ? facts.rank : 0;
}

/* %p in the name is the process id, so that programs which start others leave a file for each; %r is the rank. A relative
 * name is resolved now: the program may change its working directory. */
static bool name_file(const char *pattern)
{
    size_t at = 0;
    if (pattern[0] != '/' && strcmp(pattern, "-") != 0 && getcwd(own.out, sizeof own.out - 1) != NULL) {
        at = strlen(own.out);
        own.out[at++] = '/';
    }
    for (const char *p = pattern; *p != 0; p++) {
        bool is_process = p[0] == '%' && p[1] == 'p', is_rank = p[0] == '%' && p[1] == 'r';
        int n = is_process ? snprintf(own.out + at, sizeof own.out - at, "%ld", (long)getpid())
                : is_rank  ? snprintf(own.out + at, sizeof own.out - at, "%d", rank())
                           : snprintf(own.out + at, sizeof own.out - at, "%c", *p);
        p += is_process || is_rank;
        at += (size_t)n;
        if (at >= sizeof own.out)
            return false;
    }
    own.is_spool = at > 4 && strcmp(own.out + at - 4, ".mtp") == 0;
    return true;
}

/* The extension names no format. Write JSON anyway: the run may not be repeatable. */
static mtp_status write_json(const mtp_trace *trace)
{
    char path[sizeof own.out + 8];
    fprintf(stderr, "mtprof: %s\n", mtp_last_error());
    snprintf(path, sizeof path, "%s.json", own.out);
    mtp_status status = mtp_trace_export(trace, path, NULL);
    if (status == MTP_OK)
        fprintf(stderr, "mtprof: the trace is in %s\n", path);
    return status;
}

/* Programs close their standard descriptors at exit; a trace's file must not become stderr. */
static void fill_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return;
}

static void write_own(void)
{
    mtp_trace *trace = NULL;
    if (getpid() != own.pid)
        return; /* a child: the trace belongs to the parent */
    fill_standard_descriptors();
    mtp_status status = mtp_profile_stop(own.profile);
    if (status == MTP_OK && !own.is_spool) {
        status = mtp_profile_trace(own.profile, &trace);
        if (status == MTP_OK)
            status = mtp_trace_export(trace, own.out, NULL);
        if (status == MTP_E_ARG)
            status = write_json(trace);
    }
    if (status != MTP_OK)
        fprintf(stderr, "mtprof: no trace was written to %s: %s\n", own.out, mtp_last_error());
    own.collector->report();
    mtp_trace_destroy(trace);
    mtp_profile_destroy(own.profile);
}

static void start_own(const char *out)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.profile_memory = true;
    config.on_warning = warn;
    if (!name_file(out)) {
        mtp__own_records_nothing(own.collector, "MTPROF_OUT is too long");
        return;
    }
    if (own.is_spool) {
        config.spool = own.out;
        config.when_full = MTP_STREAM;
    }
    if (mtp_profile_create(&config, &own.profile) != MTP_OK || mtp_profile_start(own.profile) != MTP_OK) {
        mtp__own_records_nothing(own.collector, mtp_last_error());
        return;
    }
    own.pid = getpid();
    atexit(write_own);
}

/* Without MTPROF_OUT the program was expected to run a profile. */
static void report_unused(void)
{
    if (getpid() == own.pid && !own.collector->has_recorded())
        mtp__own_records_nothing(own.collector, "MTPROF_OUT is not set, and the program ran no profile");
}

/* Under `mtprof run`: the profile is its agent's, which waits for somebody who records. */
static void wake_agent(void)
{
    void (*needed)(void);
    *(void **)&needed = dlsym(RTLD_DEFAULT, "mtp_run_needed");
    if (needed != NULL)
        needed();
}

void mtp__own_start(const mtp__collector *collector)
{
    const char *file = getenv("MTPROF_OUT");
    own.collector = collector;
    if (getenv("MTPROF_RUN") != NULL) {
        wake_agent();
        return;
    }
    /* Each collector has its own copy of this file: the word that the first one takes is in libmtprof. */
    if (__atomic_exchange_n(&mtp__collecting, 1, __ATOMIC_RELAXED) != 0)
        return;
    if (file != NULL && *file != 0) {
        start_own(file);
    } else {
        own.pid = getpid();
        atexit(report_unused);
    }
}
