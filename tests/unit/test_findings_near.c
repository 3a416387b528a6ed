/* Unit: analyze/findings: what is just not enough to be told, rule by rule; and the texts: budgets, evidence, instants. */
#include "made_findings.h"

/* ----------------------------------------------------------------------------------------------- the host */

static void two_batches_say_nothing_about_a_loader(void **state)
{
    (void)state;
    for (int64_t batches = 2; batches <= 3; batches++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0; i < 10; i++) {
            if (i < batches)
                made_scope(t, thread, i * 1000 * US, (i * 1000 + 900) * US, "enumerate(DataLoader)#x");
            made_op(t, thread, (i * 1000 + 900) * US, (i * 1000 + 1000) * US, "aten::mm");
        }
        made_end(t);
        if (batches == 3)
            assert_found(t, "data-loading");
        else
            assert_silent(t, "data-loading");
    }
}

/* `count` steps of 1 ms, of which those of `late` (up to -1) take 5 ms more each, and the first one of these 9: in a second op,
 * those of a DataLoader in its scope, `scale` times as much, "" in nothing. */
static mtp_trace *scaled_late(int count, const int *late, const char *what, int64_t scale)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    int64_t at = 0;
    for (int i = 0, k = 0; i < count; i++) {
        bool is_late = late[k] == i, loads = strncmp(what, "enumerate", 9) == 0;
        int64_t more = is_late ? k == 0 ? 9000 : 5000 : 0;
        more *= loads ? scale : 1;
        k += is_late;
        made_step(t, thread, i, at, at + 1000 + i % 3 + more);
        if (loads)
            made_scope(t, thread, at * US, (at + 50 + more) * US, what);
        made_op(t, thread, (at + 50 + (loads ? more : 0)) * US, (at + 990 + (loads ? more : 0)) * US,
                "aten::mm");
        if (is_late && !loads && what[0] != 0)
            made_op(t, thread, (at + 990) * US, (at + 990 + more) * US, what);
        at += 1000 + i % 3 + more;
    }
    return made_end(t);
}

static mtp_trace *with_late(int count, const int *late, const char *what)
{
    return scaled_late(count, late, what, 1);
}

/* An evaluation or a checkpoint is meant to be there. */
static void what_comes_every_tenth_step_is_a_note(void **state)
{
    (void)state;
    const int every[] = {9, 19, 29, 39, -1}, missed[] = {9, 19, 39, 49, -1}, twice[] = {9, 19, -1},
              any[] = {4, 9, 22, 39, -1}, even[] = {4, 8, 32, -1};
    mtp_trace *t = with_late(41, every, "evaluate");
    mtp_findings *f = findings_of(t);
    int at = place_of(f, "periodic-steps");
    assert_true(at >= 0 && place_of(f, "outlier-steps") < 0);
    const mtp_finding_row *r = mtp_findings_row(f, (size_t)at);
    assert_int_equal(r->kind, MTP_FINDING_NOTE);
    assert_int_equal(r->gain_ns, 0);
    assert_string_equal(r->title.bytes, "Every 10th step takes 6.00 ms longer: 37% of the time");
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
    assert_found(with_late(60, missed, "evaluate"), "periodic-steps");
    assert_first(with_late(60, twice, "evaluate"), "outlier-steps", 14000);
    assert_first(with_late(60, any, "evaluate"), "outlier-steps", 24000);
    assert_first(with_late(60, even, "evaluate"), "outlier-steps", 19000);
}

static void the_longest_steps_are_named(void **state)
{
    (void)state;
    const int any[] = {14, 19, 22, 25, 39, -1};
    mtp_trace *t = with_late(60, any, "evaluate");
    mtp_findings *f = findings_of(t);
    const char *text = mtp_findings_row(f, 0)->text.bytes;
    assert_non_null(strstr(text, "Step 14 took"));
    assert_non_null(strstr(text, "So did 2 more, by less."));
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

/* Workers that start at each epoch: nothing runs, or ops that make the batch. */
static void a_step_that_waits_for_a_batch_is_told_so(void **state)
{
    (void)state;
    const char *workers = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
               *single = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    const int any[] = {13, 26, -1}, none[] = {-1};
    mtp_trace *t = scaled_late(40, any, workers, 3);
    mtp_findings *f = findings_of(t);
    assert_int_equal(place_of(f, "slow-batches"), 0);
    const mtp_finding_row *r = mtp_findings_row(f, 0);
    assert_string_equal(r->title.bytes, "2 of 40 steps wait 21.0 ms longer on average for the DataLoader");
    assert_non_null(strstr(r->text.bytes,
                           "Step 13 took 28.0 ms, 27.0 ms more than usual: 27.0 ms more in the DataLoader."));
    assert_non_null(strstr(r->advice.bytes, "persistent_workers=True"));
    assert_true(place_of(f, "outlier-steps") < 0 && place_of(f, "noisy-steps") < 0);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
    assert_first(scaled_late(40, any, single, 12), "slow-batches", 168000);
    assert_silent(scaled_late(40, any, single, 3), "slow-batches"); /* the same work: the machine was busy */
    assert_found(scaled_late(40, any, single, 3), "noisy-steps");
    assert_silent(with_late(40, any, workers), "slow-batches"); /* a worker had to wait for a processor */
    assert_silent(with_late(40, none, workers), "slow-batches");
    assert_silent(with_late(40, any, "evaluate"), "slow-batches");
}

/* Under `mtprof run` a program has one step, unless it calls step(): what precedes its first op is how it starts. */
static void how_a_program_starts_is_no_part_of_what_it_does(void **state)
{
    (void)state;
    for (int steps = 1; steps <= 2; steps++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        made_step(t, thread, 1, 0, 1000000);
        if (steps > 1)
            made_step(t, thread, 2, 1000000, 2000000);
        made_span(t, thread, 0, 900000 * US, "import torch", MTP__CATEGORY_PYTHON_FUNCTION);
        made_span(t, thread, 100000 * US, 800000 * US, "Python GC", MTP__CATEGORY_PYTHON_FUNCTION);
        for (int64_t i = 0; i < 90 + (steps > 1 ? 1000 : 0); i++)
            made_op(t, thread, (910000 + i * 1000) * US, (911000 + i * 1000) * US,
                    i % 2 ? "aten::mm" : "aten::add");
        mtp_findings *f = findings_of(made_end(t));
        mtp_findings_summary s = MTP_FINDINGS_SUMMARY_INIT;
        assert_ok(mtp_findings_get_summary(f, &s));
        assert_int_equal(s.whole_ns, steps == 1 ? 90000 * US : 2000000 * US);
        assert_int_equal(s.steps, steps == 1 ? 0 : 2);
        assert_int_equal(place_of(f, "garbage-collection") >= 0, steps > 1);
        assert_int_equal(place_of(f, "host-idle") >= 0, steps > 1);
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* Ops of 1 ms, and one gap. */
static mtp_trace *one_gap(int64_t ms)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0; i < 100; i++)
        made_op(t, thread, (i + (i >= 50 ? ms : 0)) * 1000 * US, (i + 1 + (i >= 50 ? ms : 0)) * 1000 * US,
                i % 2 ? "aten::add" : "aten::mul");
    return made_end(t);
}

static void one_gap_alone_is_told_if_it_is_long(void **state)
{
    (void)state;
    assert_found(one_gap(60), "host-idle");
    assert_silent(one_gap(40), "host-idle");
}

static void three_percent_in_the_collector_are_told(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0; i < 10; i++) {
        made_op(t, thread, i * 1000 * US, (i * 1000 + 970) * US, "aten::mm");
        made_span(t, thread, (i * 1000 + 970) * US, (i * 1000 + 1000) * US, "Python GC",
                  MTP__CATEGORY_PYTHON_FUNCTION);
    }
    made_op(t, thread, 10000 * US, 10001 * US, "aten::mm");
    assert_first(made_end(t), "garbage-collection", 300);
}

static void casts_while_a_batch_is_made_belong_to_the_loader(void **state)
{
    (void)state;
    for (int loads = 0; loads < 2; loads++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0; i < 20; i++) {
            made_scope(t, thread, i * 1000 * US, (i * 1000 + 500) * US,
                       loads ? "enumerate(DataLoader)#x" : "a scope");
            made_shaped(t, thread, i * 1000 + 1, i * 1000 + 499, "aten::_to_copy", "[[64, 64], []]",
                        "[\"float\", \"Scalar\"]", "[\"\", \"7\"]");
            made_op(t, thread, (i * 1000 + 500) * US, (i * 1000 + 1000) * US, "aten::mm");
        }
        made_end(t);
        if (loads)
            assert_silent(t, "casts");
        else
            assert_found(t, "casts");
    }
}

static void one_long_call_is_no_imbalance(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0, at = 0; i < 10; i++) {
        int64_t backward = i == 4 ? 9000 : 200;
        made_autograd(t, thread, at * US, (at + 100) * US, "aten::index", i, 0);
        made_autograd(t, thread, (at + 100) * US, (at + 100 + backward) * US, "IndexBackward0", i, 7);
        at += 100 + backward;
    }
    assert_silent(made_end(t), "backward-imbalance");
}

/* --------------------------------------------------------------------------------------------------- memory */

static void memory_that_grows_now_and_then_is_no_leak(void **state)
{
    (void)state;
    for (int every = 1; every <= 2; every++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0; i < 14; i++) {
            made_step(t, thread, (int)i, i * 1000, i * 1000 + 1000);
            made_op(t, thread, (i * 1000 + 10) * US, (i * 1000 + 900) * US, "aten::mm");
            if (i % every == 0)
                made_memory(t, thread, (i * 1000 + 20) * US, 4096 + (uint64_t)i, 64 << 10);
        }
        made_end(t);
        if (every == 1)
            assert_found(t, "memory-growth");
        else
            assert_silent(t, "memory-growth");
    }
}

/* Every fourth step does four batches: no op alone makes up half of what it takes longer, all together do. */
static void steps_that_do_more_of_everything_are_told(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0, at = 0; i < 21; i++) {
        int64_t from = at;
        for (int64_t k = 0, batches = i % 4 == 3 ? 4 : 1; k < batches; k++) {
            made_op(t, thread, at * US, (at + 450) * US, "aten::mm");
            made_op(t, thread, (at + 450) * US, (at + 750) * US, "aten::addmm");
            made_op(t, thread, (at + 750) * US, (at + 1000) * US, "aten::sqrt");
            at += 1000;
        }
        made_step(t, thread, (int)i, from, at += i % 3);
    }
    mtp_findings *f = findings_of(made_end(t));
    int place = place_of(f, "periodic-steps");
    assert_true(place >= 0);
    assert_non_null(strstr(mtp_findings_row(f, (size_t)place)->title.bytes, "Every 4th step"));
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

/* The first use of a module imports it: nothing to be won. */
static void an_import_between_ops_is_not_told_as_idle(void **state)
{
    (void)state;
    for (int imports = 0; imports <= 1; imports++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        made_op(t, thread, 0, 100000 * US, "aten::mm");
        made_span(t, thread, 100000 * US, 160000 * US,
                  imports ? "<frozen importlib._bootstrap>(233): _call_with_frames_removed"
                          : "train.py(7): wait",
                  MTP__CATEGORY_PYTHON_FUNCTION);
        made_span(t, thread, 100001 * US, 159999 * US, "optim/__init__.py(1): <module>",
                  MTP__CATEGORY_PYTHON_FUNCTION);
        made_op(t, thread, 160000 * US, 300000 * US, "aten::mm");
        mtp_findings *f = findings_of(made_end(t));
        int place = place_of(f, "host-idle");
        assert_int_equal(place >= 0, !imports);
        if (!imports) /* the innermost is named; and where it is, once */
            assert_non_null(strstr(mtp_findings_row(f, (size_t)place)->text.bytes,
                                   "in optim/__init__.py(1): <module>, 60.0 ms."));
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* Cycles of a schedule: between them nothing is recorded. jump: the number by which the second cycle is ahead. */
static mtp_trace *cycles(int jump, bool device)
{
    mtp_trace *t = made_begin();
    gpu g = {.t = t, .thread = made_thread(t, 7)};
    if (device)
        g.stream = made_stream(t, 0, 7);
    for (int64_t i = 0; i < 12; i++) {
        int64_t at = i * 1000 + (i >= 6 ? 60000 : 0);
        made_step(t, g.thread, (int)i + (i >= 6 ? jump : 0), at, at + 999);
        made_op(t, g.thread, at * US, (at + 990) * US, "aten::mm");
        if (device)
            made_kernel(&g, at + 1, at + 10, at + 980, "gemm");
    }
    return made_end(t);
}

static void time_between_the_cycles_of_a_schedule_is_not_examined(void **state)
{
    (void)state;
    for (int device = 0; device <= 1; device++) {
        const char *id = device ? "device-idle-host" : "host-idle";
        assert_found(cycles(0, device), id);
        assert_silent(cycles(40, device), id);
        assert_silent(cycles(-6, device), id); /* numbered anew */
        mtp_trace *t = cycles(40, device);
        mtp_findings *f = findings_of(t);
        mtp_findings_summary s = MTP_FINDINGS_SUMMARY_INIT;
        assert_ok(mtp_findings_get_summary(f, &s));
        assert_int_equal(s.whole_ns, 11999 * US - 1 * US);
        assert_int_equal(s.steps, 12);
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* Sequences grow: what each step leaves behind is larger than before, but frees it in the next. */
static void inputs_that_grow_are_no_leak(void **state)
{
    (void)state;
    for (int keeps = 0; keeps <= 1; keeps++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0; i < 14; i++) {
            int64_t bytes = (i + 1) * (64 << 10);
            made_step(t, thread, (int)i, i * 1000, i * 1000 + 1000);
            made_op(t, thread, (i * 1000 + 10) * US, (i * 1000 + 900) * US, "aten::bmm");
            made_memory(t, thread, (i * 1000 + 20) * US, keeps ? 4096 + (uint64_t)i : 4096 + (uint64_t)i % 2,
                        bytes);
            if (!keeps && i > 0)
                made_memory(t, thread, (i * 1000 + 30) * US, 4096 + (uint64_t)(i - 1) % 2,
                            (64 << 10) - bytes);
        }
        made_end(t);
        if (keeps)
            assert_found(t, "memory-growth");
        else
            assert_silent(t, "memory-growth");
    }
}

static void what_was_reserved_twice_is_not_fragmentation(void **state)
{
    (void)state;
    for (int64_t times = 3; times <= 4; times++) { /* the first event is where it begins */
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        int64_t mb = 1 << 20;
        made_op(t, thread, 0, 1000 * US, "aten::empty");
        for (int64_t i = 0; i < times; i++) {
            mtp__memory m = {.ts = i * US,
                             .address = (uint64_t)(1 + i) << 20,
                             .bytes = 200 * mb,
                             .total_allocated = (1000 + i * 200) * mb,
                             .total_reserved = (2000 + i * 200) * mb,
                             .track = thread,
                             .device_type = 1};
            mtp__trace_add_memory(t, &m);
        }
        made_end(t);
        if (times == 4)
            assert_found(t, "memory-fragmentation");
        else
            assert_silent(t, "memory-fragmentation");
    }
}

/* -------------------------------------------------------------------------------------------------- devices */

/* Bursts of 6 kernels of `kernel` us, which are launched at once; each burst begins 150 us after the last one's end. */
static mtp_trace *bursts(int count, int64_t kernel, int64_t interval)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    for (int64_t i = 0, at = 0; i < count; i++) {
        int64_t free = at + 10;
        for (int64_t k = 0; k < 6; k++) {
            int64_t start = at + k * interval + 10 > free ? at + k * interval + 10 : free;
            made_kernel(&g, at + k * interval, start, start + kernel, "gemm");
            free = start + kernel;
        }
        at = free + 140;
    }
    return made_end(t);
}

static void few_gaps_or_long_kernels_are_not_launch_bound(void **state)
{
    (void)state;
    assert_found(bursts(25, 15, 16), "device-idle-launch-bound");
    assert_silent(bursts(12, 15, 16), "device-idle-launch-bound");
    assert_silent(bursts(25, 15, 10), "device-idle-launch-bound"); /* the device is slower than the host */
}

/* 100 ms of kernels, with one pause of the host. */
static mtp_trace *one_pause(int64_t ms, int before)
{
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    made_op(t, g.thread, 0, 10 * US, "aten::empty");
    for (int64_t i = 0, at = 0; i < 100; i++, at += 1000) {
        at += i == before ? ms * 1000 : 0;
        made_kernel(&g, at, at + 10, at + 1000, "gemm");
    }
    return made_end(t);
}

static void one_pause_alone_is_told_if_it_is_long(void **state)
{
    (void)state;
    assert_found(one_pause(60, 50), "device-idle-host");
    assert_silent(one_pause(40, 50), "device-idle-host");
    assert_silent(one_pause(60, 0), "device-idle-host"); /* before the first: the program starts */
}

/* ----------------------------------------------------------------------------------------------------- texts */

typedef struct text {
    char bytes[65536];
    size_t length;
} text;

static bool keep(void *user, const void *bytes, size_t length)
{
    text *t = user;
    if (t->length + length >= sizeof t->bytes)
        return false;
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->bytes[t->length] = 0;
    return true;
}

static mtp_findings *several(mtp_trace **t)
{
    *t = made_begin();
    uint32_t thread = made_thread(*t, 7);
    static const char *const scopes[] = {"read a file", "write a log", "lock", "ask the network",
                                         "pr\xc3\xbc"
                                         "fen"};
    for (int64_t i = 0, at = 1000000; i < 50; i++, at += 2000) {
        made_op(*t, thread, at * US, (at + 1200) * US, "aten::mm");
        made_scope(*t, thread, (at + 1200) * US, (at + 2000) * US, scopes[i % 5]);
    }
    made_memory(*t, thread, 1000100 * US, 4096, 100 << 20);
    made_end(*t);
    return findings_of(*t);
}

/* Never more than was asked for, and never less with more of it. */
static void every_budget_is_kept(void **state)
{
    (void)state;
    mtp_trace *t;
    mtp_findings *f = several(&t);
    static text all, part;
    mtp_words_options o = MTP_WORDS_OPTIONS_INIT;
    all.length = 0;
    assert_ok(mtp_findings_text(f, &o, keep, &all));
    size_t before = 0, whole = 0;
    for (uint64_t budget = 1; budget <= 5000; budget += budget < 1000 ? 1 : 100) {
        o.budget = budget;
        part.length = 0;
        mtp_status status = mtp_findings_text(f, &o, keep, &part);
        assert_true(part.length <= 4 * budget);
        assert_true(status == MTP_OK ? part.length > 0 : status == MTP_E_ARG && before == 0);
        if (status == MTP_E_ARG)
            assert_says("too small");
        assert_true(part.length >= before);
        before = part.length;
        whole += part.length == all.length;
        if (part.length != all.length && part.length > 0)
            assert_non_null(strstr(part.bytes, "a larger budget"));
    }
    assert_true(whole > 0);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

static void one_finding_has_all_of_its_evidence_from_the_start_of_the_trace(void **state)
{
    (void)state;
    mtp_trace *t;
    mtp_findings *f = several(&t);
    static text out;
    mtp_words_options o = MTP_WORDS_OPTIONS_INIT;
    out.length = 0;
    assert_ok(mtp_findings_text(f, &o, keep, &out));
    assert_null(strstr(out.bytes, "pr\xc3\xbc"
                                  "fen")); /* the fifth */
    assert_non_null(strstr(out.bytes, "read a file; longest 800 us at 1.20 ms"));
    o.only = "host-idle";
    out.length = 0;
    assert_ok(mtp_findings_text(f, &o, keep, &out));
    assert_non_null(strstr(out.bytes, "pr\xc3\xbc"
                                      "fen; longest 800 us at 9.20 ms"));
    o.only = "no-such";
    assert_int_equal(mtp_findings_text(f, &o, keep, &out), MTP_E_ARG);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_batches_say_nothing_about_a_loader),
        TEST(what_comes_every_tenth_step_is_a_note),
        TEST(the_longest_steps_are_named),
        TEST(a_step_that_waits_for_a_batch_is_told_so),
        TEST(how_a_program_starts_is_no_part_of_what_it_does),
        TEST(one_gap_alone_is_told_if_it_is_long),
        TEST(three_percent_in_the_collector_are_told),
        TEST(casts_while_a_batch_is_made_belong_to_the_loader),
        TEST(one_long_call_is_no_imbalance),
        TEST(memory_that_grows_now_and_then_is_no_leak),
        TEST(steps_that_do_more_of_everything_are_told),
        TEST(an_import_between_ops_is_not_told_as_idle),
        TEST(time_between_the_cycles_of_a_schedule_is_not_examined),
        TEST(inputs_that_grow_are_no_leak),
        TEST(what_was_reserved_twice_is_not_fragmentation),
        TEST(few_gaps_or_long_kernels_are_not_launch_bound),
        TEST(one_pause_alone_is_told_if_it_is_long),
        TEST(every_budget_is_kept),
        TEST(one_finding_has_all_of_its_evidence_from_the_start_of_the_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
