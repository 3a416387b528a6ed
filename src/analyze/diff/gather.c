/* analyze/diff/gather.c - a trace's calls, row by row. Rows are those of the averages, from the same walk. */
#include <math.h>
#include <string.h>
#include "analyze/diff/diff.h"
#include "base/error.h"
#include "base/hash_map.h"
#include "base/os.h"

static bool is_event(const mtp__calls *c, uint32_t span)
{
    return ((const uint32_t *)c->walk.row.p)[span] != 0;
}

int64_t mtp__calls_ns(const mtp__calls *c, uint32_t span, bool own)
{
    return own ? c->self[span] : c->t->end[span] - c->t->start[span] - 2 * mtp__trim(c->t, span);
}

/* ------------------------------------------------------------------------------------------- own times */

/* Self time of each call, as in the averages: without its direct children. Parents come first. */
static void own_times(mtp__calls *c)
{
    const mtp_trace *t = c->t;
    for (uint32_t i = 0; i < t->span_count; i++) {
        uint32_t parent = t->parent[i];
        c->above[i] = parent == MTP__NONE || is_event(c, parent) ? parent : c->above[parent];
        c->self[i] = mtp__calls_ns(c, i, false);
    }
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; !track->on_device && i < track->first + track->count; i++)
            if (c->above[i] != MTP__NONE && is_event(c, i))
                c->self[c->above[i]] -= mtp__calls_ns(c, i, false);
    }
}

/* -------------------------------------------------------------------------------------------- likeness */

/* How often a caller has called a name, before this time. */
static uint32_t next_turn(mtp__calls *c, mtp__hash_map *turns, uint32_t caller, uint32_t name)
{
    uint64_t key = (uint64_t)caller << 32 | name;
    bool is_new;
    uint32_t *count = mtp__hash_map_put(turns, &key, sizeof key, sizeof *count, &is_new);
    c->group.failed |= count == NULL;
    return count != NULL ? (*count)++ : 0;
}

/* Uses names as keys of the averages: they have the same ids in both traces. */
static void find_paths(mtp__calls *c, mtp__hash_map *turns, bool on_device)
{
    const mtp_trace *t = c->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; track->on_device == on_device && i < track->first + track->count;
             i++) {
            uint32_t key = mtp__group_key(&c->group, t->name[i]);
            uint32_t caller = on_device && t->launcher != NULL ? t->launcher[i] : t->parent[i];
            bool step = (t->flags[i] & MTP__SPAN_STEP) != 0;
            uint32_t turn = caller != MTP__NONE && !step ? next_turn(c, turns, caller, key) : 0;
            c->path[i] = mtp__hash_mix(caller != MTP__NONE ? c->path[caller] : 0, key);
            c->spot[i] = mtp__hash_mix(mtp__hash_mix(caller != MTP__NONE ? c->spot[caller] : 0, key), turn);
        }
    }
}

static mtp_status find_likes(mtp__calls *c)
{
    mtp__hash_map turns = {0};
    c->group.failed |= !mtp__hash_map_reserve(&turns, c->t->span_count, sizeof(uint64_t), sizeof(uint32_t));
    find_paths(c, &turns, false);
    find_paths(c, &turns, true);
    mtp__hash_map_fini(&turns);
    return !c->group.failed ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the callers of %u spans", c->t->span_count);
}

static uint64_t work_of(const mtp__calls *c, uint32_t span)
{
    const mtp__detail *d = mtp__trace_detail(c->t, span);
    if (d == c->t->details)
        return 0;
    uint64_t hash = (uint64_t)d->bytes;
    if (d->shape != 0) {
        mtp_text dims = mtp__trace_get_text(c->t, c->t->shapes[d->shape].dims);
        hash = mtp__hash_mix(hash, mtp__hash_bytes(dims.bytes, dims.length));
    }
    for (int k = 0; k < 3; k++)
        hash = mtp__hash_mix(hash, (uint64_t)d->grid[k] << 32 | d->block[k]);
    return hash;
}

size_t mtp__calls_times(const mtp__calls *c, uint32_t row, bool own, mtp__likeness like, mtp__time *out)
{
    size_t first = c->first[row], count = c->first[row + 1] - first;
    size_t most = count < MTP__COMPARE_MAX ? count : MTP__COMPARE_MAX;
    for (size_t i = 0; i < most; i++) {
        uint32_t span = c->span[first + i * count / most];
        int64_t ns = mtp__calls_ns(c, span, own);
        uint64_t stratum = like == MTP__LIKE_ANY ? 0 : like == MTP__LIKE_TURN ? i : work_of(c, span);
        if (like == MTP__LIKE_PATH)
            stratum = mtp__hash_mix(stratum, c->path[span]);
        else if (like == MTP__LIKE_SPOT)
            stratum = mtp__hash_mix(stratum, c->spot[span]);
        out[i] = (mtp__time){log(ns > 1 ? (double)ns : 1), stratum};
    }
    return most;
}

/* ------------------------------------------------------------------------------------------------ life */

/* The spans of each row, in trace order. */
static void sort_by_row(mtp__calls *c)
{
    const uint32_t *row = c->walk.row.p;
    for (uint32_t i = 0; i < c->t->span_count; i++)
        if (row[i] != 0)
            c->first[row[i]]++;
    for (uint32_t r = 0; r < c->group.sums; r++)
        c->first[r + 1] += c->first[r];
    for (uint32_t i = c->t->span_count; i-- > 0;)
        if (row[i] != 0)
            c->span[--c->first[row[i]]] = i; /* first[row + 1] is its end, and becomes its start */
    memmove(c->first, c->first + 1, c->group.sums * sizeof *c->first);
    uint32_t all = 0;
    for (uint32_t i = 0; i < c->t->span_count; i++)
        all += row[i] != 0;
    c->first[c->group.sums] = all;
}

static int64_t grain_of(const mtp_trace *t)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        if ((t->end[i] - t->start[i]) % 1000 != 0)
            return 1;
    return 1000;
}

static mtp_status gather(mtp__calls *c)
{
    uint32_t spans = c->t->span_count;
    mtp_status status = mtp__launched_init(&c->launched, c->t, false, 0);
    if (status != MTP_OK)
        return status;
    c->walk = (mtp__walk){.g = &c->group, .launched = &c->launched};
    status = mtp__walk_run(&c->walk);
    if (status != MTP_OK)
        return status;
    c->above = mtp__calloc((size_t)spans + 1, sizeof *c->above);
    c->self = mtp__calloc((size_t)spans + 1, sizeof *c->self);
    c->path = mtp__calloc((size_t)spans + 1, sizeof *c->path);
    c->spot = mtp__calloc((size_t)spans + 1, sizeof *c->spot);
    c->span = mtp__calloc((size_t)spans + 1, sizeof *c->span);
    c->first = mtp__calloc((size_t)c->group.sums + 2, sizeof *c->first);
    if (c->above == NULL || c->self == NULL || c->path == NULL || c->spot == NULL || c->span == NULL ||
        c->first == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the calls of %u spans", spans);
    own_times(c);
    sort_by_row(c);
    c->grain = grain_of(c->t);
    return find_likes(c);
}

mtp_status mtp__calls_init(mtp__calls *c, const mtp_trace *t, const mtp_averages_options *options,
                           mtp__intern *text)
{
    memset(c, 0, sizeof *c);
    mtp_status status = mtp__group_init(&c->group, t, options, text);
    if (status != MTP_OK)
        return status;
    c->t = t;
    status = gather(c);
    if (status != MTP_OK)
        mtp__calls_fini(c);
    return status;
}

void mtp__calls_fini(mtp__calls *c)
{
    if (c->t == NULL)
        return;
    mtp__walk_fini(&c->walk);
    mtp__launched_fini(&c->launched);
    mtp__group_fini(&c->group);
    mtp__free(c->above);
    mtp__free(c->self);
    mtp__free(c->path);
    mtp__free(c->spot);
    mtp__free(c->span);
    mtp__free(c->first);
    memset(c, 0, sizeof *c);
}
