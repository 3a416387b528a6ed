/* trace/symbols.h - names of native functions that the dynamic linker does not know, from the ELF file.
 *
 * A recording stores such a frame as "/path/module@build-id:+0xoffset:?" (record/stack.c), so that another
 * process can look up the name later. If the file is missing, replaced, damaged or stripped, module and
 * offset remain.
 */
#ifndef MTP_TRACE_SYMBOLS_H
#define MTP_TRACE_SYMBOLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mtp__module mtp__module;

typedef struct mtp__symbols { /* {0} is empty */
    mtp__module *modules;     /* owned: the modules looked up so far */
    bool out_of_memory;
} mtp__symbols;

void mtp__symbols_fini(mtp__symbols *s);

/* A frame's text for display: "module:+0xoffset:function"; other texts stay as they are. Returns the length;
 * the output is truncated to `room` bytes. */
size_t mtp__symbols_text(mtp__symbols *s, const char *frame, size_t length, char *out, size_t room);
#endif
