/* cli/run/environment.c - the environment that makes a program record itself. What the user set stays in force. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli/run/run.h"

extern char **environ;

enum {
    OURS_MAX = 16
};

typedef struct list {
    char **at; /* owned, and each text */
    size_t count;
    bool failed;
} list;

/* Sets NAME=value, replacing what was there. Takes ownership of text ("NAME=value"). */
static void set(list *l, char *text)
{
    if (text == NULL) {
        l->failed = true;
        return;
    }
    size_t name = (size_t)(strchr(text, '=') - text) + 1;
    for (size_t i = 0; i < l->count; i++)
        if (strncmp(l->at[i], text, name) == 0) {
            free(l->at[i]);
            l->at[i] = text;
            return;
        }
    l->at[l->count++] = text;
    l->at[l->count] = NULL;
}

static void set_to(list *l, const char *name, const char *value)
{
    char *text = NULL;
    set(l, asprintf(&text, "%s=%s", name, value) >= 0 ? text : NULL);
}

/* value, then what the user had. */
static void set_before(list *l, const char *name, const char *value)
{
    const char *had = getenv(name);
    char *text = NULL;
    bool more = had != NULL && *had != 0;
    set(l, asprintf(&text, "%s=%s%s%s", name, value, more ? ":" : "", more ? had : "") >= 0 ? text : NULL);
}

/* A variable that names one library: the user's own stays. */
static void set_unless(list *l, const char *name, const char *value, const char *option)
{
    const char *had = getenv(name);
    if (had != NULL && *had != 0 && strcmp(had, value) != 0)
        cli_note("%s is set to another tool, %s, which keeps it: %s records nothing", name, had, option);
    else
        set_to(l, name, value);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void set_options(list *l, const run_options *o, const run_place *place)
{
    char text[512];
    uint64_t now = now_ns(), from = o->delay_ns > 0 ? now + (uint64_t)o->delay_ns : 0;
    int n = snprintf(text, sizeof text, "notes=%s parent=%ld%s%s%s%s%s%s%s%s", place->notes_name,
                     (long)getpid(), o->shapes ? " shapes" : "",
                     o->memory || o->use[RUN_malloc] ? " memory" : "", o->stacks ? " stacks" : "",
                     o->newest ? " newest" : "", o->wait ? " wait" : "", o->use[RUN_torch] ? " torch" : "",
                     o->steps != NULL ? " steps=" : "", o->steps != NULL ? o->steps : "");
    if (o->use[RUN_python]) /* by default only until torch is imported */
        n += snprintf(text + n, sizeof text - (size_t)n, " python%s",
                      o->asked[RUN_python] || o->stacks ? "" : " until-torch");
    if (o->budget != 0)
        n += snprintf(text + n, sizeof text - (size_t)n, " budget=%llu", (unsigned long long)o->budget);
    if (from != 0)
        n += snprintf(text + n, sizeof text - (size_t)n, " from=%llu", (unsigned long long)from);
    if (o->duration_ns != 0)
        snprintf(text + n, sizeof text - (size_t)n, " until=%llu",
                 (unsigned long long)(from != 0 ? from : now) + (unsigned long long)o->duration_ns);
    set_to(l, "MTPROF_RUN", o->wait ? "/" : place->folder);
    set_to(l, "MTPROF_RUN_OPTIONS", text);
}

/* The libraries that the program loads. false: the agent is missing, which was printed. */
static bool set_libraries(list *l, const run_options *o)
{
    static const char *const in_build[] = {
#define X(name, folder, library, standard) folder,
        RUN_COLLECTOR_LIST(X)
#undef X
    };
    static const char *const libraries[] = {
#define X(name, folder, library, standard) library,
        RUN_COLLECTOR_LIST(X)
#undef X
    };
    static const char *const names[] = {
#define X(name, folder, library, standard) "--" #name,
        RUN_COLLECTOR_LIST(X)
#undef X
    };
    char agent[PATH_MAX], path[PATH_MAX], all[3 * PATH_MAX];
    if (!cli_find("src/collect/run", CLI_COLLECTORS, "libmtprof_run.so", agent)) {
        cli_fail(CLI_INPUT, "libmtprof_run.so is not installed: reinstall mtprof");
        return false;
    }
    if (!run_plain_file(agent)) {
        cli_fail(
            CLI_INPUT,
            "%s: LD_PRELOAD cannot name a folder with a space or colon in its name, and no link to it can be "
            "made in /tmp/mtprof-links-%u: install mtprof elsewhere",
            agent, (unsigned)geteuid());
        return false;
    }
    int n = snprintf(all, sizeof all, "%s", agent);
    for (int i = 0; i < RUN_COLLECTORS; i++) {
        if (!o->use[i] || libraries[i][0] == 0)
            continue;
        if (!cli_find(in_build[i], CLI_COLLECTORS, libraries[i], path) || !run_plain_file(path)) {
            if (o->asked[i])
                cli_note("%s: this build of mtprof has no %s", names[i], libraries[i]);
            continue;
        }
        if (i == RUN_itt)
            set_unless(l, "INTEL_LIBITTNOTIFY64", path, names[i]);
        else if (i == RUN_nvtx)
            set_unless(l, "NVTX_INJECTION64_PATH", path, names[i]);
        else if (i == RUN_opencl)
            set_before(l, "OPENCL_LAYERS", path);
        else if (i == RUN_nccl)
            set_unless(l, "NCCL_PROFILER_PLUGIN", path, names[i]);
        else
            n += snprintf(all + n, sizeof all - (size_t)n, ":%s", path);
    }
    set_before(l, "LD_PRELOAD", all);
    set_before(l, "ASAN_OPTIONS", "verify_asan_link_order=0"); /* else its programs refuse to start with us */
    return true;
}

char **run_environment(const run_options *o, const run_place *place)
{
    list l = {NULL, 0, false};
    size_t count = 0;
    char python[PATH_MAX];
    while (environ[count] != NULL)
        count++;
    l.at = calloc(count + OURS_MAX, sizeof *l.at);
    for (size_t i = 0; l.at != NULL && i < count; i++)
        if (strncmp(environ[i], "MTPROF_OUT=", 11) != 0 && strchr(environ[i], '=') != NULL)
            set(&l, strdup(environ[i]));
    if (l.at == NULL) {
        cli_fail(CLI_MEMORY, "out of memory");
        return NULL;
    }
    set_options(&l, o, place);
    bool found = set_libraries(&l, o);
    if ((o->use[RUN_python] || o->use[RUN_torch]) && cli_find_python(python) && run_plain_folder(python) &&
        strlen(python) + sizeof RUN_CUSTOMIZE <= sizeof python)
        set_before(&l, "PYTHONPATH", strcat(python, RUN_CUSTOMIZE));
    if (!l.failed && found)
        return l.at;
    if (l.failed)
        cli_fail(CLI_MEMORY, "out of memory");
    run_environment_free(l.at);
    return NULL;
}

void run_environment_free(char **environment)
{
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
        free(environment[i]);
    free(environment);
}
