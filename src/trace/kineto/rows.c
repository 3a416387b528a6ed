/* trace/kineto/rows.c - rows of the file to tracks of the model.
 *
 * A row is a pid and tid of the file. Its CPU spans are put on one track. Device work is put on the track of
 * its device and stream: those in args if present, else pid and tid; so lanes that a writer put beside a
 * stream are merged again, and a process with pid 1 is not mistaken for device 1. Anything that is not a
 * span, or has an uninformative category, is put on the track that the row has; if it comes first it creates
 * one, which becomes a device's or the CPU's depending on what follows.
 */
#include <stdio.h>
#include <string.h>
#include "trace/kineto/reader.h"

/* ------------------------------------------------------------------------------------------ processes */

static uint32_t process_of(mtp__kineto *k, int64_t pid, uint32_t pid_text)
{
    if (!MTP__KINETO_ROOM(k, k->processes, k->process_room, k->process_count))
        return MTP__NONE;
    bool is_new;
    uint64_t *at = mtp__pair_put(&k->processes_by_pid, (uint64_t)pid, pid_text, k->process_count, &is_new);
    k->no_memory |= at == NULL;
    if (at != NULL && is_new)
        k->processes[k->process_count++] = (mtp__kineto_process){
            .model = {.pid = pid, .pid_text = pid_text, .sort_index = INT64_MIN}, .device = -1};
    return at != NULL ? (uint32_t)*at : MTP__NONE;
}

/* ----------------------------------------------------------------------------------------------- rows */

static uint32_t row_get(mtp__kineto *k, const mtp__kineto_row_key *key)
{
    uint32_t *at = mtp__hash_map_find(&k->rows_by_key, key, sizeof *key, sizeof *at);
    if (at != NULL)
        return *at;
    uint32_t process = process_of(k, key->pid, key->pid_text);
    if (process == MTP__NONE || !MTP__KINETO_ROOM(k, k->rows, k->row_room, k->row_count))
        return MTP__NONE;
    bool is_new;
    at = mtp__hash_map_put(&k->rows_by_key, key, sizeof *key, sizeof *at, &is_new);
    if (at == NULL) {
        k->no_memory = true;
        return MTP__NONE;
    }
    *at = (uint32_t)k->row_count;
    k->rows[k->row_count++] = (mtp__kineto_row){.key = *key,
                                                .track = MTP__NONE,
                                                .process = process,
                                                .device_row = MTP__NONE,
                                                .lane_of = MTP__NONE,
                                                .sort_index = INT64_MIN,
                                                .last_ns = INT64_MIN,
                                                .last_pair_ns = INT64_MIN};
    return *at;
}

uint32_t mtp__kineto_row_of(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    bool numbers = !e->pid.is_text && !e->tid.is_text;
    if (numbers && k->last_row != MTP__NONE && e->pid.number == k->last_pid && e->tid.number == k->last_tid)
        return k->last_row;
    mtp__kineto_row_key key = {.pid = e->pid.is_text ? 0 : e->pid.number,
                               .tid = e->tid.is_text ? 0 : e->tid.number,
                               .pid_text = e->pid.is_text ? mtp__kineto_string(k, &e->pid.text) : 0,
                               .tid_text = e->tid.is_text ? mtp__kineto_string(k, &e->tid.text) : 0,
                               .space = MTP__SPACE_FILE};
    uint32_t row = row_get(k, &key);
    if (row != MTP__NONE && k->rows[row].lane_of != MTP__NONE)
        row = k->rows[row].lane_of;
    if (numbers) {
        k->last_row = row;
        k->last_pid = e->pid.number;
        k->last_tid = e->tid.number;
    }
    return row;
}

/* The row's track, created if needed. */
static bool row_track(mtp__kineto *k, uint32_t row, bool on_device)
{
    mtp__kineto_row *r = &k->rows[row];
    if (r->track != MTP__NONE)
        return true;
    mtp__track track = {.pid = r->key.pid,
                        .tid = r->key.tid,
                        .pid_text = r->key.pid_text,
                        .tid_text = r->key.tid_text,
                        .name = r->name,
                        .sort_index = r->sort_index,
                        .on_device = on_device};
    r->track = mtp__trace_add_track(k->trace, &track);
    k->no_memory |= r->track == MTP__NONE;
    return r->track != MTP__NONE;
}

/* The index of a device in the trace: its own, unless another process in the file uses it. Files merged from
 * several ranks have a device 0 each; they are told apart by pid, as in the file. */
static int64_t device_index(mtp__kineto *k, uint32_t row, int64_t device)
{
    const mtp__kineto_row_key *key = &k->rows[row].key;
    uint64_t process = (uint64_t)k->rows[row].process + 1; /* 0 marks an index in use */
    uint64_t *known = mtp__pair_find(&k->devices, process, (uint64_t)device);
    if (known != NULL)
        return (int64_t)*known;
    int64_t index = device;
    bool is_new;
    if (mtp__pair_find(&k->devices, 0, (uint64_t)index) != NULL) {
        index = key->pid_text == 0 && key->pid >= 0 && key->pid <= INT16_MAX ? key->pid : k->next_device;
        while (mtp__pair_find(&k->devices, 0, (uint64_t)index) != NULL)
            index = k->next_device++;
    }
    if (mtp__pair_put(&k->devices, 0, (uint64_t)index, 0, &is_new) == NULL ||
        mtp__pair_put(&k->devices, process, (uint64_t)device, (uint64_t)index, &is_new) == NULL)
        k->no_memory = true;
    return index;
}

/* The row for device work found in `row` of the file. */
static uint32_t row_on_device(mtp__kineto *k, uint32_t row, uint64_t *taken)
{
    mtp__kineto_row_key key = k->rows[row].key;
    int64_t device = key.pid, stream = key.tid;
    key.space = MTP__SPACE_DEVICE;
    if (mtp__kineto_signed(k, MTP__ARG_DEVICE, &device) ||
        mtp__kineto_signed(k, MTP__ARG_ON_DEVICE, &device)) {
        *taken |= MTP__ARG_BIT(DEVICE) | MTP__ARG_BIT(ON_DEVICE);
        key.pid = device_index(k, row, device);
        key.pid_text = 0;
        k->processes[k->rows[row].process].device = key.pid;
    } else if (k->processes[k->rows[row].process].device >= 0) {
        key.pid = k->processes[k->rows[row].process].device;
        key.pid_text = 0;
    }
    if (mtp__kineto_signed(k, MTP__ARG_STREAM, &stream) ||
        mtp__kineto_signed(k, MTP__ARG_ON_STREAM, &stream)) {
        *taken |= MTP__ARG_BIT(STREAM) | MTP__ARG_BIT(ON_STREAM);
        key.tid = stream;
        key.tid_text = 0;
    }
    uint32_t at = k->rows[row].device_row;
    if (at != MTP__NONE && memcmp(&k->rows[at].key, &key, sizeof key) == 0)
        return at;
    at = row_get(k, &key);
    if (at == MTP__NONE)
        return MTP__NONE;
    mtp__kineto_row *r = &k->rows[row], *on = &k->rows[at];
    r->device_row = at;
    if (on->track == MTP__NONE && r->track != MTP__NONE &&
        !r->has_cpu) { /* what came first belongs to the device */
        mtp__track *track = &k->trace->tracks[r->track];
        on->track = r->track;
        on->last_ns = r->last_ns;
        on->last_pair_ns = r->last_pair_ns;
        on->name = on->name != 0 ? on->name : r->name;
        r->track = MTP__NONE;
        track->pid = key.pid;
        track->tid = key.tid;
        track->pid_text = key.pid_text;
        track->tid_text = key.tid_text;
        track->on_device = true;
    }
    return at;
}

bool mtp__kineto_on_device_row(mtp__kineto *k)
{
    int64_t device;
    uint32_t row = mtp__kineto_row_of(k);
    return row != MTP__NONE &&
           (k->processes[k->rows[row].process].is_device || mtp__kineto_signed(k, MTP__ARG_DEVICE, &device));
}

uint32_t mtp__kineto_row_for(mtp__kineto *k, mtp__category category, uint64_t *taken)
{
    uint32_t row = category == MTP__CATEGORY_OTHER ? mtp__kineto_row_any(k) : mtp__kineto_row_of(k);
    if (row == MTP__NONE)
        return MTP__NONE;
    bool on_device = mtp__category_on_device(category);
    if (category == MTP__CATEGORY_OTHER) {
        k->rows[row].other_spans++;
        return row;
    }
    if (on_device) {
        row = row_on_device(k, row, taken);
        if (row == MTP__NONE)
            return MTP__NONE;
    } else {
        k->rows[row].has_cpu = true;
        k->rows[row].cpu_spans++;
    }
    return row_track(k, row, on_device) ? row : MTP__NONE;
}

uint32_t mtp__kineto_row_any(mtp__kineto *k)
{
    uint32_t row = mtp__kineto_row_of(k);
    if (row == MTP__NONE)
        return MTP__NONE;
    if (k->rows[row].track == MTP__NONE && k->rows[row].device_row != MTP__NONE)
        row = k->rows[row].device_row;
    return row_track(k, row, k->rows[row].key.space == MTP__SPACE_DEVICE) ? row : MTP__NONE;
}

/* Asynchronous events with the same id get a separate row in their process: "category id". */
uint32_t mtp__kineto_row_async(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    uint32_t file = mtp__kineto_row_of(k);
    if (file == MTP__NONE)
        return MTP__NONE;
    char number[32];
    int digits = snprintf(number, sizeof number, "%lld", (long long)e->id.number);
    mtp__buffer *b = &k->rest;
    b->length = 0;
    mtp__buffer_add(b, "async ", 6);
    mtp__buffer_add(b, e->category.bytes, e->category.length);
    mtp__buffer_add(b, " ", e->category.length != 0);
    if (e->id.is_text)
        mtp__buffer_add(b, e->id.text.bytes, e->id.text.length);
    else
        mtp__buffer_add(b, number, (size_t)digits);
    k->no_memory |= b->failed;
    mtp__kineto_row_key key = k->rows[file].key;
    key.tid = 0;
    key.tid_text = b->failed ? 0 : mtp__kineto_text(k, b->bytes, b->length);
    key.space = MTP__SPACE_ASYNC;
    uint32_t row = row_get(k, &key);
    return row != MTP__NONE && row_track(k, row, false) ? row : MTP__NONE;
}

/* ---------------------------------------------------------------------------------- names and the end */

/* Labels of a device: "GPU 0", "NPU 1", ... */
static bool is_device_label(mtp_text text)
{
    static const char *const kinds[] = {"GPU ", "NPU ", "XPU ", "HPU ", "MTIA "};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i]);
        if (text.length > n && memcmp(text.bytes, kinds[i], n) == 0 && text.bytes[n] >= '0' &&
            text.bytes[n] <= '9')
            return true;
    }
    return false;
}

static bool is_named(const mtp__kineto_event *e, const char *name)
{
    return e->name.length == strlen(name) && memcmp(e->name.bytes, name, e->name.length) == 0;
}

/* Moves the contents of a row that our writer put beside another back to that row. */
static bool put_back(mtp__kineto *k, uint32_t row)
{
    mtp__kineto_row_key key = k->rows[row].key;
    if (!mtp__kineto_signed(k, MTP__ARG_LANE_OF, &key.tid) || key.tid == k->rows[row].key.tid)
        return false;
    uint32_t of = row_get(k, &key);
    if (of == MTP__NONE || k->rows[row].track != MTP__NONE || k->rows[of].lane_of != MTP__NONE)
        return of == MTP__NONE;
    k->rows[row].lane_of = of;
    k->last_row = MTP__NONE;
    return true;
}

bool mtp__kineto_describe(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    uint32_t row = mtp__kineto_row_of(k), text = 0;
    if (row == MTP__NONE)
        return true;
    mtp__kineto_row *r = &k->rows[row];
    mtp__kineto_process *p = &k->processes[r->process];
    int64_t index = INT64_MIN;
    if (is_named(e, "process_name") && mtp__kineto_arg_text(k, MTP__ARG_NAME, &text)) {
        p->model.name = text;
    } else if (is_named(e, "process_labels") && mtp__kineto_arg_text(k, MTP__ARG_LABELS, &text)) {
        p->model.labels = text;
        p->is_device = is_device_label(mtp__trace_get_text(k->trace, text));
    } else if (is_named(e, "process_sort_index") && mtp__kineto_signed(k, MTP__ARG_SORT_INDEX, &index)) {
        p->model.sort_index = index;
    } else if (is_named(e, "thread_name") && mtp__kineto_arg_text(k, MTP__ARG_NAME, &text)) {
        if (!put_back(k, row))
            k->rows[row].name = text;
        return true;
    } else if (is_named(e, "thread_sort_index") && mtp__kineto_signed(k, MTP__ARG_SORT_INDEX, &index)) {
        r->sort_index = index;
        return true;
    } else {
        return false;
    }
    p->described = true;
    return true;
}

static void name_track(mtp__kineto *k, uint32_t track, const mtp__kineto_row *from)
{
    mtp__track *t = &k->trace->tracks[track];
    t->name = t->name != 0 ? t->name : from->name;
    t->sort_index = t->sort_index != INT64_MIN ? t->sort_index : from->sort_index;
}

/* The process with most CPU spans; if no category identifies any, with most that could be. */
static void find_pid(mtp__kineto *k)
{
    uint64_t most = 0;
    for (int sure = 1; sure >= 0 && most == 0; sure--)
        for (size_t i = 0; i < k->process_count; i++) {
            const mtp__kineto_process *p = &k->processes[i];
            uint64_t spans = sure ? p->cpu_spans : p->is_device ? 0 : p->other_spans;
            if (spans > most && p->model.pid > 0) {
                most = spans;
                k->trace->pid = (uint64_t)p->model.pid;
            }
        }
}

void mtp__kineto_rows_finish(mtp__kineto *k)
{
    for (size_t i = 0; i < k->row_count && !k->no_memory; i++) {
        mtp__kineto_row *r = &k->rows[i];
        mtp__kineto_process *p = &k->processes[r->process];
        p->cpu_spans += r->cpu_spans;
        p->other_spans += r->other_spans;
        if (r->key.space != MTP__SPACE_FILE)
            continue;
        if (r->track == MTP__NONE && r->device_row == MTP__NONE && !r->made &&
            (r->name != 0 || r->sort_index != INT64_MIN) && row_track(k, (uint32_t)i, false)) {
            mtp__track *track = &k->trace->tracks[r->track]; /* it did nothing, but has a name */
            if (p->is_device && p->device >= 0) {
                track->pid = p->device;
                track->pid_text = 0;
            }
        }
        if (r->device_row != MTP__NONE)
            name_track(k, k->rows[r->device_row].track, r);
        if (r->track == MTP__NONE)
            continue;
        name_track(k, r->track, r);
        if (p->is_device && !r->has_cpu)
            k->trace->tracks[r->track].on_device = true;
    }
    find_pid(k);
    for (size_t i = 0; i < k->process_count && !k->no_memory; i++) {
        mtp__kineto_process *p = &k->processes[i];
        if (!p->described)
            continue;
        if (p->device >= 0 && p->cpu_spans == 0) {
            p->model.pid = p->device;
            p->model.pid_text = 0;
        }
        mtp__trace_add_process(k->trace, &p->model);
    }
}
