/* cli/text.c - text for people: names, times, the library's stories, the width of the terminal. */
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

/* Length of the UTF-8 sequence at p, 0: none, or one that a terminal obeys. */
static size_t printable(const unsigned char *p, size_t left)
{
    size_t n = p[0] < 0x80                    ? 1
               : p[0] >= 0xc2 && p[0] <= 0xdf ? 2
               : (p[0] & 0xf0) == 0xe0        ? 3
               : p[0] <= 0xf4                 ? 4
                                              : 0;
    if (n == 0 || n > left || p[0] < 0x20 || p[0] == 0x7f || (p[0] >= 0x80 && p[0] < 0xc2))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n == 2 && p[0] == 0xc2 && p[1] < 0xa0 ? 0 : n;
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

/* ------------------------------------------------------------------------------------------- stories */

/* The part at `from`, without the function that said it; *next is the part behind it, or NULL. */
static const char *part(const char *from, size_t *length, const char **next)
{
    const char *colon = from;
    while (mtp__is_word(*colon))
        colon++;
    if (colon > from && colon[0] == ':' && colon[1] == ' ')
        from = colon + 2;
    *next = NULL;
    *length = strlen(from);
    for (const char *at = from; (at = strstr(at, "; ")) != NULL; at += 2) {
        colon = at + 2;
        while (mtp__is_lower(*colon) || *colon == '_')
            colon++;
        if (memchr(at + 2, '_', (size_t)(colon - at - 2)) == NULL || colon[0] != ':' || colon[1] != ' ')
            continue;
        *length = (size_t)(at - from);
        *next = at + 2;
        break;
    }
    return from;
}

/* "open_source: No such file; open_any: beside; mtp_trace_open: x.json" is "x.json: No such file (beside)". */
const char *cli_story(char text[CLI_STORY])
{
    const char *story = mtp_last_error(), *next, *last = NULL;
    size_t length, last_length = 0, used = 0;
    char middle[CLI_STORY] = "";
    const char *first = part(story, &length, &next);
    while (next != NULL) {
        if (last != NULL && used < sizeof middle)
            used += (size_t)snprintf(middle + used, sizeof middle - used, " (%.*s)", (int)last_length, last);
        last = part(next, &last_length, &next);
    }
    snprintf(text, CLI_STORY, "%.*s%s%.*s%s", (int)last_length, last != NULL ? last : "",
             last != NULL ? ": " : "", (int)length, first, middle);
    return text;
}
