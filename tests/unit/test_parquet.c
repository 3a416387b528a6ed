/* Unit: present/parquet: encodings at their edges, files, folders, faults. What the tables hold is compared by
 * tests/golden/parquet.py, with a reader that is not ours by tests/golden/fleet.py. */
#define _GNU_SOURCE
#include <ftw.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include "present/parquet/folder.h"
#include "present/parquet/tables.h"
#include "tests/made_trace.h"

/* --------------------------------------------------------------------------------------------- decoders */

typedef struct reader {
    const uint8_t *at, *end;
} reader;

static uint64_t take_varint(reader *r)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(r->at < r->end);
        value |= (uint64_t)(*r->at & 0x7f) << shift;
        if ((*r->at++ & 0x80) == 0)
            return value;
    }
}

static int64_t take_zigzag(reader *r)
{
    uint64_t v = take_varint(r);
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

static uint64_t bits_at(const reader *r, size_t bit, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) {
        assert_true(r->at + (bit + i) / 8 < r->end);
        value |= (uint64_t)(r->at[(bit + i) / 8] >> (bit + i) % 8 & 1) << i;
    }
    return value;
}

static void must_be_deltas(const mtp__octets *b, const int64_t *v, size_t count, bool is32)
{
    reader r = {b->at, b->at + b->count};
    assert_int_equal(take_varint(&r), 128);
    assert_int_equal(take_varint(&r), 4);
    assert_int_equal(take_varint(&r), count);
    uint64_t value = (uint64_t)take_zigzag(&r);
    size_t n = 0;
    if (count > 0)
        assert_true((int64_t)value == v[n++]);
    while (n < count) {
        uint64_t least = (uint64_t)take_zigzag(&r);
        const uint8_t *width = r.at;
        r.at += 4;
        for (unsigned m = 0; m < 4 && n < count; m++) {
            assert_true(width[m] <= (is32 ? 32 : 64));
            for (size_t i = 0; i < 32 && n < count; i++) {
                value += least + bits_at(&r, i * width[m], width[m]);
                value = is32 ? (uint64_t)(int64_t)(int32_t)(uint32_t)value : value;
                assert_true((int64_t)value == v[n++]);
            }
            r.at += 4 * width[m];
        }
    }
    assert_ptr_equal(r.at, r.end);
}

static void must_be_runs(const mtp__octets *b, const uint32_t *v, size_t count, unsigned width)
{
    reader r = {b->at, b->at + b->count};
    size_t n = 0;
    while (n < count) {
        uint64_t head = take_varint(&r), values = (head & 1) != 0 ? (head >> 1) * 8 : head >> 1;
        size_t bytes = (head & 1) != 0 ? (size_t)(head >> 1) * width : (width + 7) / 8;
        assert_true(values > 0 && ((head & 1) != 0 || values <= count - n));
        for (size_t i = 0; i < values && n < count; i++)
            assert_int_equal(bits_at(&r, (head & 1) != 0 ? i * width : 0, width), v[n++]);
        r.at += bytes;
    }
    assert_ptr_equal(r.at, r.end);
}

/* -------------------------------------------------------------------------------------------- encodings */

static uint64_t seed = 1;

static uint64_t random_bits(unsigned width)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t high = seed >> 32;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return width == 0 ? 0 : (high << 32 | seed >> 32) >> (64 - width);
}

static void deltas_of_any_width_and_count_come_back(void **state)
{
    (void)state;
    enum {
        MOST = 700
    };
    static int64_t v[MOST];
    static const size_t counts[] = {0, 1, 2, 32, 33, 34, 127, 128, 129, 130, 161, 256, 257, 258, MOST};
    for (unsigned width = 0; width <= 64; width++)
        for (size_t c = 0; c < COUNT(counts); c++)
            for (unsigned is32 = 0; is32 <= (width <= 32); is32++) {
                mtp__octets b = {0};
                for (size_t i = 0; i < counts[c]; i++) {
                    uint64_t x = random_bits(width);
                    v[i] = is32 ? (int32_t)(uint32_t)x : (int64_t)x;
                }
                mtp__parquet_delta(&b, v, counts[c], is32);
                must_be_deltas(&b, v, counts[c], is32);
                mtp__octets_fini(&b);
            }
}

static void deltas_at_the_ends_wrap(void **state)
{
    (void)state;
    static const int64_t whole[] = {INT64_MIN, INT64_MAX, INT64_MIN, 0,        -1,
                                    INT64_MAX, INT64_MAX, 1,         INT64_MIN},
                         half[] = {INT32_MIN, INT32_MAX, INT32_MIN, 0,        -1,
                                   INT32_MAX, INT32_MAX, 1,         INT32_MIN};
    mtp__octets a = {0}, b = {0};
    mtp__parquet_delta(&a, whole, COUNT(whole), false);
    must_be_deltas(&a, whole, COUNT(whole), false);
    mtp__parquet_delta(&b, half, COUNT(half), true);
    must_be_deltas(&b, half, COUNT(half), true);
    mtp__octets_fini(&a);
    mtp__octets_fini(&b);
}

static void equal_values_are_deltas_of_nothing(void **state)
{
    (void)state;
    static int64_t v[300];
    for (size_t count = 1; count < COUNT(v); count += count < 4 ? 1 : 63) {
        mtp__octets b = {0}, slow = {0};
        for (size_t i = 0; i < count; i++)
            v[i] = -77;
        mtp__parquet_same(&b, -77, count);
        mtp__parquet_delta(&slow, v, count, false);
        must_be_deltas(&b, v, count, false);
        assert_int_equal(b.count, slow.count);
        assert_memory_equal(b.at, slow.at, b.count);
        mtp__octets_fini(&b);
        mtp__octets_fini(&slow);
    }
}

static void runs_of_any_width_and_count_come_back(void **state)
{
    (void)state;
    static uint32_t v[600];
    for (unsigned width = 0; width <= 32; width++)
        for (size_t count = 0; count < COUNT(v); count += count < 40 ? 1 : 97)
            for (unsigned repeats = 1; repeats < 40; repeats += 6) { /* runs and others, in turns */
                mtp__octets b = {0};
                for (size_t i = 0; i < count; i++)
                    v[i] = i > 0 && random_bits(8) % repeats != 0 ? v[i - 1] : (uint32_t)random_bits(width);
                mtp__parquet_hybrid(&b, v, count, width);
                must_be_runs(&b, v, count, width);
                mtp__octets_fini(&b);
            }
}

static void the_width_holds_the_largest_value(void **state)
{
    (void)state;
    assert_int_equal(mtp__parquet_width(0), 0);
    assert_int_equal(mtp__parquet_width(1), 1);
    assert_int_equal(mtp__parquet_width(255), 8);
    assert_int_equal(mtp__parquet_width(256), 9);
    assert_int_equal(mtp__parquet_width(UINT64_MAX), 64);
}

static void texts_become_valid_characters(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *written;
        size_t written_length;
    } rows[] = {{"", 0, "", 0},
                {"a\0b", 3, "a\0b", 3},
                {"\xff", 1, "\xef\xbf\xbd", 3},
                {"\xc3\xa9", 2, "\xc3\xa9", 2},
                {"\xc3", 1, "\xef\xbf\xbd", 3},
                {"x\xed\xa0\x80y", 5, "x\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdy", 11},
                {"\xf0\x9f\x98", 3, "\xef\xbf\xbd", 3}};
    for (size_t i = 0; i < COUNT(rows); i++)
        for (unsigned braces = 0; braces < 2; braces++) {
            mtp__octets b = {0};
            mtp__parquet_put_text(&b, (mtp_text){rows[i].bytes, rows[i].length}, braces);
            assert_int_equal(b.count, 4 + rows[i].written_length + 2 * braces);
            assert_int_equal(b.at[0], rows[i].written_length + 2 * braces);
            assert_memory_equal(b.at + 4 + braces, rows[i].written, rows[i].written_length);
            assert_true(!braces || (b.at[4] == '{' && b.at[b.count - 1] == '}'));
            mtp__octets_fini(&b);
        }
}

/* ------------------------------------------------------------------------------------------------ tables */

static bool fill_number(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    (void)source;
    for (size_t i = 0; i < count; i++) {
        value[i] = (int64_t)(first + i);
        if (present != NULL)
            present[i] = (first + i) % 3 == 0;
    }
    return true;
}

static bool fill_nothing(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    (void)source, (void)first, (void)count, (void)value, (void)present;
    return false;
}

static bool fill_nan(const void *source, size_t first, size_t count, int64_t *value, uint8_t *present)
{
    (void)source, (void)present;
    for (size_t i = 0; i < count; i++) {
        double x = first + i == 2 ? NAN : 1;
        memcpy(&value[i], &x, sizeof x);
    }
    return true;
}

static mtp_text number_text(const void *source, int64_t id)
{
    static char text[24];
    (void)source;
    return (mtp_text){text, (size_t)snprintf(text, sizeof text, "%lld", (long long)id)};
}

static mtp_text long_text(const void *source, int64_t id)
{
    static char text[400000];
    (void)source;
    memset(text, 'x', sizeof text);
    snprintf(text, 24, "%lld", (long long)id);
    return (mtp_text){text, sizeof text};
}

static const mtp__parquet_column some[] = {
    {"a", MTP__PARQUET_I64, false, fill_number, NULL, false},
    {"b", MTP__PARQUET_I32, true, fill_number, NULL, false},
    {"c", MTP__PARQUET_TEXT, true, fill_nothing, number_text, false},
    {"d", MTP__PARQUET_TEXT, false, fill_number, number_text, false},
    {"e", MTP__PARQUET_BOOL, false, fill_number, NULL, false},
    {"f", MTP__PARQUET_F64, false, fill_nan, NULL, false},
};
static const mtp__parquet_table table = {"some", some, COUNT(some)};
static const mtp__parquet_column wide[] = {{"x", MTP__PARQUET_TEXT, false, fill_number, long_text, false}};
static const mtp__parquet_table texts = {"texts", wide, 1};

static bool count_only(void *user, const void *bytes, size_t length)
{
    (void)bytes;
    *(uint64_t *)user += length;
    return true;
}

static void must_be_a_file(const collected *c)
{
    assert_true(c->length > 12);
    assert_memory_equal(c->bytes, "PAR1", 4);
    assert_memory_equal(c->bytes + c->length - 4, "PAR1", 4);
}

static void a_table_without_rows_is_a_file(void **state)
{
    (void)state;
    collected out = {0};
    assert_ok(mtp__parquet_write(&table, NULL, 0, collect, &out));
    must_be_a_file(&out);
    collected_free(&out);
}

/* A row group ends before its dictionary gets large: the memory is bounded, whatever the texts. */
static void long_texts_end_a_row_group(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    long before = mtp__alloc_live();
    assert_ok(mtp__parquet_write(&texts, NULL, 300, count_only, &bytes));
    assert_true(bytes > 300);
    assert_int_equal(mtp__alloc_live(), before);
}

static void a_sink_that_refuses_ends_it(void **state)
{
    (void)state;
    collected whole = {0};
    assert_ok(mtp__parquet_write(&table, NULL, 50000, collect, &whole));
    must_be_a_file(&whole);
    for (size_t after = 1; after < whole.length; after += after < 10 ? 1 : whole.length / 37) {
        collected out = {.refuse_after = after};
        assert_int_equal(mtp__parquet_write(&table, NULL, 50000, collect, &out), MTP_E_IO);
        collected_free(&out);
    }
    collected_free(&whole);
}

/* --------------------------------------------------------------------------------------------- folders */

static mtp_trace *make_trace(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 517), other = made_thread(t, 518), stream = made_stream(t, 0, 7);
    mtp__detail d = MTP__DETAIL_INIT;
    mtp__shape shape = {made_text(t, "[[4, 4], [4, 4]]"), 0, made_text(t, "[\"float\", \"float\"]"), 0};
    d.shape = mtp__trace_add_shape(t, &shape);
    d.stack = mtp__trace_add_stack(t, mtp__trace_add_stack(t, 0, made_text(t, "main.py:1:main")),
                                   made_text(t, "net.py:2:f"));
    d.correlation = 9;
    d.args = made_text(t, "\"a\": 1");
    made_scope(t, main, 0, 1000, "ProfilerStep#1");
    mtp__trace_add_span(t, main, 10, 500, made_text(t, "aten::mm"), MTP__CATEGORY_CPU_OP, 0,
                        mtp__trace_add_detail(t, &d));
    made_op(t, main, 20, 300, "aten::empty");
    made_op(t, other, 5, 6, "\xff");
    mtp__trace_add_span(t, stream, 600, 900, made_text(t, "gemm"), MTP__CATEGORY_KERNEL, 0,
                        mtp__trace_add_detail(t, &d));
    made_memory(t, main, 30, UINT64_MAX, INT64_MAX);
    made_memory(t, main, 2000, 0x1000, INT64_MIN);
    made_memory_of(t, main, 40, 0x2000, 64, 64, 1, 0);
    mtp__instant counter = {
        .ts = 50, .value = 2.5, .name = made_text(t, "queue"), .track = main, .is_counter = true};
    mtp__trace_add_instant(t, &counter);
    mtp__trace_add_meta(t, "with_flops", 10, "1", 1);
    mtp__trace_add_meta(t, "distributedInfo", 15, "{\"world_size\": 4, \"rank\": 2}", 28);
    return made_end(t);
}

static unsigned files; /* found by the walk */

static int count_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)path, (void)st, (void)walk;
    files += type == FTW_F;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st, (void)type, (void)walk;
    return remove(path);
}

static unsigned files_in(const char *folder)
{
    files = 0;
    nftw(folder, count_one, 16, FTW_PHYS);
    return files;
}

static void clean(const char *folder)
{
    nftw(folder, remove_one, 16, FTW_PHYS | FTW_DEPTH);
    assert_int_not_equal(access(folder, F_OK), 0);
}

#define X(table, rows) +1
enum {
    TABLES = 0 MTP__PARQUET_TABLE_LIST(X)
};
#undef X

static void all_tables_appear_in_their_partition(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    char folder[512], path[700];
    snprintf(folder, sizeof folder, "%s", test_path("lake"));
    clean(folder);
    mtp_parquet_options options = MTP_PARQUET_OPTIONS_INIT;
    options.job = "a b=c";
    assert_ok(mtp_export_parquet(t, folder, &options));
    assert_int_equal(files_in(folder), TABLES);
    snprintf(path, sizeof path, "%s/spans/job=a b%%3Dc/rank=2/spans.parquet", folder);
    assert_int_equal(access(path, F_OK), 0);
    options.rank = 3;
    assert_ok(mtp_export_parquet(t, folder, &options));
    assert_int_equal(mtp_export_parquet(t, folder, &options), MTP_E_STATE);
    assert_non_null(strstr(mtp_last_error(), "--job"));
    assert_int_equal(files_in(folder), 2 * TABLES);
    clean(folder);
    mtp_trace_destroy(t);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    mtp_parquet_options options = MTP_PARQUET_OPTIONS_INIT;
    char path[PATH_MAX + 10];
    assert_int_equal(mtp_export_parquet(NULL, "x", NULL), MTP_E_ARG);
    assert_int_equal(mtp_export_parquet(t, NULL, NULL), MTP_E_ARG);
    assert_int_equal(mtp_export_parquet(t, "", NULL), MTP_E_ARG);
    options.size = 0;
    assert_int_not_equal(mtp_export_parquet(t, "x", &options), MTP_OK);
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = 0;
    assert_int_equal(mtp_export_parquet(t, path, NULL), MTP_E_ARG);
    options = (mtp_parquet_options)MTP_PARQUET_OPTIONS_INIT;
    path[260] = 0;
    options.job = path;
    assert_int_equal(mtp_export_parquet(t, "x", &options), MTP_E_ARG);
    mtp_trace_destroy(t);
}

/* What the trace has takes no part in where tables go: names of folders come from its metadata and its file's name. */
static void a_job_is_one_folder(void **state)
{
    (void)state;
    static const struct {
        const char *json, *job;
    } rows[] = {{"\"../../etc\"", "..%2F..%2Fetc"},
                {"\"..\"", ".."},
                {"\"\"", "run"},
                {"7", "7"},
                {"[7]", "run"},
                {"\"a\\u0041\\u00fc\\n\"", "aA\xc3\xbc%0A"},
                {"\"%41\"", "%2541"},
                {"\"\xff\"", "\xef\xbf\xbd"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        mtp_trace *t = made_begin();
        mtp_parquet_options options = MTP_PARQUET_OPTIONS_INIT;
        mtp__parquet_place place;
        mtp__trace_add_meta(t, "job", 3, rows[i].json, strlen(rows[i].json));
        made_end(t);
        strcpy(t->source, "some/where/run.pt.trace.json.gz");
        assert_ok(mtp__parquet_find_place(t, &options, &place));
        assert_string_equal(place.job, rows[i].job);
        assert_int_equal(place.rank, 0);
        mtp_trace_destroy(t);
    }
}

/* As in mtprof ranks and in digests. */
static void whose_trace_it_is_has_one_rule(void **state)
{
    (void)state;
    static const struct {
        const char *info, *job, *file;
        bool in_job;
        const char *want;
        int64_t rank;
    } rows[] = {{"{\"rank\": 2, \"job\": \"slurm 7\"}", NULL, "a/x.json", false, "slurm 7", 2},
                {"{\"rank\": 2, \"job\": \"slurm 7\"}", "\"mine\"", "a/x.json", false, "mine", 2},
                {"{\"role\": \"rank\", \"rank\": \"12\"}", NULL, "a/x.json", false, "x", 12},
                {"{}", NULL, "a/rank_7.json", false, "rank_7", 7},
                {"{\"rank\": 3}", NULL, "a/rank_7.json", false, "rank_7", 3},
                {"{}", NULL, "rank9/all.mtp", true, "all", 5}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        mtp_trace *t = made_begin();
        mtp_parquet_options options = MTP_PARQUET_OPTIONS_INIT;
        mtp__parquet_place place;
        mtp__trace_add_meta(t, "distributedInfo", 15, rows[i].info, strlen(rows[i].info));
        if (rows[i].job != NULL)
            mtp__trace_add_meta(t, "job", 3, rows[i].job, strlen(rows[i].job));
        made_end(t);
        strcpy(t->source, rows[i].file);
        t->in_job = rows[i].in_job;
        t->job_rank = 5;
        assert_ok(mtp__parquet_find_place(t, &options, &place));
        assert_string_equal(place.job, rows[i].want);
        assert_int_equal(place.rank, rows[i].rank);
        mtp_trace_destroy(t);
    }
}

/* Of two exports at once to one rank, the second would mix its tables with those of the first. */
static void a_rank_has_one_writer(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    char folder[512];
    mtp_parquet_options options = MTP_PARQUET_OPTIONS_INIT;
    mtp__parquet_place place;
    int claim, other;
    snprintf(folder, sizeof folder, "%s", test_path("claimed"));
    clean(folder);
    options.job = "j";
    assert_ok(mtp__parquet_find_place(t, &options, &place));
    assert_ok(mtp__parquet_claim(folder, &place, &claim));
    assert_int_equal(mtp__parquet_claim(folder, &place, &other), MTP_E_STATE);
    assert_int_equal(mtp_export_parquet(t, folder, &options), MTP_E_STATE);
    assert_non_null(strstr(mtp_last_error(), "another export"));
    options.rank = 3;
    assert_ok(mtp_export_parquet(t, folder, &options));
    assert_int_equal(files_in(folder), TABLES + 1);
    mtp__parquet_release(folder, &place, claim);
    options.rank = -1;
    assert_ok(mtp_export_parquet(t, folder, &options));
    assert_int_equal(files_in(folder), 2 * TABLES);
    clean(folder);
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------ faults */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    char folder[512];
    int nth = 1, fired;
    long before = mtp__alloc_live();
    snprintf(folder, sizeof folder, "%s", test_path("faults"));
    do {
        clean(folder);
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, false);
        mtp_status status = mtp_export_parquet(t, folder, NULL);
        fired = mtp__fault_stop();
        assert_true(status == MTP_OK || status == MTP_E_NOMEM);
        assert_int_equal(files_in(status == MTP_OK ? folder : "."),
                         status == MTP_OK ? TABLES : files_in("."));
        if (status != MTP_OK && access(folder, F_OK) == 0)
            assert_int_equal(files_in(folder), 0);
        assert_int_equal(mtp__alloc_live(), before);
        nth++;
    } while (fired > 0);
    assert_true(nth > 60);
    clean(folder);
    mtp_trace_destroy(t);
}

/* A full disk, a folder that cannot be made, a file that cannot be renamed: at any call, none of the tables appears. */
static void nothing_appears_if_anything_fails(void **state)
{
    (void)state;
    static const mtp__fault kinds[] = {MTP__FAULT_WRITE, MTP__FAULT_OPEN, MTP__FAULT_SYNC, MTP__FAULT_RENAME};
    mtp_trace *t = make_trace();
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_path("faults"));
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (int nth = 1, fired = 1; fired > 0; nth++) {
            clean(folder);
            mtp__fault_plan(1u << kinds[k], nth, true);
            mtp_status status = mtp_export_parquet(t, folder, NULL);
            fired = mtp__fault_stop();
            bool good = status == MTP_OK;
            assert_true(good || (status == MTP_E_IO && fired > 0));
            assert_int_equal(files_in(folder), good ? TABLES : 0);
            assert_true(good || strstr(mtp_last_error(), folder) != NULL);
        }
    clean(folder);
    mtp_trace_destroy(t);
}

static void interrupted_and_short_writes_go_on(void **state)
{
    (void)state;
    mtp_trace *t = make_trace();
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_path("faults"));
    clean(folder);
    mtp__fault_plan(1u << MTP__FAULT_SHORT | 1u << MTP__FAULT_INTERRUPT, 1, false);
    assert_ok(mtp_export_parquet(t, folder, NULL));
    mtp__fault_stop();
    assert_int_equal(files_in(folder), TABLES);
    clean(folder);
    mtp_trace_destroy(t);
}

static void an_empty_trace_has_all_tables(void **state)
{
    (void)state;
    mtp_trace *t = made_end(made_begin());
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_path("empty"));
    clean(folder);
    assert_ok(mtp_export_parquet(t, folder, NULL));
    assert_int_equal(files_in(folder), TABLES);
    clean(folder);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deltas_of_any_width_and_count_come_back),
        cmocka_unit_test(deltas_at_the_ends_wrap),
        cmocka_unit_test(equal_values_are_deltas_of_nothing),
        cmocka_unit_test(runs_of_any_width_and_count_come_back),
        cmocka_unit_test(the_width_holds_the_largest_value),
        cmocka_unit_test(texts_become_valid_characters),
        cmocka_unit_test(a_table_without_rows_is_a_file),
        cmocka_unit_test(long_texts_end_a_row_group),
        cmocka_unit_test(a_sink_that_refuses_ends_it),
        cmocka_unit_test(all_tables_appear_in_their_partition),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_job_is_one_folder),
        cmocka_unit_test(whose_trace_it_is_has_one_rule),
        cmocka_unit_test(a_rank_has_one_writer),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(nothing_appears_if_anything_fails),
        cmocka_unit_test(interrupted_and_short_writes_go_on),
        cmocka_unit_test(an_empty_trace_has_all_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
