/* Unit: recording on demand, and peers that mean no good, or know no better: garbage, floods, half a request, other users. */
#define _GNU_SOURCE
#include <grp.h>
#include <pthread.h>
#include "base/clock.h"
#include "tests/unit/listeners.h"

static void unknown_requests_are_answered_and_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *request, *answer;
    } of[] = {
        {"mtprof 1 state\n", "ok idle\n"},
        {"mtprof 1 dance\n", "error this version does not know the request\n"},
        {"mtprof 1 record ns=5\n", "error the request is incomplete\n"},
        {"mtprof 1 record path=/tmp/x\n", "error the request is incomplete\n"},
        {"mtprof 1 record ns=5 path=x\n", "error 'x' is not an absolute path\n"},
        {"mtprof 2 state\n", ""},
        {"GET / HTTP/1.1\n", ""},
        {"\n", ""},
    };
    job *j = listener(NULL);
    int before = descriptors_of(j->pid);
    for (size_t i = 0; i < COUNT(of); i++) {
        char answer[256];
        ask(j->pid, of[i].request, strlen(of[i].request), answer, sizeof answer);
        assert_string_equal(answer, of[i].answer);
    }
    assert_int_equal(state_of(j->pid), IDLE);
    assert_int_equal(descriptors_of(j->pid), before);
    finish(j);
}

static void garbage_does_not_stop_it_from_listening(void **state)
{
    (void)state;
    job *j = listener(NULL);
    int before = descriptors_of(j->pid);
    char *bytes = malloc(71000), answer[256];
    const char *folder = test_path("garbage"); /* what it may write stays in here */
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int i = 0; i < test_scaled(60); i++) {
        size_t at = i % 3 == 0 ? (size_t)snprintf(bytes, 200, "mtprof 1 record ns=1 path=%s/", folder) : 0;
        size_t length = at + 1 + (size_t)test_below(i % 10 == 0 ? 69999 : 200);
        for (; at < length; at++)
            bytes[at] = (char)test_random();
        bytes[length - 1] = '\n'; /* without one it would wait for the rest, see the next test */
        ask(j->pid, bytes, length, answer, sizeof answer);
    }
    free(bytes);
    assert_int_equal(state_of(j->pid), IDLE);
    assert_int_equal(descriptors_of(j->pid), before);
    finish(j);
}

static void half_a_request_and_one_without_end_are_dropped(void **state)
{
    (void)state;
    job *j = listener(NULL);
    int before = descriptors_of(j->pid);
    int half = dial(j->pid), whole = dial(j->pid);
    char *many = malloc(1 << 20), byte;
    memset(many, 'a', 1 << 20);
    assert_int_equal(send(half, "mtprof 1 rec", 12, MSG_NOSIGNAL), 12);
    send(whole, many, 1 << 20, MSG_NOSIGNAL | MSG_DONTWAIT);
    free(many);
    assert_true(recv(half, &byte, 1, 0) <= 0); /* it hung up */
    assert_true(recv(whole, &byte, 1, 0) <= 0);
    close(half);
    close(whole);
    assert_int_equal(state_of(j->pid), IDLE);
    assert_int_equal(descriptors_of(j->pid), before);
    finish(j);
}

/* Both ends of a conversation, without a server. */
static void lines_are_heard_one_by_one_and_failures_say_why(void **state)
{
    (void)state;
    int pair[2];
    char line[16];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    mtp__own_fd ends[2] = {mtp__own(pair[0]), mtp__own(pair[1])};
    assert_true(mtp__listen_say(&ends[0], "ok\ndone\n", 1000));
    assert_true(mtp__listen_hear(&ends[1], line, sizeof line, 1000));
    assert_string_equal(line, "ok");
    assert_true(mtp__listen_hear(&ends[1], line, sizeof line, -1));
    assert_string_equal(line, "done");
    assert_false(mtp__listen_hear(&ends[1], line, sizeof line, 10));
    assert_int_equal(errno, ETIMEDOUT);
    assert_true(mtp__listen_say(&ends[0], "0123456789abcde\n", 1000)); /* just fits */
    assert_true(mtp__listen_hear(&ends[1], line, sizeof line, 1000));
    assert_true(mtp__listen_say(&ends[0], "0123456789abcdef\n", 1000));
    assert_false(mtp__listen_hear(&ends[1], line, sizeof line, 1000));
    assert_int_equal(errno, EMSGSIZE);
    char *long_line = calloc(1, 8 << 20);
    memset(long_line, 'x', (8 << 20) - 1);
    assert_false(mtp__listen_say(&ends[0], long_line, 50)); /* nobody reads it */
    assert_int_equal(errno, ETIMEDOUT);
    free(long_line);
    mtp__own_close(&ends[1]);
    assert_int_equal(ends[1].fd, -1);
    assert_false(mtp__listen_say(&ends[0], "x\n", 1000));
    assert_int_equal(errno, EPIPE);
    int taken = dup2(pair[0] == 0 ? 1 : 0, pair[0]); /* another file has its number */
    assert_false(mtp__own_is(&ends[0]));
    assert_false(mtp__listen_hear(&ends[0], line, sizeof line, 1000));
    mtp__own_close(&ends[0]);
    assert_true(fcntl(taken, F_GETFD) >= 0);
    close(taken);
}

typedef struct dripping {
    int fd;
    atomic_int stop;
    bool was_dropped;
} dripping;

/* A byte now and then, each before the peer loses patience. */
static void *drip(void *arg)
{
    dripping *d = arg;
    for (int i = 0; i < 200 && !d->stop && !d->was_dropped; i++) {
        d->was_dropped = send(d->fd, "m", 1, MSG_NOSIGNAL) != 1;
        doze(100);
    }
    return NULL;
}

static void a_request_that_drips_in_does_not_keep_others_waiting(void **state)
{
    (void)state;
    job *j = listener(NULL);
    dripping d = {.fd = dial(j->pid)};
    pthread_t thread;
    pthread_create(&thread, NULL, drip, &d);
    assert_int_equal(state_of(j->pid), IDLE); /* not within the client's patience otherwise */
    d.stop = 1;
    pthread_join(thread, NULL);
    close(d.fd);
    finish(j);
}

static void a_recording_ends_on_time_while_a_request_drips_in(void **state)
{
    (void)state;
    job *j = listener(NULL);
    asked a = {.pid = j->pid, .trigger = trigger_of(test_path("time.mtp"), 600)};
    pthread_t thread, dripper;
    a.trigger.started = note_start;
    a.trigger.user = &a;
    pthread_create(&thread, NULL, ask_for_long, &a);
    wait_until(&a.started);
    dripping d = {.fd = dial(j->pid)};
    pthread_create(&dripper, NULL, drip, &d); /* for 20 seconds, if it is let */
    pthread_join(thread, NULL);
    assert_int_equal(a.status, MTP_OK);
    d.stop = 1;
    pthread_join(dripper, NULL);
    close(d.fd);
    seen s = {0};
    assert_ok(seen_spool(&s, test_path("time.mtp")));
    uint64_t first = seen_nth(&s, -1, 0)->ticks, last = first;
    for (size_t i = 0; i < s.records; i++)
        last = s.record[i].ticks > last ? s.record[i].ticks : last;
    assert_true((double)(last - first) / mtp__clock_ticks_per_ns() < 10e9);
    seen_free(&s);
    finish(j);
}

static void a_thousand_connections_cost_only_time(void **state)
{
    (void)state;
    enum {
        MANY = 1000
    };
    static int fd[MANY];
    job *j = listener(NULL);
    int before = descriptors_of(j->pid), connected = 0;
    for (int i = 0; i < MANY; i++)
        connected += (fd[i] = dial_at_once(j->pid)) >= 0;
    assert_true(connected > 0);
    for (int i = 0; i < MANY; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    for (int i = 0; i < 100 && state_of(j->pid) != IDLE; i++)
        doze(50);
    assert_int_equal(state_of(j->pid), IDLE);
    assert_int_equal(descriptors_of(j->pid), before);
    finish(j);
}

static void nothing_is_recorded_for_a_client_that_is_gone(void **state)
{
    (void)state;
    job *j = listener(NULL);
    char request[512];
    const char *path = test_path("nobody.mtp");
    int n = snprintf(request, sizeof request, "mtprof 1 record ns=1000000 budget=0 path=%s\n", path);
    stop_and_wait(j->pid);
    for (int i = 0; i < 3; i++) {
        int fd = dial(j->pid);
        assert_int_equal(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
        close(fd);
    }
    kill(j->pid, SIGCONT);
    assert_int_equal(state_of(j->pid), IDLE); /* asked after them */
    assert_int_equal(access(path, F_OK), -1);
    finish(j);
}

/* As root, since only root can become somebody else. */
static void be_nobody(void *arg)
{
    job *j = arg;
    char answer[256] = "?";
    CHILD_CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    ask(j->pid, "mtprof 1 state\n", 15, answer, sizeof answer);
    CHILD_CHECK(answer[0] == 0);
    mtp_trigger t = trigger_of("/tmp/never.mtp", 1);
    CHILD_CHECK(mtp_trigger_process((uint64_t)j->pid, &t) == MTP_E_STATE);
    CHILD_CHECK(strstr(mtp_last_error(), "another user") != NULL);
}

static void another_user_gets_no_answer_even_if_the_folder_lets_him_in(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    job *j = listener(NULL);
    struct sockaddr_un name = name_of(j->pid);
    assert_int_equal(chmod(name.sun_path, 0777), 0);
    set_mode_on_the_way_to(name.sun_path, 0711);
    int status = test_child(be_nobody, j, 30);
    set_mode_on_the_way_to(name.sun_path, 0700);
    assert_true(test_left_well(status));
    finish(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(unknown_requests_are_answered_and_change_nothing),
        TEST(garbage_does_not_stop_it_from_listening),
        TEST(half_a_request_and_one_without_end_are_dropped),
        TEST(lines_are_heard_one_by_one_and_failures_say_why),
        TEST(a_request_that_drips_in_does_not_keep_others_waiting),
        TEST(a_recording_ends_on_time_while_a_request_drips_in),
        TEST(a_thousand_connections_cost_only_time),
        TEST(nothing_is_recorded_for_a_client_that_is_gone),
        TEST(another_user_gets_no_answer_even_if_the_folder_lets_him_in),
    };
    return cmocka_run_group_tests(tests, use_own_runtime_folder, NULL);
}
