/* cli/top/text.c - the lines of a screen: see top.h. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/plain.h"
#include "base/utf8.h"
#include "cli/top/top.h"

static bool reserve(top_text *t, size_t more)
{
    if (t->length + more <= t->room)
        return true;
    size_t room = 2 * (t->length + more);
    char *grown = realloc(t->bytes, room);
    if (grown == NULL)
        return false;
    t->bytes = grown;
    t->room = room;
    return true;
}

static void append(top_text *t, const char *bytes, size_t length, int columns)
{
    if ((t->columns > 0 && t->column + columns > t->columns) || !reserve(t, length)) {
        t->is_cut = true;
        return;
    }
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->column += columns;
}

void top_put(top_text *t, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    int n = mtp__format_list(text, sizeof text, fmt, args);
    va_end(args);
    n = n < (int)sizeof text ? n : (int)sizeof text - 1;
    for (int i = 0; i < n; i++)
        append(t, &text[i], 1, 1);
}

void top_style(top_text *t, const char *sequence)
{
    char text[16];
    int n = snprintf(text, sizeof text, "\033[%sm", sequence);
    if (t->styled)
        append(t, text, (size_t)n, 0);
}

void top_end_line(top_text *t)
{
    if (reserve(t, 1))
        t->bytes[t->length++] = '\n';
    t->column = 0;
    t->line = t->length;
    t->is_cut = false;
    t->lines++;
}

void top_end_facts(top_text *t)
{
    size_t end = t->length;
    while (t->is_cut && end > t->line + 1 && memcmp(t->bytes + end - 2, "  ", 2) != 0 &&
           memcmp(t->bytes + end - 2, ", ", 2) != 0)
        end--;
    if (t->is_cut && end > t->line + 1) {
        t->length = end - 2;
        top_style(t, "0"); /* its end may be gone */
    }
    top_end_line(t);
}

/* -------------------------------------------------------------------------------------------------------- names */

static uint32_t code_of(const unsigned char *p, unsigned n)
{
    uint32_t code = n == 1 ? p[0] : p[0] & (0x7fu >> n);
    for (unsigned i = 1; i < n; i++)
        code = code << 6 | (p[i] & 0x3fu);
    return code;
}

typedef struct range {
    uint32_t first, last;
} range;

static bool is_in(const range *list, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (code >= list[i].first && code <= list[i].last)
            return true;
    return false;
}

/* Two columns in a terminal: East Asian wide characters and emoji (Unicode's W and F, in large pieces). */
static const range wide[] = {{0x1100, 0x115f},   {0x231a, 0x231b},  {0x2329, 0x232a},   {0x23e9, 0x23f3},
                             {0x25fd, 0x25fe},   {0x2614, 0x2615},  {0x2648, 0x2653},   {0x26a1, 0x26a1},
                             {0x2705, 0x2705},   {0x274c, 0x274c},  {0x2753, 0x2757},   {0x2795, 0x2797},
                             {0x2b1b, 0x2b1c},   {0x2b50, 0x2b55},  {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                             {0xa960, 0xa97f},   {0xac00, 0xd7a3},  {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                             {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f000, 0x1faff}, {0x16fe0, 0x18cff},
                             {0x1b000, 0x1b2ff}, {0x20000, 0x3fffd}};
/* No column of their own, or a change of direction: not shown, so that columns stay where they are. */
static const range unseen[] = {{0xad, 0xad},      {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},
                               {0x610, 0x61a},    {0x64b, 0x65f},   {0x900, 0x902},   {0xe31, 0xe31},
                               {0xe34, 0xe3a},    {0x1ab0, 0x1aff}, {0x1160, 0x11ff}, {0x1dc0, 0x1dff},
                               {0x200b, 0x200f},  {0x202a, 0x202e}, {0x2060, 0x206f}, {0x20d0, 0x20ff},
                               {0xfe00, 0xfe0f},  {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
                               {0xe0000, 0xe0fff}};

typedef struct shown {
    const char *bytes;
    unsigned length, skip;
    int columns;
} shown;

/* The next character as it is shown. */
static shown next_of(const unsigned char *p, const unsigned char *end)
{
    unsigned skip, n = mtp__utf8_character(p, end, &skip);
    if (n == 0)
        return (shown){"?", 1, skip, 1};
    uint32_t code = code_of(p, n);
    if (mtp__utf8_is_control(p, n) || is_in(unseen, sizeof unseen / sizeof *unseen, code))
        return (shown){"?", 1, n, 1};
    return (shown){(const char *)p, n, n, is_in(wide, sizeof wide / sizeof *wide, code) ? 2 : 1};
}

static int columns_of(const char *bytes, size_t length, int most)
{
    const unsigned char *p = (const unsigned char *)bytes, *end = p + length;
    int columns = 0;
    while (p < end && columns <= most) {
        shown s = next_of(p, end);
        columns += s.columns;
        p += s.skip;
    }
    return columns;
}

void top_name(top_text *t, const char *bytes, size_t length, int width)
{
    const unsigned char *p = (const unsigned char *)bytes, *end = p + length;
    int most = width >= 0 ? width : t->columns > 0 ? t->columns - t->column : 200, used = 0;
    bool cut = columns_of(bytes, length, most) > most;
    int room = cut ? (most > 3 ? most - 2 : most) : most;
    while (p < end) {
        shown s = next_of(p, end);
        if (used + s.columns > room)
            break;
        append(t, s.bytes, s.length, s.columns);
        used += s.columns;
        p += s.skip;
    }
    for (; cut && most > 3 && used < most; used++)
        append(t, ".", 1, 1);
    for (; width >= 0 && used < width; used++)
        append(t, " ", 1, 1);
}

/* ------------------------------------------------------------------------------------------------------ numbers */

/* Three digits, so that columns are narrow. */
static const char *scaled(double value, const char *unit, char text[16])
{
    int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    mtp__format(text, 16, "%.*f%s", digits, value, unit);
    return text;
}

const char *top_time(int64_t ns, char text[16])
{
    double v = (double)ns;
    if (ns < 0)
        return scaled(0, "us", text);
    if (v < 999.5e3)
        return scaled(v / 1e3, "us", text);
    if (v < 999.5e6)
        return scaled(v / 1e6, "ms", text);
    if (v < 999.5e9)
        return scaled(v / 1e9, "s", text);
    return scaled(v / 3600e9, "h", text);
}

const char *top_count(uint64_t n, char text[16])
{
    if (n < 10000) {
        snprintf(text, 16, "%llu", (unsigned long long)n);
        return text;
    }
    double v = (double)n;
    return v < 999.5e3   ? scaled(v / 1e3, "k", text)
           : v < 999.5e6 ? scaled(v / 1e6, "M", text)
           : v < 999.5e9 ? scaled(v / 1e9, "G", text)
                         : scaled(v / 1e12, "T", text);
}

const char *top_bytes(int64_t n, char text[16])
{
    static const char *const units[] = {" B", " KB", " MB", " GB", " TB"};
    double v = (double)(n > 0 ? n : 0);
    size_t k = 0;
    for (; v >= 999.5 && k + 1 < sizeof units / sizeof *units; k++)
        v /= 1024;
    return k == 0 ? (snprintf(text, 16, "%d B", (int)v), text) : scaled(v, units[k], text);
}
