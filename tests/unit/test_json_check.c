/* Unit: base/json_check. RFC 8259, and the exact position of an error. */
#include "tests/test.h"
#include "base/json_check.h"

typedef struct text_case {
    const char *text;
    size_t wrong_at;
} text_case;

static bool valid(const char *text, size_t length, size_t *at)
{
    char *tight = malloc(length + 1); /* no NUL after it: ASan detects reads beyond the end */
    char *exact = memcpy(malloc(length != 0 ? length : 1), text, length);
    bool ok = mtp__json_check(exact, length, at);
    free(exact);
    free(tight);
    return ok;
}

static void valid_texts_are_taken(void **state)
{
    (void)state;
    static const char *const text[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "-1",
        "10",
        "1.5",
        "-0.25",
        "1e5",
        "1E+5",
        "1e-05",
        "0e0",
        "123456789012345678901234567890",
        "\"\"",
        "\"a\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u00e9\"",
        "\"\\uD83D\\uDE00\"",
        "\"\\ud800\"",
        "\"\xc3\xa9\"",
        "\"\xe2\x82\xac\"",
        "\"\xf0\x9f\x98\x80\"",
        "\"\xed\x9f\xbf\"",
        "\"\xee\x80\x80\"",
        "\"\xf4\x8f\xbf\xbf\"",
        "\"\x7f\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1]",
        "[1,2]",
        "[[]]",
        "[[],[]]",
        "{\"a\":1}",
        "{\"a\":{}}",
        "{\"a\":[],\"b\":null}",
        " \t\r\n{ \"a\" : [ 1 , true , { \"b\" : null } ] , \"a\" : \"x\" } \n",
        "{\"\":0}",
        "[\"</script>\"]",
        "[[[[[[[[[[1]]]]]]]]]]",
        "[{\"a\":[{\"b\":[{}]}]}]",
    };
    for (size_t i = 0; i < COUNT(text); i++) {
        size_t at = 0;
        if (!valid(text[i], strlen(text[i]), &at))
            fail_msg("'%s' was refused at %zu", text[i], at);
        assert_int_equal(at, strlen(text[i]));
    }
}

static void invalid_texts_are_refused_at_the_first_wrong_byte(void **state)
{
    (void)state;
    static const text_case wrong[] = {
        {"", 0},           {" ", 1},           {"x", 0},          {"nul", 3},       {"nulL", 3},
        {"nullx", 4},      {"True", 0},        {"NaN", 0},        {"Infinity", 0},  {"-", 1},
        {"-x", 1},         {"+1", 0},          {"01", 1},         {"-01", 2},       {".5", 0},
        {"1.", 2},         {"1.x", 2},         {"1e", 2},         {"1e+", 3},       {"1ex", 2},
        {"0x10", 1},       {"1 2", 2},         {"1,", 1},         {"\"", 1},        {"\"a", 2},
        {"'a'", 0},        {"\"\\x\"", 2},     {"\"\\", 2},       {"\"\\u12", 5},   {"\"\\u12g4\"", 5},
        {"\"\\u\"", 3},    {"\"\x01\"", 1},    {"\"a\nb\"", 2},   {"\"\x1f\"", 1},  {"[", 1},
        {"]", 0},          {"[1", 2},          {"[1,", 3},        {"[1,]", 3},      {"[,1]", 1},
        {"[1 2]", 3},      {"[1}", 2},         {"[1]]", 3},       {"{", 1},         {"}", 0},
        {"{1:2}", 1},      {"{\"a\"", 4},      {"{\"a\":", 5},    {"{\"a\" 1}", 5}, {"{\"a\":1", 6},
        {"{\"a\":1,}", 7}, {"{\"a\":1,1}", 7}, {"{\"a\":1]", 6},  {"{\"a\":}", 5},  {"{\"a\",1}", 4},
        {"{a:1}", 1},      {"[1] // no", 4},   {"/* no */ 1", 0}, {"{}{}", 2},      {"\xef\xbb\xbf{}", 0},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        size_t at = 99;
        if (valid(wrong[i].text, strlen(wrong[i].text), &at))
            fail_msg("'%s' was taken", wrong[i].text);
        if (at != wrong[i].wrong_at)
            fail_msg("'%s' is wrong at %zu, not at %zu", wrong[i].text, wrong[i].wrong_at, at);
    }
}

static void invalid_utf8_is_refused_at_the_first_wrong_byte(void **state)
{
    (void)state;
    static const text_case wrong[] = {
        {"\"\x80\"", 1}, /* continuation alone */
        {"\"\xbf\"", 1},
        {"\"\xc0\x80\"", 1}, /* overlong */
        {"\"\xc1\xbf\"", 1},
        {"\"\xe0\x9f\xbf\"", 2}, /* overlong, seen at the second byte */
        {"\"\xf0\x8f\xbf\xbf\"", 2},
        {"\"\xed\xa0\x80\"", 2},     /* surrogate */
        {"\"\xf4\x90\x80\x80\"", 2}, /* above U+10FFFF */
        {"\"\xf5\x80\x80\x80\"", 1},
        {"\"\xfe\"", 1},
        {"\"\xff\"", 1},
        {"\"\xc3(\"", 2}, /* not continued */
        {"\"\xe2\x82(\"", 3},
        {"\"\xf0\x9f\x98(\"", 4},
        {"\"\xc3", 2}, /* ends too early */
        {"\"\xe2\x82", 3},
        {"\"\xf0\x9f\x98", 4},
        {"\"\xc3\"", 2},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        size_t at = 99;
        if (valid(wrong[i].text, strlen(wrong[i].text), &at))
            fail_msg("case %zu was taken", i);
        if (at != wrong[i].wrong_at)
            fail_msg("case %zu is wrong at %zu, not at %zu", i, wrong[i].wrong_at, at);
    }
}

/* All of Unicode: valid encodings are accepted, everything else is rejected. */
static void every_code_point_and_no_other_bytes_are_characters(void **state)
{
    (void)state;
    size_t at;
    for (uint32_t c = 0x80; c <= 0x10ffff; c += c < 0x11000 ? 1 : 37) {
        unsigned char s[6] = {'"'};
        size_t n = 1;
        if (c < 0x800) {
            s[n++] = (unsigned char)(0xc0 | c >> 6);
        } else if (c < 0x10000) {
            s[n++] = (unsigned char)(0xe0 | c >> 12);
            s[n++] = (unsigned char)(0x80 | (c >> 6 & 63));
        } else {
            s[n++] = (unsigned char)(0xf0 | c >> 18);
            s[n++] = (unsigned char)(0x80 | (c >> 12 & 63));
            s[n++] = (unsigned char)(0x80 | (c >> 6 & 63));
        }
        s[n++] = (unsigned char)(0x80 | (c & 63));
        s[n++] = '"';
        assert_int_equal(mtp__json_check((char *)s, n, &at), c < 0xd800 || c > 0xdfff);
    }
    int taken = 0;
    for (unsigned a = 0x80; a < 0x100; a++)
        for (unsigned b = 0x80; b < 0x100; b++) {
            unsigned char s[4] = {'"', (unsigned char)a, (unsigned char)b, '"'};
            taken += mtp__json_check((char *)s, 4, &at);
        }
    assert_int_equal(taken, 0x800 - 0x80);
}

static void a_nul_is_a_byte_like_others(void **state)
{
    (void)state;
    size_t at;
    assert_false(valid("1\0", 2, &at));
    assert_int_equal(at, 1);
    assert_false(valid("\"\0\"", 3, &at));
    assert_int_equal(at, 1);
    assert_false(valid("\"\\\0\"", 4, &at));
    assert_int_equal(at, 2);
    assert_false(valid("tru\0", 4, &at));
    assert_int_equal(at, 3);
}

static void depth_is_bounded_and_costs_no_stack(void **state)
{
    (void)state;
    enum {
        DEEP = 1 << 20
    };
    char *text = malloc(DEEP + 8);
    size_t at;
    for (size_t depth = 1; depth <= 512; depth += 73) {
        memset(text, '[', depth);
        text[depth] = '1';
        memset(text + depth + 1, ']', depth);
        assert_true(mtp__json_check(text, 2 * depth + 1, &at));
    }
    memset(text, '[', DEEP);
    assert_false(mtp__json_check(text, DEEP, &at));
    assert_true(at >= 512 && at <= 514);
    free(text);
}

/* Against a second, plain, recursive implementation of the grammar. */
static const char *model_value(const char *p, const char *end, int depth);

static const char *model_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

static const char *model_string(const char *p, const char *end)
{
    if (p >= end || *p++ != '"')
        return NULL;
    for (; p < end && *p != '"'; p++)
        if (*p == '\\' && (++p >= end || (*p != '"' && *p != '\\' && *p != 'n')))
            return NULL;
    return p < end ? p + 1 : NULL;
}

static const char *model_list(const char *p, const char *end, int depth)
{
    char close = *p == '{' ? '}' : ']';
    p = model_space(p + 1, end);
    if (p < end && *p == close)
        return p + 1;
    for (;; p++) {
        if (close == '}') {
            p = model_string(model_space(p, end), end);
            p = p != NULL ? model_space(p, end) : NULL;
            if (p == NULL || p >= end || *p++ != ':')
                return NULL;
        }
        p = model_value(p, end, depth + 1);
        p = p != NULL ? model_space(p, end) : NULL;
        if (p == NULL || p >= end || (*p != ',' && *p != close))
            return NULL;
        if (*p == close)
            return p + 1;
    }
}

static const char *model_value(const char *p, const char *end, int depth)
{
    p = model_space(p, end);
    if (p >= end || depth > 60)
        return NULL;
    if (*p == '{' || *p == '[')
        return model_list(p, end, depth);
    if (*p == '"')
        return model_string(p, end);
    if (*p == '1')
        return p + 1;
    return NULL;
}

static void random_texts_are_judged_as_a_recursive_model_does(void **state)
{
    (void)state;
    static const char alphabet[] = "[]{},:\"\"1 \\n";
    int good = 0;
    for (int round = 0; round < 2000000 / (TEST_TSAN || TEST_ASAN ? 8 : 1); round++) {
        char text[12];
        size_t length = 1 + test_below(sizeof text - 1), at;
        for (size_t i = 0; i < length; i++)
            text[i] = alphabet[test_below(sizeof alphabet - 1)];
        const char *end = model_value(text, text + length, 0);
        bool expected = end != NULL && model_space(end, text + length) == text + length;
        bool two_digits = false, letter = false; /* beyond the model: 11 is a number, n a wrong word */
        for (size_t i = 0; i + 1 < length; i++)
            two_digits |= text[i] == '1' && text[i + 1] == '1';
        (void)letter;
        if (two_digits)
            continue;
        bool got = mtp__json_check(text, length, &at);
        if (got != expected)
            fail_msg("'%.*s' is %s", (int)length, text, expected ? "valid" : "invalid");
        good += got;
    }
    assert_true(good > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(valid_texts_are_taken),
        TEST(invalid_texts_are_refused_at_the_first_wrong_byte),
        TEST(invalid_utf8_is_refused_at_the_first_wrong_byte),
        TEST(every_code_point_and_no_other_bytes_are_characters),
        TEST(a_nul_is_a_byte_like_others),
        TEST(depth_is_bounded_and_costs_no_stack),
        TEST(random_texts_are_judged_as_a_recursive_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
