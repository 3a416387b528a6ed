/* tests/left_out.h - tests that qemu cannot run: tools/test_arm64 sets MTP_TEST_QEMU, and lists what was left out, and why. */
#ifndef TESTS_LEFT_OUT_H
#define TESTS_LEFT_OUT_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline bool test_in_qemu(void)
{
    return getenv("MTP_TEST_QEMU") != NULL;
}

/* At the start of a test; `why`: what qemu-user does not do. */
#define TEST_NOT_IN_QEMU(why)                                                                                \
    do {                                                                                                     \
        if (test_in_qemu()) {                                                                                \
            fprintf(stderr, "left out: %s: %s\n", __func__, why);                                            \
            skip();                                                                                          \
        }                                                                                                    \
    } while (0)

#define QEMU_LEAKS_THREADS "qemu keeps 270 KB of each thread that ended: its memory says nothing of ours"
#define QEMU_GROWS "qemu's translations count as the program's memory"
#define QEMU_FORKS_ALONE "qemu aborts in a forked child that starts threads"
#define QEMU_HAS_A_THREAD "qemu has a thread of its own, which the kernel counts as one of the program's"
#define QEMU_INHERITS "qemu ignores MADV_DONTFORK and MADV_WIPEONFORK"
#define QEMU_CLOCK                                                                                           \
    "qemu's counter advances by whole microseconds: a block is tagged, freed and reused in one tick"
#define QEMU_TICKS                                                                                           \
    "qemu's counter advances by whole microseconds: calls without length nest in each other, by torch's "    \
    "rules"
#endif
