/* analyze/digest/odd.c - which steps took far longer than most of the same job, and in which ops.
 *
 * Medians and deviations are of all steps of all ranks of a job, without what is outside of steps. A reason is an op's own
 * time minus its median over these steps, in which it counts as 0 where it was not called. An entry that sums several steps
 * (a rank that was restarted) counts as one of their mean.
 */
#include <stdlib.h>
#include <string.h>
#include "analyze/digest/digest.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"

#define LEAST_STEPS 8u
#define DEVIATIONS 4.0
#define LEAST_SHARE 0.1

typedef struct figure { /* of an op in a step */
    uint64_t key;       /* name and device */
    uint32_t entry;
    int64_t ns, calls;
} figure;

typedef struct looking {
    const mtp_digest *d;
    mtp__digest_odd *odd; /* owned until done */
    size_t count, room;
    int64_t *value;  /* owned: scratch for medians */
    figure *figures; /* owned: of one job's steps, by key */
    size_t figure_count, figure_room;
    bool failed;
} looking;

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t median(int64_t *value, size_t count)
{
    qsort(value, count, sizeof *value, by_value);
    return value[(count - 1) / 2];
}

static bool is_step(const mtp__digest_part *p)
{
    return p->shown.step >= 0 && p->shown.wall_ns > 0;
}

static int64_t wall_of(const mtp__digest_part *p)
{
    return mtp__digest_per_step(&p->shown, p->shown.wall_ns);
}

static int64_t idle_of(const mtp__digest_part *p)
{
    return mtp__digest_per_step(&p->shown, p->shown.idle_ns);
}

/* What a step's longer time is made of: keeps the largest. */
static void add_reason(mtp__digest_odd *o, mtp__digest_reason reason)
{
    uint32_t at = o->reason_count;
    while (at > 0 && o->reasons[at - 1].more_ns < reason.more_ns)
        at--;
    if (at == MTP__DIGEST_REASONS)
        return;
    if (o->reason_count < MTP__DIGEST_REASONS)
        o->reason_count++;
    memmove(&o->reasons[at + 1], &o->reasons[at], (o->reason_count - 1 - at) * sizeof reason);
    o->reasons[at] = reason;
}

static int by_key(const void *x, const void *y)
{
    const figure *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->entry > b->entry) - (a->entry < b->entry);
}

static void gather(looking *l, uint32_t first, uint32_t end)
{
    l->figure_count = 0;
    for (uint32_t i = first; i < end; i++) {
        const mtp__digest_part *p = &l->d->part[i];
        for (uint32_t k = 0; is_step(p) && k < p->shown.op_count; k++) {
            const mtp__digest_row *r = &l->d->row[p->first_row + k];
            if (!MTP__GROW(l->figures, l->figure_room, l->figure_count, l->figure_count + 1, 1024)) {
                l->failed = true;
                return;
            }
            l->figures[l->figure_count++] =
                (figure){(uint64_t)r->name << 1 | r->shown.is_device, i,
                         mtp__digest_per_step(&p->shown, r->shown.self_ns),
                         mtp__digest_per_step(&p->shown, (int64_t)r->shown.calls)};
        }
    }
    if (l->figure_count > 0)
        qsort(l->figures, l->figure_count, sizeof *l->figures, by_key);
}

static mtp__digest_odd *odd_of(looking *l, size_t from, uint32_t entry)
{
    for (size_t i = from; i < l->count; i++)
        if (l->odd[i].entry == entry)
            return &l->odd[i];
    return NULL;
}

/* One op in all steps; those without it have 0. */
static void compare_op(looking *l, const figure *f, size_t count, size_t steps, size_t from)
{
    const mtp_digest *d = l->d;
    int64_t usual[2];
    for (int what = 0; what < 2; what++) {
        memset(l->value, 0, steps * sizeof *l->value);
        for (size_t i = 0; i < count && i < steps; i++)
            l->value[i] = what == 0 ? f[i].ns : f[i].calls;
        usual[what] = median(l->value, steps);
    }
    for (size_t i = 0; i < count; i++) {
        mtp__digest_odd *o = odd_of(l, from, f[i].entry);
        int64_t more = minus(f[i].ns, usual[0]);
        if (o == NULL || more <= o->more_ns / 20)
            continue;
        const mtp__intern_entry *name =
            f[i].key >> 1 != 0 ? mtp__intern_get(&d->text, (uint32_t)(f[i].key >> 1)) : NULL;
        mtp__digest_reason reason = {
            .more_ns = more, .more_calls = minus(f[i].calls, usual[1]), .is_device = (f[i].key & 1) != 0};
        reason.name =
            name != NULL ? (mtp_text){(const char *)name->bytes, name->length} : (mtp_text){"(others)", 8};
        /* The step's own row is what is not in ops: idle says it better. */
        if (strncmp(reason.name.bytes, "ProfilerStep", 12) != 0)
            add_reason(o, reason);
    }
}

static void find_reasons(looking *l, uint32_t first, uint32_t end, size_t steps, size_t from)
{
    size_t count = 0;
    for (uint32_t i = first; i < end; i++)
        if (is_step(&l->d->part[i]))
            l->value[count++] = idle_of(&l->d->part[i]);
    int64_t usual = median(l->value, count);
    for (size_t i = from; i < l->count; i++) {
        int64_t more = minus(idle_of(&l->d->part[l->odd[i].entry]), usual);
        if (more > l->odd[i].more_ns / 20)
            add_reason(&l->odd[i], (mtp__digest_reason){.name = {"", 0}, .is_idle = true, .more_ns = more});
    }
    gather(l, first, end);
    for (size_t i = 0, next; i < l->figure_count; i = next) {
        for (next = i; next < l->figure_count && l->figures[next].key == l->figures[i].key;)
            next++;
        compare_op(l, &l->figures[i], next - i, steps, from);
    }
}

/* The entries of one job, which are neighbours. */
static void look_at_job(looking *l, uint32_t first, uint32_t end)
{
    size_t steps = 0, from = l->count;
    for (uint32_t i = first; i < end; i++)
        if (is_step(&l->d->part[i]))
            l->value[steps++] = wall_of(&l->d->part[i]);
    if (steps < LEAST_STEPS)
        return;
    int64_t usual = median(l->value, steps);
    for (size_t i = 0; i < steps; i++)
        l->value[i] = minus(l->value[i], usual) < 0 ? minus(usual, l->value[i]) : minus(l->value[i], usual);
    double deviation = 1.4826 * (double)median(l->value, steps), least = LEAST_SHARE * (double)usual;
    double limit = (DEVIATIONS * deviation > least ? DEVIATIONS * deviation : least);
    for (uint32_t i = first; i < end; i++) {
        int64_t more = minus(wall_of(&l->d->part[i]), usual);
        if (!is_step(&l->d->part[i]) || (double)more <= limit)
            continue;
        if (!MTP__GROW(l->odd, l->room, l->count, l->count + 1, 64)) {
            l->failed = true;
            return;
        }
        l->odd[l->count++] = (mtp__digest_odd){.entry = i, .more_ns = more};
    }
    if (l->count > from)
        find_reasons(l, first, end, steps, from);
}

static int by_more(const void *x, const void *y)
{
    const mtp__digest_odd *a = x, *b = y;
    if (a->more_ns != b->more_ns)
        return a->more_ns > b->more_ns ? -1 : 1;
    return (a->entry > b->entry) - (a->entry < b->entry);
}

mtp_status mtp__digest_odd_steps(const mtp_digest *d, mtp__digest_odd **out, size_t *count)
{
    looking l = {.d = d, .value = mtp__calloc((size_t)d->part_count + 1, sizeof *l.value)};
    *out = NULL;
    *count = 0;
    l.failed = l.value == NULL;
    for (uint32_t i = 0, next; i < d->part_count && !l.failed; i = next) {
        for (next = i; next < d->part_count && d->part[next].job == d->part[i].job;)
            next++;
        look_at_job(&l, i, next);
    }
    mtp__free(l.value);
    mtp__free(l.figures);
    if (l.failed) {
        mtp__free(l.odd);
        return MTP_FAIL(MTP_E_NOMEM, "the steps of %u entries", d->part_count);
    }
    if (l.count > 0)
        qsort(l.odd, l.count, sizeof *l.odd, by_more);
    *out = l.odd;
    *count = l.count;
    return MTP_OK;
}
