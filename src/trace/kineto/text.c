/* trace/kineto/text.c - interns texts, shapes, stacks and metadata keys. */
#include <string.h>
#include "base/grow.h"
#include "base/hash.h"
#include "base/os.h"
#include "trace/kineto/reader.h"

#define SLOTS0 256u

bool mtp__kineto_room(mtp__kineto *k, void **list, size_t *room, size_t count, size_t size)
{
    bool has = count < *room ||
               (count < UINT32_MAX / 2 && mtp__grow(list, size, count, room, sizeof *room, count + 1, 64));
    k->no_memory |= !has;
    return has;
}

/* ---------------------------------------------------------------------------------------------- sets */

uint32_t mtp__set_find(const mtp__kineto_set *s, uint64_t hash, mtp__kineto_same *same, const void *items,
                       const void *key)
{
    if (s->slot == NULL)
        return MTP__NONE;
    for (size_t at = hash >> 32 & s->mask;; at = (at + 1) & s->mask) {
        uint64_t slot = s->slot[at];
        if (slot == 0)
            return MTP__NONE;
        if (slot >> 32 == hash >> 32 && same(items, (uint32_t)slot - 1, key))
            return (uint32_t)slot - 1;
    }
}

static void set_place(mtp__kineto_set *s, uint64_t slot)
{
    size_t at = slot >> 32 & s->mask;
    while (s->slot[at] != 0)
        at = (at + 1) & s->mask;
    s->slot[at] = slot;
}

bool mtp__set_put(mtp__kineto_set *s, uint64_t hash, uint32_t index)
{
    size_t slots = s->slot != NULL ? s->mask + 1 : 0;
    if ((size_t)s->count * 2 >= slots) {
        mtp__kineto_set grown = {NULL, (slots != 0 ? slots * 2 : SLOTS0) - 1, s->count};
        grown.slot = mtp__calloc(grown.mask + 1, sizeof *grown.slot);
        if (grown.slot == NULL)
            return false;
        for (size_t i = 0; i < slots; i++)
            if (s->slot[i] != 0)
                set_place(&grown, s->slot[i]);
        mtp__free(s->slot);
        *s = grown;
    }
    set_place(s, hash >> 32 << 32 | (index + 1));
    s->count++;
    return true;
}

/* --------------------------------------------------------------------------------------------- texts */

static uint32_t load4(const char *p)
{
    uint32_t word;
    memcpy(&word, p, 4);
    return word;
}

static uint64_t load8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

/* Hashes only the ends and the length: a slot in the cache, not an identity. */
static size_t cache_place(const char *bytes, size_t length)
{
    uint64_t a, b;
    if (length >= 8) {
        a = load8(bytes);
        b = load8(bytes + length - 8);
    } else if (length >= 4) {
        a = load4(bytes);
        b = load4(bytes + length - 4);
    } else {
        a = (unsigned char)bytes[0];
        b = (unsigned char)bytes[length / 2] | (unsigned)(unsigned char)bytes[length - 1] << 8;
    }
    return (a * MTP__HASH_K0 ^ (b + length) * MTP__HASH_K1) >> 40 & (MTP__KINETO_CACHE - 1);
}

uint32_t mtp__kineto_text(mtp__kineto *k, const char *bytes, size_t length)
{
    if (length == 0)
        return 0;
    mtp__kineto_cached *c = &k->text_cache[cache_place(bytes, length)];
    if (c->length == length && memcmp(c->bytes, bytes, length) == 0)
        return c->text;
    uint32_t id = mtp__trace_text(k->trace, bytes, length);
    if (id == 0)
        k->no_memory = true;
    else if (length < UINT32_MAX)
        *c = (mtp__kineto_cached){mtp__trace_get_text(k->trace, id).bytes, (uint32_t)length, id};
    return id;
}

static uint32_t scratch_text(mtp__kineto *k)
{
    if (k->scratch.failed) {
        k->no_memory = true;
        return 0;
    }
    return mtp__kineto_text(k, k->scratch.bytes, k->scratch.length);
}

uint32_t mtp__kineto_string(mtp__kineto *k, const mtp__json_string *s)
{
    if (!(s->flags & MTP__JSON_ESCAPED))
        return mtp__kineto_text(k, s->bytes, s->length);
    k->scratch.length = 0;
    mtp__json_unescape(&k->scratch, s->bytes, s->length);
    return scratch_text(k);
}

uint32_t mtp__kineto_json(mtp__kineto *k, const mtp__json_value *v)
{
    if (v->flags == 0)
        return mtp__kineto_text(k, v->bytes, v->length);
    k->scratch.length = 0;
    mtp__json_tidy(&k->scratch, v->bytes, v->length);
    return scratch_text(k);
}

/* ------------------------------------------------------------------------------------ shapes, stacks */

static bool same_shape(const void *items, uint32_t index, const void *key)
{
    return memcmp((const mtp__shape *)items + index, key, sizeof(mtp__shape)) == 0;
}

uint32_t mtp__kineto_shape(mtp__kineto *k, const mtp__shape *shape)
{
    uint64_t words[2];
    memcpy(words, shape, sizeof words);
    uint64_t hash = mtp__hash_words(words, 2);
    uint32_t at = mtp__set_find(&k->shapes, hash, same_shape, k->trace->shapes, shape);
    if (at != MTP__NONE)
        return at;
    at = mtp__trace_add_shape(k->trace, shape);
    if (at != 0 && !mtp__set_put(&k->shapes, hash, at))
        k->no_memory = true;
    return at;
}

static bool same_node(const void *items, uint32_t index, const void *key)
{
    return memcmp((const mtp__stack_node *)items + index, key, sizeof(mtp__stack_node)) == 0;
}

uint32_t mtp__kineto_stack_add(mtp__kineto *k, uint32_t parent, uint32_t frame)
{
    mtp__stack_node node = {parent, frame};
    uint64_t word;
    memcpy(&word, &node, sizeof word);
    uint64_t hash = mtp__hash_words(&word, 1);
    uint32_t at = mtp__set_find(&k->stacks, hash, same_node, k->trace->stacks, &node);
    if (at != MTP__NONE)
        return at;
    at = mtp__trace_add_stack(k->trace, parent, frame);
    if (at != 0 && !mtp__set_put(&k->stacks, hash, at))
        k->no_memory = true;
    return at;
}

/* ------------------------------------------------------------------------------------------ metadata */

static bool same_key(const void *items, uint32_t index, const void *key)
{
    return ((const mtp__meta *)items)[index].key == *(const uint32_t *)key;
}

/* A repeated key gets the later value, as in any JSON object. */
void mtp__kineto_meta(mtp__kineto *k, const char *key, size_t key_length, const mtp__json_value *v)
{
    uint32_t id = mtp__kineto_text(k, key, key_length), json = mtp__kineto_json(k, v);
    uint64_t word = id, hash = mtp__hash_words(&word, 1);
    uint32_t at = mtp__set_find(&k->metas, hash, same_key, k->trace->metadata, &id);
    if (at != MTP__NONE) {
        k->trace->metadata[at].json = json;
        return;
    }
    mtp_text text = mtp__trace_get_text(k->trace, json);
    at = k->trace->metadata_count;
    mtp__trace_add_meta(k->trace, key, key_length, text.bytes, text.length);
    if (!mtp__set_put(&k->metas, hash, at))
        k->no_memory = true;
}
