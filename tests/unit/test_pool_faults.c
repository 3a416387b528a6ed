/* Unit: record/pool: calls that fail, and threads that contend. */
#define _GNU_SOURCE
#include "tests/unit/pools.h"

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
                assert_null(take(&pool, 1, &why)); /* permanently: a hot call does not retry */
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

/* A failed step is retried in smaller ones, each of which may fail too. */
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

/* The newest chunks, as many as there are pieces, and nothing else. */
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
        assert_true(mtp__fault_stop() < 3000 / 16); /* it is retried, but not each time */
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

/* On a disk with room for three pieces and the header. */
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

/* Even if all pieces are in use, the disk is tried again. */
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

static void paths_that_cannot_be_a_spool_are_reported(void **state)
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
    assert_int_equal(file_size(target), 8); /* the target of such a link is not ours */
    const char *own = test_path("own.mtp"); /* a link of the user's own is followed */
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
        assert_int_equal(*d.given, (4 << 20) / CHUNK - 1); /* up to the last piece; one is the header */
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

/* Four threads take and seal while a fifth reads: every record is in one of the three counts, and the
 * reader always sees complete records. */
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

/* A stuck thread's chunk is not read, its memory is not reused, and it does not count if its owner seals
 * it after all. */
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
        TEST(init_survives_every_failing_call),
        TEST(a_disk_that_fills_ends_the_growth_and_keeps_what_is_there),
        TEST(a_step_that_the_disk_has_no_room_for_is_not_the_end),
        TEST(a_ring_on_a_full_disk_keeps_the_newest_in_the_pieces_it_has),
        TEST(a_ring_without_room_for_four_pieces_does_not_start),
        TEST(a_ring_that_has_nothing_to_evict_tries_the_disk_again),
        TEST(finish_survives_a_failing_truncate),
        TEST(a_visit_survives_every_failing_call),
        TEST(paths_that_cannot_be_a_spool_are_reported),
        TEST(files_are_private),
        TEST(a_full_tmpfs_is_an_error_and_never_a_bus_error),
        TEST(a_file_size_limit_is_an_error_and_never_a_signal),
        TEST(threads_that_race_lose_no_record_under_any_policy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
