/* cli/text.c - text for people: names, times, the width of the terminal. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/cli.h"

int cli_columns(void)
{
    struct winsize size;
    const char *told = getenv("COLUMNS");
    int n = told != NULL ? atoi(told) : 0;
    if (n <= 0 && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        n = size.ws_col;
    return n > 0 ? n : 0;
}

int cli_name_width(int beside, int usual)
{
    int n = cli_columns();
    if (n == 0)
        return usual;
    n -= beside;
    return n < 20 ? 20 : n > 80 ? 80 : n;
}

bool cli_ends(const char *text, const char *with)
{
    size_t length = strlen(text), end = strlen(with);
    return length >= end && strcmp(text + length - end, with) == 0;
}

const char *cli_time(double us, char text[24])
{
    if (us >= 1e6)
        snprintf(text, 24, "%.3fs", us / 1e6);
    else if (us >= 1e3)
        snprintf(text, 24, "%.3fms", us / 1e3);
    else
        snprintf(text, 24, "%.3fus", us);
    return text;
}

/* -------------------------------------------------------------------------------------------- names */

/* Length of the UTF-8 sequence at p, 0: none (Unicode's table 3-7: no long forms, no surrogates), or one that a terminal
 * obeys. */
static size_t printable(const unsigned char *p, size_t left)
{
    size_t n = p[0] < 0x80                    ? 1
               : p[0] >= 0xc2 && p[0] <= 0xdf ? 2
               : (p[0] & 0xf0) == 0xe0        ? 3
               : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                              : 0;
    unsigned low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (n == 0 || n > left || p[0] < 0x20 || p[0] == 0x7f || (n > 1 && (p[1] < low || p[1] > high)))
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool line_end = n == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9);
    return line_end || (n == 2 && p[0] == 0xc2 && p[1] < 0xa0) ? 0 : n;
}

/* What a terminal would obey is not sent to it. */
int cli_print_name(const char *name, size_t length, int width)
{
    const unsigned char *p = (const unsigned char *)name, *end = p + length;
    int shown = 0;
    while (p < end && (shown < width - 3 || (shown < width && (size_t)(end - p) <= 3))) {
        size_t n = printable(p, (size_t)(end - p));
        if (n != 0)
            printf("%.*s", (int)n, (const char *)p);
        else
            putchar('?');
        p += n != 0 ? n : 1;
        shown++;
    }
    if (p < end) {
        fputs("...", stdout);
        shown += 3;
    }
    return width > shown ? width - shown : 0;
}
