/* trace/link.c - which CPU span launched which device work.
 *
 * The correlation id leads from device work to the runtime call that launched it, and from there to an op: the one whose
 * "External id" the call carries, if it is around the call, else the innermost that is. Only a call that no op is around
 * (some versions of Kineto give calls a row of their own) goes by the id alone, if that op was running then. That holds
 * for all kernels of a CUDA graph, too, which share their launch. Work without a launch goes by its own "External id". Kineto
 * writes the correlation there if it knew of no op, on device work and on calls: such an id is no op's, though some op
 * may have the same number.
 */
#include <string.h>
#include "base/error.h"
#include "base/hash.h"
#include "base/os.h"
#include "trace/build.h"

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

static bool is_call(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CUDA_RUNTIME || t->category[span] == MTP__CATEGORY_CUDA_DRIVER;
}

typedef struct links {
    id_map op;     /* by External id */
    id_map launch; /* by correlation */
    bool foreign;  /* External ids of device work are its correlations */
} links;

/* Calls come first: what else has a correlation (an op of ours) only stands in for them. */
static void gather(const mtp_trace *t, links *l)
{
    for (int calls = 1; calls >= 0; calls--)
        for (uint32_t k = 0; k < t->track_count; k++) {
            const mtp__track *track = &t->tracks[k];
            for (uint32_t i = track->first; !track->on_device && i < track->first + track->count; i++) {
                const mtp__detail *d = mtp__trace_detail(t, i);
                if (calls == 0 && d->external_id != 0 && is_op(t, i))
                    map_put(&l->op, d->external_id, i);
                if (d->correlation != 0 && is_call(t, i) == (calls == 1))
                    map_put(&l->launch, d->correlation, i);
            }
        }
}

/* One such id may be chance; most of them are not. */
static bool ids_are_foreign(const mtp_trace *t)
{
    size_t same = 0, all = 0;
    for (uint32_t i = 0; i < t->span_count; i++) {
        const mtp__detail *d = mtp__trace_detail(t, i);
        bool both = d->external_id != 0 && d->correlation != 0 &&
                    mtp__category_on_device((mtp__category)t->category[i]);
        all += both;
        same += both && d->external_id == d->correlation;
    }
    return same * 2 > all;
}

/* The op that a call was made in. */
static uint32_t caller_of(const mtp_trace *t, const links *l, uint32_t call)
{
    const mtp__detail *d = mtp__trace_detail(t, call);
    uint32_t op = d->external_id != d->correlation ? map_get(&l->op, d->external_id) : MTP__NONE;
    uint32_t inside = op_of(t, call);
    if (op == MTP__NONE || inside == op || t->start[op] > t->start[call] || t->start[call] >= t->end[op])
        return inside;
    if (inside == call)
        return op;
    for (uint32_t i = call; i != MTP__NONE; i = t->parent[i])
        if (i == op)
            return op;
    return inside;
}

static uint32_t launcher_of(const mtp_trace *t, const links *l, uint32_t work)
{
    const mtp__detail *d = mtp__trace_detail(t, work);
    if (t->category[work] == MTP__CATEGORY_GPU_USER_ANNOTATION) {
        if (!t->from_kineto)
            return d->external_id != 0 ? (uint32_t)d->external_id - 1 : MTP__NONE;
        return map_get(&l->op, d->external_id);
    }
    uint32_t call = map_get(&l->launch, d->correlation);
    if (call != MTP__NONE)
        return caller_of(t, l, call);
    return l->foreign ? MTP__NONE : map_get(&l->op, d->external_id);
}

mtp_status mtp__trace_link(mtp_trace *t)
{
    bool any = false;
    for (uint32_t k = 0; k < t->track_count; k++)
        any |= t->tracks[k].on_device && t->tracks[k].count > 0;
    if (!any || t->detail == NULL)
        return MTP_OK;
    links l = {.foreign = ids_are_foreign(t)};
    t->launcher = mtp__calloc(t->span_count, sizeof *t->launcher);
    if (t->launcher == NULL || !map_init(&l.op, t->detail_count) || !map_init(&l.launch, t->detail_count)) {
        mtp__free(l.op.slot);
        return MTP_FAIL(MTP_E_NOMEM, "links of %u spans", t->span_count);
    }
    gather(t, &l);
    memset(t->launcher, 0xff, t->span_count * sizeof *t->launcher);
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; track->on_device && i < track->first + track->count; i++)
            t->launcher[i] = launcher_of(t, &l, i);
    }
    mtp__free(l.op.slot);
    mtp__free(l.launch.slot);
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
    return (uint64_t)(is_call(t, span) ? op_of(t, span) : span) + 1;
}
