/* bench/bench_parquet.c - what a table of spans costs: time of a core and bytes of disk. Prints a table and writes JSON, name -> number.
 *
 * usage: bench_parquet OUT.json [NAME=TRACE...]
 *
 * Without a trace it is PyTorch's of a small GPT on a GPU, made longer (bench/make_large_trace.py; run from the repository's root).
 * Each trace is read once and exported several times to a folder beside OUT.json; time is this thread's CPU time, the best
 * one, of all tables. Bytes are those of all files.
 */
#define _GNU_SOURCE
#include <ftw.h>
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define REPEATS 7
#define BAR_SPANS 5e6 /* a second and core, at least */
#define BAR_BYTES 10  /* a span, at most */

static long long total; /* bytes of the files */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(mtp_status status)
{
    if (status != MTP_OK) {
        fprintf(stderr, "bench_parquet: %s (%s)\n", mtp_last_error(), mtp_status_text(status));
        exit(1);
    }
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)walk;
    total += type == FTW_F ? st->st_size : 0;
    return remove(path);
}

static void measure(FILE *json, const char *folder, const char *name, const char *path)
{
    mtp_trace *trace;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    double best = 1e9;
    must(mtp_trace_open(path, NULL, &trace));
    must(mtp_trace_get_info(trace, &info));
    for (int i = 0; i < REPEATS; i++) {
        double from = now();
        must(mtp_export_parquet(trace, folder, NULL));
        double took = now() - from;
        best = took < best ? took : best;
        total = 0;
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    double rate = (double)info.spans / best, bytes = (double)total / (double)info.spans;
    printf("  %-12s %9llu spans %8.2f million spans/s %s  %6.2f bytes/span %s\n", name,
           (unsigned long long)info.spans, rate / 1e6, rate >= BAR_SPANS ? ">= 5" : "UNDER 5", bytes,
           bytes <= BAR_BYTES ? "<= 10" : "OVER 10");
    fprintf(json, "%s\n  \"parquet_%s_spans_per_s\": %.0f,\n  \"parquet_%s_bytes_per_span\": %.3f",
            ftell(json) > 1 ? "," : "", name, rate, name, bytes);
    mtp_trace_destroy(trace);
}

int main(int argc, char **argv)
{
    static char made[4200], folder[4200], command[8600], *standard[] = {NULL, NULL, made};
    FILE *json = argc >= 2 ? fopen(argv[1], "w") : NULL;
    if (json == NULL) {
        fprintf(stderr, "usage: bench_parquet OUT.json [NAME=TRACE...]\n");
        return 2;
    }
    snprintf(folder, sizeof folder, "%.4000s.lake", argv[1]);
    snprintf(made, sizeof made, "gpt=%.4000s.trace.json", argv[1]);
    snprintf(command, sizeof command,
             "python3 bench/make_large_trace.py tests/golden/torch/cuda_gpt.json.gz 1000000 '%s'", made + 4);
    bool own = argc == 2;
    if (own && system(command) != 0)
        return 1;
    fputc('{', json);
    printf("Parquet, all tables of a trace:\n");
    for (int i = 2; i < (own ? 3 : argc); i++) {
        char *name = own ? standard[i] : argv[i], *path = strchr(name, '=');
        if (path == NULL)
            return 2;
        *path++ = 0;
        measure(json, folder, name, path);
        if (own)
            remove(path);
    }
    fputs("\n}\n", json);
    return fclose(json) != 0;
}
