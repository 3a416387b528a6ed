/* bench/bench_bounds.c - memory and time that the command needs for files that are long, deep, sparse or
 * malicious. Prints a table and writes JSON, name -> number.
 *
 *     bench_bounds [OUT.json [RECORDS]]        RECORDS: 1e8
 *
 * Runs the command next to this program's folder, each time in a new process, and measures its peak resident
 * set and its CPU time. Files are written to a temporary folder and removed.
 */
#define _GNU_SOURCE
#include <libgen.h>
#include <limits.h>
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#define BOMB_EVENTS 10000000
#define DEEP 10000000

static char command[PATH_MAX], folder[PATH_MAX];
static FILE *json;
static int json_count;

static void report(const char *name, double value, const char *unit, double bar, const char *meaning)
{
    char mark[32] = "";
    if (bar > 0)
        snprintf(mark, sizeof mark, "%s %.4g", value <= bar ? "<=" : "OVER", bar);
    printf("  %-34s %12.2f %-6s %-12s %s\n", name, value, unit, mark, meaning);
    fflush(stdout);
    if (json != NULL)
        fprintf(json, "%s\n  \"%s\": %.4f", json_count++ ? "," : "", name, value);
}

static const char *path_of(const char *file)
{
    static char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

/* Bars: 0 means no bar. */
static void run(const char *verb, const char *file, const char *name, double mb_bar, double seconds_bar,
                const char *meaning)
{
    struct rusage used = {0};
    char figure[64];
    const char *path = path_of(file);
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) != NULL && freopen("/dev/null", "w", stderr) != NULL)
            execl(command, "mtprof", verb, path, (char *)NULL);
        _exit(127);
    }
    wait4(child, NULL, 0, &used);
    double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    snprintf(figure, sizeof figure, "bounds_%s_%s_mib", name, verb);
    report(figure, (double)used.ru_maxrss / 1024, "MiB", mb_bar, meaning);
    snprintf(figure, sizeof figure, "bounds_%s_%s_s", name, verb);
    report(figure, seconds, "s", seconds_bar, "its CPU time");
}

static void record(const char *file, void (*work)(long), long count)
{
    mtp_profile *prof;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.spool = path_of(file);
    config.when_full = MTP_STREAM;
    config.buffer_bytes = (uint64_t)16 << 20;
    if (mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK) {
        fprintf(stderr, "bench_bounds: %s\n", mtp_last_error());
        exit(1);
    }
    work(count);
    mtp_profile_stop(prof);
    mtp_profile_destroy(prof);
}

static void flat(long records)
{
    for (long i = 0; i < records / 2; i++)
        MTP_SCOPE ("scope") {
        }
}

static void deep(long scopes)
{
    mtp_token *open = malloc((size_t)scopes * sizeof *open);
    for (long i = 0; i < scopes && open != NULL; i++)
        open[i] = mtp_scope_begin(MTP_NAME("deep"));
    for (long i = scopes; i-- > 0 && open != NULL;)
        mtp_scope_end(open[i]);
    free(open);
}

static void make_bomb(const char *file, const char *event, long events)
{
    gzFile out = gzopen(path_of(file), "wb9");
    gzputs(out, "{\"traceEvents\":[");
    for (long i = 0; i < events; i++)
        gzputs(out, event);
    gzputs(out, "{}]}");
    gzclose(out);
}

int main(int argc, char **argv)
{
    char self[PATH_MAX] = "";
    long records = argc > 2 ? atol(argv[2]) : 100000000;
    json = argc > 1 ? fopen(argv[1], "w") : NULL;
    if (json != NULL)
        fputs("{", json);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return 1;
    snprintf(command, sizeof command, "%.*s/mtprof", PATH_MAX - 16, dirname(dirname(self)));
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/bounds-XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (access(command, X_OK) != 0 || mkdtemp(folder) == NULL) {
        perror("bench_bounds");
        return 1;
    }
    printf("bounds of the command: %ld records, %d nested scopes, 100 GiB of holes, gzip bombs of %d "
           "events\n",
           records, DEEP, BOMB_EVENTS);
    fflush(stdout);
    record("flat.mtp", flat, records);
    run("info", "flat.mtp", "long", 256, 0, "a spool of 10^8 records");
    run("check", "flat.mtp", "long", 256, 0, "a spool of 10^8 records");
    run("table", "flat.mtp", "long", 0, 0, "holds the whole trace, 24 bytes per span");
    unlink(path_of("flat.mtp"));
    record("deep.mtp", deep, DEEP);
    run("info", "deep.mtp", "deep", 0, 0, "10^7 nested scopes");
    run("table", "deep.mtp", "deep", 0, 0, "10^7 nested scopes");
    unlink(path_of("deep.mtp"));
    record("holes.mtp", flat, 1000);
    if (truncate(path_of("holes.mtp"), (off_t)100 << 30) == 0) {
        run("info", "holes.mtp", "holes", 256, 5, "a sparse spool of 100 GiB");
        run("check", "holes.mtp", "holes", 256, 5, "a sparse spool of 100 GiB");
    }
    unlink(path_of("holes.mtp"));
    make_bomb("spans.json.gz", "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1},",
              BOMB_EVENTS);
    make_bomb("marks.json.gz", "{\"ph\":\"i\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"s\":\"t\"},",
              BOMB_EVENTS);
    run("table", "spans.json.gz", "bomb_spans", 256, 5, "1.5 MB of gzip, 530 MB of spans");
    run("check", "spans.json.gz", "bomb_spans", 256, 5, "1.5 MB of gzip, 530 MB of spans");
    run("table", "marks.json.gz", "bomb_marks", 256, 5, "the same with instant events");
    unlink(path_of("spans.json.gz"));
    unlink(path_of("marks.json.gz"));
    rmdir(folder);
    if (json != NULL) {
        fputs("\n}\n", json);
        fclose(json);
    }
    return 0;
}
