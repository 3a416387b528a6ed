/* Unit: recording on demand: processes that listen, peers of all kinds, and what programs do to descriptors. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <mtprof_tools.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/unit/listeners.h"

/* ------------------------------------------------------------------------------------------------- as intended */

static void a_process_that_listens_is_listed_and_records_itself_when_asked(void **state)
{
    (void)state;
    job *j = listener(NULL);
    assert_int_equal(state_of(j->pid), IDLE);
    const char *path = test_path("asked.mtp");
    mtp_trigger t = trigger_of(path, 50);
    t.shapes = t.memory = t.stacks = true;
    assert_ok(mtp_trigger_process((uint64_t)j->pid, &t));
    seen s = {0};
    assert_ok(seen_spool(&s, path));
    assert_string_equal(s.problem, "");
    assert_true(s.records > 0);
    seen_free(&s);
    assert_int_equal(state_of(j->pid), IDLE);
    finish(j);
    assert_int_equal(state_of(j->pid), NOT_LISTED);
}

static void of_two_requests_at_once_one_is_refused(void **state)
{
    (void)state;
    job *j = listener(NULL);
    asked a = {0};
    pthread_t thread = ask_beside(&a, j->pid, test_path("first.mtp"), 60000);
    assert_int_equal(state_of(j->pid), RECORDING);
    mtp_trigger second = trigger_of(test_path("second.mtp"), 10);
    assert_int_equal(mtp_trigger_process((uint64_t)j->pid, &second), MTP_E_STATE);
    assert_says("already");
    finish(j); /* it ends while it is being recorded */
    pthread_join(thread, NULL);
    assert_int_equal(a.status, MTP_OK);
    seen s = {0};
    assert_ok(seen_spool(&s, test_path("first.mtp")));
    assert_true(s.records > 0);
    seen_free(&s);
}

static void profile_itself(job *j)
{
    mtp_profile_config c = test_config(NULL);
    mtp_profile *own = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &own) == MTP_OK && mtp_profile_start(own) == MTP_OK);
    j->ready = 1;
    work_until_told(j);
    CHILD_CHECK(mtp_profile_is_recording(own) && mtp_profile_stop(own) == MTP_OK);
    CHILD_CHECK(ledger_of(own).emitted > 0 && ledger_of(own).dropped == 0);
    mtp_profile_destroy(own);
}

static void a_program_that_profiles_itself_is_left_alone(void **state)
{
    (void)state;
    job *j = listener(profile_itself);
    mtp_trigger t = trigger_of(test_path("busy.mtp"), 10);
    assert_int_equal(mtp_trigger_process((uint64_t)j->pid, &t), MTP_E_STATE);
    assert_says("another profiler session is already active");
    assert_int_equal(state_of(j->pid), RECORDING);
    finish(j);
}

static void a_request_for_ever_is_not_over_at_once(void **state)
{
    (void)state;
    job *j = listener(NULL);
    asked a = {.pid = j->pid, .trigger = trigger_of(test_path("ever.mtp"), 1)};
    a.trigger.ns = UINT64_MAX;
    pthread_t thread;
    a.trigger.started = note_start;
    a.trigger.user = &a;
    pthread_create(&thread, NULL, ask_for_long, &a);
    wait_until(&a.started);
    doze(300);
    assert_int_equal(state_of(j->pid), RECORDING);
    finish(j);
    pthread_join(thread, NULL);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    mtp_trigger t = MTP_TRIGGER_INIT;
    assert_int_equal(mtp_trigger_process((uint64_t)getpid(), NULL), MTP_E_ARG);
    assert_int_equal(mtp_trigger_process((uint64_t)getpid(), &t), MTP_E_ARG);
    t.spool = "relative.mtp";
    assert_int_equal(mtp_trigger_process((uint64_t)getpid(), &t), MTP_E_ARG);
    assert_says("absolute");
    t.spool = "/two\nlines";
    assert_int_equal(mtp_trigger_process((uint64_t)getpid(), &t), MTP_E_ARG);
    t.spool = "/x.mtp";
    assert_int_equal(mtp_trigger_process(0, &t), MTP_E_ARG);
    assert_int_equal(mtp_trigger_process(UINT64_MAX, &t), MTP_E_ARG);
    assert_says("no process");
    assert_int_equal(mtp_trigger_process((uint64_t)getpid(), &t), MTP_E_STATE);
    assert_says("does not listen");
    t.ns = 0;
    assert_int_equal(mtp_trigger_process((uint64_t)getpid(), &t), MTP_E_ARG);
    t.ns = 1;
    t.size = 8;
    assert_int_equal(mtp_trigger_process((uint64_t)getpid(), &t), MTP_E_ABI);
    size_t count;
    assert_int_equal(mtp_listeners(NULL, 8, 0, &count), MTP_E_ABI);
    assert_int_equal(mtp_listeners(NULL, sizeof(mtp_listener), 1, &count), MTP_E_ARG);
    assert_int_equal(mtp_listeners(NULL, sizeof(mtp_listener), 0, NULL), MTP_E_ARG);
}

/* ------------------------------------------------------------------------------------- what a program may do */

static void close_all_and_open_others(job *j)
{
    enum {
        PAIRS = 40
    };
    int pair[PAIRS][2];
    char byte;
    j->ready = 1;
    while (!j->go)
        doze(1);
    close_all();
    for (int i = 0; i < PAIRS; i++)
        CHILD_CHECK(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair[i]) == 0);
    j->done = 1;
    work_until_told(j);
    for (int i = 0; i < PAIRS; i++)
        for (int k = 0; k < 2; k++) {
            struct pollfd p = {pair[i][k], POLLIN | POLLHUP, 0};
            CHILD_CHECK(fcntl(pair[i][k], F_GETFD) >= 0);
            CHILD_CHECK(poll(&p, 1, 0) == 0); /* nothing was sent, nobody hung up */
            CHILD_CHECK(recv(pair[i][k], &byte, 1, MSG_DONTWAIT) == -1);
        }
}

static void descriptors_that_took_the_numbers_of_ours_are_not_touched(void **state)
{
    (void)state;
    for (int while_recording = 0; while_recording < 2; while_recording++) {
        job *j = listener(close_all_and_open_others);
        asked a = {.pid = j->pid, .trigger = trigger_of(test_path("closed.mtp"), 400)};
        pthread_t thread;
        a.trigger.started = note_start;
        a.trigger.user = &a;
        if (while_recording) {
            pthread_create(&thread, NULL, ask_for_long, &a);
            wait_until(&a.started);
        }
        j->go = 1;
        wait_until(&j->done);
        if (while_recording)
            pthread_join(thread, NULL); /* its connection is gone */
        for (int i = 0; i < 100 && state_of(j->pid) != IDLE; i++)
            doze(50);
        assert_int_equal(state_of(j->pid), IDLE); /* it listens again */
        mtp_trigger t = trigger_of(test_path("again.mtp"), 10);
        assert_ok(mtp_trigger_process((uint64_t)j->pid, &t));
        finish(j);
    }
}

static void fork_while_served(job *j)
{
    j->other = sockets_open();
    j->ready = 1;
    while (!j->stop) {
        pid_t pid = fork();
        CHILD_CHECK(pid >= 0);
        if (pid == 0)
            _exit(sockets_open() > j->other ? 98 : 0); /* its own, for its parent's; none of the clients */
        int status;
        CHILD_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
}

static void a_forked_child_has_no_connection_of_its_parents(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_FORKS_ALONE);
    job *j = listener(fork_while_served);
    for (int i = 0; i < test_scaled(300); i++) {
        char answer[256];
        ask(j->pid, "mtprof 1 state\n", 15, answer, sizeof answer);
    }
    finish(j);
}

static void fork_one(job *j)
{
    errno = 0;
    pid_t pid = fork();
    CHILD_CHECK(errno == 0);
    if (pid == 0) {
        j->other = getpid();
        j->ready = 1;
        work_until_told(j);
        exit(0);
    }
    int status;
    CHILD_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void a_forked_child_listens_and_its_errno_is_its_own(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_FORKS_ALONE);
    job *j = listener(fork_one);
    assert_int_equal(state_of(j->pid), IDLE);
    assert_int_equal(state_of(j->other), IDLE);
    mtp_trigger t = trigger_of(test_path("child.mtp"), 10);
    assert_ok(mtp_trigger_process((uint64_t)j->other, &t));
    finish(j);
    assert_int_equal(state_of(j->other), NOT_LISTED);
}

static void a_deleted_socket_is_made_again(void **state)
{
    (void)state;
    job *j = listener(NULL);
    struct sockaddr_un name = name_of(j->pid);
    int before = descriptors_of(j->pid);
    assert_int_equal(unlink(name.sun_path), 0);
    for (int i = 0; i < 200 && state_of(j->pid) != IDLE; i++)
        doze(50);
    assert_int_equal(state_of(j->pid), IDLE);
    assert_int_equal(descriptors_of(j->pid), before);
    finish(j);
    assert_int_equal(access(name.sun_path, F_OK), -1);
}

static void the_socket_of_another_process_is_not_removed_at_exit(void **state)
{
    (void)state;
    job *j = listener(NULL);
    struct sockaddr_un name = name_of(j->pid);
    assert_int_equal(unlink(name.sun_path),
                     0); /* as one of another namespace does, where it has this number */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    doze(2500); /* it has looked */
    finish(j);
    assert_int_equal(access(name.sun_path, F_OK), 0);
    close(fd);
    unlink(name.sun_path);
}

static void sleep_for_long(void)
{
    doze(500000);
}

static void leave_two_threads_of_ours(job *j)
{
    CHILD_CHECK(mtp__own_thread(sleep_for_long) == MTP_OK); /* as the agent's that waits for --duration */
    j->ready = 1;
    pthread_exit(NULL);
}

static void a_program_whose_main_thread_left_ends_although_we_have_threads(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_HAS_A_THREAD);
    if (TEST_TSAN)
        skip(); /* it has a thread of its own, which nobody counts */
    job *j = listener(leave_two_threads_of_ours);
    finish(j);
}

static void change_root(job *j)
{
    mkdir(test_path("root"), 0755);
    CHILD_CHECK(chroot(test_path("root")) == 0 && chdir("/") == 0);
    j->ready = 1;
    work_until_told(j);
    CHILD_CHECK(access("/tmp", F_OK) != 0 && access("/run", F_OK) != 0); /* nothing was made in there */
}

static void a_program_that_changes_its_root_is_found_where_it_was(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    job *j = listener(change_root);
    doze(2500); /* it has looked */
    assert_int_equal(state_of(j->pid), IDLE);
    finish(j);
    unlink(name_of(j->pid).sun_path);
}

static void ask_the_first(job *j)
{
    mtp_trigger t = trigger_of(test_path("namespace.mtp"), 10);
    while (!j->go)
        doze(1);
    CHILD_CHECK(mtp_trigger_process(1, &t) == MTP_OK);
    _exit(0);
}

static void live_in_a_namespace(void *arg)
{
    job *j = arg;
    int status;
    if (unshare(CLONE_NEWPID) != 0)
        _exit(77);
    pid_t first = fork();
    if (first == 0) {
        CHILD_CHECK(getpid() == 1 && mtp_listen() == MTP_OK);
        j->ready = 1;
        pid_t second = fork();
        if (second == 0)
            ask_the_first(j);
        CHILD_CHECK(waitpid(second, &status, 0) == second && status == 0);
        exit(0);
    }
    CHILD_CHECK(waitpid(first, &status, 0) == first && status == 0);
}

static void in_another_namespace_of_processes_only_its_own_can_record_it(void **state)
{
    (void)state;
    TEST_NOT_IN_QEMU(QEMU_FORKS_ALONE);
    job *j = test_shared(sizeof *j);
    pid_t pid = test_fork_child(live_in_a_namespace, j, 60);
    while (!j->ready && waitpid(pid, &j->other_status, WNOHANG) == 0)
        doze(1);
    if (!j->ready) {
        assert_int_equal(WEXITSTATUS(j->other_status), 77);
        skip(); /* namespaces are not allowed here */
    }
    assert_int_equal(state_of(1), NOT_LISTED); /* our process 1 is another one */
    assert_int_equal(access(name_of(1).sun_path, F_OK), 0);
    mtp_trigger t = trigger_of(test_path("outside.mtp"), 10);
    assert_int_equal(mtp_trigger_process(1, &t), MTP_E_STATE);
    j->go = 1;
    assert_true(test_left_well(test_wait(pid)));
}

static void drop_privileges(job *j)
{
    CHILD_CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    j->ready = 1;
    work_until_told(j);
}

static void root_can_record_a_program_that_dropped_its_privileges(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    job *j = listener(drop_privileges);
    assert_int_equal(state_of(j->pid), IDLE);
    const char *path = "/tmp/mtprof-test-dropped.mtp";
    unlink(path);
    mtp_trigger t = trigger_of(path, 10);
    assert_ok(mtp_trigger_process((uint64_t)j->pid, &t));
    unlink(path);
    finish(j);
    unlink(name_of(j->pid).sun_path);
}

static void a_process_that_is_stopped_does_not_hang_those_who_ask(void **state)
{
    (void)state;
    job *j = listener(NULL);
    stop_and_wait(j->pid);
    const char *path = test_path("stopped.mtp");
    mtp_trigger t = trigger_of(path, 10);
    assert_int_equal(mtp_trigger_process((uint64_t)j->pid, &t), MTP_E_STATE);
    assert_says("stopped");
    int fd[12];
    for (size_t i = 0; i < COUNT(fd); i++) /* more than its queue holds */
        fd[i] = dial_at_once(j->pid);
    assert_int_equal(mtp_trigger_process((uint64_t)j->pid, &t), MTP_E_STATE);
    assert_says("stopped");
    assert_int_equal(state_of(j->pid), NOT_LISTED);
    for (size_t i = 0; i < COUNT(fd); i++)
        if (fd[i] >= 0)
            close(fd[i]);
    kill(j->pid, SIGCONT);
    for (int i = 0; i < 100 && state_of(j->pid) != IDLE; i++)
        doze(50);
    assert_int_equal(state_of(j->pid), IDLE);
    assert_int_equal(access(path, F_OK), -1); /* nobody waits for that any more */
    finish(j);
}

static void truncate_spool(job *j)
{
    const char *path = test_path("cut.mtp");
    j->ready = 1;
    while (!j->go)
        doze(1);
    CHILD_CHECK(truncate(path, 0) == 0);
    while (!j->stop) /* and records nothing: the first to touch the file is whoever stops the recording */
        doze(1);
}

static void a_spool_that_somebody_truncates_does_not_kill_the_program(void **state)
{
    (void)state;
    job *j = listener(truncate_spool);
    asked a = {0};
    pthread_t thread = ask_beside(&a, j->pid, test_path("cut.mtp"), 300);
    j->go = 1;
    pthread_join(thread, NULL);
    assert_int_equal(state_of(j->pid), IDLE);
    finish(j);
}

/* ------------------------------------------------------------------------------------------ folders and names */

static void only_a_folder_of_the_users_own_is_private(void **state)
{
    (void)state;
    char path[128], to[128];
    snprintf(path, sizeof path, "%s", test_path("folder"));
    assert_false(mtp__listen_is_private(path, geteuid(), false));
    assert_true(mtp__listen_is_private(path, geteuid(), true));
    assert_true(mtp__listen_is_private(path, geteuid(), true));
    assert_false(mtp__listen_is_private(path, geteuid() + 1, false));
    for (mode_t bit = 1; bit < 0100; bit <<= 1) {
        chmod(path, 0700 | bit);
        assert_false(mtp__listen_is_private(path, geteuid(), true));
    }
    chmod(path, 0700);
    snprintf(to, sizeof to, "%s", test_path("link"));
    assert_int_equal(symlink(path, to), 0);
    assert_false(mtp__listen_is_private(to, geteuid(), true));
    unlink(to);
    test_spew(to, "x", 1);
    assert_false(mtp__listen_is_private(to, geteuid(), true));
    assert_false(mtp__listen_is_private("/proc/nothing/here", geteuid(), true));
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_false(mtp__listen_is_private(path, 0, true));
        assert_true(mtp__listen_is_private(path, 65534, false));
    }
}

static void with_runtime_folder(const char *value, const char *expected)
{
    char before[256];
    struct sockaddr_un folder;
    snprintf(before, sizeof before, "%s", getenv("XDG_RUNTIME_DIR"));
    if (value != NULL)
        setenv("XDG_RUNTIME_DIR", value, 1);
    else
        unsetenv("XDG_RUNTIME_DIR");
    bool is = mtp__listen_folder(geteuid(), 0, &folder);
    setenv("XDG_RUNTIME_DIR", before, 1);
    assert_int_equal(is, expected != NULL);
    if (is)
        assert_string_equal(folder.sun_path, expected);
}

static void the_runtime_folder_counts_if_it_is_absolute_and_short_enough(void **state)
{
    (void)state;
    char longest[128] = "/", fits[128];
    struct sockaddr_un folder, name;
    with_runtime_folder("/run/x", "/run/x/mtprof");
    with_runtime_folder(NULL, NULL);
    with_runtime_folder("", NULL);
    with_runtime_folder("run", NULL);
    memset(longest + 1, 'd', 120);
    with_runtime_folder(longest, NULL);
    size_t n = 1;
    for (; n < 120; n++) { /* whatever is accepted leaves room for any name */
        longest[n] = 0;
        setenv("FITS", longest, 1);
        snprintf(fits, sizeof fits, "%s/mtprof", longest);
        struct sockaddr_un probe = {.sun_family = AF_UNIX};
        if (strlen(fits) >= sizeof probe.sun_path - 24)
            break;
        with_runtime_folder(longest, fits);
        longest[n] = 'd';
    }
    with_runtime_folder(longest, NULL);
    folder = (struct sockaddr_un){.sun_family = AF_UNIX};
    memset(folder.sun_path, 'x', sizeof folder.sun_path - 25);
    assert_true(mtp__listen_socket(&folder, INT_MAX, &name));
    assert_string_equal(name.sun_path + sizeof folder.sun_path - 25, "/2147483647.sock");
    assert_true(mtp__listen_folder(UINT_MAX, 1, &folder));
    assert_true(mtp__listen_folder(UINT_MAX, 2, &folder));
    assert_string_equal(folder.sun_path, "/tmp/mtprof-4294967295");
    assert_false(mtp__listen_folder(0, 3, &folder));
    assert_false(mtp__listen_folder(geteuid() + 1, 0, &folder)); /* the variable is this user's */
}

/* A runtime folder that is somebody's link, or open to others, or missing: /tmp is used. */
static void without_a_private_runtime_folder_it_listens_in_tmp(void **state)
{
    (void)state;
    char before[256], path[256], ours[300];
    struct sockaddr_un tmp, name;
    snprintf(before, sizeof before, "%s", getenv("XDG_RUNTIME_DIR"));
    assert_true(mtp__listen_folder(geteuid(), 2, &tmp));
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%d", test_path("runtime"), i);
        snprintf(ours, sizeof ours, "%s/mtprof", path);
        if (i > 0)
            assert_int_equal(mkdir(path, 0700), 0);
        if (i == 1)
            assert_int_equal(symlink("/tmp", ours), 0);
        if (i == 2)
            assert_true(mkdir(ours, 0700) == 0 && chmod(ours, 0755) == 0);
        setenv("XDG_RUNTIME_DIR", path, 1);
        job *j = listener(NULL);
        assert_true(mtp__listen_socket(&tmp, j->pid, &name));
        assert_int_equal(access(name.sun_path, F_OK), 0);
        assert_int_equal(state_of(j->pid), IDLE);
        finish(j);
        assert_int_equal(access(name.sun_path, F_OK), -1);
    }
    setenv("XDG_RUNTIME_DIR", before, 1);
}

static int bound_socket(pid_t pid)
{
    struct sockaddr_un name = name_of(pid);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(name.sun_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

static void left_sockets_are_removed_but_not_that_of_a_process_about_to_listen(void **state)
{
    (void)state;
    job *j = listener(NULL); /* makes the folder */
    struct sockaddr_un dead = name_of(INT_MAX), starting = name_of(getpid());
    close(bound_socket(INT_MAX));
    int fd = bound_socket(getpid());
    assert_int_equal(state_of(j->pid), IDLE);
    assert_int_equal(access(dead.sun_path, F_OK), -1);
    assert_int_equal(access(starting.sun_path, F_OK), 0);
    close(fd);
    unlink(starting.sun_path);
    finish(j);
}

/* The number in the name is not that of the process that listens there: a number that was used again, or a trick. */
static void a_socket_that_claims_another_process_is_not_believed(void **state)
{
    (void)state;
    job *j = listener(NULL);
    struct sockaddr_un name = name_of(j->pid), other = name_of(getppid());
    assert_int_equal(link(name.sun_path, other.sun_path), 0);
    assert_int_equal(state_of(getppid()), NOT_LISTED);
    mtp_trigger t = trigger_of(test_path("other.mtp"), 10);
    assert_int_equal(mtp_trigger_process((uint64_t)getppid(), &t), MTP_E_STATE);
    assert_says("does not listen");
    unlink(other.sun_path);
    finish(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_that_listens_is_listed_and_records_itself_when_asked),
        TEST(of_two_requests_at_once_one_is_refused),
        TEST(a_program_that_profiles_itself_is_left_alone),
        TEST(a_request_for_ever_is_not_over_at_once),
        TEST(bad_arguments_are_refused),
        TEST(descriptors_that_took_the_numbers_of_ours_are_not_touched),
        TEST(a_forked_child_has_no_connection_of_its_parents),
        TEST(a_forked_child_listens_and_its_errno_is_its_own),
        TEST(a_deleted_socket_is_made_again),
        TEST(the_socket_of_another_process_is_not_removed_at_exit),
        TEST(a_program_whose_main_thread_left_ends_although_we_have_threads),
        TEST(a_program_that_changes_its_root_is_found_where_it_was),
        TEST(in_another_namespace_of_processes_only_its_own_can_record_it),
        TEST(root_can_record_a_program_that_dropped_its_privileges),
        TEST(a_process_that_is_stopped_does_not_hang_those_who_ask),
        TEST(a_spool_that_somebody_truncates_does_not_kill_the_program),
        TEST(only_a_folder_of_the_users_own_is_private),
        TEST(the_runtime_folder_counts_if_it_is_absolute_and_short_enough),
        TEST(without_a_private_runtime_folder_it_listens_in_tmp),
        TEST(left_sockets_are_removed_but_not_that_of_a_process_about_to_listen),
        TEST(a_socket_that_claims_another_process_is_not_believed),
    };
    return cmocka_run_group_tests(tests, use_own_runtime_folder, NULL);
}
