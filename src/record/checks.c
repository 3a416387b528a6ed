#include "record/checks.h"
#include <stddef.h>
#include <string.h>
#include "base/hash.h"

uint64_t mtp__spool_check(const mtp__spool_header *header)
{
    uint64_t words[offsetof(mtp__spool_header, check) / 8];
    memcpy(words, header, sizeof words);
    uint64_t sum = mtp__hash_words(words, sizeof words / sizeof *words);
    return sum != 0 ? sum : 1;
}

uint64_t mtp__file_magic(uint64_t ticks, uint64_t monotonic_ns, uint64_t realtime_ns)
{
    const uint64_t made[] = {ticks, monotonic_ns, realtime_ns};
    return MTP__CHUNK_MAGIC ^ mtp__hash_words(made, sizeof made / sizeof *made);
}

uint32_t mtp__control_check(uint64_t word0, const uint64_t *words, uint32_t count)
{
    uint64_t start[2] = {word0,
                         MTP__CONTROL_WORD1(MTP__CONTROL_KIND(words[1]), 0, (uint32_t)(words[1] >> 32))};
    uint64_t sum = mtp__hash_mix(mtp__hash_words(start, 2), mtp__hash_words(words + 2, count - 2));
    return (uint32_t)(sum ^ sum >> 24 ^ sum >> 48) & 0xffffffu;
}

/* The length of the control record that begins here; 0: there is none, or it is damaged. */
static uint32_t record_at(const uint64_t *words, uint32_t room)
{
    if (room < 2 || (words[0] & 0xff) != MTP__WORD0(0, 0, MTP__KIND_CONTROL))
        return 0;
    uint64_t length = words[1] >> 32;
    if (length < 2 || length > room)
        return 0;
    bool right = MTP__CONTROL_CHECK(words[1]) == mtp__control_check(words[0], words, (uint32_t)length);
    return right ? (uint32_t)length : 0;
}

/* After a damaged record, searches for the next valid one word by word: the length itself may be damaged. */
uint32_t mtp__control_sift(uint64_t *words, uint32_t capacity, bool *damaged)
{
    uint32_t kept = 0, at = 0;
    bool ended = false; /* saw an unwritten word: if a record follows, the words before it were damaged */
    *damaged = false;
    while (at < capacity) {
        uint32_t length = record_at(words + at, capacity - at);
        if (length == 0) {
            ended = ended || words[at] == 0;
            *damaged = *damaged || !ended;
            at++;
            continue;
        }
        *damaged = *damaged || ended;
        if (kept != at)
            memmove(words + kept, words + at, length * sizeof *words);
        kept += length;
        at += length;
    }
    memset(words + kept, 0, (capacity - kept) * sizeof *words);
    return kept;
}
