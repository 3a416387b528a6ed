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
        void *user;      /* borrowed */
        atomic_bool set; /* release, pairs: nth */
    } entry[ENTRIES_MAX];
    _Atomic uint32_t taken;
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
    struct entry *e = &to->entry[at];
    e->begin = entry.begin, e->end = entry.end, e->flush = entry.flush, e->user = entry.user;
    atomic_store_explicit(&e->set, true, memory_order_release);
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

/* NULL: it is not there, or not yet; in a forked child perhaps never, if another thread was adding it. */
static const struct entry *nth(const registered *of, uint32_t i)
{
    return atomic_load_explicit(&of->entry[i].set, memory_order_acquire) ? &of->entry[i] : NULL;
}

void mtp__watch_begin(mtp_profile *prof)
{
    for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
        const struct entry *e = nth(&watches, i);
        if (e != NULL && e->begin != NULL)
            e->begin(e->user, prof);
    }
}

/* Flushes come last: collectors that ended may have started the last of the work in flight. */
void mtp__watch_end(mtp_profile *prof)
{
    for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
        const struct entry *e = nth(&watches, i);
        if (e != NULL && e->end != NULL)
            e->end(e->user, prof);
    }
    for (uint32_t i = 0; i < ENTRIES_MAX; i++) {
        const struct entry *e = nth(&flushes, i);
        if (e != NULL)
            e->flush(e->user);
    }
}
