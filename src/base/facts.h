/* base/facts.h - what a process is among many: its rank, its job, its machine; and how traces are told.
 *
 * Launchers say it in the environment; a program that knows better (MPI, torch.distributed) tells it later, and its word
 * counts. See docs/ranks.md.
 */
#ifndef MTP_BASE_FACTS_H
#define MTP_BASE_FACTS_H
#include <stdbool.h>
#include <stddef.h>

enum {
    MTP__FACTS_JSON = 1024
};

typedef struct mtp__facts {
    int rank, world, local; /* -1: unknown */
    char job[64];           /* "": unknown */
} mtp__facts;

bool mtp__facts_read(mtp__facts *facts); /* from the environment; false: it says nothing about ranks */
/* The value of distributedInfo. */
void mtp__facts_write(const mtp__facts *facts, const char *backend, char json[MTP__FACTS_JSON]);
/* The machine's name as a JSON string. */
void mtp__facts_host(char json[MTP__FACTS_JSON]);
#endif
