/* trace/trace.c - builds the model: growing columns, then order and nesting. Links are made in link.c. */
#include "trace/trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/abi.h"
#include "base/bisect.h"
#include "base/budget.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/json_out.h"
#include "base/os.h"
#include "base/pair_map.h"
#include "trace/build.h"

#define LIST_FIRST 16u
#define SPANS_FIRST 4096u
#define DETAILS_FIRST ((size_t)64 << 10)
#define HUGE_FROM ((size_t)4 << 20)

/* ------------------------------------------------------------------------------------------ creation */

mtp_status mtp__trace_create(mtp_trace **out)
{
    *out = NULL;
    mtp_trace *t = mtp__calloc(1, sizeof *t);
    if (t == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a trace");
    mtp__intern_init(&t->text, 1, SIZE_MAX, NULL, NULL);
    t->builder = mtp__calloc(1, sizeof *t->builder);
    static const mtp__detail empty = MTP__DETAIL_INIT;
    static const mtp__shape no_shape;
    static const mtp__stack_node no_stack;
    if (t->builder != NULL) {
        mtp__trace_add_detail(t, &empty);
        mtp__list_add(t, LIST(t, shapes), &no_shape);
        mtp__list_add(t, LIST(t, stacks), &no_stack);
    }
    if (t->builder == NULL || t->builder->out_of_memory) {
        mtp_trace_destroy(t);
        return MTP_FAIL(MTP_E_NOMEM, "a trace");
    }
    *out = t;
    return MTP_OK;
}

static void columns_free(mtp__span_memory *c)
{
    for (int k = 0; k < MTP__COLUMNS; k++)
        mtp__unmap(c->column[k], c->bytes[k]);
    memset(c, 0, sizeof *c);
}

void mtp_trace_destroy(mtp_trace *t)
{
    if (t == NULL)
        return;
    if (t->builder != NULL) {
        columns_free(&t->builder->spans);
        mtp__free(t->builder);
    }
    columns_free(&t->columns);
    mtp__unmap(t->details, t->detail_bytes);
    mtp__free(t->shapes);
    mtp__free(t->stacks);
    mtp__free(t->tracks);
    mtp__free(t->processes);
    mtp__free(t->memory);
    mtp__free(t->tags);
    mtp__free(t->instants);
    mtp__free(t->flows);
    mtp__free(t->metadata);
    mtp__free(t->steps);
    mtp__free(t->clocks);
    mtp__free(t->tensors);
    mtp__free(t->held);
    mtp__free(t->recordings);
    mtp__free(t->launcher);
    mtp__intern_fini(&t->text);
    mtp__free(t);
}

/* --------------------------------------------------------------------------------------------- lists */

/* Lists double when their count is a power of two: no capacity is stored. */
uint32_t mtp__list_add(mtp_trace *t, void **list, uint32_t *count, size_t size, const void *item)
{
    uint32_t n = *count, room = n;
    if ((n == 0 || (n >= LIST_FIRST && (n & (n - 1)) == 0)) &&
        !mtp__grow(list, size, n, &room, sizeof room, (size_t)n + 1, LIST_FIRST)) {
        t->builder->out_of_memory = true;
        return MTP__NONE;
    }
    memcpy((char *)*list + n * size, item, size);
    *count = n + 1;
    return n;
}

uint32_t mtp__trace_add_track(mtp_trace *t, const mtp__track *track)
{
    return mtp__list_add(t, LIST(t, tracks), track);
}

uint32_t mtp__trace_add_process(mtp_trace *t, const mtp__process *process)
{
    return mtp__list_add(t, LIST(t, processes), process);
}

/* Every op of a recording may have details. Small lists double; from HUGE_FROM on they reserve eight times
 * the memory at once, in huge pages: untouched pages cost nothing, and moving a mapping would split its
 * pages. With a memory limit, which counts the reservation, only while it is a small part of that. */
static bool details_grow(mtp_trace *t)
{
    size_t bytes = t->detail_bytes, times = bytes < HUGE_FROM || bytes * 64 > mtp__budget_limit() ? 2 : 8,
           more = bytes == 0 ? DETAILS_FIRST : bytes * times;
    void *grown = bytes > 0 && more < HUGE_FROM ? mtp__map_grow(t->details, bytes, more)
                                                : mtp__map_memory(more, more >= HUGE_FROM);
    if (grown == NULL)
        return false;
    if (bytes > 0 && more >= HUGE_FROM) {
        memcpy(grown, t->details, bytes);
        mtp__unmap(t->details, bytes);
    }
    t->details = grown;
    t->detail_bytes = more;
    return true;
}

uint32_t mtp__trace_add_detail(mtp_trace *t, const mtp__detail *detail)
{
    uint32_t at = t->detail_count;
    if ((at + 1) * sizeof *t->details > t->detail_bytes && (at == MTP__NONE - 1 || !details_grow(t))) {
        t->builder->out_of_memory = true;
        return 0;
    }
    t->details[at] = *detail;
    t->detail_count = at + 1;
    return at;
}

uint32_t mtp__trace_add_shape(mtp_trace *t, const mtp__shape *shape)
{
    uint32_t at = mtp__list_add(t, LIST(t, shapes), shape);
    return at != MTP__NONE ? at : 0;
}

uint32_t mtp__trace_add_stack(mtp_trace *t, uint32_t parent, uint32_t frame)
{
    mtp__stack_node node = {parent, frame};
    uint32_t at = mtp__list_add(t, LIST(t, stacks), &node);
    return at != MTP__NONE ? at : 0;
}

/* Ids start at 1, so that 0 can mean none: the first entry is filled when the list is created. */
static uint32_t add_from_one(mtp_trace *t, void **list, uint32_t *count, size_t size, const void *item)
{
    static const char none[32];
    if (*count == 0 && mtp__list_add(t, list, count, size, none) == MTP__NONE)
        return 0;
    uint32_t at = mtp__list_add(t, list, count, size, item);
    return at != MTP__NONE ? at : 0;
}

uint32_t mtp__trace_add_tensor(mtp_trace *t, const mtp__tensor *tensor)
{
    return add_from_one(t, LIST(t, tensors), tensor);
}

uint32_t mtp__trace_add_held(mtp_trace *t, const mtp__held *held)
{
    return add_from_one(t, LIST(t, held), held);
}

void mtp__trace_add_memory(mtp_trace *t, const mtp__memory *memory)
{
    mtp__list_add(t, LIST(t, memory), memory);
}

void mtp__trace_add_tag(mtp_trace *t, const mtp__tag *tag)
{
    mtp__list_add(t, LIST(t, tags), tag);
}

void mtp__trace_add_instant(mtp_trace *t, const mtp__instant *instant)
{
    mtp__list_add(t, LIST(t, instants), instant);
}

void mtp__trace_add_flow(mtp_trace *t, const mtp__flow *flow)
{
    mtp__list_add(t, LIST(t, flows), flow);
}

void mtp__trace_add_step(mtp_trace *t, const mtp__step *step)
{
    mtp__list_add(t, LIST(t, steps), step);
}

void mtp__trace_add_meta(mtp_trace *t, const char *key, size_t key_length, const char *json,
                         size_t json_length)
{
    mtp__meta meta = {mtp__trace_text(t, key, key_length), mtp__trace_text(t, json, json_length)};
    mtp__list_add(t, LIST(t, metadata), &meta);
}

/* The text as a JSON string, newly allocated. */
static char *json_string(const char *prefix, const char *text, size_t length, size_t *out_length)
{
    size_t at = strlen(prefix);
    char *json = mtp__calloc(1, at + MTP__JSON_PUT_ROOM(length) + 2);
    if (json == NULL)
        return NULL;
    memcpy(json, prefix, at);
    json[at++] = '"';
    char *end = mtp__json_put(json + at, text, length);
    *end++ = '"';
    *out_length = (size_t)(end - json);
    return json;
}

void mtp__trace_add_meta_text(mtp_trace *t, const char *key, size_t key_length, const char *text,
                              size_t length)
{
    size_t n;
    char *json = json_string("", text, length, &n);
    if (json != NULL)
        mtp__trace_add_meta(t, key, key_length, json, n);
    else
        t->builder->out_of_memory = true;
    mtp__free(json);
}

void mtp__trace_set_meta_text(mtp_trace *t, const char *key, const char *text, size_t length)
{
    uint32_t id = mtp__trace_find_text(t, key), had = t->metadata_count;
    mtp__trace_add_meta_text(t, key, strlen(key), text, length);
    for (uint32_t i = 0; id != 0 && i < had && had < t->metadata_count; i++)
        if (t->metadata[i].key == id) {
            t->metadata[i] = t->metadata[--t->metadata_count];
            return;
        }
}

/* MTP_ARGS_NUMBERED: the number becomes a member of its own, and is no longer the op's. */
static uint32_t numbered_args(mtp_trace *t, mtp_text args, int64_t *sequence)
{
    static const char key[] = ", \"Seq\": ";
    char near[768], *joined = near;
    size_t length = args.length - 1;
    if (length + sizeof key + 24 > sizeof near)
        joined = mtp__calloc(1, length + sizeof key + 24);
    if (joined == NULL) {
        t->builder->out_of_memory = true;
        return 0;
    }
    memcpy(joined, args.bytes + 1, length);
    memcpy(joined + length, key, sizeof key - 1);
    const char *end = mtp__put_i64(joined + length + sizeof key - 1, *sequence);
    uint32_t id = mtp__trace_text(t, joined, (size_t)(end - joined));
    if (joined != near)
        mtp__free(joined);
    *sequence = -1;
    return id;
}

uint32_t mtp__trace_args_text(mtp_trace *t, uint32_t text, int64_t *sequence)
{
    size_t n;
    mtp_text args = mtp__trace_get_text(t, text);
    if (args.length > 1 && args.bytes[0] == MTP_ARGS_NUMBERED[0] && *sequence >= 0)
        return numbered_args(t, args, sequence);
    if (args.length > 1 && (args.bytes[0] == MTP_ARGS_MEMBERS[0] || args.bytes[0] == MTP_ARGS_NUMBERED[0]))
        return mtp__trace_text(t, args.bytes + 1, args.length - 1);
    if (args.length == 0)
        return 0;
    char *json = json_string("\"args\": ", args.bytes, args.length, &n);
    uint32_t id = json != NULL ? mtp__trace_text(t, json, n) : 0;
    t->builder->out_of_memory |= json == NULL;
    mtp__free(json);
    return id;
}

/* ---------------------------------------------------------------------------------------------- text */

uint32_t mtp__trace_text(mtp_trace *t, const char *bytes, size_t length)
{
    if (length == 0)
        return 0;
    uint32_t id = mtp__intern_add(&t->text, mtp__hash_bytes(bytes, length), bytes, length);
    if (id == 0)
        t->builder->out_of_memory = true;
    return id;
}

mtp_text mtp__trace_get_text(const mtp_trace *t, uint32_t id)
{
    const mtp__intern_entry *e = id != 0 ? mtp__intern_get(&t->text, id) : NULL;
    return e != NULL ? (mtp_text){(const char *)e->bytes, e->length} : (mtp_text){"", 0};
}

uint32_t mtp__trace_find_text(const mtp_trace *t, const char *text)
{
    size_t length = strlen(text);
    return mtp__intern_find(&t->text, mtp__hash_bytes(text, length), text, length);
}

mtp_text mtp__trace_metadata(const mtp_trace *t, const char *key)
{
    uint32_t id = mtp__trace_find_text(t, key);
    for (uint32_t i = t->metadata_count; id != 0 && i-- > 0;) /* the last one counts, as in JSON */
        if (t->metadata[i].key == id)
            return mtp__trace_get_text(t, t->metadata[i].json);
    return (mtp_text){"", 0};
}

/* --------------------------------------------------------------------------------------------- spans */

static const size_t column_size[MTP__COLUMNS] = {8, 8, 4, 4, 4, 1, 1};

static bool column_make(mtp__span_memory *c, int k, size_t count)
{
    size_t bytes = (count * column_size[k] + 4095) & ~(size_t)4095;
    if (bytes >= HUGE_FROM)
        bytes = (bytes + (((size_t)2 << 20) - 1)) & ~(((size_t)2 << 20) - 1);
    void *p = c->column[k] != NULL ? mtp__map_grow(c->column[k], c->bytes[k], bytes)
                                   : mtp__map_memory(bytes, bytes >= HUGE_FROM);
    if (p == NULL)
        return false;
    c->column[k] = p;
    c->bytes[k] = bytes;
    return true;
}

static bool columns_grow(mtp__span_memory *c, size_t count)
{
    for (int k = 0; k < MTP__COLUMNS; k++)
        if (!column_make(c, k, count))
            return false;
    c->room = (uint32_t)count;
    return true;
}

bool mtp__trace_reserve_spans(mtp_trace *t, uint64_t count)
{
    mtp__span_memory *c = &t->builder->spans;
    if (count <= c->room)
        return true;
    if (count < UINT32_MAX && columns_grow(c, count < SPANS_FIRST ? SPANS_FIRST : count))
        return true;
    t->builder->out_of_memory = true;
    return false;
}

bool mtp__trace_reserve_ahead(mtp_trace *t, uint64_t more)
{
    mtp__span_memory *c = &t->builder->spans;
    uint64_t need = (uint64_t)c->count + more, twice = (uint64_t)c->room * 2;
    return need <= c->room || mtp__trace_reserve_spans(t, need > twice ? need : twice);
}

uint32_t mtp__trace_add_span(mtp_trace *t, uint32_t track, int64_t start, int64_t end, uint32_t name,
                             mtp__category category, uint8_t flags, uint32_t detail)
{
    mtp__span_memory *c = &t->builder->spans;
    uint32_t i = c->count;
    if (__builtin_expect(i == c->room, 0) && !mtp__trace_reserve_ahead(t, 1))
        return MTP__NONE;
    COLUMN(c, START, int64_t)[i] = start;
    COLUMN(c, END, int64_t)[i] = end;
    COLUMN(c, NAME, uint32_t)[i] = name;
    COLUMN(c, TRACK, uint32_t)[i] = track;
    COLUMN(c, CATEGORY, uint8_t)[i] = (uint8_t)category;
    COLUMN(c, FLAGS, uint8_t)[i] = flags;
    if (detail != 0) /* new columns are zeroed */
        COLUMN(c, DETAIL, uint32_t)[i] = detail;
    c->count = i + 1;
    return i;
}

void mtp__trace_end_span(mtp_trace *t, uint32_t span, int64_t end, uint8_t more_flags)
{
    mtp__span_memory *c = &t->builder->spans;
    if (span >= c->count)
        return;
    COLUMN(c, END, int64_t)[span] = end;
    COLUMN(c, FLAGS, uint8_t)[span] |= more_flags;
}

/* --------------------------------------------------------------------------------------------- order */

typedef struct sorting {
    const int64_t *start, *end;
    uint32_t *index, *scratch; /* a permutation of the spans, being sorted */
} sorting;

/* Whether a comes before b; equal spans keep the order in which they were added. */
static bool before(const sorting *s, uint32_t a, uint32_t b)
{
    if (s->start[a] != s->start[b])
        return s->start[a] < s->start[b];
    return s->end[a] > s->end[b];
}

static void merge(sorting *s, size_t from, size_t mid, size_t to)
{
    memcpy(s->scratch + from, s->index + from, (mid - from) * sizeof *s->index);
    size_t a = from, b = mid, at = from;
    while (a < mid && b < to)
        s->index[at++] = before(s, s->index[b], s->scratch[a]) ? s->index[b++] : s->scratch[a++];
    memcpy(s->index + at, s->scratch + a, (mid - a) * sizeof *s->index);
}

/* Merges existing runs: nearly sorted input, the usual case, costs almost nothing. */
static void sort_range(sorting *s, size_t from, size_t to)
{
    for (;;) {
        size_t at = from, runs = 0;
        while (at < to) {
            size_t mid = at + 1;
            while (mid < to && !before(s, s->index[mid], s->index[mid - 1]))
                mid++;
            size_t end = mid;
            if (mid < to) {
                end = mid + 1;
                while (end < to && !before(s, s->index[end], s->index[end - 1]))
                    end++;
                merge(s, at, mid, end);
            }
            at = end;
            runs++;
        }
        if (runs <= 1)
            return;
    }
}

/* Orders spans by track (in track order), then by time. NULL: already in order. */
static mtp_status order_spans(mtp_trace *t, uint32_t **out)
{
    mtp__span_memory *c = &t->builder->spans;
    const uint32_t *track = COLUMN(c, TRACK, uint32_t);
    sorting s = {COLUMN(c, START, int64_t), COLUMN(c, END, int64_t), NULL, NULL};
    bool ordered = true;
    *out = NULL;
    for (uint32_t i = 0; i < c->count; i++) {
        t->tracks[track[i]].count++;
        if (i > 0 && (track[i] < track[i - 1] || (track[i] == track[i - 1] && before(&s, i, i - 1))))
            ordered = false;
    }
    uint32_t first = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        t->tracks[k].first = first;
        first += t->tracks[k].count;
    }
    if (ordered)
        return MTP_OK;
    s.index = mtp__calloc(c->count, sizeof *s.index);
    s.scratch = mtp__calloc(c->count > t->track_count ? c->count : t->track_count, sizeof *s.scratch);
    if (s.index == NULL || s.scratch == NULL) {
        mtp__free(s.index);
        mtp__free(s.scratch);
        return MTP_FAIL(MTP_E_NOMEM, "the order of %u spans", c->count);
    }
    for (uint32_t k = 0; k < t->track_count; k++)
        s.scratch[k] = t->tracks[k].first;
    for (uint32_t i = 0; i < c->count; i++)
        s.index[s.scratch[track[i]]++] = i;
    for (uint32_t k = 0; k < t->track_count; k++)
        sort_range(&s, t->tracks[k].first, (size_t)t->tracks[k].first + t->tracks[k].count);
    mtp__free(s.scratch);
    *out = s.index;
    return MTP_OK;
}

/* Moves the columns, one after the other, into the new order. */
static bool permute(mtp__span_memory *from, mtp__span_memory *to, const uint32_t *index)
{
    uint32_t n = from->count;
    for (int k = 0; k < MTP__COLUMNS; k++) {
        if (k == MTP__COLUMN_TRACK)
            continue;
        if (!column_make(to, k, n))
            return false;
        if (column_size[k] == 8)
            for (uint32_t i = 0; i < n; i++)
                ((uint64_t *)to->column[k])[i] = ((const uint64_t *)from->column[k])[index[i]];
        else if (column_size[k] == 4)
            for (uint32_t i = 0; i < n; i++)
                ((uint32_t *)to->column[k])[i] = ((const uint32_t *)from->column[k])[index[i]];
        else
            for (uint32_t i = 0; i < n; i++)
                ((uint8_t *)to->column[k])[i] = ((const uint8_t *)from->column[k])[index[i]];
        mtp__unmap(from->column[k], from->bytes[k]);
        from->column[k] = NULL;
    }
    to->count = n;
    return true;
}

/* ------------------------------------------------------------------------------------------- nesting */

/* torch's rule: a span that begins after its candidate's end, or outlasts it, is not its child, and the
 * candidate is closed. The parents chain up through the parent column, so no stack is needed at any depth. */
static void nest_track(const mtp__span_memory *c, const mtp__track *track)
{
    const int64_t *starts = COLUMN(c, START, int64_t), *ends = COLUMN(c, END, int64_t);
    uint32_t *parent = COLUMN(c, TRACK, uint32_t), top = MTP__NONE;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        int64_t start = starts[i], end = ends[i];
        while (top != MTP__NONE && (start >= ends[top] || end > ends[top])) {
            if (start < ends[top] && start >= starts[top])
                COLUMN(c, FLAGS, uint8_t)[i] |= MTP__SPAN_OVERLAP;
            top = parent[top];
        }
        parent[i] = top;
        top = i;
    }
}

/* Moves one column's values from index[i] to i, using `spare`. */
static void permute_range(void *column, size_t size, const uint32_t *index, uint32_t first, uint32_t count,
                          char *spare)
{
    const char *from = column;
    for (uint32_t i = 0; i < count; i++)
        memcpy(spare + i * size, from + index[i] * size, size);
    memcpy((char *)column + first * size, spare, count * size);
}

bool mtp__trace_nest_track(mtp_trace *t, const mtp__track *track)
{
    mtp__span_memory *c = &t->builder->spans;
    uint32_t n = track->count;
    sorting s = {COLUMN(c, START, int64_t), COLUMN(c, END, int64_t), NULL, NULL};
    bool ordered = true;
    for (uint32_t i = track->first + 1; i < track->first + n && ordered; i++)
        ordered = !before(&s, i, i - 1);
    if (!ordered) {
        char *spare = mtp__calloc(n, sizeof(uint64_t));
        s.index = mtp__calloc(n, sizeof *s.index);
        s.scratch = (uint32_t *)(void *)spare;
        if (s.index == NULL || spare == NULL) {
            mtp__free(s.index);
            mtp__free(spare);
            t->builder->out_of_memory = true;
            return false;
        }
        for (uint32_t i = 0; i < n; i++)
            s.index[i] = track->first + i;
        sort_range(&s, 0, n);
        for (int k = 0; k < MTP__COLUMNS; k++)
            permute_range(c->column[k], column_size[k], s.index, track->first, n, spare);
        mtp__free(s.index);
        mtp__free(spare);
    }
    nest_track(c, track);
    return true;
}

static int by_ts(const void *a, const void *b)
{
    const mtp__memory *x = a, *y = b;
    return (x->ts > y->ts) - (x->ts < y->ts);
}

static int by_start(const void *a, const void *b)
{
    const mtp__step *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Stable: a block freed and reused within one microsecond of an old file must not change order. A bottom-up
 * merge sort that does nothing if the list is in order. */
static bool sort_list(void *list, uint32_t count, size_t size, int (*order)(const void *, const void *))
{
    bool sorted = true;
    char *from = list;
    for (uint32_t i = 1; i < count && sorted; i++)
        sorted = order(from + (i - 1) * size, from + i * size) <= 0;
    if (sorted)
        return true;
    char *spare = mtp__calloc(count, size), *to = spare;
    if (spare == NULL)
        return false;
    for (size_t run = 1; run < count; run *= 2) {
        for (size_t at = 0; at < count; at += 2 * run) {
            size_t mid = at + run < count ? at + run : count, end = mid + run < count ? mid + run : count;
            for (size_t a = at, b = mid, k = at; k < end; k++) {
                bool second = a == mid || (b < end && order(from + a * size, from + b * size) > 0);
                memcpy(to + k * size, from + (second ? b++ : a++) * size, size);
            }
        }
        char *swap = from;
        from = to;
        to = swap;
    }
    if (from == spare)
        memcpy(list, spare, count * size);
    mtp__free(spare);
    return true;
}

void mtp__trace_extent_by_tracks(mtp_trace *t, int64_t end)
{
    mtp__span_memory *c = &t->builder->spans;
    t->first_ns = t->last_ns = end;
    for (uint32_t k = t->builder->from.tracks; k < t->track_count; k++)
        if (t->tracks[k].count > 0 && COLUMN(c, START, int64_t)[t->tracks[k].first] < t->first_ns)
            t->first_ns = COLUMN(c, START, int64_t)[t->tracks[k].first];
    for (uint32_t i = t->builder->from.memory; i < t->memory_count; i++)
        t->first_ns = t->memory[i].ts < t->first_ns ? t->memory[i].ts : t->first_ns;
    for (uint32_t i = t->builder->from.instants; i < t->instant_count; i++)
        t->first_ns = t->instants[i].ts < t->first_ns ? t->instants[i].ts : t->first_ns;
}

static void find_extent(mtp_trace *t)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (uint32_t k = 0; k < t->track_count; k++)
        if (t->tracks[k].count > 0 && t->start[t->tracks[k].first] < first)
            first = t->start[t->tracks[k].first];
    for (uint32_t i = 0; i < t->span_count; i++)
        last = t->end[i] > last ? t->end[i] : last;
    for (uint32_t i = 0; i < t->memory_count; i++) {
        first = t->memory[i].ts < first ? t->memory[i].ts : first;
        last = t->memory[i].ts > last ? t->memory[i].ts : last;
    }
    /* Kineto's mark of the end comes when the profiler has collected its results, long after the program's last event. */
    uint32_t end = first <= last ? mtp__trace_find_text(t, "Record Window End") : 0;
    for (uint32_t i = 0; i < t->instant_count; i++) {
        if (end != 0 && t->instants[i].name == end)
            continue;
        first = t->instants[i].ts < first ? t->instants[i].ts : first;
        last = t->instants[i].ts > last ? t->instants[i].ts : last;
    }
    t->first_ns = first <= last ? first : 0;
    t->last_ns = first <= last ? last : 0;
}

static mtp_status finish(mtp_trace *t)
{
    uint32_t *index = NULL;
    mtp__span_memory *c = &t->builder->spans;
    bool in_order = t->builder->in_order, moved = true;
    if (t->builder->out_of_memory)
        return MTP_FAIL(MTP_E_NOMEM, "a trace of %u spans so far", c->count);
    mtp_status status = in_order ? MTP_OK : order_spans(t, &index);
    if (status != MTP_OK)
        return status;
    if (!in_order && index != NULL) {
        moved = permute(c, &t->columns, index);
        mtp__free(index);
        columns_free(c);
    } else {
        t->columns = *c;
        memset(c, 0, sizeof *c);
    }
    if (!moved)
        return MTP_FAIL(MTP_E_NOMEM, "the columns of a trace");
    c = &t->columns;
    t->span_count = c->count;
    t->start = COLUMN(c, START, int64_t);
    t->end = COLUMN(c, END, int64_t);
    t->name = COLUMN(c, NAME, uint32_t);
    t->category = COLUMN(c, CATEGORY, uint8_t);
    t->flags = COLUMN(c, FLAGS, uint8_t);
    t->detail = t->detail_count > 1 ? COLUMN(c, DETAIL, uint32_t) : NULL;
    if (c->column[MTP__COLUMN_TRACK] == NULL && c->count > 0 && !column_make(c, MTP__COLUMN_TRACK, c->count))
        return MTP_FAIL(MTP_E_NOMEM, "the parents of %u spans", c->count);
    t->parent = COLUMN(c, TRACK, uint32_t); /* the tracks have their ranges, so this column is free */
    for (uint32_t k = 0; k < t->track_count; k++)
        if (!in_order || t->tracks[k].on_device)
            nest_track(c, &t->tracks[k]);
    if (!sort_list(t->memory, t->memory_count, sizeof *t->memory, by_ts) ||
        !sort_list(t->steps, t->step_count, sizeof *t->steps, by_start))
        return MTP_FAIL(MTP_E_NOMEM, "the order of %u memory events", t->memory_count);
    if (!in_order)
        find_extent(t);
    status = mtp__trace_link(t);
    mtp__free(t->builder);
    t->builder = NULL;
    return status;
}

mtp_status mtp__trace_finish(mtp_trace *t)
{
    mtp_status status = finish(t);
    if (status != MTP_OK)
        mtp_trace_destroy(t);
    return status;
}

/* ------------------------------------------------------------------------------------------- reading */

uint32_t mtp__trace_span_at(const mtp_trace *t, uint32_t track, int64_t ts)
{
    uint32_t first = t->tracks[track].first, low = first, high = first + t->tracks[track].count;
    MTP__BISECT(low, high, mid, t->start[mid] <= ts)
    uint32_t span = low > first ? low - 1 : MTP__NONE;
    while (span != MTP__NONE && t->start[span] != ts && t->end[span] < ts)
        span = t->parent[span];
    return span;
}

uint32_t mtp__trace_track_of(const mtp_trace *t, uint32_t span)
{
    uint32_t low = 1, high = t->track_count;
    MTP__BISECT(low, high, mid, t->tracks[mid].first <= span)
    low--; /* the last that starts at or before the span; empty tracks end where they start */
    while (low > 0 && t->tracks[low].count == 0)
        low--;
    return low;
}

uint32_t *mtp__trace_homes(const mtp_trace *t, uint32_t *count)
{
    mtp__pair_map of = {0};
    uint32_t *home = mtp__calloc((size_t)t->track_count + 1, sizeof *home);
    bool is_new;
    *count = 0;
    for (uint32_t k = 0; k < t->track_count && home != NULL; k++) {
        const mtp__track *track = &t->tracks[k];
        const uint64_t *number = mtp__pair_put(
            &of, (uint64_t)track->pid, (uint64_t)track->pid_text << 1 | track->on_device, *count, &is_new);
        if (number == NULL) {
            mtp__free(home);
            home = NULL;
            break;
        }
        home[k] = (uint32_t)*number;
        *count += is_new;
    }
    mtp__pair_map_fini(&of);
    return home;
}

/* The size before members were appended. */
#define INFO_V1 offsetof(mtp_trace_info, bad_durations)

mtp_status mtp_trace_get_info(const mtp_trace *t, mtp_trace_info *to)
{
    if (t == NULL || to == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace or out is NULL");
    mtp_status status = mtp__abi_check(to, INFO_V1, "mtp_trace_info");
    if (status != MTP_OK)
        return status;
    mtp_trace_info all = MTP_TRACE_INFO_INIT, *out = &all;
    if (t->counted) {
        mtp__abi_write(to, &t->counts, sizeof t->counts);
        return MTP_OK;
    }
    out->spans = t->span_count;
    for (uint32_t k = 0; k < t->track_count; k++)
        if (t->tracks[k].on_device)
            out->device_spans += t->tracks[k].count;
    out->cpu_spans = out->spans - out->device_spans;
    out->memory_events = t->memory_count;
    out->instants = t->instant_count;
    out->flows = t->flow_count;
    out->tracks = t->track_count;
    out->steps = t->step_count;
    out->base_ns = t->base_ns;
    out->first_ns = t->first_ns;
    out->last_ns = t->last_ns;
    out->pid = t->pid;
    for (int k = 0; k < MTP__COLUMNS; k++)
        out->model_bytes += t->span_count * column_size[k];
    out->model_bytes += t->text.bytes + t->detail_count * sizeof *t->details +
                        t->shape_count * sizeof *t->shapes + t->stack_count * sizeof *t->stacks +
                        t->memory_count * sizeof *t->memory + t->tag_count * sizeof *t->tags +
                        t->tensor_count * sizeof *t->tensors + t->held_count * sizeof *t->held +
                        t->instant_count * sizeof *t->instants + t->flow_count * sizeof *t->flows +
                        t->metadata_count * sizeof *t->metadata;
    out->unmatched_ends = t->unmatched_ends;
    out->unfinished = t->unfinished;
    out->clock_faults = t->clock_faults;
    out->clock_uncertain = t->clock_uncertain;
    out->damaged_chunks = t->damaged_chunks;
    out->format = t->format;
    out->without_times = t->without_times;
    out->has_ledger = t->has_ledger;
    out->ledger = t->ledger;
    out->skipped_events = t->skipped_events;
    out->bad_durations = t->bad_durations;
    out->missing_chunks = t->missing_chunks;
    out->outcome = t->outcome;
    out->chunks = t->chunks;
    out->damaged_header = t->damaged_header;
    mtp__abi_write(to, out, sizeof *out);
    return MTP_OK;
}
