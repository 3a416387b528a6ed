/* trace/symbols.h - names of native functions that the dynamic linker does not know, from the program's file.
 *
 * A recording has "/path/module@build-id:+0xoffset:?" for such a frame (record/stack.c), so that another process can find
 * the name later. Where the file is gone, another one, damaged or stripped, module and offset remain.
 */
#ifndef MTP_TRACE_SYMBOLS_H
#define MTP_TRACE_SYMBOLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mtp__module mtp__module;

typedef struct mtp__symbols { /* {0} is an empty one */
    mtp__module *modules;     /* owned: those that were asked for */
    bool out_of_memory;
} mtp__symbols;

void mtp__symbols_fini(mtp__symbols *s);

/* A frame's text as it is to be shown: "module:+0xoffset:function"; what is no such frame stays as it is. Returns its
 * length; out has `room` bytes and is cut to that. */
size_t mtp__symbols_text(mtp__symbols *s, const char *frame, size_t length, char *out, size_t room);
#endif
