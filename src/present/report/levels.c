/* present/report/levels.c - what each row looks like from afar: the page shows this before it has read the spans, and
 * whenever many of them share a pixel.
 *
 * The whole time is divided into MTP__LEVEL_CELLS cells. For each level of each row, each cell has the share of it that
 * is covered, and the label of the longest span in it.
 */
#include <string.h>
#include "base/error.h"
#include "present/report/report.h"

#define CELLS 4096u
#define LINES_MAX 1024u  /* levels of all rows: the deepest are left out beyond it */
#define FEW_SPANS 20000u /* are drawn one by one */

typedef struct line {
    double covered[CELLS], longest[CELLS];
    uint64_t label[CELLS]; /* + 1; 0: none */
} line;

static void add(line *l, double from, double to, uint64_t label)
{
    uint32_t first = (uint32_t)from, last = (uint32_t)to;
    first = first < CELLS ? first : CELLS - 1;
    last = last < CELLS ? last : CELLS - 1;
    for (uint32_t c = first; c <= last; c++) {
        double low = from > c ? from : c, high = to < c + 1.0 ? to : c + 1.0,
               covered = high > low ? high - low : 0;
        l->covered[c] += covered;
        if (covered >= l->longest[c]) {
            l->longest[c] = covered;
            l->label[c] = label + 1;
        }
    }
}

static void put_line(mtp__blob *b, const line *l)
{
    uint8_t covered[CELLS];
    for (uint32_t c = 0; c < CELLS; c++) {
        double share = l->covered[c] * 255;
        covered[c] = l->label[c] == 0 ? 0 : share >= 254 ? 255 : (uint8_t)(1 + share);
    }
    mtp__blob_bytes_column(b, "cover", covered, CELLS);
    mtp__blob_column(b, "label", l->label, CELLS);
}

/* Lines in order of rows and levels; a page without lines has few spans. */
mtp_status mtp__report_levels(const mtp__plan *p, mtp__blob *b)
{
    const mtp_trace *t = p->t;
    double whole = (double)t->last_ns - (double)t->first_ns, scale = whole > 0 ? CELLS / whole : 0;
    if (p->count < FEW_SPANS)
        return MTP_OK;
    line *l = mtp__calloc(1, sizeof *l);
    if (l == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "what a row looks like from afar");
    uint32_t lines = 0;
    for (uint32_t r = 0; r < p->row_count; r++)
        for (uint32_t depth = 0; depth < p->rows[r].depth && lines < LINES_MAX; depth++, lines++) {
            memset(l, 0, sizeof *l);
            for (uint32_t i = p->rows[r].first; i < p->rows[r].first + p->rows[r].count; i++)
                if (p->depth[i] == depth)
                    add(l, ((double)t->start[p->span[i]] - (double)t->first_ns) * scale,
                        ((double)t->end[p->span[i]] - (double)t->first_ns) * scale, p->label[i]);
            put_line(b, l);
        }
    mtp__free(l);
    return MTP_OK;
}
