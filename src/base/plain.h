/* base/plain.h - numbers and letters as text, the same in every locale.
 *
 * printf, strtod, isalpha and strcasecmp follow the program's locale: a German one writes 1,5 for 1.5, a
 * Turkish one has other rules for the letter i. Our output is read by machines, so neither it nor the wording
 * of messages may depend on the locale: only this file formats or parses a double, or gets the text of a
 * system error (tools/lint enforces it).
 *
 * Any thread; errno is preserved. Compiled into each library, so that each is self-contained.
 */
#ifndef MTP_BASE_PLAIN_H
#define MTP_BASE_PLAIN_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* snprintf and vsnprintf. */
int mtp__format(char *to, size_t room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int mtp__format_list(char *to, size_t room, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

/* strtod. */
double mtp__read_double(const char *text, char **end);

/* strerror. Valid until this thread's next call. */
const char *mtp__reason(int error);
int mtp__reason_number(void); /* of this thread's last mtp__reason(); resets it to 0 */

#define MTP__DOUBLE_BYTES 32 /* for any double with 17 digits */

/* The shortest text of `fewest` to 17 digits, in the style of "%g", that reads back as value. Returns its
 * length. */
size_t mtp__shortest(char to[MTP__DOUBLE_BYTES], double value, int fewest);

static inline bool mtp__is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool mtp__is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

/* An ASCII letter, a digit or "_": the characters of identifiers. */
static inline bool mtp__is_word(char c)
{
    return mtp__is_digit(c) || mtp__is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

static inline char mtp__lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Are the first n bytes (or all, to the end of the shorter) equal, ignoring ASCII case? */
static inline bool mtp__same_letters(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (mtp__lower(a[i]) != mtp__lower(b[i]))
            return false;
        if (a[i] == 0)
            return true;
    }
    return true;
}

/* Like strcasestr. */
static inline bool mtp__has_letters(const char *text, const char *part)
{
    size_t length = strlen(part);
    bool found = length == 0;
    for (; !found && *text != 0; text++)
        found = mtp__same_letters(text, part, length);
    return found;
}

#endif
