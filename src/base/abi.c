/* base/abi.c - see abi.h. */
#include "base/abi.h"
#include <string.h>
#include "base/error.h"

/* No caller's struct is larger: a size above this is uninitialised memory. */
#define SIZE_MOST 65536

static size_t size_of(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

mtp_status mtp__abi_check(const void *out, size_t oldest, const char *name)
{
    size_t size = size_of(out);
    if (size < oldest || size > SIZE_MOST)
        return MTP_FAIL(
            MTP_E_ABI,
            "%s.size is %zu, which it never was: begin with the INIT macro, or set it to sizeof(%s)", name,
            size, name);
    return MTP_OK;
}

mtp_status mtp__abi_read(void *to, size_t size, const void *from, size_t oldest, const char *name)
{
    if (from == NULL)
        return MTP_OK;
    mtp_status status = mtp__abi_check(from, oldest, name);
    if (status != MTP_OK)
        return status;
    size_t given = size_of(from);
    for (size_t i = size; i < given; i++)
        if (((const unsigned char *)from)[i] != 0)
            return MTP_FAIL(MTP_E_ABI,
                            "%s: the program uses a member (at byte %zu) that this libmtprof, %s, does not "
                            "know: update it",
                            name, i, mtp_version());
    memcpy(to, from, given < size ? given : size);
    memcpy(to, &size, sizeof size);
    return MTP_OK;
}

void mtp__abi_write(void *out, const void *made, size_t size)
{
    size_t room = size_of(out);
    memcpy(out, made, room < size ? room : size);
    memcpy(out, &room, sizeof room);
}
