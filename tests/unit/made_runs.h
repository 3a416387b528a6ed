/* tests/unit/made_runs.h - runs with known means and noise, for the tests of diff. */
#ifndef TESTS_UNIT_MADE_RUNS_H
#define TESTS_UNIT_MADE_RUNS_H
#include "tests/test.h"
#include <math.h>
#include "analyze/diff/stats.h"
#include "base/json_check.h"
#include "trace/trace.h"

/* --------------------------------------------------------------------------------------------- made runs */

/* A program: `ops` ops, `calls` calls of each in each of `steps` steps, and the machine that it runs on. */
typedef struct model {
    int ops, calls, steps;
    double sigma;             /* of the logarithm of a call's time */
    double spike, spike_size; /* share of calls that are disturbed; how much longer they take */
    double drift;             /* of all times: at most this much, either way */
    double busy;              /* share of the time in which a neighbour slows everything down by a third */
    int slow_op, slow_count;  /* in the second run, from this op on */
    double slow;              /* they take this much more */
    bool flat;                /* no steps */
} model;

static const model usual = {
    .ops = 24, .calls = 10, .steps = 20, .sigma = 0.05, .spike = 0.03, .spike_size = 5};

typedef struct chance {
    uint64_t state;
} chance;

static inline double uniform(chance *c)
{
    c->state ^= c->state << 13;
    c->state ^= c->state >> 7;
    c->state ^= c->state << 17;
    return ((double)(c->state * UINT64_C(0x2545F4914F6CDD1D) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double normal(chance *c)
{
    double r = sqrt(-2 * log(uniform(c)));
    return r * cos(6.283185307179586 * uniform(c));
}

typedef struct run {
    mtp_trace *t;
    uint32_t track;
    int64_t now;
} run;

static inline run run_begin(void)
{
    run r = {0};
    mtp__track track = {.pid = 1, .tid = 1, .sort_index = INT64_MIN};
    assert_ok(mtp__trace_create(&r.t));
    r.track = mtp__trace_add_track(r.t, &track);
    return r;
}

static inline uint32_t text(mtp_trace *t, const char *name)
{
    return mtp__trace_text(t, name, strlen(name));
}

static inline uint32_t add_detailed(run *r, const char *name, int64_t ns, mtp__category category,
                                    uint32_t detail)
{
    uint32_t span =
        mtp__trace_add_span(r->t, r->track, r->now, r->now + ns, text(r->t, name), category, 0, detail);
    r->now += ns + 100;
    return span;
}

static inline uint32_t add(run *r, const char *name, int64_t ns)
{
    return add_detailed(r, name, ns, MTP__CATEGORY_CPU_OP, 0);
}

static inline mtp_trace *run_end(run *r)
{
    assert_ok(mtp__trace_finish(r->t));
    return r->t;
}

static inline mtp_trace *simulate(const model *m, unsigned seed, bool after)
{
    chance c = {(seed * 2u + after) * UINT64_C(0x9e3779b97f4a7c15) + 1};
    for (int i = 0; i < 16; i++)
        uniform(&c);
    run r = run_begin();
    double speed = exp(m->drift * (2 * uniform(&c) - 1));
    bool busy = false;
    for (int s = 0; s < m->steps; s++) {
        char name[32];
        int64_t began = r.now;
        uint32_t step = MTP__NONE;
        snprintf(name, sizeof name, "ProfilerStep#%d", s);
        if (!m->flat)
            step = mtp__trace_add_span(r.t, r.track, r.now, r.now, text(r.t, name),
                                       MTP__CATEGORY_USER_ANNOTATION, MTP__SPAN_STEP, 0);
        r.now += 500;
        for (int k = 0; k < m->calls * m->ops; k++) {
            int op = k % m->ops;
            if (uniform(&c) < 0.003)
                busy = uniform(&c) < m->busy;
            double ns = 4000 * pow(1.3, op % 13) * exp(m->sigma * normal(&c)) * speed * (busy ? 1.33 : 1);
            if (after && op >= m->slow_op && op < m->slow_op + m->slow_count)
                ns *= 1 + m->slow;
            if (uniform(&c) < m->spike)
                ns *= 1 - m->spike_size * log(uniform(&c));
            snprintf(name, sizeof name, "op%d", op);
            add(&r, name, (int64_t)ns);
        }
        if (!m->flat) {
            mtp__trace_end_span(r.t, step, r.now, 0);
            mtp__trace_add_step(r.t, &(mtp__step){began, r.now, s});
        }
        r.now += 1000;
    }
    return run_end(&r);
}

static inline mtp_diff *diff_of(mtp_trace *before, mtp_trace *after, const mtp_diff_options *options)
{
    mtp_diff *d;
    assert_ok(mtp_diff_create(before, after, options, &d));
    return d;
}

static inline const mtp_diff_row *row_of(const mtp_diff *d, const char *key)
{
    for (size_t i = 0; i < mtp_diff_count(d); i++)
        if (strcmp(mtp_diff_row_at(d, i)->key, key) == 0)
            return mtp_diff_row_at(d, i);
    fail_msg("no row '%s'", key);
    return NULL;
}

static inline mtp_diff_summary summary_of(const mtp_diff *d)
{
    mtp_diff_summary s = MTP_DIFF_SUMMARY_INIT;
    assert_ok(mtp_diff_get_summary(d, &s));
    return s;
}

typedef struct rates {
    double failed; /* runs that are slower than 5 % allows */
    double found;  /* runs in which each op that was slowed is called slower */
    double wrong;  /* runs in which another op is called slower or faster */
    double steps;  /* runs in which the steps are called slower or faster */
} rates;

static inline rates rates_of(const model *m, int runs)
{
    rates rate = {0};
    for (int seed = 1; seed <= runs; seed++) {
        mtp_trace *before = simulate(m, (unsigned)seed, false), *after = simulate(m, (unsigned)seed, true);
        mtp_diff *d = diff_of(before, after, NULL);
        int found = 0, wrong = 0;
        for (size_t i = 0; i < mtp_diff_count(d); i++) {
            const mtp_diff_row *r = mtp_diff_row_at(d, i);
            int op = strncmp(r->key, "op", 2) == 0 ? atoi(r->key + 2) : -1;
            bool slowed = op >= m->slow_op && op < m->slow_op + m->slow_count;
            found += slowed && r->verdict == MTP_VERDICT_SLOWER;
            wrong +=
                op >= 0 && !slowed && (r->verdict == MTP_VERDICT_SLOWER || r->verdict == MTP_VERDICT_FASTER);
        }
        rate.failed += mtp_diff_slower(d, 0.05);
        rate.found += found == m->slow_count;
        rate.wrong += wrong > 0;
        mtp_verdict steps = summary_of(d).step_verdict;
        rate.steps += steps == MTP_VERDICT_SLOWER || steps == MTP_VERDICT_FASTER;
        mtp_diff_destroy(d);
        mtp_trace_destroy(before);
        mtp_trace_destroy(after);
    }
    return (rates){rate.failed / runs, rate.found / runs, rate.wrong / runs, rate.steps / runs};
}

#define RUNS test_scaled(200)

static inline void assert_quiet_within(const char *what, model m, double most)
{
    rates r = rates_of(&m, RUNS);
    print_message("# %s: %.1f %% of runs fail, %.1f %% have a wrong row, of %.1f %% the steps are judged\n",
                  what, 100 * r.failed, 100 * r.wrong, 100 * r.steps);
    if (r.failed > most || r.steps > most)
        fail_msg("%s: %.1f %% false alarms", what, 100 * r.failed);
}

static inline void assert_quiet(const char *what, model m)
{
    assert_quiet_within(what, m, 0.01);
}

static inline void assert_found(const char *what, model m, double least)
{
    rates r = rates_of(&m, RUNS);
    print_message("# %s: %.1f %% found, %.1f %% fail the gate, %.1f %% have a wrong row\n", what,
                  100 * r.found, 100 * r.failed, 100 * r.wrong);
    if (r.found < least || r.failed < least)
        fail_msg("%s: found in %.1f %% of runs", what, 100 * r.found);
    assert_true(r.wrong <= 0.02);
}

/* Two shapes, the large one slower, in different proportions on both sides. */
static inline mtp_trace *run_shapes(int64_t large, int large_calls, unsigned seed)
{
    chance c = {seed * UINT64_C(0x9e3779b97f4a7c15) + 5};
    run r = run_begin();
    mtp__shape shapes[2] = {{.dims = text(r.t, "[[4, 4]]")}, {.dims = text(r.t, "[[64, 64]]")}};
    mtp__detail detail[2] = {MTP__DETAIL_INIT, MTP__DETAIL_INIT};
    for (int i = 0; i < 2; i++)
        detail[i].shape = mtp__trace_add_shape(r.t, &shapes[i]);
    for (int k = 0; k < 100; k++) {
        bool is_large = k % 10 < large_calls;
        double ns = (is_large ? (double)large : 2000) * exp(0.02 * normal(&c));
        add_detailed(&r, "aten::mm", (int64_t)ns, MTP__CATEGORY_CPU_OP,
                     mtp__trace_add_detail(r.t, &detail[is_large]));
    }
    return run_end(&r);
}
#endif
