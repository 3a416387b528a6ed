/* mtprof.h - the profiler: records what a tensor program does, on any thread, in tens of nanoseconds.
 *
 *     mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
 *     mtp_profile *prof;
 *     if (mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK)
 *         die(mtp_last_error());
 *     MTP_SCOPE("forward") { forward(); }
 *     mtp_profile_stop(prof);
 *     ...
 *     mtp_profile_destroy(prof);
 *
 * Two kinds of calls:
 *   cold   (mtp_profile_*, mtp_name, ...) return mtp_status; mtp_last_error() explains a failure.
 *   hot    (MTP_SCOPE, mtp_op_begin, mtp_memory_event, ...) return nothing that needs checking, never block
 *          on a session and never allocate per call; dropped records are counted in the ledger, by cause.
 *
 * Threads: one thread at a time drives a profile (a second one gets MTP_E_STATE); any number of threads
 * record into it. No call is a cancellation point (pthread_cancel; asynchronous cancellation is not
 * supported). Signal handlers may record, fork, and longjmp out of a record. A record takes up to 4 KiB of
 * stack, 10 KiB with with_stack: a signal stack needs that on top of the system's minimum
 * (sysconf(_SC_MINSIGSTKSZ)). Without a running profile every hot call is one load and one branch; compiled
 * with -DMTP_DISABLE, it is nothing at all.
 *
 * C99 and C++11. Structs that callers fill open with their size and grow at the tail: use the _INIT macros.
 */
#ifndef MTPROF_H
#define MTPROF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The only place that says it: see tools/version. */
#define MTP_VERSION_MAJOR 0
#define MTP_VERSION_MINOR 1
#define MTP_VERSION_PATCH 0

#if defined(__GNUC__)
#define MTP_API __attribute__((visibility("default")))
#define MTP__UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Also where nothing is optimised: a stack's first frame is the program's. */
#define MTP__INLINE static inline __attribute__((always_inline))
#else
#error "mtprof.h needs gcc or clang"
#endif
#if !defined(MTP_DISABLE) && (UINTPTR_MAX != UINT64_MAX || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
#error "libmtprof does not support 32-bit or big-endian systems: define MTP_DISABLE there"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------ errors */

/* X(symbol, value, text). Values are ABI: append, never renumber, never reuse. */
#define MTP_STATUS_LIST(X)                                                                                   \
    X(OK, 0, "success")                                                                                      \
    X(E_ARG, -1, "an argument breaks the contract")                                                          \
    X(E_NOMEM, -2, "out of memory")                                                                          \
    X(E_ABI, -3, "caller and library disagree on a struct's size")                                           \
    X(E_STATE, -4, "not possible in the profile's current state")                                            \
    X(E_BUSY, -5, "another profiler session is already active")                                              \
    X(E_IO, -6, "a file could not be opened, read or written")                                               \
    X(E_FORMAT, -7, "not a file of the expected format, or damaged")                                         \
    X(E_UNSUPPORTED, -8, "not available on this machine or in this build")

#define X(sym, value, text) MTP_##sym = (value),
typedef enum mtp_status {
    MTP_STATUS_LIST(X)
} mtp_status;
#undef X

MTP_API const char *mtp_status_text(mtp_status status);

/* Why the last failing cold call on this thread failed, for users: what they named, what is wrong with it,
 * what to do. Borrowed; valid until the next failing call on this thread. Never NULL. */
MTP_API const char *mtp_last_error(void);
/* The errno of that failure, if a system call caused it; else 0. */
MTP_API int mtp_last_error_number(void);
/* For bug reports: the library functions involved in that failure, innermost first. Borrowed, as above. */
MTP_API const char *mtp_last_error_trail(void);

MTP_API const char *mtp_version(void); /* "0.1.0" */

/* -------------------------------------------------------------------------------------- vocabulary */

/* Activities: what to record. NPU covers device work on any accelerator. */
#define MTP_CPU 0x1u
#define MTP_NPU 0x2u

/* "CPU", "NPU", "CUDA" or "GPU" in any case; the last three are MTP_NPU. Others: MTP_E_ARG. */
MTP_API mtp_status mtp_activity_parse(const char *text, uint32_t *out);

/* A device: its type and its index. (MTP__TO: a cast; mtprof_tools.h) */
typedef uint32_t mtp_device;
#define MTP_DEVICE(type, index) (MTP__TO(uint32_t, type) << 8 | (MTP__TO(uint32_t, index) & 0xffu))
#define MTP_DEVICE_TYPE(device) (MTP__TO(uint32_t, device) >> 8 & 0xffu)
#define MTP_DEVICE_INDEX(device) (MTP__TO(uint32_t, device) & 0xffu)
#define MTP_DEVICE_CPU MTP_DEVICE(0, 0)
#define MTP_DEVICE_NPU(index) MTP_DEVICE(1, index)

/* X(symbol, value, Kineto's spelling, bytes). Ids reach files: append only. */
#define MTP_DTYPE_LIST(X)                                                                                    \
    X(UNKNOWN, 0, "", 0)                                                                                     \
    X(FLOAT32, 1, "float", 4)                                                                                \
    X(FLOAT64, 2, "double", 8)                                                                               \
    X(FLOAT16, 3, "c10::Half", 2)                                                                            \
    X(BFLOAT16, 4, "c10::BFloat16", 2)                                                                       \
    X(INT64, 5, "long int", 8)                                                                               \
    X(INT32, 6, "int", 4)                                                                                    \
    X(INT16, 7, "short int", 2)                                                                              \
    X(INT8, 8, "signed char", 1)                                                                             \
    X(UINT8, 9, "unsigned char", 1)                                                                          \
    X(BOOL, 10, "bool", 1)                                                                                   \
    X(COMPLEX64, 11, "c10::complex<float>", 8)                                                               \
    X(COMPLEX128, 12, "c10::complex<double>", 16)                                                            \
    X(UINT16, 13, "short unsigned int", 2)                                                                   \
    X(UINT32, 14, "unsigned int", 4)                                                                         \
    X(UINT64, 15, "long unsigned int", 8)                                                                    \
    X(COMPLEX32, 16, "c10::complex<c10::Half>", 4)                                                           \
    X(FLOAT8_E5M2, 17, "c10::Float8_e5m2", 1)                                                                \
    X(FLOAT8_E4M3FN, 18, "c10::Float8_e4m3fn", 1)                                                            \
    X(FLOAT8_E5M2FNUZ, 19, "c10::Float8_e5m2fnuz", 1)                                                        \
    X(FLOAT8_E4M3FNUZ, 20, "c10::Float8_e4m3fnuz", 1)                                                        \
    X(QINT8, 21, "c10::qint8", 1)                                                                            \
    X(QUINT8, 22, "c10::quint8", 1)                                                                          \
    X(QINT32, 23, "c10::qint32", 4)                                                                          \
    X(FLOAT8_E8M0FNU, 24, "c10::Float8_e8m0fnu", 1)                                                          \
    X(FLOAT4_E2M1FN_X2, 25, "c10::Float4_e2m1fn_x2", 1)

#define X(sym, value, text, bytes) MTP_##sym = (value),
typedef enum mtp_dtype {
    MTP_DTYPE_LIST(X)
} mtp_dtype;
#undef X
MTP_API const char *mtp_dtype_text(mtp_dtype dtype);

/* What a scope is. X(symbol, value, category in a Kineto trace). Ids reach files: append only. */
#define MTP_SCOPE_KIND_LIST(X)                                                                               \
    X(USER, 0, "user_annotation")                                                                            \
    X(OP, 1, "cpu_op")                                                                                       \
    X(BACKWARD, 2, "cpu_op")                                                                                 \
    X(STEP, 3, "user_annotation")                                                                            \
    X(RUNTIME, 4, "cuda_runtime")                                                                            \
    X(PYTHON, 5, "python_function")                                                                          \
    X(MODULE, 6, "python_function")                                                                          \
    X(OVERHEAD, 7, "overhead")

#define X(sym, value, text) MTP_SCOPE_##sym = (value),
typedef enum mtp_scope_kind {
    MTP_SCOPE_KIND_LIST(X)
} mtp_scope_kind;
#undef X

/* --------------------------------------------------------------------------------- clocks and names */

/* The clock of all records: raw ticks, cheap to read; a trace holds the conversion to nanoseconds. */
MTP_API uint64_t mtp_ticks(void);
MTP_API uint64_t mtp_now_ns(void); /* the same instant in nanoseconds of CLOCK_MONOTONIC */
/* What ticks are on this machine: "TSC" (x86-64), "CNTVCT_EL0" (arm64), or "CLOCK_MONOTONIC" and the reason.
 * Chosen when the library is loaded: a thread that disables the counter later (prctl(PR_SET_TSC)) must not
 * record. */
MTP_API const char *mtp_clock_name(void);

/* A name's id, valid for the life of the process; the same text gives the same id. 0 if it could not be kept
 * (out of memory, or a new name in a handler that interrupted the library): records then show "?". Safe from
 * any thread. */
MTP_API uint32_t mtp_name(const char *text);
MTP_API uint32_t mtp_name_n(const char *text, size_t length);

/* ------------------------------------------------------------------------------------- hot: is it on? */

/* What is being recorded right now: MTP_CPU, MTP_NPU and MTP_WITH_* bits, and MTP_SESSION above them; 0
 * without a running profile. Test bits; never compare the whole word. A framework checks it before gathering
 * shapes or walking a stack. */
#define MTP_WITH_SHAPES 0x100u
#define MTP_WITH_STACK 0x200u
#define MTP_WITH_MEMORY 0x400u
#define MTP_WITH_FLOPS 0x800u
#define MTP_WITH_MODULES 0x1000u

/* The number of the current recording, taken from mtp_recording(): different at each start, never 0 while
 * recording. By keeping it per object, a framework detects the first use in a recording in one comparison. */
#define MTP_SESSION(recording) MTP__TO(uint16_t, (recording) >> 16)

MTP_API extern uint32_t mtp__recording;  /* read through mtp_recording() */
MTP_API extern uint32_t mtp__collecting; /* private: 1 once a collector profiles this process */

#ifndef MTP_DISABLE
MTP__INLINE uint32_t mtp_recording(void)
{
    return __atomic_load_n(&mtp__recording, __ATOMIC_RELAXED);
}
#else
#define mtp_recording() 0u
#endif

/* ---------------------------------------------------------------------------------------- hot: scopes */

/* A scope begins and ends on the same thread. Pass the token that begin returns (0: nothing was recorded) to
 * end, once. It identifies its begin: scopes may end in any order (coroutines, fibers, tasks that take turns
 * on one thread), and a scope that was open when a profile started or stopped never closes another. Properly
 * nested scopes are the cheapest. */
typedef uint64_t mtp_token;

MTP_API mtp_token mtp__scope_begin(uint32_t name);
MTP_API mtp_token mtp__scope_begin_text(const char *text, size_t length);
MTP_API void mtp__scope_end(mtp_token token);
MTP_API uint32_t mtp__site_resolve(uint32_t *site, const char *text);

#ifndef MTP_DISABLE
MTP__INLINE mtp_token mtp_scope_begin(uint32_t name)
{
    return MTP__UNLIKELY(mtp_recording() & MTP_CPU) ? mtp__scope_begin(name) : 0;
}

/* For names made at run time: kept for the session only, so that they cannot pile up in the process. Bytes
 * are taken as they are; length excludes the NUL. */
MTP__INLINE mtp_token mtp_scope_begin_text(const char *text, size_t length)
{
    return MTP__UNLIKELY(mtp_recording() & MTP_CPU) ? mtp__scope_begin_text(text, length) : 0;
}

MTP__INLINE void mtp_scope_end(mtp_token token)
{
    if (MTP__UNLIKELY(token))
        mtp__scope_end(token);
}

/* A name that is looked up once per call site must be the same on every execution. */
#ifdef __cplusplus
#define MTP__LITERAL(text, say) static_assert(__builtin_constant_p(text), say)
#else
#define MTP__LITERAL(text, say) _Static_assert(__builtin_constant_p(text), say)
#endif

/* The id of a literal, looked up once per call site. Other names do not compile: use mtp_name(). */
#define MTP_NAME(text)                                                                                       \
    (__extension__({                                                                                         \
        MTP__LITERAL(text, "MTP_NAME takes a literal: use mtp_name() for names made at run time");           \
        static uint32_t mtp__site;                                                                           \
        uint32_t mtp__id = __atomic_load_n(&mtp__site, __ATOMIC_RELAXED);                                    \
        MTP__UNLIKELY(mtp__id == 0) ? mtp__site_resolve(&mtp__site, (text)) : mtp__id;                       \
    }))

typedef struct mtp__guard {
    mtp_token token;
    uint32_t once;
} mtp__guard;

MTP__INLINE mtp__guard mtp__guard_begin(uint32_t *site, const char *text)
{
    mtp__guard guard = {0, 1};
    if (MTP__UNLIKELY(mtp_recording() & MTP_CPU)) {
        uint32_t id = __atomic_load_n(site, __ATOMIC_RELAXED);
        guard.token = mtp__scope_begin(MTP__UNLIKELY(id == 0) ? mtp__site_resolve(site, text) : id);
    }
    return guard;
}

MTP__INLINE mtp__guard mtp__guard_begin_text(const char *text)
{
    mtp__guard guard = {0, 1};
    if (MTP__UNLIKELY(mtp_recording() & MTP_CPU))
        guard.token =
            mtp__scope_begin_text(text != NULL ? text : "?", text != NULL ? __builtin_strlen(text) : 1);
    return guard;
}

MTP__INLINE void mtp__guard_end(mtp__guard *guard)
{
    mtp_scope_end(guard->token);
}

#define MTP__PASTE2(a, b) a##b
#define MTP__PASTE(a, b) MTP__PASTE2(a, b)
#define MTP__SCOPE(text, guard)                                                                              \
    for (mtp__guard guard __attribute__((cleanup(mtp__guard_end))) = __extension__({                         \
             MTP__LITERAL(text, "MTP_SCOPE takes a literal: use MTP_SCOPE_TEXT for names made at run time"); \
             static uint32_t mtp__site;                                                                      \
             mtp__guard_begin(&mtp__site, (text));                                                           \
         });                                                                                                 \
         guard.once; guard.once = 0)
#define MTP__SCOPE_TEXT(text, guard)                                                                         \
    for (mtp__guard guard __attribute__((cleanup(mtp__guard_end))) = mtp__guard_begin_text(text);            \
         guard.once; guard.once = 0)

/* MTP_SCOPE("forward") { ... }   Ends at the closing brace, or by return, break, goto or a C++ exception.
 * (break leaves the scope, not an enclosing loop; continue does the same, but not with MTP_DISABLE: avoid
 * it.) The text must be a literal; anything else is a compile-time error. */
#define MTP_SCOPE(text) MTP__SCOPE(text, MTP__PASTE(mtp__guard_, __COUNTER__))

/* MTP_SCOPE_TEXT(layer->name) { ... }   The same for a name made at run time, NUL-terminated and looked up
 * each time (mtp_scope_begin_text). NULL is recorded as "?". */
#define MTP_SCOPE_TEXT(text) MTP__SCOPE_TEXT(text, MTP__PASTE(mtp__guard_, __COUNTER__))

#else /* MTP_DISABLE: nothing is left at the call sites, arguments are not evaluated */
#define mtp_scope_begin(name) ((void)sizeof(name), UINT64_C(0))
#define mtp_scope_begin_text(text, length) ((void)sizeof(text), (void)sizeof(length), UINT64_C(0))
#define mtp_scope_end(token) ((void)sizeof(token))
#define MTP_NAME(text) ((void)sizeof(text), 0u)
#define MTP_SCOPE(text)                                                                                      \
    switch (0 * sizeof(text)) /* break leaves it, as it leaves the loop above */                             \
    default:
#define MTP_SCOPE_TEXT(text) MTP_SCOPE (text)
#endif

/* ------------------------------------------------------------------------------------------- hot: ops */

typedef enum mtp_input_kind { /* ids reach files: append only */
    MTP_INPUT_NONE = 0,
    MTP_INPUT_TENSOR = 1,
    MTP_INPUT_TENSOR_LIST = 2, /* items, count */
    MTP_INPUT_INT = 3,
    MTP_INPUT_FLOAT = 4,
    MTP_INPUT_BOOL = 5,
    MTP_INPUT_INT_LIST = 6, /* dims, count; dtype MTP_FLOAT64: the bits of doubles, MTP_BOOL: 0 and 1 */
    MTP_INPUT_TEXT = 7      /* text, count bytes */
} mtp_input_kind;

/* Which tensor an argument is: lets mtp_tree follow tensors and memory through a program. */
typedef struct mtp_identity {
    uint64_t tensor;   /* a number never used for another tensor in this process, below 2^48; 0: unknown */
    uint64_t storage;  /* address of its memory, below 2^56, as passed to mtp_memory_event() */
    mtp_device device; /* where that memory is */
    uint32_t dtype;    /* with MTP_OP_PACKED: mtp_dtype; else 0 */
} mtp_identity;

/* One argument of an op. Everything is copied: nothing needs to outlive the call. */
typedef struct mtp_input {
    uint8_t kind;           /* mtp_input_kind */
    uint8_t dtype;          /* of a tensor, or of the numbers in a list: mtp_dtype */
    uint16_t reserved;      /* 0 */
    uint32_t count;         /* rank of a tensor, items of a list, bytes of a text */
    const int64_t *dims;    /* borrowed: count of them */
    const int64_t *strides; /* borrowed: count of them, or NULL for contiguous */
    union {
        int64_t i;
        double f;
        const char *text;              /* borrowed */
        const struct mtp_input *items; /* borrowed: tensors */
        const mtp_identity *identity;  /* of a tensor: borrowed, or NULL */
    } value;
} mtp_input;

/* One call of an operator. Fill in what is known; leave the rest as MTP_OP_INIT set it. */
typedef struct mtp_op {
    uint32_t size;           /* sizeof(mtp_op) */
    uint32_t name;           /* MTP_NAME("aten::mm") */
    mtp_device device;       /* where it computes */
    uint32_t kind;           /* MTP_SCOPE_OP, or any mtp_scope_kind */
    int64_t sequence;        /* autograd sequence number, -1: none */
    uint64_t forward_thread; /* of a backward op: the thread of its forward op, 0: none */
    uint64_t correlation;    /* of a launch (MTP_SCOPE_RUNTIME): links it to device events, 0: none */
    uint64_t flops;          /* 0: derived from the shapes */
    int64_t allocated; /* bytes now allocated on the device: set before begin and before end; -1: unknown */
    const mtp_input *inputs;  /* borrowed; read by begin with MTP_WITH_SHAPES */
    const mtp_input *outputs; /* borrowed; read by end with MTP_WITH_SHAPES */
    uint32_t input_count, output_count;
    const char *args;        /* borrowed: free text shown with the event, or NULL; see MTP_ARGS_MEMBERS */
    mtp_token token;         /* private: set by begin, used by end */
    uint32_t flags;          /* MTP_OP_IDENTIFIED, MTP_OP_PACKED, both, or 0 */
    uint32_t identity_count; /* with both: of the tensors among the inputs, in order, those of lists singly */
    const mtp_identity *identities; /* borrowed */
} mtp_op;
#define MTP_OP_IDENTIFIED 1u /* input tensors have identities */
#define MTP_OP_PACKED 2u     /* inputs is an mtp_pack (MTP_PACKED); input_count is not read */
#define MTP_OP_INIT(name_id)                                                                                 \
    {                                                                                                        \
        sizeof(mtp_op), (name_id), MTP_DEVICE_CPU, MTP_SCOPE_OP, -1, 0, 0, 0, -1, NULL, NULL, 0, 0, NULL, 0, \
            0, 0, NULL                                                                                       \
    }

/* args starting with this are members of the event's JSON object: MTP_ARGS_MEMBERS "\"stream\": 0". They must
 * be valid JSON, without the braces. */
#define MTP_ARGS_MEMBERS "\1"
/* The same, and one more member: "Seq", which is `sequence`. Args that differ in nothing else are kept once: for calls that
 * are counted. */
#define MTP_ARGS_NUMBERED "\2"

MTP_API void mtp__op_begin(mtp_op *op);
MTP_API void mtp__op_begin_text(mtp_op *op, const char *text, size_t length);
MTP_API void mtp__op_end(mtp_op *op);
MTP_API void mtp__op_hold(const mtp_op *op, const mtp_input *inputs, uint32_t count);

#ifndef MTP_DISABLE
MTP__INLINE void mtp_op_begin(mtp_op *op)
{
    op->token = 0;
    if (MTP__UNLIKELY(mtp_recording() & MTP_CPU))
        mtp__op_begin(op);
}

/* The same with a name made at run time, instead of op->name, kept for the session only. */
MTP__INLINE void mtp_op_begin_text(mtp_op *op, const char *text, size_t length)
{
    op->token = 0;
    if (MTP__UNLIKELY(mtp_recording() & MTP_CPU))
        mtp__op_begin_text(op, text, length);
}

MTP__INLINE void mtp_op_end(mtp_op *op)
{
    if (MTP__UNLIKELY(op->token))
        mtp__op_end(op);
}

/* Tensors that the object of a call holds (a module's parameters, an optimizer's state). Call it right after
 * the begin of an MTP_SCOPE_PYTHON or MTP_SCOPE_MODULE, before the thread records anything else; each call
 * adds one part (mtp_tree_held). */
MTP__INLINE void mtp_op_hold(const mtp_op *op, const mtp_input *inputs, uint32_t count)
{
    if (MTP__UNLIKELY(op->token))
        mtp__op_hold(op, inputs, count);
}
#else
#define mtp_op_hold(op, inputs, count) ((void)sizeof(op), (void)sizeof(inputs), (void)sizeof(count))
#define mtp_op_begin(op) ((void)sizeof(op))
#define mtp_op_begin_text(op, text, length) ((void)sizeof(op), (void)sizeof(text), (void)sizeof(length))
#define mtp_op_end(op) ((void)sizeof(op))
#endif

/* ------------------------------------------------------------------------ hot: memory, device, marks */

/* X(symbol, value, torch's name). In the order of torch's memory timeline. */
#define MTP_MEMORY_CATEGORY_LIST(X)                                                                          \
    X(PARAMETER, 0, "PARAMETER")                                                                             \
    X(OPTIMIZER_STATE, 1, "OPTIMIZER_STATE")                                                                 \
    X(INPUT, 2, "INPUT")                                                                                     \
    X(TEMPORARY, 3, "TEMPORARY")                                                                             \
    X(ACTIVATION, 4, "ACTIVATION")                                                                           \
    X(GRADIENT, 5, "GRADIENT")                                                                               \
    X(AUTOGRAD_DETAIL, 6, "AUTOGRAD_DETAIL")                                                                 \
    X(UNKNOWN, 7, "Unknown")
#define X(sym, value, text) MTP_MEMORY_##sym = (value),
typedef enum mtp_memory_category {
    MTP_MEMORY_CATEGORY_LIST(X)
} mtp_memory_category;
#undef X

typedef enum mtp_device_event_kind { /* ids reach files: append only */
    MTP_DEVICE_KERNEL = 0,
    MTP_DEVICE_MEMCPY = 1,
    MTP_DEVICE_MEMSET = 2,
    MTP_DEVICE_SYNC = 3,
    MTP_DEVICE_ANNOTATION = 4
} mtp_device_event_kind;

typedef enum mtp_clock {     /* of device timestamps; ids reach files: append only */
    MTP_CLOCK_TICKS = 0,     /* mtp_ticks() */
    MTP_CLOCK_MONOTONIC = 1, /* nanoseconds of CLOCK_MONOTONIC: mtp_now_ns() */
    MTP_CLOCK_DEVICE = 2     /* nanoseconds of the device's clock, related to ours by mtp_device_clock() */
} mtp_clock;

/* Work that ran on a device. May be reported at any time, from any thread, in any order. */
typedef struct mtp_device_work {
    uint32_t size; /* sizeof(mtp_device_work) */
    uint32_t name; /* MTP_NAME("gemm_kernel") */
    mtp_device device;
    uint32_t kind;        /* mtp_device_event_kind */
    uint64_t stream;      /* 0: the default stream, shown as 7, like Kineto's (or the next free number) */
    uint64_t correlation; /* of the launch (mtp_op.correlation), 0: none */
    uint64_t start, end;  /* in `clock` */
    uint64_t bytes;       /* moved by a copy or a set */
    uint64_t queued;      /* when it was enqueued, in `clock`; 0: unknown */
    uint32_t clock;       /* mtp_clock */
    uint32_t grid[3], block[3];
    uint32_t reserved; /* 0 */
} mtp_device_work;
#define MTP_DEVICE_WORK_INIT(name_id, device)                                                                \
    {                                                                                                        \
        sizeof(mtp_device_work), (name_id), (device), MTP_DEVICE_KERNEL, 0, 0, 0, 0, 0, 0, MTP_CLOCK_TICKS,  \
            {0, 0, 0}, {0, 0, 0}, 0                                                                          \
    }

/* A device's description: deviceProperties in a trace. 0 or NULL: unknown, left out. */
typedef struct mtp_device_info {
    size_t size;      /* sizeof(mtp_device_info) */
    const char *name; /* "NVIDIA H200" */
    uint64_t memory_bytes;
    uint64_t shared_bytes; /* per work-group */
    uint32_t compute_units, clock_mhz, group_most, reserved;
    const char *vendor, *driver;
} mtp_device_info;
#define MTP_DEVICE_INFO_INIT                                                                                 \
    {                                                                                                        \
        sizeof(mtp_device_info), NULL, 0, 0, 0, 0, 0, 0, NULL, NULL                                          \
    }

MTP_API void mtp__memory_event(mtp_device device, const void *ptr, int64_t bytes, uint64_t total_allocated,
                               uint64_t total_reserved);
MTP_API void mtp__memory_tag(mtp_device device, const void *ptr, mtp_memory_category category);
MTP_API void mtp__memory_existing(mtp_device device, const void *ptr, uint64_t bytes,
                                  mtp_memory_category category);
MTP_API void mtp__device_event(const mtp_device_work *work);
MTP_API void mtp__device_clock(mtp_device device, uint64_t device_ns, uint64_t host_ticks, uint64_t error_ns);
MTP_API void mtp__device_describe(mtp_device device, const mtp_device_info *info);
MTP_API void mtp__mark(uint32_t name);
MTP_API void mtp__counter(uint32_t name, double value);

/* Registers `flush`, for the life of the process. The thread that ends a cycle calls it just before recording
 * ends, to wait for the work still in flight and report it. At most 8; then MTP_E_STATE. */
MTP_API mtp_status mtp_flush_add(void (*flush)(void *user), void *user);

/* Registers functions for the life of the process, for collectors that cost something while they are attached: `begin`
 * runs right after a recording began, `end` right before it ends, on the thread that starts or stops it; either may be
 * NULL. `begin` is not called for a recording that is already running, and neither in forked children.
 * At most 8; then MTP_E_STATE. */
typedef struct mtp_profile mtp_profile;
MTP_API mtp_status mtp_watch_add(void (*begin)(void *user, mtp_profile *prof),
                                 void (*end)(void *user, mtp_profile *prof), void *user);

/* An id for a launch, unique in the process. */
MTP_API uint64_t mtp_correlation_next(void);

#ifndef MTP_DISABLE
/* An allocation (bytes > 0) or a free (bytes < 0) at ptr, and the totals after it. Needs profile_memory. */
MTP__INLINE void mtp_memory_event(mtp_device device, const void *ptr, int64_t bytes, uint64_t total_allocated,
                                  uint64_t total_reserved)
{
    if (MTP__UNLIKELY(mtp_recording() & MTP_WITH_MEMORY))
        mtp__memory_event(device, ptr, bytes, total_allocated, total_reserved);
}

/* The category of the block at ptr from now on. */
MTP__INLINE void mtp_memory_tag(mtp_device device, const void *ptr, mtp_memory_category category)
{
    if (MTP__UNLIKELY(mtp_recording() & MTP_WITH_MEMORY))
        mtp__memory_tag(device, ptr, category);
}

/* A block allocated before the recording began; report it on first use (see MTP_SESSION). Not counted as an
 * allocation, but part of the timeline from its start. */
MTP__INLINE void mtp_memory_existing(mtp_device device, const void *ptr, uint64_t bytes,
                                     mtp_memory_category category)
{
    if (MTP__UNLIKELY(mtp_recording() & MTP_WITH_MEMORY))
        mtp__memory_existing(device, ptr, bytes, category);
}

MTP__INLINE void mtp_device_event(const mtp_device_work *work)
{
    if (MTP__UNLIKELY(mtp_recording() & MTP_NPU))
        mtp__device_event(work);
}

/* The device's clock read device_ns when ours read host_ticks, give or take error_ns. With two or more of
 * these, MTP_CLOCK_DEVICE timestamps are comparable to the host's. */
MTP__INLINE void mtp_device_clock(mtp_device device, uint64_t device_ns, uint64_t host_ticks,
                                  uint64_t error_ns)
{
    if (MTP__UNLIKELY(mtp_recording() & MTP_NPU))
        mtp__device_clock(device, device_ns, host_ticks, error_ns);
}

/* Describes the device; call it once in each recording that has work of it. */
MTP__INLINE void mtp_device_describe(mtp_device device, const mtp_device_info *info)
{
    if (MTP__UNLIKELY(mtp_recording() & MTP_NPU))
        mtp__device_describe(device, info);
}

/* A point in time, and a value over time. */
MTP__INLINE void mtp_mark(uint32_t name)
{
    if (MTP__UNLIKELY(mtp_recording() & MTP_CPU))
        mtp__mark(name);
}

MTP__INLINE void mtp_counter(uint32_t name, double value)
{
    if (MTP__UNLIKELY(mtp_recording() & MTP_CPU))
        mtp__counter(name, value);
}
#else
#define mtp_memory_event(device, ptr, bytes, allocated, reserved)                                            \
    ((void)sizeof(device), (void)sizeof(ptr), (void)sizeof(bytes), (void)sizeof(allocated),                  \
     (void)sizeof(reserved))
#define mtp_memory_tag(device, ptr, category)                                                                \
    ((void)sizeof(device), (void)sizeof(ptr), (void)sizeof(category))
#define mtp_memory_existing(device, ptr, bytes, category)                                                    \
    ((void)sizeof(device), (void)sizeof(ptr), (void)sizeof(bytes), (void)sizeof(category))
#define mtp_device_event(work) ((void)sizeof(work))
#define mtp_device_clock(device, device_ns, host_ticks, error_ns)                                            \
    ((void)sizeof(device), (void)sizeof(device_ns), (void)sizeof(host_ticks), (void)sizeof(error_ns))
#define mtp_device_describe(device, info) ((void)sizeof(device), (void)sizeof(info))
#define mtp_mark(name) ((void)sizeof(name))
#define mtp_counter(name, value) ((void)sizeof(name), (void)sizeof(value))
#endif

/* ------------------------------------------------------------------------------------------ schedules */

/* What to do in a step. X(symbol, value). Values are torch's. */
#define MTP_ACTION_LIST(X)                                                                                   \
    X(NONE, 0)                                                                                               \
    X(WARMUP, 1)                                                                                             \
    X(RECORD, 2)                                                                                             \
    X(RECORD_AND_SAVE, 3)
#define X(sym, value) MTP_ACTION_##sym = (value),
typedef enum mtp_action {
    MTP_ACTION_LIST(X)
} mtp_action;
#undef X
MTP_API const char *mtp_action_text(mtp_action action);

/* Skips `skip_first` steps, then runs `repeat` cycles (0: until stopped) of wait, warmup and active steps.
 * skip_first_wait != 0: the first cycle does not wait. All zero: no schedule, everything is recorded. */
typedef struct mtp_schedule {
    int64_t wait, warmup, active, repeat, skip_first, skip_first_wait;
} mtp_schedule;

MTP_API mtp_status mtp_schedule_check(const mtp_schedule *schedule); /* each >= 0, active > 0 */
MTP_API mtp_action mtp_schedule_action(const mtp_schedule *schedule, uint64_t step); /* NULL: no schedule */

/* ------------------------------------------------------------------------------------------- profiles */

typedef enum mtp_when_full {
    MTP_STOP_WHEN_FULL = 0, /* keep the records so far; drop and count new ones */
    MTP_KEEP_NEWEST = 1,    /* flight recorder: the oldest records are evicted and counted */
    /* Write to the spool file. buffer_bytes bounds how much is mapped at a time; so does an eighth of the
     * mappings that a process may have (vm.max_map_count), at one per chunk_bytes. */
    MTP_STREAM = 2
} mtp_when_full;

/* Passed to on_warning for the user to see; the library itself never prints. X(symbol, value). */
#define MTP_WARNING_LIST(X)                                                                                  \
    X(NO_WARMUP, 1)                                                                                          \
    X(WARMUP_THEN_NONE, 2)                                                                                   \
    X(RECORD_THEN_NONE, 3)                                                                                   \
    X(RECORD_THEN_WARMUP, 4)                                                                                 \
    X(EVENTS_CLEARED, 5)                                                                                     \
    X(NOTHING_RECORDED, 6)                                                                                   \
    X(RECORDS_DROPPED, 7)                                                                                    \
    X(SPOOL_FAILED, 8)                                                                                       \
    X(THREAD_STUCK, 9)                                                                                       \
    X(FORK_NOT_FOLLOWED, 10)                                                                                 \
    X(LEDGER_MISMATCH, 11)                                                                                   \
    X(DEFINITIONS_LOST, 12)                                                                                  \
    X(CLOCK, 13)                                                                                             \
    X(SPOOL_KEPT, 14)                                                                                        \
    X(GAVE_WAY, 15)
#define X(sym, value) MTP_WARNING_##sym = (value),
typedef enum mtp_warning {
    MTP_WARNING_LIST(X)
} mtp_warning;
#undef X

#define MTP_TRACE_ID_ROOM 128

typedef struct mtp_profile_config {
    size_t size;         /* sizeof(mtp_profile_config) */
    uint32_t activities; /* MTP_CPU | MTP_NPU; 0: both */
    bool record_shapes, with_stack, profile_memory, with_flops, with_modules;
    bool acc_events; /* keep the events of earlier cycles */
    /* A forked child records into its own spool: <spool>.<pid>, or, if the pattern has %p, its expansion in the
     * child. Else it records nothing. */
    bool follow_fork;
    /* Gives way: if the program starts another profile, this one (started by mtp_profile_start_trace) pauses until that
     * one ends, instead of making it fail with MTP_E_BUSY. For tools that record a program that they did not write. */
    bool gives_way;
    mtp_schedule schedule;
    mtp_action (*schedule_callback)(void *user, uint64_t step); /* instead of schedule, or NULL */
    void (*on_trace_ready)(mtp_profile *prof, void *user);      /* once per saved cycle, or NULL */
    void (*on_warning)(void *user, mtp_warning code, const char *text);
    /* Writes at most `room` (MTP_TRACE_ID_ROOM) bytes, NUL included. NULL: a random UUID, 32 hex digits. */
    void (*custom_trace_id)(void *user, char *out, size_t room);
    void *user;            /* borrowed: passed to each callback */
    uint64_t buffer_bytes; /* budget for records; 0: 256 MiB */
    mtp_when_full when_full;
    /* Unit of the budget, a power of two, 4 KiB to 1 MiB; 0: 64 KiB. Threads with few records share one. */
    uint32_t chunk_bytes;
    /* Path of a file that records are written to as they are made, so that a crash loses none; copied. In it,
     * %p is the process id, %h the host, %t the time (UTC), %n the first number not yet taken by a file, %% a
     * percent sign. The file appears under its name once it is ready to record into. If the name is taken by
     * a recording that was never stopped, that file is kept (run.mtp becomes run.1.mtp, with a warning); by
     * one still in progress, start fails with MTP_E_IO; any other file is replaced. */
    const char *spool;
    uint64_t spool_bytes; /* maximum size of a streamed spool; 0: until the disk is full */
    /* end of v1 */
} mtp_profile_config;
#define MTP_PROFILE_CONFIG_INIT                                                                              \
    {                                                                                                        \
        sizeof(mtp_profile_config), 0, false, false, false, false, false, false, false, false,               \
            {0, 0, 0, 0, 0, 0}, NULL, NULL, NULL, NULL, NULL, 0, MTP_STOP_WHEN_FULL, 0, NULL, 0              \
    }

/* On success the caller owns *out; release it with mtp_profile_destroy(). On failure *out is NULL. `config`
 * may be NULL for the defaults. Fails with MTP_E_ARG, MTP_E_ABI, MTP_E_NOMEM. Nothing is recorded yet. */
MTP_API mtp_status mtp_profile_create(const mtp_profile_config *config, mtp_profile **out);
MTP_API void mtp_profile_destroy(mtp_profile *prof); /* stops it first; NULL is fine */

/* start: step 0 begins; with a schedule its action is taken, without one recording starts.
 * step:  the next step begins. Without a running profile: MTP_E_STATE.
 * stop:  ends the profile; a cycle in progress is saved, and on_trace_ready is called for it.
 * A second profile in the process: MTP_E_BUSY. A stopped profile may be started again. */
MTP_API mtp_status mtp_profile_start(mtp_profile *prof);
MTP_API mtp_status mtp_profile_step(mtp_profile *prof);
MTP_API mtp_status mtp_profile_stop(mtp_profile *prof);

/* The parts of the above, for programs that control tracing by hand: no schedule, no callback. */
MTP_API mtp_status mtp_profile_prepare_trace(mtp_profile *prof);
MTP_API mtp_status mtp_profile_start_trace(mtp_profile *prof);
MTP_API mtp_status mtp_profile_stop_trace(mtp_profile *prof);
/* Events from here on belong to this step, as after mtp_profile_step(). */
MTP_API mtp_status mtp_profile_mark_step(mtp_profile *prof, uint64_t number);

/* Pauses or resumes recording of `activities` while a profile runs. No-op before it is prepared. */
MTP_API mtp_status mtp_profile_toggle(mtp_profile *prof, bool enable, uint32_t activities);

/* Metadata at the top level of an exported trace. add: while prepared; preset: at any time, applied at every
 * start. The _json forms validate their JSON text: MTP_E_ARG, and mtp_last_error() says where it is wrong. */
MTP_API mtp_status mtp_profile_add_metadata(mtp_profile *prof, const char *key, const char *value);
MTP_API mtp_status mtp_profile_add_metadata_json(mtp_profile *prof, const char *key, const char *json);
MTP_API mtp_status mtp_profile_preset_metadata_json(mtp_profile *prof, const char *key, const char *json);

/* State. May be called at any time; with a NULL profile they return 0, false or NULL. */
MTP_API uint64_t mtp_profile_step_number(const mtp_profile *prof);
MTP_API mtp_action mtp_profile_action(const mtp_profile *prof);
MTP_API bool mtp_profile_is_recording(const mtp_profile *prof);
MTP_API bool
mtp_profile_gives_way(const mtp_profile *prof); /* its gives_way: a tool's, not the program's own */
MTP_API const char *mtp_profile_trace_id(const mtp_profile *prof); /* NULL before the first prepare */
MTP_API const char *mtp_profile_spool(const mtp_profile *prof); /* path, patterns expanded; NULL: none yet */
/* New name of a recording that had this path and was never stopped (MTP_WARNING_SPOOL_KEPT); NULL: none. */
MTP_API const char *mtp_profile_spool_kept(const mtp_profile *prof);

/* Shown for a thread instead of the kernel's name, in this and later recordings, until the thread ends. At most
 * 63 bytes of UTF-8 are kept. os_thread: its id (gettid), 0: the calling thread. "" takes the name back. */
MTP_API void mtp_thread_name(int64_t os_thread, const char *text);

/* -------------------------------------------------------------------------------------------- ledger */

/* Why a record was dropped. X(symbol, value, text). Ids reach files: append only. */
#define MTP_DROP_LIST(X)                                                                                     \
    X(BUDGET, 0, "buffer_bytes spent")                                                                       \
    X(OVERWRITTEN, 1, "overwritten by newer records")                                                        \
    X(DISK, 2, "the spool could not grow")                                                                   \
    X(NOMEM, 3, "out of memory")                                                                             \
    X(REENTRANT, 4, "recorded from a signal handler or callback inside a recording call")                    \
    X(EXITING, 5, "recorded by a thread after its end")                                                      \
    X(STUCK, 6, "written by a thread that did not pause in time")                                            \
    X(DAMAGED, 7, "in a part of the file that was damaged")                                                  \
    X(ABI, 8, "in a struct whose size was not set")
#define X(sym, value, text) MTP_DROP_##sym = (value),
typedef enum mtp_drop {
    MTP_DROP_LIST(X) MTP_DROP_CAUSES
} mtp_drop;
#undef X
MTP_API const char *mtp_drop_text(mtp_drop cause);

/* emitted = kept + dropped, counted in records, for the events that the profile holds now: since it was last prepared,
 * or, with acc_events or a spool, of all cycles. A scope is two records, its begin and its end, even if dropped; a call
 * refused inside another one, or after its thread's end, is one. Exact when stopped; while running, exact for threads
 * that are not recording. */
typedef struct mtp_ledger {
    size_t size; /* sizeof(mtp_ledger) */
    uint64_t emitted, kept, dropped;
    uint64_t dropped_by[16];   /* by mtp_drop */
    uint64_t lost_definitions; /* names, shapes or stacks that did not fit: shown as "?" */
    uint64_t bytes;            /* in use: chunks * chunk_bytes */
    uint64_t chunks, threads;  /* chunks in use; threads seen */
} mtp_ledger;
#define MTP_LEDGER_INIT                                                                                      \
    {                                                                                                        \
        sizeof(mtp_ledger), 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0, 0, 0, 0            \
    }
MTP_API mtp_status mtp_profile_ledger(const mtp_profile *prof, mtp_ledger *out);

/* --------------------------------------------------------------------------------------------- stacks */

/* Where call stacks come from (with_stack). capture runs inside the recording call: it must not block, allocate or record;
 * it writes opaque frame keys, innermost first, and returns how many. describe is called once per key and session, or
 * again when a long session redefines its names, possibly by several threads at once, and writes "file:line:function"
 * (NUL-terminated, at most `room` bytes). It may take locks of the program. */
typedef struct mtp_stack_provider {
    size_t size; /* sizeof(mtp_stack_provider) */
    uint32_t (*capture)(void *user, uint64_t *frames, uint32_t room);
    void (*describe)(void *user, uint64_t frame, char *out, size_t room);
    void *user; /* borrowed */
} mtp_stack_provider;

/* NULL (the default): native stacks, by libunwind where installed, else by the compiler's unwinder.
 * MTP_E_STATE while a profile is active. */
MTP_API mtp_status mtp_stack_provider_set(const mtp_stack_provider *provider);
MTP_API const char *mtp_stack_provider_name(void); /* "libunwind", "gcc" or "custom" */

#ifdef __cplusplus
}
#endif

#include <mtprof_trace.h> /* what was recorded, and what it says */
#include <mtprof_tools.h> /* packed inputs, other tools, recording on demand */
#endif
