#include "trace/records/dictionary.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/bisect.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/guard.h"
#include "base/json_check.h"
#include "base/os.h"
#include "trace/build.h"
#include "trace/json/member.h"
#include "trace/shape_text.h"

#define ID_NEAR (1u << 20) /* a damaged file must not make us allocate by its numbers */
#define FRAME_ROOM 8192    /* a path, and the name of a template function */

uint32_t mtp__id_get_far(const mtp__id_list *list, uint32_t id)
{
    const uint64_t *page = mtp__pair_find(&list->pages, id / MTP__ID_PAGE, 0);
    return page != NULL ? ((const uint32_t *)(uintptr_t)*page)[id % MTP__ID_PAGE] : 0;
}

static bool id_set_far(mtp_trace *t, mtp__id_list *list, uint32_t id, uint32_t to)
{
    bool is_new;
    uint64_t *page = mtp__pair_put(&list->pages, id / MTP__ID_PAGE, 0, 0, &is_new);
    if (page != NULL && *page == 0)
        *page = (uint64_t)(uintptr_t)mtp__calloc(MTP__ID_PAGE, sizeof(uint32_t));
    if (page == NULL || *page == 0) {
        t->builder->out_of_memory = true;
        return false;
    }
    ((uint32_t *)(uintptr_t)*page)[id % MTP__ID_PAGE] = to;
    return true;
}

static void id_list_fini(mtp__id_list *list)
{
    mtp__free(list->id);
    const uint64_t *page;
    for (size_t at = 0; (page = mtp__pair_next(&list->pages, &at)) != NULL;)
        mtp__free((void *)(uintptr_t)*page);
    mtp__pair_map_fini(&list->pages);
}

static bool id_set(mtp_trace *t, mtp__id_list *list, uint32_t id, uint32_t to)
{
    if (id >= ID_NEAR)
        return id_set_far(t, list, id, to);
    if (!MTP__GROW(list->id, list->room, list->room, (size_t)id + 1, 64)) {
        t->builder->out_of_memory = true;
        return false;
    }
    list->id[id] = to;
    return true;
}

void mtp__dictionary_fini(mtp__dictionary *d)
{
    mtp__id_list *const lists[] = {&d->names,  &d->session_names, &d->shapes,
                                   &d->frames, &d->stacks,        &d->texts};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        id_list_fini(lists[i]);
    if (d->placing == NULL || d->placing->line == NULL || d->line.point != d->placing->line->point)
        mtp__ticks_fini(&d->line);
    mtp__free(d->streams);
    mtp__free(d->devices);
    mtp__free(d->stops);
    mtp__blob_parts_fini(&d->parts);
    if (d->placing == NULL)
        mtp__symbols_fini(&d->symbols);
    else
        *d->placing->symbols = d->symbols;
}

void mtp__dictionary_rewind(mtp__dictionary *d)
{
    d->line.count = 0;
    d->stop_count = 0;
}

const mtp__stream_info *mtp__dictionary_stream(const mtp__dictionary *d, uint32_t stream)
{
    for (uint32_t i = 0; i < d->stream_count; i++)
        if (d->streams[i].stream == stream)
            return &d->streams[i];
    return NULL;
}

uint64_t mtp__dictionary_stop(const mtp__dictionary *d, uint32_t cycle)
{
    uint32_t low = 0, high = d->stop_count;
    MTP__BISECT(low, high, middle, d->stops[middle].cycle < cycle)
    return low < d->stop_count && d->stops[low].cycle == cycle ? d->stops[low].ticks : 0;
}

static void define_stop(mtp__dictionary *d, uint32_t cycle)
{
    mtp__cycle_stop stop = {cycle, d->last_ticks};
    void *list = d->stops;
    mtp__list_add(d->trace, &list, &d->stop_count, sizeof stop, &stop);
    d->stops = list;
}

/* A thread is redefined when its name changes: the last name wins, unless it is empty. */
static void define_thread(mtp__dictionary *d, uint32_t stream, uint32_t tid, uint32_t name)
{
    mtp_trace *t = d->trace;
    for (uint32_t i = 0; i < d->stream_count; i++)
        if (d->streams[i].stream == stream) {
            if (name != 0)
                d->streams[i].name = name;
            return;
        }
    mtp__stream_info info = {stream, tid, name};
    void *list = d->streams;
    mtp__list_add(t, &list, &d->stream_count, sizeof info, &info);
    d->streams = list;
}

/* A program that is not distributed is rank 0 of 1. */
static int64_t rank_of(mtp_text info)
{
    int64_t rank = -1, world = 0;
    mtp__member_whole(info, "world_size", &world);
    return world != 1 && mtp__member_whole(info, "rank", &rank) && rank >= 0 ? rank : -1;
}

static void define_metadata(mtp__dictionary *d, uint32_t id, const char *blob, size_t length)
{
    const char *nul = length > 1 ? memchr(blob + 1, 0, length - 1) : NULL;
    if (nul == NULL || id <= d->metadata_seen || (!d->second_pass && !d->glance))
        return;
    d->metadata_seen = id;
    size_t key = (size_t)(nul - blob - 1), value = length - key - 2;
    if (d->glance) {
        if (strcmp(blob + 1, "distributedInfo") == 0)
            d->rank = rank_of((mtp_text){nul + 1, value});
        return;
    }
    if (blob[0] == 'j')
        mtp__trace_add_meta(d->trace, blob + 1, key, nul + 1, value);
    else
        mtp__trace_add_meta_text(d->trace, blob + 1, key, nul + 1, value);
}

/* Redefined in each cycle: the last one wins. */
static void define_device(mtp__dictionary *d, uint32_t device, const char *blob, size_t length)
{
    const char *nul = memchr(blob, 0, length);
    size_t wrong, name = nul != NULL ? (size_t)(nul - blob) : 0;
    if (nul == NULL || !mtp__json_check(nul + 1, length - name - 1, &wrong))
        return;
    mtp__device_text info = {device, mtp__trace_text(d->trace, blob, name),
                             mtp__trace_text(d->trace, nul + 1, length - name - 1)};
    uint32_t at = 0;
    while (at < d->device_count && d->devices[at].device < device)
        at++;
    if (at == d->device_count || d->devices[at].device != device) {
        void *list = d->devices;
        if (mtp__list_add(d->trace, &list, &d->device_count, sizeof info, &info) == MTP__NONE)
            return;
        d->devices = list;
        memmove(d->devices + at + 1, d->devices + at, (d->device_count - 1 - at) * sizeof info);
    }
    d->devices[at] = info;
}

/* A native frame whose name the recording could not know is looked up now. */
static void define_frame(mtp__dictionary *d, uint32_t id, const char *blob, size_t length)
{
    char text[FRAME_ROOM];
    if (length > 2 && length < sizeof text && memcmp(blob + length - 2, ":?", 2) == 0) {
        length = mtp__symbols_text(&d->symbols, blob, length, text, sizeof text);
        blob = text;
        d->trace->builder->out_of_memory |= d->symbols.out_of_memory;
    }
    id_set(d->trace, &d->frames, id, mtp__trace_text(d->trace, blob, length));
}

static void define(mtp__dictionary *d, unsigned kind, uint32_t id, uint32_t tid, const char *blob,
                   size_t length)
{
    mtp_trace *t = d->trace;
    switch (kind) {
    case MTP__CONTROL_NAME:
        id_set(t, (id & 0x80000000u) != 0 ? &d->session_names : &d->names, id & 0x7fffffffu,
               mtp__trace_text(t, blob, length));
        break;
    case MTP__CONTROL_SHAPE: {
        if (mtp__id_get(&d->shapes, id) != 0)
            break;
        id_set(t, &d->shapes, id, mtp__shape_from_words(t, (const uint64_t *)(const void *)blob, length / 8));
        break;
    }
    case MTP__CONTROL_FRAME:
        define_frame(d, id, blob, length);
        break;
    case MTP__CONTROL_STACK: {
        uint32_t pair[2];
        if (length != sizeof pair || mtp__id_get(&d->stacks, id) != 0)
            break;
        memcpy(pair, blob, sizeof pair);
        id_set(t, &d->stacks, id,
               mtp__trace_add_stack(t, mtp__id_get(&d->stacks, pair[0]), mtp__id_get(&d->frames, pair[1])));
        break;
    }
    case MTP__CONTROL_TEXT:
        id_set(t, &d->texts, id, mtp__trace_text(t, blob, length));
        break;
    case MTP__CONTROL_METADATA:
        define_metadata(d, id, blob, length);
        break;
    case MTP__CONTROL_THREAD:
        define_thread(d, id, tid, mtp__trace_text(t, blob, length));
        break;
    case MTP__CONTROL_DEVICE:
        define_device(d, id, blob, length);
        break;
    case MTP__CONTROL_TRACE_ID:
        if (d->second_pass)
            mtp__trace_set_meta_text(t, "trace_id", blob, length);
        break;
    case MTP__CONTROL_PROCESS:
        t->command = mtp__trace_text(t, blob, length);
        break;
    default:
        break; /* from a newer writer */
    }
}

static void read_blob(mtp__dictionary *d, unsigned kind, const uint64_t *w, uint32_t count)
{
    mtp__blob blob;
    if (mtp__blob_take(&d->parts, kind, w, count, &blob))
        define(d, kind, blob.id, blob.tid, blob.bytes, blob.length);
}

bool mtp__ledger_read(mtp_ledger *ledger, const uint64_t *w, uint32_t count)
{
    if (count < 4)
        return false;
    *ledger = (mtp_ledger)MTP_LEDGER_INIT;
    ledger->emitted = w[0];
    ledger->kept = w[1];
    ledger->dropped = w[2];
    ledger->lost_definitions = w[3];
    for (uint32_t i = 4; i < count && i - 4 < 16; i++)
        ledger->dropped_by[i - 4] = w[i];
    return true;
}

static void read_ledger(mtp_trace *t, const uint64_t *w, uint32_t count)
{
    if (mtp__ledger_read(&t->ledger, w, count))
        t->has_ledger = true;
}

/* The record was written right after the clocks were read, so the two ticks are close. */
bool mtp__anchor_read(mtp__tick_line *line, const uint64_t *w, uint32_t count, uint64_t written)
{
    mtp__anchor a = {w[0], w[1], w[2], count > 3 ? w[3] : 0, count > 4 ? w[4] : 0};
    const uint64_t most = (uint64_t)1 << 40;   /* ticks: minutes */
    const bool again = count > 5 && w[5] == 1; /* a ring re-emits old ones */
    if (a.ticks <= written + most && (again || a.ticks + most >= written))
        return mtp__ticks_add(line, &a);
    line->faults++;
    return true;
}

static void read_session(mtp__dictionary *d, const uint64_t *w, uint32_t count)
{
    mtp_trace *t = d->trace;
    t->pid = count > 0 ? w[0] : 0;
    t->flags_recorded = count > 1 ? (uint32_t)w[1] : 0;
    d->clock = count > 3 ? w[3] : 0;
    t->clock_uncertain |= (d->clock & MTP__CLOCK_IN_TROUBLE) != 0;
    if (count >= 5)
        memcpy(&d->ticks_per_ns, &w[4], sizeof d->ticks_per_ns);
    t->parent_pid = count > 5 ? w[5] : 0;
    if (count > 7) {
        memcpy(d->boot, &w[6], sizeof d->boot);
        memcpy(t->boot, d->boot, sizeof t->boot);
    }
}

static void read_one(mtp__dictionary *d, unsigned kind, const uint64_t *w, uint32_t count)
{
    switch (kind) {
    case MTP__CONTROL_ANCHOR:
        if (!d->second_pass && count >= 3 && !mtp__anchor_read(&d->line, w, count, d->last_ticks))
            d->trace->builder->out_of_memory = true;
        break;
    case MTP__CONTROL_SESSION:
        read_session(d, w, count);
        break;
    case MTP__CONTROL_CYCLE:
        if (count > 0 && w[0] >> 32 == 0 && !d->second_pass)
            define_stop(d, (uint32_t)w[0]);
        break;
    case MTP__CONTROL_LEDGER:
        read_ledger(d->trace, w, count);
        break;
    default:
        if (!d->glance || kind == MTP__CONTROL_PROCESS || kind == MTP__CONTROL_METADATA)
            read_blob(d, kind, w, count);
    }
}

void mtp__dictionary_complete(mtp__dictionary *d, const mtp__spool_header *h)
{
    const mtp__anchor made = {h->ticks, h->monotonic_ns, h->realtime_ns, 0, 0};
    if (d->ticks_per_ns == 0)
        d->ticks_per_ns = h->ticks_per_ns;
    if (d->line.count == 0 && !mtp__ticks_add(&d->line, &made))
        d->trace->builder->out_of_memory = true;
}

/* Names go with the last of the control stream, where nothing counts it: of a file that was cut, and never stopped. */
static bool lost_names(const mtp_trace *t)
{
    return t->outcome != MTP_OUTCOME_LIVE && t->damaged_chunks + t->missing_chunks == 0 &&
           t->ledger.lost_definitions == 0;
}

void mtp__dictionary_report(mtp_trace *t, const mtp__spool_report *report, bool nameless)
{
    t->chunks = report->total;
    t->damaged_chunks = report->damaged;
    t->damaged_header = report->header_damaged;
    t->missing_chunks = report->missing;
    t->outcome = report->outcome;
    if (t->pid == 0)
        t->pid = report->pid;
    if (report->complete && report->header.totals.known == 1)
        read_ledger(t, report->header.totals.ledger, MTP__LEDGER_ROOM);
    if (nameless && lost_names(t)) {
        t->damaged_chunks = 1;
        t->chunks++;
    }
}

mtp_status mtp__dictionary_read(mtp__dictionary *d, const mtp__chunk *chunk, const uint64_t *words,
                                uint32_t count)
{
    for (uint32_t at = 0; at < count;) {
        uint32_t length = MTP__WORD0_LENGTH(words[at]);
        if (length == 0)
            length = at + 1 < count ? (uint32_t)(words[at + 1] >> 32) : 0;
        if (length == 0 || length > count - at)
            break; /* the visitor ruled this out */
        d->last_ticks = mtp__word0_full_ticks(words[at], chunk->base_ticks);
        if (MTP__WORD0_KIND(words[at]) == MTP__KIND_CONTROL && length >= 2)
            read_one(d, MTP__CONTROL_KIND(words[at + 1]), words + at + 2, length - 2);
        at += length;
    }
    return MTP_OK;
}

void mtp__dictionary_add_process(mtp__dictionary *d)
{
    MTP__UNCANCELLED;
    char name[64] = "";
    FILE *f = d->trace->pid == (uint64_t)getpid() ? fopen("/proc/self/comm", "r") : NULL;
    size_t n = f != NULL ? fread(name, 1, sizeof name - 1, f) : 0;
    if (f != NULL)
        fclose(f);
    if (n > 0 && name[n - 1] == '\n')
        n--;
    const mtp__placing *p = d->placing;
    mtp__process process = {.pid = (int64_t)d->trace->pid,
                            .name = n > 0 ? mtp__trace_text(d->trace, name, n) : d->trace->command,
                            .labels = mtp__trace_text(d->trace, "CPU", 3),
                            .sort_index = (int64_t)d->trace->pid};
    if (p != NULL) {
        process.pid_text = p->pid_text;
        process.name = p->label;
        process.sort_index = p->part;
    }
    mtp__trace_add_process(d->trace, &process);
}
