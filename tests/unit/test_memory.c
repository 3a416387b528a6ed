/* Unit: analyze/memory and present/memory_timeline. Small programs with known answers, torch's answers for a real one,
 * and whatever a file may say. */
#define _GNU_SOURCE
#include "tests/made_trace.h"
#include <math.h>
#include <unistd.h>
#include "analyze/memory.h"

#define GOLDEN TEST_ROOT "/tests/golden/memory/"
#define ENGINE "autograd::engine::evaluate_function: "

/* ------------------------------------------------------------------------------------------- helpers */

static mtp_memory_timeline *timeline_of(const mtp_trace *t, const char *device)
{
    mtp_memory_timeline *m;
    assert_ok(mtp_memory_timeline_create(t, device, &m));
    return m;
}

static mtp_memory_info info_of(const mtp_memory_timeline *m)
{
    mtp_memory_info info = MTP_MEMORY_INFO_INIT;
    assert_ok(mtp_memory_timeline_info(m, &info));
    return info;
}

typedef mtp_status writer(const mtp_memory_timeline *m, mtp_sink *sink, void *user);

static mtp_status summary(const mtp_memory_timeline *m, mtp_sink *sink, void *user)
{
    return mtp_memory_timeline_summary(m, -1, sink, user);
}

static void assert_writes(const mtp_memory_timeline *m, writer *write, const char *expected)
{
    collected c = {0};
    assert_ok(write(m, collect, &c));
    assert_string_equal(c.bytes, expected);
    collected_free(&c);
}

/* The category of the block that is at the address at the end, or was there last. */
static const char *category_at(const mtp_memory_timeline *m, uint64_t address)
{
    for (uint32_t i = m->block_count; i-- > 0;)
        if (m->blocks[i].address == address)
            return mtp_memory_category_text((mtp_memory_category)m->blocks[i].last);
    return "no such block";
}

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

static bool add_point(void *user, const mtp_memory_point *point)
{
    collected *c = user;
    char text[256];
    int n = snprintf(text, sizeof text, "%lld:", (long long)point->ns);
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %lld", (long long)point->bytes[k]);
    text[n++] = '\n';
    return collect(c, text, (size_t)n);
}

/* A temporary inside an op, a block that stays, one that goes; the peak is in the op. */
static mtp_trace *small_program(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1700000000000000000;
    made_op(t, main, 1000, 9000, "aten::linear");
    made_op(t, main, 2000, 8000, "aten::addmm");
    made_memory(t, main, 3000, 0x10, 100); /* stays */
    made_memory(t, main, 4000, 0x20, 50);  /* temporary */
    made_memory(t, main, 7000, 0x20, -50);
    made_memory(t, main, 10000, 0x30, 20); /* in no op */
    made_memory(t, main, 10000, 0x40, 5);
    made_memory(t, main, 12000, 0x30, -20);
    return made_end(t);
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

/* Two steps of training as PyTorch's profiler sees them. */
static mtp_trace *training(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), engine = made_thread(t, 8);
    made_scope(t, main, 0, 900, "enumerate(DataLoader)#_Iter.__next__");
    made_op(t, main, 10, 90, "aten::stack");
    made_memory(t, main, 20, 0xb0, 7); /* goes with the scope */
    made_memory(t, main, 50, 0xa0, 640);
    made_memory(t, main, 95, 0xb0, -7);
    made_autograd(t, main, 1000, 1090, "aten::rand", 5, 0); /* made no node: linear did */
    made_memory(t, main, 1050, 0xa8, 8);
    made_autograd(t, main, 1100, 1900, "aten::linear", 5, 0);
    made_autograd(t, main, 1200, 1800, "aten::addmm", 6, 0);
    made_memory(t, main, 1300, 0xa1, 100); /* its output */
    made_memory(t, main, 1400, 0xa2, 10);
    made_memory(t, main, 1500, 0xa2, -10);
    made_op(t, main, 2000, 2100, "aten::bernoulli");
    made_memory(t, main, 2050, 0xa3, 30); /* saved: freed in the backward pass */
    made_op(t, engine, 3000, 3900, ENGINE "AddmmBackward0");
    made_autograd(t, engine, 3100, 3800, "AddmmBackward0", 6, 7);
    made_op(t, engine, 3200, 3300, "aten::mm");
    made_memory(t, engine, 3250, 0xa4, 50); /* stays: a gradient */
    made_memory(t, engine, 3260, 0xa5, 51); /* goes with the pass */
    made_memory(t, engine, 3270, 0xa9, 3);  /* goes with the op */
    made_memory(t, engine, 3750, 0xa9, -3);
    made_memory(t, engine, 3850, 0xa3, -30);
    made_op(t, engine, 4000, 4100, ENGINE "torch::autograd::AccumulateGrad");
    made_memory(t, engine, 4050, 0xa5, -51);
    made_scope(t, main, 5000, 6000, "Optimizer.step#Adam.step");
    made_op(t, main, 5100, 5200, "aten::zeros_like");
    made_memory(t, main, 5150, 0xa6, 60);
    made_op(t, main, 5300, 5400, "aten::sqrt");
    made_memory(t, main, 5350, 0xa7, 61);
    made_memory(t, main, 5500, 0xa7, -61);
    made_op(t, main, 7000, 7100, "aten::argmax");
    made_memory(t, main, 7050, 0xaa, 1);
    made_memory(t, main, 8000, 0xa4, -50);
    made_memory(t, main, 8000, 0xa1, -100);
    return made_end(t);
}

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

/* Sequence numbers are counted by each thread for itself. */
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
    made_memory(t, main, 6000, 0x10, 1); /* another block at the same address: it is not tagged */
    made_tag(t, 4000, 0x10, MTP_MEMORY_GRADIENT);
    made_tag(t, 4000, 0x10, MTP_MEMORY_GRADIENT); /* the same again is nothing new */
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
                                         "/usr/lib/mindtorch_v2/nn/functional.py:3:linear"};
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

/* ------------------------------------------------------------------------------------------- missing */

static void what_was_there_before_is_known_from_frees_and_totals(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1700000000000000000;
    made_tag(t, 500, 0x90, MTP_MEMORY_PARAMETER);
    made_memory_of(t, main, 1000, 0x10, 100, 1100, 0, -1); /* 1000 before */
    made_memory_of(t, main, 2000, 0x90, -300, 800, 0, -1);
    made_memory_of(t, main, 3000, 0x10, -100, 700, 0, -1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_int_equal(info.preexisting_bytes, 1000);
    assert_int_equal(info.peak_bytes, 1100);
    assert_int_equal(info.end_bytes, 700);
    assert_int_equal(info.unaccounted_bytes, 0);
    assert_int_equal(info.peak_blocks, 3);
    const mtp_memory_block *b = mtp_memory_timeline_block(m, 0);
    assert_int_equal(b->bytes, 700);
    assert_int_equal(b->address, 0);
    assert_int_equal(b->created_ns, INT64_MIN);
    assert_int_equal(b->thread, -1);
    assert_writes(m, mtp_memory_timeline_raw,
                  "[[-1, 1, 300, 0], [-1, 1, 700, 7], [1700000000000001000, 2, 100, 7], "
                  "[1700000000000002000, 4, -300, 0], [1700000000000003000, 4, -100, 7]]");
    /* as torch has it: a row for what was there, at the first time */
    assert_writes(m, mtp_memory_timeline_json,
                  "[[1700000000000001, 1700000000000001, 1700000000000002, 1700000000000003], "
                  "[[0, 300, 0, 0, 0, 0, 0, 0, 700], [0, 300, 0, 0, 0, 0, 0, 0, 800], "
                  "[0, 0, 0, 0, 0, 0, 0, 0, 800], [0, 0, 0, 0, 0, 0, 0, 0, 700]]]");
    collected c = {0};
    mtp_memory_timeline_points(m, add_point, &c);
    assert_contains(c.bytes, "1000: 300 0 0 0 0 0 0 700\n1000: 300 0 0 0 0 0 0 800\n");
    collected_free(&c);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static mtp_trace *with_existing(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1700000000000000000;
    made_op(t, main, 0, 9000, "aten::mm");
    made_memory_of(t, main, 1000, 0x10, 100, 1100, 0, -1); /* 1000 before */
    made_existing(t, 1500, 0x90, 300, MTP_MEMORY_PARAMETER);
    made_existing(t, 1600, 0x90, 300, MTP_MEMORY_PARAMETER); /* another thread met it too */
    made_existing(t, 2000, 0x80, 50, MTP_MEMORY_INPUT);
    made_memory_of(t, main, 2000, 0x80, -50, 1050, 0, -1); /* at the same time */
    made_existing(t, 2500, 0x70, 600, MTP_MEMORY_TEMPORARY);
    made_tag(t, 3000, 0x70, MTP_MEMORY_GRADIENT);
    made_memory_of(t, main, 4000, 0x10, -100, 950, 0, -1);
    return made_end(t);
}

static void what_was_there_before_has_the_category_that_was_told(void **state)
{
    (void)state;
    mtp_trace *t = with_existing();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_int_equal(info.preexisting_bytes, 1000); /* 50 of them nobody told of */
    assert_int_equal(info.allocations, 1);
    assert_int_equal(info.allocated_bytes, 100);
    assert_int_equal(info.frees, 2);
    assert_int_equal(info.lost_events, 0);
    assert_int_equal(info.peak_bytes, 1100);
    assert_int_equal(info.end_bytes, 950);
    assert_int_equal(info.unaccounted_bytes, 0);
    assert_writes(m, mtp_memory_timeline_raw,
                  "[[-1, 1, 300, 0], [-1, 1, 50, 2], [-1, 1, 600, 3], [-1, 1, 50, 7], "
                  "[1700000000000001000, 2, 100, 3], [1700000000000002000, 4, -50, 2], "
                  "[1700000000000003000, 3, -600, 3], [1700000000000003000, 3, 600, 5], "
                  "[1700000000000004000, 4, -100, 3]]");
    collected c = {0};
    mtp_memory_timeline_points(m, add_point, &c);
    assert_contains(c.bytes, "1000: 300 0 50 600 0 0 0 50\n1000: 300 0 50 700 0 0 0 50\n");
    collected_free(&c);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void what_is_told_of_blocks_is_kept_in_a_file(void **state)
{
    (void)state;
    mtp_trace *t = with_existing(), *again;
    assert_ok(mtp_trace_export(t, test_path("existing.json"), NULL));
    assert_ok(mtp_trace_open(test_path("existing.json"), NULL, &again));
    assert_int_equal(again->tag_count, t->tag_count);
    assert_int_equal(again->memory_count, t->memory_count);
    mtp_memory_timeline *a = timeline_of(t, NULL), *b = timeline_of(again, NULL);
    collected c = {0};
    assert_ok(mtp_memory_timeline_raw(a, collect, &c));
    assert_writes(b, mtp_memory_timeline_raw, c.bytes);
    collected_free(&c);
    mtp_memory_timeline_destroy(a);
    mtp_memory_timeline_destroy(b);
    mtp_trace_destroy(again);
    mtp_trace_destroy(t);
}

static void rows_of_a_file_that_are_none_are_left_out(void **state)
{
    (void)state;
    static const char *const rows[] = {"[]",
                                       "7",
                                       "[1]",
                                       "[1, 2, 0, -1, 99, 4]",
                                       "[1, 2, 0, -1, 0, -4]",
                                       "[1, -2, 0, -1, 0, 4]",
                                       "[1, 2, 70000, -1, 0, 4]",
                                       "[1, 2, 0, -2, 0, 4]",
                                       "[\"1\", 2, 0, -1, 0, 4]",
                                       "{\"a\": [1]}",
                                       "[1, 2, 0, -1, 0]"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        FILE *f = fopen(test_path("rows.json"), "w");
        fprintf(f, "{\"traceEvents\": [], \"mtprofMemory\": [%s, [ 1.5 ,2,0, -1, 0, 4]]}", rows[i]);
        fclose(f);
        mtp_trace *t;
        assert_ok(mtp_trace_open(test_path("rows.json"), NULL, &t));
        assert_int_equal(t->tag_count, 1);
        assert_int_equal(t->tags[0].ts, 1500);
        assert_int_equal(t->tags[0].bytes, 4);
        mtp_trace_destroy(t);
    }
}

static void a_trace_may_have_nothing_but_what_was_there_before(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    made_op(t, made_thread(t, 7), 5000, 9000, "aten::add_");
    made_existing(t, 6000, 0x10, 40, MTP_MEMORY_PARAMETER);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_string_equal(mtp_memory_timeline_device(m, 0), "cpu");
    assert_int_equal(info_of(m).peak_bytes, 40);
    assert_int_equal(info_of(m).peak_ns, 5000);
    assert_writes(m, mtp_memory_timeline_raw, "[[-1, 1, 40, 0]]");
    assert_writes(m, mtp_memory_timeline_json, "[[5], [[0, 40, 0, 0, 0, 0, 0, 0, 0]]]");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void a_block_in_the_place_of_another_is_known_from_when_it_was_told(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_memory(t, main, 1000, 0x10, 100);
    made_existing(t, 2000, 0x10, 100, MTP_MEMORY_INPUT); /* the same block, met in another cycle */
    made_existing(t, 3000, 0x10, 8,
                  MTP_MEMORY_PARAMETER); /* its free and this one's making were not recorded */
    made_memory(t, main, 4000, 0x10, -8);
    made_existing(t, 5000, 0x10, 9, MTP_MEMORY_PARAMETER);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_int_equal(info.preexisting_bytes, 0);
    assert_int_equal(info.lost_events, 2);
    assert_int_equal(info.end_bytes, 9);
    assert_writes(
        m, mtp_memory_timeline_raw,
        "[[1000, 2, 100, 2], [3000, 4, -100, 2], [3000, 2, 8, 0], [4000, 4, -8, 0], [5000, 2, 9, 0]]");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void the_peak_may_be_before_the_first_event(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    made_memory(t, made_thread(t, 1), 1000, 0x10, -64);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_int_equal(info_of(m).peak_bytes, 64);
    assert_int_equal(info_of(m).peak_ns, 1000);
    assert_int_equal(info_of(m).peak_blocks, 1);
    assert_int_equal(mtp_memory_timeline_block(m, 0)->freed_ns, 1000);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void events_that_were_lost_are_counted_and_bytes_stay_right(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_memory(t, main, 10, 0x10, 100);
    made_memory(t, main, 20, 0x10, 30); /* no free was seen */
    made_memory(t, main, 30, 0x10, -30);
    made_memory_of(t, main, 40, 0x10, -55, 7, 0, -1); /* no allocation was seen */
    made_memory_of(t, main, 50, 0x20, 1, 8, 0, -1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_info info = info_of(m);
    assert_int_equal(info.lost_events, 2);
    assert_int_equal(info.peak_bytes, 100);
    assert_int_equal(info.end_bytes, 1);
    assert_int_equal(info.unaccounted_bytes, 7);
    assert_int_equal(info.preexisting_bytes, 0);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* A free is of what was allocated, whatever size it names; nothing is done for zero bytes. */
static void odd_sizes_do_no_harm(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX - 1};
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = INT64_MAX - 5;
    for (size_t i = 0; i < 400; i++)
        made_memory_of(t, main, (int64_t)(i % 50 == 0 ? (uint64_t)INT64_MAX - i : i), i % 13,
                       sizes[test_below(COUNT(sizes))], sizes[test_below(COUNT(sizes))], 0, -1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    writer *all[] = {mtp_memory_timeline_json, mtp_memory_timeline_raw, summary};
    for (size_t i = 0; i < COUNT(all); i++) {
        collected c = {0};
        assert_ok(all[i](m, collect, &c));
        collected_free(&c);
    }
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------- devices */

static void devices_are_chosen_by_name_or_by_traffic(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    made_memory_of(t, main, 1, 0x10, 10, -1, 0, -1);
    made_memory_of(t, main, 2, 0x10, 1000, -1, 20, 0); /* the same address elsewhere */
    made_memory_of(t, main, 3, 0x10, 20, -1, 20, 1);
    made_memory_of(t, main, 4, 0x10, -10, -1, 0, 0);
    made_memory_of(t, main, 5, 0x10, 3, -1, 77, 2);
    made_end(t);
    static const struct {
        const char *asked, *name;
        int64_t peak;
    } cases[] = {{NULL, "npu:0", 1000},  {"cpu", "cpu", 10},
                 {"CPU:0", "cpu", 10},   {"npu", "npu:0", 1000},
                 {"npu:1", "npu:1", 20}, {"cuda:1", "npu:1", 20},
                 {"GPU", "npu:0", 1000}, {"privateuseone:0", "npu:0", 1000},
                 {"npu:9", "npu:9", 0},  {"xpu:0", "xpu:0", 0}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        mtp_memory_timeline *m = timeline_of(t, cases[i].asked);
        assert_string_equal(info_of(m).device, cases[i].name);
        assert_int_equal(info_of(m).peak_bytes, cases[i].peak);
        mtp_memory_timeline_destroy(m);
    }
    mtp_memory_timeline *m = timeline_of(t, NULL);
    static const char *const names[] = {"cpu", "npu:0", "npu:1", "device77:2"};
    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(mtp_memory_timeline_device(m, i), names[i]);
    assert_null(mtp_memory_timeline_device(m, COUNT(names)));
    mtp_memory_timeline_destroy(m);
    static const char *const wrong[] = {"",       "tpu:0",     "npu:", "npu:x", "npu:0x",
                                        "npu:-1", "npu:99999", "cp",   "cpu0"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(mtp_memory_timeline_create(t, wrong[i], &m), MTP_E_ARG);
        assert_null(m);
        assert_says("use cpu, npu:0, cuda:0");
    }
    mtp_trace_destroy(t);
}

static void more_devices_than_can_be_named_are_still_read(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    for (int16_t i = 0; i < 200; i++)
        made_memory_of(t, main, i, 0x10, 1 + i, -1, 20, i);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, "npu:150");
    assert_int_equal(info_of(m).peak_bytes, 151);
    assert_non_null(mtp_memory_timeline_device(m, MTP__DEVICES_MAX - 1));
    assert_null(mtp_memory_timeline_device(m, MTP__DEVICES_MAX));
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------------------- forms */

/* torch divides as doubles and then cuts: from 875 ns on it is the next microsecond, at today's times. */
static void times_become_microseconds_as_torch_does_it(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1794738710868278000;
    static const int64_t ns[] = {0, 500, 874, 875, 1100, 1999, 2000};
    for (size_t i = 0; i < COUNT(ns); i++)
        made_memory(t, main, ns[i], 0x10 + i, 1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_writes(m, mtp_memory_timeline_json,
                  "[[1794738710868278, 1794738710868279, 1794738710868280], [[0, 0, 0, 0, 0, 0, 0, 0, 3], "
                  "[0, 0, 0, 0, 0, 0, 0, 0, 5], [0, 0, 0, 0, 0, 0, 0, 0, 7]]]");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void a_real_training_is_told_as_torch_tells_it(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp_trace_open(GOLDEN "train.json.gz", NULL, &t));
    mtp_memory_timeline *m = timeline_of(t, "cpu");
    char ours[256], raw[256], command[1024];
    snprintf(ours, sizeof ours, "%s", test_path("ours.json.gz"));
    snprintf(raw, sizeof raw, "%s", test_path("ours.raw.json.gz"));
    assert_ok(mtp_memory_timeline_export(m, ours));
    assert_ok(mtp_memory_timeline_export(m, raw));
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
    snprintf(command, sizeof command,
             "check_memory.py timeline %s %s " GOLDEN "train.timeline.json.gz " GOLDEN "train.raw.json.gz",
             ours, raw);
    if (!made_judge(command))
        skip();
}

static void hostile_names_stay_json(void **state)
{
    (void)state;
    static const char *const names[] = {"\"]}, {\"x\": \"",           "back\\slash\\",
                                        "new\nline\ttab\x01\x1f\x7f", "\xff\xfe\xc0\x80",
                                        "\xed\xa0\x80 half",          "\xe2\x80\xa8\xe2\x80\xa9",
                                        "\xf0\x9f\x98\x80 fine",      "</script>"};
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    for (size_t i = 0; i < COUNT(names); i++) {
        made_op(t, main, (int64_t)i * 10, (int64_t)i * 10 + 9, names[i]);
        made_memory(t, main, (int64_t)i * 10 + 5, 0x10 + i, 1000 - (int64_t)i);
    }
    mtp__trace_add_span(t, main, 1000, 1009, mtp__trace_text(t, "a\0b", 3), MTP__CATEGORY_CPU_OP, 0, 0);
    made_memory(t, main, 1005, 0x90, 1);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    collected c = {0};
    assert_ok(summary(m, collect, &c));
    assert_contains(c.bytes, "\"a\\u0000b\"");
    char path[256], command[512];
    snprintf(path, sizeof path, "%s", test_path("summary.json"));
    test_spew(path, c.bytes, c.length);
    collected_free(&c);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
    snprintf(command, sizeof command, "check_memory.py json %s", path);
    if (!made_judge(command))
        skip();
}

static void a_summary_has_no_more_blocks_than_asked_for(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    collected c = {0};
    assert_ok(mtp_memory_timeline_summary(m, 1, collect, &c));
    assert_contains(c.bytes, "\"block_count\": 2, \"blocks\": [\n   {\"address\": 16");
    assert_null(strstr(c.bytes, "\"address\": 32"));
    collected_free(&c);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void the_form_of_a_file_is_told_by_its_name(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    size_t n;
    assert_ok(mtp_memory_timeline_export(m, test_path("a.json")));
    char *text = test_slurp(test_path("a.json"), &n);
    assert_memory_equal(text, "[[1700000000000003, ", 20);
    free(text);
    assert_ok(mtp_memory_timeline_export(m, test_path("a.raw.json.gz")));
    text = test_slurp(test_path("a.raw.json.gz"), &n);
    assert_memory_equal(text, "\x1f\x8b", 2);
    free(text);
    assert_int_equal(mtp_memory_timeline_export(m, test_path("a.html")), MTP_E_ARG);
    assert_says("must end in .json");
    assert_int_equal(mtp_memory_timeline_export(m, "/nowhere/at/all.json"), MTP_E_IO);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------------------- limits */

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    mtp_memory_timeline *none = m;
    assert_int_equal(mtp_memory_timeline_create(NULL, NULL, &none), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_create(t, NULL, NULL), MTP_E_ARG);
    mtp_memory_info info = MTP_MEMORY_INFO_INIT;
    assert_int_equal(mtp_memory_timeline_info(NULL, &info), MTP_E_ARG);
    info.size = 8;
    assert_int_equal(mtp_memory_timeline_info(m, &info), MTP_E_ABI);
    assert_int_equal(mtp_memory_timeline_json(NULL, collect, NULL), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_raw(NULL, collect, NULL), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_summary(NULL, 0, collect, NULL), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_json(m, NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_memory_timeline_export(m, NULL), MTP_E_ARG);
    mtp_memory_timeline_points(NULL, add_point, NULL);
    mtp_memory_timeline_points(m, NULL, NULL);
    mtp_memory_timeline_destroy(NULL);
    assert_string_equal(mtp_memory_category_text((mtp_memory_category)99), "Unknown");
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void a_sink_that_says_no_ends_it(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    writer *all[] = {mtp_memory_timeline_json, mtp_memory_timeline_raw, summary};
    for (size_t i = 0; i < COUNT(all); i++) {
        collected c = {.refuse_after = 1};
        assert_int_equal(all[i](m, collect, &c), MTP_E_IO);
        assert_null(c.bytes);
    }
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_trace *t = training();
    long live = mtp__alloc_live();
    int failures = 0;
    for (int nth = 1;; nth++) {
        mtp_memory_timeline *m;
        collected c = {0};
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, nth % 2 == 0);
        mtp_status status = mtp_memory_timeline_create(t, NULL, &m);
        mtp_status written = status == MTP_OK ? summary(m, collect, &c) : status;
        if (mtp__fault_stop() == 0)
            nth = -1;
        assert_true(nth == -1 ? written == MTP_OK : written == MTP_E_NOMEM);
        assert_true(status == MTP_OK || m == NULL);
        failures += written != MTP_OK;
        mtp_memory_timeline_destroy(m);
        collected_free(&c);
        assert_int_equal(mtp__alloc_live(), live);
        if (nth == -1)
            break;
    }
    assert_true(failures >= 10);
    mtp_trace_destroy(t);
}

/* Depth costs nothing: each event is placed in the walk. */
static void deep_programs_are_as_cheap_as_flat_ones(void **state)
{
    (void)state;
    int64_t depth = test_scaled(100000);
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    for (int64_t i = 0; i < depth; i++)
        made_op(t, main, i, 10 * depth - i, "aten::deep");
    for (int64_t i = 0; i < depth; i++)
        made_memory(t, main, 2 * depth + i, 0x1000 + (uint64_t)i, 16);
    made_end(t);
    mtp_memory_timeline *m = timeline_of(t, NULL);
    assert_int_equal(info_of(m).peak_blocks, depth);
    mtp_memory_timeline_destroy(m);
    mtp_trace_destroy(t);
}

static bool stop_at_two(void *user, const mtp_memory_point *point)
{
    (void)point;
    return ++*(int *)user < 2;
}

static void a_visit_ends_when_told(void **state)
{
    (void)state;
    mtp_trace *t = small_program();
    mtp_memory_timeline *m = timeline_of(t, NULL);
    int visits = 0;
    mtp_memory_timeline_points(m, stop_at_two, &visits);
    assert_int_equal(visits, 2);
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
        TEST(what_was_there_before_is_known_from_frees_and_totals),
        TEST(what_was_there_before_has_the_category_that_was_told),
        TEST(what_is_told_of_blocks_is_kept_in_a_file),
        TEST(rows_of_a_file_that_are_none_are_left_out),
        TEST(a_trace_may_have_nothing_but_what_was_there_before),
        TEST(a_block_in_the_place_of_another_is_known_from_when_it_was_told),
        TEST(the_peak_may_be_before_the_first_event),
        TEST(events_that_were_lost_are_counted_and_bytes_stay_right),
        TEST(odd_sizes_do_no_harm),
        TEST(devices_are_chosen_by_name_or_by_traffic),
        TEST(more_devices_than_can_be_named_are_still_read),
        TEST(times_become_microseconds_as_torch_does_it),
        TEST(a_real_training_is_told_as_torch_tells_it),
        TEST(hostile_names_stay_json),
        TEST(a_summary_has_no_more_blocks_than_asked_for),
        TEST(the_form_of_a_file_is_told_by_its_name),
        TEST(wrong_calls_are_refused),
        TEST(a_sink_that_says_no_ends_it),
        TEST(every_allocation_may_fail),
        TEST(deep_programs_are_as_cheap_as_flat_ones),
        TEST(a_visit_ends_when_told),
        TEST(a_recorded_program_has_its_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
