/* Unit: record/profile's state machine: what each step does, for any sequence of actions from a schedule. */
#include "tests/test.h"
#include <pthread.h>

#define MAX_STEPS 40

/* One run: its actions, and the effects that the table of reference/torch-profiler.md demands. */
typedef struct run {
    mtp_action action[MAX_STEPS];
    int steps;
    bool acc, spool;
    /* expected, by the model below */
    bool recording;
    int starts, ready;
    int warned[16];
    bool kept[MAX_STEPS];
    bool kept_at_ready[MAX_STEPS];
    int kept_now;
    bool prepared;
    /* seen */
    warnings got;
    int wrong_at_ready;
    mtp_profile *prof;
} run;

static run *running;

static mtp_action replay(void *user, uint64_t step)
{
    (void)user;
    return running->action[step];
}

static void warned(void *user, mtp_warning code, const char *text)
{
    (void)user;
    test_warned(&running->got, code, text);
}

/* The steps whose counters are present; -1: an inconsistency. */
static int kept_steps(mtp_profile *prof, bool *kept)
{
    seen s = {0};
    int odd = 0, count = 0;
    int begins[MAX_STEPS] = {0}, open = 0;
    seen_profile(&s, prof);
    memset(kept, 0, MAX_STEPS * sizeof *kept);
    if (s.problem[0] != 0)
        fprintf(stderr, "problem: %s\n", s.problem), odd++;
    for (size_t i = 0; i < s.records; i++) {
        const seen_record *r = &s.record[i];
        if (r->kind == MTP__KIND_COUNTER) {
            double value;
            memcpy(&value, &r->word[1], sizeof value);
            odd += kept[(int)value];
            kept[(int)value] = true;
            count++;
        } else if (r->kind == MTP__KIND_BEGIN) { /* the step's own scope, with its number */
            odd += strcmp(seen_name(&s, (uint32_t)r->word[0]), "ProfilerStep#") != 0;
            odd +=
                (r->word[0] >> 32 & 0xff) != MTP_SCOPE_STEP || (r->word[0] >> 40 & 0xff) != MTP__HAS_NUMBER;
            begins[r->word[1]]++;
            open++;
        } else if (r->kind == MTP__KIND_END) {
            open--;
        }
        odd += open < 0 || open > 1;
    }
    for (int i = 0; i < MAX_STEPS; i++)
        odd += begins[i] != kept[i];
    odd += open != 0 && !prof->recording;
    if (!prof->recording) {
        mtp_ledger l = ledger_of(prof);
        odd += l.kept != s.records || l.emitted != l.kept + l.dropped;
    }
    seen_free(&s);
    return odd != 0 ? -1 : count;
}

static void ready(mtp_profile *prof, void *user)
{
    (void)user;
    bool kept[MAX_STEPS];
    running->got.ready++;
    if (kept_steps(prof, kept) < 0 || prof->recording)
        running->wrong_at_ready++;
    memcpy(running->kept_at_ready, kept, sizeof kept);
}

/* The model: the table, letter by letter. */
static void model_prepare(run *r)
{
    if (r->prepared && !r->acc && !r->spool)
        memset(r->kept, 0, sizeof r->kept);
    r->prepared = true;
}

static void model_letters(run *r, const char *letters)
{
    for (; *letters != 0; letters++)
        switch (*letters) {
        case 'P':
            model_prepare(r);
            break;
        case 'S':
            r->recording = true;
            r->starts++;
            break;
        case 'X':
            r->recording = false;
            break;
        case 'R':
            r->ready++;
            break;
        case 'n':
            r->warned[MTP_WARNING_WARMUP_THEN_NONE]++;
            break;
        case 'o':
            r->warned[MTP_WARNING_RECORD_THEN_NONE]++;
            break;
        case 'w':
            r->warned[MTP_WARNING_RECORD_THEN_WARMUP]++;
            break;
        }
}

static const char *model_table(mtp_action from, int to)
{
    enum {
        EXIT = 4
    };
    if (from == MTP_ACTION_NONE)
        return to == MTP_ACTION_WARMUP ? "P" : to == MTP_ACTION_NONE || to == EXIT ? "" : "PS";
    if (from == MTP_ACTION_WARMUP)
        return to == MTP_ACTION_NONE ? "nSX" : to == MTP_ACTION_WARMUP ? "" : to == EXIT ? "SX" : "S";
    if (from == MTP_ACTION_RECORD)
        return to == MTP_ACTION_NONE ? "oX" : to == MTP_ACTION_WARMUP ? "wX" : to == EXIT ? "XR" : "";
    return to == MTP_ACTION_NONE || to == EXIT ? "XR" : to == MTP_ACTION_WARMUP ? "XRP" : "XRPS";
}

static void assert_kept(run *r, const char *when, int step)
{
    bool kept[MAX_STEPS];
    int count = kept_steps(r->prof, kept);
    if (count < 0 || memcmp(kept, r->kept, sizeof kept) != 0) {
        for (int i = 0; i < r->steps; i++)
            fprintf(stderr, "%s%s%s ", mtp_action_text(r->action[i]), r->kept[i] ? "+" : "-",
                    kept[i] ? "+" : "-");
        fail_msg("%s step %d: other steps are kept than should be", when, step);
    }
}

static void go(run *r)
{
    static const char *const text[] = {"Incorrect schedule: WARMUP followed by NONE",
                                       "Incorrect schedule: RECORD followed by NONE",
                                       "Incorrect schedule: RECORD followed by WARMUP"};
    running = r;
    r->recording = false;
    int starts = r->starts;
    assert_ok(mtp_profile_start(r->prof));
    model_letters(r, model_table(MTP_ACTION_NONE, (int)r->action[0]));
    for (int step = 0; step < r->steps; step++) {
        if (step > 0) {
            memcpy(r->kept_at_ready, r->kept, sizeof r->kept);
            int before = r->got.total, ready_before = r->got.ready;
            assert_ok(mtp_profile_step(r->prof));
            bool saved[MAX_STEPS];
            memcpy(saved, r->kept, sizeof saved);
            model_letters(r, model_table(r->action[step - 1], (int)r->action[step]));
            if (r->got.ready > ready_before) /* the callback saw the cycle that ended */
                assert_memory_equal(r->kept_at_ready, saved, sizeof saved);
            for (int k = 0; k < 3; k++)
                if (r->got.total > before && r->warned[MTP_WARNING_WARMUP_THEN_NONE + k] > 0 &&
                    r->got.count[MTP_WARNING_WARMUP_THEN_NONE + k] == 0)
                    fail_msg("%s was not said", text[k]);
        }
        assert_int_equal(mtp_profile_step_number(r->prof), step);
        assert_int_equal(mtp_profile_action(r->prof), r->action[step]);
        assert_int_equal(mtp_profile_is_recording(r->prof), r->recording);
        assert_int_equal((mtp_recording() & MTP_CPU) != 0, r->recording);
        mtp_counter(MTP_NAME("step"), step);
        r->kept[step] |= r->recording;
        assert_int_equal(r->got.ready, r->ready);
    }
    bool ever = r->starts > starts;
    assert_ok(mtp_profile_stop(r->prof));
    model_letters(r, model_table(r->action[r->steps - 1], 4));
    r->warned[MTP_WARNING_NOTHING_RECORDED] += !ever;
    assert_kept(r, "after", r->steps);
    assert_int_equal(r->got.ready, r->ready);
    assert_int_equal(r->wrong_at_ready, 0);
    for (int k = MTP_WARNING_WARMUP_THEN_NONE; k <= MTP_WARNING_LEDGER_MISMATCH; k++)
        if (k != MTP_WARNING_EVENTS_CLEARED && r->got.count[k] != r->warned[k])
            fail_msg("warning %d came %d times, not %d", k, r->got.count[k], r->warned[k]);
    assert_int_equal(mtp_profile_step(r->prof), MTP_E_STATE);
}

static void run_create(run *r)
{
    mtp_profile_config c = test_config(NULL);
    c.on_warning = warned;
    c.on_trace_ready = ready;
    c.schedule_callback = replay;
    c.acc_events = r->acc;
    if (r->spool)
        c.spool = test_path("states.mtp");
    r->prof = test_create(&c);
}

/* Must be the first test: it happens once per process. */
static void clearing_events_is_reported_once_per_process(void **state)
{
    (void)state;
    warnings w[3];
    for (int i = 0; i < 3; i++) {
        mtp_profile_config c = test_config(&w[i]);
        c.schedule = (mtp_schedule){.warmup = 1, .active = 1};
        c.acc_events = i == 0;
        mtp_profile *prof = test_start(&c);
        for (int step = 0; step < 8; step++)
            assert_ok(mtp_profile_step(prof));
        assert_ok(mtp_profile_stop(prof));
        mtp_profile_destroy(prof);
    }
    assert_int_equal(w[0].count[MTP_WARNING_EVENTS_CLEARED], 0); /* acc_events: nothing is cleared */
    assert_int_equal(w[1].count[MTP_WARNING_EVENTS_CLEARED], 1);
    assert_int_equal(w[2].count[MTP_WARNING_EVENTS_CLEARED], 0);
    assert_contains(w[1].text, "set acc_events=True");
}

static void every_pair_of_actions_does_what_the_table_says(void **state)
{
    (void)state;
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            for (int c = 0; c < 4; c++)
                for (int steps = 1; steps <= 3; steps++) {
                    run r = {.action = {(mtp_action)a, (mtp_action)b, (mtp_action)c}, .steps = steps};
                    run_create(&r);
                    go(&r);
                    mtp_profile_destroy(r.prof);
                }
}

static void random_sequences(bool acc, bool spool, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        run r = {.acc = acc, .spool = spool};
        run_create(&r);
        for (int again = 0; again < 3; again++) { /* a stopped profile may be started again */
            if (again > 0 && (acc || spool))
                break; /* counters with the same number would count as duplicates */
            r.steps = 1 + (int)test_below(MAX_STEPS - 1);
            for (int i = 0; i < r.steps; i++)
                r.action[i] = (mtp_action)test_below(4);
            go(&r);
        }
        mtp_profile_destroy(r.prof);
    }
}

static void any_sequence_does_what_the_table_says(void **state)
{
    (void)state;
    random_sequences(false, false, test_scaled(400));
}

static void acc_events_keeps_the_events_of_all_cycles(void **state)
{
    (void)state;
    random_sequences(true, false, test_scaled(200));
}

static void a_spool_keeps_the_events_of_all_cycles(void **state)
{
    (void)state;
    random_sequences(false, true, test_scaled(100));
}

static void the_usual_schedule_saves_each_cycle_once(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    c.schedule = (mtp_schedule){.wait = 1, .warmup = 1, .active = 3, .repeat = 2};
    c.acc_events = true;
    mtp_profile *prof = test_start(&c);
    for (int step = 0; step < 20; step++) {
        MTP_SCOPE ("work") {
        }
        assert_int_equal(w.ready, step >= 10 ? 2 : step >= 5 ? 1 : 0);
        assert_ok(mtp_profile_step(prof));
    }
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(w.ready, 2);
    assert_int_equal(w.total, 0);
    seen s = {0};
    seen_profile(&s, prof);
    assert_string_equal(s.problem, "");
    assert_int_equal(seen_count(&s, MTP__KIND_STEP, -1), 6);
    static const uint64_t steps[] = {2, 3, 4, 7, 8, 9};
    for (size_t i = 0; i < COUNT(steps); i++)
        assert_int_equal(seen_nth(&s, MTP__KIND_STEP, i)->word[0], steps[i]);
    assert_int_equal(seen_count(&s, MTP__KIND_BEGIN, -1), 12); /* six steps and what they did */
    assert_int_equal(seen_count(&s, MTP__KIND_END, -1), 12);
    assert_int_equal(seen_nth(&s, -1, 0)->cycle, 1);
    assert_int_equal(seen_nth(&s, -1, s.records - 1)->cycle, 2);
    const seen_words *cycle = seen_control(&s, MTP__CONTROL_CYCLE, 0);
    assert_int_equal(cycle->word[0], (uint64_t)1 << 32 | 1);
    assert_int_equal(seen_control(&s, MTP__CONTROL_CYCLE, 1)->word[0], 1);
    assert_int_equal(seen_control(&s, MTP__CONTROL_CYCLE, 2)->word[0], (uint64_t)1 << 32 | 2);
    assert_int_equal(seen_control(&s, MTP__CONTROL_CYCLE, 3)->word[0], 2);
    seen_free(&s);
    mtp_profile_destroy(prof);
}

static void without_a_schedule_all_is_recorded_and_steps_are_marked(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    mtp_profile *prof = test_start(&c);
    assert_int_equal(mtp_profile_action(prof), MTP_ACTION_RECORD);
    for (int step = 0; step < 5; step++)
        assert_ok(mtp_profile_step(prof));
    assert_int_equal(w.ready, 0);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(w.ready, 1);
    seen s = {0};
    seen_profile(&s, prof);
    assert_int_equal(s.records, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(seen_nth(&s, MTP__KIND_STEP, i)->words, 2);
        assert_int_equal(seen_nth(&s, MTP__KIND_STEP, i)->word[0], i);
    }
    seen_free(&s);
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

static void a_schedule_that_never_recorded_says_how_far_it_was(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    c.schedule = (mtp_schedule){.wait = 3, .warmup = 2, .active = 4, .skip_first = 10};
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < 12; i++)
        assert_ok(mtp_profile_step(prof));
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(w.count[MTP_WARNING_NOTHING_RECORDED], 1);
    assert_contains(w.text, "step() was called 12 times");
    assert_contains(w.text, "records from step 15 on (and saves at step 19)");
    assert_int_equal(w.ready, 0);
    mtp_profile_destroy(prof);

    c.schedule.skip_first_wait = 1;
    prof = test_start(&c);
    assert_ok(mtp_profile_stop(prof));
    assert_contains(w.text, "records from step 12 on (and saves at step 16)");
    mtp_profile_destroy(prof);

    c.schedule = (mtp_schedule){.wait = 1, .warmup = 1, .active = 1, .skip_first = INT64_MAX};
    prof = test_start(&c);
    assert_ok(mtp_profile_stop(prof));
    assert_contains(w.text, "records from step 9223372036854775809 on");
    mtp_profile_destroy(prof);
}

static mtp_action nonsense_at_two(void *user, uint64_t step)
{
    (void)user;
    return step == 2 ? (mtp_action)17 : step == 3 ? (mtp_action)-1 : MTP_ACTION_RECORD;
}

static void a_callback_that_answers_nonsense_is_an_error_and_means_none(void **state)
{
    (void)state;
    warnings w;
    mtp_profile_config c = test_config(&w);
    c.schedule_callback = nonsense_at_two;
    mtp_profile *prof = test_start(&c);
    assert_ok(mtp_profile_step(prof));
    assert_int_equal(mtp_profile_step(prof), MTP_E_ARG);
    assert_says("schedule_callback returned 17 for step 2");
    assert_int_equal(mtp_profile_action(prof), MTP_ACTION_NONE);
    assert_false(mtp_profile_is_recording(prof));
    assert_int_equal(mtp_profile_step(prof), MTP_E_ARG);
    assert_ok(mtp_profile_step(prof)); /* and it goes on */
    assert_true(mtp_profile_is_recording(prof));
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

/* Memory belongs to its device's activity, whatever the flags. */
static void memory_is_not_recorded_while_its_activity_is_off(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.profile_memory = true;
    mtp_profile *prof = test_start(&c);
    for (int round = 0; round < 4; round++) { /* all on, CPU off, all off, CPU on */
        if (round > 0)
            assert_ok(mtp_profile_toggle(prof, round == 3, round == 2 ? MTP_NPU : MTP_CPU));
        for (int npu = 0; npu < 2; npu++) {
            mtp_device device = npu ? MTP_DEVICE_NPU(0) : MTP_DEVICE_CPU;
            mtp_memory_tag(device, &c, MTP_MEMORY_INPUT);
            mtp_memory_event(device, &c, 8, 8, 8);
            mtp_memory_existing(device, &c, 8, MTP_MEMORY_INPUT);
        }
    }
    assert_ok(mtp_profile_stop(prof));
    seen s = {0};
    seen_profile(&s, prof);
    static const mtp__kind kind[] = {MTP__KIND_TAG, MTP__KIND_MEMORY, MTP__KIND_EXISTING};
    for (size_t i = 0; i < COUNT(kind); i++)
        assert_int_equal(seen_count(&s, (int)kind[i], -1), 4); /* 2 + 1 + 0 + 1 */
    seen_free(&s);
    mtp_profile_destroy(prof);
}

/* ------------------------------------------------------------------------------------- more than one
 * driver */

typedef struct second_driver {
    mtp_profile *prof;
    bool own_thread;
    int refused, said; /* calls */
} second_driver;

static void *drive_too(void *arg)
{
    second_driver *d = arg;
    mtp_status (*const call[])(mtp_profile *) = {mtp_profile_start,       mtp_profile_step,
                                                 mtp_profile_stop,        mtp_profile_prepare_trace,
                                                 mtp_profile_start_trace, mtp_profile_stop_trace};
    for (size_t i = 0; i < COUNT(call); i++) {
        d->refused += call[i](d->prof) == MTP_E_STATE;
        d->said += strstr(mtp_last_error(), d->own_thread ? "another thread" : "inside another call") != NULL;
    }
    return NULL;
}

static void while_it_stops(mtp__testpoint point, void *user)
{
    second_driver *d = user;
    pthread_t t;
    if (point != MTP__POINT_STOP_GATE)
        return;
    if (!d->own_thread)
        drive_too(d); /* as a handler would */
    else if (pthread_create(&t, NULL, drive_too, d) == 0)
        pthread_join(t, NULL);
}

static void while_one_call_drives_a_profile_others_are_refused(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        mtp_profile_config c = test_config(NULL);
        second_driver d = {test_start(&c), own != 0, 0, 0};
        MTP_SCOPE ("scope") {
        }
        mtp__testpoint_set(while_it_stops, &d);
        assert_ok(mtp_profile_stop(d.prof));
        mtp__testpoint_set(NULL, NULL);
        assert_int_equal(d.refused, 6);
        assert_int_equal(d.said, 6);
        assert_balanced(d.prof);
        assert_int_equal(ledger_of(d.prof).emitted, 3);
        assert_ok(mtp_profile_start(d.prof));
        assert_ok(mtp_profile_stop(d.prof));
        mtp_profile_destroy(d.prof);
    }
}

/* A C program jumps out of a callback, as a C++ program throws: profiles still work afterwards. */
static jmp_buf out;

static void jump_out(mtp_profile *prof, void *user)
{
    (void)prof;
    (void)user;
    longjmp(out, 1);
}

static void a_jump_out_of_on_trace_ready_blocks_nobody(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    for (int stepping = 0; stepping < 2; stepping++) {
        c.on_trace_ready = jump_out;
        c.schedule = (mtp_schedule){.active = stepping};
        mtp_profile *prof = test_start(&c);
        if (setjmp(out) == 0) {
            (void)(stepping ? mtp_profile_step : mtp_profile_stop)(prof);
            fail_msg("on_trace_ready was not called");
        }
        c.on_trace_ready = NULL;
        assert_int_equal(mtp_profile_stop(prof),
                         stepping ? MTP_OK : MTP_E_STATE); /* a finished one stays finished */
        mtp_profile *next = test_start(&c);
        assert_ok(mtp_profile_stop(next));
        mtp_profile_destroy(next);
        mtp_profile_destroy(prof);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(clearing_events_is_reported_once_per_process),
        TEST(every_pair_of_actions_does_what_the_table_says),
        TEST(any_sequence_does_what_the_table_says),
        TEST(acc_events_keeps_the_events_of_all_cycles),
        TEST(a_spool_keeps_the_events_of_all_cycles),
        TEST(the_usual_schedule_saves_each_cycle_once),
        TEST(without_a_schedule_all_is_recorded_and_steps_are_marked),
        TEST(a_schedule_that_never_recorded_says_how_far_it_was),
        TEST(a_callback_that_answers_nonsense_is_an_error_and_means_none),
        TEST(memory_is_not_recorded_while_its_activity_is_off),
        TEST(while_one_call_drives_a_profile_others_are_refused),
        TEST(a_jump_out_of_on_trace_ready_blocks_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
