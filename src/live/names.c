/* live/names.c - the control stream of a recording that is being written: see live.h. Definitions precede their use, so
 * when this stream is read after a record was, it has the record's name; unless that was evicted, or lost. */
#include <string.h>
#include "base/grow.h"
#include "base/os.h"
#include "live/live.h"
#include "record/checks.h"
#include "record/origin.h"
#include "trace/records/dictionary.h"

#define NAMES_MAX (1u << 20) /* ids; a long recording that names scopes after requests defines any number */
#define LANES_FULL 4096u
#define KEPT_EPOCHS 2u /* a record uses ids of its epoch, or the one before it */

static void lane_destroy(mtp__lane *lane)
{
    mtp__free(lane->frame);
    mtp__free(lane->queue);
    mtp__free(lane);
}

mtp__reading *mtp__reading_create(int64_t slot_ns, uint32_t most)
{
    mtp__reading *r = mtp__calloc(1, sizeof *r);
    if (r != NULL && !mtp__live_sums_init(&r->sums, slot_ns, most)) {
        mtp__reading_destroy(r);
        return NULL;
    }
    return r;
}

void mtp__reading_destroy(mtp__reading *r)
{
    if (r == NULL)
        return;
    mtp__live_sums_fini(&r->sums);
    mtp__hash_map_fini(&r->names);
    mtp__blob_parts_fini(&r->parts);
    mtp__ticks_fini(&r->anchors);
    mtp__ticks_fini(&r->line);
    mtp__free(r->stop);
    for (uint32_t i = 0; i < r->lanes; i++)
        lane_destroy(r->lane[i]);
    mtp__free(r->lane);
    mtp__hash_map_fini(&r->lane_of);
    mtp__free(r->device);
    for (uint32_t i = 0; i < r->lefts; i++)
        mtp__free(r->left[i].frame);
    mtp__free(r->left);
    mtp__free(r);
}

/* Threads come and go: those with nothing open and nothing to read are forgotten, the longest idle first. */
static void forget_lanes(mtp__reading *r)
{
    uint64_t first = UINT64_MAX, middle = 0;
    uint32_t kept = 0, idle = 0;
    for (uint32_t i = 0; i < r->lanes; i++)
        if (r->lane[i]->begun && r->lane[i]->last_ticks < first)
            first = r->lane[i]->last_ticks;
    for (uint32_t i = 0; i < r->lanes; i++)
        middle += r->lane[i]->begun ? (r->lane[i]->last_ticks - first) / r->lanes : 0;
    mtp__hash_map_fini(&r->lane_of);
    for (uint32_t i = 0; i < r->lanes; i++) {
        mtp__lane *lane = r->lane[i];
        if (lane->stream == 0 || !lane->begun || lane->frames > 0 || lane->next < lane->queued ||
            lane->last_ticks - first > middle) {
            r->lane[kept++] = lane;
            continue;
        }
        r->lost_before += lane->lost;
        r->forgotten = lane->newest > r->forgotten ? lane->newest : r->forgotten;
        lane_destroy(lane);
        idle++;
    }
    r->lanes = kept;
    r->lanes_full = idle > kept / 4 ? r->lanes_full : 2 * r->lanes_full;
    for (uint32_t i = 0; i < kept; i++) {
        bool is_new;
        uint64_t key = r->lane[i]->stream, *index = mtp__hash_map_put(&r->lane_of, &key, 8, 8, &is_new);
        if (index != NULL)
            *index = i + 1;
        else
            r->sums.out_of_memory = true; /* its records will be those of another lane */
    }
}

mtp__lane *mtp__reading_lane(mtp__reading *r, uint32_t stream)
{
    bool is_new;
    uint64_t key = stream, *index = mtp__hash_map_find(&r->lane_of, &key, sizeof key, sizeof *index);
    if (index != NULL)
        return r->lane[*index - 1];
    mtp__lane *lane = mtp__calloc(1, sizeof *lane);
    if (lane == NULL || !MTP__GROW(r->lane, r->lane_room, r->lanes, r->lanes + 1, 16) ||
        (index = mtp__hash_map_put(&r->lane_of, &key, sizeof key, sizeof *index, &is_new)) == NULL) {
        mtp__free(lane);
        r->sums.out_of_memory = true;
        return NULL;
    }
    lane->stream = stream;
    r->lane[r->lanes] = lane;
    *index = ++r->lanes;
    return lane;
}

void mtp__reading_tidy(mtp__reading *r)
{
    r->lanes_full = r->lanes_full > LANES_FULL ? r->lanes_full : LANES_FULL;
    if (r->lanes > r->lanes_full)
        forget_lanes(r);
}

/* ---------------------------------------------------------------------------------------------------- names */

/* Forgets the names of past epochs. If that is not enough, all; records then show "?" until the next epoch. */
static void forget_names(mtp__reading *r)
{
    mtp__hash_map kept = {0};
    const uint64_t *value;
    memset(r->recent, 0, sizeof r->recent);
    for (size_t at = 0; (value = mtp__hash_map_next(&r->names, &at, 8, 8)) != NULL;) {
        uint32_t epoch = (uint32_t)(*value >> 32);
        bool is_new, is_kept = epoch == MTP__EPOCH_ALL || epoch + KEPT_EPOCHS > r->epoch;
        uint64_t *to =
            is_kept && kept.count < NAMES_MAX / 2 ? mtp__hash_map_put(&kept, value - 1, 8, 8, &is_new) : NULL;
        if (to != NULL)
            *to = *value;
    }
    mtp__hash_map_fini(&r->names);
    r->names = kept;
}

static void define_name(mtp__reading *r, const mtp__blob *blob, uint32_t epoch)
{
    bool is_new;
    uint64_t id = blob->id;
    uint32_t text = mtp__live_key(&r->sums, blob->bytes, blob->length);
    if (r->names.count >= NAMES_MAX)
        forget_names(r);
    uint64_t *value = mtp__hash_map_put(&r->names, &id, sizeof id, sizeof *value, &is_new);
    if (value == NULL)
        r->sums.out_of_memory = true;
    else
        *value = text | (uint64_t)epoch << 32;
    r->recent[blob->id % 256].text = MTP__NO_TEXT;
}

uint32_t mtp__reading_name(mtp__reading *r, uint32_t id)
{
    uint32_t near = id % 256;
    if (r->recent[near].id == id && r->recent[near].text != MTP__NO_TEXT)
        return r->recent[near].text;
    uint64_t key = id;
    const uint64_t *value = mtp__hash_map_find(&r->names, &key, sizeof key, sizeof *value);
    if (value == NULL)
        return MTP__NO_TEXT;
    r->recent[near].id = id;
    r->recent[near].text = (uint32_t)*value;
    return (uint32_t)*value;
}

static void define_thread(mtp__reading *r, const mtp__blob *blob)
{
    mtp__lane *lane = mtp__reading_lane(r, blob->id);
    if (lane == NULL)
        return;
    lane->tid = blob->tid;
    if (blob->length > 0)
        lane->name = mtp__live_text(&r->sums, blob->bytes, blob->length);
}

static void define(mtp__reading *r, unsigned kind, const mtp__blob *blob, uint32_t epoch)
{
    size_t most = sizeof r->command - 1;
    if (kind == MTP__CONTROL_NAME)
        define_name(r, blob, epoch);
    else if (kind == MTP__CONTROL_THREAD && blob->id != 0)
        define_thread(r, blob);
    else if (kind == MTP__CONTROL_PROCESS) {
        most = blob->length < most ? blob->length : most;
        memcpy(r->command, blob->bytes, most);
        r->command[most] = 0;
    }
}

/* -------------------------------------------------------------------------------------------------- records */

static void read_session(mtp__reading *r, const uint64_t *w, uint32_t count)
{
    r->pid = count > 0 ? w[0] : 0;
    if (count >= 5)
        memcpy(&r->ticks_per_ns, &w[4], sizeof r->ticks_per_ns);
    r->parent = count > 5 ? w[5] : 0;
    if (count > 7)
        memcpy(r->boot, &w[6], sizeof r->boot);
}

/* A ring repeats old anchors at the start of each epoch: while it is followed they are known. */
static void read_anchor(mtp__reading *r, const uint64_t *w, uint32_t count)
{
    if (count < 3 || (!r->whole && w[0] <= r->newest_anchor))
        return;
    r->newest_anchor = w[0] > r->newest_anchor ? w[0] : r->newest_anchor;
    r->new_anchors = true;
    if (!mtp__anchor_read(&r->anchors, w, count, r->control_ticks))
        r->sums.out_of_memory = true;
}

static void read_cycle(mtp__reading *r, const uint64_t *w, uint32_t count)
{
    if (count == 0 || w[0] >> 32 != 0)
        return;
    uint32_t cycle = (uint32_t)w[0];
    if (!r->whole)
        r->stops = r->stops > 64 ? 0 : r->stops; /* only the latest matter */
    if (MTP__GROW(r->stop, r->stop_room, r->stops, r->stops + 1, 16))
        r->stop[r->stops++] = (struct mtp__cycle_end){cycle, r->control_ticks};
    else
        r->sums.out_of_memory = true;
}

static void read_one(mtp__reading *r, const mtp__chunk *chunk, unsigned kind, const uint64_t *w,
                     uint32_t count)
{
    mtp__blob blob;
    switch (kind) {
    case MTP__CONTROL_ANCHOR:
        read_anchor(r, w, count);
        break;
    case MTP__CONTROL_SESSION:
        read_session(r, w, count);
        break;
    case MTP__CONTROL_CYCLE:
        read_cycle(r, w, count);
        break;
    case MTP__CONTROL_LEDGER:
        r->has_ledger |= mtp__ledger_read(&r->ledger, w, count);
        break;
    case MTP__CONTROL_NAME:
    case MTP__CONTROL_THREAD:
    case MTP__CONTROL_PROCESS:
        if (mtp__blob_take(&r->parts, kind, w, count, &blob))
            define(r, kind, &blob, chunk->epoch);
        break;
    default:
        break; /* shapes, stacks, metadata: not shown */
    }
}

uint32_t mtp__reading_control(mtp__reading *r, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    uint32_t at = 0;
    if (chunk->epoch != MTP__EPOCH_ALL && chunk->epoch > r->epoch)
        r->epoch = chunk->epoch;
    while (at + 2 <= count && MTP__WORD0_KIND(words[at]) == MTP__KIND_CONTROL) {
        uint64_t length = words[at + 1] >> 32;
        if (length < 2 || length > count - at ||
            MTP__CONTROL_CHECK(words[at + 1]) != mtp__control_check(words[at], words + at, (uint32_t)length))
            break;
        r->control_ticks = mtp__word0_full_ticks(words[at], chunk->base_ticks);
        read_one(r, chunk, MTP__CONTROL_KIND(words[at + 1]), words + at + 2, (uint32_t)length - 2);
        at += (uint32_t)length;
    }
    return at;
}

/* ----------------------------------------------------------------------------------------------------- times */

/* Finishing the line changes its points, so it is made of a copy whenever there are new ones. */
bool mtp__reading_anchor(mtp__reading *r, const mtp__spool_header *h)
{
    if (r->line.count > 0 && !r->new_anchors)
        return true;
    const mtp__anchor made = {h->ticks, h->monotonic_ns, h->realtime_ns, 0, 0};
    if (r->anchors.count == 0 && !mtp__ticks_add(&r->anchors, &made))
        return false;
    if (r->anchors.count == 0) { /* an impossible one */
        static const mtp__anchor none;
        if (!mtp__ticks_add(&r->anchors, &none))
            return false;
    }
    mtp__tick_line next = r->anchors;
    next.point = mtp__calloc(next.count, sizeof *next.point);
    if (next.point == NULL)
        return false;
    next.room = next.count;
    memcpy(next.point, r->anchors.point, next.count * sizeof *next.point);
    mtp__ticks_finish(&next, r->ticks_per_ns != 0 ? r->ticks_per_ns : h->ticks_per_ns);
    if (!r->has_zero)
        r->zero_ns = next.zero_ns;
    r->has_zero = true;
    next.zero_ns = r->zero_ns;
    mtp__ticks_fini(&r->line);
    r->line = next;
    r->new_anchors = false;
    return true;
}

/* The clock of this machine says how long open scopes have lasted, if it is the recording's. */
int64_t mtp__reading_at(mtp__reading *r, uint64_t now_ns)
{
    if (r->line.count == 0)
        return 0;
    if (!r->has_here) {
        mtp__origin origin;
        mtp__origin_read(&origin);
        memcpy(r->here, origin.boot, sizeof r->here);
        r->has_here = true;
    }
    return memcmp(r->here, r->boot, sizeof r->boot) == 0 ? mtp__ticks_of_clock(&r->line, now_ns) : 0;
}

int64_t mtp__reading_now(mtp__reading *r, bool live)
{
    if (r->line.count == 0)
        return 0;
    int64_t last = mtp__ticks_to_ns(&r->line, r->end_ticks != 0 ? r->end_ticks : r->control_ticks);
    int64_t now = live ? mtp__reading_at(r, mtp_now_ns()) : last;
    return now > last ? now : last;
}
