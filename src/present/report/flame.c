/* present/report/flame.c - calls merged by their callers: one node for each distinct path of labels.
 *
 * The roots are tracks. Device work hangs below the call that launched it. Times are of the node itself: the page adds
 * up what is below.
 */
#include <string.h>
#include "base/error.h"
#include "base/grow.h"
#include "present/chrome/chrome.h"
#include "present/report/report.h"
#include "trace/facts.h"

#define NODES_MAX 400000u /* beyond it, calls count for their callers */

typedef struct flame {
    mtp__pair_map child;                              /* (parent, label) -> node */
    uint64_t *parent, *label, *calls, *host, *device; /* label: + 1; a root's is its track, with bit 40 set */
    uint32_t count, parents, labels, callss, hosts, devices; /* and the rooms */
    uint32_t *node;                                          /* by place */
    uint32_t step;                                           /* the label of all steps, + 1; 0: none yet */
} flame;

static uint32_t find(flame *f, uint32_t parent, uint64_t label)
{
    bool is_new = false;
    if (f->count >= NODES_MAX) {
        uint64_t *old = mtp__pair_find(&f->child, parent, label);
        return old != NULL ? (uint32_t)*old : parent;
    }
    uint64_t *at = mtp__pair_put(&f->child, parent, label, f->count, &is_new);
    if (at == NULL)
        return MTP__NONE;
    if (!is_new)
        return (uint32_t)*at;
    uint32_t need = f->count + 1;
    if (!MTP__GROW(f->parent, f->parents, f->count, need, 1024) ||
        !MTP__GROW(f->label, f->labels, f->count, need, 1024) ||
        !MTP__GROW(f->calls, f->callss, f->count, need, 1024) ||
        !MTP__GROW(f->host, f->hosts, f->count, need, 1024) ||
        !MTP__GROW(f->device, f->devices, f->count, need, 1024))
        return MTP__NONE;
    f->parent[f->count] = parent;
    f->label[f->count] = label;
    return f->count++;
}

/* All steps are one: their numbers tell them apart, not what they do. */
static uint64_t label_of(const mtp__plan *p, flame *f, uint32_t place)
{
    if (!mtp__is_step(p->t, p->span[place]))
        return p->label[place] + 1u;
    if (f->step == 0)
        f->step = p->label[place] + 1u;
    return f->step;
}

/* Kineto's span of the whole recording, on a row of its own. */
static bool is_window(const mtp__plan *p, const mtp__report_row *row)
{
    const mtp__label *label = &p->labels[p->label[row->first]];
    return row->count == 1 &&
           strcmp(mtp__trace_get_text(p->t, label->category_text).bytes, MTP__RECORDING_CATEGORY) == 0;
}

/* A host's row: each span's own time is what its children do not cover. */
static bool add_host(const mtp__plan *p, flame *f, const mtp__report_row *row)
{
    const mtp_trace *t = p->t;
    uint32_t root = find(f, 0, (uint64_t)1 << 40 | row->track), open[MTP__LEVELS_MAX + 1];
    if (root == MTP__NONE)
        return false;
    for (uint32_t i = row->first; i < row->first + row->count; i++) {
        uint32_t depth = p->depth[i], parent = depth > 0 ? f->node[open[depth - 1]] : root;
        open[depth] = i;
        f->node[i] = parent;
        if (row->lane > 0 && t->category[p->span[i]] == MTP__CATEGORY_USER_ANNOTATION)
            continue; /* beside the calls that it crosses, whose time is theirs */
        uint32_t node = find(f, parent, label_of(p, f, i));
        if (node == MTP__NONE)
            return false;
        uint64_t time = (uint64_t)t->end[p->span[i]] - (uint64_t)t->start[p->span[i]];
        f->node[i] = node;
        f->calls[node]++;
        f->host[node] += time;
        if (parent != root)
            f->host[parent] -= time;
    }
    return true;
}

static bool add_device(const mtp__plan *p, flame *f, const mtp__report_row *row)
{
    const mtp_trace *t = p->t;
    uint32_t root = MTP__NONE;
    for (uint32_t i = row->first; i < row->first + row->count; i++) {
        uint32_t span = p->span[i], launcher = t->launcher != NULL ? t->launcher[span] : MTP__NONE;
        if (t->category[span] == MTP__CATEGORY_GPU_USER_ANNOTATION)
            continue;
        if (launcher == MTP__NONE || p->place[launcher] == MTP__NONE)
            root = root != MTP__NONE ? root : find(f, 0, (uint64_t)1 << 40 | row->track);
        uint32_t parent =
            launcher != MTP__NONE && p->place[launcher] != MTP__NONE ? f->node[p->place[launcher]] : root;
        uint32_t node = parent != MTP__NONE ? find(f, parent, p->label[i] + 1u) : MTP__NONE;
        if (node == MTP__NONE)
            return false;
        f->calls[node]++;
        f->device[node] += (uint64_t)t->end[span] - (uint64_t)t->start[span];
    }
    return true;
}

static void put_nodes(mtp__blob *b, flame *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        f->parent[i] = i - f->parent[i]; /* small: parents come first */
        if ((int64_t)f->host[i] < 0)     /* spans that overlap their parent's end */
            f->host[i] = 0;
    }
    mtp__blob_column(b, "parent", f->parent, f->count);
    mtp__blob_column(b, "label", f->label, f->count);
    mtp__blob_column(b, "calls", f->calls, f->count);
    mtp__blob_column(b, "host", f->host, f->count);
    mtp__blob_column(b, "device", f->device, f->count);
}

mtp_status mtp__report_flame(const mtp__plan *p, mtp__blob *b)
{
    flame f = {.node = mtp__calloc((size_t)p->count + 1, sizeof *f.node)};
    bool well = f.node != NULL && find(&f, 0, 0) == 0; /* the root of all */
    for (uint32_t r = 0; r < p->row_count && well; r++)
        if (!p->t->tracks[p->rows[r].track].on_device && p->rows[r].count > 0 && !is_window(p, &p->rows[r]))
            well = add_host(p, &f, &p->rows[r]);
    for (uint32_t r = 0; r < p->row_count && well; r++)
        if (p->t->tracks[p->rows[r].track].on_device && p->rows[r].count > 0)
            well = add_device(p, &f, &p->rows[r]);
    if (well)
        put_nodes(b, &f);
    mtp__pair_map_fini(&f.child);
    mtp__free(f.parent);
    mtp__free(f.label);
    mtp__free(f.calls);
    mtp__free(f.host);
    mtp__free(f.device);
    mtp__free(f.node);
    return well ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the call tree of %u spans", p->count);
}
