/* Linked statically: nothing in it can be recorded. */
#include <stdio.h>

int main(void)
{
    return puts("static") < 0;
}
