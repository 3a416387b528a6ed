/* trace/kineto/text.c - interns texts, shapes, stacks and metadata keys. */
#include <string.h>
#include "base/grow.h"
#include "base/hash.h"
#include "base/os.h"
#include "trace/kineto/reader.h"

bool mtp__kineto_room(mtp__kineto *k, void **list, size_t *room, size_t count, size_t size)
{
    bool has = count < *room ||
               (count < UINT32_MAX / 2 && mtp__grow(list, size, count, room, sizeof *room, count + 1, 64));
    k->no_memory |= !has;
    return has;
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

uint32_t mtp__kineto_shape(mtp__kineto *k, const mtp__shape *shape)
{
    bool is_new;
    uint32_t *at = mtp__hash_map_put(&k->shapes, shape, sizeof *shape, sizeof *at, &is_new);
    if (at != NULL && is_new)
        *at = mtp__trace_add_shape(k->trace, shape);
    k->no_memory |= at == NULL;
    return at != NULL ? *at : 0;
}

uint32_t mtp__kineto_stack_add(mtp__kineto *k, uint32_t parent, uint32_t frame)
{
    mtp__stack_node node = {parent, frame};
    bool is_new;
    uint32_t *at = mtp__hash_map_put(&k->stacks, &node, sizeof node, sizeof *at, &is_new);
    if (at != NULL && is_new)
        *at = mtp__trace_add_stack(k->trace, parent, frame);
    k->no_memory |= at == NULL;
    return at != NULL ? *at : 0;
}

/* ------------------------------------------------------------------------------------------ metadata */

/* A repeated key gets the later value, as in any JSON object. */
void mtp__kineto_meta(mtp__kineto *k, const char *key, size_t key_length, const mtp__json_value *v)
{
    uint64_t id = mtp__kineto_text(k, key, key_length);
    uint32_t json = mtp__kineto_json(k, v);
    bool is_new;
    uint32_t *at = mtp__hash_map_put(&k->metas, &id, sizeof id, sizeof *at, &is_new);
    if (at == NULL) {
        k->no_memory = true;
    } else if (is_new) {
        mtp_text text = mtp__trace_get_text(k->trace, json);
        *at = k->trace->metadata_count;
        mtp__trace_add_meta(k->trace, key, key_length, text.bytes, text.length);
    } else {
        k->trace->metadata[*at].json = json;
    }
}
