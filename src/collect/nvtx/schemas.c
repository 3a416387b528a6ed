/* collect/nvtx/schemas.c - payloads that a program describes by schemas: structs whose plain members are shown.
 *
 * A schema says where in the payload each entry is. What it says is not trusted: an entry that is not inside the
 * payload is not shown, and neither is what needs more than its own bytes (pointers, arrays, nested schemas).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "collect/nvtx/nvtx.h"

#define MOST_ENTRIES 1024 /* of a schema or enum; more are refused */
#define MOST_PAYLOADS 16  /* of an event; more are not shown */
#define NAME_BYTES 128
#define QUOTED (6 * NAME_BYTES + 3)
#define NOWHERE UINT64_MAX

/* Of a schema, an entry that can be shown or is the text; of an enum, a value. */
typedef struct item {
    char *json; /* owned: the name, quoted; NULL: not to be shown */
    uint64_t type;
    uint64_t at;     /* its offset; its value */
    uint64_t length; /* of text in place, 0: it is elsewhere */
    bool message;
} item;

typedef struct known {
    struct known *next;
    const void *of;
    uint64_t id;
    size_t size, align; /* size 0: not known */
    bool is_enum;
    uint32_t count;
    item items[];
} known;

typedef enum shown {
    NOT,
    SIGNED,
    UNSIGNED,
    REAL,
    ADDRESS,
    TEXT,
    STRING
} shown;

#define X(type, bytes, how) [type] = {bytes, how},
static const struct {
    uint8_t bytes, how;
} types[MTP__NVTX_TYPES] = {MTP__NVTX_TYPE_LIST(X)};
#undef X

static known *all; /* the newest of an id counts; owned. pairs: find, add */

/* ---------------------------------------------------------------------------------------- registration */

static const known *find(const void *of, uint64_t id)
{
    const known *k = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
    while (k != NULL && (k->id != id || (id < MTP__NVTX_ID_MADE && k->of != of)))
        k = k->next;
    return k;
}

static uint64_t id_of(bool has, uint64_t wanted)
{
    static uint64_t last = MTP__NVTX_ID_MADE;
    if (has && wanted >= MTP__NVTX_ID_OWN && wanted < MTP__NVTX_ID_MADE)
        return wanted;
    return __atomic_fetch_add(&last, 1, __ATOMIC_RELAXED);
}

static uint64_t add(known *k)
{
    uint64_t id = k->id;
    k->next = __atomic_load_n(&all, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&all, &k->next, k, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return id;
}

/* A copy of the name, quoted; of a long one its begin. */
static char *name_of(const char *name, size_t index)
{
    char near[NAME_BYTES];
    if (name != NULL)
        snprintf(near, sizeof near, "%.*s", (int)sizeof near - 1, name);
    else
        snprintf(near, sizeof near, "%zu", index);
    char *json = malloc(6 * strlen(near) + 3);
    if (json != NULL)
        mtp__nvtx_quote(json, near);
    return json;
}

/* Bytes of the entry in the payload, 0: not known. */
static size_t size_of(const void *of, const mtp__nvtx_entry *e, size_t *align)
{
    uint64_t array = e->flags & MTP__NVTX_ENTRY_ARRAY, size = 0;
    if (e->flags & MTP__NVTX_ENTRY_POINTER)
        return *align = sizeof(void *);
    if (e->type < MTP__NVTX_TYPES) {
        bool in_place = types[e->type].how == TEXT && e->length > 0;
        *align = in_place ? 1 : types[e->type].bytes;
        size = in_place ? e->length : types[e->type].bytes;
        if (in_place && array != 0)
            return array == MTP__NVTX_ENTRY_FIXED_ARRAY ? size : 0;
    } else {
        const known *k = find(of, e->type);
        *align = k != NULL ? k->align : 1;
        size = k != NULL ? k->size : 0;
    }
    if (array == 0)
        return size;
    if (array != MTP__NVTX_ENTRY_FIXED_ARRAY || __builtin_mul_overflow(size, e->length, &size))
        return 0;
    return size;
}

/* Where the entry is. `*next`: where the one before ends, and then this one. */
static uint64_t place(const void *of, const mtp__nvtx_entry *e, size_t packing, uint64_t *next, size_t *align)
{
    *align = 1;
    size_t size = size_of(of, e, align);
    if (packing != 0 && *align > packing)
        *align = packing;
    uint64_t at = e->offset, past = *align > 0 ? *next % *align : 0;
    if (at == 0 && (*next == NOWHERE || __builtin_add_overflow(*next, past > 0 ? *align - past : 0, &at)))
        at = NOWHERE;
    if (size == 0 || at == NOWHERE || __builtin_add_overflow(at, size, next))
        *next = NOWHERE;
    return at;
}

static bool is_shown(const mtp__nvtx_entry *e)
{
    uint64_t array = e->flags & MTP__NVTX_ENTRY_ARRAY;
    bool text = e->type < MTP__NVTX_TYPES && types[e->type].how == TEXT;
    if (e->flags & (MTP__NVTX_ENTRY_POINTER | MTP__NVTX_ENTRY_OFFSET | MTP__NVTX_ENTRY_HIDDEN))
        return false;
    return array == 0 || (array == MTP__NVTX_ENTRY_FIXED_ARRAY && text && e->length > 0);
}

static bool is_message(const mtp__nvtx_entry *e)
{
    uint64_t elsewhere = MTP__NVTX_ENTRY_OFFSET | MTP__NVTX_ENTRY_ARRAY;
    if ((e->flags & MTP__NVTX_ENTRY_MESSAGE) == 0 || e->type >= MTP__NVTX_TYPES ||
        (e->flags & elsewhere) != 0)
        return false;
    return types[e->type].how == TEXT || types[e->type].how == STRING;
}

uint64_t mtp__nvtx_schema_add(const void *of, const mtp__nvtx_schema *s)
{
    if (s == NULL || (s->set & MTP__NVTX_SCHEMA_HAS_ENTRIES) != MTP__NVTX_SCHEMA_HAS_ENTRIES ||
        s->entries == NULL || s->count > MOST_ENTRIES)
        return 0;
    bool is_static = (s->set & MTP__NVTX_SCHEMA_HAS_KIND) && s->kind == MTP__NVTX_SCHEMA_STATIC;
    uint32_t count = is_static ? (uint32_t)s->count : 0;
    known *k = calloc(1, sizeof *k + count * sizeof *k->items);
    if (k == NULL)
        return 0;
    k->of = of;
    k->id = id_of(s->set & MTP__NVTX_SCHEMA_HAS_ID, s->id);
    k->align = 1;
    uint64_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        const mtp__nvtx_entry *e = &s->entries[i];
        size_t align;
        item *to = &k->items[i];
        to->at = place(of, e, s->set & MTP__NVTX_SCHEMA_HAS_PACKING ? s->packing : 0, &next, &align);
        to->type = e->type;
        to->length = e->flags & MTP__NVTX_ENTRY_POINTER ? 0 : e->length;
        to->message = is_message(e);
        to->json = is_shown(e) && !to->message ? name_of(e->name, i) : NULL;
        k->align = align > k->align ? align : k->align;
    }
    k->count = count;
    k->size = is_static && (s->set & MTP__NVTX_SCHEMA_HAS_SIZE) ? s->size : 0;
    return add(k);
}

uint64_t mtp__nvtx_enum_add(const void *of, const mtp__nvtx_enum *e)
{
    if (e == NULL || (e->set & MTP__NVTX_ENUM_HAS_ENTRIES) != MTP__NVTX_ENUM_HAS_ENTRIES ||
        e->entries == NULL || e->count > MOST_ENTRIES)
        return 0;
    known *k = calloc(1, sizeof *k + e->count * sizeof *k->items);
    if (k == NULL)
        return 0;
    k->of = of;
    k->id = id_of(e->set & MTP__NVTX_ENUM_HAS_ID, e->id);
    k->is_enum = true;
    k->size = e->set & MTP__NVTX_ENUM_HAS_SIZE ? e->size : sizeof(int);
    if (k->size != 1 && k->size != 2 && k->size != 8)
        k->size = sizeof(int);
    k->align = k->size;
    k->count = (uint32_t)e->count;
    for (uint32_t i = 0; i < k->count; i++) {
        k->items[i].at = e->entries[i].value;
        k->items[i].json = e->entries[i].name != NULL ? name_of(e->entries[i].name, i) : NULL;
    }
    return add(k);
}

/* -------------------------------------------------------------------------------------------- values */

/* What is written, as long as there is room of it. */
typedef struct members {
    char *at;
    size_t used, room;
} members;

static uint64_t number_of(const unsigned char *bytes, size_t size, bool is_signed)
{
    uint8_t n1;
    uint16_t n2;
    uint32_t n4;
    uint64_t n8;
    switch (size) {
    case 1:
        memcpy(&n1, bytes, sizeof n1);
        return is_signed ? (uint64_t)(int8_t)n1 : n1;
    case 2:
        memcpy(&n2, bytes, sizeof n2);
        return is_signed ? (uint64_t)(int16_t)n2 : n2;
    case 4:
        memcpy(&n4, bytes, sizeof n4);
        return is_signed ? (uint64_t)(int32_t)n4 : n4;
    default:
        memcpy(&n8, bytes, sizeof n8);
        return n8;
    }
}

static double real_of(const unsigned char *bytes, size_t size)
{
    float f;
    double d;
    long double l;
    if (size == sizeof f)
        return memcpy(&f, bytes, sizeof f), (double)f;
    if (size == sizeof d)
        return memcpy(&d, bytes, sizeof d), d;
    return memcpy(&l, bytes, sizeof l), (double)l;
}

/* The value of an enum's type: by name, else as a number. */
static size_t put_enum(char *at, const void *of, uint64_t type, const unsigned char *bytes, uint64_t there)
{
    const known *k = find(of, type);
    if (k == NULL || !k->is_enum || k->size > there)
        return 0;
    uint64_t value = number_of(bytes, k->size, true), other = number_of(bytes, k->size, false);
    for (uint32_t i = 0; i < k->count; i++)
        if (k->items[i].json != NULL && (k->items[i].at == value || k->items[i].at == other))
            return (size_t)snprintf(at, QUOTED, "%s", k->items[i].json);
    return (size_t)snprintf(at, QUOTED, "%" PRId64, (int64_t)value);
}

static size_t put_text(char *at, const unsigned char *bytes, uint64_t length, uint64_t there)
{
    char near[NAME_BYTES];
    if (length == 0 || length > there)
        return 0;
    snprintf(near, sizeof near, "%.*s", (int)(length < sizeof near ? length : sizeof near - 1),
             (const char *)bytes);
    return mtp__nvtx_quote(at, near);
}

static size_t put_string(char *at, const unsigned char *bytes)
{
    char near[NAME_BYTES];
    const void *handle;
    memcpy(&handle, bytes, sizeof handle);
    const char *text = mtp__nvtx_string(handle);
    if (text == NULL)
        return 0;
    snprintf(near, sizeof near, "%s", text);
    return mtp__nvtx_quote(at, near);
}

/* JSON of a value of which `there` bytes are in the payload; `at` has room of QUOTED. 0: not shown. */
static size_t put_value(char *at, const void *of, const item *i, const unsigned char *bytes, uint64_t there)
{
    if (i->type >= MTP__NVTX_TYPES)
        return put_enum(at, of, i->type, bytes, there);
    size_t size = types[i->type].bytes;
    if (types[i->type].how == TEXT)
        return put_text(at, bytes, i->length, there);
    if (size > there)
        return 0;
    switch ((shown)types[i->type].how) {
    case SIGNED:
        return (size_t)snprintf(at, QUOTED, "%" PRId64, (int64_t)number_of(bytes, size, true));
    case UNSIGNED:
        return (size_t)snprintf(at, QUOTED, "%" PRIu64, number_of(bytes, size, false));
    case REAL:
        return mtp__nvtx_real(at, QUOTED, real_of(bytes, size));
    case ADDRESS:
        return (size_t)snprintf(at, QUOTED, "\"0x%" PRIx64 "\"", number_of(bytes, size, false));
    case STRING:
        return put_string(at, bytes);
    default:
        return 0;
    }
}

/* ------------------------------------------------------------------------------------------- payloads */

/* A name appears once; what there is no room for is left out. */
static void put_member(members *m, const char *key, const char *value)
{
    char member[2 * QUOTED];
    size_t named = (size_t)snprintf(member, sizeof member, "%s: ", key);
    if (m->used > 0 && strstr(m->at, member) != NULL)
        return;
    size_t length = named + (size_t)snprintf(member + named, sizeof member - named, "%s", value);
    if (m->used + length + 4 > m->room)
        return;
    m->used += (size_t)sprintf(m->at + m->used, "%s%s", m->used > 0 ? ", " : "", member);
}

/* The bytes that may be read; 0: not known. */
static uint64_t readable(const known *k, const mtp__nvtx_data *data)
{
    if (data->size != SIZE_MAX)
        return data->size;
    if (k != NULL)
        return k->is_enum ? 0 : k->size;
    return data->schema < MTP__NVTX_TYPES && types[data->schema].how != TEXT ? types[data->schema].bytes : 0;
}

static void put_one(members *m, const void *of, const mtp__nvtx_data *data, size_t index)
{
    char value[QUOTED], key[32];
    const known *k = data->schema >= MTP__NVTX_ID_OWN ? find(of, data->schema) : NULL;
    uint64_t size = readable(k, data);
    if (data->bytes == NULL || size == 0)
        return;
    if (k == NULL || k->is_enum) {
        item whole = {NULL, data->schema, 0, size, false};
        snprintf(key, sizeof key, "\"%zu\"", index);
        if (put_value(value, of, &whole, data->bytes, size) > 0)
            put_member(m, key, value);
        return;
    }
    for (uint32_t i = 0; i < k->count; i++) {
        const item *e = &k->items[i];
        if (e->json != NULL && e->at < size &&
            put_value(value, of, e, (const unsigned char *)data->bytes + e->at, size - e->at) > 0)
            put_member(m, e->json, value);
    }
}

size_t mtp__nvtx_put_data(char *at, size_t room, const void *of, const mtp__nvtx_data *data, size_t count)
{
    static const char open[] = "\"payload\": {", only[] = "\"0\": ";
    if (data == NULL || room < sizeof open + 4)
        return 0;
    members m = {at + sizeof open - 1, 0, room - sizeof open};
    for (size_t i = 0; i < count && i < MOST_PAYLOADS; i++)
        put_one(&m, of, &data[i], i);
    if (m.used == 0)
        return 0;
    size_t n = sizeof open - 1;
    memcpy(at, open, n);
    if (count == 1 && data->schema < MTP__NVTX_ID_OWN) { /* a value, and not a struct */
        memmove(at + n - 1, m.at + sizeof only - 1, m.used - (sizeof only - 1) + 1);
        return n - 1 + m.used - (sizeof only - 1);
    }
    memcpy(m.at + m.used, "}", 2);
    return n + m.used + 1;
}

/* Text of an entry that has it in place, or says where it is. */
static const char *text_at(const item *e, const unsigned char *bytes, uint64_t there, char *near, size_t room)
{
    const char *text = NULL;
    if (types[e->type].how == TEXT && e->length > 0) {
        if (e->length > there)
            return NULL;
        snprintf(near, room, "%.*s", (int)(e->length < room ? e->length : room - 1), (const char *)bytes);
        return near;
    }
    if (there < sizeof text)
        return NULL;
    memcpy(&text, bytes, sizeof text);
    return types[e->type].how == TEXT ? text : mtp__nvtx_string(text);
}

const char *mtp__nvtx_data_text(const void *of, const mtp__nvtx_data *data, size_t count, char *near,
                                size_t room)
{
    for (size_t n = 0; data != NULL && n < count && n < MOST_PAYLOADS; n++) {
        const known *k = data[n].schema >= MTP__NVTX_ID_OWN ? find(of, data[n].schema) : NULL;
        uint64_t size = readable(k, &data[n]);
        for (uint32_t i = 0; k != NULL && data[n].bytes != NULL && i < k->count; i++) {
            const item *e = &k->items[i];
            const char *text =
                e->message && e->at < size
                    ? text_at(e, (const unsigned char *)data[n].bytes + e->at, size - e->at, near, room)
                    : NULL;
            if (text != NULL)
                return text;
        }
    }
    return NULL;
}
