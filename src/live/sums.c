/* live/sums.c - rows, and what of them is recent: see live.h. */
#include <string.h>
#include "base/grow.h"
#include "base/os.h"
#include "live/live.h"
#include "trace/facts.h"

#define TEXT_BYTES ((size_t)64 << 20)
#define OTHERS "(other names)"

bool mtp__live_sums_init(mtp__live_sums *s, int64_t slot_ns, uint32_t most)
{
    *s = (mtp__live_sums){.slot_ns = slot_ns, .most = most};
    mtp__intern_init(&s->text, 1, TEXT_BYTES, NULL, NULL);
    return mtp__live_text(s, "?", 1) != 0 && mtp__live_text(s, OTHERS, sizeof OTHERS - 1) != 0;
}

void mtp__live_sums_fini(mtp__live_sums *s)
{
    mtp__intern_fini(&s->text);
    mtp__free(s->sum);
    mtp__free(s->row_of);
}

uint32_t mtp__live_text(mtp__live_sums *s, const char *bytes, size_t length)
{
    uint64_t hash = mtp__hash_bytes(bytes, length);
    uint32_t id = mtp__intern_find(&s->text, hash, bytes, length);
    return id != 0 ? id : mtp__intern_add(&s->text, hash, bytes, length);
}

static uint32_t others(mtp__live_sums *s)
{
    return mtp__live_text(s, OTHERS, sizeof OTHERS - 1);
}

uint32_t mtp__live_key(mtp__live_sums *s, const char *bytes, size_t length)
{
    mtp_text name = {bytes, length};
    if (mtp__is_filtered(name))
        return MTP__TEXT_FILTERED;
    if (MTP__BEGINS_WITH(name, MTP__STEP_PREFIX))
        name = (mtp_text){MTP__STEP_KEY, sizeof MTP__STEP_KEY - 1};
    bool is_full = mtp__intern_count(&s->text) >= 2 * s->most; /* threads have names, too */
    uint64_t hash = mtp__hash_bytes(name.bytes, name.length);
    uint32_t id = mtp__intern_find(&s->text, hash, name.bytes, name.length);
    if (id == 0 && !is_full)
        id = mtp__intern_add(&s->text, hash, name.bytes, name.length);
    if (id != 0)
        return id;
    s->left_out++;
    return others(s);
}

mtp_text mtp__live_text_of(const mtp__live_sums *s, uint32_t text)
{
    const mtp__intern_entry *e = text != MTP__NO_TEXT ? mtp__intern_get(&s->text, text) : NULL;
    return e != NULL ? (mtp_text){(const char *)e->bytes, e->length} : (mtp_text){"", 0};
}

uint32_t mtp__live_new_row(mtp__live_sums *s, uint32_t text, uint8_t class, uint8_t kind)
{
    if (s->count >= s->most && text != others(s)) {
        s->left_out++;
        return mtp__live_row(s, others(s), class, kind);
    }
    size_t at = (size_t)text * MTP__LIVE_CLASSES + class;
    if (!MTP__GROW(s->row_of, s->row_of_room, s->row_of_room, at + 1, 256) ||
        !MTP__GROW(s->sum, s->room, s->count, s->count + 1, 64)) {
        s->out_of_memory = true;
        return MTP__NO_ROW;
    }
    s->sum[s->count] = (mtp__live_sum){.text = text, .class = class, .kind = kind};
    s->row_of[at] = ++s->count;
    return s->count - 1;
}

uint32_t mtp__live_new_part(mtp__live_sums *s, int64_t ns)
{
    int64_t part = ns > 0 ? ns / s->slot_ns : 0;
    s->part_from = part > 0 ? part * s->slot_ns : INT64_MIN;
    s->part_to = (part + 1) * s->slot_ns;
    s->part = (uint32_t)part + 1 + ((uint32_t)part == UINT32_MAX); /* never 0 */
    return s->part;
}

mtp__live_slot mtp__live_recent(const mtp__live_slot *slots, uint32_t now)
{
    mtp__live_slot sum = {0};
    for (unsigned i = 0; i < MTP__LIVE_SLOTS; i++) {
        if (slots[i].number == 0 || now - slots[i].number >= MTP__LIVE_SLOTS)
            continue;
        sum.count += slots[i].count;
        sum.self += slots[i].self;
        sum.total += slots[i].total;
    }
    return sum;
}

static void spend(mtp__live_sums *s, mtp__live_slot *slots, int64_t from, int64_t to)
{
    mtp__live_slot *slot = mtp__live_slot_of(slots, mtp__live_part(s, from));
    if (slot != NULL)
        slot->self += to - from;
}

/* A long interval is spread over the parts of the window that it covers. */
void mtp__live_spent(mtp__live_sums *s, uint32_t row, int64_t from, int64_t to)
{
    const int64_t window = s->slot_ns * MTP__LIVE_SLOTS;
    mtp__live_slot *slots = s->sum[row].slot;
    from = to - from > window ? to - window : from;
    while (from < to) {
        mtp__live_part(s, from);
        int64_t until = to < s->part_to ? to : s->part_to;
        spend(s, slots, from, until);
        from = until;
    }
}

void mtp__live_ended(mtp__live_sums *s, uint32_t row, int64_t ns, int64_t self, int64_t at)
{
    mtp__live_sum *sum = &s->sum[row];
    sum->count++;
    sum->total += ns;
    sum->self += self;
    sum->max = ns > sum->max ? ns : sum->max;
    mtp__live_slot *slot = mtp__live_slot_of(sum->slot, mtp__live_part(s, at));
    if (slot == NULL)
        return;
    slot->count++;
    slot->total += ns;
}
