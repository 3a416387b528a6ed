/* A program that speaks NVTX 3, with a half of it written here: knows nothing of mtprof.
 *
 *     nvtx_calls WHAT      loads $NVTX_INJECTION64_PATH, as NVIDIA's headers do
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/nvtx_abi.h"
#include "exit_elsewhere.h"

typedef mtp__nvtx_event event;

/* One copy of the interface, as each shared object of a program has one: the functions by module and slot. */
static mtp__nvtx_function core[MTP__NVTX_SLOTS], core2[MTP__NVTX_SLOTS];
static uint32_t slots = MTP__NVTX_SLOTS;

static int functions(uint32_t module, mtp__nvtx_function ***out, uint32_t *count)
{
    static mtp__nvtx_function *places[2][MTP__NVTX_SLOTS];
    mtp__nvtx_function *from = module == MTP__NVTX_CORE ? core : core2;
    if (module != MTP__NVTX_CORE && module != MTP__NVTX_CORE2)
        return 0;
    for (uint32_t i = 1; i < slots; i++)
        places[module == MTP__NVTX_CORE][i] = &from[i];
    *out = places[module == MTP__NVTX_CORE];
    *count = slots;
    return 1;
}

static const void *exports(uint32_t which)
{
    static const mtp__nvtx_exports table = {sizeof table, functions};
    return which == MTP__NVTX_CALLBACKS ? &table : NULL;
}

static void *library;
static int (*inject)(mtp__nvtx_export *);
static void init_core(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (library != NULL)
        return;
    if (path == NULL)
        exit(0);
    library = dlopen(path, RTLD_LAZY);
    if (library != NULL)
        *(void **)&inject = dlsym(library, "InitializeInjectionNvtx2");
    if (inject == NULL || inject(exports) != 1) {
        fprintf(stderr, "not injected: %s\n", path);
        exit(2);
    }
}

#define CALL(table, slot, type, ...) ((type)(table)[slot])(__VA_ARGS__)
#define push_a(text) CALL(core, 9, int (*)(const char *), text)
#define push_w(text) CALL(core, 10, int (*)(const wchar_t *), text)
#define pop() ((int (*)(void))core[11])()
#define mark_a(text) CALL(core, 2, void (*)(const char *), text)
#define start_a(text) CALL(core, 5, uint64_t (*)(const char *), text)
#define end_range(id) CALL(core, 7, void (*)(uint64_t), id)
#define push_ex(e) CALL(core, 8, int (*)(const event *), e)
#define domain_push(d, e) CALL(core2, 4, int (*)(void *, const event *), d, e)
#define domain_pop(d) CALL(core2, 5, int (*)(void *), d)
#define domain_start(d, e) CALL(core2, 2, uint64_t (*)(void *, const event *), d, e)
#define domain_end(d, id) CALL(core2, 3, void (*)(void *, uint64_t), d, id)
#define domain_mark(d, e) CALL(core2, 1, void (*)(void *, const event *), d, e)
#define register_a(d, text) CALL(core2, 10, void *(*)(void *, const char *), d, text)
#define register_w(d, text) CALL(core2, 11, void *(*)(void *, const wchar_t *), d, text)
#define create_domain(name) CALL(core2, 12, void *(*)(const char *), name)
#define create_domain_w(name) CALL(core2, 13, void *(*)(const wchar_t *), name)
#define destroy_domain(d) CALL(core2, 14, void (*)(void *), d)
#define name_category(d, id, text) CALL(core2, 8, void (*)(void *, uint32_t, const char *), d, id, text)
#define name_thread(id, text) CALL(core, 14, void (*)(uint32_t, const char *), id, text)
#define name_thread_w(id, text) CALL(core, 15, void (*)(uint32_t, const wchar_t *), id, text)

static event ascii(const char *text)
{
    return (event){.version = 3, .size = 48, .message_type = MTP__NVTX_ASCII, .message.ascii = text};
}

static event wide(const wchar_t *text)
{
    return (event){.version = 3, .size = 48, .message_type = MTP__NVTX_WIDE, .message.wide = text};
}

static event registered(const void *handle)
{
    return (event){
        .version = 3, .size = 48, .message_type = MTP__NVTX_REGISTERED, .message.registered = handle};
}

#define EXPECT(x)                                                                                            \
    do {                                                                                                     \
        if (!(x))                                                                                            \
            exit(__LINE__ % 200 + 20);                                                                       \
    } while (0)

#include "nvtx_payloads.h"

static void do_ranges(void)
{
    for (int i = 0; i < 100; i++) {
        EXPECT(push_a("outer") == 0);
        EXPECT(push_w(L"\u00e4u\u00dferes \U0001f600") == 1);
        EXPECT(pop() == 1);
        EXPECT(pop() == 0);
    }
    EXPECT(pop() < 0);
    mark_a("a mark");
    push_a(NULL);
    pop();
    EXPECT(push_ex(NULL) == 0);
    pop();
    uint64_t one = start_a("one"), two = start_a("two");
    EXPECT(one != 0 && two != 0 && one != two);
    end_range(one);
    end_range(two);
    end_range(two);
    end_range(0);
    end_range(UINT64_MAX);
}

static void do_domains(void)
{
    void *d = create_domain("dom"), *w = create_domain_w(L"w\u00efde");
    EXPECT(d != NULL && create_domain("dom") == d && w != d);
    void *name = register_a(d, "registered");
    EXPECT(name != NULL && register_a(d, "registered") == name && register_a(w, "registered") != name);
    event e = registered(name), ww = registered(register_w(w, L"r\u00e9g")), plain = ascii("text"),
          made = wide(L"wide");
    for (int i = 0; i < 10; i++) {
        EXPECT(domain_push(d, &e) == 0);
        EXPECT(domain_push(w, &ww) == 0); /* its own levels */
        EXPECT(domain_push(d, &plain) == 1);
        EXPECT(domain_pop(d) == 1);
        EXPECT(domain_pop(d) == 0);
        EXPECT(domain_pop(w) == 0);
    }
    domain_push(NULL, &made); /* the default domain */
    pop();
    char far[2000];
    memset(far, 'f', sizeof far - 1);
    far[sizeof far - 1] = 0;
    event l = ascii(far);
    domain_push(d, &l);
    domain_pop(d);
    uint64_t id = domain_start(d, &e);
    domain_end(d, id);
    domain_mark(d, &plain);
    destroy_domain(d);
    domain_push(d, &e);
    domain_pop(d);
}

static void do_payloads(void)
{
    static const double reals[] = {1.5, 1e300, -0.1};
    void *d = create_domain("p");
    name_category(d, 3, "a \"quoted\"\n \xff category");
    for (int type = 0; type <= 7; type++) {
        event e = ascii("typed");
        e.payload_type = type;
        e.payload.u64 = UINT64_MAX;
        if (type == MTP__NVTX_DOUBLE)
            e.payload.d = reals[2];
        if (type == MTP__NVTX_FLOAT)
            e.payload.f = 0.5f;
        domain_push(d, &e);
        domain_pop(d);
    }
    event bad = ascii("nan");
    bad.payload_type = MTP__NVTX_DOUBLE;
    bad.payload.d = NAN;
    domain_push(d, &bad);
    domain_pop(d);
    event e = ascii("named");
    e.category = 3;
    e.payload_type = MTP__NVTX_S32;
    e.payload.s32 = -7;
    domain_push(d, &e);
    domain_pop(d);
    e = registered(register_a(d, "numbered"));
    e.category = 4;
    domain_push(d, &e);
    domain_pop(d);
}

static void *many(void *arg)
{
    uint64_t *hand = arg;
    event e = registered(register_a(NULL, "task"));
    name_thread_w((uint32_t)syscall(SYS_gettid), L"a worker with a rather long n\u00e4me");
    for (int i = 0; i < 2000; i++) {
        push_ex(&e);
        pop();
    }
    end_range(*hand); /* another thread's */
    return NULL;
}

static void do_threads(void)
{
    pthread_t t[4];
    uint64_t hand[4];
    name_thread((uint32_t)syscall(SYS_gettid), "the first");
    for (int i = 0; i < 4; i++) {
        hand[i] = start_a("handed on");
        pthread_create(&t[i], NULL, many, &hand[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    push_a("after");
    pop();
}

static void do_old(void)
{
    static const struct {
        size_t size;
    } shorter = {sizeof shorter};
    (void)shorter;
    EXPECT(inject(NULL) == 0);
    slots = 8; /* a shorter table: an older NVTX */
    memset(core, 0, sizeof core);
    EXPECT(inject(exports) == 1 && core[7] != NULL && core[8] == NULL && core[0] == NULL);
    mark_a("from the second");
    end_range(start_a("range"));
}

static void some(int n)
{
    for (int i = 0; i < n; i++) {
        push_a("task");
        pop();
    }
}

static void do_forks(void)
{
    push_a("around");
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            some(3);
            end_range(start_a("child's"));
            pop();
            if (i % 2)
                exit(0);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    some(2);
    pop();
}

static void do_killed(void)
{
    some(100);
    kill(getpid(), SIGKILL);
}

static void do_unloads(void)
{
    some(5);
    dlclose(library);
    some(5);
}

static void last_calls(void)
{
    some(5);
}

static void do_exit_elsewhere(void)
{
    exit_elsewhere(last_calls);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {{"ranges", do_ranges},       {"domains", do_domains}, {"payloads", do_payloads},
            {"threads", do_threads},     {"old", do_old},         {"forks", do_forks},
            {"killed", do_killed},       {"unloads", do_unloads}, {"exit_elsewhere", do_exit_elsewhere},
            {"extension", do_extension}, {"nccl", do_nccl},       {"hostile", do_hostile},
            {"versions", do_versions}};

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "extension") != 0) /* which starts the core itself */
        init_core();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (argc > 1 && strcmp(argv[1], ways[i].name) == 0) {
            ways[i].run();
            return 0;
        }
    return 9;
}
