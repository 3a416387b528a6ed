#define _GNU_SOURCE
#include "record/details.h"
#include <errno.h>
#include <string.h>
#include "base/hash.h"
#include "base/os.h"
#include "record/control.h"
#include "record/stack.h"

#define SHAPE_SLOTS 256u
#define SHAPE_INLINE 30u /* words; longer signatures go to the table each time */
#define FRAME_SLOTS 1024u
#define SESSION_NAMES 0x80000001u
#define DICTIONARY_MIN ((uint64_t)1 << 20)
#define DICTIONARY_MAX ((uint64_t)64 << 20)

typedef struct shape_slot {
    uint64_t hash;
    uint32_t id, count;
    uint64_t word[SHAPE_INLINE];
} shape_slot;

typedef struct frame_slot { /* (parent stack, frame key) -> stack */
    uint64_t key;
    uint32_t parent, stack;
} frame_slot;

struct mtp__thread_cache {
    uint64_t valid_for; /* mtp__recorder.id */
    shape_slot shape[SHAPE_SLOTS];
    frame_slot frame[FRAME_SLOTS];
    uint64_t frames[MTP__STACK_DEPTH_MAX];
    uint64_t words[MTP__SHAPE_WORDS_MAX];
};

/* ------------------------------------------------------------------------------------------- tables */

static mtp__intern *table(mtp__recorder *r, int k)
{
    mtp__intern *const all[] = {&r->names, &r->shapes, &r->frames, &r->stacks, &r->texts};
    return k < 5 ? all[k] : NULL;
}

/* Under the table's lock: the control stream has it before anyone can use the id. */
static int tell(void *user, const mtp__intern *t, uint32_t id, const void *bytes, size_t length)
{
    mtp__recorder *r = user;
    if (!r->open)
        return 0; /* by a thread that was stuck: the recording is finished, and perhaps its file */
    mtp__control_kind kind = t == &r->names    ? MTP__CONTROL_NAME
                             : t == &r->shapes ? MTP__CONTROL_SHAPE
                             : t == &r->stacks ? MTP__CONTROL_STACK
                                               : MTP__CONTROL_TEXT;
    bool told = mtp__control_define(r, kind, id, bytes, length);
    MTP__TESTPOINT(DEFINITION);
    return told;
}

/* A frame is known by its key; what is told is its description. */
static int tell_frame(void *user, const mtp__intern *t, uint32_t id, const void *bytes, size_t length)
{
    (void)t, (void)length;
    char text[1024];
    uint64_t key;
    memcpy(&key, bytes, sizeof key);
    mtp__stack_describe(key, text, sizeof text);
    return ((mtp__recorder *)user)->open && /* as above: describing may take long */
           mtp__control_define(user, MTP__CONTROL_FRAME, id, text, strlen(text));
}

void mtp__details_init(mtp__recorder *r)
{
    uint64_t limit = r->config.pool.bytes / 16;
    limit = limit < DICTIONARY_MIN ? DICTIONARY_MIN : limit > DICTIONARY_MAX ? DICTIONARY_MAX : limit;
    mtp__intern *t;
    for (int k = 0; (t = table(r, k)) != NULL; k++)
        mtp__intern_init(t, t == &r->names ? SESSION_NAMES : 1, limit, t == &r->frames ? tell_frame : tell,
                         r);
}

void mtp__details_fini(mtp__recorder *r)
{
    mtp__intern *t;
    for (int k = 0; (t = table(r, k)) != NULL; k++)
        mtp__intern_fini(t);
}

void mtp__details_reset(mtp__recorder *r)
{
    mtp__intern *t;
    for (int k = 0; (t = table(r, k)) != NULL; k++)
        mtp__intern_reset(t);
}

void mtp__details_locks(mtp__recorder *r, int (*call)(pthread_mutex_t *))
{
    mtp__intern *t;
    for (int k = 0; (t = table(r, k)) != NULL; k++)
        call(&t->lock);
}

void mtp__details_cache_free(struct mtp__thread_cache *cache)
{
    mtp__page_free(cache);
}

static struct mtp__thread_cache *cache_of(mtp__recorder *r, mtp__thread *t)
{
    if (t->cache == NULL && (t->cache = mtp__page_calloc(1, sizeof *t->cache)) == NULL)
        return NULL;
    if (t->cache->valid_for != r->id) {
        for (uint32_t i = 0; i < SHAPE_SLOTS; i++)
            t->cache->shape[i].id = 0;
        for (uint32_t i = 0; i < FRAME_SLOTS; i++)
            t->cache->frame[i].stack = 0;
        t->cache->valid_for = r->id;
    }
    return t->cache;
}

static uint32_t lost(mtp__recorder *r)
{
    atomic_fetch_add_explicit(&r->lost_definitions, 1, memory_order_relaxed);
    return 0;
}

/* An id for the bytes; a table that is full is one loss per use, so that the ledger shows how much is missing. */
static uint32_t add(mtp__recorder *r, mtp__intern *t, uint64_t hash, const void *bytes, size_t length)
{
    int its_errno = errno;
    uint32_t id = mtp__intern_add(t, hash, bytes, length);
    errno = its_errno;
    return id != 0 ? id : lost(r);
}

uint32_t mtp__text_id(mtp__recorder *r, const char *text)
{
    size_t length = strlen(text);
    return add(r, &r->texts, mtp__hash_bytes(text, length), text, length);
}

uint32_t mtp__session_name_id(mtp__recorder *r, const char *text, size_t length)
{
    uint64_t hash = mtp__hash_bytes(text, length);
    uint32_t id = mtp__intern_find(mtp__names(), hash, text, length);
    return id != 0 ? id : add(r, &r->names, hash, text, length);
}

/* ------------------------------------------------------------------------------------------- shapes */

typedef struct shape_out {
    uint64_t *word;
    size_t at, end;
} shape_out;

static bool put(shape_out *o, const void *words, size_t count)
{
    if (o->end - o->at < count)
        return false;
    for (size_t i = 0; i < count; i++)
        o->word[o->at + i] = ((const uint64_t *)words)[i];
    o->at += count;
    return true;
}

/* One argument; on false it did not fit and its first word, for which there is always room, says so. */
static bool put_input(shape_out *o, const mtp_input *in)
{
    bool strides = in->kind == MTP_INPUT_TENSOR && in->strides != NULL && in->count > 0;
    size_t head = o->at;
    uint64_t first =
        in->kind | (uint64_t)in->dtype << 8 | (uint64_t)strides << 16 | (uint64_t)in->count << 32;
    bool fits = put(o, &first, 1);
    switch (fits ? (mtp_input_kind)in->kind : MTP_INPUT_NONE) {
    case MTP_INPUT_TENSOR:
        fits = put(o, in->dims, in->count) && (!strides || put(o, in->strides, in->count));
        break;
    case MTP_INPUT_INT_LIST:
        fits = put(o, in->dims, in->count);
        break;
    case MTP_INPUT_INT:
    case MTP_INPUT_BOOL:
    case MTP_INPUT_FLOAT:
        fits = put(o, &in->value.i, 1);
        break;
    case MTP_INPUT_TEXT: {
        size_t words = ((size_t)in->count + 7) / 8;
        fits = o->end - o->at >= words;
        if (fits && words > 0) {
            o->word[o->at + words - 1] = 0;
            memcpy(o->word + o->at, in->value.text, in->count);
            o->at += words;
        }
        break;
    }
    default: /* none; a list's items are put by the caller */
        break;
    }
    if (!fits) {
        o->at = head + 1;
        o->word[head] = in->kind | (uint64_t)in->dtype << 8 | (uint64_t)MTP__SHAPE_CUT << 16;
    }
    return fits;
}

static size_t put_all(uint64_t *words, const mtp_input *inputs, uint32_t count)
{
    shape_out o = {words, 0, MTP__SHAPE_WORDS_MAX - 1};
    for (uint32_t i = 0; i < count; i++) {
        bool fits = put_input(&o, &inputs[i]);
        if (fits && inputs[i].kind == MTP_INPUT_TENSOR_LIST)
            for (uint32_t k = 0; k < inputs[i].count && fits; k++)
                fits = put_input(&o, &inputs[i].value.items[k]);
        if (!fits)
            break;
    }
    return o.at;
}

uint32_t mtp__shape_id(mtp__recorder *r, mtp__thread *t, const mtp_input *inputs, uint32_t count)
{
    struct mtp__thread_cache *cache = cache_of(r, t);
    if (cache == NULL)
        return lost(r);
    size_t words = put_all(cache->words, inputs, count);
    uint64_t hash = mtp__hash_words(cache->words, words);
    shape_slot *slot = &cache->shape[hash % SHAPE_SLOTS];
    if (slot->id != 0 && slot->hash == hash && slot->count == words &&
        memcmp(slot->word, cache->words, words * sizeof *slot->word) == 0)
        return slot->id;
    uint32_t id = add(r, &r->shapes, hash, cache->words, words * sizeof *cache->words);
    if (id != 0 && words <= SHAPE_INLINE) {
        slot->hash = hash;
        slot->id = id;
        slot->count = (uint32_t)words;
        memcpy(slot->word, cache->words, words * sizeof *slot->word);
    }
    return id;
}

/* ------------------------------------------------------------------------------------------- stacks */

/* One level down the tree, from the parent to the child that `key` leads to. */
static uint32_t stack_child(mtp__recorder *r, struct mtp__thread_cache *cache, uint32_t parent, uint64_t key)
{
    uint64_t hash = mtp__hash_mix(key, parent);
    frame_slot *slot = &cache->frame[hash % FRAME_SLOTS];
    if (slot->stack != 0 && slot->key == key && slot->parent == parent)
        return slot->stack;
    uint32_t pair[2] = {parent, add(r, &r->frames, mtp__hash_bytes(&key, sizeof key), &key, sizeof key)};
    if (pair[1] == 0)
        return 0;
    uint32_t id = add(r, &r->stacks, mtp__hash_bytes(pair, sizeof pair), pair, sizeof pair);
    *slot = (frame_slot){key, parent, id};
    return id;
}

uint32_t mtp__stack_id(mtp__recorder *r, mtp__thread *t, const void *caller)
{
    struct mtp__thread_cache *cache = cache_of(r, t);
    if (cache == NULL)
        return lost(r);
    int its_errno = errno; /* of the program, which may have a stack provider of its own */
    uint32_t from = 0, depth = mtp__stack_capture(caller, cache->frames, MTP__STACK_DEPTH_MAX, &from);
    errno = its_errno;
    uint32_t id = 0;
    for (uint32_t i = depth; i > from; i--) { /* from the root inwards */
        id = stack_child(r, cache, id, cache->frames[i - 1]);
        if (id == 0)
            return 0;
    }
    return id;
}
