/* collect/mpi/collector.c - a collector for programs that use MPI, preloaded: see docs/ranks.md.
 *
 *     mpirun -n 4 mtprof run -o job.mtp -- program
 *     mpirun -n 4 -x LD_PRELOAD=/path/libmtprof_mpi.so -x MTPROF_OUT=job.%r.mtp program
 */
#define _GNU_SOURCE
#include <pthread.h>
#include "base/facts.h"
#include "collect/mpi/wrap.h"
#include "collect/own.h"
#include "collect/told.h"

enum state {
    BEFORE,
    UP,
    AFTER
};

static struct {
    pthread_mutex_t lock;
    uint32_t state; /* enum state; release, pairs: mtp__mpi_is_up */
} mpi = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT; /* a process that never uses MPI records nothing */
static mtp__mpi_real real_init, real_init_thread, real_finalize, real_abort;

/* ---------------------------------------------------------------------------------------------------- the start */

static void hold(void)
{
    pthread_mutex_lock(&mpi.lock);
    mtp__comms_hold();
}

static void release(void)
{
    mtp__comms_release();
    pthread_mutex_unlock(&mpi.lock);
}

static void report(void)
{
}

static void start(void)
{
    static const mtp__collector collector = {"the MPI collector", mtp__mpi_used, report};
    pthread_atfork(hold, release, release);
    mtp__told_init();
    mtp__own_start(&collector);
}

/* ------------------------------------------------------------------------------------------------- from begin to end */

/* The rank as MPI has it; what else there is, as the launcher said. */
static void tell_rank(void)
{
    mtp__facts facts;
    char json[MTP__FACTS_JSON];
    mtp__facts_read(&facts);
    if (mtp__pmpi.Comm_rank(mtp__mpi.world, &facts.rank) != 0 ||
        mtp__pmpi.Comm_size(mtp__mpi.world, &facts.world) != 0)
        return;
    mtp__facts_write(&facts, "mpi", json);
    mtp__told_set("distributedInfo", json);
    mtp__facts_host(json);
    mtp__told_set("hostname", json);
}

/* Where MPI_Init was not seen (a call from Fortran), MPI is up at the first call that is. */
static void look(void)
{
    int is_up = 0, is_over = 0;
    pthread_once(&once, start);
    pthread_mutex_lock(&mpi.lock);
    if (mpi.state == BEFORE && mtp__pmpi.Initialized(&is_up) == 0 && is_up &&
        mtp__pmpi.Finalized(&is_over) == 0 && !is_over) {
        tell_rank();
        __atomic_store_n(&mpi.state, UP, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&mpi.lock);
}

bool mtp__mpi_is_up(void)
{
    if (MTP__UNLIKELY(__atomic_load_n(&mpi.state, __ATOMIC_ACQUIRE) == BEFORE))
        look();
    return __atomic_load_n(&mpi.state, __ATOMIC_ACQUIRE) == UP;
}

static mtp_token begin(const char *name)
{
    return mtp__mpi_wanted() ? mtp__mpi_begin(mtp_name(name), NULL) : 0;
}

static int init(mtp__mpi_real *slot, const char *pmpi, unsigned words, mtp__word *a)
{
    void *real = mtp__mpi_real_of(slot, pmpi);
    if (real == NULL)
        return MTP__MPI_ERR_OTHER;
    pthread_once(&once, start);
    mtp__mpi_clocks_announce();
    mtp_token token = begin(pmpi + 1);
    int code = mtp__mpi_apply(real, words, a);
    if (code == 0 && mtp__mpi.name != NULL && mtp__mpi_is_up())
        mtp__mpi_clocks_begin(mtp__comm_find(mtp__mpi.world));
    mtp_scope_end(token);
    return code;
}

static int finalize(void)
{
    const mtp__word none[4] = {0};
    void *real = mtp__mpi_real_of(&real_finalize, "PMPI_Finalize");
    if (real == NULL)
        return MTP__MPI_ERR_OTHER;
    mtp_token token = begin("MPI_Finalize");
    if (mtp__mpi.name != NULL && mtp__mpi_is_up())
        mtp__mpi_clocks_end(mtp__comm_find(mtp__mpi.world));
    __atomic_store_n(&mpi.state, AFTER, __ATOMIC_RELEASE);
    int code = mtp__mpi_apply(real, 0, none);
    mtp_scope_end(token);
    return code;
}

/* It does not return: the span stays open, and says how the process ended. */
static int end_all(const mtp__word *a)
{
    void *real = mtp__mpi_real_of(&real_abort, "PMPI_Abort");
    if (real == NULL)
        return MTP__MPI_ERR_OTHER;
    mtp_token token = begin("MPI_Abort");
    int code = mtp__mpi_apply(real, 2, a);
    mtp_scope_end(token);
    return code;
}

MTP__MPI_WRAP(Init, 2, init(&real_init, "PMPI_Init", 2, a))
MTP__MPI_WRAP(Init_thread, 4, init(&real_init_thread, "PMPI_Init_thread", 4, a))
MTP__MPI_WRAP(Abort, 2, end_all(a))
MTP_API int MPI_Finalize(void);
int MPI_Finalize(void)
{
    return finalize();
}
