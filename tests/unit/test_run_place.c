/* Unit: the parts of `mtprof run` around the program: its file, its environment, its life, the place for what it records. */
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cli/run/run.h"

static char said[4096]; /* what was printed since it was last emptied */

int cli_fail(int code, const char *fmt, ...)
{
    va_list args;
    size_t n = strlen(said);
    va_start(args, fmt);
    vsnprintf(said + n, sizeof said - n, fmt, args);
    va_end(args);
    return code;
}

static bool libraries = true;

bool cli_find(const char *in_build, const char *installed, const char *name, char path[PATH_MAX])
{
    (void)installed;
    snprintf(path, PATH_MAX, "/lib/%s/%s", in_build, name);
    return libraries;
}

bool cli_find_python(char folder[PATH_MAX])
{
    snprintf(folder, PATH_MAX, "/lib/python");
    return libraries;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* A folder of the test's own, which is then the current one. */
static void enter(const char *name)
{
    assert_int_equal(mkdir(test_path(name), 0700), 0);
    assert_int_equal(chdir(test_path(name)), 0);
    said[0] = 0;
}

static run_place take(const char *output, int expected)
{
    run_place p = {.marker = -1, .notes = -1};
    assert_int_equal(run_place_take(&p, output), expected);
    return p;
}

/* --------------------------------------------------------------------------------------------------------- place */

static void a_run_that_records_nothing_leaves_nothing(void **state)
{
    (void)state;
    enter("nothing");
    run_place p = take("run.mtp", CLI_OK);
    assert_true(exists("run.mtp.workers/.running"));
    struct stat st;
    assert_true(stat("run.mtp.workers", &st) == 0 && (st.st_mode & 0777) == 0700);
    assert_true(p.notes >= 0 && p.notes_name[0] != 0);
    run_place_restore(&p);
    run_place_leave(&p);
    assert_false(exists("run.mtp.workers"));
    assert_int_equal(p.notes, -1);
    p = take(NULL, CLI_OK);
    assert_int_equal(p.out[0], 0);
    run_place_leave(&p);
    assert_string_equal(said, "");
}

static void a_file_that_was_there_comes_back_or_is_replaced(void **state)
{
    (void)state;
    enter("there");
    for (int replaced = 0; replaced < 2; replaced++) {
        test_spew("out.json", "old", 3);
        run_place p = take("out.json", CLI_OK);
        assert_false(exists("out.json"));
        if (replaced) {
            test_spew("out.json", "new!", 4);
            run_place_forget(&p);
        } else {
            run_place_restore(&p);
        }
        run_place_leave(&p);
        size_t bytes;
        free(test_slurp("out.json", &bytes));
        assert_int_equal(bytes, replaced ? 4 : 3);
        assert_false(exists("out.json.before") || exists("out.json.workers"));
    }
}

static void one_that_runs_is_refused_and_one_that_was_killed_is_kept(void **state)
{
    (void)state;
    enter("kept");
    run_place first = take("run.mtp", CLI_OK);
    take("run.mtp", CLI_OUTPUT);
    assert_contains(said, "still being recorded");
    test_spew("run.mtp.workers/1.mtp", "x", 1);
    close(first.marker); /* as the kernel does when it is killed */
    close(first.notes);
    for (int i = 1; i < 4; i++) {
        char kept[64];
        said[0] = 0;
        run_place p = take("run.mtp", CLI_OK);
        snprintf(kept, sizeof kept, "run.%d.mtp.workers/1.mtp", i);
        assert_contains(said, "was kept as");
        assert_true(exists(kept));
        test_spew("run.mtp.workers/1.mtp", "x", 1);
        close(p.marker);
        close(p.notes);
    }
}

static void what_is_not_a_file_is_not_replaced(void **state)
{
    (void)state;
    enter("odd");
    char text[PATH_MAX - 10];
    mkdir("folder.mtp", 0700);
    take("folder.mtp", CLI_OUTPUT);
    assert_int_equal(mkfifo("fifo.mtp", 0600), 0);
    take("fifo.mtp", CLI_OUTPUT);
    assert_true(exists("folder.mtp") && exists("fifo.mtp"));
    take("no/such/x.mtp", CLI_OUTPUT);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    take(text, CLI_OUTPUT);
    test_spew("in.the.way.mtp.workers", "x",
              1); /* a file where the folder should be: it is set aside, and comes back */
    run_place p = take("in.the.way.mtp", CLI_OK);
    run_place_restore(&p);
    run_place_leave(&p);
    size_t bytes;
    free(test_slurp("in.the.way.mtp.workers", &bytes));
    assert_int_equal(bytes, 1);
}

static void the_reason_is_right_if_the_current_folder_is_gone(void **state)
{
    (void)state;
    enter("gone");
    assert_int_equal(rmdir(test_path("gone")), 0);
    take("run.mtp", CLI_OUTPUT);
    assert_contains(said, "No such file");
    assert_int_equal(chdir("/"), 0);
}

static void suffixes_that_cannot_be_written_are_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"a.mtp", "a.json", "a.json.gz", "/x/y.b.json"}, *const bad[] = {
                                                                                           "a",    "a.mtp.x",
                                                                                           ".gz",  "a.gz",
                                                                                           "",     "json",
                                                                                           ".json"};
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(run_check_output(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++) {
        said[0] = 0;
        assert_false(run_check_output(bad[i]));
        assert_contains(said, ".mtp");
    }
}

/* ------------------------------------------------------------------------------------------------------- program */

static int find(const char *name, bool is_module, run_program *p)
{
    static char *given[3];
    given[0] = (char *)(uintptr_t)name;
    given[1] = "argument";
    said[0] = 0;
    return run_find(given, is_module, p);
}

static void programs_are_found_as_a_shell_does(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU("the /bin/sh here is another processor's, which is reported");
    run_program p;
    enter("programs");
    assert_int_equal(find("sh", false, &p), 0);
    assert_true(p.path[0] == '/' && strcmp(p.argv[0], "sh") == 0 && strcmp(p.argv[1], "argument") == 0);
    run_program_free(&p);
    static const struct {
        const char *name;
        int code;
    } of[] = {{"no-such-program", 127},
              {"./no-such-program", 127},
              {"/dev/null/x", 127},
              {".", 127},
              {"./", 126},
              {"./plain", 126},
              {"./runs", 0}};
    test_spew("plain", "x", 1);
    test_spew("runs", "#!/bin/sh\n", 10);
    chmod("runs", 0700);
    for (size_t i = 0; i < COUNT(of); i++) {
        assert_int_equal(find(of[i].name, false, &p), of[i].code);
        assert_int_equal(said[0] != 0, of[i].code != 0);
        run_program_free(&p);
    }
    char *longest = malloc(2 * PATH_MAX);
    memset(longest, '/', 2 * PATH_MAX - 1);
    longest[2 * PATH_MAX - 1] = 0;
    assert_int_equal(find(longest, false, &p), 126);
    run_program_free(&p);
    memset(longest, 'a', 2 * PATH_MAX - 1);
    assert_int_equal(find(longest, false, &p), 127);
    run_program_free(&p);
    free(longest);
}

static void python_files_and_modules_get_their_interpreter(void **state)
{
    (void)state;
    run_program p;
    enter("python");
    setenv("PATH", ".", 1);
    test_spew("python3", "#!/bin/sh\n", 10);
    chmod("python3", 0700);
    test_spew("script.py", "1", 1);
    assert_int_equal(find("script.py", false, &p), 0);
    assert_true(strcmp(p.argv[0], "python3") == 0 && strcmp(p.argv[1], "script.py") == 0);
    run_program_free(&p);
    assert_int_equal(find("json.tool", true, &p), 0);
    assert_true(strcmp(p.argv[1], "-m") == 0 && strcmp(p.argv[2], "json.tool") == 0);
    run_program_free(&p);
    setenv("PATH", "/usr/bin:/bin", 1);
}

/* Interpreters that lead in a circle, lines without end, files cut short. */
static void odd_files_are_left_to_the_system(void **state)
{
    (void)state;
    run_program p;
    char text[600] = "#! ";
    enter("odd programs");
    memset(text + 3, 'x', sizeof text - 3);
    const struct {
        const char *bytes;
        size_t count;
    } of[] = {{"#!./odd\n", 8}, {"#!", 2}, {"#!\n", 3}, {text, sizeof text}, {"\177ELF", 4}, {"", 0}};
    for (size_t i = 0; i < COUNT(of); i++) {
        test_spew("odd", of[i].bytes, of[i].count);
        chmod("odd", 0700);
        assert_int_equal(find("./odd", false, &p), 0);
        assert_false(p.unseen);
        run_program_free(&p);
    }
}

/* --------------------------------------------------------------------------------------------------- environment */

static const char *value_of(char **environment, const char *name)
{
    size_t n = strlen(name);
    const char *found = NULL;
    for (; *environment != NULL; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=') {
            assert_null(found); /* once */
            found = *environment + n + 1;
        }
    return found != NULL ? found : "";
}

static void what_the_user_set_stays_in_force(void **state)
{
    (void)state;
    run_options o = {.use = {true, true, true, true, true, true, true, true},
                     .steps = "3:5",
                     .budget = 77,
                     .shapes = true};
    run_place place = {.folder = "/out.workers", .notes_name = "name"};
    setenv("LD_PRELOAD", "", 1);
    setenv("PYTHONPATH", "/theirs", 1);
    setenv("OPENCL_LAYERS", "/their/layer", 1);
    setenv("NVTX_INJECTION64_PATH", "/another/tool.so", 1);
    setenv("MTPROF_OUT", "x", 1);
    said[0] = 0;
    char **e = run_environment(&o, &place);
    assert_non_null(e);
    assert_string_equal(value_of(e, "LD_PRELOAD"), "/lib/src/collect/run/libmtprof_run.so:"
                                                   "/lib/src/collect/malloc/libmtprof_malloc.so:"
                                                   "/lib/src/collect/mpi/libmtprof_mpi.so");
    assert_string_equal(value_of(e, "NCCL_PROFILER_PLUGIN"), "/lib/src/collect/nccl/libmtprof_nccl.so");
    assert_string_equal(value_of(e, "PYTHONPATH"), "/lib/python/mtprof/_run:/theirs");
    assert_contains(value_of(e, "OPENCL_LAYERS"), ":/their/layer");
    assert_string_equal(value_of(e, "NVTX_INJECTION64_PATH"), "/another/tool.so");
    assert_contains(said, "keeps it");
    assert_string_equal(value_of(e, "MTPROF_OUT"), "");
    assert_string_equal(value_of(e, "MTPROF_RUN"), "/out.workers");
    char options[256];
    snprintf(options, sizeof options,
             "notes=name parent=%ld shapes memory torch steps=3:5 python until-torch budget=77",
             (long)getpid());
    assert_string_equal(value_of(e, "MTPROF_RUN_OPTIONS"), options);
    run_environment_free(e);
    libraries = false;
    said[0] = 0;
    assert_null(run_environment(&o, &place));
    assert_contains(said, "libmtprof_run.so");
    libraries = true;
    unsetenv("NVTX_INJECTION64_PATH");
    unsetenv("OPENCL_LAYERS");
}

/* ---------------------------------------------------------------------------------------------------------- life */

/* Its status; -1: it could not be run, with this exit code. */
static int run_it(char **argv, int expected)
{
    run_options o = {.wait = false};
    run_place place = {.shown = "x", .marker = -1, .notes = -1};
    run_program p = {.argv = argv};
    run_ended ended;
    memset(&ended, 0x5a, sizeof ended);
    assert_int_equal(run_life(&p, environ, &o, &place, &ended), expected);
    return expected == CLI_OK ? ended.status : -1;
}

static int run_shell(const char *text)
{
    char *argv[] = {"/bin/sh", "-c", (char *)(uintptr_t)text, NULL};
    return run_it(argv, CLI_OK);
}

static void the_status_is_the_programs(void **state)
{
    (void)state;
    sigset_t before, after;
    sigprocmask(SIG_SETMASK, NULL, &before);
    int status = run_shell("exit 3");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    status = run_shell("kill -9 $$");
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_memory_equal(&before, &after, 8); /* the signals that there are */
}

/* Of daemons that ignore it, children inherit that: the kernel would not keep the status for us. */
static void the_status_is_known_although_we_inherited_that_children_are_ignored(void **state)
{
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    int status = run_shell("exit 3");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    char *argv[] = {"grep", "-q", "SigIgn:.*[13579bdf]....$", "/proc/self/status", NULL};
    status = run_it(argv, CLI_OK); /* there it is still ignored */
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    signal(SIGCHLD, SIG_DFL);
}

static void a_program_that_cannot_be_started_is_said(void **state)
{
    (void)state;
    char *argv[] = {"/no/such/program", NULL};
    said[0] = 0;
    run_it(argv, 127);
    assert_contains(said, "No such file");
    argv[0] = "/";
    run_it(argv, 126);
}

static void controls_do_not_reach_the_terminal(void **state)
{
    (void)state;
    char text[] = "a\x1b[2J\x7f\n \xc2\x9b"
                  "31m \xc3\xa4 \xc2\xa0 \xc2";
    run_hide_controls(text);
    assert_string_equal(text, "a?[2J?? ??31m \xc3\xa4 \xc2\xa0 \xc2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(controls_do_not_reach_the_terminal),
        TEST(a_run_that_records_nothing_leaves_nothing),
        TEST(a_file_that_was_there_comes_back_or_is_replaced),
        TEST(one_that_runs_is_refused_and_one_that_was_killed_is_kept),
        TEST(what_is_not_a_file_is_not_replaced),
        TEST(the_reason_is_right_if_the_current_folder_is_gone),
        TEST(suffixes_that_cannot_be_written_are_refused),
        TEST(programs_are_found_as_a_shell_does),
        TEST(python_files_and_modules_get_their_interpreter),
        TEST(odd_files_are_left_to_the_system),
        TEST(what_the_user_set_stays_in_force),
        TEST(the_status_is_the_programs),
        TEST(the_status_is_known_although_we_inherited_that_children_are_ignored),
        TEST(a_program_that_cannot_be_started_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
