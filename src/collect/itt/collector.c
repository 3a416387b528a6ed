/* collect/itt/collector.c - a collector for programs that speak ITT: PyTorch's emit_itt, oneDNN, OpenVINO, TBB.
 *
 *     INTEL_LIBITTNOTIFY64=/path/libmtprof_itt.so MTPROF_OUT=trace.json program
 *
 * Each shared object of the program that has ITT calls __itt_api_init once, at its first ITT call. With
 * MTPROF_OUT the process is profiled from then on; without, ITT is recorded into whatever profile runs. See
 * docs/collectors.md.
 *
 * Threads: any.
 */
#include <stdlib.h>
#include <string.h>
#include "collect/itt/itt.h"
#include "collect/own.h"
#include "collect/ranges.h"

bool mtp__itt_paused;

MTP_API void __itt_api_init(mtp__itt_global *global, int groups);
MTP_API void __itt_api_fini(mtp__itt_global *global);

static void report(void)
{
}

static const mtp__collector itt = {"the ITT collector", mtp__itt_recorded, report};

static void start(void)
{
    mtp__ranges_init();
    mtp__itt_names_init();
    mtp__own_start(&itt);
}

static void *find(const mtp__itt_entry *entries, const char *name)
{
    for (const mtp__itt_entry *e = entries; e->name != NULL; e++)
        if (strcmp(e->name, name) == 0)
            return *(void *const *)(const void *)&e->function;
    return NULL;
}

/* Functions that we do not have are not called. Two entries of a list may share a name, and lists of other
 * versions may be shorter or longer. */
static void supply(const mtp__itt_function *f)
{
    static const char prefix[] = "__itt_";
    void *ours = NULL;
    if (strncmp(f->name, prefix, sizeof prefix - 1) == 0) {
        const char *name = f->name + sizeof prefix - 1;
        ours = find(mtp__itt_tasks, name);
        if (ours == NULL)
            ours = find(mtp__itt_counters, name);
    }
    if (f->pointer != NULL)
        __atomic_store_n(f->pointer, ours != NULL ? ours : f->without, __ATOMIC_RELEASE);
}

void __itt_api_init(mtp__itt_global *global, int groups)
{
    static const unsigned char magic[8] = MTP__ITT_MAGIC;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)groups;
    if (global == NULL || memcmp(global->magic, magic, sizeof magic) != 0 || global->functions == NULL)
        return;
    pthread_once(&once, start);
    for (const mtp__itt_function *f = global->functions; f->name != NULL; f++)
        supply(f);
}

/* The program's half is about to be unloaded. What it made may be in use by records: nothing is freed. */
void __itt_api_fini(mtp__itt_global *global)
{
    (void)global;
}
