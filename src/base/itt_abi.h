/* base/itt_abi.h - what a program's built-in half of ITT and a collector share in memory.
 *
 * The program's half is linked into each of its shared objects. At its first call it loads the library that
 * INTEL_LIBITTNOTIFY64 names and passes an mtp__itt_global to __itt_api_init. That has a list of the functions
 * that a collector may supply, by name; the list differs between versions. The layouts have not changed since
 * 2010: they grow at the tail.
 */
#ifndef MTP_BASE_ITT_ABI_H
#define MTP_BASE_ITT_ABI_H
#include <pthread.h>
#include <stdint.h>

typedef struct mtp__itt_id {
    uint64_t d1, d2, d3; /* all 0: none */
} mtp__itt_id;

/* A domain and a string have the same layout but for `flags`. The extras are the collector's. */
typedef struct mtp__itt_domain {
    volatile int flags; /* 0: the program's half skips its calls */
    const char *name;
    void *wide_name;
    int extra1;
    void *extra2;
    struct mtp__itt_domain *next;
} mtp__itt_domain;

typedef struct mtp__itt_string {
    const char *text;
    void *wide_text;
    int extra1;
    void *extra2;
    struct mtp__itt_string *next;
} mtp__itt_string;

typedef struct mtp__itt_function {
    const char *name; /* "__itt_task_begin"; NULL ends the list */
    void **pointer;   /* what the program calls; NULL there: nothing is called */
    void *first;      /* loads the collector, then calls */
    void *without;    /* to be called if the collector has none */
    int group;
} mtp__itt_function;

typedef struct mtp__itt_global {
    unsigned char magic[8];
    unsigned long version[3];
    volatile long is_initialized, has_mutex, atomic_counter;
    pthread_mutex_t mutex;
    void *library;
    void *error_handler;
    const char **library_path;
    mtp__itt_function *functions;
    struct mtp__itt_global *next;
    void *threads;
    mtp__itt_domain *domains; /* made before the collector was loaded */
    mtp__itt_string *strings;
    int state;
    void *counters;
} mtp__itt_global;

#define MTP__ITT_MAGIC                                                                                       \
    {                                                                                                        \
        0xed, 0xab, 0xab, 0xec, 0x0d, 0xee, 0xda, 0x30                                                       \
    }

typedef enum mtp__itt_type { /* of a counter's value */
    MTP__ITT_U64 = 1,
    MTP__ITT_S64,
    MTP__ITT_U32,
    MTP__ITT_S32,
    MTP__ITT_U16,
    MTP__ITT_S16,
    MTP__ITT_FLOAT,
    MTP__ITT_DOUBLE
} mtp__itt_type;
#endif
