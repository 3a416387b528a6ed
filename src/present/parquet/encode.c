/* present/parquet/encode.c - values as bytes, by Parquet's encodings. */
#include <string.h>
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "present/parquet/parquet.h"

#define GROUP 8u   /* values that RLE and bit-packed runs count in */
#define BLOCK 128u /* of DELTA_BINARY_PACKED */
#define MINIBLOCK 32u

/* ----------------------------------------------------------------------------------------------- bytes */

bool mtp__octets_room(mtp__octets *b, size_t more)
{
    if (__builtin_expect(b->room - b->count >= more, 1))
        return true;
    if (more > SIZE_MAX / 2 - b->count || !MTP__GROW(b->at, b->room, b->count, b->count + more, 4096))
        b->failed = true;
    return !b->failed;
}

void mtp__octets_put(mtp__octets *b, const void *from, size_t count)
{
    if (count == 0 || !mtp__octets_room(b, count))
        return;
    memcpy(b->at + b->count, from, count);
    b->count += count;
}

void mtp__octets_varint(mtp__octets *b, uint64_t value)
{
    if (!mtp__octets_room(b, 10))
        return;
    for (; value >= 0x80; value >>= 7)
        b->at[b->count++] = (uint8_t)(value | 0x80);
    b->at[b->count++] = (uint8_t)value;
}

void mtp__octets_fini(mtp__octets *b)
{
    mtp__free(b->at);
    *b = (mtp__octets){0};
}

/* ---------------------------------------------------------------------------------------------- packing */

unsigned mtp__parquet_width(uint64_t most)
{
    return most == 0 ? 0 : 64u - (unsigned)__builtin_clzll(most);
}

static inline uint8_t *put32(uint8_t *p, uint64_t word)
{
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(word >> 8 * i);
    return p + 4;
}

/* `count` values of `width` bits, lowest bits first; count * width is a multiple of 8. */
static inline __attribute__((always_inline)) uint8_t *pack(uint8_t *p, const uint64_t *v, size_t count,
                                                           unsigned width)
{
    uint64_t word = 0;
    unsigned held = 0; /* bits in it, below 32 */
    for (size_t i = 0; i < count; i++) {
        uint64_t value = v[i];
        unsigned left = width;
        if (left > 32) {
            word |= (value & UINT32_MAX) << held;
            p = put32(p, word);
            word >>= 32;
            value >>= 32;
            left -= 32;
        }
        word |= value << held;
        held += left;
        if (held >= 32) {
            p = put32(p, word);
            word >>= 32;
            held -= 32;
        }
    }
    for (; held > 0; held = held > 8 ? held - 8 : 0, word >>= 8)
        *p++ = (uint8_t)word;
    return p;
}

/* A miniblock. The usual widths are constants, so that the compiler unrolls their loops. */
static uint8_t *pack_miniblock(uint8_t *p, const uint64_t *v, unsigned width)
{
    switch (width) {
    case 0:
        return p;
#define WIDTH(w)                                                                                             \
    case w:                                                                                                  \
        return pack(p, v, MINIBLOCK, w)
        WIDTH(1);
        WIDTH(2);
        WIDTH(3);
        WIDTH(4);
        WIDTH(5);
        WIDTH(6);
        WIDTH(7);
        WIDTH(8);
        WIDTH(9);
        WIDTH(10);
        WIDTH(11);
        WIDTH(12);
        WIDTH(13);
        WIDTH(14);
        WIDTH(15);
        WIDTH(16);
        WIDTH(17);
        WIDTH(18);
        WIDTH(19);
        WIDTH(20);
#undef WIDTH
    default:
        return pack(p, v, MINIBLOCK, width);
    }
}

/* ------------------------------------------------------------------------------------------------- runs */

static bool is_run(const uint32_t *v)
{
    uint32_t differing = 0;
    for (unsigned i = 1; i < GROUP; i++)
        differing |= v[i] ^ v[0];
    return differing == 0;
}

void mtp__parquet_run(mtp__octets *b, uint32_t value, size_t count, unsigned width)
{
    mtp__octets_varint(b, (uint64_t)count << 1);
    uint8_t bytes[4];
    put32(bytes, value);
    mtp__octets_put(b, bytes, (width + 7) / 8);
}

/* The last group is filled up with zeroes. */
static void put_packed(mtp__octets *b, const uint32_t *v, size_t count, unsigned width)
{
    size_t groups = (count + GROUP - 1) / GROUP;
    if (count == 0)
        return;
    mtp__octets_varint(b, (uint64_t)groups << 1 | 1);
    if (!mtp__octets_room(b, groups * width))
        return;
    uint8_t *p = b->at + b->count;
    for (size_t i = 0; i < count; i += GROUP) {
        uint64_t group[GROUP] = {0};
        for (size_t k = 0; k < GROUP && i + k < count; k++)
            group[k] = v[i + k];
        p = pack(p, group, GROUP, width);
    }
    b->count += groups * width;
}

void mtp__parquet_hybrid(mtp__octets *b, const uint32_t *v, size_t count, unsigned width)
{
    size_t packed = 0, i = 0; /* v[packed] to v[i - 1] wait to be packed: whole groups */
    while (i + GROUP <= count) {
        if (!is_run(v + i)) {
            i += GROUP;
            continue;
        }
        size_t end = i + GROUP;
        while (end < count && v[end] == v[i])
            end++;
        put_packed(b, v + packed, i - packed, width);
        mtp__parquet_run(b, v[i], end - i, width);
        packed = i = end;
    }
    put_packed(b, v + packed, count - packed, width);
}

void mtp__parquet_bools(mtp__octets *b, const int64_t *v, size_t count)
{
    size_t bytes = (count + 7) / 8;
    if (bytes == 0 || !mtp__octets_room(b, bytes))
        return;
    uint8_t *p = b->at + b->count;
    memset(p, 0, bytes);
    for (size_t i = 0; i < count; i++)
        p[i / 8] |= (uint8_t)((v[i] != 0) << i % 8);
    b->count += bytes;
}

/* ----------------------------------------------------------------------------------------------- deltas */

static inline uint64_t minus(int64_t a, int64_t b, bool is32)
{
    uint64_t d = (uint64_t)a - (uint64_t)b;
    return is32 ? (uint64_t)(int64_t)(int32_t)(uint32_t)d : d;
}

static void put_block(mtp__octets *b, const int64_t *v, size_t count, bool is32)
{
    uint64_t d[BLOCK];
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        d[i] = minus(v[i], v[(ptrdiff_t)i - 1], is32);
        least = (int64_t)d[i] < least ? (int64_t)d[i] : least;
    }
    for (size_t i = 0; i < count; i++)
        d[i] = is32 ? (uint32_t)(d[i] - (uint64_t)least) : d[i] - (uint64_t)least;
    memset(d + count, 0, (BLOCK - count) * sizeof *d);
    mtp__octets_varint(b, mtp__zigzag(least));
    if (!mtp__octets_room(b, BLOCK / MINIBLOCK + sizeof d))
        return;
    uint8_t *width = b->at + b->count, *p = width + BLOCK / MINIBLOCK;
    for (unsigned m = 0; m < BLOCK / MINIBLOCK; m++) {
        uint64_t bits = 0;
        for (unsigned i = 0; i < MINIBLOCK; i++)
            bits |= d[m * MINIBLOCK + i];
        width[m] = (uint8_t)mtp__parquet_width(bits);
        if (m * MINIBLOCK < count)
            p = pack_miniblock(p, d + m * MINIBLOCK, width[m]);
    }
    b->count = (size_t)(p - b->at);
}

static void put_delta_head(mtp__octets *b, int64_t first, size_t count)
{
    mtp__octets_varint(b, BLOCK);
    mtp__octets_varint(b, BLOCK / MINIBLOCK);
    mtp__octets_varint(b, count);
    mtp__octets_varint(b, mtp__zigzag(first));
}

void mtp__parquet_delta(mtp__octets *b, const int64_t *v, size_t count, bool is32)
{
    put_delta_head(b, count > 0 ? v[0] : 0, count);
    for (size_t i = 1; i < count; i += BLOCK)
        put_block(b, v + i, count - i < BLOCK ? count - i : BLOCK, is32);
}

void mtp__parquet_same(mtp__octets *b, int64_t value, size_t count)
{
    put_delta_head(b, value, count);
    for (size_t i = 1; i < count; i += BLOCK)
        mtp__octets_put(b, "\0\0\0\0", 1 + BLOCK / MINIBLOCK);
}
