/* tests/use_locale.c - preloaded into our programs and Python, it sets the user's locale, as many programs do
 * at startup. Other programs, such as compilers, are left alone: not all of them can cope. */
#define _GNU_SOURCE
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void use_locale(void)
{
    char program[4096];
    const char *ours = getenv("MTP_TEST_BUILD");
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(program, '/');
    if (strstr(program, "/examples/") != NULL) /* they print for people, and never set a locale */
        return;
    if ((ours != NULL && strncmp(program, ours, strlen(ours)) == 0) ||
        (slash != NULL && strncmp(slash, "/python", 7) == 0))
        setlocale(LC_ALL, "");
}
