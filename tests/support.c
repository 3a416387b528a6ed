/* tests/support.c - see test.h. Uses the plain heap, to stay out of the library's own allocation counts. */
#define _GNU_SOURCE
#include "tests/test.h"
#include <ftw.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "record/checks.h"

#if TEST_TSAN
/* Some tests are about children of a multithreaded program. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

#if TEST_ASAN
static pid_t first_process;

__attribute__((constructor)) static void remember_process(void)
{
    first_process = getpid();
}

/* A child that exits midway has not freed what the test holds. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return getpid() != first_process;
}
#endif

/* ---------------------------------------------------------------------------------------- reading back */

struct seen_stream {
    uint32_t stream, cycle;
    uint64_t next; /* expected `first` of the next chunk, if nothing is dropped */
    uint64_t dropped;
    uint64_t ticks;
    size_t records;
    bool lasting;
};

static void *grown(void *array, size_t used, size_t *room, size_t size)
{
    if (used < *room)
        return array;
    *room = *room != 0 ? *room * 2 : 256;
    array = realloc(array, *room * size);
    if (array == NULL)
        abort();
    return array;
}

static void odd(seen *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void odd(seen *s, const char *fmt, ...)
{
    va_list args;
    if (s->problem[0] != 0)
        return;
    va_start(args, fmt);
    vsnprintf(s->problem, sizeof s->problem, fmt, args);
    va_end(args);
}

static struct seen_stream *stream_of(seen *s, uint32_t stream)
{
    for (size_t i = 0; i < s->streams; i++)
        if (s->stream[i].stream == stream)
            return &s->stream[i];
    if ((s->streams & (s->streams - 1)) == 0)
        s->stream = realloc(s->stream, (s->streams ? s->streams * 2 : 1) * sizeof *s->stream);
    s->stream[s->streams] = (struct seen_stream){.stream = stream, .next = UINT64_MAX};
    return &s->stream[s->streams++];
}

static bool is_blob(unsigned kind)
{
    return kind <= MTP__CONTROL_THREAD || kind == MTP__CONTROL_TRACE_ID;
}

/* A blob's slot in the index, or the one it would get. */
static size_t *index_at(const seen *s, unsigned kind, uint32_t id)
{
    size_t at = (id * 0x9e3779b1u + kind * 0x85ebca6bu) & (s->index_room - 1);
    while (s->index[at] != 0 &&
           (s->blob[s->index[at] - 1].kind != kind || s->blob[s->index[at] - 1].id != id))
        at = (at + 1) & (s->index_room - 1);
    return &s->index[at];
}

/* Each metadata blob is a new one, and the index holds the last; others are found by id. */
static seen_blob *blob_at(seen *s, unsigned kind, uint32_t id, bool first_part)
{
    if (s->blobs * 2 >= s->index_room) {
        s->index_room = s->index_room != 0 ? s->index_room * 2 : 256;
        free(s->index);
        s->index = calloc(s->index_room, sizeof *s->index);
        for (size_t i = 0; i < s->blobs; i++)
            *index_at(s, s->blob[i].kind, s->blob[i].id) = i + 1;
    }
    size_t *at = index_at(s, kind, id);
    if (*at != 0 && !(first_part && (kind == MTP__CONTROL_METADATA || kind == MTP__CONTROL_TRACE_ID)))
        return &s->blob[*at - 1];
    s->blob = grown(s->blob, s->blobs, &s->blob_room, sizeof *s->blob);
    s->blob[s->blobs] = (seen_blob){.kind = (mtp__control_kind)kind, .id = id};
    *at = ++s->blobs;
    return &s->blob[*at - 1];
}

static void see_blob(seen *s, unsigned kind, const uint64_t *w, uint32_t words)
{
    uint32_t id = (uint32_t)w[2], part = (uint32_t)(w[3] >> 32);
    size_t length = (uint32_t)w[3], offset = kind == MTP__CONTROL_THREAD ? 0 : w[2] >> 32;
    if (words != 4 + (part + 7) / 8 || offset + part > length) {
        odd(s, "blob %u of kind %u: part of %u at %zu of %zu in %u words", id, kind, part, offset, length,
            words);
        return;
    }
    seen_blob *b = blob_at(s, kind, id, offset == 0);
    if (offset == 0) {
        free(b->bytes);
        b->bytes = calloc(1, length + 1);
        b->length = length;
        b->have = 0;
        b->tid = kind == MTP__CONTROL_THREAD ? (uint32_t)(w[2] >> 32) : 0;
    }
    if (b->length != length || b->have != offset) {
        odd(s, "blob %u of kind %u: part at %zu after %zu bytes", id, kind, offset, b->have);
        return;
    }
    memcpy(b->bytes + offset, w + 4, part);
    b->have += part;
}

static void see_control(seen *s, const uint64_t *w, uint32_t words)
{
    unsigned kind = MTP__CONTROL_KIND(w[1]);
    if (words < 2 || !mtp__control_is_known(kind)) {
        odd(s, "control record of kind %u in %u words", kind, words);
    } else if (is_blob(kind)) {
        if (words < 4)
            odd(s, "blob in %u words", words);
        else
            see_blob(s, kind, w, words);
    } else {
        s->control = grown(s->control, s->controls, &s->control_room, sizeof *s->control);
        seen_words *c = &s->control[s->controls++];
        *c = (seen_words){.kind = (mtp__control_kind)kind, .count = words - 2};
        memcpy(c->word, w + 2, (c->count < COUNT(c->word) ? c->count : COUNT(c->word)) * 8);
    }
}

static void see_record(seen *s, const mtp__chunk *chunk, const uint64_t *w, uint32_t words)
{
    s->record = grown(s->record, s->records, &s->record_room, sizeof *s->record);
    seen_record *r = &s->record[s->records++];
    *r = (seen_record){.kind = (mtp__kind)MTP__WORD0_KIND(w[0]),
                       .stream = chunk->stream,
                       .cycle = chunk->cycle,
                       .ticks = MTP__WORD0_TICKS(w[0]),
                       .words = words};
    memcpy(r->word, w + 1, (words - 1) * sizeof *w);
    if (r->kind == MTP__KIND_CONTROL || mtp__kind_words(r->kind) == 0 || words < mtp__kind_words(r->kind))
        odd(s, "record of kind %u and %u words in stream %u", r->kind, words, chunk->stream);
    if (r->kind == MTP__KIND_BEGIN &&
        words != 2 + (uint32_t)__builtin_popcount(mtp__payload_of(w, words).mask))
        odd(s, "begin in %u words, word 1 is %llx", words, (unsigned long long)r->word[0]);
}

static mtp_status see_chunk(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    seen *s = user;
    struct seen_stream *st = stream_of(s, chunk->stream);
    uint32_t records = 0, at = 0;
    bool sealed = s->file ? chunk->checksum != 0 : chunk->words != 0;
    s->chunks++;
    s->control_chunks += chunk->stream == 0;
    s->magic = s->magic != 0 ? s->magic : chunk->magic;
    if (chunk->magic == 0 || chunk->magic != s->magic || chunk->order == 0)
        odd(s, "a chunk without magic or order");
    bool begins = chunk->epoch == MTP__EPOCH_ALL ||
                  (count > 1 && chunk->stream == 0 && MTP__CONTROL_KIND(words[1]) == MTP__CONTROL_SESSION);
    if (st->next != UINT64_MAX && chunk->first - chunk->dropped != st->next - st->dropped &&
        st->cycle == chunk->cycle && !s->holes && !(st->lasting && begins))
        odd(s, "stream %u: a chunk starts at %llu, not %llu", chunk->stream, (unsigned long long)chunk->first,
            (unsigned long long)st->next);
    st->lasting = chunk->epoch == MTP__EPOCH_ALL && chunk->stream == 0; /* after it, epochs may be missing */
    for (; at < count; records++) {
        uint32_t length = MTP__WORD0_LENGTH(words[at]);
        length = length != 0 ? length : (uint32_t)(words[at + 1] >> 32);
        uint64_t ticks = MTP__WORD0_TICKS(words[at]);
        if (ticks < st->ticks && chunk->stream != 0)
            odd(s, "stream %u: the clock goes backwards", chunk->stream);
        if (ticks < (chunk->base_ticks & UINT64_C(0xffffffffffffff)))
            odd(s, "stream %u: a record is older than its chunk's base", chunk->stream);
        st->ticks = ticks;
        if (MTP__WORD0_KIND(words[at]) == MTP__KIND_CONTROL)
            see_control(s, words + at, length);
        else
            see_record(s, chunk, words + at, length);
        at += length;
    }
    if (sealed && !s->live && (chunk->records != records || chunk->words != count))
        odd(s, "stream %u: sealed with %u records in %u words, has %u in %u", chunk->stream, chunk->records,
            chunk->words, records, count);
    st->records += records;
    st->next = chunk->first + records;
    st->dropped = chunk->dropped;
    st->cycle = chunk->cycle;
    return MTP_OK;
}

/* Every id that a record uses must be defined. */
static void check_ids(seen *s)
{
    for (size_t i = 0; i < s->records; i++) {
        const seen_record *r = &s->record[i];
        uint32_t id = (uint32_t)r->word[0], refers_to = mtp__kind_refers_to(r->kind);
        if (refers_to != MTP__CONTROL_NONE && id != 0 &&
            seen_defined(s, (mtp__control_kind)refers_to, id) == NULL)
            odd(s, "%s %u is used but not defined", refers_to == MTP__CONTROL_NAME ? "name" : "shape", id);
        if (r->kind != MTP__KIND_BEGIN && r->kind != MTP__KIND_END)
            continue;
        unsigned mask = r->words > 1 ? (unsigned)(r->word[0] >> 40) & 0xffu : 0;
        if ((mask & MTP__HAS_DETAIL) != 0) {
            uint64_t word = r->word[1 + __builtin_popcount(mask & (MTP__HAS_DETAIL - 1u))];
            uint32_t shape = (uint32_t)word, stack = (uint32_t)(word >> 32);
            if (shape != 0 && seen_defined(s, MTP__CONTROL_SHAPE, shape) == NULL)
                odd(s, "shape %u is used but not defined", shape);
            if (stack != 0 && seen_defined(s, MTP__CONTROL_STACK, stack) == NULL)
                odd(s, "stack %u is used but not defined", stack);
        }
    }
    for (size_t i = 0; i < s->streams; i++)
        if (s->stream[i].stream != 0 && s->stream[i].records > 0 &&
            seen_defined(s, MTP__CONTROL_THREAD, s->stream[i].stream) == NULL)
            odd(s, "stream %u has no thread", s->stream[i].stream);
    for (size_t i = 0; i < s->blobs; i++)
        if (s->blob[i].kind == MTP__CONTROL_STACK && s->blob[i].have == 8) {
            uint32_t pair[2];
            memcpy(pair, s->blob[i].bytes, 8);
            if ((pair[0] != 0 && seen_defined(s, MTP__CONTROL_STACK, pair[0]) == NULL) ||
                seen_defined(s, MTP__CONTROL_FRAME, pair[1]) == NULL)
                odd(s, "stack %u uses an undefined parent or frame", s->blob[i].id);
        }
}

void seen_profile(seen *s, mtp_profile *prof)
{
    *s = (seen){.live = s->live, .holes = s->holes};
    if (prof->recorder != NULL)
        assert_ok(mtp__recorder_visit(prof->recorder, see_chunk, s));
    check_ids(s);
}

mtp_status seen_spool(seen *s, const char *path)
{
    *s = (seen){.live = s->live, .holes = s->holes, .file = true};
    mtp_status status = mtp__spool_visit(path, see_chunk, s, &s->report);
    check_ids(s);
    return status;
}

void seen_free(seen *s)
{
    for (size_t i = 0; i < s->blobs; i++)
        free(s->blob[i].bytes);
    free(s->record);
    free(s->blob);
    free(s->control);
    free(s->stream);
    free(s->index);
    *s = (seen){0};
}

size_t seen_count(const seen *s, int kind, int64_t stream)
{
    size_t n = 0;
    for (size_t i = 0; i < s->records; i++)
        n += (kind < 0 || s->record[i].kind == (mtp__kind)kind) &&
             (stream < 0 || s->record[i].stream == (uint32_t)stream);
    return n;
}

const seen_record *seen_nth(const seen *s, int kind, size_t nth)
{
    for (size_t i = 0; i < s->records; i++)
        if ((kind < 0 || s->record[i].kind == (mtp__kind)kind) && nth-- == 0)
            return &s->record[i];
    fail_msg("there are not that many records of kind %d", kind);
    return NULL;
}

const seen_blob *seen_defined(const seen *s, mtp__control_kind kind, uint32_t id)
{
    size_t at = s->index_room != 0 ? *index_at(s, kind, id) : 0;
    const seen_blob *b = at != 0 ? &s->blob[at - 1] : NULL;
    return b != NULL && b->have == b->length && b->bytes != NULL ? b : NULL;
}

const char *seen_name(const seen *s, uint32_t id)
{
    const seen_blob *b = seen_defined(s, MTP__CONTROL_NAME, id);
    return b != NULL ? (const char *)b->bytes : "?";
}

const seen_words *seen_control(const seen *s, mtp__control_kind kind, size_t nth)
{
    for (size_t i = 0; i < s->controls; i++)
        if (s->control[i].kind == kind && nth-- == 0)
            return &s->control[i];
    return NULL;
}

size_t seen_streams(const seen *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->streams; i++)
        n += s->stream[i].stream != 0 && s->stream[i].records > 0;
    return n;
}

const char *seen_metadata(const seen *s, char kind, const char *key, size_t nth)
{
    for (size_t i = 0; i < s->blobs; i++) {
        const seen_blob *b = &s->blob[i];
        if (b->kind == MTP__CONTROL_METADATA && b->length > 0 && b->bytes[0] == (unsigned char)kind &&
            strcmp((const char *)b->bytes + 1, key) == 0 && nth-- == 0)
            return (const char *)b->bytes + 2 + strlen(key);
    }
    return NULL;
}

mtp_ledger ledger_of(mtp_profile *prof)
{
    mtp_ledger l = MTP_LEDGER_INIT;
    assert_ok(mtp_profile_ledger(prof, &l));
    return l;
}

void assert_balanced(mtp_profile *prof)
{
    assert_balanced_as(prof, (seen){0});
}

void assert_balanced_as(mtp_profile *prof, seen s)
{
    mtp_ledger l = ledger_of(prof);
    uint64_t by_cause = 0;
    for (size_t i = 0; i < COUNT(l.dropped_by); i++)
        by_cause += l.dropped_by[i];
    seen_profile(&s, prof);
    assert_string_equal(s.problem, "");
    assert_int_equal(l.emitted, l.kept + l.dropped);
    assert_int_equal(l.dropped, by_cause);
    assert_int_equal(l.kept, s.records);
    seen_free(&s);
}

/* ------------------------------------------------------------------------------------------- profiles */

void test_warned(void *user, mtp_warning code, const char *text)
{
    warnings *w = user;
    w->count[(unsigned)code & 15u]++;
    w->total++;
    snprintf(w->text, sizeof w->text, "%s", text);
}

void test_ready(mtp_profile *prof, void *user)
{
    (void)prof;
    ((warnings *)user)->ready++;
}

mtp_profile_config test_config(warnings *w)
{
    mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
    c.buffer_bytes = 2u << 20;
    c.chunk_bytes = 4096;
    if (w != NULL) {
        memset(w, 0, sizeof *w);
        c.on_warning = test_warned;
        c.on_trace_ready = test_ready;
        c.user = w;
    }
    return c;
}

mtp_profile *test_create(const mtp_profile_config *config)
{
    mtp_profile *prof = NULL;
    assert_ok(mtp_profile_create(config, &prof));
    assert_non_null(prof);
    return prof;
}

mtp_profile *test_start(const mtp_profile_config *config)
{
    mtp_profile *prof = test_create(config);
    assert_ok(mtp_profile_start(prof));
    return prof;
}

/* ---------------------------------------------------------------------------------------- surroundings */

static char folder[256];
static pid_t folder_owner;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    remove(path);
    return 0;
}

static void folder_remove(void)
{
    if (folder_owner == getpid())
        nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *test_path(const char *name)
{
    static char path[8][512];
    static unsigned turn;
    if (folder_owner == 0) {
        const char *top = getenv("MTP_TEST_TMP"); /* not a disk: files are rewritten thousands of times */
        top = top != NULL && *top != 0 ? top : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(folder, sizeof folder, "%s/mtprof-test-XXXXXX", top);
        if (mkdtemp(folder) == NULL)
            abort();
        folder_owner = getpid();
        atexit(folder_remove);
    }
    char *out = path[turn++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

char *test_slurp(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *text = malloc((size_t)size + 1);
    assert_int_equal(fread(text, 1, (size_t)size, f), size);
    text[size] = 0;
    fclose(f);
    *bytes = (size_t)size;
    return text;
}

void test_spew(const char *path, const void *bytes, size_t count)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    fclose(f);
}

mtp__chunk *test_chunk(char *file, size_t bytes, size_t nth)
{
    size_t size = ((mtp__spool_header *)(void *)file)->chunk_bytes;
    for (size_t piece = size; piece < bytes; piece += size)
        for (size_t from = 0;
             from + sizeof(mtp__chunk) <= size && piece + from + sizeof(mtp__chunk) <= bytes;) {
            mtp__chunk *c = (mtp__chunk *)(void *)(file + piece + from);
            if (c->span < sizeof *c)
                break;
            if (c->head != 0 && nth-- == 0)
                return c;
            from += c->span;
        }
    return NULL;
}

bool test_chunk_is_in(char *file, size_t bytes, const mtp__chunk *copy, const uint64_t *words, uint32_t count)
{
    mtp__chunk *c;
    for (size_t i = 0; (c = test_chunk(file, bytes, i)) != NULL; i++) {
        mtp__chunk as_here = *copy;
        as_here.sealed = c->sealed; /* private to the pool: not read back, not covered by a check */
        if (memcmp(&as_here, c, sizeof as_here) == 0 &&
            memcmp(mtp__chunk_words(c), words, count * sizeof *words) == 0)
            return true;
    }
    return false;
}

void test_seal_header(char *bytes)
{
    mtp__spool_header *h = (mtp__spool_header *)(void *)bytes;
    h->check = mtp__spool_check(h);
    memcpy(bytes + MTP__SPOOL_COPY_AT, h, sizeof *h);
}

void test_seal_control(mtp__chunk *chunk)
{
    uint64_t *w = mtp__chunk_words(chunk);
    for (uint32_t at = 0, length; at < chunk->words; at += length) {
        length = (uint32_t)(w[at + 1] >> 32);
        if (length < 2 || length > chunk->words - at)
            return;
        w[at + 1] = MTP__CONTROL_WORD1(MTP__CONTROL_KIND(w[at + 1]),
                                       mtp__control_check(w[at], w + at, length), length);
    }
}

/* 0 under valgrind, where it would be valgrind's own. */
size_t test_rss(void)
{
    long pages = 0, ignored = 0;
    FILE *f = getenv("MTP_TEST_VALGRIND") == NULL ? fopen("/proc/self/statm", "r") : NULL;
    if (f != NULL) {
        if (fscanf(f, "%ld %ld", &ignored, &pages) != 2)
            pages = 0;
        fclose(f);
    }
    return (size_t)pages * 4096;
}

double test_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int test_scaled(int n)
{
    const char *text = getenv("MTP_TEST_SCALE");
    double scale = text != NULL && atof(text) > 0 ? atof(text) : 1;
    double scaled = n * scale / (TEST_TSAN ? 10 : TEST_ASAN ? 4 : 1);
    return scaled < 1 ? 1 : (int)scaled;
}

uint64_t test_random(void)
{
    static uint64_t state;
    if (state == 0) {
        const char *text = getenv("MTP_TEST_SEED");
        state =
            text != NULL ? strtoull(text, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid();
        fprintf(stderr, "MTP_TEST_SEED=%llu\n", (unsigned long long)state);
    }
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t test_below(uint64_t limit)
{
    return test_random() % limit;
}

void test_row(int row, uint64_t runs, const char *worst, ...)
{
    char text[256];
    va_list args;
    va_start(args, worst);
    vsnprintf(text, sizeof text, worst, args);
    va_end(args);
    fprintf(stderr, "row %d: %llu runs: %s\n", row, (unsigned long long)runs, text);
}

/* Runs only the tests that match a pattern: MTP_TEST_ONLY=a_full_* */
static __attribute__((constructor)) void choose_tests(void)
{
    const char *only = getenv("MTP_TEST_ONLY");
    if (only != NULL && *only != 0)
        cmocka_set_test_filter(only);
}

/* SIGALRM is blocked where the library holds a lock, and that is where a child may hang. */
static void end_after(unsigned seconds)
{
    struct sigevent kill_it = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec when = {.it_value.tv_sec = seconds + 2};
    timer_t timer;
    signal(SIGALRM, SIG_DFL);
    alarm(seconds);
    if (timer_create(CLOCK_MONOTONIC, &kill_it, &timer) == 0)
        timer_settime(timer, 0, &when, NULL);
}

pid_t test_fork_child(child_fn *fn, void *arg, unsigned seconds)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    end_after(seconds * (TEST_TSAN   ? 10
                         : TEST_ASAN ? 6
                                     : 3)); /* only a hang takes this long, on any machine */
    fn(arg);
    _exit(0);
}

int test_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

int test_child(child_fn *fn, void *arg, unsigned seconds)
{
    return test_wait(test_fork_child(fn, arg, seconds));
}

bool test_left_well(int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFEXITED(status))
        fprintf(stderr, "a child exited with %d\n", WEXITSTATUS(status));
    else
        fprintf(stderr, "a child died of signal %d%s\n", WTERMSIG(status),
                WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    /* TSan (of gcc 12) does not hold the locks of its own allocator across a fork: a child may wait for one
     * that another thread of its parent held. Other builds run the same tests. */
    return TEST_TSAN && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
}

void *test_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        abort();
    return p;
}
