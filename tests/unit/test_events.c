/* Unit: record/events: each recording call, decoded word for word; and what is not recorded. */
#include "tests/unit/read_back.h"
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

static void open_with(mtp_profile_config c)
{
    prof = test_start(&c);
}

static void open_plain(void)
{
    open_with(test_config(NULL));
}

static const seen_record *at(size_t i)
{
    return seen_nth(&s, -1, i + 1);
}

static void assert_record(size_t i, mtp__kind kind, uint32_t words)
{
    const seen_record *r = at(i);
    if (r->kind != kind || r->words != words)
        fail_msg("record %zu is of kind %d in %u words, not %d in %u", i, r->kind, r->words, kind, words);
}

static void assert_begin(size_t i, const char *name, unsigned kind, unsigned mask, mtp_device device)
{
    const seen_record *r = at(i);
    assert_int_equal(r->kind, MTP__KIND_BEGIN);
    assert_string_equal(seen_name(&s, (uint32_t)r->word[0]), name);
    assert_int_equal(r->word[0] >> 32 & 0xff, kind);
    assert_int_equal(r->word[0] >> 40 & 0xff, mask);
    assert_int_equal(r->word[0] >> 48, device);
    assert_int_equal(r->words, 2 + __builtin_popcount(mask));
}

/* -------------------------------------------------------------------------------------------- scopes */

static void a_scope_is_a_begin_and_an_end(void **state)
{
    (void)state;
    open_plain();
    uint64_t before = mtp_ticks();
    MTP_SCOPE ("forward") {
    }
    uint64_t after = mtp_ticks();
    read_back();
    assert_int_equal(s.records, 3);
    assert_begin(0, "forward", MTP_SCOPE_USER, 0, MTP_DEVICE_CPU);
    assert_record(1, MTP__KIND_END, 1);
    assert_true(at(0)->ticks >= (before & UINT64_C(0xffffffffffffff)));
    assert_true(at(1)->ticks >= at(0)->ticks && at(1)->ticks <= (after & UINT64_C(0xffffffffffffff)));
    close_it();
}

static int leave_in_the_middle(int how)
{
    for (int i = 0; i < 2; i++)
        MTP_SCOPE ("left") {
            if (how == 0)
                return i;
            if (how == 1)
                break;
            if (how == 2)
                continue;
            if (how == 3)
                goto out;
        }
out:
    return 7;
}

static void a_scope_ends_however_it_is_left(void **state)
{
    (void)state;
    static const size_t scopes[] = {1, 2, 2, 1, 2};
    for (int how = 0; how < 5; how++) {
        open_plain();
        leave_in_the_middle(how);
        read_back();
        assert_int_equal(seen_count(&s, MTP__KIND_BEGIN, -1), scopes[how]);
        assert_int_equal(seen_count(&s, MTP__KIND_END, -1), scopes[how]);
        close_it();
    }
}

static void nested_scopes_are_nested_records(void **state)
{
    (void)state;
    open_plain();
    MTP_SCOPE ("a") {
        MTP_SCOPE ("b") {
            MTP_SCOPE ("c") {
            }
        }
        MTP_SCOPE ("b") {
        }
    }
    read_back();
    static const char *const name[] = {"a", "b", "c", NULL, NULL, "b", NULL, NULL};
    assert_int_equal(s.records, 1 + COUNT(name));
    for (size_t i = 0; i < COUNT(name); i++)
        if (name[i] != NULL)
            assert_begin(i, name[i], MTP_SCOPE_USER, 0, 0);
        else
            assert_record(i, MTP__KIND_END, 1);
    assert_int_equal(at(1)->word[0], at(5)->word[0]);
    close_it();
}

static void a_hundred_thousand_levels_are_only_records(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 8u << 20;
    open_with(c);
    enum {
        DEEP = 100000
    };
    mtp_token *token = malloc(DEEP * sizeof *token);
    for (int i = 0; i < DEEP; i++)
        token[i] = mtp_scope_begin(MTP_NAME("deep"));
    for (int i = 0; i < DEEP; i++)
        mtp_scope_end(token[i]);
    free(token);
    read_back();
    assert_int_equal(s.records, 2 * DEEP + 1);
    close_it();
}

static void names_made_at_run_time_are_kept_as_bytes(void **state)
{
    (void)state;
    enum {
        HUGE_NAME = 1 << 20
    };
    char *huge = malloc(HUGE_NAME);
    for (int i = 0; i < HUGE_NAME; i++)
        huge[i] = (char)(i * 31 + (i >> 8));
    static const struct {
        const char *text;
        size_t length;
    } name[] = {{"", 0},          {"plain", 5},           {"nul\0inside", 10}, {"\0", 1},
                {"\xff\xfe", 2},  {"</script>", 9},       {"%s%n\x1b[31m", 9}, {"\xe2\x80\xa8", 3},
                {"../../etc", 9}, {"quote\"back\\sl", 13}};
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 64u << 20; /* names may take a sixteenth of it */
    open_with(c);
    for (size_t i = 0; i < COUNT(name); i++)
        mtp_scope_end(mtp_scope_begin_text(name[i].text, name[i].length));
    mtp_scope_end(mtp_scope_begin_text(huge, HUGE_NAME));
    mtp_scope_end(mtp_scope_begin_text("plain", 5));
    read_back();
    for (size_t i = 0; i < COUNT(name); i++) {
        const seen_blob *b = seen_defined(&s, MTP__CONTROL_NAME, (uint32_t)at(2 * i)->word[0]);
        assert_non_null(b);
        assert_int_equal(b->length, name[i].length);
        assert_memory_equal(b->bytes, name[i].text, name[i].length);
        assert_true(b->id >> 31); /* the session's own */
    }
    const seen_blob *b = seen_defined(&s, MTP__CONTROL_NAME, (uint32_t)at(2 * COUNT(name))->word[0]);
    assert_int_equal(b->length, HUGE_NAME);
    assert_memory_equal(b->bytes, huge, HUGE_NAME);
    assert_int_equal(at(2 * COUNT(name) + 2)->word[0], at(2)->word[0]); /* the same text, the same id */
    assert_int_equal(ledger_of(prof).lost_definitions, 0);
    close_it();
    free(huge);
}

static void a_run_time_name_that_the_process_knows_has_the_process_id(void **state)
{
    (void)state;
    uint32_t known = mtp_name("known to all");
    open_plain();
    mtp_scope_end(mtp_scope_begin_text("known to all", 12));
    read_back();
    assert_int_equal((uint32_t)at(0)->word[0], known);
    close_it();
}

static void names_are_told_whenever_they_come(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "before %d", (int)test_below(1000000));
    uint32_t before = mtp_name(text);
    open_plain();
    mtp_mark(before);
    snprintf(text, sizeof text, "while %d", (int)test_below(1000000));
    uint32_t meanwhile = mtp_name(text);
    mtp_mark(meanwhile);
    mtp_mark(0);
    read_back();
    assert_string_equal(seen_name(&s, meanwhile), text);
    assert_string_equal(seen_name(&s, (uint32_t)at(1)->word[0]), text);
    assert_int_equal((uint32_t)at(2)->word[0], 0);
    uint32_t highest = 0;
    for (size_t i = 0; i < s.blobs; i++) /* all names of the process, once each */
        if (s.blob[i].kind == MTP__CONTROL_NAME && s.blob[i].id < 0x80000000u)
            highest = s.blob[i].id > highest ? s.blob[i].id : highest;
    assert_int_equal(highest, mtp__intern_count(mtp__names()));
    close_it();
}

/* -------------------------------------------------------------------------------------------- tokens */

static void an_end_after_the_stop_writes_nothing(void **state)
{
    (void)state;
    open_plain();
    mtp_token open = mtp_scope_begin(MTP_NAME("open"));
    assert_int_not_equal(open, 0);
    assert_ok(mtp_profile_stop(prof));
    mtp_scope_end(open);
    assert_int_equal(ledger_of(prof).emitted, 2);
    assert_ok(mtp_profile_start(prof)); /* nor in a later cycle */
    mtp_scope_end(open);
    MTP_SCOPE ("of this cycle") {
        mtp_scope_end(open);
    }
    mtp_scope_end(open);
    read_back();
    assert_int_equal(s.records, 3);
    close_it();
}

/* Two profiles, each in its first cycle: their tokens differ. */
static void an_end_in_another_profile_writes_nothing(void **state)
{
    (void)state;
    open_plain();
    mtp_token open = mtp_scope_begin(MTP_NAME("open"));
    mtp_op op = MTP_OP_INIT(MTP_NAME("open op"));
    mtp_op_begin(&op);
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    open_plain();
    MTP_SCOPE ("mine") {
        mtp_scope_end(open);
        mtp_op_end(&op);
    }
    read_back();
    assert_int_equal(s.records, 3);
    close_it();
}

/* A scope in the middle of a program's own error handling must not disturb it. */
static void recording_leaves_errno_alone(void **state)
{
    (void)state;
    static const mtp_when_full policy[] = {MTP_STOP_WHEN_FULL, MTP_KEEP_NEWEST, MTP_STREAM};
    for (size_t i = 0; i < COUNT(policy); i++) {
        mtp_profile_config c = test_config(NULL);
        c.record_shapes = c.with_stack = true;
        c.when_full = policy[i];
        c.buffer_bytes = 8 * 4096;
        c.spool = test_path("errno.mtp");
        open_with(c);
        mtp__fault_plan(1u << MTP__FAULT_GROW, 2, true);
        for (int k = 0; k < 20000; k++) {
            errno = 12345;
            MTP_SCOPE ("calm") {
            }
            mtp_op op = MTP_OP_INIT(MTP_NAME("calm op"));
            mtp_op_begin(&op);
            mtp_op_end(&op);
            assert_int_equal(errno, 12345);
        }
        mtp__fault_stop();
        assert_ok(mtp_profile_stop(prof));
        mtp_profile_destroy(prof);
    }
}

static void *end_it(void *arg)
{
    mtp_scope_end(*(mtp_token *)arg); /* the thread's first call */
    MTP_SCOPE ("mine") {
        mtp_scope_end(*(mtp_token *)arg);
    }
    return NULL;
}

static void an_end_on_another_thread_writes_nothing(void **state)
{
    (void)state;
    pthread_t t;
    open_plain();
    mtp_token open = mtp_scope_begin(MTP_NAME("open"));
    pthread_create(&t, NULL, end_it, &open);
    pthread_join(t, NULL);
    mtp_scope_end(open);
    read_back();
    assert_int_equal(s.records, 5);
    assert_int_equal(seen_count(&s, MTP__KIND_END, -1), 2);
    close_it();
}

static void a_begin_without_a_profile_is_no_token_and_its_end_nothing(void **state)
{
    (void)state;
    mtp_token early = mtp_scope_begin(MTP_NAME("early"));
    mtp_op op = MTP_OP_INIT(MTP_NAME("early op"));
    mtp_op_begin(&op);
    assert_int_equal(early, 0);
    assert_int_equal(op.token, 0);
    open_plain();
    mtp_scope_end(early);
    mtp_op_end(&op);
    read_back();
    assert_int_equal(s.records, 1);
    close_it();
}

static void an_op_ends_in_its_own_cycle_alone(void **state)
{
    (void)state;
    open_plain();
    mtp_op op = MTP_OP_INIT(MTP_NAME("open op"));
    mtp_op_begin(&op);
    mtp_op copy = op;
    assert_ok(mtp_profile_stop(prof));
    mtp_op_end(&op);
    assert_int_equal(op.token, 0);
    assert_int_equal(ledger_of(prof).emitted, 2);
    assert_ok(mtp_profile_start(prof));
    mtp_op_end(&copy);
    copy.token = 12345;
    mtp_op_end(&copy);
    read_back();
    assert_int_equal(s.records, 1);
    close_it();
}

static void without_the_cpu_open_scopes_and_ops_are_closed_and_none_is_opened(void **state)
{
    (void)state;
    open_plain();
    mtp_token open = mtp_scope_begin(MTP_NAME("open"));
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    mtp_op_begin(&op);
    assert_ok(mtp_profile_toggle(prof, false, MTP_CPU));
    mtp_op inner = MTP_OP_INIT(MTP_NAME("inner"));
    mtp_op_begin(&inner);
    assert_int_equal(inner.token, 0);
    assert_int_equal(mtp_scope_begin_text("no", 2), 0);
    assert_int_equal(mtp__scope_begin(MTP_NAME("raced")), 0); /* as if the flag had been read before */
    mtp_op_end(&inner);
    mtp_op_end(&op);
    mtp_scope_end(open);
    read_back();
    assert_int_equal(s.records, 5);
    assert_record(2, MTP__KIND_END, 1);
    assert_record(3, MTP__KIND_END, 1);
    close_it();
}

/* ----------------------------------------------------------------------------------------------- ops */

static int64_t dims_a[] = {2, 3}, dims_b[] = {3, 4}, strides_b[] = {1, 3};
static const mtp_input two_inputs[] = {
    {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims_a},
    {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT16, .count = 2, .dims = dims_b, .strides = strides_b},
};

static mtp_op full_op(void)
{
    mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
    op.device = MTP_DEVICE_NPU(3);
    op.kind = MTP_SCOPE_BACKWARD;
    op.sequence = 77;
    op.forward_thread = 0xabcdef0123456789u;
    op.correlation = 4242;
    op.flops = 123456789;
    op.allocated = 1 << 20;
    op.inputs = op.outputs = two_inputs;
    op.input_count = 2;
    op.output_count = 1;
    op.args = "alpha=1";
    return op;
}

static void a_full_op_carries_every_payload_in_order(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = c.profile_memory = c.with_flops = true;
    open_with(c);
    mtp_op op = full_op();
    mtp_op_begin(&op);
    op.allocated = 2 << 20;
    mtp_op_end(&op);
    read_back();
    unsigned mask = MTP__HAS_SEQUENCE | MTP__HAS_FORWARD | MTP__HAS_DETAIL | MTP__HAS_ALLOCATED |
                    MTP__HAS_CORRELATION | MTP__HAS_FLOPS | MTP__HAS_ARGS;
    assert_begin(0, "aten::mm", MTP_SCOPE_BACKWARD, mask, MTP_DEVICE_NPU(3));
    const uint64_t *w = at(0)->word;
    assert_int_equal(w[1], 77);
    assert_true(w[2] == 0xabcdef0123456789u);
    assert_int_equal(w[3] >> 32, 0);
    uint64_t shape[8];
    const seen_blob *b = seen_defined(&s, MTP__CONTROL_SHAPE, (uint32_t)w[3]);
    assert_int_equal(b->length, sizeof shape);
    memcpy(shape, b->bytes, sizeof shape);
    assert_int_equal(shape[0], MTP_INPUT_TENSOR | MTP_FLOAT32 << 8 | (uint64_t)2 << 32);
    assert_int_equal(shape[1], 2);
    assert_int_equal(shape[2], 3);
    assert_int_equal(shape[3],
                     MTP_INPUT_TENSOR | MTP_FLOAT16 << 8 | MTP__SHAPE_STRIDES << 16 | (uint64_t)2 << 32);
    assert_int_equal(shape[4], 3);
    assert_int_equal(shape[5], 4);
    assert_int_equal(shape[6], 1);
    assert_int_equal(shape[7], 3);
    assert_int_equal(w[4], 1 << 20);
    assert_int_equal(w[5], 4242);
    assert_int_equal(w[6], 123456789);
    assert_string_equal((const char *)seen_defined(&s, MTP__CONTROL_TEXT, (uint32_t)w[7])->bytes, "alpha=1");
    assert_record(1, MTP__KIND_END, 4);
    w = at(1)->word;
    assert_int_equal(w[0], (uint64_t)(MTP__HAS_DETAIL | MTP__HAS_ALLOCATED) << 40);
    b = seen_defined(&s, MTP__CONTROL_SHAPE, (uint32_t)w[1]);
    assert_int_equal(b->length, 3 * 8);
    assert_memory_equal(b->bytes, shape, 3 * 8);
    assert_int_equal(w[2], 2 << 20);
    close_it();
}

static void flags_that_are_off_leave_no_words(void **state)
{
    (void)state;
    open_plain();
    mtp_op op = full_op();
    mtp_op_begin(&op);
    mtp_op_end(&op);
    op = (mtp_op)MTP_OP_INIT(MTP_NAME("aten::relu"));
    mtp_op_begin(&op);
    mtp_op_end(&op);
    read_back();
    unsigned always = MTP__HAS_SEQUENCE | MTP__HAS_FORWARD | MTP__HAS_CORRELATION | MTP__HAS_ARGS;
    assert_begin(0, "aten::mm", MTP_SCOPE_BACKWARD, always, MTP_DEVICE_NPU(3));
    assert_int_equal(at(0)->word[3], 4242);
    assert_record(1, MTP__KIND_END, 1);
    assert_begin(2, "aten::relu", MTP_SCOPE_OP, 0, 0);
    assert_record(3, MTP__KIND_END, 1);
    for (size_t i = 0; i < s.blobs; i++)
        assert_int_not_equal(s.blob[i].kind, MTP__CONTROL_SHAPE);
    close_it();
}

/* Each flag by itself turns on its own words and no others. */
static void each_flag_brings_its_own_words(void **state)
{
    (void)state;
    unsigned always = MTP__HAS_SEQUENCE | MTP__HAS_FORWARD | MTP__HAS_CORRELATION | MTP__HAS_ARGS;
    static const unsigned adds[] = {MTP__HAS_DETAIL, MTP__HAS_ALLOCATED, MTP__HAS_FLOPS, MTP__HAS_DETAIL};
    for (int flag = 0; flag < 4; flag++) {
        mtp_profile_config c = test_config(NULL);
        c.record_shapes = flag == 0;
        c.profile_memory = flag == 1;
        c.with_flops = flag == 2;
        c.with_stack = flag == 3;
        open_with(c);
        mtp_op op = full_op();
        mtp_op_begin(&op);
        mtp_op_end(&op);
        read_back();
        assert_begin(0, "aten::mm", MTP_SCOPE_BACKWARD, always | adds[flag], MTP_DEVICE_NPU(3));
        assert_record(1, MTP__KIND_END, flag == 0 || flag == 1 ? 3 : 1);
        close_it();
    }
}

static void values_that_mean_none_leave_no_words(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.profile_memory = c.with_flops = true;
    open_with(c);
    mtp_op op = MTP_OP_INIT(MTP_NAME("bare"));
    mtp_op_begin(&op);
    mtp_op_end(&op);
    op = (mtp_op)MTP_OP_INIT(MTP_NAME("zero"));
    op.sequence = 0; /* a number like others */
    op.allocated = 0;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    read_back();
    assert_begin(0, "bare", MTP_SCOPE_OP, 0, 0);
    assert_begin(2, "zero", MTP_SCOPE_OP, MTP__HAS_SEQUENCE | MTP__HAS_ALLOCATED, 0);
    assert_record(3, MTP__KIND_END, 3);
    close_it();
}

static void an_op_of_an_older_layout_is_refused(void **state)
{
    (void)state;
    open_plain();
    mtp_op op = MTP_OP_INIT(MTP_NAME("old"));
    op.size = 8;
    mtp_op_begin(&op);
    assert_int_equal(op.token, 0);
    mtp_op_end(&op);
    mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("old"), 0);
    work.size = 8;
    mtp_device_event(&work);
    read_back();
    assert_int_equal(s.records, 1);
    close_it();
}

/* ---------------------------------------------------------------------------- memory, device, marks */

static void memory_events_are_recorded_word_for_word(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.profile_memory = true;
    open_with(c);
    void *p = (void *)(uintptr_t)0x7fffdeadbeef;
    mtp_memory_event(MTP_DEVICE_NPU(2), p, 4096, 10000, 20000);
    mtp_memory_event(MTP_DEVICE_CPU, p, -4096, UINT64_MAX, 1);
    mtp_memory_tag(MTP_DEVICE_NPU(2), p, MTP_MEMORY_GRADIENT);
    mtp_memory_existing(MTP_DEVICE_NPU(2), p, 512, MTP_MEMORY_PARAMETER);
    read_back();
    assert_record(0, MTP__KIND_MEMORY, 6);
    const uint64_t *w = at(0)->word;
    assert_int_equal(w[0], (uint64_t)MTP_DEVICE_NPU(2) << 48);
    assert_int_equal(w[1], 0x7fffdeadbeef);
    assert_int_equal(w[2], 4096);
    assert_int_equal(w[3], 10000);
    assert_int_equal(w[4], 20000);
    assert_int_equal((int64_t)at(1)->word[2], -4096);
    assert_true(at(1)->word[3] == UINT64_MAX);
    assert_record(2, MTP__KIND_TAG, 3);
    assert_int_equal(at(2)->word[0], MTP_MEMORY_GRADIENT | (uint64_t)MTP_DEVICE_NPU(2) << 48);
    assert_int_equal(at(2)->word[1], 0x7fffdeadbeef);
    assert_record(3, MTP__KIND_EXISTING, 4);
    assert_int_equal(at(3)->word[0], MTP_MEMORY_PARAMETER | (uint64_t)MTP_DEVICE_NPU(2) << 48);
    assert_int_equal(at(3)->word[1], 0x7fffdeadbeef);
    assert_int_equal(at(3)->word[2], 512);
    close_it();
}

static void memory_of_a_device_belongs_to_its_activity(void **state)
{
    (void)state;
    static const uint32_t activities[] = {MTP_CPU, MTP_NPU};
    for (int i = 0; i < 2; i++) {
        mtp_profile_config c = test_config(NULL);
        c.profile_memory = true;
        c.activities = activities[i];
        open_with(c);
        mtp_memory_event(MTP_DEVICE_CPU, NULL, 1, 1, 1);
        mtp_memory_event(MTP_DEVICE_NPU(0), NULL, 2, 2, 2);
        mtp_memory_existing(MTP_DEVICE_CPU, NULL, 1, MTP_MEMORY_INPUT);
        mtp_memory_existing(MTP_DEVICE_NPU(0), NULL, 2, MTP_MEMORY_INPUT);
        read_back();
        assert_int_equal(s.records, 3);
        assert_int_equal(at(0)->word[2], 1 + i);
        assert_int_equal(at(1)->word[2], 1 + i);
        close_it();
    }
    open_plain(); /* without profile_memory: nothing, even past the inline test */
    mtp_memory_event(MTP_DEVICE_CPU, NULL, 1, 1, 1);
    mtp__memory_event(MTP_DEVICE_CPU, NULL, 1, 1, 1);
    mtp__memory_event(MTP_DEVICE_NPU(0), NULL, 1, 1, 1);
    mtp_memory_tag(MTP_DEVICE_CPU, NULL, MTP_MEMORY_INPUT);
    mtp__memory_tag(MTP_DEVICE_CPU, NULL, MTP_MEMORY_INPUT);
    mtp_memory_existing(MTP_DEVICE_CPU, NULL, 1, MTP_MEMORY_INPUT);
    mtp__memory_existing(MTP_DEVICE_CPU, NULL, 1, MTP_MEMORY_INPUT);
    read_back();
    assert_int_equal(s.records, 1);
    close_it();
}

static void device_work_is_recorded_word_for_word(void **state)
{
    (void)state;
    open_plain();
    mtp_device_work k = MTP_DEVICE_WORK_INIT(MTP_NAME("gemm_kernel"), MTP_DEVICE_NPU(1));
    k.kind = MTP_DEVICE_MEMCPY;
    k.stream = 7;
    k.correlation = 99;
    k.start = 1000;
    k.end = 2000;
    k.bytes = 1 << 30;
    k.queued = 900;
    k.clock = MTP_CLOCK_DEVICE;
    mtp_device_event(&k);
    k.grid[0] = 1, k.grid[1] = 2, k.grid[2] = 3;
    k.block[0] = 4, k.block[1] = 5, k.block[2] = 6;
    mtp_device_event(&k);
    mtp_device_clock(MTP_DEVICE_NPU(1), 111, 222, 333);
    read_back();
    for (size_t i = 0; i < 2; i++) {
        const uint64_t *w = at(i)->word;
        assert_record(i, MTP__KIND_DEVICE, i == 0 ? 8 : 11);
        assert_string_equal(seen_name(&s, (uint32_t)w[0]), "gemm_kernel");
        assert_int_equal(w[0] >> 32, MTP_DEVICE_MEMCPY | MTP_CLOCK_DEVICE << 8 | MTP_DEVICE_NPU(1) << 16);
        assert_int_equal(w[1], 1000);
        assert_int_equal(w[2], 2000);
        assert_int_equal(w[3], 7);
        assert_int_equal(w[4], 99);
        assert_int_equal(w[5], 1 << 30);
        assert_int_equal(w[6], 900);
    }
    const uint64_t *w = at(1)->word;
    assert_int_equal(w[7], 1 | (uint64_t)2 << 32);
    assert_int_equal(w[8], 3 | (uint64_t)4 << 32);
    assert_int_equal(w[9], 5 | (uint64_t)6 << 32);
    assert_record(2, MTP__KIND_DEVICE_CLOCK, 5);
    w = at(2)->word;
    assert_int_equal(w[0], (uint64_t)MTP_DEVICE_NPU(1) << 48);
    assert_int_equal(w[1], 111);
    assert_int_equal(w[2], 222);
    assert_int_equal(w[3], 333);
    close_it();
}

static void device_work_needs_its_activity(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.activities = MTP_CPU;
    open_with(c);
    mtp_device_work k = MTP_DEVICE_WORK_INIT(MTP_NAME("gemm_kernel"), MTP_DEVICE_NPU(1));
    mtp_device_event(&k);
    mtp__device_event(&k);
    mtp_device_clock(MTP_DEVICE_NPU(1), 1, 2, 3);
    mtp__device_clock(MTP_DEVICE_NPU(1), 1, 2, 3);
    read_back();
    assert_int_equal(s.records, 1);
    close_it();
}

static void marks_and_counters_are_recorded_word_for_word(void **state)
{
    (void)state;
    static const double value[] = {0.0, -0.0, 1.5, -1e300, 5e-324};
    open_plain();
    mtp_mark(MTP_NAME("here"));
    for (size_t i = 0; i < COUNT(value); i++)
        mtp_counter(MTP_NAME("loss"), value[i]);
    mtp_counter(MTP_NAME("loss"), __builtin_nan(""));
    read_back();
    assert_record(0, MTP__KIND_MARK, 2);
    assert_string_equal(seen_name(&s, (uint32_t)at(0)->word[0]), "here");
    for (size_t i = 0; i < COUNT(value); i++) {
        assert_record(i + 1, MTP__KIND_COUNTER, 3);
        assert_string_equal(seen_name(&s, (uint32_t)at(i + 1)->word[0]), "loss");
        assert_memory_equal(&at(i + 1)->word[1], &value[i], 8);
    }
    double nan_back;
    memcpy(&nan_back, &at(1 + COUNT(value))->word[1], 8);
    assert_true(nan_back != nan_back);
    close_it();
}

static void steps_are_marks_and_with_a_schedule_scopes(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.schedule = (mtp_schedule){.active = 100};
    open_with(c);
    for (int i = 0; i < 3; i++)
        assert_ok(mtp_profile_step(prof));
    read_back();
    assert_int_equal(s.records, 4 * 3);
    for (uint64_t i = 0; i < 4; i++) { /* STEP, BEGIN, END, STEP, BEGIN, ... */
        size_t k = (size_t)i * 3;
        assert_int_equal(seen_nth(&s, -1, k)->kind, MTP__KIND_STEP);
        assert_int_equal(seen_nth(&s, -1, k)->word[0], i);
        assert_begin(k, "ProfilerStep#", MTP_SCOPE_STEP, MTP__HAS_NUMBER, 0);
        assert_int_equal(at(k)->word[1], i);
        assert_record(k + 1, MTP__KIND_END, 1);
    }
    close_it();
}

/* ---------------------------------------------------------------------------------------- the session */

static void the_control_stream_says_who_recorded_what_and_when(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = true;
    open_with(c);
    MTP_SCOPE ("x") {
    }
    read_back();
    const seen_words *session = seen_control(&s, MTP__CONTROL_SESSION, 0);
    assert_true(session->count >= 4);
    assert_int_equal(session->word[0], getpid());
    assert_int_equal(session->word[1], MTP_CPU | MTP_NPU | MTP_WITH_SHAPES);
    assert_int_equal(session->word[2], 1);
    assert_int_equal(session->word[3], mtp__clock_is_counter());
    const seen_words *first = seen_control(&s, MTP__CONTROL_ANCHOR, 0),
                     *last = seen_control(&s, MTP__CONTROL_ANCHOR, 1);
    assert_non_null(last); /* one at the start, one at the stop */
    for (int i = 0; i < 4; i++)
        assert_true(last->word[i] > first->word[i]);
    assert_true((first->word[0] & UINT64_C(0xffffffffffffff)) <= at(0)->ticks);
    assert_true((last->word[0] & UINT64_C(0xffffffffffffff)) >= at(1)->ticks);
    const seen_words *ledger = seen_control(&s, MTP__CONTROL_LEDGER, 0);
    assert_int_equal(ledger->count, 4 + MTP_DROP_CAUSES);
    assert_int_equal(ledger->word[0], 3);
    assert_int_equal(ledger->word[1], 3);
    assert_int_equal(ledger->word[2], 0);
    close_it();
}

static void hot_calls_without_a_profile_do_nothing(void **state)
{
    (void)state;
    mtp_device_work k = MTP_DEVICE_WORK_INIT(1, 0);
    mtp_op op = MTP_OP_INIT(1);
    uint32_t threads = mtp__registry_count();
    long live = mtp__alloc_live();
    for (int i = 0; i < 3; i++) { /* also past the inline tests, as in a race with stop */
        mtp__mark(1);
        mtp__counter(1, 1);
        mtp__memory_event(0, NULL, 1, 1, 1);
        mtp__memory_tag(0, NULL, MTP_MEMORY_INPUT);
        mtp__memory_existing(0, NULL, 1, MTP_MEMORY_INPUT);
        mtp__device_event(&k);
        mtp__device_clock(0, 1, 2, 3);
        mtp__op_begin(&op);
        mtp__op_end(&op);
        assert_int_equal(mtp__scope_begin(1), 0);
        assert_int_equal(mtp__scope_begin_text("x", 1), 0);
        mtp__scope_end(1);
        mtp__scope_end(UINT32_MAX);
    }
    assert_int_equal(mtp__registry_count(), threads);
    assert_int_equal(mtp__alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hot_calls_without_a_profile_do_nothing),
        TEST(a_scope_is_a_begin_and_an_end),
        TEST(a_scope_ends_however_it_is_left),
        TEST(nested_scopes_are_nested_records),
        TEST(a_hundred_thousand_levels_are_only_records),
        TEST(names_made_at_run_time_are_kept_as_bytes),
        TEST(a_run_time_name_that_the_process_knows_has_the_process_id),
        TEST(names_are_told_whenever_they_come),
        TEST(an_end_after_the_stop_writes_nothing),
        TEST(an_end_on_another_thread_writes_nothing),
        TEST(an_end_in_another_profile_writes_nothing),
        TEST(recording_leaves_errno_alone),
        TEST(a_begin_without_a_profile_is_no_token_and_its_end_nothing),
        TEST(an_op_ends_in_its_own_cycle_alone),
        TEST(without_the_cpu_open_scopes_and_ops_are_closed_and_none_is_opened),
        TEST(a_full_op_carries_every_payload_in_order),
        TEST(flags_that_are_off_leave_no_words),
        TEST(each_flag_brings_its_own_words),
        TEST(values_that_mean_none_leave_no_words),
        TEST(an_op_of_an_older_layout_is_refused),
        TEST(memory_events_are_recorded_word_for_word),
        TEST(memory_of_a_device_belongs_to_its_activity),
        TEST(device_work_is_recorded_word_for_word),
        TEST(device_work_needs_its_activity),
        TEST(marks_and_counters_are_recorded_word_for_word),
        TEST(steps_are_marks_and_with_a_schedule_scopes),
        TEST(the_control_stream_says_who_recorded_what_and_when),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
