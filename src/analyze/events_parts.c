/* analyze/events_parts.c - an event's lists: children, kernels, frames, inputs. */
#include <string.h>
#include "analyze/events.h"
#include "base/abi.h"
#include "base/error.h"

/* -------------------------------------------------------------------------------------------- children */

static mtp_status link_of(mtp_events *e, size_t index, bool sibling, size_t *out)
{
    uint32_t item;
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    *out = MTP_NO_EVENT;
    mtp_status status = mtp__events_item(e, index, &item);
    if (status == MTP_OK)
        status = mtp__events_need(e, MTP__EVENTS_NESTED);
    if (status != MTP_OK)
        return status;
    uint32_t to = ((const uint32_t *)(sibling ? e->sibling.p : e->child.p))[index];
    *out = to != 0 ? to - 1u : MTP_NO_EVENT;
    return MTP_OK;
}

mtp_status mtp_events_child(mtp_events *e, size_t index, size_t *out)
{
    return link_of(e, index, false, out);
}

mtp_status mtp_events_sibling(mtp_events *e, size_t index, size_t *out)
{
    return link_of(e, index, true, out);
}

/* --------------------------------------------------------------------------------------------- kernels */

mtp_status mtp_events_kernel(mtp_events *e, size_t index, size_t kernel, mtp_event_kernel *out)
{
    uint32_t item, count = 0;
    const uint32_t *list = NULL;
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    mtp_status status = MTP__ABI_CHECK(out, mtp_event_kernel, event);
    if (status == MTP_OK)
        status = mtp__events_item(e, index, &item);
    if (status != MTP_OK)
        return status;
    const mtp_trace *t = e->t;
    const mtp__walk *w = &e->walk;
    if (item < t->span_count && w->work.p != NULL && mtp__group_class(&e->group, item) < MTP__CLASS_DEVICE &&
        !t->tracks[mtp__trace_track_of(t, item)].on_device)
        count = mtp__kernels_of(&e->kernels, t, ((const uint32_t *)w->work.p)[item], &list);
    if (kernel >= count)
        return MTP_FAIL(MTP_E_ARG, "event %zu has no kernel %zu: it has %u", index, kernel, count);
    uint32_t span = list[kernel], event = ((const uint32_t *)w->row.p)[span];
    const mtp__track *track = &t->tracks[mtp__trace_track_of(t, span)];
    mtp_event_kernel made = {.name = mtp__events_key(e, t->name[span]),
                             .device = track->pid,
                             .stream = track->tid,
                             .duration = w->exact ? mtp__microseconds(t->end[span], w->zero_ns) -
                                                        mtp__microseconds(t->start[span], w->zero_ns)
                                                  : (double)mtp__duration(t, span) / 1000,
                             .event = event != 0 ? event - 1u : MTP_NO_EVENT};
    mtp__abi_write(out, &made, sizeof made);
    return MTP_OK;
}

/* ---------------------------------------------------------------------------------------------- frames */

mtp_status mtp_events_stack(mtp_events *e, size_t index, mtp_text *frames, size_t room, size_t *depth)
{
    uint32_t item;
    size_t count = 0;
    if (depth == NULL || (frames == NULL && room > 0))
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", depth == NULL ? "depth" : "frames");
    *depth = 0;
    mtp_status status = mtp__events_item(e, index, &item);
    if (status == MTP_OK)
        status = mtp__events_need(e, MTP__EVENTS_STACKED);
    if (status != MTP_OK || e->stacks.p == NULL || item >= e->t->span_count)
        return status;
    mtp__frames f = mtp__frames_of(e->t, e->python_stacks, ((const uint32_t *)e->stacks.p)[item]);
    for (uint32_t text; mtp__frames_next(&f, &text); count++)
        if (count < room)
            frames[count] = mtp__events_text(e, text);
    *depth = count;
    return MTP_OK;
}

/* ---------------------------------------------------------------------------------------------- inputs */

/* Progress through a JSON list of lists of integers, or of lists of those. */
typedef struct inputs {
    mtp_event_input *item;
    int64_t *number;
    size_t item_room, number_room, items, numbers;
    size_t list; /* the item with tensors; SIZE_MAX: none is open */
} inputs;

static size_t add_item(inputs *in)
{
    if (in->items < in->item_room)
        in->item[in->items] = (mtp_event_input){false, 0};
    return in->items++;
}

static void add_number(inputs *in, size_t item, int64_t value)
{
    if (item < in->item_room)
        in->item[item].count++;
    if (in->numbers < in->number_room)
        in->number[in->numbers] = value;
    in->numbers++;
}

/* A scalar of the list: an integer, or anything else up to the next comma or bracket. */
static const char *take_value(const char *p, const char *end, int64_t *value)
{
    const char *from = p;
    bool negative = p < end && *p == '-', whole = true;
    uint64_t sum = 0;
    p += negative;
    if (p < end && *p == '"') {
        for (p++; p < end && *p != '"'; p++)
            p += *p == '\\' && p + 1 < end;
        p += p < end;
        whole = false;
    }
    for (; p < end && *p != ',' && *p != ']' && *p != '[' && *p != ' '; p++) {
        whole = whole && *p >= '0' && *p <= '9' && sum <= (INT64_MAX - 9) / 10;
        sum = whole ? sum * 10 + (uint64_t)(*p - '0') : 0;
    }
    whole = whole && p > from + negative;
    *value = whole ? (negative ? -(int64_t)sum : (int64_t)sum) : -1;
    return p > from ? p : p + 1;
}

/* Depth 1 is the list of inputs, 2 an input, 3 a tensor of a list; anything deeper is flattened. */
static void take_inputs(inputs *in, mtp_text text)
{
    size_t depth = 0, item = 0;
    for (const char *p = text.bytes, *end = p + text.length; p < end;) {
        int64_t value;
        switch (*p) {
        case '[':
            depth++;
            if (depth == 2) {
                item = add_item(in);
                in->list = SIZE_MAX;
            } else if (depth == 3) {
                if (in->list == SIZE_MAX)
                    in->list = item;
                if (in->list < in->item_room) {
                    if (!in->item[in->list].is_list)
                        in->item[in->list] = (mtp_event_input){true, 0};
                    in->item[in->list].count++;
                }
                item = add_item(in);
            }
            p++;
            break;
        case ']':
            depth -= depth > 0;
            p++;
            break;
        case ',':
        case ' ':
        case '\n':
        case '\t':
        case '\r':
            p++;
            break;
        default:
            p = take_value(p, end, &value);
            if (depth == 1)
                add_item(in); /* not a tensor */
            else if (depth > 1)
                add_number(in, item, value);
        }
    }
}

mtp_status mtp_events_inputs(mtp_events *e, size_t index, mtp_input_lists which, mtp_event_input *items,
                             size_t input_room, size_t *count, int64_t *dims, size_t number_room,
                             size_t *numbers)
{
    uint32_t item;
    if (count == NULL || numbers == NULL || (items == NULL && input_room > 0) ||
        (dims == NULL && number_room > 0))
        return MTP_FAIL(MTP_E_ARG, "an output pointer is NULL");
    *count = *numbers = 0;
    if ((unsigned)which > MTP_OUTPUT_DIMS)
        return MTP_FAIL(MTP_E_ARG, "there are no inputs of kind %d", (int)which);
    mtp_status status = mtp__events_item(e, index, &item);
    if (status != MTP_OK || item >= e->t->span_count)
        return status;
    const mtp__detail *d = mtp__trace_detail(e->t, item);
    const mtp__shape *shape = &e->t->shapes[which == MTP_OUTPUT_DIMS ? d->outputs : d->shape];
    inputs in = {items, dims, input_room, number_room, 0, 0, SIZE_MAX};
    take_inputs(&in, mtp__events_text(e, which == MTP_INPUT_STRIDES ? shape->strides : shape->dims));
    *count = in.items;
    *numbers = in.numbers;
    return MTP_OK;
}
