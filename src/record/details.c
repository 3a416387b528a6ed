#define _GNU_SOURCE
#include "record/details.h"
#include <errno.h>
#include <string.h>
#include "base/guard.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/rank.h"
#include "record/control.h"
#include "record/epoch.h"
#include "record/stack.h"

#define SHAPE_SLOTS 256u
#define SHAPE_INLINE 30u /* words; longer signatures are looked up in the table each time */
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

/* The stack captured last: the next one mostly shares its outer frames. */
typedef struct last_stack {
    uint32_t depth;                       /* levels that have an id */
    uint64_t frame[MTP__STACK_DEPTH_MAX]; /* from the root inwards */
    uint32_t id[MTP__STACK_DEPTH_MAX];    /* of the stack that ends there */
} last_stack;

/* A handler may jump out of a record at any instruction: what is remembered here, or in a pack, is invalid while it changes. */
struct mtp__thread_cache {
    uint64_t valid_for; /* mtp__recorder.id */
    shape_slot shape[SHAPE_SLOTS];
    frame_slot frame[FRAME_SLOTS];
    last_stack last[2]; /* whole stacks; those of calls, which are cut */
    uint64_t frames[MTP__STACK_DEPTH_MAX];
    uint64_t words[MTP__SHAPE_WORDS_MAX];
    char text[1024]; /* of the frame that is about to be defined */
};

/* ------------------------------------------------------------------------------------------- tables */

#define TABLES 5

static mtp__intern *table(mtp__tables *set, int k)
{
    mtp__intern *const all[TABLES] = {&set->names, &set->shapes, &set->frames, &set->stacks, &set->texts};
    return all[k];
}

static uint32_t first_id(int k)
{
    return k == 0 ? SESSION_NAMES : 1;
}

/* Under the table's lock: the definition is in the control stream before any thread can use the id. */
static int define(void *user, const mtp__intern *t, uint32_t id, const void *bytes, size_t length)
{
    static const mtp__control_kind kinds[TABLES] = {MTP__CONTROL_NAME, MTP__CONTROL_SHAPE, MTP__CONTROL_FRAME,
                                                    MTP__CONTROL_STACK, MTP__CONTROL_TEXT};
    mtp__recorder *r = user;
    if (!r->open)
        return 0; /* by a thread that was stuck: the recording, and perhaps its file, is finished */
    int k = 0;
    while (t != table(&r->set[0], k) && t != table(&r->set[1], k))
        k++;
    bool defined = mtp__control_define(r, kinds[k], id, bytes, length);
    MTP__TESTPOINT(DEFINITION);
    return defined;
}

/* A frame is looked up by its key, but defined by its description, which the thread has already obtained
 * (frame_id). */
static int define_frame(void *user, const mtp__intern *t, uint32_t id, const void *bytes, size_t length)
{
    (void)t, (void)bytes, (void)length;
    const char *text = mtp__self.thread->cache->text;
    return ((mtp__recorder *)user)->open && /* as above: describing may take long */
           mtp__control_define(user, MTP__CONTROL_FRAME, id, text, strlen(text));
}

void mtp__details_init(mtp__recorder *r)
{
    uint64_t limit = r->config.pool.bytes / 16;
    limit = limit < DICTIONARY_MIN ? DICTIONARY_MIN : limit > DICTIONARY_MAX ? DICTIONARY_MAX : limit;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < TABLES; k++) {
            mtp__intern *t = table(&r->set[i], k);
            mtp__intern_init(t, first_id(k), limit, t == &r->set[i].frames ? define_frame : define, r);
            mtp__rank_set(&t->lock, MTP__RANK_TABLES + i * TABLES + k, r);
        }
    r->set[0].key = mtp__recorder_new_id();
    atomic_store(&r->tables, &r->set[0]);
}

void mtp__details_fini(mtp__recorder *r)
{
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < TABLES; k++)
            mtp__intern_fini(table(&r->set[i], k));
}

void mtp__details_reset(mtp__recorder *r)
{
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < TABLES; k++)
            mtp__intern_restart(table(&r->set[i], k), first_id(k));
    mtp__tables *set = atomic_load(&r->tables);
    set->key = mtp__recorder_new_id();
}

void mtp__details_locks(mtp__recorder *r, int (*call)(pthread_mutex_t *))
{
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < TABLES; k++)
            call(&table(&r->set[i], k)->lock);
}

void mtp__details_locks_of(mtp__tables *set, int (*call)(pthread_mutex_t *))
{
    for (int k = 0; k < TABLES; k++)
        call(&table(set, k)->lock);
}

static mtp__tables *spare(mtp__recorder *r)
{
    return atomic_load_explicit(&r->tables, memory_order_relaxed) == &r->set[0] ? &r->set[1] : &r->set[0];
}

void mtp__details_empty_spare(mtp__recorder *r)
{
    for (int k = 0; k < TABLES; k++)
        mtp__intern_reset(table(spare(r), k));
}

void mtp__details_turn(mtp__recorder *r)
{
    mtp__tables *old = atomic_load_explicit(&r->tables, memory_order_relaxed), *next = spare(r);
    for (int k = 0; k < TABLES; k++) {
        uint32_t id = mtp__intern_close(table(old, k));
        if (id == 0 && r->pool.when_full == MTP_KEEP_NEWEST) /* wraps: the first ids are long out of use */
            id = first_id(k);
        mtp__intern_restart(table(next, k), id);
    }
    next->key = mtp__recorder_new_id();
    atomic_store(&r->tables, next); /* pairs: tables_of */
}

/* If not, another epoch has no more room for definitions than this one. */
static __attribute__((noinline, cold)) bool defines_any(const mtp__recorder *r)
{
    uint32_t count = 0;
    for (int k = 0; k < TABLES; k++)
        count |= mtp__intern_count(table(atomic_load(&r->tables), k));
    return count != 0;
}

bool mtp__details_are_nearly_full(const mtp__recorder *r)
{
    bool full = false;
    for (int k = 0; k < TABLES; k++)
        full |= mtp__intern_is_nearly_full(table(atomic_load(&r->tables), k));
    return full;
}

void mtp__details_cache_free(struct mtp__thread_cache *cache)
{
    mtp__page_free(cache);
}

/* Loaded for each id, because another epoch may have begun. The set remains valid while the thread is inside
 * its record. */
static mtp__tables *tables_of(const mtp__recorder *r)
{
#ifdef MTP__TSAN
    return atomic_load(&r->tables);
#else
    return atomic_load_explicit(&r->tables, memory_order_acquire); /* pairs: details_turn */
#endif
}

static struct mtp__thread_cache *cache_of(const mtp__tables *set, mtp__thread *t)
{
    if (t->cache == NULL && (t->cache = mtp__page_calloc(1, sizeof *t->cache)) == NULL)
        return NULL;
    if (t->cache->valid_for != set->key) {
        for (uint32_t i = 0; i < SHAPE_SLOTS; i++)
            t->cache->shape[i].id = 0;
        for (uint32_t i = 0; i < FRAME_SLOTS; i++)
            t->cache->frame[i].stack = 0;
        t->cache->last[0].depth = t->cache->last[1].depth = 0;
        atomic_signal_fence(memory_order_release);
        t->cache->valid_for = set->key;
    }
    return t->cache;
}

static uint32_t lost(mtp__recorder *r)
{
    atomic_fetch_add_explicit(&r->lost_definitions, 1, memory_order_relaxed);
    return 0;
}

/* An id for the bytes, or 0. */
static uint32_t add(mtp__recorder *r, mtp__intern *t, uint64_t hash, const void *bytes, size_t length)
{
    int its_errno = errno;
    uint32_t id = mtp__intern_add(t, hash, bytes, length);
    errno = its_errno;
    if (__builtin_expect(id == 0 ? defines_any(r) : mtp__intern_is_nearly_full(t), 0))
        mtp__epoch_want(r);
    return id;
}

/* No id: if the set was closed meanwhile, retry with the new one. Else count one loss per use, so that the
 * ledger shows how much is missing. */
static bool is_lost(mtp__recorder *r, const mtp__tables *set)
{
    if (tables_of(r) != set)
        return false;
    lost(r);
    return true;
}

uint32_t mtp__text_id(mtp__recorder *r, const char *text)
{
    size_t length = strlen(text);
    uint64_t hash = mtp__hash_bytes(text, length);
    for (;;) {
        mtp__tables *set = tables_of(r);
        uint32_t id = add(r, &set->texts, hash, text, length);
        if (id != 0 || is_lost(r, set))
            return id;
    }
}

uint32_t mtp__session_name_id(mtp__recorder *r, mtp__thread *t, const char *text, size_t length)
{
    uint64_t hash = mtp__hash_bytes(text, length);
    uint32_t id = mtp__intern_find(mtp__names(), hash, text, length);
    for (bool met = false; id == 0;) {
        mtp__tables *set = tables_of(r);
        id = add(r, &set->names, hash, text, length);
        if (id == 0 && !met) /* no other id is held yet: the next epoch's tables may have room */
            mtp__epoch_meet(r, t);
        else if (id == 0 && is_lost(r, set))
            break;
        met = true;
    }
    return id;
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

/* One argument. false: it did not fit, and its first word, for which there is always room, says so. */
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
    default: /* none; a list's items are written by the caller */
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

static inline __attribute__((always_inline)) uint32_t shape_in(mtp__recorder *r, mtp__tables *set,
                                                               struct mtp__thread_cache *cache,
                                                               const uint64_t *word, size_t words)
{
    uint64_t hash = mtp__hash_words(word, words);
    shape_slot *slot = &cache->shape[hash % SHAPE_SLOTS];
    if (slot->id != 0 && slot->hash == hash && slot->count == words &&
        memcmp(slot->word, word, words * sizeof *slot->word) == 0)
        return slot->id;
    uint32_t id = add(r, &set->shapes, hash, word, words * sizeof *word);
    if (id != 0 && words <= SHAPE_INLINE) {
        slot->id = 0;
        atomic_signal_fence(memory_order_release);
        slot->hash = hash;
        slot->count = (uint32_t)words;
        memcpy(slot->word, word, words * sizeof *slot->word);
        atomic_signal_fence(memory_order_release);
        slot->id = id;
    }
    return id;
}

/* packed: `count` words instead of inputs, or NULL. */
static inline __attribute__((always_inline)) uint32_t
shape_id(mtp__recorder *r, mtp__thread *t, const mtp_input *inputs, const uint64_t *packed, uint32_t count)
{
    for (;;) {
        mtp__tables *set = tables_of(r);
        struct mtp__thread_cache *cache = cache_of(set, t);
        uint32_t id = cache == NULL ? 0
                      : packed != NULL
                          ? shape_in(r, set, cache, packed, count)
                          : shape_in(r, set, cache, cache->words, put_all(cache->words, inputs, count));
        if (__builtin_expect(id != 0, 1) || is_lost(r, set))
            return id;
    }
}

uint32_t mtp__shape_id(mtp__recorder *r, mtp__thread *t, const mtp_input *inputs, uint32_t count)
{
    return shape_id(r, t, inputs, NULL, count);
}

static __attribute__((noinline)) uint32_t look_up_packed(mtp__recorder *r, mtp__thread *t, mtp_pack *pack)
{
    if (pack->count == 0 || pack->count > MTP__SHAPE_WORDS_MAX)
        return pack->count == 0 ? 0 : lost(r);
    uint32_t id = shape_id(r, t, NULL, pack->word, pack->count);
    pack->known_for = 0;
    atomic_signal_fence(memory_order_release);
    pack->known = id;
    pack->known_count = pack->count;
    pack->changed = 0;
    atomic_signal_fence(memory_order_release);
    pack->known_for = id != 0 ? t->cache->valid_for : 0;
    return id;
}

uint32_t mtp__shape_id_packed(mtp__recorder *r, mtp__thread *t, mtp_pack *pack)
{
    bool is_known =
        pack->known_for == tables_of(r)->key && pack->changed == 0 && pack->count == pack->known_count;
    return __builtin_expect(is_known, 1) ? pack->known : look_up_packed(r, t, pack);
}

/* ------------------------------------------------------------------------------------------- stacks */

static void describe(struct mtp__thread_cache *cache, uint64_t key)
{
    MTP__GUARDED;
    mtp__stack_describe(key, cache->text, sizeof cache->text);
}

/* Describes the frame before the table is locked: this may wait for the dynamic linker, or for a lock of the
 * provider, whose holder (a library's constructor) may be waiting for the table. */
static uint32_t frame_id(mtp__recorder *r, mtp__tables *set, struct mtp__thread_cache *cache, uint64_t key)
{
    uint64_t hash = mtp__hash_bytes(&key, sizeof key);
    uint32_t id = mtp__intern_find(&set->frames, hash, &key, sizeof key);
    if (id != 0)
        return id;
    int its_errno = errno;
    describe(cache, key);
    errno = its_errno;
    return add(r, &set->frames, hash, &key, sizeof key);
}

/* One level down the tree, from the parent to the child that `key` leads to. */
static uint32_t stack_child(mtp__recorder *r, mtp__tables *set, struct mtp__thread_cache *cache,
                            uint32_t parent, uint64_t key)
{
    uint64_t hash = mtp__hash_mix(key, parent);
    frame_slot *slot = &cache->frame[hash % FRAME_SLOTS];
    if (slot->stack != 0 && slot->key == key && slot->parent == parent)
        return slot->stack;
    uint32_t pair[2] = {parent, frame_id(r, set, cache, key)};
    if (pair[1] == 0)
        return 0;
    uint32_t id = add(r, &set->stacks, mtp__hash_bytes(pair, sizeof pair), pair, sizeof pair);
    slot->stack = 0;
    atomic_signal_fence(memory_order_release);
    slot->key = key;
    slot->parent = parent;
    atomic_signal_fence(memory_order_release);
    slot->stack = id;
    return id;
}

/* frames: innermost first. 0: there are none, or there was no room for a definition. */
static uint32_t stack_of(mtp__recorder *r, mtp__tables *set, struct mtp__thread_cache *cache,
                         last_stack *last, const uint64_t *frames, uint32_t depth)
{
    uint32_t most = depth < last->depth ? depth : last->depth, shared = 0;
    while (shared < most && last->frame[shared] == frames[depth - 1 - shared])
        shared++;
    uint32_t id = shared > 0 ? last->id[shared - 1] : 0;
    for (uint32_t i = shared; i < depth; i++) {
        last->depth = i;
        atomic_signal_fence(memory_order_release); /* a handler may jump out of here */
        id = stack_child(r, set, cache, id, frames[depth - 1 - i]);
        if (id == 0)
            return 0;
        last->frame[i] = frames[depth - 1 - i];
        last->id[i] = id;
        atomic_signal_fence(memory_order_release);
        last->depth = i + 1;
    }
    return id;
}

static uint32_t read_stack(mtp__recorder *r, mtp__thread *t, const void *caller, uint32_t most)
{
    mtp__tables *set = tables_of(r);
    struct mtp__thread_cache *cache = cache_of(set, t);
    if (cache == NULL)
        return lost(r);
    int its_errno = errno; /* the program's: its stack provider may change it */
    uint32_t from = 0, depth = mtp__stack_capture(caller, cache->frames, MTP__STACK_DEPTH_MAX, most, &from);
    errno = its_errno;
    last_stack *last = &cache->last[most < MTP__STACK_DEPTH_MAX];
    for (;;) { /* all ids from one set: a stack's parents and frames must be of its epoch */
        uint32_t id = stack_of(r, set, cache, last, cache->frames + from, depth - from);
        if (id != 0 || depth == from || is_lost(r, set))
            return id;
        set = tables_of(r);
        cache_of(set, t);
    }
}

uint32_t mtp__stack_id(mtp__recorder *r, mtp__thread *t, const void *caller, uint32_t most)
{
    t->in_stack = true;
    uint32_t id = read_stack(r, t, caller, most);
    t->in_stack = false;
    return id;
}
