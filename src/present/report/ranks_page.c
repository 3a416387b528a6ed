/* present/report/ranks_page.c - the ranks of a job, compared: what `mtprof ranks --json` says without each step, a zero
 * byte, and the steps as columns: of all ranks, one after the other.
 *
 * Times that the others make up are what is left of them, usually nothing: such columns compress to no bytes. Of very many
 * steps, times are whole microseconds, whose noise is what the file would otherwise consist of.
 */
#include "base/error.h"
#include "base/os.h"
#include "present/ranks_json.h"
#include "present/report/report.h"

#define EXACT_CELLS 250000u /* ranks x steps; bench: tests/unit/test_report_ranks.c prints the bytes */
#define COARSE_NS 1000

static int64_t number_of(const mtp_rank_step *s, const mtp_rank_step *before)
{
    return s->number - (before != NULL ? before->number : 0) - 1;
}

/* X(column, of a step s and the one before it; times: t). Hidden: communication that computation hides. */
#define COLUMN_LIST(X)                                                                                       \
    X(number, number_of(s, before))                                                                          \
    X(wall, t->wall_ns)                                                                                      \
    X(compute, t->compute_ns)                                                                                \
    X(exposed, t->exposed_ns)                                                                                \
    X(hidden, t->comm_ns - t->exposed_ns)                                                                    \
    X(waiting, t->waiting_ns)                                                                                \
    X(transfer, t->transfer_ns - (t->exposed_ns - t->waiting_ns))                                            \
    X(copies, t->copies_ns)                                                                                  \
    X(idle, t->idle_ns - (t->wall_ns - t->compute_ns - t->exposed_ns - t->copies_ns))                        \
    X(late, t->late_ns)

typedef int64_t value_of(const mtp_rank_step *s, const mtp_rank_step *before);
#define X(name, value)                                                                                       \
    static int64_t name##_of_step(const mtp_rank_step *s, const mtp_rank_step *before)                       \
    {                                                                                                        \
        const mtp_rank_times *t = &s->times;                                                                 \
        (void)t, (void)before;                                                                               \
        return value;                                                                                        \
    }
COLUMN_LIST(X)
#undef X

static uint32_t steps_of(const mtp_ranks *ranks, size_t rank)
{
    uint32_t count = 0;
    while (mtp_ranks_step(ranks, rank, count) != NULL)
        count++;
    return count;
}

static bool is_compared(const mtp_ranks *ranks, size_t rank)
{
    const mtp_rank_row *row = mtp_ranks_row(ranks, rank);
    return row != NULL && *row->problem == 0;
}

static int64_t rounded(int64_t value, int64_t unit)
{
    return unit == 1 ? value : (value + (value < 0 ? -unit / 2 : unit / 2)) / unit;
}

static void put_column(mtp__blob *b, const mtp_ranks *ranks, const char *name, value_of *value, int64_t unit,
                       uint64_t *room)
{
    uint32_t at = 0;
    for (size_t k = 0; is_compared(ranks, k); k++) {
        const mtp_rank_step *s, *before = NULL;
        for (size_t i = 0; (s = mtp_ranks_step(ranks, k, i)) != NULL; i++, before = s)
            room[at++] = mtp__zigzag(rounded(value(s, before), unit));
    }
    mtp__blob_column(b, name, room, at);
}

static mtp_status put_steps(const mtp_ranks *ranks, mtp__blob *b)
{
    static const struct {
        const char *name;
        value_of *value;
    } columns[] = {
#define X(name, value) {#name, name##_of_step},
        COLUMN_LIST(X)
#undef X
    };
    uint64_t cells = 0;
    uint32_t used = 0;
    for (; is_compared(ranks, used); used++)
        cells += steps_of(ranks, used);
    uint64_t *room = cells <= UINT32_MAX ? mtp__calloc((size_t)cells + used + 1, sizeof *room) : NULL;
    if (room == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the steps of %u ranks", used);
    int64_t unit = cells > EXACT_CELLS ? COARSE_NS : 1;
    for (uint32_t k = 0; k < used; k++)
        room[k] = steps_of(ranks, k);
    mtp__blob_column(b, "count", room, used);
    room[0] = (uint64_t)unit;
    mtp__blob_column(b, "unit", room, 1);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        put_column(b, ranks, columns[i].name, columns[i].value, i == 0 ? 1 : unit, room);
    mtp__free(room);
    return MTP_OK;
}

mtp_status mtp__report_ranks(const mtp_ranks *ranks, mtp__blob *b)
{
    mtp__out o;
    mtp_status status = mtp__out_init(&o, mtp__blob_sink, b);
    if (status != MTP_OK)
        return status;
    mtp__ranks_put(&o, ranks, false);
    status = mtp__out_finish(&o);
    if (status != MTP_OK)
        return status;
    mtp__blob_sink(b, "", 1);
    return put_steps(ranks, b);
}
