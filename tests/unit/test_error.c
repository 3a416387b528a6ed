/* Unit: base/error, and the texts that go with status codes. */
#include "tests/test.h"
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/error.h"
#include "base/plain.h"

static void a_text_says_what_users_named_then_what_is_wrong_then_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(mtp__fail(MTP_E_IO, "inner", "file %d", 7), MTP_E_IO);
    assert_string_equal(mtp_last_error(), "file 7");
    mtp__note("outer", "step %s", "3");
    assert_string_equal(mtp_last_error(), "step 3: file 7");
    mtp__advise("set %s", "that");
    mtp__note("outermost", "run.json");
    assert_string_equal(mtp_last_error(), "run.json: step 3: file 7; set that");
}

static void functions_are_in_the_trail_and_not_in_the_text(void **state)
{
    (void)state;
    MTP_FAIL(MTP_E_ARG, "three");
    assert_string_equal(mtp_last_error(), "three");
    assert_string_equal(mtp_last_error_trail(), __func__);
    mtp__note("outer", "four");
    assert_null(strstr(mtp_last_error(), "outer"));
    assert_non_null(strstr(mtp_last_error_trail(), " < outer"));
}

static void a_failure_of_the_system_has_its_number(void **state)
{
    (void)state;
    MTP_FAIL(MTP_E_IO, "a: %s", mtp__reason(ENOSPC));
    assert_int_equal(mtp_last_error_number(), ENOSPC);
    MTP_NOTE("b");
    assert_int_equal(mtp_last_error_number(), ENOSPC);
    MTP_FAIL(MTP_E_IO, "c");
    assert_int_equal(mtp_last_error_number(), 0);
}

static void want_of_memory_says_so_and_for_what(void **state)
{
    (void)state;
    MTP_FAIL(MTP_E_NOMEM, "%d events", 65603);
    assert_string_equal(mtp_last_error(), "out of memory: no room for 65603 events");
}

static void an_error_may_quote_the_one_before(void **state)
{
    (void)state;
    MTP_FAIL(MTP_E_IO, "one");
    MTP_FAIL(MTP_E_IO, "two, after %s", mtp_last_error());
    assert_string_equal(mtp_last_error(), "two, after one");
}

static void a_new_failure_forgets_the_old_story(void **state)
{
    (void)state;
    mtp__fail(MTP_E_IO, "a", "one");
    mtp__note("b", "two");
    assert_int_equal(MTP_FAIL(MTP_E_ARG, "three"), MTP_E_ARG);
    assert_null(strstr(mtp_last_error(), "one"));
    assert_says("three");
    assert_null(strstr(mtp_last_error_trail(), "b"));
}

static void a_story_that_is_too_long_is_cut_and_terminated(void **state)
{
    (void)state;
    char long_text[4000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    for (int i = 700; i < 900; i++) { /* across the edge of the storage, byte by byte */
        mtp__fail(MTP_E_IO, "w", "%.*s", i, long_text);
        size_t before = strlen(mtp_last_error());
        assert_true(before <= 831);
        mtp__note("note", "%s", long_text);
        mtp__note("note", "again");
        assert_true(strlen(mtp_last_error()) <= 831);
        mtp__advise("%s", long_text);
        assert_true(strlen(mtp_last_error()) <= 831);
        assert_true(strlen(mtp_last_error()) >= before);
        assert_memory_equal(mtp_last_error(), "again: xxx", 10);
    }
    mtp__fail(MTP_E_NOMEM, long_text, "%s", long_text);
    assert_int_equal(strlen(mtp_last_error()), 831);
    assert_true(strlen(mtp_last_error_trail()) <= 127);
    mtp__note(long_text, "more");
    assert_true(strlen(mtp_last_error_trail()) <= 127);
    mtp__fail(MTP_E_IO, "short", "again");
    assert_string_equal(mtp_last_error(), "again");
    assert_string_equal(mtp_last_error_trail(), "short");
}

static void *tell_my_own(void *arg)
{
    *(bool *)arg = mtp_last_error()[0] == 0;
    mtp__fail(MTP_E_NOMEM, "other", "thread");
    *(bool *)arg &= strcmp(mtp_last_error(), "out of memory: no room for thread") == 0;
    return NULL;
}

static void each_thread_has_its_own_story(void **state)
{
    (void)state;
    pthread_t t;
    bool right = false;
    mtp__fail(MTP_E_IO, "main", "story");
    pthread_create(&t, NULL, tell_my_own, &right);
    pthread_join(t, NULL);
    assert_true(right);
    assert_string_equal(mtp_last_error(), "story");
}

/* Threads that tell, and end: the first one's story is taken by another, and without memory there is one, too. */
static void *fail_without_memory(void *arg)
{
    struct rlimit none = {1, 1};
    setrlimit(RLIMIT_AS, &none);
    mtp__fail(MTP_E_NOMEM, "other", "a story");
    *(bool *)arg = strcmp(mtp_last_error(), "out of memory: no room for a story") == 0;
    return NULL;
}

static int in_threads(void)
{
    bool right;
    pthread_t t;
    for (int i = 0; i < 4; i++) {
        right = false;
        pthread_create(&t, NULL, tell_my_own, &right);
        pthread_join(t, NULL);
        if (!right)
            return 1;
    }
    mtp__fail(MTP_E_IO, "main", "story");
    pthread_create(&t, NULL, fail_without_memory, &right);
    pthread_join(t, NULL);
    return right && strcmp(mtp_last_error(), "story") == 0 ? 0 : 2;
}

static void without_memory_there_is_still_a_story(void **state)
{
    (void)state;
    if (TEST_ASAN || TEST_TSAN) /* they map memory themselves */
        skip();
    pid_t child = fork();
    if (child == 0)
        _exit(in_threads());
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void every_status_has_a_text_of_its_own(void **state)
{
    (void)state;
    static const mtp_status all[] = {
#define X(sym, value, text) MTP_##sym,
        MTP_STATUS_LIST(X)
#undef X
    };
    for (size_t i = 0; i < COUNT(all); i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(mtp_status_text(all[i]), mtp_status_text(all[k]));
    assert_string_equal(mtp_status_text(MTP_OK), "success");
    assert_string_equal(mtp_status_text((mtp_status)-1000), "unknown status");
    assert_string_equal(mtp_status_text((mtp_status)1), "unknown status");
}

/* Values are ABI: this table may only grow. */
static void values_that_are_abi_stay_as_they_are(void **state)
{
    (void)state;
    assert_int_equal(MTP_E_ARG, -1);
    assert_int_equal(MTP_E_NOMEM, -2);
    assert_int_equal(MTP_E_ABI, -3);
    assert_int_equal(MTP_E_STATE, -4);
    assert_int_equal(MTP_E_BUSY, -5);
    assert_int_equal(MTP_E_IO, -6);
    assert_int_equal(MTP_E_FORMAT, -7);
    assert_int_equal(MTP_E_UNSUPPORTED, -8);
    assert_int_equal(MTP_ACTION_RECORD_AND_SAVE, 3);
    assert_int_equal(MTP_DROP_STUCK, 6);
    assert_int_equal(MTP_WARNING_LEDGER_MISMATCH, 11);
    assert_int_equal(MTP_COMPLEX128, 12);
    assert_int_equal(MTP_UINT16, 13);
    assert_int_equal(MTP_QINT32, 23);
    assert_int_equal(MTP_FLOAT4_E2M1FN_X2, 25);
    assert_int_equal(MTP_SCOPE_OVERHEAD, 7);
    assert_int_equal(MTP_INPUT_TEXT, 7);
    assert_int_equal(MTP_MEMORY_UNKNOWN, 7);
    assert_int_equal(MTP__KIND_STEP, 9);
    assert_int_equal(MTP__KIND_EXISTING, 10);
    assert_int_equal(MTP__KIND_CONTROL, 15);
    assert_int_equal(MTP__CONTROL_TRACE_ID, 12);
    assert_int_equal(MTP__CONTROL_DEVICE, 13);
    assert_int_equal(sizeof(mtp__chunk), 88);
    assert_int_equal(sizeof(mtp__spool_header), 272);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_text_says_what_users_named_then_what_is_wrong_then_what_to_do),
        TEST(functions_are_in_the_trail_and_not_in_the_text),
        TEST(a_failure_of_the_system_has_its_number),
        TEST(want_of_memory_says_so_and_for_what),
        TEST(an_error_may_quote_the_one_before),
        TEST(a_new_failure_forgets_the_old_story),
        TEST(a_story_that_is_too_long_is_cut_and_terminated),
        TEST(each_thread_has_its_own_story),
        TEST(without_memory_there_is_still_a_story),
        TEST(every_status_has_a_text_of_its_own),
        TEST(values_that_are_abi_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
