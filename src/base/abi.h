/* base/abi.h - structs that cross the border of the library. A caller may have been compiled with older or newer headers:
 * such a struct opens with its size (a size_t, or a uint32_t in hot ones), and grows at the tail only.
 */
#ifndef MTP_BASE_ABI_H
#define MTP_BASE_ABI_H
#include <mtprof.h>
#include <stddef.h>

/* The size up to and including a member: of a struct as it was when that was the last one. */
#define MTP__ABI_UNTIL(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/* What a caller filled: *to holds the defaults, and takes what both sides know, but not the size, which stays ours: *to may be
 * handed on to another call. from NULL: the defaults. oldest: the smallest size that any release had. A newer caller is accepted
 * as long as what it knows more is zero. name: of the type. */
mtp_status mtp__abi_read(void *to, size_t size, const void *from, size_t oldest, const char *name);
#define MTP__ABI_READ(to, from, type, last)                                                                  \
    mtp__abi_read((to), sizeof(type), (from), MTP__ABI_UNTIL(type, last), #type)

/* What a caller receives. First: is its size possible? Then *made is copied as far as the caller knows it; what it knows
 * more, and its size, stay as they were. */
mtp_status mtp__abi_check(const void *out, size_t oldest, const char *name);
#define MTP__ABI_CHECK(out, type, last) mtp__abi_check((out), MTP__ABI_UNTIL(type, last), #type)
void mtp__abi_write(void *out, const void *made, size_t size);
#endif
