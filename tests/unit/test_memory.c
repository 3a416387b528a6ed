/* Unit: analyze/memory: categories and their rules, tags, live memory. */
#define _GNU_SOURCE
#include "tests/unit/memory_lists.h"

/* -------------------------------------------------------------------------------------------- simple */

static void a_trace_without_memory_has_an_empty_timeline(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    made_op(t, made_thread(t, 7), 0, 100, "aten::add");
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_string_equal(info.device, "cpu");
    assert_int_equal(info.allocations + info.frees + info.peak_blocks + (uint64_t)info.peak_bytes, 0);
    assert_null(mtp_memory_timeline_device(m, 0));
    assert_null(mtp_memory_timeline_block(m, 0));
    assert_writes(m, mtp_memory_timeline_json, "[[], []]");
    assert_writes(m, mtp_memory_timeline_raw, "[]");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void bytes_in_use_are_told_by_category_and_time(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    collected c = {0};
    mtp_memory_timeline_points(m, add_point, &c);
    assert_string_equal(c.bytes, "3000: 0 0 0 0 0 0 0 100\n"
                                 "4000: 0 0 0 50 0 0 0 100\n"
                                 "7000: 0 0 0 0 0 0 0 100\n"
                                 "10000: 0 0 0 0 0 0 0 125\n"
                                 "12000: 0 0 0 0 0 0 0 105\n");
    collected_free(&c);
    assert_writes(
        m, mtp_memory_timeline_json,
        "[[1700000000000003, 1700000000000004, 1700000000000007, 1700000000000010, 1700000000000012], "
        "[[0, 0, 0, 0, 0, 0, 0, 0, 100], [0, 0, 0, 0, 50, 0, 0, 0, 100], [0, 0, 0, 0, 0, 0, 0, 0, 100], "
        "[0, 0, 0, 0, 0, 0, 0, 0, 125], [0, 0, 0, 0, 0, 0, 0, 0, 105]]]");
    assert_writes(m, mtp_memory_timeline_raw,
                  "[[1700000000000003000, 2, 100, 7], [1700000000000004000, 2, 50, 3], "
                  "[1700000000000007000, 4, -50, 3], [1700000000000010000, 2, 20, 7], "
                  "[1700000000000010000, 2, 5, 7], [1700000000000012000, 4, -20, 7]]");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void the_peak_has_its_blocks_with_what_made_them(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, "cpu");
    mtp_memory_info info = info_of(m);
    assert_int_equal(info.peak_bytes, 150);
    assert_int_equal(info.peak_ns, 4000);
    assert_int_equal(info.peak_by_category[MTP_MEMORY_TEMPORARY], 50);
    assert_int_equal(info.peak_by_category[MTP_MEMORY_UNKNOWN], 100);
    assert_int_equal(info.peak_blocks, 2);
    assert_int_equal(info.allocations, 4);
    assert_int_equal(info.frees, 2);
    assert_int_equal(info.allocated_bytes, 175);
    assert_int_equal(info.end_bytes, 105);
    const mtp_memory_block *b = mtp_memory_timeline_block(m, 1);
    assert_int_equal(mtp_memory_timeline_block(m, 0)->address, 0x10);
    assert_int_equal(mtp_memory_timeline_block(m, 0)->freed_ns, INT64_MAX);
    assert_int_equal(b->address, 0x20);
    assert_int_equal(b->bytes, 50);
    assert_int_equal(b->category, MTP_MEMORY_TEMPORARY);
    assert_int_equal(b->created_ns, 4000);
    assert_int_equal(b->freed_ns, 7000);
    assert_int_equal(b->thread, 7);
    assert_string_equal(b->op, "aten::addmm");
    assert_null(mtp_memory_timeline_block(m, 2));
    assert_writes(
        m, summary,
        "{\"device\": \"cpu\", \"devices\": [\"cpu\"],\n"
        " \"allocations\": 4, \"frees\": 2, \"lost_events\": 0, \"tagged_blocks\": 0,\n"
        " \"allocated_bytes\": 175, \"preexisting_bytes\": 0, \"end_bytes\": 105, \"unaccounted_bytes\": 0,\n"
        " \"peak\": {\"time_us\": 3.000, \"bytes\": 150, \"by_category\": {\"PARAMETER\": 0, "
        "\"OPTIMIZER_STATE\": 0, \"INPUT\": 0, \"TEMPORARY\": 50, \"ACTIVATION\": 0, \"GRADIENT\": 0, "
        "\"AUTOGRAD_DETAIL\": 0, \"Unknown\": 100},\n"
        "  \"block_count\": 2, \"blocks\": [\n"
        "   {\"address\": 16, \"bytes\": 100, \"category\": \"Unknown\", \"created_us\": 2.000, "
        "\"freed_us\": null, \"op\": \"aten::addmm\", \"maker\": \"aten::addmm\", \"source\": \"\", "
        "\"thread\": 7},\n"
        "   {\"address\": 32, \"bytes\": 50, \"category\": \"TEMPORARY\", \"created_us\": 3.000, "
        "\"freed_us\": 6.000, \"op\": \"aten::addmm\", \"maker\": \"aten::addmm\", \"source\": \"\", "
        "\"thread\": 7}]}}\n");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void the_maker_is_the_innermost_op_else_the_innermost_span(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), stream = made_stream(t, 0, 3);
    made_scope(t, main, 0, 1000, "train");
    made_op(t, main, 100, 400, "aten::empty");
    made_span(t, main, 150, 350, "posix_memalign", MTP__CATEGORY_CUDA_RUNTIME);
    made_span(t, main, 500, 600, "model.py(3): forward", MTP__CATEGORY_PYTHON_FUNCTION);
    made_span(t, stream, 0, 5000, "gemm", MTP__CATEGORY_KERNEL);
    made_memory(t, main, 200, 0x10, 4);    /* in a runtime call in an op */
    made_memory(t, main, 550, 0x20, 3);    /* in Python only */
    made_memory(t, main, 1000, 0x30, 2);   /* at the very end of the scope */
    made_memory(t, main, 1001, 0x40, 1);   /* after all */
    made_memory(t, stream, 1002, 0x50, 5); /* not on a thread */
    made_memory(t, 99, 1003, 0x60, 6);     /* on no track */
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    const char *expected[] = {"", "", "aten::empty", "model.py(3): forward", "train", ""};
    for (size_t i = 0; i < COUNT(expected); i++)
        assert_string_equal(mtp_memory_timeline_block(m, i)->op, expected[i]);
    assert_int_equal(mtp_memory_timeline_block(m, 0)->thread, -1);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------------------- rules */

static void categories_follow_from_where_a_block_was_made_and_freed(void **state)
{
    (void)state;
    mtp_trace *t = training();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    static const struct {
        uint64_t address;
        const char *category;
    } expected[] = {{0xa0, "INPUT"},           {0xa1, "ACTIVATION"}, {0xa2, "TEMPORARY"},
                    {0xa3, "ACTIVATION"},      {0xa4, "GRADIENT"},   {0xa5, "AUTOGRAD_DETAIL"},
                    {0xa6, "OPTIMIZER_STATE"}, {0xa7, "Unknown"},    {0xa8, "Unknown"},
                    {0xa9, "TEMPORARY"},       {0xaa, "Unknown"},    {0xb0, "Unknown"}};
    for (size_t i = 0; i < COUNT(expected); i++)
        if (strcmp(category_at(m, expected[i].address), expected[i].category) != 0)
            fail_msg("%llx is %s, should be %s", (unsigned long long)expected[i].address,
                     category_at(m, expected[i].address), expected[i].category);
    assert_int_equal(info_of(m).tagged, 0);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* Each thread has its own sequence numbers. */
static void each_threads_last_op_of_a_number_made_the_node(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t a = made_thread(t, 1), b = made_thread(t, 2);
    for (int k = 0; k < 2; k++) {
        uint32_t on = k == 0 ? a : b;
        uint64_t at = k == 0 ? 0x10 : 0x20;
        made_autograd(t, on, 0, 10, "aten::empty", 1, 0);
        made_memory(t, on, 5, at, 8);
        made_autograd(t, on, 20, 30, "aten::mul", 1, 0);
        made_memory(t, on, 25, at + 1, 8);
    }
    made_autograd(t, a, 40, 50, "MulBackward0", 1, 1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_string_equal(category_at(m, 0x10), "Unknown");
    assert_string_equal(category_at(m, 0x11), "ACTIVATION");
    assert_string_equal(category_at(m, 0x20), "Unknown");
    assert_string_equal(category_at(m, 0x21), "ACTIVATION");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* ---------------------------------------------------------------------------------------------- tags */

static void a_first_tag_holds_from_creation_and_a_later_one_from_its_time(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1700000000000000000;
    made_memory(t, main, 1000, 0x10, 100);
    made_memory(t, main, 2000, 0x20, 10);
    made_memory(t, main, 5000, 0x10, -100);
    made_memory(t, main, 6000, 0x10, 1); /* another block at the same address: not tagged */
    made_tag(t, 4000, 0x10, MTP_MEMORY_GRADIENT);
    made_tag(t, 4000, 0x10, MTP_MEMORY_GRADIENT); /* the same tag again changes nothing */
    made_tag(t, 3000, 0x10, MTP_MEMORY_ACTIVATION);
    made_tag(t, 7000, 0x20, 200); /* no such category */
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_writes(m, mtp_memory_timeline_raw,
                  "[[1700000000000001000, 2, 100, 4], [1700000000000002000, 2, 10, 7], "
                  "[1700000000000004000, 3, -100, 4], [1700000000000004000, 3, 100, 5], "
                  "[1700000000000005000, 4, -100, 5], [1700000000000006000, 2, 1, 7]]");
    assert_int_equal(info_of(m).tagged, 2);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void a_tag_beats_the_rules(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_op(t, main, 0, 100, "aten::mm");
    made_memory(t, main, 10, 0x10, 8);
    made_memory(t, main, 10, 0x20, 8);
    made_tag(t, 10, 0x10, MTP_MEMORY_PARAMETER);
    made_memory(t, main, 90, 0x10, -8);
    made_memory(t, main, 90, 0x20, -8);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_string_equal(category_at(m, 0x10), "PARAMETER");
    assert_string_equal(category_at(m, 0x20), "TEMPORARY");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static const mtp_memory_block *block_at(const mtp_memory_timeline *m, uint64_t address)
{
    const mtp_memory_block *b;
    for (size_t i = 0; (b = mtp_memory_timeline_block(m, i)) != NULL; i++)
        if (b->address == address)
            return b;
    fail_msg("no block %llx", (unsigned long long)address);
    return NULL;
}

static void a_block_is_told_with_the_op_above_aten_empty_and_its_line(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), engine = made_thread(t, 8);
    made_span(t, main, 0, 99000, "train.py(30): <module>", MTP__CATEGORY_PYTHON_FUNCTION);
    made_span(t, main, 10, 90000, "model.py(12): forward", MTP__CATEGORY_PYTHON_FUNCTION);
    made_span(t, main, 20, 5000, "nn.Module: LayerNorm_0", MTP__CATEGORY_PYTHON_FUNCTION);
    made_span(t, main, 30, 4900, "torch/nn/modules/normalization.py(217): forward",
              MTP__CATEGORY_PYTHON_FUNCTION);
    made_op(t, main, 100, 4000, "aten::layer_norm");
    made_autograd(t, main, 200, 3000, "aten::native_layer_norm", 5, 0);
    made_op(t, main, 300, 500, "aten::empty_like");
    made_op(t, main, 350, 450, "aten::empty");
    made_memory(t, main, 400, 0x1000, 64);
    made_op(t, main, 6000, 7000, "aten::empty"); /* called by the program itself */
    made_memory(t, main, 6500, 0x2000, 64);
    made_scope(t, main, 8000, 9000, "scope");
    made_memory(t, main, 8500, 0x3000, 64);
    made_autograd(t, engine, 20000, 30000, "NativeLayerNormBackward0", 5, 7);
    made_op(t, engine, 21000, 22000, "aten::native_layer_norm_backward");
    made_op(t, engine, 21100, 21900, "aten::empty");
    made_memory(t, engine, 21500, 0x4000, 64);
    mtp_memory_timeline *m;
    assert_ok(mtp_memory_timeline_create(made_end(t), "cpu", &m));
    const mtp_memory_block *b = block_at(m, 0x1000);
    assert_string_equal(b->op, "aten::empty");
    assert_string_equal(b->maker.bytes, "aten::native_layer_norm");
    assert_string_equal(b->source.bytes, "model.py(12): forward"); /* not torch's own */
    b = block_at(m, 0x2000);
    assert_string_equal(b->maker.bytes, "aten::empty");
    assert_string_equal(b->source.bytes, "model.py(12): forward");
    assert_string_equal(block_at(m, 0x3000)->maker.bytes, "scope");
    b = block_at(m, 0x4000);
    assert_string_equal(b->maker.bytes, "aten::native_layer_norm_backward");
    assert_string_equal(b->source.bytes, "model.py(12): forward"); /* the forward op's */
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void recorded_stacks_tell_the_line_of_a_block(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    static const char *const frames[] = {"train.py:30:<module>", "model.py:12:forward",
                                         "/usr/lib/mindtorch_v2/nn/functional.py:3:linear",
                                         "mindtorch_v2/nn/functional.py:4:linear"}; /* relative to sys.path */
    mtp__detail d = MTP__DETAIL_INIT;
    for (size_t i = 0; i < COUNT(frames); i++)
        d.stack = mtp__trace_add_stack(t, d.stack, made_text(t, frames[i]));
    mtp__trace_add_span(t, main, 100, 200, made_text(t, "aten::linear"), MTP__CATEGORY_CPU_OP, 0,
                        mtp__trace_add_detail(t, &d));
    made_memory(t, main, 150, 0x1000, 64);
    mtp_memory_timeline *m;
    assert_ok(mtp_memory_timeline_create(made_end(t), "cpu", &m));
    assert_string_equal(block_at(m, 0x1000)->source.bytes, "model.py:12:forward");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void the_category_at_the_peak_is_the_one_of_that_time(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_memory(t, main, 10, 0x10, 8);
    made_tag(t, 20, 0x10, MTP_MEMORY_ACTIVATION);
    made_tag(t, 30, 0x10, MTP_MEMORY_INPUT);
    made_memory(t, main, 40, 0x20, 4);
    made_memory(t, main, 50, 0x20, -4);
    made_tag(t, 60, 0x10, MTP_MEMORY_GRADIENT);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_int_equal(info_of(m).peak_ns, 40);
    assert_int_equal(mtp_memory_timeline_block(m, 0)->category, MTP_MEMORY_INPUT);
    assert_int_equal(info_of(m).peak_by_category[MTP_MEMORY_INPUT], 8);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------ live */

static void a_recorded_program_has_its_timeline(void **state)
{
    (void)state;
    warnings w = {0};
    mtp_profile_config config = test_config(&w);
    config.profile_memory = true;
    mtp_profile *prof = test_start(&config);
    char weight[8], temporary[8], old[8];
    mtp_memory_existing(MTP_DEVICE_NPU(1), old, 64, MTP_MEMORY_INPUT);
    mtp_memory_event(MTP_DEVICE_NPU(1), weight, 4096, 4160, 8192);
    mtp_memory_tag(MTP_DEVICE_NPU(1), weight, MTP_MEMORY_PARAMETER);
    mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
    mtp_op_begin(&op);
    mtp_memory_event(MTP_DEVICE_NPU(1), temporary, 100, 4260, 8192);
    mtp_memory_event(MTP_DEVICE_NPU(1), temporary, -100, 4160, 8192);
    mtp_op_end(&op);
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_string_equal(info.device, "npu:1");
    assert_int_equal(info.peak_bytes, 4260);
    assert_int_equal(info.preexisting_bytes, 64);
    assert_int_equal(info.peak_by_category[MTP_MEMORY_INPUT], 64);
    assert_int_equal(info.peak_by_category[MTP_MEMORY_PARAMETER], 4096);
    assert_int_equal(info.peak_by_category[MTP_MEMORY_TEMPORARY], 100);
    assert_int_equal(info.unaccounted_bytes, 0);
    assert_string_equal(mtp_memory_timeline_block(m, 1)->op, "aten::mm");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_trace_without_memory_has_an_empty_timeline),
        TEST(bytes_in_use_are_told_by_category_and_time),
        TEST(the_peak_has_its_blocks_with_what_made_them),
        TEST(the_maker_is_the_innermost_op_else_the_innermost_span),
        TEST(categories_follow_from_where_a_block_was_made_and_freed),
        TEST(each_threads_last_op_of_a_number_made_the_node),
        TEST(a_first_tag_holds_from_creation_and_a_later_one_from_its_time),
        TEST(a_tag_beats_the_rules),
        TEST(a_block_is_told_with_the_op_above_aten_empty_and_its_line),
        TEST(recorded_stacks_tell_the_line_of_a_block),
        TEST(the_category_at_the_peak_is_the_one_of_that_time),
        TEST(a_recorded_program_has_its_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
