/* record/emit/itt.c - the program's half of ITT: ranges for the collector that INTEL_LIBITTNOTIFY64 names. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include "base/itt_abi.h"
#include "record/emit/emit.h"

/* What the collector supplies; NULL: it does not. Written before `attached` is read. */
static struct {
    mtp__itt_domain *(*domain_create)(const char *);
    mtp__itt_string *(*string_create)(const char *);
    void (*task_begin)(const mtp__itt_domain *, mtp__itt_id, mtp__itt_id, mtp__itt_string *);
    void (*task_end)(const mtp__itt_domain *);
    void (*marker)(const mtp__itt_domain *, mtp__itt_id, mtp__itt_string *, int);
} calls;

static const mtp__itt_id no_id;
static mtp__itt_domain *domain;
static bool attached;

#define FUNCTION(name, member)                                                                               \
    {                                                                                                        \
        "__itt_" name, (void **)(void *)&calls.member, NULL, NULL, 0x1000                                    \
    }

static void attach_once(void)
{
    static mtp__itt_function functions[] = {FUNCTION("domain_create", domain_create),
                                            FUNCTION("string_handle_create", string_create),
                                            FUNCTION("task_begin", task_begin),
                                            FUNCTION("task_end", task_end),
                                            FUNCTION("marker", marker),
                                            {NULL, NULL, NULL, NULL, 0}};
    static mtp__itt_global global = {.magic = MTP__ITT_MAGIC,
                                     .version = {3, 0, 0},
                                     .mutex = PTHREAD_MUTEX_INITIALIZER,
                                     .functions = functions};
    void (*init)(mtp__itt_global *, int) = NULL;
    *(void **)&init = mtp__tool_load("INTEL_LIBITTNOTIFY64", "__itt_api_init");
    if (init == NULL)
        return;
    init(&global, -1);
    global.is_initialized = 1;
    if (calls.domain_create == NULL || calls.string_create == NULL || calls.task_begin == NULL ||
        calls.task_end == NULL)
        return;
    domain = calls.domain_create("mtprof");
    attached = domain != NULL;
}

static bool attach(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, attach_once);
    return attached;
}

/* A domain whose flags are 0 was switched off by the collector. */
static int push(const char *text)
{
    if (domain->flags != 0)
        calls.task_begin(domain, no_id, no_id, calls.string_create(text));
    return -1;
}

static int pop(void)
{
    if (domain->flags != 0)
        calls.task_end(domain);
    return -1;
}

static void mark(const char *text)
{
    enum {
        OF_THE_THREAD = 5
    };
    if (domain->flags == 0)
        return;
    if (calls.marker != NULL) {
        calls.marker(domain, no_id, calls.string_create(text), OF_THE_THREAD);
    } else {
        push(text);
        pop();
    }
}

const mtp__tool mtp__tool_itt = {attach, push, pop, mark};
