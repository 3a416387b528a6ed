/* trace/kineto/args.c - interprets an event's args. Members without a place in the model are kept as text. */
#include <string.h>
#include "base/hash.h"
#include "trace/kineto/reader.h"

static const mtp__kineto_member *member(const mtp__kineto *k, mtp__kineto_arg arg)
{
    const mtp__kineto_event *e = &k->event;
    return e->args >> arg & 1 ? &e->members[e->arg[arg]] : NULL;
}

bool mtp__kineto_signed(const mtp__kineto *k, mtp__kineto_arg arg, int64_t *out)
{
    const mtp__kineto_member *m = member(k, arg);
    mtp__decimal d;
    if (m == NULL)
        return false;
    if (m->value.kind == 0)
        return mtp__decimal_signed(&m->value.number, out);
    return m->value.kind == '"' && mtp__text_decimal(m->value.bytes + 1, m->value.length - 2, &d) &&
           mtp__decimal_signed(&d, out);
}

bool mtp__kineto_unsigned(const mtp__kineto *k, mtp__kineto_arg arg, uint64_t *out)
{
    const mtp__kineto_member *m = member(k, arg);
    if (m == NULL)
        return false;
    if (m->value.kind == 0)
        return mtp__decimal_unsigned(&m->value.number, out);
    return m->value.kind == '"' && mtp__text_unsigned(m->value.bytes + 1, m->value.length - 2, out);
}

/* A string without its quotes. */
static mtp__json_string inner(const mtp__json_value *v)
{
    return (mtp__json_string){v->bytes + 1, v->length - 2, v->flags};
}

bool mtp__kineto_arg_text(mtp__kineto *k, mtp__kineto_arg arg, uint32_t *out)
{
    const mtp__kineto_member *m = member(k, arg);
    if (m == NULL || m->value.kind != '"')
        return false;
    mtp__json_string s = inner(&m->value);
    *out = mtp__kineto_string(k, &s);
    return true;
}

/* "key": value is already in canonical form in the file. */
static bool is_tidy(const mtp__kineto_member *m)
{
    const char *colon = m->key.bytes + m->key.length + 1;
    return (m->key.flags | m->value.flags) == 0 && m->value.bytes == colon + 2 && colon[1] == ' ';
}

void mtp__kineto_member_text(mtp__buffer *b, const mtp__kineto_member *m)
{
    if (b->length != 0)
        mtp__buffer_add(b, ", ", 2);
    mtp__buffer_add(b, "\"", 1);
    if (m->key.flags == 0)
        mtp__buffer_add(b, m->key.bytes, m->key.length);
    else
        mtp__json_tidy_string(b, m->key.bytes, m->key.length);
    mtp__buffer_add(b, "\": ", 3);
    if (m->value.flags == 0)
        mtp__buffer_add(b, m->value.bytes, m->value.length);
    else
        mtp__json_tidy(b, m->value.bytes, m->value.length);
}

/* Usually these members are adjacent and canonical in the file, and need not be copied first. */
uint32_t mtp__kineto_rest(mtp__kineto *k, uint64_t taken)
{
    mtp__kineto_event *e = &k->event;
    const char *from = NULL, *to = NULL;
    bool together = e->overflow.length == 0;
    taken &= ~MTP__ARG_BIT(NONE);
    for (size_t i = 0; i < e->member_count && together; i++) {
        const mtp__kineto_member *m = &e->members[i];
        if ((taken >> m->arg & 1) != 0)
            continue;
        together = is_tidy(m) && (to == NULL || (m->key.bytes == to + 3 && to[0] == ',' && to[1] == ' '));
        from = from != NULL ? from : m->key.bytes - 1;
        to = m->value.bytes + m->value.length;
    }
    if (together)
        return from != NULL ? mtp__kineto_text(k, from, (size_t)(to - from)) : 0;
    mtp__buffer *b = e->overflow.length != 0 ? &e->overflow : &k->rest;
    k->rest.length = 0;
    for (size_t i = 0; i < e->member_count; i++)
        if ((taken >> e->members[i].arg & 1) == 0)
            mtp__kineto_member_text(b, &e->members[i]);
    if (b->failed)
        k->no_memory = true;
    return b->failed ? 0 : mtp__kineto_text(k, b->bytes, b->length);
}

/* ------------------------------------------------------------------------------------------ categories */

/* X(spelling, category): spellings of older versions; Kineto's current ones are in MTP__CATEGORY_LIST. */
#define OLD_CATEGORIES(X)                                                                                    \
    X("Operator", CPU_OP)                                                                                    \
    X("operator", CPU_OP)                                                                                    \
    X("Kernel", KERNEL)                                                                                      \
    X("Memcpy", GPU_MEMCPY)                                                                                  \
    X("memcpy", GPU_MEMCPY)                                                                                  \
    X("Memset", GPU_MEMSET)                                                                                  \
    X("memset", GPU_MEMSET)                                                                                  \
    X("Runtime", CUDA_RUNTIME)                                                                               \
    X("runtime", CUDA_RUNTIME)                                                                               \
    X("gpu_op", KERNEL)                                                                                      \
    X("Python", PYTHON_FUNCTION)                                                                             \
    X("python", PYTHON_FUNCTION)

static const struct {
    const char *text;
    size_t length;
    mtp__category category;
} categories[] = {
#define X(sym, text) {text, sizeof text - 1, MTP__CATEGORY_##sym},
    MTP__CATEGORY_LIST(X)
#undef X
#define X(text, sym) {text, sizeof text - 1, MTP__CATEGORY_##sym},
        OLD_CATEGORIES(X)
#undef X
};

/* ------------------------------------------------------- other accelerators' words for the same things */

static bool is_spelled(const mtp__json_string *s, const char *text)
{
    return s->length == strlen(text) && memcmp(s->bytes, text, s->length) == 0;
}

static bool ends_in(const mtp__json_string *s, const char *end)
{
    size_t length = strlen(end);
    return s->length > length && memcmp(s->bytes + s->length - length, end, length) == 0;
}

/* XPU and PrivateUse1 use CUDA's categories except for calls: xpu_runtime, privateuse1_driver; so do MTIA
 * (mtia_runtime) and others. MTIA's device work is mtia_ccp_events. HPU has one category for calls and device
 * work, hpu_op: the row tells which, and until that is known it stays OTHER, on a track that may turn out to
 * be a device's. */
static mtp__category foreign_category(mtp__kineto *k, const mtp__json_string *s)
{
    if (is_spelled(s, "hpu_op"))
        return mtp__kineto_on_device_row(k) ? MTP__CATEGORY_KERNEL : MTP__CATEGORY_OTHER;
    return is_spelled(s, "mtia_ccp_events") ? MTP__CATEGORY_KERNEL
           : ends_in(s, "_runtime")         ? MTP__CATEGORY_CUDA_RUNTIME
           : ends_in(s, "_driver")          ? MTP__CATEGORY_CUDA_DRIVER
                                            : MTP__CATEGORY_OTHER;
}

mtp__category mtp__kineto_category(mtp__kineto *k)
{
    const mtp__json_string *s = &k->event.category;
    k->event.foreign_category = false;
    if (s->length == k->last_category.length && memcmp(s->bytes, k->last_category.bytes, s->length) == 0)
        return k->last_category.category;
    mtp__category found = MTP__CATEGORY_OTHER;
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++)
        if (categories[i].length == s->length && memcmp(categories[i].text, s->bytes, s->length) == 0)
            found = categories[i].category;
    if (found == MTP__CATEGORY_OTHER) {
        k->event.foreign_category = s->length != 0;
        return foreign_category(k, s);
    }
    if (s->length <= sizeof k->last_category.bytes) {
        memcpy(k->last_category.bytes, s->bytes, s->length);
        k->last_category.length = s->length;
        k->last_category.category = found;
    }
    return found;
}

/* ---------------------------------------------------------------------------------------------- stacks */

static void add_frame(mtp__kineto *k, const mtp__json_string *s)
{
    if (MTP__KINETO_ROOM(k, k->frames, k->frame_room, k->frame_count))
        k->frames[k->frame_count++] = mtp__kineto_string(k, s);
}

/* The strings of an array; false: it contains something else. */
static bool frames_of_array(mtp__kineto *k, const mtp__json_value *v)
{
    const char *p = mtp__json_space(v->bytes + 1), *end = v->bytes + v->length - 1;
    while (p < end) {
        mtp__json_string s;
        if (*p != '"')
            return false;
        p = mtp__json_string_end(&k->json, p + 1, &s); /* already validated */
        add_frame(k, &s);
        p = mtp__json_space(p);
        p = *p == ',' ? mtp__json_space(p + 1) : p;
    }
    return true;
}

/* "a;b;c", as older versions of Kineto wrote call stacks; line feeds separate too. */
static void frames_of_string(mtp__kineto *k, const mtp__json_value *v)
{
    const char *p = v->bytes + 1, *end = v->bytes + v->length - 1;
    while (p < end) {
        const char *q = p;
        while (q < end && *q != ';' && !(q[0] == '\\' && q[1] == 'n'))
            q += *q == '\\' ? 2 : 1;
        mtp__json_string s = {p, (size_t)(q - p), v->flags};
        if (s.length != 0)
            add_frame(k, &s);
        p = q + (q < end && *q == '\\' ? 2 : 1);
    }
}

/* Innermost first in the file; in the model a frame refers to its parent. */
static bool take_stack(mtp__kineto *k, mtp__kineto_arg arg, uint32_t *out)
{
    const mtp__kineto_member *m = member(k, arg);
    k->frame_count = 0;
    if (m == NULL || (m->value.kind != '"' && m->value.kind != '['))
        return false;
    if (m->value.kind == '"')
        frames_of_string(k, &m->value);
    else if (!frames_of_array(k, &m->value))
        return false;
    uint32_t node = 0;
    for (size_t i = k->frame_count; i > 0 && !k->no_memory; i--)
        node = mtp__kineto_stack_add(k, node, k->frames[i - 1]);
    *out = node;
    return true;
}

/* --------------------------------------------------------------------------------------------- details */

#define TAKE_UNSIGNED(sym, to) (mtp__kineto_unsigned(k, MTP__ARG_##sym, (to)) ? MTP__ARG_BIT(sym) : 0)
#define TAKE_SIGNED(sym, to) (mtp__kineto_signed(k, MTP__ARG_##sym, (to)) ? MTP__ARG_BIT(sym) : 0)

static uint64_t take_ids(const mtp__kineto *k, mtp__detail *d)
{
    uint64_t index = 0, taken = TAKE_UNSIGNED(EXTERNAL_ID, &d->external_id);
    taken |= TAKE_SIGNED(SEQUENCE, &d->sequence);
    taken |= TAKE_UNSIGNED(FORWARD_THREAD, &d->forward_thread);
    taken |= TAKE_UNSIGNED(CORRELATION, &d->correlation);
    taken |= TAKE_UNSIGNED(FLOPS, &d->flops);
    if (mtp__kineto_unsigned(k, MTP__ARG_EVENT_INDEX, &index) && index < UINT32_MAX) {
        d->event_index = (uint32_t)index + 1;
        taken |= MTP__ARG_BIT(EVENT_INDEX);
    }
    if (d->sequence < -1) { /* not one of Kineto's: leave it unchanged */
        d->sequence = -1;
        taken &= ~MTP__ARG_BIT(SEQUENCE);
    }
    return taken;
}

static uint64_t take_shapes(mtp__kineto *k, mtp__detail *d)
{
    static const mtp__kineto_arg order[] = {MTP__ARG_DIMS, MTP__ARG_STRIDES, MTP__ARG_TYPES,
                                            MTP__ARG_CONCRETE};
    uint64_t taken = 0;
    uint32_t text[4] = {0};
    for (int i = 0; i < 4; i++) {
        const mtp__kineto_member *m = member(k, order[i]);
        if (m != NULL && m->value.kind == '[') {
            text[i] = m->text;
            taken |= (uint64_t)1 << order[i];
        }
    }
    const mtp__kineto_member *m = member(k, MTP__ARG_INPUT_SHAPES);
    if (m != NULL && m->value.kind == '[') { /* MindTorch's, in addition to or instead of Kineto's */
        text[0] = text[0] != 0 ? text[0] : m->text;
        taken |= MTP__ARG_BIT(INPUT_SHAPES);
    }
    if (taken != 0) {
        mtp__shape shape = {text[0], text[1], text[2], text[3]};
        d->shape = mtp__kineto_shape(k, &shape);
    }
    const mtp__kineto_member *dims = member(k, MTP__ARG_OUTPUT_DIMS),
                             *types = member(k, MTP__ARG_OUTPUT_TYPES);
    if (dims != NULL && dims->value.kind == '[' && (types == NULL || types->value.kind == '[')) {
        mtp__shape shape = {dims->text, 0, types != NULL ? types->text : 0, 0};
        d->outputs = mtp__kineto_shape(k, &shape);
        taken |= MTP__ARG_BIT(OUTPUT_DIMS) | MTP__ARG_BIT(OUTPUT_TYPES);
    }
    return taken;
}

/* [x, y, z] */
static bool take_triple(const mtp__kineto *k, mtp__kineto_arg arg, uint32_t *out)
{
    const mtp__kineto_member *m = member(k, arg);
    uint32_t triple[3];
    if (m == NULL || m->value.kind != '[')
        return false;
    const char *p = mtp__json_space(m->value.bytes + 1);
    for (int i = 0; i < 3; i++) {
        mtp__decimal d;
        uint64_t n;
        p = mtp__json_whole(p, &d);
        if (p == NULL || !mtp__decimal_unsigned(&d, &n) || n > UINT32_MAX)
            return false;
        triple[i] = (uint32_t)n;
        p = mtp__json_space(p);
        if (*p != (i < 2 ? ',' : ']'))
            return false;
        p = mtp__json_space(p + 1);
    }
    memcpy(out, triple, sizeof triple);
    return true;
}

static uint64_t take_device_work(mtp__kineto *k, mtp__detail *d)
{
    int64_t queued, device = k->event.pid.number;
    uint64_t taken = TAKE_SIGNED(BYTES, &d->bytes);
    mtp__kineto_signed(k, MTP__ARG_DEVICE, &device);
    if (d->device != 0xffff && device >= 0 && device <= 0xff) /* MindTorch's; otherwise the track gives it */
        d->device = (uint16_t)MTP_DEVICE_NPU(device);
    taken |= take_triple(k, MTP__ARG_GRID, d->grid) ? MTP__ARG_BIT(GRID) : 0;
    taken |= take_triple(k, MTP__ARG_BLOCK, d->block) ? MTP__ARG_BIT(BLOCK) : 0;
    const mtp__kineto_member *m = member(k, MTP__ARG_QUEUED);
    if (m != NULL && m->value.kind == 0 && mtp__decimal_round(&m->value.number, 3, &queued)) {
        d->queued_ns = queued != 0 ? queued : INT64_MIN; /* microseconds, like ts; Kineto writes 0 for none */
        taken |= MTP__ARG_BIT(QUEUED);
    }
    return taken;
}

/* Members that MindTorch writes in addition to Kineto's. */
static uint64_t take_mindtorch(mtp__kineto *k, mtp__detail *d)
{
    uint64_t taken = 0, correlation, step;
    const mtp__kineto_member *type = member(k, MTP__ARG_DEVICE_TYPE);
    bool npu = type != NULL && type->value.kind == '"' && type->value.length == 5 &&
               (memcmp(type->value.bytes, "\"NPU\"", 5) == 0 || memcmp(type->value.bytes, "\"GPU\"", 5) == 0);
    bool cpu = type != NULL && type->value.kind == '"' && type->value.length == 5 &&
               memcmp(type->value.bytes, "\"CPU\"", 5) == 0;
    if (npu || cpu) {
        d->device = npu ? (uint16_t)MTP_DEVICE_NPU(0) : (uint16_t)MTP_DEVICE_CPU;
        taken |= MTP__ARG_BIT(DEVICE_TYPE);
    }
    if (mtp__kineto_unsigned(k, MTP__ARG_CORRELATION_ID, &correlation)) {
        d->correlation = d->correlation != 0 ? d->correlation : correlation;
        taken |= MTP__ARG_BIT(CORRELATION_ID);
    }
    if (mtp__kineto_unsigned(k, MTP__ARG_STEP, &step) && step <= UINT32_MAX) {
        d->number = (uint32_t)step;
        taken |= MTP__ARG_BIT(STEP);
    }
    const uint64_t of_cpu = MTP__ARG_BIT(CPU_BEFORE) | MTP__ARG_BIT(CPU_AFTER),
                   of_npu = MTP__ARG_BIT(NPU_BEFORE) | MTP__ARG_BIT(NPU_AFTER);
    if ((k->event.args & of_npu) != 0) {
        taken |= TAKE_SIGNED(NPU_BEFORE, &d->allocated_before) | TAKE_SIGNED(NPU_AFTER, &d->allocated_after) |
                 MTP__ARG_BIT(NPU_DELTA);
    } else if ((k->event.args & of_cpu) != 0) {
        taken |= TAKE_SIGNED(CPU_BEFORE, &d->allocated_before) | TAKE_SIGNED(CPU_AFTER, &d->allocated_after) |
                 MTP__ARG_BIT(CPU_DELTA);
    }
    return taken;
}

typedef struct detail_words {
    uint64_t word[sizeof(mtp__detail) / 8];
} detail_words;

/* All details start as a copy of the empty one, so padding compares equal too. */
static detail_words words_of(const mtp__detail *d)
{
    detail_words w;
    memcpy(w.word, d, sizeof w.word);
    return w;
}

static bool same_detail(const mtp__detail *a, const mtp__detail *b)
{
    detail_words x = words_of(a), y = words_of(b);
    return memcmp(x.word, y.word, sizeof x.word) == 0;
}

/* Details without unique numbers often repeat. */
static uint32_t keep_detail(mtp__kineto *k, const mtp__detail *d, const mtp__detail *empty)
{
    if (d->event_index != 0 || d->external_id != 0 || d->correlation != 0)
        return mtp__trace_add_detail(k->trace, d);
    if (same_detail(d, empty))
        return 0;
    detail_words w = words_of(d);
    uint32_t *cached = &k->detail_cache[mtp__hash_words(w.word, sizeof w.word / 8) >> 32 & 255];
    if (*cached == 0 || !same_detail(&k->trace->details[*cached], d))
        *cached = mtp__trace_add_detail(k->trace, d);
    return *cached;
}

#define IS_SHAPES                                                                                            \
    (MTP__ARG_BIT(DIMS) | MTP__ARG_BIT(STRIDES) | MTP__ARG_BIT(TYPES) | MTP__ARG_BIT(CONCRETE) |             \
     MTP__ARG_BIT(INPUT_SHAPES) | MTP__ARG_BIT(OUTPUT_DIMS))
#define IS_MINDTORCH                                                                                         \
    (MTP__ARG_BIT(DEVICE_TYPE) | MTP__ARG_BIT(CORRELATION_ID) | MTP__ARG_BIT(STEP) |                         \
     MTP__ARG_BIT(CPU_BEFORE) | MTP__ARG_BIT(CPU_AFTER) | MTP__ARG_BIT(NPU_BEFORE) |                         \
     MTP__ARG_BIT(NPU_AFTER))

uint32_t mtp__kineto_detail(mtp__kineto *k, mtp__category category, uint32_t number, uint64_t taken,
                            uint8_t *flags)
{
    static const mtp__detail empty = MTP__DETAIL_INIT;
    mtp__kineto_event *e = &k->event;
    if (e->member_count == 0 && number == 0 && !e->foreign_category)
        return 0;
    mtp__detail d = empty;
    taken |= take_ids(k, &d);
    if ((e->args & IS_SHAPES) != 0)
        taken |= take_shapes(k, &d);
    if ((e->args & (MTP__ARG_BIT(STACK) | MTP__ARG_BIT(CALL_STACK))) != 0)
        taken |= take_stack(k, MTP__ARG_STACK, &d.stack) ? MTP__ARG_BIT(STACK) | MTP__ARG_BIT(CALL_STACK)
                 : take_stack(k, MTP__ARG_CALL_STACK, &d.stack) ? MTP__ARG_BIT(CALL_STACK)
                                                                : 0;
    if ((e->args & IS_MINDTORCH) != 0)
        taken |= take_mindtorch(k, &d);
    if (mtp__category_on_device(category))
        taken |= take_device_work(k, &d);
    d.number = number != 0 ? number : d.number;
    d.category = e->foreign_category ? mtp__kineto_string(k, &e->category) : 0;
    d.args = mtp__kineto_rest(k, taken);
    if (d.forward_thread != 0)
        *flags |= MTP__SPAN_BACKWARD;
    const mtp__kineto_member *unfinished = member(k, MTP__ARG_UNFINISHED); /* written by our exporter */
    if (unfinished != NULL && unfinished->value.kind == 't')
        *flags |= MTP__SPAN_UNFINISHED;
    return keep_detail(k, &d, &empty);
}
