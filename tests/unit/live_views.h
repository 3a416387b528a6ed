/* tests/unit/live_views.h - for the tests of live/: recordings that are watched, and their rows compared with the
 * averages of the file. */
#ifndef TESTS_UNIT_LIVE_VIEWS_H
#define TESTS_UNIT_LIVE_VIEWS_H
#include "tests/test.h"
#include <unistd.h>

static inline mtp_live *watch_with(const char *path, const mtp_live_options *options)
{
    mtp_live *live = NULL;
    assert_ok(mtp_live_open(path, options, &live));
    assert_non_null(live);
    return live;
}

static inline mtp_live *watch(const char *path)
{
    return watch_with(path, NULL);
}

/* Reads everything that is there. Of a writer at work, a chunk may have to wait for one that was not there a moment ago. */
static inline mtp_live_info refresh(mtp_live *live)
{
    mtp_live_info info = MTP_LIVE_INFO_INIT;
    for (int i = 0; i < 1000 && (i == 0 || (info.unread > 0 && info.live > 0)); i++)
        assert_ok(mtp_live_refresh(live, 0, &info));
    assert_int_equal(info.unread, 0);
    return info;
}

/* NULL: there is none that was ever entered. kind -1: any */
static inline const mtp_live_row *row_of(const mtp_live *live, const char *name, int kind)
{
    for (size_t i = 0; i < mtp_live_row_count(live); i++) {
        const mtp_live_row *row = mtp_live_row_at(live, i);
        if (row->count > 0 && row->name.length == strlen(name) &&
            memcmp(row->name.bytes, name, row->name.length) == 0 && (kind < 0 || (int)row->kind == kind))
            return row;
    }
    return NULL;
}

static inline uint64_t count_of(const mtp_live *live, const char *name)
{
    const mtp_live_row *row = row_of(live, name, -1);
    return row != NULL ? row->count : 0;
}

static inline bool is_annotation(const mtp_live_row *row)
{
    return row->kind == MTP_EVENT_SCOPE || row->kind == MTP_EVENT_STEP || row->kind == MTP_EVENT_DEVICE_SCOPE;
}

static inline bool is_python(const mtp_live_row *row)
{
    return row->kind == MTP_EVENT_PYTHON || row->kind == MTP_EVENT_MODULE;
}

static inline const mtp_row *average_of(const mtp_averages *rows, const mtp_live_row *row)
{
    for (size_t i = 0; i < mtp_averages_count(rows); i++) {
        const mtp_row *a = mtp_averages_row(rows, i);
        if (a->key_length == row->name.length && memcmp(a->key, row->name.bytes, a->key_length) == 0 &&
            a->is_device == row->is_device && a->is_user_annotation == is_annotation(row))
            return a;
    }
    return NULL;
}

static inline int64_t ns_of(double us)
{
    return (int64_t)(us * 1000 + (us < 0 ? -0.5 : 0.5));
}

/* The rows are those of the averages, with the same counts, and times that differ by at most `off` ns. */
static inline void assert_near_averages(const mtp_live *live, const char *path, int64_t off)
{
    mtp_trace *trace;
    mtp_averages *rows;
    size_t shown = 0;
    if (test_in_qemu()) {
        fprintf(stderr, "left out: rows compared with averages: " QEMU_TICKS "\n");
        return;
    }
    assert_ok(mtp_trace_open(path, NULL, &trace));
    assert_ok(mtp_averages_create(trace, NULL, &rows));
    for (size_t i = 0; i < mtp_live_row_count(live); i++) {
        const mtp_live_row *row = mtp_live_row_at(live, i);
        if (row->count == 0 || is_python(row))
            continue;
        const mtp_row *a = average_of(rows, row);
        if (a == NULL)
            fail_msg("'%.*s' is not among the averages", (int)row->name.length, row->name.bytes);
        if (row->count != a->count)
            fail_msg("'%s': count %llu, not %llu", a->key, (unsigned long long)row->count,
                     (unsigned long long)a->count);
        int64_t self = ns_of(row->is_device ? a->self_device_time_total : a->self_cpu_time_total);
        if (row->self_ns > self + off || row->self_ns < self - off)
            fail_msg("'%s': self %lld, not %lld ns", a->key, (long long)row->self_ns, (long long)self);
        shown++;
    }
    size_t memory = 0;
    for (size_t i = 0; i < mtp_averages_count(rows); i++)
        memory += strcmp(mtp_averages_row(rows, i)->key, "[memory]") == 0;
    assert_int_equal(shown, mtp_averages_count(rows) - memory);
    mtp_averages_destroy(rows);
    mtp_trace_destroy(trace);
}

static inline void assert_like_averages(const mtp_live *live, const char *path)
{
    assert_near_averages(live, path, 0);
}

/* ------------------------------------------------------------------------------------------ what is recorded */

static inline mtp_profile *start_into(const char *path, mtp_when_full policy)
{
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.when_full = policy;
    c.buffer_bytes = policy == MTP_STREAM ? 64 << 10 : 4 << 20;
    c.profile_memory = true;
    return test_start(&c);
}

static inline void stop(mtp_profile *prof)
{
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
}

static inline mtp_token begin(const char *name, mtp_scope_kind kind)
{
    mtp_op op = MTP_OP_INIT(mtp_name(name));
    op.kind = kind == MTP_SCOPE_STEP && strncmp(name, "ProfilerStep#", 13) != 0 ? MTP_SCOPE_OP : kind;
    mtp_op_begin(&op);
    return op.token;
}

/* Scopes of all kinds: nested, with only children of the same name, overlapping, recursive, with names that torch omits. */
static inline void record_some(unsigned n)
{
    static const char *const names[] = {"forward",       "aten::mm", "aten::add",
                                        "aten::is_leaf", "backward", "ProfilerStep#7"};
    mtp_token open[8];
    int depth = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned choice = (unsigned)test_below(12);
        if (choice < 5 && depth < 8) {
            open[depth] = begin(names[test_below(COUNT(names))], (mtp_scope_kind)test_below(8));
            depth++;
        } else if (choice < 9 && depth > 0) {
            mtp_scope_end(open[--depth]);
        } else if (choice == 9 && depth > 1) { /* out of order */
            mtp_scope_end(open[depth - 2]);
            open[depth - 2] = open[depth - 1];
            depth--;
        } else if (choice == 10) {
            mtp_token outer = begin("twice", MTP_SCOPE_OP), inner = begin("twice", MTP_SCOPE_OP);
            mtp_scope_end(inner);
            if (test_below(2) == 0)
                mtp_scope_end(begin("twice", MTP_SCOPE_OP));
            mtp_scope_end(outer);
        } else {
            char text[32];
            int length = snprintf(text, sizeof text, "made %u", (unsigned)test_below(40));
            mtp_scope_end(mtp_scope_begin_text(text, (size_t)length));
        }
    }
    while (depth > 0)
        mtp_scope_end(open[--depth]);
}
#endif
