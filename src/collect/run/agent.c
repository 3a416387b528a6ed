/* collect/run/agent.c - see run.h. Records the process that `mtprof run` preloaded it into.
 *
 * Everything in the process that records (mtprof.h's scopes, other collectors, Python) records into one profile, which
 * begins before main() and ends at exit. Nothing here prints, or fails the program.
 *
 * Threads: run.lock guards the state; it is held across forks. Where the recording has to begin or end at a time, and
 * only there, one sleeping thread waits for it, with all signals blocked.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/facts.h"
#include "base/utf8.h"
#include "collect/run/run.h"

#define LOOK_NS 2000000000u
#define TOLD_MAX 8
#define SMALL_BUDGET (4u << 20) /* where address space is limited (ulimit -v) */

static struct {
    pthread_mutex_t lock;
    mtp__run_options options;
    char spool[PATH_MAX + 64]; /* pattern */
    pid_t pid;                 /* 0: the agent does nothing */
    mtp_profile *profile;      /* owned; NULL: not yet */
    mtp_profile *asked;        /* borrowed: records on somebody's request; NULL: none */
    bool wanted; /* it should be recording; it is, unless it has nothing to record or a profile of its own */
    bool idle;   /* wanted, but not begun: nothing in the process can record yet */
    bool needed; /* something can: see mtp_run_needed() */
    bool is_program;            /* what the user named, not a process that it started */
    bool is_python, has_python; /* the program is an interpreter; it has attached itself */
    bool has_torch;             /* so has its PyTorch */
    uint64_t step;
    mtp_op step_scope;
    struct {
        const char *key;
        char *json;   /* owned */
    } told[TOLD_MAX]; /* metadata that others learned */
    size_t told_count;
} run = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic(const mtp_stack_provider *)
    python_stacks; /* borrowed; release, pairs with the provider's acquire */

/* ------------------------------------------------------------------------------------------------ the profile */

/* Python's stacks, once there is a Python: the provider itself cannot be changed while recording. */
static uint32_t capture(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    const mtp_stack_provider *p = atomic_load_explicit(&python_stacks, memory_order_acquire);
    return p != NULL ? p->capture(p->user, frames, room) : 0;
}

static void describe(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user;
    const mtp_stack_provider *p = atomic_load_explicit(&python_stacks, memory_order_acquire);
    if (p != NULL)
        p->describe(p->user, frame, out, room);
}

static void on_warning(void *user, mtp_warning code, const char *text)
{
    (void)user;
    if (code == MTP_WARNING_SPOOL_FAILED || code == MTP_WARNING_GAVE_WAY || code == MTP_WARNING_CLOCK ||
        code == MTP_WARNING_THREAD_STUCK)
        mtp__run_note(&run.options, "%s", text);
}

/* text as a JSON string, with spaces for zeros; out has room for 6 bytes each and 3. */
static void quote(const char *text, size_t length, char *out)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    *out++ = '"';
    while (at < end) {
        unsigned skip, n = mtp__utf8_character(at, end, &skip);
        unsigned char c = *at == 0 ? ' ' : *at;
        if (n == 0)
            out += sprintf(out, "\\ufffd");
        else if (n == 1 && (c < 0x20 || c == '"' || c == '\\' || c == 0x7f))
            out += sprintf(out, "\\u%04x", c);
        else if (n == 1)
            *out++ = (char)c;
        else
            out = (char *)memcpy(out, at, n) + n;
        at += n > 0 ? n : skip;
    }
    memcpy(out, "\"", 2);
}

/* What the launcher says; the program may know better. */
static void describe_rank(mtp_profile *profile)
{
    mtp__facts facts;
    char json[MTP__FACTS_JSON];
    if (!mtp__facts_read(&facts) || facts.world < 2)
        return;
    mtp__facts_write(&facts, "", json);
    mtp_profile_preset_metadata_json(profile, "distributedInfo", json);
    mtp__facts_host(json);
    mtp_profile_preset_metadata_json(profile, "hostname", json);
}

/* The whole command line: readers show it with the process's rows. */
static void describe_process(mtp_profile *profile)
{
    char line[1024], json[6 * sizeof line + 8];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line) : 0;
    if (fd >= 0)
        close(fd);
    if (n > 0 && line[n - 1] == 0)
        n--;
    quote(line, n > 0 ? (size_t)n : 0, json);
    mtp_profile_preset_metadata_json(profile, "command_line", json);
}

static bool make_profile(uint64_t budget)
{
    const mtp__run_options *o = &run.options;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.record_shapes = config.with_flops = o->shapes;
    config.with_stack = config.with_modules = o->stacks;
    config.profile_memory = o->memory;
    config.acc_events = true;
    config.follow_fork = run.needed; /* else a child begins by itself, once there is something to record */
    config.gives_way = true;
    config.on_warning = on_warning;
    config.buffer_bytes = budget;
    config.when_full = o->newest ? MTP_KEEP_NEWEST : MTP_STREAM;
    config.spool = run.spool;
    if (mtp_profile_create(&config, &run.profile) != MTP_OK)
        return false;
    describe_process(run.profile);
    describe_rank(run.profile);
    for (size_t i = 0; i < run.told_count; i++)
        mtp_profile_preset_metadata_json(run.profile, run.told[i].key, run.told[i].json);
    return true;
}

static bool prepare(void)
{
    if (run.profile == NULL && !make_profile(run.options.budget))
        return false;
    mtp_status status = mtp_profile_prepare_trace(run.profile);
    if (status != MTP_E_NOMEM || run.options.budget != 0)
        return status == MTP_OK;
    mtp_profile_destroy(run.profile);
    run.profile = NULL;
    return make_profile(SMALL_BUDGET) && mtp_profile_prepare_trace(run.profile) == MTP_OK;
}

/* With run.lock. A process that cannot record makes no file: most of what a shell script starts. Only the program
 * itself may still load something that uses mtprof.h. */
static void begin(void)
{
    run.wanted = true;
    run.idle = !run.needed && !run.is_program;
    if (run.idle)
        return;
    if (!prepare() || mtp_profile_start_trace(run.profile) != MTP_OK) {
        mtp__run_note(&run.options, "not recorded: %s", mtp_last_error());
        run.wanted = false;
    }
}

static void end(void)
{
    run.wanted = run.idle = false;
    if (run.profile != NULL)
        mtp_profile_stop_trace(run.profile);
}

/* A process that recorded nothing leaves no file. */
static void remove_if_empty(void)
{
    mtp_ledger ledger = MTP_LEDGER_INIT;
    const char *spool = mtp_profile_spool(run.profile);
    if (spool != NULL && mtp_profile_ledger(run.profile, &ledger) == MTP_OK &&
        ledger.emitted <= 1) /* the mark of step 0 */
        unlink(spool);
}

static int is_pytorch(struct dl_phdr_info *library, size_t size, void *user)
{
    (void)size, (void)user;
    return strstr(library->dlpi_name, "/libtorch_cpu.so") != NULL;
}

/* Whatever sitecustomize.py attaches, if that did not run. */
static void note_missing(void)
{
    if (!run.is_python || run.has_python || run.has_torch)
        return;
    bool functions = run.options.python, ops = run.options.torch && dl_iterate_phdr(is_pytorch, NULL) != 0;
    if (functions || ops)
        mtp__run_note(&run.options,
                      "%s are not recorded: the interpreter was told to ignore its environment (-I, -E or "
                      "-S), or was started with another PYTHONPATH",
                      !ops        ? "its Python functions"
                      : functions ? "its Python functions and PyTorch's ops"
                                  : "PyTorch's ops");
}

static void at_exit(void)
{
    if (run.pid != getpid())
        return;     /* a child made by vfork or clone */
    note_missing(); /* without the lock: it waits for the dynamic linker, whose holder may wait for us */
    pthread_mutex_lock(&run.lock);
    mtp_op_end(&run.step_scope);
    run.step_scope.token = 0;
    end();
    if (run.profile != NULL)
        remove_if_empty();
    if (run.options.by_steps && run.step == 0 && run.has_python)
        mtp__run_note(&run.options, "no training step was seen, so --steps recorded nothing here");
    else if (run.options.by_steps && run.has_python && run.step < run.options.first_step)
        mtp__run_note(&run.options, "%llu training steps were seen, so --steps recorded nothing here",
                      (unsigned long long)run.step);
    pthread_mutex_unlock(&run.lock);
}

/* -------------------------------------------------------------------------------------------------- at a time */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Looks up now and then: a program whose last thread ends must not wait for us. */
static void sleep_until(uint64_t ns)
{
    for (uint64_t now = now_ns(); now < ns; now = now_ns()) {
        uint64_t left = ns - now < LOOK_NS ? ns - now : LOOK_NS;
        struct timespec t = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        nanosleep(&t, NULL);
        if (mtp__is_last_thread())
            exit(0);
    }
}

static void keep_time(void)
{
    const mtp__run_options *o = &run.options;
    if (o->from_ns > now_ns()) {
        sleep_until(o->from_ns);
        pthread_mutex_lock(&run.lock);
        begin();
        pthread_mutex_unlock(&run.lock);
    }
    if (o->until_ns != 0) {
        sleep_until(o->until_ns);
        pthread_mutex_lock(&run.lock);
        end();
        pthread_mutex_unlock(&run.lock);
    }
}

/* Begins now, or arranges for it: at the start of a process, and of a forked child that does not record yet. */
static void begin_or_wait(bool recording)
{
    const mtp__run_options *o = &run.options;
    uint64_t now = now_ns();
    if (o->wait || (o->until_ns != 0 && now >= o->until_ns))
        return;
    if (!recording && now >= o->from_ns &&
        !(o->by_steps && (o->first_step > run.step || run.step >= o->no_step)))
        begin();
    if (!o->by_steps && (o->from_ns > now || o->until_ns != 0) && mtp__own_thread(keep_time) != MTP_OK)
        mtp__run_note(o, "--delay and --duration have no effect: %s", mtp_last_error());
}

/* ------------------------------------------------------------------------------------------- start, fork, steps */

static void before_fork(void)
{
    if (!run.needed && mtp__run_can_record()) /* something was loaded meanwhile */
        run.needed = true;
    pthread_mutex_lock(&run.lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&run.lock);
}

/* libmtprof's own handler has run: if the parent was recording, so does the child, in a file of its own. */
static void after_fork_child(void)
{
    pthread_mutex_init(&run.lock, NULL);
    run.pid = getpid();
    run.step_scope.token = 0;
    run.asked = NULL;
    run.is_program = false;
    bool recording = mtp_profile_is_recording(run.profile);
    if (!recording)
        run.profile = NULL; /* the parent's: what the child inherited of it cannot record */
    bool wanted = run.wanted;
    if (wanted && !recording)
        begin(); /* the parent was idle, its profile had given way, or the child has no file */
    begin_or_wait(wanted);
}

static bool name_spool(const char *folder)
{
    size_t n = 0;
    for (const char *p = folder; *p != 0; p++) {
        if (n + 2 >= PATH_MAX)
            return false;
        if (*p == '%')
            run.spool[n++] = '%';
        run.spool[n++] = *p;
    }
    memcpy(run.spool + n, "/%p-%n.mtp", sizeof "/%p-%n.mtp");
    return true;
}

__attribute__((constructor)) static void start(void)
{
    static const mtp_stack_provider forwarding = {sizeof forwarding, capture, describe, NULL};
    const char *folder = getenv("MTPROF_RUN");
    int error = errno;
    if (folder == NULL || folder[0] != '/' || !name_spool(folder))
        return;
    mtp__run_options_read(&run.options, getenv("MTPROF_RUN_OPTIONS"));
    run.pid = getpid();
    run.is_python = dlsym(RTLD_DEFAULT, "PyGILState_Check") != NULL;
    run.is_program = run.options.parent == getppid();
    run.needed = run.needed || run.is_python || mtp__run_can_record();
    mtp__install_handlers(); /* before ours: in a child its own run first, at exit last */
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    atexit(at_exit);
    if (run.is_python)
        mtp_stack_provider_set(&forwarding);
    if (run.options.wait && mtp_listen() != MTP_OK)
        mtp__run_note(&run.options, "cannot be recorded on demand: %s", mtp_last_error());
    begin_or_wait(false);
    errno = error;
}

void mtp_run_needed(void)
{
    int error = errno;
    pthread_mutex_lock(&run.lock);
    run.needed = true;
    if (run.idle)
        begin();
    pthread_mutex_unlock(&run.lock);
    errno = error;
}

static void keep_metadata(const char *key, char *json)
{
    size_t i = 0;
    while (i < run.told_count && strcmp(run.told[i].key, key) != 0)
        i++;
    if (i == TOLD_MAX) {
        free(json);
        return;
    }
    run.told_count += i == run.told_count;
    free(run.told[i].json);
    run.told[i].key = key;
    run.told[i].json = json;
}

/* Of the same key, the last one counts in a trace. */
void mtp_run_metadata(const char *key, const char *json)
{
    int error = errno;
    char *copy = run.pid == getpid() ? strdup(json) : NULL;
    if (copy != NULL) {
        pthread_mutex_lock(&run.lock);
        keep_metadata(key, copy);
        if (run.profile != NULL)
            mtp_profile_preset_metadata_json(run.profile, key, json);
        if (mtp_profile_is_recording(run.profile))
            mtp_profile_add_metadata_json(run.profile, key, json);
        pthread_mutex_unlock(&run.lock);
    }
    errno = error;
}

void mtp_run_rank(const char *backend, int rank, int world)
{
    mtp__facts facts;
    char json[MTP__FACTS_JSON];
    mtp__facts_read(&facts);
    facts.rank = rank;
    facts.world = world;
    mtp__facts_write(&facts, strlen(backend) < 64 ? backend : "", json);
    mtp_run_metadata("distributedInfo", json);
}

void mtp_run_python(const mtp_stack_provider *provider)
{
    run.has_python = true;
    atomic_store_explicit(&python_stacks, provider, memory_order_release);
    mtp_run_needed();
}

/* ---------------------------------------------------------------------------------------------- hooks of Python */

static struct {
    void (*begin)(uint32_t recording);
    void (*end)(void);
    int (*is_initialized)(void);
} hook;

/* Our own profile begins and ends with the lock; others are those of somebody who asked this process. */
static void set_asked(mtp_profile *prof, bool records)
{
    if (prof == run.profile || !mtp_profile_gives_way(prof))
        return;
    pthread_mutex_lock(&run.lock);
    run.asked = records ? prof : NULL;
    pthread_mutex_unlock(&run.lock);
}

static void hook_begin(void *user, mtp_profile *prof)
{
    (void)user;
    set_asked(prof, true);
    if (mtp_profile_gives_way(prof) && hook.is_initialized())
        hook.begin(mtp_recording());
}

/* After the interpreter's end its code cannot run: at exit, recordings end later. */
static void hook_end(void *user, mtp_profile *prof)
{
    (void)user;
    set_asked(prof, false);
    if (mtp_profile_gives_way(prof) && hook.is_initialized())
        hook.end();
}

uint32_t mtp_run_hook(void (*begin_hook)(uint32_t recording), void (*end_hook)(void))
{
    *(void **)&hook.is_initialized = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    if (run.pid != getpid() || hook.begin != NULL || hook.is_initialized == NULL)
        return 0;
    hook.begin = begin_hook;
    hook.end = end_hook;
    run.has_torch = true;
    mtp_run_needed(); /* a program may load Python when it has begun */
    if (mtp_watch_add(hook_begin, hook_end, NULL) != MTP_OK)
        return 0;
    return mtp_recording();
}

void mtp_run_note(const char *text)
{
    if (text != NULL)
        mtp__run_note(&run.options, "%s", text);
}

static void begin_step(mtp_profile *profile)
{
    char name[48];
    int n = snprintf(name, sizeof name, "ProfilerStep#%llu", (unsigned long long)run.step);
    run.step_scope = (mtp_op)MTP_OP_INIT(0);
    run.step_scope.kind = MTP_SCOPE_USER;
    mtp_profile_mark_step(profile, run.step);
    mtp_op_begin_text(&run.step_scope, name, (size_t)n);
}

void mtp_run_step(int another)
{
    const mtp__run_options *o = &run.options;
    if (run.pid != getpid())
        return;
    pthread_mutex_lock(&run.lock);
    mtp_op_end(&run.step_scope);
    run.step_scope.token = 0;
    run.step += another != 0;
    if (another && o->by_steps && run.step == o->first_step)
        begin();
    if (another && o->by_steps && run.step == o->no_step)
        end();
    if (another && mtp_profile_is_recording(run.profile))
        begin_step(run.profile);
    else if (another && run.asked != NULL)
        begin_step(run.asked);
    pthread_mutex_unlock(&run.lock);
}
