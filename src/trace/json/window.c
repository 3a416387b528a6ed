#include "trace/json/window.h"
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "trace/json/scan.h"

#define ROOM_LEAST ((size_t)16)

mtp_status mtp__window_init(mtp__window *w, mtp__source *source, size_t room, size_t limit)
{
    room = room > ROOM_LEAST ? room : ROOM_LEAST;
    *w = (mtp__window){.source = source, .room = room, .limit = limit};
    w->bytes = mtp__calloc(1, room + MTP__JSON_PAD);
    return w->bytes != NULL ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "a window of %zu bytes", room);
}

void mtp__window_fini(mtp__window *w)
{
    mtp__free(w->bytes);
    w->bytes = NULL;
}

static mtp_status grow(mtp__window *w)
{
    size_t room = w->room < w->limit / 2 ? w->room * 2 : w->limit;
    char *bytes = mtp__calloc(1, room + MTP__JSON_PAD);
    if (bytes == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a window of %zu bytes", room);
    memcpy(bytes, w->bytes, w->held);
    mtp__free(w->bytes);
    w->bytes = bytes;
    w->room = room;
    return MTP_OK;
}

mtp_status mtp__window_slide(mtp__window *w, const char *keep)
{
    size_t dropped = (size_t)(keep - w->bytes);
    memmove(w->bytes, keep, w->held - dropped);
    w->held -= dropped;
    w->offset += dropped;
    if (w->held > w->room / 2 && w->room < w->limit) {
        mtp_status status = grow(w);
        if (status != MTP_OK)
            return status;
    }
    if (w->held == w->room)
        return MTP_FAIL(MTP_E_FORMAT, "byte %llu: one event or value of more than %zu bytes",
                        (unsigned long long)w->offset, w->limit);
    while (w->held < w->room && !w->complete) {
        ssize_t n = mtp__source_read(w->source, w->bytes + w->held, w->room - w->held);
        if (n < 0)
            return mtp__source_status(w->source);
        w->complete = n == 0;
        w->held += (size_t)n;
    }
    memset(w->bytes + w->held, 0, MTP__JSON_PAD);
    return MTP_OK;
}
