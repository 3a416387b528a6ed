/* collect/told.c - see told.h. */
#define _GNU_SOURCE
#include "collect/told.h"
#include <dlfcn.h>
#include <mtprof.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS = 8
};

static struct {
    pthread_mutex_t lock; /* held across forks */
    mtp_profile *running; /* borrowed: between its begin and its end */
    struct {
        const char *key;
        char *json; /* owned */
    } known[KEYS];
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void begin(void *unused, mtp_profile *profile)
{
    (void)unused;
    pthread_mutex_lock(&told.lock);
    told.running = profile;
    for (int i = 0; i < KEYS && told.known[i].key != NULL; i++)
        mtp_profile_add_metadata_json(profile, told.known[i].key, told.known[i].json);
    pthread_mutex_unlock(&told.lock);
}

static void end(void *unused, mtp_profile *profile)
{
    (void)unused, (void)profile;
    pthread_mutex_lock(&told.lock);
    told.running = NULL;
    pthread_mutex_unlock(&told.lock);
}

static void hold(void)
{
    pthread_mutex_lock(&told.lock);
}

static void release(void)
{
    pthread_mutex_unlock(&told.lock);
}

static void release_in_child(void)
{
    told.running = NULL; /* the parent's */
    pthread_mutex_unlock(&told.lock);
}

void mtp__told_init(void)
{
    mtp_watch_add(begin, end, NULL);
    pthread_atfork(hold, release, release_in_child);
}

/* Under `mtprof run` the recording may have begun before we were loaded. */
static void tell_agent(const char *key, const char *json)
{
    void (*metadata)(const char *key, const char *json);
    *(void **)&metadata = dlsym(RTLD_DEFAULT, "mtp_run_metadata");
    if (metadata != NULL)
        metadata(key, json);
}

void mtp__told_set(const char *key, const char *json)
{
    char *copy = strdup(json);
    if (copy == NULL)
        return;
    pthread_mutex_lock(&told.lock);
    int i = 0;
    while (i < KEYS && told.known[i].key != NULL && strcmp(told.known[i].key, key) != 0)
        i++;
    if (i < KEYS) {
        free(told.known[i].json);
        told.known[i].key = key;
        told.known[i].json = copy;
    } else {
        free(copy);
    }
    mtp_profile *running = told.running;
    if (running != NULL)
        mtp_profile_add_metadata_json(running, key, json);
    pthread_mutex_unlock(&told.lock);
    if (running == NULL)
        tell_agent(key, json);
}
