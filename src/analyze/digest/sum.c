/* analyze/digest/sum.c - sums values by entry and op. */
#include <stdlib.h>
#include <string.h>
#include "analyze/digest/digest.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/os.h"

typedef struct part_key {
    uint64_t texts, rank, step;
} part_key;
typedef struct pair_key {
    uint64_t a, b;
} pair_key;

bool mtp__digest_sum_init(mtp__digest_sum *s)
{
    *s = (mtp__digest_sum){.d = mtp__calloc(1, sizeof *s->d)};
    if (s->d != NULL)
        mtp__intern_init(&s->d->text, 1, SIZE_MAX, NULL, NULL);
    return s->d != NULL;
}

void mtp__digest_sum_fini(mtp__digest_sum *s)
{
    mtp_digest_destroy(s->d);
    mtp__hash_map_fini(&s->parts);
    mtp__hash_map_fini(&s->rows);
    mtp__hash_map_fini(&s->buckets);
    *s = (mtp__digest_sum){0};
}

void mtp_digest_destroy(mtp_digest *d)
{
    if (d == NULL)
        return;
    mtp__free(d->part);
    mtp__free(d->row);
    mtp__free(d->bucket);
    mtp__intern_fini(&d->text);
    mtp__free(d);
}

uint32_t mtp__digest_text(mtp__digest_sum *s, const char *bytes, size_t length)
{
    if (length == 0)
        return 0;
    uint32_t id = mtp__intern_add(&s->d->text, mtp__hash_bytes(bytes, length), bytes, length);
    s->failed |= id == 0;
    return id;
}

/* Sums of damaged or hostile numbers stop at the ends of the range. */
static void add(int64_t *to, int64_t n)
{
    if (__builtin_add_overflow(*to, n, to))
        *to = n < 0 ? INT64_MIN : INT64_MAX;
}

static void add_count(uint64_t *to, uint64_t n)
{
    if (__builtin_add_overflow(*to, n, to))
        *to = UINT64_MAX;
}

uint32_t mtp__digest_sum_part(mtp__digest_sum *s, uint32_t job, uint32_t host, const mtp_digest_entry *of,
                              uint32_t shift)
{
    mtp_digest *d = s->d;
    bool is_new;
    part_key key = {(uint64_t)job << 32 | host, (uint64_t)of->rank, (uint64_t)of->step};
    uint32_t *at = mtp__hash_map_put(&s->parts, &key, sizeof key, sizeof *at, &is_new);
    if (at == NULL || (is_new && !MTP__GROW(d->part, s->part_room, d->part_count, d->part_count + 1, 64))) {
        s->failed = true;
        return MTP__DIGEST_NONE;
    }
    if (is_new) {
        d->part[d->part_count] = (mtp__digest_part){
            .shown = {.rank = of->rank, .step = of->step, .start_ns = INT64_MAX}, .job = job, .host = host};
        *at = d->part_count++;
    }
    mtp__digest_part *p = &d->part[*at];
    mtp_digest_entry *e = &p->shown;
    p->shift = shift > p->shift ? shift : p->shift;
    add_count(&e->steps, of->steps);
    e->start_ns = of->start_ns < e->start_ns ? of->start_ns : e->start_ns;
    add(&e->wall_ns, of->wall_ns);
    add(&e->cpu_ns, of->cpu_ns);
    add(&e->device_ns, of->device_ns);
    add(&e->idle_ns, of->idle_ns);
    add(&e->both_ns, of->both_ns);
    return *at;
}

uint32_t mtp__digest_sum_row(mtp__digest_sum *s, uint32_t part, uint32_t name, const mtp_digest_op *of)
{
    mtp_digest *d = s->d;
    bool is_new;
    pair_key key = {(uint64_t)part << 1 | of->is_device, name};
    uint32_t *at = mtp__hash_map_put(&s->rows, &key, sizeof key, sizeof *at, &is_new);
    if (at == NULL || (is_new && !MTP__GROW(d->row, s->row_room, d->row_count, d->row_count + 1, 256))) {
        s->failed = true;
        return MTP__DIGEST_NONE;
    }
    if (is_new) {
        d->row[d->row_count] =
            (mtp__digest_row){.shown = {.is_device = of->is_device, .min_ns = INT64_MAX, .max_ns = INT64_MIN},
                              .name = name,
                              .entry = part};
        *at = d->row_count++;
    }
    mtp_digest_op *o = &d->row[*at].shown;
    add_count(&o->calls, of->calls);
    add(&o->total_ns, of->total_ns);
    add(&o->self_ns, of->self_ns);
    add(&o->device_ns, of->device_ns);
    o->min_ns = of->min_ns < o->min_ns ? of->min_ns : o->min_ns;
    o->max_ns = of->max_ns > o->max_ns ? of->max_ns : o->max_ns;
    if (of->names >
        o->names) /* of others: which names they are is not known, so the larger number is certain */
        o->names = of->names;
    return *at;
}

void mtp__digest_sum_calls(mtp__digest_sum *s, uint32_t row, uint32_t bucket, uint64_t calls)
{
    bool is_new;
    pair_key key = {row, bucket};
    mtp__digest_bucket *b = mtp__hash_map_put(&s->buckets, &key, sizeof key, sizeof *b, &is_new);
    if (b == NULL) {
        s->failed = true;
        return;
    }
    b->row = row;
    b->bucket = bucket;
    add_count(&b->calls, calls);
}

/* --------------------------------------------------------------------------------------------- finishing */

static int compare_text(const mtp_digest *d, uint32_t a, uint32_t b)
{
    const mtp__intern_entry *x = a != 0 ? mtp__intern_get(&d->text, a) : NULL;
    const mtp__intern_entry *y = b != 0 ? mtp__intern_get(&d->text, b) : NULL;
    size_t lx = x != NULL ? x->length : 0, ly = y != NULL ? y->length : 0, least = lx < ly ? lx : ly;
    int c = least > 0 ? memcmp(x->bytes, y->bytes, least) : 0;
    return c != 0 ? c : (lx > ly) - (lx < ly);
}

typedef struct sorting {
    const mtp_digest *d;
    uint32_t index;
} sorting;

static int by_key(const void *x, const void *y)
{
    const sorting *a = x, *b = y;
    const mtp__digest_part *p = &a->d->part[a->index], *q = &b->d->part[b->index];
    int c = compare_text(a->d, p->job, q->job);
    if (c == 0)
        c = (p->shown.rank > q->shown.rank) - (p->shown.rank < q->shown.rank);
    if (c == 0)
        c = (p->shown.step > q->shown.step) - (p->shown.step < q->shown.step);
    return c != 0 ? c : compare_text(a->d, p->host, q->host);
}

/* By entry; the others last, most time of their own first. */
static int by_time(const void *x, const void *y)
{
    const sorting *a = x, *b = y;
    const mtp__digest_row *r = &a->d->row[a->index], *q = &b->d->row[b->index];
    if (r->entry != q->entry)
        return r->entry < q->entry ? -1 : 1;
    if ((r->name == 0) != (q->name == 0))
        return r->name == 0 ? 1 : -1;
    if (r->shown.self_ns != q->shown.self_ns)
        return r->shown.self_ns > q->shown.self_ns ? -1 : 1;
    int c = compare_text(a->d, r->name, q->name);
    return c != 0 ? c : r->shown.is_device - q->shown.is_device;
}

/* The order, as indices; and by index its place. */
static uint32_t *sorted(const mtp_digest *d, uint32_t count, int (*compare)(const void *, const void *),
                        uint32_t *place)
{
    sorting *s = mtp__calloc((size_t)count + 1, sizeof *s);
    uint32_t *order = mtp__calloc((size_t)count + 1, sizeof *order);
    for (uint32_t i = 0; s != NULL && i < count; i++)
        s[i] = (sorting){d, i};
    if (s != NULL && order != NULL) {
        qsort(s, count, sizeof *s, compare);
        for (uint32_t i = 0; i < count; i++) {
            order[i] = s[i].index;
            place[s[i].index] = i;
        }
        mtp__free(s);
        return order;
    }
    mtp__free(s);
    mtp__free(order);
    return NULL;
}

static bool sort_parts(mtp_digest *d, uint32_t *place)
{
    mtp__digest_part *to = mtp__calloc((size_t)d->part_count + 1, sizeof *to);
    uint32_t *order = to != NULL ? sorted(d, d->part_count, by_key, place) : NULL;
    if (order == NULL) {
        mtp__free(to);
        return false;
    }
    for (uint32_t i = 0; i < d->part_count; i++)
        to[i] = d->part[order[i]];
    mtp__free(order);
    mtp__free(d->part);
    d->part = to;
    return true;
}

static bool sort_rows(mtp_digest *d, uint32_t *place)
{
    mtp__digest_row *to = mtp__calloc((size_t)d->row_count + 1, sizeof *to);
    uint32_t *order = to != NULL ? sorted(d, d->row_count, by_time, place) : NULL;
    if (order == NULL) {
        mtp__free(to);
        return false;
    }
    for (uint32_t i = 0; i < d->row_count; i++)
        to[i] = d->row[order[i]];
    mtp__free(order);
    mtp__free(d->row);
    d->row = to;
    return true;
}

static int by_row(const void *x, const void *y)
{
    const mtp__digest_bucket *a = x, *b = y;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return (a->bucket > b->bucket) - (a->bucket < b->bucket);
}

/* Sorts the buckets by row, and joins those that are one at the entry's width. */
static bool gather_buckets(mtp__digest_sum *s, const uint32_t *place)
{
    mtp_digest *d = s->d;
    size_t at = 0, count = 0;
    if (s->buckets.count >= UINT32_MAX)
        return false;
    d->bucket = mtp__calloc(s->buckets.count + 1, sizeof *d->bucket);
    if (d->bucket == NULL)
        return false;
    for (mtp__digest_bucket *b;
         (b = mtp__hash_map_next(&s->buckets, &at, sizeof(pair_key), sizeof *b)) != NULL;) {
        d->bucket[count] = *b;
        d->bucket[count].row = place[b->row];
        d->bucket[count].bucket >>= d->part[d->row[place[b->row]].entry].shift;
        count++;
    }
    qsort(d->bucket, count, sizeof *d->bucket, by_row);
    for (size_t i = 0; i < count; i++) {
        mtp__digest_bucket *last = d->bucket_count > 0 ? &d->bucket[d->bucket_count - 1] : NULL;
        if (last != NULL && last->row == d->bucket[i].row && last->bucket == d->bucket[i].bucket) {
            add_count(&last->calls, d->bucket[i].calls);
            continue;
        }
        mtp__digest_row *row = &d->row[d->bucket[i].row];
        if (row->bucket_count++ == 0)
            row->first_bucket = d->bucket_count;
        d->bucket[d->bucket_count++] = d->bucket[i];
    }
    return true;
}

static void name_rows(mtp_digest *d)
{
    for (uint32_t i = 0; i < d->row_count; i++) {
        mtp__digest_row *r = &d->row[i];
        const mtp__intern_entry *name = r->name != 0 ? mtp__intern_get(&d->text, r->name) : NULL;
        r->shown.name =
            name != NULL ? (mtp_text){(const char *)name->bytes, name->length} : (mtp_text){"(others)", 8};
        if (r->name != 0)
            r->shown.names = 1;
        mtp__digest_part *p = &d->part[r->entry];
        if (p->shown.op_count++ == 0)
            p->first_row = i;
        add_count(&p->shown.calls, r->shown.calls);
        add(r->shown.is_device ? &p->shown.self_device_ns : &p->shown.self_ns, r->shown.self_ns);
    }
    for (uint32_t i = 0; i < d->part_count; i++) {
        mtp__digest_part *p = &d->part[i];
        p->shown.job = p->job != 0 ? (const char *)mtp__intern_get(&d->text, p->job)->bytes : "";
        p->shown.host = p->host != 0 ? (const char *)mtp__intern_get(&d->text, p->host)->bytes : "";
    }
}

mtp_status mtp__digest_sum_finish(mtp__digest_sum *s, mtp_digest **out)
{
    mtp_digest *d = s->d;
    uint32_t most = d->part_count > d->row_count ? d->part_count : d->row_count;
    uint32_t *place = mtp__calloc((size_t)most + 1, sizeof *place);
    bool made = !s->failed && place != NULL && sort_parts(d, place);
    for (uint32_t i = 0; made && i < d->row_count; i++)
        d->row[i].entry = place[d->row[i].entry];
    made = made && sort_rows(d, place) && gather_buckets(s, place);
    mtp__free(place);
    if (!made) {
        mtp__digest_sum_fini(s);
        return MTP_FAIL(MTP_E_NOMEM, "the digest");
    }
    name_rows(d);
    s->d = NULL;
    mtp__digest_sum_fini(s);
    *out = d;
    return MTP_OK;
}

/* ------------------------------------------------------------------------------------- sums of digests */

static uint32_t copied(mtp__digest_sum *s, const mtp_digest *from, uint32_t text)
{
    const mtp__intern_entry *e = text != 0 ? mtp__intern_get(&from->text, text) : NULL;
    return e != NULL ? mtp__digest_text(s, (const char *)e->bytes, e->length) : 0;
}

void mtp__digest_sum_all(mtp__digest_sum *s, const mtp_digest *from, uint32_t by)
{
    for (uint32_t i = 0; i < from->part_count && !s->failed; i++) {
        const mtp__digest_part *p = &from->part[i];
        mtp_digest_entry e = p->shown;
        e.rank = by & MTP_DIGEST_BY_RANK ? e.rank : MTP_DIGEST_ALL;
        e.step = by & MTP_DIGEST_BY_STEP ? e.step : MTP_DIGEST_ALL;
        uint32_t job = by & MTP_DIGEST_BY_JOB ? copied(s, from, p->job) : 0;
        uint32_t host = by & MTP_DIGEST_BY_HOST ? copied(s, from, p->host) : 0;
        uint32_t part = mtp__digest_sum_part(s, job, host, &e, p->shift);
        for (uint32_t k = 0; k < p->shown.op_count && part != MTP__DIGEST_NONE; k++) {
            const mtp__digest_row *r = &from->row[p->first_row + k];
            uint32_t row = mtp__digest_sum_row(s, part, copied(s, from, r->name), &r->shown);
            for (uint32_t b = 0; b < r->bucket_count && row != MTP__DIGEST_NONE; b++) {
                const mtp__digest_bucket *bucket = &from->bucket[r->first_bucket + b];
                mtp__digest_sum_calls(s, row, bucket->bucket << p->shift, bucket->calls);
            }
        }
    }
}
