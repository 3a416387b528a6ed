/* cli/info.c - mtprof info: what a trace contains; without one, what this build and machine can do. */
#include "cli/cli.h"
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

static void about_trace(const char *path, const mtp_trace_info *i)
{
    char text[32], when[64] = "unknown";
    int64_t start_ns;
    bool known = i->base_ns > 0 && !__builtin_add_overflow(i->base_ns, i->first_ns, &start_ns);
    time_t start = known ? (time_t)(start_ns / 1000000000) : 0;
    struct tm tm;
    if (known && localtime_r(&start, &tm) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &tm);
    printf("%s%s%s\n", cli_bold(stdout), path, cli_plain(stdout));
    printf("  format            %s\n", mtp_format_text(i->format));
    if (i->without_times)
        printf("  recorded          %s; it has no times, only the order of ops\n", when);
    else
        printf("  recorded          %s, over %s\n", when,
               duration((double)i->last_ns - (double)i->first_ns, text));
    if (i->pid != 0)
        printf("  process           %llu\n", (unsigned long long)i->pid);
    static const char *const states[] = {
        [MTP_OUTCOME_STOPPED] = "stopped",
        [MTP_OUTCOME_RECOVERED] = "recovered: the process ended without stopping the recording",
        [MTP_OUTCOME_LIVE] = "still being recorded by that process: only the part so far is shown",
        [MTP_OUTCOME_NOT_STOPPED] = "not stopped; whether that process is still recording is unknown"};
    if (i->format == MTP_FORMAT_RECORDING)
        printf("  state             %s\n", states[i->outcome]);
    printf("  spans             %llu on %llu tracks (%llu on devices)\n", (unsigned long long)i->spans,
           (unsigned long long)i->tracks, (unsigned long long)i->device_spans);
    printf("  memory events     %llu\n", (unsigned long long)i->memory_events);
    printf("  other             %llu instants, %llu flows, %llu steps\n", (unsigned long long)i->instants,
           (unsigned long long)i->flows, (unsigned long long)i->steps);
    printf("  in memory         %.1f MB\n", (double)i->model_bytes / 1e6);
    about_losses(i);
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
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    int code = cli_file_info(argv[optind], &info);
    if (code == CLI_OK)
        about_trace(argv[optind], &info);
    return code;
}
