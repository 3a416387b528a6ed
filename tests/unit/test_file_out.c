/* Unit: base/file_out: a file appears complete or not at all, whatever fails and whatever is in its place. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#define CHILD_SKIPS 77

static char folder[4096]; /* per test; initially empty */

static int new_folder(void **state)
{
    (void)state;
    static int count;
    char name[32];
    snprintf(name, sizeof name, "folder%d", count++);
    snprintf(folder, sizeof folder, "%s", test_path(name));
    return mkdir(folder, 0700);
}

static const char *in_folder(const char *name)
{
    static char path[4][8192];
    static int at;
    snprintf(path[++at % 4], sizeof path[0], "%s/%s", folder, name);
    return path[at % 4];
}

static int entries(void)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return count;
}

static void assert_holds(const char *path, const void *bytes, size_t length)
{
    size_t n;
    char *got = test_slurp(path, &n);
    assert_int_equal(n, length);
    assert_memory_equal(got, bytes, length);
    free(got);
}
#define assert_text(path, text) assert_holds(path, text, strlen(text))

/* Much data that does not compress well. */
static const char *data(size_t *length)
{
    static char bytes[600000];
    if (bytes[0] == 0)
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)('0' + (i * i / 7 + i % 13 + (test_random() & 7)) % 60);
    *length = sizeof bytes;
    return bytes;
}

/* In pieces of many sizes. */
static bool feed(mtp_file *f)
{
    size_t length, at = 0, n = 1;
    const char *bytes = data(&length);
    bool well = mtp_file_sink(f, bytes, 0);
    for (; well && at < length; at += n, n = n * 3 + 1)
        well = mtp_file_sink(f, bytes + at, n < length - at ? n : (n = length - at));
    return well;
}

static mtp_status write_file(const char *path)
{
    mtp_file *f;
    mtp_status status = mtp_file_create(path, 0, &f);
    if (status != MTP_OK) {
        assert_null(f);
        return status;
    }
    feed(f);
    return mtp_file_commit(f);
}

static void assert_written(const char *path)
{
    size_t length, n;
    const char *bytes = data(&length);
    if (strstr(path, ".gz") == NULL) {
        assert_holds(path, bytes, length);
        return;
    }
    char *packed = test_slurp(path, &n), *out = malloc(length + 1);
    z_stream z = {.next_in = (unsigned char *)packed,
                  .avail_in = (unsigned)n,
                  .next_out = (unsigned char *)out,
                  .avail_out = (unsigned)length + 1};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_in, n); /* one member: nothing follows it */
    assert_int_equal(z.total_out, length);
    assert_memory_equal(out, bytes, length);
    inflateEnd(&z);
    free(packed);
    free(out);
}

/* ------------------------------------------------------------------------------------------ the good way */

static void a_file_appears_when_it_is_whole(void **state)
{
    (void)state;
    static const char *const names[] = {"a.json", "a.json.gz"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *path = in_folder(names[i]);
        mtp_file *f;
        struct stat st;
        test_spew(path, "old", 3);
        assert_ok(mtp_file_create(path, 0, &f));
        assert_true(feed(f));
        assert_text(path, "old");
        assert_int_equal(entries(), 2);
        assert_ok(mtp_file_commit(f));
        assert_written(path);
        assert_int_equal(entries(), 1);
        assert_int_equal(stat(path, &st), 0);
        unlink(path);
    }
}

static void an_abandoned_file_leaves_nothing(void **state)
{
    (void)state;
    mtp_file *f;
    long live = mtp__alloc_live();
    test_spew(in_folder("a.json.gz"), "old", 3);
    assert_ok(mtp_file_create(in_folder("a.json.gz"), 9, &f));
    assert_true(feed(f));
    mtp_file_abandon(f);
    mtp_file_abandon(NULL);
    assert_text(in_folder("a.json.gz"), "old");
    assert_int_equal(entries(), 1);
    assert_int_equal(mtp__alloc_live(), live);
}

static void equal_bytes_give_equal_packed_files(void **state)
{
    (void)state;
    size_t n, m;
    assert_ok(write_file(in_folder("a.gz")));
    assert_ok(write_file(in_folder("b.gz")));
    char *a = test_slurp(in_folder("a.gz"), &n), *b = test_slurp(in_folder("b.gz"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void modes_are_the_umasks_or_those_of_the_old_file(void **state)
{
    (void)state;
    mode_t before = umask(027);
    assert_ok(write_file(in_folder("new")));
    assert_int_equal(mode_of(in_folder("new")), 0640);
    assert_int_equal(chmod(in_folder("new"), 0604), 0);
    assert_ok(write_file(in_folder("new")));
    assert_int_equal(mode_of(in_folder("new")), 0604);
    umask(0);
    assert_ok(write_file(in_folder("open")));
    assert_int_equal(mode_of(in_folder("open")), 0666);
    umask(before);
    mtp_file *f;
    assert_ok(mtp_file_create(in_folder("third"), 0,
                              &f)); /* while it is being written, only its owner may read it */
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        if (strncmp(e->d_name, ".mtprof", 7) == 0)
            assert_int_equal(mode_of(in_folder(e->d_name)), 0600);
    closedir(dir);
    mtp_file_abandon(f);
}

static void the_folder_is_the_one_at_the_time_of_create(void **state)
{
    (void)state;
    char here[4096];
    mtp_file *f;
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_ok(mtp_file_create("plain", 0, &f));
    assert_int_equal(chdir("/"), 0);
    assert_true(feed(f));
    assert_ok(mtp_file_commit(f));
    assert_int_equal(chdir(here), 0);
    assert_written(in_folder("plain"));
}

static void the_longest_name_is_long_enough(void **state)
{
    (void)state;
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    assert_ok(write_file(in_folder(name)));
    assert_written(in_folder(name));
}

/* ---------------------------------------------------------------------------------------------- faults */

/* Every call of every kind fails, once or from then on: the old file stays, with no leftovers and no
 * leaks. */
static void no_failure_costs_the_old_file(void **state)
{
    (void)state;
    static const mtp__fault kinds[] = {MTP__FAULT_ALLOC, MTP__FAULT_OPEN, MTP__FAULT_WRITE, MTP__FAULT_SYNC,
                                       MTP__FAULT_RENAME};
    static const char *const names[] = {"a.json", "a.json.gz"};
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (size_t i = 0; i < COUNT(names); i++)
            for (int forever = 0; forever < 2; forever++)
                for (int nth = 1, fired = 1; fired > 0; nth++) {
                    const char *path = in_folder(names[i]);
                    long live = mtp__alloc_live();
                    test_spew(path, "old", 3);
                    mtp__fault_plan(1u << kinds[k], nth, forever);
                    mtp_status status = write_file(path);
                    fired = mtp__fault_stop();
                    bool harmless = kinds[k] == MTP__FAULT_OPEN && status == MTP_OK; /* of /proc: the umask */
                    if (fired > 0 && !harmless) {
                        assert_int_equal(status, kinds[k] == MTP__FAULT_ALLOC ? MTP_E_NOMEM : MTP_E_IO);
                        assert_text(path, "old");
                    } else {
                        assert_ok(status);
                        assert_written(path);
                    }
                    assert_int_equal(entries(), 1);
                    assert_int_equal(mtp__alloc_live(), live);
                    assert_true(nth < 1000);
                    unlink(path);
                }
}

static void short_and_interrupted_writes_are_gone_on_with(void **state)
{
    (void)state;
    static const mtp__fault kinds[] = {MTP__FAULT_SHORT, MTP__FAULT_INTERRUPT};
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (int forever = 0; forever < 2; forever++) {
            mtp__fault_plan(1u << kinds[k], 2, forever);
            mtp_status status = write_file(in_folder("a.json.gz"));
            assert_true(mtp__fault_stop() > 0);
            assert_ok(status);
            assert_written(in_folder("a.json.gz"));
        }
}

static void a_failure_says_the_file_and_the_cause(void **state)
{
    (void)state;
    mtp__fault_plan(1u << MTP__FAULT_WRITE, 1, false);
    mtp_status status = write_file(in_folder("wanted.json"));
    assert_int_equal(mtp__fault_stop(), 1);
    assert_int_equal(status, MTP_E_IO);
    assert_says("wanted.json");
    assert_says("No space left on device");
    assert_says("is unchanged");
    assert_int_equal(entries(), 0);
}

static void after_a_failure_the_sink_takes_nothing(void **state)
{
    (void)state;
    mtp_file *f;
    assert_ok(mtp_file_create(in_folder("a"), 0, &f));
    mtp__fault_plan(1u << MTP__FAULT_WRITE, 1, false);
    assert_false(feed(f));
    mtp__fault_stop();
    assert_false(mtp_file_sink(f, "x", 1));
    assert_int_equal(mtp_file_commit(f), MTP_E_IO);
    assert_int_equal(entries(), 0);
}

/* ---------------------------------------------------------------------------------- disks that are full */

static void a_device_is_written_in_place(void **state)
{
    (void)state;
    struct stat st;
    assert_ok(write_file("/dev/null"));
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    assert_int_equal(write_file("/dev/full"), MTP_E_IO);
    assert_says("No space left on device");
    assert_int_equal(stat("/dev/full", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

static void full_disk_child(void *arg)
{
    (void)arg;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=256k") != 0)
        _exit(CHILD_SKIPS);
    const char *path = in_folder("a.json");
    test_spew(path, "old", 3);
    CHILD_CHECK(write_file(path) == MTP_E_IO);
    CHILD_CHECK(strstr(mtp_last_error(), "No space left on device") != NULL);
    CHILD_CHECK(entries() == 1);
    size_t n;
    char *old = test_slurp(path, &n);
    CHILD_CHECK(n == 3 && memcmp(old, "old", 3) == 0);
    free(old);
}

static void a_full_disk_keeps_the_old_file(void **state)
{
    (void)state;
    int status = test_child(full_disk_child, NULL, 60);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPS)
        skip(); /* no tmpfs can be mounted here */
    assert_true(test_left_well(status));
}

static void limited_child(void *arg)
{
    (void)arg;
    const char *path = in_folder("a.json");
    struct rlimit limit = {100000, 100000};
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_CHECK(write_file(path) == MTP_E_IO);
    CHILD_CHECK(strstr(mtp_last_error(), "File too large") != NULL);
    CHILD_CHECK(entries() == 1);
    sigset_t pending; /* and no SIGXFSZ is left pending */
    sigpending(&pending);
    CHILD_CHECK(!sigismember(&pending, SIGXFSZ));
}

static void a_limit_on_sizes_does_not_end_the_program(void **state)
{
    (void)state;
    test_spew(in_folder("a.json"), "old", 3);
    assert_true(test_left_well(test_child(limited_child, NULL, 60)));
    assert_text(in_folder("a.json"), "old");
}

/* ------------------------------------------------------------------------------------- standard output */

static void stdout_child(void *arg)
{
    int fd = open(arg, O_WRONLY | O_CREAT, 0600);
    CHILD_CHECK(fd >= 0 && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
    printf("before ");
    mtp_file *f;
    CHILD_CHECK(mtp_file_create("-", 0, &f) == MTP_OK);
    CHILD_CHECK(mtp_file_sink(f, "trace", 5));
    CHILD_CHECK(mtp_file_commit(f) == MTP_OK);
    CHILD_CHECK(mtp_file_create("/dev/stdout", 0, &f) == MTP_OK);
    CHILD_CHECK(mtp_file_sink(f, " again", 6));
    CHILD_CHECK(mtp_file_commit(f) == MTP_OK);
    printf(" after");
    fflush(stdout);
}

static void a_dash_is_standard_output(void **state)
{
    (void)state;
    char path[8192];
    snprintf(path, sizeof path, "%s", in_folder("stdout"));
    assert_true(test_left_well(test_child(stdout_child, path, 60)));
    assert_text(path, "before trace again after");
}

static void pipe_child(void *arg)
{
    (void)arg;
    int ends[2];
    CHILD_CHECK(pipe(ends) == 0);
    close(ends[0]);
    CHILD_CHECK(dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
    CHILD_CHECK(write_file("-") == MTP_E_IO);
    CHILD_CHECK(strstr(mtp_last_error(), "Broken pipe") != NULL);
}

static void a_reader_that_leaves_does_not_end_the_program(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(pipe_child, NULL, 60)));
}

static void *read_fifo(void *path)
{
    static char got[600000];
    int fd = open(path, O_RDONLY);
    size_t at = 0;
    for (ssize_t n; at < sizeof got && (n = read(fd, got + at, sizeof got - at)) > 0;)
        at += (size_t)n;
    close(fd);
    return got;
}

static void a_fifo_is_written_in_place(void **state)
{
    (void)state;
    const char *path = in_folder("fifo");
    size_t length;
    void *got;
    pthread_t reader;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_fifo, (void *)(uintptr_t)path), 0);
    assert_ok(write_file(path));
    pthread_join(reader, &got);
    const char *want = data(&length);
    assert_memory_equal(got, want, length);
    assert_int_equal(entries(), 1);
}

/* --------------------------------------------------------------------------------------- what is in the
 * way */

static bool is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static void make_link(const char *to, const char *name)
{
    assert_int_equal(symlink(to, in_folder(name)), 0);
}

static void a_link_of_ones_own_is_written_through(void **state)
{
    (void)state;
    struct stat st;
    test_spew(in_folder("file"), "old", 3);
    assert_int_equal(chmod(in_folder("file"), 0640), 0);
    assert_int_equal(mkdir(in_folder("sub"), 0700), 0);
    make_link("file", "link");
    make_link("../link", "sub/again"); /* a link to a link, each relative to its own folder */
    make_link("nowhere", "dangling");
    make_link(in_folder("sub"), "folder"); /* a link in the path, not at its end */
    const char *const to[][2] = {{"link", "file"},
                                 {"sub/again", "file"},
                                 {"folder/again", "file"},
                                 {"dangling", "nowhere"},
                                 {"folder/new", "sub/new"}};
    for (size_t i = 0; i < COUNT(to); i++) {
        test_spew(in_folder(to[i][1]), "old", 3);
        if (i == 3)
            unlink(in_folder("nowhere"));
        assert_ok(write_file(in_folder(to[i][0])));
        assert_written(in_folder(to[i][1]));
    }
    assert_true(is_link(in_folder("link")) && is_link(in_folder("sub/again")) &&
                is_link(in_folder("dangling")));
    assert_int_equal(lstat(in_folder("file"), &st), 0);
    assert_true(S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0640);
    assert_int_equal(entries(), 6);
}

static void a_link_in_a_folder_that_others_may_write_is_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = {0777, 01777, 0757};
    mtp_file *f;
    test_spew(in_folder("victim"), "precious", 8);
    make_link("victim", "link");
    make_link("nowhere", "dangling");
    for (size_t i = 0; i < COUNT(modes); i++) {
        assert_int_equal(chmod(folder, modes[i]), 0);
        assert_int_equal(mtp_file_create(in_folder("link"), 0, &f), MTP_E_IO);
        assert_says("link: it is a link in a folder that others can write to");
        assert_says("remove it, or choose another file");
        assert_int_equal(mtp_file_create(in_folder("dangling"), 0, &f), MTP_E_IO);
        assert_ok(write_file(in_folder("plain"))); /* all else is as ever */
    }
    assert_text(in_folder("victim"), "precious");
    assert_int_equal(entries(), 4);
    assert_int_equal(chmod(folder, 0770), 0); /* a group that this user belongs to */
    assert_ok(write_file(in_folder("link")));
    assert_written(in_folder("victim"));
}

static void a_link_of_somebody_else_is_refused(void **state)
{
    (void)state;
    mtp_file *f;
    test_spew(in_folder("victim"), "precious", 8);
    make_link("victim", "link");
    if (lchown(in_folder("link"), 65534, 65534) != 0)
        skip(); /* only root can make one */
    assert_int_equal(mtp_file_create(in_folder("link"), 0, &f), MTP_E_IO);
    assert_says("it is a link created by another user");
    assert_text(in_folder("victim"), "precious");
}

static void links_that_lead_to_no_file_are_said_so(void **state)
{
    (void)state;
    mtp_file *f;
    assert_int_equal(mkdir(in_folder("sub"), 0700), 0);
    make_link("sub", "folder");
    make_link("b", "a");
    make_link("a", "b");
    make_link("no/such/file", "lost");
    static const char *const say[][2] = {{"folder", "Is a directory"},
                                         {"sub/", "Is a directory"},
                                         {"a", "Too many levels"},
                                         {"lost", "No such file or directory"}};
    for (size_t i = 0; i < COUNT(say); i++) {
        assert_int_equal(mtp_file_create(in_folder(say[i][0]), 0, &f), MTP_E_IO);
        assert_says(say[i][0]);
        assert_says(say[i][1]);
    }
    make_link("/dev/null", "null");
    assert_ok(write_file(in_folder("null")));
    assert_true(is_link(in_folder("null")));
    assert_int_equal(entries(), 6);
}

static void link_to_stdout_child(void *arg)
{
    int fd = open(arg, O_WRONLY | O_CREAT, 0600);
    CHILD_CHECK(fd >= 0 && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
    mtp_file *f;
    CHILD_CHECK(mtp_file_create(in_folder("out"), 0, &f) == MTP_OK);
    CHILD_CHECK(mtp_file_sink(f, "trace", 5) && mtp_file_commit(f) == MTP_OK);
}

static void a_link_may_lead_to_standard_output(void **state)
{
    (void)state;
    char path[8192];
    snprintf(path, sizeof path, "%s", in_folder("stdout"));
    make_link("/dev/stdout", "out");
    assert_true(test_left_well(test_child(link_to_stdout_child, path, 60)));
    assert_text(path, "trace");
}

static atomic_bool swapping;

static void *swap(void *path)
{
    while (swapping) {
        unlink(path);
        sched_yield(); /* absent and present by turns */
        if (symlink("victim", path) != 0 || test_below(2) == 0)
            sched_yield();
    }
    return NULL;
}

static void links_that_come_and_go_lead_nowhere(void **state)
{
    (void)state;
    pthread_t thread;
    char path[8192];
    snprintf(path, sizeof path, "%s", in_folder("target"));
    test_spew(in_folder("victim"), "precious", 8);
    assert_int_equal(chmod(folder, 01777), 0); /* as /tmp */
    int written = 0;
    swapping = true;
    assert_int_equal(pthread_create(&thread, NULL, swap, path), 0);
    while (!is_link(path))
        sched_yield();
    for (int i = 0; i < test_scaled(200); i++) {
        mtp_file *f;
        if (mtp_file_create(path, 0, &f) != MTP_OK) {
            assert_says("a link in a folder that others can write to");
            sched_yield();
            continue;
        }
        written++;
        assert_true(mtp_file_sink(f, "trace", 5));
        assert_ok(mtp_file_commit(f));
    }
    swapping = false;
    pthread_join(thread, NULL);
    test_row(20, (uint64_t)test_scaled(200), "links swapped, %d files written, none through a link", written);
    assert_text(in_folder("victim"), "precious");
    assert_in_range(entries(), 1, 2);
}

/* A pipe, replaced for a moment by a hard link to another file. */
static void *swap_fifo(void *path)
{
    char victim[8192];
    snprintf(victim, sizeof victim, "%s", in_folder("victim"));
    while (swapping) {
        int fd = mkfifo(path, 0600) == 0 ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
        sched_yield();
        unlink(path);
        if (link(victim, path) == 0)
            sched_yield();
        unlink(path);
        close(fd);
    }
    return NULL;
}

static void a_fifo_that_another_file_replaces_is_not_written_through(void **state)
{
    (void)state;
    pthread_t thread;
    char path[8192];
    snprintf(path, sizeof path, "%s", in_folder("swapped"));
    test_spew(in_folder("victim"), "precious", 8);
    swapping = true;
    assert_int_equal(pthread_create(&thread, NULL, swap_fifo, path), 0);
    for (int i = 0; i < test_scaled(4000); i++) {
        mtp_file *f;
        if (mtp_file_create(path, 0, &f) != MTP_OK)
            continue;
        mtp_file_sink(f, "trace", 5);
        mtp_file_commit(f);
    }
    swapping = false;
    pthread_join(thread, NULL);
    assert_text(in_folder("victim"), "precious");
}

static void unwritable_child(void *arg)
{
    if (geteuid() == 0 && setuid(65534) != 0)
        _exit(CHILD_SKIPS);
    mtp_file *f;
    CHILD_CHECK(mtp_file_create(arg, 0, &f) == MTP_E_IO && f == NULL);
    CHILD_CHECK(strstr(mtp_last_error(), "cannot") != NULL);
    CHILD_CHECK(strstr(mtp_last_error(), "Permission denied") != NULL);
    CHILD_CHECK(strstr(mtp_last_error(), arg) != NULL);
}

static void a_folder_that_is_not_ours_is_said_so(void **state)
{
    (void)state;
    char path[8192];
    snprintf(path, sizeof path, "%s", in_folder("a.json"));
    chmod(folder, 0555);
    int status = test_child(unwritable_child, path, 60);
    chmod(folder, 0700);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPS)
        skip();
    assert_true(test_left_well(status));
}

static void bad_places_are_told_at_once(void **state)
{
    (void)state;
    mtp_file *f = (mtp_file *)&f;
    assert_int_equal(mtp_file_create(in_folder("no/such/a.json"), 0, &f), MTP_E_IO);
    assert_null(f);
    assert_says("No such file or directory");
    assert_int_equal(mtp_file_create(folder, 0, &f), MTP_E_IO);
    assert_says("Is a directory");
    assert_int_equal(mtp_file_create("", 0, &f), MTP_E_ARG);
    assert_int_equal(mtp_file_create(NULL, 0, &f), MTP_E_ARG);
    assert_int_equal(mtp_file_create(in_folder("a"), 10, &f), MTP_E_ARG);
    assert_int_equal(mtp_file_create(in_folder("a"), -2, &f), MTP_E_ARG);
    assert_int_equal(mtp_file_create(in_folder("a"), 0, NULL), MTP_E_ARG);
    assert_int_equal(mtp_file_commit(NULL), MTP_E_ARG);
    assert_int_equal(entries(), 0);
}

#define FRESH(fn) cmocka_unit_test_setup(fn, new_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(a_file_appears_when_it_is_whole),
        FRESH(an_abandoned_file_leaves_nothing),
        FRESH(equal_bytes_give_equal_packed_files),
        FRESH(modes_are_the_umasks_or_those_of_the_old_file),
        FRESH(the_folder_is_the_one_at_the_time_of_create),
        FRESH(the_longest_name_is_long_enough),
        FRESH(no_failure_costs_the_old_file),
        FRESH(short_and_interrupted_writes_are_gone_on_with),
        FRESH(a_failure_says_the_file_and_the_cause),
        FRESH(after_a_failure_the_sink_takes_nothing),
        FRESH(a_device_is_written_in_place),
        FRESH(a_full_disk_keeps_the_old_file),
        FRESH(a_limit_on_sizes_does_not_end_the_program),
        FRESH(a_dash_is_standard_output),
        FRESH(a_reader_that_leaves_does_not_end_the_program),
        FRESH(a_fifo_is_written_in_place),
        FRESH(a_fifo_that_another_file_replaces_is_not_written_through),
        FRESH(a_link_of_ones_own_is_written_through),
        FRESH(a_link_in_a_folder_that_others_may_write_is_refused),
        FRESH(a_link_of_somebody_else_is_refused),
        FRESH(links_that_lead_to_no_file_are_said_so),
        FRESH(a_link_may_lead_to_standard_output),
        FRESH(links_that_come_and_go_lead_nowhere),
        FRESH(a_folder_that_is_not_ours_is_said_so),
        FRESH(bad_places_are_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
