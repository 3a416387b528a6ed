/* Unit: trace/kineto and trace/open. Every form of a JSON trace, and every way in which a file can be bad. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include "base/json_check.h"
#include "base/plain.h"
#include "trace/json/number.h"
#include "trace/json/source.h"
#include "trace/json/text.h"
#include "trace/kineto/kineto.h"
#include "trace/trace.h"

#ifndef TEST_ROOT
#define TEST_ROOT "."
#endif
#define SMALL TEST_ROOT "/tests/golden/kineto_small.json"
#define REAL TEST_ROOT "/../shared/data/gpt_cpu.json.gz"

/* ------------------------------------------------------------------------------------------- helpers */

static mtp_status read_bytes(const void *bytes, size_t length, size_t window, size_t piece, mtp_trace **out)
{
    mtp__source *source;
    *out = NULL;
    mtp_status status = mtp__source_memory(bytes, length, piece, &source);
    if (status != MTP_OK)
        return status;
    status = mtp__kineto_read(source, NULL, window, out);
    mtp__source_close(source);
    return status;
}

/* A text that must be taken. */
static mtp_trace *read_text(const char *json)
{
    mtp_trace *t;
    mtp_status status = read_bytes(json, strlen(json), 0, 0, &t);
    if (status != MTP_OK)
        fail_msg("%s\n%s", mtp_last_error(), json);
    return t;
}

/* Events, given without the brackets around them. */
static mtp_trace *read_list(const char *events)
{
    size_t room = strlen(events) + 64;
    char *json = malloc(room);
    snprintf(json, room, "{\"traceEvents\": [%s]}", events);
    mtp_trace *t = read_text(json);
    free(json);
    return t;
}

static const char *text(const mtp_trace *t, uint32_t id)
{
    return mtp__trace_get_text(t, id).bytes;
}

static const mtp__track *track_of(const mtp_trace *t, uint32_t span)
{
    return &t->tracks[mtp__trace_track_of(t, span)];
}

/* The one span of that name. */
static uint32_t span_named(const mtp_trace *t, const char *name)
{
    uint32_t found = MTP__NONE;
    for (uint32_t i = 0; i < t->span_count; i++)
        if (strcmp(text(t, t->name[i]), name) == 0) {
            assert_int_equal(found, MTP__NONE);
            found = i;
        }
    if (found == MTP__NONE)
        fail_msg("no span is named '%s'", name);
    return found;
}

static const char *args_of(const mtp_trace *t, const char *name)
{
    return text(t, mtp__trace_detail(t, span_named(t, name))->args);
}

/* All that a trace holds, in words. */
static char *describe(const mtp_trace *t)
{
    char *out;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *r = &t->tracks[k];
        fprintf(f, "track %lld %lld '%s' '%s' '%s' %lld %d\n", (long long)r->pid, (long long)r->tid,
                text(t, r->pid_text), text(t, r->tid_text), text(t, r->name), (long long)r->sort_index,
                r->on_device);
        for (uint32_t i = r->first; i < r->first + r->count; i++) {
            const mtp__detail *d = mtp__trace_detail(t, i);
            const mtp__shape *s = &t->shapes[d->shape];
            fprintf(f, " span %lld %lld '%s' %d %d %d", (long long)t->start[i], (long long)t->end[i],
                    text(t, t->name[i]), t->category[i], t->flags[i], t->parent[i] == MTP__NONE);
            fprintf(f, " %lld %llu %llu %llu %lld %u [%u %u %u] '%s'", (long long)d->sequence,
                    (unsigned long long)d->forward_thread, (unsigned long long)d->correlation,
                    (unsigned long long)d->external_id, (long long)d->bytes, d->event_index, d->grid[0],
                    d->grid[1], d->block[0], text(t, d->category));
            fprintf(f, " %s %s %s %s {%s}\n", text(t, s->dims), text(t, s->strides), text(t, s->types),
                    text(t, s->concrete), text(t, d->args));
        }
    }
    for (uint32_t i = 0; i < t->memory_count; i++)
        fprintf(f, "memory %lld %llu %lld %lld {%s}\n", (long long)t->memory[i].ts,
                (unsigned long long)t->memory[i].address, (long long)t->memory[i].bytes,
                (long long)t->memory[i].total_allocated, text(t, t->memory[i].args));
    for (uint32_t i = 0; i < t->instant_count; i++)
        fprintf(f, "instant %lld '%s' %c %.17g {%s}\n", (long long)t->instants[i].ts,
                text(t, t->instants[i].name), t->instants[i].scope, t->instants[i].value,
                text(t, t->instants[i].args));
    for (uint32_t i = 0; i < t->flow_count; i++)
        fprintf(f, "flow %lld %llu %c '%s'\n", (long long)t->flows[i].ts, (unsigned long long)t->flows[i].id,
                t->flows[i].phase, text(t, t->flows[i].name));
    for (uint32_t i = 0; i < t->process_count; i++)
        fprintf(f, "process %lld '%s' '%s'\n", (long long)t->processes[i].pid, text(t, t->processes[i].name),
                text(t, t->processes[i].labels));
    for (uint32_t i = 0; i < t->metadata_count; i++)
        fprintf(f, "meta '%s' %s\n", text(t, t->metadata[i].key), text(t, t->metadata[i].json));
    fprintf(f, "base %lld pid %llu steps %u skipped %llu\n", (long long)t->base_ns,
            (unsigned long long)t->pid, t->step_count, (unsigned long long)t->skipped_events);
    fclose(f);
    return out;
}

static void assert_same_trace(const mtp_trace *a, const mtp_trace *b)
{
    char *x = describe(a), *y = describe(b);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

static char *slurp_small(size_t *bytes)
{
    char *json = test_slurp(SMALL, bytes);
    assert_non_null(json);
    return json;
}

#define X1(name, ts, dur)                                                                                    \
    "{\"ph\":\"X\",\"name\":\"" name "\",\"pid\":1,\"tid\":2,\"ts\":" #ts ",\"dur\":" #dur "}"

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
    assert_true(first->from_kineto);
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
    assert_true(info.base_ns == 1790857026000000000 && info.from_kineto);
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

/* ----------------------------------------------------------------------------------------------- args */

static void args_without_a_place_in_the_model_are_kept_as_text(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"tts\":5,\"args\":{"
                  "\"x\":1.50,\"External id\":3,\"y\" : {\"z\" : [ 1,2 , {} ]},\"Python id\":4,\"bytes\":9,"
                  "\"grid\":[1,2],\"Sequence number\":-7,\"correlation\":\"12\",\"Input Dims\":\"text\"},"
                  "\"cname\":\"good\"}");
    assert_string_equal(
        args_of(t, "a"),
        "\"tts\": 5, \"x\": 1.50, \"y\": {\"z\": [1, 2, {}]}, \"Python id\": 4, \"bytes\": 9, "
        "\"grid\": [1, 2], \"Sequence number\": -7, \"Input Dims\": \"text\", \"cname\": \"good\"");
    const mtp__detail *d = mtp__trace_detail(t, 0);
    assert_true(d->external_id == 3 && d->correlation == 12 && d->sequence == -1 && d->shape == 0);
    mtp_trace_destroy(t);
}

static void args_may_come_before_everything_else(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"args\":{\"Bytes\":-64,\"Addr\":\"0x40\",\"Device Type\":1,\"Device Id\":2,\"Total Reserved\":3},"
        "\"ts\":1,\"s\":\"t\",\"name\":\"[memory]\",\"ph\":\"i\"},"
        "{\"args\":{\"Bytes\":1},\"ts\":1,\"name\":\"[memory]\",\"ph\":\"i\"},"
        "{\"args\":{\"device\":2,\"stream\":3,\"bytes\":4096,\"queued\":1.5},\"ts\":1,\"dur\":2,"
        "\"name\":\"copy\",\"cat\":\"gpu_memcpy\",\"ph\":\"X\",\"pid\":2,\"tid\":3}");
    assert_int_equal(t->memory_count, 1);
    const mtp__memory *m = &t->memory[0];
    assert_true(m->bytes == -64 && m->address == 64 && m->device_type == 1 && m->device_index == 2);
    assert_true(m->total_reserved == 3 && m->total_allocated == -1 && m->args == 0);
    assert_int_equal(t->instant_count, 1);
    const mtp__detail *d = mtp__trace_detail(t, 0);
    assert_true(d->bytes == 4096 && d->queued_ns == 1500 && d->args == 0);
    mtp_trace_destroy(t);
}

static void of_an_arg_that_is_there_twice_the_later_counts(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{"
                  "\"External id\":3,\"Input Dims\":[[1]],\"External id\":4,\"Input Dims\":[[2]]}}");
    assert_true(mtp__trace_detail(t, 0)->external_id == 4);
    assert_string_equal(text(t, t->shapes[mtp__trace_detail(t, 0)->shape].dims), "[[2]]");
    assert_string_equal(args_of(t, "a"), "");
    mtp_trace_destroy(t);
}

static void shapes_are_spelled_as_kineto_spells_them_and_kept_once(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{"
                  "\"Input dims\":[[4,32],[],[ 7 ]],\"Input type\":[\"float\",\"\",\"a,b\"]}},"
                  "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"b\",\"ts\":2,\"dur\":1,\"args\":{"
                  "\"Input Dims\": [[4, 32], [], [7]], \"Input type\": [\"float\", \"\", \"a,b\"]}}");
    assert_int_equal(t->shape_count, 2);
    assert_int_equal(mtp__trace_detail(t, 0)->shape, mtp__trace_detail(t, 1)->shape);
    assert_string_equal(text(t, t->shapes[1].dims), "[[4, 32], [], [7]]");
    assert_string_equal(text(t, t->shapes[1].types), "[\"float\", \"\", \"a,b\"]");
    mtp_trace_destroy(t);
}

static void stacks_are_kept_frame_by_frame_innermost_first_in_the_file(void **state)
{
    (void)state;
    mtp_trace *t = read_list(
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{"
        "\"stack\":[\"m.py:3:f\",\"m.py:9:g\", \"m.py:1:<module>\"]}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"b\",\"ts\":2,\"dur\":1,\"args\":{"
        "\"Call stack\":\"m.py:4:f;m.py:9:g;m.py:1:<module>\"}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"c\",\"ts\":3,\"dur\":1,\"args\":{"
        "\"stack\":[\"x\",5]}},"
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"d\",\"ts\":4,\"dur\":1,\"args\":{\"stack\":[]}}");
    const mtp__detail *a = mtp__trace_detail(t, 0), *b = mtp__trace_detail(t, 1);
    assert_int_equal(t->stack_count, 1 + 4);
    assert_string_equal(text(t, t->stacks[a->stack].frame), "m.py:3:f");
    assert_string_equal(text(t, t->stacks[b->stack].frame), "m.py:4:f");
    uint32_t g = t->stacks[a->stack].parent;
    assert_int_equal(g, t->stacks[b->stack].parent);
    assert_string_equal(text(t, t->stacks[g].frame), "m.py:9:g");
    assert_int_equal(t->stacks[t->stacks[g].parent].parent, 0);
    assert_string_equal(args_of(t, "c"), "\"stack\": [\"x\", 5]");
    mtp_trace_destroy(t);
}

static void mindtorch_args_are_known(void **state)
{
    (void)state;
    mtp_trace *t =
        read_list("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{"
                  "\"device_type\":\"NPU\",\"step\":3,\"input_shapes\":[[2,3]],\"correlation_id\":9,"
                  "\"npu_memory_allocated_before\":100,\"npu_memory_allocated_after\":164,"
                  "\"npu_memory_allocated_delta\":64,\"runtime_name\":\"r\",\"unfinished\":true,"
                  "\"Output Dims\":[[2, 2]],\"Output type\":[\"float\"]}}");
    const mtp__detail *d = mtp__trace_detail(t, 0);
    assert_true(d->device == MTP_DEVICE_NPU(0) && d->correlation == 9 && d->number == 3);
    assert_true(d->allocated_before == 100 && d->allocated_after == 164);
    assert_string_equal(text(t, t->shapes[d->shape].dims), "[[2, 3]]");
    assert_string_equal(text(t, t->shapes[d->outputs].dims), "[[2, 2]]");
    assert_string_equal(text(t, d->args), "\"runtime_name\": \"r\", \"unfinished\": true");
    assert_int_equal(t->flags[0], MTP__SPAN_UNFINISHED);
    assert_int_equal(t->unfinished, 1);
    mtp_trace_destroy(t);
}

static void steps_modules_and_backward_are_flagged(void **state)
{
    (void)state;
#define NAMED(cat, name, args)                                                                               \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name                                                     \
    "\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":1,\"args\":{" args "}}"
    mtp_trace *t = read_list(NAMED("user_annotation", "ProfilerStep#12", "") "," NAMED(
        "gpu_user_annotation", "ProfilerStep#13",
        "") "," NAMED("user_annotation", "ProfilerStep#x",
                      "") "," NAMED("python_function", "nn.Module: Linear_0",
                                    "") "," NAMED("cpu_op", "MmBackward0",
                                                  "\"Sequence number\":4,\"Fwd thread "
                                                  "id\":1") "," NAMED("cpu_op",
                                                                      "autograd::engine::"
                                                                      "evaluate_function: "
                                                                      "MmBackward0",
                                                                      ""));
    assert_int_equal(t->flags[span_named(t, "ProfilerStep#12")] & ~MTP__SPAN_OVERLAP, MTP__SPAN_STEP);
    assert_int_equal(mtp__trace_detail(t, span_named(t, "ProfilerStep#12"))->number, 12);
    assert_int_equal(t->flags[span_named(t, "ProfilerStep#13")] & MTP__SPAN_STEP, 0);
    assert_int_equal(t->flags[span_named(t, "ProfilerStep#x")] & MTP__SPAN_STEP, 0);
    assert_int_equal(t->flags[span_named(t, "nn.Module: Linear_0")] & MTP__SPAN_MODULE, MTP__SPAN_MODULE);
    assert_int_equal(t->flags[span_named(t, "MmBackward0")] & MTP__SPAN_BACKWARD, MTP__SPAN_BACKWARD);
    assert_int_equal(t->flags[span_named(t, "autograd::engine::evaluate_function: MmBackward0")] &
                         MTP__SPAN_BACKWARD,
                     MTP__SPAN_BACKWARD);
    assert_int_equal(t->step_count, 1);
    mtp_trace_destroy(t);
}

static void a_million_args_are_kept(void **state)
{
    (void)state;
    int many = test_scaled(1000000);
    char *json;
    size_t size;
    FILE *f = open_memstream(&json, &size);
    fputs("[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{\"x\":0", f);
    for (int i = 0; i < many; i++)
        fprintf(f, ",\"k%d\":%d", i, i);
    fputs(",\"External id\":5}}]", f);
    fclose(f);
    mtp_trace *t;
    assert_ok(read_bytes(json, size, 0, 0, &t));
    mtp_text args = mtp__trace_get_text(t, mtp__trace_detail(t, 0)->args);
    int commas = 0;
    for (size_t i = 0; i < args.length; i++)
        commas += args.bytes[i] == ',';
    assert_int_equal(commas, many);
    assert_true(mtp__trace_detail(t, 0)->external_id == 5);
    mtp_trace_destroy(t);
    free(json);
}

/* --------------------------------------------------------------------------------------- hostile text */

static void names_are_read_to_the_byte(void **state)
{
    (void)state;
    static const struct {
        const char *json, *name;
        size_t length;
    } cases[] = {{"", "", 0},
                 {"plain", "plain", 5},
                 {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 8},
                 {"\\u0041\\u00e9\\u20AC", "A\xc3\xa9\xe2\x82\xac", 6},
                 {"\\ud83d\\ude00", "\xf0\x9f\x98\x80", 4},
                 {"a\\ud800b",
                  "a\xef\xbf\xbd"
                  "b",
                  5},
                 {"\\ud800\\u0041",
                  "\xef\xbf\xbd"
                  "A",
                  4},
                 {"\\udc00", "\xef\xbf\xbd", 3},
                 {"\\ud800\\ud800\\udc00", "\xef\xbf\xbd\xf0\x90\x80\x80", 7},
                 {"x\\u0000y", "x\0y", 3},
                 {"\xff\xfe\x80", "\xff\xfe\x80", 3},
                 {"\xed\xa0\x80", "\xed\xa0\x80", 3},
                 {"C:\\Users\\x", "C:\\Users\\x", 10},
                 {"\\u12g4", "\\u12g4", 6},
                 {"\\", "\\", 0}, /* see below: the quote is escaped */
                 {"raw\ttab\x1b[31m", "raw\ttab\x1b[31m", 12},
                 {"</script>\xe2\x80\xa8%s../", "</script>\xe2\x80\xa8%s../", 17}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256];
        if (cases[i].json[0] == '\\' && cases[i].json[1] == 0)
            continue;
        snprintf(json, sizeof json, "[{\"ph\":\"X\",\"name\":\"%s\",\"ts\":1,\"dur\":1}]", cases[i].json);
        mtp_trace *t = read_text(json);
        mtp_text name = mtp__trace_get_text(t, t->name[0]);
        if (name.length != cases[i].length || memcmp(name.bytes, cases[i].name, name.length) != 0)
            fail_msg("'%s' became '%s', %zu bytes", cases[i].json, name.bytes, name.length);
        mtp_trace_destroy(t);
    }
}

static void raw_zero_bytes_in_a_name_are_kept(void **state)
{
    (void)state;
    static const char json[] = "[{\"ph\":\"X\",\"name\":\"a\0b\",\"ts\":1,\"dur\":1}]";
    mtp_trace *t;
    assert_ok(read_bytes(json, sizeof json - 1, 0, 0, &t));
    assert_int_equal(mtp__trace_get_text(t, t->name[0]).length, 3);
    mtp_trace_destroy(t);
}

/* What goes out again as it came in must be what a strict parser takes. */
static void kept_json_is_strict_whatever_came_in(void **state)
{
    (void)state;
    mtp_trace *t = read_text(
        "{\"m\": [NaN, -Infinity, inf, nan, -nan, \"\x01\xff\\x\\ud800\"], \"traceEvents\":[{\"ph\":\"X\","
        "\"name\":\"a\",\"ts\":1,\"dur\":1,\"args\":{\"k\x02\xc3\":NaN,\"v\":\"\t\xe2\x82\",\"u\":[\"\\q\","
        "inf]}}]}");
    size_t at;
    mtp_text meta = mtp__trace_get_text(t, t->metadata[0].json);
    assert_string_equal(
        meta.bytes,
        "[\"NaN\", \"-Infinity\", \"inf\", \"nan\", \"-nan\", \"\\u0001\xef\xbf\xbd\\\\x\\ufffd\"]");
    assert_true(mtp__json_check(meta.bytes, meta.length, &at));
    assert_string_equal(args_of(t, "a"), "\"k\\u0002\xef\xbf\xbd\": \"NaN\", \"v\": \"\\u0009\xef\xbf\xbd\", "
                                         "\"u\": [\"\\\\q\", \"inf\"]");
    mtp_trace_destroy(t);
}

static void random_bytes_in_strings_always_leave_strict_json(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "\\",   "\\u", "\\ud8", "\\ud83d", "\\ude00", "\"",   "\x80",         "\xe2\x82\xac", "\xf0\x9f",
        "\x1f", "a",   "0041",  "\\n",     "\\\\",    "\xc0", "\xed\xa0\x80", "</script>",    "\x7f"};
    for (int round = 0; round < test_scaled(20000); round++) {
        char raw[128] = "", json[512];
        size_t length = 0;
        for (int i = 0; i < 8; i++) {
            const char *piece = pieces[test_below(COUNT(pieces))];
            memcpy(raw + length, piece, strlen(piece) + 1);
            length += strlen(piece);
        }
        snprintf(json, sizeof json,
                 "[{\"ph\":\"X\",\"name\":\"n\",\"ts\":1,\"dur\":1,\"args\":{\"k%s\":[\"%s\"]}}]", raw, raw);
        mtp_trace *t;
        if (read_bytes(json, strlen(json), 0, 0, &t) != MTP_OK)
            continue; /* the quotes fell so that it is no JSON */
        mtp_text args = mtp__trace_get_text(t, mtp__trace_detail(t, 0)->args);
        char whole[1024];
        int n = snprintf(whole, sizeof whole, "{%s}", args.bytes);
        size_t at;
        if (!mtp__json_check(whole, (size_t)n, &at))
            fail_msg("%s\nbecame, wrong at %zu,\n%s", json, at, whole);
        mtp_trace_destroy(t);
    }
}

static char *with_long_name(size_t length, size_t *size)
{
    char *json;
    FILE *f = open_memstream(&json, size);
    fputs("[" X1("a", 1, 1) ",{\"ph\":\"X\",\"ts\":2,\"dur\":1,\"name\":\"", f);
    for (size_t i = 0; i < length; i++)
        fputc('x', f);
    fputs("\"}," X1("b", 3, 1) "]", f);
    fclose(f);
    return json;
}

static void a_string_longer_than_the_window_is_read(void **state)
{
    (void)state;
    size_t size;
    char *json = with_long_name(1 << 20, &size);
    mtp_trace *t;
    assert_ok(read_bytes(json, size, 64, 0, &t));
    assert_int_equal(t->span_count, 3);
    assert_int_equal(mtp__trace_get_text(t, t->name[mtp__trace_track_of(t, 0) == 0 ? 2 : 0]).length, 1 << 20);
    mtp_trace_destroy(t);
    free(json);
}

static void an_event_beyond_the_limit_is_an_error_and_no_flood(void **state)
{
    (void)state;
    size_t size, limit = MTP__KINETO_LARGEST;
    char *json = with_long_name(limit + 1000, &size);
    mtp_trace *t;
    assert_int_equal(read_bytes(json, size, 0, 0, &t), MTP_E_FORMAT);
    assert_says("one event or value of more than");
    free(json);
}

/* ------------------------------------------------------------------------------------------ bad files */

static void errors_tell_the_byte_and_what_was_expected(void **state)
{
    (void)state;
    static const struct {
        const char *json, *story;
    } cases[] = {
        {"hello", "byte 0: expected '{' or '['"},
        {"  42", "byte 2: expected '{' or '['"},
        {"   ", "byte 3: the file ends where '{' or '['"},
        {"{}", "no \"traceEvents\""},
        {"{\"a\":1}", "no \"traceEvents\""},
        {"{\"traceEvents\":{}}", "byte 15: expected '[' after \"traceEvents\""},
        {"{\"traceEvents\":[]", "byte 17: the file ends where ',' or '}'"},
        {"{\"traceEvents\":[", "byte 16: the file ends where an event or ']'"},
        {"{\"traceEvents\":[]}x", "byte 18: expected the end of the file, not 'x'"},
        {"{\"traceEvents\":[]} {}", "byte 19: expected the end of the file"},
        {"{\"traceEvents\":[{\"ph\":\"X\"} {}]}", "byte 27: expected ',' or ']' after an event"},
        {"{\"traceEvents\":[{\"ph\" \"X\"}]}", "byte 22: expected ':' after a member's name"},
        {"{\"traceEvents\":[{\"ph\":\"X\" \"ts\":1}]}", "byte 26: expected ',' or '}' after a member"},
        {"{\"traceEvents\":[{ph:1}]}", "byte 17: expected '\"' at the start of a member's name"},
        {"{\"traceEvents\":[{\"ts\":}]}", "byte 22: expected a value"},
        {"{\"traceEvents\":[{\"ts\":01}]}", "byte 22: expected a value"},
        {"{\"traceEvents\":[{\"ts\":1.}]}", "byte 22: expected a value"},
        {"{\"traceEvents\":[{\"args\":{\"a\":[1 2]}}]}", "byte 32: expected ',' or ']' after an item"},
        {"{\"traceEvents\":[{\"args\":{\"a\":{\"b\":1]}}}]}", "byte 35: expected ',' or '}' after a member"},
        {"{\"traceEvents\":[{\"args\":{\"a\":tru}}]}", "byte 29: expected a value"},
        {"{\"a\":[1,]}", "byte 8: expected a value"},
        {"{\"a\" 1}", "byte 5: expected ':'"},
        {"{\"a\":1 \"b\":2}", "byte 7: expected ',' or '}'"},
        {"{\"a\":\"x", "byte 7: the file ends where '\"' at the end of a string"},
        {"[{\"ph\":\"X\",\"ts\":1", "byte 17: the file ends where"},
        {"[1}", "byte 2: expected ',' or ']' after an event"},
        {"\x7f"
         "ELF\x02",
         "byte 0: expected '{' or '[' at the start of a JSON trace, not the byte 0x7f"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        mtp_trace *t;
        mtp_status status = read_bytes(cases[i].json, strlen(cases[i].json), 0, 0, &t);
        if (status != MTP_E_FORMAT || t != NULL || strstr(mtp_last_error(), cases[i].story) == NULL)
            fail_msg("%s\nsays %d: %s\nnot: %s", cases[i].json, status, mtp_last_error(), cases[i].story);
    }
}

static void a_file_cut_off_anywhere_is_an_error(void **state)
{
    (void)state;
    size_t bytes;
    char *json = slurp_small(&bytes);
    long live = mtp__alloc_live();
    while (bytes > 0 && json[bytes - 1] == '\n')
        bytes--;
    for (size_t cut = 1; cut < bytes; cut++) {
        mtp_trace *t;
        char *exact = memcpy(malloc(cut), json, cut);
        mtp_status status = read_bytes(exact, cut, 0, 0, &t);
        if (status != MTP_E_FORMAT)
            fail_msg("cut at %zu: %d", cut, status);
        if (cut > 4)
            assert_says("it is truncated");
        free(exact);
    }
    assert_int_equal(mtp__alloc_live(), live);
    free(json);
}

/* A bare array may end between events, but not inside of one. */
static void a_bare_array_cut_off_inside_an_event_is_an_error(void **state)
{
    (void)state;
    static const char json[] = "[" X1("a", 1, 5) ", " X1("b", 2, 1) "]";
    size_t one = strlen("[" X1("a", 1, 5)), all = sizeof json - 1;
    for (size_t cut = 1; cut <= all; cut++) {
        mtp_trace *t;
        bool between = cut == 1 || (cut >= one && cut <= one + 2) || cut >= all - 1;
        assert_int_equal(read_bytes(json, cut, 0, 0, &t), between ? MTP_OK : MTP_E_FORMAT);
        if (between)
            assert_int_equal(t->span_count, cut == 1 ? 0 : cut < all - 1 ? 1 : 2);
        mtp_trace_destroy(t);
    }
}

static void every_window_and_every_piece_give_the_same_trace(void **state)
{
    (void)state;
    size_t bytes;
    char *json = slurp_small(&bytes);
    mtp_trace *first, *t;
    assert_ok(read_bytes(json, bytes, 0, 0, &first));
    for (size_t window = 16; window < 2048; window += window < 600 ? 1 : 37) {
        assert_ok(read_bytes(json, bytes, window, 0, &t));
        assert_same_trace(first, t);
        mtp_trace_destroy(t);
    }
    for (size_t piece = 1; piece < 20; piece++) {
        assert_ok(read_bytes(json, bytes, 16 + piece, piece, &t));
        assert_same_trace(first, t);
        mtp_trace_destroy(t);
    }
    mtp_trace_destroy(first);
    free(json);
}

/* Errors too: what is wrong does not depend on where the window ends. */
static void every_window_tells_the_same_error(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "{\"traceEvents\":[{\"args\":{\"a\":[1, 2.5, true, \"x\\ny\", nul]}}]}",
        "{\"key\":{\"a\":[1,2,{\"b\":-}]},\"traceEvents\":[]}",
        "{\"traceEvents\":[{\"ph\":\"X\",\"ts\":12.345,\"dur\":1e}]}",
        "[{\"ph\":\"X\",\"ts\":12.345,\"dur\":1}"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char story[512];
        mtp_trace *t;
        mtp_status first = read_bytes(wrong[i], strlen(wrong[i]), 0, 0, &t), status;
        mtp_trace_destroy(t);
        snprintf(story, sizeof story, "%s", first != MTP_OK ? mtp_last_error() : "");
        for (size_t window = 16; window < 100; window++) {
            status = read_bytes(wrong[i], strlen(wrong[i]), window, 1, &t);
            mtp_trace_destroy(t);
            assert_int_equal(status, first);
            if (status != MTP_OK)
                assert_string_equal(mtp_last_error(), story);
        }
    }
}

static void nesting_beyond_the_limit_is_an_error_not_an_overflow(void **state)
{
    (void)state;
    enum {
        DEEP = 100000
    };
    static const struct {
        const char *head, *open, *close, *tail;
    } forms[] = {{"[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"args\":{\"a\":", "[", "]", "}}]"},
                 {"[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"args\":{\"a\":", "{\"b\":", "}", "}}]"},
                 {"{\"traceEvents\":[],\"a\":", "[", "]", "}"},
                 {"[", "[", "]", "]"}};
    for (size_t i = 0; i < COUNT(forms); i++)
        for (int depth = 9000; depth <= DEEP; depth += DEEP - 9000) {
            char *json;
            size_t size;
            FILE *f = open_memstream(&json, &size);
            fputs(forms[i].head, f);
            for (int k = 0; k < depth; k++)
                fputs(forms[i].open, f);
            fputs("1", f);
            for (int k = 0; k < depth; k++)
                fputs(forms[i].close, f);
            fputs(forms[i].tail, f);
            fclose(f);
            mtp_trace *t;
            mtp_status status = read_bytes(json, size, 0, 0, &t);
            assert_int_equal(status, depth == DEEP ? MTP_E_FORMAT : MTP_OK);
            if (status != MTP_OK)
                assert_says("nested more than 10000 deep");
            mtp_trace_destroy(t);
            free(json);
        }
}

static void every_failing_allocation_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    size_t bytes;
    char *json = slurp_small(&bytes);
    char *more = malloc(bytes + 4096);
    /* what the small trace lacks: pairs, stacks, async, escapes, counters */
    const char *extra =
        "{\"ph\":\"B\",\"name\":\"\\u0041\",\"ts\":1,\"args\":{\"x\":\"\\t\"}},{\"ph\":\"E\",\"ts\":2,"
        "\"args\":{\"y\":[1 , 2]}},{\"ph\":\"b\",\"id\":\"q\",\"name\":\"z\",\"ts\":1},{\"ph\":\"X\","
        "\"name\":\"open\",\"ts\":3,\"args\":{\"stack\":[\"a\",\"b\"]}},{\"ph\":\"C\",\"name\":\"c\","
        "\"ts\":1,\"args\":{\"v\":1}},{\"ph\":\"M\",\"name\":\"other\",\"args\":{\"v\":1}},";
    char *events = strstr(json, "\"traceEvents\": [") + strlen("\"traceEvents\": [");
    int n = sprintf(more, "%.*s%s%s", (int)(events - json), json, extra, events);
    for (int forever = 0; forever < 2; forever++)
        for (int nth = 1;; nth++) {
            mtp_trace *t;
            long live = mtp__alloc_live();
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, forever);
            mtp_status status = read_bytes(more, (size_t)n, 64, 0, &t);
            int fired = mtp__fault_stop();
            if (fired == 0) {
                assert_ok(status);
                assert_true(nth > 40);
                mtp_trace_destroy(t);
                break;
            }
            if (status != MTP_E_NOMEM || t != NULL)
                fail_msg("allocation %d failed, the status is %d", nth, status);
            assert_int_equal(mtp__alloc_live(), live);
        }
    free(more);
    free(json);
}

/* ---------------------------------------------------------------------------------------------- files */

static void *compressed(const void *bytes, size_t length, int level, size_t *out)
{
    z_stream z = {0};
    size_t room = length + length / 8 + 1024;
    void *to = malloc(room);
    deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)length;
    z.next_out = to;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *out = room - z.avail_out;
    deflateEnd(&z);
    return to;
}

static void gzip_and_zstd_are_read_like_the_plain_file(void **state)
{
    (void)state;
    size_t bytes, packed;
    char *json = slurp_small(&bytes);
    mtp_trace *first, *t;
    assert_ok(read_bytes(json, bytes, 0, 0, &first));
    for (int level = 0; level <= 9; level += 3) {
        void *gz = compressed(json, bytes, level, &packed);
        for (size_t piece = 0; piece < 3; piece++) {
            assert_ok(read_bytes(gz, packed, 0, piece, &t));
            assert_same_trace(first, t);
            mtp_trace_destroy(t);
        }
        free(gz);
    }
    size_t room = ZSTD_compressBound(bytes);
    char *z = malloc(room * 2);
    packed = ZSTD_compress(z, room, json, bytes / 2, 3);
    packed += ZSTD_compress(z + packed, room, json + bytes / 2, bytes - bytes / 2, 3); /* two frames */
    assert_ok(read_bytes(z, packed, 0, 0, &t));
    assert_same_trace(first, t);
    mtp_trace_destroy(t);
    for (size_t cut = 4; cut < packed; cut += 1 + cut / 16) {
        assert_int_equal(read_bytes(z, cut, 0, 0, &t), MTP_E_FORMAT);
        mtp_trace_destroy(t);
    }
    free(z);
    mtp_trace_destroy(first);
    free(json);
}

static void members_of_a_gzip_file_are_read_as_one(void **state)
{
    (void)state;
    size_t bytes, at = 0;
    char *json = slurp_small(&bytes);
    unsigned char *gz = malloc(bytes * 2 + 65536);
    for (size_t from = 0; from < bytes; from += 500) {
        size_t packed, part = bytes - from < 500 ? bytes - from : 500;
        void *member = compressed(json + from, part, 6, &packed);
        memcpy(gz + at, member, packed);
        at += packed;
        free(member);
    }
    mtp_trace *first, *t;
    assert_ok(read_bytes(json, bytes, 0, 0, &first));
    assert_ok(read_bytes(gz, at, 0, 0, &t));
    assert_same_trace(first, t);
    mtp_trace_destroy(t);
    memset(gz + at, 0, 1000); /* tape padding */
    assert_ok(read_bytes(gz, at + 1000, 0, 7, &t));
    assert_same_trace(first, t);
    mtp_trace_destroy(t);
    memcpy(gz + at, "rubbish", 7);
    assert_int_equal(read_bytes(gz, at + 7, 0, 0, &t), MTP_E_FORMAT);
    assert_says("the gzip data is followed by something that is not gzip");
    assert_int_equal(read_bytes(gz, at + 1, 0, 0, &t), MTP_E_FORMAT);
    mtp_trace_destroy(first);
    free(gz);
    free(json);
}

static void a_gzip_file_cut_off_or_damaged_anywhere_is_an_error(void **state)
{
    (void)state;
    size_t bytes, packed;
    char *json = slurp_small(&bytes);
    unsigned char *gz = compressed(json, bytes, 6, &packed);
    mtp_trace *first, *t;
    assert_ok(read_bytes(json, bytes, 0, 0, &first));
    for (size_t cut = 2; cut < packed; cut++) {
        assert_int_equal(read_bytes(gz, cut, 0, 0, &t), MTP_E_FORMAT);
        assert_says("the gzip data is truncated, at byte");
    }
    for (size_t at = 2; at < packed; at++) {
        gz[at] ^= (unsigned char)(1u << at % 8);
        if (read_bytes(gz, packed, 0, 0, &t) == MTP_OK) /* a flag of the header, or a time */
            assert_same_trace(first, t);
        mtp_trace_destroy(t);
        gz[at] ^= (unsigned char)(1u << at % 8);
    }
    mtp_trace_destroy(first);
    free(gz);
    free(json);
}

static void a_gzip_bomb_is_streamed_not_held(void **state)
{
    (void)state;
    for (size_t mib = 32; mib <= 200; mib += 168) {
        size_t spaces = mib << 20, packed;
        char *plain = malloc(spaces + 1);
        memset(plain, ' ', spaces);
        plain[0] = '[';
        plain[spaces] = ']';
        void *gz = compressed(plain, spaces + 1, 6, &packed);
        free(plain);
        assert_true(packed * 900 < spaces);
        size_t before = test_rss();
        mtp_trace *t;
        mtp_status status = read_bytes(gz, packed, 0, 0, &t);
        if (!TEST_ASAN && !TEST_TSAN)
            assert_true(test_rss() < before + ((size_t)16 << 20));
        assert_int_equal(status, mib == 32 ? MTP_OK : MTP_E_FORMAT);
        if (status == MTP_OK)
            assert_int_equal(t->span_count, 0);
        else
            assert_says("spaces in a row");
        mtp_trace_destroy(t);
        free(gz);
    }
}

/* A few kilobytes that are a million events: each way to say how much memory they may have. */
static void a_gzip_bomb_of_events_ends_at_the_memory_it_may_take(void **state)
{
    (void)state;
    static const char event[] = "{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"pid\":1,\"tid\":1},";
    size_t each = sizeof event - 1, count = 600000, packed;
    char *plain = malloc(each * count + 2), file[512];
    plain[0] = '[';
    for (size_t i = 0; i < count; i++)
        memcpy(plain + 1 + i * each, event, each);
    plain[each * count] = ']';
    void *gz = compressed(plain, each * count + 1, 6, &packed);
    free(plain);
    snprintf(file, sizeof file, "%s", test_path("bomb.json.gz"));
    test_spew(file, gz, packed);
    free(gz);
    mtp_trace *t;
    mtp_check *c;
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    options.max_memory = (uint64_t)8 << 20;
    long live = mtp__alloc_live();
    size_t before = test_rss();
    assert_int_equal(mtp_trace_open(file, &options, &t), MTP_E_NOMEM);
    assert_says("bomb.json.gz: over the memory limit of 8.4 MB: no room for");
    assert_says("allow more with --max-memory, MTPROF_MAX_MEMORY or max_memory");
    assert_int_equal(mtp_trace_check_file(file, &options, &c), MTP_E_NOMEM);
    assert_says("over the memory limit of 8.4 MB");
    setenv("MTPROF_MAX_MEMORY", "8M", 1);
    assert_int_equal(mtp_trace_open(file, NULL, &t), MTP_E_NOMEM);
    setenv("MTPROF_MAX_MEMORY", "plenty", 1);
    assert_int_equal(mtp_trace_open(file, NULL, &t), MTP_E_ARG);
    assert_says("MTPROF_MAX_MEMORY 'plenty' is not a size; use 2G, 500M or none");
    if (!TEST_ASAN && !TEST_TSAN)
        assert_true(test_rss() < before + ((size_t)24 << 20));
    static const char *const enough[] = {"1G", "0.5GiB", "none", "900000k"};
    for (size_t i = 0; i < COUNT(enough); i++) {
        setenv("MTPROF_MAX_MEMORY", enough[i], 1);
        assert_ok(mtp_trace_open(file, NULL, &t));
        assert_int_equal(t->span_count, count);
        mtp_trace_destroy(t);
    }
    unsetenv("MTPROF_MAX_MEMORY");
    options.size = offsetof(mtp_open_options, max_memory); /* a caller of before */
    assert_ok(mtp_trace_open(file, &options, &t));
    mtp_trace_destroy(t);
    assert_int_equal(mtp__alloc_live(), live);
}

/* Nobody has said how much memory it may take: what is hundreds of times larger than its file is not read. */
static void a_gzip_bomb_is_refused_unless_memory_was_granted(void **state)
{
    (void)state;
    static const char event[] = "{\"ph\":\"i\",\"name\":\"a\",\"ts\":1,\"pid\":1,\"tid\":1},";
    size_t each = sizeof event - 1, count = ((size_t)140 << 20) / each, packed;
    char *plain = malloc(each * count + 2), file[512];
    plain[0] = '[';
    for (size_t i = 0; i < count; i++)
        memcpy(plain + 1 + i * each, event, each);
    plain[each * count] = ']';
    void *gz = compressed(plain, each * count + 1, 6, &packed);
    free(plain);
    assert_true(packed < each * count / 250);
    snprintf(file, sizeof file, "%s", test_path("times.json.gz"));
    test_spew(file, gz, packed);
    free(gz);
    mtp_trace *t;
    mtp_check *c;
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    unsetenv("MTPROF_MAX_MEMORY");
    assert_ok(mtp_memory_limit(NULL));
    size_t before = test_rss();
    assert_int_equal(mtp_trace_open(file, &options, &t), MTP_E_UNSUPPORTED);
    assert_says("times.json.gz: the gzip content is more than 200 times as large as the file");
    assert_says("--max-memory, MTPROF_MAX_MEMORY or max_memory");
    assert_int_equal(mtp_trace_check_file(file, &options, &c), MTP_E_UNSUPPORTED);
    if (!TEST_ASAN && !TEST_TSAN)
        assert_true(test_rss() < before + ((size_t)200 << 20));
    options.max_memory = (uint64_t)1 << 30;
    assert_ok(mtp_trace_open(file, &options, &t));
    assert_int_equal(t->instant_count, count);
    mtp_trace_destroy(t);
    assert_ok(mtp_memory_limit("none"));
}

static void a_threads_limit_holds_for_analyses_too(void **state)
{
    (void)state;
    mtp_trace *t, *second = NULL;
    mtp_averages *rows = NULL;
    mtp_memory_limit("none");
    assert_ok(mtp_trace_open(SMALL, NULL, &t));
    assert_ok(mtp_memory_limit("1k"));
    assert_int_equal(mtp_averages_create(t, NULL, &rows), MTP_E_NOMEM);
    assert_says("over the memory limit of 1.0 kB");
    assert_int_equal(mtp_trace_open(SMALL, NULL, &second), MTP_E_NOMEM);
    assert_int_equal(mtp_memory_limit("2 elephants"), MTP_E_ARG);
    assert_ok(mtp_memory_limit("64M"));
    for (int i = 0; i < 500; i++) { /* what is given back may be had again */
        assert_ok(mtp_trace_open(SMALL, NULL, &second));
        mtp_trace_destroy(second);
    }
    assert_ok(mtp_averages_create(t, NULL, &rows));
    mtp_averages_destroy(rows);
    mtp_trace_destroy(t);
    assert_ok(mtp_memory_limit("none"));
}

static void a_gzip_bomb_of_one_endless_string_ends_at_the_limit(void **state)
{
    (void)state;
    size_t bytes = (size_t)200 << 20, packed;
    char *plain = malloc(bytes);
    memset(plain, 'a', bytes);
    memcpy(plain, "[\"", 2);
    void *gz = compressed(plain, bytes, 1, &packed);
    free(plain);
    mtp_trace *t;
    assert_int_equal(read_bytes(gz, packed, 0, 0, &t), MTP_E_FORMAT);
    assert_says("one event or value of more than");
    free(gz);
}

static void what_is_no_file_is_told_with_its_name(void **state)
{
    (void)state;
    mtp_trace *t = (void *)1;
    assert_int_equal(mtp_trace_open("/no/such/file", NULL, &t), MTP_E_IO);
    assert_null(t);
    assert_says("/no/such/file");
    assert_int_equal(mtp_trace_open("/tmp", NULL, &t), MTP_E_IO);
    assert_says("Is a directory");
    assert_int_equal(mtp_trace_open("/dev/null", NULL, &t), MTP_E_FORMAT);
    assert_says("empty");
    const char *path = test_path("garbage.json");
    unsigned char garbage[4096];
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (unsigned char)(test_random() | 1);
    garbage[0] = 0x81;
    test_spew(path, garbage, sizeof garbage);
    assert_int_equal(mtp_trace_open(path, NULL, &t), MTP_E_FORMAT);
    assert_says("garbage.json");
    assert_says("byte 0");
    assert_int_equal(mtp_trace_open(NULL, NULL, &t), MTP_E_ARG);
    assert_int_equal(mtp_trace_open(path, NULL, NULL), MTP_E_ARG);
    mtp_open_options options = {1, NULL, NULL, 0};
    assert_int_equal(mtp_trace_open(path, &options, &t), MTP_E_ABI);
}

static void a_read_error_is_told(void **state)
{
    (void)state;
    mtp_trace *t;
    for (int nth = 1; nth < 4; nth++) {
        mtp__fault_plan(1u << MTP__FAULT_READ, nth, true);
        mtp_status status = mtp_trace_open(SMALL, NULL, &t);
        int fired = mtp__fault_stop();
        if (fired == 0) {
            mtp_trace_destroy(t);
            break;
        }
        assert_int_equal(status, MTP_E_IO);
        assert_null(t);
    }
}

static void *feed(void *path)
{
    size_t bytes;
    char *json = test_slurp(SMALL, &bytes);
    int fd = open(path, O_WRONLY);
    for (size_t at = 0; at < bytes; at += 777) {
        size_t part = bytes - at < 777 ? bytes - at : 777;
        if (write(fd, json + at, part) != (ssize_t)part)
            break;
    }
    close(fd);
    free(json);
    return NULL;
}

static void a_fifo_is_read(void **state)
{
    (void)state;
    const char *path = test_path("fifo");
    pthread_t thread;
    mtp_trace *first, *t;
    assert_int_equal(mkfifo(path, 0600), 0);
    pthread_create(&thread, NULL, feed, (void *)(uintptr_t)path);
    assert_ok(mtp_trace_open(path, NULL, &t));
    pthread_join(thread, NULL);
    assert_ok(mtp_trace_open(SMALL, NULL, &first));
    assert_same_trace(first, t);
    mtp_trace_destroy(t);
    mtp_trace_destroy(first);
}

static void read_stdin(void *arg)
{
    mtp_trace *t;
    CHILD_CHECK(dup2(*(int *)arg, STDIN_FILENO) == STDIN_FILENO);
    CHILD_CHECK(mtp_trace_open("-", NULL, &t) == MTP_OK);
    CHILD_CHECK(t->span_count == 5);
    CHILD_CHECK(strcmp(t->source, "standard input") == 0);
    CHILD_CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* not ours to close */
    mtp_trace_destroy(t);
}

static void standard_input_is_a_dash(void **state)
{
    (void)state;
    int fd = open(SMALL, O_RDONLY);
    assert_true(test_left_well(test_child(read_stdin, &fd, 20)));
    close(fd);
}

typedef struct heard {
    int calls;
    uint64_t done, total;
} heard;

static void hear(void *user, uint64_t done, uint64_t total)
{
    heard *h = user;
    h->calls++;
    if (done < h->done || done > total)
        h->calls = -1000;
    h->done = done;
    h->total = total;
}

static void progress_goes_up_to_the_whole(void **state)
{
    (void)state;
    heard h = {0};
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    options.progress = hear;
    options.user = &h;
    const char *path = test_path("long.json");
    FILE *f = fopen(path, "w");
    fputc('[', f);
    for (int i = 0; i < 500000; i++)
        fprintf(f, "{\"ph\":\"X\",\"name\":\"n%d\",\"pid\":1,\"tid\":%d,\"ts\":%d.5,\"dur\":0.25},\n",
                i % 100, i % 7, i);
    fclose(f);
    mtp_trace *t;
    assert_ok(mtp_trace_open(path, &options, &t));
    assert_int_equal(t->span_count, 500000);
    assert_true(h.calls >= 2 && h.done == h.total && h.total > 25000000);
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
        TEST(args_without_a_place_in_the_model_are_kept_as_text),
        TEST(args_may_come_before_everything_else),
        TEST(of_an_arg_that_is_there_twice_the_later_counts),
        TEST(shapes_are_spelled_as_kineto_spells_them_and_kept_once),
        TEST(stacks_are_kept_frame_by_frame_innermost_first_in_the_file),
        TEST(mindtorch_args_are_known),
        TEST(steps_modules_and_backward_are_flagged),
        TEST(a_million_args_are_kept),
        TEST(names_are_read_to_the_byte),
        TEST(raw_zero_bytes_in_a_name_are_kept),
        TEST(kept_json_is_strict_whatever_came_in),
        TEST(random_bytes_in_strings_always_leave_strict_json),
        TEST(a_string_longer_than_the_window_is_read),
        TEST(an_event_beyond_the_limit_is_an_error_and_no_flood),
        TEST(errors_tell_the_byte_and_what_was_expected),
        TEST(a_file_cut_off_anywhere_is_an_error),
        TEST(a_bare_array_cut_off_inside_an_event_is_an_error),
        TEST(every_window_and_every_piece_give_the_same_trace),
        TEST(every_window_tells_the_same_error),
        TEST(nesting_beyond_the_limit_is_an_error_not_an_overflow),
        TEST(every_failing_allocation_is_reported_and_nothing_leaks),
        TEST(gzip_and_zstd_are_read_like_the_plain_file),
        TEST(members_of_a_gzip_file_are_read_as_one),
        TEST(a_gzip_file_cut_off_or_damaged_anywhere_is_an_error),
        TEST(a_gzip_bomb_is_streamed_not_held),
        TEST(a_gzip_bomb_of_events_ends_at_the_memory_it_may_take),
        TEST(a_gzip_bomb_is_refused_unless_memory_was_granted),
        TEST(a_threads_limit_holds_for_analyses_too),
        TEST(a_gzip_bomb_of_one_endless_string_ends_at_the_limit),
        TEST(what_is_no_file_is_told_with_its_name),
        TEST(a_read_error_is_told),
        TEST(a_fifo_is_read),
        TEST(standard_input_is_a_dash),
        TEST(progress_goes_up_to_the_whole),
    };
    return cmocka_run_group_tests_name("kineto", tests, NULL, NULL);
}
