/* base/error.c - the last error of each thread. Not in thread-local variables: what they take must be there when a library is
 * loaded late, and glibc keeps some 1.6 KB for all libraries together. Reporting OOM cannot itself fail: the first thread's
 * story is a variable; another's is mapped at its first failure, or, without memory, one that such threads share.
 */
#define _GNU_SOURCE
#include "base/error.h"
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/budget.h"
#include "base/plain.h"

#define TEXT_BYTES ((size_t)832)
#define TRAIL_BYTES ((size_t)128)

typedef struct story {
    char text[TEXT_BYTES], trail[TRAIL_BYTES]; /* the last byte of each is always 0 */
    int number;
} story;

/* Owned, or NULL: no failure yet */
static _Thread_local story *mine __attribute__((tls_model("initial-exec")));
static story first, shared;
static atomic_flag first_taken = ATOMIC_FLAG_INIT;
static pthread_key_t key;
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end_thread(void *gone)
{
    mine = NULL;
    if (gone != &first) {
        munmap(gone, sizeof(story));
        return;
    }
    memset(&first, 0, sizeof first);
    atomic_flag_clear_explicit(&first_taken, memory_order_release); /* pairs with its next owner's acquire */
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, end_thread) == 0;
}

static story *mine_or_new(void)
{
    if (mine != NULL)
        return mine;
    pthread_once(&once, make_key);
    story *made = &first;
    if (!has_key)
        return mine = &shared;
    if (atomic_flag_test_and_set_explicit(&first_taken, memory_order_acquire))
        made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return mine = &shared;
    if (pthread_setspecific(key, made) != 0) { /* its end would not be seen */
        end_thread(made);
        made = &shared;
    }
    return mine = made;
}

static const story *told(void)
{
    static const story none;
    return mine != NULL ? mine : &none;
}

/* Threads keep destructors in us, this one and others, so we cannot be unloaded. The shared library says so itself (-z nodelete); a
 * plug-in that has the static one is kept loaded here. At load, when the loader's lock is this thread's: later,
 * one that holds it may wait for us. musl unloads nothing. */
static __attribute__((constructor)) void stay_loaded(void)
{
#ifdef __GLIBC__
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1(&key, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 &&
        map->l_name[0] != 0) /* "": the program */
        (void)dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
#endif
}

static void add(char *to, size_t room, const char *before, const char *what)
{
    size_t length = strlen(to);
    snprintf(to + length, room - length, "%s%s", length > 0 ? before : "", what);
}

/* Prepends; the end is truncated if it no longer fits. */
static void put_first(char *text, const char *what)
{
    size_t front = strlen(what), length = strlen(text);
    front = front < TEXT_BYTES ? front : TEXT_BYTES - 1;
    length = length < TEXT_BYTES - front ? length : TEXT_BYTES - front - 1;
    memmove(text + front, text, length);
    memcpy(text, what, front);
    text[front + length] = 0;
}

static const char *limit_text(char *to, size_t room)
{
    double bytes = (double)mtp__budget_limit();
    mtp__format(to, room, "over the memory limit of %.1f %s: no room for ",
                bytes < 1e6   ? bytes / 1e3
                : bytes < 1e9 ? bytes / 1e6
                              : bytes / 1e9,
                bytes < 1e6   ? "kB"
                : bytes < 1e9 ? "MB"
                              : "GB");
    return to;
}

mtp_status mtp__fail(mtp_status status, const char *where, const char *fmt, ...)
{
    char what[TEXT_BYTES]; /* the old text may be among the arguments */
    va_list args;
    va_start(args, fmt);
    mtp__format_list(what, sizeof what, fmt, args);
    va_end(args);
    story *s = mine_or_new();
    s->number = mtp__reason_number();
    s->text[0] = 0;
    put_first(s->text, what);
    if (status == MTP_E_NOMEM)
        put_first(s->text,
                  mtp__budget_exceeded() ? limit_text(what, sizeof what) : "out of memory: no room for ");
    if (status == MTP_E_NOMEM && mtp__budget_exceeded())
        mtp__advise("allow more with --max-memory, MTPROF_MAX_MEMORY or max_memory, or record less");
    snprintf(s->trail, sizeof s->trail, "%s", where);
    return status;
}

void mtp__note(const char *where, const char *fmt, ...)
{
    char what[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    mtp__format_list(what, sizeof what - 2, fmt, args);
    va_end(args);
    add(what, sizeof what, ": ", "");
    story *s = mine_or_new();
    put_first(s->text, what);
    add(s->trail, sizeof s->trail, " < ", where);
}

void mtp__advise(const char *fmt, ...)
{
    char what[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    mtp__format_list(what, sizeof what, fmt, args);
    va_end(args);
    story *s = mine_or_new();
    add(s->text, sizeof s->text, "; ", what);
}

const char *mtp_last_error(void)
{
    return told()->text;
}

int mtp_last_error_number(void)
{
    return told()->number;
}

const char *mtp_last_error_trail(void)
{
    return told()->trail;
}

const char *mtp_status_text(mtp_status status)
{
    switch (status) {
#define X(sym, value, words)                                                                                 \
    case MTP_##sym:                                                                                          \
        return words;
        MTP_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}
