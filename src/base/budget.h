/* base/budget.h - a limit on the memory held by a thread's calls, so that a file of a few megabytes cannot
 * exhaust a machine. While it is set, allocations from base/os.h on the thread are counted; beyond it they
 * fail as if out of memory, and mtp__fail() says why. Mappings count in full, touched or not.
 */
#ifndef MTP_BASE_BUDGET_H
#define MTP_BASE_BUDGET_H
#include <mtprof.h>

#define MTP__BUDGET_NONE UINT64_MAX

typedef struct mtp__budget {
    uint64_t limit;   /* 0: not set */
    uint64_t ceiling; /* for the default: what the machine has available; 0: the user chose the limit */
    uint64_t used;
    bool exceeded; /* an allocation was refused */
    bool goes_on;  /* an outer limit exists, and counts this call */
} mtp__budget;

/* Sets the limit for one call: `most` bytes, 0 for the default. An outer limit stays in force. Saves the
 * previous one in *outer. MTP_E_ARG: MTPROF_MAX_MEMORY is not a size. */
mtp_status mtp__budget_begin(uint64_t most, mtp__budget *outer);
void mtp__budget_end(const mtp__budget *outer);

/* Once the input file is known: lowers the default to what its size makes plausible. No effect if the user
 * chose the limit, or the size is unknown (0). */
void mtp__budget_fit(uint64_t file_bytes);
bool mtp__budget_is_default(void);

uint64_t mtp__budget_limit(void); /* MTP__BUDGET_NONE: not set */
bool mtp__budget_exceeded(void);

/* For base/os.c. take: false if over the limit. */
bool mtp__budget_take(size_t bytes);
void mtp__budget_give(size_t bytes);
#endif
