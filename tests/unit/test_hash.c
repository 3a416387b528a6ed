/* Unit: base/hash. What tables and checksums rely on: every bit counts, lengths count, runs are spread. */
#include "tests/test.h"
#include "base/hash.h"

static void every_flipped_bit_of_words_changes_the_hash(void **state)
{
    (void)state;
    uint64_t word[67];
    for (size_t count = 1; count <= COUNT(word); count++) {
        for (size_t i = 0; i < count; i++)
            word[i] = test_random();
        uint64_t whole = mtp__hash_words(word, count);
        for (size_t bit = 0; bit < count * 64; bit++) {
            word[bit / 64] ^= (uint64_t)1 << bit % 64;
            assert_true(mtp__hash_words(word, count) != whole);
            word[bit / 64] ^= (uint64_t)1 << bit % 64;
        }
        assert_true(mtp__hash_words(word, count) == whole);
    }
}

static void every_flipped_bit_of_bytes_changes_the_hash(void **state)
{
    (void)state;
    unsigned char byte[41];
    for (size_t count = 1; count <= sizeof byte; count++) {
        for (size_t i = 0; i < count; i++)
            byte[i] = (unsigned char)test_random();
        uint64_t whole = mtp__hash_bytes(byte, count);
        for (size_t bit = 0; bit < count * 8; bit++) {
            byte[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_true(mtp__hash_bytes(byte, count) != whole);
            byte[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
}

static void zeros_of_different_lengths_differ(void **state)
{
    (void)state;
    static const uint64_t zero[256];
    for (size_t a = 0; a <= 256; a++)
        for (size_t b = 0; b < a; b++) {
            assert_true(mtp__hash_words(zero, a) != mtp__hash_words(zero, b));
            assert_true(mtp__hash_bytes(zero, a) != mtp__hash_bytes(zero, b));
        }
}

/* A checksum must detect that two words of a chunk were swapped. */
static void exchanged_words_change_the_hash(void **state)
{
    (void)state;
    uint64_t word[32];
    for (size_t i = 0; i < COUNT(word); i++)
        word[i] = test_random();
    uint64_t whole = mtp__hash_words(word, COUNT(word));
    for (size_t a = 0; a < COUNT(word); a++)
        for (size_t b = 0; b < a; b++) {
            uint64_t was_a = word[a], was_b = word[b];
            word[a] = was_b;
            word[b] = was_a;
            assert_true(mtp__hash_words(word, COUNT(word)) != whole);
            word[a] = was_a;
            word[b] = was_b;
        }
}

/* Tables use the low bits as the index and the high half as the tag. */
static void counted_names_spread_over_a_table(void **state)
{
    (void)state;
    enum {
        SLOTS = 4096,
        NAMES = 2048
    };
    static unsigned char used[SLOTS];
    int taken = 0;
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        int n = snprintf(name, sizeof name, "layer.%d.weight", i);
        uint64_t at = mtp__hash_bytes(name, (size_t)n) % SLOTS;
        taken += used[at] == 0;
        used[at] = 1;
    }
    assert_true(taken > 1450); /* chance alone would give 1612 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_flipped_bit_of_words_changes_the_hash), TEST(every_flipped_bit_of_bytes_changes_the_hash),
        TEST(zeros_of_different_lengths_differ),           TEST(exchanged_words_change_the_hash),
        TEST(counted_names_spread_over_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
