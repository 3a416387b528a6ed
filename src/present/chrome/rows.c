/* present/chrome/rows.c - pids and tids that every reader accepts (integers from 1 to 2^32 - 1), and their
 * names.
 *
 * A row keeps its number if that is valid; else it gets one that Linux never assigns. A device's real number
 * is in its events' args, and the row's name has the rest.
 */
#include "base/error.h"
#include "present/chrome/chrome.h"

#define ID_MAX 4294967295
#define DEVICE_PIDS 5000000u /* + index: above Linux's largest pid, and where Kineto sorts devices */
#define OTHER_PIDS 6000000u
#define OTHER_TIDS 10000000u
#define JOB_ROWS 1000         /* processes of a rank, in the order of processes */
#define WINDOW_SORT 536870912 /* where Kineto sorts it: below all threads */

typedef struct numbering {
    mtp__pair_map process; /* (pid, text << 1 | on_device) -> row */
    mtp__pair_map pids;    /* in use in the file */
    mtp__pair_map tids;    /* (pid, tid) in use in the file */
    uint32_t next_pid, next_tid;
    bool no_memory;
} numbering;

static bool take(numbering *n, mtp__pair_map *in, uint64_t a, uint64_t b)
{
    bool is_new = false;
    if (mtp__pair_put(in, a, b, 0, &is_new) == NULL)
        n->no_memory = true;
    return is_new || n->no_memory;
}

static bool is_id(int64_t number, uint32_t text)
{
    return text == 0 && number >= 1 && number <= ID_MAX;
}

/* ---------------------------------------------------------------------------------------- processes */

static uint64_t process_kind(const mtp__track *track)
{
    return (uint64_t)track->pid_text << 1 | track->on_device;
}

static uint32_t other_pid(numbering *n)
{
    while (!take(n, &n->pids, n->next_pid, 0))
        n->next_pid++;
    return n->next_pid++;
}

static uint32_t number_process(numbering *n, const mtp__process_row *row)
{
    bool is = is_id(row->pid, row->pid_text);
    if (is && take(n, &n->pids, (uint64_t)row->pid, 0))
        return (uint32_t)row->pid;
    if (row->on_device && row->pid_text == 0 && row->pid >= 0 && row->pid < OTHER_PIDS - DEVICE_PIDS &&
        take(n, &n->pids, DEVICE_PIDS + (uint64_t)row->pid, 0))
        return DEVICE_PIDS + (uint32_t)row->pid;
    return other_pid(n);
}

/* Hosts choose before devices: a host's pid is real. */
static mtp_status number_processes(mtp__chrome *w, numbering *n)
{
    const mtp_trace *t = w->t;
    w->rows = mtp__calloc((size_t)t->track_count + 1, sizeof *w->rows);
    if (w->rows == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the processes of %u tracks", t->track_count);
    for (int on_device = 0; on_device < 2; on_device++) {
        for (uint32_t k = 0; k < t->track_count; k++) {
            const mtp__track *track = &t->tracks[k];
            bool is_new = false;
            if (track->on_device == (on_device == 1) &&
                mtp__pair_put(&n->process, (uint64_t)track->pid, process_kind(track), w->row_count,
                              &is_new) == NULL)
                n->no_memory = true;
            if (!is_new)
                continue;
            mtp__process_row *row = &w->rows[w->row_count++];
            *row = (mtp__process_row){track->pid, track->pid_text, track->on_device, 0, 0};
            row->out_pid = number_process(n, row);
        }
    }
    return n->no_memory ? MTP_FAIL(MTP_E_NOMEM, "the processes of %u tracks", t->track_count) : MTP_OK;
}

/* -------------------------------------------------------------------------------------------- lanes */

static mtp__process_row *row_of(const mtp__chrome *w, const numbering *n, const mtp__track *track)
{
    uint64_t *at = mtp__pair_find(&n->process, (uint64_t)track->pid, process_kind(track));
    return &w->rows[at != NULL ? *at : 0];
}

static void lane_text(mtp__lane *lane)
{
    char *p = MTP__PUT(lane->text, ", \"pid\": ");
    p = mtp__put_u64(p, lane->pid);
    p = MTP__PUT(p, ", \"tid\": ");
    p = mtp__put_u64(p, lane->tid);
    p = MTP__PUT(p, ", \"ts\": ");
    lane->length = (uint32_t)(p - lane->text);
}

/* Tracks with a valid number first, so that no other takes it. */
static mtp_status number_lanes(mtp__chrome *w, numbering *n, const uint32_t *lanes)
{
    const mtp_trace *t = w->t;
    uint32_t at = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        mtp__process_row *row = row_of(w, n, track);
        w->first_lane[k] = at;
        for (uint32_t i = 0; i < lanes[k]; i++)
            w->lanes[at++] = (mtp__lane){.track = k, .number = i + 1, .pid = row->out_pid};
        mtp__lane *own = &w->lanes[w->first_lane[k]];
        if (is_id(track->tid, track->tid_text) && take(n, &n->tids, row->out_pid, (uint64_t)track->tid))
            own->tid = (uint32_t)track->tid;
    }
    w->first_lane[t->track_count] = at;
    for (uint32_t i = 0; i < at; i++) {
        mtp__lane *lane = &w->lanes[i];
        while (lane->tid == 0) {
            if (take(n, &n->tids, lane->pid, n->next_tid))
                lane->tid = n->next_tid;
            n->next_tid++;
        }
        lane_text(lane);
        mtp__process_row *row = row_of(w, n, &t->tracks[lane->track]);
        if (row->first_tid == 0 || lane->tid == lane->pid) /* the main thread, if present */
            row->first_tid = lane->tid;
    }
    return n->no_memory ? MTP_FAIL(MTP_E_NOMEM, "the rows of %u tracks", t->track_count) : MTP_OK;
}

/* Kineto's events about the recording as a whole get a separate row in the recorded process: Kineto's pids
 * there are text, which some viewers reject. Files written by others have their own, or none; an empty
 * recording has them too. */
static void number_window(mtp__chrome *w, numbering *n)
{
    const mtp_trace *t = w->t;
    bool empty = t->span_count + t->memory_count + t->instant_count == 0;
    if ((!mtp__is_recording(t) && !t->made_window) || w->lane_count == 0 || (empty && !t->has_ledger))
        return;
    uint32_t pid = w->lanes[0].pid;
    for (uint32_t i = 0; i < w->row_count; i++)
        if (!w->rows[i].on_device && (uint64_t)w->rows[i].pid == t->pid)
            pid = w->rows[i].out_pid;
    while (!take(n, &n->tids, pid, n->next_tid))
        n->next_tid++;
    w->window = (mtp__lane){.number = 1, .pid = pid, .tid = n->next_tid};
    lane_text(&w->window);
}

/* lanes: the number of lanes of each track. */
static mtp_status number_all(mtp__chrome *w, const uint32_t *lanes)
{
    const mtp_trace *t = w->t;
    numbering n = {.next_pid = OTHER_PIDS, .next_tid = OTHER_TIDS};
    for (uint32_t k = 0; k < t->track_count; k++)
        w->lane_count += lanes[k];
    w->lanes = mtp__calloc((size_t)w->lane_count + 1, sizeof *w->lanes);
    if (w->lanes == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "%u rows", w->lane_count);
    if (w->job != NULL && w->job->next_pid != 0) { /* numbers that other traces took stay taken */
        n.pids = w->job->pids;
        n.next_pid = w->job->next_pid;
    }
    mtp_status status = number_processes(w, &n);
    if (status == MTP_OK)
        status = number_lanes(w, &n, lanes);
    if (status == MTP_OK)
        number_window(w, &n);
    if (n.no_memory)
        status = MTP_FAIL(MTP_E_NOMEM, "the rows of %u tracks", t->track_count);
    mtp__pair_map_fini(&n.process);
    if (w->job != NULL) {
        w->job->pids = n.pids;
        w->job->next_pid = n.next_pid;
    } else {
        mtp__pair_map_fini(&n.pids);
    }
    mtp__pair_map_fini(&n.tids);
    return status;
}

mtp_status mtp__chrome_rows(mtp__chrome *w)
{
    const mtp_trace *t = w->t;
    uint32_t *lanes = mtp__calloc((size_t)t->track_count + 1, sizeof *lanes);
    w->first_lane = mtp__calloc((size_t)t->track_count + 1, sizeof *w->first_lane);
    if (lanes == NULL || w->first_lane == NULL) {
        mtp__free(lanes);
        return MTP_FAIL(MTP_E_NOMEM, "the rows of %u tracks", t->track_count);
    }
    mtp_status status = mtp__chrome_lanes(t, lanes, &w->lane_of);
    if (status == MTP_OK)
        status = number_all(w, lanes);
    mtp__free(lanes);
    bool is_new;
    for (uint32_t i = 0; status == MTP_OK && i < t->process_count; i++)
        if (mtp__pair_put(&w->processes, (uint64_t)t->processes[i].pid,
                          (uint64_t)t->processes[i].pid_text << 1 | t->processes[i].on_device, i,
                          &is_new) == NULL)
            status = MTP_FAIL(MTP_E_NOMEM, "%u processes", t->process_count);
    return status;
}

/* -------------------------------------------------------------------------------------------- names */

/* {"name": "thread_name", "ph": "M", "ts": 1.000, "pid": 1, "tid": 2, "args": { */
static void meta_open(mtp__chrome *w, const char *name, uint64_t ts, uint32_t pid, uint32_t tid)
{
    mtp__out *o = &w->out;
    char *p = mtp__out_room(o);
    o->at = mtp__chrome_put_comma(w, p);
    MTP__OUT(o, "{\"name\": \"");
    mtp__out_text(o, name);
    MTP__OUT(o, "\", \"ph\": \"M\", \"ts\": ");
    p = mtp__out_room(o);
    o->at = mtp__chrome_put_time(w, p, ts);
    MTP__OUT(o, ", \"pid\": ");
    mtp__out_u64(o, pid);
    MTP__OUT(o, ", \"tid\": ");
    mtp__out_u64(o, tid);
    MTP__OUT(o, ", \"args\": {");
}

static void sort_event(mtp__chrome *w, const char *name, uint64_t ts, uint32_t pid, uint32_t tid,
                       int64_t index)
{
    meta_open(w, name, ts, pid, tid);
    MTP__OUT(&w->out, "\"sort_index\": ");
    mtp__out_i64(&w->out, index);
    MTP__OUT(&w->out, "}}");
}

static const mtp__process *process_of(const mtp__chrome *w, const mtp__process_row *row)
{
    bool on_device = row->on_device && mtp__is_recording(w->t); /* a file has its own pids for devices */
    uint64_t *at =
        mtp__pair_find(&w->processes, (uint64_t)row->pid, (uint64_t)row->pid_text << 1 | on_device);
    return at != NULL ? &w->t->processes[*at] : NULL;
}

static void process_name(mtp__chrome *w, const mtp__process_row *row, const mtp__process *known)
{
    mtp__out *o = &w->out;
    mtp_text name =
        mtp__trace_get_text(w->t, known != NULL && known->name != 0 ? known->name : row->pid_text);
    MTP__OUT(o, "\"");
    if (w->job != NULL) {
        MTP__OUT(o, "rank ");
        mtp__out_i64(o, w->job->rank);
        MTP__OUT(o, ": ");
    }
    if (name.length > 0) {
        mtp__out_string_inside(o, name.bytes, name.length);
    } else {
        mtp__out_text(o, row->on_device ? "device " : "process ");
        mtp__out_i64(o, row->pid);
    }
    MTP__OUT(o, "\"");
}

/* User metadata is at the top of the file, where readers look; and also here, since users of the MindTorch
 * profiler look among the metadata events, of which some readers allow only five names. */
static void process_labels(mtp__chrome *w, const mtp__process_row *row, const mtp__process *known, bool first)
{
    mtp__out *o = &w->out;
    MTP__OUT(o, "\"labels\": ");
    if (known != NULL && known->labels != 0) {
        mtp__chrome_text(w, known->labels);
    } else if (row->on_device) {
        mtp__out_text(o, !mtp__is_recording(w->t) ? "\"GPU " : "\"NPU ");
        mtp__out_i64(o, row->pid);
        MTP__OUT(o, "\"");
    } else {
        MTP__OUT(o, "\"CPU\"");
    }
    if (first && mtp__is_recording(w->t) && w->t->metadata_count > 0) {
        MTP__OUT(o, ", \"metadata\": {");
        mtp__chrome_metadata(w, "");
        MTP__OUT(o, "}");
    }
}

static void process_events(mtp__chrome *w, const mtp__process_row *row, uint64_t ts, bool first)
{
    const mtp__process *known = process_of(w, row);
    int64_t index = row->out_pid;
    if (known != NULL && known->sort_index != INT64_MIN)
        index = known->sort_index;
    else if (row->on_device && row->pid >= 0 && row->pid < OTHER_PIDS)
        index = DEVICE_PIDS + row->pid;
    if (w->job != NULL) /* rank by rank, hosts first */
        index = w->job->rank * JOB_ROWS + (row - w->rows);
    meta_open(w, "process_name", ts, row->out_pid, row->first_tid);
    MTP__OUT(&w->out, "\"name\": ");
    process_name(w, row, known);
    MTP__OUT(&w->out, "}}");
    meta_open(w, "process_labels", ts, row->out_pid, row->first_tid);
    process_labels(w, row, known, first);
    MTP__OUT(&w->out, "}}");
    sort_event(w, "process_sort_index", ts, row->out_pid, row->first_tid, index);
}

/* A thread's name is as Kineto has it, or (ours) the bare name; an extra row names the one it belongs to. */
static void thread_name(mtp__chrome *w, const mtp__lane *lane, const mtp__track *track)
{
    mtp__out *o = &w->out;
    mtp_text name = mtp__trace_get_text(w->t, track->name != 0 ? track->name : track->tid_text);
    MTP__OUT(o, "\"");
    if (name.length > 0 && (!mtp__is_recording(w->t) || track->on_device)) {
        mtp__out_string_inside(o, name.bytes, name.length);
    } else {
        mtp__out_text(o, track->on_device ? "stream " : "thread ");
        mtp__out_i64(o, track->tid);
        if (name.length > 0) {
            MTP__OUT(o, " (");
            mtp__out_string_inside(o, name.bytes, name.length);
            MTP__OUT(o, ")");
        } else if (track->on_device && lane->number == 1) {
            MTP__OUT(o, " ");
        }
    }
    if (lane->number > 1) {
        MTP__OUT(o, " (");
        mtp__out_u64(o, lane->number);
        MTP__OUT(o, ")\", \"lane_of\": ");
        mtp__out_u64(o, w->lanes[w->first_lane[lane->track]].tid);
    } else {
        MTP__OUT(o, "\"");
    }
}

static void thread_events(mtp__chrome *w, const mtp__lane *lane, uint64_t ts)
{
    const mtp__track *track = &w->t->tracks[lane->track];
    int64_t index = lane->tid;
    if (track->sort_index != INT64_MIN)
        index = track->sort_index;
    else if (track->tid_text == 0 && track->tid > INT32_MIN && track->tid < INT32_MAX)
        index = track->tid;
    meta_open(w, "thread_name", ts, lane->pid, lane->tid);
    MTP__OUT(&w->out, "\"name\": ");
    thread_name(w, lane, track);
    MTP__OUT(&w->out, "}}");
    sort_event(w, "thread_sort_index", ts, lane->pid, lane->tid, index);
}

void mtp__chrome_row_events(mtp__chrome *w, uint64_t ts)
{
    for (uint32_t i = 0; i < w->row_count; i++)
        process_events(w, &w->rows[i], ts, i == 0);
    for (uint32_t i = 0; i < w->lane_count; i++)
        thread_events(w, &w->lanes[i], ts);
    if (w->window.tid == 0)
        return;
    meta_open(w, "thread_name", ts, w->window.pid, w->window.tid);
    MTP__OUT(&w->out, "\"name\": \"PyTorch Profiler\"}}");
    sort_event(w, "thread_sort_index", ts, w->window.pid, w->window.tid, WINDOW_SORT);
}
