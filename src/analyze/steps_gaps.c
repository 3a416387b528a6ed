/* analyze/steps_gaps.c - the longest gaps in steps, in which nothing ran: where, after what, before what. */
#include <string.h>
#include "analyze/steps.h"
#include "base/error.h"
#include "base/os.h"

static mtp_text text_of(const mtp_trace *t, uint32_t span)
{
    mtp_text text = mtp__trace_get_text(t, span != MTP__NONE ? t->name[span] : 0);
    return (mtp_text){text.bytes, text.length};
}

/* The innermost function or annotation open throughout the gap, on the thread of the adjacent span. */
static uint32_t around(const mtp_trace *t, uint32_t beside, int64_t from, int64_t to)
{
    for (uint32_t i = beside != MTP__NONE ? t->parent[beside] : MTP__NONE; i != MTP__NONE; i = t->parent[i])
        if (t->start[i] <= from && t->end[i] >= to && !mtp__is_step(t, i))
            return i;
    return MTP__NONE;
}

/* Longest first; a full list drops its shortest. */
static void keep(mtp__gap_list *list, const mtp_step_gap *gap)
{
    int64_t length = gap->end_ns - gap->start_ns;
    uint32_t at = list->count;
    if (at == MTP__GAPS) {
        if (list->gap[at - 1].end_ns - list->gap[at - 1].start_ns >= length)
            return;
        at--;
    } else {
        list->count++;
    }
    for (; at > 0 && list->gap[at - 1].end_ns - list->gap[at - 1].start_ns < length; at--)
        list->gap[at] = list->gap[at - 1];
    list->gap[at] = *gap;
}

/* Gaps arrive in order of time. A gap that spans several steps is split among them. */
void mtp__gap_add(mtp_steps *s, const mtp_trace *t, bool of_device, int64_t from, int64_t to, uint32_t last,
                  uint32_t next)
{
    mtp__gap_list *list = &s->gaps[of_device];
    while (list->row < s->count && s->rows[list->row].end_ns <= from)
        list->row++;
    for (uint32_t r = list->row; r < s->count && s->rows[r].start_ns < to; r++) {
        const mtp_step_row *row = &s->rows[r];
        mtp_step_gap gap = {.step = row->number, .of_device = of_device};
        gap.start_ns = from > row->start_ns ? from : row->start_ns;
        gap.end_ns = to < row->end_ns ? to : row->end_ns;
        uint64_t length = (uint64_t)gap.end_ns - (uint64_t)gap.start_ns;
        if (gap.end_ns <= gap.start_ns || length > INT64_MAX) /* a file may have any times */
            continue;
        gap.offset_ns = (int64_t)((uint64_t)gap.start_ns - (uint64_t)row->start_ns);
        uint32_t inside = around(t, last, gap.start_ns, gap.end_ns);
        inside = inside != MTP__NONE ? inside : around(t, next, gap.start_ns, gap.end_ns);
        gap.after = text_of(t, gap.start_ns == from ? last : MTP__NONE);
        gap.before = text_of(t, gap.end_ns == to ? next : MTP__NONE);
        gap.inside = text_of(t, inside);
        keep(list, &gap);
    }
}

size_t mtp_steps_gap_count(const mtp_steps *s, bool of_device)
{
    return s != NULL ? s->gaps[of_device].count : 0;
}

const mtp_step_gap *mtp_steps_gap(const mtp_steps *s, bool of_device, size_t index)
{
    return index < mtp_steps_gap_count(s, of_device) ? &s->gaps[of_device].gap[index] : NULL;
}
