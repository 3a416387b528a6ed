#define _GNU_SOURCE
#include "base/budget.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"

/* A trace takes 0.3 to 2 times the size of its file, 20 times that of a compressed one, and its analysis the
 * same again. */
#define TIMES_FILE 64u
#define LEAST ((uint64_t)256 << 20)
#define FILE_MAX ((uint64_t)1 << 48)

static _Thread_local mtp__budget budget;

bool mtp__budget_take(size_t bytes)
{
    if (__builtin_expect(budget.limit == 0, 1))
        return true;
    if (budget.used > budget.limit || bytes > budget.limit - budget.used) {
        budget.exceeded = true;
        return false;
    }
    budget.used += bytes;
    return true;
}

/* Memory allocated before the limit was set may be freed after. */
void mtp__budget_give(size_t bytes)
{
    if (budget.limit != 0)
        budget.used -= bytes < budget.used ? bytes : budget.used;
}

uint64_t mtp__budget_limit(void)
{
    return budget.limit != 0 ? budget.limit : MTP__BUDGET_NONE;
}

bool mtp__budget_is_default(void)
{
    return budget.ceiling != 0;
}

void mtp__budget_fit(uint64_t file_bytes)
{
    if (budget.ceiling == 0 || file_bytes == 0)
        return;
    uint64_t plausible = file_bytes < FILE_MAX ? file_bytes * TIMES_FILE : FILE_MAX * TIMES_FILE;
    plausible = budget.used + (plausible > LEAST ? plausible : LEAST);
    if (budget.limit == budget.ceiling || plausible > budget.limit) /* with several files, for the largest */
        budget.limit = plausible < budget.ceiling ? plausible : budget.ceiling;
}

bool mtp__budget_exceeded(void)
{
    return budget.exceeded;
}

/* ----------------------------------------------------------------------------------- what a machine has */

static bool slurp(const char *path, char *text, size_t room)
{
    int fd = mtp__open(path, O_RDONLY, 0);
    ssize_t n = fd >= 0 ? mtp__pread(fd, text, room - 1, 0) : -1;
    mtp__close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* The number after a key, or at the start; UINT64_MAX: none ("max"). */
static uint64_t number_in(const char *path, const char *key)
{
    char text[4096], *end;
    if (!slurp(path, text, sizeof text))
        return UINT64_MAX;
    const char *at = strstr(text, key);
    at = at != NULL ? at + strlen(key) : "";
    unsigned long long value = strtoull(at, &end, 10);
    return end != at ? value : UINT64_MAX;
}

/* What the control group (v2 or v1) has left; in a container it is the root group. */
static uint64_t group_left(void)
{
    static const char *const files[][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        uint64_t most = number_in(files[i][0], ""), used = number_in(files[i][1], "");
        if (most != UINT64_MAX && used != UINT64_MAX)
            return most > used ? most - used : 0;
    }
    return UINT64_MAX;
}

/* Three quarters of the memory available without swapping others out. */
static uint64_t default_limit(void)
{
    uint64_t kilobytes = number_in("/proc/meminfo", "MemAvailable:"), group = group_left();
    uint64_t left = kilobytes < UINT64_MAX / 1024 ? kilobytes * 1024 : UINT64_MAX;
    left = group < left ? group : left;
    return left != UINT64_MAX ? left / 4 * 3 : MTP__BUDGET_NONE;
}

/* "2G", "1.5GB", "500M", "100000", "none". */
static bool parse_size(const char *text, uint64_t *bytes)
{
    static const char units[] = "kMGT";
    char *end;
    if (strcmp(text, "none") == 0) {
        *bytes = MTP__BUDGET_NONE;
        return true;
    }
    double value = mtp__read_double(text, &end);
    if (end == text || !(value >= 0))
        return false;
    char letter = *end == 'K' ? 'k' : *end == 'm' ? 'M' : *end == 'g' ? 'G' : *end;
    const char *unit = letter != 0 ? strchr(units, letter) : NULL;
    if (unit != NULL) {
        for (const char *u = units; u <= unit; u++)
            value *= 1024;
        end++;
        end += *end == 'i';
    }
    end += *end == 'B';
    *bytes = value < 0x1p63 ? (uint64_t)value : MTP__BUDGET_NONE;
    return *end == 0 && *bytes > 0;
}

static mtp_status find_limit(const char *text, mtp__budget *out)
{
    *out = (mtp__budget){0};
    const char *what = text != NULL ? "--max-memory" : "MTPROF_MAX_MEMORY";
    if (text == NULL)
        text = getenv("MTPROF_MAX_MEMORY");
    if (text == NULL || *text == 0) {
        out->limit = out->ceiling = default_limit();
        return MTP_OK;
    }
    return parse_size(text, &out->limit)
               ? MTP_OK
               : MTP_FAIL(MTP_E_ARG, "%s '%s' is not a size; use 2G, 500M or none", what, text);
}

/* ------------------------------------------------------------------------------------------- settings */

mtp_status mtp__budget_begin(uint64_t most, mtp__budget *outer)
{
    *outer = budget;
    outer->goes_on = budget.limit != 0 && most == 0;
    if (outer->goes_on)
        return MTP_OK;
    mtp__budget own = {.limit = most};
    mtp_status status = most == 0 ? find_limit(NULL, &own) : MTP_OK;
    if (status != MTP_OK)
        return status;
    if (budget.limit != 0) {
        uint64_t left = budget.limit > budget.used ? budget.limit - budget.used : 1;
        own.limit = own.limit < left ? own.limit : left;
    }
    budget = own;
    return MTP_OK;
}

void mtp__budget_end(const mtp__budget *outer)
{
    if (outer->goes_on)
        return;
    uint64_t used = budget.used;
    budget = *outer;
    budget.used += used; /* memory in use stays counted */
}

mtp_status mtp_memory_limit(const char *size)
{
    mtp__budget own;
    mtp_status status = find_limit(size, &own);
    if (status == MTP_OK)
        budget = own;
    return status;
}
