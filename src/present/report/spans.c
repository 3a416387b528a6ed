/* present/report/spans.c - the spans of a report, exact, as columns; their inputs and stacks; arrows between them.
 *
 * In a row, each span is told relative to the last ones: how many of the open ones have ended (`pop`), the time since
 * the last of those ended or, if none did, since the enclosing one began (`gap`), its own duration (`dur`), its
 * label. Programs repeat themselves, so labels and pops compress to almost nothing, and times to their noise.
 */
#include <string.h>
#include "base/error.h"
#include "present/chrome/chrome.h"
#include "present/report/report.h"

typedef uint64_t number_of(const mtp__plan *p, uint32_t place, void *user);

static void put_column(const mtp__plan *p, mtp__blob *b, const char *name, number_of *of, void *user)
{
    for (uint32_t i = 0; i < p->count; i++)
        p->scratch[i] = of(p, i, user);
    mtp__blob_column(b, name, p->scratch, p->count);
}

static void put_pops(const mtp__plan *p, mtp__blob *b)
{
    for (uint32_t r = 0; r < p->row_count; r++) {
        uint32_t open = 0;
        for (uint32_t i = p->rows[r].first; i < p->rows[r].first + p->rows[r].count; i++) {
            p->scratch[i] = open - p->depth[i];
            open = p->depth[i] + 1u;
        }
    }
    mtp__blob_column(b, "pop", p->scratch, p->count);
}

static void put_gaps(const mtp__plan *p, mtp__blob *b)
{
    const mtp_trace *t = p->t;
    uint32_t last[MTP__LEVELS_MAX + 1]; /* span by level: open, or the last one there */
    for (uint32_t r = 0; r < p->row_count; r++) {
        uint32_t open = 0;
        for (uint32_t i = p->rows[r].first; i < p->rows[r].first + p->rows[r].count; i++) {
            uint32_t depth = p->depth[i], span = p->span[i];
            int64_t from = t->first_ns;
            if (open > depth)
                from = t->end[last[depth]];
            else if (depth > 0)
                from = t->start[last[depth - 1]];
            p->scratch[i] = mtp__zigzag((int64_t)((uint64_t)t->start[span] - (uint64_t)from));
            last[depth] = span;
            open = depth + 1;
        }
    }
    mtp__blob_column(b, "gap", p->scratch, p->count);
}

static uint64_t duration_of(const mtp__plan *p, uint32_t place, void *user)
{
    (void)user;
    uint32_t span = p->span[place];
    return p->t->end[span] > p->t->start[span] ? (uint64_t)p->t->end[span] - (uint64_t)p->t->start[span] : 0;
}

static uint64_t label_of(const mtp__plan *p, uint32_t place, void *user)
{
    (void)user;
    return p->label[place];
}

static uint64_t flags_of(const mtp__plan *p, uint32_t place, void *user)
{
    (void)user;
    return p->t->flags[p->span[place]] & (MTP__SPAN_UNFINISHED | MTP__SPAN_BACKWARD);
}

mtp_status mtp__report_spans(const mtp__plan *p, mtp__blob *b)
{
    put_pops(p, b);
    put_gaps(p, b);
    put_column(p, b, "dur", duration_of, NULL);
    put_column(p, b, "label", label_of, NULL);
    put_column(p, b, "flags", flags_of, NULL);
    return MTP_OK;
}

/* --------------------------------------------------------------------------------- what some spans have */

static uint64_t shape_of(const mtp__plan *p, uint32_t place, void *user)
{
    (void)user;
    return mtp__trace_detail(p->t, p->span[place])->shape;
}

static uint64_t stack_of(const mtp__plan *p, uint32_t place, void *user)
{
    (void)user;
    return mtp__trace_detail(p->t, p->span[place])->stack;
}

static uint64_t bytes_of(const mtp__plan *p, uint32_t place, void *user)
{
    (void)user;
    int64_t bytes = mtp__trace_detail(p->t, p->span[place])->bytes;
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static void put_text(mtp__out *o, const mtp_trace *t, const char *separator, uint32_t text)
{
    mtp_text bytes = mtp__trace_get_text(t, text);
    mtp__out_text(o, separator);
    mtp__out_string(o, bytes.bytes, bytes.length);
}

/* {"shapes": [[dims, types, values], ...], "stacks": [[parent, frame], ...]} and a zero byte, then the
 * columns, which refer to them from 1 on. */
mtp_status mtp__report_details(const mtp__plan *p, mtp__blob *b)
{
    const mtp_trace *t = p->t;
    mtp__out o;
    mtp_status status = mtp__out_init(&o, mtp__blob_sink, b);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "{\"shapes\": [");
    for (uint32_t i = 1; i < t->shape_count; i++) {
        put_text(&o, t, i > 1 ? ",[" : "[", t->shapes[i].dims);
        put_text(&o, t, ",", t->shapes[i].types);
        put_text(&o, t, ",", t->shapes[i].concrete);
        MTP__OUT(&o, "]");
    }
    MTP__OUT(&o, "], \"stacks\": [");
    for (uint32_t i = 1; i < t->stack_count; i++) {
        mtp__out_text(&o, i > 1 ? ",[" : "[");
        mtp__out_u64(&o, t->stacks[i].parent);
        put_text(&o, t, ",", t->stacks[i].frame);
        MTP__OUT(&o, "]");
    }
    MTP__OUT(&o, "]}\0");
    status = mtp__out_finish(&o);
    if (status != MTP_OK || t->detail == NULL)
        return status;
    if (t->shape_count > 1)
        put_column(p, b, "shape", shape_of, NULL);
    if (t->stack_count > 1)
        put_column(p, b, "stack", stack_of, NULL);
    put_column(p, b, "bytes", bytes_of, NULL);
    return MTP_OK;
}

/* ------------------------------------------------------------------------------------------------ links */

typedef struct arrows {
    uint64_t *from, *to, *kind; /* `room` numbers each: places */
    uint32_t count, room;
} arrows;

static void add_arrow(const mtp__plan *p, arrows *a, uint32_t from, uint32_t to, unsigned kind)
{
    if (from >= p->t->span_count || p->place[from] == MTP__NONE || p->place[to] == MTP__NONE ||
        a->count == a->room)
        return;
    a->from[a->count] = p->place[from];
    a->to[a->count] = p->place[to];
    a->kind[a->count++] = kind;
}

/* 0: other flows, 1: from launches to device work, 2: from ops to their backward. */
static unsigned kind_of(const mtp_trace *t, const mtp__link *link)
{
    if (link->kind != MTP__LINK_NAMED)
        return link->kind == MTP__LINK_AC2G ? 1 : 2;
    mtp_text name = mtp__trace_get_text(t, link->name);
    return strcmp(name.bytes, "ac2g") == 0 ? 1 : strcmp(name.bytes, "fwdbwd") == 0 ? 2 : 0;
}

/* The links come by span; a flow's start may come after its ends. */
static mtp_status tie_links(const mtp__plan *p, arrows *a, const mtp__chrome *w, uint8_t *reached)
{
    mtp__pair_map starts = {0};
    bool is_new, well = true;
    for (uint32_t i = 0; i < w->link_count && well; i++)
        if (w->links[i].phase == 's')
            well = mtp__pair_put(&starts, (uint64_t)w->links[i].kind << 32 | w->links[i].name, w->links[i].id,
                                 w->links[i].span, &is_new) != NULL;
    for (uint32_t i = 0; i < w->link_count && well; i++) {
        const mtp__link *link = &w->links[i];
        uint64_t *start = mtp__pair_find(&starts, (uint64_t)link->kind << 32 | link->name, link->id);
        if (link->phase == 's' || start == NULL)
            continue;
        add_arrow(p, a, (uint32_t)*start, link->span, kind_of(p->t, link));
        reached[link->span] = 1;
    }
    mtp__pair_map_fini(&starts);
    return well ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "%u flows", w->link_count);
}

static void put_arrows(mtp__blob *b, arrows *a)
{
    for (uint32_t i = a->count; i-- > 0;) {
        a->to[i] = mtp__zigzag((int64_t)(a->to[i] - (i > 0 ? a->to[i - 1] : 0)));
        a->from[i] = mtp__zigzag((int64_t)(a->from[i] - (i > 0 ? a->from[i - 1] : 0)));
    }
    mtp__blob_column(b, "from", a->from, a->count);
    mtp__blob_column(b, "to", a->to, a->count);
    mtp__blob_column(b, "kind", a->kind, a->count);
}

mtp_status mtp__report_links(const mtp__plan *p, mtp__blob *b)
{
    const mtp_trace *t = p->t;
    mtp__chrome *w = mtp__calloc(1, sizeof *w);
    uint8_t *reached = mtp__calloc((size_t)t->span_count + 1, 1);
    arrows a = {0};
    mtp_status status = w != NULL && reached != NULL ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "flows");
    if (status == MTP_OK) {
        w->t = t;
        status = mtp__chrome_links(w);
    }
    if (status == MTP_OK) {
        a.room = w->link_count + (t->launcher != NULL ? t->span_count : 0) + 1;
        a.from = mtp__calloc(a.room, sizeof *a.from);
        a.to = mtp__calloc(a.room, sizeof *a.to);
        a.kind = mtp__calloc(a.room, sizeof *a.kind);
        status = a.from != NULL && a.to != NULL && a.kind != NULL ? tie_links(p, &a, w, reached)
                                                                  : MTP_FAIL(MTP_E_NOMEM, "%u flows", a.room);
    }
    for (uint32_t i = 0; i < t->span_count && t->launcher != NULL && status == MTP_OK; i++)
        if (t->launcher[i] != MTP__NONE && !reached[i])
            add_arrow(p, &a, t->launcher[i], i, 1);
    if (status == MTP_OK)
        put_arrows(b, &a);
    mtp__free(a.from);
    mtp__free(a.to);
    mtp__free(a.kind);
    mtp__free(reached);
    if (w != NULL)
        mtp__free(w->links);
    mtp__free(w);
    return status;
}
