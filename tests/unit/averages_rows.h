/* tests/unit/averages_rows.h - averages of traces made by hand, row by row. */
#ifndef TESTS_UNIT_AVERAGES_ROWS_H
#define TESTS_UNIT_AVERAGES_ROWS_H
#include "tests/made_trace.h"
#include "analyze/averages.h"

static inline mtp_averages *rows_by(const mtp_trace *t, mtp_averages_options options)
{
    mtp_averages *a;
    assert_ok(mtp_averages_create(t, &options, &a));
    return a;
}

static inline mtp_averages *rows_of(const mtp_trace *t)
{
    mtp_averages *a;
    assert_ok(mtp_averages_create(t, NULL, &a));
    return a;
}

/* With PyTorch's own join of device work, chance included. */
static inline mtp_averages *rows_as_torch(const mtp_trace *t)
{
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.as_torch = true;
    return rows_by(t, options);
}

static inline const mtp_row *find_row(const mtp_averages *a, const char *key, bool device, bool annotation)
{
    for (size_t i = 0; i < mtp_averages_count(a); i++) {
        const mtp_row *row = mtp_averages_row(a, i);
        if (strcmp(row->key, key) == 0 && row->is_device == device && row->is_user_annotation == annotation)
            return row;
    }
    return NULL;
}

/* The row, which must be there. */
static inline const mtp_row *op_row(const mtp_averages *a, const char *key)
{
    const mtp_row *row = find_row(a, key, false, false);
    if (row == NULL)
        fail_msg("no row %s", key);
    return row;
}

static inline const mtp_row *scope_row(const mtp_averages *a, const char *key)
{
    const mtp_row *row = find_row(a, key, false, true);
    if (row == NULL)
        fail_msg("no row of scopes %s", key);
    return row;
}

static inline const mtp_row *device_row(const mtp_averages *a, const char *key)
{
    const mtp_row *row = find_row(a, key, true, false);
    if (row == NULL)
        fail_msg("no row of device work %s", key);
    return row;
}

static inline void check_us(double value, double us, int line)
{
    if (!(value - us < 1e-6 && us - value < 1e-6))
        fail_msg("line %d: %.6f us, not %.6f", line, value, us);
}
#define assert_us(value, us) check_us((value), (us), __LINE__)

static inline void finish(mtp_averages *a, mtp_trace *t)
{
    mtp_averages_destroy(a);
    mtp_trace_destroy(t);
}

/* Metadata that makes a trace one of torch's. */
static inline void as_kineto(mtp_trace *t, bool host_name)
{
    t->format = MTP_FORMAT_KINETO;
    if (host_name)
        mtp__trace_add_meta(t, "host_name", 9, "\"x\"", 3);
}

static inline uint32_t span_with(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name,
                                 mtp__category category, mtp__detail d)
{
    return mtp__trace_add_span(t, track, start, end, made_text(t, name), category, 0,
                               mtp__trace_add_detail(t, &d));
}

static inline uint32_t stack_of(mtp_trace *t, const char *const *frame, unsigned count)
{
    uint32_t at = 0;
    for (unsigned i = 0; i < count; i++) /* outermost first */
        at = mtp__trace_add_stack(t, at, made_text(t, frame[i]));
    return at;
}

static inline uint32_t shape(mtp_trace *t, const char *dims, const char *types, const char *concrete)
{
    mtp__shape s = {made_text(t, dims), 0, types != NULL ? made_text(t, types) : 0,
                    concrete != NULL ? made_text(t, concrete) : 0};
    return mtp__trace_add_shape(t, &s);
}

static inline void op_with(mtp_trace *t, uint32_t k, int64_t at, const char *name, uint32_t shape_id,
                           uint32_t stack)
{
    mtp__detail d = MTP__DETAIL_INIT;
    d.shape = shape_id;
    d.stack = stack;
    span_with(t, k, at, at + 1000, name, MTP__CATEGORY_CPU_OP, d);
}

/* An op around a launch, and its kernel. */
static inline void launch(mtp_trace *t, uint32_t thread, uint32_t stream, int64_t at, int64_t ns, uint64_t id)
{
    mtp__detail op = MTP__DETAIL_INIT, call = MTP__DETAIL_INIT, work = MTP__DETAIL_INIT;
    op.external_id = call.external_id = work.external_id = id;
    call.correlation = work.correlation = 1000 + id;
    span_with(t, thread, at, at + 1000, "aten::mm", MTP__CATEGORY_CPU_OP, op);
    span_with(t, thread, at + 100, at + 200, "cudaLaunchKernel", MTP__CATEGORY_CUDA_RUNTIME, call);
    span_with(t, stream, at + 5000, at + 5000 + ns, "gemm", MTP__CATEGORY_KERNEL, work);
}
#endif
