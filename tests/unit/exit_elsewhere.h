/* tests/unit/exit_elsewhere.h - for programs that collectors watch: exit() on another thread than main()'s. */
#ifndef TESTS_UNIT_EXIT_ELSEWHERE_H
#define TESTS_UNIT_EXIT_ELSEWHERE_H
#include <pthread.h>
#include <stdlib.h>

static void (*before_exit)(void);

static void *exits(void *unused)
{
    before_exit();
    exit(4);
    return unused;
}

static void exit_elsewhere(void (*before)(void))
{
    pthread_t t;
    before_exit = before;
    pthread_create(&t, NULL, exits, NULL);
    pthread_join(t, NULL);
}
#endif
