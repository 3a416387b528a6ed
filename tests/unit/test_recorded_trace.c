/* Unit: trace/from_records, trace/from_device: from a recording to a trace: functions and scopes that do not
 * nest, device clocks, annotations on streams, device properties.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <unistd.h>
#include "base/clock.h"
#include "tests/test.h"
#include "trace/trace.h"

/* All readings differ: trees do not depend on the resolution of the machine's clock. */
static uint64_t stepping(void)
{
    static atomic_uint_fast64_t now;
    return atomic_fetch_add(&now, 1000) + 1000;
}

static mtp_trace *trace_of(mtp_profile *prof)
{
    mtp_trace *t;
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_profile_destroy(prof);
    return t;
}

static mtp_profile *start(void)
{
    mtp_profile_config c = test_config(NULL);
    return test_start(&c);
}

/* The nth span with this name; MTP__NONE: there are fewer. */
static uint32_t span_of(const mtp_trace *t, const char *name, uint32_t nth)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        if (strcmp(mtp__trace_get_text(t, t->name[i]).bytes, name) == 0 && nth-- == 0)
            return i;
    return MTP__NONE;
}

/* "outer[inner[] x[]] y[]": the spans of a track as a tree. */
static const char *tree_of(const mtp_trace *t, uint32_t track)
{
    static char text[1024];
    uint32_t open[32], depth = 0;
    size_t n = 0;
    text[0] = 0;
    for (uint32_t i = t->tracks[track].first; i < t->tracks[track].first + t->tracks[track].count; i++) {
        while (depth > 0 && open[depth - 1] != t->parent[i]) {
            n += (size_t)snprintf(text + n, sizeof text - n, "]");
            depth--;
        }
        assert_true(depth > 0 || t->parent[i] == MTP__NONE);
        if (depth > 0)
            assert_true(t->start[i] >= t->start[open[depth - 1]] && t->end[i] <= t->end[open[depth - 1]]);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s[", n > 0 && text[n - 1] == ']' ? " " : "",
                              mtp__trace_get_text(t, t->name[i]).bytes);
        open[depth++] = i;
    }
    while (depth-- > 0)
        n += (size_t)snprintf(text + n, sizeof text - n, "]");
    return text;
}

/* ----------------------------------------------------------------------------- functions and scopes */

static mtp_op call(const char *name)
{
    mtp_op op = MTP_OP_INIT(mtp_name(name));
    op.kind = MTP_SCOPE_PYTHON;
    mtp_op_begin(&op);
    return op;
}

static void nested_calls_and_scopes_stay_as_they_are(void **state)
{
    (void)state;
    mtp__clock_hook_set(stepping);
    mtp_profile *prof = start();
    mtp_op f = call("f");
    MTP_SCOPE ("scope") {
        mtp_op g = call("g");
        mtp_op_end(&g);
    }
    mtp_op_end(&f);
    mtp_trace *t = trace_of(prof);
    assert_string_equal(tree_of(t, 0), "f[scope[g[]]]");
    assert_int_equal(t->unmatched_ends + t->unfinished, 0);
    mtp_trace_destroy(t);
}

/* class Region: __enter__ begins a scope, __exit__ ends it. */
static void scopes_of_run_time_names_have_each_their_own(void **state)
{
    (void)state;
    static const char *const names[] = {"first", "second", NULL, "first"};
    mtp_profile *prof = start();
    for (size_t i = 0; i < COUNT(names); i++)
        MTP_SCOPE_TEXT(names[i])
        {
            MTP_SCOPE ("inside") {
                if (i == 1)
                    break;
            }
        }
    mtp_trace *t = trace_of(prof);
    assert_string_equal(tree_of(t, 0), "first[inside[]] second[inside[]] ?[inside[]] first[inside[]]");
    mtp_trace_destroy(t);
}

static void a_scope_outlives_the_functions_that_began_it(void **state)
{
    (void)state;
    mtp__clock_hook_set(stepping);
    mtp_profile *prof = start();
    mtp_op enter = call("__enter__"), inner = call("begin");
    mtp_token scope = mtp_scope_begin(MTP_NAME("scope"));
    mtp_op_end(&inner);
    mtp_op_end(&enter);
    MTP_SCOPE ("work") {
    }
    mtp_op leave = call("__exit__");
    mtp_scope_end(scope);
    mtp_op_end(&leave);
    MTP_SCOPE ("after") {
    }
    mtp_trace *t = trace_of(prof);
    assert_string_equal(tree_of(t, 0), "__enter__[begin[]] scope[work[]] __exit__[] after[]");
    assert_true(t->end[span_of(t, "begin", 0)] > t->start[span_of(t, "scope", 0)]);
    assert_true(t->end[span_of(t, "scope", 0)] > t->start[span_of(t, "__exit__", 0)]);
    assert_int_equal(t->unmatched_ends + t->unfinished, 0);
    mtp_trace_destroy(t);
}

/* A step that ends inside them: each still counts as one call. */
static void calls_that_outlast_the_scope_around_them_are_whole(void **state)
{
    (void)state;
    enum {
        ROUNDS = 5000,
        DEEP = 6
    };
    mtp_profile *prof = start();
    for (int i = 0; i < ROUNDS; i++) {
        mtp_token scope = mtp_scope_begin(MTP_NAME("scope"));
        mtp_op calls[DEEP];
        for (int k = 0; k < DEEP; k++)
            calls[k] = call("f");
        mtp_scope_end(scope);
        for (int k = DEEP; k-- > 0;)
            mtp_op_end(&calls[k]);
        MTP_SCOPE ("plain") {
        }
    }
    mtp_trace *t = trace_of(prof);
    assert_int_equal(t->span_count, ROUNDS * (2 + DEEP));
    assert_int_equal(t->unmatched_ends + t->unfinished, 0);
    for (uint32_t i = 1; i < t->span_count; i++)
        assert_true(t->start[i] >= t->start[i - 1] && t->end[i] >= t->start[i]);
    assert_int_not_equal(span_of(t, "f", ROUNDS * DEEP - 1), MTP__NONE);
    assert_int_equal(span_of(t, "f", ROUNDS * DEEP), MTP__NONE);
    mtp_trace_destroy(t);
}

static void a_call_that_nobody_began_is_counted(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    mtp_op f = call("f"), again = f;
    mtp_op_end(&f);
    mtp_op_end(&again);
    MTP_SCOPE ("scope") {
    }
    mtp_trace *t = trace_of(prof);
    assert_string_equal(tree_of(t, 0), "f[] scope[]");
    assert_int_equal(t->unmatched_ends, 1);
    mtp_trace_destroy(t);
}

/* ---------------------------------------------------------------------------------------- device work */

static uint64_t launch(void)
{
    mtp_op op = MTP_OP_INIT(MTP_NAME("launch"));
    op.kind = MTP_SCOPE_RUNTIME;
    op.correlation = mtp_correlation_next();
    mtp_op_begin(&op);
    mtp_op_end(&op);
    return op.correlation;
}

static void ran(uint64_t stream, uint64_t correlation, uint64_t start_ns, uint64_t end_ns)
{
    mtp_device_work k = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
    k.stream = stream;
    k.correlation = correlation;
    k.start = start_ns;
    k.end = end_ns;
    k.clock = MTP_CLOCK_MONOTONIC;
    mtp_device_event(&k);
}

static void annotations_last_from_the_first_to_the_last_of_their_work(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    uint64_t now = mtp_now_ns() + 1000000, id[5];
    MTP_SCOPE ("outer") {
        id[0] = launch();
        MTP_SCOPE ("inner") {
            mtp_op op = MTP_OP_INIT(MTP_NAME("aten::add"));
            mtp_op_begin(&op);
            id[1] = launch();
            mtp_op_end(&op);
            id[2] = launch();
        }
    }
    MTP_SCOPE ("idle") {
    }
    id[3] = launch();
    ran(0, id[1], now + 10,
        now + 20); /* reported in any order: the middle first, then those after and before it */
    ran(0, id[2], now + 30, now + 40);
    ran(0, id[0], now, now + 10);
    ran(7, id[2], now + 5, now + 6);
    ran(0, id[3], now + 50, now + 60);
    mtp_trace *t = trace_of(prof);
    assert_int_equal(t->track_count, 3);
    assert_string_equal(tree_of(t, 1), "outer[kernel[] inner[kernel[] kernel[]]] kernel[]");
    assert_string_equal(tree_of(t, 2), "outer[inner[kernel[]]]");
    uint32_t shadow = span_of(t, "outer", 1);
    assert_int_equal(t->category[shadow], MTP__CATEGORY_GPU_USER_ANNOTATION);
    assert_int_equal(t->end[shadow] - t->start[shadow], 40);
    assert_int_equal(t->launcher[shadow], span_of(t, "outer", 0));
    assert_int_equal(mtp__trace_external_id(t, shadow), span_of(t, "outer", 0) + 1);
    assert_int_equal(span_of(t, "idle", 1), MTP__NONE);
    mtp_trace_destroy(t);
}

/* HTA treats stream 0 as no stream. */
static void the_default_stream_has_a_number_of_its_own(void **state)
{
    (void)state;
    static const struct {
        uint64_t others[3];
        int64_t number;
    } cases[] = {{{1, 2, 3}, 7}, {{0, 0, 0}, 7}, {{6, 7, 9}, 8}, {{7, 8, 9}, 10}, {{UINT64_MAX, 8, 7}, 9}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mtp_profile *prof = start();
        uint64_t now = mtp_now_ns();
        ran(0, 0, now, now + 10);
        for (int i = 0; i < 3; i++)
            for (uint64_t k = 0; k < 3; k++)
                ran(cases[c].others[i], 0, now + 100 * k, now + 100 * k + 10);
        mtp_trace *t = trace_of(prof);
        int found = 0;
        for (uint32_t k = 0; k < t->track_count; k++) {
            assert_true(!t->tracks[k].on_device || t->tracks[k].tid != 0);
            found += t->tracks[k].on_device && t->tracks[k].tid == cases[c].number;
        }
        assert_int_equal(found, 1);
        mtp_trace_destroy(t);
    }
}

static void annotations_that_the_program_reports_are_the_only_ones(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    MTP_SCOPE ("scope") {
        ran(0, launch(), mtp_now_ns(), mtp_now_ns() + 10);
    }
    mtp_device_work own = MTP_DEVICE_WORK_INIT(MTP_NAME("own"), MTP_DEVICE_NPU(0));
    own.kind = MTP_DEVICE_ANNOTATION;
    mtp_device_event(&own);
    mtp_trace *t = trace_of(prof);
    assert_int_equal(span_of(t, "scope", 1), MTP__NONE);
    assert_int_not_equal(span_of(t, "own", 0), MTP__NONE);
    mtp_trace_destroy(t);
}

/* Two devices whose clocks run at different rates, with many readings: each time is interpolated between
 * two of them. */
static void a_devices_times_go_through_the_readings_around_them(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    uint64_t zero = mtp_ticks(), step = 1u << 20;
    for (unsigned i = 0; i < 1000; i++)
        for (unsigned d = 0; d < 2; d++)
            mtp_device_clock(MTP_DEVICE_NPU(d), (d + 1) * 1000000u * i, zero + step * i,
                             100 * (d + 1) + i % 3);
    mtp_device_work k = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
    k.clock = MTP_CLOCK_DEVICE;
    for (unsigned d = 0; d < 2; d++) {
        k.device = MTP_DEVICE_NPU(d);
        k.start = (d + 1) * 500500000u; /* half between two readings */
        k.end = (d + 1) * 501000000u;   /* on one */
        mtp_device_event(&k);
    }
    mtp_device_work twin = MTP_DEVICE_WORK_INIT(MTP_NAME("twin"), MTP_DEVICE_NPU(0));
    twin.start = zero + 500 * (uint64_t)step + step / 2;
    twin.end = zero + 501 * (uint64_t)step;
    mtp_device_event(&twin);
    mtp_trace *t = trace_of(prof);
    uint32_t same = span_of(t, "twin", 0);
    for (unsigned d = 0; d < 2; d++) {
        uint32_t span = span_of(t, "kernel", d);
        assert_true(llabs(t->start[span] - t->start[same]) <= 2 && llabs(t->end[span] - t->end[same]) <= 2);
    }
    assert_int_equal(t->clock_count, 2);
    for (unsigned d = 0; d < 2; d++) {
        assert_int_equal(t->clocks[d].device, MTP_DEVICE_NPU(d) & 0xffff);
        assert_int_equal(t->clocks[d].points, 1000);
        assert_int_equal(t->clocks[d].error_ns, 100 * (d + 1) + 2);
    }
    mtp_trace_destroy(t);
}

static void devices_say_what_they_are(void **state)
{
    (void)state;
    mtp_device_info info = MTP_DEVICE_INFO_INIT;
    info.name = "A \"fast\" one";
    info.memory_bytes = 1u << 30;
    info.compute_units = 132;
    mtp_device_describe(MTP_DEVICE_NPU(1), &info); /* nothing is recorded yet: no effect */
    mtp_profile *prof = start();
    mtp_device_describe(MTP_DEVICE_NPU(1), &info);
    mtp_device_describe(MTP_DEVICE_NPU(0), &info);
    info.name = "slow";
    info.memory_bytes = 0;
    mtp_device_describe(MTP_DEVICE_NPU(0), &info); /* the last word holds */
    mtp__device_describe(MTP_DEVICE_NPU(2), NULL);
    info.size = 1;
    mtp_device_describe(MTP_DEVICE_NPU(2), &info);
    ran(0, 0, mtp_now_ns(), mtp_now_ns());
    mtp_trace *t = trace_of(prof);
    const char *found = NULL;
    for (uint32_t i = 0; i < t->metadata_count; i++)
        if (strcmp(mtp__trace_get_text(t, t->metadata[i].key).bytes, "deviceProperties") == 0)
            found = mtp__trace_get_text(t, t->metadata[i].json).bytes;
    assert_string_equal(found, "[{\"id\": 0, \"name\": \"slow\", \"numSms\": 132}, {\"id\": 1, \"name\": \"A "
                               "\\\"fast\\\" one\", \"totalGlobalMem\": 1073741824, \"numSms\": 132}]");
    mtp_trace_destroy(t);
}

static void work_of_a_scope_in_an_op_is_the_ops_also_when_it_is_read_again(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    mtp_op op = MTP_OP_INIT(MTP_NAME("aten::outer"));
    uint64_t id = 0, at = mtp_now_ns() + 1000000;
    mtp_op_begin(&op);
    MTP_SCOPE ("inner") {
        id = launch();
    }
    mtp_op_end(&op);
    ran(0, id, at, at + 591);
    mtp_trace *t = trace_of(prof), *again;
    const char *path = test_path("again.json");
    assert_ok(mtp_trace_export(t, path, NULL));
    assert_ok(mtp_trace_open(path, NULL, &again));
    for (int k = 0; k < 2; k++) {
        mtp_trace *from = k == 0 ? t : again;
        mtp_averages *rows;
        uint32_t call = span_of(from, "launch", 0);
        assert_int_equal(from->launcher[span_of(from, "kernel", 0)], span_of(from, "aten::outer", 0));
        assert_int_equal(mtp__trace_external_id(from, call),
                         mtp__trace_external_id(from, span_of(from, "aten::outer", 0)));
        assert_ok(mtp_averages_create(from, NULL, &rows));
        const mtp_row *row = NULL;
        for (size_t i = 0; i < mtp_averages_count(rows); i++)
            if (strcmp(mtp_averages_row(rows, i)->key, "inner") == 0 &&
                mtp_averages_row(rows, i)->self_device_time_total > 0)
                row = mtp_averages_row(rows, i); /* on the device: not trimmed like Kineto's */
        assert_non_null(row);
        assert_true(row->self_device_time_total == 0.591);
        mtp_averages_destroy(rows);
        mtp_trace_destroy(from);
    }
}

static uint64_t now = 1000000;

static uint64_t frozen(void)
{
    return now;
}

static void no_failure_leaks(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    mtp_device_info info = MTP_DEVICE_INFO_INIT;
    info.name = "device";
    MTP_SCOPE ("scope") {
        ran(0, launch(), mtp_now_ns(), mtp_now_ns() + 10);
        mtp_device_describe(MTP_DEVICE_NPU(0), &info);
        mtp_device_clock(MTP_DEVICE_NPU(0), 1, mtp_ticks(), 1);
    }
    mtp__clock_hook_set(frozen); /* so that the crossing scopes must be swapped */
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_start(prof));
    ran(0, launch(), 10, 20);
    mtp_token a = mtp_scope_begin(MTP_NAME("a")), b = mtp_scope_begin(MTP_NAME("b"));
    mtp_scope_end(a);
    now += 1000;
    mtp_scope_end(b);
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    for (int nth = 1, fired = 1; fired > 0; nth++) {
        mtp_trace *t = NULL;
        long live = mtp__alloc_live();
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, false);
        mtp_status status = mtp_profile_trace(prof, &t);
        fired = mtp__fault_stop();
        assert_int_equal(status, fired > 0 ? MTP_E_NOMEM : MTP_OK);
        mtp_trace_destroy(t);
        assert_int_equal(mtp__alloc_live(), live);
    }
    mtp_profile_destroy(prof);
}

/* mtp_name() returns 0 for a name that it could not keep; tables and exports then agree on the name. */
static void what_has_no_name_is_called_so(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    assert_int_equal(mtp_name(NULL) + mtp_name_n(NULL, 5), 0);
    mtp_scope_end(mtp_scope_begin(0));
    mtp_scope_end(mtp_scope_begin(0x7fffffff));
    mtp_trace *t = trace_of(prof);
    assert_int_equal(t->span_count, 2);
    assert_int_equal(span_of(t, "?", 1), 1);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------ times */

static atomic_uint_fast64_t wide_now;

static uint64_t wide(void)
{
    return atomic_fetch_add(&wide_now, 100);
}

/* Records have the lower 56 bits of a tick. They overflow within the recording, and within a chunk. */
static void ticks_are_whole_again_when_their_lower_bits_overflow(void **state)
{
    (void)state;
    for (uint64_t before = 1000; before <= 300000; before += 13000) {
        atomic_store(&wide_now, ((uint64_t)3 << 56) - before);
        mtp__clock_hook_set(wide);
        mtp_profile_config c = test_config(NULL);
        c.chunk_bytes = 4096;
        mtp_profile *prof = test_start(&c);
        for (int i = 0; i < 1000; i++) {
            MTP_SCOPE ("scope") {
                mtp_mark(MTP_NAME("mark"));
            }
        }
        mtp_trace *t = trace_of(prof);
        assert_int_equal(t->span_count, 1000);
        assert_int_equal(t->clock_faults, 0);
        for (uint32_t i = 0; i < 1000; i++) { /* a tick is a ns here */
            assert_in_range(t->end[i] - t->start[i], 200,
                            5000); /* a new chunk also reads the clock, an anchor often */
            assert_in_range(t->start[i], i > 0 ? t->end[i - 1] + 100 : 0, 400000);
        }
        assert_in_range(t->last_ns, t->end[999], 400000);
        mtp_trace_destroy(t);
    }
}

/* The offset of the nth data chunk handed out, from 0, in a spool with chunks of 4 KiB. */
static mtp__chunk *data_chunk(char *bytes, size_t length, uint64_t nth)
{
    uint64_t last = 0;
    for (;;) {
        mtp__chunk *found = NULL;
        for (size_t at = 4096; at + 4096 <= length; at += 4096) {
            mtp__chunk *c = (mtp__chunk *)(void *)(bytes + at);
            if (c->order != 0 && c->stream != 0 && c->order > last &&
                (found == NULL || c->order < found->order))
                found = c;
        }
        assert_non_null(found);
        last = found->order;
        if (nth-- == 0)
            return found;
    }
}

/* A scope ends in a chunk that is lost, and another begins there at the same depth: the end after the gap
 * is not that of the first. */
static void what_was_open_before_a_lost_chunk_is_not_ended_after_it(void **state)
{
    (void)state;
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s", test_path("gap.mtp"));
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    c.chunk_bytes = 4096;
    mtp_profile *prof = test_start(&c);
    mtp_token before = mtp_scope_begin(MTP_NAME("before the gap"));
    for (int i = 0; i < 350; i++) /* 502 words a chunk, marks take 2: into the second */
        mtp_mark(MTP_NAME("mark"));
    mtp_scope_end(before);
    mtp_token after = mtp_scope_begin(MTP_NAME("begun in the gap"));
    for (int i = 0; i < 300; i++) /* into the third */
        mtp_mark(MTP_NAME("mark"));
    mtp_scope_end(after);
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    char *bytes = test_slurp(path, &length);
    mtp__chunk *lost = data_chunk(bytes, length, 1);
    assert_int_equal(lost->depth, data_chunk(bytes, length, 2)->depth);
    mtp__chunk_words(lost)[7] ^= 1;
    test_spew(path, bytes, length);
    free(bytes);
    mtp_trace *t;
    assert_ok(mtp_trace_open(path, NULL, &t));
    assert_int_equal(t->damaged_chunks, 1);
    assert_int_equal(t->unmatched_ends, 1);
    assert_int_equal(t->unfinished, 1);
    uint32_t span = span_of(t, "before the gap", 0);
    assert_int_not_equal(span, MTP__NONE);
    assert_true((t->flags[span] & MTP__SPAN_UNFINISHED) != 0);
    mtp_trace_destroy(t);
}

/* ---------------------------------------------------------------------------- counted instead of kept */

static void one_odd_record(mtp_token *open, size_t *count)
{
    static char block;
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    switch (test_below(8)) {
    case 0:
        mtp_mark(MTP_NAME("mark"));
        break;
    case 1:
        mtp_counter(MTP_NAME("counter"), 1);
        break;
    case 2:
        mtp_memory_event(MTP_DEVICE_CPU, &block, 64, 64, 64);
        break;
    case 3:
        op.sequence = (int64_t)test_below(5);
        op.args = "\"x\": 1";
        mtp_op_begin(&op);
        mtp_op_end(&op);
        break;
    case 4:
        if (*count > 0) { /* any order: they need not nest */
            size_t which = test_below(*count);
            mtp_scope_end(open[which]);
            open[which] = open[--*count];
        }
        break;
    default:
        if (*count < 40)
            open[(*count)++] = mtp_scope_begin(MTP_NAME("scope"));
        else
            mtp_scope_end(open[--*count]);
    }
}

static void record_odd(const char *path, int records, bool device)
{
    mtp_profile_config c = test_config(NULL);
    mtp_token open[40];
    size_t count = 0;
    c.spool = path;
    c.chunk_bytes = 4096;
    c.when_full = MTP_STREAM;
    c.profile_memory = true;
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < records; i++) {
        one_odd_record(open, &count);
        if (i % 1000 == 0)
            mtp_profile_step(prof);
    }
    if (device) {
        mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
        work.clock = MTP_CLOCK_TICKS;
        work.start = mtp_ticks();
        work.end = work.start + 50;
        mtp_device_event(&work);
    }
    assert_ok(mtp_profile_stop(prof)); /* some are left open */
    mtp_profile_destroy(prof);
}

static void a_file_that_is_counted_has_the_numbers_of_one_that_is_kept(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("counted.mtp"));
    for (int round = 0; round < 6; round++) {
        mtp_trace *t;
        mtp_trace_info kept = MTP_TRACE_INFO_INIT, counted = MTP_TRACE_INFO_INIT;
        record_odd(path, round < 5 ? 1 << (3 * round) : 30000, round == 5);
        assert_ok(mtp_trace_open(path, NULL, &t));
        assert_ok(mtp_trace_get_info(t, &kept));
        mtp_trace_destroy(t);
        assert_ok(mtp_trace_file_info(path, NULL, &counted));
        if (round != 5)
            assert_in_range(counted.model_bytes, kept.model_bytes, kept.model_bytes * 2);
        kept.model_bytes = counted.model_bytes;
        assert_memory_equal(&kept, &counted, sizeof kept);
        unlink(path);
    }
    mtp_trace_info bad = MTP_TRACE_INFO_INIT;
    bad.size = 3;
    record_odd(path, 10, false);
    assert_int_equal(mtp_trace_file_info(path, NULL, &bad), MTP_E_ABI);
    assert_int_equal(mtp_trace_file_info(path, NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_trace_file_info(NULL, NULL, &bad), MTP_E_ARG);
}

static void counting_takes_little_memory_however_long_the_recording(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("long.mtp"));
    record_odd(path, 400000, false);
    mtp_trace *t;
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    options.max_memory = (uint64_t)6 << 20;
    assert_int_equal(mtp_trace_open(path, &options, &t), MTP_E_NOMEM);
    assert_ok(mtp_trace_file_info(path, &options, &info));
    assert_true(info.spans > 100000 && info.instants > 50000 && info.memory_events > 20000);
}

static void *record_late(void *arg)
{
    pthread_barrier_t *turn = arg;
    MTP_SCOPE ("first of another thread") {
    }
    pthread_barrier_wait(turn); /* the budget is spent meanwhile */
    pthread_barrier_wait(turn);
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    MTP_SCOPE ("last of another thread") { /* in the chunk that it still holds */
    }
    return NULL;
}

/* There is no room for a thread's end, while another thread continues for long: the span ends with the
 * last record of its thread. */
static void a_span_whose_end_found_no_room_does_not_last_to_the_end(void **state)
{
    (void)state;
    pthread_barrier_t turn;
    pthread_t other;
    pthread_barrier_init(&turn, NULL, 2);
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 16 * 4096;
    c.chunk_bytes = 4096;
    mtp_profile *prof = test_start(&c);
    pthread_create(&other, NULL, record_late, &turn);
    pthread_barrier_wait(&turn);
    for (int i = 0; i < 20000; i++)
        MTP_SCOPE ("outer")
            MTP_SCOPE ("inner") {
            }
    pthread_barrier_wait(&turn);
    pthread_join(other, NULL);
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    assert_true(t->ledger.dropped_by[MTP_DROP_BUDGET] > 0);
    assert_int_not_equal(span_of(t, "last of another thread", 0), MTP__NONE);
    int64_t late = t->start[span_of(t, "last of another thread", 0)];
    for (uint32_t i = 0; i < t->span_count; i++)
        if (mtp__trace_get_text(t, t->name[i]).length == 5)
            assert_true(t->end[i] < late);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
    pthread_barrier_destroy(&turn);
}

/* Running out of memory while building a trace is an error, never an incomplete trace. */
static void a_trace_is_whole_or_an_error(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = true;
    mtp_profile *prof = test_start(&c);
    for (int64_t i = 0; i < 20; i++) {
        char text[32];
        mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 1, .dims = &i};
        mtp_op op = MTP_OP_INIT(MTP_NAME("an op"));
        op.inputs = &in;
        op.input_count = 1;
        snprintf(text, sizeof text, "args %d", (int)i);
        op.args = text;
        mtp_op_begin(&op);
        mtp_op_end(&op);
    }
    assert_ok(mtp_profile_stop(prof));
    int nth = 1;
    for (int fired = 1; fired > 0; nth++) {
        mtp_trace *t = NULL;
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, false);
        mtp_status status = mtp_profile_trace(prof, &t);
        fired = mtp__fault_stop();
        assert_true(status == MTP_OK || (status == MTP_E_NOMEM && fired > 0));
        for (uint32_t i = 0; t != NULL && i < t->span_count; i++) {
            const mtp__detail *d = &t->details[t->detail[i]];
            assert_string_equal(mtp__trace_get_text(t, t->name[i]).bytes, "an op");
            assert_true(d->shape != 0 && d->args != 0);
        }
        mtp_trace_destroy(t);
    }
    assert_true(nth > 20);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nested_calls_and_scopes_stay_as_they_are),
        TEST(scopes_of_run_time_names_have_each_their_own),
        TEST(a_scope_outlives_the_functions_that_began_it),
        TEST(calls_that_outlast_the_scope_around_them_are_whole),
        TEST(a_call_that_nobody_began_is_counted),
        TEST(annotations_last_from_the_first_to_the_last_of_their_work),
        TEST(the_default_stream_has_a_number_of_its_own),
        TEST(annotations_that_the_program_reports_are_the_only_ones),
        TEST(a_devices_times_go_through_the_readings_around_them),
        TEST(devices_say_what_they_are),
        TEST(work_of_a_scope_in_an_op_is_the_ops_also_when_it_is_read_again),
        TEST(no_failure_leaks),
        TEST(a_trace_is_whole_or_an_error),
        TEST(what_has_no_name_is_called_so),
        TEST(ticks_are_whole_again_when_their_lower_bits_overflow),
        TEST(a_span_whose_end_found_no_room_does_not_last_to_the_end),
        TEST(what_was_open_before_a_lost_chunk_is_not_ended_after_it),
        TEST(a_file_that_is_counted_has_the_numbers_of_one_that_is_kept),
        TEST(counting_takes_little_memory_however_long_the_recording),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
