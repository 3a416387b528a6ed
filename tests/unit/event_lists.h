/* tests/unit/event_lists.h - events of traces made by hand. */
#ifndef TESTS_UNIT_EVENT_LISTS_H
#define TESTS_UNIT_EVENT_LISTS_H
#include "tests/made_trace.h"
#include "base/clock.h"
#include <dirent.h>
#include <pthread.h>
#include <zlib.h>
#include "trace/build.h"

static inline mtp_events *events_of(const mtp_trace *t)
{
    mtp_events *e;
    assert_ok(mtp_events_create(t, &e));
    return e;
}

static inline size_t count_of(mtp_events *e)
{
    size_t count;
    assert_ok(mtp_events_count(e, &count));
    return count;
}

static inline mtp_event at(mtp_events *e, size_t index)
{
    mtp_event out;
    out.size = sizeof out;
    assert_ok(mtp_events_get(e, index, &out));
    return out;
}

/* The first event with this name, from `from` on. */
static inline size_t find(mtp_events *e, const char *name, size_t from)
{
    for (size_t i = from; i < count_of(e); i++)
        if (strcmp(at(e, i).name.bytes, name) == 0)
            return i;
    fail_msg("no event %s", name);
    return 0;
}

static inline mtp_event named(mtp_events *e, const char *name)
{
    return at(e, find(e, name, 0));
}

static inline size_t child_of(mtp_events *e, size_t index)
{
    size_t out;
    assert_ok(mtp_events_child(e, index, &out));
    return out;
}

static inline size_t sibling_of(mtp_events *e, size_t index)
{
    size_t out;
    assert_ok(mtp_events_sibling(e, index, &out));
    return out;
}

static inline void assert_text(mtp_text text, const char *want)
{
    assert_int_equal(text.length, strlen(want));
    assert_string_equal(text.bytes, want);
}

static inline void assert_names(mtp_events *e, const char *want)
{
    char names[4096] = "";
    for (size_t i = 0; i < count_of(e); i++) {
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? " " : "", at(e, i).name.bytes);
    }
    assert_string_equal(names, want);
}

static inline void finish(mtp_events *e, mtp_trace *t)
{
    mtp_events_destroy(e);
    mtp_trace_destroy(t);
}

static inline uint32_t span_with(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name,
                                 mtp__category category, mtp__detail d)
{
    return mtp__trace_add_span(t, track, start, end, made_text(t, name), category, 0,
                               mtp__trace_add_detail(t, &d));
}

typedef struct sums {
    uint64_t count;
    double cpu, self_cpu, device, self_device;
    int64_t memory[4];
    uint64_t flops;
} sums;

static inline bool close_to(double a, double b, bool exact)
{
    double apart = a > b ? a - b : b - a, size = a < 0 ? -a : a;
    return exact ? a == b : apart <= 1e-9 * size + 1e-6;
}

/* What averages say, and what the events add up to, row by row; exact: to the last bit. */
static inline void assert_agrees(const mtp_trace *t, mtp_events *e, bool exact)
{
    mtp_averages *a;
    uint64_t total = 0;
    size_t count = count_of(e);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    for (size_t i = 0; i < count && !options.include_python_functions; i++) /* none of old files */
        options.include_python_functions =
            at(e, i).kind == MTP_EVENT_PYTHON || at(e, i).kind == MTP_EVENT_MODULE;
    assert_ok(mtp_averages_create(t, &options, &a));
    size_t rows = mtp_averages_count(a);
    sums *sum = calloc(rows + 1, sizeof *sum);
    for (size_t i = 0, row = 0; i < count; i++) {
        mtp_event v = at(e, i);
        size_t looked = 0;
        for (; looked < rows; looked++, row = (row + 1) % rows) {
            const mtp_row *r = mtp_averages_row(a, row);
            if (r->is_device == v.is_device && r->is_user_annotation == v.is_user_annotation &&
                r->key_length == v.key.length && memcmp(r->key, v.key.bytes, v.key.length) == 0)
                break;
        }
        if (looked == rows)
            fail_msg("event %zu, %s, has no row", i, v.key.bytes);
        sums *s = &sum[row];
        s->count++;
        s->cpu += v.cpu_time_total;
        s->self_cpu += v.self_cpu_time_total;
        s->device += v.device_time_total;
        s->self_device += v.self_device_time_total;
        s->memory[0] += v.cpu_memory_usage;
        s->memory[1] += v.self_cpu_memory_usage;
        s->memory[2] += v.device_memory_usage;
        s->memory[3] += v.self_device_memory_usage;
        s->flops += v.flops;
    }
    for (size_t i = 0; i < rows; i++) {
        const mtp_row *r = mtp_averages_row(a, i);
        const sums *s = &sum[i];
        total += r->count;
        if (s->count != r->count || !close_to(s->cpu, r->cpu_time_total, exact) ||
            !close_to(s->self_cpu, r->self_cpu_time_total, exact) ||
            !close_to(s->device, r->device_time_total, exact) ||
            !close_to(s->self_device, r->self_device_time_total, exact))
            fail_msg("%s: %llu %.6f %.6f %.6f %.6f, averages have %llu %.6f %.6f %.6f %.6f", r->key,
                     (unsigned long long)s->count, s->cpu, s->self_cpu, s->device, s->self_device,
                     (unsigned long long)r->count, r->cpu_time_total, r->self_cpu_time_total,
                     r->device_time_total, r->self_device_time_total);
        assert_true(s->memory[0] == r->cpu_memory_usage && s->memory[1] == r->self_cpu_memory_usage);
        assert_true(s->memory[2] == r->device_memory_usage && s->memory[3] == r->self_device_memory_usage);
        assert_true(s->flops == r->flops);
    }
    assert_int_equal(total, count);
    free(sum);
    mtp_averages_destroy(a);
}

/* In order; parents enclose their children, on the same thread; children are listed once each; self time
 * is the rest; kernels add up. */
static inline void assert_tree(mtp_events *e)
{
    size_t count = count_of(e), listed = 0, nested = 0;
    int64_t start = INT64_MIN, end = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        mtp_event v = at(e, i);
        assert_true(v.start_ns > start || (v.start_ns == start && v.end_ns <= end));
        start = v.start_ns;
        end = v.end_ns;
        double self = v.cpu_time_total, own = 0;
        size_t before = i, children = 0;
        for (size_t c = child_of(e, i); c != MTP_NO_EVENT; c = sibling_of(e, c), children++) {
            mtp_event w = at(e, c);
            assert_true(c > before);
            assert_int_equal(w.parent, i);
            assert_true(w.start_ns >= v.start_ns && w.end_ns <= v.end_ns && !w.is_device);
            assert_int_equal(w.thread, v.thread);
            self -= w.cpu_time_total;
            before = c;
        }
        if (children == 1 &&
            at(e, child_of(e, i)).kind != MTP_EVENT_PYTHON) /* functions may call themselves */
            assert_string_not_equal(at(e, child_of(e, i)).key.bytes, v.key.bytes);
        listed += children;
        nested += v.parent != MTP_NO_EVENT;
        assert_true(close_to(self, v.self_cpu_time_total, false));
        for (uint32_t k = 0; k < v.kernel_count; k++) {
            mtp_event_kernel kernel = {.size = sizeof kernel};
            assert_ok(mtp_events_kernel(e, i, k, &kernel));
            own += kernel.duration;
            if (kernel.event == MTP_NO_EVENT) /* its name is filtered out */
                continue;
            mtp_event w = at(e, kernel.event);
            assert_true(w.is_device && w.device_time_total == kernel.duration);
            assert_string_equal(w.key.bytes, kernel.name.bytes);
        }
        if (!v.is_device)
            assert_true(close_to(own, v.self_device_time_total, false));
    }
    assert_int_equal(listed, nested);
}

/* Like our own recordings: ordered by begin, with parents. The clock stood still. */
static inline mtp_trace *held_trace(uint32_t pairs)
{
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    int64_t end = 10 * ((int64_t)pairs + 1);
    mtp__trace_add_span(t, MTP__NONE, 0, end, made_text(t, "outer"), MTP__CATEGORY_CPU_OP, 0, 0);
    for (int64_t i = 10; i < end; i += 10) {
        mtp__trace_add_span(t, 0, i, i, made_text(t, "short"), MTP__CATEGORY_CPU_OP, 0, 0);
        mtp__trace_add_span(t, 0, i, i + 10, made_text(t, "long"), MTP__CATEGORY_CPU_OP, 0, 0);
    }
    t->tracks[k].count = 1 + 2 * pairs;
    t->builder->in_order = true;
    t->last_ns = end;
    return made_end(t);
}
#endif
