/* Unit: emitted == kept + dropped == requested; kept == found in the trace. For each policy, with racing
 * threads, while other threads start, stop, read and query the profile. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <pthread.h>
#include <sched.h>
#include "trace/trace.h"

enum {
    THREADS = 4,
    POLICIES = 5
};

/* 0, 1: stop, keep newest in memory; 2, 3, 4: stop, keep newest, stream in a file */
static mtp_profile_config policy_config(int k, uint64_t bytes)
{
    mtp_profile_config c = test_config(NULL);
    c.when_full = (mtp_when_full)(k < 2 ? k : k - 2);
    c.buffer_bytes = bytes;
    if (k >= 2)
        c.spool = test_path("ledger.mtp");
    return c;
}

typedef struct recorder_thread {
    int kind;
    uint64_t count;    /* how often */
    uint64_t attempts; /* records asked for */
    uint64_t tokens;   /* begins that were recorded */
    atomic_bool *stop; /* instead of count */
} recorder_thread;

static void *record(void *arg)
{
    recorder_thread *me = arg;
    for (uint64_t i = 0;
         me->stop != NULL ? !atomic_load_explicit(me->stop, memory_order_relaxed) : i < me->count; i++) {
        mtp_token token = 0;
        char name[24];
        if (me->stop != NULL && i % 64 == 0) /* the thread that starts and stops needs to run too */
            sched_yield();
        switch ((me->kind + (int)(i & 1)) % 4) {
        case 0:
            token = mtp_scope_begin(MTP_NAME("scope"));
            break;
        case 1:
            mtp_counter(MTP_NAME("counter"), (double)i);
            me->attempts++;
            continue;
        case 2:
            token = mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "t%d", (int)(i % 40)));
            break;
        case 3: {
            int64_t dims[2] = {(int64_t)(i % 20), 3};
            mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
            mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
            op.inputs = &in;
            op.input_count = 1;
            mtp_op_begin(&op);
            me->attempts += 1 + (op.token != 0);
            me->tokens += op.token != 0;
            mtp_op_end(&op);
            continue;
        }
        }
        me->attempts += 1 + (token != 0);
        me->tokens += token != 0;
        mtp_scope_end(token);
    }
    return NULL;
}

static void run_threads(recorder_thread *me, uint64_t count)
{
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        me[i] = (recorder_thread){.kind = i, .count = count};
        pthread_create(&t[i], NULL, record, &me[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
}

/* The ledger written into a file is the one that the API returns. */
static void assert_same_in_file(mtp_profile *prof, const mtp_ledger *l)
{
    seen s = {0};
    assert_ok(seen_spool(&s, prof->config.spool));
    assert_string_equal(s.problem, "");
    assert_true(s.report.complete);
    assert_int_equal(s.report.damaged + s.report.unsealed, 0);
    assert_int_equal(s.records, l->kept);
    const seen_words *told = NULL, *w;
    for (size_t i = 0; (w = seen_control(&s, MTP__CONTROL_LEDGER, i)) != NULL; i++)
        told = w;
    assert_non_null(told);
    assert_int_equal(told->word[0], l->emitted);
    assert_int_equal(told->word[1], l->kept);
    assert_int_equal(told->word[2], l->dropped);
    for (int k = 0; k < MTP_DROP_CAUSES; k++)
        assert_int_equal(told->word[4 + k], l->dropped_by[k]);
    seen_free(&s);
}

static void ample_room_keeps_all_under_every_policy(void **state)
{
    (void)state;
    for (int k = 0; k < POLICIES; k++) {
        recorder_thread me[THREADS];
        mtp_profile_config c = policy_config(k, 16u << 20);
        c.record_shapes = true;
        mtp_profile *prof = test_start(&c);
        run_threads(me, (uint64_t)test_scaled(20000));
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        uint64_t asked = 1;
        for (int i = 0; i < THREADS; i++)
            asked += me[i].attempts;
        assert_int_equal(l.emitted, asked);
        assert_int_equal(l.kept, asked);
        assert_int_equal(l.dropped, 0);
        assert_int_equal(l.threads, THREADS + 1);
        assert_balanced(prof);
        if (k >= 2)
            assert_same_in_file(prof, &l);
        mtp_profile_destroy(prof);
    }
}

static void too_little_room_counts_every_record_under_every_policy(void **state)
{
    (void)state;
    for (int k = 0; k < POLICIES; k++) {
        recorder_thread me[THREADS];
        mtp_profile_config c = policy_config(k, 24 * 4096);
        if (k == 4)
            c.spool_bytes = 60 * 4096;
        mtp_profile *prof = test_start(&c);
        run_threads(me, (uint64_t)test_scaled(60000));
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        uint64_t asked = 1;
        for (int i = 0; i < THREADS; i++)
            asked += me[i].attempts;
        assert_int_equal(l.emitted, asked);
        assert_true(l.dropped > 0 && l.kept > 0);
        static const mtp_drop cause[] = {MTP_DROP_BUDGET, MTP_DROP_OVERWRITTEN, MTP_DROP_BUDGET,
                                         MTP_DROP_OVERWRITTEN, MTP_DROP_DISK};
        assert_true(l.dropped_by[cause[k]] > 0);
        assert_balanced(prof);
        if (k >= 2)
            assert_same_in_file(prof, &l);
        mtp_profile_destroy(prof);
    }
}

/* Keep-newest keeps the newest records of each thread, without gaps. */
static void *count_up(void *arg)
{
    for (uint64_t i = 0; i < *(uint64_t *)arg; i++)
        mtp_counter(MTP_NAME("n"), (double)i);
    return NULL;
}

static void keep_newest_keeps_the_last_records_of_each_thread(void **state)
{
    (void)state;
    for (int k = 1; k <= 3; k += 2) {
        uint64_t count = (uint64_t)test_scaled(50000);
        mtp_profile_config c = policy_config(k, 64 * 4096);
        mtp_profile *prof = test_start(&c);
        pthread_t t[THREADS];
        for (int i = 0; i < THREADS; i++)
            pthread_create(&t[i], NULL, count_up, &count);
        for (int i = 0; i < THREADS; i++)
            pthread_join(t[i], NULL);
        assert_ok(mtp_profile_stop(prof));
        seen s = {0};
        seen_profile(&s, prof);
        assert_string_equal(s.problem, "");
        double next = -1;
        uint32_t stream = 0;
        for (size_t i = 0; i < s.records; i++) {
            double value;
            if (s.record[i].kind != MTP__KIND_COUNTER)
                continue;
            memcpy(&value, &s.record[i].word[1], 8);
            if (s.record[i].stream == stream)
                assert_true(value == next);
            else
                assert_true(stream == 0 || next == (double)count); /* the previous one ran to its end */
            stream = s.record[i].stream;
            next = value + 1;
        }
        assert_true(next == (double)count);
        seen_free(&s);
        assert_balanced(prof);
        mtp_profile_destroy(prof);
    }
}

/* ---------------------------------------------------------------------------------------------- churn */

typedef struct watcher {
    mtp_profile *prof;
    atomic_bool stop;
    _Atomic uint64_t looks;
    int wrong;
} watcher;

static mtp_status count_words(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    watcher *w = user;
    uint32_t at = 0;
    while (at < count) { /* whole records, as many words as were promised */
        uint32_t length = MTP__WORD0_LENGTH(words[at]);
        length = length != 0 ? length : (uint32_t)(words[at + 1] >> 32);
        unsigned kind = MTP__WORD0_KIND(words[at]);
        w->wrong += length == 0 || (kind == MTP__KIND_CONTROL) != (chunk->stream == 0);
        if (kind == MTP__KIND_BEGIN || kind == MTP__KIND_COUNTER) /* present with its words, or absent */
            w->wrong += (uint32_t)words[at + 1] == 0;
        at += length != 0 ? length : count;
    }
    w->wrong += at != count;
    return MTP_OK;
}

/* Queries and reads continuously, on a thread that neither drives the profile nor records. */
static void *watch(void *arg)
{
    watcher *w = arg;
    while (!atomic_load(&w->stop)) {
        mtp_ledger l = MTP_LEDGER_INIT;
        w->wrong += mtp_profile_ledger(w->prof, &l) != MTP_OK;
        w->wrong += l.bytes > 64u << 20 || l.threads > 1000;
        w->looks++;
        if (w->looks % 8 == 0)
            w->wrong += mtp__recorder_visit(w->prof->recorder, count_words, w) != MTP_OK;
        sched_yield();
    }
    return NULL;
}

/* Threads record without pause through many starts and stops. Each cycle's ledger balances and matches the
 * records; and over all cycles there are as many begins as tokens. */
static void starts_and_stops_beside_racing_threads_lose_nothing(void **state)
{
    (void)state;
    for (int k = 0; k < POLICIES; k++) {
        warnings warned;
        mtp_profile_config c = policy_config(k, 4u << 20);
        recorder_thread me[THREADS];
        pthread_t t[THREADS];
        atomic_bool stop;
        uint64_t begins = 0, tokens = 0, lost = 0;
        memset(&warned, 0, sizeof warned);
        c.on_warning = test_warned;
        c.user = &warned;
        c.record_shapes = true;
        atomic_init(&stop, false);
        mtp_profile *prof = test_create(&c);
        for (int i = 0; i < THREADS; i++) {
            me[i] = (recorder_thread){.kind = i, .stop = &stop};
            pthread_create(&t[i], NULL, record, &me[i]);
        }
        for (int cycle = 0; cycle < test_scaled(k < 2 ? 200 : 60); cycle++) {
            assert_ok(mtp_profile_start(prof));
            for (uint64_t pause = test_below(3); pause > 0; pause--)
                sched_yield();
            assert_ok(mtp_profile_stop(prof));
            mtp_ledger l = ledger_of(prof);
            assert_int_equal(l.emitted, l.kept + l.dropped);
            if (k >= 2 && cycle % 20 != 0)
                continue; /* the file grows, so it is read only occasionally */
            seen s = {0};
            seen_profile(&s, prof);
            assert_string_equal(s.problem, "");
            assert_int_equal(s.records, l.kept);
            if (k < 2)
                begins += seen_count(&s, MTP__KIND_BEGIN, -1);
            lost += l.dropped;
            seen_free(&s);
        }
        atomic_store(&stop, true);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(t[i], NULL);
            tokens += me[i].tokens;
        }
        if (k < 2 && lost == 0)
            assert_int_equal(begins, tokens);
        assert_int_equal(warned.count[MTP_WARNING_THREAD_STUCK], 0);
        assert_int_equal(warned.count[MTP_WARNING_LEDGER_MISMATCH], 0);
        mtp_profile_destroy(prof);
    }
}

static void asking_and_reading_while_threads_record_is_safe(void **state)
{
    (void)state;
    for (int k = 0; k < POLICIES; k++) {
        mtp_profile_config c = policy_config(k, 32 * 4096);
        recorder_thread me[THREADS];
        pthread_t watching;
        c.record_shapes = true;
        mtp_profile *prof = test_start(&c);
        watcher w = {.prof = prof};
        pthread_create(&watching, NULL, watch, &w);
        while (atomic_load(&w.looks) == 0) /* else a busy machine may not run it in time */
            sched_yield();
        run_threads(me, (uint64_t)test_scaled(40000));
        atomic_store(&w.stop, true);
        pthread_join(watching, NULL);
        assert_int_equal(w.wrong, 0);
        assert_ok(mtp_profile_stop(prof));
        uint64_t asked = 1;
        for (int i = 0; i < THREADS; i++)
            asked += me[i].attempts;
        assert_int_equal(ledger_of(prof).emitted, asked);
        assert_balanced_as(prof, (seen){.holes = k == 1});
        mtp_profile_destroy(prof);
    }
}

/* Stores that miss the cache fill the store buffer, so that others see later stores late: the busy mark of
 * a record is then most likely to be missed. */
static void *hammer(void *arg)
{
    enum {
        FAR = 32 << 20
    };
    recorder_thread *me = arg;
    volatile char *far = malloc(FAR);
    for (uint32_t at = 1; !atomic_load_explicit(me->stop, memory_order_relaxed);) {
        for (int i = 0; i < 24; i++) {
            at = at * 1664525u + 1013904223u;
            far[at % FAR] = (char)i;
        }
        mtp_token token = mtp_scope_begin(MTP_NAME("hammer"));
        me->tokens += token != 0;
        mtp_scope_end(token);
    }
    free((void *)(uintptr_t)far);
    return NULL;
}

/* As fast as possible: stop()'s barrier exists for the one record that it would miss. */
static void no_record_slips_through_a_stop(void **state)
{
    (void)state;
    mtp_profile_config c = policy_config(MTP_KEEP_NEWEST, 8 * 4096);
    recorder_thread me[2];
    pthread_t t[2];
    atomic_bool stop;
    atomic_init(&stop, false);
    mtp_profile *prof = test_create(&c);
    for (int i = 0; i < 2; i++) {
        me[i] = (recorder_thread){.stop = &stop};
        pthread_create(&t[i], NULL, hammer, &me[i]);
    }
    double until = test_now() + 2;
    for (int cycle = 0; cycle < test_scaled(20000) && test_now() < until; cycle++) {
        assert_ok(mtp_profile_start(prof));
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.emitted, l.kept + l.dropped);
        seen s = {0};
        seen_profile(&s, prof);
        assert_string_equal(s.problem, "");
        assert_int_equal(s.records, l.kept);
        seen_free(&s);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    mtp_profile_destroy(prof);
}

/* A flight recorder runs for days, through any number of cycles: each must leave little behind. */
static void many_cycles_do_not_use_up_a_flight_recorder(void **state)
{
    (void)state;
    for (int k = 1; k <= 3; k += 2) { /* in memory, in a file */
        enum {
            CYCLES = 300
        };
        mtp_profile_config c = policy_config(k, 128 * 4096);
        c.acc_events = true;
        mtp_profile *prof = test_create(&c);
        for (int cycle = 0; cycle < CYCLES; cycle++) {
            assert_ok(mtp_profile_start(prof));
            for (int i = 0; i < 600; i++)
                mtp_mark(MTP_NAME("flight"));
            assert_ok(mtp_profile_stop(prof));
        }
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.emitted, CYCLES * 601);
        assert_int_equal(l.dropped, l.dropped_by[MTP_DROP_OVERWRITTEN]); /* and nothing for lack of space */
        assert_int_equal(l.lost_definitions, 0);
        assert_balanced(prof);
        seen s = {0};
        seen_profile(&s, prof);
        assert_true(s.control_chunks < 64);
        const seen_words *w;
        uint64_t oldest = UINT64_MAX;
        for (size_t i = 0; (w = seen_control(&s, MTP__CONTROL_CYCLE, i)) != NULL; i++)
            if (w->word[0] >> 32 == 0 && w->word[0] < oldest)
                oldest = w->word[0];
        for (size_t i = 0; i < s.records; i++) /* the end of each cycle that still has records is known */
            assert_true(s.record[i].cycle >= oldest);
        seen_free(&s);
        if (k >= 2)
            assert_ok(seen_spool(&s, prof->config.spool));
        assert_string_equal(s.problem, "");
        assert_int_equal(s.report.damaged + s.report.unsealed, 0);
        seen_free(&s);
        mtp_profile_destroy(prof);
    }
}

static void *make_names(void *arg)
{
    atomic_bool *stop = arg;
    static atomic_uint number;
    while (!atomic_load(stop)) {
        char name[32];
        snprintf(name, sizeof name, "churned name %u", atomic_fetch_add(&number, 1) % 20000);
        uint32_t id = mtp_name(name);
        mtp_mark(id);
        sched_yield();
    }
    return NULL;
}

/* A name created during a start or a stop is in every recording that uses it. */
static void names_made_beside_starts_and_stops_are_defined(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 16u << 20;
    pthread_t t[2];
    atomic_bool stop;
    atomic_init(&stop, false);
    mtp_profile *prof = test_create(&c);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, make_names, &stop);
    for (int cycle = 0; cycle < test_scaled(400); cycle++) {
        assert_ok(mtp_profile_start(prof));
        sched_yield();
        assert_ok(mtp_profile_stop(prof));
        assert_balanced(prof);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    mtp_profile_destroy(prof);
}

static void *short_life(void *arg)
{
    uint64_t *attempts = arg;
    for (int i = 0; i < 20; i++) {
        mtp_mark(MTP_NAME("short life"));
        ++*attempts;
    }
    return NULL;
}

/* Threads start and end all the time, in a budget that is too small for them. */
static void short_threads_under_every_policy_are_counted(void **state)
{
    (void)state;
    for (int k = 0; k < POLICIES; k++) {
        mtp_profile_config c = policy_config(k, 16 * 4096);
        mtp_profile *prof = test_start(&c);
        uint64_t asked = 1;
        for (int round = 0; round < test_scaled(200); round++) {
            pthread_t t[THREADS];
            uint64_t attempts[THREADS] = {0};
            for (int i = 0; i < THREADS; i++)
                pthread_create(&t[i], NULL, short_life, &attempts[i]);
            for (int i = 0; i < THREADS; i++) {
                pthread_join(t[i], NULL);
                asked += attempts[i];
            }
        }
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.emitted, asked);
        assert_int_equal(l.emitted, l.kept + l.dropped);
        seen s = {0};
        seen_profile(&s, prof);
        assert_int_equal(s.records, l.kept);
        seen_free(&s);
        mtp_profile_destroy(prof);
    }
}

static void keep_dropped(void *user, mtp_warning code, const char *text)
{
    if (code == MTP_WARNING_RECORDS_DROPPED)
        snprintf(user, 512, "%s", text);
}

/* The advice fits the cause: no advice to stream when it is already streaming to a full disk. */
static void advice_on_lost_records_is_of_their_cause(void **state)
{
    (void)state;
    static const struct {
        mtp_when_full when_full;
        uint64_t spool_bytes;
        bool full_disk;
        const char *says;
    } cases[] = {{MTP_STOP_WHEN_FULL, 0, false, "a larger buffer_bytes keeps more; when_full"},
                 {MTP_STREAM, 0, true, "make room on its disk, or put the spool on another"},
                 {MTP_STREAM, 128 << 10, false, "use a larger spool_bytes, or 0 for no limit"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char said[512] = "";
        mtp_profile_config c = test_config(NULL);
        c.on_warning = keep_dropped;
        c.user = said;
        c.when_full = cases[i].when_full;
        c.spool_bytes = cases[i].spool_bytes;
        c.spool = c.when_full == MTP_STREAM ? test_path("advice.mtp") : NULL;
        mtp_profile *prof = test_start(&c);
        if (cases[i].full_disk)
            mtp__fault_plan(1u << MTP__FAULT_GROW, 1, true);
        for (int k = 0; k < 200000; k++)
            MTP_SCOPE ("scope") {
            }
        assert_ok(mtp_profile_stop(prof));
        mtp__fault_stop();
        assert_contains(said, cases[i].says);
        assert_true(c.when_full != MTP_STREAM || strstr(said, "MTP_STREAM") == NULL);
        mtp_profile_destroy(prof);
    }
}

/* ----------------------------------------------------------------------------------- what little costs */

static pthread_barrier_t all_there;

static void *one_scope(void *arg)
{
    MTP_SCOPE ("one") {
    }
    if (arg != NULL)
        pthread_barrier_wait(&all_there);
    return NULL;
}

/* Pieces of 64 KiB, as by default. */
static mtp_profile *start_with_large_pieces(mtp_when_full policy, const char *path)
{
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 32u << 20;
    c.chunk_bytes = 65536;
    c.when_full = policy;
    c.spool = path;
    return test_start(&c);
}

static void many_threads_with_a_scope_each_share_pieces(void **state)
{
    (void)state;
    enum {
        MANY = 400
    };
    static pthread_t t[MANY];
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++) {
        mtp_profile *prof = start_with_large_pieces((mtp_when_full)policy,
                                                    policy == MTP_STREAM ? test_path("many.mtp") : NULL);
        pthread_barrier_init(&all_there, NULL, MANY + 1);
        for (int i = 0; i < MANY; i++)
            assert_int_equal(pthread_create(&t[i], NULL, one_scope, prof), 0);
        pthread_barrier_wait(&all_there);
        for (int i = 0; i < MANY; i++)
            pthread_join(t[i], NULL);
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.kept, 2 * MANY + 1);
        assert_true(l.bytes <= 2u << 20);
        assert_balanced(prof);
        pthread_barrier_destroy(&all_there);
        mtp_profile_destroy(prof);
    }
}

static void short_threads_and_cycles_make_no_large_file(void **state)
{
    (void)state;
    for (int cycles = 0; cycles < 2; cycles++) {
        const char *path = test_path("short.mtp");
        mtp_profile *prof = start_with_large_pieces(MTP_STREAM, path);
        const uint64_t names = ledger_of(prof).bytes; /* the process has many, from earlier tests */
        int rounds = test_scaled(600);
        for (int i = 0; i < rounds; i++) {
            pthread_t t;
            assert_int_equal(pthread_create(&t, NULL, one_scope, NULL), 0);
            one_scope(NULL);
            pthread_join(t, NULL);
            if (cycles) {
                assert_ok(mtp_profile_stop(prof));
                assert_ok(mtp_profile_start(prof));
            }
        }
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.kept, 4 * rounds + 1 + (cycles ? rounds : 0)); /* a step's mark with each start */
        assert_true(l.bytes - names <= (uint64_t)rounds * 1024 + (256u << 10));
        assert_balanced(prof);
        assert_same_in_file(prof, &l);
        mtp_profile_destroy(prof);
    }
}

/* A scope counts as two records, whether it is kept or not. */
static void a_scope_that_is_dropped_counts_as_two_records(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        mtp_profile_config c = policy_config(0, 4 * 4096);
        mtp_profile *prof = test_start(&c);
        for (int i = 0; i < 10000; i++) {
            mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
            if (kind == 0)
                mtp_scope_end(mtp_scope_begin(MTP_NAME("scope")));
            else if (kind == 1)
                mtp_scope_end(mtp_scope_begin_text("text", 4));
            else
                mtp_op_begin(&op), mtp_op_end(&op);
        }
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.emitted, 20001);
        assert_true(l.dropped_by[MTP_DROP_BUDGET] == l.dropped && l.dropped > 10000);
        assert_balanced(prof);
        mtp_profile_destroy(prof);
    }
}

static uint32_t span_named(const mtp_trace *t, const char *name)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        if (strcmp(mtp__trace_get_text(t, t->name[i]).bytes, name) == 0)
            return i;
    fail_msg("no span '%s'", name);
    return 0;
}

/* There is no room for an end; later there is room again. Later records are not inside the scope that has
 * ended, and the scope is marked as unfinished. */
static void an_end_that_is_dropped_does_not_nest_the_rest_of_its_thread(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        mtp_profile_config c = policy_config(0, 4096 * 4096); /* the names of earlier tests fit too */
        mtp_profile *prof = test_start(&c);
        mtp_token outer = mtp_scope_begin(MTP_NAME("outer")), inner = mtp_scope_begin(MTP_NAME("inner"));
        mtp__writer *w = &mtp__self;
        while (w->end - w->cur > 0) /* an end would need one word */
            if ((w->end - w->cur) % 2 == 1)
                mtp_counter(MTP_NAME("fills"), 1);
            else
                mtp_mark(MTP_NAME("fills"));
        atomic_store(&prof->recorder->pool.refusing, 1 + MTP_DROP_BUDGET);
        mtp_scope_end(inner);
        if (way == 1)
            MTP_SCOPE ("dropped") {
            }
        atomic_store(&prof->recorder->pool.refusing, 0);
        MTP_SCOPE ("after") {
        }
        mtp_scope_end(outer);
        assert_ok(mtp_profile_stop(prof));
        mtp_ledger l = ledger_of(prof);
        assert_int_equal(l.dropped, way == 1 ? 3 : 1);
        assert_balanced(prof);
        mtp_trace *t;
        assert_ok(mtp_profile_trace(prof, &t));
        uint32_t o = span_named(t, "outer"), i = span_named(t, "inner"), a = span_named(t, "after");
        assert_int_equal(t->parent[a], o);
        assert_int_equal(t->parent[i], o);
        assert_int_equal(t->flags[i] & MTP__SPAN_UNFINISHED, MTP__SPAN_UNFINISHED);
        assert_int_equal((t->flags[o] | t->flags[a]) & MTP__SPAN_UNFINISHED, 0);
        assert_true(t->end[i] <= t->start[a] && t->end[o] >= t->end[a]);
        assert_int_equal(t->unfinished, 1);
        assert_int_equal(t->unmatched_ends, 0);
        mtp_trace_destroy(t);
        mtp_profile_destroy(prof);
    }
}

/* Records of cycles after the budget was spent are in the file's ledger, although there is no room for
 * another one. */
static void the_files_ledger_counts_cycles_that_found_no_room(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_KEEP_NEWEST; policy++) {
        mtp_profile_config c = test_config(NULL);
        c.buffer_bytes = 8 * 4096;
        c.chunk_bytes = 4096;
        c.when_full = (mtp_when_full)policy;
        c.acc_events = true;
        c.spool = test_path("cycles.mtp");
        mtp_profile *prof = test_start(&c);
        int name = 0;
        for (int cycle = 0; cycle < 40; cycle++) {
            for (int i = 0; i < 500; i++) {
                char text[32];
                int n = snprintf(text, sizeof text, "name %d", name++);
                mtp_scope_end(mtp_scope_begin_text(text, (size_t)n));
            }
            assert_ok(mtp_profile_stop(prof));
            mtp_ledger l = ledger_of(prof);
            assert_true(l.emitted >= (uint64_t)(cycle + 1) * 1000);
            assert_same_in_file(prof, &l);
            mtp_trace_info info = MTP_TRACE_INFO_INIT;
            assert_ok(mtp_trace_file_info(c.spool, NULL, &info));
            assert_int_equal(info.ledger.emitted, l.emitted);
            assert_int_equal(info.ledger.lost_definitions, l.lost_definitions);
            if (cycle < 39)
                assert_ok(mtp_profile_start(prof));
        }
        mtp_profile_destroy(prof);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_files_ledger_counts_cycles_that_found_no_room), /* first: no room for names of the others */
        TEST(advice_on_lost_records_is_of_their_cause),
        TEST(ample_room_keeps_all_under_every_policy),
        TEST(too_little_room_counts_every_record_under_every_policy),
        TEST(keep_newest_keeps_the_last_records_of_each_thread),
        TEST(starts_and_stops_beside_racing_threads_lose_nothing),
        TEST(no_record_slips_through_a_stop),
        TEST(many_cycles_do_not_use_up_a_flight_recorder),
        TEST(asking_and_reading_while_threads_record_is_safe),
        TEST(names_made_beside_starts_and_stops_are_defined),
        TEST(short_threads_under_every_policy_are_counted),
        TEST(many_threads_with_a_scope_each_share_pieces),
        TEST(short_threads_and_cycles_make_no_large_file),
        TEST(a_scope_that_is_dropped_counts_as_two_records),
        TEST(an_end_that_is_dropped_does_not_nest_the_rest_of_its_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
