/* Unit: structs that callers compiled with other headers fill or receive: shorter ones as they were, longer ones as they
 * may become. */
#include "base/abi.h"
#include "tests/made_trace.h"

#define ROOM 16384
#define CANARY 0xa5

typedef union caller { /* as large as any struct, and what lies behind it */
    size_t size;
    unsigned char bytes[ROOM];
} caller;

/* What the calls under test use. */
static mtp_trace *trace, *recording;
static mtp_averages *rows;
static mtp_events *events;
static mtp_tree *tree;
static mtp_diff *diff;
static mtp_memory_timeline *timeline;
static mtp_findings *findings;
static mtp_ranks *ranks;
static mtp_profile *prof;

static bool swallow(void *user, const void *bytes, size_t n)
{
    (void)user, (void)bytes, (void)n;
    return true;
}

/* ------------------------------------------------------------------------------------------- filled by callers */

static mtp_status give_config(const caller *c)
{
    mtp_profile *made = NULL;
    mtp_status status = mtp_profile_create((const mtp_profile_config *)c, &made);
    mtp_profile_destroy(made);
    return status;
}

static mtp_status give_averages(const caller *c)
{
    mtp_averages *made = NULL;
    mtp_status status = mtp_averages_create(trace, (const mtp_averages_options *)c, &made);
    mtp_averages_destroy(made);
    return status;
}

static mtp_status give_table(const caller *c)
{
    return mtp_averages_table(rows, (const mtp_table_options *)c, swallow, NULL);
}

static mtp_status give_diff(const caller *c)
{
    mtp_diff *made = NULL;
    mtp_status status = mtp_diff_create(trace, trace, (const mtp_diff_options *)c, &made);
    mtp_diff_destroy(made);
    return status;
}

static mtp_status give_findings(const caller *c)
{
    mtp_findings *made = NULL;
    mtp_status status = mtp_findings_create(trace, (const mtp_findings_options *)c, &made);
    mtp_findings_destroy(made);
    return status;
}

static mtp_status give_words(const caller *c)
{
    return mtp_findings_text(findings, (const mtp_words_options *)c, swallow, NULL);
}

static mtp_status give_cut(const caller *c)
{
    mtp_trace *made = NULL;
    mtp_status status = mtp_trace_cut(trace, (const mtp_cut_options *)c, &made);
    mtp_trace_destroy(made);
    return status;
}

static mtp_status give_export(const caller *c)
{
    return mtp_trace_chrome(trace, (const mtp_export_options *)c, swallow, NULL);
}

static mtp_status give_report(const caller *c)
{
    return mtp_report_write((const mtp_trace *const *)&trace, 1, (const mtp_report_options *)c, swallow,
                            NULL);
}

static mtp_status give_parquet(const caller *c)
{
    char path[64];
    mtp_status status = mtp_export_parquet(trace, "/dev/null", (const mtp_parquet_options *)c);
    snprintf(path, sizeof path, "%s",
             mtp_last_error()); /* options that are fine meet a folder that is none */
    return status == MTP_E_IO && strncmp(path, "/dev/null", 9) == 0 ? MTP_OK : status;
}

static mtp_status give_open(const caller *c)
{
    mtp_trace *made = NULL;
    mtp_status status = mtp_trace_open(test_path("abi.json"), (const mtp_open_options *)c, &made);
    mtp_trace_destroy(made);
    return status;
}

static mtp_status give_digest(const caller *c)
{
    mtp_digest *made = NULL;
    mtp_status status = mtp_digest_create(trace, (const mtp_digest_options *)c, &made);
    mtp_digest_destroy(made);
    return status;
}

static mtp_status give_ranks(const caller *c)
{
    const char *path = test_path("abi.json");
    mtp_ranks *made = NULL;
    mtp_status status = mtp_ranks_create(&path, 1, (const mtp_ranks_options *)c, &made);
    mtp_ranks_destroy(made);
    return status;
}

static mtp_status give_merge(const caller *c)
{
    return mtp_merge(ranks, test_path("merged.json"), (const mtp_export_options *)c);
}

static uint32_t no_frames(void *user, uint64_t *frames, uint32_t room)
{
    (void)user, (void)frames, (void)room;
    return 0;
}

static void no_text(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user, (void)frame;
    snprintf(out, room, "?:0:?");
}

static mtp_status give_provider(const caller *c)
{
    mtp_status status = mtp_stack_provider_set((const mtp_stack_provider *)c);
    mtp_stack_provider_set(NULL);
    return status;
}

static mtp_status give_trigger(const caller *c) /* MTP_E_ARG: read, and there is no such process */
{
    mtp_status status = mtp_trigger_process(UINT32_MAX, (const mtp_trigger *)c);
    return status == MTP_E_ARG ? MTP_OK : status;
}

static mtp_status give_live(const caller *c) /* MTP_E_IO: read, and there is no such file */
{
    mtp_live *made = NULL;
    mtp_status status = mtp_live_open("/nowhere", (const mtp_live_options *)c, &made);
    return status == MTP_E_IO ? MTP_OK : status;
}

#define FILLED(type, last, call, ...)                                                                        \
    {                                                                                                        \
#type, sizeof(type), MTP__ABI_UNTIL(type, last), call, &(const type)__VA_ARGS__                      \
    }
static const struct filled {
    const char *name;
    size_t size, oldest;
    mtp_status (*give)(const caller *c);
    const void *init;
} filled[] = {
    FILLED(mtp_profile_config, spool_bytes, give_config, MTP_PROFILE_CONFIG_INIT),
    FILLED(mtp_averages_options, python_stacks, give_averages, MTP_AVERAGES_OPTIONS_INIT),
    FILLED(mtp_table_options, max_line_width, give_table, MTP_TABLE_OPTIONS_INIT),
    FILLED(mtp_diff_options, max_drift, give_diff, MTP_DIFF_OPTIONS_INIT),
    FILLED(mtp_findings_options, least, give_findings, MTP_FINDINGS_OPTIONS_INIT),
    FILLED(mtp_words_options, only, give_words, MTP_WORDS_OPTIONS_INIT),
    FILLED(mtp_cut_options, process, give_cut, MTP_CUT_OPTIONS_INIT),
    FILLED(mtp_export_options, user, give_export, MTP_EXPORT_OPTIONS_INIT),
    FILLED(mtp_export_options, user, give_merge, MTP_EXPORT_OPTIONS_INIT),
    FILLED(mtp_digest_options, rank, give_digest, MTP_DIGEST_OPTIONS_INIT),
    FILLED(mtp_ranks_options, user, give_ranks, MTP_RANKS_OPTIONS_INIT),
    FILLED(mtp_report_options, device, give_report, MTP_REPORT_OPTIONS_INIT),
    FILLED(mtp_parquet_options, rank, give_parquet, MTP_PARQUET_OPTIONS_INIT),
    FILLED(mtp_open_options, max_memory, give_open, MTP_OPEN_OPTIONS_INIT),
    FILLED(mtp_stack_provider, user, give_provider, {sizeof(mtp_stack_provider), no_frames, no_text, NULL}),
    FILLED(mtp_live_options, alone, give_live, MTP_LIVE_OPTIONS_INIT),
    FILLED(mtp_trigger, user, give_trigger, {.size = sizeof(mtp_trigger), .ns = 1, .spool = "/nowhere"}),
};

static void what_a_caller_fills_may_be_shorter_or_longer(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(filled); i++) {
        const struct filled *f = &filled[i];
        caller c;
        print_message("# %s\n", f->name);
        for (size_t size = f->oldest; size <= f->size; size += f->size == size ? 1 : f->size - size) {
            memset(&c, CANARY, sizeof c); /* what lies behind it is not read */
            memcpy(&c, f->init, size);
            c.size = size;
            assert_int_equal(f->give(&c), MTP_OK);
        }
        memset(&c, 0, sizeof c);
        memcpy(&c, f->init, f->size);
        c.size = f->size + 96; /* a later caller that does not use what is new */
        assert_int_equal(f->give(&c), MTP_OK);
        c.bytes[f->size + 95] = 1; /* one that does */
        assert_int_equal(f->give(&c), MTP_E_ABI);
        assert_says(f->name);
        assert_says(mtp_version());
        c.bytes[f->size + 95] = 0;
        for (size_t wrong = 0; wrong < 3; wrong++) {
            c.size = wrong == 0 ? 0 : wrong == 1 ? 8 : (size_t)-1;
            assert_int_equal(f->give(&c), MTP_E_ABI);
            assert_says(f->name);
            assert_says("which it never was");
        }
    }
}

/* ----------------------------------------------------------------------------------------- received by callers */

static mtp_status take_info(caller *c)
{
    return mtp_trace_get_info(trace, (mtp_trace_info *)c);
}

static mtp_status take_ledger(caller *c)
{
    return mtp_profile_ledger(prof, (mtp_ledger *)c);
}

static mtp_status take_event(caller *c)
{
    return mtp_events_get(events, 0, (mtp_event *)c);
}

static mtp_status take_node(caller *c)
{
    return mtp_tree_get(tree, 0, (mtp_tree_node *)c);
}

static mtp_status take_summary(caller *c)
{
    return mtp_diff_get_summary(diff, (mtp_diff_summary *)c);
}

static mtp_status take_memory(caller *c)
{
    return mtp_memory_timeline_info(timeline, (mtp_memory_info *)c);
}

static mtp_status take_findings(caller *c)
{
    return mtp_findings_get_summary(findings, (mtp_findings_summary *)c);
}

static mtp_status take_recording(caller *c)
{
    return mtp_trace_recording(recording, 0, (mtp_recording_info *)c);
}

static mtp_status take_columns(caller *c)
{
    return mtp_trace_columns(trace, (mtp_columns *)c);
}

#define RECEIVED(type, last, call)                                                                           \
    {                                                                                                        \
#type, sizeof(type), MTP__ABI_UNTIL(type, last), call                                                \
    }
static const struct received {
    const char *name;
    size_t size, oldest;
    mtp_status (*take)(caller *c);
} received[] = {
    RECEIVED(mtp_trace_info, damaged_header, take_info),
    RECEIVED(mtp_ledger, threads, take_ledger),
    RECEIVED(mtp_event, args, take_event),
    RECEIVED(mtp_tree_node, device_index, take_node),
    RECEIVED(mtp_diff_summary, fewer_calls, take_summary),
    RECEIVED(mtp_memory_info, peak_blocks, take_memory),
    RECEIVED(mtp_findings_summary, process, take_findings),
    RECEIVED(mtp_columns, column, take_columns),
    RECEIVED(mtp_recording_info, info, take_recording),
};

static void take(const struct received *r, size_t size, caller *c)
{
    memset(c, CANARY, sizeof *c);
    c->size = size;
    assert_int_equal(r->take(c), MTP_OK);
    assert_int_equal(c->size, size);
    for (size_t k = size < r->size ? size : r->size; k < sizeof *c; k++) /* nothing is written behind it */
        assert_int_equal(c->bytes[k], CANARY);
}

static void what_a_caller_receives_may_be_shorter_or_longer(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(received); i++) {
        const struct received *r = &received[i];
        caller whole, shorter, longer;
        print_message("# %s\n", r->name);
        take(r, r->size, &whole);
        take(r, r->oldest, &shorter);
        take(r, r->size + 96, &longer);
        assert_memory_equal(whole.bytes + 8, shorter.bytes + 8, r->oldest - 8);
        assert_memory_equal(whole.bytes + 8, longer.bytes + 8, r->oldest - 8);
        whole.size = 8;
        assert_int_equal(r->take(&whole), MTP_E_ABI);
        assert_says(r->name);
    }
}

/* ----------------------------------------------------------------------------------------- what both know */

static void what_an_older_caller_does_not_know_keeps_its_default(void **state)
{
    (void)state;
    struct grown {
        size_t size;
        uint64_t old, new;
    } to = {sizeof to, 1, 7}, from = {MTP__ABI_UNTIL(struct grown, old), 2, CANARY};
    assert_ok(mtp__abi_read(&to, sizeof to, &from, from.size, "grown"));
    assert_int_equal(to.old, 2);
    assert_int_equal(to.new, 7);
    assert_int_equal(to.size, sizeof to); /* it is ours: what is read may be handed on */
    mtp__abi_write(&from, &to, sizeof to);
    assert_int_equal(from.size, MTP__ABI_UNTIL(struct grown, old));
    assert_int_equal(from.new, CANARY);
}

/* ------------------------------------------------------------------------------------------- hot structs */

static void a_wrong_size_on_the_hot_path_is_counted(void **state)
{
    (void)state;
    mtp_profile_config config = test_config(NULL);
    config.activities = MTP_CPU | MTP_NPU;
    mtp_profile *p = test_start(&config);
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
    op.size = work.size = 8; /* not set: any number */
    mtp_op_begin(&op);
    mtp_op_end(&op);
    mtp_device_event(&work);
    assert_ok(mtp_profile_stop(p));
    mtp_ledger l = MTP_LEDGER_INIT;
    assert_ok(mtp_profile_ledger(p, &l));
    assert_int_equal(l.dropped_by[MTP_DROP_ABI], 2);
    assert_int_equal(l.kept + l.dropped, l.emitted);
    mtp_profile_destroy(p);
}

static int prepare(void **state)
{
    (void)state;
    trace = made_begin();
    uint32_t main = made_thread(trace, 1);
    made_op(trace, main, 0, 100, "aten::mm");
    made_memory(trace, main, 50, 4096, 64);
    made_end(trace);
    assert_ok(mtp_trace_export(trace, test_path("abi.json"), NULL));
    assert_ok(mtp_averages_create(trace, NULL, &rows));
    assert_ok(mtp_events_create(trace, &events));
    assert_ok(mtp_tree_create(trace, &tree));
    assert_ok(mtp_diff_create(trace, trace, NULL, &diff));
    assert_ok(mtp_memory_timeline_create(trace, NULL, &timeline));
    assert_ok(mtp_findings_create(trace, NULL, &findings));
    assert_ok(mtp_profile_create(NULL, &prof));
    const char *path = test_path("abi.json");
    assert_ok(mtp_ranks_create(&path, 1, NULL, &ranks));
    mtp_profile_config config = test_config(NULL);
    config.spool = test_path("abi.mtp");
    mtp_profile *p = test_start(&config);
    assert_ok(mtp_profile_stop(p));
    mtp_profile_destroy(p);
    assert_ok(mtp_trace_open(config.spool, NULL, &recording));
    return 0;
}

static int finish(void **state)
{
    (void)state;
    mtp_profile_destroy(prof);
    mtp_trace_destroy(recording);
    mtp_ranks_destroy(ranks);
    mtp_findings_destroy(findings);
    mtp_memory_timeline_destroy(timeline);
    mtp_diff_destroy(diff);
    mtp_tree_destroy(tree);
    mtp_events_destroy(events);
    mtp_averages_destroy(rows);
    mtp_trace_destroy(trace);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_a_caller_fills_may_be_shorter_or_longer),
        TEST(what_a_caller_receives_may_be_shorter_or_longer),
        TEST(what_an_older_caller_does_not_know_keeps_its_default),
        TEST(a_wrong_size_on_the_hot_path_is_counted),
    };
    return cmocka_run_group_tests(tests, prepare, finish);
}
