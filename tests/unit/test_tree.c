/* Unit: analyze/tree*, and what is recorded for it: the tensors of ops and of objects. */
#define _GNU_SOURCE
#include <time.h>
#include "tests/made_trace.h"

static mtp_input tensor_input(const mtp_identity *identity)
{
    static const int64_t dims[2] = {2, 3};
    mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
    in.value.identity = identity;
    return in;
}

static mtp_input text_input(const char *text)
{
    mtp_input in = {.kind = MTP_INPUT_TEXT, .count = (uint32_t)strlen(text)};
    in.value.text = text;
    return in;
}

static mtp_profile *start(bool shapes, const char *spool)
{
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = shapes;
    c.profile_memory = true;
    c.spool = spool;
    return test_start(&c);
}

static void call_of(const char *name, mtp_scope_kind kind, const mtp_input *inputs, uint32_t count)
{
    mtp_op op = MTP_OP_INIT(mtp_name(name));
    op.kind = kind;
    op.flags = MTP_OP_IDENTIFIED;
    op.inputs = inputs;
    op.input_count = count;
    mtp_op_begin(&op);
    mtp_op_end(&op);
}

static void op_on(const char *name, uint64_t tensor, uint64_t storage)
{
    mtp_identity id = {tensor, storage, MTP_DEVICE_CPU, 0};
    mtp_input in = tensor_input(&id);
    call_of(name, MTP_SCOPE_OP, &in, 1);
}

static void memory(uint64_t address, int64_t bytes)
{
    mtp_memory_event(MTP_DEVICE_CPU, (void *)(uintptr_t)address, bytes, 100, 200);
}

static mtp_trace *stopped(mtp_profile *prof)
{
    mtp_trace *t;
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_trace(prof, &t));
    mtp_profile_destroy(prof);
    return t;
}

static mtp_tree *tree_of(const mtp_trace *t)
{
    mtp_tree *tree;
    assert_ok(mtp_tree_create(t, &tree));
    return tree;
}

static void done(mtp_tree *tree, mtp_trace *t)
{
    mtp_tree_destroy(tree);
    mtp_trace_destroy(t);
}

static mtp_tree_node at(const mtp_tree *tree, size_t node)
{
    mtp_tree_node n;
    n.size = sizeof n;
    assert_ok(mtp_tree_get(tree, node, &n));
    return n;
}

static mtp_tree_node named(const mtp_tree *tree, const char *name)
{
    for (size_t i = 0; i < mtp_tree_count(tree); i++)
        if (strcmp(at(tree, i).name.bytes, name) == 0)
            return at(tree, i);
    fail_msg("no node %s", name);
    return at(tree, 0);
}

static mtp_tree_tensor tensor_at(const mtp_tree *tree, size_t tensor)
{
    mtp_tree_tensor out = {.size = sizeof out};
    assert_ok(mtp_tree_tensor_get(tree, tensor, &out));
    return out;
}

static mtp_tree_tensor first_of(const mtp_tree *tree, const char *op)
{
    mtp_tree_node n = named(tree, op);
    assert_true(n.inputs.count > 0);
    return tensor_at(tree, n.inputs.first);
}

static void write_below(const mtp_tree *tree, size_t node, char *text, size_t room)
{
    size_t count, length;
    const uint32_t *child = mtp_tree_children(tree, node, &count);
    for (size_t i = 0; i < count; i++) {
        length = strlen(text);
        snprintf(text + length, room - length, "%s%s(", i > 0 ? " " : "", at(tree, child[i]).name.bytes);
        assert_true(at(tree, child[i]).parent == node);
        write_below(tree, child[i], text, room);
        strcat(text, ")");
    }
}

static void assert_nested(const mtp_tree *tree, const char *want)
{
    char text[1024] = "";
    write_below(tree, MTP_NO_EVENT, text, sizeof text);
    assert_string_equal(text, want);
}

/* ---------------------------------------------------------------------------------------------- the order */

static void memory_is_below_what_ran_when_it_was_taken(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    uint32_t a = made_thread(t, 100), b = made_thread(t, 101);
    made_scope(t, a, 10, 100, "step");
    made_op(t, a, 20, 50, "mm");
    made_op(t, a, 30, 40, "empty");
    made_op(t, b, 25, 90, "other");
    made_memory(t, a, 5, 1, 8);
    made_memory(t, a, 35, 2, 8);
    made_memory(t, a, 45, 3, 8);
    made_memory(t, b, 46, 4, 8);
    made_memory(t, a, 60, 2, -8);
    made_memory(t, a, 120, 3, -8);
    assert_ok(mtp__trace_finish(t));
    mtp_tree *tree = tree_of(t);
    assert_nested(
        tree, "[memory]() step(mm(empty([memory]()) [memory]()) [memory]()) other([memory]()) [memory]()");
    assert_int_equal(named(tree, "other").thread, 2);
    assert_int_equal(named(tree, "[memory]").kind, MTP_TREE_ALLOCATION);
    assert_int_equal(named(tree, "step").scope, 7);
    done(tree, t);
}

static uint32_t made_work(mtp_trace *t, uint32_t track, int64_t start, int64_t end, const char *name,
                          mtp__category category, uint64_t correlation)
{
    mtp__detail d = MTP__DETAIL_INIT;
    d.correlation = correlation;
    return mtp__trace_add_span(t, track, start, end, made_text(t, name), category, 0,
                               mtp__trace_add_detail(t, &d));
}

static void device_work_is_below_the_call_that_launched_it(void **state)
{
    (void)state;
    mtp_trace *t;
    assert_ok(mtp__trace_create(&t));
    uint32_t a = made_thread(t, 100), s = made_stream(t, 0, 7);
    made_op(t, a, 10, 50, "mm");
    made_work(t, a, 20, 30, "launch", MTP__CATEGORY_CUDA_RUNTIME, 3);
    made_work(t, s, 60, 90, "gemm", MTP__CATEGORY_KERNEL, 3);
    made_work(t, s, 95, 99, "stray", MTP__CATEGORY_KERNEL, 0);
    assert_ok(mtp__trace_finish(t));
    mtp_tree *tree = tree_of(t);
    assert_nested(tree, "mm(launch(gemm())) stray()");
    assert_int_equal(named(tree, "gemm").kind, MTP_TREE_KINETO);
    assert_int_equal(named(tree, "gemm").correlation, 3);
    done(tree, t);
}

static void calls_of_python_and_of_c_are_told_apart(void **state)
{
    (void)state;
    mtp_profile *prof = start(false, NULL);
    call_of("a.py(1): f", MTP_SCOPE_PYTHON, NULL, 0);
    call_of("<built-in function len>", MTP_SCOPE_PYTHON, NULL, 0);
    call_of("<string>(1): <module>", MTP_SCOPE_PYTHON, NULL, 0);
    call_of("nn.Module: Linear_0", MTP_SCOPE_MODULE, NULL, 0);
    mtp_trace *t = stopped(prof);
    mtp_tree *tree = tree_of(t);
    assert_int_equal(named(tree, "a.py(1): f").kind, MTP_TREE_PY_CALL);
    assert_int_equal(named(tree, "<built-in function len>").kind, MTP_TREE_PY_C_CALL);
    assert_int_equal(named(tree, "<string>(1): <module>").kind, MTP_TREE_PY_CALL);
    assert_int_equal(named(tree, "nn.Module: Linear_0").kind, MTP_TREE_PY_CALL);
    done(tree, t);
}

/* --------------------------------------------------------------------------------------------------
 * tensors */

static void an_address_that_is_used_again_is_other_memory(void **state)
{
    (void)state;
    mtp_profile *prof = start(true, NULL);
    memory(0x1000, 8);
    op_on("first", 1, 0x1000);
    memory(0x1000, -8);
    memory(0x1000, 8);
    op_on("second", 2, 0x1000);
    memory(0x2000, 8); /* no tensor was ever seen there */
    mtp_trace *t = stopped(prof);
    mtp_tree *tree = tree_of(t);
    mtp_tree_tensor first = first_of(tree, "first"), second = first_of(tree, "second");
    assert_int_equal(first.storage, 0x1000);
    assert_int_equal(first.number, 1);
    assert_int_equal(first.dtype, MTP_FLOAT32);
    assert_int_equal(first.allocation_id, 1);
    assert_int_equal(second.allocation_id, 2);
    assert_int_equal(first.id, 0);
    assert_int_equal(second.id, 1);
    mtp_tree_node last = at(tree, mtp_tree_count(tree) - 1);
    assert_int_equal(last.address, 0x2000);
    assert_int_equal(last.allocation_id, 3);
    assert_int_equal(last.id, -1);
    assert_int_equal(at(tree, 0).id, 0);
    done(tree, t);
}

static void a_tensor_is_one_through_all_memory_that_it_had(void **state)
{
    (void)state;
    mtp_profile *prof = start(true, NULL);
    memory(0x1000, 8);
    op_on("small", 1, 0x1000);
    memory(0x2000, 16);
    memory(0x1000, -8);
    op_on("grown", 1, 0x2000);
    op_on("view", 2, 0x2000);
    op_on("other", 3, 0x3000);
    mtp_trace *t = stopped(prof);
    mtp_tree *tree = tree_of(t);
    assert_int_equal(first_of(tree, "small").id, 0);
    assert_int_equal(first_of(tree, "grown").id, 0);
    assert_int_equal(first_of(tree, "grown").allocation_id, 2);
    assert_int_equal(first_of(tree, "view").id, 0);
    assert_int_equal(first_of(tree, "other").id, 1);
    for (size_t i = 0; i < mtp_tree_count(tree); i++)
        if (at(tree, i).kind == MTP_TREE_ALLOCATION)
            assert_int_equal(at(tree, i).id, 0);
    done(tree, t);
}

/* Events in the nanosecond in which a scope ends count as inside it. */
static void let_time_pass(void)
{
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec < 2000);
}

/* torch's rule: it belongs where it began, until the enclosing scope ends. By time it would enclose that
 * scope. */
static void what_nobody_ended_is_left_with_what_is_around_it(void **state)
{
    (void)state;
    mtp_profile *prof = start(true, NULL);
    mtp_token top = mtp_scope_begin_text("top", 3);
    op_on("before", 1, 0x1000);
    mtp_scope_begin_text("open", 4);
    op_on("inside", 1, 0x1000);
    mtp_scope_begin_text("deeper", 6);
    memory(0x2000, 8);
    mtp_scope_end(top);
    let_time_pass();
    memory(0x3000, 8);
    op_on("after", 1, 0x1000);
    mtp_scope_begin_text("at the end", 10);
    op_on("last", 1, 0x1000);
    mtp_trace *t = stopped(prof);
    mtp_tree *tree = tree_of(t);
    assert_nested(tree,
                  "top(before() open(inside() deeper([memory]()))) [memory]() after() at the end(last())");
    done(tree, t);
}

static void what_an_op_allocated_and_nobody_freed_is_a_tensors(void **state)
{
    (void)state;
    mtp_profile *prof = start(true, NULL);
    mtp_op op = MTP_OP_INIT(mtp_name("sum"));
    mtp_op_begin(&op);
    memory(0x1000, 8); /* its result, which is still alive at the end */
    memory(0x2000, 8); /* its workspace */
    memory(0x2000, -8);
    memory(0x4000, 8); /* another result, which nothing uses: torch does not know that it is a tensor's */
    mtp_op_end(&op);
    memory(0x4000, -8);
    mtp_token scope = mtp_scope_begin_text("no op", 5);
    memory(0x3000, 8);
    mtp_scope_end(scope);
    mtp_trace *t = stopped(prof);
    mtp_tree *tree = tree_of(t);
    for (size_t i = 0; i < mtp_tree_count(tree); i++)
        if (at(tree, i).kind == MTP_TREE_ALLOCATION)
            assert_int_equal(at(tree, i).id, at(tree, i).address == 0x1000 ? 0 : -1);
    done(tree, t);
}

static void what_the_engine_evaluates_is_a_backward_function(void **state)
{
    (void)state;
    mtp_profile *prof = start(true, NULL);
    static const char *const names[] = {"autograd::engine::evaluate_function: Leaf", "Leaf", "aten::detach"};
    mtp_op ops[3];
    for (int i = 0; i < 3; i++) {
        ops[i] = (mtp_op)MTP_OP_INIT(mtp_name(names[i]));
        mtp_op_begin(&ops[i]);
    }
    for (int i = 2; i >= 0; i--)
        mtp_op_end(&ops[i]);
    call_of("Leaf", MTP_SCOPE_OP, NULL, 0); /* outside of the engine */
    mtp_trace *t = stopped(prof);
    mtp_tree *tree = tree_of(t);
    assert_int_equal(named(tree, names[0]).scope, 0);
    assert_int_equal(named(tree, names[1]).scope, 1);
    assert_int_equal(named(tree, names[2]).scope, 0);
    assert_int_equal(at(tree, mtp_tree_count(tree) - 1).scope, 0);
    done(tree, t);
}

static void lists_of_any_length_keep_their_order_and_their_gaps(void **state)
{
    (void)state;
    mtp_profile *prof = start(true, NULL);
    enum {
        MANY = 20
    };
    mtp_identity id[MANY];
    mtp_input items[MANY],
        inputs[3] = {{.kind = MTP_INPUT_TENSOR_LIST, .count = MANY}, {.kind = MTP_INPUT_INT}, {0}};
    for (unsigned i = 0; i < MANY; i++) {
        id[i] = (mtp_identity){i + 1, 0x1000 * (i + 1), MTP_DEVICE_NPU(1), 0};
        items[i] = i == 5 ? (mtp_input){0} : tensor_input(&id[i]);
    }
    inputs[0].value.items = items;
    inputs[2] = tensor_input(&id[5]);
    call_of("cat", MTP_SCOPE_OP, inputs, 3);
    mtp_trace *t = stopped(prof);
    mtp_tree *tree = tree_of(t);
    mtp_tree_node n = named(tree, "cat");
    assert_int_equal(n.inputs.count, MANY + 1);
    for (unsigned i = 0; i < MANY; i++) {
        mtp_tree_tensor found = tensor_at(tree, n.inputs.first + i);
        assert_int_equal(found.number, i == 5 ? 0 : i + 1);
        assert_int_equal(found.id, i == 5 ? -1 : i < 5 ? (int)i : (int)i - 1);
        if (i != 5)
            assert_int_equal(found.device_index, 1);
    }
    assert_int_equal(tensor_at(tree, n.inputs.first + MANY).number, 6);
    done(tree, t);
}

static void nothing_is_recorded_of_tensors_without_shapes_or_without_identity(void **state)
{
    (void)state;
    mtp_profile *prof = start(false, NULL);
    op_on("without shapes", 1, 0x1000);
    mtp_trace *t = stopped(prof);
    assert_int_equal(t->tensor_count, 0);
    mtp_trace_destroy(t);
    prof = start(true, NULL);
    mtp_input in = tensor_input(NULL);
    mtp_op op = MTP_OP_INIT(mtp_name("nobody told"));
    op.inputs = &in;
    op.input_count = 1;
    mtp_op_begin(&op);
    mtp_op_end(&op);
    t = stopped(prof);
    assert_int_equal(t->tensor_count, 0);
    mtp_tree *tree = tree_of(t);
    assert_string_equal(named(tree, "nobody told").inputs.dims.bytes, "[[2, 3]]");
    assert_int_equal(named(tree, "nobody told").inputs.count, 0);
    done(tree, t);
}

/* ---------------------------------------------------------------------------------------------------
 * objects */

/* A call of a module with two parameters, and one of a module with none. */
static void hold(void)
{
    mtp_identity id[8];
    mtp_op op = MTP_OP_INIT(mtp_name("nn.Module: Linear_0"));
    op.kind = MTP_SCOPE_MODULE;
    mtp_op_begin(&op);
    mtp_input head[2] = {text_input("module"), {.kind = MTP_INPUT_INT}};
    head[1].value.i = 4711;
    mtp_op_hold(&op, head, 2);
    mtp_input weight[9] = {text_input("weight")};
    for (unsigned i = 0; i < 8; i++) {
        id[i] = (mtp_identity){i + 1, 0x1000 * (i + 1), MTP_DEVICE_CPU, 0};
        weight[i + 1] = tensor_input(&id[i]);
    }
    mtp_op_hold(&op, weight, 9);
    mtp_input bias[3] = {text_input("bias"), tensor_input(&id[1]), {0}};
    mtp_op_hold(&op, bias, 3);
    mtp_op_end(&op);
    call_of("nn.Module: ReLU_0", MTP_SCOPE_MODULE, NULL, 0);
}

static void assert_held(const mtp_trace *t)
{
    mtp_tree *tree = tree_of(t);
    size_t node = 0;
    while (strcmp(at(tree, node).name.bytes, "nn.Module: Linear_0") != 0)
        node++;
    mtp_tree_inputs part;
    assert_int_equal(at(tree, node).held, 3);
    assert_ok(mtp_tree_held(tree, node, 0, &part));
    assert_string_equal(part.concrete.bytes, "[\"module\", \"4711\"]");
    assert_int_equal(part.count, 0);
    assert_ok(mtp_tree_held(tree, node, 1, &part));
    assert_int_equal(part.count, 8);
    assert_int_equal(tensor_at(tree, part.first + 7).number, 8);
    assert_ok(mtp_tree_held(tree, node, 2, &part));
    assert_string_equal(part.types.bytes, "[\"\", \"float\", \"\"]");
    assert_int_equal(part.count, 1);
    assert_int_equal(tensor_at(tree, part.first).number, 2);
    assert_int_equal(tensor_at(tree, part.first).id, 1);
    assert_int_equal(mtp_tree_held(tree, node, 3, &part), MTP_E_ARG);
    assert_int_equal(named(tree, "nn.Module: ReLU_0").held, 0);
    mtp_tree_destroy(tree);
}

static void objects_tell_what_they_hold_with_and_without_shapes(void **state)
{
    (void)state;
    for (int shapes = 0; shapes < 2; shapes++) {
        mtp_profile *prof = start(shapes != 0, NULL);
        hold();
        mtp_trace *t = stopped(prof);
        assert_held(t);
        mtp_trace_destroy(t);
    }
}

static void spools_and_cuts_keep_tensors_and_objects(void **state)
{
    (void)state;
    const char *path = test_path("tree.mtp");
    mtp_profile *prof = start(true, path);
    call_of("first", MTP_SCOPE_OP, NULL, 0);
    hold();
    op_on("second", 9, 0x9000);
    mtp_trace *t = stopped(prof), *read, *cut;
    mtp_trace_destroy(t);
    assert_ok(mtp_trace_open(path, NULL, &read));
    assert_held(read);
    mtp_cut_options options = MTP_CUT_OPTIONS_INIT;
    options.name = "n";
    assert_ok(mtp_trace_cut(read, &options, &cut));
    assert_held(cut);
    mtp_tree *tree = tree_of(cut);
    assert_int_equal(first_of(tree, "second").number, 9);
    done(tree, cut);
    mtp_trace_destroy(read);
}

static void a_record_of_tensors_without_its_op_is_passed_by(void **state)
{
    (void)state;
    mtp_profile *prof = start(true, NULL);
    mtp_op op = MTP_OP_INIT(mtp_name("outer")), inner = MTP_OP_INIT(mtp_name("inner"));
    mtp_identity id = {1, 0x1000, MTP_DEVICE_CPU, 0};
    mtp_input in = tensor_input(&id);
    inner.inputs = &in;
    inner.input_count = 1;
    inner.allocated = 8;
    inner.flags = MTP_OP_IDENTIFIED;
    mtp_op_begin(&op);
    mtp_op_begin(&inner);
    mtp_op_end(&inner);
    mtp_input head[1] = {text_input("late")};
    mtp_op_hold(&op, head, 1); /* an op came in between: its owner is unknown */
    mtp_op_end(&op);
    mtp_trace *t = stopped(prof);
    mtp_tree *tree = tree_of(t);
    assert_int_equal(named(tree, "outer").held, 0);
    assert_int_equal(named(tree, "inner").held, 0);
    assert_int_equal(first_of(tree, "inner").number, 1);
    done(tree, t);
}

static void objects_whose_calls_are_alike_keep_apart_what_they_hold(void **state)
{
    (void)state;
    mtp_profile *prof = start(false, NULL);
    static const char *const names[] = {"nn.Module: A_0", "nn.Module: B_0", "nn.Module: C_0"};
    for (int i = 0; i < 3; i++) {
        mtp_op op = MTP_OP_INIT(mtp_name(names[i]));
        op.kind = MTP_SCOPE_MODULE;
        op.sequence = 7; /* so all say the same of themselves */
        mtp_input head = text_input(names[i]);
        mtp_op_begin(&op);
        if (i < 2)
            mtp_op_hold(&op, &head, 1);
        mtp_op_end(&op);
    }
    mtp_trace *t = stopped(prof);
    mtp_tree *tree = tree_of(t);
    mtp_tree_inputs part;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(at(tree, i).held, i < 2);
    assert_ok(mtp_tree_held(tree, 1, 0, &part));
    assert_string_equal(part.concrete.bytes, "[\"nn.Module: B_0\"]");
    done(tree, t);
}

/* ----------------------------------------------------------------------------------------------------
 * faults */

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    mtp_trace *t;
    mtp_tree *tree;
    mtp_tree_node n = {.size = sizeof n};
    mtp_tree_tensor tensor = {.size = sizeof tensor};
    size_t count;
    assert_ok(mtp__trace_create(&t));
    assert_ok(mtp__trace_finish(t));
    assert_int_equal(mtp_tree_create(NULL, &tree), MTP_E_ARG);
    assert_int_equal(mtp_tree_create(t, NULL), MTP_E_ARG);
    tree = tree_of(t);
    assert_int_equal(mtp_tree_count(tree), 0);
    assert_int_equal(mtp_tree_count(NULL), 0);
    mtp_tree_children(tree, MTP_NO_EVENT, &count);
    assert_int_equal(count, 0);
    assert_null(mtp_tree_children(tree, 0, &count));
    assert_int_equal(mtp_tree_get(tree, 0, &n), MTP_E_ARG);
    n.size = 8;
    assert_int_equal(mtp_tree_get(tree, 0, &n), MTP_E_ABI);
    assert_int_equal(mtp_tree_tensor_get(tree, 0, &tensor), MTP_E_ARG);
    mtp_tree_destroy(NULL);
    done(tree, t);
}

static void no_allocation_that_fails_is_forgotten(void **state)
{
    (void)state;
    mtp_profile *prof = start(true, NULL);
    hold();
    for (unsigned i = 0; i < 100; i++) {
        memory(0x1000 * i, 8);
        op_on("op", i + 1, 0x1000 * i);
    }
    mtp_trace *t = stopped(prof);
    long before = mtp__alloc_live();
    bool whole = false;
    int nth = 1;
    for (; !whole; nth++) {
        mtp_tree *tree;
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, nth % 2 != 0);
        mtp_status status = mtp_tree_create(t, &tree);
        whole = mtp__fault_stop() == 0;
        assert_int_equal(status, whole ? MTP_OK : MTP_E_NOMEM);
        mtp_tree_destroy(tree);
        assert_int_equal(mtp__alloc_live(), before);
    }
    assert_true(nth > 12);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_is_below_what_ran_when_it_was_taken),
        TEST(device_work_is_below_the_call_that_launched_it),
        TEST(calls_of_python_and_of_c_are_told_apart),
        TEST(an_address_that_is_used_again_is_other_memory),
        TEST(a_tensor_is_one_through_all_memory_that_it_had),
        TEST(what_nobody_ended_is_left_with_what_is_around_it),
        TEST(what_an_op_allocated_and_nobody_freed_is_a_tensors),
        TEST(what_the_engine_evaluates_is_a_backward_function),
        TEST(lists_of_any_length_keep_their_order_and_their_gaps),
        TEST(nothing_is_recorded_of_tensors_without_shapes_or_without_identity),
        TEST(objects_tell_what_they_hold_with_and_without_shapes),
        TEST(spools_and_cuts_keep_tensors_and_objects),
        TEST(objects_whose_calls_are_alike_keep_apart_what_they_hold),
        TEST(a_record_of_tensors_without_its_op_is_passed_by),
        TEST(wrong_arguments_are_refused),
        TEST(no_allocation_that_fails_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
