/* mtprof_tools.h - for dispatchers and tools: inputs packed by the caller, ranges of other tools (VTune, Nsight), recording on
 * demand. Included by mtprof.h.
 */
#ifndef MTPROF_TOOLS_H
#define MTPROF_TOOLS_H
#include <mtprof.h>

/* A cast in our macros: in C++ one that neither -Wold-style-cast nor -Wuseless-cast reports where they are used. */
#ifdef __cplusplus
template <typename To, typename From> __attribute__((always_inline)) inline constexpr To mtp__to(From from)
{
    return static_cast<To>(from);
}
#define MTP__TO(type, value) mtp__to<type>(value)
#else
#define MTP__TO(type, value) ((type)(value))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------- hot: packed inputs */

/* Inputs packed by the caller, instead of an array of mtp_input: for dispatchers whose arguments have a form of their
 * own. What does not fit is shown as "...". A pack is of one thread, and may be used for any number of ops. Best
 * is one for each op or call site: if its arguments are the same as the last time, they are not looked up.
 *
 *     mtp_pack_init(&pack, words, 64);                                         once
 *     mtp_pack_begin(&pack); mtp_pack_tensor(&pack, ...); ...                  the arguments, in order
 *     op.inputs = MTP_PACKED(&pack); op.flags = MTP_OP_PACKED;
 */
typedef struct mtp_pack {
    uint64_t *word;       /* borrowed: room of them */
    uint32_t room, count; /* count: words in use */
    bool cut;             /* something did not fit */
    uint32_t known_count; /* private from here on: of the words that are known */
    uint64_t changed;     /* bits in which words were changed since then */
    uint64_t known_for;   /* the tables in which they have the number `known` */
    uint32_t known;
} mtp_pack;
#ifdef __cplusplus
#define MTP_PACKED(pack) reinterpret_cast<const mtp_input *>(pack)
#else
#define MTP_PACKED(pack) ((const mtp_input *)(const void *)(pack))
#endif

#if defined(__clang__) && defined(__cplusplus) /* the functions are C; gcc knows that by extern "C" */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wold-style-cast"
#endif

/* room: at least 1, at most 2048 */
MTP__INLINE void mtp_pack_init(mtp_pack *pack, uint64_t *words, uint32_t room)
{
    __builtin_memset(pack, 0, sizeof *pack);
    __builtin_memset(words, 0, room * sizeof *words);
    pack->word = words;
    pack->room = room;
}

MTP__INLINE void mtp_pack_begin(mtp_pack *pack)
{
    pack->count = 0;
    pack->cut = false;
}

/* Where the next word goes. Private, like all with two underscores. */
typedef struct mtp__pack_cursor {
    uint64_t *at;
    uint64_t changed;
} mtp__pack_cursor;

MTP__INLINE void mtp__pack_next(mtp__pack_cursor *c, uint64_t word)
{
    c->changed |= *c->at ^ word;
    *c->at++ = word;
}

MTP__INLINE void mtp__pack_put(mtp_pack *pack, uint64_t *at, uint64_t word)
{
    pack->changed |= *at ^ word;
    *at = word;
}

/* Room for an argument and its `more` words; NULL: none is left. */
MTP__INLINE uint64_t *mtp__pack_take(mtp_pack *pack, uint64_t head, uint64_t more)
{
    uint64_t *at = pack->word + pack->count;
    if (MTP__UNLIKELY(pack->cut || more + 1 >= pack->room - pack->count)) {
        if (!pack->cut)
            mtp__pack_put(pack, &pack->word[pack->count++], (head & 0xffffu) | 2u << 16);
        pack->cut = true;
        return NULL;
    }
    mtp__pack_put(pack, at, head);
    pack->count += 1 + (uint32_t)more;
    return at + 1;
}

MTP__INLINE void mtp_pack_none(mtp_pack *pack)
{
    (void)mtp__pack_take(pack, MTP_INPUT_NONE, 0);
}

MTP__INLINE uint64_t mtp__pack_tensor_head(mtp_dtype dtype, uint32_t rank, bool strided)
{
    return MTP_INPUT_TENSOR | (uint64_t)dtype << 8 | (uint64_t)strided << 16 | (uint64_t)rank << 32;
}

/* strides: rank of them, or NULL for contiguous */
MTP__INLINE void mtp_pack_tensor(mtp_pack *pack, mtp_dtype dtype, uint32_t rank, const int64_t *dims,
                                 const int64_t *strides)
{
    bool strided = strides != NULL && rank > 0;
    uint64_t *at =
        mtp__pack_take(pack, mtp__pack_tensor_head(dtype, rank, strided), (uint64_t)rank << strided);
    if (MTP__UNLIKELY(at == NULL))
        return;
    for (uint32_t i = 0; i < rank; i++)
        mtp__pack_put(pack, at + i, (uint64_t)dims[i]);
    for (uint32_t i = 0; strided && i < rank; i++)
        mtp__pack_put(pack, at + rank + i, (uint64_t)strides[i]);
}

/* A list of `count` tensors, which are packed next. */
MTP__INLINE void mtp_pack_list(mtp_pack *pack, uint32_t count)
{
    (void)mtp__pack_take(pack, MTP_INPUT_TENSOR_LIST | (uint64_t)count << 32, 0);
}

MTP__INLINE void mtp__pack_number(mtp_pack *pack, mtp_input_kind kind, uint64_t value)
{
    uint64_t *at = mtp__pack_take(pack, kind, 1);
    if (at != NULL)
        mtp__pack_put(pack, at, value);
}

MTP__INLINE void mtp_pack_int(mtp_pack *pack, int64_t value)
{
    mtp__pack_number(pack, MTP_INPUT_INT, (uint64_t)value);
}

MTP__INLINE void mtp_pack_bool(mtp_pack *pack, bool value)
{
    mtp__pack_number(pack, MTP_INPUT_BOOL, value);
}

MTP__INLINE void mtp_pack_float(mtp_pack *pack, double value)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    mtp__pack_number(pack, MTP_INPUT_FLOAT, bits);
}

/* A list of numbers. dtype: see MTP_INPUT_INT_LIST. */
MTP__INLINE void mtp_pack_numbers(mtp_pack *pack, mtp_dtype dtype, uint32_t count, const int64_t *values)
{
    uint64_t *at =
        mtp__pack_take(pack, MTP_INPUT_INT_LIST | (uint64_t)dtype << 8 | (uint64_t)count << 32, count);
    for (uint32_t i = 0; at != NULL && i < count; i++)
        mtp__pack_put(pack, at + i, (uint64_t)values[i]);
}

MTP__INLINE void mtp_pack_text(mtp_pack *pack, const char *text, uint32_t length)
{
    uint64_t *at = mtp__pack_take(pack, MTP_INPUT_TEXT | (uint64_t)length << 32, ((uint64_t)length + 7) / 8);
    for (uint32_t i = 0; at != NULL && i < length; i += 8) {
        uint64_t word = 0;
        __builtin_memcpy(&word, text + i, length - i < 8 ? length - i : 8);
        mtp__pack_put(pack, at + i / 8, word);
    }
}
#if defined(__clang__) && defined(__cplusplus)
#pragma clang diagnostic pop
#endif

/* ---------------------------------------------------------------------------------------- other tools */

/* Tools that show ranges of a program: Intel VTune (ITT) and NVIDIA Nsight (NVTX). They name their collector in the
 * environment, INTEL_LIBITTNOTIFY64 and NVTX_INJECTION64_PATH. Without one, the calls below do nothing. */
typedef enum mtp_tool {
    MTP_TOOL_ITT = 0,
    MTP_TOOL_NVTX = 1
} mtp_tool;

MTP_API bool mtp_tool_attached(mtp_tool tool); /* is there a collector? Loads it at the first call */

/* From start to stop, ops and scopes of all threads are ranges of the tool, except while a profile records: then
 * they are its events, and nothing else. With NVTX, a range's text has the op's sequence number, a number for each
 * call and, with record_shapes, the sizes of its inputs: "aten::mm, seq = 5, op_id = 7, sizes = [[2, 3], [3, 4]]".
 * A second start fails with MTP_E_BUSY. */
MTP_API mtp_status mtp_emit_start(mtp_tool tool, bool record_shapes);
MTP_API void mtp_emit_stop(void);

/* A range or mark of the program's own. push and pop return the range's level, negative if the tool does not say. */
MTP_API int mtp_tool_push(mtp_tool tool, const char *text);
MTP_API int mtp_tool_pop(mtp_tool tool);
MTP_API void mtp_tool_mark(mtp_tool tool, const char *text);

/* ------------------------------------------------------------------------------------------ on demand */

/* From now on `mtprof trigger PID` can record this process, and so can other programs of the same user, or of root: one
 * thread, with all signals blocked, sleeps on a socket in a folder that only the user can enter. Forked children listen,
 * too. MTPROF_LISTEN=1 in the environment does the same when the library is loaded. Nothing is recorded until asked for. */
MTP_API mtp_status mtp_listen(void);

typedef struct mtp_listener {
    size_t size; /* sizeof(mtp_listener) */
    uint64_t pid;
    uint32_t uid;
    bool recording; /* now, by whichever profile */
    bool stopped;   /* by Ctrl-Z, or a debugger: it cannot answer; recording is unknown */
} mtp_listener;
/* The processes that listen: this user's; for root, everybody's. size: sizeof(mtp_listener). *count may exceed room. */
MTP_API mtp_status mtp_listeners(mtp_listener *out, size_t size, size_t room, size_t *count);

typedef struct mtp_trigger {
    size_t size; /* sizeof(mtp_trigger) */
    uint64_t ns; /* how long to record */
    bool shapes, memory, stacks;
    uint64_t budget;               /* memory for records; 0: 256 MiB */
    const char *spool;             /* absolute path of the file that the process writes, as its own user */
    void (*started)(void *user);   /* it is recording now; or NULL */
    bool (*is_enough)(void *user); /* asked while it records: true ends it now; or NULL */
    void *user;                    /* borrowed */
} mtp_trigger;
#define MTP_TRIGGER_INIT                                                                                     \
    {                                                                                                        \
        sizeof(mtp_trigger), 5000000000u, false, false, false, 0, NULL, NULL, NULL, NULL                     \
    }
/* Has a process that listens record itself, and returns when it has: then the process is as it was before, or has ended;
 * the file has what it did until then. If this process ends first, the recording ends with it. */
MTP_API mtp_status mtp_trigger_process(uint64_t pid, const mtp_trigger *trigger);

/* For our own agents. A detached thread, with a small stack and signals blocked; and whether only such threads are left in
 * a process whose main thread is gone: it should end then. */
MTP_API mtp_status mtp__own_thread(void (*body)(void));
MTP_API bool mtp__is_last_thread(void);
MTP_API void mtp__install_handlers(void); /* for fork and exit: who does so later has younger ones */

#ifdef __cplusplus
}
#endif
#endif
