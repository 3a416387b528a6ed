/* record/stack.h - where call stacks come from. */
#ifndef MTP_RECORD_STACK_H
#define MTP_RECORD_STACK_H
#include <mtprof.h>

/* Frame keys, innermost first; those from *from on are the program's own (frames of the recording call left out:
 * `caller` is where it returns to). */
uint32_t mtp__stack_capture(const void *caller, uint64_t *frames, uint32_t room, uint32_t *from);
void mtp__stack_describe(uint64_t frame, char *out, size_t room);
/* This is the forked child of a process with several threads, one of which may have been inside the dynamic linker or the
 * unwinder, and have locked it for good: native stacks do without such locks from now on. */
void mtp__stack_forked(void);
void mtp__stack_prepare(void); /* before recording: the first walk of a process is slow */
#endif
