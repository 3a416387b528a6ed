/* tests/fuzz/spool_input.c - see fuzz.h: makes a spool from an input. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fuzz.h"
#include "record/pool.h"
#include "record/checks.h"
#include "record/spool/spool.h"

#define CHUNK_BYTES 4096u
#define WORDS_MAX 14u

static char path[64];

static const char *path_of(void)
{
    if (path[0] == 0)
        snprintf(path, sizeof path, "%s/mtprof-fuzz-%ld.mtp",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (long)getpid());
    return path;
}

static void remove_file(void)
{
    unlink(path);
}

/* ---------------------------------------------------------------------------------------------- building */

/* A word of 0 to 8 bytes, or a value that readers tend to trip over. */
static uint64_t take_word(fuzz_input *in)
{
    static const uint64_t odd[] = {UINT64_MAX,        INT64_MAX,           (uint64_t)1 << 63,  UINT32_MAX,
                                   (uint64_t)1 << 56, 0x7ff0000000000000u, 0x7ff8000000000000u};
    uint64_t how = fuzz_take(in, 1);
    return how < 9 ? fuzz_take(in, how) : how > 248 ? odd[how - 249] : how;
}

/* Sets word 1 of a control record, once its other words are set. */
static void seal_control(uint64_t *at, uint64_t kind, uint32_t words)
{
#ifdef MTP__CONTROL_WORD1
    at[1] = MTP__CONTROL_WORD1(kind, 0, words);
    at[1] = MTP__CONTROL_WORD1(kind, mtp__control_check(at[0], at, words), words);
#else
    at[1] = kind | (uint64_t)words << 32;
#endif
}

/* A record of the control stream; a blob is followed by its text. Returns the words used, 0: no room. */
static uint32_t put_control(fuzz_input *in, uint64_t *at, uint32_t room, uint64_t ticks)
{
    uint64_t kind = fuzz_take(in, 1) % 20;
    uint32_t words = 2;
    if (room < 40)
        return 0;
    if (mtp__control_is_blob((uint32_t)kind)) {
        size_t length;
        uint64_t id = take_word(in), more = take_word(in), text = fuzz_take(in, 1);
        const uint8_t *bytes = fuzz_bytes(in, text % 200, &length);
        at[2] = id;
        at[3] = length | (uint64_t)length << 32;
        if (text > 220) /* a part */
            at[3] = (more & UINT32_MAX) | (uint64_t)length << 32;
        memcpy(at + 4, bytes, length);
        words = 4 + (uint32_t)(length + 7) / 8;
    } else {
        for (uint64_t n = fuzz_take(in, 1) % 20; n > 0; n--)
            at[words++] = take_word(in);
    }
    at[0] = MTP__WORD0(ticks, 0, MTP__KIND_CONTROL);
    seal_control(at, kind, words);
    return words;
}

static uint32_t put_record(fuzz_input *in, uint64_t *at, uint32_t room, uint64_t ticks)
{
    uint64_t kind = fuzz_take(in, 1);
    uint32_t words = 1 + (uint32_t)(kind >> 4) % WORDS_MAX;
    if (room < words)
        return 0;
    for (uint32_t i = 1; i < words; i++)
        at[i] = take_word(in);
    at[0] = MTP__WORD0(ticks, words, kind & 15);
    return words;
}

/* The session and anchors that every recording has, so that times can be converted. */
static uint32_t put_head(uint64_t *at, uint64_t ticks)
{
    double rate = 2.0;
    at[0] = MTP__WORD0(ticks, 0, MTP__KIND_CONTROL);
    at[2] = 77, at[3] = MTP_CPU | MTP_NPU, at[4] = 1, at[5] = 1;
    memcpy(&at[6], &rate, sizeof rate);
    seal_control(at, MTP__CONTROL_SESSION, 7);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t *a = at + 7 + 7 * i;
        a[0] = MTP__WORD0(ticks, 0, MTP__KIND_CONTROL);
        a[2] = ticks + i * 4000000, a[3] = 1000 + i * 2000000, a[4] = 1794729088000000000u + i * 2000000;
        a[5] = a[3], a[6] = 20;
        seal_control(a, MTP__CONTROL_ANCHOR, 7);
    }
    return 21;
}

/* Writes chunks until the input ends. false: a reader must report a loss: records in a gap, or all
 * definitions. */
static bool fill(mtp__pool *pool, fuzz_input *in, uint64_t how)
{
    uint64_t ticks = (uint64_t)1 << (how & 16 ? 60 : 40), first[4] = {0};
    bool gaps = false;
    for (int n = 0; n < 6 && (n == 0 || fuzz_left(in) > 0); n++) {
        mtp_drop why;
        uint64_t place = n == 0 && how & 2 ? 0 : fuzz_take(in, 1);
        mtp__chunk *chunk = mtp__pool_take(pool, (uint32_t)place & 3, 1 + (uint32_t)(place >> 2 & 3),
                                           first[place & 3], ticks, &why);
        if (chunk == NULL)
            break;
        uint64_t *words = mtp__chunk_words(chunk);
        uint32_t capacity = chunk->span / 8 - (uint32_t)MTP__CHUNK_HEADER_WORDS, used = 0, records = 0;
        if (n == 0 && how & 2) {
            used = put_head(words, ticks);
            records = 3;
        }
        for (uint64_t count = fuzz_take(in, 1) % 60; count > 0 && fuzz_left(in) > 0; count--) {
            ticks += fuzz_take(in, 1);
            uint32_t took = (place & 3) == 0 ? put_control(in, words + used, capacity - used, ticks)
                                             : put_record(in, words + used, capacity - used, ticks);
            if (took == 0)
                break;
            used += took;
            records++;
        }
        gaps = gaps || place >> 7 != 0; /* sometimes */
        first[place & 3] += records + (place >> 7);
        if ((place >> 4 & 7) != 7)
            mtp__pool_seal(pool, chunk, used, records);
    }
    return !gaps && (first[0] > 0 || first[1] + first[2] + first[3] == 0);
}

/* false: it was damaged afterwards, or something in it is missing. */
static bool build(fuzz_input *in, uint64_t how)
{
    mtp__pool pool;
    mtp__pool_config config = {8 * CHUNK_BYTES, CHUNK_BYTES, MTP_STOP_WHEN_FULL, path_of(), 0};
    uint64_t damages = how >> 5 & 3;
    const uint8_t *damage = in->end - (4 * damages < fuzz_left(in) ? 4 * damages : fuzz_left(in));
    fuzz_input records = {in->at, damage}, places = {damage, in->end};
    MUST(mtp__pool_init(&pool, &config) == MTP_OK);
    bool whole = fill(&pool, &records, how);
    if (how & 4)
        mtp__pool_finish(&pool);
    mtp__pool_fini(&pool);
    int fd = open(path_of(), O_RDWR | O_CLOEXEC);
    MUST(fd >= 0);
    off_t size = lseek(fd, 0, SEEK_END);
    for (; fuzz_left(&places) >= 4 && size > 0;) {
        off_t at = (off_t)(fuzz_take(&places, 3) % (uint64_t)size);
        uint8_t was = 0, by = (uint8_t)fuzz_take(&places, 1);
        MUST(pread(fd, &was, 1, at) == 1);
        was ^= by;
        MUST(pwrite(fd, &was, 1, at) == 1);
        whole = whole && by == 0;
    }
    close(fd);
    return whole;
}

static void put_file(const uint8_t *bytes, size_t length)
{
    int fd = open(path_of(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    close(fd);
}

bool fuzz_make_spool(const uint8_t *data, size_t size, const char **made)
{
    static bool prepared;
    if (!prepared) {
        setenv("MTPROF_MAX_MEMORY", "256M", 1);
        atexit(remove_file);
        prepared = true;
    }
    fuzz_input in = {data, data + size};
    uint64_t how = fuzz_take(&in, 1);
    *made = path_of();
    if (how & 1)
        return build(&in, how);
    put_file(in.at, fuzz_left(&in));
    return false;
}

static mtp_status pass_over(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    (void)user, (void)chunk, (void)words, (void)count;
    return MTP_OK;
}

bool fuzz_spool_is_whole(const char *file)
{
    mtp__spool_report report;
    return mtp__spool_visit(file, pass_over, NULL, &report) == MTP_OK && report.damaged == 0 &&
           report.missing == 0;
}
