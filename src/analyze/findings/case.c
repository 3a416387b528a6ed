/* analyze/findings/case.c - what the rules share: which part of the trace is examined, what names mean, device
 * work by time, and why devices were idle.
 *
 * Why a device was idle is read from the next piece of work: if it had been launched before the device ran dry,
 * the device took its time (QUEUED). If not, the host was late: because it had waited for the device itself
 * (SYNC), because it was loading data (LOADER), or because it was busy with anything else (HOST).
 */
#include <stdlib.h>
#include <string.h>
#include "analyze/by_time.h"
#include "analyze/findings/findings.h"
#include "analyze/torch/rules.h"
#include "base/bisect.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"

#define REST_SHARE 0.5     /* of what follows the last step(), for which the device works on */
#define REST_OPS 8u        /* no more than read a result there */
#define STEPS_LEFT 3u      /* so many steps remain when warm-up is left out */
#define REQUEST_NS 1000000 /* a shorter pause between a result and the next launch is no wait for requests */
#define CLOCK_NS 20000     /* by how much the clocks of host and device may differ */
#define SYNCS_BACK 8u      /* so many synchronisations before a launch are looked at */
#define LOADER_SHARE 0.5   /* of a gap that lies in a loader's scope */

/* ----------------------------------------------------------------------------------------------- names */

typedef enum match { /* what a text of the table is */
    WHOLE,
    PREFIX,
    PART
} match;

static const struct {
    const char *text;
    match match;
    uint16_t bits;
} known[] = {
    {"Synchronize", PART,
     MTP__NAME_SYNC}, /* cudaStreamSynchronize, hipDeviceSynchronize, cuEventSynchronize ... */
    {"clFinish", WHOLE, MTP__NAME_SYNC},
    {"clWaitForEvents", WHOLE, MTP__NAME_SYNC},
    {"cudaMemcpy", WHOLE, MTP__NAME_SYNC},
    {"hipMemcpy", WHOLE, MTP__NAME_SYNC},
    {"enumerate(DataLoader)#", PREFIX, MTP__NAME_LOADER},
    {"aten::_to_copy", WHOLE, MTP__NAME_CAST},
    {"aten::to", WHOLE, MTP__NAME_TO},
    {"aten::contiguous", WHOLE, MTP__NAME_LAYOUT},
    {"aten::reshape", WHOLE, MTP__NAME_LAYOUT},
    {"aten::flatten", WHOLE, MTP__NAME_LAYOUT},
    {"aten::clone", WHOLE, MTP__NAME_CLONE},
    {"ncclDevKernel", PREFIX, MTP__NAME_COLLECTIVE},
    {"ncclKernel", PREFIX, MTP__NAME_COLLECTIVE},
    {"hcom_", PREFIX, MTP__NAME_COLLECTIVE},
    {"Memcpy HtoD", PREFIX, MTP__NAME_COPY_IN},
    {"Memcpy DtoH", PREFIX, MTP__NAME_COPY_OUT},
    {"Pageable", PART, MTP__NAME_PAGEABLE},
    {"_sgemm_", PART, MTP__NAME_PLAIN_FLOAT},
    {"_ffma_", PART, MTP__NAME_PLAIN_FLOAT},
    {"simt_sgemm", PART, MTP__NAME_PLAIN_FLOAT},
    {"aten::mm", WHOLE, MTP__NAME_PRODUCT},
    {"aten::addmm", WHOLE, MTP__NAME_PRODUCT},
    {"aten::bmm", WHOLE, MTP__NAME_PRODUCT},
    {"aten::baddbmm", WHOLE, MTP__NAME_PRODUCT},
    {"Python GC", PREFIX, MTP__NAME_GC},
    {"Optimizer.step#", PREFIX, MTP__NAME_OPTIMIZER},
    {"LaunchKernel", PART, MTP__NAME_LAUNCH}, /* cudaLaunchKernel, cuLaunchKernelEx, hipLaunchKernel ... */
    {"GraphLaunch", PART, MTP__NAME_LAUNCH},
    {"clEnqueueNDRangeKernel", WHOLE, MTP__NAME_LAUNCH},
};

static uint16_t bits_of(mtp_text name)
{
    uint16_t bits = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t length = strlen(known[i].text);
        bool is = known[i].match == PART ? strstr(name.bytes, known[i].text) != NULL
                  : known[i].match == WHOLE
                      ? name.length == length && memcmp(name.bytes, known[i].text, length) == 0
                      : mtp__text_begins(name, known[i].text, length);
        bits |= is ? known[i].bits : 0;
    }
    /* tensor cores are in the names of the kernels that use them */
    if (strstr(name.bytes, "tf32") != NULL || strstr(name.bytes, "tensorop") != NULL)
        bits &= (uint16_t)~MTP__NAME_PLAIN_FLOAT;
    return bits;
}

static bool name_init(mtp__case *c)
{
    uint32_t count = mtp__intern_count(&c->t->text);
    c->names = mtp__calloc((size_t)count + 1, sizeof *c->names);
    for (uint32_t id = 1; c->names != NULL && id <= count; id++)
        c->names[id] = bits_of(mtp__trace_get_text(c->t, id));
    return c->names != NULL;
}

/* ------------------------------------------------------------------------------------------- which part */

static bool is_recording(const mtp__case *c, uint32_t span)
{
    mtp_text category = mtp__trace_get_text(c->t, mtp__trace_detail(c->t, span)->category);
    return MTP__EQUALS(category, MTP__RECORDING_CATEGORY);
}

static bool is_device_work(const mtp__case *c, uint32_t span)
{
    uint8_t category = c->t->category[span];
    return category == MTP__CATEGORY_KERNEL || category == MTP__CATEGORY_GPU_MEMCPY ||
           category == MTP__CATEGORY_GPU_MEMSET ||
           (category == MTP__CATEGORY_OTHER && !is_recording(c, span));
}

/* How long a thread is in ops and calls, those inside others not counted again. */
static double busy_of(const mtp__case *c, const mtp__track *track)
{
    double sum = 0;
    for (uint32_t i = track->first; i < track->first + track->count; i++)
        if (c->owner[i] == i && (c->t->parent[i] == MTP__NONE || c->owner[c->t->parent[i]] == MTP__NONE))
            sum += (double)c->t->end[i] - (double)c->t->start[i];
    return sum;
}

/* Fills owner: the nearest op or call around a span, itself included. */
static bool owner_init(mtp__case *c)
{
    const mtp_trace *t = c->t;
    c->owner = mtp__calloc((size_t)t->span_count + 1, sizeof *c->owner);
    for (uint32_t i = 0; c->owner != NULL && i < t->span_count; i++) /* parents come first */
        c->owner[i] = mtp__case_is_work(c, i)     ? i
                      : t->parent[i] == MTP__NONE ? MTP__NONE
                                                  : c->owner[t->parent[i]];
    return c->owner != NULL;
}

static bool own_init(mtp__case *c)
{
    const mtp_trace *t = c->t;
    c->own = mtp__calloc((size_t)t->span_count + 1, sizeof *c->own);
    for (uint32_t i = 0; c->own != NULL && i < t->span_count; i++) {
        uint32_t up = t->parent[i] != MTP__NONE ? c->owner[t->parent[i]] : MTP__NONE;
        if (c->owner[i] != i)
            continue;
        c->own[i] = mtp__plus(c->own[i], mtp__duration(t, i));
        if (up != MTP__NONE)
            c->own[up] = mtp__minus(c->own[up], mtp__duration(t, i));
    }
    return c->own != NULL;
}

/* The process of the steps; without steps that of the busiest thread. Devices belong to whoever used them. */
static void choose_tracks(mtp__case *c)
{
    const mtp_trace *t = c->t;
    const mtp__track *of = NULL;
    double most = -1;
    bool several = false;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        if (track->on_device || (c->steps->pid != 0 && track->pid != c->steps->pid))
            continue;
        double busy = busy_of(c, track);
        if (busy > most)
            most = busy, of = track;
    }
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        bool same = of == NULL ||
                    (t->recording_count > 1
                         ? track->part == of->part
                         : track->on_device || (track->pid == of->pid && track->pid_text == of->pid_text));
        c->wanted[k] = same;
        several |= !same && busy_of(c, track) > 0;
    }
    c->main_track = of != NULL ? (uint32_t)(of - t->tracks) : MTP__NONE;
    c->findings->summary.process = several ? of->pid : 0;
}

bool mtp__case_is_late(const mtp_step_row *row)
{
    return row->is_outlier && row->more_ns > 0;
}

/* The host may run ahead: what it has launched in the steps takes the device longer, and the rest after the last step() is a part
 * of the time that they take. */
static void take_rest(mtp__case *c)
{
    mtp_steps *s = c->steps;
    mtp_step_row *row = s->count > 1 && !s->whole_trace ? &s->rows[s->count - 1] : NULL;
    c->has_rest = row != NULL && row->ops == 0;
    if (row != NULL && mtp__case_is_late(row) && row->ops <= REST_OPS &&
        (double)row->times.device_ns >= REST_SHARE * (double)row->times.wall_ns)
        row->is_outlier = false, row->more_ns = 0, c->has_rest = true;
}

/* When a program without steps begins to work, and when it has done so: what precedes that, such as imports and their garbage
 * collection, is how it starts, and what follows is how the interpreter ends. */
static void clip_to_work(mtp__case *c)
{
    const mtp_trace *t = c->t;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; c->wanted[k] && i < track->first + track->count; i++)
            if (t->category[i] != MTP__CATEGORY_PYTHON_FUNCTION && !mtp__is_step(t, i) &&
                !is_recording(c, i)) {
                first = t->start[i] < first ? t->start[i] : first;
                last = t->end[i] > last ? t->end[i] : last;
            }
    }
    if (first > last)
        return;
    c->from = first > c->from ? first : c->from;
    c->to = last < c->to ? last : c->to;
}

/* Between the cycles of a schedule nothing is recorded, and steps go on with a higher number; or from the start. */
static bool is_pause_after(const mtp_steps *s, uint32_t i)
{
    const mtp_step_row *row = &s->rows[i];
    return i + 1 < s->count && (uint64_t)row[1].number - (uint64_t)row->number != 1 &&
           row[1].start_ns > row->end_ns;
}

/* Warm-up, leading steps that are far longer than the others, is left out; of the rest, such steps do not count. */
static void choose_time(mtp__case *c)
{
    const mtp_steps *s = c->steps;
    uint32_t k = 0;
    take_rest(c);
    while (!s->whole_trace && k + STEPS_LEFT < s->count && k < (s->count + 3) / 4 &&
           mtp__case_is_late(&s->rows[k]))
        k++;
    c->first_step = k;
    c->is_stepped = !s->whole_trace && s->count > 1;
    c->from = s->rows[k].start_ns;
    c->to = c->from;
    double left_out = 0;
    for (uint32_t i = k; i < s->count; i++) {
        bool late = mtp__case_is_late(&s->rows[i]), pause = is_pause_after(s, i);
        c->to = s->rows[i].end_ns > c->to ? s->rows[i].end_ns : c->to;
        c->has_left_out |= late || pause;
        left_out += late ? (double)s->rows[i].times.wall_ns : 0;
        left_out += pause ? (double)s->rows[i + 1].start_ns - (double)s->rows[i].end_ns : 0;
    }
    if (!c->is_stepped)
        clip_to_work(c);
    c->from = c->from < c->to ? c->from : c->to;
    /* so that sums and differences cannot overflow */
    bool sane = c->from > -(INT64_MAX / 4) && c->to < INT64_MAX / 4;
    c->whole = sane ? (double)c->to - (double)c->from - left_out : 0;
}

const mtp_step_row *mtp__case_step(const mtp__case *c, int64_t ts)
{
    mtp__step_counting counting = {c->steps->rows, c->steps->count, 0, c->steps->whole_trace};
    return c->steps->whole_trace || ts < c->steps->rows[0].start_ns ? NULL : mtp__step_row_at(&counting, ts);
}

/* The last step that begins at an instant or before; MTP__NONE: it precedes them all. */
static uint32_t step_before(const mtp_steps *s, int64_t ts)
{
    uint32_t low = 0, high = s->count;
    MTP__BISECT(low, high, mid, s->rows[mid].start_ns <= ts)
    return low > 0 ? low - 1 : MTP__NONE;
}

bool mtp__case_in_left_out(const mtp__case *c, int64_t ts)
{
    uint32_t i = step_before(c->steps, ts);
    if (i == MTP__NONE)
        return false;
    return ts < c->steps->rows[i].end_ns ? mtp__case_is_late(&c->steps->rows[i])
                                         : is_pause_after(c->steps, i);
}

int64_t mtp__case_clip(const mtp__case *c, int64_t start, int64_t end)
{
    const mtp_steps *s = c->steps;
    if (!c->has_left_out)
        return end;
    for (uint32_t i = step_before(s, start) + 1; i <= s->count; i++) { /* MTP__NONE + 1 is 0 */
        if (i > 0 && is_pause_after(s, i - 1) && s->rows[i - 1].end_ns > start)
            return s->rows[i - 1].end_ns < end ? s->rows[i - 1].end_ns : end;
        if (i == s->count || s->rows[i].start_ns >= end)
            break;
        if (s->rows[i].start_ns > start && mtp__case_is_late(&s->rows[i]))
            return s->rows[i].start_ns;
    }
    return end;
}

uint32_t mtp__case_around(const mtp__case *c, uint32_t span, uint16_t bits)
{
    uint32_t up = c->t->parent[span];
    while (up != MTP__NONE && (mtp__case_name(c, up) & bits) == 0)
        up = c->t->parent[up];
    return up;
}

/* --------------------------------------------------------------------------------------------- loaders */

static int by_start(const void *a, const void *b)
{
    const mtp__interval *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->span < y->span ? -1 : x->span > y->span;
}

static bool gather_loads(mtp__case *c)
{
    const mtp_trace *t = c->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; c->wanted[k] && !track->on_device && i < track->first + track->count;
             i++) {
            c->has_ops |= t->category[i] == MTP__CATEGORY_CPU_OP;
            c->trains = c->trains || (mtp__case_name(c, i) & (MTP__NAME_OPTIMIZER | MTP__NAME_LOADER)) != 0 ||
                        mtp__is_engine_scope(t, i) || mtp__is_backward(t, i);
            if ((mtp__case_name(c, i) & MTP__NAME_LOADER) == 0 ||
                t->category[i] != MTP__CATEGORY_USER_ANNOTATION ||
                mtp__case_around(c, i, MTP__NAME_LOADER) != MTP__NONE || mtp__case_time(c, i) <= 0)
                continue;
            if (!MTP__GROW(c->loads, c->load_room, c->load_count, c->load_count + 1, 64))
                return false;
            c->loads[c->load_count++] = (mtp__interval){t->start[i], t->end[i], i};
        }
    }
    if (c->load_count > 1)
        qsort(c->loads, c->load_count, sizeof *c->loads, by_start);
    return true;
}

mtp_status mtp__case_init(mtp__case *c, const mtp_trace *t, mtp_findings *findings)
{
    *c = (mtp__case){.t = t, .findings = findings, .main_track = MTP__NONE};
    mtp_status status = mtp_steps_create(t, &c->steps);
    if (status != MTP_OK)
        return status;
    c->wanted = mtp__calloc((size_t)t->track_count + 1, 1);
    if (c->wanted == NULL || !name_init(c) || !owner_init(c) || !own_init(c))
        return MTP_FAIL(MTP_E_NOMEM, "findings of %u spans", t->span_count);
    choose_tracks(c);
    choose_time(c);
    if (!gather_loads(c))
        return MTP_FAIL(MTP_E_NOMEM, "findings of %u spans", t->span_count);
    return mtp__sources_init(&c->sources, t);
}

void mtp__case_fini(mtp__case *c)
{
    mtp__sources_fini(&c->sources);
    mtp__free(c->loads);
    mtp__free(c->idle);
    mtp__free(c->work);
    mtp__free(c->own);
    mtp__free(c->owner);
    mtp__free(c->wanted);
    mtp__free(c->names);
    mtp_steps_destroy(c->steps);
}

/* ---------------------------------------------------------------------------------------- device work */

typedef struct searching {
    mtp__case *c;
    mtp__hash_map calls;  /* correlation -> 1 + span */
    mtp__interval *syncs; /* owned: by end */
    uint32_t sync_count, sync_room;
    uint32_t load; /* the next loader's scope */
} searching;

static bool add_sync(searching *s, uint32_t span)
{
    if (!MTP__GROW(s->syncs, s->sync_room, s->sync_count, s->sync_count + 1, 64))
        return false;
    s->syncs[s->sync_count++] = (mtp__interval){s->c->t->start[span], s->c->t->end[span], span};
    return true;
}

static bool gather_calls(searching *s)
{
    const mtp__case *c = s->c;
    const mtp_trace *t = c->t;
    bool is_new, fine = true;
    for (uint32_t k = 0; k < t->track_count && fine; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first;
             fine && c->wanted[k] && !track->on_device && i < track->first + track->count; i++) {
            if (!mtp__is_runtime_call(t, i))
                continue;
            uint64_t id = mtp__trace_detail(t, i)->correlation;
            uint32_t *at = id != 0 ? mtp__hash_map_put(&s->calls, &id, sizeof id, sizeof *at, &is_new) : NULL;
            fine = id == 0 || at != NULL;
            if (at != NULL && is_new)
                *at = i + 1;
            if (mtp__case_name(c, i) & MTP__NAME_SYNC)
                fine = add_sync(s, i);
        }
    }
    return fine;
}

static uint8_t kind_of(const mtp__case *c, uint32_t span)
{
    uint16_t name = mtp__case_name(c, span);
    if (c->t->category[span] == MTP__CATEGORY_GPU_MEMCPY)
        return name & MTP__NAME_COPY_IN    ? MTP__WORK_COPY_IN
               : name & MTP__NAME_COPY_OUT ? MTP__WORK_COPY_OUT
                                           : MTP__WORK_OTHER;
    if (c->t->category[span] == MTP__CATEGORY_GPU_MEMSET)
        return MTP__WORK_OTHER;
    return name & MTP__NAME_COLLECTIVE ? MTP__WORK_COLLECTIVE : MTP__WORK_KERNEL;
}

static bool gather_work(searching *s, mtp__by_time *order)
{
    mtp__case *c = s->c;
    const mtp_trace *t = c->t;
    for (uint32_t span, k; (span = mtp__by_time_next(order, &k)) != MTP__NONE;) {
        if (!is_device_work(c, span) || t->start[span] >= c->to || t->end[span] <= c->from ||
            t->end[span] <= t->start[span])
            continue;
        uint64_t id = mtp__trace_detail(t, span)->correlation;
        const uint32_t *call = id != 0 ? mtp__hash_map_find(&s->calls, &id, sizeof id, sizeof *call) : NULL;
        if (!MTP__GROW(c->work, c->work_room, c->works, c->works + 1, 256))
            return false;
        mtp__work *w = &c->work[c->works++];
        *w = (mtp__work){t->start[span] > c->from ? t->start[span] : c->from,
                         t->end[span] < c->to ? t->end[span] : c->to, span,
                         call != NULL ? *call - 1 : MTP__NONE, kind_of(c, span)};
        /* A copy to the host that had ended when the call returned: the call waited for it, and for all before. */
        if (w->kind == MTP__WORK_COPY_OUT && w->call != MTP__NONE &&
            (mtp__case_name(c, w->call) & MTP__NAME_SYNC) == 0 &&
            t->end[w->call] + CLOCK_NS >= t->end[span] && t->start[w->call] < t->end[span] &&
            !add_sync(s, w->call))
            return false;
    }
    c->has_device = c->works > 0;
    return true;
}

/* -------------------------------------------------------------------------------------------- idle time */

static int by_end(const void *a, const void *b)
{
    const mtp__interval *x = a, *y = b;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->span < y->span ? -1 : x->span > y->span;
}

/* The part of a gap that lies in loaders' scopes. Gaps come in order. */
static double loading(searching *s, const mtp__idle *gap, uint32_t *blame)
{
    const mtp__case *c = s->c;
    double sum = 0;
    while (s->load < c->load_count && c->loads[s->load].end <= gap->start)
        s->load++;
    for (uint32_t i = s->load; i < c->load_count && c->loads[i].start < gap->end; i++) {
        int64_t a = c->loads[i].start > gap->start ? c->loads[i].start : gap->start,
                b = c->loads[i].end < gap->end ? c->loads[i].end : gap->end;
        sum += b > a ? (double)(b - a) : 0;
        *blame = sum > 0 && *blame == MTP__NONE ? c->loads[i].span : *blame;
    }
    return sum;
}

/* The call that had waited until the device ran dry, and returned before the next launch. */
static uint32_t sync_before(const searching *s, const mtp__idle *gap, int64_t launched)
{
    uint32_t low = 0, high = s->sync_count;
    MTP__BISECT(low, high, mid, s->syncs[mid].end <= launched)
    for (uint32_t back = 0; back < SYNCS_BACK && low > 0; back++) {
        const mtp__interval *sync = &s->syncs[--low];
        if (sync->end < gap->start - CLOCK_NS)
            break;
        if (sync->start <= gap->start + CLOCK_NS)
            return sync->span;
    }
    return MTP__NONE;
}

static void blame(searching *s, mtp__idle *gap, uint32_t call)
{
    const mtp__case *c = s->c;
    gap->blame = MTP__NONE;
    if (mtp__case_is_left_out(c, gap->start)) {
        gap->cause = MTP__IDLE_OUTLIER;
    } else if (loading(s, gap, &gap->blame) >= LOADER_SHARE * (double)(gap->end - gap->start)) {
        gap->cause = MTP__IDLE_LOADER;
    } else if (call == MTP__NONE) {
        gap->cause = MTP__IDLE_UNKNOWN;
    } else if (c->t->end[call] <= gap->start) {
        gap->cause = MTP__IDLE_QUEUED;
    } else {
        gap->blame = sync_before(s, gap, c->t->start[call]);
        /* it has its answer, and waits for the next request */
        if (gap->blame != MTP__NONE && mtp__case_may_serve(c) &&
            c->t->start[call] - c->t->end[gap->blame] >= REQUEST_NS && !mtp__case_is_launching(c, gap))
            gap->blame = MTP__NONE;
        gap->cause = gap->blame != MTP__NONE ? MTP__IDLE_SYNC : MTP__IDLE_HOST;
    }
}

static bool find_idle(searching *s)
{
    mtp__case *c = s->c;
    /* without steps, what precedes the first work is how the program starts */
    int64_t until = !c->is_stepped && c->works > 0 ? c->work[0].start : c->from;
    uint32_t last = MTP__NONE;
    for (uint32_t i = 0; i < c->works; i++) {
        const mtp__work *w = &c->work[i];
        if (w->start > until) {
            if (!MTP__GROW(c->idle, c->idle_room, c->idles, c->idles + 1, 256))
                return false;
            mtp__idle *gap = &c->idle[c->idles++];
            *gap =
                (mtp__idle){until, mtp__case_clip(c, until, w->start), last, w->span, MTP__NONE, w->call, 0};
            blame(s, gap, w->call);
        }
        if (w->end > until) {
            if (!mtp__case_is_left_out(c, w->start))
                c->device_busy += (double)(w->end - (w->start > until ? w->start : until));
            until = w->end;
            last = w->span;
        }
    }
    return true;
}

mtp_status mtp__case_devices(mtp__case *c)
{
    searching s = {.c = c};
    mtp__by_time order = {0};
    uint8_t *streams = mtp__calloc((size_t)c->t->track_count + 1, 1);
    bool fine = streams != NULL && gather_calls(&s);
    for (uint32_t k = 0; fine && k < c->t->track_count; k++)
        streams[k] = c->wanted[k] && c->t->tracks[k].on_device;
    mtp_status status = fine ? mtp__by_time_init(&order, c->t, streams) : MTP_OK;
    if (fine && status == MTP_OK) {
        fine = gather_work(&s, &order);
        if (s.sync_count > 1)
            qsort(s.syncs, s.sync_count, sizeof *s.syncs, by_end);
        fine = fine && find_idle(&s);
        mtp__by_time_fini(&order);
    }
    mtp__hash_map_fini(&s.calls);
    mtp__free(s.syncs);
    mtp__free(streams);
    return status == MTP_OK && !fine ? MTP_FAIL(MTP_E_NOMEM, "work of devices") : status;
}

/* ---------------------------------------------------------------------------------------------- overlap */

/* Work comes by start, so both unions grow at their ends, and covered time is known up to the next start. */
double mtp__case_exposed(const mtp__case *c, unsigned kinds, unsigned hidden_by)
{
    double exposed = 0;
    int64_t until = INT64_MIN, hidden = INT64_MIN; /* ends of the two unions */
    int64_t at = c->from;
    for (uint32_t i = 0; i <= c->works; i++) {
        int64_t next = i < c->works ? c->work[i].start : c->to;
        /* from `at` to `next` nothing begins: exposed from the end of what hides to the end of what is asked for */
        int64_t a = hidden > at ? hidden : at, b = until < next ? until : next;
        exposed += b > a ? (double)(b - a) : 0;
        at = next > at ? next : at;
        if (i == c->works)
            break;
        if ((kinds >> c->work[i].kind & 1) && !mtp__case_is_left_out(c, c->work[i].start))
            until = c->work[i].end > until ? c->work[i].end : until;
        if (hidden_by >> c->work[i].kind & 1)
            hidden = c->work[i].end > hidden ? c->work[i].end : hidden;
    }
    return exposed;
}
