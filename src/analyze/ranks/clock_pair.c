/* analyze/ranks/clock_pair.c - the bounds between two clocks. Lower bounds are points that a line must not pass
 * below, upper ones points that it must not pass above; only the hulls of both matter. For a drift b, the offsets
 * that are left are an interval whose ends change linearly in b between the slopes of the hulls' edges: those
 * slopes are the polygon's corners. */
#include <stdlib.h>
#include "analyze/ranks/clock.h"
#include "base/grow.h"
#include "base/os.h"

typedef struct hull {
    mtp__point *at; /* owned: by x */
    uint32_t count;
} hull;

static int by_x(const void *a, const void *b)
{
    const mtp__point *p = a, *q = b;
    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    return (p->y > q->y) - (p->y < q->y);
}

/* Upper hull of the points if sign is 1; if -1, the lower one. In place. */
static void reduce(hull *h, double sign)
{
    uint32_t kept = 0;
    bool sorted = true;
    for (uint32_t i = 1; i < h->count && sorted; i++)
        sorted = by_x(&h->at[i - 1], &h->at[i]) <= 0;
    if (!sorted)
        qsort(h->at, h->count, sizeof *h->at, by_x);
    for (uint32_t i = 0; i < h->count; i++) {
        mtp__point p = h->at[i];
        if (kept > 0 && h->at[kept - 1].x == p.x && sign * (p.y - h->at[kept - 1].y) <= 0)
            continue;
        while (kept > 0) {
            const mtp__point *b = &h->at[kept - 1], *a = kept > 1 ? &h->at[kept - 2] : NULL;
            bool above =
                b->x == p.x ||
                (a != NULL && sign * ((b->y - a->y) * (p.x - a->x) - (p.y - a->y) * (b->x - a->x)) <= 0);
            if (!above)
                break;
            kept--;
        }
        h->at[kept++] = p;
    }
    h->count = kept;
}

static double slope(const hull *h, uint32_t edge)
{
    const mtp__point *a = &h->at[edge], *b = a + 1;
    return (b->y - a->y) / (b->x - a->x);
}

/* The offset at x = 0 of the line of slope b that touches the hull: the least (sign 1: above all) or the greatest.
 * The edges' slopes fall with x (sign 1), or grow. */
static double touch(const hull *h, double b, double sign)
{
    uint32_t low = 0, high = h->count - 1; /* of the edges */
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (sign * (slope(h, mid) - b) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    return h->at[low].y - b * h->at[low].x;
}

static int by_b(const void *a, const void *b)
{
    const mtp__corner *p = a, *q = b;
    return (p->b > q->b) - (p->b < q->b);
}

static void corner_at(mtp__corner *c, const hull *low, const hull *high, double b)
{
    *c = (mtp__corner){b, low->count > 0 ? touch(low, b, 1) : -1e300,
                       high->count > 0 ? touch(high, b, -1) : 1e300};
}

static void add_slopes(mtp__polygon *p, const hull *h)
{
    for (uint32_t i = 0; i + 1 < h->count; i++) {
        double b = slope(h, i);
        if (b > -MTP__DRIFT_MAX && b < MTP__DRIFT_MAX)
            p->corner[p->count++].b = b;
    }
}

static double gap(const mtp__corner *c)
{
    return c->high - c->low;
}

/* The corners between which offsets are left; what lies outside is cut where the interval becomes empty. */
static void cut(mtp__polygon *p, const hull *low, const hull *high)
{
    mtp__corner *c = p->corner;
    uint32_t first = 0, last = p->count - 1;
    while (gap(&c[first]) < 0)
        first++;
    while (gap(&c[last]) < 0)
        last--;
    for (int side = 0; side < 2; side++) {
        uint32_t in = side == 0 ? first : last;
        if (side == 0 ? in == 0 : in == p->count - 1)
            continue;
        uint32_t out = side == 0 ? in - 1 : in + 1;
        double share = gap(&c[in]) / (gap(&c[in]) - gap(&c[out]));
        mtp__corner edge;
        corner_at(&edge, low, high, c[in].b + share * (c[out].b - c[in].b));
        if (edge.low > edge.high) /* by rounding: it is one point */
            edge.low = edge.high = (edge.low + edge.high) / 2;
        c[out] = edge;
        first = side == 0 ? out : first;
        last = side == 1 ? out : last;
    }
    p->count = last - first + 1;
    for (uint32_t i = 0; i < p->count; i++)
        c[i] = c[first + i];
}

static bool fill(mtp__polygon *p, hull *low, hull *high)
{
    size_t need = (size_t)low->count + high->count + 2;
    p->count = 0;
    if (!MTP__GROW(p->corner, p->room, 0, need, 16))
        return false;
    p->corner[p->count++].b = -MTP__DRIFT_MAX;
    p->corner[p->count++].b = MTP__DRIFT_MAX;
    add_slopes(p, low);
    add_slopes(p, high);
    qsort(p->corner, p->count, sizeof *p->corner, by_b);
    uint32_t best = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        corner_at(&p->corner[i], low, high, p->corner[i].b);
        best = gap(&p->corner[i]) > gap(&p->corner[best]) ? i : best;
    }
    const mtp__corner *c = &p->corner[best];
    p->gap = gap(c);
    p->least = (mtp__line){low->count == 0    ? c->high
                           : high->count == 0 ? c->low
                                              : (c->low + c->high) / 2,
                           c->b};
    if (p->gap >= 0)
        cut(p, low, high);
    else
        p->count = 0;
    return true;
}

bool mtp__polygon_make(mtp__polygon *p, const mtp__bound *bound, uint32_t count)
{
    mtp__point *room = mtp__calloc((size_t)count + 1, sizeof *room);
    if (room == NULL)
        return false;
    hull low = {.at = room}, high = {0};
    for (uint32_t i = 0; i < count; i++)
        if (!bound[i].left_out && !bound[i].upper)
            low.at[low.count++] = (mtp__point){bound[i].x, bound[i].y};
    high.at = room + low.count;
    for (uint32_t i = 0; i < count; i++)
        if (!bound[i].left_out && bound[i].upper)
            high.at[high.count++] = (mtp__point){bound[i].x, bound[i].y};
    reduce(&low, 1);
    reduce(&high, -1);
    bool made = fill(p, &low, &high);
    mtp__free(room);
    return made;
}

void mtp__polygon_fini(mtp__polygon *p)
{
    mtp__free(p->corner);
    *p = (mtp__polygon){0};
}
