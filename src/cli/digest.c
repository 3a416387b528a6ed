/* cli/digest.c - mtprof digest: summaries of steps that add up over ranks and jobs. */
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: mtprof digest [options] TRACE|DIGEST...\n\n"
    "A digest keeps of each step of each rank what every op took, in at most 4 KB: calls, sums, and the\n"
    "shape of the distribution. Digests of many ranks, hosts and jobs add up, exactly but for quantiles:\n"
    "keep one for every step, and fetch traces only of the odd ones. Without -o or --json, it prints the\n"
    "steps that took far longer than most of their job, and why; how ranks differ; and all ops.\n\n"
    "  -o, --output FILE      write a digest (.digest); with --json, the JSON\n"
    "      --by WHAT          sum what has the same rank, step, job, host; several with commas; or all\n"
    "      --job, --host NAME, --as-rank N\n"
    "                         of traces that do not say it, or say it wrong\n"
    "      --json             all entries with their ops; times in microseconds\n"
    "  -l, --limit N          only so many rows or ops; -1: all. Default: 20, with --json "
    "all\n" CLI_COMMON_HELP "\n"
    "  mtprof digest run.mtp -o run.digest\n"
    "  cat */run.digest > job.digest && mtprof digest job.digest\n"
    "  mtprof digest --by rank job.digest\n";

typedef struct request {
    mtp_digest_options of;
    const char *output;
    bool json;
    int64_t limit; /* INT64_MIN: not given */
    uint32_t by;
} request;

static bool is_digest(const char *path)
{
    char head[8] = "";
    struct stat st;
    FILE *file = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    if (file == NULL)
        return false;
    size_t got = fread(head, 1, sizeof head, file);
    fclose(file);
    bool packed = cli_ends(path, ".digest.gz") || cli_ends(path, ".digest.zst");
    return packed || (got == sizeof head && memcmp(head, "MTPDIG1\n", sizeof head) == 0);
}

typedef struct digests {
    mtp_digest **list; /* owned, each */
    size_t count, room;
} digests;

static int add(digests *d, mtp_digest *one)
{
    if (d->count == d->room) {
        size_t room = d->room == 0 ? 16 : 2 * d->room;
        mtp_digest **more = realloc(d->list, room * sizeof(mtp_digest *));
        if (more == NULL) {
            mtp_digest_destroy(one);
            return cli_fail(CLI_MEMORY, "out of memory");
        }
        d->list = more;
        d->room = room;
    }
    d->list[d->count++] = one;
    return CLI_OK;
}

static int add_digest(digests *d, const char *path)
{
    mtp_digest *one = NULL;
    mtp_status status = mtp_digest_read(path, &one);
    if (status == MTP_OK && mtp_digest_damaged(one) > 0)
        cli_warn("%s is damaged or cut off: what could be read is shown", path);
    return status == MTP_OK ? add(d, one) : cli_fail_status(status);
}

static int add_trace(digests *d, const char *path, const request *r)
{
    int code = CLI_OK;
    mtp_digest *one = NULL;
    mtp_trace *trace = cli_open(path, &code);
    if (trace == NULL)
        return code;
    mtp_status status = mtp_digest_create(trace, &r->of, &one);
    mtp_trace_destroy(trace);
    if (status != MTP_OK)
        return cli_fail(status == MTP_E_NOMEM ? CLI_MEMORY : CLI_INPUT, "%s: %s", path, mtp_last_error());
    return add(d, one);
}

/* Of a file of several ranks, all. */
static int add_path(digests *d, const char *path, const request *r)
{
    if (is_digest(path))
        return add_digest(d, path);
    size_t ranks = 0;
    int code = CLI_OK;
    int64_t *rank = r->of.rank < 0 ? cli_ranks_of(path, &ranks) : NULL;
    for (size_t k = 0; k < ranks || k == 0; k++) {
        if (ranks > 0)
            cli_use_rank(rank[k]);
        int failed = add_trace(d, path, r);
        code = code != CLI_OK ? code : failed;
    }
    if (ranks > 0)
        cli_use_rank(-1);
    free(rank);
    return code;
}

static bool parse_by(const char *text, uint32_t *by)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } names[] = {{"job", MTP_DIGEST_BY_JOB},
                 {"rank", MTP_DIGEST_BY_RANK},
                 {"step", MTP_DIGEST_BY_STEP},
                 {"host", MTP_DIGEST_BY_HOST},
                 {"all", 0}};
    *by = 0;
    for (const char *p = text;;) {
        size_t length = strcspn(p, ","), k = 0, count = sizeof names / sizeof *names;
        while (k < count && (strlen(names[k].name) != length || strncmp(p, names[k].name, length) != 0))
            k++;
        if (k == count)
            return false;
        *by |= names[k].bit;
        if (p[length] == 0)
            return true;
        p += length + 1;
    }
}

static int write_out(const mtp_digest *d, const request *r)
{
    cli_out out;
    int code = cli_create(&out, r->output);
    if (code != CLI_OK)
        return code;
    if (r->json)
        return cli_close(&out, mtp_digest_json(d, r->limit == INT64_MIN ? -1 : r->limit, out.sink, out.user));
    if (r->output == NULL)
        return cli_close(&out, mtp_digest_text(d, r->limit == INT64_MIN ? 20 : r->limit, out.sink, out.user));
    /* What was summed is no longer of one step. */
    code =
        cli_close(&out, mtp_digest_write(d, r->by == MTP_DIGEST_BY_ALL ? 0 : UINT64_MAX, out.sink, out.user));
    struct stat st;
    if (code == CLI_OK && stat(r->output, &st) == 0 && S_ISREG(st.st_mode))
        printf("wrote %s (%zu entries, %.1f KB)\n", r->output, mtp_digest_count(d), (double)st.st_size / 1e3);
    return code;
}

/* A file that cannot be read is told of, and the others are summed. */
static int run(char **paths, size_t count, const request *r)
{
    int failed = CLI_OK;
    mtp_digest *sum = NULL;
    digests all = {NULL, 0, 0};
    for (size_t i = 0; i < count; i++) {
        int code = add_path(&all, paths[i], r);
        failed = failed != CLI_OK ? failed : code;
    }
    if (all.count > 0) {
        mtp_status status = mtp_digest_sum((const mtp_digest *const *)all.list, all.count, r->by, &sum);
        int code = status != MTP_OK ? cli_fail_status(status) : write_out(sum, r);
        failed = failed != CLI_OK ? failed : code;
    }
    for (size_t i = 0; i < all.count; i++)
        mtp_digest_destroy(all.list[i]);
    mtp_digest_destroy(sum);
    free(all.list);
    return failed;
}

enum {
    BY = 256,
    JOB,
    HOST,
    RANK,
    JSON
};
static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                                        {"by", required_argument, NULL, BY},
                                        {"job", required_argument, NULL, JOB},
                                        {"host", required_argument, NULL, HOST},
                                        {"as-rank", required_argument, NULL, RANK},
                                        {"json", no_argument, NULL, JSON},
                                        {"limit", required_argument, NULL, 'l'},
                                        {"help", no_argument, NULL, 'h'},
                                        {0, 0, NULL, 0}};

int cli_digest(int argc, char **argv)
{
    request r = {.of = MTP_DIGEST_OPTIONS_INIT, .limit = INT64_MIN, .by = MTP_DIGEST_BY_ALL};
    for (int c; (c = getopt_long(argc, argv, "o:l:h", options, NULL)) != -1;) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'o')
            r.output = optarg;
        else if (c == JSON)
            r.json = true;
        else if (c == JOB)
            r.of.job = optarg;
        else if (c == HOST)
            r.of.host = optarg;
        else if (c == RANK &&
                 (!cli_parse_count(optarg, &r.of.rank) || r.of.rank < 0 || r.of.rank == INT64_MAX))
            return cli_fail(CLI_USAGE, "'%s' is not a rank: 0, 1, ...", optarg);
        else if (c == BY && !parse_by(optarg, &r.by))
            return cli_fail(CLI_USAGE, "'%s' must be rank, step, job, host (several with commas), or all",
                            optarg);
        else if (c == 'l' && !cli_parse_count(optarg, &r.limit))
            return cli_fail(CLI_USAGE, "'%s' is not a number of rows", optarg);
        else if (c == '?' || c == ':')
            return cli_usage_error();
    }
    if (argc - optind < 1)
        return cli_fail(CLI_USAGE, "expected traces or digests: 'mtprof digest TRACE...'");
    return run(argv + optind, (size_t)(argc - optind), &r);
}
