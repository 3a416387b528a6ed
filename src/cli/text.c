/* cli/text.c - text for people: names, times, the width of the terminal. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "base/plain.h"
#include "base/utf8.h"
#include "cli/cli.h"

int cli_columns(FILE *to)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    int n = columns != NULL ? atoi(columns) : 0;
    if (n <= 0 && isatty(fileno(to)) && ioctl(fileno(to), TIOCGWINSZ, &size) == 0)
        n = size.ws_col;
    return n > 0 ? n : 0;
}

int cli_name_width(int beside, int usual)
{
    int n = cli_columns(stdout);
    if (n == 0)
        return usual;
    n -= beside;
    return n < 20 ? 20 : n > 80 ? 80 : n;
}

uint32_t cli_text_width(void)
{
    int n = cli_columns(stdout);
    return n == 0 || n > 100 ? 100 : (uint32_t)n;
}

bool cli_ends(const char *text, const char *with)
{
    size_t length = strlen(text), end = strlen(with);
    return length >= end && strcmp(text + length - end, with) == 0;
}

const char *cli_time_spaced(double us, const char *space, char text[24])
{
    const char *unit = us >= 1e6 ? "s" : us >= 1e3 ? "ms" : "us";
    snprintf(text, 24, "%.3f%s%s", us >= 1e6 ? us / 1e6 : us >= 1e3 ? us / 1e3 : us, space, unit);
    return text;
}

const char *cli_time(double us, char text[24])
{
    return cli_time_spaced(us, "", text);
}

/* -------------------------------------------------------------------------------------------- names */

void cli_print_argument(FILE *to, const char *path)
{
    fputs(path[0] == '-' ? "'./" : "'", to);
    for (const char *p = path; *p != 0; p++)
        *p == '\'' ? fputs("'\\''", to) : fputc(*p, to);
    fputc('\'', to);
}

/* Control characters are never sent to the terminal. */
int cli_print_name(const char *name, size_t length, int width)
{
    const unsigned char *p = (const unsigned char *)name, *end = p + length;
    int shown = 0;
    while (p < end && (shown < width - 3 || (shown < width && (size_t)(end - p) <= 3))) {
        unsigned skip, n = mtp__utf8_character(p, end, &skip);
        if (n != 0 && !mtp__utf8_is_control(p, n))
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
