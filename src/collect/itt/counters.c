/* collect/itt/counters.c - counters of ITT. They count on while nothing is recorded, so that a recording shows
 * their true value. */
#include <stdlib.h>
#include <string.h>
#include "collect/itt/itt.h"
#include "collect/ranges.h"

/* Not freed by counter_destroy: another thread may be counting. */
typedef struct counter {
    uint64_t count; /* atomic */
    uint32_t name;
    int type; /* mtp__itt_type */
} counter;

static counter *create(const char *name, const char *domain, int type)
{
    counter *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->name = mtp__range_name(domain, name);
    c->type = type;
    return c;
}

static void *counter_create(const char *name, const char *domain)
{
    return create(name, domain, MTP__ITT_U64);
}

static void *counter_create_typed(const char *name, const char *domain, int type)
{
    return create(name, domain, type);
}

static void *counter_create_v3(const mtp__itt_domain *domain, const char *name, int type)
{
    return create(name, domain != NULL ? domain->name : NULL, type);
}

static void add(uint64_t *count, uint32_t name, uint64_t delta)
{
    int64_t now = (int64_t)(__atomic_fetch_add(count, delta, __ATOMIC_RELAXED) + delta);
    if (mtp__itt_wanted())
        mtp_counter(name, (double)now);
}

static void counter_inc_delta(counter *c, uint64_t delta)
{
    if (c != NULL)
        add(&c->count, c->name, delta);
}

static void counter_inc(counter *c)
{
    counter_inc_delta(c, 1);
}

static void counter_dec_delta(counter *c, uint64_t delta)
{
    counter_inc_delta(c, 0 - delta);
}

static void counter_dec(counter *c)
{
    counter_inc_delta(c, UINT64_MAX);
}

#define AS(type, member)                                                                                     \
    case type:                                                                                               \
        memcpy(&v.member, value, sizeof v.member);                                                           \
        return (double)v.member

static double read_value(int type, const void *value)
{
    union {
        uint64_t u64;
        int64_t s64;
        uint32_t u32;
        int32_t s32;
        uint16_t u16;
        int16_t s16;
        float f;
        double d;
    } v;
    switch (type) {
        AS(MTP__ITT_S64, s64);
        AS(MTP__ITT_U32, u32);
        AS(MTP__ITT_S32, s32);
        AS(MTP__ITT_U16, u16);
        AS(MTP__ITT_S16, s16);
        AS(MTP__ITT_FLOAT, f);
        AS(MTP__ITT_DOUBLE, d);
    default:
        memcpy(&v.u64, value, sizeof v.u64);
        return (double)v.u64;
    }
}

static void counter_set_value(counter *c, const void *value)
{
    if (c == NULL || value == NULL)
        return;
    double now = read_value(c->type, value);
    if (now > -0x1p63 && now < 0x1p63)
        __atomic_store_n(&c->count, (uint64_t)(int64_t)now, __ATOMIC_RELAXED);
    if (mtp__itt_wanted())
        mtp_counter(c->name, now);
}

static void counter_set_value_ex(counter *c, void *clock, uint64_t when, const void *value)
{
    (void)clock, (void)when;
    counter_set_value(c, value);
}

/* Counters that a domain and a string name. */
static void counter_inc_delta_v3(const mtp__itt_domain *domain, mtp__itt_string *string, uint64_t delta)
{
    mtp__itt_shown *shown = domain != NULL ? mtp__itt_show(domain, string) : NULL;
    if (shown != NULL)
        add(&shown->count, shown->name, delta);
}

static void counter_inc_v3(const mtp__itt_domain *domain, mtp__itt_string *string)
{
    counter_inc_delta_v3(domain, string, 1);
}

static void counter_dec_delta_v3(const mtp__itt_domain *domain, mtp__itt_string *string, uint64_t delta)
{
    counter_inc_delta_v3(domain, string, 0 - delta);
}

static void counter_dec_v3(const mtp__itt_domain *domain, mtp__itt_string *string)
{
    counter_inc_delta_v3(domain, string, UINT64_MAX);
}

static void counter_destroy(counter *c)
{
    (void)c;
}

const mtp__itt_entry mtp__itt_counters[] = {
    MTP__ITT_ENTRY("counter_create", counter_create),
    MTP__ITT_ENTRY("counter_create_typed", counter_create_typed),
    MTP__ITT_ENTRY("counter_create_v3", counter_create_v3),
    MTP__ITT_ENTRY("counter_inc", counter_inc),
    MTP__ITT_ENTRY("counter_inc_delta", counter_inc_delta),
    MTP__ITT_ENTRY("counter_dec", counter_dec),
    MTP__ITT_ENTRY("counter_dec_delta", counter_dec_delta),
    MTP__ITT_ENTRY("counter_set_value", counter_set_value),
    MTP__ITT_ENTRY("counter_set_value_ex", counter_set_value_ex),
    MTP__ITT_ENTRY("counter_set_value_v3", counter_set_value),
    MTP__ITT_ENTRY("counter_inc_v3", counter_inc_v3),
    MTP__ITT_ENTRY("counter_inc_delta_v3", counter_inc_delta_v3),
    MTP__ITT_ENTRY("counter_dec_v3", counter_dec_v3),
    MTP__ITT_ENTRY("counter_dec_delta_v3", counter_dec_delta_v3),
    MTP__ITT_ENTRY("counter_destroy", counter_destroy),
    {NULL, NULL},
};
