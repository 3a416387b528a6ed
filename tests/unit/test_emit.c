/* Ops and scopes as ranges of another tool: mtp_emit_start, mtp_tool_push. The tool is tool_log.c. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *(*tool_log)(void);
static void (**tool_log_hook)(void);
static const char *tool_path;

#define assert_told(expected) assert_string_equal(tool_log(), expected)

static void work(void)
{
    MTP_SCOPE ("outer") {
        mtp_token token = mtp_scope_begin_text("made at run time", 4);
        mtp_scope_end(token);
        mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
        op.sequence = 5;
        mtp_op_begin(&op);
        mtp_op_end(&op);
    }
}

/* In a child: a collector is looked for once. */
static void without_a_tool_nothing_is_described(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        bool good = !mtp_tool_attached(MTP_TOOL_ITT) && !mtp_tool_attached(MTP_TOOL_NVTX);
        good = good && mtp_emit_start(MTP_TOOL_ITT, true) == MTP_OK && mtp_recording() == 0;
        work();
        good = good && mtp_emit_start(MTP_TOOL_NVTX, true) == MTP_E_BUSY;
        mtp_emit_stop();
        good = good && mtp_tool_push(MTP_TOOL_ITT, "x") == -1 && mtp_tool_pop(MTP_TOOL_NVTX) == -1;
        mtp_tool_mark(MTP_TOOL_ITT, "x");
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void itt_has_the_names(void **state)
{
    (void)state;
    setenv("INTEL_LIBITTNOTIFY64", tool_path, 1);
    setenv("NVTX_INJECTION64_PATH", tool_path, 1);
    assert_true(mtp_tool_attached(MTP_TOOL_ITT));
    assert_told("domain mtprof\n");
    work();
    assert_told("");
    assert_ok(mtp_emit_start(MTP_TOOL_ITT, true));
    assert_int_equal(mtp_recording() & 0xffff, MTP_CPU | MTP_WITH_SHAPES);
    work();
    mtp_mark(MTP_NAME("a mark")); /* which torch's does not have */
    mtp_emit_stop();
    assert_int_equal(mtp_recording(), 0);
    work();
    assert_told("+ outer\n+ made\n- mtprof\n+ aten::mm\n- mtprof\n- mtprof\n");
    assert_int_equal(mtp_tool_push(MTP_TOOL_ITT, "mine"), -1);
    mtp_tool_mark(MTP_TOOL_ITT, "here");
    mtp_tool_pop(MTP_TOOL_ITT);
    assert_told("+ mine\n! here\n- mtprof\n");
    assert_int_equal(mtp_tool_push(MTP_TOOL_ITT, NULL), -1);
    assert_int_equal(mtp_tool_push((mtp_tool)7, "x"), -1);
    assert_int_equal(mtp_emit_start((mtp_tool)7, false), MTP_E_ARG);
    assert_told("");
}

static void call_op(const mtp_input *inputs, uint32_t count, int64_t sequence)
{
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    op.inputs = inputs;
    op.input_count = count;
    op.sequence = sequence;
    mtp_op_begin(&op);
    mtp_op_end(&op);
}

static void call_packed(const int64_t *dims)
{
    uint64_t words[32];
    mtp_pack pack;
    mtp_pack_init(&pack, words, 32);
    mtp_pack_begin(&pack);
    mtp_pack_tensor(&pack, MTP_FLOAT32, 2, dims, dims);
    mtp_pack_float(&pack, 1);
    mtp_pack_text(&pack, "nine byte", 9);
    mtp_pack_numbers(&pack, MTP_UNKNOWN, 2, dims);
    mtp_pack_none(&pack);
    mtp_pack_list(&pack, 1);
    mtp_pack_tensor(&pack, MTP_FLOAT32, 3, dims, NULL);
    mtp_pack_bool(&pack, true);
    mtp_pack_tensor(&pack, MTP_FLOAT32, 30, dims, NULL); /* does not fit */
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    op.inputs = MTP_PACKED(&pack);
    op.flags = MTP_OP_PACKED;
    mtp_op_begin(&op);
    mtp_op_end(&op);
}

static void nvtx_has_numbers_and_sizes_as_torch_prints_them(void **state)
{
    (void)state;
    const int64_t dims[] = {2, -3, 40};
    mtp_input tensor = {.kind = MTP_INPUT_TENSOR, .count = 2, .dims = dims};
    mtp_input three = {.kind = MTP_INPUT_TENSOR, .count = 3, .dims = dims}, number = {.kind = MTP_INPUT_INT};
    mtp_input items[] = {tensor, three}, scalar = {.kind = MTP_INPUT_TENSOR};
    mtp_input list = {.kind = MTP_INPUT_TENSOR_LIST, .count = 2, .value.items = items};
    mtp_input none = {.kind = MTP_INPUT_TENSOR_LIST};
    assert_ok(mtp_emit_start(MTP_TOOL_NVTX, true));
    work();
    call_op((mtp_input[]){tensor, number, scalar}, 3, 7);
    call_op((mtp_input[]){none, list, three}, 3, -1);
    call_packed(dims);
    mtp_emit_stop();
    assert_told("+ outer, op_id = 1\n+ made, op_id = 2\n- \n+ aten::mm, seq = 5, op_id = 3\n- \n- \n"
                "+ op, seq = 7, op_id = 4, sizes = [[2, -3], [], []]\n- \n"
                "+ op, op_id = 5, sizes = [[2, -3], [2, -3, 40], [2, -3, 40]]\n- \n"
                "+ op, op_id = 6, sizes = [[2, -3], [], [], [], [], [2, -3, 40], []]\n- \n");
    assert_ok(mtp_emit_start(MTP_TOOL_NVTX, false));
    call_op(&tensor, 1, 0);
    mtp_emit_stop();
    assert_told("+ op, seq = 0, op_id = 7\n- \n");
    assert_int_equal(mtp_tool_push(MTP_TOOL_NVTX, "a"), 0);
    assert_int_equal(mtp_tool_push(MTP_TOOL_NVTX, "b"), 1);
    assert_int_equal(mtp_tool_pop(MTP_TOOL_NVTX), 1);
    assert_int_equal(mtp_tool_pop(MTP_TOOL_NVTX), 0);
    mtp_tool_mark(MTP_TOOL_NVTX, "c");
    assert_told("+ a\n+ b\n- \n- \n! c\n");
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    static char name[10000];
    memset(name, 'x', sizeof name);
    assert_ok(mtp_emit_start(MTP_TOOL_ITT, false));
    for (size_t length = 4094; length <= sizeof name; length += length < 4100 ? 1 : 200) {
        mtp_scope_end(mtp_scope_begin_text(name, length));
        assert_int_equal(strcspn(tool_log(), "\n"), 2 + (length < 4095 ? length : 4095));
    }
    mtp_emit_stop();
}

static void record_something(void)
{
    mtp_scope_end(mtp_scope_begin(MTP_NAME("by the tool")));
    errno = EXDEV;
}

/* As our own collectors do, if one of them is the tool. */
static void a_tool_that_records_is_not_told_of_it_and_errno_is_the_programs(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_ok(mtp_emit_start(i == 0 ? MTP_TOOL_ITT : MTP_TOOL_NVTX, false));
        tool_log();
        *tool_log_hook = record_something;
        errno = ENOENT;
        mtp_token t = mtp_scope_begin(MTP_NAME("outer"));
        assert_int_equal(errno, ENOENT);
        mtp_scope_end(t);
        assert_int_equal(errno, ENOENT);
        *tool_log_hook = NULL;
        mtp_emit_stop();
        assert_null(strstr(tool_log(), "by the tool"));
    }
}

/* A profile gets what happens while it records; begins and ends that it cuts apart stay with the tool. */
static void a_recording_takes_the_events_for_itself(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    assert_ok(mtp_emit_start(MTP_TOOL_ITT, true));
    mtp_token before = mtp_scope_begin(MTP_NAME("before"));
    mtp_profile *prof = test_start(&c);
    assert_false(mtp_recording() & MTP_WITH_MEMORY);
    assert_int_not_equal(MTP_SESSION(mtp_recording()), 0);
    work();
    mtp_scope_end(before);
    mtp_token across = mtp_scope_begin(MTP_NAME("across"));
    assert_told("+ before\n- mtprof\n");
    assert_ok(mtp_profile_stop(prof));
    mtp_scope_end(across);
    assert_told("");
    mtp_scope_end(mtp_scope_begin(MTP_NAME("after")));
    mtp_token late = mtp_scope_begin(MTP_NAME("late"));
    mtp_emit_stop();
    mtp_scope_end(late);
    assert_told("+ after\n- mtprof\n+ late\n- mtprof\n");
    mtp_ledger l = MTP_LEDGER_INIT;
    assert_ok(mtp_profile_ledger(prof, &l));
    assert_int_equal(l.kept, 6 + 1 + 1); /* three scopes, across, and the step's mark */
    assert_int_equal(l.dropped, 0);
    mtp_profile_destroy(prof);
}

static void what_a_recording_shows_is_its_own_after_emission_stops(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    mtp_profile *prof = test_start(&c);
    uint32_t recording = mtp_recording();
    assert_ok(mtp_emit_start(MTP_TOOL_ITT, true));
    assert_int_equal(mtp_recording(), recording | MTP_WITH_SHAPES);
    mtp_emit_stop();
    assert_int_equal(mtp_recording(), recording);
    assert_ok(mtp_profile_stop(prof));
    assert_int_equal(mtp_recording(), 0);
    mtp_profile_destroy(prof);
}

static void *work_much(void *unused)
{
    for (int i = 0; i < 500; i++)
        work();
    return unused;
}

static size_t lines_of(const char *text, char kind)
{
    size_t count = 0;
    for (const char *p = text; *p != 0; p = strchr(p, '\n') + 1)
        count += *p == kind;
    return count;
}

static void every_thread_emits(void **state)
{
    (void)state;
    pthread_t t[4];
    assert_ok(mtp_emit_start(MTP_TOOL_ITT, false));
    for (size_t i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, work_much, NULL);
    for (size_t i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    mtp_emit_stop();
    const char *told = tool_log();
    assert_int_equal(lines_of(told, '+'), 4 * 500 * 3);
    assert_int_equal(lines_of(told, '-'), 4 * 500 * 3);
}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL)
        return 77;
    tool_path = argv[1];
    *(void **)&tool_log = dlsym(library, "tool_log");
    tool_log_hook = dlsym(library, "tool_log_hook");
    unsetenv("INTEL_LIBITTNOTIFY64");
    unsetenv("NVTX_INJECTION64_PATH");
    const struct CMUnitTest tests[] = {
        TEST(without_a_tool_nothing_is_described),
        TEST(itt_has_the_names),
        TEST(nvtx_has_numbers_and_sizes_as_torch_prints_them),
        TEST(long_texts_are_cut),
        TEST(a_tool_that_records_is_not_told_of_it_and_errno_is_the_programs),
        TEST(a_recording_takes_the_events_for_itself),
        TEST(what_a_recording_shows_is_its_own_after_emission_stops),
        TEST(every_thread_emits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
