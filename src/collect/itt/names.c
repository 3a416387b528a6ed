/* collect/itt/names.c - domains and strings of ITT, and the names that they are shown by.
 *
 * Programs make strings again and again (PyTorch: at every op), so finding one takes no lock; adding one does.
 * Nothing is ever freed: ITT has no call for it.
 *
 * A task is shown as "domain::task", so that tasks of different libraries stay apart in tables and viewers.
 * PyTorch's are shown by their own name, as torch.profiler does, and so are those of mtp_tool_push().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "collect/itt/itt.h"
#include "collect/ranges.h"

#define BUCKETS 4096u
#define FUNCTIONS 256u

/* Lists start at a bucket; inserted under the lock, read without. pairs: add */
static mtp__itt_string *strings[BUCKETS];
static mtp__itt_domain *domains;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool recorded;

bool mtp__itt_recorded(void)
{
    return __atomic_load_n(&recorded, __ATOMIC_RELAXED);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

void mtp__itt_names_init(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static mtp__itt_string *find_string(mtp__itt_string *s, const char *text)
{
    while (s != NULL && strcmp(s->text, text) != 0)
        s = s->next;
    return s;
}

static mtp__itt_string *new_string(const char *text, mtp__itt_string *next)
{
    size_t length = strlen(text);
    mtp__itt_string *s = calloc(1, sizeof *s + length + 1);
    if (s == NULL)
        return NULL;
    s->text = memcpy(s + 1, text, length + 1);
    s->next = next;
    return s;
}

mtp__itt_string *mtp__itt_string_create(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    if (text == NULL)
        return NULL;
    for (const char *p = text; *p != 0; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    mtp__itt_string **bucket = &strings[(hash ^ hash >> 32) % BUCKETS];
    mtp__itt_string *s = find_string(__atomic_load_n(bucket, __ATOMIC_ACQUIRE), text); /* pairs: add */
    if (s != NULL)
        return s;
    pthread_mutex_lock(&lock);
    s = find_string(*bucket, text);
    if (s == NULL) {
        s = new_string(text, *bucket);
        if (s != NULL)
            __atomic_store_n(bucket, s, __ATOMIC_RELEASE); /* pairs: find, add */
    }
    pthread_mutex_unlock(&lock);
    return s;
}

static mtp__itt_domain *new_domain(const char *name)
{
    size_t length = strlen(name);
    mtp__itt_domain *d = calloc(1, sizeof *d + length + 1);
    if (d == NULL)
        return NULL;
    d->name = memcpy(d + 1, name, length + 1);
    d->flags = 1;
    d->next = domains;
    domains = d;
    return d;
}

mtp__itt_domain *mtp__itt_domain_create(const char *name)
{
    if (name == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    mtp__itt_domain *d = domains;
    while (d != NULL && strcmp(d->name, name) != 0)
        d = d->next;
    if (d == NULL)
        d = new_domain(name);
    pthread_mutex_unlock(&lock);
    return d;
}

/* PyTorch, oneDNN (once "dnnl"). */
bool mtp__itt_is_op(const mtp__itt_domain *domain)
{
    const char *name = domain->name != NULL ? domain->name : "";
    return strcmp(name, "PyTorch") == 0 || strncmp(name, "dnnl", 4) == 0 || strncmp(name, "oneDNN", 6) == 0;
}

/* What PyTorch annotates (record_function) comes in the domain of its ops: only the names that it gives itself are known. */
static bool is_annotation(const char *text)
{
    static const char *const known[] = {"enumerate(DataLoader)#", "Optimizer.step#", "Optimizer.zero_grad#",
                                        "DistributedDataParallel.forward"};
    for (size_t i = 0; text != NULL && i < sizeof known / sizeof *known; i++)
        if (strncmp(text, known[i], strlen(known[i])) == 0)
            return true;
    return false;
}

static const char *prefix_of(const mtp__itt_domain *domain)
{
    const char *name = domain->name != NULL ? domain->name : "";
    return strcmp(name, "PyTorch") != 0 && strcmp(name, "mtprof") != 0 ? name : "";
}

static __attribute__((noinline)) mtp__itt_shown *add_shown(const mtp__itt_domain *domain, void **list,
                                                           const char *text)
{
    mtp__itt_shown *shown = calloc(1, sizeof *shown);
    if (shown == NULL)
        return NULL;
    shown->domain = domain;
    shown->name = text != NULL ? mtp__range_name(prefix_of(domain), text)
                               : mtp_name(domain->name != NULL ? domain->name : "frame");
    shown->is_op = mtp__itt_is_op(domain) && !is_annotation(text);
    shown->next = __atomic_load_n(list, __ATOMIC_ACQUIRE);
    void *expected = shown->next;
    while (!__atomic_compare_exchange_n(list, &expected, shown, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        shown->next = expected; /* two of the same do no harm */
    __atomic_store_n(&recorded, true, __ATOMIC_RELAXED);
    return shown;
}

static inline mtp__itt_shown *find_shown(const mtp__itt_domain *domain, void *const *list)
{
    mtp__itt_shown *shown = __atomic_load_n(list, __ATOMIC_ACQUIRE); /* pairs: add_shown */
    while (shown != NULL && shown->domain != domain)
        shown = shown->next;
    return shown;
}

mtp__itt_shown *mtp__itt_show(const mtp__itt_domain *domain, mtp__itt_string *string)
{
    static mtp__itt_string nameless = {.text = "?"};
    if (string == NULL)
        string = &nameless;
    mtp__itt_shown *shown = find_shown(domain, &string->extra2);
    return shown != NULL ? shown
                         : add_shown(domain, &string->extra2, string->text != NULL ? string->text : "?");
}

mtp__itt_shown *mtp__itt_show_frame(const mtp__itt_domain *domain)
{
    void **list = (void **)(uintptr_t)&domain->extra2;
    mtp__itt_shown *shown = find_shown(domain, list);
    return shown != NULL ? shown : add_shown(domain, list, NULL);
}

/* A task that is named by a function's address. Looking up the symbol takes a microsecond, so the last ones are
 * kept: an address's word and its name are in one entry, and a torn pair is found by its check. */
uint32_t mtp__itt_function_name(const mtp__itt_domain *domain, const void *function)
{
    static struct {
        uint64_t key, check; /* relaxed: check = key ^ name */
    } known[FUNCTIONS];
    uint64_t key = ((uint64_t)(uintptr_t)function ^ (uint64_t)(uintptr_t)domain << 20) | 1;
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 56) % FUNCTIONS;
    uint64_t name = __atomic_load_n(&known[at].check, __ATOMIC_RELAXED) ^ key;
    if (__atomic_load_n(&known[at].key, __ATOMIC_RELAXED) == key && name <= UINT32_MAX)
        return (uint32_t)name;
    Dl_info info;
    char text[64];
    snprintf(text, sizeof text, "%p", function);
    bool found = function != NULL && dladdr(function, &info) != 0 && info.dli_sname != NULL;
    name = mtp__range_name(prefix_of(domain), found ? info.dli_sname : text);
    __atomic_store_n(&known[at].check, key ^ name, __ATOMIC_RELAXED);
    __atomic_store_n(&known[at].key, key, __ATOMIC_RELAXED);
    __atomic_store_n(&recorded, true, __ATOMIC_RELAXED);
    return (uint32_t)name;
}
