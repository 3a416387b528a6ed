/* collect/mpi/clocks.c - how far the clocks of two ranks are apart, by messages between them: see mpi.h and docs/ranks.md.
 *
 * Rank 0 answers, each other rank asks: a question and its answer bound the offset by half the time between them. Of many
 * such, the shortest counts.
 *
 * Only ranks that are recorded may be sent anything: others would find our messages among their own. So each rank leaves a
 * locked file beside its recording before MPI_Init, in which all ranks meet. Rank 0 invites those whose file it finds. What
 * is unexpected ends in a time limit, and without ties. MPI_Finalize is used only if all ranks took part in MPI_Init.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "base/facts.h"
#include "collect/mpi/mpi.h"
#include "collect/told.h"

#define TAG                                                                                                  \
    32761 /* of our messages in MPI_COMM_WORLD, while all who could receive them are in MPI_Init or MPI_Finalize */
#define PATIENCE_NS 5000000000u
#define LONG_NS 30000000u /* of asking one rank */
#define FOLDER ".workers"

enum {
    ROUNDS = 100,
    LEAST = 10, /* rounds, however long they take */
    TIES = 2,
    PATH = 4096
};

typedef struct tie {
    int peer;
    uint64_t at_ns;
    int64_t offset_ns;
    uint64_t error_ns;
} tie;

static struct {
    tie tie[TIES];
    int count;
    bool all;      /* did every rank take part? */
    int announced; /* descriptor; -1: none */
} clocks = {.announced = -1};

/* ------------------------------------------------------------------------------------------- who is recorded */

/* The file of a rank. The recording's folder has the rank in its name if each rank has a `mtprof run` of its own. */
static bool name_file(int own, int rank, char path[PATH])
{
    const char *folder = getenv("MTPROF_RUN");
    char part[24];
    if (folder == NULL || strlen(folder) + 64 > PATH)
        return false;
    int n = snprintf(part, sizeof part, ".r%d.", own);
    const char *base = strrchr(folder, '/'), *found = NULL;
    for (const char *p = base; p != NULL && (p = strstr(p, part)) != NULL; p++)
        found = p;
    if (found == NULL)
        snprintf(path, PATH, "%s/.rank%d", folder, rank);
    else
        snprintf(path, PATH, "%.*s.r%d.%s/.rank%d", (int)(found - folder), folder, rank, found + n, rank);
    return true;
}

void mtp__mpi_clocks_announce(void)
{
    mtp__facts facts;
    char path[PATH];
    if (clocks.announced >= 0 || !mtp__facts_read(&facts) || !name_file(facts.rank, facts.rank, path))
        return;
    clocks.announced = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (clocks.announced >= 0)
        flock(clocks.announced, LOCK_SH | LOCK_NB);
}

static bool is_recorded(int own, int rank)
{
    char path[PATH];
    int fd = name_file(own, rank, path) ? open(path, O_RDWR | O_CLOEXEC) : -1;
    bool is = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return is;
}

/* ------------------------------------------------------------------------------------------------- messages */

static bool send_word(int64_t word, int to)
{
    return mtp__pmpi.Send(&word, (int)sizeof word, mtp__mpi.byte, to, TAG, mtp__mpi.world) == 0;
}

static bool receive_word(int64_t *word, int from, uint64_t until)
{
    int came = 0;
    uint64_t status[8];
    while (!came) {
        if (mtp__pmpi.Iprobe(from, TAG, mtp__mpi.world, &came, status) != 0)
            return false;
        if (!came && until != 0 && mtp_now_ns() > until)
            return false;
        if (!came)
            sched_yield();
    }
    return mtp__pmpi.Recv(word, (int)sizeof *word, mtp__mpi.byte, from, TAG, mtp__mpi.world, status) == 0;
}

static uint64_t limit(bool patient)
{
    return patient ? 0 : mtp_now_ns() + PATIENCE_NS;
}

/* Rank 0. */
static bool answer(int rank, bool patient)
{
    int64_t word = 0;
    if (!send_word(0, rank))
        return false;
    do {
        if (!receive_word(&word, rank, limit(patient)))
            return false;
    } while (word != 0 && send_word((int64_t)mtp_now_ns(), rank));
    return word == 0;
}

/* Every other rank. */
static bool ask(bool patient)
{
    tie best = {.error_ns = UINT64_MAX};
    int64_t word = 0;
    if (!receive_word(&word, 0, limit(patient)))
        return false;
    uint64_t first = mtp_now_ns(), now = first;
    for (int i = 0; i < ROUNDS && (i < LEAST || now - first < LONG_NS); i++) {
        uint64_t before = mtp_now_ns();
        if (!send_word(1, 0) || !receive_word(&word, 0, limit(patient)))
            return false;
        now = mtp_now_ns();
        uint64_t middle = before + (now - before) / 2, error = (now - before + 1) / 2;
        if (error < best.error_ns)
            best = (tie){.at_ns = middle, .offset_ns = word - (int64_t)middle, .error_ns = error};
    }
    if (clocks.count < TIES)
        clocks.tie[clocks.count++] = best;
    return send_word(0, 0);
}

/* ------------------------------------------------------------------------------------------------ the result */

static void tell(void)
{
    char json[TIES * 128 + 8];
    int n = 0;
    for (int i = 0; i < clocks.count; i++) {
        const tie *t = &clocks.tie[i];
        n += snprintf(json + n, sizeof json - (size_t)n,
                      "%s{\"peer_rank\": 0, \"at_ns\": %llu, \"offset_ns\": %lld, \"error_ns\": %llu}",
                      i > 0 ? ", " : "[", (unsigned long long)t->at_ns, (long long)t->offset_ns,
                      (unsigned long long)t->error_ns);
    }
    if (n > 0) {
        snprintf(json + n, sizeof json - (size_t)n, "]");
        mtp__told_set("mtprof.clock_ties", json);
    }
}

void mtp__mpi_clocks_begin(const mtp__comm *world)
{
    int64_t all = 1;
    if (world == NULL || world->size < 2 || clocks.announced < 0)
        return;
    if (world->rank != 0) {
        if (!is_recorded(world->rank, 0) || !ask(false))
            return;
        clocks.all = receive_word(&all, 0, 0) && all != 0;
        tell();
        return;
    }
    bool *tied = calloc((size_t)world->size, sizeof *tied);
    for (int i = 1; tied != NULL && i < world->size; i++) {
        tied[i] = is_recorded(0, i) && answer(i, false);
        all &= tied[i];
    }
    for (int i = 1; tied != NULL && i < world->size; i++)
        if (tied[i])
            send_word(all, i);
    clocks.all = tied != NULL && all;
    free(tied);
}

void mtp__mpi_clocks_end(const mtp__comm *world)
{
    if (world == NULL || !clocks.all || mtp__pmpi.Barrier(mtp__mpi.world) != 0)
        return;
    for (int i = 1; world->rank == 0 && i < world->size; i++)
        if (!answer(i, true))
            return;
    if (world->rank != 0 && ask(true))
        tell();
}
