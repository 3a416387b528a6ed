/* Unit: base/hash_map: maps of words, against a plain list. */
#include "base/hash_map.h"
#include "base/os.h"
#include "base/pair_map.h"
#include "tests/test.h"

#define KEYS 3000u

typedef struct wide { /* a key of several words */
    int64_t a;
    uint32_t b, c;
    uint64_t d;
} wide;

typedef struct small { /* a value that is not whole words */
    uint32_t number;
    bool seen;
    char text[7];
} small;

static uint64_t key_of(unsigned i) /* 0 among them, the largest, and many that differ in one bit only */
{
    return i < 64 ? (uint64_t)1 << i : i == 64 ? 0 : i == 65 ? UINT64_MAX : ((uint64_t)i << 12) + 3;
}

static void keys_of_one_word_keep_their_values(void **state)
{
    (void)state;
    mtp__hash_map m = {0};
    bool is_new;
    for (unsigned i = 0; i < KEYS; i++) {
        uint64_t key = key_of(i);
        assert_null(mtp__hash_map_find(&m, &key, sizeof key, sizeof(small)));
        small *at = mtp__hash_map_put(&m, &key, sizeof key, sizeof *at, &is_new);
        const small nothing = {0};
        assert_non_null(at);
        assert_true(is_new);
        assert_memory_equal(at, &nothing, sizeof *at);
        *at = (small){i, true, "abcdef"};
        at = mtp__hash_map_put(&m, &key, sizeof key, sizeof *at, &is_new);
        assert_true(at != NULL && !is_new && at->number == i);
        assert_int_equal(m.count, i + 1);
        assert_true(m.count <= (m.mask + 1) / 2 + 1); /* about half full at most */
    }
    for (unsigned i = 0; i < KEYS; i++) {
        uint64_t key = key_of(i);
        const small *at = mtp__hash_map_find(&m, &key, sizeof key, sizeof *at);
        assert_non_null(at);
        assert_int_equal(at->number, i);
        assert_true(at->seen);
        assert_string_equal(at->text, "abcdef");
    }
    uint64_t other = 12345;
    assert_null(mtp__hash_map_find(&m, &other, sizeof other, sizeof(small)));
    mtp__hash_map_fini(&m);
    assert_null(mtp__hash_map_find(&m, &other, sizeof other, sizeof(small)));
}

static void every_word_of_a_key_counts(void **state)
{
    (void)state;
    mtp__hash_map m = {0};
    bool is_new;
    for (unsigned i = 0; i < 256; i++) { /* each member is 0 to 3 */
        wide key = {(int64_t)(i & 3), i >> 2 & 3, i >> 4 & 3, i >> 6 & 3};
        unsigned *at = mtp__hash_map_put(&m, &key, sizeof key, sizeof *at, &is_new);
        assert_true(at != NULL && is_new);
        *at = i;
    }
    for (unsigned i = 0; i < 256; i++) {
        wide key = {(int64_t)(i & 3), i >> 2 & 3, i >> 4 & 3, i >> 6 & 3};
        const unsigned *at = mtp__hash_map_find(&m, &key, sizeof key, sizeof *at);
        assert_true(at != NULL && *at == i);
        key.b += 4;
        assert_null(mtp__hash_map_find(&m, &key, sizeof key, sizeof *at));
    }
    mtp__hash_map_fini(&m);
}

static void all_values_are_visited_once_in_an_order_of_the_keys(void **state)
{
    (void)state;
    uint64_t order[2][KEYS];
    for (int turn = 0; turn < 2; turn++) {
        mtp__hash_map m = {0};
        uint8_t visits[KEYS] = {0};
        const uint32_t *value;
        size_t at = 0, visited = 0;
        bool is_new;
        assert_null(mtp__hash_map_next(&m, &at, sizeof(uint64_t), sizeof *value));
        assert_true(mtp__hash_map_reserve(&m, KEYS, sizeof(uint64_t), sizeof *value));
        for (unsigned i = 0; i < KEYS; i++) {
            uint64_t key = key_of(i);
            *(uint32_t *)mtp__hash_map_put(&m, &key, sizeof key, sizeof *value, &is_new) = i;
        }
        for (at = 0; (value = mtp__hash_map_next(&m, &at, sizeof(uint64_t), sizeof *value)) != NULL;) {
            assert_int_equal(visits[*value]++, 0);
            order[turn][visited++] = *value;
        }
        assert_int_equal(visited, KEYS);
        assert_null(mtp__hash_map_next(&m, &at, sizeof(uint64_t), sizeof *value)); /* and stays at the end */
        mtp__hash_map_fini(&m);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
}

static void only_the_zero_key(void **state)
{
    (void)state;
    mtp__hash_map m = {0};
    const uint64_t zero[2] = {0, 0};
    size_t at = 0;
    bool is_new;
    assert_true(mtp__hash_map_reserve(&m, 1, sizeof zero, 4)); /* there are slots, and zeroes in them */
    assert_null(mtp__hash_map_find(&m, zero, sizeof zero, 4));
    assert_null(mtp__hash_map_next(&m, &at, sizeof zero, 4));
    uint32_t *value = mtp__hash_map_put(&m, zero, sizeof zero, sizeof *value, &is_new);
    assert_true(is_new);
    *value = 7;
    assert_ptr_equal(mtp__hash_map_find(&m, zero, sizeof zero, 4), value);
    at = 0;
    assert_ptr_equal(mtp__hash_map_next(&m, &at, sizeof zero, 4), value);
    assert_null(mtp__hash_map_next(&m, &at, sizeof zero, 4));
    assert_true(mtp__hash_map_reserve(&m, 1000, sizeof zero, 4));
    value = mtp__hash_map_find(&m, zero, sizeof zero, 4);
    assert_true(value != NULL && *value == 7);
    mtp__hash_map_fini(&m);
    assert_null(mtp__hash_map_find(&m, zero, sizeof zero, 4));
}

static void what_was_reserved_needs_no_memory(void **state)
{
    (void)state;
    for (int pages = 0; pages < 2; pages++) {
        mtp__hash_map m = {.in_pages = pages != 0};
        assert_true(mtp__hash_map_reserve(&m, KEYS, 8, 8));
        assert_true(mtp__hash_map_reserve(&m, 1, 8, 8)); /* never less */
        mtp__fault_plan(MTP__FAULTS_ALL, 1, true);
        bool is_new;
        for (unsigned i = 0; i < KEYS; i++) {
            uint64_t key = key_of(i);
            assert_non_null(mtp__hash_map_put(&m, &key, 8, 8, &is_new));
        }
        assert_int_equal(mtp__fault_stop(), 0);
        mtp__hash_map_fini(&m);
        assert_true(m.in_pages == (pages != 0));
    }
}

/* The nth allocation fails: the key is not added, the rest is there, and the next attempt succeeds. */
static void a_map_that_cannot_grow_is_as_it_was(void **state)
{
    (void)state;
    long live = mtp__alloc_live();
    for (int pages = 0; pages < 2; pages++)
        for (int nth = 1, failed = 1; failed > 0; nth++) {
            mtp__hash_map m = {.in_pages = pages != 0};
            unsigned refused = 0;
            bool is_new;
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, false);
            for (unsigned i = 0; i < KEYS; i++) {
                uint64_t key = key_of(i), *value = mtp__hash_map_put(&m, &key, 8, 8, &is_new);
                if (value == NULL) {
                    refused++;
                    assert_int_equal(m.count, i);
                    assert_null(mtp__hash_map_find(&m, &key, 8, 8));
                    for (unsigned k = 0; k < i; k++) {
                        key = key_of(k);
                        value = mtp__hash_map_find(&m, &key, 8, 8);
                        assert_true(value != NULL && *value == k);
                    }
                    key = key_of(i);
                    value = mtp__hash_map_put(&m, &key, 8, 8, &is_new);
                    assert_true(value != NULL && is_new);
                }
                *value = i;
            }
            failed = mtp__fault_stop();
            assert_int_equal(refused, failed);
            assert_true(nth > 5 || failed == 1);
            mtp__hash_map_fini(&m);
        }
    assert_int_equal(mtp__alloc_live(), live);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    mtp__hash_map m = {0};
    assert_false(mtp__hash_map_reserve(&m, SIZE_MAX, 8, 8));
    assert_false(mtp__hash_map_reserve(&m, SIZE_MAX / 4, 8, 8));
    assert_null(m.slot);
    assert_int_equal(m.count, 0);
}

static void pairs_are_maps_of_two_words(void **state)
{
    (void)state;
    mtp__pair_map m = {0};
    bool is_new;
    uint64_t sum = 0;
    assert_null(mtp__pair_find(&m, 1, 2));
    for (uint64_t a = 0; a < 30; a++)
        for (uint64_t b = 0; b < 30; b++) {
            assert_int_equal(*mtp__pair_put(&m, a, b, a * 100 + b, &is_new), a * 100 + b);
            assert_true(is_new);
            assert_int_equal(*mtp__pair_put(&m, a, b, 5, &is_new), a * 100 + b); /* the first stays */
            assert_false(is_new);
            sum += a * 100 + b;
        }
    assert_int_equal(*mtp__pair_find(&m, 7, 29), 729);
    assert_null(mtp__pair_find(&m, 7, 30));
    const uint64_t *value;
    for (size_t at = 0; (value = mtp__pair_next(&m, &at)) != NULL;)
        sum -= *value;
    assert_int_equal(sum, 0);
    mtp__pair_map_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_of_one_word_keep_their_values),
        TEST(every_word_of_a_key_counts),
        TEST(all_values_are_visited_once_in_an_order_of_the_keys),
        TEST(only_the_zero_key),
        TEST(what_was_reserved_needs_no_memory),
        TEST(a_map_that_cannot_grow_is_as_it_was),
        TEST(impossible_sizes_are_refused),
        TEST(pairs_are_maps_of_two_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
