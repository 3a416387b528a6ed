/* Unit: record/pool: chunks in memory and in a file, mappings, checksums. */
#define _GNU_SOURCE
#include "tests/unit/pools.h"

/* ------------------------------------------------------------------------------------------- in memory */

static void stop_gives_all_slots_then_refuses_for_good(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp_drop why = NONE;
    mtp__pool_config c = config(5, MTP_STOP_WHEN_FULL, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    for (uint64_t i = 1; i <= 5; i++) {
        mtp__chunk *chunk = take(&pool, 7, &why);
        assert_non_null(chunk);
        assert_fresh(chunk, 7, i);
        fill_and_seal(&pool, chunk, 10);
    }
    for (int i = 0; i < 3; i++) {
        assert_null(take(&pool, 7, &why));
        assert_int_equal(why, MTP_DROP_BUDGET);
    }
    assert_int_equal(pool.kept, 50);
    assert_int_equal(pool.overwritten, 0);
    assert_int_equal(sights(&pool)->count, 5);
    mtp__pool_fini(&pool);
}

static void reset_gives_zeroed_chunks_again(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STOP_WHEN_FULL, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    uint64_t order = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            mtp__chunk *chunk = take(&pool, 1, NULL);
            assert_fresh(chunk, 1, ++order);
            memset(mtp__chunk_words(chunk), 0xff, CHUNK - sizeof *chunk);
            mtp__pool_seal(&pool, chunk, mtp__span_words(CHUNK), 1);
        }
        assert_null(take(&pool, 1, NULL));
        mtp__pool_reset(&pool);
        assert_int_equal(pool.kept, 0);
        assert_int_equal(sights(&pool)->count, 0);
    }
    mtp__pool_fini(&pool);
}

static mtp__pool *pool_in_hook;
static uint32_t seen_in_hook;

static void visit_in_hook(mtp__testpoint point, void *user)
{
    (void)user;
    if (point == MTP__POINT_CHUNK_EVICTED)
        seen_in_hook += sights(pool_in_hook)->count;
}

/* After a reset, a slot still holds its old bytes when it is handed out: they must not be read as new. */
static void old_chunks_are_not_seen_again_after_a_reset(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STOP_WHEN_FULL, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    for (int i = 0; i < 4; i++)
        fill_and_seal(&pool, take(&pool, 1, NULL), 10);
    mtp__pool_reset(&pool);
    pool_in_hook = &pool;
    seen_in_hook = 0;
    mtp__testpoint_set(visit_in_hook, NULL);
    assert_non_null(take(&pool, 1, NULL));
    mtp__testpoint_set(NULL, NULL);
    assert_int_equal(seen_in_hook, 0);
    assert_int_equal(sights(&pool)->count, 1);
    mtp__pool_fini(&pool);
}

static void keep_newest_empties_the_chunk_that_was_sealed_first_and_counts_it(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_KEEP_NEWEST, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    mtp__chunk *chunk[4];
    for (int i = 0; i < 4; i++)
        chunk[i] = take(&pool, 1, NULL);
    fill_and_seal(&pool, chunk[2], 3); /* not sealed in the order taken */
    fill_and_seal(&pool, chunk[0], 5);
    fill_and_seal(&pool, chunk[3], 7);
    assert_int_equal(pool.kept, 15);
    assert_ptr_equal(take(&pool, 2, NULL), chunk[2]);
    assert_fresh(chunk[2], 2, 5);
    assert_int_equal(pool.kept, 12);
    assert_int_equal(pool.overwritten, 3);
    assert_ptr_equal(take(&pool, 2, NULL), chunk[0]);
    assert_int_equal(pool.kept, 7);
    assert_int_equal(pool.overwritten, 8);
    assert_ptr_equal(take(&pool, 2, NULL), chunk[3]);
    assert_int_equal(pool.kept, 0);
    assert_int_equal(pool.overwritten, 15);
    mtp__pool_fini(&pool);
}

static void keep_newest_refuses_while_all_chunks_are_in_hand_and_gives_again_after(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp_drop why = NONE;
    mtp__pool_config c = config(4, MTP_KEEP_NEWEST, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    mtp__chunk *chunk[4];
    for (int i = 0; i < 4; i++)
        chunk[i] = take(&pool, 1, NULL);
    assert_null(take(&pool, 1, &why));
    assert_int_equal(why, MTP_DROP_BUDGET);
    fill_and_seal(&pool, chunk[1], 1);
    assert_ptr_equal(take(&pool, 1, &why), chunk[1]);
    mtp__pool_fini(&pool);
}

static void control_chunks_are_never_made_room_of(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp_drop why = NONE;
    mtp__pool_config c = config(4, MTP_KEEP_NEWEST, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    for (int i = 0; i < 3; i++)
        fill_and_seal(&pool, take(&pool, 0, NULL), 2);
    assert_int_equal(pool.kept, 0); /* definitions do not count as records */
    for (uint64_t i = 0; i < 100; i++) {
        mtp__chunk *chunk = take(&pool, 1, &why);
        assert_non_null(chunk);
        assert_int_equal(chunk->order, 4 + i);
        fill_and_seal(&pool, chunk, 2);
    }
    sight *s = sights(&pool);
    assert_int_equal(s->count, 4);
    assert_int_equal(pool.kept, 2);
    assert_int_equal(pool.overwritten, 198);
    mtp__pool_fini(&pool);
}

static void a_visit_goes_stream_by_stream_in_order_with_control_last(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(32, MTP_STOP_WHEN_FULL, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    static const uint32_t stream[] = {0, 3, 1, 3, 0, 2, 1, 3, 2, 0};
    for (size_t i = 0; i < COUNT(stream); i++)
        fill_and_seal(&pool, take(&pool, stream[i], NULL), 1 + (uint32_t)i);
    fill(take(&pool, 2, NULL), 4); /* still open: visible as far as it is written */
    static const uint64_t order[] = {3, 7, 6, 9, 11, 2, 4, 8, 1, 5, 10};
    sight *s = sights(&pool);
    assert_int_equal(s->count, COUNT(order));
    for (size_t i = 0; i < COUNT(order); i++) {
        assert_int_equal(s->chunk[i].order, order[i]);
        assert_int_equal(s->chunk[i].words, order[i] == 11 ? 8 : 2 * order[i]);
        assert_true(s->chunk[i].whole);
    }
    static sight control;
    memset(&control, 0, sizeof control);
    assert_ok(mtp__pool_visit_control(&pool, look, &control));
    assert_int_equal(control.count, 3);
    assert_int_equal(control.chunk[1].order, 5);
    mtp__pool_fini(&pool);
}

static void a_visit_ends_with_the_visitors_status(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(8, MTP_STOP_WHEN_FULL, NULL);
    static sight s;
    memset(&s, 0, sizeof s);
    assert_ok(mtp__pool_init(&pool, &c));
    for (int i = 0; i < 8; i++)
        fill_and_seal(&pool, take(&pool, 1, NULL), 1);
    s.stop_after = 3;
    assert_int_equal(mtp__pool_visit(&pool, look, &s), MTP_E_UNSUPPORTED);
    assert_int_equal(s.count, 3);
    mtp__pool_fini(&pool);
}

static mtp_status take_while_visiting(void *user, const mtp__chunk *chunk, const uint64_t *words,
                                      uint32_t count)
{
    sight *s = user;
    uint64_t order = chunk->order;
    if (s->count < 3) { /* two chunks are evicted, but never the one being read */
        for (int i = 0; i < 2; i++) {
            mtp__chunk *fresh = take(s->pool, 1, NULL);
            if (fresh == NULL || fresh == chunk)
                return MTP_E_STATE;
            fill_and_seal(s->pool, fresh, 1);
        }
    }
    if (chunk->order != order || count != 2 || words[1] != order)
        return MTP_E_FORMAT;
    return look(user, chunk, words, count);
}

static void a_chunk_that_is_being_read_is_not_emptied(void **state)
{
    (void)state;
    mtp__pool pool;
    static sight s;
    memset(&s, 0, sizeof s);
    mtp__pool_config c = config(8, MTP_KEEP_NEWEST, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    s.pool = &pool;
    for (int i = 0; i < 8; i++)
        fill_and_seal(&pool, take(&pool, 1, NULL), 1);
    assert_ok(mtp__pool_visit(&pool, take_while_visiting, &s));
    /* 1 2 3 ... 8; reading 1 empties 2 and 3, reading 4 empties 1 and 5 (4 is pinned), reading 6: 4 and 7 */
    assert_int_equal(s.count, 4);
    assert_int_equal(s.chunk[0].order, 1);
    assert_int_equal(s.chunk[1].order, 4);
    assert_int_equal(pool.kept + pool.overwritten, 14);
    mtp__pool_fini(&pool);
}

static void written_ends_at_the_first_record_that_cannot_be(void **state)
{
    (void)state;
    uint64_t w[16] = {MTP__WORD0(5, 2, MTP__KIND_MARK), 1, MTP__WORD0(6, 1, MTP__KIND_END)};
    assert_int_equal(mtp__chunk_written(w, 16), 3);
    w[3] = MTP__WORD0(7, 0, MTP__KIND_CONTROL);
    w[4] = (uint64_t)5 << 32 | MTP__CONTROL_NAME;
    assert_int_equal(mtp__chunk_written(w, 16), 8);
    assert_int_equal(mtp__chunk_written(w, 7), 3); /* does not fit */
    assert_int_equal(mtp__chunk_written(w, 4), 3); /* its length would be beyond the end */
    w[4] = (uint64_t)0 << 32;
    assert_int_equal(mtp__chunk_written(w, 16), 3);
    w[4] = (uint64_t)UINT32_MAX << 32;
    assert_int_equal(mtp__chunk_written(w, 16), 3);
    w[3] = MTP__WORD0(7, 14, MTP__KIND_DEVICE);
    assert_int_equal(mtp__chunk_written(w, 16), 3);
    assert_int_equal(mtp__chunk_written(w, 0), 0);
}

/* ------------------------------------------------------------------------------------------- in a file */

static void each_policy_keeps_in_a_file_what_it_keeps_in_memory(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_KEEP_NEWEST; policy++) {
        const char *path = test_path("policy.mtp");
        mtp__pool memory, file;
        mtp__pool_config c = config(6, (mtp_when_full)policy, NULL),
                         f = config(6, (mtp_when_full)policy, path);
        mtp__spool_report report;
        assert_ok(mtp__pool_init(&memory, &c));
        assert_ok(mtp__pool_init(&file, &f));
        for (uint32_t i = 0; i < 20; i++) {
            mtp_drop why_memory = NONE, why_file = NONE;
            mtp__chunk *a = take(&memory, 1 + i % 3, &why_memory), *b = take(&file, 1 + i % 3, &why_file);
            assert_int_equal(a == NULL, b == NULL);
            assert_int_equal(why_memory, why_file);
            if (a == NULL)
                continue;
            assert_fresh(b, 1 + i % 3, a->order);
            fill_and_seal(&memory, a, 1 + i);
            fill_and_seal(&file, b, 1 + i);
        }
        assert_int_equal(memory.kept, file.kept);
        assert_int_equal(memory.overwritten, file.overwritten);
        static sight in_memory;
        in_memory = *sights(&memory);
        assert_memory_equal(&in_memory, sights(&file), sizeof in_memory);
        mtp__pool_finish(&file);
        assert_ok(visit_file(path, &report));
        assert_memory_equal(&in_memory, &file_sight, sizeof in_memory);
        assert_true(report.complete);
        assert_int_equal(report.damaged, 0);
        assert_int_equal(report.unsealed, 0);
        assert_int_equal(report.pid, getpid());
        assert_int_equal(file_size(path), 7 * CHUNK);
        mtp__pool_fini(&memory);
        mtp__pool_fini(&file);
    }
}

static void a_stream_leaves_every_chunk_in_the_file(void **state)
{
    (void)state;
    const char *path = test_path("stream.mtp");
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STREAM, path);
    mtp__spool_report report;
    assert_ok(mtp__pool_init(&pool, &c));
    for (uint32_t i = 1; i <= 1500; i++) {
        mtp__chunk *chunk = take(&pool, 1, NULL);
        assert_non_null(chunk);
        assert_fresh(chunk, 1, i);
        fill_and_seal(&pool, chunk, 1 + i % 200);
    }
    assert_int_equal(pool.overwritten, 0);
    assert_int_equal(sights(&pool)->count, 1500);
    assert_ok(visit_file(path, &report)); /* as after a crash */
    assert_int_equal(report.chunks, 1500);
    assert_false(report.complete);
    mtp__pool_finish(&pool);
    assert_ok(visit_file(path, &report));
    assert_true(report.complete);
    assert_int_equal(file_sight.count, 1500);
    uint64_t words = 0;
    for (uint32_t i = 0; i < 1500; i++) {
        assert_int_equal(file_sight.chunk[i].order, i + 1);
        assert_true(file_sight.chunk[i].whole);
        words += file_sight.chunk[i].words;
    }
    assert_int_equal(words, pool.kept * 2);
    assert_int_equal(file_size(path), 1501 * CHUNK);
    mtp__pool_fini(&pool);
}

static void a_stream_whose_chunks_are_all_in_hand_refuses_for_the_moment(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp_drop why = NONE;
    mtp__pool_config c = config(4, MTP_STREAM, test_path("inhand.mtp"));
    assert_ok(mtp__pool_init(&pool, &c));
    mtp__chunk *chunk[4];
    for (int i = 0; i < 4; i++)
        chunk[i] = take(&pool, 1, NULL);
    assert_null(take(&pool, 1, &why));
    assert_int_equal(why, MTP_DROP_BUDGET);
    fill_and_seal(&pool, chunk[3], 1);
    assert_ptr_equal(take(&pool, 1, &why), chunk[3]);
    mtp__pool_fini(&pool);
}

/* They are safe in the file: their memory is needed by others. */
static void a_stream_of_definitions_does_not_use_up_the_places_in_memory(void **state)
{
    (void)state;
    const char *path = test_path("control.mtp");
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STREAM, path);
    assert_ok(mtp__pool_init(&pool, &c));
    for (uint32_t i = 0; i < 100; i++) {
        mtp__chunk *chunk = take(&pool, i % 2, NULL);
        assert_non_null(chunk);
        fill_and_seal(&pool, chunk, 5);
    }
    assert_int_equal(pool.kept, 50 * 5);
    assert_ok(visit_file(path, NULL));
    assert_int_equal(file_sight.count, 100);
    mtp__pool_fini(&pool);
}

static void a_streamed_file_never_grows_over_its_limit(void **state)
{
    (void)state;
    for (uint64_t limit = 8 * CHUNK; limit <= 2 << 20; limit = limit * 3 + 1000) {
        const char *path = test_path("limit.mtp");
        mtp__pool pool;
        mtp_drop why = NONE;
        mtp__pool_config c = config(4, MTP_STREAM, path);
        c.file_limit = limit;
        uint64_t given = 0;
        assert_ok(mtp__pool_init(&pool, &c));
        for (mtp__chunk *chunk; (chunk = take(&pool, 1, &why)) != NULL; given++) {
            fill_and_seal(&pool, chunk, 1);
            assert_true((uint64_t)file_size(path) <= limit);
        }
        assert_int_equal(why, MTP_DROP_DISK);
        assert_int_equal(given, limit / CHUNK - 1); /* all of it is used; one piece is the header */
        assert_int_equal(pool.file.error, 0);       /* as configured: nothing went wrong */
        mtp__pool_finish(&pool);
        assert_ok(visit_file(path, NULL));
        assert_int_equal(file_sight.count, given);
        mtp__pool_fini(&pool);
    }
}

static void a_file_that_goes_on_after_finish_is_not_complete_until_the_next(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++) {
        const char *path = test_path("again.mtp");
        mtp__pool pool;
        mtp__pool_config c = config(6, (mtp_when_full)policy, path);
        mtp__spool_report report;
        uint32_t chunks = 0;
        assert_ok(mtp__pool_init(&pool, &c));
        for (int round = 0; round < 5; round++) {
            mtp__chunk *chunk = take(&pool, 1, NULL);
            assert_non_null(chunk);
            fill_and_seal(&pool, chunk, 2);
            chunks++;
            assert_ok(visit_file(path, &report));
            assert_false(report.complete);
            assert_int_equal(report.chunks, chunks);
            mtp__pool_finish(&pool);
            assert_ok(visit_file(path, &report));
            assert_true(report.complete);
            assert_int_equal(report.chunks, chunks);
            assert_int_equal(file_size(path), (chunks + 1) * CHUNK);
        }
        mtp__pool_fini(&pool);
    }
}

/* -------------------------------------------------------------------------------------------- mappings */

static void *idle_thread(void *arg)
{
    return arg;
}

static int map_count_most(void)
{
    int most = 0;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
    assert_int_equal(fscanf(f, "%d", &most), 1);
    fclose(f);
    return most;
}

static int mappings(void)
{
    int lines = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    for (int c; (c = fgetc(f)) != EOF;)
        lines += c == '\n';
    fclose(f);
    return lines;
}

/* Each slot of a stream is a mapping, and the program needs some mappings for its threads. */
static void a_stream_leaves_the_program_its_mappings(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(65000, MTP_STREAM, test_path("maps.mtp"));
    int most = map_count_most(), before = mappings();
    assert_ok(mtp__pool_init(&pool, &c));
    assert_true(pool.slots <= 65000);
    mtp__chunk **held = calloc(pool.slots, sizeof *held);
    for (int round = 0; round < 3; round++) { /* returned in an order that lets no two mappings merge */
        for (uint32_t i = 0; i < pool.slots; i++)
            assert_non_null(held[i] = take(&pool, 1, NULL));
        for (uint32_t i = 0; i < pool.slots; i++)
            fill_and_seal(&pool, held[(uint64_t)i * 7919 % pool.slots], 1);
    }
    assert_true(mappings() - before <= most / 8 + 64); /* a sanitizer has mappings of its own */
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, idle_thread, NULL), 0);
    pthread_join(t, NULL);
    free(held);
    mtp__pool_fini(&pool);
}

/* ------------------------------------------------------------------------------------------ checksums */

static void a_checksum_sees_each_flipped_bit_of_a_sealed_chunk(void **state)
{
    (void)state;
    const char *path = test_path("flip.mtp");
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STOP_WHEN_FULL, path);
    assert_ok(mtp__pool_init(&pool, &c));
    for (int i = 0; i < 3; i++) /* order 3 has two bits set: no single flip makes it 0 */
        fill_and_seal(&pool, take(&pool, 1, NULL), 20);
    mtp__pool_finish(&pool);
    mtp__pool_fini(&pool);
    size_t bytes;
    char *file = test_slurp(path, &bytes);
    assert_int_equal(bytes, 4 * CHUNK);
    char *third = file + 3 * CHUNK;
    for (size_t bit = 0; bit < (sizeof(mtp__chunk) + 20 * 16) * 8; bit++) {
        if (bit / 64 == offsetof(mtp__chunk, sealed) / 8)
            continue; /* the pool's own field, which no reader uses */
        third[bit / 8] ^= (char)(1 << bit % 8);
        test_spew(path, file, bytes);
        mtp__spool_report report;
        assert_ok(visit_file(path, &report));
        assert_int_equal(report.chunks, 2);
        assert_int_equal(report.damaged, 1);
        third[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stop_gives_all_slots_then_refuses_for_good),
        TEST(reset_gives_zeroed_chunks_again),
        TEST(old_chunks_are_not_seen_again_after_a_reset),
        TEST(keep_newest_empties_the_chunk_that_was_sealed_first_and_counts_it),
        TEST(keep_newest_refuses_while_all_chunks_are_in_hand_and_gives_again_after),
        TEST(control_chunks_are_never_made_room_of),
        TEST(a_visit_goes_stream_by_stream_in_order_with_control_last),
        TEST(a_visit_ends_with_the_visitors_status),
        TEST(a_chunk_that_is_being_read_is_not_emptied),
        TEST(written_ends_at_the_first_record_that_cannot_be),
        TEST(each_policy_keeps_in_a_file_what_it_keeps_in_memory),
        TEST(a_stream_leaves_every_chunk_in_the_file),
        TEST(a_stream_whose_chunks_are_all_in_hand_refuses_for_the_moment),
        TEST(a_stream_of_definitions_does_not_use_up_the_places_in_memory),
        TEST(a_streamed_file_never_grows_over_its_limit),
        TEST(a_file_that_goes_on_after_finish_is_not_complete_until_the_next),
        TEST(a_stream_leaves_the_program_its_mappings),
        TEST(a_checksum_sees_each_flipped_bit_of_a_sealed_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
