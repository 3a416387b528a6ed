/* Unit: every allocation, mapping and file call of a whole profile is made to fail, once and permanently. The
 * program continues, nothing leaks, the ledger stays exact, and afterwards everything works again. */
#include "tests/test.h"
#include <pthread.h>

typedef struct plan {
    unsigned mask;
    int nth;
    bool forever;
} plan;

typedef struct whole_run {
    bool spool, scheduled;
    mtp_when_full when_full;
    uint64_t attempts; /* records asked for while recording */
    uint64_t starts;   /* cycles that were recorded */
    int failures;      /* of cold calls */
    int ready, fired;
    char odd[256]; /* the first violation */
} whole_run;

static void odd(whole_run *w, bool is, const char *what)
{
    if (is && w->odd[0] == 0)
        snprintf(w->odd, sizeof w->odd, "%s", what);
}

static void count_ready(mtp_profile *prof, void *user)
{
    whole_run *w = user;
    w->ready++;
    odd(w, (uint64_t)w->ready > prof->cycles, "a cycle was saved that was not recorded");
}

static void expect(whole_run *w, mtp_status status)
{
    w->failures += status != MTP_OK;
    odd(w, status != MTP_OK && mtp_last_error()[0] == 0, "a failure has no story");
}

static void *other_thread(void *arg)
{
    whole_run *w = arg;
    int64_t dims[3] = {2, 3, 4};
    mtp_input input = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 3, .dims = dims};
    bool on = mtp_recording() != 0;
    for (int i = 0; i < 300; i++) {
        char name[32];
        mtp_op op = MTP_OP_INIT(MTP_NAME("fault op"));
        dims[0] = i;
        op.inputs = op.outputs = &input;
        op.input_count = op.output_count = 1;
        op.args = "text of the op";
        mtp_op_begin(&op);
        mtp_token t = mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "fault %d", i));
        mtp_counter(MTP_NAME("fault counter"), i);
        w->attempts += on ? 3u + (op.token != 0) + (t != 0) : 0u;
        mtp_scope_end(t);
        mtp_op_end(&op);
    }
    return NULL;
}

static void record(whole_run *w)
{
    pthread_t t;
    w->attempts += mtp_recording() != 0;
    mtp_mark(MTP_NAME("fault mark"));
    if (pthread_create(&t, NULL, other_thread, w) == 0)
        pthread_join(t, NULL);
}

static void drive(whole_run *w, mtp_profile *prof)
{
    expect(w, mtp_profile_preset_metadata_json(prof, "preset", "[1]"));
    mtp_status started = mtp_profile_start(prof);
    expect(w, started);
    odd(w, started != MTP_OK && mtp_recording() != 0, "a start that failed records");
    for (int i = 0; i < (w->scheduled ? 6 : 2); i++) {
        record(w);
        mtp_status stepped = mtp_profile_step(prof);
        odd(w, started != MTP_OK && stepped != MTP_E_STATE, "a step without a start");
        if (started == MTP_OK)
            expect(w, stepped);
        if (mtp_profile_is_recording(prof))
            expect(w, mtp_profile_add_metadata(prof, "while", "recording"));
    }
    mtp_status stopped = mtp_profile_stop(prof);
    if (started == MTP_OK)
        expect(w, stopped);
}

/* With the faults off again: do the records match the ledger? */
static void look(whole_run *w, mtp_profile *prof)
{
    mtp_ledger l = ledger_of(prof);
    seen s = {0};
    seen_profile(&s, prof);
    w->starts = prof->cycles;
    odd(w, l.emitted != l.kept + l.dropped, "the ledger does not balance");
    odd(w, l.kept != s.records, "the ledger keeps what is not there");
    odd(w, s.problem[0] != 0 && l.lost_definitions == 0, s.problem);
    /* the profile's own records: a mark and a scope per cycle, or a mark per step; an end only if its
     * begin was kept */
    uint64_t least = w->scheduled ? 2 * w->starts : 3 * w->starts;
    odd(w, l.emitted < w->attempts + least || l.emitted > w->attempts + 3 * w->starts,
        "not every record that was asked for is in the ledger, once");
    if (w->odd[0] != 0)
        fprintf(stderr, "%llu asked for, %llu starts, %llu emitted, %llu kept, %zu seen; %s\n",
                (unsigned long long)w->attempts, (unsigned long long)w->starts, (unsigned long long)l.emitted,
                (unsigned long long)l.kept, s.records, s.problem);
    seen_free(&s);
}

static whole_run run_all(bool spool, bool scheduled, mtp_when_full when_full, plan p)
{
    whole_run w = {.spool = spool, .scheduled = scheduled, .when_full = when_full};
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = NULL;
    c.on_trace_ready = count_ready;
    c.user = &w;
    c.record_shapes = true;
    c.buffer_bytes = 64 * 4096;
    c.when_full = w.when_full;
    c.acc_events = true;
    if (w.spool)
        c.spool = test_path("faults.mtp");
    if (w.scheduled)
        c.schedule = (mtp_schedule){.wait = 1, .warmup = 1, .active = 1};
    mtp__fault_plan(p.mask, p.nth, p.forever);
    expect(&w, mtp_profile_create(&c, &prof));
    if (prof != NULL)
        drive(&w, prof);
    w.fired = mtp__fault_stop();
    odd(&w, prof == NULL && w.fired == 0, "no profile, and no reason");
    if (prof == NULL)
        return w;
    look(&w, prof);
    mtp__fault_plan(MTP__FAULTS_ALL, 1, true); /* the end needs nothing */
    mtp_profile_destroy(prof);
    mtp__fault_stop();
    return w;
}

static void sweep(bool spool, bool scheduled, mtp_when_full when_full, unsigned mask, bool forever)
{
    const plan none = {0, 0, false};
    whole_run w = run_all(spool, scheduled, when_full, none); /* the process now has what it keeps for good */
    assert_string_equal(w.odd, "");
    assert_int_equal(w.failures, 0);
    assert_int_equal(w.ready, scheduled ? 2 : 1);
    long live = mtp__alloc_live();
    int step = test_scaled(100) >= 100 ? 1 : 7, fired = 0;
    for (int nth = 1;; nth += nth < 40 ? 1 : step) {
        w = run_all(spool, scheduled, when_full, (plan){mask, nth, forever});
        if (w.odd[0] != 0)
            fail_msg("fault %d%s: %s", nth, forever ? " and on" : "", w.odd);
        if (mtp__alloc_live() != live)
            fail_msg("fault %d%s: %ld allocations leaked", nth, forever ? " and on" : "",
                     mtp__alloc_live() - live);
        assert_int_equal(mtp_recording(), 0);
        fired += w.fired;
        if (w.fired == 0)
            break;
    }
    assert_true(fired > 0);
    test_row(4, (uint64_t)fired, "calls failed%s, no leak", forever ? " for good" : "");
    assert_int_equal(w.failures, 0); /* the last one met no fault, and everything worked again */
    assert_int_equal(w.ready, scheduled ? 2 : 1);
}

#define MEMORY (1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP)

static void a_profile_in_memory_survives_each_failure_once(void **state)
{
    (void)state;
    sweep(false, false, MTP_STOP_WHEN_FULL, MEMORY, false);
}

static void a_profile_in_memory_survives_failures_for_good(void **state)
{
    (void)state;
    sweep(false, false, MTP_KEEP_NEWEST, MEMORY, true);
}

static void a_scheduled_profile_survives_each_failure_once(void **state)
{
    (void)state;
    sweep(false, true, MTP_KEEP_NEWEST, MEMORY, false);
}

static void a_scheduled_profile_survives_failures_for_good(void **state)
{
    (void)state;
    sweep(false, true, MTP_STOP_WHEN_FULL, MEMORY, true);
}

static void a_spooled_profile_survives_each_failure_once(void **state)
{
    (void)state;
    sweep(true, true, MTP_STREAM, MTP__FAULTS_ALL & ~(1u << MTP__FAULT_READ), false);
}

static void a_spooled_profile_survives_failures_for_good(void **state)
{
    (void)state;
    sweep(true, true, MTP_STREAM, MTP__FAULTS_ALL & ~(1u << MTP__FAULT_READ), true);
}

static void each_kind_of_failure_alone_is_survived(void **state)
{
    (void)state;
    static const mtp__fault kind[] = {MTP__FAULT_ALLOC, MTP__FAULT_MAP, MTP__FAULT_OPEN, MTP__FAULT_GROW,
                                      MTP__FAULT_TRUNCATE};
    for (size_t i = 0; i < COUNT(kind); i++)
        for (int forever = 0; forever < 2; forever++)
            sweep(true, false, MTP_KEEP_NEWEST, 1u << kind[i], forever);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_profile_in_memory_survives_each_failure_once),
        TEST(a_profile_in_memory_survives_failures_for_good),
        TEST(a_scheduled_profile_survives_each_failure_once),
        TEST(a_scheduled_profile_survives_failures_for_good),
        TEST(a_spooled_profile_survives_each_failure_once),
        TEST(a_spooled_profile_survives_failures_for_good),
        TEST(each_kind_of_failure_alone_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
