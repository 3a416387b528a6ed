/* Unit: profiles that give way to the program's own, and functions that watch recordings begin and end. */
#include "tests/test.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

static mtp_profile *tool(warnings *w)
{
    mtp_profile_config c = test_config(w);
    c.gives_way = true;
    mtp_profile *prof = test_create(&c);
    assert_ok(mtp_profile_prepare_trace(prof));
    assert_ok(mtp_profile_start_trace(prof));
    return prof;
}

static void record(int n)
{
    for (int i = 0; i < n; i++)
        mtp_mark(MTP_NAME("mark"));
}

static size_t marks_of(mtp_profile *prof)
{
    seen s = {0};
    size_t count = 0;
    seen_profile(&s, prof);
    for (size_t i = 0; i < s.records; i++)
        count += s.record[i].kind == MTP__KIND_MARK;
    seen_free(&s);
    return count;
}

static void a_tools_profile_pauses_while_the_programs_own_records(void **state)
{
    (void)state;
    warnings w = {0};
    mtp_profile *mine = tool(&w);
    size_t none = marks_of(mine);
    assert_true(mtp_profile_gives_way(mine));
    record(1);
    mtp_profile_config c = test_config(NULL);
    mtp_profile *own = test_start(&c);
    assert_false(mtp_profile_is_recording(mine));
    assert_true(mtp_profile_is_recording(own));
    assert_false(mtp_profile_gives_way(own));
    assert_int_equal(w.count[MTP_WARNING_GAVE_WAY], 1);
    record(10);
    assert_ok(mtp_profile_stop(own));
    assert_true(mtp_profile_is_recording(mine));
    record(100);
    assert_ok(mtp_profile_stop_trace(mine));
    assert_true(marks_of(mine) - none >= 101 && marks_of(mine) - none < 110);
    assert_balanced(mine);
    assert_balanced(own);
    mtp_profile_destroy(mine);
    mtp_profile_destroy(own);
}

static void a_profile_that_does_not_give_way_is_not_displaced(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *first = test_start(&c), *second = test_create(&c);
    assert_int_equal(mtp_profile_start(second), MTP_E_BUSY);
    c.gives_way = true;
    mtp_profile *third = test_create(&c);
    assert_int_equal(mtp_profile_prepare_trace(third), MTP_E_BUSY);
    assert_true(mtp_profile_is_recording(first));
    assert_ok(mtp_profile_stop(first));
    assert_ok(mtp_profile_start(third)); /* by a schedule of its own: this one does not give way */
    assert_int_equal(mtp_profile_start(second), MTP_E_BUSY);
    assert_ok(mtp_profile_stop(third));
    mtp_profile_destroy(first);
    mtp_profile_destroy(second);
    mtp_profile_destroy(third);
}

/* `mtprof run` records; `mtprof trigger` asks for a stretch; and then the program profiles itself. */
static void two_tools_give_way_and_resume_in_turn(void **state)
{
    (void)state;
    mtp_profile *outer = tool(NULL), *inner = tool(NULL);
    assert_false(mtp_profile_is_recording(outer));
    assert_true(mtp_profile_is_recording(inner));
    mtp_profile_config c = test_config(NULL);
    mtp_profile *own = test_start(&c);
    assert_true(mtp_profile_is_recording(own));
    assert_false(mtp_profile_is_recording(outer) || mtp_profile_is_recording(inner));
    assert_ok(mtp_profile_stop(own));
    assert_true(mtp_profile_is_recording(inner));
    assert_false(mtp_profile_is_recording(outer));
    assert_ok(mtp_profile_stop_trace(inner));
    assert_true(mtp_profile_is_recording(outer));
    assert_ok(mtp_profile_stop_trace(outer));
    assert_int_equal(mtp_recording(), 0);
    mtp_profile_destroy(own);
    mtp_profile_destroy(inner);
    mtp_profile_destroy(outer);
}

/* In each order, and by destroy as well as by stop. */
static void a_tool_that_is_over_while_it_is_paused_does_not_resume(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++)
        for (int destroy = 0; destroy < 2; destroy++) {
            mtp_profile *tools[2] = {tool(NULL), NULL};
            tools[1] = tool(NULL);
            mtp_profile_config c = test_config(NULL);
            mtp_profile *own = test_start(&c);
            for (int i = 0; i < 2; i++) {
                if (which != 2 && which != i)
                    continue;
                assert_ok(mtp_profile_stop_trace(tools[i]));
                if (destroy) {
                    mtp_profile_destroy(tools[i]);
                    tools[i] = NULL;
                }
            }
            assert_true(mtp_profile_is_recording(own));
            assert_ok(mtp_profile_stop(own));
            for (int i = 0; i < 2; i++) {
                if (which == 2 || which == i)
                    assert_false(mtp_profile_is_recording(tools[i]));
                else
                    assert_true(mtp_profile_is_recording(tools[i]));
                mtp_profile_destroy(tools[i]);
            }
            assert_int_equal(mtp_recording(), 0);
            mtp_profile_destroy(own);
        }
}

static void a_start_that_fails_lets_the_tool_go_on(void **state)
{
    (void)state;
    mtp_profile *mine = tool(NULL);
    mtp_profile_config c = test_config(NULL);
    c.spool = "/no/such/folder/x.mtp";
    mtp_profile *own = test_create(&c);
    assert_int_not_equal(mtp_profile_start(own), MTP_OK);
    assert_true(mtp_profile_is_recording(mine));
    mtp_profile_destroy(own);
    mtp_profile_destroy(mine);
}

typedef struct racing {
    atomic_int stop, refused;
    int rounds;
} racing;

/* As the thread that listens: its profile comes, is stopped and freed, whatever the program does meanwhile. */
static void *come_and_go(void *arg)
{
    racing *r = arg;
    while (!r->stop) {
        mtp_profile_config c = test_config(NULL);
        mtp_profile *prof = NULL;
        c.gives_way = true;
        if (mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_prepare_trace(prof) == MTP_OK &&
            mtp_profile_start_trace(prof) == MTP_OK) {
            record(3);
            mtp_profile_stop_trace(prof);
            r->rounds++;
        }
        mtp_profile_destroy(prof);
    }
    return NULL;
}

static void a_tool_may_end_while_the_program_starts_and_stops(void **state)
{
    (void)state;
    racing r = {0};
    pthread_t thread;
    pthread_create(&thread, NULL, come_and_go, &r);
    for (int i = 0; i < test_scaled(3000); i++) {
        mtp_profile_config c = test_config(NULL);
        mtp_profile *own = test_create(&c);
        mtp_status status = mtp_profile_start(own);
        r.refused += status != MTP_OK;
        if (status == MTP_OK) {
            assert_true(mtp_profile_is_recording(own));
            record(3);
            assert_ok(mtp_profile_stop(own));
            assert_int_equal(ledger_of(own).dropped, 0);
        }
        mtp_profile_destroy(own);
    }
    r.stop = 1;
    pthread_join(thread, NULL);
    assert_int_equal(r.refused, 0); /* a tool is never in the program's way */
    assert_int_equal(mtp_recording(), 0);
}

static struct {
    atomic_int paused, destroyed;
    mtp_profile *prof;
} owner;

static void *destroy_it(void *unused)
{
    while (!owner.paused)
        sched_yield();
    mtp_profile_destroy(owner.prof);
    owner.destroyed = 1;
    return unused;
}

/* Called while it is being paused. */
static void on_giving_way(void *user, mtp_warning code, const char *text)
{
    const struct timespec moment = {0, 50000000};
    (void)text;
    if (code != MTP_WARNING_GAVE_WAY)
        return;
    owner.paused = 1;
    nanosleep(&moment, NULL);
    *(int *)user = owner.destroyed;
}

static void a_profile_is_not_destroyed_while_another_thread_pauses_it(void **state)
{
    (void)state;
    int was_destroyed = -1;
    pthread_t thread;
    mtp_profile_config c = test_config(NULL);
    c.gives_way = true;
    c.on_warning = on_giving_way;
    c.user = &was_destroyed;
    owner.prof = test_create(&c);
    assert_ok(mtp_profile_prepare_trace(owner.prof));
    assert_ok(mtp_profile_start_trace(owner.prof));
    pthread_create(&thread, NULL, destroy_it, NULL);
    c = test_config(NULL);
    mtp_profile *own = test_start(&c);
    assert_int_equal(was_destroyed, 0);
    pthread_join(thread, NULL);
    assert_ok(mtp_profile_stop(own));
    assert_int_equal(mtp_recording(), 0); /* there is nothing left to resume */
    mtp_profile_destroy(own);
}

/* ----------------------------------------------------------------------------------------------------- watching */

typedef struct watched {
    int begins, ends, flushes;
    mtp_profile *prof;
    uint32_t recording;
    bool ended_before_flush;
} watched;

static watched seen_by[9];

static void on_begin(void *user, mtp_profile *prof)
{
    watched *w = user;
    w->begins++;
    w->prof = prof;
    w->recording = mtp_recording();
}

static void on_end(void *user, mtp_profile *prof)
{
    watched *w = user;
    w->ends++;
    w->recording = mtp_recording();
    w->ended_before_flush = w->flushes < w->ends && prof == w->prof;
    mtp_mark(MTP_NAME("last")); /* still recorded */
}

static void on_flush(void *user)
{
    ((watched *)user)->flushes++;
}

static void those_who_watch_are_called_within_the_recording(void **state)
{
    (void)state;
    assert_int_equal(mtp_watch_add(NULL, NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_flush_add(NULL, NULL), MTP_E_ARG);
    assert_ok(mtp_watch_add(on_begin, on_end, &seen_by[0]));
    assert_ok(mtp_watch_add(on_begin, NULL, &seen_by[1]));
    assert_ok(mtp_watch_add(NULL, on_end, &seen_by[2]));
    assert_ok(mtp_flush_add(on_flush, &seen_by[0]));
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    assert_int_equal(seen_by[0].begins, 1);
    assert_int_equal(seen_by[1].begins, 1);
    assert_ptr_equal(seen_by[0].prof, prof);
    assert_int_not_equal(seen_by[0].recording, 0);
    assert_int_equal(seen_by[0].ends, 0);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(seen_by[0].ends, 1);
    assert_int_equal(seen_by[2].ends, 1);
    assert_int_not_equal(seen_by[0].recording, 0);
    assert_int_equal(seen_by[0].flushes, 1);
    assert_true(seen_by[0].ended_before_flush);
    seen s = {0};
    seen_profile(&s, prof);
    size_t last = 0;
    for (size_t i = 0; i < s.records; i++)
        last += s.record[i].kind == MTP__KIND_MARK &&
                strcmp(seen_name(&s, (uint32_t)s.record[i].word[0]), "last") == 0;
    assert_int_equal(last, 2);
    seen_free(&s);
    mtp_profile_destroy(prof);
}

static void a_pause_is_an_end_and_a_begin_for_those_who_watch(void **state)
{
    (void)state;
    watched before = seen_by[0];
    mtp_profile *mine = tool(NULL);
    mtp_profile_config c = test_config(NULL);
    mtp_profile *own = test_start(&c);
    assert_int_equal(seen_by[0].begins - before.begins, 2);
    assert_int_equal(seen_by[0].ends - before.ends, 1);
    assert_ok(mtp_profile_stop(own));
    assert_int_equal(seen_by[0].begins - before.begins, 3);
    assert_ptr_equal(seen_by[0].prof, mine);
    mtp_profile_destroy(own);
    assert_ok(mtp_profile_stop_trace(mine));
    assert_int_equal(seen_by[0].ends - before.ends, 3);
    mtp_profile_destroy(mine);
}

static void *add_many(void *arg)
{
    atomic_int *added = arg;
    for (int i = 0; i < 8; i++)
        *added += mtp_watch_add(on_begin, on_end, &seen_by[4]) == MTP_OK;
    return NULL;
}

static void eight_may_watch_and_no_more_from_any_thread(void **state)
{
    (void)state;
    pthread_t thread[4];
    atomic_int added = 0;
    for (size_t i = 0; i < COUNT(thread); i++)
        pthread_create(&thread[i], NULL, add_many, &added);
    for (size_t i = 0; i < COUNT(thread); i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(added, 5); /* besides those of the tests before */
    assert_int_equal(mtp_watch_add(on_begin, NULL, NULL), MTP_E_STATE);
    assert_says("already registered");
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    assert_int_equal(seen_by[4].begins, 5);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(seen_by[4].ends, 5);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tools_profile_pauses_while_the_programs_own_records),
        TEST(a_profile_that_does_not_give_way_is_not_displaced),
        TEST(two_tools_give_way_and_resume_in_turn),
        TEST(a_tool_that_is_over_while_it_is_paused_does_not_resume),
        TEST(a_start_that_fails_lets_the_tool_go_on),
        TEST(a_tool_may_end_while_the_program_starts_and_stops),
        TEST(a_profile_is_not_destroyed_while_another_thread_pauses_it),
        TEST(those_who_watch_are_called_within_the_recording),
        TEST(a_pause_is_an_end_and_a_begin_for_those_who_watch),
        TEST(eight_may_watch_and_no_more_from_any_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
