/* record/events.c - the recording calls. Each one enters, reads the gate, writes one record and leaves.
 *
 * mtp__scope_begin and mtp__scope_end are the hot path proper (bench: scope_pair_ns). Each has one branch for
 * all its rare cases, which take the general form below.
 */
#define _GNU_SOURCE
#include <string.h>
#include "record/details.h"
#include "base/abi.h"
#include "record/emit/emit.h"
#include "record/epoch.h"
#include "record/profile.h"
#include "record/recorder.h"
#include "record/writer.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define WORDS_MAX 12
#define TENSORS_MAX 6u /* per record, which has 15 words */
#define PUT_WORD(mask, bit, value) (*(mask) |= (bit), words[count++] = (uint64_t)(value))

/* Writes a record into the room reserved for it; word 0 is made here. */
static inline void fill(mtp__writer *w, uint64_t *at, uint32_t gate, mtp__kind kind, const uint64_t *words,
                        size_t count)
{
    for (size_t i = 1; i < count; i++)
        at[i] = words[i];
    mtp__writer_commit(w, at, count, MTP__WORD0(mtp__writer_ticks(gate), count, kind));
}

/* false: there is no room, which is counted. */
static inline bool put(mtp__writer *w, uint32_t gate, mtp__kind kind, const uint64_t *words, size_t count)
{
    uint64_t *at = mtp__writer_reserve(w, count);
    if (at != NULL)
        fill(w, at, gate, kind, words, count);
    return at != NULL;
}

/* The token of a scope that was dropped: a scope is two records, so its end counts as well. 0: the thread has
 * not joined this recording. */
static __attribute__((noinline)) mtp_token begin_dropped(const mtp__writer *w)
{
    return w->token != 0 ? mtp__token_tie(w->token) | (mtp_token)MTP__SLOT_DROPPED << 32 : 0;
}

/* Writes a begin and returns its token. The caller is still inside the record, because stop() may clear the
 * token as soon as the writer is at rest. */
static inline mtp_token put_begin(mtp__writer *w, uint32_t gate, const uint64_t *words, size_t count)
{
    if (!put(w, gate, MTP__KIND_BEGIN, words, count))
        return begin_dropped(w);
    mtp_token token = w->token;
    w->token = token + MTP__TOKEN_SLOT;
    return token;
}

/* These also leave the record. */
static void emit(mtp__writer *w, uint32_t gate, mtp__kind kind, const uint64_t *words, size_t count)
{
    put(w, gate, kind, words, count);
    mtp__writer_leave(w);
}

/* Not inlined: that would add 4 ns to mtp__op_begin (bench: op_pair_ns). */
static __attribute__((noinline)) mtp_token emit_begin(mtp__writer *w, uint32_t gate, const uint64_t *words,
                                                      size_t count)
{
    mtp_token token = put_begin(w, gate, words, count);
    mtp__writer_leave(w);
    return token;
}

/* After entering: stays inside and sets *gate if one of `wanted` is being recorded; else leaves and returns
 * NULL. */
static inline mtp__writer *stay(mtp__writer *w, uint32_t wanted, uint32_t *gate)
{
    *gate = mtp__gate_read();
    if ((*gate & wanted) != 0) {
        if (UNLIKELY((*gate & MTP__GATE_LOOK) != 0))
            mtp__writer_fresh(w);
        return w;
    }
    mtp__writer_leave(w);
    return NULL;
}

static inline mtp__writer *enter(uint32_t wanted, uint32_t *gate)
{
    return mtp__writer_enter(&mtp__self) ? stay(&mtp__self, wanted, gate) : NULL;
}

/* A record of its own, if one of `wanted` is being recorded. Inlined: enter() marks this place on the stack. */
static inline __attribute__((always_inline)) void record(uint32_t wanted, mtp__kind kind,
                                                         const uint64_t *words, size_t count)
{
    uint32_t gate;
    mtp__writer *w = enter(wanted, &gate);
    if (w != NULL)
        emit(w, gate, kind, words, count);
}

/* The thread's entry in the registry, before anything of the session is used; NULL: it has none. */
static mtp__thread *thread_in(mtp__writer *w)
{
    return UNLIKELY(w->token == 0) && !mtp__writer_join(w) ? NULL : w->thread;
}

/* ------------------------------------------------------------------------------------------- scopes */

/* A scope with the attributes that the gate requests; the writer is entered. */
static __attribute__((noinline)) mtp_token begin_rare(mtp__writer *w, uint32_t gate, uint32_t name,
                                                      const void *caller)
{
    uint64_t words[3];
    size_t count = 2;
    uint32_t mask = 0;
    if ((gate & MTP_CPU) == 0) {
        mtp__writer_leave(w);
        return mtp__emit_begin(NULL, name, NULL, 0);
    }
    if ((gate & MTP__GATE_LOOK) != 0)
        mtp__writer_fresh(w);
    if ((gate & MTP_WITH_STACK) != 0) {
        mtp__thread *t = thread_in(w);
        if (t == NULL) {
            mtp__writer_leave(w);
            return 0;
        }
        if ((name & 0x80000000u) == 0) /* no id of the session is held yet */
            mtp__epoch_check(w->recorder, t);
        words[count++] = (uint64_t)mtp__stack_id(w->recorder, t, caller, MTP__STACK_DEPTH_MAX) << 32;
        mask = MTP__HAS_DETAIL;
    }
    words[1] = MTP__BEGIN_WORD1(name, MTP_SCOPE_USER, mask, MTP_DEVICE_CPU);
    return emit_begin(w, gate, words, count);
}

/* Inside another record; or that record was abandoned by a jump, and this one may proceed. */
static __attribute__((noinline)) mtp_token begin_again(uint32_t name)
{
    return mtp__writer_again(&mtp__self, __builtin_dwarf_cfa()) ? mtp__scope_begin(name) : 0;
}

mtp_token mtp__scope_begin(uint32_t name)
{
    mtp__writer *w = &mtp__self;
    if (!mtp__writer_try(w))
        return begin_again(name);
    uint32_t gate = mtp__gate_read();
    uint64_t *at; /* not read while the gate is closed: then stop() owns it */
    if (UNLIKELY((gate & (MTP_CPU | MTP_WITH_STACK | MTP__GATE_RARE)) != MTP_CPU ||
                 (size_t)(w->end - (at = w->cur)) < 2))
        return begin_rare(w, gate, name, __builtin_return_address(0));
    at[1] = MTP__BEGIN_WORD1(name, MTP_SCOPE_USER, 0, MTP_DEVICE_CPU);
    mtp__writer_commit(w, at, 2, MTP__WORD0(mtp__clock_ticks_fast(), 2, MTP__KIND_BEGIN));
    mtp_token token = w->token;
    w->token = token + MTP__TOKEN_SLOT;
    mtp__writer_leave(w);
    return token;
}

/* An end on the thread and in the cycle of its begin; words from 2 on are filled, according to mask. The
 * scope begun last ends without naming its slot and frees it; any other names its slot. If there is no room
 * for the record, the scope ends all the same: the next chunk says that records were lost, and how deep the
 * thread is by then. */
static inline void emit_end(mtp__writer *w, uint32_t gate, mtp_token token, uint64_t *words, size_t count,
                            uint32_t mask)
{
    bool last = token + MTP__TOKEN_SLOT == w->token;
    words[1] = last ? MTP__BEGIN_WORD1(0, 0, mask, 0) : MTP__END_WORD1(token >> 32, mask);
    count = last && mask == 0 ? 1 : count;
    uint64_t *at = mtp__writer_reserve(w, count); /* which may find that another cycle has begun */
    if (mtp__token_tie(token) == mtp__token_tie(w->token)) {
        if (at != NULL)
            fill(w, at, gate, MTP__KIND_END, words, count);
        if (last)
            w->token = token;
    }
    mtp__writer_leave(w);
}

/* After entering. Is this a scope of this recording that can be ended? If not, leaves. */
static bool may_end(mtp__writer *w, uint32_t gate, mtp_token token)
{
    if ((gate & MTP__GATE_LOOK) != 0)
        mtp__writer_fresh(w);
    if ((gate & MTP__GATE_OPEN) != 0 && token != 0 && mtp__token_tie(token) == mtp__token_tie(w->token)) {
        if (!mtp__token_is_dropped(token))
            return true;
        mtp__writer_drop(w, w->why);
    }
    mtp__writer_leave(w);
    return false;
}

static __attribute__((noinline, cold)) void end_emitted(mtp_token token)
{
    if (token == MTP__TOKEN_EMITTED)
        mtp__emit_end();
}

static __attribute__((noinline)) void end_rare(mtp__writer *w, uint32_t gate, mtp_token token)
{
    uint64_t words[2];
    if (may_end(w, gate, token))
        emit_end(w, gate, token, words, 2, 0);
    else
        end_emitted(token);
}

static __attribute__((noinline)) void end_again(mtp_token token)
{
    if (mtp__writer_again(&mtp__self, __builtin_dwarf_cfa()))
        mtp__scope_end(token);
}

void mtp__scope_end(mtp_token token)
{
    mtp__writer *w = &mtp__self;
    if (!mtp__writer_try(w)) {
        end_again(token);
        return;
    }
    uint32_t gate = mtp__gate_read();
    uint64_t *at;
    if (UNLIKELY((gate & (MTP__GATE_OPEN | MTP__GATE_RARE)) != MTP__GATE_OPEN ||
                 token + MTP__TOKEN_SLOT != w->token || w->end == (at = w->cur))) {
        end_rare(w, gate, token);
        return;
    }
    mtp__writer_commit(w, at, 1, MTP__WORD0(mtp__clock_ticks_fast(), 1, MTP__KIND_END));
    w->token = token;
    mtp__writer_leave(w);
}

mtp_token mtp__scope_begin_text(const char *text, size_t length)
{
    uint32_t gate;
    mtp__writer *w = enter(MTP_CPU, &gate);
    if (w == NULL)
        return mtp__emit_begin(NULL, 0, text, length);
    if (thread_in(w) == NULL) {
        mtp__writer_leave(w);
        return 0;
    }
    mtp__epoch_check(w->recorder, w->thread);
    uint32_t name = mtp__session_name_id(w->recorder, w->thread, text, length);
    return begin_rare(w, gate, name, __builtin_return_address(0));
}

/* ---------------------------------------------------------------------------------------------- ops */

typedef struct tensors_out {
    mtp__writer *w;
    uint32_t gate, signature, count, tie;
    bool more;
    uint64_t words[2 + 2 * TENSORS_MAX];
} tensors_out;

static void put_tensors(tensors_out *o)
{
    if (mtp__token_tie(o->w->token) != o->tie)
        return; /* the signature's recording has ended */
    o->words[1] = o->signature | (uint64_t)o->count << 32 | (uint64_t)o->more << 40;
    put(o->w, o->gate, MTP__KIND_TENSORS, o->words, 2 + 2 * (size_t)o->count);
    o->more = true;
    o->count = 0;
}

static void put_tensor(tensors_out *o, const mtp_identity *id, uint64_t dtype)
{
    uint64_t *at = o->words + 2 + 2 * (size_t)o->count++;
    at[0] = (id->tensor & (((uint64_t)1 << 48) - 1)) | (uint64_t)(id->device & 0xffffu) << 48;
    at[1] = (id->storage & (((uint64_t)1 << 56) - 1)) | dtype << 56;
    if (o->count == TENSORS_MAX)
        put_tensors(o);
}

static void put_input(tensors_out *o, const mtp_input *in)
{
    static const mtp_identity unknown;
    bool is_known = in->kind == MTP_INPUT_TENSOR && in->value.identity != NULL;
    put_tensor(o, is_known ? in->value.identity : &unknown, in->dtype);
}

/* Identifies the input tensors, after the record that they belong to; the items of a list are listed singly.
 * Unknown identities are 0. */
static __attribute__((noinline)) void identify(mtp__writer *w, uint32_t gate, uint32_t signature,
                                               const mtp_input *in, uint32_t count)
{
    tensors_out o = {.w = w, .gate = gate, .signature = signature, .tie = mtp__token_tie(w->token)};
    for (uint32_t i = 0; i < count; i++) {
        if (in[i].kind == MTP_INPUT_TENSOR)
            put_input(&o, &in[i]);
        for (uint32_t k = 0; in[i].kind == MTP_INPUT_TENSOR_LIST && k < in[i].count; k++)
            put_input(&o, &in[i].value.items[k]);
    }
    if (o.count > 0 || (signature != 0 && !o.more))
        put_tensors(&o);
}

static void identify_packed(mtp__writer *w, uint32_t gate, const mtp_identity *id, uint32_t count)
{
    tensors_out o = {.w = w, .gate = gate, .tie = mtp__token_tie(w->token)};
    for (uint32_t i = 0; i < count; i++)
        put_tensor(&o, &id[i], id[i].dtype);
    if (o.count > 0)
        put_tensors(&o);
}

static inline uint64_t shape_of(const mtp_op *op, const mtp__writer *w)
{
    if ((op->flags & MTP_OP_PACKED) != 0)
        return mtp__shape_id_packed(w->recorder, w->thread, (mtp_pack *)(uintptr_t)op->inputs);
    return op->input_count != 0 ? mtp__shape_id(w->recorder, w->thread, op->inputs, op->input_count) : 0;
}

/* Of an op or call: its shape and its stack, as the gate requests. */
static inline uint64_t detail_of(const mtp_op *op, mtp__writer *w, uint32_t gate, const void *caller)
{
    uint64_t shape = (gate & MTP_WITH_SHAPES) != 0 ? shape_of(op, w) : 0;
    if ((gate & MTP_WITH_STACK) == 0)
        return shape;
    /* Of a call of Python the function and its caller: the calls around it are events, too. */
    bool is_call = op->kind == MTP_SCOPE_PYTHON || op->kind == MTP_SCOPE_MODULE;
    uint32_t most = is_call ? 2 : MTP__STACK_DEPTH_MAX;
    return shape | (uint64_t)mtp__stack_id(w->recorder, w->thread, caller, most) << 32;
}

/* Has the op nothing but a name, a sequence number, inputs and a stack, is that all that is recorded, and does the chunk
 * have room for it? Answered before its details are looked up, which is done once. */
static inline bool is_simple(const mtp_op *op, const mtp__writer *w, uint32_t gate)
{
    return (gate & MTP__GATE_SLOW) == 0 && op->allocated < 0 && (op->flags & MTP_OP_IDENTIFIED) == 0 &&
           (op->forward_thread | op->correlation | op->flops | (uintptr_t)op->args) == 0 &&
           (size_t)(w->end - w->cur) >= 4;
}

/* Such an op, with its words written in place. Returns true. */
static inline __attribute__((always_inline)) bool begin_simple(mtp_op *op, mtp__writer *w, uint32_t name,
                                                               bool has_detail, uint64_t detail)
{
    uint64_t *at = w->cur;
    size_t count = 2;
    uint32_t mask = 0;
    if (op->sequence >= 0) {
        mask = MTP__HAS_SEQUENCE;
        at[count++] = (uint64_t)op->sequence;
    }
    if (has_detail) {
        mask |= MTP__HAS_DETAIL;
        at[count++] = detail;
    }
    at[1] = MTP__BEGIN_WORD1(name, op->kind & 0xffu, mask, op->device & 0xffffu);
    mtp__writer_commit(w, at, count, MTP__WORD0(mtp__clock_ticks_fast(), count, MTP__KIND_BEGIN));
    op->token = w->token;
    w->token = op->token + MTP__TOKEN_SLOT;
    mtp__writer_leave(w);
    return true;
}

/* Not inlined: that would add 9 ns to ops without stacks. */
static __attribute__((noinline)) bool begin_stacked(mtp_op *op, mtp__writer *w, uint32_t gate, uint32_t name,
                                                    const void *caller)
{
    return is_simple(op, w, gate) && begin_simple(op, w, name, true, detail_of(op, w, gate, caller));
}

static inline __attribute__((always_inline)) size_t op_payload(const mtp_op *op, mtp__writer *w,
                                                               uint32_t gate, uint64_t *words, uint32_t *mask,
                                                               const void *caller)
{
    mtp__recorder *r = w->recorder;
    size_t count = 2;
    if (op->sequence >= 0)
        PUT_WORD(mask, MTP__HAS_SEQUENCE, op->sequence);
    if (op->forward_thread != 0)
        PUT_WORD(mask, MTP__HAS_FORWARD, op->forward_thread);
    if ((gate & (MTP_WITH_SHAPES | MTP_WITH_STACK)) != 0)
        PUT_WORD(mask, MTP__HAS_DETAIL, detail_of(op, w, gate, caller));
    if ((gate & MTP_WITH_MEMORY) != 0 && op->allocated >= 0)
        PUT_WORD(mask, MTP__HAS_ALLOCATED, op->allocated);
    if (op->correlation != 0)
        PUT_WORD(mask, MTP__HAS_CORRELATION, op->correlation);
    if ((gate & MTP_WITH_FLOPS) != 0 && op->flops != 0)
        PUT_WORD(mask, MTP__HAS_FLOPS, op->flops);
    if (op->args != NULL)
        PUT_WORD(mask, MTP__HAS_ARGS, mtp__text_id(r, op->args));
    return count;
}

static __attribute__((noinline)) mtp_token begin_identified(const mtp_op *op, mtp__writer *w, uint32_t gate,
                                                            const uint64_t *words, size_t count)
{
    mtp_token token = put_begin(w, gate, words, count);
    bool is_kept = token != 0 && !mtp__token_is_dropped(token);
    if (is_kept && (op->flags & MTP_OP_PACKED) != 0)
        identify_packed(w, gate, op->identities, op->identity_count);
    else if (is_kept)
        identify(w, gate, 0, op->inputs, op->input_count);
    mtp__writer_leave(w);
    return token;
}

/* What mtp_op was in 0.1: the members after that are read only with flags that 0.1 did not have. */
#define OP_SIZE_0_1 offsetof(mtp_op, identity_count)

static __attribute__((noinline, cold)) void begin_emitted(mtp_op *op, const char *text, size_t length)
{
    if (op->size >= OP_SIZE_0_1)
        op->token = mtp__emit_begin(op, op->name, text, length);
}

/* Leaves without a record. */
static __attribute__((noinline, cold)) void leave_without(mtp__writer *w, bool is_wrong)
{
    if (is_wrong && thread_in(w) != NULL)
        mtp__writer_drop(w, MTP_DROP_ABI);
    mtp__writer_leave(w);
}

/* text: its name; NULL: op->name is used. */
static inline __attribute__((always_inline)) void begin_op(mtp_op *op, const char *text, size_t length,
                                                           const void *caller)
{
    uint32_t gate, mask = 0;
    uint64_t words[WORDS_MAX];
    op->token = 0;
    mtp__writer *w = enter(MTP_CPU, &gate);
    if (UNLIKELY(w == NULL)) {
        begin_emitted(op, text, length);
        return;
    }
    if (UNLIKELY(op->size < OP_SIZE_0_1) || thread_in(w) == NULL) {
        leave_without(w, op->size < OP_SIZE_0_1);
        return;
    }
    mtp__recorder *r = w->recorder;
    mtp__epoch_check(r, w->thread);
    uint32_t name = text != NULL ? mtp__session_name_id(r, w->thread, text, length) : op->name;
    bool with_shapes = (gate & MTP_WITH_SHAPES) != 0;
    if ((gate & MTP_WITH_STACK) != 0
            ? begin_stacked(op, w, gate, name, caller)
            : is_simple(op, w, gate) &&
                  begin_simple(op, w, name, with_shapes, with_shapes ? shape_of(op, w) : 0))
        return;
    size_t count = op_payload(op, w, gate, words, &mask, caller);
    words[1] = MTP__BEGIN_WORD1(name, op->kind & 0xffu, mask, op->device & 0xffffu);
    if (UNLIKELY((op->flags & MTP_OP_IDENTIFIED) != 0) && (gate & MTP_WITH_SHAPES) != 0) {
        op->token = begin_identified(op, w, gate, words, count);
        return;
    }
    op->token = emit_begin(w, gate, words, count);
}

void mtp__op_begin(mtp_op *op)
{
    begin_op(op, NULL, 0, __builtin_return_address(0));
}

void mtp__op_begin_text(mtp_op *op, const char *text, size_t length)
{
    begin_op(op, text, length, __builtin_return_address(0));
}

void mtp__op_hold(const mtp_op *op, const mtp_input *inputs, uint32_t count)
{
    uint32_t gate;
    mtp__writer *w = enter(MTP_CPU, &gate);
    if (w == NULL)
        return;
    if (op->token != 0 && op->token + MTP__TOKEN_SLOT == w->token) { /* begun last */
        mtp__epoch_check(w->recorder, w->thread);
        uint32_t signature = mtp__shape_id(w->recorder, w->thread, inputs, count);
        w->thread->no_turn = true;
        if (signature != 0)
            identify(w, gate, signature, inputs, count);
        w->thread->no_turn = false;
    }
    mtp__writer_leave(w);
}

void mtp__op_end(mtp_op *op)
{
    mtp__writer *w = &mtp__self;
    mtp_token token = op->token;
    op->token = 0;
    if (!mtp__writer_enter(w))
        return;
    uint32_t gate = mtp__gate_read(), mask = 0;
    if (UNLIKELY(!may_end(w, gate, token))) {
        end_emitted(token);
        return;
    }
    uint64_t words[4];
    size_t count = 2;
    if ((gate & MTP_WITH_SHAPES) != 0 && op->output_count > 0) {
        mtp__epoch_check(w->recorder, w->thread);
        PUT_WORD(&mask, MTP__HAS_DETAIL,
                 mtp__shape_id(w->recorder, w->thread, op->outputs, op->output_count));
    }
    if ((gate & MTP_WITH_MEMORY) != 0 && op->allocated >= 0)
        PUT_WORD(&mask, MTP__HAS_ALLOCATED, op->allocated);
    emit_end(w, gate, token, words, count, mask);
}

/* --------------------------------------------------------------------------- memory, device, marks */

/* CPU memory belongs to the CPU activity, device memory to the device's. */
static inline mtp__writer *stay_for_memory(mtp_device device, uint32_t *gate)
{
    mtp__writer *w = stay(&mtp__self, MTP_DEVICE_TYPE(device) == 0 ? MTP_CPU : MTP_NPU, gate);
    if (w == NULL || (*gate & MTP_WITH_MEMORY) != 0)
        return w;
    mtp__writer_leave(w);
    return NULL;
}

/* A separate call, like begin_again, keeps its registers out of the common case (bench: memory_event_ns). What the
 * unwinder and stack providers allocate for a record is ours, not the program's: nothing of the program's is lost. */
static __attribute__((noinline)) void memory_again(mtp_device device, const void *ptr, int64_t bytes,
                                                   uint64_t total_allocated, uint64_t total_reserved)
{
    const void *from = __builtin_dwarf_cfa();
    bool ours = mtp__self.thread != NULL && mtp__self.thread->in_stack;
    if (ours ? mtp__writer_left(&mtp__self, from) : mtp__writer_again(&mtp__self, from))
        mtp__memory_event(device, ptr, bytes, total_allocated, total_reserved);
}

void mtp__memory_event(mtp_device device, const void *ptr, int64_t bytes, uint64_t total_allocated,
                       uint64_t total_reserved)
{
    uint32_t gate;
    if (!mtp__writer_try(&mtp__self)) {
        memory_again(device, ptr, bytes, total_allocated, total_reserved);
        return;
    }
    mtp__writer *w = stay_for_memory(device, &gate);
    if (w == NULL)
        return;
    uint64_t words[] = {0,
                        (uint64_t)device << 48,
                        (uint64_t)(uintptr_t)ptr,
                        (uint64_t)bytes,
                        total_allocated,
                        total_reserved};
    emit(w, gate, MTP__KIND_MEMORY, words, 6);
}

void mtp__memory_tag(mtp_device device, const void *ptr, mtp_memory_category category)
{
    uint32_t gate;
    mtp__writer *w = mtp__writer_enter(&mtp__self) ? stay_for_memory(device, &gate) : NULL;
    uint64_t words[] = {0, (uint64_t)category | (uint64_t)device << 48, (uint64_t)(uintptr_t)ptr};
    if (w != NULL)
        emit(w, gate, MTP__KIND_TAG, words, 3);
}

void mtp__memory_existing(mtp_device device, const void *ptr, uint64_t bytes, mtp_memory_category category)
{
    uint32_t gate;
    mtp__writer *w = mtp__writer_enter(&mtp__self) ? stay_for_memory(device, &gate) : NULL;
    uint64_t words[] = {0, (uint64_t)category | (uint64_t)device << 48, (uint64_t)(uintptr_t)ptr, bytes};
    if (w != NULL)
        emit(w, gate, MTP__KIND_EXISTING, words, 4);
}

void mtp__device_event(const mtp_device_work *k)
{
    uint32_t gate;
    mtp__writer *w = enter(MTP_NPU, &gate);
    if (w == NULL)
        return;
    if (UNLIKELY(k->size < MTP__ABI_UNTIL(mtp_device_work, reserved))) {
        leave_without(w, true);
        return;
    }
    uint64_t words[11] = {0,
                          k->name | (uint64_t)(k->kind & 0xffu) << 32 | (uint64_t)(k->clock & 0xffu) << 40 |
                              (uint64_t)(k->device & 0xffffu) << 48,
                          k->start,
                          k->end,
                          k->stream,
                          k->correlation,
                          k->bytes,
                          k->queued};
    size_t count = 8;
    if (k->grid[0] != 0) {
        words[count++] = k->grid[0] | (uint64_t)k->grid[1] << 32;
        words[count++] = k->grid[2] | (uint64_t)k->block[0] << 32;
        words[count++] = k->block[1] | (uint64_t)k->block[2] << 32;
    }
    emit(w, gate, MTP__KIND_DEVICE, words, count);
}

void mtp__device_clock(mtp_device device, uint64_t device_ns, uint64_t host_ticks, uint64_t error_ns)
{
    uint64_t words[] = {0, (uint64_t)device << 48, device_ns, host_ticks, error_ns};
    record(MTP_NPU, MTP__KIND_DEVICE_CLOCK, words, 5);
}

void mtp__mark(uint32_t name)
{
    uint64_t words[] = {0, name};
    record(MTP_CPU, MTP__KIND_MARK, words, 2);
}

void mtp__counter(uint32_t name, double value)
{
    uint64_t words[] = {0, name, 0};
    memcpy(&words[2], &value, sizeof value);
    record(MTP_CPU, MTP__KIND_COUNTER, words, 3);
}

uint64_t mtp_correlation_next(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* -------------------------------------------------------------------------------------------- steps */

void mtp__step_mark(uint64_t number)
{
    uint64_t words[] = {0, number};
    record(MTP__GATE_OPEN, MTP__KIND_STEP, words, 2);
}

mtp_token mtp__step_begin(uint32_t name, uint64_t number)
{
    uint32_t gate;
    mtp__writer *w = enter(MTP_CPU, &gate);
    uint64_t words[] = {0, MTP__BEGIN_WORD1(name, MTP_SCOPE_STEP, MTP__HAS_NUMBER, MTP_DEVICE_CPU), number};
    return w != NULL ? emit_begin(w, gate, words, 3) : 0;
}
