/* live/live.c - the public calls: the files of a path, and their sums put together. See live.h. */
#include "live/live.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/plain.h"
#include "trace/join/files.h"
#include "trace/records/dictionary.h"

typedef struct part { /* a recording */
    char *path;       /* owned */
    dev_t device;
    ino_t inode;
    bool is_open, listed, settled;
    mtp__live_file file;
    mtp__reading *now;  /* owned: shown */
    mtp__reading *next; /* owned: of the ended file, being made */
    int64_t at;         /* the instant that is shown, in its ns */
    char problem[256];
} part;

struct mtp_live {
    char *path; /* owned */
    mtp_live_options options;
    part **part;                            /* owned, each */
    uint32_t parts, part_room, turn, alive; /* alive: still being written */
    mtp__live_sums merged;                  /* rows of all parts: only names and numbers are used */
    mtp_live_row *row;                      /* owned */
    uint32_t row_room;
    uint32_t *row_of; /* owned: of a part's rows */
    uint32_t row_of_room;
    mtp_live_process *process; /* owned */
    uint32_t process_room;
    mtp_live_thread *thread; /* owned */
    const mtp__lane **lane;  /* owned: of each thread */
    uint32_t *thread_part;   /* owned */
    uint32_t threads, thread_room, lane_room, thread_part_room;
    mtp_live_memory *memory; /* owned */
    uint32_t memories, memory_room;
    mtp_live_scope scope; /* the last one asked for */
    mtp_live_info info;
};

/* ------------------------------------------------------------------------------------------------------ parts */

static void part_close(part *p)
{
    if (p->is_open)
        mtp__live_file_close(&p->file);
    mtp__reading_destroy(p->now);
    mtp__reading_destroy(p->next);
    p->now = p->next = NULL;
    p->is_open = p->settled = false;
}

static void part_destroy(part *p)
{
    part_close(p);
    mtp__free(p->path);
    mtp__free(p);
}

static mtp__reading *new_reading(const mtp_live *live)
{
    return mtp__reading_create(live->options.window_ns / MTP__LIVE_SLOTS, live->options.most);
}

static mtp_status part_open(const mtp_live *live, part *p)
{
    mtp_status status = mtp__live_file_open(&p->file, p->path);
    p->is_open = status == MTP_OK;
    if (status == MTP_OK && (p->now = new_reading(live)) == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "the sums of a recording");
    if (status != MTP_OK)
        part_close(p);
    return status;
}

static void part_problem(part *p)
{
    snprintf(p->problem, sizeof p->problem, "%s", mtp_last_error());
}

/* Is another recording now where this one was? */
static bool is_taken(const mtp_live *live, const part *p)
{
    for (uint32_t i = 0; i < live->parts; i++)
        if (live->part[i] != p && live->part[i]->listed && strcmp(live->part[i]->path, p->path) == 0)
            return true;
    return false;
}

/* The file is still the same, by whatever name. NULL: out of memory. */
static part *find_part(mtp_live *live, const char *path, const struct stat *st)
{
    for (uint32_t i = 0; i < live->parts; i++) {
        part *p = live->part[i];
        if (p->device != st->st_dev || p->inode != st->st_ino)
            continue;
        char *name = strcmp(p->path, path) != 0 ? mtp__strdup(path) : NULL;
        if (name != NULL) {
            mtp__free(p->path);
            p->path = name;
        }
        return p;
    }
    part *p = mtp__calloc(1, sizeof *p);
    if (p == NULL || !MTP__GROW(live->part, live->part_room, live->parts, live->parts + 1, 8) ||
        (p->path = mtp__strdup(path)) == NULL) {
        mtp__free(p);
        return NULL;
    }
    p->device = st->st_dev;
    p->inode = st->st_ino;
    p->file.fd = -1;
    live->part[live->parts++] = p;
    return p;
}

static mtp_status add_file(mtp_live *live, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == ENOENT ? MTP_OK : MTP_FAIL(MTP_E_IO, "%s: %s", path, mtp__reason(errno));
    part *p = find_part(live, path, &st);
    if (p == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the names of the recordings");
    p->listed = true;
    if (p->is_open)
        return MTP_OK;
    mtp_status status = part_open(live, p);
    p->problem[0] = 0;
    if (status != MTP_OK)
        part_problem(p);
    return status == MTP_E_NOMEM ? status : MTP_OK;
}

/* Files that are gone, and no longer written to: replaced, or empty ones that `mtprof run` has deleted. */
static void drop_gone(mtp_live *live)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < live->parts; i++) {
        part *p = live->part[i];
        bool ended = !p->is_open ||
                     (p->file.outcome != MTP_OUTCOME_LIVE && p->file.outcome != MTP_OUTCOME_NOT_STOPPED);
        bool useless = !p->is_open || p->now->records == 0 || is_taken(live, p);
        if (!p->listed && ended && useless)
            part_destroy(p);
        else
            live->part[kept++] = p;
    }
    live->parts = kept;
}

static mtp_status find_files(mtp_live *live)
{
    mtp__files files = {0};
    mtp_status status = live->options.alone ? MTP_OK : mtp__files_of(live->path, &files);
    for (uint32_t i = 0; i < live->parts; i++)
        live->part[i]->listed = false;
    if (status == MTP_OK && files.count == 0)
        status = add_file(live, live->path);
    for (uint32_t i = 0; status == MTP_OK && i < files.count; i++)
        status = add_file(live, files.path[i]);
    mtp__files_fini(&files);
    if (status == MTP_OK)
        drop_gone(live);
    return status == MTP_E_NOMEM ? status : MTP_OK; /* a folder that is gone: what is known stays */
}

/* ----------------------------------------------------------------------------------------------------- reading */

static mtp_status settle(mtp_live *live, part *p, uint64_t deadline)
{
    char path[64];
    bool done = false;
    if (p->next == NULL && (p->next = new_reading(live)) == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the sums of a recording");
    snprintf(path, sizeof path, "/proc/self/fd/%d", p->file.fd); /* whatever its name is now */
    mtp_status status = mtp__live_file_settle(&p->file, path, p->next, deadline, &done);
    if (status != MTP_OK) {
        mtp__reading_destroy(p->next);
        p->next = NULL;
    } else if (done) {
        mtp__reading_destroy(p->now);
        p->now = p->next;
        p->next = NULL;
        p->settled = true;
        p->file.unread = 0;
        p->file.is_behind = false;
    }
    return status;
}

/* A ring that was watched is not read again: it has less than was seen. */
static mtp_status read_ended(mtp_live *live, part *p, uint64_t deadline)
{
    if (p->settled)
        return MTP_OK;
    if (!p->file.ring || p->now->records == 0)
        return settle(live, p, deadline);
    uint64_t before = p->now->records;
    mtp_status status = mtp__live_file_read(&p->file, p->now, deadline);
    p->settled = status == MTP_OK && p->now->records == before && p->file.unread == 0 && !p->file.is_behind;
    const mtp__totals *told = &p->file.header.totals;
    if (p->settled && told->known == 1 && mtp__ledger_read(&p->now->ledger, told->ledger, MTP__LEDGER_ROOM)) {
        uint64_t all = p->now->ledger.kept + p->now->ledger.dropped_by[MTP_DROP_OVERWRITTEN];
        p->now->has_ledger = true;
        p->now->missed = all > p->now->records ? all - p->now->records : 0;
    }
    return status;
}

/* It goes on, perhaps after a stop. */
static mtp_status read_live(part *p, uint64_t deadline)
{
    if (p->next != NULL) {
        mtp__live_file_unsettle(&p->file);
        mtp__reading_destroy(p->next);
        p->next = NULL;
    }
    if (p->settled)
        mtp__live_file_relist(&p->file);
    p->settled = false;
    return mtp__live_file_read(&p->file, p->now, deadline);
}

static mtp_status read_part(mtp_live *live, part *p, uint64_t deadline)
{
    bool replaced;
    p->file.is_behind = false;
    mtp_status status = mtp__live_file_look(&p->file, &replaced);
    if (status == MTP_OK && replaced) {
        part_close(p);
        status = part_open(live, p);
        if (status == MTP_OK)
            status = mtp__live_file_look(&p->file, &replaced);
    }
    if (status != MTP_OK)
        return status;
    bool ended = p->file.outcome == MTP_OUTCOME_STOPPED || p->file.outcome == MTP_OUTCOME_RECOVERED;
    return ended ? read_ended(live, p, deadline) : read_live(p, deadline);
}

static mtp_status read_parts(mtp_live *live, uint64_t deadline)
{
    mtp_status status = MTP_OK;
    uint32_t first = live->turn, parts = live->parts;
    for (uint32_t i = 0; i < parts && status == MTP_OK; i++) {
        part *p = live->part[(first + i) % parts];
        if (!p->is_open)
            continue;
        mtp_status is = read_part(live, p, deadline);
        p->problem[0] = 0;
        if (is != MTP_OK)
            part_problem(p);
        status = is == MTP_E_NOMEM ? is : MTP_OK;
        live->turn = (first + i + 1) % parts;
        if (mtp_now_ns() > deadline)
            break;
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------------- rows */

static const mtp__reading *shown(const part *p)
{
    return p->now->records == 0 && p->next != NULL ? p->next : p->now;
}

static bool is_live(const part *p)
{
    return p->is_open && (p->file.outcome == MTP_OUTCOME_LIVE || p->file.outcome == MTP_OUTCOME_NOT_STOPPED);
}

/* The window ends now, for those that have ended with them: they count if none is live. */
static bool is_recent(const mtp_live *live, const part *p)
{
    return is_live(p) || live->alive == 0;
}

/* The rows of a part, and their numbers in the table of all. */
static bool add_rows(mtp_live *live, part *p)
{
    const mtp__reading *r = shown(p);
    mtp__live_sums *all = &live->merged;
    if (!MTP__GROW(live->row_of, live->row_of_room, 0, (size_t)r->sums.count + 1, 64))
        return false;
    uint32_t now = mtp__live_part(&p->now->sums, p->at);
    for (uint32_t i = 0; i < r->sums.count; i++) {
        const mtp__live_sum *s = &r->sums.sum[i];
        mtp_text name = mtp__live_text_of(&r->sums, s->text);
        uint32_t text = mtp__live_key(all, name.bytes, name.length);
        uint32_t at = mtp__live_row(all, text, s->class, s->kind);
        if (at == MTP__NO_ROW || !MTP__GROW(live->row, live->row_room, live->row_room, (size_t)at + 1, 64))
            return false;
        mtp_live_row *row = &live->row[at];
        mtp__live_slot recent = mtp__live_recent(s->slot, now);
        row->name = mtp__live_text_of(all, all->sum[at].text);
        row->kind = all->sum[at].kind;
        row->is_device = s->class >= MTP__LIVE_DEVICE;
        row->count += s->count;
        row->total_ns += s->total;
        row->self_ns += s->self;
        row->max_ns = s->max > row->max_ns ? s->max : row->max_ns;
        if (is_recent(live, p)) {
            row->recent_count += recent.count;
            row->recent_total_ns += recent.total;
            row->recent_self_ns += recent.self;
        }
        live->row_of[i] = at;
    }
    return true;
}

static bool is_outermost(const mtp__lane *lane, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (!lane->frame[i].through && lane->frame[i].row == lane->frame[at].row)
            return false;
    return true;
}

/* Until when what a lane has open has lasted, for all that is known: until it was looked at, and while there is more to read
 * until its last record. Reading takes its time, in which the program goes on. */
static int64_t until_of(const part *p, const mtp__lane *lane)
{
    mtp__reading *r = p->now;
    if (!is_live(p) || r->line.count == 0 || lane->last_ticks == 0)
        return p->at;
    int64_t last = mtp__ticks_to_ns(&r->line, lane->last_ticks),
            seen = lane->seen_ns != 0 ? mtp__reading_at(r, lane->seen_ns) : 0;
    return seen > last ? seen : last;
}

/* Of nested ones of a row, the time counts once. */
static void add_open(mtp_live *live, const part *p, const mtp__lane *lane)
{
    int64_t inner = 0, until = until_of(p, lane), window = live->options.window_ns;
    bool innermost = true;
    for (uint32_t i = lane->frames; i > 0; i--) {
        const mtp__frame *f = &lane->frame[i - 1];
        if (f->through)
            continue;
        mtp_live_row *row = &live->row[live->row_of[f->row]];
        int64_t ns = until > f->start ? until - f->start : 0, self = ns - f->child_ns - inner;
        row->count++;
        row->open++;
        row->self_ns += self > 0 ? self : 0;
        row->total_ns += lane->frames > 256 || is_outermost(lane, i - 1) ? ns : 0;
        row->max_ns = ns > row->max_ns ? ns : row->max_ns;
        if (f->holds) { /* it may be absorbed, or not */
            mtp_live_row *held = &live->row[live->row_of[f->held_row]];
            held->count++;
            held->self_ns += f->held_ns - f->held_child_ns;
            held->total_ns += f->held_ns;
        }
        if (innermost && until > lane->since)
            row->recent_self_ns += until - lane->since < window ? until - lane->since : window;
        innermost = false;
        inner = ns;
    }
}

static bool add_thread(mtp_live *live, uint32_t index, const mtp__lane *lane)
{
    part *p = live->part[index];
    mtp__reading *r = p->now;
    uint32_t n = live->threads;
    if (!MTP__GROW(live->thread, live->thread_room, n, n + 1, 16) ||
        !MTP__GROW(live->lane, live->lane_room, n, n + 1, 16) ||
        !MTP__GROW(live->thread_part, live->thread_part_room, n, n + 1, 16))
        return false;
    int64_t until = until_of(p, lane);
    int64_t last =
        r->line.count > 0 && lane->last_ticks != 0 ? mtp__ticks_to_ns(&r->line, lane->last_ticks) : until;
    uint64_t shown_frames = 0;
    for (uint32_t i = 0; i < lane->frames; i++)
        shown_frames += !lane->frame[i].through;
    live->thread[n] = (mtp_live_thread){.pid = r->pid,
                                        .tid = lane->tid,
                                        .name = mtp__live_text_of(&r->sums, lane->name),
                                        .depth = shown_frames + lane->unknown,
                                        .unknown = lane->unknown,
                                        .records = lane->records,
                                        .idle_ns = until > last ? until - last : 0,
                                        .live = is_live(p)};
    live->lane[n] = lane;
    live->thread_part[n] = index;
    live->threads++;
    return true;
}

static bool add_lanes(mtp_live *live, uint32_t index)
{
    part *p = live->part[index];
    const mtp__reading *r = shown(p);
    for (uint32_t i = 0; i < r->lanes; i++) {
        const mtp__lane *lane = r->lane[i];
        if (lane->stream == 0)
            continue;
        if (is_live(p))
            add_open(live, p, lane);
        if (p->now == r && !add_thread(live, index, lane))
            return false;
    }
    for (uint32_t i = 0; i < r->devices; i++) {
        const mtp__live_device *d = &r->device[i];
        if (!MTP__GROW(live->memory, live->memory_room, live->memories, live->memories + 1, 8))
            return false;
        live->memory[live->memories++] =
            (mtp_live_memory){r->pid, d->device, d->allocated, d->peak, d->reserved};
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------------- info */

static uint64_t lost_by(const mtp__reading *r)
{
    uint64_t lost = r->lost_before;
    for (uint32_t i = 0; i < r->lanes; i++)
        lost += r->lane[i]->stream != 0 ? r->lane[i]->lost : 0;
    uint64_t told = r->has_ledger ? r->ledger.dropped - r->ledger.dropped_by[MTP_DROP_OVERWRITTEN] : 0;
    return told > lost ? told : lost;
}

static uint64_t unread_of(const part *p)
{
    if (p->next != NULL && p->file.spool_open) {
        uint64_t count = p->file.spool.places.count, passes = p->file.second ? 1 : 2;
        return (count * passes - p->file.next) * (p->file.header.chunk_bytes / passes) + 1;
    }
    return p->file.unread + (p->next != NULL || p->file.is_behind);
}

static void describe(mtp_live *live, part *p)
{
    mtp_live_info *info = &live->info;
    mtp_live_process *out = &live->process[info->processes++];
    const char *file = p->path;
    if (!p->is_open) {
        *out =
            (mtp_live_process){.file = file, .command = "", .problem = p->problem, .ledger = MTP_LEDGER_INIT};
        return;
    }
    mtp__reading *r = p->now;
    const mtp__reading *s = shown(p);
    int64_t last = mtp__reading_now(r, false);
    *out = (mtp_live_process){.file = file,
                              .command = s->command,
                              .problem = p->problem,
                              .pid = s->pid != 0 ? s->pid : p->file.header.pid,
                              .parent = s->parent,
                              .outcome = p->file.outcome,
                              .has_ledger = s->has_ledger,
                              .ledger = s->ledger,
                              .records = s->records,
                              .dropped = lost_by(s),
                              .missed = s->missed,
                              .file_bytes = p->file.file_bytes,
                              .idle_ns = p->at > last ? p->at - last : 0};
    for (uint32_t i = 0; i < s->lanes; i++)
        out->threads += s->lane[i]->stream != 0;
    info->live += is_live(p);
    info->recorded_ns = p->at > info->recorded_ns ? p->at : info->recorded_ns;
    info->records += s->records;
    info->dropped += out->dropped;
    info->missed += s->missed;
    info->damaged += s->damaged;
    info->file_bytes += p->file.file_bytes;
    info->unread += unread_of(p);
    info->rows_left_out += s->sums.left_out;
    info->threads += out->threads;
    info->is_ring |= p->file.ring;
    info->settled &= p->settled;
    const struct mtp__live_steps *step = s->steps > 1 ? &s->step : &s->step_scope;
    if (info->steps == 0 && (s->steps > 1 || step->complete > 0)) {
        info->steps = s->steps > 1 ? s->steps : step->complete;
        info->last_step = step->number;
        info->last_step_ns = step->took;
        info->mean_step_ns = step->complete > 0 ? step->all / (int64_t)step->complete : 0;
    }
}

/* The window ends now; its first part began less than window_ns ago. */
static void add_rates(mtp_live *live, part *p)
{
    int64_t slot = p->now->sums.slot_ns, covered = (MTP__LIVE_SLOTS - 1) * slot + p->at % slot;
    covered = covered < p->at ? covered : p->at;
    mtp__live_slot recent = mtp__live_recent(p->now->sums.all, mtp__live_part(&p->now->sums, p->at));
    live->info.window_ns = covered > live->info.window_ns ? covered : live->info.window_ns;
    if (covered > 0)
        live->info.records_rate += (double)recent.count * 1e9 / (double)covered;
}

/* Is it to be shown? The main process is one that none of the others started. */
static bool is_wanted(const mtp_live *live, const part *p)
{
    uint64_t pid = live->options.process;
    if (!p->is_open || pid == 0 || p->now->pid == 0)
        return true;
    for (uint32_t i = 0; i < live->parts && pid == MTP_PROCESS_MAIN; i++)
        if (live->part[i]->is_open && live->part[i]->now->pid == p->now->parent)
            return false;
    return pid == MTP_PROCESS_MAIN || pid == p->now->pid;
}

static bool put_together(mtp_live *live)
{
    mtp_live_info none = MTP_LIVE_INFO_INIT;
    live->info = none;
    live->info.settled = live->parts > 0;
    live->alive = 0;
    for (uint32_t i = 0; i < live->parts; i++)
        live->alive += is_live(live->part[i]);
    live->threads = live->memories = 0;
    if (live->row_room > 0)
        memset(live->row, 0, live->row_room * sizeof *live->row);
    if (!MTP__GROW(live->process, live->process_room, 0, (size_t)live->parts + 1, 8))
        return false;
    for (uint32_t i = 0; i < live->parts; i++) {
        part *p = live->part[i];
        if (p->is_open)
            p->at = mtp__reading_now(p->now, is_live(p));
        if (!is_wanted(live, p))
            continue;
        describe(live, p);
        if (!p->is_open)
            continue;
        if (!add_rows(live, p) || !add_lanes(live, i))
            return false;
        if (is_recent(live, p))
            add_rates(live, p);
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------- calls */

static void nothing_to_show(const mtp_live *live)
{
    const part *p = live->parts > 0 ? live->part[0] : NULL;
    if (p != NULL)
        MTP_FAIL(MTP_E_FORMAT, "%s", p->problem);
    else
        MTP_FAIL(MTP_E_IO, "%s", mtp__reason(ENOENT));
    MTP_NOTE("%s", p != NULL ? p->path : live->path);
}

/* At least one of the files must be a recording. */
static mtp_status open_first(mtp_live *live)
{
    mtp__files files = {0};
    mtp_status status = mtp__files_of(live->path, &files);
    bool single = files.count == 0;
    mtp__files_fini(&files);
    if (status != MTP_OK) {
        MTP_NOTE("%s", live->path);
        return status;
    }
    struct stat st;
    if (single && stat(live->path, &st) == 0) {
        part one = {.path = live->path, .file.fd = -1};
        status = part_open(live, &one); /* a single file: its own error */
        part_close(&one);
        if (status != MTP_OK)
            MTP_NOTE("%s", live->path);
    }
    if (status == MTP_OK)
        status = find_files(live);
    for (uint32_t i = 0; status == MTP_OK && i < live->parts; i++)
        if (live->part[i]->is_open)
            return MTP_OK;
    if (status != MTP_OK)
        return status;
    nothing_to_show(live);
    return live->parts > 0 ? MTP_E_FORMAT : MTP_E_IO;
}

mtp_status mtp_live_open(const char *path, const mtp_live_options *options, mtp_live **out)
{
    mtp_live_options known = MTP_LIVE_OPTIONS_INIT;
    if (out == NULL || path == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", out == NULL ? "out" : "path");
    *out = NULL;
    mtp_status status = MTP__ABI_READ(&known, options, mtp_live_options, alone);
    if (status != MTP_OK)
        return status;
    if (known.window_ns < 1000000 || known.window_ns > (int64_t)1 << 52 || known.most == 0)
        return MTP_FAIL(MTP_E_ARG, "window_ns=%lld must be at least 1 ms, and most=%u at least 1",
                        (long long)known.window_ns, known.most);
    mtp_live *live = mtp__calloc(1, sizeof *live);
    if (live == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a live view");
    live->options = known;
    live->path = mtp__strdup(path);
    bool good = mtp__live_sums_init(&live->merged, known.window_ns, known.most);
    status = good && live->path != NULL ? open_first(live) : MTP_FAIL(MTP_E_NOMEM, "a live view");
    if (status != MTP_OK)
        mtp_live_close(live);
    else
        *out = live;
    return status;
}

void mtp_live_close(mtp_live *live)
{
    if (live == NULL)
        return;
    for (uint32_t i = 0; i < live->parts; i++)
        part_destroy(live->part[i]);
    mtp__free(live->part);
    mtp__live_sums_fini(&live->merged);
    mtp__free(live->row);
    mtp__free(live->row_of);
    mtp__free(live->process);
    mtp__free(live->thread);
    mtp__free(live->lane);
    mtp__free(live->thread_part);
    mtp__free(live->memory);
    mtp__free(live->path);
    mtp__free(live);
}

mtp_status mtp_live_refresh(mtp_live *live, int64_t most_ns, mtp_live_info *info)
{
    if (live == NULL)
        return MTP_FAIL(MTP_E_ARG, "live is NULL");
    mtp_status status = info != NULL ? MTP__ABI_CHECK(info, mtp_live_info, settled) : MTP_OK;
    if (status != MTP_OK)
        return status;
    uint64_t deadline = most_ns > 0 ? mtp_now_ns() + (uint64_t)most_ns : UINT64_MAX;
    status = find_files(live);
    if (status == MTP_OK)
        status = read_parts(live, deadline);
    bool good = put_together(live);
    if (!good && status == MTP_OK)
        status = MTP_FAIL(MTP_E_NOMEM, "the rows of a live view");
    if (info != NULL)
        mtp__abi_write(info, &live->info, sizeof live->info);
    return status;
}

size_t mtp_live_row_count(const mtp_live *live)
{
    return live != NULL ? live->merged.count : 0;
}

const mtp_live_row *mtp_live_row_at(const mtp_live *live, size_t index)
{
    return live != NULL && index < live->merged.count && index < live->row_room ? &live->row[index] : NULL;
}

size_t mtp_live_process_count(const mtp_live *live)
{
    return live != NULL ? live->info.processes : 0;
}

const mtp_live_process *mtp_live_process_at(const mtp_live *live, size_t index)
{
    return index < mtp_live_process_count(live) ? &live->process[index] : NULL;
}

size_t mtp_live_thread_count(const mtp_live *live)
{
    return live != NULL ? live->threads : 0;
}

const mtp_live_thread *mtp_live_thread_at(const mtp_live *live, size_t index)
{
    return index < mtp_live_thread_count(live) ? &live->thread[index] : NULL;
}

const mtp_live_scope *mtp_live_scope_at(mtp_live *live, size_t thread, size_t level)
{
    if (thread >= mtp_live_thread_count(live))
        return NULL;
    const part *p = live->part[live->thread_part[thread]];
    const mtp__lane *lane = live->lane[thread];
    int64_t until = until_of(p, lane);
    for (uint32_t i = lane->frames; i > 0; i--) {
        const mtp__frame *f = &lane->frame[i - 1];
        if (f->through || level-- > 0)
            continue;
        live->scope = (mtp_live_scope){.name = mtp__live_text_of(&p->now->sums, f->text),
                                       .kind = f->kind,
                                       .for_ns = until > f->start ? until - f->start : 0};
        return &live->scope;
    }
    return NULL;
}

size_t mtp_live_memory_count(const mtp_live *live)
{
    return live != NULL ? live->memories : 0;
}

const mtp_live_memory *mtp_live_memory_at(const mtp_live *live, size_t index)
{
    return index < mtp_live_memory_count(live) ? &live->memory[index] : NULL;
}
