/* Unit: record/pool: policies, order, what is refused and why, in memory and in a file. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK 4096u
#define NONE ((mtp_drop)99)

static mtp__pool_config config(uint32_t slots, mtp_when_full when_full, const char *path)
{
    return (mtp__pool_config){slots * CHUNK, CHUNK, when_full, path, 0};
}

static mtp__chunk *take(mtp__pool *pool, uint32_t stream, mtp_drop *why)
{
    mtp_drop ignored;
    return mtp__pool_take(pool, stream, 1, 0, 1000, why != NULL ? why : &ignored);
}

/* Marks with the chunk's order as their name, so that a reader can tell whose they are. */
static void fill(mtp__chunk *chunk, uint32_t records)
{
    uint64_t *at = mtp__chunk_words(chunk);
    for (uint32_t i = 0; i < records; i++, at += 2) {
        at[1] = chunk->order;
        __atomic_store_n(at, MTP__WORD0(2000 + i, 2, MTP__KIND_MARK), __ATOMIC_RELEASE);
    }
}

static void fill_and_seal(mtp__pool *pool, mtp__chunk *chunk, uint32_t records)
{
    fill(chunk, records);
    mtp__pool_seal(pool, chunk, records * 2, records);
}

typedef struct sight {
    uint32_t count, stop_after;
    struct {
        uint64_t order;
        uint32_t stream, words;
        bool whole;
    } chunk[4096];
    mtp__pool *pool;
} sight;

static mtp_status look(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    sight *s = user;
    bool whole = true;
    for (uint32_t i = 0; i < count; i += 2)
        whole &= MTP__WORD0_KIND(words[i]) == MTP__KIND_MARK && words[i + 1] == chunk->order;
    if (s->count < COUNT(s->chunk)) {
        s->chunk[s->count].order = chunk->order;
        s->chunk[s->count].stream = chunk->stream;
        s->chunk[s->count].words = count;
        s->chunk[s->count].whole = whole;
    }
    s->count++;
    return s->stop_after != 0 && s->count == s->stop_after ? MTP_E_UNSUPPORTED : MTP_OK;
}

static sight *sights(mtp__pool *pool)
{
    static sight s;
    memset(&s, 0, sizeof s);
    assert_ok(mtp__pool_visit(pool, look, &s));
    return &s;
}

static int open_files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* Every word after the header, and all of the header that is not filled, is zero. */
static void assert_fresh(const mtp__chunk *chunk, uint32_t stream, uint64_t order)
{
    assert_true(chunk->magic != 0); /* a file's is its own */
    assert_int_equal(chunk->order, order);
    assert_int_equal(chunk->stream, stream);
    assert_int_equal(chunk->cycle, 1);
    assert_int_equal(chunk->base_ticks, 1000);
    assert_int_equal(chunk->records, 0);
    assert_int_equal(chunk->words, 0);
    assert_int_equal(chunk->checksum, 0);
    const uint64_t *words = mtp__chunk_words((mtp__chunk *)chunk);
    for (uint32_t i = 0; i < mtp__span_words(CHUNK); i++)
        assert_int_equal(words[i], 0);
}

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

/* After a reset a slot still holds its old bytes when it is handed out: nobody may take them for news. */
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
    fill_and_seal(&pool, chunk[2], 3); /* sealed in another order than taken */
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
    assert_int_equal(pool.kept, 0); /* definitions are not records of the program */
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
    fill(take(&pool, 2, NULL), 4); /* still in hand: seen as far as it goes */
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
    if (s->count < 3) { /* two chunks make room: never the one that is being read */
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

static sight file_sight; /* what visit_file saw */

static mtp_status visit_file(const char *path, mtp__spool_report *report)
{
    memset(&file_sight, 0, sizeof file_sight);
    return mtp__spool_visit(path, look, &file_sight, report);
}

static off_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

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

/* In the file they are safe: their places in memory are needed by others. */
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
        assert_int_equal(given, limit / CHUNK - 1); /* all of it is used: one piece is the header's */
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

/* --------------------------------------------------------------------------------------- parts of pieces */

static mtp__chunk *take_part(mtp__pool *pool, uint32_t stream, uint32_t bytes)
{
    mtp_drop why = NONE;
    mtp__chunk_ask ask = {.stream = stream, .cycle = 1, .depth = 7, .bytes = bytes, .ticks = 1000};
    return mtp__pool_take_part(pool, &ask, &why);
}

/* What is seen of a pool in memory and of its twin in a file, while it goes on and after. */
static void assert_same_in_file_and_memory(mtp__pool *memory, mtp__pool *file, const char *path)
{
    static sight in_memory;
    mtp__spool_report report;
    in_memory = *sights(memory);
    assert_memory_equal(&in_memory, sights(file), sizeof in_memory);
    assert_ok(visit_file(path, &report));
    assert_int_equal(report.damaged, 0);
    assert_memory_equal(&in_memory, &file_sight, sizeof in_memory);
    assert_int_equal(memory->kept, file->kept);
    assert_int_equal(memory->overwritten, file->overwritten);
}

static void chunks_of_a_piece_are_read_like_any_others(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_KEEP_NEWEST; policy++) {
        const char *path = test_path("parts.mtp");
        mtp__pool memory, file;
        mtp__pool_config c = config(16, (mtp_when_full)policy, NULL),
                         f = config(16, (mtp_when_full)policy, path);
        assert_ok(mtp__pool_init(&memory, &c));
        assert_ok(mtp__pool_init(&file, &f));
        mtp__chunk *in_hand[2][8] = {0};
        for (uint32_t i = 0; i < 600; i++) {
            uint32_t k = (uint32_t)test_below(8), bytes = (uint32_t)(512 << test_below(4));
            for (int filed = 0; filed < 2; filed++) {
                mtp__pool *pool = filed ? &file : &memory;
                mtp__chunk **mine = &in_hand[filed][k];
                if (*mine != NULL) {
                    uint32_t most = mtp__span_words((*mine)->span) / 2;
                    fill_and_seal(pool, *mine, i % 3 == 0 ? most : 1 + i % most);
                    *mine = NULL;
                } else if ((*mine = take_part(pool, 1 + k % 5, bytes)) != NULL) {
                    assert_int_equal((*mine)->depth, 7);
                    assert_int_equal((*mine)->sealed, 0);
                    for (uint32_t w = 0; w < mtp__span_words((*mine)->span); w++)
                        assert_int_equal(mtp__chunk_words(*mine)[w], 0);
                }
            }
            assert_int_equal(in_hand[0][k] == NULL, in_hand[1][k] == NULL);
            if (i % 10 == 0)
                assert_same_in_file_and_memory(&memory, &file, path);
        }
        assert_same_in_file_and_memory(&memory, &file, path);
        uint64_t records = 0;
        for (uint32_t i = 0; i < file_sight.count; i++)
            records += file_sight.chunk[i].words / 2;
        assert_int_equal(records, memory.kept);
        mtp__pool_fini(&memory);
        mtp__pool_fini(&file);
    }
}

static void what_a_chunk_leaves_is_for_the_next_taker(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++) {
        mtp__pool pool;
        mtp__pool_config c = config(64, (mtp_when_full)policy, test_path("tail.mtp"));
        assert_ok(mtp__pool_init(&pool, &c));
        for (int i = 0; i < 1000; i++)
            fill_and_seal(&pool, take_part(&pool, 1 + (uint32_t)i % 50, 512), 1); /* takes 128 bytes */
        assert_int_equal(pool.fresh, 1000 / 31 + 1); /* the last 128 bytes of a piece are not worth it */
        for (int i = 0; i < 20;
             i++) { /* a long one gets the rest of a piece, if that is half a piece or more */
            mtp__chunk *chunk = take_part(&pool, 1, CHUNK);
            assert_true(chunk->span >= CHUNK / 2);
            fill_and_seal(&pool, chunk, 50);
        }
        assert_in_range(pool.fresh, 33, 40); /* three to a piece */
        assert_int_equal(sights(&pool)->count, 1020);
        mtp__pool_fini(&pool);
    }
}

/* A record that was begun and given up (a handler jumped out of it) leaves its words behind. */
static void a_tail_is_zeroed_whatever_its_last_owner_began(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STOP_WHEN_FULL, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    mtp__chunk *chunk = take_part(&pool, 1, 512);
    fill(chunk, 1);
    memset(mtp__chunk_words(chunk) + 3, 0xff, 14 * 8); /* all but its word 0 */
    mtp__pool_seal(&pool, chunk, 2, 1);
    assert_int_equal(chunk->span, 128);
    mtp__chunk *full = take_part(&pool, 2, 512);
    assert_ptr_equal(full, (char *)chunk + 128);
    for (uint32_t w = 0; w < mtp__span_words(full->span); w++)
        assert_int_equal(mtp__chunk_words(full)[w], 0);
    /* Its words end where 128 bytes do, and yet a zero follows: to a reader who knows the old span the next chunk's order
     * would look like a record. */
    fill_and_seal(&pool, full, 3);
    assert_int_equal(full->span, 128 + 64);
    mtp__chunk *next = take_part(&pool, 3, 512);
    for (uint32_t w = 0; w < mtp__span_words(next->span); w++)
        assert_int_equal(mtp__chunk_words(next)[w], 0);
    assert_int_equal(next->records + next->words + next->sealed + next->checksum, 0);
    mtp__pool_fini(&pool);
}

/* Once nothing new is to be had, any tail will do. */
static void a_full_pool_is_used_to_the_last_tail(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        mtp__pool pool;
        mtp_drop why = NONE;
        mtp__pool_config c =
            config(4, k == 0 ? MTP_STOP_WHEN_FULL : MTP_STREAM, k == 0 ? NULL : test_path("last.mtp"));
        c.file_limit = 5 * CHUNK;
        assert_ok(mtp__pool_init(&pool, &c));
        uint64_t bytes = 0;
        for (int i = 0; i < 4; i++)
            fill_and_seal(&pool, take(&pool, 1, NULL), 100 + 40 * (uint32_t)i);
        for (mtp__chunk *chunk; (chunk = take_part(&pool, 2, CHUNK)) != NULL; bytes += chunk->span)
            fill_and_seal(&pool, chunk, mtp__span_words(chunk->span) / 2);
        assert_in_range(bytes, 4 * CHUNK - (100 + 140 + 180 + 220) * 16 - 4 * 256, 4 * CHUNK);
        assert_null(take(&pool, 1, &why));
        assert_int_equal(why, k == 0 ? MTP_DROP_BUDGET : MTP_DROP_DISK);
        mtp__pool_fini(&pool);
    }
}

static void record_whole(mtp__pool *pool, int pieces)
{
    for (int i = 0; i < pieces; i++)
        fill_and_seal(pool, take_part(pool, 1, CHUNK), 250);
}

/* A piece stays for the sake of one open chunk; what else is in it grows old all the same. */
static void a_ring_keeps_the_newest_of_each_thread_without_a_hole(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(8, MTP_KEEP_NEWEST, test_path("hole.mtp"));
    assert_ok(mtp__pool_init(&pool, &c));
    for (uint32_t i = 0; i < 3; i++)
        fill_and_seal(&pool, take_part(&pool, 1, 512), 20);
    mtp__chunk *slow = take_part(&pool, 2, 1024), *silent = take_part(&pool, 3, 1024);
    fill(slow, 58);
    record_whole(&pool, 7);
    assert_int_equal(pool.overwritten, 0);
    record_whole(&pool, 1); /* the first of the long ones goes, and all before it */
    assert_int_equal(pool.overwritten, 60 + 250);
    assert_int_equal(pool.kept, 7 * 250);
    sight *s = sights(&pool);
    assert_int_equal(s->count, 9);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(s->chunk[i].order, 7 + i);
    assert_int_equal(s->chunk[7].order, 4);
    assert_int_equal(s->chunk[7].words, 116);
    mtp__pool_seal(&pool, slow, 116, 58); /* just now: it is the newest, whenever it was taken */
    record_whole(&pool, 7);
    assert_int_equal(sights(&pool)->chunk[7].order, 4);
    assert_int_equal(pool.overwritten, 60 + 8 * 250);
    record_whole(&pool, 1); /* what came back after it goes */
    assert_int_equal(pool.overwritten, 60 + 9 * 250 + 58);
    assert_int_equal(sights(&pool)->count, 8);
    fill_and_seal(&pool, silent, 3);
    assert_int_equal(pool.kept, 7 * 250 + 3);
    mtp__pool_fini(&pool);
}

/* Two pieces whose chunks came back in turns: with the one goes what is older than its last, not than its first. */
static void an_eviction_is_as_new_as_the_last_chunk_of_its_piece(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(8, MTP_KEEP_NEWEST, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    fill_and_seal(&pool, take_part(&pool, 2, 512), 1);
    mtp__chunk *between = take(&pool, 1, NULL);
    fill_and_seal(&pool, between, 1);
    mtp__chunk *idle = take_part(&pool, 3, CHUNK); /* the rest of its piece, which stays for this one */
    assert_ptr_equal(idle, (char *)between + between->span);
    mtp__chunk *last = take_part(&pool, 1, CHUNK); /* the rest of the first piece */
    fill_and_seal(&pool, last, mtp__span_words(last->span) / 2);
    for (int i = 0; i < 6; i++)
        fill_and_seal(&pool, take(&pool, 1, NULL), 250);
    assert_int_equal(sights(&pool)->count, 10);
    fill_and_seal(&pool, take(&pool, 1, NULL), 250);
    sight *s = sights(&pool);
    assert_int_equal(s->count, 8); /* seven and the idle one */
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(s->chunk[i].order, 5 + i);
    mtp__pool_fini(&pool);
}

static void a_chunk_is_not_kept_for_its_tail(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(8, MTP_KEEP_NEWEST, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    fill_and_seal(&pool, take(&pool, 1, NULL), 1);
    assert_non_null(take_part(&pool, 2, CHUNK)); /* the rest of that piece, held for ever */
    record_whole(&pool, 8);
    assert_int_equal(pool.overwritten, 1 + 250);
    assert_int_equal(sights(&pool)->count, 8);
    mtp__pool_fini(&pool);
}

static void the_tail_of_an_evicted_piece_is_nobodys(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        mtp__pool pool;
        mtp__pool_config c = config(8, k == 0 ? MTP_KEEP_NEWEST : MTP_STREAM, test_path("tails.mtp"));
        assert_ok(mtp__pool_init(&pool, &c));
        for (int i = 0; i < 8; i++)
            fill_and_seal(&pool, take(&pool, 1, NULL), 1); /* leaves most of its piece */
        mtp__chunk *whole[8], *rest[8];
        for (int i = 0; i < 8; i++)
            assert_non_null(whole[i] = take(&pool, 1, NULL)); /* of which others take the whole */
        assert_null(take_part(&pool, 2, 512));
        uint64_t overwritten = pool.overwritten, pieces = pool.file.pieces;
        for (int round = 0; round < 2; round++) { /* and when they leave most of it, each is there once */
            for (int i = 0; i < 8; i++)
                fill_and_seal(&pool, (round == 0 ? whole : rest)[i], 1);
            for (int i = 0; i < 8; i++)
                assert_non_null(rest[i] = take_part(&pool, 2, CHUNK));
        }
        assert_int_equal(pool.overwritten, overwritten);
        assert_int_equal(pool.file.pieces, pieces);
        mtp__pool_fini(&pool);
    }
}

/* Evicted for the control stream, and free again: it is given once, as a piece, and not as a tail besides. */
static void a_piece_that_is_free_again_has_no_tail(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_KEEP_NEWEST, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    for (int i = 0; i < 4; i++)
        fill_and_seal(&pool, take(&pool, 1, NULL), 1);
    fill_and_seal(&pool, take(&pool, 0, NULL), 1);
    mtp__pool_release_control(&pool, 2);
    for (int i = 0; i < 4; i++)
        assert_non_null(take_part(&pool, 2, CHUNK));
    assert_null(take(&pool, 1, NULL)); /* all are in hand */
    mtp__pool_fini(&pool);
}

typedef struct slow_eviction {
    mtp__pool *pool;
    pthread_t thread;
    atomic_int evicting, may_go_on;
    uint32_t seen, seen_of_evicted;
} slow_eviction;

static void wait_in_eviction(mtp__testpoint point, void *user)
{
    slow_eviction *e = user;
    if (point != MTP__POINT_CHUNK_EVICTED)
        return;
    atomic_store(&e->evicting, 1);
    while (!atomic_load(&e->may_go_on))
        sched_yield();
}

static void *evict_slowly(void *arg)
{
    return take(((slow_eviction *)arg)->pool, 9, NULL);
}

static mtp_status look_slowly(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    (void)words, (void)count;
    slow_eviction *e = user;
    if (e->seen++ == 0) {
        pthread_create(&e->thread, NULL, evict_slowly, e);
        while (!atomic_load(&e->evicting))
            sched_yield();
    }
    e->seen_of_evicted += chunk->stream == 2;
    return MTP_OK;
}

/* The list of chunks is older than the visit of each: a piece may have gone, and its bytes not yet. */
static void a_piece_that_goes_during_a_visit_is_passed_over(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_KEEP_NEWEST, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    slow_eviction e = {.pool = &pool};
    for (int i = 0; i < 5; i++)
        fill_and_seal(&pool, take_part(&pool, 2, 512), 20);
    for (int i = 0; i < 3; i++)
        fill_and_seal(&pool, take(&pool, 1, NULL), 250);
    assert_int_equal(sights(&pool)->count, 8);
    mtp__testpoint_set(wait_in_eviction, &e);
    assert_ok(mtp__pool_visit(&pool, look_slowly, &e));
    atomic_store(&e.may_go_on, 1);
    pthread_join(e.thread, NULL);
    mtp__testpoint_set(NULL, NULL);
    assert_int_equal(e.seen, 3);
    assert_int_equal(e.seen_of_evicted, 0);
    mtp__pool_fini(&pool);
}

/* Threads that fell silent with a chunk each hold no whole pieces when there are few. */
static void many_silent_threads_do_not_hold_a_small_ring(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(16, MTP_KEEP_NEWEST, NULL);
    c.bytes = 16 * 65536;
    c.chunk_bytes = 65536;
    assert_ok(mtp__pool_init(&pool, &c));
    for (uint32_t i = 0; i < 100; i++)
        assert_non_null(take_part(&pool, 2 + i, 65536));
    for (uint32_t i = 0; i < 1000; i++) {
        mtp__chunk *chunk = take_part(&pool, 1, 65536);
        assert_non_null(chunk);
        fill_and_seal(&pool, chunk, mtp__span_words(chunk->span) / 2);
    }
    mtp__pool_fini(&pool);
}

static mtp__chunk *behind_in_hook;

static void take_behind(mtp__testpoint point, void *user)
{
    if (point != MTP__POINT_CHUNK_RESERVED)
        return;
    mtp__testpoint_set(NULL, NULL);
    behind_in_hook = take_part(user, 2, 512);
    fill_and_seal(user, behind_in_hook, 3);
    assert_ok(visit_file(test_path("behind.mtp"), NULL)); /* as a kill now would leave it */
}

/* Whoever takes a part may be killed before it is a chunk; who lies behind must not suffer by it. */
static void a_chunk_behind_one_that_is_being_made_is_found(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STOP_WHEN_FULL, test_path("behind.mtp"));
    assert_ok(mtp__pool_init(&pool, &c));
    fill_and_seal(&pool, take_part(&pool, 1, 512), 1);
    behind_in_hook = NULL;
    mtp__testpoint_set(take_behind, &pool);
    mtp__chunk *chunk = take_part(&pool, 1, 512);
    assert_non_null(behind_in_hook);
    assert_true((char *)behind_in_hook > (char *)chunk);
    assert_int_equal(file_sight.count, 2);
    assert_int_equal(file_sight.chunk[1].order, behind_in_hook->order);
    assert_int_equal(file_sight.chunk[1].words, 6);
    assert_int_equal(sights(&pool)->count, 3);
    mtp__pool_fini(&pool);
}

static void a_damaged_header_costs_its_chunk_and_not_the_piece(void **state)
{
    (void)state;
    const char *path = test_path("header.mtp");
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STOP_WHEN_FULL, path);
    assert_ok(mtp__pool_init(&pool, &c));
    for (int i = 0; i < 20; i++)
        fill_and_seal(&pool, take_part(&pool, 1, 512), 5);
    mtp__pool_finish(&pool);
    mtp__pool_fini(&pool);
    size_t bytes;
    char *file = test_slurp(path, &bytes);
    for (size_t nth = 0; nth < 20; nth++)
        for (size_t bit = 0; bit < sizeof(mtp__chunk) * 8; bit++) {
            mtp__spool_report report;
            char *at = (char *)test_chunk(file, bytes, nth) + bit / 8;
            if (bit / 64 == offsetof(mtp__chunk, sealed) / 8)
                continue;
            *at ^= (char)(1 << bit % 8);
            test_spew(path, file, bytes);
            *at ^= (char)(1 << bit % 8);
            assert_ok(visit_file(path, &report));
            assert_int_equal(report.chunks, 19);
            assert_int_equal(report.damaged, 1);
        }
    for (size_t nth = 0; nth < 20; nth++) { /* or the file ends in it */
        mtp__spool_report report;
        test_spew(path, file, (size_t)((char *)test_chunk(file, bytes, nth) - file) + 40);
        assert_ok(visit_file(path, &report));
        assert_int_equal(report.chunks, nth);
        assert_int_equal(report.damaged, 1);
    }
    free(file);
}

/* ---------------------------------------------------------------------------------------------- epochs */

static void epochs_are_as_old_as_the_oldest_chunk_in_use(void **state)
{
    (void)state;
    for (int filed = 0; filed < 2; filed++) {
        mtp__pool pool;
        mtp__pool_config c = config(4, MTP_KEEP_NEWEST, filed ? test_path("epochs.mtp") : NULL);
        assert_ok(mtp__pool_init(&pool, &c));
        assert_int_equal(mtp__pool_oldest_epoch(&pool), 1);
        atomic_store(&pool.epoch, 3);
        assert_int_equal(mtp__pool_oldest_epoch(&pool), 3);
        mtp__chunk *control = take(&pool, 0, NULL), *a = take_part(&pool, 1, 512);
        assert_int_equal(a->epoch, 3);
        atomic_store(&pool.epoch, 5);
        mtp__chunk *b = take_part(&pool, 2, 512);
        assert_int_equal(b->epoch, 5);
        assert_int_equal(mtp__pool_oldest_epoch(&pool), 3); /* that of a; control does not count */
        a->epoch = 4;                                       /* its definitions are in 4, too */
        mtp__chunk_seal_head(a);
        assert_int_equal(mtp__pool_oldest_epoch(&pool), 4);
        fill_and_seal(&pool, b, 1);
        assert_int_equal(mtp__pool_oldest_epoch(&pool), 4); /* a is open */
        fill_and_seal(&pool, a, 1);
        atomic_store(&pool.epoch, 6);
        assert_int_equal(mtp__pool_oldest_epoch(&pool), 4); /* sealed, and still in use */
        mtp__chunk *idle = take_part(&pool, 3, 512); /* a piece of several epochs, one chunk of it open */
        assert_int_equal(mtp__pool_oldest_epoch(&pool), 4);
        for (int i = 0; i < 3; i++)
            fill_and_seal(&pool, take(&pool, 1, NULL), 1);
        assert_int_equal(mtp__pool_oldest_epoch(&pool), 6); /* a and b are evicted from under idle */
        assert_int_equal(control->epoch, 3);
        fill_and_seal(&pool, idle, 1);
        assert_ok(mtp__pool_visit(&pool, look, &(sight){0}));
        mtp__pool_fini(&pool);
    }
}

static void control_chunks_of_past_epochs_are_free_again(void **state)
{
    (void)state;
    for (int filed = 0; filed < 2; filed++) {
        mtp__pool pool;
        mtp__pool_config c = config(32, MTP_KEEP_NEWEST, filed ? test_path("release.mtp") : NULL);
        assert_ok(mtp__pool_init(&pool, &c));
        mtp__chunk *control[6];
        for (uint32_t i = 0; i < 6; i++) {
            atomic_store(&pool.epoch, 1 + i / 2);
            assert_int_equal(mtp__pool_control_is_large(&pool), i > 4); /* an eighth */
            fill_and_seal(&pool, control[i] = take(&pool, 0, NULL), 2);
        }
        assert_true(mtp__pool_control_is_large(&pool));
        mtp__pool_unseal(&pool, control[5]);
        fill(control[5], 5); /* goes on, and is seen to */
        assert_int_equal(sights(&pool)->chunk[5].words, 10);
        mtp__pool_release_control(&pool, 3);
        assert_false(mtp__pool_control_is_large(&pool));
        sight *s = sights(&pool);
        assert_int_equal(s->count, 2);
        assert_int_equal(s->chunk[0].order, 5);
        mtp__pool_release_control(&pool, 9); /* what is open stays */
        assert_int_equal(sights(&pool)->count, 1);
        for (uint32_t i = 0; i < 31; i++) {
            mtp__chunk *chunk = take(&pool, 1, NULL);
            assert_fresh(chunk, 1, 7 + i);
            fill_and_seal(&pool, chunk, 3);
        }
        assert_int_equal(pool.overwritten, 0); /* all other pieces were free */
        assert_int_equal(sights(&pool)->count, 32);
        mtp__pool_fini(&pool);
    }
}

static mtp_status release_while_visiting(void *user, const mtp__chunk *chunk, const uint64_t *words,
                                         uint32_t count)
{
    sight *s = user;
    uint64_t order = chunk->order;
    mtp__pool_release_control(s->pool, UINT32_MAX);
    for (int i = 0; i < 3; i++)
        fill_and_seal(s->pool, take(s->pool, 1, NULL), 1);
    return chunk->order == order && words[1] == order ? look(user, chunk, words, count) : MTP_E_STATE;
}

static void a_control_chunk_that_is_being_read_is_not_freed(void **state)
{
    (void)state;
    static sight s;
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_KEEP_NEWEST, NULL);
    assert_ok(mtp__pool_init(&pool, &c));
    memset(&s, 0, sizeof s);
    s.pool = &pool;
    for (int i = 0; i < 3; i++)
        fill_and_seal(&pool, take(&pool, 0, NULL), 2);
    assert_ok(mtp__pool_visit_control(&pool, release_while_visiting, &s));
    assert_int_equal(s.count, 1);
    mtp__pool_fini(&pool);
}

/* A ring of 1 MiB with control chunks of 64 KiB that come without end. */
static void definitions_without_end_do_not_fill_a_ring(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(0, MTP_KEEP_NEWEST, NULL);
    c.bytes = 16 * 65536;
    c.chunk_bytes = 65536;
    assert_ok(mtp__pool_init(&pool, &c));
    for (uint32_t i = 0; i < 10000; i++) {
        if (mtp__pool_control_is_large(&pool)) {
            atomic_fetch_add(&pool.epoch, 1);
            mtp__pool_release_control(&pool, mtp__pool_oldest_epoch(&pool));
        }
        mtp__chunk *control = take(&pool, 0, NULL), *data = take_part(&pool, 1, 65536);
        assert_non_null(control);
        assert_non_null(data);
        fill_and_seal(&pool, control, 4000);
        fill_and_seal(&pool, data, mtp__span_words(data->span) / 2);
    }
    assert_true(pool.kept > 0);
    mtp__pool_fini(&pool);
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

/* Each slot of a stream is a mapping, and the program needs some for its threads. */
static void a_stream_leaves_the_program_its_mappings(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(65000, MTP_STREAM, test_path("maps.mtp"));
    int most = map_count_most(), before = mappings();
    assert_ok(mtp__pool_init(&pool, &c));
    assert_true(pool.slots <= 65000);
    mtp__chunk **held = calloc(pool.slots, sizeof *held);
    for (int round = 0; round < 3; round++) { /* given back in such an order that no two mappings are one */
        for (uint32_t i = 0; i < pool.slots; i++)
            assert_non_null(held[i] = take(&pool, 1, NULL));
        for (uint32_t i = 0; i < pool.slots; i++)
            fill_and_seal(&pool, held[(uint64_t)i * 7919 % pool.slots], 1);
    }
    assert_true(mappings() - before <= most / 8 + 4);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, idle_thread, NULL), 0);
    pthread_join(t, NULL);
    free(held);
    mtp__pool_fini(&pool);
}

/* --------------------------------------------------------------------------------------- failing calls */

static void init_survives_every_failing_call(void **state)
{
    (void)state;
    for (int filed = 0; filed < 2; filed++)
        for (int nth = 1;; nth++) {
            mtp__pool pool;
            mtp__pool_config c = config(8, MTP_KEEP_NEWEST, filed ? test_path("init.mtp") : NULL);
            long live = mtp__alloc_live();
            int files = open_files();
            mtp__fault_plan(MTP__FAULTS_ALL & ~(1u << MTP__FAULT_SHORT | 1u << MTP__FAULT_INTERRUPT), nth,
                            false);
            mtp_status status = mtp__pool_init(&pool, &c);
            if (mtp__fault_stop() == 0) {
                assert_int_equal(status, MTP_OK);
                assert_int_equal(nth, filed ? 9 : 3);
                mtp__pool_fini(&pool);
                break;
            }
            assert_true(status == MTP_E_NOMEM || (filed && status == MTP_E_IO));
            assert_says(status == MTP_E_IO  ? "init.mtp"
                        : filed && nth == 3 ? "path"
                                            : "bytes of address space");
            assert_int_equal(mtp__alloc_live(), live);
            assert_int_equal(open_files(), files);
            mtp__pool_fini(&pool); /* allowed after a failed init */
        }
}

static void a_disk_that_fills_ends_the_growth_and_keeps_what_is_there(void **state)
{
    (void)state;
    const unsigned kinds[] = {1u << MTP__FAULT_GROW, 1u << MTP__FAULT_MAP};
    const mtp_when_full policies[] = {MTP_STOP_WHEN_FULL, MTP_STREAM};
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (size_t i = 0; i < COUNT(policies); i++)
            for (int nth = 1; nth <= 5; nth++) {
                const char *path = test_path("enospc.mtp");
                mtp__pool pool;
                mtp__pool_config c = config(policies[i] == MTP_STREAM ? 16 : 2048, policies[i], path);
                mtp_drop why = NONE;
                uint64_t given = 0;
                assert_ok(mtp__pool_init(&pool, &c));
                mtp__fault_plan(kinds[k], nth, true);
                for (mtp__chunk *chunk; given < 1500 && (chunk = take(&pool, 1, &why)) != NULL; given++)
                    fill_and_seal(&pool, chunk, 3);
                assert_true(mtp__fault_stop() > 0);
                assert_int_equal(why, MTP_DROP_DISK);
                assert_int_equal(pool.file.error, k == 0 ? ENOSPC : ENOMEM);
                assert_int_equal(given, k == 0 ? (1 << (nth - 1)) - 1 : nth - 1); /* 1, 2, 4, ... at a time */
                assert_null(take(&pool, 1, &why)); /* for good: no second try in a hot call */
                assert_int_equal(why, MTP_DROP_DISK);
                mtp__pool_finish(&pool);
                assert_int_equal(pool.kept, given * 3);
                mtp__spool_report report;
                assert_ok(visit_file(path, &report));
                assert_int_equal(report.chunks, given);
                assert_int_equal(report.damaged, 0);
                mtp__pool_fini(&pool);
            }
}

/* The step that fails is tried again in smaller ones: each of them may fail, too. */
static void a_step_that_the_disk_has_no_room_for_is_not_the_end(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++)
        for (int nth = 2; nth <= 5; nth++) { /* the first is a step of one */
            mtp__pool pool;
            mtp__pool_config c = config(2048, (mtp_when_full)policy, test_path("step.mtp"));
            assert_ok(mtp__pool_init(&pool, &c));
            mtp__fault_plan(1u << MTP__FAULT_GROW, nth, false);
            for (int i = 0; i < 1500; i++)
                fill_and_seal(&pool, take(&pool, 1, NULL), 3);
            assert_int_equal(mtp__fault_stop(), 1);
            assert_int_equal(pool.kept, 1500 * 3);
            assert_int_equal(pool.file.error, 0);
            mtp__pool_fini(&pool);
        }
}

/* The newest of what was given, as many as there are pieces, and nothing else. */
static void assert_newest(const sight *s, uint64_t given, uint64_t pieces)
{
    assert_int_equal(s->count, pieces);
    for (uint64_t i = 0; i < pieces; i++)
        assert_int_equal(s->chunk[i].order, given - pieces + 1 + i);
}

static void a_ring_on_a_full_disk_keeps_the_newest_in_the_pieces_it_has(void **state)
{
    (void)state;
    for (int nth = 1; nth <= 3; nth++) {
        const char *path = test_path("ring.mtp");
        mtp__pool pool;
        mtp_drop why = NONE;
        mtp__pool_config c = config(2048, MTP_KEEP_NEWEST, path);
        assert_ok(mtp__pool_init(&pool, &c));
        mtp__fault_plan(1u << MTP__FAULT_GROW, nth, true);
        for (uint64_t i = 1; i <= 3000; i++) {
            mtp__chunk *chunk = take(&pool, 1, &why);
            assert_non_null(chunk);
            fill_and_seal(&pool, chunk, 3);
        }
        uint64_t pieces = 4 + ((uint64_t)1 << (nth - 1)) - 1;
        assert_true(mtp__fault_stop() < 3000 / 16); /* it is tried again, and not each time */
        assert_int_equal(pool.file.error, ENOSPC);
        assert_int_equal(pool.kept, pieces * 3);
        assert_int_equal(pool.kept + pool.overwritten, 9000);
        assert_newest(sights(&pool), 3000, pieces);
        for (uint64_t i = 1; i <= 5000; i++) /* the disk has room again, and the ring grows to its size */
            fill_and_seal(&pool, take(&pool, 1, NULL), 3);
        assert_int_equal(pool.fresh, 2048);
        mtp__pool_finish(&pool);
        assert_ok(visit_file(path, NULL));
        assert_newest(&file_sight, 8000, 2048);
        mtp__pool_fini(&pool);
    }
}

/* Of a disk that has room for three pieces and the header. */
static void start_a_ring_under_rlimit(void *arg)
{
    (void)arg;
    mtp__pool pool;
    struct rlimit limit = {4 * CHUNK, 4 * CHUNK};
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    mtp__pool_config c = config(64, MTP_KEEP_NEWEST, test_path("tiny.mtp"));
    CHILD_CHECK(mtp__pool_init(&pool, &c) == MTP_E_IO);
    CHILD_CHECK(strstr(mtp_last_error(), "no room for its first 20480 bytes: File too large") != NULL);
    c.when_full = MTP_STOP_WHEN_FULL;
    CHILD_CHECK(mtp__pool_init(&pool, &c) == MTP_OK);
    for (int i = 0; i < 3; i++)
        CHILD_CHECK(take(&pool, 1, NULL) != NULL);
    CHILD_CHECK(take(&pool, 1, NULL) == NULL);
    mtp__pool_fini(&pool);
}

static void a_ring_without_room_for_four_pieces_does_not_start(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(start_a_ring_under_rlimit, NULL, 30)));
}

/* All pieces there are may be in hand: the disk is looked at again all the same. */
static void a_ring_that_has_nothing_to_evict_tries_the_disk_again(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp_drop why = NONE;
    mtp__pool_config c = config(64, MTP_KEEP_NEWEST, test_path("again.mtp"));
    assert_ok(mtp__pool_init(&pool, &c));
    mtp__fault_plan(1u << MTP__FAULT_GROW, 1, true);
    for (int i = 0; i < 4; i++)
        assert_non_null(take(&pool, 1, NULL));
    assert_null(take(&pool, 1, &why));
    assert_int_equal(why, MTP_DROP_BUDGET);
    mtp__fault_stop();
    int refused = 0;
    while (refused < 1000 && take(&pool, 1, &why) == NULL)
        refused++;
    assert_in_range(refused, 30, 100);
    assert_int_equal(pool.fresh, 5);
    mtp__pool_fini(&pool);
}

static void finish_survives_a_failing_truncate(void **state)
{
    (void)state;
    const char *path = test_path("truncate.mtp");
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STREAM, path);
    mtp__spool_report report;
    assert_ok(mtp__pool_init(&pool, &c));
    for (int i = 0; i < 10; i++)
        fill_and_seal(&pool, take(&pool, 1, NULL), 1);
    mtp__fault_plan(1u << MTP__FAULT_TRUNCATE, 1, false);
    mtp__pool_finish(&pool);
    assert_int_equal(mtp__fault_stop(), 1);
    assert_ok(visit_file(path, &report));
    assert_int_equal(report.chunks, 10);
    assert_int_equal(report.damaged, 0);
    for (int i = 0; i < 10; i++)
        fill_and_seal(&pool, take(&pool, 1, NULL), 1);
    mtp__pool_finish(&pool);
    assert_ok(visit_file(path, &report));
    assert_int_equal(report.chunks, 20);
    mtp__pool_fini(&pool);
}

static void a_visit_survives_every_failing_call(void **state)
{
    (void)state;
    for (int filed = 0; filed < 2; filed++) {
        mtp__pool pool;
        mtp__pool_config c = config(8, MTP_KEEP_NEWEST, filed ? test_path("visit.mtp") : NULL);
        assert_ok(mtp__pool_init(&pool, &c));
        for (int i = 0; i < 6; i++)
            fill_and_seal(&pool, take(&pool, 1, NULL), 1);
        for (int nth = 1;; nth++) {
            static sight s;
            memset(&s, 0, sizeof s);
            long live = mtp__alloc_live();
            mtp__fault_plan(MTP__FAULTS_ALL, nth, false);
            mtp_status status = mtp__pool_visit(&pool, look, &s);
            if (mtp__fault_stop() == 0) {
                assert_int_equal(status, MTP_OK);
                assert_int_equal(s.count, 6);
                assert_true(nth > (filed ? 12 : 1));
                break;
            }
            assert_true(status == MTP_E_NOMEM || status == MTP_E_IO); /* never a silent gap */
            assert_int_equal(mtp__alloc_live(), live);
        }
        mtp__pool_fini(&pool);
    }
}

static void paths_that_cannot_be_a_spool_are_told(void **state)
{
    (void)state;
    mtp__pool pool;
    int files = open_files();
    const char *target = test_path("target"), *folder = test_path("open");
    char link[4096];
    snprintf(link, sizeof link, "%s/link", folder);
    test_spew(target, "precious", 8);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 01777), 0); /* as /tmp */
    assert_int_equal(symlink(target, link), 0);
    const char *const bad[] = {"/dev/full", "/nowhere/at/all.mtp", "/tmp", link};
    for (size_t i = 0; i < COUNT(bad); i++) {
        mtp__pool_config c = config(8, MTP_STOP_WHEN_FULL, bad[i]);
        long live = mtp__alloc_live();
        assert_int_equal(mtp__pool_init(&pool, &c), MTP_E_IO);
        assert_says(bad[i]);
        assert_int_equal(mtp__alloc_live(), live);
    }
    assert_int_equal(open_files(), files);
    assert_says("a link in a folder that others can write to");
    assert_int_equal(file_size(target), 8); /* what such a link points to is not ours */
    const char *own = test_path("own.mtp"); /* one of the user's own is */
    assert_int_equal(symlink("target", own), 0);
    mtp__pool_config c = config(8, MTP_STOP_WHEN_FULL, own);
    assert_ok(mtp__pool_init(&pool, &c));
    assert_int_equal(file_size(target), CHUNK);
    mtp__pool_fini(&pool);
}

static void files_are_private(void **state)
{
    (void)state;
    const char *path = test_path("private.mtp");
    struct stat st;
    mtp__pool pool;
    mtp__pool_config c = config(8, MTP_STOP_WHEN_FULL, path);
    assert_ok(mtp__pool_init(&pool, &c));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    mtp__pool_fini(&pool);
}

typedef struct small_disk {
    char path[256];
    mtp_when_full policy;
    uint64_t *given; /* shared */
} small_disk;

static void fill_disk(small_disk *d, int expected_error)
{
    mtp__pool pool;
    mtp__pool_config c = config(d->policy == MTP_STREAM ? 16 : 4096, d->policy, d->path);
    mtp_drop why = NONE;
    uint64_t taken = 0, most = d->policy == MTP_KEEP_NEWEST ? 3000 : 4096;
    CHILD_CHECK(mtp__pool_init(&pool, &c) == MTP_OK);
    for (mtp__chunk *chunk; taken < most && (chunk = take(&pool, 1, &why)) != NULL; taken++)
        fill_and_seal(&pool, chunk, 250);
    CHILD_CHECK(pool.file.error == expected_error);
    CHILD_CHECK(d->policy == MTP_KEEP_NEWEST ? taken == most : why == MTP_DROP_DISK);
    mtp__pool_finish(&pool);
    mtp__spool_report report;
    CHILD_CHECK(visit_file(d->path, &report) == MTP_OK);
    *d->given = report.chunks;
    for (uint64_t i = 0; i < report.chunks; i++)
        CHILD_CHECK(file_sight.chunk[i].order == taken - report.chunks + 1 + i);
    CHILD_CHECK(report.damaged == 0 && (d->policy == MTP_KEEP_NEWEST || report.chunks == taken));
    mtp__pool_fini(&pool);
}

static void on_tmpfs(void *arg)
{
    small_disk *d = arg;
    char *slash = strrchr(d->path, '/');
    *slash = 0;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", d->path, "tmpfs", 0, "size=4m") != 0)
        _exit(42);
    *slash = '/';
    fill_disk(d, ENOSPC);
}

static void a_full_tmpfs_is_an_error_and_never_a_bus_error(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++) {
        small_disk d = {.policy = (mtp_when_full)policy, .given = test_shared(4096)};
        snprintf(d.path, sizeof d.path, "%s/full.mtp", test_path("."));
        int status = test_child(on_tmpfs, &d, 30);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 42) {
            fprintf(stderr, "skipped: no right to mount a tmpfs\n");
            skip();
        }
        assert_true(test_left_well(status));
        assert_int_equal(*d.given, (4 << 20) / CHUNK - 1); /* to the last piece; one is the header's */
    }
}

static void under_rlimit(void *arg)
{
    small_disk *d = arg;
    struct rlimit limit = {2500000, 2500000};
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    fill_disk(d, EFBIG);
}

static void a_file_size_limit_is_an_error_and_never_a_signal(void **state)
{
    (void)state;
    for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++) {
        small_disk d = {.policy = (mtp_when_full)policy, .given = test_shared(4096)};
        snprintf(d.path, sizeof d.path, "%s", test_path("rlimit.mtp"));
        assert_true(test_left_well(test_child(under_rlimit, &d, 30)));
        assert_int_equal(*d.given, 2500000 / CHUNK - 1);
    }
}

/* ------------------------------------------------------------------------------------------ checksums */

static void a_checksum_sees_each_flipped_bit_of_a_sealed_chunk(void **state)
{
    (void)state;
    const char *path = test_path("flip.mtp");
    mtp__pool pool;
    mtp__pool_config c = config(4, MTP_STOP_WHEN_FULL, path);
    assert_ok(mtp__pool_init(&pool, &c));
    for (int i = 0; i < 3; i++) /* order 3 has two bits: no single flip makes it 0 */
        fill_and_seal(&pool, take(&pool, 1, NULL), 20);
    mtp__pool_finish(&pool);
    mtp__pool_fini(&pool);
    size_t bytes;
    char *file = test_slurp(path, &bytes);
    assert_int_equal(bytes, 4 * CHUNK);
    char *third = file + 3 * CHUNK;
    for (size_t bit = 0; bit < (sizeof(mtp__chunk) + 20 * 16) * 8; bit++) {
        if (bit / 64 == offsetof(mtp__chunk, sealed) / 8)
            continue; /* the pool's own, which no reader looks at */
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

/* ------------------------------------------------------------------------------------------ contention */

typedef struct hands {
    mtp__pool *pool;
    uint32_t stream, rounds;
    uint64_t sealed, refused;
    int wrong;
    bool parts;
} hands;

static void *work(void *arg)
{
    hands *h = arg;
    for (uint32_t i = 0; i < h->rounds; i++) {
        mtp_drop why = NONE;
        mtp__chunk_ask ask = {.stream = h->stream, .cycle = 1, .first = h->sealed, .ticks = 1000};
        ask.bytes = h->parts ? 512u << i % 4 : 0;
        mtp__chunk *chunk = h->parts ? mtp__pool_take_part(h->pool, &ask, &why)
                                     : mtp__pool_take(h->pool, h->stream, 1, h->sealed, 1000, &why);
        if (chunk == NULL) {
            h->refused++;
            h->wrong += why != MTP_DROP_BUDGET;
            continue;
        }
        h->wrong += chunk->stream != h->stream || mtp__chunk_words(chunk)[0] != 0 || chunk->records != 0;
        uint32_t records = 1 + i % 100, most = mtp__span_words(chunk->span) / 2;
        records = records < most ? records : most;
        fill(chunk, records);
        h->wrong += chunk->stream != h->stream;
        mtp__pool_seal(h->pool, chunk, records * 2, records);
        h->sealed += records;
    }
    return NULL;
}

static mtp_status check_chunk(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    int *wrong = user;
    for (uint32_t i = 0; i < count; i += 2)
        *wrong += MTP__WORD0_KIND(words[i]) != MTP__KIND_MARK || words[i + 1] != chunk->order;
    return MTP_OK;
}

/* Four threads take and seal while a fifth reads: every record is in one of the three counts, and what the reader
 * sees is always whole. */
static void threads_that_race_lose_no_record_under_any_policy(void **state)
{
    (void)state;
    for (int n = 0; n < 10; n++) { /* 0, 1: memory; 2 to 4: file; from 5 on the same with parts of pieces */
        int k = n % 5;
        mtp_when_full policy = (mtp_when_full)(k < 2 ? k : k - 2);
        mtp__pool pool;
        mtp__pool_config c =
            config(policy == MTP_STOP_WHEN_FULL ? 600 : 16, policy, k < 2 ? NULL : test_path("race.mtp"));
        assert_ok(mtp__pool_init(&pool, &c));
        hands h[4];
        pthread_t t[4];
        for (uint32_t i = 0; i < 4; i++) {
            h[i] = (hands){&pool, i + 1, (uint32_t)test_scaled(2000), 0, 0, 0, n >= 5};
            pthread_create(&t[i], NULL, work, &h[i]);
        }
        int wrong = 0;
        for (int i = 0; i < test_scaled(40); i++)
            assert_ok(mtp__pool_visit(&pool, check_chunk, &wrong));
        uint64_t sealed = 0;
        for (int i = 0; i < 4; i++) {
            pthread_join(t[i], NULL);
            sealed += h[i].sealed;
            wrong += h[i].wrong;
        }
        assert_int_equal(wrong, 0);
        assert_int_equal(pool.kept + pool.overwritten, sealed);
        static sight s;
        memset(&s, 0, sizeof s);
        assert_ok(mtp__pool_visit(&pool, look, &s));
        uint64_t words = 0;
        if (s.count <= COUNT(s.chunk)) {
            for (uint32_t i = 0; i < s.count; i++)
                words += s.chunk[i].words;
            assert_int_equal(words, pool.kept * 2);
        }
        if (policy == MTP_STREAM)
            assert_int_equal(pool.kept, sealed);
        mtp__pool_fini(&pool);
    }
}

/* A stuck thread's chunk: nobody reads it or gets its memory, and it counts for nothing if its owner seals it after all. */
static void an_abandoned_chunk_is_passed_over_and_stays_taken(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        mtp__pool pool;
        const char *path = way % 2 == 1 ? test_path("abandoned.mtp") : NULL;
        mtp__pool_config c = config(8, MTP_KEEP_NEWEST, path);
        assert_ok(mtp__pool_init(&pool, &c));
        mtp__chunk *first = take_part(&pool, 1, 512), *stuck = take_part(&pool, 2, 512),
                   *last = take_part(&pool, 3, 512);
        fill(first, 3);
        fill(stuck, 4);
        fill(last, 5);
        assert_false(mtp__pool_abandon(&pool, stuck, 9)); /* of another thread */
        assert_true(mtp__pool_abandon(&pool, stuck, 2));
        assert_false(mtp__pool_abandon(&pool, stuck, 2));
        assert_int_equal(sights(&pool)->count, 2);
        mtp__pool_seal(&pool, first, 6, 3);
        assert_false(mtp__pool_abandon(&pool, first, 1)); /* it was sealed */
        if (way >= 2)
            mtp__pool_seal(&pool, stuck, 8, 4);
        mtp__pool_seal(&pool, last, 10, 5);
        assert_int_equal(pool.kept, 8);
        uint32_t epoch = atomic_load(&pool.epoch);
        assert_int_equal(mtp__pool_oldest_epoch(&pool), epoch);
        for (int i = 0; i < 40; i++) { /* round and round: the stuck one's piece is left alone */
            mtp__chunk *chunk = take(&pool, 4, NULL);
            assert_true(chunk != NULL && (uintptr_t)chunk / CHUNK != (uintptr_t)stuck / CHUNK);
            fill_and_seal(&pool, chunk, 10);
        }
        sight *s = sights(&pool);
        for (uint32_t i = 0; i < s->count; i++)
            assert_true(s->chunk[i].whole && s->chunk[i].stream != 2);
        mtp__pool_fini(&pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_abandoned_chunk_is_passed_over_and_stays_taken),
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
        TEST(chunks_of_a_piece_are_read_like_any_others),
        TEST(what_a_chunk_leaves_is_for_the_next_taker),
        TEST(a_tail_is_zeroed_whatever_its_last_owner_began),
        TEST(a_full_pool_is_used_to_the_last_tail),
        TEST(a_ring_keeps_the_newest_of_each_thread_without_a_hole),
        TEST(an_eviction_is_as_new_as_the_last_chunk_of_its_piece),
        TEST(a_chunk_is_not_kept_for_its_tail),
        TEST(the_tail_of_an_evicted_piece_is_nobodys),
        TEST(a_piece_that_is_free_again_has_no_tail),
        TEST(a_piece_that_goes_during_a_visit_is_passed_over),
        TEST(many_silent_threads_do_not_hold_a_small_ring),
        TEST(a_chunk_behind_one_that_is_being_made_is_found),
        TEST(a_damaged_header_costs_its_chunk_and_not_the_piece),
        TEST(epochs_are_as_old_as_the_oldest_chunk_in_use),
        TEST(control_chunks_of_past_epochs_are_free_again),
        TEST(a_control_chunk_that_is_being_read_is_not_freed),
        TEST(definitions_without_end_do_not_fill_a_ring),
        TEST(a_stream_leaves_the_program_its_mappings),
        TEST(init_survives_every_failing_call),
        TEST(a_disk_that_fills_ends_the_growth_and_keeps_what_is_there),
        TEST(a_step_that_the_disk_has_no_room_for_is_not_the_end),
        TEST(a_ring_on_a_full_disk_keeps_the_newest_in_the_pieces_it_has),
        TEST(a_ring_without_room_for_four_pieces_does_not_start),
        TEST(a_ring_that_has_nothing_to_evict_tries_the_disk_again),
        TEST(finish_survives_a_failing_truncate),
        TEST(a_visit_survives_every_failing_call),
        TEST(paths_that_cannot_be_a_spool_are_told),
        TEST(files_are_private),
        TEST(a_full_tmpfs_is_an_error_and_never_a_bus_error),
        TEST(a_file_size_limit_is_an_error_and_never_a_signal),
        TEST(a_checksum_sees_each_flipped_bit_of_a_sealed_chunk),
        TEST(threads_that_race_lose_no_record_under_any_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
