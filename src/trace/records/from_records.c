/* trace/records/from_records.c - see from_records.h. Streams are read one after the other, each in order of
 * writing, so spans are created in their final order and nothing is sorted. Begins wait for their ends in a
 * list per stream, by slot (format.h); if scopes do not end in stack order, the track is nested once all ends
 * are known. */
#include "trace/records/from_records.h"
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/os.h"
#include "record/profile.h"
#include "record/spool/spool.h"
#include "trace/records/moment.h"
#include "trace/records/reader.h"

#define LIVE_TRIES 6
#define FORGET 4096u /* fewest events to count and drop at a time */

/* ----------------------------------------------------------------------------------------- the stream */

static void keep_unfinished(mtp__reader *r, uint32_t span, uint64_t until)
{
    mtp__unfinished_span u = {span, r->cycle, r->last_ticks, until};
    MTP__KEEP(r, unfinished, unfinished_count, &u);
}

/* Open spans last to the end of their cycle: no end was recorded. */
void mtp__reader_close_stream(mtp__reader *r)
{
    for (uint32_t i = 0; i < r->open_count; i++)
        if (r->open[i].span != MTP__NONE)
            keep_unfinished(r, r->open[i].span, 0);
    r->open_count = r->gaps = 0;
    if (r->track != MTP__NONE)
        r->t->tracks[r->track].count = r->t->builder->spans.count - r->t->tracks[r->track].first;
    if (r->last_ticks > r->end_ticks)
        r->end_ticks = r->last_ticks;
}

static void stream_open(mtp__reader *r, const mtp__chunk *chunk)
{
    mtp__reader_close_stream(r);
    r->fresh = MTP__NONE;
    if (r->stream != chunk->stream || r->track == MTP__NONE) {
        const mtp__stream_info *info = mtp__dictionary_stream(&r->dict, chunk->stream);
        const mtp__placing *placing = r->dict.placing;
        mtp__track track = {.pid = (int64_t)r->t->pid,
                            .pid_text = placing != NULL ? placing->pid_text : 0,
                            .part = placing != NULL ? placing->part : 0,
                            .tid = info != NULL ? (int64_t)info->tid : (int64_t)chunk->stream,
                            .name = info != NULL ? info->name : 0,
                            .sort_index = INT64_MIN,
                            .first = r->t->builder->spans.count};
        r->track = mtp__trace_add_track(r->t, &track);
        r->last_ticks = 0;
        r->closed_ns = INT64_MIN;
    }
    r->stream = chunk->stream;
    r->cycle = chunk->cycle;
    r->depth = chunk->depth;
}

/* Records were dropped before this chunk, or a longjmp left one half written: open spans deeper than the
 * thread is now have ended meanwhile. */
static void stream_goes_on(mtp__reader *r, const mtp__chunk *chunk)
{
    r->fresh = MTP__NONE;
    while (r->open_count > 0 && (int32_t)(r->open[r->open_count - 1].slot - chunk->depth) >= 0) {
        uint32_t span = r->open[--r->open_count].span;
        if (span != MTP__NONE)
            keep_unfinished(r, span, chunk->base_ticks);
        else
            r->gaps--;
    }
    for (; r->open_count > 0 && r->open[r->open_count - 1].span == MTP__NONE; r->gaps--)
        r->open_count--; /* the last one is always open */
    r->depth = chunk->depth;
}

/* ---------------------------------------------------------------------------------- records and chunks */

static void on_record(mtp__reader *r, const uint64_t *w, uint32_t length, uint64_t ticks)
{
    unsigned kind = MTP__WORD0_KIND(w[0]);
    if (length < mtp__kind_words(kind))
        return;
    if (kind == MTP__KIND_BEGIN)
        mtp__read_begin(r, w, length, ticks);
    else if (kind == MTP__KIND_END)
        r->fresh = MTP__NONE, mtp__read_end(r, w, length, ticks);
    else if (kind == MTP__KIND_TENSORS)
        mtp__read_tensors(r, w, length);
    else
        mtp__read_point(r, kind, w, length, ticks);
}

/* The fast path for plain scopes and ends, which most of a long trace is made of. Stops at anything else
 * (bench: averages_ns_per_event). Room for the chunk's spans is reserved. */
static uint32_t read_plain(mtp__reader *r, const mtp__chunk *chunk, const uint64_t *words, uint32_t at,
                           uint32_t count, uint64_t *records)
{
    const uint64_t plain_begin = MTP__WORD0(0, 2, MTP__KIND_BEGIN),
                   plain_end = MTP__WORD0(0, 1, MTP__KIND_END);
    mtp__span_memory *c = &r->t->builder->spans;
    int64_t *start = COLUMN(c, START, int64_t), *end = COLUMN(c, END, int64_t);
    uint32_t *name = COLUMN(c, NAME, uint32_t), *parent = COLUMN(c, TRACK, uint32_t), span = c->count;
    uint8_t *category = COLUMN(c, CATEGORY, uint8_t);
    uint64_t last = r->last_ticks;
    int64_t closed = r->closed_ns;
    mtp__open_span *open = r->open;
    uint32_t opened = r->open_count, depth = r->depth;
    const bool gaps = r->gaps > 0;
    while (at < count) {
        uint64_t word = words[at], ticks = mtp__word0_full_ticks(word, chunk->base_ticks);
        if (ticks < last)
            break;
        if ((word & 0xff) == plain_end && opened > 0 && open[opened - 1].slot == depth - 1 &&
            (!gaps || opened == 1 || open[opened - 2].span != MTP__NONE)) {
            end[open[--opened].span] = closed = mtp__ticks_to_ns(&r->dict.line, ticks);
            depth--;
            at++;
        } else if ((word & 0xff) == plain_begin && words[at + 1] >> 32 == MTP_SCOPE_USER) {
            uint32_t text = mtp__dictionary_name(&r->dict, (uint32_t)words[at + 1]);
            if (text == 0 || opened == r->open_room)
                break;
            start[span] = mtp__ticks_to_ns(&r->dict.line, ticks);
            name[span] = text;
            parent[span] = opened > 0 ? open[opened - 1].span : MTP__NONE;
            category[span] = MTP__CATEGORY_USER_ANNOTATION;
            open[opened++] = (mtp__open_span){span++, depth++};
            at += 2;
        } else {
            break;
        }
        last = ticks;
        ++*records;
    }
    c->count = span;
    r->last_ticks = last;
    r->closed_ns = closed;
    r->open_count = opened;
    r->depth = depth;
    return at;
}

/* Drops all spans but the open ones, which move to the front; only when those are a minority, so that the
 * total cost is linear. */
static void forget(mtp__reader *r)
{
    mtp__span_memory *c = &r->t->builder->spans;
    uint32_t kept = 0;
    if ((uint64_t)c->count + r->t->memory_count + r->t->instant_count < 2 * (uint64_t)r->open_count + FORGET)
        return;
    for (uint32_t i = 0; i < r->open_count; i++) {
        uint32_t from = r->open[i].span;
        if (from == MTP__NONE)
            continue;
        COLUMN(c, START, int64_t)
        [kept] = COLUMN(c, START, int64_t)[from]; /* the other columns are not needed */
        r->open[i].span = kept++;
    }
    mtp__tally_take(r->tally, r->t, kept);
    memset(r->shared, 0, sizeof r->shared);
    r->fresh = MTP__NONE;
    r->late_count = 0;
}

/* Time on a stream never goes back: a clock that did is held, and counted. */
static mtp_status on_chunk(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    mtp__reader *r = user;
    if (chunk->stream == 0) {
        if (chunk->epoch != MTP__EPOCH_ALL && chunk->epoch > r->newest_epoch)
            r->newest_epoch = chunk->epoch;
        return mtp__dictionary_read(&r->dict, chunk, words, count);
    }
    if (!r->dict.second_pass || (r->only_cycle != 0 && chunk->cycle != r->only_cycle))
        return MTP_OK;
    if (r->until != 0)
        count = mtp__words_until(chunk, words, count, r->until);
    if (count == 0)
        return MTP_OK; /* all of it is later */
    if (r->stream != chunk->stream || r->cycle != chunk->cycle ||
        chunk->first - chunk->dropped != r->next_record - r->dropped)
        stream_open(r, chunk);
    else if (chunk->dropped != r->dropped || chunk->depth != r->depth)
        stream_goes_on(r, chunk);
    r->dropped = chunk->dropped;
    if (r->track == MTP__NONE || !mtp__trace_reserve_ahead(r->t, count / 2 + 1))
        return MTP_FAIL(MTP_E_NOMEM, "spans of stream %u", chunk->stream);
    uint64_t records = 0;
    for (uint32_t at = 0; at < count; records++) {
        uint32_t from = at;
        at = read_plain(r, chunk, words, at, count, &records);
        if (at != from)
            r->fresh = MTP__NONE;
        uint32_t length = at < count ? MTP__WORD0_LENGTH(words[at]) : 0;
        if (length == 0)
            break;
        uint64_t ticks = mtp__word0_full_ticks(words[at], chunk->base_ticks);
        if (ticks < r->last_ticks) {
            ticks = r->last_ticks;
            r->t->clock_faults++;
        }
        r->last_ticks = ticks;
        on_record(r, words + at, length, ticks);
        at += length;
    }
    r->next_record = chunk->first + records;
    if (r->tally == NULL)
        return MTP_OK;
    forget(r);
    r->tally->has_devices = r->devices.work_count > 0;
    return r->tally->has_devices ? MTP_E_STATE : MTP_OK;
}

/* ----------------------------------------------------------------------------------------- sources */

static void reader_fini(mtp__reader *r)
{
    mtp__dictionary_fini(&r->dict);
    mtp__free(r->open);
    mtp__free(r->unfinished);
    mtp__device_works_fini(&r->devices);
    mtp__free(r->marks);
    mtp__free(r->late);
}

static mtp_status finish(mtp__reader *r, mtp_status status, mtp_trace **out)
{
    if (status == MTP_OK) {
        mtp__reader_complete(r);
        status = mtp__trace_finish(r->t);
        *out = status == MTP_OK ? r->t : NULL;
    } else {
        mtp_trace_destroy(r->t);
    }
    reader_fini(r);
    return status;
}

static void reader_begin(mtp__reader *r, mtp_trace *t)
{
    memset(r, 0, sizeof *r);
    r->track = r->fresh = MTP__NONE;
    r->t = r->dict.trace = t;
}

static mtp_status reader_init(mtp__reader *r, const char *source)
{
    mtp_trace *t;
    mtp_status status = mtp__trace_create(&t);
    reader_begin(r, t);
    if (status == MTP_OK)
        snprintf(r->t->source, sizeof r->t->source, "%s", source);
    return status;
}

/* Between the passes: the anchors are known. A recording without anchors cannot be timed, and is empty or
 * damaged. */
static void passes(mtp__reader *r)
{
    static const mtp__anchor none;
    if (r->dict.line.count == 0 && !mtp__ticks_add(&r->dict.line, &none))
        r->t->builder->out_of_memory = true;
    mtp__ticks_finish(&r->dict.line, r->dict.ticks_per_ns);
    r->t->clock_faults += r->dict.line.faults;
    const mtp__placing *placing = r->dict.placing;
    if (placing != NULL && placing->line != NULL) {
        mtp__ticks_fini(&r->dict.line);
        r->dict.line = *placing->line;
    } else if (placing != NULL) {
        r->dict.line.zero_ns = placing->zero_ns;
    }
    r->dict.second_pass = true;
}

typedef struct source { /* one of them */
    mtp_profile *prof;
    const char *path;
    mtp__spool_report *report; /* for the path */
} source;

/* Reads the definitions. While a recording runs, a new epoch may begin meanwhile, and chunks not yet read may
 * be evicted: whatever is still needed from them has been re-emitted, and is found by reading again. */
static mtp_status read_control(mtp__reader *r, const source *from)
{
    uint32_t before;
    int tries = 0;
    mtp_status status;
    do {
        before = r->newest_epoch;
        mtp__dictionary_rewind(&r->dict);
        status = from->prof != NULL ? mtp__recorder_visit_control(from->prof->recorder, on_chunk, r)
                                    : mtp__spool_visit_control(from->path, on_chunk, r, from->report);
    } while (status == MTP_OK && r->until != 0 && r->newest_epoch != before && ++tries < LIVE_TRIES);
    return status;
}

mtp_status mtp_profile_trace(mtp_profile *prof, mtp_trace **out)
{
    if (prof == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "profile or out is NULL");
    *out = NULL;
    if (prof->recorder == NULL)
        return MTP_FAIL(MTP_E_STATE, "nothing was recorded yet: start the profile first");
    mtp__reader r;
    mtp_status status = reader_init(&r, "this process");
    if (status != MTP_OK)
        return status;
    r.only_cycle = prof->config.acc_events ? 0 : prof->recorder->cycle;
    mtp__anchor now;
    if (prof->recording) { /* it ends now */
        mtp__clock_anchor(&now);
        r.now_ticks = now.ticks;
        r.until = mtp__clock_ticks_slow();
    }
    status = read_control(&r, &(source){.prof = prof});
    if (prof->recording && !mtp__ticks_add(&r.dict.line, &now))
        r.t->builder->out_of_memory = true;
    if (status == MTP_OK && !r.t->builder->out_of_memory) {
        passes(&r);
        mtp_ledger ledger = MTP_LEDGER_INIT;
        mtp__recorder_ledger(prof->recorder, &ledger);
        mtp__trace_reserve_spans(r.t, ledger.kept / 2 + 1);
        status = mtp__recorder_visit(prof->recorder, on_chunk, &r);
    }
    if (status == MTP_OK && prof->recording) {
        r.t->has_ledger = true;
        mtp__recorder_ledger(prof->recorder, &r.t->ledger);
    }
    return finish(&r, status, out);
}

static mtp_status read_spool(mtp__reader *r, const char *path)
{
    mtp__spool_report report = {0};
    mtp_status status = mtp__find_moment(path, &r->until);
    if (status == MTP_OK)
        status = read_control(r, &(source){.path = path, .report = &report});
    if (status == MTP_OK && !r->t->builder->out_of_memory) {
        mtp__dictionary_complete(&r->dict, &report.header);
        passes(r);
        status = mtp__spool_visit(path, on_chunk, r, &report);
    }
    mtp__dictionary_report(r->t, &report, r->nameless);
    return status;
}

mtp_status mtp__trace_from_spool(const char *path, mtp__tally *tally, mtp_trace **out)
{
    mtp__reader r;
    *out = NULL;
    mtp_status status = reader_init(&r, path);
    if (status != MTP_OK)
        return status;
    r.tally = tally;
    status = read_spool(&r, path);
    return finish(&r, status, out);
}

mtp_status mtp__trace_add_spool(mtp_trace *trace, const char *path, const mtp__placing *placing)
{
    mtp__reader r;
    reader_begin(&r, trace);
    r.dict.placing = placing;
    r.dict.symbols = *placing->symbols;
    mtp_status status = read_spool(&r, path);
    if (status == MTP_OK)
        mtp__reader_complete(&r);
    if (status == MTP_OK && trace->builder->out_of_memory)
        status = MTP_FAIL(MTP_E_NOMEM, "a trace of %u spans so far", trace->builder->spans.count);
    reader_fini(&r);
    return status;
}

static mtp_status on_control(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    return mtp__dictionary_read(user, chunk, words, count);
}

mtp_status mtp__trace_glance(mtp_trace *trace, const char *path, mtp__dictionary *out,
                             mtp__spool_report *report)
{
    *out = (mtp__dictionary){.trace = trace, .glance = true, .rank = -1};
    mtp_status status = mtp__spool_visit_control(path, on_control, out, report);
    if (status == MTP_OK)
        mtp__dictionary_complete(out, &report->header);
    if (status == MTP_OK && trace->builder->out_of_memory)
        status = MTP_FAIL(MTP_E_NOMEM, "the clock of a recording");
    return status;
}
