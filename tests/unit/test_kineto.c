/* Unit: trace/kineto: numbers, whole files, phases, rows and devices. */
#define _GNU_SOURCE
#include "tests/unit/kineto_texts.h"

/* ------------------------------------------------------------------------------------------- numbers */

static void microseconds_become_exact_nanoseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } times[] = {{"3872062006656.413", 3872062006656413},
                 {"0", 0},
                 {"0.001", 1},
                 {"1", 1000},
                 {"-1.5", -1500},
                 {"-0.001", -1},
                 {"12.34", 12340},
                 {"12.3456", 12346},
                 {"12.3454999999999999999999999", 12345},
                 {"0.0005", 1},
                 {"0.00049999", 0},
                 {"1e3", 1000000},
                 {"1.5E-3", 2},
                 {"1.4e-3", 1},
                 {"3.872062006656413e12", 3872062006656413},
                 {"38720620066564130000000000e-13", 3872062006656413},
                 {"0.000000000000000000000000001e30", 1000000},
                 {"9223372036854775.807", INT64_MAX},
                 {"123456789012345678901234567890e-20", 1234567890123},
                 {"\"17.25\"", 17250},
                 {"\" 17.25 \"", 17250},
                 {"1790857026000000", 1790857026000000000}};
    for (size_t i = 0; i < COUNT(times); i++) {
        char json[256];
        snprintf(json, sizeof json, "{\"ph\": \"X\", \"name\": \"a\", \"ts\": %s, \"dur\": 0}",
                 times[i].text);
        mtp_trace *t = read_list(json);
        assert_int_equal(t->span_count, 1);
        if (t->start[0] != times[i].ns)
            fail_msg("%s is %lld", times[i].text, (long long)t->start[0]);
        mtp_trace_destroy(t);
    }
}

static void times_that_no_clock_has_are_counted_and_left_out(void **state)
{
    (void)state;
    mtp_trace *t = read_list("{\"ph\":\"X\",\"name\":\"a\",\"ts\":1e300,\"dur\":1},"
                             "{\"ph\":\"X\",\"name\":\"b\",\"ts\":9223372036854775.808,\"dur\":1},"
                             "{\"ph\":\"X\",\"name\":\"c\",\"ts\":5,\"dur\":-1},"
                             "{\"ph\":\"X\",\"name\":\"d\",\"ts\":9223372036854775.807,\"dur\":1},"
                             "{\"ph\":\"X\",\"name\":\"e\",\"ts\":1e-999999999999,\"dur\":0}");
    assert_int_equal(t->span_count, 3);
    assert_int_equal(t->skipped_events, 2);
    assert_int_equal(t->clock_faults, 2);
    assert_int_equal(t->bad_durations, 2);
    uint32_t c = span_named(t, "c"), d = span_named(t, "d");
    assert_true(t->start[c] == 5000 && t->end[c] == 5000);
    assert_true(t->end[d] == t->start[d]);
    mtp_trace_destroy(t);
}

static void decimals_convert_to_integers_and_doubles(void **state)
{
    (void)state;
    mtp__decimal d;
    uint64_t u;
    int64_t n;
    assert_true(mtp__text_decimal("18446744073709551615", 20, &d) && mtp__decimal_unsigned(&d, &u));
    assert_true(u == UINT64_MAX);
    assert_false(mtp__decimal_signed(&d, &n));
    assert_true(mtp__text_decimal("-9223372036854775808", 20, &d) && mtp__decimal_signed(&d, &n));
    assert_true(n == INT64_MIN);
    assert_false(mtp__decimal_unsigned(&d, &u));
    assert_true(mtp__text_decimal("1.50e1", 6, &d) && mtp__decimal_unsigned(&d, &u) && u == 15);
    assert_true(mtp__text_decimal("1.51e1", 6, &d) && !mtp__decimal_unsigned(&d, &u));
    assert_true(mtp__text_unsigned("0xfF", 4, &u) && u == 255);
    assert_false(mtp__text_unsigned("0x", 2, &u));
    assert_false(mtp__text_unsigned("0xg", 3, &u));
    assert_false(mtp__text_unsigned("0x11111111111111111", 19, &u));
    assert_false(mtp__text_decimal("1 2", 3, &d));
    assert_false(mtp__text_decimal("", 0, &d));
    static const char *const doubles[] = {"0",    "1",  "-1.5", "0.1", "3.14159", "1e22", "123456789.125",
                                          "1e-7", "4e8"};
    for (size_t i = 0; i < COUNT(doubles); i++) {
        assert_true(mtp__text_decimal(doubles[i], strlen(doubles[i]), &d));
        assert_true(mtp__decimal_double(&d) == mtp__read_double(doubles[i], NULL));
    }
}

/* --------------------------------------------------------------------------------------- whole files */

static void an_object_and_a_bare_array_give_the_same_spans(void **state)
{
    (void)state;
    const char *forms[] = {"{\"traceEvents\":[" X1("a", 1, 5) "," X1("b", 2, 1) "]}",
                           "[" X1("a", 1, 5) "," X1("b", 2, 1) "]",
                           "[" X1("a", 1, 5) "," X1("b", 2, 1) ",]",
                           "[" X1("a", 1, 5) "," X1("b", 2, 1) ",\n",
                           "[\n" X1("a", 1, 5) ",\n" X1("b", 2, 1),
                           "\xef\xbb\xbf [" X1("a", 1, 5) "," X1("b", 2, 1) "]",
                           " \r\n\t { \"traceEvents\" : [ " X1("a", 1, 5) " , " X1("b", 2, 1) " ] } \n"};
    mtp_trace *first = read_text(forms[0]);
    assert_int_equal(first->span_count, 2);
    assert_int_equal(first->parent[1], 0);
    assert_true(!mtp__is_recording(first));
    for (size_t i = 1; i < COUNT(forms); i++) {
        mtp_trace *t = read_text(forms[i]);
        assert_same_trace(first, t);
        mtp_trace_destroy(t);
    }
    mtp_trace_destroy(first);
}

static void metadata_may_stand_before_and_behind_the_events_and_keeps_its_order(void **state)
{
    (void)state;
    mtp_trace *t =
        read_text("{\"b\": {\"x\":[1,2.50,\"\\u00e9\"],\n\"y\" : null}, \"baseTimeNanoseconds\": 12345,"
                  "\"traceEvents\": [" X1("a", 1, 5) "], \"with_stack\": 1, \"a\": \"text\", \"b\": 7}");
    assert_int_equal(t->metadata_count, 3);
    assert_string_equal(text(t, t->metadata[0].key), "b");
    assert_string_equal(text(t, t->metadata[0].json), "7");
    assert_string_equal(text(t, t->metadata[1].key), "with_stack");
    assert_string_equal(text(t, t->metadata[2].json), "\"text\"");
    assert_true(t->base_ns == 12345);
    assert_true((t->flags_recorded & MTP_WITH_STACK) != 0 && (t->flags_recorded & MTP_WITH_MEMORY) == 0);
    mtp_trace_destroy(t);
    t = read_text("{\"traceEvents\": [], \"k\": {\"x\":[1,2.50,\"\\u00e9\"],\n\"y\" : null}}");
    assert_string_equal(text(t, t->metadata[0].json), "{\"x\": [1, 2.50, \"\\u00e9\"], \"y\": null}");
    mtp_trace_destroy(t);
}

static void the_small_trace_is_read_whole(void **state)
{
    (void)state;
    mtp_trace *t;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    assert_ok(mtp_trace_open(SMALL, NULL, &t));
    assert_ok(mtp_trace_get_info(t, &info));
    assert_int_equal(info.spans, 5);
    assert_int_equal(info.device_spans, 1);
    assert_int_equal(info.memory_events, 1);
    assert_int_equal(info.instants, 1);
    assert_int_equal(info.flows, 2);
    assert_int_equal(info.steps, 1);
    assert_int_equal(info.pid, 517);
    assert_true(info.base_ns == 1790857026000000000 && info.format == MTP_FORMAT_KINETO);
    assert_string_equal(t->source, SMALL);
    uint32_t mm = span_named(t, "aten::mm"), kernel = span_named(t, "void gemm<float, 128>(float*)");
    const mtp__detail *d = mtp__trace_detail(t, mm), *k = mtp__trace_detail(t, kernel);
    const mtp__shape *s = &t->shapes[d->shape];
    assert_true(d->external_id == 2 && d->sequence == 328 && d->forward_thread == 0 && d->event_index == 2);
    assert_string_equal(text(t, d->args), "\"Record function id\": 0");
    assert_string_equal(text(t, s->dims), "[[4, 32], [], []]");
    assert_string_equal(text(t, s->strides), "[[32, 1], [], []]");
    assert_string_equal(text(t, s->types), "[\"float\", \"ScalarList\", \"Scalar\"]");
    assert_string_equal(text(t, s->concrete), "[\"\", \"[4, 32]\", \"-1\"]");
    assert_true(k->correlation == 77 && k->grid[0] == 4 && k->block[0] == 256 && k->queued_ns == INT64_MIN);
    assert_int_equal(k->device, 0xffff);
    assert_string_equal(text(t, k->args), "\"context\": 1, \"registers per thread\": 122");
    assert_int_equal(t->launcher[kernel], mm);
    assert_true(track_of(t, kernel)->on_device);
    assert_string_equal(text(t, track_of(t, kernel)->name), "stream 7 ");
    assert_string_equal(text(t, track_of(t, span_named(t, "PyTorch Profiler (0)"))->pid_text), "Spans");
    assert_int_equal(t->flags[span_named(t, "ProfilerStep#1")], MTP__SPAN_STEP);
    assert_true(t->steps[0].number == 1 && t->steps[0].end - t->steps[0].start == 6298964);
    assert_string_equal(text(t, t->memory[0].args), "\"finished\": false");
    assert_string_equal(
        text(t, t->metadata[1].json),
        "[{\"id\": 0, \"name\": \"NVIDIA H200\", \"totalGlobalMem\": 150109880320, \"computeMajor\": 9, "
        "\"computeMinor\": 0, \"regsPerMultiprocessor\": 65536}]");
    mtp_trace_destroy(t);
}

static void the_real_trace_has_the_counts_that_torch_wrote(void **state)
{
    (void)state;
    mtp_trace *t;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    if (access(REAL, R_OK) != 0)
        skip();
    assert_ok(mtp_trace_open(REAL, NULL, &t));
    assert_ok(mtp_trace_get_info(t, &info));
    assert_int_equal(info.spans, 5259 + 15 + 1);
    assert_int_equal(info.memory_events, 2610);
    assert_int_equal(info.flows, 492);
    assert_int_equal(info.instants, 2);
    assert_int_equal(info.steps, 3);
    assert_int_equal(info.pid, 517);
    assert_int_equal(t->skipped_events, 0);
    assert_int_equal(info.unfinished + info.unmatched_ends + info.clock_faults, 0);
    uint32_t ops = 0, shaped = 0, sequenced = 0;
    for (uint32_t i = 0; i < t->span_count; i++) {
        ops += t->category[i] == MTP__CATEGORY_CPU_OP;
        shaped += mtp__trace_detail(t, i)->shape != 0;
        sequenced += mtp__trace_detail(t, i)->sequence >= 0;
    }
    assert_int_equal(ops, 5259);
    assert_int_equal(shaped, 4932);
    assert_int_equal(sequenced, 849);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------------------- phases */

static void begin_and_end_events_become_nested_spans(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"B\",\"name\":\"outer\",\"cat\":\"cpu_op\",\"pid\":1,\"tid\":1,\"ts\":1,"
                  "\"args\":{\"a\":1}},"
                  "{\"ph\":\"B\",\"name\":\"other thread\",\"pid\":1,\"tid\":2,\"ts\":1},"
                  "{\"ph\":\"B\",\"name\":\"inner\",\"pid\":1,\"tid\":1,\"ts\":2},"
                  "{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":3},"
                  "{\"ph\":\"E\",\"name\":\"outer\",\"pid\":1,\"tid\":1,\"ts\":9,\"args\":{\"b\":2}},"
                  "{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":20}");
    uint32_t outer = span_named(t, "outer"), inner = span_named(t, "inner"),
             other = span_named(t, "other thread");
    assert_int_equal(t->span_count, 3);
    assert_true(t->start[outer] == 1000 && t->end[outer] == 9000 && t->end[inner] == 3000 &&
                t->end[other] == 20000);
    assert_int_equal(t->parent[inner], outer);
    assert_int_equal(t->parent[other], MTP__NONE);
    assert_int_equal(t->category[outer], MTP__CATEGORY_CPU_OP);
    assert_string_equal(args_of(t, "outer"), "\"a\": 1, \"b\": 2");
    assert_int_equal(t->unfinished + t->unmatched_ends, 0);
    mtp_trace_destroy(t);
}

static void begin_and_end_events_may_come_in_any_order_of_time(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":9},{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":3},"
                  "{\"ph\":\"B\",\"name\":\"inner\",\"pid\":1,\"tid\":1,\"ts\":2},"
                  "{\"ph\":\"B\",\"name\":\"outer\",\"pid\":1,\"tid\":1,\"ts\":1}");
    assert_true(t->end[span_named(t, "outer")] == 9000 && t->end[span_named(t, "inner")] == 3000);
    assert_int_equal(t->unfinished + t->unmatched_ends, 0);
    mtp_trace_destroy(t);
}

static void unbalanced_begin_and_end_events_are_mended_and_counted(void **state)
{
    (void)state;
    mtp_trace *t = read_list("{\"ph\":\"E\",\"name\":\"never begun\",\"pid\":1,\"tid\":1,\"ts\":0},"
                             "{\"ph\":\"B\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1},"
                             "{\"ph\":\"B\",\"name\":\"b\",\"pid\":1,\"tid\":1,\"ts\":2},"
                             "{\"ph\":\"E\",\"name\":\"nobody\",\"pid\":1,\"tid\":1,\"ts\":3},"
                             "{\"ph\":\"E\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":4},"
                             "{\"ph\":\"B\",\"name\":\"c\",\"pid\":1,\"tid\":1,\"ts\":5},"
                             "{\"ph\":\"i\",\"name\":\"last\",\"pid\":1,\"tid\":1,\"ts\":8}");
    assert_int_equal(t->unmatched_ends, 2);
    assert_int_equal(t->unfinished, 2);
    uint32_t b = span_named(t, "b"), c = span_named(t, "c");
    assert_true(t->end[b] == 4000 && t->end[c] == 8000);
    assert_true((t->flags[b] & MTP__SPAN_UNFINISHED) && (t->flags[c] & MTP__SPAN_UNFINISHED));
    assert_false(t->flags[span_named(t, "a")] & MTP__SPAN_UNFINISHED);
    mtp_trace_destroy(t);
}

/* The row is a device's, as its third event says. Earlier events belong to the device too. (Found by
 * fuzzing: the span was added to a track that did not exist.) */
static void begin_events_on_a_row_that_turns_out_to_be_a_devices_are_on_its_track(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"B\",\"name\":\"a\",\"pid\":0,\"tid\":7,\"ts\":1},"
                  "{\"ph\":\"B\",\"name\":\"b\",\"pid\":0,\"tid\":7,\"ts\":2},"
                  "{\"ph\":\"X\",\"name\":\"k\",\"cat\":\"kernel\",\"pid\":0,\"tid\":7,\"ts\":3,\"dur\":1,"
                  "\"args\":{\"device\":0,\"stream\":7}},"
                  "{\"ph\":\"E\",\"name\":\"b\",\"pid\":0,\"tid\":7,\"ts\":6},"
                  "{\"ph\":\"X\",\"name\":\"op\",\"cat\":\"cpu_op\",\"pid\":0,\"tid\":7,\"ts\":8,\"dur\":1}");
    uint32_t a = span_named(t, "a"), b = span_named(t, "b"), kernel = span_named(t, "k");
    assert_int_equal(t->track_count, 2);
    assert_int_equal(mtp__trace_track_of(t, a), mtp__trace_track_of(t, kernel));
    assert_int_equal(mtp__trace_track_of(t, b), mtp__trace_track_of(t, kernel));
    assert_true(t->tracks[mtp__trace_track_of(t, a)].on_device);
    assert_true(t->end[b] == 6000 && t->end[a] == 6000);
    assert_true((t->flags[a] & MTP__SPAN_UNFINISHED) && !(t->flags[b] & MTP__SPAN_UNFINISHED));
    assert_int_equal(t->unmatched_ends, 0);
    mtp_trace_destroy(t);
}

static void a_complete_event_without_a_duration_lasts_to_the_end_of_its_track(void **state)
{
    (void)state;
    mtp_trace *t = read_list("{\"ph\":\"X\",\"name\":\"open\",\"pid\":1,\"tid\":2,\"ts\":1}," X1("a", 2, 3));
    assert_true(t->end[span_named(t, "open")] == 5000);
    assert_int_equal(t->unfinished, 1);
    assert_int_equal(t->parent[span_named(t, "a")], span_named(t, "open"));
    mtp_trace_destroy(t);
}

static void begin_events_may_be_steps_and_device_work(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"ph\":\"B\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#4\",\"pid\":9,\"tid\":9,\"ts\":1},"
        "{\"ph\":\"E\",\"pid\":9,\"tid\":9,\"ts\":5},"
        "{\"ph\":\"B\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":2,"
        "\"args\":{\"device\":0,\"stream\":7,\"x\":1}},"
        "{\"ph\":\"E\",\"pid\":0,\"tid\":7,\"ts\":3}");
    assert_int_equal(t->step_count, 1);
    assert_true(t->steps[0].number == 4 && t->steps[0].end == 5000);
    assert_int_equal(t->flags[span_named(t, "ProfilerStep#4")], MTP__SPAN_STEP);
    assert_string_equal(args_of(t, "k"), "\"x\": 1");
    assert_true(track_of(t, span_named(t, "k"))->on_device);
    assert_int_equal(t->pid, 9);
    assert_int_equal(t->unfinished + t->unmatched_ends, 0);
    mtp_trace_destroy(t);
}

static void the_pid_is_that_of_most_spans_even_if_no_category_is_known(void **state)
{
    (void)state;
    mtp_trace *t = read_list("{\"ph\":\"X\",\"name\":\"b\",\"pid\":7,\"tid\":1,\"ts\":1,\"dur\":1}," X1(
        "a", 1, 1) "," X1("b", 3, 1));
    assert_int_equal(t->pid, 1);
    assert_true((t->flags_recorded & (MTP_CPU | MTP_NPU)) == MTP_CPU);
    mtp_trace_destroy(t);
}

static void a_hundred_thousand_nested_scopes_need_no_stack(void **state)
{
    (void)state;
    enum {
        DEEP = 100000
    };
    char *json, *end;
    size_t size;
    FILE *f = open_memstream(&json, &size);
    fputc('[', f);
    for (int i = 0; i < DEEP; i++)
        fprintf(f, "{\"ph\":\"B\",\"name\":\"s\",\"ts\":%d},", i);
    for (int i = 0; i < DEEP; i++)
        fprintf(f, "{\"ph\":\"E\",\"ts\":%d},", DEEP + i);
    fclose(f);
    end = json + size;
    mtp_trace *t;
    assert_ok(read_bytes(json, (size_t)(end - json), 0, 0, &t));
    assert_int_equal(t->span_count, DEEP);
    assert_int_equal(t->parent[DEEP - 1], DEEP - 2);
    assert_int_equal(t->unfinished + t->unmatched_ends, 0);
    mtp_trace_destroy(t);
    free(json);
}

static void asynchronous_events_are_spans_on_a_track_of_their_id(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"ph\":\"b\",\"cat\":\"net\",\"name\":\"get\",\"id\":\"0x10\",\"pid\":1,\"tid\":1,\"ts\":1},"
        "{\"ph\":\"b\",\"cat\":\"net\",\"name\":\"get\",\"id\":7,\"pid\":1,\"tid\":1,\"ts\":2},"
        "{\"ph\":\"n\",\"cat\":\"net\",\"name\":\"half\",\"id\":\"0x10\",\"pid\":1,\"tid\":1,\"ts\":3},"
        "{\"ph\":\"e\",\"cat\":\"net\",\"name\":\"get\",\"id\":\"0x10\",\"pid\":1,\"tid\":9,\"ts\":4},"
        "{\"ph\":\"e\",\"cat\":\"net\",\"name\":\"get\",\"id\":7,\"pid\":1,\"tid\":1,\"ts\":5},"
        "{\"ph\":\"S\",\"cat\":\"old\",\"name\":\"o\",\"id\":1,\"pid\":1,\"tid\":1,\"ts\":1},"
        "{\"ph\":\"F\",\"cat\":\"old\",\"name\":\"o\",\"id\":1,\"pid\":1,\"tid\":1,\"ts\":6},"
        "{\"ph\":\"b\",\"cat\":\"net\",\"name\":\"no id\",\"pid\":1,\"tid\":1,\"ts\":1}");
    assert_int_equal(t->span_count, 3);
    assert_int_equal(t->skipped_events, 1);
    assert_int_equal(t->unfinished + t->unmatched_ends, 0);
    assert_string_equal(text(t, track_of(t, 0)->tid_text), "async net 0x10");
    assert_true(t->end[0] == 4000 && t->end[1] == 5000);
    assert_true(t->end[span_named(t, "o")] == 6000);
    assert_string_equal(text(t, t->instants[0].name), "half");
    mtp_trace_destroy(t);
}

static void instants_counters_and_flows_are_kept(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"ph\":\"i\",\"name\":\"a\",\"s\":\"p\",\"ts\":1,\"args\":{\"k\":[1,2]}},"
        "{\"ph\":\"I\",\"name\":\"b\",\"cat\":\"c\",\"ts\":2},{\"ph\":\"R\",\"name\":\"c\",\"ts\":3},"
        "{\"ph\":\"C\",\"name\":\"count\",\"ts\":4,\"args\":{\"value\":2.5}},"
        "{\"ph\":\"C\",\"name\":\"two\",\"ts\":5,\"args\":{\"x\":1,\"y\":-3e2}},"
        "{\"ph\":\"s\",\"name\":\"f\",\"cat\":\"x\",\"id\":5,\"ts\":6,\"pid\":1,\"tid\":2},"
        "{\"ph\":\"t\",\"cat\":\"x\",\"id\":\"5\",\"ts\":7,\"pid\":1,\"tid\":2},"
        "{\"ph\":\"f\",\"name\":\"f\",\"id\":\"0xff\",\"bp\":\"e\",\"ts\":8,\"pid\":1,\"tid\":2},"
        "{\"ph\":\"f\",\"name\":\"f\",\"id\":\"odd\",\"ts\":8,\"pid\":1,\"tid\":2}");
    assert_int_equal(t->instant_count, 5);
    assert_int_equal(t->instants[0].scope, 'p');
    assert_string_equal(text(t, t->instants[0].args), "\"k\": [1, 2]");
    assert_string_equal(text(t, t->instants[1].category), "c");
    assert_true(t->instants[3].is_counter && t->instants[3].value == 2.5 && t->instants[3].args == 0);
    assert_true(t->instants[4].is_counter && t->instants[4].value == 1);
    assert_string_equal(text(t, t->instants[4].args), "\"x\": 1, \"y\": -3e2");
    assert_int_equal(t->flow_count, 4);
    assert_true(t->flows[0].id == 5 && t->flows[1].id == 5 && t->flows[2].id == 255 && t->flows[3].id != 0);
    assert_string_equal(text(t, t->flows[1].name), "x");
    assert_int_equal(t->flows[1].phase, 't');
    mtp_trace_destroy(t);
}

static void what_is_no_event_is_counted_and_skipped(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{}, {\"ph\":\"X\",\"name\":\"no ts\"}, {\"name\":\"no ph\",\"ts\":1}, 7, null, [1,[2]], \"x\","
        "{\"ph\":\"?\",\"ts\":1}, {\"ph\":\"XX\",\"ts\":1}, {\"ph\":\"X\",\"ts\":null},"
        "{\"ph\":null,\"ts\":3},{\"ph\":\"s\",\"name\":\"no id\",\"ts\":3}," X1("a", 1, 1));
    assert_int_equal(t->span_count, 1);
    assert_int_equal(t->skipped_events, 12);
    mtp_trace_destroy(t);
}

static void a_ledger_that_is_none_is_no_ledger(void **state)
{
    (void)state;
    static const char *const not_one[] = {
        "7",
        "null",
        "{}",
        "[{\"ledger\": {\"emitted\": 1, \"kept\": 1}}]",
        "{\"ledger\": 1, \"damaged_chunks\": -1, \"unmatched_ends\": 1.5, \"clock_faults\": \"3\"}",
        "{\"ledger\": {}}",
        "{\"ledger\": {\"emitted\": 1, \"kept\": \"1\"}}",
        "{\"ledger\": {\"emitted\": 99999999999999999999, \"kept\": 1, \"dropped_by\": {\"BUDGET\": 1}}}"};
    char json[256];
    for (size_t i = 0; i < COUNT(not_one); i++) {
        snprintf(json, sizeof json, "{\"mtprof\": %s, \"traceEvents\": [" X1("a", 1, 1) "]}", not_one[i]);
        mtp_trace *t = read_text(json);
        assert_false(t->has_ledger);
        assert_int_equal(t->damaged_chunks + t->unmatched_ends + t->clock_faults, 0);
        mtp_trace_destroy(t);
    }
    mtp_trace *t =
        read_text("{\"traceEvents\":[],\"mtprof\" :{ \"new\": [1], \"ledger\":{\"dropped_by\":{\"DISK\":2,"
                  "\"NEW\":4},\"kept\":5,\"emitted\":7,\"dropped\":2}}}");
    assert_true(t->has_ledger);
    assert_int_equal(t->ledger.emitted, 7);
    assert_int_equal(t->ledger.kept, 5);
    assert_int_equal(t->ledger.dropped_by[MTP_DROP_DISK], 2);
    mtp_trace_destroy(t);
}

static void metadata_events_name_tracks_and_processes(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"prog\"}},"
        "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":1,\"args\":{\"labels\":\"CPU\"}},"
        "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":1,\"args\":{\"sort_index\":-5}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"main\"}}," X1(
            "a", 1,
            1) ",{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":1,\"tid\":2,\"ts\":0,"
               "\"args\":{\"sort_index\":\"3\"}},"
               "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":3,\"args\":{\"name\":\"idle\"}},"
               "{\"ph\":\"M\",\"name\":\"num_cpus\",\"pid\":1,\"args\":{\"number\":8}}");
    assert_int_equal(t->process_count, 1);
    assert_string_equal(text(t, t->processes[0].name), "prog");
    assert_string_equal(text(t, t->processes[0].labels), "CPU");
    assert_true(t->processes[0].sort_index == -5);
    assert_int_equal(t->track_count, 2);
    assert_string_equal(text(t, t->tracks[0].name), "main");
    assert_true(t->tracks[0].sort_index == 3);
    assert_string_equal(text(t, t->tracks[1].name), "idle");
    assert_string_equal(text(t, t->metadata[0].key), "num_cpus");
    assert_string_equal(text(t, t->metadata[0].json), "{\"number\": 8}");
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------------- rows, devices */

static void ids_may_be_numbers_or_strings(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"pid\":5,\"tid\":6},"
                  "{\"ph\":\"X\",\"name\":\"b\",\"ts\":2,\"dur\":1,\"pid\":\"5\",\"tid\":6.0},"
                  "{\"ph\":\"X\",\"name\":\"c\",\"ts\":1,\"dur\":1,\"pid\":\"host\",\"tid\":\"main\"},"
                  "{\"ph\":\"X\",\"name\":\"d\",\"ts\":1,\"dur\":1,\"pid\":5,\"tid\":1.5},"
                  "{\"ph\":\"X\",\"name\":\"e\",\"ts\":1,\"dur\":1,\"pid\":5,\"tid\":18446744073709551615},"
                  "{\"ph\":\"X\",\"name\":\"f\",\"ts\":1,\"dur\":1,\"pid\":\"\",\"tid\":null}");
    assert_ptr_equal(track_of(t, span_named(t, "a")), track_of(t, span_named(t, "b")));
    assert_string_equal(text(t, track_of(t, span_named(t, "c"))->pid_text), "host");
    assert_string_equal(text(t, track_of(t, span_named(t, "c"))->tid_text), "main");
    assert_string_equal(text(t, track_of(t, span_named(t, "d"))->tid_text), "1.5");
    assert_string_equal(text(t, track_of(t, span_named(t, "e"))->tid_text), "18446744073709551615");
    assert_true(track_of(t, span_named(t, "f"))->pid == -1 && track_of(t, span_named(t, "f"))->tid == 0);
    mtp_trace_destroy(t);
}

static void old_and_foreign_categories_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mtp__category category;
        const char *kept;
    } cases[] = {{"Operator", MTP__CATEGORY_CPU_OP, ""},
                 {"Kernel", MTP__CATEGORY_KERNEL, ""},
                 {"Memcpy", MTP__CATEGORY_GPU_MEMCPY, ""},
                 {"Memset", MTP__CATEGORY_GPU_MEMSET, ""},
                 {"Runtime", MTP__CATEGORY_CUDA_RUNTIME, ""},
                 {"cuda_driver", MTP__CATEGORY_CUDA_DRIVER, ""},
                 {"xpu_runtime", MTP__CATEGORY_CUDA_RUNTIME, "xpu_runtime"},
                 {"privateuse1_runtime", MTP__CATEGORY_CUDA_RUNTIME, "privateuse1_runtime"},
                 {"privateuse1_driver", MTP__CATEGORY_CUDA_DRIVER, "privateuse1_driver"},
                 {"mtia_runtime", MTP__CATEGORY_CUDA_RUNTIME, "mtia_runtime"},
                 {"mtia_ccp_events", MTP__CATEGORY_KERNEL, "mtia_ccp_events"},
                 {"_runtime", MTP__CATEGORY_OTHER, "_runtime"},
                 {"collective_comm", MTP__CATEGORY_OTHER, "collective_comm"},
                 {"", MTP__CATEGORY_OTHER, ""}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256];
        snprintf(json, sizeof json,
                 "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1}",
                 cases[i].text);
        mtp_trace *t = read_list(json);
        assert_int_equal(t->category[0], cases[i].category);
        assert_string_equal(text(t, mtp__trace_detail(t, 0)->category), cases[i].kept);
        assert_int_equal(t->tracks[0].on_device, mtp__category_on_device(cases[i].category));
        mtp_trace_destroy(t);
    }
}

#define CPU_OP(name, pid, tid)                                                                               \
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":" #pid ",\"tid\":" #tid                  \
    ",\"ts\":1,\"dur\":1}"
#define KERNEL(name, pid, tid, args)                                                                         \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":" #pid ",\"tid\":" #tid                  \
    ",\"ts\":1,\"dur\":1,"                                                                                   \
    "\"args\":{" args "}}"

static void a_process_and_a_device_of_the_same_number_stay_apart(void **state)
{
    (void)state;
    mtp_trace *t = read_list(CPU_OP("op", 1, 7) "," KERNEL(
        "k", 1, 7, "\"device\":1,\"stream\":7") ","
                                                "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":1,"
                                                "\"args\":{\"labels\":\"GPU 1\"}}");
    assert_int_equal(t->track_count, 2);
    assert_false(track_of(t, span_named(t, "op"))->on_device);
    assert_true(track_of(t, span_named(t, "k"))->on_device);
    assert_int_equal(t->pid, 1);
    mtp_trace_destroy(t);
}

static void lanes_that_a_writer_made_beside_a_stream_are_one_track_again(void **state)
{
    (void)state;
    mtp_trace *t = read_list(KERNEL("a", 1000, 8, "\"device\":0,\"stream\":7") "," KERNEL(
        "b", 1000, 9, "\"device\":0,\"stream\":7") ",{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":"
                                                   "\"u\",\"pid\":1000,"
                                                   "\"tid\":7,\"ts\":1,\"dur\":1},"
                                                   "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1000,"
                                                   "\"args\":{\"name\":\"p\"}}");
    assert_int_equal(t->track_count, 1);
    assert_true(t->tracks[0].pid == 0 && t->tracks[0].tid == 7 && t->tracks[0].on_device);
    assert_true(t->processes[0].pid == 0);
    mtp_trace_destroy(t);
}

static void a_flow_before_its_kernel_is_on_the_kernels_track(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"ph\":\"f\",\"name\":\"ac2g\",\"id\":1,\"pid\":0,\"tid\":7,\"ts\":1}," KERNEL("k", 0, 7, ""));
    assert_int_equal(t->track_count, 1);
    assert_true(t->tracks[0].on_device);
    mtp_trace_destroy(t);
}

#define FLOW(ph, cat, name, more)                                                                            \
    "{\"ph\":\"" ph "\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"id\":1,\"pid\":1,\"tid\":1,\"ts\":"      \
    "1}" more

static void the_names_that_kineto_had_for_launches_are_read_as_its_own(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list(FLOW("s", "async", "launch", ",") FLOW("f", "async_gpu", "async_gpu", ",")
                      FLOW("s", "async_cpu_to_gpu", "launch", ",") FLOW("s", "flows", "launch", ",")
                          FLOW("s", "async", "launches", ",") FLOW("f", "ac2g", "ac2g", ""));
    static const char *const names[] = {"ac2g", "ac2g", "ac2g", "launch", "launches", "ac2g"};
    assert_int_equal(t->flow_count, 6);
    for (uint32_t i = 0; i < 6; i++)
        assert_string_equal(text(t, t->flows[i].name), names[i]);
    mtp_trace_destroy(t);
}

#define MADE(ph, cat, name, by, more)                                                                        \
    "{\"ph\":\"" ph "\",\"cat\":\"" cat "\",\"name\":\"" name                                                \
    "\",\"s\":\"g\",\"pid\":1,\"tid\":9,\"ts\":1,\"dur\":5,"                                                 \
    "\"args\":{\"made by\":\"" by "\"}}" more

static void what_our_writer_made_is_no_part_of_the_trace(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        MADE("X", "Trace", "PyTorch Profiler (0)", "mtprof",
             ",") MADE("i", "", "Iteration Start: PyTorch Profiler", "mtprof", ",")
            MADE("i", "", "Record Window End", "mtprof",
                 ",") "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":9,\"args\":{\"name\":\"w\"}},"
                      "{\"ph\":\"C\",\"cat\":\"mtprof_memory\",\"name\":\"Memory CPU\",\"pid\":1,\"tid\":1,"
                      "\"ts\":1,\"args\":{\"Allocated\":1}}");
    assert_int_equal(t->span_count + t->instant_count + t->track_count, 0);
    assert_true(t->made_window);
    mtp_trace_destroy(t);
    t = read_list(MADE("X", "Trace", "PyTorch Profiler (0)", "Kineto", ",")
                      MADE("X", "cpu_op", "mine", "mtprof", ",") MADE("i", "", "mine", "mtprof", ""));
    assert_int_equal(t->span_count, 2);
    assert_int_equal(t->instant_count, 1);
    assert_false(t->made_window);
    mtp_trace_destroy(t);
}

static void an_annotation_is_on_the_stream_that_its_row_or_its_args_say(void **state)
{
    (void)state;
    mtp_trace *t = read_list("{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"a\",\"pid\":5000000,"
                             "\"tid\":10000000,\"ts\":1,"
                             "\"dur\":9,\"args\":{\"on_device\":0,\"on_stream\":3}},"
                             "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"b\",\"pid\":2,\"tid\":"
                             "7,\"ts\":1,\"dur\":9}");
    assert_true(track_of(t, span_named(t, "a"))->pid == 0 && track_of(t, span_named(t, "a"))->tid == 3);
    assert_true(track_of(t, span_named(t, "b"))->pid == 2 && track_of(t, span_named(t, "b"))->tid == 7);
    assert_string_equal(args_of(t, "a"), "");
    mtp_trace_destroy(t);
}

static void spans_of_no_known_category_are_on_the_device_if_its_labels_say_so(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"cat\":\"hpu_op\",\"name\":\"a\",\"pid\":3,\"tid\":0,\"ts\":1,\"dur\":1},"
                  "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":3,\"args\":{\"labels\":\"HPU 3\"}}");
    assert_true(t->tracks[0].on_device);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(microseconds_become_exact_nanoseconds),
        TEST(times_that_no_clock_has_are_counted_and_left_out),
        TEST(decimals_convert_to_integers_and_doubles),
        TEST(an_object_and_a_bare_array_give_the_same_spans),
        TEST(metadata_may_stand_before_and_behind_the_events_and_keeps_its_order),
        TEST(the_small_trace_is_read_whole),
        TEST(the_real_trace_has_the_counts_that_torch_wrote),
        TEST(begin_and_end_events_become_nested_spans),
        TEST(begin_and_end_events_may_come_in_any_order_of_time),
        TEST(unbalanced_begin_and_end_events_are_mended_and_counted),
        TEST(begin_events_on_a_row_that_turns_out_to_be_a_devices_are_on_its_track),
        TEST(a_complete_event_without_a_duration_lasts_to_the_end_of_its_track),
        TEST(begin_events_may_be_steps_and_device_work),
        TEST(the_pid_is_that_of_most_spans_even_if_no_category_is_known),
        TEST(a_hundred_thousand_nested_scopes_need_no_stack),
        TEST(asynchronous_events_are_spans_on_a_track_of_their_id),
        TEST(instants_counters_and_flows_are_kept),
        TEST(what_is_no_event_is_counted_and_skipped),
        TEST(a_ledger_that_is_none_is_no_ledger),
        TEST(metadata_events_name_tracks_and_processes),
        TEST(ids_may_be_numbers_or_strings),
        TEST(old_and_foreign_categories_are_known),
        TEST(a_process_and_a_device_of_the_same_number_stay_apart),
        TEST(lanes_that_a_writer_made_beside_a_stream_are_one_track_again),
        TEST(a_flow_before_its_kernel_is_on_the_kernels_track),
        TEST(the_names_that_kineto_had_for_launches_are_read_as_its_own),
        TEST(what_our_writer_made_is_no_part_of_the_trace),
        TEST(an_annotation_is_on_the_stream_that_its_row_or_its_args_say),
        TEST(spans_of_no_known_category_are_on_the_device_if_its_labels_say_so),
    };
    return cmocka_run_group_tests_name("kineto", tests, NULL, NULL);
}
