/* cli/info.c - mtprof info: what a trace contains; without one, what this build and machine can do. */
#include "cli/cli.h"
#include <string.h>
#include <time.h>

static const char help[] =
    "usage: mtprof info [TRACE]\n\n"
    "Shows what a trace contains, where it came from, and what is missing from it. Without a trace: what\n"
    "this build and this machine can do.\n\n" CLI_COMMON_HELP;

static int about_machine(void)
{
    printf("mtprof %s\n", mtp_version());
    printf("  native stacks     %s%s\n", mtp_stack_provider_name(),
           mtp_stack_provider_name()[0] == 'g' ? " (libunwind8 would be faster)" : "");
    printf("  clock             %s\n", mtp_clock_name());
    printf("  traces read       " MTP_READABLE "\n");
#define X(writer, suffix, what) suffix " "
    printf("  traces written    " MTP_EXPORT_LIST(X) "and .gz\n");
#undef X
    cli_about_devices();
    return CLI_OK;
}

static const char *duration(double t, char text[32])
{
    if (t >= 1e9)
        snprintf(text, 32, "%.3f s", t / 1e9);
    else if (t >= 1e6)
        snprintf(text, 32, "%.3f ms", t / 1e6);
    else
        snprintf(text, 32, "%.3f us", t / 1e3);
    return text;
}

static void about_losses(const mtp_trace_info *i)
{
    const mtp_ledger *l = &i->ledger;
    if (i->has_ledger)
        printf("  ledger            %llu records emitted, %llu kept, %llu dropped%s\n",
               (unsigned long long)l->emitted, (unsigned long long)l->kept, (unsigned long long)l->dropped,
               l->emitted == l->kept + l->dropped ? "" : "  (does not balance: the recording is truncated)");
    else if (i->format == MTP_FORMAT_RECORDING)
        printf("  ledger            none: %s\n", i->missing_chunks > 0
                                                     ? "it was in the missing part"
                                                     : "it is written when the profile is stopped");
    for (int k = 0; k < MTP_DROP_CAUSES && i->has_ledger; k++)
        if (l->dropped_by[k] > 0)
            printf("    dropped         %llu: %s\n", (unsigned long long)l->dropped_by[k],
                   mtp_drop_text((mtp_drop)k));
    if (i->has_ledger && l->lost_definitions > 0)
        printf("    definitions     %llu names, shapes or stacks could not be kept: shown as \"?\"\n",
               (unsigned long long)l->lost_definitions);
    if (i->unfinished > 0)
        printf("  unfinished        %llu spans had no end\n", (unsigned long long)i->unfinished);
    if (i->unmatched_ends > 0)
        printf("  unmatched         %llu ends had no begin\n", (unsigned long long)i->unmatched_ends);
    if (i->clock_faults > 0)
        printf("  clock             went backwards or contradicted itself, %llu times\n",
               (unsigned long long)i->clock_faults);
    if (i->clock_uncertain)
        printf("  clock             the system clock stopped or jumped: times may be off by a percent\n");
    if (i->bad_durations > 0)
        printf("  durations         %llu %s not a number, or negative: taken as 0\n",
               (unsigned long long)i->bad_durations, i->bad_durations == 1 ? "was" : "were");
    if (i->skipped_events > 0)
        printf("  skipped           %llu event%s without a time, or of unknown kind\n",
               (unsigned long long)i->skipped_events, i->skipped_events == 1 ? "" : "s");
    if (i->damaged_chunks > 0)
        printf("  damaged           %llu of %llu chunks could not be read completely\n",
               (unsigned long long)i->damaged_chunks, (unsigned long long)i->chunks);
    if (i->damaged_header)
        printf("  header            damaged; its copy was used\n");
    if (i->missing_chunks > 0)
        printf("  truncated         %llu chunks are missing at the end\n",
               (unsigned long long)i->missing_chunks);
}

static void about_one(const mtp_recording_info *r)
{
    const mtp_trace_info *i = &r->info;
    if (r->problem[0] != 0) {
        printf("  %s\n    not read        %s\n", r->file, r->problem);
        return;
    }
    printf("  process %-9llu %s%s", (unsigned long long)r->pid, r->command, *r->command != 0 ? "; " : "");
    if (r->parent != 0)
        printf("child of %llu; ", (unsigned long long)r->parent);
    printf("%s\n", mtp_outcome_text(i->outcome));
    printf("    file            %s\n", r->file);
    printf("    events          %llu spans on %llu tracks (%llu on devices), %llu memory events, %llu "
           "instants\n",
           (unsigned long long)i->spans, (unsigned long long)i->tracks, (unsigned long long)i->device_spans,
           (unsigned long long)i->memory_events, (unsigned long long)i->instants);
    if (i->has_ledger)
        printf("    ledger          %llu records emitted, %llu kept, %llu dropped\n",
               (unsigned long long)i->ledger.emitted, (unsigned long long)i->ledger.kept,
               (unsigned long long)i->ledger.dropped);
    if (i->damaged_chunks + i->missing_chunks > 0)
        printf("    damaged         %llu of %llu chunks, and %llu are missing\n",
               (unsigned long long)i->damaged_chunks, (unsigned long long)i->chunks,
               (unsigned long long)i->missing_chunks);
    if (r->by_wall_clock)
        printf("    clock           of another boot or machine: placed by the time of day\n");
}

static void about_recordings(const mtp_trace *trace)
{
    size_t count = mtp_trace_recording_count(trace);
    for (size_t i = 0; i < count && count > 1; i++) {
        mtp_recording_info r = MTP_RECORDING_INFO_INIT;
        if (mtp_trace_recording(trace, i, &r) == MTP_OK)
            about_one(&r);
    }
}

/* The worst of several, and whose it is. */
static void about_states(const mtp_trace *trace, mtp_outcome worst)
{
    char first[256] = "";
    size_t all = mtp_trace_recording_count(trace), count = 0;
    for (size_t i = 0; i < all; i++) {
        mtp_recording_info r = MTP_RECORDING_INFO_INIT;
        if (mtp_trace_recording(trace, i, &r) != MTP_OK || r.problem[0] != 0 || r.info.outcome != worst)
            continue;
        if (count++ == 0)
            snprintf(first, sizeof first, "%s", r.file);
    }
    if (worst == MTP_OUTCOME_STOPPED)
        printf("  state             stopped\n");
    else
        printf("  state             %s: %zu of %zu recordings%s%s\n", mtp_outcome_text(worst), count, all,
               count == 1 ? ": " : ", the first is ", first);
}

static void about_trace(const char *path, const mtp_trace *trace, const mtp_trace_info *i)
{
    mtp_recording_info first = MTP_RECORDING_INFO_INIT;
    size_t recordings = mtp_trace_recording_count(trace);
    const bool several = recordings > 1;
    for (size_t k = 0; k < recordings; k++)
        if (mtp_trace_recording(trace, k, &first) == MTP_OK && first.problem[0] == 0)
            break;
    const char *command = first.command;

    char text[32], when[64] = "unknown";
    int64_t start_ns;
    bool known = i->base_ns > 0 && !__builtin_add_overflow(i->base_ns, i->first_ns, &start_ns);
    time_t start = known ? (time_t)(start_ns / 1000000000) : 0;
    struct tm tm;
    if (known && localtime_r(&start, &tm) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &tm);
    printf("%s%s%s\n", cli_bold(stdout), path, cli_plain(stdout));
    printf("  format            %s%s\n", mtp_format_text(i->format), several ? "s" : "");
    if (several)
        printf("  recordings        %zu\n", recordings);
    if (i->without_times)
        printf("  recorded          %s; it has no times, only the order of ops\n", when);
    else
        printf("  recorded          %s, over %s\n", when,
               duration((double)i->last_ns - (double)i->first_ns, text));
    if (i->pid != 0)
        printf("  %s           %llu%s%s%s\n", several ? "main   " : "process", (unsigned long long)i->pid,
               *command != 0 ? " (" : "", command, *command != 0 ? ")" : "");
    static const char *const states[] = {
        [MTP_OUTCOME_STOPPED] = "stopped",
        [MTP_OUTCOME_RECOVERED] = "recovered: the process ended without stopping the recording",
        [MTP_OUTCOME_LIVE] = "still being recorded by that process: only the part so far is shown",
        [MTP_OUTCOME_NOT_STOPPED] = "not stopped; whether that process is still recording is unknown"};
    if (several)
        about_states(trace, i->outcome);
    else if (i->format == MTP_FORMAT_RECORDING)
        printf("  state             %s\n", states[i->outcome]);
    printf("  spans             %llu on %llu tracks (%llu on devices)\n", (unsigned long long)i->spans,
           (unsigned long long)i->tracks, (unsigned long long)i->device_spans);
    printf("  memory events     %llu\n", (unsigned long long)i->memory_events);
    printf("  other             %llu instants, %llu flows, %llu steps\n", (unsigned long long)i->instants,
           (unsigned long long)i->flows, (unsigned long long)i->steps);
    printf("  in memory         %.1f MB\n", (double)i->model_bytes / 1e6);
    about_losses(i);
}

typedef struct job {
    size_t ranks;
    const char *path;
} job;

static bool about_rank(void *user, const mtp_rank_row *row)
{
    job *j = user;
    char offset[24], error[24] = "unknown";
    if (j->ranks++ == 0) {
        printf("%s%s%s\n  format            ranks of a job, each with its file (--rank N shows one)\n",
               cli_bold(stdout), j->path, cli_plain(stdout));
        printf("%s  %6s  %-16s %14s %10s %12s  %-20s %10s  %s%s\n", cli_bold(stdout), "rank", "host", "clock",
               "drift", "error", "tied by", "size", "file", cli_plain(stdout));
    }
    if (row->clock_error_ns >= 0)
        cli_time((double)row->clock_error_ns / 1e3, error);
    snprintf(offset, sizeof offset, "%+.3fms", (double)row->clock_offset_ns / 1e6);
    printf("  %6lld  ", (long long)row->rank);
    printf("%*s", cli_print_name(row->host, strlen(row->host), 16), "");
    printf(" %14s %+6.2f ppm %12s  %-20s %7.1f MB  ", offset, row->clock_drift * 1e6, error,
           mtp_clock_by_text(row->clock_by), (double)row->bytes / 1e6);
    cli_print_name(row->file, strlen(row->file), 60);
    printf("%s%s\n", *row->problem != 0 ? ": " : "", row->problem);
    return true;
}

/* A file of several ranks; false: it is something else. */
static bool about_job(const char *path)
{
    job j = {.path = path};
    return !cli_has_chosen_rank() && strcmp(path, "-") != 0 && cli_ends(path, ".mtp") &&
           mtp_job_ranks(path, about_rank, &j) == MTP_OK;
}

static bool list_rank(void *user, int64_t number)
{
    size_t *count = user;
    printf("%s%lld", (*count)++ == 0 ? "  ranks             " : ", ", (long long)number);
    return true;
}

/* Those of a job that mtprof run recorded as one program. */
static void about_ranks(const char *path)
{
    size_t count = 0;
    if (!cli_has_chosen_rank() && strcmp(path, "-") != 0)
        mtp_recording_ranks(path, list_rank, &count);
    if (count > 0)
        puts(" (--rank N shows one, 'mtprof ranks' compares them)");
}

int cli_info(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        return c == 'h' ? cli_help(help) : cli_usage_error();
    if (argc - optind == 0)
        return about_machine();
    if (argc - optind != 1)
        return cli_fail(CLI_USAGE, "expected one trace: 'mtprof info TRACE'");
    if (about_job(argv[optind]))
        return CLI_OK;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    int code = CLI_OK;
    mtp_trace *trace = cli_open_counted(argv[optind], &code);
    if (trace == NULL)
        return code;
    mtp_trace_get_info(trace, &info);
    about_trace(argv[optind], trace, &info);
    about_ranks(argv[optind]);
    about_recordings(trace);
    mtp_trace_destroy(trace);
    return CLI_OK;
}
