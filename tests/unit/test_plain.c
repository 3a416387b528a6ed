/* tests/unit/test_plain.c - base/plain.h under various locales; the traces and tables of a program that sets
 * one. */
#define _GNU_SOURCE
#include <locale.h>
#include <math.h>
#include <mtprof_trace.h>
#include "base/error.h"
#include "base/out.h"
#include "base/plain.h"
#include "tests/test.h"

static const char *const locales[] = {"C", "de_DE.UTF-8", "tr_TR.UTF-8", "tr_TR.ISO-8859-9", "ps_AF.UTF-8"};

/* Runs `check` in each locale. If none can be built, the test is skipped; in CI it fails. */
static void in_each_locale(void (*check)(void))
{
    check();
    for (size_t i = 0; i < COUNT(locales); i++) {
        if (setlocale(LC_ALL, locales[i]) == NULL) {
            fprintf(stderr, "# locale %s is not here: tools/make_locales says why\n", locales[i]);
            if (getenv("CI") != NULL && *getenv("CI") != 0)
                fail_msg("locale %s is not here", locales[i]);
            skip();
        }
        check();
        assert_string_equal(setlocale(LC_ALL, NULL), locales[i]);
    }
    setlocale(LC_ALL, "C");
}

static void check_numbers(void)
{
    char text[MTP__DOUBLE_BYTES], *end;
    assert_int_equal(mtp__format(text, sizeof text, "%.2f|%g|%d", 1.5, 1e-7, 1234567), 18);
    assert_string_equal(text, "1.50|1e-07|1234567");
    assert_true(mtp__read_double("2.75,", &end) == 2.75 && strcmp(end, ",") == 0);
    assert_true(mtp__read_double("1e3", NULL) == 1000 && mtp__read_double("1,5", &end) == 1 && *end == ',');
    static const double odd[] = {0.1, -2.5, 1e300, 5e-324, 1.0 / 3, 3, -0.0, 1.7976931348623157e308};
    for (size_t i = 0; i < COUNT(odd); i++) {
        size_t length = mtp__shortest(text, odd[i], 1);
        assert_int_equal(length, strlen(text));
        assert_true(mtp__read_double(text, &end) == odd[i] && *end == 0);
        assert_null(strchr(text, ','));
    }
    assert_true(mtp__shortest(text, 0.1, 1) == 3 && strcmp(text, "0.1") == 0);
    assert_true(mtp__shortest(text, NAN, 1) <= 4 && strstr(text, "nan") != NULL);
}

static void numbers_are_the_same_in_every_locale(void **state)
{
    (void)state;
    in_each_locale(check_numbers);
}

static void check_letters(void)
{
    assert_true(mtp__same_letters("HIP", "hip", 3) && mtp__same_letters("Intel", "INTEL", SIZE_MAX));
    assert_false(mtp__same_letters("hi", "hip", SIZE_MAX));
    assert_false(mtp__same_letters("\xc7", "\xe7", 1)); /* one letter to ISO-8859-9 */
    assert_true(mtp__has_letters("Portable Computing Language: INTEL", "intel"));
    assert_false(mtp__has_letters("abc", "bcd"));
    assert_true(mtp__has_letters("abc", "") && mtp__has_letters("abc", "C"));
    for (int c = 128; c < 256; c++)
        assert_false(mtp__is_word((char)c));
    assert_true(mtp__is_word('_') && mtp__is_word('I') && mtp__is_word('9') && !mtp__is_word('-'));
    uint32_t activity = 0;
    assert_int_equal(mtp_activity_parse("Cuda", &activity), MTP_OK);
}

static void letters_are_the_same_in_every_locale(void **state)
{
    (void)state;
    in_each_locale(check_letters);
}

static void check_story(void)
{
    assert_int_equal(MTP_FAIL(MTP_E_ARG, "%.2f is not %g", 0.25, 1.5), MTP_E_ARG);
    assert_non_null(strstr(mtp_last_error(), "0.25 is not 1.5"));
}

static void errors_are_the_same_in_every_locale(void **state)
{
    (void)state;
    in_each_locale(check_story);
}

static bool keep(void *user, const void *bytes, size_t length)
{
    char *text = user;
    size_t used = strlen(text);
    assert_true(used + length < 65536);
    memcpy(text + used, bytes, length);
    text[used + length] = 0;
    return true;
}

/* An op with numbers among its arguments, and a counter: every kind of double in a trace. */
static void check_trace(void)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.record_shapes = true;
    mtp_profile *prof = NULL;
    mtp_trace *trace = NULL;
    assert_int_equal(mtp_profile_create(&config, &prof), MTP_OK);
    assert_int_equal(mtp_profile_start(prof), MTP_OK);
    mtp_input args[] = {{.kind = MTP_INPUT_FLOAT, .value.f = 1.5},
                        {.kind = MTP_INPUT_FLOAT, .value.f = 1e-7}};
    mtp_op op = MTP_OP_INIT(MTP_NAME("aten::lerp"));
    op.inputs = args, op.input_count = 2;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    assert_int_equal(mtp_profile_stop(prof), MTP_OK);
    assert_int_equal(mtp_profile_trace(prof, &trace), MTP_OK);
    static char text[65536];
    text[0] = 0;
    assert_int_equal(mtp_trace_chrome(trace, NULL, keep, text), MTP_OK);
    assert_non_null(strstr(text, "\"1.5\""));
    assert_non_null(strstr(text, "\"1e-07\""));
    mtp_trace_destroy(trace);
    mtp_profile_destroy(prof);
}

static void traces_are_the_same_in_every_locale(void **state)
{
    (void)state;
    in_each_locale(check_trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_are_the_same_in_every_locale),
        TEST(letters_are_the_same_in_every_locale),
        TEST(errors_are_the_same_in_every_locale),
        TEST(traces_are_the_same_in_every_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
