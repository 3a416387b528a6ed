/* Unit: record/details and record/stack: shape signatures, stacks, texts, and what happens when they do
 * not fit. */
#define _GNU_SOURCE
#include "record/stack.h"
#include "tests/unit/read_back.h"
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static void op_with(const mtp_input *inputs, uint32_t count)
{
    mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
    op.inputs = inputs;
    op.input_count = count;
    mtp_op_begin(&op);
    mtp_op_end(&op);
}

/* The signature of the nth op, as words. */
static const uint64_t *shape_of(size_t nth, size_t *words)
{
    static uint64_t copy[MTP__SHAPE_WORDS_MAX];
    const seen_blob *b =
        seen_defined(&s, MTP__CONTROL_SHAPE, (uint32_t)seen_nth(&s, MTP__KIND_BEGIN, nth)->word[1]);
    assert_non_null(b);
    assert_int_equal(b->length % 8, 0);
    assert_true(b->length <= sizeof copy);
    memcpy(copy, b->bytes, b->length);
    *words = b->length / 8;
    return copy;
}

static uint64_t head(unsigned kind, unsigned dtype, unsigned flags, uint64_t count)
{
    return kind | dtype << 8 | flags << 16 | count << 32;
}

/* --------------------------------------------------------------------------------------------- shapes */

static void start_shapes(void)
{
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = true;
    c.buffer_bytes = 8u << 20;
    prof = test_start(&c);
}

static void every_kind_of_input_has_its_words(void **state)
{
    (void)state;
    int64_t dims[3] = {2, -1, 4}, strides[3] = {12, 4, 1}, values[2] = {-7, INT64_MAX};
    mtp_input item[2] = {
        {.kind = MTP_INPUT_TENSOR, .dtype = MTP_INT64, .count = 1, .dims = dims},
        {.kind = MTP_INPUT_TENSOR, .dtype = MTP_BOOL, .count = 3, .dims = dims, .strides = strides},
    };
    mtp_input in[] = {
        {.kind = MTP_INPUT_NONE},
        {.kind = MTP_INPUT_TENSOR, .dtype = MTP_BFLOAT16, .count = 3, .dims = dims, .strides = strides},
        {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 0, .strides = strides}, /* a scalar */
        {.kind = MTP_INPUT_TENSOR_LIST, .count = 2, .value.items = item},
        {.kind = MTP_INPUT_INT, .value.i = -5},
        {.kind = MTP_INPUT_FLOAT, .value.f = 2.5},
        {.kind = MTP_INPUT_BOOL, .value.i = 1},
        {.kind = MTP_INPUT_INT_LIST, .count = 2, .dims = values},
        {.kind = MTP_INPUT_TEXT, .count = 9, .value.text = "mean_text"},
        {.kind = MTP_INPUT_TEXT, .count = 0, .value.text = ""},
        {.kind = MTP_INPUT_TENSOR_LIST, .count = 0},
    };
    double f = 2.5;
    uint64_t f_word, text[2] = {0, 0};
    memcpy(&f_word, &f, 8);
    memcpy(text, "mean_text", 9);
    const uint64_t expected[] = {
        head(MTP_INPUT_NONE, 0, 0, 0),
        head(MTP_INPUT_TENSOR, MTP_BFLOAT16, MTP__SHAPE_STRIDES, 3),
        2,
        (uint64_t)-1,
        4,
        12,
        4,
        1,
        head(MTP_INPUT_TENSOR, MTP_FLOAT32, 0, 0),
        head(MTP_INPUT_TENSOR_LIST, 0, 0, 2),
        head(MTP_INPUT_TENSOR, MTP_INT64, 0, 1),
        2,
        head(MTP_INPUT_TENSOR, MTP_BOOL, MTP__SHAPE_STRIDES, 3),
        2,
        (uint64_t)-1,
        4,
        12,
        4,
        1,
        head(MTP_INPUT_INT, 0, 0, 0),
        (uint64_t)-5,
        head(MTP_INPUT_FLOAT, 0, 0, 0),
        f_word,
        head(MTP_INPUT_BOOL, 0, 0, 0),
        1,
        head(MTP_INPUT_INT_LIST, 0, 0, 2),
        (uint64_t)-7,
        INT64_MAX,
        head(MTP_INPUT_TEXT, 0, 0, 9),
        text[0],
        text[1],
        head(MTP_INPUT_TEXT, 0, 0, 0),
        head(MTP_INPUT_TENSOR_LIST, 0, 0, 0),
    };
    start_shapes();
    op_with(in, COUNT(in));
    read_back();
    size_t words;
    const uint64_t *shape = shape_of(0, &words);
    assert_int_equal(words, COUNT(expected));
    assert_memory_equal(shape, expected, sizeof expected);
    close_it();
}

static void equal_signatures_have_one_id_and_different_ones_have_their_own(void **state)
{
    (void)state;
    enum {
        DIFFERENT = 3000,
        ROUNDS = 3
    };
    start_shapes();
    for (int round = 0; round < ROUNDS; round++)
        for (int64_t i = 0; i < DIFFERENT; i++) { /* far more than the thread's cache holds */
            int64_t dims[2] = {i, i * 3 + 1};
            mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 2, .dims = dims};
            op_with(&in, 1);
        }
    read_back();
    for (size_t i = 0; i < DIFFERENT; i++) {
        uint64_t id = seen_nth(&s, MTP__KIND_BEGIN, i)->word[1];
        assert_int_equal(id, i + 1);
        if (i % 500 == 0)
            for (size_t round = 1; round < ROUNDS; round++)
                assert_int_equal(seen_nth(&s, MTP__KIND_BEGIN, round * DIFFERENT + i)->word[1], id);
    }
    size_t words;
    const uint64_t *shape = shape_of(1234, &words);
    assert_int_equal(shape[1], 1234);
    close_it();
}

static void ids_begin_anew_with_each_recording(void **state)
{
    (void)state;
    int64_t dims[1] = {1};
    mtp_input in = {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 1, .dims = dims};
    mtp_profile_config c = test_config(NULL);
    c.record_shapes = true;
    prof = test_create(&c);
    for (int round = 0; round < 3; round++) { /* a cache that outlived its table would return stale ids */
        assert_ok(mtp_profile_start(prof));
        for (int64_t i = 3; i > 0; i--) {
            dims[0] = round * 10 + i;
            op_with(&in, 1);
            mtp_scope_end(mtp_scope_begin_text("session's", 9));
        }
        read_back();
        for (size_t i = 0; i < 3; i++) {
            size_t words;
            assert_int_equal(shape_of(2 * i, &words)[1], (uint64_t)round * 10 + 3 - i);
        }
        seen_free(&s);
    }
    mtp_profile_destroy(prof);
}

/* Signatures that are too long are truncated and marked as such, for every length around the limit. */
static void a_signature_that_is_too_long_says_where_it_was_cut(void **state)
{
    (void)state;
    static int64_t dims[MTP__SHAPE_WORDS_MAX + 64];
    for (size_t i = 0; i < COUNT(dims); i++)
        dims[i] = (int64_t)i;
    for (uint32_t fill = MTP__SHAPE_WORDS_MAX - 12; fill < MTP__SHAPE_WORDS_MAX + 4; fill++) {
        mtp_input in[3] = {
            {.kind = MTP_INPUT_INT_LIST, .count = fill, .dims = dims},
            {.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 3, .dims = dims},
            {.kind = MTP_INPUT_INT, .value.i = 5},
        };
        start_shapes();
        op_with(in, 3);
        read_back();
        size_t words, at = 0, arguments = 0;
        const uint64_t *shape = shape_of(0, &words);
        bool cut = false;
        assert_true(words <= MTP__SHAPE_WORDS_MAX);
        while (at < words && !cut) { /* as a reader goes */
            cut = (shape[at] >> 16 & MTP__SHAPE_CUT) != 0;
            uint64_t count = shape[at] >> 32, kind = shape[at] & 0xff;
            at += cut ? 1 : 1 + (kind == MTP_INPUT_INT ? 1 : count);
            arguments += !cut;
        }
        assert_int_equal(at, words);
        if (arguments != 3 && !cut)
            fail_msg("%u words: %zu arguments, and no word of the rest", fill, arguments);
        close_it();
    }
}

static void a_long_list_of_tensors_is_cut_inside(void **state)
{
    (void)state;
    int64_t dims[4] = {1, 2, 3, 4};
    static mtp_input item[1000];
    for (size_t i = 0; i < COUNT(item); i++)
        item[i] = (mtp_input){.kind = MTP_INPUT_TENSOR, .dtype = MTP_FLOAT32, .count = 4, .dims = dims};
    mtp_input in[2] = {{.kind = MTP_INPUT_TENSOR_LIST, .count = COUNT(item), .value.items = item},
                       {.kind = MTP_INPUT_INT, .value.i = 1}};
    start_shapes();
    op_with(in, 2);
    read_back();
    size_t words, at = 1, items = 0;
    const uint64_t *shape = shape_of(0, &words);
    assert_int_equal(shape[0], head(MTP_INPUT_TENSOR_LIST, 0, 0, COUNT(item)));
    for (; (shape[at] >> 16 & MTP__SHAPE_CUT) == 0; at += 5, items++)
        assert_true(at + 5 < words);
    assert_int_equal(at + 1, words); /* nothing comes after the cut */
    assert_true(items >= (MTP__SHAPE_WORDS_MAX - 6) / 5);
    close_it();
}

/* -------------------------------------------------------------------------------------------- definitions */

static void a_million_arguments_are_survived(void **state)
{
    (void)state;
    enum {
        MANY = 1000000
    };
    mtp_input *in = calloc(MANY, sizeof *in);
    start_shapes();
    op_with(in, MANY);
    read_back();
    assert_int_equal(seen_count(&s, MTP__KIND_BEGIN, -1), 1);
    close_it();
    free(in);
}

static void each_definition_that_does_not_fit_is_counted_once(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.buffer_bytes = 4 * 4096;
    prof = test_start(&c);
    char name[3000];
    memset(name, 'n', sizeof name);
    uint64_t tokens = 0, lost = 0, before = 0;
    for (int i = 0; i < 50; i++) {
        mtp_ledger l = ledger_of(prof);
        before = l.lost_definitions;
        snprintf(name, sizeof name, "%d", i);
        name[strlen(name)] = 'n';
        mtp_token t = mtp_scope_begin_text(name, sizeof name);
        tokens += t != 0 && !mtp__token_is_dropped(t);
        mtp_scope_end(t);
        l = ledger_of(prof);
        lost += l.lost_definitions - before;
        assert_true(l.lost_definitions - before <= 1);
    }
    assert_true(lost > 30 && lost < 50);
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    s = (seen){0};
    seen_profile(&s, prof);
    size_t nameless = 0;
    for (size_t i = 0; i < seen_count(&s, MTP__KIND_BEGIN, -1); i++)
        nameless += (uint32_t)seen_nth(&s, MTP__KIND_BEGIN, i)->word[0] == 0;
    assert_int_equal(nameless, tokens - (50 - lost)); /* still kept, without a name */
    close_it();
}

static void any_number_of_run_time_names_cannot_fill_the_process(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.when_full = MTP_KEEP_NEWEST;
    c.buffer_bytes = 64 * 4096;
    prof = test_start(&c);
    uint32_t names = mtp__intern_count(mtp__names());
    size_t rss = 0;
    for (int i = 0; i < 200000 / (TEST_TSAN || TEST_ASAN ? 8 : 1); i++) {
        char name[64];
        mtp_token t = mtp_scope_begin_text(name, (size_t)snprintf(name, sizeof name, "request number %d", i));
        mtp_scope_end(t);
        if (i == 20000)
            rss = test_rss();
    }
    assert_int_equal(mtp__intern_count(mtp__names()), names);
    if (!TEST_TSAN && !TEST_ASAN)
        assert_true(test_rss() <= rss + (2 << 20));
    assert_ok(mtp_profile_stop(prof));
    assert_balanced(prof);
    mtp_profile_destroy(prof);
}

/* --------------------------------------------------------------------------------------------- stacks */

typedef struct fake_stack {
    uint64_t frame[300];
    uint32_t depth, claims, captured, described;
    int user_wrong;
} fake_stack;

static fake_stack fake;

static uint32_t fake_capture(void *user, uint64_t *frames, uint32_t room)
{
    fake_stack *f = user;
    f->user_wrong += f != &fake;
    f->captured++;
    uint32_t n = f->depth < room ? f->depth : room;
    memcpy(frames, f->frame, n * sizeof *frames);
    return f->claims != 0 ? f->claims : n;
}

static void fake_describe(void *user, uint64_t frame, char *out, size_t room)
{
    fake_stack *f = user;
    f->described++;
    snprintf(out, room, "file.py:%llu:fn%llu", (unsigned long long)frame * 10, (unsigned long long)frame);
}

static void fake_is(uint32_t depth, const uint64_t *frame)
{
    memset(&fake, 0, sizeof fake);
    fake.depth = depth;
    if (frame != NULL)
        memcpy(fake.frame, frame, depth * sizeof *frame);
}

static void start_stacks(void)
{
    mtp_stack_provider p = {sizeof p, fake_capture, fake_describe, &fake};
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    c.buffer_bytes = 8u << 20;
    assert_ok(mtp_stack_provider_set(&p));
    prof = test_start(&c);
}

/* "outer;inner" of the nth begin. */
static const char *stack_text(size_t nth)
{
    static char text[16384];
    char frames[300][64];
    size_t depth = 0;
    uint32_t stack = (uint32_t)(seen_nth(&s, MTP__KIND_BEGIN, nth)->word[1] >> 32);
    while (stack != 0 && depth < COUNT(frames)) {
        uint32_t pair[2];
        memcpy(pair, seen_defined(&s, MTP__CONTROL_STACK, stack)->bytes, sizeof pair);
        snprintf(frames[depth++], 64, "%s",
                 (const char *)seen_defined(&s, MTP__CONTROL_FRAME, pair[1])->bytes);
        stack = pair[0];
    }
    text[0] = 0;
    while (depth > 0) {
        strcat(text, frames[--depth]);
        strcat(text, depth > 0 ? ";" : "");
    }
    return text;
}

static void a_provider_s_stacks_become_a_tree_of_frames(void **state)
{
    (void)state;
    static const uint64_t inner_first[] = {3, 2, 1}, other[] = {4, 2, 1}, shorter[] = {2, 1};
    fake_is(3, inner_first);
    start_stacks();
    for (int i = 0; i < 3; i++)
        MTP_SCOPE ("a") {
        }
    fake_is(3, other);
    MTP_SCOPE ("b") {
    }
    fake_is(2, shorter);
    mtp_op op = MTP_OP_INIT(MTP_NAME("c"));
    mtp_op_begin(&op);
    mtp_op_end(&op);
    mtp_scope_end(mtp_scope_begin_text("d", 1));
    fake_is(0, NULL);
    MTP_SCOPE ("none") {
    }
    read_back();
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(stack_text(i), "file.py:10:fn1;file.py:20:fn2;file.py:30:fn3");
    assert_string_equal(stack_text(3), "file.py:10:fn1;file.py:20:fn2;file.py:40:fn4");
    assert_string_equal(stack_text(4), "file.py:10:fn1;file.py:20:fn2");
    assert_string_equal(stack_text(5), "file.py:10:fn1;file.py:20:fn2");
    assert_string_equal(stack_text(6), "");
    size_t frames = 0, stacks = 0;
    for (size_t i = 0; i < s.blobs; i++) {
        frames += s.blob[i].kind == MTP__CONTROL_FRAME;
        stacks += s.blob[i].kind == MTP__CONTROL_STACK;
    }
    assert_int_equal(frames, 4); /* once each, whatever the number of stacks */
    assert_int_equal(stacks, 4);
    assert_int_equal(fake.user_wrong, 0);
    close_it();
    assert_ok(mtp_stack_provider_set(NULL));
}

#define WALKS 300

/* The innermost `most` frames of the fake stack, as stack_text() has them. */
static void expect_fake(char *text, size_t room, uint32_t most)
{
    uint32_t depth = fake.depth < most ? fake.depth : most;
    text[0] = 0;
    for (uint32_t i = depth; i > 0; i--) {
        size_t at = strlen(text);
        snprintf(text + at, room - at, "file.py:%llu0:fn%llu%s", (unsigned long long)fake.frame[i - 1],
                 (unsigned long long)fake.frame[i - 1], i > 1 ? ";" : "");
    }
}

/* Calls and returns at random, as a program makes them: most stacks share their outer frames with the one before. Of a
 * call of Python, two frames are kept. */
static void every_stack_of_a_walk_is_what_was_captured(void **state)
{
    (void)state;
    static char expected[WALKS][1024];
    uint64_t outer_first[16], random = 7;
    uint32_t depth = 0;
    fake_is(0, NULL);
    start_stacks();
    for (int cycle = 0; cycle < 2; cycle++) {
        if (cycle == 1) {
            assert_ok(mtp_profile_stop(prof));
            assert_ok(mtp_profile_start(prof));
        }
        for (int i = 0; i < WALKS; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint32_t kept = (uint32_t)(random >> 33) % (depth + 1);
            uint32_t calls = (uint32_t)(random >> 43) % 4;
            for (depth = kept; depth < 16 && depth < kept + calls; depth++)
                outer_first[depth] = 1 + (random >> (48 + depth % 8)) % 3;
            fake.depth = depth;
            for (uint32_t k = 0; k < depth; k++)
                fake.frame[k] = outer_first[depth - 1 - k];
            mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
            op.kind = i % 3 == 0 ? MTP_SCOPE_PYTHON : MTP_SCOPE_OP;
            mtp_op_begin(&op);
            mtp_op_end(&op);
            expect_fake(expected[i], sizeof expected[i], i % 3 == 0 ? 2 : 16);
        }
    }
    read_back();
    for (size_t i = 0; i < WALKS; i++)
        assert_string_equal(stack_text(i), expected[i]);
    close_it();
    assert_ok(mtp_stack_provider_set(NULL));
}

/* Also by the op that finds its chunk full. */
static void a_stack_is_captured_once_for_each_op(void **state)
{
    (void)state;
    const uint64_t frame[] = {3, 2, 1};
    const int count = 2000;
    fake_is(3, frame);
    start_stacks();
    for (int i = 0; i < count; i++) {
        mtp_op op = MTP_OP_INIT(MTP_NAME("op"));
        mtp_op_begin(&op);
        mtp_op_end(&op);
    }
    assert_int_equal(fake.captured, count);
    read_back();
    close_it();
    assert_ok(mtp_stack_provider_set(NULL));
}

static void frames_are_described_once_per_recording(void **state)
{
    (void)state;
    static const uint64_t frame[] = {7, 8, 9};
    fake_is(3, frame);
    start_stacks();
    for (int i = 0; i < 1000; i++)
        MTP_SCOPE ("a") {
        }
    assert_int_equal(fake.described, 3);
    assert_ok(mtp_profile_stop(prof));
    assert_ok(mtp_profile_start(prof));
    MTP_SCOPE ("a") {
    }
    assert_int_equal(fake.described, 6);
    read_back();
    assert_string_equal(stack_text(0), "file.py:90:fn9;file.py:80:fn8;file.py:70:fn7");
    close_it();
    assert_ok(mtp_stack_provider_set(NULL));
}

static void deep_stacks_and_lying_providers_are_bounded(void **state)
{
    (void)state;
    fake_is(300, NULL);
    for (uint64_t i = 0; i < 300; i++)
        fake.frame[i] = 1000 + i;
    start_stacks();
    MTP_SCOPE ("deep") {
    }
    fake.claims = 100000; /* more than there was room for */
    MTP_SCOPE ("lie") {
    }
    read_back();
    size_t semicolons = 0;
    for (const char *p = stack_text(0); *p != 0; p++)
        semicolons += *p == ';';
    assert_int_equal(semicolons, MTP__STACK_DEPTH_MAX - 1);
    close_it();
    assert_ok(mtp_stack_provider_set(NULL));
}

static int meddled;

static uint32_t meddling_capture(void *user, uint64_t *frames, uint32_t room)
{
    (void)user, (void)frames, (void)room;
    meddled++;
    MTP_SCOPE ("from inside") {
    }
    mtp_mark(MTP_NAME("from inside"));
    mtp_op op = MTP_OP_INIT(MTP_NAME("from inside"));
    mtp_op_begin(&op);
    mtp_op_end(&op);
    mtp_ledger l = MTP_LEDGER_INIT;
    mtp_profile_ledger(prof, &l);
    if (mtp_profile_stop(prof) != MTP_E_STATE)
        meddled = -1000;
    return 0;
}

/* Records made inside a provider are refused and counted: 3 calls each time (their ends have no token). */
static void a_provider_that_records_is_refused_and_counted(void **state)
{
    (void)state;
    mtp_stack_provider p = {sizeof p, meddling_capture, fake_describe, NULL};
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    assert_ok(mtp_stack_provider_set(&p));
    prof = test_start(&c);
    assert_true(mtp_profile_is_recording(prof));
    for (int i = 0; i < 10; i++)
        MTP_SCOPE ("outer") {
        }
    assert_int_equal(meddled, 10);
    read_back();
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.dropped_by[MTP_DROP_REENTRANT], 30);
    assert_int_equal(l.kept, 21);
    assert_int_equal(l.emitted, 51);
    close_it();
    assert_ok(mtp_stack_provider_set(NULL));
}

static uint32_t allocating_capture(void *user, uint64_t *frames, uint32_t room)
{
    (void)user, (void)frames, (void)room;
    mtp_memory_event(MTP_DEVICE_CPU, &meddled, 64, 64, 0);
    mtp_memory_event(MTP_DEVICE_CPU, &meddled, -64, 0, 0);
    return 0;
}

/* As the collector of malloc sees it, when an unwinder or a provider allocates for the record. */
static void what_a_provider_allocates_is_not_counted_as_lost(void **state)
{
    (void)state;
    mtp_stack_provider p = {sizeof p, allocating_capture, fake_describe, NULL};
    mtp_profile_config c = test_config(NULL);
    c.with_stack = c.profile_memory = true;
    assert_ok(mtp_stack_provider_set(&p));
    prof = test_start(&c);
    MTP_SCOPE ("outer") {
        mtp_memory_event(MTP_DEVICE_CPU, &prof, 32, 32, 0);
    }
    read_back();
    mtp_ledger l = ledger_of(prof);
    assert_int_equal(l.dropped, 0);
    assert_int_equal(l.kept, 4); /* begin, end, the program's memory, the profile's step */
    close_it();
    assert_ok(mtp_stack_provider_set(NULL));
}

__attribute__((noinline)) static void leaf(void)
{
    MTP_SCOPE ("native") {
        __asm__ volatile("" ::: "memory");
    }
}

__attribute__((noinline)) static void branch(void)
{
    leaf();
    __asm__ volatile("" ::: "memory");
}

/* dladdr does not know static functions; the locations are in this program, innermost last. */
static void native_stacks_lead_to_the_caller(void **state)
{
    (void)state;
    mtp_profile_config c = test_config(NULL);
    c.with_stack = true;
    c.buffer_bytes = 8u << 20;
    assert_ok(mtp_stack_provider_set(NULL));
    assert_true(strcmp(mtp_stack_provider_name(), "libunwind") == 0 ||
                strcmp(mtp_stack_provider_name(), "gcc") == 0);
    prof = test_start(&c);
    leaf();
    branch();
    read_back();
    const char *text = stack_text(0);
    assert_contains(text, ":+0x");
    assert_contains(text, "test_details");
    assert_null(strstr(text, "mtp__scope_begin"));
    char direct[16384];
    snprintf(direct, sizeof direct, "%s", text);
    size_t a = 0, b = 0;
    for (const char *p = direct; *p != 0; p++)
        a += *p == ';';
    for (const char *p = stack_text(1); *p != 0; p++)
        b += *p == ';';
    assert_true(b >= a);
    close_it();
}

static void describing_survives_addresses_that_are_nothing(void **state)
{
    (void)state;
    static const uint64_t nowhere[] = {0, 1, 0x10, UINT64_MAX, 0x7fffffffffff};
    fake_is(COUNT(nowhere), nowhere);
    start_stacks();
    MTP_SCOPE ("x") {
    }
    read_back();
    assert_contains(stack_text(0), "fn18446744073709551615");
    close_it();
    assert_ok(mtp_stack_provider_set(NULL));
}

/* Describing a frame takes the program's locks (such as the dynamic linker's), whose holder may be
 * recording: it must not have to wait for us. */
static sem_t describing, recorded;
static _Thread_local uint64_t own_frame;

static uint32_t capture_own(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    frames[0] = own_frame;
    return room > 0;
}

static void describe_when_the_other_has_recorded(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user;
    snprintf(out, room, "file:%llu:f", (unsigned long long)frame);
    if (frame != 1)
        return;
    sem_post(&describing);
    while (sem_wait(&recorded) != 0)
        ;
}

static void *record_meanwhile(void *arg)
{
    while (sem_wait(&describing) != 0)
        ;
    own_frame = 2;
    MTP_SCOPE ("meanwhile") {
    }
    sem_post(&recorded);
    return arg;
}

static void describe_and_wait(void *arg)
{
    (void)arg;
    const mtp_stack_provider provider = {sizeof provider, capture_own, describe_when_the_other_has_recorded,
                                         NULL};
    mtp_profile_config c = test_config(NULL);
    pthread_t t;
    c.with_stack = true;
    sem_init(&describing, 0, 0);
    sem_init(&recorded, 0, 0);
    CHILD_CHECK(mtp_stack_provider_set(&provider) == MTP_OK);
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    CHILD_CHECK(pthread_create(&t, NULL, record_meanwhile, NULL) == 0);
    own_frame = 1;
    MTP_SCOPE ("described") {
    }
    CHILD_CHECK(pthread_join(t, NULL) == 0 && mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHILD_CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.kept == 5 && l.lost_definitions == 0);
}

static void others_record_while_a_frame_is_described(void **state)
{
    (void)state;
    assert_true(test_left_well(test_child(describe_and_wait, NULL, 20)));
}

static uint32_t too_many(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    for (uint32_t i = 0; i < room; i++)
        frames[i] = i + 1;
    return room + 7;
}

static void any_text(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user;
    snprintf(out, room, "%llu", (unsigned long long)frame);
}

static __attribute__((noinline)) uint32_t capture(uint64_t *frames, uint32_t most, uint32_t *from)
{
    uint32_t count = mtp__stack_capture(__builtin_return_address(0), frames, 64, most, from);
    assert_ptr_equal((void *)(uintptr_t)frames[*from], __builtin_return_address(0));
    return count;
}

/* From the caller of the recording call on, and no more than asked for. */
static void a_captured_stack_begins_at_the_caller_and_has_a_limit(void **state)
{
    (void)state;
    uint64_t frames[64];
    uint32_t from = 99;
    assert_ok(mtp_stack_provider_set(NULL));
    uint32_t whole = capture(frames, 64, &from);
    assert_true(from > 0 && whole > from + 3);
    for (uint32_t most = 1; most < 4; most++)
        assert_int_equal(capture(frames, most, &from), from + most);
    const mtp_stack_provider p = {sizeof p, too_many, any_text, NULL};
    assert_ok(mtp_stack_provider_set(&p));
    assert_int_equal(mtp__stack_capture(NULL, frames, 64, 5, &from), 5);
    assert_int_equal(from, 0);
    assert_ok(mtp_stack_provider_set(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_kind_of_input_has_its_words),
        TEST(equal_signatures_have_one_id_and_different_ones_have_their_own),
        TEST(ids_begin_anew_with_each_recording),
        TEST(a_signature_that_is_too_long_says_where_it_was_cut),
        TEST(a_long_list_of_tensors_is_cut_inside),
        TEST(a_million_arguments_are_survived),
        TEST(each_definition_that_does_not_fit_is_counted_once),
        TEST(any_number_of_run_time_names_cannot_fill_the_process),
        TEST(a_provider_s_stacks_become_a_tree_of_frames),
        TEST(every_stack_of_a_walk_is_what_was_captured),
        TEST(a_stack_is_captured_once_for_each_op),
        TEST(frames_are_described_once_per_recording),
        TEST(deep_stacks_and_lying_providers_are_bounded),
        TEST(a_provider_that_records_is_refused_and_counted),
        TEST(what_a_provider_allocates_is_not_counted_as_lost),
        TEST(native_stacks_lead_to_the_caller),
        TEST(describing_survives_addresses_that_are_nothing),
        TEST(others_record_while_a_frame_is_described),
        TEST(a_captured_stack_begins_at_the_caller_and_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
