/* A program that uses the heap and tells what it did; knows nothing of mtprof.
 *
 *     malloc_calls WHAT      prints "address bytes" per block that it got (bytes > 0) or gave back (bytes < 0)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exit_elsewhere.h"

#define EXPECT(x)                                                                                            \
    do {                                                                                                     \
        if (!(x)) {                                                                                          \
            fprintf(stderr, "line %d: %s\n", __LINE__, #x);                                                  \
            _exit(3);                                                                                        \
        }                                                                                                    \
    } while (0)

static struct {
    uintptr_t at;
    long bytes;
} done[1000];
static size_t done_count;

static void *got(void *p)
{
    EXPECT(p != NULL);
    done[done_count].at = (uintptr_t)p;
    done[done_count++].bytes = (long)malloc_usable_size(p);
    return p;
}

static void *gives(void *p)
{
    done[done_count].at = (uintptr_t)p;
    done[done_count++].bytes = -(long)malloc_usable_size(p);
    return p;
}

static void tell(void)
{
    for (size_t i = 0; i < done_count; i++)
        printf("%lx %ld\n", (unsigned long)done[i].at, done[i].bytes);
}

static volatile size_t huge = SIZE_MAX / 2;

static void do_calls(void)
{
    char *a = got(malloc(1001)), *b = got(calloc(7, 300)), *c = got(realloc(NULL, 5000));
    for (int i = 0; i < 2100; i++)
        EXPECT(b[i] == 0);
    memset(a, 7, 1001);
    gives(a);
    a = got(realloc(a, 300001));
    for (int i = 0; i < 1001; i++)
        EXPECT(a[i] == 7);
    gives(c);
    c = got(reallocarray(c, 30, 1000));
    static const size_t sides[] = {16, 64, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        void *p = NULL;
        char *q = got(aligned_alloc(sides[i], 2 * sides[i])), *r = got(memalign(sides[i], 100));
        EXPECT(posix_memalign(&p, sides[i], 333) == 0);
        got(p);
        EXPECT(((uintptr_t)q | (uintptr_t)r | (uintptr_t)p) % sides[i] == 0);
        free(gives(q));
        free(gives(r));
        free(gives(p));
    }
    char *v = got(valloc(10)), *w = got(pvalloc(10));
    EXPECT((uintptr_t)v % 4096 == 0 && (uintptr_t)w % 4096 == 0);
    free(gives(v));
    free(gives(w));
    free(NULL);
    free(gives(b));
    free(gives(c));
    gives(a);
    EXPECT(realloc(a, 0) == NULL); /* frees it */
    tell();
}

static void do_failing(void)
{
    void *p = NULL, *a = got(malloc(777));
    errno = 0;
    EXPECT(malloc(huge) == NULL && errno == ENOMEM);
    EXPECT(calloc(huge, 4) == NULL);
    EXPECT(posix_memalign(&p, 24, 8) == EINVAL && p == NULL);
    gives(a);
    EXPECT(realloc(a, huge) == NULL); /* it stays */
    got(a);
    errno = 0;
    EXPECT(reallocarray(a, huge, 4) == NULL && errno == ENOMEM);
    errno = 5;
    free(gives(a));
    EXPECT(errno == 5);
    tell();
}

static void *churn(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    void *held[64] = {NULL};
    for (int i = 0; i < 5000; i++) {
        void **at = &held[rand_r(&seed) % 64];
        free(*at);
        *at = malloc((size_t)rand_r(&seed) % 3000);
        memset(*at, 1, malloc_usable_size(*at));
    }
    for (int i = 0; i < 64; i++)
        free(held[i]);
    return NULL;
}

static void do_threads(void)
{
    pthread_t t[8];
    for (uintptr_t i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, churn, (void *)i);
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], NULL);
}

/* Threads that end, and free what they had. */
static pthread_key_t key;
static void *short_lived(void *unused)
{
    pthread_setspecific(key, malloc(4321));
    return unused;
}

static void do_short_threads(void)
{
    pthread_key_create(&key, free);
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        pthread_create(&t, NULL, short_lived, NULL);
        pthread_join(t, NULL);
    }
}

static void some(int n)
{
    for (int i = 0; i < n; i++)
        free(gives(got(malloc(7000 + (size_t)i))));
}

static void do_forks(void)
{
    pthread_t t;
    pthread_create(&t, NULL, churn, NULL); /* holds the allocator's locks now and then */
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            some(5);
            if (i % 2)
                exit(0);
            _exit(0);
        }
        int status = 0;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    }
    pthread_join(t, NULL);
    some(3);
    tell();
}

static void do_killed(void)
{
    some(20);
    tell();
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

static void do_closes(void)
{
    some(5);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    some(5);
    tell();
}

static void last_calls(void)
{
    some(5);
    tell();
}

static void do_exit_elsewhere(void)
{
    exit_elsewhere(last_calls);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {{"calls", do_calls},     {"failing", do_failing},
            {"threads", do_threads}, {"short_threads", do_short_threads},
            {"forks", do_forks},     {"killed", do_killed},
            {"closes", do_closes},   {"exit_elsewhere", do_exit_elsewhere}};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (argc > 1 && strcmp(argv[1], ways[i].name) == 0) {
            ways[i].run();
            return 0;
        }
    return 9;
}
