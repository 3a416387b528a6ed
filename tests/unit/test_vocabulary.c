/* Unit: record/metadata's vocabulary, and process names. */
#include "tests/test.h"

static void activities_are_parsed_in_any_case(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t activity;
    } good[] = {{"CPU", MTP_CPU},  {"cpu", MTP_CPU},  {"Cpu", MTP_CPU}, {"NPU", MTP_NPU}, {"npu", MTP_NPU},
                {"CUDA", MTP_NPU}, {"cuda", MTP_NPU}, {"GPU", MTP_NPU}, {"gPu", MTP_NPU}};
    for (size_t i = 0; i < COUNT(good); i++) {
        uint32_t out = 99;
        assert_ok(mtp_activity_parse(good[i].text, &out));
        assert_int_equal(out, good[i].activity);
    }
}

static void other_activities_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "CPUS", "TPU", " CPU", "CPU ", "XPU", "cpu,npu", "%s%n"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint32_t out = 99;
        assert_int_equal(mtp_activity_parse(bad[i], &out), MTP_E_ARG);
        assert_int_equal(out, 99);
        assert_says("unknown activity");
        assert_says(bad[i]);
        assert_says("use CPU or NPU");
    }
    uint32_t out;
    assert_int_equal(mtp_activity_parse(NULL, &out), MTP_E_ARG);
    assert_int_equal(mtp_activity_parse("CPU", NULL), MTP_E_ARG);
}

static void words_of_every_list_are_told(void **state)
{
    (void)state;
#define X(sym, value, text, bytes) assert_string_equal(mtp_dtype_text(MTP_##sym), text);
    MTP_DTYPE_LIST(X)
#undef X
#define X(sym, value, text) assert_string_equal(mtp_drop_text(MTP_DROP_##sym), text);
    MTP_DROP_LIST(X)
#undef X
#define X(sym, value) assert_string_equal(mtp_action_text(MTP_ACTION_##sym), #sym);
    MTP_ACTION_LIST(X)
#undef X
#define X(sym, value, text) assert_string_equal(mtp_outcome_text(MTP_OUTCOME_##sym), text);
    MTP_OUTCOME_LIST(X)
#undef X
#define X(sym, value, text) assert_string_equal(mtp_format_text(MTP_FORMAT_##sym), text);
    MTP_FORMAT_LIST(X)
#undef X
    assert_string_equal(mtp_format_text((mtp_format)99), "unknown format");
    assert_string_equal(mtp_dtype_text((mtp_dtype)99), "");
    assert_string_equal(mtp_drop_text((mtp_drop)99), "unknown cause");
    assert_string_equal(mtp_action_text((mtp_action)99), "?");
    assert_true(MTP_DROP_CAUSES <= COUNT(((mtp_ledger *)0)->dropped_by));
}

static void the_version_is_that_of_the_header(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", MTP_VERSION_MAJOR, MTP_VERSION_MINOR, MTP_VERSION_PATCH);
    assert_string_equal(mtp_version(), text);
}

static void devices_are_packed_and_unpacked(void **state)
{
    (void)state;
    assert_int_equal(MTP_DEVICE_TYPE(MTP_DEVICE_NPU(7)), 1);
    assert_int_equal(MTP_DEVICE_INDEX(MTP_DEVICE_NPU(7)), 7);
    assert_int_equal(MTP_DEVICE_CPU, 0);
    assert_int_equal(MTP_DEVICE_TYPE(MTP_DEVICE(255, 255)), 255);
    assert_int_equal(MTP_DEVICE_INDEX(MTP_DEVICE(255, 255)), 255);
}

static void the_same_text_has_the_same_id_for_good(void **state)
{
    (void)state;
    uint32_t a = mtp_name("forward"), b = mtp_name("backward");
    assert_true(a != 0 && b != 0 && a != b);
    assert_int_equal(mtp_name("forward"), a);
    assert_int_equal(mtp_name_n("forwardly", 7), a);
    assert_int_equal(mtp_name_n("backward\0x", 8), b);
    assert_int_not_equal(mtp_name_n("backward\0x", 10), b);
    assert_int_equal(mtp_name(NULL), 0);
    assert_int_not_equal(mtp_name(""), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(MTP_NAME("forward"), a);
}

static void correlations_are_never_given_twice(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t id = mtp_correlation_next();
        assert_true(id > last);
        last = id;
    }
}

/* A name that cannot be kept is 0, and the program continues; once there is memory again, it is kept. */
static void names_survive_every_allocation_failure(void **state)
{
    (void)state;
    int fired = 0;
    for (int nth = 1; nth < 8; nth++) {
        char text[64];
        for (int i = 0; i < 400; i++) {
            snprintf(text, sizeof text, "sweep %d %d with a longer tail to fill blocks", nth, i);
            mtp__fault_plan(1u << MTP__FAULT_ALLOC, 1, true);
            uint32_t without = mtp_name(text);
            int n = mtp__fault_stop();
            fired += n;
            uint32_t with = mtp_name(text);
            assert_true(with != 0 && (without == with || (without == 0 && n > 0)));
        }
    }
    assert_true(fired > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(activities_are_parsed_in_any_case),  TEST(other_activities_are_refused_by_name),
        TEST(words_of_every_list_are_told),       TEST(the_version_is_that_of_the_header),
        TEST(devices_are_packed_and_unpacked),    TEST(the_same_text_has_the_same_id_for_good),
        TEST(correlations_are_never_given_twice), TEST(names_survive_every_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
