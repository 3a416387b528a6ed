/* Unit: base/grow: lists that grow. */
#include "base/grow.h"
#include "base/os.h"
#include "tests/test.h"

static void what_is_there_stays_and_what_is_new_is_zero(void **state)
{
    (void)state;
    uint32_t *item = NULL, room = 0, count = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(MTP__GROW(item, room, count, count + 1, 3));
        assert_int_equal(item[count], 0);
        item[count++] = i;
    }
    assert_int_equal(room, 3 * 512);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(item[i], i);
    mtp__free(item);
}

static void much_at_once_is_one_step(void **state)
{
    (void)state;
    char *text = NULL;
    size_t room = 0;
    assert_true(MTP__GROW(text, room, 0, 5, 64));
    assert_int_equal(room, 64);
    assert_true(MTP__GROW(text, room, 5, 1000, 64));
    assert_int_equal(room, 1024);
    assert_true(MTP__GROW(text, room, 5, 1024, 64)); /* nothing to do */
    assert_int_equal(room, 1024);
    mtp__free(text);
}

static void what_cannot_grow_is_as_it_was(void **state)
{
    (void)state;
    uint64_t *item = NULL;
    uint32_t room = 0;
    assert_true(MTP__GROW(item, room, 0, 4, 4));
    uint64_t *was = item;
    item[3] = 7;
    size_t many = (size_t)UINT32_MAX + 1;
    assert_false(MTP__GROW(item, room, 4, many, 4)); /* more than a room can count */
    size_t wide = room;
    assert_false(MTP__GROW(item, wide, 4, SIZE_MAX / 2, 4)); /* more than there is */
    assert_ptr_equal(item, was);
    assert_int_equal(room, 4);
    assert_int_equal(wide, 4);
    assert_int_equal(item[3], 7);
    mtp__free(item);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_there_stays_and_what_is_new_is_zero),
        TEST(much_at_once_is_one_step),
        TEST(what_cannot_grow_is_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
