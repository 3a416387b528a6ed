/* base/nvtx_abi.h - what a program's NVTX (version 3, all in its headers) and a collector share in memory.
 *
 * At its first call, each shared object that uses NVTX loads the library that NVTX_INJECTION64_PATH names and
 * passes a function to InitializeInjectionNvtx2. That gives the table of the functions that a collector may
 * supply: an array of places, by module and number.
 *
 * Extensions, which have headers of their own, load the same library at the first call of theirs, after the core,
 * and pass InitializeInjectionNvtxExtension a module: an array of slots that the collector fills in. The extension
 * for payloads is module 2: structs that the program describes once by a schema. Its functions share ranges with
 * the core's: one pushed by the core may be popped by the extension.
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
    MTP__NVTX_FLOAT,
    MTP__NVTX_DATA = -541261815 /* 0xDFBD0009: payload.u64 points to `reserved` many mtp__nvtx_data */
} mtp__nvtx_payload;

/* An event's attributes: 48 bytes in all versions of NVTX 3. */
typedef struct mtp__nvtx_event {
    uint16_t version, size;
    uint32_t category;  /* 0: none */
    int32_t color_type; /* 0: none */
    uint32_t color;
    int32_t payload_type; /* mtp__nvtx_payload; 0: none */
    int32_t reserved;     /* with MTP__NVTX_DATA: how many */
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

/* ------------------------------------------------------------------------------------- the payload extension */

#define MTP__NVTX_PAYLOADS 2 /* the module */
/* Its versions. The older one has two functions, or those of the newer one, and a shorter mtp__nvtx_schema. */
#define MTP__NVTX_PAYLOADS_OLDEST 0x0103
#define MTP__NVTX_PAYLOADS_NEWEST 0x0104

typedef struct mtp__nvtx_segment {
    size_t id, count;
    intptr_t *slots; /* count functions: 0 before the start, and 1 after it where there is none */
} mtp__nvtx_segment;

typedef struct mtp__nvtx_module {
    uint16_t nvtx, size; /* version of the core; sizeof this */
    uint16_t module, version;
    size_t segment_count; /* 1 */
    mtp__nvtx_segment *segments;
    intptr_t (*exports)(uint32_t which); /* NULL */
    const void *sizes;                   /* of C's types as the program's compiler has them */
} mtp__nvtx_module;

typedef int mtp__nvtx_extend(mtp__nvtx_module *module); /* 1, or 0: the module's functions do nothing */

/* X(slot, name) */
#define MTP__NVTX_PAYLOAD_SLOT_LIST(X)                                                                       \
    X(0, register_schema)                                                                                    \
    X(1, register_enum)                                                                                      \
    X(2, mark_payload)                                                                                       \
    X(3, push_payload)                                                                                       \
    X(4, pop_payload)                                                                                        \
    X(5, start_payload)                                                                                      \
    X(6, end_payload)                                                                                        \
    X(7, is_domain_enabled)

/* Ids of schemas and enums, which are also types of entries: below, types that need no description. */
#define MTP__NVTX_ID_OWN ((uint64_t)1 << 24)  /* from here: chosen by the program, unique in its domain */
#define MTP__NVTX_ID_MADE ((uint64_t)1 << 32) /* from here: by the collector */

typedef struct mtp__nvtx_data {
    uint64_t schema;
    size_t size; /* of the bytes; SIZE_MAX: as the schema says */
    const void *bytes;
} mtp__nvtx_data;

/* X(type, bytes, how a value is shown). Aligned to their size. */
#define MTP__NVTX_TYPE_LIST(X)                                                                               \
    X(1, 1, SIGNED) /* char, unsigned char, short and so on, up to unsigned long long */                     \
    X(2, 1, UNSIGNED)                                                                                        \
    X(3, 2, SIGNED)                                                                                          \
    X(4, 2, UNSIGNED)                                                                                        \
    X(5, 4, SIGNED)                                                                                          \
    X(6, 4, UNSIGNED)                                                                                        \
    X(7, sizeof(long), SIGNED)                                                                               \
    X(8, sizeof(long), UNSIGNED)                                                                             \
    X(9, 8, SIGNED)                                                                                          \
    X(10, 8, UNSIGNED)                                                                                       \
    X(11, 1, SIGNED) /* int8_t to uint64_t */                                                                \
    X(12, 1, UNSIGNED)                                                                                       \
    X(13, 2, SIGNED)                                                                                         \
    X(14, 2, UNSIGNED)                                                                                       \
    X(15, 4, SIGNED)                                                                                         \
    X(16, 4, UNSIGNED)                                                                                       \
    X(17, 8, SIGNED)                                                                                         \
    X(18, 8, UNSIGNED)                                                                                       \
    X(19, 4, REAL)                                                                                           \
    X(20, 8, REAL)                                                                                           \
    X(21, sizeof(long double), REAL)                                                                         \
    X(22, sizeof(size_t), UNSIGNED)                                                                          \
    X(23, sizeof(void *), ADDRESS)                                                                           \
    X(24, sizeof(wchar_t), UNSIGNED) /* wchar_t, char8_t, char16_t, char32_t */                              \
    X(25, 1, UNSIGNED)                                                                                       \
    X(26, 2, UNSIGNED)                                                                                       \
    X(27, 4, UNSIGNED)                                                                                       \
    X(32, 1, UNSIGNED) /* a byte */                                                                          \
    X(33, 16, NOT)     /* 128-bit integers; float16; float32, float64; float128; bfloat16; tf32 */           \
    X(34, 16, NOT)                                                                                           \
    X(42, 2, NOT)                                                                                            \
    X(43, 4, REAL)                                                                                           \
    X(44, 8, REAL)                                                                                           \
    X(45, 16, NOT)                                                                                           \
    X(50, 2, NOT)                                                                                            \
    X(52, 4, NOT)                                                                                            \
    X(70, 8, UNSIGNED) /* a scope; processes and threads */                                                  \
    X(71, 4, UNSIGNED)                                                                                       \
    X(72, 8, UNSIGNED)                                                                                       \
    X(73, 4, UNSIGNED)                                                                                       \
    X(74, 8, UNSIGNED)                                                                                       \
    X(75, 8, TEXT) /* char *, or `length` chars in place; in UTF-8 */                                        \
    X(76, 8, TEXT)                                                                                           \
    X(80, 8, STRING) /* as domain_register_string returned it */
#define MTP__NVTX_TYPES 81

enum { /* flags of an entry */
    MTP__NVTX_ENTRY_POINTER = 1 << 1,
    MTP__NVTX_ENTRY_OFFSET = 3 << 2, /* two ways in which the value is elsewhere in the payload */
    MTP__NVTX_ENTRY_ARRAY = 7 << 4,
    MTP__NVTX_ENTRY_FIXED_ARRAY = 1 << 4, /* one of MTP__NVTX_ENTRY_ARRAY: of `length` */
    MTP__NVTX_ENTRY_HIDDEN = 1 << 9,
    MTP__NVTX_ENTRY_MESSAGE = 1 << 10 /* the event's text */
};

typedef struct mtp__nvtx_entry {
    uint64_t flags;
    uint64_t type;
    const char *name; /* NULL: none */
    const char *description;
    uint64_t length;
    uint64_t offset; /* 0: after the entry before, as a C compiler places it */
    const void *semantics, *reserved;
} mtp__nvtx_entry;

enum {
    MTP__NVTX_SCHEMA_STATIC = 1,           /* the kind: a struct; others vary in size, or are unions */
    MTP__NVTX_SCHEMA_HAS_KIND = 1 << 2,    /* in `set` */
    MTP__NVTX_SCHEMA_HAS_ENTRIES = 3 << 4, /* and their count */
    MTP__NVTX_SCHEMA_HAS_SIZE = 1 << 6,
    MTP__NVTX_SCHEMA_HAS_PACKING = 1 << 7,
    MTP__NVTX_SCHEMA_HAS_ID = 1 << 8
};

typedef struct mtp__nvtx_schema {
    uint64_t set; /* which of the members count */
    const char *name;
    uint64_t kind, flags;
    const mtp__nvtx_entry *entries;
    size_t count;
    size_t size;    /* of the payload */
    size_t packing; /* the largest alignment, 0: no limit */
    uint64_t id;
    /* Newer versions have another member, which is not used. */
} mtp__nvtx_schema;

typedef struct mtp__nvtx_enumerator {
    const char *name;
    uint64_t value;
    int8_t is_flag;
} mtp__nvtx_enumerator;

enum {
    MTP__NVTX_ENUM_HAS_ENTRIES = 3 << 2, /* in `set` */
    MTP__NVTX_ENUM_HAS_SIZE = 1 << 4,
    MTP__NVTX_ENUM_HAS_ID = 1 << 5
};

typedef struct mtp__nvtx_enum {
    uint64_t set;
    const char *name;
    const mtp__nvtx_enumerator *entries;
    size_t count;
    size_t size; /* of a value */
    uint64_t id;
} mtp__nvtx_enum;
#endif
