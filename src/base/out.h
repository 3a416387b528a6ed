/* base/out.h - buffered text output to a sink: numbers without printf, failures latched.
 *
 * Two ways to write, which may be mixed:
 *   checked   mtp__out_text, mtp__out_u64 ...: any length, each call checks for room
 *   fast      char *p = mtp__out_room(o): reserves MTP__OUT_ROOM bytes; p = mtp__put_...(p, ...); o->at = p
 *
 * Once the sink has failed, output is discarded and finish() returns MTP_E_IO: callers need not check
 * earlier. One thread at a time.
 */
#ifndef MTP_BASE_OUT_H
#define MTP_BASE_OUT_H
#include <mtprof.h>
#include <string.h>

#define MTP__OUT_ROOM ((size_t)4096)

typedef struct mtp__out {
    char *at;     /* where the next byte goes */
    char *limit;  /* beyond it less than MTP__OUT_ROOM is left */
    char *buffer; /* owned */
    mtp_sink *sink;
    void *user;       /* borrowed: the sink's */
    uint64_t flushed; /* bytes before those in the buffer */
    bool failed;
} mtp__out;

mtp_status mtp__out_init(mtp__out *o, mtp_sink *sink, void *user); /* MTP_E_ARG, MTP_E_NOMEM */
/* The same for what is written, unless it is NULL: MTP_E_ARG "NAME is NULL". */
mtp_status mtp__out_begin(mtp__out *o, const void *subject, const char *name, mtp_sink *sink, void *user);
mtp_status mtp__out_finish(mtp__out *o); /* flushes the rest; always frees */
void mtp__out_flush(mtp__out *o);

static inline uint64_t mtp__out_count(const mtp__out *o) /* bytes so far */
{
    return o->flushed + (uint64_t)(o->at - o->buffer);
}

__attribute__((returns_nonnull)) static inline char *mtp__out_room(mtp__out *o)
{
    if (__builtin_expect(o->at > o->limit, 0))
        mtp__out_flush(o);
    return o->at;
}

/* ------------------------------------------------------------------------------------------- at leisure */

void mtp__out_bytes(mtp__out *o, const void *bytes, size_t length);
void mtp__out_text(mtp__out *o, const char *text);
void mtp__out_u64(mtp__out *o, uint64_t value);
void mtp__out_i64(mtp__out *o, int64_t value);
/* The shortest text that reads back as the same number, in any locale; "null" for what JSON cannot
 * represent. */
void mtp__out_double(mtp__out *o, double value);
#define MTP__OUT(o, literal) mtp__out_bytes((o), "" literal, sizeof(literal) - 1)

/* ------------------------------------------------------------------------------------------ in a hurry */

#define MTP__PUT_MAX 32 /* no number is longer */

extern const char mtp__two_digits[201];
extern const uint64_t mtp__powers_of_ten[20]; /* 1, 10, ... */

static inline unsigned mtp__digits_of(uint64_t v)
{
    v |= 1;                                                              /* as long, and not 0 */
    unsigned guess = (64u - (unsigned)__builtin_clzll(v)) * 1233u >> 12; /* log10(2) */
    return guess + (v >= mtp__powers_of_ten[guess]);
}

static inline char *mtp__put_u64(char *p, uint64_t v)
{
    unsigned n = mtp__digits_of(v);
    char *end = p + n, *q = end;
    for (; v >= 100; v /= 100)
        memcpy(q -= 2, mtp__two_digits + v % 100 * 2, 2);
    if (v >= 10)
        memcpy(q - 2, mtp__two_digits + v * 2, 2);
    else
        q[-1] = (char)('0' + v);
    return end;
}

static inline char *mtp__put_i64(char *p, int64_t v)
{
    if (v < 0)
        *p++ = '-';
    return mtp__put_u64(p, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* Thousandths: 1234567 is 1234.567; nanoseconds as microseconds. */
static inline char *mtp__put_milli(char *p, uint64_t v)
{
    unsigned rest = (unsigned)(v % 1000);
    p = mtp__put_u64(p, v / 1000);
    p[0] = '.';
    memcpy(p + 1, mtp__two_digits + rest / 10 * 2, 2);
    p[3] = (char)('0' + rest % 10);
    return p + 4;
}

/* Short text of a length unknown at compile time; 32 bytes must be readable at `from` and writable at p. */
static inline char *mtp__put_short(char *p, const char *from, size_t length)
{
    memcpy(p, from, 32);
    if (__builtin_expect(length > 32, 0))
        memcpy(p + 32, from + 32, length - 32);
    return p + length;
}

#define MTP__PUT(p, literal) ((char *)memcpy((p), "" literal, sizeof(literal) - 1) + (sizeof(literal) - 1))
#endif
