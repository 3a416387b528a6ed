/* Unit: scopes that end in any order: record/events (tokens, slots), trace/from_records (begins found by
 * slot), against a reference model. Tasks interleaved on a thread, overwritten chunks, drops, toggles, old
 * spools.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "tests/test.h"
#include "trace/trace.h"

#define THREADS 3
#define ACTS 6000
#define OPEN_MAX 40

/* ------------------------------------------------------------------------------- a clock that is known */

static _Thread_local uint64_t told; /* timestamp of this thread's next records; 0: the clock's */

static uint64_t mono(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t told_clock(void)
{
    return told != 0 ? told : mono();
}

/* -------------------------------------------------------------------------------------------- the model */

typedef struct
    act { /* a counter, which shows its time in the trace, and a begin or an end of scope `scope` */
    uint32_t scope;
    bool begins;
} act;

typedef struct scope {
    uint32_t name;
    int begin, end; /* acts; -1: none */
    mtp_token token;
    mtp_op op;
    bool is_op;
} scope;

typedef struct actor { /* a thread */
    uint64_t seed;
    long tid;
    act acts[ACTS];
    scope *scopes; /* ACTS of them */
    uint32_t act_count, scope_count;
    uint64_t emitted;
    uint32_t ids[8], counter;
    int nested; /* percent: how often the scope begun last is ended */
} actor;

static uint64_t draw(actor *a, uint64_t below)
{
    a->seed = a->seed * 6364136223846793005u + 1442695040888963407u;
    return (a->seed >> 33) % below;
}

static void note(actor *a, uint32_t which, bool begins)
{
    uint64_t now = mono();
    told = now > told + 2 ? now : told + 2;
    mtp_counter(a->counter, a->act_count);
    a->acts[a->act_count++] = (act){which, begins};
    a->emitted += 2;
}

static void begin(actor *a)
{
    scope *s = &a->scopes[a->scope_count];
    *s = (scope){.name = (uint32_t)draw(a, 8), .begin = (int)a->act_count, .end = -1};
    note(a, a->scope_count++, true);
    s->is_op = draw(a, 3) == 0;
    if (s->is_op) {
        s->op = (mtp_op)MTP_OP_INIT(a->ids[s->name]);
        mtp_op_begin(&s->op);
        s->token = s->op.token;
    } else {
        s->token = mtp_scope_begin(a->ids[s->name]);
    }
}

static void end(actor *a, uint32_t which)
{
    scope *s = &a->scopes[which];
    s->end = (int)a->act_count;
    note(a, which, false);
    if (s->token == 0)
        a->emitted--;
    if (s->is_op)
        mtp_op_end(&s->op);
    else
        mtp_scope_end(s->token);
}

static void *act_out(void *arg)
{
    actor *a = arg;
    uint32_t open[OPEN_MAX], count = 0;
    a->tid = syscall(SYS_gettid);
    while (a->act_count < ACTS) {
        if (count == 0 || (count < OPEN_MAX && draw(a, 2) == 0)) {
            open[count++] = a->scope_count;
            begin(a);
            continue;
        }
        uint32_t at = (int)draw(a, 100) < a->nested ? count - 1 : (uint32_t)draw(a, count);
        end(a, open[at]);
        memmove(&open[at], &open[at + 1], (--count - at) * sizeof *open);
    }
    told = 0;
    return NULL;
}

/* ------------------------------------------------------------------------------------- what was recorded */

typedef struct kept {
    uint32_t stream;
    uint64_t from, to; /* the stream's records that were kept */
} kept;

typedef struct kept_list {
    kept item[16];
    uint32_t count;
} kept_list;

static mtp_status see(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    kept_list *list = user;
    uint32_t k = 0, records = 0;
    if (chunk->stream == 0 || count == 0)
        return MTP_OK;
    while (k < list->count && list->item[k].stream != chunk->stream)
        k++;
    for (uint32_t at = 0; at < count; at += MTP__WORD0_LENGTH(words[at]))
        records++;
    if (k == list->count)
        list->item[list->count++] = (kept){chunk->stream, chunk->first, chunk->first};
    assert_int_equal(list->item[k].to, chunk->first);
    list->item[k].to = chunk->first + records;
    return MTP_OK;
}

static bool is_kept(const kept *k, int which)
{
    return which >= 0 && 2 * (uint64_t)which + 1 >= k->from && 2 * (uint64_t)which + 1 < k->to;
}

typedef struct expected {
    int64_t start, end;
    uint32_t name, flags;
    int begin;
} expected;

static int by_place(const void *a, const void *b)
{
    const expected *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->end != y->end)
        return x->end > y->end ? -1 : 1;
    return x->begin - y->begin;
}

static uint32_t track_of(const mtp_trace *t, long tid)
{
    for (uint32_t k = 0; k < t->track_count; k++)
        if (t->tracks[k].tid == tid && !t->tracks[k].on_device)
            return k;
    fail_msg("thread %ld has no track", tid);
    return 0;
}

/* The end of a scope that was never ended: the end of the trace or, where ends were dropped, the last
 * record of its thread. */
static int64_t open_until(const mtp_trace *t, uint32_t track)
{
    int64_t last = INT64_MIN;
    if (t->ledger.dropped_by[MTP_DROP_BUDGET] == 0)
        return t->last_ns;
    for (uint32_t i = 0; i < t->instant_count; i++)
        if (t->instants[i].track == track && t->instants[i].ts > last)
            last = t->instants[i].ts;
    for (uint32_t i = 0; i < t->tracks[track].count; i++) {
        uint32_t span = t->tracks[track].first + i;
        int64_t known = (t->flags[span] & MTP__SPAN_UNFINISHED) != 0 ? t->start[span] : t->end[span];
        last = known > last ? known : last;
    }
    return last;
}

/* Every span of the track matches the model. Returns the number of ends whose begins are missing. */
static uint64_t compare(const mtp_trace *t, const actor *a, const kept *k, const char *const *names)
{
    uint32_t track = track_of(t, a->tid), count = 0;
    int64_t *at = malloc(ACTS * sizeof *at);
    expected *want = malloc(ACTS * sizeof *want);
    uint64_t unmatched = 0;
    for (uint32_t i = 0; i < ACTS; i++)
        at[i] = INT64_MIN;
    for (uint32_t i = 0; i < t->instant_count; i++)
        if (t->instants[i].track == track)
            at[(uint32_t)t->instants[i].value] = t->instants[i].ts;
    for (uint32_t i = 0; i < a->scope_count; i++) {
        const scope *s = &a->scopes[i];
        bool ends = s->end >= 0 && s->token != 0 && is_kept(k, s->end);
        if (!is_kept(k, s->begin)) {
            unmatched += ends;
            continue;
        }
        if (at[s->begin] == INT64_MIN) /* its counter was the last one evicted */
            at[s->begin] = t->start[t->tracks[track].first];
        want[count++] = (expected){at[s->begin], ends ? at[s->end] : open_until(t, track), s->name,
                                   ends ? 0 : MTP__SPAN_UNFINISHED, s->begin};
    }
    qsort(want, count, sizeof *want, by_place);
    assert_int_equal(t->tracks[track].count, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t span = t->tracks[track].first + i, parent = t->parent[span];
        assert_int_equal(t->start[span], want[i].start);
        assert_int_equal(t->end[span], want[i].end);
        assert_int_equal(t->flags[span] & MTP__SPAN_UNFINISHED, want[i].flags);
        assert_string_equal(mtp__trace_get_text(t, t->name[span]).bytes, names[want[i].name]);
        if (parent != MTP__NONE)
            assert_true(t->start[parent] <= t->start[span] && t->end[parent] >= t->end[span]);
    }
    free(at);
    free(want);
    return unmatched;
}

/* Spans of a row are nested or disjoint. */
static void assert_clean_export(mtp_trace *t)
{
    const char *path = test_path("interleaved.json");
    mtp_check *check;
    assert_ok(mtp_trace_export(t, path, NULL));
    assert_ok(mtp_trace_check_file(path, NULL, &check));
    for (size_t i = 0; i < mtp_check_count(check); i++)
        if (mtp_check_finding(check, i)->rule == 7)
            fail_msg("%s", mtp_check_finding(check, i)->what);
    mtp_check_destroy(check);
}

static const char *const names[8] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static actor *play(uint64_t seed, int nested)
{
    actor *actors = calloc(THREADS, sizeof *actors);
    pthread_t thread[THREADS];
    for (int k = 0; k < THREADS; k++) {
        actors[k].scopes = calloc(ACTS, sizeof(scope));
        actors[k].seed = seed * 31 + (uint64_t)k;
        actors[k].nested = nested;
        actors[k].counter = mtp_name("act");
        for (int i = 0; i < 8; i++)
            actors[k].ids[i] = mtp_name(names[i]);
        pthread_create(&thread[k], NULL, act_out, &actors[k]);
    }
    for (int k = 0; k < THREADS; k++)
        pthread_join(thread[k], NULL);
    return actors;
}

static void one_round(mtp_when_full policy, uint64_t bytes, bool spool, uint64_t seed, int nested)
{
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = bytes;
    c.chunk_bytes = 4096;
    c.when_full = policy;
    c.spool = spool ? test_path("interleaved.mtp") : NULL;
    mtp__clock_hook_set(told_clock);
    mtp_profile *prof = test_start(&c);
    /* No anchors by the actors: one that was preempted is told an old time, which contradicts the system's clocks. */
    atomic_store(&prof->recorder->last_anchor, UINT64_MAX);
    uint64_t before = ledger_of(prof).emitted;
    actor *actors = play(seed, nested);
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    uint64_t emitted = before, unmatched = 0;
    for (int k = 0; k < THREADS; k++)
        emitted += actors[k].emitted;
    assert_int_equal(ledger_of(prof).emitted, emitted);
    assert_balanced(prof);
    kept_list list = {0};
    assert_ok(mtp__recorder_visit(prof->recorder, see, &list));
    mtp_trace *t;
    assert_ok(spool ? mtp_trace_open(c.spool, NULL, &t) : mtp_profile_trace(prof, &t));
    seen s = {0};
    seen_profile(&s, prof);
    for (int k = 0; k < THREADS; k++)
        for (uint32_t i = 0; i < list.count; i++) {
            const seen_blob *thread = seen_defined(&s, MTP__CONTROL_THREAD, list.item[i].stream);
            if (thread->tid == (uint32_t)actors[k].tid)
                unmatched += compare(t, &actors[k], &list.item[i], names);
        }
    seen_free(&s);
    assert_int_equal(t->unmatched_ends, unmatched);
    assert_int_equal(t->clock_faults + t->damaged_chunks, 0);
    assert_clean_export(t);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
    for (int k = 0; k < THREADS; k++)
        free(actors[k].scopes);
    free(actors);
}

static void ends_find_their_begins_in_any_order(void **state)
{
    (void)state;
    static const int nested[] = {0, 60, 97, 100};
    for (uint64_t i = 0; i < (uint64_t)test_scaled(4); i++)
        one_round(MTP_STOP_WHEN_FULL, 16u << 20, i % 2 == 1, test_random(), nested[i % COUNT(nested)]);
}

static void ends_whose_begins_were_overwritten_end_nothing_else(void **state)
{
    (void)state;
    static const int nested[] = {0, 60, 97, 100};
    for (uint64_t i = 0; i < (uint64_t)test_scaled(8); i++)
        one_round(MTP_KEEP_NEWEST, 32 * 4096, i % 2 == 1, test_random(), nested[i / 2 % COUNT(nested)]);
}

static void begins_without_room_leave_ends_to_their_own(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < (uint64_t)test_scaled(4); i++)
        one_round(MTP_STOP_WHEN_FULL, 32 * 4096, i % 2 == 1, test_random(), 30 * (int)(i % 4));
}

static void streamed_scopes_end_in_any_order(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < (uint64_t)test_scaled(4); i++)
        one_round(MTP_STREAM, 32 * 4096, true, test_random(), 30 * (int)(i % 4));
}

/* -------------------------------------------------------------------------------------------- by hand */

/* All readings differ. */
static atomic_uint_fast64_t stepping_now;
static uint64_t stepping(void)
{
    return atomic_fetch_add(&stepping_now, 1000) + 1000;
}

static mtp_profile *start(void)
{
    mtp_profile_config c = test_config(NULL);
    mtp__clock_hook_set(stepping);
    return test_start(&c);
}

static mtp_trace *trace_of(mtp_profile *prof)
{
    mtp_trace *t;
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_profile_destroy(prof);
    return t;
}

static uint32_t span_of(const mtp_trace *t, const char *name)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        if (strcmp(mtp__trace_get_text(t, t->name[i]).bytes, name) == 0)
            return i;
    fail_msg("no span '%s'", name);
    return 0;
}

/* Two tasks of an event loop: the first to begin is the first to end. An op is inside the scope that
 * encloses it in time. */
static void tasks_that_take_turns_keep_their_times(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    mtp_token loop = mtp_scope_begin(MTP_NAME("loop"));
    mtp_token brief = mtp_scope_begin(MTP_NAME("brief")), lasting = mtp_scope_begin(MTP_NAME("lasting"));
    mtp_scope_end(brief);
    MTP_SCOPE ("op") {
    }
    mtp_scope_end(lasting);
    mtp_scope_end(loop);
    mtp_trace *t = trace_of(prof);
    uint32_t a = span_of(t, "brief"), b = span_of(t, "lasting"), op = span_of(t, "op"),
             around = span_of(t, "loop");
    assert_true(t->start[a] < t->start[b] && t->end[a] <= t->start[op] && t->end[op] <= t->end[b]);
    assert_int_equal(t->parent[op], b);
    assert_int_equal(t->parent[b], around);
    assert_int_equal(t->parent[a], around);
    assert_int_equal(t->flags[b] & MTP__SPAN_OVERLAP, MTP__SPAN_OVERLAP);
    assert_int_equal(t->unmatched_ends + t->unfinished, 0);
    assert_clean_export(t);
    mtp_trace_destroy(t);
}

/* Once the tasks are done, scopes nest again: ends take one word, as usual. */
static void only_ends_out_of_order_are_named(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    mtp_token a = mtp_scope_begin(MTP_NAME("a")), b = mtp_scope_begin(MTP_NAME("b"));
    mtp_scope_end(a);
    mtp_scope_end(b);
    for (int i = 0; i < 3; i++)
        MTP_SCOPE ("plain") {
        }
    assert_ok(mtp_profile_stop(prof));
    mtp__clock_hook_set(NULL);
    seen s = {0};
    seen_profile(&s, prof);
    assert_string_equal(s.problem, "");
    size_t two = 0, ends = 0;
    for (size_t i = 0; i < s.records; i++)
        if (s.record[i].kind == MTP__KIND_END) {
            ends++;
            two += s.record[i].words == 2;
        }
    assert_int_equal(ends, 5);
    assert_int_equal(two, 1);
    seen_free(&s);
    mtp_profile_destroy(prof);
}

/* Always two tasks at a time: depths grow, the reader's list does not. */
static void overlapping_without_end_costs_nothing(void **state)
{
    (void)state;
    enum {
        ROUNDS = 200000
    };
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 32u << 20;
    mtp_profile *prof = test_start(&c);
    mtp_token before = mtp_scope_begin(MTP_NAME("task"));
    for (int i = 0; i < ROUNDS; i++) {
        mtp_token next = mtp_scope_begin(MTP_NAME("task"));
        mtp_scope_end(before);
        before = next;
    }
    mtp_scope_end(before);
    mtp_trace *t = trace_of(prof);
    assert_int_equal(t->span_count, ROUNDS + 1);
    assert_int_equal(t->unmatched_ends + t->unfinished, 0);
    int64_t latest = t->end[0];
    for (uint32_t i = 1; i < t->span_count;
         i++) { /* of those that begin in the same tick, the longest is first */
        assert_true(t->start[i] >= t->start[i - 1] && t->start[i] <= latest);
        assert_true(t->end[i] >= latest || t->start[i] == t->start[i - 1]);
        latest = t->end[i] > latest ? t->end[i] : latest;
    }
    mtp_trace_destroy(t);
}

/* First begun, first ended, a hundred thousand deep. */
static void a_queue_of_scopes_is_read_quickly(void **state)
{
    (void)state;
    enum {
        DEEP = 100000
    };
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 16u << 20;
    mtp_profile *prof = test_start(&c);
    mtp_token *token = malloc(DEEP * sizeof *token);
    for (int i = 0; i < DEEP; i++)
        token[i] = mtp_scope_begin(MTP_NAME("queued"));
    for (int i = 0; i < DEEP; i++)
        mtp_scope_end(token[i]);
    free(token);
    mtp_trace *t = trace_of(prof);
    assert_int_equal(t->span_count, DEEP);
    assert_int_equal(t->unmatched_ends + t->unfinished, 0);
    for (uint32_t i = 1; i < DEEP; i++)
        assert_true(t->start[i] > t->start[i - 1] ? t->end[i] >= t->end[i - 1] : t->end[i] <= t->end[i - 1]);
    mtp_trace_destroy(t);
}

static void an_end_given_twice_is_counted(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    mtp_token outer = mtp_scope_begin(MTP_NAME("outer")), a = mtp_scope_begin(MTP_NAME("a"));
    mtp_scope_end(a);
    mtp_scope_end(a);
    mtp_scope_end(outer);
    mtp_trace *t = trace_of(prof);
    assert_int_equal(t->unmatched_ends, 1);
    assert_int_equal(t->unfinished, 0);
    assert_true(t->end[span_of(t, "outer")] >= t->end[span_of(t, "a")]);
    mtp_trace_destroy(t);
}

/* A scope that is never ended does not consume the ends of the enclosing scopes. */
static void a_forgotten_scope_is_the_only_one_unfinished(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    mtp_token outer = mtp_scope_begin(MTP_NAME("outer"));
    assert_int_not_equal(mtp_scope_begin(MTP_NAME("forgotten")), 0);
    mtp_scope_end(outer);
    MTP_SCOPE ("after") {
    }
    mtp_trace *t = trace_of(prof);
    assert_int_equal(t->unfinished, 1);
    assert_int_equal(t->flags[span_of(t, "forgotten")] & MTP__SPAN_UNFINISHED, MTP__SPAN_UNFINISHED);
    assert_true(t->end[span_of(t, "outer")] <= t->start[span_of(t, "after")]);
    mtp_trace_destroy(t);
}

/* How much later than the enclosing scopes a forgotten one ends, in multiples of their length. */
static double lengths_after(const mtp_trace *t)
{
    uint32_t open = span_of(t, "forgotten"), brief = span_of(t, "brief");
    return (double)(t->end[open] - t->end[brief]) / (double)(t->end[brief] - t->start[open]);
}

static void forget_one_and_wait(void)
{
    (void)mtp_scope_begin(MTP_NAME("forgotten"));
    MTP_SCOPE ("brief") {
    }
    atomic_fetch_add(&stepping_now, 10 * 1000 * 1000);
}

/* As in torch: nothing was recorded after it, and yet it was open all that time. */
static void a_scope_that_is_never_ended_lasts_until_the_stop(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    forget_one_and_wait();
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t)); /* while it records: until now */
    assert_true(lengths_after(t) > 100);
    mtp_trace_destroy(t);
    t = trace_of(prof);
    assert_true(lengths_after(t) > 100);
    assert_int_equal(t->last_ns, t->end[span_of(t, "forgotten")]);
    mtp_trace_destroy(t);
}

static void a_scope_that_is_never_ended_stays_in_its_cycle(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.acc_events = true;
    mtp__clock_hook_set(stepping);
    mtp_profile *prof = test_start(&c);
    forget_one_and_wait();
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_start(prof));
    MTP_SCOPE ("next cycle") {
    }
    mtp_trace *t = trace_of(prof);
    assert_true(lengths_after(t) > 100);
    assert_true(t->end[span_of(t, "forgotten")] <= t->start[span_of(t, "next cycle")]);
    mtp_trace_destroy(t);
}

/* It may not have been open: its end may be among the dropped records. */
static void a_scope_whose_end_was_dropped_lasts_to_the_last_record(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.chunk_bytes = 4096;
    c.buffer_bytes = 4 * c.chunk_bytes;
    mtp__clock_hook_set(stepping);
    mtp_profile *prof = test_start(&c);
    mtp_token forgotten = mtp_scope_begin(MTP_NAME("forgotten"));
    for (int i = 0; i < 10000; i++)
        MTP_SCOPE ("brief") {
        }
    mtp_scope_end(forgotten);
    atomic_fetch_add(&stepping_now, 1000 * 1000 * 1000);
    mtp_trace *t = trace_of(prof);
    assert_true(t->ledger.dropped > 0);
    uint32_t last = t->span_count - 1, whole = (t->flags[last] & MTP__SPAN_UNFINISHED) != 0 ? last - 1 : last;
    assert_true(t->end[span_of(t, "forgotten")] - t->end[whole] <= t->end[whole] - t->start[0]);
    mtp_trace_destroy(t);
}

static void a_toggle_between_begin_and_end_changes_no_pairs(void **state)
{
    (void)state;
    mtp_profile *prof = start();
    mtp_token a = mtp_scope_begin(MTP_NAME("a")), b = mtp_scope_begin(MTP_NAME("b"));
    assert_ok(mtp_profile_toggle(prof, false, MTP_CPU));
    mtp_token none = mtp_scope_begin(MTP_NAME("none"));
    mtp_scope_end(a);
    mtp_scope_end(none);
    assert_ok(mtp_profile_toggle(prof, true, MTP_CPU));
    mtp_token c = mtp_scope_begin(MTP_NAME("c"));
    mtp_scope_end(b);
    mtp_scope_end(c);
    mtp_trace *t = trace_of(prof);
    assert_int_equal(t->span_count, 3);
    assert_int_equal(t->unmatched_ends + t->unfinished, 0);
    assert_true(t->end[span_of(t, "a")] <= t->start[span_of(t, "c")]);
    assert_true(t->end[span_of(t, "b")] <= t->end[span_of(t, "c")]);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------- files of other kinds */

/* The words of the first stream's chunk in the spool at path, as if its writer had died; *file owns the
 * file's bytes. */
static uint64_t *open_words(const char *path, char **file, size_t *bytes, mtp__chunk **chunk)
{
    *file = test_slurp(path, bytes);
    for (size_t i = 0; (*chunk = test_chunk(*file, *bytes, i)) != NULL; i++) {
        if ((*chunk)->stream == 0)
            continue;
        (*chunk)->checksum = 0;
        return mtp__chunk_words(*chunk);
    }
    fail_msg("no chunk of a thread");
    return NULL;
}

static const char *make_spool(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", test_path(name));
    mtp_profile_config c = test_config(NULL);
    c.spool = path;
    mtp_profile *prof = test_start(&c);
    mtp_op f = MTP_OP_INIT(MTP_NAME("f"));
    f.kind = MTP_SCOPE_PYTHON;
    mtp_op_begin(&f);
    mtp_token held = mtp_scope_begin(MTP_NAME("scope"));
    mtp_op_end(&f);
    mtp_scope_end(held);
    for (int i = 0; i < 50; i++) {
        mtp_token a = mtp_scope_begin(MTP_NAME("a")), b = mtp_scope_begin(MTP_NAME("b"));
        mtp_scope_end(a);
        mtp_scope_end(b);
    }
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    return path;
}

/* A chunk that was never sealed has no checksum: any slot and depth may be in it. */
static void ends_of_a_torn_chunk_hurt_nobody(void **state)
{
    (void)state;
    const char *path = make_spool("torn.mtp");
    char *file;
    size_t bytes;
    mtp__chunk *chunk = NULL;
    uint64_t *w = open_words(path, &file, &bytes, &chunk);
    uint64_t *whole = malloc(4096);
    memcpy(whole, w, mtp__span_words(chunk->span) * sizeof *w);
    for (int i = 0; i < test_scaled(300); i++) {
        memcpy(w, whole, mtp__span_words(chunk->span) * sizeof *w);
        chunk->depth = (uint32_t)test_random();
        mtp__chunk_seal_head(chunk);
        for (uint32_t at = 0; at < chunk->words; at += MTP__WORD0_LENGTH(w[at])) {
            if (MTP__WORD0_KIND(w[at]) == MTP__KIND_END && MTP__WORD0_LENGTH(w[at]) == 2)
                w[at + 1] = test_below(4) == 0 ? test_random()
                                               : MTP__END_WORD1(chunk->depth + (uint32_t)test_below(8), 0);
            else if (MTP__WORD0_LENGTH(w[at]) == 2 && test_below(8) == 0)
                w[at] = (w[at] & ~(uint64_t)15) | MTP__KIND_END;
        }
        test_spew(path, file, bytes);
        mtp_trace *t;
        assert_ok(mtp_trace_open(path, NULL, &t));
        for (uint32_t k = 0; k < t->span_count; k++)
            assert_true(t->end[k] >= t->start[k] && (t->parent[k] == MTP__NONE || t->parent[k] < k));
        assert_clean_export(t);
        mtp_trace_destroy(t);
    }
    free(whole);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ends_find_their_begins_in_any_order),
        TEST(ends_whose_begins_were_overwritten_end_nothing_else),
        TEST(begins_without_room_leave_ends_to_their_own),
        TEST(streamed_scopes_end_in_any_order),
        TEST(tasks_that_take_turns_keep_their_times),
        TEST(only_ends_out_of_order_are_named),
        TEST(overlapping_without_end_costs_nothing),
        TEST(a_queue_of_scopes_is_read_quickly),
        TEST(an_end_given_twice_is_counted),
        TEST(a_forgotten_scope_is_the_only_one_unfinished),
        TEST(a_scope_that_is_never_ended_lasts_until_the_stop),
        TEST(a_scope_that_is_never_ended_stays_in_its_cycle),
        TEST(a_scope_whose_end_was_dropped_lasts_to_the_last_record),
        TEST(a_toggle_between_begin_and_end_changes_no_pairs),
        TEST(ends_of_a_torn_chunk_hurt_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
