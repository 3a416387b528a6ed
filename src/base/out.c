#include "base/out.h"
#include <math.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"

#ifndef MTP__OUT_BYTES
#define MTP__OUT_BYTES ((size_t)128 << 10) /* fits the L2 cache */
#endif

#define D1(x) #x "0" #x "1" #x "2" #x "3" #x "4" #x "5" #x "6" #x "7" #x "8" #x "9"
const char mtp__two_digits[201] = D1(0) D1(1) D1(2) D1(3) D1(4) D1(5) D1(6) D1(7) D1(8) D1(9);

const uint64_t mtp__powers_of_ten[20] = {1u,
                                         10u,
                                         100u,
                                         1000u,
                                         10000u,
                                         100000u,
                                         1000000u,
                                         10000000u,
                                         100000000u,
                                         1000000000u,
                                         10000000000u,
                                         100000000000u,
                                         1000000000000u,
                                         10000000000000u,
                                         100000000000000u,
                                         1000000000000000u,
                                         10000000000000000u,
                                         100000000000000000u,
                                         1000000000000000000u,
                                         10000000000000000000u};

mtp_status mtp__out_init(mtp__out *o, mtp_sink *sink, void *user)
{
    memset(o, 0, sizeof *o);
    if (sink == NULL)
        return MTP_FAIL(MTP_E_ARG, "sink is NULL");
    o->buffer = mtp__calloc(1, MTP__OUT_BYTES);
    if (o->buffer == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a buffer of %zu bytes", MTP__OUT_BYTES);
    o->at = o->buffer;
    o->limit = o->buffer + MTP__OUT_BYTES - MTP__OUT_ROOM;
    o->sink = sink;
    o->user = user;
    return MTP_OK;
}

mtp_status mtp__out_begin(mtp__out *o, const void *subject, const char *name, mtp_sink *sink, void *user)
{
    return subject != NULL ? mtp__out_init(o, sink, user) : MTP_FAIL(MTP_E_ARG, "%s is NULL", name);
}

void mtp__out_flush(mtp__out *o)
{
    size_t length = (size_t)(o->at - o->buffer);
    o->at = o->buffer;
    o->flushed += length;
    if (length > 0 && !o->failed)
        o->failed = !o->sink(o->user, o->buffer, length);
}

mtp_status mtp__out_finish(mtp__out *o)
{
    if (o->buffer == NULL)
        return MTP_OK;
    mtp__out_flush(o);
    mtp__free(o->buffer);
    o->buffer = NULL;
    return o->failed ? MTP_FAIL(MTP_E_IO, "writing the output failed after %llu bytes",
                                (unsigned long long)o->flushed)
                     : MTP_OK;
}

void mtp__out_bytes(mtp__out *o, const void *bytes, size_t length)
{
    const char *from = bytes;
    while (length > 0) {
        char *p = mtp__out_room(o);
        size_t room = (size_t)(o->limit - p) + MTP__OUT_ROOM, n = length < room ? length : room;
        memcpy(p, from, n);
        o->at = p + n;
        from += n;
        length -= n;
    }
}

void mtp__out_text(mtp__out *o, const char *text)
{
    mtp__out_bytes(o, text, strlen(text));
}

void mtp__out_u64(mtp__out *o, uint64_t value)
{
    char *p = mtp__out_room(o);
    o->at = mtp__put_u64(p, value);
}

void mtp__out_i64(mtp__out *o, int64_t value)
{
    char *p = mtp__out_room(o);
    o->at = mtp__put_i64(p, value);
}

/* A decimal with at most six places, as most counters are. n / 1e6 is rounded the way a reader rounds the
 * decimal, so equality here means that it reads back the same. */
static bool put_decimal(char **to, double value)
{
    char *p = *to;
    double scaled = value * 1e6;
    if (!(fabs(scaled) < 9e15))
        return false;
    int64_t n = (int64_t)(scaled + (scaled < 0 ? -0.5 : 0.5));
    if ((double)n / 1e6 != value)
        return false;
    uint64_t u = n < 0 ? (uint64_t)-n : (uint64_t)n, rest = u % 1000000;
    if (n < 0)
        *p++ = '-';
    p = mtp__put_u64(p, u / 1000000);
    if (rest != 0)
        *p++ = '.';
    for (uint64_t place = 100000; rest != 0; rest %= place, place /= 10)
        *p++ = (char)('0' + rest / place);
    *to = p;
    return true;
}

void mtp__out_double(mtp__out *o, double value)
{
    char *p = mtp__out_room(o);
    if (!isfinite(value))
        p = MTP__PUT(p, "null");
    else if (!put_decimal(&p, value))
        p += mtp__shortest(p, value, 15);
    o->at = p;
}
