#include "base/grow.h"
#include <stdint.h>
#include <string.h>
#include "base/os.h"

bool mtp__grow(void **items, size_t size, size_t count, void *room, size_t room_size, size_t need,
               size_t first)
{
    const size_t most = room_size == sizeof(uint32_t) ? UINT32_MAX : SIZE_MAX;
    size_t more = room_size == sizeof(uint32_t) ? *(uint32_t *)room : *(size_t *)room;
    more = more != 0 ? more : first;
    while (more < need) {
        if (more > most / 2)
            return false;
        more *= 2;
    }
    void *grown = more <= most && more <= PTRDIFF_MAX / size ? mtp__calloc(more, size) : NULL;
    if (grown == NULL)
        return false;
    if (count > 0)
        memcpy(grown, *items, count * size);
    mtp__free(*items);
    *items = grown;
    if (room_size == sizeof(uint32_t))
        *(uint32_t *)room = (uint32_t)more;
    else
        *(size_t *)room = more;
    return true;
}
