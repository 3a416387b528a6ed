/* cli/top/view.c - what is shown of a live recording: the head, and below it the rows or the threads. See top.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/top/top.h"

#define STACK_SHOWN 12          /* scopes of a thread */
#define DISK_LEAST (128u << 10) /* less than a piece may need */
#define SINCE_LEAST 64          /* columns for what the numbers are about, in full */
#define NAME_LEAST 12           /* columns of a program's name: its number gives way to more */
#define NAME_USUAL 44           /* columns, without a terminal */

/* ---------------------------------------------------------------------------------------------------- the head */

static const char *state_of(const mtp_live_process *p)
{
    if (p->outcome == MTP_OUTCOME_RECOVERED)
        return "ended without stopping";
    return p->outcome == MTP_OUTCOME_NOT_STOPPED ? "live, or ended without stopping"
                                                 : mtp_outcome_text(p->outcome);
}

/* The process to name first: one that is live, and that no other one started. */
static int rank(const mtp_live *live, const mtp_live_process *p)
{
    bool started = false, is_live = p->outcome == MTP_OUTCOME_LIVE || p->outcome == MTP_OUTCOME_NOT_STOPPED;
    for (size_t k = 0; k < mtp_live_process_count(live); k++)
        started |= mtp_live_process_at(live, k)->pid == p->parent;
    return 4 * is_live + 2 * !started + (p->records > 0);
}

static const mtp_live_process *main_process(const mtp_live *live)
{
    const mtp_live_process *best = mtp_live_process_at(live, 0);
    for (size_t i = 1; i < mtp_live_process_count(live); i++)
        if (rank(live, mtp_live_process_at(live, i)) > rank(live, best))
            best = mtp_live_process_at(live, i);
    return best;
}

static void head_process(top_text *t, mtp_live *live, const mtp_live_info *info, const top_options *o)
{
    const mtp_live_process *p = main_process(live);
    char text[16];
    top_style(t, "1");
    top_put(t, "mtprof top  ");
    top_style(t, "0");
    if (p == NULL) {
        top_put(t, "nothing is recorded yet");
        top_end_line(t);
        return;
    }
    const char *name = p->command[0] != 0 ? p->command : p->file;
    char state[64], pid[32];
    mtp__format(pid, sizeof pid, "  pid %llu", (unsigned long long)p->pid);
    mtp__format(state, sizeof state, "%s", state_of(p));
    if (info->processes > 1)
        mtp__format(state, sizeof state, "%llu of %llu processes live", (unsigned long long)info->live,
                    (unsigned long long)info->processes);
    /* whether it runs says more than its number and its name */
    int length = (int)strnlen(name, 60), room = t->columns - t->column - 2 - (int)strlen(state);
    bool has_pid = t->columns == 0 || room >= NAME_LEAST + (int)strlen(pid);
    room = t->columns == 0 ? 60 : has_pid ? room - (int)strlen(pid) : room > 4 ? room : 4;
    top_name(t, name, strlen(name), room < length ? room : length);
    top_put(t, "%s  ", has_pid ? pid : "");
    top_style(t, info->live > 0 ? "32" : "33");
    top_put(t, "%s", state);
    top_style(t, "0");
    if (o->paused)
        top_put(t, "  PAUSED");
    if (info->unread > 0)
        top_put(t, "  reading, %s left", top_bytes((int64_t)info->unread, text));
    top_end_facts(t);
}

static void head_drops(top_text *t, const mtp_live *live, const mtp_live_info *info)
{
    char text[16];
    top_put(t, "  ");
    if (info->dropped > 0)
        top_style(t, "31");
    top_put(t, "dropped %s", top_count(info->dropped, text));
    uint64_t by[MTP_DROP_CAUSES] = {0};
    for (size_t i = 0; i < mtp_live_process_count(live); i++)
        for (int k = 0; k < MTP_DROP_CAUSES; k++)
            by[k] += mtp_live_process_at(live, i)->has_ledger
                         ? mtp_live_process_at(live, i)->ledger.dropped_by[k]
                         : 0;
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        if (by[k] > 0 && k != MTP_DROP_OVERWRITTEN)
            top_put(t, " (%s %s)", top_count(by[k], text), mtp_drop_text((mtp_drop)k));
    top_style(t, "0");
    if (info->is_ring)
        top_put(t, "  ring");
    if (info->missed > 0)
        top_put(t, ", %s not seen", top_count(info->missed, text));
    if (info->damaged > 0)
        top_put(t, "  damaged chunks %llu", (unsigned long long)info->damaged);
}

static void head_records(top_text *t, const mtp_live *live, const mtp_live_info *info)
{
    char text[4][16];
    top_put(t, "recorded %s  records %s, %s/s", top_time(info->recorded_ns, text[0]),
            top_count(info->records, text[1]), top_count((uint64_t)info->records_rate, text[2]));
    head_drops(t, live, info);
    top_put(t, "  file %s  threads %llu", top_bytes((int64_t)info->file_bytes, text[3]),
            (unsigned long long)info->threads);
    top_end_facts(t);
}

/* Of several processes, the sum for each device. */
static void head_memory(top_text *t, const mtp_live *live)
{
    char text[3][16];
    size_t count = mtp_live_memory_count(live);
    bool first = true;
    for (uint32_t device = 0; device < 65536 && count > 0; device++) {
        int64_t now = 0, peak = 0;
        bool any = false;
        for (size_t i = 0; i < count; i++) {
            const mtp_live_memory *m = mtp_live_memory_at(live, i);
            if (m->device != device)
                continue;
            any = true;
            now += m->allocated;
            peak += m->peak;
        }
        if (!any)
            continue;
        top_put(t, first ? "memory  " : "   ");
        if (MTP_DEVICE_TYPE(device) == 0)
            top_put(t, "CPU %s", top_bytes(now, text[0]));
        else
            top_put(t, "device %u %s", (unsigned)MTP_DEVICE_INDEX(device), top_bytes(now, text[0]));
        top_put(t, ", peak %s", top_bytes(peak, text[1]));
        first = false;
    }
    if (!first)
        top_end_facts(t);
}

static void head_steps(top_text *t, const mtp_live_info *info)
{
    char text[2][16];
    if (info->steps == 0 || info->last_step_ns == 0)
        return;
    top_put(t, "step %lld", (long long)info->last_step);
    top_put(t, "  last %s  mean %s", top_time(info->last_step_ns, text[0]),
            top_time(info->mean_step_ns, text[1]));
    top_end_facts(t);
}

static void head_problems(top_text *t, const mtp_live *live)
{
    for (size_t i = 0; i < mtp_live_process_count(live); i++) {
        const mtp_live_process *p = mtp_live_process_at(live, i);
        if (p->problem[0] == 0)
            continue;
        top_style(t, "31");
        top_name(t, p->file, strlen(p->file), 30);
        top_put(t, ": ");
        top_name(t, p->problem, strlen(p->problem), -1);
        top_style(t, "0");
        top_end_line(t);
    }
}

/* What is dropped then is known when the recording stops. */
static void head_disk(top_text *t, const mtp_live *live, const mtp_live_info *info)
{
    const mtp_live_process *p = main_process(live);
    struct statvfs disk;
    if (p == NULL || info->live == 0 || statvfs(p->file, &disk) != 0 ||
        disk.f_bavail * disk.f_frsize >= DISK_LEAST)
        return;
    top_style(t, "31");
    top_put(t, "the disk is full: records are probably being dropped, and scopes seem open that have ended");
    top_style(t, "0");
    top_end_line(t);
}

/* ---------------------------------------------------------------------------------------------------- the rows */

typedef struct shown_row {
    const mtp_live_row *row;
    uint64_t count;
    int64_t self, total, mean;
} shown_row;

static struct {
    int by;
    bool reverse;
} order; /* of qsort */

static int64_t key_of(const shown_row *r)
{
    switch (order.by) {
    case TOP_BY_recent:
        return r->row->recent_self_ns;
    case TOP_BY_total:
        return r->total;
    case TOP_BY_calls:
        return (int64_t)r->count;
    case TOP_BY_rate:
        return (int64_t)r->row->recent_count;
    case TOP_BY_mean:
        return r->mean;
    default:
        return r->self;
    }
}

static int by_name(const shown_row *a, const shown_row *b)
{
    size_t x = a->row->name.length, y = b->row->name.length;
    int is = memcmp(a->row->name.bytes, b->row->name.bytes, x < y ? x : y);
    return is != 0 ? is : (x > y) - (x < y);
}

static int compare(const void *a, const void *b)
{
    const shown_row *x = a, *y = b;
    int64_t p = key_of(x), q = key_of(y);
    int is = order.by == TOP_BY_name ? by_name(x, y) : (p < q) - (p > q);
    if (is == 0)
        is = by_name(x, y);
    return order.reverse ? -is : is;
}

static bool is_python(const mtp_live_row *r)
{
    return r->kind == MTP_EVENT_PYTHON || r->kind == MTP_EVENT_MODULE;
}

/* Python functions have rows if they are asked for, or if there is nothing else, as in `mtprof run`. */
static size_t choose(const mtp_live *live, const top_options *o, shown_row *out, int64_t self[2],
                     int64_t recent[2])
{
    size_t count = 0;
    bool others = false;
    for (size_t i = 0; i < mtp_live_row_count(live); i++)
        others |= mtp_live_row_at(live, i)->count > 0 && !is_python(mtp_live_row_at(live, i));
    for (size_t i = 0; i < mtp_live_row_count(live); i++) {
        const mtp_live_row *r = mtp_live_row_at(live, i);
        if (r->count == 0 || (is_python(r) && others && !o->python) ||
            (o->recent && r->recent_count == 0 && r->recent_self_ns == 0))
            continue;
        shown_row s = {.row = r,
                       .count = o->recent ? r->recent_count : r->count,
                       .self = o->recent ? r->recent_self_ns : r->self_ns,
                       .total = o->recent ? r->recent_total_ns : r->total_ns};
        s.mean = s.count > 0 ? s.total / (int64_t)s.count : 0;
        self[r->is_device] += s.self;
        recent[r->is_device] += r->recent_self_ns;
        out[count++] = s;
    }
    return count;
}

static void column(top_text *t, const top_options *o, int sort, const char *title, int width)
{
    if (t->columns > 0 && t->column + width > t->columns)
        return;
    bool chosen = o->sort == sort;
    top_put(t, "%*s", width - (int)strlen(title) - chosen, "");
    if (chosen)
        top_style(t, "7");
    top_put(t, "%s%s", title, chosen ? o->reverse ? "^" : "v" : "");
    if (chosen)
        top_style(t, "0");
    if (chosen)
        top_style(t, "1");
}

/* X: width of a column, from the most to the least important: what does not fit is left out */
enum {
    CALLS = 9,
    RATE = 10,
    SELF = 9,
    SHARE = 7,
    NOW = 7,
    TOTAL = 9,
    MEAN = 9,
    WHERE = 5,
    ALL = CALLS + RATE + SELF + SHARE + NOW + TOTAL + MEAN
};

typedef struct layout {
    int name;
    bool where, calls, rate, self, share, now, total, mean;
} layout;

static layout lay_out(const top_text *t, bool devices)
{
    layout l = {.where = devices,
                .calls = true,
                .rate = true,
                .self = true,
                .share = true,
                .now = true,
                .total = true,
                .mean = true};
    int left = t->columns - (devices ? WHERE : 0);
    if (t->columns == 0) {
        l.name = NAME_USUAL;
        return l;
    }
    struct {
        bool *shown;
        int width;
    } least[] = {{&l.mean, MEAN}, {&l.total, TOTAL}, {&l.rate, RATE},
                 {&l.now, NOW},   {&l.calls, CALLS}, {&l.share, SHARE}};
    int used = ALL;
    for (size_t i = 0; i < sizeof least / sizeof *least && left - used < 22; i++) {
        *least[i].shown = false;
        used -= least[i].width;
    }
    l.name = left - used > 8 ? left - used : 8;
    return l;
}

static void titles(top_text *t, const top_options *o, const layout *l)
{
    top_style(t, "1");
    top_put(t, "%-*s", l->name, o->sort == TOP_BY_name ? o->reverse ? "NAME ^" : "NAME v" : "NAME");
    if (l->where)
        top_put(t, "%*s", WHERE, "");
    if (l->calls)
        column(t, o, TOP_BY_calls, "CALLS", CALLS);
    if (l->rate)
        column(t, o, TOP_BY_rate, "CALLS/S", RATE);
    if (l->self)
        column(t, o, TOP_BY_self, "SELF", SELF);
    if (l->share)
        top_put(t, "%*s", SHARE, "SELF%");
    if (l->now)
        column(t, o, TOP_BY_recent, "NOW%", NOW);
    if (l->total)
        column(t, o, TOP_BY_total, "TOTAL", TOTAL);
    if (l->mean)
        column(t, o, TOP_BY_mean, "MEAN", MEAN);
    top_style(t, "0");
    top_end_line(t);
}

static void share(top_text *t, int64_t part, int64_t whole, int width)
{
    top_put(t, "%*.1f", width, whole > 0 ? 100.0 * (double)part / (double)whole : 0.0);
}

static void print_row(top_text *t, const shown_row *s, const layout *l, const int64_t self[2],
                      const int64_t recent[2], int64_t window_ns)
{
    char text[16];
    const mtp_live_row *r = s->row;
    if (r->open > 0)
        top_style(t, "36");
    top_name(t, r->name.bytes, r->name.length, l->name);
    if (r->open > 0)
        top_style(t, "0");
    if (l->where)
        top_put(t, "%*s", WHERE, r->is_device ? "dev" : "cpu");
    if (l->calls)
        top_put(t, "%*s", CALLS, top_count(s->count, text));
    if (l->rate)
        top_put(
            t, "%*s", RATE,
            top_count(window_ns > 0 ? (uint64_t)((double)r->recent_count * 1e9 / (double)window_ns + 0.5) : 0,
                      text));
    if (l->self)
        top_put(t, "%*s", SELF, top_time(s->self, text));
    if (l->share)
        share(t, s->self, self[r->is_device], SHARE);
    if (l->now)
        share(t, r->recent_self_ns, recent[r->is_device], NOW);
    if (l->total)
        top_put(t, "%*s", TOTAL, top_time(s->total, text));
    if (l->mean)
        top_put(t, "%*s", MEAN, top_time(s->mean, text));
    top_end_line(t);
}

static void show_rows(top_text *t, top_options *o, mtp_live *live, const mtp_live_info *info, int lines)
{
    int64_t self[2] = {0, 0}, recent[2] = {0, 0};
    shown_row *rows = calloc(mtp_live_row_count(live) + 1, sizeof *rows);
    if (rows == NULL)
        return;
    size_t count = choose(live, o, rows, self, recent);
    bool devices = false;
    for (size_t i = 0; i < count; i++)
        devices |= rows[i].row->is_device;
    order.by = o->sort;
    order.reverse = o->reverse;
    qsort(rows, count, sizeof *rows, compare);
    layout l = lay_out(t, devices);
    titles(t, o, &l);
    size_t room = lines > 0 ? lines > t->lines ? (size_t)(lines - t->lines) : 0 : count;
    if (o->limit >= 0 && (size_t)o->limit < room)
        room = (size_t)o->limit;
    int64_t most = (int64_t)count - 1;
    o->scroll = o->scroll > most ? most : o->scroll;
    o->scroll = o->scroll < 0 ? 0 : o->scroll;
    for (size_t i = (size_t)o->scroll; i < count && i - (size_t)o->scroll < room; i++)
        print_row(t, &rows[i], &l, self, recent, info->window_ns);
    if (count == 0) {
        top_put(t, "no op or scope was recorded yet");
        top_end_line(t);
    }
    free(rows);
}

/* ------------------------------------------------------------------------------------------------- the threads */

/* The kernel's word for what a thread does; 0: it has ended, or is not of this machine. */
static char state_in(uint64_t pid, uint64_t tid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%llu/task/%llu/stat", (unsigned long long)pid,
             (unsigned long long)tid);
    FILE *f = fopen(path, "re");
    size_t n = f != NULL ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    line[n] = 0;
    const char *after = strrchr(line, ')');
    return after != NULL && after[1] == ' ' ? after[2] : 0;
}

static const char *word_for(char state)
{
    switch (state) {
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'D':
        return "waiting for a device";
    case 'T':
    case 't':
        return "stopped";
    case 0:
        return "ended";
    default:
        return "";
    }
}

static void print_stack(top_text *t, mtp_live *live, size_t index, const mtp_live_thread *thread)
{
    uint64_t known = thread->depth - thread->unknown, skip = known > STACK_SHOWN ? known - STACK_SHOWN : 0;
    char text[16];
    if (thread->unknown > 0) {
        top_put(t, "           %llu scope%s that began before", (unsigned long long)thread->unknown,
                thread->unknown == 1 ? "" : "s");
        top_end_line(t);
    }
    if (skip > 0) {
        top_put(t, "           ... %llu more", (unsigned long long)skip);
        top_end_line(t);
    }
    for (uint64_t level = known - skip; level > 0; level--) {
        const mtp_live_scope *s = mtp_live_scope_at(live, index, (size_t)level - 1);
        if (s == NULL)
            continue;
        top_put(t, "%10s ", top_time(s->for_ns, text));
        top_put(t, "%*s", (int)(known - skip - level), "");
        if (level == 1)
            top_style(t, "1");
        top_name(t, s->name.bytes, s->name.length, -1);
        if (level == 1)
            top_style(t, "0");
        top_end_line(t);
    }
}

static void show_threads(top_text *t, mtp_live *live, const mtp_live_info *info)
{
    char text[16];
    size_t hidden = 0;
    for (int open = 1; open >= 0; open--) /* those that are in something first */
        for (size_t i = 0; i < mtp_live_thread_count(live); i++) {
            const mtp_live_thread *thread = mtp_live_thread_at(live, i);
            if ((thread->depth > 0) != (open != 0))
                continue;
            char state = thread->live ? state_in(thread->pid, thread->tid) : 0;
            if (state == 0 && thread->depth == 0) {
                hidden++;
                continue;
            }
            top_style(t, "1");
            top_put(t, "thread %llu ", (unsigned long long)thread->tid);
            top_name(t, thread->name.bytes, thread->name.length,
                     (int)(thread->name.length < 24 ? thread->name.length : 24));
            top_style(t, "0");
            if (info->processes > 1)
                top_put(t, " of process %llu", (unsigned long long)thread->pid);
            top_put(t, "  %s", word_for(state));
            top_put(t, "  last record %s ago", top_time(thread->idle_ns, text));
            top_end_line(t);
            print_stack(t, live, i, thread);
        }
    if (hidden > 0) {
        top_put(t, "%zu thread%s ended", hidden, hidden == 1 ? " has" : "s have");
        top_end_line(t);
    }
}

/* -------------------------------------------------------------------------------------------------------- help */

static void show_help(top_text *t)
{
    static const char *const lines[] = {
        "q        quit",
        "s        sort by the next column",
        "r        reverse the order",
        "w        since the start, or in the last seconds",
        "t        threads and what they are in, or ops",
        "p        pause; the program goes on",
        "up down  scroll; also page up, page down, home, end",
        "space    refresh now",
        "?        this help; any key leaves it",
        "",
        "CALLS/S and NOW% are of the last seconds. SELF is the time spent in an op",
        "and not in ops inside it. What is open now counts until now.",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        top_put(t, "%s", lines[i]);
        top_end_line(t);
    }
}

/* --------------------------------------------------------------------------------------------------------- all */

/* Drops the lines that do not fit, below the head or at the end. */
static void clip(top_text *t, top_options *o, int head, int lines)
{
    int body = t->lines - head, room = lines - head > 0 ? lines - head : 0;
    int64_t most = body > room ? body - room : 0;
    o->scroll = o->scroll > most ? most : o->scroll < 0 ? 0 : o->scroll;
    size_t to = 0;
    int line = 0;
    for (size_t i = 0; i < t->length; i++) {
        bool shown = line < head ? line < lines : line >= head + o->scroll && line - o->scroll < lines;
        if (shown)
            t->bytes[to++] = t->bytes[i];
        line += t->bytes[i] == '\n';
    }
    t->length = to;
    t->lines = t->lines < lines ? t->lines : lines;
}

void top_show(top_text *t, top_options *o, mtp_live *live, const mtp_live_info *info, int lines)
{
    char text[16];
    t->length = t->line = 0;
    t->lines = t->column = 0;
    head_process(t, live, info, o);
    head_records(t, live, info);
    head_memory(t, live);
    head_steps(t, info);
    head_problems(t, live);
    head_disk(t, live, info);
    top_style(t, "2");
    if (o->help)
        top_put(t, "keys");
    else if (o->threads)
        top_put(t, "threads, and the scopes that they are in, outermost first");
    else if (o->recent)
        top_put(t, "the last %s", top_time(info->window_ns, text));
    else if (t->columns > 0 && t->columns < SINCE_LEAST)
        top_put(t, "since the start");
    else
        top_put(t, "since the start; CALLS/S and NOW%%: the last %s", top_time(info->window_ns, text));
    if (info->rows_left_out > 0 && !o->threads)
        top_put(t, "; there are too many names: some share a row");
    if (lines > 0 && !o->help)
        top_put(t, "  (? help)");
    top_style(t, "0");
    top_end_line(t);
    int head = t->lines;
    if (o->help)
        show_help(t);
    else if (o->threads)
        show_threads(t, live, info);
    else
        show_rows(t, o, live, info, lines);
    if (lines > 0 && (o->threads || o->help || t->lines > lines)) {
        int64_t scroll = o->scroll;
        if (!o->threads)
            o->scroll = 0; /* rows are scrolled already */
        clip(t, o, head, lines);
        if (!o->threads)
            o->scroll = scroll;
    }
}
