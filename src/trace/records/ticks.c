#include "trace/records/ticks.h"
#include <stdlib.h>
#include <string.h>
#include "base/bisect.h"
#include "base/grow.h"
#include "base/os.h"

#define APART_NS 1e6   /* closer anchors say little about the rate */
#define AHEAD_MAX 8    /* anchors examined to tell a jump from an outlier */
#define SAMPLES 255    /* of rates, for the one that most anchors agree on */
#define RATE_MAX 100.0 /* ns per tick */
#define ERROR_SHARE 64 /* an error above 1/64 of the interval spoils the rate */

typedef mtp__tick_point point;

/* ------------------------------------------------------------------------------------------ collecting */

static int by_ticks(const void *a, const void *b)
{
    const point *x = a, *y = b;
    return x->ticks != y->ticks ? (x->ticks > y->ticks) - (x->ticks < y->ticks)
                                : (x->ns > y->ns) - (x->ns < y->ns);
}

static void thin(mtp__tick_line *line)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < line->count; i += 2)
        line->point[kept++] = line->point[i];
    line->count = kept;
    line->stride *= 2;
}

bool mtp__ticks_add(mtp__tick_line *line, const mtp__anchor *a)
{
    const uint64_t most = (uint64_t)MTP__NS_MAX;
    if (a->monotonic_ns > most || a->realtime_ns > most * 4 || a->raw_ns > most || a->error_ns > most) {
        line->faults++;
        return true;
    }
    if (line->stride == 0)
        line->stride = 1;
    if (line->since == 0 && line->count + 1 >= MTP__TICK_POINTS_MAX)
        thin(line);
    if (!MTP__GROW(line->point, line->room, line->count, line->count + 1, 1))
        return false;
    line->count -= line->since > 0;
    line->since = line->since + 1 < line->stride && line->count > 0 ? line->since + 1 : 0;
    line->point[line->count++] = (point){.ticks = a->ticks,
                                         .ns = (int64_t)a->monotonic_ns,
                                         .realtime = (int64_t)a->realtime_ns,
                                         .raw = (int64_t)a->raw_ns,
                                         .error = (int64_t)a->error_ns};
    return true;
}

/* -------------------------------------------------------------------------------------------- judging */

/* Clocks may be slewed, by at most about 8 %. */
static bool near(double ns, double expected, double error)
{
    return ns > expected - expected / 8 - error && ns < expected + expected / 8 + error;
}

/* Do all clocks of the system agree on the interval? */
static bool clocks_agree(const point *a, const point *b)
{
    double ns = (double)(b->ns - a->ns), real = (double)(b->realtime - a->realtime),
           raw = a->raw != 0 && b->raw != 0 ? (double)(b->raw - a->raw) : ns;
    return ns >= APART_NS && near(real, ns, APART_NS / 8) && near(raw, ns, APART_NS / 8);
}

typedef enum verdict {
    CLOSE,
    GOOD,
    BAD
} verdict;

/* What b, later than a, says: too close to tell, a credible rate, or a contradiction. */
static verdict judge(const point *a, const point *b, double ns_per_tick)
{
    double ticks = (double)(b->ticks - a->ticks), expected = ticks * ns_per_tick,
           ns = (double)(b->ns - a->ns), error = (double)(a->error + b->error);
    if (expected < APART_NS || error > expected / ERROR_SHARE)
        return ns < -error - APART_NS ? BAD : CLOSE;
    if (near(ns, expected, error))
        return GOOD;
    return clocks_agree(a, b) && ns > expected / 16 && ns < expected * 16 && ns / ticks < RATE_MAX ? GOOD
                                                                                                   : BAD;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The session's rate, in ns per tick, unless it is impossible or most anchors disagree. */
static double reference(mtp__tick_line *line, double ticks_per_ns)
{
    double rate[SAMPLES], recorded = ticks_per_ns > 0.01 && ticks_per_ns < 100.0 ? 1.0 / ticks_per_ns : 0;
    uint32_t count = 0, step = line->count / SAMPLES + 1;
    for (uint32_t i = step; i < line->count; i += step) {
        const point *a = &line->point[i - step], *b = &line->point[i];
        double each = b->ticks > a->ticks ? (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks) : 0;
        if (each > 0.01 && each < RATE_MAX && clocks_agree(a, b))
            rate[count++] = each;
    }
    if (count == 0)
        return recorded != 0 ? recorded : 1.0;
    qsort(rate, count, sizeof *rate, by_value);
    double middle = rate[count / 2];
    if (recorded != 0 && (near(middle, recorded, 0) || count < 3))
        return recorded;
    line->faults += recorded != 0;
    return middle;
}

/* --------------------------------------------------------------------------------------- the line */

static int64_t scaled(double ns_per_tick)
{
    return (int64_t)(ns_per_tick * (double)((int64_t)1 << MTP__TICK_SHIFT));
}

static int64_t scaled_between(const point *a, const point *b)
{
    __extension__ typedef unsigned __int128 wide;
    return (int64_t)(((wide)(uint64_t)(b->ns - a->ns) << MTP__TICK_SHIFT) / (b->ticks - a->ticks));
}

/* For an anchor that contradicts the last one: do those after it agree with it, and not with the last? */
static bool is_jump(const mtp__tick_line *line, uint32_t i, const point *last, int64_t shift, double rate)
{
    for (uint32_t k = i + 1; k < line->count && k <= i + AHEAD_MAX; k++) {
        verdict with = judge(&line->point[i], &line->point[k], rate);
        if (with == CLOSE)
            continue;
        point moved = line->point[k];
        moved.ns += shift;
        return with == GOOD && judge(last, &moved, rate) != GOOD;
    }
    return false;
}

/* Accepts an anchor, or moves it to where the ticks put it. */
typedef struct walk {
    uint32_t used;
    int64_t shift; /* of all later anchors: the jumps so far, undone */
    double rate;   /* the last one accepted */
} walk;

static void take(mtp__tick_line *line, walk *w, uint32_t i, double known)
{
    point *last = &line->point[w->used - 1], p = line->point[i];
    p.ns += w->shift;
    verdict v = judge(last, &p, w->rate);
    if (v == BAD)
        v = judge(last, &p, known);
    if (v == CLOSE)
        return;
    if (v == BAD) {
        int64_t there = last->ns + mtp__ns_bound((double)(p.ticks - last->ticks) * w->rate);
        line->faults++;
        if (there - line->zero_ns >= MTP__NS_MAX || p.ticks == last->ticks ||
            !is_jump(line, i, last, w->shift, w->rate))
            return;
        w->shift += there - p.ns;
        p.ns = there;
    }
    double rate = (double)(p.ns - last->ns) / (double)(p.ticks - last->ticks);
    if (!(rate > 0 && rate < RATE_MAX) || p.ns - line->zero_ns > MTP__NS_MAX) {
        line->faults++;
        return;
    }
    p.shift = w->shift;
    last->ns_per_tick_scaled = scaled_between(last, &p);
    w->rate = rate;
    line->point[w->used++] = p;
}

void mtp__ticks_sort(mtp__tick_line *line)
{
    if (line->count > 1)
        qsort(line->point, line->count, sizeof *line->point, by_ticks);
}

void mtp__ticks_finish(mtp__tick_line *line, double ticks_per_ns)
{
    if (line->count == 0)
        return;
    mtp__ticks_sort(line);
    double known = reference(line, ticks_per_ns);
    walk w = {.used = 1, .rate = known};
    line->zero_ns = line->point[0].ns;
    for (uint32_t i = 1; i < line->count; i++)
        take(line, &w, i, known);
    line->count = w.used;
    line->point[w.used - 1].ns_per_tick_scaled =
        w.used > 1 ? line->point[w.used - 2].ns_per_tick_scaled : scaled(known);
    line->at = 0;
}

void mtp__ticks_fini(mtp__tick_line *line)
{
    mtp__free(line->point);
    memset(line, 0, sizeof *line);
}

/* Usually the next segment; a new stream or thread starts far away. */
void mtp__ticks_seek(mtp__tick_line *line, uint64_t ticks)
{
    uint32_t low = 0, high = line->count; /* the last point not after it */
    if (line->at + 1 < line->count && ticks >= line->point[line->at + 1].ticks)
        low = line->at + 1;
    if (low + 1 == line->count || (low > 0 && ticks < line->point[low + 1].ticks)) {
        line->at = low;
        return;
    }
    low++;
    MTP__BISECT(low, high, mid, line->point[mid].ticks <= ticks)
    line->at = low - 1;
}

int64_t mtp__ticks_of_clock(const mtp__tick_line *line, uint64_t ns)
{
    int64_t recorded = mtp__ns_bound_clock(ns);
    uint32_t low = 1, high = line->count;
    MTP__BISECT(low, high, mid, line->point[mid].ns - line->point[mid].shift <= recorded)
    return recorded + line->point[low - 1].shift - line->zero_ns;
}
