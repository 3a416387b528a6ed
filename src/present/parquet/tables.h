/* present/parquet/tables.h - the tables of a trace: docs/fleet.md describes their columns. */
#ifndef MTP_PRESENT_PARQUET_TABLES_H
#define MTP_PRESENT_PARQUET_TABLES_H
#include "analyze/memory.h"
#include "analyze/torch/rules.h"
#include "present/parquet/parquet.h"

typedef struct mtp__parquet_name { /* a name that spans have */
    uint32_t name;                 /* text */
    uint64_t spans;
    int64_t total_ns, self_ns, min_ns, max_ns;
} mtp__parquet_name;

typedef struct mtp__parquet_fact { /* a row of metadata, or of losses */
    const char *key;               /* borrowed; NULL: the text `id` */
    uint32_t id, json;             /* text; json 0: `value` */
    char value[32];                /* JSON */
    uint32_t file;                 /* losses: text, 0: the trace itself */
    int64_t pid, records;          /* losses */
} mtp__parquet_fact;

/* A trace, and what is computed before its tables are written. */
typedef struct mtp__parquet_source {
    const mtp_trace *t; /* borrowed */
    mtp__intern keys;
    mtp__group group;
    mtp__launched launched;
    mtp__bytes bytes;
    mtp__walk walk;
    mtp_steps *steps;
    bool has_steps, has_device_memory, has_flops;
    uint64_t has;                /* bits: details that some span has (spans.c) */
    mtp__scratch depth;          /* uint32_t by span */
    mtp__scratch flops;          /* by shape: a cache */
    mtp__context *contexts;      /* owned: by memory event */
    uint8_t *covered;            /* owned: by memory event: inside an event of a CPU */
    uint32_t *homes;             /* owned: by track: its process */
    mtp__parquet_name *names;    /* owned */
    mtp__parquet_fact *metadata; /* owned */
    mtp__parquet_fact *losses;   /* owned */
    uint32_t name_count, metadata_count, metadata_room, loss_count, loss_room;
} mtp__parquet_source;

mtp_status mtp__parquet_source_init(mtp__parquet_source *s, const mtp_trace *t);
void mtp__parquet_source_fini(mtp__parquet_source *s);

/* X(name, rows of a source s): the order in which they are put in place: metadata comes last and says that all others
 * are there. */
#define MTP__PARQUET_TABLE_LIST(X)                                                                           \
    X(spans, s->t->span_count)                                                                               \
    X(memory, s->t->memory_count)                                                                            \
    X(steps, mtp_steps_count(s->steps))                                                                      \
    X(instants, s->t->instant_count)                                                                         \
    X(names, s->name_count)                                                                                  \
    X(shapes, s->t->shape_count > 0 ? s->t->shape_count - 1 : 0)                                             \
    X(stacks, s->t->stack_count > 0 ? s->t->stack_count - 1 : 0)                                             \
    X(threads, s->t->track_count)                                                                            \
    X(losses, s->loss_count)                                                                                 \
    X(metadata, s->metadata_count)
#define X(table, rows) extern const mtp__parquet_table mtp__parquet_##table;
MTP__PARQUET_TABLE_LIST(X)
#undef X

uint64_t mtp__parquet_details(const mtp_trace *t); /* for mtp__parquet_source.has */
bool mtp__parquet_facts(mtp__parquet_source *s);   /* metadata and losses; false: out of memory */
int64_t mtp__parquet_duration(const mtp_trace *t, uint32_t span);       /* as averages count it */
int64_t mtp__parquet_self(const mtp__parquet_source *s, uint32_t span); /* of a span that has a row */
static inline uint32_t mtp__parquet_row(const mtp__parquet_source *s, uint32_t span) /* of averages, + 1 */
{
    return ((const uint32_t *)s->walk.row.p)[span];
}
/* Nanoseconds since 1970; wraps for what no clock can show. */
static inline int64_t mtp__parquet_time(const mtp_trace *t, int64_t ts)
{
    return mtp__plus(t->base_ns, ts);
}
mtp_text mtp__parquet_trace_text(const void *source, int64_t id); /* a text of the trace */
#endif
