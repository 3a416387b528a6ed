/* cli/top/top.h - the parts of `mtprof top`: what is watched, how it is shown, and the terminal. */
#ifndef MTP_CLI_TOP_TOP_H
#define MTP_CLI_TOP_TOP_H
#include "cli/cli.h"

/* X(name, title): what rows can be sorted by, in the order of the key s */
#define TOP_SORT_LIST(X)                                                                                     \
    X(self, "SELF")                                                                                          \
    X(recent, "NOW%")                                                                                        \
    X(total, "TOTAL")                                                                                        \
    X(calls, "CALLS")                                                                                        \
    X(rate, "CALLS/S")                                                                                       \
    X(mean, "MEAN")                                                                                          \
    X(name, "NAME")
enum {
#define X(name, title) TOP_BY_##name,
    TOP_SORT_LIST(X)
#undef X
    TOP_SORTS
};

typedef struct top_options {
    int64_t delay_ns, window_ns;
    int64_t count; /* -n; 0: until it is ended */
    int64_t limit; /* rows; -1: all */
    int sort;      /* TOP_BY_* */
    bool reverse, recent, threads, python, batch, help, paused;
    int64_t scroll; /* rows or lines that are above the screen */
} top_options;

/* find.c: a path, or the number of a process, becomes a path. Exit code. */
typedef struct top_target {
    char path[PATH_MAX];
    bool alone; /* only this spool, not those beside it */
} top_target;
int top_find(const char *given, top_target *target);

/* text.c: the lines of a screen, each as wide as the terminal at most */
typedef struct top_text {
    char *bytes; /* owned */
    size_t length, room;
    int column, columns; /* of the line; columns 0: any */
    int lines;           /* complete ones */
    size_t line;         /* where the one being written begins */
    bool styled, is_cut; /* it did not all fit */
} top_text;
void top_put(top_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* ASCII of our own */
/* A name of the program's: nothing for the terminal to obey; shortened, or padded with spaces (width < 0: not). */
void top_name(top_text *t, const char *bytes, size_t length, int width);
void top_style(top_text *t, const char *sequence); /* "1": bold ... "0": none */
void top_end_line(top_text *t);
void top_end_facts(
    top_text *t); /* the same; of facts that "  " or ", " parts, what does not fit goes as a whole */
const char *top_time(int64_t ns, char text[16]);  /* "1.23ms": at most 7 characters */
const char *top_count(uint64_t n, char text[16]); /* "12.3M" */
const char *top_bytes(int64_t n, char text[16]);  /* "1.2 GB" */

/* view.c: at most `lines` of them; 0: any */
void top_show(top_text *t, top_options *options, mtp_live *live, const mtp_live_info *info, int lines);

/* screen.c: the terminal. Everything is as it was before when the process ends, is stopped, or crashes. */
typedef enum top_key {
    TOP_KEY_NONE = 0, /* time is up */
    TOP_KEY_UP = 256,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_REDRAW /* the size has changed, or the process was stopped */
} top_key;
bool top_screen_begin(void); /* false: not a terminal that can do this */
void top_screen_end(void);
void top_screen_size(int *columns, int *lines);
void top_screen_draw(const top_text *t);
int top_screen_key(int64_t wait_ns); /* a character, or a top_key */
#endif
