/* Unit: ops as a foreign dispatcher reports them: packed inputs (mtp_pack), identities beside them, an mtp_op of 0.1, and
 * backward nodes whose engine scope has no number of its own. */
#include "tests/unit/read_back.h"
#include "trace/trace.h"

#define ROOM 256u

static void start(void)
{
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = true;
    prof = test_start(&c);
}

static mtp_pack new_pack(void)
{
    static uint64_t words[ROOM];
    mtp_pack pack;
    mtp_pack_init(&pack, words, ROOM);
    return pack;
}

static void packed_op(const mtp_pack *pack)
{
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    op.inputs = MTP_PACKED(pack);
    op.flags = MTP_OP_PACKED;
    mtp_op_begin(&op);
    mtp_op_end(&op);
}

static uint32_t shape_of(size_t nth)
{
    return (uint32_t)seen_nth(&s, MTP__KIND_BEGIN, nth)->word[1];
}

static void packed_inputs_are_those_of_the_array(void **state)
{
    (void)state;
    int64_t dims[3] = {2, -1, 4}, strides[3] = {12, 4, 1}, values[2] = {-7, INT64_MAX};
    mtp_input item[2] = {
        {.kind = MTP_INPUT_TENSOR, .dtype = MTP_INT64, .count = 1, .dims = dims},
        {.kind = MTP_INPUT_TENSOR, .dtype = MTP_BOOL, .count = 3, .dims = dims, .strides = strides},
    };
    mtp_input in[] = {
        {.kind = MTP_INPUT_NONE},
        {.kind = MTP_INPUT_TENSOR, .dtype = MTP_BFLOAT16, .count = 3, .dims = dims, .strides = strides},
        {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 0, .strides = strides},
        {.kind = MTP_INPUT_TENSOR_LIST, .count = 2, .value.items = item},
        {.kind = MTP_INPUT_INT, .value.i = -5},
        {.kind = MTP_INPUT_FLOAT, .value.f = 2.5},
        {.kind = MTP_INPUT_BOOL, .value.i = 1},
        {.kind = MTP_INPUT_INT_LIST, .count = 2, .dims = values},
        {.kind = MTP_INPUT_TEXT, .count = 9, .value.text = "mean_text"},
        {.kind = MTP_INPUT_TEXT, .count = 0, .value.text = ""},
        {.kind = MTP_INPUT_TENSOR_LIST, .count = 0},
    };
    mtp_pack pack = new_pack();
    mtp_pack_none(&pack);
    mtp_pack_tensor(&pack, MTP_BFLOAT16, 3, dims, strides);
    mtp_pack_tensor(&pack, MTP_FLOAT32, 0, NULL, strides);
    mtp_pack_list(&pack, 2);
    mtp_pack_tensor(&pack, MTP_INT64, 1, dims, NULL);
    mtp_pack_tensor(&pack, MTP_BOOL, 3, dims, strides);
    mtp_pack_int(&pack, -5);
    mtp_pack_float(&pack, 2.5);
    mtp_pack_bool(&pack, true);
    mtp_pack_numbers(&pack, MTP_UNKNOWN, 2, values);
    mtp_pack_text(&pack, "mean_text", 9);
    mtp_pack_text(&pack, "", 0);
    mtp_pack_list(&pack, 0);
    assert_false(pack.cut);
    start();
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    op.inputs = in;
    op.input_count = sizeof in / sizeof *in;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    packed_op(&pack);
    mtp_pack_begin(&pack);
    mtp_pack_none(&pack);
    packed_op(&pack);
    read_back();
    assert_int_not_equal(shape_of(0), 0);
    assert_int_equal(shape_of(0), shape_of(1));
    assert_int_not_equal(shape_of(1), shape_of(2));
    close_it();
}

static void what_does_not_fit_is_cut(void **state)
{
    (void)state;
    static int64_t dims[ROOM];
    mtp_pack pack = new_pack();
    mtp_pack_int(&pack, 1);
    mtp_pack_tensor(&pack, MTP_FLOAT32, ROOM, dims, dims);
    assert_true(pack.cut);
    uint32_t count = pack.count;
    mtp_pack_int(&pack, 2);
    mtp_pack_numbers(&pack, MTP_UNKNOWN, UINT32_MAX, NULL);
    assert_int_equal(pack.count, count);
    for (mtp_pack_begin(&pack); !pack.cut;)
        mtp_pack_none(&pack);
    assert_in_range(pack.count, ROOM - 1, ROOM);
    start();
    packed_op(&pack);
    read_back();
    assert_int_not_equal(shape_of(0), 0);
    close_it();
}

static void pack_ints(mtp_pack *pack, int64_t a, int64_t b)
{
    mtp_pack_begin(pack);
    mtp_pack_int(pack, a);
    if (b != 0)
        mtp_pack_int(pack, b);
}

/* A pack that is used again has the number of what is in it now, whatever was recorded in between. */
static void a_pack_may_be_used_again(void **state)
{
    (void)state;
    mtp_pack pack = new_pack();
    static const int64_t calls[][2] = {{1, 2}, {1, 2}, {1, 3}, {1, 2}, {1, 0},
                                       {1, 2}, {1, 2}, {4, 0}, {4, 2}};
    enum {
        CALLS = sizeof calls / sizeof *calls
    };
    for (int round = 0; round < 2; round++) { /* numbers of an earlier profile are not used */
        start();
        if (round == 1) {
            pack_ints(&pack, 9, 9);
            packed_op(&pack);
        }
        for (size_t i = 0; i < CALLS; i++) {
            pack_ints(&pack, calls[i][0], calls[i][1]);
            packed_op(&pack);
        }
        read_back();
        for (size_t i = 0; i < CALLS; i++)
            for (size_t k = 0; k < CALLS; k++)
                assert_int_equal(shape_of(i + (size_t)round) == shape_of(k + (size_t)round),
                                 calls[i][0] == calls[k][0] && calls[i][1] == calls[k][1]);
        close_it();
    }
}

static void what_was_packed_while_nothing_recorded_counts(void **state)
{
    (void)state;
    mtp_pack pack = new_pack();
    start();
    pack_ints(&pack, 1, 2);
    packed_op(&pack);
    pack_ints(&pack, 1, 3); /* not recorded */
    pack_ints(&pack, 1, 3);
    packed_op(&pack);
    pack_ints(&pack, 1, 0); /* not recorded */
    pack_ints(&pack, 1, 3);
    packed_op(&pack);
    mtp_pack_begin(&pack);
    packed_op(&pack);
    read_back();
    assert_int_not_equal(shape_of(0), shape_of(1));
    assert_int_equal(shape_of(1), shape_of(2));
    assert_int_equal(shape_of(3), 0);
    close_it();
}

static void identities_go_beside_packed_inputs(void **state)
{
    (void)state;
    int64_t dims[1] = {4};
    mtp_identity id[2] = {{.tensor = 7, .storage = 0x1000, .dtype = MTP_FLOAT32},
                          {.tensor = 8, .storage = 0x2000, .device = MTP_DEVICE_NPU(1), .dtype = MTP_INT64}};
    mtp_pack pack = new_pack();
    mtp_pack_tensor(&pack, MTP_FLOAT32, 1, dims, NULL);
    mtp_pack_tensor(&pack, MTP_INT64, 1, dims, NULL);
    start();
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    op.inputs = MTP_PACKED(&pack);
    op.flags = MTP_OP_PACKED | MTP_OP_IDENTIFIED;
    op.identities = id;
    op.identity_count = 2;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    const mtp__detail *d = mtp__trace_detail(t, 0);
    assert_int_equal(d->tensor_count, 2);
    assert_int_equal(t->tensors[d->tensors].number, 7);
    assert_int_equal(t->tensors[d->tensors].storage, 0x1000);
    assert_int_equal(t->tensors[d->tensors + 1].number, 8);
    assert_int_equal(t->tensors[d->tensors + 1].device, MTP_DEVICE_NPU(1));
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static void an_op_of_0_1_is_recorded(void **state)
{
    (void)state;
    start();
    mtp_op op = MTP_OP_INIT(MTP_NAME("old"));
    op.size = offsetof(mtp_op, identities); /* what sizeof was, padding included */
    mtp_op_begin(&op);
    assert_int_not_equal(op.token, 0);
    mtp_op_end(&op);
    read_back();
    assert_non_null(seen_nth(&s, MTP__KIND_BEGIN, 0));
    close_it();
}

/* ------------------------------------------------------------------------------------------ traces */

static mtp_trace *stopped_trace(void)
{
    mtp_trace *t;
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_trace(prof, &t));
    return t;
}

static void lists_of_truths_and_of_doubles_are_shown_as_such(void **state)
{
    (void)state;
    double half = 0.5, two = 2;
    mtp_pack pack = new_pack();
    int64_t numbers[2];
    mtp_pack_numbers(&pack, MTP_BOOL, 2, (const int64_t[]){1, 0});
    memcpy(&numbers[0], &half, 8), memcpy(&numbers[1], &two, 8);
    mtp_pack_numbers(&pack, MTP_FLOAT64, 2, numbers);
    mtp_pack_numbers(&pack, MTP_BOOL, 0, NULL);
    start();
    packed_op(&pack);
    mtp_trace *t = stopped_trace();
    const mtp__shape *shape = &t->shapes[mtp__trace_detail(t, 0)->shape];
    assert_string_equal(mtp__trace_get_text(t, shape->concrete).bytes,
                        "[\"[True, False]\", \"[0.5, 2.0]\", \"[]\"]");
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static mtp_op begin_named(const char *name, uint32_t kind, int64_t sequence, uint64_t forward)
{
    mtp_op op = MTP_OP_INIT(mtp_name(name));
    op.kind = kind;
    op.sequence = sequence;
    op.forward_thread = forward;
    mtp_op_begin(&op);
    return op;
}

static void node_in_engine(const char *engine, int64_t own, const char *node, int64_t number)
{
    mtp_op outer = begin_named(engine, MTP_SCOPE_OP, own, 0);
    mtp_op hook = begin_named("hook.py(1): hook", MTP_SCOPE_PYTHON, -1, 0);
    mtp_op inner = begin_named(node, MTP_SCOPE_BACKWARD, number, number >= 0 ? 12 : 0);
    mtp_op_end(&inner);
    mtp_op_end(&hook);
    mtp_op_end(&outer);
}

/* Scopes without details share one entry: neither the outer one nor a later one gets the number. */
static void only_the_innermost_engine_scope_is_numbered(void **state)
{
    (void)state;
    static const char name[] = "autograd::engine::evaluate_function: AddBackward0";
    mtp_profile_config c = test_config(NULL); /* no shapes: no details */
    prof = test_start(&c);
    mtp_op outer = begin_named(name, MTP_SCOPE_OP, -1, 0);
    mtp_op inner = begin_named(name, MTP_SCOPE_OP, -1, 0);
    mtp_op node = begin_named("AddBackward0", MTP_SCOPE_BACKWARD, 41, 12);
    mtp_op_end(&node);
    mtp_op_end(&inner);
    mtp_op_end(&outer);
    mtp_trace *t = stopped_trace();
    const int64_t expected[] = {-1, 41, 41};
    assert_int_equal(t->span_count, 3);
    for (uint32_t i = 0; i < t->span_count; i++)
        assert_int_equal(mtp__trace_detail(t, i)->sequence, expected[i]);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static void the_engines_scope_has_its_nodes_number(void **state)
{
    (void)state;
    start();
    node_in_engine("autograd::engine::evaluate_function: AddBackward0", -1, "AddBackward0", 41);
    node_in_engine("autograd::engine::evaluate_function: MulBackward0", 5, "MulBackward0",
                   42); /* keeps its own */
    node_in_engine("autograd::engine::evaluate_function: AccumulateGrad", -1, "AccumulateGrad", -1);
    node_in_engine("something else", -1, "SubBackward0", 43);
    mtp_trace *t = stopped_trace();
    const int64_t expected[] = {41, -1, 41, 5, -1, 42, -1, -1, -1, -1, -1, 43};
    assert_int_equal(t->span_count, 12);
    for (uint32_t i = 0; i < t->span_count; i++)
        assert_int_equal(mtp__trace_detail(t, i)->sequence, expected[i]);
    assert_int_equal(mtp__trace_detail(t, 0)->forward_thread, 12);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static uint32_t three_frames(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    uint32_t n = room < 3 ? room : 3;
    for (uint32_t i = 0; i < n; i++)
        frames[i] = 99 + i;
    return n;
}

static void describe(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user;
    snprintf(out, room, "a.py:%d:f", (int)frame);
}

static uint32_t depth_of(const mtp_trace *t, uint32_t span)
{
    uint32_t depth = 0;
    for (uint32_t stack = mtp__trace_detail(t, span)->stack; stack != 0; stack = t->stacks[stack].parent)
        depth++;
    return depth;
}

static void calls_of_python_have_their_function_and_its_caller(void **state)
{
    (void)state;
    mtp_stack_provider provider = {sizeof provider, three_frames, describe, NULL};
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    assert_ok(mtp_stack_provider_set(&provider));
    prof = test_start(&c);
    mtp_op call = begin_named("a.py(1): f", MTP_SCOPE_PYTHON, -1, 0);
    mtp_op op = begin_named("aten::add", MTP_SCOPE_OP, -1, 0);
    mtp_op_end(&op);
    mtp_op_end(&call);
    mtp_trace *t = stopped_trace();
    assert_int_equal(depth_of(t, 0), 2);
    assert_int_equal(depth_of(t, 1), 3);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
    assert_ok(mtp_stack_provider_set(NULL));
}

/* Native frames begin inside the library: the two are counted from the program's own. */
static void calls_with_native_stacks_lead_to_their_caller(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    prof = test_start(&c);
    static const uint32_t kinds[] = {MTP_SCOPE_OP, MTP_SCOPE_MODULE};
    for (int i = 0; i < 2; i++) {
        mtp_op op = begin_named("call", kinds[i], -1, 0);
        mtp_op_end(&op);
    }
    mtp_trace *t = stopped_trace();
    assert_true(depth_of(t, 0) > 2);
    assert_int_equal(depth_of(t, 1), 2);
    assert_int_equal(t->stacks[mtp__trace_detail(t, 1)->stack].frame,
                     t->stacks[mtp__trace_detail(t, 0)->stack].frame);
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(packed_inputs_are_those_of_the_array),
        TEST(what_does_not_fit_is_cut),
        TEST(a_pack_may_be_used_again),
        TEST(what_was_packed_while_nothing_recorded_counts),
        TEST(identities_go_beside_packed_inputs),
        TEST(an_op_of_0_1_is_recorded),
        TEST(lists_of_truths_and_of_doubles_are_shown_as_such),
        TEST(only_the_innermost_engine_scope_is_numbered),
        TEST(the_engines_scope_has_its_nodes_number),
        TEST(calls_of_python_have_their_function_and_its_caller),
        TEST(calls_with_native_stacks_lead_to_their_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
