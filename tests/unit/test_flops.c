/* Unit: analyze/flops. The expected numbers are torch 2.13's, from with_flops. */
#include "tests/made_trace.h"
#include "analyze/flops.h"

static uint32_t shape(mtp_trace *t, const char *dims, const char *types, const char *concrete)
{
    mtp__shape s = {made_text(t, dims), 0, types != NULL ? made_text(t, types) : 0,
                    concrete != NULL ? made_text(t, concrete) : 0};
    return mtp__trace_add_shape(t, &s);
}

static void flops_are_torchs_formula_by_formula(void **state)
{
    (void)state;
    static const struct {
        const char *op, *dims, *types, *concrete;
        uint64_t flops;
    } call[] = {
        {"aten::mm", "[[4, 5], [5, 6]]", "[\"float\", \"float\"]", NULL, 240},
        {"aten::mm", "[[4, 0], [0, 3]]", "[\"float\", \"float\"]", NULL, 0},
        {"aten::addmm", "[[6], [4, 5], [5, 6], [], []]",
         "[\"float\", \"float\", \"float\", \"Scalar\", \"Scalar\"]", NULL, 240},
        {"aten::addmm", "[[], [4, 5], [5, 6], [], []]",
         "[\"\", \"float\", \"float\", \"Scalar\", \"Scalar\"]", NULL, 0},
        {"aten::bmm", "[[3, 4, 5], [3, 5, 6]]", "[\"float\", \"float\"]", NULL, 720},
        {"aten::bmm", "[[0, 4, 5], [0, 5, 6]]", "[\"float\", \"float\"]", NULL, 0},
        {"aten::baddbmm", "[[3, 4, 6], [3, 4, 5], [3, 5, 6], [], []]",
         "[\"float\", \"float\", \"float\", \"Scalar\", \"Scalar\"]", NULL, 720},
        {"aten::mul", "[[4, 5], []]", "[\"float\", \"double\"]", NULL, 20},
        {"aten::mul", "[[], []]", "[\"float\", \"float\"]", NULL,
         1}, /* a tensor without dimensions has one element */
        {"aten::add", "[[2, 1, 1, 1, 1, 1, 1, 1, 1, 3], [], []]", "[\"float\", \"Scalar\", \"Scalar\"]", NULL,
         6},
        {"aten::add", "[[], [4, 5]]", "[\"Scalar\", \"float\"]", NULL, 0},
        {"aten::conv2d", "[[2, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], []]",
         "[\"float\", \"float\", \"\", \"ScalarList\", \"ScalarList\", \"ScalarList\", \"Scalar\"]",
         "[\"\", \"\", \"\", \"[2, 2]\", \"[1, 1]\", \"[1, 1]\", \"1\"]", 6912},
        {"aten::conv2d", "[[2, 4, 8, 8], [4, 2, 3, 3], [], [], [], [], []]",
         "[\"float\", \"float\", \"\", \"ScalarList\", \"ScalarList\", \"ScalarList\", \"Scalar\"]",
         "[\"\", \"\", \"\", \"[1, 1]\", \"[0, 0]\", \"[2, 2]\", \"2\"]", 4608},
        {"aten::conv2d", "[[2, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], []]",
         "[\"float\", \"float\", \"\", \"ScalarList\", \"\", \"ScalarList\", \"Scalar\"]",
         "[\"\", \"\", \"\", \"[1, 1]\", \"\", \"[1, 1]\", \"1\"]", 0}, /* padding "same" */
        {"aten::conv2d", "[[3, 8, 8], [4, 3, 3, 3], [], [], [], [], []]",
         "[\"float\", \"float\", \"\", \"ScalarList\", \"ScalarList\", \"ScalarList\", \"Scalar\"]",
         "[\"\", \"\", \"\", \"[1, 1]\", \"[0, 0]\", \"[1, 1]\", \"1\"]", 0},
        {"aten::mv", "[[5, 6], [6]]", "[\"float\", \"float\"]", NULL, 0}, /* ours, not torch's */
        {"aten::gelu", "[[5, 6]]", "[\"float\"]", NULL, 0},
    };
    mtp_trace *t = made_begin();
    for (unsigned i = 0; i < COUNT(call); i++)
        assert_int_equal(shape(t, call[i].dims, call[i].types, call[i].concrete), i + 1);
    made_end(t);
    for (unsigned i = 0; i < COUNT(call); i++)
        if (mtp__flops_torch(t, call[i].op, i + 1) != call[i].flops)
            fail_msg("%s %s: %llu, not %llu", call[i].op, call[i].dims,
                     (unsigned long long)mtp__flops_torch(t, call[i].op, i + 1),
                     (unsigned long long)call[i].flops);
    assert_int_equal(mtp__flops_torch(t, "aten::mm", 0), 0);
    assert_true(mtp__flops_in_torch("aten::bmm"));
    assert_false(mtp__flops_in_torch("aten::mv") || mtp__flops_in_torch("mm"));
    mtp_trace_destroy(t);
}

static void we_know_more_flops_than_torch_and_say_so(void **state)
{
    (void)state;
    static const struct {
        const char *op, *dims, *concrete;
        uint64_t flops;
    } call[] = {
        {"aten::mv", "[[5, 6], [6]]", NULL, 60},
        {"aten::_softmax", "[[5, 6], [], []]", NULL, 150},
        {"aten::convolution", "[[2, 3, 8], [4, 3, 3], [4], [], [], []]",
         "[\"\", \"\", \"\", \"[1]\", \"[0]\", \"[1]\"]", 2 * 2 * 36 * 6},
        {"aten::convolution_backward", "[[2, 4, 6], [2, 3, 8], [4, 3, 3]]", NULL, 4 * 48 * 9},
        {"aten::_scaled_dot_product_flash_attention_for_cpu", "[[1, 2, 4, 8], [1, 2, 6, 8], [1, 2, 6, 8]]",
         NULL, 4 * 64 * 6},
        {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
         "[[1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 6, 8], [1, 2, 6, 8]]", NULL, 10 * 64 * 6},
    };
    mtp_trace *t = made_begin();
    for (unsigned i = 0; i < COUNT(call); i++)
        shape(t, call[i].dims, NULL, call[i].concrete);
    made_end(t);
    uint64_t flops;
    for (unsigned i = 0; i < COUNT(call); i++) {
        assert_true(mtp__flops_known(t, call[i].op, i + 1, &flops));
        assert_int_equal(flops, call[i].flops);
    }
    assert_true(mtp__flops_known(t, "aten::view", 0, &flops)); /* known to be nothing */
    assert_false(mtp__flops_known(t, "aten::mm", 0, &flops));  /* no shapes */
    assert_false(mtp__flops_known(t, "my::op", 1, &flops));
    mtp_trace_destroy(t);
}

/* Whatever the file says there: no crash, and no made-up number. */
static void shapes_that_make_no_sense_have_no_flops(void **state)
{
    (void)state;
    static const char *const dims[] = {"",
                                       "[",
                                       "]]]]",
                                       "[[",
                                       "[[[[[[1]]]]]]",
                                       "[[-1, 2], [2, 3]]",
                                       "[[1e9, 2]]",
                                       "[[99999999999999999999, 2], [2, 2]]",
                                       "nonsense",
                                       "[1, 2]",
                                       "[[],[],[]]"};
    static const char *const other[] = {"", "[", "[\"", "[\"a\\", "[\"[1, x]\", \"\"]", "{}"};
    mtp_trace *t = made_begin();
    for (unsigned i = 0; i < COUNT(dims); i++)
        for (unsigned k = 0; k < COUNT(other); k++)
            shape(t, dims[i], k % 2 ? other[k] : NULL, other[k]);
    made_end(t);
    static const char *const op[] = {"aten::mm",
                                     "aten::addmm",
                                     "aten::bmm",
                                     "aten::baddbmm",
                                     "aten::conv2d",
                                     "aten::mul",
                                     "aten::mv",
                                     "aten::gelu",
                                     "aten::convolution",
                                     "aten::convolution_backward",
                                     "aten::_flash_attention_backward",
                                     "aten::"};
    uint64_t flops;
    for (uint32_t s = 0; s < t->shape_count + 2; s++)
        for (unsigned i = 0; i < COUNT(op); i++) {
            mtp__flops_torch(t, op[i], s);
            mtp__flops_known(t, op[i], s, &flops);
        }
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(flops_are_torchs_formula_by_formula),
        TEST(we_know_more_flops_than_torch_and_say_so),
        TEST(shapes_that_make_no_sense_have_no_flops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
