/* trace/json/window.h - a window that slides over a source: a stretch of it, whole in memory, zeros behind. */
#ifndef MTP_TRACE_JSON_WINDOW_H
#define MTP_TRACE_JSON_WINDOW_H
#include "trace/json/source.h"

typedef struct mtp__window {
    mtp__source *source; /* borrowed */
    char *bytes;         /* owned: room + MTP__JSON_PAD */
    size_t room, limit;  /* grows from room up to limit, when one piece needs it */
    size_t held;
    uint64_t offset; /* of bytes[0] in the content */
    bool complete;   /* nothing follows what is held */
} mtp__window;

/* Empty at first. */
mtp_status mtp__window_init(mtp__window *w, mtp__source *source, size_t room, size_t limit);
void mtp__window_fini(mtp__window *w);

/* Drops what is before `keep`, and fills up behind. All pointers into the window are then void, but for
 * w->bytes, where `keep` is now. MTP_E_FORMAT: what is kept fills the limit. */
mtp_status mtp__window_slide(mtp__window *w, const char *keep);
#endif
