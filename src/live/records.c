/* live/records.c - the records of a thread become sums: see live.h.
 *
 * The rules are those of analyze/torch/nest.c, applied when a scope ends, since what follows is not known: its parent is
 * the scope below it that is still open; one that began in it but outlasts it becomes its parent's. A parent and an only
 * child of the same name are one event, so such a child is held until its parent has a second one, or ends.
 */
#include <string.h>
#include "base/grow.h"
#include "base/os.h"
#include "live/live.h"

static const struct {
    uint8_t class, kind;
} shown_as[] = {
    [MTP_SCOPE_USER] = {MTP__LIVE_ANNOTATION, MTP_EVENT_SCOPE},
    [MTP_SCOPE_OP] = {MTP__LIVE_CPU, MTP_EVENT_OP},
    [MTP_SCOPE_BACKWARD] = {MTP__LIVE_CPU, MTP_EVENT_BACKWARD},
    [MTP_SCOPE_STEP] = {MTP__LIVE_ANNOTATION, MTP_EVENT_STEP},
    [MTP_SCOPE_RUNTIME] = {MTP__LIVE_CPU, MTP_EVENT_RUNTIME},
    [MTP_SCOPE_PYTHON] = {MTP__LIVE_PYTHON, MTP_EVENT_PYTHON},
    [MTP_SCOPE_MODULE] = {MTP__LIVE_PYTHON, MTP_EVENT_MODULE},
    [MTP_SCOPE_OVERHEAD] = {MTP__LIVE_CPU, MTP_EVENT_OVERHEAD},
};
static const uint8_t work_as[] = {
    [MTP_DEVICE_KERNEL] = MTP_EVENT_KERNEL,           [MTP_DEVICE_MEMCPY] = MTP_EVENT_MEMCPY,
    [MTP_DEVICE_MEMSET] = MTP_EVENT_MEMSET,           [MTP_DEVICE_SYNC] = MTP_EVENT_SYNC,
    [MTP_DEVICE_ANNOTATION] = MTP_EVENT_DEVICE_SCOPE,
};
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define UNNAMED 1u /* the text "?" */

/* --------------------------------------------------------------------------------------------- open scopes */

/* The innermost frame below `at` that torch shows; NULL: none. */
static mtp__frame *shown_below(const mtp__lane *lane, uint32_t at)
{
    while (at > 0)
        if (!lane->frame[--at].through)
            return &lane->frame[at];
    return NULL;
}

static void release_held(mtp__reading *r, mtp__frame *f, int64_t at)
{
    mtp__live_ended(&r->sums, f->held_row, f->held_ns, f->held_ns - f->held_child_ns, at);
    f->holds = false;
}

/* torch's rule is for ops: a Python function that calls itself is called as often as it is. */
static bool is_same(const mtp__frame *parent, const mtp__frame *f)
{
    return parent->text == f->text && !(parent->class == MTP__LIVE_PYTHON && f->class == MTP__LIVE_PYTHON);
}

/* torch sees a span that begins when another ends as one after it, even if it began before. */
static void resolve_touched(mtp__reading *r, mtp__frame *f, int64_t now)
{
    if (f->touched >= now)
        return;
    f->children = 2;
    f->touched = INT64_MAX;
    if (f->holds)
        release_held(r, f, now);
}

/* A child has ended. true: it is held. */
static bool take_child(mtp__reading *r, mtp__frame *parent, const mtp__frame *f, int64_t ns, int64_t end)
{
    resolve_touched(r, parent, end);
    parent->child_ns += ns;
    if (ns == 0 && parent->children > 0) {
        parent->touched = end;
        return false;
    }
    parent->children = parent->children < 2 ? parent->children + 1 : 2;
    if (parent->children == 1 && is_same(parent, f)) {
        parent->holds = true;
        parent->held_row = f->row;
        parent->held_ns = ns;
        parent->held_child_ns = f->child_ns;
        parent->held_start = f->start;
        return true;
    }
    if (parent->holds)
        release_held(r, parent, end);
    return false;
}

/* The frame's times go to its row and its parent. With a line that is still being extrapolated, time may seem to run
 * back by some nanoseconds. */
static void sum_up(mtp__reading *r, mtp__frame *parent, mtp__frame *f, int64_t end)
{
    int64_t ns = end > f->start || r->whole ? end - f->start : 0;
    resolve_touched(r, f, end);
    if (f->holds && f->held_start < end)
        f->child_ns = f->held_child_ns;
    else if (f->holds)
        release_held(r, f, end);
    if (f->child_ns > ns && !r->whole)
        f->child_ns = ns;
    if (f->kind == MTP_EVENT_STEP &&
        r->step_scope.number > 0) { /* 0: what came before the first one, imports included */
        r->step_scope.took = ns;
        r->step_scope.all += ns;
        r->step_scope.complete++;
    }
    if (parent == NULL || !take_child(r, parent, f, ns, end))
        mtp__live_ended(&r->sums, f->row, ns, ns - f->child_ns, end);
}

static void end_frame(mtp__reading *r, mtp__lane *lane, uint32_t at, int64_t end)
{
    mtp__frame f = lane->frame[at];
    end = f.ended ? f.end : end;
    if (!f.through)
        sum_up(r, shown_below(lane, at), &f, end);
    if (--lane->frames > at)
        memmove(&lane->frame[at], &lane->frame[at + 1], (lane->frames - at) * sizeof f);
}

/* A scope that ends below others stays until time has passed: those that end at the same nanosecond are inside it. (The last
 * record of a recording may be such an end; all that is open ends then.) */
static void end_ghost(mtp__reading *r, mtp__lane *lane, int64_t now)
{
    if (lane->ghost == 0 || lane->frame[lane->ghost - 1].end >= now)
        return;
    end_frame(r, lane, lane->ghost - 1, lane->frame[lane->ghost - 1].end);
    lane->ghost = 0;
}

static void end_all(mtp__reading *r, mtp__lane *lane, uint64_t ticks)
{
    int64_t end = mtp__ticks_to_ns(&r->line, ticks);
    end_ghost(r, lane, end);
    while (lane->frames > 0)
        end_frame(r, lane, lane->frames - 1, end);
    lane->ghost = 0;
}

static uint64_t stop_of(const mtp__reading *r, uint32_t cycle)
{
    for (uint32_t i = r->stops; i > 0; i--)
        if (r->stop[i - 1].cycle == cycle)
            return r->stop[i - 1].ticks;
    return 0;
}

/* What is open lasts to the end of its cycle, which is known when everything has been read. */
static void leave_open(mtp__reading *r, mtp__lane *lane)
{
    if (lane->frames == 0)
        return;
    if (!MTP__GROW(r->left, r->left_room, r->lefts, r->lefts + 1, 16)) {
        r->sums.out_of_memory = true;
        return;
    }
    r->left[r->lefts++] =
        (mtp__left_open){lane->frame, lane->frames, lane->cycle, lane->ghost, lane->last_ticks};
    lane->frame = NULL;
    lane->frames = lane->frame_room = lane->ghost = 0;
}

/* ------------------------------------------------------------------------------------------------- chunks */

bool mtp__lane_follows(const mtp__lane *lane, const mtp__chunk *chunk)
{
    return !lane->begun || lane->cycle != chunk->cycle ||
           chunk->first - chunk->dropped == lane->next_record - lane->dropped;
}

/* Records are missing, or this is another cycle: nothing is known of the scopes that were open. */
static void open_lane(mtp__reading *r, mtp__lane *lane, const mtp__chunk *chunk)
{
    uint64_t stop = stop_of(r, lane->cycle), last = lane->last_ticks;
    if (r->whole)
        leave_open(r, lane);
    else /* in a gap, nobody knows until when: to the last record that was seen */
        end_all(r, lane, lane->cycle != chunk->cycle && stop > last ? stop : last);
    if (lane->begun && lane->cycle == chunk->cycle)
        r->missed += chunk->first - chunk->dropped - (lane->next_record - lane->dropped);
    lane->cycle = chunk->cycle;
    lane->unknown = chunk->depth;
}

void mtp__lane_chunk(mtp__reading *r, mtp__lane *lane, const mtp__chunk *chunk)
{
    int64_t end = mtp__ticks_to_ns(&r->line, chunk->base_ticks > lane->last_ticks ? chunk->base_ticks
                                                                                  : lane->last_ticks);
    if (lane->begun)
        lane->lost += chunk->dropped - lane->dropped;
    if (!lane->begun || lane->cycle != chunk->cycle || !mtp__lane_follows(lane, chunk))
        open_lane(r, lane, chunk);
    else /* if records were dropped, scopes deeper than the thread is now have ended meanwhile */
        while (lane->frames > 0 && (int32_t)(lane->frame[lane->frames - 1].slot - chunk->depth) >= 0) {
            end_ghost(r, lane, INT64_MAX);
            end_frame(r, lane, lane->frames - 1, end);
        }
    lane->begun = true;
    lane->depth = chunk->depth;
    lane->unknown = lane->unknown < lane->depth ? lane->unknown : lane->depth;
    lane->dropped = chunk->dropped;
    lane->next_record = chunk->first;
}

/* ------------------------------------------------------------------------------------------------ records */

/* The time since the last begin or end was spent in the innermost scope. */
static void note_time(mtp__reading *r, mtp__lane *lane, int64_t now)
{
    const mtp__frame *top = shown_below(lane, lane->frames);
    if (top != NULL && now > lane->since)
        mtp__live_spent(&r->sums, top->row, lane->since, now);
    lane->since = now;
}

static int64_t number_of(const uint64_t *w, uint32_t words)
{
    mtp__payload p = mtp__payload_of(w, words);
    int64_t number = 0;
    uint64_t value;
    for (uint32_t bit; (bit = mtp__payload_next(&p, &value)) != 0;)
        number = bit == MTP__HAS_NUMBER ? (int64_t)value : number;
    return number;
}

/* false: its name is not defined yet. */
static bool on_begin(mtp__reading *r, mtp__lane *lane, const uint64_t *w, uint32_t words, int64_t now,
                     bool wait)
{
    uint32_t id = (uint32_t)w[1], kind = (uint32_t)(w[1] >> 32) & 0xff;
    uint32_t text = id != 0 ? mtp__reading_name(r, id) : UNNAMED;
    if (text == MTP__NO_TEXT && wait)
        return false;
    text = text == MTP__NO_TEXT ? UNNAMED : text;
    kind = kind < COUNT(shown_as) ? kind : MTP_SCOPE_USER;
    mtp__frame f = {.start = now, .touched = INT64_MAX, .slot = lane->depth++, .text = text};
    f.through = text == MTP__TEXT_FILTERED;
    f.class = shown_as[kind].class;
    f.kind = shown_as[kind].kind;
    f.row = f.through ? 0 : mtp__live_row(&r->sums, text, f.class, f.kind);
    if (kind == MTP_SCOPE_STEP)
        r->step_scope.number = number_of(w, words);
    note_time(r, lane, now);
    if (f.row == MTP__NO_ROW || lane->frames >= MTP__FRAMES_MAX)
        return true;
    if (MTP__GROW(lane->frame, lane->frame_room, lane->frames, lane->frames + 1, 16))
        lane->frame[lane->frames++] = f;
    else
        r->sums.out_of_memory = true;
    return true;
}

/* Slots increase along the list; depths may wrap. lane->frames: not found. */
static uint32_t find_slot(const mtp__lane *lane, uint32_t slot)
{
    uint32_t low = 0, high = lane->frames;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if ((int32_t)(lane->frame[mid].slot - slot) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < lane->frames && lane->frame[low].slot == slot ? low : lane->frames;
}

static void on_end(mtp__reading *r, mtp__lane *lane, const uint64_t *w, uint32_t words, int64_t now)
{
    bool is_named = words >= 2 && MTP__END_IS_NAMED(w[1]);
    uint32_t at = lane->frames;
    if (is_named)
        at = find_slot(lane, (uint32_t)w[1]);
    else if (lane->depth--, lane->frames > 0 && lane->frame[lane->frames - 1].slot == lane->depth)
        at = lane->frames - 1;
    note_time(r, lane, now);
    if (at + 1 < lane->frames) {
        end_ghost(r, lane, INT64_MAX); /* only one is kept */
        at = find_slot(lane, (uint32_t)w[1]);
        lane->frame[at].ended = true;
        lane->frame[at].end = now;
        lane->ghost = at + 1;
    } else if (at < lane->frames)
        end_frame(r, lane, at, now);
    else if (is_named && (uint32_t)w[1] < lane->unknown)
        lane->unknown--;
    if (lane->unknown > lane->depth)
        lane->unknown = lane->depth;
}

static void on_memory(mtp__reading *r, const uint64_t *w, uint64_t ticks)
{
    uint32_t device = (uint32_t)(w[1] >> 48), i = 0;
    while (i < r->devices && r->device[i].device != device)
        i++;
    if (i == r->devices) {
        if (!MTP__GROW(r->device, r->device_room, r->devices, r->devices + 1, 4)) {
            r->sums.out_of_memory = true;
            return;
        }
        r->device[r->devices++] = (mtp__live_device){.device = device, .peak = INT64_MIN};
    }
    mtp__live_device *d = &r->device[i];
    int64_t total = (int64_t)w[4];
    d->peak = total > d->peak ? total : d->peak;
    if (ticks < d->ticks)
        return; /* of another thread, later in time */
    d->ticks = ticks;
    d->allocated = total;
    d->reserved = (int64_t)w[5];
}

static void on_step(mtp__reading *r, uint64_t number, int64_t now)
{
    if (r->steps++ > 0 && (int64_t)number == r->step.number + 1 && now >= r->step.last &&
        r->step.number > 0) { /* 0: what came before the first one, imports included */
        r->step.took = now - r->step.last;
        r->step.all += r->step.took;
        r->step.complete++;
    }
    r->step.number = (int64_t)number;
    r->step.last = now;
}

/* Work in a device's own clock is as long as that says; a trace corrects its rate. */
static bool on_device(mtp__reading *r, const uint64_t *w, int64_t now, bool wait)
{
    uint32_t id = (uint32_t)w[1], kind = (uint32_t)(w[1] >> 32) & 0xff, clock = (uint32_t)(w[1] >> 40) & 0xff;
    uint32_t text = id != 0 ? mtp__reading_name(r, id) : UNNAMED;
    if (text == MTP__NO_TEXT && wait)
        return false;
    if (text == MTP__TEXT_FILTERED)
        return true;
    bool known = kind < COUNT(work_as), annotation = kind == MTP_DEVICE_ANNOTATION;
    uint32_t row = mtp__live_row(&r->sums, text == MTP__NO_TEXT ? UNNAMED : text,
                                 annotation ? MTP__LIVE_DEVICE_ANNOTATION : MTP__LIVE_DEVICE,
                                 known ? work_as[kind] : MTP_EVENT_OTHER);
    int64_t ns = (int64_t)(w[3] - w[2]);
    if (clock == MTP_CLOCK_TICKS)
        ns = mtp__ticks_to_ns(&r->line, w[3]) - mtp__ticks_to_ns(&r->line, w[2]);
    else if (clock == MTP_CLOCK_MONOTONIC)
        ns = mtp__ticks_of_clock(&r->line, w[3]) - mtp__ticks_of_clock(&r->line, w[2]);
    ns = ns < 0 || ns > MTP__NS_MAX ? 0 : ns;
    if (row == MTP__NO_ROW)
        return true;
    mtp__live_ended(&r->sums, row, ns, ns, now);
    mtp__live_slot *slot = mtp__live_slot_of(r->sums.sum[row].slot, mtp__live_part(&r->sums, now));
    if (slot != NULL)
        slot->self += ns;
    return true;
}

static bool on_record(mtp__reading *r, mtp__lane *lane, const uint64_t *w, uint32_t words, uint64_t ticks,
                      bool wait)
{
    unsigned kind = MTP__WORD0_KIND(w[0]);
    int64_t now = mtp__ticks_to_ns(&r->line, ticks);
    if (words < mtp__kind_words(kind))
        return true;
    if (__builtin_expect(lane->ghost != 0, 0))
        end_ghost(r, lane, now);
    if (kind == MTP__KIND_BEGIN && !on_begin(r, lane, w, words, now, wait))
        return false;
    if (kind == MTP__KIND_DEVICE && !on_device(r, w, now, wait))
        return false;
    if (kind == MTP__KIND_END)
        on_end(r, lane, w, words, now);
    else if (kind == MTP__KIND_MEMORY)
        on_memory(r, w, ticks);
    else if (kind == MTP__KIND_STEP)
        on_step(r, w[1], now);
    mtp__live_slot *all = mtp__live_slot_of(r->sums.all, mtp__live_part(&r->sums, now));
    if (all != NULL)
        all->count++;
    return true;
}

uint32_t mtp__lane_records(mtp__reading *r, mtp__lane *lane, const mtp__chunk *chunk, const uint64_t *words,
                           uint32_t count, uint32_t sure)
{
    uint64_t records = 0;
    uint32_t at = 0;
    while (at < count) {
        uint32_t length = MTP__WORD0_LENGTH(words[at]);
        if (length == 0 || length > count - at)
            break;
        uint64_t ticks = mtp__word0_full_ticks(words[at], chunk->base_ticks);
        bool back = ticks < lane->last_ticks;
        ticks = back ? lane->last_ticks : ticks;
        if (!on_record(r, lane, words + at, length, ticks, at >= sure))
            break;
        r->clock_faults += back;
        lane->last_ticks = ticks;
        at += length;
        records++;
    }
    if (!r->whole)
        end_ghost(r, lane, INT64_MAX);
    lane->next_record += records;
    lane->records += records;
    r->records += records;
    r->end_ticks = lane->last_ticks > r->end_ticks ? lane->last_ticks : r->end_ticks;
    return at;
}

/* As trace/records/complete.c: what is open lasts until its cycle was stopped; if that is unknown, to the last record of
 * all; if ends may have been lost, to its thread's last record. */
void mtp__reading_finish(mtp__reading *r, bool damaged)
{
    const uint64_t *by = r->ledger.dropped_by;
    bool lost =
        damaged || (r->has_ledger &&
                    by[MTP_DROP_BUDGET] + by[MTP_DROP_DISK] + by[MTP_DROP_NOMEM] + by[MTP_DROP_DAMAGED] > 0);
    for (uint32_t i = 0; i < r->lanes; i++)
        leave_open(r, r->lane[i]);
    for (uint32_t i = 0; i < r->lefts; i++) {
        mtp__left_open *left = &r->left[i];
        mtp__lane lane = {.frame = left->frame, .frames = left->frames, .ghost = left->ghost};
        uint64_t stop = lost ? left->last_ticks : stop_of(r, left->cycle);
        stop = stop != 0 ? stop : r->end_ticks;
        end_all(r, &lane, stop > left->last_ticks ? stop : left->last_ticks);
        mtp__free(left->frame);
    }
    r->lefts = 0;
}
