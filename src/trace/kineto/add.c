/* trace/kineto/add.c - an event into the model, by its phase. */
#include <string.h>
#include "base/hash.h"
#include "trace/kineto/reader.h"
#include "trace/facts.h"

static bool starts_with(const mtp__json_string *s, const char *text, size_t length)
{
    return s->length >= length && memcmp(s->bytes, text, length) == 0;
}
#define STARTS_WITH(s, text) starts_with((s), (text), sizeof(text) - 1)

static void reach(mtp__kineto *k, uint32_t row, int64_t ns)
{
    mtp__kineto_row *r = &k->rows[row];
    r->last_ns = ns > r->last_ns ? ns : r->last_ns;
}

/* ---------------------------------------------------------------------------------------------- spans */

/* ts + dur; a duration that is no number, or below 0, or out of range is taken for 0 and counted. */
static int64_t end_of(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    int64_t end = e->ts;
    bool bad = (e->seen & MTP__SEEN_BAD_DUR) != 0;
    if ((e->seen & MTP__SEEN_DUR) != 0)
        bad = e->dur < 0 || __builtin_add_overflow(e->ts, e->dur, &end);
    k->trace->bad_durations += bad;
    return bad ? e->ts : end;
}

static bool step_number(const mtp__kineto_event *e, mtp__category category, int64_t *number)
{
    uint64_t n;
    if ((category != MTP__CATEGORY_USER_ANNOTATION && category != MTP__CATEGORY_CPU_OP) ||
        !STARTS_WITH(&e->name, MTP__STEP_PREFIX) ||
        !mtp__text_unsigned(e->name.bytes + sizeof MTP__STEP_PREFIX - 1,
                            e->name.length - (sizeof MTP__STEP_PREFIX - 1), &n) ||
        n > INT64_MAX)
        return false;
    *number = (int64_t)n;
    return true;
}

/* Nearly all names are told apart from these by their first character. */
uint8_t mtp__kineto_flags(const mtp__kineto *k, mtp__category category, int64_t *step)
{
    const mtp__kineto_event *e = &k->event;
    char first = e->name.length != 0 ? e->name.bytes[0] : 0;
    if (first == 'P' && step_number(e, category, step))
        return MTP__SPAN_STEP;
    if (first == 'n' && category == MTP__CATEGORY_PYTHON_FUNCTION &&
        STARTS_WITH(&e->name, MTP__MODULE_PREFIX))
        return MTP__SPAN_MODULE;
    if (first == 'a' && STARTS_WITH(&e->name, MTP__ENGINE_PREFIX))
        return MTP__SPAN_BACKWARD;
    return 0;
}

/* Kineto's events about the recording as a whole, if our writer made them: they are no part of what was recorded. */
static bool is_window(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    uint32_t by = 0;
    if ((e->args & MTP__ARG_BIT(MADE_BY)) == 0 || !mtp__kineto_arg_text(k, MTP__ARG_MADE_BY, &by) ||
        strcmp(mtp__trace_get_text(k->trace, by).bytes, "mtprof") != 0 ||
        !(e->phase == 'X'
              ? STARTS_WITH(&e->name, "PyTorch Profiler (") && STARTS_WITH(&e->category, "Trace")
              : STARTS_WITH(&e->name, "Iteration Start: ") || STARTS_WITH(&e->name, "Record Window End")))
        return false;
    uint32_t row = mtp__kineto_row_of(k);
    if (row != MTP__NONE)
        k->rows[row].made = k->trace->made_window = true;
    return true;
}

static void add_complete(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    if (is_window(k))
        return;
    mtp__category category = mtp__kineto_category(k);
    uint64_t taken = 0;
    uint32_t row = mtp__kineto_row_for(k, category, &taken);
    if (row == MTP__NONE)
        return;
    int64_t end = end_of(k), step = 0;
    uint8_t flags = mtp__kineto_flags(k, category, &step);
    if (flags & MTP__SPAN_STEP) {
        mtp__step item = {e->ts, end, step};
        mtp__trace_add_step(k->trace, &item);
    }
    uint32_t name = mtp__kineto_string(k, &e->name);
    if ((e->args & MTP__ARG_BIT(ORIGINAL_NAME)) != 0 &&
        mtp__kineto_arg_text(k, MTP__ARG_ORIGINAL_NAME, &name))
        taken |= MTP__ARG_BIT(
            ORIGINAL_NAME); /* one that viewers do not take: our writer put another in its place */
    uint32_t detail = mtp__kineto_detail(k, category, step <= UINT32_MAX ? (uint32_t)step : 0, taken, &flags);
    k->trace->unfinished += (flags & MTP__SPAN_UNFINISHED) != 0;
    uint32_t span =
        mtp__trace_add_span(k->trace, k->rows[row].track, e->ts, end, name, category, flags, detail);
    reach(k, row, end);
    if (!(e->seen & (MTP__SEEN_DUR | MTP__SEEN_BAD_DUR)) &&
        MTP__KINETO_ROOM(k, k->unfinished, k->unfinished_room, k->unfinished_count))
        k->unfinished[k->unfinished_count++] = (mtp__kineto_unfinished){span, row};
}

static void add_pair(mtp__kineto *k, bool async, bool is_end)
{
    uint64_t taken = 0;
    uint32_t row = async    ? mtp__kineto_row_async(k)
                   : is_end ? mtp__kineto_row_any(k)
                            : mtp__kineto_row_for(k, mtp__kineto_category(k), &taken);
    if (row != MTP__NONE)
        mtp__kineto_pair_add(k, row, is_end, taken);
}

/* ------------------------------------------------------------------------------------------- instants */

static bool add_memory(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    const uint64_t needed = MTP__ARG_BIT(ADDRESS) | MTP__ARG_BIT(MEMORY_BYTES);
    mtp__memory m = {.ts = e->ts, .total_allocated = -1, .total_reserved = -1, .device_index = -1};
    int64_t type = 0, index = -1;
    uint64_t taken = needed, number;
    if (e->name.length != 8 || memcmp(e->name.bytes, "[memory]", 8) != 0 || (e->args & needed) != needed ||
        !mtp__kineto_unsigned(k, MTP__ARG_ADDRESS, &m.address) ||
        !mtp__kineto_signed(k, MTP__ARG_MEMORY_BYTES, &m.bytes))
        return false;
    uint32_t row = mtp__kineto_row_any(k);
    if (row == MTP__NONE)
        return true;
    if (mtp__kineto_signed(k, MTP__ARG_TOTAL_ALLOCATED, &m.total_allocated))
        taken |= MTP__ARG_BIT(TOTAL_ALLOCATED);
    if (mtp__kineto_signed(k, MTP__ARG_TOTAL_RESERVED, &m.total_reserved))
        taken |= MTP__ARG_BIT(TOTAL_RESERVED);
    if (mtp__kineto_signed(k, MTP__ARG_MEMORY_DEVICE_TYPE, &type) && type >= 0 && type <= UINT16_MAX)
        taken |= MTP__ARG_BIT(MEMORY_DEVICE_TYPE);
    if (mtp__kineto_signed(k, MTP__ARG_MEMORY_DEVICE_ID, &index) && index >= -1 && index <= INT16_MAX)
        taken |= MTP__ARG_BIT(MEMORY_DEVICE_ID);
    if (mtp__kineto_unsigned(k, MTP__ARG_EVENT_INDEX, &number) && number < UINT32_MAX) {
        m.event_index = (uint32_t)number + 1;
        taken |= MTP__ARG_BIT(EVENT_INDEX);
    }
    m.track = k->rows[row].track;
    m.device_type = taken & MTP__ARG_BIT(MEMORY_DEVICE_TYPE) ? (uint16_t)type : 0;
    m.device_index = taken & MTP__ARG_BIT(MEMORY_DEVICE_ID) ? (int16_t)index : -1;
    m.args = mtp__kineto_rest(k, taken);
    mtp__trace_add_memory(k->trace, &m);
    reach(k, row, e->ts);
    return true;
}

static void add_instant(mtp__kineto *k, uint32_t row)
{
    const mtp__kineto_event *e = &k->event;
    if (row == MTP__NONE)
        return;
    mtp__instant i = {.ts = e->ts,
                      .name = mtp__kineto_string(k, &e->name),
                      .category = mtp__kineto_string(k, &e->category),
                      .args = mtp__kineto_rest(k, 0),
                      .track = k->rows[row].track,
                      .scope = e->scope == 'p' || e->scope == 'g' ? e->scope : 't'};
    mtp__trace_add_instant(k->trace, &i);
    reach(k, row, e->ts);
}

/* What our writer made of a [memory] event, which is there too. */
static bool is_made(const mtp__kineto_event *e)
{
    return e->category.length == sizeof MTP__MEMORY_COUNTER - 1 &&
           STARTS_WITH(&e->category, MTP__MEMORY_COUNTER);
}

/* One value; further ones, and names of values other than "value", stay in args. */
static void add_counter(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    uint32_t row = is_made(e) ? MTP__NONE : mtp__kineto_row_any(k);
    if (row == MTP__NONE)
        return;
    mtp__instant i = {.ts = e->ts,
                      .name = mtp__kineto_string(k, &e->name),
                      .category = mtp__kineto_string(k, &e->category),
                      .track = k->rows[row].track,
                      .scope = 't',
                      .is_counter = true};
    const mtp__kineto_member *first = NULL;
    for (size_t m = 0; m < e->member_count && first == NULL; m++)
        if (e->members[m].value.kind == 0)
            first = &e->members[m];
    if (first != NULL)
        i.value = mtp__decimal_double(&first->value.number);
    if (first == NULL || e->member_count > 1 || first->key.length != 5 ||
        memcmp(first->key.bytes, "value", 5) != 0)
        i.args = mtp__kineto_rest(k, 0);
    mtp__trace_add_instant(k->trace, &i);
    reach(k, row, e->ts);
}

/* Text that is no number: its hash stands for it. */
static uint64_t flow_id(const mtp__kineto_id *id)
{
    uint64_t n;
    if (!id->is_text)
        return (uint64_t)id->number;
    return mtp__text_unsigned(id->text.bytes, id->text.length, &n)
               ? n
               : mtp__hash_bytes(id->text.bytes, id->text.length);
}

/* From a launch to its work, as Kineto spelled it before it was ac2g: "async_gpu", or "launch" among the "async". */
static bool is_old_launch(const mtp__kineto_event *e)
{
    const mtp__json_string *name = e->name.length != 0 ? &e->name : &e->category;
    return (name->length == 9 && STARTS_WITH(name, "async_gpu")) ||
           (name->length == 6 && STARTS_WITH(name, "launch") && STARTS_WITH(&e->category, "async"));
}

static void add_flow(mtp__kineto *k)
{
    static const mtp__json_string ac2g = {"ac2g", 4, 0};
    const mtp__kineto_event *e = &k->event;
    uint32_t row = mtp__kineto_row_any(k);
    if (row == MTP__NONE)
        return;
    const mtp__json_string *name = is_old_launch(e) ? &ac2g : e->name.length != 0 ? &e->name : &e->category;
    mtp__flow flow = {.ts = e->ts,
                      .id = flow_id(&e->id),
                      .track = k->rows[row].track,
                      .name = mtp__kineto_string(k, name),
                      .phase = e->phase};
    mtp__trace_add_flow(k->trace, &flow);
}

/* ------------------------------------------------------------------------------------------- metadata */

/* A metadata event of another kind: its args as metadata of that name; of a second process with the pid behind. */
static void add_metadata(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    mtp__buffer *b = &k->rest;
    uint32_t args = mtp__kineto_rest(k, 0), name = mtp__kineto_string(k, &e->name);
    mtp_text text = mtp__trace_get_text(k->trace, args), key = mtp__trace_get_text(k->trace, name);
    b->length = 0;
    mtp__buffer_add(b, "{", 1);
    mtp__buffer_add(b, text.bytes, text.length);
    mtp__buffer_add(b, "}", 1);
    if (b->failed || key.length == 0)
        return;
    mtp__json_value value = {.bytes = b->bytes, .length = b->length, .kind = '{'};
    mtp__kineto_meta(k, key.bytes, key.length, &value);
}

void mtp__kineto_add(mtp__kineto *k)
{
    const mtp__kineto_event *e = &k->event;
    k->trace->clock_faults += e->clock_faults;
    if (e->phase == 'M') {
        if (!mtp__kineto_describe(k))
            add_metadata(k);
        return;
    }
    bool needs_id = e->phase != 0 && strchr("beSFnTpstf", e->phase) != NULL;
    if (!(e->seen & MTP__SEEN_TS) || (needs_id && !(e->seen & MTP__SEEN_ID))) {
        k->trace->skipped_events++;
        return;
    }
    switch (e->phase) {
    case 'X':
        add_complete(k);
        break;
    case 'B':
    case 'E':
        add_pair(k, false, e->phase == 'E');
        break;
    case 'b':
    case 'S': /* S, T, p and F: as they were written before b, n and e */
    case 'e':
    case 'F':
        add_pair(k, true, e->phase == 'e' || e->phase == 'F');
        break;
    case 'i':
    case 'I':
    case 'R':
    case 'P':
        if (!is_window(k) && !add_memory(k))
            add_instant(k, mtp__kineto_row_any(k));
        break;
    case 'n':
    case 'T':
    case 'p':
        add_instant(k, mtp__kineto_row_async(k));
        break;
    case 'C':
        add_counter(k);
        break;
    case 's':
    case 't':
    case 'f':
        add_flow(k);
        break;
    default:
        k->trace->skipped_events++;
    }
}
