/* collect/run/options.c - the agent's options, and what it has to say: see run.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "collect/run/run.h"
#include "base/plain.h"

static void read_word(mtp__run_options *o, const char *word, const char *value)
{
    const struct {
        const char *word;
        bool *flag;
    } flags[] = {{"shapes", &o->shapes}, {"memory", &o->memory}, {"stacks", &o->stacks},
                 {"python", &o->python}, {"torch", &o->torch},   {"newest", &o->newest},
                 {"wait", &o->wait}};
    const struct {
        const char *word;
        uint64_t *number;
    } numbers[] = {{"budget", &o->budget}, {"from", &o->from_ns}, {"until", &o->until_ns}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        *flags[i].flag |= strcmp(word, flags[i].word) == 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && value != NULL; i++)
        if (strcmp(word, numbers[i].word) == 0)
            *numbers[i].number = strtoull(value, NULL, 10);
    if (value != NULL && strcmp(word, "parent") == 0)
        o->parent = (pid_t)strtol(value, NULL, 10);
    if (value != NULL && strcmp(word, "notes") == 0)
        snprintf(o->notes, sizeof o->notes, "%s", value);
    if (value != NULL && strcmp(word, "steps") == 0) {
        char *colon;
        o->first_step = strtoull(value, &colon, 10);
        o->no_step = *colon == ':' && colon[1] != 0 ? strtoull(colon + 1, NULL, 10) : UINT64_MAX;
        o->by_steps = true;
    }
}

void mtp__run_options_read(mtp__run_options *o, const char *words)
{
    char copy[512], *rest = NULL;
    *o = (mtp__run_options){0};
    snprintf(copy, sizeof copy, "%s", words != NULL ? words : "");
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        if (value != NULL)
            *value++ = 0;
        read_word(o, word, value);
    }
}

/* libmtprof's messages name its own option; the user's is --budget. */
static void rename_option(char *text)
{
    static const char theirs[] = "buffer_bytes", ours[] = "--budget";
    char *at = strstr(text, theirs);
    if (at == NULL)
        return;
    memcpy(at, ours, sizeof ours - 1);
    memmove(at + sizeof ours - 1, at + sizeof theirs - 1, strlen(at + sizeof theirs - 1) + 1);
}

/* By datagram to an abstract socket: works for a process that may not write to the folder, that has changed its user
 * or its root, or that has closed all descriptors. */
void mtp__run_note(const mtp__run_options *o, const char *fmt, ...)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char text[1024];
    int error = errno;
    va_list args;
    int n = snprintf(text, sizeof text, "%.200s (process %ld): ", program_invocation_short_name,
                     (long)getpid()); /* whoever started the program chose its name */
    va_start(args, fmt);
    mtp__format_list(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    rename_option(text + n);
    size_t length = strlen(o->notes);
    int fd = length > 0 && length < sizeof to.sun_path ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0) {
        memcpy(to.sun_path + 1, o->notes, length);
        sendto(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
        close(fd);
    }
    errno = error;
}
