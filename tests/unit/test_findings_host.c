/* Unit: analyze/findings: the host, ops, steps, memory. Each rule has a trace in which it must speak, and near misses in
 * which it must not. */
#include "made_findings.h"

/* --------------------------------------------------------------------------------------------------- loading */

/* Ten steps: a batch that takes `load` us, an op that takes `work` us; with a device, a kernel that takes as long. */
static mtp_trace *loading(int64_t load, int64_t work, bool device, const char *scope)
{
    mtp_trace *t = made_begin();
    gpu g = {.t = t, .thread = made_thread(t, 7)};
    if (device)
        g.stream = made_stream(t, 0, 7);
    for (int64_t i = 0, at = 0; i < 10; i++, at += load + work) {
        made_step(t, g.thread, (int)i, at, at + load + work);
        made_scope(t, g.thread, at * US, (at + load) * US, scope);
        made_op(t, g.thread, (at + load) * US, (at + load + (device ? 10 : work)) * US, "aten::mm");
        if (device)
            made_kernel(&g, at + load + 1, at + load + 8, at + load + work, "gemm");
    }
    return made_end(t);
}

static void a_slow_loader_is_told(void **state)
{
    (void)state;
    static const char own[] = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    assert_first(loading(1000, 2000, false, own), "data-loading", 10000);
    assert_first(loading(2000, 1000, false, own), "data-loading", 20000);
    assert_first(loading(4000, 1000, false, own), "data-loading", 30000); /* two workers are too few */
    assert_first(loading(1000, 2000, true, own), "data-loading", 10 * 1008);
    assert_silent(loading(100, 2000, false, own), "data-loading");
    assert_silent(loading(100, 2000, true, own), "data-loading");
    assert_silent(loading(1000, 2000, false, "my loader"), "data-loading"); /* a scope like any other */
}

static void workers_need_other_advice(void **state)
{
    (void)state;
    static const char *const scopes[] = {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                         "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"};
    for (int k = 0; k < 2; k++) {
        mtp_trace *t = loading(1000, 2000, false, scopes[k]);
        mtp_findings *f = findings_of(t);
        assert_int_equal(strstr(mtp_findings_row(f, 0)->advice.bytes, "The workers do not keep up") != NULL,
                         k == 1);
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* ------------------------------------------------------------------------------------------------------ gaps */

static mtp_trace *ops_with_gaps(int count, int64_t op, int64_t gap, const char *scope)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0, at = 0; i < count; i++, at += op + gap) {
        made_op(t, thread, at * US, (at + op) * US, i % 2 ? "aten::add" : "aten::mul");
        if (scope != NULL)
            made_scope(t, thread, (at + op) * US, (at + op + gap) * US, scope);
    }
    return made_end(t);
}

static void python_between_small_ops_is_told(void **state)
{
    (void)state;
    assert_first(ops_with_gaps(2000, 3, 3, NULL), "op-overhead", 3000);
    assert_silent(ops_with_gaps(2000, 50, 3, NULL), "op-overhead");
    assert_silent(ops_with_gaps(2000, 20, 10, NULL), "op-overhead"); /* not small: something else is slow */
    assert_silent(ops_with_gaps(200, 3, 3, NULL), "op-overhead");    /* too few to judge */
}

/* A quick loop over tiny ops: the gaps are short, and there is nothing but such ops. */
static void a_loop_over_tiny_ops_is_told(void **state)
{
    (void)state;
    for (int64_t gap = 0; gap <= 1; gap++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0, at = 0; i < 2000; i++, at += 8 + gap) {
            made_op(t, thread, at * US, (at + 4) * US, "aten::add");
            made_op(t, thread, (at + 4) * US, (at + 8) * US, "aten::mul");
        }
        if (gap == 1)
            assert_first(made_end(t), "op-overhead", 1000);
        else
            assert_silent(made_end(t), "op-overhead");
    }
}

/* How a program starts and ends is not the work that is examined. */
static void what_follows_the_last_op_is_not_examined(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    made_span(t, thread, 0, 30000 * US, "main", MTP__CATEGORY_PYTHON_FUNCTION);
    for (int64_t i = 0; i < 10; i++)
        made_op(t, thread, (10000 + i * 1000) * US, (10400 + i * 1000) * US, "aten::mm");
    mtp_findings *f = findings_of(made_end(t));
    mtp_findings_summary s = MTP_FINDINGS_SUMMARY_INIT;
    assert_ok(mtp_findings_get_summary(f, &s));
    assert_int_equal(s.whole_ns, 9400 * US);
    assert_int_equal(s.idle_ns, 5400 * US);
    assert_int_equal(place_of(f, "host-idle"), 0);
    assert_non_null(strstr(mtp_findings_row(f, 0)->title.bytes, "57%"));
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

static void long_gaps_are_told_with_what_they_are_in(void **state)
{
    (void)state;
    mtp_trace *t = ops_with_gaps(20, 1000, 500, "save checkpoint");
    mtp_findings *f = findings_of(t);
    assert_int_equal(place_of(f, "host-idle"), 0);
    assert_string_equal(mtp_findings_evidence(f, 0, 0)->name.bytes, "save checkpoint");
    assert_int_equal(mtp_findings_row(f, 0)->spent_ns, 19 * 500 * US);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
    assert_silent(ops_with_gaps(20, 1000, 90, NULL), "host-idle");
    assert_silent(ops_with_gaps(20, 10000, 500, NULL), "host-idle");
}

/* In PyTorch itself nothing prepares data: memory is freed, or the machine is busy. */
static void gaps_within_pytorch_have_other_advice(void **state)
{
    (void)state;
    const char *const in[] = {"save checkpoint", "Optimizer.step#SGD.step",
                              "Optimizer.zero_grad#SGD.zero_grad",
                              "<built-in method run_backward of torch._C._EngineBase object>"};
    for (int i = 0; i < 4; i++) {
        mtp_trace *t = ops_with_gaps(20, 1000, 500, in[i]);
        mtp_findings *f = findings_of(t);
        const mtp_finding_row *r = mtp_findings_row(f, 0);
        assert_int_equal(place_of(f, "host-idle"), 0);
        assert_int_equal(strstr(r->advice.bytes, "preparing data") != NULL, i == 0);
        assert_int_equal(strstr(r->advice.bytes, "memory that is returned") != NULL, i > 0);
        assert_int_equal(r->confidence, i == 0 ? MTP_CONFIDENCE_MEDIUM : MTP_CONFIDENCE_LOW);
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* What waits between ops and never trains may wait for requests: that is said, but there is nothing to be won. */
static void what_may_wait_for_requests_is_a_note(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0; i < 20; i++)
            made_op(t, thread, (1 + i * 1500) * US, (1001 + i * 1500) * US,
                    i % 2 ? "aten::add" : "aten::mul");
        thread = made_thread(t, 8);
        if (kind == 1)
            made_scope(t, thread, 0, US, "Optimizer.step#SGD.step");
        if (kind == 2)
            made_scope(t, thread, 0, US, "enumerate(DataLoader)#x");
        if (kind == 3)
            made_op(t, thread, 0, US, "autograd::engine::evaluate_function: MulBackward0");
        mtp_findings *f = findings_of(made_end(t));
        assert_int_equal(place_of(f, "host-idle"), 0);
        const mtp_finding_row *r = mtp_findings_row(f, 0);
        assert_int_equal(r->kind, kind == 0 ? MTP_FINDING_NOTE : MTP_FINDING_TIME);
        assert_int_equal(r->gain_ns, kind == 0 ? 0 : 19 * 250 * US);
        assert_int_equal(strstr(r->text.bytes, "for requests") != NULL, kind == 0);
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* torch.profiler records the thread that starts it, so that others may have been at work. */
static void one_recorded_thread_is_not_all_of_them(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++)
        for (int ours = 0; ours < 2; ours++) {
            mtp_trace *t = made_begin();
            for (int k = 0; k < threads; k++) {
                uint32_t thread = made_thread(t, 7 + (uint32_t)k);
                for (int64_t i = 0; i < 20; i++)
                    made_op(t, thread, i * 1500 * US, (i * 1500 + 1000) * US,
                            i % 2 ? "aten::add" : "aten::mul");
            }
            t->format = ours != 0 ? MTP_FORMAT_RECORDING : MTP_FORMAT_KINETO;
            mtp_findings *f = findings_of(made_end(t));
            const mtp_finding_row *r = mtp_findings_row(f, (size_t)place_of(f, "host-idle"));
            bool alone = threads == 1 && !ours;
            assert_int_equal(strstr(r->title.bytes, "The recorded thread runs no operator") != NULL, alone);
            assert_int_equal(strstr(r->text.bytes, "no thread ran any operator") != NULL, threads == 2);
            assert_int_equal(strstr(r->text.bytes, "the only thread with operators ran none") != NULL,
                             threads == 1 && ours);
            assert_int_equal(strstr(r->text.bytes, "Other threads may have been at work") != NULL, alone);
            mtp_findings_destroy(f);
            mtp_trace_destroy(t);
        }
}

static void another_thread_at_work_is_no_gap(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t one = made_thread(t, 7), two = made_thread(t, 8);
    for (int64_t i = 0; i < 10; i++) {
        made_op(t, one, i * 2000 * US, (i * 2000 + 1000) * US, "forward");
        made_op(t, two, (i * 2000 + 1000) * US, (i * 2000 + 2000) * US, "backward");
    }
    assert_silent(made_end(t), "host-idle");
}

static void the_garbage_collector_is_told(void **state)
{
    (void)state;
    for (int64_t ns = 10; ns <= 100; ns += 90) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0; i < 10; i++) {
            made_op(t, thread, i * 1000 * US, (i * 1000 + 900) * US, "aten::mm");
            made_span(t, thread, (i * 1000 + 900) * US, (i * 1000 + 900 + ns) * US, "Python GC",
                      MTP__CATEGORY_CPU_OP);
        }
        made_end(t);
        if (ns == 100)
            assert_first(t, "garbage-collection", 1000);
        else
            assert_silent(t, "garbage-collection");
    }
}

static void its_time_is_not_told_again_as_idle(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0; i < 10; i++) {
            made_op(t, thread, i * 1000 * US, (i * 1000 + 500) * US, "aten::mm");
            made_span(t, thread, (i * 1000 + 510) * US, (i * 1000 + 990) * US,
                      named ? "Python GC" : "a function", MTP__CATEGORY_PYTHON_FUNCTION);
        }
        made_end(t);
        if (named)
            assert_silent(t, "host-idle");
        else
            assert_found(t, "host-idle");
    }
}

/* ----------------------------------------------------------------------------------------------------- copies */

/* Pairs of a copy and a product on the host; parent: the op around the copy. */
static mtp_trace *copying(const char *parent, const char *copy, int64_t ns, const char *concrete)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0; i < 20; i++) {
        int64_t at = i * 1000;
        made_op(t, thread, at * US, (at + ns + 2) * US, parent);
        made_shaped(t, thread, at + 1, at + 1 + ns, copy, "[[64, 64], []]", "[\"float\", \"Scalar\"]",
                    concrete);
        made_op(t, thread, (at + 500) * US, (at + 1000) * US, "aten::mm");
    }
    return made_end(t);
}

static void casts_are_told(void **state)
{
    (void)state;
    assert_first(copying("aten::to", "aten::_to_copy", 400, "[\"\", \"7\"]"), "casts", 4000);
    assert_silent(copying("aten::to", "aten::_to_copy", 50, "[\"\", \"7\"]"), "casts");
    assert_silent(copying("aten::to", "aten::_to_copy", 400, "[\"\", \"6\"]"), "casts"); /* float to float */
    assert_silent(copying("aten::to", "aten::_to_copy", 400, "[\"\", \"\"]"),
                  "casts"); /* to another device */
    assert_silent(copying("aten::to", "aten::relu", 400, "[\"\", \"7\"]"), "casts");
}

/* x * 1.5: the number is cast, 2 us of 10; shaped: it is known to have no dimensions. */
static mtp_trace *casting_numbers(bool shaped, const char *dims, int64_t ns, const char *op)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0; i < 1000; i++) {
        int64_t at = i * 40;
        made_op(t, thread, at * US, (at + 30) * US, op);
        made_op(t, thread, (at + 1) * US, (at + 2 + ns) * US, "aten::to");
        if (shaped)
            made_shaped(t, thread, at + 1, at + 1 + ns, "aten::_to_copy", dims, "[\"double\", \"Scalar\"]",
                        "[\"\", \"6\"]");
        else
            made_op(t, thread, (at + 1) * US, (at + 1 + ns) * US, "aten::_to_copy");
    }
    return made_end(t);
}

static void a_number_that_an_op_casts_is_not_told(void **state)
{
    (void)state;
    assert_silent(casting_numbers(true, "[[], []]", 5, "aten::mul"), "casts");
    assert_found(casting_numbers(true, "[[8], []]", 5, "aten::mul"), "casts");
    assert_silent(casting_numbers(false, NULL, 5, "aten::mul"), "casts");
    assert_found(casting_numbers(false, NULL, 6, "aten::mul"), "casts"); /* longer: a tensor */
    assert_found(casting_numbers(false, NULL, 5, "aten::to"), "casts");  /* by the program */
}

static void copies_for_another_layout_are_told(void **state)
{
    (void)state;
    assert_first(copying("aten::contiguous", "aten::clone", 400, "[]"), "layout-copies", 4000);
    assert_found(copying("aten::reshape", "aten::clone", 400, "[]"), "layout-copies");
    assert_silent(copying("aten::contiguous", "aten::clone", 50, "[]"), "layout-copies");
    assert_silent(copying("aten::dropout", "aten::clone", 400, "[]"), "layout-copies"); /* on purpose */
}

/* --------------------------------------------------------------------------------------------------- backward */

static mtp_trace *trained(int64_t forward, int64_t backward)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0, at = 0; i < 10; i++, at += forward + backward) {
        made_autograd(t, thread, at * US, (at + forward) * US, "aten::index", i, 0);
        made_autograd(t, thread, (at + forward) * US, (at + forward + backward) * US, "IndexBackward0", i, 7);
    }
    return made_end(t);
}

static void a_backward_pass_that_takes_too_long_is_told(void **state)
{
    (void)state;
    assert_first(trained(100, 600), "backward-imbalance", 10 * 300);
    assert_silent(trained(100, 200), "backward-imbalance");
    assert_silent(trained(100, 390), "backward-imbalance");
}

static void one_op_that_takes_most_of_the_time_is_a_note(void **state)
{
    (void)state;
    for (int64_t other = 100; other <= 600; other += 500) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0; i < 10; i++) {
            made_op(t, thread, i * 1000 * US, (i * 1000 + 980 - other) * US, "aten::linear");
            made_op(t, thread, (i * 1000 + 1) * US, (i * 1000 + 970 - other) * US,
                    "aten::addmm"); /* its own time counts */
            made_op(t, thread, (i * 1000 + 980 - other) * US, (i * 1000 + 990 - other / 2) * US,
                    "aten::relu");
            made_op(t, thread, (i * 1000 + 990 - other / 2) * US, (i * 1000 + 1000) * US, "aten::gelu");
        }
        made_end(t);
        mtp_findings *f = findings_of(t);
        int at = place_of(f, "dominant-op");
        assert_int_equal(at >= 0, other == 100);
        if (at >= 0) {
            assert_int_equal(mtp_findings_row(f, (size_t)at)->kind, MTP_FINDING_NOTE);
            assert_int_equal(mtp_findings_row(f, (size_t)at)->gain_ns, 0);
            assert_non_null(strstr(mtp_findings_row(f, (size_t)at)->title.bytes, "aten::addmm"));
        }
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

static void an_optimizer_that_takes_most_of_the_time_is_a_note(void **state)
{
    (void)state;
    for (int64_t of = 450; of <= 550; of += 100) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0, at = 0; i < 10; i++, at += 1000) {
            made_op(t, thread, at * US, (at + 1000 - of) * US, "aten::mm");
            made_scope(t, thread, (at + 1000 - of) * US, (at + 1000) * US, "Optimizer.step#Adam.step");
            made_op(t, thread, (at + 1000 - of) * US, (at + 1000 - of / 2) * US, "aten::lerp_");
            made_op(t, thread, (at + 1000 - of / 2) * US, (at + 1000) * US, "aten::addcdiv_");
        }
        mtp_findings *f = findings_of(made_end(t));
        int at = place_of(f, "optimizer");
        assert_int_equal(at >= 0, of == 550);
        if (at >= 0) {
            const mtp_finding_row *r = mtp_findings_row(f, (size_t)at);
            assert_int_equal(r->kind, MTP_FINDING_NOTE);
            assert_string_equal(r->title.bytes, "The optimizer takes 55% of the time");
            assert_string_equal(
                r->text.bytes,
                "10 calls of Optimizer.step#Adam.step took 5.50 ms of 10.0 ms (55%), 550 us each.");
        }
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* ------------------------------------------------------------------------------------------------------- steps */

/* `count` steps of 1 ms; step `which` takes `more` us more, in `work`. "aten::mm": its usual op takes longer. */
static mtp_trace *stepping(int count, int which, int64_t more, const char *work)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0, at = 0; i < count; i++) {
        int64_t length = 1000 + (i == which ? more : 0) + i % 3;
        made_step(t, thread, (int)i, at, at + length);
        bool longer = i == which && strcmp(work, "aten::mm") == 0;
        made_op(t, thread, at * US, (at + 990 + (longer ? more : 0)) * US, "aten::mm");
        if (i == which && more > 0 && !longer)
            made_op(t, thread, (at + 990) * US, (at + 990 + more) * US, work);
        at += length;
    }
    return made_end(t);
}

static void steps_that_take_longer_are_told_with_what_differed(void **state)
{
    (void)state;
    mtp_trace *t = stepping(20, 11, 5000, "save");
    mtp_findings *f = findings_of(t);
    assert_int_equal(place_of(f, "outlier-steps"), 0);
    const mtp_finding_row *r = mtp_findings_row(f, 0);
    assert_true(r->gain_ns > 4990 * US && r->gain_ns < 5010 * US);
    assert_non_null(strstr(r->text.bytes, "Step 11 took"));
    assert_non_null(strstr(r->text.bytes, "more in save (1 more call)"));
    assert_int_equal(mtp_findings_evidence(f, 0, 0)->step, 11);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
    assert_silent(stepping(20, 11, 5000, "aten::mm"),
                  "outlier-steps"); /* the same work: the machine was busy */
    assert_found(stepping(20, 11, 5000, "aten::mm"), "noisy-steps");
    assert_silent(stepping(20, -1, 0, "save"), "noisy-steps");
    assert_silent(stepping(20, -1, 0, "save"), "outlier-steps");
    assert_silent(stepping(20, 11, 60, "save"), "outlier-steps");
    assert_silent(stepping(3, 1, 5000, "save"), "outlier-steps"); /* of three steps, none is usual */
}

/* Step 11 saves for 30 ms, and loads for 20: the evidence says what saving took, not what both did. */
static void evidence_of_a_step_has_the_time_of_what_it_names(void **state)
{
    (void)state;
    for (int late = 0; late <= 11; late += 11) { /* 0: as warm-up */
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0, at = 0; i < 20; i++) {
            int64_t length = 1000 + (i == late ? 50000 : 0) + i % 3;
            made_step(t, thread, (int)i, at, at + length);
            made_op(t, thread, at * US, (at + 990) * US, "aten::mm");
            if (i == late) {
                made_op(t, thread, (at + 990) * US, (at + 30990) * US, "save");
                made_op(t, thread, (at + 30990) * US, (at + 50990) * US, "load");
            }
            at += length;
        }
        mtp_findings *f = findings_of(made_end(t));
        int place = place_of(f, late == 0 ? "warm-up" : "outlier-steps");
        assert_true(place >= 0);
        const mtp_evidence *e = mtp_findings_evidence(f, (size_t)place, 0);
        assert_string_equal(e->name.bytes, "save");
        assert_int_equal(e->total_ns, 30000 * US);
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* A step in which nothing runs for long: the program waits. One that serves may wait for requests; and a short wait may
 * be the system's. */
static void a_long_wait_in_a_step_is_told_if_the_program_trains(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0, at = 0; i < 20; i++) {
            int64_t length = 1000 + (i == 11 ? kind == 1 ? 49000 : 51000 : 0) + i % 3;
            made_step(t, thread, (int)i, at, at + length);
            made_op(t, thread, at * US, (at + 900) * US, "aten::mm");
            if (kind < 2)
                made_scope(t, thread, (at + 900) * US, (at + 910) * US, "Optimizer.step#SGD.step");
            at += length;
        }
        mtp_findings *f = findings_of(made_end(t));
        assert_int_equal(place_of(f, "outlier-steps"), kind == 0 ? 0 : -1);
        assert_int_equal(place_of(f, "noisy-steps") >= 0, kind != 0);
        if (kind == 0)
            assert_non_null(strstr(mtp_findings_row(f, 0)->text.bytes, "ms more in which nothing ran"));
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* 20 steps of 10 ops; the first has 40, shorter ones: it sets things up. Step `which` has `many` more ops of `each` us. So
 * have `others` steps before it, but there they are short. */
static mtp_trace *validating(int which, int many, int64_t each, int others)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0, at = 0; i < 20; i++) {
        int64_t from = at, ops = i == 0 ? 40 : 10,
                extra = i == which                         ? each
                        : i < which && i >= which - others ? 1
                                                           : 0;
        for (int64_t k = 0; k < ops; k++, at += 1000 / ops)
            made_op(t, thread, at * US, (at + 1000 / ops) * US, "aten::mm");
        for (int k = 0; k < many && extra > 0; k++, at += extra)
            made_op(t, thread, at * US, (at + extra) * US, names[k % 8]);
        made_step(t, thread, (int)i, from, at += i % 3);
    }
    return made_end(t);
}

static void a_step_that_does_more_is_not_noise(void **state)
{
    (void)state;
    assert_first(validating(11, 1, 5000, 0), "outlier-steps", 5000);
    assert_silent(validating(11, 1, 5000, 0), "noisy-steps");
    assert_first(validating(11, 1, 5000, 2), "outlier-steps",
                 5000);                                      /* others do so, too, but are not as late */
    assert_silent(validating(11, 8, 600, 0), "noisy-steps"); /* the work differs, though not in one op */
    assert_silent(validating(11, 1, 5000, 9),
                  "outlier-steps"); /* half of all steps do so: only this one is slow */
    assert_found(validating(11, 1, 5000, 9), "noisy-steps");
}

static void a_long_first_step_is_warm_up_and_left_out(void **state)
{
    (void)state;
    mtp_trace *t = stepping(20, 0, 500000, "save");
    mtp_findings *f = findings_of(t);
    mtp_findings_summary s = MTP_FINDINGS_SUMMARY_INIT;
    assert_ok(mtp_findings_get_summary(f, &s));
    assert_int_equal(s.warm_up, 1);
    assert_int_equal(s.steps, 19);
    assert_int_equal(s.end_ns - s.start_ns, s.whole_ns);
    assert_true(s.whole_ns < 20000 * US);
    assert_true(place_of(f, "warm-up") >= 0 && place_of(f, "outlier-steps") < 0);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

/* After the last step() the program goes on to do something else for long: that is neither a step nor a gap in one. */
static void a_gap_ends_where_an_outlying_step_begins(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    for (int64_t i = 0; i < 20; i++) {
        made_step(t, thread, (int)i, i * 1000, i * 1000 + 1000);
        made_op(t, thread, i * 1000 * US, (i * 1000 + 990) * US, "aten::mm");
    }
    made_step(t, thread, 20, 20000, 900000);
    made_end(t);
    mtp_findings *f = findings_of(t);
    mtp_findings_summary s = MTP_FINDINGS_SUMMARY_INIT;
    assert_ok(mtp_findings_get_summary(f, &s));
    assert_int_equal(s.outliers, 1);
    assert_int_equal(s.whole_ns, 20000 * US);
    assert_true(place_of(f, "host-idle") < 0 && place_of(f, "outlier-steps") < 0);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
}

static void what_several_threads_do_at_once_is_not_added_up(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3) {
        mtp_trace *t = made_begin();
        for (int k = 0; k < threads; k++) {
            uint32_t thread = made_thread(t, 7 + k);
            for (int64_t i = 0; i < 20; i++)
                made_shaped(t, thread, i * 1000, i * 1000 + 900, "aten::_to_copy", "[[64], []]",
                            "[\"float\", \"Scalar\"]", "[\"\", \"7\"]");
        }
        made_end(t);
        if (threads == 1)
            assert_first(t, "casts", -1);
        else
            assert_silent(t, "casts");
    }
}

/* ------------------------------------------------------------------------------------------------------- memory */

/* In each step 64 KB are allocated, `grows` keeps them; a step `frees` all. */
static mtp_trace *allocating(int steps, bool grows, int frees)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    int kept = 0;
    for (int64_t i = 0, at = 0; i < steps; i++, at += 1000) {
        made_step(t, thread, (int)i, at, at + 1000);
        made_op(t, thread, (at + 10) * US, (at + 900) * US, "aten::mm");
        made_memory(t, thread, (at + 20) * US, 4096 + (uint64_t)i, 64 << 10);
        kept++;
        if (!grows || i == frees)
            for (; kept > 0; kept--)
                made_memory(t, thread, (at + 30) * US, 4096 + (uint64_t)(i - kept + 1), -(64 << 10));
    }
    return made_end(t);
}

static void memory_that_grows_in_every_step_is_a_leak_and_comes_first(void **state)
{
    (void)state;
    mtp_trace *t = allocating(12, true, -1);
    mtp_findings *f = findings_of(t);
    assert_int_equal(place_of(f, "memory-growth"), 0);
    assert_int_equal(mtp_findings_row(f, 0)->bytes, 64 << 10);
    assert_string_equal(mtp_findings_evidence(f, 0, 0)->name.bytes, "aten::mm");
    assert_int_equal(mtp_findings_evidence(f, 0, 0)->calls, 9);
    mtp_findings_destroy(f);
    mtp_trace_destroy(t);
    assert_silent(allocating(12, false, -1), "memory-growth");
    assert_silent(allocating(12, true, 9), "memory-growth"); /* a cache that is emptied */
    assert_silent(allocating(7, true, -1), "memory-growth"); /* too few steps */
}

/* A function that kept tensors returns before the recording ends: what it kept is freed, and still was the leak. */
static void what_leaked_is_named_even_if_it_is_freed_at_the_end(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3;
         kind++) { /* 0: nothing runs in the last step; 1: something does; 2: and much stays */
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        for (int64_t i = 0, at = 0; i < 12; i++, at += 1000) {
            made_step(t, thread, (int)i, at, at + 1000);
            made_op(t, thread, (at + 10) * US, (at + 900) * US, "aten::mm");
            if (i == 0)
                made_memory(t, thread, 15 * US, 1, kind == 2 ? 400 << 10 : 40 << 10);
            made_memory(t, thread, (at + 20) * US, 4096 + (uint64_t)i, 64 << 10);
        }
        if (kind > 0)
            made_op(t, thread, 12010 * US, 12100 * US, "aten::mm");
        for (uint64_t i = 0; i < 12; i++)
            made_memory(t, thread, 12500 * US, 4096 + i, -(64 << 10));
        made_step(t, thread, 12, 12000, 13000);
        mtp_findings *f = findings_of(made_end(t));
        assert_int_equal(place_of(f, "memory-growth"), kind < 2 ? 0 : -1); /* a cache may be emptied, too */
        if (kind < 2)
            assert_non_null(strstr(mtp_findings_row(f, 0)->text.bytes, "in 9 blocks of aten::mm"));
        mtp_findings_destroy(f);
        mtp_trace_destroy(t);
    }
}

/* After the last step() nothing but the device works, and a little is freed. */
static void a_leak_is_told_although_the_device_works_on(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    gpu g = made_gpu(t);
    for (int64_t i = 0, at = 0; i < 12; i++, at += 1000) {
        made_step(t, g.thread, (int)i, at, at + 1000);
        made_op(t, g.thread, (at + 10) * US, (at + 900) * US, "aten::mm");
        made_kernel(&g, at + 20, 300 + i * 2000, 2300 + i * 2000, "gemm");
        made_memory(t, g.thread, (at + 20) * US, 4096 + (uint64_t)i, 64 << 10);
        made_memory(t, g.thread, (at + 30) * US, 1, 64);
        made_memory(t, g.thread, (at + 1030) * US, 1, -64);
    }
    made_step(t, g.thread, 12, 12000, 25000);
    assert_first(made_end(t), "memory-growth", -1);
}

/* A device's allocator: reserves `more` for a request of `bytes`, with `unused` bytes free. */
static mtp_trace *reserving(int64_t bytes, int64_t unused, int64_t more)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 7);
    int64_t mb = 1 << 20;
    made_op(t, thread, 0, 1000 * US, "aten::empty");
    for (int64_t i = 0; i < 4; i++) {
        mtp__memory m = {.ts = i * US,
                         .address = (uint64_t)(1 + i) << 20,
                         .bytes = bytes * mb,
                         .total_allocated = (1000 + i * bytes) * mb,
                         .total_reserved = (1000 + unused + i * more) * mb,
                         .track = thread,
                         .device_type = 1};
        mtp__trace_add_memory(t, &m);
    }
    return made_end(t);
}

static void memory_that_is_free_but_cannot_be_used_is_fragmented(void **state)
{
    (void)state;
    assert_found(reserving(100, 600, 100), "memory-fragmentation");
    assert_silent(reserving(100, 100, 100), "memory-fragmentation"); /* full: it needs more */
    assert_silent(reserving(100, 600, 0), "memory-fragmentation");   /* unused, and used next */
    assert_silent(reserving(100, 600, 10), "memory-fragmentation");
}

static void the_peak_is_told_if_it_is_large(void **state)
{
    (void)state;
    for (int64_t mb = 1; mb <= 100; mb += 99) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 7);
        made_op(t, thread, 0, 1000 * US, "aten::mm");
        made_memory(t, thread, 500, 4096, mb << 20);
        made_end(t);
        if (mb == 100)
            assert_found(t, "memory-peak");
        else
            assert_silent(t, "memory-peak");
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_trace *list[] = {loading(1000, 2000, false, "enumerate(DataLoader)#x"),
                         ops_with_gaps(2000, 3, 3, NULL),
                         ops_with_gaps(20, 1000, 500, "scope"),
                         stepping(20, 11, 5000, "save"),
                         allocating(12, true, -1),
                         copying("aten::to", "aten::_to_copy", 400, "[\"\", \"7\"]"),
                         trained(100, 600)};
    for (size_t i = 0; i < COUNT(list); i++) {
        int fired = 1;
        for (int nth = 1; fired > 0; nth++) {
            mtp_findings *f = NULL;
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, nth % 2 == 0);
            mtp_status status = mtp_findings_create(list[i], NULL, &f);
            fired = mtp__fault_stop();
            assert_true(status == MTP_E_NOMEM || (status == MTP_OK && f != NULL));
            mtp_findings_destroy(f);
        }
        mtp_trace_destroy(list[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_slow_loader_is_told),
        TEST(workers_need_other_advice),
        TEST(python_between_small_ops_is_told),
        TEST(a_loop_over_tiny_ops_is_told),
        TEST(what_follows_the_last_op_is_not_examined),
        TEST(long_gaps_are_told_with_what_they_are_in),
        TEST(gaps_within_pytorch_have_other_advice),
        TEST(what_may_wait_for_requests_is_a_note),
        TEST(one_recorded_thread_is_not_all_of_them),
        TEST(another_thread_at_work_is_no_gap),
        TEST(the_garbage_collector_is_told),
        TEST(its_time_is_not_told_again_as_idle),
        TEST(casts_are_told),
        TEST(a_number_that_an_op_casts_is_not_told),
        TEST(copies_for_another_layout_are_told),
        TEST(a_backward_pass_that_takes_too_long_is_told),
        TEST(one_op_that_takes_most_of_the_time_is_a_note),
        TEST(an_optimizer_that_takes_most_of_the_time_is_a_note),
        TEST(steps_that_take_longer_are_told_with_what_differed),
        TEST(evidence_of_a_step_has_the_time_of_what_it_names),
        TEST(a_long_wait_in_a_step_is_told_if_the_program_trains),
        TEST(a_step_that_does_more_is_not_noise),
        TEST(a_long_first_step_is_warm_up_and_left_out),
        TEST(a_gap_ends_where_an_outlying_step_begins),
        TEST(what_several_threads_do_at_once_is_not_added_up),
        TEST(memory_that_grows_in_every_step_is_a_leak_and_comes_first),
        TEST(what_leaked_is_named_even_if_it_is_freed_at_the_end),
        TEST(a_leak_is_told_although_the_device_works_on),
        TEST(memory_that_is_free_but_cannot_be_used_is_fragmented),
        TEST(the_peak_is_told_if_it_is_large),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
