/* record/fork.c - what happens to the active profile in a forked child.
 *
 * In the child, the parent's chunks are not mapped and its gate is closed. Either recording continues in a
 * file of the child's own (follow_fork), or it is off, and the child may start a profile itself.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <unistd.h>
#include "base/testpoint.h"
#include "record/listen/listen.h"
#include "record/profile.h"
#include "record/stack.h"

static mtp__hold busy_before; /* registry lock */
static bool had_others;       /* at the fork, the process had other threads */
static _Thread_local bool without_locks __attribute__((tls_model("initial-exec")));

/* A fork from a callback that runs under one of our locks (a stack provider's describe). The locks cannot be
 * taken, and what they guard may be inconsistent: the child is treated like one made by a raw clone, and does
 * not record. */
static bool forks_without_locks(void)
{
    without_locks = mtp__guard_inside();
    return without_locks;
}

static void before_fork(void)
{
    bool others = !__libc_single_threaded;
    if (forks_without_locks())
        return;
    mtp__hold before = mtp__writer_hold();
    mtp__registry_lock();
    busy_before = before;
    had_others = others;
    mtp__recorder_fork_locks(true);
}

static void after_fork_parent(void)
{
    if (without_locks)
        return;
    mtp__recorder_fork_locks(false);
    mtp__hold before = busy_before;
    mtp_profile *prof = mtp__profile_active(); /* valid while we hold the lock: see destroy */
    if (prof != NULL && mtp__recorder_current() != NULL && !prof->config.follow_fork)
        atomic_fetch_add(&prof->forks, 1);
    mtp__registry_unlock();
    mtp__writer_release(before);
}

/* The child's own file. If the spool's pattern names the process, that tells them apart; else it is the parent's
 * path, with patterns already expanded, and the child's pid. */
static void child_spool(const mtp_profile *prof, char *path, size_t room)
{
    const char *p = prof->config.spool;
    while ((p = strchr(p, '%')) != NULL && p[1] != 'p')
        p += 2;
    if (p != NULL) {
        snprintf(path, room, "%s", prof->config.spool);
        return;
    }
    size_t n = 0;
    for (p = prof->spool_root; *p != 0 && n < PATH_MAX; p++) {
        if (*p == '%')
            path[n++] = '%';
        path[n++] = *p;
    }
    snprintf(path + n, room - n, ".%ld", (long)getpid());
}

/* Failure is not reported: the child then does not record. */
static void follow(mtp_profile *prof)
{
    char path[2 * PATH_MAX + 32];
    child_spool(prof, path, sizeof path);
    if (mtp__recorder_revive(prof->recorder, path) != MTP_OK) {
        mtp__profile_release(prof);
        return;
    }
    prof->recording = true;
    mtp__profile_write_metadata(prof);
    mtp__step_mark(prof->step);
}

static void child_continues(void)
{
    MTP__TESTPOINT(FORK_CHILD);
    mtp__profile_ways_forked();
    if (without_locks || had_others)
        mtp__stack_forked();
    if (without_locks) {
        __atomic_store_n(&mtp__recording, 0, __ATOMIC_RELAXED);
        return;
    }
    const mtp__hold before = busy_before;
    const bool inside = before.busy != 0; /* a handler, or a stack provider, forked inside a record */
    mtp__recorder *was = mtp__recorder_forked(inside);
    mtp__registry_forked(inside);
    mtp__writer_release(before);
    mtp_profile *prof = mtp__profile_active();
    if (prof == NULL)
        return;
    bool recording = prof->recording && was == prof->recorder;
    prof->recording = false;
    prof->step_token = 0;
    if (atomic_load(&prof->driver) != (uintptr_t)pthread_self())
        atomic_store(&prof->driver, 0); /* that thread is not in the child */
    if (recording && prof->config.follow_fork) {
        follow(prof);
        return;
    }
    prof->action = MTP_ACTION_NONE;
    mtp__profile_release(prof);
}

static void after_fork_child(void)
{
    child_continues();
    mtp__own_threads_forked();
    mtp__listen_forked(!without_locks);
}

void mtp__recorder_fork_init(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
