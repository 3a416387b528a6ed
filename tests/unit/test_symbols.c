/* Unit: trace/symbols, and native functions in record/stack: names from symbol tables, and files that have
 * none, were deleted, were replaced or are damaged. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>
#include "trace/symbols.h"
#include "trace/trace.h"

/* -------------------------------------------------------------------------------------------------
 * helpers */

static const char *shown(const char *frame)
{
    static char text[8192];
    mtp__symbols s = {0};
    mtp__symbols_text(&s, frame, strlen(frame), text, sizeof text);
    mtp__symbols_fini(&s);
    return text;
}

static void static_leaf(void);

/* An address `bytes` into static_leaf, as in a recording; in another file if given. */
static const char *frame_of(intptr_t bytes, const char *path, const char *id)
{
    void (*volatile function)(void) = static_leaf;
    uintptr_t address = (uintptr_t)function + (uintptr_t)bytes;
    static char frame[PATH_MAX + 128];
    char own[PATH_MAX];
    Dl_info info;
    assert_int_not_equal(dladdr((char *)NULL + address, &info), 0);
    ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    assert_true(n > 0);
    own[n] = 0;
    snprintf(frame, sizeof frame, "%s%s:+0x%llx:?", path != NULL ? path : own, id,
             (unsigned long long)(address - (uintptr_t)info.dli_fbase));
    return frame;
}

static char *read_own(size_t *length)
{
    FILE *file = fopen("/proc/self/exe", "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *length = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*length);
    assert_int_equal(fread(bytes, 1, *length, file), *length);
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

__attribute__((noinline)) static void static_leaf(void)
{
    MTP_SCOPE ("native") {
        __asm__ volatile("" ::: "memory");
    }
}

__attribute__((noinline)) static void static_branch(void)
{
    static_leaf();
    __asm__ volatile("" ::: "memory");
}

/* ---------------------------------------------------------------------------------------------------
 * names */

static void static_functions_of_a_recording_have_names(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    mtp_profile *prof = test_start(&c);
    static_branch();
    assert_ok(mtp_profile_stop(prof));
    mtp_trace *t;
    assert_ok(mtp_profile_trace(prof, &t));
    char all[16384] = "";
    for (uint32_t node = mtp__trace_detail(t, 0)->stack; node != 0; node = t->stacks[node].parent) {
        mtp_text frame = mtp__trace_get_text(t, t->stacks[node].frame);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s;", frame.bytes);
        assert_null(strchr(frame.bytes, '@'));
        assert_int_not_equal(frame.bytes[0], '/'); /* the module's name, not its path */
    }
    assert_contains(all, ":static_leaf;");
    assert_contains(all, ":static_branch;");
    assert_contains(all, "test_symbols:+0x");
    mtp_trace_destroy(t);
    mtp_profile_destroy(prof);
}

static void a_function_is_found_by_any_place_in_it(void **state)
{
    (void)state;
    assert_contains(shown(frame_of(1, NULL, "")), "test_symbols:+0x");
    assert_contains(shown(frame_of(1, NULL, "")), ":static_leaf");
    assert_contains(shown(frame_of(4, NULL, "")), ":static_leaf");
    assert_contains(shown(frame_of(-1, NULL, "")), ":+0x");
    assert_null(strstr(shown(frame_of(-1, NULL, "")), ":static_leaf"));
}

static void what_is_no_such_frame_stays_as_it_is(void **state)
{
    (void)state;
    static const char *const frames[] = {"train.py:5:f",
                                         "?:+0x10:?",
                                         "lib.so:+0x12:?",
                                         "/a:?",
                                         "",
                                         "/a/b:+0x:?",
                                         "/a/b:+0x1g:?",
                                         "/a/b:+0x11111111111111111:?",
                                         "/:+0x1:known",
                                         "main.c:3:main",
                                         ":?",
                                         "/x/y.py:12:?"};
    for (size_t i = 0; i < COUNT(frames); i++)
        assert_string_equal(shown(frames[i]), frames[i]);
    char small[8];
    mtp__symbols s = {0};
    assert_int_equal(mtp__symbols_text(&s, "0123456789", 10, small, sizeof small), 7);
    assert_string_equal(small, "0123456");
    mtp__symbols_fini(&s);
}

/* -------------------------------------------------------------------------------------------------
 * fallbacks */

static void without_the_file_module_and_offset_remain(void **state)
{
    (void)state;
    char folder[] = "/tmp/mtp-symbols-XXXXXX", path[64], want[128], frame[160];
    assert_non_null(mkdtemp(folder));
    static const char *const names[] = {"gone", "fifo", "text", "empty", "od d@:1:+0x1"};
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (i == 1)
            assert_int_equal(mkfifo(path, 0600), 0);
        else if (i > 1)
            write_file(path, "not a program, but longer than the head of one, which is sixty-four bytes long",
                       i == 3 ? 0 : 75);
        snprintf(frame, sizeof frame, "%s@00ff:+0x10:?", path);
        snprintf(want, sizeof want, "%s:+0x10:?", names[i]);
        assert_string_equal(shown(frame), want);
        unlink(path);
    }
    snprintf(frame, sizeof frame, "%s:+0x10:?", folder);
    assert_string_equal(shown(frame) + strlen(shown(frame)) - 8, ":+0x10:?");
    rmdir(folder);
}

static void another_build_of_the_file_is_not_asked(void **state)
{
    (void)state;
    assert_contains(shown(frame_of(1, NULL, "@0123456789abcdef")), ":?");
    assert_null(strchr(shown(frame_of(1, NULL, "@0123456789abcdef")), '@'));
}

/* Without the full symbol table, exported symbols are known. */
static void a_stripped_file_tells_what_it_exports(void **state)
{
    (void)state;
    size_t length;
    char *bytes = read_own(&length), path[] = "/tmp/mtp-symbols-XXXXXX";
    Elf64_Ehdr head;
    memcpy(&head, bytes, sizeof head);
    for (unsigned i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr section;
        char *at = bytes + head.e_shoff + i * sizeof section;
        memcpy(&section, at, sizeof section);
        if (section.sh_type == SHT_SYMTAB)
            section.sh_type = SHT_NULL;
        memcpy(at, &section, sizeof section);
    }
    close(mkstemp(path));
    write_file(path, bytes, length);
    assert_contains(shown(frame_of(1, path, "")), ":?");
    unlink(path);
    free(bytes);
    Dl_info info;
    char libc[PATH_MAX + 64];
    void *known = dlsym(RTLD_DEFAULT, "qsort");
    assert_int_not_equal(dladdr(known, &info), 0);
    assert_non_null(realpath(info.dli_fname, path[0] != 0 ? libc : NULL));
    snprintf(libc + strlen(libc), 64, ":+0x%llx:?",
             (unsigned long long)((char *)known - (char *)info.dli_fbase + 1));
    assert_contains(shown(libc), ":qsort");
}

/* Any byte may be changed, and the file may end anywhere. */
static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    size_t length;
    char *own = read_own(&length), *bytes = malloc(length), path[] = "/tmp/mtp-symbols-XXXXXX";
    Elf64_Ehdr head;
    close(mkstemp(path));
    memcpy(&head, own, sizeof head);
    for (int i = 0; i < test_scaled(300); i++) {
        memcpy(bytes, own, length);
        size_t keep = i % 3 == 0 ? test_random() % length : length;
        for (int k = 0; k < 8; k++) {
            size_t tables = head.e_shoff + test_random() % ((size_t)head.e_shnum * sizeof(Elf64_Shdr));
            size_t at = k % 4 == 0   ? test_random() % sizeof head
                        : k % 4 == 1 ? tables
                        : k % 4 == 2 ? test_random() % 1024
                                     : test_random() % length;
            bytes[at % length] = (char)(test_random() % 4 == 0 ? 0xff : test_random());
        }
        write_file(path, bytes, keep);
        long live = mtp__alloc_live();
        assert_contains(shown(frame_of(1, path, "")), ":+0x");
        assert_int_equal(mtp__alloc_live(), live);
    }
    unlink(path);
    free(own);
    free(bytes);
}

static void failing_calls_leave_module_and_offset(void **state)
{
    (void)state;
    const unsigned kinds[] = {1u << MTP__FAULT_ALLOC, 1u << MTP__FAULT_READ, 1u << MTP__FAULT_OPEN};
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (int nth = 1, fired = 1; fired > 0; nth++) {
            mtp__symbols s = {0};
            char text[8192];
            const char *frame = frame_of(1, NULL, "");
            long live = mtp__alloc_live();
            mtp__fault_plan(kinds[i], nth, false);
            mtp__symbols_text(&s, frame, strlen(frame), text, sizeof text);
            fired = mtp__fault_stop();
            assert_int_equal(s.out_of_memory, i == 0 && fired > 0);
            assert_contains(text, "test_symbols:+0x");
            mtp__symbols_fini(&s);
            assert_int_equal(mtp__alloc_live(), live);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(static_functions_of_a_recording_have_names),
        TEST(a_function_is_found_by_any_place_in_it),
        TEST(what_is_no_such_frame_stays_as_it_is),
        TEST(without_the_file_module_and_offset_remain),
        TEST(another_build_of_the_file_is_not_asked),
        TEST(a_stripped_file_tells_what_it_exports),
        TEST(damaged_files_do_no_harm),
        TEST(failing_calls_leave_module_and_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
