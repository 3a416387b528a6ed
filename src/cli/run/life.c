/* cli/run/life.c - the program's life: it is started, waited for, and gets the signals that were meant for it.
 *
 * It runs in our process group, so the terminal, its keys and job control are its own. Keys (Ctrl-C) reach it and us;
 * a signal that somebody sent to us alone is passed on. By Ctrl-Z we stop after the program has: the shell reads
 * the terminal as soon as we have stopped, and a program that is still about to would take its input.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/run/run.h"

enum {
    NOTES_MAX = 32,
    NOTE_ROOM = 1024,
    TICK_MS = 1000,
    PROGRESS_OTHERS = 40 /* characters of a line of progress beside the file's name */
};

static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

/* ------------------------------------------------------------------------------------------------------- notes */

static struct note {
    char text[NOTE_ROOM];
    unsigned more; /* processes that said the same */
} notes[NOTES_MAX];
static unsigned note_count, notes_lost;

/* "PROGRAM (process N): what": the last part. */
static const char *what_of(const char *text)
{
    const char *what = strstr(text, "): ");
    return what != NULL ? what + 3 : text;
}

/* The same but for numbers: those of processes, and of their files. */
static bool says_the_same(const char *a, const char *b)
{
    while (*a != 0 && *b != 0) {
        if (mtp__is_digit(*a) && mtp__is_digit(*b)) {
            while (mtp__is_digit(*a))
                a++;
            while (mtp__is_digit(*b))
                b++;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return *a == *b;
}

static void keep_note(const char *text)
{
    for (unsigned i = 0; i < note_count; i++)
        if (says_the_same(what_of(notes[i].text), what_of(text))) {
            notes[i].more++;
            return;
        }
    if (note_count == NOTES_MAX) {
        notes_lost++;
        return;
    }
    snprintf(notes[note_count++].text, NOTE_ROOM, "%s", text);
}

void run_hide_controls(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p != 0; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = '?';
        else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) /* U+0080 to U+009F */
            p[0] = p[1] = '?';
}

static void read_notes(int fd)
{
    char text[NOTE_ROOM];
    for (ssize_t n; fd >= 0 && (n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT)) > 0;) {
        text[n] = 0;
        run_hide_controls(text); /* in names of programs */
        keep_note(text);
    }
}

void run_notes_print(void)
{
    for (unsigned i = 0; i < note_count; i++)
        if (notes[i].more > 0)
            cli_note("%s (the same for %u more process%s)", notes[i].text, notes[i].more,
                     notes[i].more == 1 ? "" : "es");
        else
            cli_note("%s", notes[i].text);
    if (notes_lost > 0)
        cli_note("%u more such messages", notes_lost);
}

/* ------------------------------------------------------------------------------------------------------ waiting */

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

/* A signal that somebody sent to us was meant for the program; it has those of the terminal already. pid 0: it has
 * ended. */
static void pass_on(int fd, pid_t pid, bool *to_stop)
{
    struct signalfd_siginfo s;
    while (read(fd, &s, sizeof s) == (ssize_t)sizeof s) {
        if (s.ssi_signo == SIGTSTP || s.ssi_signo == SIGCONT)
            *to_stop = s.ssi_signo == SIGTSTP;
        if (pid > 0 && s.ssi_signo != SIGCHLD && s.ssi_code <= 0)
            kill(pid, (int)s.ssi_signo);
    }
}

/* Returns when somebody lets us go on. */
static void stop_as(int signo)
{
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, signo);
    raise(signo);
    sigprocmask(SIG_UNBLOCK, &one, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Rewritten every second where the program's own output goes elsewhere; else once, at the start. A line that is
 * rewritten must fit. */
static void show_progress(const run_options *o, const run_place *place, double seconds)
{
    static bool shown;
    bool updates = !isatty(STDOUT_FILENO);
    const char *name = o->wait ? "" : place->shown;
    int columns = cli_columns(stderr);
    bool fits = columns == 0 || (int)strlen(name) + PROGRESS_OTHERS <= columns;
    if (!isatty(STDERR_FILENO) || (shown && !updates))
        return;
    shown = true;
    if (o->wait)
        fprintf(stderr, "%smtprof run: waiting for 'mtprof trigger' (see 'mtprof ps')%s", updates ? "\r" : "",
                updates ? "" : "\n");
    else if (!updates)
        fprintf(stderr, "mtprof run: recording into %s; Ctrl-C ends the program and keeps the trace\n", name);
    else
        fprintf(stderr, "\rmtprof run: recording%s%s, %.0f s", fits ? " into " : "", fits ? name : "",
                seconds);
}

static void hide_progress(void)
{
    if (isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO))
        fprintf(stderr, "\r\033[K");
}

static void wait_for(pid_t pid, int signals, const run_options *o, run_place *place, run_ended *ended)
{
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    pid_t got;
    bool to_stop = false; /* since the last SIGCONT */
    show_progress(o, place, 0);
    while ((got = waitpid(pid, &ended->status, WNOHANG | WUNTRACED)) == 0 || (got < 0 && errno == EINTR) ||
           (got > 0 && WIFSTOPPED(ended->status))) {
        struct pollfd ready[] = {{signals, POLLIN, 0}, {place->notes, POLLIN, 0}};
        poll(ready, 2, got > 0 ? 0 : TICK_MS);
        pass_on(signals, pid, &to_stop);
        int how = got > 0 ? WSTOPSIG(ended->status) : 0;
        if ((how == SIGTSTP && to_stop) || how == SIGTTIN ||
            how == SIGTTOU) { /* not if it alone was stopped */
            hide_progress();
            stop_as(how);
        }
        read_notes(place->notes);
        show_progress(o, place, seconds_since(&start));
    }
    pass_on(signals, 0, &to_stop); /* the Ctrl-C that ended it must not end us as well */
    hide_progress();
    read_notes(place->notes);
    ended->pid = pid;
    ended->seconds = seconds_since(&start);
}

/* ----------------------------------------------------------------------------------------------------- starting */

/* In the child: becomes the program, or says why not. */
static void become(const run_program *program, char **environment, const sigset_t *mask,
                   const struct sigaction *children, int pipe_end)
{
    sigaction(SIGCHLD, children, NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvpe(program->argv[0], program->argv, environment);
    int error = errno;
    if (write(pipe_end, &error, sizeof error) < 0)
        error = 0;
    _exit(127);
}

int run_life(const run_program *program, char **environment, const run_options *o, run_place *place,
             run_ended *ended)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction
        children; /* if we inherited that they are ignored, there would be no status to wait for */
    sigset_t ours, before;
    int ends[2], error = 0;
    sigemptyset(&ours);
    sigaddset(&ours, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        sigaddset(&ours, forwarded[i]);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return cli_fail(CLI_INPUT, "%s cannot be started: %s", program->argv[0], mtp__reason(errno));
    sigprocmask(SIG_BLOCK, &ours, &before);
    sigaction(SIGCHLD, &usual, &children);
    int signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become(program, environment, &before, &children, ends[1]);
    if (pid < 0)
        error = errno;
    close(ends[1]);
    if (pid > 0 && read(ends[0], &error, sizeof error) != (ssize_t)sizeof error)
        error = 0;
    close(ends[0]);
    if (error == 0)
        wait_for(pid, signals, o, place, ended);
    else if (pid > 0)
        waitpid(pid, NULL, 0);
    close(signals);
    sigaction(SIGCHLD, &children, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        return CLI_OK;
    return cli_fail(error == ENOENT ? 127 : 126, "%s: %s", program->argv[0], mtp__reason(error));
}
