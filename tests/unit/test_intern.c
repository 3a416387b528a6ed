/* Unit: base/intern. */
#include "tests/test.h"
#include <pthread.h>
#include "base/hash.h"
#include "base/intern.h"

#define NO_LIMIT SIZE_MAX

static uint32_t add(mtp__intern *t, const char *text)
{
    return mtp__intern_add(t, mtp__hash_bytes(text, strlen(text)), text, strlen(text));
}

static uint32_t find(const mtp__intern *t, const char *text)
{
    return mtp__intern_find(t, mtp__hash_bytes(text, strlen(text)), text, strlen(text));
}

static void ids_count_from_the_first_in_order_and_are_kept(void **state)
{
    (void)state;
    mtp__intern t;
    mtp__intern_init(&t, 7, NO_LIMIT, NULL, NULL);
    assert_int_equal(find(&t, "a"), 0);
    assert_null(mtp__intern_get(&t, 7));
    assert_int_equal(add(&t, "a"), 7);
    assert_int_equal(add(&t, "b"), 8);
    assert_int_equal(add(&t, "a"), 7);
    assert_int_equal(find(&t, "b"), 8);
    assert_int_equal(mtp__intern_count(&t), 2);
    assert_string_equal((const char *)mtp__intern_get(&t, 8)->bytes, "b");
    assert_null(mtp__intern_get(&t, 6));
    assert_null(mtp__intern_get(&t, 9));
    assert_null(mtp__intern_get(&t, 0));
    mtp__intern_fini(&t);
}

static void bytes_are_bytes(void **state)
{
    (void)state;
    mtp__intern t;
    mtp__intern_init(&t, 1, NO_LIMIT, NULL, NULL);
    static const char *const text[] = {"", "\0", "\0\0", "a\0b", "a\0c", "a"};
    static const size_t length[] = {0, 1, 2, 3, 3, 1};
    for (uint32_t i = 0; i < COUNT(text); i++)
        assert_int_equal(mtp__intern_add(&t, mtp__hash_bytes(text[i], length[i]), text[i], length[i]), i + 1);
    for (uint32_t i = 0; i < COUNT(text); i++) {
        assert_int_equal(mtp__intern_find(&t, mtp__hash_bytes(text[i], length[i]), text[i], length[i]),
                         i + 1);
        const mtp__intern_entry *e = mtp__intern_get(&t, i + 1);
        assert_int_equal(e->length, length[i]);
        assert_memory_equal(e->bytes, text[i], length[i]);
        assert_int_equal(e->bytes[length[i]], 0);
    }
    mtp__intern_fini(&t);
}

/* The caller supplies the hash: entries with equal hashes must still be distinguished. */
static void equal_hashes_do_not_mean_equal_bytes(void **state)
{
    (void)state;
    mtp__intern t;
    char text[16];
    mtp__intern_init(&t, 1, NO_LIMIT, NULL, NULL);
    for (uint32_t i = 0; i < 300; i++) {
        int n = snprintf(text, sizeof text, "%u", i);
        assert_int_equal(mtp__intern_add(&t, 0x1234567800000042u, text, (size_t)n), i + 1);
    }
    for (uint32_t i = 0; i < 300; i++) {
        int n = snprintf(text, sizeof text, "%u", i);
        assert_int_equal(mtp__intern_find(&t, 0x1234567800000042u, text, (size_t)n), i + 1);
    }
    assert_int_equal(mtp__intern_find(&t, 0x1234567800000042u, "300", 3), 0);
    mtp__intern_fini(&t);
}

static void growth_across_segments_and_tables_keeps_every_id(void **state)
{
    (void)state;
    enum {
        MANY = 40000
    };
    mtp__intern t;
    char text[32];
    long live = mtp__alloc_live();
    mtp__intern_init(&t, 0x80000001u, NO_LIMIT, NULL, NULL);
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "entry %u", i);
        assert_int_equal(add(&t, text), 0x80000001u + i);
        if (i % 997 == 0) /* no earlier entry has moved */
            for (uint32_t k = 0; k <= i; k += 61) {
                snprintf(text, sizeof text, "entry %u", k);
                assert_int_equal(find(&t, text), 0x80000001u + k);
            }
    }
    assert_int_equal(mtp__intern_count(&t), MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "entry %u", i);
        assert_int_equal(find(&t, text), 0x80000001u + i);
        assert_string_equal((const char *)mtp__intern_get(&t, 0x80000001u + i)->bytes, text);
    }
    mtp__intern_fini(&t);
    assert_int_equal(mtp__alloc_live(), live);
}

static void words_are_aligned_in_the_arena(void **state)
{
    (void)state;
    mtp__intern t;
    char odd[3] = "x";
    mtp__intern_init(&t, 1, NO_LIMIT, NULL, NULL);
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t word[2] = {i, ~i};
        uint32_t id = mtp__intern_add(&t, mtp__hash_words(word, 2), word, sizeof word);
        assert_true(id != 0 && (uintptr_t)mtp__intern_get(&t, id)->bytes % 8 == 0);
        odd[1] = (char)('a' + i % 26);
        add(&t, odd);
    }
    mtp__intern_fini(&t);
}

static void one_large_entry_is_kept_whole(void **state)
{
    (void)state;
    enum {
        BYTES = 3 << 20
    };
    mtp__intern t;
    char *text = malloc(BYTES);
    memset(text, 'q', BYTES);
    mtp__intern_init(&t, 1, NO_LIMIT, NULL, NULL);
    add(&t, "before");
    uint32_t id = mtp__intern_add(&t, mtp__hash_bytes(text, BYTES), text, BYTES);
    assert_int_equal(id, 2);
    assert_int_equal(add(&t, "after"), 3);
    assert_int_equal(mtp__intern_get(&t, 2)->length, BYTES);
    assert_memory_equal(mtp__intern_get(&t, 2)->bytes, text, BYTES);
    mtp__intern_fini(&t);
    free(text);
}

static void the_limit_refuses_the_new_and_keeps_the_old(void **state)
{
    (void)state;
    mtp__intern t;
    char text[64];
    uint32_t kept = 0;
    mtp__intern_init(&t, 1, 256 << 10, NULL, NULL);
    for (uint32_t i = 0; i < 10000; i++) {
        snprintf(text, sizeof text, "a name of some length, number %u", i);
        uint32_t id = add(&t, text);
        kept += id != 0;
        assert_true(id == 0 || id == i + 1);
    }
    assert_true(kept > 100 && kept < 10000);
    assert_true(t.bytes <= (256 << 10) + 4096 * sizeof(mtp__intern_entry));
    for (uint32_t i = 0; i < kept; i++) {
        snprintf(text, sizeof text, "a name of some length, number %u", i);
        assert_int_equal(add(&t, text), i + 1);
    }
    mtp__intern_fini(&t);
}

/* Until a table says that it is nearly full, it takes what one record may need (a deep stack), whatever has to grow for it: the
 * hash table, the arena, or the list of entries. */
static void a_table_that_is_not_nearly_full_takes_a_deep_stack(void **state)
{
    (void)state;
    enum {
        DEEP = 500
    };
    for (size_t limit = 1 << 20; limit <= 8 << 20; limit += 200 << 10) {
        mtp__intern t;
        uint64_t word = 0;
        unsigned refused = 0;
        mtp__intern_init(&t, 1, limit, NULL, NULL);
        while (!mtp__intern_is_nearly_full(&t))
            for (int i = 0; i < DEEP; i++, word++)
                refused += mtp__intern_add(&t, mtp__hash_bytes(&word, sizeof word), &word, sizeof word) == 0;
        if (refused != 0)
            fail_msg("a limit of %zu bytes: %u of %llu refused", limit, refused, (unsigned long long)word);
        mtp__intern_fini(&t);
    }
}

static void reset_forgets_all_and_starts_anew(void **state)
{
    (void)state;
    mtp__intern t;
    long live = mtp__alloc_live();
    mtp__intern_init(&t, 5, NO_LIMIT, NULL, NULL);
    add(&t, "one");
    add(&t, "two");
    mtp__intern_reset(&t);
    assert_int_equal(mtp__alloc_live(), live);
    assert_int_equal(mtp__intern_count(&t), 0);
    assert_int_equal(find(&t, "one"), 0);
    assert_int_equal(add(&t, "two"), 5);
    mtp__intern_fini(&t);
    assert_int_equal(mtp__alloc_live(), live);
}

typedef struct told {
    uint32_t count, refuse_from;
    uint32_t id[64];
    char text[64][16];
} told;

static int tell(void *user, const mtp__intern *t, uint32_t id, const void *bytes, size_t length)
{
    told *s = user;
    if (mtp__intern_find(t, mtp__hash_bytes(bytes, length), bytes, length) != 0)
        return 0; /* nobody may see it yet */
    if (s->count >= s->refuse_from)
        return 0;
    s->id[s->count] = id;
    snprintf(s->text[s->count++], 16, "%.*s", (int)length, (const char *)bytes);
    return 1;
}

static void the_listener_hears_each_entry_once_before_it_is_seen(void **state)
{
    (void)state;
    mtp__intern t;
    told s = {.refuse_from = 3};
    mtp__intern_init(&t, 1, NO_LIMIT, tell, &s);
    assert_int_equal(add(&t, "a"), 1);
    assert_int_equal(add(&t, "a"), 1);
    assert_int_equal(add(&t, "b"), 2);
    assert_int_equal(add(&t, "c"), 3);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.text[1], "b");
    assert_int_equal(s.id[2], 3);
    assert_int_equal(add(&t, "d"), 0); /* refused: no id is assigned, and none is lost */
    assert_int_equal(mtp__intern_count(&t), 3);
    assert_int_equal(find(&t, "d"), 0);
    s.refuse_from = 4;
    assert_int_equal(add(&t, "e"), 4);
    assert_int_equal(add(&t, "c"), 3);
    mtp__intern_fini(&t);
}

/* A listener that always refuses must not make the table leak memory. */
static void refused_entries_take_no_room(void **state)
{
    (void)state;
    mtp__intern t;
    told s = {.refuse_from = 0};
    char text[64];
    mtp__intern_init(&t, 1, NO_LIMIT, tell, &s);
    add(&t, "first");
    size_t bytes = t.bytes;
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "something that is not wanted, number %d", i);
        assert_int_equal(add(&t, text), 0);
    }
    assert_int_equal(t.bytes, bytes);
    s.refuse_from = 1; /* the next text takes the space of a longer one */
    assert_int_equal(add(&t, "short"), 1);
    assert_string_equal((const char *)mtp__intern_get(&t, 1)->bytes, "short");
    mtp__intern_fini(&t);
}

/* --------------------------------------------------------------------------------------- failing calls */

enum {
    SWEEP = 700
}; /* three segments, four tables, several arena blocks */

/* The number of texts kept; asserts that these can be found again. */
static uint32_t fill(mtp__intern *t)
{
    char text[96];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < SWEEP; i++) {
        snprintf(text, sizeof text, "%060u", i);
        uint32_t id = add(t, text);
        kept += id != 0;
        assert_int_equal(find(t, text), id);
        if (id != 0)
            assert_string_equal((const char *)mtp__intern_get(t, id)->bytes, text);
    }
    return kept;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int forever = 0; forever < 2; forever++)
        for (int nth = 1;; nth++) {
            mtp__intern t;
            long live = mtp__alloc_live();
            mtp__intern_init(&t, 1, NO_LIMIT, NULL, NULL);
            mtp__fault_plan(1u << MTP__FAULT_ALLOC, nth, forever);
            uint32_t kept = fill(&t);
            int fired = mtp__fault_stop();
            if (fired == 0) {
                assert_int_equal(kept, SWEEP);
                assert_true(nth > 8);
                mtp__intern_fini(&t);
                break;
            }
            assert_true(forever ? kept < SWEEP : kept == SWEEP - 1);
            assert_int_equal(mtp__intern_count(&t), kept);
            assert_int_equal(fill(&t), SWEEP); /* everything works again once there is memory */
            mtp__intern_fini(&t);
            assert_int_equal(mtp__alloc_live(), live);
        }
}

/* ------------------------------------------------------------------------------------------ contention */

enum {
    THREADS = 4,
    SHARED = 3000
};

typedef struct racer {
    mtp__intern *table;
    unsigned me;
    uint32_t id[SHARED];
    int wrong;
} racer;

static void *race(void *arg)
{
    racer *r = arg;
    char text[32];
    for (unsigned i = 0; i < SHARED; i++) { /* the same names, each thread in another order */
        unsigned k = (i * 7 + r->me * 751) % SHARED;
        snprintf(text, sizeof text, "shared %u", k);
        uint32_t before = find(r->table, text);
        uint32_t id = add(r->table, text);
        r->wrong += id == 0 || (before != 0 && before != id) || find(r->table, text) != id;
        r->id[k] = id;
        const mtp__intern_entry *e = mtp__intern_get(r->table, id);
        r->wrong += e == NULL || strcmp((const char *)e->bytes, text) != 0;
        uint32_t count = mtp__intern_count(r->table);
        e = mtp__intern_get(r->table, count); /* the newest, whichever it is, is complete */
        r->wrong += e == NULL || e->length == 0 || e->bytes[e->length] != 0;
    }
    return NULL;
}

static void threads_that_race_agree_on_every_id(void **state)
{
    (void)state;
    static racer r[THREADS];
    for (int round = 0; round < test_scaled(20); round++) {
        mtp__intern t;
        pthread_t thread[THREADS];
        mtp__intern_init(&t, 1, NO_LIMIT, NULL, NULL);
        for (unsigned i = 0; i < THREADS; i++) {
            r[i] = (racer){.table = &t, .me = i};
            pthread_create(&thread[i], NULL, race, &r[i]);
        }
        for (unsigned i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        for (unsigned i = 0; i < THREADS; i++) {
            assert_int_equal(r[i].wrong, 0);
            assert_memory_equal(r[i].id, r[0].id, sizeof r[0].id);
        }
        assert_int_equal(mtp__intern_count(&t), SHARED);
        mtp__intern_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_count_from_the_first_in_order_and_are_kept),
        TEST(bytes_are_bytes),
        TEST(equal_hashes_do_not_mean_equal_bytes),
        TEST(growth_across_segments_and_tables_keeps_every_id),
        TEST(words_are_aligned_in_the_arena),
        TEST(one_large_entry_is_kept_whole),
        TEST(the_limit_refuses_the_new_and_keeps_the_old),
        TEST(a_table_that_is_not_nearly_full_takes_a_deep_stack),
        TEST(reset_forgets_all_and_starts_anew),
        TEST(the_listener_hears_each_entry_once_before_it_is_seen),
        TEST(refused_entries_take_no_room),
        TEST(every_allocation_may_fail),
        TEST(threads_that_race_agree_on_every_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
