/* cli/top/screen.c - the terminal: see top.h. Plain ANSI: the alternate screen, no cursor; keys are read as they are typed.
 *
 * Signals are blocked except while waiting, so that nothing is drawn half. Ctrl-C and the like end the process as they
 * would have, after the terminal was restored; a crash restores it, too.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "cli/top/top.h"

#define ENTER "\033[?1049h\033[?25l\033[H\033[2J"
#define LEAVE "\033[0m\033[?25h\033[?1049l"

static struct {
    volatile sig_atomic_t on, ending, stopping, resized;
    bool has_keys;
    struct termios before;
    sigset_t outside; /* the mask that we found */
} screen;

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void say(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes, length);
        if (n < 0 && errno != EINTR)
            return;
        bytes += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
}

/* Only calls that a signal handler may make. */
static void leave(void)
{
    if (!screen.on)
        return;
    screen.on = 0;
    say(LEAVE, sizeof LEAVE - 1);
    if (screen.has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
}

static void enter(void)
{
    if (screen.has_keys) {
        struct termios raw = screen.before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    screen.on = 1;
    say(ENTER, sizeof ENTER - 1);
}

static void on_end(int number)
{
    screen.ending = number;
}

static void on_stop(int number)
{
    screen.stopping = number;
}

static void on_resize(int number)
{
    (void)number;
    screen.resized = 1;
}

/* The default action follows, because the handler is reset. */
static void on_crash(int number)
{
    leave();
    raise(number);
}

static void handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN && handler != on_resize)
        return; /* nohup, or a shell that does not want it */
    sigaction(number, &action, NULL);
}

bool top_screen_begin(void)
{
    const char *term = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || term == NULL || *term == 0 || strcmp(term, "dumb") == 0)
        return false;
    screen.has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &screen.before) == 0;
    sigset_t ours;
    sigemptyset(&ours);
    for (size_t i = 0; i < COUNT(ends); i++) {
        handle(ends[i], on_end, 0);
        sigaddset(&ours, ends[i]);
    }
    for (size_t i = 0; i < COUNT(crashes); i++)
        handle(crashes[i], on_crash, (int)(SA_RESETHAND | SA_NODEFER));
    handle(SIGTSTP, on_stop, 0);
    handle(SIGWINCH, on_resize, 0);
    handle(SIGCONT, on_resize, 0);
    sigaddset(&ours, SIGTSTP);
    sigaddset(&ours, SIGWINCH);
    sigaddset(&ours, SIGCONT);
    sigprocmask(SIG_BLOCK, &ours, &screen.outside);
    atexit(leave);
    enter();
    return true;
}

void top_screen_end(void)
{
    leave();
    sigprocmask(SIG_SETMASK, &screen.outside, NULL);
}

void top_screen_size(int *columns, int *lines)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *columns = known ? size.ws_col : 80;
    *lines = known ? size.ws_row : 24;
}

/* In one write, so that nothing flickers. Each line is erased before it is written: after the last column it would lose its
 * last character. */
void top_screen_draw(const top_text *t)
{
    size_t room = t->length + (size_t)t->lines * 8 + 32, n = 0;
    char *out = malloc(room);
    if (out == NULL)
        return;
    n += (size_t)snprintf(out, room, "\033[H\033[K");
    for (size_t i = 0; i < t->length; i++) {
        if (t->bytes[i] != '\n') {
            out[n++] = t->bytes[i];
        } else if (i + 1 < t->length) {
            memcpy(out + n, "\r\n\033[K", 5);
            n += 5;
        }
    }
    if (t->lines > 0) { /* not on the last line: see above */
        int columns, lines;
        top_screen_size(&columns, &lines);
        if (t->lines < lines)
            n += (size_t)snprintf(out + n, room - n, "\r\n\033[J");
    }
    say(out, n);
    free(out);
}

/* As if the signal had come without us. */
static void end_by(int number)
{
    sigset_t only;
    leave();
    signal(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(number);
    _exit(128 + number);
}

static void stop_by(int number)
{
    sigset_t only, before;
    leave();
    signal(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    sigprocmask(SIG_UNBLOCK, &only, &before);
    raise(number); /* returns when the process continues */
    sigprocmask(SIG_SETMASK, &before, NULL);
    screen.stopping = 0;
    handle(number, on_stop, 0);
}

/* "\033[A" and the like. */
static int sequence(const char *typed, ssize_t length)
{
    static const struct {
        const char *text;
        int key;
    } known[] = {{"[A", TOP_KEY_UP},   {"OA", TOP_KEY_UP},       {"[B", TOP_KEY_DOWN},
                 {"OB", TOP_KEY_DOWN}, {"[5~", TOP_KEY_PAGE_UP}, {"[6~", TOP_KEY_PAGE_DOWN},
                 {"[H", TOP_KEY_HOME}, {"OH", TOP_KEY_HOME},     {"[1~", TOP_KEY_HOME},
                 {"[F", TOP_KEY_END},  {"OF", TOP_KEY_END},      {"[4~", TOP_KEY_END}};
    for (size_t i = 0; i < COUNT(known); i++)
        if (length > (ssize_t)strlen(known[i].text) &&
            strncmp(typed + 1, known[i].text, strlen(known[i].text)) == 0)
            return known[i].key;
    return length == 1 ? 27 : TOP_KEY_REDRAW;
}

static char text[64]; /* typed: from `at` to `have` */
static ssize_t have, at;

static int read_key(void)
{
    if (at >= have) {
        have = read(STDIN_FILENO, text, sizeof text);
        at = 0;
        if (have == 0 || (have < 0 && errno != EINTR && errno != EAGAIN))
            screen.has_keys = false; /* the terminal is gone */
        if (have <= 0)
            return TOP_KEY_NONE;
    }
    if (text[at] == 27) {
        int key = sequence(text + at, have - at);
        at = have;
        return key;
    }
    return (unsigned char)text[at++];
}

static bool has_key(void)
{
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    return screen.has_keys && poll(&in, 1, 0) > 0;
}

int top_screen_key(int64_t wait_ns)
{
    if (at < have && !screen.ending && !screen.stopping)
        return read_key();
    struct timespec wait = {wait_ns / 1000000000, wait_ns % 1000000000};
    struct pollfd in = {screen.has_keys ? STDIN_FILENO : -1, POLLIN, 0};
    int n = ppoll(&in, 1, &wait, &screen.outside);
    if (screen.ending)
        end_by(screen.ending);
    if (screen.stopping)
        stop_by(screen.stopping);
    if (screen.resized || !screen.on) { /* also after a stop that could not be seen */
        screen.resized = 0;
        enter();
        return TOP_KEY_REDRAW;
    }
    return n > 0 || has_key() ? read_key() : TOP_KEY_NONE;
}
