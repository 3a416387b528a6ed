/* Unit: analyze/averages and analyze/torch: nesting, sums, order. */
#include "tests/unit/averages_rows.h"

/* -------------------------------------------------------------------------------------------------
 * nesting */

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
    made_op(t, k, 6000, 7000, "c");   /* in b now, though also in a */
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

static void python_functions_that_call_themselves_are_counted_each_time(void **state)
{
    (void)state;
    mtp_averages_options with = MTP_AVERAGES_OPTIONS_INIT;
    with.include_python_functions = true;
    for (int torchs = 0; torchs < 2; torchs++) {
        mtp_trace *t = made_begin();
        uint32_t k = made_thread(t, 1);
        for (int i = 0; i < 5; i++)
            made_span(t, k, i * 1000, 10000 - i * 1000, "x.py(1): f", MTP__CATEGORY_PYTHON_FUNCTION);
        if (torchs)
            as_kineto(t, true);
        mtp_averages *a = rows_by(made_end(t), with);
        const mtp_row *row = op_row(a, "x.py(1): f");
        assert_int_equal(row->count, torchs ? 1 : 5);
        assert_us(row->cpu_time_total, torchs ? 10 : 30);
        assert_us(row->self_cpu_time_total, 10);
        finish(a, t);
    }
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
    made_op(t, k, 2000, 3000, "x"); /* of the step, which has no parent */
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

/* As in torch's Python, slowly. The events of a thread are in order. */
static void nest(event *e, int count)
{
    for (int i = 0; i < count; i++) {
        e[i].parent = -1;
        int at = i - 1;
        while (at >= 0 && e[at].thread == e[i].thread) {
            if (e[i].start >= e[at].end || e[i].end > e[at].end) {
                at = e[at].parent; /* popped for good: its parent is next on the stack */
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

/* Nested at random, with few names, so that names nest in themselves; times from a few ns to seconds. */
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

/* A function that calls itself a million times: 64 bytes per open call suffice, 160 in a trace with memory
 * events. */
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
                         DEPTH / 3 * 2); /* an f inside an f counts once */
        mtp_averages_destroy(a);
        mtp_trace_destroy(t);
    }
}

/* --------------------------------------------------------------------------------------------- sort,
 * total */

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
    assert_string_equal(mtp_averages_row(a, 1)->key, "b"); /* 2 us, like c, which it precedes */
    assert_int_equal(mtp_averages_sort(a, "wall_time"), MTP_E_ARG);
    assert_says("wall_time");
    assert_says("self_cpu_time_total");
    assert_int_equal(mtp_averages_sort(a, "cudacudacudacudacudacudacudacudacudacudacudacudacudacuda"),
                     MTP_E_ARG);
    assert_int_equal(mtp_averages_sort(a, NULL), MTP_E_ARG);
    mtp_row total = *mtp_averages_total(a);
    assert_string_equal(total.key, "Total");
    assert_int_equal(total.count, 5);
    assert_us(total.cpu_time_total, 7);
    assert_us(total.device_time_total, 0.5);
    assert_int_equal(total.cpu_memory_usage, 64);
    finish(a, t);
}

/* ------------------------------------------------------------------------------------------------- the
 * rest */

static void an_empty_trace_has_no_rows(void **state)
{
    (void)state;
    mtp_trace *t = made_end(made_begin());
    mtp_averages *a = rows_of(t);
    assert_int_equal(mtp_averages_count(a), 0);
    assert_int_equal(mtp_averages_total(a)->count, 0);
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
    options.size = 8;
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

/* A bit of everything. */
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
        TEST(python_functions_that_call_themselves_are_counted_each_time),
        TEST(one_of_two_children_is_not_absorbed_whichever_comes_first),
        TEST(a_scope_absorbs_an_op_of_its_name_and_stays_a_scope),
        TEST(steps_are_one_row_and_utility_ops_are_none),
        TEST(random_traces_follow_the_rules),
        TEST(many_events_of_one_row_have_exact_quantiles),
        TEST(deep_nesting_and_many_names_need_no_special_care),
        TEST(deep_recursion_takes_little_memory),
        TEST(rows_sort_by_torchs_attributes_largest_first_and_stable),
        TEST(an_empty_trace_has_no_rows),
        TEST(what_is_not_right_is_refused),
        TEST(a_live_profile_has_averages),
        TEST(no_allocation_that_fails_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
