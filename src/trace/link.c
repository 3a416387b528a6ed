/* trace/link.c - which CPU span launched which device work.
 *
 * The correlation id leads from device work to the runtime call that launched it, and from there to an op:
 * the one whose "External id" the call carries, if it encloses the call, else the innermost enclosing op.
 * Only a call without an enclosing op (some versions of Kineto put calls on a separate row) is matched by the
 * id alone, if that op was running at the time. This includes all kernels of a CUDA graph, which share one
 * launch. Work without a launch is matched by its own "External id". If Kineto knew of no op it writes the
 * correlation there, for device work and for calls: such an id is not an op's, though some op may have the
 * same number.
 *
 * Files merged from several processes have every id several times: a call and its op must then be in the same
 * process, and work is launched by the process its device belongs to (device_home). Recordings that were read
 * as one trace do not: their ids were shifted (join/join.c).
 */
#include <string.h>
#include "base/error.h"
#include "base/os.h"
#include "base/pair_map.h"
#include "trace/build.h"
#include "trace/facts.h"

#define SAMPLES 256 /* kernels sampled per stream to identify its process */
#define HOMES 4096  /* most processes told apart */

/* A process that makes calls: 1 .. homes. ANY: the first found. */
enum {
    ANY = 0
};

/* 0 is not an id. */
static uint32_t span_of(const mtp__pair_map *m, uint64_t id, uint32_t home)
{
    const uint64_t *span = id != 0 ? mtp__pair_find(m, id, home) : NULL;
    return span != NULL ? (uint32_t)*span : MTP__NONE;
}

/* The op that a launch belongs to: itself or the nearest enclosing one; without one, the launch. */
static uint32_t op_of(const mtp_trace *t, uint32_t launch)
{
    for (uint32_t i = launch; i != MTP__NONE; i = t->parent[i])
        if (t->category[i] == MTP__CATEGORY_CPU_OP)
            return i;
    for (uint32_t i = launch; i != MTP__NONE; i = t->parent[i])
        if (mtp__has_external_id(t, i))
            return i;
    return launch;
}

typedef struct links {
    mtp__pair_map op;     /* (External id, process) -> span: the first */
    mtp__pair_map launch; /* by correlation */
    uint32_t homes;       /* processes that make calls; if one, everything is under ANY */
    uint32_t *home; /* owned, by track: a thread's process; for a stream, the one that launches its work */
    bool foreign;   /* External ids of device work are its correlation ids */
} links;

static bool has_calls(const mtp_trace *t, const mtp__track *track)
{
    for (uint32_t i = track->first; !track->on_device && i < track->first + track->count; i++)
        if (mtp__is_runtime_call(t, i) && mtp__trace_detail(t, i)->correlation != 0)
            return true;
    return false;
}

/* Counts the processes with calls first, so that a file of one process need not distinguish them. */
static bool find_homes(const mtp_trace *t, links *l)
{
    mtp__pair_map of = {0};
    bool is_new, fine = true;
    for (uint32_t k = 0; k < t->track_count && fine; k++) {
        const mtp__track *track = &t->tracks[k];
        if (!has_calls(t, track))
            continue;
        fine = mtp__pair_put(&of, (uint64_t)track->pid, track->pid_text, l->homes + 1, &is_new) != NULL;
        l->homes += fine && is_new;
    }
    l->homes = l->homes <= HOMES && !mtp__is_recording(t) ? l->homes : 1;
    for (uint32_t k = 0; k < t->track_count && fine && l->homes > 1; k++) {
        const mtp__track *track = &t->tracks[k];
        uint64_t *home = mtp__pair_find(&of, (uint64_t)track->pid, track->pid_text);
        l->home[k] = home != NULL && !track->on_device ? (uint32_t)*home : ANY;
    }
    mtp__pair_map_fini(&of);
    return fine;
}

/* With several processes, for its process and for ANY. */
static bool put(mtp__pair_map *m, uint64_t id, uint32_t home, uint32_t span)
{
    bool is_new;
    return mtp__pair_put(m, id, ANY, span, &is_new) != NULL &&
           (home == ANY || mtp__pair_put(m, id, home, span, &is_new) != NULL);
}

/* Calls come first: anything else with a correlation (one of our ops) is only a fallback. */
static bool gather(const mtp_trace *t, links *l)
{
    bool fine = true;
    for (int calls = 1; calls >= 0; calls--)
        for (uint32_t k = 0; k < t->track_count; k++) {
            const mtp__track *track = &t->tracks[k];
            for (uint32_t i = track->first; fine && !track->on_device && i < track->first + track->count;
                 i++) {
                const mtp__detail *d = mtp__trace_detail(t, i);
                if (calls == 0 && d->external_id != 0 && mtp__has_external_id(t, i))
                    fine = put(&l->op, d->external_id, l->home[k], i);
                if (d->correlation != 0 && mtp__is_runtime_call(t, i) == (calls == 1))
                    fine = fine && put(&l->launch, d->correlation, l->home[k], i);
            }
        }
    return fine;
}

/* How much of the stream's work the process may have launched: it made calls with the same ids, before the
 * work began. */
static uint32_t works_of(const mtp_trace *t, const links *l, const mtp__track *stream, uint32_t home)
{
    uint32_t count = 0, by = stream->count / SAMPLES + 1;
    for (uint32_t i = 0; i < stream->count; i += by) {
        uint32_t work = stream->first + i;
        uint32_t call = span_of(&l->launch, mtp__trace_detail(t, work)->correlation, home);
        count += call != MTP__NONE && t->start[call] <= t->start[work];
    }
    return count;
}

/* The process that launches a stream's work: the one that matches most of it. On a tie (ranks in step), by
 * position: the second device belongs to the second process. */
static uint32_t device_home(const mtp_trace *t, const links *l, const mtp__track *stream, uint32_t nth)
{
    uint32_t best = 1 + nth % l->homes, most = works_of(t, l, stream, best);
    for (uint32_t home = 1; home <= l->homes; home++) {
        uint32_t works = works_of(t, l, stream, home);
        if (works > most) {
            most = works;
            best = home;
        }
    }
    return most > 0 ? best : ANY;
}

static bool find_device_homes(const mtp_trace *t, links *l)
{
    mtp__pair_map devices = {0};
    uint32_t count = 0;
    bool is_new, fine = true;
    for (uint32_t k = 0; k < t->track_count && l->homes > 1 && fine; k++) {
        const mtp__track *track = &t->tracks[k];
        if (!track->on_device || track->count == 0)
            continue;
        uint64_t *nth = mtp__pair_put(&devices, (uint64_t)track->pid, track->pid_text, count, &is_new);
        fine = nth != NULL;
        count += fine && is_new;
        l->home[k] = fine ? device_home(t, l, track, (uint32_t)*nth) : ANY;
    }
    mtp__pair_map_fini(&devices);
    return fine;
}

/* A single match may be chance; a majority is not. */
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

/* The op in which a call was made. */
static uint32_t caller_of(const mtp_trace *t, const links *l, uint32_t call, uint32_t home)
{
    const mtp__detail *d = mtp__trace_detail(t, call);
    uint32_t op = d->external_id != d->correlation ? span_of(&l->op, d->external_id, home) : MTP__NONE;
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

static uint32_t launcher_of(const mtp_trace *t, const links *l, uint32_t work, uint32_t home)
{
    const mtp__detail *d = mtp__trace_detail(t, work);
    if (t->category[work] == MTP__CATEGORY_GPU_USER_ANNOTATION) {
        if (mtp__is_recording(t))
            return d->external_id != 0 ? (uint32_t)d->external_id - 1 : MTP__NONE;
        return span_of(&l->op, d->external_id, home);
    }
    uint32_t call = span_of(&l->launch, d->correlation, home);
    if (call != MTP__NONE)
        return caller_of(t, l, call, home);
    return l->foreign ? MTP__NONE : span_of(&l->op, d->external_id, home);
}

static bool links_init(const mtp_trace *t, links *l)
{
    *l = (links){.foreign = ids_are_foreign(t),
                 .home = mtp__calloc((size_t)t->track_count + 1, sizeof *l->home)};
    return l->home != NULL && find_homes(t, l) && gather(t, l) && find_device_homes(t, l);
}

static void links_fini(links *l)
{
    mtp__pair_map_fini(&l->op);
    mtp__pair_map_fini(&l->launch);
    mtp__free(l->home);
}

mtp_status mtp__trace_link(mtp_trace *t)
{
    bool any = false;
    for (uint32_t k = 0; k < t->track_count; k++)
        any |= t->tracks[k].on_device && t->tracks[k].count > 0;
    if (!any || t->detail == NULL)
        return MTP_OK;
    links l;
    t->launcher = mtp__calloc(t->span_count, sizeof *t->launcher);
    bool fine = links_init(t, &l) && t->launcher != NULL;
    if (fine)
        memset(t->launcher, 0xff, t->span_count * sizeof *t->launcher);
    for (uint32_t k = 0; k < t->track_count && fine; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; track->on_device && i < track->first + track->count; i++) {
            uint32_t launcher = launcher_of(t, &l, i, l.home[k]);
            t->launcher[i] =
                launcher != MTP__NONE || l.home[k] == ANY ? launcher : launcher_of(t, &l, i, ANY);
        }
    }
    links_fini(&l);
    return fine ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "links of %u spans", t->span_count);
}

uint64_t mtp__trace_external_id(const mtp_trace *t, uint32_t span)
{
    const mtp__detail *d = mtp__trace_detail(t, span);
    if (d->external_id != 0 || !mtp__is_recording(t))
        return d->external_id;
    if (mtp__category_on_device((mtp__category)t->category[span])) {
        uint32_t launcher = t->launcher != NULL ? t->launcher[span] : MTP__NONE;
        return launcher != MTP__NONE ? (uint64_t)launcher + 1 : 0;
    }
    return (uint64_t)(mtp__is_runtime_call(t, span) ? op_of(t, span) : span) + 1;
}
