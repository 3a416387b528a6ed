/* record/stack.h - captures and describes call stacks. */
#ifndef MTP_RECORD_STACK_H
#define MTP_RECORD_STACK_H
#include <mtprof.h>

/* Captures frame keys, innermost first; those from *from on are the program's own (without the frames of the
 * recording call, whose return address is `caller`). */
uint32_t mtp__stack_capture(const void *caller, uint64_t *frames, uint32_t room, uint32_t most,
                            uint32_t *from);
void mtp__stack_describe(uint64_t frame, char *out, size_t room);
/* This is the forked child of a process with several threads, one of which may have held a lock of the
 * dynamic linker or the unwinder at the fork: native stacks avoid such locks from now on. */
void mtp__stack_forked(void);
void mtp__stack_prepare(void); /* before recording: a process's first walk is slow */
#endif
