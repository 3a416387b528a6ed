/* collect/ranges.c - see ranges.h. */
#define _GNU_SOURCE
#include "collect/ranges.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u

_Thread_local mtp__ranges *mtp__ranges_mine;

/* A keyed range: on its bucket's list, newest first, or on `late` after another thread has ended it. */
typedef struct keyed {
    mtp__range_key key;
    struct keyed *next;  /* owned */
    mtp__ranges *thread; /* borrowed: whose scope it is; NULL: that thread has ended */
    mtp_token token;
    uint32_t name;
} keyed;

static struct {
    pthread_mutex_t lock;
    pthread_key_t exit_key;
    uint32_t open;          /* relaxed outside the lock: any keyed ranges at all? */
    keyed *bucket[BUCKETS]; /* owned; under lock */
    keyed *late;            /* owned; under lock */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------------------------------- threads */

static void thread_ended(void *arg)
{
    mtp__ranges *mine = arg;
    pthread_mutex_lock(&all.lock);
    for (uint32_t i = 0; i < BUCKETS && __atomic_load_n(&all.open, __ATOMIC_RELAXED) > 0; i++)
        for (keyed *k = all.bucket[i]; k != NULL; k = k->next)
            if (k->thread == mine)
                k->thread = NULL;
    for (keyed **at = &all.late; *at != NULL;) {
        keyed *k = *at;
        if (k->thread != mine) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        free(k);
    }
    pthread_mutex_unlock(&all.lock);
    if (mtp__ranges_mine == mine)
        mtp__ranges_mine = NULL;
    free(mine->at);
    free(mine);
}

static void before_fork(void)
{
    pthread_mutex_lock(&all.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&all.lock);
}

void mtp__ranges_init(void)
{
    pthread_key_create(&all.exit_key, thread_ended); /* if it fails, ended threads keep their stack */
    pthread_atfork(before_fork, after_fork, after_fork);
}

static mtp__ranges *mine_or_new(void)
{
    mtp__ranges *mine = mtp__ranges_mine;
    if (mine == NULL) {
        mine = calloc(1, sizeof *mine);
        if (mine == NULL)
            return NULL;
        pthread_setspecific(all.exit_key, mine);
        mtp__ranges_mine = mine;
    }
    return mine;
}

void mtp__ranges_end_late(mtp__ranges *mine)
{
    keyed *own = NULL;
    pthread_mutex_lock(&all.lock);
    for (keyed **at = &all.late; *at != NULL;) {
        keyed *k = *at;
        if (k->thread == mine) {
            *at = k->next;
            k->next = own;
            own = k;
        } else {
            at = &k->next;
        }
    }
    __atomic_store_n(&mine->ended, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&all.lock);
    while (own != NULL) {
        keyed *k = own;
        own = k->next;
        mtp_scope_end(k->token);
        free(k);
    }
}

/* --------------------------------------------------------------------------------------------- stacks */

static uint32_t level_above(const mtp__ranges *mine, const void *owner)
{
    for (uint32_t i = mine->count; i > 0; i--)
        if (mine->at[i - 1].owner == owner)
            return mine->at[i - 1].level + 1;
    return 0;
}

static __attribute__((noinline)) bool grow(mtp__ranges *mine)
{
    uint32_t room = mine->room == 0 ? 32 : 2 * mine->room;
    mtp__range *at = mine->lost == 0 && room > mine->room ? realloc(mine->at, room * sizeof *at) : NULL;
    if (at == NULL)
        return false;
    mine->at = at;
    mine->room = room;
    return true;
}

int mtp__ranges_push(const void *owner, mtp_token token)
{
    mtp__ranges *mine = mine_or_new();
    if (mine == NULL) {
        mtp_scope_end(token);
        return -1;
    }
    if (__builtin_expect(mine->count == mine->room || mine->lost > 0, 0) && !grow(mine)) {
        mine->lost++; /* its end must not take another's range */
        mtp_scope_end(token);
        return -1;
    }
    uint32_t level = level_above(mine, owner);
    mine->at[mine->count++] = (mtp__range){owner, token, level};
    return (int)level;
}

int mtp__ranges_pop(const void *owner)
{
    mtp__ranges *mine = mtp__ranges_mine;
    mtp__ranges_settle();
    if (__builtin_expect(mine->lost > 0, 0)) {
        mine->lost--;
        return -1;
    }
    for (uint32_t i = mine->count; i > 0; i--) {
        if (mine->at[i - 1].owner != owner)
            continue;
        mtp__range range = mine->at[i - 1];
        mine->count--;
        if (__builtin_expect(i - 1 != mine->count, 0))
            memmove(mine->at + i - 1, mine->at + i, (mine->count - (i - 1)) * sizeof range);
        mtp_scope_end(range.token);
        return (int)range.level;
    }
    return -1;
}

/* ---------------------------------------------------------------------------------------- keyed ranges */

static keyed **bucket_of(const mtp__range_key *key)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < 4; i++)
        hash = (hash ^ key->word[i]) * 0x9e3779b97f4a7c15u;
    return &all.bucket[hash >> 54];
}

void mtp__range_start(const mtp__range_key *key, mtp_token token, uint32_t name)
{
    if (token == 0)
        return;
    mtp__ranges *mine = mine_or_new();
    keyed *k = mine != NULL ? malloc(sizeof *k) : NULL;
    if (k == NULL) {
        mtp_scope_end(token);
        return;
    }
    *k = (keyed){*key, NULL, mine, token, name};
    keyed **bucket = bucket_of(key);
    pthread_mutex_lock(&all.lock);
    k->next = *bucket;
    *bucket = k;
    __atomic_fetch_add(&all.open, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&all.lock);
}

/* The newest of this key, taken off its list; NULL: none. One of another thread's becomes late, and `name` is
 * set. */
static keyed *take(const mtp__range_key *key, const mtp__ranges *mine, uint32_t *name)
{
    keyed **at = bucket_of(key);
    while (*at != NULL && memcmp(&(*at)->key, key, sizeof *key) != 0)
        at = &(*at)->next;
    keyed *k = *at;
    if (k == NULL)
        return NULL;
    *at = k->next;
    __atomic_fetch_sub(&all.open, 1, __ATOMIC_RELAXED);
    if (k->thread == mine)
        return k;
    *name = k->name;
    if (k->thread == NULL) {
        free(k);
        return NULL;
    }
    k->next = all.late;
    all.late = k;
    __atomic_store_n(&k->thread->ended, 1, __ATOMIC_RELAXED);
    return NULL;
}

void mtp__range_end(const mtp__range_key *key)
{
    if (__atomic_load_n(&all.open, __ATOMIC_RELAXED) == 0)
        return;
    mtp__ranges *mine = mine_or_new();
    uint32_t name = 0;
    if (mine == NULL)
        return;
    mtp__ranges_settle();
    pthread_mutex_lock(&all.lock);
    keyed *k = take(key, mine, &name);
    pthread_mutex_unlock(&all.lock);
    if (k != NULL)
        mtp_scope_end(k->token);
    else if (name != 0)
        mtp_mark(name);
    free(k);
}

/* ---------------------------------------------------------------------------------------------- names */

uint32_t mtp__range_name(const char *domain, const char *text)
{
    char near[256], *joined = near;
    if (text == NULL)
        text = "?";
    if (domain == NULL || *domain == 0)
        return mtp_name(text);
    size_t prefix = strlen(domain), length = prefix + 2 + strlen(text);
    if (length > sizeof near)
        joined = malloc(length);
    if (joined == NULL)
        return mtp_name(text);
    memcpy(joined, domain, prefix);
    memcpy(joined + prefix, "::", 2);
    memcpy(joined + prefix + 2, text, length - prefix - 2);
    uint32_t name = mtp_name_n(joined, length);
    if (joined != near)
        free(joined);
    return name;
}

/* wchar_t is UTF-32 here; what is not a character becomes U+FFFD. */
void mtp__range_narrow(const wchar_t *wide, char *at, size_t room)
{
    size_t used = 0;
    for (; wide != NULL && *wide != 0; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            c = 0xfffd;
        size_t bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        if (used + bytes >= room)
            break;
        static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
        for (size_t i = bytes; i > 1; i--, c >>= 6)
            at[used + i - 1] = (char)(0x80 | (c & 0x3f));
        at[used] = (char)(lead[bytes] | c);
        used += bytes;
    }
    if (room > 0)
        at[used] = 0;
}
