#include "trace/records/blob.h"
#include <string.h>
#include "base/os.h"
#include "record/format.h"

#define BLOB_MAX ((size_t)64 << 20) /* a damaged file must not make us allocate by its numbers */

bool mtp__blob_take(mtp__blob_parts *p, unsigned kind, const uint64_t *w, uint32_t count, mtp__blob *out)
{
    if (count < 2)
        return false;
    uint32_t id = (uint32_t)w[0], high = (uint32_t)(w[0] >> 32);
    size_t total = (uint32_t)w[1], here = (size_t)(w[1] >> 32);
    size_t offset = kind == MTP__CONTROL_THREAD ? 0 : high;
    if (here > (size_t)(count - 2) * 8 || total > BLOB_MAX)
        return false;
    *out = (mtp__blob){id, high, (const char *)(w + 2), total};
    if (offset == 0 && here == total)
        return true;
    if (offset == 0) {
        mtp__free(p->bytes);
        p->bytes = mtp__calloc(1, total + 8);
        p->total = p->bytes != NULL ? total : 0;
        p->have = 0;
        p->id = id;
        p->kind = kind;
    }
    if (p->bytes == NULL || id != p->id || kind != p->kind || total != p->total || offset != p->have ||
        here > total - offset)
        return false;
    memcpy(p->bytes + offset, w + 2, here);
    p->have += here;
    out->bytes = (const char *)p->bytes;
    return p->have == total;
}

void mtp__blob_parts_fini(mtp__blob_parts *p)
{
    mtp__free(p->bytes);
    *p = (mtp__blob_parts){0};
}
