/* Unit: what `mtprof run` tells its agent, and what the agent tells it: src/collect/run/options.c. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "collect/run/run.h"

static mtp__run_options read_words(const char *words)
{
    mtp__run_options o;
    memset(&o, 0x5a, sizeof o);
    mtp__run_options_read(&o, words);
    return o;
}

static void every_word_is_understood(void **state)
{
    (void)state;
    mtp__run_options o =
        read_words("notes=mtprof-1-ff shapes memory stacks newest wait torch python until-torch "
                   "steps=3:7 budget=1048576 from=12345678901234 until=18446744073709551615");
    assert_true(o.shapes && o.memory && o.stacks && o.newest && o.wait && o.python && o.by_steps);
    assert_string_equal(o.notes, "mtprof-1-ff");
    assert_int_equal(o.budget, 1048576);
    assert_true(o.from_ns == 12345678901234u && o.until_ns == UINT64_MAX);
    assert_true(o.first_step == 3 && o.no_step == 7);
    o = read_words("steps=5:");
    assert_true(o.first_step == 5 && o.no_step == UINT64_MAX && o.by_steps);
}

static void what_is_missing_or_unknown_is_off(void **state)
{
    (void)state;
    static const char *const words[] = {NULL,        "",        "   ",         "shapesx xmemory Stacks =",
                                        "budget",    "from",    "notes",       "steps",
                                        "shape=1 s", "wait_no", "until-torch", "torch"};
    for (size_t i = 0; i < COUNT(words); i++) {
        mtp__run_options o = read_words(words[i]);
        assert_false(o.shapes || o.memory || o.stacks || o.newest || o.wait || o.python || o.by_steps);
        assert_true(o.budget == 0 && o.from_ns == 0 && o.until_ns == 0 && o.notes[0] == 0);
    }
}

static void any_words_are_survived(void **state)
{
    (void)state;
    char *words = malloc(5000);
    for (int i = 0; i < test_scaled(2000); i++) {
        size_t length = (size_t)test_below(i % 4 == 0 ? 4999 : 60);
        for (size_t at = 0; at < length; at++)
            words[at] = "notes=steps: 09shapewit-\xff\n"[test_below(27)];
        words[length] = 0;
        mtp__run_options o = read_words(words);
        assert_true(memchr(o.notes, 0, sizeof o.notes) != NULL);
    }
    memset(words, 'n', 4999);
    memcpy(words, "notes=", 6);
    words[4999] = 0;
    mtp__run_options o = read_words(words);
    assert_int_equal(strlen(o.notes), sizeof o.notes - 1);
    free(words);
}

/* --------------------------------------------------------------------------------------------------------- notes */

static int hear_notes(mtp__run_options *o)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n = snprintf(o->notes, sizeof o->notes, "mtprof-test-%ld", (long)getpid());
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(name.sun_path + 1, o->notes, (size_t)n);
    assert_int_equal(bind(fd, (struct sockaddr *)&name,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
                     0);
    return fd;
}

static const char *note_from(int fd)
{
    static char text[4096];
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = 0;
    return text;
}

static void a_note_names_the_program_and_leaves_errno_alone(void **state)
{
    (void)state;
    mtp__run_options o = {.wait = false};
    int fd = hear_notes(&o);
    char expected[256];
    errno = EXDEV;
    mtp__run_note(&o, "%d of %s", 3, "them");
    assert_int_equal(errno, EXDEV);
    snprintf(expected, sizeof expected, "%s (process %ld): 3 of them", program_invocation_short_name,
             (long)getpid());
    assert_string_equal(note_from(fd), expected);
    close(fd);
    mtp__run_note(&o, "nobody hears it");
    o.notes[0] = 0;
    mtp__run_note(&o, "nor this");
    assert_int_equal(errno, EXDEV);
}

/* argv[0] is whatever whoever started the program says. */
static void a_name_of_any_length_fits_into_a_note(void **state)
{
    (void)state;
    mtp__run_options o = {.wait = false};
    int fd = hear_notes(&o);
    char *before = program_invocation_short_name, *name = malloc(100001);
    for (size_t length = 900; length <= 100000; length = length < 1100 ? length + 1 : length * 10) {
        memset(name, 'x', length);
        name[length] = 0;
        program_invocation_short_name = name;
        mtp__run_note(&o, "what it has to say: %s", name);
        program_invocation_short_name = before;
        assert_contains(note_from(fd), "): what it has to say: xxx");
    }
    free(name);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_word_is_understood),
        TEST(what_is_missing_or_unknown_is_off),
        TEST(any_words_are_survived),
        TEST(a_note_names_the_program_and_leaves_errno_alone),
        TEST(a_name_of_any_length_fits_into_a_note),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
