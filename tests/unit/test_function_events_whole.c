/* Unit: analyze/events: agreement with averages, columns, invalid or large input, threads, leaks. */
#define _GNU_SOURCE
#include "tests/unit/event_lists.h"

/* ------------------------------------------------------------------------------------------- agreement */

/* The number behind `"events": ` of a gold file, or the sum of its rows' counts; -1: none. */
static int64_t gold_events(const char *path)
{
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return -1;
    size_t room = (size_t)64 << 20;
    char *text = calloc(1, room);
    int got = gzread(file, text, (unsigned)room - 1);
    gzclose(file);
    int64_t events = -1;
    char *told = got > 0 ? strstr(text, "\"events\":") : NULL;
    if (told != NULL) {
        events = strtoll(told + 9, NULL, 10);
    } else if (got > 0) {
        char *rows = strstr(text, "\"rows\":"), *end = rows != NULL ? strstr(rows, "\"rows_by_") : NULL;
        if (end != NULL)
            *end = 0;
        events = 0;
        for (char *p = rows; p != NULL && (p = strstr(p, "\"count\":")) != NULL; p += 8)
            events += strtoll(p + 8, NULL, 10);
    }
    free(text);
    return events;
}

static int golds;

static void check_gold(const char *folder, const char *name)
{
    char path[1024], gold[1024];
    mtp_trace *t;
    size_t length = strlen(name);
    if (length < 8 || strcmp(name + length - 8, ".json.gz") != 0 || strstr(name, ".gold.") != NULL)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(gold, sizeof gold, "%s/%.*s.gold.json.gz", folder, (int)(length - 8), name);
    int64_t want = gold_events(gold);
    assert_ok(mtp_trace_open(path, NULL, &t));
    mtp_events *e = events_of(t);
    print_message("# %s: %zu events, torch %lld\n", name, count_of(e), (long long)want);
    if (want >= 0)
        assert_int_equal(count_of(e), want);
    assert_agrees(t, e, true);
    assert_tree(e);
    golds += want >= 0;
    finish(e, t);
}

static void torchs_own_traces_have_torchs_events_and_sums(void **state)
{
    (void)state;
    static const char *const folder[] = {TEST_ROOT "/tests/golden/torch", TEST_ROOT "/../shared/data"};
    for (size_t i = 0; i < COUNT(folder); i++) {
        DIR *dir = opendir(folder[i]);
        for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;)
            check_gold(folder[i], d->d_name);
        if (dir != NULL)
            closedir(dir);
    }
    assert_true(golds >= 15);
}

/* Nested, overlapping and equal spans of few names, with memory, device work and failed allocations. */
static mtp_trace *random_trace(bool kineto)
{
    static const char *const name[] = {"a", "b", "ProfilerStep#1", "aten::add.out", "aten::is_leaf", "c"};
    static const mtp__category category[] = {MTP__CATEGORY_CPU_OP,          MTP__CATEGORY_CPU_OP,
                                             MTP__CATEGORY_USER_ANNOTATION, MTP__CATEGORY_CUDA_RUNTIME,
                                             MTP__CATEGORY_PYTHON_FUNCTION, MTP__CATEGORY_OVERHEAD};
    mtp_trace *t = made_begin();
    t->format = kineto ? MTP_FORMAT_KINETO : MTP_FORMAT_RECORDING;
    if (test_below(2) != 0)
        mtp__trace_add_meta(t, "host_name", 9, "\"x\"", 3);
    uint32_t track[4] = {made_thread(t, 100), made_thread(t, 7), made_stream(t, 0, 7), made_stream(t, 1, 8)};
    for (uint64_t i = test_below(60); i > 0; i--) {
        mtp__detail d = MTP__DETAIL_INIT;
        int64_t start = (int64_t)test_below(80), end = start + (int64_t)test_below(60);
        d.correlation = test_below(6);
        d.external_id = kineto ? test_below(6) : 0;
        if (test_below(4) > 0)
            span_with(t, track[test_below(2)], start, end, name[test_below(COUNT(name))],
                      category[test_below(COUNT(category))], d);
        else
            span_with(t, track[2 + test_below(2)], start, end, name[test_below(COUNT(name))],
                      (mtp__category)(MTP__CATEGORY_KERNEL + test_below(5)), d);
    }
    for (uint64_t i = test_below(10); i > 0; i--)
        made_memory_of(t, track[test_below(2)], (int64_t)test_below(150), 1, (int64_t)test_below(200) - 100,
                       -1, test_below(2) != 0 ? 1 : 0, 0);
    mtp__instant failed = {.ts = 40, .name = made_text(t, "[OutOfMemory]"), .scope = 't'};
    if (test_below(3) == 0)
        mtp__trace_add_instant(t, &failed);
    return made_end(t);
}

static void random_traces_agree_with_their_averages(void **state)
{
    (void)state;
    for (int i = 0; i < test_scaled(3000); i++) {
        bool kineto = i % 2 != 0;
        mtp_trace *t = random_trace(kineto);
        mtp_events *e = events_of(t);
        assert_agrees(t, e, kineto);
        assert_tree(e);
        finish(e, t);
    }
}

static void live_sessions_spools_and_files_have_the_same_events(void **state)
{
    (void)state;
    mtp_profile_config config = test_config(NULL);
    config.record_shapes = config.profile_memory = true;
    config.spool = test_path("events.mtp");
    mtp_profile *prof = test_start(&config);
    int64_t dims[] = {4, 6};
    mtp_input inputs[2] = {{.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims},
                           {.kind = MTP_INPUT_INT}};
    for (int i = 0; i < 3; i++) {
        MTP_SCOPE ("forward") {
            mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
            op.inputs = inputs;
            op.input_count = 2;
            op.allocated = 100;
            mtp_op_begin(&op);
            mtp_memory_event(MTP_DEVICE_CPU, &op, 64, 64, 64);
            op.allocated = 164;
            mtp_op_end(&op);
        }
        mtp_memory_event(MTP_DEVICE_CPU, &config, -64, 0, 64);
        if (i == 1) { /* while it records */
            mtp_trace *t;
            assert_ok(mtp_profile_trace(prof, &t));
            mtp_events *e = events_of(t);
            assert_int_equal(count_of(e), 6);
            assert_agrees(t, e, false);
            finish(e, t);
        }
        assert_ok(mtp_profile_step(prof));
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t[3];
    assert_ok(mtp_profile_trace(prof, &t[0]));
    assert_ok(mtp_trace_open(config.spool, NULL, &t[1]));
    assert_ok(mtp_trace_export(t[0], test_path("events.json"), NULL));
    assert_ok(mtp_trace_open(test_path("events.json"), NULL, &t[2]));
    for (int k = 0; k < 3; k++) {
        mtp_events *e = events_of(t[k]);
        assert_names(e, "forward aten::mm [memory] forward aten::mm [memory] forward aten::mm [memory]");
        for (size_t i = 0; i < 9; i++) {
            mtp_event v = at(e, i);
            if (v.kind != MTP_EVENT_MEMORY || k < 2) /* in a file, steps come from its spans */
                assert_int_equal(v.step, i / 3);
            assert_int_equal(v.thread, 1);
            assert_true(v.start_ns >= 0);
            assert_int_equal(v.parent, i % 3 == 1 ? i - 1 : MTP_NO_EVENT);
        }
        mtp_event mm = at(e, 4);
        assert_text(mm.input_dims, "[[4, 6], []]");
        assert_int_equal(mm.allocated_before, 100);
        assert_int_equal(mm.allocated_after, 164);
        assert_int_equal(mm.cpu_memory_usage, 64);
        assert_int_equal(at(e, 5).cpu_memory_usage, -64);
        assert_agrees(t[k], e, false);
        assert_tree(e);
        finish(e, t[k]);
    }
    mtp_profile_destroy(prof);
}

static uint64_t coarse_now;
static uint64_t coarse_clock(void)
{
    return coarse_now;
}

static void memory_freed_in_the_tick_of_an_end_is_not_inside(void **state)
{
    (void)state;
    mtp_profile_config config = test_config(NULL);
    config.profile_memory = true;
    coarse_now = 1000;
    mtp__clock_hook_set(coarse_clock);
    mtp_profile *prof = test_start(&config);
    for (int i = 0; i < 2; i++) { /* with an op, and with a scope that the reader handles in a batch */
        mtp_op op = MTP_OP_INIT(mtp_name("aten::mm"));
        mtp_token token = 0;
        coarse_now += 1000;
        if (i == 0)
            mtp_op_begin(&op);
        else
            token = mtp_scope_begin(mtp_name("scope"));
        mtp_memory_event(MTP_DEVICE_CPU, &op, 64, 64, 64); /* in the same tick as a begin: inside */
        coarse_now += 1000;
        if (i == 0)
            mtp_op_end(&op);
        mtp_scope_end(token);
        mtp_memory_event(MTP_DEVICE_CPU, &op, -64, 0, 64);
    }
    coarse_now += 1000;
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_events *e = events_of(t);
    assert_names(e, "aten::mm [memory] scope [memory]");
    assert_int_equal(at(e, 0).cpu_memory_usage, 64);
    assert_int_equal(at(e, 2).cpu_memory_usage, 64);
    finish(e, t);
    mtp_profile_destroy(prof);
}

/* ------------------------------------------------------------------------------------------- columns */

static const mtp_column *column(const mtp_columns *c, const char *table, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->column[i].table, table) == 0 && strcmp(c->column[i].name, name) == 0)
            return &c->column[i];
    fail_msg("no column %s.%s", table, name);
    return NULL;
}

static int64_t value(const mtp_column *c, size_t row)
{
    const char *p = (const char *)c->data + row * c->stride;
    bool is_signed = c->type == 'i';
    assert_true(row < c->count);
    switch (c->bytes) {
    case 1:
        return *(const uint8_t *)p;
    case 2:
        return is_signed ? *(const int16_t *)p : *(const uint16_t *)p;
    case 4:
        return is_signed ? (int64_t) * (const int32_t *)p : (int64_t) * (const uint32_t *)p;
    default:
        return *(const int64_t *)p;
    }
}

static void columns_are_the_models_own_arrays(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 7), stream = made_stream(t, 0, 8);
    made_autograd(t, k, 5, 25, "b", 42, 0);
    made_op(t, k, 0, 30, "a");
    made_span(t, stream, 3, 4, "k", MTP__CATEGORY_KERNEL);
    made_memory_of(t, k, 11, 0xabc, -64, 128, 20, 3);
    made_end(t);
    mtp_columns c = {.size = sizeof c};
    assert_ok(mtp_trace_columns(t, &c));
    assert_true(c.count < MTP_COLUMNS_MAX);
    assert_ptr_equal(column(&c, "spans", "start")->data, t->start);
    assert_ptr_equal(column(&c, "spans", "parent")->data, t->parent);
    assert_int_equal(column(&c, "spans", "start")->count, 3);
    assert_int_equal(column(&c, "spans", "start")->type, 'i');
    assert_int_equal(column(&c, "spans", "category")->bytes, 1);
    assert_int_equal(value(column(&c, "spans", "end"), 1), 25);
    assert_int_equal(value(column(&c, "spans", "parent"), 1), 0);
    assert_int_equal(
        value(column(&c, "details", "sequence"), (size_t)value(column(&c, "spans", "detail"), 1)), 42);
    assert_int_equal(value(column(&c, "tracks", "first"), 1), 2);
    assert_int_equal(value(column(&c, "tracks", "on_device"), 1), 1);
    assert_int_equal(value(column(&c, "tracks", "tid"), 1), 8);
    assert_int_equal(value(column(&c, "memory", "address"), 0), 0xabc);
    assert_int_equal(value(column(&c, "memory", "bytes"), 0), -64);
    assert_int_equal(value(column(&c, "memory", "total_allocated"), 0), 128);
    assert_int_equal(value(column(&c, "memory", "device_type"), 0), 20);
    assert_int_equal(value(column(&c, "memory", "device_index"), 0), 3);
    assert_int_equal(column(&c, "steps", "start")->count, 0);
    assert_null(column(&c, "steps", "start")->data);
    assert_int_equal(column(&c, "instants", "value")->type, 'f');
    for (size_t i = 0; i < c.count; i++)
        assert_true((c.column[i].data != NULL) == (c.column[i].count > 0) &&
                    c.column[i].stride >= c.column[i].bytes);
    size_t length;
    assert_string_equal(mtp_trace_name(t, (uint32_t)value(column(&c, "spans", "name"), 1), &length), "b");
    assert_int_equal(length, 1);
    assert_string_equal(mtp_trace_name(t, 0, NULL), "");
    assert_string_equal(mtp_trace_name(t, UINT32_MAX, &length), "");
    assert_string_equal(mtp_trace_name(t, (uint32_t)mtp_trace_name_count(t), &length), "");
    assert_string_equal(mtp_trace_name(NULL, 1, &length), "");
    assert_string_equal(mtp_category_text((uint32_t)value(column(&c, "spans", "category"), 2)), "kernel");
    assert_string_equal(mtp_category_text(200), "");
    mtp_trace_destroy(t);
    t = made_end(made_begin());
    assert_ok(mtp_trace_columns(t, &c));
    assert_int_equal(column(&c, "spans", "start")->count, 0);
    assert_int_equal(column(&c, "spans", "detail")->count, 0);
    mtp_trace_destroy(t);
}

/* -------------------------------------------------------------------------------- what is wrong or large */

static void what_is_not_right_is_refused(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    made_op(t, made_thread(t, 1), 0, 1, "a");
    made_end(t);
    mtp_events *e = (mtp_events *)(uintptr_t)8;
    assert_int_equal(mtp_events_create(NULL, &e), MTP_E_ARG);
    assert_int_equal(mtp_events_create(t, NULL), MTP_E_ARG);
    mtp_events_destroy(NULL);
    e = events_of(t);
    mtp_event v = {.size = sizeof v};
    size_t n, m;
    mtp_event_kernel kernel = {.size = sizeof kernel};
    assert_int_equal(mtp_events_get(e, 1, &v), MTP_E_ARG);
    assert_says("there is no event 1");
    assert_int_equal(mtp_events_get(e, SIZE_MAX, &v), MTP_E_ARG);
    assert_int_equal(mtp_events_get(e, (size_t)1 << 32, &v), MTP_E_ARG);
    assert_int_equal(mtp_events_get(e, 0, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_get(NULL, 0, &v), MTP_E_ARG);
    v.size = 8;
    assert_int_equal(mtp_events_get(e, 0, &v), MTP_E_ABI);
    v.size = sizeof v;
    assert_int_equal(mtp_events_count(e, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_count(NULL, &n), MTP_E_ARG);
    assert_int_equal(mtp_events_child(e, 1, &n), MTP_E_ARG);
    assert_int_equal(mtp_events_sibling(e, 0, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_kernel(e, 0, 0, &kernel), MTP_E_ARG);
    assert_int_equal(mtp_events_kernel(e, 0, 0, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_stack(e, 0, NULL, 1, &n), MTP_E_ARG);
    assert_int_equal(mtp_events_stack(e, 0, NULL, 0, NULL), MTP_E_ARG);
    assert_int_equal(mtp_events_stack(e, 9, NULL, 0, &n), MTP_E_ARG);
    assert_int_equal(mtp_events_inputs(e, 0, (mtp_input_lists)9, NULL, 0, &n, NULL, 0, &m), MTP_E_ARG);
    assert_int_equal(mtp_events_inputs(e, 0, MTP_INPUT_DIMS, NULL, 1, &n, NULL, 0, &m), MTP_E_ARG);
    assert_int_equal(mtp_events_zero_ns(NULL), 0);
    mtp_columns c = {.size = 8};
    assert_int_equal(mtp_trace_columns(t, &c), MTP_E_ABI);
    assert_int_equal(mtp_trace_columns(NULL, &c), MTP_E_ARG);
    assert_int_equal(mtp_trace_columns(t, NULL), MTP_E_ARG);
    finish(e, t);
}

static void times_of_any_size_and_empty_traces_do_no_harm(void **state)
{
    (void)state;
    for (int kineto = 0; kineto < 2; kineto++) {
        mtp_trace *t = made_begin();
        t->format = kineto != 0 ? MTP_FORMAT_KINETO : MTP_FORMAT_RECORDING;
        uint32_t k = made_thread(t, INT64_MIN), device = made_stream(t, INT64_MAX, INT64_MIN);
        made_thread(t, INT64_MAX); /* empty */
        made_op(t, k, INT64_MIN, INT64_MAX, "all");
        made_op(t, k, INT64_MIN + 1, -5, "a");
        made_op(t, k, -4, INT64_MAX, "b");
        made_span(t, device, INT64_MIN, INT64_MAX, "k", MTP__CATEGORY_GPU_USER_ANNOTATION);
        made_memory(t, MTP__NONE, INT64_MAX, 1, INT64_MIN);
        made_memory(t, 77, INT64_MIN, 1, INT64_MAX);
        mtp__detail d = MTP__DETAIL_INIT;
        d.forward_thread = UINT64_MAX;
        d.sequence = INT64_MAX;
        span_with(t, k, INT64_MAX, INT64_MAX, "end", MTP__CATEGORY_CPU_OP, d);
        mtp_events *e = events_of(made_end(t));
        assert_int_equal(count_of(e), 6); /* nothing covers the very last instant */
        for (size_t i = 0; i < 6; i++) {
            at(e, i);
            child_of(e, i);
        }
        finish(e, t);
        t = made_begin();
        t->format = kineto != 0 ? MTP_FORMAT_KINETO : MTP_FORMAT_RECORDING;
        made_thread(t, 1);
        e = events_of(made_end(t));
        assert_int_equal(count_of(e), 0);
        finish(e, t);
        t = made_begin(); /* nothing but memory */
        made_memory(t, made_thread(t, 5), 7, 1, 8);
        e = events_of(made_end(t));
        assert_names(e, "[memory]");
        assert_int_equal(at(e, 0).thread, 1);
        finish(e, t);
    }
}

static void deep_nesting_and_many_threads_stay_linear(void **state)
{
    (void)state;
    const int64_t many = test_scaled(1000000); /* if not linear, it would exceed the timeout */
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    for (int64_t i = 0; i < many; i++)
        made_op(t, k, i, 2 * many - i, i % 2 != 0 ? "a" : "b");
    for (int64_t i = 0; i < 5000; i++)
        made_op(t, made_thread(t, 2 + i), i, i + 10, "c");
    mtp_events *e = events_of(made_end(t));
    assert_int_equal(count_of(e), many + 5000);
    size_t deepest = find(e, "a", 0), depth = 0;
    for (size_t next; (next = child_of(e, deepest)) != MTP_NO_EVENT; depth++)
        deepest = next;
    assert_int_equal(depth, many - 2);
    finish(e, t);
}

/* -------------------------------------------------------------------------------------- at the same time */

typedef struct reader {
    mtp_events *e;
    pthread_barrier_t *start;
    double sum;
    int wrong;
} reader;

static void *read_all(void *arg)
{
    reader *r = arg;
    size_t count, child, depth;
    pthread_barrier_wait(r->start);
    r->wrong += mtp_events_count(r->e, &count) != MTP_OK;
    for (size_t i = 0; i < count && r->wrong == 0; i++) {
        mtp_event v;
        v.size = sizeof v;
        r->wrong += mtp_events_get(r->e, i, &v) != MTP_OK;
        r->wrong += mtp_events_child(r->e, i, &child) != MTP_OK;
        r->wrong += mtp_events_stack(r->e, i, NULL, 0, &depth) != MTP_OK;
        r->sum += v.self_cpu_time_total + (double)v.key.length + (child != MTP_NO_EVENT ? 1 : 0);
    }
    return NULL;
}

static void many_threads_may_ask_first(void **state)
{
    (void)state;
    for (int round = 0; round < test_scaled(20); round++) {
        mtp_trace *t = random_trace(round % 2 != 0);
        pthread_barrier_t start;
        pthread_t thread[4];
        reader r[4];
        mtp_events *e = events_of(t);
        pthread_barrier_init(&start, NULL, COUNT(r));
        for (size_t i = 0; i < COUNT(r); i++) {
            r[i] = (reader){.e = e, .start = &start};
            assert_int_equal(pthread_create(&thread[i], NULL, read_all, &r[i]), 0);
        }
        for (size_t i = 0; i < COUNT(r); i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(r[i].wrong, 0);
            assert_true(r[i].sum == r[0].sum);
        }
        pthread_barrier_destroy(&start);
        finish(e, t);
    }
}

/* ------------------------------------------------------------------------------------ nothing is left */

static mtp_trace *rich_trace(bool kineto)
{
    mtp_trace *t = made_begin();
    t->format = kineto ? MTP_FORMAT_KINETO : MTP_FORMAT_RECORDING;
    uint32_t k = made_thread(t, 100), other = made_thread(t, 7), stream = made_stream(t, 0, 7);
    uint32_t stack = mtp__trace_add_stack(t, 0, made_text(t, "main.py:1:main"));
    mtp__detail d = MTP__DETAIL_INIT;
    d.correlation = 5;
    d.external_id = 9;
    d.stack = stack;
    made_scope(t, k, 0, 500, "ProfilerStep#1");
    span_with(t, k, 10, 400, "op", MTP__CATEGORY_CPU_OP, d);
    span_with(t, stream, 50, 90, "kernel", MTP__CATEGORY_KERNEL, d);
    d = (mtp__detail)MTP__DETAIL_INIT;
    span_with(t, other, 600, 700, "overhead", MTP__CATEGORY_OVERHEAD, d);
    made_memory(t, k, 800, 1, 10);
    mtp__instant failed = {.ts = 40, .name = made_text(t, "[OutOfMemory]"), .scope = 't'};
    mtp__trace_add_instant(t, &failed);
    return made_end(t);
}

/* Everything that is computed on demand. */
static mtp_status ask(mtp_events *e)
{
    size_t count, child, depth;
    mtp_event v;
    v.size = sizeof v;
    mtp_status status = mtp_events_count(e, &count);
    if (status == MTP_OK)
        status = mtp_events_get(e, 0, &v);
    if (status == MTP_OK)
        status = mtp_events_child(e, 0, &child);
    return status == MTP_OK ? mtp_events_stack(e, 0, NULL, 0, &depth) : status;
}

static void no_allocation_that_fails_is_forgotten(void **state)
{
    (void)state;
    for (int kineto = 0; kineto < 3; kineto++) {
        mtp_trace *t = kineto < 2 ? rich_trace(kineto != 0) : held_trace(100);
        long before = mtp__alloc_live();
        bool done = false;
        int nth = 1;
        for (; !done; nth++) {
            mtp_events *e;
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, nth % 2 != 0);
            mtp_status status = mtp_events_create(t, &e);
            if (status == MTP_OK)
                status = ask(e);
            done = mtp__fault_stop() == 0;
            assert_int_equal(status, done ? MTP_OK : MTP_E_NOMEM);
            if (e != NULL && !done) { /* there is memory again */
                assert_ok(ask(e));
                assert_agrees(t, e, kineto == 1);
                assert_tree(e);
            }
            mtp_events_destroy(e);
            assert_int_equal(mtp__alloc_live(), before);
        }
        assert_true(nth > 12);
        mtp_trace_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(torchs_own_traces_have_torchs_events_and_sums),
        TEST(random_traces_agree_with_their_averages),
        TEST(live_sessions_spools_and_files_have_the_same_events),
        TEST(memory_freed_in_the_tick_of_an_end_is_not_inside),
        TEST(columns_are_the_models_own_arrays),
        TEST(what_is_not_right_is_refused),
        TEST(times_of_any_size_and_empty_traces_do_no_harm),
        TEST(deep_nesting_and_many_threads_stay_linear),
        TEST(many_threads_may_ask_first),
        TEST(no_allocation_that_fails_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
