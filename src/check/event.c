/* check/event.c - checks one event, member by member. The scanner has accepted the text, so it is well
 * formed; only what order.c needs is kept.
 */
#include <string.h>
#include "base/grow.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "check/scan.h"
#include "trace/facts.h"
#include "trace/json/text.h"

/* About 2^53 half nanoseconds: viewers keep times in doubles, in which later ones lose nanoseconds. */
#define TS_LIMIT_NS ((int64_t)4500000000000000)

typedef struct event {
    mtp__json_value member[MTP__MEMBERS]; /* bytes NULL: absent */
    int64_t ts, dur;                      /* ns */
    bool has_ts, has_dur;
    char phase; /* 0: none */
} event;

static bool same(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

/* The text between the quotes, as written; empty if not a string. */
static mtp__json_string text_of(const mtp__json_value *v)
{
    bool string = v->bytes != NULL && v->kind == '"';
    return (mtp__json_string){string ? v->bytes + 1 : "", string ? v->length - 2 : 0, v->flags};
}

static bool is_text(const event *e, mtp__member member, const char *word)
{
    const mtp__json_value *v = &e->member[member];
    mtp__json_string s = text_of(v);
    return v->bytes != NULL && v->kind == '"' && same(s.bytes, s.length, word);
}

static void found(mtp__checker *c, mtp__found what, const mtp__json_value *example)
{
    mtp__check_found(c->check, what, c->byte, c->event,
                     example != NULL && example->bytes != NULL ? example->bytes : NULL,
                     example != NULL ? example->length : 0);
}

/* --------------------------------------------------------------------------------------------- strict */

/* A position in the text, for reporting what is not strict. */
typedef struct place {
    const char *from, *end;
    uint64_t byte, event;
} place;

static uint64_t byte_of(const place *p, const char *at)
{
    return p->byte + (uint64_t)(at - p->from);
}

static void bad_byte(mtp__checker *c, mtp__found what, const place *p, const char *at)
{
    mtp__check_say(c->check, what, byte_of(p, at), p->event, "0x%02x", (unsigned)(unsigned char)*at);
}

/* An escape, starting at the backslash. */
static void strict_escape(mtp__checker *c, const place *p, const char *at)
{
    const char *end = p->end;
    size_t digits = 0;
    if (at + 1 < end && at[1] == 'u')
        while (digits < 4 && at + 2 + digits < end &&
               strchr("0123456789abcdefABCDEF", at[2 + digits]) != NULL && at[2 + digits] != 0)
            digits++;
    bool good =
        at + 1 < end && (at[1] == 'u' ? digits == 4 : at[1] != 0 && strchr("\"\\/bfnrt", at[1]) != NULL);
    if (!good)
        mtp__check_found(c->check, MTP__FOUND_ESCAPE, byte_of(p, at), p->event, at, 2);
}

static const char *strict_string(mtp__checker *c, const place *p, const char *at)
{
    for (at++; at < p->end && *at != '"';) {
        size_t n = 1;
        unsigned skip;
        if (*at == '\\') {
            strict_escape(c, p, at);
            n = 2; /* the digits of \u are ordinary characters */
        } else if ((unsigned char)*at < 0x20) {
            bad_byte(c, MTP__FOUND_CONTROL, p, at);
        } else if ((n = mtp__utf8_character((const unsigned char *)at, (const unsigned char *)p->end,
                                            &skip)) == 0) {
            n = 1;
            bad_byte(c, MTP__FOUND_UTF8, p, at);
        }
        at += n;
    }
    return at < p->end ? at + 1 : p->end;
}

void mtp__check_strict(mtp__checker *c, const char *text, size_t length, uint64_t byte, uint64_t number)
{
    const char *end = text + length;
    const place p = {text, end, byte, number};
    for (const char *at = text; at < end;) {
        if (*at == '"') {
            at = strict_string(c, &p, at);
            continue;
        }
        size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        word = word < (size_t)(end - at) ? word : (size_t)(end - at);
        bool number_e = word == 1 && (*at | 0x20) == 'e';
        if (word > 0 && !number_e && !same(at, word, "true") && !same(at, word, "false") &&
            !same(at, word, "null"))
            mtp__check_found(c->check, MTP__FOUND_NAN, byte_of(&p, at), number, at, word);
        at += word > 0 ? word : 1;
    }
}

/* -------------------------------------------------------------------------------------------- members */

static void take_members(mtp__checker *c, event *e, const char *text)
{
    static const char *const keys[] = {
#define X(sym, key) key,
        MTP__MEMBER_LIST(X)
#undef X
    };
    const char *p = text + 1;
    mtp__json_string key;
    mtp__json_value value;
    while (mtp__json_member(&c->json, &p, &key, &value))
        for (int i = 0; i < MTP__MEMBERS; i++)
            if (same(key.bytes, key.length, keys[i]))
                e->member[i] = value;
}

/* A time in nanoseconds. false: not a number. */
static bool take_time(mtp__checker *c, const mtp__json_value *v, int64_t *ns)
{
    if (v->bytes == NULL || v->kind != 0)
        return false;
    mtp__decimal exact = v->number;
    while (exact.digits != 0 && exact.digits % 10 == 0 && exact.exponent < 0) {
        exact.digits /= 10;
        exact.exponent++;
    }
    if (exact.digits != 0 && (exact.exponent < -3 || exact.more))
        found(c, MTP__FOUND_FINE_TIME, v);
    (void)mtp__decimal_round(&v->number, 3, ns); /* false: the nearest that fits */
    return true;
}

/* ------------------------------------------------------------------------------------------ rules 3, 5 */

static void check_basics(mtp__checker *c, event *e)
{
    const mtp__json_value *m = e->member;
    mtp__json_string ph = text_of(&m[MTP__MEMBER_PH]);
    e->phase = ph.length == 1 ? *ph.bytes : 0;
    e->has_ts = take_time(c, &m[MTP__MEMBER_TS], &e->ts);
    if (ph.length == 0)
        found(c, MTP__FOUND_NO_PH, NULL);
    if (text_of(&m[MTP__MEMBER_NAME]).length == 0)
        found(c, MTP__FOUND_NO_NAME, NULL);
    if (!e->has_ts)
        found(c, MTP__FOUND_NO_TS,
              m[MTP__MEMBER_TS].bytes != NULL ? &m[MTP__MEMBER_TS] : &m[MTP__MEMBER_NAME]);
    else if (e->ts >= TS_LIMIT_NS)
        found(c, MTP__FOUND_LARGE_TS, &m[MTP__MEMBER_TS]);
    if (m[MTP__MEMBER_PID].bytes == NULL)
        found(c, MTP__FOUND_NO_PID, NULL);
    if (m[MTP__MEMBER_TID].bytes == NULL && e->phase != 'C') /* counters belong to a process */
        found(c, MTP__FOUND_NO_TID, NULL);
}

static void check_complete(mtp__checker *c, event *e)
{
    const mtp__json_value *m = e->member;
    e->has_dur = take_time(c, &m[MTP__MEMBER_DUR], &e->dur);
    if (text_of(&m[MTP__MEMBER_CAT]).length == 0)
        found(c, MTP__FOUND_NO_CAT, NULL);
    if (!e->has_dur)
        found(c, m[MTP__MEMBER_DUR].bytes != NULL ? MTP__FOUND_BAD_DUR : MTP__FOUND_NO_DUR,
              &m[MTP__MEMBER_DUR]);
    else if (e->dur < 0)
        found(c, MTP__FOUND_NEGATIVE_DUR, &m[MTP__MEMBER_DUR]);
    if (m[MTP__MEMBER_ARGS].bytes == NULL || m[MTP__MEMBER_ARGS].kind != '{')
        found(c, MTP__FOUND_NO_ARGS, NULL);
}

/* ---------------------------------------------------------------------------------------------- rule 4 */

/* Metadata events name a row; they may refer to a process alone, without a thread. MTP__FOUNDS: valid. */
static mtp__found judge_id(const event *e, mtp__member member)
{
    const mtp__json_value *v = &e->member[member];
    uint64_t number;
    if (v->bytes == NULL)
        return MTP__FOUNDS;
    if (v->kind != 0)
        return e->phase == 'X' ? MTP__FOUND_TEXT_PID : MTP__FOUND_TEXT_PID_OTHER;
    if (!mtp__decimal_unsigned(&v->number, &number) || number > UINT32_MAX)
        return MTP__FOUND_WILD_PID;
    if (number == 0 && e->phase != 'M')
        return member == MTP__MEMBER_PID ? MTP__FOUND_ZERO_PID : MTP__FOUND_ZERO_TID;
    return MTP__FOUNDS;
}

/* An event is counted once, whether its pid, its tid or both are wrong. */
static void check_ids(mtp__checker *c, const event *e)
{
    mtp__found pid = judge_id(e, MTP__MEMBER_PID), tid = judge_id(e, MTP__MEMBER_TID);
    if (pid != MTP__FOUNDS)
        found(c, pid, &e->member[MTP__MEMBER_PID]);
    if (tid != MTP__FOUNDS && tid != pid)
        found(c, tid, &e->member[MTP__MEMBER_TID]);
}

/* Any value as a number; equal values give equal numbers. */
static uint64_t id_of(const mtp__json_value *v)
{
    int64_t number;
    if (v->kind == 0 && mtp__decimal_signed(&v->number, &number))
        return (uint64_t)number;
    return v->bytes != NULL ? mtp__hash_bytes(v->bytes, v->length) : 0;
}

static uint32_t row_of(mtp__checker *c, const event *e)
{
    bool is_new;
    uint64_t *row = mtp__pair_put(&c->rows, id_of(&e->member[MTP__MEMBER_PID]),
                                  id_of(&e->member[MTP__MEMBER_TID]), c->rows.count, &is_new);
    c->no_memory |= row == NULL;
    return row != NULL ? (uint32_t)*row : 0;
}

/* ------------------------------------------------------------------------------------- rules 10, 12, 13 */

static bool is_one_of(mtp__json_string s, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (same(s.bytes, s.length, words[i]))
            return true;
    return false;
}
#define IS_ONE_OF(s, words) is_one_of((s), (words), sizeof(words) / sizeof *(words))

/* Everything Kineto has a name for, not only what we write. HTA knows the category of the whole recording. */
static const char *const categories[] = {
    "cuda_event",          "cpu_instant_event",   "external_correlation",
    "xpu_runtime",         "xpu_driver",          "hpu_op",
    "mtia_runtime",        "mtia_ccp_events",     "mtia_insight",
    "glow_runtime",        "cuda_profiler_range", "collective_comm",
    "privateuse1_runtime", "privateuse1_driver",  MTP__RECORDING_CATEGORY,
#define X(sym, text) text,
    MTP__CATEGORY_LIST(X)
#undef X
};
static const char *const on_device[] = {"kernel", "gpu_memcpy", "gpu_memset"};
static const char *const launches[] = {"cuda_runtime", "cuda_driver"};
static const char *const spellings[] = {"External id",
                                        "Record function id",
                                        "Ev Idx",
                                        "Sequence number",
                                        "Fwd thread id",
                                        "Input Dims",
                                        "Input Strides",
                                        "Input type",
                                        "Concrete Inputs",
                                        "correlation",
                                        "stream",
                                        "device",
                                        "queued",
                                        "context",
                                        "grid",
                                        "block",
                                        "cbid",
                                        "bytes",
                                        "Python id",
                                        "Python parent id",
                                        "Python module id",
                                        "Device Type",
                                        "Device Id",
                                        "Addr",
                                        "Bytes",
                                        "Total Allocated",
                                        "Total Reserved"};

static bool is_known(mtp__json_string category)
{
    return category.length > 0 && IS_ONE_OF(category, categories); /* MTP__CATEGORY_OTHER's text is empty */
}

static bool equal_ignoring_case(mtp__json_string s, const char *word)
{
    if (s.length != strlen(word))
        return false;
    for (size_t i = 0; i < s.length; i++) {
        char a = s.bytes[i], b = word[i];
        a = a >= 'A' && a <= 'Z' ? (char)(a | 0x20) : a;
        b = b >= 'A' && b <= 'Z' ? (char)(b | 0x20) : b;
        if (a != b)
            return false;
    }
    return true;
}

static void check_spelling(mtp__checker *c, mtp__json_string key)
{
    if (IS_ONE_OF(key, spellings))
        return;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (equal_ignoring_case(key, spellings[i])) {
            mtp__check_found(c->check, MTP__FOUND_SPELLING, c->byte, c->event, key.bytes, key.length);
            return;
        }
}

static void check_launch(mtp__checker *c, const mtp__json_value *correlation)
{
    uint64_t number;
    bool is_new;
    if (correlation->bytes == NULL || correlation->kind != 0 ||
        !mtp__decimal_unsigned(&correlation->number, &number) || number == 0)
        return;
    if (mtp__pair_put(&c->correlations, number, 0, 0, &is_new) == NULL)
        c->no_memory = true;
    else if (!is_new)
        found(c, MTP__FOUND_CORRELATION, correlation);
}

static void check_args(mtp__checker *c, const event *e)
{
    mtp__json_string category = text_of(&e->member[MTP__MEMBER_CAT]), key;
    mtp__json_value value, correlation = {0};
    const mtp__json_value *args = &e->member[MTP__MEMBER_ARGS];
    bool device = IS_ONE_OF(category, on_device), known = is_known(category);
    if (device && c->kernels++ == 0) {
        c->kernel_byte = c->byte;
        c->kernel_event = c->event;
    }
    static const char *const needed[] = {"device", "stream", "correlation"};
    bool has[3] = {false, false, false};
    const char *p = args->bytes != NULL && args->kind == '{' ? args->bytes + 1 : NULL;
    while (p != NULL && mtp__json_member(&c->json, &p, &key, &value)) {
        for (int i = 0; i < 3; i++)
            has[i] |= value.kind == 0 && same(key.bytes, key.length, needed[i]);
        if (same(key.bytes, key.length, "correlation"))
            correlation = value;
        if (known)
            check_spelling(c, key);
    }
    for (int i = 0; i < 3 && device; i++)
        if (!has[i])
            mtp__check_found(c->check, MTP__FOUND_NO_STREAM, c->byte, c->event, needed[i], strlen(needed[i]));
    if (IS_ONE_OF(category, launches))
        check_launch(c, &correlation);
}

/* ---------------------------------------------------------------------------------------------- spans */

static bool has_room(mtp__checker *c, void **list, size_t *room, size_t count, size_t size)
{
    bool has = count < *room || mtp__grow(list, size, count, room, sizeof *room, count + 1, 1024);
    c->no_memory |= !has;
    return has;
}

/* A span with a profiler step's name is a step, or looks like one. */
static void check_step(mtp__checker *c, const event *e)
{
    static const char step[] = "ProfilerStep";
    mtp__json_string name = text_of(&e->member[MTP__MEMBER_NAME]);
    size_t length = sizeof step - 1;
    if (name.length < length || memcmp(name.bytes, step, length) != 0)
        return;
    bool good = name.length > length + 1 && name.bytes[length] == '#';
    for (size_t i = length + 1; i < name.length; i++)
        good = good && name.bytes[i] >= '0' && name.bytes[i] <= '9';
    if (!good)
        found(c, MTP__FOUND_STEP, &e->member[MTP__MEMBER_NAME]);
}

static void check_span(mtp__checker *c, event *e)
{
    check_complete(c, e);
    mtp__json_string category = text_of(&e->member[MTP__MEMBER_CAT]);
    if (category.length > 0 && !is_known(category))
        found(c, MTP__FOUND_CATEGORY, &e->member[MTP__MEMBER_CAT]);
    check_args(c, e);
    check_step(c, e);
    void *list = c->spans;
    if (!e->has_ts || !e->has_dur || e->dur < 0 || e->ts > INT64_MAX - e->dur ||
        !has_room(c, &list, &c->span_room, c->span_count, sizeof *c->spans))
        return;
    c->spans = list;
    c->spans[c->span_count++] =
        (mtp__check_span){e->ts, e->ts + e->dur, c->byte, row_of(c, e), (uint32_t)c->event};
}

/* --------------------------------------------------------------------------------------- rules 9, 11, 14 */

static void check_flow(mtp__checker *c, const event *e)
{
    const mtp__json_value *m = e->member;
    mtp__json_string name = text_of(&m[MTP__MEMBER_NAME]), category = text_of(&m[MTP__MEMBER_CAT]);
    uint64_t id = 0;
    bool whole = m[MTP__MEMBER_ID].bytes != NULL && m[MTP__MEMBER_ID].kind == 0 &&
                 mtp__decimal_unsigned(&m[MTP__MEMBER_ID].number, &id);
    if (name.length != category.length || memcmp(name.bytes, category.bytes, name.length) != 0)
        found(c, MTP__FOUND_FLOW_NAME, &m[MTP__MEMBER_NAME]);
    if (!whole)
        found(c, MTP__FOUND_FLOW_ID, &m[MTP__MEMBER_ID]);
    if (e->phase == 'f' && !is_text(e, MTP__MEMBER_BP, "e"))
        found(c, MTP__FOUND_FLOW_BIND, &m[MTP__MEMBER_NAME]);
    void *list = c->flows;
    if (!whole || !e->has_ts || !has_room(c, &list, &c->flow_room, c->flow_count, sizeof *c->flows))
        return;
    c->flows = list;
    c->launch_flows += same(category.bytes, category.length, "ac2g");
    c->flows[c->flow_count++] = (mtp__check_flow){
        e->ts,   id, mtp__hash_bytes(name.bytes, name.length), c->byte, row_of(c, e), (uint32_t)c->event,
        e->phase};
}

static void check_counter(mtp__checker *c, const event *e)
{
    const mtp__json_value *args = &e->member[MTP__MEMBER_ARGS];
    mtp__json_string key;
    mtp__json_value value;
    size_t numbers = 0, others = 0;
    const char *p = args->bytes != NULL && args->kind == '{' ? args->bytes + 1 : NULL;
    while (p != NULL && mtp__json_member(&c->json, &p, &key, &value)) {
        numbers += value.kind == 0;
        others += value.kind != 0;
    }
    if (numbers == 0 || others > 0)
        found(c, MTP__FOUND_COUNTER, &e->member[MTP__MEMBER_NAME]);
}

static void check_by_phase(mtp__checker *c, event *e)
{
    static const char *const metadata[] = {"process_name", "process_labels", "process_sort_index",
                                           "thread_name", "thread_sort_index"};
    switch (e->phase) {
    case 'X':
        check_span(c, e);
        break;
    case 'B':
    case 'E':
        found(c, MTP__FOUND_BEGIN_END, NULL);
        break;
    case 's':
    case 't':
    case 'f':
        check_flow(c, e);
        break;
    case 'i':
    case 'I':
        if (!is_text(e, MTP__MEMBER_S, "t") && !is_text(e, MTP__MEMBER_S, "p") &&
            !is_text(e, MTP__MEMBER_S, "g"))
            found(c, MTP__FOUND_SCOPE, &e->member[MTP__MEMBER_NAME]);
        break;
    case 'C':
        check_counter(c, e);
        break;
    case 'M':
        if (!IS_ONE_OF(text_of(&e->member[MTP__MEMBER_NAME]), metadata))
            found(c, MTP__FOUND_METADATA, &e->member[MTP__MEMBER_NAME]);
        break;
    default:
        break;
    }
}

void mtp__check_event(mtp__checker *c, const char *text, size_t length)
{
    static const char *const profiles[] = {"Profile", "CpuProfile", "ProfileChunk"};
    event e = {0};
    if (*text != '{') {
        mtp__check_found(c->check, MTP__FOUND_NOT_EVENT, c->byte, c->event, text, length);
        return;
    }
    take_members(c, &e, text);
    check_basics(c, &e);
    check_ids(c, &e);
    if (IS_ONE_OF(text_of(&e.member[MTP__MEMBER_NAME]), profiles))
        found(c, MTP__FOUND_V8_NAME, &e.member[MTP__MEMBER_NAME]);
    if (e.has_ts && e.phase != 'M') {
        if (e.ts < c->last_ts)
            found(c, MTP__FOUND_UNSORTED, NULL);
        c->last_ts = e.ts;
    }
    check_by_phase(c, &e);
}
