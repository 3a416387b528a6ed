/* trace/records/reader.h - the state of reading records, shared by the files that do:
 *
 *     from_records.c   the sources, the streams and their chunks, plain scopes; other records by the calls below
 *     scopes.c         BEGIN, END, TENSORS: what becomes a span
 *     points.c         memory, marks, counters, steps, device work: what happens at a moment
 *     complete.c       after the last record: spans without an end, steps, names, nesting
 */
#ifndef MTP_TRACE_RECORDS_READER_H
#define MTP_TRACE_RECORDS_READER_H
#include "trace/build.h"
#include "trace/records/from_device.h"
#include "trace/records/tally.h"

#define MTP__SHARED_WORDS 6

typedef struct mtp__marked_step {
    uint64_t ticks, number;
} mtp__marked_step;

typedef struct mtp__late_name { /* without a name, or defined after the dictionary was read (live profiles) */
    uint32_t span, id;
} mtp__late_name;

typedef struct mtp__shared_detail {
    uint64_t word[MTP__SHARED_WORDS]; /* of the begin that it was made for; [1] without name and kind */
    uint32_t detail;                  /* 0: none yet */
} mtp__shared_detail;

typedef struct mtp__open_span {
    uint32_t span, slot; /* span MTP__NONE: it has ended */
} mtp__open_span;

typedef struct mtp__unfinished_span {
    uint32_t span, cycle;
    uint64_t ticks; /* of its stream's last record in that cycle */
    uint64_t until; /* it had ended by then, in ticks; 0: unknown */
} mtp__unfinished_span;

typedef struct mtp__reader {
    mtp__dictionary dict;
    mtp_trace *t;
    uint32_t only_cycle; /* 0: all */
    mtp__tally *tally;   /* borrowed: events are counted and dropped; NULL: they are kept */
    /* the stream being read */
    uint32_t stream, track, cycle;
    uint64_t next_record, last_ticks;
    uint64_t dropped;  /* by the stream before this point, according to the chunk */
    int64_t closed_ns; /* of the last end: with a coarse clock the next record may round to it */
    uint32_t fresh;    /* the span just begun, to which the next records may refer; MTP__NONE: none */
    mtp__shared_detail shared[MTP__SHARED_WORDS]; /* the latest, by number of words */
    mtp__open_span *open; /* owned: spans without an end yet, by slot; the last entry is open */
    uint32_t open_count, open_room;
    bool nameless;  /* a span's name is undefined */
    uint32_t gaps;  /* ended entries in `open` */
    uint32_t depth; /* of the stream, at this point */
    /* kept until the end */
    mtp__unfinished_span *unfinished; /* owned */
    mtp__device_works devices;
    mtp__marked_step *marks;
    mtp__late_name *late;
    uint32_t unfinished_count, mark_count, late_count;
    uint64_t end_ticks;    /* the latest of all */
    uint64_t now_ticks;    /* of a recording still running; else 0 */
    uint64_t until;        /* of a recording still running: later records are ignored; else 0 */
    uint32_t newest_epoch; /* of definitions seen */
} mtp__reader;

#define MTP__KEEP(r, list, count, item)                                                                      \
    do {                                                                                                     \
        void *kept = (r)->list;                                                                              \
        mtp__list_add((r)->t, &kept, &(r)->count, sizeof *(r)->list, (item));                                \
        (r)->list = kept;                                                                                    \
    } while (0)

/* scopes.c. `w` is the record, of `words` words. */
void mtp__read_begin(mtp__reader *r, const uint64_t *w, uint32_t words, uint64_t ticks);
void mtp__read_end(mtp__reader *r, const uint64_t *w, uint32_t words, uint64_t ticks);
void mtp__read_tensors(mtp__reader *r, const uint64_t *w, uint32_t words);

/* points.c: all other kinds; unknown ones are ignored. */
void mtp__read_point(mtp__reader *r, unsigned kind, const uint64_t *w, uint32_t words, uint64_t ticks);

/* from_records.c: ends the current stream. */
void mtp__reader_close_stream(mtp__reader *r);

/* complete.c: the recording is complete, the trace is not (mtp__trace_finish). */
void mtp__reader_complete(mtp__reader *r);
#endif
