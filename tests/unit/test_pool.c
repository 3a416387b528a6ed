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
    assert_int_equal(chunk->magic, MTP__CHUNK_MAGIC);
    assert_int_equal(chunk->order, order);
    assert_int_equal(chunk->stream, stream);
    assert_int_equal(chunk->cycle, 1);
    assert_int_equal(chunk->base_ticks, 1000);
    assert_int_equal(chunk->records, 0);
    assert_int_equal(chunk->words, 0);
    assert_int_equal(chunk->checksum, 0);
    const uint64_t *words = mtp__chunk_words((mtp__chunk *)chunk);
    for (uint32_t i = 0; i < mtp__chunk_capacity(CHUNK); i++)
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
            mtp__pool_seal(&pool, chunk, mtp__chunk_capacity(CHUNK), 1);
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

static sight file_sight;

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
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (int policy = MTP_STOP_WHEN_FULL; policy <= MTP_STREAM; policy++)
            for (int nth = 1; nth <= 5; nth++) {
                const char *path = test_path("enospc.mtp");
                mtp__pool pool;
                mtp__pool_config c = config(policy == MTP_STREAM ? 16 : 2048, (mtp_when_full)policy, path);
                mtp_drop why = NONE;
                uint64_t given = 0;
                assert_ok(mtp__pool_init(&pool, &c));
                mtp__fault_plan(kinds[k], nth, false);
                for (mtp__chunk *chunk; given < 1500 && (chunk = take(&pool, 1, &why)) != NULL; given++)
                    fill_and_seal(&pool, chunk, 3);
                assert_int_equal(mtp__fault_stop(), 1);
                assert_int_equal(why, MTP_DROP_DISK);
                assert_int_equal(pool.file.error, k == 0 ? ENOSPC : ENOMEM);
                assert_int_equal(given, k == 0 ? (nth - 1) * 256 : nth - 1);
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
    assert_says("a link in a folder that others may write");
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
    CHILD_CHECK(mtp__pool_init(&pool, &c) == MTP_OK);
    for (mtp__chunk *chunk; (chunk = take(&pool, 1, &why)) != NULL; ++*d->given) {
        CHILD_CHECK(*d->given < 4096);
        fill_and_seal(&pool, chunk, 251);
    }
    CHILD_CHECK(why == MTP_DROP_DISK && pool.file.error == expected_error);
    mtp__pool_finish(&pool);
    mtp__spool_report report;
    CHILD_CHECK(visit_file(d->path, &report) == MTP_OK);
    CHILD_CHECK(report.chunks == *d->given && report.damaged == 0);
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
        assert_in_range(*d.given, 100, 1024);
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
        assert_in_range(*d.given, 100, 610);
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
} hands;

static void *work(void *arg)
{
    hands *h = arg;
    for (uint32_t i = 0; i < h->rounds; i++) {
        mtp_drop why = NONE;
        mtp__chunk *chunk = mtp__pool_take(h->pool, h->stream, 1, h->sealed, 1000, &why);
        if (chunk == NULL) {
            h->refused++;
            h->wrong += why != MTP_DROP_BUDGET;
            continue;
        }
        h->wrong += chunk->stream != h->stream || mtp__chunk_words(chunk)[0] != 0 || chunk->records != 0;
        uint32_t records = 1 + i % 100;
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
    for (int k = 0; k < 5; k++) { /* 0, 1: memory; 2 to 4: file */
        mtp_when_full policy = (mtp_when_full)(k < 2 ? k : k - 2);
        mtp__pool pool;
        mtp__pool_config c =
            config(policy == MTP_STOP_WHEN_FULL ? 600 : 16, policy, k < 2 ? NULL : test_path("race.mtp"));
        assert_ok(mtp__pool_init(&pool, &c));
        hands h[4];
        pthread_t t[4];
        for (uint32_t i = 0; i < 4; i++) {
            h[i] = (hands){&pool, i + 1, (uint32_t)test_scaled(2000), 0, 0, 0};
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
        TEST(init_survives_every_failing_call),
        TEST(a_disk_that_fills_ends_the_growth_and_keeps_what_is_there),
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
