/* base/facts.c - see facts.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/facts.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* X(rank, size, local rank) in the order in which they count: the innermost launcher first. */
#define LAUNCHERS(X)                                                                                         \
    X("RANK", "WORLD_SIZE", "LOCAL_RANK") /* torchrun */                                                     \
    X("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")                          \
    X("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK")                             \
    X("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID") /* Hydra */                                                 \
    X("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK")                                                           \
    X("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")

static const char *const jobs[] = {
    "TORCHELASTIC_RUN_ID",     "SLURM_JOB_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
    "OMPI_MCA_orte_ess_jobid", "PMI_JOBID",    "PBS_JOBID"};

/* -1: not set, or no such number. */
static int number_of(const char *name)
{
    const char *text = getenv(name);
    int64_t value = 0;
    if (text == NULL || *text == 0)
        return -1;
    for (; *text != 0; text++) {
        if (*text < '0' || *text > '9' || value > INT32_MAX / 10 - 1)
            return -1;
        value = 10 * value + (*text - '0');
    }
    return (int)value;
}

/* "none" is torchrun's word for nothing given. */
static void find_job(char job[64])
{
    job[0] = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const char *text = getenv(jobs[i]);
        if (text == NULL || *text == 0 || strcmp(text, "none") == 0)
            continue;
        snprintf(job, 64, "%.63s", text);
        return;
    }
}

bool mtp__facts_read(mtp__facts *facts)
{
    static const char *const names[][3] = {
#define X(rank, size, local) {rank, size, local},
        LAUNCHERS(X)
#undef X
    };
    *facts = (mtp__facts){-1, -1, -1, ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int rank = number_of(names[i][0]), world = number_of(names[i][1]);
        if (rank < 0 || (world >= 0 && rank >= world))
            continue;
        facts->rank = rank;
        facts->world = world;
        facts->local = number_of(names[i][2]);
        find_job(facts->job);
        return true;
    }
    return false;
}

/* Letters of other alphabets and controls are not expected in a job's or a machine's name. */
static size_t put_text(char *at, size_t room, const char *text)
{
    size_t n = 0;
    for (; *text != 0 && n + 2 < room; text++) {
        unsigned char c = (unsigned char)*text;
        at[n++] = c < 0x20 || c >= 0x7f || c == '"' || c == '\\' ? '?' : (char)c;
    }
    at[n] = 0;
    return n;
}

void mtp__facts_write(const mtp__facts *f, const char *backend, char json[MTP__FACTS_JSON])
{
    size_t room = MTP__FACTS_JSON;
    int n = snprintf(json, room, "{\"backend\": \"%s\", \"rank\": %d, \"world_size\": %d", backend, f->rank,
                     f->world > 0 ? f->world : f->rank + 1);
    if (f->local >= 0)
        n += snprintf(json + n, room - (size_t)n, ", \"local_rank\": %d", f->local);
    if (f->job[0] != 0) {
        n += snprintf(json + n, room - (size_t)n, ", \"job\": \"");
        n += (int)put_text(json + n, room - (size_t)n - 4, f->job);
        n += snprintf(json + n, room - (size_t)n, "\"");
    }
    snprintf(json + n, room - (size_t)n, "}");
}

void mtp__facts_host(char json[MTP__FACTS_JSON])
{
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0)
        name[0] = 0;
    json[0] = '"';
    size_t n = 1 + put_text(json + 1, 300, name);
    memcpy(json + n, "\"", 2);
}
