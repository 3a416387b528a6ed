/* trace/join/clocks.c - one timeline for several recordings.
 *
 * Processes of one boot read the same clocks: the processor's counter, or CLOCK_MONOTONIC. If each recording were
 * timed by its own anchors, two lines would differ by the errors of their anchors, and an effect could come
 * before its cause. So all of them are timed by one line, through the anchors of all: whatever happened in the
 * order of ticks stays in it. A recording whose anchors contradict that line (the machine was suspended
 * between them), or that has no reliable ones, keeps its own, which still count CLOCK_MONOTONIC.
 *
 * A recording of another boot, or machine, shares nothing but the time of day: that places it.
 */
#include "base/os.h"
#include "record/format.h"
#include "trace/join/join.h"
#include "trace/records/ticks.h"

#define APART_NS 100000000 /* of the anchors that are used: closer ones only add their errors */
#define SAME_NS 1e9        /* boots whose ids are unknown are the same if they began this close together */
#define AGREE_NS 2e6 /* and their anchors agree if they are this close, plus a thousandth of the distance */

/* When CLOCK_MONOTONIC was 0, in Unix time. */
static int64_t zero_of_day(const mtp__part *p)
{
    return (int64_t)p->start.realtime_ns - (int64_t)p->start.monotonic_ns;
}

static bool same_boot(const mtp__part *a, const mtp__part *b)
{
    bool known = (a->boot[0] | a->boot[1]) != 0 && (b->boot[0] | b->boot[1]) != 0;
    double apart = (double)zero_of_day(a) - (double)zero_of_day(b);
    return known ? a->boot[0] == b->boot[0] && a->boot[1] == b->boot[1] : apart > -SAME_NS && apart < SAME_NS;
}

/* Do ticks and CLOCK_MONOTONIC tell the same distance between their anchors? */
static bool agree(const mtp__part *a, const mtp__part *b)
{
    if ((a->clock ^ b->clock) & MTP__CLOCK_IS_COUNTER || (a->clock | b->clock) & MTP__CLOCK_IN_TROUBLE)
        return false;
    double ticks = (double)(int64_t)(b->start.ticks - a->start.ticks), rate = a->ticks_per_ns,
           ns = (double)(int64_t)(b->start.monotonic_ns - a->start.monotonic_ns);
    if (!(rate > 0.01 && rate < 100.0))
        return false;
    double off = ticks / rate - ns, most = AGREE_NS + (ns < 0 ? -ns : ns) / 1000;
    return off > -most && off < most;
}

static bool add_all(mtp__tick_line *line, const mtp__tick_line *from)
{
    for (uint32_t i = 0; i < from->count; i++) {
        const mtp__tick_point *p = &from->point[i];
        mtp__anchor a = {p->ticks, (uint64_t)p->ns, (uint64_t)p->realtime, (uint64_t)p->raw,
                         (uint64_t)p->error};
        if (!mtp__ticks_add(line, &a))
            return false;
    }
    return true;
}

/* In each interval the anchor with the smallest error stays, and the very first one. */
static void thin(mtp__tick_line *line)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < line->count; i++) {
        const mtp__tick_point *p = &line->point[i];
        mtp__tick_point *last = kept > 0 ? &line->point[kept - 1] : NULL;
        if (last == NULL || p->ns - last->ns >= APART_NS)
            line->point[kept++] = *p;
        else if (kept > 1 && p->error < last->error)
            *last = *p;
    }
    line->count = kept;
}

bool mtp__join_clocks(mtp__part *part, uint32_t count, uint32_t first, mtp__tick_line *line)
{
    static const mtp__anchor none;
    mtp__part *head = &part[first];
    bool made = true, several = false;
    for (uint32_t i = first; i < count && made; i++) {
        mtp__part *p = &part[i];
        if (p->problem != 0)
            continue;
        p->by_wall_clock = p->line.count > 0 && !same_boot(head, p);
        p->in_line = i == first || (p->line.count > 0 && !p->by_wall_clock && agree(head, p));
        several |= p->in_line && i != first;
        made = !p->in_line || add_all(line, &p->line);
    }
    if (!made || (line->count == 0 && !mtp__ticks_add(line, &none)))
        return false;
    if (several) {
        mtp__ticks_sort(line);
        thin(line);
    }
    mtp__ticks_finish(line, head->ticks_per_ns);
    for (uint32_t i = first; i < count; i++) {
        part[i].zero_ns = line->zero_ns;
        if (part[i].by_wall_clock)
            part[i].zero_ns += mtp__ns_bound((double)zero_of_day(head) - (double)zero_of_day(&part[i]));
    }
    return true;
}
