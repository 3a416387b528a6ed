/* present/report/plan.c - which spans are shown, on which row and level, under which label.
 *
 * A trace with more spans than a page should hold loses its shortest ones: what encloses a span is never shorter, so
 * what is left still nests. The page says how many are missing.
 */
#include <string.h>
#include "base/error.h"
#include "base/grow.h"
#include "present/chrome/chrome.h"
#include "present/report/report.h"
#include "trace/facts.h"

#define DEFAULT_SPANS 6000000u
#define CLASSES 256 /* of durations: four to a doubling */

static unsigned class_of(int64_t ns)
{
    uint64_t v = ns > 0 ? (uint64_t)ns : 0;
    if (v < 8)
        return (unsigned)v;
    unsigned top = 63u - (unsigned)__builtin_clzll(v);
    return (top - 1) * 4 + (unsigned)(v >> (top - 2) & 3u);
}

static int64_t least_of(unsigned class)
{
    return class < 8 ? (int64_t) class : (int64_t)((uint64_t)(4 + class % 4) << (class / 4 - 1));
}

static int64_t length_of(const mtp_trace *t, uint32_t span)
{
    return (int64_t)((uint64_t)t->end[span] - (uint64_t)t->start[span]);
}

/* The shortest duration that is kept, if there are too many spans. */
static void limit_spans(mtp__plan *p, uint64_t most)
{
    const mtp_trace *t = p->t;
    uint64_t count[CLASSES] = {0}, kept = 0;
    p->count = t->span_count;
    if (t->span_count <= most)
        return;
    for (uint32_t i = 0; i < t->span_count; i++)
        count[class_of(length_of(t, i))]++;
    unsigned class = CLASSES;
    while (class > 0 && kept + count[class - 1] <= most)
        kept += count[--class];
    p->least_ns = least_of(class);
    p->count = (uint32_t)kept;
    p->left_out = t->span_count - p->count;
}

/* ----------------------------------------------------------------------------------------------- rows */

static mtp_status make_rows(mtp__plan *p)
{
    const mtp_trace *t = p->t;
    uint32_t *lanes = mtp__calloc((size_t)t->track_count + 1, sizeof *lanes), *lane_of = NULL, at = 0;
    mtp_status status = lanes != NULL ? mtp__chrome_lanes(t, lanes, &lane_of)
                                      : MTP_FAIL(MTP_E_NOMEM, "%u tracks", t->track_count);
    size_t rows = 0;
    for (uint32_t k = 0; k < t->track_count && status == MTP_OK; k++)
        rows += lanes[k];
    if (status == MTP_OK && (p->rows = mtp__calloc(rows + 1, sizeof *p->rows)) == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "the rows of %u tracks", t->track_count);
    for (uint32_t k = 0; k < t->track_count && status == MTP_OK; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t lane = 0; lane < lanes[k]; lane++) {
            mtp__report_row *row = &p->rows[p->row_count++];
            *row = (mtp__report_row){.track = k, .lane = lane, .first = at};
            for (uint32_t i = track->first; i < track->first + track->count; i++) {
                if ((lane_of != NULL && lane_of[i] != lane) ||
                    (p->left_out > 0 && length_of(t, i) < p->least_ns))
                    continue;
                p->place[i] = at;
                p->span[at++] = i;
            }
            row->count = at - row->first;
        }
    }
    mtp__free(lanes);
    mtp__free(lane_of);
    return status;
}

static void set_depths(mtp__plan *p, mtp__report_row *row)
{
    const mtp_trace *t = p->t;
    int64_t end[MTP__LEVELS_MAX + 1];
    uint32_t depth = 0;
    for (uint32_t i = row->first; i < row->first + row->count; i++) {
        while (depth > 0 && end[depth - 1] <= t->start[p->span[i]])
            depth--;
        depth = depth < MTP__LEVELS_MAX ? depth : MTP__LEVELS_MAX;
        p->depth[i] = (uint16_t)depth;
        end[depth++] = t->end[p->span[i]];
        row->depth = depth > row->depth ? depth : row->depth;
    }
}

/* --------------------------------------------------------------------------------------------- labels */

static bool set_labels(mtp__plan *p)
{
    const mtp_trace *t = p->t;
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t span = p->span[i], text = 0;
        bool is_new = false, is_module = mtp__is_module(t, span);
        if (t->category[span] == MTP__CATEGORY_OTHER)
            text = mtp__trace_detail(t, span)->category;
        uint64_t *label = mtp__pair_put(&p->label_of, t->name[span],
                                        (uint64_t)text << 16 | (uint64_t)is_module << 8 | t->category[span],
                                        p->label_count, &is_new);
        if (label == NULL ||
            (is_new && !MTP__GROW(p->labels, p->label_room, p->label_count, p->label_count + 1, 256)))
            return false;
        p->label[i] = (uint32_t)*label;
        if (is_new)
            p->labels[p->label_count++] = (mtp__label){t->name[span], text, t->category[span], is_module};
    }
    return true;
}

mtp_status mtp__plan_init(mtp__plan *p, const mtp_trace *t, uint64_t max_spans)
{
    *p = (mtp__plan){.t = t};
    limit_spans(p, max_spans > 0 ? max_spans : DEFAULT_SPANS);
    size_t room = (size_t)p->count + 1;
    p->span = mtp__calloc(room, sizeof *p->span);
    p->place = mtp__calloc((size_t)t->span_count + 1, sizeof *p->place);
    p->label = mtp__calloc(room, sizeof *p->label);
    p->depth = mtp__calloc(room, sizeof *p->depth);
    p->scratch = mtp__calloc(room, sizeof *p->scratch);
    mtp_status status = MTP_OK;
    if (p->span == NULL || p->place == NULL || p->label == NULL || p->depth == NULL || p->scratch == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "a report of %u spans", p->count);
    if (status == MTP_OK) {
        memset(p->place, 0xff, (size_t)t->span_count * sizeof *p->place); /* MTP__NONE */
        status = make_rows(p);
    }
    for (uint32_t i = 0; i < p->row_count && status == MTP_OK; i++)
        set_depths(p, &p->rows[i]);
    if (status == MTP_OK && !set_labels(p))
        status = MTP_FAIL(MTP_E_NOMEM, "the names of %u spans", p->count);
    if (status != MTP_OK)
        mtp__plan_fini(p);
    return status;
}

void mtp__plan_fini(mtp__plan *p)
{
    mtp__free(p->rows);
    mtp__free(p->span);
    mtp__free(p->place);
    mtp__free(p->label);
    mtp__free(p->depth);
    mtp__free(p->labels);
    mtp__free(p->scratch);
    mtp__pair_map_fini(&p->label_of);
    *p = (mtp__plan){0};
}
