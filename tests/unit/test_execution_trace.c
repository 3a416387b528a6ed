/* Unit: present/execution_trace and present/execution_values. */
#define _GNU_SOURCE
#include "tests/made_trace.h"
#include "base/json_check.h"

#define GOLDEN TEST_ROOT "/tests/golden/memory/"
#define ENGINE "autograd::engine::evaluate_function: "

/* ------------------------------------------------------------------------------------------- helpers */

static uint32_t shape_of(mtp_trace *t, const char *dims, const char *strides, const char *types,
                         const char *concrete)
{
    mtp__shape s = {made_text(t, dims), made_text(t, strides), made_text(t, types), made_text(t, concrete)};
    return mtp__trace_add_shape(t, &s);
}

static uint32_t op_with(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name,
                        uint32_t inputs, uint32_t outputs)
{
    mtp__detail d = MTP__DETAIL_INIT;
    d.shape = inputs;
    d.outputs = outputs;
    return mtp__trace_add_span(t, track, start, end, made_text(t, name), MTP__CATEGORY_CPU_OP, 0,
                               mtp__trace_add_detail(t, &d));
}

static collected written(const mtp_trace *t)
{
    collected c = {0};
    size_t wrong;
    assert_ok(mtp_trace_execution_trace(t, collect, &c));
    if (!mtp__json_check(c.bytes, c.length, &wrong))
        fail_msg("not JSON at %zu: %.80s", wrong, c.bytes + (wrong > 40 ? wrong - 40 : 0));
    return c;
}

/* The text of the node with the id, up to its end. */
static char *node_of(const collected *c, unsigned id)
{
    char key[48];
    snprintf(key, sizeof key, "\"id\": %u, ", id);
    const char *at = strstr(c->bytes, key);
    if (at == NULL)
        fail_msg("no node %u", id);
    const char *end = strstr(at, "\n      }");
    return strndup(at, (size_t)(end - at));
}

static void assert_node(const collected *c, unsigned id, const char *const *parts, size_t count)
{
    char *node = node_of(c, id);
    for (size_t i = 0; i < count; i++)
        if (strstr(node, parts[i]) == NULL)
            fail_msg("node %u has no %s:\n%s", id, parts[i], node);
    free(node);
}
#define ASSERT_NODE(c, id, ...)                                                                              \
    assert_node((c), (id), (const char *const[]){__VA_ARGS__}, COUNT(((const char *[]){__VA_ARGS__})))
#define ATTRIBUTE(name, type, value) "{\"name\": \"" name "\", \"type\": \"" type "\", \"value\": " value "}"

/* ------------------------------------------------------------------------------------------------ whole */

static void the_whole_file_is_as_it_should_be(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1700000000000000000;
    t->pid = 4711;
    op_with(t, main, 1000000, 9000000, "aten::mm",
            shape_of(t, "[[2, 3], [3, 4]]", "[[3, 1], [4, 1]]", "[\"float\", \"float\"]", "[\"\", \"\"]"),
            shape_of(t, "[[2, 4]]", "[[4, 1]]", "[\"float\"]", "[\"\"]"));
    made_end(t);
    collected c = written(t);
#define MADE                                                                                                 \
    "\"inputs\": {\"values\": [], \"shapes\": [], \"types\": [], \"strides\": []},\n"                        \
    "        \"outputs\": {\"values\": [], \"shapes\": [], \"types\": [], \"strides\": []},\n"
#define REST                                                                                                 \
    ATTRIBUTE("op_schema", "string", "\"\"")                                                                 \
    "," ATTRIBUTE("kernel_backend", "string", "\"\"") "," ATTRIBUTE(                                         \
        "kernel_file", "string", "\"\"") "," ATTRIBUTE("tensor_range", "string", "\"\"") "]\n      }"
#define ATTRS(rf, scope, tid)                                                                                \
    "        \"attrs\": [" ATTRIBUTE("rf_id", "uint64", rf) "," ATTRIBUTE(                                   \
        "fw_parent", "uint64",                                                                               \
        "0") "," ATTRIBUTE("seq_id", "int64",                                                                \
                           "-1") "," ATTRIBUTE("scope", "uint64",                                            \
                                               scope) "," ATTRIBUTE("tid", "uint64",                         \
                                                                    tid) "," ATTRIBUTE("fw_tid", "uint64",   \
                                                                                       "0") "," REST
    assert_string_equal(
        c.bytes,
        "{\n  \"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 4711, \"time\": \"2023-11-14 22:13:20\", "
        "\"start_ts\": 1700000000001,\n"
        "  \"nodes\": [\n"
        "      {\n        \"id\": 1, \"name\": \"[pytorch|profiler|execution_trace|process]\", "
        "\"ctrl_deps\": 1,\n        " MADE ATTRS(
            "0", "7",
            "0") ",\n"
                 "      {\n        \"id\": 2, \"name\": \"[pytorch|profiler|execution_trace|thread]\", "
                 "\"ctrl_deps\": 1,\n        " MADE ATTRS(
                     "0", "7",
                     "1") ",\n"
                          "      {\n        \"id\": 3, \"name\": \"aten::mm\", \"ctrl_deps\": 2,\n"
                          "        \"inputs\": {\"values\": [[4,5,0,6,4,\"cpu\"],[6,7,0,12,4,\"cpu\"]], "
                          "\"shapes\": [[2, 3],[3, 4]], "
                          "\"types\": [\"Tensor(float)\",\"Tensor(float)\"], \"strides\": [[3, 1],[4, 1]]},\n"
                          "        \"outputs\": {\"values\": [[8,9,0,8,4,\"cpu\"]], \"shapes\": [[2, 4]], "
                          "\"types\": [\"Tensor(float)\"], "
                          "\"strides\": [[4, 1]]},\n" ATTRS("1", "0",
                                                            "1") "\n"
                                                                 "  ],\n  \"finish_ts\": 1700000000009\n}\n");
    collected_free(&c);
    mtp_trace_destroy(t);
}

static void an_empty_trace_has_a_root(void **state)
{
    (void)state;
    mtp_trace *t = made_end(made_begin());
    collected c = written(t);
    assert_contains(c.bytes, "\"id\": 1, ");
    assert_null(strstr(c.bytes, "\"id\": 2, "));
    collected_free(&c);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------ nodes */

static void nodes_are_ops_and_annotations_in_order_of_time(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t late = made_thread(t, 8), main = made_thread(t, 7), stream = made_stream(t, 0, 7),
             quiet = made_thread(t, 9);
    made_op(t, late, 400, 500, "aten::late");
    made_scope(t, main, 100, 1000, "ProfilerStep#0");
    made_span(t, main, 150, 900, "model.py(1): forward", MTP__CATEGORY_PYTHON_FUNCTION);
    made_op(t, main, 200, 300, "aten::linear");
    made_op(t, main, 210, 290, "aten::addmm");
    made_span(t, main, 220, 230, "cudaLaunchKernel", MTP__CATEGORY_CUDA_RUNTIME);
    made_op(t, main, 600, 700, "aten::relu");
    made_span(t, stream, 300, 400, "gemm", MTP__CATEGORY_KERNEL);
    made_span(t, quiet, 300, 400, "overhead", MTP__CATEGORY_OVERHEAD);
    made_end(t);
    collected c = written(t);
    ASSERT_NODE(&c, 2, "execution_trace|thread", ATTRIBUTE("tid", "uint64", "1")); /* main: it began first */
    ASSERT_NODE(&c, 3, "execution_trace|thread", ATTRIBUTE("tid", "uint64", "2"));
    ASSERT_NODE(&c, 4, "\"ProfilerStep#0\", \"ctrl_deps\": 2", ATTRIBUTE("scope", "uint64", "7"));
    ASSERT_NODE(&c, 5, "\"aten::linear\", \"ctrl_deps\": 4", ATTRIBUTE("scope", "uint64", "0"));
    ASSERT_NODE(&c, 6, "\"aten::addmm\", \"ctrl_deps\": 5");
    ASSERT_NODE(&c, 7, "\"aten::late\", \"ctrl_deps\": 3", ATTRIBUTE("tid", "uint64", "2"));
    ASSERT_NODE(&c, 8, "\"aten::relu\", \"ctrl_deps\": 4");
    assert_null(strstr(c.bytes, "\"id\": 9, "));
    collected_free(&c);
    mtp_trace_destroy(t);
}

/* What the Chrome exporter writes as "Record function id". */
static void record_function_ids_are_those_of_the_trace(void **state)
{
    (void)state;
    for (int kineto = 0; kineto < 2; kineto++) {
        mtp_trace *t = made_begin();
        uint32_t main = made_thread(t, 7);
        t->format = kineto != 0 ? MTP_FORMAT_KINETO : MTP_FORMAT_RECORDING;
        mtp__detail d = MTP__DETAIL_INIT;
        d.external_id = 77;
        made_op(t, main, 0, 10, "aten::a");
        mtp__trace_add_span(t, main, 20, 30, made_text(t, "aten::b"), MTP__CATEGORY_CPU_OP, 0,
                            mtp__trace_add_detail(t, &d));
        made_end(t);
        collected c = written(t);
        ASSERT_NODE(&c, 3, "aten::a",
                    kineto ? ATTRIBUTE("rf_id", "uint64", "0") : ATTRIBUTE("rf_id", "uint64", "1"));
        ASSERT_NODE(&c, 4, "aten::b", ATTRIBUTE("rf_id", "uint64", "77"));
        collected_free(&c);
        mtp_trace_destroy(t);
    }
}

static void backward_ops_name_their_forward_thread_and_what_is_open_there(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 70), engine = made_thread(t, 80);
    made_scope(t, main, 0, 1000, "loss.backward");                   /* 4 */
    made_op(t, main, 10, 20, "aten::done");                          /* 5: has ended before the engine runs */
    made_autograd(t, engine, 100, 200, ENGINE "MmBackward0", 3, 70); /* 6 */
    made_autograd(t, engine, 110, 190, "MmBackward0", 3, 70);        /* 7 */
    made_op(t, engine, 120, 180, "aten::mm");                        /* 8 */
    made_op(t, engine, 300, 400, ENGINE "torch::autograd::AccumulateGrad"); /* 9 */
    made_op(t, engine, 310, 390, "torch::autograd::AccumulateGrad");        /* 10: unspecified, as before */
    made_op(t, engine, 392, 395, "aten::sum"); /* 11: beside it, not a backward op */
    made_autograd(t, engine, 1100, 1200, "AddBackward0", 4,
                  1); /* 12: torch's own number of the main thread */
    made_autograd(t, engine, 1300, 1400, "SubBackward0", 5, 12345); /* 13: nobody knows it */
    made_autograd(t, engine, 1500, 1600, "NegBackward0", 6, 80);    /* 14: its own thread */
    made_end(t);
    collected c = written(t);
    ASSERT_NODE(&c, 6, ATTRIBUTE("scope", "uint64", "0"), ATTRIBUTE("seq_id", "int64", "-1"),
                ATTRIBUTE("fw_tid", "uint64", "0"), ATTRIBUTE("fw_parent", "uint64", "0"));
    ASSERT_NODE(&c, 7, ATTRIBUTE("scope", "uint64", "1"), ATTRIBUTE("seq_id", "int64", "3"),
                ATTRIBUTE("fw_tid", "uint64", "1"), ATTRIBUTE("fw_parent", "uint64", "4"));
    ASSERT_NODE(&c, 8, ATTRIBUTE("scope", "uint64", "0"), ATTRIBUTE("fw_tid", "uint64", "0"));
    ASSERT_NODE(&c, 10, ATTRIBUTE("scope", "uint64", "1"), ATTRIBUTE("fw_tid", "uint64", "1"),
                ATTRIBUTE("fw_parent", "uint64", "4"));
    ASSERT_NODE(&c, 11, "aten::sum", ATTRIBUTE("scope", "uint64", "0"));
    ASSERT_NODE(&c, 12, ATTRIBUTE("fw_tid", "uint64", "1"),
                ATTRIBUTE("fw_parent", "uint64", "2")); /* nothing is open: the thread */
    ASSERT_NODE(&c, 13, ATTRIBUTE("fw_tid", "uint64", "12345"), ATTRIBUTE("fw_parent", "uint64", "0"));
    ASSERT_NODE(&c, 14, ATTRIBUTE("fw_tid", "uint64", "2"), ATTRIBUTE("fw_parent", "uint64", "3"));
    collected_free(&c);
    mtp_trace_destroy(t);
}

/* ----------------------------------------------------------------------------------------------- values */

static void values_have_the_kinds_that_torch_gives_them(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    op_with(
        t, main, 0, 10, "aten::all_kinds",
        shape_of(
            t, "[[2, 3], [[4], [5, 6]], [], [], [], [], [], [], [], [], []]",
            "[[3, 1], [[1], [6, 1]], [], [], [], [], [], [], [], [], []]",
            "[\"c10::Half\", \"TensorList\", \"Scalar\", \"Scalar\", \"Scalar\", \"ScalarList\", \"\", \"\", "
            "\"Scalar\", "
            "\"double\", \"ScalarList\"]",
            "[\"\", \"\", \"-3\", \"1.\", \"True\", \"[32, 8]\", \"\", \"say \\\"a, b\\\"\", \"inf\", \"\", "
            "\"[True, 0.5, x]\"]"),
        0);
    made_end(t);
    collected c = written(t);
    ASSERT_NODE(
        &c, 3,
        "\"values\": "
        "[[4,5,0,6,2,\"cpu\"],[[6,7,0,4,0,\"cpu\"],[8,9,0,30,0,\"cpu\"]],-3,1.0,true,[32,8],\"<None>\","
        "\"say \\\"a, b\\\"\",\"inf\",[10,11,0,1,8,\"cpu\"],[true,0.5,\"x\"]]",
        "\"types\": [\"Tensor(c10::Half)\",\"GenericList[Tensor(),Tensor()]\",\"Int\",\"Double\",\"Bool\","
        "\"GenericList[Int,Int]\",\"None\",\"String\",\"Double\",\"Tensor(double)\",\"GenericList[Bool,"
        "Double,String]\"]",
        "\"shapes\": [[2, 3],[[4], [5, 6]],[],[],[],[[],[]],[],[],[],[],[[],[],[]]]");
    collected_free(&c);
    mtp_trace_destroy(t);
}

static void a_tensors_device_is_the_ops_if_that_is_known(void **state)
{
    (void)state;
    for (int with_device = 0; with_device < 2; with_device++) {
        mtp_trace *t = made_begin();
        uint32_t main = made_thread(t, 7);
        static const uint16_t devices[] = {0xffff, MTP_DEVICE_CPU, MTP_DEVICE_NPU(3)};
        uint32_t shape = shape_of(t, "[[2]]", "[[1]]", "[\"float\"]", "[\"\"]");
        for (size_t i = 0; i < COUNT(devices); i++) {
            mtp__detail d = MTP__DETAIL_INIT;
            d.shape = shape;
            d.device = devices[i];
            mtp__trace_add_span(t, main, (int64_t)i * 10, (int64_t)i * 10 + 5, made_text(t, "aten::x"),
                                MTP__CATEGORY_CPU_OP, 0, mtp__trace_add_detail(t, &d));
        }
        if (with_device)
            made_span(t, made_stream(t, 0, 7), 0, 5, "gemm", MTP__CATEGORY_KERNEL);
        made_end(t);
        collected c = written(t);
        ASSERT_NODE(&c, 3, with_device ? "0,2,4,\"\"]" : "0,2,4,\"cpu\"]");
        ASSERT_NODE(&c, 4, "0,2,4,\"cpu\"]");
        ASSERT_NODE(&c, 5, "0,2,4,\"npu:3\"]");
        collected_free(&c);
        mtp_trace_destroy(t);
    }
}

static void shapes_of_any_form_stay_json(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "null",
                                        "{}",
                                        "[[]",
                                        "[1, 2",
                                        "[\"\\u12\"]",
                                        "\"x\"",
                                        "[{\"a\": [1, \"]\"]}]",
                                        "[[[[1]]], 5, -1]",
                                        "[\"a]\", \"b\\\\\", \"c\\\"\"]",
                                        "[1.5, 1e9, true]",
                                        "[ [1 , 2 ] ,[ 3]  ] ",
                                        "[\"\xff\"]",
                                        "[,]",
                                        "[[-]]",
                                        "[\"Scalar\", \"\"]",
                                        "[\"[\", \"[,]\", \"[1,,2]\"]",
                                        "[99999999999999999999, [99999999999, 99999999999]]",
                                        "[\"1e5\", \"01\", \"-\", \"-.\", \"5.\", \"nan\", \"0x10\"]",
                                        "[\"ScalarList\", \"TensorList\"]"};
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    int64_t at = 0;
    for (size_t i = 0; i < COUNT(texts); i++)
        for (size_t k = 0; k < COUNT(texts); k++, at += 10)
            op_with(t, main, at, at + 5, "aten::x",
                    shape_of(t, texts[i], texts[k], texts[(i + k) % COUNT(texts)], texts[k]),
                    shape_of(t, texts[k], texts[i], texts[k], texts[i]));
    made_end(t);
    collected c = written(t);
    char path[256], command[512];
    snprintf(path, sizeof path, "%s", test_path("shapes.json"));
    test_spew(path, c.bytes, c.length);
    collected_free(&c);
    mtp_trace_destroy(t);
    snprintf(command, sizeof command, "check_memory.py json %s", path);
    if (!made_judge(command))
        skip();
}

static void hostile_names_stay_json(void **state)
{
    (void)state;
    static const char *const names[] = {"",
                                        "\"",
                                        "\\",
                                        "\"}],",
                                        "\n\r\t\b\f\x01\x7f",
                                        "\xff\xc0\x80\xed\xa0\x80",
                                        "\xe2\x80\xa8",
                                        "\xf0\x9f\x98\x80",
                                        ENGINE,
                                        ENGINE "\""};
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_op(t, main, (int64_t)i * 10, (int64_t)i * 10 + 9, names[i]);
        made_scope(t, main, (int64_t)i * 10 + 2, (int64_t)i * 10 + 7, names[i]);
    }
    char *long_name = malloc(200000);
    memset(long_name, '"', 200000);
    mtp__trace_add_span(t, main, 5000, 5010, mtp__trace_text(t, long_name, 200000), MTP__CATEGORY_CPU_OP, 0,
                        0);
    mtp__trace_add_span(t, main, 6000, 6010, mtp__trace_text(t, "a\0b", 3), MTP__CATEGORY_CPU_OP, 0, 0);
    free(long_name);
    made_end(t);
    collected c = written(t);
    char path[256], command[512];
    snprintf(path, sizeof path, "%s", test_path("names.json"));
    test_spew(path, c.bytes, c.length);
    collected_free(&c);
    mtp_trace_destroy(t);
    snprintf(command, sizeof command, "check_memory.py json %s", path);
    if (!made_judge(command))
        skip();
}

static void a_real_trace_becomes_what_torchs_observer_wrote(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp_trace_open(GOLDEN "execution.json.gz", NULL, &t));
    collected c = written(t);
    char path[256], command[1024];
    snprintf(path, sizeof path, "%s", test_path("execution.json"));
    test_spew(path, c.bytes, c.length);
    collected_free(&c);
    mtp_trace_destroy(t);
    snprintf(command, sizeof command, "check_memory.py execution %s " GOLDEN "execution.gold.json.gz", path);
    if (!made_judge(command))
        skip();
}

/* ------------------------------------------------------------------------------------------- read back */

static mtp_trace *read_nodes(const char *json, size_t length)
{
    mtp_trace *t;
    const char *path = test_path("nodes.et.json");
    test_spew(path, json, length);
    assert_ok(mtp_trace_open(path, NULL, &t));
    return t;
}

/* It has no times, so the last one written counts. */
static void cut_finish(collected *c)
{
    c->bytes[strstr(c->bytes, "\"finish_ts\"") - c->bytes] = 0;
}

static void an_execution_trace_is_read_back(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 1), other = made_thread(t, 2);
    uint32_t in = shape_of(
        t, "[[2, 3], [], [[4], []], [], [], [], [], []]", "[[3, 1], [], [[1], []], [], [], [], [], []]",
        "[\"c10::Half\", \"Scalar\", \"TensorList\", \"ScalarList\", \"\", \"\", \"Scalar\", \"Scalar\"]",
        "[\"\", \"-7\", \"\", \"[1, 2]\", \"\", \"a \\\"b\\\"\", \"True\", \"0.5\"]");
    uint32_t out = shape_of(t, "[[2]]", "[[1]]", "[\"float\"]", "[\"\"]");
    made_span(t, main, 0, 1000, "ProfilerStep#3", MTP__CATEGORY_USER_ANNOTATION);
    op_with(t, main, 10, 500, "aten::outer", in, out);
    op_with(t, main, 20, 30, "aten::first", 0, 0);
    op_with(t, other, 25, 60, "aten::elsewhere", out, 0);
    op_with(t, main, 40, 50, "aten::second", out, out);
    op_with(t, main, 600, 700, "aten::last", 0, 0);
    t->pid = 77;
    t = made_end(t);
    collected c = written(t);
    mtp_trace *again = read_nodes(c.bytes, c.length);
    collected twice = written(again);
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    assert_ok(mtp_trace_get_info(again, &info));
    assert_int_equal(info.format, MTP_FORMAT_EXECUTION);
    assert_true(info.without_times && info.pid == 77 && info.steps == 1 && info.spans == 6 &&
                info.tracks == 2);
    assert_int_equal(info.base_ns, t->base_ns / 1000000 * 1000000);
    cut_finish(&c);
    cut_finish(&twice);
    assert_string_equal(twice.bytes, c.bytes);
    collected_free(&c);
    collected_free(&twice);
    mtp_trace_destroy(t);
    mtp_trace_destroy(again);
}

/* Tensors that are not on the CPU: in a CUDA trace, and in our export of such a trace. */
static void devices_that_are_not_known_are_not_made_up(void **state)
{
    (void)state;
    static const char file[] =
        "{\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 1, \"nodes\": ["
        "{\"id\": 2, \"name\": \"aten::a\", \"ctrl_deps\": 1, \"inputs\": {\"values\": [[3,4,0,1,4,\"\"]], "
        "\"shapes\": [[1]], \"types\": [\"Tensor(float)\"], \"strides\": [[1]]}, \"outputs\": {\"values\": "
        "[], "
        "\"shapes\": [], \"types\": [], \"strides\": []}, \"attrs\": []},"
        "{\"id\": 5, \"name\": \"aten::b\", \"ctrl_deps\": 1, \"inputs\": {\"values\": "
        "[[6,7,0,1,4,\"cuda:0\"]], "
        "\"shapes\": [[1]], \"types\": [\"Tensor(float)\"], \"strides\": [[1]]}, \"outputs\": {\"values\": "
        "[], "
        "\"shapes\": [], \"types\": [], \"strides\": []}, \"attrs\": []}]}";
    mtp_trace *t = read_nodes(file, sizeof file - 1);
    collected c = written(t);
    assert_non_null(strstr(c.bytes, "aten::a"));
    assert_null(strstr(c.bytes, "\"cpu\""));
    collected_free(&c);
    mtp_trace_destroy(t);
}

static void torchs_own_execution_trace_is_read_back(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp_trace_open(GOLDEN "execution.gold.json.gz", NULL, &t));
    assert_int_equal(t->skipped_events, 0);
    collected c = written(t);
    char path[256], command[1024];
    snprintf(path, sizeof path, "%s", test_path("again.et.json"));
    test_spew(path, c.bytes, c.length);
    collected_free(&c);
    mtp_trace_destroy(t);
    snprintf(command, sizeof command, "check_memory.py execution %s " GOLDEN "execution.gold.json.gz", path);
    if (!made_judge(command))
        skip();
}

#define NODE(id, up, more) "{\"id\": " id ", \"name\": \"n" id "\", \"ctrl_deps\": " up more "}"
#define NODES(nodes) "{\"schema\": \"1.1.1\", \"pid\": 5, \"nodes\": [" nodes "]}"

static void odd_nodes_are_read_as_far_as_they_go(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint32_t spans, skipped;
    } cases[] = {
        {NODES(""), 0, 0},
        {NODES(NODE("3", "2", "")), 1, 0},
        {NODES(NODE("3", "3", "") "," NODE("4", "5", "") "," NODE("5", "4", "")), 3,
         0}, /* in themselves, in a ring */
        {NODES(NODE("9", "2", "") "," NODE("3", "9", "") "," NODE("9", "3", "")), 3, 0}, /* an id twice */
        {NODES("7, [], null, {}, {\"id\": 1}, {\"ctrl_deps\": 1}, {\"id\": \"x\", \"ctrl_deps\": 1}"), 0, 7},
        {NODES(NODE("3", "-1", "")), 0, 1},
        {NODES(
             NODE("3", "2",
                  ", \"attrs\": [1, {}, {\"name\": 5, \"value\": 1}, {\"name\": \"rf_id\", \"value\": \"x\"},"
                  " {\"name\": \"tid\", \"value\": -4}, {\"name\": \"scope\", \"value\": 1e99}]")),
         1, 0},
        {NODES(NODE("3", "2",
                    ", \"inputs\": {\"types\": [\"Tensor(\", \"Tensor()\", \"\", 5, \"GenericList[Tensor(\", "
                    "\"Int\"]}")),
         1, 0},
        {NODES(NODE("3", "2",
                    ", \"inputs\": {\"values\": {}, \"types\": [\"GenericList[Int]\", \"Tensor(float)\"], "
                    "\"shapes\": 4}")),
         1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mtp_trace *t = read_nodes(cases[i].json, strlen(cases[i].json));
        assert_int_equal(t->span_count, cases[i].spans);
        assert_int_equal(t->skipped_events, cases[i].skipped);
        collected c = written(t);
        collected_free(&c);
        mtp_trace_destroy(t);
    }
    mtp_trace *t;
    const char *other = "{\"nodes\": [1, 2]}"; /* somebody's, and no schema */
    test_spew(test_path("other.json"), other, strlen(other));
    assert_int_equal(mtp_trace_open(test_path("other.json"), NULL, &t), MTP_E_FORMAT);
}

static void nodes_nest_to_any_depth(void **state)
{
    (void)state;
    collected text = {0};
    char line[128];
    const char *head = "{\"schema\": \"x\", \"nodes\": [";
    collect(&text, head, strlen(head));
    for (int i = 0; i < 100000; i++) {
        int n = snprintf(line, sizeof line, "%s{\"id\": %d, \"name\": \"n\", \"ctrl_deps\": %d}",
                         i > 0 ? "," : "", i + 2, i + 1);
        collect(&text, line, (size_t)n);
    }
    collect(&text, "]}", 2);
    mtp_trace *t = read_nodes(text.bytes, text.length);
    assert_int_equal(t->span_count, 100000);
    for (uint32_t i = 1; i < t->span_count; i++)
        assert_int_equal(t->parent[i], i - 1);
    collected_free(&text);
    mtp_trace_destroy(t);
}

/* ----------------------------------------------------------------------------------------------- limits */

static mtp_trace *some_ops(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), other = made_thread(t, 8);
    uint32_t shape = shape_of(t, "[[2]]", "[[1]]", "[\"float\"]", "[\"\"]");
    for (int64_t i = 0; i < 20; i++)
        op_with(t, i % 2 == 0 ? main : other, i * 10, i * 10 + 5, "aten::x", shape, shape);
    return made_end(t);
}

static void wrong_calls_and_full_sinks_are_reported(void **state)
{
    (void)state;
    mtp_trace *t = some_ops();
    assert_int_equal(mtp_trace_execution_trace(NULL, collect, NULL), MTP_E_ARG);
    assert_int_equal(mtp_trace_execution_trace(t, NULL, NULL), MTP_E_ARG);
    collected c = {.refuse_after = 100};
    assert_int_equal(mtp_trace_execution_trace(t, collect, &c), MTP_E_IO);
    collected_free(&c);
    mtp_trace_destroy(t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_trace *t = some_ops();
    long live = mtp__alloc_live();
    for (int nth = 1, fired = 1; fired != 0; nth++) {
        collected c = {0};
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, nth % 2 == 0);
        mtp_status status = mtp_trace_execution_trace(t, collect, &c);
        fired = mtp__fault_stop();
        assert_int_equal(status, fired != 0 ? MTP_E_NOMEM : MTP_OK);
        assert_true(fired == 0 || c.length == 0);
        assert_int_equal(mtp__alloc_live(), live);
        assert_true(fired != 0 || nth > 8);
        collected_free(&c);
    }
    mtp_trace_destroy(t);
}

static void reading_nodes_fails_whole(void **state)
{
    (void)state;
    mtp_trace *t = some_ops();
    collected c = written(t);
    const char *path = test_path("nodes.et.json");
    test_spew(path, c.bytes, c.length);
    collected_free(&c);
    mtp_trace_destroy(t);
    for (int nth = 1, fired = 1; fired > 0; nth++) {
        long live = mtp__alloc_live();
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, false);
        mtp_status status = mtp_trace_open(path, NULL, &t);
        fired = mtp__fault_stop();
        assert_int_equal(status, fired > 0 ? MTP_E_NOMEM : MTP_OK);
        mtp_trace_destroy(t);
        assert_int_equal(mtp__alloc_live(), live);
    }
}

static void a_recorded_program_has_its_execution_trace(void **state)
{
    (void)state;
    warnings w = {0};
    mtp_profile_config config = test_config(&w);
    config.record_shapes = true;
    mtp_profile *prof = test_start(&config);
    int64_t dims[] = {4, 32}, sizes[] = {7, 9};
    mtp_input inputs[] = {{.kind = MTP_INPUT_TENSOR, .dtype = MTP_BFLOAT16, .count = 2, .dims = dims},
                          {.kind = MTP_INPUT_FLOAT, .value.f = 0.25},
                          {.kind = MTP_INPUT_INT_LIST, .count = 2, .dims = sizes},
                          {.kind = MTP_INPUT_NONE},
                          {.kind = MTP_INPUT_TEXT, .count = 3, .value.text = "a\"\xff"}};
    mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mul"));
    op.inputs = inputs;
    op.input_count = 4;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    op.input_count = 5;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    collected c = written(t);
    ASSERT_NODE(&c, 3, "\"name\": \"aten::mul\"", ",0,128,2,\"cpu\"],0.25,[7,9],\"<None>\"]",
                "[\"Tensor(c10::BFloat16)\",\"Double\",\"GenericList[Int,Int]\",\"None\"]");
    assert_non_null(strstr(c.bytes, "a\\\"\xef\xbf\xbd")); /* any bytes become valid UTF-8 there */
    assert_null(strchr(c.bytes, '\xff'));
    collected_free(&c);
    collected chrome = {0};
    assert_ok(mtp_trace_chrome(t, NULL, collect, &chrome));
    assert_null(memchr(chrome.bytes, 0xff, chrome.length));
    collected_free(&chrome);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_whole_file_is_as_it_should_be),
        TEST(an_empty_trace_has_a_root),
        TEST(nodes_are_ops_and_annotations_in_order_of_time),
        TEST(record_function_ids_are_those_of_the_trace),
        TEST(backward_ops_name_their_forward_thread_and_what_is_open_there),
        TEST(values_have_the_kinds_that_torch_gives_them),
        TEST(a_tensors_device_is_the_ops_if_that_is_known),
        TEST(shapes_of_any_form_stay_json),
        TEST(hostile_names_stay_json),
        TEST(a_real_trace_becomes_what_torchs_observer_wrote),
        TEST(an_execution_trace_is_read_back),
        TEST(devices_that_are_not_known_are_not_made_up),
        TEST(torchs_own_execution_trace_is_read_back),
        TEST(odd_nodes_are_read_as_far_as_they_go),
        TEST(nodes_nest_to_any_depth),
        TEST(reading_nodes_fails_whole),
        TEST(wrong_calls_and_full_sinks_are_reported),
        TEST(every_allocation_may_fail),
        TEST(a_recorded_program_has_its_execution_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
