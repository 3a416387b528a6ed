/* trace/json/window.h - a window sliding over a source: a contiguous part in memory, followed by zeros. */
#ifndef MTP_TRACE_JSON_WINDOW_H
#define MTP_TRACE_JSON_WINDOW_H
#include "trace/json/source.h"

typedef struct mtp__window {
    mtp__source *source; /* borrowed */
    char *bytes;         /* owned: room + MTP__JSON_PAD */
    size_t room, limit;  /* room grows up to limit when a single item needs it */
    size_t held;
    uint64_t offset; /* of bytes[0] in the decoded content */
    bool complete;   /* nothing follows the bytes held */
} mtp__window;

/* Initially empty. */
mtp_status mtp__window_init(mtp__window *w, mtp__source *source, size_t room, size_t limit);
void mtp__window_fini(mtp__window *w);

/* Drops everything before `keep` and refills. This invalidates all pointers into the window; `keep` is now at
 * w->bytes. MTP_E_FORMAT: what must be kept exceeds the limit. */
mtp_status mtp__window_slide(mtp__window *w, const char *keep);
#endif
