/* tests/unit/pools.h - pools and chunks for the tests of record/pool. */
#ifndef TESTS_UNIT_POOLS_H
#define TESTS_UNIT_POOLS_H
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

static inline mtp__pool_config config(uint32_t slots, mtp_when_full when_full, const char *path)
{
    return (mtp__pool_config){slots * CHUNK, CHUNK, when_full, path, 0};
}

static inline mtp__chunk *take(mtp__pool *pool, uint32_t stream, mtp_drop *why)
{
    mtp_drop ignored;
    return mtp__pool_take(pool, stream, 1, 0, 1000, why != NULL ? why : &ignored);
}

/* Marks with the chunk's order as their name, so that a reader can tell which chunk they belong to. */
static inline void fill(mtp__chunk *chunk, uint32_t records)
{
    uint64_t *at = mtp__chunk_words(chunk);
    for (uint32_t i = 0; i < records; i++, at += 2) {
        at[1] = chunk->order;
        __atomic_store_n(at, MTP__WORD0(2000 + i, 2, MTP__KIND_MARK), __ATOMIC_RELEASE);
    }
}

static inline void fill_and_seal(mtp__pool *pool, mtp__chunk *chunk, uint32_t records)
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

static inline mtp_status look(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
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

static inline sight *sights(mtp__pool *pool)
{
    static sight s;
    memset(&s, 0, sizeof s);
    assert_ok(mtp__pool_visit(pool, look, &s));
    return &s;
}

static inline int open_files(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* Every word after the header, and all of the header that is not filled, is zero. */
static inline void assert_fresh(const mtp__chunk *chunk, uint32_t stream, uint64_t order)
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

static sight file_sight; /* what visit_file saw */

static inline mtp_status visit_file(const char *path, mtp__spool_report *report)
{
    memset(&file_sight, 0, sizeof file_sight);
    return mtp__spool_visit(path, look, &file_sight, report);
}

static inline off_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

static inline mtp__chunk *take_part(mtp__pool *pool, uint32_t stream, uint32_t bytes)
{
    mtp_drop why = NONE;
    mtp__chunk_ask ask = {.stream = stream, .cycle = 1, .depth = 7, .bytes = bytes, .ticks = 1000};
    return mtp__pool_take_part(pool, &ask, &why);
}
#endif
