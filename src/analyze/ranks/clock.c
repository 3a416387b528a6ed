/* analyze/ranks/clock.c - see clock.h.
 *
 *  1. For each two ranks that met: the bounds on the line from one clock to the other (clock_pair.c). If no line
 *     fits, those that contradict the most of the others are left out.
 *  2. The estimate: a tree of pairs, each a line through the ends of their meetings (clock_fit.c); then all ranks
 *     at once against the median of each meeting.
 *  3. At the first and the last instant of the job, bounds add up along chains of ranks; the tightest chain counts
 *     (Bellman and Ford). A line is within its bounds in between if it is at both ends.
 *  4. The estimate is moved into these bounds. What it may be off by is the distance to the farther one.
 */
#include "analyze/ranks/clock.h"
#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/pair_map.h"

#define ALL_PAIRS 128u   /* of more ranks, only neighbours in a meeting, and each with its first */
#define ADD_BACK 256u    /* bounds left out that are tried again */
#define FEW_WRONG 1u     /* bounds between two ranks that may be wrong */
#define SHARE_WRONG 0.01 /* of their meetings */
#define NEVER 1e299
#define ENDS 2

typedef struct edge {
    uint32_t i, j; /* its lines are from i's clock to j's */
    uint32_t meetings;
    mtp__polygon polygon; /* owned */
    mtp__line fit;
    double steep;  /* greatest drift that is left */
    bool tied;     /* by a measurement */
    bool doubtful; /* so many bounds contradict the others that the clocks may be no lines */
    bool dropped;
} edge;

typedef struct node {
    mtp__line f; /* the estimate, to the component's clock; x is since the rank's first instant */
    uint32_t component;
    double steep; /* of the chain: the greatest drift that is left */
    double x[ENDS], most[ENDS], least[ENDS];
} node;

typedef struct solver {
    const mtp__clocks_in *in;
    mtp__clocks *out;
    node *nodes; /* owned */
    edge *edges; /* owned */
    uint32_t edge_count, edge_room;
    uint32_t *by_rank, *first_of; /* owned: the seen, rank by rank in the order of meetings */
    uint32_t *meeting_of;         /* owned: of a seen */
    mtp__bound *bounds;           /* owned, reused */
    uint32_t bound_count, bound_room;
    mtp__point *points; /* owned, reused */
    uint32_t point_room;
} solver;

#define NONE UINT32_MAX

static double apart(int64_t a, int64_t b)
{
    return (double)(int64_t)((uint64_t)a - (uint64_t)b);
}

static double since(const solver *s, uint32_t rank, int64_t t)
{
    return apart(t, s->in->first[rank]); /* as doubles, times of day are only exact to 256 ns */
}

/* ------------------------------------------------------------------------------------------------ pairs */

static bool index_seen(solver *s)
{
    const mtp__clocks_in *in = s->in;
    uint32_t count = 0;
    for (uint32_t m = 0; m < in->meetings; m++)
        count += in->meeting[m].count;
    s->first_of = mtp__calloc((size_t)in->ranks + 2, sizeof *s->first_of);
    s->by_rank = mtp__calloc((size_t)count + 1, sizeof *s->by_rank);
    s->meeting_of = mtp__calloc((size_t)count + 1, sizeof *s->meeting_of);
    if (s->first_of == NULL || s->by_rank == NULL || s->meeting_of == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        s->first_of[in->seen[i].rank + 2]++;
    for (uint32_t r = 0; r <= in->ranks; r++)
        s->first_of[r + 1] += s->first_of[r];
    for (uint32_t m = 0; m < in->meetings; m++)
        for (uint32_t k = 0; k < in->meeting[m].count; k++) {
            uint32_t at = in->meeting[m].first + k;
            s->meeting_of[at] = m;
            s->by_rank[s->first_of[in->seen[at].rank + 1]++] = at;
        }
    return true; /* first_of[r] is now where rank r begins */
}

static bool add_bound(solver *s, mtp__bound b)
{
    if (!MTP__GROW(s->bounds, s->bound_room, s->bound_count, (size_t)s->bound_count + 1, 256))
        return false;
    s->bounds[s->bound_count++] = b;
    return true;
}

static int64_t rounded(const solver *s, uint32_t rank)
{
    return s->in->rounded != NULL ? s->in->rounded[rank] : 0;
}

/* What one meeting says of the line from a's clock to b's. */
static bool bounds_of(solver *s, uint32_t m, const mtp__seen *a, const mtp__seen *b)
{
    const mtp__meeting *of = &s->in->meeting[m];
    uint32_t i = a->rank, j = b->rank;
    bool all = of->kind == MTP__MEET_ALL, from = of->kind == MTP__MEET_FROM_ROOT && of->root != NONE,
         to = of->kind == MTP__MEET_TO_ROOT && of->root != NONE;
    bool a_waits = all || (from && of->root == j) || (to && of->root == i);
    bool b_waits = all || (from && of->root == i) || (to && of->root == j);
    int64_t a_enter = a->enter - rounded(s, i) / 2, a_leave = a->leave + rounded(s, i),
            b_enter = b->enter - rounded(s, j) / 2, b_leave = b->leave + rounded(s, j);
    return (!a_waits || add_bound(s, (mtp__bound){.x = since(s, i, a_leave),
                                                  .y = apart(b_enter, a_leave),
                                                  .meeting = m,
                                                  .leaver = i,
                                                  .enterer = j})) &&
           (!b_waits || add_bound(s, (mtp__bound){.x = since(s, i, a_enter),
                                                  .y = apart(b_leave, a_enter),
                                                  .meeting = m,
                                                  .leaver = j,
                                                  .enterer = i,
                                                  .upper = true}));
}

static bool bounds_of_tie(solver *s, const mtp__tie *t, uint32_t i, uint32_t j)
{
    bool same = t->own == i;
    if (!(same && t->peer == j) && !(t->own == j && t->peer == i))
        return true;
    int64_t at = same ? t->at : t->at + t->offset;
    double offset = same ? (double)t->offset : -(double)t->offset;
    /* The instant is read on the other's clock with the same error; no drift makes that matter. */
    double error = (double)t->error * (1 + MTP__DRIFT_MAX);
    mtp__bound b = {.x = since(s, i, at), .y = offset - error, .meeting = NONE, .leaver = i, .enterer = j};
    if (!add_bound(s, b))
        return false;
    b.upper = true;
    b.y = offset + error;
    return add_bound(s, b);
}

static uint32_t merge_pair(solver *s, uint32_t i, uint32_t j, bool ends, bool *failed)
{
    const mtp__clocks_in *in = s->in;
    uint32_t a = s->first_of[i], b = s->first_of[j], a_end = s->first_of[i + 1], b_end = s->first_of[j + 1],
             met = 0;
    while (a < a_end && b < b_end && !*failed) {
        uint32_t x = s->by_rank[a], y = s->by_rank[b], m = s->meeting_of[x], n = s->meeting_of[y];
        a += m <= n;
        b += n <= m;
        if (m != n)
            continue;
        if (!ends) {
            *failed = !bounds_of(s, m, &in->seen[x], &in->seen[y]);
        } else if (in->meeting[m].kind == MTP__MEET_ALL) {
            *failed = !MTP__GROW(s->points, s->point_room, met, (size_t)met + 1, 256);
            if (!*failed)
                s->points[met] =
                    (mtp__point){since(s, i, in->seen[x].leave), apart(in->seen[y].leave, in->seen[x].leave)};
        }
        met += in->meeting[m].kind == MTP__MEET_ALL;
    }
    return met;
}

/* ---------------------------------------------------------------------------------------- contradictions */

static double broken_by(const mtp__bound *b, mtp__line l)
{
    double y = l.a + l.b * b->x;
    return b->upper ? y - b->y : b->y - y;
}

static bool report(solver *s, const mtp__bound *b, double by)
{
    mtp__clocks *out = s->out;
    if (!MTP__GROW(out->conflict, out->room, out->conflicts, (size_t)out->conflicts + 1, 16))
        return false;
    out->conflict[out->conflicts++] = (mtp__clock_conflict){b->meeting, b->leaver, b->enterer, (int64_t)by};
    return true;
}

typedef struct broken {
    double by;
    uint32_t bound;
} broken;

static int by_breach(const void *a, const void *b)
{
    const broken *x = a, *y = b;
    return (x->by > y->by) - (x->by < y->by);
}

/* Leaves out what the line breaks; then, from the smallest breach, puts back what fits with all others. */
static bool make_consistent(solver *s, edge *e, mtp__line line)
{
    broken *list = mtp__calloc(s->bound_count, sizeof *list);
    uint32_t count = 0, out = 0;
    if (list == NULL)
        return false;
    for (uint32_t i = 0; i < s->bound_count; i++) {
        double by = broken_by(&s->bounds[i], line);
        s->bounds[i].left_out = by > 0;
        if (by > 0)
            list[count++] = (broken){by, i};
    }
    qsort(list, count, sizeof *list, by_breach);
    bool good = mtp__polygon_make(&e->polygon, s->bounds, s->bound_count);
    for (uint32_t i = 0; i < count && good; i++) {
        mtp__bound *b = &s->bounds[list[i].bound];
        if (i < ADD_BACK) {
            b->left_out = false;
            good = mtp__polygon_make(&e->polygon, s->bounds, s->bound_count);
            b->left_out = e->polygon.gap < 0;
        }
        if (good && b->left_out)
            good = report(s, b, list[i].by);
        out += b->left_out;
    }
    e->doubtful = !e->tied && out > FEW_WRONG && out > e->meetings * SHARE_WRONG;
    mtp__free(list);
    return good && mtp__polygon_make(&e->polygon, s->bounds, s->bound_count);
}

/* What was measured counts more than what calls suggest, which may have been matched wrongly. false: out of memory. */
static bool line_of_ties(solver *s, edge *e, mtp__line *line)
{
    bool any = false;
    for (uint32_t i = 0; i < s->bound_count; i++) {
        s->bounds[i].left_out = s->bounds[i].meeting != NONE;
        any = any || !s->bounds[i].left_out;
    }
    if (any && !mtp__polygon_make(&e->polygon, s->bounds, s->bound_count))
        return false;
    if (any && e->polygon.gap >= 0)
        *line = e->polygon.least;
    for (uint32_t i = 0; i < s->bound_count; i++)
        s->bounds[i].left_out = false;
    return true;
}

static mtp_status make_edge(solver *s, uint32_t i, uint32_t j)
{
    bool failed = false;
    s->bound_count = 0;
    uint32_t met = merge_pair(s, i, j, false, &failed), of_calls = s->bound_count;
    for (uint32_t k = 0; k < s->in->ties && !failed; k++)
        failed = !bounds_of_tie(s, &s->in->tie[k], i, j);
    if (!failed && s->bound_count == 0)
        return MTP_OK;
    if (failed || !MTP__GROW(s->edges, s->edge_room, s->edge_count, (size_t)s->edge_count + 1, 16))
        return MTP_E_NOMEM;
    edge *e = &s->edges[s->edge_count++];
    *e = (edge){.i = i, .j = j, .meetings = met, .tied = s->bound_count > of_calls};
    if (!mtp__polygon_make(&e->polygon, s->bounds, s->bound_count))
        return MTP_E_NOMEM;
    if (e->polygon.gap < 0) {
        mtp__line line = e->polygon.least;
        merge_pair(s, i, j, true, &failed);
        if (failed || (met > 2 && !mtp__line_fit(s->points, met, &line)) || !line_of_ties(s, e, &line) ||
            !make_consistent(s, e, line))
            return MTP_E_NOMEM;
    }
    for (uint32_t k = 0; k < e->polygon.count; k++)
        e->steep = fmax(e->steep, fabs(e->polygon.corner[k].b));
    return MTP_OK;
}

static mtp_status make_some_edges(solver *s)
{
    mtp__pair_map wanted = {0};
    mtp_status status = MTP_OK;
    for (uint32_t m = 0; m < s->in->meetings && status == MTP_OK; m++) {
        const mtp__meeting *of = &s->in->meeting[m];
        for (uint32_t k = 1; k < of->count && status == MTP_OK; k++)
            for (int hub = 0; hub < 2 && status == MTP_OK; hub++) {
                uint32_t a = s->in->seen[of->first + (hub != 0 ? 0 : k - 1)].rank,
                         b = s->in->seen[of->first + k].rank;
                bool is_new = false;
                if (mtp__pair_put(&wanted, a < b ? a : b, 1 + (uint64_t)(a < b ? b : a), 0, &is_new) == NULL)
                    status = MTP_E_NOMEM;
                else if (is_new)
                    status = make_edge(s, a < b ? a : b, a < b ? b : a);
            }
    }
    for (uint32_t k = 0; k < s->in->ties && status == MTP_OK; k++) {
        uint32_t a = s->in->tie[k].own, b = s->in->tie[k].peer;
        bool is_new = false;
        if (mtp__pair_put(&wanted, a < b ? a : b, 1 + (uint64_t)(a < b ? b : a), 0, &is_new) == NULL)
            status = MTP_E_NOMEM;
        else if (is_new)
            status = make_edge(s, a < b ? a : b, a < b ? b : a);
    }
    mtp__pair_map_fini(&wanted);
    return status;
}

static mtp_status make_edges(solver *s)
{
    if (s->in->ranks > ALL_PAIRS)
        return make_some_edges(s);
    mtp_status status = MTP_OK;
    for (uint32_t i = 0; i < s->in->ranks && status == MTP_OK; i++)
        for (uint32_t j = i + 1; j < s->in->ranks && status == MTP_OK; j++)
            status = make_edge(s, i, j);
    return status;
}

/* -------------------------------------------------------------------------------------------- estimate */

/* The line from i's clock to j's, seen from j's. */
static mtp__line inverse(const solver *s, mtp__line l, uint32_t i, uint32_t j)
{
    double between = apart(s->in->first[j], s->in->first[i]) - l.a;
    return (mtp__line){-l.a - l.b * between / (1 + l.b), -l.b / (1 + l.b)};
}

/* From i's clock to k's by e, and on by f. */
static mtp__line chain(const solver *s, mtp__line e, uint32_t i, mtp__line f, uint32_t k)
{
    double between = apart(s->in->first[i], s->in->first[k]) + e.a;
    return (mtp__line){e.a + f.a + f.b * between, e.b + f.b * (1 + e.b)};
}

static bool fit_edge(solver *s, edge *e)
{
    bool failed = false;
    uint32_t met = merge_pair(s, e->i, e->j, true, &failed);
    e->fit = e->polygon.least;
    return !failed && (met == 0 || mtp__line_fit(s->points, met, &e->fit));
}

static bool join(solver *s, uint32_t at)
{
    edge *e = &s->edges[at];
    bool forward = s->nodes[e->j].component != NONE; /* i is new */
    uint32_t fresh = forward ? e->i : e->j, known = forward ? e->j : e->i;
    if (!fit_edge(s, e))
        return false;
    node *n = &s->nodes[fresh];
    n->f = chain(s, forward ? e->fit : inverse(s, e->fit, e->i, e->j), fresh, s->nodes[known].f, known);
    n->component = s->nodes[known].component;
    n->steep = s->nodes[known].steep + e->steep;
    return true;
}

/* A tree for each component: always the pair next that met most often. */
static bool make_trees(solver *s)
{
    for (uint32_t root = 0; root < s->in->ranks; root++) {
        if (s->nodes[root].component != NONE)
            continue;
        s->nodes[root].component = root;
        for (;;) {
            uint32_t best = NONE;
            for (uint32_t k = 0; k < s->edge_count; k++) {
                const edge *e = &s->edges[k];
                bool one = (s->nodes[e->i].component == root) != (s->nodes[e->j].component == root);
                if (one && !e->dropped && (best == NONE || e->meetings > s->edges[best].meetings))
                    best = k;
            }
            if (best == NONE)
                break;
            if (!join(s, best))
                return false;
        }
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* When a meeting ended: the median of what its ranks' clocks say. */
static double end_of(const solver *s, const mtp__meeting *m, double *room)
{
    int64_t base = s->in->seen[m->first].leave;
    for (uint32_t k = 0; k < m->count; k++) {
        const mtp__seen *e = &s->in->seen[m->first + k];
        const mtp__line *f = &s->nodes[e->rank].f;
        room[k] = apart(e->leave, base) + f->a + f->b * since(s, e->rank, e->leave);
    }
    qsort(room, m->count, sizeof *room, by_value);
    return m->count % 2 != 0 ? room[m->count / 2] : (room[m->count / 2 - 1] + room[m->count / 2]) / 2;
}

/* All ranks against the median end of each meeting, which varies less than any one rank's. */
static bool against_medians(solver *s, const double *end)
{
    for (uint32_t r = 0; r < s->in->ranks; r++) {
        mtp__line more;
        uint32_t count = 0;
        node *n = &s->nodes[r];
        for (uint32_t k = s->first_of[r]; k < s->first_of[r + 1]; k++) {
            const mtp__seen *e = &s->in->seen[s->by_rank[k]];
            uint32_t m = s->meeting_of[s->by_rank[k]];
            if (s->in->meeting[m].kind != MTP__MEET_ALL)
                continue;
            if (!MTP__GROW(s->points, s->point_room, count, (size_t)count + 1, 256))
                return false;
            double x = since(s, r, e->leave);
            s->points[count++] =
                (mtp__point){x, end[m] - (apart(e->leave, s->in->seen[s->in->meeting[m].first].leave) +
                                          n->f.a + n->f.b * x)};
        }
        if (count < 3)
            continue;
        if (!mtp__line_fit(s->points, count, &more))
            return false;
        n->f = (mtp__line){n->f.a + more.a, n->f.b + more.b};
    }
    return true;
}

/* The reference's own clock is true: what was added to it is taken from all. */
static void by_reference(solver *s)
{
    for (uint32_t r = s->in->ranks; r-- > 0;) {
        uint32_t root = s->nodes[r].component;
        if (root != r)
            s->nodes[r].f = chain(s, s->nodes[r].f, r, inverse(s, s->nodes[root].f, root, root), root);
    }
    for (uint32_t r = 0; r < s->in->ranks; r++)
        if (s->nodes[r].component == r)
            s->nodes[r].f = (mtp__line){0};
}

static bool estimate(solver *s)
{
    uint32_t most = 1;
    for (uint32_t m = 0; m < s->in->meetings; m++)
        most = s->in->meeting[m].count > most ? s->in->meeting[m].count : most;
    double *end = mtp__calloc((size_t)s->in->meetings + 1, sizeof *end),
           *room = mtp__calloc(most, sizeof *room);
    bool good = end != NULL && room != NULL && make_trees(s);
    for (int again = 0; again < 2 && good; again++) {
        for (uint32_t m = 0; m < s->in->meetings; m++)
            end[m] = s->in->meeting[m].kind == MTP__MEET_ALL ? end_of(s, &s->in->meeting[m], room) : 0;
        good = against_medians(s, end);
        if (good)
            by_reference(s);
    }
    mtp__free(end);
    mtp__free(room);
    return good;
}

/* ---------------------------------------------------------------------------------------------- bounds */

/* The instants at which bounds are added up: on each clock, about when the reference's shows the same. */
static void choose_ends(solver *s, uint32_t root)
{
    double end[ENDS] = {0};
    bool any = false;
    const mtp__clocks_in *in = s->in;
    for (uint32_t r = root; r < in->ranks; r++) {
        const node *n = &s->nodes[r];
        if (n->component != root)
            continue;
        double base = apart(in->first[r], in->first[root]), last = since(s, r, in->last[r]);
        double from = base + n->f.a, to = base + last + n->f.a + n->f.b * last;
        end[0] = !any || from < end[0] ? from : end[0];
        end[1] = !any || to > end[1] ? to : end[1];
        any = true;
    }
    for (uint32_t r = root; r < in->ranks; r++) {
        node *n = &s->nodes[r];
        for (int k = 0; k < ENDS && n->component == root; k++) {
            n->x[k] = (end[k] - apart(in->first[r], in->first[root]) - n->f.a) / (1 + n->f.b);
            n->most[k] = r == root ? 0 : NEVER;
            n->least[k] = r == root ? 0 : -NEVER;
        }
    }
}

/* Bounds of the edge's line at the end k, on the clock of its i. */
static void bounds_at(const solver *s, const edge *e, int k, double *least, double *most)
{
    *most = mtp__polygon_most(&e->polygon, s->nodes[e->i].x[k]);
    *least = mtp__polygon_least(&e->polygon, s->nodes[e->i].x[k]);
}

/* Tightens what is known of `to` by what is known of `from`. Both clocks' instants differ a little; `slack` is what
 * drift may make of that. */
static bool tighten(node *to, const node *from, int k, double least, double most, double slack)
{
    bool changed = false;
    if (from->most[k] < NEVER && most < NEVER && from->most[k] + most + slack < to->most[k] - 1e-3) {
        to->most[k] = from->most[k] + most + slack;
        changed = true;
    }
    if (from->least[k] > -NEVER && least > -NEVER && from->least[k] + least - slack > to->least[k] + 1e-3) {
        to->least[k] = from->least[k] + least - slack;
        changed = true;
    }
    return changed;
}

static bool relax(solver *s, edge *e, int k)
{
    node *i = &s->nodes[e->i], *j = &s->nodes[e->j];
    double least, most, there = apart(s->in->first[e->j], s->in->first[e->i]) + j->x[k] - i->x[k];
    bounds_at(s, e, k, &least, &most);
    double off = fmax(most < NEVER ? fabs(most - there) : 0, least > -NEVER ? fabs(least - there) : 0);
    double ends = fmin(e->steep + i->steep, 2 * MTP__DRIFT_MAX) * off,
           other = fmin(j->steep, MTP__DRIFT_MAX) * off;
    bool a = tighten(i, j, k, least, most, other), b = tighten(j, i, k, -most, -least, ends);
    return a || b;
}

static bool is_in(const solver *s, const edge *e, uint32_t root)
{
    return !e->dropped && s->nodes[e->i].component == root;
}

static bool proves(const solver *s, const edge *e, uint32_t root)
{
    return is_in(s, e, root) && !e->doubtful;
}

/* Are the bounds of a rank empty? Then a chain of ranks contradicts itself. */
static uint32_t find_empty(const solver *s, uint32_t root)
{
    for (uint32_t r = root; r < s->in->ranks; r++)
        for (int k = 0; k < ENDS && s->nodes[r].component == root; k++)
            if (s->nodes[r].least[k] > s->nodes[r].most[k] + 1)
                return r;
    return NONE;
}

static bool is_weaker(const edge *a, const edge *b)
{
    return a->tied != b->tied ? b->tied : a->meetings < b->meetings;
}

/* Of the chain's pairs, one that no measurement ties and that met least often is left out. */
static bool drop_weakest(solver *s, uint32_t root, uint32_t at)
{
    edge *weakest = NULL;
    for (uint32_t k = 0; k < s->edge_count; k++) {
        edge *e = &s->edges[k];
        if (proves(s, e, root) && (e->i == at || e->j == at) && (weakest == NULL || is_weaker(e, weakest)))
            weakest = e;
    }
    if (weakest == NULL)
        return true;
    weakest->dropped = true;
    const node *n = &s->nodes[at];
    mtp__bound b = {.meeting = NONE, .leaver = weakest->i, .enterer = weakest->j};
    return report(s, &b, fmax(n->least[0] - n->most[0], n->least[1] - n->most[1]));
}

static bool spread(solver *s, uint32_t root)
{
    for (;;) {
        uint32_t rounds = 0, empty = NONE;
        bool changed = true;
        choose_ends(s, root);
        while (changed && rounds++ <= s->in->ranks && empty == NONE) {
            changed = false;
            for (uint32_t k = 0; k < s->edge_count; k++)
                for (int end = 0; end < ENDS && proves(s, &s->edges[k], root); end++)
                    changed = relax(s, &s->edges[k], end) || changed;
            empty = find_empty(s, root);
        }
        if (empty == NONE)
            return true;
        if (!drop_weakest(s, root, empty))
            return false;
    }
}

static void conclude(solver *s, uint32_t r)
{
    node *n = &s->nodes[r];
    mtp__clock_line *out = &s->out->line[r];
    *out = (mtp__clock_line){.at = s->in->first[r], .component = n->component, .error = -1};
    if (n->component == r) {
        out->error = 0;
        return;
    }
    double y[ENDS], off = 0;
    bool proved = true;
    for (int k = 0; k < ENDS; k++) {
        proved = proved && n->most[k] < NEVER && n->least[k] > -NEVER;
        y[k] = n->f.a + n->f.b * n->x[k];
        y[k] = fmax(fmin(y[k], n->most[k]), n->least[k]);
        off = fmax(off, fmax(n->most[k] - y[k], y[k] - n->least[k]));
    }
    out->drift = n->x[1] > n->x[0] ? (y[1] - y[0]) / (n->x[1] - n->x[0]) : 0;
    out->at = s->in->first[r] + (int64_t)n->x[0];
    out->offset = (int64_t)llround(y[0]);
    out->error = proved ? (int64_t)ceil(off) + 2 : -1; /* of rounding */
}

static void fini(solver *s)
{
    for (uint32_t k = 0; k < s->edge_count; k++)
        mtp__polygon_fini(&s->edges[k].polygon);
    mtp__free(s->edges);
    mtp__free(s->nodes);
    mtp__free(s->by_rank);
    mtp__free(s->first_of);
    mtp__free(s->meeting_of);
    mtp__free(s->bounds);
    mtp__free(s->points);
}

mtp_status mtp__clocks_solve(const mtp__clocks_in *in, mtp__clocks *out)
{
    solver s = {.in = in, .out = out};
    *out = (mtp__clocks){.ranks = in->ranks};
    out->line = mtp__calloc((size_t)in->ranks + 1, sizeof *out->line);
    s.nodes = mtp__calloc((size_t)in->ranks + 1, sizeof *s.nodes);
    bool good = out->line != NULL && s.nodes != NULL && index_seen(&s);
    for (uint32_t r = 0; good && r < in->ranks; r++)
        s.nodes[r].component = NONE;
    good = good && make_edges(&s) == MTP_OK && estimate(&s);
    for (uint32_t r = 0; good && r < in->ranks; r++)
        good = s.nodes[r].component != r || spread(&s, r);
    for (uint32_t r = 0; good && r < in->ranks; r++)
        conclude(&s, r);
    fini(&s);
    if (good)
        return MTP_OK;
    mtp__clocks_fini(out);
    return MTP_FAIL(MTP_E_NOMEM, "the clocks of %u ranks", in->ranks);
}

void mtp__clocks_fini(mtp__clocks *c)
{
    mtp__free(c->line);
    mtp__free(c->conflict);
    *c = (mtp__clocks){0};
}
