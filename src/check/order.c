/* check/order.c - rules across events, checked once all are known: one sweep over each row, with the open
 * spans on a stack; then the flows by their ids.
 */
#include <stdlib.h>
#include <string.h>
#include "base/budget.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "check/scan.h"

#define LEVELS_MAX 512u

static int by_place(const void *a, const void *b)
{
    const mtp__check_span *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

static int flow_by_place(const void *a, const void *b)
{
    const mtp__check_flow *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

static int flow_by_id(const void *a, const void *b)
{
    const mtp__check_flow *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

/* --------------------------------------------------------------------------------------------- spans */

typedef struct sweep {
    mtp__checker *c;
    int64_t *open; /* owned: where the open spans end */
    size_t depth, room;
    uint32_t first_event; /* of the spans that begin at `begin` */
    int64_t begin;
} sweep;

static void say(sweep *s, mtp__found what, const mtp__check_span *span)
{
    mtp__check_say(s->c->check, what, span->byte, span->event, "ts %lld.%03d us",
                   (long long)(span->start / 1000),
                   (int)(span->start % 1000 < 0 ? -(span->start % 1000) : span->start % 1000));
}

static bool push(sweep *s, int64_t end)
{
    if (!MTP__GROW(s->open, s->room, s->depth, s->depth + 1, 1024))
        return false;
    s->open[s->depth++] = end;
    return true;
}

/* One span; `before` is the previous one on the row, or NULL. */
static bool sweep_span(sweep *s, const mtp__check_span *span, const mtp__check_span *before)
{
    while (s->depth > 0 && s->open[s->depth - 1] <= span->start)
        s->depth--;
    if (before == NULL || before->start != span->start) {
        s->begin = span->start;
        s->first_event = span->event;
    } else {
        if (before->end > span->end && before->event > span->event)
            say(s, MTP__FOUND_CHILD_FIRST, span);
        s->first_event = span->event < s->first_event ? span->event : s->first_event;
    }
    if (s->depth > 0 && span->end > s->open[s->depth - 1]) {
        say(s, MTP__FOUND_OVERLAP, span);
        return true;
    }
    if (s->depth >= LEVELS_MAX)
        say(s, MTP__FOUND_TOO_DEEP, span);
    return push(s, span->end);
}

/* A flow, once all spans that begin no later than it are on the stack. */
static void sweep_flow(sweep *s, const mtp__check_flow *flow, bool row_has_spans)
{
    size_t depth = s->depth;
    while (depth > 0 && s->open[depth - 1] < flow->at)
        depth--;
    bool at_start = row_has_spans && s->begin == flow->at;
    if (!at_start && depth == 0)
        mtp__check_say(s->c->check, MTP__FOUND_FLOW_NOWHERE, flow->byte, flow->event, "id %llu",
                       (unsigned long long)flow->id);
    else if (!at_start)
        mtp__check_say(s->c->check, MTP__FOUND_FLOW_OFF, flow->byte, flow->event, "id %llu",
                       (unsigned long long)flow->id);
    else if (s->first_event > flow->event)
        mtp__check_say(s->c->check, MTP__FOUND_FLOW_EARLY, flow->byte, flow->event, "id %llu",
                       (unsigned long long)flow->id);
}

static mtp_status sweep_rows(mtp__checker *c)
{
    sweep s = {.c = c};
    size_t at = 0, flow = 0;
    mtp_status status = MTP_OK;
    for (uint32_t row = 0; row < c->rows.count && status == MTP_OK; row++) {
        const mtp__check_span *before = NULL;
        s.depth = 0;
        while (status == MTP_OK) {
            bool has_span = at < c->span_count && c->spans[at].row == row;
            bool has_flow = flow < c->flow_count && c->flows[flow].row == row;
            if (has_span && (!has_flow || c->spans[at].start <= c->flows[flow].at)) {
                if (!sweep_span(&s, &c->spans[at], before))
                    status = MTP_FAIL(MTP_E_NOMEM, "%zu open spans", s.depth);
                before = &c->spans[at++];
            } else if (has_flow) {
                sweep_flow(&s, &c->flows[flow++], before != NULL);
            } else {
                break;
            }
        }
    }
    mtp__free(s.open);
    return status;
}

/* --------------------------------------------------------------------------------------------- flows */

static void check_flow_ids(mtp__checker *c)
{
    qsort(c->flows, c->flow_count, sizeof *c->flows, flow_by_id);
    for (size_t from = 0, to; from < c->flow_count; from = to) {
        const mtp__check_flow *first = &c->flows[from];
        size_t starts = 0;
        for (to = from;
             to < c->flow_count && c->flows[to].name == first->name && c->flows[to].id == first->id; to++)
            if (c->flows[to].phase == 's' && ++starts > 1)
                mtp__check_say(c->check, MTP__FOUND_FLOW_STARTS, c->flows[to].byte, c->flows[to].event,
                               "id %llu", (unsigned long long)first->id);
        for (size_t i = from; starts == 0 && i < to; i++)
            mtp__check_say(c->check, MTP__FOUND_FLOW_LOST, c->flows[i].byte, c->flows[i].event, "id %llu",
                           (unsigned long long)first->id);
    }
}

mtp_status mtp__check_order(mtp__checker *c)
{
    size_t bytes = c->span_count * sizeof *c->spans;
    if (!mtp__budget_take(bytes)) /* qsort() may allocate the same again */
        return MTP_FAIL(MTP_E_NOMEM, "the order of %zu spans", c->span_count);
    if (c->span_count > 0)
        qsort(c->spans, c->span_count, sizeof *c->spans, by_place);
    mtp__budget_give(bytes);
    if (c->flow_count > 0)
        qsort(c->flows, c->flow_count, sizeof *c->flows, flow_by_place);
    if (c->kernels > 0 && c->launch_flows == 0)
        mtp__check_say(c->check, MTP__FOUND_NO_FLOWS, c->kernel_byte, c->kernel_event, "%llu events",
                       (unsigned long long)c->kernels);
    mtp_status status = sweep_rows(c);
    if (status == MTP_OK && c->flow_count > 0)
        check_flow_ids(c);
    return status;
}
