/* Unit: trace/kineto and trace/json: bad files, compressed files, bombs, pipes. */
#define _GNU_SOURCE
#include "tests/unit/kineto_texts.h"

/* ------------------------------------------------------------------------------------------ bad files */

static void errors_name_the_byte_and_what_was_expected(void **state)
{
    (void)state;
    static const struct {
        const char *json, *story;
    } cases[] = {
        {"hello", "byte 0: expected '{' or '['"},
        {"  42", "byte 2: expected '{' or '['"},
        {"   ", "byte 3: the file ends where '{' or '['"},
        {"{}", "no \"traceEvents\""},
        {"{\"a\":1}", "no \"traceEvents\""},
        {"{\"traceEvents\":{}}", "byte 15: expected '[' after \"traceEvents\""},
        {"{\"traceEvents\":[]", "byte 17: the file ends where ',' or '}'"},
        {"{\"traceEvents\":[", "byte 16: the file ends where an event or ']'"},
        {"{\"traceEvents\":[]}x", "byte 18: expected the end of the file, not 'x'"},
        {"{\"traceEvents\":[]} {}", "byte 19: expected the end of the file"},
        {"{\"traceEvents\":[{\"ph\":\"X\"} {}]}", "byte 27: expected ',' or ']' after an event"},
        {"{\"traceEvents\":[{\"ph\" \"X\"}]}", "byte 22: expected ':' after a member's name"},
        {"{\"traceEvents\":[{\"ph\":\"X\" \"ts\":1}]}", "byte 26: expected ',' or '}' after a member"},
        {"{\"traceEvents\":[{ph:1}]}", "byte 17: expected '\"' at the start of a member's name"},
        {"{\"traceEvents\":[{\"ts\":}]}", "byte 22: expected a value"},
        {"{\"traceEvents\":[{\"ts\":01}]}", "byte 22: expected a value"},
        {"{\"traceEvents\":[{\"ts\":1.}]}", "byte 22: expected a value"},
        {"{\"traceEvents\":[{\"args\":{\"a\":[1 2]}}]}", "byte 32: expected ',' or ']' after an item"},
        {"{\"traceEvents\":[{\"args\":{\"a\":{\"b\":1]}}}]}", "byte 35: expected ',' or '}' after a member"},
        {"{\"traceEvents\":[{\"args\":{\"a\":tru}}]}", "byte 29: expected a value"},
        {"{\"a\":[1,]}", "byte 8: expected a value"},
        {"{\"a\" 1}", "byte 5: expected ':'"},
        {"{\"a\":1 \"b\":2}", "byte 7: expected ',' or '}'"},
        {"{\"a\":\"x", "byte 7: the file ends where '\"' at the end of a string"},
        {"[{\"ph\":\"X\",\"ts\":1", "byte 17: the file ends where"},
        {"[1}", "byte 2: expected ',' or ']' after an event"},
        {"\x7f"
         "ELF\x02",
         "byte 0: expected '{' or '[' at the start of a JSON trace, not the byte 0x7f"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        mtp_trace *t;
        mtp_status status = read_bytes(cases[i].json, strlen(cases[i].json), 0, 0, &t);
        if (status != MTP_E_FORMAT || t != NULL || strstr(mtp_last_error(), cases[i].story) == NULL)
            fail_msg("%s\nsays %d: %s\nnot: %s", cases[i].json, status, mtp_last_error(), cases[i].story);
    }
}

static void a_file_cut_off_anywhere_is_an_error(void **state)
{
    (void)state;
    size_t bytes;
    char *json = slurp_small(&bytes);
    long live = mtp__alloc_live();
    while (bytes > 0 && json[bytes - 1] == '\n')
        bytes--;
    for (size_t cut = 1; cut < bytes; cut++) {
        mtp_trace *t;
        char *exact = memcpy(malloc(cut), json, cut);
        mtp_status status = read_bytes(exact, cut, 0, 0, &t);
        if (status != MTP_E_FORMAT)
            fail_msg("cut at %zu: %d", cut, status);
        if (cut > 4)
            assert_says("it is truncated");
        free(exact);
    }
    assert_int_equal(mtp__alloc_live(), live);
    free(json);
}

/* A bare array may end between events, but not inside one. */
static void a_bare_array_cut_off_inside_an_event_is_an_error(void **state)
{
    (void)state;
    static const char json[] = "[" X1("a", 1, 5) ", " X1("b", 2, 1) "]";
    size_t one = strlen("[" X1("a", 1, 5)), all = sizeof json - 1;
    for (size_t cut = 1; cut <= all; cut++) {
        mtp_trace *t;
        bool between = cut == 1 || (cut >= one && cut <= one + 2) || cut >= all - 1;
        assert_int_equal(read_bytes(json, cut, 0, 0, &t), between ? MTP_OK : MTP_E_FORMAT);
        if (between)
            assert_int_equal(t->span_count, cut == 1 ? 0 : cut < all - 1 ? 1 : 2);
        mtp_trace_destroy(t);
    }
}

static void every_window_and_every_piece_give_the_same_trace(void **state)
{
    (void)state;
    size_t bytes;
    char *json = slurp_small(&bytes);
    mtp_trace *first, *t;
    assert_ok(read_bytes(json, bytes, 0, 0, &first));
    for (size_t window = 16; window < 2048; window += window < 600 ? 1 : 37) {
        assert_ok(read_bytes(json, bytes, window, 0, &t));
        assert_same_trace(first, t);
        mtp_trace_destroy(t);
    }
    for (size_t piece = 1; piece < 20; piece++) {
        assert_ok(read_bytes(json, bytes, 16 + piece, piece, &t));
        assert_same_trace(first, t);
        mtp_trace_destroy(t);
    }
    mtp_trace_destroy(first);
    free(json);
}

/* Errors too: they do not depend on where the window ends. */
static void every_window_gives_the_same_error(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "{\"traceEvents\":[{\"args\":{\"a\":[1, 2.5, true, \"x\\ny\", nul]}}]}",
        "{\"key\":{\"a\":[1,2,{\"b\":-}]},\"traceEvents\":[]}",
        "{\"traceEvents\":[{\"ph\":\"X\",\"ts\":12.345,\"dur\":1e}]}",
        "[{\"ph\":\"X\",\"ts\":12.345,\"dur\":1}"};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char story[512];
        mtp_trace *t;
        mtp_status first = read_bytes(wrong[i], strlen(wrong[i]), 0, 0, &t), status;
        mtp_trace_destroy(t);
        snprintf(story, sizeof story, "%s", first != MTP_OK ? mtp_last_error() : "");
        for (size_t window = 16; window < 100; window++) {
            status = read_bytes(wrong[i], strlen(wrong[i]), window, 1, &t);
            mtp_trace_destroy(t);
            assert_int_equal(status, first);
            if (status != MTP_OK)
                assert_string_equal(mtp_last_error(), story);
        }
    }
}

static void nesting_beyond_the_limit_is_an_error_not_an_overflow(void **state)
{
    (void)state;
    enum {
        DEEP = 100000
    };
    static const struct {
        const char *head, *open, *close, *tail;
    } forms[] = {{"[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"args\":{\"a\":", "[", "]", "}}]"},
                 {"[{\"ph\":\"X\",\"ts\":1,\"dur\":1,\"args\":{\"a\":", "{\"b\":", "}", "}}]"},
                 {"{\"traceEvents\":[],\"a\":", "[", "]", "}"},
                 {"[", "[", "]", "]"}};
    for (size_t i = 0; i < COUNT(forms); i++)
        for (int depth = 9000; depth <= DEEP; depth += DEEP - 9000) {
            char *json;
            size_t size;
            FILE *f = open_memstream(&json, &size);
            fputs(forms[i].head, f);
            for (int k = 0; k < depth; k++)
                fputs(forms[i].open, f);
            fputs("1", f);
            for (int k = 0; k < depth; k++)
                fputs(forms[i].close, f);
            fputs(forms[i].tail, f);
            fclose(f);
            mtp_trace *t;
            mtp_status status = read_bytes(json, size, 0, 0, &t);
            assert_int_equal(status, depth == DEEP ? MTP_E_FORMAT : MTP_OK);
            if (status != MTP_OK)
                assert_says("nested more than 10000 deep");
            mtp_trace_destroy(t);
            free(json);
        }
}

static void every_failing_allocation_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    size_t bytes;
    char *json = slurp_small(&bytes);
    char *more = malloc(bytes + 4096);
    /* what the small trace lacks: pairs, stacks, async, escapes, counters */
    const char *extra =
        "{\"ph\":\"B\",\"name\":\"\\u0041\",\"ts\":1,\"args\":{\"x\":\"\\t\"}},{\"ph\":\"E\",\"ts\":2,"
        "\"args\":{\"y\":[1 , 2]}},{\"ph\":\"b\",\"id\":\"q\",\"name\":\"z\",\"ts\":1},{\"ph\":\"X\","
        "\"name\":\"open\",\"ts\":3,\"args\":{\"stack\":[\"a\",\"b\"]}},{\"ph\":\"C\",\"name\":\"c\","
        "\"ts\":1,\"args\":{\"v\":1}},{\"ph\":\"M\",\"name\":\"other\",\"args\":{\"v\":1}},";
    char *events = strstr(json, "\"traceEvents\": [") + strlen("\"traceEvents\": [");
    int n = sprintf(more, "%.*s%s%s", (int)(events - json), json, extra, events);
    for (int forever = 0; forever < 2; forever++)
        for (int nth = 1;; nth++) {
            mtp_trace *t;
            long live = mtp__alloc_live();
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, forever);
            mtp_status status = read_bytes(more, (size_t)n, 64, 0, &t);
            int fired = mtp__fault_stop();
            if (fired == 0) {
                assert_ok(status);
                assert_true(nth > 40);
                mtp_trace_destroy(t);
                break;
            }
            if (status != MTP_E_NOMEM || t != NULL)
                fail_msg("allocation %d failed, the status is %d", nth, status);
            assert_int_equal(mtp__alloc_live(), live);
        }
    free(more);
    free(json);
}

/* ---------------------------------------------------------------------------------------------- files */

static void *compressed(const void *bytes, size_t length, int level, size_t *out)
{
    z_stream z = {0};
    size_t room = length + length / 8 + 1024;
    void *to = malloc(room);
    deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)length;
    z.next_out = to;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *out = room - z.avail_out;
    deflateEnd(&z);
    return to;
}

static void gzip_and_zstd_are_read_like_the_plain_file(void **state)
{
    (void)state;
    size_t bytes, packed;
    char *json = slurp_small(&bytes);
    mtp_trace *first, *t;
    assert_ok(read_bytes(json, bytes, 0, 0, &first));
    for (int level = 0; level <= 9; level += 3) {
        void *gz = compressed(json, bytes, level, &packed);
        for (size_t piece = 0; piece < 3; piece++) {
            assert_ok(read_bytes(gz, packed, 0, piece, &t));
            assert_same_trace(first, t);
            mtp_trace_destroy(t);
        }
        free(gz);
    }
    size_t room = ZSTD_compressBound(bytes);
    char *z = malloc(room * 2);
    packed = ZSTD_compress(z, room, json, bytes / 2, 3);
    packed += ZSTD_compress(z + packed, room, json + bytes / 2, bytes - bytes / 2, 3); /* two frames */
    assert_ok(read_bytes(z, packed, 0, 0, &t));
    assert_same_trace(first, t);
    mtp_trace_destroy(t);
    for (size_t cut = 4; cut < packed; cut += 1 + cut / 16) {
        assert_int_equal(read_bytes(z, cut, 0, 0, &t), MTP_E_FORMAT);
        mtp_trace_destroy(t);
    }
    free(z);
    mtp_trace_destroy(first);
    free(json);
}

static void members_of_a_gzip_file_are_read_as_one(void **state)
{
    (void)state;
    size_t bytes, at = 0;
    char *json = slurp_small(&bytes);
    unsigned char *gz = malloc(bytes * 2 + 65536);
    for (size_t from = 0; from < bytes; from += 500) {
        size_t packed, part = bytes - from < 500 ? bytes - from : 500;
        void *member = compressed(json + from, part, 6, &packed);
        memcpy(gz + at, member, packed);
        at += packed;
        free(member);
    }
    mtp_trace *first, *t;
    assert_ok(read_bytes(json, bytes, 0, 0, &first));
    assert_ok(read_bytes(gz, at, 0, 0, &t));
    assert_same_trace(first, t);
    mtp_trace_destroy(t);
    memset(gz + at, 0, 1000); /* tape padding */
    assert_ok(read_bytes(gz, at + 1000, 0, 7, &t));
    assert_same_trace(first, t);
    mtp_trace_destroy(t);
    memcpy(gz + at, "rubbish", 7);
    assert_int_equal(read_bytes(gz, at + 7, 0, 0, &t), MTP_E_FORMAT);
    assert_says("the gzip data is followed by something that is not gzip");
    assert_int_equal(read_bytes(gz, at + 1, 0, 0, &t), MTP_E_FORMAT);
    mtp_trace_destroy(first);
    free(gz);
    free(json);
}

static void a_gzip_file_cut_off_or_damaged_anywhere_is_an_error(void **state)
{
    (void)state;
    size_t bytes, packed;
    char *json = slurp_small(&bytes);
    unsigned char *gz = compressed(json, bytes, 6, &packed);
    mtp_trace *first, *t;
    assert_ok(read_bytes(json, bytes, 0, 0, &first));
    for (size_t cut = 2; cut < packed; cut++) {
        assert_int_equal(read_bytes(gz, cut, 0, 0, &t), MTP_E_FORMAT);
        assert_says("the gzip data is truncated, at byte");
    }
    for (size_t at = 2; at < packed; at++) {
        gz[at] ^= (unsigned char)(1u << at % 8);
        if (read_bytes(gz, packed, 0, 0, &t) == MTP_OK) /* a flag of the header, or a time */
            assert_same_trace(first, t);
        mtp_trace_destroy(t);
        gz[at] ^= (unsigned char)(1u << at % 8);
    }
    mtp_trace_destroy(first);
    free(gz);
    free(json);
}

static void a_gzip_bomb_is_streamed_not_held(void **state)
{
    (void)state;
    for (size_t mib = 32; mib <= 200; mib += 168) {
        size_t spaces = mib << 20, packed;
        char *plain = malloc(spaces + 1);
        memset(plain, ' ', spaces);
        plain[0] = '[';
        plain[spaces] = ']';
        void *gz = compressed(plain, spaces + 1, 6, &packed);
        free(plain);
        assert_true(packed * 900 < spaces);
        size_t before = test_rss();
        mtp_trace *t;
        mtp_status status = read_bytes(gz, packed, 0, 0, &t);
        if (!TEST_ASAN && !TEST_TSAN)
            assert_true(test_rss() < before + ((size_t)16 << 20));
        assert_int_equal(status, mib == 32 ? MTP_OK : MTP_E_FORMAT);
        if (status == MTP_OK)
            assert_int_equal(t->span_count, 0);
        else
            assert_says("spaces in a row");
        mtp_trace_destroy(t);
        free(gz);
    }
}

/* A few kilobytes that expand to a million events: each way to limit their memory. */
static void a_gzip_bomb_of_events_ends_at_the_memory_it_may_take(void **state)
{
    (void)state;
    static const char event[] = "{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1,\"pid\":1,\"tid\":1},";
    size_t each = sizeof event - 1, count = 600000, packed;
    char *plain = malloc(each * count + 2), file[512];
    plain[0] = '[';
    for (size_t i = 0; i < count; i++)
        memcpy(plain + 1 + i * each, event, each);
    plain[each * count] = ']';
    void *gz = compressed(plain, each * count + 1, 6, &packed);
    free(plain);
    snprintf(file, sizeof file, "%s", test_path("bomb.json.gz"));
    test_spew(file, gz, packed);
    free(gz);
    mtp_trace *t;
    mtp_check *c;
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    options.max_memory = (uint64_t)8 << 20;
    long live = mtp__alloc_live();
    size_t before = test_rss();
    assert_int_equal(mtp_trace_open(file, &options, &t), MTP_E_NOMEM);
    assert_says("bomb.json.gz: over the memory limit of 8.4 MB: no room for");
    assert_says("allow more with --max-memory, MTPROF_MAX_MEMORY or max_memory");
    assert_int_equal(mtp_trace_check_file(file, &options, &c), MTP_E_NOMEM);
    assert_says("over the memory limit of 8.4 MB");
    setenv("MTPROF_MAX_MEMORY", "8M", 1);
    assert_int_equal(mtp_trace_open(file, NULL, &t), MTP_E_NOMEM);
    setenv("MTPROF_MAX_MEMORY", "plenty", 1);
    assert_int_equal(mtp_trace_open(file, NULL, &t), MTP_E_ARG);
    assert_says("MTPROF_MAX_MEMORY 'plenty' is not a size; use 2G, 500M or none");
    if (!TEST_ASAN && !TEST_TSAN)
        assert_true(test_rss() < before + ((size_t)24 << 20));
    static const char *const enough[] = {"1G", "0.5GiB", "none", "900000k"};
    for (size_t i = 0; i < COUNT(enough); i++) {
        setenv("MTPROF_MAX_MEMORY", enough[i], 1);
        assert_ok(mtp_trace_open(file, NULL, &t));
        assert_int_equal(t->span_count, count);
        mtp_trace_destroy(t);
    }
    unsetenv("MTPROF_MAX_MEMORY");
    options.size = offsetof(mtp_open_options, max_memory); /* a caller of before */
    assert_ok(mtp_trace_open(file, &options, &t));
    mtp_trace_destroy(t);
    assert_int_equal(mtp__alloc_live(), live);
}

/* Without a memory limit, content hundreds of times larger than its file is refused. */
static void a_gzip_bomb_is_refused_unless_memory_was_granted(void **state)
{
    (void)state;
    static const char event[] = "{\"ph\":\"i\",\"name\":\"a\",\"ts\":1,\"pid\":1,\"tid\":1},";
    size_t each = sizeof event - 1, count = ((size_t)140 << 20) / each, packed;
    char *plain = malloc(each * count + 2), file[512];
    plain[0] = '[';
    for (size_t i = 0; i < count; i++)
        memcpy(plain + 1 + i * each, event, each);
    plain[each * count] = ']';
    void *gz = compressed(plain, each * count + 1, 6, &packed);
    free(plain);
    assert_true(packed < each * count / 250);
    snprintf(file, sizeof file, "%s", test_path("times.json.gz"));
    test_spew(file, gz, packed);
    free(gz);
    mtp_trace *t;
    mtp_check *c;
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    unsetenv("MTPROF_MAX_MEMORY");
    assert_ok(mtp_memory_limit(NULL));
    size_t before = test_rss();
    assert_int_equal(mtp_trace_open(file, &options, &t), MTP_E_UNSUPPORTED);
    assert_says("times.json.gz: the gzip content is more than 200 times as large as the file");
    assert_says("--max-memory, MTPROF_MAX_MEMORY or max_memory");
    assert_int_equal(mtp_trace_check_file(file, &options, &c), MTP_E_UNSUPPORTED);
    if (!TEST_ASAN && !TEST_TSAN)
        assert_true(test_rss() < before + ((size_t)200 << 20));
    options.max_memory = (uint64_t)1 << 30;
    assert_ok(mtp_trace_open(file, &options, &t));
    assert_int_equal(t->instant_count, count);
    mtp_trace_destroy(t);
    assert_ok(mtp_memory_limit("none"));
}

static void a_threads_limit_holds_for_analyses_too(void **state)
{
    (void)state;
    mtp_trace *t, *second = NULL;
    mtp_averages *rows = NULL;
    mtp_memory_limit("none");
    assert_ok(mtp_trace_open(SMALL, NULL, &t));
    assert_ok(mtp_memory_limit("1k"));
    assert_int_equal(mtp_averages_create(t, NULL, &rows), MTP_E_NOMEM);
    assert_says("over the memory limit of 1.0 kB");
    assert_int_equal(mtp_trace_open(SMALL, NULL, &second), MTP_E_NOMEM);
    assert_int_equal(mtp_memory_limit("2 elephants"), MTP_E_ARG);
    assert_ok(mtp_memory_limit("64M"));
    for (int i = 0; i < 500; i++) { /* memory that was returned can be taken again */
        assert_ok(mtp_trace_open(SMALL, NULL, &second));
        mtp_trace_destroy(second);
    }
    assert_ok(mtp_averages_create(t, NULL, &rows));
    mtp_averages_destroy(rows);
    mtp_trace_destroy(t);
    assert_ok(mtp_memory_limit("none"));
}

static void a_gzip_bomb_of_one_endless_string_ends_at_the_limit(void **state)
{
    (void)state;
    size_t bytes = (size_t)200 << 20, packed;
    char *plain = malloc(bytes);
    memset(plain, 'a', bytes);
    memcpy(plain, "[\"", 2);
    void *gz = compressed(plain, bytes, 1, &packed);
    free(plain);
    mtp_trace *t;
    assert_int_equal(read_bytes(gz, packed, 0, 0, &t), MTP_E_FORMAT);
    assert_says("one event or value of more than");
    free(gz);
}

static void what_is_no_file_is_told_with_its_name(void **state)
{
    (void)state;
    mtp_trace *t = (void *)1;
    assert_int_equal(mtp_trace_open("/no/such/file", NULL, &t), MTP_E_IO);
    assert_null(t);
    assert_says("/no/such/file");
    assert_int_equal(mtp_trace_open("/proc/self", NULL, &t), MTP_E_FORMAT);
    assert_says("/proc/self: this folder has no recordings");
    assert_int_equal(mtp_trace_open("/dev/null", NULL, &t), MTP_E_FORMAT);
    assert_says("empty");
    const char *path = test_path("garbage.json");
    unsigned char garbage[4096];
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (unsigned char)(test_random() | 1);
    garbage[0] = 0x81;
    test_spew(path, garbage, sizeof garbage);
    assert_int_equal(mtp_trace_open(path, NULL, &t), MTP_E_FORMAT);
    assert_says("garbage.json");
    assert_says("byte 0");
    assert_int_equal(mtp_trace_open(NULL, NULL, &t), MTP_E_ARG);
    assert_int_equal(mtp_trace_open(path, NULL, NULL), MTP_E_ARG);
    mtp_open_options options = {1, NULL, NULL, 0};
    assert_int_equal(mtp_trace_open(path, &options, &t), MTP_E_ABI);
}

static void a_read_error_is_reported(void **state)
{
    (void)state;
    mtp_trace *t;
    for (int nth = 1; nth < 4; nth++) {
        mtp__fault_plan(1u << MTP__FAULT_READ, nth, true);
        mtp_status status = mtp_trace_open(SMALL, NULL, &t);
        int fired = mtp__fault_stop();
        if (fired == 0) {
            mtp_trace_destroy(t);
            break;
        }
        assert_int_equal(status, MTP_E_IO);
        assert_null(t);
    }
}

static void *feed(void *path)
{
    size_t bytes;
    char *json = test_slurp(SMALL, &bytes);
    int fd = open(path, O_WRONLY);
    for (size_t at = 0; at < bytes; at += 777) {
        size_t part = bytes - at < 777 ? bytes - at : 777;
        if (write(fd, json + at, part) != (ssize_t)part)
            break;
    }
    close(fd);
    free(json);
    return NULL;
}

static void a_fifo_is_read(void **state)
{
    (void)state;
    const char *path = test_path("fifo");
    pthread_t thread;
    mtp_trace *first, *t;
    assert_int_equal(mkfifo(path, 0600), 0);
    pthread_create(&thread, NULL, feed, (void *)(uintptr_t)path);
    assert_ok(mtp_trace_open(path, NULL, &t));
    pthread_join(thread, NULL);
    assert_ok(mtp_trace_open(SMALL, NULL, &first));
    assert_same_trace(first, t);
    mtp_trace_destroy(t);
    mtp_trace_destroy(first);
}

static void read_stdin(void *arg)
{
    mtp_trace *t;
    CHILD_CHECK(dup2(*(int *)arg, STDIN_FILENO) == STDIN_FILENO);
    CHILD_CHECK(mtp_trace_open("-", NULL, &t) == MTP_OK);
    CHILD_CHECK(t->span_count == 5);
    CHILD_CHECK(strcmp(t->source, "standard input") == 0);
    CHILD_CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* not ours to close */
    mtp_trace_destroy(t);
}

static void standard_input_is_a_dash(void **state)
{
    (void)state;
    int fd = open(SMALL, O_RDONLY);
    assert_true(test_left_well(test_child(read_stdin, &fd, 20)));
    close(fd);
}

typedef struct heard {
    int calls;
    uint64_t done, total;
} heard;

static void hear(void *user, uint64_t done, uint64_t total)
{
    heard *h = user;
    h->calls++;
    if (done < h->done || done > total)
        h->calls = -1000;
    h->done = done;
    h->total = total;
}

static void progress_goes_up_to_the_whole(void **state)
{
    (void)state;
    heard h = {0};
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    options.progress = hear;
    options.user = &h;
    const char *path = test_path("long.json");
    FILE *f = fopen(path, "w");
    fputc('[', f);
    for (int i = 0; i < 500000; i++)
        fprintf(f, "{\"ph\":\"X\",\"name\":\"n%d\",\"pid\":1,\"tid\":%d,\"ts\":%d.5,\"dur\":0.25},\n",
                i % 100, i % 7, i);
    fclose(f);
    mtp_trace *t;
    assert_ok(mtp_trace_open(path, &options, &t));
    assert_int_equal(t->span_count, 500000);
    assert_true(h.calls >= 2 && h.done == h.total && h.total > 25000000);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(errors_name_the_byte_and_what_was_expected),
        TEST(a_file_cut_off_anywhere_is_an_error),
        TEST(a_bare_array_cut_off_inside_an_event_is_an_error),
        TEST(every_window_and_every_piece_give_the_same_trace),
        TEST(every_window_gives_the_same_error),
        TEST(nesting_beyond_the_limit_is_an_error_not_an_overflow),
        TEST(every_failing_allocation_is_reported_and_nothing_leaks),
        TEST(gzip_and_zstd_are_read_like_the_plain_file),
        TEST(members_of_a_gzip_file_are_read_as_one),
        TEST(a_gzip_file_cut_off_or_damaged_anywhere_is_an_error),
        TEST(a_gzip_bomb_is_streamed_not_held),
        TEST(a_gzip_bomb_of_events_ends_at_the_memory_it_may_take),
        TEST(a_gzip_bomb_is_refused_unless_memory_was_granted),
        TEST(a_threads_limit_holds_for_analyses_too),
        TEST(a_gzip_bomb_of_one_endless_string_ends_at_the_limit),
        TEST(what_is_no_file_is_told_with_its_name),
        TEST(a_read_error_is_reported),
        TEST(a_fifo_is_read),
        TEST(standard_input_is_a_dash),
        TEST(progress_goes_up_to_the_whole),
    };
    return cmocka_run_group_tests_name("kineto", tests, NULL, NULL);
}
