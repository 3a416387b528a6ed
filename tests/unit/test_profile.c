/* Unit: record/profile and record/metadata: which calls are allowed when, metadata, trace ids, toggling. */
#include "tests/test.h"
#include <ctype.h>
#include <pthread.h>

/* ------------------------------------------------------------------------------------------- lifecycle */

static void calls_before_start_and_after_stop_are_refused(void **state)
{
    (void)state;
    mtp_profile *prof = test_create(NULL);
    assert_int_equal(mtp_profile_step(prof), MTP_E_STATE);
    assert_says("step: no active session; call mtp_profile_start() first");
    assert_int_equal(mtp_profile_stop(prof), MTP_E_STATE);
    assert_says("stop: no active session");
    assert_int_equal(mtp_profile_start_trace(prof), MTP_E_STATE);
    assert_says("Profiler must be initialized before starting trace");
    assert_int_equal(mtp_profile_stop_trace(prof), MTP_E_STATE);
    assert_says("Profiler must be initialized before stopping trace");
    assert_ok(mtp_profile_start(prof));
    assert_int_equal(mtp_profile_start(prof), MTP_E_STATE);
    assert_says("start: this profile is already active");
    assert_int_equal(mtp_profile_prepare_trace(prof), MTP_E_STATE);
    assert_int_equal(mtp_profile_start_trace(prof), MTP_E_STATE);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(mtp_profile_stop(prof), MTP_E_STATE);
    assert_int_equal(mtp_profile_step(prof), MTP_E_STATE);
    mtp_profile_destroy(prof);
}

static void null_profiles_are_refused_or_zero(void **state)
{
    (void)state;
    assert_int_equal(mtp_profile_start(NULL), MTP_E_ARG);
    assert_says("start: the profile is NULL");
    assert_int_equal(mtp_profile_step(NULL), MTP_E_ARG);
    assert_int_equal(mtp_profile_stop(NULL), MTP_E_ARG);
    assert_int_equal(mtp_profile_prepare_trace(NULL), MTP_E_ARG);
    assert_int_equal(mtp_profile_start_trace(NULL), MTP_E_ARG);
    assert_int_equal(mtp_profile_stop_trace(NULL), MTP_E_ARG);
    assert_int_equal(mtp_profile_toggle(NULL, true, MTP_CPU), MTP_E_ARG);
    assert_int_equal(mtp_profile_add_metadata(NULL, "a", "b"), MTP_E_ARG);
    assert_int_equal(mtp_profile_preset_metadata_json(NULL, "a", "1"), MTP_E_ARG);
    assert_int_equal(mtp_profile_step_number(NULL), 0);
    assert_int_equal(mtp_profile_action(NULL), MTP_ACTION_NONE);
    assert_false(mtp_profile_is_recording(NULL));
    assert_null(mtp_profile_trace_id(NULL));
}

static void one_profile_at_a_time_is_active(void **state)
{
    (void)state;
    mtp_profile *a = test_start(NULL), *b = test_create(NULL);
    assert_int_equal(mtp_profile_start(b), MTP_E_BUSY);
    assert_says("another profiler session is already active");
    assert_int_equal(mtp_profile_prepare_trace(b), MTP_E_BUSY);
    assert_true(mtp_profile_is_recording(a));
    MTP_SCOPE ("still a's") {
    }
    assert_ok(mtp_profile_stop(a));
    assert_ok(mtp_profile_start(b));
    assert_int_equal(mtp_profile_start(a), MTP_E_BUSY);
    mtp_profile_destroy(b); /* stops it */
    assert_int_equal(mtp_recording(), 0);
    assert_ok(mtp_profile_start(a));
    mtp_profile_destroy(a);
    mtp_profile *c = test_start(NULL);
    mtp_profile_destroy(c);
}

static mtp_action none_at_all(void *user, uint64_t step)
{
    (void)user, (void)step;
    return MTP_ACTION_NONE;
}

static void a_profile_that_waits_is_active_too(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.schedule_callback = none_at_all;
    mtp_profile *a = test_start(&c), *b = test_create(NULL);
    assert_int_equal(mtp_profile_start(b), MTP_E_BUSY);
    mtp_profile_destroy(a); /* never had a recorder */
    assert_ok(mtp_profile_start(b));
    mtp_profile_destroy(b);
}

static int calls_in_callback;

static void meddle(mtp_profile *prof, void *user)
{
    (void)user;
    mtp_status (*const call[])(mtp_profile *) = {mtp_profile_start,       mtp_profile_step,
                                                 mtp_profile_stop,        mtp_profile_prepare_trace,
                                                 mtp_profile_start_trace, mtp_profile_stop_trace};
    for (size_t i = 0; i < COUNT(call); i++)
        calls_in_callback += call[i](prof) == MTP_E_STATE &&
                             strstr(mtp_last_error(), "called from inside on_trace_ready") != NULL;
    mtp_ledger l = MTP_LEDGER_INIT;
    calls_in_callback += mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == l.kept && l.kept > 0;
    calls_in_callback += mtp_profile_trace_id(prof) != NULL;
    mtp_profile *other;
    calls_in_callback += mtp_profile_create(NULL, &other) == MTP_OK && mtp_profile_start(other) == MTP_E_BUSY;
    mtp_profile_destroy(other);
}

static void a_callback_may_look_but_not_drive(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.on_trace_ready = meddle;
    mtp_profile *prof = test_start(&c);
    MTP_SCOPE ("one") {
    }
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(calls_in_callback, 9);
    assert_ok(mtp_profile_start(prof)); /* and it is not stuck in the callback */
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
}

static void a_stopped_profile_may_be_started_again(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_create(&c);
    for (uint64_t round = 0; round < 20; round++) {
        assert_ok(mtp_profile_start(prof));
        assert_int_equal(mtp_profile_step_number(prof), 0);
        for (uint64_t i = 0; i <= round; i++)
            MTP_SCOPE ("again") {
            }
        assert_ok(mtp_profile_step(prof));
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.emitted, 2 * (round + 1) + 2); /* without acc_events: the last run alone */
        assert_int_equal(l.threads, 1);
        assert_balanced(prof);
    }
    mtp_profile_destroy(prof);
}

static void a_trace_may_be_driven_by_hand(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    mtp_profile *prof = test_create(&c), *other = test_create(NULL);
    assert_ok(mtp_profile_prepare_trace(prof));
    assert_non_null(mtp_profile_trace_id(prof));
    assert_false(mtp_profile_is_recording(prof));
    assert_int_equal(mtp_profile_start(other), MTP_E_BUSY);
    assert_int_equal(mtp_profile_step(prof), MTP_E_STATE); /* no schedule is running */
    assert_int_equal(mtp_profile_stop(prof), MTP_E_STATE);
    assert_int_equal(mtp_profile_start(prof), MTP_E_STATE);
    assert_ok(mtp_profile_add_metadata(prof, "early", "bird"));
    assert_ok(mtp_profile_start_trace(prof));
    assert_int_equal(mtp_profile_prepare_trace(prof), MTP_E_STATE);
    assert_int_equal(mtp_profile_start_trace(prof), MTP_E_STATE);
    MTP_SCOPE ("by hand") {
    }
    assert_ok(mtp_profile_stop_trace(prof));
    assert_int_equal(w.ready, 0); /* no callback */
    assert_false(mtp_profile_is_recording(prof));
    assert_ok(mtp_profile_start(other));
    assert_int_equal(mtp_profile_start_trace(prof), MTP_E_BUSY);
    assert_ok(mtp_profile_stop(other));
    seen s = {0};
    seen_profile(&s, prof);
    assert_int_equal(seen_count(&s, MTP__KIND_BEGIN, -1), 1);
    assert_string_equal(seen_metadata(&s, 's', "early", 0), "bird");
    seen_free(&s);
    assert_ok(mtp_profile_start_trace(prof)); /* without a prepare: goes on */
    MTP_SCOPE ("by hand") {
    }
    assert_ok(mtp_profile_stop_trace(prof));
    seen_profile(&s, prof);
    assert_int_equal(seen_count(&s, MTP__KIND_BEGIN, -1), 2);
    seen_free(&s);
    assert_balanced(prof);
    assert_ok(mtp_profile_prepare_trace(prof)); /* with one: anew */
    assert_int_equal(ledger_of(prof).emitted, 0);
    mtp_profile_destroy(prof);
    mtp_profile_destroy(other);
}

static void a_profile_may_be_destroyed_at_any_time(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_profile_destroy(test_start(&c)); /* the process now has what it keeps */
    long live = mtp__alloc_live();
    c.schedule = (mtp_schedule){.wait = 1, .warmup = 1, .active = 2};
    for (int steps = 0; steps < 8; steps++) {
        mtp_profile *prof = test_start(&c);
        for (int i = 0; i < steps; i++) {
            MTP_SCOPE ("x") {
            }
            assert_ok(mtp_profile_step(prof));
        }
        mtp_profile_destroy(prof);
        assert_int_equal(mtp_recording(), 0);
        assert_int_equal(mtp__alloc_live(), live);
    }
    mtp_profile *prof = test_create(&c);
    assert_ok(mtp_profile_prepare_trace(prof));
    mtp_profile_destroy(prof);
    assert_int_equal(mtp__alloc_live(), live);
}

/* reliability.md 12 */
static void starting_and_stopping_for_long_does_not_grow(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_GROWS);
    mtp_profile_config c = test_config(NULL);
    size_t rss = 0;
    long live = 0;
    for (int i = 0; i < test_scaled(2000); i++) {
        mtp_profile *prof = test_start(&c);
        for (int k = 0; k < 20; k++)
            MTP_SCOPE ("churn") {
            }
        assert_ok(mtp_profile_stop(prof));
        assert_int_equal(ledger_of(prof).kept, 41);
        mtp_profile_destroy(prof);
        if (i == 99) {
            rss = test_rss();
            live = mtp__alloc_live();
        }
    }
    if (live != 0)
        assert_int_equal(mtp__alloc_live(), live);
    if (!TEST_TSAN && !TEST_ASAN)
        assert_true(test_rss() <= rss + (1 << 20));
}

/* -------------------------------------------------------------------------------------------- metadata */

static void metadata_is_told_as_it_was_given(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = c.with_flops = true;
    mtp_profile *prof = test_create(&c);
    assert_ok(mtp_profile_preset_metadata_json(prof, "preset", "{\"rank\": 3}"));
    assert_ok(mtp_profile_start(prof));
    char *huge = malloc(100001);
    memset(huge, 'h', 100000);
    huge[100000] = 0;
    assert_ok(mtp_profile_add_metadata(prof, "plain", "a \"quoted\" \\ text \x01 \xff"));
    assert_ok(mtp_profile_add_metadata_json(prof, "json", " [1, 2.5, \"x\"] "));
    assert_ok(mtp_profile_add_metadata(prof, "", ""));
    assert_ok(mtp_profile_add_metadata(prof, "huge", huge));
    assert_ok(mtp_profile_add_metadata(prof, "plain", "twice"));
    assert_ok(mtp_profile_stop(prof));
    seen s = {0};
    seen_profile(&s, prof);
    assert_string_equal(s.problem, "");
    assert_string_equal(seen_metadata(&s, 'j', "preset", 0), "{\"rank\": 3}");
    assert_string_equal(seen_metadata(&s, 's', "plain", 0), "a \"quoted\" \\ text \x01 \xff");
    assert_string_equal(seen_metadata(&s, 's', "plain", 1), "twice");
    assert_string_equal(seen_metadata(&s, 'j', "json", 0), " [1, 2.5, \"x\"] ");
    assert_string_equal(seen_metadata(&s, 's', "", 0), "");
    assert_string_equal(seen_metadata(&s, 's', "huge", 0), huge);
    assert_string_equal(seen_metadata(&s, 'j', "record_shapes", 0), "1");
    assert_string_equal(seen_metadata(&s, 'j', "with_flops", 0), "1");
    assert_null(seen_metadata(&s, 'j', "with_stack", 0));
    assert_null(seen_metadata(&s, 'j', "profile_memory", 0));
    assert_null(seen_metadata(&s, 'j', "with_modules", 0));
    seen_free(&s);
    free(huge);
    mtp_profile_destroy(prof);
}

static void presets_are_told_at_every_start_in_their_order(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.acc_events = true;
    c.with_stack = c.profile_memory = c.with_modules = true;
    c.schedule = (mtp_schedule){.warmup = 1, .active = 1, .repeat = 3};
    mtp_profile *prof = test_create(&c);
    assert_ok(mtp_profile_preset_metadata_json(prof, "a", "1"));
    assert_ok(mtp_profile_preset_metadata_json(prof, "b", "\"two\""));
    assert_ok(mtp_profile_start(prof));
    for (int i = 0; i < 3; i++)
        assert_ok(mtp_profile_step(prof));
    assert_ok(mtp_profile_preset_metadata_json(prof, "late", "[]"));
    for (int i = 0; i < 3; i++)
        assert_ok(mtp_profile_step(prof));
    assert_ok(mtp_profile_stop(prof));
    seen s = {0};
    seen_profile(&s, prof);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(seen_metadata(&s, 'j', "a", i), "1");
        assert_string_equal(seen_metadata(&s, 'j', "b", i), "\"two\"");
        assert_string_equal(seen_metadata(&s, 'j', "with_stack", i), "1");
        assert_string_equal(seen_metadata(&s, 'j', "profile_memory", i), "1");
        assert_string_equal(seen_metadata(&s, 'j', "with_modules", i), "1");
    }
    assert_null(seen_metadata(&s, 'j', "a", 3));
    assert_non_null(seen_metadata(&s, 'j', "late", 0)); /* the third start */
    assert_null(seen_metadata(&s, 'j', "late", 1));
    size_t a = 0, b = 0;
    for (size_t i = 0; i < s.blobs; i++)
        if (s.blob[i].kind == MTP__CONTROL_METADATA) {
            a = strcmp((char *)s.blob[i].bytes, "ja") == 0 ? i : a;
            b = strcmp((char *)s.blob[i].bytes, "jb") == 0 ? i : b;
        }
    assert_true(a < b);
    seen_free(&s);
    mtp_profile_destroy(prof);
}

static void wrong_metadata_is_refused_in_words(void **state)
{
    (void)state;
    mtp_profile *prof = test_create(NULL);
    assert_int_equal(mtp_profile_add_metadata(prof, "k", "v"), MTP_E_STATE);
    assert_says("metadata 'k': the profile is not active; preset_metadata_json() works at any time");
    assert_int_equal(mtp_profile_preset_metadata_json(prof, "k", "{\"a\":}"), MTP_E_ARG);
    assert_says("metadata 'k': not JSON at byte 5");
    assert_int_equal(mtp_profile_preset_metadata_json(prof, "k", NULL), MTP_E_ARG);
    assert_int_equal(mtp_profile_preset_metadata_json(prof, NULL, "1"), MTP_E_ARG);
    assert_ok(mtp_profile_start(prof));
    assert_int_equal(mtp_profile_add_metadata(prof, NULL, "v"), MTP_E_ARG);
    assert_int_equal(mtp_profile_add_metadata(prof, "k", NULL), MTP_E_ARG);
    assert_int_equal(mtp_profile_add_metadata_json(prof, "k", "plain text"), MTP_E_ARG);
    assert_says("not JSON at byte 0");
    assert_ok(mtp_profile_stop(prof));
    seen s = {0};
    seen_profile(&s, prof);
    assert_null(seen_metadata(&s, 'j', "k", 0)); /* nothing of it was told */
    seen_free(&s);
    assert_int_equal(mtp_profile_add_metadata(prof, "k", "v"), MTP_E_STATE);
    mtp_profile_destroy(prof);
}

static void metadata_that_does_not_fit_is_reported(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 4 * 4096;
    mtp_profile *prof = test_start(&c);
    char *huge = calloc(1, 40001);
    memset(huge, 'h', 40000);
    assert_int_equal(mtp_profile_add_metadata(prof, "huge", huge), MTP_E_NOMEM);
    assert_says("the buffer is full");
    assert_ok(mtp_profile_stop(prof));
    assert_true(ledger_of(prof).lost_definitions > 0);
    free(huge);
    mtp_profile_destroy(prof);
}

/* ------------------------------------------------------------------------------------------- trace ids */

static void the_default_trace_id_is_a_random_uuid(void **state)
{
    (void)state;
    char last[33] = "";
    mtp_profile_config c = test_config(NULL);
    for (int i = 0; i < 50; i++) {
        mtp_profile *prof = test_create(&c);
        assert_null(mtp_profile_trace_id(prof));
        assert_ok(mtp_profile_start(prof));
        const char *id = mtp_profile_trace_id(prof);
        assert_int_equal(strlen(id), 32);
        for (int k = 0; k < 32; k++)
            assert_true(isdigit((unsigned char)id[k]) || (id[k] >= 'A' && id[k] <= 'F'));
        assert_int_equal(id[12], '4');
        assert_true(strchr("89AB", id[16]) != NULL);
        assert_string_not_equal(id, last);
        snprintf(last, sizeof last, "%s", id);
        assert_ok(mtp_profile_stop(prof));
        assert_string_equal(mtp_profile_trace_id(prof), last);
        seen s = {0};
        seen_profile(&s, prof);
        assert_string_equal((const char *)seen_defined(&s, MTP__CONTROL_TRACE_ID, 1)->bytes, last);
        seen_free(&s);
        mtp_profile_destroy(prof);
    }
}

static int ids_made;

static void my_id(void *user, char *out, size_t room)
{
    assert_ptr_equal(user, &ids_made);
    snprintf(out, room, "run-%d", ++ids_made);
}

static void endless_id(void *user, char *out, size_t room)
{
    (void)user;
    memset(out, 'x', room); /* no NUL */
}

static void a_custom_trace_id_is_made_anew_for_each_cycle(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.custom_trace_id = my_id;
    c.user = &ids_made;
    c.schedule = (mtp_schedule){.warmup = 1, .active = 1, .repeat = 2};
    c.acc_events = true;
    mtp_profile *prof = test_start(&c);
    assert_string_equal(mtp_profile_trace_id(prof), "run-1");
    for (int i = 0; i < 4; i++)
        assert_ok(mtp_profile_step(prof));
    assert_string_equal(mtp_profile_trace_id(prof), "run-2");
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(ids_made, 2);
    mtp_profile_destroy(prof);
    c.custom_trace_id = endless_id;
    prof = test_start(&c);
    assert_int_equal(strlen(mtp_profile_trace_id(prof)), 127);
    mtp_profile_destroy(prof);
}

/* -------------------------------------------------------------------------------------------- toggling */

static void toggling_leaves_out_and_takes_in_again(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_create(&c);
    assert_ok(mtp_profile_toggle(prof, false, MTP_CPU)); /* before it is prepared: nothing happens */
    assert_ok(mtp_profile_start(prof));
    assert_int_equal((uint16_t)mtp_recording(), MTP_CPU | MTP_NPU);
    mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
    for (int i = 0; i < 3; i++) {
        mtp_token open = mtp_scope_begin(MTP_NAME("open"));
        assert_ok(mtp_profile_toggle(prof, false, MTP_CPU));
        assert_int_equal((uint16_t)mtp_recording(), MTP_NPU);
        MTP_SCOPE ("left out") {
        }
        mtp_mark(MTP_NAME("left out"));
        mtp_device_event(&work);
        mtp_scope_end(open); /* what was open is closed all the same */
        assert_ok(mtp_profile_toggle(prof, true, MTP_CPU));
        assert_ok(mtp_profile_toggle(prof, false, MTP_NPU));
        assert_int_equal((uint16_t)mtp_recording(), MTP_CPU);
        mtp_device_event(&work);
        assert_ok(mtp_profile_toggle(prof, true, MTP_NPU));
        assert_ok(mtp_profile_toggle(prof, true, MTP_NPU));
        assert_int_equal((uint16_t)mtp_recording(), MTP_CPU | MTP_NPU);
    }
    assert_ok(mtp_profile_toggle(prof, false, MTP_CPU | MTP_NPU));
    assert_int_equal((uint16_t)mtp_recording(), 0);
    assert_true(mtp_profile_is_recording(prof));
    assert_ok(mtp_profile_step(prof)); /* steps are the profile's own */
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_toggle(prof, true, MTP_CPU));
    assert_int_equal(mtp_recording(), 0); /* no recording that could take it */
    seen s = {0};
    seen_profile(&s, prof);
    assert_int_equal(seen_count(&s, MTP__KIND_BEGIN, -1), 3);
    assert_int_equal(seen_count(&s, MTP__KIND_END, -1), 3);
    assert_int_equal(seen_count(&s, MTP__KIND_DEVICE, -1), 3);
    assert_int_equal(seen_count(&s, MTP__KIND_MARK, -1), 0);
    assert_int_equal(seen_count(&s, MTP__KIND_STEP, -1), 2);
    seen_free(&s);
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

static void each_recording_has_a_number_of_its_own(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_create(&c);
    assert_int_equal(MTP_SESSION(mtp_recording()), 0);
    uint32_t last = 0;
    for (int i = 0; i < 3; i++) {
        assert_ok(mtp_profile_start(prof));
        uint32_t session = MTP_SESSION(mtp_recording());
        assert_int_not_equal(session, 0);
        assert_int_not_equal(session, last);
        assert_ok(mtp_profile_toggle(prof, false, MTP_CPU | MTP_NPU)); /* still the same recording */
        assert_int_equal(MTP_SESSION(mtp_recording()), session);
        assert_ok(mtp_profile_toggle(prof, true, MTP_CPU));
        assert_int_equal(MTP_SESSION(mtp_recording()), session);
        last = session;
        assert_ok(mtp_profile_stop(prof));
        assert_int_equal(MTP_SESSION(mtp_recording()), 0);
    }
    mtp_profile_destroy(prof);
}

static void only_what_was_asked_for_at_first_can_be_taken_in(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.activities = MTP_CPU;
    mtp_profile *prof = test_start(&c);
    assert_ok(mtp_profile_toggle(prof, true, MTP_NPU));
    assert_int_equal((uint16_t)mtp_recording(), MTP_CPU);
    assert_int_equal(mtp_profile_toggle(prof, true, 4), MTP_E_ARG);
    assert_says("activities=0x4");
    assert_int_equal(mtp_profile_toggle(prof, true, MTP_WITH_STACK), MTP_E_ARG);
    mtp_profile_destroy(prof);
}

static void what_is_asked_for_is_what_mtp_recording_says(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    assert_int_equal(mtp_recording(), 0);
    c.activities = MTP_NPU;
    c.with_stack = c.with_modules = true;
    mtp_profile *prof = test_start(&c);
    assert_int_equal((uint16_t)mtp_recording(), MTP_NPU | MTP_WITH_STACK | MTP_WITH_MODULES);
    mtp_profile_destroy(prof);
    c = test_config(NULL);
    c.record_shapes = c.with_flops = c.profile_memory = true;
    prof = test_start(&c);
    assert_int_equal((uint16_t)mtp_recording(),
                     MTP_CPU | MTP_NPU | MTP_WITH_SHAPES | MTP_WITH_FLOPS | MTP_WITH_MEMORY);
    mtp_profile_destroy(prof);
}

/* -------------------------------------------------------------------------------------------- warnings */

static void dropped_records_are_reported_with_their_cause(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    c.buffer_bytes = 4 * 4096;
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < 20000; i++)
        mtp_mark(MTP_NAME("too much"));
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(w.count[MTP_WARNING_RECORDS_DROPPED], 1);
    assert_contains(w.text, "buffer_bytes spent");
    char numbers[64];
    mtp_ledger l = ledger_of(prof);
    snprintf(numbers, sizeof numbers, "%llu of %llu records", (unsigned long long)l.dropped,
             (unsigned long long)l.emitted);
    assert_contains(w.text, numbers);
    assert_int_equal(l.emitted, 20001);
    assert_balanced(prof);
    mtp_profile_destroy(prof);

    c.when_full = MTP_KEEP_NEWEST; /* overwriting was configured */
    prof = test_start(&c);
    for (int i = 0; i < 20000; i++)
        mtp_mark(MTP_NAME("too much"));
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(w.count[MTP_WARNING_RECORDS_DROPPED], 1);
    assert_int_equal(ledger_of(prof).emitted, 20001);
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

static void a_spool_that_fails_is_reported_once_and_the_program_continues(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    c.spool = test_path("fails.mtp");
    c.when_full = MTP_STREAM;
    mtp_profile *prof = test_start(&c);
    mtp__fault_plan(1u << MTP__FAULT_GROW, 1, true);
    for (int i = 0; i < 400000; i++)
        mtp_mark(MTP_NAME("on"));
    assert_true(mtp__fault_stop() > 0);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(w.count[MTP_WARNING_SPOOL_FAILED], 1);
    assert_int_equal(w.count[MTP_WARNING_RECORDS_DROPPED], 1);
    assert_contains(w.text, "could not grow: No space left on device");
    assert_contains(w.text, "fails.mtp");
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.emitted, 400001);
    assert_true(l.dropped_by[MTP_DROP_DISK] > 0);
    assert_balanced(prof);
    mtp_profile_destroy(prof);
    seen s = {0};
    assert_ok(seen_spool(&s, test_path("fails.mtp")));
    assert_string_equal(s.problem, "");
    assert_int_equal(s.records, l.kept);
    seen_free(&s);
}

static void a_spool_that_cannot_be_made_is_an_error_of_start(void **state)
{
    (void)state;
    static const char *const bad[] = {"/nowhere/x.mtp", "/dev/full", "/tmp"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        mtp_profile_config c = test_config(NULL);
        c.spool = bad[i];
        mtp_profile *prof = test_create(&c), *other = test_create(NULL);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(mtp_profile_start(prof), MTP_E_IO);
            assert_says(bad[i]);
            assert_false(mtp_profile_is_recording(prof));
            assert_int_equal(mtp_profile_stop(prof), MTP_E_STATE);
        }
        assert_ok(mtp_profile_start(other)); /* nothing was claimed */
        mtp_profile_destroy(other);
        mtp_profile_destroy(prof);
    }
}

/* The message begins with what the user set, and names none of our functions. */
static void a_start_that_fails_says_what_was_asked_for(void **state)
{
    (void)state;
    for (int scheduled = 0; scheduled < 2; scheduled++) {
        mtp_profile_config c = test_config(NULL);
        mtp_profile *prof;
        c.spool = "/nowhere/at/all.mtp";
        if (scheduled)
            c.schedule = (mtp_schedule){.active = 1};
        assert_ok(mtp_profile_create(&c, &prof));
        assert_int_equal(mtp_profile_start(prof), MTP_E_IO);
        assert_string_equal(mtp_last_error(),
                            scheduled
                                ? "step 0: spool: /nowhere/at/all.mtp: its folder cannot be opened: No "
                                  "such file or directory"
                                : "spool: /nowhere/at/all.mtp: its folder cannot be opened: No such file "
                                  "or directory");
        assert_true(mtp_last_error_trail()[0] != 0);
        mtp_profile_destroy(prof);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_start_that_fails_says_what_was_asked_for),
        TEST(calls_before_start_and_after_stop_are_refused),
        TEST(null_profiles_are_refused_or_zero),
        TEST(one_profile_at_a_time_is_active),
        TEST(a_profile_that_waits_is_active_too),
        TEST(a_callback_may_look_but_not_drive),
        TEST(a_stopped_profile_may_be_started_again),
        TEST(a_trace_may_be_driven_by_hand),
        TEST(a_profile_may_be_destroyed_at_any_time),
        TEST(starting_and_stopping_for_long_does_not_grow),
        TEST(metadata_is_told_as_it_was_given),
        TEST(presets_are_told_at_every_start_in_their_order),
        TEST(wrong_metadata_is_refused_in_words),
        TEST(metadata_that_does_not_fit_is_reported),
        TEST(the_default_trace_id_is_a_random_uuid),
        TEST(a_custom_trace_id_is_made_anew_for_each_cycle),
        TEST(toggling_leaves_out_and_takes_in_again),
        TEST(each_recording_has_a_number_of_its_own),
        TEST(only_what_was_asked_for_at_first_can_be_taken_in),
        TEST(what_is_asked_for_is_what_mtp_recording_says),
        TEST(dropped_records_are_reported_with_their_cause),
        TEST(a_spool_that_fails_is_reported_once_and_the_program_continues),
        TEST(a_spool_that_cannot_be_made_is_an_error_of_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
