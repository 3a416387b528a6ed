/* record/thread_names.c - names that programs and collectors give to threads, instead of the kernel's 15 bytes.
 *
 * A table by thread id, of fixed size: a name is given rarely, and is read when a thread joins a recording, ends,
 * or the recording stops. A thread without a name of its own takes the oldest of eight places. Readers take no
 * lock; they copy a name and then check that its place has not changed meanwhile.
 */
#define _GNU_SOURCE
#include "record/thread_names.h"
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLACES 1024u /* a power of two */
#define NEAR 8u
#define WORDS (MTP__THREAD_NAME_ROOM / 8)

typedef struct place {
    _Atomic uint32_t change; /* odd while it is being written. pairs: itself */
    _Atomic int32_t tid;     /* 0: none */
    _Atomic uint64_t age;    /* when it was given: the oldest makes room */
    _Atomic uint64_t text[WORDS];
} place;

static place places[PLACES];
static _Atomic uint64_t given; /* names so far; 0: nobody has to look */

static place *near(int32_t tid, uint32_t i)
{
    return &places[((uint32_t)tid * NEAR + i) % PLACES];
}

static place *find(int32_t tid)
{
    for (uint32_t i = 0; i < NEAR; i++)
        if (atomic_load_explicit(&near(tid, i)->tid, memory_order_relaxed) == tid)
            return near(tid, i);
    return NULL;
}

static place *oldest(int32_t tid)
{
    place *found = near(tid, 0);
    for (uint32_t i = 0; i < NEAR; i++) {
        place *p = near(tid, i);
        if (atomic_load_explicit(&p->tid, memory_order_relaxed) == 0)
            return p;
        if (atomic_load_explicit(&p->age, memory_order_relaxed) <
            atomic_load_explicit(&found->age, memory_order_relaxed))
            found = p;
    }
    return found;
}

/* Cut at a character's start. */
static void copy_name(uint64_t words[WORDS], const char *text)
{
    size_t length = strlen(text);
    memset(words, 0, MTP__THREAD_NAME_ROOM);
    if (length >= MTP__THREAD_NAME_ROOM) {
        length = MTP__THREAD_NAME_ROOM - 1;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
            length--;
    }
    memcpy(words, text, length);
}

/* false: another thread is writing there. */
static bool write_place(place *p, int32_t tid, const uint64_t words[WORDS])
{
    uint32_t change = atomic_load(&p->change);
    if ((change & 1) != 0 || !atomic_compare_exchange_strong(&p->change, &change, change + 1))
        return false;
    atomic_store(&p->tid, tid);
    atomic_store(&p->age, atomic_load(&given));
    for (size_t i = 0; i < WORDS; i++)
        atomic_store(&p->text[i], words[i]);
    atomic_store(&p->change, change + 2);
    return true;
}

void mtp_thread_name(int64_t tid, const char *text)
{
    uint64_t words[WORDS];
    if (text == NULL)
        return;
    int32_t id = (int32_t)(tid != 0 ? tid : (int64_t)syscall(SYS_gettid));
    copy_name(words, text);
    atomic_fetch_add(&given, 1);
    place *p = find(id);
    if (p == NULL)
        p = oldest(id);
    for (uint32_t tries = 0; tries < NEAR && !write_place(p, id, words); tries++)
        p = near(id, tries); /* in use: by another thread, or by the code that this handler interrupted */
}

bool mtp__thread_name_given(int32_t tid, char out[MTP__THREAD_NAME_ROOM])
{
    uint64_t words[WORDS];
    const place *p = atomic_load_explicit(&given, memory_order_relaxed) != 0 ? find(tid) : NULL;
    if (p == NULL)
        return false;
    uint32_t change = atomic_load(&p->change);
    for (size_t i = 0; i < WORDS; i++)
        words[i] = atomic_load(&p->text[i]);
    if ((change & 1) != 0 || atomic_load(&p->tid) != tid || atomic_load(&p->change) != change)
        return false;
    memcpy(out, words, MTP__THREAD_NAME_ROOM);
    return out[0] != 0;
}

/* The kernel gives the id to another thread some day. */
void mtp__thread_name_forget(int32_t tid)
{
    static const uint64_t none[WORDS];
    place *p = atomic_load_explicit(&given, memory_order_relaxed) != 0 ? find(tid) : NULL;
    if (p != NULL)
        write_place(p, 0, none);
}
