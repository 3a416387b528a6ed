/* Unit: present/report/ranks_page: the ranks of a job in a report. What they hold is compared with `mtprof ranks --json`
 * by tests/golden/report_ranks.py, how it looks by tests/browser/report_ranks.py. */
#include "analyze/ranks/ranks.h"
#include "base/os.h"
#include "tests/made_trace.h"

#define LATE_NS 3000000

static uint64_t chance = 1;

static int64_t noise(int64_t most)
{
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(chance >> 33) % most;
}

static void make_step(mtp_rank_step *s, uint32_t number, bool is_late)
{
    mtp_rank_times *t = &s->times;
    s->number = 10 + number;
    t->late_ns = is_late ? LATE_NS : noise(60000);
    t->compute_ns = 14000000 + noise(300000) + t->late_ns;
    t->waiting_ns = is_late ? 0 : LATE_NS;
    t->transfer_ns = 1200000 + noise(50000);
    t->exposed_ns = t->waiting_ns + t->transfer_ns;
    t->comm_ns = t->exposed_ns + 900000 + noise(90000);
    t->copies_ns = noise(30000);
    t->idle_ns = noise(200000);
    t->wall_ns = t->compute_ns + t->exposed_ns + t->copies_ns + t->idle_ns;
}

/* Rank 1 is late. */
static mtp_ranks *make_ranks(uint32_t ranks, uint32_t steps)
{
    mtp_ranks *r = mtp__calloc(1, sizeof *r);
    mtp__intern_init(&r->names, 1, SIZE_MAX, NULL, NULL);
    r->list = mtp__calloc(ranks, sizeof *r->list);
    r->count = r->used = ranks;
    for (uint32_t k = 0; k < ranks; k++) {
        mtp__rank *one = &r->list[k];
        one->row =
            (mtp_rank_row){.file = "job.mtp", .host = "h", .job = "j", .backend = "nccl", .problem = ""};
        one->row.rank = k;
        one->step_count = steps;
        one->steps = mtp__calloc(steps, sizeof *one->steps);
        for (uint32_t i = 0; i < steps; i++)
            make_step(&one->steps[i], i, k == 1);
        one->row.mean = one->steps[0].times;
    }
    return r;
}

static mtp_trace *make_trace(void)
{
    mtp_trace *t = made_begin();
    made_op(t, made_thread(t, 517), 10, 500, "aten::mm");
    return made_end(t);
}

static mtp_status write_page_of(mtp_trace *t, const mtp_ranks *ranks, const char *only, collected *out)
{
    mtp_report_options options = MTP_REPORT_OPTIONS_INIT;
    options.ranks = ranks;
    options.only = only;
    return mtp_report_write((const mtp_trace *const *)&t, 1, &options, collect, out);
}

static mtp_status write_page(const mtp_ranks *ranks, const char *only, collected *out)
{
    mtp_trace *t = make_trace();
    mtp_status status = write_page_of(t, ranks, only, out);
    mtp_trace_destroy(t);
    return status;
}

static size_t bytes_of_ranks(const collected *out)
{
    const char *at = strstr(out->bytes, "id=\"ranks-0\">");
    assert_non_null(at);
    return strcspn(at + 13, "<");
}

static void a_report_has_ranks_only_if_it_is_given_some(void **state)
{
    (void)state;
    mtp_ranks *ranks = make_ranks(3, 4);
    collected with = {0}, without = {0}, alone = {0};
    assert_ok(write_page(ranks, NULL, &with));
    assert_ok(write_page(NULL, NULL, &without));
    assert_ok(write_page(ranks, "memory", &alone));
    assert_int_equal(bytes_of_ranks(&with) > 200, true);
    assert_null(strstr(without.bytes, "id=\"ranks-0\">"));
    assert_null(strstr(alone.bytes, "id=\"ranks-0\">"));
    collected_free(&with);
    collected_free(&without);
    collected_free(&alone);
    mtp_ranks_destroy(ranks);
}

/* What the option did not have when this caller was compiled is none. */
static void a_caller_that_knows_no_ranks_gets_none(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    mtp_ranks *ranks = make_ranks(2, 1);
    mtp_report_options options = MTP_REPORT_OPTIONS_INIT;
    collected out = {0};
    options.ranks = ranks;
    options.size = offsetof(mtp_report_options, ranks);
    assert_ok(mtp_report_write((const mtp_trace *const *)&t, 1, &options, collect, &out));
    assert_null(strstr(out.bytes, "id=\"ranks-0\">"));
    collected_free(&out);
    mtp_ranks_destroy(ranks);
    mtp_trace_destroy(t);
}

static void a_million_steps_are_some_megabytes(void **state)
{
    (void)state;
    mtp_ranks *ranks = make_ranks(512, 2000);
    collected out = {0};
    assert_ok(write_page(ranks, NULL, &out));
    print_message("# 512 ranks x 2000 steps: %.1f MB\n", (double)bytes_of_ranks(&out) / 1e6);
    assert_true(bytes_of_ranks(&out) < 16u << 20);
    collected_free(&out);
    mtp_ranks_destroy(ranks);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_ranks *ranks = make_ranks(2, 3);
    mtp_trace *t = make_trace();
    collected whole = {0};
    int nth = 1, fired;
    assert_ok(write_page_of(t, ranks, NULL, &whole));
    do {
        collected out = {0};
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth++, false);
        mtp_status status = write_page_of(t, ranks, NULL, &out);
        fired = mtp__fault_stop();
        assert_true(status == MTP_OK || status == MTP_E_NOMEM);
        assert_true(status == MTP_E_NOMEM || out.length == whole.length);
        collected_free(&out);
    } while (fired > 0);
    collected_free(&whole);
    mtp_trace_destroy(t);
    mtp_ranks_destroy(ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_has_ranks_only_if_it_is_given_some),
        cmocka_unit_test(a_caller_that_knows_no_ranks_gets_none),
        cmocka_unit_test(a_million_steps_are_some_megabytes),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
