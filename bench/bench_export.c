/* bench/bench_export.c - what writing a trace costs. Prints a table and writes JSON, name -> number.
 *
 * Traces are recorded here, so they look like users' traces. Each figure is the best of several runs, since
 * machines are shared. Plain spans have a name, times and ids; full ones are ops with shapes, sequence
 * numbers and allocations. Compression is compared with zlib alone on the same bytes, at the same level,
 * without writing.
 */
#define _GNU_SOURCE
#include <mtprof.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define REPEATS 25 /* short ones: some will run undisturbed */
#define SPANS 1000000u

static FILE *json;
static int json_count;

/* This thread's CPU time: nothing here waits, and other load does not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* bar: minimum, or 0 for none. */
static void report(const char *name, double value, const char *unit, double bar, const char *meaning)
{
    char mark[48] = "";
    if (bar > 0)
        snprintf(mark, sizeof mark, "%s %.4g", value >= bar ? ">=" : "UNDER", bar);
    printf("  %-34s %12.2f %-6s %-12s %s\n", name, value, unit, mark, meaning);
    fprintf(json, "%s\n  \"%s\": %.4f", json_count++ ? "," : "", name, value);
}

static void must(mtp_status status)
{
    if (status != MTP_OK) {
        fprintf(stderr, "bench_export: %s (%s)\n", mtp_last_error(), mtp_status_text(status));
        exit(1);
    }
}

/* ------------------------------------------------------------------------------------------- traces */

static void *plain_spans(void *arg)
{
    uint32_t names[8];
    for (int i = 0; i < 8; i++) {
        char text[32];
        snprintf(text, sizeof text, "aten::operator_%d", i);
        names[i] = mtp_name(text);
    }
    for (uint64_t i = 0; i < (uint64_t)(uintptr_t)arg / 4; i++) {
        mtp_token a = mtp_scope_begin(names[i & 7]), b = mtp_scope_begin(names[i >> 3 & 7]);
        mtp_scope_end(mtp_scope_begin(names[i >> 6 & 7]));
        mtp_scope_end(mtp_scope_begin(names[i >> 9 & 7]));
        mtp_scope_end(b);
        mtp_scope_end(a);
    }
    return NULL;
}

static void full_spans(uint64_t count)
{
    const int64_t dims[2][2] = {{64, 256}, {256, 128}};
    mtp_input inputs[2] = {{.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims[0]},
                           {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims[1]}};
    for (uint64_t i = 0; i < count; i++) {
        mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
        op.inputs = inputs;
        op.input_count = 2;
        op.sequence = (int64_t)i;
        op.allocated = (int64_t)(i & 1023) * 4096;
        mtp_op_begin(&op);
        mtp_op_end(&op);
    }
}

static mtp_trace *record(uint64_t spans, int threads, bool full)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    mtp_trace *trace;
    pthread_t thread[64];
    config.buffer_bytes = (uint64_t)4 << 30;
    config.record_shapes = config.profile_memory = full;
    must(mtp_profile_create(&config, &prof));
    must(mtp_profile_start(prof));
    for (int i = 1; i < threads; i++)
        if (pthread_create(&thread[i], NULL, plain_spans, (void *)(uintptr_t)(spans / (unsigned)threads)) !=
            0)
            exit(1);
    if (full)
        full_spans(spans);
    else
        plain_spans((void *)(uintptr_t)(spans / (unsigned)threads));
    for (int i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    must(mtp_profile_stop(prof));
    must(mtp_profile_trace(prof, &trace));
    mtp_profile_destroy(prof);
    return trace;
}

/* -------------------------------------------------------------------------------------------- sinks */

typedef struct drain {
    int fd;
    uint64_t bytes;
} drain;

static bool to_null(void *user, const void *bytes, size_t length)
{
    drain *d = user;
    d->bytes += length;
    return write(d->fd, bytes, length) == (ssize_t)length;
}

static double export_seconds(const mtp_trace *trace, const mtp_export_options *options, int repeats,
                             uint64_t *bytes)
{
    double best = 1e18;
    for (int r = 0; r < repeats; r++) {
        drain d = {open("/dev/null", O_WRONLY), 0};
        double from = now();
        must(mtp_trace_chrome(trace, options, to_null, &d));
        double took = now() - from;
        close(d.fd);
        best = took < best ? took : best;
        *bytes = d.bytes;
    }
    return best;
}

typedef struct kept {
    unsigned char *bytes;
    size_t length, room;
} kept;

static bool keep(void *user, const void *bytes, size_t length)
{
    kept *k = user;
    if (k->length + length > k->room) {
        k->room = (k->length + length) * 2;
        k->bytes = realloc(k->bytes, k->room);
        if (k->bytes == NULL)
            return false;
    }
    memcpy(k->bytes + k->length, bytes, length);
    k->length += length;
    return true;
}

/* zlib alone, over the same bytes in the same pieces. */
static double zlib_seconds(const kept *k)
{
    static unsigned char out[128 << 10];
    z_stream z = {0};
    double from = now();
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        exit(1);
    for (size_t at = 0; at < k->length; at += sizeof out) {
        size_t n = k->length - at < sizeof out ? k->length - at : sizeof out;
        z.next_in = k->bytes + at;
        z.avail_in = (unsigned)n;
        do {
            z.next_out = out;
            z.avail_out = sizeof out;
            deflate(&z, at + n == k->length ? Z_FINISH : Z_NO_FLUSH);
        } while (z.avail_out == 0);
    }
    deflateEnd(&z);
    return now() - from;
}

static void bench_gz(const mtp_trace *trace)
{
    kept k = {0};
    must(mtp_trace_chrome(trace, NULL, keep, &k));
    char folder[] = "/tmp/mtprof-bench-XXXXXX", path[64];
    if (mkdtemp(folder) == NULL)
        exit(1);
    snprintf(path, sizeof path, "%s/trace.json.gz", folder);
    double ours = 1e18, zlib = 1e18;
    for (int r = 0; r < 3; r++) {
        double from = now();
        must(mtp_trace_export(trace, path, NULL));
        double took = now() - from;
        ours = took < ours ? took : ours;
        took = zlib_seconds(&k);
        zlib = took < zlib ? took : zlib;
    }
    unlink(path);
    rmdir(folder);
    report("gz_export_mb_per_s", (double)k.length / ours / 1e6, "MB/s", 0, "of JSON, to a .json.gz file");
    report("gz_zlib_mb_per_s", (double)k.length / zlib / 1e6, "MB/s", 0, "zlib alone on the same bytes");
    report("gz_export_share_of_zlib", zlib / ours, "x", 0.8, "1: writing costs nothing beyond compression");
    free(k.bytes);
}

int main(int argc, char **argv)
{
    json = fopen(argc > 1 ? argv[1] : "/dev/null", "w");
    if (json == NULL) {
        perror(argv[1]);
        return 1;
    }
    fprintf(json, "{");
    printf("mtprof %s: exporting\n", mtp_version());
    uint64_t bytes;
    mtp_export_options options = MTP_EXPORT_OPTIONS_INIT;
    mtp_trace *trace = record(SPANS, 1, false);
    double took = export_seconds(trace, NULL, REPEATS, &bytes);
    report("chrome_export_events_per_s", SPANS / took, "1/s", 8e6, "plain spans, one core, to /dev/null");
    report("chrome_export_mb_per_s", (double)bytes / took / 1e6, "MB/s", 0, "the same, in bytes of JSON");
    report("chrome_export_bytes_per_event", (double)bytes / SPANS, "bytes", 0, "the same");
    options.without_args = true;
    took = export_seconds(trace, &options, REPEATS, &bytes);
    report("chrome_export_bare_events_per_s", SPANS / took, "1/s", 0, "plain spans without args");
    mtp_trace_destroy(trace);
    trace = record(SPANS * 10u, 1, false);
    double long_took = export_seconds(trace, NULL, 5, &bytes);
    report("chrome_export_long_events_per_s", SPANS * 10.0 / long_took, "1/s", 0,
           "ten times as many plain spans");
    mtp_trace_destroy(trace);
    trace = record(SPANS, 16, false);
    took = export_seconds(trace, NULL, REPEATS, &bytes);
    report("chrome_export_16_threads_events_per_s", SPANS / took, "1/s", 0,
           "plain spans of 16 threads, merged");
    mtp_trace_destroy(trace);
    trace = record(SPANS / 2, 1, true);
    took = export_seconds(trace, NULL, REPEATS, &bytes);
    report("chrome_export_full_events_per_s", SPANS / 2 / took, "1/s", 0, "ops with shapes and allocations");
    report("chrome_export_full_mb_per_s", (double)bytes / took / 1e6, "MB/s", 0,
           "the same, in bytes of JSON");
    bench_gz(trace);
    mtp_trace_destroy(trace);
    fprintf(json, "\n}\n");
    return fclose(json) != 0;
}
