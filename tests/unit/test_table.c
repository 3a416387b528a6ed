/* Unit: present/table, present/rows, present/plain_text. Expected texts are as torch writes them. */
#include "tests/made_trace.h"
#include <locale.h>
#include "base/json_check.h"

static mtp_averages *rows_of(mtp_trace *t, mtp_averages_options options)
{
    mtp_averages *a;
    assert_ok(mtp_averages_create(t, &options, &a));
    mtp_trace_destroy(t); /* rows stand on their own */
    return a;
}

#define PLAIN ((mtp_averages_options)MTP_AVERAGES_OPTIONS_INIT)

/* The table; valid until the next call. */
static const char *table_by(const mtp_averages *a, const mtp_table_options *options)
{
    static collected out;
    collected_free(&out);
    collect(&out, "", 0);
    assert_ok(mtp_averages_table(a, options, collect, &out));
    return out.bytes;
}

/* The nth line, from 0; valid until the next call. */
static const char *line_of(const char *text, int n)
{
    static char line[1024];
    while (n-- > 0 && text != NULL)
        text = (text = strchr(text, '\n')) != NULL ? text + 1 : NULL;
    size_t length = text != NULL ? strcspn(text, "\n") : 0;
    snprintf(line, sizeof line, "%.*s", (int)length, text != NULL ? text : "");
    return line;
}

static void assert_line(const char *text, int n, const char *want)
{
    if (strcmp(line_of(text, n), want) != 0)
        fail_msg("line %d is\n  '%s', not\n  '%s'", n, line_of(text, n), want);
}

/* The text under a heading, in the nth row. */
static const char *cell(const char *text, const char *heading, int row)
{
    static char out[256];
    char head[1024];
    snprintf(head, sizeof head, "%s", line_of(text, 1));
    const char *at = strstr(head, heading);
    if (at == NULL)
        return NULL;
    size_t end = (size_t)(at - head) + strlen(heading), from = end;
    const char *line = line_of(text, 3 + row);
    while (from > 0 && line[from - 1] != ' ')
        from--;
    if (from > 1 && (strcmp(line + end - 1, "B") == 0 || line[end - 1] == 'B')) { /* "1.00 KB" is one */
        from--;
        while (from > 0 && line[from - 1] != ' ')
            from--;
    }
    snprintf(out, sizeof out, "%.*s", (int)(end - from), line + from);
    return out;
}

/* ------------------------------------------------------------------------------------------------- layout */

static mtp_trace *two_ops(void)
{
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1);
    made_op(t, k, 0, 3000, "aten::mm");
    made_op(t, k, 1000, 2000, "aten::empty");
    return made_end(t);
}

static void a_table_is_as_torch_writes_it(void **state)
{
    (void)state;
    mtp_averages *a = rows_of(two_ops(), PLAIN);
    assert_string_equal(table_by(a, NULL), "---------------  ------------  ------------  ------------  "
                                           "------------  ------------  ------------  \n"
                                           "           Name    Self CPU %      Self CPU   CPU total %     "
                                           "CPU total  CPU time avg    # of Calls  \n"
                                           "---------------  ------------  ------------  ------------  "
                                           "------------  ------------  ------------  \n"
                                           "       aten::mm        66.67%       2.000us       100.00%       "
                                           "3.000us       3.000us             1  \n"
                                           "    aten::empty        33.33%       1.000us        33.33%       "
                                           "1.000us       1.000us             1  \n"
                                           "---------------  ------------  ------------  ------------  "
                                           "------------  ------------  ------------  \n"
                                           "Self CPU time total: 3.000us\n");
    mtp_averages_destroy(a);
}

static void options_shape_the_table(void **state)
{
    (void)state;
    mtp_averages *a = rows_of(two_ops(), PLAIN);
    mtp_table_options o = MTP_TABLE_OPTIONS_INIT;
    o.sort_by = "self_cuda_time_total"; /* all equal: the order is unchanged */
    assert_contains(line_of(table_by(a, &o), 3), "aten::mm");
    o.sort_by = "cpu_time";
    o.row_limit = 1;
    o.time_unit = "ms";
    o.header = "A title";
    o.max_name_column_width = 9;
    const char *text = table_by(a, &o);
    char line[128];
    memset(line, '=', 93);
    line[93] = 0;
    assert_line(text, 0, line);
    assert_line(text, 1, "A title");
    assert_line(
        text, 3,
        "     Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  ");
    assert_line(
        text, 5,
        "aten::...        66.67%       0.002ms       100.00%       0.003ms       0.003ms             1  ");
    assert_line(text, 7, "Self CPU time total: 0.003ms");
    assert_line(text, 8, "");
    o.row_limit = 0;
    assert_line(table_by(a, &o), 6, "Self CPU time total: 0.003ms");
    o = (mtp_table_options)MTP_TABLE_OPTIONS_INIT;
    o.row_limit = -1;
    o.top_level_events_only = true;
    text = table_by(a, &o);
    assert_line(text, 1, "This report only display top-level ops statistics");
    assert_contains(line_of(text, 5), "aten::mm");
    assert_int_equal(line_of(text, 6)[0], '-');
    o.sort_by = "nonsense";
    assert_int_equal(mtp_averages_table(a, &o, collect, NULL), MTP_E_ARG);
    assert_says("nonsense");
    mtp_averages_destroy(a);
}

static void numbers_have_torchs_units(void **state)
{
    (void)state;
    static const struct {
        int64_t ns;
        const char *text;
    } time[] = {{0, "0.000us"},           {999999, "999.999us"},  {1000000, "1.000ms"},
                {999999499, "999.999ms"}, {1000000000, "1.000s"}, {3723004000000, "3723.004s"}};
    static const struct {
        int64_t bytes;
        const char *text;
    } memory[] = {{0, "0 B"},
                  {-1, "-1 B"},
                  {1023, "1023 B"},
                  {1024, "1.00 KB"},
                  {-1536, "-1.50 KB"},
                  {1 << 20, "1.00 MB"},
                  {(int64_t)-5 * (1 << 30), "-5.00 GB"},
                  {(int64_t)1 << 42, "4096.00 GB"}};
    for (unsigned i = 0; i < COUNT(time); i++) {
        mtp_trace *t = made_begin();
        made_op(t, made_thread(t, 1), 0, time[i].ns, "x");
        mtp_averages *a = rows_of(made_end(t), PLAIN);
        assert_string_equal(cell(table_by(a, NULL), "CPU total  ", 0) != NULL
                                ? cell(table_by(a, NULL), "CPU time avg", 0)
                                : "",
                            time[i].text);
        if (time[i].ns == 0)
            assert_string_equal(cell(table_by(a, NULL), "Self CPU %", 0), "NaN");
        mtp_averages_destroy(a);
    }
    for (unsigned i = 0; i < COUNT(memory); i++) {
        mtp_trace *t = made_begin();
        uint32_t k = made_thread(t, 1);
        made_op(t, k, 0, 10, "x");
        made_memory(t, k, 5, 1, memory[i].bytes);
        t->flags_recorded = MTP_WITH_MEMORY;
        mtp_averages *a = rows_of(made_end(t), PLAIN);
        assert_string_equal(cell(table_by(a, NULL), "CPU Mem", 0), memory[i].text);
        mtp_averages_destroy(a);
    }
}

static void the_point_is_a_point_in_every_locale(void **state)
{
    (void)state;
    mtp_averages *a = rows_of(two_ops(), PLAIN);
    /* if such a locale is installed; otherwise the C locale */
    (void)(setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL || setlocale(LC_NUMERIC, "de_DE") != NULL ||
           setlocale(LC_NUMERIC, "ps_AF") != NULL);
    assert_contains(table_by(a, NULL), "       2.000us       100.00%");
    setlocale(LC_NUMERIC, "C");
    mtp_averages_destroy(a);
}

static void device_columns_come_with_device_time(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), stream = made_stream(t, 0, 0);
    mtp__detail d = MTP__DETAIL_INIT;
    d.external_id = 1;
    mtp__trace_add_span(t, k, 0, 1000, made_text(t, "op"), MTP__CATEGORY_CPU_OP, 0,
                        mtp__trace_add_detail(t, &d));
    mtp__trace_add_span(t, stream, 2000, 5000, made_text(t, "kernel"), MTP__CATEGORY_KERNEL, 0,
                        mtp__trace_add_detail(t, &d));
    made_span(t, stream, 1000, 6000, "scope", MTP__CATEGORY_GPU_USER_ANNOTATION);
    made_memory_of(t, k, 500, 1, 2048, -1, 20, 0);
    t->flags_recorded = MTP_WITH_MEMORY;
    mtp_averages *a = rows_of(made_end(t), PLAIN);
    const char *text = table_by(a, NULL);
    assert_line(text, 1,
                "      Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg      Self "
                "NPU    Self NPU %     NPU total"
                "  NPU time avg       CPU Mem  Self CPU Mem       NPU Mem  Self NPU Mem    # of Calls  ");
    assert_string_equal(cell(text, "Self NPU %", 0), "100.00%");
    assert_string_equal(cell(text, "Self NPU %", 1), "166.67%"); /* scopes are not in the total */
    assert_string_equal(cell(text, "NPU Mem", 0), "2.00 KB");
    assert_contains(text, "Self CPU time total: 1.000us\nSelf NPU time total: 3.000us\n");
    mtp_table_options o = MTP_TABLE_OPTIONS_INIT;
    o.device_name = "GPU";
    o.automatic = false;
    text = table_by(a, &o);
    assert_contains(text, "Self GPU time total: 3.000us");
    assert_null(strstr(text, "Mem"));
    mtp_averages_destroy(a);
}

/* ------------------------------------------------------------------------------------ shapes, stacks,
 * FLOPs */

static mtp_trace *detailed(void)
{
    static const char *const frame[] = {"/a/very/long/path/to/some/file.py(12): function", "m.py(2): f"};
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), stack = 0;
    mtp__shape s = {made_text(t, "[[4, 5], [5, 6]]"), 0, made_text(t, "[\"float\", \"float\"]"), 0};
    for (unsigned i = 0; i < COUNT(frame); i++)
        stack = mtp__trace_add_stack(t, stack, made_text(t, frame[i]));
    mtp__detail d = MTP__DETAIL_INIT;
    d.shape = mtp__trace_add_shape(t, &s);
    d.stack = stack;
    mtp__trace_add_span(t, k, 0, 3000, made_text(t, "aten::mm"), MTP__CATEGORY_CPU_OP, 0,
                        mtp__trace_add_detail(t, &d));
    made_op(t, k, 4000, 5000, "other");
    t->flags_recorded = MTP_WITH_FLOPS | MTP_WITH_STACK;
    return made_end(t);
}

static void stacks_and_flops_stand_under_their_own_headings(void **state)
{
    (void)state;
    mtp_averages_options by = MTP_AVERAGES_OPTIONS_INIT;
    by.by_input_shape = true;
    by.by_stack = 5;
    mtp_averages *a = rows_of(detailed(), by);
    mtp_table_options o = MTP_TABLE_OPTIONS_INIT;
    o.max_src_column_width = 20;
    o.max_shapes_column_width = 10;
    const char *text = table_by(a, &o);
    assert_line(text, 1,
                "        Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of "
                "Calls  Input Shapes  Source Location        Total FLOPs  ");
    assert_line(text, 3,
                "    aten::mm        75.00%       3.000us        75.00%       3.000us       3.000us          "
                "   1  [[4, 5], [  m.py(2): f                 240.000  ");
    assert_line(text, 4,
                "                                                                                            "
                "                  ....py(12): function                ");
    assert_contains(line_of(text, 6), "other");
    assert_contains(line_of(text, 6), "          []  ");
    assert_contains(line_of(text, 6), "          --  ");
    mtp_averages_destroy(a);
    a = rows_of(detailed(), PLAIN); /* not grouped by it: not shown */
    assert_null(strstr(table_by(a, NULL), "Source Location"));
    assert_null(strstr(table_by(a, NULL), "Input Shapes"));
    assert_contains(table_by(a, NULL), "Total FLOPs");
    mtp_averages_destroy(a);
}

static void flops_scale_by_the_smallest(void **state)
{
    (void)state;
    static const struct {
        uint64_t flops;
        const char *heading, *value;
    } scale[] = {{999, "  Total FLOPs", " 999.000"},
                 {1000, "Total KFLOPs", "   1.000"},
                 {123456789, "Total MFLOPs", " 123.457"},
                 {5000000000000000, "Total PFLOPs", "   5.000"},
                 {UINT64_MAX, "Total PFLOPs", "18446.744"}};
    for (unsigned i = 0; i < COUNT(scale); i++) {
        mtp_trace *t = made_begin();
        mtp__shape s = {made_text(t, "[]"), 0, 0, 0};
        mtp__detail d = MTP__DETAIL_INIT;
        d.flops = scale[i].flops;
        d.shape = mtp__trace_add_shape(t, &s);
        mtp__trace_add_span(t, made_thread(t, 1), 0, 10, made_text(t, "x"), MTP__CATEGORY_CPU_OP, 0,
                            mtp__trace_add_detail(t, &d));
        t->flags_recorded = MTP_WITH_FLOPS;
        mtp_averages *a = rows_of(made_end(t), PLAIN);
        assert_contains(table_by(a, NULL), scale[i].heading);
        assert_contains(table_by(a, NULL), scale[i].value);
        mtp_averages_destroy(a);
    }
}

/* -------------------------------------------------------------------------------------------------
 * hostile */

static const char *const hostile[] = {"\x1b[2J\x1b]0;gotcha\x07",
                                      "a\nb\rc\td",
                                      "\xff\xfe broken \xc3",
                                      "\"quotes\" \\ and, commas",
                                      "na\xc3\xafve \xe2\x82\xac",
                                      "\xc2\x9b"
                                      "31m",
                                      "</script><b>",
                                      "=1+1",
                                      "\xe2\x80\xa8sep",
                                      "",
                                      "nul"};

static mtp_trace *hostile_trace(void)
{
    mtp_trace *t = made_begin();
    uint32_t k = made_thread(t, 1), stack = 0;
    for (unsigned i = 0; i < COUNT(hostile); i++) {
        mtp__detail d = MTP__DETAIL_INIT;
        d.stack = stack = mtp__trace_add_stack(t, stack, made_text(t, hostile[i]));
        uint32_t name = i + 1 < COUNT(hostile) ? made_text(t, hostile[i]) : mtp__trace_text(t, "n\0l", 3);
        mtp__trace_add_span(t, k, 1000 * i, 1000 * i + 100, name, MTP__CATEGORY_CPU_OP, 0,
                            mtp__trace_add_detail(t, &d));
    }
    return made_end(t);
}

static void assert_tame(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\n' && c != '\r') || c == 0x7f ||
            (c == 0xc2 && (unsigned char)text[i + 1] < 0xa0))
            fail_msg("byte %zu is %02x", i, c);
    }
}

static void names_in_a_table_do_nothing_to_a_terminal(void **state)
{
    (void)state;
    mtp_averages_options by = MTP_AVERAGES_OPTIONS_INIT;
    by.by_stack = 20;
    mtp_averages *a = rows_of(hostile_trace(), by);
    collected out = {0};
    assert_ok(mtp_averages_table(a, NULL, collect, &out));
    assert_tame(out.bytes, out.length);
    size_t width = 0;
    for (const char *p = out.bytes;
         strncmp(p, "Self CPU time", 13) != 0;) { /* every line has the same width */
        size_t characters = 0;
        for (; *p != '\n'; p++)
            characters += ((unsigned char)*p & 0xc0) != 0x80;
        assert_int_equal(characters, width != 0 ? width : characters);
        width = characters;
        p++;
    }
    assert_contains(out.bytes, "a?b?c?d");
    assert_contains(out.bytes, "\xef\xbf\xbd\xef\xbf\xbd broken \xef\xbf\xbd");
    collected_free(&out);
    mtp_averages_destroy(a);
}

static void rows_are_strict_json_whatever_they_are_called(void **state)
{
    (void)state;
    mtp_averages_options by = MTP_AVERAGES_OPTIONS_INIT;
    by.by_stack = 20;
    mtp_averages *a = rows_of(hostile_trace(), by);
    mtp_status (*form[])(const mtp_averages *, mtp_sink *, void *) = {mtp_averages_json, mtp_averages_chrome};
    for (unsigned i = 0; i < COUNT(form); i++) {
        collected out = {0};
        size_t wrong;
        assert_ok(form[i](a, collect, &out));
        if (!mtp__json_check(out.bytes, out.length, &wrong))
            fail_msg("byte %zu: %.40s", wrong, out.bytes + wrong);
        assert_tame(out.bytes, out.length);
        assert_contains(out.bytes, "\"key\": \"a\\nb\\rc\\td\"");
        assert_contains(out.bytes, "\"key\": \"n\\u0000l\"");
        collected_free(&out);
    }
    collected out = {0};
    assert_ok(mtp_averages_csv(a, collect, &out));
    assert_tame(out.bytes, out.length);
    assert_contains(out.bytes, "\"\"\"quotes\"\" \\ and, commas\",");
    collected_free(&out);
    mtp_averages_destroy(a);
}

/* --------------------------------------------------------------------------------------- rows for
 * programs */

static void rows_have_torchs_attributes(void **state)
{
    (void)state;
    mtp_averages_options by = MTP_AVERAGES_OPTIONS_INIT;
    by.by_input_shape = true;
    by.by_stack = 1;
    mtp_averages *a = rows_of(detailed(), by);
    collected out = {0};
    assert_ok(mtp_averages_json(a, collect, &out));
    assert_contains(
        out.bytes,
        "{\"key\": \"aten::mm\", \"overload_name\": \"\", \"device_type\": \"DeviceType.CPU\", \"count\": 1, "
        "\"cpu_time_total\": 3, \"self_cpu_time_total\": 3, \"cpu_time\": 3, \"device_time_total\": 0, "
        "\"self_device_time_total\": 0, \"device_time\": 0, \"cpu_memory_usage\": 0, "
        "\"self_cpu_memory_usage\": 0, \"device_memory_usage\": 0, \"self_device_memory_usage\": 0, "
        "\"flops\": 240, \"min\": 3, \"p50\": 3, \"p99\": 3, \"max\": 3, "
        "\"input_shapes\": \"[[4, 5], [5, 6]]\", \"stack\": [\"m.py(2): f\"], "
        "\"is_user_annotation\": false, \"is_async\": false}");
    collected_free(&out);
    assert_ok(mtp_averages_csv(a, collect, &out));
    assert_line(
        out.bytes, 0,
        "key,overload_name,device_type,count,cpu_time_total,self_cpu_time_total,cpu_time,device_time_total,"
        "self_device_time_total,device_time,cpu_memory_usage,self_cpu_memory_usage,device_memory_usage,"
        "self_device_memory_usage,flops,min,p50,p99,max,input_shapes,stack,is_user_annotation,is_async\r");
    assert_line(out.bytes, 1,
                "aten::mm,,DeviceType.CPU,1,3,3,3,0,0,0,0,0,0,0,240,3,3,3,3,\"[[4, 5], [5, 6]]\",m.py(2): "
                "f,false,false\r");
    collected_free(&out);
    assert_ok(mtp_averages_chrome(a, collect, &out));
    assert_contains(out.bytes, "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"other\", \"pid\": 0, "
                               "\"tid\": 0, \"ts\": 3, \"dur\": 1, \"args\": {\"key\"");
    collected_free(&out);
    mtp_averages_destroy(a);
}

static void as_many_rows_are_written_as_are_wanted(void **state)
{
    (void)state;
    static const int64_t wanted[] = {-1, 0, 1, 2, 1000, INT64_MAX, INT64_MIN};
    static const size_t lines[] = {3, 1, 2, 3, 3, 3, 3}; /* with the head */
    mtp_averages *a = rows_of(detailed(), PLAIN);
    assert_int_equal(mtp_averages_count(a), 2);
    for (size_t i = 0; i < COUNT(wanted); i++) {
        mtp_averages_limit(a, wanted[i]);
        collected csv = {0}, json = {0};
        assert_ok(mtp_averages_csv(a, collect, &csv));
        assert_ok(mtp_averages_json(a, collect, &json));
        size_t csv_lines = 0, json_rows = 0;
        for (const char *p = csv.bytes; *p != 0; p++)
            csv_lines += *p == '\n';
        for (const char *p = json.bytes; (p = strstr(p, "{\"key\"")) != NULL; p++)
            json_rows++;
        assert_int_equal(csv_lines, lines[i]);
        assert_int_equal(json_rows + 1, lines[i]);
        assert_int_equal(mtp_averages_count(a), 2);
        collected_free(&csv);
        collected_free(&json);
    }
    mtp_averages_limit(NULL, 1);
    mtp_averages_destroy(a);
}

static void no_rows_are_no_table_and_an_empty_list(void **state)
{
    (void)state;
    mtp_averages *a = rows_of(made_end(made_begin()), PLAIN);
    assert_string_equal(table_by(a, NULL), "");
    collected out = {0};
    assert_ok(mtp_averages_json(a, collect, &out));
    assert_string_equal(out.bytes, "[\n]\n");
    collected_free(&out);
    mtp_table_options o = MTP_TABLE_OPTIONS_INIT;
    o.sort_by = "nonsense";
    assert_int_equal(mtp_averages_table(a, &o, collect, NULL), MTP_E_ARG);
    mtp_averages_destroy(a);
}

static mtp_status print(const mtp_averages *a, int form, collected *out)
{
    mtp_table_options o = MTP_TABLE_OPTIONS_INIT;
    o.sort_by = "count";
    return form == 0   ? mtp_averages_table(a, &o, collect, out)
           : form == 1 ? mtp_averages_json(a, collect, out)
           : form == 2 ? mtp_averages_csv(a, collect, out)
                       : mtp_averages_chrome(a, collect, out);
}

static void a_sink_that_refuses_and_memory_that_is_short_are_told(void **state)
{
    (void)state;
    mtp_averages_options by = MTP_AVERAGES_OPTIONS_INIT;
    by.by_stack = 3;
    mtp_averages *a = rows_of(hostile_trace(), by);
    for (int form = 0; form < 4; form++) {
        collected out = {.refuse_after = 1};
        assert_int_equal(print(a, form, &out), MTP_E_IO);
        collected_free(&out);
        long before = mtp__alloc_live();
        for (int nth = 1, done = 0; !done; nth++) {
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, false);
            mtp_status status = print(a, form, &out);
            done = mtp__fault_stop() == 0;
            if (done != (status == MTP_OK))
                fail_msg("form %d, allocation %d: %s", form, nth, mtp_status_text(status));
            assert_int_equal(mtp__alloc_live(), before);
            collected_free(&out);
        }
        assert_int_equal(form == 0   ? mtp_averages_table(NULL, NULL, collect, &out)
                         : form == 1 ? mtp_averages_json(a, NULL, NULL)
                         : form == 2 ? mtp_averages_csv(NULL, collect, &out)
                                     : mtp_averages_chrome(NULL, collect, &out),
                         MTP_E_ARG);
    }
    mtp_table_options o = MTP_TABLE_OPTIONS_INIT;
    o.size = 1;
    assert_int_equal(mtp_averages_table(a, &o, collect, NULL), MTP_E_ABI);
    mtp_averages_destroy(a);
}

/* A long name, and one of characters of several bytes. */
static void names_are_cut_to_fit_a_terminal(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t track = made_thread(t, 1);
    made_op(t, track, 0, 3000, "<frozen importlib._bootstrap>(1122): _find_and_load_unlocked");
    made_op(t, track, 4000, 6000,
            "\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc\u00fc"
            " and another forty characters, and the end");
    made_op(t, track, 7000, 8000, "short");
    mtp_averages *a = rows_of(made_end(t), PLAIN);
    mtp_table_options o = MTP_TABLE_OPTIONS_INIT;
    o.max_line_width = 74;
    const char *text = table_by(a, &o);
    assert_line(text, 3, "<frozen i..._and_load_unlocked        50.00%       3.000us             1  ");
    assert_contains(line_of(text, 4), "\u00fc...cters, and the end        33.33%");
    assert_line(text, 5, "                         short        16.67%       1.000us             1  ");
    mtp_averages_destroy(a);
}

static void lines_fit_a_terminal(void **state)
{
    (void)state;
    mtp_averages *a = rows_of(two_ops(), PLAIN);
    mtp_table_options o = MTP_TABLE_OPTIONS_INIT;
    char whole[2048];
    snprintf(whole, sizeof whole, "%s", table_by(a, &o));
    o.max_line_width = 101; /* as wide as it is */
    assert_string_equal(table_by(a, &o), whole);
    o.max_line_width = 100;
    assert_null(strstr(table_by(a, &o), "CPU total %"));
    assert_contains(table_by(a, &o), "CPU total");
    o.max_line_width = 59;
    assert_line(table_by(a, &o), 1, "           Name    Self CPU %      Self CPU    # of Calls  ");
    o.max_line_width = 0; /* the least that is left */
    assert_line(table_by(a, &o), 1, "           Name      Self CPU  ");
    mtp_averages_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_table_is_as_torch_writes_it),
        TEST(options_shape_the_table),
        TEST(lines_fit_a_terminal),
        TEST(names_are_cut_to_fit_a_terminal),
        TEST(numbers_have_torchs_units),
        TEST(the_point_is_a_point_in_every_locale),
        TEST(device_columns_come_with_device_time),
        TEST(stacks_and_flops_stand_under_their_own_headings),
        TEST(flops_scale_by_the_smallest),
        TEST(names_in_a_table_do_nothing_to_a_terminal),
        TEST(rows_are_strict_json_whatever_they_are_called),
        TEST(rows_have_torchs_attributes),
        TEST(as_many_rows_are_written_as_are_wanted),
        TEST(no_rows_are_no_table_and_an_empty_list),
        TEST(a_sink_that_refuses_and_memory_that_is_short_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
