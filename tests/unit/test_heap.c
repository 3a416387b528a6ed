/* Unit: base/heap: the first comes before all others, whatever is added, removed or replaced. */
#include "base/heap.h"
#include "tests/test.h"

#define MOST 300u

typedef struct item {
    uint32_t key, payload; /* the payload moves with the key */
} item;

static bool before(const void *a, const void *b, const void *user)
{
    const item *x = a, *y = b;
    return *(const bool *)user ? x->key > y->key : x->key < y->key;
}

static uint32_t chance(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void is_a_heap(const item *heap, size_t count, const bool *down)
{
    for (size_t i = 1; i < count; i++)
        assert_false(before(&heap[i], &heap[(i - 1) / 2], down));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(heap[i].payload, heap[i].key * 7);
}

static void what_comes_out_is_in_order(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (uint32_t count = 0; count < MOST; count += count < 20 ? 1 : 31)
        for (int turn = 0; turn < 4; turn++) {
            item heap[MOST];
            const bool down = turn % 2 != 0;
            for (uint32_t i = 0; i < count; i++) {
                uint32_t key = chance(&seed) % (count + 1); /* some are equal */
                heap[i] = (item){key, key * 7};
                if (turn >= 2) /* one by one, or all at once */
                    mtp__heap_up(heap, sizeof *heap, i, before, &down);
            }
            if (turn < 2)
                mtp__heap_order(heap, sizeof *heap, count, before, &down);
            is_a_heap(heap, count, &down);
            for (uint32_t left = count, last = down ? UINT32_MAX : 0; left > 0;) {
                assert_true(down ? heap[0].key <= last : heap[0].key >= last);
                last = heap[0].key;
                heap[0] = heap[--left];
                mtp__heap_down(heap, sizeof *heap, left, 0, before, &down);
                is_a_heap(heap, left, &down);
            }
        }
}

static void the_first_may_be_replaced(void **state)
{
    (void)state;
    uint32_t seed = 2;
    const bool down = false;
    item heap[64];
    for (uint32_t i = 0; i < 64; i++)
        heap[i] = (item){i, i * 7};
    for (int i = 0; i < 1000; i++) {
        uint32_t key = chance(&seed) % 1000;
        heap[0] = (item){key, key * 7};
        mtp__heap_down(heap, sizeof *heap, 64, 0, before, &down);
        is_a_heap(heap, 64, &down);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_comes_out_is_in_order),
        TEST(the_first_may_be_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
