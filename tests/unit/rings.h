/* tests/unit/rings.h - small rings that are filled many times over, and checks of what they hold. */
#ifndef TESTS_UNIT_RINGS_H
#define TESTS_UNIT_RINGS_H
#include "tests/test.h"
#include <pthread.h>
#include "base/clock.h"
#include "trace/trace.h"

#define RING ((uint64_t)1 << 20)
#define NEWEST 200 /* scopes recorded at the end: all must be kept */

static inline mtp_profile_config ring_config(bool file)
{
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = RING;
    c.chunk_bytes = 64 << 10;
    c.when_full = MTP_KEEP_NEWEST;
    c.acc_events = true;
    c.record_shapes = true;
    c.spool = file ? test_path("epochs.mtp") : NULL;
    return c;
}

static inline mtp_profile_config config_of(int policy)
{
    mtp_profile_config c = ring_config(policy == MTP_STREAM);
    c.when_full = (mtp_when_full)policy;
    return c;
}

static inline void scope_text(const char *format, unsigned long long number)
{
    char text[96];
    int n = snprintf(text, sizeof text, format, number);
    mtp_scope_end(mtp_scope_begin_text(text, (size_t)n));
}

static int64_t before[NEWEST], after[NEWEST];

static inline void newest_scopes(void)
{
    for (int i = 0; i < NEWEST; i++) {
        before[i] = (int64_t)mtp_now_ns();
        scope_text("the newest scope, number %llu", (unsigned long long)i);
        after[i] = (int64_t)mtp_now_ns();
    }
}

/* All spans have names, the newest are present, and their times match the clock: one offset fits all of
 * them, wherever the thread was preempted. */
static inline void check_trace(const mtp_trace *t)
{
    const int64_t slack = 1000000;
    int found = 0;
    int64_t least = INT64_MIN, most = INT64_MAX;
    assert_int_equal(t->clock_faults, 0);
    assert_int_equal(t->damaged_chunks, 0);
    for (uint32_t i = 0; i < t->span_count; i++) {
        const char *name = mtp__trace_get_text(t, t->name[i]).bytes;
        int n;
        if (strcmp(name, "?") == 0 || name[0] == 0)
            fail_msg("span %u has no name", i);
        if (sscanf(name, "the newest scope, number %d", &n) != 1)
            continue;
        found++;
        least = before[n] - t->start[i] > least ? before[n] - t->start[i] : least;
        most = after[n] - t->start[i] < most ? after[n] - t->start[i] : most;
        if (least > most + 2 * slack)
            fail_msg("scope %d: times are off by %lld ns", n, (long long)(least - most));
    }
    assert_int_equal(found, NEWEST);
}

/* Only evictions, as a ring should. */
static inline void check_evicted_only(mtp_profile *prof)
{
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.lost_definitions, 0);
    assert_int_equal(l.dropped, l.dropped_by[MTP_DROP_OVERWRITTEN]);
    assert_balanced(prof);
}

static inline void check_clean(const char *path)
{
    mtp_check *check;
    assert_ok(mtp_trace_check_file(path, NULL, &check));
    if (mtp_check_breaches(check) != 0)
        fail_msg("check: %s", mtp_check_finding(check, 0)->what);
    mtp_check_destroy(check);
}

/* Unique names, shapes, stacks and args: the chunk needs definitions of all kinds. */
static inline void record_details(int number, int round)
{
    char text[64];
    int64_t dims[2] = {number, round};
    mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    mtp_op op = MTP_OP_INIT(MTP_NAME("an idle op"));
    snprintf(text, sizeof text, "args of %d in %d", number, round);
    op.inputs = op.outputs = &in;
    op.input_count = op.output_count = 1;
    op.args = text;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    char name[64];
    int n = snprintf(name, sizeof name, "idle thread %d in round %d", number, round);
    mtp_scope_end(mtp_scope_begin_text(name, (size_t)n));
}
#endif
