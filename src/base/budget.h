/* base/budget.h - a bound on the memory that a thread's calls hold, so that a file of a few megabytes cannot take all of a
 * machine's. What base/os.h gives out on the thread is counted while the bound is set; beyond it, allocations fail as if
 * there were no more memory, and mtp__fail() says why. Mapped room counts as a whole, touched or not.
 */
#ifndef MTP_BASE_BUDGET_H
#define MTP_BASE_BUDGET_H
#include <mtprof.h>

#define MTP__BUDGET_NONE UINT64_MAX

typedef struct mtp__budget {
    uint64_t limit;   /* 0: none is set */
    uint64_t ceiling; /* of the default: what the machine leaves; 0: the user chose the limit */
    uint64_t used;
    bool exceeded; /* something was refused */
    bool goes_on;  /* of an outer one: the call is counted by it */
} mtp__budget;

/* Sets the bound for one call: `most` bytes, 0 for the default. An outer one stays if it is there. *outer is what was.
 * MTP_E_ARG: MTPROF_MAX_MEMORY is no size. */
mtp_status mtp__budget_begin(uint64_t most, mtp__budget *outer);
void mtp__budget_end(const mtp__budget *outer);

/* The default, once the file is known that is to be read: no more than what its size makes plausible. Nothing if the user
 * chose the limit, or the size is not known (0). */
void mtp__budget_fit(uint64_t file_bytes);
bool mtp__budget_is_default(void);

uint64_t mtp__budget_limit(void); /* MTP__BUDGET_NONE: there is none */
bool mtp__budget_exceeded(void);

/* For base/os.c. take: false: it would be too much. */
bool mtp__budget_take(size_t bytes);
void mtp__budget_give(size_t bytes);
#endif
