/* record/watch.c - functions that the process's collectors register: when a recording begins, when it ends.
 *
 * Any thread may register at any time; entries are never removed.
 */
#include "base/error.h"
#include "record/profile.h"

enum {
    ENTRIES_MAX = 8
};

typedef struct registered {
    struct entry {
        void (*begin)(void *user, mtp_profile *prof);
        void (*end)(void *user, mtp_profile *prof);
        void (*flush)(void *user);
        void *user; /* borrowed */
    } entry[ENTRIES_MAX];
    _Atomic uint32_t taken, count; /* count: release, pairs with the acquire of those who call them */
} registered;

static registered watches, flushes;

static mtp_status add(registered *to, struct entry entry, const char *what)
{
    uint32_t at = atomic_fetch_add_explicit(&to->taken, 1, memory_order_relaxed);
    if (at >= ENTRIES_MAX) {
        atomic_fetch_sub_explicit(&to->taken, 1, memory_order_relaxed);
        return MTP_FAIL(MTP_E_STATE, "%s: %d callbacks are already registered, the maximum", what,
                        ENTRIES_MAX);
    }
    to->entry[at] = entry;
    for (uint32_t before = at; !atomic_compare_exchange_weak_explicit(
             &to->count, &before, at + 1, memory_order_release, memory_order_relaxed);)
        before = at; /* earlier callers are about to publish theirs */
    return MTP_OK;
}

mtp_status mtp_flush_add(void (*flush)(void *user), void *user)
{
    if (flush == NULL)
        return MTP_FAIL(MTP_E_ARG, "flush_add: flush=NULL");
    return add(&flushes, (struct entry){.flush = flush, .user = user}, "flush_add");
}

mtp_status mtp_watch_add(void (*begin)(void *user, mtp_profile *prof),
                         void (*end)(void *user, mtp_profile *prof), void *user)
{
    if (begin == NULL && end == NULL)
        return MTP_FAIL(MTP_E_ARG, "watch_add: both functions are NULL");
    return add(&watches, (struct entry){.begin = begin, .end = end, .user = user}, "watch_add");
}

void mtp__watch_begin(mtp_profile *prof)
{
    uint32_t count = atomic_load_explicit(&watches.count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (watches.entry[i].begin != NULL)
            watches.entry[i].begin(watches.entry[i].user, prof);
}

/* Flushes come last: collectors that ended may have started the last of the work in flight. */
void mtp__watch_end(mtp_profile *prof)
{
    uint32_t count = atomic_load_explicit(&watches.count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (watches.entry[i].end != NULL)
            watches.entry[i].end(watches.entry[i].user, prof);
    count = atomic_load_explicit(&flushes.count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        flushes.entry[i].flush(flushes.entry[i].user);
}
