/* Unit: analyze/averages*. The rules are torch's; tests/golden/gold_check.py holds them against torch itself. */
#include "tests/made_trace.h"
#include "analyze/averages.h"

static mtp_averages *rows_by(const mtp_trace *t, mtp_averages_options options)
{
    mtp_averages *a;
    assert_ok(mtp_averages_create(t, &options, &a));
    return a;
}

static mtp_averages *rows_of(const mtp_trace *t)
{
    mtp_averages *a;
    assert_ok(mtp_averages_create(t, NULL, &a));
    return a;
}

/* With PyTorch's own join of device work, chance included. */
static mtp_averages *rows_as_torch(const mtp_trace *t)
{
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.as_torch = true;
    return rows_by(t, options);
}

static const mtp_row *find_row(const mtp_averages *a, const char *key, bool device, bool annotation)
{
    for (size_t i = 0; i < mtp_averages_count(a); i++) {
        const mtp_row *row = mtp_averages_row(a, i);
        if (strcmp(row->key, key) == 0 && row->is_device == device && row->is_user_annotation == annotation)
            return row;
    }
    return NULL;
}

/* The row, which must be there. */
static const mtp_row *op_row(const mtp_averages *a, const char *key)
{
    const mtp_row *row = find_row(a, key, false, false);
    if (row == NULL)
        fail_msg("no row %s", key);
    return row;
}

static const mtp_row *scope_row(const mtp_averages *a, const char *key)
{
    const mtp_row *row = find_row(a, key, false, true);
    if (row == NULL)
        fail_msg("no row of scopes %s", key);
    return row;
}

static const mtp_row *device_row(const mtp_averages *a, const char *key)
{
    const mtp_row *row = find_row(a, key, true, false);
    if (row == NULL)
        fail_msg("no row of device work %s", key);
    return row;
}

static void check_us(double value, double us, int line)
{
    if (!(value - us < 1e-6 && us - value < 1e-6))
        fail_msg("line %d: %.6f us, not %.6f", line, value, us);
}
#define assert_us(value, us) check_us((value), (us), __LINE__)

static void finish(mtp_averages *a, mtp_trace *t)
{
    mtp_averages_destroy(a);
    mtp_trace_destroy(t);
}

/* Metadata that makes a trace one of torch's. */
static void as_kineto(mtp_trace *t, bool host_name)
{
    t->from_kineto = true;
    if (host_name)
        mtp__trace_add_meta(t, "host_name", 9, "\"x\"", 3);
}

static uint32_t span_with(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name,
                          mtp__category category, mtp__detail d)
{
    return mtp__trace_add_span(t, track, start, end, made_text(t, name), category, 0,
                               mtp__trace_add_detail(t, &d));
}

/* ------------------------------------------------------------------------------------------------- nesting */

static void self_time_is_what_direct_children_leave(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    made_op(t, k, 0, 10000, "outer");
    made_op(t, k, 1000, 4000, "inner");
    made_op(t, k, 2000, 3000, "leaf");
    made_op(t, k, 5000, 7000, "inner");
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(mtp_averages_count(a), 3);
    const mtp_row *outer = op_row(a, "outer"), *inner = op_row(a, "inner");
    assert_us(outer->cpu_time_total, 10);
    assert_us(outer->self_cpu_time_total, 5);
    assert_int_equal(inner->count, 2);
    assert_us(inner->cpu_time_total, 5);
    assert_us(inner->self_cpu_time_total, 4);
    assert_us(inner->min, 2);
    assert_us(inner->p50, 2);
    assert_us(inner->p99, 3);
    assert_us(inner->max, 3);
    assert_int_equal(inner->key_length, 5);
    assert_null(mtp_averages_row(a, 3));
    finish(a, t);
}

static void rows_come_in_the_order_of_their_first_events_over_all_threads(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t one = made_thread(t, 1), two = made_thread(t, 2);
    made_op(t, one, 50, 60, "third");
    made_op(t, one, 70, 80, "first");
    made_op(t, two, 10, 20, "first");
    made_op(t, two, 30, 40, "second");
    mtp_averages *a = rows_of(made_end(t));
    assert_string_equal(mtp_averages_row(a, 0)->key, "first");
    assert_string_equal(mtp_averages_row(a, 1)->key, "second");
    assert_string_equal(mtp_averages_row(a, 2)->key, "third");
    finish(a, t);
}

static void a_span_that_is_outlasted_is_no_parent_from_then_on(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    made_op(t, k, 0, 10000, "a");
    made_op(t, k, 5000, 12000, "b");  /* begins in a, outlasts it */
    made_op(t, k, 6000, 7000, "c");   /* of b now, though in a too */
    made_op(t, k, 12000, 12000, "d"); /* at the end of b: outside */
    mtp_averages *a = rows_of(made_end(t));
    assert_us(op_row(a, "a")->self_cpu_time_total, 10);
    assert_us(op_row(a, "b")->self_cpu_time_total, 6);
    assert_us(op_row(a, "d")->cpu_time_total, 0);
    finish(a, t);
}

static void threads_do_not_nest_in_each_other(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    made_op(t, made_thread(t, 1), 0, 10000, "a");
    made_op(t, made_thread(t, 2), 1000, 2000, "b");
    mtp_averages *a = rows_of(made_end(t));
    assert_us(op_row(a, "a")->self_cpu_time_total, 10);
    finish(a, t);
}

static void an_only_child_of_the_same_name_is_absorbed_with_all_its_generations(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    made_op(t, k, 0, 10000, "a");
    made_op(t, k, 1000, 9000, "a");
    made_op(t, k, 2000, 8000, "a");
    made_op(t, k, 3000, 4000, "b");
    mtp_averages *a = rows_of(made_end(t));
    const mtp_row *row = op_row(a, "a");
    assert_int_equal(row->count, 1);
    assert_us(row->cpu_time_total, 10);
    assert_us(row->self_cpu_time_total, 9);
    assert_us(row->min, 10);
    assert_us(row->p50, 10);
    finish(a, t);
}

static void one_of_two_children_is_not_absorbed_whichever_comes_first(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        mtp_trace *t = made_begin();
        uint32_t k = made_thread(t, 1);
        made_op(t, k, 0, 10000, "a");
        made_op(t, k, 1000, 3000, first ? "a" : "b");
        made_op(t, k, 4000, 6000, first ? "b" : "a");
        mtp_averages *a = rows_of(made_end(t));
        assert_int_equal(op_row(a, "a")->count, 2);
        assert_us(op_row(a, "a")->cpu_time_total, 12);
        assert_us(op_row(a, "a")->self_cpu_time_total, 8);
        finish(a, t);
    }
}

static void a_scope_absorbs_an_op_of_its_name_and_stays_a_scope(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    made_scope(t, k, 0, 10000, "aten::mm");
    made_op(t, k, 1000, 9000, "aten::mm");
    made_op(t, k, 2000, 5000, "x");
    made_op(t, k, 20000, 21000, "aten::mm");
    mtp_averages *a = rows_of(made_end(t));
    assert_us(scope_row(a, "aten::mm")->self_cpu_time_total, 7);
    assert_int_equal(op_row(a, "aten::mm")->count, 1);
    assert_us(op_row(a, "aten::mm")->cpu_time_total, 1);
    finish(a, t);
}

static void steps_are_one_row_and_utility_ops_are_none(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    made_scope(t, k, 0, 10000, "ProfilerStep#7");
    made_op(t, k, 1000, 5000, "profiler::_record_function_enter_new");
    made_op(t, k, 2000, 3000, "x"); /* of the step, since its parent is none */
    made_scope(t, k, 20000, 30000, "ProfilerStep#8");
    made_op(t, k, 21000, 22000, "aten::is_leaf");
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(mtp_averages_count(a), 2);
    assert_int_equal(scope_row(a, "ProfilerStep*")->count, 2);
    assert_us(scope_row(a, "ProfilerStep*")->self_cpu_time_total, 19);
    finish(a, t);
}

/* ------------------------------------------------------------------------ against the rules, written out */

typedef struct event {
    int64_t start, end;
    int name, parent, children; /* parent: -1 none */
    int thread;
    bool gone;
} event;

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* As torch's Python does it, slowly. Events of a thread are in order. */
static void nest(event *e, int count)
{
    for (int i = 0; i < count; i++) {
        e[i].parent = -1;
        int at = i - 1;
        while (at >= 0 && e[at].thread == e[i].thread) {
            if (e[i].start >= e[at].end || e[i].end > e[at].end) {
                at = e[at].parent; /* what it pops is gone for good: its parent is next on the stack */
                continue;
            }
            e[i].parent = at;
            e[at].children++;
            break;
        }
        if (at < 0 || e[at].thread != e[i].thread)
            e[i].parent = -1;
    }
    for (int i = 0; i < count; i++) {
        int p = e[i].parent;
        e[i].gone = p >= 0 && e[p].name == e[i].name && e[p].children == 1;
    }
}

static void check_row(const mtp_averages *a, event *e, int count, int name)
{
    char key[16];
    snprintf(key, sizeof key, "op%d", name);
    int64_t *times = calloc((size_t)count, sizeof *times), total = 0, self = 0;
    size_t n = 0;
    for (int i = 0; i < count; i++) {
        if (e[i].name != name || e[i].gone)
            continue;
        times[n++] = e[i].end - e[i].start;
        total += e[i].end - e[i].start;
        self += e[i].end - e[i].start;
        for (int c = i + 1; c < count && e[c].thread == e[i].thread;
             c++) { /* children, past those absorbed */
            int p = e[c].parent;
            while (p >= 0 && e[p].gone)
                p = e[p].parent;
            self -= !e[c].gone && p == i ? e[c].end - e[c].start : 0;
        }
    }
    const mtp_row *row = find_row(a, key, false, false);
    assert_int_equal(row != NULL, n > 0);
    if (n > 0) {
        qsort(times, n, sizeof *times, by_value);
        assert_int_equal(row->count, n);
        assert_us(row->cpu_time_total, (double)total / 1000);
        assert_us(row->self_cpu_time_total, (double)self / 1000);
        assert_us(row->min, (double)times[0] / 1000);
        assert_us(row->p50, (double)times[(n * 50 + 99) / 100 - 1] / 1000);
        assert_us(row->p99, (double)times[(n * 99 + 99) / 100 - 1] / 1000);
        assert_us(row->max, (double)times[n - 1] / 1000);
    }
    free(times);
}

/* Nested at random, of few names, so that names meet themselves; times from a few ns to seconds. */
static int grow(event *e, int at, int room, int thread, int64_t start, int64_t end, int names, int depth)
{
    while (at < room && end - start > 4 && test_below(8) != 0) {
        int64_t from = start + (int64_t)test_below((uint64_t)(end - start) / 3 + 1);
        int64_t to = from + (int64_t)test_below((uint64_t)(end - from)) + 1;
        int self = at;
        e[at++] = (event){from, to, (int)test_below((uint64_t)names), -1, 0, thread, false};
        if (depth < 8)
            at = grow(e, at, room, thread, from, e[self].end, names, depth + 1);
        start = to;
    }
    return at;
}

static void random_traces_follow_the_rules(void **state)
{
    (void)state;
    enum {
        ROOM = 400
    };
    event *e = calloc(ROOM, sizeof *e);
    for (int round = 0; round < test_scaled(300); round++) {
        int names = test_below(2) ? (int)test_below(6) + 1 : 300, count = 0; /* many: the fast walk */
        mtp_trace *t = made_begin();
        for (int thread = 0; thread < 3; thread++)
            count =
                grow(e, count, ROOM * (thread + 1) / 3, thread, 0, (int64_t)1 << test_below(36), names, 0);
        for (int thread = 0; thread < 3; thread++) {
            uint32_t k = made_thread(t, thread + 1);
            for (int i = 0; i < count; i++) {
                char name[16];
                snprintf(name, sizeof name, "op%d", e[i].name);
                if (e[i].thread == thread)
                    made_op(t, k, e[i].start, e[i].end, name);
            }
        }
        if (round % 2 != 0)
            made_op(t, 0, -100, -50, "aten::is_leaf"); /* filtered: the general walk, not the fast one */
        mtp_averages *a = rows_of(made_end(t));
        nest(e, count);
        for (int name = 0; name < names; name++)
            check_row(a, e, count, name);
        finish(a, t);
    }
    free(e);
}

static void many_events_of_one_row_have_exact_quantiles(void **state)
{
    (void)state;
    for (int way = 0; way < 6; way++) {
        int count = test_scaled(20000);
        int64_t *times = calloc((size_t)count, sizeof *times), at = 0;
        mtp_trace *t = made_begin();
        uint32_t k = made_thread(t, 1), name = made_text(t, "op");
        for (int i = 0; i < count; i++) {
            times[i] = way == 0   ? 1234567
                       : way == 1 ? (int64_t)test_below(63) + 1
                       : way == 2 ? 1000000 + (int64_t)test_below(1000)
                                  : (int64_t)(test_random() >> (20 + test_below(40))) + 1;
            mtp__trace_add_span(t, k, at, at + times[i], name, MTP__CATEGORY_CPU_OP, 0, 0);
            at += times[i];
        }
        if (way >= 4)
            made_op(t, k, -10, -5, "aten::_version");
        mtp_averages *a = rows_of(made_end(t));
        qsort(times, (size_t)count, sizeof *times, by_value);
        const mtp_row *row = op_row(a, "op");
        assert_us(row->min, (double)times[0] / 1000);
        assert_us(row->p50, (double)times[(count * 50 + 99) / 100 - 1] / 1000);
        assert_us(row->p99, (double)times[(count * 99 + 99) / 100 - 1] / 1000);
        assert_us(row->max, (double)times[count - 1] / 1000);
        free(times);
        finish(a, t);
    }
}

static void deep_nesting_and_many_names_need_no_special_care(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    int count = test_scaled(30000);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "name %d", i);
        made_op(t, k, i, 1000000000 - i, name);
    }
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(mtp_averages_count(a), count);
    assert_us(mtp_averages_row(a, 5)->self_cpu_time_total, 0.002);
    finish(a, t);
}

/* A function that calls itself a million times: 64 bytes for each that is open are enough, in a trace with memory events 160. */
static void deep_recursion_takes_little_memory(void **state)
{
    (void)state;
    enum {
        DEPTH = 999999
    };
    for (int with_memory = 0; with_memory < 2; with_memory++) {
        mtp_trace *t;
        assert_ok(mtp__trace_create(&t));
        uint32_t k = made_thread(t, 1);
        for (int64_t i = 0; i < DEPTH; i++)
            made_op(t, k, i, 3 * DEPTH - i, i % 3 < 2 ? "f" : "g");
        made_op(t, k, DEPTH + 1, DEPTH + 2, "h");
        if (with_memory != 0)
            made_memory(t, k, DEPTH + 1, 64, 128);
        assert_ok(mtp__trace_finish(t));
        mtp_averages *a;
        assert_ok(mtp_memory_limit(with_memory != 0 ? "160M" : "64M"));
        mtp_status status = mtp_averages_create(t, NULL, &a);
        assert_ok(mtp_memory_limit("none"));
        assert_int_equal(status, MTP_OK);
        assert_int_equal(op_row(a, "f")->count + op_row(a, "g")->count,
                         DEPTH / 3 * 2); /* an f in an f is one */
        mtp_averages_destroy(a);
        mtp_trace_destroy(t);
    }
}

/* -------------------------------------------------------------------------------------------------- memory */

static void memory_is_of_all_spans_that_are_open_whichever_thread_allocates(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t one = made_thread(t, 1), two = made_thread(t, 2);
    made_op(t, one, 1000, 9000, "outer");
    made_op(t, one, 2000, 5000, "inner");
    made_memory(t, two, 500, 1, 7);                     /* before everything */
    made_memory(t, two, 1000, 2, 100);                  /* at the very start counts */
    made_memory(t, one, 5000, 3, 50);                   /* and so does the very end */
    made_memory(t, one, 3000, 2, -100);                 /* freed inside */
    made_memory_of(t, one, 4000, 4, 4096, -1, 1, 0);    /* CUDA */
    made_memory_of(t, one, 4000, 5, 1 << 20, -1, 9, 0); /* XLA: neither CPU nor device */
    made_memory_of(t, two, 20000, 6, 9, -1, 9, 0);      /* outside of all, and of no kind that counts */
    mtp_averages *a = rows_of(made_end(t));
    const mtp_row *outer = op_row(a, "outer"), *inner = op_row(a, "inner"), *rest = op_row(a, "[memory]");
    assert_int_equal(outer->cpu_memory_usage, 50);
    assert_int_equal(outer->self_cpu_memory_usage, 100);
    assert_int_equal(inner->cpu_memory_usage, -50);
    assert_int_equal(inner->device_memory_usage, 4096);
    assert_int_equal(outer->self_device_memory_usage, 0);
    assert_int_equal(rest->count, 2);
    assert_int_equal(rest->cpu_memory_usage, 7);
    assert_int_equal(rest->self_cpu_memory_usage, 7);
    assert_us(rest->cpu_time_total, 0);
    assert_string_equal(mtp_averages_row(a, 0)->key, "[memory]");
    finish(a, t);
}

static void allocations_that_failed_are_a_row(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    mtp__instant oom = {
        .ts = 5, .name = made_text(t, "[OutOfMemory]"), .track = made_thread(t, 1), .scope = 't'};
    mtp__trace_add_instant(t, &oom);
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(op_row(a, "[OutOfMemory]")->count, 1);
    finish(a, t);
}

/* -------------------------------------------------------------------------------------------------- device */

/* An op around a launch, and its kernel. */
static void launch(mtp_trace *t, uint32_t thread, uint32_t stream, int64_t at, int64_t ns, uint64_t id)
{
    mtp__detail op = MTP__DETAIL_INIT, call = MTP__DETAIL_INIT, work = MTP__DETAIL_INIT;
    op.external_id = call.external_id = work.external_id = id;
    call.correlation = work.correlation = 1000 + id;
    span_with(t, thread, at, at + 1000, "aten::mm", MTP__CATEGORY_CPU_OP, op);
    span_with(t, thread, at + 100, at + 200, "cudaLaunchKernel", MTP__CATEGORY_CUDA_RUNTIME, call);
    span_with(t, stream, at + 5000, at + 5000 + ns, "gemm", MTP__CATEGORY_KERNEL, work);
}

static void device_time_is_of_the_op_and_of_all_around_it(void **state)
{
    (void)state;
    for (int kineto = 0; kineto < 2; kineto++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
        made_scope(t, thread, 0, 9000, "step");
        launch(t, thread, stream, 1000, 3000, 11);
        launch(t, thread, stream, 3000, 500, 12);
        if (kineto)
            as_kineto(t, true);
        mtp_averages *a = rows_of(made_end(t));
        assert_us(scope_row(a, "step")->device_time_total, 3.5);
        assert_us(scope_row(a, "step")->self_device_time_total, 0);
        assert_us(op_row(a, "aten::mm")->device_time_total, 3.5);
        assert_us(op_row(a, "aten::mm")->self_device_time_total, 3.5);
        assert_us(op_row(a, "cudaLaunchKernel")->device_time_total, 0);
        const mtp_row *gemm = device_row(a, "gemm");
        assert_int_equal(gemm->count, 2);
        assert_us(gemm->self_device_time_total, 3.5);
        assert_us(gemm->cpu_time_total, 0);
        assert_us(gemm->max, 3);
        finish(a, t);
    }
}

static void an_absorbed_childs_device_work_replaces_its_parents(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
    mtp__detail d = MTP__DETAIL_INIT;
    for (unsigned i = 1; i <= 2; i++) {
        d.external_id = i;
        span_with(t, thread, 100 * i, 10000 - 100 * i, "aten::x", MTP__CATEGORY_CPU_OP, d);
        span_with(t, stream, 20000 * i, 20000 * i + 1000 * i, "kernel", MTP__CATEGORY_KERNEL, d);
    }
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(op_row(a, "aten::x")->count, 1);
    assert_us(op_row(a, "aten::x")->device_time_total, 2); /* the inner one's */
    finish(a, t);
}

/* A thread that calls what has the same number as another's op, and overhead inside that op. */
static mtp_trace *ids_that_meet(void)
{
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), other = made_thread(t, 101), stream = made_stream(t, 0, 7);
    launch(t, thread, stream, 1000, 3000, 11);
    mtp__detail stray = MTP__DETAIL_INIT;
    stray.correlation = 11; /* of its own counting, and the same number */
    span_with(t, other, 30000, 31000, "cudaDeviceSynchronize", MTP__CATEGORY_CUDA_RUNTIME, stray);
    stray.correlation = 0; /* no id: that of the op around it */
    span_with(t, other, 1300, 1400, "Lazy Function Loading", MTP__CATEGORY_OVERHEAD, stray);
    as_kineto(t, true);
    return made_end(t);
}

static void work_is_counted_once_and_for_the_op_that_launched_it(void **state)
{
    (void)state;
    mtp_trace *t = ids_that_meet();
    mtp_averages *a = rows_of(t);
    assert_us(op_row(a, "cudaDeviceSynchronize")->device_time_total, 0);
    assert_us(op_row(a, "Lazy Function Loading")->device_time_total, 0);
    assert_us(op_row(a, "aten::mm")->device_time_total, 3);
    assert_us(op_row(a, "aten::mm")->self_device_time_total, 3);
    finish(a, t);
}

static void kernels_whose_ids_are_correlations_go_to_the_op_around_their_launch(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
    for (unsigned i = 1; i <= 3; i++) { /* each number is an op's as well: the next one's */
        mtp__detail op = MTP__DETAIL_INIT, call = MTP__DETAIL_INIT, work = MTP__DETAIL_INIT;
        static const char *const names[] = {"", "aten::mm", "aten::add", "aten::relu"};
        op.external_id = 100 + i;
        call.external_id = call.correlation = work.external_id = work.correlation = 101 + i;
        span_with(t, thread, 10000 * i, 10000 * i + 1000, names[i], MTP__CATEGORY_CPU_OP, op);
        span_with(t, thread, 10000 * i + 100, 10000 * i + 200, "hipLaunchKernel", MTP__CATEGORY_CUDA_RUNTIME,
                  call);
        span_with(t, stream, 10000 * i + 5000, 10000 * i + 5000 + 1000 * i, "kernel", MTP__CATEGORY_KERNEL,
                  work);
    }
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_us(op_row(a, "aten::mm")->self_device_time_total, 1);
    assert_us(op_row(a, "aten::add")->self_device_time_total, 2);
    assert_us(op_row(a, "aten::relu")->self_device_time_total, 3);
    finish(a, t);
}

static void a_launch_outside_of_any_op_has_the_time_of_its_work(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
    mtp__detail call = MTP__DETAIL_INIT;
    made_op(t, thread, 0, 500, "aten::mm");
    call.correlation = 7;
    span_with(t, thread, 1000, 1100, "cudaGraphLaunch", MTP__CATEGORY_CUDA_RUNTIME, call);
    for (int i = 0; i < 5; i++)
        span_with(t, stream, 5000 + 1000 * i, 5800 + 1000 * i, "node", MTP__CATEGORY_KERNEL, call);
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_us(op_row(a, "cudaGraphLaunch")->device_time_total, 4);
    assert_us(op_row(a, "aten::mm")->device_time_total, 0);
    finish(a, t);
}

static void a_call_whose_id_is_its_correlation_has_no_op_by_it(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), other = made_thread(t, 101), stream = made_stream(t, 0, 7);
    mtp__detail op = MTP__DETAIL_INIT, call = MTP__DETAIL_INIT;
    op.external_id = call.external_id = call.correlation =
        11; /* by chance the number of an op that runs just then */
    span_with(t, other, 0, 9000, "aten::mm", MTP__CATEGORY_CPU_OP, op);
    span_with(t, thread, 1000, 1100, "hipLaunchKernel", MTP__CATEGORY_CUDA_RUNTIME, call);
    span_with(t, stream, 5000, 8000, "kernel", MTP__CATEGORY_KERNEL, call);
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_us(op_row(a, "aten::mm")->device_time_total, 0);
    assert_us(op_row(a, "hipLaunchKernel")->device_time_total, 3);
    finish(a, t);
}

static void torchs_ids_meet_by_number_alone(void **state)
{
    (void)state;
    mtp_trace *t = ids_that_meet();
    mtp_averages *a = rows_as_torch(t);
    assert_us(op_row(a, "cudaDeviceSynchronize")->device_time_total, 3);
    assert_us(op_row(a, "Lazy Function Loading")->self_device_time_total, 3);
    /* strays are nested on the main thread: here in aten::mm */
    assert_us(op_row(a, "aten::mm")->self_cpu_time_total, 1 - 0.1 - 0.1);
    assert_us(op_row(a, "aten::mm")->device_time_total, 6);
    assert_us(op_row(a, "aten::mm")->self_device_time_total, 3);
    finish(a, t);
}

static void overhead_takes_the_id_of_what_is_open_on_the_main_thread_even_if_it_is_the_devices(void **state)
{
    (void)state;
    for (int covered = 0; covered < 2; covered++) {
        mtp_trace *t = made_begin();
        uint32_t thread = made_thread(t, 100), other = made_thread(t, 101), stream = made_stream(t, 0, 7);
        mtp__detail scope = MTP__DETAIL_INIT, none = MTP__DETAIL_INIT;
        scope.external_id = 5;
        launch(t, thread, stream, 1000, 3000, 11);
        if (covered) /* of the device, and yet torch has it open on the thread */
            span_with(t, stream, 1199, 7001, "forward", MTP__CATEGORY_GPU_USER_ANNOTATION, scope);
        span_with(t, other, 1300, 1400, "Lazy Function Loading", MTP__CATEGORY_OVERHEAD, none);
        as_kineto(t, true);
        mtp_averages *a = rows_as_torch(made_end(t));
        assert_us(op_row(a, "Lazy Function Loading")->device_time_total, covered ? 0 : 3);
        finish(a, t);
    }
}

static void annotations_on_the_device_are_rows_that_launch_nothing(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), stream = made_stream(t, 0, 7);
    mtp__detail d = MTP__DETAIL_INIT;
    d.external_id = 5;
    span_with(t, thread, 0, 1000, "forward", MTP__CATEGORY_USER_ANNOTATION, d);
    span_with(t, stream, 4999, 8001, "forward", MTP__CATEGORY_GPU_USER_ANNOTATION, d);
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_us(scope_row(a, "forward")->device_time_total, 0);
    const mtp_row *row = find_row(a, "forward", true, true);
    assert_us(row->device_time_total, 3); /* Kineto wrote it one ns wider on either side */
    assert_us(row->p50, 3);
    finish(a, t);
}

static void
python_functions_have_rows_if_asked_for_and_count_from_the_release_that_writes_host_name(void **state)
{
    (void)state;
    mtp_averages_options with = MTP_AVERAGES_OPTIONS_INIT;
    with.include_python_functions = true;
    for (int newer = 0; newer < 2; newer++) {
        mtp_trace *t = made_begin();
        uint32_t k = made_thread(t, 100);
        made_scope(t, k, 0, 12000, "step");
        made_span(t, k, 0, 10000, "x.py(1): f", MTP__CATEGORY_PYTHON_FUNCTION);
        made_op(t, k, 1000, 2000, "aten::mm");
        made_memory(t, k, 15000, 1, 10);
        as_kineto(t, newer != 0);
        mtp_averages *a = rows_of(made_end(t));
        assert_int_equal(mtp_averages_count(a), 3);
        assert_int_equal(op_row(a, "[memory]")->count, 1);
        assert_us(scope_row(a, "step")->self_cpu_time_total,
                  newer ? 2 : 11); /* row or not, it is nested there */
        assert_int_equal(mtp_averages_left_out(a), newer);
        mtp_averages_destroy(a);
        a = rows_by(t, with);
        assert_int_equal(mtp_averages_count(a), 4);
        assert_us(op_row(a, "x.py(1): f")->self_cpu_time_total, 9);
        assert_us(scope_row(a, "step")->self_cpu_time_total, 2);
        assert_int_equal(mtp_averages_left_out(a), 0);
        finish(a, t);
    }
}

/* ------------------------------------------------------------------------------------------------ grouping */

static uint32_t shape(mtp_trace *t, const char *dims, const char *types, const char *concrete)
{
    mtp__shape s = {made_text(t, dims), 0, types != NULL ? made_text(t, types) : 0,
                    concrete != NULL ? made_text(t, concrete) : 0};
    return mtp__trace_add_shape(t, &s);
}

static void op_with(mtp_trace *t, uint32_t k, int64_t at, const char *name, uint32_t shape_id, uint32_t stack)
{
    mtp__detail d = MTP__DETAIL_INIT;
    d.shape = shape_id;
    d.stack = stack;
    span_with(t, k, at, at + 1000, name, MTP__CATEGORY_CPU_OP, d);
}

static void by_shape_a_list_of_tensors_is_empty(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    op_with(t, k, 0, "aten::cat", shape(t, "[[[2, 3], [4, 3]], []]", NULL, NULL), 0);
    op_with(t, k, 2000, "aten::cat", shape(t, "[[[5, 3]], []]", NULL, NULL), 0);
    op_with(t, k, 4000, "aten::cat", shape(t, "[[2, 3], []]", NULL, NULL), 0);
    op_with(t, k, 6000, "aten::cat", 0, 0);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_input_shape = true;
    mtp_averages *a = rows_by(made_end(t), options);
    assert_int_equal(mtp_averages_count(a), 3);
    assert_string_equal(mtp_averages_row(a, 0)->input_shapes, "[[], []]");
    assert_int_equal(mtp_averages_row(a, 0)->count, 2);
    assert_string_equal(mtp_averages_row(a, 1)->input_shapes, "[[2, 3], []]");
    assert_string_equal(mtp_averages_row(a, 2)->input_shapes, "[]");
    mtp_averages_destroy(a);
    a = rows_of(t);
    assert_int_equal(mtp_averages_count(a), 1);
    assert_string_equal(mtp_averages_row(a, 0)->input_shapes, "");
    finish(a, t);
}

static void overloads_are_part_of_names_in_torchs_files(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    static const char *const name[] = {"aten::add.Tensor", "aten::add.out",    "aten::add",
                                       "Optimizer.step",   "a::b::c.d",        "aten::add.",
                                       "aten::.Tensor",    "aten::add.Ten sor"};
    for (unsigned i = 0; i < COUNT(name); i++)
        made_op(t, k, 1000 * i, 1000 * i + 500, name[i]);
    as_kineto(t, true);
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(mtp_averages_count(a), 6);
    assert_int_equal(op_row(a, "aten::add")->count, 3);
    assert_string_equal(op_row(a, "aten::add")->overload_name, "");
    mtp_averages_destroy(a);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_overload_name = true;
    a = rows_by(t, options);
    assert_int_equal(mtp_averages_count(a), 8);
    assert_string_equal(mtp_averages_row(a, 0)->key, "aten::add");
    assert_string_equal(mtp_averages_row(a, 0)->overload_name, "Tensor");
    assert_string_equal(mtp_averages_row(a, 3)->overload_name, "");
    finish(a, t);
}

static uint32_t stack_of(mtp_trace *t, const char *const *frame, unsigned count)
{
    uint32_t at = 0;
    for (unsigned i = 0; i < count; i++) /* outermost first */
        at = mtp__trace_add_stack(t, at, made_text(t, frame[i]));
    return at;
}

static void by_stack_the_innermost_frames_tell_rows_apart(void **state)
{
    (void)state;
    static const char *const one[] = {"main.py(1): main", "torch/autograd/__init__.py(5): backward",
                                      "m.py(2): f"},
                             *const two[] = {"other.py(1): main", "m.py(2): f"};
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    op_with(t, k, 0, "op", 0, stack_of(t, one, 3));
    op_with(t, k, 2000, "op", 0, stack_of(t, two, 2));
    made_end(t);
    for (uint32_t n = 1; n < 4; n++) {
        mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
        options.by_stack = n;
        mtp_averages *a = rows_by(t, options);
        assert_int_equal(mtp_averages_count(a), n == 1 ? 1 : 2);
        const mtp_row *row = mtp_averages_row(a, 0);
        assert_int_equal(row->stack_depth, n == 1 ? 1 : 2); /* the machinery's frame is left out */
        assert_string_equal(row->stack[0], "m.py(2): f");
        if (n > 1)
            assert_string_equal(row->stack[1], "main.py(1): main");
        mtp_averages_destroy(a);
    }
    mtp_trace_destroy(t);
}

static void backward_ops_have_the_stack_of_their_forward_op(void **state)
{
    (void)state;
    static const char *const forward[] = {"model.py(3): forward"}, *const engine[] = {"train.py(9): step"};
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), other = made_thread(t, 2);
    mtp__detail d = MTP__DETAIL_INIT;
    d.sequence = 5;
    d.stack = stack_of(t, forward, 1);
    span_with(t, k, 0, 1000, "aten::mm", MTP__CATEGORY_CPU_OP, d);
    d.stack = stack_of(t, engine, 1);
    d.forward_thread = 1;
    span_with(t, other, 2000, 6000, "autograd::engine::evaluate_function: MmBackward0", MTP__CATEGORY_CPU_OP,
              d);
    span_with(t, other, 3000, 5000, "MmBackward0", MTP__CATEGORY_CPU_OP, d);
    op_with(t, other, 3500, "aten::t", 0, d.stack);
    op_with(t, other, 7000, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 0,
            d.stack);
    mtp__detail none = MTP__DETAIL_INIT;
    none.stack = d.stack;
    span_with(t, other, 7100, 7200, "torch::autograd::AccumulateGrad", MTP__CATEGORY_CPU_OP, none);
    as_kineto(t, true);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_stack = 5;
    mtp_averages *a = rows_by(made_end(t), options);
    assert_string_equal(op_row(a, "aten::t")->stack[0], forward[0]);
    assert_string_equal(op_row(a, "MmBackward0")->stack[0], forward[0]);
    assert_string_equal(op_row(a, "autograd::engine::evaluate_function: MmBackward0")->stack[0], engine[0]);
    assert_int_equal(op_row(a, "torch::autograd::AccumulateGrad")->stack_depth, 0);
    finish(a, t);
}

/* PyTorch's traces have stacks only if verbose, but Python's functions in any case. */
static void without_stacks_the_python_functions_around_may_be_them(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), other = made_thread(t, 2);
    made_span(t, k, 0, 9000, "main.py(1): <module>", MTP__CATEGORY_PYTHON_FUNCTION);
    made_span(t, k, 100, 4000, "torch/autograd/__init__.py(5): backward", MTP__CATEGORY_PYTHON_FUNCTION);
    made_span(t, k, 200, 3000, "m.py(2): f", MTP__CATEGORY_PYTHON_FUNCTION);
    made_autograd(t, k, 300, 2000, "aten::mm", 5, 0);
    made_op(t, k, 400, 500, "aten::t");
    made_op(t, k, 5000, 6000, "aten::t");
    made_autograd(t, other, 10000, 20000, "MmBackward0", 5, 1);
    made_op(t, other, 11000, 12000, "aten::mul");
    as_kineto(t, true);
    made_end(t);
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_stack = 5;
    mtp_averages *a = rows_by(t, options);
    assert_int_equal(op_row(a, "aten::mm")->stack_depth, 0); /* as torch does */
    mtp_averages_destroy(a);
    options.python_stacks = true;
    a = rows_by(t, options);
    static const char *const ops[] = {"aten::mm", "MmBackward0", "aten::mul", "aten::t"};
    for (size_t i = 0; i < COUNT(ops); i++) {
        assert_int_equal(op_row(a, ops[i])->stack_depth, 2); /* the machinery's is left out */
        assert_string_equal(op_row(a, ops[i])->stack[0], "m.py(2): f");
        assert_string_equal(op_row(a, ops[i])->stack[1], "main.py(1): <module>");
    }
    size_t rows = mtp_averages_count(a);
    assert_int_equal(mtp_averages_row(a, rows - 1)->stack_depth, 2);
    int told_apart = 0;
    for (size_t i = 0; i < rows; i++)
        told_apart += strcmp(mtp_averages_row(a, i)->key, "aten::t") == 0;
    assert_int_equal(told_apart, 2);
    mtp_averages_destroy(a);
    options.by_stack = 1;
    a = rows_by(t, options);
    assert_int_equal(op_row(a, "aten::mm")->stack_depth, 1);
    finish(a, t);
}

static void top_level_only_leaves_out_what_has_a_parent(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    made_op(t, k, 0, 9000, "a");
    made_op(t, k, 1000, 2000, "b");
    made_op(t, k, 10000, 12000, "b");
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.top_level_only = true;
    mtp_averages *a = rows_by(made_end(t), options);
    assert_int_equal(op_row(a, "b")->count, 1);
    assert_us(op_row(a, "b")->cpu_time_total, 2);
    assert_us(op_row(a, "a")->self_cpu_time_total, 8);
    finish(a, t);
}

/* --------------------------------------------------------------------------------------------------- FLOPs */

static void coverage_is_the_share_of_op_time_with_known_flops(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), mm = shape(t, "[[4, 5], [5, 6]]", "[\"float\", \"float\"]", NULL);
    made_scope(t, k, 0, 9000, "not an op");
    op_with(t, k, 1000, "aten::mm", mm, 0);
    op_with(t, k, 3000, "aten::view", 0, 0);
    op_with(t, k, 5000, "my::op", mm, 0);
    op_with(t, k, 7000, "aten::mm", 0, 0);
    t->flags_recorded = MTP_WITH_FLOPS;
    mtp_averages *a = rows_of(made_end(t));
    assert_us(mtp_averages_flops_coverage(a), 0.5);
    assert_int_equal(op_row(a, "aten::mm")->flops, 240);
    mtp_averages_destroy(a);
    t->flags_recorded = 0; /* not asked for: torch has 0 then */
    a = rows_of(t);
    assert_int_equal(op_row(a, "aten::mm")->flops, 0);
    finish(a, t);
    t = made_begin();
    k = made_thread(t, 1);
    made_op(t, k, 0, 3000, "aten::view");
    made_op(t, k, 5000, 6000, "aten::mm");
    a = rows_of(made_end(t));
    assert_us(mtp_averages_flops_coverage(a), 0.75);
    finish(a, t);
}

static void flops_that_were_given_count_as_they_are(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    mtp__detail d = MTP__DETAIL_INIT;
    d.flops = 77;
    d.shape = shape(t, "[[1]]", NULL, NULL);
    span_with(t, k, 0, 10, "my::op", MTP__CATEGORY_CPU_OP, d);
    mtp_averages *a = rows_of(made_end(t));
    assert_int_equal(op_row(a, "my::op")->flops, 77);
    assert_us(mtp_averages_flops_coverage(a), 1);
    finish(a, t);
}

/* --------------------------------------------------------------------------------------------- sort, total */

static mtp_trace *some_rows(void)
{
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), stream = made_stream(t, 0, 0);
    made_op(t, k, 0, 3000, "a");
    made_op(t, k, 4000, 5000, "b");
    made_op(t, k, 6000, 7000, "b");
    made_op(t, k, 8000, 10000, "c");
    made_span(t, stream, 0, 500, "k", MTP__CATEGORY_KERNEL);
    made_memory(t, k, 4500, 1, 64);
    return made_end(t);
}

static void rows_sort_by_torchs_attributes_largest_first_and_stable(void **state)
{
    (void)state;
    mtp_trace *t = some_rows();
    mtp_averages *a = rows_of(t);
    static const char *const by[][2] = {{"cpu_time_total", "a"},
                                        {"count", "b"},
                                        {"cpu_time", "a"},
                                        {"cpu_time_avg", "a"},
                                        {"self_cuda_time_total", "k"},
                                        {"npu_time_total", "k"},
                                        {"self_privateuse1_time_total", "k"},
                                        {"xpu_time", "k"},
                                        {"cpu_memory_usage", "b"},
                                        {"max", "a"}};
    for (unsigned i = 0; i < COUNT(by); i++) {
        assert_ok(mtp_averages_sort(a, by[i][0]));
        assert_string_equal(mtp_averages_row(a, 0)->key, by[i][1]);
    }
    mtp_averages_destroy(a);
    a = rows_of(t);
    assert_ok(mtp_averages_sort(a, "cpu_time_total"));
    assert_string_equal(mtp_averages_row(a, 1)->key, "b"); /* 2 us, as c, and it was before it */
    assert_int_equal(mtp_averages_sort(a, "wall_time"), MTP_E_ARG);
    assert_says("wall_time");
    assert_says("self_cpu_time_total");
    assert_int_equal(mtp_averages_sort(a, "cudacudacudacudacudacudacudacudacudacudacudacudacudacuda"),
                     MTP_E_ARG);
    assert_int_equal(mtp_averages_sort(a, NULL), MTP_E_ARG);
    mtp_row total;
    mtp_averages_total(a, &total);
    assert_string_equal(total.key, "Total");
    assert_int_equal(total.count, 5);
    assert_us(total.cpu_time_total, 7);
    assert_us(total.device_time_total, 0.5);
    assert_int_equal(total.cpu_memory_usage, 64);
    finish(a, t);
}

/* ------------------------------------------------------------------------------------------------- the rest */

static void an_empty_trace_has_no_rows(void **state)
{
    (void)state;
    mtp_trace *t = made_end(made_begin());
    mtp_averages *a = rows_of(t);
    mtp_row total;
    mtp_averages_total(a, &total);
    assert_int_equal(mtp_averages_count(a), 0);
    assert_int_equal(total.count, 0);
    assert_us(mtp_averages_flops_coverage(a), 0);
    finish(a, t);
    mtp_averages_destroy(NULL);
    assert_int_equal(mtp_averages_count(NULL), 0);
}

static void what_is_not_right_is_refused(void **state)
{
    (void)state;
    mtp_trace *t = some_rows();
    mtp_averages *a = (mtp_averages *)&t;
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.size--;
    assert_int_equal(mtp_averages_create(t, &options, &a), MTP_E_ABI);
    assert_null(a);
    assert_int_equal(mtp_averages_create(NULL, NULL, &a), MTP_E_ARG);
    assert_int_equal(mtp_averages_create(t, NULL, NULL), MTP_E_ARG);
    mtp_trace_destroy(t);
}

static void a_live_profile_has_averages(void **state)
{
    (void)state;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    assert_ok(mtp_profile_create(&config, &prof));
    assert_ok(mtp_profile_start(prof));
    for (int i = 0; i < 100; i++)
        MTP_SCOPE ("outer") {
            MTP_SCOPE ("inner") {
            }
        }
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_averages *a = rows_of(t);
    const mtp_row *outer = scope_row(a, "outer"), *inner = scope_row(a, "inner");
    assert_int_equal(outer->count, 100);
    assert_us(outer->self_cpu_time_total + inner->cpu_time_total, outer->cpu_time_total);
    assert_true(inner->min <= inner->p50 && inner->p50 <= inner->p99 && inner->p99 <= inner->max);
    finish(a, t);
    mtp_profile_destroy(prof);
}

/* Something of everything. */
static mtp_trace *rich_trace(bool kineto)
{
    static const char *const frame[] = {"f.py(1): f", "g.py(2): g"};
    mtp_trace *t = made_begin();
    uint32_t thread = made_thread(t, 100), other = made_thread(t, 101), stream = made_stream(t, 0, 7);
    made_scope(t, thread, 0, 100000, "ProfilerStep#1");
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "aten::op%u", i % 70);
        launch(t, thread, stream, 1000 + 500 * (int64_t)i, 100, 1 + i);
        op_with(t, other, 3000 * (int64_t)i, name, shape(t, "[[4, 5], [5, 6]]", NULL, NULL),
                stack_of(t, frame, 2));
        made_memory(t, other, 3000 * (int64_t)i, i, 10);
    }
    for (int i = 0; i < 100; i++)
        made_op(t, other, 1000000 + i, 2000000 - i, "deep");
    mtp__detail stray = MTP__DETAIL_INIT;
    stray.correlation = 3;
    span_with(t, other, 400000, 401000, "cudaDeviceSynchronize", MTP__CATEGORY_CUDA_RUNTIME, stray);
    t->flags_recorded = MTP_WITH_FLOPS;
    if (kineto)
        as_kineto(t, true);
    return made_end(t);
}

static void no_allocation_that_fails_is_forgotten(void **state)
{
    (void)state;
    for (int way = 0; way < 6; way++) {
        mtp_trace *t = way == 5 ? some_rows() : rich_trace(way % 2 != 0);
        mtp_trace *plain = made_begin();
        uint32_t k = made_thread(plain, 1);
        made_op(plain, k, 0, 1000000, "a");
        for (int i = 0; i < 300; i++) {
            char name[16];
            snprintf(name, sizeof name, "op%d", i);
            made_op(plain, k, 10 + i * 1000, 500 + i * 1000, name);
        }
        made_end(plain);
        mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
        options.by_input_shape = options.by_overload_name = way >= 2 && way < 4;
        options.by_stack = way >= 2 && way < 4 ? 3 : 0;
        long before = mtp__alloc_live();
        int nth = 1;
        for (bool done = false; !done; nth++) {
            mtp_averages *a;
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, nth % 2 != 0);
            mtp_status status = mtp_averages_create(way == 4 ? plain : t, &options, &a);
            done = mtp__fault_stop() == 0;
            assert_int_equal(status, done ? MTP_OK : MTP_E_NOMEM);
            if (status == MTP_OK && nth % 2 == 0)
                assert_ok(mtp_averages_sort(a, "count"));
            mtp_averages_destroy(a);
            assert_int_equal(mtp__alloc_live(), before);
        }
        assert_true(nth > 8);
        mtp_averages *a;
        assert_ok(mtp_averages_create(t, NULL, &a));
        for (nth = 1; nth < 5; nth++) {
            mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, false);
            mtp_status status = mtp_averages_sort(a, "count");
            assert_int_equal(status, mtp__fault_stop() == 0 ? MTP_OK : MTP_E_NOMEM);
        }
        finish(a, t);
        mtp_trace_destroy(plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(self_time_is_what_direct_children_leave),
        TEST(rows_come_in_the_order_of_their_first_events_over_all_threads),
        TEST(a_span_that_is_outlasted_is_no_parent_from_then_on),
        TEST(threads_do_not_nest_in_each_other),
        TEST(an_only_child_of_the_same_name_is_absorbed_with_all_its_generations),
        TEST(one_of_two_children_is_not_absorbed_whichever_comes_first),
        TEST(a_scope_absorbs_an_op_of_its_name_and_stays_a_scope),
        TEST(steps_are_one_row_and_utility_ops_are_none),
        TEST(random_traces_follow_the_rules),
        TEST(many_events_of_one_row_have_exact_quantiles),
        TEST(deep_nesting_and_many_names_need_no_special_care),
        TEST(deep_recursion_takes_little_memory),
        TEST(memory_is_of_all_spans_that_are_open_whichever_thread_allocates),
        TEST(allocations_that_failed_are_a_row),
        TEST(device_time_is_of_the_op_and_of_all_around_it),
        TEST(an_absorbed_childs_device_work_replaces_its_parents),
        TEST(work_is_counted_once_and_for_the_op_that_launched_it),
        TEST(kernels_whose_ids_are_correlations_go_to_the_op_around_their_launch),
        TEST(a_launch_outside_of_any_op_has_the_time_of_its_work),
        TEST(torchs_ids_meet_by_number_alone),
        TEST(a_call_whose_id_is_its_correlation_has_no_op_by_it),
        TEST(overhead_takes_the_id_of_what_is_open_on_the_main_thread_even_if_it_is_the_devices),
        TEST(annotations_on_the_device_are_rows_that_launch_nothing),
        TEST(python_functions_have_rows_if_asked_for_and_count_from_the_release_that_writes_host_name),
        TEST(by_shape_a_list_of_tensors_is_empty),
        TEST(overloads_are_part_of_names_in_torchs_files),
        TEST(by_stack_the_innermost_frames_tell_rows_apart),
        TEST(backward_ops_have_the_stack_of_their_forward_op),
        TEST(without_stacks_the_python_functions_around_may_be_them),
        TEST(top_level_only_leaves_out_what_has_a_parent),
        TEST(coverage_is_the_share_of_op_time_with_known_flops),
        TEST(flops_that_were_given_count_as_they_are),
        TEST(rows_sort_by_torchs_attributes_largest_first_and_stable),
        TEST(an_empty_trace_has_no_rows),
        TEST(what_is_not_right_is_refused),
        TEST(a_live_profile_has_averages),
        TEST(no_allocation_that_fails_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
