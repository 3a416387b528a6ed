/* Unit: record/pool: pieces of several chunks, and epochs. */
#define _GNU_SOURCE
#include "tests/unit/pools.h"

/* --------------------------------------------------------------------------------------- parts of pieces */

/* What a reader sees of a pool in memory and of its twin in a file, during and after recording. */
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

/* A record that was begun and abandoned (a handler jumped out of it) leaves its words behind. */
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
    /* Its words end at a multiple of 128 bytes, and yet a zero follows: otherwise a reader with the old
     * extent would take the next chunk's order for a record. */
    fill_and_seal(&pool, full, 3);
    assert_int_equal(full->span, 128 + 64);
    mtp__chunk *next = take_part(&pool, 3, 512);
    for (uint32_t w = 0; w < mtp__span_words(next->span); w++)
        assert_int_equal(mtp__chunk_words(next)[w], 0);
    assert_int_equal(next->records + next->words + next->sealed + next->checksum, 0);
    mtp__pool_fini(&pool);
}

/* Once there are no new pieces, any tail will do. */
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

/* A piece stays because of one open chunk; the rest of it still ages. */
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
    record_whole(&pool, 1); /* the first of the long ones is evicted, and all before it */
    assert_int_equal(pool.overwritten, 60 + 250);
    assert_int_equal(pool.kept, 7 * 250);
    sight *s = sights(&pool);
    assert_int_equal(s->count, 9);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(s->chunk[i].order, 7 + i);
    assert_int_equal(s->chunk[7].order, 4);
    assert_int_equal(s->chunk[7].words, 116);
    mtp__pool_seal(&pool, slow, 116, 58); /* returned just now: it is the newest, whenever it was taken */
    record_whole(&pool, 7);
    assert_int_equal(sights(&pool)->chunk[7].order, 4);
    assert_int_equal(pool.overwritten, 60 + 8 * 250);
    record_whole(&pool, 1); /* those returned after it are evicted */
    assert_int_equal(pool.overwritten, 60 + 9 * 250 + 58);
    assert_int_equal(sights(&pool)->count, 8);
    fill_and_seal(&pool, silent, 3);
    assert_int_equal(pool.kept, 7 * 250 + 3);
    mtp__pool_fini(&pool);
}

/* Two pieces whose chunks were returned alternately: evicting one evicts what is older than its last
 * chunk, not its first. */
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
    assert_non_null(take_part(&pool, 2, CHUNK)); /* the rest of that piece, held indefinitely */
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

/* Evicted for the control stream, and free again: it is handed out once, as a piece, and not also as a
 * tail. */
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

/* The list of chunks is older than the visit of each: a piece may be gone while its bytes are still there. */
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

/* Idle threads that hold a chunk each do not hold whole pieces when pieces are few. */
static void many_silent_threads_do_not_hold_a_small_ring(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(16, MTP_KEEP_NEWEST, NULL);
    c.bytes = 16 * 65536;
    c.piece_bytes = 65536;
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

/* A thread may be killed between taking a part and making it a chunk; the chunks behind it must stay
 * readable. */
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
        a->epoch = 4;                                       /* its definitions are also in 4 */
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
        fill(control[5], 5); /* continues, and is seen to */
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

/* A ring of 1 MiB with an endless sequence of control chunks of 64 KiB. */
static void definitions_without_end_do_not_fill_a_ring(void **state)
{
    (void)state;
    mtp__pool pool;
    mtp__pool_config c = config(0, MTP_KEEP_NEWEST, NULL);
    c.bytes = 16 * 65536;
    c.piece_bytes = 65536;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
