/* present/parquet/texts.c - the dictionary of a column of text: what occurs in a row group, once. */
#include <string.h>
#include "base/grow.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/utf8.h"
#include "present/parquet/parquet.h"

static void put_length(uint8_t *p, size_t length)
{
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(length >> 8 * i);
}

void mtp__parquet_put_text(mtp__octets *b, mtp_text text, bool braces)
{
    const unsigned char *at = (const unsigned char *)text.bytes, *end = at + text.length, *from = at;
    size_t start = b->count;
    mtp__octets_put(b, "\0\0\0", 4);
    mtp__octets_put(b, "{", braces);
    while (at < end) {
        unsigned skip, n = mtp__utf8_character(at, end, &skip);
        if (n == 0) {
            mtp__octets_put(b, from, (size_t)(at - from));
            mtp__octets_put(b, MTP__UTF8_REPLACEMENT, 3);
            from = at + skip;
        }
        at += n != 0 ? n : skip;
    }
    mtp__octets_put(b, from, (size_t)(at - from));
    mtp__octets_put(b, "}", braces);
    if (!b->failed)
        put_length(b->at + start, b->count - start - 4);
}

static int compare(const mtp__octets *b, size_t x, size_t x_length, size_t y, size_t y_length)
{
    int order = memcmp(b->at + x, b->at + y, x_length < y_length ? x_length : y_length);
    return order != 0 ? order : x_length < y_length ? -1 : x_length > y_length;
}

static void note_bounds(mtp__parquet_texts *d, size_t at, size_t length)
{
    if (d->count == 1 || compare(&d->plain, at, length, d->least, d->least_length) < 0) {
        d->least = at;
        d->least_length = length;
    }
    if (d->count == 1 || compare(&d->plain, at, length, d->most, d->most_length) > 0) {
        d->most = at;
        d->most_length = length;
    }
}

static size_t length_at(const mtp__parquet_texts *d, size_t start)
{
    const uint8_t *p = d->plain.at + start;
    return p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
}

/* Where the text at `start` is in the table, or could be. */
static uint32_t *slot_of(const mtp__parquet_texts *d, size_t start)
{
    const uint8_t *text = d->plain.at + start + 4;
    size_t length = length_at(d, start);
    for (uint64_t at = mtp__hash_bytes(text, length);; at++) {
        uint32_t *slot = &d->slot[at & (d->slots - 1)];
        size_t other = *slot != 0 ? d->starts[*slot - 1] : start;
        if (*slot == 0 ||
            (length_at(d, other) == length && memcmp(d->plain.at + other + 4, text, length) == 0))
            return slot;
    }
}

/* At most half of the table is used. */
static bool make_slots(mtp__parquet_texts *d)
{
    if (d->slots / 2 > d->count)
        return true;
    uint32_t slots = d->slots > 0 ? 2 * d->slots : 512;
    uint32_t *made = slots > d->slots ? mtp__calloc(slots, sizeof *made) : NULL;
    if (made == NULL)
        return false;
    mtp__free(d->slot);
    d->slot = made;
    d->slots = slots;
    for (uint32_t i = 0; i < d->count; i++)
        *slot_of(d, d->starts[i]) = i + 1;
    return true;
}

uint32_t mtp__parquet_new_text(mtp__parquet_texts *d, const mtp__parquet_column *column, const void *source,
                               int64_t id)
{
    size_t at = d->plain.count;
    if (!MTP__GROW(d->number_of, d->room, d->room, (size_t)id + 1, 1024) ||
        !MTP__GROW(d->ids, d->id_room, d->id_count, d->id_count + 1, 256) ||
        !MTP__GROW(d->starts, d->start_room, d->count, d->count + 1, 256) || !make_slots(d)) {
        d->plain.failed = true;
        return UINT32_MAX;
    }
    mtp__parquet_put_text(&d->plain, column->text(source, id), column->braces);
    if (d->plain.failed)
        return UINT32_MAX;
    uint32_t *slot = slot_of(d, at);
    d->ids[d->id_count++] = id;
    if (*slot != 0) {
        d->plain.count = at;
    } else {
        d->starts[d->count++] = at;
        *slot = d->count;
        note_bounds(d, at + 4, d->plain.count - at - 4);
    }
    return (d->number_of[id] = *slot) - 1;
}

void mtp__parquet_texts_reset(mtp__parquet_texts *d)
{
    for (uint32_t i = 0; i < d->id_count; i++)
        d->number_of[d->ids[i]] = 0;
    if (d->slots > 0)
        memset(d->slot, 0, d->slots * sizeof *d->slot);
    d->count = d->id_count = 0;
    d->plain.count = 0;
}

void mtp__parquet_texts_fini(mtp__parquet_texts *d)
{
    mtp__free(d->number_of);
    mtp__free(d->ids);
    mtp__free(d->starts);
    mtp__free(d->slot);
    mtp__octets_fini(&d->plain);
    *d = (mtp__parquet_texts){0};
}
