#include "cli/mcp/tools.h"
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/plain.h"
#include "base/utf8.h"

#define TOKENS 2000 /* unless the call says otherwise */
#define TOKENS_MAX 100000
#define TOKEN_BYTES 4
#define MORE_BYTES 64    /* for the line that says what was left out */
#define TEXT_MAX 4096    /* of an argument */
#define WORKERS_DEPTH 18 /* folders in folders: twice what the reader follows, and more */

/* -------------------------------------------------------------------------------------------- the answer */

/* Whole lines, up to a limit. */
typedef struct answer {
    char *bytes; /* owned */
    size_t length, room, most;
    uint64_t left_out; /* lines */
    bool failed;       /* it says why */
} answer;

static bool append(answer *a, const char *bytes, size_t length)
{
    if (a->length + length + 1 > a->room) {
        size_t room = (a->length + length + 1) * 2;
        char *grown = realloc(a->bytes, room);
        if (grown == NULL)
            return false;
        a->bytes = grown;
        a->room = room;
    }
    memcpy(a->bytes + a->length, bytes, length);
    a->length += length;
    a->bytes[a->length] = 0;
    return true;
}

static bool answer_sink(void *user, const void *bytes, size_t length)
{
    return append(user, bytes, length);
}

/* Control characters become '?': names come from traces. */
static void line(answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line(answer *a, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int n = mtp__format_list(text, sizeof text - 1, fmt, args);
    va_end(args);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof text - 1 ? (size_t)n : sizeof text - 2;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
    text[length++] = '\n';
    if (a->left_out > 0 || a->length + length + MORE_BYTES > a->most || !append(a, text, length))
        a->left_out++;
}

static void say_wrong(answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say_wrong(answer *a, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int n = mtp__format_list(text, sizeof text, fmt, args);
    va_end(args);
    a->length = 0;
    a->failed = true;
    append(a, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static void finish(answer *a)
{
    char text[MORE_BYTES];
    if (a->left_out == 0)
        return;
    if (a->length == 0) {
        say_wrong(a, "the budget is too small for a single line: give at least 100 tokens");
        return;
    }
    int n = mtp__format(text, sizeof text, "(%llu more %s: raise budget)\n", (unsigned long long)a->left_out,
                        a->left_out == 1 ? "line" : "lines");
    append(a, text, (size_t)n);
}

static void judge(answer *a, mtp_status status)
{
    if (status != MTP_OK)
        say_wrong(a, "%s", *mtp_last_error() != 0 ? mtp_last_error() : mtp_status_text(status));
}

/* -------------------------------------------------------------------------------------------- the traces */

static char *const *folders;
static int folder_count;

/* The last traces that were read, newest first: a model asks several questions about one. */
#define KEPT 2
static struct kept {
    char *path; /* owned; NULL: none */
    struct stat file;
    mtp_trace *trace; /* owned */
} kept[KEPT];

bool mcp_allow(char *const *list, int count)
{
    folders = list;
    folder_count = count;
    for (int i = 0; i < count; i++) {
        struct stat s;
        if (stat(list[i], &s) != 0 || !S_ISDIR(s.st_mode)) {
            cli_fail(CLI_USAGE, "'%s' is not a folder", list[i]);
            return false;
        }
    }
    return true;
}

static void drop(struct kept *k)
{
    free(k->path);
    mtp_trace_destroy(k->trace);
    *k = (struct kept){0};
}

void mcp_tools_end(void)
{
    for (int i = 0; i < KEPT; i++)
        drop(&kept[i]);
}

/* Where a path leads; of one that does not exist, where its folder is. Owned; NULL: nowhere. */
static char *place_of(const char *path)
{
    char folder[TEXT_MAX], *whole = realpath(path, NULL);
    const char *slash = strrchr(path, '/');
    if (whole != NULL || errno != ENOENT)
        return whole;
    size_t length = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    if (length >= sizeof folder)
        return NULL;
    memcpy(folder, path, length);
    folder[length] = 0;
    return realpath(length > 0 ? folder : ".", NULL);
}

static bool is_allowed(const char *path)
{
    bool found = folder_count == 0;
    char *whole = found ? NULL : place_of(path);
    for (int i = 0; i < folder_count && !found && whole != NULL; i++) {
        char *folder = realpath(folders[i], NULL);
        size_t n = folder != NULL ? strlen(folder) : 0;
        found = n > 0 && strncmp(whole, folder, n) == 0 &&
                (whole[n] == '/' || whole[n] == 0 || folder[n - 1] == '/');
        free(folder);
    }
    free(whole);
    return found;
}

/* What is read with a recording or a folder: recordings in it, and those of workers, which may be links. */
static bool are_allowed(const char *folder, int depth)
{
    char path[TEXT_MAX + 256];
    DIR *dir = depth < WORKERS_DEPTH ? opendir(folder) : NULL;
    bool fine = true;
    for (const struct dirent *e; fine && dir != NULL && (e = readdir(dir)) != NULL;) {
        if (strstr(e->d_name, ".mtp") == NULL)
            continue;
        int n = mtp__format(path, sizeof path, "%s/%s", folder, e->d_name);
        fine = n > 0 && (size_t)n < sizeof path && is_allowed(path) && are_allowed(path, depth + 1);
    }
    if (dir != NULL)
        closedir(dir);
    return fine;
}

static bool is_allowed_whole(const char *path)
{
    char workers[TEXT_MAX + 16];
    struct stat s;
    if (folder_count == 0)
        return true;
    if (!is_allowed(path) || !are_allowed(path, 0))
        return false;
    mtp__format(workers, sizeof workers, "%s.workers", path);
    return stat(workers, &s) != 0 || (is_allowed(workers) && are_allowed(workers, 0));
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool is_complete(const mtp_trace *trace)
{
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    return mtp_trace_get_info(trace, &info) == MTP_OK && info.outcome != MTP_OUTCOME_LIVE;
}

/* Makes it the first of those that are kept. A folder, or a recording that still runs, may have changed at the next call. */
static const mtp_trace *keep(const char *path, const struct stat *file, mtp_trace *trace)
{
    drop(&kept[KEPT - 1]);
    memmove(&kept[1], &kept[0], sizeof *kept * (KEPT - 1));
    kept[0] = (struct kept){strdup(path), *file, trace};
    if (!S_ISREG(file->st_mode) || !is_complete(trace))
        kept[0].file.st_size = -1;
    return trace;
}

/* NULL: the answer says why. The trace is kept here. */
static const mtp_trace *open_trace(answer *a, const char *path)
{
    struct stat file;
    mtp_trace *trace = NULL;
    if (!is_allowed_whole(path)) { /* first: what exists elsewhere is not told, either */
        say_wrong(a, "%s: not in a folder that this server was started for", path);
        return NULL;
    }
    if (stat(path, &file) != 0) {
        say_wrong(a, "%s: %s", path, mtp__reason(errno));
        return NULL;
    }
    if (!S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode)) {
        say_wrong(a, "%s: not a file", path);
        return NULL;
    }
    for (int i = 0; i < KEPT; i++)
        if (kept[i].path != NULL && strcmp(kept[i].path, path) == 0 && is_same(&kept[i].file, &file))
            return kept[i].trace;
    mtp_status status = mtp_trace_open(path, NULL, &trace);
    judge(a, status);
    return status == MTP_OK ? keep(path, &file, trace) : NULL;
}

/* -------------------------------------------------------------------------------------------- arguments */

typedef struct call {
    const json *j;
    int arguments;
    uint64_t budget;
    char trace[TEXT_MAX], text[TEXT_MAX]; /* text: a second one */
} call;

/* JSON_NONE: it is not there, or null, as some clients put what is optional. */
static int argument(const call *c, const char *key)
{
    int value = json_member(c->j, c->arguments, key);
    return value != JSON_NONE && c->j->value[value].kind == 'n' ? JSON_NONE : value;
}

/* A text among the arguments. false: it is missing or no text; the answer says so, unless it is optional. */
static bool get_text(const call *c, answer *a, const char *key, bool optional, char to[TEXT_MAX])
{
    int value = argument(c, key);
    if (json_text(c->j, value, to, TEXT_MAX) && to[0] != 0)
        return true;
    if (value != JSON_NONE || !optional)
        say_wrong(a, "the argument '%s' is %s", key,
                  value == JSON_NONE               ? "missing"
                  : c->j->value[value].kind == '"' ? "empty, too long or odd"
                                                   : "not a text");
    return false;
}

/* false: it is neither true nor false; the answer says so. */
static bool get_flag(const call *c, answer *a, const char *key, bool *to)
{
    int value = argument(c, key);
    char kind = value != JSON_NONE ? c->j->value[value].kind : 'f';
    *to = kind == 't';
    if (kind != 't' && kind != 'f')
        say_wrong(a, "the argument '%s' is not true or false", key);
    return kind == 't' || kind == 'f';
}

/* What follows in a schema after the name of an argument: {"type":...}. */
#define ARGUMENT_TYPE "\":{\"type\""

/* Is every argument one of the tool's? Else the answer tells which there are: models make some up. */
static bool knows_all(const call *c, answer *a, const char *tool, const char *properties)
{
    char all[128] = "", key[32], quoted[64];
    for (const char *p = properties; (p = strstr(p, ARGUMENT_TYPE)) != NULL; p++) {
        const char *from = p;
        while (from[-1] != '"')
            from--;
        mtp__format(all + strlen(all), sizeof all - strlen(all), "%s%.*s", all[0] != 0 ? ", " : "",
                    (int)(p - from), from);
    }
    for (int i = c->arguments + 1; c->arguments != JSON_NONE && i < c->j->value[c->arguments].next;
         i = c->j->value[i + 1].next) {
        bool fits = json_text(c->j, i, key, sizeof key);
        mtp__format(quoted, sizeof quoted, "\"%s" ARGUMENT_TYPE, fits ? key : "");
        if (fits && strchr(key, '"') == NULL && strstr(properties, quoted) != NULL)
            continue;
        say_wrong(a, "there is no argument '%s'; %s has %s", fits ? key : "...", tool, all);
        return false;
    }
    return true;
}

static bool get_budget(call *c, answer *a)
{
    int value = argument(c, "budget");
    int64_t tokens = TOKENS;
    if (value != JSON_NONE && (!json_whole(c->j, value, &tokens) || tokens < 1 || tokens > TOKENS_MAX)) {
        say_wrong(a, "the argument 'budget' must be a number from 1 to %d", TOKENS_MAX);
        return false;
    }
    c->budget = (uint64_t)tokens;
    a->most = (size_t)tokens * TOKEN_BYTES;
    return true;
}

/* -------------------------------------------------------------------------------------------------- tools */

static mtp_words_options words_of(const call *c)
{
    mtp_words_options o = MTP_WORDS_OPTIONS_INIT;
    o.width = 0;
    o.budget = c->budget;
    return o;
}

static void compare(call *c, answer *a, const char *second)
{
    mtp_diff *diff = NULL;
    mtp_words_options o = words_of(c);
    const mtp_trace *before = open_trace(a, c->trace), *after = before != NULL ? open_trace(a, second) : NULL;
    if (after == NULL)
        return;
    mtp_status status = mtp_diff_create(before, after, NULL, &diff);
    if (status == MTP_OK)
        status = mtp_diff_text(diff, &o, answer_sink, a);
    judge(a, status);
    mtp_diff_destroy(diff);
}

static void tool_explain(call *c, answer *a)
{
    const mtp_trace *trace = open_trace(a, c->trace);
    mtp_findings *findings = NULL;
    mtp_words_options o = words_of(c);
    if (trace == NULL)
        return;
    mtp_status status = mtp_findings_create(trace, NULL, &findings);
    if (status == MTP_OK)
        status = mtp_findings_text(findings, &o, answer_sink, a);
    judge(a, status);
    mtp_findings_destroy(findings);
}

static void tool_show(call *c, answer *a)
{
    mtp_findings *findings = NULL;
    const mtp_finding_row *row;
    mtp_words_options o = words_of(c);
    const mtp_trace *trace = get_text(c, a, "id", false, c->text) ? open_trace(a, c->trace) : NULL;
    if (trace == NULL)
        return;
    mtp_status status = mtp_findings_create(trace, NULL, &findings);
    for (size_t i = 0; o.only == NULL && (row = mtp_findings_row(findings, i)) != NULL; i++)
        o.only = strcmp(row->id.bytes, c->text) == 0 ? c->text : NULL;
    if (status == MTP_OK)
        status = o.only != NULL ? mtp_findings_text(findings, &o, answer_sink, a)
                                : mtp_trace_show(trace, c->text, &o, answer_sink, a);
    judge(a, status);
    mtp_findings_destroy(findings);
}

static void tool_diff(call *c, answer *a)
{
    if (get_text(c, a, "after", false, c->text))
        compare(c, a, c->text);
}

static void tool_stats(call *c, answer *a)
{
    mtp_averages *rows = NULL;
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    const mtp_trace *trace =
        get_flag(c, a, "by_shape", &options.by_input_shape) ? open_trace(a, c->trace) : NULL;
    if (trace == NULL)
        return;
    bool sorted = get_text(c, a, "sort", true, c->text);
    mtp_status status = a->failed ? MTP_OK : mtp_averages_create(trace, &options, &rows);
    if (status == MTP_OK && rows != NULL)
        status = mtp_averages_sort(rows, sorted ? c->text : "self_cpu_time_total");
    judge(a, status);
    if (status == MTP_OK && rows != NULL)
        line(a, "name%s | where | calls | self us | total us | device us | p50 us | p99 us | max us",
             options.by_input_shape ? " and input shapes" : "");
    for (size_t i = 0; status == MTP_OK && i < mtp_averages_count(rows); i++) {
        const mtp_row *r = mtp_averages_row(rows, i);
        line(a, "%.200s%s%.300s | %s | %llu | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f", r->key,
             r->input_shapes[0] != 0 ? " " : "", r->input_shapes, r->is_device ? "device" : "cpu",
             (unsigned long long)r->count, r->is_device ? r->self_device_time_total : r->self_cpu_time_total,
             r->is_device ? r->device_time_total : r->cpu_time_total, r->device_time_total, r->p50, r->p99,
             r->max);
    }
    mtp_averages_destroy(rows);
}

static void step_line(answer *a, const char *name, const mtp_step_times *t)
{
    line(a, "%s | %.1f | %.1f | %.1f | %.1f", name, (double)t->wall_ns / 1e3, (double)t->cpu_ns / 1e3,
         (double)t->device_ns / 1e3, (double)t->idle_ns / 1e3);
}

static void gap_lines(answer *a, const mtp_steps *steps, bool of_device)
{
    const mtp_step_gap *g;
    for (size_t i = 0; i < 5 && (g = mtp_steps_gap(steps, of_device, i)) != NULL; i++)
        line(a, "%s idle %.1f us in step %lld after %.100s before %.100s%s%.100s",
             of_device ? "device" : "all", (double)(g->end_ns - g->start_ns) / 1e3, (long long)g->step,
             g->after.bytes, g->before.bytes, g->inside.length > 0 ? " in " : "", g->inside.bytes);
}

static void tool_steps(call *c, answer *a)
{
    mtp_steps *steps = NULL;
    const mtp_trace *trace = open_trace(a, c->trace);
    if (trace == NULL)
        return;
    mtp_status status = mtp_steps_create(trace, &steps);
    judge(a, status);
    if (status != MTP_OK)
        return;
    line(a, "%zu steps%s. step | time us | cpu us | device us | idle us", mtp_steps_count(steps),
         mtp_steps_is_whole_trace(steps) ? " (the trace has none: all of it)" : "");
    step_line(a, "median", mtp_steps_summary(steps, MTP_STEP_P50));
    step_line(a, "mean", mtp_steps_summary(steps, MTP_STEP_MEAN));
    step_line(a, "max", mtp_steps_summary(steps, MTP_STEP_MAX));
    gap_lines(a, steps, false);
    gap_lines(a, steps, true);
    const mtp_step_row *r;
    for (size_t i = 0; (r = mtp_steps_row(steps, i)) != NULL; i++) {
        char name[48];
        mtp__format(name, sizeof name, "step %lld%s", (long long)r->number,
                    r->is_outlier ? " (unusual)" : "");
        step_line(a, name, &r->times);
    }
    mtp_steps_destroy(steps);
}

static void tool_memory(call *c, answer *a)
{
    mtp_memory_timeline *timeline = NULL;
    mtp_memory_info info = MTP_MEMORY_INFO_INIT;
    const mtp_trace *trace = open_trace(a, c->trace);
    bool named = trace != NULL && get_text(c, a, "device", true, c->text);
    if (trace == NULL || a->failed)
        return;
    mtp_status status = mtp_memory_timeline_create(trace, named ? c->text : NULL, &timeline);
    if (status == MTP_OK)
        status = mtp_memory_timeline_info(timeline, &info);
    judge(a, status);
    if (status == MTP_OK && info.allocations + info.frees == 0 && info.preexisting_bytes == 0)
        say_wrong(a, "the trace has no memory events%s; record it with profile_memory",
                  named ? " of that device" : "");
    if (!a->failed) {
        line(a,
             "%s: peak %lld bytes in %llu blocks; %llu allocations, %llu frees; %lld bytes in use at the end",
             info.device, (long long)info.peak_bytes, (unsigned long long)info.peak_blocks,
             (unsigned long long)info.allocations, (unsigned long long)info.frees, (long long)info.end_bytes);
        for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
            if (info.peak_by_category[k] > 0)
                line(a, "at the peak %s: %lld bytes", mtp_memory_category_text((mtp_memory_category)k),
                     (long long)info.peak_by_category[k]);
        const mtp_memory_block *b;
        for (size_t i = 0; (b = mtp_memory_timeline_block(timeline, i)) != NULL; i++)
            line(a, "alive at the peak: %lld bytes, %s, by %.100s%s%.200s", (long long)b->bytes,
                 mtp_memory_category_text(b->category), b->maker.bytes, b->source.length > 0 ? " at " : "",
                 b->source.bytes);
    }
    mtp_memory_timeline_destroy(timeline);
}

/* ------------------------------------------------------------------------------------------------- the list */

#define TRACE_INPUT(what)                                                                                    \
    "\"trace\":{\"type\":\"string\",\"description\":\"path of " what                                         \
    ": mtprof spool (.mtp) or PyTorch/Kineto/Chrome JSON (.json, .json.gz, .json.zst)\"}"
#define BUDGET_INPUT                                                                                         \
    "\"budget\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100000,\"description\":\"the most tokens "   \
    "to answer "                                                                                             \
    "with, four bytes each; default 2000\"}"

static const struct {
    const char *name, *description, *properties, *required;
    void (*run)(call *c, answer *a);
} tools[] = {
    {"explain",
     "What stands out in a profile, ranked by the time that could be saved: idle devices and why, "
     "synchronisation, data "
     "loading, slow steps, casts, leaks, losses; each with numbers, evidence and the next step. Start here. "
     "The words in "
     "brackets are ids for 'show'.",
     TRACE_INPUT("the trace") "," BUDGET_INPUT, "[\"trace\"]", tool_explain},
    {"show",
     "All evidence of one finding (its id), everything about one span ('span 12'), or all calls of one name "
     "('aten::mm').",
     TRACE_INPUT("the trace") ",\"id\":{\"type\":\"string\",\"description\":\"id of a finding, 'span N', or "
                              "a name\"}," BUDGET_INPUT,
     "[\"trace\",\"id\"]", tool_show},
    {"stats",
     "Operators and kernels: calls, own and total time, median, p99 and maximum. One line each, largest "
     "first.",
     TRACE_INPUT(
         "the trace") ",\"sort\":{\"type\":\"string\",\"description\":\"self_cpu_time_total (default), "
                      "cpu_time_total, self_device_time_total, device_time_total, count, "
                      "cpu_time\"},\"by_shape\":{\"type\":\"boolean\","
                      "\"description\":\"a line per input shapes\"}," BUDGET_INPUT,
     "[\"trace\"]", tool_stats},
    {"steps", "Time of each training step: CPU, device, idle; and the longest gaps in which nothing ran.",
     TRACE_INPUT("the trace") "," BUDGET_INPUT, "[\"trace\"]", tool_steps},
    {"memory",
     "The peak of memory by category, and the largest blocks alive then, with the op and line that made "
     "them.",
     TRACE_INPUT(
         "the trace, recorded with profile_memory") ",\"device\":{\"type\":\"string\",\"description\":\"cpu, "
                                                    "cuda:0, npu:0; default: the one with the most "
                                                    "traffic\"}," BUDGET_INPUT,
     "[\"trace\"]", tool_memory},
    {"diff", "What changed between two profiles, beyond noise: steps and operators.",
     TRACE_INPUT("the trace before") ",\"after\":{\"type\":\"string\",\"description\":\"path of the trace "
                                     "after\"}," BUDGET_INPUT,
     "[\"trace\",\"after\"]", tool_diff},
};

void mcp_tools_list(FILE *to)
{
    fputc('[', to);
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        fprintf(to, "%s{\"name\":\"%s\",\"description\":", i > 0 ? "," : "", tools[i].name);
        json_put(to, tools[i].description, strlen(tools[i].description));
        fprintf(to,
                ",\"inputSchema\":{\"type\":\"object\",\"properties\":{%s},\"required\":%s,"
                "\"additionalProperties\":false},"
                "\"annotations\":{\"readOnlyHint\":true,\"openWorldHint\":false}}",
                tools[i].properties, tools[i].required);
    }
    fputc(']', to);
}

bool mcp_tools_call(const json *j, int name, int arguments, char **text, size_t *length, bool *failed)
{
    static call c; /* large; one call at a time */
    answer a = {0};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (!json_is(j, name, tools[i].name))
            continue;
        c = (call){.j = j, .arguments = arguments};
        if (knows_all(&c, &a, tools[i].name, tools[i].properties) && get_budget(&c, &a) &&
            get_text(&c, &a, "trace", false, c.trace))
            tools[i].run(&c, &a);
        if (!a.failed)
            finish(&a);
        *text = a.bytes;
        *length = a.length;
        *failed = a.failed;
        return true;
    }
    return false;
}
