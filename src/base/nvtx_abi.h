/* base/nvtx_abi.h - what a program's NVTX (version 3, all in its headers) and a collector share in memory.
 *
 * At its first call, each shared object that uses NVTX loads the library that NVTX_INJECTION64_PATH names and
 * passes a function to InitializeInjectionNvtx2. That gives the table of the functions that a collector may
 * supply: an array of places, by module and number.
 */
#ifndef MTP_BASE_NVTX_ABI_H
#define MTP_BASE_NVTX_ABI_H
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

typedef void (*mtp__nvtx_function)(void);

#define MTP__NVTX_CALLBACKS 1 /* the export table wanted */
#define MTP__NVTX_CORE 1      /* modules */
#define MTP__NVTX_CORE2 5
#define MTP__NVTX_SLOTS 16 /* of each */

typedef struct mtp__nvtx_exports {
    size_t size;
    /* *out: `count` places, each a pointer to the pointer that the program calls. Returns 1, or 0 if there is no
     * such module. */
    int (*functions)(uint32_t module, mtp__nvtx_function ***out, uint32_t *count);
} mtp__nvtx_exports;

typedef const void *mtp__nvtx_export(uint32_t which);

/* X(module, slot, name) */
#define MTP__NVTX_SLOT_LIST(X)                                                                               \
    X(CORE, 1, mark_ex)                                                                                      \
    X(CORE, 2, mark_a)                                                                                       \
    X(CORE, 3, mark_w)                                                                                       \
    X(CORE, 4, range_start_ex)                                                                               \
    X(CORE, 5, range_start_a)                                                                                \
    X(CORE, 6, range_start_w)                                                                                \
    X(CORE, 7, range_end)                                                                                    \
    X(CORE, 8, range_push_ex)                                                                                \
    X(CORE, 9, range_push_a)                                                                                 \
    X(CORE, 10, range_push_w)                                                                                \
    X(CORE, 11, range_pop)                                                                                   \
    X(CORE, 12, name_category_a)                                                                             \
    X(CORE, 13, name_category_w)                                                                             \
    X(CORE, 14, name_thread_a)                                                                               \
    X(CORE, 15, name_thread_w)                                                                               \
    X(CORE2, 1, domain_mark_ex)                                                                              \
    X(CORE2, 2, domain_range_start_ex)                                                                       \
    X(CORE2, 3, domain_range_end)                                                                            \
    X(CORE2, 4, domain_range_push_ex)                                                                        \
    X(CORE2, 5, domain_range_pop)                                                                            \
    X(CORE2, 8, domain_name_category_a)                                                                      \
    X(CORE2, 9, domain_name_category_w)                                                                      \
    X(CORE2, 10, domain_register_string_a)                                                                   \
    X(CORE2, 11, domain_register_string_w)                                                                   \
    X(CORE2, 12, domain_create_a)                                                                            \
    X(CORE2, 13, domain_create_w)                                                                            \
    X(CORE2, 14, domain_destroy)                                                                             \
    X(CORE2, 15, initialize)

typedef enum mtp__nvtx_message {
    MTP__NVTX_ASCII = 1,
    MTP__NVTX_WIDE = 2,
    MTP__NVTX_REGISTERED = 3
} mtp__nvtx_message;

typedef enum mtp__nvtx_payload {
    MTP__NVTX_U64 = 1,
    MTP__NVTX_S64,
    MTP__NVTX_DOUBLE,
    MTP__NVTX_U32,
    MTP__NVTX_S32,
    MTP__NVTX_FLOAT
} mtp__nvtx_payload;

/* An event's attributes: 48 bytes in all versions of NVTX 3. */
typedef struct mtp__nvtx_event {
    uint16_t version, size;
    uint32_t category;  /* 0: none */
    int32_t color_type; /* 0: none */
    uint32_t color;
    int32_t payload_type; /* mtp__nvtx_payload; 0: none */
    int32_t reserved;
    union {
        uint64_t u64;
        int64_t s64;
        double d;
        uint32_t u32;
        int32_t s32;
        float f;
    } payload;
    int32_t message_type; /* mtp__nvtx_message; 0: none */
    union {
        const char *ascii;
        const wchar_t *wide;
        const void *registered; /* as domain_register_string returned it */
    } message;
} mtp__nvtx_event;
_Static_assert(sizeof(mtp__nvtx_event) == 48, "NVTX's event attributes");
#endif
