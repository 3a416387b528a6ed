/* collect/itt/itt.h - shared by the files of the ITT collector. */
#ifndef MTP_COLLECT_ITT_ITT_H
#define MTP_COLLECT_ITT_ITT_H
#include <mtprof.h>
#include <stdbool.h>
#include "base/itt_abi.h"

/* ------------------------------------------------------------------------------------------- names.c */

/* A string as it is shown for tasks of one domain. Kept by the string (extra2), for the life of the process. */
typedef struct mtp__itt_shown {
    const mtp__itt_domain *domain; /* borrowed; compared only */
    struct mtp__itt_shown *next;   /* of the same string */
    uint32_t name;                 /* 0: not known yet */
    bool is_op;                    /* a tensor library's domain: its tasks are shown as ops */
    uint64_t count;                /* atomic: of the counter of that name */
} mtp__itt_shown;

/* NULL: out of memory. */
mtp__itt_shown *mtp__itt_show(const mtp__itt_domain *domain, mtp__itt_string *string);
mtp__itt_shown *mtp__itt_show_frame(const mtp__itt_domain *domain); /* its name is the domain's */
uint32_t mtp__itt_function_name(const mtp__itt_domain *domain, const void *function);
bool mtp__itt_is_op(const mtp__itt_domain *domain);

mtp__itt_domain *mtp__itt_domain_create(const char *name);
mtp__itt_string *mtp__itt_string_create(const char *text);

bool mtp__itt_recorded(void); /* a name was asked for, which only recording does */
void mtp__itt_names_init(void);

/* --------------------------------------------------------------------------------- tasks.c, counters.c */

/* One function of the interface, by its name without "__itt_". */
typedef struct mtp__itt_entry {
    const char *name;
    void (*function)(void);
} mtp__itt_entry;
#define MTP__ITT_ENTRY(name, function)                                                                       \
    {                                                                                                        \
        name, (void (*)(void))function                                                                       \
    }

extern const mtp__itt_entry mtp__itt_tasks[], mtp__itt_counters[]; /* a NULL name ends each */

extern bool mtp__itt_paused; /* relaxed: between __itt_pause() and __itt_resume() */
static inline bool mtp__itt_wanted(void)
{
    return MTP__UNLIKELY(mtp_recording() & MTP_CPU) && !__atomic_load_n(&mtp__itt_paused, __ATOMIC_RELAXED);
}
#endif
