/* trace/link.c - which CPU span launched which device work.
 *
 * Kineto writes the launching op's "External id" on the device's event; else the correlation id leads to the runtime
 * call, and from there to the op around it.
 */
#include <string.h>
#include "base/error.h"
#include "base/hash.h"
#include "base/os.h"
#include "trace/build.h"

#define OP_UP 4096 /* levels that a call's op is looked for */

/* Ids to spans: open addressing, 0 is no id. The first span with an id keeps it. */
typedef struct id_map {
    struct {
        uint64_t id;
        uint32_t span;
    } * slot; /* owned */
    size_t mask;
} id_map;

static bool map_init(id_map *m, size_t count)
{
    size_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    m->mask = slots - 1;
    m->slot = mtp__calloc(slots, sizeof *m->slot);
    return m->slot != NULL;
}

static size_t map_at(const id_map *m, uint64_t id)
{
    size_t at = mtp__hash_mix(id, MTP__HASH_K1) & m->mask;
    while (m->slot[at].id != 0 && m->slot[at].id != id)
        at = (at + 1) & m->mask;
    return at;
}

static void map_put(id_map *m, uint64_t id, uint32_t span)
{
    size_t at = map_at(m, id);
    if (m->slot[at].id == 0) {
        m->slot[at].id = id;
        m->slot[at].span = span;
    }
}

static uint32_t map_get(const id_map *m, uint64_t id)
{
    size_t at = id != 0 ? map_at(m, id) : 0;
    return id != 0 && m->slot[at].id == id ? m->slot[at].span : MTP__NONE;
}

static bool is_op(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CPU_OP || t->category[span] == MTP__CATEGORY_USER_ANNOTATION;
}

/* The op that a launch belongs to: itself or the nearest around it; without one, the launch. */
static uint32_t op_of(const mtp_trace *t, uint32_t launch)
{
    for (uint32_t i = launch; i != MTP__NONE; i = t->parent[i])
        if (t->category[i] == MTP__CATEGORY_CPU_OP)
            return i;
    for (uint32_t i = launch; i != MTP__NONE; i = t->parent[i])
        if (is_op(t, i))
            return i;
    return launch;
}

static void gather(const mtp_trace *t, id_map *by_external, id_map *by_correlation)
{
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; !track->on_device && i < track->first + track->count; i++) {
            const mtp__detail *d = mtp__trace_detail(t, i);
            if (d->external_id != 0 && is_op(t, i))
                map_put(by_external, d->external_id, i);
            if (d->correlation != 0)
                map_put(by_correlation, d->correlation, i);
        }
    }
}

mtp_status mtp__trace_link(mtp_trace *t)
{
    bool any = false;
    for (uint32_t k = 0; k < t->track_count; k++)
        any |= t->tracks[k].on_device && t->tracks[k].count > 0;
    if (!any || t->detail == NULL)
        return MTP_OK;
    id_map by_external = {0}, by_correlation = {0};
    t->launcher = mtp__calloc(t->span_count, sizeof *t->launcher);
    if (t->launcher == NULL || !map_init(&by_external, t->detail_count) ||
        !map_init(&by_correlation, t->detail_count)) {
        mtp__free(by_external.slot);
        return MTP_FAIL(MTP_E_NOMEM, "links of %u spans", t->span_count);
    }
    gather(t, &by_external, &by_correlation);
    memset(t->launcher, 0xff, t->span_count * sizeof *t->launcher);
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; track->on_device && i < track->first + track->count; i++) {
            const mtp__detail *d = mtp__trace_detail(t, i);
            uint32_t span = map_get(&by_external, d->external_id);
            if (!t->from_kineto && t->category[i] == MTP__CATEGORY_GPU_USER_ANNOTATION) {
                span = d->external_id != 0 ? (uint32_t)d->external_id - 1 : MTP__NONE;
            } else if (span == MTP__NONE) {
                span = map_get(&by_correlation, d->correlation);
                span = span != MTP__NONE ? op_of(t, span) : MTP__NONE;
            }
            t->launcher[i] = span;
        }
    }
    mtp__free(by_external.slot);
    mtp__free(by_correlation.slot);
    return MTP_OK;
}

uint64_t mtp__trace_external_id(const mtp_trace *t, uint32_t span)
{
    const mtp__detail *d = mtp__trace_detail(t, span);
    if (d->external_id != 0 || t->from_kineto)
        return d->external_id;
    if (mtp__category_on_device((mtp__category)t->category[span])) {
        uint32_t launcher = t->launcher != NULL ? t->launcher[span] : MTP__NONE;
        return launcher != MTP__NONE ? (uint64_t)launcher + 1 : 0;
    }
    uint32_t op = span;
    if (t->category[span] == MTP__CATEGORY_CUDA_RUNTIME || t->category[span] == MTP__CATEGORY_CUDA_DRIVER)
        for (int up = 0; up < OP_UP && op != MTP__NONE && !is_op(t, op); up++)
            op = t->parent[op];
    return op != MTP__NONE ? (uint64_t)op + 1 : (uint64_t)span + 1;
}
