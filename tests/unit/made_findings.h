/* tests/unit/made_findings.h - traces with one fault each, and what is found in them. Times in microseconds. */
#ifndef TESTS_UNIT_MADE_FINDINGS_H
#define TESTS_UNIT_MADE_FINDINGS_H
#include "tests/made_trace.h"

#define US 1000

/* ------------------------------------------------------------------------------------------- what is found */

static inline mtp_findings *findings_of(const mtp_trace *t)
{
    mtp_findings *f;
    assert_ok(mtp_findings_create(t, NULL, &f));
    return f;
}

/* Its place, from 0; -1: it is not among them. */
static inline int place_of(const mtp_findings *f, const char *id)
{
    const mtp_finding_row *r;
    for (size_t i = 0; (r = mtp_findings_row(f, i)) != NULL; i++)
        if (strcmp(r->id.bytes, id) == 0)
            return (int)i;
    return -1;
}

static inline void print_all(const mtp_findings *f)
{
    for (size_t i = 0; i < mtp_findings_count(f); i++)
        fprintf(stderr, "# found %s: %s\n", mtp_findings_row(f, i)->id.bytes,
                mtp_findings_row(f, i)->text.bytes);
}

/* The finding comes first; the trace is destroyed. Its gain must be gain_us, to the percent (-1: any). */
static inline void assert_first(mtp_trace *t, const char *id, double gain_us)
{
    mtp_findings *f = findings_of(t);
    if (place_of(f, id) != 0) {
        print_all(f);
        fail_msg("%s is not first, but at place %d", id, place_of(f, id));
    }
    const mtp_finding_row *r = mtp_findings_row(f, 0);
    double gain = (double)r->gain_ns / US;
    if (gain_us >= 0 && (gain < 0.99 * gain_us || gain > 1.01 * gain_us))
        fail_msg("%s: %.3f us could be saved, not %.3f", id, gain, gain_us);
    assert_true(r->title.length > 0 && r->text.length > 0 && r->advice.length > 0);
    assert_int_equal(strlen(r->text.bytes), r->text.length);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

static inline void assert_silent(mtp_trace *t, const char *id)
{
    mtp_findings *f = findings_of(t);
    if (place_of(f, id) >= 0) {
        print_all(f);
        fail_msg("%s is reported", id);
    }
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

static inline void assert_found(mtp_trace *t, const char *id)
{
    mtp_findings *f = findings_of(t);
    if (place_of(f, id) < 0) {
        print_all(f);
        fail_msg("%s is not reported", id);
    }
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

/* -------------------------------------------------------------------------------------------------- steps */

static inline void made_step(mtp_trace *t, uint32_t thread, int number, int64_t start, int64_t end)
{
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%d", number);
    made_scope(t, thread, start * US, end * US, name);
}

/* An op whose inputs were recorded. */
static inline uint32_t made_shaped(mtp_trace *t, uint32_t thread, int64_t start, int64_t end,
                                   const char *name, const char *dims, const char *types,
                                   const char *concrete)
{
    mtp__shape shape = {
        .dims = made_text(t, dims), .types = made_text(t, types), .concrete = made_text(t, concrete)};
    mtp__detail d = MTP__DETAIL_INIT;
    d.shape = mtp__trace_add_shape(t, &shape);
    return mtp__trace_add_span(t, thread, start * US, end * US, made_text(t, name), MTP__CATEGORY_CPU_OP, 0,
                               mtp__trace_add_detail(t, &d));
}

/* ------------------------------------------------------------------------------------------------- devices */

typedef struct gpu {
    mtp_trace *t;
    uint32_t thread, stream;
    uint64_t last; /* correlation */
} gpu;

static inline gpu made_gpu(mtp_trace *t)
{
    return (gpu){.t = t, .thread = made_thread(t, 7), .stream = made_stream(t, 0, 7)};
}

static inline uint32_t made_correlated(gpu *g, uint32_t track, int64_t start, int64_t end, const char *name,
                                       mtp__category category)
{
    mtp__detail d = MTP__DETAIL_INIT;
    d.correlation = g->last;
    return mtp__trace_add_span(g->t, track, start * US, end * US, made_text(g->t, name), category, 0,
                               mtp__trace_add_detail(g->t, &d));
}

/* A call, and the device work that it launches; track: the stream. */
static inline void made_launch(gpu *g, int64_t called, int64_t returned, int64_t start, int64_t end,
                               const char *name, mtp__category category)
{
    g->last++;
    made_correlated(g, g->thread, called, returned,
                    category == MTP__CATEGORY_KERNEL ? "cudaLaunchKernel" : "cudaMemcpyAsync",
                    MTP__CATEGORY_CUDA_RUNTIME);
    made_correlated(g, g->stream, start, end, name, category);
}

static inline void made_kernel(gpu *g, int64_t called, int64_t start, int64_t end, const char *name)
{
    made_launch(g, called, called + 5, start, end, name, MTP__CATEGORY_KERNEL);
}

static inline void made_wait(gpu *g, int64_t start, int64_t end, const char *name)
{
    made_span(g->t, g->thread, start * US, end * US, name, MTP__CATEGORY_CUDA_RUNTIME);
}
#endif
