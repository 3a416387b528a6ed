/* tests/test.h - what the unit tests share: reading back recordings, temporary files, child processes,
 * randomness.
 *
 * Each test file is a program and owns its process. Asserts are for the main thread of the main process:
 * other threads count failures, children exit through CHILD_CHECK. Only TAP is written to stdout.
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <mtprof.h>
#include "base/os.h"
#include "base/testpoint.h"
#include "record/details.h"
#include "record/format.h"
#include "record/profile.h"
#include "record/recorder.h"
#include "record/spool/spool.h"
#include "tests/left_out.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TEST(fn) cmocka_unit_test(fn)

#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#else
#define TEST_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#else
#define TEST_ASAN 0
#endif

/* ---------------------------------------------------------------------------------------- reading back */

typedef struct seen_record {
    mtp__kind kind;
    uint32_t stream, cycle;
    uint64_t ticks; /* 56 bits */
    uint32_t words;
    uint64_t word[14]; /* from word 1 on */
} seen_record;

typedef struct seen_blob {
    mtp__control_kind kind;
    uint32_t id, tid;
    size_t length, have; /* have < length: parts are missing */
    unsigned char *bytes;
} seen_blob;

typedef struct seen_words {
    mtp__control_kind kind;
    uint32_t count;
    uint64_t word[24];
} seen_words;

/* Everything that a profile or a spool holds. */
typedef struct seen {
    seen_record *record; /* owned */
    size_t records;
    seen_blob *blob; /* owned, in order of appearance; a redefinition replaces */
    size_t blobs;
    seen_words *control; /* owned */
    size_t controls;
    uint64_t chunks, control_chunks;
    mtp__spool_report report; /* of a file */
    char problem[256];        /* the first violation found, or empty */
    size_t record_room, blob_room, control_room;
    struct seen_stream *stream; /* owned */
    size_t streams;
    size_t *index; /* owned: 1 + index of a blob, by kind and id */
    size_t index_room;
    bool live;      /* writers are active: sealed counts are not checked */
    bool file;      /* chunks come from a file */
    uint64_t magic; /* of all chunks: each file has its own */
    bool holes; /* streams may lack chunks in the middle: one being read was kept, its successor evicted */
} seen;

void seen_profile(seen *s, mtp_profile *prof);
mtp_status seen_spool(seen *s, const char *path);
void seen_free(seen *s);

size_t seen_count(const seen *s, int kind, int64_t stream); /* -1: any */
const seen_record *seen_nth(const seen *s, int kind, size_t nth);
const seen_blob *seen_defined(const seen *s, mtp__control_kind kind, uint32_t id);
const char *seen_name(const seen *s, uint32_t id); /* "?": not defined */
const seen_words *seen_control(const seen *s, mtp__control_kind kind, size_t nth);
size_t seen_streams(const seen *s); /* streams with records */

/* The nth value of a metadata key; NULL: no such. kind: 's' or 'j'. */
const char *seen_metadata(const seen *s, char kind, const char *key, size_t nth);

/* emitted == kept + dropped, kept == the records read back, and no violations. */
void assert_balanced(mtp_profile *prof);
void assert_balanced_as(mtp_profile *prof, seen how); /* how: live and holes */
mtp_ledger ledger_of(mtp_profile *prof);

/* ------------------------------------------------------------------------------------------- profiles */

typedef struct warnings {
    int count[16]; /* by mtp_warning */
    int total;
    char text[512]; /* of the last one */
    int ready;      /* calls of on_trace_ready */
} warnings;

mtp_profile_config test_config(warnings *w); /* small, with its callbacks */
mtp_profile *test_create(const mtp_profile_config *config);
mtp_profile *test_start(const mtp_profile_config *config);
void test_warned(void *user, mtp_warning code, const char *text);
void test_ready(mtp_profile *prof, void *user);

/* ---------------------------------------------------------------------------------------- surroundings */

/* A path in a folder that is removed at exit; valid until the 8th next call. */
const char *test_path(const char *name);
char *test_slurp(const char *path, size_t *bytes);
void test_spew(const char *path, const void *bytes, size_t count);
/* For a spool in memory: its nth chunk from 0, in file order, or NULL; and whether `copy` is an exact copy of
 * one of them, and `words` of its first `count` words. */
mtp__chunk *test_chunk(char *file, size_t bytes, size_t nth);
bool test_chunk_is_in(char *file, size_t bytes, const mtp__chunk *copy, const uint64_t *words,
                      uint32_t count);
/* After modifying a spool in memory: reseal its header and the copy; the records of a control chunk. */
void test_seal_header(char *bytes);
void test_seal_control(mtp__chunk *chunk);
size_t test_rss(void); /* bytes */
double test_now(void); /* seconds */
/* n times MTP_TEST_SCALE, fewer under a sanitizer */
int test_scaled(int n);
uint64_t test_random(void); /* seeded by MTP_TEST_SEED; the seed is printed on stderr */
uint64_t test_below(uint64_t limit);
/* A test's entry in `make reliability`: its row in docs/reliability.md, how often it ran, its worst
 * result. */
void test_row(int row, uint64_t runs, const char *worst, ...) __attribute__((format(printf, 3, 4)));

/* Runs fn in a forked child that ends with _exit(0); kills it after `seconds`. Returns wait()'s status. */
typedef void child_fn(void *arg);
int test_child(child_fn *fn, void *arg, unsigned seconds);
pid_t test_fork_child(child_fn *fn, void *arg, unsigned seconds);
int test_wait(pid_t pid);
bool test_left_well(int status); /* exited with 0; otherwise prints the status on stderr */
void *test_shared(size_t bytes); /* zeroed, shared with children */

#define CHILD_CHECK(cond)                                                                                    \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s: in a child: %s\n", __FILE__, __LINE__, __func__, #cond);             \
            _exit(97);                                                                                       \
        }                                                                                                    \
    } while (0)

#define assert_says(needle)                                                                                  \
    do {                                                                                                     \
        if (strstr(mtp_last_error(), (needle)) == NULL)                                                      \
            fail_msg("the error is '%s', without '%s'", mtp_last_error(), (needle));                         \
    } while (0)

#define assert_contains(text, needle)                                                                        \
    do {                                                                                                     \
        if (strstr((text), (needle)) == NULL)                                                                \
            fail_msg("'%s' does not contain '%s'", (text), (needle));                                        \
    } while (0)

#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        mtp_status assert_ok_status = (call);                                                                \
        if (assert_ok_status != MTP_OK)                                                                      \
            fail_msg("%s: %s: %s", #call, mtp_status_text(assert_ok_status), mtp_last_error());              \
    } while (0)
#endif
