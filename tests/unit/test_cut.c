/* Unit: trace/cut: parts of traces, by step, time, name and thread. */
#include "tests/test.h"
#include <unistd.h>
#include "tests/made_trace.h"
#include "trace/trace.h"

/* Three steps of 1000 ns at 0, 1000, 2000. Each has, on the main thread: step > forward > aten::mm >
 * launch, then aten::add; a kernel that runs 900 ns after its launch (the last one outside all steps),
 * with its flow; memory, a mark; and a worker's "load" that crosses from one step into the next. */
typedef struct built {
    mtp_trace *t;
    uint32_t main, worker, stream;
} built;

static uint32_t text(mtp_trace *t, const char *s)
{
    return mtp__trace_text(t, s, strlen(s));
}

static void add_step(built *b, int64_t at, unsigned number)
{
    mtp_trace *t = b->t;
    char name[32];
    snprintf(name, sizeof name, "ProfilerStep#%u", number);
    mtp__trace_add_span(t, b->main, at, at + 1000, text(t, name), MTP__CATEGORY_USER_ANNOTATION,
                        MTP__SPAN_STEP, 0);
    mtp__trace_add_step(t, &(mtp__step){at, at + 1000, number});
    mtp__trace_add_span(t, b->main, at + 10, at + 700, text(t, "forward"), MTP__CATEGORY_USER_ANNOTATION, 0,
                        0);
    mtp__detail op = MTP__DETAIL_INIT;
    mtp__shape shape = {.dims = text(t, "[[2, 3], [3, 4]]"), .types = text(t, "[\"float\", \"float\"]")};
    op.shape = mtp__trace_add_shape(t, &shape);
    op.stack =
        mtp__trace_add_stack(t, mtp__trace_add_stack(t, 0, text(t, "main.py:1:main")), text(t, "nn.py:7:mm"));
    op.external_id = number * 10;
    op.args = text(t, "\"Ev Idx\": 5");
    mtp__trace_add_span(t, b->main, at + 20, at + 400, text(t, "aten::mm"), MTP__CATEGORY_CPU_OP, 0,
                        mtp__trace_add_detail(t, &op));
    mtp__detail launch = MTP__DETAIL_INIT;
    launch.correlation = launch.external_id = number * 10;
    mtp__trace_add_span(t, b->main, at + 100, at + 150, text(t, "cudaLaunchKernel"),
                        MTP__CATEGORY_CUDA_RUNTIME, 0, mtp__trace_add_detail(t, &launch));
    mtp__trace_add_span(t, b->main, at + 750, at + 900, text(t, "aten::add"), MTP__CATEGORY_CPU_OP, 0, 0);
    mtp__trace_add_span(t, b->worker, at + 800, at + 1200, text(t, "load"), MTP__CATEGORY_USER_ANNOTATION, 0,
                        0);
    mtp__trace_add_span(t, b->stream, at + 1050, at + 1090, text(t, "gemm"), MTP__CATEGORY_KERNEL, 0,
                        mtp__trace_add_detail(t, &launch));
    mtp__flow flow = {at + 100, number * 10, b->main, text(t, "ac2g"), 's'};
    mtp__trace_add_flow(t, &flow);
    flow = (mtp__flow){at + 1050, number * 10, b->stream, text(t, "ac2g"), 'f'};
    mtp__trace_add_flow(t, &flow);
    mtp__memory memory = {.ts = at + 120,
                          .address = 0xabc0 + number,
                          .bytes = 64,
                          .total_allocated = 64,
                          .total_reserved = 128,
                          .track = b->main,
                          .device_index = -1};
    mtp__trace_add_memory(t, &memory);
    mtp__tag tag = {at + 130, 0xabc0 + number, 0, -1, MTP_MEMORY_ACTIVATION, 0};
    mtp__trace_add_tag(t, &tag);
    mtp__instant mark = {.ts = at + 950, .name = text(t, "mark"), .track = b->main, .scope = 't'};
    mtp__trace_add_instant(t, &mark);
}

static mtp_trace *build(void)
{
    built b = {0};
    assert_ok(mtp__trace_create(&b.t));
    b.t->base_ns = 1700000000000000000;
    b.t->pid = 42;
    mtp__track track = {.pid = 42, .tid = 42, .sort_index = INT64_MIN, .name = text(b.t, "main")};
    b.main = mtp__trace_add_track(b.t, &track);
    track = (mtp__track){.pid = 42, .tid = 43, .sort_index = INT64_MIN, .name = text(b.t, "loader-1")};
    b.worker = mtp__trace_add_track(b.t, &track);
    track = (mtp__track){.pid = 0, .tid = 7, .sort_index = INT64_MIN, .on_device = true};
    b.stream = mtp__trace_add_track(b.t, &track);
    mtp__trace_add_process(b.t,
                           &(mtp__process){.pid = 42, .name = text(b.t, "python"), .sort_index = INT64_MIN});
    mtp__trace_add_process(
        b.t, &(mtp__process){.pid = 0, .on_device = true, .name = text(b.t, "gpu"), .sort_index = INT64_MIN});
    mtp__trace_add_meta(b.t, "who", 3, "\"me\"", 4);
    for (unsigned number = 3; number <= 5; number++)
        add_step(&b, (int64_t)(number - 3) * 1000, number);
    assert_ok(mtp__trace_finish(b.t));
    return b.t;
}

static mtp_trace *cut_of(const mtp_trace *t, mtp_cut_options o)
{
    mtp_trace *part;
    assert_ok(mtp_trace_cut(t, &o, &part));
    return part;
}

static size_t count_of(const mtp_trace *t, const char *name)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->span_count; i++)
        n += strcmp(mtp__trace_get_text(t, t->name[i]).bytes, name) == 0;
    return n;
}

static uint32_t find(const mtp_trace *t, const char *name)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        if (strcmp(mtp__trace_get_text(t, t->name[i]).bytes, name) == 0)
            return i;
    fail_msg("no span '%s'", name);
    return 0;
}

/* Written, checked, and read again. */
static mtp_trace *round_trip(const mtp_trace *t)
{
    const char *path = test_path("part.json");
    assert_ok(mtp_trace_export(t, path, NULL));
    mtp_check *check;
    assert_ok(mtp_trace_check_file(path, NULL, &check));
    if (mtp_check_breaches(check) != 0)
        fail_msg("rule %u: %s", mtp_check_finding(check, 0)->rule, mtp_check_finding(check, 0)->what);
    mtp_check_destroy(check);
    mtp_trace *again;
    assert_ok(mtp_trace_open(path, NULL, &again));
    return again;
}

static void assert_sound(const mtp_trace *part)
{
    mtp_trace *again = round_trip(part);
    assert_int_equal(again->span_count, part->span_count);
    assert_int_equal(again->memory_count, part->memory_count);
    assert_int_equal(again->instant_count, part->instant_count);
    mtp_trace_destroy(again);
}

/* ------------------------------------------------------------------------------------------------- by
 * step */

static void a_step_has_what_began_in_it_and_the_device_work_that_it_launched(void **state)
{
    (void)state;
    mtp_trace *t = build();
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.by_step = true;
    o.first_step = o.last_step = 4;
    mtp_trace *part = cut_of(t, o);
    assert_int_equal(count_of(part, "ProfilerStep#4"), 1);
    assert_int_equal(count_of(part, "ProfilerStep#3"), 0);
    assert_int_equal(count_of(part, "aten::mm"), 1);
    assert_int_equal(count_of(part, "gemm"), 1);
    assert_int_equal(part->start[find(part, "gemm")],
                     2050);                      /* outside the step, not the one that runs in it */
    assert_int_equal(count_of(part, "load"), 2); /* a part of each */
    assert_int_equal(part->memory_count, 1);
    assert_int_equal(part->tag_count, 1);
    assert_int_equal(part->instant_count, 1);
    assert_int_equal(part->flow_count, 2);
    assert_int_equal(part->step_count, 1);
    assert_int_equal(part->steps[0].number, 4);
    assert_int_equal(part->launcher[find(part, "gemm")], find(part, "aten::mm"));
    assert_sound(part);
    mtp_trace_destroy(part);
    mtp_trace_destroy(t);
}

static void a_range_of_steps_is_one_piece(void **state)
{
    (void)state;
    mtp_trace *t = build();
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.by_step = true;
    o.first_step = 3;
    o.last_step = 4;
    mtp_trace *part = cut_of(t, o);
    assert_int_equal(part->step_count, 2);
    uint32_t load = find(part, "load"); /* the first crosses into the next step, and is kept whole */
    assert_int_equal(part->start[load], 800);
    assert_int_equal(part->end[load], 1200);
    assert_int_equal(mtp__trace_detail(part, load)->args, 0);
    assert_int_equal(part->start[load + 1], 1800); /* the second leaves: cut */
    assert_int_equal(part->end[load + 1], 2000);
    assert_contains(mtp__trace_get_text(part, mtp__trace_detail(part, load + 1)->args).bytes,
                    "\"whole dur\": 0.400");
    assert_int_equal(count_of(part, "load"), 2);
    assert_sound(part);
    mtp_trace_destroy(part);
    mtp_trace_destroy(t);
}

static void what_spans_carry_is_kept(void **state)
{
    (void)state;
    mtp_trace *t = build();
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.by_step = true;
    o.first_step = o.last_step = 5;
    mtp_trace *part = cut_of(t, o);
    const mtp__detail *d = mtp__trace_detail(part, find(part, "aten::mm"));
    assert_int_equal(d->external_id, 50);
    assert_string_equal(mtp__trace_get_text(part, part->shapes[d->shape].dims).bytes, "[[2, 3], [3, 4]]");
    assert_string_equal(mtp__trace_get_text(part, part->shapes[d->shape].types).bytes,
                        "[\"float\", \"float\"]");
    assert_string_equal(mtp__trace_get_text(part, d->args).bytes, "\"Ev Idx\": 5");
    assert_string_equal(mtp__trace_get_text(part, part->stacks[d->stack].frame).bytes, "nn.py:7:mm");
    uint32_t parent = part->stacks[d->stack].parent;
    assert_string_equal(mtp__trace_get_text(part, part->stacks[parent].frame).bytes, "main.py:1:main");
    assert_int_equal(part->stacks[parent].parent, 0);
    assert_int_equal(part->base_ns, t->base_ns);
    assert_int_equal(part->pid, 42);
    assert_int_equal(part->metadata_count, 1);
    assert_string_equal(mtp__trace_get_text(part, part->metadata[0].json).bytes, "\"me\"");
    assert_int_equal(part->process_count, 2);
    mtp_trace_destroy(part);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------- by
 * time */

static void a_stretch_of_time_cuts_what_reaches_out(void **state)
{
    (void)state;
    mtp_trace *t = build();
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.by_time = true;
    o.from_ns = 300;
    o.to_ns = 1100;
    mtp_trace *part = cut_of(t, o);
    assert_int_equal(part->step_count, 0); /* none is complete, */
    assert_int_equal(count_of(part, "ProfilerStep#3"), 0);
    assert_int_equal(count_of(part, "ProfilerStep#4"), 0); /* and a part of a step is not a step */
    uint32_t mm = find(part, "aten::mm");
    assert_int_equal(part->start[mm], 300);
    assert_int_equal(part->end[mm], 400);
    assert_contains(mtp__trace_get_text(part, mtp__trace_detail(part, mm)->args).bytes,
                    "\"Ev Idx\": 5, \"whole dur\": 0.380");
    assert_int_equal(part->parent[mm], find(part, "forward"));
    assert_int_equal(count_of(part, "gemm"), 1); /* runs in that time */
    assert_int_equal(count_of(part, "cudaLaunchKernel"), 0);
    assert_int_equal(part->memory_count, 0);
    assert_int_equal(part->instant_count, 1);
    assert_int_equal(part->flow_count, 0); /* its start is not there */
    assert_true(part->first_ns >= 300 && part->last_ns <= 1100);
    assert_sound(part);
    mtp_trace_destroy(part);
    mtp_trace_destroy(t);
}

static void what_was_there_before_is_in_each_part_unless_it_was_freed(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_op(t, main, 0, 1000, "first");
    made_op(t, main, 1000, 2000, "second");
    made_existing(t, 10, 0x10, 100, MTP_MEMORY_PARAMETER);
    made_existing(t, 20, 0x20, 200, MTP_MEMORY_INPUT);
    made_existing(t, 1500, 0x30, 300, MTP_MEMORY_PARAMETER); /* seen late, but present from the start */
    made_memory(t, main, 600, 0x20, -200);
    made_end(t);
    const struct {
        int64_t from, to;
        uint32_t blocks;
    } parts[] = {{0, 1000, 3}, {500, 1000, 3}, {601, 2000, 2}, {1000, 1200, 2}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
        o.by_time = true;
        o.from_ns = parts[i].from;
        o.to_ns = parts[i].to;
        mtp_trace *part = cut_of(t, o), *again = round_trip(part);
        assert_int_equal(part->tag_count, parts[i].blocks);
        assert_int_equal(again->tag_count, parts[i].blocks);
        mtp_trace_destroy(again);
        mtp_trace_destroy(part);
    }
    mtp_trace_destroy(t);
}

static void time_is_counted_from_the_first_event(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    mtp__track track = {.pid = 1, .tid = 1, .sort_index = INT64_MIN};
    mtp__trace_add_track(t, &track);
    for (int i = 0; i < 10; i++)
        mtp__trace_add_span(t, 0, -5000 + i * 100, -5000 + i * 100 + 50, text(t, "x"), MTP__CATEGORY_CPU_OP,
                            0, 0);
    assert_ok(mtp__trace_finish(t));
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.by_time = true;
    o.from_ns = 200;
    o.to_ns = 400;
    mtp_trace *part = cut_of(t, o);
    assert_int_equal(part->span_count, 2);
    assert_int_equal(part->start[0], -4800);
    mtp_trace_destroy(part);
    o.to_ns = INT64_MAX; /* up to the end, without overflow */
    part = cut_of(t, o);
    assert_int_equal(part->span_count, 8);
    mtp_trace_destroy(part);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------- by name and thread */

static void a_name_takes_what_is_nested_and_launched(void **state)
{
    (void)state;
    static const char *const patterns[] = {"forward", "orwar", "f*d", "for?ard", "*ward"};
    mtp_trace *t = build();
    for (size_t i = 0; i < COUNT(patterns); i++) {
        mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
        o.name = patterns[i];
        mtp_trace *part = cut_of(t, o);
        assert_int_equal(part->span_count, 3 * 4);
        assert_int_equal(count_of(part, "forward"), 3);
        assert_int_equal(count_of(part, "cudaLaunchKernel"), 3);
        assert_int_equal(count_of(part, "gemm"), 3);
        assert_int_equal(count_of(part, "aten::add"), 0);
        assert_int_equal(part->memory_count, 3);
        assert_int_equal(part->instant_count, 0); /* they are outside of it */
        assert_int_equal(part->flow_count, 6);
        assert_int_equal(part->step_count, 0);
        assert_int_equal(part->track_count, 2); /* the loader's is gone */
        assert_sound(part);
        mtp_trace_destroy(part);
    }
    mtp_trace_destroy(t);
}

static void names_are_matched_as_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool is_match;
    } cases[] = {
        {"a*b*c", "a__b__c", true},
        {"a*b*c", "a__b__", false},
        {"*", "", true},
        {"?", "x", true},
        {"?", "xy", false},
        {"**x", "x", true},
        {"[x]", "a[x]b", true},
        {"[x]*", "[x]y", true},
        {"*\xff", "a\xff", true},
        {"aten::*", "aten::mm", true},
        {"aten::*", "xaten::mm", false},
        {"\n", "a\nb", true},
        {"*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        mtp_trace *t, *part;
        assert_ok(mtp__trace_create(&t));
        mtp__track track = {.pid = 1, .tid = 1, .sort_index = INT64_MIN};
        mtp__trace_add_track(t, &track);
        mtp__trace_add_span(t, 0, 0, 10, text(t, cases[i].name), MTP__CATEGORY_CPU_OP, 0, 0);
        assert_ok(mtp__trace_finish(t));
        mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
        o.name = cases[i].pattern;
        mtp_status status = mtp_trace_cut(t, &o, &part);
        if ((status == MTP_OK) != (cases[i].is_match && *cases[i].name != 0))
            fail_msg("'%s' on '%s': %s", cases[i].pattern, cases[i].name, mtp_last_error());
        mtp_trace_destroy(part);
        mtp_trace_destroy(t);
    }
}

static void a_kernels_name_takes_the_kernel(void **state)
{
    (void)state;
    mtp_trace *t = build();
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.name = "gemm";
    mtp_trace *part = cut_of(t, o);
    assert_int_equal(part->span_count, 3);
    assert_int_equal(part->flow_count, 0);
    assert_sound(part);
    mtp_trace_destroy(part);
    mtp_trace_destroy(t);
}

static void a_thread_is_its_number_or_its_name(void **state)
{
    (void)state;
    mtp_trace *t = build();
    static const char *const threads[] = {"43", "loader", "loader-?"};
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    for (size_t i = 0; i < COUNT(threads); i++) {
        o.thread = threads[i];
        mtp_trace *part = cut_of(t, o);
        assert_int_equal(part->span_count, 3);
        assert_int_equal(count_of(part, "load"), 3);
        assert_int_equal(part->memory_count, 0);
        assert_int_equal(part->process_count, 1);
        assert_sound(part);
        mtp_trace_destroy(part);
    }
    o.thread = "42"; /* with the device work that it launched */
    mtp_trace *part = cut_of(t, o);
    assert_int_equal(part->span_count, 3 * 6);
    assert_int_equal(part->step_count, 3);
    assert_sound(part);
    mtp_trace_destroy(part);
    o.thread = "4"; /* a number is not part of a name */
    assert_int_equal(mtp_trace_cut(t, &o, &part), MTP_E_ARG);
    assert_says("no thread has the number or the name '4'");
    mtp_trace_destroy(t);
}

static void what_is_asked_together_holds_together(void **state)
{
    (void)state;
    mtp_trace *t = build();
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.by_step = o.by_time = true;
    o.first_step = 3;
    o.last_step = 4;
    o.from_ns = 500;
    o.to_ns = 1500;
    o.name = "aten::*";
    o.thread = "main";
    mtp_trace *part = cut_of(t, o);
    assert_int_equal(count_of(part, "aten::add"), 1);
    assert_int_equal(count_of(part, "aten::mm"), 1);
    assert_int_equal(part->start[find(part, "aten::mm")], 1020);
    assert_int_equal(count_of(part, "forward"), 0);
    mtp_trace_destroy(part);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------- the
 * whole */

static void without_a_wish_it_is_a_copy(void **state)
{
    (void)state;
    mtp_trace *t = build(), *part;
    assert_ok(mtp_trace_cut(t, NULL, &part));
    assert_int_equal(part->span_count, t->span_count);
    for (uint32_t i = 0; i < t->span_count; i++) {
        assert_int_equal(part->start[i], t->start[i]);
        assert_int_equal(part->end[i], t->end[i]);
        assert_int_equal(part->parent[i], t->parent[i]);
        assert_int_equal(part->flags[i], t->flags[i]);
        assert_int_equal(part->launcher[i], t->launcher[i]);
        assert_string_equal(mtp__trace_get_text(part, part->name[i]).bytes,
                            mtp__trace_get_text(t, t->name[i]).bytes);
    }
    assert_int_equal(part->flow_count, t->flow_count);
    assert_int_equal(part->memory_count, t->memory_count);
    assert_int_equal(part->step_count, t->step_count);
    assert_int_equal(part->first_ns, t->first_ns);
    assert_int_equal(part->last_ns, t->last_ns);
    mtp_trace_destroy(part);
    mtp_trace_destroy(t);
}

/* Each step cut from PyTorch's own files is a sound file, and together they have all ops that are in
 * steps. */
static void steps_of_torchs_traces_are_sound(void **state)
{
    (void)state;
    static const char *const files[] = {"cuda_gpt", "cuda_plain", "cpu_of_cuda", "cuda_stack",
                                        "cuda_streams"};
    for (size_t k = 0; k < COUNT(files); k++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/golden/torch/%s.json.gz", TEST_ROOT, files[k]);
        if (access(path, R_OK) != 0) {
            print_message("# skipped: %s is not there\n", path);
            continue;
        }
        mtp_trace *t, *part;
        assert_ok(mtp_trace_open(path, NULL, &t));
        assert_ok(mtp_trace_cut(t, NULL, &part)); /* including flows that start outside the file */
        assert_int_equal(part->flow_count, t->flow_count);
        mtp_trace_destroy(part);
        size_t ops = 0;
        for (uint32_t s = 0; s < t->step_count; s++) {
            mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
            o.by_step = true;
            o.first_step = o.last_step = t->steps[s].number;
            assert_ok(mtp_trace_cut(t, &o, &part));
            assert_int_equal(part->step_count, 1);
            for (uint32_t i = 0; i < part->span_count; i++)
                ops += part->category[i] == MTP__CATEGORY_CPU_OP;
            mtp_trace_destroy(round_trip(part));
            mtp_trace_destroy(part);
        }
        for (uint32_t i = 0; i < t->span_count; i++)
            for (uint32_t s = 0; t->category[i] == MTP__CATEGORY_CPU_OP && s < t->step_count; s++)
                ops -= t->start[i] >= t->steps[s].start && t->start[i] < t->steps[s].end;
        assert_int_equal(ops, 0);
        mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
        o.by_time = true;
        o.from_ns = (t->last_ns - t->first_ns) / 3;
        o.to_ns = (t->last_ns - t->first_ns) / 2;
        assert_ok(mtp_trace_cut(t, &o, &part));
        mtp_trace_destroy(round_trip(part));
        mtp_trace_destroy(part);
        mtp_trace_destroy(t);
    }
}

static void hostile_names_pass_through(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    mtp__track track = {
        .pid = 1, .tid = 1, .sort_index = INT64_MIN, .name = mtp__trace_text(t, "\xff\"\n", 3)};
    mtp__trace_add_track(t, &track);
    static const char *const names[] = {"\"", "\\", "\x01\x02", "\xff", "\xed\xa0\x80", "Profile"};
    for (int i = 0; i < (int)COUNT(names); i++)
        mtp__trace_add_span(t, 0, i * 1000, i * 1000 + 500, text(t, names[i]), MTP__CATEGORY_CPU_OP, 0, 0);
    mtp__trace_add_span(t, 0, 9000, 9500, mtp__trace_text(t, "a\0b", 3), MTP__CATEGORY_CPU_OP, 0, 0);
    assert_ok(mtp__trace_finish(t));
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.by_time = true;
    o.to_ns = 9200;
    mtp_trace *part = cut_of(t, o);
    assert_int_equal(part->span_count, 7);
    assert_int_equal(mtp__trace_get_text(part, part->name[6]).length, 3);
    mtp_trace_destroy(round_trip(part));
    mtp_trace_destroy(part);
    mtp_trace_destroy(t);
}

/* ----------------------------------------------------------------------------------------------------
 * errors */

static void what_cannot_be_is_told(void **state)
{
    (void)state;
    mtp_trace *t = build(), *part = t;
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.by_step = true;
    o.first_step = o.last_step = 9;
    assert_int_equal(mtp_trace_cut(t, &o, &part), MTP_E_ARG);
    assert_null(part);
    assert_says("the trace has steps 3 to 5");
    o.first_step = 10;
    assert_int_equal(mtp_trace_cut(t, &o, &part), MTP_E_ARG);
    o = (mtp_cut_options)MTP_CUT_OPTIONS_INIT;
    o.by_time = true;
    o.from_ns = o.to_ns = 5;
    assert_int_equal(mtp_trace_cut(t, &o, &part), MTP_E_ARG);
    o.from_ns = 1000000;
    o.to_ns = 2000000;
    assert_int_equal(mtp_trace_cut(t, &o, &part), MTP_E_ARG);
    assert_says("nothing is left");
    o = (mtp_cut_options)MTP_CUT_OPTIONS_INIT;
    o.name = "no such";
    assert_int_equal(mtp_trace_cut(t, &o, &part), MTP_E_ARG);
    assert_says("no span has a name like 'no such'");
    o.size = 4;
    assert_int_equal(mtp_trace_cut(t, &o, &part), MTP_E_ABI);
    assert_int_equal(mtp_trace_cut(NULL, NULL, &part), MTP_E_ARG);
    assert_int_equal(mtp_trace_cut(t, NULL, NULL), MTP_E_ARG);
    mtp_trace_destroy(t);
    mtp_trace *empty;
    assert_ok(mtp__trace_create(&empty));
    assert_ok(mtp__trace_finish(empty));
    o = (mtp_cut_options)MTP_CUT_OPTIONS_INIT;
    o.by_step = true;
    assert_int_equal(mtp_trace_cut(empty, &o, &part), MTP_E_ARG);
    assert_says("no steps");
    mtp_trace_destroy(empty);
}

static void running_out_of_memory_anywhere_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    mtp_trace *t = build();
    mtp_cut_options o = MTP_CUT_OPTIONS_INIT;
    o.by_step = true;
    o.first_step = 3;
    o.last_step = 4;
    o.name = "*";
    long live = mtp__alloc_live();
    for (int nth = 1;; nth++) {
        mtp_trace *part = NULL;
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, nth % 2 == 0);
        mtp_status status = mtp_trace_cut(t, &o, &part);
        int failed = mtp__fault_stop();
        mtp_trace_destroy(part);
        assert_int_equal(mtp__alloc_live(), live);
        if (failed == 0) {
            assert_int_equal(status, MTP_OK);
            assert_true(nth > 20);
            break;
        }
        assert_int_equal(status, MTP_E_NOMEM);
        assert_null(part);
    }
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_step_has_what_began_in_it_and_the_device_work_that_it_launched),
        TEST(a_range_of_steps_is_one_piece),
        TEST(what_spans_carry_is_kept),
        TEST(a_stretch_of_time_cuts_what_reaches_out),
        TEST(what_was_there_before_is_in_each_part_unless_it_was_freed),
        TEST(time_is_counted_from_the_first_event),
        TEST(a_name_takes_what_is_nested_and_launched),
        TEST(names_are_matched_as_bytes),
        TEST(a_kernels_name_takes_the_kernel),
        TEST(a_thread_is_its_number_or_its_name),
        TEST(what_is_asked_together_holds_together),
        TEST(without_a_wish_it_is_a_copy),
        TEST(steps_of_torchs_traces_are_sound),
        TEST(hostile_names_pass_through),
        TEST(what_cannot_be_is_told),
        TEST(running_out_of_memory_anywhere_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
