/* cli/ps.c - mtprof ps: the processes that can be recorded while they run. */
#include "cli/cli.h"
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: mtprof ps\n\n"
    "Lists the processes that 'mtprof trigger PID' can record: those started by 'mtprof run --wait', and\n"
    "programs with libmtprof that listen (mtp_listen(), or MTPROF_LISTEN=1). Root sees "
    "everybody's.\n\n"
    "  -h, --help\n";

static void print_user(uint32_t uid)
{
    struct passwd *user = getpwuid(uid);
    if (user != NULL)
        printf("%-12s", user->pw_name);
    else
        printf("%-12u", uid);
}

static void print_command(uint64_t pid, int width)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%llu/cmdline", (unsigned long long)pid);
    FILE *f = fopen(path, "re");
    size_t n = f != NULL ? fread(line, 1, sizeof line, f) : 0;
    if (f != NULL)
        fclose(f);
    while (n > 0 && line[n - 1] == 0)
        n--;
    for (size_t i = 0; i < n; i++)
        line[i] = line[i] == 0 ? ' ' : line[i];
    cli_print_name(n > 0 ? line : "?", n > 0 ? n : 1, width);
    putchar('\n');
}

int cli_ps(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;)
        return c == 'h' ? cli_help(help) : cli_usage_error();
    if (argc != optind)
        return cli_fail(CLI_USAGE, "expected no arguments: 'mtprof ps'");
    size_t count = 0, room = 64;
    mtp_listener *found = NULL;
    for (;;) {
        mtp_listener *grown = realloc(found, room * sizeof *found);
        if (grown == NULL || mtp_listeners(grown, sizeof *grown, room, &count) != MTP_OK) {
            free(grown != NULL ? grown : found);
            return cli_fail(CLI_MEMORY, "out of memory");
        }
        found = grown;
        if (count <= room)
            break;
        room = 2 * count;
    }
    int columns = cli_columns(stdout), width = columns > 60 ? columns - 36 : 80;
    if (count > 0)
        printf("%10s  %-12s%-11s%s\n", "pid", "user", "state", "command");
    for (size_t i = 0; i < count; i++) {
        printf("%10llu  ", (unsigned long long)found[i].pid);
        print_user(found[i].uid);
        printf("%-11s", found[i].stopped ? "stopped" : found[i].recording ? "recording" : "idle");
        print_command(found[i].pid, width);
    }
    if (count == 0)
        cli_note("no process listens: 'mtprof run --wait -- PROGRAM' starts one that does");
    free(found);
    return CLI_OK;
}
