/* Unit: base/out and base/json_out: every number as printf writes it, every byte sequence as strict JSON. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include "base/json_check.h"
#include "base/json_out.h"
#include "base/out.h"
#include "base/plain.h"

typedef struct bin { /* a sink that keeps its input */
    char *bytes;
    size_t length, room;
    size_t calls, refuse_at; /* refuse_at: the call that is refused, 0: none */
} bin;

static bool bin_sink(void *user, const void *bytes, size_t length)
{
    bin *b = user;
    if (++b->calls == b->refuse_at)
        return false;
    if (b->length + length + 1 > b->room) {
        b->room = (b->length + length + 1) * 2;
        b->bytes = realloc(b->bytes, b->room);
    }
    memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
    b->bytes[b->length] = 0;
    return true;
}

/* The output of `write`; the caller frees it. */
#define WRITTEN(text, body)                                                                                  \
    do {                                                                                                     \
        bin b_ = {0};                                                                                        \
        mtp__out o;                                                                                          \
        assert_ok(mtp__out_init(&o, bin_sink, &b_));                                                         \
        body;                                                                                                \
        assert_ok(mtp__out_finish(&o));                                                                      \
        (text) = b_.bytes != NULL ? b_.bytes : strdup("");                                                   \
    } while (0)

/* ------------------------------------------------------------------------------------------- numbers */

static void check_u64(uint64_t value)
{
    char ours[64], theirs[64];
    *mtp__put_u64(ours, value) = 0;
    snprintf(theirs, sizeof theirs, "%llu", (unsigned long long)value);
    assert_string_equal(ours, theirs);
    *mtp__put_i64(ours, (int64_t)value) = 0;
    snprintf(theirs, sizeof theirs, "%lld", (long long)value);
    assert_string_equal(ours, theirs);
    *mtp__put_milli(ours, value) = 0;
    snprintf(theirs, sizeof theirs, "%llu.%03u", (unsigned long long)(value / 1000),
             (unsigned)(value % 1000));
    assert_string_equal(ours, theirs);
}

static void integers_are_as_printf_writes_them(void **state)
{
    (void)state;
    for (uint64_t v = 0; v < 20000; v++)
        check_u64(v);
    for (uint64_t power = 1, n = 0; n < 20; n++, power *= 10)
        for (int64_t off = -3; off <= 3; off++)
            check_u64(power + (uint64_t)off);
    for (unsigned bit = 0; bit < 64; bit++)
        for (int64_t off = -2; off <= 2; off++)
            check_u64(((uint64_t)1 << bit) + (uint64_t)off);
    check_u64(UINT64_MAX);
    for (int i = 0; i < 200000; i++)
        check_u64(test_random() >> test_below(64));
}

static void check_double(double value)
{
    char *text;
    size_t at;
    WRITTEN(text, mtp__out_double(&o, value));
    assert_true(mtp__json_check(text, strlen(text), &at));
    if (mtp__read_double(text, NULL) != value)
        fail_msg("%s is not %.17g", text, value);
    free(text);
}

static void doubles_read_back_as_they_were(void **state)
{
    (void)state;
    const double some[] = {
        0,     -0.0,    1,        -1,     0.1,     0.29,    1.5,     1e-6,  1e-7,  123456.789,
        1e15,  1e16,    1e300,    5e-324, DBL_MAX, DBL_MIN, 1.0 / 3, 2.5e9, -1e-9, 9007199254740993.0,
        12.25, 99.9999, 1e9 + 0.5};
    for (size_t i = 0; i < COUNT(some); i++)
        check_double(some[i]);
    for (int i = 0; i < test_scaled(50000); i++) {
        union {
            uint64_t bits;
            double value;
        } u = {test_random()};
        if (isfinite(u.value))
            check_double(u.value);
        check_double((double)(int64_t)test_random() / 1e6);
    }
    char *text;
    WRITTEN(text, (mtp__out_double(&o, NAN), mtp__out_double(&o, INFINITY), mtp__out_double(&o, -INFINITY)));
    assert_string_equal(text, "nullnullnull");
    free(text);
    WRITTEN(text, (mtp__out_double(&o, 1.5), MTP__OUT(&o, " "), mtp__out_double(&o, -3), MTP__OUT(&o, " "),
                   mtp__out_double(&o, 0.1)));
    assert_string_equal(text, "1.5 -3 0.1");
    free(text);
}

static void a_comma_for_a_decimal_point_does_not_reach_the_file(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF.UTF-8", "de_DE", "C.UTF-8"};
    for (size_t i = 0; i < COUNT(locales); i++) {
        if (setlocale(LC_NUMERIC, locales[i]) == NULL)
            continue;
        char *text;
        WRITTEN(text, mtp__out_double(&o, 1.0 / 3));
        setlocale(LC_NUMERIC, "C");
        assert_string_equal(text, "0.3333333333333333");
        free(text);
    }
    setlocale(LC_NUMERIC, "C");
}

/* ----------------------------------------------------------------------------------------- the buffer */

static void any_length_comes_out_whole(void **state)
{
    (void)state;
    static char data[700000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)('a' + i % 23);
    for (size_t step = 1; step < sizeof data; step = step * 7 + 13) {
        char *text;
        WRITTEN(text, {
            for (size_t at = 0; at < sizeof data; at += step)
                mtp__out_bytes(&o, data + at, sizeof data - at < step ? sizeof data - at : step);
            assert_int_equal(mtp__out_count(&o), sizeof data);
        });
        assert_memory_equal(text, data, sizeof data);
        free(text);
    }
}

static void a_sink_that_refuses_is_asked_no_more(void **state)
{
    (void)state;
    bin b = {.refuse_at = 2};
    mtp__out o;
    assert_ok(mtp__out_init(&o, bin_sink, &b));
    for (int i = 0; i < 1000000; i++)
        mtp__out_u64(&o, (uint64_t)i);
    assert_true(o.failed);
    assert_int_equal(mtp__out_finish(&o), MTP_E_IO);
    assert_int_equal(b.calls, 2);
    assert_says("writing the output failed");
    free(b.bytes);
}

static void a_writer_needs_a_sink_and_a_buffer(void **state)
{
    (void)state;
    mtp__out o;
    long live = mtp__alloc_live();
    assert_int_equal(mtp__out_init(&o, NULL, NULL), MTP_E_ARG);
    assert_ok(mtp__out_finish(&o));
    mtp__fault_plan(1u << MTP__FAULT_ALLOC, 1, false);
    assert_int_equal(mtp__out_init(&o, bin_sink, NULL), MTP_E_NOMEM);
    assert_int_equal(mtp__fault_stop(), 1);
    assert_ok(mtp__out_finish(&o));
    assert_int_equal(mtp__alloc_live(), live);
}

/* -------------------------------------------------------------------------------------------- strings */

static void check_string(const char *from, size_t length, const char *want)
{
    char *text;
    WRITTEN(text, mtp__out_string(&o, from, length));
    assert_string_equal(text, want);
    free(text);
}
#define STRING(from, want) check_string(from, sizeof(from) - 1, want)

static void what_json_has_escapes_for_is_escaped(void **state)
{
    (void)state;
    STRING("", "\"\"");
    STRING("aten::mm", "\"aten::mm\"");
    STRING("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    STRING("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
    STRING("\0x\x1b[31m\x7f", "\"\\u0000x\\u001b[31m\\u007f\"");
    STRING("</script>%s../\xc2\x9b", "\"</script>%s../\\u009b\"");
    STRING("\xe2\x80\xa8|\xe2\x80\xa9|\xe2\x80\xa7", "\"\\u2028|\\u2029|\xe2\x80\xa7\"");
    STRING("\xc3\xa4 \xe4\xb8\xad \xf0\x9f\x98\x80 \xc2\xa0",
           "\"\xc3\xa4 \xe4\xb8\xad \xf0\x9f\x98\x80 \xc2\xa0\"");
}

#define R "\xef\xbf\xbd"
static void what_is_not_utf8_becomes_the_replacement_character(void **state)
{
    (void)state;
    STRING("\x80", "\"" R "\"");
    STRING("\xff\xfe", "\"" R R "\"");
    STRING("\xc0\xaf", "\"" R R "\"");       /* overlong */
    STRING("\xe0\x80\xaf", "\"" R R R "\""); /* overlong */
    STRING("\xed\xa0\x80", "\"" R R R "\""); /* half a surrogate pair */
    STRING("\xf4\x90\x80\x80", "\"" R R R R "\"");
    STRING("\xe4\xb8", "\"" R "\""); /* truncated: one for the bytes present */
    STRING("\xe4\xb8x", "\"" R "x\"");
    STRING("\xf0\x9f\x98", "\"" R "\"");
    STRING("\xf0\x9f\x98\"", "\"" R "\\\"\"");
    STRING("ok\xc3", "\"ok" R "\"");
}

/* At once or in pieces, for any bytes: the same result, and strict JSON. */
static void any_bytes_give_strict_json(void **state)
{
    (void)state;
    static char from[5000], at_once[MTP__JSON_PUT_ROOM(sizeof from) + 2];
    static const char palette[] = "\"\\\x01 \x1f\x7f\x80\xa8\xe2\xc2\xed\xf0\xf4\xff{}";
    for (int i = 0; i < test_scaled(4000); i++) {
        size_t length = test_below(i % 16 == 0 ? sizeof from : 80);
        unsigned kind = (unsigned)test_below(4);
        for (size_t k = 0; k < length; k++)
            from[k] = kind == 0   ? (char)test_below(256)
                      : kind == 1 ? palette[test_below(sizeof palette - 1)]
                      : kind == 2 ? (char)('a' + test_below(26))
                                  : (test_below(40) == 0 ? (char)test_below(256) : 'x');
        at_once[0] = '"';
        char *end = mtp__json_put(at_once + 1, from, length);
        *end++ = '"';
        size_t wrong;
        assert_true(mtp__json_check(at_once, (size_t)(end - at_once), &wrong));
        char *text;
        WRITTEN(text, mtp__out_string(&o, from, length));
        assert_int_equal(strlen(text), end - at_once);
        assert_memory_equal(text, at_once, (size_t)(end - at_once));
        free(text);
    }
}

static void a_name_of_a_megabyte_is_written(void **state)
{
    (void)state;
    size_t length = (size_t)1 << 20;
    char *from = malloc(length), *text;
    memset(from, '\x01', length);
    WRITTEN(text, mtp__out_string(&o, from, length));
    assert_int_equal(strlen(text), length * 6 + 2);
    size_t wrong;
    assert_true(mtp__json_check(text, strlen(text), &wrong));
    free(text);
    free(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(integers_are_as_printf_writes_them),
        TEST(doubles_read_back_as_they_were),
        TEST(a_comma_for_a_decimal_point_does_not_reach_the_file),
        TEST(any_length_comes_out_whole),
        TEST(a_sink_that_refuses_is_asked_no_more),
        TEST(a_writer_needs_a_sink_and_a_buffer),
        TEST(what_json_has_escapes_for_is_escaped),
        TEST(what_is_not_utf8_becomes_the_replacement_character),
        TEST(any_bytes_give_strict_json),
        TEST(a_name_of_a_megabyte_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
