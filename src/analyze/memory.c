/* analyze/memory.c - see memory.h. Matches allocations with frees by address, in order of time. */
#include "analyze/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/hash_map.h"
#include "base/os.h"
#include "base/plain.h"
#include "trace/facts.h"

#define NO_CATEGORY 0xffu

const char *mtp_memory_category_text(mtp_memory_category category)
{
    static const char *const text[] = {
#define X(sym, value, word) [value] = word,
        MTP_MEMORY_CATEGORY_LIST(X)
#undef X
    };
    return (unsigned)category < MTP_MEMORY_CATEGORIES ? text[category] : text[MTP_MEMORY_UNKNOWN];
}

/* ------------------------------------------------------------------------------------------- devices */

/* c10::DeviceType. The first name of a type is its canonical one; PrivateUse1 is ours. */
static const struct {
    const char *word;
    uint32_t type;
} device_words[] = {
    {"cpu", 0},
    {"cuda", 1},
    {"gpu", 1},
    {"mkldnn", 2},
    {"opengl", 3},
    {"opencl", 4},
    {"ideep", 5},
    {"hip", 6},
    {"fpga", 7},
    {"maia", 8},
    {"xla", 9},
    {"vulkan", 10},
    {"metal", 11},
    {"xpu", 12},
    {"mps", 13},
    {"meta", 14},
    {"hpu", 15},
    {"ve", 16},
    {"lazy", 17},
    {"ipu", 18},
    {"mtia", 19},
    {"npu", MTP__DEVICE_NPU},
    {"privateuseone", MTP__DEVICE_NPU},
    {"privateuse1", MTP__DEVICE_NPU},
};
#define WORDS (sizeof device_words / sizeof *device_words)

static void name_device(mtp__memory_device *d)
{
    const char *word = NULL;
    for (size_t i = 0; word == NULL && i < WORDS; i++)
        word = device_words[i].type == d->type ? device_words[i].word : NULL;
    if (d->type == 0)
        snprintf(d->name, sizeof d->name, "cpu");
    else if (word != NULL)
        snprintf(d->name, sizeof d->name, "%s:%u", word, d->index);
    else
        snprintf(d->name, sizeof d->name, "device%u:%u", d->type, d->index);
}

static mtp_status parse_device(const char *text, mtp__memory_device *out)
{
    size_t length = strcspn(text, ":");
    const char *rest = text + length;
    for (size_t i = 0; i < WORDS; i++) {
        if (strlen(device_words[i].word) != length || !mtp__same_letters(text, device_words[i].word, length))
            continue;
        char *end = NULL;
        unsigned long index =
            *rest == ':' && rest[1] >= '0' && rest[1] <= '9' ? strtoul(rest + 1, &end, 10) : 0;
        if (*rest == ':' && (end == NULL || *end != 0 || index > INT16_MAX))
            break;
        *out = (mtp__memory_device){.type = device_words[i].type};
        out->index = out->type == 0 ? 0 : (uint32_t)index;
        name_device(out);
        return MTP_OK;
    }
    return MTP_FAIL(MTP_E_ARG, "'%.40s' is not a device: use cpu, npu:0, cuda:0 or the like", text);
}

static uint32_t index_of(uint16_t type, int16_t index)
{
    return type != 0 && index > 0 ? (uint32_t)index : 0;
}

static uint64_t size_of(int64_t bytes)
{
    return bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
}

static mtp__memory_device *find_device(mtp_memory_timeline *m, uint32_t type, uint32_t index)
{
    for (uint32_t i = 0; i < m->device_count; i++)
        if (m->devices[i].type == type && m->devices[i].index == index)
            return &m->devices[i];
    return NULL;
}

static void note_traffic(mtp_memory_timeline *m, uint32_t type, uint32_t index, uint64_t bytes)
{
    mtp__memory_device *d = m->device_count > 0 ? &m->devices[m->device_count - 1] : NULL;
    if (d == NULL || d->type != type || d->index != index)
        d = find_device(m, type, index);
    if (d == NULL && m->device_count < MTP__DEVICES_MAX) {
        d = &m->devices[m->device_count++];
        *d = (mtp__memory_device){.type = type, .index = index};
        name_device(d);
    }
    if (d != NULL)
        d->traffic += bytes;
}

static void gather_devices(mtp_memory_timeline *m)
{
    const mtp_trace *t = m->trace;
    for (uint32_t i = 0; i < t->memory_count; i++) {
        const mtp__memory *e = &t->memory[i];
        note_traffic(m, e->device_type, index_of(e->device_type, e->device_index), size_of(e->bytes));
    }
    for (uint32_t i = 0; i < t->tag_count; i++) {
        const mtp__tag *tag = &t->tags[i];
        if (tag->bytes > 0)
            note_traffic(m, tag->device_type, index_of(tag->device_type, tag->device_index),
                         (uint64_t)tag->bytes);
    }
}

static mtp_status choose_device(mtp_memory_timeline *m, const char *text)
{
    gather_devices(m);
    m->device = (mtp__memory_device){.name = "cpu"};
    if (text == NULL) {
        for (uint32_t i = 0; i < m->device_count; i++)
            if (i == 0 || m->devices[i].traffic > m->device.traffic)
                m->device = m->devices[i];
        return MTP_OK;
    }
    mtp_status status = parse_device(text, &m->device);
    static const uint32_t alike[] = {MTP__DEVICE_CUDA, MTP__DEVICE_HIP,
                                     MTP__DEVICE_NPU}; /* often used interchangeably */
    uint32_t type = m->device.type;
    if (status != MTP_OK ||
        (type != MTP__DEVICE_CUDA && type != MTP__DEVICE_HIP && type != MTP__DEVICE_NPU) ||
        find_device(m, type, m->device.index) != NULL)
        return status;
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        const mtp__memory_device *other = find_device(m, alike[i], m->device.index);
        if (other != NULL)
            m->device = *other;
    }
    return MTP_OK;
}

static bool is_ours(const mtp_memory_timeline *m, uint16_t type, int16_t index)
{
    return type == m->device.type && index_of(type, index) == m->device.index;
}

/* ------------------------------------------------------------------------------------------- pairing */

typedef struct place { /* an address that was seen */
    uint32_t block;    /* live block; MTP__NONE: none */
    uint8_t tagged;    /* a tag of a block whose allocation was not seen; NO_CATEGORY: none */
    bool seen;         /* has had a block */
} place;

typedef struct pairing {
    mtp_memory_timeline *m;
    uint32_t *events;       /* owned: the device's, as indexes into trace->memory */
    mtp__tag *tags;         /* owned: the device's, by time */
    mtp__context *contexts; /* owned: of the events */
    mtp__hash_map places;   /* by address and process. Programs reuse them: there are fewer than events */
    uint32_t event_count, tag_count;
    uint32_t *home, homes; /* owned, by track: its process */
} pairing;

static void pairing_fini(pairing *p)
{
    mtp__free(p->events);
    mtp__free(p->tags);
    mtp__free(p->contexts);
    mtp__free(p->home);
    mtp__hash_map_fini(&p->places);
}

static int by_time(const void *a, const void *b) /* preexisting blocks first */
{
    const mtp__tag *x = a, *y = b;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return (x->bytes == 0) - (y->bytes == 0);
}

/* Tags come thread by thread. */
static void sort_tags(mtp__tag *tags, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (by_time(&tags[i - 1], &tags[i]) > 0) {
            qsort(tags, count, sizeof *tags, by_time);
            return;
        }
}

static bool pairing_init(pairing *p, mtp_memory_timeline *m)
{
    const mtp_trace *t = m->trace;
    size_t events = 0, tags = 0, existing = 0;
    *p = (pairing){.m = m};
    for (uint32_t i = 0; i < t->memory_count; i++)
        events += t->memory[i].bytes != 0 && is_ours(m, t->memory[i].device_type, t->memory[i].device_index);
    for (uint32_t i = 0; i < t->tag_count; i++)
        if (is_ours(m, t->tags[i].device_type, t->tags[i].device_index)) {
            tags++;
            existing += t->tags[i].bytes > 0;
        }
    p->events = mtp__calloc(events + 1, sizeof *p->events);
    p->tags = mtp__calloc(tags + 1, sizeof *p->tags);
    p->contexts = mtp__calloc(events + 1, sizeof *p->contexts);
    p->home = mtp__trace_homes(t, &p->homes);
    m->blocks = mtp__calloc(events + existing + p->homes + 1,
                            sizeof *m->blocks); /* plus one per process for memory in use throughout */
    m->changes = mtp__calloc(events * 2 + tags + existing + 1, sizeof *m->changes);
    if (p->events == NULL || p->tags == NULL || p->contexts == NULL || p->home == NULL || m->blocks == NULL ||
        m->changes == NULL)
        return false;
    for (uint32_t i = 0; i < t->memory_count; i++)
        if (t->memory[i].bytes != 0 && is_ours(m, t->memory[i].device_type, t->memory[i].device_index))
            p->events[p->event_count++] = i;
    for (uint32_t i = 0; i < t->tag_count; i++)
        if (is_ours(m, t->tags[i].device_type, t->tags[i].device_index))
            p->tags[p->tag_count++] = t->tags[i];
    sort_tags(p->tags, p->tag_count);
    return true;
}

/* Files of one process do not say whose a tag is. */
static uint32_t home_of(const pairing *p, uint32_t track)
{
    if (track == MTP__NONE && p->event_count > 0)
        track = p->m->trace->memory[p->events[0]].track;
    return track < p->m->trace->track_count ? p->home[track] : 0;
}

static place *place_at(pairing *p, uint64_t address, uint32_t home) /* NULL: out of memory */
{
    bool is_new;
    const uint64_t key[2] = {address, home};
    place *at = mtp__hash_map_put(&p->places, key, sizeof key, sizeof *at, &is_new);
    if (at != NULL && is_new)
        *at = (place){MTP__NONE, NO_CATEGORY, false};
    return at;
}

static void add_change(mtp_memory_timeline *m, int64_t ts, uint32_t block, mtp__memory_action action)
{
    m->changes[m->change_count++] = (mtp__change){ts, block, (uint8_t)action, 0, 0};
}

static void on_free(pairing *p, place *at, int64_t ts, uint32_t context)
{
    mtp__block *b = &p->m->blocks[at->block];
    b->freed = ts;
    b->ended = context;
    add_change(p->m, ts, at->block, MTP__DESTROY);
    at->block = MTP__NONE;
}

static bool on_event(pairing *p, uint32_t i)
{
    mtp_memory_timeline *m = p->m;
    const mtp__memory *e = &m->trace->memory[p->events[i]];
    const uint32_t home = home_of(p, e->track);
    place *at = place_at(p, e->address, home);
    uint64_t size = size_of(e->bytes);
    if (at == NULL)
        return false;
    if (e->bytes > 0 && at->block != MTP__NONE) { /* its free is missing */
        m->info.lost_events++;
        on_free(p, at, e->ts, MTP__NONE);
    }
    if (e->bytes < 0 && at->block == MTP__NONE &&
        at->seen) { /* its allocation is missing: it was never counted */
        m->info.lost_events++;
        return true;
    }
    at->seen = true;
    if (e->bytes > 0 || at->block == MTP__NONE) {
        at->block = m->block_count++;
        m->blocks[at->block] = (mtp__block){.address = e->address,
                                            .bytes = size > INT64_MAX ? INT64_MAX : (int64_t)size,
                                            .created = e->bytes > 0 ? e->ts : INT64_MIN,
                                            .freed = INT64_MAX,
                                            .made = e->bytes > 0 ? i : MTP__NONE,
                                            .ended = MTP__NONE,
                                            .first = MTP_MEMORY_UNKNOWN,
                                            .last = MTP_MEMORY_UNKNOWN,
                                            .home = home};
        if (e->bytes < 0 && at->tagged != NO_CATEGORY) {
            m->blocks[at->block].first = m->blocks[at->block].last = at->tagged;
            m->blocks[at->block].tagged = true;
        }
        at->tagged = NO_CATEGORY;
    }
    if (e->bytes > 0) {
        m->info.allocations++;
        m->info.allocated_bytes = (int64_t)((uint64_t)m->info.allocated_bytes + (uint64_t)e->bytes);
        add_change(m, e->ts, at->block, MTP__CREATE);
    } else {
        m->info.frees++;
        on_free(p, at, e->ts, i);
    }
    return true;
}

/* A preexisting block. If the address had another block in this trace, what happened in between was not
 * recorded, and the block is known only from here on. */
static void on_existing(pairing *p, place *at, const mtp__tag *tag, uint8_t category)
{
    mtp_memory_timeline *m = p->m;
    bool late = at->seen;
    if (at->block != MTP__NONE)
        on_free(p, at, tag->ts, MTP__NONE);
    m->info.lost_events += late;
    at->seen = true;
    at->tagged = NO_CATEGORY;
    at->block = m->block_count++;
    m->blocks[at->block] = (mtp__block){.address = tag->address,
                                        .bytes = tag->bytes,
                                        .created = late ? tag->ts : INT64_MIN,
                                        .freed = INT64_MAX,
                                        .made = MTP__NONE,
                                        .ended = MTP__NONE,
                                        .first = category,
                                        .last = category,
                                        .tagged = true,
                                        .home = home_of(p, tag->track)};
    if (late)
        add_change(m, tag->ts, at->block, MTP__CREATE);
}

static bool on_tag(pairing *p, const mtp__tag *tag)
{
    mtp_memory_timeline *m = p->m;
    uint8_t category = tag->category < MTP_MEMORY_CATEGORIES ? (uint8_t)tag->category : MTP_MEMORY_UNKNOWN;
    place *at = place_at(p, tag->address, home_of(p, tag->track));
    if (at == NULL)
        return false;
    if (tag->bytes > 0 && (at->block == MTP__NONE || m->blocks[at->block].bytes != tag->bytes)) {
        on_existing(p, at, tag, category);
        return true;
    }
    if (at->block == MTP__NONE) {
        at->tagged = category;
        return true;
    }
    mtp__block *b = &m->blocks[at->block];
    if (!b->tagged) {
        b->first = category;
    } else if (b->last != category) {
        add_change(m, tag->ts, at->block, MTP__NEW_TAG);
        m->changes[m->change_count - 1].was = b->last;
        m->changes[m->change_count - 1].now = category;
    }
    b->last = category;
    b->tagged = true;
    return true;
}

/* At the same time the memory event comes first: a tag refers to a live block. But preexisting blocks come
 * before it. */
static bool is_before(const mtp__tag *tag, int64_t ts)
{
    return tag->ts < ts || (tag->ts == ts && tag->bytes > 0);
}

static mtp_status pair(pairing *p)
{
    const mtp_trace *t = p->m->trace;
    uint32_t tag = 0;
    bool ok = true;
    for (uint32_t i = 0; ok && i < p->event_count; i++) {
        for (; ok && tag < p->tag_count && is_before(&p->tags[tag], t->memory[p->events[i]].ts); tag++)
            ok = on_tag(p, &p->tags[tag]);
        ok = ok && on_event(p, i);
    }
    for (; ok && tag < p->tag_count; tag++)
        ok = on_tag(p, &p->tags[tag]);
    return ok ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%zu addresses", p->places.count);
}

/* The first total of a process gives what it used before; the part that is not freed in the trace is one
 * block. e: its first event. Returns what was in use. */
static uint64_t add_base_of(mtp_memory_timeline *m, uint32_t home, const mtp__memory *e, uint64_t known)
{
    uint64_t before = e->total_allocated >= 0 ? (uint64_t)e->total_allocated - (uint64_t)e->bytes : 0;
    if (before <= known || before > INT64_MAX)
        return known;
    m->blocks[m->block_count++] = (mtp__block){.bytes = (int64_t)(before - known),
                                               .created = INT64_MIN,
                                               .freed = INT64_MAX,
                                               .made = MTP__NONE,
                                               .ended = MTP__NONE,
                                               .first = MTP_MEMORY_UNKNOWN,
                                               .last = MTP_MEMORY_UNKNOWN,
                                               .home = home};
    return before;
}

/* And the last totals give what is in use at the end. Each process counts its own. */
static mtp_status add_base(pairing *p, uint64_t *at_end, bool *is_known)
{
    mtp_memory_timeline *m = p->m;
    struct {
        uint64_t known;
        const mtp__memory *first, *last;
    } *of = mtp__calloc((size_t)p->homes + 1, sizeof *of);
    if (of == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the memory of %u processes", p->homes);
    for (uint32_t i = 0; i < m->block_count; i++)
        of[m->blocks[i].home].known += m->blocks[i].created == INT64_MIN ? (uint64_t)m->blocks[i].bytes : 0;
    for (uint32_t i = 0; i < p->event_count; i++) {
        const mtp__memory *e = &m->trace->memory[p->events[i]];
        uint32_t home = home_of(p, e->track);
        of[home].first = of[home].first != NULL ? of[home].first : e;
        of[home].last = e;
    }
    uint64_t before = 0;
    for (uint32_t home = 0; home < p->homes + 1; home++) {
        before +=
            of[home].first != NULL ? add_base_of(m, home, of[home].first, of[home].known) : of[home].known;
        if (of[home].last == NULL)
            continue;
        *is_known &= of[home].last->total_allocated >= 0;
        *at_end += (uint64_t)of[home].last->total_allocated;
    }
    m->info.preexisting_bytes = (int64_t)before;
    mtp__free(of);
    return MTP_OK;
}

/* ---------------------------------------------------------------------------------------- categories */

/* The rules of mtprof_analysis.h, in the same order. */
static mtp_memory_category derive(const pairing *p, const mtp__block *b)
{
    static const mtp__context nowhere = {MTP__NONE, MTP__NONE, MTP__NONE, 0};
    if (b->made == MTP__NONE)
        return MTP_MEMORY_UNKNOWN;
    const mtp__context *made = &p->contexts[b->made],
                       *ended = b->ended != MTP__NONE ? &p->contexts[b->ended] : &nowhere;
    if (made->top != MTP__NONE && made->top == ended->top)
        return MTP_MEMORY_TEMPORARY;
    if ((made->flags & MTP__IN_BACKWARD) != 0)
        return (ended->flags & MTP__IN_BACKWARD) != 0 ? MTP_MEMORY_AUTOGRAD_DETAIL : MTP_MEMORY_GRADIENT;
    if ((made->flags & (MTP__IN_OPTIMIZER | MTP__IN_LOADER)) != 0) {
        if (made->scope == ended->scope)
            return MTP_MEMORY_UNKNOWN;
        return (made->flags & MTP__IN_OPTIMIZER) != 0 ? MTP_MEMORY_OPTIMIZER_STATE : MTP_MEMORY_INPUT;
    }
    if ((made->flags & MTP__IN_FORWARD) != 0 || (ended->flags & MTP__IN_BACKWARD) != 0)
        return MTP_MEMORY_ACTIVATION;
    return MTP_MEMORY_UNKNOWN;
}

static void categorise(pairing *p)
{
    mtp_memory_timeline *m = p->m;
    for (uint32_t i = 0; i < m->block_count; i++) {
        mtp__block *b = &m->blocks[i];
        m->info.tagged += b->tagged;
        if (!b->tagged)
            b->first = b->last = (uint8_t)derive(p, b);
        b->made = b->made != MTP__NONE ? p->contexts[b->made].op
                                       : MTP__NONE; /* the contexts are freed, the span stays */
    }
}

/* -------------------------------------------------------------------------------------------- replay */

static void add_size(mtp__replay *r, unsigned category,
                     uint64_t bytes) /* defined wraparound for sums of absurd sizes */
{
    r->sizes[category] = (int64_t)((uint64_t)r->sizes[category] + bytes);
    r->total = (int64_t)((uint64_t)r->total + bytes);
}

void mtp__replay_init(mtp__replay *r, const mtp_memory_timeline *m)
{
    *r = (mtp__replay){.timeline = m};
    for (uint32_t i = 0; i < m->block_count; i++)
        if (m->blocks[i].created == INT64_MIN)
            add_size(r, m->blocks[i].first, (uint64_t)m->blocks[i].bytes);
}

int64_t mtp__timeline_start(const mtp_memory_timeline *m)
{
    return m->change_count > 0 ? m->changes[0].ts : m->trace->first_ns;
}

uint8_t mtp__change_was(const mtp_memory_timeline *m, const mtp__change *c)
{
    return c->action == MTP__NEW_TAG ? c->was : m->blocks[c->block].last;
}

uint8_t mtp__change_now(const mtp_memory_timeline *m, const mtp__change *c)
{
    return c->action == MTP__NEW_TAG ? c->now : m->blocks[c->block].first;
}

bool mtp__replay_next(mtp__replay *r)
{
    const mtp_memory_timeline *m = r->timeline;
    if (r->next == m->change_count)
        return false;
    const mtp__change *c = &m->changes[r->next++];
    uint64_t bytes = (uint64_t)m->blocks[c->block].bytes;
    if (c->action != MTP__CREATE)
        add_size(r, mtp__change_was(m, c), 0 - bytes);
    if (c->action != MTP__DESTROY)
        add_size(r, mtp__change_now(m, c), bytes);
    return true;
}

void mtp_memory_timeline_points(const mtp_memory_timeline *m, mtp_memory_visit *visit, void *user)
{
    if (m == NULL || visit == NULL)
        return;
    mtp__replay r;
    mtp__replay_init(&r, m);
    mtp_memory_point point = {.ns = mtp__timeline_start(m)};
    if (m->info.preexisting_bytes != 0) {
        memcpy(point.bytes, r.sizes, sizeof point.bytes);
        if (!visit(user, &point))
            return;
    }
    while (mtp__replay_next(&r)) {
        point.ns = m->changes[r.next - 1].ts;
        if (r.next < m->change_count && m->changes[r.next].ts == point.ns)
            continue;
        memcpy(point.bytes, r.sizes, sizeof point.bytes);
        if (!visit(user, &point))
            return;
    }
}

/* ---------------------------------------------------------------------------------------------- peak */

static int largest_first(const void *a, const void *b)
{
    const mtp_memory_block *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    if (x->created_ns != y->created_ns)
        return x->created_ns > y->created_ns ? 1 : -1;
    return (x->address > y->address) - (x->address < y->address);
}

static mtp_memory_block describe(const mtp_memory_timeline *m, const mtp__sources *sources,
                                 const mtp__block *b, uint8_t category)
{
    mtp_text op = {"", 0}, maker = op, source = op;
    int64_t thread = -1;
    if (b->made != MTP__NONE) {
        uint32_t span = mtp__memory_maker(m->trace, b->made);
        op = mtp__trace_get_text(m->trace, m->trace->name[b->made]);
        maker = mtp__trace_get_text(m->trace, m->trace->name[span]);
        source = mtp__source_of(sources, span);
        thread = m->trace->tracks[mtp__trace_track_of(m->trace, b->made)].tid;
    }
    return (mtp_memory_block){.address = b->address,
                              .bytes = b->bytes,
                              .category = (mtp_memory_category)category,
                              .created_ns = b->created,
                              .freed_ns = b->freed,
                              .op = op.bytes,
                              .op_length = op.length,
                              .thread = thread,
                              .maker = {maker.bytes, maker.length},
                              .source = {source.bytes, source.length}};
}

/* alive: 0, or the category + 1, after `changes` changes. */
static uint64_t mark_alive(const mtp_memory_timeline *m, uint32_t changes, uint8_t *alive)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->block_count; i++)
        alive[i] = m->blocks[i].created == INT64_MIN ? (uint8_t)(m->blocks[i].first + 1) : 0;
    for (uint32_t i = 0; i < changes; i++) {
        const mtp__change *c = &m->changes[i];
        alive[c->block] = c->action == MTP__DESTROY ? 0 : (uint8_t)(mtp__change_now(m, c) + 1);
    }
    for (uint32_t i = 0; i < m->block_count; i++)
        count += alive[i] != 0;
    return count;
}

static mtp_status find_peak(mtp_memory_timeline *m)
{
    mtp__replay r;
    mtp__replay_init(&r, m);
    uint32_t changes = 0;
    do {
        if (r.next > 0 && r.total <= m->info.peak_bytes)
            continue;
        changes = r.next;
        m->info.peak_bytes = r.total;
        m->info.peak_ns = changes > 0                           ? m->changes[changes - 1].ts
                          : m->change_count > 0 || r.total != 0 ? mtp__timeline_start(m)
                                                                : 0;
        memcpy(m->info.peak_by_category, r.sizes, sizeof r.sizes);
    } while (mtp__replay_next(&r));
    m->info.end_bytes = r.total;
    uint8_t *alive = mtp__calloc((size_t)m->block_count + 1, 1);
    m->info.peak_blocks = alive != NULL ? mark_alive(m, changes, alive) : 0;
    m->peak = alive != NULL ? mtp__calloc(m->info.peak_blocks + 1, sizeof *m->peak) : NULL;
    size_t at = 0;
    mtp__sources sources;
    mtp_status status = mtp__sources_init(&sources, m->trace);
    for (uint32_t i = 0; status == MTP_OK && m->peak != NULL && i < m->block_count; i++)
        if (alive[i] != 0)
            m->peak[at++] = describe(m, &sources, &m->blocks[i], (uint8_t)(alive[i] - 1));
    mtp__sources_fini(&sources);
    if (at > 1)
        qsort(m->peak, at, sizeof *m->peak, largest_first);
    mtp__free(alive);
    return status != MTP_OK ? status : m->peak != NULL ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "blocks at the peak");
}

/* -------------------------------------------------------------------------------------------- public */

static mtp_status build(mtp_memory_timeline *m)
{
    pairing p;
    mtp_status status = MTP_OK;
    if (!pairing_init(&p, m))
        status = MTP_FAIL(MTP_E_NOMEM, "blocks of %u memory events", m->trace->memory_count);
    if (status == MTP_OK && p.event_count > 0)
        status = mtp__memory_contexts(m->trace, p.events, p.event_count, p.contexts);
    uint64_t at_end = 0;
    bool is_known = p.event_count > 0;
    if (status == MTP_OK)
        status = pair(&p);
    if (status == MTP_OK)
        status = add_base(&p, &at_end, &is_known);
    if (status == MTP_OK) {
        categorise(&p);
        status = find_peak(m);
    }
    m->info.unaccounted_bytes = is_known ? (int64_t)(at_end - (uint64_t)m->info.end_bytes) : 0;
    pairing_fini(&p);
    return status;
}

mtp_status mtp_memory_timeline_create(const mtp_trace *trace, const char *device, mtp_memory_timeline **out)
{
    if (trace == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace or out is NULL");
    *out = NULL;
    mtp_memory_timeline *m = mtp__calloc(1, sizeof *m);
    if (m == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a memory timeline");
    m->trace = trace;
    m->info = (mtp_memory_info)MTP_MEMORY_INFO_INIT;
    mtp_status status = choose_device(m, device);
    if (status == MTP_OK)
        status = build(m);
    m->info.device = m->device.name;
    if (status == MTP_OK)
        *out = m;
    else
        mtp_memory_timeline_destroy(m);
    return status;
}

void mtp_memory_timeline_destroy(mtp_memory_timeline *m)
{
    if (m == NULL)
        return;
    mtp__free(m->blocks);
    mtp__free(m->changes);
    mtp__free(m->peak);
    mtp__free(m);
}

const char *mtp_memory_timeline_device(const mtp_memory_timeline *m, size_t index)
{
    return m != NULL && index < m->device_count ? m->devices[index].name : NULL;
}

mtp_status mtp_memory_timeline_info(const mtp_memory_timeline *m, mtp_memory_info *out)
{
    if (m == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "timeline or out is NULL");
    mtp_status status = MTP__ABI_CHECK(out, mtp_memory_info, peak_blocks);
    if (status == MTP_OK)
        mtp__abi_write(out, &m->info, sizeof m->info);
    return status;
}

const mtp_memory_block *mtp_memory_timeline_block(const mtp_memory_timeline *m, size_t index)
{
    return m != NULL && index < m->info.peak_blocks ? &m->peak[index] : NULL;
}
