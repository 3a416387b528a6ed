/* trace/kineto/event.c - parses one event from the window in one pass; nothing reaches the model yet.
 *
 * Most bytes of a real trace are arrays of shapes, and most of those repeat. So before an array is parsed it
 * is compared with the one last seen at this place: if it matches byte for byte, its end and its id are
 * known, and it is known to be well formed. bench/bench_read.c measures it.
 */
#include <string.h>
#include "base/hash.h"
#include "trace/kineto/reader.h"

#define MEMBERS_MAX 65536u /* most members stored; the rest is kept as text */

typedef enum field {
    FIELD_OTHER,
    FIELD_SCOPE,
    FIELD_PHASE,
    FIELD_TS,
    FIELD_ID,
    FIELD_BIND,
    FIELD_CATEGORY,
    FIELD_PID,
    FIELD_TID,
    FIELD_DUR,
    FIELD_NAME,
    FIELD_ARGS
} field;

static field field_of(const char *key, size_t length)
{
    switch (length) {
    case 1:
        return key[0] == 's' ? FIELD_SCOPE : FIELD_OTHER;
    case 2:
        return key[0] == 'p' && key[1] == 'h'   ? FIELD_PHASE
               : key[0] == 't' && key[1] == 's' ? FIELD_TS
               : key[0] == 'i' && key[1] == 'd' ? FIELD_ID
               : key[0] == 'b' && key[1] == 'p' ? FIELD_BIND
                                                : FIELD_OTHER;
    case 3:
        return memcmp(key, "pid", 3) == 0   ? FIELD_PID
               : memcmp(key, "tid", 3) == 0 ? FIELD_TID
               : memcmp(key, "dur", 3) == 0 ? FIELD_DUR
               : memcmp(key, "cat", 3) == 0 ? FIELD_CATEGORY
               : memcmp(key, "id2", 3) == 0 ? FIELD_ID
                                            : FIELD_OTHER;
    case 4:
        return memcmp(key, "name", 4) == 0   ? FIELD_NAME
               : memcmp(key, "args", 4) == 0 ? FIELD_ARGS
                                             : FIELD_OTHER;
    default:
        return FIELD_OTHER;
    }
}

/* -------------------------------------------------------------------------------------- known args */

static const struct {
    const char *text;
    size_t length;
} spelling[] = {
#define X(sym, text) {text, sizeof text - 1},
    MTP__KINETO_ARG_LIST(X)
#undef X
};

static unsigned arg_hash(const char *key, size_t length)
{
    return ((unsigned)length * 37u + (unsigned char)key[0] * 5u + (unsigned char)key[length - 1] * 11u +
            (unsigned char)key[length / 2] * 3u) &
           255u;
}

static mtp__kineto_arg arg_of(const mtp__kineto *k, const char *key, size_t length)
{
    if (length == 0)
        return MTP__ARG_NONE;
    for (unsigned at = arg_hash(key, length);; at = (at + 1) & 255u) {
        unsigned arg = k->arg_slot[at];
        if (arg == MTP__ARG_NONE ||
            (spelling[arg].length == length && memcmp(spelling[arg].text, key, length) == 0))
            return (mtp__kineto_arg)arg;
    }
}

void mtp__kineto_event_init(mtp__kineto *k)
{
    for (unsigned arg = 1; arg < MTP__ARGS; arg++) {
        unsigned at = arg_hash(spelling[arg].text, spelling[arg].length);
        while (k->arg_slot[at] != 0)
            at = (at + 1) & 255u;
        k->arg_slot[at] = (uint8_t)arg;
    }
}

/* The alternative spelling of the same arg. */
static mtp__kineto_arg same_arg(mtp__kineto_arg arg)
{
    return arg == MTP__ARG_OLD_DIMS          ? MTP__ARG_DIMS
           : arg == MTP__ARG_OLD_EXTERNAL_ID ? MTP__ARG_EXTERNAL_ID
                                             : arg;
}

/* ------------------------------------------------------------------------------------------- values */

static uint64_t load8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

static bool is_shape(mtp__kineto_arg arg)
{
    return (arg >= MTP__ARG_DIMS && arg <= MTP__ARG_OUTPUT_TYPES) || arg == MTP__ARG_INPUT_SHAPES;
}

/* An array that was probably seen before. p: at the bracket; at least 16 bytes are readable (the pad). */
static const char *read_shape(mtp__kineto *k, const char *p, mtp__kineto_member *m)
{
    uint64_t hash = mtp__hash_mix(load8(p) ^ load8(p + 8) * 31, k->arg_context + m->arg);
    mtp__kineto_cached *guess = &k->array_cache[hash >> 20 & (MTP__KINETO_CACHE - 1)];
    if (guess->length != 0 && (size_t)(k->json.end - p) >= guess->length &&
        memcmp(p, guess->bytes, guess->length) == 0) { /* an array marks its own end */
        m->value = (mtp__json_value){.bytes = p, .length = guess->length, .kind = '['};
        m->text = guess->text;
        k->arg_context = hash;
        return p + guess->length;
    }
    const char *q = mtp__json_read_slow(&k->json, p, &m->value);
    if (q == NULL)
        return NULL;
    m->text = mtp__kineto_json(k, &m->value);
    k->arg_context = hash;
    if (m->value.flags == 0 && m->text != 0 && m->value.length < UINT32_MAX) {
        mtp_text text = mtp__trace_get_text(k->trace, m->text);
        *guess = (mtp__kineto_cached){text.bytes, (uint32_t)text.length, m->text};
    }
    return q;
}

static mtp__kineto_member *next_member(mtp__kineto *k)
{
    mtp__kineto_event *e = &k->event;
    if (!MTP__KINETO_ROOM(k, e->members, e->member_room, e->member_count))
        return NULL;
    return &e->members[e->member_count];
}

/* One member of args, or an unknown one of the event; p: at its value. Appended to the members. */
static const char *read_member(mtp__kineto *k, const char *p, const mtp__json_string *key, bool in_args)
{
    mtp__kineto_event *e = &k->event;
    mtp__kineto_arg arg = in_args ? same_arg(arg_of(k, key->bytes, key->length)) : MTP__ARG_NONE;
    bool again = (e->args >> arg & 1) != 0; /* the last one counts */
    mtp__kineto_member *m = again ? &e->members[e->arg[arg]] : next_member(k);
    if (m == NULL)
        return mtp__json_wrong(&k->json, p, "memory");
    m->key = *key;
    m->text = 0;
    m->arg = (uint8_t)arg;
    if (*p == '[' && is_shape((mtp__kineto_arg)m->arg))
        p = read_shape(k, p, m);
    else
        p = mtp__json_read(&k->json, p, &m->value);
    if (p == NULL)
        return NULL;
    if (again)
        return p;
    if (arg != MTP__ARG_NONE) {
        e->args |= (uint64_t)1 << arg;
        e->arg[arg] = (uint32_t)e->member_count;
    } else if (e->member_count >= MEMBERS_MAX) {
        mtp__kineto_member_text(&e->overflow, m);
        k->no_memory |= e->overflow.failed;
        return e->overflow.failed ? mtp__json_wrong(&k->json, p, "memory") : p;
    }
    e->member_count++;
    return p;
}

/* A string's text, or any other value as written. */
static mtp__json_string plain(const mtp__json_value *v)
{
    bool quoted = v->kind == '"';
    return (mtp__json_string){v->bytes + quoted, v->length - (quoted ? 2 : 0), v->flags};
}

static const char *read_string(mtp__kineto *k, const char *p, mtp__json_string *out)
{
    if (*p == '"')
        return mtp__json_string_end(&k->json, p + 1, out);
    mtp__json_value v;
    p = mtp__json_read(&k->json, p, &v);
    if (p != NULL)
        *out = v.kind == 'n' ? (mtp__json_string){"", 0, 0} : plain(&v);
    return p;
}

static const char *read_time(mtp__kineto *k, const char *p, unsigned seen, int64_t *out)
{
    mtp__kineto_event *e = &k->event;
    unsigned bad = seen == MTP__SEEN_DUR ? MTP__SEEN_BAD_DUR : 0;
    const char *q = mtp__json_micros(p, out);
    if (q != NULL) {
        e->seen |= seen;
        return q;
    }
    mtp__json_value v;
    p = mtp__json_read(&k->json, p, &v);
    if (p == NULL)
        return p;
    bool number = v.kind == 0 || (v.kind == '"' && mtp__text_decimal(v.bytes + 1, v.length - 2, &v.number));
    if (number && mtp__decimal_round(&v.number, 3, out))
        e->seen = (e->seen | seen) & ~bad; /* the last one counts */
    else if (bad != 0)
        e->seen = (e->seen | bad) & ~seen;
    else
        e->clock_faults += number;
    return p;
}

static const char *read_id(mtp__kineto *k, const char *p, mtp__kineto_id *out)
{
    mtp__json_value v;
    p = mtp__json_read(&k->json, p, &v);
    if (p == NULL)
        return NULL;
    *out = (mtp__kineto_id){.text = plain(&v)};
    if (v.kind == 'n')
        return p;
    bool number = v.kind == 0 || (v.kind == '"' && v.flags == 0 &&
                                  mtp__text_decimal(out->text.bytes, out->text.length, &v.number));
    out->is_text = !number || !mtp__decimal_signed(&v.number, &out->number);
    if (out->is_text && out->text.length == 0) /* no process, like Kineto's "Record Window End" */
        *out = (mtp__kineto_id){.number = -1};
    return p;
}

/* ------------------------------------------------------------------------------------------- objects */

typedef const char *reading(mtp__kineto *k, const char *p, const mtp__json_string *key);

/* Calls `read` for each member of an object; p: at the brace. */
static inline __attribute__((always_inline)) const char *each_member(mtp__kineto *k, const char *p,
                                                                     reading *read)
{
    mtp__json *j = &k->json;
    p = mtp__json_space(p + 1);
    if (*p == '}')
        return p + 1;
    for (;;) {
        mtp__json_string key;
        if (*p != '"')
            return mtp__json_wrong(j, p, "'\"' at the start of a member's name");
        p = mtp__json_string_end(j, p + 1, &key);
        if (p == NULL)
            return NULL;
        p = mtp__json_space(p);
        if (*p != ':')
            return mtp__json_wrong(j, p, "':' after a member's name");
        p = read(k, mtp__json_space(p + 1), &key);
        if (p == NULL)
            return NULL;
        p = mtp__json_space(p);
        if (*p == '}')
            return p + 1;
        if (*p != ',')
            return mtp__json_wrong(j, p, "',' or '}' after a member");
        p = mtp__json_space(p + 1);
    }
}

static const char *read_arg(mtp__kineto *k, const char *p, const mtp__json_string *key)
{
    return read_member(k, p, key, true);
}

static const char *read_args(mtp__kineto *k, const char *p)
{
    const mtp__json_string *name = &k->event.name;
    k->arg_context = (k->event.seen & MTP__SEEN_NAME) && name->length >= 8
                         ? load8(name->bytes) + load8(name->bytes + name->length - 8) * 3
                         : name->length;
    return each_member(k, p, read_arg);
}

static const char *read_field(mtp__kineto *k, const char *p, const mtp__json_string *key)
{
    mtp__kineto_event *e = &k->event;
    mtp__json_string text;
    switch (field_of(key->bytes, key->length)) {
    case FIELD_PHASE:
    case FIELD_SCOPE:
        p = read_string(k, p, &text);
        if (p != NULL)
            *(key->length == 1 ? &e->scope : &e->phase) = text.length == 1 ? text.bytes[0] : 0;
        return p;
    case FIELD_NAME:
        e->seen |= MTP__SEEN_NAME;
        return read_string(k, p, &e->name);
    case FIELD_CATEGORY:
        e->seen |= MTP__SEEN_CATEGORY;
        return read_string(k, p, &e->category);
    case FIELD_TS:
        return read_time(k, p, MTP__SEEN_TS, &e->ts);
    case FIELD_DUR:
        return read_time(k, p, MTP__SEEN_DUR, &e->dur);
    case FIELD_PID:
        return read_id(k, p, &e->pid);
    case FIELD_TID:
        return read_id(k, p, &e->tid);
    case FIELD_ID:
        e->seen |= MTP__SEEN_ID;
        return read_id(k, p, &e->id);
    case FIELD_BIND:
        return read_string(k, p, &text);
    case FIELD_ARGS:
        if (*p == '{')
            return read_args(k, p);
        return read_string(k, p, &text); /* null, or anything without members */
    default:
        return read_member(k, p, key, false);
    }
}

const char *mtp__kineto_event_parse(mtp__kineto *k, const char *p)
{
    mtp__kineto_event *e = &k->event;
    static const mtp__kineto_id none = {0};
    static const mtp__json_string empty = {"", 0, 0};
    e->seen = 0;
    e->phase = e->scope = 0;
    e->clock_faults = 0;
    e->args = 0;
    e->member_count = 0;
    e->overflow.length = 0;
    e->name = e->category = empty;
    e->pid = e->tid = e->id = none;
    return each_member(k, p, read_field);
}
