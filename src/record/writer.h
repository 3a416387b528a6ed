/* record/writer.h - the hot path: one thread's end of its stream.
 *
 * A record is written between enter and leave. `busy` excludes two others meanwhile: a signal handler or
 * callback on the same thread, which sees it set, is refused and counted; and stop(), which closes the gate
 * and then waits until no writer is busy (registry.c: rest). The gate is read after `busy` is set; a heavy
 * barrier on stop's side enforces that order, so that none is needed here, on any processor. Where the kernel
 * has none (and is not x86-64's), the gate says so, and the record has a fence (MTP__GATE_FENCE).
 *
 * A record may be left without its end: a handler jumps out, or an exception of a stack provider passes
 * through. `busy` is the stack pointer of the record, so a later call whose frame is not below it knows that
 * the record was left (mtp__writer_left).
 *
 * Accessed only by its thread, except at rest, when the holder of the registry's lock owns all writers.
 */
#ifndef MTP_RECORD_WRITER_H
#define MTP_RECORD_WRITER_H
#include <mtprof.h>
#include <stdatomic.h>
#include "base/clock.h"
#include "base/guard.h"
#include "base/testpoint.h"
#include "record/format.h"

struct mtp__thread;
struct mtp__recorder;

typedef struct mtp__writer {
    uint64_t *cur, *end;        /* free words of the current chunk; NULL: none */
    _Atomic uint64_t written;   /* records, in this thread's life in the recorder */
    _Atomic uint64_t busy;      /* stack pointer of the record being written; 0: none. pairs: rest, busy */
    mtp_token token;            /* of the next scope; 0: has not recorded in this cycle yet */
    _Atomic uint64_t sealed;    /* of `written`: those before the current chunk */
    mtp__chunk *chunk;          /* borrowed from the pool */
    struct mtp__thread *thread; /* owned; NULL: not in the registry */
    struct mtp__recorder *recorder; /* borrowed: of the token; stays valid, even if no longer current */
    uint32_t gone;                  /* its thread is ending and has left the registry */
    mtp_drop why;                   /* cause of the last drop for lack of room */
    _Atomic uint64_t dropped[MTP_DROP_CAUSES];
} mtp__writer;

/* A token: its low half, never 0, ties it to this thread in this cycle; its high half is the scope's slot. So
 * one compare tells whether an end belongs to the scope begun last, here and now. */
#define MTP__TOKEN_SLOT ((mtp_token)1 << 32)
static inline uint32_t mtp__token_tie(mtp_token token)
{
    return (uint32_t)token;
}

/* The slot of a dropped scope, whose end is dropped and counted, too. Depths do not get there. */
#define MTP__SLOT_DROPPED 0xfffffffeu
static inline bool mtp__token_is_dropped(mtp_token token)
{
    return token >> 32 == MTP__SLOT_DROPPED;
}

extern _Thread_local mtp__writer mtp__self __attribute__((tls_model("initial-exec")));

/* The gate: what is being recorded. It fills a page that is zeroed in a child made by any kind of fork. */
#define MTP__GATE_OPEN 0x80000000u   /* a cycle is being recorded, whatever is toggled off */
#define MTP__GATE_SLOW 0x00010000u   /* ticks must come from the slow read */
#define MTP__GATE_STRAYS 0x00020000u /* a stuck thread may return with a chunk of an earlier cycle */
#define MTP__GATE_TAKING 0x00040000u /* chunks of threads at rest are being reclaimed (reclaim.c): wait */
#define MTP__GATE_FENCE 0x00080000u  /* no barrier reaches other threads: each record has its own */
#define MTP__GATE_LOOK (MTP__GATE_STRAYS | MTP__GATE_TAKING)
#define MTP__GATE_RARE (MTP__GATE_SLOW | MTP__GATE_LOOK)
typedef struct mtp__gate_page {
    _Alignas(4096) atomic_uint flags;
    atomic_uint ours; /* 0: wiped, this is a raw clone; chunks and file are the parent's */
    char rest[4096 - 2 * sizeof(atomic_uint)];
} mtp__gate_page;
extern mtp__gate_page mtp__gate;

#if defined(__SANITIZE_THREAD__)
#define MTP__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MTP__TSAN 1
#endif
#endif
#ifdef MTP__TSAN /* it does not model the heavy barrier: pay for the order here */
#define MTP__BUSY_ORDER memory_order_seq_cst
#define MTP__HELD_ORDER memory_order_seq_cst
#else
#define MTP__BUSY_ORDER memory_order_relaxed
#define MTP__HELD_ORDER memory_order_acquire
#endif

/* Was this thread's call with its stack pointer at `frame` left by a jump, as seen from a call whose frame
 * begins at `from`? */
bool mtp__frame_is_gone(uintptr_t frame, uintptr_t from);
/* `busy` is set. true: the record was left by a jump, as seen from a call whose frame begins at `from`; the
 * writer has been repaired. FRAME_NONE: the thread has no frames any more. */
#define MTP__FRAME_NONE ((const char *)NULL + UINTPTR_MAX)
bool mtp__writer_left(mtp__writer *w, const void *from);
/* The same; if false, counts a refused record: it is inside another one of this thread. */
bool mtp__writer_again(mtp__writer *w, const void *from);
/* Joins the registry and this recording. false: failed, which is counted. */
bool mtp__writer_join(mtp__writer *w);
/* With MTP__GATE_LOOK: releases the writer's chunk if it is of an earlier cycle, and waits until chunks have
 * been reclaimed. */
void mtp__writer_fresh(mtp__writer *w);
/* Room for `words` in a new chunk; NULL: not recorded, and counted where necessary. */
uint64_t *mtp__writer_refill(mtp__writer *w, size_t words);

#define MTP__BUSY_ANYWHERE 1u /* busy, at an unknown place, or never to be considered left */
static inline void mtp__writer_mark(mtp__writer *w)
{
#if defined(__x86_64__) && !defined(MTP__TSAN)
    __asm__ volatile("movq %%rsp, %0" : "=m"(w->busy)); /* no more instructions than storing a constant */
#else
    uint64_t here;
#if defined(__x86_64__)
    __asm__ volatile("movq %%rsp, %0" : "=r"(here));
#elif defined(__aarch64__)
    __asm__ volatile("mov %0, sp" : "=r"(here));
#else
    here = (uintptr_t)__builtin_frame_address(0); /* not below the stack pointer, nor above the caller's */
#endif
    atomic_store_explicit(&w->busy, here, MTP__BUSY_ORDER);
#endif
    atomic_signal_fence(memory_order_seq_cst);
}

/* false: the thread is inside a record. */
static inline bool mtp__writer_try(mtp__writer *w)
{
    if (__builtin_expect(atomic_load_explicit(&w->busy, memory_order_relaxed) != 0, 0))
        return false;
    mtp__writer_mark(w);
    return true;
}

static inline bool mtp__writer_enter(mtp__writer *w)
{
    if (__builtin_expect(atomic_load_explicit(&w->busy, memory_order_relaxed) != 0, 0) &&
        !mtp__writer_again(w, __builtin_dwarf_cfa()))
        return false;
    mtp__writer_mark(w);
    return true;
}

/* Was the caller called from inside a record? */
static inline bool mtp__writer_inside(const void *from)
{
    return atomic_load_explicit(&mtp__self.busy, memory_order_relaxed) != 0 &&
           !mtp__writer_left(&mtp__self, from);
}

static inline void mtp__writer_leave(mtp__writer *w)
{
    atomic_store_explicit(&w->busy, 0, memory_order_release); /* pairs: rest, busy */
}

/* A cold call that takes a lock does so inside a guard, and marks the writer busy like a record: a callback
 * that it makes is refused, and does not try to take the same lock. Returns the state to restore. */
typedef struct mtp__hold {
    uint64_t busy; /* as it was */
} mtp__hold;

static inline mtp__hold mtp__writer_hold(void)
{
    mtp__guard_enter();
    mtp__hold before = {atomic_load_explicit(&mtp__self.busy, memory_order_relaxed)};
    mtp__writer_mark(&mtp__self);
    return before;
}

static inline void mtp__writer_release(mtp__hold before)
{
    atomic_store_explicit(&mtp__self.busy, before.busy, memory_order_release); /* pairs: rest, busy */
    mtp__guard_leave();
}

static inline uint32_t mtp__gate_read(void)
{
#ifdef MTP__TSAN
    return atomic_load(&mtp__gate.flags);
#else
    uint32_t gate = atomic_load_explicit(&mtp__gate.flags, memory_order_acquire); /* pairs: recorder start */
#if !defined(__x86_64__)
    if (__builtin_expect((gate & MTP__GATE_FENCE) != 0,
                         0)) { /* it may have been read before `busy` was set */
        atomic_thread_fence(memory_order_seq_cst);
        gate = atomic_load_explicit(&mtp__gate.flags, memory_order_acquire);
    }
#endif
    return gate;
#endif
}

/* Room for a record, in the current chunk or a new one. */
static inline uint64_t *mtp__writer_reserve(mtp__writer *w, size_t words)
{
    uint64_t *at = w->cur;
    if (__builtin_expect((size_t)(w->end - at) < words, 0))
        return mtp__writer_refill(w, words);
    return at;
}

/* The other words are in place: publishes the record. */
static inline void mtp__writer_commit(mtp__writer *w, uint64_t *at, size_t words, uint64_t word0)
{
    w->cur = at + words;
    atomic_store_explicit(&w->written, atomic_load_explicit(&w->written, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    MTP__TESTPOINT_HOT(RECORD_RESERVED);
    __atomic_store_n(at, word0, __ATOMIC_RELEASE); /* pairs: visit, word 0 */
    MTP__TESTPOINT_HOT(RECORD_COMMITTED);
}

static inline void mtp__writer_drop(mtp__writer *w, mtp_drop cause)
{
    atomic_fetch_add_explicit(&w->dropped[cause], 1, memory_order_relaxed);
}

static inline uint64_t mtp__writer_ticks(uint32_t gate)
{
    return __builtin_expect((gate & MTP__GATE_SLOW) != 0, 0) ? mtp__clock_ticks_slow()
                                                             : mtp__clock_ticks_fast();
}
#endif
