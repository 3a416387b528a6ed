/* A tool that shows ranges, as VTune and Nsight are to a program: a collector of ITT and of NVTX that writes down what
 * it is told. MTP_TOOL_LOG=FILE: each call becomes a line there; the test may also ask for tool_log(). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/itt_abi.h"
#include "base/nvtx_abi.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT void __itt_api_init(mtp__itt_global *global, int groups);
EXPORT int InitializeInjectionNvtx2(mtp__nvtx_export *get);
EXPORT char *tool_log(void);
EXPORT void (*tool_log_hook)(void); /* called by each call; NULL: none */

void (*tool_log_hook)(void);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char text[1 << 20];
static size_t used;
static __thread int level;

static void tell(const char *what, const char *more)
{
    char line[8192];
    int n = snprintf(line, sizeof line, "%s %s\n", what, more);
    const char *path = getenv("MTP_TOOL_LOG");
    if (tool_log_hook != NULL)
        tool_log_hook();
    pthread_mutex_lock(&lock);
    if (used + (size_t)n < sizeof text) {
        memcpy(text + used, line, (size_t)n + 1);
        used += (size_t)n;
    }
    int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd >= 0 && write(fd, line, (size_t)n) == n)
        close(fd);
    pthread_mutex_unlock(&lock);
}

/* What was told since the last call. */
char *tool_log(void)
{
    static char out[sizeof text];
    pthread_mutex_lock(&lock);
    memcpy(out, text, used + 1);
    used = 0;
    text[0] = 0;
    pthread_mutex_unlock(&lock);
    return out;
}

/* ---------------------------------------------------------------------------------------------- ITT */

static mtp__itt_domain *domain_create(const char *name)
{
    mtp__itt_domain *d = calloc(1, sizeof *d);
    d->flags = 1;
    d->name = strdup(name);
    tell("domain", name);
    return d;
}

static mtp__itt_string *string_create(const char *name)
{
    mtp__itt_string *s = calloc(1, sizeof *s);
    s->text = strdup(name);
    return s;
}

static void task_begin(const mtp__itt_domain *d, mtp__itt_id id, mtp__itt_id parent, mtp__itt_string *s)
{
    (void)d, (void)id, (void)parent;
    tell("+", s->text);
}

static void task_end(const mtp__itt_domain *d)
{
    tell("-", d->name);
}

static void marker(const mtp__itt_domain *d, mtp__itt_id id, mtp__itt_string *s, int scope)
{
    (void)d, (void)id, (void)scope;
    tell("!", s->text);
}

void __itt_api_init(mtp__itt_global *global, int groups)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } ours[] = {{"__itt_domain_create", (void (*)(void))domain_create},
                {"__itt_string_handle_create", (void (*)(void))string_create},
                {"__itt_task_begin", (void (*)(void))task_begin},
                {"__itt_task_end", (void (*)(void))task_end},
                {"__itt_marker", (void (*)(void))marker}};
    static const unsigned char magic[8] = MTP__ITT_MAGIC;
    (void)groups;
    if (memcmp(global->magic, magic, sizeof magic) != 0)
        abort();
    for (mtp__itt_function *f = global->functions; f->name != NULL; f++)
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            if (strcmp(f->name, ours[i].name) == 0)
                *f->pointer = *(void *const *)(const void *)&ours[i].function;
}

/* --------------------------------------------------------------------------------------------- NVTX */

static int push(const char *t)
{
    tell("+", t);
    return level++;
}

static int pop(void)
{
    tell("-", "");
    return --level;
}

static void mark(const char *t)
{
    tell("!", t);
}

int InitializeInjectionNvtx2(mtp__nvtx_export *get)
{
    const mtp__nvtx_exports *exports = get(MTP__NVTX_CALLBACKS);
    mtp__nvtx_function **places;
    uint32_t count;
    for (uint32_t module = 1; module <= 6; module++)
        if (exports->functions(module, &places, &count) != 1 || count < MTP__NVTX_SLOTS)
            return 0;
    if (exports->functions(7, &places, &count) != 0 || get(2) != NULL || get(3) == NULL ||
        exports->functions(MTP__NVTX_CORE, &places, &count) != 1)
        return 0;
    *places[2] = (mtp__nvtx_function)mark;
    *places[9] = (mtp__nvtx_function)push;
    *places[11] = (mtp__nvtx_function)pop;
    return 1;
}
