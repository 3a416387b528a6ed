/* bench/bench_read.c - what reading a Kineto trace costs. Prints a table and writes JSON, name -> number.
 *
 *     bench_read [OUT.json [TRACE...]]
 *
 * Without TRACE it makes traces with bench/make_trace.py: 500 MB from the real PyTorch trace in
 * ../shared/data (or a synthetic one if that is absent), plain and gzipped, and one whose shapes are all
 * different. Each is read several times in a child process, so that peak memory is the reader's alone; the
 * minimum time counts. Files are in the page cache: this does not test disks. A gzipped file's MB/s are of JSON.
 */
#define _GNU_SOURCE
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REPEATS 5
#define REAL "../shared/data/gpt_cpu.json.gz"

typedef struct figures {
    double seconds; /* minimum */
    double megabytes, peak_bytes, model_bytes, events;
    bool failed;
} figures;

static FILE *json;
static int json_count;

/* CPU time, user and system: reading is single-threaded and never waits, and machines are shared. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void report(const char *name, double value, const char *unit, double bar, bool least,
                   const char *meaning)
{
    char mark[48] = "";
    if (bar > 0)
        snprintf(mark, sizeof mark, "%s %.4g",
                 (least ? value >= bar : value <= bar) ? (least ? ">=" : "<=") : "MISSED", bar);
    printf("  %-34s %12.2f %-6s %-12s %s\n", name, value, unit, mark, meaning);
    if (json != NULL)
        fprintf(json, "%s\n  \"%s\": %.4f", json_count++ ? "," : "", name, value);
}

/* High-water mark of resident memory since the last reset. */
static double peak_bytes(bool reset)
{
    char line[128];
    double kib = 0;
    if (reset) {
        FILE *f = fopen("/proc/self/clear_refs", "w");
        if (f != NULL) {
            fputs("5", f);
            fclose(f);
        }
    }
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, reset ? "VmRSS: %lf" : "VmHWM: %lf", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib * 1024;
}

static void read_once(const char *path, figures *out)
{
    mtp_trace *trace;
    double before = peak_bytes(true), from = now();
    mtp_status status = mtp_trace_open(path, NULL, &trace);
    double took = now() - from, peak = peak_bytes(false) - before;
    if (status != MTP_OK) {
        fprintf(stderr, "bench_read: %s\n", mtp_last_error());
        out->failed = true;
        return;
    }
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    mtp_trace_get_info(trace, &info);
    out->seconds = out->seconds == 0 || took < out->seconds ? took : out->seconds;
    out->peak_bytes = peak > out->peak_bytes ? peak : out->peak_bytes;
    out->model_bytes = (double)info.model_bytes;
    out->events = (double)(info.spans + info.memory_events + info.instants + info.flows);
    mtp_trace_destroy(trace);
}

static bool measure(const char *path, figures *shared, int repeats)
{
    struct stat st;
    memset(shared, 0, sizeof *shared);
    if (stat(path, &st) != 0)
        return false;
    shared->megabytes = (double)st.st_size * 1e-6;
    for (int i = 0; i < repeats && !shared->failed; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            read_once(path, shared);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    return !shared->failed && shared->seconds > 0;
}

static void print_figures(const char *kind, const figures *f, double speed_bar, double memory_bar)
{
    char name[64];
    snprintf(name, sizeof name, "json_read%s_mb_per_s", kind);
    report(name, f->megabytes / f->seconds, "MB/s", speed_bar, true,
           strcmp(kind, "_gz") == 0 ? "of JSON, from a .json.gz file" : "from open to a finished trace");
    snprintf(name, sizeof name, "json_read%s_ns_per_event", kind);
    report(name, f->seconds * 1e9 / f->events, "ns", 0, false, "");
    snprintf(name, sizeof name, "json_read%s_memory_ratio", kind);
    report(name, f->peak_bytes / f->model_bytes, "x", memory_bar, false,
           "peak memory over the size of the model");
}

static bool make(const char *path, const char *options)
{
    char command[512];
    snprintf(command, sizeof command, "python3 bench/make_trace.py '%s' %s", path, options);
    return system(command) == 0;
}

static bool measure_gzipped(const char *path, figures *f, int repeats)
{
    char command[512], packed[256];
    double megabytes = f->megabytes;
    snprintf(packed, sizeof packed, "%s.gz", path);
    snprintf(command, sizeof command, "gzip -c '%s' > '%s'", path, packed);
    bool done = system(command) == 0 && measure(packed, f, repeats);
    f->megabytes = megabytes;
    unlink(packed);
    return done;
}

int main(int argc, char **argv)
{
    figures *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    json = argc > 1 ? fopen(argv[1], "w") : NULL;
    if (json != NULL)
        fprintf(json, "{");
    printf("reading JSON\n");
    for (int i = 2; i < argc; i++) {
        char kind[16] = "";
        if (i > 2)
            snprintf(kind, sizeof kind, "_%d", i - 1);
        printf(" %s\n", argv[i]);
        if (measure(argv[i], f, REPEATS))
            print_figures(kind, f, 300, 2);
    }
    if (argc <= 2) {
        char path[] = "/tmp/bench_read.XXXXXX";
        int fd = mkstemp(path);
        bool real = access(REAL, R_OK) == 0;
        if (fd >= 0 && make(path, real ? "--mb 500 --from " REAL : "--mb 500") && measure(path, f, REPEATS))
            print_figures("", f, 300, 2);
        if (fd >= 0 && f->seconds > 0 && measure_gzipped(path, f, REPEATS))
            print_figures("_gz", f, 0, 0);
        if (fd >= 0 && make(path, "--mb 200 --varied") && measure(path, f, REPEATS))
            print_figures("_varied", f, 0, 0);
        unlink(path);
    }
    if (json != NULL) {
        fprintf(json, "\n}\n");
        fclose(json);
    }
    return 0;
}
