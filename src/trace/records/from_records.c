/* trace/records/from_records.c - see from_records.h. Streams are read one after the other, each in order of
 * writing, so spans are created in their final order and nothing is sorted. Begins wait for their ends in a
 * list per stream, by slot (format.h); if scopes do not end in stack order, the track is nested once all ends
 * are known. */
#include "trace/records/from_records.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "record/details.h"
#include "record/profile.h"
#include "record/spool/spool.h"
#include "trace/build.h"
#include "trace/records/from_device.h"
#include "trace/records/moment.h"

#define LIVE_TRIES 6
#define SHARED_WORDS 6
#define FORGET 4096u  /* fewest events to count and drop at a time */
#define KINETO_NPU 20 /* c10::DeviceType::PrivateUse1 */

typedef struct step_mark {
    uint64_t ticks, number;
} step_mark;

typedef struct late_name { /* without a name, or defined after the dictionary was read (live profiles) */
    uint32_t span, id;
} late_name;

typedef struct shared_detail {
    uint64_t word[SHARED_WORDS]; /* of the begin that it was made for; [1] without name and kind */
    uint32_t detail;             /* 0: none yet */
} shared_detail;

typedef struct open_span {
    uint32_t span, slot; /* span MTP__NONE: it has ended */
} open_span;

typedef struct unfinished_span {
    uint32_t span, cycle;
    uint64_t ticks; /* of its stream's last record in that cycle */
    uint64_t until; /* it had ended by then, in ticks; 0: unknown */
} unfinished_span;

typedef struct reader {
    mtp__dictionary dict;
    mtp_trace *t;
    uint32_t only_cycle; /* 0: all */
    mtp__tally *tally;   /* borrowed: events are counted and dropped; NULL: they are kept */
    /* the stream being read */
    uint32_t stream, track, cycle;
    uint64_t next_record, last_ticks;
    uint64_t dropped;  /* by the stream before this point, according to the chunk */
    int64_t closed_ns; /* of the last end: with a coarse clock the next record may round to it */
    uint32_t fresh;    /* the span just begun, to which the next records may refer; MTP__NONE: none */
    shared_detail shared[SHARED_WORDS]; /* the latest, by number of words */
    open_span *open;                    /* owned: spans without an end yet, by slot; the last entry is open */
    uint32_t open_count, open_room;
    bool nameless;  /* a span's name is undefined */
    uint32_t gaps;  /* ended entries in `open` */
    uint32_t depth; /* of the stream, at this point */
    /* kept until the end */
    unfinished_span *unfinished; /* owned */
    mtp__device_works devices;
    step_mark *marks;
    late_name *late;
    uint32_t unfinished_count, mark_count, late_count;
    uint64_t end_ticks;    /* the latest of all */
    uint64_t now_ticks;    /* of a recording still running; else 0 */
    uint64_t until;        /* of a recording still running: later records are ignored; else 0 */
    uint32_t newest_epoch; /* of definitions seen */
} reader;

#define KEEP(r, list, count, item)                                                                           \
    do {                                                                                                     \
        void *kept = (r)->list;                                                                              \
        mtp__list_add((r)->t, &kept, &(r)->count, sizeof *(r)->list, (item));                                \
        (r)->list = kept;                                                                                    \
    } while (0)

/* ----------------------------------------------------------------------------------------- the stream */

static void keep_unfinished(reader *r, uint32_t span, uint64_t until)
{
    unfinished_span u = {span, r->cycle, r->last_ticks, until};
    KEEP(r, unfinished, unfinished_count, &u);
}

/* Open spans last to the end of their cycle: no end was recorded. */
static void stream_close(reader *r)
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

static void stream_open(reader *r, const mtp__chunk *chunk)
{
    stream_close(r);
    r->fresh = MTP__NONE;
    if (r->stream != chunk->stream || r->track == MTP__NONE) {
        const mtp__stream_info *info = mtp__dictionary_stream(&r->dict, chunk->stream);
        mtp__track track = {.pid = (int64_t)r->t->pid,
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
static void stream_goes_on(reader *r, const mtp__chunk *chunk)
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

static bool push_open(reader *r, uint32_t span)
{
    if (!MTP__GROW(r->open, r->open_room, r->open_count, r->open_count + 1, 64)) {
        r->t->builder->out_of_memory = true;
        return false;
    }
    r->open[r->open_count++] = (open_span){span, r->depth};
    return true;
}

/* --------------------------------------------------------------------------------------- one record */

static const mtp__category category_of[] = {
#define X(sym, value, text) [value] = MTP__CATEGORY_FOR_##sym,
#define MTP__CATEGORY_FOR_USER MTP__CATEGORY_USER_ANNOTATION
#define MTP__CATEGORY_FOR_OP MTP__CATEGORY_CPU_OP
#define MTP__CATEGORY_FOR_BACKWARD MTP__CATEGORY_CPU_OP
#define MTP__CATEGORY_FOR_STEP MTP__CATEGORY_USER_ANNOTATION
#define MTP__CATEGORY_FOR_RUNTIME MTP__CATEGORY_CUDA_RUNTIME
#define MTP__CATEGORY_FOR_PYTHON MTP__CATEGORY_PYTHON_FUNCTION
#define MTP__CATEGORY_FOR_MODULE MTP__CATEGORY_PYTHON_FUNCTION
#define MTP__CATEGORY_FOR_OVERHEAD MTP__CATEGORY_OVERHEAD
    MTP_SCOPE_KIND_LIST(X)
#undef X
};

/* Most ops of a program without shapes have identical details, which they share. Details that an end may
 * extend are not shared. */
static bool is_shared(uint32_t mask, uint32_t words)
{
    return words < SHARED_WORDS && (mask & (MTP__HAS_DETAIL | MTP__HAS_ALLOCATED | MTP__HAS_NUMBER)) == 0;
}

/* The payload of a begin as a detail; number: of a step. */
static uint32_t begin_detail(reader *r, const uint64_t *w, uint32_t words, uint64_t *number)
{
    mtp__detail d = MTP__DETAIL_INIT;
    mtp__payload p = mtp__payload_of(w, words);
    shared_detail *last = is_shared(p.mask, words) ? &r->shared[words] : NULL;
    if (last != NULL && last->detail != 0 && last->word[1] == w[1] >> 40 &&
        memcmp(last->word + 2, w + 2, (words - 2) * sizeof *w) == 0)
        return last->detail;
    d.device = (uint16_t)(w[1] >> 48);
    uint64_t value;
    for (uint32_t bit; (bit = mtp__payload_next(&p, &value)) != 0;) {
        switch (bit) {
        case MTP__HAS_SEQUENCE:
            d.sequence = (int64_t)value;
            break;
        case MTP__HAS_FORWARD:
            d.forward_thread = value;
            break;
        case MTP__HAS_DETAIL:
            d.shape = mtp__id_get(&r->dict.shapes, (uint32_t)value);
            d.stack = mtp__id_get(&r->dict.stacks, (uint32_t)(value >> 32));
            break;
        case MTP__HAS_ALLOCATED:
            d.allocated_before = (int64_t)value;
            break;
        case MTP__HAS_CORRELATION:
            d.correlation = value;
            break;
        case MTP__HAS_FLOPS:
            d.flops = value;
            break;
        case MTP__HAS_ARGS:
            d.args = mtp__trace_args_text(r->t, mtp__id_get(&r->dict.texts, (uint32_t)value));
            break;
        default:
            *number = value;
            d.number = (uint32_t)value;
        }
    }
    uint32_t made = mtp__trace_add_detail(r->t, &d);
    if (last != NULL) {
        memcpy(last->word, w, words * sizeof *w);
        last->word[1] = w[1] >> 40;
        last->detail = made;
    }
    return made;
}

/* "ProfilerStep#" and its number: made here, so that a million steps need one name in the recording. */
static uint32_t step_name(reader *r, uint32_t name, uint64_t number)
{
    char text[128];
    mtp_text base = mtp__trace_get_text(r->t, name);
    int n = snprintf(text, sizeof text, "%.*s%llu", (int)(base.length < 64 ? base.length : 64), base.bytes,
                     (unsigned long long)number);
    return mtp__trace_text(r->t, text, (size_t)n);
}

static void on_begin(reader *r, const uint64_t *w, uint32_t words, uint64_t ticks)
{
    uint32_t id = (uint32_t)w[1], kind = (uint32_t)(w[1] >> 32) & 0xff, detail = 0;
    uint32_t name = mtp__dictionary_name(&r->dict, id);
    uint8_t flags = 0;
    uint64_t number = 0;
    kind = kind < sizeof category_of / sizeof *category_of ? kind : MTP_SCOPE_USER;
    if (words > 2 || kind == MTP_SCOPE_OP || kind == MTP_SCOPE_BACKWARD)
        detail = begin_detail(r, w, words, &number);
    if (kind == MTP_SCOPE_STEP) {
        name = step_name(r, name, number);
        flags = MTP__SPAN_STEP;
    } else if (kind == MTP_SCOPE_BACKWARD) {
        flags = MTP__SPAN_BACKWARD;
    } else if (kind == MTP_SCOPE_MODULE) {
        flags = MTP__SPAN_MODULE;
    }
    int64_t ns = mtp__ticks_to_ns(&r->dict.line, ticks);
    uint32_t parent =
        r->open_count > 0 ? r->open[r->open_count - 1].span : MTP__NONE; /* in the TRACK column: vouched */
    uint32_t span = mtp__trace_add_span(r->t, parent, ns, ns, name, category_of[kind], flags, detail);
    if (span == MTP__NONE || !push_open(r, span))
        return;
    r->depth++;
    r->fresh = span;
    if (name == 0) {
        late_name late = {span, id};
        r->nameless |= id != 0; /* 0: it was lost while recording, and counted */
        KEEP(r, late, late_count, &late);
    }
}

/* Slots increase along the list: a binary search by distance below the depth, which also works after depths
 * wrap. */
static uint32_t find_open(const reader *r, uint32_t slot)
{
    uint32_t low = 0, high = r->open_count, below = r->depth - slot;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2, there = r->depth - r->open[mid].slot;
        if (there == below)
            return r->open[mid].span != MTP__NONE ? mid : MTP__NONE;
        if (there > below)
            low = mid + 1;
        else
            high = mid;
    }
    return MTP__NONE;
}

/* Removing an entry other than the last leaves a gap; gaps are dropped at the end of the list, or when they
 * outnumber the rest. */
static uint32_t take_open(reader *r, uint32_t at)
{
    uint32_t span = r->open[at].span, kept = 0;
    r->open[at].span = MTP__NONE;
    if (at + 1 < r->open_count) {
        r->t->tracks[r->track].crossing = true;
        r->gaps++;
    } else {
        r->open_count--;
        for (; r->open_count > 0 && r->open[r->open_count - 1].span == MTP__NONE; r->gaps--)
            r->open_count--;
    }
    if (r->gaps <= r->open_count / 2)
        return span;
    for (uint32_t i = 0; i < r->open_count; i++)
        if (r->open[i].span != MTP__NONE)
            r->open[kept++] = r->open[i];
    r->open_count = kept;
    r->gaps = 0;
    return span;
}

/* The span that an END ends; MTP__NONE: its begin is missing. */
static uint32_t span_ended(reader *r, const uint64_t *w, uint32_t words)
{
    uint32_t at;
    if (words >= 2 && MTP__END_IS_NAMED(w[1])) {
        at = find_open(r, (uint32_t)w[1]);
    } else {
        r->depth--;
        at = r->open_count > 0 && r->open[r->open_count - 1].slot == r->depth ? r->open_count - 1 : MTP__NONE;
    }
    if (at != MTP__NONE)
        return take_open(r, at);
    r->t->unmatched_ends++;
    return MTP__NONE;
}

static void on_end(reader *r, const uint64_t *w, uint32_t words, uint64_t ticks)
{
    int64_t ns = mtp__ticks_to_ns(&r->dict.line, ticks);
    uint32_t span = span_ended(r, w, words);
    r->closed_ns = ns;
    if (span == MTP__NONE)
        return;
    mtp__span_memory *c = &r->t->builder->spans;
    COLUMN(c, END, int64_t)[span] = ns;
    if (words < 3)
        return;
    uint32_t *detail = &COLUMN(c, DETAIL, uint32_t)[span];
    if (*detail == 0)
        return;
    mtp__detail *d = r->t->details + *detail;
    if (d->shape == 0 && d->allocated_before < 0) { /* it may be shared */
        mtp__detail own = *d;
        uint32_t made = mtp__trace_add_detail(r->t, &own);
        if (made == 0)
            return;
        *detail = made;
        d = r->t->details + made;
    }
    mtp__payload p = mtp__payload_of(w, words);
    uint64_t value;
    for (uint32_t bit; (bit = mtp__payload_next(&p, &value)) != 0;)
        if (bit == MTP__HAS_DETAIL)
            d->outputs = mtp__id_get(&r->dict.shapes, (uint32_t)value);
        else if (bit == MTP__HAS_ALLOCATED)
            d->allocated_after = (int64_t)value;
}

/* A private detail for the span just begun. NULL: out of memory. */
static mtp__detail *fresh_detail(reader *r)
{
    uint32_t *detail = &COLUMN(&r->t->builder->spans, DETAIL, uint32_t)[r->fresh];
    const mtp__detail *d = r->t->details + *detail;
    if (*detail == 0 || (d->shape == 0 && d->allocated_before < 0 && d->held == 0)) {
        static const mtp__detail none = MTP__DETAIL_INIT;
        mtp__detail own = *detail != 0 ? *d : none; /* it may be shared */
        *detail = mtp__trace_add_detail(r->t, &own);
    }
    return *detail != 0 ? r->t->details + *detail : NULL;
}

/* The tensors passed to an op, or held by an object. */
static void on_tensors(reader *r, const uint64_t *w, uint32_t words)
{
    uint32_t signature = (uint32_t)w[1], count = (uint32_t)(w[1] >> 32) & 0xff, first = 0;
    bool more = (w[1] >> 40 & 1) != 0;
    if (r->fresh == MTP__NONE || 2 + 2 * count > words)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *at = w + 2 + 2 * (size_t)i;
        mtp__tensor tensor = {at[0] & (((uint64_t)1 << 48) - 1), at[1] & (((uint64_t)1 << 56) - 1),
                              (uint16_t)(at[0] >> 48), (uint8_t)(at[1] >> 56)};
        uint32_t id = mtp__trace_add_tensor(r->t, &tensor);
        first = first != 0 ? first : id;
    }
    mtp__detail *d = fresh_detail(r);
    if (d == NULL)
        return;
    if (signature == 0) {
        d->tensors = more && d->tensors != 0 ? d->tensors : first;
        d->tensor_count = (uint16_t)(d->tensor_count + count);
    } else if (more && d->held_count > 0) {
        r->t->held[d->held + d->held_count - 1].count += count;
    } else {
        mtp__held held = {mtp__id_get(&r->dict.shapes, signature), first, count};
        uint32_t id = mtp__trace_add_held(r->t, &held);
        d->held = d->held != 0 ? d->held : id;
        d->held_count += id != 0;
    }
}

static void device_of(uint32_t device, uint16_t *type, int16_t *index)
{
    *type = MTP_DEVICE_TYPE(device) == 0 ? 0 : KINETO_NPU;
    *index = MTP_DEVICE_TYPE(device) == 0 ? -1 : (int16_t)MTP_DEVICE_INDEX(device);
}

static void on_memory(reader *r, const uint64_t *w, uint64_t ticks, unsigned kind)
{
    uint16_t type;
    int16_t index;
    device_of((uint32_t)(w[1] >> 48), &type, &index);
    int64_t ts = mtp__ticks_to_ns(&r->dict.line, ticks);
    ts += ts == r->closed_ns; /* it came after: an event at the end's own time would count as inside */
    if (kind == MTP__KIND_TAG || (kind == MTP__KIND_EXISTING && (int64_t)w[3] > 0)) {
        mtp__tag item = {
            ts, w[2], type, index, (uint32_t)w[1] & 0xff, kind == MTP__KIND_EXISTING ? (int64_t)w[3] : 0};
        mtp__trace_add_tag(r->t, &item);
    } else if (kind == MTP__KIND_MEMORY) {
        mtp__memory item = {.ts = ts,
                            .address = w[2],
                            .bytes = (int64_t)w[3],
                            .total_allocated = (int64_t)w[4],
                            .total_reserved = (int64_t)w[5],
                            .track = r->track,
                            .device_type = type,
                            .device_index = index};
        mtp__trace_add_memory(r->t, &item);
    }
}

static void on_other(reader *r, unsigned kind, const uint64_t *w, uint32_t words, uint64_t ticks)
{
    if (kind == MTP__KIND_DEVICE) {
        mtp__device_keep_work(&r->devices, r->t, w, words);
    } else if (kind == MTP__KIND_DEVICE_CLOCK) {
        mtp__device_keep_clock(&r->devices, r->t, w);
    } else if (kind == MTP__KIND_STEP) {
        step_mark item = {ticks, w[1]};
        KEEP(r, marks, mark_count, &item);
    } else if (kind == MTP__KIND_MARK || kind == MTP__KIND_COUNTER) {
        mtp__instant item = {.ts = mtp__ticks_to_ns(&r->dict.line, ticks), .track = r->track, .scope = 't'};
        item.name = mtp__dictionary_name(&r->dict, (uint32_t)w[1]);
        item.is_counter = kind == MTP__KIND_COUNTER;
        if (item.is_counter)
            memcpy(&item.value, &w[2], sizeof item.value);
        mtp__trace_add_instant(r->t, &item);
    }
}

static void on_record(reader *r, const uint64_t *w, uint32_t length, uint64_t ticks)
{
    unsigned kind = MTP__WORD0_KIND(w[0]);
    if (length < mtp__kind_words(kind))
        return;
    if (kind == MTP__KIND_BEGIN)
        on_begin(r, w, length, ticks);
    else if (kind == MTP__KIND_END)
        r->fresh = MTP__NONE, on_end(r, w, length, ticks);
    else if (kind == MTP__KIND_TENSORS)
        on_tensors(r, w, length);
    else if (kind == MTP__KIND_MEMORY || kind == MTP__KIND_TAG || kind == MTP__KIND_EXISTING)
        on_memory(r, w, ticks, kind);
    else
        on_other(r, kind, w, length, ticks);
}

/* The fast path for plain scopes and ends, which most of a long trace is made of. Stops at anything else
 * (bench: averages_ns_per_event). Room for the chunk's spans is reserved. */
static uint32_t plain_run(reader *r, const mtp__chunk *chunk, const uint64_t *words, uint32_t at,
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
    open_span *open = r->open;
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
            open[opened++] = (open_span){span++, depth++};
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
static void forget(reader *r)
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
    reader *r = user;
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
        at = plain_run(r, chunk, words, at, count, &records);
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

/* ------------------------------------------------------------------------------------ at the end */

/* A loop ends with step(): the step this begins counts only if something was recorded in it. */
static void add_steps(reader *r, int64_t end)
{
    for (uint32_t i = 0; i < r->mark_count; i++) {
        mtp__step step = {mtp__ticks_to_ns(&r->dict.line, r->marks[i].ticks), end,
                          (int64_t)r->marks[i].number};
        bool is_last = i + 1 == r->mark_count;
        if (!is_last)
            step.end = mtp__ticks_to_ns(&r->dict.line, r->marks[i + 1].ticks);
        if (!is_last || i == 0 || step.start < end)
            mtp__trace_add_step(r->t, &step);
    }
}

/* Names defined too late for the first pass. Missing and lost names become "?". */
static void name_late(reader *r)
{
    const uint32_t unknown = r->late_count > 0 ? mtp__trace_text(r->t, "?", 1) : 0;
    uint32_t *names = COLUMN(&r->t->builder->spans, NAME, uint32_t);
    for (uint32_t i = 0; i < r->late_count; i++) {
        uint32_t name = mtp__dictionary_name(&r->dict, r->late[i].id);
        names[r->late[i].span] = name != 0 ? name : unknown;
    }
}

/* Were ends lost? Evicted ends took their begins along. */
static bool lost_ends(const mtp_trace *t)
{
    const uint64_t *by = t->ledger.dropped_by;
    return t->damaged_chunks + t->missing_chunks > 0 ||
           (t->has_ledger &&
            by[MTP_DROP_BUDGET] + by[MTP_DROP_DISK] + by[MTP_DROP_NOMEM] + by[MTP_DROP_DAMAGED] > 0);
}

/* Unfinished spans last until the recording was stopped, or until now; if that is unknown, to the last record
 * of all. If the end may have been lost, to the thread's last record. Returns the end of the trace. */
static int64_t end_unfinished(reader *r)
{
    mtp_trace *t = r->t;
    if (r->dict.line.count == 0)
        return 0;
    const bool lost = lost_ends(t);
    uint64_t latest = r->end_ticks;
    for (uint32_t i = 0; i < r->unfinished_count; i++) {
        const unfinished_span *u = &r->unfinished[i];
        uint64_t stop = u->until != 0 ? u->until : lost ? u->ticks : mtp__dictionary_stop(&r->dict, u->cycle);
        if (stop == 0)
            stop = r->now_ticks == 0 ? r->end_ticks : r->now_ticks;
        if (stop < u->ticks)
            stop = u->ticks;
        latest = stop > latest ? stop : latest;
        mtp__trace_end_span(t, u->span, mtp__ticks_to_ns(&r->dict.line, stop), MTP__SPAN_UNFINISHED);
    }
    t->unfinished = r->unfinished_count;
    return mtp__ticks_to_ns(&r->dict.line, latest);
}

static mtp_status complete(reader *r, mtp_trace **out)
{
    mtp_trace *t = r->t;
    stream_close(r);
    if (r->end_ticks == 0) /* only the control stream */
        r->end_ticks = r->dict.last_ticks;
    int64_t end = end_unfinished(r);
    if (r->tally != NULL) {
        mtp__tally_take(r->tally, t, 0);
        for (uint32_t k = 0; k < t->track_count; k++)
            t->tracks[k].first = t->tracks[k].count = 0, t->tracks[k].crossing = false;
    }
    name_late(r);
    for (uint32_t k = 0; k < t->track_count && !t->builder->out_of_memory; k++)
        if (t->tracks[k].crossing)
            mtp__trace_nest_track(t, &t->tracks[k]);
    mtp__trace_extent_by_tracks(t, end);
    mtp__device_add(&r->devices, t, &r->dict);
    t->builder->vouched = true;
    add_steps(r, end);
    mtp__dictionary_add_process(&r->dict);
    mtp__device_describe_all(t, &r->dict);
    t->base_ns = r->dict.line.count > 0 ? r->dict.line.point[0].realtime : 0;
    mtp_status status = mtp__trace_finish(t);
    if (status == MTP_OK)
        *out = t;
    return status;
}

static void reader_fini(reader *r)
{
    mtp__dictionary_fini(&r->dict);
    mtp__free(r->open);
    mtp__free(r->unfinished);
    mtp__device_works_fini(&r->devices);
    mtp__free(r->marks);
    mtp__free(r->late);
}

static mtp_status reader_init(reader *r, const char *source)
{
    memset(r, 0, sizeof *r);
    r->track = r->fresh = MTP__NONE;
    mtp_status status = mtp__trace_create(&r->t);
    r->dict.trace = r->t;
    if (status == MTP_OK)
        snprintf(r->t->source, sizeof r->t->source, "%s", source);
    return status;
}

/* Between the passes: the anchors are known. A recording without anchors cannot be timed, and is empty or
 * damaged. */
static void passes(reader *r)
{
    static const mtp__anchor none;
    if (r->dict.line.count == 0 && !mtp__ticks_add(&r->dict.line, &none))
        r->t->builder->out_of_memory = true;
    mtp__ticks_finish(&r->dict.line, r->dict.ticks_per_ns);
    r->t->clock_faults += r->dict.line.faults;
    r->dict.second_pass = true;
}

typedef struct source { /* one of them */
    mtp_profile *prof;
    const char *path;
    mtp__spool_report *report; /* for the path */
} source;

/* Reads the definitions. While a recording runs, a new epoch may begin meanwhile, and chunks not yet read may
 * be evicted: whatever is still needed from them has been re-emitted, and is found by reading again. */
static mtp_status read_control(reader *r, const source *from)
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
    reader r;
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
    if (status == MTP_OK)
        status = complete(&r, out);
    else
        mtp_trace_destroy(r.t);
    reader_fini(&r);
    return status;
}

mtp_status mtp__trace_from_spool(const char *path, mtp__tally *tally, mtp_trace **out)
{
    reader r;
    *out = NULL;
    mtp_status status = reader_init(&r, path);
    if (status != MTP_OK)
        return status;
    mtp__spool_report report = {0};
    r.tally = tally;
    status = mtp__find_moment(path, &r.until);
    if (status == MTP_OK)
        status = read_control(&r, &(source){.path = path, .report = &report});
    if (status == MTP_OK && !r.t->builder->out_of_memory) {
        mtp__dictionary_complete(&r.dict, &report.header);
        passes(&r);
        status = mtp__spool_visit(path, on_chunk, &r, &report);
    }
    mtp__dictionary_report(r.t, &report, r.nameless);
    if (status == MTP_OK)
        status = complete(&r, out);
    else
        mtp_trace_destroy(r.t);
    reader_fini(&r);
    return status;
}
