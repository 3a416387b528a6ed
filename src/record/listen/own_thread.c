/* record/listen/own_thread.c - threads of our own in a program that does not know of them: see mtprof_tools.h.
 *
 * A process whose main thread has left by pthread_exit() ends with its last thread: ours must not keep it alive.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "record/listen/listen.h"

static atomic_int threads; /* ours that run */

static void *run(void *arg)
{
    void (*body)(void) = NULL;
    *(void **)&body = arg;
    body();
    atomic_fetch_sub(&threads, 1);
    return NULL;
}

mtp_status mtp__own_thread(void (*body)(void))
{
    atomic_fetch_add(&threads, 1);
    int error = mtp__start_thread(run, *(void **)&body);
    if (error == 0)
        return MTP_OK;
    atomic_fetch_sub(&threads, 1);
    return MTP_FAIL(MTP_E_NOMEM, "no thread could be created: %s", mtp__reason(error));
}

void mtp__own_threads_forked(void)
{
    atomic_store(&threads, 0);
}

const char *mtp__process_stat(const char *path, char text[MTP__STAT_ROOM])
{
    FILE *f = fopen(path, "re");
    size_t n = f != NULL ? fread(text, 1, MTP__STAT_ROOM - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')'); /* the name may contain anything */
    return at != NULL && at[1] == ' ' ? at + 2 : NULL;
}

/* The main thread is gone, and there are none but it and ours. */
bool mtp__is_last_thread(void)
{
    char path[64], text[MTP__STAT_ROOM];
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", (long)getpid());
    const char *at = mtp__process_stat(path, text);
    if (at == NULL || *at != 'Z')
        return false;
    for (int field = 3; field < 20 && at != NULL; field++) /* proc(5): 20 is the number of threads */
        at = (at = strchr(at, ' ')) != NULL ? at + 1 : NULL;
    return at != NULL && strtol(at, NULL, 10) == 1 + atomic_load(&threads);
}
