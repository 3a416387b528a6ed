/* cli/devices.c - the accelerators that the device plug-in finds, and where the collectors are. */
#include "cli/run/run.h"
#include <dlfcn.h>
#include <limits.h>
#include <mtprof_device.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* In a wheel, the command is in mtprof/bin, and its libraries are in mtprof/lib; mindtorch_v2 is another wheel. */
#ifdef CLI_WHEEL
#define IN_WHEEL true
#else
#define IN_WHEEL false
#endif

/* The path of this command, also where /proc is not mounted. */
static bool find_own(char own[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", own, PATH_MAX - 1);
    if (n > 0)
        own[n] = 0;
    const char *started = (const char *)(uintptr_t)getauxval(AT_EXECFN);
    return n > 0 || (started != NULL && realpath(started, own) != NULL);
}

bool cli_find(const char *in_build, const char *installed, const char *name, char path[PATH_MAX])
{
    char own[PATH_MAX];
    if (!find_own(own))
        return false;
    char *slash = strrchr(own, '/');
    if (slash == NULL)
        return false;
    *slash = 0;
    const char *const folders[] = {"", CLI_LIBDIR, "../lib"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char tried[PATH_MAX], file[NAME_MAX + 1];
        snprintf(file, sizeof file, "/%s", name); /* which may be a link: its folder counts */
        if (snprintf(tried, sizeof tried, "%s/%s/%s", own, folders[i], i == 0 ? in_build : installed) <
                (int)sizeof tried &&
            realpath(tried, path) != NULL && strlen(path) + strlen(file) < PATH_MAX &&
            access(strcat(path, file), R_OK) == 0)
            return true;
    }
    return false;
}

bool cli_find_python(char folder[PATH_MAX])
{
    static const char name[] = "__init__.py";
    if (!cli_find("python/mtprof", "mtprof/python/mtprof", name, folder) &&
        !cli_find("../src/mtprof", "mtprof/python/mtprof", name, folder) &&
        !(IN_WHEEL && cli_find("../../mtprof", "", name, folder)))
        return false;
    folder[strlen(folder) - sizeof name - strlen("/mtprof")] = 0;
    return true;
}

static void about_device(const mtp_plugin *api, uint32_t index)
{
    mtp_plugin_device *device = NULL;
    mtp_plugin_properties p = {.size = sizeof p};
    mtp_status status = api->open(index, &device);
    if (status == MTP_OK)
        status = api->properties(device, &p);
    if (status == MTP_OK)
        printf("  npu:%-14u%s (%s %s), %u units, %.1f GiB\n", index, p.name, api->name, p.driver,
               p.compute_units, (double)p.memory_bytes / 0x1p30);
    else
        printf("  npu:%-14ucannot be opened: %s\n", index, api->last_error());
    if (device != NULL)
        api->close(device);
}

static void about_plugin(const char *path)
{
    void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    mtp_plugin_get_fn *get = NULL;
    if (h != NULL)
        *(void **)&get = dlsym(h, MTP_PLUGIN_ENTRY);
    const mtp_plugin *api = get != NULL ? get(MTP_PLUGIN_VERSION) : NULL;
    uint32_t count = 0;
    if (api == NULL) {
        printf("  npu               %s: %s\n", path,
               h == NULL ? dlerror() : "not a device plug-in of this version");
        return;
    }
    if (api->count(&count) != MTP_OK)
        printf("  npu               %s\n", api->last_error());
    else if (count == 0)
        printf("  npu               none: %s finds no device (Debian: pocl-opencl-icd makes the CPU one)\n",
               api->name);
    for (uint32_t i = 0; i < count; i++)
        about_device(api, i);
}

static void about_collectors(void)
{
    char path[PATH_MAX], folder[PATH_MAX];
    printf("  mtprof run        ");
    if (!cli_find("src/collect/run", CLI_COLLECTORS, "libmtprof_run.so", path)) {
        printf("not installed: libmtprof_run.so is missing\n");
        return;
    }
    printf("scopes");
    bool has_python = cli_find_python(folder);
    if (has_python)
        printf(", Python, PyTorch");
#define X(name, in_build, library, standard)                                                                 \
    if (library[0] != 0 && cli_find(in_build, CLI_COLLECTORS, library, path))                                \
        printf(", %s", #name);
    RUN_COLLECTOR_LIST(X)
#undef X
    printf("\n");
    if (has_python && IN_WHEEL)
        printf("  import mtprof     %s/mtprof\n", folder);
    else if (has_python)
        printf("  import mtprof     PYTHONPATH=%s\n", folder);
}

static bool is_plain(const char *path)
{
    return path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-@%,=")] == 0;
}

/* As a shell reads it. */
static void print_word(const char *path)
{
    if (is_plain(path))
        fputs(path, stdout);
    else
        cli_print_argument(stdout, path);
}

/* For programs in C and C++ that use an installed mtprof. */
static void about_headers(void)
{
    static const char name[] = "/mtprof.pc";
    char path[PATH_MAX];
    if (!cli_find("meson-private/none", "pkgconfig", name + 1, path))
        return;
    path[strlen(path) - strlen(name)] = 0;
    bool odd = !is_plain(path); /* pkg-config escapes what it prints: for eval */
    printf("  #include          %scc PROGRAM.c $(PKG_CONFIG_PATH=", odd ? "eval \"" : "");
    print_word(path);
    printf(" pkg-config --cflags --libs mtprof)%s\n", odd ? "\"" : "");
}

/* LD_PRELOAD is a list, with spaces and colons between its names: `mtprof run` knows a way. */
static void about_collector(const char *what, const char *variable, const char *path)
{
    printf("  %-17s ", what);
    if (strcmp(variable, "LD_PRELOAD") == 0 && strpbrk(path, " :") != NULL) {
        printf("mtprof run %s -- PROGRAM\n", strstr(path, "libmtprof_mpi") != NULL ? "--mpi" : "--malloc");
        return;
    }
    printf("%s=", variable);
    print_word(path);
    printf(" MTPROF_OUT=trace.json PROGRAM\n");
}

/* Where the device plug-in is, if anywhere. */
static bool find_plugin(char path[PATH_MAX])
{
    static const char name[] = "libmindtorch_opencl.so";
    return cli_find("src/runtime", "", name, path) ||
           (IN_WHEEL && cli_find("../../mindtorch_v2/lib", "", name, path));
}

void cli_about_devices(void)
{
    char path[PATH_MAX];
    const char *given = getenv("MINDTORCH_DEVICE_PLUGIN");
    if (given != NULL && *given != 0)
        about_plugin(given);
    else if (find_plugin(path))
        about_plugin(path);
    else
        printf("  npu               %s\n",
               IN_WHEEL ? "none: devices come with mindtorch_v2, which is a wheel of its own"
                        : "not built: the OpenCL headers were missing (Debian: ocl-icd-opencl-dev)");
    about_collectors();
    about_headers();
    static const struct {
        const char *in_build, *name, *what, *variable;
    } collectors[] = {
        {"src/collect/opencl", "libmtprof_opencl.so", "OpenCL programs", "OPENCL_LAYERS"},
        {"src/collect/itt", "libmtprof_itt.so", "ITT programs", "INTEL_LIBITTNOTIFY64"},
        {"src/collect/nvtx", "libmtprof_nvtx.so", "NVTX programs", "NVTX_INJECTION64_PATH"},
        {"src/collect/malloc", "libmtprof_malloc.so", "heap of programs", "LD_PRELOAD"},
        {"src/collect/mpi", "libmtprof_mpi.so", "MPI programs", "LD_PRELOAD"},
        {"src/collect/nccl", "libmtprof_nccl.so", "NCCL and RCCL", "NCCL_PROFILER_PLUGIN"},
    };
    for (size_t i = 0; i < sizeof collectors / sizeof *collectors; i++)
        if (cli_find(collectors[i].in_build, CLI_COLLECTORS, collectors[i].name, path))
            about_collector(collectors[i].what, collectors[i].variable, path);
}
