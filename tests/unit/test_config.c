/* Unit: what mtp_profile_create accepts and rejects, and the ABI of structs that callers fill. */
#include "tests/test.h"

static void refused(const mtp_profile_config *c, mtp_status status, const char *says)
{
    mtp_profile *prof = (mtp_profile *)(uintptr_t)1;
    long live = mtp__alloc_live();
    assert_int_equal(mtp_profile_create(c, &prof), status);
    assert_null(prof);
    assert_says(says);
    assert_int_equal(mtp__alloc_live(), live);
}

static void defaults_are_taken_from_null_and_from_init(void **state)
{
    (void)state;
    mtp_profile *prof;
    assert_ok(mtp_profile_create(NULL, &prof));
    assert_int_equal(prof->config.activities, MTP_CPU | MTP_NPU);
    assert_int_equal(prof->config.buffer_bytes, 256u << 20);
    assert_int_equal(prof->config.chunk_bytes, 64u << 10);
    mtp_profile_destroy(prof);
    mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
    assert_ok(mtp_profile_create(&c, &prof));
    mtp_profile_destroy(prof);
    mtp_profile_destroy(NULL);
}

static void out_must_be_given(void **state)
{
    (void)state;
    assert_int_equal(mtp_profile_create(NULL, NULL), MTP_E_ARG);
    assert_says("out is NULL");
}

static void an_older_config_than_the_first_is_refused(void **state)
{
    (void)state;
    mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
    for (c.size = 0; c.size < sizeof c; c.size++)
        refused(&c, MTP_E_ABI, "begin with the INIT macro");
}

static void a_newer_config_is_taken_as_long_as_its_tail_is_zero(void **state)
{
    (void)state;
    struct {
        mtp_profile_config v1;
        unsigned char future[40];
    } c = {MTP_PROFILE_CONFIG_INIT, {0}};
    mtp_profile *prof;
    c.v1.size = sizeof c;
    assert_ok(mtp_profile_create(&c.v1, &prof));
    mtp_profile_destroy(prof);
    for (size_t i = 0; i < sizeof c.future; i++) {
        char says[64];
        memset(c.future, 0, sizeof c.future);
        c.future[i] = 1;
        snprintf(says, sizeof says, "a member (at byte %zu)", sizeof c.v1 + i);
        refused(&c.v1, MTP_E_ABI, says);
    }
    c.v1.size = sizeof c.v1; /* nothing is read beyond the given size */
    assert_ok(mtp_profile_create(&c.v1, &prof));
    mtp_profile_destroy(prof);
}

static mtp_action always(void *user, uint64_t step)
{
    (void)user, (void)step;
    return MTP_ACTION_RECORD;
}

static void bad_arguments_are_refused_in_words(void **state)
{
    (void)state;
    const mtp_profile_config base = MTP_PROFILE_CONFIG_INIT;
    mtp_profile_config c;

    c = base;
    c.activities = 4;
    refused(&c, MTP_E_ARG, "activities=0x4 has bits other than CPU and NPU");
    c = base;
    c.chunk_bytes = 5000;
    refused(&c, MTP_E_ARG, "chunk_bytes=5000 is not a power of two from 4096 to 1048576");
    c = base;
    c.chunk_bytes = 2048;
    refused(&c, MTP_E_ARG, "chunk_bytes=2048");
    c = base;
    c.chunk_bytes = 2u << 20;
    refused(&c, MTP_E_ARG, "chunk_bytes=2097152");
    c = base;
    c.buffer_bytes = 1;
    refused(&c, MTP_E_ARG, "buffer_bytes=1 must be at least 4 chunks of 65536 bytes");
    c = base;
    c.buffer_bytes = (4u << 16) - 1;
    refused(&c, MTP_E_ARG, "buffer_bytes=262143");
    c = base;
    c.buffer_bytes = UINT64_MAX;
    refused(&c, MTP_E_ARG, "at most 1 TiB");
    c = base;
    c.when_full = (mtp_when_full)3;
    refused(&c, MTP_E_ARG, "when_full=3 is not one of stop, keep newest and stream");
    c = base;
    c.when_full = (mtp_when_full)-1;
    refused(&c, MTP_E_ARG, "when_full=-1");
    c = base;
    c.when_full = MTP_STREAM;
    refused(&c, MTP_E_ARG, "set spool");
    c = base;
    c.when_full = MTP_STREAM;
    c.spool = "x.mtp";
    c.spool_bytes = 1000;
    refused(&c, MTP_E_ARG, "spool_bytes=1000 holds fewer than 4 chunks");
    c = base;
    c.spool = "";
    refused(&c, MTP_E_ARG, "spool is an empty path");
    c = base;
    c.follow_fork = true;
    refused(&c, MTP_E_ARG, "follow_fork needs a spool");
    c = base;
    c.schedule.active = 1;
    c.schedule_callback = always;
    refused(&c, MTP_E_ARG, "schedule and schedule_callback are both set");
    c = base;
    c.schedule.wait = 1;
    refused(&c, MTP_E_ARG, "active=0 records nothing");
    c = base;
    c.schedule.active = 1;
    c.schedule.repeat = -1;
    refused(&c, MTP_E_ARG, "repeat=-1 must not be negative");
}

static void smallest_and_largest_budgets_work(void **state)
{
    (void)state;
    static const uint32_t chunk[] = {4096, 65536, 1u << 20};
    for (size_t i = 0; i < COUNT(chunk); i++)
        for (int odd = 0; odd < 2; odd++) {
            mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
            c.chunk_bytes = chunk[i];
            c.buffer_bytes = 4 * (uint64_t)chunk[i] + (odd ? chunk[i] - 1 : 0);
            mtp_profile *prof = test_start(&c);
            for (int k = 0; k < 1000000 / (TEST_TSAN || TEST_ASAN ? 10 : 1); k++)
                MTP_SCOPE ("fill") {
                }
            assert_ok(mtp_profile_stop(prof));
            mtp_ledger l = ledger_of(prof);
            assert_true(l.bytes <= c.buffer_bytes);
            assert_balanced(prof);
            mtp_profile_destroy(prof);
        }
    mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
    c.buffer_bytes = (uint64_t)64 << 30; /* of addresses, not of memory */
    mtp_profile *prof = test_create(&c);
    mtp_status status = mtp_profile_start(prof);
    assert_true(status == MTP_OK || status == MTP_E_NOMEM);
    mtp_profile_destroy(prof);
}

static void the_spools_path_is_copied(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", test_path("copied.mtp"));
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    mtp_profile *prof = test_create(&c);
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_ok(mtp_profile_start(prof));
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    seen s = {0};
    assert_ok(seen_spool(&s, test_path("copied.mtp")));
    seen_free(&s);
}

static void creating_survives_every_allocation_failure(void **state)
{
    (void)state;
    for (int nth = 1;; nth++) {
        mtp_profile_config c = test_config(NULL);
        mtp_profile *prof = NULL;
        c.spool = "never-made.mtp";
        long live = mtp__alloc_live();
        mtp__fault_plan(MTP__FAULTS_ALL, nth, false);
        mtp_status status = mtp_profile_create(&c, &prof);
        if (mtp__fault_stop() == 0) {
            assert_int_equal(status, MTP_OK);
            assert_int_equal(nth, 3);
            mtp_profile_destroy(prof);
            break;
        }
        assert_int_equal(status, MTP_E_NOMEM);
        assert_null(prof);
        assert_true(mtp_last_error()[0] != 0);
        assert_int_equal(mtp__alloc_live(), live);
    }
}

static void a_schedule_without_warmup_is_reported_once_at_creation(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    mtp_profile_destroy(test_create(&c));
    assert_int_equal(w.total, 0); /* no schedule, nothing to say */
    c.schedule.active = 1;
    mtp_profile_destroy(test_create(&c));
    assert_int_equal(w.count[MTP_WARNING_NO_WARMUP], 1);
    assert_string_equal(w.text, "Profiler won't be using warmup, this can skew profiler results");
    c.schedule.warmup = 1;
    mtp_profile_destroy(test_create(&c));
    assert_int_equal(w.total, 1);
    c.on_warning = NULL;
    c.schedule.warmup = 0;
    mtp_profile_destroy(test_create(&c)); /* nobody listens: nothing is called */
    c.on_warning = test_warned;
    c.schedule = (mtp_schedule){0};
    c.schedule_callback = always; /* a callback's answers are not known in advance */
    mtp_profile_destroy(test_create(&c));
    assert_int_equal(w.total, 1);
}

/* ------------------------------------------------------------------------------ other structs with size */

static void a_ledger_of_another_size_is_judged_like_a_config(void **state)
{
    (void)state;
    mtp_profile *prof = test_create(NULL);
    struct {
        mtp_ledger v1;
        uint64_t future;
    } l = {MTP_LEDGER_INIT, 77};
    assert_int_equal(mtp_profile_ledger(NULL, &l.v1), MTP_E_ARG);
    assert_int_equal(mtp_profile_ledger(prof, NULL), MTP_E_ARG);
    l.v1.size = sizeof l.v1 - 1;
    assert_int_equal(mtp_profile_ledger(prof, &l.v1), MTP_E_ABI);
    assert_says("mtp_ledger.size is");
    l.v1.size = sizeof l;
    assert_ok(mtp_profile_ledger(prof, &l.v1));
    assert_int_equal(l.v1.emitted, 0);
    assert_int_equal(l.future, 77); /* not ours */
    mtp_profile_destroy(prof);
}

static uint32_t no_frames(void *user, uint64_t *frames, uint32_t room)
{
    (void)user, (void)frames, (void)room;
    return 0;
}

static void no_words(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user, (void)frame, (void)out, (void)room;
}

static void stack_providers_are_checked(void **state)
{
    (void)state;
    mtp_stack_provider p = {sizeof p, no_frames, no_words, NULL};
    assert_ok(mtp_stack_provider_set(&p));
    assert_string_equal(mtp_stack_provider_name(), "custom");
    p.size--;
    assert_int_equal(mtp_stack_provider_set(&p), MTP_E_ABI);
    p.size++;
    p.capture = NULL;
    assert_int_equal(mtp_stack_provider_set(&p), MTP_E_ARG);
    assert_says("needs both capture and describe");
    p.capture = no_frames;
    p.describe = NULL;
    assert_int_equal(mtp_stack_provider_set(&p), MTP_E_ARG);
    assert_ok(mtp_stack_provider_set(NULL));
    assert_string_not_equal(mtp_stack_provider_name(), "custom");
    mtp_profile *prof = test_start(NULL);
    p.describe = no_words;
    assert_int_equal(mtp_stack_provider_set(&p), MTP_E_STATE);
    assert_int_equal(mtp_stack_provider_set(NULL), MTP_E_STATE);
    mtp_profile_destroy(prof);
    assert_ok(mtp_stack_provider_set(NULL));
}

/* An uninitialized struct may claim any size: it is rejected, and nothing is read. */
static void a_size_that_cannot_be_is_refused(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    c.size = SIZE_MAX;
    assert_int_equal(mtp_profile_create(&c, &prof), MTP_E_ABI);
    assert_says("begin with the INIT macro");
    prof = test_start(NULL);
    mtp_trace *trace;
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_trace(prof, &trace));
    mtp_export_options options = MTP_EXPORT_OPTIONS_INIT;
    options.size = SIZE_MAX;
    assert_int_equal(mtp_trace_chrome(trace, &options, mtp_sink_file, stderr), MTP_E_ABI);
    assert_says("begin with the INIT macro");
    mtp_trace_destroy(trace);
    mtp_profile_destroy(prof);
}

static void null_is_called_null(void **state)
{
    (void)state;
    assert_int_equal(mtp_profile_toggle(NULL, true, MTP_CPU), MTP_E_ARG);
    assert_says("the profile is NULL");
    mtp_trace *trace;
    assert_int_equal(mtp_trace_open("", NULL, &trace), MTP_E_IO);
    assert_says("an empty path");
    assert_null(mtp_averages_total(NULL));
    assert_null(mtp_tree_children(NULL, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_taken_from_null_and_from_init),
        TEST(out_must_be_given),
        TEST(an_older_config_than_the_first_is_refused),
        TEST(a_newer_config_is_taken_as_long_as_its_tail_is_zero),
        TEST(bad_arguments_are_refused_in_words),
        TEST(smallest_and_largest_budgets_work),
        TEST(the_spools_path_is_copied),
        TEST(creating_survives_every_allocation_failure),
        TEST(a_schedule_without_warmup_is_reported_once_at_creation),
        TEST(a_ledger_of_another_size_is_judged_like_a_config),
        TEST(stack_providers_are_checked),
        TEST(a_size_that_cannot_be_is_refused),
        TEST(null_is_called_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
