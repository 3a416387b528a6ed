/* Unit: base/os and base/testpoint: the calls that tests rely on must themselves be correct. */
#define _GNU_SOURCE
#include "tests/test.h"
#include "base/budget.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_plan_fails_the_nth_call_once_or_forever(void **state)
{
    (void)state;
    for (int forever = 0; forever < 2; forever++) {
        mtp__fault_plan(1u << MTP__FAULT_ALLOC, 3, forever);
        for (int i = 1; i <= 6; i++) {
            void *p = mtp__calloc(1, 8);
            assert_int_equal(p == NULL, i == 3 || (i > 3 && forever));
            mtp__free(p);
        }
        assert_int_equal(mtp__fault_stop(), forever ? 4 : 1);
        void *p = mtp__calloc(1, 8);
        assert_non_null(p);
        mtp__free(p);
    }
}

static void a_plan_touches_only_the_kinds_it_names(void **state)
{
    (void)state;
    const char *path = test_path("kinds");
    mtp__fault_plan(MTP__FAULTS_ALL & ~(1u << MTP__FAULT_OPEN), 1, true);
    assert_null(mtp__calloc(1, 1));
    assert_null(mtp__strdup("x"));
    assert_null(mtp__map_memory(4096, false));
    int fd = mtp__open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(mtp__grow_file(fd, 0, 4096), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(mtp__truncate(fd, 0), -1);
    char byte;
    assert_int_equal(mtp__pread(fd, &byte, 1, 0), -1);
    assert_null(mtp__map_file(NULL, 4096, fd, 0));
    assert_true(mtp__fault_stop() >= 7);
    mtp__close(fd);
    mtp__fault_plan(1u << MTP__FAULT_OPEN, 1, false);
    assert_int_equal(mtp__open(path, O_RDONLY, 0), -1);
    assert_int_equal(mtp__fault_stop(), 1);
}

static void live_counts_what_is_not_given_back(void **state)
{
    (void)state;
    long live = mtp__alloc_live();
    void *a = mtp__calloc(4, 4);
    char *b = mtp__strdup("text");
    void *c = mtp__map_memory(12288, false);
    assert_int_equal(mtp__alloc_live(), live + 3);
    assert_string_equal(b, "text");
    mtp__free(a);
    mtp__free(b);
    mtp__unmap(c, 12288);
    mtp__free(NULL);
    mtp__unmap(NULL, 0);
    assert_int_equal(mtp__alloc_live(), live);
}

static void huge_maps_are_aligned_zeroed_and_given_back_whole(void **state)
{
    (void)state;
    size_t bytes = (size_t)9 << 20;
    for (int i = 0; i < 50; i++) {
        unsigned char *p = mtp__map_memory(bytes, true);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % ((size_t)2 << 20), 0);
        for (size_t at = 0; at < bytes; at += 4096)
            assert_int_equal(p[at], 0);
        p[0] = p[bytes - 1] = 1;
        mtp__unmap(p, bytes);
    }
}

static void pread_reads_all_or_up_to_the_end(void **state)
{
    (void)state;
    const char *path = test_path("pread");
    char buffer[16];
    test_spew(path, "0123456789", 10);
    int fd = mtp__open(path, O_RDONLY, 0);
    assert_int_equal(mtp__pread(fd, buffer, 4, 3), 4);
    assert_memory_equal(buffer, "3456", 4);
    assert_int_equal(mtp__pread(fd, buffer, 16, 8), 2);
    assert_int_equal(mtp__pread(fd, buffer, 16, 10), 0);
    assert_int_equal(mtp__pread(fd, buffer, 16, 1000), 0);
    mtp__close(fd);
    assert_int_equal(mtp__pread(-1, buffer, 1, 0), -1);
    mtp__close(-1);
}

static void grow_gives_real_blocks(void **state)
{
    (void)state;
    const char *path = test_path("grow");
    struct stat st;
    int fd = mtp__open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(mtp__grow_file(fd, 4096, 1 << 20), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, (1 << 20) + 4096);
    assert_true(st.st_blocks * 512 >= 1 << 20);
    assert_int_equal(mtp__truncate(fd, 4096), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 4096);
    mtp__close(fd);
}

/* For a file over RLIMIT_FSIZE, the kernel sends a signal that kills by default. */
static void grow_beyond(void *arg)
{
    struct rlimit limit = {64 << 10, 64 << 10};
    int fd = mtp__open(arg, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHILD_CHECK(fd >= 0 && setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_CHECK(mtp__grow_file(fd, 0, 64 << 10) == 0);
    CHILD_CHECK(mtp__grow_file(fd, 64 << 10, 4096) == -1 && errno == EFBIG);
    CHILD_CHECK(mtp__grow_file(fd, 32 << 10, 64 << 10) == -1 && errno == EFBIG);
}

static void a_file_size_limit_is_an_error_and_not_a_signal(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(grow_beyond, (void *)test_path("limited"), 20)));
}

static void files_are_not_inherited_by_exec(void **state)
{
    (void)state;
    int fd = mtp__open(test_path("cloexec"), O_RDWR | O_CREAT, 0600);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    mtp__close(fd);
}

/* ------------------------------------------------------------------------------------------ testpoints */

static void count_hit(mtp__testpoint point, void *user)
{
    ((int *)user)[point]++;
}

static void every_testpoint_has_a_name_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(MTP__TESTPOINTS, 15);
    for (int i = 0; i < MTP__TESTPOINTS; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(mtp__testpoint_text((mtp__testpoint)i),
                                    mtp__testpoint_text((mtp__testpoint)k));
    assert_string_equal(mtp__testpoint_text(MTP__POINT_CHUNK_SEALED), "CHUNK_SEALED");
    assert_string_equal(mtp__testpoint_text(MTP__TESTPOINTS), "?");
    assert_string_equal(mtp__testpoint_text((mtp__testpoint)-1), "?");
}

static void do_nothing(void *arg)
{
    (void)arg;
}

/* Every testpoint must be reachable: one busy profile passes all of those of recording; test_top has the reader's. */
static void a_busy_profile_passes_every_testpoint(void **state)
{
    (void)state;
    int *hits = test_shared(MTP__TESTPOINTS * sizeof *hits);
    mtp__testpoint_set(count_hit, hits);
    mtp_profile_config c = test_config(NULL);
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 8 * 4096;
    mtp_profile *prof = test_start(&c);
    for (int i = 0; i < 10000; i++)
        MTP_SCOPE ("busy") {
        }
    assert_true(test_left_well(test_child(do_nothing, NULL, 20)));
    mtp_scope_end(mtp_scope_begin_text("named at run time", 17));
    assert_ok(mtp_profile_stop(prof));
    mtp_profile_destroy(prof);
    mtp__testpoint_set(NULL, NULL);
    for (int i = 0; i < MTP__TESTPOINTS; i++)
        if (hits[i] == 0 && i != MTP__POINT_LIVE_LISTED && i != MTP__POINT_LIVE_READ)
            fail_msg("%s was never passed", mtp__testpoint_text((mtp__testpoint)i));
    assert_true(hits[MTP__POINT_RECORD_RESERVED] >= 20000);
    assert_int_equal(hits[MTP__POINT_RECORD_RESERVED], hits[MTP__POINT_RECORD_COMMITTED]);
    int before = hits[MTP__POINT_STOP_DONE];
    mtp__testpoint_hit(MTP__POINT_STOP_DONE); /* no hook: nothing happens */
    assert_int_equal(hits[MTP__POINT_STOP_DONE], before);
}

static bool has_room_for(size_t bytes)
{
    void *p = mtp__map_memory(bytes, false);
    mtp__unmap(p, bytes);
    return p != NULL;
}

/* The default depends on the file that is read; the user's choice is kept. */
static void small_files_may_not_take_much_memory_unless_that_was_chosen(void **state)
{
    (void)state;
    const size_t megabyte = (size_t)1 << 20;
    unsetenv("MTPROF_MAX_MEMORY");
    assert_int_equal(mtp_memory_limit(NULL), MTP_OK);
    assert_true(mtp__budget_is_default());
    if (mtp__budget_limit() < 1000 * megabyte) /* a machine that has less anyway */
        skip();
    assert_true(has_room_for(900 * megabyte));
    mtp__budget_fit(0); /* a pipe */
    assert_true(has_room_for(900 * megabyte));
    mtp__budget_fit(megabyte);
    assert_true(has_room_for(250 * megabyte));
    assert_false(has_room_for(260 * megabyte));
    mtp__budget_fit(8 * megabyte); /* another one beside it */
    assert_true(has_room_for(500 * megabyte));
    assert_false(has_room_for(520 * megabyte));
    mtp__budget_fit(megabyte);
    assert_true(has_room_for(500 * megabyte));
    mtp__budget_fit(UINT64_MAX);
    assert_true(has_room_for(900 * megabyte));
    assert_int_equal(mtp_memory_limit("900M"), MTP_OK);
    assert_false(mtp__budget_is_default());
    mtp__budget_fit(megabyte);
    assert_true(has_room_for(800 * megabyte));
    assert_false(has_room_for(1000 * megabyte));
    assert_int_equal(mtp_memory_limit("none"), MTP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_plan_fails_the_nth_call_once_or_forever),
        TEST(a_plan_touches_only_the_kinds_it_names),
        TEST(live_counts_what_is_not_given_back),
        TEST(huge_maps_are_aligned_zeroed_and_given_back_whole),
        TEST(pread_reads_all_or_up_to_the_end),
        TEST(grow_gives_real_blocks),
        TEST(a_file_size_limit_is_an_error_and_not_a_signal),
        TEST(files_are_not_inherited_by_exec),
        TEST(every_testpoint_has_a_name_of_its_own),
        TEST(a_busy_profile_passes_every_testpoint),
        TEST(small_files_may_not_take_much_memory_unless_that_was_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
