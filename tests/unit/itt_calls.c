/* A program that speaks ITT, with a half of it written here: knows nothing of mtprof.
 *
 *     itt_calls WHAT      loads $INTEL_LIBITTNOTIFY64, as the library that Intel ships in source does
 *
 * Without a collector every function pointer stays NULL and nothing is called.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/itt_abi.h"
#include "exit_elsewhere.h"

typedef mtp__itt_domain domain;
typedef mtp__itt_string string;
static const mtp__itt_id none;

/* One copy of the interface, as each shared object of a program has one. */
typedef struct copy {
    domain *(*domain_create)(const char *);
    string *(*string_create)(const char *);
    void (*begin)(const domain *, mtp__itt_id, mtp__itt_id, string *);
    void (*begin_fn)(const domain *, mtp__itt_id, mtp__itt_id, void *);
    void (*end)(const domain *);
    void (*begin_over)(const domain *, mtp__itt_id, mtp__itt_id, string *);
    void (*end_over)(const domain *, mtp__itt_id);
    void (*region_begin)(const domain *, mtp__itt_id, mtp__itt_id, string *);
    void (*region_end)(const domain *, mtp__itt_id);
    void (*frame_begin)(const domain *, mtp__itt_id *);
    void (*frame_end)(const domain *, mtp__itt_id *);
    void (*frame_submit)(const domain *, mtp__itt_id *, uint64_t, uint64_t);
    void (*marker)(const domain *, mtp__itt_id, string *, int);
    void *(*counter_create)(const char *, const char *);
    void *(*counter_typed)(const char *, const char *, int);
    void (*counter_inc)(void *);
    void (*counter_dec)(void *, uint64_t);
    void (*counter_set)(void *, const void *);
    void (*counter_v3)(const domain *, string *, uint64_t);
    int (*event_create)(const char *, int);
    int (*event_start)(int);
    int (*event_end)(int);
    void (*thread_name)(const char *);
    void (*pause)(void);
    void (*resume)(void);
    void (*unheard)(void);  /* no collector has it */
    void (*fallback)(void); /* nor this, but it has a function for that case */
    mtp__itt_function list[32];
    mtp__itt_global global;
} copy;

static int fell_back;
static void fall_back(void)
{
    fell_back++;
}

static void add(copy *c, const char *name, void *pointer, void *without)
{
    size_t at = 0;
    while (c->list[at].name != NULL)
        at++;
    c->list[at] = (mtp__itt_function){name, pointer, NULL, without, 0};
}

static void fill_list(copy *c)
{
    add(c, "__itt_domain_create", &c->domain_create, NULL);
    add(c, "__itt_string_handle_create", &c->string_create, NULL);
    add(c, "__itt_task_begin", &c->begin, NULL);
    add(c, "__itt_task_begin_fn", &c->begin_fn, NULL);
    add(c, "__itt_task_end", &c->end, NULL);
    add(c, "__itt_task_begin_overlapped", &c->begin_over, NULL);
    add(c, "__itt_task_end_overlapped", &c->end_over, NULL);
    add(c, "__itt_region_begin", &c->region_begin, NULL);
    add(c, "__itt_region_end", &c->region_end, NULL);
    add(c, "__itt_frame_begin_v3", &c->frame_begin, NULL);
    add(c, "__itt_frame_end_v3", &c->frame_end, NULL);
    add(c, "__itt_frame_submit_v3", &c->frame_submit, NULL);
    add(c, "__itt_marker", &c->marker, NULL);
    add(c, "__itt_counter_create", &c->counter_create, NULL);
    add(c, "__itt_counter_create_typed", &c->counter_typed, NULL);
    add(c, "__itt_counter_inc", &c->counter_inc, NULL);
    add(c, "__itt_counter_dec_delta", &c->counter_dec, NULL);
    add(c, "__itt_counter_set_value", &c->counter_set, NULL);
    add(c, "__itt_counter_inc_delta_v3", &c->counter_v3, NULL);
    add(c, "__itt_event_create", &c->event_create, NULL);
    add(c, "__itt_event_start", &c->event_start, NULL);
    add(c, "__itt_event_end", &c->event_end, NULL);
    add(c, "__itt_thread_set_name", &c->thread_name, NULL);
    add(c, "__itt_pause", &c->pause, NULL);
    add(c, "__itt_resume", &c->resume, NULL);
    add(c, "__itt_nobody_has_this", &c->unheard, NULL);
    add(c, "other_prefix_task_end", &c->fallback, (void *)(uintptr_t)fall_back);
}

static void *library;
static void init(copy *c)
{
    static const unsigned char magic[8] = MTP__ITT_MAGIC;
    const char *path = getenv("INTEL_LIBITTNOTIFY64");
    memcpy(c->global.magic, magic, sizeof magic);
    c->global.functions = c->list;
    if (path == NULL)
        return;
    library = dlopen(path, RTLD_LAZY);
    void (*start)(mtp__itt_global *, int) = NULL;
    if (library != NULL)
        *(void **)&start = dlsym(library, "__itt_api_init");
    if (start == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    start(&c->global, -1);
}

static copy itt;

static void pair(const domain *d, string *s)
{
    if (itt.begin == NULL)
        return;
    itt.begin(d, none, none, s);
    itt.end(d);
}

/* ------------------------------------------------------------------------------------------ what to do */

__attribute__((visibility("default"))) void a_function_with_a_name(void);
void a_function_with_a_name(void)
{
}

static void do_tasks(void)
{
    domain *a = itt.domain_create("a"), *b = itt.domain_create("b"), *torch = itt.domain_create("PyTorch");
    string *x = itt.string_create("x"), *y = itt.string_create("y");
    if (itt.domain_create("a") != a || itt.string_create("x") != x || strcmp(x->text, "x") != 0 ||
        a->flags == 0)
        exit(3);
    for (int i = 0; i < 100; i++) {
        itt.begin(a, none, none, x);
        pair(a, y);
        pair(b, x); /* the same string in another domain */
        itt.end(a);
    }
    itt.begin(a, none, none, itt.string_create("outer"));
    itt.begin(b, none, none, itt.string_create("inner"));
    itt.end(a); /* ends outer, though inner is younger */
    itt.end(b);
    itt.end(b); /* one too many */
    pair(torch, itt.string_create("aten::add"));
    pair(torch, itt.string_create("Optimizer.step#SGD.step"));
    pair(torch, itt.string_create("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"));
    pair(b, itt.string_create("Optimizer.step#SGD.step"));
    itt.begin_fn(a, none, none, (void *)(uintptr_t)a_function_with_a_name);
    itt.end(a);
    for (int i = 0; i < 2; i++) {
        itt.begin_fn(a, none, none, (char *)NULL + 0x123);
        itt.end(a);
    }
    pair(NULL, x);
    pair(a, NULL);
    itt.event_start(itt.event_create("an event, cut here", 8));
    itt.event_end(itt.event_create("an event", 8));
    if (itt.unheard != NULL)
        exit(4);
    itt.fallback();
    exit(fell_back == 1 ? 0 : 5);
}

static void *end_elsewhere(void *arg)
{
    itt.end_over(arg, (mtp__itt_id){7, 7, 7});
    return NULL;
}

static void do_overlapped(void)
{
    domain *d = itt.domain_create("over");
    mtp__itt_id one = {1, 0, 0}, two = {1, 2, 0}, seven = {7, 7, 7};
    pthread_t t;
    itt.begin_over(d, one, none, itt.string_create("one"));
    itt.begin_over(d, two, none, itt.string_create("two"));
    itt.end_over(d, one);
    itt.region_begin(d, one, none, itt.string_create("region"));
    itt.end_over(d, two);
    itt.region_end(d, one);
    itt.end_over(d, two); /* a second time */
    itt.begin_over(d, seven, none, itt.string_create("seven"));
    pthread_create(&t, NULL, end_elsewhere, d);
    pthread_join(t, NULL);
    pair(d, itt.string_create("after"));
}

/* More open at once than there are lists for them, ended in the order in which they began. */
static void do_many(void)
{
    enum {
        MANY = 2000
    };
    domain *d = itt.domain_create("many");
    char name[16];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%u", i);
        itt.begin_over(d, (mtp__itt_id){i + 1, 0, 0}, none, itt.string_create(name));
    }
    for (unsigned i = 0; i < MANY; i++)
        itt.end_over(d, (mtp__itt_id){i + 1, 0, 0});
}

static void do_points(void)
{
    domain *d = itt.domain_create("points");
    mtp__itt_id id = {1, 2, 3};
    itt.marker(d, none, itt.string_create("here"), 1);
    itt.frame_begin(d, NULL);
    pair(d, itt.string_create("in a frame"));
    itt.frame_end(d, NULL);
    itt.frame_begin(d, &id);
    itt.frame_end(d, &id);
    itt.frame_submit(d, NULL, 1, 2);
    void *c = itt.counter_create("up", "points");
    itt.counter_inc(c);
    itt.counter_inc(c);
    itt.counter_dec(c, 5);
    itt.counter_inc(NULL);
    itt.counter_v3(d, itt.string_create("v3"), 40);
    itt.counter_v3(d, itt.string_create("v3"), 2);
    uint64_t u64 = 64;
    int32_t s32 = -32;
    uint16_t u16 = 16;
    float f = 1.5f;
    double real = -2.25;
    itt.counter_set(itt.counter_typed("u64", NULL, MTP__ITT_U64), &u64);
    itt.counter_set(itt.counter_typed("s32", NULL, MTP__ITT_S32), &s32);
    itt.counter_set(itt.counter_typed("u16", NULL, MTP__ITT_U16), &u16);
    itt.counter_set(itt.counter_typed("float", NULL, MTP__ITT_FLOAT), &f);
    itt.counter_set(itt.counter_typed("double", NULL, MTP__ITT_DOUBLE), &real);
}

static void do_paused(void)
{
    domain *d = itt.domain_create("paused");
    string *lost = itt.string_create("lost"), *kept = itt.string_create("kept");
    itt.begin(d, none, none, kept);
    itt.pause();
    itt.begin(d, none, none, lost);
    itt.resume();
    itt.end(d); /* lost's, not kept's */
    pair(d, itt.string_create("inside"));
    itt.end(d);
}

static void *many(void *arg)
{
    domain *d = itt.domain_create("threads");
    char name[64];
    snprintf(name, sizeof name, "a worker with a rather long name %d", (int)(intptr_t)arg);
    itt.thread_name(name);
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "task %d", i % 50);
        pair(d, itt.string_create(name));
    }
    return NULL;
}

static void do_threads(void)
{
    pthread_t t[4];
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, many, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
}

static void do_deep(void)
{
    domain *d = itt.domain_create("deep");
    for (int i = 0; i < 5000; i++)
        itt.begin(d, none, none, itt.string_create("level"));
    for (int i = 0; i < 5000; i++)
        itt.end(d);
}

/* Domains and strings that the program made before it had a collector, and a list of two functions. */
static void do_old(void)
{
    static copy old;
    static domain d = {1, "old", NULL, 0, NULL, NULL};
    static string s = {"old task", NULL, 0, NULL, NULL};
    add(&old, "__itt_task_begin", &old.begin, NULL);
    add(&old, "__itt_task_end", &old.end, NULL);
    old.global.domains = &d;
    old.global.strings = &s;
    init(&old);
    old.begin(&d, none, none, &s);
    old.end(&d);
    pair(itt.domain_create("new"), itt.string_create("new task"));
    static copy wrong;
    fill_list(&wrong);
    wrong.global.magic[0] = 1;
    wrong.global.functions = wrong.list;
    void (*start)(mtp__itt_global *, int) = NULL;
    *(void **)&start = dlsym(library, "__itt_api_init");
    start(&wrong.global, -1);
    start(NULL, -1);
    exit(wrong.begin == NULL ? 0 : 3);
}

/* --------------------------------------------------------------------------------------------- ends */

static void some(int n)
{
    domain *d = itt.domain_create("ends");
    for (int i = 0; i < n; i++)
        pair(d, itt.string_create("task"));
}

static void do_forks(void)
{
    domain *d = itt.domain_create("ends");
    itt.begin(d, none, none, itt.string_create("around"));
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            some(3);
            itt.end(d);
            if (i % 2)
                exit(0);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    some(2);
    itt.end(d);
}

static void last_calls(void)
{
    some(5);
}

static void do_exit_elsewhere(void)
{
    exit_elsewhere(last_calls);
}

static void *lasts(void *unused)
{
    usleep(20000);
    some(5);
    return unused;
}

static void do_main_ends(void)
{
    pthread_t t;
    pthread_create(&t, NULL, lasts, NULL);
    pthread_exit(NULL);
}

static void do_killed(void)
{
    some(100);
    kill(getpid(), SIGKILL);
}

static void do_closes(void)
{
    some(5);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    some(5);
}

static void do_unloads(void)
{
    some(5);
    dlclose(library);
    dlclose(library);
    some(5); /* it stays */
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {{"tasks", do_tasks},         {"overlapped", do_overlapped},
            {"many", do_many},           {"points", do_points},
            {"paused", do_paused},       {"threads", do_threads},
            {"deep", do_deep},           {"old", do_old},
            {"forks", do_forks},         {"exit_elsewhere", do_exit_elsewhere},
            {"main_ends", do_main_ends}, {"killed", do_killed},
            {"closes", do_closes},       {"unloads", do_unloads}};

int main(int argc, char **argv)
{
    fill_list(&itt);
    init(&itt);
    if (itt.begin == NULL)
        return 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (argc > 1 && strcmp(argv[1], ways[i].name) == 0) {
            ways[i].run();
            return 0;
        }
    return 9;
}
