/* trace/records/scopes.c - BEGIN, END and TENSORS records become spans and their details. */
#include <stdio.h>
#include <string.h>
#include "base/grow.h"
#include "record/format.h"
#include "trace/facts.h"
#include "trace/records/reader.h"

static bool push_open(mtp__reader *r, uint32_t span)
{
    if (!MTP__GROW(r->open, r->open_room, r->open_count, r->open_count + 1, 64)) {
        r->t->builder->out_of_memory = true;
        return false;
    }
    r->open[r->open_count++] = (mtp__open_span){span, r->depth};
    return true;
}

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
    return words < MTP__SHARED_WORDS &&
           (mask & (MTP__HAS_DETAIL | MTP__HAS_ALLOCATED | MTP__HAS_NUMBER)) == 0;
}

/* The payload of a begin as a detail; number: of a step. */
static uint32_t begin_detail(mtp__reader *r, const uint64_t *w, uint32_t words, uint64_t *number)
{
    mtp__detail d = MTP__DETAIL_INIT;
    mtp__payload p = mtp__payload_of(w, words);
    mtp__shared_detail *last = is_shared(p.mask, words) ? &r->shared[words] : NULL;
    if (last != NULL && last->detail != 0 && last->word[1] == w[1] >> 40 &&
        memcmp(last->word + 2, w + 2, (words - 2) * sizeof *w) == 0)
        return last->detail;
    d.device = (uint16_t)(w[1] >> 48);
    uint64_t value;
    uint32_t args = 0;
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
            args = mtp__id_get(&r->dict.texts, (uint32_t)value);
            break;
        default:
            *number = value;
            d.number = (uint32_t)value;
        }
    }
    if (args != 0)
        d.args = mtp__trace_args_text(r->t, args, &d.sequence);
    uint32_t made = mtp__trace_add_detail(r->t, &d);
    if (last != NULL) {
        memcpy(last->word, w, words * sizeof *w);
        last->word[1] = w[1] >> 40;
        last->detail = made;
    }
    return made;
}

/* The engine's scope around a node is known to be that node's when the node begins: like torch, which gives it
 * the node's sequence number and thread afterwards. Python functions (hooks) may lie in between. */
static void number_engine_scope(mtp__reader *r, uint32_t node)
{
    mtp__span_memory *c = &r->t->builder->spans;
    uint32_t at = r->open_count, span = MTP__NONE;
    do
        span = at > 0 ? r->open[--at].span : MTP__NONE;
    while (span != MTP__NONE && COLUMN(c, CATEGORY, uint8_t)[span] == MTP__CATEGORY_PYTHON_FUNCTION);
    if (span == MTP__NONE || COLUMN(c, CATEGORY, uint8_t)[span] != MTP__CATEGORY_CPU_OP ||
        !MTP__BEGINS_WITH(mtp__trace_get_text(r->t, COLUMN(c, NAME, uint32_t)[span]), MTP__ENGINE_PREFIX))
        return;
    mtp__detail d = r->t->details[COLUMN(c, DETAIL, uint32_t)[span]];
    if (d.sequence >= 0)
        return;
    d.sequence = r->t->details[node].sequence;
    d.forward_thread = r->t->details[node].forward_thread;
    uint32_t made = mtp__trace_add_detail(r->t, &d); /* not changed in place: others may share it */
    if (made != 0)
        COLUMN(c, DETAIL, uint32_t)[span] = made;
}

/* "ProfilerStep#" and its number: made here, so that a million steps need one name in the recording. */
static uint32_t step_name(mtp__reader *r, uint32_t name, uint64_t number)
{
    char text[128];
    mtp_text base = mtp__trace_get_text(r->t, name);
    int n = snprintf(text, sizeof text, "%.*s%llu", (int)(base.length < 64 ? base.length : 64), base.bytes,
                     (unsigned long long)number);
    return mtp__trace_text(r->t, text, (size_t)n);
}

void mtp__read_begin(mtp__reader *r, const uint64_t *w, uint32_t words, uint64_t ticks)
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
        if (detail != 0 && detail != MTP__NONE && r->t->details[detail].sequence >= 0)
            number_engine_scope(r, detail);
    } else if (kind == MTP_SCOPE_MODULE) {
        flags = MTP__SPAN_MODULE;
    }
    int64_t ns = mtp__ticks_to_ns(&r->dict.line, ticks);
    uint32_t parent = r->open_count > 0 ? r->open[r->open_count - 1].span
                                        : MTP__NONE; /* in the TRACK column: see in_order */
    uint32_t span = mtp__trace_add_span(r->t, parent, ns, ns, name, category_of[kind], flags, detail);
    if (span == MTP__NONE || !push_open(r, span))
        return;
    r->depth++;
    r->fresh = span;
    if (name == 0) {
        mtp__late_name late = {span, id};
        r->nameless |= id != 0; /* 0: it was lost while recording, and counted */
        MTP__KEEP(r, late, late_count, &late);
    }
}

/* Slots increase along the list: a binary search by distance below the depth, which also works after depths
 * wrap. */
static uint32_t find_open(const mtp__reader *r, uint32_t slot)
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
static uint32_t take_open(mtp__reader *r, uint32_t at)
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
static uint32_t span_ended(mtp__reader *r, const uint64_t *w, uint32_t words)
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

void mtp__read_end(mtp__reader *r, const uint64_t *w, uint32_t words, uint64_t ticks)
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
static mtp__detail *fresh_detail(mtp__reader *r)
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
void mtp__read_tensors(mtp__reader *r, const uint64_t *w, uint32_t words)
{
    uint32_t signature = (uint32_t)w[1], count = (uint32_t)(w[1] >> 32) & 0xff, first = 0;
    bool more = (w[1] >> 40 & 1) != 0;
    if (r->fresh == MTP__NONE || 2 + 2 * count > words)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *at = w + 2 + 2 * (size_t)i;
        mtp__tensor tensor = {at[0] & (((uint64_t)1 << 48) - 1), at[1] & (((uint64_t)1 << 56) - 1),
                              (uint16_t)(at[0] >> 48), (uint8_t)(at[1] >> 56), 0};
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
