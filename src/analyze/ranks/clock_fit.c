/* analyze/ranks/clock_fit.c - a line through points of which up to a third may be anywhere: the median slope of pairs
 * (Theil and Sen) of some of the points, then least squares through those close to it. */
#include <math.h>
#include <stdlib.h>
#include "analyze/ranks/clock.h"
#include "base/os.h"

#define SAMPLE 96u /* points whose pairs give slopes */
#define CLOSE 4.0  /* times the median distance */
#define FEW 8u     /* fewer points: no least squares */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *value, uint32_t count)
{
    qsort(value, count, sizeof *value, by_value);
    return count % 2 != 0 ? value[count / 2] : (value[count / 2 - 1] + value[count / 2]) / 2;
}

static double median_slope(const mtp__point *p, uint32_t count, double *room)
{
    uint32_t n = count < SAMPLE ? count : SAMPLE, slopes = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = i + 1; k < n; k++) {
            const mtp__point *a = &p[(uint64_t)i * count / n], *b = &p[(uint64_t)k * count / n];
            if (a->x != b->x)
                room[slopes++] = (b->y - a->y) / (b->x - a->x);
        }
    return slopes > 0 ? median(room, slopes) : 0;
}

static double median_rest(const mtp__point *p, uint32_t count, mtp__line line, bool size, double *room)
{
    for (uint32_t i = 0; i < count; i++) {
        room[i] = p[i].y - (line.a + line.b * p[i].x);
        room[i] = size ? fabs(room[i]) : room[i];
    }
    return median(room, count);
}

/* Least squares of what is left beside the line, through the points that are close to it. */
static mtp__line refine(const mtp__point *p, uint32_t count, mtp__line line, double close)
{
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, middle = (p[0].x + p[count - 1].x) / 2;
    for (uint32_t i = 0; i < count; i++) {
        double x = p[i].x - middle, y = p[i].y - (line.a + line.b * p[i].x);
        if (fabs(y) > close)
            continue;
        n++;
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    double by = n * sxx - sx * sx;
    if (n < 3 || by <= 0)
        return line;
    double b = (n * sxy - sx * sy) / by, a = (sy - b * sx) / n;
    return (mtp__line){line.a + a - b * middle, line.b + b};
}

bool mtp__line_fit(const mtp__point *p, uint32_t count, mtp__line *out)
{
    *out = (mtp__line){0};
    if (count == 0)
        return true;
    size_t pairs = SAMPLE * (SAMPLE - 1) / 2;
    double *room = mtp__calloc(count > pairs ? count : pairs, sizeof *room);
    if (room == NULL)
        return false;
    out->b = median_slope(p, count, room);
    out->b = fabs(out->b) > MTP__DRIFT_MAX ? 0 : out->b;
    out->a = median_rest(p, count, *out, false, room);
    for (int again = 0; again < 2 && count >= FEW; again++) {
        mtp__line finer = refine(p, count, *out, CLOSE * median_rest(p, count, *out, true, room) + 1);
        if (fabs(finer.b) <= MTP__DRIFT_MAX)
            *out = finer;
    }
    mtp__free(room);
    return true;
}
