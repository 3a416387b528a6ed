/* tests/use_locale.c - preloaded into a program, it takes up the user's locale as many programs do first thing. */
#include <locale.h>

__attribute__((constructor)) static void use_locale(void)
{
    setlocale(LC_ALL, "");
}
