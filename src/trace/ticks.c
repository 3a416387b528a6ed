#include "trace/ticks.h"
#include <stdlib.h>
#include <string.h>
#include "base/os.h"

bool mtp__ticks_add(mtp__tick_line *line, uint64_t ticks, uint64_t ns, uint64_t realtime)
{
    if (ns > (uint64_t)MTP__NS_MOST || realtime > (uint64_t)MTP__NS_MOST * 4)
        return true;
    if ((line->count & (line->count - 1)) == 0) {
        mtp__tick_point *grown = mtp__calloc(line->count != 0 ? line->count * 2 : 1, sizeof *grown);
        if (grown == NULL)
            return false;
        if (line->count > 0)
            memcpy(grown, line->point, line->count * sizeof *grown);
        mtp__free(line->point);
        line->point = grown;
    }
    line->point[line->count++] = (mtp__tick_point){ticks, (int64_t)ns, (int64_t)realtime, 1.0};
    return true;
}

static int by_ticks(const void *a, const void *b)
{
    const mtp__tick_point *x = a, *y = b;
    return (x->ticks > y->ticks) - (x->ticks < y->ticks);
}

/* Anchors less than a millisecond apart say little about the rate: the later of them is left out. */
static bool useful(const mtp__tick_point *a, const mtp__tick_point *b)
{
    return b->ticks > a->ticks && b->ns - a->ns >= 1000000;
}

void mtp__ticks_finish(mtp__tick_line *line, double ticks_per_ns)
{
    if (line->count == 0)
        return;
    double rate = ticks_per_ns > 0.01 && ticks_per_ns < 100.0 ? 1.0 / ticks_per_ns : 1.0;
    qsort(line->point, line->count, sizeof *line->point, by_ticks);
    uint32_t used = 1;
    for (uint32_t i = 1; i < line->count; i++)
        if (useful(&line->point[used - 1], &line->point[i]))
            line->point[used++] = line->point[i];
    line->count = used;
    for (uint32_t i = 0; i + 1 < used; i++)
        line->point[i].ns_per_tick = (double)(line->point[i + 1].ns - line->point[i].ns) /
                                     (double)(line->point[i + 1].ticks - line->point[i].ticks);
    line->point[used - 1].ns_per_tick = used > 1 ? line->point[used - 2].ns_per_tick : rate;
    line->zero_ns = line->point[0].ns;
    line->at = 0;
}

void mtp__ticks_fini(mtp__tick_line *line)
{
    mtp__free(line->point);
    memset(line, 0, sizeof *line);
}

void mtp__ticks_seek(mtp__tick_line *line, uint64_t ticks)
{
    while (line->at > 0 && ticks < line->point[line->at].ticks)
        line->at--;
    while (line->at + 1 < line->count && ticks >= line->point[line->at + 1].ticks)
        line->at++;
}
