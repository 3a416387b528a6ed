/* cli/run/ranks.c - `mtprof run` as one of many ranks: the name of its output, and whether the program uses MPI. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/run/run.h"

#define HEAD_BYTES (1u << 18) /* of a program, where the libraries that it needs are named */

void run_ranks_read(run_options *o)
{
    bool known = mtp__facts_read(&o->facts);
    if (!known || o->facts.world < 2) /* a job of one, or a variable that has another meaning */
        o->facts.rank = -1;
}

/* "job.mtp" of rank 2 is job.r2.mtp; %r is the rank, and %% a %. false: too long. */
bool run_ranks_name(const run_options *o, const char *output, char name[PATH_MAX])
{
    size_t n = 0;
    bool has_rank = false;
    char rank[16];
    snprintf(rank, sizeof rank, "%d", o->facts.rank < 0 ? 0 : o->facts.rank);
    for (const char *p = output; *p != 0; p++) {
        bool is_rank = p[0] == '%' && p[1] == 'r';
        if (n + sizeof rank + 4 >= PATH_MAX)
            return false;
        if (is_rank)
            n += (size_t)snprintf(name + n, PATH_MAX - n, "%s", rank);
        else
            name[n++] = *p;
        p += is_rank;
        has_rank |= is_rank;
    }
    name[n] = 0;
    if (has_rank || o->facts.rank < 0)
        return true;
    char *slash = strrchr(name, '/'), *base = slash != NULL ? slash + 1 : name, *dot = strchr(base, '.');
    if (cli_ends(name, ".mtp"))
        dot = name + n - 4;
    if (dot == NULL)
        dot = name + n;
    char rest[64];
    if (snprintf(rest, sizeof rest, "%s", dot) >= (int)sizeof rest)
        return false;
    snprintf(dot, PATH_MAX - (size_t)(dot - name), ".r%s%s", rank, rest);
    return true;
}

static bool is_launcher(const char *path)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun", "prun",
                                        "srun",   "aprun",   "jsrun",   "flux"};
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncmp(base, names[i], n) == 0 && (base[n] == 0 || base[n] == '.'))
            return true;
    }
    return false;
}

static bool names_mpi(const char *path)
{
    char *head = malloc(HEAD_BYTES);
    int fd = head != NULL ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    ssize_t n = fd >= 0 ? read(fd, head, HEAD_BYTES) : -1;
    bool does = n > 4 && memcmp(head, "\177ELF", 4) == 0 && memmem(head, (size_t)n, "libmpi", 6) != NULL;
    if (fd >= 0)
        close(fd);
    free(head);
    return does;
}

bool run_ranks_use_mpi(const char *program)
{
    static const char *const launched[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                           "MV2_COMM_WORLD_RANK", "PMI_FD"};
    for (size_t i = 0; i < sizeof launched / sizeof *launched; i++)
        if (getenv(launched[i]) != NULL)
            return true;
    return is_launcher(program) || names_mpi(program);
}
