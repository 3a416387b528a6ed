/* bench/bench_collectors.c - what the ITT, NVTX and malloc collectors cost a program. Prints a table and writes
 * JSON, name -> number.
 *
 * This program plays the part of the foreign one: it loads the collectors as ITT's and NVTX's own code does. Each
 * figure is the minimum of many short repeats; the floor (two timestamp reads and a store) is measured in between.
 * The heap is measured in children, with and without LD_PRELOAD.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/itt_abi.h"
#include "base/nvtx_abi.h"
#include "bench.h"

#define SHORT 1000
#define REPEATS 2000

static void die(const char *why)
{
    fprintf(stderr, "bench_collectors: %s\n", why);
    exit(1);
}

typedef void work(uint64_t count);

static double least_floor = 1e18;

static double once(work *fn, double least)
{
    double from = now_ns();
    fn(SHORT);
    double took = (now_ns() - from) / SHORT;
    return took < least ? took : least;
}

static double least(work *fn)
{
    double best = 1e18;
    for (int r = 0; r < REPEATS; r++) {
        best = once(fn, best);
        least_floor = once(floor_loop, least_floor);
    }
    return best;
}

/* ---------------------------------------------------------------------------------------------- ITT */

static struct {
    mtp__itt_domain *(*domain_create)(const char *);
    mtp__itt_string *(*string_create)(const char *);
    void (*begin)(const mtp__itt_domain *, mtp__itt_id, mtp__itt_id, mtp__itt_string *);
    void (*end)(const mtp__itt_domain *);
} itt;
static mtp__itt_domain *domain, *torch;
static mtp__itt_string *string;
static const mtp__itt_id none;

static void load_itt(void)
{
    static mtp__itt_function list[] = {
        {"__itt_domain_create", (void **)(void *)&itt.domain_create, NULL, NULL, 0},
        {"__itt_string_handle_create", (void **)(void *)&itt.string_create, NULL, NULL, 0},
        {"__itt_task_begin", (void **)(void *)&itt.begin, NULL, NULL, 0},
        {"__itt_task_end", (void **)(void *)&itt.end, NULL, NULL, 0},
        {NULL, NULL, NULL, NULL, 0}};
    static mtp__itt_global global = {.magic = MTP__ITT_MAGIC, .functions = list};
    void *library = dlopen(ITT_COLLECTOR, RTLD_NOW);
    void (*init)(mtp__itt_global *, int) = NULL;
    if (library == NULL)
        die(dlerror());
    *(void **)&init = dlsym(library, "__itt_api_init");
    init(&global, -1);
    domain = itt.domain_create("bench");
    torch = itt.domain_create("PyTorch");
    string = itt.string_create("aten::add");
}

static void itt_pairs(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        itt.begin(domain, none, none, string);
        itt.end(domain);
    }
}

/* As PyTorch does it: the string is made each time. */
static void itt_torch_pairs(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        itt.begin(torch, none, none, itt.string_create("aten::add"));
        itt.end(torch);
    }
}

/* --------------------------------------------------------------------------------------------- NVTX */

static mtp__nvtx_function core[MTP__NVTX_SLOTS], core2[MTP__NVTX_SLOTS];
static mtp__nvtx_event registered, with_payload;

static int functions(uint32_t module, mtp__nvtx_function ***out, uint32_t *count)
{
    static mtp__nvtx_function *places[2][MTP__NVTX_SLOTS];
    bool first = module == MTP__NVTX_CORE;
    if (!first && module != MTP__NVTX_CORE2)
        return 0;
    for (uint32_t i = 1; i < MTP__NVTX_SLOTS; i++)
        places[first][i] = first ? &core[i] : &core2[i];
    *out = places[first];
    *count = MTP__NVTX_SLOTS;
    return 1;
}

static const void *exported(uint32_t which)
{
    static const mtp__nvtx_exports table = {sizeof table, functions};
    return which == MTP__NVTX_CALLBACKS ? &table : NULL;
}

static void load_nvtx(void)
{
    void *library = dlopen(NVTX_COLLECTOR, RTLD_NOW);
    int (*init)(mtp__nvtx_export *) = NULL;
    if (library == NULL)
        die(dlerror());
    *(void **)&init = dlsym(library, "InitializeInjectionNvtx2");
    if (init(exported) != 1)
        die("the NVTX collector refuses");
    registered =
        (mtp__nvtx_event){.version = 3, .size = sizeof registered, .message_type = MTP__NVTX_REGISTERED};
    registered.message.registered = ((void *(*)(void *, const char *))core2[10])(NULL, "a registered string");
    with_payload = registered;
    with_payload.payload_type = MTP__NVTX_S64;
    with_payload.payload.s64 = 12345;
}

static void nvtx_event_pairs(uint64_t count, const mtp__nvtx_event *event)
{
    int (*push)(const mtp__nvtx_event *) = (int (*)(const mtp__nvtx_event *))core[8];
    int (*pop)(void) = (int (*)(void))core[11];
    for (uint64_t i = 0; i < count; i++) {
        push(event);
        pop();
    }
}

static void nvtx_pairs(uint64_t count)
{
    nvtx_event_pairs(count, &registered);
}

static void nvtx_payload_pairs(uint64_t count)
{
    nvtx_event_pairs(count, &with_payload);
}

static void nvtx_text_pairs(uint64_t count)
{
    int (*push)(const char *) = (int (*)(const char *))core[9];
    int (*pop)(void) = (int (*)(void))core[11];
    for (uint64_t i = 0; i < count; i++) {
        push("a name made at run time");
        pop();
    }
}

/* --------------------------------------------------------------------------------------------- heap */

static void heap_pairs(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        void *volatile block = malloc(100);
        free(block);
    }
}

static mtp_profile *start(void)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    config.profile_memory = true;
    config.when_full = MTP_KEEP_NEWEST;
    config.buffer_bytes = 4u << 20;
    if (mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK)
        die(mtp_last_error());
    return prof;
}

/* In a child: prints the cost of a pair without and with a profile, and the floor. */
static int heap_child(void)
{
    double off = least(heap_pairs);
    mtp_profile *prof = start();
    double on = least(heap_pairs);
    mtp_profile_destroy(prof);
    printf("%f %f %f\n", off, on, least_floor);
    return 0;
}

static void heap(const char *preload, double *off, double *on)
{
    char command[4096], self[2048];
    double beside;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    snprintf(command, sizeof command, "%s%s MTPROF_RUN=1 '%s' --heap", preload[0] != 0 ? "LD_PRELOAD=" : "",
             preload, self);
    FILE *child = popen(command, "r");
    if (child == NULL || fscanf(child, "%lf %lf %lf", off, on, &beside) != 3 || pclose(child) != 0)
        die("the child that measures the heap failed");
}

static void bench_heap(void)
{
#ifdef MALLOC_COLLECTOR
    double plain, plain_on, off, on;
    heap("", &plain, &plain_on);
    heap(MALLOC_COLLECTOR, &off, &on);
    report("malloc_pair_ns", plain, "ns", 0, "malloc(100) and free, without the collector");
    report("malloc_off_added_ns", off - plain, "ns", 0, "what the collector adds, no profile running");
    report("malloc_added_ns", on - plain, "ns", 0, "what it adds, recording: two events");
    report("malloc_added_over_floor", (on - plain) / least_floor, "x", 0, "");
#endif
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--heap") == 0)
        return heap_child();
    json = fopen(argc > 1 ? argv[1] : "/dev/null", "w");
    if (json == NULL) {
        perror(argv[1]);
        return 1;
    }
    setenv("MTPROF_RUN", "1", 1); /* no profile of the collectors' own */
    load_itt();
    load_nvtx();
    fprintf(json, "{");
    printf("mtprof %s: collectors\n", mtp_version());
    double itt_off = least(itt_pairs), nvtx_off = least(nvtx_pairs);
    mtp_profile *prof = start();
    double itt_on = least(itt_pairs), itt_torch = least(itt_torch_pairs);
    double nvtx_on = least(nvtx_pairs), nvtx_text = least(nvtx_text_pairs),
           payload = least(nvtx_payload_pairs);
    mtp_profile_destroy(prof);
    report("collectors_floor_ns", least_floor, "ns", 0, "two timestamp reads and a 32-byte store");
    report("itt_pair_ns", itt_on, "ns", 0, "task_begin + task_end, recording");
    report("itt_pair_over_floor", itt_on / least_floor, "x", 0, "");
    report("itt_torch_pair_ns", itt_torch, "ns", 0, "the same with string_handle_create, as PyTorch does");
    report("itt_off_ns", itt_off, "ns", 0, "task_begin + task_end, no profile running");
    report("nvtx_pair_ns", nvtx_on, "ns", 0, "push + pop of a registered string, recording");
    report("nvtx_pair_over_floor", nvtx_on / least_floor, "x", 0, "");
    report("nvtx_text_pair_ns", nvtx_text, "ns", 0, "push + pop of a text");
    report("nvtx_payload_pair_ns", payload, "ns", 0, "push + pop of a registered string with a payload");
    report("nvtx_off_ns", nvtx_off, "ns", 0, "push + pop, no profile running");
    bench_heap();
    fprintf(json, "\n}\n");
    return fclose(json) != 0;
}
