/* base/hash.h - one 64-bit hash, for tables and for chunk checksums: four multiply lanes, then a fold.
 *
 * Not collision-resistant against an adversary; any flipped bit changes the result. Byte order is the
 * machine's.
 */
#ifndef MTP_BASE_HASH_H
#define MTP_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MTP__HASH_K0 0x9e3779b97f4a7c15u
#define MTP__HASH_K1 0xd6e8feb86659fd93u

static inline uint64_t mtp__hash_mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * MTP__HASH_K0;
    return a ^ a >> 32;
}

/* For a known number of words: dims, ids. */
static inline uint64_t mtp__hash_words(const uint64_t *word, size_t count)
{
    uint64_t lane[4] = {MTP__HASH_K1, MTP__HASH_K0, ~MTP__HASH_K1, ~MTP__HASH_K0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int k = 0; k < 4; k++)
            lane[k] = mtp__hash_mix(lane[k], word[i + (size_t)k]);
    for (int k = 0; k < 3 && i < count; i++, k++)
        lane[k] = mtp__hash_mix(lane[k], word[i]);
    uint64_t h =
        mtp__hash_mix(lane[0] + (lane[1] << 1 | lane[1] >> 63), lane[2] + (lane[3] << 1 | lane[3] >> 63));
    return mtp__hash_mix(h, count);
}

static inline uint64_t mtp__hash_bytes(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = MTP__HASH_K1 ^ bytes, word;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        memcpy(&word, p, 8);
        h = mtp__hash_mix(h, word);
    }
    word = 0;
    memcpy(&word, p, bytes);
    return mtp__hash_mix(h, word + MTP__HASH_K0);
}
#endif
